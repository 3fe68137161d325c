"""JSON lines: one object a line, the columns by name.

As with CSV, Arrow reads a block at full speed while every line fits the types of the first block, and a
block with a misfit is read again line by line.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson

from skyband.core.errors import InputError
from skyband.files.rows import (
    UNTOLD,
    BadRow,
    Chunk,
    cast_each,
    cast_texts,
    digits_fit,
    is_utf8,
    seems_whole,
    set_aside,
    times_of,
    untold,
    whole_type,
    with_fractions,
)

_BARE_NULL = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|[\n}])[ \t\r\n]*n")
_HALF = re.compile("[\ud800-\udfff]")  # half a character, which JSON can say and UTF-8 can't


def lines_of(data: bytes) -> list[bytes]:
    """Return the lines that aren't blank; each is one row."""
    return [line for line in data.split(b"\n") if line.strip()]


def infer_json(data: bytes, name: str = "The input") -> tuple[pa.Schema, list[str]]:
    """Return the columns and their types, from a first block of lines, and the nested ones, which are left out."""
    try:
        table = _read(data, pajson.ParseOptions()) if is_utf8(data) else _infer_slowly(data, name)
    except pa.ArrowInvalid:
        table = _infer_slowly(data, name)
    fields, nested = [], []
    for column, values in zip(table.schema, table.columns, strict=True):
        kind = column.type
        if pa.types.is_nested(kind):
            nested.append(column.name)
            continue
        if pa.types.is_null(kind):
            fields.append(pa.field(column.name, pa.string(), metadata=UNTOLD))
            continue
        if pa.types.is_string(kind):
            kind = times_of(values.combine_chunks()) or kind
        if seems_whole(values):
            kind = _whole([_told(row, column.name) for row in map(_object, lines_of(data))]) or kind
        fields.append(pa.field(column.name, with_fractions(kind)))
    return pa.schema(fields), nested


def _told(row: dict[str, Any] | str, name: str) -> Any:
    return None if isinstance(row, str) else row.get(name)


def _whole(values: list[Any]) -> pa.DataType | None:
    """Return the type of integers some of which are beyond 64 bits; None if there is another number."""
    if any(type(value) is float for value in values):
        return None
    return whole_type(pa.array([str(value) for value in values if type(value) is int], pa.string()))


def bare_null(data: bytes) -> bool:
    """Whether a null may stand where an object should: Arrow's reader (26.0) doesn't survive that."""
    return b"null" in data and _BARE_NULL.search(data) is not None


def _read(data: bytes, options: pajson.ParseOptions) -> pa.Table:
    if bare_null(data):
        raise pa.ArrowInvalid("a line is null")
    size = max(len(data) + 1, 1024)
    return pajson.read_json(io.BytesIO(data), pajson.ReadOptions(block_size=size), options)


def _infer_slowly(data: bytes, name: str) -> pa.Table:
    """Read a first block with broken lines in it: each column is of the kind that most of its values are."""
    rows = [row for row in map(_object, lines_of(data)) if isinstance(row, dict)]
    if not rows:
        raise InputError(f"{name} has no line that is a JSON object; each line must be one.")
    names = list(dict.fromkeys(key for row in rows for key in row if _is_text(key)))
    columns: list[pa.Array[Any]] = []
    for key in names:
        values = [row.get(key) for row in rows]
        kinds = Counter(type(value) for value in values if value is not None)
        if not kinds:
            columns.append(pa.nulls(len(rows)))
            continue
        kind = kinds.most_common(1)[0][0]
        if kind is int and kinds[float]:
            kind = float
        to = _KINDS.get(kind)
        if kind is int and not all(_is_integer(value) for value in values if type(value) is int):
            to = _whole(values) or pa.float64()
        if to is None:
            columns.append(pa.array([{"nested": 1}] * len(rows)))
        else:
            columns.append(_column(values, to)[0])
    return pa.table(columns, names=names)


