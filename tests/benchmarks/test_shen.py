"""`python -m benchmarks shen` at the smallest scale: tables, charts and a page appear. Nothing is timed here."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import run
from benchmarks.harness.settings import Settings
from benchmarks.papers.shen import experiment as shen
from benchmarks.papers.shen.page import BOOK
from benchmarks.papers.shen.pairing import Run, question, table
from skyband.core.types import LOWEST

PARTS = {  # those without many compiled loops: the rest is for the soak
    "snapshots": {"snapshots"},
    "sizes": {"sizes-k", "sizes-n", "memory"},
}


def check(folder: Path, out: str, names: set[str]) -> None:
    assert {path.stem for path in (folder / "shen").glob("*.svg")} == names
    page = (folder / "shen.md").read_text(encoding="utf-8")
    assert "Measured on" in page and out.count("tiny: ") == len(names)
    for name in names:
        assert f"](shen/{name}.svg)" in page
        points = json.loads((folder / "shen" / f"{name}.json").read_text(encoding="utf-8"))["points"]
        assert points and all(np.isfinite(list(point["values"].values())).all() for point in points)


def test_some_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("shen", Settings("tiny", tuple(PARTS), tmp_path))
    check(tmp_path, capsys.readouterr().out, {name for names in PARTS.values() for name in names})


@pytest.mark.soak
@pytest.mark.parametrize("part", sorted(set(shen.PARTS) - set(PARTS)))
def test_every_part(part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("shen", Settings("tiny", (part,), tmp_path))
    names = {path.stem for path in (tmp_path / "shen").glob("*.json")}
    check(tmp_path, capsys.readouterr().out, names)
    assert names <= {name for name, _ in BOOK.sections}


def test_the_bound_answers_nothing() -> None:
    """Its oracle is not there at all, so its time can't count."""
    bound = Run("supreme", question("s1", 2), 3, 60, table("uniform", 100, 2))
    bound.fill()
    assert bound.algorithm.size(0)[0] == 0 and bound.algorithm.counters(0)["pairs scored"] == 60 * 59 / 2


@pytest.mark.soak
def test_the_best_after_every_row_are_those_of_the_skyband() -> None:
    """What keeps the answer while the skyband lags behind knows the same at the end of a step."""
    for score in ("s1", "s4"):
        rows = table("uniform", 1000, 2)
        lagging, strict = (Run(name, question(score, 2), 5, 400, rows) for name in ("refreshed", "every row"))
        waited = 0
        while lagging.at < 980:
            lagging.push(49)
            strict.push(49)
            best = [run.algorithm.best(5, LOWEST) for run in (lagging, strict)]
            assert [column.tolist() for column in best[0]] == [column.tolist() for column in best[1]]
            assert lagging.algorithm.foremost.known
            lagging.algorithm._check()
            waited += int(lagging.algorithm._state[2])
        assert waited
