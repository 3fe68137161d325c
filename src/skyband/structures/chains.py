"""Chains of instances: what each object's rows add up to from each of them on.

Of an object's rows in the window the oldest leaves first, so the object will have, one after the other, the totals of
all its rows, of all but the oldest, and so on. Each of these is an *instance*: it belongs to the row with which it
expires, and it can only gain as long as it lives, for rows that leave before it are not in it. A row that comes is
added to every instance of its object that is older, and begins one of its own.

An instance's record lies at its row's place: flags, how many rows of each stream are in it, and two numbers for each
aggregate: a sum is two doubles that hold all its bits, or one of the wide sums (wide.py), as in totals.py. The object's
record leads to its newest and its oldest instance; in between they are linked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.jit import inlined, kernel
from skyband.order import Floats, Ints
from skyband.structures.records import MAX, SUM, WIDE, Kinds, add
from skyband.structures.rows import Places
from skyband.structures.wide import add_wide, read_wide

# an instance: flags, then (in numbers of 32 bits) its neighbours and a count for each stream, then the aggregates
LINKED, TOUCHED = 2, 1
OLDER, NEWER, TALLY = 2, 3, 4
# an object, in numbers of 32 bits: newest and oldest instance, rows, whether it is touched
HEAD, OLDEST, ROWS, MARKED = range(4)
# and in numbers of 64: the streams that it was seen in, the recency of its latest row, and its key
SEEN, TIME, SEQ, KEY = range(2, 6)
OWN_TALLY = 12  # rows of each stream
_AHEAD = 128

Halves = Places  # an array of records as numbers of 32 bits


def first_of(streams: int) -> int:
    """Where an instance's aggregates begin."""
    return 2 + (streams + 1) // 2


def widths(streams: int, aggregates: int) -> tuple[int, int]:
    """The numbers of 64 bits in the records of an instance and of an object."""
    return first_of(streams) + 2 * aggregates, 6 + (streams + 1) // 2


@inlined
def copy_instance(source: int, to: int, plan: Ints, first: int, record: Ints, wide: Ints, idle: Ints) -> None:
    """An instance begins with what another one has."""
    for i in range(record.shape[1]):
        record[to, i] = record[source, i]
    bit = WIDE
    for a in range(plan.shape[0]):
        if plan[a, 0] == SUM:
            if record[source, 0] & bit:
                slot = idle[idle[0]]
                idle[0] -= 1
                for i in range(wide.shape[1]):
                    wide[slot, i] = wide[record[source, first + 2 * a + 1], i]
                record[to, first + 2 * a + 1] = slot
            bit <<= 1


@inlined
def release(place: int, plan: Ints, first: int, record: Ints, idle: Ints) -> None:
    """An instance is no more: its wide sums are free."""
    bit = WIDE
    for a in range(plan.shape[0]):
        if plan[a, 0] == SUM:
            if record[place, 0] & bit:
                idle[0] += 1
                idle[idle[0]] = record[place, first + 2 * a + 1]
            bit <<= 1
    record[place, 0] = 0


@kernel
def widen(
    q: int, at: int, bit: int, value: float, record: Ints, values: Floats, wide: Ints, idle: Ints
) -> None:
    """A value is added to a sum that two doubles don't hold."""
    if not record[q, 0] & bit:
        slot = idle[idle[0]]
        idle[0] -= 1
        for i in range(wide.shape[1]):
            wide[slot, i] = 0
        add_wide(wide, slot, values[q, at], 1)
        add_wide(wide, slot, values[q, at + 1], 1)
        record[q, at + 1] = slot
        record[q, 0] |= bit
    add_wide(wide, record[q, at + 1], value, 1)


@inlined
def gain(
    q: int, place: int, stream: int, x: Floats, plan: Ints, first: int, record: Ints, tally: Halves, values: Floats,
    wide: Ints, idle: Ints,
) -> None:  # fmt: skip
    """A row is added to an instance; there are enough wide sums."""
    tally[q, TALLY + stream] += 1
    bit = WIDE
    for a in range(plan.shape[0]):
        at = first + 2 * a
        if plan[a, 2] == stream:
            value = x[place, plan[a, 1]]
            if plan[a, 0] == SUM:
                high, low, rest = add(values[q, at], values[q, at + 1], value)
                if rest == 0.0 and high - high == 0.0 and not record[q, 0] & bit:
                    values[q, at], values[q, at + 1] = high, low
                else:
                    widen(q, at, bit, value, record, values, wide, idle)
            elif tally[q, TALLY + stream] == 1 or value > values[q, at]:
                values[q, at] = value
        if plan[a, 0] == SUM:
            bit <<= 1


