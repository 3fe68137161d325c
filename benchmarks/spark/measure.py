"""How much of Spark's own speed the pipeline keeps.

The yardstick is Spark's own Parquet source into its no-op sink: reading the same files for nothing. What is compared
runs in one session, in turn, in several rounds, because the speed of a machine changes from minute to minute. The
results are ratios of medians. The two placements are compared in a process of their own, with a JVM as the executors
placement starts it: that of Spark alone compiles for long scans, which takes longer than a run has batches. The time of
a micro-batch is Spark's own figure for the whole trigger, so that planning, logging and commit count on both sides. The
first batches of a run are left out: a JVM compiles its code while they run.

- **throughput**: large batches, for one and a thousand weighted sums over the last million rows, with the state in the
  driver; **many**: for ten thousand; **executors**: for a thousand, with the state in either place, also in larger
  batches: what Spark's stateful operator costs for a batch doesn't depend on its rows.
- **small**: batches of 200 rows, where everything but the rows costs.
- **cluster**: processor time on a standalone cluster of one worker and of two, with a core each: what executors use for
  a row, and the driver's share of all, for a thousand weighted sums with the state with the executors; **share**: the
  same with two workers in batches twice as large, since what the driver does for a batch doesn't depend on its rows.
- **nearest**: large batches for a thousand nearest-neighbour queries.
- **state**: a batch that reads and writes a blob of state, by either of Spark's stateful operators.
- **watch**: a batch of `watch(df, shards=…)` with one unit and with two, and with two whose parts are not merged.
- **records**: JSON of records, read by Spark's own code and by our tasks.
- **restart**: how much later a pipeline of a thousand queries answers its first batch after a start than a query that
  does nothing.
"""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.spark.cluster import cluster_seconds
from benchmarks.spark.nearest import nearest_rates
from benchmarks.spark.records import values_rates
from benchmarks.spark.runs import QUICK, Plan, into_nothing, pipeline_text, stream_of, triggers, write_files
from benchmarks.spark.state import blob_seconds
from benchmarks.spark.watch import watch_seconds
from skyband.spark.config import SparkSpec
from skyband.spark.pipeline import run_pipeline
from skyband.spark.session.progress import BatchInfo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS = (
    "throughput", "many", "executors", "nearest", "small", "restart", "cluster", "share", "state", "watch", "records",
)  # fmt: skip
_RUNS = {"throughput": ("driver 1", "driver 1000"), "many": ("driver 10000",)}
_PLACEMENTS = ("driver 1000", "executors 1000")


@dataclass
class Figures:
    """What was measured."""

    plan: Plan
    rates: dict[str, float] = field(default_factory=dict)  # rows a second of each run
    triggers: dict[str, float] = field(default_factory=dict)  # seconds of a small batch
    first: dict[str, float] = field(default_factory=dict)  # seconds to the first answer
    # by workers, the executors' and the driver's seconds; the same with two workers in larger batches
    cluster: dict[int, tuple[float, float]] = field(default_factory=dict)
    share: tuple[float, float] | None = None
    placements: dict[int, dict[str, float]] = field(default_factory=dict)  # by rows a batch, rates of the two
    blobs: dict[int, dict[str, float]] = field(default_factory=dict)  # by bytes, seconds with each operator
    watches: dict[int, dict[str, float]] = field(default_factory=dict)  # by rows a batch, seconds each way
    records: dict[str, float] = field(default_factory=dict)  # by way, records of JSON read in a second
    nearest: dict[str, float] = field(default_factory=dict)  # by way, rows a second


def measure(plan: Plan = QUICK, parts: tuple[str, ...] = PARTS) -> Figures:
    """Measure; the full plan needs a gigabyte in the temporary folder and about ten minutes."""
    from skyband.spark.session.start import start_session

    figures = Figures(plan)
    with tempfile.TemporaryDirectory(prefix="skyband-measure-") as name:
        home = Path(name)
        if "cluster" in parts:
            figures.cluster = {count: cluster_seconds(home / str(count), plan, count) for count in (1, 2)}
        if "share" in parts:
            figures.share = cluster_seconds(home / "larger", plan.larger, 2)
        if {*parts} <= {"cluster", "share"}:
            return figures
        # what Spark reads alone is compiled with all the care that its JVM has
        conf = (("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=4 -XX:CompileThresholdScaling=1"),)
        spec = SparkSpec(checkpoint=home, master=plan.master, conf=conf)
        session = start_session(spec, home / "spark.log", states=True)
        try:
            bench = _Bench(session, home, plan)
            runs = [run for part, its in _RUNS.items() if part in parts for run in its]
            if runs or "executors" in parts:
                figures.rates = bench.throughput(dict.fromkeys(runs))
            if "nearest" in parts:
                figures.nearest = nearest_rates(session, home, plan)
            if "small" in parts:
                figures.triggers = bench.small()
            if "restart" in parts:
                figures.first = bench.restart()
            if "state" in parts:
                figures.blobs = blob_seconds(session, home, 4 * plan.batches, 2 * plan.batches)
            if "watch" in parts:
                figures.watches = watch_seconds(session, home, 2 * plan.batches, plan.batches)
            if "records" in parts:
                figures.records = values_rates(session, home, plan.batch_rows, plan.rounds + 1)
        finally:
            session.stop()
    if "executors" in parts:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            figures.placements = pool.apply(_both_placements, (plan,))
        figures.rates["executors 1000"] = figures.placements[plan.batch_rows]["executors 1000"]
    return figures


