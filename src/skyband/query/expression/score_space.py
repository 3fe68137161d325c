"""The space of a family: its score, for algorithms that keep the window's rows in an index.

The queries of a family have one shape of score over the same columns. The columns are the axes of a space; rows are
points; each query, with its own constants, prefers some corner. An index needs three things from a space: the canonical
score of many points, the preferred direction on each axis, and the best score that a point of a box can have.

Parts of a WHERE that limit one axis by a number (x >= 3 AND x < 5) make a *box* in that space. `split_box` takes them
out of the predicate and makes them limits of the single query, so that a thousand queries over a thousand boxes are one
family over one index. Limits are closed: x < 5 is x <= the float before 5. A text that a column must equal is a limit,
too, where numbers stand for the texts that queries name (stream/text_numbers.py).
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
    """One shape of score over its axes; greater `good` is better."""

    shape: Expression
    columns: tuple[str, ...]  # the axes: columns of the score, then columns that only boxes use
    sign: float  # +1: highest score first
    boxed: tuple[int, ...] = ()  # axes that have limits
    bounded: bool = False  # a threshold family: every row with good > threshold is an answer

    @cached_property
    def rendered(self) -> str | None:
        """The score (not multiplied by `sign`) as generated code, or None where its rounding could differ."""
        return render(self.shape, self.columns)

    def good(self, columns: Sequence[Floats], constants: Sequence[float] | Floats) -> Floats:
        """Return the canonical scores of points, greater is better; NaN where there is no score."""
        points = _Points(dict(zip(self.columns, columns, strict=True)))
        parameters = constants.tolist() if isinstance(constants, np.ndarray) else list(constants)
        score = np.asarray(evaluate(self.shape, points, parameters), dtype=np.float64)
        if score.ndim == 0:  # a score without columns
            score = np.full(len(points), float(score))
        return score if self.sign > 0 else np.negative(score)

    def directions(
        self, constants: Sequence[float] | Floats, box: Mapping[str, Interval] | None = None
    ) -> tuple[int | None, ...]:
        """Return for each axis +1 if `good` grows with it, -1 if it falls, 0 if it is constant, None if unknown.

        The proof is for the computed float64 values, with rounding, over a box (default: over all numbers).
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
        """Return the least and the greatest `good` that a point of each box can have, NaN not considered."""
        from skyband.query.expression.box_bounds import bounds

        box = {name: (low, high) for name, low, high in zip(self.columns, lows, highs, strict=True)}
        low, high = bounds(self.shape, box, [float(c) for c in constants])
        return (low, high) if self.sign > 0 else (np.negative(high), np.negative(low))


class _Points:
    """Columns of numbers as a Source."""

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
    where: Expression | None,
    fits: Callable[[str, bool], bool],
    number_of: Callable[[str, str], float | None] | None = None,
) -> tuple[Limits, Expression | None]:
    """Split a predicate into limits on the columns that `fits` accepts, and the rest.

    `fits(column, exact)` is called with exact=True if the number is exactly a float64. 0.1 is not exact: only a column
    of floats is compared with its nearest float64. `number_of(column, text)` returns the number for a text, or None if
    the column has no texts; without it texts are no limits.
    """
    limits: Limits = {}
    rest: list[Expression] = []
    for term in nodes.conjuncts(where):
        found = _limit(term)
        if found is not None and fits(found[0], found[2]):
            name, (low, high), _ = found
        elif (
            (text := text_limit(term)) is not None and number_of and (number := number_of(*text)) is not None
        ):
            name, low, high = text[0], number, number
        else:
            rest.append(term)
            continue
        old = limits.get(name, _EVERY)
        limits[name] = (max(old[0], low), min(old[1], high))
    return limits, nodes.all_of(rest) if rest else None


def _limit(term: Expression) -> tuple[str, Interval, bool] | None:
    """Return (column, closed limits, exact) of a comparison of a column with a number; None for any other term."""
    if not isinstance(term, Compare) or term.op not in MIRROR or term.op == "<>":
        return None
    for column, op, other in ((term.left, term.op, term.right), (term.right, MIRROR[term.op], term.left)):
        value = nodes.literal(other)
        if not isinstance(column, Column) or value is None:
            continue
        number = nodes.as_float(value)
        return column.key, _closed(op, number), number == value
    return None


def text_limit(term: Expression) -> tuple[str, str] | None:
    """Return (column, text) of a term that says that a column equals a text; None for any other term."""
    if not isinstance(term, Compare) or term.op != "=":
        return None
    for column, other in ((term.left, term.right), (term.right, term.left)):
        if isinstance(column, Column) and isinstance(other, nodes.Text):
            return column.key, other.value
    return None


def _closed(op: str, number: float) -> Interval:
    if op == ">":  # no number is greater than inf
        return math.nextafter(number, math.inf) if number < math.inf else math.nan, math.inf
    if op == ">=":
        return number, math.inf
    if op == "<":
        return -math.inf, math.nextafter(number, -math.inf) if number > -math.inf else math.nan
    if op == "<=":
        return -math.inf, number
    return number, number


def axes(shape: Expression, limits: Mapping[str, Interval]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the columns of a space, and the places of those that have limits."""
    columns = columns_of(shape)
    columns = (*columns, *sorted(name for name in limits if name not in columns))
    return columns, tuple(i for i, name in enumerate(columns) if name in limits)