@inlined
def fitting(
    q: int, place: int, stream: int, x: Floats, plan: Ints, first: int, record: Ints, values: Floats
) -> bool:
    """Whether a row can be added to an instance without a wide sum."""
    fits = record[q, 0] < WIDE
    for a in range(plan.shape[0]):
        if plan[a, 2] == stream and plan[a, 0] == SUM:
            at = first + 2 * a
            high, _, rest = add(values[q, at], values[q, at + 1], x[place, plan[a, 1]])
            fits &= rest == 0.0 and high - high == 0.0
    return bool(fits)


@inlined
def _note(
    q: int, first: int, record: Ints, values: Floats, plain: Ints, sign: float, score: Floats, touched: Places,
    state: Ints,
) -> None:  # fmt: skip
    """An instance has gained: its new score if that is plain (and no sum of it wide), or else it is noted for later."""
    if plain.shape[0] > 0 and record[q, 0] < WIDE:
        s = values[q, first + 2 * plain[0]]
        for i in range(1, plain.shape[0]):
            s += values[q, first + 2 * plain[i]]
        score[q] = s + 0.0 if sign > 0 else 0.0 - s
    elif not record[q, 0] & TOUCHED:
        record[q, 0] |= TOUCHED
        touched[state[0]] = q
        state[0] += 1


@inlined
def _arrive(
    g: int, place: int, stream: int, time: Ints, seq: Ints, who: Ints, own: Halves, marked: Ints, state: Ints
) -> None:
    """An object has one row more."""
    if own[g, ROWS] == 0:
        own[g, HEAD] = own[g, OLDEST] = -1
        who[g, SEEN] = 0
    if own[g, ROWS] == 0 or time[place] > who[g, TIME] or (
        time[place] == who[g, TIME] and seq[place] > who[g, SEQ]
    ):  # fmt: skip
        who[g, TIME], who[g, SEQ] = time[place], seq[place]
    own[g, ROWS] += 1
    own[g, OWN_TALLY + stream] += 1
    state[2] = max(state[2], own[g, OWN_TALLY + stream])
    if stream < 62:
        state[3] += (who[g, SEEN] >> stream) & 1
        who[g, SEEN] |= 1 << stream
    if own[g, MARKED] == 0:
        own[g, MARKED] = 1
        marked[state[1]] = g
        state[1] += 1


@kernel
def enter(
    begin: int, places: Places, code: Places, x: Floats, time: Ints, seq: Ints, kind: Kinds, plan: Ints,
    first: int, who: Ints, own: Halves, record: Ints, tally: Halves, values: Floats, wide: Ints, idle: Ints,
    plain: Ints, sign: float, score: Floats, touched: Places, marked: Ints, state: Ints,
) -> tuple[int, int]:  # fmt: skip
    """Rows come, in any order. Stops where a wide sum is met or needed: at a row (-1), or at one of its object's
    instances that hasn't gained it yet. (A call in this loop, even one never made, would make it twice as slow.)

    state: how many instances are touched, how many objects are; the most rows of an object in a stream; how many rows
    came of a stream in which their object had been seen.
    """
    ahead = begin
    far = record.shape[1] - 1
    for p in range(begin, places.shape[0]):
        if p == ahead:  # independent reads, so that they don't wait for one another
            ahead = min(p + _AHEAD, places.shape[0])
            warm = 0
            for i in range(p, ahead):
                warm ^= own[code[places[i]], HEAD]
            for i in range(p, ahead):
                head = own[code[places[i]], HEAD]
                if head >= 0:
                    warm ^= record[head, 0] ^ record[head, far] ^ time[head]
            state[4] = warm
        place = places[p]
        g = code[place]
        stream = np.int64(kind[place]) if kind.shape[0] > 0 else np.int64(0)
        after, before = -1, own[g, HEAD] if own[g, ROWS] > 0 else -1
        while before >= 0 and (
            time[before] > time[place] or (time[before] == time[place] and seq[before] > seq[place])
        ):
            after, before = before, tally[before, OLDER]
        if after >= 0 and record[after, 0] >= WIDE:
            return p, -1
        _arrive(g, place, stream, time, seq, who, own, marked, state)
        if before >= 0:
            tally[before, NEWER] = place
        else:
            own[g, OLDEST] = place
        if after >= 0:
            tally[after, OLDER] = place
            for i in range(record.shape[1]):
                record[place, i] = record[after, i]
        else:
            own[g, HEAD] = place
            for i in range(record.shape[1]):
                record[place, i] = 0
        record[place, 0] = LINKED
        tally[place, OLDER], tally[place, NEWER] = before, after
        q = np.int64(place)
        while q >= 0:
            if not fitting(q, place, stream, x, plan, first, record, values):
                return p, int(q)
            tally[q, TALLY + stream] += 1
            for a in range(plan.shape[0]):
                if plan[a, 2] == stream:
                    at = first + 2 * a
                    value = x[place, plan[a, 1]]
                    if plan[a, 0] == SUM:
                        high, low, _ = add(values[q, at], values[q, at + 1], value)
                        values[q, at], values[q, at + 1] = high, low
                    elif tally[q, TALLY + stream] == 1 or value > values[q, at]:
                        values[q, at] = value
            _note(q, first, record, values, plain, sign, score, touched, state)
            q = np.int64(tally[q, OLDER])
    return places.shape[0], -1


