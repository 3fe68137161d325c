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
from benchmarks.serve import startup
from benchmarks.streams.generators import independent, tables
from skyband.core.errors import InputError
from skyband.spark.java import find_java

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
    small = "m.QUICK = m.Plan(3, 1000, 1, 5, master='local[1]'); m._RUNS['throughput'] = 'driver 40', 'executors 40'"
    code = f"import benchmarks.spark.measure as m; {small}; from benchmarks import Settings, run"
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
    told = done.stdout
    assert "1,000 rows a batch, 1 batches, 1 rounds" in told
    assert re.search(r"^  executors 40 queries +[\d.]+ M rows/s, [\d.]+ of it$", told, re.MULTILINE)
    assert re.search(r"^  executors/driver 40 queries +[\d.]+$", told, re.MULTILINE)
    assert "## Large batches" in (tmp_path / "skyband-bench" / "spark.md").read_text()


def test_figures_are_judged_by_their_goals() -> None:
    from benchmarks.spark.measure import QUICK, Figures

    figures = Figures(
        QUICK,
        {"nothing": 4e6, "driver 1000": 3e6, "executors 1000": 1e6},
        {"nothing": 0.2, "driver": 0.3, "executors": 0.6},
        {"nothing": 1.0, "driver": 2.5, "executors": 4.0},
    )
    assert [line.strip() for line in str(figures).splitlines()][1:] == [
        "Spark alone, into nothing      4.00 M rows/s",
        "driver 1000 queries            3.00 M rows/s, 0.75 of it (goal: at least 0.6; met)",
        "executors 1000 queries         1.00 M rows/s, 0.25 of it",
        "executors/driver 1000 queries 0.33 (goal: at least 0.5; missed)",
        "small: 200 rows a batch: nothing 200 ms, driver 300 ms, executors 600 ms",
        "driver/nothing 1.50 (goal: at most 1.3; missed)",
        "restart: 200 queries, from the start to the first answer: nothing 1.0 s, driver 2.5 s, executors 4.0 s",
        "driver later by 1.5 s (goal: at most 2; met)",
    ]


def test_the_drivers_share_is_shown_for_two_sizes_of_batches() -> None:
    from benchmarks.spark.experiment import BOOK
    from benchmarks.spark.experiment import figures as pictures
    from benchmarks.spark.measure import FULL, Figures

    found = Figures(FULL, cluster={1: (6.0, 1.0), 2: (6.0, 1.5)}, share=(11.4, 0.6))
    assert str(found).splitlines()[1:] == [
        "cluster, 2 workers: executors 62 ns of processor time a row, driver 20 % of all",
        "cluster, 2 workers, 32,000,000 rows a batch: executors 59 ns of processor time a row, driver 5 % of all",
    ]
    shown = {figure.name: figure for figure in pictures(found, "full")}
    (judged,) = (claim.judge(shown["share"]) for claim in BOOK.claims["share"])
    assert judged == (True, "5.0 %") and BOOK.claims["cluster"][1].judge(shown["cluster"]) == (
        False,
        "20.0 %",
    )
    assert [round(shown["share"].value("", "driver", rows) or 0) for rows in (16_000_000, 32_000_000)] == [
        20,
        5,
    ]
    (only,) = (each for each in pictures(replace(found, share=None), "full") if each.name == "share")
    assert [claim.judge(only) for claim in BOOK.claims["share"]] == [None]


def test_placements_are_judged_in_the_larger_batches() -> None:
    from benchmarks.spark.experiment import BOOK
    from benchmarks.spark.experiment import figures as pictures
    from benchmarks.spark.measure import FULL, Figures

    small, large = FULL.batch_rows, FULL.cluster_rows
    rates = {
        small: {"driver 1000": 8e6, "executors 1000": 2e6},
        large: {"driver 1000": 9e6, "executors 1000": 6e6},
    }
    found = Figures(FULL, placements=rates)
    assert str(found).splitlines() == [
        "placements, 4,000,000 rows a batch: executors/driver 1000 queries 0.25",
        "placements, 16,000,000 rows a batch: executors/driver 1000 queries 0.67 (goal: at least 0.5; met)",
    ]
    (figure,) = (each for each in pictures(found, "full") if each.name == "placements")
    judged = [claim.judge(figure) for claim in BOOK.claims["placements"]]
    assert judged == [(True, "0.67"), (False, "0.25")]
    (empty,) = (each for each in pictures(Figures(FULL), "full") if each.name == "placements")
    assert [claim.judge(empty) for claim in BOOK.claims["placements"]] == [None, None]


def test_an_operator_that_needs_a_missing_package_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.spark.state import operators

    monkeypatch.setitem(sys.modules, "google", None)  # not even the package that protobuf would be in
    monkeypatch.delitem(sys.modules, "google.protobuf", raising=False)
    assert operators() == ("applyInPandasWithState",)
