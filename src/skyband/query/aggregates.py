"""A grouped question in two halves: what is computed of each row, and what of each object's totals.

`SUM(x * y) / COUNT(*)` needs the sum of x * y of an object's rows and how many they are; the quotient is computed
once for the object. `split` takes the calls of SUM and MAX out of a query's expressions and leaves columns in their
place: `arguments` are evaluated on rows, `score`, `having` and the outputs on objects.
"""

from __future__ import annotations

from dataclasses import dataclass

from skyband.query import nodes
from skyband.query.model import Grouped, Output
from skyband.query.nodes import Call, Column, Expression

SIDE = "@"  # of the columns that stand for aggregates: no stream has that name
COUNTED = Column("count", SIDE)


@dataclass(frozen=True)
class Halves:
    """Over rows: `arguments`, and for each aggregate its kind ("sum" or "max") and argument. Over objects: the rest."""

    arguments: tuple[Expression, ...]
    aggregates: tuple[tuple[str, int], ...]
    score: Expression
    having: Expression | None
    outputs: tuple[Output, ...]


def split(query: Grouped) -> Halves:
    arguments: dict[Expression, int] = {}
    aggregates: dict[tuple[str, int], int] = {}

    def over_objects(e: Expression) -> Expression:
        if isinstance(e, Call) and e.name == "count":
            return COUNTED
        if isinstance(e, Call) and e.name in nodes.AGGREGATES:
            argument = arguments.setdefault(e.args[0], len(arguments))
            return Column(str(aggregates.setdefault((e.name, argument), len(aggregates))), SIDE)
        return nodes.rebuild(e, tuple(over_objects(part) for part in nodes.children(e)))

    score = over_objects(query.score)
    having = None if query.having is None else over_objects(query.having)
    outputs = tuple(Output(output.name, over_objects(output.value)) for output in query.select or ())
    return Halves(tuple(arguments), tuple(aggregates), score, having, outputs)


def row_columns(query: Grouped) -> tuple[str, ...]:
    """The columns that a row must have a value in to count: keys, WHERE, and whatever is aggregated."""
    parts = [query.score, query.having, *(output.value for output in query.select or ())]
    names = {*query.key, *nodes.columns_of(query.where)}
    for part in parts:
        names |= {*nodes.columns_of(part)}
    return tuple(sorted(names))
