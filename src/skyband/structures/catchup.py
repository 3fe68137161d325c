"""Catching up: a list made anew from the stored rows, mostly from their reservoirs.

A query whose list has run short, or that is new, walks through the blocks from the newest to the oldest with the k
best rows so far in hand. A row no better than the k-th of these has k newer rows at least as good, so it can never
be in an answer; all others make the new list. It lies there in its order from the start, best last: a row that comes in
moves those that are better by one place, and what is then no longer among the last k (the *extra* rows) has been passed
for good. Where scores fall older rows are the better ones, and hardly any has to be moved.

**The new threshold** is the k-th best score of the *young* rows, a good third of the window (a lesser share
while scores fall): those k rows stay for the rest of a window, so the list can't run short before they go, whatever
comes. That first part of the walk reads reservoirs and hopes that they are deep enough; if the k-th best turns out
to lie below the floor of some block, it is walked again, and those blocks are searched row by row: unless a larger part
of the rows will do, whose k-th best lies higher. A list for a new query counts the older rows above its threshold: are
they few, the young ones were good by chance, and it walks again with a lesser share of them.

**Deepening.** A block whose reservoir was stocked under higher thresholds than this query needs is sifted again with
the present map; every later query profits. Where scores fall, older blocks have many rows above the present thresholds:
the map is raised for them, only so far that it still lets pass what this query needs. Raised means that rows are moved
down along all axes (`Relief.tilt`), as falling scores are.

A block searched row by row stays as it is: what is above the bar is noted wherever it lies, and put in order then. Only
where that is much are the rows put in order first.

**Together.** Where scores fall, lists run short by the hundred. Some queries at a time walk side by side, block by
block, so that a reservoir comes from far memory once for all of them.

The late rows of the pen come last: those that reach the threshold are put in their places.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from skyband.jit import generated, kernel
from skyband.order import Floats, Ints
from skyband.structures.heightmap import Places
from skyband.structures.intake import (
    COUNT,
    EPOCH,
    RESERVED,
    RISE,
    TRIED,
    TRIED_RISE,
    WANTED,
    front,
    sift_faces,
    stock,
    straighten,
)
from skyband.structures.memory import fetch
from skyband.structures.ranked import enlist
from skyband.structures.slack import DEEPENED, FAR, SHARE, precedes

STACK = 4096  # rows that a query may have in hand beside its best, if k is not as great
GROUP = 32  # queries that walk together, so that a reservoir is read from far memory once for all of them
SLOT, PLACE, K, AT, UNTIL, PHASE, N, EXTRA, YOUNG, MOST_YOUNG, OLDEST, COUNTED = range(12)  # of a member
BAR, GUESS, LEVEL, DEEPEST, LOWEST = range(
    5
)  # its marks; LOWEST is the last, for a part of them begins there
NEAR = 256  # rows that are asked for in advance
SCRATCH = 192  # scores of a chunk; places and scores of rows that were sought
DONE = 3  # phases: 0 and 1 are young rows, 2 older ones


@kernel
def halve(out_good: Floats, out_time: Ints, out_seq: Ints, extra: int, n: int, lowest: Floats) -> int:
    """There is no room for more: the lower half of the extra rows goes, with all that equal its best; the threshold
    rises above it. How many are left of them, before the n best."""
    lowest[0] = max(lowest[0], np.nextafter(out_good[extra // 2 - 1], np.inf))
    return int(rid(out_good, out_time, out_seq, extra, n, lowest[0]))


@kernel
def rid(out_good: Floats, out_time: Ints, out_seq: Ints, extra: int, n: int, lowest: float) -> int:
    """Rows below a threshold go, if they are not among the n best; how many are left before those."""
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
    """These rows, in order, are the slot's list."""
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
    """Put a late row in its place."""
    enlist(value, when, number, begin, length, good, time, seq)


