"""What a query promises about future rows, for algorithms that drop rows because of it.

The score of an object that consists of several rows can rise while rows may come. How far it can rise is known only if
the query says how large a value can be and how many rows an object can have:

    range = '0..1'                      for every column that is totalled; or range = 'r1.x 0..1, r2.x 0..100'
    appears = 'once'                    an object has at most one row in each stream, ever
    appears = 'once per window'         at most one row in each stream in any window
    appears = '3 per window'            at most three rows in each stream in any window

A range is also a condition on rows: a row with a value outside the range does not count in this query, like a row with
a null, whichever algorithm answers. Without a promise an algorithm estimates ranges and counts from the rows so far; an
algorithm that dropped rows because of an estimate must be able to restore them when a later row exceeds it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from skyband.query.aggregates import COUNTED, split
from skyband.query.expression import nodes
from skyband.query.expression.monotonicity import direction
from skyband.query.expression.nodes import Column, Expression
from skyband.query.model import Grouped, Joined

Range = tuple[float, float]
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"
_RANGE = re.compile(rf"^(?:(?P<name>\S+)\s+)?(?P<low>{_NUMBER})\s*\.\.\s*(?P<high>{_NUMBER})$", re.IGNORECASE)
_APPEARS = re.compile(r"^(?P<count>once|\d+)(?P<window>\s+per\s+window)?$")
MOST_SUMS = 48


@dataclass(frozen=True)
class Promise:
    """Ranges by column name ("r1.x", "x", or "" for all), and how many rows an object has in a stream."""

    ranges: tuple[tuple[str, float, float], ...] = ()
    most: int | None = None  # the most rows of an object in a stream in any window
    ever: bool = False  # one row of an object in a stream, ever

    def range_of(self, name: str, stream: str | None) -> Range | None:
        """Return the range of a column of one stream, or None."""
        found = {known: (low, high) for known, low, high in self.ranges}
        for key in (f"{stream}.{name}".lower() if stream else name.lower(), name.lower(), ""):
            if key in found:
                return found[key]
        return None


def read_ranges(text: str) -> tuple[tuple[str, float, float], ...] | None:
    """Parse the option `range`; return None if the text is not valid."""
    found: dict[str, Range] = {}
    for part in text.split(","):
        match = _RANGE.match(part.strip())
        if match is None:
            return None
        name, low, high = (match["name"] or "").lower(), float(match["low"]), float(match["high"])
        if name in found or not (math.isfinite(low) and math.isfinite(high) and low <= high):
            return None
        found[name] = low, high
    return tuple((name, low, high) for name, (low, high) in found.items())


def read_appears(text: str) -> tuple[int, bool] | None:
    """Parse the option `appears` to (count, is_for_ever); return None if the text is not valid."""
    match = _APPEARS.match(" ".join(text.lower().split()))
    if match is None:
        return None
    count = 1 if match["count"] == "once" else int(match["count"])
    ever = match["window"] is None
    if count < 1 or count > 2**30 or (ever and match["count"] != "once"):
        return None
    return count, ever


def promise_of(query: Grouped | Joined) -> Promise:
    """Return the promise that the query's options make."""
    options = dict(query.options)
    promise = Promise()
    if "range" in options:
        promise = replace(promise, ranges=read_ranges(str(options["range"])) or ())
    if "appears" in options:
        most, ever = read_appears(str(options["appears"])) or (None, False)
        promise = replace(promise, most=most, ever=ever)
    return promise


def unknown_range(query: Grouped | Joined) -> str | None:
    """Return a name in `range` that is no column of this query, or None."""
    known = {""}
    if isinstance(query, Joined):
        for node in nodes.walk(query.score):
            if isinstance(node, Column) and node.name != query.key:
                known |= {node.name.lower(), *(f"{s}.{node.name}".lower() for s in query.streams)}
    else:
        known |= {e.name.lower() for e in split(query).arguments if isinstance(e, Column)}
    return next((name for name, _, _ in promise_of(query).ranges if name not in known), None)


