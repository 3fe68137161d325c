"""Comparisons against Python's own, which are exact for int, float, Decimal and Fraction."""

from __future__ import annotations

import datetime
import operator
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.query.trees import Rows, many

from skyband.query.expression import Column, Compare, Number, evaluate, parse_expression
from skyband.query.expression.exact_compare import parse_time
from skyband.query.expression.nodes import negate

OPS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "<>": operator.ne,
}
ops = st.sampled_from(sorted(OPS))
EDGES = [0, 1, -1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**63 - 512, 2**62 + 1]
int64s = st.one_of(st.sampled_from(EDGES), st.integers(-(2**63), 2**63 - 1))
uint64s = st.one_of(st.sampled_from([0, 1, 2**53 + 1, 2**63, 2**64 - 1]), st.integers(0, 2**64 - 1))
floats = st.one_of(
    st.sampled_from(
        [0.0, -0.0, 0.5, 2.0**53, 2.0**63, -(2.0**63), 2.0**64, 1e300, float("inf"), -float("inf")]
    ),
    st.floats(allow_nan=False),
)
decimals = st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**15), max_value=10**15)


def check(op: str, left: object, right: object, kinds: tuple[pa.DataType, pa.DataType]) -> None:
    data = Rows({"x": pa.array([left], kinds[0]), "y": pa.array([right], kinds[1])})
    got = evaluate(Compare(op, Column("x"), Column("y")), data)
    assert got.tolist() == [OPS[op](left, right)]


@many
@given(ops, int64s, int64s)
def test_int_int(op: str, left: int, right: int) -> None:
    check(op, left, right, (pa.int64(), pa.int64()))


@many
@given(ops, int64s, uint64s)
def test_int_uint(op: str, left: int, right: int) -> None:
    check(op, left, right, (pa.int64(), pa.uint64()))
    check(op, right, left, (pa.uint64(), pa.int64()))


@many
@given(ops, st.one_of(int64s, uint64s), floats)
def test_int_float(op: str, left: int, right: float) -> None:
    kind = pa.int64() if left < 2**63 else pa.uint64()
    check(op, left, right, (kind, pa.float64()))
    check(op, right, left, (pa.float64(), kind))


@many
@given(ops, decimals, st.one_of(int64s, floats, decimals))
def test_decimal_columns(op: str, left: Decimal, right: int | float | Decimal) -> None:
    kind = (
        pa.int64()
        if isinstance(right, int)
        else pa.float64()
        if isinstance(right, float)
        else pa.decimal128(20, 3)
    )
    check(op, left, right, (pa.decimal128(30, 3), kind))
    check(op, right, left, (kind, pa.decimal128(30, 3)))


numbers = st.one_of(
    int64s,
    st.sampled_from(
        [Decimal("9007199254740992.5"), Decimal("-0.5"), 2**64, -(2**70), 10**400, Decimal("1e-300")]
    ),
    st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**19), max_value=10**19),
)


@many
@given(ops, int64s, numbers)
def test_int_literal(op: str, left: int, written: int | Decimal) -> None:
    limit = Number(written) if written >= 0 else negate(Number(-written))
    data = Rows({"x": pa.array([left], pa.int64()), "d": pa.array([Decimal(left)], pa.decimal128(38, 4))})
    expected = [OPS[op](Fraction(left), Fraction(written))]
    assert evaluate(Compare(op, Column("x"), limit), data).tolist() == expected
    assert evaluate(Compare(op, Column("d"), limit), data).tolist() == expected
    assert evaluate(Compare(op, limit, Column("x")), data).tolist() == [
        OPS[op](Fraction(written), Fraction(left))
    ]


@many
@given(ops, floats, st.one_of(int64s, uint64s, st.just(10**400)))
def test_float_column_integer_literal(op: str, left: float, written: int) -> None:
    limit = Number(written) if written >= 0 else negate(Number(-written))
    got = evaluate(Compare(op, Column("x"), limit), Rows({"x": [left]}))
    assert got.tolist() == [OPS[op](left, written)]


@many
@given(ops, st.text(max_size=4), st.text(max_size=4))
def test_texts_by_their_bytes(op: str, left: str, right: str) -> None:
    expected = [OPS[op](left.encode(), right.encode())]
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        data = Rows({"x": pa.array([left]).cast(kind), "y": pa.array([right])})
        assert evaluate(Compare(op, Column("x"), Column("y")), data).tolist() == expected
        literal = right.replace("'", "''")
        if "\0" not in right and "\\" not in right and "\r" not in right:
            assert evaluate(parse_expression(f"x {op} '{literal}'"), data).tolist() == expected


def test_the_contract_in_one_place() -> None:
    data = Rows({"i": pa.array([9007199254740993, 9007199254740992, None]), "f": [9007199254740992.0] * 3})
    for text, expected in [
        ("i = 9007199254740993", [True, False, False]),
        ("i > 9007199254740992.5", [True, False, False]),
        ("i < 9007199254740992.5", [False, True, False]),
        ("i > f", [True, False, False]),
        ("f < 9007199254740993", [True, True, True]),
        ("f = 9007199254740993", [False, False, False]),
        ("i <> 1e999", [True, True, False]),
        ("i < -1e999", [False, False, False]),
    ]:
        assert evaluate(parse_expression(text), data).tolist() == expected, text