@kernel
def prepare(
    slot: int, place: int, k: int, share: float, blocks: Ints, ring: int, meta: Ints, t: int, s: int, floors: Floats,
    now: int, edge: Floats, one: Ints, mark: Floats,
) -> None:  # fmt: skip
    """A query is about to walk: which blocks it has, how many of them are young, and where its threshold may lie."""
    oldest = blocks[1]
    while oldest > blocks[0]:
        b = (oldest - 1) % ring
        if precedes(meta[b, 6], meta[b, 7], t, s):
            break
        oldest -= 1
    count = blocks[1] - oldest
    young = max(1, int(np.ceil(count * share)))
    one[SLOT], one[PLACE], one[K], one[OLDEST], one[YOUNG] = slot, place, k, oldest, young
    one[MOST_YOUNG] = (3 * count + 3) // 4
    # where the present floor is below the old threshold the new one is hoped to lie above it: what doesn't is passed
    # over
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
    """From the newest block on, with nothing in hand."""
    one[AT], one[UNTIL] = blocks[1] - 1, max(one[OLDEST], blocks[1] - one[YOUNG])
    one[N] = one[EXTRA] = 0
    mark[BAR], mark[DEEPEST], mark[LOWEST] = mark[GUESS], -np.inf, -np.inf


@kernel
def go_on(
    blocks: Ints, wanted: int, one: Ints, mark: Floats, out_good: Floats, out_time: Ints, out_seq: Ints
) -> None:
    """A query has walked as far as it was to: what comes next."""
    k, n, bar = one[K], one[N], mark[BAR]
    if one[PHASE] == 2:
        one[PHASE] = DONE
        few = one[COUNTED] >= 0 and 100 * (k + one[COUNTED]) < 225 * k and mark[LOWEST] > -np.inf
        if few:
            # the young rows were better than the older ones by chance: with so few above the threshold the list would
            # run short. The k-th best of fewer of them lies lower
            one[YOUNG] = max(1, int(one[YOUNG] * (k + one[COUNTED]) / (2.65 * k)))
            mark[LEVEL], one[PHASE], one[COUNTED] = 1.7e308, 0, -1
            begin_walk(blocks, one, mark)
        return
    if n < k and mark[GUESS] > -np.inf and one[PHASE] == 0 and one[YOUNG] < one[MOST_YOUNG]:
        # the present floors lie too high for so few rows: the k-th best of more young ones lies higher
        one[YOUNG] = min(2 * one[YOUNG], one[MOST_YOUNG])
        one[UNTIL] = max(one[OLDEST], blocks[1] - one[YOUNG])
        return
    if n < k and mark[GUESS] > -np.inf:
        mark[GUESS], mark[LEVEL], one[PHASE] = -np.inf, 1.7e308, 0
    elif one[PHASE] == 0 and not (n == k and mark[DEEPEST] <= bar):
        # some reservoir may not be deep enough for what was found: again, with those blocks row by row
        mark[LEVEL] = bar if n == k else -np.inf
        one[PHASE] = 1
    elif n < k and one[UNTIL] > one[OLDEST]:
        # too few young rows: look further back
        one[YOUNG] *= 2
        mark[LEVEL], one[PHASE] = 1.7e308, 0
    else:
        mark[LOWEST] = max(mark[LOWEST], bar) if n == k and n == wanted else -np.inf
        one[EXTRA] = rid(out_good, out_time, out_seq, one[EXTRA], n, mark[LOWEST])
        one[PHASE] = 2 if one[UNTIL] > one[OLDEST] else DONE
        one[AT], one[UNTIL] = one[UNTIL] - 1, one[OLDEST]
        return
    begin_walk(blocks, one, mark)


