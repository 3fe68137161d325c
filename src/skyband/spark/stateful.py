"""`watch(df, queries)`: for people who have a streaming DataFrame and want one of changes.

All rows of a micro-batch meet in one stateful operator with one key, whose state is the monitor as bytes; Spark
keeps that state in its checkpoint and does the rest. Rows travel as Arrow blobs, because pandas would turn an
integer column with a null into floats. A micro-batch of a DataFrame has no order of its own, so its rows are
ordered by time and then by a hash of their values that is the same in every process.

Rows that don't fit have no place among changes. The same task writes them to files of their own, if it is told
where (see `rejected`), and tells of them in its log if not.

One key means one task: set `spark.sql.shuffle.partitions` to 1 or so before the query starts, since all other
partitions only cost time. With `shards` the queries are dealt out to that many keys (see `dealt`).
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.core.blob import OtherFormat
from skyband.core.errors import InputError, QueryError

from .columns import numbered_columns
from .dealt import dealt_changes
from .engine import drop
from .hashing import in_order
from .rejected import RejectFolder, reject_folder

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.state import GroupState

    from skyband.engine.monitor import Monitor
    from skyband.query.model import Query
    from skyband.stream.rejects import Reject

_STATE = "monitor binary"
log = logging.getLogger("skyband")


def watch(
    df: DataFrame,
    queries: Sequence[str] | Mapping[str, str],
    time: str | None = None,
    rejects: str | os.PathLike[str] | None = None,
    shards: int = 1,
) -> DataFrame:
    """The changes of the queries' answers over a streaming DataFrame.

    `queries` is a list of SQL texts (named query1, query2, …) or a mapping from names to them; `time` is the column of
    event times. The result has the columns of `Monitor.push`; write it in append mode. Queries that are other at
    the next start of the same checkpoint: kept, added from then on, or dropped, by name and text.

    `rejects` is a folder that every executor sees: all rejected rows go there, as `batch-<id>.parquet` for each
    micro-batch that has any, with the columns of `Monitor.rejects` and `batch` before them. A micro-batch that is
    done again replaces its file. Each streaming query needs a folder of its own. Without `rejects`, the task's log
    has their number and the last of them, and nothing keeps the others.

    `shards` deals the queries out to so many keys of the stateful operator, for as many tasks; it has to stay the
    same for a checkpoint. Rows are then pruned where they are, before they travel.
    """
    if not df.isStreaming:
        raise InputError(
            "watch needs a streaming DataFrame, such as spark.readStream gives; for rows that are there already, "
            "push them into a Monitor."
        )
    named = _named(queries)
    schema = _arrow_schema(df, time)
    _check(named, schema, time)
    folder = None if rejects is None else reject_folder(rejects)
    if isinstance(shards, bool) or not isinstance(shards, int) or shards < 1:
        raise InputError(f"shards= must be a whole number of at least 1, not {shards!r}.")
    if shards > 1:
        from skyband.query.sql.parser import parse

        models = {name: parse(sql) for name, sql in named.items()}
        return dealt_changes(df, models, schema, time, folder, shards, _change_columns(df, time))
    blobs = numbered_columns(df, schema.names).mapInArrow(_pack(schema.names), "one int, rows binary")
    return blobs.groupBy("one").applyInPandasWithState(
        _stepper(named, schema, time, folder), _change_columns(df, time), _STATE, "append", "NoTimeout"
    )


def _named(queries: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    if isinstance(queries, str):
        queries = [queries]
    named = (
        dict(queries) if isinstance(queries, Mapping) else {f"query{i}": q for i, q in enumerate(queries, 1)}
    )
    if not named:
        raise InputError("watch needs at least one query.")
    return named


def _arrow_schema(df: DataFrame, time: str | None) -> pa.Schema:
    """The DataFrame's schema in Arrow, without the columns that no query can use."""
    from pyspark.sql.pandas.types import to_arrow_schema

    whole: pa.Schema = to_arrow_schema(df.schema, timezone="UTC")
    schema = pa.schema([pa.field(f.name, f.type) for f in whole if not pa.types.is_nested(f.type)])
    if time is not None and time not in schema.names:
        raise InputError(f"The DataFrame has no column '{time}'; it has {', '.join(schema.names)}.")
    return schema


def _check(named: Mapping[str, str], schema: pa.Schema, time: str | None) -> None:
    """Find a wrong query here and not in a task."""
    from skyband.query.model import Joined
    from skyband.query.sql.parser import parse

    for name, sql in named.items():
        if isinstance(parse(sql), Joined):
            raise QueryError(
                f"Query '{name}' joins several streams, and watch has one DataFrame: ask it in a pipeline "
                f"(skyband run)."
            )
    _ask(_monitor(schema, time), named)


