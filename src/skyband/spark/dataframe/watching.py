"""`watch`: the answers to standing queries over DataFrames, as DataFrames.

Of streaming DataFrames it gives the changes of every micro-batch, or the answers that have changed; of batch DataFrames
the final answers, or the changes along event time. Rows are checked and pruned in the tasks that have them, get their
positions in the order of the micro-batch, and are taken by one stateful operator with a key for each unit (`units`).
Rows travel as Arrow blobs: pandas would turn an integer column with a null into floats.

Rows that don't fit have no place among changes. The operator's task writes them to files of their own where
`rejects` names a folder, and counts them in its log where it does not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa

from skyband.core.errors import InputError, QueryError
from skyband.query.coerce import asked
from skyband.query.model import Grouped, Joined, Query
from skyband.spark.executors.routing import Era, Job
from skyband.spark.executors.shards import (
    COUPLES,
    ROWS,
    Streams,
    Unit,
    kind_of,
    part_of,
)
from skyband.spark.input.jobs import Packed
from skyband.stream import clock
from skyband.stream.validation import Accepted

from .columns import arrow_type, numbered_columns, spark_type
from .merge import merge, time_type
from .rejected import reject_folder
from .tasks import (
    CHUNK_COLUMNS,
    PART_COLUMNS,
    Deal,
    InArrow,
    deal_out,
    number,
    numbered,
)
from .units import (
    LINE_COLUMNS,
    STATE,
    STATE_ALONE,
    ask,
    first_monitor,
    shown_schema,
    step_all,
    stepper,
    warn,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Queries = str | Query | Sequence[str | Query] | Mapping[str, str | Query]

_STREAM = "s"  # what the stream of a single DataFrame is called
_SPLIT = (
    8  # units of grouped and joined queries; the number belongs to a checkpoint and can't depend on a machine
)
_WATERMARK = "spark.watermarkDelayMs"
_OUTPUTS = ("changes", "tops")


@overload
def watch(
    df: DataFrame | Mapping[str, DataFrame],
    queries: Queries,
    time: str | Mapping[str, str] | None = None,
    rejects: str | os.PathLike[str] | None = None,
    shards: int | None = None,
    *,
    output: str | None = None,
) -> DataFrame: ...
@overload
def watch(
    df: Queries,
    queries: None = None,
    time: str | Mapping[str, str] | None = None,
    rejects: str | os.PathLike[str] | None = None,
    shards: int | None = None,
    *,
    output: str | None = None,
) -> Callable[[DataFrame], DataFrame]: ...
def watch(
    df: Any,
    queries: Any = None,
    time: str | Mapping[str, str] | None = None,
    rejects: str | os.PathLike[str] | None = None,
    shards: int | None = None,
    *,
    output: str | None = None,
) -> Any:
    """Return the changes of the queries' answers over a DataFrame, or the answers.

    `df` is a streaming or a batch DataFrame, or a mapping from streams' names to such, for joined queries. Without it,
    `watch("SELECT …", time="ts")` returns the function for `df.transform`. `queries` is one query or a list (named
    query1, query2, …) or a mapping from names to them; each is SQL or a query object (`sb.topk` and the like, also with
    Columns as scores). `time` is the column of event times (of each stream by name, if they differ); without it the
    column that has a watermark, if one has.

    Of streaming DataFrames the result has the columns of `Monitor.push`; write it in append mode. With output="tops" it
    has the answers that have changed, (query, rank, score, the columns), in update mode: a rank that an answer has no
    longer has a null score. Of batch DataFrames the result is the final answers; with output="changes" the changes at
    every event time, with that time in the column `now`. Queries may change between two starts of a checkpoint: by name
    and text they are kept, added from then on, or dropped.

    `rejects` is a folder that every executor sees, or a URI of a store (`s3a://…`): all rejected rows of a stream go
    there, as `batch-<id>.parquet` for each micro-batch that has any, with the columns of `Monitor.rejects` and `batch`
    before them. A micro-batch that is done again replaces its file. Each streaming query needs a folder of its own.
    Without `rejects`, the task's log has their number and the last of them.

    `shards` is the number of units that the queries are dealt out to, one task each; it has to stay the same for a
    checkpoint. By default there is one, and eight where a grouped or joined query is among the queries.
    """
    options: dict[str, Any] = {"time": time, "rejects": rejects, "shards": shards, "output": output}
    frames = _frames(df)
    if frames is None:
        if queries is not None:
            raise InputError(
                f"watch needs a DataFrame, or several by their streams' names, not {type(df).__name__}."
            )
        _named(df)
        return lambda frame: watch(frame, df, **options)
    if queries is None:
        raise InputError("watch needs at least one query.")
    return _watched(frames, not isinstance(df, Mapping), _named(queries), **options)


def _frames(df: Any) -> dict[str, DataFrame] | None:
    """Return DataFrames by their streams' names; None if these are none."""
    if hasattr(df, "isStreaming"):
        return {_STREAM: df}
    several = isinstance(df, Mapping) and df and all(hasattr(one, "isStreaming") for one in df.values())
    return dict(df) if several else None