@kernel
def deepen(
    b: int, slot: int, level: float, floor: float, pool: Floats, meta: Ints, index: Places,
    floors: Floats, slope: Floats, now: int, mapping: Any, totals: Ints,
) -> float:  # fmt: skip
    """Stock a block's reservoir anew, down to a level that a query needs, if there is room for it; its floor then."""
    (
        faces,
        order,
        size,
        low,
        high,
        base,
        inverse,
        outer,
        picks,
        tilt,
        moved,
        many,
        cell,
        steps,
        eights,
        above,
    ) = mapping
    rise = np.int64(0)
    if slope[slot] > 0.0:
        rise = np.int64(min(0.95 * (level - floors[now, slot]) / slope[slot], 131072.0))
    known = meta[b, EPOCH] == now and rise >= meta[b, RISE]
    tried = meta[b, TRIED] == now and rise <= meta[b, TRIED_RISE]
    if known or tried:
        return floor
    if meta[b, EPOCH] >= 0:
        # what is deeper for this query may lie higher for most others, who would then search all rows of the block
        better, worse = 0, 0
        for other in range(floors.shape[1]):
            own = floors[meta[b, EPOCH], other] + slope[other] * meta[b, RISE]
            new = floors[now, other] + slope[other] * rise
            better += new < own
            worse += new > own
        if worse > better:
            return floor
    totals[DEEPENED] += 1
    straighten(pool, b, meta[b, RESERVED], index)
    for axis in range(tilt.shape[0]):  # rows are moved to be the worse for it: that is, the cells are
        moved[axis] = base[axis] + rise * tilt[axis]
    found = sift_faces(
        pool, b, np.int64(0), meta[b, COUNT], faces, order, size, low, high, moved, inverse, outer, picks, rise,
        many, cell, steps, eights, above,
    )  # fmt: skip
    if (
        found > index.shape[1]
    ):  # too many rows: what it has stays, and nobody tries again unless there is more room
        front(pool, b, meta[b, RESERVED], index)
        meta[b, TRIED], meta[b, TRIED_RISE], meta[b, WANTED] = now, rise, found
        return floor
    meta[b, RESERVED], meta[b, EPOCH], meta[b, RISE] = 0, now, rise
    stock(pool, b, np.int64(0), picks[picks.shape[0] - 1], found, index, meta)
    return float(floors[now, slot] + slope[slot] * rise)


@kernel
def approach(b: int, pool: Floats, meta: Ints) -> None:
    """Bring the end of a block's reservoir nearer, where a walk begins."""
    rows = meta[b, RESERVED]
    for axis in range(pool.shape[1]):
        first = (b * pool.shape[1] + axis) * pool.shape[2]
        for i in range(max(0, rows - NEAR), rows, 8):
            fetch(pool, first + i)


