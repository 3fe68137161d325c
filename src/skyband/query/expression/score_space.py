"""The space of a family: its score as the algorithms know it that keep the window's rows.

Queries of one family have one shape of score over the same columns: the axes of a space in which rows are points
and each query, with constants of its own, prefers some corner. What an index needs is here: the canonical score of
many points, in which direction each axis is preferred, and the best score that any point of a box can have.

Parts of a WHERE that bound one axis by a number (x >= 3 AND x < 5) make a *box* in that space. They are taken out of
the predicate and become limits that each query has of its own, so that a thousand questions about a thousand boxes
are one family over one index. Limits are closed: x < 5 is x <= the float before 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.query.expression import nodes
from skyband.query.expression.codegen import render
from skyband.query.expression.evaluate import evaluate
from skyband.query.expression.interval import Interval
from skyband.query.expression.monotonicity import direction
from skyband.query.expression.nodes import MIRROR, Column, Compare, Expression, columns_of

Floats = npt.NDArray[np.float64]
Limits = dict[str, Interval]
_EVERY: Interval = (-math.inf, math.inf)
_SIGNS: dict[str, int | None] = {"increasing": 1, "decreasing": -1, "constant": 0, "neither": None}


@dataclass(frozen=True)
class Space:
    """One shape of score over its axes; more `good` is better."""

    shape: Expression
    columns: tuple[str, ...]  # the axes: columns of the score, then those that only boxes use
    sign: float  # +1: highest score first
    boxed: tuple[int, ...] = ()  # axes that carry limits
    bounded: bool = False  # a threshold family: every row with good > edge is an answer

    @cached_property
    def rendered(self) -> str | None:
        """The score (not turned by `sign`) as generated code, where that rounds like numpy."""
        return render(self.shape, self.columns)

    def good(self, columns: Sequence[Floats], constants: Sequence[float] | Floats) -> Floats:
        """The canonical scores of points, more is better; NaN where there is none."""
        points = _Points(dict(zip(self.columns, columns, strict=True)))
        parameters = constants.tolist() if isinstance(constants, np.ndarray) else list(constants)
        score = np.asarray(evaluate(self.shape, points, parameters), dtype=np.float64)
        if score.ndim == 0:  # a score without columns
            score = np.full(len(points), float(score))
        return score if self.sign > 0 else np.negative(score)

    def directions(
        self, constants: Sequence[float] | Floats, box: Mapping[str, Interval] | None = None
    ) -> tuple[int | None, ...]:
        """For each axis: +1 if good grows with it, -1 if it falls, 0 if it doesn't matter, None if neither is proved.

        Proved of the computed float64 values, rounding included, over a box (default: over all numbers).
        """
        parameters = [float(c) for c in constants]
        found = []
        for column in self.columns:
            sign = _SIGNS[direction(self.shape, column, box, parameters, exact=True)]
            found.append(None if sign is None else int(sign * self.sign))
        return tuple(found)

    def bounds(
        self, lows: Sequence[Floats], highs: Sequence[Floats], constants: Sequence[float] | Floats
    ) -> tuple[Floats, Floats]:
        """The least and the greatest `good` that a point of each box can have (a NaN apart), for many boxes at once."""
        from skyband.query.expression.box_bounds import bounds

        box = {name: (low, high) for name, low, high in zip(self.columns, lows, highs, strict=True)}
        low, high = bounds(self.shape, box, [float(c) for c in constants])
        return (low, high) if self.sign > 0 else (np.negative(high), np.negative(low))


class _Points:
    """Columns of numbers, as `evaluate` reads them."""

    def __init__(self, columns: dict[str, Floats]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def number(self, name: str) -> Floats:
        return self.columns[name]

    def array(self, name: str) -> Any:
        import pyarrow as pa

        return pa.array(self.columns[name])


def split_box(
    where: Expression | None, fits: Callable[[str, bool], bool]
) -> tuple[Limits, Expression | None]:
    """The limits that a predicate puts on columns that `fits` lets through, and what else it asks.

    `fits(column, exact)` is told whether the number is a float64 to the last digit: 0.1 is not, and only a column of
    floats is compared with the float nearest to it.
    """
    limits: Limits = {}
    rest: list[Expression] = []
    for term in nodes.conjuncts(where):
        found = _limit(term)
        if found is None or not fits(found[0], found[2]):
            rest.append(term)
            continue
        name, (low, high), _ = found
        old = limits.get(name, _EVERY)
        limits[name] = (max(old[0], low), min(old[1], high))
    return limits, nodes.all_of(rest) if rest else None


def _limit(term: Expression) -> tuple[str, Interval, bool] | None:
    """The column and the closed limits of a comparison of a column with a number; whether that is exactly a float."""
    if not isinstance(term, Compare) or term.op not in MIRROR or term.op == "<>":
        return None
    for column, op, other in ((term.left, term.op, term.right), (term.right, MIRROR[term.op], term.left)):
        value = nodes.literal(other)
        if not isinstance(column, Column) or value is None:
            continue
        number = nodes.as_float(value)
        return column.key, _closed(op, number), number == value
    return None


def _closed(op: str, number: float) -> Interval:
    if op == ">":
        return math.nextafter(
            number, math.inf
        ) if number < math.inf else math.nan, math.inf  # nothing is beyond
    if op == ">=":
        return number, math.inf
    if op == "<":
        return -math.inf, math.nextafter(number, -math.inf) if number > -math.inf else math.nan
    if op == "<=":
        return -math.inf, number
    return number, number


def axes(shape: Expression, limits: Mapping[str, Interval]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The columns of a space and which of them carry limits."""
    columns = columns_of(shape)
    columns = (*columns, *sorted(name for name in limits if name not in columns))
    return columns, tuple(i for i, name in enumerate(columns) if name in limits)
