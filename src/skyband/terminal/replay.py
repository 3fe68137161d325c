"""A file through a monitor: what `skyband top` and `skyband explain FILE` do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from skyband.core.errors import InputError, QueryError

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.engine.monitor import Monitor
    from skyband.files import Chunk
    from skyband.query.model import Query
    from skyband.terminal.progress import Bar

# Large enough that a push costs little more than its rows, small enough to stay in the processor's cache.
BATCH = 1 << 16


def parse_all(sqls: Sequence[str]) -> dict[str, Query]:
    """Return the queries by name: q1, q2 and so on, in the order given."""
    from skyband.query.sql.parser import parse

    return {f"q{number}": parse(sql) for number, sql in enumerate(sqls, 1)}


class Replay:
    """The rows of one file, pushed to a monitor that watches these queries."""

    def __init__(
        self,
        path: str,
        queries: Mapping[str, Query],
        time: str | None,
        unit: str | None = None,
        max_ahead: str | None = None,
    ) -> None:
        from skyband.files import open_rows

        kinds = _kinds(queries, time)
        self.reader = open_rows(path, kinds)
        schema = self.reader.schema
        if self.reader.left_out:
            print(f"left out, because nested: {', '.join(self.reader.left_out)}", file=sys.stderr)
        if unit is not None and time is None:
            raise QueryError("--time-unit is the unit of a column: name it with --time.")
        if max_ahead is not None:
            if time is None:
                raise QueryError("--max-ahead is about a column of times: name it with --time.")
            _check_ahead(max_ahead)
        _check_time(queries, time, schema)
        # A wrong name is looked for among all columns of the file; then only those that are used are read.
        try:
            monitor_of(schema, queries, time, unit)
        except QueryError as problem:
            raise self._with_example(
                problem, [name for name, kind in kinds.items() if kind == "number"]
            ) from None
        self.columns = _columns(queries, time, schema)
        self.monitor = monitor_of(_only(schema, self.columns), queries, time, unit, max_ahead)
        self.monitor._notices.silent = True  # `report` prints them
        self.rows = 0

    def _with_example(self, problem: QueryError, names: Sequence[str]) -> QueryError:
        """Return the same error with a value that was meant as a number and is written otherwise: 1.234,50 or $5."""
        said = str(problem)
        for name in names:
            if f" {name} is a text" not in said:
                continue
            chunk = next(iter(self.reader.chunks([name])), None)
            values = [] if chunk is None else chunk.table[name].slice(0, 1000).to_pylist()
            odd = next(
                (v for v in values if v and len(v) < 40 and sum(map(str.isdigit, v)) * 2 >= len(v)), None
            )
            if odd is not None:
                said = f"{said.removesuffix('.')}; it has {odd!r}, and numbers are written like 1234.5."
                return QueryError(said, problem.place, problem.source)
        return problem

    def run(self, bar: Bar, every: int | None = None, tell: Callable[[int], None] | None = None) -> None:
        """Push everything; `tell` is called after every so many rows."""
        from skyband.files import cut

        for piece in cut(self.reader.chunks(self.columns), BATCH, every):
            _push(self.monitor, piece)
            self.rows += piece.count
            bar.update(self.rows, self.reader.fraction())
            if tell is not None and every is not None and self.rows % every == 0:
                tell(self.rows)

    def report(self) -> None:
        """Print on standard error how many rows were rejected, and why, and the notices."""
        self._report_rejects()
        for notice in self.monitor._notices.by_what.values():
            rows = f"{notice.rows:,} {'row' if notice.rows == 1 else 'rows'}"
            print(f"{notice.sentence()} ({rows})", file=sys.stderr)

    def _report_rejects(self) -> None:
        counts = {reason: count for reason, count in self.monitor.reject_counts.items() if count}
        if not counts:
            return
        total = sum(counts.values())
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(counts.items()))
        print(f"{total:,} {'row' if total == 1 else 'rows'} rejected: {reasons}", file=sys.stderr)
        first = self.monitor.rejects().slice(0, 1).to_pylist()[0]
        print(f"  such as row {first['seq']}: {first['detail']}", file=sys.stderr)


def monitor_of(
    schema: pa.Schema | None,
    queries: Mapping[str, Query],
    time: str | None,
    unit: str | None = None,
    max_ahead: str | None = None,
) -> Monitor:
    """Return a monitor with the queries as its watches."""
    from skyband.engine.monitor import Monitor

    unit = None if unit is None else str(unit)
    monitor = Monitor(time=time, schema=schema, time_unit=unit, max_ahead=max_ahead)
    for name, query in queries.items():
        monitor.watch(query, name=name)
    return monitor


def _push(monitor: Monitor, piece: Chunk) -> None:
    if not piece.bad:
        monitor.push(piece.table)
        return
    table, texts = piece.with_gaps()
    monitor.push_sifted([(None, [monitor.sifter().sift(table, text=texts)])])


def _check_ahead(max_ahead: str) -> None:
    from skyband.query.window import duration

    try:
        duration("max_ahead", max_ahead)
    except QueryError:
        raise QueryError(f'--max-ahead takes a duration such as "5 minutes", not {max_ahead!r}.') from None


def _check_time(queries: Mapping[str, Query], time: str | None, schema: pa.Schema) -> None:
    import pyarrow as pa

    from skyband.query.model import Last

    if time is not None and time not in schema.names:
        raise QueryError(f"There is no column {time!r} for --time; there are {', '.join(schema.names)}.")
    if time is not None and pa.types.is_string(schema.field(time).type):
        raise InputError(
            f"The column {time!r} of --time holds texts that are no times: write them like 2024-05-31T12:00:00 or as "
            "numbers of seconds, or name another column."
        )
    if time is None and any(isinstance(query.window, Last) for query in queries.values()):
        times = [field.name for field in schema if pa.types.is_temporal(field.type)]
        example = times[0] if times else "COLUMN"
        raise QueryError(f"A window of a duration needs times: name their column, as in --time {example}.")


def _kinds(queries: Mapping[str, Query], time: str | None) -> dict[str, str]:
    """Return what the call says of columns: the one of --time holds times, those of a score hold numbers."""
    from skyband.query.column_kinds import numeric_columns

    kinds = {column.name: "number" for query in queries.values() for column in numeric_columns(query)}
    return kinds if time is None else kinds | {time: "time"}


def _columns(queries: Mapping[str, Query], time: str | None, schema: pa.Schema) -> list[str]:
    """Return the columns that need be read, in the file's order."""
    from skyband.query.column_kinds import named_columns

    if any(query.select is None for query in queries.values()):
        return list(schema.names)
    used = {time}.union(*map(named_columns, queries.values()))
    return [name for name in schema.names if name in used]


def _only(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([schema.field(name) for name in columns])
