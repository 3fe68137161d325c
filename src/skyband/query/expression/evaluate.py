"""Evaluate an expression on columns.

Numbers are float64 throughout; predicates are two-valued, since the caller removes rows with a null or a NaN in a
column that the query uses. No value raises or warns: 0/0 and ln(-1) are NaN, 1/0 and overflow are infinities, as in
IEEE 754.

The result for a row depends on that row alone, to the last bit, however the batches are cut. numpy does this at almost
no cost, with one exception: its power takes shortcuts (a square, a root) that round differently when the exponent has
stride 0, and a batch of one row may have stride 0 too. So an exponent that is written as a number stays a number, x^2
is x*x by definition, and other exponents never come in arrays of one. For the same reason power, exp and ln never
write into their own input and never read backwards, since numpy takes another loop there (one row of a reversed column
is read backwards, although numpy calls it contiguous). least and greatest return the first of equal arguments, and NaN
if any argument is NaN; numpy's minimum does not define which zero it returns.

Temporary arrays are reused: a node writes into the array of an operand if that array is a temporary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.query.expression import nodes
from skyband.query.expression.exact_compare import Operand, booleans, column_operand, compare
from skyband.query.expression.integer_arithmetic import integers_of
from skyband.query.expression.nodes import Expression
from skyband.query.expression.source import Floats, Source

Value = Floats | np.float64
"""A column of numbers, or one number for all rows."""


def evaluate(e: Expression, source: Source, constants: Sequence[float] = ()) -> Any:
    """Return the expression's values: float64 for a number, bool for a predicate.

    The result is read-only for the caller: for a plain column it is the source's own array.
    """
    with np.errstate(all="ignore"):
        if is_predicate(e, source):
            return _spread(predicate(e, source, constants), len(source), np.bool_)
        return _spread(_number(e, source, constants)[0], len(source), np.float64)


def constant_value(e: Expression, constants: Sequence[float] = ()) -> float:
    """Return the value of a numeric expression without columns, with the same bits as `evaluate`."""
    with np.errstate(all="ignore"):
        return float(_number(e, _NoColumns(), constants)[0])


class _NoColumns:  # pragma: no cover (a constant reads no column)
    def __len__(self) -> int:
        return 1

    def number(self, name: str) -> Floats:
        raise KeyError(name)

    def array(self, name: str) -> pa.Array:
        raise KeyError(name)


def is_predicate(e: Expression, source: Source) -> bool:
    """Whether the expression is a predicate; a column is one if its type is bool."""
    if isinstance(e, nodes.Column):
        return bool(pa.types.is_boolean(source.array(e.key).type))
    return isinstance(e, nodes.Truth | nodes.Compare | nodes.And | nodes.Or | nodes.Not)


def _spread(value: Any, length: int, dtype: Any) -> Any:
    """Repeat one value for all rows as a column; return a column as it is."""
    return value if isinstance(value, np.ndarray) else np.full(length, value, dtype=dtype)


# -- predicates


def predicate(e: Expression, source: Source, constants: Sequence[float]) -> Any:
    """Return the truth value of each row, or one for all rows."""
    match e:
        case nodes.Truth(value):
            return np.bool_(value)
        case nodes.Not(operand):
            return np.logical_not(predicate(operand, source, constants))
        case nodes.And(args):
            return _fold(np.logical_and, args, source, constants)
        case nodes.Or(args):
            return _fold(np.logical_or, args, source, constants)
        case nodes.Compare(op, left, right):
            return compare(op, _side(left, source, constants), _side(right, source, constants))
        case nodes.Column():
            return booleans(source.array(e.key))
        case _:
            raise TypeError(f"{type(e).__name__} is not a predicate")


def _side(e: Expression, source: Source, constants: Sequence[float]) -> Operand:
    """Return one side of a comparison with its values, exact where they can be."""
    written = nodes.literal(e)
    if written is not None:
        return Operand("constant", written)
    if isinstance(e, nodes.Text):
        return Operand("text", e.value)
    if isinstance(e, nodes.Column):
        return column_operand(e.key, source)
    if is_predicate(e, source):
        return Operand("bools", predicate(e, source, constants))
    if nodes.columns_of(e):
        exact = integers_of(e, source)
        if exact is not None:
            kind = "bigs" if exact.data.dtype == object else "integers"
            return Operand(kind, exact.data, valid=exact.valid)
    return Operand("floats", number(e, source, constants))


def _fold(ufunc: np.ufunc, args: tuple[Expression, ...], source: Source, constants: Sequence[float]) -> Any:
    result: Any = predicate(args[0], source, constants)
    for arg in args[1:]:
        result = ufunc(result, predicate(arg, source, constants))
    return result


# -- numbers


def number(e: Expression, source: Source, constants: Sequence[float] = ()) -> Value:
    """Return a numeric expression's column, or one number for all rows. The caller sets np.errstate."""
    return _number(e, source, constants)[0]


