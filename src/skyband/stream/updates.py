"""Update streams: rows that replace and delete earlier rows of the same key.

A plain stream only ever adds rows. An update stream has a key column, and of a key's rows only the last one to
arrive is *live*: a row with a known key replaces the one before it, and a delete ends it without a successor. The
row that goes leaves every answer at once, but keeps its place in a row window, so that windows of n rows stay the
suffixes of the recency order that everything else is built on. A delete is a message about a row, not a row: it
has a seq, and its event time, if it has one, moves `now`, but it takes no place in a row window and is in no answer.

"Last" is by arrival, not by event time: that is the order in which a database's log tells of its changes, and clocks
may go back. So a row that comes late, but for its time, replaces a row that is stamped later; and a row that is
rejected because it is older than every window still ends the row that it was to replace. Else an answer would depend
on how the stream was cut into steps. A row rejected for any other reason changes nothing.

What is kept is a table from key to the recency of its live row. Keys become small numbers, *slots*: numbers, times and
truths by a hash table of their 64 bits, anything else by a dict that is asked once for each distinct value of a
batch. What happens then to the slots, row by row, is one compiled loop. A key is forgotten when its row is older than
everything that is still watched or retained, so the table is as large as the longest window at most. It forgets a few
at a time, at each step, so that no step takes long; that can't be seen, for rows before that floor count as unknown at
once.

Cost: a tenth of a microsecond a row for numbers, some microseconds for each distinct value of a batch for others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import InputError
from skyband.jit import kernel
from skyband.stream.arrow import values_of
from skyband.stream.window import LOWEST, Ints, Recency

Codes = npt.NDArray[np.uint8]
Slots = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

DATA, DELETE, LATE, UNREAD = 0, 1, 2, 3
"""What a row is: one that may be answered with; a delete; one rejected as late, which only ends its key's row."""

WORDS = {"insert": DATA, "update": DATA, "delete": DELETE, "c": DATA, "r": DATA, "u": DATA, "d": DELETE}
COUNTED = ("new", "replaced", "deleted", "unknown")
LEAST_ROOM = 1024
SWEEP = (
    4  # so many slots are looked at for each row that comes: a third of the slots waits to be cleared at most
)
ENDED, FREE = -1, -2
"""Instead of a live row's seq: its key is still here; the slot has no key."""


# -- reading the two columns -------------------------------------------------------------------------------------


def must_be_key(name: str, type_: pa.DataType) -> None:
    """An error if a column of this type can't be a key."""
    if _is_plain(type_) or pa.types.is_null(type_):
        return
    try:
        pa.array([], type_).dictionary_encode()
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        raise InputError(
            f'The key column "{name}" is {type_}, which can\'t be a key: take a column of numbers, texts or times.'
        ) from None


def must_be_op(name: str, type_: pa.DataType) -> None:
    if not (pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_null(type_)):
        raise InputError(
            f'The op column "{name}" is {type_}; it must be a text: insert, update or delete, or c, u, d.'
        )


def operations(array: pa.Array) -> Codes:
    """DATA or DELETE for each row; UNREAD where the column says nothing that is known."""
    if array.null_count == len(array):
        return np.full(len(array), UNREAD, dtype=np.uint8)
    encoded = array.dictionary_encode()
    told = [WORDS.get(word.lower(), UNREAD) for word in encoded.dictionary.to_pylist()]
    codes = np.array([*told, UNREAD], dtype=np.uint8)  # the last is for nulls
    found: Codes = codes[values_of(pc.fill_null(encoded.indices, len(told)))]
    return found


def keyless(array: pa.Array) -> Bools:
    """Which rows have no key: a null, or a NaN, which equals nothing, not even itself."""
    missing = values_of(pc.is_null(array, nan_is_null=pa.types.is_floating(array.type)))
    return np.asarray(missing, dtype=bool)


