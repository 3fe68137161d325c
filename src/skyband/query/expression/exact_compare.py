"""Comparisons that are exact.

float64 can't tell 9007199254740993 from 9007199254740992, so a comparison looks at what its two sides are. An
integer column meets a literal, another integer column or a float without being rounded; a decimal column meets
a literal in its own unscaled integers; a time meets a time, a number of seconds or an ISO text in whole units;
strings meet in Arrow, by their bytes. What is computed of integers (x + 1) is an integer, of 64 bits where these hold
them, and Python's own where they don't; anything else that is computed is float64 and is compared as that.

A literal with a point means the decimal that was written when it meets integers, decimals or times, and its
nearest float64 when it meets floats, so that a float column of 0.1 equals 0.1. An integer literal is exact
everywhere. Where a value is null, the comparison is false.
"""

from __future__ import annotations

import datetime
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.query.expression import nodes
from skyband.query.expression.nodes import MIRROR
from skyband.query.expression.source import Source, decoded

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "<>": operator.ne,
}  # fmt: skip
ARROW = {
    "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal, "=": pc.equal, "<>": pc.not_equal,
}  # fmt: skip
NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
DAY = 86_400_000_000_000


@dataclass
class Operand:
    """One side of a comparison. `kind` is constant, text, integers, bigs, floats, decimals, times, strings or bools;
    `unit` is a time's in nanoseconds; `valid` is False where the value is null, or None if none is;
    `seconds` gives a time as float64."""

    kind: str
    data: Any
    unit: int = 1
    valid: Any = None
    seconds: Callable[[], Any] | None = None


def column_operand(name: str, source: Source) -> Operand:
    array = decoded(source.array(name))
    kind = array.type
    if pa.types.is_floating(kind):
        return Operand("floats", source.number(name))
    valid = None
    if array.null_count:
        valid = array.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_integer(kind):
        wide = pa.uint64() if kind == pa.uint64() else pa.int64()
        return Operand("integers", _whole(array.cast(wide)), valid=valid)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        data, unit = _time(array)
        return Operand("times", data, unit, valid, lambda: source.number(name))
    if pa.types.is_boolean(kind):
        return Operand("bools", booleans(array), valid=valid)
    if pa.types.is_decimal(kind):
        return Operand("decimals", array, valid=valid)
    return Operand("strings", array, valid=valid)


def booleans(array: pa.Array) -> Any:
    """A bool column; null counts as false."""
    array = decoded(array)
    if array.null_count:
        array = pc.fill_null(array, False)
    return array.to_numpy(zero_copy_only=False)


def _whole(array: pa.Array) -> Any:
    if array.null_count:
        array = pc.fill_null(array, 0)
    return array.to_numpy(zero_copy_only=False)


def _time(array: pa.Array) -> tuple[Any, int]:
    kind = array.type
    if pa.types.is_date32(kind):
        return _whole(array.cast(pa.int32()).cast(pa.int64())), DAY
    unit = NANOSECONDS["ms"] if pa.types.is_date64(kind) else NANOSECONDS[kind.unit]
    return _whole(array.cast(pa.int64())), unit


def parse_time(text: str) -> Fraction | None:
    """Nanoseconds since 1970 of an ISO 8601 date or time, UTC where it says nothing else; None if it is none."""
    body, rest = text.strip(), Fraction(0)
    mark = body.find(".")
    if mark > 0:
        end = mark + 1
        while end < len(body) and body[end].isascii() and body[end].isdigit():
            end += 1
        if end == mark + 1:
            return None
        rest = Fraction(int(body[mark + 1 : end]), 10 ** (end - mark - 1))
        body = body[:mark] + body[end:]
    try:
        moment = datetime.datetime.fromisoformat(body)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    since = moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    micros = since // datetime.timedelta(microseconds=1)
    return micros * 1000 + rest * 1_000_000_000


# -- comparing


def compare(op: str, left: Operand, right: Operand) -> Any:
    """Compare two sides, row by row (or once, if neither is a column)."""
    if left.kind in ("constant", "text") and right.kind not in ("constant", "text"):
        op, left, right = MIRROR[op], right, left
    result = _compare(op, left, right)
    for side in (left, right):
        if side.valid is not None:
            result = np.logical_and(result, side.valid)
    return result


