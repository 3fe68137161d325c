"""From a split to rows: an Arrow table, and the lines that are no rows.

Parquet row groups, CSV and JSON lines are read with the stream's one schema, whatever file they are in, by the
readers that the command line uses too (`skyband.files`). A line that cannot be read keeps its place among the
rows: it will be a reject with a sequence number.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.core.errors import InputError
from skyband.files.csvtext import header_of, last_record_end, parse_csv
from skyband.files.jsontext import lines_of, parse_json_lines
from skyband.files.rows import UNTOLD, VALUELESS, BadRow, Chunk, untold
from skyband.files.source import open_plain, packing
from skyband.spark.jvm.hadoop import HadoopPath
from skyband.spark.jvm.paths import Place, place_of, unseen
from skyband.stream.notices import surprises
from skyband.stream.schema import plain

from .splits import Split

if TYPE_CHECKING:
    from skyband.spark.config import StreamSpec

_BLOCK = 64 << 20  # bytes of text that are parsed at once
_RUN_ROWS = 1_000_000  # small files are sifted together up to this many rows


def read_split(split: Split, schema: pa.Schema) -> Iterator[Chunk]:
    """The rows of one split, in order; an error if the file isn't the one that was numbered."""
    path = place_of(split.path)
    _check(split, path)
    try:
        if split.format == "parquet":
            yield from _read_parquet(path, split, schema)
        elif split.format == "csv":
            yield from _read_csv(path, schema)
        else:
            lines = _lines_of(path, split)
            chunk = parse_json_lines(lines, schema)
            yield replace(chunk, columns=_named_in(lines, chunk.table))
    except (pa.ArrowException, OSError) as problem:
        _check(split, path)
        of_data = getattr(problem, "errno", None) is None  # and not the disk
        if not of_data or split.format == "parquet" or packing(path) is None:
            raise InputError(
                f"The file {path} of stream '{split.stream}' cannot be read: {problem}."
            ) from None
        yield _unread([os.fsencode(str(path))], f"The file cannot be unpacked: {_bare(problem)}.", schema)
    _check(split, path)


@dataclass
class Run:
    """Consecutive rows of one stream."""

    split: Split
    chunks: list[Chunk]
    rows: int

    def takes(self, split: Split, chunk: Chunk) -> bool:
        """Whether the chunk may join: same stream, same columns, not too many rows."""
        first = self.chunks[0]
        alike = first.table.schema.equals(chunk.table.schema) and first.columns == chunk.columns
        return split.stream == self.split.stream and alike and self.rows + chunk.count <= _RUN_ROWS


def read_runs(splits: Iterable[Split], schemas: Mapping[str, pa.Schema]) -> Iterator[Run]:
    """Read splits; consecutive rows of a stream are put together while they are few."""
    run: Run | None = None
    for split in splits:
        for chunk in read_split(split, schemas[split.stream]):
            if run is not None and run.takes(split, chunk):
                run.chunks.append(chunk)
                run.rows += chunk.count
                continue
            if run is not None:
                yield run
            run = Run(split, [chunk], chunk.count)
    if run is not None:
        yield run


def join_chunks(chunks: Sequence[Chunk]) -> Chunk:
    """Consecutive chunks as one."""
    if len(chunks) == 1:
        return chunks[0]
    bad, before = [], 0
    for chunk in chunks:
        bad += [row._replace(position=before + row.position) for row in chunk.bad]
        before += chunk.count
    return Chunk(pa.concat_tables([chunk.table for chunk in chunks]), bad, chunks[0].columns)


def odd_columns(
    chunk: Chunk, schema: pa.Schema, named: Collection[str], declared: bool
) -> list[tuple[str, str, str]]:
    """What is hardly meant about the columns of a file: kind, column and hint of each notice.

    `named` are the columns that the stream can't do without. Where the pipeline file declares the columns, others are
    left out on purpose.
    """
    if chunk.columns is None or not chunk.count:
        return []
    found = surprises(chunk.columns, schema.names, named, room=0)
    return [each for each in found if not declared or each[0] == "missing column"]


