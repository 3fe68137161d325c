"""PySpark 4.0 to 4.3, each in an environment of its own, and Spark Connect: `make soak`."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from tests.spark import upserts
from tests.spark.broker import Coordinates, fetch, free_port
from tests.spark.environments import CONNECT, environment, packed, run, surroundings
from tests.spark.streams import QUERIES, make_files, pipeline_text, write_file

import skyband as sb

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(1800)]
SCRIPT = Path(__file__).parents[1] / "anywhere.py"
VERSIONS = ("4.0.5", "4.1.4", "4.2.1", "4.3.0")
CLUSTER = "org.apache.spark.sql.connect.service.SparkConnectServer"


def check(done: subprocess.CompletedProcess[str], version: str, classic: bool = True) -> None:
    """What a process said of `watch` equals what a monitor says."""
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    truth = found["truth"]
    assert found["pyspark"] == version
    batch, last = found["batch"], truth["after"][-1]
    assert batch["tops"] == last
    assert batch["transform"] == batch["columns"] == last["best"]
    assert batch["joined"] == truth["joined"]
    assert batch["steps"] > 10
    streaming = found.get("streaming")
    if streaming is None:
        return
    assert streaming["folded"] == {name: sorted(scores) for name, scores in last.items()}
    assert streaming["grew"]
    assert streaming["answers"] == (truth["after"] if classic else [])


@pytest.mark.parametrize("version", VERSIONS)
def test_watch(tmp_path: Path, version: str) -> None:
    check(run(environment(f"pyspark=={version}"), str(SCRIPT), "classic", folder=tmp_path), version)


@pytest.mark.parametrize("placement", ["driver", "executors"])
@pytest.mark.parametrize("version", VERSIONS[2:])
def test_pipelines(tmp_path: Path, version: str, placement: str) -> None:
    python = environment(f"pyspark=={version}")
    for number, rows in enumerate(make_files(3, seed=91)):
        write_file(tmp_path / "data" / f"{number}.parquet", rows)
    (tmp_path / "pipeline.toml").write_text(pipeline_text(QUERIES, spark=f'placement = "{placement}"\n'))
    done = run(python, "-m", "skyband", "run", "pipeline.toml", "--available-now", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    done = run(python, "-m", "skyband", "verify", "pipeline.toml", folder=tmp_path)
    assert done.returncode == 0 and "all equal" in done.stdout, done.stderr


@pytest.mark.parametrize("version", VERSIONS[:2])
def test_a_version_without_pipelines_is_a_sentence(tmp_path: Path, version: str) -> None:
    (tmp_path / "pipeline.toml").write_text(pipeline_text(QUERIES))
    done = run(environment(f"pyspark=={version}"), "-m", "skyband", "run", "pipeline.toml", folder=tmp_path)
    assert done.returncode == 1
    assert f"Pipelines need PySpark 4.2 or newer, and here is {version}: pip install" in done.stderr
    assert "Traceback" not in done.stderr


DELTA = [("io.delta", "delta-spark_4.2_2.13", "4.4.0"), ("io.delta", "delta-storage", "4.4.0")]
ICEBERG = [("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.12.0")]


@pytest.mark.parametrize(
    ("kind", "version", "jars"), [("delta", "4.2.1", DELTA), ("iceberg", "4.1.4", ICEBERG)]
)
def test_upserts_by_merge(tmp_path: Path, kind: str, version: str, jars: list[Coordinates]) -> None:
    """A table in Delta or Iceberg has the current answers after each micro-batch."""
    m = sb.Monitor(time="ts")
    watches = {name: m.watch(sql, name=name) for name, sql in upserts.QUERIES.items()}
    expected = []
    (tmp_path / "data").mkdir()
    for number in range(3):
        rows = [
            {"ts": float(n), "x": n * 37 % 101 + n / 1000, "g": f"g{n % 5}"}
            for n in range(30 * number, 30 * number + 30)
        ]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "data" / f"{number}.parquet")
        os.utime(tmp_path / "data" / f"{number}.parquet", (1_700_000_000 + number,) * 2)
        m.push(rows)
        tops = [(name, row) for name, w in watches.items() for row in w.top().to_pylist()]
        expected.append([[name, row["rank"], row["score"]] for name, row in tops])
    files = [str(jar) for jar in fetch(kind, jars, alone=True)]
    script = str(SCRIPT.with_name("upserts.py"))
    done = run(environment(f"pyspark=={version}"), script, kind, str(tmp_path), *files, folder=tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert [[[query, rank, score] for query, _, rank, score in rows] for rows in found] == expected
    assert all(id_ for rows in found for _, id_, _, _ in rows)


@contextmanager
def connect_server(python: Path, folder: Path) -> Iterator[str]:
    """A Connect server whose workers have no skyband; its address."""
    port = free_port()
    home = Path(pyspark.__file__).parent
    options = ["--conf", f"spark.connect.grpc.binding.port={port}", "--conf", "spark.ui.enabled=false"]
    options += ["--conf", f"spark.sql.warehouse.dir={folder / 'warehouse'}"]
    with open(folder / "server.log", "wb") as log:
        server = subprocess.Popen(
            [str(home / "bin" / "spark-submit"), "--master", "local[2]", *options, "--class", CLUSTER],
            cwd=folder,
            env={**surroundings(python, own=False), "SPARK_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    print(f"Connect server: process {server.pid}, port {port}")
    try:
        end = time.monotonic() + 240
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < end, (folder / "server.log").read_text()
                time.sleep(0.3)
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def test_connect_with_workers_that_have_no_skyband(tmp_path: Path) -> None:
    """Over batch DataFrames: micro-batches run in a copy of the session, which has no archives (4.3.0)."""
    python = environment(*CONNECT)
    with connect_server(python, tmp_path) as server:
        failed = run(python, str(SCRIPT), "connect", server, folder=tmp_path)
        assert failed.returncode and "No module named 'skyband'" in failed.stderr, failed.stderr[-2000:]
        archive = packed(python, tmp_path)
        done = run(python, str(SCRIPT), "connect", server, str(archive), folder=tmp_path)
        check(done, pyspark.__version__)


def test_a_local_connect_session(tmp_path: Path) -> None:
    python = environment(*CONNECT)
    done = run(python, str(SCRIPT), "connect", "local[2]", folder=tmp_path)
    check(done, pyspark.__version__, classic=False)
