"""From the bytes of a request to rows: JSON, JSON lines, CSV and Arrow.

A body is read against what is known of its stream, so that the common case, rows like those before them, goes through
Arrow's own readers at full speed. Whatever doesn't fit there is read again slowly, value by value, and comes out as
the monitor would take it from Python. A row that can't be read at all keeps its place and its text and becomes a
reject; a body in which nothing can be read is an error.

Arrow is trusted with nothing: columns are validated to the last offset before they are read, and compressed
ones are refused, because a few kilobytes of them can stand for all of the memory.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson

from skyband.core.errors import InputError
from skyband.durable.codec import Packed
from skyband.files.csvtext import csv_texts, header_of, infer_csv, parse_csv, unclosed_quote
from skyband.files.jsontext import bare_null
from skyband.files.rows import is_utf8, settle, texts_among
from skyband.server.problems import Problem, limit
from skyband.server.settings import Settings
from skyband.stream.arrow import check_sound
from skyband.stream.batches import names_of, read

JSON, LINES, CSV = "application/json", "application/x-ndjson", "text/csv"
ARROW = "application/vnd.apache.arrow.stream"
_OTHER_NAMES = {"application/jsonl": LINES, "application/x-jsonlines": LINES, "application/json-lines": LINES}
_COMPRESSION = 3  # the field of an Arrow record batch's header
_QUICK = (
    pa.types.is_float64,
    pa.types.is_int64,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_timestamp,
)
_LONGEST_RAW = 10_000  # characters kept of a row that can't be read


@dataclass(frozen=True)
class Known:
    """What is known of the stream that a body is for."""

    schema: pa.Schema | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)  # what CSV's columns are meant to be: time, number


@dataclass(frozen=True)
class Body:
    """A batch as Monitor.push takes it, and its rows that couldn't be read: by position, what is wrong and the text."""

    batch: Any
    rows: int
    unread: dict[int, tuple[str, str]] | None = None
    packed: Packed | None = None  # the same with its Arrow IPC stream, if it came as one


def read_body(data: bytes, content_type: str | None, known: Known, settings: Settings) -> Body:
    """Return the rows of a body; a Problem or an InputError if it isn't what it says."""
    kind = (content_type or "").split(";")[0].strip().lower()
    reader = _READERS.get(_OTHER_NAMES.get(kind, kind))
    if reader is None:
        raise Problem(
            "unsupported_type",
            f"Rows can't be read as {kind or 'a body without Content-Type'}: send {', '.join(_READERS)}.",
        )
    try:
        body = reader(data, known)
        raw, rows = read(body.batch)
    except (pa.ArrowException, UnicodeError, RecursionError, OverflowError) as error:
        said = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise InputError(f"The body can't be read as {kind} ({said}): check what is sent.") from None
    rows = max(rows, body.rows)
    if rows > settings.max_rows:
        raise limit("The number of rows", f"{rows:,}", "--max-rows", settings.max_rows)
    names = names_of(raw)
    if not names and rows:
        return _without_columns(body, known)
    if len(names) > settings.max_columns:
        raise limit("The number of columns", f"{len(names):,}", "--max-columns", settings.max_columns)
    if any(not name or len(name) > 1000 for name in names):
        raise InputError("A column has no name, or one of more than 1,000 characters: name each one.")
    return Body(raw, rows, body.unread, body.packed)


def _without_columns(body: Body, known: Known) -> Body:
    """Rows in which nothing is said: all null, in a stream that has columns."""
    if known.schema is None or not known.schema.names:
        raise InputError("No row of the body can be read, or none has a column: name its columns.")
    field = known.schema.field(0)
    return Body({field.name: pa.chunked_array([pa.nulls(body.rows, field.type)])}, body.rows, body.unread)


# -- JSON ----------------------------------------------------------------------------------------------------


def _json(data: bytes, known: Known) -> Body:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"The body is not JSON ({str(error)[:100]}): send an array of objects.") from None
    if isinstance(value, dict):
        if not all(isinstance(column, list) for column in value.values()):
            raise InputError(
                'An object gives whole columns ({"x": [1, 2]}), and this one has single values: send rows as an array '
                "of objects."
            )
        check_text(value)
        return Body(value, max(map(len, value.values()), default=0))
    if not isinstance(value, list):
        raise InputError("The body must be an array of objects, or an object of columns, not a single value.")
    return _objects(value, lambda place: json.dumps(value[place], ensure_ascii=False))


