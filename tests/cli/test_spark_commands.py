"""`skyband run` and `verify` as processes, in a pipe and on a terminal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skyband.core.errors import InputError
from skyband.spark.demo import QUERIES
from skyband.spark.session.java import find_java

from .conftest import Outcome, environment
from .test_terminal import on_a_terminal

pytestmark = [pytest.mark.spark]

PIPELINE = """
[stream.cars]
path = "cars"
max_files = 1
[[query]]
name = "fastest"
sql = "SELECT id, speed FROM cars ORDER BY speed DESC LIMIT 2 WINDOW 3 ROWS"
[sink]
format = "parquet"
path = "out"
[spark]
master = "local[1]"
checkpoint = "checkpoint"
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    pytest.importorskip("pyspark")
    try:
        find_java()
    except InputError as problem:
        pytest.skip(str(problem))
    (tmp_path / "cars").mkdir()
    for number, speeds in enumerate(([50, 70], [60, None, 40], [65])):
        table = pa.table(
            {"id": [f"{number}{n}" for n in range(len(speeds))], "speed": pa.array(speeds, pa.int64())}
        )
        pq.write_table(table, tmp_path / "cars" / f"{number}.parquet")
    path = tmp_path / "pipeline.toml"
    path.write_text(PIPELINE)
    return path


@pytest.mark.slow
def test_run_and_verify_in_a_pipe(skyband: Callable[..., Outcome], pipeline: Path) -> None:
    done = skyband("run", "pipeline.toml", "--available-now")
    assert (done.code, done.out) == (0, "")
    lines = done.err.splitlines()
    assert lines[0] == "pipeline: starting Spark"
    assert not any(line.startswith("batch") for line in lines)  # progress: nothing in a pipe
    assert lines[-1].startswith("Done: 3 batches, 6 rows, ")
    assert any(line.startswith("skyband: Spark's UI: http://127.0.0.1:") for line in lines)

    checked = skyband("verify", "pipeline.toml")
    assert (checked.code, checked.err) == (0, "") and "all equal" in checked.out

    broken = pipeline.parent / "out" / "changes" / "batch-1.parquet"
    pq.write_table(pq.read_table(broken).slice(1), broken)
    differs = skyband("verify", "pipeline.toml")
    assert differs.code == 1 and "a difference" in differs.out
    assert differs.err.startswith("The output is not what the brute force finds")


@pytest.mark.slow
def test_a_reader_that_has_had_enough_of_the_console(pipeline: Path) -> None:
    """As `top` does it: quietly, and with 0."""
    pipeline.write_text(PIPELINE.replace('format = "parquet"\npath = "out"', 'format = "console"'))
    command = [sys.executable, "-m", "skyband", "run", "pipeline.toml"]  # which would go on for ever
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=pipeline.parent, env=environment()
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        said = process.stderr.read().decode()
        assert process.wait(120) == 0, said
    assert [line for line in said.splitlines() if not line.startswith(("skyband: ", "pipeline: "))] == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_demo_in_a_pipe(skyband: Callable[..., Outcome], pipeline: Path) -> None:
    done = skyband("demo", seconds=400, NUMBA_DISABLE_JIT="0")
    assert done.code == 0 and "Traceback" not in done.err
    assert "batch " not in done.err  # progress: nothing in a pipe
    assert re.search(r"Done: \d\d batches, 336,776 rows, .* 8,255 rejected", done.err)
    for name in QUERIES:
        assert f"{name}\n  rank" in done.out
    # The line on how to look at the output can be typed as it stands.
    found = re.search(r'duckdb -c "([^"]+)"', done.out)
    assert found is not None
    rows = duckdb.sql(found[1].replace("skyband-demo", str(pipeline.parent / "skyband-demo"))).fetchall()
    assert {row[0] for row in rows} == set(QUERIES)
    checked = skyband("verify", "skyband-demo/pipeline.toml", seconds=200)
    assert checked.code == 0 and "all equal" in checked.out


@pytest.mark.slow
def test_run_on_a_terminal_until_ctrl_c(pipeline: Path) -> None:
    screen = on_a_terminal("run", pipeline)
    assert screen.until(lambda text: "batch 2" in text and "fastest" in text, 150)
    assert screen.until(lambda text: "65" in text)
    os.write(screen.terminal, b"\x03")
    assert screen.code() == 0
    assert "last 3 rows" in screen.text and "Stopped: 3 batches, 6 rows" in screen.text
    assert "Traceback" not in screen.text


@pytest.mark.slow
@pytest.mark.soak
def test_the_demo_on_a_terminal(pipeline: Path) -> None:
    """Panels while it runs, and at Ctrl-C the line on how to look at what there is."""
    screen = on_a_terminal("demo", "--output", pipeline.parent / "demo", size=(50, 120))
    assert screen.until(lambda text: "batch 0" in text, 150)
    os.write(screen.terminal, b"\x03")
    assert screen.code() == 0
    assert "a year of flights from New York" in screen.text and "Stopped: " in screen.text
    assert "duckdb -c" in screen.text and "Traceback" not in screen.text


@pytest.mark.slow
def test_a_spark_that_does_not_start_has_a_sentence(skyband: Callable[..., Outcome], pipeline: Path) -> None:
    pipeline.write_text(PIPELINE + '"spark.driver.memory" = "much"\n')
    done = skyband("run", "pipeline.toml", "--available-now")
    assert done.code == 1 and "Traceback" not in done.err
    assert re.search(r"Spark did not start \(its log is .*spark\.log\): ", done.err)
