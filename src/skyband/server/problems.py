"""What goes wrong, in one shape: {"error": {"code", "message", "where"}}.

The code is for programs, the message is one sentence for people, `where` the place in a query. What the engine raises
on purpose keeps its sentence; anything else is our bug, and says nothing of the inside.
"""

from __future__ import annotations

import json
import re
from typing import Any

from skyband.core.errors import QueryError, SkybandError

STATUS = {
    "bad_query": 400,
    "bad_input": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "read_only": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "too_slow": 408,
    "exists": 409,
    "key_reused": 409,
    "has_rows": 409,
    "too_large": 413,
    "unsupported_type": 415,
    "limit": 422,
    "strict": 422,
    "too_many_requests": 429,
    "internal": 500,
    "busy": 503,
    "not_ready": 503,
    "journal": 503,
    "disk_full": 507,
}
_CODES = {
    "DiskFull": "disk_full",
    "JournalError": "journal",
    "KeyReused": "key_reused",
    "HasRows": "has_rows",
    "StrictError": "strict",
    "SkybandError": "bad_input",
}
_GUESS = re.compile(r"; did you mean (.+)\?$")


class Problem(SkybandError):
    """An error with its code and HTTP status."""

    def __init__(
        self,
        code: str,
        message: str,
        where: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = STATUS[code]
        self.where = where
        self.headers = headers or {}

    def body(self) -> bytes:
        error = {"code": self.code, "message": str(self), "where": self.where}
        return json.dumps({"error": error}, ensure_ascii=False).encode("utf-8", "replace")


def problem_of(error: BaseException) -> Problem:
    """Any exception as the problem that the client gets."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, QueryError):
        return Problem("bad_query", str(error), _where(error))
    for kind in type(error).__mro__:
        if kind.__name__ in _CODES and isinstance(error, SkybandError):
            return Problem(_CODES[kind.__name__], str(error))
    return Problem("internal", "Something unexpected went wrong in the server: its log says what.")


def _where(error: QueryError) -> dict[str, Any] | None:
    """Return the place in the query and the name that was meant, where either is known."""
    guess = _GUESS.search(str(error))
    if error.place is None and guess is None:
        return None
    line, column = error.place or (None, None)
    return {"line": line, "column": column, "hint": guess[1] if guess else None}


def no_query(name: str) -> Problem:
    return Problem("not_found", f'There is no query "{name}": GET /api/queries lists them.')


def limit(what: str, found: object, option: str, most: int) -> Problem:
    """More of something than the settings allow."""
    return Problem(
        "limit",
        f"{what} is {found}, and this server allows {most:,}: ask for less, or start it with a larger {option}.",
    )
