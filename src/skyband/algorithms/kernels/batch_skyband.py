"""The k-skyband of a batch: one pass from the newest row back.

Walking back in time, a min-heap holds the k best scores met so far. Its root is the k-th best of all newer
rows, so the next (older) row has k dominators exactly if the root is at least as good as it. That is all:
no counters, no pairwise comparison, O(n + s log k) for s rows kept.

Most rows of a large batch fall below the root. They are tested in blocks of 64 by an OR over comparisons,
a loop that compiles to vector instructions; only a block with a hit is looked at row by row.
"""

import numpy as np

from skyband.compiling.jit import inlined, kernel
from skyband.compiling.state import State, field
from skyband.core.types import Floats, Ints

BLOCK = 64


class Picks(State):
    """Scratch memory: the rows that a list takes next, newest first, and a min-heap of the k best scores of them."""

    row: Ints = field("i8[row]")  # the position of each among the step's rows
    good: Floats = field("f8[row]")
    heap: Floats = field("f8[rank]")

    def select(self, good: Floats, inside: int, k: int) -> int:
        """Pick the rows among the first `inside` of `good` (newest first) that have fewer than k dominators.

        Returns how many were picked. A NaN is never picked.
        """
        return int(select(good, inside, k, self.heap, self.row, self.good))


@inlined
def replace_root(heap: Floats, size: int, value: float) -> None:
    """Put `value` in place of the least of a min-heap."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = value


@inlined
def push_heap(heap: Floats, size: int, value: float) -> None:
    """Add `value` to a min-heap of `size` elements."""
    place = size
    while place > 0:
        parent = (place - 1) >> 1
        if heap[parent] <= value:
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = value


@kernel
def select(good: Floats, inside: int, k: int, heap: Floats, row: Ints, values: Floats) -> int:
    """`Picks.select`, with the arrays of the picks."""
    size = 0  # of the heap: below k, every row is picked
    count = 0
    root = -np.inf
    for block in range((inside + BLOCK - 1) // BLOCK):
        base = block * BLOCK
        stop = min(inside - base, BLOCK)
        hit = size < k
        if stop == BLOCK:
            for j in range(BLOCK):
                hit |= good[block * BLOCK + j] > root
        else:
            hit = True
        if not hit:
            continue
        for j in range(stop):
            value = good[base + j]
            if size < k:
                if value == value:
                    push_heap(heap, size, value)
                    size += 1
                    root = heap[0] if size == k else -np.inf
                    row[count] = base + j
                    values[count] = value
                    count += 1
            elif value > root:
                replace_root(heap, k, value)
                root = heap[0]
                row[count] = base + j
                values[count] = value
                count += 1
    return count


def expected_size(k: int, n: float) -> float:
    """E|k-skyband| of n rows in random order: the sum of min(1, k/a) over ages a, k(1 + H_n - H_k)."""
    if n <= k:
        return float(n)
    return k * (1.0 + _harmonic(n) - _harmonic(k))


def _harmonic(n: float) -> float:
    if n < 100:
        return sum(1.0 / i for i in range(1, int(n) + 1))
    return float(np.log(n) + 0.57721566490153286 + 1.0 / (2 * n) - 1.0 / (12 * n * n))
