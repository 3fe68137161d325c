"""The rows that benchmarks run on are what they say: spread, level, seed."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.streams.generators import (
    DISTRIBUTIONS,
    FUNCTIONS,
    Drift,
    anticorrelated,
    independent,
    tables,
    weights,
)
from skyband.query.sql.parser import parse


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("columns", [2, 3, 6])
def test_rows_lie_in_the_cube_and_come_from_the_seed(name: str, columns: int) -> None:
    points = DISTRIBUTIONS[name](2000, columns, 5)
    assert points.shape == (2000, columns)
    assert points.min() >= 0 and points.max() <= 1
    assert np.array_equal(points, DISTRIBUTIONS[name](2000, columns, 5))
    assert not np.array_equal(points, DISTRIBUTIONS[name](2000, columns, 6))


def test_anticorrelated_rows_are() -> None:
    """Neighbouring attributes fall against each other, and the sum varies far less than of independent rows."""
    anti, plain = anticorrelated(20_000, 4, 3), independent(20_000, 4, 3)
    assert np.corrcoef(anti.T)[0, 1] < -0.2 < np.corrcoef(plain.T)[0, 1]
    assert anti.sum(axis=1).std() < 0.5 * plain.sum(axis=1).std()
    assert abs(anti.mean() - 0.5) < 0.01


def test_a_stream_falls_by_its_part_in_each_window() -> None:
    points = Drift("falls", fall=0.2).apply(np.ones((4000, 2)), window=1000, still=1000)
    assert (points[:1000] == 1).all()
    assert points[1999] == pytest.approx(0.8) and points[3999] == pytest.approx(0.8**3)


def test_one_attribute_moves_alone_and_shifts_come_halfway() -> None:
    points = Drift("one falls at once", shift=0.3, column=1).apply(np.ones((100, 3)), window=50)
    assert (points[:, [0, 2]] == 1).all()
    assert (points[:50, 1] == 1).all() and points[50:, 1] == pytest.approx(0.7)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_queries(name: str) -> None:
    score = FUNCTIONS[name](weights(1, 3)[0])
    query = parse(f"SELECT x0 FROM s ORDER BY {score} DESC LIMIT 5 WINDOW 100 ROWS")
    assert query.k == 5


def test_batches_hold_all_rows_in_order() -> None:
    points = independent(25, 2, 1)
    batches = tables(points, 10)
    assert [batch.num_rows for batch in batches] == [10, 10, 5]
    assert np.array_equal(np.concatenate([batch["x1"].to_numpy() for batch in batches]), points[:, 1])
