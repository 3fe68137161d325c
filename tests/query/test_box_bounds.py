"""Bounds over many boxes: the promise of interval.bound, for all of them at once."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.query.test_bounds import boxes_and_points
from tests.query.trees import COLUMNS, Rows, many, scores

from skyband.compiling.jit import generated
from skyband.query.expression import Expression, bound, evaluate, lift, parse_expression, render
from skyband.query.expression.box_bounds import OPERATIONS, bounds, render_bounds, sound

Case = tuple[dict[str, tuple[float, float]], list[dict[str, float]]]


def stacked(cases: list[Case]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {
        name: (np.array([box[name][0] for box, _ in cases]), np.array([box[name][1] for box, _ in cases]))
        for name in COLUMNS
    }


@many
@given(scores(), st.lists(boxes_and_points(), min_size=1, max_size=4))
def test_values_lie_in_the_bounds(e: Expression, cases: list[Case]) -> None:
    shape, constants = lift(e)
    boxes = stacked(cases)
    columns = [np.full(len(cases), c) for c in constants]  # a constant for each box
    for low, high in (bounds(e, boxes), bounds(shape, boxes, constants), bounds(shape, boxes, columns)):
        assert np.all(low <= high)
        for i, (box, points) in enumerate(cases):
            got = evaluate(e, Rows({name: [point[name] for point in points] for name in COLUMNS}))
            real = got[~np.isnan(got)]
            assert np.all((low[i] <= real) & (real <= high[i])), (box, got, low[i], high[i])


@many
@given(scores(), st.lists(boxes_and_points(), min_size=1, max_size=4))
def test_no_wider_than_one_box_at_a_time(e: Expression, cases: list[Case]) -> None:
    low, high = bounds(e, stacked(cases))
    for i, (box, _) in enumerate(cases):
        one = bound(e, box)
        assert one[0] <= low[i] and high[i] <= one[1]


@pytest.mark.parametrize("y", [-3, -2, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, math.inf, -math.inf])
@pytest.mark.parametrize("text", ["x ^ y", "x ^ x", "y ^ y"])
def test_an_exponent_for_each_box(text: str, y: float) -> None:
    """Where a box leaves the exponent one value, the power is bounded as by that number."""
    ends = [-math.inf, -2.0, -1.0, -0.0, 0.0, 0.5, 3.0, 1e200, math.inf]
    cases: list[Case] = [
        ({"x": (low, high), "y": (y, last), "z": (0.0, 0.0)}, [])
        for low in ends
        for high in ends
        if low <= high
        for last in (y, y + 1)  # beside boxes where it may be several
    ]
    low, high = bounds(parse_expression(text), stacked(cases))
    assert list(zip(low, high, strict=True)) == [bound(parse_expression(text), box) for box, _ in cases]


@many
@given(scores(), st.lists(boxes_and_points(), min_size=1, max_size=4))
def test_sound_boxes_have_finite_values_only(e: Expression, cases: list[Case]) -> None:
    shape, constants = lift(e)
    proved = sound(shape, stacked(cases), constants)
    assert len(proved) == len(cases)
    for i, (_, points) in enumerate(cases):
        got = evaluate(e, Rows({name: [point[name] for point in points] for name in COLUMNS}))
        assert not proved[i] or np.all(np.isfinite(got))


@pytest.mark.parametrize(
    ("text", "box", "expected"),
    [
        ("3 * x - y", (0, 1), True),
        ("x * y", (-1, 1), True),
        ("x * y", (-1, 1e200), False),
        ("x + y", (-math.inf, 1), False),
        ("1 / x", (1, 2), True),
        ("1 / x", (0, 2), False),
        ("x / x", (0, 2), False),
        ("x / x", (1, 2), True),
        ("sqrt(x)", (0, 2), True),
        ("sqrt(x)", (-1, 2), False),
        ("sign(x)", (-1, 2), True),
        ("ln(x)", (0, 2), False),
        ("ln(x)", (1, 2), True),
        ("x ^ 0.5", (-1, 2), False),
        ("x ^ 3", (-1, 2), True),
        ("x ^ y", (3, 3), True),
        ("x ^ y", (-3, -3), True),
        ("x ^ y", (-0.5, -0.5), False),
        ("x ^ y", (-1, 2), False),
        ("x ^ y", (1, 2), True),
        ("dist(x, y, 0, 0)", (-1, 2), True),
    ],
)
def test_what_is_sound(text: str, box: tuple[float, float], expected: bool) -> None:
    ends = np.array([box[0]], dtype=float), np.array([box[1]], dtype=float)
    assert sound(parse_expression(text), {"x": ends, "y": ends}).tolist() == [expected]


def test_a_box_of_its_own_constants() -> None:
    shape, _ = lift(parse_expression("2 * x"))
    box = {"x": (np.array([1.0, 1.0]), np.array([2.0, 2.0]))}
    low, high = bounds(shape, box, [np.array([2.0, -3.0])])
    assert low.tolist() == [2.0, -6.0] and high.tolist() == [4.0, -3.0]
    low, high = bounds(shape, box)
    assert low.tolist() == [-math.inf] * 2 and high.tolist() == [math.inf] * 2


def compiled(e: Expression) -> tuple[object, tuple[float, ...]]:
    shape, constants = lift(e)
    made = render_bounds(shape, COLUMNS)
    assert made is not None
    lines, low, high = made
    ends = ", ".join(f"l{i}, h{i}" for i in range(len(COLUMNS)))
    body = "\n".join(f"    {line}" for line in [*lines, f"return {low}, {high}"])
    source = f"import numpy as np\nfrom skyband.algorithms.kernels.scalar_intervals import {', '.join(OPERATIONS)}\n"
    return generated(f"{source}\n\ndef span({ends}, p):\n{body}\n").span, constants


@many
@given(scores(exact=True), st.lists(boxes_and_points(), min_size=1, max_size=4))
def test_the_written_form_gives_the_same_bits(e: Expression, cases: list[Case]) -> None:
    shape, _ = lift(e)
    assert render(shape, COLUMNS) is not None
    span, constants = compiled(e)
    with np.errstate(all="ignore"):
        own = [
            span(*(np.float64(end) for name in COLUMNS for end in box[name]), np.array(constants))  # type: ignore[operator]
            for box, _ in cases
        ]
    low, high = bounds(shape, stacked(cases), constants)
    assert [pair[0] for pair in own] == low.tolist() and [pair[1] for pair in own] == high.tolist()


@pytest.mark.parametrize("text", ["x + x", "x * x", "x - x", "x / x", "x + 1", "-x * 3", "dist(x, y, 1, 2)"])
def test_forms_that_are_easily_missed(text: str) -> None:
    """The same on both sides, and numbers that were not lifted."""
    e = parse_expression(text)
    made = render_bounds(e, COLUMNS)
    assert made is not None
    lines, low, high = made
    body = "\n".join(f"    {line}" for line in [*lines, f"return {low}, {high}"])
    home = "skyband.algorithms.kernels.scalar_intervals"
    source = f"from {home} import {', '.join(OPERATIONS)}\n\n\ndef span(l0, h0, l1, h1, l2, h2):\n"
    box = {
        name: (np.array([end]), np.array([end + 3.0]))
        for name, end in zip(COLUMNS, (-1.0, 2.0, 0.0), strict=True)
    }
    own = generated(source + body + "\n").span(*(end[0] for ends in box.values() for end in ends))
    assert own == tuple(end[0] for end in bounds(e, box))


def test_a_predicate_is_no_or_yes() -> None:
    low, high = bounds(parse_expression("x > 1 AND y < 2"), {"x": (np.array([0.0]), np.array([9.0]))})
    assert (low.tolist(), high.tolist()) == ([0.0], [1.0])


def test_what_is_not_written() -> None:
    assert render_bounds(parse_expression("exp(x)"), COLUMNS) is None
