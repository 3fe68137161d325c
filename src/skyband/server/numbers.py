"""How things stand: rows a second, how long pushes take, how much is kept."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from skyband import __version__

if TYPE_CHECKING:
    from skyband.engine.monitor import Monitor

SPAN = 5.0  # seconds that a rate is taken over
KEPT = 2_000  # latencies that percentiles are taken from,
LATELY = 120.0  # if they are of the last so many seconds
MOST_LOOKED_AT = 200  # states that are looked at; of more of them it is these, times their share
BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Numbers:
    """Counts since the start, and the latest of what passes by."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.steps = 0
        self.rows = 0
        self.changes = 0
        self.bytes = 0  # of bodies
        self.requests: dict[tuple[str, int], int] = {}  # by method and status
        self.buckets = [0] * (len(BUCKETS) + 1)
        self.seconds = 0.0  # of all pushes
        self._marks: deque[tuple[float, int, int]] = deque()
        self._latencies: deque[tuple[float, float]] = deque(maxlen=KEPT)
        self._lock = threading.Lock()

    def step(self, rows: int, changes: int) -> None:
        """A step was taken."""
        now = time.monotonic()
        with self._lock:
            self.steps += 1
            self.rows += rows
            self.changes += changes
            if not self._marks or now - self._marks[-1][0] > 0.1:
                self._marks.append((now, self.rows, self.changes))
            while self._marks and now - self._marks[0][0] > SPAN:
                self._marks.popleft()

    def pushed(self, seconds: float, size: int) -> None:
        """A push was answered, so many seconds after its request began."""
        self.bytes += size
        self.seconds += seconds
        self._latencies.append((time.monotonic(), seconds))
        self.buckets[sum(seconds > edge for edge in BUCKETS)] += 1

    def answered(self, method: str, status: int) -> None:
        key = method, status
        self.requests[key] = self.requests.get(key, 0) + 1

    def summary(self) -> dict[str, Any]:
        now = time.monotonic()
        with self._lock:
            marks = [mark for mark in self._marks if now - mark[0] <= SPAN]
            rows, changes = self.rows, self.changes
        since = marks[0] if marks else (now, rows, changes)
        span = max(now - since[0], 0.5)
        latencies = sorted(seconds for at, seconds in self._latencies.copy() if now - at <= LATELY)
        return {
            "rows_per_second": round((rows - since[1]) / span, 1),
            "changes_per_second": round((changes - since[2]) / span, 1),
            "latency_ms": None
            if not latencies
            else {
                "p50": round(1e3 * latencies[len(latencies) // 2], 3),
                "p99": round(1e3 * latencies[min(len(latencies) - 1, len(latencies) * 99 // 100)], 3),
            },
            "seconds": round(now - self.began, 1),
            "version": __version__,
        }


def state_of(monitor: Monitor) -> dict[str, Any]:
    """Return how many rows are kept and in how many bytes, against the rows of the windows."""
    rows = size = seen = admitted = window_rows = 0
    slots: dict[tuple[int, int], Any] = {}
    for watch in monitor.watches.values():
        slots.setdefault((id(watch.group), watch.slot), watch)
    some = list(slots.values())[:: max(1, len(slots) // MOST_LOOKED_AT)]
    for watch in some:
        algorithm = watch.group.algorithm
        candidates, used = algorithm.size(watch.slot)
        rows, size = rows + candidates, size + used
        window_rows = max(window_rows, watch._stream.rows_in(watch.window, watch.beginning) or 0)
        if not algorithm.card.window:
            seen += watch._stream.accepted
            admitted += algorithm.counters(watch.slot).get("admitted", 0)
    share = len(slots) / len(some) if some else 1.0
    return {
        "state_rows": round(rows * share),
        "state_bytes": round(size * share),
        "window_rows": window_rows,
        "pruned": None if not seen else round(max(0.0, 1 - admitted / seen), 6),
    }
