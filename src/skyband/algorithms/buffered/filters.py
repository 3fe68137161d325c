"""Query filters: for each query, some of the rows in the recent buffer (Pripužić et al., sections 5 and 6.1).

The query's filter decides whether a row may stay in the buffer only: it may if k rows of the filter are better. Any
part of the buffer is a valid filter; a good one is small and contains the buffer's k best rows. There are three:

    strict      the k-skyband of the rows offered: every row enters, raises the counters of those it dominates, and
                removes each row whose counter reaches k
    relaxed     every row enters; when the rows beyond the first k reach a limit, the dominated ones are swept out
    probable    only rows at or beyond a threshold enter. It has room for k + `cap` rows; when it is full, the
                threshold is its worst row. When a row leaves, the threshold is lowered by the distance of its two worst
                rows. When several leave, about as many can be expected to enter; the threshold is lowered for a
                shortfall of one and a half times the root of their number, in usual distances of its worse half. With
                fewer than k rows left it takes every row; behind an index it is filled again from the buffer
                (`refill`), unless many are short at once. How rows enter is in probabilistic_filter.py

Filters lie in a pool of lists, best last (ranked_lists.py), here as arrays. In a step `shed` removes the rows that left
the buffer, `take_…` offers new rows, and `worth` returns the score that a row must exceed to be handed on when it
leaves the buffer.
"""

from __future__ import annotations

import numpy as np

from skyband.algorithms.buffered.probabilistic_filter import BLOCK, WAIT, take_likely
from skyband.algorithms.kernels.ranked_lists import enlist
from skyband.compiling.jit import inlined, kernel
from skyband.core.order import before
from skyband.core.types import Floats, Ints

STRICT, RELAXED, PROBABLE = range(3)
UNLUCKY = 1.5  # the shortfall of new rows that is allowed for, in roots of the number of rows that left
LATEST = 9223372036854775807
U = np.uint64
# counters, from column `base` on: rows offered, inserted; removed, swept or raised
MET, FILTERED, DROPPED = range(3)


@kernel
def shed(
    ks: Ints, kind: int, edge_time: int, edge_seq: int,
    good: Floats, time: Ints, seq: Ints, count: Ints, start: Ints, size: Ints,
    threshold: Floats, oldest_time: Ints, oldest_seq: Ints, need: Floats, bar: Floats, counts: Ints, base: int,
    lower: Floats, short: Ints,
) -> int:  # fmt: skip
    """Remove the rows older than the edge from every filter.

    `need` becomes the score that a new row must reach to matter, `bar` that of a row that leaves the buffer. Returns
    the number of open filters, for which every row matters; `short` names them, and `lower` is the threshold that a
    probable one would have with more rows.
    """
    open_ = 0
    for slot in range(ks.shape[0]):
        k = ks[slot]
        if k == 0:
            need[slot] = bar[slot] = np.inf
            continue
        if oldest_time[slot] < edge_time or (oldest_time[slot] == edge_time and oldest_seq[slot] < edge_seq):
            begin, n = start[slot], size[slot]
            write = U(begin)
            for i in range(n):
                at = U(begin + i)
                when, number = time[at], seq[at]
                good[write] = good[at]  # each row is written, and kept if it stays
                time[write] = when
                seq[write] = number
                if kind == STRICT:
                    count[write] = count[at]
                write += U((when > edge_time) | ((when == edge_time) & (number >= edge_seq)))
            kept = np.int64(write) - begin
            # in separate loops, which compile to vector instructions
            oldest, oldest_number = LATEST, LATEST
            for i in range(kept):
                oldest = min(oldest, time[U(begin + i)])
            for i in range(kept):
                at = U(begin + i)
                oldest_number = min(oldest_number, seq[at] if time[at] == oldest else LATEST)
            oldest_time[slot], oldest_seq[slot] = oldest, oldest_number
            gone = n - kept
            size[slot] = kept
            if kind == PROBABLE and gone > 0:
                lower[slot] = -np.inf
                if kept > 1:
                    # the distance of the two worst rows, or the usual one in the worse half where several left at once
                    gap = good[begin + 1] - good[begin]
                    if gone > 1:
                        half = kept // 2
                        gap = UNLUCKY * np.sqrt(gone) * (good[begin + half] - good[begin]) / half
                    less = threshold[slot] - gap
                    lower[slot] = less if less == less else -np.inf
                threshold[slot] = lower[slot] if kept >= k else -np.inf
                counts[slot, base + DROPPED] += 1
        need[slot] = wanted(slot, k, kind, good, start, size, threshold)
        bar[slot] = worth(slot, k, good, start, size)
        if need[slot] == -np.inf:
            short[open_] = slot
            open_ += 1
    return open_


