"""Every script in examples/ runs and finds what was put into its rows."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "examples"


def run(name: str) -> Any:
    return runpy.run_path(str(FOLDER / f"{name}.py"))["main"]()


def test_the_stock_that_left_its_sector() -> None:
    found = run("pair_trading")
    assert len(found) == 5 and all({one, other} == {"DDD", "EEE"} for one, other, _ in found)


def test_bids_that_disagree() -> None:
    found = run("auctions")
    assert len(found) == 3 and all(score < -0.5 for _, _, score in found)


def test_the_broken_sensor() -> None:
    assert run("sensors_disagree") == [5]


def test_quakes_in_series(capsys: pytest.CaptureFixture[str]) -> None:
    found = run("earthquakes")
    assert len(found) == 3 and any(abs(one - other) <= 0.11 for one, other in found)
    assert int(capsys.readouterr().out.split()[0]) > 100


def test_flows_at_routers() -> None:
    found = run("flows_at_routers")
    assert len(found) == len(set(found)) == 5


def test_fast_vehicles_and_what_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    exact, likely = run("fastest_vehicles")
    assert 0 < exact <= likely and "measured against an exact run" in capsys.readouterr().out


def test_clients_in_chunks() -> None:
    direct, in_chunks = run("clients_by_bytes")
    assert direct == in_chunks and len(direct) == 5


def test_each_script_has_its_test() -> None:
    here = Path(__file__).read_text()
    assert all(f'run("{path.stem}")' in here for path in FOLDER.glob("*.py"))
