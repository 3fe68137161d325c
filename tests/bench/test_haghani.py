"""`skyband bench haghani` at the smallest scale: tables, charts and a page appear. Nothing is timed here."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from skyband.bench import Settings, haghani, run
from skyband.bench.haghani_page import BOOK, TABLE_1
from skyband.bench.incomplete import incomplete


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


def test_the_generator_tells_of_an_object_once_in_a_stream() -> None:
    rows = incomplete(600, 3, 20, 0.5, np.random.default_rng(1))
    assert len({row[:2] for row in rows}) == 600 and {row[1] for row in rows} == {0, 1, 2}
    assert len({row[0] for row in rows}) < 450


def test_the_published_table_is_set_beside() -> None:
    assert set(TABLE_1) == {3, 4, 6} and {"streams", "ranks"} == set(BOOK.beside)
