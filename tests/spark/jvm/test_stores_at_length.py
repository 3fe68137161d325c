"""A pipeline over HDFS and over an S3 store, both real: killed, stopped for a while, on a cluster."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import ledger
from tests.spark.cluster import Cluster
from tests.spark.kills import Pipeline
from tests.spark.stores import Store, store
from tests.spark.streams import (
    QUERIES,
    Row,
    Truth,
    as_answers,
    folded,
    make_files,
    pipeline_text,
    rejected,
    write_file,
)
from tests.spark.test_kills import KILLS, SEED, kill_often

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(7200)]
Capture = pytest.CaptureFixture[str]
KINDS = ["hdfs", "s3"]


class StorePipeline(Pipeline):
    """A pipeline whose streams, output and checkpoint are in a store."""

    def __init__(self, folder: Path, there: Store, home: str) -> None:
        super().__init__(folder)
        self.there, self.home = there, home
        self._put_out = 0  # so many batches, at least

    def has_output(self, batch: int) -> bool:
        return self.there.exists(f"{self.home}/out/changes/batch-{batch}.parquet")

    def has_plan(self, batch: int) -> bool:
        return self.there.exists(f"{self.home}/checkpoint/offsets/{batch}")

    def has_step(self, batch: int) -> bool:
        return self.there.exists(f"{self.home}/checkpoint/skyband/steps/{batch}.step")

    def has_commit(self, batch: int) -> bool:
        return self.there.exists(f"{self.home}/checkpoint/commits/{batch}")

    def next_batch(self) -> int:
        while self.has_output(self._put_out):
            self._put_out += 1
        return self._put_out

    def wait(self, ready: Callable[[], bool], pause: float = 0.01) -> bool:
        return super().wait(ready, pause)


def prepare(folder: Path, there: Store, home: str, count: int, **spark: str) -> list[list[Row]]:
    files = make_files(count, SEED, (20, 60))
    for number, rows in enumerate(files):
        write_file(folder / "made" / f"{number:03}.parquet", rows)
        there.put(f"{home}/data/{number:03}.parquet", (folder / "made" / f"{number:03}.parquet").read_bytes())
    master = spark.pop("master", "local[2]")
    lines = "".join(f'{key} = "{value}"\n' for key, value in spark.items())
    text = pipeline_text(QUERIES, spark=f"{lines}prune_rows = 60\n{there.settings}")
    for name in ("data", "out", "checkpoint"):
        text = text.replace(f'"{name}"', f'"{there.uri}{home}/{name}"')
    (folder / "pipeline.toml").write_text(text.replace("local[2]", master))
    return files


def check(folder: Path, there: Store, home: str, files: list[list[Row]]) -> None:
    """Every batch of the output equals the oracle, there is nothing else, and the brute force finds no difference."""
    found = there.files(f"{home}/out")
    for path in found:
        copy = folder / "copy" / path.removeprefix(f"{home}/out/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(there.get(path))
    history, truth = folded(folder / "copy", len(files)), Truth(QUERIES)
    expected = {"top/top.parquet"}
    for batch, rows in enumerate(files):
        truth.push(list(rows))
        assert history[batch] == as_answers(truth.tops()), f"batch {batch}"
        rejects = truth.take_rejects()
        assert rejected(folder / "copy", batch) == rejects
        expected |= {f"changes/batch-{batch}.parquet"}
        expected |= {f"rejects/batch-{batch}.parquet"} if rejects else set()
    assert {path.removeprefix(f"{home}/out/") for path in found} == expected
    command = [sys.executable, "-m", "skyband", "verify", "pipeline.toml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and "all equal" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("placement", ["driver", "executors"])
@pytest.mark.parametrize("kind", KINDS)
def test_kills(tmp_path: Path, capsys: Capture, kind: str, placement: str) -> None:
    kills = max(2, KILLS // 10)
    with store(kind, tmp_path / "store") as there:
        files = prepare(tmp_path, there, "/kills", 12 * kills + 5, placement=placement)
        pipeline = StorePipeline(tmp_path, there, "/kills")
        kill_often(pipeline, len(files), kills, f"{kind}, {placement}", capsys, steps=placement == "driver")
        check(tmp_path, there, "/kills", files)


@pytest.mark.parametrize("kind", KINDS)
def test_a_driver_that_was_thought_lost(tmp_path: Path, kind: str) -> None:
    """One is stopped in the middle of a batch, another goes on, the first wakes up."""
    chance = random.Random(SEED)
    with store(kind, tmp_path / "store") as there:
        files = prepare(tmp_path, there, "/lost", 3)

        def more(count: int) -> None:
            for _ in range(count):
                files.append(make_files(40, SEED, (20, 60))[len(files)])
                name = f"{len(files) - 1:03}.parquet"
                write_file(tmp_path / "made" / name, files[-1])
                there.put(f"/lost/data/{name}", (tmp_path / "made" / name).read_bytes())

        for moment in range(2):
            more(3)
            first = StorePipeline(tmp_path, there, "/lost")
            first.start(available_now=False)
            batch = first.next_batch() + chance.randrange(2)
            ready = (first.has_step, first.has_plan)[moment]
            assert first.wait(lambda batch=batch, ready=ready: ready(batch))  # type: ignore[misc]
            assert first.process is not None
            os.killpg(first.process.pid, signal.SIGSTOP)
            more(2)
            try:
                second = StorePipeline(tmp_path, there, "/lost")
                second.start()
                code, said = second.finish()
                assert code == 0, said
                os.killpg(first.process.pid, signal.SIGCONT)
                code, said = first.finish()
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(first.process.pid, signal.SIGKILL)
            assert code == 1 and "Traceback" not in said, said
            assert "so this one stops" in said or "two run a pipeline on one checkpoint" in said, said
        check(tmp_path, there, "/lost", files)


@pytest.mark.parametrize("placement", ["driver", "executors"])
@pytest.mark.parametrize("kind", KINDS)
def test_on_a_cluster(tmp_path: Path, kind: str, placement: str) -> None:
    """Executors' workers start a JVM of their own; one executor is lost on the way."""
    with store(kind, tmp_path / "store") as there, Cluster(tmp_path / "cluster", workers=2) as cluster:
        files = prepare(tmp_path, there, "/cluster", 8, placement=placement, master=cluster.url)
        pipeline = StorePipeline(tmp_path, there, "/cluster")
        pipeline.start()
        assert pipeline.wait(lambda: pipeline.has_output(1))
        cluster.kill_executor()
        ledger.count()
        code, said = pipeline.finish()
        assert code == 0, said
        check(tmp_path, there, "/cluster", files)
