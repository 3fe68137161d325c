"""Refill: rebuilds a list from the stored rows, mostly from their reservoirs.

A query whose list has run short, or that is new, walks through the blocks from the newest to the oldest and holds the k
best rows so far. A row no better than the k-th of these has k newer rows at least as good, so it can never be in an
answer; all others make the new list. It is sorted from the start, best last: a row that enters moves the better ones by
one place, and a row that is then no longer among the last k (an *extra* row) keeps its place for good. Where scores
fall older rows are better, and hardly any has to be moved.

**The new threshold** is the k-th best score of the *young* rows, a good third of the window (a lesser share while
scores fall): those k rows stay for the rest of a window, so the list can't run short before they leave, whatever
arrives. That first part of the walk reads reservoirs, which may not be deep enough. If the k-th best turns out to be
below the floor of some block, the part is walked again, and those blocks are searched row by row, unless a larger part
of the rows has a k-th best that is higher. A list for a new query counts the older rows above its threshold: if they
are few, the young ones were good by chance, and it walks again with a lesser share of them.

**Deepening.** A block whose reservoir was made under higher thresholds than this query needs is sifted again with the
present map; every later query profits. Where scores fall, older blocks have many rows above the present thresholds:
the map is raised for them, only so far that it still lets pass what this query needs. Raised means that rows are moved
down along all axes (`Relief.tilt`), as falling scores are.

In a block searched row by row the rows keep their places: rows above the bar are noted wherever they are, and sorted
then. Only where they are many the rows are first put in the order of their arrival.

**Together.** Where scores fall, lists run short by the hundred. Some queries at a time walk side by side, block by
block, so that a reservoir is read from far memory once for all of them; and four of them at a time scan it, so that it
is read from near memory once for those. Where many lists run short, rows are scanned in float32 (float32_filter.py).

**Late rows.** Where the blocks are mixed (row_blocks.py) a row that is found later may be newer. Then rows as good as
the k-th best are compared by recency, and of the older part of the walk every row that reaches the threshold is kept.
The late rows of the pen are last: those that reach the threshold are inserted.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from skyband.algorithms.heightmap.float32_filter import TEXT, fields
from skyband.algorithms.heightmap.ingest import (
    BRIEF,
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
from skyband.algorithms.heightmap.maps import Places
from skyband.algorithms.heightmap.refill_cursor import (
    ALL_KEPT,
    ANY_ORDER,
    AT,
    BAR,
    COUNTED,
    DEEPEST,
    DONE,
    EXTRA,
    LEVEL,
    LOWEST,
    NEWEST_FIRST,
    ORDER,
    PHASE,
    PLACE,
    SIDE,
    SLOT,
    UNTIL,
    K,
    N,
)
from skyband.algorithms.heightmap.slack_lists import DEEPENED
from skyband.compiling.intrinsics import fetch
from skyband.compiling.jit import generated, kernel
from skyband.core.types import Floats, Ints

NEAR = 256  # rows that are prefetched
ABOVE = 12  # in `mapping`: scratch memory for sifted rows, used for chunks as well; a byte each is slower


@kernel
def deepen(
    b: int, slot: int, level: float, pool: Floats, meta: Ints, index: Places,
    floors: Floats, slope: Floats, now: int, mapping: Any, totals: Ints,
) -> None:  # fmt: skip
    """Make a block's reservoir again, down to a level that a query needs, if there is room for it."""
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
        return
    if meta[b, EPOCH] >= 0:
        # deeper for this query may be higher for most others, which would then search all rows of the block
        better, worse = 0, 0
        for other in range(floors.shape[1]):
            own = floors[meta[b, EPOCH], other] + slope[other] * meta[b, RISE]
            new = floors[now, other] + slope[other] * rise
            better += new < own
            worse += new > own
        if worse > better:
            return
    totals[DEEPENED] += 1
    straighten(pool, b, meta[b, RESERVED], index)
    axes, last = tilt.shape[0], order[tilt.shape[0] - 1]
    # rows are moved so that scores fall: that is, the cells are, and the ends of their frame
    for axis in range(axes):
        by = rise * tilt[axis]
        moved[axis] = base[axis] + by
        moved[axes + axis], moved[2 * axes + axis] = low[axis] + min(by, 0.0), high[axis] + max(by, 0.0)
    if faces[1] == 0:
        moved[2 * axes + last] += rise / inverse[last]
    found = sift_faces(
        pool, b, np.int64(0), meta[b, COUNT], faces, order, size, moved[axes : 2 * axes], moved[2 * axes :], moved,
        inverse, outer, picks, rise, many, cell, steps, eights, above,
    )  # fmt: skip
    if (
        found > index.shape[1]
    ):  # too many rows: it keeps its reservoir, and this is not tried again unless there is more room
        front(pool, b, meta[b, RESERVED], index)
        meta[b, TRIED], meta[b, TRIED_RISE], meta[b, WANTED] = now, rise, found
        return
    meta[b, RESERVED], meta[b, EPOCH], meta[b, RISE], meta[b, BRIEF] = 0, now, rise, 0
    stock(pool, b, np.int64(0), picks[picks.shape[0] - 1], found, index, meta)


