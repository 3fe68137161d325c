"""Evaluation: IEEE values, one result per row whatever the batch, and no writing into the source."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.query.trees import COLUMNS, Rows, many, same_bits, scores, with_nan

from skyband.query.expression import Expression, evaluate, lift, parse_expression

rows = st.lists(st.tuples(with_nan, with_nan, with_nan), min_size=1, max_size=9)


def source(data: list[tuple[float, float, float]]) -> Rows:
    return Rows({name: np.array([row[i] for row in data]) for i, name in enumerate(COLUMNS)})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 / 0", np.nan),
        ("1 / x", np.inf),
        ("-1 / x", -np.inf),
        ("1 / -x", -np.inf),
        ("1 / -0", -np.inf),
        ("ln(-1 - x)", np.nan),
        ("ln(x)", -np.inf),
        ("sqrt(x - 1)", np.nan),
        ("exp(x + 1000)", np.inf),
        ("sign(x - 8)", -1.0),
        ("sign(x + 1e400)", 1.0),
        ("1 / sign(-x)", np.inf),
        ("sign(0 / x)", np.nan),
        ("(x + 1e300) ^ 2", np.inf),
        ("(x - 8) ^ 0.5", np.nan),
        ("(x - 8) ^ 3", -512.0),
        ("1e400 + x", np.inf),
        ("least(x, 0 / 0)", np.nan),
        ("greatest(0 / 0, x)", np.nan),
    ],
)
def test_ieee_values(text: str, expected: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = evaluate(parse_expression(text), Rows({"x": [0.0, 0.0]}))
    assert got.dtype == np.float64 and got.shape == (2,)
    np.testing.assert_array_equal(got, [expected, expected])


@many
@given(scores(), rows)
def test_a_row_alone_gives_the_same_bits(e: Expression, data: list[tuple[float, float, float]]) -> None:
    """The answer must not depend on how rows are cut into batches, nor on numpy's shortcuts for one row."""
    together = evaluate(e, source(data))
    alone = np.concatenate([evaluate(e, source([row])) for row in data])
    assert same_bits(together, alone)
    double = evaluate(e, source(data * 2))
    assert same_bits(double, np.concatenate([together, together]))


@pytest.mark.parametrize("text", ["exp(x)", "ln(x)", "x^1.7", "1.7^x", "x^x"])
def test_columns_read_backwards_give_the_same_bits(text: str) -> None:
    """numpy has another loop for those, and one row of a reversed column counts as contiguous."""
    e, x = parse_expression(text), np.random.default_rng(5).random(3000) * 3

    class Backwards(Rows):
        def number(self, name: str) -> Any:
            return super().number(name)[::-1]

    forwards = evaluate(e, Rows({"x": x}))
    assert same_bits(forwards, evaluate(e, Backwards({"x": x[::-1]})))
    assert same_bits(
        forwards, np.concatenate([evaluate(e, Backwards({"x": x[i : i + 1]})) for i in range(len(x))])
    )


@many
@given(scores(), rows)
def test_the_source_is_never_written(e: Expression, data: list[tuple[float, float, float]]) -> None:
    given_rows = source(data)
    held = {name: np.array([row[i] for row in data]) for i, name in enumerate(COLUMNS)}
    given_rows.number = lambda name: held[name]  # type: ignore[method-assign]
    before = {name: column.copy() for name, column in held.items()}
    evaluate(e, given_rows)
    assert all(same_bits(held[name], before[name]) for name in COLUMNS)


@many
@given(scores(), rows)
def test_lifting_changes_no_bit(e: Expression, data: list[tuple[float, float, float]]) -> None:
    shape, constants = lift(e)
    assert same_bits(evaluate(e, source(data)), evaluate(shape, source(data), constants))


def test_weighted_sums_have_one_shape() -> None:
    shapes = {
        lift(parse_expression(text))[0] for text in ("0.3*x + 0.7*y", "-1*x + 2e9*y", "1 * x + 1e-5 * y")
    }
    assert len(shapes) == 1
    shape, constants = lift(parse_expression("3 * x ^ 2 + 5"))
    assert constants == (3.0, 5.0)
    assert lift(parse_expression("3 * x ^ 3 + 5"))[0] != shape


def test_predicates_on_bools_and_truths() -> None:
    data = Rows({"t": [True, False, True], "x": [1.0, 2.0, 3.0]})
    assert evaluate(parse_expression("t"), data).tolist() == [True, False, True]
    assert evaluate(parse_expression("NOT t OR x > 2"), data).tolist() == [False, True, True]
    assert evaluate(parse_expression("t = TRUE AND x < 3"), data).tolist() == [True, False, False]
    assert evaluate(parse_expression("TRUE"), data).tolist() == [True] * 3
    assert evaluate(parse_expression("1 < 2 AND 'a' <> 'a'"), data).tolist() == [False] * 3
    assert evaluate(parse_expression("t = (x > 1)"), data).tolist() == [False, False, True]


def test_what_check_would_have_refused() -> None:
    data = Rows({"x": [1.0], "t": [True]})
    with pytest.raises(TypeError, match="Arithmetic is not a predicate"):
        evaluate(parse_expression("x + 1 AND t"), data)
    with pytest.raises(TypeError, match="Text is not a number"):
        evaluate(parse_expression("x + 'a'"), data)


def test_empty_batches() -> None:
    data = Rows({"x": np.array([], dtype=float)})
    for text in ("x ^ x", "x + 1", "7", "x > 1", "least(x, 2)", "TRUE"):
        assert len(evaluate(parse_expression(text), data)) == 0
