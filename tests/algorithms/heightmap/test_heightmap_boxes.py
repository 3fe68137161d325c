"""heightmap with a box for each query, all of one family: every step, every slot, to the last bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from tests.algorithms.field import EVERYTHING, Field

import skyband as sb
from skyband.algorithms.heightmap.family import HeightMap
from skyband.query.expression.nodes import Arithmetic, Column, Parameter
from skyband.query.expression.score_space import Space

SMALL = {"block": 64.0, "cells": 256.0}
Box = tuple[tuple[float, float], ...]


class Compiled(HeightMap):
    """However few the queries are."""

    def __init__(self, options: Mapping[str, float], space: Space) -> None:
        super().__init__(options, space)
        self._compiled = self.rendered is not None


def plane(sign: float = 1.0, op: str = "+") -> Space:
    """Two columns in the score, the third in boxes only: p0 * x0 + p1 * x1, or the product of (p + x)."""
    inner = "*" if op == "+" else "+"
    parts = [Arithmetic(inner, Parameter(i), Column(f"x{i}")) for i in range(2)]
    return Space(Arithmetic(op, *parts), ("x0", "x1", "x2"), sign, (1, 2))


def some_box(rng: Any, lattice: bool) -> Box:
    """Mostly somewhere inside, with ends that rows have; some empty, beyond all rows, open, or of one value."""
    odd = rng.random()
    if odd < 0.05:
        return ((2.0, 1.0), EVERYTHING)
    if odd < 0.1:
        return (EVERYTHING, (5.0, 6.0))
    if odd < 0.15:
        return ((np.nan, np.inf), EVERYTHING)
    if odd < 0.25:
        return (EVERYTHING, (-np.inf, 0.5))
    low = rng.random(2) * 0.7
    high = low + rng.choice([0.0, 0.1, 0.3, 0.6], size=2)
    if lattice:
        low, high = low.round(1), high.round(1)
    return tuple(zip(low.tolist(), high.tolist(), strict=True))


def weights_of(rng: Any, op: str) -> tuple[float, ...]:
    if op == "*":
        return tuple(rng.random(2).tolist())
    weights = rng.normal(size=2)
    weights[rng.random(2) < 0.15] = 0.0
    return tuple(weights.tolist())


@pytest.mark.parametrize("op", ["+", "*"])
@pytest.mark.parametrize("level", [1.0, 0.985, 1.015])
def test_boxes_that_come_and_go(level: float, op: str) -> None:
    """Weights of all signs; ties by the dozen on the borders; scores that fall and rise; save and load between."""
    rng = np.random.default_rng(11)
    field = Field(Compiled, plane(op=op), **SMALL)
    for step in range(50):
        lattice = step % 3 == 0
        while len(field.asked) < 12 or rng.random() < 0.3:
            box = some_box(rng, lattice)
            field.ask(
                int(rng.integers(1, 5)),
                weights_of(rng, op),
                int(rng.choice([90, 500])),
                box,
                rng.random() < 0.5,
            )
        if rng.random() < 0.3:
            field.drop(field.asked[int(rng.integers(len(field.asked)))])
        if rng.random() < 0.1:
            field.resize(field.asked[0], int(rng.integers(1, 8)))
        rows = rng.random((int(rng.integers(1, 90)), 3)) * level**step
        if step % 7 == 3:
            rows[rng.random(rows.shape) < 0.05] = rng.choice([np.nan, np.inf, -np.inf, 1e300])
        field.step(rows.round(1) if lattice else rows, check=step % 4 == 0 or step > 46)
        if step == 33:
            field.reload()
    told = field.algorithm.counters(0)
    assert told["maps made"] > 0 and told["rejected by the map"] > 0


def test_late_rows_and_highest_or_lowest_first() -> None:
    rng = np.random.default_rng(3)
    field = Field(Compiled, plane(sign=-1.0), **SMALL)
    for _ in range(10):
        field.ask(3, weights_of(rng, "+"), 150, some_box(rng, True))
    for step in range(16):
        late = rng.integers(0, 40, size=40) * (rng.random(40) < 0.3)
        field.step(rng.random((40, 3)).round(2), late, check=step % 3 == 0)


def test_numpy_knows_the_boxes() -> None:
    """Few queries are scored by numpy until compiling pays."""
    rng = np.random.default_rng(4)
    field = Field(HeightMap, plane(), **SMALL)
    for _ in range(4):
        field.ask(3, weights_of(rng, "+"), 100, some_box(rng, True))
    for _ in range(12):
        field.step(rng.random((30, 3)).round(1))
    assert not field.algorithm.compiled


def test_reservoirs_of_boxes() -> None:
    """Lists that run short are made anew from reservoirs, which promise a box's rows and no others."""
    rng = np.random.default_rng(6)
    field = Field(Compiled, plane(), **SMALL)
    for i in range(3):
        field.ask(2, (0.4 + 0.1 * i, 0.5), 2000, ((0.2, 0.9), (0.1, 0.95)))
    for step in range(90):
        field.step(rng.random((64, 3)) * 0.995**step, check=step % 10 == 0)
    told = field.algorithm.counters(0)
    assert told["epochs"] > 0 and told["catch-ups"] > 3
    assert told["blocks searched"] < 31 * told["catch-ups"]  # not all rows


def test_the_map_is_lowered_where_a_box_is_and_nowhere_else() -> None:
    rng = np.random.default_rng(8)
    field = Field(Compiled, plane(), block=64.0, cells=1024.0)
    for i in range(6):
        field.ask(3, (1.0, 0.5 + 0.1 * i), 2000, ((0.2, 0.3), (0.6, 0.8)))
    for _ in range(10):
        field.step(rng.random((400, 3)), check=False)
    before = field.algorithm.counters(0)["rejected by the map"]
    beyond = rng.random((1000, 3)) * [0.9, 0.9, 0.5] + 0.05  # beside all boxes
    field.step(beyond)
    assert field.algorithm.counters(0)["rejected by the map"] == before + 1000


def test_a_hundred_boxes_are_one_family() -> None:
    rng = np.random.default_rng(9)
    monitor, other = sb.Monitor(), sb.Monitor()
    for i, (low, one, two) in enumerate(rng.random((100, 3)).round(3).tolist()):
        text = (
            f"SELECT x0 FROM s WHERE x1 >= {low / 2} AND x2 < {low / 2 + 0.5} ORDER BY {one} * x0 + {two} * x1 DESC "
            "LIMIT 3 WINDOW 3000 ROWS"
        )
        monitor.watch(text + " WITH (algorithm = 'heightmap')", name=f"q{i}")
        other.watch(text + " WITH (algorithm = 'ra')", name=f"q{i}")
    for _ in range(8):
        rows = {f"x{axis}": rng.random(700).round(2) for axis in range(3)}
        monitor.push(rows)
        other.push(rows)
    assert len({id(watch.group) for watch in monitor.watches.values()}) == 1
    for name, watch in monitor.watches.items():
        assert watch.top().equals(other.watches[name].top())
    did = monitor.watches["q0"].explain().counters
    assert 0 < did["rejected by the map"] < did["rows seen"]
