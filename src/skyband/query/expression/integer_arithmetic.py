"""Integer arithmetic inside a comparison, without float64.

`x + 1 > 9007199254740992` over an integer column compares integers. Sums, differences, products, abs, least and
greatest of integers are computed in int64 where the ranges of the batch's values show that they can't overflow, and
else in Python integers. These are slower; the result for a row is the same whatever the other rows are. Quotients and
powers are float64, as in all other expressions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.query.expression import nodes
from skyband.query.expression.source import Source, decoded

_LOW, _HIGH = -(2**63), 2**63 - 1


class Integers(NamedTuple):
    """Integer values (an array of int64 or of Python integers, or one value), their validity, and their range.

    `valid` is False where a value is null; None if no value is.
    """

    data: Any
    valid: Any
    low: int
    high: int


def integers_of(e: nodes.Expression, source: Source) -> Integers | None:
    """Return the values of an integer expression; None if it is not one."""
    match e:
        case nodes.Number(value):
            return Integers(value, None, value, value) if isinstance(value, int) else None
        case nodes.Column():
            return _column(source.array(e.key))
        case nodes.Negate(operand):
            return _binary("-", Integers(0, None, 0, 0), integers_of(operand, source))
        case nodes.Arithmetic(("+" | "-" | "*") as op, left, right):
            return _binary(op, integers_of(left, source), integers_of(right, source))
        case nodes.Call("abs", (arg,)):
            one = integers_of(arg, source)
            return (
                None if one is None else _choose("greatest", one, _binary("-", Integers(0, None, 0, 0), one))
            )
        case nodes.Call(("least" | "greatest") as name, args):
            result = integers_of(args[0], source)
            for arg in args[1:]:
                result = _choose(name, result, integers_of(arg, source))
            return result
        case _:
            return None


def _column(array: pa.Array) -> Integers | None:
    array = decoded(array)
    if not pa.types.is_integer(array.type):
        return None
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    data = (array.fill_null(0) if array.null_count else array).to_numpy(zero_copy_only=False)
    low, high = (int(data.min()), int(data.max())) if len(data) else (0, 0)
    return Integers(data.astype(np.int64 if high <= _HIGH else object), valid, low, high)


def _binary(op: str, left: Integers | None, right: Integers | None) -> Integers | None:
    if left is None or right is None:
        return None
    if op == "+":
        low, high = left.low + right.low, left.high + right.high
    elif op == "-":
        low, high = left.low - right.high, left.high - right.low
    else:
        corners = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
        low, high = min(corners), max(corners)
    a, b = _fitting(left, right, low, high)
    data = a + b if op == "+" else a - b if op == "-" else a * b
    return Integers(data, _both(left.valid, right.valid), low, high)


def _fitting(left: Integers, right: Integers, low: int, high: int) -> tuple[Any, Any]:
    """Return the values of both sides in a type that holds them and the result."""
    ends = (left.low, left.high, right.low, right.high, low, high)
    if min(ends) >= _LOW and max(ends) <= _HIGH:
        return left.data, right.data
    return tuple(
        one.data.astype(object) if isinstance(one.data, np.ndarray) else one.data for one in (left, right)
    )  # type: ignore[return-value]


def _choose(name: str, left: Integers | None, right: Integers | None) -> Integers | None:
    if left is None or right is None:
        return None
    pick, ufunc = (min, np.minimum) if name == "least" else (max, np.maximum)
    low, high = pick(left.low, right.low), pick(left.high, right.high)
    return Integers(ufunc(*_fitting(left, right, low, high)), _both(left.valid, right.valid), low, high)


def _both(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a & b