def _lines(data: bytes, known: Known) -> Body:
    table = _quick_lines(data, known.schema)
    if table is not None:
        return Body(table, table.num_rows)
    lines = [line for line in data.split(b"\n") if line.strip()]
    values = [_line(line) for line in lines]
    body = _objects(values, lambda place: lines[place].decode("utf-8", "replace"))
    if lines and body.unread is not None and len(body.unread) == len(lines):
        raise InputError("No line of the body is a JSON object: send one object a line.")
    return body


def _quick_lines(data: bytes, schema: pa.Schema | None) -> pa.Table | None:
    """Return the lines by Arrow's reader; None if one of them isn't just like those before it."""
    if schema is None or not schema.names or not all(any(test(f.type) for test in _QUICK) for f in schema):
        return None
    if bare_null(data) or not is_utf8(data):
        return None
    options = pajson.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    size = min(max(len(data) // 2 + 1, 1 << 16), 1 << 24)
    try:
        table = pajson.read_json(pa.BufferReader(data), pajson.ReadOptions(block_size=size), options)
        # Arrow needs no line ends between objects; here each line is a row.
        if table.num_rows != data.count(b"\n") + (not data.endswith(b"\n")):
            return None
        return table.cast(schema)
    except (pa.ArrowException, ValueError):
        return None


def _line(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8-sig"))  # from bytes it would take half a character
    except UnicodeDecodeError:
        return _Unread("not UTF-8")
    except (ValueError, RecursionError):
        return _Unread("not JSON")


class _Unread(str):
    """What is wrong with a line."""


def _objects(values: Sequence[Any], raw: Callable[[int], str]) -> Body:
    """Rows from what JSON gave; what is no object is a reject, as is a text that is no Unicode."""
    unread = {}
    rows: list[dict[str, Any]] = []
    for place, value in enumerate(values):
        wrong = _wrong(value)
        if wrong is not None:
            unread[place] = wrong, raw(place).encode("utf-8", "replace").decode()[:_LONGEST_RAW]
        rows.append({} if wrong is not None else value)
    return Body(rows, len(rows), unread or None)


def _wrong(value: Any) -> str | None:
    if isinstance(value, _Unread):
        return str(value)
    if not isinstance(value, dict):
        return "not a JSON object"
    for name, part in value.items():
        if not name:
            return "a column without a name"
        if (isinstance(part, str) and not _is_text(part)) or not _is_text(name):
            return "half of a surrogate pair"
        if isinstance(part, dict | list):
            try:
                check_text(part)
            except InputError:
                return "half of a surrogate pair"
    return None


def _is_text(value: str) -> bool:
    try:
        return value.isascii() or bool(value.encode()) or True
    except UnicodeEncodeError:
        return False


def check_text(value: Any) -> None:
    """Whether every text of a JSON value is Unicode."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InputError("The body has half of a surrogate pair, which is no text: leave it out.") from None


# -- CSV -----------------------------------------------------------------------------------------------------


def _csv(data: bytes, known: Known) -> Body:
    data = data.removeprefix(b"\xef\xbb\xbf")
    head, _, rest = data.partition(b"\n")
    if not head.strip():
        raise InputError("The body must begin with a line that names its columns.")
    names, delimiter = header_of(head, "The body")
    for part, first_line in ((head, 1), (rest, 2)):
        at = unclosed_quote(part, delimiter)
        if at is not None:
            line = first_line + part.count(b"\n", 0, at)
            text = part[at : at + 40].split(b"\n")[0].decode("utf-8", "replace").strip()
            raise InputError(
                f"The quote in line {line} of the body is never closed ({text}): close it, or put the value in "
                "quotes and double each quote that is part of it."
            )
    given = {} if known.schema is None else {f.name: f.type for f in known.schema if _in_csv(f.type)}
    new = [name for name in names if name not in given]
    types = dict(given)
    if new:
        found = infer_csv(rest, names, delimiter)
        texts = texts_among({name: known.kinds[name] for name in new if name in known.kinds}, found)
        if texts and rest.strip():
            found = settle(found, csv_texts(rest, names, delimiter, list(texts)), texts)
        types |= {name: found.field(name).type for name in new}
    schema = pa.schema([pa.field(name, types[name]) for name in names])
    chunk = parse_csv(rest, schema, delimiter)
    empty = [name for name in new if _empty(chunk.table[name])]
    table, unread = chunk.with_gaps()
    if unread is not None:
        unread = {row: (detail, raw[:_LONGEST_RAW]) for row, (detail, raw) in unread.items()}
    return Body(table.drop_columns(empty), chunk.count, unread)


def _in_csv(kind: pa.DataType) -> bool:
    """Whether a text can be read as this type."""
    return not (
        pa.types.is_nested(kind)
        or pa.types.is_null(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_time(kind)
    )


def _empty(column: pa.ChunkedArray) -> bool:
    """Whether a new column of texts has nothing in it: what it holds will be seen when something is there."""
    return pa.types.is_string(column.type) and not pc.any(pc.not_equal(column, "")).as_py()


# -- Arrow ---------------------------------------------------------------------------------------------------


def _arrow(data: bytes, known: Known) -> Body:
    buffer = pa.py_buffer(data)
    try:
        _refuse_compressed(buffer)
        with pa.ipc.open_stream(buffer) as reader:
            table = reader.read_all()
        check_sound(table)
    except (pa.ArrowException, OSError, ValueError, EOFError, struct.error) as error:
        if isinstance(error, InputError):
            raise
        said = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise InputError(
            f"The body is no Arrow IPC stream ({said}): send what pyarrow.ipc.new_stream writes."
        ) from None
    if len(set(table.column_names)) != len(table.column_names):
        raise InputError("Two columns of the body have the same name: rename one.")
    columns, plain, given = [], True, table
    for name, column in zip(table.column_names, table.columns, strict=True):
        if isinstance(column.type, pa.BaseExtensionType):
            plain = False
            column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
        if not _holdable(column.type):
            raise InputError(
                f"The column {name} has the type {column.type}, which a stream can't hold: cast it."
            )
        columns.append(column)
    if plain:  # to the journal as it came
        return Body(given, given.num_rows, packed=Packed(given, data))
    table = pa.Table.from_arrays(columns, names=table.column_names)
    return Body(table, table.num_rows)


def _holdable(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _holdable(kind.value_type) and not pa.types.is_nested(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _holdable(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_holdable(f.type) for f in kind)
    plain = (
        pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_string, pa.types.is_large_string,
        pa.types.is_string_view, pa.types.is_timestamp, pa.types.is_date, pa.types.is_time, pa.types.is_duration,
        pa.types.is_decimal128, pa.types.is_binary, pa.types.is_large_binary, pa.types.is_null,
    )  # fmt: skip
    return any(test(kind) for test in plain)


def _refuse_compressed(buffer: pa.Buffer) -> None:
    """Look into the header of every message. (pyarrow reads it and does not show it.)"""
    messages = pa.ipc.MessageReader.open_stream(buffer)
    while True:
        try:
            message = messages.read_next_message()
        except StopIteration:
            return
        if message.type not in ("record batch", "dictionary"):
            continue
        if _compressed(message.metadata.to_pybytes(), message.type == "dictionary"):
            raise InputError("The body's Arrow buffers are compressed: send them as they are.")


def _compressed(metadata: bytes, dictionary: bool) -> bool:
    """Whether a message's header, a flatbuffer, says that its buffers are compressed."""
    header = _child(metadata, struct.unpack_from("<I", metadata, 0)[0], 2)
    if header is not None and dictionary:
        header = _child(metadata, header, 1)
    return header is not None and _child(metadata, header, _COMPRESSION) is not None


def _child(data: bytes, table: int, number: int) -> int | None:
    """Return where a table's field of this number leads to; None if it has none."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, vtable)[0]
    if vtable < 0 or 4 + 2 * number + 2 > size:
        return None
    at = struct.unpack_from("<H", data, vtable + 4 + 2 * number)[0]
    if not at:
        return None
    place = table + at
    return int(place + struct.unpack_from("<I", data, place)[0])


_READERS: dict[str, Callable[[bytes, Known], Body]] = {JSON: _json, LINES: _lines, CSV: _csv, ARROW: _arrow}
TYPES = tuple(_READERS)
