"""Query filters: for each query, some of the rows in the recent buffer (Pripužić et al., sections 5 and 6.1).

Whether a row may wait in the buffer is asked of the query's filter: it may if k rows of the filter come before it. Any
part of the buffer is a valid filter; a good one is small and has the buffer's k best rows in it. There are three:

    strict      the k-skyband of what it was shown: every row comes in, raises the counters of those it dominates, and
                throws out whose counter reaches k
    relaxed     every row comes in; when the rows beyond the first k reach a limit, the dominated ones are swept out
    probable    only rows at or beyond a threshold come in. It has room for k + `cap` rows; when it is full, the
                threshold is its worst row. When a row leaves, the threshold is lowered by the distance of its two worst
                rows (when several do, by as many usual distances); with fewer than k left it takes everything

Filters lie in a pool of lists, best last (`ranked.py`), here as arrays. In a step `shed` takes out what has left the
buffer, `take` shows new rows, and `worth` tells the score beyond which a row that leaves the buffer must be handed on.
"""

from __future__ import annotations

import numpy as np

from skyband.jit import inlined, kernel
from skyband.order import Floats, Ints
from skyband.structures.board import before
from skyband.structures.ranked import enlist

STRICT, RELAXED, PROBABLE = range(3)
BLOCK = 64
LATEST = 9223372036854775807
MET, FILTERED, DROPPED = range(
    3
)  # counters, from column `base` on: rows met, taken in; evicted, swept or raised


@kernel
def shed(
    ks: Ints, kind: int, edge_time: int, edge_seq: int,
    good: Floats, time: Ints, seq: Ints, count: Ints, start: Ints, size: Ints,
    threshold: Floats, oldest_time: Ints, oldest_seq: Ints, need: Floats, counts: Ints, base: int,
) -> None:  # fmt: skip
    """What is older than the edge leaves every filter; `need` is what a row must reach to matter from now on."""
    for slot in range(ks.shape[0]):
        k = ks[slot]
        if k == 0:
            need[slot] = np.inf
            continue
        if oldest_time[slot] < edge_time or (oldest_time[slot] == edge_time and oldest_seq[slot] < edge_seq):
            begin, n = start[slot], size[slot]
            write = begin
            oldest, oldest_number = LATEST, LATEST
            for i in range(begin, begin + n):
                if time[i] < edge_time or (time[i] == edge_time and seq[i] < edge_seq):
                    continue
                if time[i] < oldest or (time[i] == oldest and seq[i] < oldest_number):
                    oldest, oldest_number = time[i], seq[i]
                good[write] = good[i]
                time[write] = time[i]
                seq[write] = seq[i]
                count[write] = count[i]
                write += 1
            oldest_time[slot], oldest_seq[slot] = oldest, oldest_number
            gone = begin + n - write
            size[slot] = write - begin
            if kind == PROBABLE and gone > 0:
                if write - begin < k or write - begin < 2:
                    threshold[slot] = -np.inf
                else:
                    # the distance of the two worst, or of neighbours in general where several left at once
                    gap = good[begin + 1] - good[begin]
                    if gone > 1:
                        gap = gone * (good[write - 1] - good[begin]) / (write - begin - 1)
                    lower = threshold[slot] - gap
                    threshold[slot] = lower if lower == lower else -np.inf
                counts[slot, base + DROPPED] += 1
        need[slot] = wanted(slot, k, kind, good, start, size, threshold)


@inlined
def wanted(slot: int, k: int, kind: int, good: Floats, start: Ints, size: Ints, threshold: Floats) -> float:
    """What a row must reach to matter: to the filter, or to the query when it leaves the buffer."""
    if size[slot] < k:
        return -np.inf
    if kind == PROBABLE:
        return float(threshold[slot])
    return float(good[start[slot] + size[slot] - k])


@inlined
def worth(slot: int, k: int, good: Floats, start: Ints, size: Ints) -> float:
    """A row that leaves the buffer can still be in an answer only if it is better than this."""
    return float(good[start[slot] + size[slot] - k]) if size[slot] >= k else -np.inf