@kernel
def enter_wide(
    begin: int, end: int, resume: int, places: Places, code: Places, x: Floats, time: Ints, seq: Ints, kind: Kinds,
    plan: Ints, first: int, who: Ints, own: Halves, record: Ints, tally: Halves, values: Floats, wide: Ints,
    idle: Ints, plain: Ints, sign: float, score: Floats, touched: Places, marked: Ints, state: Ints,
) -> tuple[int, int]:  # fmt: skip
    """As `enter`, up to a row, whatever the sums, the first row from an instance on; stops where wide sums run out."""
    sums = plan.shape[0]
    for p in range(begin, end):
        place = places[p]
        g = code[place]
        stream = np.int64(kind[place]) if kind.shape[0] > 0 else np.int64(0)
        q = np.int64(resume)
        if resume < 0:
            if idle[0] < 2 * sums:
                return p, -1
            _arrive(g, place, stream, time, seq, who, own, marked, state)
            after, before = -1, own[g, HEAD]
            while before >= 0 and (
                time[before] > time[place] or (time[before] == time[place] and seq[before] > seq[place])
            ):
                after, before = before, tally[before, OLDER]
            if before >= 0:
                tally[before, NEWER] = place
            else:
                own[g, OLDEST] = place
            if after >= 0:
                tally[after, OLDER] = place
                copy_instance(after, place, plan, first, record, wide, idle)
            else:
                own[g, HEAD] = place
                for i in range(record.shape[1]):
                    record[place, i] = 0
            record[place, 0] = (record[place, 0] & ~TOUCHED) | LINKED
            tally[place, OLDER], tally[place, NEWER] = before, after
            q = np.int64(place)
        resume = -1
        while q >= 0:
            if idle[0] < sums:
                return p, int(q)
            gain(q, place, stream, x, plan, first, record, tally, values, wide, idle)
            _note(q, first, record, values, plain, sign, score, touched, state)
            q = np.int64(tally[q, OLDER])
    return end, -1


@kernel
def unlink(
    places: Places, forget: bool, gone: bool, code: Places, kind: Kinds, plan: Ints, first: int, own: Halves,
    record: Ints, tally: Halves, idle: Ints, marked: Ints, state: Ints,
) -> None:  # fmt: skip
    """Take instances out of their chains; `forget`: and their rows out of their objects' counts.

    `gone`: their rows have left, so that the arrays' places may be taken by others.
    """
    ahead = 0
    for p in range(places.shape[0]):
        if p == ahead:
            ahead = min(p + _AHEAD, places.shape[0])
            warm = 0
            for i in range(p, ahead):
                warm ^= own[code[places[i]], ROWS] ^ record[places[i], 0]
            for i in range(p, ahead):
                if record[places[i], 0] & LINKED:
                    before, after = tally[places[i], OLDER], tally[places[i], NEWER]
                    warm ^= record[max(before, 0), 0] ^ record[max(after, 0), 0]
            state[4] = warm
        place = places[p]
        g = code[place]
        if forget:
            own[g, ROWS] -= 1
            own[g, OWN_TALLY + (kind[place] if kind.shape[0] > 0 else 0)] -= 1
        linked = record[place, 0] & LINKED
        if linked:
            before, after = tally[place, OLDER], tally[place, NEWER]
            if before >= 0:
                tally[before, NEWER] = after
            else:
                own[g, OLDEST] = after
            if after >= 0:
                tally[after, OLDER] = before
            else:
                own[g, HEAD] = before
            release(place, plan, first, record, idle)
        if (linked or gone) and own[g, MARKED] == 0:
            own[g, MARKED] = 1
            marked[state[1]] = g
            state[1] += 1


