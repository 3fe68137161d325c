"""`skyband run`: a pipeline file as a Structured Streaming query.

    folder -> splits (Spark's source) -> read and sift (tasks) -> engine (driver) -> sinks

Spark starts micro-batches, logs what belongs to each before it runs, runs the tasks, and commits. Ours is one
function that Spark calls for each batch and may call again for the same one. In it, in this order: the step is
written down, the monitor takes it, the output is put out under the batch's id; only then does it return and
Spark commits. Wherever it is killed, the next start finds either nothing of the batch or its step.
"""

from __future__ import annotations

import contextlib
import gc
import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.core.errors import InputError, SkybandError

from .admission import LARGE_FILE, LEAST_ROWS, Admission, Scan
from .checkpoint import Checkpoint, Step, open_checkpoint
from .config import Pipeline, StreamSpec, load_pipeline
from .connector import kafka_sentence, needs_kafka
from .direct import SMALL, Direct
from .engine import Engine, compare_queries, new_monitor, watch_all
from .filelog import FileLog, file_path, list_files
from .filescan import MOST_FILES, FileScan
from .inputs import RATE_SCHEMA, source_frame, stream_files
from .metrics import Lag, StateSize, count_lines, heard, observed, telling
from .progress import BatchInfo, OnBatch, Resident, Summary, print_batch
from .reading import declared_schema, infer_schema
from .recordscan import RecordScan
from .sifting import SiftJob, collect_sifted
from .signals import Signals, signals_ignored
from .sinks import NobodyReads, Sink, make_sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from skyband.engine.monitor import Monitor

_TEXT_ROW_BYTES = 64  # a guess at the size of a row where only reading would tell
_STOP_SECONDS = 20.0  # how long a batch under way may take to finish after Ctrl-C


def run_pipeline(
    path: str | Path,
    available_now: bool = False,
    on_batch: OnBatch | None = None,
    spark: SparkSession | None = None,
    stopping: threading.Event | None = None,
) -> Summary:
    """Run a pipeline until there is nothing more to read (`available_now`), or a signal or the event stops it."""
    pipeline = load_pipeline(path)
    available_now = available_now or pipeline.spark.trigger == "available-now"
    checkpoint = open_checkpoint(pipeline)
    with checkpoint.locked(), Signals(stopping) as stop:
        checkpoint.check_format()
        checkpoint.repair()
        checkpoint.check_offsets()
        checkpoint.check_whole(pipeline.streams)
        first = checkpoint.first_new()
        schemas = checkpoint.schemas(pipeline.streams) if first else None
        if schemas is None:
            schemas = find_schemas(pipeline, wait=not available_now, stop=stop)
        if schemas is None:
            return Summary(0, 0, 0, 0, 0.0, stopped=True)
        checked = None
        if first == 0 or checkpoint.queries(first - 1) != pipeline.queries:
            checked = check_queries(pipeline, schemas)  # those that have run need no second look
        sink = make_sink(pipeline.sink)
        sink.prepare(first == 0)
        if first == 0:
            checkpoint.fix_schemas(pipeline.streams, schemas)
        say_queries(pipeline, checkpoint, first)
        checkpoint.set_queries(first, pipeline.queries)
        kind = run_kind(pipeline, checkpoint, first)
        with telling(pipeline.metrics, on_batch or print_batch) as tell:
            made = kind(pipeline, checkpoint, schemas, sink, tell, stop)
            made.begin_with(checked if first == 0 else None)
            del checked
            return made.run(spark, available_now)


def run_kind(pipeline: Pipeline, checkpoint: Checkpoint, first: int) -> type[Run]:
    """The run that the placement asks for."""
    from .executors import ExecutorsRun
    from .placement import choose_placement

    chosen, why = choose_placement(pipeline, checkpoint, first)
    say(f"placement {chosen}: {why}")
    return ExecutorsRun if chosen == "executors" else Run


