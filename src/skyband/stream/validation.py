"""The door: which rows of a batch are accepted, and why the others are not.

In this order: a value that isn't of its column's type; in an update stream an operation that isn't known, a missing
key; a missing time, a time older than every window and than what is retained (judged against `now` before the step). It
needs nothing but plain data, so it runs in the monitor and in Spark's executors alike. Rows that are far ahead are
judged after it, for a step as a whole (waiting.py).

Of an update stream more rows go on than are accepted (updates.py): deletes, which need a key and nothing else,
and rows that are rejected as late, since they still end the row that they were to replace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.core.types import MINIMUM, Ints
from skyband.stream import clock
from skyband.stream.arrow import numbers_array
from skyband.stream.batches import flat
from skyband.stream.rejects import Reject, raw_text
from skyband.stream.rules import RULES
from skyband.stream.schema import Raw, fit
from skyband.stream.updates import DATA, DELETE, LATE, UNREAD, Codes, keyless, operations


@dataclass(frozen=True)
class Door:
    """What a stream's door needs to know; plain data, so that it can travel."""

    stream: str
    schema: pa.Schema
    time: str | None
    kind: clock.Kind | None
    late_before: int | None  # time key: rows before it are late
    key: str | None = None  # of an update stream
    op: str | None = None
    rules: int = RULES


@dataclass
class Accepted:
    """The rows of a batch that got in."""

    count: int  # rows of the batch, rejects included
    table: pa.Table
    position: Ints | None  # of each row of the table in the batch; None: all of them
    time: Ints
    rejects: list[Reject]
    # Where rows were pruned on the way: position (a range: all of them) and time of the accepted rows that windows must
    # count
    passed: tuple[Any, Ints] | None = None
    total: int = 0  # accepted rows in all
    codes: Codes | None = (
        None  # of an update stream: which rows of the table are accepted, and what the others are
    )

    @property
    def plain(self) -> bool:
        """Whether it is the whole batch, and nothing but data."""
        return self.position is None and self.passed is None and self.codes is None


def accept(
    door: Door,
    raw: Raw,
    rows: int,
    text: Mapping[int, tuple[str, str]] | None = None,
    most_texts: int | None = None,
) -> Accepted:
    """Accept or reject rows. `text` has what is wrong with rows that could not be parsed, and their raw text.

    A caller that keeps only so many rejects needs the raw text of the last `most_texts` only.
    """
    table, misfits = fit(raw, rows, door.schema, door.rules)
    wrong: dict[int, tuple[str, str]] = {row: ("type", detail) for row, detail in misfits.items()}
    unparsed = text or {}
    for row, (detail, _) in unparsed.items():
        wrong[row] = ("type", detail)
    codes = _codes(door, table, wrong)
    time, late = _times(door, table, rows, codes, wrong)
    if not wrong:
        return Accepted(rows, table, None, time, [], total=_data(rows, codes), codes=codes)
    inside = np.ones(rows, dtype=bool)
    inside[list(wrong)] = False
    if codes is not None:
        inside[late] = True
        codes[late] = LATE
        codes = codes[inside]
    position = np.flatnonzero(inside)
    silent = 0 if most_texts is None else len(wrong) - most_texts  # the first so many won't be kept
    rejects = []
    for number, (row, (reason, detail)) in enumerate(sorted(wrong.items())):
        raw_row = unparsed[row][1] if row in unparsed else "" if number < silent else raw_text(raw, row)
        rejects.append(Reject(row, door.stream, reason, detail, raw_row))
    table = table.take(numbers_array(position))
    total = _data(len(position), codes)
    return Accepted(rows, table, position, time[position], rejects, total=total, codes=codes)


def _codes(door: Door, table: pa.Table, wrong: dict[int, tuple[str, str]]) -> Codes | None:
    """Return what each row of an update stream is; rows that don't say so, or have no key, are wrong."""
    if door.key is None:
        return None
    codes = np.full(table.num_rows, DATA, dtype=np.uint8)
    if door.op is not None:
        words = flat(table.column(door.op))
        codes = operations(words)
        for row in np.flatnonzero(codes == UNREAD).tolist():
            word = words[row].as_py()
            detail = f'no operation in column "{door.op}"'
            if word is not None:
                detail = (
                    f'column "{door.op}" says {word[:80]!r}; known are insert, update, delete, and c, u, d, r'
                )
            wrong.setdefault(row, ("op", detail))
    for row in np.flatnonzero(keyless(flat(table.column(door.key)))).tolist():
        wrong.setdefault(row, ("key", f'no key in column "{door.key}"'))
    return codes


def _times(
    door: Door, table: pa.Table, rows: int, codes: Codes | None, wrong: dict[int, tuple[str, str]]
) -> tuple[Ints, list[int]]:
    """Return each row's time key, and which rows are wrong for no other reason than that they are late."""
    if door.time is None:
        return np.zeros(rows, dtype=np.int64), []  # a table without columns doesn't know how many
    if door.kind is None:  # no row has had a time so far
        time, missing = np.zeros(rows, dtype=np.int64), np.ones(rows, dtype=bool)
    else:
        time, missing = clock.keys_of(flat(table.column(door.time)), door.kind)
    late_before = MINIMUM if door.late_before is None else door.late_before
    if (
        codes is None and not missing.any() and time.min(initial=late_before) >= late_before
    ):  # the common case
        return time, []
    judged = np.ones(len(time), dtype=bool)
    if codes is not None:  # a delete needs no time, and is never too late
        judged = codes != DELETE
        time = np.where(missing, MINIMUM, time)
    for row in np.flatnonzero(missing & judged).tolist():
        wrong.setdefault(row, ("time", f'no usable time in column "{door.time}"'))
    if door.late_before is None:
        return time, []
    old = np.flatnonzero((time < door.late_before) & judged & ~missing)
    late = [row for row in old.tolist() if row not in wrong]
    wrong |= dict.fromkeys(late, ("late", "older than every window and than what is retained"))
    return time, late


def _data(rows: int, codes: Codes | None) -> int:
    return rows if codes is None else int(np.count_nonzero(codes == DATA))
