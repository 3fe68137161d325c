"""Where a micro-batch's output goes.

A file sink overwrites by batch id: `changes/batch-7.parquet` is written whole under a temporary name and
renamed, and a replay of batch 7 writes the same bytes again. `top/` holds the current answers. Unfinished files
live in a hidden folder beside the three, never below them, so a reader may take everything it finds there.
Databases (`tables`) and Kafka (`records`) have modules of their own.
"""

from __future__ import annotations

import io
import json
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TextIO

import numpy as np
import pyarrow as pa

from skyband.core.errors import InputError
from skyband.spark.jvm.files import remove_tree, write_atomic, write_once
from skyband.spark.jvm.hadoop import HadoopPath
from skyband.spark.jvm.paths import Place
from skyband.stream.arrow import numbers_array, python_rows

TOP_SCHEMA = pa.schema(
    [("query", pa.string()), ("rank", pa.int32()), ("score", pa.float64()), ("row", pa.string())]
)
_MANY = 65_536  # changes whose encoding is worth a thread
_UNIQUE = {"score", "seq", "row", "raw"}  # columns of which a dictionary would be as long as they are


class Sink(ABC):
    """Takes a batch's output; putting the same batch twice leaves one copy (the console may repeat)."""

    def prepare(self, first: bool) -> None:  # noqa: B027
        """Called once at the start; `first` says that no batch was ever attempted."""

    def start(self, session: Any) -> None:  # noqa: B027
        """Called once when Spark's session is there."""

    @abstractmethod
    def put(self, batch: int, changes: pa.Table, rejects: pa.Table, tops: pa.Table) -> None:
        """Put out one batch."""

    def close(self) -> None:  # noqa: B027
        """Called once at the end, however that came."""


class FileSink(Sink):
    """Parquet or JSON lines, one file for each batch."""

    def __init__(self, folder: Place, form: str) -> None:
        self.folder = folder
        self._form = form
        self._encode: Callable[[pa.Table], bytes] = parquet_bytes if form == "parquet" else json_bytes
        self._temporary: Place | None = folder / ".tmp"

    def prepare(self, first: bool) -> None:
        try:
            if not isinstance(self.folder, HadoopPath):  # a store has no empty folders
                for name in ("changes", "top", "rejects"):
                    (self.folder / name).mkdir(parents=True, exist_ok=True)
            elif self.folder.is_whole:
                self._temporary = None
            self._tidy()  # what a killed run has left
        except OSError as problem:
            why = problem.strerror or problem
            raise InputError(f"The output folder {self.folder} cannot be made: {why}.") from None
        if first and any((self.folder / "changes").iterdir()):
            raise InputError(
                f"The output folder {self.folder} holds the output of another run, and the checkpoint is new: "
                f"remove the folder or choose another path in [sink]."
            )

    def put(self, batch: int, changes: pa.Table, rejects: pa.Table, tops: pa.Table) -> None:
        changes = _coded(changes)
        tables = {
            self.folder / "rejects" / f"batch-{batch}.{self._form}": rejects,
            self.folder / "changes" / f"batch-{batch}.{self._form}": changes,
            self.folder / "top" / f"top.{self._form}": tops,
        }
        if not rejects.num_rows:
            del tables[self.folder / "rejects" / f"batch-{batch}.{self._form}"]
        if changes.num_rows < _MANY:
            encoded = [self._encode(table) for table in tables.values()]
        else:
            with ThreadPoolExecutor(2, "skyband-write") as pool:
                encoded = list(pool.map(self._encode, tables.values()))
        for path, data in zip(tables, encoded, strict=True):
            write = write_atomic if path.parent.name == "top" else write_once
            write(path, data, self._temporary)
        self._tidy()

    def _tidy(self) -> None:
        if self._temporary is not None:
            remove_tree(self._temporary)


class NobodyReads(BrokenPipeError):
    """Who read the console has had enough (| head): no failure, and an end."""


class ConsoleSink(Sink):
    """A line for each change, on standard output."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out

    def put(self, batch: int, changes: pa.Table, rejects: pa.Table, tops: pa.Table) -> None:
        try:
            self._print(self._out or sys.stdout, batch, changes, rejects)
        except BrokenPipeError as problem:
            raise NobodyReads(*problem.args) from None

    def _print(self, out: TextIO, batch: int, changes: pa.Table, rejects: pa.Table) -> None:
        for row in python_rows(changes):
            rank = "" if row["rank"] is None else f" rank {row['rank']}"
            score = f"score {row['score']!r}"
            out.write(f"batch {batch}  {row['query']}  {row['change']}{rank}  {score}  {_who(row)}\n")
        for row in rejects.to_pylist():
            out.write(f"batch {batch}  reject {row['seq']}  {row['reason']}: {row['raw']}\n")
        out.flush()


def _who(change: Mapping[str, Any]) -> str:
    """What a change is about."""
    if change["seq"] is None:
        return f"object {change['id']}"
    return (
        f"row {change['seq']}" if change["seq_b"] is None else f"rows {change['seq']} and {change['seq_b']}"
    )


def _coded(changes: pa.Table) -> pa.Table:
    """The words of a change table as codes, wherever it was made: all files of a folder have one schema."""
    for name in ("query", "change"):
        at = changes.schema.get_field_index(name)
        if not pa.types.is_dictionary(changes.schema.field(at).type):
            changes = changes.set_column(at, name, changes.column(at).dictionary_encode())
    return changes


def without_codes(table: pa.Table) -> pa.Table:
    """A table with the values of its dictionaries, which need not be the same in two tables."""
    fields = [f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields))


def parquet_bytes(table: pa.Table) -> bytes:
    """A table as a Parquet file; the same table gives the same bytes."""
    import pyarrow.parquet as pq

    out = io.BytesIO()
    repeated = [name for name in table.column_names if name not in _UNIQUE]
    pq.write_table(table, out, compression="zstd", use_dictionary=repeated or False)
    return out.getvalue()


def json_bytes(table: pa.Table) -> bytes:
    """A table as JSON lines."""
    return "".join(json_text(row) + "\n" for row in python_rows(table)).encode()


def json_text(row: Mapping[str, Any]) -> str:
    """A row as one JSON object; what JSON cannot say is said in text."""
    return json.dumps({key: plain_value(value) for key, value in row.items()}, ensure_ascii=False)


def plain_value(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | timedelta):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    return value


def top_rows(name: str, top: pa.Table, selected: pa.Table) -> pa.Table:
    """A watch's answer and its selected columns in the columns of the `top` output."""
    rows = (
        [json_text(row) for row in python_rows(selected)] if selected.num_columns else ["{}"] * top.num_rows
    )
    return pa.Table.from_arrays(
        [
            pa.array([name] * top.num_rows, pa.string()),
            top.column(0).cast(pa.int32()),
            top.column(1).cast(pa.float64()),
            pa.array(rows, pa.string()),
        ],
        schema=TOP_SCHEMA,
    )


def batch_column(table: pa.Table, batch: int) -> pa.Table:
    """The table with its batch's id as the first column."""
    return table.add_column(0, "batch", numbers_array(np.full(table.num_rows, batch, dtype=np.int64)))
