"""scan: every row of the window is kept and scored by numpy. Exact by definition, and nothing is compiled.

**Problem.** Compiling an algorithm's kernels takes seconds the first time. A stream should not wait for it.

**Idea.** Keep the rows of the window as they are. For each query keep its *pool*: the best k rows and some more, from a
floor on. A new row that reaches the floor enters the pool. Rows that expire leave it. The top k is chosen among the
pool. When the pool has fewer than k rows, the whole window is scored again. Pools that run short are filled again ahead
of time, a few at each step, so that not all of them are searched at once.

**What is kept.** All rows of the window, and for each query its exact top k and a pool of up to
k + max(64, n/16) rows.

**Cost.** Each new row is scored for each query. A search scores the window: at most once in n/16 rows and query.

**Wrong choice when** compiled code is there. It answers until then, and hands its rows over (replanning.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from skyband.algorithms.contract import Card
from skyband.algorithms.scan.rows import RowStore, first_at
from skyband.algorithms.window_base import WindowAlgorithm
from skyband.core.exchange import NOTHING
from skyband.core.types import LOWEST, Floats, Ints, Recency
from skyband.query.expression.score_space import Space

LEAST_SPARE = 64  # rows of a pool beyond k, at least
PART = 16  # and so large a part of the window
AHEAD = 1 << 20  # scores that a step may spend on filling pools that run short
SEARCHES, ADMITTED = range(2)


class Floor(NamedTuple):
    """The worst entry of a pool: all rows of the window that are better are in the pool."""

    good: float
    recency: Recency


ALL_ROWS = Floor(-np.inf, LOWEST)  # the pool has every row of the window
_NO_POOL = (np.empty(0, dtype=np.float64), NOTHING, NOTHING)
Pool = tuple[Floats, Ints, Ints]


class Scan(WindowAlgorithm):
    card = Card(
        name="scan",
        title="the window's rows, scored by numpy",
        source="brute force",
        answers=frozenset({"topk"}),  # and threshold queries where it stands in
        exact=True,
        keeps="the window's rows, and for each query a pool of k + max(64, n/16) of them",
        cost="a score for each new row and query, in numpy; the window is scored again when a pool runs short",
        wrong_when="compiled code is there",
        expected=lambda k, n: min(n, k + max(LEAST_SPARE, n / PART)),
        options={},
        window=True,
        fifo=False,
        boxes=True,
        texts=True,
    )
    counter_names = ("searches", "admitted")

    def __init__(self, options: Mapping[str, float], space: Space) -> None:
        super().__init__(options, space)
        self.store = RowStore(len(space.columns))
        self.pools: list[Pool] = []
        self.floors: list[Floor] = []
        self.oldest: list[Recency] = []  # of each pool

    # -- slots ---------------------------------------------------------------------------------------------

    def opened(self, slot: int) -> None:
        while len(self.pools) <= slot:
            self.pools.append(_NO_POOL)
            self.floors.append(ALL_ROWS)
            self.oldest.append(LOWEST)
        self._search(slot)

    def resized(self, slot: int) -> None:
        self._settle(slot, self.pools[slot])

    def closed(self, slot: int) -> None:
        self.pools[slot], self.floors[slot] = _NO_POOL, ALL_ROWS

    # -- rows ----------------------------------------------------------------------------------------------

    def window_step(
        self, columns: tuple[Floats, ...], time: Ints, seq: Ints, deleted_time: Ints, deleted_seq: Ints
    ) -> None:
        if len(deleted_seq):
            stay = ~np.isin(seq, deleted_seq)
            columns, time, seq = tuple(column[stay] for column in columns), time[stay], seq[stay]
            self.store.delete(deleted_seq)
        self.store.add(columns, time, seq)
        self.store.forget(self.oldest_horizon())
        scored: dict[bytes, Floats] = {}
        for slot in np.flatnonzero(self.ks).tolist():
            self._take(slot, columns, time, seq, deleted_seq, scored)
        self._search_ahead()

    def fill(self, columns: tuple[Floats, ...], time: Ints, seq: Ints) -> None:
        fresh = ~np.isin(seq, self.seqs())
        self.store.add(tuple(column[fresh] for column in columns), time[fresh], seq[fresh])

    def rows(self, horizon: Recency) -> tuple[tuple[Floats, ...], Ints, Ints]:
        return self.store.live(self.store.since(horizon))

    def seqs(self) -> Ints:
        return self.store.live()[2]

    def window_size(self) -> tuple[int, int]:
        return len(self.store), self.store.bytes()

    def size(self, slot: int) -> tuple[int, int]:
        pool = self.pools[slot]
        return len(pool[2]), sum(array.nbytes for array in pool) + self.ranked.bytes(slot)

    # -- pools ---------------------------------------------------------------------------------------------

    def _own(self, slot: int) -> Recency:
        return Recency(int(self.horizon_time[slot]), int(self.horizon_seq[slot]))

    def _take(
        self,
        slot: int,
        columns: tuple[Floats, ...],
        time: Ints,
        seq: Ints,
        deleted: Ints,
        scored: dict[bytes, Floats],
    ) -> None:
        """Bring one slot's pool up to date with the step's rows."""
        horizon, floor = self._own(slot), self.floors[slot]
        taken: Pool = _NO_POOL
        if len(seq):
            constants = self.constants[slot].tobytes()
            if constants not in scored:
                scored[constants] = self.space.good(columns, self.constants[slot])
            good = scored[constants]
            fits = good >= floor.good
            if fits.any():
                self._narrow(fits, slot, columns, good)
                if (int(time[0]), int(seq[0])) < horizon:
                    fits[: first_at(time, seq, horizon)] = False
                at = np.flatnonzero(fits)
                taken = good[at], time[at], seq[at]
                if at.size and (int(taken[1][0]), int(taken[2][0])) < floor.recency:  # late
                    stay = (taken[0] > floor.good) | ~_before(taken[1], taken[2], floor.recency)
                    taken = taken[0][stay], taken[1][stay], taken[2][stay]
        pool = self.pools[slot]
        lost = self.oldest[slot] < horizon or len(deleted) > 0
        if lost:
            stay = ~_before(pool[1], pool[2], horizon)
            if len(deleted):
                stay &= ~np.isin(pool[2], deleted)
            pool = pool[0][stay], pool[1][stay], pool[2][stay]
        if len(taken[2]):
            self.counts[slot, ADMITTED] += len(taken[2])
            pool = tuple(np.concatenate(both) for both in zip(pool, taken, strict=True))  # type: ignore[assignment]
        if lost or len(taken[2]):
            self._settle(slot, pool, lost and self._loses(slot, horizon, deleted), taken[0])

    def _loses(self, slot: int, horizon: Recency, deleted: Ints) -> bool:
        """Whether a row of the top k has expired or was deleted."""
        top, ranked = self.ranked.span(slot), self.ranked
        return bool(len(deleted)) or bool(_before(ranked.time[top], ranked.seq[top], horizon).any())

    def _settle(self, slot: int, pool: Pool, loses: bool = True, taken: Floats = _NO_POOL[0]) -> None:
        """Make this the slot's pool, whose floor holds; choose the top k if it lost a row or one reaches it."""
        k, count = int(self.ks[slot]), len(pool[2])
        if self.floors[slot] != ALL_ROWS and count < k:
            self._search(slot)
            return
        if not self.space.bounded and count > 2 * self._wanted(k):
            pool = self._cut(slot, pool)
        self.pools[slot] = pool
        self.oldest[slot] = _oldest(pool)
        before = self.ranked.span(slot)
        full = not self.space.bounded and before.stop - before.start >= k
        if not loses and full and not (taken >= self.ranked.good[before.start]).any():
            return
        best = _best(pool, count if self.space.bounded else k)
        if not np.array_equal(self.ranked.seq[before], pool[2][best]) or not np.array_equal(
            self.ranked.good[before], pool[0][best]
        ):
            self.ranked.put(slot, pool[0][best], pool[1][best], pool[2][best])
            self.touched[slot] = 1

    def _search(self, slot: int) -> None:
        """Score the whole window."""
        self.counts[slot, SEARCHES] += 1
        self.floors[slot] = ALL_ROWS
        pool = self.scored(slot, self._own(slot))
        if not self.space.bounded and len(pool[2]) > self._wanted(int(self.ks[slot])):
            pool = self._cut(slot, pool)
        self._settle(slot, pool)

    def _search_ahead(self) -> None:
        """Fill the pools that run short, a few at each step."""
        short = []
        for slot in np.flatnonzero(self.ks).tolist():
            k = int(self.ks[slot])
            spare = (len(self.pools[slot][2]) - k) / (self._wanted(k) - k)
            if self.floors[slot] != ALL_ROWS and spare < 0.5:
                short.append((spare, slot))
        for _, slot in sorted(short)[: AHEAD // (len(self.store) + 1)]:
            self._search(slot)

    def _wanted(self, k: int) -> int:
        """How many rows a full pool has."""
        return k + max(LEAST_SPARE, len(self.store) // PART)

    def _cut(self, slot: int, pool: Pool) -> Pool:
        """The best rows of a pool, of which the worst is the floor from now on."""
        best = _best(pool, self._wanted(int(self.ks[slot])))
        good, time, seq = pool[0][best], pool[1][best], pool[2][best]
        self.floors[slot] = Floor(float(good[0]), Recency(int(time[0]), int(seq[0])))
        return good, time, seq

    def _narrow(self, fits: Any, slot: int, columns: tuple[Floats, ...], good: Floats) -> None:
        """Leave only rows that are in a slot's box, and beyond its bound."""
        for i, axis in enumerate(self.space.boxed):
            fits &= (columns[axis] >= self.low[slot, i]) & (columns[axis] <= self.high[slot, i])
        if self.space.bounded:
            fits &= good > self.edge[slot]

    # -- keeping -------------------------------------------------------------------------------------------

    def load(self, blob: Mapping[str, Any]) -> None:
        super().load(blob)
        columns = tuple(blob[f"column_{i}"] for i in range(len(self.space.columns)))
        self.store = RowStore(len(columns))
        self.store.add(columns, blob["row_time"], blob["row_seq"])
        self.pools, self.floors, self.oldest = [], [], []
        touched, counts = self.touched.copy(), self.counts.copy()
        for slot, k in enumerate(self.ks.tolist()):
            self.pools.append(_NO_POOL)
            self.floors.append(ALL_ROWS)
            self.oldest.append(LOWEST)
            if k:
                self._search(slot)
        self.touched, self.counts = touched, counts

    def _check(self) -> None:
        super()._check()
        self.store._check()
        for slot in np.flatnonzero(self.ks).tolist():
            good, time, seq = self.scored(slot, self._own(slot))
            floor = self.floors[slot]
            reached = (good > floor.good) | ((good == floor.good) & ~_before(time, seq, floor.recency))
            # a pool has every row of the window from its floor on, and no other
            assert sorted(self.pools[slot][2].tolist()) == sorted(seq[reached].tolist())
            # it has k rows, or all of them
            assert floor == ALL_ROWS or len(self.pools[slot][2]) >= self.ks[slot]


def _before(time: Ints, seq: Ints, horizon: Recency) -> Any:
    """Which rows are before a horizon."""
    return (time < horizon.time) | ((time == horizon.time) & (seq < horizon.seq))


def _oldest(pool: Pool) -> Recency:
    if not len(pool[1]):
        return Recency(2**63 - 1, 2**63 - 1)
    first = pool[1].min()
    return Recency(int(first), int(pool[2][pool[1] == first].min()))


def _best(pool: Pool, count: int) -> Ints:
    """The places of the best rows, best last."""
    good = pool[0]
    at = np.arange(len(good))
    if 0 < 2 * count < len(good):
        at = np.flatnonzero(good >= np.partition(good, len(good) - count)[len(good) - count])
    order = np.lexsort((pool[2][at], pool[1][at], good[at]))
    found: Ints = at[order][-count:] if count else at[:0]
    return found
