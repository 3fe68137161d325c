"""Exact comparisons.

9007199254740993 and 9007199254740992 are the same float64, so a comparison depends on the types of its two sides. An
integer column is compared with a literal, another integer column or a float without rounding; a decimal column with a
literal in the unscaled integers of the column; a time with a time, a number of seconds or an ISO text in integer
units; strings by their bytes, in Arrow. Integer arithmetic (x + 1) gives int64, or Python integers where these
overflow. All other arithmetic gives float64.

A literal with a decimal point is the decimal as written when it is compared with integers, decimals or times, and its
nearest float64 when it is compared with floats, so that a float column of 0.1 equals 0.1. An integer literal is always
exact. A comparison with a null is false.
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
    """One side of a comparison.

    `kind` is constant, text, integers, bigs (Python integers), floats, decimals, times, strings or bools. `unit` is the
    unit of a time in nanoseconds. `valid` is False where the value is null, or None if no value is. `seconds` returns a
    time as float64.
    """

    kind: str
    data: Any
    unit: int = 1
    valid: Any = None
    seconds: Callable[[], Any] | None = None


def column_operand(name: str, source: Source) -> Operand:
    """Return a column as one side of a comparison."""
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
    """Return a bool column as a numpy array; null counts as false."""
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
    """Return the nanoseconds since 1970 of an ISO 8601 date or time (UTC unless it names a zone), or None."""
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
    """Compare two sides row by row, or once if neither is a column."""
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
        assert moment is not None, "check() refuses a text that is not a time"
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
    """Compare Python integers with any numbers; Python does it exactly."""
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
    """Return the number as written, as a fraction; an infinity stays a float."""
    if isinstance(value, float):
        return value if math.isinf(value) else Fraction(Decimal(repr(value)))
    return Fraction(value)


def _constant_below(op: str) -> bool:
    """Return the truth of `x op c` for every x if c is less than all of them."""
    return op in (">", ">=", "<>")


def _constant_above(op: str) -> bool:
    """Return the truth of `x op c` for every x if c is greater than all of them."""
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
    # c is between two integers: x < c and x <= c are both x <= floor(c)
    if op in ("=", "<>"):
        return np.full(len(data), op == "<>")
    return OPERATORS["<=" if op in ("<", "<=") else ">"](data, data.dtype.type(floor))


def _floats_constant(op: str, data: Any, value: int | float | Decimal) -> Any:
    near = nodes.as_float(value)
    if not isinstance(value, int) or (not math.isinf(near) and int(near) == value):
        return OPERATORS[op](data, near)
    # the integer is between two floats
    below = near if near < value else math.nextafter(near, -math.inf)
    if op in ("=", "<>"):
        return np.full_like(data, op == "<>", dtype=bool)
    return OPERATORS["<=" if op in ("<", "<=") else ">"](data, below)


def _integers(op: str, left: Any, right: Any) -> Any:
    if left.dtype == right.dtype:
        return OPERATORS[op](left, right)
    if left.dtype == np.uint64:
        return _integers(MIRROR[op], right, left)
    # int64 with uint64: a negative value is the smaller one, other values fit uint64
    negative = left < 0
    result = OPERATORS[op](left.astype(np.uint64), right)
    result[negative] = _constant_above(op)
    return result


def _integers_floats(op: str, whole: Any, floats: Any) -> Any:
    """Compare integers with float64: compare with the floor, which is an integer, and consider the fraction."""
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
    # whole == floor(f): less than f if f has a fraction, else equal to it
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
    # compare the coarser time with quotient and remainder of the finer one: a product could overflow
    whole, rest = np.divmod(right.data, ratio)
    order = np.sign((left.data > whole).astype(np.int8) - (left.data < whole).astype(np.int8))
    order = np.where((order == 0) & (rest > 0), -1, order)
    return OPERATORS[op](order, 0)


def _decimals_constant(op: str, array: pa.Array, value: Fraction | float) -> Any:
    """Compare a decimal column with a constant, in the integer units of the column's scale."""
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
    """Compare decimals with a column: Python compares Decimal, int and float exactly, and this case is rare."""
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