def _compare(op: str, left: Operand, right: Operand) -> Any:
    kinds = (left.kind, right.kind)
    if "bigs" in kinds:
        return _bigs(op, left, right)
    if right.kind == "constant":
        return _with_constant(op, left, right.data)
    if kinds == ("times", "text"):
        moment = parse_time(right.data)
        assert moment is not None, "check() refuses a text that is no time"
        return _integers_constant(op, left.data, moment / left.unit)
    if "decimals" in kinds:
        return _objects(op, left, right)
    if kinds == ("times", "times"):
        return _times(op, left, right)
    if kinds == ("integers", "integers"):
        return _integers(op, left.data, right.data)
    if left.kind in ("strings", "text"):
        return _strings(op, left, right)
    if kinds == ("integers", "floats"):
        return _integers_floats(op, left.data, right.data)
    if kinds == ("floats", "integers"):
        return _integers_floats(MIRROR[op], right.data, left.data)
    return OPERATORS[op](_floats(left), _floats(right))


def _bigs(op: str, left: Operand, right: Operand) -> Any:
    """Python's integers against anything numeric: Python compares them exactly."""
    length = len(left.data if left.kind == "bigs" else right.data)
    a, b = (
        [exactly(one.data)] * length
        if one.kind == "constant"
        else np.broadcast_to(_floats(one), length).tolist()
        for one in (left, right)
    )
    return np.fromiter(map(OPERATORS[op], a, b), dtype=bool, count=length)


def _floats(side: Operand) -> Any:
    return side.seconds() if side.seconds is not None else side.data


def _with_constant(op: str, left: Operand, value: int | float | Decimal) -> Any:
    if left.kind == "integers":
        return _integers_constant(op, left.data, exactly(value))
    if left.kind == "times":
        exact = exactly(value)
        scaled = exact if isinstance(exact, float) else exact * NANOSECONDS["s"] / left.unit
        return _integers_constant(op, left.data, scaled)
    if left.kind == "decimals":
        return _decimals_constant(op, left.data, exactly(value))
    if left.kind == "constant":
        return np.bool_(OPERATORS[op](exactly(left.data), exactly(value)))
    return _floats_constant(op, left.data, value)


def exactly(value: int | float | Decimal) -> Fraction | float:
    """The number that was written, as a fraction; an infinity stays a float."""
    if isinstance(value, float):
        return value if math.isinf(value) else Fraction(Decimal(repr(value)))
    return Fraction(value)


def _constant_below(op: str) -> bool:
    """The truth of `x op c` for every x if c is below all of them."""
    return op in (">", ">=", "<>")


def _constant_above(op: str) -> bool:
    return op in ("<", "<=", "<>")


def _integers_constant(op: str, data: Any, value: Fraction | float) -> Any:
    limits = np.iinfo(data.dtype)
    if value < int(limits.min):
        return np.full(len(data), _constant_below(op))
    if value > int(limits.max):
        return np.full(len(data), _constant_above(op))
    assert isinstance(value, Fraction)
    floor = value.numerator // value.denominator
    if value.denominator == 1:
        return OPERATORS[op](data, data.dtype.type(floor))
    # Between two integers: x < c and x <= c are both x <= floor(c).
    if op in ("=", "<>"):
        return np.full(len(data), op == "<>")
    return OPERATORS["<=" if op in ("<", "<=") else ">"](data, data.dtype.type(floor))


def _floats_constant(op: str, data: Any, value: int | float | Decimal) -> Any:
    near = nodes.as_float(value)
    if not isinstance(value, int) or (not math.isinf(near) and int(near) == value):
        return OPERATORS[op](data, near)
    # An integer between two floats.
    below = near if near < value else math.nextafter(near, -math.inf)
    if op in ("=", "<>"):
        return (
            np.logical_not(np.zeros_like(data, dtype=bool)) if op == "<>" else np.zeros_like(data, dtype=bool)
        )
    return OPERATORS["<=" if op in ("<", "<=") else ">"](data, below)


