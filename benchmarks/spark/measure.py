"""How much of Spark's own speed the pipeline keeps.

The yardstick is Spark's own Parquet source into its no-op sink: reading the same files for nothing. What is compared
runs in one session, in turn, a few rounds, because a machine's mood lasts longer than a run; what is told are ratios of
medians. The two placements are compared in a process of their own, with a JVM as the executors placement starts it:
that of Spark alone compiles for long scans, which takes longer than a run has batches. The time of a micro-batch is
Spark's own figure for the whole trigger, so that planning, logging and commit count on both sides; the first batches of
a run are left out: a JVM compiles its code while they run.

- **throughput**: large batches, for one and a thousand weighted sums over the last million rows, with the state in the
  driver; **many**: for ten thousand; **executors**: for a thousand, with the state in either place, also in larger
  batches: what Spark's stateful operator costs for a batch doesn't depend on its rows.
- **small**: batches of 200 rows, where everything but the rows costs.
- **cluster**: processor time on a standalone cluster of one worker and of two, with a core each: what executors use for
  a row, and the driver's share of all, for a thousand weighted sums with the state with the executors; **share**: the
  same with two workers in batches twice as large, since what the driver does for a batch doesn't depend on its rows.
- **nearest**: large batches for a thousand nearest-neighbour queries.
- **state**: a batch that reads and writes a blob of state, by either of Spark's stateful operators.
- **watch**: a batch of `watch(df, shards=…)` with one unit and with two, and with two whose parts nobody merges.
- **records**: JSON of records, read by Spark's own code and by our tasks.
- **restart**: how much later a pipeline of a thousand queries answers its first batch after a start than a query that
  does nothing.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.spark.config import SparkSpec
from skyband.spark.pipeline import run_pipeline
from skyband.spark.progress import BatchInfo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COLUMNS = ("x0", "x1", "x2", "x3")
_SCHEMA = ", ".join(f"{name} double" for name in _COLUMNS)
_K = 20
_WINDOW = 1_000_000
_GROUP = 500_000  # rows of a row group at most
_DIFFERENT = 4  # files; further ones have the rows of those
PARTS = (
    "throughput",
    "many",
    "executors",
    "nearest",
    "small",
    "restart",
    "cluster",
    "share",
    "state",
    "watch",
    "records",
)
_RUNS = {"throughput": ("driver 1", "driver 1000"), "many": ("driver 10000",)}
_PLACEMENTS = ("driver 1000", "executors 1000")


@dataclass(frozen=True)
class Plan:
    """How large everything is."""

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
# of the no-op sink's rate; of the driver's; of a no-op trigger; seconds
GOALS = {"driver 1": 0.8, "driver 1000": 0.6, "driver 10000": 0.4, "executors/driver 1000": 0.5}
SMALL_GOAL, RESTART_GOAL = 1.3, 2.0


@dataclass
class Figures:
    """What was measured: rows a second of each run, seconds of small triggers and of first answers."""

    plan: Plan
    rates: dict[str, float] = field(default_factory=dict)
    triggers: dict[str, float] = field(default_factory=dict)
    first: dict[str, float] = field(default_factory=dict)
    cluster: dict[int, tuple[float, float]] = field(
        default_factory=dict
    )  # by workers: executors' and driver's seconds
    share: tuple[float, float] | None = None  # the same with two workers in larger batches
    placements: dict[int, dict[str, float]] = field(default_factory=dict)  # by rows a batch, rates of the two
    blobs: dict[int, dict[str, float]] = field(default_factory=dict)  # by bytes, seconds with each operator
    watches: dict[int, dict[str, float]] = field(
        default_factory=dict
    )  # by rows a batch, seconds with each way
    records: dict[str, float] = field(default_factory=dict)  # by way, records of JSON read in a second
    nearest: dict[str, float] = field(
        default_factory=dict
    )  # by way, rows a second for nearest-neighbour queries

    def ratios(self) -> dict[str, float]:
        """Each run's rate against the no-op sink's, and the executors' against the driver's."""
        nothing = self.rates.get("nothing")
        if nothing is None:
            return {}
        found = {name: rate / nothing for name, rate in self.rates.items() if name != "nothing"}
        for name, rate in self.rates.items():
            placement, _, count = name.partition(" ")
            if placement == "executors" and f"driver {count}" in self.rates:
                found[f"executors/driver {count}"] = rate / self.rates[f"driver {count}"]
        return found

    def of_driver(self) -> dict[int, float]:
        """By rows of a batch, the executors' rate against the driver's."""
        driver, executors = _PLACEMENTS
        return {rows: rates[executors] / rates[driver] for rows, rates in self.placements.items()}

    def __str__(self) -> str:
        plan, lines = self.plan, []
        if self.rates:
            rows = (
                f"{plan.batch_rows:,} rows a batch, {plan.batches - plan.warm} batches, {plan.rounds} rounds"
            )
            lines.append(f"throughput: weighted sums of 4 columns, k = {_K}, {_WINDOW:,} rows; {rows}")
            lines.append(f"  {'Spark alone, into nothing':28} {self.rates['nothing'] / 1e6:6.2f} M rows/s")
            ratios = self.ratios()
            for name, rate in self.rates.items():
                if name != "nothing":
                    said = f"  {name + ' queries':28} {rate / 1e6:6.2f} M rows/s, {ratios[name]:.2f} of it"
                    lines.append(said + _goal(ratios[name], GOALS.get(name), least=True))
            for name, ratio in ratios.items():
                if "/" in name:
                    lines.append(
                        f"  {name + ' queries':28} {ratio:.2f}{_goal(ratio, GOALS.get(name), least=True)}"
                    )
        for size, ratio in self.of_driver().items():
            goal = GOALS["executors/driver 1000"] if size == plan.cluster_rows else None
            said = f"placements, {size:,} rows a batch: executors/driver 1000 queries {ratio:.2f}"
            lines.append(said + _goal(ratio, goal, least=True))
        for way, rate in self.nearest.items():
            said = f"nearest, {plan.batch_rows:,} rows a batch, {way}: {rate / 1e6:.2f} M rows/s"
            lines.append(f"{said}, {rate / self.nearest['Spark alone']:.2f} of Spark alone")
        if self.triggers:
            ratio = self.triggers["driver"] / self.triggers["nothing"]
            told = ", ".join(f"{name} {1000 * seconds:.0f} ms" for name, seconds in self.triggers.items())
            lines.append(f"small: {plan.small_rows} rows a batch: {told}")
            lines.append(f"  driver/nothing {ratio:.2f}{_goal(ratio, SMALL_GOAL, least=False)}")
        if self.first:
            later = self.first["driver"] - self.first["nothing"]
            told = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.first.items())
            lines.append(f"restart: {plan.restart:,} queries, from the start to the first answer: {told}")
            lines.append(f"  driver later by {later:.1f} s{_goal(later, RESTART_GOAL, least=False)}")
        for workers, (executors, driver) in self.cluster.items():
            counted = plan.cluster_counted
            lines.append(
                f"cluster, {workers} workers: executors {1e9 * executors / counted:.0f} ns of processor time a row, "
                f"driver {100 * driver / (driver + executors):.0f} % of all"
            )
        if self.share is not None:
            executors, driver = self.share
            lines.append(
                f"cluster, 2 workers, {plan.larger.cluster_rows:,} rows a batch: executors "
                f"{1e9 * executors / plan.larger.cluster_counted:.0f} ns of processor time a row, driver "
                f"{100 * driver / (driver + executors):.0f} % of all"
            )
        for size, seconds in self.blobs.items():
            told = ", ".join(f"{name} {1000 * each:.0f} ms" for name, each in seconds.items())
            lines.append(f"state, two blobs of {size:,} bytes read and written in a batch: {told}")
        for rows_, seconds in self.watches.items():
            told = ", ".join(f"{name} {1000 * each:.0f} ms" for name, each in seconds.items())
            lines.append(f"watch, {rows_:,} rows a batch: {told}")
        for way, rate in self.records.items():
            lines.append(f"JSON of records, {way}: {rate / 1e6:.2f} million a second")
        return "\n".join(lines)


def _goal(found: float, wanted: float | None, least: bool) -> str:
    if wanted is None:
        return ""
    met = found >= wanted if least else found <= wanted
    return f" (goal: at {'least' if least else 'most'} {wanted:g}; {'met' if met else 'missed'})"


def measure(plan: Plan = QUICK, parts: tuple[str, ...] = PARTS) -> Figures:
    """Measure; the full plan needs a gigabyte in the temporary folder and about ten minutes."""
    from benchmarks.spark.cluster import cluster_seconds
    from skyband.spark.session import start_session

    figures = Figures(plan)
    with tempfile.TemporaryDirectory(prefix="skyband-measure-") as name:
        home = Path(name)
        if "cluster" in parts:
            figures.cluster = {
                workers: cluster_seconds(home / str(workers), plan, workers) for workers in (1, 2)
            }
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
                from benchmarks.spark.nearest import nearest_rates

                figures.nearest = nearest_rates(session, home, plan)
            if "small" in parts:
                figures.triggers = bench.small()
            if "restart" in parts:
                figures.first = bench.restart()
            if "state" in parts:
                from benchmarks.spark.state import blob_seconds

                figures.blobs = blob_seconds(session, home, 4 * plan.batches, 2 * plan.batches)
            if "watch" in parts:
                from benchmarks.spark.watch import watch_seconds

                figures.watches = watch_seconds(session, home, 2 * plan.batches, plan.batches)
            if "records" in parts:
                from benchmarks.spark.records import values_rates

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
    from skyband.spark.session import start_session

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
            told = lambda info, first=first, began=began: first.append(time.monotonic() - began)  # noqa: E731
            self._run(file, told)
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

    def _run(self, path: Path, told: Callable[[BatchInfo], None] = lambda info: None) -> None:
        run_pipeline(path, available_now=True, on_batch=told, spark=self._session)

    def _nothing(self, data: Path) -> None:
        self._to_nothing(data, self._folder("nothing"))

    def _to_nothing(self, data: Path, folder: Path) -> None:
        rows = self._session.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(data))
        writer = rows.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    def _timed(self, runs: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
        """Seconds of the micro-batches of each run, round after round."""
        seconds: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(rounds):
            for name, run in runs.items():
                seconds[name] += list(triggers(self._session, run))[self._plan.warm :]
        return seconds


def triggers(session: SparkSession, run: Callable[[], None], since: float | None = None) -> Iterator[float]:
    """Seconds of each micro-batch of a run, by Spark's own count; with `since`, when each was done after that.

    The query itself is asked, not a listener: to be listened to is work of its own."""
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
    """A pipeline of so many weighted sums."""
    asked = "".join(f'[[query]]\nname = "q{i}"\nsql = "{sql}"\n' for i, sql in enumerate(weighted(count)))
    return (
        f'[stream.s]\npath = "{data}"\nmax_files = 1\n{asked}[sink]\nformat = "parquet"\npath = "out"\n'
        f'[spark]\nmaster = "{master}"\nplacement = "{placement}"\n'
    )


def weighted(count: int) -> list[str]:
    """So many weighted sums."""
    chance = np.random.default_rng(2)
    found = []
    for weights in chance.random((count, len(_COLUMNS))):
        score = " + ".join(f"{w:.4f} * {name}" for w, name in zip(weights, _COLUMNS, strict=True))
        found.append(f"SELECT x0 FROM s ORDER BY {score} DESC LIMIT {_K} WINDOW {_WINDOW} ROWS")
    return found


def write_files(folder: Path, count: int, rows: int, first: int = 0) -> None:
    import pyarrow.parquet as pq

    folder.mkdir(exist_ok=True)
    for number in range(first, first + count):
        target = folder / f"{number:04}.parquet"
        if number - first >= _DIFFERENT:  # the same rows again, under another name
            os.link(folder / f"{number - _DIFFERENT:04}.parquet", target)
            continue
        chance = np.random.default_rng(number)
        table = pa.table({name: chance.random(rows) for name in _COLUMNS})
        pq.write_table(table, target, row_group_size=max(1, min(rows // 8, _GROUP)), compression="none")
