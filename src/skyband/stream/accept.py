"""The door: which rows of a batch are accepted, and why the others are not.

In this order: a value that isn't of its column's type, a missing time, a time older than every window and than
what is retained (judged against `now` before the step), a time too far ahead (judged for a step as a whole). It
needs nothing but plain data, so it runs in the monitor and in Spark's executors alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skyband.stream import clock
from skyband.stream.arrow import numbers_array
from skyband.stream.batches import flat
from skyband.stream.rejects import Reject, raw_text
from skyband.stream.schema import Raw, fit
from skyband.stream.window import Ints


@dataclass(frozen=True)
class Door:
    """What a stream's door needs to know; plain data, so that it can travel."""

    stream: str
    schema: pa.Schema
    time: str | None
    kind: clock.Kind | None
    late_before: int | None  # time key: rows before it are late


@dataclass
class Accepted:
    """The rows of a batch that got in."""

    count: int  # rows of the batch, rejects included
    table: pa.Table
    position: Ints | None  # of each accepted row in the batch; None: all of them
    time: Ints
    rejects: list[Reject]
    all_ahead: bool = False  # there were rows, and every one was too far ahead
    # Where rows were pruned on the way: position and time of the accepted rows that windows must count
    passed: tuple[Ints, Ints] | None = None
    total: int = 0  # accepted rows in all


def accept(
    door: Door,
    raw: Raw,
    rows: int,
    text: Mapping[int, tuple[str, str]] | None = None,
    most_texts: int | None = None,
) -> Accepted:
    """Let rows in. `text` tells of rows that could not even be parsed what is wrong and their raw text.

    Whoever keeps only so many rejects needs the raw text of the last `most_texts` only.
    """
    table, misfits = fit(raw, rows, door.schema)
    wrong: dict[int, tuple[str, str]] = {row: ("type", detail) for row, detail in misfits.items()}
    unparsed = text or {}
    for row, (detail, _) in unparsed.items():
        wrong[row] = ("type", detail)
    time = np.zeros(rows, dtype=np.int64)
    if door.time is not None and door.kind is not None:
        time, missing = clock.keys_of(flat(table.column(door.time)), door.kind)
        for row in np.flatnonzero(missing).tolist():
            wrong.setdefault(row, ("time", f'no usable time in column "{door.time}"'))
        if door.late_before is not None:
            for row in np.flatnonzero((time < door.late_before) & ~missing).tolist():
                wrong.setdefault(row, ("late", "older than every window and than what is retained"))
    if not wrong:
        return Accepted(rows, table, None, time, [], total=rows)
    inside = np.ones(rows, dtype=bool)
    inside[list(wrong)] = False
    position = np.flatnonzero(inside)
    silent = 0 if most_texts is None else len(wrong) - most_texts  # the first so many won't be kept
    rejects = []
    for number, (row, (reason, detail)) in enumerate(sorted(wrong.items())):
        told = unparsed[row][1] if row in unparsed else "" if number < silent else raw_text(raw, row)
        rejects.append(Reject(row, door.stream, reason, detail, told))
    table = table.take(numbers_array(position))
    return Accepted(rows, table, position, time[position], rejects, total=len(position))


def without_ahead(
    parts: list[Accepted], now: int, max_ahead: int, kind: clock.Kind, stream: str
) -> list[Accepted]:
    """A step's parts without the rows that are stamped too far ahead of now; those become rejects.

    All parts are judged together, so that it makes no difference how a step was cut.
    """
    limit = _furthest(np.concatenate([part.time for part in parts]), now, max_ahead, kind)
    return [_cut(part, limit, stream) for part in parts]


def _cut(part: Accepted, limit: int, stream: str) -> Accepted:
    ahead = part.time > limit
    if not ahead.any():
        return part
    position = np.arange(part.count) if part.position is None else part.position
    rejects = [
        Reject(
            int(position[row]),
            stream,
            "ahead",
            "stamped further ahead of now than max_ahead",
            raw_text(part.table, row),
        )
        for row in np.flatnonzero(ahead).tolist()
    ]
    kept = np.flatnonzero(~ahead)
    return Accepted(
        count=part.count,
        table=part.table.take(numbers_array(kept)),
        position=position[kept],
        time=part.time[kept],
        rejects=sorted([*part.rejects, *rejects]),
        all_ahead=len(rejects) == part.count,
        total=len(kept),
    )


def _furthest(time: Ints, now: int, max_ahead: int, kind: clock.Kind) -> int:
    """The latest time that is acceptable: each accepted row, in order of time, carries `now` on."""
    steps = np.concatenate([[now], np.unique(time[time > now])])
    if kind == "number":
        values = clock.numbers_of(steps)
        gaps = values[1:] > values[:-1] + max_ahead / 1e9
    else:  # as unsigned numbers no difference of two keys overflows
        gaps = np.diff(steps).view(np.uint64) > np.uint64(max_ahead)
    first = int(np.argmax(gaps)) if gaps.any() else len(steps) - 1
    return clock.plus(int(steps[first]), max_ahead, kind)