# -- keys as small numbers ---------------------------------------------------------------------------------------


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
        self.key = _longer(self.key, room)
        self.home = _longer(self.home, room)
        places = 1 << int(2 * room - 1).bit_length()
        if places > len(self.table):
            slots = self.table[self.table >= 0]
            self.home[slots] = _homes(self.key[slots], places)
            self.table = np.full(places, -1, dtype=np.int32)
            place(slots, self.table, self.home)

    def drop(self, slots: Ints) -> None:
        """Forget the keys of these slots."""
        self.free = drop(slots, self.table, self.home, self.free)

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
        self.values: list[Any] = []  # of each slot
        self.free: list[int] = []

    @property
    def used(self) -> int:
        return len(self.values)

    def find(self, array: pa.Array) -> Ints:
        encoded = array.dictionary_encode()
        values, known, free = encoded.dictionary.to_pylist(), self.slots, self.free
        found: list[Any] = list(map(known.get, values))
        for code in [code for code, slot in enumerate(found) if slot is None]:
            value = values[code]
            if free:
                slot = free.pop()
                self.values[slot] = value
            else:
                slot = len(self.values)
                self.values.append(value)
            known[value] = found[code] = slot
        slots: Ints = np.array(found, dtype=np.int64)[values_of(encoded.indices)]
        return slots

    def drop(self, slots: Ints) -> None:
        for slot in slots.tolist():
            del self.slots[self.values[slot]]
            self.values[slot] = None
            self.free.append(slot)

    def bytes(self) -> int:
        texts = sum(len(value) for value in self.values if isinstance(value, str | bytes))
        return texts + 150 * len(self.values)  # about what Python's objects and the dict take

    def dump(self, slots: Ints) -> Any:
        return pa.table({"key": pa.array([self.values[slot] for slot in slots.tolist()], self.type)})

    def load(self, blob: Any) -> None:
        self.find(blob.column("key").combine_chunks())

    def _check(self, taken: Ints) -> None:
        # every value has its slot, and all other slots wait to be handed out again
        assert sorted(self.slots.values()) == taken.tolist()
        assert all(self.values[slot] == value for value, slot in self.slots.items())
        assert sorted([*self.free, *taken.tolist()]) == list(range(self.used))


def _longer(array: npt.NDArray[Any], length: int, rest: int = 0) -> Any:
    new = np.full(length, rest, dtype=array.dtype)
    new[: len(array)] = array
    return new


def _is_plain(type_: pa.DataType) -> bool:
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
    for i in range(keys.shape[0]):
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


# -- what happens to the rows ------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """What a step did to the live rows of a stream."""

    live: Bools | None  # of the step's data rows, in order of arrival: which are live at its end; None: all
    time: Ints  # recencies of the rows of earlier steps that were deleted or replaced
    seq: Ints


