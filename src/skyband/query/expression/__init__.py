"""Expressions, all in one place: the nodes, the grammar, and what can be done with a tree.

parse_expression(text)          the tree of a text
columns_of(e)                   which columns it uses
check(e, schema)                its kind, or what is wrong with it
evaluate(e, source, constants)  its values on a batch of rows
lift(e), render(shape, columns) its shape and constants, and source for numba
bound(e, box), direction(e, c)  what is known about it without looking at rows
"""

from __future__ import annotations

from skyband.query.expression.check import Kind, check, kind_of, unknown_column
from skyband.query.expression.codegen import lift, render
from skyband.query.expression.evaluate import evaluate
from skyband.query.expression.interval import bound
from skyband.query.expression.monotonicity import Direction, direction
from skyband.query.expression.nodes import (
    And,
    Arithmetic,
    Call,
    Column,
    Compare,
    Expression,
    Negate,
    Not,
    Number,
    Or,
    Parameter,
    Text,
    Truth,
    all_of,
    columns_of,
    conjuncts,
    walk,
)
from skyband.query.expression.source import Source
from skyband.query.expression.text import expression_text

__all__ = [
    "And", "Arithmetic", "Call", "Column", "Compare", "Direction", "Expression", "Kind", "Negate", "Not", "Number",
    "Or", "Parameter", "Source", "Text", "Truth", "all_of", "bound", "check", "columns_of", "conjuncts", "direction",
    "evaluate", "expression_text", "kind_of", "lift", "parse_expression", "render", "unknown_column", "walk",
]  # fmt: skip


def parse_expression(text: str, aggregates: bool = False) -> Expression:
    """Read one expression, with the grammar of the SQL; SUM, COUNT and MAX only if `aggregates`."""
    # sqlglot takes a while to import, and whoever only evaluates needs none of it.
    from skyband.query.expression.grammar import parse_expression as parse

    return parse(text, aggregates)