def is_whole(query: Grouped | Joined) -> bool:
    """Whether the promise has the range of every attribute and the number of rows: nothing has to be estimated."""
    promise = promise_of(query)
    return promise.most is not None and all(
        promise.range_of(name, stream) is not None for name, stream in attributes(query)
    )


def attributes(query: Grouped | Joined) -> list[tuple[str, str | None]]:
    """Return what is totalled, as (column, stream): columns of streams, or arguments of SUM and MAX ("" for others)."""
    if isinstance(query, Grouped):
        return [(e.name if isinstance(e, Column) else "", None) for e in split(query).arguments]
    found: list[tuple[str, str | None]] = []
    for node in nodes.walk(query.score):
        if isinstance(node, Column) and node.name != query.key:
            found += [(node.name, s) for s in query.streams if node.side in (None, s)]
    return found


def cannot_bound(query: Grouped | Joined) -> str | None:
    """Return the reason why the score of an object has no upper bound while rows may come, or None if it has one."""
    reason = cannot_walk(query)
    if reason is not None:
        return reason
    if isinstance(query, Joined) and query.where is not None:
        return "WHERE chooses among objects, so an object that counts now may not count later"
    if isinstance(query, Grouped) and (query.having is not None or query.k is None):
        return "HAVING chooses among objects, so an object that counts now may not count later"
    totals = query.streams if isinstance(query, Joined) else split(query).aggregates
    if max(len(totals), len(set(attributes(query)))) > MOST_SUMS:
        return f"it takes up to {MOST_SUMS} streams and totals"
    for name, low, _ in promise_of(query).ranges:
        if low < 0:
            of = f"the range of {name}" if name else "the range"
            return f"{of} begins below 0, and a negative value would lower a score because of which a row was dropped"
    return None


def cannot_walk(query: Grouped | Joined, lists: bool = False, everywhere: bool = False) -> str | None:
    """Return the reason why a score is not monotone in every total that it uses, or None if it is.

    It must be increasing, or decreasing if the query is ascending. With `lists` the caller walks sorted lists of totals
    of all objects; with `everywhere` the score must be monotone for totals below zero too.
    """
    if isinstance(query, Joined) and query.repeat == "last" and not lists:
        return "with repeat = 'last' a new row may lower the value of an old one"
    if lists and (query.where if isinstance(query, Joined) else query.having or query.k is None):
        return "a condition chooses among objects, and the sorted lists do not contain its result"
    keys = (query.key,) if isinstance(query, Joined) else query.key
    if any(isinstance(node, Column) and node.name in keys for node in nodes.walk(query.score)):
        return "the score depends on the id itself"
    score, columns = _over_objects(query)
    wanted = "increasing" if query.descending else "decreasing"
    box = dict.fromkeys(columns, (-math.inf if everywhere else 0.0, math.inf))
    for column, shown in columns.items():
        if direction(score, column, box, exact=True) not in (wanted, "constant"):
            first = "highest" if query.descending else "lowest"
            return f"the {first} scores come first, and the score is not known to be monotone {wanted} in {shown}"
    return None


def _over_objects(query: Grouped | Joined) -> tuple[Expression, dict[str, str]]:
    """Return the score over objects, and the columns that it uses with their names for messages."""
    if isinstance(query, Joined):
        return query.score, {
            node.key: node.key for node in nodes.walk(query.score) if isinstance(node, Column)
        }
    halves = split(query)
    columns = {COUNTED.key: "COUNT(*)"}
    for number, (kind, argument) in enumerate(halves.aggregates):
        value = halves.arguments[argument]
        shown = value.name if isinstance(value, Column) else "…"
        columns[f"{COUNTED.side}.{number}"] = f"{kind.upper()}({shown})"
    return halves.score, columns


def uses_count(query: Grouped | Joined) -> bool:
    """Whether the score depends on how many rows an object has."""
    return isinstance(query, Grouped) and COUNTED in [*nodes.walk(split(query).score)]
