"""The experiments of `make bench` that take no scale, made small. Nothing is timed here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from benchmarks import run
from benchmarks.papers.pripuzic import size_law as sizes
from benchmarks.peers import engine
from benchmarks.peers import streams as matrix
from benchmarks.serve import startup
from benchmarks.spark.experiment import BOOK, figures
from benchmarks.spark.measure import Figures
from benchmarks.spark.runs import FULL, QUICK
from benchmarks.spark.state import operators
from benchmarks.streams.generators import independent, tables
from skyband.core.errors import InputError
from skyband.spark.session.java import find_java

ROOT = Path(__file__).resolve().parents[2]
SRC = str(ROOT / "src")


def test_engine(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(engine, "N", 400)
    monkeypatch.setattr(engine, "BATCH", 100)
    whole = engine.monitor
    monkeypatch.setattr(
        engine, "monitor", lambda algorithm, queries, n: whole(algorithm, min(queries, 20), n)
    )
    engine.main()
    said = capsys.readouterr().out
    for name in (
        "ra",
        "sa",
        "brute force",
        "copy the batch",
        "score the batch",
        "DuckDB asked again",
        "ra, alone",
    ):
        assert re.search(rf"^  {name} +[\d.]+ M rows/s", said, re.MULTILINE)


def test_competitors_answer_the_same_question() -> None:
    ours, brute, duck = engine.monitor("ra", 1, 400), engine.brute_force(400), engine.duckdb_again(400)
    assert duck is not None
    answer: dict[int, float] = {}
    for batch in tables(independent(1000, engine.COLUMNS, 3), 100):
        for change in ours(batch).to_pylist():
            if change["change"] == "leave":
                del answer[change["seq"]]
            else:
                answer[change["seq"]] = change["score"]
        best, asked = brute(batch), duck(batch)
    assert sorted(answer.values(), reverse=True) == pytest.approx(best.tolist())
    assert set(answer) == {seq for (seq,) in asked}


@pytest.mark.parametrize("stream", matrix.STREAMS, ids=lambda stream: stream.name)
def test_streams_are_asked_the_same_question(stream: matrix.Stream) -> None:
    size = matrix.Size(3, 900, 100, 0, 0, 1, 0)
    watched = matrix.monitor(stream, size)
    brute, duck = matrix.brute_force(stream, size), matrix.duckdb_again(stream, size)
    assert duck is not None
    for step in range(12):
        batch = stream.table(step, size, 5)
        watched.push(batch)
        found, asked = brute(batch), duck(batch)
    for number, watch in enumerate(watched.watches.values()):
        assert watch.top()["seq"].to_pylist() == [seq - 1 for (seq,) in asked[number]]
        assert len(found[number]) == len(asked[number])


def test_sizes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sizes, "SETTINGS", ((60, 3),))
    monkeypatch.setattr(sizes, "GAMMAS", (0.5,))
    run("sizes")
    said = capsys.readouterr().out
    found = re.search(r"^ +60 +3 +([\d.]+) +([\d.]+)", said, re.MULTILINE)
    assert found is not None
    assert np.isclose(float(found[1]), float(found[2]), rtol=0.4)  # a small sample of a mean


def test_startup(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PYTHONPATH", SRC)
    monkeypatch.setattr(startup, "best", partial(startup.best, times=1))
    startup.main()
    assert re.search(r"skyband --help +[\d.]+ s", capsys.readouterr().out)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.soak
def test_on_spark(tmp_path: Path) -> None:
    try:
        find_java()
    except InputError as problem:
        pytest.skip(str(problem))
    small = "r.QUICK = r.Plan(3, 1000, 1, 5, master='local[1]'); m._RUNS['throughput'] = 'driver 40', 'executors 40'"
    code = (
        f"from benchmarks.spark import measure as m, runs as r; {small}; from benchmarks import Settings, run"
    )
    code += "; run('spark', Settings(only=('throughput',)))"
    paths = os.pathsep.join([SRC, str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout
    assert "quick: 1,000 rows a batch, local[1]" in printed
    assert re.search(r"^ +40 +[\d.]+ +[\d.]+$", printed, re.MULTILINE), printed
    assert "## Large batches" in (tmp_path / "skyband-bench" / "spark.md").read_text()


def judged(found: Figures) -> dict[str, list[list[str]]]:
    """The goals of a run's figures: what is wanted, whether it is met, by which value."""
    return {figure.name: BOOK.judged(figure) for figure in figures(found, "full")}


def test_figures_are_judged_by_their_goals() -> None:
    seen = judged(
        Figures(
            QUICK,
            {"nothing": 4e6, "driver 1000": 3e6, "driver 10000": 1e6, "executors 1000": 1e6},
            {"nothing": 0.2, "driver": 0.3, "executors": 0.6},
            {"nothing": 1.0, "driver": 2.5, "executors": 4.0},
        )
    )
    assert [row[1:] for row in seen["throughput"]] == [["yes", "0.75"], ["**no**", "0.25"]]
    assert seen["small"][0][1:] == ["**no**", "1.50 times"] and seen["restart"][0][1:] == [
        "yes",
        "1.5 s later",
    ]


def test_the_drivers_share_is_shown_for_two_sizes_of_batches() -> None:
    found = Figures(FULL, cluster={1: (6.0, 1.0), 2: (6.0, 1.5)}, share=(11.4, 0.6))
    seen = judged(found)
    assert [row[1:] for row in seen["share"]] == [["yes", "5.0 %"]]
    assert seen["cluster"][1][1:] == ["**no**", "20.0 %"]
    share = next(each for each in figures(found, "full") if each.name == "share")
    shares = [round(share.value("", "driver", rows) or 0) for rows in (16_000_000, 32_000_000)]
    assert shares == [20, 5] and judged(replace(found, share=None))["share"] == []


def test_placements_are_judged_in_the_larger_batches() -> None:
    rates = {
        FULL.batch_rows: {"driver 1000": 8e6, "executors 1000": 2e6},
        FULL.cluster_rows: {"driver 1000": 9e6, "executors 1000": 6e6},
    }
    seen = judged(Figures(FULL, placements=rates))["placements"]
    assert [row[1:] for row in seen] == [["yes", "0.67"], ["**no**", "0.25"]]
    assert judged(Figures(FULL))["placements"] == []


def test_an_operator_that_needs_a_missing_package_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google", None)  # not even the package that protobuf would be in
    monkeypatch.delitem(sys.modules, "google.protobuf", raising=False)
    assert operators() == ("applyInPandasWithState",)