def _watched(
    frames: dict[str, DataFrame],
    free: bool,
    queries: dict[str, Query],
    time: str | Mapping[str, str] | None,
    rejects: str | os.PathLike[str] | None,
    shards: int | None,
    output: str | None,
) -> DataFrame:
    first = frames[next(iter(frames))]
    streaming = first.isStreaming
    if any(frame.isStreaming != streaming for frame in frames.values()):
        raise InputError("The DataFrames of a join must all be streaming, or none of them.")
    streams = _streams(frames, time)
    split = any(isinstance(query, Grouped | Joined) for query in queries.values())
    if shards is not None and (isinstance(shards, bool) or not isinstance(shards, int) or shards < 1):
        raise InputError(f"shards= must be a whole number of at least 1, not {shards!r}.")
    if output not in (None, *_OUTPUTS):
        raise InputError(f'output= is "changes" or "tops", not {output!r}.')
    if rejects is not None and not streaming:
        raise InputError(
            "rejects= needs a streaming DataFrame, such as spark.readStream gives; of a batch DataFrame the rows that "
            "do not fit can be selected by a filter."
        )
    monitor = _check(queries, streams, free)
    changes = (output or ("changes" if streaming else "tops")) == "changes"
    deal = _deal(queries, streams, free, shards or (_SPLIT if split else 1))
    deal = replace(
        deal,
        folder=None if rejects is None else reject_folder(rejects, first.sparkSession),
        shown=None if changes else _shown(monitor, streams),
        keep_all=changes and not streaming,
    )
    if streaming:
        return _streamed(frames, deal)
    return _replayed(frames, deal) if changes else _answered(frames, deal)


def _named(queries: Any) -> dict[str, Query]:
    if isinstance(queries, Mapping):
        named = dict(queries)
    else:
        several = isinstance(queries, Sequence) and not isinstance(queries, str)
        named = {f"query{i}": query for i, query in enumerate(queries if several else [queries], 1)}
    if not named:
        raise InputError("watch needs at least one query.")
    return {name: asked(query) for name, query in named.items()}


def _streams(frames: Mapping[str, DataFrame], time: str | Mapping[str, str] | None) -> Streams:
    """Return the schemas of the DataFrames in Arrow, without the columns that no query can use."""
    schemas, times = {}, {}
    for name, frame in frames.items():
        columns = [(f.name, arrow_type(f.dataType)) for f in frame.schema]
        schemas[name] = schema = pa.schema([(column, to) for column, to in columns if to is not None])
        own = time.get(name) if isinstance(time, Mapping) else time
        if time is None:
            own = next((f.name for f in frame.schema if f.metadata and _WATERMARK in f.metadata), None)
        if own is not None and own not in schema.names:
            raise InputError(f"The DataFrame has no column '{own}'; it has {', '.join(schema.names)}.")
        if own is not None:
            times[name] = own
    return Streams(times, {}, {}, schemas)


