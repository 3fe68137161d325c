"""Update streams: rows that replace and delete earlier rows of the same key.

A plain stream only ever adds rows. An update stream has a key column, and of a key's rows only the last one to
arrive is *live*: a row with a known key replaces the one before it, and a delete ends it without a successor. The
row that goes leaves every answer at once, but keeps its place in a row window, so that windows of n rows stay the
suffixes of the recency order that everything else is built on. A delete is a message about a row, not a row: it
has a seq, and its event time, if it has one, moves `now`, but it takes no place in a row window and is in no answer.

"Last" is by arrival, not by event time: that is the order in which a database's log has its changes, and clocks
may go back. So a row that comes late, but for its time, replaces a row that is stamped later; and a row that is
rejected because it is older than every window still ends the row that it was to replace. Else an answer would depend
on how the stream was cut into steps. A row rejected for any other reason changes nothing.

What is kept is a table from key to the recency of its live row. Keys become small numbers, *slots* (keys.py). What
happens then to the slots, row by row, is one compiled loop. A key is forgotten when its row is older than
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

from skyband.compiling.jit import kernel
from skyband.core.errors import InputError
from skyband.core.types import LOWEST, Ints, Recency
from skyband.stream.arrow import values_of
from skyband.stream.keys import LEAST_ROOM, Keys, can_be_key, keys_for, longer

Codes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]

DATA, DELETE, LATE, UNREAD = 0, 1, 2, 3
"""What a row is: one that may be answered with; a delete; one rejected as late, which only ends its key's row."""

WORDS = {"insert": DATA, "update": DATA, "delete": DELETE, "c": DATA, "r": DATA, "u": DATA, "d": DELETE}
COUNTED = ("new", "replaced", "deleted", "unknown")
SWEEP = (
    4  # so many slots are looked at for each row that comes: a third of the slots waits to be cleared at most
)
ENDED, FREE = -1, -2
"""Instead of a live row's seq: its key is still here; the slot has no key."""


# -- reading the two columns -------------------------------------------------------------------------------------


def must_be_key(name: str, type_: pa.DataType) -> None:
    """An error if a column of this type can't be a key."""
    if not can_be_key(type_):
        raise InputError(
            f'The key column "{name}" is {type_}, which can\'t be a key: take a column of numbers, texts or times.'
        )


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
    meaning = [WORDS.get(word.lower(), UNREAD) for word in encoded.dictionary.to_pylist()]
    codes = np.array([*meaning, UNREAD], dtype=np.uint8)  # the last is for nulls
    found: Codes = codes[values_of(pc.fill_null(encoded.indices, len(meaning)))]
    return found


def keyless(array: pa.Array) -> Bools:
    """Which rows have no key: a null, or a NaN, which equals nothing, not even itself."""
    missing = values_of(pc.is_null(array, nan_is_null=pa.types.is_floating(array.type)))
    return np.asarray(missing, dtype=bool)


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
        self.keys: Keys | None = None  # once the column's type is known
        self.time = np.empty(0, dtype=np.int64)  # of each slot's live row
        self.seq = np.empty(0, dtype=np.int64)  # or ENDED, or FREE
        self.hand = 0  # the slot to be looked at next, for clearing
        self.floor = LOWEST  # of the last step
        self.counts = np.zeros(len(COUNTED), dtype=np.int64)

    def apply(self, keys: pa.Array, codes: Codes, time: Ints, seq: Ints, floor: Recency) -> Outcome:
        """Take a step's rows, in order of arrival. Nothing older than the floor is watched or retained any more."""
        if self.keys is None:
            self.keys = keys_for(keys.type)
        if floor < self.floor:  # a longer window is watched now: what was forgotten stays so, swept or not
            self._sweep(self.keys.used, self.floor)
        self.floor = floor
        self._sweep(SWEEP * len(keys), floor)
        slots = self.keys.find(keys)
        if self.keys.used > len(self.seq):
            room = max(LEAST_ROOM, self.keys.used + self.keys.used // 2)
            self.time, self.seq = longer(self.time, room), longer(self.seq, room, FREE)
        gone_time, gone_seq = np.empty(len(seq), dtype=np.int64), np.empty(len(seq), dtype=np.int64)
        gone = settle(
            slots, codes, time, seq, self.time, self.seq, floor.time, floor.seq, gone_time, gone_seq, self.counts
        )  # fmt: skip
        gone_time, gone_seq = gone_time[:gone], gone_seq[:gone]
        place = np.searchsorted(seq, gone_seq)
        early = seq.take(place, mode="clip") != gone_seq if len(seq) else np.ones(0, dtype=bool)
        live: Bools | None = None
        if not early.all():  # rows that came and went within the step
            live = np.ones(len(seq), dtype=bool)
            live[place[~early]] = False
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
            self.keys = keys_for(type_)
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
