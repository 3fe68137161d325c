"""Find the columns that a query names, and those that it uses as numbers.

Readers of text need the latter: the values of a column may not show its type (one value is broken, or all are missing).
Then the queries decide it.
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
    walk,
)
from skyband.query.model import Joined, Query


def named_columns(query: Query, stream: str | None = None) -> set[str]:
    """Return the columns that a query names, of a joined query those that this stream may have; * names none."""
    of_others = isinstance(query, Joined) and stream is not None
    keys = getattr(query, "key", ())
    found = {keys} if isinstance(keys, str) else {*keys}
    outputs = [output.value for output in query.select or ()]
    for part in (query.score, query.where, getattr(query, "having", None), *outputs):
        for node in () if part is None else walk(part):
            if isinstance(node, Column) and not (of_others and node.side not in (None, stream)):
                found.add(node.name)
    return found


def numeric_columns(query: Query) -> Iterator[Column]:
    """Yield the columns of the score, and of conditions those that are in arithmetic or compared with a number."""
    yield from _counted(query.score)
    for part in (query.where, getattr(query, "having", None)):
        if part is not None:
            yield from _compared(part)


def _counted(e: Expression) -> Iterator[Column]:
    """Yield the columns of a numeric expression; not those of COUNT, which takes any type."""
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
