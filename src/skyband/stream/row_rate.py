"""About how many rows a time window holds, for `explain`: counts by time in a bounded number of buckets."""

from __future__ import annotations

from typing import Any

import numpy as np

BUCKETS = 1024


class Tally:
    """(latest time, rows) of each step; when there are too many, neighbours are added up."""

    def __init__(self) -> None:
        self.time: list[int] = []
        self.rows: list[int] = []

    def add(self, time: int, rows: int) -> None:
        if rows:
            self.time.append(time)
            self.rows.append(rows)
            if len(self.time) > BUCKETS:
                even = len(self.time) // 2 * 2
                self.rows = [sum(self.rows[i : i + 2]) for i in range(0, even, 2)] + self.rows[even:]
                self.time = [max(self.time[i : i + 2]) for i in range(0, even, 2)] + self.time[even:]

    def since(self, time: int) -> int:
        return sum(rows for moment, rows in zip(self.time, self.rows, strict=True) if moment >= time)

    def before(self, time: int) -> int | None:
        """Return the latest time of the steps that ended before this one; None if there are none."""
        return max((moment for moment in self.time if moment < time), default=None)

    def dump(self) -> dict[str, Any]:
        return {"time": np.array(self.time, dtype=np.int64), "rows": np.array(self.rows, dtype=np.int64)}

    def load(self, blob: dict[str, Any]) -> None:
        self.time, self.rows = blob["time"].tolist(), blob["rows"].tolist()