@kernel
def take(
    slot: int, k: int, kind: int, first: int, end: int, rows: Ints, values: Floats, times: Ints, seqs: Ints,
    horizon_time: int, horizon_seq: int, floor_time: int, floor_seq: int,
    good: Floats, time: Ints, seq: Ints, count: Ints, start: Ints, size: Ints, room: Ints,
    threshold: Floats, limit: Ints, cap: int, gamma: float, oldest_time: Ints, oldest_seq: Ints, counts: Ints,
    base: int, picks: Ints, picked: Floats, progress: Ints,
) -> int:  # fmt: skip
    """Show a filter the rows first, first + 1 … of a stretch, oldest first; those among its k best go to `picks`.

    Returns `end`, or the first row for which the filter has no room; progress[0] counts the picks.
    """
    at = first
    while at < end:
        low = -np.inf
        if kind == PROBABLE and size[slot] >= k:
            low = threshold[slot]
        if low > -np.inf and end - at >= BLOCK:
            hit = False
            for j in range(BLOCK):
                hit |= values[at + j] >= low
            if not hit:
                at += BLOCK
                continue
        stop = min(end, at + BLOCK)
        while at < stop:
            value = values[at]
            row = rows[at]
            when, number = times[row], seqs[row]
            inside = when > horizon_time or (when == horizon_time and number >= horizon_seq)
            if not value >= low or not inside:
                at += 1
                continue
            n = size[slot]
            if n == room[slot]:
                return at
            counts[slot, base + MET] += 1
            kth = start[slot] + n - k
            if n < k or before(value, when, number, good[kth], time[kth], seq[kth]):
                picks[progress[0]] = row
                picked[progress[0]] = value
                progress[0] += 1
            at += 1
            if when < floor_time or (when == floor_time and number < floor_seq):
                continue
            if kind == STRICT:
                come_strictly(
                    slot, k, value, when, number, good, time, seq, count, start, size, oldest_time, oldest_seq,
                    counts, base,
                )  # fmt: skip
            elif kind == RELAXED:
                come_freely(
                    slot, k, value, when, number, good, time, seq, start, size, limit, gamma, oldest_time, oldest_seq,
                    counts, base,
                )  # fmt: skip
            else:
                come_likely(
                    slot, k + cap, value, when, number, good, time, seq, start, size, threshold, oldest_time,
                    oldest_seq, counts, base,
                )  # fmt: skip
                if n + 1 >= k:
                    low = threshold[slot]
    return end


@inlined
def note_oldest(slot: int, when: int, number: int, oldest_time: Ints, oldest_seq: Ints) -> None:
    if when < oldest_time[slot] or (when == oldest_time[slot] and number < oldest_seq[slot]):
        oldest_time[slot] = when
        oldest_seq[slot] = number


@inlined
def come_strictly(
    slot: int, k: int, value: float, when: int, number: int, good: Floats, time: Ints, seq: Ints, count: Ints,
    start: Ints, size: Ints, oldest_time: Ints, oldest_seq: Ints, counts: Ints, base: int,
) -> None:  # fmt: skip
    """A row comes into a strict filter, which has room: who it dominates counts it, and leaves at k."""
    begin, n = start[slot], size[slot]
    end = begin + n
    at = end
    own = 0
    while at > begin and before(good[at - 1], time[at - 1], seq[at - 1], value, when, number):
        at -= 1
        if time[at] > when or (time[at] == when and seq[at] > number):
            own += 1
    if own >= k:
        return
    write = begin
    for i in range(begin, at):
        if time[i] < when or (time[i] == when and seq[i] < number):
            count[i] += 1
            if count[i] >= k:
                continue
        if write != i:
            good[write] = good[i]
            time[write] = time[i]
            seq[write] = seq[i]
            count[write] = count[i]
        write += 1
    gone = at - write
    if gone == 0:
        for i in range(end, at, -1):
            good[i] = good[i - 1]
            time[i] = time[i - 1]
            seq[i] = seq[i - 1]
            count[i] = count[i - 1]
    elif gone > 1:
        for i in range(at, end):
            good[i - gone + 1] = good[i]
            time[i - gone + 1] = time[i]
            seq[i - gone + 1] = seq[i]
            count[i - gone + 1] = count[i]
    good[write] = value
    time[write] = when
    seq[write] = number
    count[write] = own
    size[slot] = n - gone + 1
    note_oldest(slot, when, number, oldest_time, oldest_seq)
    counts[slot, base + FILTERED] += 1
    counts[slot, base + DROPPED] += gone


