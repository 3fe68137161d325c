"""CSV: a header line, then one record a row, fields parted by commas (or tabs, semicolons, bars).

Arrow reads a block of records at full speed as long as all of them fit the types that the first block
suggested. A block with a misfit is read a second time, as bytes, and looked at value by value: slow, and
only then. Either way the same rows are good, so the answer doesn't depend on where a block was cut.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from skyband.core.errors import InputError
from skyband.files.rows import (
    BadRow,
    Chunk,
    cast_each,
    cast_texts,
    digits_fit,
    is_utf8,
    seems_whole,
    set_aside,
    whole_type,
    with_fractions,
)

DELIMITERS = ",\t;|"
_QUOTE = ord('"')
_LONGEST_RAW = 10_000  # characters kept of a record that has no end


@cache
def _nulls() -> pa.Array:
    """Return what Arrow's reader takes for a null. Made when it is asked for: Arrow loads pandas at its first array."""
    return pa.array(pacsv.ConvertOptions().null_values or [], pa.string())


def header_of(line: bytes, name: str) -> tuple[list[str], str]:
    """Return the column names and the delimiter, from the first line of a file."""
    try:
        text = line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise InputError(
            f"{name} isn't UTF-8 (its header can't be read): convert it, for instance with iconv -t UTF-8."
        ) from None
    if _is_object(text):
        raise InputError(
            f"{name} seems to be JSON lines and no CSV: its first line is {_short(text)!r}; "
            "add a first line with the names of the columns, or read it as JSON."
        )
    delimiter = max(DELIMITERS, key=text.count)
    try:
        names = next(csv.reader([text], delimiter=delimiter), [])
    except csv.Error as error:
        raise InputError(
            f"{name} has no header that can be read ({error}): name the columns in its first line."
        ) from None
    if not names or all(_is_value(field) for field in names):
        raise InputError(
            f"{name} seems to have no header: its first line is {_short(text)!r}; "
            "add a first line with the names of the columns."
        )
    twice = sorted({field for field in names if names.count(field) > 1})
    if twice:
        raise InputError(f"{name} has more than one column named {twice[0]!r}; give each its own name.")
    if "" in names:
        names[names.index("")] = f"column_{names.index('') + 1}"
    return names, delimiter


def _is_value(field: str) -> bool:
    """Whether a field can hardly be a column's name: empty, or a number."""
    try:
        float(field or "0")
        return True
    except ValueError:
        return False


def _is_object(text: str) -> bool:
    """Whether a line is a JSON object, of which CSV could make names of columns that no row has."""
    try:
        return text.lstrip().startswith("{") and isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def infer_csv(data: bytes, names: Sequence[str], delimiter: str = ",") -> pa.Schema:
    """Return the types of the columns, from a first block of records (without the header)."""
    if not data.strip():
        return pa.schema([pa.field(name, pa.string()) for name in names])
    if not is_utf8(data):
        data = data.decode("utf-8", "replace").encode()
    table = _read(data, names, delimiter, {}, list(names), [], threads=True)
    kinds = {name: _settled(table.schema.field(name).type) for name in names}
    wide = [name for name in names if seems_whole(table[name])]
    texts = csv_texts(data, names, delimiter, wide) if wide else table
    kinds |= {name: whole_type(texts[name].combine_chunks()) or kinds[name] for name in wide}
    return pa.schema(list(kinds.items()))


def _settled(kind: pa.DataType) -> pa.DataType:
    # Arrow takes text that isn't UTF-8 for binary; a column without any value may turn out to be anything.
    if pa.types.is_binary(kind) or pa.types.is_null(kind) or pa.types.is_time(kind):
        return pa.string()
    return with_fractions(kind)


def parse_csv(
    data: bytes, schema: pa.Schema, delimiter: str = ",", columns: Sequence[str] | None = None
) -> Chunk:
    """Whole records (no header) into rows. `schema` has every column of the file, in the file's order.

    A record with a quote that is never closed takes in whatever follows it, and is no row.
    """
    at = unclosed_quote(data, delimiter)
    if at is not None:
        end = _record_begin(data, at, delimiter)
        good = parse_csv(data[:end], schema, delimiter, columns)
        raw = data[end : end + 4 * _LONGEST_RAW].decode("utf-8", "replace")[:_LONGEST_RAW]
        shown = data[at : at + 160].decode("utf-8", "replace").split("\n")[0].rstrip("\r")
        bad = BadRow(good.count, f"a quote is never closed: {_short(shown)}", raw)
        return Chunk(good.table, [*good.bad, bad])
    wanted = list(schema.names if columns is None else columns)
    types = {name: schema.field(name).type for name in schema.names}
    ragged: list[Any] = []
    if not is_utf8(data):
        return _parse_slowly(data, schema, delimiter, wanted)
    try:
        table = digits_fit(_read(data, schema.names, delimiter, types, wanted, ragged, threads=True))
    except pa.ArrowInvalid:
        return _parse_slowly(data, schema, delimiter, wanted)
    return _parse_slowly(data, schema, delimiter, wanted) if ragged else Chunk(table)


def csv_texts(data: bytes, names: Sequence[str], delimiter: str, columns: Sequence[str]) -> pa.Table:
    """Columns as they stand in the records, with a null for whatever a column of numbers would have as a null."""
    schema = pa.schema([pa.field(name, pa.string()) for name in names])
    table = parse_csv(data, schema, delimiter, columns).table
    return pa.table([_nulls_told(table[name].combine_chunks()) for name in columns], names=list(columns))


def _nulls_told(text: pa.Array[Any]) -> pa.Array[Any]:
    text = pc.utf8_trim_whitespace(text)
    return pc.if_else(pc.is_in(text, _nulls()), pa.scalar(None, pa.string()), text)


