"""The resident engine: a Monitor that knows which batch it has reached.

The monitor lives in the driver between micro-batches. Everything that reaches it is in the checkpoint first, so
the engine after batch N can be had again in any process: newest snapshot, then the steps since, each with the
queries that were in force at its batch.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.core.errors import InputError, QueryError
from skyband.spark.config import Pipeline, QuerySpec
from skyband.spark.sinks import TOP_SCHEMA, batch_column, without_codes

from .checkpoint import Checkpoint, Queries, Step
from .shown import Slices, answers_of

if TYPE_CHECKING:
    from skyband.engine.monitor import Monitor
    from skyband.engine.pruning import Sifted, Sifter
    from skyband.query.model import Query
    from skyband.spark.input.expected import Odd
    from skyband.stream.rejects import Reject
    from skyband.stream.validation import Accepted, Door

# A snapshot is due after so many batches, or when replaying the steps since the last would read so many bytes.
_SNAPSHOT_BATCHES = 16
_SNAPSHOT_BYTES = 64 << 20
MANY = 256  # queries
SHARED = ("ra", "sa")  # algorithms whose lists have nothing in common: threads may have some each


@dataclass(frozen=True)
class Output:
    """What one batch gives."""

    changes: pa.Table
    rejects: pa.Table
    tops: pa.Table


class Engine:
    """The monitor of a pipeline and the batch it has reached."""

    def __init__(self, pipeline: Pipeline, schemas: Mapping[str, pa.Schema], checkpoint: Checkpoint) -> None:
        self._pipeline = pipeline
        self._schemas = dict(schemas)
        self._checkpoint = checkpoint
        self._reached: int | None = None
        self._monitor: Monitor | None = None
        self._queries: Queries = ()
        self.threads = 1  # that the work of many queries may be divided among
        self.tops = Slices()  # each query's answer, read again when it changes
        self._shown = Slices()  # the same as the `top` output has it
        self._sifters: dict[str, Sifter] = {}  # as long as the queries stay
        self.frozen = False  # whether what is there is kept from the collector of garbage
        self._since: tuple[int, int] = (0, 0)  # batches and bytes since the last snapshot
        self._leaves: list[pa.Table] = []  # the answers of queries that were dropped since the last step

    @property
    def monitor(self) -> Monitor:
        assert self._monitor is not None
        return self._monitor

    def begin_with(self, monitor: Monitor, queries: Queries) -> None:
        """Be the engine just before batch 0 with a monitor that has its queries already, and no rows."""
        self._monitor, self._reached, self._queries = monitor, -1, queries
        self._freeze(len(queries))

    def reach(self, batch: int) -> None:
        """Be the engine just before `batch`, with the queries that hold in it."""
        self._reach(batch)
        self._prepare(batch)

    def _reach(self, batch: int) -> None:
        if self._reached == batch - 1:
            return
        for number, queries, state in self._checkpoint.snapshots_before(batch):
            steps = self._steps(number + 1, batch)
            if steps is None:
                continue
            self._start(number, queries, state)
            for step in steps:
                self._replay(step)
            return
        raise InputError(
            f"The checkpoint {self._checkpoint.folder} has no usable state before batch {batch}: it is damaged; "
            f"start again with an empty checkpoint and output folder."
        )

    def _prepare(self, batch: int) -> None:
        """Let the queries of `batch` hold; the dropped ones' answers leave with the next step."""
        wanted = self._checkpoint.queries(batch)
        if wanted == self._queries:
            return
        _, added, dropped = compare_queries(self._queries, wanted)
        self._leaves += [self._drop(name) for name in dropped]
        for query in wanted:
            if query.name in added:
                self.monitor.watch(bound(query, self._pipeline), name=query.name)
        self._queries, self._sifters = wanted, {}
        self._freeze(len(added))

    def _freeze(self, added: int) -> None:
        """Millions of objects that stay: to go through them again and again takes as long as a batch."""
        if added >= MANY:
            gc.freeze()
            self.frozen = True

    def sifters(self) -> dict[str, Sifter]:
        """What tasks need for as long as the queries stay, by stream."""
        if not self._sifters:  # to ask ten thousand watches what they want takes a while
            self._sifters = sifters_of(self.monitor, self._pipeline)
        return self._sifters

    def doors(self) -> dict[str, Door]:
        """The streams' doors in the next batch."""
        return {stream.name: self.monitor.streams[stream.name].door() for stream in self._pipeline.streams}

    def look_at(self, step: Step) -> tuple[list[Odd], list[Reject]]:
        """What a step would have of notices about columns and of rejects; nothing of it is taken."""
        parts: list[tuple[str, list[Accepted]]] = []
        odd: list[Odd] = []
        rejects: list[Reject] = []
        for stream, sifted in _sifted(step):
            if not parts or parts[-1][0] != stream:
                parts.append((stream, []))
            parts[-1][1].append(sifted.accepted())
            rejects += sifted.part.rejects
            odd += [(stream, *each) for each in sifted.odd]
        streams = self.monitor.streams
        rejects += self.monitor._judged([(streams[name], own) for name, own in parts]).rejected()
        return odd, rejects

    def take(self, step: Step) -> Output:
        """Give a step to the monitor; what comes out."""
        from skyband.stream.rejects import to_table

        parts, leaves = _sifted(step), self._leaves
        changes = self._push(step, parts)
        rejects = to_table(self.monitor.step_rejects)
        if leaves:
            changes = pa.concat_tables([*map(without_codes, leaves), without_codes(changes)])
        return Output(
            batch_column(changes, step.batch), batch_column(rejects, step.batch), self._tops(changes)
        )

    def save_if_due(self) -> None:
        """Write a snapshot once in a while."""
        batches, size = self._since
        assert self._reached is not None
        if batches >= _SNAPSHOT_BATCHES or size >= _SNAPSHOT_BYTES:
            self._checkpoint.write_snapshot(self._reached, self._queries, self.monitor.to_bytes())
            self._since = (0, 0)

    def _push(self, step: Step, sifted: list[tuple[str, Sifted]]) -> pa.Table:
        parts: list[tuple[str | None, list[Any]]] = []
        for stream, part in sifted:
            if not parts or parts[-1][0] != stream:
                parts.append((stream, []))
            parts[-1][1].append(part)
        for state in self.monitor.streams.values():
            for group in state.groups:
                if group.algorithm.card.name in SHARED:
                    group.algorithm.threads = self.threads
        changes = self.monitor.push_sifted(parts)
        self._reached, self._leaves = step.batch, []
        batches, size = self._since
        self._since = (batches + 1, size + sum(len(blob) for _, blob in step.parts))
        return changes

    def _replay(self, step: Step) -> None:
        self._prepare(step.batch)
        self.monitor._notices.silent = True  # they were logged when the batch came
        self._push(step, _sifted(step))
        self.monitor._notices.silent = False

    def _start(self, batch: int, queries: Queries, state: bytes | None) -> None:
        from skyband.engine.monitor import Monitor

        if state is None:
            self._monitor = new_monitor(self._pipeline, self._schemas)
        else:
            self._monitor = Monitor.from_bytes(state)
        self._monitor.lists_only = True  # tasks prune
        self._reached, self._queries, self._since, self._leaves = batch, queries, (0, 0), []
        self.tops, self._shown, self._sifters = Slices(), Slices(), {}

    def _steps(self, first: int, end: int) -> list[Step] | None:
        """The steps of batches first, ..., end - 1; None if one is missing or torn."""
        steps = []
        for batch in range(first, end):
            step = self._checkpoint.step(batch)
            if step is None:
                return None
            steps.append(step)
        return steps

    def _drop(self, name: str) -> pa.Table:
        self._shown.forget(name)
        self.tops.forget(name)
        return drop(self.monitor, name)

    def _tops(self, changes: pa.Table) -> pa.Table:
        touched = set(changes.column("query").unique().to_pylist())
        every = 2 * len(touched) > len(
            self._queries
        )  # then those of before, slices of one table, go as a whole
        names = [q.name for q in self._queries if every or q.name in touched or q.name not in self._shown]
        for found in answers_of(self.monitor.watches[name] for name in names):
            self.tops.put(found.names, found.sizes, found.tops)
            self._shown.put(found.names, found.sizes, found.shown)
        shown = self._shown.joined(query.name for query in self._queries)
        return pa.concat_tables([TOP_SCHEMA.empty_table(), *shown]).combine_chunks()