def _change_columns(df: DataFrame, time: str | None) -> str:
    kind = df.schema[time].dataType.simpleString() if time is not None else "timestamp"
    return (
        "query string, change string, rank int, score double, seq bigint, seq_b bigint, id string, "
        f"time {kind}"
    )


def _pack(names: list[str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Each record batch as one row with an Arrow stream."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            batch = batch.rename_columns(names)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            one = pa.array([0], pa.int32())
            yield pa.RecordBatch.from_pydict({"one": one, "rows": [sink.getvalue().to_pybytes()]})

    return pack


def _stepper(
    named: Mapping[str, str], schema: pa.Schema, time: str | None, folder: RejectFolder | None
) -> Callable[[Any, Iterator[pd.DataFrame], GroupState], Iterator[pd.DataFrame]]:
    """The stateful function: one call is one micro-batch."""
    blob_schema = schema.serialize().to_pybytes()  # pickles the same in every version of Arrow

    def step(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        known = pa.ipc.read_schema(pa.py_buffer(blob_schema))
        tables = [pa.ipc.open_stream(blob).read_all() for frame in frames for blob in frame["rows"]]
        rows = pa.concat_tables(tables).combine_chunks()
        monitor = _restored(bytes(state.get[0])) if state.exists else _monitor(known, time)
        left = _ask(monitor, named)
        rows = in_order(rows, time)
        if folder is None:
            changes = _push_and_tell(monitor, rows)
        else:
            changes, rejects = _push_all(monitor, rows)
            folder.put(rejects, first=not state.exists)
        state.update((monitor.to_bytes(),))
        for table in [*left, changes]:
            if table.num_rows:
                yield pandas_of(table)

    return step


def _restored(state: bytes) -> Monitor:
    """The monitor after the last micro-batch."""
    from skyband.engine.monitor import Monitor

    try:
        return Monitor.from_bytes(state)
    except OtherFormat as other:
        name = "The state of this query in Spark's checkpoint"
        raise OtherFormat(other.found, name, ", or start again with an empty checkpoint") from None


def _push_and_tell(monitor: Monitor, rows: pa.Table) -> pa.Table:
    """Push rows; how many were rejected, and one of them, go to the task's log."""
    before = monitor.reject_counts
    changes = monitor.push(rows)
    new = {reason: n - before[reason] for reason, n in monitor.reject_counts.items() if n > before[reason]}
    if new:
        _warn(new, monitor.rejects().column("raw")[-1].as_py())
    return changes


def tell(rejects: Sequence[Reject]) -> None:
    """How many rows were rejected, and the last of them, for the task's log."""
    if rejects:
        _warn(Counter(reject.reason for reject in rejects), rejects[-1].raw)


def _warn(counted: Mapping[str, int], raw: str) -> None:
    log.warning(
        "%d rows rejected (%s), the last one: %s; watch(..., rejects=folder) keeps all of them",
        sum(counted.values()),
        ", ".join(f"{n} {reason}" for reason, n in counted.items()),
        raw,
    )


def _push_all(monitor: Monitor, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Push rows; the changes, and all rows that were rejected: the monitor itself keeps the last ten thousand."""
    from skyband.stream.rejects import to_table

    first = monitor.rows_seen
    sifted = monitor.sifter().sift(rows)
    changes = monitor.push_sifted([(None, [sifted])])
    rejects = [reject._replace(seq=first + reject.seq) for reject in sifted.accepted().rejects]
    return changes, to_table(rejects)


def _monitor(schema: pa.Schema, time: str | None) -> Monitor:
    from skyband.engine.monitor import Monitor

    return Monitor(time=time, schema=schema)


def _ask(monitor: Monitor, named: Mapping[str, str]) -> list[pa.Table]:
    """Let the monitor have these queries; what dropped ones leave behind."""
    from skyband.query.sql.parser import parse

    return ask(monitor, {name: parse(sql) for name, sql in named.items()})


def ask(monitor: Monitor, queries: Mapping[str, Query]) -> list[pa.Table]:
    """Let the monitor have these queries; what dropped ones leave behind."""
    left: list[pa.Table] = []
    for name in list(monitor.watches):
        if name not in queries or monitor.watches[name].query != queries[name]:
            left.append(drop(monitor, name))
    for name, query in queries.items():
        if name not in monitor.watches:
            monitor.watch(query, name=name)
    return left


def pandas_of(changes: pa.Table) -> pd.DataFrame:
    """Changes for Spark: integers that may be null must not become floats."""
    import pandas as pd

    for number, field in enumerate(changes.schema):
        if pa.types.is_dictionary(field.type):
            changes = changes.set_column(number, field.name, changes.column(number).cast(pa.string()))
    kinds = {pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype()}
    return changes.to_pandas(types_mapper=kinds.get)
