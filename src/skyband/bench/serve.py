"""The server on this machine: `skyband serve` in a process of its own, journal on, asked over loopback.

* `arrow`, `lines`: rows a second that are acknowledged, at a hundred queries, by Arrow IPC and by JSON lines;
* `latency`: from the moment a push is sent to its change on a WebSocket, at 50,000 rows a second;
* `readers`: a thousand of them, and what they cost the one who pushes;
* `start`: from the start of the process to its first answer, with a thousand queries and a window of a million rows.

All are seconds of the clock, for that is what a client waits for: they say nothing on a machine with other work to do.
Whoever pushes and reads takes part of the two cores, too.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

from skyband.bench import Settings, parts_of
from skyband.bench.generators import independent, weighted_sum, weights
from skyband.server.run import room_for
from skyband.server.testing import Running, running

K, COLUMNS = 20, 4
ARROW, LINES = "application/vnd.apache.arrow.stream", "application/x-ndjson"


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


SCALES = {
    "tiny": Scale("tiny", 2_000, 3, 5, 5, 0.5, 1_000, 500, 200, 50),
    "quick": Scale("quick", 200_000, 100, 1_000, 1_000, 5.0, 50_000, 20_000, 5_000, 500),
    "full": Scale("full", 1_000_000, 100, 1_000, 1_000, 20.0, 50_000, 20_000, 5_000, 500),
}


@dataclass
class Measured:
    """One figure, and the goal that it is held against."""

    part: str
    what: str
    value: float
    unit: str
    goal: str = ""

    def line(self) -> str:
        goal = f"   goal: {self.goal}" if self.goal else ""
        return f"  {self.part:8} {self.what:44} {self.value:14,.1f} {self.unit:7}{goal}"


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


def throughput(
    scale: Scale, part: str, kind: str, rows: int, pack: Callable[[pa.Table], bytes], goal: str
) -> list[Measured]:
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
    size = sum(map(len, bodies)) / len(bodies)
    return [
        Measured(
            part, f"{scale.queries} queries, pushes of {rows:,} rows", sum(sent) * rows / took, "rows/s", goal
        ),
        Measured(
            part,
            "the same for each second of the server's CPU",
            sum(sent) * rows / max(spent, 1e-9),
            "rows/s",
        ),
        Measured(part, "bytes a second", sum(sent) * size / took / 1e6, "MB/s"),
    ]


class Load:
    """Pushes at a steady rate; the mark of each tells when it was sent."""

    def __init__(self, url: str, scale: Scale, seconds: float, every: float | None = None) -> None:
        self.every = scale.step / scale.rate if every is None else every
        self.count = max(3, int(seconds / self.every))
        self.sent: dict[float, float] = {}
        self.answered: list[float] = []
        self._pusher = Pusher(url, ARROW)
        base = table(scale.step, 99)
        self._bodies = [as_arrow(self._marked(base, number)) for number in range(1, self.count + 1)]

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
            self.sent[float(number)] = at = time.perf_counter()
            self._pusher.push(body)
            self.answered.append(time.perf_counter() - at)


def latency(scale: Scale) -> list[Measured]:
    from websockets.sync.client import connect

    with tempfile.TemporaryDirectory() as folder:
        server = prepared(scale, Path(folder), scale.queries, leader=True)
        load = Load(server.url, scale, scale.seconds)
        seen: dict[float, float] = {}
        url = "ws" + server.url.removeprefix("http") + "/api/changes?query=leader"
        with connect(url, compression=None, max_size=None) as socket:
            socket.recv()

            def read() -> None:
                while float(load.count) not in seen:
                    message = socket.recv(timeout=60)
                    at = time.perf_counter()
                    for change in json.loads(message)["changes"]:
                        if change["change"] == "enter":
                            seen[change["score"]] = at

            reader = threading.Thread(target=read)
            reader.start()
            spent = server.cpu()
            load.run()
            spent = (server.cpu() - spent) / (load.count * load.every)
            reader.join(60)
        server.stop()
    # several steps in one message: a change that was overtaken came with the one that overtook it
    later = [min((t for mark, t in seen.items() if mark >= m), default=float("nan")) for m in load.sent]
    waited = np.array(later) - np.array(list(load.sent.values()))
    title = f"push to change, {scale.rate:,} rows/s, {scale.queries} queries"
    return [
        Measured("latency", f"{title}, p50", 1e3 * float(np.percentile(waited, 50)), "ms"),
        Measured("latency", f"{title}, p99", 1e3 * float(np.percentile(waited, 99)), "ms", "under 20"),
        Measured(
            "latency", "push to acknowledgement, p99", 1e3 * float(np.percentile(load.answered, 99)), "ms"
        ),
        Measured("latency", "the server's share of one core", 100 * spent, "%"),
    ]


def readers(scale: Scale) -> list[Measured]:
    room_for(scale.readers)
    with tempfile.TemporaryDirectory() as folder:
        server = prepared(scale, Path(folder), scale.queries, leader=True)
        alone = Load(server.url, scale, scale.seconds / 2, every=0.1)
        alone.run()
        load = Load(server.url, scale, scale.seconds, every=0.1)
        # the marks go on where the first load has ended, or nothing would change
        load._bodies = [
            as_arrow(load._marked(table(scale.step, 99), alone.count + number))
            for number in range(1, load.count + 1)
        ]
        spent = server.cpu()
        waited = asyncio.run(_follow(server.url, scale.readers, load, alone.count))
        spent = server.cpu() - spent
        server.stop()
    before = 1e3 * float(np.percentile(alone.answered, 99))
    after = 1e3 * float(np.percentile(load.answered, 99))
    return [
        Measured(
            "readers",
            f"{scale.readers:,} readers, push to change, p50",
            1e3 * float(np.percentile(waited, 50)),
            "ms",
        ),
        Measured(
            "readers",
            f"{scale.readers:,} readers, push to change, p99",
            1e3 * float(np.percentile(waited, 99)),
            "ms",
        ),
        Measured("readers", "the server's CPU for each message", 1e6 * spent / max(1, len(waited)), "µs"),
        Measured("readers", "push to acknowledgement, p99, no readers", before, "ms"),
        Measured("readers", f"push to acknowledgement, p99, {scale.readers:,} readers", after, "ms"),
    ]


async def _follow(url: str, many: int, load: Load, begun: int) -> list[float]:
    """So many readers at once; how long each of them waited for each last change of a message."""
    from websockets.asyncio.client import connect

    address = "ws" + url.removeprefix("http") + "/api/changes?query=leader"
    waited: list[float] = []
    last = begun + load.count
    ready = asyncio.Semaphore(0)

    async def read() -> None:
        async with connect(address, compression=None, max_size=None, open_timeout=120) as socket:
            await socket.recv()
            ready.release()
            mark = 0.0
            while mark < last:
                changes = json.loads(await socket.recv())["changes"]
                if changes:
                    mark = max(change["score"] for change in changes)
                    waited.append(time.perf_counter() - load.sent[mark - begun])

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(read()) for _ in range(many)]
        for _ in tasks:
            await ready.acquire()
        await asyncio.to_thread(load.run)
    return waited


def start(scale: Scale) -> list[Measured]:
    """A first start, a restart in order, and one after a kill."""
    with tempfile.TemporaryDirectory() as folder:
        seconds, first = _started(Path(folder) / "empty")
        first.stop()
        found = [
            Measured("start", "nothing to load", seconds, "s", "about 1"),
            Measured("start", "nothing to load, CPU", first.used, "s"),
        ]
        server = prepared(scale, Path(folder), scale.many_queries)
        server.stop()
        title = f"{scale.many_queries:,} queries, window of {scale.window:,} rows"
        seconds, again = _started(Path(folder) / "data")
        found.append(Measured("start", f"{title}, after a stop", seconds, "s", "under 3"))
        again.kill()
        seconds, again = _started(Path(folder) / "data")
        found.append(Measured("start", f"{title}, after a kill", seconds, "s", "under 3"))
        found.append(Measured("start", f"{title}, CPU", again.used, "s"))
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


PARTS: dict[str, Callable[[Scale], list[Measured]]] = {
    "arrow": lambda scale: throughput(scale, "arrow", ARROW, scale.arrow, as_arrow, "1,000,000"),
    "lines": lambda scale: throughput(scale, "lines", LINES, scale.lines, as_lines, "100,000"),
    "latency": latency,
    "readers": readers,
    "start": start,
}


def main(settings: Settings) -> None:
    scale = SCALES[settings.scale]
    print(
        f"skyband serve, loopback, journal on ({scale.name}: window of {scale.window:,} rows, k = {K}, d = {COLUMNS})"
    )
    load = os.getloadavg()[0]
    found: list[Measured] = []
    for part in parts_of(settings, tuple(PARTS)):
        for measured in PARTS[part](scale):
            found.append(measured)
            print(measured.line(), flush=True)
    print(f"  the machine's load was {load:.1f} at the beginning and {os.getloadavg()[0]:.1f} at the end")
    settings.output.mkdir(parents=True, exist_ok=True)
    (settings.output / "serve.json").write_text(
        json.dumps({"scale": asdict(scale), "figures": [asdict(measured) for measured in found]}, indent=1)
    )
