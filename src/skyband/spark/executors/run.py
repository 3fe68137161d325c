"""The executors placement: the same pipeline, with its state on the executors.

    source -> read, accept, share out (tasks) -> one stateful operator, a key for each unit -> merge, sinks (driver)

Tasks read rows and send every unit its part of them (`routing`). A unit keeps its queries' state and says what has
changed (`merging`). What comes to the driver is answers, not rows: it puts the units' changes into one table, merges
the answers of queries that are split over several units (`partial`), and puts the batch out as the driver placement
does, under the batch's id, before Spark commits. State, offsets and commits are Spark's: a batch that is done again
begins from the same state with the same rows, and what comes out is the same.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from skyband.core.errors import InputError
from skyband.spark.driver.checkpoint import Queries
from skyband.spark.driver.engine import compare_queries
from skyband.spark.driver.run import Run, say
from skyband.spark.input.expected import must_suit, refused_in_a_task
from skyband.spark.input.inputs import (
    declared_of,
    forms_of,
    in_one,
    part_frames,
)
from skyband.spark.input.jobs import Packed
from skyband.spark.jvm.files import remove_tree
from skyband.spark.jvm.paths import uri_of
from skyband.spark.jvm.private import has_listeners
from skyband.spark.session.metrics import observed_parts
from skyband.spark.session.progress import BatchInfo
from skyband.spark.session.start import FEW_LINES, settings
from skyband.spark.sinks import batch_column
from skyband.stream.notices import Notices
from skyband.stream.rejects import Reject

from .frames import late_of, read_frame, write_frame
from .gather import Asked, Gather, Reports
from .handover import hand_over
from .merging import LINE_COLUMNS, STATE, stepper
from .routing import Era, Job, control_frame
from .shards import (
    Layout,
    LayoutLog,
    Streams,
    bound_queries,
    plan_layout,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_STATE = "spark.sql.streaming.stateStore"
_OTHER = "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"  # what Spark says of a state in other columns
_CHECK = "spark.sql.streaming.unsupportedOperationCheck"
_WORKERS = "SKYBAND_WORKERS"  # in the environment of Python workers; no code reads it


class ExecutorsRun(Run):
    """One run of a pipeline with its state in the executors."""

    _stateful = True

    def _start(self, session: SparkSession, available_now: bool) -> StreamingQuery:
        own = self._checkpoint.own
        self._streams = Streams.of(self._pipeline, self._schemas)
        self._log = LayoutLog(own)
        self._gather = Gather(self._streams)
        self._notices = Notices()
        self._bound: list[tuple[Queries, Asked]] = []
        self._again = self._checkpoint.batches()
        begins = self._committed() + 1
        new = max(begins, self._first_new())
        self._known: dict[int, Queries] = {}
        self._newest = new  # from this batch on the queries stay as they are
        if begins < new:
            # a batch was under way: it is done with the queries and the units that it was begun with
            begun = self._log.at(begins)
            assert begun is not None
            era = self._era(begins, begun, self._log.at(begins - 1))
            again = self._query(session, [era], begins, once=True)
            self._await(again)
            begins = self._committed() + 1
            if self._stop.asked() or begins < new:
                return again
        # What is there is the state of the last batch's units: a start that ended before its first batch had begun may
        # have noted others, which took nothing over.
        old = self._log.at(begins - 1)
        return self._query(session, [self._new_era(session, begins, old)], begins, available_now)

    def _committed(self) -> int:
        """The last batch that Spark has committed."""
        folder = self._checkpoint.folder / "commits"
        numbers = [int(p.name) for p in folder.iterdir() if p.name.isdigit()] if folder.is_dir() else []
        return max(numbers, default=-1)

    def _first_new(self) -> int:
        """The first batch never attempted: where the newest queries hold from."""
        folder = self._checkpoint.folder / "offsets"
        numbers = [int(p.name) for p in folder.iterdir() if p.name.isdigit()] if folder.is_dir() else []
        return max(numbers, default=-1) + 1

    # -- units

    def _era(self, first: int, layout: Layout, old: Layout | None) -> Era:
        """The units from batch `first` on, and which of those before it end with it."""
        units = layout.units(self._asked(first))
        retired: list[Any] = []
        moved: list[int] = []
        there = {unit.key for unit in units}
        for unit in () if old is None or layout == old else old.units(self._asked(first - 1)):
            if unit.key not in there and unit.kind in layout.kinds:
                moved.append(unit.key)
            elif unit.key not in there:
                retired.append(replace(unit, queries=(), digest="none"))
        return Era(first, units, tuple(retired), tuple(moved))

    def _new_era(self, session: SparkSession, first: int, old: Layout | None) -> Era:
        """The units from batch `first` on; those that are new take over what older ones kept."""
        asked = self._asked(first)
        cores = int(session.sparkContext.defaultParallelism)
        layout = plan_layout(self._pipeline, asked, cores, old)
        era = self._era(first, layout, old)
        if old is not None and layout != old:
            before = old.units(self._asked(first - 1))
            hand_over(session, self._checkpoint, first, before, era.units)
            say(f"the state of {len(before)} units is dealt out to {len(era.units)}")
        elif first:
            remove_tree(self._checkpoint.own / "handover")  # it was taken over long ago
        self._log.set(first, layout)
        self._renew_frame(first)
        return era

    def _renew_frame(self, first: int) -> None:
        """What is late in batch `first` depends on its queries, which may be others than those before."""
        frame = read_frame(self._checkpoint.own, first - 1)
        if frame is not None:
            write_frame(self._checkpoint.own, first - 1, frame, self._late(frame, first - 1))

    def _late(self, frame: dict[str, Any], batch: int) -> dict[str, int | None]:
        """What is late in the batch after `batch`."""
        now, then = self._queries(batch + 1), self._queries(batch)
        kept = {query.name for query in now} if now == then else {*compare_queries(then, now)[0]}
        return late_of(frame, self._asked(batch + 1), self._streams.time, kept)

    def _asked(self, batch: int) -> Asked:
        queries = self._queries(batch)
        for known, asked in self._bound:
            if known is queries:  # a thousand of them are not compared for every batch
                return asked
        self._bound = [*self._bound[-3:], (queries, bound_queries(queries, self._pipeline))]
        return self._bound[-1][1]

    def _queries(self, batch: int) -> Queries:
        """The queries in force at a batch, which are read once a run: they change between runs only."""
        if batch not in self._known:
            last = max(self._known, default=-2)
            same = last >= self._newest and batch > last
            self._known[batch] = self._known[last] if same else self._checkpoint.queries(batch)
            self._known.pop(batch - 3, None)
        return self._known[batch]

    # -- the query

    def _query(
        self,
        session: SparkSession,
        eras: list[Era],
        begins: int,
        available_now: bool = False,
        once: bool = False,
    ) -> StreamingQuery:
        layout = self._log.at(eras[-1].first)
        assert layout is not None
        job = Job(
            streams=self._streams,
            eras=tuple(eras),
            checkpoint=str(self._checkpoint.own),
            begins=begins,
            prune_rows=self._pipeline.spark.prune_rows,
            forms=forms_of(self._pipeline),
            declared=declared_of(self._pipeline),
            strict=self._strict,
        )
        packed = Packed.of(job)
        parts = self._parts(session, packed, eras[-1])
        if has_listeners(session):  # to count lines on their way costs Spark time in every batch
            parts = observed_parts(parts, eras[-1].units[0].key)
        with _workers(session, "units"):
            lines = parts.groupBy("unit").applyInPandasWithState(
                stepper(packed), LINE_COLUMNS, STATE, "append", "NoTimeout"
            )
        with state_settings(session, layout.partitions, self._records):
            if once:
                writer = lines.writeStream.foreachBatch(self._batch)
                where = uri_of(self._checkpoint.folder)
                return writer.option("checkpointLocation", where).trigger(once=True).start()
            return self._write(lines, available_now)

    def _parts(self, session: SparkSession, packed: Packed, era: Era) -> DataFrame:
        """All units' parts of all streams: of files the source makes them, of records a task behind Spark's source."""
        with _workers(session, "readers"):
            frames = part_frames(session, self._pipeline, self._checkpoint.files, packed)
        return in_one([control_frame(session, era), *frames] if self._records else frames)

    @property
    def _records(self) -> bool:
        """Whether one of Spark's own sources reads a stream."""
        return not all(spec.files for spec in self._pipeline.streams)

    def _reach_ahead(self) -> None:
        pass  # the state is Spark's

    def _explain(self, problem: Exception) -> Exception:
        if _OTHER in str(problem):
            return InputError(
                f"The state in the checkpoint {self._checkpoint.folder} is of another skyband, which kept it in "
                f"another way: use the version that wrote it, or start again with an empty checkpoint and output "
                f"folder."
            )
        return super()._explain(problem)

    def _reports(self, lines: DataFrame, batch: int) -> Reports:
        """Let the tasks do a batch; what the units report."""
        try:
            return Reports(lines.toArrow())
        except Exception as problem:
            refused = refused_in_a_task(problem)
            if refused is None:
                raise
            self._checkpoint.refuse(batch)
            raise refused from problem

    def _do(self, lines: DataFrame, batch: int) -> None:
        began = time.monotonic()
        reports = self._reports(lines, batch)
        offset = self._checkpoint.offset(batch)
        frame = reports.frame()
        before = read_frame(self._checkpoint.own, batch - 1)
        first = 0 if before is None else before["rows"]
        rows = frame["rows"] - first
        if self._strict:
            own = (Reject(*(row[name] for name in Reject._fields)) for row in reports.rejects().to_pylist())
            must_suit(batch, self._strict, (), (reject for reject in own if reject.seq >= first))
        self._checkpoint.write_batch(batch, offset, rows)
        gather = self._gather
        for notice in reports.notices():
            self._notices.add(notice)
        changes = batch_column(gather.changes(reports, self._asked(batch - 1), self._asked(batch)), batch)
        rejects = batch_column(reports.rejects(), batch)
        self._put(batch, changes, rejects, gather.answers(reports, self._asked(batch)))
        write_frame(self._checkpoint.own, batch, frame, self._late(frame, batch))
        info = BatchInfo(
            batch=batch,
            rows=rows,
            crossed=reports.count("kept"),
            changes=changes.num_rows,
            rejects=rejects.num_rows,
            seconds=time.monotonic() - began,
            tops=gather.tops.copy(),
            queries=self._checkpoint.sql_of(batch),
            replayed=batch in self._again,
            tasks=reports.tasks(),
            reject_counts=reports.reject_counts(),
            waiting=reports.waiting(),
            changed=changes,
            state_bytes=reports.count("bytes"),
            lag_files=self._unread(offset),
            lag_records=self._lag.records(),
            streams=reports.streams(),
            rejected=rejects,
            notices=reports.notices(),
        )
        self._infos.append((info.rows, info.changes, info.rejects))
        self._on_batch(info)


@contextlib.contextmanager
def _workers(session: SparkSession, name: str) -> Iterator[None]:
    """What is asked of Spark here gets Python workers of its own, which know what they have to: Spark gives a task any
    worker whose environment is the one that it wants."""
    environment = session.sparkContext.environment
    environment[_WORKERS] = name
    try:
        yield
    finally:
        del environment[_WORKERS]


def state_settings(
    session: SparkSession, partitions: int, records: bool = False
) -> contextlib.AbstractContextManager[None]:
    """Settings that a stateful query is started with."""
    wanted = {
        **FEW_LINES,
        "spark.sql.shuffle.partitions": str(partitions),
        f"{_STATE}.providerClass": _ROCKS,
        # A batch's commit writes what has changed, not a copy of all files; those are copied once in a while.
        f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    }
    if records:  # the check allows no lines that are the same in every batch (control_frame)
        wanted[_CHECK] = "false"
    return settings(session, wanted)