@kernel
def come_freely(
    slot: int, k: int, value: float, when: int, number: int, good: Floats, time: Ints, seq: Ints,
    start: Ints, size: Ints, limit: Ints, gamma: float, oldest_time: Ints, oldest_seq: Ints, counts: Ints, base: int,
) -> None:  # fmt: skip
    """A row comes into a relaxed filter, which has room; a sweep if it has reached its limit."""
    begin = start[slot]
    enlist(value, when, number, begin, size[slot], good, time, seq)
    size[slot] += 1
    note_oldest(slot, when, number, oldest_time, oldest_seq)
    counts[slot, base + FILTERED] += 1
    n = size[slot]
    if n - k < limit[slot]:
        return
    # from the best down: whoever is older than k that come before it goes (packed against the end, then moved down)
    newest_time = np.empty(k, np.int64)  # of those passed, the k newest, the oldest of them first
    newest_seq = np.empty(k, np.int64)
    held = 0
    write = begin + n
    for i in range(begin + n - 1, begin - 1, -1):
        if held == k:
            if time[i] < newest_time[0] or (time[i] == newest_time[0] and seq[i] < newest_seq[0]):
                continue
            j = 0
            while j + 1 < k and (
                newest_time[j + 1] < time[i] or (newest_time[j + 1] == time[i] and newest_seq[j + 1] < seq[i])
            ):
                newest_time[j] = newest_time[j + 1]
                newest_seq[j] = newest_seq[j + 1]
                j += 1
        else:
            j = held
            while j > 0 and (
                newest_time[j - 1] > time[i] or (newest_time[j - 1] == time[i] and newest_seq[j - 1] > seq[i])
            ):
                newest_time[j] = newest_time[j - 1]
                newest_seq[j] = newest_seq[j - 1]
                j -= 1
            held += 1
        newest_time[j] = time[i]
        newest_seq[j] = seq[i]
        write -= 1
        good[write] = good[i]
        time[write] = time[i]
        seq[write] = seq[i]
    kept = begin + n - write
    if write > begin:
        for i in range(kept):
            good[begin + i] = good[write + i]
            time[begin + i] = time[write + i]
            seq[begin + i] = seq[write + i]
    size[slot] = kept
    left = max(kept - k, 0)
    limit[slot] = max(int(np.ceil((1.0 + gamma) * left)), left + 1)
    counts[slot, base + DROPPED] += 1


@inlined
def come_likely(
    slot: int, most: int, value: float, when: int, number: int, good: Floats, time: Ints, seq: Ints,
    start: Ints, size: Ints, threshold: Floats, oldest_time: Ints, oldest_seq: Ints, counts: Ints, base: int,
) -> None:  # fmt: skip
    """A row at or beyond the threshold comes into a probable filter; the worst gives way if it is full."""
    begin, n = start[slot], size[slot]
    if n < most:
        enlist(value, when, number, begin, n, good, time, seq)
        n += 1
        size[slot] = n
    else:
        if not before(value, when, number, good[begin], time[begin], seq[begin]):
            return
        at = begin
        while at + 1 < begin + n and before(value, when, number, good[at + 1], time[at + 1], seq[at + 1]):
            good[at] = good[at + 1]
            time[at] = time[at + 1]
            seq[at] = seq[at + 1]
            at += 1
        good[at] = value
        time[at] = when
        seq[at] = number
    if n == most:
        threshold[slot] = good[begin]
    note_oldest(slot, when, number, oldest_time, oldest_seq)
    counts[slot, base + FILTERED] += 1
