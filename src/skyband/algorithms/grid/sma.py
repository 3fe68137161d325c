"""SMA: skyband monitoring on a grid (Mouratidis, Bakiras and Papadias 2006, section 5).

**Problem.** `tma` searches its grid for every query that loses a row of its top k. Most of those searches can be
avoided, because the order in which rows expire is known in advance.

**Idea.** Every row that can still enter a top k is in the k-skyband: fewer than k newer rows are at least as good. So a
search's result is kept as a small skyband. Its worst row becomes the query's *bar*; from then on every new row at
or before the bar in the one total order enters the list, raises the counters of the older rows behind it, and
removes each row whose counter reaches k. A row that leaves the window leaves the list, where the next row is
already present. Only if fewer than k are left, the grid is searched again, which sets the bar again.

**What is kept.** The rows in their grid with influence lists, see base.py, and for each query the k-skyband of
the rows at or before its bar, with counters. That is not the skyband of the window. In random order the list has
little more than k rows, since about k rows lie before the bar at any time; but their number fluctuates, and sooner or
later it falls below k. With `slack` s a search takes k + s·k rows and sets the bar that much lower: the lists are
somewhat longer and searches become rare.

**Cost.** A new row: its cell, a score for each query named there, and O(k) for each list that it enters. A search as
in `tma`, 1 to 7 times in a hundred steps of a hundredth of the window each (k = 1 to 100), or hardly ever with slack.

**Wrong choice when** scores fall: each search is outdated soon. Rows must leave in order of recency, because the
counters depend on that order: update streams need `tma`.

Beyond the paper: a bar that has become too low (rows grew better, or the window was filled) is raised to the list's
own k-th row when far more rows entered than a search finds; a query on an empty window keeps all of its skyband until
then. A late row is counted from both sides: the rows that dominate it, and the rows that it dominates.

Errata followed: a row that leaves is removed from the skyband wherever it is there, not only from the top k, since a
step may expire several; a new row doesn't count against itself; equal scores are ordered by recency, also at the
bar; after a search the counters are those among the rows found.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from skyband.algorithms.base import Card
from skyband.algorithms.grid.base import TIGHTEN, Gridded
from skyband.algorithms.grid.search import ADMITTED, COUNTERS, SCORED
from skyband.algorithms.grid.tma import predicted
from skyband.algorithms.kernels.ranked_lists import Ranked
from skyband.compiling.jit import kernel
from skyband.core.order import before
from skyband.core.types import MINIMUM, Floats, Ints
from skyband.query.expression.score_space import Space

EVICTED, RAISED = len(COUNTERS), len(COUNTERS) + 1
LOW = 2  # a bar is too low if so many times the rows that a search finds are before it
LOOK = 8  # bars are checked in one step of so many
BURST = 8  # a query whose list is complete is searched for when a batch has so many times its rows
Bytes = npt.NDArray[np.uint8]


@kernel
def arrive(
    slot: int, value: float, when: int, number: int,
    good: Floats, time: Ints, seq: Ints, dominators: Ints, start: Ints, size: Ints, room: Ints, ks: Ints,
    bar: Floats, bar_time: Ints, bar_seq: Ints, oldest_time: Ints, oldest_seq: Ints, touched: Bytes, counts: Ints,
) -> int:  # fmt: skip
    """Insert a row into the slot's skyband and remove the rows that it dominates as the k-th; 1 if there is no room."""
    late = value == bar[slot] and (
        when < bar_time[slot] or (when == bar_time[slot] and number < bar_seq[slot])
    )
    begin, n, k = start[slot], size[slot], ks[slot]
    full = not late and n == room[slot]
    end = begin + n
    at = end
    own = k if late or full else 0  # newer rows before it; a late row may be behind the bar
    while own < k and at > begin and before(good[at - 1], time[at - 1], seq[at - 1], value, when, number):
        at -= 1
        if time[at] > when or (time[at] == when and seq[at] > number):
            own += 1
    if own < k:
        write = begin
        for i in range(begin, at):
            if time[i] < when or (time[i] == when and seq[i] < number):
                dominators[i] += 1
                if dominators[i] >= k:
                    continue
            if write != i:
                good[write] = good[i]
                time[write] = time[i]
                seq[write] = seq[i]
                dominators[write] = dominators[i]
            write += 1
        gone = at - write
        if gone == 0:  # the better ones move up
            for i in range(end, at, -1):
                good[i] = good[i - 1]
                time[i] = time[i - 1]
                seq[i] = seq[i - 1]
                dominators[i] = dominators[i - 1]
        elif gone > 1:  # or down
            for i in range(at, end):
                good[i - gone + 1] = good[i]
                time[i - gone + 1] = time[i]
                seq[i - gone + 1] = seq[i]
                dominators[i - gone + 1] = dominators[i]
        good[write] = value
        time[write] = when
        seq[write] = number
        dominators[write] = own
        size[slot] = n - gone + 1
        if when < oldest_time[slot] or (when == oldest_time[slot] and number < oldest_seq[slot]):
            oldest_time[slot] = when
            oldest_seq[slot] = number
        if end - at < k:
            touched[slot] = 1
        counts[slot, ADMITTED] += 1
        counts[slot, EVICTED] += gone
    return 1 if full else 0


