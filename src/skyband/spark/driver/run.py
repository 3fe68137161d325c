"""One run of a pipeline with its state in the driver.

    source -> read and sift (tasks) -> engine (driver) -> sinks

Spark starts micro-batches, logs what belongs to each before it runs, runs the tasks that read it, and commits. Ours is
one function that Spark calls for each batch and may call again for the same one. In it, in this order: the tasks run,
the step that they make is written down, the monitor takes it, the output is put out under the batch's id; only then
does it return and Spark commits. Wherever it is killed, the next start finds either nothing of the batch or its step.
"""

from __future__ import annotations

import contextlib
import gc
import re
import sys
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.core.errors import InputError, SkybandError, StrictError
from skyband.spark.config import Pipeline
from skyband.spark.input.expected import must_suit
from skyband.spark.input.filelog import FileLog
from skyband.spark.input.inputs import (
    declared_of,
    forms_of,
    in_one,
    part_frames,
)
from skyband.spark.input.jobs import Packed, in_order
from skyband.spark.jvm.hadoop import HadoopPath
from skyband.spark.jvm.paths import Place, check_seen, uri_of
from skyband.spark.session.connector import kafka_sentence, needs_kafka
from skyband.spark.session.metrics import Lag, StateSize, observed
from skyband.spark.session.progress import (
    BatchInfo,
    OnBatch,
    Resident,
    StreamNow,
    Summary,
    accepted_of,
)
from skyband.spark.session.signals import Signals, signals_ignored
from skyband.spark.session.start import (
    FEW_LINES,
    log_of,
    reachable,
    settings,
)
from skyband.spark.sinks import NobodyReads, Sink

from .asking import Asked
from .checkpoint import Checkpoint, Queries, Step
from .engine import (
    Engine,
    compare_queries,
    new_monitor,
    sifters_of,
    watch_all,
)
from .sifting import Batch, SiftJob

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from skyband.engine.monitor import Monitor
    from skyband.engine.pruning import Sifter

_TEXT_ROW_BYTES = 64  # a guess at the size of a row where only reading it would show
_STARTS = 4  # of Spark's query, if its Python workers are too slow
_SLOW = "Python worker failed to connect back"  # Spark waits ten seconds, and has no setting for that
_STOP_SECONDS = 20.0  # how long a batch under way may take to finish after Ctrl-C


def check_queries(pipeline: Pipeline, schemas: dict[str, pa.Schema]) -> Monitor:
    """Find a wrong column or an unfit algorithm before Spark is started; the monitor in which none was."""
    monitor = new_monitor(pipeline, schemas)
    monitor.lists_only = True  # as the one that will do the work
    watch_all(monitor, pipeline)
    return monitor


def say_queries(pipeline: Pipeline, checkpoint: Checkpoint, first: int) -> None:
    """Say what a start with other queries does."""
    if first == 0:
        return
    old = checkpoint.queries(first - 1)
    kept, added, dropped = compare_queries(old, pipeline.queries)
    say(f"continuing at batch {first}")
    if added or dropped:
        for name in kept:
            say(f"query '{name}': kept")
        for name in dropped:
            say(f"query '{name}': {'changed: the old one is dropped' if name in added else 'dropped'}")
        for name in added:
            say(f"query '{name}': added, from batch {first} on")


