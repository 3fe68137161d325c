"""How much of Spark's own speed the pipeline keeps.

The yardstick is the same source, with the same tasks reading the same files, into Spark's no-op sink: what remains
is what skyband itself costs. Both run in one session, in turn, a few times, because a machine's mood lasts longer
than a run. The time of a micro-batch is Spark's own figure for the whole trigger, so that planning, logging and
commit count on both sides; the first batches of a run are left out.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from .config import SparkSpec, load_pipeline
from .filelog import StreamFiles
from .pipeline import run_pipeline
from .sifting import read_runs
from .splits import Split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WARM = 2  # batches at the start of a run that don't count
_COLUMNS = ("x0", "x1", "x2", "x3")


@dataclass(frozen=True)
class Measured:
    """Rows per second of both, and their ratio."""

    rows: int
    batch_rows: int
    skyband: float
    nothing: float
    native: float

    @property
    def ratio(self) -> float:
        return self.skyband / self.nothing

    def __str__(self) -> str:
        return (
            f"{self.rows:,} rows in batches of {self.batch_rows:,}, 1 query, k = 20, 1,000,000 rows: "
            f"skyband {self.skyband:,.0f} rows/s; the same source into the no-op sink {self.nothing:,.0f} rows/s "
            f"(ratio {self.ratio:.2f}); Spark's own Parquet source into it {self.native:,.0f} rows/s"
        )


def measure(
    batches: int = 10, batch_rows: int = 1_000_000, rounds: int = 3, master: str = "local[*]"
) -> Measured:
    """Measure; needs some hundred megabytes in the temporary folder and about a minute."""
    from .session import start_session

    with tempfile.TemporaryDirectory(prefix="skyband-measure-") as name:
        home = Path(name)
        _write(home / "data", batches, batch_rows)
        session = start_session(SparkSpec(checkpoint=home, master=master), home / "spark.log")
        try:
            runs: dict[str, Callable[[Path], None]] = {
                "skyband": lambda folder: _skyband(session, home, folder),
                "nothing": lambda folder: _nothing(session, home, folder),
                "native": lambda folder: _native(session, home, folder),
            }
            seconds: dict[str, list[float]] = {key: [] for key in runs}
            for number in range(rounds):
                for key, run in runs.items():
                    folder = home / f"{key}-{number}"
                    folder.mkdir()
                    seconds[key] += _timed(session, lambda run=run, folder=folder: run(folder))  # type: ignore[misc]
        finally:
            session.stop()
    rate = {key: batch_rows / statistics.median(found) for key, found in seconds.items()}
    return Measured(batches * batch_rows, batch_rows, rate["skyband"], rate["nothing"], rate["native"])


def _write(folder: Path, batches: int, rows: int) -> None:
    import pyarrow.parquet as pq

    folder.mkdir()
    random = np.random.default_rng(1)
    for number in range(batches):
        table = pa.table({name: random.random(rows) for name in _COLUMNS})
        pq.write_table(
            table, folder / f"{number:04}.parquet", row_group_size=max(1, rows // 8), compression="none"
        )


def _timed(session: SparkSession, run: Callable[[], None]) -> list[float]:
    """Seconds of each micro-batch of a run but the first, by Spark's own count."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    found: dict[int, float] = {}

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:
            pass

        def onQueryProgress(self, event: Any) -> None:
            progress = event.progress
            if progress.numInputRows:
                found[progress.batchId] = progress.durationMs["triggerExecution"] / 1000

        def onQueryTerminated(self, event: Any) -> None:
            pass

    listener = Listener()
    session.streams.addListener(listener)
    try:
        run()
        time.sleep(1.0)  # progress is told by another thread
    finally:
        session.streams.removeListener(listener)
    return [found[batch] for batch in sorted(found)[_WARM:]]


def _skyband(session: SparkSession, home: Path, folder: Path) -> None:
    path = folder / "pipeline.toml"
    path.write_text(
        f'[stream.s]\npath = "{home / "data"}"\nmax_files = 1\n'
        '[[query]]\nname = "q"\n'
        'sql = "SELECT x0 FROM s ORDER BY 0.1 * x0 + 0.2 * x1 + 0.3 * x2 + 0.4 * x3 DESC LIMIT 20 '
        'WINDOW 1000000 ROWS"\n'
        '[sink]\nformat = "parquet"\npath = "out"\n'
    )
    run_pipeline(load_pipeline(path).file, available_now=True, on_batch=lambda info: None, spark=session)


def _nothing(session: SparkSession, home: Path, folder: Path) -> None:
    """The same splits, read by the same tasks with Arrow, all rows out."""
    from .source import SplitSource, source_options

    session.dataSource.register(SplitSource)
    streams = [StreamFiles("s", "parquet", str(home / "data"), 1)]
    tasks = int(session.sparkContext.defaultParallelism)
    options = source_options(streams, folder / "files.jsonl", tasks)
    splits = session.readStream.format(SplitSource.name()).options(**options).load()
    columns = ", ".join(f"{name} double" for name in _COLUMNS)
    _to_nothing(splits.mapInArrow(_read_rows, columns), folder)


def _native(session: SparkSession, home: Path, folder: Path) -> None:
    columns = ", ".join(f"{name} double" for name in _COLUMNS)
    rows = session.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(str(home / "data"))
    _to_nothing(rows, folder)


def _to_nothing(rows: Any, folder: Path) -> None:
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def _read_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([(name, pa.float64()) for name in _COLUMNS])
    splits = (Split(**row) for batch in batches for row in batch.to_pylist())
    for run in read_runs(splits, {"s": schema}):
        for chunk in run.chunks:
            yield from chunk.table.to_batches()


if __name__ == "__main__":
    print(measure())
