"""SNN: nearest neighbours by a skyband for each query (Mouratidis and Papadias 2007; Pripužić et al. 2015, section 2).

**Problem.** Hundreds of points, each with its k nearest rows of a window, at millions of rows a second.

**Idea.** The same as `sma`'s, for points anywhere among the data: of the rows at or before a *bar*, the distance of
the worst row that the last search found, each query keeps the k-skyband. A row beyond is passed over, which the query
index does for all queries at once; one that leaves simply leaves. Only with fewer than k rows left a query is
searched for.

**What is kept.** All rows of the window in a ring, the index, and a list for each query of little more than k rows.
With `slack` s a search takes k + s·k rows and sets the bar that much further out: lists run short ever more rarely. A
query that runs short again soon is searched for with twice the slack, up to sixteen times (rows that are alike come and
leave together where they are correlated in time), and with less when it lasts.

**Cost.** A row: a copy, a look-up, and O(k) for each query that it concerns. A search: the scores of the whole
window. See `ringed.py`.

**Wrong choice when** rows come sorted so that they move away from all points: each search is outdated soon. Rows must
leave in order of recency. For few queries `ra` does without the window.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from skyband.algorithms import sma
from skyband.algorithms.base import Card, Workload
from skyband.algorithms.ringed import FEW, Ringed
from skyband.jit import inlined, kernel
from skyband.order import Floats, Ints, Recency
from skyband.query.space import Space
from skyband.structures.turnover import CHUNK, Calendar, enter_all, turning

SLACK = 2.0
RAISED = 16  # batches in which bars were raised: then regions that have shrunk are entered anew
arrive = inlined(sma.arrive.function)


@kernel
def come(
    at: int, first: int, slots: Ints, starts: Ints, rows: Ints, values: Floats, times: Ints, seqs: Ints,
    horizon_time: Ints, horizon_seq: Ints, bar: Floats, bar_time: Ints, bar_seq: Ints,
    good: Floats, time: Ints, seq: Ints, dominators: Ints, start: Ints, size: Ints, room: Ints, ks: Ints,
    oldest_time: Ints, oldest_seq: Ints, touched: Any, counts: Ints,
) -> tuple[int, int]:  # fmt: skip
    """Offer rows to lists, slot after slot; stops where a list has no room."""
    for t in range(at, slots.shape[0]):
        slot = slots[t]
        for i in range(first if t == at else starts[t], starts[t + 1]):
            when, number = times[rows[i]], seqs[rows[i]]
            if when < horizon_time[slot] or (when == horizon_time[slot] and number < horizon_seq[slot]):
                continue
            if arrive(
                slot, values[i], when, number, good, time, seq, dominators, start, size, room, ks, bar, bar_time,
                bar_seq, oldest_time, oldest_seq, touched, counts,
            ):  # fmt: skip
                return t, i
    return slots.shape[0], 0


@kernel
def horizon_of(ks: Ints, time: Ints, seq: Ints) -> tuple[int, int, bool]:
    """The oldest horizon of the slots in use, and whether it is everybody's."""
    first, number = 9223372036854775807, 9223372036854775807
    same = True
    for slot in range(ks.shape[0]):
        if ks[slot] > 0:
            same &= first == 9223372036854775807 or (time[slot] == first and seq[slot] == number)
            if time[slot] < first or (time[slot] == first and seq[slot] < number):
                first, number = time[slot], seq[slot]
    return first, number, same


def cost_of(work: Workload) -> float:
    """CPU seconds for a batch, roughly: set by hand after trials with 40,000 rows, 400 queries, k = 9, 2 and 4 axes."""
    window, queries = max(work.window, 1.0), work.queries
    share = min(1.0, (1 + SLACK) * work.k / window)  # of all rows, that a query's region has
    side = max(share / 48, 1 / 65536) ** (1 / work.axes)
    named = min(1.0, (share ** (1 / work.axes) + side) ** work.axes)
    if queries < FEW:
        named = 1.0
    searches = queries * min(1.0, 0.02 * work.batch / window)
    search = 1.5e-4 + window * 2e-9
    row = 5e-8 + 1e-8 * work.axes + queries * (named * 8e-9 + share * 2.5e-7)
    if not work.rendered:  # numpy, a query at a time
        row, search = row + queries * 1e-8 * work.axes, search + window * 2e-8
    return float(1.5e-4 + work.batch * row + searches * search + queries * 1e-7)


