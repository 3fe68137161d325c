"""Rows as they come out of a file: a table of what could be read, and a list of what could not.

A line of text that doesn't fit (a field too many, "abc" where numbers stand, bytes that aren't UTF-8)
is no reason to stop, and no reason to forget it either. It keeps its place among the rows, so that the
rows after it keep their seq, and it keeps its text, so that a person can look at what it was.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc


class BadRow(NamedTuple):
    """A row that couldn't be read."""

    position: int  # its place among the rows of its chunk, bad ones counted
    detail: str
    raw: str


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of a file. `bad` is sorted by position; `table` holds the others, in order.

    `columns` are those that the file has, where that is known: the table may have others.
    """

    table: pa.Table
    bad: list[BadRow] = field(default_factory=list)
    columns: tuple[str, ...] | None = None

    @property
    def count(self) -> int:
        return int(self.table.num_rows) + len(self.bad)

    def slice(self, start: int, stop: int) -> Chunk:
        """Return the rows at positions start to stop (stop excluded), bad ones counted."""
        if not self.bad:
            return Chunk(self.table.slice(start, stop - start))
        first = bisect_left(self.bad, (start,))
        last = bisect_left(self.bad, (stop,))
        bad = [row._replace(position=row.position - start) for row in self.bad[first:last]]
        return Chunk(self.table.slice(start - first, stop - start - len(bad)), bad)

    def with_gaps(self) -> tuple[pa.Table, dict[int, tuple[str, str]] | None]:
        """Return the rows with an empty one in the place of each bad one, and what is wrong with those and their texts.

        So the other rows keep their seq.
        """
        if not self.bad:
            return self.table, None
        texts = {row.position: (row.detail, row.raw) for row in self.bad}
        places = iter(range(self.table.num_rows))
        order = [None if place in texts else next(places) for place in range(self.count)]
        return self.table.take(pa.array(order, pa.int64())), texts


def cut(chunks: Iterator[Chunk], size: int, every: int | None = None) -> Iterator[Chunk]:
    """The same rows in pieces of at most `size`, with a cut after every `every` rows, exactly."""
    seen = 0
    for chunk in chunks:
        start = 0
        while start < chunk.count:
            room = size if every is None else min(size, every - seen % every)
            stop = min(chunk.count, start + room)
            yield chunk.slice(start, stop)
            seen += stop - start
            start = stop


def cast_each(values: pa.Array[Any], to: pa.DataType) -> tuple[pa.Array[Any], list[int]]:
    """Cast what can be cast; the places of the rest, which come out null.

    Arrow casts a whole array or nothing. Bad values are few, so halving finds them with few casts.
    """
    try:
        return values.cast(to), []
    except pa.ArrowInvalid:
        if len(values) == 1:
            return pa.array([None], to), [0]
    middle = len(values) // 2
    left, left_bad = cast_each(values.slice(0, middle), to)
    right, right_bad = cast_each(values.slice(middle), to)
    return pa.concat_arrays([left, right]), left_bad + [middle + place for place in right_bad]


def text_of(value: bytes) -> str:
    """Return a value to show: its text, or else its bytes in hexadecimal digits."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.hex()


def is_utf8(data: bytes) -> bool:
    """Whether bytes are text; Arrow's readers don't all look."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def cast_texts(texts: pa.Array[Any], to: pa.DataType) -> tuple[pa.Array[Any], list[int]]:
    """Texts as values of a column, and the places of those that aren't."""
    return cast_times(texts, to) if pa.types.is_timestamp(to) else cast_each(texts, to)


def cast_times(texts: pa.Array[Any], to: pa.DataType) -> tuple[pa.Array[Any], list[int]]:
    """Texts as times, with or without a zone; the places of the rest. A time without one is UTC's, whatever `to` is:
    Arrow's reader of JSON takes both, its casts and its reader of CSV don't."""
    zoned = _zoned(texts)
    none = pa.scalar(None, pa.string())
    there, there_bad = cast_each(pc.if_else(zoned, texts, none), pa.timestamp(to.unit, "UTC"))
    bare, bare_bad = cast_each(pc.if_else(zoned, none, texts), pa.timestamp(to.unit))
    ticks = pc.coalesce(there.cast(pa.int64()), bare.cast(pa.int64()))
    return ticks.cast(to), sorted([*there_bad, *bare_bad])


def seems_whole(column: pa.ChunkedArray) -> bool:
    """Whether a column that a reader took for doubles has values beyond 64 bits with a sign: perhaps integers, which
    a reader has no other type for, and which a double can't distinguish."""
    return pa.types.is_float64(column.type) and bool(
        pc.any(pc.greater_equal(pc.abs(column), pa.scalar(2.0**63))).as_py()
    )


