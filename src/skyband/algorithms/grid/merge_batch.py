"""Collects a step's rows for ranked lists without a limit, and merges them at the end of the step.

A threshold query's list holds every row beyond its bound, perhaps a large part of the window. Inserting rows one by
one would move half of it each time; collected, sorted and merged from the back they move it once a step.
"""

from __future__ import annotations

import numpy as np

from skyband.algorithms.kernels.barred_lists import Bars
from skyband.algorithms.kernels.ranked_lists import Ranked
from skyband.compiling.jit import kernel
from skyband.compiling.state import State, field, scalar
from skyband.core.order import before
from skyband.core.types import Floats, Ints


class Gathered(State):
    """Collected rows for lists."""

    slot: Ints = field("i8[row]")
    good: Floats = field("f8[row]")
    time: Ints = field("i8[row]")
    seq: Ints = field("i8[row]")
    count: int = scalar("i8")

    def pour(self, ranked: Ranked) -> tuple[Ints, Ints]:
        """Merge all rows into the lists; return the slots that got some, and how many each."""
        count, self.count = self.count, 0
        slot, good, time, seq = self.slot[:count], self.good[:count], self.time[:count], self.seq[:count]
        order = np.lexsort((seq, time, good, slot))
        slots, begins, counts = np.unique(slot[order], return_index=True, return_counts=True)
        for target, more in zip(slots.tolist(), counts.tolist(), strict=True):
            ranked.reserve(target, int(ranked.size[target]) + more)
        pour(slots, begins, counts, good[order], time[order], seq[order], ranked)
        return slots, counts


@kernel
def gather(slot: int, value: float, when: int, number: int, bars: Bars, gathered: Gathered) -> int:
    """Collect a row (the `arrive` of threshold families); return 1 if there is no room."""
    at = gathered.count
    if at == gathered.slot.shape[0]:
        return 1
    gathered.slot[at], gathered.good[at], gathered.time[at], gathered.seq[at] = slot, value, when, number
    gathered.count = at + 1
    return 0


@kernel
def pour(
    slots: Ints, begins: Ints, counts: Ints, new_good: Floats, new_time: Ints, new_seq: Ints, ranked: Ranked
) -> None:
    """Merge sorted runs into sorted lists that have room for them, from the best end."""
    good, time, seq, start, size = ranked.good, ranked.time, ranked.seq, ranked.start, ranked.size
    for i in range(slots.shape[0]):
        slot = slots[i]
        floor = start[slot]
        left = floor + size[slot] - 1
        write = left + counts[i]
        for row in range(begins[i] + counts[i] - 1, begins[i] - 1, -1):
            while left >= floor and before(
                good[left], time[left], seq[left], new_good[row], new_time[row], new_seq[row]
            ):
                good[write] = good[left]
                time[write] = time[left]
                seq[write] = seq[left]
                left -= 1
                write -= 1
            good[write] = new_good[row]
            time[write] = new_time[row]
            seq[write] = new_seq[row]
            write -= 1
        size[slot] += counts[i]
