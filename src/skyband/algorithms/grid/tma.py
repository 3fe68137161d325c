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

from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.algorithms.base import Card, Workload
from skyband.algorithms.grid.base import Gridded
from skyband.algorithms.grid.cells import ROWS_A_CELL, TOTAL
from skyband.algorithms.grid.search import ADMITTED
from skyband.algorithms.kernels.ranked_lists import enlist
from skyband.algorithms.kernels.row_slots import Places
from skyband.compiling.jit import kernel
from skyband.core.types import Floats, Ints

Bytes = npt.NDArray[np.uint8]


@kernel
def arrive(
    slot: int, value: float, when: int, number: int,
    good: Floats, time: Ints, seq: Ints, start: Ints, size: Ints, room: Ints, ks: Ints,
    bar: Floats, complete: Bytes, oldest_time: Ints, oldest_seq: Ints, touched: Bytes, counts: Ints,
) -> int:  # fmt: skip
    """Insert a row into the slot's top k if it belongs there; return 1 if the list has no room."""
    at, n = start[slot], size[slot]
    if n < ks[slot]:
        if n == room[slot]:
            return 1
        enlist(value, when, number, at, n, good, time, seq)
        size[slot] = n + 1
    else:
        complete[slot] = 0  # one of the two rows is outside the list from now on
        bar[slot] = good[at]
        if value < good[at] or (
            value == good[at] and (when < time[at] or (when == time[at] and number < seq[at]))
        ):
            return 0
        for i in range(at, at + n - 1):
            if good[i + 1] > value or (
                good[i + 1] == value and (time[i + 1] > when or (time[i + 1] == when and seq[i + 1] > number))
            ):
                good[i] = value
                time[i] = when
                seq[i] = number
                break
            good[i] = good[i + 1]
            time[i] = time[i + 1]
            seq[i] = seq[i + 1]
        else:
            good[at + n - 1] = value
            time[at + n - 1] = when
            seq[at + n - 1] = number
        bar[slot] = good[at]
    if when < oldest_time[slot] or (when == oldest_time[slot] and number < oldest_seq[slot]):
        oldest_time[slot] = when
        oldest_seq[slot] = number
    touched[slot] = 1
    counts[slot, ADMITTED] += 1
    return 0


@kernel
def expire(
    ks: Ints, horizon_time: Ints, horizon_seq: Ints, good: Floats, time: Ints, seq: Ints, start: Ints, size: Ints,
    complete: Bytes, oldest_time: Ints, oldest_seq: Ints, touched: Bytes, lost: Bytes,
) -> None:  # fmt: skip
    """Remove the rows before its horizon from each list."""
    latest = 9223372036854775807
    for slot in range(ks.shape[0]):
        since, since_seq = horizon_time[slot], horizon_seq[slot]
        if ks[slot] == 0 or oldest_time[slot] > since or (
            oldest_time[slot] == since and oldest_seq[slot] >= since_seq
        ):  # fmt: skip
            continue
        at, n = start[slot], size[slot]
        oldest, oldest_number = latest, latest
        write = at
        for i in range(at, at + n):
            if time[i] < since or (time[i] == since and seq[i] < since_seq):
                continue
            if time[i] < oldest or (time[i] == oldest and seq[i] < oldest_number):
                oldest, oldest_number = time[i], seq[i]
            good[write] = good[i]
            time[write] = time[i]
            seq[write] = seq[i]
            write += 1
        oldest_time[slot], oldest_seq[slot] = oldest, oldest_number
        if write < at + n:
            size[slot] = write - at
            touched[slot] = 1
            lost[slot] = 1 - complete[slot]


@kernel
def strike(
    places: Ints, number: Ints, cell: Places, bits: npt.NDArray[np.uint64], used: npt.NDArray[np.uint64],
    good: Floats, time: Ints, seq: Ints, start: Ints, size: Ints, complete: Bytes, touched: Bytes, lost: Bytes,
) -> None:  # fmt: skip
    """Remove deleted rows from the lists of the slots that their cells name; of all slots if given as ~place."""
    one = np.uint64(1)
    for p in range(places.shape[0]):
        place = places[p]
        everywhere = place < 0
        if everywhere:
            place = ~place
        for w in range(bits.shape[1]):
            named = used[w] if everywhere else bits[cell[place], w]
            if named == 0:
                continue
            for b in range(64):
                if named & (one << np.uint64(b)) == 0:
                    continue
                slot = (w << 6) + b
                at, end = start[slot], start[slot] + size[slot]
                while at < end and seq[at] != number[place]:
                    at += 1
                if at == end:
                    continue
                for i in range(at, end - 1):
                    good[i] = good[i + 1]
                    time[i] = time[i + 1]
                    seq[i] = seq[i + 1]
                size[slot] -= 1
                touched[slot] = 1
                lost[slot] = 1 - complete[slot]


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

    def state(self) -> tuple[Any, ...]:
        ranked = self.ranked
        return (
            ranked.good, ranked.time, ranked.seq, ranked.start, ranked.size, ranked.room, self.ks,
            self.bar, self.complete, self.oldest_time, self.oldest_seq, self.touched, self.counts,
        )  # fmt: skip

    def expire(self) -> None:
        ranked = self.ranked
        expire(
            self.ks, self.horizon_time, self.horizon_seq, ranked.good, ranked.time, ranked.seq, ranked.start,
            ranked.size, self.complete, self.oldest_time, self.oldest_seq, self.touched, self.lost,
        )  # fmt: skip

    def strike(self, places: Ints) -> None:
        ranked = self.ranked
        strike(
            places, self.store.seq, self.store.cell, self.grid.bits, self.used, ranked.good, ranked.time,
            ranked.seq, ranked.start, ranked.size, self.complete, self.touched, self.lost,
        )  # fmt: skip
