"""`python -m benchmarks` as a user runs it, at the smallest scale: tables, charts and pages appear. Without timing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from skyband.algorithms import REGISTRY

ROOT = Path(__file__).resolve().parents[2]


def bench(folder: Path, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        capture_output=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "NUMBA_DISABLE_JIT": "1"},
        timeout=280,
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def charts(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.svg")}


def test_mouratidis(tmp_path: Path) -> None:
    code, out, err = bench(tmp_path, "mouratidis", "--scale", "tiny")
    assert (code, err) == (0, "")
    folder = tmp_path / "skyband-bench" / "mouratidis"
    names = {
        "time-d",
        "time-n",
        "time-r",
        "time-q",
        "time-k",
        "space-k",
        "sizes-k",
        "time-product",
        "time-squares",
    }
    if "tsl" in REGISTRY:
        names |= {"sizes-k"}
    if "tma" in REGISTRY:
        names |= {"time-grid", "space-grid"}
    assert charts(folder) == names
    assert {path.stem for path in folder.glob("*.csv")} == names
    assert out.count("tiny: ") == len(names)  # every table says its scale
    page = (tmp_path / "skyband-bench" / "mouratidis.md").read_text(encoding="utf-8")
    for name in names:
        assert f"](mouratidis/{name}.svg)" in page
    assert "Measured on" in page
    figure = json.loads((folder / "time-d.json").read_text(encoding="utf-8"))
    series = {point["series"] for point in figure["points"]}
    assert {name.split(",")[0] for name in series} == {"tsl", "tma", "sma", "heightmap", "ra"} & set(REGISTRY)
    for point in figure["points"]:
        assert point["values"]["cycles"] >= 3 and point["values"]["mean"] >= 0


def test_one_part_again_keeps_the_others(tmp_path: Path) -> None:
    for part in ("k", "r"):
        code, out, _ = bench(
            tmp_path, "mouratidis", "--scale", "tiny", "--only", part, "--output", "o", "--no-charts"
        )
        assert code == 0 and "time-" not in out
    assert charts(tmp_path / "o" / "mouratidis") == set()
    page = (tmp_path / "o" / "mouratidis.md").read_text(encoding="utf-8")
    assert "## Figure 17" in page and "## Figure 19" in page and "## Figure 15" not in page


def test_heightmap(tmp_path: Path) -> None:
    code, out, err = bench(tmp_path, "heightmap", "--scale", "tiny")
    if "heightmap" not in REGISTRY:
        assert (code, err) == (1, "This version has no algorithm heightmap: there is nothing to measure.\n")
        return
    assert (code, err) == (0, "")
    folder = tmp_path / "skyband-bench" / "heightmap"
    assert charts(folder) == {"copy", "sma", "drift", "drift-p99", "queries", "bytes", "boxes"}
    assert "target" in out and "kernels, in copies of the rows" in out
    page = (tmp_path / "skyband-bench" / "heightmap.md").read_text(encoding="utf-8")
    assert "| Monitor.push, in copies of the rows | ≤ 10 |" in page
    before = json.loads((folder / "copy.json").read_text(encoding="utf-8"))
    options = ("--scale", "tiny", "--only", "copy-IND-21", "--no-charts")
    assert bench(tmp_path, "heightmap", *options)[0] == 0
    after = json.loads((folder / "copy.json").read_text(encoding="utf-8"))
    # one seed of one distribution is measured again, all others are kept
    assert before["scale"] == after["scale"] and len(before["points"]) == len(after["points"])
    assert [p for p in before["points"] if p["panel"] == "ANT"] == [
        p for p in after["points"] if p["panel"] == "ANT"
    ]


def test_planner(tmp_path: Path) -> None:
    code, out, err = bench(tmp_path, "planner", "--scale", "tiny")
    assert (code, err) == (0, "")
    assert "regret" in out and "The pick is within 5 %" in out
    folder = tmp_path / "skyband-bench" / "planner"
    assert charts(folder) == {"regret"}
    costs = json.loads((folder / "costs.json").read_text(encoding="utf-8"))
    assert {"sa", "ra"} <= {point["series"] for point in costs["points"]}
    assert (tmp_path / "skyband-bench" / "planner.md").exists()


def test_streams(tmp_path: Path) -> None:
    code, out, err = bench(tmp_path, "streams", "--scale", "tiny")
    assert (code, err) == (0, "")
    assert charts(tmp_path / "skyband-bench" / "streams") == {"matrix", "single", "answers", "kinds"}
    assert "of plain, wall" in out and "SortedList and deque" in out and "DuckDB asked again" in out
    matrix = json.loads((tmp_path / "skyband-bench" / "streams" / "matrix.json").read_text(encoding="utf-8"))
    names = ("mean", "median", "p99", "longest", "cpu", "bytes")
    assert all(set(names) <= set(p["values"]) for p in matrix["points"] if p["series"] == "skyband")


def test_without_a_name_it_lists_them(tmp_path: Path) -> None:
    code, out, err = bench(tmp_path)
    assert (code, err) == (0, "") and "\nmouratidis  " in out and "\nspark  " in out


def test_several_one_after_the_other(tmp_path: Path) -> None:
    code, out, err = bench(
        tmp_path, "mouratidis", "mouratidis", "--scale", "tiny", "--only", "k", "--no-charts"
    )
    assert (code, err) == (0, "") and out.count("== mouratidis: tsl, tma and sma") == 2


def test_wrong_calls_get_a_sentence(tmp_path: Path) -> None:
    assert bench(tmp_path, "mouratidis", "nothing")[1:] == (
        "",
        "Invalid value: there is no experiment 'nothing'; there are engine, sizes, mouratidis, pripuzic, shen, "
        "haghani, heightmap, planner, streams, serve, journal, startup, spark and all: see python -m benchmarks "
        "--help.\n",
    )
    assert bench(tmp_path, "mouratidis", "--only", "colour") == (
        1,
        "",
        'There is no part "colour" in this experiment; there are grid, d, n, r, q, k, sizes, functions.\n',
    )
    code, _, err = bench(tmp_path, "sizes", "--full")
    assert code == 1 and err == (
        "The experiment sizes takes no options; scale, parts and output are for mouratidis, pripuzic, shen, haghani, "
        "heightmap, planner, streams, serve, spark.\n"
    )
    code, _, err = bench(tmp_path, "mouratidis", "--scale", "huge")
    assert code == 2 and "huge" in err


@pytest.mark.soak
def test_pripuzic(tmp_path: Path) -> None:
    (tmp_path / "readings.csv").write_text(
        "a,b,name\n" + "".join(f"{i % 7},{i % 11},x\n" for i in range(300))
    )
    code, out, err = bench(
        tmp_path,
        "pripuzic",
        "--scale",
        "tiny",
        "--only",
        "held",
        "--only",
        "errors",
        "--only",
        "admissions",
        "--data",
        "readings.csv",
    )
    assert (code, err) == (0, "")
    names = {"errors-file", "held-objects", "held-references", "admissions", "filtered"}
    assert charts(tmp_path / "skyband-bench" / "pripuzic") == names
    assert "lowest run" in out and "no wrong answer is certified" in out
    assert "law" in out and "readings, shuffled" in out and "; readings of readings.csv" in out
    page = (tmp_path / "skyband-bench" / "pripuzic.md").read_text(encoding="utf-8")
    assert "Misses of pa" in page and "## Figure 12" in page and "## Figure 9" not in page
    code, out, err = bench(tmp_path, "pripuzic", "--scale", "tiny", "--no-charts", "--data", "readings.csv")
    assert (code, err) == (0, "") and "uniform" not in out and "readings, in time" in out
    page = (tmp_path / "skyband-bench" / "pripuzic.md").read_text(encoding="utf-8")
    assert "## Readings of a file" in page and "## Figure 9" not in page
    code, _, err = bench(
        tmp_path, "pripuzic", "--scale", "tiny", "--only", "data", "--data", "nowhere.csv", "--no-charts"
    )
    assert code == 1 and "nowhere.csv" in err
