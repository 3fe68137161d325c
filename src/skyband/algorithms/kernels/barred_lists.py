"""Ranked lists that hold what is before a bar: shared by the algorithms that keep the window's rows behind an index.

Each slot has a bar, the score below which a row can't matter to it, and a ranked list (ranked_lists.py) of rows at or
before the bar. Rows are offered one by one (`arrive` of each algorithm); rows that leave the window leave the lists
(`expire`); a list that has become too short is `lost`, and its slot needs a search.

Here is also the list that `sma` and `snn` keep: the k-skyband of the rows before the bar, each with the number of its
dominators (`arrive`, `settle`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.algorithms.kernels.ranked_lists import Ranked, insert, insert_counted, replace_worst
from skyband.compiling.jit import inlined, kernel
from skyband.compiling.state import State, field
from skyband.core.order import before
from skyband.core.types import MINIMUM, Floats, Ints

ADMITTED, EVICTED = 3, 4  # columns of the counters
LATEST = 2**63 - 1
IN, FULL, OUT = range(3)
Bytes = npt.NDArray[np.uint8]


class Bars(State):
    """By slot: what bounds its list."""

    bar: Floats = field("f8[slot]")  # -inf: every row matters
    bar_time: Ints = field(
        "i8[slot]"
    )  # the recency of the row that set it: older rows of that score are outside
    bar_seq: Ints = field("i8[slot]")
    complete: Bytes = field("u1[slot]")  # 1: the list holds every row of its window
    lost: Bytes = field("u1[slot]")  # 1: the list ran short, a search is due
    oldest_time: Ints = field("i8[slot]")  # a recency not after that of any row listed
    oldest_seq: Ints = field("i8[slot]")
    # the algorithm's own, which `lent` brings up to date
    ks: Ints = field("i8[used]", scratch=True)
    horizon_time: Ints = field("i8[used]", scratch=True)
    horizon_seq: Ints = field("i8[used]", scratch=True)
    touched: Bytes = field("u1[used]", scratch=True)
    counts: Ints = field("i8[used, counter]", scratch=True)
    constants: Floats = field("f8[used, constant]", scratch=True)
    low: Floats = field("f8[used, limit]", scratch=True)
    high: Floats = field("f8[used, limit]", scratch=True)

    def lent(self, algorithm: Any) -> Bars:
        """Return it with the present arrays of an algorithm's slots."""
        self.lend(
            ks=algorithm.ks, horizon_time=algorithm.horizon_time, horizon_seq=algorithm.horizon_seq,
            touched=algorithm.touched, counts=algorithm.counts, constants=algorithm.constants,
            low=algorithm.low, high=algorithm.high,
        )  # fmt: skip
        return self

    def note_oldest(self, slot: int, ranked: Ranked) -> None:
        """Find the oldest row of a list."""
        span = ranked.span(slot)
        listed = zip(ranked.time[span].tolist(), ranked.seq[span].tolist(), strict=True)
        self.oldest_time[slot], self.oldest_seq[slot] = min(listed, default=(LATEST, LATEST))


@inlined
def note_listed(bars: Bars, slot: int, when: int, number: int) -> None:
    """Note that a list has a row of this recency."""
    if when < bars.oldest_time[slot] or (when == bars.oldest_time[slot] and number < bars.oldest_seq[slot]):
        bars.oldest_time[slot], bars.oldest_seq[slot] = when, number


@inlined
def admit(slot: int, value: float, when: int, number: int, bars: Bars, ranked: Ranked) -> int:
    """Insert a row into the slot's top k if it belongs there; return `IN`, `OUT`, or `FULL` if the list has no room."""
    worst, n = ranked.start[slot], ranked.size[slot]
    if n < bars.ks[slot]:
        if n == ranked.room[slot]:
            return FULL
        insert(ranked, slot, value, when, number)
    else:
        bars.complete[slot] = 0  # one of the two rows is outside the list from now on
        if not before(value, when, number, ranked.good[worst], ranked.time[worst], ranked.seq[worst]):
            return OUT
        replace_worst(ranked, slot, value, when, number)
    note_listed(bars, slot, when, number)
    bars.touched[slot] = 1
    bars.counts[slot, ADMITTED] += 1
    return IN


