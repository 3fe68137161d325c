"""One reader for each format, all alike from outside: a schema, then chunks of rows in the file's order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from skyband.core.errors import InputError
from skyband.files.csvtext import csv_texts, header_of, infer_csv, last_record_end, parse_csv
from skyband.files.jsontext import infer_json, parse_json_lines
from skyband.files.rows import BadRow, Chunk, cast_texts, set_aside, settle, texts_among, without_rows
from skyband.files.source import Openable, Source
from skyband.stream.arrow import python_value

BATCH = 1 << 16  # rows of a Parquet batch: large enough to be quick, small enough to stay in the cache


class Reader(ABC):
    """The rows of one file or of standard input, to be read once."""

    format: str
    schema: pa.Schema  # all columns of the file, as chunks() delivers them
    rows: int | None = None  # how many there are, where the file says so
    left_out: Sequence[str] = ()  # columns of the file that can't be used

    @abstractmethod
    def chunks(self, columns: Sequence[str] | None = None) -> Iterator[Chunk]:
        """The rows in the file's order, with these columns only."""

    @abstractmethod
    def fraction(self) -> float | None:
        """Return how much has been read so far, from 0 to 1, or None if it is not known."""


def open_rows(
    path: str | Path | Openable, kinds: Mapping[str, str] | None = None, form: str | None = None
) -> Reader:
    """Open a CSV, JSON lines or Parquet file ("-" for standard input), whichever its content is.

    `kinds` says of columns that they are a "time" or a "number", so that text in them is read as such
    (times in ISO 8601). `form` says that it must be "csv" or "json". A file that can't be read is an InputError.
    """
    source = Source(path)
    kinds = kinds or {}
    head = source.head
    if form is not None and (head.startswith(b"PAR1") or (form == "csv" and _first_of(head) == b"{")):
        what = "JSON lines" if _first_of(head) == b"{" else "Parquet"
        raise InputError(f"{source.sentence_name} is {what} and is to be read as {form}: correct the format.")
    if head.startswith(b"PAR1"):
        return _Parquet(source, kinds)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in head[:65536]:
        raise InputError(
            f"{source.sentence_name} is neither CSV nor JSON lines in UTF-8, nor Parquet: "
            "convert it to one of them."
        )
    first = _first_of(head)
    if first == b"[":
        raise InputError(
            f"{source.sentence_name} is one JSON array: make it JSON lines, for instance with jq -c '.[]'."
        )
    lines = first == b"{" if form is None else form == "json"
    return _JsonLines(source, kinds) if lines else _Csv(source, kinds)


def _first_of(head: bytes) -> bytes:
    """Return the first byte that says something."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]


class _Csv(Reader):
    format = "csv"

    def __init__(self, source: Source, kinds: Mapping[str, str]) -> None:
        self._source = source
        self._blocks = source.blocks(last_record_end)
        block = next(self._blocks).removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
        while not block and (more := next(self._blocks, b"")):
            block = more.lstrip(b"\r\n")  # a slow pipe: blank lines came alone
        if not block.strip():
            raise InputError(f"{source.sentence_name} has only empty lines: there are no rows to read.")
        header, _, self._first = block.partition(b"\n")
        if not self._first.strip():
            self._first = next(self._blocks, b"")  # a slow pipe: the header came alone
        names, self._delimiter = header_of(header, source.sentence_name)
        self.schema = infer_csv(self._first, names, self._delimiter)
        if not self._first.strip():
            self.schema = without_rows(names, kinds)
        texts = texts_among(kinds, self.schema)
        if texts:
            sample = csv_texts(self._first, names, self._delimiter, list(texts))
            self.schema = settle(self.schema, sample, texts)

    def chunks(self, columns: Sequence[str] | None = None) -> Iterator[Chunk]:
        yield parse_csv(self._first, self.schema, self._delimiter, columns)
        for block in self._blocks:
            yield parse_csv(block, self.schema, self._delimiter, columns)

    def fraction(self) -> float | None:
        return self._source.fraction()


class _JsonLines(Reader):
    format = "json"

    def __init__(self, source: Source, kinds: Mapping[str, str]) -> None:
        self._source = source
        self._blocks = source.blocks(lambda data: data.rfind(b"\n") + 1)
        self._first = next(self._blocks).removeprefix(b"\xef\xbb\xbf")
        self.schema, self.left_out = infer_json(self._first, source.sentence_name)
        texts = texts_among(kinds, self.schema)
        if texts:
            fields = pa.schema([self.schema.field(name) for name in texts])
            texts = {name: "iso" if kind == "time" else kind for name, kind in texts.items()}
            self.schema = settle(self.schema, parse_json_lines(self._first, fields).table, texts)

    def chunks(self, columns: Sequence[str] | None = None) -> Iterator[Chunk]:
        schema = self.schema
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns])
        yield parse_json_lines(self._first, schema)
        for block in self._blocks:
            yield parse_json_lines(block, schema)

    def fraction(self) -> float | None:
        return self._source.fraction()


class _Parquet(Reader):
    format = "parquet"

    def __init__(self, source: Source, kinds: Mapping[str, str]) -> None:
        self._name = source.sentence_name
        try:
            # A pipe can't be read from its end, where Parquet keeps its table of contents.
            whole = source.path if source.seekable else None
            self._file = pq.ParquetFile(whole or pa.BufferReader(source.everything()))
            stored = self._file.schema_arrow.remove_metadata()
            texts = texts_among(kinds, stored)
            sample = next(self._file.iter_batches(1000, columns=list(texts)), None) if texts else None
        except (OSError, pa.ArrowException) as problem:
            raise InputError(f"{self._name} is a damaged Parquet file: write it again.") from problem
        finally:
            source.close()
        self.rows = self._file.metadata.num_rows
        self._seen = 0
        self.schema = stored
        if sample is not None:
            self.schema = settle(stored, pa.Table.from_batches([sample]), texts)
        self._turned = [name for name in texts if self.schema.field(name) != stored.field(name)]

    def chunks(self, columns: Sequence[str] | None = None) -> Iterator[Chunk]:
        try:
            for batch in self._file.iter_batches(BATCH, columns=None if columns is None else list(columns)):
                self._seen += batch.num_rows
                yield self._turn(pa.Table.from_batches([batch]))
        except (OSError, pa.ArrowException) as problem:
            raise InputError(f"{self._name} is a damaged Parquet file: write it again.") from problem

    def _turn(self, table: pa.Table) -> Chunk:
        """Text that is meant to be something else, turned into it."""
        bad: dict[int, BadRow] = {}
        for name in self._turned:
            if name not in table.column_names:
                continue
            to = self.schema.field(name).type
            texts = table[name].combine_chunks().cast(pa.string())
            values, wrong = cast_texts(texts, to)
            table = table.set_column(table.schema.get_field_index(name), name, values)
            for row in wrong:
                raw = python_value(texts[row])
                bad.setdefault(row, BadRow(row, f"column {name}: {raw!r:.60} is not {to}", raw))
        return set_aside(table, bad, list(range(table.num_rows)) if bad else [])

    def fraction(self) -> float | None:
        return self._seen / self.rows if self.rows else 1.0
