"""What the changes of a batch must be, for `skyband verify`: a query's right answers before and after it, compared.

Folding changes shows what is in an answer, and neither at which rank and time it entered nor in which order the
rows stand. So a query's rows of a batch are compared with these, column by column: the leaves in any order, then the
enters by rank. Where answers need not be exact, only what holds of any answer is looked at (`wrong_form`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.stream import clock
from skyband.stream.arrow import python_value

from .brute_answers import Ranked

Rows = Sequence[dict[str, Any]]
Who = tuple[int | None, int | None, str | None]  # seq, seq_b and id, as a change has them
TimeType = tuple[clock.Kind | None, pa.DataType]  # of the change table
Shown = Callable[[Any], Any]  # a value as the output holds it


class Due(NamedTuple):
    """What a batch must say of a query."""

    leaves: list[Ranked]
    enters: list[tuple[int, Ranked]]  # with their ranks


def due(before: list[Ranked], after: list[Ranked], dropped: list[Ranked]) -> Due:
    """The changes between two answers, and what another query of this name, dropped just now, leaves behind."""
    if before == after:
        return Due(dropped, [])
    there, still = {ranked.entry for ranked in before}, {ranked.entry for ranked in after}
    return Due(
        [*dropped, *(ranked for ranked in before if ranked.entry not in still)],
        [(rank, ranked) for rank, ranked in enumerate(after, 1) if ranked.entry not in there],
    )


def wrong_rows(rows: Rows, right: Due, time: TimeType, shown: Shown) -> str | None:
    """What is wrong with a query's rows; None if nothing is."""
    leaves = {who_of(row): row for row in rows if row["change"] == "leave"}
    enters = [row for row in rows if row["change"] == "enter"]
    times = iter(_times([*right.leaves, *(ranked for _, ranked in right.enters)], time, shown))
    for ranked in right.leaves:
        row = leaves.pop(ranked.who, None)
        if row is None:
            return f"{name_of(ranked.who)} should leave and does not."
        wrong = _wrong_values(row, None, ranked.score, next(times))
        if wrong is not None:
            return wrong
    for who in leaves:
        return f"{name_of(who)} leaves and should not."
    coming = {ranked.who for _, ranked in right.enters}
    for row in enters:
        if who_of(row) not in coming:
            return f"{name_of(who_of(row))} enters and should not."
    for place, (rank, ranked) in enumerate(right.enters):
        found = enters[place] if place < len(enters) else None
        if found is None or who_of(found) != ranked.who:
            entered = any(who_of(row) == ranked.who for row in enters)
            how = "enters out of order: enters come by rank" if entered else "should enter and does not"
            return f"{name_of(ranked.who)} {how}."
        wrong = _wrong_values(found, rank, ranked.score, next(times))
        if wrong is not None:
            return wrong
    return None


def wrong_form(rows: Rows) -> str | None:
    """What is wrong with a query's rows whatever its answer: leaves come first, without a rank, then enters by rank."""
    rank = 0
    for row in rows:
        who = name_of(who_of(row))
        if row["change"] not in ("leave", "enter"):
            return f"the change of {who} is {row['change']!r} and should be leave or enter."
        if row["change"] == "leave" and rank:
            return f"{who} leaves after others have entered: leaves come first."
        if row["change"] == "leave" and row["rank"] is not None:
            return f"{who} leaves with rank {row['rank']!r} and should with None."
        if row["change"] == "enter":
            if not isinstance(row["rank"], int) or row["rank"] < 1:
                return f"{who} enters with rank {row['rank']!r}, which is none."
            if row["rank"] <= rank:
                return (
                    f"{who} enters with rank {row['rank']} after one with rank {rank}: enters come by rank."
                )
            rank = row["rank"]
    return None


def who_of(row: dict[str, Any]) -> Who:
    return row["seq"], row["seq_b"], row["id"]


def name_of(who: Who) -> str:
    """What a change is about, in words."""
    seq, seq_b, key = who
    if seq is None:
        return f"object {key!r}"
    return f"row {seq}" if seq_b is None else f"the pair of rows {seq} and {seq_b}"


def number(score: Any) -> float:
    """A score as it was put out; JSON has words for infinities. What is no number is like none."""
    try:
        return float(score)
    except (TypeError, ValueError):
        return float("nan")


def _wrong_values(row: dict[str, Any], rank: int | None, score: float, time: Any) -> str | None:
    does = "leaves" if rank is None else "enters"
    for column, reported, right in (
        ("rank", row["rank"], rank),
        ("score", number(row["score"]), score),
        ("time", row["time"], time),
    ):
        if reported != right:
            where = name_of(who_of(row))
            return f"{where} {does} with {column} {_text(reported)} and should with {_text(right)}."
    return None


def _text(value: Any) -> str:
    return repr(value) if value is None or isinstance(value, int | float) else str(value)


def _times(ranked: list[Ranked], time: TimeType, shown: Shown) -> list[Any]:
    """Times as the change table has them; those of a stream without times are null."""
    kind, type_ = time
    known = [one.time for one in ranked if one.time is not None]
    if kind is None or not known:
        return [None] * len(ranked)
    values = iter(clock.column(np.array(known, np.int64), kind, type_))
    return [None if one.time is None else shown(python_value(next(values))) for one in ranked]
