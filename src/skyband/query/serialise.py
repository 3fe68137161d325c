"""Convert queries and expressions to plain data for JSON, and back."""

from __future__ import annotations

import math
from dataclasses import Field, fields
from decimal import Decimal
from typing import Any

from skyband.core.errors import QueryError
from skyband.query.expression import nodes
from skyband.query.expression.nodes import Expression
from skyband.query.model import Grouped, Joined, Last, Output, Pairs, Query, Rows, Threshold, TopK

_KINDS: dict[str, type] = {
    "topk": TopK,
    "threshold": Threshold,
    "pairs": Pairs,
    "joined": Joined,
    "grouped": Grouped,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_EXPRESSIONS = ("score", "where", "having")


def _fields(query: Query | type[Query]) -> list[Field[Any]]:
    """Return the fields of a query except those that hold places in its text."""
    return [f for f in fields(query) if f.compare]


def to_dict(query: Query) -> dict[str, object]:
    """Convert a query to a dict of lists, numbers and strings."""
    data: dict[str, object] = {"kind": _NAMES[type(query)]}
    for f in _fields(query):
        value = getattr(query, f.name)
        if f.name in _EXPRESSIONS and value is not None:
            data[f.name] = expression_to_data(value)
        elif isinstance(value, Rows):
            data[f.name] = {"rows": value.n}
        elif isinstance(value, Last):
            data[f.name] = {"nanoseconds": value.nanoseconds}
        elif f.name == "select" and value is not None:
            data[f.name] = [[output.name, expression_to_data(output.value)] for output in value]
        elif f.name == "options":
            data[f.name] = {name: _number_to_data(v) for name, v in value}
        elif f.name == "bound" and value is not None:
            data[f.name] = _number_to_data(value)
        elif isinstance(value, tuple):
            data[f.name] = list(value)
        else:
            data[f.name] = value
    return data


def from_dict(data: dict[str, object]) -> Query:
    """Convert what `to_dict` returned to the query."""
    kind = _KINDS.get(str(data.get("kind")))
    if kind is None:
        raise QueryError(
            f"There is no kind of query {data.get('kind')!r}; the data was not written by to_dict."
        )
    values: dict[str, Any] = {}
    for f in _fields(kind):
        value: Any = data.get(f.name)
        if f.name in _EXPRESSIONS and value is not None:
            value = expression_from_data(value)
        elif f.name == "window":
            value = Rows(value["rows"]) if "rows" in value else Last(value["nanoseconds"])
        elif f.name == "select" and value is not None:
            value = tuple(Output(name, expression_from_data(v)) for name, v in value)
        elif f.name == "options":
            value = tuple(sorted((name, _number_from_data(v)) for name, v in (value or {}).items()))
        elif f.name == "bound" and value is not None:
            value = _number_from_data(value)
        elif isinstance(value, list):
            value = tuple(value)
        values[f.name] = value
    query: Query = kind(**values)
    return query


def _number_to_data(value: Any) -> Any:
    """Convert a number to what JSON can represent: JSON has no infinities, and a Decimal must stay exact."""
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, float) and math.isinf(value):
        return {"infinity": 1 if value > 0 else -1}
    return value


def _number_from_data(data: Any) -> Any:
    if isinstance(data, dict):
        return Decimal(data["decimal"]) if "decimal" in data else data["infinity"] * math.inf
    return data


def expression_to_data(e: Expression) -> list[Any]:
    """Convert an expression to a list of the node's name and its parts."""
    match e:
        case nodes.Number(value):
            return ["number", _number_to_data(value)]
        case nodes.Truth(value):
            return ["truth", value]
        case nodes.Text(value):
            return ["text", value]
        case nodes.Column(name, side):
            return ["column", name] if side is None else ["column", name, side]
        case nodes.Parameter(index):
            return ["parameter", index]
        case nodes.Negate(operand):
            return ["negate", expression_to_data(operand)]
        case nodes.Not(operand):
            return ["not", expression_to_data(operand)]
        case nodes.Arithmetic(op, left, right):
            return ["arithmetic", op, expression_to_data(left), expression_to_data(right)]
        case nodes.Compare(op, left, right):
            return ["compare", op, expression_to_data(left), expression_to_data(right)]
        case nodes.And(args):
            return ["and", *(expression_to_data(arg) for arg in args)]
        case nodes.Or(args):
            return ["or", *(expression_to_data(arg) for arg in args)]
        case nodes.Call(name, args):
            return ["call", name, *(expression_to_data(arg) for arg in args)]


def expression_from_data(data: list[Any]) -> Expression:
    """Convert what `expression_to_data` returned to the expression."""
    kind, *rest = data
    match kind:
        case "number":
            return nodes.Number(_number_from_data(rest[0]))
        case "truth":
            return nodes.Truth(rest[0])
        case "text":
            return nodes.Text(rest[0])
        case "column":
            return nodes.Column(*rest)
        case "parameter":
            return nodes.Parameter(rest[0])
        case "negate":
            return nodes.Negate(expression_from_data(rest[0]))
        case "not":
            return nodes.Not(expression_from_data(rest[0]))
        case "arithmetic":
            return nodes.Arithmetic(rest[0], expression_from_data(rest[1]), expression_from_data(rest[2]))
        case "compare":
            return nodes.Compare(rest[0], expression_from_data(rest[1]), expression_from_data(rest[2]))
        case "and":
            return nodes.And(tuple(expression_from_data(part) for part in rest))
        case "or":
            return nodes.Or(tuple(expression_from_data(part) for part in rest))
        case "call":
            return nodes.Call(rest[0], tuple(expression_from_data(part) for part in rest[1:]))
        case _:
            raise QueryError(
                f"There is no expression of the kind {kind!r}; the data was not written by to_dict."
            )
