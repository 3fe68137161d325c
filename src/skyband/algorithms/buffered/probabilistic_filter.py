"""How rows enter a probable filter (filters.py): several at once.

A filter is short and sorted, and a batch has some rows for it. Inserting them one by one moves half of the filter each
time. So rows that reach the threshold are collected, sorted, until there are enough of them or no more arrive; then
they are merged into the filter, which moves each of its rows once, and never writes rows beyond its room. Whether a row
is among the k best is decided on arrival, from the filter and the collected rows: the result is the same as if
each row were inserted at once. The threshold rises when they are merged.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.algorithms.arrivals import Step
from skyband.algorithms.kernels.batch_skyband import Picks
from skyband.algorithms.kernels.candidate_lists import Lists
from skyband.algorithms.kernels.ranked_lists import Ranked
from skyband.compiling.jit import inlined
from skyband.compiling.state import field, scalar
from skyband.core.order import before
from skyband.core.types import Floats, Ints

BLOCK = 64
WAIT = 16  # rows that are merged together
MET, FILTERED = range(2)  # counters, from column `base` on
U = np.uint64


class Filters(Ranked):
    """The filters of all slots, and what belongs to them."""

    cap: Ints = field("i8[slot]")  # rows of a probable filter beyond the first k
    threshold: Floats = field("f8[slot]")  # that a row must reach to enter a probable filter
    limit: Ints = field("i8[slot]")  # rows beyond the first k at which a relaxed filter is swept
    oldest_time: Ints = field("i8[slot]")  # of the rows in the filter
    oldest_seq: Ints = field("i8[slot]")
    floor_time: Ints = field("i8[slot]")  # rows from before don't enter
    floor_seq: Ints = field("i8[slot]")
    need: Floats = field("f8[slot]")  # the score that a new row must reach to matter
    worth: Floats = field("f8[slot]")  # and that a row which leaves the buffer must exceed
    lower: Floats = field("f8[slot]", scratch=True)  # the threshold that it would have with more rows
    newest_time: Ints = field("i8[rank]", scratch=True)  # of a sweep
    newest_seq: Ints = field("i8[rank]", scratch=True)
    base: int = scalar("i8")  # the first of a filter's counters
    gamma: float = scalar("f8")
    found: int = scalar("i8")  # rows picked so far


@inlined
def take_likely(
    slot: int, first: int, floor: int, end: int, rows: Ints, values: Floats, step: Step, filters: Filters, lists: Lists,
    picked: Picks, waiting: Picks,
) -> int:  # fmt: skip
    """Offer rows to a probable filter, as `take_strictly`: rows at or beyond the threshold enter, and replace the
    worst if it is full.

    The filter must have room for k + cap rows, `waiting` for WAIT.
    """
    good, time, seq, threshold = filters.good, filters.time, filters.seq, filters.threshold
    times, seqs, near, near_values = step.time, step.seq, waiting.row, waiting.good
    k = lists.ks[slot]
    most = k + filters.cap[slot]
    begin, n = U(filters.start[slot]), filters.size[slot]
    low = threshold[slot] if n >= k else -np.inf
    found, met, taken, held = filters.found, 0, 0, 0
    at = first
    while at < end:
        if low > -np.inf and end - at >= BLOCK:
            hit = False
            for j in range(BLOCK):
                hit |= values[U(at + j)] >= low
            if not hit:
                at += BLOCK
        stop = min(end, at + BLOCK)
        while at < stop and held < WAIT:
            value = values[U(at)]
            row = rows[U(at)]
            at += 1
            if not value >= low:
                continue
            met += 1
            to = held if at > floor else 0  # those before the floor come first, and don't enter
            while to > 0 and near_values[U(to - 1)] > value:
                near_values[U(to)] = near_values[U(to - 1)]
                near[U(to)] = near[U(to - 1)]
                to -= 1
            # so many rows of the filter may be better if it is among the k best
            others = k - (held - to)
            kth = begin + U(max(n - max(others, 1), 0))
            among = (value > good[kth]) | (n < others)
            if value == good[kth]:
                among |= before(value, times[U(row)], seqs[U(row)], good[kth], time[kth], seq[kth])
            picked.row[U(found)] = row  # written always and kept if picked, so that there is no branch
            picked.good[U(found)] = value
            found += among & (others > 0)
            if at > floor:
                near_values[U(to)] = value
                near[U(to)] = row
                held += 1
        if held == WAIT or at == end:
            came = come_in(slot, begin, n, most, held, step, filters, waiting)
            n = min(n + held, most)
            taken += came
            held = 0
            if n == most:
                threshold[slot] = good[begin]
            low = threshold[slot] if n >= k else -np.inf
    filters.size[slot] = n
    filters.found = found
    lists.counts[slot, filters.base + MET] += met
    lists.counts[slot, filters.base + FILTERED] += taken
    return end


@inlined
def come_in(
    slot: int, begin: Any, n: int, most: int, held: int, step: Step, filters: Filters, waiting: Picks
) -> int:
    """Merge collected rows, best last, into a filter, which then has at most so many; return how many entered."""
    good, time, seq = filters.good, filters.time, filters.seq
    times, seqs, near, near_values = step.time, step.seq, waiting.row, waiting.good
    out, lost = 0, 0  # of the filter, and of the collected rows: the worst of both leave
    for _ in range(n + held - most):
        row, worst = U(near[U(lost)]), begin + U(out)
        if out < n and before(
            near_values[U(lost)], times[row], seqs[row], good[worst], time[worst], seq[worst]
        ):
            out += 1
        else:
            lost += 1
    if out > 0:
        for i in range(n - out):
            to = begin + U(i)
            good[to] = good[to + U(out)]
            time[to] = time[to + U(out)]
            seq[to] = seq[to + U(out)]
    left = begin + U(n - out)  # behind the next row of the filter
    write = left + U(held - lost)
    for i in range(held - 1, lost - 1, -1):
        value, row = near_values[U(i)], U(near[U(i)])
        when, number = times[row], seqs[row]
        while left > begin and before(
            good[left - U(1)], time[left - U(1)], seq[left - U(1)], value, when, number
        ):
            left -= U(1)
            write -= U(1)
            good[write] = good[left]
            time[write] = time[left]
            seq[write] = seq[left]
        write -= U(1)
        good[write] = value
        time[write] = when
        seq[write] = number
        note_oldest(filters, slot, when, number)
    return held - lost


@inlined
def note_oldest(filters: Filters, slot: int, when: int, number: int) -> None:
    """Note that a filter has a row of this recency."""
    if when < filters.oldest_time[slot] or (
        when == filters.oldest_time[slot] and number < filters.oldest_seq[slot]
    ):
        filters.oldest_time[slot], filters.oldest_seq[slot] = when, number
