"""What render writes gives numba the same bits as evaluate gives numpy."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.query.trees import COLUMNS, TRICKY, Rows, same_bits, scores

from skyband.query.expression import Expression, evaluate, lift, parse_expression, render

_random = np.random.default_rng(5)


def _column(seed: int) -> np.ndarray:
    """Every pair of tricky values somewhere, NaN included, then ordinary numbers of all sizes."""
    tricky = np.array([*TRICKY, math.nan])
    crossed = np.tile(tricky, len(tricky)) if seed else np.repeat(tricky, len(tricky))
    shuffled = np.random.default_rng(seed).permutation(crossed) if seed == 2 else crossed
    ordinary = _random.standard_normal(200) * 10.0 ** _random.integers(-20, 20, 200)
    return np.concatenate([shuffled, ordinary])


DATA = Rows({name: _column(i) for i, name in enumerate(COLUMNS)})


def run(trees: list[Expression], lifted: bool = True) -> list[np.ndarray]:
    """Each expression on all rows, in one loop as a caller of render would generate it: compiling is what takes
    the time. The text that is compiled is ours and not a user's."""
    lines, constants = [], [0.0]
    for number, e in enumerate(trees):
        shape, own = lift(e) if lifted else (e, ())
        text = render(shape, COLUMNS)
        assert text is not None
        lines.append(f"        p = parameters[{len(constants)}:]\n        out[{number}, i] = {text}\n")
        constants += own
    head = "def kernel(a, b, c, parameters, out):\n    for i in range(len(a)):\n        x0, x1, x2 = a[i], b[i], c[i]\n"
    names: dict[str, Any] = {"np": np, "math": math}
    exec(compile(head + "".join(lines), "<kernel>", "exec"), names)
    out = np.empty((len(trees), len(DATA)))
    kernel = numba.njit(error_model="numpy")(names["kernel"])
    kernel(*(DATA.number(name) for name in COLUMNS), np.array(constants), out)
    return list(out)


FIXED = [
    "x", "-x", "0 * x - 0", "x + y * z", "x / y", "x - y / (z - z)", "x ^ 2", "(x + y) ^ 2 + 1", "abs(x) * -1",
    "sqrt(x - y)", "least(x, y)", "greatest(x, y)", "least(y, x, z, 0)", "greatest(-0, x, 0)",
    "1 / least(x, -x)", "1 / greatest(y, -y)", "dist(x, 0.5)", "dist(x, y, z, 0.1, 0.2, 0.3)",
    "0.3*x + 0.7*y", "1e400 * x", "1 / -0 + x", "sign(x - y)", "1 / sign(-x)",
]  # fmt: skip


def test_fixed_expressions() -> None:
    trees = [parse_expression(text) for text in FIXED]
    for text, e, got in zip(FIXED, trees, run(trees), strict=True):
        assert same_bits(got, evaluate(e, DATA)), text


@settings(max_examples=5)
@given(st.lists(scores(exact=True, leaves=6), min_size=10, max_size=10))
def test_random_expressions(trees: list[Expression]) -> None:
    for e, got in zip(trees, run(trees), strict=True):
        assert same_bits(got, evaluate(e, DATA)), e


def test_unlifted_numbers_render_too() -> None:
    e = parse_expression("2 * x + -3.5 - 1e400 + 1e-3")
    assert same_bits(run([e], lifted=False)[0], evaluate(e, DATA))


@pytest.mark.parametrize(
    "text", ["exp(x)", "ln(x) + 1", "x ^ 3", "x ^ y", "x ^ 0.5", "x > 1", "x = 'a'", "2 ^ x"]
)
def test_what_may_round_differently_is_left_to_numpy(text: str) -> None:
    assert render(lift(parse_expression(text))[0], COLUMNS) is None


def test_no_text_of_the_user_gets_into_the_source() -> None:
    e = parse_expression('"__import__(\'os\')" + "x0" * 2')
    assert render(lift(e)[0], ("__import__('os')", "x0")) == "(x0 + (x1 * p[0]))"
