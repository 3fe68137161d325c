"""A grouped question in two halves: what is computed of each row, and what of each object's totals.

`SUM(x * y) / COUNT(*)` needs the sum of x * y of an object's rows and how many they are; the quotient is computed
once for the object. `split` takes the calls of SUM and MAX out of a query's expressions and leaves columns in their
place: `arguments` are evaluated on rows, `score`, `having` and the outputs on objects.

Totals are float64, which doesn't tell whole numbers from 2^53 on apart, and comparisons of integers are exact. So
HAVING compares MAX with a constant out there row by row: the greatest is beyond it if some row is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skyband.query.expression import nodes
from skyband.query.expression.nodes import MIRROR, And, Call, Column, Compare, Expression, Not, Number, Or
from skyband.query.expression.threshold import constant
from skyband.query.model import Grouped, Output

SIDE = "@"  # of the columns that stand for aggregates: no stream has that name
COUNTED = Column("count", SIDE)
_TOLD_APART = 2**53  # whole numbers below it are all float64s


@dataclass(frozen=True)
class Halves:
    """Over rows: `arguments`, and for each aggregate its kind ("sum" or "max") and argument. Over objects: the rest."""

    arguments: tuple[Expression, ...]
    aggregates: tuple[tuple[str, int], ...]
    score: Expression
    having: Expression | None
    outputs: tuple[Output, ...]
    truths: frozenset[int]  # the arguments that are comparisons of HAVING: 1 where a row is beyond, else 0


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

    truths: set[int] = set()

    def some(op: str, argument: Expression, bound: Expression) -> Expression:
        """Whether some row of an object is beyond a bound."""
        told = arguments.setdefault(Compare(op, argument, bound), len(arguments))
        truths.add(told)
        most = aggregates.setdefault(("max", told), len(aggregates))
        return Compare(">", Column(str(most), SIDE), Number(0))

    def chosen(e: Expression) -> Expression:
        if isinstance(e, And | Or | Not):
            return nodes.rebuild(e, tuple(chosen(part) for part in nodes.children(e)))
        found = _far(e)
        if found is None:
            return over_objects(e)
        argument, op, bound = found
        arguments.setdefault(argument, len(arguments))  # a row without a value in it stays out as before
        if op in (">", ">="):
            return some(op, argument, bound)
        if op in ("<", "<="):
            return Not(some(">=" if op == "<" else ">", argument, bound))
        equal = And((some(">=", argument, bound), Not(some(">", argument, bound))))
        return equal if op == "=" else Not(equal)

    score = over_objects(query.score)
    having = None if query.having is None else chosen(query.having)
    outputs = tuple(Output(output.name, over_objects(output.value)) for output in query.select or ())
    return Halves(tuple(arguments), tuple(aggregates), score, having, outputs, frozenset(truths))


def _far(e: Expression) -> tuple[Expression, str, Expression] | None:
    """What the MAX is of, the operator and the constant, where MAX is compared with one that is far from zero."""
    if not isinstance(e, Compare):
        return None
    sides: Any = ((e.left, e.op, e.right), (e.right, MIRROR[e.op], e.left))
    for call, op, other in sides:
        if isinstance(call, Call) and call.name == "max":
            bound = constant(other)
            if bound is not None and abs(bound) >= _TOLD_APART:
                return call.args[0], op, other
    return None


def row_columns(query: Grouped) -> tuple[str, ...]:
    """The columns that a row must have a value in to count: keys, WHERE, and whatever is aggregated."""
    parts = [query.score, query.having, *(output.value for output in query.select or ())]
    names = {*query.key, *nodes.columns_of(query.where)}
    for part in parts:
        names |= {*nodes.columns_of(part)}
    return tuple(sorted(names))
