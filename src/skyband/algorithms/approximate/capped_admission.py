"""Which rows of a batch may enter a list of limited length: one comparison for each row that may not.

A capped list has a *floor*: rows below it are rejected. They are found in blocks of 64, by an OR over comparisons as in
score_select.py. Of a block without a hit only the greatest score is kept, lane by lane (a loop of maxima that compiles
to vector instructions, while a running maximum of floats would not), because the certificate needs the best rejected
row.

A list that has room has no floor, and a batch may be large. A floor is then estimated from the scores in the list; if
too few rows are above it, the batch is processed again without one. And if the list has room for r rows, a row that is
worse than the list's worst and than r rows of the batch won't stay: the r best of the batch so far give a floor that
rises during the batch. Whenever twice as many rows were picked as the list can hold, the worse half is dropped.

`CAPPED` is the same loop around a family's score, for score_select.py, so that no score column is written.
"""

from __future__ import annotations

import numpy as np

from skyband.algorithms.kernels.batch_skyband import Picks, push_heap, replace_root
from skyband.algorithms.kernels.candidate_lists import Lists
from skyband.compiling.jit import inlined, kernel
from skyband.compiling.state import State, field, scalar
from skyband.core.types import Floats, Ints

BLOCK = 64


class Caps(State):
    """What capped lists know of the rows that they reject."""

    threshold: Floats = field("f8[slot]")  # rows below it are rejected; -inf: none
    held: Ints = field("i8[slot]")  # rows in the list after the last insertion or expiry
    lost: Floats = field("f8[slot]", scratch=True)  # the best rejected row of a step, or NaN
    outside: Ints = field("i8[slot]", scratch=True)  # the newest rejected row
    nearest: Floats = field("f8[rank]", scratch=True)  # a heap of the best of a batch
    additional: int = scalar("i8", scratch=True)  # rows beyond k and the limit


@kernel
def least(good: Floats, begin: int, end: int) -> tuple[float, float]:
    """Return the worst score of a list and the second worst."""
    worst, next_worst = np.inf, np.inf
    for place in range(begin, end):
        value = good[place]
        if value < worst:
            next_worst = worst
            worst = value
        elif value < next_worst:
            next_worst = value
    return worst, next_worst


@kernel
def kth_best(values: Floats, begin: int, end: int, k: int, heap: Floats) -> float:
    """Return the k-th best of at least k values."""
    for i in range(k):
        push_heap(heap, i, values[begin + i])
    for i in range(begin + k, end):
        if values[i] > heap[0]:
            replace_root(heap, k, values[i])
    return float(heap[0])


@kernel
def bar_of(values: Floats, begin: int, end: int, most: int, heap: Floats) -> float:
    """Return the same for hardly more than `most` values, by counting from the worst ones."""
    over = end - begin - most
    if over == 0:
        return float(least(values, begin, end)[0])
    if 2 * over > most:
        return float(kth_best(values, begin, end, most, heap))
    for i in range(over + 1):
        push_heap(heap, i, -values[begin + i])
    for i in range(begin + over + 1, end):
        if -values[i] > heap[0]:
            replace_root(heap, over + 1, -values[i])
    return float(-heap[0])


@kernel
def thin(picks: Picks, count: int, most: int) -> tuple[float, float, int]:
    """Keep the `most` best of the picked rows (newest first; among equals the newer).

    Returns their worst score, and of the dropped rows the best score and the newest row.
    """
    row, values = picks.row, picks.good
    floor = kth_best(values, 0, count, most, picks.heap)
    equals = most
    for i in range(count):
        equals -= values[i] > floor
    write = 0
    lost = -np.inf
    newest = -1
    for i in range(count):
        value = values[i]
        if value > floor or (value == floor and equals > 0):
            equals -= value == floor
            row[write] = row[i]
            values[write] = value
            write += 1
        else:
            lost = max(lost, value)
            newest = row[i] if newest < 0 else newest
    return floor, lost, newest


@kernel
def take(
    scores: Floats, at: int, stop: int, base: int, most: int, places: int, worst: float, picks: Picks, nearest: Floats,
    numbers: Ints, floor: float, peak: Floats,
) -> float:  # fmt: skip
    """Process one block row by row; return the floor, which may have risen.

    `numbers`: rows picked, scores in the heap `nearest` of the best of the batch so far, and the newest rejected row,
    -1 if there is none.
    """
    count, held = numbers[0], numbers[1]
    for j in range(stop):
        value = scores[at + j]
        if value >= floor:
            picks.row[count] = base + j
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
                bar, gone, newest = thin(picks, count, most)
                count = most
                floor = max(floor, bar)
                peak[j] = max(peak[j], gone)
                numbers[2] = newest if numbers[2] < 0 else min(numbers[2], newest)
        elif value < floor:
            peak[j] = max(peak[j], value)
            if numbers[2] < 0:
                numbers[2] = base + j
    numbers[0], numbers[1] = count, held
    return floor


@inlined
def cap(slot: int, lists: Lists, caps: Caps) -> int:
    """Return the cap of a slot's list."""
    return int(lists.ks[slot] + lists.limit[slot] + caps.additional)