@kernel
def settled(
    marked: Ints, own: Halves, score: Floats, good: Floats, listed: Any, bar: float, risen: Ints, dead: Ints
) -> tuple[int, int]:
    """Objects that are marked have the scores of their oldest instances; those without rows have none.

    Returns how many have come up to the bar, and how many are without rows.
    """
    up, gone = 0, 0
    for i in range(marked.shape[0]):
        g = marked[i]
        own[g, MARKED] = 0
        now = np.nan
        if own[g, ROWS] == 0:
            for j in range(OWN_TALLY, own.shape[1]):
                own[g, j] = 0
            dead[gone] = g
            gone += 1
        elif own[g, OLDEST] >= 0:
            now = score[own[g, OLDEST]]
        good[g] = now
        if now >= bar and not listed[g]:
            listed[g] = True
            risen[up] = g
            up += 1
    return up, gone


@kernel
def totals_of(
    places: Places, plan: Ints, first: int, record: Ints, tally: Halves, values: Floats, wide: Ints, out: Floats,
    counts: Ints, streams: int,
) -> None:  # fmt: skip
    """A column of each aggregate for these instances, and how many rows they have; they are touched no longer."""
    for i in range(places.shape[0]):
        q = places[i]
        record[q, 0] &= ~TOUCHED
        count = 0
        for s in range(streams):
            count += tally[q, TALLY + s]
        counts[i] = count
        bit = WIDE
        for a in range(plan.shape[0]):
            at = first + 2 * a
            if plan[a, 0] == SUM:
                if record[q, 0] & bit:
                    values[q, at] = read_wide(wide, record[q, at + 1])
                bit <<= 1
            out[a, i] = values[q, at] + 0.0


@inlined
def _yet(stream: int, seen: int, count: int, rows: Ints, ever: bool) -> int:
    """How many rows of a stream may yet be added to an instance."""
    return 1 - ((seen >> stream) & 1) if ever else max(0, rows[stream] - count)


@inlined
def _raised(high: float, low: float, is_wide: bool, yet: int, most: float) -> float:
    """No less than any sum of what is there and `yet` more values, rounded once."""
    part = yet * most
    s = high + part
    t = s - high
    rest = (high - (s - t)) + (part - t)
    if not (rest == 0.0 and low == 0.0 and not is_wide and yet & (yet - 1) == 0):  # something was rounded
        s *= 1.0 + 2.0**-50
    return s


@kernel
def most_of(
    places: Places, code: Places, plan: Ints, first: int, who: Ints, record: Ints, tally: Halves, values: Floats,
    most: Floats, rows: Ints, ever: bool, out: Floats, counts: Ints,
) -> None:  # fmt: skip
    """The most that each aggregate of these instances may yet come to; totals are up to date.

    most: the greatest value of each aggregate; rows: the most rows of an object in each stream, in any window.
    """
    streams = rows.shape[0]
    for i in range(places.shape[0]):
        q = places[i]
        seen = who[code[q], SEEN]
        count = 0
        for s in range(streams):
            count += tally[q, TALLY + s] + _yet(s, seen, tally[q, TALLY + s], rows, ever)
        counts[i] = count
        for a in range(plan.shape[0]):
            s = plan[a, 2]
            value = values[q, first + 2 * a]
            yet = _yet(s, seen, tally[q, TALLY + s], rows, ever)
            if yet == 0:
                out[a, i] = value + 0.0
            elif plan[a, 0] == MAX:
                out[a, i] = max(value, most[a]) + 0.0
            else:
                out[a, i] = _raised(value, values[q, first + 2 * a + 1], record[q, 0] >= WIDE, yet, most[a])


@kernel
def dominated(
    places: Places, code: Places, score: Floats, best: Floats, k: int, top: Floats, whose: Ints, out: Places
) -> int:
    """Those instances which k other objects will beat as long as they live; places are oldest first.

    From the newest to the oldest, the k best scores of different objects so far are at hand: all expire later than what
    comes next. An instance whose best is below the last of them is dominated. (Its own object can't be among those that
    count: what an object has from a newer row on is less than what it has from an older one on.)
    """
    n, found = 0, 0
    bar = -np.inf
    for p in range(places.shape[0] - 1, -1, -1):
        place = places[p]
        if bar > best[p]:
            out[found] = place
            found += 1
        now = score[place]
        if now > bar:
            g = code[place]
            at = -1
            for t in range(n):
                if whose[t] == g:
                    at = t
                    break
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
