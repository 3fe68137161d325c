"""The state of a walk through the blocks for one query, and its next part.

Part of refilling lists (refill.py explains it). Each of the queries that walk together has a row of integers (`SLOT` to
`SIDE`), one of scores (`BAR` to `LOWEST`), and a list: its extra rows, then its best.
"""

from __future__ import annotations

import numpy as np

from skyband.algorithms.heightmap.ingest import LAST_SEQ, LAST_TIME, MIXED
from skyband.algorithms.heightmap.slack_lists import FAR, SHARE, precedes
from skyband.algorithms.kernels.ranked_lists import enlist
from skyband.compiling.jit import kernel
from skyband.core.types import Floats, Ints

STACK = 4096  # rows that a query may hold beside its best, if k is not as great
SOON = 3  # a list with at most this part of k more than it must have runs short next,
NEXT = 512  # and with at most so many more
GROUP = 32  # queries that walk together, so that a reservoir is read from far memory once for all of them
# columns of a member; SIDE lists the members that read a reservoir together
SLOT, PLACE, K, AT, UNTIL, PHASE, N, EXTRA, YOUNG, MOST_YOUNG, OLDEST, COUNTED, ORDER, SIDE = range(14)
# in ORDER: rows are found from the newest to the oldest; in any order, and no worse than the k-th best they are kept;
# or in any order, and all that reach the threshold are kept
NEWEST_FIRST, ANY_ORDER, ALL_KEPT = range(3)
# columns of its marks; LOWEST is the last, since a part of the array begins there
BAR, GUESS, LEVEL, DEEPEST, LOWEST = range(5)
SCRATCH = 192  # scores of a chunk; places and scores of rows found
DONE = 3  # phases: 0 and 1 are young rows, 2 older ones