def _number(e: Expression, source: Source, constants: Sequence[float]) -> tuple[Value, bool]:
    """Return the values, and whether their array is a temporary that the caller may write into."""
    match e:
        case nodes.Column():
            return source.number(e.key), False
        case nodes.Number(value):
            return np.float64(nodes.as_float(value)), False
        case nodes.Parameter(index):
            return np.float64(constants[index]), False
        case nodes.Negate(operand):
            return _unary(np.negative, _number(operand, source, constants))
        case nodes.Arithmetic("^", base, exponent):
            return _power(base, exponent, source, constants)
        case nodes.Arithmetic(op, left, right):
            return _binary(_UFUNCS[op], _number(left, source, constants), _number(right, source, constants))
        case nodes.Call("dist", args):
            return _dist(args, source, constants)
        case nodes.Call(("least" | "greatest") as name, args):
            choose = np.less_equal if name == "least" else np.greater_equal
            result = _number(args[0], source, constants)
            for arg in args[1:]:
                result = _choose(choose, result[0], *_number(arg, source, constants))
            return result
        case nodes.Call(("abs" | "sign" | "sqrt") as name, args):
            return _unary(_EXACT[name], _number(args[0], source, constants))
        case nodes.Call(("exp" | "ln") as name, args):
            argument = _forward(_number(args[0], source, constants)[0])
            return (np.exp if name == "exp" else np.log)(argument), True
        case _:
            raise TypeError(f"{type(e).__name__} is not a number")


_UFUNCS: dict[str, np.ufunc] = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}

_EXACT: dict[str, np.ufunc] = {"abs": np.absolute, "sign": np.sign, "sqrt": np.sqrt}  # exactly rounded


def _unary(ufunc: Callable[..., Any], operand: tuple[Value, bool]) -> tuple[Value, bool]:
    value, own = operand
    if own and isinstance(value, np.ndarray):
        return ufunc(value, out=value), True
    return ufunc(value), True


def _binary(ufunc: np.ufunc, left: tuple[Value, bool], right: tuple[Value, bool]) -> tuple[Value, bool]:
    for value, own in (left, right):
        if own and isinstance(value, np.ndarray):
            return ufunc(left[0], right[0], out=value), True
    return ufunc(left[0], right[0]), True


def _power(
    base: Expression, exponent: Expression, source: Source, constants: Sequence[float]
) -> tuple[Value, bool]:
    x, own = _number(base, source, constants)
    if nodes.literal(exponent) == 2:
        return _binary(np.multiply, (x, own), (x, own))
    x, y = _forward(x), _forward(_number(exponent, source, constants)[0])
    if isinstance(y, np.ndarray) and len(y) == 1:  # see the module's text
        return np.power(np.repeat(x, 2) if isinstance(x, np.ndarray) else x, np.repeat(y, 2))[:1].copy(), True
    return np.power(x, y), True


def _forward(values: Value) -> Value:
    """Return the values in an array that numpy reads forwards; see the module's text."""
    return values.copy() if isinstance(values, np.ndarray) and values.strides != (8,) else values


def _choose(better: np.ufunc, x: Value, y: Value, own: bool) -> tuple[Value, bool]:
    """Return x where it is as good as y or is NaN, else y."""
    take = better(x, y)
    take |= np.isnan(x)
    if not isinstance(take, np.ndarray):
        return (x if take else y), False
    if own and isinstance(y, np.ndarray):
        np.copyto(y, x, where=take)
        return y, True
    return np.where(take, x, y), True


def _dist(args: tuple[Expression, ...], source: Source, constants: Sequence[float]) -> tuple[Value, bool]:
    """Return the root of the sum, from left to right, of the squared differences."""
    half = len(args) // 2
    total: tuple[Value, bool] | None = None
    for x, p in zip(args[:half], args[half:], strict=True):
        gap = _binary(np.subtract, _number(x, source, constants), _number(p, source, constants))
        square = _binary(np.multiply, gap, gap)
        total = square if total is None else _binary(np.add, total, square)
    assert total is not None
    return _unary(np.sqrt, total)