_TEMPLATE = '''"""Generated by skyband.structures.catchup: lists made anew from blocks and their reservoirs."""
import numpy as np
from skyband.jit import inlined, kernel
from skyband.structures.blocks import came_at, seq_at, time_at
from skyband.structures.catchup import adopt, approach, deepen, go_on, halve, prepare, squeeze
from skyband.structures.intake import front, straighten
from skyband.structures.memory import first_bit
from skyband.structures.slack import brim_of, precedes

@kernel
def skim(pool, b, chunks, sign, bar, {names}):
    """The last of so many chunks of 32 rows of a block with a row above the bar (or less, if there is none), or -1."""
    c = np.uint64(chunks)
    hit = False
    while c > np.uint64(0) and not hit:
        c = c - np.uint64(1)
        w = np.uint64(32) * c  # unsigned: an index that can't be negative lets loops vectorise
        hit = bar == -np.inf
        for i in range(32):
{row_loads}
            hit |= sign * ({score}) > bar
    return np.int64(c) if hit else np.int64(-1)

@inlined
def keep(value, t, s, g, timed, stack, members, marks, out_good, out_time, out_seq):
    """A row above the bar is among the k best of a member now; who falls out of them is an extra one."""
    k, n, extra = members[g, {k}], members[g, {n}], members[g, {extra}]
    if n < k:
        members[g, {n}] = n + 1
    else:
        if extra == stack:
            extra = halve(out_good[g], out_time[g], out_seq[g], stack, k, marks[g, {lowest}:])
        members[g, {extra}] = extra + 1
    one, low = np.uint64(1), np.uint64(extra)  # places that can't be negative
    at = np.uint64(extra + n)
    while at > low and out_good[g, at - one] >= value:
        out_good[g, at], out_seq[g, at] = out_good[g, at - one], out_seq[g, at - one]
        if timed:
            out_time[g, at] = out_time[g, at - one]
        at = at - one
    out_good[g, at], out_seq[g, at] = value, s
    if timed:
        out_time[g, at] = t
    if members[g, {n}] == k:
        marks[g, {bar}] = out_good[g, members[g, {extra}]]

@inlined
def settle(b, c, whole, rows, g, horizon_time, horizon_seq, stack, sign, pool, times, seqs, meta, index, members,
            marks, out_good, out_time, out_seq, constants, place):
    """The rows of a chunk, the newest first: those above the bar are among the k best now."""
{settle_parameters}
    bar = marks[g, {bar}]
    w = np.uint64(32 * c)
    found = np.uint64(0)  # a bit for each row above the bar, the newest row's the lowest
    if bar == -np.inf:
        found = np.uint64(0xFFFFFFFF)
    else:
        for i in range(32):  # their scores are computed once more: to keep them would take three times as long
{row_loads}
            found |= np.uint64(sign * ({score}) > bar) << np.uint64(31 - i)
    beyond = np.uint64(max(0, 32 * c + 32 - rows))
    found = (found >> beyond) << beyond
    while found != np.uint64(0):
        i = np.uint64(31 - first_bit(found))
        found &= found - np.uint64(1)
{settle_loads}
        value = sign * ({score})
        if not (value > marks[g, {bar}] or (marks[g, {bar}] == -np.inf and value == value)):
            continue
        row = np.int64(w + i) if whole else np.int64(index[b, w + i])
        t, s = time_at(b, row, times), seq_at(b, row, seqs, meta)
        if not precedes(t, s, horizon_time, horizon_seq):
            keep(value, t, s, g, times.shape[0] > 0, stack, members, marks, out_good, out_time, out_seq)

@kernel
def seek(pool, b, rows, held, index, sign, bar, values, {names}):
    """Rows of a block above a bar, wherever they lie: values[64:128] has their places in order of arrival, the newest
    first, values[128:] their scores. How many; -1 if there may be more than 64, or nothing is too bad."""
    if bar == -np.inf:
        return -1
    count = 0
    for c in range((rows + 31) // 32):
        w = np.uint64(32 * c)
        hit = False
        for i in range(32):
{row_loads}
            hit |= sign * ({score}) > bar
        if not hit:
            continue
        for i in range(min(32, rows - 32 * c)):
{row_loads}
            value = sign * ({score})
            if not value > bar:
                continue
            if count == 64:
                return -1
            row = float(came_at(b, 32 * c + i, held, index))
            j = 64 + count
            while j > 64 and values[j - 1] < row:
                values[j], values[j + 64] = values[j - 1], values[j + 63]
                j -= 1
            values[j], values[j + 64] = row, value
            count += 1
    return count

@inlined
def visit(b, g, stack, sign, constants, store, floors, slope, now, mapping, horizon_time, horizon_seq, members, marks,
          values, out_good, out_time, out_seq, totals):
    """A member looks through a block: its reservoir if that is deep enough, else all rows."""
    pool, times, seqs, meta, index = store
    slot, place = members[g, {slot}], members[g, {place}]
    level = marks[g, {bar}] if members[g, {phase}] == 2 else marks[g, {level}]
    floor = np.inf
    if meta[b, 3] >= 0:
        floor = floors[meta[b, 3], slot] + slope[slot] * meta[b, 8]
    if floor > level and now >= 0 and floors[now, slot] <= level:
        floor = deepen(b, slot, level, floor, pool, meta, index, floors, slope, now, mapping, totals)
    whole = floor > level or floor == np.inf
    rows = meta[b, 0] if whole else meta[b, 2]
    c = (rows + 31) // 32
    many = np.int64(-1)
{settle_parameters}
    if whole:
        totals[7] += 1
        review = members[g, {phase}] == 2 and members[g, {counted}] >= 0
        many = seek(pool, b, rows, meta[b, 2], index, sign, marks[g, {lowest}] if review else marks[g, {bar}], values,
                    {names})
        if review:  # how many older rows are above the threshold, whatever else becomes of them
            members[g, {counted}] = members[g, {counted}] + many if many >= 0 else -1
        for i in range(many):
            row = np.int64(values[64 + i])
            t, s = time_at(b, row, times), seq_at(b, row, seqs, meta)
            if values[128 + i] > marks[g, {bar}] and not precedes(t, s, horizon_time[slot], horizon_seq[slot]):
                keep(values[128 + i], t, s, g, times.shape[0] > 0, stack, members, marks, out_good, out_time, out_seq)
        if many < 0:  # in the order of arrival, which matters
            straighten(pool, b, meta[b, 2], index)
    else:
        marks[g, {deepest}] = max(marks[g, {deepest}], floor)
    while many < 0:
        c = skim(pool, b, c, sign, marks[g, {bar}], {names})
        if c < 0:
            break
        settle(b, c, whole, rows, g, horizon_time[slot], horizon_seq[slot], stack, sign, pool, times, seqs, meta, index,
               members, marks, out_good, out_time, out_seq, constants, place)
    if whole and many < 0:
        front(pool, b, meta[b, 2], index)
    members[g, {at}] -= 1

@kernel
def walk(group, stack, sign, constants, blocks, store, floors, slope, now, mapping, ks, horizon_time, horizon_seq,
         members, marks, values, out_good, out_time, out_seq, totals):
    """Some members walk side by side until each of them has its list."""
    pool, _, _, meta, _ = store
    while True:
        number = np.int64(-1)
        for g in range(group):
            if members[g, {phase}] < {done}:
                number = max(number, members[g, {at}])
        if number < 0:
            break
        if number > blocks[0]:  # the next one's reservoir is on its way meanwhile
            approach((number - 1) % pool.shape[0], pool, meta)
        for g in range(group):
            if members[g, {phase}] >= {done} or members[g, {at}] != number:
                continue
            visit(number % pool.shape[0], g, stack, sign, constants, store, floors, slope, now, mapping, horizon_time,
                  horizon_seq, members, marks, values, out_good, out_time, out_seq, totals)
            if members[g, {at}] < members[g, {until}]:
                go_on(blocks, ks[members[g, {slot}]], members[g], marks[g], out_good[g], out_time[g], out_seq[g])

@kernel
def finish(one, mark, sign, constants, late, horizon_time, horizon_seq, goods, whens, numbers):
    """The list of a member that has walked, with late rows in their places: where it begins and how long it is."""
    late_pool, late_time, late_seq, late_rows = late
    slot, place, k, n, extra = one[{slot}], one[{place}], one[{k}], one[{n}], one[{extra}]
    # at most three quarters of the greatest room
    begin = max(0, extra - max(0, max(24 * k, 48) - n))
    if begin > 0:
        mark[{lowest}] = np.nextafter(goods[begin - 1], np.inf)
        while begin < extra and goods[begin] < mark[{lowest}]:
            begin += 1
    length = extra + n - begin
    if late_rows > 0:
{late_parameters}
        for i in range(late_rows):
            if precedes(late_time[0, i], late_seq[0, i], horizon_time[slot], horizon_seq[slot]):
                continue
{late_loads}
            value = sign * ({score})
            if value >= mark[{lowest}]:
                squeeze(value, late_time[0, i], late_seq[0, i], begin, length, goods, whens, numbers)
                length += 1
    return begin, length

@kernel
def refill(first, todo, count, places, ranks, stack, sign, constants, edge, share, blocks, store, late, floors, slope,
           now, mapping, lists, ks, horizon_time, horizon_seq, old_time, old_seq, members, marks, values, out_good,
           out_time, out_seq, result, totals):
    """Lists for todo[first:count], some at a time. Who needs more room gets it from the end of the pool, of which
    result[5] places are taken. Stops if there is none: result tells whose list it is, where it lies and how long it is;
    the next call goes on with those after it."""
    good, time, seq, start, size, room, brim = lists
    pool, times, _, meta, _ = store
    turn, ready, group = first, result[3], result[4]
    while turn < count:
        if ready == group:
            ready, group = np.int64(0), min(out_good.shape[0], count - turn)
            for g in range(group):
                slot = todo[turn + g]
                prepare(slot, places[slot], min(ks[slot], ranks), share, blocks, pool.shape[0], meta,
                        horizon_time[slot], horizon_seq[slot], floors, now, edge, members[g], marks[g])
                totals[6] += 1
                if times.shape[0] == 0:  # then nobody writes them
                    for i in range(out_time.shape[1]):
                        out_time[g, i] = 0
            walk(group, stack, sign, constants, blocks, store, floors, slope, now, mapping, ks, horizon_time,
                 horizon_seq, members, marks, values, out_good, out_time, out_seq, totals)
        for g in range(ready, group):
            slot, place = members[g, {slot}], members[g, {place}]
            begin, length = finish(members[g], marks[g], sign, constants, late, horizon_time, horizon_seq,
                                   out_good[g], out_time[g], out_seq[g])
            edge[place] = marks[g, {lowest}]
            want = brim_of(length, min(ks[slot], 1 << 40))
            brim[slot] = min(want, room[slot])
            turn += 1
            # late rows that all reach the threshold may be more than a list should have
            if room[slot] < length or 2 * room[slot] < length + want:
                need = max(length, want)
                if result[5] + need > good.shape[0]:
                    result[0], result[1], result[2], result[3], result[4] = turn, begin, length, g + 1, group
                    return 1
                start[slot], room[slot], brim[slot] = result[5], need, need
                result[5] += need
            adopt(slot, begin, length, out_good[g], out_time[g], out_seq[g], ks[slot], good, time, seq, start, size,
                  old_time, old_seq)
        ready = group
    result[0] = count
    return 0

@kernel
def rank(b, begin, stop, member, wanted, sign, constants, guess, pool, values, best, out):
    """For each query place the best scores of rows of a block; `values` has room for 64 scores. A guess that lies below
    them spares most comparisons; one that doesn't costs a second look."""
    for place in range(member.shape[0]):
        if member[place] < 0:
            continue
{rank_parameters}
        n, least = 0, guess[place]
        while True:
            bar = least
            for c in range((stop - begin + 63) // 64):
                w, width = np.uint64(begin + c * 64), min(64, stop - begin - c * 64)
                hit = bar == -np.inf
                if width == 64:
                    for i in range(64):
{rank_loads}
                        values[i] = sign * ({score})
                        hit |= values[i] > bar
                else:
                    hit = True
                    for i in range(width):
{rank_loads}
                        values[i] = sign * ({score})
                if not hit:
                    continue
                for i in range(width):
                    value = values[i]
                    if not (value > bar or (bar == -np.inf and value == value)):
                        continue
                    j = n if n < wanted else wanted - 1
                    n = min(wanted, n + 1)
                    while j > 0 and best[j - 1] < value:
                        best[j] = best[j - 1]
                        j -= 1
                    best[j] = value
                    if n == wanted:
                        bar = best[n - 1]
            if n == wanted or least == -np.inf:
                break
            n, least = 0, -np.inf
        for j in range(wanted):
            out[place, j] = best[j] if j < n else -np.inf

@kernel
def reach(b, begin, stop, member, sign, constants, edge, pool, out):
    """How many rows of a block reach the threshold of each query place, in chunks of 64 that lie in it."""
    for place in range(member.shape[0]):
        if member[place] < 0:
            continue
{rank_parameters}
        bar = edge[place]
        n = 0
        for c in range((stop - begin) // 64):
            w = np.uint64(begin + c * 64)
            for i in range(64):
{count_loads}
                n += sign * ({score}) >= bar
        out[place] = n
'''