class SNN(Ringed):
    """The skyband of the rows before a bar, for each query."""

    card = Card(
        name="snn",
        title="nearest neighbours by skybands behind a query index",
        source="Mouratidis, Papadias 2007; Pripužić, Podnar Žarko, Aberer 2015, sections 2 and 6.1",
        answers=frozenset({"topk"}),
        exact=True,
        keeps="every row of the window, an index of queries, and for each query the skyband of the rows before its bar",
        cost="an arrival: a look-up, and a score for each query that it concerns; a search when a list is short",
        wrong_when="scores fall, or rows are updated and deleted (take `tma`)",
        expected=lambda k, n: float(min(k * (1 + np.log(1 + SLACK)) + 2, n)),
        options={"cells": 0.0, "slack": SLACK},
        window=True,
        fifo=True,
        cost_of=cost_of,
    )
    counter_names: ClassVar[tuple[str, ...]] = (
        "rows searched",
        "searches",
        "rows scored",
        "admitted",
        "evicted",
    )
    candidate_bytes = 32
    counted = True
    come = come

    def __init__(self, options: Mapping[str, float], space: Space) -> None:
        super().__init__(options, space)
        self.calendar = Calendar()
        self.entered = -1  # the store's shifts when the calendar was made
        self.raised = 0  # batches in which some bar was raised, since the index was told

    # -- a step, row by row ---------------------------------------------------------------------------------

    def window_step(
        self, columns: tuple[Floats, ...], time: Ints, seq: Ints, deleted_time: Ints, deleted_seq: Ints
    ) -> None:
        since, number, same = horizon_of(self.ks, self.horizon_time, self.horizon_seq)
        edge = Recency(since, number)
        if not same or not self._goes_on(time, seq, edge):
            self.entered = -1
            super().window_step(columns, time, seq, deleted_time, deleted_seq)
            return
        used = np.flatnonzero(self.ks)
        for _ in self.store.move(columns, time, seq, edge):
            self._turn(used)
        if not self.sure:
            self._settle(used)

    def _goes_on(self, time: Ints, seq: Ints, edge: Recency) -> bool:
        """Whether rows come in order, to a window that they don't fill, and every query has a bar that is known."""
        store = self.store
        if not len(time) or not len(store) or edge < store.edge:
            return False
        first = int(time[0]), int(seq[0])
        if edge > first or first < store._recency(store.end - 1):
            return False
        if self.index is None or not self.index.ready:
            return False
        if self.index.due(len(store)):
            self.index.ready = False
            return False
        if not self.sure:
            self.entered = -1
            used = np.flatnonzero(self.ks)
            bar = self.bar[used]
            self.sure = bool(np.all((bar > -np.inf) & (self.index.bar[used] <= bar))) and len(used) >= FEW
        return self.sure

    def _turn(self, used: Ints) -> None:
        """Rows of a stage come and leave, one by one."""
        store, index, ranked = self.store, self.index, self.ranked
        assert index is not None
        if not self.sure:
            self._meet(used)
            return
        self._provide(used)
        turn = turning(self.space, self.constants.shape[1])
        progress = np.array([store.came, store.left, 0, 0])
        slots = len(self.ks)
        scratch = (
            np.empty(slots + 64, np.int64), np.empty(64 * len(index.used) + 64, np.int64), np.empty(CHUNK, np.int64),
            np.empty(CHUNK, np.int64),
        )  # fmt: skip
        while True:
            lost = turn(
                progress, store.came, store.end, store.left, store.head, *store.columns, store.time, store.seq,
                *index.arrays(), self.constants, self.space.sign, self.bar, self.bar_time, self.bar_seq, self._usual,
                ranked.good, ranked.time, ranked.seq, ranked.count, ranked.start, ranked.size, self.ks,
                self.oldest_time, self.oldest_seq, self.touched, self.counts, *self.calendar.arrays(), *scratch,
            )  # fmt: skip
            if lost == 0:
                break
            row, leaving = int(progress[0]), int(progress[1])
            short = np.unique(scratch[0][:lost])
            self.search(short, (leaving, row))
            if self.complete[short].any():  # fewer rows than a bar needs: the longer way for the rest
                self.sure = False
                store.came = row
                if row < store.end:
                    self._meet(used)
                return
            self._enter(short)
            self._make_room(short)
            self._chain(short, leaving, row)
        self.raised += int(progress[3] > 0)
        if self.raised == RAISED:
            self.raised = 0
            self._enter(used)

    def _provide(self, used: Ints) -> None:
        """A calendar of this store's places, and room for as many rows as a list may have."""
        store = self.store
        if self.entered == store.shifts and len(self.calendar.place) == len(self.ks) == len(self._usual):
            return
        self._make_room(used)
        self.calendar.begin(len(store.time), len(self.ks))
        self._chain(used, store.left, store.came)
        self.entered = store.shifts

    def _make_room(self, slots: Ints) -> None:
        """As many rows as a list may have before its bar is raised, and as a search may find."""
        ranked = self.ranked
        if len(self._usual) != len(self.ks):
            self._usual = self.usual()
        most = np.maximum(self._usual + self._usual // 4, self.keep()) + 6
        for slot in slots[ranked.room[slots] < most[slots]].tolist():
            ranked.grow(slot, int(most[slot]))

    def _chain(self, slots: Ints, begin: int, end: int) -> None:
        store, ranked = self.store, self.ranked
        enter_all(
            slots, begin, end, store.time, store.seq, ranked.time, ranked.seq, ranked.start, ranked.size,
            *self.calendar.arrays(),
        )  # fmt: skip

    def _check(self) -> None:
        super()._check()
        if self.sure and self.entered == self.store.shifts and len(self.calendar.place) == len(self.ks):
            for slot in np.flatnonzero(self.ks).tolist():
                place = int(self.calendar.place[slot])
                # a query with rows is in a chain, of its oldest row or of one that is older
                assert self.store.head <= place < self.store.end
                span = self.ranked.span(slot)
                listed = zip(self.ranked.time[span].tolist(), self.ranked.seq[span].tolist(), strict=True)
                assert self.store._recency(place) <= min(listed)

    # -- lists ----------------------------------------------------------------------------------------------

    def keep(self) -> Ints:
        return self.ks + (self.ks * self.options["slack"] * self.ahead).astype(np.int64)

    def usual(self) -> Ints:
        ks = np.maximum(self.ks, 1)
        rows: Ints = np.ceil(ks * (1 + np.log(np.maximum(self.keep(), ks) / ks))).astype(np.int64)
        return rows

    def _lists(self) -> tuple[Any, ...]:
        ranked = self.ranked
        return ranked.good, ranked.time, ranked.seq, ranked.count, ranked.start, ranked.size

    def state(self) -> tuple[Any, ...]:
        return (
            *self._lists(), self.ranked.room, self.ks, self.oldest_time, self.oldest_seq, self.touched, self.counts,
        )  # fmt: skip

    def expire(self) -> None:
        sma.expire(
            self.ks, self.horizon_time, self.horizon_seq, *self._lists(), self.complete, self.oldest_time,
            self.oldest_seq, self.touched, self.lost,
        )  # fmt: skip

    def settled(self, slots: Ints) -> None:
        """Count the dominators among the rows found, and evict."""
        most = int(self.ranked.size[slots].max(initial=0)) + 1
        met = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
        sma.settle(
            slots, self.ks, self.complete, self.bar_time, self.bar_seq, self.counts, *self._lists(), *met
        )  # fmt: skip
