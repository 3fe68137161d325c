"""Sorted lists of the window's rows, one for each attribute, for the threshold algorithm.

An entry is (value, place of the row). A list consists of blocks of 64 places with the entries of each block sorted. A
directory names the blocks in order, with a separator each: nothing in a block is less than its separator, and
nothing before it is more. A new row is inserted into its block, which moves half a block of entries at most; a full
block is split. A step's rows are sorted first, so that they go through the list from one end to the other.

**Removal is lazy.** A row that leaves the window is only marked; its entries stay until their block is full, or until
the list has twice as many entries as there are rows, when all of it is swept. In between, the place of a row that left
may be given to another one, and an old entry then points at the wrong row. This does not affect a walk: it takes the
order from the entries and the scores from the rows, so such a row is only met more often than necessary. A sweep
recognises old entries by their value, or because it has met the place before.

Cost: O(log N) and half a block of moves for each attribute of a new row, nothing for one that leaves, and a constant
for each of them in the long run. A row takes 12 bytes for each attribute, up to twice that with entries not swept yet.
"""

import numpy as np
import numpy.typing as npt

from skyband.compiling.jit import inlined, kernel
from skyband.compiling.state import State, field
from skyband.core.types import Floats, Ints

BLOCK = 64
FULL = 48  # a block that holds more than this without its old entries is split
FILL = 44  # entries of a block after a sweep, with some room before the first split
SLACK = 4096  # a list with fewer entries is not swept
Small = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]