def _check(queries: Mapping[str, Query], streams: Streams, free: bool) -> Any:
    """Find a wrong query here and not in a task; return a monitor that watches all of them."""
    for name, query in queries.items():
        if free and isinstance(query, Joined):
            raise QueryError(
                f"Query '{name}' joins several streams, and watch has one DataFrame: give one for each by name, such "
                f'as watch({{"{query.streams[0]}": df1, "{query.streams[1]}": df2}}, …).'
            )
        known = query.streams if isinstance(query, Joined) else (query.stream,)
        unknown = [] if free else [one for one in known if one not in streams.schemas]
        if unknown:
            raise QueryError(
                f"Query '{name}' reads the stream {unknown[0]}, and the DataFrames are called "
                f"{', '.join(streams.schemas)}."
            )
    monitor = streams.monitor()
    ask(monitor, {name: _bound(query, free) for name, query in queries.items()})
    return monitor


def _bound(query: Query, free: bool) -> Query:
    return replace(query, stream=_STREAM) if free and not isinstance(query, Joined) else query


def _deal(queries: Mapping[str, Query], streams: Streams, free: bool, shards: int) -> Deal:
    """Return what tasks must know: the units with their queries."""
    bound = [(name, _bound(query, free)) for name, query in queries.items()]
    units = []
    for part in range(shards):
        own = [(name, query) for name, query in bound if _has(part, query, shards)]
        units.append(Unit.make(part, ROWS, part, shards, 0, tuple(own), reporter=part == 0))
    for kind in dict.fromkeys(kind_of(query) for _, query in bound) if shards > 1 else ():
        if kind not in (ROWS, COUPLES):
            same = tuple((name, query) for name, query in bound if kind_of(query) == kind)
            first = len(units)
            units += [Unit.make(first + part, kind, part, shards, 0, same) for part in range(shards)]
    return Deal(Packed.of(Job(streams, (Era(0, tuple(units)),), "", 0)), queries, shards, free)


def _has(part: int, query: Query, shards: int) -> bool:
    """Return whether a unit has a query about single rows or pairs; a single unit has every query."""
    kind = kind_of(query)
    return shards == 1 or kind == COUPLES or (kind == ROWS and part_of(query, shards) == part)


def _shown(monitor: Any, streams: Streams) -> pa.Schema:
    """Return the columns of answers: query, rank, score, then those that any query selects."""
    schemas = [pa.schema([("query", pa.string()), ("rank", pa.int32()), ("score", pa.float64())])]
    schemas += [shown_schema(watch, streams.schemas) for watch in monitor.watches.values()]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowTypeError as problem:
        raise QueryError(
            f"Two queries select columns of one name and different types ({problem}): rename one of them with AS."
        ) from None


# -- plans


def _chunks(frames: Mapping[str, DataFrame], deal: Deal) -> DataFrame:
    found = [
        numbered_columns(frame, deal.job.get().streams.schemas[name].names).mapInArrow(
            deal_out(deal, name), CHUNK_COLUMNS
        )
        for name, frame in frames.items()
    ]
    return reduce(lambda one, other: one.unionAll(other), found)


def _parts(frames: Mapping[str, DataFrame], deal: Deal) -> DataFrame:
    """Return the units' parts: of a single unit as they come from the tasks, else numbered."""
    chunks = _chunks(frames, deal)
    if deal.shards == 1:
        return chunks.selectExpr("0 AS one", "chunk", "stream", "unit", "blob")
    return chunks.repartition(1).mapInArrow(number(deal), PART_COLUMNS)


def _streamed(frames: Mapping[str, DataFrame], deal: Deal) -> DataFrame:
    """Return the changes, or the answers that have changed, of every micro-batch."""
    lines = unit_lines(frames, deal)
    if deal.shards == 1 and deal.shown is None:
        return lines
    # The operator's rows can't be shuffled as they are (Spark casts them to rows of another kind and fails): a computed
    # column makes them of that kind. The task runs without pairs and groups too: queries that were dropped since the
    # last start leave their answers.
    lines = lines.selectExpr("unit", "coalesce(number, 0L) AS number", "kind", "query", "blob")
    return lines.repartition(1).mapInArrow(merge(deal), _columns(deal))