def _read(
    data: bytes,
    names: Sequence[str],
    delimiter: str,
    types: Mapping[str, pa.DataType],
    wanted: list[str],
    ragged: list[Any],
    threads: bool,
) -> pa.Table:
    def keep(row: Any) -> Literal["skip"]:
        ragged.append(row)
        return "skip"

    if not data.strip():
        return pa.schema([pa.field(name, types.get(name, pa.null())) for name in wanted]).empty_table()
    return pacsv.read_csv(
        io.BytesIO(data),
        read_options=pacsv.ReadOptions(
            column_names=list(names), use_threads=threads, block_size=max(len(data) + 1, 1024)
        ),
        parse_options=pacsv.ParseOptions(
            delimiter=delimiter, newlines_in_values=True, invalid_row_handler=keep
        ),
        convert_options=pacsv.ConvertOptions(column_types=dict(types), include_columns=wanted),
    )


def _parse_slowly(data: bytes, schema: pa.Schema, delimiter: str, wanted: list[str]) -> Chunk:
    ragged: list[Any] = []
    # Arrow shows a record with too few or too many fields as text, and stops where it isn't UTF-8. So then every byte
    # is a character, and turned back afterwards.
    foreign = not is_utf8(data)
    # Arrow numbers the rows only where one thread reads them.
    asbytes = {name: pa.binary() for name in schema.names}
    read = data.decode("latin-1").encode() if foreign else data
    raw = _read(read, schema.names, delimiter, asbytes, wanted, ragged, threads=False)
    if foreign:
        raw = pa.table([_bytes_again(column) for column in raw.columns], names=raw.column_names)
    bad = {}
    for one in ragged:
        shown = one.text.encode("latin-1").decode("utf-8", "replace") if foreign else one.text
        problem = f"fields: {one.actual_columns}, expected: {one.expected_columns}"
        bad[one.number - 1] = BadRow(one.number - 1, problem, shown)
    places = [place for place in range(raw.num_rows + len(bad)) if place not in bad]
    records = split_records(data)
    whole = len(records) == raw.num_rows + len(bad)
    columns = []
    for name in wanted:
        column, misfits = _column(raw[name].combine_chunks(), schema.field(name).type)
        columns.append(column)
        for row, detail in misfits:
            text = (
                records[places[row]]
                if whole
                else delimiter.encode().join(raw[other][row].as_py() for other in wanted)
            )
            bad.setdefault(
                places[row],
                BadRow(places[row], f"column {name}: {detail}", text.decode("utf-8", "replace")),
            )
    table = pa.table(columns, schema=pa.schema([schema.field(name) for name in wanted]))
    return set_aside(table, bad, places)


def _bytes_again(column: pa.ChunkedArray) -> pa.Array[Any]:
    return pa.array([value.decode().encode("latin-1") for value in column.to_pylist()], pa.binary())


def _column(raw: pa.Array[Any], to: pa.DataType) -> tuple[pa.Array[Any], list[tuple[int, str]]]:
    """Bytes into the column's type, with the rows that don't fit and why, as Arrow's own reader would."""
    text, foreign = cast_each(raw, pa.string())
    misfits = [(row, "not UTF-8") for row in foreign]
    if pa.types.is_string(to):
        return text, misfits
    text = _nulls_told(text)
    values, wrong = cast_texts(text, to)
    misfits += [(row, f"{_short(text[row].as_py())!r} is not {to}") for row in wrong]
    return values, misfits


def unclosed_quote(data: bytes, delimiter: str) -> int | None:
    """Return where the quote is that is never closed; None if there is none.

    A quote opens only where a field begins, and two in a row inside are one that is part of the value. So runs of an
    even number change nothing. One of an odd number after something else than a delimiter closes a field or is part of
    one that isn't quoted: after it no quote is open. From the last such run on each odd run opens or closes.
    """
    begins = frozenset(b"\r\n" + delimiter.encode())
    odd, place = 0, None
    last = data.rfind(b'"')
    while last >= 0:
        first = last
        while first and data[first - 1] == _QUOTE:
            first -= 1
        if (last - first) % 2 == 0:
            if first and data[first - 1] not in begins:
                break
            odd += 1
            place = first if place is None else place
        last = data.rfind(b'"', 0, first)
    return place if odd % 2 else None


def _record_begin(data: bytes, at: int, delimiter: str) -> int:
    """Return where the record begins that has this byte: not at a line end inside quotes."""
    inside: int | None = at
    while inside is not None:
        at = data.rfind(b"\n", 0, inside) + 1
        inside = unclosed_quote(data[:at], delimiter)
    return at


def split_records(data: bytes) -> list[bytes]:
    """Return the records as they stand in the file, blank lines left out, quoted line ends kept inside."""
    records: list[bytes] = []
    part = b""
    for line in data.split(b"\n"):
        part = part + b"\n" + line if part else line
        if part.count(b'"') % 2 == 0:
            if part.strip(b"\r"):
                records.append(part.rstrip(b"\r"))
            part = b""
    if part.strip():
        records.append(part)
    return records


def last_record_end(data: bytes) -> int:
    """Return how many of these bytes are whole records: up to a line end that isn't inside quotes."""
    end = data.rfind(b"\n") + 1
    if b'"' not in data:
        return end
    while end > 0:
        if data.count(b'"', 0, end) % 2 == 0:
            return end
        # Inside quotes: the opening quote lies further left, so step back to the line that has it.
        end = data.rfind(b"\n", 0, data.rfind(b'"', 0, end)) + 1
    return data.rfind(b"\n") + 1