@kernel
def refill(
    slots: Ints, rows: Ints, values: Floats, times: Ints, seqs: Ints, ks: Ints, cap: Ints,
    horizon_time: Ints, horizon_seq: Ints, floor_time: Ints, floor_seq: Ints, lower: Floats,
    good: Floats, time: Ints, seq: Ints, start: Ints, size: Ints,
    threshold: Floats, oldest_time: Ints, oldest_seq: Ints, need: Floats, bar: Floats, counts: Ints, base: int,
    near: Ints, picks: Ints, found: Floats, picked: Floats,
) -> None:  # fmt: skip
    """Fill probable filters with the best of these rows of the buffer, oldest first; there is a line of scores for
    each.

    Any part of the buffer is a valid filter. An open filter must be offered every row that arrives, and a pass over
    the rows that are in the buffer costs about as much, but closes it at once. First only the rows are considered that
    reach the threshold that there would be; they are nearly always enough.
    """
    progress = np.zeros(1, np.int64)
    waiting, waiting_values = np.empty(WAIT, np.int64), np.empty(WAIT)
    for i in range(slots.shape[0]):
        slot = slots[i]
        k = ks[slot]
        size[slot] = 0
        threshold[slot] = -np.inf
        oldest_time[slot] = oldest_seq[slot] = LATEST
        first = beginning(0, rows.shape[0], rows, times, seqs, horizon_time[slot], horizon_seq[slot])
        first = beginning(first, rows.shape[0], rows, times, seqs, floor_time[slot], floor_seq[slot])
        low = lower[slot]
        count = beyond(low, first, rows, values[i], near, found)
        if count < k and low > -np.inf:
            low = -np.inf
            count = beyond(low, first, rows, values[i], near, found)
        progress[0] = 0
        take_likely(
            slot, k, 0, 0, count, near, found, times, seqs, good, time, seq, start, size, threshold, k + cap[slot],
            oldest_time, oldest_seq, counts, base, waiting, waiting_values, picks, picked, progress,
        )  # fmt: skip
        if size[slot] < k + cap[slot]:
            threshold[slot] = low  # every row that is as good is in it
        need[slot] = wanted(slot, k, PROBABLE, good, start, size, threshold)
        bar[slot] = worth(slot, k, good, start, size)


@inlined
def beyond(low: float, first: int, rows: Ints, values: Floats, near: Ints, found: Floats) -> int:
    """Write the rows from the first on that are at least so good, and their scores; return how many."""
    count = 0
    for base in range(first, rows.shape[0], BLOCK):
        stop = min(base + BLOCK, rows.shape[0])
        hit = False
        for at in range(base, stop):
            hit |= values[U(at)] >= low
        if hit:
            for at in range(base, stop):
                near[U(count)] = rows[U(at)]
                found[U(count)] = values[U(at)]
                count += values[U(at)] >= low
    return count


@inlined
def wanted(slot: int, k: int, kind: int, good: Floats, start: Ints, size: Ints, threshold: Floats) -> float:
    """Return the score that a row must reach to matter to the filter, or to the query when it leaves the buffer."""
    if size[slot] < k:
        return -np.inf
    if kind == PROBABLE:
        return float(threshold[slot])
    return float(good[start[slot] + size[slot] - k])


@inlined
def worth(slot: int, k: int, good: Floats, start: Ints, size: Ints) -> float:
    """Return the score that a row which leaves the buffer must exceed to be in an answer."""
    return float(good[start[slot] + size[slot] - k]) if size[slot] >= k else -np.inf


@kernel
def regions(
    ks: Ints, kind: int, need: Floats, bar: Floats, entered: Floats, wider: float, loose: float,
    good: Floats, start: Ints, size: Ints, come: Floats, go: Floats, slots: Ints, bars: Floats,
) -> tuple[int, int, int]:  # fmt: skip
    """Write the bars of rows that arrive and of rows that leave, slot by slot, before they are looked up in an index.

    NaN: the filter is *open*, it has fewer than k rows and is offered every row. Returns how many are open, how many
    regions must be entered again (`slots` and `bars` name them, and their widths), and how many of these are not
    entered.

    A region that has grown beyond what was entered must be entered again, one that has shrunk only when it has shrunk
    much. The measure is the distance between the scores of a filter's better rows.
    """
    open_, moved, unknown = 0, 0, 0
    for slot in range(ks.shape[0]):
        come[slot] = go[slot] = np.nan
        k, least = ks[slot], need[slot]
        if k == 0:
            continue
        if least == -np.inf:
            open_ += 1
            continue
        # the paper's strict and relaxed filters are filled with the rows of their cells
        come[slot] = least if kind == PROBABLE else -np.inf
        go[slot] = bar[slot]  # or more, when new rows have arrived
        end = start[slot] + size[slot]
        worst = min(good[end - min(size[slot], 2 * k + 8)], least)
        spread = good[end - 1] - worst
        if least < entered[slot] or entered[slot] < least - loose * spread:
            wide = least - wider * spread
            slots[moved] = slot
            bars[moved] = wide if wide == wide else -np.inf
            moved += 1
            unknown += entered[slot] == np.inf
    return open_, moved, unknown


