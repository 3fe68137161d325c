"""Collects a step's rows for ranked lists without a limit, and merges them at the end of the step.

A threshold query's list holds every row beyond its bound, perhaps a large part of the window. Inserting rows one by
one would move half of it each time; collected, sorted and merged from the back they move it once a step.
"""

from __future__ import annotations

import numpy as np

from skyband.algorithms.kernels.ranked_lists import Ranked
from skyband.compiling.jit import kernel
from skyband.core.types import Floats, Ints


class Gathered:
    """Collected rows for lists: slot, good, time, seq."""

    def __init__(self) -> None:
        self.slot = np.empty(1024, dtype=np.int64)
        self.good = np.empty(1024, dtype=np.float64)
        self.time = np.empty(1024, dtype=np.int64)
        self.seq = np.empty(1024, dtype=np.int64)
        self.count = np.zeros(1, dtype=np.int64)

    def state(self) -> tuple[Ints, Floats, Ints, Ints, Ints]:
        return self.slot, self.good, self.time, self.seq, self.count

    def grow(self) -> None:
        for name in ("slot", "good", "time", "seq"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.empty_like(old)]))

    def pour(self, ranked: Ranked) -> tuple[Ints, Ints]:
        """Merge all rows into the lists; return the slots that got some, and how many each."""
        count = int(self.count[0])
        self.count[0] = 0
        slot, good, time, seq = self.slot[:count], self.good[:count], self.time[:count], self.seq[:count]
        order = np.lexsort((seq, time, good, slot))
        slots, begins, counts = np.unique(slot[order], return_index=True, return_counts=True)
        for target, more in zip(slots.tolist(), counts.tolist(), strict=True):
            ranked.grow(target, int(ranked.size[target]) + more)
        pour(
            slots, begins, counts, good[order], time[order], seq[order],
            ranked.good, ranked.time, ranked.seq, ranked.start, ranked.size,
        )  # fmt: skip
        return slots, counts


@kernel
def gather(
    slot: int, value: float, when: int, number: int, slots: Ints, good: Floats, time: Ints, seq: Ints, count: Ints
) -> int:  # fmt: skip
    """Collect a row (the `arrive` of threshold families); return 1 if there is no room."""
    at = count[0]
    if at == slots.shape[0]:
        return 1
    slots[at] = slot
    good[at] = value
    time[at] = when
    seq[at] = number
    count[0] = at + 1
    return 0


@kernel
def pour(
    slots: Ints, begins: Ints, counts: Ints, new_good: Floats, new_time: Ints, new_seq: Ints,
    good: Floats, time: Ints, seq: Ints, start: Ints, size: Ints,
) -> None:  # fmt: skip
    """Merge sorted runs into sorted lists that have room for them, from the best end."""
    for i in range(slots.shape[0]):
        slot = slots[i]
        floor = start[slot]
        left = floor + size[slot] - 1
        write = left + counts[i]
        for row in range(begins[i] + counts[i] - 1, begins[i] - 1, -1):
            while left >= floor and (
                good[left] > new_good[row]
                or (
                    good[left] == new_good[row]
                    and (
                        time[left] > new_time[row]
                        or (time[left] == new_time[row] and seq[left] > new_seq[row])
                    )
                )
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
