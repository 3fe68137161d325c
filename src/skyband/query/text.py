"""Write a query as canonical SQL: equal queries give equal text."""

from __future__ import annotations

from skyband.query.expression import nodes
from skyband.query.expression.text import expression_text, name_text, number_text, string_text
from skyband.query.model import Grouped, Joined, Output, Pairs, Query, Select, TopK


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
    # A builder may leave out the stream's name; in SQL any name does where there is one stream.
    stream = name_text("stream" if query.stream is None else query.stream)
    return f"{stream} a, {stream} b" if isinstance(query, Pairs) else stream


def to_sql(query: Query) -> str:
    """Return the query as canonical SQL, which parses to an equal query."""
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