@inlined
def precedes(row: int, times: Ints, seqs: Ints, time: int, seq: int) -> bool:
    """Whether a row is older than this recency."""
    return bool(times[row] < time or (times[row] == time and seqs[row] < seq))


@inlined
def beginning(first: int, end: int, rows: Ints, times: Ints, seqs: Ints, time: int, seq: int) -> int:
    """Return the first of some rows, oldest first, that isn't older than this recency."""
    while first < end and precedes(rows[first], times, seqs, time, seq):
        first += 1
    return first


@inlined
def take_strictly(
    slot: int, k: int, first: int, floor: int, end: int, rows: Ints, values: Floats, times: Ints, seqs: Ints,
    good: Floats, time: Ints, seq: Ints, count: Ints, start: Ints, size: Ints, room: Ints,
    oldest_time: Ints, oldest_seq: Ints, counts: Ints, base: int, picks: Ints, picked: Floats, progress: Ints,
) -> int:  # fmt: skip
    """Offer a strict filter the rows first, first + 1 … of a range, oldest first; write those among its k best to
    `picks`.

    Rows before the floor don't enter. Returns `end`, or the first row for which the filter has no room; progress[0]
    counts the picks.
    """
    at = first
    while at < end and size[slot] < room[slot]:
        value, row = values[at], rows[at]
        if value == value:
            when, number = times[row], seqs[row]
            meet(
                slot, k, value, row, when, number, good, time, seq, start, size, counts, base, picks, picked, progress
            )  # fmt: skip
            if at >= floor:
                come_strictly(
                    slot, k, value, when, number, good, time, seq, count, start, size, oldest_time, oldest_seq,
                    counts, base,
                )  # fmt: skip
        at += 1
    return at


@inlined
def take_freely(
    slot: int, k: int, first: int, floor: int, end: int, rows: Ints, values: Floats, times: Ints, seqs: Ints,
    good: Floats, time: Ints, seq: Ints, start: Ints, size: Ints, room: Ints, limit: Ints, gamma: float,
    oldest_time: Ints, oldest_seq: Ints, counts: Ints, base: int, newest_time: Ints, newest_seq: Ints,
    picks: Ints, picked: Floats, progress: Ints,
) -> int:  # fmt: skip
    """As `take_strictly`, for a relaxed filter."""
    at = first
    while at < end and size[slot] < room[slot]:
        value, row = values[at], rows[at]
        if value == value:
            when, number = times[row], seqs[row]
            meet(
                slot, k, value, row, when, number, good, time, seq, start, size, counts, base, picks, picked, progress
            )  # fmt: skip
            if at >= floor:
                come_freely(
                    slot, k, value, when, number, good, time, seq, start, size, limit, gamma, oldest_time, oldest_seq,
                    counts, base, newest_time, newest_seq,
                )  # fmt: skip
        at += 1
    return at


@inlined
def meet(
    slot: int, k: int, value: float, row: int, when: int, number: int, good: Floats, time: Ints, seq: Ints,
    start: Ints, size: Ints, counts: Ints, base: int, picks: Ints, picked: Floats, progress: Ints,
) -> None:  # fmt: skip
    """Pick a row if it is among the k best."""
    counts[slot, base + MET] += 1
    n = size[slot]
    kth = start[slot] + n - k
    if n < k or before(value, when, number, good[kth], time[kth], seq[kth]):
        picks[progress[0]] = row
        picked[progress[0]] = value
        progress[0] += 1


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
    """Insert a row into a strict filter, which has room; count it for each row that it dominates, and remove at k."""
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
    newest_time: Ints, newest_seq: Ints,
) -> None:  # fmt: skip
    """Insert a row into a relaxed filter, which has room; sweep if it has reached its limit."""
    begin = start[slot]
    enlist(value, when, number, begin, size[slot], good, time, seq)
    size[slot] += 1
    note_oldest(slot, when, number, oldest_time, oldest_seq)
    counts[slot, base + FILTERED] += 1
    n = size[slot]
    if n - k < limit[slot]:
        return
    # from the best down: remove rows older than k better ones (packed against the end, then moved down)
    # newest_time, newest_seq: of the rows passed, the k newest, the oldest of them first
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