def _integers(op: str, left: Any, right: Any) -> Any:
    if left.dtype == right.dtype:
        return OPERATORS[op](left, right)
    if left.dtype == np.uint64:
        return _integers(MIRROR[op], right, left)
    # int64 against uint64: where the signed one is negative it is the smaller, else both fit uint64.
    negative = left < 0
    result = OPERATORS[op](left.astype(np.uint64), right)
    result[negative] = _constant_above(op)
    return result


def _integers_floats(op: str, whole: Any, floats: Any) -> Any:
    """Integers against float64: compare with the floor, which is an integer, and remember what was cut off."""
    floats = np.broadcast_to(np.asarray(floats, dtype=np.float64), whole.shape)
    low, high = (-(2.0**63), 2.0**63) if whole.dtype == np.int64 else (0.0, 2.0**64)
    floor = np.floor(floats)
    inside = (floor >= low) & (floor < high)
    target = np.where(inside, floor, 0.0).astype(whole.dtype)
    fraction = floats > floor
    if op in ("=", "<>"):
        equal = inside & ~fraction & (whole == target)
        return equal if op == "=" else ~equal
    strict = OPERATORS["<" if op in ("<", "<=") else ">"](whole, target)
    # whole == floor(f): smaller than f if something was cut off, else equal to it.
    tie = fraction if op in ("<", "<=") else np.zeros_like(fraction)
    if op in ("<=", ">="):
        tie = tie | ~fraction
    result = strict | ((whole == target) & tie)
    result = np.where(inside, result, False)
    if op in ("<", "<="):
        return result | (floor >= high)
    return result | (floor < low)


def _times(op: str, left: Operand, right: Operand) -> Any:
    if left.unit < right.unit:
        return _times(MIRROR[op], right, left)
    ratio = left.unit // right.unit
    if ratio == 1:
        return OPERATORS[op](left.data, right.data)
    # The coarser time against the finer one's whole part and rest: no multiplication that could overflow.
    whole, rest = np.divmod(right.data, ratio)
    order = np.sign((left.data > whole).astype(np.int8) - (left.data < whole).astype(np.int8))
    order = np.where((order == 0) & (rest > 0), -1, order)
    return OPERATORS[op](order, 0)


def _decimals_constant(op: str, array: pa.Array, value: Fraction | float) -> Any:
    """In units of the column's scale, which are integers."""
    kind = array.type
    scaled = value if isinstance(value, float) else value * Fraction(10) ** kind.scale
    most = 10**kind.precision - 1
    if scaled < -most:
        return np.full(len(array), _constant_below(op))
    if scaled > most:
        return np.full(len(array), _constant_above(op))
    assert isinstance(scaled, Fraction)
    if scaled.denominator != 1:
        if op in ("=", "<>"):
            return np.full(len(array), op == "<>")
        op = "<=" if op in ("<", "<=") else ">"
    floor = scaled.numerator // scaled.denominator
    sign, digits = int(floor < 0), tuple(int(digit) for digit in str(abs(floor)))
    limit = pa.scalar(Decimal((sign, digits, -kind.scale)), type=kind)
    return booleans(ARROW[op](array, limit))


def _objects(op: str, left: Operand, right: Operand) -> Any:
    """Decimals against a column: Python compares Decimal, int and float exactly, and this is rare."""
    length = max(len(side.data) for side in (left, right) if hasattr(side.data, "__len__"))
    columns = [_python_values(side, length) for side in (left, right)]
    pairs = zip(*columns, strict=True)
    return np.array([x is not None and y is not None and OPERATORS[op](x, y) for x, y in pairs], dtype=bool)


def _python_values(side: Operand, length: int) -> list[Any]:
    if side.kind == "decimals":
        return list(side.data.to_pylist())
    values: list[Any] = np.broadcast_to(np.asarray(_floats(side)), (length,)).tolist()
    return values


def _strings(op: str, left: Operand, right: Operand) -> Any:
    if left.kind == "text":
        return np.bool_(OPERATORS[op](left.data.encode(), right.data.encode()))
    if right.kind == "text":
        return booleans(ARROW[op](left.data, pa.scalar(right.data, type=left.data.type)))
    one, other = left.data, right.data
    if one.type != other.type:
        one, other = one.cast(pa.large_string()), other.cast(pa.large_string())
    return booleans(ARROW[op](one, other))
