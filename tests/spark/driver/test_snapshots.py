"""Past a snapshot of Spark's state store: it is written, and it alone is what the next start has to begin from.

A commit writes what has changed; once in a while the state store copies the whole of RocksDB beside that, and the logs
before it are needed no more. Few pipelines of tests are long enough for that, so here it happens every two batches. The
logs that it stands for are taken away, so that a start which can't read it has nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from tests.spark import kinds
from tests.spark.kills import Pipeline

from skyband.core.errors import InputError
from skyband.spark import run_pipeline, verify_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ASKED = {name: kinds.QUERIES[name] for name in ("rows", "pairs", "groups")}
LEAST = "spark.sql.streaming.stateStore.minDeltasForSnapshot"


def prepare(folder: Path) -> None:
    asked = "".join(f'[[query]]\nname = "{name}"\nsql = "{sql}"\n' for name, sql in ASKED.items())
    (folder / "pipeline.toml").write_text(
        f'[stream.one]\npath = "one"\ntime = "ts"\nmax_files = 1\n{asked}[sink]\npath = "out"\n'
        '[spark]\nmaster = "local[2]"\nplacement = "executors"\nshards = 2\n'
    )


def write(folder: Path, steps: Sequence[dict[str, list[kinds.Row]]], batches: Sequence[int]) -> None:
    for batch in batches:
        kinds.write_step(folder, batch, {"one": steps[batch]["one"]})


def snapshots(folder: Path) -> dict[str, list[int]]:
    """The snapshots in the checkpoint, by partition of the state."""
    state = folder / "checkpoint" / "state" / "0"
    parts = [part for part in state.iterdir() if part.name.isdigit()] if state.is_dir() else []
    return {part.name: sorted(int(file.stem) for file in part.glob("*.zip")) for part in parts}


def take_logs_away(folder: Path) -> None:
    """All of the state that a snapshot says, too; and all older snapshots."""
    for part, versions in snapshots(folder).items():
        for file in (folder / "checkpoint" / "state" / "0" / part).iterdir():
            number = file.name.strip(".").partition(".")[0]
            if number.isdigit() and int(number) < versions[-1] + (".changelog" in file.name):
                file.unlink()


def check(folder: Path, steps: Sequence[dict[str, list[kinds.Row]]]) -> None:
    """Every batch equals the oracle."""
    truth, answers = kinds.Truth(ASKED), kinds.Folded()
    for batch, step in enumerate(steps):
        truth.push({"one": step["one"]})
        answers.take(pq.read_table(folder / "out" / "changes" / f"batch-{batch}.parquet").to_pylist())
        assert answers.equals(truth.tops()), f"batch {batch}"
    report = verify_pipeline(folder / "pipeline.toml")
    assert report.ok, str(report)


@contextmanager
def stopped_when(ready: Callable[[], bool]) -> Iterator[threading.Event]:
    """An event that stops a pipeline as soon as something holds, and after five minutes in any case."""
    event, end = threading.Event(), time.monotonic() + 300

    def look() -> None:
        while not ready() and time.monotonic() < end and not event.wait(0.05):
            pass
        event.set()

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield event
    finally:
        event.set()
        thread.join()


@pytest.mark.timeout(900)
def test_a_start_after_a_snapshot(tmp_path: Path, spark: SparkSession) -> None:
    steps = kinds.make_steps(8, 31, (10, 60))
    prepare(tmp_path)
    spark.conf.set(LEAST, "2")
    try:
        for batches, least in ((range(5), 4), (range(5, 8), 7)):
            write(tmp_path, steps, batches)

            def taken(last: int = batches[-1], least: int = least) -> bool:
                done = (tmp_path / "checkpoint" / "commits" / str(last)).exists()
                found = snapshots(tmp_path)
                return done and len(found) == 2 and all(v and v[-1] >= least for v in found.values())

            with stopped_when(taken) as event:
                run_pipeline(tmp_path / "pipeline.toml", spark=spark, stopping=event)
            assert taken(), f"snapshots {snapshots(tmp_path)} after batch {batches[-1]}"
            take_logs_away(tmp_path)
    finally:
        spark.conf.unset(LEAST)
    check(tmp_path, steps)

    # Now it can't be read: neither by the units themselves nor by a driver that would deal it out anew.
    for file in (tmp_path / "checkpoint" / "state").rglob("*.zip"):
        file.write_bytes(file.read_bytes()[:40])
    write(tmp_path, [*steps, steps[0]], [8])
    text = (tmp_path / "pipeline.toml").read_text()
    for shards in (2, 3):
        (tmp_path / "pipeline.toml").write_text(text.replace("shards = 2", f"shards = {shards}"))
        with pytest.raises(
            InputError, match=r"^The state in \S+ cannot be read \(.*bring it back from a copy"
        ):
            run_pipeline(tmp_path / "pipeline.toml", available_now=True, spark=spark)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_snapshots_when_they_come_by_themselves(tmp_path: Path) -> None:
    """As users have it: no setting is another, and the process is killed."""
    steps = kinds.make_steps(400, 32, (10, 60))
    prepare(tmp_path)
    pipeline = Pipeline(tmp_path)
    first = written = 0
    for _ in range(2):  # each runs until every partition has one snapshot more
        had = {part: found[-1] for part, found in snapshots(tmp_path).items() if found}
        pipeline.start(available_now=False)
        while not (
            (now := snapshots(tmp_path)) and all(v and v[-1] > had.get(part, 0) for part, v in now.items())
        ):
            assert pipeline.process is not None and pipeline.process.poll() is None
            if written < len(steps) and (written <= first or pipeline.has_output(written - 1)):
                write(tmp_path, steps, [written])
                written += 1
            time.sleep(0.25)
        print(f"killed at batch {written - 1}, snapshots {now}")
        pipeline.kill()
        first = written
        take_logs_away(tmp_path)
    pipeline.start()
    code, said = pipeline.finish()
    assert code == 0, said
    assert pipeline.next_batch() == written
    check(tmp_path, steps[:written])
