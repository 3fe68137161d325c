"""Keys that are texts, or bytes: a slot for each, found by one compiled loop.

As for numbers (keys.py), with a hash of the text in the place of the number, and the texts themselves one after the
other in one long array of bytes: two texts with the same hash are distinguished there. What dropped texts took is given
back when it is more than half of the array.

The hash is two polynomials of the bytes, each taken modulo 2^31 - 1 or nearly: plain arithmetic that never overflows,
so that the loop does the same whether it is compiled or not.

Cost: some nanoseconds a byte and a few memory accesses a row, which overlap with those of other rows; a dict of
Python's texts takes ten times as long.
Memory: the text, 16 bytes for its place, and what keys.py has for a number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.compiling.jit import inlined, kernel
from skyband.core.types import Ints
from skyband.stream.slot_table import AHEAD, Slots, SlotTable, homes, longer

Bytes = npt.NDArray[np.uint8]
LEAST_BYTES = 1 << 14
_PRIME = 2**31 - 1


def is_text(type_: pa.DataType) -> bool:
    """Whether values are texts or bytes that lie one after the other."""
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(kind(type_) for kind in kinds)


class TextKeys(SlotTable):
    """A slot for each text."""

    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_)
        self.span = np.zeros(
            (len(self.home), 2), dtype=np.int64
        )  # where each slot's text begins, and its length
        self.store: Bytes = np.zeros(LEAST_BYTES, dtype=np.uint8)
        self.filled = 0
        self.idle = 0  # bytes of dropped texts

    def find(self, array: pa.Array) -> Ints:
        """The slot of each key (none is null); a key that isn't here gets one."""
        offsets, data = parts(array)
        self._reserve(len(array))
        more = int(offsets[-1] - offsets[0])
        if self.filled + more >= len(self.store):  # an empty text at the end begins inside, too
            self.store = longer(self.store, 2 * (self.filled + more))
        return self._look(offsets, data)

    def _look(self, offsets: Ints, data: Bytes) -> Ints:
        slots, hashes = np.empty(len(offsets) - 1, dtype=np.int64), np.empty(len(offsets) - 1, dtype=np.int64)
        hash_texts(offsets, data, hashes)
        counts = np.array([self.used, self.free, self.filled])
        find_texts(
            hashes, homes(hashes, len(self.table)), offsets, data, self.table, self.cells, self.column, self.home,
            self.span, self.store, counts, slots,
        )  # fmt: skip
        self.used, self.free, self.filled = counts.tolist()
        return slots

    def _room(self, room: int) -> None:
        super()._room(room)
        self.span = longer(self.span[: self.used], room)

    def drop(self, slots: Ints) -> None:
        self.idle += self._size(slots)
        super().drop(slots)
        if self.idle > LEAST_BYTES and 2 * self.idle > self.filled:
            living = np.sort(self.table[self.table >= 0]).astype(np.int64)
            store = np.zeros(2 * (self.filled - self.idle) + LEAST_BYTES, dtype=np.uint8)
            begins = gather(living, self.span, self.store, store)
            self.span[living, 0] = begins[:-1]
            self.store, self.filled, self.idle = store, int(begins[-1]), 0

    def values(self, slots: Ints) -> pa.Array:
        """The keys themselves."""
        data = np.zeros(self._size(slots), dtype=np.uint8)
        offsets = gather(slots, self.span, self.store, data)
        small = not (pa.types.is_large_string(self.type) or pa.types.is_large_binary(self.type))
        ends = pa.py_buffer(offsets.astype(np.int32 if small else np.int64))
        return pa.Array.from_buffers(self.type, len(slots), [None, ends, pa.py_buffer(data)])

    def bytes(self) -> int:
        return super().bytes() + self.store.nbytes + self.span.nbytes

    def _size(self, slots: Ints) -> int:
        """Return how many bytes the texts of slots have."""
        return int(self.span[slots, 1].sum())

    def dump(self, slots: Ints) -> Any:
        return pa.table({"key": self.values(slots)})

    def load(self, blob: Any) -> None:
        self.find(blob.column("key").combine_chunks())

    def _check(self, taken: Ints) -> None:
        super()._check(taken)
        # every text is found where it is
        assert np.array_equal(self._look(*parts(self.values(taken))), taken)
        assert self.filled - self.idle == self._size(taken) and self.filled <= len(self.store)


