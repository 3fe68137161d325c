"""PA behind the query index: the same changes as without it, certificates that never lie and are hardly ever lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from benchmarks.streams.generators import clustered, independent, sensors
from skyband.algorithms.approximate import pa
from skyband.algorithms.approximate.pa import PA
from skyband.algorithms.contract import Workload
from skyband.engine.approximate_group import Approximate

N, QUERIES = 400, 20
NEAREST = "dist(x0, x1, {0}, {1})"
SCORES = {
    "nearest": "ORDER BY " + NEAREST,
    "sum": "ORDER BY {0} * x0 + {1} * x1 DESC",
}
DATA: dict[str, Callable[[int], Any]] = {
    "uniform": lambda rows: independent(rows, 2, 3),
    "clustered": lambda rows: clustered(rows, 2, 3),
    "in time": lambda rows: sensors(rows, 2, 3),
    "away": lambda rows: independent(rows, 2, 3) + np.arange(rows)[:, None] / 300,
    "equal": lambda rows: np.round(independent(rows, 2, 3), 1),
}


def texts(score: str, using: str, points: Any, k: int, n: int = N, queries: int = QUERIES) -> list[str]:
    random = np.random.default_rng(1)
    places = points[random.integers(0, len(points), queries)] + random.random((queries, 2)) / 50
    order = [SCORES[score].format(*map(repr, place)) for place in places.tolist()]
    return [f"SELECT x0 FROM s {by} LIMIT {k} WINDOW {n} ROWS WITH ({using})" for by in order]


def family(monitor: sb.Monitor) -> Approximate:
    (group,) = (group for stream in monitor.streams.values() for group in stream.groups)
    assert isinstance(group, Approximate)
    return group


def algorithm(monitor: sb.Monitor) -> PA:
    return family(monitor).pa


def scored(monitor: sb.Monitor) -> tuple[int, int]:
    """Rows that were looked up, and scores that were computed for them, since the index was cut."""
    index = algorithm(monitor).index
    assert index is not None
    return int(index.tally[0]), int(index.tally[2])


class Three:
    """`pa` with an index and without, and the truth."""

    def __init__(self, score: str, points: Any, k: int, using: str, **sizes: int) -> None:
        self.monitors = {}
        for name, tail in (
            ("index", f"algorithm = 'pa', {using}, cells = 6"),
            ("plain", f"algorithm = 'pa', {using}, cells = 1"),
            ("truth", "algorithm = 'ra'"),
        ):
            self.monitors[name] = sb.Monitor()
            for number, text in enumerate(texts(score, tail, points, k, **sizes)):
                self.monitors[name].watch(text, name=f"q{number}")
        self.wrong = 0

    def push(self, points: Any, look: bool = True) -> None:
        rows = {"x0": points[:, 0], "x1": points[:, 1]}
        changes = {name: monitor.push(rows).to_pydict() for name, monitor in self.monitors.items()}
        assert changes["index"] == changes["plain"]
        if not look:
            return
        for name, watch in self.monitors["index"].watches.items():
            right = watch.top()["seq"] == self.monitors["truth"].watches[name].top()["seq"]
            assert right or not watch.certified, name
            self.wrong += not right
        algorithm(self.monitors["index"])._check()

    def doubtful(self, name: str) -> int:
        sure, answers = family(self.monitors[name]).shares.sum(axis=0).tolist()
        return answers - sure


@pytest.mark.parametrize(
    ("score", "data", "batch"),
    [
        *[("nearest", data, batch) for data in sorted(DATA) for batch in (40, 180)],
        ("sum", "uniform", 40),
        ("sum", "away", 180),
    ],
)
def test_indexed_and_unindexed_tell_the_same(score: str, data: str, batch: int) -> None:
    points = DATA[data](3 * N)
    three = Three(score, points, 5, "error = 0.3")
    for start in range(0, len(points), batch):
        three.push(points[start : start + batch], batch > 99 or start % 120 == 0)
    rows, scores = scored(three.monitors["index"])
    assert rows > 0
    if score == "nearest" and data in ("uniform", "clustered"):
        assert scores < 0.7 * rows * QUERIES  # most of a small window concerns somebody
    assert algorithm(three.monitors["plain"]).index is None


@settings(max_examples=15)
@given(
    values=st.lists(st.tuples(*[st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0, -2.0, np.inf, np.nan])] * 2), max_size=300),
    batch=st.integers(1, 150),
    k=st.integers(1, 3),
    limit=st.integers(1, 2),
    additional=st.integers(0, 3),
)  # fmt: skip
def test_a_few_numbers_over_and_over(
    values: list[tuple[float, float]], batch: int, k: int, limit: int, additional: int
) -> None:
    """Equal scores, numbers beyond the cells, some that are none."""
    points = np.concatenate([independent(300, 2, 8).round(1), np.array(values).reshape(-1, 2)])
    three = Three("nearest", points[:300], k, f"limit = {limit}, additional = {additional}", n=90)
    three.push(points[:300])
    for start in range(300, len(points), batch):
        three.push(points[start : start + batch])


def test_certificates_are_hardly_ever_lost() -> None:
    """At an error large enough to see."""
    points = independent(16 * N, 2, 5)
    three = Three("nearest", points, 9, "error = 0.3")
    for start in range(0, len(points), 20):
        three.push(points[start : start + 20])
    assert (
        0 < three.wrong <= three.doubtful("plain") <= three.doubtful("index") <= 1.3 * three.doubtful("plain")
    )
    rows, scores = scored(three.monitors["index"])
    assert scores < 0.8 * rows * QUERIES


def test_queries_come_and_go() -> None:
    points = independent(5 * N, 2, 6)
    three = Three("nearest", points, 3, "error = 0.3")
    for step, start in enumerate(range(0, len(points), 100)):
        three.push(points[start : start + 100])
        for name, monitor in three.monitors.items():
            if step == 6:
                monitor.drop("q3")
                again = next(iter(texts("nearest", "algorithm = 'ra'", points + 0.5, 3)))
                if name != "truth":
                    cells = 6 if name == "index" else 1
                    again = again.replace("'ra'", f"'pa', error = 0.3, cells = {cells}")
                monitor.watch(again, name="other")  # takes the place of the one that left
            if step == 9:
                monitor.watches["q5"].change(k=6)
            if step == 12:
                three.monitors[name] = sb.Monitor.from_bytes(monitor.to_bytes())
        if step == 12:
            assert algorithm(three.monitors["index"]).index is None
    assert scored(three.monitors["index"])[0] > 0


def test_only_large_batches_are_looked_up_unless_cells_are_named() -> None:
    monitor = sb.Monitor()
    points = independent(3 * pa.LARGE, 2, 7)
    for i, text in enumerate(texts("nearest", "algorithm = 'pa'", points, 3, n=2 * pa.LARGE, queries=pa.FEW)):
        monitor.watch(text, name=f"q{i}")
    assert "cells" in pa.PA.card.options
    for start in range(0, pa.LARGE, 512):
        monitor.push({"x0": points[start : start + 512, 0], "x1": points[start : start + 512, 1]})
    assert algorithm(monitor).index is None
    assert "index" not in str(monitor.watches["q1"].explain().also_kept)
    for _ in range(2):
        monitor.push({"x0": points[-pa.LARGE :, 0], "x1": points[-pa.LARGE :, 1]})
    rows, scores = scored(monitor)
    assert rows == 2 * pa.LARGE and scores < 0.1 * rows * pa.FEW  # the index pruned
    index = algorithm(monitor).index
    assert index is not None
    told = monitor.watches["q1"].explain().also_kept  # and `explain` says what it takes
    assert [size for name, size in told.items() if "index" in name] == [index.bytes()]
    # the cost knows of it, too: a batch of that size takes less than three quarters of two halves
    work = Workload(400, 9, 40_000, pa.LARGE, 2)
    assert pa.cost_of(work) < 0.75 * 2 * pa.cost_of(replace(work, batch=pa.LARGE / 2))


def test_a_large_batch_of_ever_better_rows_does_not_make_a_long_list() -> None:
    points = independent(6 * N, 2, 9)
    three = Three("nearest", points, 3, "error = 0.3")
    three.push(points[:N])
    nearer = points[:1] + np.linspace(0.3, 0.0, 3000)[:, None] * np.array([[1.0, 0.2]])
    three.push(nearer)
    three.push(nearer[::-1])
    lists = algorithm(three.monitors["index"]).lists
    assert int(lists.room.max()) <= 256
