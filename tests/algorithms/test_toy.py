"""CONTRIBUTING's way to add an algorithm, walked: one file of at most 100 lines, and its name in the registry."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.algorithms import test_contract, toy

import skyband as sb
from skyband.algorithms import CARDS, LISTS, REGISTRY

SQL = "SELECT * FROM s WHERE x > 2 ORDER BY x + y DESC LIMIT 3 WINDOW 20 SECONDS"
OF_ONE_NAME = [
    function
    for name, function in vars(test_contract).items()
    if name.startswith("test_") and [*inspect.signature(function).parameters] == ["name"]
]


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """What its line in the registry does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(LISTS, "toy", toy.Toy)
        patch.setitem(REGISTRY, "toy", toy.Toy)
        patch.setitem(CARDS, "toy", toy.Toy.card)
        yield


def test_it_is_short() -> None:
    assert len(Path(toy.__file__).read_text(encoding="utf-8").splitlines()) <= 100


@pytest.mark.parametrize("function", OF_ONE_NAME, ids=lambda function: function.__name__)
def test_the_suite_over_all_algorithms_takes_it(function: object) -> None:
    function("toy")  # type: ignore[operator]


@pytest.mark.parametrize("batch", [1, 40])
def test_a_monitor_runs_it(batch: int, tmp_path: Path) -> None:
    random = np.random.default_rng(batch)
    monitor = sb.Monitor(time="ts")
    watch = monitor.watch(f"{SQL} WITH (algorithm = 'toy')", name="toy")
    other = monitor.watch(SQL, name="other")
    for step in range(200 if batch == 1 else 20):
        late = random.integers(0, 9, batch)
        monitor.push({"ts": step - 1.0 * late, "x": random.integers(0, 9, batch), "y": random.random(batch)})
        assert watch.top().equals(other.top())
        if step == 7:
            monitor.save(tmp_path / "saved")
            monitor = sb.Monitor.load(tmp_path / "saved")
            watch, other = monitor.watches["toy"], monitor.watches["other"]
    plan = watch.explain()
    assert plan.algorithm == "toy" and plan.counters["admitted"] > 0
    assert "k-skyband, swept at every arrival" in str(plan)