COLUMNS = {
    "slot": SLOT, "place": PLACE, "k": K, "at": AT, "until": UNTIL, "phase": PHASE, "n": N, "extra": EXTRA,
    "bar": BAR, "level": LEVEL, "deepest": DEEPEST, "lowest": LOWEST, "done": DONE, "counted": COUNTED,
}  # fmt: skip


@lru_cache(maxsize=64)
def catching(score: str, axes: int, constants: int) -> Any:
    """The kernels `refill`, `rank` and `reach` for a rendered score over x0, x1, … and p[0], p[1], …"""
    for i in reversed(range(constants)):
        score = score.replace(f"p[{i}]", f"p{i}")

    def lines(indent: int, form: str, count: int = axes) -> str:
        made = [" " * indent + form.format(i) for i in range(count)]
        return "\n".join(made) or " " * indent + "pass"

    return generated(
        _TEMPLATE.format(
            score=score,
            **COLUMNS,
            names=", ".join(f"p{i}" for i in range(constants)),
            settle_parameters=lines(4, "p{0} = constants[{0}, place]", constants),
            late_parameters=lines(8, "p{0} = constants[{0}, place]", constants),
            rank_parameters=lines(8, "p{0} = constants[{0}, place]", constants),
            row_loads=lines(12, "x{0} = pool[b, {0}, w + np.uint64(i)]"),
            settle_loads=lines(8, "x{0} = pool[b, {0}, w + i]"),
            late_loads=lines(12, "x{0} = late_pool[0, {0}, i]"),
            rank_loads=lines(24, "x{0} = pool[b, {0}, w + np.uint64(i)]"),
            count_loads=lines(16, "x{0} = pool[b, {0}, w + np.uint64(i)]"),
        )
    )
