"""What algorithms share that keep the window's rows.

They trade memory for speed: all rows of the window stay, behind an index, and each slot holds a short list of the
best, sorted by the one total order (kernels/ranked_lists.py). Since the list is about one window, a slot has one
horizon: watches with other windows get other slots of the same index. A question about another horizon than a slot's
own (a snapshot) is answered by scoring the stored rows.

A subclass keeps the rows and the lists:

    opened(slot), resized(slot), closed(slot)          a query came, has another k, went
    window_step(columns, time, seq, deleted…)          rows come, oldest first (unless it takes `any_order`); some may
                                                       be deleted; time has gone on
    fill(columns, time, seq)                           rows from the past that were retained
    rows(horizon), seqs()                              what is stored

After each of them the last min(k, size) entries of a slot's list are its exact top, all of them inside its horizon
(fewer than k only where no more rows are inside), and `touched` is set for the slots whose top may have changed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from skyband.algorithms.contract import Algorithm
from skyband.algorithms.kernels.ranked_lists import Ranked
from skyband.core.exchange import Present
from skyband.core.types import LOWEST, Floats, Ints, Recency
from skyband.query.expression.score_space import Space

_SLOT_ARRAYS = ("ks", "horizon_time", "horizon_seq", "edge")


class WindowAlgorithm(Algorithm):
    """An index over the window's rows, and a ranked list for each slot."""

    counter_names: ClassVar[tuple[str, ...]]
    candidate_bytes = 24
    counts_seqs = (
        False  # whether `window_step` takes the seq of the first row alone where the others' follow it
    )
    any_order = False  # whether it takes rows in any order of recency, best in that of arrival

    def __init__(self, options: Mapping[str, float], space: Space) -> None:
        self.options = {**self.card.options, **options}
        self.space = space
        self.ranked = Ranked()
        self.ks = np.empty(0, dtype=np.int64)
        self.horizon_time = np.empty(0, dtype=np.int64)
        self.horizon_seq = np.empty(0, dtype=np.int64)
        self.touched = np.empty(0, dtype=np.uint8)
        self.edge = np.empty(0, dtype=np.float64)  # threshold families alone: rows with good > edge
        self.low = np.empty((0, len(space.boxed)), dtype=np.float64)
        self.high = np.empty((0, len(space.boxed)), dtype=np.float64)
        self.constants = np.empty((0, 0), dtype=np.float64)
        self.counts = np.zeros((0, len(self.counter_names)), dtype=np.int64)

    # -- slots ---------------------------------------------------------------------------------------------

    def add(
        self,
        k: int,
        constants: Sequence[float],
        horizon: Recency,
        low: Sequence[float] = (),
        high: Sequence[float] = (),
        edge: float = -np.inf,
    ) -> int:
        """A query comes: its constants, the limits of its box, its bound if it is about a threshold."""
        free = np.flatnonzero(self.ks == 0)
        if len(free):
            slot = int(free[0])
            self.ranked.clear(slot)
        else:
            slot = self.ranked.add()
            if slot == 0:
                self.constants = np.empty((0, len(constants)), dtype=np.float64)
            for name in ("ks", "horizon_time", "horizon_seq", "touched", *("edge",) * self.space.bounded):
                old = getattr(self, name)
                setattr(self, name, np.append(old, np.zeros(1, dtype=old.dtype)))
            for name in ("low", "high", "constants", "counts"):
                old = getattr(self, name)
                setattr(self, name, np.vstack([old, np.zeros((1, old.shape[1]), dtype=old.dtype)]))
        self.ks[slot] = k
        self.horizon_time[slot], self.horizon_seq[slot] = horizon
        self.constants[slot], self.low[slot], self.high[slot] = constants, low, high
        if self.space.bounded:
            self.edge[slot] = edge
        self.counts[slot] = 0
        self.opened(slot)
        self.touched[slot] = 1
        return slot

    def resize(self, slot: int, k: int) -> None:
        if k != self.ks[slot]:
            self.ks[slot] = k
            self.resized(slot)
            self.touched[slot] = 1

    def remove(self, slot: int) -> None:
        self.closed(slot)
        self.ks[slot] = 0
        self.ranked.clear(slot)

    @abstractmethod
    def opened(self, slot: int) -> None:
        """The slot was added: compute its list from the rows that are there."""

    @abstractmethod
    def resized(self, slot: int) -> None:
        """The slot has another k: make its list valid for it."""

    @abstractmethod
    def closed(self, slot: int) -> None:
        """The slot goes: forget it in the index."""

    # -- rows ----------------------------------------------------------------------------------------------

    def step(
        self,
        columns: tuple[Floats, ...],
        time: Ints,
        seq: Ints,
        horizon_time: Ints,
        horizon_seq: Ints,
        deleted_time: Ints,
        deleted_seq: Ints,
    ) -> None:
        """Time goes on to a horizon for each slot; rows come, oldest first; stored rows may be deleted."""
        self.horizon_time, self.horizon_seq = horizon_time, horizon_seq
        self.window_step(columns, time, seq, deleted_time, deleted_seq)

    @abstractmethod
    def window_step(
        self, columns: tuple[Floats, ...], time: Ints, seq: Ints, deleted_time: Ints, deleted_seq: Ints
    ) -> None: ...

    @abstractmethod
    def fill(self, columns: tuple[Floats, ...], time: Ints, seq: Ints) -> None:
        """Rows from the past, oldest first: those that are not stored yet are from now on."""

    @abstractmethod
    def rows(self, horizon: Recency) -> tuple[tuple[Floats, ...], Ints, Ints]:
        """The stored rows at or after a horizon, oldest first: columns, time, seq."""

    def values(self, seq: Ints) -> tuple[Floats, ...]:
        """The columns of stored rows, by seq: they are kept nowhere else. A subclass may know a quicker way."""
        columns, _, seqs = self.rows(LOWEST)
        order = np.argsort(seqs)
        places = order[np.searchsorted(seqs, seq, sorter=order)]
        return tuple(column[places] for column in columns)

    @abstractmethod
    def window_size(self) -> tuple[int, int]:
        """Rows stored, and bytes of rows and index."""

    def oldest_horizon(self) -> Recency:
        """Rows before it are in no slot's window. After every row, if no slot is in use."""
        used = np.flatnonzero(self.ks)
        if not len(used):
            return Recency(2**63 - 1, 2**63 - 1)
        time, seq = self.horizon_time[used], self.horizon_seq[used]
        first = np.lexsort((seq, time))[0]
        return Recency(int(time[first]), int(seq[first]))

    # -- answers -------------------------------------------------------------------------------------------

    @property
    def timed(self) -> bool:
        """Whether listed rows may have other times than 0."""
        return True

    def present(
        self,
        answers: Any,
        slots: Ints,
        stale: Ints,
        ks: Ints,
        horizon_time: Ints,
        horizon_seq: Ints,
    ) -> Present:
        found = self.ranked.present(self.touched, slots, stale, ks)
        self.touched.fill(0)
        return found

    def top(self, slot: int, k: int, horizon: Recency) -> tuple[Floats, Ints, Ints]:
        if horizon <= (self.horizon_time[slot], self.horizon_seq[slot]):
            return self.ranked.top(slot, k)
        good, time, seq = self.scored(slot, horizon)
        best = np.lexsort((seq, time, good))[::-1][:k]
        return good[best], time[best], seq[best]

    def scored(self, slot: int, horizon: Recency) -> tuple[Floats, Ints, Ints]:
        """All stored rows at or after the horizon that the slot's query may answer with: the plain way."""
        columns, time, seq = self.rows(horizon)
        good = self.space.good(columns, self.constants[slot])
        fits = ~np.isnan(good)
        for i, axis in enumerate(self.space.boxed):
            fits &= (columns[axis] >= self.low[slot, i]) & (columns[axis] <= self.high[slot, i])
        if self.space.bounded:
            fits &= good > self.edge[slot]
        return good[fits], time[fits], seq[fits]

    def size(self, slot: int) -> tuple[int, int]:
        return int(self.ranked.size[slot]), self.ranked.bytes(slot)

    def counters(self, slot: int) -> dict[str, int]:
        return dict(zip(self.counter_names, self.counts[slot].tolist(), strict=True))

    # -- keeping -------------------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """Slots, lists and rows; a subclass adds what its index can't be rebuilt from."""
        columns, time, seq = self.rows(LOWEST)
        blob: dict[str, Any] = {name: getattr(self, name).copy() for name in (*_SLOT_ARRAYS, "counts")}
        blob |= {name: getattr(self, name).copy() for name in ("low", "high", "constants", "touched")}
        blob |= {f"ranked_{name}": array for name, array in self.ranked.dump().items()}
        blob |= {f"column_{i}": np.array(column) for i, column in enumerate(columns)}
        return {**blob, "row_time": np.array(time), "row_seq": np.array(seq)}

    def load(self, blob: Mapping[str, Any]) -> None:
        """Slots, lists and rows as they were; a subclass calls this first and then makes its index."""
        for name in (*_SLOT_ARRAYS, "counts", "low", "high", "constants", "touched"):
            setattr(self, name, blob[name].copy())
        prefix = "ranked_"
        self.ranked.load({n.removeprefix(prefix): a for n, a in blob.items() if n.startswith(prefix)})

    def _check(self) -> None:
        self.ranked._check()
        for slot in np.flatnonzero(self.ks).tolist():
            horizon = Recency(int(self.horizon_time[slot]), int(self.horizon_seq[slot]))
            good, time, seq = self.scored(slot, horizon)
            k = len(good) if self.space.bounded else int(self.ks[slot])
            best = np.lexsort((seq, time, good))[::-1][:k]
            # the end of the list is the top of the stored rows, to the last bit
            assert self.ranked.size[slot] >= len(best)
            own = self.ranked.top(slot, len(best))
            assert np.array_equal(own[0], good[best]) and np.array_equal(own[2], seq[best])
        # a free slot has no list
        assert not self.ranked.size[self.ks == 0].any()
