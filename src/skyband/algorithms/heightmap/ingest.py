"""Ingest: a step's rows go to their blocks, past the maps, and those that pass are laid out for the queries.

All bookkeeping of a step is here, in compiled loops: which blocks the windows have left, where the rows go, whether
their seqs are consecutive. If a kernel needs more memory (a wider ring, arrays for times or seqs, a place for late
rows) it returns a code in `NEED`; the caller provides it and calls the kernel again, which resumes. A step of thousands
of rows is one call, so the cost of Python is small even for a step of a few dozen.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.algorithms.heightmap.maps import (
    UNIT,
    Heights,
    Map,
    Places,
    locate,
    locate_again,
    locate_last,
    locate_two,
    sift,
    sift_on,
    strays,
)
from skyband.algorithms.heightmap.slack_lists import Short, precedes
from skyband.compiling.jit import inlined, kernel
from skyband.compiling.state import aligned
from skyband.core.order import first_inside
from skyband.core.types import MINIMUM, Floats, Ints

# columns of a block's `meta`
(
    COUNT,
    BASE,
    RESERVED,
    EPOCH,
    FIRST_TIME,
    FIRST_SEQ,
    LAST_TIME,
    LAST_SEQ,
    RISE,
    TRIED,
    TRIED_RISE,
    WANTED,
    BRIEF,
    META,
) = range(14)
# indices of `state`, for all blocks
FIRST, NEXT, USED, FOLLOW, ANY, NEWEST_TIME, NEWEST_SEQ = range(7)
TIMED, PLAIN, NEED, BEGIN, LATE, EDGE_TIME, EDGE_SEQ, CLOSED = range(7, 15)
# the newest block with a row older than an earlier one (the ring is *mixed* while it has such a block); whether the
# step's rows are in order of recency
MIXED, ORDERED, STATE = range(15, 18)
NOTHING, WIDER, TIMES, SEQS, ROOM = range(5)  # codes in `NEED`
STRETCH = 2048  # rows that are copied, sifted and reserved while they are in the cache


def sift_arrays() -> tuple[Any, ...]:
    """Return scratch memory for a stretch of rows: how many pass each face's map, cells, heights, and a byte for each
    row that passes one, which is the same memory as the words before it."""
    eights = aligned((STRETCH // 8 + 2,), np.uint64)
    cell, level = aligned((STRETCH,), np.int32), aligned((STRETCH,), np.int32)
    return np.zeros(3, dtype=np.int64), cell, level, eights, eights.view(np.uint8)


@kernel
def stock(pool: Floats, b: int, first: int, picks: Places, count: int, index: Places, meta: Ints) -> None:
    """Add rows of a block, in order, counted from `first` on, to its reservoir.

    Each changes places with the first row that isn't in it. If they are too many for its room the block has no
    reservoir from now on, and `meta` records how much was needed.
    """
    if meta[b, EPOCH] < 0:
        return
    held = meta[b, RESERVED]
    if held + count > index.shape[1]:
        straighten(pool, b, held, index)
        meta[b, RESERVED], meta[b, EPOCH], meta[b, WANTED] = 0, -1, held + count
        return
    for p in range(count):
        i, at = np.uint64(first + picks[p]), np.uint64(held + p)
        index[b, at] = i
        for axis in range(pool.shape[1]):
            pool[b, axis, at], pool[b, axis, i] = pool[b, axis, i], pool[b, axis, at]
    meta[b, RESERVED] = held + count


@kernel
def straighten(pool: Floats, b: int, held: int, index: Places) -> None:
    """Put the rows of a block in the order of their arrival: those of the reservoir go back to their places."""
    for back in range(held):
        at = np.uint64(held - 1 - back)
        i = np.uint64(index[b, at])
        for axis in range(pool.shape[1]):
            pool[b, axis, at], pool[b, axis, i] = pool[b, axis, i], pool[b, axis, at]


@kernel
def front(pool: Floats, b: int, held: int, index: Places) -> None:
    """Undo `straighten`: the rows of the reservoir come first again."""
    for p in range(held):
        at, i = np.uint64(p), np.uint64(index[b, p])
        for axis in range(pool.shape[1]):
            pool[b, axis, at], pool[b, axis, i] = pool[b, axis, i], pool[b, axis, at]


@kernel
def unite(one: Places, ones: int, other: Places, others: int, both: Places) -> int:
    """Merge two ascending lists."""
    i, j, count = 0, 0, 0
    while i < ones or j < others:
        if j >= others or (i < ones and one[i] <= other[j]):
            value = one[i]
        else:
            value = other[j]
        while i < ones and one[i] == value:
            i += 1
        while j < others and other[j] == value:
            j += 1
        both[count] = value
        count += 1
    return count


@kernel
def sift_faces(
    pool: Floats, b: int, begin: int, stop: int, faces: Ints, order: Ints, size: Ints, low: Floats, high: Floats,
    base: Floats, inverse: Floats, outer: Map, picks: Places, rise: int, found: Ints, cell: Heights, level: Heights,
    eights: Any, above: Any,
) -> int:  # fmt: skip
    """Compare stored rows of a block with the maps of all faces in use, the outer ones raised by so many steps.

    The last of `picks` gets the rows that pass one of them; where there is one map it is the only one. The last five
    arguments are scratch memory (`sift_arrays`): a kernel that allocates pays for reference counting, half of a walk.
    """
    axes = pool.shape[1]
    found[0], found[1] = 0, 0
    first = begin
    while first < stop:
        m = min(STRETCH, stop - first)
        outside = False
        cell[:m] = 0
        for a in range(axes - 1):
            axis = order[a]
            outside |= locate_again(
                pool[b, axis, first : first + m], m, low[axis], high[axis], base[axis], inverse[axis],
                np.int32(size[a]), np.float64(size[a] - 1), cell,
            )  # fmt: skip
        axis = order[axes - 1]
        level[:m] = 0
        outside |= locate_again(
            pool[b, axis, first : first + m], m, low[axis], high[axis], base[axis], inverse[axis], np.int32(0),
            UNIT + (rise if faces[1] == 0 else 0), level,
        )  # fmt: skip
        if outside:
            strays(pool, b, first, m, low, high, outer.shape[1] - 1, cell, level)
        for face in range(2):
            if faces[face] > 0:
                sign = np.int32(1 - 2 * face)
                for i in range(m):
                    level[i] -= sign * np.int32(rise)
                of = face if outer.shape[0] > 1 else 0
                found[face] = sift(
                    first, m, sign, cell, level, outer[of], picks[of], found[face], above, eights
                )
                for i in range(m):
                    level[i] += sign * np.int32(rise)
        first += m
    if picks.shape[0] == 1:
        return int(found[0] + found[1])
    return int(unite(picks[0], found[0], picks[1], found[1], picks[2]))


@kernel
def store(
    columns: tuple[Floats, ...], source: int, m: int, b: int, at: int, pool: Floats, faces: Ints, order: Ints,
    size: Ints, low: Floats, high: Floats, base: Floats, inverse: Floats, outer: Map, inner: Map,
    picks: Places, eager: Places, passed: Ints, cell: Heights, level: Heights, eights: Any, above: Any,
) -> int:  # fmt: skip
    """Store a stretch of new rows and do `sift_faces` for them in the same pass; `picks` and `eager` count from its
    first row. cell, level, eights and above (the same memory as eights) are scratch memory."""
    axes = pool.shape[1]
    many, others = np.int64(0), np.int64(0)  # rows that pass the maps of each face
    passed[0], passed[1], passed[2] = 0, 0, 0
    outside = False
    for i in range(m):
        cell[i] = 0
    stop, parts = source + m, axes - 1
    for a in range(0, parts - 1, 2):
        x, y = order[a], order[a + 1]
        outside |= locate_two(
            columns[x][source:stop], pool[b, x, at : at + m], low[x], high[x], base[x], inverse[x],
            np.int32(size[a]), np.float64(size[a] - 1),
            columns[y][source:stop], pool[b, y, at : at + m], low[y], high[y], base[y], inverse[y],
            np.int32(size[a + 1]), np.float64(size[a + 1] - 1), m, cell,
        )  # fmt: skip
    y = order[parts]
    if parts % 2 == 1:
        x, a = order[parts - 1], parts - 1
        outside |= locate_last(
            columns[x][source:stop], pool[b, x, at : at + m], low[x], high[x], base[x], inverse[x],
            np.int32(size[a]), np.float64(size[a] - 1),
            columns[y][source:stop], pool[b, y, at : at + m], low[y], high[y], base[y], inverse[y], m, cell, level,
        )  # fmt: skip
    else:
        outside |= locate(
            columns[y][source:stop], pool[b, y, at : at + m], m, low[y], high[y], base[y], inverse[y],
            np.int32(0), UNIT, level,
        )  # fmt: skip
    if outside:
        passed[2] = strays(pool, b, at, m, low, high, outer.shape[1] - 1, cell, level)
    for face in range(2):
        many, others = others, many
        if faces[face] > 0:
            sign, of = np.int32(1 - 2 * face), face if outer.shape[0] > 1 else 0
            others = sift(0, m, sign, cell, level, outer[of], picks[of], others, above, eights)
            passed[face] = sift_on(sign, cell, level, inner[of], picks[of], others, eager[of])
    if picks.shape[0] == 1:
        return int(many + others)
    return int(unite(picks[0], many, picks[1], others, picks[2]))


@kernel
def admit(
    columns: tuple[Floats, ...], time: Ints, seq: Ints, source: int, rows: int, b: int, at: int, stored: bool,
    mapped: bool, pool: Floats, times: Ints, seqs: Ints, meta: Ints, index: Places,
    faces: Ints, order: Ints, size: Ints, low: Floats, high: Floats, base: Floats, inverse: Floats,
    outer: Map, inner: Map, picks: Places, eager: Places, points: Floats, when: Ints, number: Ints,
    counts: Ints, totals: Ints, passed: Ints, cell: Heights, level: Heights, eights: Any, above: Any,
) -> None:  # fmt: skip
    """Store rows [source, source + rows) of a batch in a block at `at`, and collect those that some query may admit.

    points[face] gets the rows that pass that face's map, face 2 (queries without a map) all of them; where only one of
    the faces is in use they are points[0]. There must be room (`lacks`). Rows of the pen (not `stored`) have no
    reservoir. Without a map every row passes.
    """
    if times.shape[0] > 0:
        for i in range(rows):
            times[b, at + i] = time[source + i]
    if meta[b, BASE] < 0:
        for i in range(rows):
            seqs[b, at + i] = seq_of(seq, source + i)
    totals[0] += rows
    end = source + rows
    while source < end:
        m = min(end - source, STRETCH)
        kept = 0
        if mapped:
            kept = store(
                columns, source, m, b, at, pool, faces, order, size, low, high, base, inverse, outer, inner, picks,
                eager, passed, cell, level, eights, above,
            )  # fmt: skip
            totals[1] += m - kept
            totals[9] += passed[2]
        else:
            for axis in range(pool.shape[1]):
                values, into = columns[axis][source : source + m], pool[b, axis, at : at + m]
                for i in range(m):
                    into[i] = values[i]
        for face in range(3):
            if faces[face] == 0:
                continue
            whole = face == 2 or not mapped
            many = m if whole else passed[face]
            base_at, of = counts[face], face if points.shape[0] > 1 else 0
            for p in range(many):
                row: Any = p if whole else np.int64(eager[face if eager.shape[0] > 1 else 0, p])
                for axis in range(pool.shape[1]):
                    points[of, axis, base_at + p] = pool[b, axis, at + row]
                if when.shape[1] > 0:
                    when[of, base_at + p] = time[source + row]
                number[of, base_at + p] = seq_of(seq, source + row)
            counts[face] = base_at + many
            if face < 2:
                totals[2] += many
        if mapped and stored:  # last, because it moves rows
            stock(pool, b, at, picks[picks.shape[0] - 1], kept, index, meta)
        source += m
        at += m


@inlined
def lacks(rows: int, faces: Ints, counts: Ints, points: Floats) -> Any:
    """Whether there is no room for so many rows among the points, should all of them pass."""
    used, most = 0, np.int64(0)
    for face in range(3):
        if faces[face] > 0:
            used += 1
            most = max(most, counts[face])
    return used > points.shape[0] or (used > 0 and most + rows > points.shape[2])


@inlined
def seq_of(seq: Ints, i: int) -> Any:
    """Return the seq of row i; where only the first one's is given the others are consecutive."""
    return seq[i] if i < seq.shape[0] else seq[0] + i


