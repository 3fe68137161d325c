"""What the asker promises about rows yet to come, for algorithms that let rows go by it.

An object that several rows make can still rise while rows may come. How far, is known only if somebody says how great
a value can be and how often an object is told of:

    range = '0..1'                      every column that is totalled; or range = 'r1.x 0..1, r2.x 0..100'
    appears = 'once'                    an object comes at most once in each stream, ever
    appears = 'once per window'         at most once in each stream in any window
    appears = '3 per window'            at most three times in each stream in any window

A range is also a rule about rows: one with a value outside stays out of this query, as one with a null does, whatever
algorithm answers. Without a promise ranges and counts are learnt, and whoever let rows go by them has to have them at
hand when they are broken.
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
    """Ranges by column name ("r1.x", "x", or "" for all), and how often an object comes in a stream."""

    ranges: tuple[tuple[str, float, float], ...] = ()
    most: int | None = None  # rows of an object in a stream in any window
    ever: bool = False  # once in a stream, ever

    def range_of(self, name: str, stream: str | None) -> Range | None:
        """The range of a column of one stream, if there is one."""
        found = {known: (low, high) for known, low, high in self.ranges}
        for key in (f"{stream}.{name}".lower() if stream else name.lower(), name.lower(), ""):
            if key in found:
                return found[key]
        return None


def read_ranges(text: str) -> tuple[tuple[str, float, float], ...] | None:
    """The ranges that a text tells, or None if it can't be read."""
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
    """How often, and whether that is for ever; None if the text can't be read."""
    match = _APPEARS.match(" ".join(text.lower().split()))
    if match is None:
        return None
    count = 1 if match["count"] == "once" else int(match["count"])
    ever = match["window"] is None
    if count < 1 or count > 2**30 or (ever and match["count"] != "once"):
        return None
    return count, ever


def promise_of(query: Grouped | Joined) -> Promise:
    options = dict(query.options)
    promise = Promise()
    if "range" in options:
        promise = replace(promise, ranges=read_ranges(str(options["range"])) or ())
    if "appears" in options:
        most, ever = read_appears(str(options["appears"])) or (None, False)
        promise = replace(promise, most=most, ever=ever)
    return promise


def unknown_range(query: Grouped | Joined) -> str | None:
    """A name in `range` that is no column of this query, or None."""
    known = {""}
    if isinstance(query, Joined):
        for node in nodes.walk(query.score):
            if isinstance(node, Column) and node.name != query.key:
                known |= {node.name.lower(), *(f"{s}.{node.name}".lower() for s in query.streams)}
    else:
        known |= {e.name.lower() for e in split(query).arguments if isinstance(e, Column)}
    return next((name for name, _, _ in promise_of(query).ranges if name not in known), None)


def is_whole(query: Grouped | Joined) -> bool:
    """Whether everything is promised that tells how far an object can rise: nothing has to be learnt."""
    promise = promise_of(query)
    return promise.most is not None and all(
        promise.range_of(name, stream) is not None for name, stream in attributes(query)
    )


def attributes(query: Grouped | Joined) -> list[tuple[str, str | None]]:
    """What is totalled: the columns of streams, or the arguments of SUM and MAX (those without a name as "")."""
    if isinstance(query, Grouped):
        return [(e.name if isinstance(e, Column) else "", None) for e in split(query).arguments]
    found: list[tuple[str, str | None]] = []
    for node in nodes.walk(query.score):
        if isinstance(node, Column) and node.name != query.key:
            found += [(node.name, s) for s in query.streams if node.side in (None, s)]
    return found


def cannot_bound(query: Grouped | Joined) -> str | None:
    """Why no bound can be put on how far an object may yet rise, or None if one can."""
    reason = cannot_walk(query)
    if reason is not None:
        return reason
    if isinstance(query, Joined) and query.where is not None:
        return "WHERE chooses among objects, so that one which is there now may not count tomorrow"
    if isinstance(query, Grouped) and (query.having is not None or query.k is None):
        return "HAVING chooses among objects, so that one which is there now may not count tomorrow"
    totals = query.streams if isinstance(query, Joined) else split(query).aggregates
    if max(len(totals), len(set(attributes(query)))) > MOST_SUMS:
        return f"it takes up to {MOST_SUMS} streams and totals"
    for name, low, _ in promise_of(query).ranges:
        if low < 0:
            of = f"the range of {name}" if name else "the range"
            return f"{of} begins below 0, and a negative value would lower a score that a row was let go for"
    return None


def cannot_walk(query: Grouped | Joined, lists: bool = False, everywhere: bool = False) -> str | None:
    """Why a score is not monotone increasing in everything that it is made of (of an ascending query: decreasing).

    lists: for somebody who walks down lists of totals, all objects in one go; everywhere: below zero, too.
    """
    if isinstance(query, Joined) and query.repeat == "last" and not lists:
        return "with repeat = 'last' a new row may lower what an old one told"
    if lists and (query.where if isinstance(query, Joined) else query.having or query.k is None):
        return "a condition on objects chooses among them, and its lists know nothing of it"
    keys = (query.key,) if isinstance(query, Joined) else query.key
    if any(isinstance(node, Column) and node.name in keys for node in nodes.walk(query.score)):
        return "the score depends on the id itself"
    score, columns = _over_objects(query)
    wanted = "increasing" if query.descending else "decreasing"
    box = dict.fromkeys(columns, (-math.inf if everywhere else 0.0, math.inf))
    for column, shown in columns.items():
        if direction(score, column, box, exact=True) not in (wanted, "constant"):
            first = "highest" if query.descending else "lowest"
            return f"the {first} scores come first, and the score is not proved to be monotone {wanted} in {shown}"
    return None


def _over_objects(query: Grouped | Joined) -> tuple[Expression, dict[str, str]]:
    """The score, and the columns of objects that it is made of, with the words for them."""
    if isinstance(query, Joined):
        return query.score, {
            node.key: node.key for node in nodes.walk(query.score) if isinstance(node, Column)
        }
    halves = split(query)
    columns = {COUNTED.key: "COUNT(*)"}
    for number, (kind, argument) in enumerate(halves.aggregates):
        told = halves.arguments[argument]
        columns[f"{COUNTED.side}.{number}"] = (
            f"{kind.upper()}({told.name if isinstance(told, Column) else '…'})"
        )
    return halves.score, columns


def uses_count(query: Grouped | Joined) -> bool:
    """Whether the score depends on how many rows an object has."""
    return isinstance(query, Grouped) and COUNTED in [*nodes.walk(split(query).score)]
