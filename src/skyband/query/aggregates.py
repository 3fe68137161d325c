"""A grouped query in two parts: expressions over rows, and expressions over the totals of an object.

`SUM(x * y) / COUNT(*)` needs the sum of x * y and the number of an object's rows; the quotient is computed once for
the object. `split` replaces the calls of SUM and MAX in a query's expressions by columns: `arguments` are evaluated
on rows; `score`, `having` and the outputs are evaluated on objects.

Totals are float64, which does not represent every integer from 2^53 on, but comparisons of integers are exact. So
HAVING compares MAX with such a constant row by row: the greatest value is beyond it if the value of some row is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skyband.query.expression import nodes
from skyband.query.expression.nodes import MIRROR, And, Call, Column, Compare, Expression, Not, Number, Or
from skyband.query.expression.threshold import constant
from skyband.query.model import Grouped, Output

SIDE = "@"  # of the columns that replace aggregates: no stream has that name
COUNTED = Column("count", SIDE)
_EXACT_BELOW = 2**53  # every integer below it is a float64


@dataclass(frozen=True)
class Halves:
    """The parts of a grouped query.

    Over rows: `arguments`, and for each aggregate its kind ("sum" or "max") and the number of its argument. Over
    objects: the rest.
    """

    arguments: tuple[Expression, ...]
    aggregates: tuple[tuple[str, int], ...]
    score: Expression
    having: Expression | None
    outputs: tuple[Output, ...]
    # the arguments that are comparisons of HAVING: 1 for a row beyond the bound, else 0
    truths: frozenset[int]


def split(query: Grouped) -> Halves:
    """Split a grouped query into its part over rows and its part over objects."""
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
        """Return the condition that some row of the object is beyond a bound."""
        truth = arguments.setdefault(Compare(op, argument, bound), len(arguments))
        truths.add(truth)
        greatest = aggregates.setdefault(("max", truth), len(aggregates))
        return Compare(">", Column(str(greatest), SIDE), Number(0))

    def chosen(e: Expression) -> Expression:
        if isinstance(e, And | Or | Not):
            return nodes.rebuild(e, tuple(chosen(part) for part in nodes.children(e)))
        found = _far(e)
        if found is None:
            return over_objects(e)
        argument, op, bound = found
        # a row whose value is null does not count, as elsewhere
        arguments.setdefault(argument, len(arguments))
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
    """Return (argument, operator, constant) of a comparison of MAX with a constant of 2^53 or more; else None."""
    if not isinstance(e, Compare):
        return None
    sides: Any = ((e.left, e.op, e.right), (e.right, MIRROR[e.op], e.left))
    for call, op, other in sides:
        if isinstance(call, Call) and call.name == "max":
            bound = constant(other)
            if bound is not None and abs(bound) >= _EXACT_BELOW:
                return call.args[0], op, other
    return None


def row_columns(query: Grouped) -> tuple[str, ...]:
    """Return the columns in which a row must have a value to count: keys, those of WHERE and of the aggregates."""
    parts = [query.score, query.having, *(output.value for output in query.select or ())]
    names = {*query.key, *nodes.columns_of(query.where)}
    for part in parts:
        names |= {*nodes.columns_of(part)}
    return tuple(sorted(names))
