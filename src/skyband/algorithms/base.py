"""What algorithms share that keep one list of candidates for each slot, in order of recency.

Any window is a suffix of such a list, so watches that differ in k, window and beginning share a slot. A subclass brings
the kernel that takes rows into a list (`absorb`); contract.py says what the engine asks of it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from skyband.algorithms.arrivals import Arrivals, Step
from skyband.algorithms.contract import FUSE_MEMBERS, FUSE_SCORES, FUSE_SCORES_CACHED, Algorithm
from skyband.algorithms.kernels.batch_skyband import Picks
from skyband.algorithms.kernels.candidate_lists import Lists, expire_all, remove
from skyband.algorithms.kernels.list_answers import ListAnswers
from skyband.algorithms.kernels.score_select import fused
from skyband.algorithms.parallel_insert import Share, bars_of, run_all
from skyband.core.exchange import Present
from skyband.core.order import inside_of
from skyband.core.types import LOWEST, Floats, Ints, Recency
from skyband.query.window import Window

SHARED_SCORES = 4_000_000  # a step of so many takes long enough to be divided among threads
LARGE = 65_536  # rows of a step whose arrays are given up at its end


class ListAlgorithm(Algorithm):
    """What algorithms with one candidate list a slot share; each brings its own `absorb` kernel.

    `absorb(slot, count, picks, step, *states)` takes the picked rows of a step into the slot's list and returns 0, or 1
    if the list needs more room first. The states are those of `states`, candidate lists first.
    """

    counter_names: ClassVar[tuple[str, ...]]
    counted: ClassVar[bool] = False
    spaced: ClassVar[bool] = (
        False  # it scores rows itself: is made with its space, as those that keep the window are
    )
    takes_one: ClassVar[bool] = True  # a row that comes alone is picked, whatever its score
    threads: int = 1  # among which a step's work may be divided, query by query
    edge: Recency = LOWEST  # where the newest of the windows of `recent_of` begins, set before each step

    def recent_of(self, windows: Sequence[Window]) -> tuple[Window, ...]:
        """Return windows whose beginnings it must know beside those of its watches: of rows that it keeps itself."""
        return ()

    def __init__(self, options: Mapping[str, float]) -> None:
        self.options = {**self.card.options, **options}
        self.lists = Lists(self.counted, len(self.counter_names))
        self.scored = 0
        self.picks = Picks()
        self.rows = Step()  # of the present step
        self.candidate_bytes = 32 if self.counted else 24

    # -- slots ---------------------------------------------------------------------------------------------

    @property
    def ks(self) -> Ints:  # type: ignore[override]
        return self.lists.ks

    def add(self, k: int) -> int:
        """Return the slot of a new list."""
        slot = self.lists.add(k)
        self.lists.limit[slot] = self.first_limit(k)
        return slot

    def first_limit(self, k: int) -> int:
        """Return how many candidates beyond the first k a new list may have."""
        return 0

    def resize(self, slot: int, k: int) -> None:
        self.ks[slot] = k

    def remove(self, slot: int) -> None:
        self.ks[slot] = 0
        self.lists.clear(slot)

    # -- rows ----------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def absorb(self) -> Any:
        """This algorithm's kernel that takes picked rows into a list."""

    def states(self) -> tuple[Any, ...]:
        """Return what `absorb` works on."""
        return (self.lists,)

    def _scratch(self, n: int) -> None:
        """Make room for the picks of n rows."""
        most = max(self.ks.tolist(), default=1) if len(self.ks) < 9 else int(self.ks.max())
        there = len(self.picks.heap)
        if there < most and n < most:  # no heap ever holds more than a batch or a list has
            most = min(most, int(self.lists.size.max(initial=0)) + n)
        if len(self.picks.row) < n or there < most:
            self.picks.grow(row=n, rank=most)

    def insert(self, rows: Arrivals) -> None:
        self.lists.fresh.fill(-np.inf)
        if len(rows) == 0:
            return
        if rows.value is not None and self.takes_one and len(self.ks) < FUSE_MEMBERS:
            self._insert_one(rows, rows.value)
            return
        used = np.flatnonzero(self.ks)
        if len(used) == 0:
            return
        self._scratch(len(rows))
        self.scored += len(used) * len(rows)
        share = Share(rows, used, self.picks, self.rows)
        if rows.rendered is not None and self._fusion_pays(share):
            self._insert_fused(share)
            return
        for slot in used.tolist():
            self._insert_scored(slot, rows.good(slot))

    def _insert_one(self, row: Arrivals, value: Callable[[int], float]) -> None:
        """Offer one row to each slot."""
        self._scratch(1)
        lists, picks, step = self.lists, self.picks, self.rows.hold(row.time, row.seq, row.place, row.mark)
        time, seq = row.time.item(), row.seq.item()
        for slot, k in enumerate(self.ks.tolist()):
            if not k or (time, seq) < (lists.horizon_time.item(slot), lists.horizon_seq.item(slot)):
                continue
            self.scored += 1
            good = value(slot)
            if good == good:
                picks.row[0], picks.good[0], picks.heap[0] = 0, good, good
                while self.absorb(slot, 1, picks, step, *self.states()):
                    lists.reserve(slot)

    def _fusion_pays(self, share: Share) -> bool:
        if len(share.slots) >= FUSE_MEMBERS or self.scored >= FUSE_SCORES:
            return bool(self._fused(share.rows).is_available(share.arguments(self.states())))
        return self.scored >= FUSE_SCORES_CACHED and self._fused(share.rows, known=True) is not None

    def _fused(self, rows: Arrivals, known: bool = False) -> Any:
        return fused(rows.rendered or "", len(rows.columns()), rows.constants.shape[1], self.absorb, known)

    def _insert_fused(self, share: Share) -> None:
        """Offer rows to slots by compiled code for their score."""
        rows, slots = share.rows, share.slots
        shares = [share]
        if self.threads > 1 and len(slots) * len(rows) >= SHARED_SCORES:
            shares = self._shares([(rows, some) for some in np.array_split(slots, self.threads)])
        run_all(shares, self.threads, self._fused(rows), *self.states())

    def insert_shares(self, divided: Sequence[tuple[Arrivals, Ints]]) -> None:
        """Insert each part's rows into its slots, on up to `threads` threads.

        No two parts have a slot in common. The score must be a rendered one.
        """
        self.lists.fresh.fill(-np.inf)
        shares = self._shares(divided)
        if shares:
            run_all(shares, self.threads, self._fused(shares[0].rows), *self.states())

    def bars_of(self, divided: Sequence[tuple[Arrivals, Ints]]) -> Floats:
        """Return each slot's k-th best score among its part's rows, -inf where there are fewer. No row is kept."""
        return bars_of(self._shares(divided), self.threads, self.lists)

    def _shares(self, divided: Sequence[tuple[Arrivals, Ints]]) -> list[Share]:
        parts = [(rows, slots) for rows, slots in divided if len(rows) and len(slots)]
        self._scratch(max((len(rows) for rows, _ in parts), default=0))
        ranks = len(self.picks.heap)
        return [Share(rows, slots, Picks(row=len(rows), rank=ranks), Step()) for rows, slots in parts]

    def _insert_scored(self, slot: int, good: Floats) -> None:
        """Offer rows with these scores to a slot."""
        lists, rows = self.lists, self.rows
        inside = inside_of(rows.time, rows.seq, len(good), lists.horizon_time[slot], lists.horizon_seq[slot])
        self._take(slot, self.pick(slot, good, inside))

    def _take(self, slot: int, count: int) -> None:
        """Take the picked rows into a list, which grows as it must."""
        while self.absorb(slot, count, self.picks, self.rows, *self.states()):
            self.lists.reserve(slot)

    def pick(self, slot: int, good: Floats, inside: int) -> int:
        """Pick the rows worth taking: those that their own batch doesn't dominate. Returns how many they are."""
        return self.picks.select(good, inside, int(self.ks[slot]))

    def rebuild(self, slot: int, good: Floats, time: Ints, seq: Ints) -> None:
        """Restart the slot with these rows (newest first)."""
        self.lists.clear(slot)
        self.lists.limit[slot] = self.first_limit(int(self.ks[slot]))
        self._scratch(len(good))
        place = np.zeros(len(good), dtype=np.int64)
        self.rows.hold(time, seq, place, np.zeros(1, dtype=np.uint8))
        self._insert_scored(slot, good)

    def expire(self, slot: int, horizon: Recency) -> None:
        lists = self.lists
        lists.horizon_time[slot], lists.horizon_seq[slot] = horizon
        lists.head[slot] = lists.inside(slot, horizon).start - lists.start[slot]

    def step(
        self,
        rows: Arrivals | None,
        horizon_time: Ints,
        horizon_seq: Ints,
        deleted_time: Ints,
        deleted_seq: Ints,
    ) -> None:
        """Time goes on to a horizon for each slot; rows come; rows may be deleted, new ones too."""
        self.expire_all(horizon_time, horizon_seq)
        if rows is not None:
            self.insert(rows)
            if len(rows) > LARGE:
                self.rows = Step()  # the arrays of a large step are not held until the next one
        if len(deleted_seq):
            self.delete(deleted_time, deleted_seq)

    def delete(self, time: Ints, seq: Ints) -> None:
        """Take rows out of every list that has them. Only where no candidate was dropped because of them."""
        assert not self.card.fifo and not self.counted
        order = np.lexsort((seq, time))
        time, seq = time[order], seq[order]
        for slot in np.flatnonzero(self.ks).tolist():
            if remove(self.lists, slot, time, seq):
                self.lists.fresh[slot] = np.inf  # look at its answers again

    def expire_all(self, horizon_time: Ints, horizon_seq: Ints) -> None:
        """`expire` for all slots at once: a horizon each."""
        self.lists.lend(horizon_time=horizon_time, horizon_seq=horizon_seq)
        expire_all(self.lists)

    # -- answers -------------------------------------------------------------------------------------------

    def present(
        self,
        answers: ListAnswers,
        slots: Ints,
        stale: Ints,
        ks: Ints,
        horizon_time: Ints,
        horizon_seq: Ints,
    ) -> Present:
        return answers.present(self.lists, slots, stale, ks, horizon_time, horizon_seq)

    def top(self, slot: int, k: int, horizon: Recency) -> tuple[Floats, Ints, Ints]:
        return self.lists.top(slot, k, horizon)

    def seqs(self) -> Ints:
        return self.lists.all_seqs()

    def size(self, slot: int) -> tuple[int, int]:
        return self.lists.live(slot), self.lists.bytes(slot)

    def counters(self, slot: int) -> dict[str, int]:
        return dict(zip(self.counter_names, self.lists.counts[slot].tolist(), strict=True))

    def dump(self) -> dict[str, Any]:
        return self.lists.dump()

    def load(self, blob: Mapping[str, Any]) -> None:
        self.lists.load(blob)

    def _check(self) -> None:
        lists = self.lists
        lists._check()
        for slot in np.flatnonzero(self.ks).tolist():
            span = lists.span(slot)
            # nothing live lies before the horizon
            if span.start < span.stop:
                oldest = int(lists.time[span][0]), int(lists.seq[span][0])
                assert oldest >= (int(lists.horizon_time[slot]), int(lists.horizon_seq[slot]))
            # a NaN is never a candidate
            assert not np.isnan(lists.good[span]).any()
