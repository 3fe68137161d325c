"""What a running pipeline reports besides its batches: its state's size, its lag, and Prometheus metrics.

The lag is how much is there that no batch has read yet: files of a stream of files, records of a Kafka topic. The
former is in our own file log; the latter Spark knows and reports to its streaming listeners after every batch, so we
are one where there is Kafka. Figures go the other way too: the lines that Spark handles are *observed* under the name
`skyband`, so any listener of the session finds in `observedMetrics` how many lines a batch had and how many rows they
stand for. With executors lines are observed if the session has a listener when the query is started.

The size of the state is looked at every few seconds at most: with many queries that is many lists.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from skyband.core.errors import InputError
from skyband.spark.config import MetricsSpec

from .progress import BatchInfo, OnBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from skyband.engine.monitor import Monitor

_EVERY = 5.0  # seconds between two looks at the state
OBSERVED = "skyband"


class StateSize:
    """Rows and bytes that a monitor keeps, looked at now and then."""

    def __init__(self) -> None:
        self._looked = -_EVERY
        self._found = (0, 0)

    def of(self, monitor: Monitor) -> tuple[int, int]:
        if time.monotonic() - self._looked >= _EVERY:
            self._found = state_size(monitor)
            self._looked = time.monotonic()
        return self._found


def state_size(monitor: Monitor) -> tuple[int, int]:
    """Rows and bytes that a monitor keeps for its watches."""
    rows = size = 0
    for stream in (*monitor.streams.values(), *monitor.joints.values()):
        for group in stream.groups:
            for slot in {watch.slot for watch in group.watches}:
                kept, taken = group.algorithm.size(slot)
                rows, size = rows + int(kept), size + int(taken)
        if stream.watches:
            size += sum(stream.also_kept().values())
    return rows, size


def observed(lines: DataFrame) -> DataFrame:
    """The lines and the rows that they stand for, counted on their way."""
    from pyspark.sql import functions as f

    rows = f.coalesce(f.sum("rows"), f.lit(0))
    return lines.observe(OBSERVED, f.count(f.lit(1)).alias("lines"), rows.alias("rows"))


def observed_parts(parts: DataFrame, unit: int) -> DataFrame:
    """Units' parts of the rows, counted on their way. Each unit counts all rows: those of one are looked at."""
    from pyspark.sql import functions as f

    mine = f.expr(f"unit = {unit} AND stream IS NOT NULL")
    lines, rows = f.count(f.when(mine, f.lit(1))), f.coalesce(f.sum(f.when(mine, f.col("rows"))), f.lit(0))
    return parts.observe(OBSERVED, lines.alias("lines"), rows.alias("rows"))


class Lag:
    """How far Kafka's streams are behind, by what Spark reports to its listeners."""

    def __init__(self) -> None:
        self._behind: dict[int, int] = {}
        self._lock = threading.Lock()
        self._listener: Any = None

    def listen(self, session: SparkSession) -> None:
        from pyspark.sql.streaming import StreamingQueryListener

        take = self.take

        class Listener(StreamingQueryListener):
            def onQueryStarted(self, event: Any) -> None:
                pass

            def onQueryProgress(self, event: Any) -> None:
                take([(source.endOffset, source.latestOffset) for source in event.progress.sources])

            def onQueryIdle(self, event: Any) -> None:
                pass

            def onQueryTerminated(self, event: Any) -> None:
                pass

        self._listener = Listener()
        session.streams.addListener(self._listener)

    def close(self, session: SparkSession) -> None:
        if self._listener is not None:
            session.streams.removeListener(self._listener)
            self._listener = None

    def take(self, offsets: list[tuple[str | None, str | None]]) -> None:
        """What one batch's progress says: where each source's batch ended, and where the source does."""
        with self._lock:
            for number, (end, latest) in enumerate(offsets):
                self._behind[number] = max(0, _position(latest) - _position(end))

    def records(self) -> int:
        """Records that are there and not read, in all of Spark's own sources."""
        with self._lock:
            return sum(self._behind.values())


def _position(offset: str | None) -> int:
    """The records before one of Kafka's offsets; sources of other kinds say nothing."""
    try:
        found = json.loads(offset or "null")
    except ValueError:
        return 0
    if not isinstance(found, dict):
        return 0
    return sum(end for ends in found.values() if isinstance(ends, dict) for end in ends.values())


@contextlib.contextmanager
def reporting(spec: MetricsSpec | None, on_batch: OnBatch) -> Iterator[OnBatch]:
    """While this lasts, each batch's record goes to `on_batch`, and to Prometheus if [metrics] asks for it."""
    if spec is None:
        yield on_batch
        return
    metrics = Metrics(spec.host, spec.port)

    def report(info: BatchInfo) -> None:
        metrics.report(info)
        on_batch(info)

    try:
        yield report
    finally:
        metrics.close()


class Metrics:
    """The figures of a pipeline on a port, for Prometheus."""

    def __init__(self, host: str, port: int) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

        registry = CollectorRegistry()
        self._rows = Counter("skyband_rows", "Rows read, rejects included.", registry=registry)
        self._crossed = Counter("skyband_crossed_rows", "Rows that came to the engine.", registry=registry)
        self._changes = Counter("skyband_changes", "Changes put out.", registry=registry)
        self._batches = Counter("skyband_batches", "Batches put out by this process.", registry=registry)
        self._seconds = Histogram("skyband_batch_seconds", "Time of a batch.", registry=registry)
        self._batch = Gauge("skyband_batch", "Number of the last batch.", registry=registry)
        self._rejects = Gauge(
            "skyband_rejected_rows", "Rejected rows since the beginning.", ["reason"], registry=registry
        )
        # Units report bytes alone: this one is registered with the first figure, for none is better than a wrong one.
        self._state = Gauge("skyband_state_rows", "Rows kept for the queries.", registry=None)
        self._registry, self._registered = registry, False
        self._bytes = Gauge("skyband_state_bytes", "Bytes that they take.", registry=registry)
        self._lag = Gauge("skyband_lag", "Files or records not read yet.", ["kind"], registry=registry)
        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except OSError as problem:
            raise InputError(
                f"[metrics]: port {port} of {host} cannot be opened ({problem.strerror}): choose another port."
            ) from None
        self.port = int(self._server.server_port)

    def report(self, info: BatchInfo) -> None:
        self._rows.inc(info.rows)
        self._crossed.inc(info.crossed)
        self._changes.inc(info.changes)
        self._batches.inc()
        self._seconds.observe(info.seconds)
        self._batch.set(info.batch)
        for reason, count in info.reject_counts.items():
            self._rejects.labels(reason).set(count)
        if info.state_rows and not self._registered:
            self._registry.register(self._state)
            self._registered = True
        self._state.set(info.state_rows)
        self._bytes.set(info.state_bytes)
        self._lag.labels("files").set(info.lag_files)
        self._lag.labels("records").set(info.lag_records)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
