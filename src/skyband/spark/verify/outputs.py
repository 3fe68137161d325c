"""What a pipeline has put out, read back for `skyband verify`: from files or from tables, in the same rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any, Protocol

from skyband.core.errors import InputError
from skyband.spark.config import Pipeline
from skyband.spark.jvm.paths import Place
from skyband.spark.sinks import plain_value
from skyband.spark.sinks.tables import COLUMNS, TableSink, table_sink
from skyband.stream.arrow import python_rows

Rows = list[dict[str, Any]]
_AGAIN = "bring it back from a copy, or run the pipeline again with an empty checkpoint and output folder."


class Output(Protocol):
    """The output of a pipeline."""

    top: str  # where the current answers are, in words

    def there(self, batch: int) -> bool:
        """Whether a batch has been put out."""

    def rows(self, kind: str, batch: int) -> Rows:
        """The changes or rejects of a batch."""

    def tops(self) -> Rows:
        """The current answers."""

    def shown(self, value: Any) -> Any:
        """A value of a change or a reject as it is read back."""

    def strange(self, batches: Callable[[], Collection[int]]) -> str | None:
        """Something that is there and is no batch's, in words; `batches` are those that there are."""


def output_of(pipeline: Pipeline) -> Output:
    """The output of a pipeline; an error if its sink can't be read back."""
    sink = pipeline.sink
    if sink.format in ("postgres", "sqlite"):
        return _Tables(table_sink(sink), sink.option("top"))
    if sink.path is None:
        what = "a console" if sink.format == "console" else "a Kafka"
        raise InputError(
            f"{pipeline.file.name}: {what} sink leaves nothing to verify; use parquet, json, sqlite or postgres."
        )
    return _Files(sink.path, sink.format)


class _Files:
    def __init__(self, folder: Place, form: str) -> None:
        self._folder, self._form = folder, form
        self._top = folder / "top" / f"top.{form}"
        self.top = str(self._top)

    def there(self, batch: int) -> bool:
        return self._file("changes", batch).exists()

    def rows(self, kind: str, batch: int) -> Rows:
        return self._read(self._file(kind, batch), kind)

    def tops(self) -> Rows:
        return self._read(self._top, "top")

    def shown(self, value: Any) -> Any:
        return plain_value(value) if self._form == "json" else value

    def strange(self, batches: Callable[[], Collection[int]]) -> str | None:
        there = [path for kind in ("changes", "rejects", "top") for path in _below(self._folder / kind)]
        # in this order: a pipeline that is running writes a batch down before it puts it out
        known = {self._file(kind, batch) for kind in ("changes", "rejects") for batch in batches()}
        for path in there:
            if path != self._top and path not in known:
                return f"{path} is the output of no batch."
        return None

    def _file(self, kind: str, batch: int) -> Place:
        return self._folder / kind / f"batch-{batch}.{self._form}"

    def _read(self, path: Place, kind: str) -> Rows:
        if not path.exists():
            return []
        try:
            rows = _json_rows(path) if self._form == "json" else _parquet_rows(path)
        except (OSError, ValueError) as problem:  # Arrow's errors are among them
            said = (str(problem).strip().splitlines() or ["nothing is in it"])[0].rstrip(".")
            raise InputError(f"{path} cannot be read ({said}): {_AGAIN}") from None
        columns = {*COLUMNS[kind]} - {"number"}
        for row in rows:
            if row.keys() != columns:
                wrong = min(row.keys() ^ columns)
                how = "lacks the column" if wrong in columns else "has a column too many,"
                raise InputError(f"{path} {how} '{wrong}': {_AGAIN}")
            if any(isinstance(value, list | dict) for value in row.values()):
                raise InputError(f"{path} has lists or objects for values: {_AGAIN}")
        return rows


def _json_rows(path: Place) -> Rows:
    # not splitlines, which also ends a line at marks that JSON may have in a text
    rows = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("a line is no object")
    return rows


def _parquet_rows(path: Place) -> Rows:
    import pyarrow.parquet as pq

    with path.open("rb") as data, pq.ParquetFile(data) as file:
        table = file.read()
    if not table.num_rows:  # without rows the columns may have other types
        return []
    return python_rows(table)


class _Tables:
    def __init__(self, sink: TableSink, top: str) -> None:
        self._sink, self.top = sink, f"the table {top}"
        self._sink.prepare(first=False)  # a missing database is a sentence

    def there(self, batch: int) -> bool:
        return bool(self._sink.rows("batches", batch))

    def rows(self, kind: str, batch: int) -> Rows:
        return self._sink.rows(kind, batch)

    def tops(self) -> Rows:
        return self._sink.rows("top")

    def shown(self, value: Any) -> Any:
        return self._sink.shown(value)

    def strange(self, batches: Callable[[], Collection[int]]) -> str | None:
        kinds = ("changes", "rejects", "batches")
        there = [(kind, number) for kind in kinds for number in self._sink.numbers(kind)]
        known = set(batches())
        for kind, number in there:
            if number not in known:
                return f"the table of {kind} has rows of batch {number}, which there is not."
        return None


def _below(folder: Place) -> list[Place]:
    return sorted(folder.iterdir()) if folder.is_dir() else []
