"""Databases as sinks: SQLite and PostgreSQL.

Four tables: the changes and the rejects of every batch, the current answers, and one line for each batch that is
complete. A batch goes in as one transaction that first takes away what is there under its number: whatever is killed,
whenever, a reader finds all of a batch or nothing of it, and a batch that is done again is there once. Of the answers
only those that differ from the batch before are written; the first batch after a start writes all.

A connection that has gone is made once more, since the transaction can be repeated; if that fails too the pipeline
stops with a sentence, and the next start does the batch again.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from skyband.core.errors import InputError
from skyband.spark.config import SinkSpec
from skyband.stream.arrow import python_rows

from .plain import Sink, plain_value

COLUMNS = {
    "changes": ("batch", "number", "query", "change", "rank", "score", "seq", "seq_b", "id", "time"),
    "top": ("query", "rank", "score", "row"),
    "rejects": ("batch", "number", "seq", "stream", "reason", "detail", "raw"),
    "batches": ("batch", "changes", "rejects"),
}
_KEYS = {
    "changes": "batch, number",
    "top": "query, rank",
    "rejects": "batch, number",
    "batches": "batch",
}
Row = tuple[Any, ...]


class Database(Protocol):
    """What SQLite and PostgreSQL have in common, and what not."""

    name: str
    begin: str
    errors: tuple[type[Exception], ...]
    types: dict[str, str]

    def open(self) -> Any: ...
    def time_type(self, type_: pa.DataType) -> str: ...
    def value(self, value: Any) -> Any: ...
    def insert(self, cursor: Any, table: str, columns: Iterable[str], rows: list[Row]) -> None: ...
    def mark(self) -> str: ...
    def quoted(self, table: str) -> str: ...
    def exists(self, cursor: Any, table: str) -> bool: ...


class SQLite:
    """A file; readers are not kept waiting by a writer, nor a writer by readers."""

    name = "SQLite"
    begin = "BEGIN IMMEDIATE"  # waits for another writer now, not in the middle
    errors: tuple[type[Exception], ...] = (sqlite3.Error,)
    types = {"whole": "INTEGER", "real": "REAL", "text": "TEXT", "json": "TEXT"}

    def __init__(self, spec: SinkSpec) -> None:
        assert isinstance(spec.path, Path)  # no store's
        self._path = spec.path

    def open(self) -> Any:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise InputError(f"The folder of {self._path} cannot be made: {problem.strerror}.") from None
        # Spark's callbacks come in threads of their own, one at a time
        connection = sqlite3.connect(self._path, timeout=30, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def time_type(self, type_: pa.DataType) -> str:
        return "TEXT" if pa.types.is_timestamp(type_) or pa.types.is_date(type_) else "REAL"

    def value(self, value: Any) -> Any:
        return value if isinstance(value, float) else plain_value(value)

    def insert(self, cursor: Any, table: str, columns: Iterable[str], rows: list[Row]) -> None:
        names = [*columns]
        cursor.executemany(
            f"INSERT INTO {table} ({_names(names)}) VALUES ({', '.join('?' * len(names))})", rows
        )

    def mark(self) -> str:
        return "?"

    def quoted(self, table: str) -> str:
        return _names(table.split("."), ".")

    def exists(self, cursor: Any, table: str) -> bool:
        schema, _, name = table.rpartition(".")
        found = cursor.execute(
            f"SELECT 1 FROM {schema or 'main'}.sqlite_master WHERE type = 'table' AND name = ?", (name,)
        )
        return found.fetchone() is not None


class PostgreSQL:
    """A server; rows go in by COPY."""

    name = "PostgreSQL"
    begin = "BEGIN"
    types = {"whole": "bigint", "real": "double precision", "text": "text", "json": "json"}

    def __init__(self, spec: SinkSpec) -> None:
        try:
            import psycopg
        except ImportError as problem:
            raise InputError(
                f"The sink 'postgres' needs psycopg ({problem}): install it with 'pip install skyband[postgres]'."
            ) from None
        self._url = spec.option("url")
        self._connect = psycopg.connect
        self.errors: tuple[type[Exception], ...] = (psycopg.Error,)

    def open(self) -> Any:
        return self._connect(self._url, autocommit=True, connect_timeout=10, application_name="skyband")

    def time_type(self, type_: pa.DataType) -> str:
        if pa.types.is_date(type_):
            return "date"
        if not pa.types.is_timestamp(type_):
            return "double precision"
        return "timestamptz" if type_.tz is not None else "timestamp"

    def value(self, value: Any) -> Any:
        return value.replace("\0", "�") if isinstance(value, str) else value  # a text has no NUL there

    def insert(self, cursor: Any, table: str, columns: Iterable[str], rows: list[Row]) -> None:
        with cursor.copy(f"COPY {table} ({_names(columns)}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)

    def mark(self) -> str:
        return "%s"

    def quoted(self, table: str) -> str:
        return _names(table.split("."), ".")

    def exists(self, cursor: Any, table: str) -> bool:
        return cursor.execute("SELECT to_regclass(%s)", (self.quoted(table),)).fetchone()[0] is not None


def table_sink(spec: SinkSpec) -> TableSink:
    """The sink of a [sink] whose format is a database."""
    return TableSink(SQLite(spec) if spec.format == "sqlite" else PostgreSQL(spec), spec)


class TableSink(Sink):
    """Changes, rejects and answers in tables."""

    def __init__(self, database: Database, spec: SinkSpec) -> None:
        self._database = database
        self._plain = {name: spec.option(name) for name in COLUMNS}
        self._tables = {name: database.quoted(table) for name, table in self._plain.items()}
        self._connection: Any = None
        self._made = False
        self._shown: dict[str, list[Row]] | None = None  # what `top` holds, once this process has written it

    def prepare(self, first: bool) -> None:
        try:
            with self._transaction() as cursor:
                if first and self._has(cursor, "batches") and self._last(cursor) is not None:
                    raise InputError(
                        f"The table {self._plain['batches']} holds the output of another run, and the checkpoint is "
                        f"new: drop the tables or name others in [sink]."
                    )
        except self._database.errors as problem:
            raise InputError(
                f"{self._database.name} cannot be reached ({_first_line(problem)}): see to [sink] in the pipeline file."
            ) from None

    def put(self, batch: int, changes: pa.Table, rejects: pa.Table, tops: pa.Table) -> None:
        for attempt in (1, 2):
            try:
                self._put(batch, changes, rejects, tops)
                return
            except self._database.errors as problem:
                self._shown = None
                self._close()
                if attempt == 2:
                    raise InputError(
                        f"Batch {batch} cannot be put into {self._database.name} ({_first_line(problem)}): see to the "
                        f"database; the next start does the batch again."
                    ) from problem

    def _put(self, batch: int, changes: pa.Table, rejects: pa.Table, tops: pa.Table) -> None:
        shown = self._answers(tops)
        with self._transaction() as cursor:
            if not self._made:
                self._make(cursor, changes.schema.field("time").type)
            for name, table in (("changes", changes), ("rejects", rejects)):
                self._run(cursor, f"DELETE FROM {self._tables[name]} WHERE batch = {{}}", batch)
                self._insert(cursor, name, self._numbered(name, table))
            self._replace_tops(cursor, shown)
            self._run(cursor, f"DELETE FROM {self._tables['batches']} WHERE batch = {{}}", batch)
            self._insert(cursor, "batches", [(batch, changes.num_rows, rejects.num_rows)])
        self._made, self._shown = True, shown

    def _numbered(self, name: str, table: pa.Table) -> list[Row]:
        """Rows in the order of the table's columns, with their numbers in the batch."""
        value, columns = self._database.value, COLUMNS[name]
        rows = []
        for number, row in enumerate(python_rows(table)):
            row["number"] = number
            rows.append(tuple(value(row[column]) for column in columns))
        return rows

    def _answers(self, tops: pa.Table) -> dict[str, list[Row]]:
        answers: dict[str, list[Row]] = {}
        for row in tops.to_pylist():
            line = tuple(self._database.value(row[column]) for column in COLUMNS["top"])
            answers.setdefault(row["query"], []).append(line)
        return answers

    def _replace_tops(self, cursor: Any, answers: dict[str, list[Row]]) -> None:
        table = self._tables["top"]
        before = self._shown
        if before is None:
            cursor.execute(f"DELETE FROM {table}")
            before = {}
        for query in before:
            if answers.get(query) != before[query]:
                self._run(cursor, f"DELETE FROM {table} WHERE query = {{}}", query)
        new = [row for query, rows in answers.items() if before.get(query) != rows for row in rows]
        self._insert(cursor, "top", new)

    def _insert(self, cursor: Any, name: str, rows: list[Row]) -> None:
        if rows:
            self._database.insert(cursor, self._tables[name], COLUMNS[name], rows)

    def _run(self, cursor: Any, statement: str, *values: Any) -> Any:
        return cursor.execute(statement.format(*[self._database.mark()] * len(values)), values)

    def _make(self, cursor: Any, time: pa.DataType) -> None:
        """The tables, if they aren't there."""
        types = self._database.types
        kinds = {
            **dict.fromkeys(("batch", "number", "rank", "seq", "seq_b"), types["whole"]),
            "score": types["real"],
            "row": types["json"],
            "time": self._database.time_type(time),
        }
        for name, columns in COLUMNS.items():
            counts = dict.fromkeys(("changes", "rejects"), types["whole"]) if name == "batches" else {}
            declared = ", ".join(f'"{c}" {counts.get(c) or kinds.get(c, types["text"])}' for c in columns)
            cursor.execute(
                f"CREATE TABLE IF NOT EXISTS {self._tables[name]} ({declared}, PRIMARY KEY ({_KEYS[name]}))"
            )

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Any]:
        if self._connection is None:
            self._connection = self._database.open()
        cursor = self._connection.cursor()
        cursor.execute(self._database.begin)
        try:
            yield cursor
        except BaseException:
            with contextlib.suppress(*self._database.errors):
                cursor.execute("ROLLBACK")
            raise
        cursor.execute("COMMIT")

    def _close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(*self._database.errors):
                self._connection.close()
        self._connection = None

    # -- what is there

    def _has(self, cursor: Any, name: str) -> bool:
        return self._database.exists(cursor, self._plain[name])

    def _last(self, cursor: Any) -> int | None:
        found = cursor.execute(f"SELECT max(batch) FROM {self._tables['batches']}").fetchone()[0]
        return None if found is None else int(found)

    @contextlib.contextmanager
    def _reading(self, name: str) -> Iterator[Any]:
        try:
            with self._transaction() as cursor:
                yield cursor
        except self._database.errors as problem:
            raise InputError(
                f"The table {self._plain[name]} in {self._database.name} cannot be read ({_first_line(problem)}): "
                f"bring it back from a copy, or run the pipeline again with an empty checkpoint and other tables."
            ) from None

    def numbers(self, name: str) -> list[int]:
        """The batches that a table has rows of; for `skyband verify`."""
        with self._reading(name) as cursor:
            if not self._has(cursor, name):
                return []
            found = cursor.execute(
                f"SELECT DISTINCT batch FROM {self._tables[name]} ORDER BY batch"
            ).fetchall()
        return [number for (number,) in found]

    def shown(self, value: Any) -> Any:
        """A value of a change or a reject as it is read back; for `skyband verify`."""
        if isinstance(value, int | Decimal):
            return float(value)  # numbers of seconds are floats there
        if hasattr(value, "nanosecond"):
            value = value.replace(nanosecond=0) if self._database.name == "PostgreSQL" else value
        return self._database.value(value)

    def rows(self, name: str, batch: int | None = None) -> list[dict[str, Any]]:
        """The rows of a table, or those of one batch, in order; for `skyband verify`."""
        columns = COLUMNS[name]
        with self._reading(name) as cursor:
            if not self._has(cursor, name):
                return []
            # SQLite takes a name in quotes that is no column for a text, unless it says of what
            chosen = ", ".join(f'CAST(t."{c}" AS text)' if c == "row" else f't."{c}"' for c in columns)
            statement = f"SELECT {chosen} FROM {self._tables[name]} AS t"
            order = f" ORDER BY {_KEYS[name]}"
            if batch is None:
                found = cursor.execute(statement + order).fetchall()
            else:
                found = self._run(cursor, f"{statement} WHERE batch = {{}}{order}", batch).fetchall()
        return [dict(zip(columns, row, strict=True)) for row in found]


def _names(columns: Iterable[str], between: str = ", ") -> str:
    return between.join(f'"{column}"' for column in columns)


def _first_line(problem: Exception) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0].rstrip(".")