@kernel
def approach(b: int, pool: Floats, meta: Ints) -> None:
    """Prefetch the end of a block's reservoir, where a walk begins."""
    rows = meta[b, RESERVED]
    for axis in range(pool.shape[1]):
        first = (b * pool.shape[1] + axis) * pool.shape[2]
        for i in range(max(0, rows - NEAR), rows, 8):
            fetch(pool, first + i)


_TEMPLATE = '''"""Generated by algorithms.heightmap.refill: rebuilds lists from blocks and their reservoirs."""
import numpy as np
from skyband.compiling.jit import inlined, kernel
from skyband.algorithms.heightmap.row_blocks import came_at, seq_at, time_at
from skyband.algorithms.heightmap.float32_filter import abridge
from skyband.algorithms.heightmap.refill import approach, deepen
from skyband.algorithms.heightmap.ingest import front, straighten
from skyband.compiling.intrinsics import fetch, first_bit
from skyband.algorithms.heightmap.slack_lists import brim_of, precedes
from skyband.algorithms.heightmap.refill_cursor import adopt, go_on, halve, prepare, squeeze

@kernel
def skim(pool, b, chunks, bar, {names}):
    """Return the last of so many chunks of 32 rows of a block with a row above the bar (or less, if none is), or -1."""
    c = np.uint64(chunks)
    hit = False
    while c > np.uint64(0) and not hit:
        c = c - np.uint64(1)
        w = np.uint64(32) * c  # unsigned: an index that can't be negative lets loops vectorise
        hit = bar == -np.inf
        for i in range(32):
{row_loads}
            hit |= {score} > bar
    return np.int64(c) if hit else np.int64(-1)

@kernel
def skim_four(pool, b, chunks, bar0, bar1, bar2, bar3, constants, place0, place1, place2, place3, above):
    """Find which chunks of a block have a row above the bars of four queries: a bit of `above` for each of them. A row
    is read once for all four, and the scan does not stop at a hit."""
{four_parameters}
    for c in range(chunks):
        w = np.uint64(32) * np.uint64(c)
        hit0, hit1, hit2, hit3 = bar0 == -np.inf, bar1 == -np.inf, bar2 == -np.inf, bar3 == -np.inf
        for i in range(32):
{row_loads}
            hit0 |= {score0} > bar0
            hit1 |= {score1} > bar1
            hit2 |= {score2} > bar2
            hit3 |= {score3} > bar3
        above[c] = np.int64(hit0) | np.int64(hit1) << 1 | np.int64(hit2) << 2 | np.int64(hit3) << 3

@inlined
def keep(value, t, s, g, timed, stack, members, marks, out_good, out_time, out_seq):
    """Insert a row above the bar into the k best of a member; the row that leaves them becomes an extra one."""
    k, n, extra, order = members[g, {k}], members[g, {n}], members[g, {extra}], members[g, {order}]
    if n < k:
        members[g, {n}] = n + 1
    else:
        if extra == stack:
            extra = halve(out_good[g], out_time[g], out_seq[g], stack, k, marks[g, {lowest}:])
            if order == {all_kept}:
                marks[g, {bar}] = np.nextafter(marks[g, {lowest}], -np.inf)
                if value <= marks[g, {bar}]:
                    members[g, {extra}] = extra
                    return
        members[g, {extra}] = extra + 1
    one = np.uint64(1)  # indices that can't be negative
    low, at = np.uint64(0 if order == {all_kept} else extra), np.uint64(extra + n)
    while at > low and (
        out_good[g, at - one] > value
        or (out_good[g, at - one] == value
            and (order == {newest_first} or precedes(t, s, out_time[g, at - one], out_seq[g, at - one])))
    ):
        out_good[g, at], out_seq[g, at] = out_good[g, at - one], out_seq[g, at - one]
        if timed:
            out_time[g, at] = out_time[g, at - one]
        at = at - one
    out_good[g, at], out_seq[g, at] = value, s
    if timed:
        out_time[g, at] = t
    if members[g, {n}] == k and order != {all_kept}:
        marks[g, {bar}] = out_good[g, members[g, {extra}]]
        if order == {any_order}:  # one that is as good as the k-th best may be newer
            marks[g, {bar}] = np.nextafter(marks[g, {bar}], -np.inf)

@inlined
def choose(found, b, c, whole, rows, g, horizon_time, horizon_seq, stack, pool, times, seqs, meta, index, members,
           marks, out_good, out_time, out_seq, constants, place):
    """Insert the rows of a chunk, given by bits (the newest row's is the lowest), that are above the bar into the k
    best."""
{settle_parameters}
    w = np.uint64(32 * c)
    beyond = np.uint64(max(0, 32 * c + 32 - rows))
    found = (found >> beyond) << beyond
    while found != np.uint64(0):
        i = np.uint64(31 - first_bit(found))
        found &= found - np.uint64(1)
{settle_loads}
        value = {score}
        if not (value > marks[g, {bar}] or (marks[g, {bar}] == -np.inf and value == value)):
            continue
        row = np.int64(w + i) if whole else np.int64(index[b, w + i])
        t, s = time_at(b, row, times), seq_at(b, row, seqs, meta)
        if not precedes(t, s, horizon_time, horizon_seq):
            keep(value, t, s, g, times.shape[0] > 0, stack, members, marks, out_good, out_time, out_seq)

@inlined
def settle(b, c, whole, rows, g, horizon_time, horizon_seq, stack, pool, times, seqs, meta, index, members,
            marks, out_good, out_time, out_seq, constants, place):
    """Insert the rows of a chunk above the bar into the k best, the newest first."""
{settle_parameters}
    bar = marks[g, {bar}]
    w = np.uint64(32 * c)
    found = np.uint64(0)  # a bit for each row above the bar
    if bar == -np.inf:
        found = np.uint64(0xFFFFFFFF)
    else:
        for i in range(32):  # computing the scores once more is three times as fast as keeping them
{row_loads}
            found |= np.uint64({score} > bar) << np.uint64(31 - i)
    choose(found, b, c, whole, rows, g, horizon_time, horizon_seq, stack, pool, times, seqs, meta, index, members,
           marks, out_good, out_time, out_seq, constants, place)

@kernel
def seek(pool, b, rows, held, index, bar, values, {names}):
    """Find rows of a block above a bar, in any order of storage: values[64:128] gets their places in order of arrival,
    the newest first, values[128:] their scores. Return how many; -1 if more than 64, or if the bar is -inf."""
    if bar == -np.inf:
        return -1
    count = 0
    for c in range((rows + 31) // 32):
        w = np.uint64(32 * c)
        hit = False
        for i in range(32):
{row_loads}
            hit |= {score} > bar
        if not hit:
            continue
        for i in range(min(32, rows - 32 * c)):
{row_loads}
            value = {score}
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

@kernel
def look(b, g, whole, stack, constants, store, horizon_time, horizon_seq, members, marks, out_good, out_time, out_seq):
    """Let a member scan the reservoir of a block, or all of it if its rows are in the order of arrival."""
    pool, times, seqs, meta, index = store
    slot, place, rows = members[g, {slot}], members[g, {place}], meta[b, 0 if whole else 2]
{settle_parameters}
    c = (rows + 31) // 32
    while True:
        c = skim(pool, b, c, marks[g, {bar}], {names})
        if c < 0:
            break
        settle(b, c, whole, rows, g, horizon_time[slot], horizon_seq[slot], stack, pool, times, seqs, meta, index,
               members, marks, out_good, out_time, out_seq, constants, place)

@inlined
def search(b, g, stack, constants, store, horizon_time, horizon_seq, members, marks, values, out_good, out_time,
           out_seq, totals):
    """Let a member search all rows of a block."""
    pool, times, seqs, meta, index = store
    slot, place, rows = members[g, {slot}], members[g, {place}], meta[b, 0]
{settle_parameters}
    totals[7] += 1
    review = members[g, {phase}] == 2 and members[g, {counted}] >= 0
    above = marks[g, {lowest}] if review and members[g, {order}] == {newest_first} else marks[g, {bar}]
    many = seek(pool, b, rows, meta[b, 2], index, above, values, {names})
    if review:  # count the older rows above the threshold, whether they are kept or not
        members[g, {counted}] = members[g, {counted}] + many if many >= 0 else -1
    for i in range(many):
        row = np.int64(values[64 + i])
        t, s = time_at(b, row, times), seq_at(b, row, seqs, meta)
        if values[128 + i] > marks[g, {bar}] and not precedes(t, s, horizon_time[slot], horizon_seq[slot]):
            keep(values[128 + i], t, s, g, times.shape[0] > 0, stack, members, marks, out_good, out_time, out_seq)
    if many >= 0:
        return
    straighten(pool, b, meta[b, 2], index)  # the order of arrival matters
    look(b, g, True, stack, constants, store, horizon_time, horizon_seq, members, marks, out_good, out_time, out_seq)
    front(pool, b, meta[b, 2], index)

@brief@
@inlined
def depth(b, g, meta, floors, slope, members):
    """Return the score down to which the reservoir of a block contains all rows for a member."""
    if meta[b, 3] < 0:
        return np.inf
    return floors[meta[b, 3], members[g, {slot}]] + slope[members[g, {slot}]] * meta[b, 8]

@kernel
def visit(number, group, stack, constants, store, sketch, floors, slope, now, mapping, horizon_time, horizon_seq,
          members, marks, values, out_good, out_time, out_seq, totals):
    """Let the members that have reached a block read it: its reservoir if that is deep enough for them, four of them at
    a time; else all rows."""
    pool, _, _, meta, index = store
    brief = sketch[0]
    b = number % pool.shape[0]
    for g in range(group):  # before any member reads it, since this changes it
        if members[g, {phase}] < {done} and members[g, {at}] == number:
            slot = members[g, {slot}]
            level = marks[g, {bar}] if members[g, {phase}] == 2 else marks[g, {level}]
            if now >= 0 and floors[now, slot] <= level < depth(b, g, meta, floors, slope, members):
                deepen(b, slot, level, pool, meta, index, floors, slope, now, mapping, totals)
    count = 0
    for g in range(group):
        if members[g, {phase}] >= {done} or members[g, {at}] != number:
            continue
        level = marks[g, {bar}] if members[g, {phase}] == 2 else marks[g, {level}]
        floor = depth(b, g, meta, floors, slope, members)
        if floor > level or floor == np.inf:
            search(b, g, stack, constants, store, horizon_time, horizon_seq, members, marks, values, out_good,
                   out_time, out_seq, totals)
        else:
            marks[g, {deepest}] = max(marks[g, {deepest}], floor)
            members[count, {side}] = g
            count += 1
    short = 0 < meta[b, 2] <= brief.shape[2]
    if short and count > 0 and meta[b, {brief}] < meta[b, 2]:
        abridge(b, pool, meta, mapping[3], mapping[4], brief)
    for first in range(0, count, 4):
        if short:
            read_brief(b, first, count, stack, constants, store, sketch, horizon_time, horizon_seq, members, marks,
                       mapping, out_good, out_time, out_seq)
        elif first == count - 1:
            look(b, members[first, {side}], False, stack, constants, store, horizon_time, horizon_seq, members, marks,
                 out_good, out_time, out_seq)
        else:
            read(b, first, count, stack, constants, store, horizon_time, horizon_seq, members, marks, mapping[{above}],
                 out_good, out_time, out_seq)

@kernel
def walk(group, stack, constants, blocks, store, sketch, floors, slope, now, mapping, ks, horizon_time, horizon_seq,
         members, marks, values, out_good, out_time, out_seq, totals):
    """Let some members walk side by side until each of them has its list."""
    pool, _, _, meta, _ = store
    while True:
        number = np.int64(-1)
        for g in range(group):
            if members[g, {phase}] < {done}:
                number = max(number, members[g, {at}])
        if number < 0:
            break
        if number > blocks[0]:  # prefetch the next one's reservoir
            approach((number - 1) % pool.shape[0], pool, meta)
        visit(number, group, stack, constants, store, sketch, floors, slope, now, mapping, horizon_time, horizon_seq,
              members, marks, values, out_good, out_time, out_seq, totals)
        for g in range(group):
            if members[g, {phase}] < {done} and members[g, {at}] == number:
                members[g, {at}] -= 1
                if members[g, {at}] < members[g, {until}]:
                    go_on(blocks, ks[members[g, {slot}]], members[g], marks[g], out_good[g], out_time[g], out_seq[g])

@kernel
def finish(one, mark, constants, late, horizon_time, horizon_seq, goods, whens, numbers):
    """Insert late rows into the list of a member that has walked; return where it begins and how long it is."""
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
            value = {score}
            if value >= mark[{lowest}]:
                squeeze(value, late_time[0, i], late_seq[0, i], begin, length, goods, whens, numbers)
                length += 1
    return begin, length

@kernel
def refill(first, todo, count, places, ranks, stack, constants, edge, share, blocks, store, sketch, late, floors, slope,
           now, mapping, lists, ks, horizon_time, horizon_seq, old_time, old_seq, members, marks, values, out_good,
           out_time, out_seq, result, totals):
    """Make lists for todo[first:count], some at a time. A list that needs more room gets it from the end of the pool,
    of which result[5] places are taken. Stops if there is none: result contains the list's slot, start and length;
    the next call continues with those after it."""
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
                if times.shape[0] == 0:  # then they are not written
                    for i in range(out_time.shape[1]):
                        out_time[g, i] = 0
            walk(group, stack, constants, blocks, store, sketch, floors, slope, now, mapping, ks, horizon_time,
                 horizon_seq, members, marks, values, out_good, out_time, out_seq, totals)
        for g in range(ready, group):
            slot, place = members[g, {slot}], members[g, {place}]
            begin, length = finish(members[g], marks[g], constants, late, horizon_time, horizon_seq,
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
def rank(b, begin, stop, member, wanted, constants, guess, pool, values, best, out):
    """Write for each query place the best scores of rows of a block; `values` has room for 64 scores. A guess below
    them saves most comparisons; a guess above costs a second pass."""
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
                        values[i] = {score}
                        hit |= values[i] > bar
                else:
                    hit = True
                    for i in range(width):
{rank_loads}
                        values[i] = {score}
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
def reach(b, begin, stop, member, constants, edge, pool, out):
    """Count the rows of a block that reach the threshold of each query place, in chunks of 64 that are inside it."""
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
                n += {score} >= bar
        out[place] = n
'''


