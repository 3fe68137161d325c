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

Filters lie in a pool of lists, best last (ranked_lists.py). In a step `shed` removes the rows that left
the buffer, `take_…` offers new rows, and `worth` returns the score that a row must exceed to be handed on when it
leaves the buffer.
"""

from __future__ import annotations

import numpy as np

from skyband.algorithms.arrivals import Step
from skyband.algorithms.buffered.probabilistic_filter import BLOCK, Filters, note_oldest, take_likely
from skyband.algorithms.kernels.batch_skyband import Picks
from skyband.algorithms.kernels.candidate_lists import Lists
from skyband.algorithms.kernels.ranked_lists import insert, insert_counted
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
def shed(kind: int, edge_time: int, edge_seq: int, filters: Filters, lists: Lists, short: Ints) -> int:
    """Remove the rows older than the edge from every filter.

    `need` and `worth` are computed again. Returns the number of open filters, for which every row matters; `short`
    names them.
    """
    good, time, seq, count, start, size = (
        filters.good, filters.time, filters.seq, filters.count, filters.start, filters.size
    )  # fmt: skip
    threshold, lower, oldest_time, oldest_seq = (
        filters.threshold, filters.lower, filters.oldest_time, filters.oldest_seq
    )  # fmt: skip
    ks = lists.ks
    open_ = 0
    for slot in range(ks.shape[0]):
        k = ks[slot]
        if k == 0:
            filters.need[slot] = filters.worth[slot] = np.inf
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
                lists.counts[slot, filters.base + DROPPED] += 1
        filters.need[slot] = wanted(slot, k, kind, filters)
        filters.worth[slot] = worth(slot, k, filters)
        if filters.need[slot] == -np.inf:
            short[open_] = slot
            open_ += 1
    return open_


@kernel
def refill(
    slots: Ints, rows: Ints, values: Floats, step: Step, filters: Filters, lists: Lists, near: Picks, picked: Picks,
    waiting: Picks,
) -> None:  # fmt: skip
    """Fill probable filters with the best of these rows of the buffer, oldest first; there is a line of scores for
    each.

    Any part of the buffer is a valid filter. An open filter must be offered every row that arrives, and a pass over
    the rows that are in the buffer costs about as much, but closes it at once. First only the rows are considered that
    reach the threshold that there would be; they are nearly always enough.
    """
    times, seqs = step.time, step.seq
    for i in range(slots.shape[0]):
        slot = slots[i]
        k = lists.ks[slot]
        filters.size[slot] = 0
        filters.threshold[slot] = -np.inf
        filters.oldest_time[slot] = filters.oldest_seq[slot] = LATEST
        first = beginning(
            0, rows.shape[0], rows, times, seqs, lists.horizon_time[slot], lists.horizon_seq[slot]
        )
        first = beginning(
            first, rows.shape[0], rows, times, seqs, filters.floor_time[slot], filters.floor_seq[slot]
        )
        low = filters.lower[slot]
        count = beyond(low, first, rows, values[i], near)
        if count < k and low > -np.inf:
            low = -np.inf
            count = beyond(low, first, rows, values[i], near)
        filters.found = 0
        take_likely(slot, 0, 0, count, near.row, near.good, step, filters, lists, picked, waiting)
        if filters.size[slot] < k + filters.cap[slot]:
            filters.threshold[slot] = low  # every row that is as good is in it
        filters.need[slot] = wanted(slot, k, PROBABLE, filters)
        filters.worth[slot] = worth(slot, k, filters)


@inlined
def beyond(low: float, first: int, rows: Ints, values: Floats, near: Picks) -> int:
    """Write the rows from the first on that are at least so good, and their scores; return how many."""
    count = 0
    for base in range(first, rows.shape[0], BLOCK):
        stop = min(base + BLOCK, rows.shape[0])
        hit = False
        for at in range(base, stop):
            hit |= values[U(at)] >= low
        if hit:
            for at in range(base, stop):
                near.row[U(count)] = rows[U(at)]
                near.good[U(count)] = values[U(at)]
                count += values[U(at)] >= low
    return count


@inlined
def wanted(slot: int, k: int, kind: int, filters: Filters) -> float:
    """Return the score that a row must reach to matter to the filter, or to the query when it leaves the buffer."""
    if filters.size[slot] < k:
        return -np.inf
    if kind == PROBABLE:
        return float(filters.threshold[slot])
    return float(filters.good[filters.start[slot] + filters.size[slot] - k])


@inlined
def worth(slot: int, k: int, filters: Filters) -> float:
    """Return the score that a row which leaves the buffer must exceed to be in an answer."""
    if filters.size[slot] < k:
        return -np.inf
    return float(filters.good[filters.start[slot] + filters.size[slot] - k])


@kernel
def regions(
    ks: Ints, kind: int, filters: Filters, entered: Floats, wider: float, loose: float, come: Floats, go: Floats,
    slots: Ints, bars: Floats,
) -> tuple[int, int, int]:  # fmt: skip
    """Write the bars of rows that arrive and of rows that leave, slot by slot, before they are looked up in an index.

    NaN: the filter is *open*, it has fewer than k rows and is offered every row. Returns how many are open, how many
    regions must be entered again (`slots` and `bars` name them, and their widths), and how many of these are not
    entered.

    A region that has grown beyond what was entered must be entered again, one that has shrunk only when it has shrunk
    much. The measure is the distance between the scores of a filter's better rows.
    """
    good, start, size = filters.good, filters.start, filters.size
    open_, moved, unknown = 0, 0, 0
    for slot in range(ks.shape[0]):
        come[slot] = go[slot] = np.nan
        k, least = ks[slot], filters.need[slot]
        if k == 0:
            continue
        if least == -np.inf:
            open_ += 1
            continue
        # the paper's strict and relaxed filters are filled with the rows of their cells
        come[slot] = least if kind == PROBABLE else -np.inf
        go[slot] = filters.worth[slot]  # or more, when new rows have arrived
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
    slot: int, first: int, floor: int, end: int, rows: Ints, values: Floats, step: Step, filters: Filters, lists: Lists,
    picked: Picks,
) -> int:  # fmt: skip
    """Offer a strict filter the rows first, first + 1 … of a range, oldest first; write those among its k best to
    `picked`.

    Rows before the floor don't enter. Returns `end`, or the first row for which the filter has no room; `filters.found`
    counts the picks.
    """
    k, at = lists.ks[slot], first
    while at < end and filters.size[slot] < filters.room[slot]:
        value, row = values[at], rows[at]
        if value == value:
            meet(slot, k, value, row, step, filters, lists, picked)
            if at >= floor:
                when, number = step.time[row], step.seq[row]
                gone, _ = insert_counted(filters, slot, k, value, when, number)
                if gone >= 0:
                    note_oldest(filters, slot, when, number)
                    lists.counts[slot, filters.base + FILTERED] += 1
                    lists.counts[slot, filters.base + DROPPED] += gone
        at += 1
    return at


@inlined
def take_freely(
    slot: int, first: int, floor: int, end: int, rows: Ints, values: Floats, step: Step, filters: Filters, lists: Lists,
    picked: Picks,
) -> int:  # fmt: skip
    """As `take_strictly`, for a relaxed filter."""
    k, at = lists.ks[slot], first
    while at < end and filters.size[slot] < filters.room[slot]:
        value, row = values[at], rows[at]
        if value == value:
            meet(slot, k, value, row, step, filters, lists, picked)
            if at >= floor:
                come_freely(slot, k, value, step.time[row], step.seq[row], filters, lists)
        at += 1
    return at


@inlined
def meet(
    slot: int, k: int, value: float, row: int, step: Step, filters: Filters, lists: Lists, picked: Picks
) -> None:
    """Pick a row if it is among the k best."""
    lists.counts[slot, filters.base + MET] += 1
    n = filters.size[slot]
    kth = filters.start[slot] + n - k
    if n < k or before(
        value, step.time[row], step.seq[row], filters.good[kth], filters.time[kth], filters.seq[kth]
    ):
        picked.row[filters.found], picked.good[filters.found] = row, value
        filters.found += 1


@kernel
def come_freely(
    slot: int, k: int, value: float, when: int, number: int, filters: Filters, lists: Lists
) -> None:
    """Insert a row into a relaxed filter, which has room; sweep if it has reached its limit."""
    insert(filters, slot, value, when, number)
    note_oldest(filters, slot, when, number)
    lists.counts[slot, filters.base + FILTERED] += 1
    begin, n = filters.start[slot], filters.size[slot]
    if n - k < filters.limit[slot]:
        return
    good, time, seq = filters.good, filters.time, filters.seq
    newest_time, newest_seq = filters.newest_time, filters.newest_seq
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
    filters.size[slot] = kept
    left = max(kept - k, 0)
    filters.limit[slot] = max(int(np.ceil((1.0 + filters.gamma) * left)), left + 1)
    lists.counts[slot, filters.base + DROPPED] += 1