def parts(array: pa.Array) -> tuple[Ints, Bytes]:
    """Where the texts of an array begin and end, and their bytes."""
    _, ends, data = array.buffers()
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    if ends is None or not len(array):
        offsets = np.zeros(len(array) + 1, dtype=np.int64)
    else:
        offsets = np.frombuffer(ends, dtype=np.int64 if wide else np.int32)
        offsets = offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
    found = (
        np.zeros(0, dtype=np.uint8) if data is None or not data.size else np.frombuffer(data, dtype=np.uint8)
    )
    found = found.view()
    found.flags.writeable = False
    return offsets, found


@kernel
def hash_texts(offsets: Ints, data: Bytes, out: Ints) -> None:
    """62 bits of each text."""
    for i in range(out.shape[0]):
        one, other = 1, 7
        for j in range(offsets[i], offsets[i + 1]):
            byte = int(data[j]) + 1
            one = one * 700_666_619 + byte
            one = (one & _PRIME) + (one >> 31)
            other = other * 536_870_909 + byte
            other = (other & _PRIME) + (other >> 31)
        out[i] = (one << 30) ^ other


@inlined
def same(slot: int, i: int, offsets: Ints, data: Bytes, span: Ints, store: Bytes) -> bool:
    """Whether the text of a slot is that of a row."""
    size = offsets[i + 1] - offsets[i]
    if span[slot, 1] != size:
        return False
    begin, first = span[slot, 0], offsets[i]
    equal = True
    for j in range(size):
        equal &= store[begin + j] == data[first + j]
    return equal


@kernel
def find_texts(
    hashes: Ints, home: Ints, offsets: Ints, data: Bytes, table: Slots, cells: Ints, column: int, slot_home: Slots,
    span: Ints, store: Bytes, counts: Ints, slots: Ints,
) -> int:  # fmt: skip
    """As `find` of keys.py.

    `counts` are the slots ever handed out, the first free one, and how far the store is filled. The value that it
    returns only keeps reads alive, which bring texts near before they are compared.
    """
    used, free, filled = counts[0], counts[1], counts[2]
    last = table.shape[0] - 1
    ahead = seen = 0
    for i in range(hashes.shape[0]):
        if i == ahead:  # independent reads, so that they don't wait for one another
            ahead = min(i + AHEAD, hashes.shape[0])
            for j in range(i, ahead):
                slots[j] = table[home[j]]
            for j in range(i, ahead):
                if slots[j] >= 0 and cells[slots[j], column] != hashes[j]:
                    slots[j] = -1
            for j in range(i, ahead):
                seen ^= span[max(slots[j], 0), 1]
            for j in range(i, ahead):
                seen ^= store[span[max(slots[j], 0), 0]]
            for j in range(i, ahead):
                if slots[j] >= 0 and not same(slots[j], j, offsets, data, span, store):
                    slots[j] = -1
        if slots[i] >= 0:
            continue
        place = home[i]
        while table[place] >= 0:
            slot = table[place]
            if cells[slot, column] == hashes[i] and same(slot, i, offsets, data, span, store):
                break
            place = (place + 1) & last
        if table[place] < 0:
            slot = free
            if slot >= 0:
                free = slot_home[slot]
            else:
                slot = used
                used += 1
            table[place] = slot
            cells[slot, column] = hashes[i]
            slot_home[slot] = home[i]
            span[slot, 0], span[slot, 1] = filled, offsets[i + 1] - offsets[i]
            for j in range(offsets[i], offsets[i + 1]):
                store[filled] = data[j]
                filled += 1
        slots[i] = table[place]
    counts[0], counts[1], counts[2] = used, free, filled
    return seen


@kernel
def gather(slots: Ints, span: Ints, store: Bytes, out: Bytes) -> Ints:
    """Write the texts of slots one after the other; where each begins, and where the last one ends."""
    begins = np.zeros(slots.shape[0] + 1, np.int64)
    filled = 0
    for i in range(slots.shape[0]):
        begin, size = span[slots[i], 0], span[slots[i], 1]
        for j in range(size):
            out[filled + j] = store[begin + j]
        filled += size
        begins[i + 1] = filled
    return begins