@kernel
def begin_of(time: Ints, seq: Ints, t: int, s: int) -> int:
    """Return the first of some rows in order of recency that is at or after one, or the number of rows."""
    n = time.shape[0]
    if seq.shape[0] == n:
        return int(first_inside(time, seq, 0, n, t, s))
    if time[0] != t:
        return 0 if time[0] > t else n
    return 0 if s <= seq[0] else int(min(s - seq[0], n))


@kernel
def look_back(
    ks: Ints, horizon_time: Ints, horizon_seq: Ints, seen_time: Ints, seen_seq: Ints, back: Short, time: Ints,
    seq: Ints, state: Ints, meta: Ints,
) -> None:  # fmt: skip
    """Remove the blocks that every window has left, and find the step's rows that are too old or too late for them.

    [0, BEGIN) are too old for all windows; [BEGIN, LATE) go to the pen. If rows that are not in order of recency have
    some of either kind, LATE is -1. `back` marks slots whose horizon has gone back, and counts them.
    """
    t, s = np.int64(2**63 - 1), np.int64(2**63 - 1)
    back[0] = 0
    odd = ks.shape[0] == 0
    if not odd:
        t, s = horizon_time[0], horizon_seq[0]
    for slot in range(ks.shape[0]):  # usually all of them have one window, and it has advanced
        odd |= (ks[slot] == 0) | (horizon_time[slot] != t) | (horizon_seq[slot] != s)
        odd |= (seen_time[slot] > t) | ((seen_time[slot] == t) & (seen_seq[slot] > s))
    if odd:
        t, s = np.int64(2**63 - 1), np.int64(2**63 - 1)
        for slot in range(ks.shape[0]):
            if ks[slot] == 0:
                continue
            own_t, own_s = horizon_time[slot], horizon_seq[slot]
            if own_t < t or (own_t == t and own_s < s):
                t, s = own_t, own_s
            if own_t < seen_time[slot] or (own_t == seen_time[slot] and own_s < seen_seq[slot]):
                back[0] += 1
                back[back[0]] = slot
    for slot in range(ks.shape[0]):  # copying whole arrays takes two seconds more to compile
        seen_time[slot], seen_seq[slot] = horizon_time[slot], horizon_seq[slot]
    state[EDGE_TIME], state[EDGE_SEQ] = t, s
    ring = max(1, meta.shape[0])
    while state[FIRST] < state[NEXT]:
        b = state[FIRST] % ring
        if meta[b, LAST_TIME] > t or (meta[b, LAST_TIME] == t and meta[b, LAST_SEQ] >= s):
            break
        state[FIRST] += 1
    state[BEGIN] = state[LATE] = 0
    state[ORDERED] = ascends(time, seq)
    late_time, late_seq = pen_before(state, meta)
    if state[ORDERED]:
        state[BEGIN] = begin_of(time, seq, t, s)
        state[LATE] = max(state[BEGIN], begin_of(time, seq, late_time, late_seq))
        return
    if precedes(late_time, late_seq, t, s):
        late_time, late_seq = t, s
    old = False
    for i in range(time.shape[0]):
        old |= precedes(time[i], seq_of(seq, i), late_time, late_seq)
    if old:
        state[LATE] = -1