def whole_type(texts: pa.Array[Any]) -> pa.DataType | None:
    """Return the type for integers beyond 64 bits with a sign; None if one isn't an integer, or has more than 38
    digits."""
    if not pc.all(pc.match_substring_regex(texts, r"^-?\d+$")).as_py():
        return None
    for kind in (pa.uint64(), pa.decimal128(38, 0)):
        with contextlib.suppress(pa.ArrowInvalid):
            texts.cast(kind)
            return kind
    return None


def digits_fit(table: pa.Table) -> pa.Table:
    """Return the table; an error where a decimal has more digits than its type: Arrow's readers of text don't look."""
    for column in table.columns:
        if pa.types.is_decimal(column.type):
            column.validate(full=True)
    return table


def set_aside(table: pa.Table, bad: dict[int, BadRow], places: list[int]) -> Chunk:
    """Return a chunk of the table's rows but for the bad ones. `places` says where each of its rows stood."""
    if not bad:
        return Chunk(table)
    keep = pa.array([place not in bad for place in places], pa.bool_())
    return Chunk(table.filter(keep), [bad[place] for place in sorted(bad)])


_ZONE = r"[ T]\d.*(Z|[+-][\d:]+)$"  # at the end of a time in ISO 8601
_TIMES = (pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.timestamp("ns", "UTC"))
_NAIVE = (pa.timestamp("us"), pa.timestamp("ns"))
_NUMBERS = (pa.int64(), pa.float64())
# A time is ISO 8601 or a number of seconds, and no text is both. "iso": where a number in quotes is no number, in JSON.
_CANDIDATES = {"time": (*_NAIVE, *_NUMBERS), "iso": _NAIVE, "number": _NUMBERS}
# What a column without any value is, by what it is used for.
VALUELESS = {"time": pa.timestamp("us"), "iso": pa.timestamp("us"), "number": pa.float64()}
# The mark of a column of text that is text because nothing was there: whatever comes is no misfit in it.
UNTOLD = {b"skyband": b"untold"}


def untold(field: pa.Field) -> bool:
    """Whether a column had no value when its type was settled, and no query said what it is."""
    return field.metadata is not None and UNTOLD.items() <= field.metadata.items()


def _zoned(texts: pa.Array[Any]) -> pa.Array[Any]:
    return pc.match_substring_regex(texts, _ZONE)


def with_fractions(kind: pa.DataType) -> pa.DataType:
    """Times of text have microseconds at least: the first of them may show none, the next one some."""
    if pa.types.is_timestamp(kind) and kind.unit in ("s", "ms"):
        return pa.timestamp("us", tz=kind.tz)
    return kind


def times_of(values: pa.Array[Any]) -> pa.DataType | None:
    """Return the timestamp type that these texts have in common, if all of them are times in ISO 8601."""
    sample = values.drop_null()
    for to in _TIMES if len(sample) else ():
        try:
            sample.slice(0, 100).cast(to)
            sample.cast(to)
            return to
        except pa.ArrowInvalid:
            continue
    return None


def meant(values: pa.Array[Any], kind: str) -> pa.DataType | None:
    """Return what a column of text is meant to be that a query uses as a "time" (or "iso": one in ISO 8601) or a
    "number".

    One broken value among the first rows makes a column text to a reader that only looks; here the user
    has said what it is, so the type that most of the values fit is taken and the others are misfits.
    A column without any value is of the type that can take most of what may come.
    """
    sample = values.drop_null()
    sample = sample.filter(pc.not_equal(sample, pa.scalar(""))).slice(0, 1000)
    if not len(sample):
        return VALUELESS[kind]
    # The column of times was named as such; a score's column may yet be the wrong one: most must be numbers.
    best, fewest = None, len(sample) / 2 if kind == "number" else len(sample)
    for to in _CANDIDATES[kind]:
        misfits = len(cast_texts(sample, to)[1])
        if misfits < fewest:
            best, fewest = to, misfits
    if best is not None and pa.types.is_timestamp(best) and pc.any(_zoned(sample)).as_py():
        return pa.timestamp(best.unit, "UTC")  # of times with and without a zone, these are UTC's
    return best


def texts_among(kinds: Mapping[str, str], schema: pa.Schema) -> dict[str, str]:
    """Return those of the columns with a known kind that the file has as text, or as nothing but nulls."""
    return {
        name: kind
        for name, kind in kinds.items()
        if name in schema.names and _is_untold(schema.field(name).type)
    }


def without_rows(names: Sequence[str], kinds: Mapping[str, str]) -> pa.Schema:
    """Return the schema of a file that has a header and no rows: what the query takes the columns for."""
    return pa.schema([pa.field(name, VALUELESS.get(kinds.get(name, ""), pa.string())) for name in names])


def settle(schema: pa.Schema, sample: pa.Table, texts: Mapping[str, str]) -> pa.Schema:
    """The schema with columns of text turned into what they are meant to be."""
    for name, kind in texts.items():
        to = meant(sample[name].combine_chunks().cast(pa.string()), kind)
        if to is not None:
            schema = schema.set(schema.get_field_index(name), pa.field(name, to))
    return schema


def _is_untold(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind))
