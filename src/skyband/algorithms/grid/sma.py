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

from skyband.algorithms.contract import Card
from skyband.algorithms.grid.base import TIGHTEN, Gridded
from skyband.algorithms.grid.search import COUNTERS, SCORED
from skyband.algorithms.grid.tma import predicted
from skyband.algorithms.kernels.barred_lists import ADMITTED, arrive, settle_all
from skyband.algorithms.kernels.ranked_lists import Ranked
from skyband.core.types import MINIMUM, Floats, Ints
from skyband.query.expression.score_space import Space

RAISED = len(COUNTERS) + 1  # the counter after that of evicted rows
LOW = 2  # a bar is too low if so many times the rows that a search finds are before it
LOOK = 8  # bars are checked in one step of so many
BURST = 8  # a query whose list is complete is searched for when a batch has so many times its rows


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
        self.steps = 0
        self.arrived = 0  # rows so far; the rest is by slot, as of when its bar was set:
        self.arrived_then = np.empty(0, dtype=np.int64)
        self.scored_then = np.empty(0, dtype=np.int64)
        self.admitted_then = np.empty(0, dtype=np.int64)
        self._ones = np.empty(0, dtype=np.int32)

    # -- what a search finds -------------------------------------------------------------------------------

    def keep(self) -> Ints:
        return self.ks + (self.ks * self.options["slack"]).astype(np.int64)

    def settled(self, slots: Ints) -> None:
        self._noted(slots)
        settle_all(slots, self.bars.lent(self), self.ranked)

    def _provide(self) -> None:
        super()._provide()
        more = np.full(len(self.ks) - len(self.arrived_then), MINIMUM, dtype=np.int64)
        for name in ("admitted_then", "scored_then", "arrived_then"):
            setattr(self, name, np.append(getattr(self, name), more))

    def _complete(self, slot: int) -> None:
        super()._complete(slot)
        self._noted(np.array([slot]))
        self.bars.bar_time[slot] = self.bars.bar_seq[slot] = MINIMUM

    # -- a step --------------------------------------------------------------------------------------------

    def named(self) -> Any:
        """Return how many slots each cell names; without the flag every cell's words are read, as in the paper."""
        if self.options["flag"]:
            return super().named()
        if len(self._ones) != self.grid.total:
            self._ones = np.ones(self.grid.total, dtype=np.int32)
        return self._ones

    def _insert(self, columns: tuple[Floats, ...], time: Ints, seq: Ints) -> None:
        """Insert rows; search for queries that would take all rows of a large batch, one by one."""
        if self.bars.complete.any():
            flooded = (self.bars.complete > 0) & (self.ks > 0) & (len(time) > BURST * self.keep())
            self.bars.bar[flooded] = np.nan
            self.bars.complete[flooded] = 0
            self.bars.lost[flooded] = 1
        self.arrived += len(time)
        super()._insert(columns, time, seq)

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
        self.bars.bar[slot], self.bars.complete[slot] = ranked.good[first], 0
        self.bars.bar_time[slot], self.bars.bar_seq[slot] = ranked.time[first], ranked.seq[first]
        self.counts[slot, RAISED] += 1

    # -- keeping -------------------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        return {**super().dump(), "bar_time": self.bars.bar_time.copy(), "bar_seq": self.bars.bar_seq.copy()}

    def load(self, blob: Mapping[str, Any]) -> None:
        super().load(blob)
        self.bars.bar_time, self.bars.bar_seq = blob["bar_time"].copy(), blob["bar_seq"].copy()
        self._noted(np.arange(len(self.ks)))

    def _check(self) -> None:
        super()._check()
        for slot in np.flatnonzero(self.ks).tolist():
            good, time, seq = self.scored(slot, self._horizon(slot))
            bar, since, number = self.bars.bar[slot], self.bars.bar_time[slot], self.bars.bar_seq[slot]
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
            assert not self.bars.complete[slot] or (bar == -np.inf and since == number == MINIMUM)
