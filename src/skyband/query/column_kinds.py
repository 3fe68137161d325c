"""Which columns a query takes for numbers.

Readers of text ask it: a column with one broken value, or with none at all, has no type of its own, and then the
queries say what it is meant to be.
"""

from __future__ import annotations

from collections.abc import Iterator

from skyband.query.expression.nodes import (
    Arithmetic,
    Call,
    Column,
    Compare,
    Expression,
    Negate,
    children,
    literal,
)
from skyband.query.model import Query


def numeric_columns(query: Query) -> Iterator[Column]:
    """The columns of the score, and those of conditions that stand in arithmetic or beside a number."""
    yield from _counted(query.score)
    for part in (query.where, getattr(query, "having", None)):
        if part is not None:
            yield from _compared(part)


def _counted(e: Expression) -> Iterator[Column]:
    """The columns below an expression that is a number; COUNT takes whatever there is."""
    if isinstance(e, Column):
        yield e
    elif not (isinstance(e, Call) and e.name == "count"):
        for part in children(e):
            yield from _counted(part)


def _compared(e: Expression) -> Iterator[Column]:
    if isinstance(e, Arithmetic | Negate | Call):
        yield from _counted(e)
    elif isinstance(e, Compare) and (literal(e.left) is not None or literal(e.right) is not None):
        yield from _counted(e.left)
        yield from _counted(e.right)
    else:
        for part in children(e):
            yield from _compared(part)
