"""CPM/w: nearest neighbours by the top k alone (Mouratidis and Papadias 2007; Pripužić et al. 2015, section 2).

**Problem.** As `snn`: hundreds of points, each with its k nearest rows of a window.

**Idea.** Keep the exact top k of each query and nothing else. A row that is better than the k-th takes its place;
when a listed row leaves the window, the query is searched for, cell by cell of a grid, nearest cells first.

**What is kept.** All rows of the window in a grid (base.py), with influence lists for each query's region at the time
of its last search, and k rows for each query. A query is entered again only when its region grows: nearer rows
shrink its circle, and the entries stay until the next search. `tma` is the same with regions that shrink at once.

**Cost.** A row: its cell, a score for each query that is named there, and O(k) for each list that it enters. A search
whenever an answer loses a row: k of n rows are in an answer, so every query is searched for k times a window. The paper
orders cells by rectangles around the point (*conceptual partitioning*); here boxes of cells are bounded by interval
arithmetic, best first, which visits the same cells and works for any score.

**Wrong choice when** any other algorithm can answer: `snn` looks ahead and searches seldom. It is kept for comparison.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from skyband.algorithms.contract import Card
from skyband.algorithms.grid import tma
from skyband.algorithms.grid.base import Gridded
from skyband.algorithms.grid.search import COUNTERS
from skyband.algorithms.kernels.barred_lists import FULL, OUT, Bars, admit
from skyband.algorithms.kernels.ranked_lists import Ranked
from skyband.compiling.jit import kernel
from skyband.core.types import Floats, Ints

OUTSIDE = len(COUNTERS)  # rows within the last circle that were outside the present one


@kernel
def arrive(slot: int, value: float, when: int, number: int, bars: Bars, ranked: Ranked) -> int:
    """Insert a row into the slot's top k if it belongs there; return 1 if the list has no room. The bar stays."""
    result: int = admit(slot, value, when, number, bars, ranked)
    if result == OUT:
        bars.counts[slot, OUTSIDE] += 1
    return int(result == FULL)


class CPM(Gridded):
    """The exact top k of each query, and a search when it loses a row."""

    card = Card(
        name="cpm",
        title="nearest neighbours by searching again on a grid",
        source="Mouratidis, Papadias 2007; Pripužić, Podnar Žarko, Aberer 2015, sections 2 and 6.1",
        answers=frozenset({"topk"}),
        exact=True,
        keeps="every row of the window in a grid, and the top k of each query",
        cost="an arrival: a score for each query whose last circle its cell meets; a search of the nearest cells when "
        "an answer loses a row",
        wrong_when="k is large or speed matters (take `snn`), or rows are updated and deleted (take `tma`)",
        expected=lambda k, n: float(min(k, n)),
        options={"cells": 0.0},
        window=True,
        fifo=True,
        cost_of=lambda work: 1.1 * tma.cost_of(work),  # estimated: the same work, with wider regions
    )
    counter_names: ClassVar[tuple[str, ...]] = (*COUNTERS, "in the old circle only")
    arrive = arrive

    def window_step(
        self, columns: tuple[Floats, ...], time: Ints, seq: Ints, deleted_time: Ints, deleted_seq: Ints
    ) -> None:
        super().window_step(columns, time, seq, deleted_time, deleted_seq)
        # a list with its first k rows gets its first circle
        bars = self.bars
        full = np.flatnonzero((bars.bar == -np.inf) & (self.ks > 0) & (self.ranked.size >= self.ks))
        if len(full):
            bars.bar[full], bars.complete[full] = self.ranked.good[self.ranked.start[full]], 0
            self._influence(full)
