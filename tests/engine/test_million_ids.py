"""A million objects at once: every sum to the last bit, and the best of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import skyband as sb
from benchmarks.papers.haghani.speed import sums_unequal

MILLION = 1_000_000


def test_every_sum_of_a_million_ids() -> None:
    """All ids are in the window, half a million rows have left it, and values span seven orders of magnitude."""
    random = np.random.default_rng(11)
    parts = [
        random.integers(0, MILLION, 500_000),
        random.permutation(MILLION),
        random.integers(0, MILLION, 300_000),
    ]
    ids = np.concatenate(parts)
    values = random.random(len(ids)) * 10.0 ** random.integers(-3, 4, len(ids))
    window = 1_300_000
    monitor = sb.Monitor(schema={"id": "int64", "x": "double"})
    watch = monitor.watch(
        f"SELECT id, SUM(x) AS s FROM t GROUP BY id ORDER BY SUM(x) DESC LIMIT 20 WINDOW {window} ROWS"
    )
    for begin in range(0, len(ids), 100_000):
        monitor.push({"id": ids[begin : begin + 100_000], "x": values[begin : begin + 100_000]})
    group: Any = watch.group
    objects = group.algorithm.slots[watch.slot]
    assert watch.explain().counters["objects"] == MILLION
    assert sums_unequal(objects, ids[-window:], values[-window:]) == 0
    top = watch.top().to_pylist()
    sums = np.bincount(ids[-window:], values[-window:])  # rounded otherwise: near enough to tell who leads
    assert {row["id"] for row in top} == set(np.argsort(sums)[-20:].tolist())
    for row in top:
        own = values[-window:][ids[-window:] == row["id"]]
        assert row["score"] == row["s"] == math.fsum(own.tolist())


def test_a_million_ids_fit_into_a_hundred_megabytes() -> None:
    """Every row of a window of a million has an id of its own: rows, sums, keys and the table that finds them."""
    random = np.random.default_rng(3)
    monitor = sb.Monitor(schema={"id": "int64", "x": "double"})
    watch = monitor.watch(
        f"SELECT id, SUM(x) AS s FROM t GROUP BY id ORDER BY SUM(x) DESC LIMIT 20 WINDOW {MILLION} ROWS"
    )
    ids = np.concatenate([random.permutation(MILLION) for _ in range(2)])
    for begin in range(0, len(ids), 100_000):
        part = ids[begin : begin + 100_000]
        monitor.push({"id": part, "x": np.sqrt(part)})
    group: Any = watch.group
    objects, size = group.algorithm.size(watch.slot)
    assert objects == MILLION and size <= 100_000_000
    assert watch.top()["id"].to_pylist() == list(range(MILLION - 1, MILLION - 21, -1))