@kernel
def ascends(time: Ints, seq: Ints) -> bool:
    """Whether rows are in order of recency."""
    n, falls = time.shape[0], False
    if seq.shape[0] < n:  # their seqs ascend
        for i in range(1, n):
            falls |= time[i] < time[i - 1]
    else:
        for i in range(1, n):
            falls |= (time[i] < time[i - 1]) | ((time[i] == time[i - 1]) & (seq[i] < seq[i - 1]))
    return not falls


@kernel
def pen_before(state: Ints, meta: Ints) -> tuple[int, int]:
    """Return the recency before which late rows go to the pen: that of the newest row of an earlier block, so many
    blocks ago that rows which are late by less than a quarter of the rows stored go to the blocks."""
    blocks = state[NEXT] - state[FIRST]
    if blocks < 4:
        return MINIMUM, MINIMUM
    b = (state[NEXT] - 1 - blocks // 4) % meta.shape[0]
    return meta[b, LAST_TIME], meta[b, LAST_SEQ]


@kernel
def ends_of(time: Ints, seq: Ints, source: int, rows: int, ordered: bool) -> tuple[int, int, int, int]:
    """Return the oldest and the newest recency of some rows."""
    last = source + rows - 1
    first_time, first_seq, last_time, last_seq = (
        time[source],
        seq_of(seq, source),
        time[last],
        seq_of(seq, last),
    )
    if not ordered:
        for i in range(source, source + rows):
            t, s = time[i], seq_of(seq, i)
            if precedes(t, s, first_time, first_seq):
                first_time, first_seq = t, s
            if precedes(last_time, last_seq, t, s):
                last_time, last_seq = t, s
    return first_time, first_seq, last_time, last_seq


@kernel
def has_times(time: Ints, source: int, stop: int) -> bool:
    """Whether one of some rows has another time than 0."""
    found = False
    for i in range(source, stop):
        found |= time[i] != 0
    return found


@kernel
def follows(time: Ints, seq: Ints, source: int, rows: int, timed: bool) -> bool:
    """Whether the seqs of these rows are consecutive."""
    last = source + rows - 1
    if seq_of(seq, source) < 0 or seq_of(seq, last) - seq_of(seq, source) != rows - 1:
        return False
    if timed and last < seq.shape[0]:  # in order of time, not of seq
        for i in range(source, last):
            if seq[i + 1] != seq[i] + 1:
                return False
    return True


@kernel
def take_in(
    source: int, stop: int, epoch: int, mapped: bool, state: Ints, clock: Ints,
    columns: tuple[Floats, ...], time: Ints, seq: Ints, pool: Floats, times: Ints, seqs: Ints, meta: Ints,
    index: Places, faces: Ints, order: Ints, size: Ints, low: Floats, high: Floats, base: Floats,
    inverse: Floats, outer: Map, inner: Map, picks: Places, eager: Places, points: Floats, when: Ints,
    number: Ints, counts: Ints, totals: Ints, passed: Ints, cell: Heights, level: Heights, eights: Any, above: Any,
) -> int:  # fmt: skip
    """Store rows [source, stop) and collect those that the maps let pass; return where it stopped; `NEED` contains
    why."""
    block, ring = pool.shape[2], pool.shape[0]
    state[NEED] = NOTHING
    while source < stop:
        if not state[TIMED] and has_times(time, source, stop):
            state[NEED] = TIMES
            break
        if lacks(min(stop - source, STRETCH), faces, counts, points):
            state[NEED] = ROOM
            break
        if state[USED] == block or state[NEXT] == state[FIRST]:
            if state[NEXT] - state[FIRST] == ring:
                state[NEED] = WIDER
                break
            if state[USED] == block and state[NEXT] > state[FIRST]:
                state[CLOSED] = state[NEXT] - 1
            b = state[NEXT] % ring
            for field in range(meta.shape[1]):
                meta[b, field] = 0
            meta[b, EPOCH], meta[b, TRIED] = epoch, -1
            state[NEXT] += 1
            state[USED] = 0
        b, at = (state[NEXT] - 1) % ring, state[USED]
        rows = min(stop - source, block - at, STRETCH)
        in_turn = follows(time, seq, source, rows, state[TIMED] != 0)
        if at == 0:
            # the seq that the next row has if it follows
            state[FOLLOW] = seq_of(seq, source) if in_turn else -1
        elif state[FOLLOW] >= 0 and not (in_turn and seq_of(seq, source) == state[FOLLOW]):
            state[FOLLOW] = -2  # not consecutive any more: seqs have to be stored
        if state[FOLLOW] < 0 and state[PLAIN]:
            state[FOLLOW] = meta[b, BASE] + at  # as before: it is found again after the call
            state[NEED] = SEQS
            break
        if state[FOLLOW] == -2:
            for i in range(at):
                seqs[b, i] = meta[b, BASE] + i
            state[FOLLOW] = meta[b, BASE] = -1
        if at == 0:
            meta[b, BASE] = state[FOLLOW]
        if state[FOLLOW] >= 0:
            state[FOLLOW] += rows
        state[USED] = meta[b, COUNT] = at + rows
        first_time, first_seq, last_time, last_seq = ends_of(time, seq, source, rows, state[ORDERED] != 0)
        late = state[ANY] != 0 and precedes(first_time, first_seq, state[NEWEST_TIME], state[NEWEST_SEQ])
        if late or not state[ORDERED]:
            state[MIXED] = state[NEXT] - 1
        if at == 0 or precedes(first_time, first_seq, meta[b, FIRST_TIME], meta[b, FIRST_SEQ]):
            meta[b, FIRST_TIME], meta[b, FIRST_SEQ] = first_time, first_seq
        if at == 0 or precedes(meta[b, LAST_TIME], meta[b, LAST_SEQ], last_time, last_seq):
            meta[b, LAST_TIME], meta[b, LAST_SEQ] = last_time, last_seq
        if not state[ANY] or precedes(state[NEWEST_TIME], state[NEWEST_SEQ], last_time, last_seq):
            state[ANY], state[NEWEST_TIME], state[NEWEST_SEQ] = 1, last_time, last_seq
        admit(
            columns, time, seq, source, rows, b, at, True, mapped, pool, times, seqs, meta, index, faces,
            order, size, low, high, base, inverse, outer, inner, picks, eager, points, when, number, counts, totals,
            passed, cell, level, eights, above,
        )  # fmt: skip
        source += rows
    clock[0], clock[1] = state[NEWEST_TIME], state[NEWEST_SEQ]
    clock[2], clock[3] = clock[0], clock[1]
    if state[NEXT] > state[FIRST]:
        b = state[FIRST] % ring
        clock[2], clock[3] = meta[b, FIRST_TIME], meta[b, FIRST_SEQ]
    return source


@kernel
def arrive(
    most: int, epoch: int, mapped: bool, horizon_time: Ints, horizon_seq: Ints, columns: tuple[Floats, ...],
    time: Ints, seq: Ints, ks: Ints, seen_time: Ints, seen_seq: Ints, back: Short, state: Ints, clock: Ints,
    pool: Floats, times: Ints, seqs: Ints, meta: Ints, index: Places, faces: Ints, order: Ints,
    size: Ints, low: Floats, high: Floats, base: Floats, inverse: Floats, outer: Map, inner: Map,
    picks: Places, eager: Places, points: Floats, when: Ints, number: Ints, counts: Ints, totals: Ints, passed: Ints,
    cell: Heights, level: Heights, eights: Any, above: Any,
) -> int:  # fmt: skip
    """Do `look_back`, and also `take_in` if all rows are in time and at most `most`; else return -1 with no row stored.

    One call instead of two, because Python code between kernels finds its data no longer in the cache.
    """
    look_back(ks, horizon_time, horizon_seq, seen_time, seen_seq, back, time, seq, state, meta)
    if time.shape[0] > most or state[LATE] != 0:
        return -1
    counts[0], counts[1], counts[2] = 0, 0, 0
    return int(
        take_in(
            0, time.shape[0], epoch, mapped, state, clock, columns, time, seq, pool, times, seqs, meta, index,
            faces, order, size, low, high, base, inverse, outer, inner, picks, eager, points, when, number, counts,
            totals, passed, cell, level, eights, above,
        )
    )  # fmt: skip
