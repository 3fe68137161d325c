"""From the values of records to rows.

A record's value is a JSON object (one row), an Arrow IPC stream (any number of rows), or Avro or Protobuf written
with a schema registry (one row). What can't be read is one row that doesn't fit: it keeps its place, its seq and its
text, and ends up among the rejects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.files.jsontext import parse_json_lines
from skyband.files.rows import BadRow, Chunk, text_of
from skyband.stream.arrow import check_sound

from .registered import registered_values

Values: TypeAlias = pa.BinaryArray
_LARGEST_SCALE = 76


class Form(NamedTuple):
    """What the values of a stream's records are."""

    values: str = "json"
    registry: str | None = None  # of Avro and Protobuf: the URL of the one that has the schemas


def value_chunks(form: Form, values: Values, schema: pa.Schema) -> Iterator[tuple[int, Chunk]]:
    """The rows of consecutive values, in pieces of one set of columns, each with the place of its first value."""
    if form.registry is not None:
        yield from registered_values(form.values, form.registry, values, schema)
    elif form.values == "arrow":
        yield from arrow_values(values, schema)
    else:
        yield 0, json_values(values, schema)


def json_values(values: Values, schema: pa.Schema) -> Chunk:
    """A row for each value."""
    lines = _as_lines(values)
    if lines is None:
        return _one_by_one(values, schema)
    chunk = parse_json_lines(lines, schema)
    return Chunk(chunk.table, [row._replace(raw=text_of(values[row.position].as_py())) for row in chunk.bad])


def _as_lines(values: Values) -> bytes | None:
    """The values as lines, as they mostly are: each begins an object, and none has a line end in it."""
    if values.null_count or not len(values):
        return None
    _, ends, data = values.buffers()
    edges = np.frombuffer(ends, np.int32)[values.offset : values.offset + len(values) + 1]
    if data is None or (edges[1:] == edges[:-1]).any():
        return None
    text = np.frombuffer(data, np.uint8)
    if (text[edges[:-1]] != ord("{")).any():
        return None
    own = text[edges[0] : edges[-1]].tobytes()
    if b"\n" in own or b"\r" in own:
        return None
    whole = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    lines: bytes = pc.binary_join(whole, b"\n")[0].as_py()
    return lines


def _one_by_one(values: Values, schema: pa.Schema) -> Chunk:
    """The same, whatever the values are."""
    there = [(place, value) for place, value in enumerate(values.to_pylist()) if value and value.strip()]
    # Inside an object a line end is a blank; between lines it isn't.
    lines = [value.replace(b"\n", b" ").replace(b"\r", b" ") for _, value in there]
    chunk = parse_json_lines(b"\n".join(lines), schema)
    known = {place for place, _ in there}
    bad = [BadRow(place, "the record has no value", "") for place in range(len(values)) if place not in known]
    for row in chunk.bad:
        place, value = there[row.position]
        bad.append(BadRow(place, row.detail, text_of(value)))
    return Chunk(chunk.table, sorted(bad))


def arrow_values(values: Values, schema: pa.Schema) -> Iterator[tuple[int, Chunk]]:
    """All rows of each value; values with the same columns go together."""
    tables: list[pa.Table] = []
    bad: list[BadRow] = []
    first = rows = 0
    for place, value in enumerate(values.to_pylist()):
        found = _table(value, schema)
        if isinstance(found, str):
            bad.append(BadRow(rows, found, "" if value is None else text_of(value)))
            rows += 1
            continue
        if tables and not tables[0].schema.equals(found.schema):
            yield first, Chunk(pa.concat_tables(tables), bad)
            tables, bad, first, rows = [], [], place, 0
        tables.append(found)
        rows += found.num_rows
    if tables or bad:
        yield first, Chunk(pa.concat_tables(tables) if tables else schema.empty_table(), bad)


def _table(value: bytes | None, schema: pa.Schema) -> pa.Table | str:
    """The rows of a value in the stream's columns, or what is wrong with it."""
    if not value:
        return "the record has no value"
    try:
        found = pa.ipc.open_stream(value).read_all()
        there = Counter(found.column_names)
        wanted = [name for name in schema.names if name in there]
        twice = next((name for name in wanted if there[name] > 1), None)
        if twice is not None:
            return f"the record has more than one column named {twice!r}"
        found = found.select(wanted)
        _check(found)
    except (pa.ArrowException, OSError, ValueError, IndexError) as problem:
        return f"not an Arrow IPC stream: {(str(problem).splitlines() or [''])[0]}"
    return found


def _check(table: pa.Table) -> None:
    """An error if the table can't be looked at."""
    check_sound(table)
    for kind in table.schema.types:
        if pa.types.is_decimal(kind) and abs(kind.scale) > _LARGEST_SCALE:
            raise pa.ArrowInvalid(f"a decimal of scale {kind.scale}")