def find_schemas(pipeline: Pipeline, wait: bool, stop: Signals) -> dict[str, pa.Schema] | None:
    """The streams' schemas from their first files. None if stopped while waiting for one."""
    schemas = {}
    for spec in pipeline.streams:
        kinds = _kinds(pipeline, spec)
        told = False
        while (schema := _first_schema(spec, kinds)) is None:
            if not wait:
                raise InputError(
                    f"Stream '{spec.name}' has no file yet in {spec.path}: add one, or declare its columns in "
                    f'pipeline.toml: schema = {{column = "double", ...}}.'
                )
            if not told:
                say(f"waiting for the first file of stream '{spec.name}' in {spec.path}")
                told = True
            if stop.wait(0.5):
                return None
        for what in ("time", "key", "op"):
            column = getattr(spec, what)
            if column is not None and column not in schema.names:
                raise InputError(
                    f"Stream '{spec.name}' has no column '{column}' for its {what}; it has "
                    f"{', '.join(schema.names)}."
                )
        schemas[spec.name] = schema
    return schemas


def _kinds(pipeline: Pipeline, spec: StreamSpec) -> dict[str, str]:
    """What the queries take a stream's columns for; one broken value must not make them text."""
    from skyband.query.column_kinds import numeric_columns
    from skyband.query.model import Joined
    from skyband.query.sql.parser import parse

    kinds: dict[str, str] = {}
    for query in pipeline.queries:
        model = parse(query.sql)
        if isinstance(model, Joined):
            mine, sides = spec.name in model.streams, {None, spec.name}
        else:
            mine, sides = len(pipeline.streams) == 1 or model.stream == spec.name, {None, "a", "b"}
        if mine:
            columns = [column for column in numeric_columns(model) if column.side in sides]
            kinds.update({c.name: "number" for c in columns if c.name != getattr(model, "key", None)})
    if spec.time is not None:
        kinds[spec.time] = "time"
    return kinds