def _sifted(step: Step) -> list[tuple[str, Sifted]]:
    """A step's parts, read."""
    from skyband.engine.pruning import Sifted

    return [(stream, Sifted.from_bytes(blob)) for stream, blob in step.parts]


def drop(monitor: Monitor, name: str) -> pa.Table:
    """Drop a watch; its answer as leaves, so that folding the changes still gives the tops."""
    from skyband.stream import clock

    watch: Any = monitor.watches[name]
    answer = watch.group.reported(watch)
    timed = watch.group.timed
    kind, time_type = monitor._time_type()
    monitor.drop(name)
    n = len(answer.seq)
    seqs = None if answer.id is not None else answer.seq
    return pa.table(
        {
            "query": pa.array([name] * n, pa.string()),
            "change": pa.array(["leave"] * n, pa.string()),
            "rank": pa.nulls(n, pa.int32()),
            "score": pa.array(watch.group.sign * answer.good + 0.0, pa.float64()),
            "seq": pa.array([None] * n if seqs is None else seqs, pa.int64()),
            "seq_b": pa.array([None] * n if answer.seq_b is None else answer.seq_b, pa.int64()),
            "id": pa.array([None] * n if answer.id is None else answer.id, pa.string()),
            "time": clock.column(answer.time, kind, time_type) if kind and timed else pa.nulls(n, time_type),
        }
    )