def parse_json_lines(data: bytes, schema: pa.Schema) -> Chunk:
    """Whole lines into rows with the columns of `schema`; other fields are left out."""
    lines = lines_of(data)
    anything = {column.name for column in schema if untold(column)}
    schema = pa.schema([column.remove_metadata() for column in schema])
    if not lines:
        return Chunk(schema.empty_table())
    if not is_utf8(data):  # Arrow would take the bytes as they are
        return _parse_slowly(lines, schema, anything)
    try:
        table = _read(data, pajson.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"))
        # Arrow doesn't need line ends between objects; we do, or the rows would have no number.
        if table.num_rows == len(lines) and schema.names:
            return Chunk(digits_fit(table.select(schema.names).cast(schema)))
    except pa.ArrowInvalid:
        pass
    return _parse_slowly(lines, schema, anything)


class _Told(float):
    """A number that remembers its digits: decimals and short floats are read from these, as Arrow reads them."""

    text: str

    def __new__(cls, text: str) -> _Told:
        made = super().__new__(cls, text)
        made.text = text
        return made


class _MinusZero(int):
    """The integer -0: 0, but -0.0 in a column of floats, as Arrow reads it."""

    text = "-0"


def _integer(text: str) -> int:
    return _MinusZero() if text == "-0" else int(text)


def _object(line: bytes, number: type[float] | None = None) -> dict[str, Any] | str:
    """Return the line's object, or what is wrong with the line."""
    try:
        # by itself it would take half a character as bytes
        whole = _integer if b"-0" in line else None
        value = json.loads(line.decode("utf-8-sig"), parse_float=number, parse_int=whole)
    except UnicodeDecodeError:
        return "not UTF-8"
    except (ValueError, RecursionError):
        return "not JSON"
    return value if isinstance(value, dict) else "not a JSON object"


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and (value.isascii() or _HALF.search(value) is None)


_KINDS: dict[type, pa.DataType] = {
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    str: pa.string(),
}
_CHECKS: dict[pa.DataType, Callable[[Any], bool]] = {
    pa.int64(): _is_integer,
    pa.float64(): _is_number,
    pa.bool_(): lambda value: isinstance(value, bool),
    pa.string(): _is_text,
}


def _parse_slowly(lines: list[bytes], schema: pa.Schema, anything: set[str]) -> Chunk:
    """Line by line. What fits is the same as in a block without a misfit: a row doesn't depend on its neighbours.

    A column of text that may have `anything` takes what is no text as its JSON.
    """
    bad: dict[int, BadRow] = {}

    def reject(place: int, detail: str) -> None:
        bad.setdefault(place, BadRow(place, detail, lines[place].decode("utf-8", "replace").rstrip("\r")))

    plain = all(column.type in _CHECKS for column in schema)
    rows: list[dict[str, Any]] = []
    for place, line in enumerate(lines):
        row = _object(line, None if plain else _Told)
        if isinstance(row, str):
            reject(place, row)
            row = {}
        rows.append(row)
    columns = []
    for column in schema:
        values = [row.get(column.name) for row in rows]
        if column.name in anything:
            values = [v if v is None or isinstance(v, str) else json.dumps(v) for v in values]
        typed, wrong = _column(values, column.type)
        for place in wrong:
            value = values[place]
            quoted = isinstance(value, str) and column.type not in _CHECKS
            shown = repr(value) if quoted else json.dumps(value)
            reject(place, f"column {column.name}: {shown[:60]} is not {column.type}")
        columns.append(typed)
    table = pa.table(columns, schema=schema)
    return set_aside(table, bad, list(range(len(lines))))


def _column(values: list[Any], to: pa.DataType) -> tuple[pa.Array[Any], list[int]]:
    """Values as a column, and the places of those that don't fit, which come out null."""
    fits = _check(to)
    wrong = [place for place, value in enumerate(values) if value is not None and not fits(value)]
    if wrong:
        values = [value if value is not None and fits(value) else None for value in values]
    if pa.types.is_float64(to):
        return pa.array([None if value is None else _float(value) for value in values], to), wrong
    if to in _CHECKS or pa.types.is_integer(to):
        return pa.array(values, to), wrong
    texts = pa.array([None if value is None else _text(value) for value in values], pa.string())
    if pa.types.is_date32(to):  # a number is days, as Arrow has it
        days = pa.array([value if isinstance(value, int) else None for value in values], pa.int32())
        texts = pc.if_else(pc.is_valid(days), pa.scalar(None, pa.string()), texts)
        typed, misfits = cast_each(texts, to)
        typed = pc.coalesce(typed, days.cast(to))
    else:
        typed, misfits = cast_texts(texts, to)
    return typed, sorted({*wrong, *misfits})


def _check(to: pa.DataType) -> Callable[[Any], bool]:
    """Whether a value of JSON is of a kind that a type may be made of."""
    if to in _CHECKS:
        return _CHECKS[to]
    if pa.types.is_floating(to):
        return _is_number
    if pa.types.is_decimal(to):
        return lambda value: _is_number(value) or _is_text(value)
    if not pa.types.is_integer(to) and not pa.types.is_date32(to):
        return _is_text  # times stand in JSON as text
    unsigned, may_be_text = pa.types.is_unsigned_integer(to), pa.types.is_date32(to)
    bits = int(to.bit_width)
    least, end = (0, 1 << bits) if unsigned else (-(1 << bits - 1), 1 << bits - 1)

    def fits(value: Any) -> bool:
        if isinstance(value, int) and not isinstance(value, bool):
            return least <= value < end
        return may_be_text and _is_text(value)

    return fits


def _text(value: str | int | float) -> str:
    return value if isinstance(value, str) else getattr(value, "text", None) or str(value)


def _float(value: int | float) -> float:
    if isinstance(value, _MinusZero):
        return -0.0
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
