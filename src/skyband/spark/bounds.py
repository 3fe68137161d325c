"""Many threshold queries as one gate: each asks for a score that reaches a bar, and the bar is its bound.

A threshold query's predicate keeps rows out as it is, but hundreds of predicates are hundreds of tests a row. Those
whose scores have one shape are made into one family, as if they asked for the best rows by that score: one map, one set
of cells or a few scores against bars then serve them all. Of queries with the same score the lowest bound counts. What
else they ask of a row counts if all ask the same; else it is left to the engine, which looks at all rows that pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from skyband.core.types import Floats
from skyband.engine.batch_filter import Family
from skyband.engine.row_group import Group
from skyband.query.expression import lift
from skyband.query.expression.nodes import Expression, all_of, conjuncts
from skyband.query.expression.threshold import split
from skyband.query.model import Rows, TopK

from .columns import loosened

_NOT_YET = object()


@dataclass
class _Shape:
    """Threshold queries whose scores have one shape."""

    descending: bool
    rest: object = _NOT_YET  # what else all of them ask of a row
    bars: dict[tuple[float, ...], tuple[Expression, float]] = field(default_factory=dict)  # by constants

    def add(self, score: Expression, bound: float, rest: Expression | None) -> None:
        self.rest = rest if self.rest in (_NOT_YET, rest) else None
        bar = loosened(">=", bound if self.descending else -bound)
        constants = lift(score)[1]
        self.bars[constants] = score, min(bar, self.bars.get(constants, (score, np.inf))[1])

    def family(self) -> tuple[Family, Floats]:
        """All of them as a family, and its bars by slot."""
        rest: Expression | None = self.rest  # type: ignore[assignment]
        queries = [
            TopK(None, (), score, self.descending, 1, Rows(1), rest) for score, _ in self.bars.values()
        ]
        group = Group(queries[0], "ra", {})
        slots = [group.open(query, 1) for query in queries]
        bars = np.full(len(slots), np.inf)
        bars[slots] = [bar for _, bar in self.bars.values()]
        return Family(group), bars


def as_bars(thresholds: Iterable[Family]) -> list[tuple[Family, Floats]]:
    """Threshold queries by the shapes of their scores, with their bounds as bars."""
    shapes: dict[tuple[Expression, bool], _Shape] = {}
    for one in thresholds:
        where = one.group.where
        terms = conjuncts(where)
        at, found = next((i, told) for i, term in enumerate(terms) if (told := split(term)) is not None)
        score, op, bound = found
        key = lift(score)[0], op[0] == ">"
        rest = all_of([*terms[:at], *terms[at + 1 :]])
        shapes.setdefault(key, _Shape(key[1])).add(score, float(bound), rest)
    return [shape.family() for shape in shapes.values()]
