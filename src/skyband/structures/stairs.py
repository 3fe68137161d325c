"""The K-skyband of pairs, and its staircase.

A pair lives as long as its older row. So a pair can be in an answer only if fewer than K better pairs have an older
row that is at least as new: the K-skyband over (score, age of the older row), whatever the score is. Going through the
pairs from the newest older row back, with the K best scores seen so far at hand, tells at each one whether it stays.

The K-th best score on the way is the *staircase*: for a row of the window, a new pair with that row as its older one
has no chance if it is worse than the stair there. The steps are by recency and not by age, so they don't move with
time; they only rise when pairs come, and fall away at the old end.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skyband.jit import kernel
from skyband.order import Floats, Ints
from skyband.structures.skyband import push_heap, replace_root

Bytes = npt.NDArray[np.uint8]


@kernel
def sweep(good: Floats, order: Ints, k: int, best: Floats, keep: Bytes) -> int:
    """Which pairs are in the k-skyband. `order` has them by their older row, newest first, and for one row the better
    first; `best` is room for k scores. Returns how many stay."""
    count, stay = 0, 0
    for i in range(order.shape[0]):
        p = order[i]
        value = good[p]
        if count == k and value <= best[0]:
            keep[p] = 0
            continue
        keep[p] = 1
        stay += 1
        # best is a heap, the worst of the k first
        if count < k:
            push_heap(best, count, value)
            count += 1
        else:
            replace_root(best, k, value)
    return stay


@kernel
def climb(good: Floats, place: Ints, order: Ints, k: int, best: Floats, stair: Floats) -> None:
    """For each row of the window (oldest first) the score that k pairs with an older row at least as new reach, -inf
    where there are fewer. `place` has each pair's older row; `order` as for `sweep`."""
    count = 0
    i = 0
    for row in range(stair.shape[0] - 1, -1, -1):
        while i < order.shape[0] and place[order[i]] >= row:
            value = good[order[i]]
            i += 1
            if count < k:
                push_heap(best, count, value)
                count += 1
            elif value > best[0]:
                replace_root(best, k, value)
        stair[row] = best[0] if count == k else -np.inf