def unit_lines(frames: Mapping[str, DataFrame], deal: Deal) -> DataFrame:
    """Return what the units report, each by itself; of a single unit its changes."""
    alone = deal.shards == 1
    columns = _columns(deal) if alone and deal.shown is None else LINE_COLUMNS
    return (
        _parts(frames, deal)
        .groupBy("one" if alone else "unit")
        .applyInPandasWithState(
            stepper(deal),
            columns,
            STATE_ALONE if alone else STATE,
            "append" if deal.shown is None else "update",
            "NoTimeout",
        )
    )


def _answered(frames: Mapping[str, DataFrame], deal: Deal) -> DataFrame:
    """Return the final answers over batch DataFrames."""
    parts = _parts(frames, deal)
    parts = parts.repartition(1) if deal.shards == 1 else parts.repartition(deal.shards, "unit")
    return (
        parts.mapInArrow(step_all(deal), LINE_COLUMNS).repartition(1).mapInArrow(merge(deal), _columns(deal))
    )


def _replayed(frames: Mapping[str, DataFrame], deal: Deal) -> DataFrame:
    """Return the changes over batch DataFrames, step by step along event time, in one task."""
    deal = _deal_whole(deal)
    if not deal.job.get().streams.time:
        raise InputError(
            'output="changes" of a batch DataFrame needs time=: its steps are those of event time.'
        )
    return _chunks(frames, deal).repartition(1).mapInArrow(_replay(deal), _columns(deal, now=True))


def _deal_whole(deal: Deal) -> Deal:
    streams = deal.job.get().streams
    return replace(_deal(deal.queries, streams, deal.free, 1), keep_all=True)


def _replay(deal: Deal) -> InArrow:
    def replay(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from skyband.engine.pruning import Sifted
        from skyband.spark.sinks import without_codes

        parts = numbered([row for batch in batches for row in batch.to_pylist()])
        monitor = first_monitor(deal)
        ask(monitor, deal.queries)
        warn([reject for part in parts for reject in part.rows.rejects])
        order = {stream: place for place, stream in enumerate(deal.job.get().streams.schemas)}
        parts.sort(key=lambda part: order[part.stream])
        times = np.unique(np.concatenate([np.empty(0, np.int64), *(part.rows.time for part in parts)]))
        type_ = time_type(deal.job.get().streams)
        for time in times:
            rows = []
            for part in parts:
                rows.append((None if deal.free else part.stream, [Sifted(_at(time, part.rows))]))
            changes = without_codes(monitor.push_sifted(rows))
            if changes.num_rows:
                kind, wide = monitor._time_type()
                assert kind is not None
                now = clock.column(np.repeat(time, changes.num_rows), kind, wide).cast(type_)
                at = changes.schema.get_field_index("time")
                changes = changes.set_column(at, "time", changes.column(at).cast(type_))
                yield from changes.append_column("now", now).to_batches()

    return replay


def _at(time: int, part: Accepted) -> Accepted:
    """Return the rows of one event time as a step's rows."""
    first, stop = (int(np.searchsorted(part.time, time, side)) for side in ("left", "right"))
    rows = part.table.slice(first, stop - first)
    return Accepted(rows.num_rows, rows, None, part.time[first:stop], [], total=rows.num_rows)


_CHANGES = {
    "query": "string",
    "change": "string",
    "rank": "integer",
    "score": "double",
    "seq": "long",
    "seq_b": "long",
    "id": "string",
}


def _columns(deal: Deal, now: bool = False) -> Any:
    """Return the schema of the result: of changes, or of answers."""
    from pyspark.sql.types import StructType

    if deal.shown is not None:
        columns = [(field.name, spark_type(field.type)) for field in deal.shown]
    else:
        time = spark_type(time_type(deal.job.get().streams))
        columns = [*_CHANGES.items(), ("time", time), *([("now", time)] if now else [])]
    found = StructType()
    for name, kind in columns:
        found.add(name, kind)
    return found
