"""Numbers for texts: `WHERE g = 'a'` as a limit on an axis of numbers.

An index that keeps the window's rows has columns of numbers. So each text that a query compares a column with gets a
number, the same for all queries of the stream and for ever, and a column of texts becomes one of these numbers; a text
that no query names, and a null, is NaN, which is in no limits. Then queries with different texts are one family with a
box each, and rows whose text no query names are rejected with all others.

A text that is named later has no number in the rows that are stored by then. Where no rows are retained that makes no
difference, since a new watch has no rows from before. Where some are retained such a text belongs to a new *epoch*, and
the watches that name it to another family, which gets the retained rows with their numbers.

**How.** One compiled loop looks texts up in a small hash table: some nanoseconds a row. Until it is compiled, Arrow's
`index_in` serves.

**What is kept.** The texts that queries name or have named, a few dozen bytes each; those that no watch names any more
are dropped when they are most. A number is never used again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.compiling.jit import kernel
from skyband.core.types import Floats, Ints
from skyband.stream.text_keys import Bytes, parts

LEAST = 1024  # texts, up to which none is dropped
HASHED = 16  # bytes of a text that its hash is made of
_NOTHING: Bytes = np.empty(0, dtype=np.uint8)
_NOTHING.flags.writeable = False


class Named:
    """The texts of one column that have numbers."""

    def __init__(self, texts: Mapping[str, tuple[int, int]], type_: pa.DataType) -> None:
        array = pa.array([*texts], type_)
        self.numbers: Floats = np.array([number for number, _ in texts.values()] + [np.nan])
        self.options = pc.SetLookupOptions(array)
        offsets, data = parts(array)
        self.table = np.full(1 << (2 * len(texts) + 1).bit_length(), -1, dtype=np.int32)
        fill(offsets, data, self.table)
        self.known = offsets, data, self.table, self.numbers

    def of(self, values: pa.Array) -> Floats:
        """Return the number of each text; NaN for one without a number, and for null."""
        valid = np.frombuffer(values.buffers()[0], dtype=np.uint8) if values.null_count else _NOTHING
        out = np.empty(len(values))
        given = *parts(values), valid, values.offset, *self.known, out
        if find.is_available(given):
            find(*given)
            return out
        at = pc.fill_null(pc.index_in(values, options=self.options), len(self.numbers) - 1)
        found: Floats = self.numbers.take(at.to_numpy())
        return found


def fill(offsets: Ints, data: Bytes, table: npt.NDArray[np.int32]) -> None:
    """Enter texts, all of which are different, into a hash table."""
    for text in range(len(offsets) - 1):
        place = hash_of.function(int(offsets[text]), int(offsets[text + 1]), data) & (len(table) - 1)
        while table[place] >= 0:
            place = (place + 1) & (len(table) - 1)
        table[place] = text


@kernel
def hash_of(begin: int, end: int, data: Bytes) -> int:
    """Return a hash of the first bytes of a text, and of its length."""
    found = end - begin
    for i in range(begin, min(end, begin + HASHED)):
        found = (found * 31 + int(data[i])) & 0x7FFFFFFF
    return int(found)


@kernel
def find(
    offsets: Ints, data: Bytes, valid: Bytes, first: int, known: Ints, bytes_: Bytes, table: npt.NDArray[np.int32],
    numbers: Floats, out: Floats,
) -> None:  # fmt: skip
    """Look up texts; those that aren't known get the last number. `valid` is a bitmap whose first bits are others'."""
    last = table.shape[0] - 1
    for i in range(out.shape[0]):
        out[i] = numbers[numbers.shape[0] - 1]
        if valid.shape[0] > 0 and not (valid[(first + i) >> 3] >> ((first + i) & 7)) & 1:
            continue
        begin, size = offsets[i], offsets[i + 1] - offsets[i]
        place = hash_of(begin, begin + size, data) & last
        while table[place] >= 0:
            text = table[place]
            other = known[text]
            same = known[text + 1] - other == size
            if same:
                for j in range(size):
                    same &= data[begin + j] == bytes_[other + j]
            if same:
                out[i] = numbers[text]
                break
            place = (place + 1) & last


def is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


class TextNumbers:
    """Numbers for the texts that queries compare the columns of one stream with."""

    def __init__(self, retains: bool = False) -> None:
        self.retains = retains  # whether rows may be shown to watches that come later
        self.known: dict[str, dict[str, tuple[int, int]]] = {}  # by column and text: number and epoch
        self.next = 0  # number
        self.now = 0  # epoch
        self._most = LEAST  # texts, before those that are no longer named are looked for
        self._used = False  # whether rows have been numbered in this epoch
        self._sets: dict[str, Named] = {}

    def number(self, column: str, text: str) -> float:
        """Return the number of a text, which gets one if it has none."""
        texts = self.known.setdefault(column, {})
        if text not in texts:
            if self._used and self.retains:
                self.now, self._used = self.now + 1, False
            texts[text] = self.next, self.now
            self.next += 1
            self._sets.pop(column, None)
        return float(texts[text][0])

    def epoch(self, column: str, text: str) -> int:
        """Return when a text got its number; 0 if it has none."""
        return self.known.get(column, {}).get(text, (0, 0))[1]

    def numbers(self, column: str, values: pa.Array) -> Floats:
        """Return a column's texts as numbers, NaN for a text without one and for null."""
        self._used = True
        known = self._sets.get(column)
        if known is None:
            known = self._sets[column] = Named(self.known.get(column, {}), values.type)
        return known.of(values)

    def keep(self, named: Callable[[], set[tuple[str, str]]]) -> None:
        """Drop the texts that no query names any more, now and then."""
        if sum(map(len, self.known.values())) <= self._most:
            return
        still = named()
        self.known = {
            column: {text: each for text, each in texts.items() if (column, text) in still}
            for column, texts in self.known.items()
        }
        self._sets = {}
        self._most = LEAST + 2 * len(still)

    def dump(self) -> dict[str, Any]:
        rows = [(column, text, *each) for column, texts in self.known.items() for text, each in texts.items()]
        names = ("column", "text", "number", "epoch")
        types = (pa.string(), pa.string(), pa.int64(), pa.int64())
        columns = [[row[i] for row in rows] for i in range(len(names))]
        table = pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=[*names])
        return {"known": table, "next": self.next, "now": self.now, "used": self._used}

    def load(self, blob: Mapping[str, Any]) -> None:
        self.known, self._sets = {}, {}
        for row in blob["known"].to_pylist():
            self.known.setdefault(row["column"], {})[row["text"]] = row["number"], row["epoch"]
        self.next, self.now, self._used = int(blob["next"]), int(blob["now"]), bool(blob["used"])