def watch_all(monitor: Monitor, pipeline: Pipeline) -> None:
    """Watch a pipeline's queries; an error names its query."""
    for query in pipeline.queries:
        try:
            monitor.watch(bound(query, pipeline), name=query.name)
        except QueryError as problem:
            raise QueryError(f"{pipeline.file.name}: query '{query.name}': {problem}") from None


def bound(query: QuerySpec, pipeline: Pipeline) -> Query:
    """A query about the stream that it means: its name is free where there is one stream."""
    from skyband.query.model import Joined
    from skyband.query.sql.parser import parse

    model = parse(query.sql)
    if len(pipeline.streams) == 1 and not isinstance(model, Joined):
        return replace(model, stream=pipeline.streams[0].name)
    return model


def sifters_of(monitor: Monitor, pipeline: Pipeline) -> dict[str, Sifter]:
    """What tasks need of each stream."""
    return {stream.name: monitor.sifter(stream.name) for stream in pipeline.streams}


def new_monitor(pipeline: Pipeline, schemas: Mapping[str, pa.Schema]) -> Monitor:
    """A monitor of the pipeline's streams, without queries."""
    from skyband.engine.monitor import Monitor

    return Monitor(schema=dict(schemas), **pipeline.monitor_options())


def compare_queries(old: Queries, new: Queries) -> tuple[list[str], list[str], list[str]]:
    """Names of the queries that are kept, added and dropped; a changed one is dropped and added."""
    from skyband.query.sql.parser import parse

    before = {query.name: parse(query.sql) for query in old}
    after = {query.name: parse(query.sql) for query in new}
    kept = [name for name in after if before.get(name) == after[name]]
    added = [name for name in after if name not in kept]
    dropped = [name for name in before if name not in kept]
    return kept, added, dropped
