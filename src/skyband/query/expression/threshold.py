"""Find the score and the bound of a threshold query: the first comparison of a numeric expression with a constant."""

from __future__ import annotations

from decimal import Decimal

from skyband.query.expression import nodes
from skyband.query.expression.nodes import MIRROR, Compare, Expression

BEYOND = ("<", "<=", ">", ">=")

_NUMERIC = (nodes.Number, nodes.Column, nodes.Negate, nodes.Arithmetic, nodes.Call)


def constant(e: Expression) -> int | float | None:
    """Return the value of a numeric expression without columns, as `evaluate` does; None for any other expression."""
    written = nodes.literal(e)
    if written is not None:
        return nodes.as_float(written) if isinstance(written, Decimal) else written
    if not isinstance(e, _NUMERIC) or not _is_constant(e):
        return None
    from skyband.query.expression.evaluate import constant_value

    return constant_value(e)


def _is_constant(e: Expression) -> bool:
    return not any(
        isinstance(node, nodes.Column | nodes.Text | nodes.Truth)
        or (isinstance(node, nodes.Call) and node.name in nodes.AGGREGATES)
        for node in nodes.walk(e)
    )


def split(where: Expression | None) -> tuple[Expression, str, int | float] | None:
    """Return (score, op, bound) of the first conjunct that compares a numeric expression with a constant, or None.

    The bound may be NaN (0/0); the caller refuses it.
    """
    for term in nodes.conjuncts(where):
        if not isinstance(term, Compare) or term.op not in BEYOND:
            continue
        for score, op, other in ((term.left, term.op, term.right), (term.right, MIRROR[term.op], term.left)):
            if not isinstance(score, _NUMERIC) or _is_constant(score):
                continue
            bound = constant(other)
            if bound is None:
                continue
            return score, op, bound
    return None