class SortedLists(State):
    """d lists over the same rows. `values` of the rows (by place) belong to the caller."""

    live: Bytes = field("u1[row]")  # by place: 1 if a row with entries lies there
    used: Ints = field("i8[axis]")  # blocks of each list; the first one's separator is -inf
    entries: Ints = field("i8[axis]")
    value: Floats = field("f8[axis, block, entry]")
    place: Small = field("i4[axis, block, entry]")
    count: Ints = field("i8[axis, block]")  # the entries of a block, by its number
    order: Ints = field("i8[axis, block]")  # the directory: numbers of blocks,
    first: Floats = field("f8[axis, block]")  # and their separators

    def __init__(self, axes: int, blocks: int = 4) -> None:
        super().__init__(axis=axes, block=blocks, entry=BLOCK)
        self.axes = axes
        self.rows = 0  # with entries
        self.used.fill(1)
        self.sweeps = 0
        self.first[:, 0] = -np.inf

    @property
    def bytes(self) -> int:
        return self.nbytes

    def insert(self, places: Small, values: Floats) -> None:
        """Insert the rows at these places; none of their values is NaN."""
        if len(self.live) < len(values):
            self.grow(row=len(values))
        self.live[places] = 1
        self.rows += len(places)
        split = Split(row=len(places))
        for axis in range(self.axes):
            column = values[places, axis]
            by_value = np.argsort(column)
            done = 0
            while True:
                done = insert_sorted(axis, done, by_value, column, places, values, self, split)
                if done == len(places):
                    break
                self.grow(block=2 * self.order.shape[1])

    def remove(self, places: Small, values: Floats) -> None:
        """Mark the rows at these places as removed."""
        self.live[places] = 0
        self.rows -= len(places)
        if int(self.entries.max(initial=0)) > 2 * self.rows + SLACK:
            self.sweep(values)

    def sweep(self, values: Floats) -> None:
        """Copy the lists without old entries, into blocks with some room."""
        self.sweeps += 1
        blocks = 4 + (self.rows + FILL - 1) // FILL
        new = SortedLists(self.axes, blocks + blocks // 4)
        for axis in range(self.axes):
            met = np.zeros(len(self.live), dtype=np.uint8)
            sweep(axis, values, met, self, new)
        self.lend(**{f.name: getattr(new, f.name) for f in self.fields if f.name != "live"})

    def check(self, values: Floats) -> None:
        self._check()
        # the count is that of live rows
        assert self.rows == np.count_nonzero(self.live)
        for axis in range(self.axes):
            used, total = int(self.used[axis]), 0
            numbers = self.order[axis, :used]
            # the directory names each block once
            assert sorted(numbers.tolist()) == list(range(used))
            entries: list[tuple[float, int]] = []
            for at, number in enumerate(numbers.tolist()):
                count = int(self.count[axis, number])
                value = self.value[axis, number, :count]
                total += count
                # entries are sorted inside a block, between its separator and the next
                assert 0 <= count <= BLOCK and bool(np.all(value[1:] >= value[:-1]))
                assert count == 0 or value[0] >= self.first[axis, at]
                assert count == 0 or at + 1 == used or value[-1] <= self.first[axis, at + 1]
                entries += zip(value.tolist(), self.place[axis, number, :count].tolist(), strict=True)
            assert bool(np.all(self.first[axis, 1:used] >= self.first[axis, : used - 1]))
            # the number of entries is known, and has a limit
            assert total == self.entries[axis]
            # every live row has an entry with its value
            live = np.flatnonzero(self.live)
            assert {(float(values[p, axis]), int(p)) for p in live} <= set(entries)


class Split(State):
    """New blocks that enter the directory together: behind which, their numbers and their separators."""

    at: Ints = field("i8[row]")
    block: Ints = field("i8[row]")
    first: Floats = field("f8[row]")


@inlined
def block_of(first: Floats, axis: int, low: int, used: int, value: float) -> int:
    """Return the last block from `low` on whose separator is at most `value`, or `low`."""
    high = used
    step = 1
    while low + step < high and first[axis, low + step] <= value:  # gallop: it is often near
        low += step
        step *= 2
    if low + step < high:
        high = low + step
    while low + 1 < high:
        middle = (low + high) // 2
        if first[axis, middle] <= value:
            low = middle
        else:
            high = middle
    return low


@kernel
def insert_sorted(
    axis: int, done: int, by_value: Ints, column: Floats, places: Small, values: Floats, lists: SortedLists,
    split: Split,
) -> int:  # fmt: skip
    """Insert the rows from the `done`-th on into the axis' list; stop where one more block is needed than there are.

    Blocks made by splits enter the directory at the end, all in one pass. Until then they are in a list of their own,
    in order; those from `base` on come from the block that the directory has at `at`.
    """
    value, place, count, order, first = lists.value, lists.place, lists.count, lists.order, lists.first
    used, entries, new_at, new_block, new_first = (
        lists.used,
        lists.entries,
        split.at,
        split.block,
        split.first,
    )
    made = 0
    base = 0
    here = -1  # the new block that the last row went to; base - 1: the directory's own
    at = 0
    last = done
    for i in range(done, by_value.shape[0]):
        row = by_value[i]
        new = column[row]
        to = block_of(first, axis, at, used[axis], new)
        if to != at:
            at = to
            base = made
            here = base - 1
        while here + 1 < made and new_first[here + 1] <= new:
            here += 1
        block = order[axis, at] if here < base else new_block[here]
        if count[axis, block] == BLOCK:
            entries[axis] -= clean(axis, block, values, lists)
            if count[axis, block] > FULL:
                fresh = used[axis] + made
                if fresh == order.shape[1] or made == new_at.shape[0]:
                    break
                halve(axis, block, fresh, lists)
                for j in range(made, here + 1, -1):
                    new_at[j] = new_at[j - 1]
                    new_block[j] = new_block[j - 1]
                    new_first[j] = new_first[j - 1]
                new_at[here + 1] = at
                new_block[here + 1] = fresh
                new_first[here + 1] = value[axis, fresh, 0]
                made += 1
                if new_first[here + 1] <= new:
                    here += 1
                    block = fresh
        low = 0
        high = count[axis, block]
        while low < high:  # behind equal values
            middle = (low + high) // 2
            if value[axis, block, middle] <= new:
                low = middle + 1
            else:
                high = middle
        for j in range(count[axis, block], low, -1):
            value[axis, block, j] = value[axis, block, j - 1]
            place[axis, block, j] = place[axis, block, j - 1]
        value[axis, block, low] = new
        place[axis, block, low] = places[row]
        count[axis, block] += 1
        entries[axis] += 1
        last = i + 1
    enter(axis, made, lists, split)
    return last


@kernel
def halve(axis: int, block: int, fresh: int, lists: SortedLists) -> None:
    """Move the upper half of a block to an unused one."""
    value, place, count = lists.value, lists.place, lists.count
    half = count[axis, block] // 2
    rest = count[axis, block] - half
    for i in range(rest):
        value[axis, fresh, i] = value[axis, block, half + i]
        place[axis, fresh, i] = place[axis, block, half + i]
    count[axis, block] = half
    count[axis, fresh] = rest


@kernel
def enter(axis: int, made: int, lists: SortedLists, split: Split) -> None:
    """Enter new blocks in the directory, each behind the block from which it was split."""
    order, first, used = lists.order, lists.first, lists.used
    read = used[axis] - 1
    left = made
    while left > 0:
        if read > split.at[left - 1]:
            order[axis, read + left] = order[axis, read]
            first[axis, read + left] = first[axis, read]
            read -= 1
        else:
            left -= 1
            order[axis, read + left + 1] = split.block[left]
            first[axis, read + left + 1] = split.first[left]
    used[axis] += made


@kernel
def clean(axis: int, block: int, values: Floats, lists: SortedLists) -> int:
    """Remove a block's entries of rows that have left; return how many."""
    live, value, place, count = lists.live, lists.value, lists.place, lists.count
    write = 0
    for i in range(count[axis, block]):
        row = place[axis, block, i]
        if live[row] and values[row, axis] == value[axis, block, i]:
            value[axis, block, write] = value[axis, block, i]
            place[axis, block, write] = row
            write += 1
    gone = count[axis, block] - write
    count[axis, block] = write
    return int(gone)


@kernel
def sweep(axis: int, values: Floats, met: Bytes, lists: SortedLists, new: SortedLists) -> None:
    """Copy the entries that stand for a row into new blocks, one after the other."""
    live, value, place, count, order = lists.live, lists.value, lists.place, lists.count, lists.order
    new_value, new_place, new_count, new_order, new_first = (
        new.value,
        new.place,
        new.count,
        new.order,
        new.first,
    )
    block = 0
    size = 0
    total = 0
    new_order[axis, 0] = 0
    new_first[axis, 0] = -np.inf
    for at in range(lists.used[axis]):
        old = order[axis, at]
        for i in range(count[axis, old]):
            row = place[axis, old, i]
            if live[row] == 0 or met[row] or values[row, axis] != value[axis, old, i]:
                continue
            met[row] = 1
            if size == FILL:
                new_count[axis, block] = size
                block += 1
                size = 0
                new_order[axis, block] = block
                new_first[axis, block] = value[axis, old, i]
            new_value[axis, block, size] = value[axis, old, i]
            new_place[axis, block, size] = row
            size += 1
            total += 1
    new_count[axis, block] = size
    new.used[axis] = block + 1
    new.entries[axis] = total


@kernel
def start(axis: int, toward: int, limit: float, lists: SortedLists) -> tuple[int, int]:
    """Return where a walk begins: downward (toward > 0, greater is better) at the last entry that is at most the limit,
    upward at the first that is at least the limit. A cursor is a place of the directory and an entry of that block:
    downward the one behind the next to be read, upward the next itself."""
    value, count, order, first, used = lists.value, lists.count, lists.order, lists.first, lists.used
    if toward > 0:
        at = block_of(first, axis, 0, used[axis], limit)
    else:
        at = 0  # the last block whose separator is less; entries before it are less than the limit, too
        high = used[axis]
        while at + 1 < high:
            middle = (at + high) // 2
            if first[axis, middle] < limit:
                at = middle
            else:
                high = middle
    block = order[axis, at]
    low = 0
    high = count[axis, block]
    while low < high:
        middle = (low + high) // 2
        inside = value[axis, block, middle]
        if inside < limit or (toward > 0 and inside == limit):
            low = middle + 1
        else:
            high = middle
    return at, low


@kernel
def read(
    axis: int, toward: int, limit: float, most: int, lists: SortedLists, at: int, entry: int, found: int, places: Small
) -> tuple[int, int, int, float, bool]:  # fmt: skip
    """Read up to `most` entries from a cursor on; write the places of their rows to places[found:].

    Returns the cursor, the number of places, the last value read, and whether the list ended or passed the limit: then
    every row inside was read.
    """
    value, place, count, order, used = lists.value, lists.place, lists.count, lists.order, lists.used
    last = np.nan
    done = 0
    while done < most:
        block = order[axis, at]
        if toward > 0:
            if entry == 0:
                if at == 0:
                    return at, entry, found, last, True
                at -= 1
                entry = count[axis, order[axis, at]]
                continue
            entry -= 1
        elif entry == count[axis, block]:
            if at + 1 == used[axis]:
                return at, entry, found, last, True
            at += 1
            entry = 0
            continue
        here = value[axis, block, entry]
        if here < limit if toward > 0 else here > limit:
            return at, entry, found, last, True
        last = here
        row = place[axis, block, entry]
        if lists.live[row]:
            places[found] = row
            found += 1
        if toward < 0:
            entry += 1
        done += 1
    return at, entry, found, last, False