def _first_schema(spec: StreamSpec, kinds: dict[str, str]) -> pa.Schema | None:
    """The schema by the first file that can be read; one that is still being copied may stand before it."""
    if spec.schema is not None:
        return declared_schema(spec.schema)
    if spec.format == "rate":
        return RATE_SCHEMA
    problem: InputError | None = None
    for name, size, _ in sorted(list_files(spec.path)):
        if size:
            try:
                return infer_schema(spec, file_path(str(spec.path), name), kinds)
            except InputError as found:
                problem = problem or found
    if problem is not None:
        raise problem
    return None


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
        only = pipeline.streams[0]
        door = (only.format, only.values) == ("kafka", "json") or only.format == "parquet"
        self._admission = Admission(schemas[only.name]) if door and len(pipeline.streams) == 1 else None
        self._direct: Direct | None = None
        self._spark: SparkSession | None = None
        self._ahead: threading.Thread | None = None

    def begin_with(self, monitor: Monitor | None) -> None:
        """The first start has looked at the queries in a monitor: it need not be made again."""
        if monitor is not None and not self._stateful:
            self._engine.begin_with(monitor, self._pipeline.queries)

    def run(self, spark: SparkSession | None, available_now: bool) -> Summary:
        began = time.monotonic()
        self._reach_ahead()
        self._spark = session = spark or self._session()
        try:
            if self._pipeline.spark.local:  # the cores are ours
                self._engine.threads = int(session.sparkContext.defaultParallelism)
            self._direct = self._reader(session)
            self._sink.start(session)
            if not all(spec.files for spec in self._pipeline.streams):
                self._lag.listen(session)
            query = self._start(session, available_now)
            self._await(query)
        finally:
            if self._ahead is not None:
                self._ahead.join()
            if self._engine.frozen:
                gc.unfreeze()
            self._lag.close(session)
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
        from .session import start_session

        kafka = needs_kafka(self._pipeline)
        log = self._checkpoint.own / "spark.log"
        session = start_session(
            self._pipeline.spark, log, kafka=kafka, scans=self._scans(), states=self._stateful
        )
        self._stop.install()  # Spark has put a handler of its own there
        return session

    def _scans(self) -> bool:
        """Whether rows may pass through the JVM: records, or files that are large enough for a gate."""
        spec = self._pipeline.streams[0]
        gated = self._gated() and self._pipeline.spark.placement != "executors"
        return gated and (not spec.files or any(size >= LARGE_FILE for _, size, _ in list_files(spec.path)))

    def _reader(self, session: SparkSession) -> Direct | None:
        """What reads batches in this process, where all streams are files."""
        pipeline = self._pipeline
        if pipeline.spark.reading == "tasks" or not all(spec.files for spec in pipeline.streams):
            return None
        threads = self._engine.threads
        return Direct(self._files, stream_files(pipeline), self._schemas, threads)

    def _source(self, session: SparkSession) -> DataFrame:
        """What Spark reads: lines that say which pieces of which files belong to a micro-batch, or carry records."""
        return source_frame(session, self._pipeline, self._checkpoint)

    def _start(self, session: SparkSession, available_now: bool) -> StreamingQuery:
        return self._write(observed(self._source(session)), available_now)

    def _write(self, lines: DataFrame, available_now: bool) -> StreamingQuery:
        """Start the query: every micro-batch of lines comes to `_batch`."""
        writer = lines.writeStream.foreachBatch(self._batch).option(
            "checkpointLocation", str(self._checkpoint.folder)
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
            while query.isActive and not self._stop.wait(0.1):
                pass
            if self._stop.asked():
                # A batch under way may finish; one that begins now is refused by `_batch`.
                until = time.monotonic() + _STOP_SECONDS
                if self._busy.acquire(timeout=_STOP_SECONDS):
                    self._busy.release()
                self._await_commit(query, until)
                query.stop()
            else:
                query.awaitTermination()
        except Exception as problem:
            if self._stop.asked():
                return
            raise self._explain(problem) from problem

    def _await_commit(self, query: StreamingQuery, until: float) -> None:
        """Let Spark commit what is done, or the next start does it again: for files no matter, on a console a
        repetition."""
        while not self._checkpoint.committed(self._done) and query.isActive and time.monotonic() < until:
            time.sleep(0.02)

    def _explain(self, problem: Exception) -> Exception:
        """Our own error if one of ours is at the bottom of a failed query."""
        if isinstance(self._problem, SkybandError):
            return self._problem
        found = re.search(r"skyband\.errors\.\w+: (.+)", str(self._problem or "")) or re.search(
            r"skyband\.errors\.\w+: (.+)", str(problem)
        )
        if found is not None:
            return InputError(found[1].strip())
        sentence = kafka_sentence(str(problem), self._pipeline) if needs_kafka(self._pipeline) else None
        if sentence is not None and self._problem is None:
            return InputError(sentence)
        told = self._problem if isinstance(self._problem, Exception) else problem
        return self._checkpoint.unreadable(told) or told

    def _batch(self, splits: DataFrame, batch: int) -> None:
        """What Spark calls for each micro-batch, perhaps more than once."""
        with self._busy:
            if self._stop.asked():
                raise InputError("The pipeline is stopping.")
            try:
                self._do(splits, batch)
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

    def _do(self, splits: DataFrame, batch: int) -> None:
        began = time.monotonic()
        engine, checkpoint = self._engine, self._checkpoint
        if self._ahead is not None:
            self._ahead.join()
        engine.reach(batch)
        leaves = engine.prepare(batch)
        offset = checkpoint.offset(batch)
        step = checkpoint.step(batch, offset)
        replayed = step is not None
        handled: Any = None
        if step is None:
            step, handled = self._read(splits, batch, offset)
            checkpoint.write_step(step, offset)
        output = engine.take(step, leaves)
        engine.save_if_due()
        self._sink.put(batch, output.changes, output.rejects, output.tops)
        if handled is not None:
            handled.get()
        state_rows, state_bytes = self._size.of(engine.monitor)
        info = BatchInfo(
            batch=batch,
            rows=step.read,
            crossed=step.crossed,
            changes=output.changes.num_rows,
            rejects=output.rejects.num_rows,
            seconds=time.monotonic() - began,
            tops=engine.tops.copy(),
            replayed=replayed,
            tasks=step.tasks,
            reject_counts=dict(engine.monitor.reject_counts),
            changed=output.changes,
            state_rows=state_rows,
            state_bytes=state_bytes,
            lag_files=self._unread(offset),
            lag_records=self._lag.records(),
            in_jvm=step.in_jvm,
            resident=Resident(lambda: engine.monitor, self._busy),
        )
        self._infos.append((info.rows, info.changes, info.rejects))
        self._on_batch(info)

    def _read(self, splits: DataFrame, batch: int, offset: dict[str, Any]) -> tuple[Step, Any]:
        """Read and sift a batch: Spark itself with our gate before most rows, the driver, or tasks. If it isn't tasks,
        Spark handles the batch's lines beside that, and what comes second waits for it."""
        sifters = self._engine.sifters()
        step = self._admit(splits, batch, offset, sifters)
        if step is not None:  # Spark has seen Kafka's lines already, and those of files not yet
            return step, self._handled(splits) if self._pipeline.streams[0].files else None
        prune = self._prune(batch, offset)  # a stream whose queries need every row travels whole all the same
        start = self._checkpoint.offset(batch - 1) if batch else {}
        if self._direct is not None and self._here(start, offset):
            handled = self._handled(splits)
            parts = self._direct.read(start, offset, sifters, prune)
            step = Step(
                batch=batch,
                parts=tuple((stream, part.to_bytes()) for stream, part in parts),
                read=sum(part.count for _, part in parts),
                crossed=sum(part.kept for _, part in parts),
            )
            return step, handled
        lines = collect_sifted(splits, SiftJob(sifters, self._schemas, prune))
        step = Step(
            batch=batch,
            parts=tuple((line["stream"], line["blob"]) for line in lines),
            read=sum(line["rows"] for line in lines),
            crossed=sum(line["kept"] for line in lines),
            tasks=tuple((line["host"], line["process"]) for line in lines),
        )
        return step, None

    def _handled(self, splits: DataFrame) -> Any | None:
        # a batch has a session of its own, a copy that no listener was added to
        return count_lines(splits) if self._spark is not None and heard(self._spark) else None

    def _here(self, start: dict[str, Any], end: dict[str, Any]) -> bool:
        """Whether the driver had better read a batch itself: it is small, or the cores are the driver's own."""
        spec = self._pipeline.spark
        parquet = all(stream.format == "parquet" for stream in self._pipeline.streams)
        if spec.reading == "driver" or (spec.local and parquet):
            return True
        taken = [self._files.taken(name)[start.get(name, 0) : number] for name, number in end.items()]
        return sum(one.size for files in taken for one in files) <= SMALL

    def _gated(self) -> bool:
        """Whether large batches may go through the JVM: files on a cluster, and whatever it is asked for."""
        spec, files = self._pipeline.spark, self._pipeline.streams[0].files
        return self._admission is not None and (spec.jvm_rows is not None or (files and not spec.local))

    def _admit(
        self, splits: DataFrame, batch: int, offset: dict[str, Any], sifters: dict[str, Any]
    ) -> Step | None:
        """A batch by admission in the JVM; None where that doesn't serve or pay."""
        least = self._pipeline.spark.jvm_rows
        if not self._gated() or self._rows(batch, offset) < (LEAST_ROWS if least is None else least):
            return None
        assert self._admission is not None
        ((name, sifter),) = sifters.items()
        start = self._checkpoint.offset(batch - 1) if batch else {}
        spec, schema = self._pipeline.streams[0], self._schemas[name]
        scan: Callable[[list[str]], Scan]
        if spec.files:
            (files,) = stream_files(self._pipeline)
            taken = self._files.taken(name)[start.get(name, 0) : offset.get(name, 0)]
            if not 0 < len(taken) <= MOST_FILES:
                return None
            scan = lambda names: FileScan(files, taken, names, schema)  # noqa: E731
        elif name in offset:
            begin = start[name] if name in start else self._checkpoint.first(name)
            scan = lambda _: RecordScan(spec, begin, offset[name], schema, splits.sparkSession)  # noqa: E731
        else:
            return None
        admitted = self._admission.read(splits, scan, sifter, self._engine.threads)
        if admitted is None:
            return None
        return Step(
            batch=batch,
            parts=tuple((name, part.to_bytes()) for part in admitted.parts),
            read=sum(part.count for part in admitted.parts),
            crossed=admitted.came + admitted.parts[-1].kept,
            in_jvm=admitted.looked_at,
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
