"""How many rows a time window holds, for `explain` and the planner: counts by time in a bounded number of buckets.

A step of up to 2,048 rows has a bucket for each, a longer one at most 128 of equal size. When there are too many,
neighbours are added up, so a window of few rows is counted exactly and a long one to about a hundredth.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.core.types import Ints

BUCKETS = 8192
FINE = 2048  # rows of a step that have a bucket each
COARSE = 128  # buckets of a longer step at most


class Tally:
    """(latest time, rows) of each bucket, in order of arrival."""

    def __init__(self) -> None:
        self._time = np.empty(64, dtype=np.int64)
        self._rows = np.empty(64, dtype=np.int64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def time(self) -> Ints:
        """The latest time of each bucket."""
        return self._time[: self._count]

    @property
    def rows(self) -> Ints:
        """The rows of each bucket."""
        return self._rows[: self._count]

    def add(self, time: int, rows: int) -> None:
        """Count rows of one time."""
        if rows:
            at = self._reserve(1)
            self._time[at], self._rows[at] = time, rows

    def add_all(self, times: Ints) -> None:
        """Count rows by their times, in any order."""
        if len(times) <= FINE:
            at = self._reserve(len(times))
            self._time[at : at + len(times)], self._rows[at : at + len(times)] = times, 1
            return
        each = -(-len(times) // COARSE)
        latest = np.maximum.reduceat(times, range(0, len(times), each))
        at = self._reserve(len(latest))
        self._time[at : at + len(latest)], self._rows[at : at + len(latest)] = latest, each
        self._rows[at + len(latest) - 1] -= each * len(latest) - len(times)

    def _reserve(self, more: int) -> int:
        """Make room for further buckets; return where they begin."""
        if self._count + more > BUCKETS:
            even = self._count // 2 * 2
            for values, join in ((self._time, np.maximum), (self._rows, np.add)):
                values[: even // 2] = join(values[0:even:2], values[1:even:2])
                values[even // 2 : self._count - even // 2] = values[even : self._count].copy()
            self._count -= even // 2
        if self._count + more > len(self._time):
            room = 2 * (self._count + more)
            self._time, self._rows = np.resize(self._time, room), np.resize(self._rows, room)
        self._count += more
        return self._count - more

    def since(self, time: int) -> int:
        """Return about how many rows came with this time or a later one."""
        return int(self.rows[self.time >= time].sum())

    def before(self, time: int) -> int | None:
        """Return the latest time of the buckets that ended before this one; None if there are none."""
        earlier = self.time[self.time < time]
        return int(earlier.max()) if len(earlier) else None

    def dump(self) -> dict[str, Any]:
        return {"time": self.time.copy(), "rows": self.rows.copy()}

    def load(self, blob: dict[str, Any]) -> None:
        self._time, self._rows = blob["time"].copy(), blob["rows"].copy()
        self._count = len(self._time)
