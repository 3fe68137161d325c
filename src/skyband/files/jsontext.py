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
import pyarrow.json as pajson

from skyband.errors import InputError
from skyband.files.rows import BadRow, Chunk, cast_each, set_aside, times_of

_BARE_NULL = re.compile(rb"(?:\A|[\n}])[ \t\r\n]*n")


def lines_of(data: bytes) -> list[bytes]:
    """The lines that aren't blank; each is one row."""
    return [line for line in data.split(b"\n") if line.strip()]


def infer_json(data: bytes, name: str = "The input") -> tuple[pa.Schema, list[str]]:
    """The columns and their types, from a first block of lines, and the nested ones, which are left out."""
    try:
        table = _read(data, pajson.ParseOptions())
    except pa.ArrowInvalid:
        table = _infer_slowly(data, name)
    fields, nested = [], []
    for column, values in zip(table.schema, table.columns, strict=True):
        kind = column.type
        if pa.types.is_nested(kind):
            nested.append(column.name)
            continue
        if pa.types.is_null(kind):
            kind = pa.string()
        if pa.types.is_string(kind):
            kind = times_of(values.combine_chunks()) or kind
        fields.append(pa.field(column.name, kind))
    return pa.schema(fields), nested


def bare_null(data: bytes) -> bool:
    """Whether a null may stand where an object should: Arrow's reader (26.0) doesn't survive that."""
    return b"null" in data and _BARE_NULL.search(data) is not None


def _read(data: bytes, options: pajson.ParseOptions) -> pa.Table:
    if bare_null(data):
        raise pa.ArrowInvalid("a line is null")
    size = max(len(data) + 1, 1024)
    return pajson.read_json(io.BytesIO(data), pajson.ReadOptions(block_size=size), options)


def _infer_slowly(data: bytes, name: str) -> pa.Table:
    """A first block with broken lines in it: each column is of the kind that most of its values are."""
    rows = [row for row in map(_object, lines_of(data)) if isinstance(row, dict)]
    if not rows:
        raise InputError(f"{name} has no line that is a JSON object; each line must be one.")
    names = list(dict.fromkeys(key for row in rows for key in row))
    columns: list[pa.Array[Any]] = []
    for key in names:
        values = [row.get(key) for row in rows]
        kinds = Counter(type(value) for value in values if value is not None)
        kind = kinds.most_common(1)[0][0] if kinds else str
        if kind is int and kinds[float]:
            kind = float
        to = _KINDS.get(kind)
        if to is None:
            columns.append(pa.array([{"nested": 1}] * len(rows)))
        else:
            columns.append(pa.array([value if _CHECKS[to](value) else None for value in values], to))
    return pa.table(columns, names=names)


def parse_json_lines(data: bytes, schema: pa.Schema) -> Chunk:
    """Whole lines into rows with the columns of `schema`; other fields are left out."""
    lines = lines_of(data)
    if not lines:
        return Chunk(schema.empty_table())
    try:
        table = _read(data, pajson.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"))
        # Arrow doesn't need line ends between objects; we do, or the rows would have no number.
        if table.num_rows == len(lines) and schema.names:
            return Chunk(table.select(schema.names).cast(schema))
    except pa.ArrowInvalid:
        pass
    return _parse_slowly(lines, schema)


def _object(line: bytes) -> dict[str, Any] | str:
    """The line's object, or what is wrong with the line."""
    try:
        value = json.loads(line)
    except UnicodeDecodeError:
        return "not UTF-8"
    except (ValueError, RecursionError):
        return "not JSON"
    return value if isinstance(value, dict) else "not a JSON object"


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


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
    pa.string(): lambda value: isinstance(value, str),
}


def _parse_slowly(lines: list[bytes], schema: pa.Schema) -> Chunk:
    bad: dict[int, BadRow] = {}

    def reject(place: int, detail: str) -> None:
        bad.setdefault(place, BadRow(place, detail, lines[place].decode("utf-8", "replace").rstrip("\r")))

    rows: list[dict[str, Any]] = []
    for place, line in enumerate(lines):
        row = _object(line)
        if isinstance(row, str):
            reject(place, row)
            row = {}
        rows.append(row)
    columns = []
    for column in schema:
        values = [row.get(column.name) for row in rows]
        # Times stand in JSON as text and are read from it.
        fits = _CHECKS.get(column.type, _CHECKS[pa.string()])
        for place, value in enumerate(values):
            if value is not None and not fits(value):
                reject(place, f"column {column.name}: {json.dumps(value)[:60]} is not {column.type}")
                values[place] = None
        if column.type in _CHECKS:
            if pa.types.is_floating(column.type):
                values = [None if value is None else _float(value) for value in values]
            columns.append(pa.array(values, column.type))
            continue
        typed, wrong = cast_each(pa.array(values, pa.string()), column.type)
        for place in wrong:
            reject(place, f"column {column.name}: {values[place]!r:.60} is not {column.type}")
        columns.append(typed)
    table = pa.table(columns, schema=schema)
    return set_aside(table, bad, list(range(len(lines))))


def _float(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
