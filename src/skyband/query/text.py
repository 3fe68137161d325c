"""From an expression or a query back to text that reads as the same value.

The text is canonical: equal values give equal text, with the brackets that are needed and no others. It is what
explain and errors show.
"""

from __future__ import annotations

import math
from decimal import Decimal

from skyband.query import nodes
from skyband.query.model import Grouped, Joined, Output, Pairs, Query, Select, TopK
from skyband.query.nodes import Expression
from skyband.query.words import QUOTED

# As in the grammar, from weakest to strongest.
_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _SIGN, _POWER, _LEAF = range(9)
_STRENGTH = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "^": _POWER}


def name_text(name: str) -> str:
    """A name as SQL writes it, in double quotes where it needs them."""
    plain = name.isascii() and name.isidentifier() and name.lower() not in QUOTED
    if plain:
        return name
    return '"' + name.replace('"', '""') + '"'


def number_text(value: int | float | Decimal) -> str:
    if isinstance(value, Decimal):
        return f"{value:f}" if abs(value.adjusted()) < 40 else str(value).replace("E", "e")
    if isinstance(value, float) and math.isinf(value):
        return "1e999" if value > 0 else "-1e999"
    return repr(value)


def string_text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def expression_text(e: Expression) -> str:
    """The expression as SQL."""
    return _text(e)[0]


def _wrapped(e: Expression, least: int) -> str:
    text, strength = _text(e)
    return text if strength >= least else f"({text})"


def _text(e: Expression) -> tuple[str, int]:
    match e:
        case nodes.Number(value):
            return number_text(value), _SIGN if value < 0 else _LEAF
        case nodes.Truth(value):
            return "TRUE" if value else "FALSE", _LEAF
        case nodes.Text(value):
            return string_text(value), _LEAF
        case nodes.Column(name, side):
            return (name_text(name) if side is None else f"{name_text(side)}.{name_text(name)}"), _LEAF
        case nodes.Parameter(index):
            return f"${index}", _LEAF
        case nodes.Negate(operand):
            return f"-{_wrapped(operand, _POWER)}", _SIGN
        case nodes.Not(operand):
            return f"NOT {_wrapped(operand, _COMPARE)}", _NOT
        case nodes.Arithmetic(op, left, right):
            return _arithmetic(op, left, right)
        case nodes.Compare(op, left, right):
            return f"{_wrapped(left, _SUM)} {op} {_wrapped(right, _SUM)}", _COMPARE
        case nodes.And(args):
            return " AND ".join(_wrapped(arg, _NOT) for arg in args), _AND
        case nodes.Or(args):
            return " OR ".join(_wrapped(arg, _AND) for arg in args), _OR
        case nodes.Call("count", ()):
            return "COUNT(*)", _LEAF
        case nodes.Call(name, args):
            shown = name.upper() if name in nodes.AGGREGATES else name
            return f"{shown}({', '.join(_text(arg)[0] for arg in args)})", _LEAF


def _arithmetic(op: str, left: Expression, right: Expression) -> tuple[str, int]:
    own = _STRENGTH[op]
    if op == "^":  # from right to left
        return f"{_wrapped(left, _LEAF)}^{_wrapped(right, _POWER)}", _POWER
    # A sign after an operator would read well but for --, which begins a comment.
    return f"{_wrapped(left, own)} {op} {_wrapped(right, max(own + 1, _POWER if _signed(right) else 0))}", own


def _signed(e: Expression) -> bool:
    return _text(e)[0].startswith("-")


def _select_text(select: Select) -> str:
    if select is None:
        return "*"
    return ", ".join(_output_text(output) for output in select)


def _output_text(output: Output) -> str:
    value = expression_text(output.value)
    if isinstance(output.value, nodes.Column) and output.value.key == output.name:
        return value
    if output.name == value:
        return value
    return f"{value} AS {name_text(output.name)}"


def _source_text(query: Query) -> str:
    if isinstance(query, Joined):
        first, *others = (name_text(stream) for stream in query.streams)
        return first + "".join(f" FULL JOIN {other} USING ({name_text(query.key)})" for other in others)
    # A builder may leave the stream's name open; in SQL it is free where there is one stream.
    stream = name_text("stream" if query.stream is None else query.stream)
    return f"{stream} a, {stream} b" if isinstance(query, Pairs) else stream


def to_sql(query: Query) -> str:
    """The query as canonical SQL that parses back to an equal query."""
    parts = [f"SELECT {_select_text(query.select)} FROM {_source_text(query)}"]
    if query.where is not None:
        parts.append(f"WHERE {expression_text(query.where)}")
    if isinstance(query, Grouped):
        parts.append(f"GROUP BY {', '.join(name_text(key) for key in query.key)}")
        if query.having is not None:
            parts.append(f"HAVING {expression_text(query.having)}")
    if isinstance(query, TopK | Pairs | Joined) or (isinstance(query, Grouped) and query.k is not None):
        parts.append(
            f"ORDER BY {expression_text(query.score)}{' DESC' if query.descending else ''} LIMIT {query.k}"
        )
    parts.append(f"WINDOW {query.window}")
    if query.options:
        shown = ", ".join(
            f"{name} = {string_text(value) if isinstance(value, str) else number_text(value)}"
            for name, value in query.options
        )
        parts.append(f"WITH ({shown})")
    return " ".join(parts)
