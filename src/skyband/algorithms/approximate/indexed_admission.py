"""Rows that an index finds for capped lists: which of them enter, and a bound for all rows that it skipped.

A capped list (capped_admission.py) takes rows at or above a floor, and its certificate needs the best rejected score.
An index (query_index/index.py) offers a list only the rows of some cells: a row that it skips is worse than the bar
registered there. So a rejected row was either offered, and its score is known, or it is below that bar, and the bar is
recorded in its place: a bound on what was dropped, so that no certificate is wrong.

A certificate may be refused, though, that could have been given: when the bar enters an answer while no dropped row
does. With the floor itself as the bound that would be four times as often as answers are wrong (k = 9, an error
of 0.1). But the error falls steeply with depth: at the edge of a region four times as large it no longer happens,
with k = 1 once for every eight wrong answers. So regions are entered that much larger than they are, and rows between
that edge and the floor are scored for the record only. Where a list has shrunk since its region was entered, rows
are looked up in no more than four times its present region.
"""

from __future__ import annotations

import numpy as np

from skyband.algorithms.approximate.capped_admission import BLOCK, floor_of, thin
from skyband.algorithms.kernels.batch_skyband import push_heap, replace_root
from skyband.compiling.jit import kernel
from skyband.core.order import inside_of
from skyband.core.types import Floats, Ints


@kernel
def floors(
    ks: Ints, time: Ints, seq: Ints, horizon_time: Ints, horizon_seq: Ints, entered: Floats,
    wider: float, deeper: float, loose: float, limit: Ints, additional: int, threshold: Floats,
    good: Floats, start: Ints, head: Ints, size: Ints,
    floor: Floats, least: Floats, unmet: Ints, slots: Ints, bars: Floats,
) -> int:  # fmt: skip
    """Write for each list the floor of a batch, and the score from which on rows are looked up.

    NaN: there is no floor, the list must be offered every row, and `unmet` gets its k. Returns how many regions must be
    entered again: `slots` and `bars` name them, and their widths.

    A region that has grown beyond what was entered must be entered again, one that has shrunk only when it has shrunk
    much. The measure is the distance between a list's best row and its floor. An estimated floor is low by itself, and
    is entered less wide.
    """
    moved = 0
    rows = time.shape[0]
    for slot in range(ks.shape[0]):
        floor[slot] = least[slot] = np.nan
        unmet[slot] = 0
        k = ks[slot]
        if k == 0:
            continue
        inside = inside_of(time, seq, rows, horizon_time[slot], horizon_seq[slot])
        most = k + limit[slot] + additional
        low = floor_of(slot, most, threshold, good, start, head, size, inside > BLOCK)[2]
        if low == -np.inf:
            unmet[slot] = k
            continue
        best = low
        for place in range(start[slot] + head[slot], start[slot] + size[slot]):
            best = good[place] if good[place] > best else best
        spread = best - low
        bar = entered[slot]
        guessed = threshold[slot] == -np.inf
        if low < bar or bar < low - loose * spread:
            bar = low - (deeper if guessed else wider) * spread
            bar = bar if bar == bar else -np.inf
            slots[moved], bars[moved] = slot, bar
            moved += 1
        under = low - wider * spread
        floor[slot] = low
        least[slot] = under if under > bar else bar
    return moved


@kernel
def sift(
    slot: int, inside: int, hits: int, end: int, rows: Ints, scores: Floats, floor: float, under: float,
    most: int, places: int, worst: float, heap: Floats, nearest: Floats, picks: Ints, values: Floats,
    lost: Floats, outside: Ints,
) -> int:  # fmt: skip
    """Pick the offered rows, [hits, end) and newest first, that may enter: as `admit`, with the same floors.

    `under` is a score that no skipped row reached. Returns how many were picked.
    """
    count, met, held = 0, 0, 0
    best = -np.inf
    newest = 0  # the newest row that was not picked
    gone = inside  # the newest row that was picked and dropped again
    for i in range(hits, end):
        row = rows[i]
        if row >= inside:
            break
        met += 1
        value = scores[i]
        if value < floor:
            best = max(best, value)
            continue
        newest += row == newest
        picks[count] = row
        values[count] = value
        count += 1
        if places > 0:
            if held < places:
                push_heap(nearest, held, value)
                held += 1
            elif value > nearest[0]:
                replace_root(nearest, places, value)
            if held == places:
                floor = max(floor, min(worst, nearest[0]))
        if count >= 2 * most:
            bar, score, first = thin(picks, values, count, most, heap)
            count = most
            floor = max(floor, bar)
            best = max(best, score)
            gone = min(gone, first)
    if met < inside:
        best = max(best, under)
    newest = min(newest, gone)
    lost[slot] = best if newest < inside else np.nan
    outside[slot] = newest
    return count