COLUMNS = {
    "slot": SLOT, "place": PLACE, "k": K, "at": AT, "until": UNTIL, "phase": PHASE, "n": N, "extra": EXTRA,
    "bar": BAR, "level": LEVEL, "deepest": DEEPEST, "lowest": LOWEST, "done": DONE, "counted": COUNTED,
    "side": SIDE, "above": ABOVE, "brief": BRIEF, "order": ORDER, "newest_first": NEWEST_FIRST,
    "any_order": ANY_ORDER, "all_kept": ALL_KEPT,
}  # fmt: skip


@lru_cache(maxsize=64)
def catching(score: str, axes: int, constants: int, sign: float) -> Any:
    """Return the kernels `refill`, `rank` and `reach` for a rendered score over x0, x1, … and p[0], p[1], …, of which
    the greatest is the best, or with a negative sign the least."""

    def scored(of: str = "") -> str:
        """Return the text of a row's score for a query, or for one of several."""
        text = score
        for i in reversed(range(constants)):
            text = text.replace(f"p[{i}]", f"p{i}{of}")
        return f"({text})" if sign > 0 else f"(-({text}))"  # a factor would be one multiplication in five

    def names(of: str = "") -> str:
        return ", ".join(f"p{i}{of}" for i in range(constants))

    def lines(indent: int, form: str, count: int = axes) -> str:
        made = [" " * indent + form.format(i) for i in range(count)]
        return "\n".join(made) or " " * indent + "pass"

    four = [f"_{g}" for g in range(4)]
    return generated(
        _TEMPLATE.replace("@brief@", TEXT).format(
            score=scored(),
            **{f"score{g}": scored(of) for g, of in enumerate(four)},
            **COLUMNS,
            names=names(),
            four_parameters="\n".join(
                lines(4, f"p{{0}}{of} = constants[{{0}}, place{g}]", constants) for g, of in enumerate(four)
            ),
            **fields(axes),
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
