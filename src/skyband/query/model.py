"""The kinds of query, as frozen values.

SQL and the builders make queries; the planner reads them. Equal queries are equal values and have equal hashes.
`select` None means all columns. `options` are the WITH options, sorted by name. A threshold's `where` is the whole
WHERE, its comparison included; `score`, `op` and `bound` repeat that comparison with the constant on the right. A
column of a pair has the side "a" or "b". A column of a joined query has its stream's name as side, or none where the
column's name is enough. The score of a grouped query is an expression over the calls sum, count and max.

`skyband.query.serialise` converts queries to plain data and back; `skyband.query.text` writes them as SQL.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from skyband.core.errors import QueryError
from skyband.query.expression.nodes import Column, Compare, Expression, Place, conjuncts
from skyband.query.window import Last, Rows, Window, last, rows, window

__all__ = [
    "Grouped", "Joined", "Last", "Options", "Output", "Pairs", "Query", "Rows", "Threshold", "TopK", "Window",
    "last", "rows", "window",
]  # fmt: skip

Places = tuple[Place | None, ...]
Options = tuple[tuple[str, str | int | float], ...]
MOST_RANKS = 2**31 - 1  # ranks are int32


@dataclass(frozen=True, slots=True)
class Output:
    """A selected column: its name in the answer, and its expression. A plain column keeps its type."""

    name: str
    value: Expression


Select = tuple[Output, ...] | None


def _positive(k: int) -> None:
    if isinstance(k, bool) or not isinstance(k, int) or not 0 < k <= MOST_RANKS:
        raise QueryError(f"k must be a whole number of at least 1 and less than 2^31, not {k!r}.")


@dataclass(frozen=True, slots=True)
class _Ranked:
    """A query for the k best of one stream."""

    stream: str | None
    select: Select
    score: Expression
    descending: bool
    k: int
    window: Window
    where: Expression | None = None
    options: Options = ()

    def __post_init__(self) -> None:
        _positive(self.k)


@dataclass(frozen=True, slots=True)
class TopK(_Ranked):
    """The k best rows of the window.

    `then` is a second column of ORDER BY, newest first. It must be the time column and changes nothing, so it is
    checked when the query is watched, and neither compared nor saved.
    """

    then: Column | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Threshold:
    """Every row of the window whose score is beyond a bound; `op` is one of < <= > >=."""

    stream: str | None
    select: Select
    score: Expression
    descending: bool
    bound: int | float
    op: str
    window: Window
    where: Expression
    options: Options = ()


class Pairs(_Ranked):
    """The k best pairs of two different rows of the window."""

    __slots__ = ()

    @property
    def same(self) -> tuple[str, ...]:
        """The columns in which both rows must be equal (a.c = b.c)."""
        return self._colours("=")

    @property
    def different(self) -> tuple[str, ...]:
        """The columns in which the two rows must differ (a.c <> b.c)."""
        return self._colours("<>")

    def _colours(self, op: str) -> tuple[str, ...]:
        found = []
        for term in conjuncts(self.where):
            match term:
                case Compare(this, Column(left, one), Column(right, other)) if this == op and left == right:
                    if {one, other} == {"a", "b"}:
                        found.append(left)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Joined:
    """The k best objects whose attributes arrive in several streams; a missing attribute counts as 0."""

    streams: tuple[str, ...]
    key: str
    select: Select
    score: Expression
    descending: bool
    k: int
    window: Window
    where: Expression | None = None
    options: Options = ()
    places: Places = field(default=(), compare=False, repr=False)  # of the key in the text

    def __post_init__(self) -> None:
        _positive(self.k)

    @property
    def repeat(self) -> str:
        """How several rows of one object in one stream are combined: sum, max or last."""
        return str(dict(self.options).get("repeat", "sum"))


@dataclass(frozen=True, slots=True)
class Grouped:
    """The k best objects with several rows each; with `op` and `bound` and without k, all objects beyond the bound."""

    stream: str | None
    key: tuple[str, ...]
    select: Select
    score: Expression
    descending: bool
    k: int | None
    window: Window
    where: Expression | None = None
    having: Expression | None = None
    bound: int | float | None = None
    op: str | None = None
    options: Options = ()
    places: Places = field(default=(), compare=False, repr=False)  # of each key in the text

    def __post_init__(self) -> None:
        if self.k is not None:
            _positive(self.k)


Query = TopK | Threshold | Pairs | Joined | Grouped
