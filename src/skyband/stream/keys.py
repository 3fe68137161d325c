"""Keys as small numbers: whatever a key column holds, each key is a *slot*, handed out when it is first seen and
handed out again when it has been dropped.

Numbers, times and truths go by a hash table of their 64 bits, half empty, in one compiled loop; anything else by a dict
that is asked once for each distinct value of a batch. Update streams have a slot for the live row of each key,
grouped and joined queries one for each object.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.jit import kernel
from skyband.stream.arrow import values_of
from skyband.stream.window import Ints

Slots = npt.NDArray[np.int32]

LEAST_ROOM = 1024
_AHEAD = 128  # keys whose places are touched before they are needed


class PlainKeys:
    """A slot for each key of 64 bits: open addressing, half empty, and slots that are handed out again."""

    def __init__(self, type_: pa.DataType) -> None:
        self.type = type_
        self.used = 0  # slots handed out at least once
        self.free = -1  # the first slot to hand out again; `home` of each has the next one
        self.key = np.empty(LEAST_ROOM, dtype=np.int64)  # of each slot
        self.home = np.empty(LEAST_ROOM, dtype=np.int32)  # where in the table the search for it begins
        self.table = np.full(2 * LEAST_ROOM, -1, dtype=np.int32)  # slots; -1: an empty place

    def find(self, array: pa.Array) -> Ints:
        """The slot of each key (none is null); a key that isn't here gets one."""
        return self._find(_bits(array))

    def _find(self, keys: Ints) -> Ints:
        if self.used + len(keys) > len(self.key):
            self._grow(self.used + len(keys))
        slots = np.empty(len(keys), dtype=np.int64)
        home = _homes(keys, len(self.table))
        self.used, self.free = find(keys, home, self.table, self.key, self.home, self.used, self.free, slots)
        return slots

    def _grow(self, need: int) -> None:
        room = max(LEAST_ROOM, need + need // 2)
        self.key = longer(self.key, room)
        self.home = longer(self.home, room)
        places = 1 << int(2 * room - 1).bit_length()
        if places > len(self.table):
            slots = self.table[self.table >= 0]
            self.home[slots] = _homes(self.key[slots], places)
            self.table = np.full(places, -1, dtype=np.int32)
            place(slots, self.table, self.home)

    def drop(self, slots: Ints) -> None:
        """Forget the keys of these slots."""
        self.free = drop(slots, self.table, self.home, self.free)

    def values(self, slots: Ints) -> pa.Array:
        """The keys themselves."""
        return _from_bits(self.key[slots], self.type)

    def bytes(self) -> int:
        return self.key.nbytes + self.home.nbytes + self.table.nbytes

    def dump(self, slots: Ints) -> Any:
        """The keys of these slots, as an array or a table."""
        return self.key[slots]

    def load(self, blob: Any) -> None:
        self._find(blob)

    def _check(self, taken: Ints) -> None:
        # the taken slots are in the table once each, and their keys are found
        assert np.array_equal(np.sort(self.table[self.table >= 0]), taken)
        assert np.array_equal(self._find(self.key[taken]), taken)
        # the table is at most half full, and all other slots wait to be handed out again
        assert 2 * len(self.key) <= len(self.table) and self.used <= len(self.key)
        waiting, slot = set(), self.free
        while slot >= 0:
            assert slot not in waiting
            waiting.add(slot)
            slot = int(self.home[slot])
        assert waiting == set(range(self.used)) - set(taken.tolist())


class ValueKeys:
    """A slot for each key of any type: a dict that is asked once for each distinct value of a batch."""

    def __init__(self, type_: pa.DataType) -> None:
        self.type = type_
        self.slots: dict[Any, int] = {}
        self.told: list[Any] = []  # of each slot
        self.free: list[int] = []

    @property
    def used(self) -> int:
        return len(self.told)

    def find(self, array: pa.Array) -> Ints:
        encoded = array.dictionary_encode()
        values, known, free = encoded.dictionary.to_pylist(), self.slots, self.free
        found: list[Any] = list(map(known.get, values))
        for code in [code for code, slot in enumerate(found) if slot is None]:
            value = values[code]
            if free:
                slot = free.pop()
                self.told[slot] = value
            else:
                slot = len(self.told)
                self.told.append(value)
            known[value] = found[code] = slot
        slots: Ints = np.array(found, dtype=np.int64)[values_of(encoded.indices)]
        return slots

    def drop(self, slots: Ints) -> None:
        for slot in slots.tolist():
            del self.slots[self.told[slot]]
            self.told[slot] = None
            self.free.append(slot)

    def values(self, slots: Ints) -> pa.Array:
        return pa.array([self.told[slot] for slot in slots.tolist()], self.type)

    def bytes(self) -> int:
        texts = sum(len(value) for value in self.told if isinstance(value, str | bytes))
        return texts + 150 * len(self.told)  # about what Python's objects and the dict take

    def dump(self, slots: Ints) -> Any:
        return pa.table({"key": pa.array([self.told[slot] for slot in slots.tolist()], self.type)})

    def load(self, blob: Any) -> None:
        self.find(blob.column("key").combine_chunks())

    def _check(self, taken: Ints) -> None:
        # every value has its slot, and all other slots wait to be handed out again
        assert sorted(self.slots.values()) == taken.tolist()
        assert all(self.told[slot] == value for value, slot in self.slots.items())
        assert sorted([*self.free, *taken.tolist()]) == list(range(self.used))


def longer(array: npt.NDArray[Any], length: int, rest: int = 0) -> Any:
    new = np.full(length, rest, dtype=array.dtype)
    new[: len(array)] = array
    return new


def is_plain(type_: pa.DataType) -> bool:
    """Whether 64 bits say everything about a value of this type."""
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_boolean(type_):
        return True
    return bool(pa.types.is_temporal(type_)) and type_.bit_width <= 64


def _bits(array: pa.Array) -> Ints:
    type_ = array.type
    if pa.types.is_floating(type_):
        numbers = values_of(array).astype(np.float64) + 0.0  # -0.0 equals 0.0
        return numbers.view(np.int64)
    if pa.types.is_temporal(type_):
        array = array.view(pa.int32() if type_.bit_width == 32 else pa.int64())
    values = values_of(array)
    if values.dtype == np.uint64:
        values = values.view(np.int64)
    return np.ascontiguousarray(values, dtype=np.int64)


def _from_bits(bits: Ints, type_: pa.DataType) -> pa.Array:
    """What `_bits` was made from."""
    if pa.types.is_floating(type_):
        return pa.array(bits.view(np.float64)).cast(type_)
    if pa.types.is_boolean(type_):
        return pa.array(bits != 0)
    if pa.types.is_uint64(type_):
        return pa.array(bits.view(np.uint64))
    if pa.types.is_temporal(type_):
        return pa.array(bits.astype(np.int32) if type_.bit_width == 32 else bits).view(type_)
    return pa.array(bits).cast(type_)


def _homes(keys: Ints, places: int) -> Ints:
    """Where in a table of 2^b places the search for each key begins: its bits, stirred (splitmix64's last step)."""
    x = keys.view(np.uint64).copy()
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x ^= x >> np.uint64(shift)
        x *= np.uint64(factor)
    x ^= x >> np.uint64(31)
    return (x & np.uint64(places - 1)).view(np.int64)


@kernel
def find(
    keys: Ints, home: Ints, table: Slots, slot_key: Ints, slot_home: Slots, used: int, free: int, slots: Ints
) -> tuple[int, int]:
    """Look each key up; one that isn't there gets a slot.

    Returns how many slots were ever handed out, and the first that is free again.
    """
    last = table.shape[0] - 1
    ahead = 0
    for i in range(keys.shape[0]):
        if i == ahead:  # independent reads, so that they don't wait for one another
            ahead = min(i + _AHEAD, keys.shape[0])
            for j in range(i, ahead):
                slots[j] = table[home[j]]
            for j in range(i, ahead):
                if slots[j] >= 0 and slot_key[slots[j]] != keys[j]:
                    slots[j] = -1
        if slots[i] >= 0:  # nothing is dropped here, so that it is still right
            continue
        key = keys[i]
        at = home[i]
        while table[at] >= 0 and slot_key[table[at]] != key:
            at = (at + 1) & last
        if table[at] < 0:
            slot = free
            if slot >= 0:
                free = slot_home[slot]
            else:
                slot = used
                used += 1
            table[at] = slot
            slot_key[slot] = key
            slot_home[slot] = home[i]
        slots[i] = table[at]
    return used, free


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
def drop(slots: Ints, table: Slots, slot_home: Slots, free: int) -> int:
    """Take slots out of the table and put them before the free ones; returns the first.

    The gap is closed: whoever was put further on because this place was taken moves up, so that a search may still
    stop at the first empty place.
    """
    last = table.shape[0] - 1
    for i in range(slots.shape[0]):
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


def keys_for(type_: pa.DataType) -> PlainKeys | ValueKeys:
    """An empty table of keys of this type."""
    return PlainKeys(type_) if is_plain(type_) else ValueKeys(type_)
