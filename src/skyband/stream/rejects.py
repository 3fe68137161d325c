"""Rows that don't fit: counted by reason for ever, the last 10,000 kept with reason and raw text.

The reasons: `type` (a value that is not of its column's type), `time` (no event time), `late` (older than every
window and than what is retained), `ahead` (stamped further ahead than max_ahead, and no room to wait). In update
streams also `op` (an operation that isn't known), `key` (no key) and `overtaken` (a newer row of its key was taken
while it waited).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa

from skyband.stream.arrow import python_value
from skyband.stream.schema import Raw, columns

KEPT = 10_000
REASONS = ("type", "time", "late", "ahead")
UPDATE_REASONS = ("op", "key", "overtaken")
SCHEMA = pa.schema(
    [("seq", pa.int64()), *((name, pa.string()) for name in ("stream", "reason", "detail", "raw"))]
)


class Reject(NamedTuple):
    """A rejected row. In a part of a step `seq` is the row's position in it, until the step numbers its rows."""

    seq: int
    stream: str
    reason: str
    detail: str
    raw: str


class Rejects:
    """What was rejected so far."""

    def __init__(self, updates: bool = False) -> None:
        self.counts: dict[str, int] = dict.fromkeys(REASONS, 0)
        self.last: deque[Reject] = deque(maxlen=KEPT)
        self.of_step: list[Reject] = []  # those of the latest step
        if updates:
            self.count_updates()

    def count_updates(self) -> None:
        """Count the reasons of update streams, too."""
        self.counts = {**self.counts, **{name: self.counts.get(name, 0) for name in UPDATE_REASONS}}

    def add(self, rejects: Iterable[Reject]) -> None:
        for reject in rejects:
            self.counts[reject.reason] += 1
            self.last.append(reject)
            self.of_step.append(reject)

    def table(self) -> pa.Table:
        return to_table(self.last)

    def dump(self) -> dict[str, Any]:
        return {"counts": dict(self.counts), "last": [list(reject) for reject in self.last]}

    def load(self, blob: dict[str, Any]) -> None:
        self.counts.update(blob["counts"])
        self.last.extend(Reject(*values) for values in blob["last"])


def to_table(rejects: Iterable[Reject]) -> pa.Table:
    return pa.Table.from_pylist([reject._asdict() for reject in rejects], schema=SCHEMA)


def raw_text(raw: Raw, row: int) -> str:
    """Return a row as it came, as JSON."""
    values = {}
    for name, column in columns(raw).items():
        value = column[row]
        values[name] = python_value(value) if isinstance(value, pa.Scalar) else value
    text = json.dumps(values, default=str, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character: only an escape can say it
        text = json.dumps(values, default=str)
    return text
