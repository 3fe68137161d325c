"""The server on this machine: `skyband serve` in a process of its own, journal on, asked over loopback.

* `arrow`, `lines`: rows a second that are acknowledged, at a hundred queries, by Arrow IPC and by JSON lines;
* `latency`: from the moment a push is sent to its change on a WebSocket, at 50,000 rows a second;
* `readers`: a thousand of them, and what they cost the one who pushes (readers.py);
* `start`: from the start of the process to its first answer, with a thousand queries and a window of a million rows;
* `page`, `smooth`: the dashboard in Chromium (browser.py).

All are seconds of the clock, for that is what a client waits for: they say nothing on a machine with other work to do.
Whoever pushes and reads takes part of the two cores, too. What the disk itself takes for the same bytes is measured
beside it.
"""

from __future__ import annotations

import http.client
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

from benchmarks.harness.figures import Figure
from benchmarks.harness.settings import Settings, parts_of
from benchmarks.streams.generators import independent, weighted_sum, weights
from skyband.core.errors import SkybandError
from skyband.server.testing import Running, running


class NoBrowser(SkybandError):
    """A part needs what isn't installed here."""


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

    def __str__(self) -> str:
        return f"{self.name}: window of {self.window:,} rows, k = {K}, d = {COLUMNS}, {self.seconds:g} s each"


