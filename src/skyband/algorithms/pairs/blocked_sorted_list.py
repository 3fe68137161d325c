"""Sorted lists of a window's values, in blocks.

A sorted array of a million values is quick to walk along and slow to insert into, because everything behind the place
moves. Here the array is cut into blocks of some hundred values, so only a block moves. A small directory lists the
blocks in order and finds them by their first values. A full block is split, an empty one leaves the directory.
Inserting and removing take a fraction of a microsecond each, and walking goes along arrays.

Equal values are in order of recency: entries are (value, row's number). Several lists lie side by side, one for each
column. `open_at` places two cursors on a list: for the nearest values on both sides of a given one, for the farthest at
both ends. `advance` moves the cursor with the better value, and returns a bound on the distance of all the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.compiling.jit import inlined, kernel
from skyband.core.types import Floats, Ints

BLOCK = 256


class Ordered:
    """Several sorted lists: entries by list, block and place."""

    def __init__(self, lists: int, blocks: int = 16) -> None:
        self.value = np.empty((lists, blocks, BLOCK))
        self.row = np.empty((lists, blocks, BLOCK), dtype=np.int64)
        self.size = np.zeros((lists, blocks), dtype=np.int64)
        # blocks in use, sorted by their values, then free ones
        self.order = np.empty((lists, blocks), dtype=np.int64)
        self.order[:] = np.arange(blocks)
        self.blocks = np.zeros(lists, dtype=np.int64)  # blocks in use
        self.count = np.zeros(lists, dtype=np.int64)  # entries

    @property
    def arrays(self) -> tuple[Any, ...]:
        return self.value, self.row, self.size, self.order, self.blocks, self.count

    def fill(self, number: int, values: Floats, rows: Ints) -> None:
        """Replace a list by these entries; a NaN is in no list."""
        there = np.flatnonzero(~np.isnan(values))
        order = there[np.lexsort((rows[there], values[there]))]
        half = BLOCK // 2
        used = -(-len(order) // half)
        while used + 2 > self.order.shape[1]:
            self.grow()
        for block in range(used):
            some = order[block * half : (block + 1) * half]
            self.value[number, block, : len(some)] = values[some]
            self.row[number, block, : len(some)] = rows[some]
            self.size[number, block] = len(some)
        self.size[number, used:] = 0
        self.order[number] = np.arange(self.order.shape[1])
        self.blocks[number], self.count[number] = used, len(order)

    def grow(self) -> None:
        """Double the number of blocks."""
        lists, old = self.order.shape
        for name in ("value", "row", "size", "order"):
            array = getattr(self, name)
            more = np.zeros((lists, old, *array.shape[2:]), dtype=array.dtype)
            setattr(self, name, np.concatenate([array, more], axis=1))
        self.order[:, old:] = np.arange(old, 2 * old)

    def move_up(self, number: int) -> None:
        """Give all rows from this number on a number one higher, because a late row takes it."""
        self.row[self.row >= number] += 1

    def nbytes(self) -> int:
        return sum(int(array.nbytes) for array in self.arrays)

    def _check(self) -> None:
        for number in range(len(self.blocks)):
            used = self.order[number, : self.blocks[number]].tolist()
            assert len({*self.order[number].tolist()}) == self.order.shape[1]
            entries = [
                (self.value[number, block, i], self.row[number, block, i])
                for block in used
                for i in range(self.size[number, block])
            ]
            assert entries == sorted(entries) and len(entries) == self.count[number]
            assert all(self.size[number, block] > 0 for block in used)


@inlined
def _find(value: Any, row: Any, size: Any, order: Any, used: int, number: int, x: float, own: int) -> Any:
    """Return the block (its place in the directory) and the place in it of the first entry not before (x, own)."""
    low, high = 0, used - 1  # the last block whose first entry is not after it
    while low < high:
        middle = (low + high + 1) // 2
        block = order[number, middle]
        if value[number, block, 0] < x or (value[number, block, 0] == x and row[number, block, 0] <= own):
            low = middle
        else:
            high = middle - 1
    at = low
    low, high = 0, 0
    if used > 0:
        block = order[number, at]
        high = size[number, block]
        while low < high:
            middle = (low + high) // 2
            if value[number, block, middle] < x or (
                value[number, block, middle] == x and row[number, block, middle] < own
            ):
                low = middle + 1
            else:
                high = middle
    return at, low


@kernel
def enter(
    number: int, x: float, own: int, value: Any, row: Any, size: Any, order: Any, blocks: Any, count: Any
) -> bool:
    """Insert an entry. Return False if no block is left for it."""
    used = blocks[number]
    if used + 1 >= order.shape[1]:
        return False
    if used == 0:
        blocks[number] = used = 1
        size[number, order[number, 0]] = 0
    at, place = _find(value, row, size, order, used, number, x, own)
    block = order[number, at]
    if size[number, block] == value.shape[2]:  # split: the first free block comes next to it in the directory
        half = value.shape[2] // 2
        other = order[number, used]
        for i in range(used, at + 1, -1):
            order[number, i] = order[number, i - 1]
        order[number, at + 1] = other
        blocks[number] += 1
        for i in range(half, value.shape[2]):
            value[number, other, i - half] = value[number, block, i]
            row[number, other, i - half] = row[number, block, i]
        size[number, other] = value.shape[2] - half
        size[number, block] = half
        if place > half:
            block = other
            place -= half
    for i in range(size[number, block], place, -1):
        value[number, block, i] = value[number, block, i - 1]
        row[number, block, i] = row[number, block, i - 1]
    value[number, block, place] = x
    row[number, block, place] = own
    size[number, block] += 1
    count[number] += 1
    return True


@kernel
def leave(
    number: int, x: float, own: int, value: Any, row: Any, size: Any, order: Any, blocks: Any, count: Any
) -> bool:
    """Remove an entry. Return False if it is not in the list."""
    used = blocks[number]
    if used == 0 or x != x:
        return False
    at, place = _find(value, row, size, order, used, number, x, own)
    block = order[number, at]
    if place >= size[number, block] or row[number, block, place] != own:
        return False
    last = size[number, block] - 1
    for i in range(place, last):
        value[number, block, i] = value[number, block, i + 1]
        row[number, block, i] = row[number, block, i + 1]
    size[number, block] = last
    count[number] -= 1
    if last == 0:
        for i in range(at, used - 1):
            order[number, i] = order[number, i + 1]
        order[number, used - 1] = block
        blocks[number] = used - 1
    return True


@kernel
def leave_all(
    number: int,
    values: Floats,
    rows: Ints,
    value: Any,
    row: Any,
    size: Any,
    order: Any,
    blocks: Any,
    count: Any,
) -> None:
    for i in range(values.shape[0]):
        leave(number, values[i], rows[i], value, row, size, order, blocks, count)


@kernel
def open_at(
    number: int,
    x: float,
    far: bool,
    fingers: Any,
    value: Any,
    row: Any,
    size: Any,
    order: Any,
    blocks: Any,
    count: Any,
) -> None:
    """Place two cursors on a list: block and place of each, and the number of entries that they have not passed."""
    used = blocks[number]
    fingers[number, 4] = count[number]
    if used == 0:
        return
    if far:
        fingers[number, 0], fingers[number, 1] = used - 1, size[number, order[number, used - 1]] - 1
        fingers[number, 2], fingers[number, 3] = 0, 0
        return
    at, place = _find(value, row, size, order, used, number, x, -1)
    fingers[number, 0], fingers[number, 1] = at, place - 1
    if place == 0:
        fingers[number, 0] = at - 1
        fingers[number, 1] = size[number, order[number, at - 1]] - 1 if at > 0 else -1
    fingers[number, 2], fingers[number, 3] = at, place
    if place == size[number, order[number, at]]:
        fingers[number, 2], fingers[number, 3] = at + 1, 0


@kernel
def advance(
    number: int, x: float, far: bool, steps: int, fingers: Any, seen: Ints, value: Any, row: Any, size: Any, order: Any,
    blocks: Any, count: Any,
) -> Any:  # fmt: skip
    """Write the next entries, the best of either cursor first; return their number and a bound on the rest."""
    used, left = blocks[number], fingers[number, 4]
    down, i, up, j = fingers[number, 0], fingers[number, 1], fingers[number, 2], fingers[number, 3]
    n = 0
    edge = 0.0
    while left > 0:
        below, above = np.nan, np.nan
        if down >= 0:
            below = abs(x - value[number, order[number, down], i])
        if up < used:
            above = abs(x - value[number, order[number, up], j])
        go_down = up >= used or (down >= 0 and (below >= above if far else below <= above))
        edge = below if go_down else above
        if n == steps:
            break
        if go_down:
            seen[n] = row[number, order[number, down], i]
            i -= 1
            if i < 0:
                down -= 1
                if down >= 0:
                    i = size[number, order[number, down]] - 1
        else:
            seen[n] = row[number, order[number, up], j]
            j += 1
            if j == size[number, order[number, up]]:
                up += 1
                j = 0
        n += 1
        left -= 1
    fingers[number, 0], fingers[number, 1], fingers[number, 2], fingers[number, 3] = down, i, up, j
    fingers[number, 4] = left
    return n, edge