class Updates:
    """The live row of every key of one stream."""

    def __init__(self, key: str, op: str | None) -> None:
        self.key, self.op = key, op
        self.keys: PlainKeys | ValueKeys | None = None  # once the column's type is known
        self.time = np.empty(0, dtype=np.int64)  # of each slot's live row
        self.seq = np.empty(0, dtype=np.int64)  # or ENDED, or FREE
        self.hand = 0  # the slot to be looked at next, for clearing
        self.floor = LOWEST  # of the last step
        self.counts = np.zeros(len(COUNTED), dtype=np.int64)

    def apply(self, keys: pa.Array, codes: Codes, time: Ints, seq: Ints, floor: Recency) -> Outcome:
        """Take a step's rows, in order of arrival. Nothing older than the floor is watched or retained any more."""
        if self.keys is None:
            self.keys = PlainKeys(keys.type) if _is_plain(keys.type) else ValueKeys(keys.type)
        if floor < self.floor:  # a longer window is watched now: what was forgotten stays so, swept or not
            self._sweep(self.keys.used, self.floor)
        self.floor = floor
        self._sweep(SWEEP * len(keys), floor)
        slots = self.keys.find(keys)
        if self.keys.used > len(self.seq):
            room = max(LEAST_ROOM, self.keys.used + self.keys.used // 2)
            self.time, self.seq = _longer(self.time, room), _longer(self.seq, room, FREE)
        gone_time, gone_seq = np.empty(len(seq), dtype=np.int64), np.empty(len(seq), dtype=np.int64)
        gone = settle(
            slots, codes, time, seq, self.time, self.seq, floor.time, floor.seq, gone_time, gone_seq, self.counts
        )  # fmt: skip
        gone_time, gone_seq = gone_time[:gone], gone_seq[:gone]
        early = gone_seq < (seq[0] if len(seq) else 0)
        live: Bools | None = None
        if not early.all():  # rows that came and went within the step
            live = np.ones(len(seq), dtype=bool)
            live[np.searchsorted(seq, gone_seq[~early])] = False
            live = live[codes == DATA]
        return Outcome(live, gone_time[early], gone_seq[early])

    def _sweep(self, count: int, floor: Recency) -> None:
        """Look at some slots more, in turn, and forget the keys that have no live row."""
        assert self.keys is not None
        used = self.keys.used
        count = min(count, used)
        end = self.hand + count
        for part in (slice(self.hand, min(end, used)), slice(0, max(end - used, 0))):
            dead = ~self._inside(part, floor) & (self.seq[part] != FREE)
            slots = part.start + np.flatnonzero(dead)
            self.keys.drop(slots)
            self.seq[slots] = FREE
        self.hand = end % used if used else 0

    def _inside(self, part: slice, floor: Recency) -> Bools:
        """Which of these slots have a live row at or after the floor."""
        time, seq = self.time[part], self.seq[part]
        inside = (time > floor.time) | ((time == floor.time) & (seq >= floor.seq))
        return np.asarray(inside & (seq >= 0))

    def _live(self) -> Ints:
        """The slots that have a live row at or after the floor, the first to arrive first."""
        part = slice(0, 0 if self.keys is None else self.keys.used)
        slots = np.flatnonzero(self._inside(part, self.floor))
        return slots[np.argsort(self.seq[slots])]

    def counted(self) -> dict[str, int]:
        """Rows with a new key, that replaced one, that deleted one, and deletes of keys not known."""
        return dict(zip(COUNTED, self.counts.tolist(), strict=True))

    def known(self) -> int:
        """How many keys have a live row."""
        return len(self._live())

    def bytes(self) -> int:
        return self.time.nbytes + self.seq.nbytes + (0 if self.keys is None else self.keys.bytes())

    # -- keeping -------------------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        blob: dict[str, Any] = {"counts": self.counts.copy()}
        if self.keys is None:
            return blob
        slots = self._live()
        return {
            **blob,
            "floor": list(self.floor),
            "type": pa.schema([("key", self.keys.type)]).empty_table(),
            "keys": self.keys.dump(slots),
            "live_time": self.time[slots],
            "live_seq": self.seq[slots],
        }

    def load(self, blob: dict[str, Any]) -> None:
        self.counts = blob["counts"].copy()
        if "keys" in blob:
            self.floor = Recency(*blob["floor"])
            type_ = blob["type"].schema.field("key").type
            self.keys = PlainKeys(type_) if _is_plain(type_) else ValueKeys(type_)
            self.keys.load(blob["keys"])
            self.time, self.seq = blob["live_time"].copy(), blob["live_seq"].copy()

    def _check(self) -> None:
        if self.keys is None:
            return
        # places not handed out yet are free
        assert len(self.time) == len(self.seq) >= self.keys.used
        assert (self.seq[self.keys.used :] == FREE).all()
        # no row is the live one of two keys
        rows = self.seq[self.seq >= 0]
        assert len(np.unique(rows)) == len(rows)
        self.keys._check(np.flatnonzero(self.seq != FREE))


@kernel
def settle(
    slots: Ints, codes: Codes, time: Ints, seq: Ints, live_time: Ints, live_seq: Ints, floor_time: int, floor_seq: int,
    gone_time: Ints, gone_seq: Ints, counts: Ints,
) -> int:  # fmt: skip
    """Let each row end the live row of its key and, if it is one itself, take its place. Returns how many went."""
    gone = 0
    for i in range(slots.shape[0]):
        slot = slots[i]
        known = live_seq[slot] >= 0 and (
            live_time[slot] > floor_time or (live_time[slot] == floor_time and live_seq[slot] >= floor_seq)
        )
        if known:
            gone_time[gone] = live_time[slot]
            gone_seq[gone] = live_seq[slot]
            gone += 1
        if codes[i] == 0:
            live_time[slot] = time[i]
            live_seq[slot] = seq[i]
            counts[1 if known else 0] += 1
        else:
            live_seq[slot] = -1  # ENDED
            if codes[i] == 1:
                counts[2 if known else 3] += 1
            elif known:
                counts[1] += 1
    return gone
