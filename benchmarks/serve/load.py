"""The server under load: its sizes, its queries and rows, and what pushes to it."""

from __future__ import annotations

import http.client
import json
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

from benchmarks.harness.figures import Figure
from benchmarks.streams.generators import independent, weighted_sum, weights
from skyband.core.errors import SkybandError
from skyband.server.testing import Running, running


class NoBrowser(SkybandError):
    """A part needs a browser or a package that isn't installed."""


K, COLUMNS = 20, 4
ARROW, LINES = "application/vnd.apache.arrow.stream", "application/x-ndjson"
CLOCK, CPU = "by the clock", "for each CPU second"
P50, P99 = "p50", "p99"


@dataclass(frozen=True)
class Scale:
    """The sizes of a run."""

    name: str
    window: int  # rows
    queries: int
    many_queries: int  # of the start
    readers: int
    seconds: float  # of each measurement
    rate: int  # rows a second of the latency's load
    arrow: int  # rows of one push
    lines: int
    step: int  # rows of one push of the load
    loads: int  # of the page
    idle: int  # readers of the crowd that wait
    events: int  # and those that get events
    odd: int  # and the slow, the vanishing and the silent ones, of each kind
    crowd_rate: int  # rows a second that are tried first

    def __str__(self) -> str:
        return f"{self.name}: window of {self.window:,} rows, k = {K}, d = {COLUMNS}, {self.seconds:g} s each"


SCALES = {
    "tiny": Scale("tiny", 2_000, 3, 5, 5, 0.5, 1_000, 500, 200, 50, 1, 20, 5, 3, 2_000),
    "quick": Scale(
        "quick", 200_000, 100, 1_000, 1_000, 5.0, 50_000, 20_000, 5_000, 500, 5, 1_000, 100, 20, 50_000
    ),
    "full": Scale(
        "full", 1_000_000, 100, 1_000, 1_000, 20.0, 50_000, 20_000, 5_000, 500, 9, 10_000, 1_000, 50, 50_000
    ),
}


def figure(scale: Scale, name: str, title: str, unit: str, times: float = 1.0) -> Figure:
    return Figure(name, title, "what", "value", unit, str(scale), times=times, form="bars")


def sqls(queries: int, window: int) -> list[str]:
    drawn = weights(queries, COLUMNS)
    return [
        f"SELECT x0 FROM s ORDER BY {weighted_sum(weight)} DESC LIMIT {K} WINDOW {window} ROWS"
        for weight in drawn
    ]


def table(rows: int, seed: int) -> pa.Table:
    points = independent(rows, COLUMNS, seed)
    columns = {f"x{j}": pa.array(np.ascontiguousarray(points[:, j])) for j in range(COLUMNS)}
    return pa.table({**columns, "mark": pa.array(np.zeros(rows))})


def as_arrow(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def as_lines(rows: pa.Table) -> bytes:
    return "\n".join(json.dumps(row) for row in rows.to_pylist()).encode()


class Pusher:
    """One connection that sends bodies and waits for each to be acknowledged."""

    def __init__(self, url: str, kind: str) -> None:
        parts = urlsplit(url)
        self.connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=600)
        self.headers = {"content-type": kind}

    def push(self, body: bytes) -> dict[str, Any]:
        self.connection.request("POST", "/api/streams/s/rows", body, self.headers)
        response = self.connection.getresponse()
        answer = json.loads(response.read())
        if response.status != 200:
            raise RuntimeError(answer)
        return answer  # type: ignore[no-any-return]

    def call(self, method: str, path: str, given: Any = None) -> Any:
        body = None if given is None else json.dumps(given)
        self.connection.request(method, path, body, {"content-type": "application/json"} if body else {})
        return json.loads(self.connection.getresponse().read())


def prepared(scale: Scale, folder: Path, queries: int, leader: bool = False) -> Running:
    """A server with these queries and a full window."""
    # an installed package has its modules compiled, whatever the environment says
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    server = running(data=folder / "data", max_rate=1_000_000, max_subscribers=100_000, max_queries=100_000)
    pusher = Pusher(server.url, ARROW)
    pusher.push(as_arrow(table(10, 0)))
    for number, sql in enumerate(sqls(queries, scale.window)):
        pusher.call("POST", "/api/queries", {"name": f"q{number}", "sql": sql})
    if leader:  # changes with every step
        sql = f"SELECT mark FROM s ORDER BY mark DESC LIMIT 1 WINDOW {scale.window} ROWS"
        pusher.call("POST", "/api/queries", {"name": "leader", "sql": sql})
    for seed in range(1 + scale.window // 20_000):
        pusher.push(as_arrow(table(min(20_000, scale.window), seed)))
    return server


def on_disk(body: bytes, count: int) -> list[float]:
    """Append and flush a body `count` times; return the seconds of each."""
    took = []
    with tempfile.NamedTemporaryFile(buffering=0) as file:
        for _ in range(count):
            began = time.perf_counter()
            file.write(body)
            os.fsync(file.fileno())
            took.append(time.perf_counter() - began)
    return took


class Load:
    """Pushes at a steady rate; each push has a mark, and `sent` holds the time of each mark."""

    def __init__(
        self, url: str, scale: Scale, seconds: float, every: float | None = None, begun: int = 0
    ) -> None:
        self.every = scale.step / scale.rate if every is None else every
        self.count = max(3, int(seconds / self.every))
        self.begun = begun  # marks go on from here, or nothing would change
        self.rows = scale.step * self.count
        self.took = 0.0
        self.sent: dict[float, float] = {}
        self.answered: list[float] = []
        self._pusher = Pusher(url, ARROW)
        base = table(scale.step, 99)
        self._bodies = [as_arrow(self._marked(base, begun + n)) for n in range(1, self.count + 1)]

    @property
    def last(self) -> int:
        return self.begun + self.count

    def _marked(self, base: pa.Table, number: int) -> pa.Table:
        marks = np.zeros(base.num_rows)
        marks[0] = number
        return base.set_column(COLUMNS, "mark", pa.array(marks))

    def run(self) -> None:
        began = time.perf_counter()
        for number, body in enumerate(self._bodies, 1):
            wait = began + number * self.every - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            self.sent[float(self.begun + number)] = at = time.perf_counter()
            self._pusher.push(body)
            self.answered.append(time.perf_counter() - at)
        self.took = time.perf_counter() - began


def add_durations(found: Figure, what: str, seconds: Any) -> None:
    """Add the median and the 99th percentile of durations to a figure."""
    found.add("", P50, what, value=float(np.percentile(seconds, 50)))
    found.add("", P99, what, value=float(np.percentile(seconds, 99)))