def _both_placements(plan: Plan) -> dict[int, dict[str, float]]:
    """The rates of the two placements by rows of a batch, in a session as the executors placement starts it."""
    from skyband.spark.session.start import start_session

    with tempfile.TemporaryDirectory(prefix="skyband-measure-") as name:
        home = Path(name)
        spec = SparkSpec(checkpoint=home, master=plan.master)
        session = start_session(spec, home / "spark.log", states=True)
        try:
            bench = _Bench(session, home, plan)
            sizes = dict.fromkeys([plan.batch_rows, plan.cluster_rows])
            return {rows: bench.throughput(_PLACEMENTS, rows, alone=False) for rows in sizes}
        finally:
            session.stop()


class _Bench:
    def __init__(self, session: SparkSession, home: Path, plan: Plan) -> None:
        self._session, self._home, self._plan = session, home, plan
        self._runs = 0

    def throughput(
        self, names: Iterable[str], rows: int | None = None, alone: bool = True
    ) -> dict[str, float]:
        plan, rows = self._plan, rows or self._plan.batch_rows
        data = self._home / f"large-{rows}"
        write_files(data, plan.batches, rows)
        runs: dict[str, Callable[[], None]] = {"nothing": lambda: self._nothing(data)} if alone else {}
        for name in names:
            placement, count = name.split()
            runs[name] = self._skyband_run(data, placement, int(count))
        seconds = self._timed(runs, plan.rounds)
        return {name: rows / statistics.median(found) for name, found in seconds.items()}

    def small(self) -> dict[str, float]:
        plan = self._plan
        data = self._home / "small"
        write_files(data, plan.small_batches, plan.small_rows)
        runs: dict[str, Callable[[], None]] = {"nothing": lambda: self._nothing(data)}
        for placement in ("driver", "executors"):
            runs[placement] = self._skyband_run(data, placement, 1)
        return {name: statistics.median(found) for name, found in self._timed(runs, plan.rounds).items()}

    def restart(self) -> dict[str, float]:
        """Seconds from a start on an old checkpoint to the end of its first batch; of Spark alone, from any start."""
        plan = self._plan
        data = self._home / "restart"
        write_files(data, 2, plan.small_rows)
        files = {name: self._pipeline(data, name, plan.restart) for name in ("driver", "executors")}
        for file in files.values():
            self._run(file)
        write_files(data, 1, plan.small_rows, first=2)
        done = list(triggers(self._session, lambda: self._nothing(data), since=time.time()))
        found = {"nothing": done[0]}
        for name, file in files.items():
            first: list[float] = []
            began = time.monotonic()
            self._run(file, lambda info, first=first, began=began: first.append(time.monotonic() - began))  # type: ignore[misc]
            found[name] = first[0]
        return found

    # -- runs

    def _folder(self, name: str) -> Path:
        self._runs += 1
        folder = self._home / f"run-{self._runs}-{name}"
        folder.mkdir()
        return folder

    def _skyband_run(self, data: Path, placement: str, count: int) -> Callable[[], None]:
        return lambda: self._run(self._pipeline(data, placement, count))

    def _pipeline(self, data: Path, placement: str, count: int) -> Path:
        path = self._folder(placement) / "pipeline.toml"
        path.write_text(pipeline_text(data, placement, count, self._plan.master))
        return path

    def _run(self, path: Path, on_batch: Callable[[BatchInfo], None] = lambda info: None) -> None:
        run_pipeline(path, available_now=True, on_batch=on_batch, spark=self._session)

    def _nothing(self, data: Path) -> None:
        into_nothing(stream_of(self._session, data), self._folder("nothing") / "checkpoint")

    def _timed(self, runs: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
        """Seconds of the micro-batches of each run, round after round."""
        seconds: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(rounds):
            for name, run in runs.items():
                seconds[name] += list(triggers(self._session, run))[self._plan.warm :]
        return seconds