@kernel
def expire(
    ks: Ints, horizon_time: Ints, horizon_seq: Ints, good: Floats, time: Ints, seq: Ints, dominators: Ints,
    start: Ints, size: Ints, complete: Bytes, oldest_time: Ints, oldest_seq: Ints, touched: Bytes, lost: Bytes,
) -> None:  # fmt: skip
    """Remove the rows before its horizon from each list; mark a list with fewer than k rows as lost, unless
    complete."""
    for slot in range(ks.shape[0]):
        since, since_seq = horizon_time[slot], horizon_seq[slot]
        if ks[slot] == 0 or oldest_time[slot] > since or (
            oldest_time[slot] == since and oldest_seq[slot] >= since_seq
        ):  # fmt: skip
            continue
        begin, end = start[slot], start[slot] + size[slot]
        oldest, oldest_number = 9223372036854775807, 9223372036854775807
        write = begin
        for i in range(begin, end):
            if time[i] < since or (time[i] == since and seq[i] < since_seq):
                continue
            if time[i] < oldest or (time[i] == oldest and seq[i] < oldest_number):
                oldest, oldest_number = time[i], seq[i]
            if write != i:
                good[write] = good[i]
                time[write] = time[i]
                seq[write] = seq[i]
                dominators[write] = dominators[i]
            write += 1
        oldest_time[slot], oldest_seq[slot] = oldest, oldest_number
        if write < end:
            size[slot] = write - begin
            touched[slot] = 1
            if size[slot] < ks[slot] and complete[slot] == 0:
                lost[slot] = 1


@kernel
def settle(
    slots: Ints, ks: Ints, complete: Bytes, bar_time: Ints, bar_seq: Ints, counts: Ints,
    good: Floats, time: Ints, seq: Ints, dominators: Ints, start: Ints, size: Ints, met_time: Ints, met_seq: Ints,
) -> None:  # fmt: skip
    """Of lists just found: set the bar, count the dominators from the best row down, and remove rows that have k.

    The recencies of the rows passed are kept sorted (the paper's balanced tree), so that a binary search counts how
    many of them are newer. A row that was removed need not be among them: its dominators are.
    """
    for t in range(slots.shape[0]):
        slot = slots[t]
        begin, n, k = start[slot], size[slot], ks[slot]
        if complete[slot]:
            bar_time[slot] = bar_seq[slot] = MINIMUM
        else:
            bar_time[slot], bar_seq[slot] = time[begin], seq[begin]
        met = 0
        write = begin + n - 1
        for i in range(begin + n - 1, begin - 1, -1):
            when, number = time[i], seq[i]
            low, high = 0, met
            while low < high:
                middle = (low + high) // 2
                if met_time[middle] < when or (met_time[middle] == when and met_seq[middle] < number):
                    low = middle + 1
                else:
                    high = middle
            if met - low >= k:
                counts[slot, EVICTED] += 1
                continue
            for j in range(met, low, -1):
                met_time[j] = met_time[j - 1]
                met_seq[j] = met_seq[j - 1]
            met_time[low] = when
            met_seq[low] = number
            dominators[write] = met - low
            good[write] = good[i]
            time[write] = when
            seq[write] = number
            met += 1
            write -= 1
        if met < n:
            for i in range(met):
                good[begin + i] = good[write + 1 + i]
                time[begin + i] = time[write + 1 + i]
                seq[begin + i] = seq[write + 1 + i]
                dominators[begin + i] = dominators[write + 1 + i]
            size[slot] = met