@kernel
def arrive(slot: int, value: float, when: int, number: int, bars: Bars, ranked: Ranked) -> int:
    """Insert a row into the slot's skyband and remove the rows that it dominates as the k-th; 1 if there is no room."""
    since, first = bars.bar_time[slot], bars.bar_seq[slot]
    result = 0
    if value == bars.bar[slot] and (when < since or (when == since and number < first)):
        pass  # a late row behind the bar
    elif ranked.size[slot] == ranked.room[slot]:
        result = 1
    else:
        gone, better = insert_counted(ranked, slot, bars.ks[slot], value, when, number)
        if gone >= 0:
            note_listed(bars, slot, when, number)
            if better < bars.ks[slot]:
                bars.touched[slot] = 1
            bars.counts[slot, ADMITTED] += 1
            bars.counts[slot, EVICTED] += gone
    return result


@kernel
def expire(bars: Bars, ranked: Ranked) -> None:
    """Remove the rows before its horizon from each list; mark a list with fewer than k rows as lost, unless
    complete."""
    good, time, seq, count = ranked.good, ranked.time, ranked.seq, ranked.count
    for slot in range(bars.ks.shape[0]):
        since, first = bars.horizon_time[slot], bars.horizon_seq[slot]
        oldest, number = bars.oldest_time[slot], bars.oldest_seq[slot]
        if bars.ks[slot] == 0 or oldest > since or (oldest == since and number >= first):
            continue
        begin, end = ranked.start[slot], ranked.start[slot] + ranked.size[slot]
        oldest, number = LATEST, LATEST
        write = begin
        for i in range(begin, end):
            if time[i] < since or (time[i] == since and seq[i] < first):
                continue
            if time[i] < oldest or (time[i] == oldest and seq[i] < number):
                oldest, number = time[i], seq[i]
            if write != i:
                good[write], time[write], seq[write] = good[i], time[i], seq[i]
                if count.shape[0] > 0:
                    count[write] = count[i]
            write += 1
        bars.oldest_time[slot], bars.oldest_seq[slot] = oldest, number
        if write < end:
            ranked.size[slot] = write - begin
            bars.touched[slot] = 1
            if ranked.size[slot] < bars.ks[slot] and bars.complete[slot] == 0:
                bars.lost[slot] = 1


@kernel
def settle(slots: Ints, bars: Bars, ranked: Ranked, met_time: Ints, met_seq: Ints) -> None:
    """Of lists just found: set the bar, count the dominators from the best row down, and remove rows that have k.

    The recencies of the rows passed are kept sorted (the paper's balanced tree), so that a binary search counts how
    many of them are newer. A row that was removed need not be among them: its dominators are.
    """
    good, time, seq, count = ranked.good, ranked.time, ranked.seq, ranked.count
    for slot in slots:
        begin, n, k = ranked.start[slot], ranked.size[slot], bars.ks[slot]
        if bars.complete[slot]:
            bars.bar_time[slot] = bars.bar_seq[slot] = MINIMUM
        else:
            bars.bar_time[slot], bars.bar_seq[slot] = time[begin], seq[begin]
        met = 0
        write = begin + n - 1
        for i in range(begin + n - 1, begin - 1, -1):
            when, number = time[i], seq[i]
            low, high = 0, met
            while low < high:
                middle = (low + high) // 2
                if met_time[middle] < when or (met_time[middle] == when and met_seq[middle] < number):
                    low = middle + 1
                else:
                    high = middle
            if met - low >= k:
                bars.counts[slot, EVICTED] += 1
                continue
            for j in range(met, low, -1):
                met_time[j] = met_time[j - 1]
                met_seq[j] = met_seq[j - 1]
            met_time[low] = when
            met_seq[low] = number
            good[write], time[write], seq[write], count[write] = good[i], when, number, met - low
            met += 1
            write -= 1
        if met < n:
            for i in range(begin, begin + met):
                read = i + n - met
                good[i], time[i], seq[i], count[i] = good[read], time[read], seq[read], count[read]
            ranked.size[slot] = met


def settle_all(slots: Ints, bars: Bars, ranked: Ranked) -> None:
    """`settle` for lists that a search has filled."""
    most = int(ranked.size[slots].max(initial=0)) + 1
    settle(slots, bars, ranked, np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64))


@kernel
def horizon_of(ks: Ints, time: Ints, seq: Ints) -> tuple[int, int, bool]:
    """Return the oldest horizon of the slots in use, and whether all slots have it; a recency after every row, if no
    slot is in use."""
    first, number = LATEST, LATEST
    same = True
    for slot in range(ks.shape[0]):
        if ks[slot] > 0:
            same &= first == LATEST or (time[slot] == first and seq[slot] == number)
            if time[slot] < first or (time[slot] == first and seq[slot] < number):
                first, number = time[slot], seq[slot]
    return first, number, same