class Run:
    """One run of a pipeline, from the session's start to its stop."""

    _stateful = False  # whether Spark keeps the state

    def __init__(
        self,
        pipeline: Pipeline,
        checkpoint: Checkpoint,
        schemas: dict[str, pa.Schema],
        sink: Sink,
        on_batch: OnBatch,
        stop: Signals,
    ) -> None:
        self._pipeline = pipeline
        self._checkpoint = checkpoint
        self._schemas = schemas
        self._sink = sink
        self._on_batch = on_batch
        self._stop = stop
        self._engine = Engine(pipeline, schemas, checkpoint)
        self._files = FileLog(checkpoint.files)
        self._busy = threading.Lock()
        self._done = -1  # the last batch that came to its end in this run
        self._problem: BaseException | None = None
        self._infos: list[tuple[int, int, int]] = []
        self._lag = Lag()
        self._size = StateSize()
        self._next: tuple[int, dict[str, Sifter]] | None = None  # of other queries, from which batch on
        self._ahead: threading.Thread | None = None
        self.written: Queries = pipeline.queries  # those of the pipeline file
        self._wanted = Asked(checkpoint)
        self._stamp: Any = ()  # of what was last looked at
        self._changing = False  # other queries are asked for: no batch begins until they hold
        self._strict = frozenset(spec.name for spec in pipeline.streams if spec.strict)

    def begin_with(self, first: int, monitor: Monitor | None) -> None:
        """A monitor in which the queries that hold from batch `first` on were looked at: it need not be made again."""
        if monitor is None or self._stateful:
            return
        if first == 0:
            self._engine.begin_with(monitor, self._pipeline.queries)
        else:
            self._next = first, sifters_of(monitor, self._pipeline)

    def run(self, spark: SparkSession | None, available_now: bool) -> Summary:
        began = time.monotonic()
        self._reach_ahead()
        session = spark or self._session()
        if spark is None and session.sparkContext.uiWebUrl is not None:
            say(f"Spark's UI: {session.sparkContext.uiWebUrl}")
        try:
            if self._pipeline.spark.local:  # the cores are ours
                self._engine.threads = int(session.sparkContext.defaultParallelism)
            check_seen(session, self._shared())
            self._sink.start(session)
            if not all(spec.files for spec in self._pipeline.streams):
                self._lag.listen(session)
            with reachable(session, self._pipeline):
                self._go(session, available_now)
                while self._renew():
                    self._go(session, available_now)
        finally:
            if self._ahead is not None:
                self._ahead.join()
            if self._engine.frozen:
                gc.unfreeze()
            self._lag.close(session)
            self._sink.close()
            if spark is None:
                with signals_ignored():
                    session.stop()
        waiting = self._waiting()
        if waiting and not self._stop.asked():
            say(f"left for later, because it cannot be read yet: {', '.join(waiting)}")
        rows, changes, rejects = (sum(column) for column in zip((0, 0, 0), *self._infos, strict=False))
        return Summary(
            batches=len(self._infos),
            rows=rows,
            changes=changes,
            rejects=rejects,
            seconds=time.monotonic() - began,
            stopped=self._stop.asked(),
            waiting=waiting,
        )

    def _shared(self) -> list[Place]:
        """The folders that tasks read, as far as they are there."""
        folders = [spec.path.resolve() for spec in self._pipeline.streams if spec.files]
        if self._stateful:
            folders.append(self._checkpoint.own)
        return [folder for folder in folders if isinstance(folder, HadoopPath) or folder.exists()]

    def _reach_ahead(self) -> None:
        """Let the engine get to where it was while Spark starts. Whatever is wrong there, the first batch will say."""
        batch = self._checkpoint.last_commit() + 1

        def reach() -> None:
            with contextlib.suppress(Exception):
                self._engine.reach(batch)

        if batch:
            self._ahead = threading.Thread(target=reach, name="skyband-reach", daemon=True)
            self._ahead.start()

    def _session(self) -> SparkSession:
        from skyband.spark.session.start import start_session

        kafka = needs_kafka(self._pipeline)
        log = log_of(self._pipeline, "spark.log")
        session = start_session(self._pipeline.spark, log, kafka=kafka, states=self._stateful)
        self._stop.install()  # Spark has put a handler of its own there
        return session

    def _go(self, session: SparkSession, available_now: bool) -> None:
        """Run Spark's query to its end; again, if Spark gave a Python worker up that was slow to start. What the batch
        under way has written is found as after a restart."""
        for more in reversed(range(_STARTS)):
            try:
                return self._await(self._start(session, available_now))
            except Exception as problem:
                if _SLOW not in f"{problem} {self._problem or ''}" or self._stop.asked():
                    raise
                if not more:
                    raise InputError(
                        f"Spark gave up a Python worker that did not start within ten seconds, {_STARTS} times in a "
                        f"row: the machine has too much to do; start again when it has less."
                    ) from problem
                self._problem = None
                say("a Python worker of Spark's was too slow to start, so the batch is begun again")

    def _start(self, session: SparkSession, available_now: bool) -> StreamingQuery:
        if self._ahead is not None:
            self._ahead.join()
        begins = self._checkpoint.last_commit() + 1
        self._engine.reach(begins)
        eras = [(begins, self._engine.sifters())]
        if self._next is not None and self._next[0] > begins:
            eras.append(self._next)  # the queries that hold after the batch that was under way
        packed = Packed.of(
            SiftJob(self._schemas, tuple(eras), forms_of(self._pipeline), declared_of(self._pipeline))
        )
        lines = in_one(part_frames(session, self._pipeline, self._checkpoint.files, packed))
        with settings(session, FEW_LINES):
            return self._write(observed(lines), available_now)

    def _write(self, lines: DataFrame, available_now: bool) -> StreamingQuery:
        """Start the query: every micro-batch of lines comes to `_batch`."""
        writer = lines.writeStream.foreachBatch(self._batch).option(
            "checkpointLocation", uri_of(self._checkpoint.folder)
        )
        trigger = self._pipeline.spark.trigger
        if available_now:
            writer = writer.trigger(availableNow=True)
        elif trigger is not None:
            writer = writer.trigger(processingTime=trigger)
        return writer.start()

    def _await(self, query: StreamingQuery) -> None:
        """Wait for the end of the query, or for a signal; turn Spark's failures into our sentences."""
        try:
            while query.isActive and not self._stop.wait(0.1) and not self._look():
                pass
            if self._stop.asked() or self._changing:
                # A batch under way may finish; one that begins now is refused by `_batch`.
                until = time.monotonic() + _STOP_SECONDS
                if self._busy.acquire(timeout=_STOP_SECONDS):
                    self._busy.release()
                self._await_commit(query, until)
                query.stop()
            else:
                query.awaitTermination()
        except Exception as problem:
            if self._stop.asked() or (self._changing and self._problem is None):
                return
            raise self._explain(problem) from problem
        if self._problem is not None and not self._stop.asked():
            raise self._explain(Exception(str(self._problem))) from self._problem

    def _look(self) -> bool:
        """Return whether other queries are asked for than those that hold."""
        stamp = self._wanted.stamp()
        if stamp != self._stamp:
            self._stamp = stamp
            self._changing = self._wanted.applied(self.written) != self._pipeline.queries
        return self._changing

    def _renew(self) -> bool:
        """Let the queries hold that were asked for meanwhile, from the first batch never attempted.

        Returns whether the pipeline goes on."""
        if not self._changing or self._stop.asked():
            return False
        self._changing = False
        first = self._checkpoint.first_new()
        pipeline = replace(self._pipeline, queries=self._wanted.applied(self.written))
        try:
            checked = check_queries(pipeline, self._schemas)
        except SkybandError as problem:
            say(f"the queries stay as they are: {problem}")
            return True
        say_queries(pipeline, self._checkpoint, first)
        self._checkpoint.set_queries(first, pipeline.queries)
        self._pipeline, self._next = pipeline, None
        self.begin_with(first, checked)
        return True

    def _await_commit(self, query: StreamingQuery, until: float) -> None:
        """Let Spark commit what is done, or the next start does it again: for files no matter, on a console a
        repetition."""
        while not self._checkpoint.committed(self._done) and query.isActive and time.monotonic() < until:
            time.sleep(0.02)

    def _explain(self, problem: Exception) -> Exception:
        """Our own error if one of ours is at the bottom of a failed query."""
        if isinstance(self._problem, SkybandError):
            return self._problem
        found = re.search(r"skyband[\w.]*\.errors\.\w+: (.+)", str(self._problem or "")) or re.search(
            r"skyband[\w.]*\.errors\.\w+: (.+)", str(problem)
        )
        if found is not None:
            return InputError(found[1].strip())
        sentence = kafka_sentence(str(problem), self._pipeline) if needs_kafka(self._pipeline) else None
        if sentence is not None and self._problem is None:
            return InputError(sentence)
        cause = self._problem if isinstance(self._problem, Exception) else problem
        return self._checkpoint.unreadable(cause) or cause

    def _batch(self, lines: DataFrame, batch: int) -> None:
        """What Spark calls for each micro-batch, perhaps more than once."""
        with self._busy:
            if self._stop.asked() or self._changing:
                raise InputError("The pipeline is stopping.")
            try:
                self._checkpoint.check_owner()
                self._do(lines, batch)
                self._done = batch
            except NobodyReads as problem:
                self._problem = problem
                raise
            except OSError as problem:
                self._problem = InputError(
                    f"Batch {batch} cannot be written ({problem}): see to the disk and the folders' rights; the next "
                    f"start does the batch again."
                )
                raise self._problem from problem
            except BaseException as problem:
                self._problem = problem
                raise

    def _do(self, lines: DataFrame, batch: int) -> None:
        began = time.monotonic()
        engine, checkpoint = self._engine, self._checkpoint
        engine.reach(batch)
        offset = checkpoint.offset(batch)
        step = checkpoint.step(batch, offset)
        replayed = step is not None
        if step is None:
            step = self._read(lines, batch, offset)
            if self._strict:
                self._check(batch, step)
            checkpoint.write_step(step, offset)
        before = accepted_of(engine.monitor)
        output = engine.take(step)
        engine.save_if_due()
        self._put(batch, output.changes, output.rejects, output.tops)
        state_rows, state_bytes = self._size.of(engine.monitor)
        info = BatchInfo(
            batch=batch,
            rows=step.read,
            crossed=step.crossed,
            changes=output.changes.num_rows,
            rejects=output.rejects.num_rows,
            seconds=time.monotonic() - began,
            tops=engine.tops.copy(),
            queries=checkpoint.sql_of(batch),
            replayed=replayed,
            tasks=step.tasks,
            reject_counts=dict(engine.monitor.reject_counts),
            waiting={name: len(stream.waiting) for name, stream in engine.monitor.streams.items()},
            changed=output.changes,
            state_rows=state_rows,
            state_bytes=state_bytes,
            lag_files=self._unread(offset),
            lag_records=self._lag.records(),
            resident=Resident(lambda: engine.monitor, self._busy),
            streams=StreamNow.all_of(engine.monitor, before),
            rejected=output.rejects,
            notices=engine.monitor.step_notices,
        )
        self._infos.append((info.rows, info.changes, info.rejects))
        self._on_batch(info)

    def _check(self, batch: int, step: Step) -> None:
        """Stop at a batch that a strict stream doesn't take, before anything of it is written down or put out."""
        try:
            must_suit(batch, self._strict, *self._engine.look_at(step))
        except StrictError:
            self._checkpoint.refuse(batch)
            raise

    def _put(self, batch: int, changes: pa.Table, rejects: pa.Table, tops: pa.Table) -> None:
        """Put out a batch, if no other driver has taken over."""
        self._checkpoint.check_owner()
        self._sink.put(batch, changes, rejects, tops)

    def _read(self, lines: DataFrame, batch: int, offset: dict[str, Any]) -> Step:
        """Let Spark's tasks read and sift a batch."""
        # a stream whose queries need every row travels whole all the same
        now = Batch(self._engine.doors(), self._prune(batch, offset))
        now.announce(lines.sparkSession.sparkContext)
        found = in_order(lines.toArrow())
        return Step(
            batch=batch,
            parts=tuple((line["stream"], line["blob"]) for line in found),
            read=sum(line["rows"] for line in found),
            crossed=sum(line["kept"] for line in found),
            tasks=tuple((line["host"], line["process"]) for line in found),
        )

    def _prune(self, batch: int, offset: dict[str, Any]) -> bool:
        """Whether a batch is large enough that pruning it in the tasks is worth the work."""
        rows = self._rows(batch, offset)
        if self._pipeline.spark.prune_rows is not None:
            return rows >= self._pipeline.spark.prune_rows
        # Small batches grow by pruning: each query would send its own few rows.
        kept = sum(2 * (getattr(w.query, "k", 0) or 0) for w in self._engine.monitor.watches.values())
        return rows >= max(20_000, 8 * kept)

    def _rows(self, batch: int, offset: dict[str, Any]) -> int:
        log = self._files
        log.refresh()
        start = self._checkpoint.offset(batch - 1) if batch else {}
        rows = 0
        files = {spec.name for spec in self._pipeline.streams if spec.files}
        for name, end in offset.items():
            if name not in files:
                rows += _records(end) - _records(start.get(name))
                continue
            for taken in log.taken(name)[start.get(name, 0) : end]:
                groups = taken.groups
                rows += taken.size // _TEXT_ROW_BYTES if groups is None else sum(n for n, _ in groups)
        return rows

    def _unread(self, offset: dict[str, Any]) -> int:
        """Files that were seen and that no batch up to this one has read."""
        self._files.refresh()
        return sum(
            len(self._files.waiting(spec.name)) + len(self._files.taken(spec.name)) - offset.get(spec.name, 0)
            for spec in self._pipeline.streams
            if spec.files
        )

    def _waiting(self) -> tuple[str, ...]:
        self._files.refresh()
        return tuple(
            str(spec.path / name)
            for spec in self._pipeline.streams
            if spec.files
            for name in self._files.waiting(spec.name)
        )


def _records(offset: Any) -> int:
    """About how many records lie before an offset: the sum over Kafka's partitions, or the seconds of `rate`."""
    if isinstance(offset, dict):
        return sum(end for partitions in offset.values() for end in partitions.values())
    return 0 if offset is None else int(offset)


def say(text: str) -> None:
    print(f"skyband: {text}", file=sys.stderr, flush=True)