def declared_schema(columns: Sequence[tuple[str, str]]) -> pa.Schema:
    """The schema that pipeline.toml declares."""
    from skyband.spark.config import arrow_type

    return pa.schema([(name, arrow_type(kind)) for name, kind in columns])


def infer_schema(spec: StreamSpec, path: Place, kinds: Mapping[str, str]) -> pa.Schema:
    """A stream's schema by one of its files.

    `kinds` says which columns the queries take for a "number" or a "time". Columns that no query can use (lists,
    structs) are left out.
    """
    from skyband.files.reader import open_rows

    try:
        if spec.format == "parquet":
            import pyarrow.parquet as pq

            with path.open("rb") as data:
                found = pq.read_schema(data)
            twice = [name for name, times in Counter(found.names).items() if times > 1]
            if twice:
                raise pa.ArrowInvalid(f"it has more than one column named {twice[0]!r}")
        else:
            found = open_rows(path, kinds, spec.format).schema
    except (pa.ArrowException, OSError) as problem:
        raise InputError(
            f"No schema can be read from {path}, the first file of stream '{spec.name}' ({_bare(problem)}); see to "
            f"'format' in pipeline.toml, or declare the columns: schema = {{column = \"double\", ...}}."
        ) from None
    return pa.schema(
        [_kept(field, kinds.get(field.name)) for field in found if not pa.types.is_nested(field.type)]
    )


def _kept(field: pa.Field, kind: str | None) -> pa.Field:
    """A column as the stream will have it for ever."""
    if not pa.types.is_null(field.type):
        return pa.field(field.name, plain(field.type), metadata=UNTOLD if untold(field) else None)
    # Nothing but nulls so far: what the queries take it for, or text, which takes whatever comes.
    return (
        pa.field(field.name, pa.string(), metadata=UNTOLD)
        if kind is None
        else pa.field(field.name, VALUELESS[kind])
    )


def _bare(problem: Exception) -> str:
    return str(problem).strip().rstrip(".")


def _check(split: Split, path: Place) -> None:
    try:
        status = path.stat()
    except FileNotFoundError:
        if isinstance(path, Path) and not path.parent.exists():
            raise unseen(str(path.parent), socket.gethostname()) from None
        raise InputError(
            f"The file {path} of stream '{split.stream}' was removed before it was read: put it back."
        ) from None
    if (status.st_size, status.st_mtime_ns) != (split.size, split.changed):
        raise InputError(
            f"The file {path} of stream '{split.stream}' changed after it got its place ({split.size} bytes then, "
            f"{status.st_size} now): put new rows into new files."
        )


def _read_parquet(path: Place, split: Split, schema: pa.Schema) -> Iterator[Chunk]:
    import pyarrow.parquet as pq

    with _opened(path) as data, pq.ParquetFile(data, memory_map=True) as file:
        there = Counter(file.schema_arrow.names)
        own = tuple(field.name for field in file.schema_arrow if not pa.types.is_nested(field.type))
        columns = [name for name in schema.names if name in there]
        groups = list(range(split.first, split.first + split.count))
        twice = next((name for name in columns if there[name] > 1), None)
        if twice is not None:
            why = f"the file has more than one column named {twice!r}"
            yield from (Chunk(schema.empty_table(), _lost(file, path, group, why)) for group in groups)
            return
        try:
            # a struct's field may have the same path as a column, and comes along
            table = file.read_row_groups(groups, columns=columns, use_threads=False).select(columns)
            yield Chunk(_as_texts(table, schema), columns=own)
        except (pa.ArrowException, OSError) as problem:
            if getattr(problem, "errno", None) is not None:
                raise  # the disk, not the data
            for group in groups:
                chunk = _read_group(file, path, group, columns)
                yield Chunk(_as_texts(chunk.table, schema), chunk.bad)


def _opened(path: Place) -> Any:
    """A Parquet file for Arrow: one on a disk by its name, so that it is mapped and not copied."""
    return path.open("rb") if isinstance(path, HadoopPath) else contextlib.nullcontext(path)


