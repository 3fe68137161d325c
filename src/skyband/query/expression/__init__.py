"""Expressions: the nodes of a tree, the grammar, and the functions over trees.

parse_expression(text)          returns the tree of a text
columns_of(e)                   returns the columns that it uses
check(e, schema)                returns its kind, or raises an error
evaluate(e, source, constants)  returns its values on a batch of rows
lift(e), render(shape, columns) return its shape and constants, and source for numba
bound(e, box), direction(e, c)  return its range over a box, and whether it is monotone in a column

In reading order: nodes, grammar, text (a tree as SQL), check, source (what columns are read from), evaluate,
exact_compare and integer_arithmetic (no rounding), scalar (one row of plain values), threshold (the comparison of a
threshold query), pairing (scores of two rows). For indexes: interval, box_bounds, monotonicity, score_space, linear,
difference_scores. For numba: codegen.
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
    """Parse one expression in the grammar of the SQL; SUM, COUNT and MAX are allowed only with `aggregates`."""
    # sqlglot takes a while to import; callers that only evaluate do not need it
    from skyband.query.expression.grammar import parse_expression as parse

    return parse(text, aggregates)