def test_decimals_mean_what_is_written() -> None:
    data = Rows(
        {"d": pa.array([Decimal("0.10"), Decimal("0.11"), None], pa.decimal128(4, 2)), "f": [0.1, 0.2, 0.3]}
    )
    for text, expected in [
        ("d = 0.1", [True, False, False]),
        ("d > 0.105", [False, True, False]),
        ("d <> 0.105", [True, True, False]),
        ("d < 1000", [True, True, False]),
        ("d > -1000", [True, True, False]),
        ("d < 0.1 + 0.005", [True, False, False]),
        ("f = 0.1", [True, False, False]),
        ("d + 0 > 0.105", [False, True, False]),
    ]:
        got = evaluate(parse_expression(text), data)
        assert (got & [True, True, False] if "d" in text else got).tolist() == expected, text


UTC = datetime.UTC
MOMENTS = [
    datetime.datetime(2024, 2, 29, 12, 0, 0, 500_000, tzinfo=UTC),
    datetime.datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_and_texts(unit: str) -> None:
    for zone in (None, "UTC", "Europe/Berlin"):
        naive = [moment.replace(tzinfo=None, microsecond=0) for moment in MOMENTS]
        column = pa.array(naive, pa.timestamp(unit)).cast(
            pa.timestamp(unit, zone) if zone == "UTC" else pa.timestamp(unit)
        )
        if zone == "Europe/Berlin":
            column = pa.array(MOMENTS, pa.timestamp(unit, zone)) if unit != "s" else column
            naive = MOMENTS if unit != "s" else naive  # type: ignore[assignment]
        data = Rows({"t": column})
        assert evaluate(parse_expression("t > '2024-02-29'"), data).tolist() == [True, False]
        assert evaluate(parse_expression("t < '2024-02-29 12:00:00.6'"), data).tolist() == [True, True]
        assert evaluate(parse_expression("t >= '2024-02-29T13:00:00+01:00'"), data).tolist() == [True, False]
        assert evaluate(parse_expression("t < '2024-02-29T12:00:00.000000000001Z'"), data)[1]
        assert evaluate(parse_expression("t < 0"), data).tolist() == [False, True]
        assert evaluate(parse_expression("t - 1 > 0"), data).tolist() == [True, False]


def test_times_of_different_units_and_dates() -> None:
    data = Rows(
        {
            "s": pa.array([0, 1, -1, 9_000_000_000], pa.timestamp("s")),
            "n": pa.array([0, 1_000_000_001, -999_999_999, 2**63 - 1], pa.timestamp("ns")),
            "d": pa.array([0, 1, -1, 3], pa.date32()),
            "e": pa.array([0, 86_400_000, 0, 0], pa.date64()),
        }
    )
    assert evaluate(parse_expression("s < n"), data).tolist() == [False, True, True, True]
    assert evaluate(parse_expression("s <= s"), data).tolist() == [True] * 4
    assert evaluate(parse_expression("n <= s"), data).tolist() == [True, False, False, False]
    assert evaluate(parse_expression("s = n"), data).tolist() == [True, False, False, False]
    assert evaluate(parse_expression("d = e"), data).tolist() == [True, True, False, False]
    assert evaluate(parse_expression("d > '1970-01-01'"), data).tolist() == [False, True, False, True]
    assert evaluate(parse_expression("d >= '1970-01-01T00:00:01'"), data).tolist() == [
        False,
        True,
        False,
        True,
    ]


def test_parse_time() -> None:
    assert parse_time("1970-01-02") == 86_400_000_000_000
    assert parse_time("1970-01-01 00:00:00.0000000001") == Fraction(1, 10)
    assert parse_time("1969-12-31T23:59:59.5Z") == -500_000_000
    assert parse_time("1970-01-01T01:00:00+01:00") == 0
    for text in ("", "yesterday", "2024-13-01", "12:00", "2024-01-01 00:00:00.", "1e5"):
        assert parse_time(text) is None


def test_nulls_compare_as_false() -> None:
    data = Rows(
        {
            "i": pa.array([1, None]),
            "s": pa.array(["a", None]),
            "b": pa.array([True, None]),
            "u": pa.array([None, 2], pa.uint8()),
        }
    )
    for text in ("i = 1", "i <> 7", "s <> 'b'", "b", "i >= 1.0", "s = s", "i <= i", "b = TRUE"):
        assert evaluate(parse_expression(text), data).tolist() == [True, False], text
    assert evaluate(parse_expression("i < u"), data).tolist() == [False, False]


def test_small_integers() -> None:
    data = Rows({"x": pa.array([-128, 127], pa.int8()), "y": pa.array([255, 0], pa.uint8())})
    assert evaluate(parse_expression("x < y"), data).tolist() == [True, False]
    assert evaluate(parse_expression("x > 1000"), data).tolist() == [False, False]
    assert evaluate(parse_expression("x > 100 + 26.5"), data).tolist() == [False, True]
    assert evaluate(parse_expression("least(x, 0.5) > 0"), data).tolist() == [False, True]
    assert np.array_equal(evaluate(parse_expression("x + y"), data), [127.0, 127.0])
