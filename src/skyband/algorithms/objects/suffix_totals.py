"""Totals of instances: of each object's rows from each of them on.

Of an object's rows in the window the oldest leaves first, so the object will have, one after the other, the totals of
all its rows, of all but the oldest, and so on. Each of these is an *instance*. It belongs to the row with which it
expires, and it can only gain as long as it lives, because rows that leave before it are not in it.

Instances are not stored. A walk over the rows from the newest to the oldest, with one running total for each object,
meets every instance at the moment when its total is complete. Totals are plain sums of doubles here, so an instance has
two bounds: one that is not above its present total, and one that is not below its greatest possible total. Each is
widened by one part in 2^52 for every addition that may have been rounded. An instance that the bounds cannot decide
stays.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skyband.algorithms.kernels.row_slots import Places
from skyband.algorithms.objects.record_layout import MAX, SUM, Kinds
from skyband.compiling.jit import inlined, kernel
from skyband.core.types import Floats, Ints

AHEAD = 128
TALLY = 4  # column from which the rows of each stream are counted, beside a sum
ULP = 2.0**-52  # twice the greatest relative error of one rounding

Counts = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


@kernel
def came(places: Places, code: Places, kind: Kinds, seen: Ints, tally: Counts, noted: Ints) -> None:
    """Note for new rows the streams that their objects were seen in, and count the objects' rows in each stream.

    Only the arrays that are not empty are kept. noted: the most rows of an object in a stream; the number of rows whose
    object had been seen in their stream before.
    """
    most, again = noted[0], noted[1]
    several, known, counted = kind.shape[0] > 0, seen.shape[0] > 0, tally.shape[0] > 0
    for i in range(places.shape[0]):
        g = code[places[i]]
        stream = np.int64(kind[places[i]]) if several else np.int64(0)
        if known:
            again += (seen[g] >> stream) & 1
            seen[g] |= 1 << stream
        if counted:
            tally[g, stream] += 1
            most = max(most, np.int64(tally[g, stream]))
    noted[0], noted[1] = most, again


@kernel
def went(places: Places, code: Places, kind: Kinds, tally: Counts) -> None:
    """Take rows that leave from the counts."""
    several = kind.shape[0] > 0
    for i in range(places.shape[0]):
        tally[code[places[i]], kind[places[i]] if several else 0] -= 1


def columns_of(plan: Ints, plain: Ints, streams: int) -> Ints:
    """Return for each stream the columns of its rows that a plain score sums; -1 where it has fewer."""
    each = [plan[plain][plan[plain, 2] == stream, 1].tolist() for stream in range(streams)]
    width = max(1, *map(len, each))
    return np.array([columns + [-1] * (width - len(columns)) for columns in each], dtype=np.int64)


@kernel
def bounds_of_sums(
    places: Places, code: Places, x: Floats, kind: Kinds, columns: Ints, most: Floats, rows: Ints, seen: Ints,
    total: Floats, tally: Counts, least: Floats, best: Floats,
) -> float:  # fmt: skip
    """Write bounds on the present and the final scores of instances, for a plain score; rows are oldest first.

    most: for each stream the most that a row adds to the score, which is finite; rows: the most rows of an object.
    total and tally are zeros for each object, the same memory as 64-bit and as 32-bit numbers. They hold the sum and,
    unless an object comes once for ever, how much of the allowed rise is used, and from TALLY on its rows of each
    stream. The loop has few branches, because they would be unpredictable. (The returned value only keeps the reads
    alive.)
    """
    several, streams, wide = kind.shape[0] > 0, rows.shape[0], columns.shape[1]
    ever = total.shape[1] == 1  # an object comes once for ever
    ahead, warm, full = places.shape[0], 0.0, 0.0
    for s in range(streams):
        full += most[s] * (1 if ever else rows[s])
    loose = ULP * wide * (places.shape[0] + streams)
    for i in range(places.shape[0] - 1, -1, -1):
        if i < ahead:  # independent reads overlap in the memory system
            ahead = max(0, i + 1 - AHEAD)
            for j in range(ahead, i + 1):
                warm += total[code[places[j]], 0]
        place = places[i]
        g = code[place]
        stream = np.int64(kind[place]) if several else np.int64(0)
        now = total[g, 0]
        for j in range(wide):
            if columns[stream, j] >= 0:
                now += x[place, columns[stream, j]]
        total[g, 0] = now
        rise = 0.0
        if ever:
            seen_in = seen[g]
            for s in range(streams):
                rise += most[s] * (1 - ((seen_in >> s) & 1))
        else:
            came = np.int64(tally[g, TALLY + stream])
            tally[g, TALLY + stream] = came + 1
            spent = total[g, 1] + most[stream] * (came < rows[stream])
            total[g, 1] = spent
            rise = full - spent
        least[i] = now * (1.0 - loose)
        best[i] = now + rise + (now + full) * loose
    return warm


@kernel
def suffixes(
    places: Places, code: Places, x: Floats, kind: Kinds, plan: Ints, total: Floats, tally: Counts, out: Floats,
    there: Counts,
) -> None:  # fmt: skip
    """Write the aggregates of instances and their numbers of rows of each stream; rows are oldest first.

    total and tally: zeros for each object.
    """
    several = kind.shape[0] > 0
    for i in range(places.shape[0] - 1, -1, -1):
        place = places[i]
        g = code[place]
        stream = np.int64(kind[place]) if several else np.int64(0)
        tally[g, stream] += 1
        for a in range(plan.shape[0]):
            if plan[a, 2] == stream:
                value = x[place, plan[a, 1]]
                if plan[a, 0] == SUM:
                    total[g, a] += value
                elif tally[g, stream] == 1 or value > total[g, a]:
                    total[g, a] = value
            out[a, i] = total[g, a] + 0.0
        for s in range(there.shape[1]):
            there[i, s] = tally[g, s]


@kernel
def least_of(totals: Floats, there: Counts, plan: Ints) -> Floats:
    """Return lower bounds on the totals of instances."""
    out = totals.copy()
    for a in range(plan.shape[0]):
        if plan[a, 0] == SUM:
            for i in range(there.shape[0]):
                out[a, i] *= 1.0 - ULP * there[i, plan[a, 2]]
    return out


@inlined
def yet_to_come(seen_in: int, stream: int, most: int, count: int, ever: bool) -> int:
    """Return how many rows of a stream may still be added to an instance that has `count` of them."""
    return 1 - ((seen_in >> stream) & 1) if ever else max(0, most - count)


@kernel
def most_of(
    totals: Floats, there: Counts, codes: Ints, plan: Ints, seen: Ints, most: Floats, rows: Ints, ever: bool,
    out: Floats, counts: Ints,
) -> None:  # fmt: skip
    """Write upper bounds on the totals of instances, and the number of rows that they may have in the end.

    most: the greatest value of each aggregate; rows: the most rows of an object in each stream, in any window.
    """
    for i in range(codes.shape[0]):
        seen_in = seen[codes[i]] if ever else np.int64(0)
        count = 0
        for s in range(rows.shape[0]):
            count += there[i, s] + yet_to_come(seen_in, s, rows[s], np.int64(there[i, s]), ever)
        counts[i] = count
        for a in range(plan.shape[0]):
            s = plan[a, 2]
            value = totals[a, i]
            yet = yet_to_come(seen_in, s, rows[s], np.int64(there[i, s]), ever)
            if plan[a, 0] == MAX:
                out[a, i] = max(value, most[a]) if yet > 0 else value
            else:
                rise = yet * most[a] if yet > 0 else 0.0
                out[a, i] = (value + rise) * (1.0 + ULP * (there[i, s] + yet + 1))


@kernel
def dominated(
    places: Places, code: Places, least: Floats, best: Floats, k: int, top: Floats, whose: Ints, aside: Flags
) -> int:
    """Mark the instances that k other objects beat as long as they live; places are oldest first.

    The loop runs from the newest to the oldest and holds the k best scores of different objects so far: all of them
    expire later than the next row. An instance whose upper bound is below the least of them is dominated. (Its own
    object is never among those that count: an object's total from a newer row on is less than from an older one.)
    Returns how many instances were newly marked.
    """
    n, found = 0, 0
    bar = -np.inf
    for p in range(places.shape[0] - 1, -1, -1):
        place = places[p]
        beaten = bar > best[p]  # unpredictable, so no branch
        found += beaten & (not aside[place])
        aside[place] |= beaten
        now = least[p]
        if now > bar:
            g = code[place]
            at = -1
            for t in range(n):
                if whose[t] == g:
                    at = t
                    break
            if at >= 0 and top[at] >= now:  # they differ only by the bound on rounding
                continue
            if at < 0:
                if n < k:
                    n += 1
                at = n - 1
            while at > 0 and top[at - 1] < now:
                top[at], whose[at] = top[at - 1], whose[at - 1]
                at -= 1
            top[at], whose[at] = now, g
            if n == k:
                bar = top[k - 1]
    return found


@kernel
def of_no_use(places: Places, code: Places, aside: Flags, held: Flags, out: Places) -> int:
    """Write the rows aside that no older instance needs, oldest first, and return their number.

    held: False for each object. out: room for one more than the number of places.
    """
    count = 0
    for i in range(places.shape[0]):
        place = places[i]
        held[code[place]] |= not aside[place]
        out[count] = place
        count += not held[code[place]]
    return count
