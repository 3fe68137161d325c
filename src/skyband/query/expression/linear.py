"""Write a score as a weighted sum of its columns, where it is one.

`2 * x + 3 * (y - 1) / 4` is a sum of constant times column, plus a constant. Code that solves a score for one column
needs the weights. `linear` computes them for many queries of one shape at once, with the numbers that bound the
rounding error of the computed score.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from skyband.query.expression import nodes
from skyband.query.expression.nodes import Expression

Floats = npt.NDArray[np.float64]


class Weights(NamedTuple):
    """The score as offset + the sum of weight * column, one row a query."""

    offset: Floats  # [query]
    weight: Floats  # [query, column]
    size: Floats  # [query]: the sum of the absolute constants
    amount: Floats  # [query, column]: the sum of the absolute weights


def linear(shape: Expression, columns: Sequence[str], constants: Floats) -> Weights | None:
    """Return the weights of each query (a row of constants); None if the shape is not a weighted sum."""
    index = {name: i for i, name in enumerate(columns)}
    with np.errstate(all="ignore"):
        return _linear(shape, index, constants)


def _constant(value: Floats, columns: int) -> Weights:
    nothing = np.zeros((len(value), columns))
    return Weights(value, nothing, np.abs(value), nothing)


def _linear(e: Expression, index: dict[str, int], constants: Floats) -> Weights | None:
    queries, columns = len(constants), len(index)
    match e:
        case nodes.Column():
            unit = np.zeros((queries, columns))
            unit[:, index[e.key]] = 1.0
            return Weights(np.zeros(queries), unit, np.zeros(queries), unit)
        case nodes.Parameter(i):
            return _constant(constants[:, i].copy(), columns)
        case nodes.Number(value):
            return _constant(np.full(queries, nodes.as_float(value)), columns)
        case nodes.Negate(operand):
            return _times(_linear(operand, index, constants), np.full(queries, -1.0))
        case nodes.Arithmetic(("+" | "-") as op, left, right):
            one, other = _linear(left, index, constants), _linear(right, index, constants)
            if one is None or other is None:
                return None
            sign = 1.0 if op == "+" else -1.0
            return Weights(
                one.offset + sign * other.offset,
                one.weight + sign * other.weight,
                one.size + other.size,
                one.amount + other.amount,
            )
        case nodes.Arithmetic("*", left, right):
            one, other = _linear(left, index, constants), _linear(right, index, constants)
            if one is None or other is None:
                return None
            if not other.amount.any():
                return _times(one, other.offset)
            return _times(other, one.offset) if not one.amount.any() else None
        case nodes.Arithmetic("/", left, right):
            one, other = _linear(left, index, constants), _linear(right, index, constants)
            if one is None or other is None or other.amount.any():
                return None
            return _times(one, 1.0 / other.offset)
        case _:
            return None


def _times(w: Weights | None, factor: Floats) -> Weights | None:
    if w is None:
        return None
    positive = np.abs(factor)
    return Weights(
        w.offset * factor,
        w.weight * factor[:, None],
        w.size * positive,
        w.amount * positive[:, None],
    )
