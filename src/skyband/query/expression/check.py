"""Check an expression against a schema: do the columns exist, and do the kinds fit?

There are four kinds: number, bool, text and time. A time is a number of seconds in arithmetic; it can be compared with
a time, a number of seconds, or a text that is an ISO date or time. A column that has had only nulls may become any of
them, and fits everywhere.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from skyband.core.errors import QueryError
from skyband.query.expression import nodes
from skyband.query.expression.nodes import Expression
from skyband.query.expression.text import expression_text
from skyband.query.suggestions import located, nearest

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["number", "bool", "text", "time", "any"]

_A = {
    "number": "a number",
    "bool": "true or false",
    "text": "a text",
    "time": "a time",
    "any": "not known yet",
}
NUMERIC = ("number", "time", "any")  # kinds that arithmetic takes


def check(e: Expression, schema: pa.Schema) -> Kind:
    """Return the expression's kind; raise a QueryError with the place, what was expected and the nearest column."""
    match e:
        case nodes.Number() | nodes.Parameter():
            return "number"
        case nodes.Truth():
            return "bool"
        case nodes.Text():
            return "text"
        case nodes.Column():
            return _column(e, schema)
        case nodes.Negate(operand):
            _numeric(operand, schema, "-")
            return "number"
        case nodes.Arithmetic(op, left, right):
            _numeric(left, schema, op)
            _numeric(right, schema, op)
            return "number"
        case nodes.Not(operand):
            _predicate(operand, schema, "NOT")
            return "bool"
        case nodes.And(args) | nodes.Or(args):
            for arg in args:
                _predicate(arg, schema, "AND" if isinstance(e, nodes.And) else "OR")
            return "bool"
        case nodes.Call(name, args):
            for arg in args:
                _numeric(arg, schema, name)
            return "number"
        case nodes.Compare():
            return _compare(e, schema)


def check_score(e: Expression, schema: pa.Schema, shown: Expression | None = None) -> None:
    """Raise a QueryError unless the expression can be ordered by; the error shows `shown` instead of it, if given."""
    kind = check(e, schema)
    if kind not in NUMERIC:
        raise _unfit("The score (ORDER BY) must be a number", e, kind, shown)


def check_condition(
    clause: str, e: Expression | None, schema: pa.Schema, shown: Expression | None = None
) -> None:
    """Raise a QueryError unless the expression can be a clause's condition; None can."""
    if e is not None and (kind := check(e, schema)) not in ("bool", "any"):
        raise _unfit(f"{clause} must be a condition that is true or false", e, kind, shown)


def _unfit(wanted: str, e: Expression, kind: Kind, shown: Expression | None) -> QueryError:
    return _error(f"{wanted}, but {expression_text(shown or e)} is {_A[kind]}", _place(e))


def kind_of(type_: pa.DataType) -> Kind | None:
    """Return the kind of a column of this type, or None if expressions can't use it."""
    import pyarrow as pa

    types = pa.types
    if types.is_null(type_):
        return "any"
    if types.is_dictionary(type_):
        return kind_of(type_.value_type)
    if types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_):
        return "number"
    if types.is_boolean(type_):
        return "bool"
    if types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_):
        return "text"
    if types.is_timestamp(type_) or types.is_date(type_):
        return "time"
    return None


def unknown_column(name: str, known: list[str], place: nodes.Place | None = None) -> QueryError:
    """Return the error for a column that does not exist."""
    near = nearest(name, known)
    if near is not None:
        advice = f"did you mean {near}"
    elif not known:
        advice = "the stream has no columns"
    else:
        shown = ", ".join(known[:8]) + (", …" if len(known) > 8 else "")
        advice = f"there {'is' if len(known) == 1 else 'are'} {shown}"
    return _error(f"There is no column {name}; {advice}", place)


def _error(message: str, place: nodes.Place | None) -> QueryError:
    return QueryError(located(message, place), place)


def _column(column: nodes.Column, schema: pa.Schema) -> Kind:
    # a side names the row or the stream; the schema may name the column with or without it
    index = schema.get_field_index(column.key)
    if index < 0:
        index = schema.get_field_index(column.name)
    if index < 0:
        raise unknown_column(column.name, list(schema.names), column.place)
    kind = kind_of(schema.field(index).type)
    if kind is None:
        raise _error(
            f"The column {column.name} has the type {schema.field(index).type}, which expressions can't use; "
            "use a number, bool, string, timestamp or date column",
            column.place,
        )
    return kind


def _place(e: Expression) -> nodes.Place | None:
    """Return the first known place in the expression."""
    for node in nodes.walk(e):
        place = getattr(node, "place", None)
        if place is not None:
            return place  # type: ignore[no-any-return]
    return None


def _numeric(e: Expression, schema: pa.Schema, op: str) -> None:
    kind = check(e, schema)
    if kind not in NUMERIC:
        raise _error(f"{op} expects a number, but {expression_text(e)} is {_A[kind]}", _place(e))


def _predicate(e: Expression, schema: pa.Schema, op: str) -> None:
    kind = check(e, schema)
    if kind not in ("bool", "any"):
        raise _error(
            f"{op} expects a comparison or a bool column, but {expression_text(e)} is {_A[kind]}", _place(e)
        )


def _compare(e: nodes.Compare, schema: pa.Schema) -> Kind:
    left, right = check(e.left, schema), check(e.right, schema)
    if "any" in (left, right):
        return "bool"
    place = e.place or _place(e)
    for (this, kind), (other, other_kind) in (
        ((e.left, left), (e.right, right)),
        ((e.right, right), (e.left, left)),
    ):
        if kind == "time" and other_kind == "text":
            _check_time_text(this, other, place)
            return "bool"
    if left != right and {left, right} != {"number", "time"}:
        raise _error(
            f"{e.op} can't compare {expression_text(e.left)}, {_A[left]}, with "
            f"{expression_text(e.right)}, {_A[right]}; {_advice(e, left, right)}",
            place,
        )
    if left == "bool" and e.op not in ("=", "<>"):
        shown = expression_text(e.left)
        raise _error(
            f"{e.op} expects numbers or texts, but {shown} is true or false; use AND, OR and NOT", place
        )
    return "bool"


def _advice(e: nodes.Compare, left: Kind, right: Kind) -> str:
    """Return what to do about two sides of different kinds."""
    for this, other in ((e.left, right), (e.right, left)):
        if isinstance(this, nodes.Text) and other == "number" and _is_number(this.value):
            return f"write {this.value.strip()} without quotes"
        if nodes.literal(this) is not None and other == "text":
            return f"write '{expression_text(this)}' in quotes"
    if "bool" in (left, right):
        return "join conditions with AND, OR and NOT"
    return "compare numbers with numbers and texts with texts"


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _check_time_text(time: Expression, text: Expression, place: nodes.Place | None) -> None:
    """Check that a text compared with a time is a date or time. (Arithmetic with times gives numbers.)"""
    from skyband.query.expression.exact_compare import parse_time

    if not isinstance(text, nodes.Text):
        raise _error(
            f"{expression_text(time)} is a time and {expression_text(text)} a text; compare a time with a time, "
            "a number of seconds or a date in quotes",
            place,
        )
    if parse_time(text.value) is None:
        raise _error(
            f"{expression_text(text)} is not a time; write a date or time such as '2024-01-31' or "
            "'2024-01-31 23:59:59.5'",
            text.place or place,
        )
