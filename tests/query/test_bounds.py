"""bound and direction keep their promises about what evaluate computes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.query.trees import COLUMNS, TRICKY, Rows, many, scores, values

from skyband.query.expression import Expression, bound, direction, evaluate, lift, parse_expression
from skyband.query.expression.interval import EVERYTHING, outward

intervals = st.tuples(values, values).map(lambda ends: (min(ends), max(ends)))
EVERY = (-math.inf, math.inf)
boxes = st.fixed_dictionaries({name: intervals for name in COLUMNS})


def inside(low: float, high: float) -> st.SearchStrategy[float]:
    ends = [low, high, *(zero for zero in (0.0, -0.0) if low <= 0 <= high)]
    near = [math.nextafter(low, math.inf), math.nextafter(high, -math.inf)]
    finite = (max(low, -1.7e308), min(high, 1.7e308))
    between = st.floats(*finite) if finite[0] <= finite[1] else st.sampled_from(ends)
    return st.one_of(
        st.sampled_from(ends), st.sampled_from([v for v in near if low <= v <= high] or ends), between
    )


@st.composite
def boxes_and_points(draw: st.DrawFn) -> tuple[dict[str, tuple[float, float]], list[dict[str, float]]]:
    box = draw(boxes)
    points = [{name: draw(inside(*box[name])) for name in COLUMNS} for _ in range(6)]
    return box, points


@many
@given(scores(), boxes_and_points())
def test_values_lie_in_the_bound(
    e: Expression, case: tuple[dict[str, tuple[float, float]], list[dict[str, float]]]
) -> None:
    box, points = case
    got = evaluate(e, Rows({name: [point[name] for point in points] for name in COLUMNS}))
    real = got[~np.isnan(got)]
    shape, constants = lift(e)
    for low, high in (bound(e, box), bound(shape, box, constants)):
        assert low <= high
        assert np.all((low <= real) & (real <= high)), (box, got, (low, high))


@many
@given(scores(), boxes_and_points(), st.sampled_from(COLUMNS), st.booleans())
def test_directions_hold(
    e: Expression,
    case: tuple[dict[str, tuple[float, float]], list[dict[str, float]]],
    column: str,
    boxed: bool,
) -> None:
    box, points = case
    found = direction(e, column, box if boxed else None, exact=True)
    if found == "neither":
        return
    others = {name: [points[0][name]] * len(points) for name in COLUMNS}
    others[column] = sorted(point[column] for point in points)
    got = evaluate(e, Rows(others))
    real = got[~np.isnan(got)]
    before, after = real[:-1], real[1:]
    if found in ("increasing", "constant"):
        assert np.all(before <= after), got
    if found in ("decreasing", "constant"):
        assert np.all(before >= after), got


@many
@given(scores(), boxes_and_points())
def test_the_best_corner_bounds_its_box(
    e: Expression, case: tuple[dict[str, tuple[float, float]], list[dict[str, float]]]
) -> None:
    """What an index relies on: all axes that go a proved way at once, from any point to the corner of its box."""
    box, points = case
    shape, constants = lift(e)
    ways = {name: direction(shape, name, box, constants, exact=True) for name in COLUMNS}
    moved = [dict(point) for point in points]
    for name, way in ways.items():
        low, high = box[name]
        for point in moved:
            if way in ("increasing", "decreasing"):
                point[name] = high if way == "increasing" else low
    before, after = (
        evaluate(shape, Rows({name: [point[name] for point in some] for name in COLUMNS}), constants)
        for some in (points, moved)
    )
    told = ~np.isnan(before) & ~np.isnan(after)
    assert np.all(before[told] <= after[told]), (ways, before, after)


@many
@given(scores(exact=True, leaves=5), st.data())
def test_directions_hold_at_the_edges_of_the_numbers(e: Expression, data: st.DataObject) -> None:
    """Over all numbers and over half of them: the tricky ones, their neighbours, and what overflows."""
    half = data.draw(
        st.sampled_from([EVERY, (0.0, math.inf), (-math.inf, 0.0), (-0.0, 1e308), (5e-324, 1.0)])
    )
    box = {name: half for name in COLUMNS}
    edges = [
        *TRICKY,
        -3.0,
        1e-308,
        1.7e308,
        math.nextafter(1.0, 2),
        1.1,
        2.0**53,
        2.0**53 + 2,
        1e154,
        1.4e154,
    ]
    inside = sorted({v for v in edges + [-v for v in edges] if half[0] <= v <= half[1]})
    others = {name: data.draw(st.sampled_from([*inside, math.nan])) for name in COLUMNS}
    for column in COLUMNS:
        found = direction(e, column, box, exact=True)
        rows = {name: [value] * len(inside) for name, value in others.items()} | {column: inside}
        got = evaluate(e, Rows(rows))
        real = got[~np.isnan(got)]
        if found in ("increasing", "constant"):
            assert np.all(real[:-1] <= real[1:]), (column, half, others, got)
        if found in ("decreasing", "constant"):
            assert np.all(real[:-1] >= real[1:]), (column, half, others, got)


def test_deep_quotients_take_no_longer_than_they_are() -> None:
    """Each level is looked at once: twice would be a billion times here."""
    text = "x"
    for _ in range(30):
        text = f"1 / (1 + {text})"
    assert direction(parse_expression(text), "x", {"x": (1, 2)}, exact=True) == "increasing"


@pytest.mark.parametrize(
    ("text", "box", "expected"),
    [
        ("x + y", {"x": (0, 1), "y": (2, 3)}, (2, 4)),
        ("x - x", {}, (0, 0)),
        ("x * y", {"x": (-1, 2), "y": (3, 5)}, (-5, 10)),
        ("x * x", {"x": (-3, 2)}, (0, 9)),
        ("x ^ 2", {"x": (-3, 2)}, (0, 9)),
        ("x ^ 3", {"x": (-3, 2)}, (-27, 8)),
        ("x ^ -1", {"x": (2, 4)}, (0.25, 0.5)),
        ("1 / x", {"x": (2, 4)}, (0.25, 0.5)),
        ("1 / x", {"x": (0, 4)}, (-math.inf, math.inf)),
        ("x / y", {"x": (1, math.inf), "y": (1, math.inf)}, (0, math.inf)),
        ("abs(x)", {"x": (-3, 2)}, (0, 3)),
        ("sqrt(x)", {"x": (-3, 4)}, (0, 2)),
        ("sign(x)", {"x": (-3, 4)}, (-1, 1)),
        ("sign(x)", {"x": (0, math.inf)}, (0, 1)),
        ("ln(x)", {"x": (-1, 1)}, (-math.inf, 0)),
        ("exp(x)", {"x": (-math.inf, 0)}, (0, 1)),
        ("least(x, y)", {"x": (0, 5), "y": (1, 2)}, (0, 2)),
        ("greatest(x, y)", {"x": (0, 5), "y": (1, 2)}, (1, 5)),
        ("dist(x, y, 0, 0)", {"x": (3, 6), "y": (4, 8)}, (5, 10)),
        ("x * 0", {}, (0, 0)),
        ("x + 1", {}, (-math.inf, math.inf)),
        ("2 ^ x", {"x": (-1, 3)}, (0.5, 8)),
        ("x ^ 0.5", {"x": (4, 9)}, (2, 3)),
        ("x > 1", {}, (0, 1)),
    ],
)
def test_bounds_are_tight(
    text: str, box: dict[str, tuple[float, float]], expected: tuple[float, float]
) -> None:
    assert bound(parse_expression(text), box) == pytest.approx(expected, rel=1e-14, abs=1e-300)


@pytest.mark.parametrize(
    ("text", "box", "expected"),
    [
        ("x", None, "increasing"),
        ("-x", None, "decreasing"),
        ("y", None, "constant"),
        ("3 * x - y", None, "increasing"),
        ("-3 * x", None, "decreasing"),
        ("y - 3 * x", None, "decreasing"),
        ("x / -2", None, "decreasing"),
        ("x * 0", None, "constant"),
        ("x * y", None, "neither"),
        ("x * y", {"y": (0, 9)}, "increasing"),
        ("x * y", {"y": (-9, 0)}, "decreasing"),
        ("x * x", None, "neither"),
        ("x * x", {"x": (0, 9)}, "increasing"),
        ("x ^ 2", {"x": (-9, 0)}, "decreasing"),
        ("x ^ 3", None, "increasing"),
        ("x ^ 2", None, "neither"),
        ("1 / x", None, "neither"),
        ("1 / x", {"x": (1, 9)}, "decreasing"),
        ("1 / x", {"x": (0, 9)}, "neither"),
        ("sqrt(x) + ln(x) + exp(x)", None, "increasing"),
        ("sign(-x)", None, "decreasing"),
        ("abs(x)", None, "neither"),
        ("abs(x)", {"x": (0, 1)}, "increasing"),
        ("least(x, y, 3)", None, "increasing"),
        ("least(x, -x)", None, "neither"),
        ("greatest(-x, y)", None, "decreasing"),
        ("dist(x, y, 0, 0)", None, "neither"),
        ("dist(x, y, 0, 0)", {"x": (0, 1)}, "increasing"),
        ("dist(x, y, 1, 0)", {"x": (0, 1)}, "decreasing"),
        ("2 ^ x", None, "increasing"),
        ("0.5 ^ x", None, "decreasing"),
        ("x ^ y", {"x": (0, 5), "y": (1, 2)}, "increasing"),
        ("x ^ 0", None, "constant"),
        ("x ^ 0.5", None, "neither"),  # of -inf it is inf
        ("x ^ 0.5", {"x": (0, 9)}, "increasing"),
        ("x ^ -0.5", {"x": (1, 9)}, "decreasing"),
        ("x ^ -2", {"x": (-9, -1)}, "increasing"),
        ("x ^ 1e999", {"x": (0, 9)}, "neither"),
        ("x ^ y", {"x": (0, 5)}, "neither"),
        ("x ^ y", {"x": (1, 5), "y": (-1, 1)}, "neither"),
        ("y ^ x", {"x": (1, 2), "y": (0.5, 2)}, "neither"),
        ("x > 1", None, "neither"),
    ],
)
def test_directions(text: str, box: dict[str, tuple[float, float]] | None, expected: str) -> None:
    assert direction(parse_expression(text), "x", box) == expected


def test_aggregates_have_no_direction() -> None:
    """More rows join a sum: it may go anywhere with a column of one of them."""
    total = parse_expression("SUM(x) + 1", aggregates=True)
    assert (direction(total, "x"), direction(total, "y")) == ("neither", "constant")
    assert direction(parse_expression("COUNT(*)", aggregates=True), "x") == "constant"


def test_an_end_that_is_no_number_bounds_nothing() -> None:
    assert outward(math.nan, 1.0) == outward(0.0, math.nan) == EVERYTHING


def test_exact_directions_trust_no_library() -> None:
    for text in ("exp(x)", "ln(x)", "x ^ 3", "2 ^ x"):
        assert direction(parse_expression(text), "x", exact=True) == "neither"
        assert direction(parse_expression(text), "y", exact=True) == "constant"
    assert direction(parse_expression("x ^ 2 + sqrt(x)"), "x", {"x": (0, 9)}, exact=True) == "increasing"


def test_a_constant_zero_has_two_signs() -> None:
    """0 * x is 0.0 or -0.0, which is the same but for a divisor."""
    for text in ("7 / (0 * x)", "(0 * x) ^ -1", "x / (0 * x)", "7 / (y * 0 * x)"):
        assert direction(parse_expression(text), "x", exact=True) == "neither"
        assert direction(parse_expression(text), "z", exact=True) == "constant"
    assert direction(parse_expression("(0 * x) ^ 3 + exp(0 * x)"), "x", exact=True) == "constant"


def test_parameters_without_values_may_be_anything() -> None:
    shape, constants = lift(parse_expression("2 * x"))
    assert direction(shape, "x") == "neither"
    assert direction(shape, "x", constants=constants) == "increasing"
    assert bound(shape, {"x": (1, 2)}) == (-math.inf, math.inf)


POINTS = [
    -math.inf,
    -1e300,
    -3.0,
    -2.0,
    -1.5,
    -1.0,
    -0.5,
    -1e-300,
    -0.0,
    0.0,
    1e-300,
    0.3,
    0.5,
    1.0,
    1.5,
    2.0,
    7.0,
    1e300,
    math.inf,
]
ENDS = [-math.inf, -2.0, -1.0, 0.0, 0.5, 1.0, 2.0, math.inf]


def test_powers_of_everything() -> None:
    """Every base and exponent of a grid, over every box of it: one is fixed, the other one goes through the box."""
    proved = 0
    for low, high in [(low, high) for low in ENDS for high in ENDS if low < high]:
        points = [point for point in POINTS if low <= point <= high]
        for fixed in POINTS:
            shown = repr(fixed).replace("inf", "1e999")
            for text in (f"x ^ ({shown})", f"({shown}) ^ x", "x ^ y", "y ^ x"):
                e = parse_expression(text)
                box = {"x": (low, high), "y": (fixed, fixed)}
                got = evaluate(e, Rows({"x": points, "y": [fixed] * len(points)}))
                real = got[~np.isnan(got)]
                lowest, highest = bound(e, box)
                assert np.all((lowest <= real) & (real <= highest)), (text, box)
                found = direction(e, "x", box)
                proved += found != "neither"
                before, after = real[:-1], real[1:]
                if found in ("increasing", "constant"):
                    assert np.all(before <= after), (text, box, got)
                if found in ("decreasing", "constant"):
                    assert np.all(before >= after), (text, box, got)
    assert proved > 900
