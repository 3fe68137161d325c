"""Chains of instances where a row is in one sum and scores are sums added up: what most people ask for.

The same as `enter` of chains.py in one loop without calls. Whatever array is handed to a function, though that be
written out in its place, may cost two atomic instructions each time, which here would be more than the work.
"""

from __future__ import annotations

import numpy as np

from skyband.jit import kernel
from skyband.order import Floats, Ints
from skyband.structures.chains import (
    HEAD,
    LINKED,
    MARKED,
    NEWER,
    OLDER,
    OLDEST,
    OWN_TALLY,
    ROWS,
    SEEN,
    SEQ,
    TALLY,
    TIME,
    Halves,
)
from skyband.structures.records import SUM, WIDE, Aggregate, Kinds, add
from skyband.structures.rows import Places

_AHEAD = 128
ABOVE = 1.0 + 2.0**-50


def sole_of(aggregates: tuple[Aggregate, ...], streams: int, plain: tuple[int, ...]) -> Ints | None:
    """Of each stream the sum that its rows are in, and its column (-1 and 0: in none); None where it is otherwise."""
    told = [a.stream for a in aggregates]
    if not plain or len(set(told)) < len(told) or any(a.kind != SUM for a in aggregates):
        return None
    sole = np.zeros((streams, 2), dtype=np.int64)
    sole[:, 0] = -1
    for number, a in enumerate(aggregates):
        sole[a.stream] = number, a.column
    return sole


@kernel
def enter_one(
    begin: int, places: Places, code: Places, x: Floats, time: Ints, seq: Ints, kind: Kinds, sole: Ints, first: int,
    who: Ints, own: Halves, record: Ints, tally: Halves, values: Floats, plain: Ints,
    sign: float, score: Floats, marked: Ints, state: Ints,
) -> tuple[int, int]:  # fmt: skip
    """As `enter` of chains.py; returns the same, and `state` is the same."""
    ahead, far, several = begin, record.shape[1] - 1, kind.shape[0] > 0
    count, crowd, again = state[1], state[2], state[3]
    done, stopped = places.shape[0], -1
    for p in range(begin, places.shape[0]):
        if p == ahead:  # independent reads, so that they don't wait for one another
            ahead = min(p + _AHEAD, places.shape[0])
            warm = 0
            for i in range(p, ahead):
                warm ^= own[code[places[i]], HEAD]
            for i in range(p, ahead):
                q = np.int64(own[code[places[i]], HEAD]) if own[code[places[i]], ROWS] > 0 else -1
                if q >= 0:
                    warm ^= time[q] ^ seq[q]
                while q >= 0:
                    warm ^= record[q, 0] ^ record[q, far]
                    q = np.int64(tally[q, OLDER])
            state[4] = warm
        place = places[p]
        g = code[place]
        stream = np.int64(kind[place]) if several else np.int64(0)
        when, number = time[place], seq[place]
        fresh = own[g, ROWS] == 0
        after, before = -1, -1 if fresh else own[g, HEAD]
        while before >= 0 and (time[before] > when or (time[before] == when and seq[before] > number)):
            after, before = before, tally[before, OLDER]
        if after >= 0 and record[after, 0] >= WIDE:
            done = p
            break
        if fresh:
            own[g, OLDEST] = -1
            who[g, SEEN] = 0
        if fresh or when > who[g, TIME] or (when == who[g, TIME] and number > who[g, SEQ]):
            who[g, TIME], who[g, SEQ] = when, number
        own[g, ROWS] += 1
        own[g, OWN_TALLY + stream] += 1
        crowd = max(crowd, np.int64(own[g, OWN_TALLY + stream]))
        if stream < 62:
            again += (who[g, SEEN] >> stream) & 1
            who[g, SEEN] |= 1 << stream
        if own[g, MARKED] == 0:
            own[g, MARKED] = 1
            marked[count] = g
            count += 1
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
        a, value, at = sole[stream, 0], x[place, sole[stream, 1]], first + 2 * sole[stream, 0]
        q = np.int64(place)
        while q >= 0:
            if a >= 0:
                high, low, rest = add(values[q, at], values[q, at + 1], value)
                if record[q, 0] >= WIDE or rest != 0.0 or high - high != 0.0:
                    stopped = int(q)
                    break
                values[q, at], values[q, at + 1] = high, low
            tally[q, TALLY + stream] += 1
            now = values[q, first + 2 * plain[0]]
            for i in range(1, plain.shape[0]):
                now += values[q, first + 2 * plain[i]]
            score[q] = now + 0.0 if sign > 0 else 0.0 - now
            q = np.int64(tally[q, OLDER])
        if stopped >= 0:
            done = p
            break
    state[1], state[2], state[3] = count, crowd, again
    return done, stopped


@kernel
def best_of_plain(
    places: Places, code: Places, plan: Ints, first: int, who: Ints, record: Ints, tally: Halves, values: Floats,
    most: Floats, rows: Ints, ever: bool, plain: Ints, sign: float, out: Floats,
) -> None:  # fmt: skip
    """The best scores of instances, where a score is sums added up."""
    ahead, far = 0, record.shape[1] - 1
    for i in range(places.shape[0]):
        if i == ahead:  # places are in any order by now
            ahead = min(i + _AHEAD, places.shape[0])
            warm = 0
            for j in range(i, ahead):
                warm ^= record[places[j], 0] ^ record[places[j], far]
                if ever:
                    warm ^= who[code[places[j]], SEEN]
            out[i] = warm
        q = places[i]
        seen = who[code[q], SEEN] if ever else np.int64(0)
        is_wide = record[q, 0] >= WIDE
        best = 0.0
        for j in range(plain.shape[0]):
            a = plain[j]
            s = plan[a, 2]
            high = values[q, first + 2 * a]
            yet = max(0, 1 - ((seen >> s) & 1) if ever else rows[s] - tally[q, TALLY + s])
            # no less than any sum of what is there and `yet` more values, rounded once; without branches, which
            # nobody could foretell
            part = yet * most[a] if yet > 0 else 0.0  # the greatest may be infinite
            total = high + part
            t = total - high
            rest = (high - (total - t)) + (part - t)
            rounded = (rest != 0.0) | (values[q, first + 2 * a + 1] != 0.0) | is_wide | (yet & (yet - 1) != 0)
            total *= ABOVE if (yet > 0) & rounded else 1.0
            best = total if j == 0 else best + total
        out[i] = best + 0.0 if sign > 0 else 0.0 - best
