"""Processor time on a standalone cluster: what executors use for a row, and what the driver uses beside them.

On a machine of two cores wall-clock time doesn't show how a pipeline scales: two workers share the cores that one had.
Processor time does: if a row costs the executors the same with one worker and with two, then more workers do more work.
The pipeline runs as a process of its own, and the system reports what it and the executors have used between the end of
the warm-up and the end of the last batch that counts. The warm-up is long, because a long-running pipeline is measured:
the JVMs of executors and driver compile their code during the first dozens of batches, each for itself.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.spark.runs import Plan, pipeline_text, write_files
from benchmarks.spark.standalone import SOURCE, Cluster, Used, processor_times, seconds_between
from skyband.core.errors import InputError

_QUERIES = 1000
_PATIENCE = 600.0  # seconds for a run
_MEMORY = 'executor.memory = "1g"\nexecutor.extraJavaOptions = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"\n'


def cluster_seconds(home: Path, plan: Plan, workers: int) -> tuple[float, float]:
    """The executors' and the driver's seconds of processor time for the batches after the warm-up."""
    folder = home / "run"
    folder.mkdir(parents=True)
    # One batch more than count: when the last one is done, processes end, and what they have used is known no more.
    write_files(home / "data", plan.cluster_batches + 1, plan.cluster_rows)
    with Cluster(home / "cluster", workers) as cluster:
        text = pipeline_text(home / "data", "executors", _QUERIES, cluster.url)
        (folder / "pipeline.toml").write_text(text + "shards = 2\n" + _MEMORY)
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
            before = _used_after(folder, driver, cluster, plan.cluster_warm - 1)
            after = _used_after(folder, driver, cluster, plan.cluster_batches - 1)
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
    executors, own = (seconds_between(old, new) for old, new in zip(before, after, strict=True))
    return executors, own


def _used_after(
    folder: Path, driver: subprocess.Popen[bytes], cluster: Cluster, batch: int
) -> tuple[dict[int, Used], dict[int, Used]]:
    """What executors and driver have used when a batch is put out."""
    output, until = folder / "out" / "changes" / f"batch-{batch}.parquet", time.monotonic() + _PATIENCE
    while not output.exists():
        if driver.poll() is not None or time.monotonic() > until:
            raise InputError(
                f"The pipeline on the cluster did not come to batch {batch}: {(folder / 'said').read_text()[-1000:]}"
            )
        time.sleep(0.005)
    executors = {pid: used for one in cluster.executors() for pid, used in processor_times(one).items()}
    return executors, processor_times(driver.pid)
