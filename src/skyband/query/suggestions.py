"""Reserved words of the SQL, and the nearest known word and the place for an error message."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# Words that end an expression or belong to another clause; as a name they need double quotes.
CLAUSE_WORDS = frozenset(("select", "from", "where", "group by", "having", "order by", "limit", "with"))
RESERVED = CLAUSE_WORDS | {
    "offset", "and", "or", "not", "in", "between", "is", "like", "ilike", "rlike", "asc", "desc", "as", "case", "when",
    "then", "else", "union", "intersect", "except", "join", "using", "on", "exists", "fetch", "distinct", "null",
    "true", "false", "over", "cast", "qualify", "cross", "inner",
}  # fmt: skip

# Words that are not read as a name in some places; `text.name_text` puts them in quotes.
QUOTED = RESERVED | {
    "group", "order", "by", "window", "full", "date", "timestamp", "interval", "array", "left", "right",
    "natural", "outer", "semi", "anti", "similar", "nulls", "current", "glob", "div", "regexp", "isnull", "notnull",
    "xor",
}  # fmt: skip


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known word that is most like this one, in any case, or None."""
    by_fold = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(word.casefold(), list(by_fold), n=1, cutoff=cutoff)
    return by_fold[close[0]] if close else None


def located(message: str, place: tuple[int, int] | None) -> str:
    """Insert the place into a message, between what is wrong and what to do, which a semicolon separates."""
    wrong, mark, advice = message.partition("; ")
    where = f" (line {place[0]}, column {place[1]})" if place is not None else ""
    end = "?" if advice.startswith("did you mean") else "."
    return f"{wrong}{where}{mark}{advice}{end}"
