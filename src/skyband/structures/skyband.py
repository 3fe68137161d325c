"""The k-skyband of a batch: one pass from the newest row back.

Walking back in time, a min-heap holds the k best scores met so far. Its root is the k-th best of all newer
rows, so the next (older) row has k dominators exactly if the root is at least as good as it. That is all:
no counters, no pairwise comparison, O(n + s log k) for s rows kept.

Most rows of a large batch fall below the root. They are tested in blocks of 64 by an OR over comparisons,
a loop that compiles to vector instructions; only a block with a hit is looked at row by row.
"""

import numpy as np

from skyband.jit import kernel
from skyband.order import Floats, Ints

BLOCK = 64


@kernel
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


@kernel
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
def select(good: Floats, inside: int, k: int, heap: Floats, picks: Ints, values: Floats) -> int:
    """The rows among the first `inside` of `good` (newest first) that have fewer than k dominators.

    `picks` gets their positions and `values` their scores, newest first; `heap` has room for k scores.
    Returns how many were picked. A NaN is never picked.
    """
    size = 0
    count = 0
    place = 0
    while place < inside and size < k:  # the newest k rows have too few newer ones to be dominated
        value = good[place]
        if value == value:
            push_heap(heap, size, value)
            size += 1
            picks[count] = place
            values[count] = value
            count += 1
        place += 1
    if place >= inside:
        return count
    root = heap[0]
    while place < inside and place % BLOCK != 0:
        count, root = take(good[place], place, k, heap, root, picks, values, count)
        place += 1
    for block in range(place // BLOCK, inside // BLOCK):
        hit = False
        for j in range(BLOCK):
            hit |= good[block * BLOCK + j] > root
        if hit:
            for j in range(BLOCK):
                value = good[block * BLOCK + j]
                count, root = take(value, block * BLOCK + j, k, heap, root, picks, values, count)
    for rest in range(max(place, inside // BLOCK * BLOCK), inside):
        count, root = take(good[rest], rest, k, heap, root, picks, values, count)
    return count


@kernel
def take(
    value: float, place: int, k: int, heap: Floats, root: float, picks: Ints, values: Floats, count: int
) -> tuple[int, float]:
    """Pick one row if it beats the k-th best of the newer ones; returns the new count and root."""
    if value > root:
        replace_root(heap, k, value)
        picks[count] = place
        values[count] = value
        return count + 1, heap[0]
    return count, root


def skyband_of(good: Floats, k: int) -> Ints:
    """`select` with its own scratch, for rows newest first."""
    n = good.shape[0]
    picks = np.empty(n, dtype=np.int64)
    count = select(good, n, k, np.empty(k, dtype=np.float64), picks, np.empty(n, dtype=np.float64))
    return picks[:count]


def expected_size(k: int, n: float) -> float:
    """E|k-skyband| of n rows in random order: the sum of min(1, k/a) over ages a, k(1 + H_n - H_k)."""
    if n <= k:
        return float(n)
    return k * (1.0 + _harmonic(n) - _harmonic(k))


def _harmonic(n: float) -> float:
    if n < 100:
        return sum(1.0 / i for i in range(1, int(n) + 1))
    return float(np.log(n) + 0.57721566490153286 + 1.0 / (2 * n) - 1.0 / (12 * n * n))