class SMA(Gridded):
    """The skyband of the rows before a bar, for each query, and a search of the grid when it has fewer than k."""

    card = Card(
        name="sma",
        title="skyband monitoring on a grid",
        source="Mouratidis, Bakiras, Papadias 2006, section 5",
        answers=frozenset({"topk"}),
        exact=True,
        keeps="every row of the window, a grid over them, and for each query the skyband of the rows before its bar",
        cost="an arrival: a score for each query whose region its cell meets; a search when fewer than k rows are left",
        wrong_when="scores fall, or rows are updated and deleted (take `tma`)",
        expected=lambda k, n: float(min(1.6 * k + 1, n)),
        options={"cells": 0.0, "slack": 0.0, "flag": 1.0},
        scores="any",
        window=True,
        fifo=True,
        boxes=True,
        cost_of=lambda work: predicted(work, 8e-5, 1.3 * work.k**0.42),
    )
    counter_names: ClassVar[tuple[str, ...]] = (*COUNTERS, "evicted", "raised")
    candidate_bytes = 32
    arrive = arrive

    def __init__(self, options: Mapping[str, float], space: Space) -> None:
        super().__init__(options, space)
        self.ranked = Ranked(counted=True)
        self.bar_time = np.empty(0, dtype=np.int64)
        self.bar_seq = np.empty(0, dtype=np.int64)
        self.steps = 0
        self.arrived = 0  # rows so far; the rest is by slot, as of when its bar was set:
        self.arrived_then = np.empty(0, dtype=np.int64)
        self.scored_then = np.empty(0, dtype=np.int64)
        self.admitted_then = np.empty(0, dtype=np.int64)
        self._ones = np.empty(0, dtype=np.int32)
        self._met = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)

    # -- what a search finds -------------------------------------------------------------------------------

    def keep(self) -> Ints:
        return self.ks + (self.ks * self.options["slack"]).astype(np.int64)

    def settled(self, slots: Ints) -> None:
        ranked = self.ranked
        most = int(ranked.size[slots].max(initial=0))
        if len(self._met[0]) < most:
            self._ones = np.empty(0, dtype=np.int32)
        self._met = np.empty(2 * most, dtype=np.int64), np.empty(2 * most, dtype=np.int64)
        self._noted(slots)
        settle(
            slots, self.ks, self.complete, self.bar_time, self.bar_seq, self.counts, *self._lists(), *self._met
        )  # fmt: skip

    def _lists(self) -> tuple[Any, ...]:
        ranked = self.ranked
        return ranked.good, ranked.time, ranked.seq, ranked.count, ranked.start, ranked.size

    def _provide(self) -> None:
        super()._provide()
        more = np.full(len(self.ks) - len(self.bar_time), MINIMUM, dtype=np.int64)
        for name in ("bar_time", "bar_seq", "admitted_then", "scored_then", "arrived_then"):
            setattr(self, name, np.append(getattr(self, name), more))

    def _complete(self, slot: int) -> None:
        super()._complete(slot)
        self._noted(np.array([slot]))
        self.bar_time[slot] = self.bar_seq[slot] = MINIMUM

    # -- a step --------------------------------------------------------------------------------------------

    def state(self) -> tuple[Any, ...]:
        return (
            *self._lists(), self.ranked.room, self.ks, self.bar, self.bar_time, self.bar_seq,
            self.oldest_time, self.oldest_seq, self.touched, self.counts,
        )  # fmt: skip

    def named(self) -> Any:
        """Return how many slots each cell names; without the flag every cell's words are read, as in the paper."""
        if self.options["flag"]:
            return super().named()
        if len(self._ones) != self.grid.total:
            self._ones = np.ones(self.grid.total, dtype=np.int32)
        return self._ones

    def _insert(self, columns: tuple[Floats, ...], time: Ints, seq: Ints) -> None:
        """Insert rows; search for queries that would take all rows of a large batch, one by one."""
        if self.complete.any():
            flooded = (self.complete > 0) & (self.ks > 0) & (len(time) > BURST * self.keep())
            self.bar[flooded] = np.nan
            self.complete[flooded] = 0
            self.lost[flooded] = 1
        self.arrived += len(time)
        super()._insert(columns, time, seq)

    def expire(self) -> None:
        expire(
            self.ks, self.horizon_time, self.horizon_seq, *self._lists(), self.complete, self.oldest_time,
            self.oldest_seq, self.touched, self.lost,
        )  # fmt: skip

    def _tighten(self) -> None:
        """Raise bars that have become too low: far more rows entered than a search finds."""
        self.steps += 1
        if self.steps % LOOK:
            return
        keep, ks = self.keep(), np.maximum(self.ks, 1)
        admitted = self.counts[:, ADMITTED] - self.admitted_then
        waste = (self.counts[:, SCORED] - self.scored_then > TIGHTEN) | (admitted > 2 * keep + 64)
        if not waste.any():
            return
        came = np.maximum(self.arrived - self.arrived_then, 1)
        before_bar = admitted * np.minimum(1.0, len(self.store) / came)
        low = (before_bar > LOW * keep + 8) & (self.ranked.size > self.ks) & (self.ks > 0)
        slots = np.flatnonzero(waste & low)
        # of keep rows before a bar, a list has about k(1 + ln(keep / k))
        usual = np.ceil(ks * (1 + np.log(np.maximum(keep, ks) / ks))).astype(np.int64)
        for slot in slots.tolist():
            self._raise(slot, int(min(usual[slot], self.ranked.size[slot])))
        self._noted(slots)
        self._influence(slots)

    def _noted(self, slots: Ints) -> None:
        """Start counting again how many rows enter."""
        self.scored_then[slots] = self.counts[slots, SCORED]
        self.admitted_then[slots] = self.counts[slots, ADMITTED]
        self.arrived_then[slots] = self.arrived

    def _raise(self, slot: int, rank: int) -> None:
        """Set the bar at this rank of the list."""
        ranked = self.ranked
        span = ranked.span(slot)
        cut = span.stop - rank
        for name in ranked.names:
            array = getattr(ranked, name)
            array[span.start : span.start + rank] = array[cut : span.stop].copy()
        ranked.size[slot] = rank
        first = span.start
        self.bar[slot], self.complete[slot] = ranked.good[first], 0
        self.bar_time[slot], self.bar_seq[slot] = ranked.time[first], ranked.seq[first]
        self.counts[slot, RAISED] += 1

    # -- keeping -------------------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        return {**super().dump(), "bar_time": self.bar_time.copy(), "bar_seq": self.bar_seq.copy()}

    def load(self, blob: Mapping[str, Any]) -> None:
        super().load(blob)
        self.bar_time, self.bar_seq = blob["bar_time"].copy(), blob["bar_seq"].copy()
        self._noted(np.arange(len(self.ks)))

    def _check(self) -> None:
        super()._check()
        for slot in np.flatnonzero(self.ks).tolist():
            good, time, seq = self.scored(slot, self._horizon(slot))
            bar, since, number = self.bar[slot], self.bar_time[slot], self.bar_seq[slot]
            above = (good > bar) | ((good == bar) & ((time > since) | ((time == since) & (seq >= number))))
            order = np.flatnonzero(above)[np.lexsort((seq[above], time[above]))]
            values = good[order]
            dominators = np.array(
                [np.count_nonzero(values[i + 1 :] >= v) for i, v in enumerate(values)], dtype=int
            )
            expected = {
                int(seq[row]): int(n) for row, n in zip(order, dominators, strict=True) if n < self.ks[slot]
            }
            span = self.ranked.span(slot)
            # the list is the k-skyband of the rows at or before the bar, each with its number of dominators there
            listed = zip(self.ranked.seq[span].tolist(), self.ranked.count[span].tolist(), strict=True)
            assert dict(listed) == expected
            # a slot that takes every row has the lowest bar
            assert not self.complete[slot] or (bar == -np.inf and since == number == MINIMUM)