@kernel
def halve(out_good: Floats, out_time: Ints, out_seq: Ints, extra: int, n: int, lowest: Floats) -> int:
    """Remove the lower half of the extra rows, with all that equal its best, and raise the threshold above it.

    Called when there is no room. Returns how many extra rows are left before the n best.
    """
    lowest[0] = max(lowest[0], np.nextafter(out_good[extra // 2 - 1], np.inf))
    return int(rid(out_good, out_time, out_seq, extra, n, lowest[0]))


@kernel
def rid(out_good: Floats, out_time: Ints, out_seq: Ints, extra: int, n: int, lowest: float) -> int:
    """Remove rows below a threshold that are not among the n best; return how many extra rows are left."""
    cut = 0
    while cut < extra and out_good[cut] < lowest:
        cut += 1
    for i in range(cut, extra + n):
        out_good[i - cut], out_time[i - cut], out_seq[i - cut] = out_good[i], out_time[i], out_seq[i]
    return extra - cut


@kernel
def adopt(
    slot: int, begin: int, count: int, out_good: Floats, out_time: Ints, out_seq: Ints, k: int,
    good: Floats, time: Ints, seq: Ints, start: Ints, size: Ints, old_time: Ints, old_seq: Ints,
) -> None:  # fmt: skip
    """Replace the slot's list by these sorted rows."""
    at = start[slot]
    t, s = np.int64(FAR), np.int64(FAR)
    for i in range(count):
        good[at + i] = out_good[begin + i]
        if time.shape[0] > 0:
            time[at + i] = out_time[begin + i]
        seq[at + i] = out_seq[begin + i]
        if i >= count - k and precedes(out_time[begin + i], out_seq[begin + i], t, s):
            t, s = out_time[begin + i], out_seq[begin + i]
    size[slot] = count
    old_time[slot], old_seq[slot] = t, s


@kernel
def squeeze(
    value: float, when: int, number: int, begin: int, length: int, good: Floats, time: Ints, seq: Ints
) -> None:
    """Insert a late row."""
    enlist(value, when, number, begin, length, good, time, seq)


@kernel
def company(todo: Ints, ks: Ints, size: Ints) -> Ints:
    """Return the slots whose lists are to be rebuilt, fewer than walk together, and with them those that run short
    next: the ones with the fewest rows beyond k."""
    with_them = np.empty(GROUP, np.int64)
    count = todo.shape[0]
    for i in range(count):
        with_them[i] = todo[i]
    tally = np.empty(NEXT + 1, np.int64)
    for spare in range(NEXT + 1):  # np.zeros takes long to compile
        tally[spare] = 0
    for slot in range(ks.shape[0]):
        # a list with fewer than k rows that is not short contains all of its window
        spare = size[slot] - ks[slot]
        if ks[slot] > 0 and 0 <= spare <= min(ks[slot] // SOON, NEXT):
            tally[spare] += 1
    for slot in todo:
        spare = size[slot] - ks[slot]
        if 0 <= spare <= min(ks[slot] // SOON, NEXT):
            tally[spare] -= 1
    least, free = -1, GROUP - count
    while least < NEXT and free > 0:
        least += 1
        free -= tally[least]
    for turn in range(2):  # of those with equally many rows only some may join
        for slot in range(ks.shape[0]):
            spare = size[slot] - ks[slot]
            fits = spare == least if turn else 0 <= spare < least
            if count < GROUP and fits and ks[slot] > 0 and spare <= ks[slot] // SOON:
                known = False
                for i in range(todo.shape[0]):
                    known |= todo[i] == slot
                with_them[count] = slot
                count += not known
    return with_them[:count]


@kernel
def prepare(
    slot: int, place: int, k: int, share: float, blocks: Ints, ring: int, meta: Ints, t: int, s: int, floors: Floats,
    now: int, edge: Floats, one: Ints, mark: Floats,
) -> None:  # fmt: skip
    """Prepare a walk: set which blocks the query has, how many of them are young, and an estimate of its threshold."""
    oldest = blocks[0]
    while oldest < blocks[1] and precedes(
        meta[oldest % ring, LAST_TIME], meta[oldest % ring, LAST_SEQ], t, s
    ):
        oldest += 1
    count = blocks[1] - oldest
    one[ORDER] = ANY_ORDER if blocks[MIXED] >= oldest else NEWEST_FIRST
    young = max(1, int(np.ceil(count * share)))
    one[SLOT], one[PLACE], one[K], one[OLDEST], one[YOUNG] = slot, place, k, oldest, young
    one[MOST_YOUNG] = (3 * count + 3) // 4
    # where the present floor is below the old threshold the new one is expected above it: rows below the old one are
    # skipped
    mark[GUESS] = -np.inf
    if now >= 0 and floors[now, slot] < edge[place] < np.inf:
        mark[GUESS] = floors[now, slot]
    mark[LEVEL] = 1.7e308
    one[PHASE] = 0
    one[COUNTED] = 0 if share >= SHARE else -1
    begin_walk(blocks, one, mark)
    if count == 0:
        mark[GUESS] = mark[LOWEST] = -np.inf
        one[PHASE] = DONE


@kernel
def begin_walk(blocks: Ints, one: Ints, mark: Floats) -> None:
    """Start at the newest block, holding no rows."""
    one[AT], one[UNTIL] = blocks[1] - 1, max(one[OLDEST], blocks[1] - one[YOUNG])
    one[N] = one[EXTRA] = 0
    one[ORDER] = min(one[ORDER], ANY_ORDER)
    mark[BAR], mark[DEEPEST], mark[LOWEST] = mark[GUESS], -np.inf, -np.inf


@kernel
def go_on(
    blocks: Ints, wanted: int, one: Ints, mark: Floats, out_good: Floats, out_time: Ints, out_seq: Ints
) -> None:
    """Set the next part of a query's walk, when a part is complete."""
    k, n, bar = one[K], one[N], mark[BAR]
    if one[PHASE] == 2:
        one[PHASE] = DONE
        few = one[COUNTED] >= 0 and 100 * (k + one[COUNTED]) < 270 * k and mark[LOWEST] > -np.inf
        if few:
            # the young rows were better than the older ones by chance: with so few above the threshold the list would
            # run short. The k-th best of fewer of them is lower
            one[YOUNG] = max(1, int(one[YOUNG] * (k + one[COUNTED]) / (3.1 * k)))
            mark[LEVEL], one[PHASE], one[COUNTED] = 1.7e308, 0, -1
            begin_walk(blocks, one, mark)
        return
    if n < k and mark[GUESS] > -np.inf and one[PHASE] == 0 and one[YOUNG] < one[MOST_YOUNG]:
        # the present floors are too high for so few rows: the k-th best of more young ones is higher
        one[YOUNG] = min(2 * one[YOUNG], one[MOST_YOUNG])
        one[UNTIL] = max(one[OLDEST], blocks[1] - one[YOUNG])
        return
    if n < k and mark[GUESS] > -np.inf:
        mark[GUESS], mark[LEVEL], one[PHASE] = -np.inf, 1.7e308, 0
    elif one[PHASE] == 0 and not (n == k and mark[DEEPEST] <= bar):
        # some reservoir may not be deep enough: walk again, with those blocks row by row
        mark[LEVEL] = bar if n == k else -np.inf
        one[PHASE] = 1
    elif n < k and one[UNTIL] > one[OLDEST]:
        # too few young rows: look further back
        one[YOUNG] *= 2
        mark[LEVEL], one[PHASE] = 1.7e308, 0
    else:
        if one[ORDER] == ANY_ORDER:  # the k-th best is just above the bar
            one[ORDER] = ALL_KEPT
            bar = np.nextafter(bar, np.inf) if bar > -np.inf else bar
        mark[LOWEST] = max(mark[LOWEST], bar) if n == k and n == wanted else -np.inf
        if one[ORDER] == ALL_KEPT:
            mark[BAR] = np.nextafter(mark[LOWEST], -np.inf)
        one[EXTRA] = rid(out_good, out_time, out_seq, one[EXTRA], n, mark[LOWEST])
        one[PHASE] = 2 if one[UNTIL] > one[OLDEST] else DONE
        one[AT], one[UNTIL] = one[UNTIL] - 1, one[OLDEST]
        return
    begin_walk(blocks, one, mark)
