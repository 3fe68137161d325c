"""Scores of pairs in float32 are as near to those in float64 as is said."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from skyband.algorithms.pairs.pair_base import _rounded
from skyband.query.expression import parse_expression
from skyband.query.expression.pairing import pairing

SCORES = (
    "abs(a.x - b.x) + abs(a.y - b.y)",
    "abs(a.x - b.x) * abs(a.y - b.y)",
    "(a.x - b.x) ^ 2 + (a.y - b.y) ^ 2",
    "a.x * b.x + 3.7 * a.y * b.y",
    "a.x - b.y - (b.x - a.y)",
)


@pytest.mark.parametrize("text", SCORES)
@pytest.mark.parametrize(
    "low, high", [(0.0, 1.0), (-3.0, 5.0), (1e6, 1e6 + 1), (-1e-30, 1e-30), (0.0, 1e-42)]
)
def test_the_error_of_float32_is_within_the_slack(text: str, low: float, high: float) -> None:
    schema = pa.schema([("x", pa.float64()), ("y", pa.float64())])
    asked = pairing(parse_expression(text), None, (), schema)
    assert asked is not None
    random, leaves = np.random.default_rng(7), range(len(asked.leaves))
    with np.errstate(all="ignore"):
        within = _rounded(min(low, 0.0), max(high, 0.0))
        assert within[0] <= low and within[1] >= high
        slack = asked.slack(dict.fromkeys(leaves, within))
        assert slack is not None
        values = {f"{side}{i}": random.uniform(low, high, 20_000) for side in "wm" for i in leaves}
        for i in leaves:
            values[f"m{i}"][::2] = values[f"w{i}"][::2] + (high - low) * 1e-8 * random.random(
                10_000
            )  # near one another
        named = {f"p{i}": constant for i, constant in enumerate(asked.constants)}
        score = asked.score_text("w", "m")
        exact = eval(score, {"np": np, **values, **named})
        rough = {name: np.float32(value) for name, value in {**values, **named}.items()}
        found = eval(score, {"np": np, **rough})
    assert found.dtype == np.float32
    assert np.abs(found - exact).max() <= slack
