"""SNN: nearest neighbours by a skyband for each query (Mouratidis and Papadias 2007; Pripužić et al. 2015, section 2).

**Problem.** Hundreds of points, each with its k nearest rows of a window, at millions of rows a second.

**Idea.** As `sma`, for points anywhere among the data: of the rows at or before a *bar*, the distance of the worst row
that the last search found, each query keeps the k-skyband. Rows beyond the bar are skipped, by the query index for all
queries at once; a row that leaves is removed. Only when fewer than k rows are left a query is searched for.

**What is kept.** All rows of the window in a ring, the index, and a list for each query of little more than k rows.
With `slack` s a search takes k + s·k rows and sets the bar that much further out: lists run short more rarely. A query
that runs short again within two windows is searched for with twice the slack, up to sixteen times (similar rows enter
and leave together where they are correlated in time), and with half of it when its list has lasted for eight; at once,
if most of the rows that it begins with arrived within a quarter of the window. Its list may also grow longer before its
bar is raised: a search costs as much as thousands of rows that enter and leave.

**Cost.** A row: a copy, a look-up, and little more than an append for each query that the index names (rows in order,
one window for all: row_loop.py, which processes a batch row by row; otherwise O(k), see ring_base.py). A search:
the scores of the whole window.

**Wrong choice when** rows arrive sorted so that they move away from all points: each search is outdated soon. Rows must
leave in order of recency. For few queries `ra` does not need the window.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from skyband.algorithms.contract import Card, Workload
from skyband.algorithms.kernels.barred_lists import horizon_of, settle_all
from skyband.algorithms.nearest.arrival_lists import FIRST, Arrived, gathered, hand_back, measure, take_over
from skyband.algorithms.nearest.ring_base import AGAIN, FEW, LASTED, MOST_AHEAD, Ringed
from skyband.algorithms.nearest.row_loop import Notes, turning
from skyband.compiling.jit import kernel
from skyband.core.types import Floats, Ints, Recency
from skyband.query.expression.score_space import Space

SLACK = 2.0
SOON = 4  # windows: a query that is searched for again sooner is patient
PATIENCE = 4  # a patient list may have so many times the usual rows before its bar is raised
RAISED = 16  # after so many batches with raised bars, regions that have shrunk are entered again


@kernel
def look_ahead(
    slots: Ints, now: Ints, window: Ints, slack: float, ks: Ints, ahead: Ints, searched: Ints, keep: Ints, usual: Ints,
    line: Ints,
) -> tuple[int, bool]:  # fmt: skip
    """Compute for slots that ran short how many rows a search finds and how many a list takes.

    As `_look_ahead`, `keep` and `usual` do for all slots. Returns the most of them, and whether a list has too little
    room.
    """
    most, narrow = 0, False
    for i in range(slots.shape[0]):
        slot = slots[i]
        since = now[i] - searched[slot]
        if since < AGAIN * window[i]:
            ahead[slot] = min(2 * ahead[slot], MOST_AHEAD)
        elif since >= LASTED * window[i]:
            ahead[slot] = max(ahead[slot] // 2, 1)
        searched[slot] = now[i]
        k = max(ks[slot], 1)
        keep[slot] = ks[slot] + int(ks[slot] * slack * ahead[slot])
        usual[slot] = int(np.ceil(k * (1 + np.log(max(keep[slot], k) / k))))
        patience = PATIENCE if since < SOON * window[i] else 1
        narrow |= measure(slot, keep[slot], patience * usual[slot], line)
        most = max(most, keep[slot])
    return most, narrow


def cost_of(work: Workload) -> float:
    """Return roughly the CPU seconds for a batch: set by hand after trials with 40,000 rows, 400 queries, k = 9, 2 and
    4
        axes."""
    window, queries = max(work.window, 1.0), work.queries
    share = min(1.0, (1 + SLACK) * work.k / window)  # the share of rows in a query's region
    side = max(share / 48, 1 / 65536) ** (1 / work.axes)
    named = min(1.0, (share ** (1 / work.axes) + side) ** work.axes)
    if queries < FEW:
        named = 1.0
    searches = queries * min(1.0, 0.02 * work.batch / window)
    search = 1.5e-4 + window * 2e-9
    row = 5e-8 + 1e-8 * work.axes + queries * (named * 8e-9 + share * 2.5e-7)
    if not work.rendered:  # numpy, one query at a time
        row, search = row + queries * 1e-8 * work.axes, search + window * 2e-8
    return float(1e-4 + work.batch * row + searches * search + queries * 1e-7)


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

    def __init__(self, options: Mapping[str, float], space: Space) -> None:
        super().__init__(options, space)
        self.arrived = Arrived()
        self.notes: Notes | None = None
        self.turned = False  # lists are in order of arrival; `ranked` contains the answers only
        self.raised = 0  # batches in which a bar was raised since regions were entered
        self._lengths: tuple[Ints, Ints] | None = (
            None  # `keep()` and `usual()` while lists are in order of arrival
        )

    # -- a step, row by row ---------------------------------------------------------------------------------

    def window_step(
        self, columns: tuple[Floats, ...], time: Ints, seq: Ints, deleted_time: Ints, deleted_seq: Ints
    ) -> None:
        since, number, same = horizon_of(self.ks, self.horizon_time, self.horizon_seq)
        edge = Recency(since, number)
        if not same or not self._goes_on(time, seq, edge):
            self._turn_back()
            super().window_step(columns, time, seq, deleted_time, deleted_seq)
            return
        used = np.flatnonzero(self.ks)
        for _ in self.store.move(columns, time, seq, edge):
            self._turn(used)
        if not self.sure:
            self._settle(used)
            return
        self._write_ranked(np.flatnonzero(self.touched), False)
        if self.raised >= RAISED:
            self.raised = 0
            self._enter(used)

    def _goes_on(self, time: Ints, seq: Ints, edge: Recency) -> bool:
        """Whether rows are in order, do not fill the window, and every query has a bar that the index has."""
        store = self.store
        if not len(time) or not len(store) or edge < store.edge:
            return False
        first = int(time[0]), int(seq[0])
        if edge > first or first < store._recency(store.end - 1):
            return False
        if self.index is None or not self.index.ready:
            return False
        if not self.sure:
            used = np.flatnonzero(self.ks)
            bar = self.bars.bar[used]
            self.sure = bool(np.all((bar > -np.inf) & (self.index.bar[used] <= bar))) and len(used) >= FEW
        if self.sure and self.index.due(len(store), self._share):
            used = np.flatnonzero(self.ks)
            self._learn(used)
            self.index.register(used, self.bars.bar[used], self.constants)
        return self.sure

    def _turn(self, used: Ints) -> None:
        """Let the rows of a stage enter and leave, one by one."""
        store, index, arrived = self.store, self.index, self.arrived
        assert index is not None
        if not self.sure:
            self._meet(used)
            return
        kernels = turning(self.space, self.constants.shape[1])
        self.notes = notes = Notes.of(self.notes, store.end - store.came, self.ks)
        notes.begin(store)
        self._take_over(used, kernels)
        bars = self.bars.lent(self)
        progress = np.array([store.came, 0])
        columns, states = store.columns, (self.space.sign, bars, arrived, notes)
        while progress[0] < store.end:
            lost = kernels.turn(progress, *columns, *index.arrays(), *states)
            searched, failed = set[int](), set[int]()
            while lost:
                slots, since = notes.todo[:lost].copy(), notes.since[:lost].copy()
                fails = self._refill(kernels, slots, since)
                searched.update(slots.tolist())
                failed.update(slots[fails].tolist())
                lost = kernels.resume(progress, slots[~fails], since[~fails], *columns, *states)
            if failed:  # fewer rows than a bar needs: continue without these lists
                self._go_back(np.array(sorted(failed), dtype=np.int64), int(progress[0]), used)
                return
            if searched:
                known = np.array(sorted(searched), dtype=np.int64)
                index.register(known, self.bars.bar[known], self.constants)
        self.raised += int(progress[1] > 0)

    def _go_back(self, failed: Ints, stop: int, used: Ints) -> None:
        """Process the rest of a stage, the rows from `stop` on, without lists in order of arrival."""
        store = self.store
        self._turn_back()
        self.search(failed, (self._leaving(stop), stop))
        store.came = stop
        if stop < store.end:
            self._meet(used)

    def _leaving(self, stop: Any) -> Any:
        """Return the oldest row that is in the window when the rows before `stop` have arrived."""
        store = self.store
        return store.left + (stop - store.came) * (store.head - store.left) // (store.end - store.came)

    def _refill(self, kernels: Any, slots: Ints, since: Ints) -> Any:
        """Search for slots, each in the window of the moment when it ran short; return which found too few rows for a
        bar."""
        store, arrived = self.store, self.arrived
        if self._lengths is None:
            self._lengths = self.keep(), self.usual()
        keep, usual = self._lengths
        begins = self._leaving(since)
        now = store.seq[since - 1]
        window = now - store.seq[begins]
        most, narrow = look_ahead(
            slots, now, window, self.options["slack"], self.ks, self.ahead, self.searched, keep, usual, arrived.line
        )  # fmt: skip
        if narrow:
            arrived.make_room(slots)
        assert self.notes is not None
        self.notes.provide_held(most)
        fails = np.zeros(len(slots), dtype=np.bool_)
        kernels.refill(
            slots, keep, begins, since, *store.columns, store.time, store.seq, self.space.sign, self.bars.lent(self),
            arrived, self.notes, fails,
        )  # fmt: skip
        return fails

    def _take_over(self, used: Ints, kernels: Any) -> None:
        """Make lists in order of arrival."""
        if self.turned:
            return
        store, arrived, ranked = self.store, self.arrived, self.ranked
        longest = np.maximum(self.keep(), self.ranked.size)
        self._lengths = None
        arrived.begin(self.ks, longest, self.usual())

        def take(slots: Ints) -> None:
            take_over(
                slots, store.left, store.came, store.passed, store.time, store.seq, ranked, arrived,
                np.empty(int(ranked.size.max()), np.int64),
            )  # fmt: skip

        take(used)
        self.turned = True
        # a slot that looks no further ahead than usual, but has rows that will leave together, does so now: it would
        # be searched for soon
        fresh = used[self.ahead[used] == 1]
        begin, end = store.left + store.passed, store.came + store.passed
        slots = gathered(fresh, begin, end, arrived.line, arrived.place)
        if len(slots):
            fails = self._refill(kernels, slots, np.full(len(slots), store.came))
            take(slots[fails])
            known = slots[~fails]
            assert self.index is not None
            self.index.register(known, self.bars.bar[known], self.constants)

    def _turn_back(self) -> None:
        """Make lists in order of scores again, whole, with dominators counted."""
        self.sure = False
        self._usual = np.empty(0, dtype=np.int64)
        if not self.turned:
            return
        self.turned = False
        line, store = self.arrived.line, self.store
        slots = np.flatnonzero((self.arrived.sizes() > 0) & (self.ks[: len(line)] > 0))
        self._write_ranked(slots, True)
        oldest = self.arrived.place[line[slots, FIRST]] - store.passed
        self.bars.oldest_time[slots], self.bars.oldest_seq[slots] = store.time[oldest], store.seq[oldest]
        self.bars.complete[slots] = 0
        settle_all(slots, self.bars.lent(self), self.ranked)

    def _write_ranked(self, slots: Ints, whole: bool) -> None:
        """Write answers, or whole lists, to the ranked lists."""
        store, ranked = self.store, self.ranked
        sizes = self.arrived.sizes()
        if not whole:  # and never more than exist, whatever k is
            sizes = np.minimum(sizes, self.ks[: len(sizes)])
        for slot in slots[ranked.room[slots] < sizes[slots]].tolist():
            ranked.reserve(slot, int(sizes[slot]))
        hand_back(
            slots, whole, store.head, store.end, store.passed, store.time, store.seq, ranked, self.arrived
        )

    # -- what others ask for ------------------------------------------------------------------------------------

    def opened(self, slot: int) -> None:
        self._turn_back()
        super().opened(slot)

    def resized(self, slot: int) -> None:
        self._turn_back()
        super().resized(slot)

    def closed(self, slot: int) -> None:
        self._turn_back()
        super().closed(slot)

    def fill(self, columns: tuple[Floats, ...], time: Ints, seq: Ints) -> None:
        self._turn_back()
        super().fill(columns, time, seq)

    def size(self, slot: int) -> tuple[int, int]:
        if self.turned:
            return int(self.arrived.sizes()[slot]), self.arrived.bytes(slot)
        return super().size(slot)

    def dump(self) -> dict[str, Any]:
        self._turn_back()
        return super().dump()

    def load(self, blob: Mapping[str, Any]) -> None:
        self.turned = False
        super().load(blob)

    def _check(self) -> None:
        if self.turned:
            store = self.store
            self.arrived.check(store.passed, store.head, store.end, self.bars.bar)
            self._turn_back()
        super()._check()

    # -- lists ----------------------------------------------------------------------------------------------

    def keep(self) -> Ints:
        return self.ks + (self.ks * self.options["slack"] * self.ahead).astype(np.int64)

    def usual(self) -> Ints:
        ks = np.maximum(self.ks, 1)
        rows: Ints = np.ceil(ks * (1 + np.log(np.maximum(self.keep(), ks) / ks))).astype(np.int64)
        return rows