SCALES = {
    "tiny": Scale("tiny", 2_000, 3, 5, 5, 0.5, 1_000, 500, 200, 50, 1),
    "quick": Scale("quick", 200_000, 100, 1_000, 1_000, 5.0, 50_000, 20_000, 5_000, 500, 5),
    "full": Scale("full", 1_000_000, 100, 1_000, 1_000, 20.0, 50_000, 20_000, 5_000, 500, 9),
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
    # an installed package has its modules compiled, whatever the shell of who measures says about that
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
    """Seconds that the disk takes for one such body, appended and flushed, so many times."""
    took = []
    with tempfile.NamedTemporaryFile(buffering=0) as file:
        for _ in range(count):
            began = time.perf_counter()
            file.write(body)
            os.fsync(file.fileno())
            took.append(time.perf_counter() - began)
    return took


def throughput(scale: Scale, part: str, kind: str, rows: int, pack: Callable[[pa.Table], bytes]) -> Figure:
    """Rows a second from two connections, each with one push under way."""
    with tempfile.TemporaryDirectory() as folder:
        server = prepared(scale, Path(folder), scale.queries)
        bodies = [pack(table(rows, seed)) for seed in range(8)]
        sent = [0, 0]
        until = time.perf_counter() + scale.seconds

        def work(number: int) -> None:
            pusher = Pusher(server.url, kind)
            while time.perf_counter() < until:
                pusher.push(bodies[(sent[number] + number) % len(bodies)])
                sent[number] += 1

        began, spent = time.perf_counter(), server.cpu()
        threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took, spent = time.perf_counter() - began, server.cpu() - spent
        server.stop()
    pushed = sum(sent) * rows
    disk = on_disk(as_arrow(table(rows, 0)), 20)
    found = figure(scale, part, f"Rows acknowledged, {scale.queries} queries", "rows a second")
    found.add("", CLOCK, f"pushes of {rows:,} rows", value=pushed / took)
    found.add("", CPU, f"pushes of {rows:,} rows", value=pushed / max(spent, 1e-9))
    found.add("", CLOCK, "the disk alone, one flush each", value=rows * len(disk) / sum(disk))
    return found


class Load:
    """Pushes at a steady rate; the mark of each tells when it was sent."""

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


def told(found: Figure, what: str, seconds: Any) -> None:
    """The middle and the tail of some durations."""
    found.add("", P50, what, value=float(np.percentile(seconds, 50)))
    found.add("", P99, what, value=float(np.percentile(seconds, 99)))


def waits(sent: dict[float, float], seen: dict[float, float]) -> list[float]:
    """From each push to its change; one that was overtaken came with the one that overtook it."""
    found, at = [], float("inf")
    for mark in sorted(sent, reverse=True):
        at = min(at, seen.get(mark, float("inf")))
        found.append(at - sent[mark])
    return found


def latency(scale: Scale) -> Figure:
    from websockets.sync.client import connect

    with tempfile.TemporaryDirectory() as folder:
        server = prepared(scale, Path(folder), scale.queries, leader=True)
        load = Load(server.url, scale, scale.seconds)
        seen: dict[float, float] = {}
        url = "ws" + server.url.removeprefix("http") + "/api/changes?query=leader"
        with connect(url, compression=None, max_size=None) as socket:
            socket.recv()

            def read() -> None:
                while float(load.last) not in seen:
                    message = socket.recv(timeout=60)
                    at = time.perf_counter()
                    for change in json.loads(message)["changes"]:
                        if change["change"] == "enter":
                            seen[change["score"]] = at

            reader = threading.Thread(target=read)
            reader.start()
            spent = server.cpu()
            load.run()
            spent = (server.cpu() - spent) / load.took
            reader.join(60)
        server.stop()
    found = figure(
        scale,
        "latency",
        f"One WebSocket, {scale.queries} queries, pushes of {scale.step} rows, {load.rows / load.took:,.0f} rows a "
        f"second ({100 * spent:.0f} % of a core)",
        "ms",
        1e3,
    )
    told(found, "push to change", waits(load.sent, seen))
    told(found, "push to acknowledgement", load.answered)
    told(found, "the disk alone", on_disk(load._bodies[0], 200))
    return found


def start(scale: Scale) -> Figure:
    """A first start, a restart in order, and one after a kill."""
    found = figure(scale, "start", "From the start of the process to its first answer", "seconds")

    def add(what: str, seconds: float, server: Running) -> None:
        found.add("", CLOCK, what, value=seconds)
        found.add("", "CPU", what, value=server.used)

    with tempfile.TemporaryDirectory() as folder:
        server = prepared(scale, Path(folder), scale.many_queries)
        server.stop()
        seconds, first = _started(Path(folder) / "empty")
        add("nothing to load", seconds, first)
        first.stop()
        seconds, again = _started(Path(folder) / "data")
        add(f"{scale.many_queries:,} queries, after a stop", seconds, again)
        again.kill()
        seconds, again = _started(Path(folder) / "data")
        add(f"{scale.many_queries:,} queries, after a kill", seconds, again)
        again.stop()
    return found


def _started(data: Path) -> tuple[float, Running]:
    """Seconds from the start of the process to an answer."""
    began = time.perf_counter()
    server = running(data=data, max_queries=100_000)
    pusher = Pusher(server.url, ARROW)
    if pusher.call("GET", "/api/queries")["queries"]:
        assert pusher.call("GET", "/api/queries/q0/top")["rows"]
    server.used = server.cpu()
    return time.perf_counter() - began, server


def _readers(scale: Scale) -> Figure:
    from benchmarks.serve.readers import readers

    return readers(scale)


def _page(scale: Scale) -> Figure:
    from benchmarks.serve.browser import page

    return page(scale)


def _smooth(scale: Scale) -> Figure:
    from benchmarks.serve.browser import smooth

    return smooth(scale)


PARTS: dict[str, Callable[[Scale], Figure]] = {
    "arrow": lambda scale: throughput(scale, "arrow", ARROW, scale.arrow, as_arrow),
    "lines": lambda scale: throughput(scale, "lines", LINES, scale.lines, as_lines),
    "latency": latency,
    "readers": _readers,
    "start": start,
    "page": _page,
    "smooth": _smooth,
}


def measured(scale: Scale, parts: tuple[str, ...], asked: bool) -> Iterator[Figure]:
    """The parts one after the other; without a browser those that need one are left out, unless asked for."""
    for part in parts:
        try:
            yield PARTS[part](scale)
        except NoBrowser as error:
            if asked:
                raise
            print(error)


def main(settings: Settings) -> None:
    from benchmarks.serve.page import BOOK

    scale = SCALES[settings.scale]
    parts = parts_of(settings, tuple(PARTS))
    load = os.getloadavg()[0]
    # one number each: a chart would say nothing
    BOOK.publish(measured(scale, parts, bool(settings.only)), replace(settings, charts=False))
    print(f"The machine's load was {load:.1f} at the beginning and {os.getloadavg()[0]:.1f} at the end.")
