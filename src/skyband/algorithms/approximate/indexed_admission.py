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

from skyband.algorithms.approximate.capped_admission import BLOCK, Caps, cap, floor_of, least, thin
from skyband.algorithms.kernels.batch_skyband import Picks, push_heap, replace_root
from skyband.algorithms.kernels.candidate_lists import Lists
from skyband.compiling.jit import kernel
from skyband.compiling.state import State, field
from skyband.core.order import inside_of
from skyband.core.types import Floats, Ints


class Looked(State):
    """Scratch memory for look-ups, by slot; and the regions to enter again, which come first."""

    floor: Floats = field("f8[slot]")  # of a batch
    least: Floats = field("f8[slot]")  # the score from which on rows are looked up
    unmet: Ints = field("i8[slot]")  # the k of a list that must be offered every row, else 0
    moved: Ints = field("i8[slot]")  # slots whose regions must be entered again
    bars: Floats = field("f8[slot]")  # how wide


@kernel
def floors(
    time: Ints, seq: Ints, entered: Floats, wider: float, deeper: float, loose: float, lists: Lists, caps: Caps,
    looked: Looked,
) -> int:  # fmt: skip
    """Write for each list the floor of a batch, and the score from which on rows are looked up.

    NaN: there is no floor, the list must be offered every row. Returns how many regions must be entered again.

    A region that has grown beyond what was entered must be entered again, one that has shrunk only when it has shrunk
    much. The measure is the distance between a list's best row and its floor. An estimated floor is low by itself, and
    is entered less wide.
    """
    good = lists.good
    moved = 0
    for slot in range(lists.ks.shape[0]):
        looked.floor[slot] = looked.least[slot] = np.nan
        looked.unmet[slot] = 0
        k = lists.ks[slot]
        if k == 0:
            continue
        inside = inside_of(time, seq, time.shape[0], lists.horizon_time[slot], lists.horizon_seq[slot])
        low = floor_of(slot, lists, caps, inside > BLOCK)[2]
        if low == -np.inf:
            looked.unmet[slot] = k
            continue
        best = low
        for place in range(lists.start[slot] + lists.head[slot], lists.start[slot] + lists.size[slot]):
            best = good[place] if good[place] > best else best
        spread = best - low
        bar = entered[slot]
        guessed = caps.threshold[slot] == -np.inf
        if low < bar or bar < low - loose * spread:
            bar = low - (deeper if guessed else wider) * spread
            bar = bar if bar == bar else -np.inf
            looked.moved[moved], looked.bars[moved] = slot, bar
            moved += 1
        under = low - wider * spread
        looked.floor[slot] = low
        looked.least[slot] = under if under > bar else bar
    return moved


@kernel
def sift(
    slot: int, inside: int, hits: int, end: int, rows: Ints, scores: Floats, picks: Picks, lists: Lists, caps: Caps,
    looked: Looked,
) -> int:  # fmt: skip
    """Pick the offered rows, [hits, end) and newest first, that may enter: as `admit`, with the same floors.

    No skipped row reached the score from which on rows were looked up. Returns how many were picked.
    """
    floor, most, nearest = looked.floor[slot], cap(slot, lists, caps), caps.nearest
    places, worst = 0, np.inf
    if caps.threshold[slot] == -np.inf:
        places = most - (lists.size[slot] - lists.head[slot])
        first, last = lists.start[slot] + lists.head[slot], lists.start[slot] + lists.size[slot]
        worst = least(lists.good, first, last)[0]
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
        picks.row[count] = row
        picks.good[count] = value
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
            bar, score, dropped = thin(picks, count, most)
            count = most
            floor = max(floor, bar)
            best = max(best, score)
            gone = min(gone, dropped)
    if met < inside:
        best = max(best, looked.least[slot])
    newest = min(newest, gone)
    caps.lost[slot] = best if newest < inside else np.nan
    caps.outside[slot] = newest
    return count
