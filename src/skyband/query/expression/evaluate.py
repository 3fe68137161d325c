"""Evaluating an expression on columns.

Numbers are float64 all the way, predicates are two-valued: rows with a null or a NaN in a column that a query
uses are kept out by the caller. No value raises or warns; 0/0 is NaN, 1/0 an infinity, ln(-1) NaN, and what is
too large an infinity, as IEEE 754 has it.

The result for a row depends on that row alone, to the last bit, wherever the batches are cut. numpy makes that
almost free, with one trap: its power takes shortcuts (a square, a root) that round differently when the exponent
has stride 0, which a batch of one row may have as well. So an exponent that is written as a number is treated as
such, x^2 is x*x by definition, and other exponents never come in arrays of one. For the same reason power, exp
and ln never write over their own input nor read backwards, where numpy would take another loop (one row of a
reversed column is read backwards, though numpy calls it contiguous). least and greatest are the first of
equal arguments and NaN if any is; numpy's own minimum leaves open which zero it takes.

Temporaries are reused: a node writes into its operand's array if that array is its own.
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
    """The expression's values, float64 for a number and bool for a predicate. Don't write into the result:
    a plain column is the source's own array."""
    with np.errstate(all="ignore"):
        if is_predicate(e, source):
            return _spread(predicate(e, source, constants), len(source), np.bool_)
        return _spread(_number(e, source, constants)[0], len(source), np.float64)


def constant_value(e: Expression, constants: Sequence[float] = ()) -> float:
    """The value of a numeric expression that has no columns; the same bits as evaluate gives."""
    with np.errstate(all="ignore"):
        return float(_number(e, _NoColumns(), constants)[0])


class _NoColumns:  # pragma: no cover (a constant asks for nothing)
    def __len__(self) -> int:
        return 1

    def number(self, name: str) -> Floats:
        raise KeyError(name)

    def array(self, name: str) -> pa.Array:
        raise KeyError(name)


def is_predicate(e: Expression, source: Source) -> bool:
    """Whether the expression is true or false; a column is if its type is bool."""
    if isinstance(e, nodes.Column):
        return bool(pa.types.is_boolean(source.array(e.key).type))
    return isinstance(e, nodes.Truth | nodes.Compare | nodes.And | nodes.Or | nodes.Not)


def _spread(value: Any, length: int, dtype: Any) -> Any:
    """One value for all rows becomes a column."""
    return value if isinstance(value, np.ndarray) else np.full(length, value, dtype=dtype)


# -- predicates


def predicate(e: Expression, source: Source, constants: Sequence[float]) -> Any:
    """The truth of each row, or one truth for all."""
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
    """A numeric expression's column, or one number for all rows. For callers inside np.errstate."""
    return _number(e, source, constants)[0]


def _number(e: Expression, source: Source, constants: Sequence[float]) -> tuple[Value, bool]:
    """The values, and whether their array is ours to write into."""
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
        case nodes.Call(("abs" | "sqrt") as name, args):
            return _unary(np.absolute if name == "abs" else np.sqrt, _number(args[0], source, constants))
        case nodes.Call(("exp" | "ln") as name, args):
            argument = _forward(_number(args[0], source, constants)[0])
            return (np.exp if name == "exp" else np.log)(argument), True
        case _:
            raise TypeError(f"{type(e).__name__} is not a number")


_UFUNCS: dict[str, np.ufunc] = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}


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
    """The values as numpy reads them forwards; see the module's text."""
    return values.copy() if isinstance(values, np.ndarray) and values.strides != (8,) else values


def _choose(better: np.ufunc, x: Value, y: Value, own: bool) -> tuple[Value, bool]:
    """x where it is as good as y or NaN, else y."""
    take = better(x, y)
    take |= np.isnan(x)
    if not isinstance(take, np.ndarray):
        return (x if take else y), False
    if own and isinstance(y, np.ndarray):
        np.copyto(y, x, where=take)
        return y, True
    return np.where(take, x, y), True


def _dist(args: tuple[Expression, ...], source: Source, constants: Sequence[float]) -> tuple[Value, bool]:
    """The root of the sum, from left to right, of the squared differences."""
    half = len(args) // 2
    total: tuple[Value, bool] | None = None
    for x, p in zip(args[:half], args[half:], strict=True):
        gap = _binary(np.subtract, _number(x, source, constants), _number(p, source, constants))
        square = _binary(np.multiply, gap, gap)
        total = square if total is None else _binary(np.add, total, square)
    assert total is not None
    return _unary(np.sqrt, total)
