"""`python -m benchmarks haghani` at the smallest scale: tables, charts and a page appear. Nothing is timed here."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import run
from benchmarks.harness.settings import Settings
from benchmarks.papers.haghani import experiment as haghani
from benchmarks.papers.haghani.id_sets import IdSets
from benchmarks.papers.haghani.page import BOOK, CLAIMS, TABLE_1
from benchmarks.papers.haghani.speed import KINDS, kept_by, rate_of, rows_of
from benchmarks.streams.incomplete import incomplete


@pytest.mark.soak
def test_every_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("haghani", Settings("tiny", (), tmp_path))
    names = {path.stem for path in (tmp_path / "haghani").glob("*.json")}
    assert names == set(haghani.PARTS) == {path.stem for path in (tmp_path / "haghani").glob("*.svg")}
    page = (tmp_path / "haghani.md").read_text(encoding="utf-8")
    assert "Tables 3 and 4" in page and capsys.readouterr().out.count("tiny: ") == len(names)
    for name in names:
        points = json.loads((tmp_path / "haghani" / f"{name}.json").read_text(encoding="utf-8"))["points"]
        assert points and all(np.isfinite(list(point["values"].values())).all() for point in points)


def test_exact_ones_are_right_and_the_order_of_sizes() -> None:
    found = haghani.measure(haghani.SCALES["tiny"], 3, 5, 120, 0.5)
    assert found["eaa"]["precision"] == 1.0 and found["eaa"]["error"] == 0.0
    assert found["correlated"]["kept"] <= found["eaa"]["kept"] <= found["sla"]["kept"] == 120


def test_the_generator_has_an_object_once_in_a_stream() -> None:
    rows = incomplete(600, 3, 20, 0.5, np.random.default_rng(1))
    assert len({row[:2] for row in rows}) == 600 and {row[1] for row in rows} == {0, 1, 2}
    assert len({row[0] for row in rows}) < 450


def test_the_published_table_is_set_beside() -> None:
    assert set(TABLE_1) == {3, 4, 6} and {"streams", "ranks"} == set(BOOK.beside)


def test_every_goal_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("haghani", Settings("tiny", ("joined", "idsets", "grouped"), tmp_path))
    printed = capsys.readouterr().out
    goals = [c.saw for part in ("joined", "idsets", "grouped") for c in CLAIMS[part]]
    assert len(goals) == 6 and all(goal in printed for goal in goals)
    assert "0 unequal" in printed


@pytest.mark.parametrize("kind", KINDS)
def test_rows_keep_their_promise(kind: str) -> None:
    n, w, d = 800, 80, 4
    ids, streams, most = rows_of(kind, n, w, d, np.random.default_rng(1))
    for begin in range(n - w + 1):
        pairs = list(zip(ids[begin : begin + w].tolist(), streams[begin : begin + w].tolist(), strict=True))
        assert max(pairs.count(pair) for pair in set(pairs)) <= most
    assert (most == 1) == (kind != "some per window")
    if kind == "once ever":
        assert len(set(zip(ids.tolist(), streams.tolist(), strict=True))) == n


def test_sets_of_ids_answer_the_same() -> None:
    """The paper's structure gives the same answers."""
    w, d, k, n = 80, 4, 5, 400
    ids, streams, _ = rows_of("once ever", n, w, d, np.random.default_rng(3))
    values = np.random.default_rng(4).random(n)
    sets, exact = IdSets(w, d, k, int(ids.max()) + 1), kept_by("sums", d, k)
    for at in range(0, n, 20):
        sets.push(ids[at : at + 20], streams[at : at + 20], values[at : at + 20])
    rate_of(exact, (ids, streams, values), w, 20, 0)
    assert np.allclose(sets.top(), exact.best(k)[1])
