"""The streaming source of files: its tasks read and sift their rows.

Spark does for us what it is good at: it decides when a micro-batch starts, writes down what belongs to it before the
batch runs, and hands the pieces to tasks. A task reads its pieces with Arrow, in the source's own Python worker, and
yields lines as the placement's job makes them (`jobs`): rows don't pass through the JVM and a second Python worker,
which takes 20 ms of every micro-batch and more for large ones.

Each start of a pipeline waits for a new process that does no more than look for files (PySpark's runner), so what that
process doesn't need, jobs with all the algorithms above all, is imported where it is used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from skyband.spark.jvm.paths import Place, place_of

from .filelog import FileLog, StreamFiles
from .jobs import PART_COLUMNS, Packed, read_files
from .splits import Offset, Split, plan_splits

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


def source_options(streams: list[StreamFiles], log: Place, tasks: int, packed: Packed) -> dict[str, str]:
    """The options that `SplitSource` is loaded with."""
    listed = json.dumps([asdict(s) for s in streams])
    return {"streams": listed, "log": str(log), "tasks": str(tasks), "job": packed.text}


class SplitSource(DataSource):
    """`spark.readStream.format("skyband_splits")`."""

    @classmethod
    def name(cls) -> str:
        return "skyband_splits"

    def schema(self) -> str:
        return PART_COLUMNS

    def streamReader(self, schema: StructType) -> SplitReader:
        options = self.options
        streams = [StreamFiles(**s) for s in json.loads(options["streams"])]
        packed = Packed.from_text(options["job"])
        return SplitReader(streams, place_of(options["log"]), int(options["tasks"]), packed)


class _Run(InputPartition):
    """The splits of one task."""

    def __init__(self, splits: list[Split]) -> None:
        self.splits = splits


class SplitReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are {stream: number of files}; streams without files are left out, so that adding one is no change."""

    def __init__(self, streams: list[StreamFiles], log: Place, tasks: int, packed: Packed) -> None:
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
        assert isinstance(partition, _Run)
        yield from read_files(self._packed, partition.splits)
