"""TMA: the window's rows in a grid, and a new search when the top loses a row (Mouratidis et al., sections 4 and 7).

**Problem.** Keep the k best rows of a window for many queries, each with a score of its own over the same columns,
without scoring every row for every query.

**Idea.** The score of a query's k-th row bounds an *influence region*: rows outside can't change the answer. Space is
cut into cells, and each cell has the queries whose region meets it. A new row is scored for those alone. When a listed
row expires (or is deleted), the query's top k is recomputed by a search: cells are visited best first, by the best
score that a row in them could have, until no cell can hold anything better than the k rows found.

**What is kept.** All rows of the window, the grid with its influence lists (a bit for each cell and query), and for
each query its exact top k. A region that has shrunk by an arrival leaves its old entries behind: they cost a
comparison each, until the next search removes them.

**Cost.** A new row: its cell, then a score for each query named there. A query needs a search in a step with
probability at most 1 - (1 - r/n)^k for r arrivals and n rows in the window; a search scores the rows of the cells
that the region meets.

**Any score.** Monotone on each axis, in whatever direction: the search steps from the best corner from neighbour to
neighbour. Any other score: boxes of cells are bounded by interval arithmetic and cut in two, best first. Limits in
WHERE (a box) confine both. Rows may come late and may be deleted.

**Wrong choice when** k is large against what a step expires, or scores fall: nearly every step then searches for nearly
every query. `sma` looks ahead and searches seldom; `ra` needs no window at all.

Errata followed: cells whose bound equals the k-th score are visited, because an equal row that is newer is better; all
new rows and losses of a step precede the one search; a query with fewer than k rows has its entry in every cell.
"""

from __future__ import annotations

import numpy as np

from skyband.algorithms.contract import Card, Workload
from skyband.algorithms.grid.base import Gridded
from skyband.algorithms.grid.cells import ROWS_A_CELL, TOTAL, Grid
from skyband.algorithms.kernels.barred_lists import FULL, Bars, admit
from skyband.algorithms.kernels.ranked_lists import Ranked
from skyband.algorithms.kernels.row_slots import Rows
from skyband.compiling.jit import kernel
from skyband.core.types import Ints


@kernel
def arrive(slot: int, value: float, when: int, number: int, bars: Bars, ranked: Ranked) -> int:
    """Insert a row into the slot's top k if it belongs there; return 1 if the list has no room."""
    full = ranked.size[slot] >= bars.ks[slot]
    result: int = admit(slot, value, when, number, bars, ranked)
    if full:
        bars.bar[slot] = ranked.good[ranked.start[slot]]
    return int(result == FULL)


@kernel
def strike(places: Ints, rows: Rows, grid: Grid, bars: Bars, ranked: Ranked) -> None:
    """Remove deleted rows from the lists of the slots that their cells name; of all slots if given as ~place."""
    good, time, seq = ranked.good, ranked.time, ranked.seq
    one = np.uint64(1)
    for p in range(places.shape[0]):
        place = places[p]
        everywhere = place < 0
        if everywhere:
            place = ~place
        for w in range(grid.bits.shape[1]):
            named = grid.used[w] if everywhere else grid.bits[rows.cell[place], w]
            if named == 0:
                continue
            for b in range(64):
                if named & (one << np.uint64(b)) == 0:
                    continue
                slot = (w << 6) + b
                at, end = ranked.start[slot], ranked.start[slot] + ranked.size[slot]
                while at < end and seq[at] != rows.seq[place]:
                    at += 1
                if at == end:
                    continue
                for i in range(at, end - 1):
                    good[i] = good[i + 1]
                    time[i] = time[i + 1]
                    seq[i] = seq[i + 1]
                ranked.size[slot] -= 1
                bars.touched[slot] = 1
                bars.lost[slot] = 1 - bars.complete[slot]


def predicted(work: Workload, fixed: float, rows_lost: float) -> float:
    """Return CPU seconds for a batch: `fixed`, and a search for each query that loses one of so many rows.

    Counts and times were fitted to runs with 1,000 to 1,000,000 rows and 1 to 6 axes.
    """
    window, batch, queries = max(work.window, 1.0), work.batch, work.queries
    cells = min(float(TOTAL), max(1.0, window / ROWS_A_CELL))
    # cells that name one query
    named = min(cells, (1 + (cells * work.k / window) ** (1 / work.axes)) ** work.axes)
    turned = min(1.0, batch / window)
    searches = queries * min(1.0, turned * rows_lost)
    arrivals = batch * 6e-8 + queries * (batch * named / cells * 1.2e-8 + turned * work.k * 2e-7 + 3e-8)
    search = 2e-6 + named * (5e-8 * work.axes + window / cells * 1e-8)
    if not work.rendered:  # numpy, one query at a time
        arrivals += queries * (5e-5 + batch * 1e-8 * work.axes)
        search += 2e-3
    return float(fixed + arrivals + min(searches, 1.0) * 1e-4 + searches * search)


def cost_of(work: Workload) -> float:
    """Return CPU seconds for a batch: a search for each query whose top k loses a row."""
    return predicted(work, 9e-5, work.k)


class TMA(Gridded):
    """The exact top k of each query, and a search of the grid when it loses a row."""

    card = Card(
        name="tma",
        title="top-k monitoring on a grid",
        source="Mouratidis, Bakiras, Papadias 2006, sections 4 and 7",
        answers=frozenset({"topk", "threshold"}),
        exact=True,
        keeps="every row of the window, a grid over them, and the top k of each query",
        cost="an arrival: a score for each query whose region its cell meets; a search when a listed row leaves",
        wrong_when="k is large, or scores fall: nearly every step then searches for nearly every query",
        expected=lambda k, n: float(min(k, n)),
        options={"cells": 0.0},
        scores="any",
        window=True,
        fifo=False,
        boxes=True,
        cost_of=cost_of,
    )
    arrive = arrive

    def strike(self, places: Ints) -> None:
        strike(places, self.store, self.grid, self.bars.lent(self), self.ranked)
