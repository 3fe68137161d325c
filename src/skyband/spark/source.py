"""The streaming source: its rows are splits, not data.

Spark does for us what it is good at: it decides when a micro-batch starts, writes down what belongs to it
before the batch runs, and hands the pieces to tasks. The data themselves never pass through the JVM; a task
gets a few lines that say what to read, and reads it with Arrow (see `sifting`).

Where the state is with the executors, the source reads the rows at once and its lines are the units' parts of them
(`routing`): lines that go to the JVM and back to another Python worker take 20 ms of every micro-batch.

Each start of a pipeline waits for a new process that does no more than look for files (PySpark's runner), so what a
source of splits doesn't need, `routing` with all the algorithms above all, is imported where it is used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from .filelog import FileLog, StreamFiles
from .residents import begin_task
from .splits import Offset, Split, plan_splits

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from .routing import Packed

SPLIT_COLUMNS = (
    "number bigint, stream string, format string, path string, size bigint, changed bigint, "
    "first bigint, count bigint, rows bigint"
)


def source_options(
    streams: list[StreamFiles], log: Path, tasks: int, job: str | None = None
) -> dict[str, str]:
    """The options that `SplitSource` is loaded with."""
    options = {"streams": json.dumps([asdict(s) for s in streams]), "log": str(log), "tasks": str(tasks)}
    return options if job is None else {**options, "job": job}


class SplitSource(DataSource):
    """`spark.readStream.format("skyband_splits")`."""

    @classmethod
    def name(cls) -> str:
        return "skyband_splits"

    def schema(self) -> str:
        if "job" not in self.options:
            return SPLIT_COLUMNS
        from .routing import PART_COLUMNS

        return PART_COLUMNS

    def streamReader(self, schema: StructType) -> SplitReader:
        options = self.options
        streams = [StreamFiles(**s) for s in json.loads(options["streams"])]
        job = options.get("job")
        packed = None
        if job is not None:
            from .routing import Packed

            packed = Packed.from_text(job)
        return SplitReader(streams, Path(options["log"]), int(options["tasks"]), packed)


class _Run(InputPartition):
    """The splits of one task."""

    def __init__(self, splits: list[Split]) -> None:
        self.splits = splits


class SplitReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are {stream: number of files}; streams without files are left out, so that adding one is no change."""

    def __init__(
        self, streams: list[StreamFiles], log: Path, tasks: int, packed: Packed | None = None
    ) -> None:
        self._streams = streams
        self._path = log
        self._tasks = tasks
        self._packed = packed
        self._log: FileLog | None = None
        self._frozen = False

    @property
    def _files(self) -> FileLog:
        # Opened in the planner process, not where the reader is made: tasks unpickle readers too.
        if self._log is None:
            self._log = FileLog(self._path, writer=True)
        return self._log

    def initialOffset(self) -> dict[str, Any]:
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()  # limits are per stream, and our own

    def prepareForTriggerAvailableNow(self) -> None:
        self._files.look(self._streams)
        self._frozen = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if not self._frozen:
            self._files.look(self._streams)
        end: Offset = dict(start)
        for stream in self._streams:
            taken = self._files.take(stream, start.get(stream.name, 0))
            if taken:
                end[stream.name] = taken
        return dict(sorted(end.items()))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [_Run(run) for run in plan_splits(self._files, self._streams, start, end, self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        begin_task()
        assert isinstance(partition, _Run)
        if self._packed is not None:
            from .routing import share_files

            yield from share_files(self._packed, partition.splits)
            return
        yield pa.RecordBatch.from_pylist([split.line() for split in partition.splits])
