"""What a watch may be given: SQL, or a query object."""

from __future__ import annotations

from typing import Any

from skyband.core.errors import QueryError
from skyband.query.model import Query


def asked(query: Any) -> Query:
    """The query; an error if it is neither."""
    if isinstance(query, str):
        from skyband.query.sql.parser import parse  # loads sqlglot: not needed for a query object

        return parse(query)
    if not isinstance(query, Query):
        raise QueryError(
            f"A watch needs SQL or a query object (sb.topk and its like), not a {type(query).__name__}."
        )
    return query