def _as_texts(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """What is in columns that were without a value as the text that these are of."""
    for place, name in enumerate(table.column_names):
        if untold(schema.field(name)) and not pa.types.is_string(plain(table[name].type)):
            with contextlib.suppress(pa.ArrowException):  # lists or bytes have no text: rejects
                table = table.set_column(place, name, table[name].cast(pa.string()))
    return table


def _read_group(file: Any, path: Place, group: int, columns: list[str]) -> Chunk:
    """One row group; if it is damaged its rows are unreadable, and no reason to stop."""
    try:
        table = file.read_row_groups([group], columns=columns, use_threads=False)
        return Chunk(table.select(columns))
    except (pa.ArrowException, OSError) as problem:
        empty = file.schema_arrow.empty_table().select(columns)
        return Chunk(empty, _lost(file, path, group, f"the row group is damaged: {problem}"))


def _lost(file: Any, path: Place, group: int, why: str) -> list[BadRow]:
    """All rows of a row group, none of which can be read."""
    raw = f"row group {group} of {os.fsencode(str(path)).decode('utf-8', 'replace')}"
    return [BadRow(row, why, raw) for row in range(file.metadata.row_group(group).num_rows)]


def _read_csv(path: Place, schema: pa.Schema) -> Iterator[Chunk]:
    """A whole file, in blocks of whole records: a line end inside quotes ends no record."""
    with open_plain(path) as file:
        header = file.readline().removeprefix(b"\xef\xbb\xbf")
        while header and not header.strip(b"\r\n"):
            header = file.readline()  # blank lines are no rows, nor a header, as everywhere
        try:
            names, delimiter = header_of(header.lstrip(b"\r"), "The file")
        except InputError as problem:
            # Its lines have their places already, and the file must not change any more.
            yield _unread(lines_of(header + file.read()), str(problem), schema)
            return
        known = set(schema.names)
        whole = pa.schema([schema.field(n) if n in known else pa.field(n, pa.string()) for n in names])
        wanted = [name for name in names if name in known]
        rest = b""
        while block := file.read(_BLOCK):
            data = rest + block
            end = last_record_end(data)
            if end:
                yield replace(parse_csv(data[:end], whole, delimiter, wanted), columns=tuple(names))
            rest = data[end:]
        if rest.strip():
            yield replace(parse_csv(rest, whole, delimiter, wanted), columns=tuple(names))


def _named_in(lines: bytes, table: pa.Table) -> tuple[str, ...]:
    """The columns that some lines of JSON have: those of the stream that they name, and others of their first line."""
    known = [
        name
        for name, column in zip(table.column_names, table.columns, strict=True)
        if column.null_count < len(column) or json.dumps(name).encode() in lines
    ]
    try:
        first = json.loads(lines.lstrip().split(b"\n", 1)[0])
    except (ValueError, RecursionError):
        first = None
    others = first.items() if isinstance(first, dict) else ()
    names = {*table.column_names}
    return (*known, *(n for n, value in others if n not in names and not isinstance(value, list | dict)))


def _unread(lines: list[bytes], why: str, schema: pa.Schema) -> Chunk:
    """Lines that are no rows."""
    bad = [BadRow(row, why, line.decode("utf-8", "replace").rstrip("\r")) for row, line in enumerate(lines)]
    return Chunk(schema.empty_table(), bad)


def _lines_of(path: Place, split: Split) -> bytes:
    """The lines that begin inside a split's range of bytes."""
    if packing(path) is not None:
        with open_plain(path) as file:
            return file.read()  # one split: see `plan_splits`
    last = split.first + split.count
    with path.open("rb") as file:
        if split.first > 0:
            file.seek(split.first - 1)
            file.readline()  # the line that is under way here is the previous split's
        begin = file.tell()
        if begin >= last:
            return b""
        data = file.read(last - begin)
        return data if data.endswith(b"\n") else data + file.readline()
