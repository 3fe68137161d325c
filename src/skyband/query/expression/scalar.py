"""Evaluate an expression on one row of plain Python values.

An array of one number costs numpy as much as a hundred. For one row a prepared chain of Python functions is twenty
times as fast, and has the same result to the last bit, as long as it does only what float64 arithmetic defines:
`number` and `condition` return None for any other expression, which `evaluate` serves. So it does where Python raises
and IEEE 754 has a value (1/0, the root of -1): the functions raise `UNSURE` then.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from skyband.query.expression import nodes
from skyband.query.expression.exact_compare import OPERATORS
from skyband.query.expression.nodes import MIRROR, Expression

Values = Sequence[Any]
Constants = Sequence[float]
Kinds = Mapping[str, tuple[int, type]]
"""By column, its place among the values, and their type: float, int, str or bool."""

UNSURE = (ZeroDivisionError, ValueError, OverflowError)
_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip


class _UnfitError(Exception):
    """The expression is not for one row of Python values."""


def number(e: Expression, kinds: Kinds) -> Callable[[Values, Constants], float] | None:
    """Return a function from a row's values and constants to the expression's value; None if there is none."""
    try:
        return _number(e, kinds)
    except _UnfitError:
        return None


def condition(e: Expression, kinds: Kinds) -> Callable[[Values], bool] | None:
    """Return a function from a row's values, none of them null or NaN, to whether a predicate is true."""
    try:
        return _condition(e, kinds)
    except _UnfitError:
        return None


def _number(e: Expression, kinds: Kinds) -> Callable[[Values, Constants], float]:
    match e:
        case nodes.Column():
            place, kind = kinds.get(e.key, (0, object))
            if kind is not float:
                raise _UnfitError
            return lambda values, _: values[place]
        case nodes.Number(value):
            fixed = nodes.as_float(value)
            return lambda _, __: fixed
        case nodes.Parameter(index):
            return lambda _, constants: constants[index]
        case nodes.Negate(operand):
            negated = _number(operand, kinds)
            return lambda values, constants: -negated(values, constants)
        case nodes.Arithmetic("^", base, exponent) if nodes.literal(exponent) == 2:
            root = _number(base, kinds)
            return lambda values, constants: _square(root(values, constants))
        case nodes.Arithmetic(op, left, right) if op in _ARITHMETIC:
            return _binary(op, left, right, kinds)
        case nodes.Call("abs", (argument,)):
            signed = _number(argument, kinds)
            return lambda values, constants: abs(signed(values, constants))
        case nodes.Call("sqrt", (argument,)):
            squared = _number(argument, kinds)
            return lambda values, constants: math.sqrt(squared(values, constants))
        case nodes.Call("dist", args):
            half = len(args) // 2
            pairs = zip(args[:half], args[half:], strict=True)
            gaps = [_binary("-", x, p, kinds) for x, p in pairs]
            return lambda values, constants: _root_of_squares(gap(values, constants) for gap in gaps)
        case _:
            raise _UnfitError


def _binary(
    op: str, left: Expression, right: Expression, kinds: Kinds
) -> Callable[[Values, Constants], float]:
    combine, one, other = _ARITHMETIC[op], _number(left, kinds), _number(right, kinds)
    if (
        op == "*" and isinstance(left, nodes.Parameter) and isinstance(right, nodes.Column)
    ):  # a weighted sum's term
        index, place = left.index, kinds[right.key][0]
        return lambda values, constants: constants[index] * values[place]
    return lambda values, constants: combine(one(values, constants), other(values, constants))


def _square(value: float) -> float:
    return value * value


def _root_of_squares(gaps: Any) -> float:
    total = None
    for gap in gaps:
        total = gap * gap if total is None else total + gap * gap
    return math.sqrt(total or 0.0)


def _condition(e: Expression, kinds: Kinds) -> Callable[[Values], bool]:
    match e:
        case nodes.Truth(value):
            return lambda _: value
        case nodes.Not(operand):
            denied = _condition(operand, kinds)
            return lambda values: not denied(values)
        case nodes.And(args):
            every = [_condition(arg, kinds) for arg in args]
            return lambda values: all([one(values) for one in every])
        case nodes.Or(args):
            some = [_condition(arg, kinds) for arg in args]
            return lambda values: any([one(values) for one in some])
        case nodes.Compare(op, left, right):
            if not nodes.columns_of(left):
                op, left, right = MIRROR[op], right, left
            return _comparison(op, left, right, kinds)
        case _:
            raise _UnfitError


def _comparison(op: str, left: Expression, right: Expression, kinds: Kinds) -> Callable[[Values], bool]:
    """A side with columns against a constant, or two sides of numbers that are float64."""
    compare = OPERATORS[op]
    kind = kinds.get(left.key, (0, object))[1] if isinstance(left, nodes.Column) else float
    if isinstance(right, nodes.Text):
        if kind is not str:
            raise _UnfitError
        text, place = right.value, kinds[left.key][0]  # type: ignore[union-attr]
        return lambda values: compare(values[place], text)
    written = nodes.literal(right)
    if written is None:
        one, other = _number(left, kinds), _number(right, kinds)
        return lambda values: compare(_sure(one(values, ())), _sure(other(values, ())))
    if isinstance(left, nodes.Column) and kind is int:
        place = kinds[left.key][0]
        return lambda values: compare(values[place], written)
    # a number with a decimal point is the nearest float64 where it is compared with one
    bound = float(written) if isinstance(written, Decimal) else written
    value = _number(left, kinds)
    return lambda values: compare(_sure(value(values, ())), bound)


def _sure(value: float) -> float:
    if value != value:
        raise ValueError("NaN is compared as numpy does")
    return value
