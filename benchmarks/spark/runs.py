"""What the parts share: sizes, files of rows, queries, and the duration of each micro-batch."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = ("x0", "x1", "x2", "x3")
K = 20
WINDOW = 1_000_000
_GROUP = 500_000  # rows of a row group at most
_DIFFERENT = 4  # files; further ones have the rows of those


@dataclass(frozen=True)
class Plan:
    """The sizes of a run."""

    batches: int
    batch_rows: int
    rounds: int
    restart: int
    warm: int = 2  # batches at the start of a run that don't count
    cluster_rows: int = 400_000  # of a batch on the cluster
    small_rows: int = 200
    small_batches: int = 20
    master: str = "local[2]"
    cluster_warm: int = 2  # batches there that don't count: each of its JVMs compiles its own code

    @property
    def cluster_counted(self) -> int:
        """Rows on the cluster that count."""
        return self.cluster_rows * (self.batches - self.warm)

    @property
    def larger(self) -> Plan:
        """The same with larger batches on the cluster."""
        return replace(self, cluster_rows=2 * self.cluster_rows)

    @property
    def cluster_batches(self) -> int:
        """Batches up to the last one on the cluster that counts."""
        return self.cluster_warm + self.batches - self.warm


QUICK = Plan(batches=5, batch_rows=400_000, rounds=1, restart=200, small_batches=10)
FULL = Plan(
    batches=12, batch_rows=4_000_000, rounds=2, restart=1000, warm=6, cluster_rows=16_000_000, cluster_warm=24
)


def stream_of(session: SparkSession, data: Path, columns: Sequence[str] = COLUMNS) -> DataFrame:
    """Return a stream of files, one for each micro-batch."""
    schema = ", ".join(f"{name} double" for name in columns)
    return session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(data))


def into_nothing(rows: DataFrame, checkpoint: Path) -> None:
    """Run a streaming DataFrame into the no-op sink, to the end of its files."""
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def triggers(session: SparkSession, run: Callable[[], None], since: float | None = None) -> Iterator[float]:
    """Yield the seconds of each micro-batch of a run; with `since`, the seconds from then to the end of the batch.

    They are Spark's own figures, from the query itself, since a listener would be work for Spark.
    """
    queries: dict[str, Any] = {}
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.02):
            queries.update({str(query.runId): query for query in session.streams.active})

    looking = threading.Thread(target=look)
    looking.start()
    try:
        run()
    finally:
        ended.set()
        looking.join()
    (query,) = queries.values()
    for progress in query.recentProgress:
        if "addBatch" in progress.durationMs:  # a batch, not a look whether there is one
            taken = progress.durationMs["triggerExecution"] / 1000
            begun = datetime.fromisoformat(progress.timestamp).timestamp()
            yield taken if since is None else begun + taken - since


def pipeline_text(data: Path, placement: str, count: int, master: str) -> str:
    """Return a pipeline of `count` weighted sums."""
    asked = "".join(f'[[query]]\nname = "q{i}"\nsql = "{sql}"\n' for i, sql in enumerate(weighted(count)))
    return (
        f'[stream.s]\npath = "{data}"\nmax_files = 1\n{asked}[sink]\nformat = "parquet"\npath = "out"\n'
        f'[spark]\nmaster = "{master}"\nplacement = "{placement}"\n'
    )


def weighted(count: int) -> list[str]:
    """Return `count` weighted sums."""
    chance = np.random.default_rng(2)
    found = []
    for weights in chance.random((count, len(COLUMNS))):
        score = " + ".join(f"{w:.4f} * {name}" for w, name in zip(weights, COLUMNS, strict=True))
        found.append(f"SELECT x0 FROM s ORDER BY {score} DESC LIMIT {K} WINDOW {WINDOW} ROWS")
    return found


def write_files(folder: Path, count: int, rows: int, first: int = 0) -> None:
    """Write Parquet files of `rows` rows each."""
    import pyarrow.parquet as pq

    folder.mkdir(exist_ok=True)
    for number in range(first, first + count):
        target = folder / f"{number:04}.parquet"
        if number - first >= _DIFFERENT:  # the same rows again, under another name
            os.link(folder / f"{number - _DIFFERENT:04}.parquet", target)
            continue
        chance = np.random.default_rng(number)
        table = pa.table({name: chance.random(rows) for name in COLUMNS})
        pq.write_table(table, target, row_group_size=max(1, min(rows // 8, _GROUP)), compression="none")
