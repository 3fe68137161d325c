"""Weighted sums: the weights that a score gives its columns, however it is written."""

from __future__ import annotations

import numpy as np
import pytest

from skyband.query.expression import columns_of, lift, parse_expression
from skyband.query.expression.linear import linear


@pytest.mark.parametrize(
    ("text", "offset", "weight"),
    [
        ("2 * x + 3 * y", 0, [2, 3]),
        ("-(x - 4) / 2 + y * 3", 2, [-0.5, 3]),
        ("(x + y) * (1 + 1) - 2 * x", 0, [0, 2]),
        ("5 - x / 4 + -y", 5, [-0.25, -1]),
    ],
)
@pytest.mark.parametrize("lifted", [True, False])
def test_the_weights(text: str, offset: float, weight: list[float], lifted: bool) -> None:
    score = parse_expression(text)
    shape, constants = lift(score) if lifted else (score, ())
    found = linear(shape, columns_of(score), np.array([constants], dtype=np.float64))
    assert found is not None
    assert found.offset.tolist() == [offset]
    assert found.weight.tolist() == [weight]


@pytest.mark.parametrize("text", ["x * y", "x / y", "abs(x) + y", "1 / x", "2 * (x * x)", "-(x * y)"])
def test_what_is_none(text: str) -> None:
    shape, constants = lift(parse_expression(text))
    assert linear(shape, columns_of(shape), np.array([constants], dtype=np.float64)) is None
