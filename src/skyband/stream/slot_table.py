"""A table of slots: where keys that are small numbers already, or hashes, are found.

Open addressing, at most three fifths full, and slots that are handed out again when they have been dropped. What a slot
is known by lies in one column of an array of records: its own, or those of another object that needs a record whenever
its key was found, and so meets both on one line of memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.compiling.jit import kernel
from skyband.core.types import Ints

Slots = npt.NDArray[np.int32]

LEAST_ROOM = 1024
AHEAD = 128  # keys whose places are touched before they are needed


class SlotTable:
    """Slots by a number of 64 bits."""

    def __init__(self, type_: pa.DataType) -> None:
        self.type = type_
        self.used = 0  # slots handed out at least once
        self.free = -1  # the first slot to hand out again; `home` of each has the next one
        self.cells = np.empty((LEAST_ROOM, 1), dtype=np.int64)  # records by slot
        self.column, self.lodged = 0, False  # where in a record; whether they are another object's
        self.home = np.empty(LEAST_ROOM, dtype=np.int32)  # where in the table the search for it begins
        self.table = np.full(2 * LEAST_ROOM, -1, dtype=np.int32)  # slots; -1: an empty place

    @property
    def key(self) -> Ints:
        """What each slot is known by."""
        column: Ints = self.cells[:, self.column]
        return column

    def lodge(self, cells: Ints, column: int) -> None:
        """Use a column of another object's records from now on. It makes room for them, and calls this again when
        their records have moved."""
        if not self.lodged:
            cells[: self.used, column] = self.key[: self.used]
        if len(cells) != len(self.home):
            self._room(len(cells))
        self.cells, self.column, self.lodged = cells, column, True

    def _reserve(self, more: int) -> None:
        """Room for so many more keys, and a table of at least five thirds as many places."""
        need = self.used + more
        if need > len(self.cells):
            assert not self.lodged
            room = max(LEAST_ROOM, need + need // 2)
            cells = np.empty((room, 1), dtype=np.int64)
            cells[: self.used] = self.cells[: self.used]
            self._room(room)
            self.cells = cells
        places = 1 << (5 * need // 3).bit_length()
        if places > len(self.table):
            slots = self.table[self.table >= 0]
            self.home[slots] = homes(self.key[slots], places)
            self.table = np.full(places, -1, dtype=np.int32)
            place(slots, self.table, self.home)

    def _room(self, room: int) -> None:
        """So many slots."""
        self.home = longer(self.home[: self.used], room)

    def drop(self, slots: Ints) -> None:
        """Forget the keys of these slots."""
        self.free = drop(slots, self.table, self.home, self.free, np.empty(1, dtype=np.int64))

    def bytes(self) -> int:
        return (0 if self.lodged else self.cells.nbytes) + self.home.nbytes + self.table.nbytes

    def _check(self, taken: Ints) -> None:
        # the taken slots are in the table once each
        assert np.array_equal(np.sort(self.table[self.table >= 0]), taken)
        # the table is at most three fifths full, and all other slots wait to be handed out again
        assert 5 * self.used <= 3 * len(self.table) and self.used <= len(self.home) == len(self.cells)
        waiting, slot = set(), self.free
        while slot >= 0:
            assert slot not in waiting
            waiting.add(slot)
            slot = int(self.home[slot])
        assert waiting == set(range(self.used)) - set(taken.tolist())


def longer(array: Any, length: int, rest: int = 0) -> Any:
    new = np.full((length, *array.shape[1:]), rest, dtype=array.dtype)
    new[: len(array)] = array
    return new


def homes(keys: Ints, places: int) -> Ints:
    """Where in a table of 2^b places the search for each key begins: the upper bits of a product of all its bits."""
    x = keys.view(np.uint64) >> np.uint64(32)
    x ^= keys.view(np.uint64)
    x *= np.uint64(0x9E3779B97F4A7C15)
    x >>= np.uint64(65 - places.bit_length())
    return x.view(np.int64)


@kernel
def place(slots: Slots, table: Slots, slot_home: Slots) -> None:
    """Put slots of different keys into a table that has none of them."""
    last = table.shape[0] - 1
    for i in range(slots.shape[0]):
        at = slot_home[slots[i]]
        while table[at] >= 0:
            at = (at + 1) & last
        table[at] = slots[i]


@kernel
def drop(slots: Ints, table: Slots, slot_home: Slots, free: int, seen: Ints) -> int:
    """Take slots out of the table and put them before the free ones; returns the first.

    The gap is closed: entries that were put further on because this place was taken move up, so that a search may still
    stop at the first empty place.
    """
    last = table.shape[0] - 1
    ahead = 0
    for i in range(slots.shape[0]):
        if i == ahead:  # as in `find`; the sum goes somewhere, or the compiler leaves the reads out
            ahead = min(i + AHEAD, slots.shape[0])
            warm = 0
            for j in range(i, ahead):
                warm += table[slot_home[slots[j]]]
            seen[0] = warm
        gap = slot_home[slots[i]]
        while table[gap] != slots[i]:
            gap = (gap + 1) & last
        at = (gap + 1) & last
        while table[at] >= 0:
            way = (at - slot_home[table[at]]) & last  # how far this one is from its home
            if way >= ((at - gap) & last):
                table[gap] = table[at]
                gap = at
            at = (at + 1) & last
        table[gap] = -1
        slot_home[slots[i]] = free
        free = slots[i]
    return free
