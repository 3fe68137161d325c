"""Where the rejected rows of `watch(df, rejects=folder)` go: Parquet files, one for each micro-batch that has any.

The stateful operator runs in a task, and its only output is changes. So the task writes the file itself, before
it hands its changes and its state to Spark: a micro-batch that Spark commits has its rejects on the disk. It may
run the same micro-batch again (a lost executor, a restart); the file is named by the micro-batch's id and
replaced as a whole, so there is one copy, that of the last attempt.

Every file says in its metadata which streaming query wrote it. A folder that another query (that is, another
checkpoint) has written to is refused, for its micro-batches have the same numbers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from skyband.core.errors import InputError
from skyband.spark.jvm.files import write_atomic
from skyband.spark.jvm.hadoop import WAY, HadoopPath, way_of
from skyband.spark.jvm.paths import Place, place_of
from skyband.spark.jvm.private import is_started
from skyband.spark.sinks import batch_column, parquet_bytes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUERY = "skyband.query"  # the key in a file's metadata


@dataclass(frozen=True)
class RejectFolder:
    """A folder that all executors see, or one in a store; travels to the tasks."""

    path: str
    way: str | None = None  # how a task reaches a store

    def put(self, rejects: pa.Table, first: bool) -> None:
        """Write the rejects of the micro-batch that this task belongs to; `first`: none came before it."""
        batch, query = task_batch()
        if self.way is not None:
            os.environ[WAY] = self.way
        folder = place_of(self.path)
        target = folder / f"batch-{batch}.parquet"
        try:
            for file in [*folder.glob("batch-*.parquet")] if first else [target]:
                _refuse_others(file, query)
            if rejects.num_rows:
                table = batch_column(rejects, batch).replace_schema_metadata({_QUERY: query})
                write_atomic(target, parquet_bytes(table))
            else:
                target.unlink(missing_ok=True)  # an attempt with other queries had some
            self._sweep(target)
        except OSError as problem:
            raise InputError(
                f"The rejects of micro-batch {batch} cannot be written to {self.path} ({problem.strerror or problem}): "
                f"see to the disk and the folder's rights; the next start does the micro-batch again."
            ) from None

    def _sweep(self, target: Place) -> None:
        """Remove what killed tasks left; another attempt of this very micro-batch may be under way."""
        for torn in target.parent.glob(".batch-*.tmp"):
            if not torn.name.startswith(f".{target.name}."):
                torn.unlink(missing_ok=True)


def task_batch() -> tuple[int, str]:
    """The micro-batch of this task, and its streaming query's id, which is the same after a restart."""
    from pyspark import TaskContext

    task = TaskContext.get()
    batch = None if task is None else task.getLocalProperty("streaming.sql.batchId")
    if task is None or batch is None:
        raise InputError(
            "Spark doesn't say which micro-batch this is: rejects= needs a query that was started with writeStream."
        )
    return int(batch), task.getLocalProperty("sql.streaming.queryId") or ""


def _refuse_others(file: Place, query: str) -> None:
    """An error if a file is there and of another query."""
    import pyarrow.parquet as pq

    try:
        with file.open("rb") as data:
            metadata = pq.read_schema(data).metadata or {}
    except FileNotFoundError:
        return
    except pa.ArrowInvalid:
        metadata = {}  # no Parquet file: not ours
    if metadata.get(_QUERY.encode(), b"").decode() != query:
        raise InputError(
            f"{file} is of another streaming query, or of another checkpoint: remove the folder or choose another one "
            f"for rejects=."
        )


def reject_folder(path: str | os.PathLike[str], session: SparkSession) -> RejectFolder:
    """The folder for `watch`, made if it isn't there; wrong ones are found here and not in a task."""
    from skyband.spark.session.start import scratch_folder

    folder = place_of(os.fspath(path))
    if isinstance(folder, HadoopPath):
        if not is_started():
            raise InputError(
                f"rejects= in a store ({folder}) needs a classic Spark session, not Spark Connect."
            )
        folder.list()  # one that can't be reached is a sentence
        return RejectFolder(str(folder), way_of(session, scratch_folder() / "door"))
    folder = folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InputError(f"The folder {folder} for rejects= cannot be made: {problem.strerror}.") from None
    return RejectFolder(str(folder))
