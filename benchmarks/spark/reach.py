"""How far the executors placement goes: what a micro-batch costs, by workers, and what follows for a large cluster.

    python -m benchmarks.spark.reach                      about fifteen minutes on two cores
    python -m benchmarks.spark.reach --run 2 1000 500000  one line: workers, queries, rows of a batch

Every run is a pipeline on a standalone cluster on this machine, whose workers have a core each, with weighted sums over
the last million rows and the state in four units with the executors. Processor time is the system's own count, of the
executors with their Python workers and of the driver. Bytes are Spark's, from its event log: those of the shuffle that
takes each unit its rows, and those of what tasks send to the driver.

The model has one line for each part. A part's load is its cost for a second of rows, divided by what there is of it;
the part with the greatest load is the first bottleneck.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.spark.runs import pipeline_text, write_files
from benchmarks.spark.standalone import SOURCE, Cluster, processor_times, seconds_between
from skyband.core.errors import InputError

RUNS = (
    (1, 1000, 2_000_000),
    (2, 1000, 2_000_000),
    (4, 1000, 2_000_000),
    (2, 1000, 500_000),
    (2, 10_000, 2_000_000),
)
UNITS = 4
WARM, COUNTED = 5, 5
PATIENCE = 900.0
_MEMORY = 'executor.memory = "1g"\nexecutor.extraJavaOptions = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"\n'


@dataclass(frozen=True)
class Cost:
    """What one micro-batch costs."""

    workers: int
    queries: int
    rows: int
    executors: float  # seconds of processor time
    driver: float
    shuffled: float  # bytes
    sent: float  # bytes that tasks send to the driver
    tasks: float


def cost_of(home: Path, workers: int, queries: int, rows: int) -> Cost:
    """Run a pipeline on a cluster; return the mean cost of a micro-batch after the first ones."""
    folder, events = home / "run", home / "events"
    folder.mkdir(parents=True)
    events.mkdir()
    write_files(home / "data", WARM + COUNTED + 1, rows)
    with Cluster(home / "cluster", workers) as cluster:
        text = pipeline_text(home / "data", "executors", queries, cluster.url)
        text += f"shards = {UNITS}\n{_MEMORY}eventLog.enabled = true\neventLog.compress = false\n"
        text += f'eventLog.dir = "file:{events}"\n'
        (folder / "pipeline.toml").write_text(text)
        with open(folder / "said", "wb") as said:
            driver = subprocess.Popen(
                [sys.executable, "-m", "skyband", "run", "pipeline.toml", "--available-now"],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE), *sys.path[1:]])},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        try:
            used = []
            for batch in (WARM - 1, WARM + COUNTED - 1):
                _await(folder, driver, batch)
                executors = {p: u for one in cluster.executors() for p, u in processor_times(one).items()}
                used.append((executors, processor_times(driver.pid)))
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
    worked, planned = (seconds_between(before, after) / COUNTED for before, after in zip(*used, strict=True))
    shuffled, sent, tasks = _moved(events)
    return Cost(workers, queries, rows, worked, planned, shuffled, sent, tasks)


def _await(folder: Path, driver: subprocess.Popen[bytes], batch: int) -> None:
    output, until = folder / "out" / "changes" / f"batch-{batch}.parquet", time.monotonic() + PATIENCE
    while not output.exists():
        if driver.poll() is not None or time.monotonic() > until:
            said = (folder / "said").read_text()[-1000:]
            raise InputError(f"The pipeline on the cluster did not reach batch {batch}: {said}")
        time.sleep(0.005)


def _moved(events: Path) -> tuple[float, float, float]:
    """Return the bytes of a batch's shuffle, the bytes sent to the driver, and the tasks, by Spark's event log."""
    batches: dict[int, int] = {}  # by stage
    moved: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for file in sorted(path for path in events.rglob("*") if path.is_file()):
        for line in file.read_text().splitlines():
            try:
                event: dict[str, Any] = json.loads(line)
            except ValueError:  # the last line of a log whose driver was killed
                continue
            kind = event["Event"]
            if kind == "SparkListenerJobStart":
                batch = event["Properties"].get("streaming.sql.batchId")
                batches |= {stage: int(batch) for stage in event["Stage IDs"]} if batch is not None else {}
            elif kind == "SparkListenerTaskEnd" and event["Stage ID"] in batches:
                found = moved[batches[event["Stage ID"]]]
                metrics = event["Task Metrics"]
                found[0] += metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"]
                found[1] += metrics["Result Size"]
                found[2] += 1
    counted = [found for batch, found in moved.items() if WARM <= batch < WARM + COUNTED]
    if not counted:
        raise InputError(f"Spark's event log in {events} has no tasks of a micro-batch.")
    shuffled, sent, tasks = (statistics.median(column) for column in zip(*counted, strict=True))
    return shuffled, sent, tasks


def table(costs: list[Cost]) -> list[str]:
    """Return the measured costs as lines of a table."""
    lines = [
        "| workers | queries | rows a batch | executors, ns a row | driver, ms a batch | shuffle, kB a batch | "
        "to the driver, kB a batch | tasks |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for cost in costs:
        cells = [
            f"{cost.workers}",
            f"{cost.queries:,}",
            f"{cost.rows:,}",
            f"{1e9 * cost.executors / cost.rows:.0f}",
            f"{1e3 * cost.driver:.0f}",
            f"{cost.shuffled / 1e3:,.0f}",
            f"{cost.sent / 1e3:,.0f}",
            f"{cost.tasks:.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def model(costs: list[Cost], executors: int = 100, queries: int = 10_000, rate: float = 10e6) -> list[str]:
    """Return the load of each part of a large cluster, for a micro-batch each second and each ten seconds.

    Reading and pruning cost a row what the slope between the two sizes of batches says. What a batch costs an executor
    besides is what each further worker adds. Both grow with the queries as the run with the most of them has it. A task
    sends what one of that run's tasks sends, whatever the number of tasks: its own best rows for every query. The
    driver's work grows with the queries (changes) and with the tasks that it starts.
    """
    one, two, four, small, many = costs
    row = max(0.0, (two.executors - small.executors) / (two.rows - small.rows))
    batch = max(0.0, (four.executors - one.executors) / (four.workers - one.workers))
    wider = many.executors / two.executors * queries / many.queries
    sent = 2 * many.shuffled / many.tasks * queries / many.queries  # half of the tasks read
    start = max(0.0, (four.driver - one.driver) / (four.tasks - one.tasks))
    loads: dict[str, list[float]] = {}
    for seconds in (1.0, 10.0):
        parts = {
            "executors: reading and pruning rows": row * wider * rate / executors,
            "executors: the rest of a batch": batch * wider / seconds,
            "driver: changes of all queries": many.driver * queries / many.queries / seconds,
            "driver: starting 200 tasks": start * 2 * executors / seconds,
            "network: the shuffle, 10 Gbit/s an executor": sent / seconds / 1.25e9,
        }
        for name, load in parts.items():
            loads.setdefault(name, []).append(load)
    lines = ["| part | a batch each second | each ten seconds |", "|---|---|---|"]
    lines += [f"| {name} | {each:.1%} | {ten:.1%} |" for name, (each, ten) in loads.items()]
    first = [max(loads, key=lambda name: loads[name][place]) for place in (0, 1)]
    words = f"First bottleneck: {first[0]}, with a batch each second; {first[1]}, with one each ten."
    return [*lines, "", words]


def main(arguments: list[str]) -> None:
    runs = [tuple(map(int, arguments[1:4]))] if arguments[:1] == ["--run"] else list(RUNS)
    costs = []
    for workers, queries, rows in runs:
        with tempfile.TemporaryDirectory(prefix="skyband-reach-") as home:
            costs.append(cost_of(Path(home), workers, queries, rows))
        print(json.dumps(asdict(costs[-1])), file=sys.stderr, flush=True)
    print("\n".join(table(costs)))
    if len(costs) == len(RUNS):
        print("\n".join(["", *model(costs)]))


if __name__ == "__main__":
    main(sys.argv[1:])
