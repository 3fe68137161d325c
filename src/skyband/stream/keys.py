"""Keys as small numbers: each value of a key column has a *slot*, assigned when the value is first seen and assigned
to another value after it was dropped.

Numbers, times and booleans are looked up in a hash table of their 64 bits (slot_table.py), texts by one of their hashes
(text_keys.py), each in one compiled loop; anything else in a dict, once for each distinct value of a batch. Update
streams have a slot for the live row of each key, grouped and joined queries one for each object.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from skyband.compiling.jit import kernel
from skyband.core.types import Ints
from skyband.stream.arrow import values_of
from skyband.stream.slot_table import AHEAD, LEAST_ROOM, Slots, SlotTable, homes, longer
from skyband.stream.text_keys import TextKeys, is_text

__all__ = ["LEAST_ROOM", "Keys", "PlainKeys", "ValueKeys", "can_be_key", "is_plain", "keys_for", "longer"]


class PlainKeys(SlotTable):
    """A slot for each key of 64 bits."""

    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_)
        self.whole = pa.types.is_int64(type_)  # nothing has to be turned into anything

    def find(self, array: pa.Array) -> Ints:
        """The slot of each key (none is null); a key that isn't here gets one."""
        return self._find(values_of(array) if self.whole else _bits(array))

    def _find(self, keys: Ints) -> Ints:
        self._reserve(len(keys))
        return self._look(keys)

    def _look(self, keys: Ints) -> Ints:
        slots = np.empty(len(keys), dtype=np.int64)
        home = homes(keys, len(self.table))
        self.used, self.free = find(
            keys, home, self.table, self.cells, self.column, self.home, self.used, self.free, slots
        )
        return slots

    def values(self, slots: Ints) -> pa.Array:
        """The keys themselves."""
        return _from_bits(self.key[slots], self.type)

    def dump(self, slots: Ints) -> Any:
        """The keys of these slots, as an array or a table."""
        return self.key[slots]

    def load(self, blob: Any) -> None:
        self._find(blob)

    def _check(self, taken: Ints) -> None:
        super()._check(taken)
        # every key is found where it is
        assert np.array_equal(self._look(np.ascontiguousarray(self.key[taken])), taken)


class ValueKeys:
    """A slot for each key of any type: a dict that is asked once for each distinct value of a batch."""

    def __init__(self, type_: pa.DataType) -> None:
        self.type = type_
        self.slots: dict[Any, int] = {}
        self.of_slot: list[Any] = []  # of each slot
        self.free: list[int] = []

    @property
    def used(self) -> int:
        return len(self.of_slot)

    def find(self, array: pa.Array) -> Ints:
        encoded = array.dictionary_encode()
        values, known, free = encoded.dictionary.to_pylist(), self.slots, self.free
        found: list[Any] = list(map(known.get, values))
        for code in [code for code, slot in enumerate(found) if slot is None]:
            value = values[code]
            if free:
                slot = free.pop()
                self.of_slot[slot] = value
            else:
                slot = len(self.of_slot)
                self.of_slot.append(value)
            known[value] = found[code] = slot
        slots: Ints = np.array(found, dtype=np.int64)[values_of(encoded.indices)]
        return slots

    def drop(self, slots: Ints) -> None:
        for slot in slots.tolist():
            del self.slots[self.of_slot[slot]]
            self.of_slot[slot] = None
            self.free.append(slot)

    def values(self, slots: Ints) -> pa.Array:
        return pa.array([self.of_slot[slot] for slot in slots.tolist()], self.type)

    def bytes(self) -> int:
        texts = sum(len(value) for value in self.of_slot if isinstance(value, str | bytes))
        return texts + 150 * len(self.of_slot)  # about what Python's objects and the dict take

    def dump(self, slots: Ints) -> Any:
        return pa.table({"key": pa.array([self.of_slot[slot] for slot in slots.tolist()], self.type)})

    def load(self, blob: Any) -> None:
        self.find(blob.column("key").combine_chunks())

    def _check(self, taken: Ints) -> None:
        # every value has its slot, and all other slots wait to be handed out again
        assert sorted(self.slots.values()) == taken.tolist()
        assert all(self.of_slot[slot] == value for value, slot in self.slots.items())
        assert sorted([*self.free, *taken.tolist()]) == list(range(self.used))


def is_plain(type_: pa.DataType) -> bool:
    """Whether 64 bits say everything about a value of this type."""
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_boolean(type_):
        return True
    return bool(pa.types.is_temporal(type_)) and type_.bit_width <= 64


def can_be_key(type_: pa.DataType) -> bool:
    """Whether values of this type can be keys. A type that is not known yet may come out as one that can."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if is_plain(type_) or pa.types.is_null(type_):
        return True
    try:
        pa.array([], type_).dictionary_encode()
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return False
    return True


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


@kernel
def find(
    keys: Ints, home: Ints, table: Slots, cells: Ints, column: int, slot_home: Slots, used: int, free: int, slots: Ints
) -> tuple[int, int]:  # fmt: skip
    """Look each key up in the records of slots; one that isn't there gets a slot.

    Returns how many slots were ever handed out, and the first that is free again.
    """
    last = table.shape[0] - 1
    ahead = 0
    for i in range(keys.shape[0]):
        if i == ahead:  # independent reads, so that they don't wait for one another
            ahead = min(i + AHEAD, keys.shape[0])
            for j in range(i, ahead):
                slots[j] = table[home[j]]
            for j in range(i, ahead):
                if slots[j] >= 0 and cells[slots[j], column] != keys[j]:
                    slots[j] = -1
        if slots[i] >= 0:  # nothing is dropped here, so that it is still right
            continue
        key = keys[i]
        at = home[i]
        while table[at] >= 0 and cells[table[at], column] != key:
            at = (at + 1) & last
        if table[at] < 0:
            slot = free
            if slot >= 0:
                free = slot_home[slot]
            else:
                slot = used
                used += 1
            table[at] = slot
            cells[slot, column] = key
            slot_home[slot] = home[i]
        slots[i] = table[at]
    return used, free


Keys = PlainKeys | TextKeys | ValueKeys


def keys_for(type_: pa.DataType) -> Keys:
    """An empty table of keys of this type."""
    if is_plain(type_):
        return PlainKeys(type_)
    return TextKeys(type_) if is_text(type_) else ValueKeys(type_)
