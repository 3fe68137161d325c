"""Accept SQL or a query object where a query is expected."""

from __future__ import annotations

from typing import Any

from skyband.core.errors import QueryError
from skyband.query.model import Query


def asked(query: Any) -> Query:
    """Return the query of a text or of a query object; raise QueryError for anything else."""
    if isinstance(query, str):
        from skyband.query.sql.parser import parse  # loads sqlglot: not needed for a query object

        return parse(query)
    if not isinstance(query, Query):
        raise QueryError(
            f"A watch takes SQL or a query object (from sb.topk and the other builders), not a {type(query).__name__}."
        )
    return query
