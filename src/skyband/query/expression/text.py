"""Write an expression as text that parses to the same tree.

The text is canonical: equal trees give equal text, with only the brackets that are needed. `explain` and errors show
it.
"""

from __future__ import annotations

import math
from decimal import Decimal

from skyband.query.expression import nodes
from skyband.query.expression.nodes import Expression
from skyband.query.suggestions import QUOTED

# As in the grammar, from weakest to strongest.
_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _SIGN, _POWER, _LEAF = range(9)
_STRENGTH = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "^": _POWER}


def name_text(name: str) -> str:
    """Return a name as SQL writes it, in double quotes where they are needed."""
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
    """Return the expression as SQL."""
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
    # a sign after an operator gets brackets, since -- begins a comment
    return f"{_wrapped(left, own)} {op} {_wrapped(right, max(own + 1, _POWER if _signed(right) else 0))}", own


def _signed(e: Expression) -> bool:
    return _text(e)[0].startswith("-")