@kernel
def floor_of(slot: int, lists: Lists, caps: Caps, guess: bool) -> tuple[int, float, float]:
    """Return how many rows a list has room for, its worst, and the floor below which rows of a batch are rejected.

    Without a threshold the floor is an estimate, if wanted: as many rows have left the list as it has room for, so
    that is about the batch's share of the window, and below its worst the scores may go on as above: those of a
    uniform column evenly, those of nearest neighbours in d dimensions with the d-th power of the distance.
    """
    if caps.threshold[slot] > -np.inf:
        return 0, np.inf, caps.threshold[slot]
    good, most = lists.good, cap(slot, lists, caps)
    first, end = lists.start[slot] + lists.head[slot], lists.start[slot] + lists.size[slot]
    live = end - first
    places = max(most - live, 0)
    worst = least(good, first, end)[0]
    if not guess or live < 16 or places == 0:
        return places, worst, -np.inf
    mean, best = 0.0, worst
    for place in range(first, end):
        mean += good[place] / live
        best = max(best, good[place])
    # if a power of (best - score) counts rows, that power follows from the mean
    power = min(max((best - mean) / (mean - worst), 1.0), 16.0)
    wanted = places + 1.5 * np.sqrt(places) + 3.0
    floor = best - (best - worst) * (wanted * most / (places * live)) ** (1.0 / power)
    return places, worst, floor if -np.inf < floor < np.inf else -np.inf


@kernel
def begin(
    slot: int, lists: Lists, caps: Caps, peak: Floats, numbers: Ints, guess: bool
) -> tuple[int, int, float, float]:
    """Begin a batch: return how many rows the list can hold, how many it has room for, its worst, and the floor."""
    peak[:] = -np.inf
    numbers[:2] = 0
    numbers[2] = -1
    places, worst, floor = floor_of(slot, lists, caps, guess)
    return cap(slot, lists, caps), places, worst, floor


@kernel
def enough(slot: int, lists: Lists, caps: Caps, count: int, floor: float) -> bool:
    """Whether the floor of a batch was low enough, if so many rows were picked: then a row below it has k + limit
    better ones."""
    there = lists.size[slot] - lists.head[slot] + count
    return bool(floor == caps.threshold[slot] or there >= lists.ks[slot] + lists.limit[slot])


@kernel
def best_outside(peak: Floats, numbers: Ints) -> float:
    """Return the best rejected score, NaN if there is none."""
    if numbers[2] < 0:
        return np.nan
    best = peak[0]
    for j in range(1, BLOCK):
        best = max(best, peak[j])
    return float(best)


@kernel
def admit(slot: int, scores: Floats, inside: int, picks: Picks, lists: Lists, caps: Caps) -> int:
    """Pick the rows among the first `inside` of `scores` (newest first) that may enter; return how many.

    caps.lost[slot] becomes the best rejected score, NaN if there is none, and caps.outside[slot] the newest rejected
    row. A NaN is neither picked nor rejected.
    """
    peak, numbers = np.empty(BLOCK, np.float64), np.empty(3, np.int64)
    for attempt in range(2):
        most, places, worst, began = begin(slot, lists, caps, peak, numbers, attempt == 0 and inside > BLOCK)
        floor = began
        for block in range((inside + BLOCK - 1) // BLOCK):
            first, stop = block * BLOCK, min(inside - block * BLOCK, BLOCK)
            hit = stop < BLOCK
            some = False
            if stop == BLOCK:
                for j in range(BLOCK):
                    hit |= scores[block * BLOCK + j] >= floor
                    some |= scores[block * BLOCK + j] < floor
            if hit:
                floor = take(
                    scores, first, stop, first, most, places, worst, picks, caps.nearest, numbers, floor, peak
                )
            else:
                if some and numbers[2] < 0:
                    numbers[2] = first
                for j in range(BLOCK):
                    value = scores[block * BLOCK + j]
                    peak[j] = value if value > peak[j] else peak[j]
        if enough(slot, lists, caps, numbers[0], began):
            break
    caps.lost[slot], caps.outside[slot] = best_outside(peak, numbers), numbers[2]
    return int(numbers[0])


CAPPED = '''"""Generated by algorithms.approximate.capped_admission: scores and admits for many queries of one
shape."""
import numpy as np
from math import sqrt
from skyband.compiling.jit import kernel
from skyband.core.order import inside_of
from skyband.algorithms.approximate.capped_admission import begin, best_outside, enough, take
from {module} import absorb

@kernel
def many(first, slots, constants, sign, {columns}, picks, step, {states}):
    time, seq, n = step.time, step.seq, step.time.shape[0]
    block = np.empty(64, np.float64)
    peak = np.empty(64, np.float64)
    numbers = np.empty(3, np.int64)
    p = np.empty(constants.shape[1], np.float64)
    for at in range(first, slots.shape[0]):
        slot = slots[at]
        for c in range(p.shape[0]):
            p[c] = constants[slot, c]
        {parameters}
        inside = inside_of(time, seq, n, lists.horizon_time[slot], lists.horizon_seq[slot])
        for attempt in range(2):
            most, places, worst, began = begin(slot, lists, caps, peak, numbers, attempt == 0 and inside > 64)
            floor = began
            for b in range((inside + 63) // 64):
                stop = min(inside - b * 64, 64)
                hit = stop < 64
                some = False
                if stop == 64:
                    for j in range(64):
                        {loads}
                        value = sign * ({score})
                        block[j] = value
                        hit |= value >= floor
                        some |= value < floor
                else:
                    for j in range(stop):
                        {loads}
                        block[j] = sign * ({score})
                if hit:
                    floor = take(
                        block, 0, stop, b * 64, most, places, worst, picks, caps.nearest, numbers, floor, peak
                    )
                else:
                    if some and numbers[2] < 0:
                        numbers[2] = b * 64
                    for j in range(64):
                        peak[j] = block[j] if block[j] > peak[j] else peak[j]
            if enough(slot, lists, caps, numbers[0], began):
                break
        caps.lost[slot], caps.outside[slot] = best_outside(peak, numbers), numbers[2]
        if absorb(slot, numbers[0], picks, step, {states}):
            return at
    return slots.shape[0]
'''
