"""A crowd at one server: thousands of readers that wait, and eight clients that push all the time.

Three processes: the server, the readers, the clients. Of the readers

* most are WebSockets that follow a query which never changes: they are idle, and what they cost is memory;
* the others are server-sent events of a query that every push changes;
* some of these read very slowly, and some vanish in the middle, one after the other;
* some connections never send a byte; the server closes them, and they are opened again.

A push holds a mark that leads the query of the events. A reader's *lag* is the time from the acknowledgement of a push
to the moment when the reader has that mark or a later one. The rate is the highest of a few that the machine carries:
the clients keep to their schedule.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

from benchmarks.harness.figures import Figure
from benchmarks.serve.load import ARROW, COLUMNS, P50, P99, Pusher, Scale, as_arrow, figure, sqls, table
from skyband.server.run import room_for
from skyband.server.testing import Running, running

CLIENTS = 8
BATCH = 100  # rows of one push
QUERIES = 10  # beside the two that are followed
SHARES = (1.0, 0.8, 0.6, 0.4, 0.3, 0.2, 0.1)  # of the rate that is wished for
KEPT = 0.97  # of its schedule: then a rate is carried
LONGEST = "longest"
AT_ONCE = 50  # connections that are opened at a time


def crowd(scale: Scale) -> Figure:
    """Measure pushes and lags beside all readers, at the highest rate that is carried."""
    many = scale.idle + scale.events + scale.odd * 3
    load = os.getloadavg()[0]
    options: dict[str, Any] = {
        "max_connections": many + 500, "max_per_address": many + 500, "max_subscribers": many, "max_rate": 1_000_000,
    }  # fmt: skip
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        server = running(data=Path(folder) / "data", **options)
        _ask(server, scale)
        here, there = spawn.Pipe()
        child = spawn.Process(target=_gather, args=(server.url, scale, there), daemon=True)
        child.start()
        there.close()
        sizes = [_resident(server)]
        for _ in range(2):  # the idle ones, then the others
            here.send("open")
            assert here.recv() == "opened"
            sizes.append(_resident(server))
        for share in SHARES:
            clients = Clients(server.url, share * scale.crowd_rate, scale.seconds)
            here.send("measure")
            before = server.cpu()
            clients.run()
            spent = (server.cpu() - before) / clients.took
            lags, vanished, reopened = _lags(here, clients)
            if clients.carried():
                break
        here.send("end")
        child.join(60)
        stats = Pusher(server.url, ARROW).call("GET", "/api/stats")
        server.stop()
    idle = (sizes[1] - sizes[0]) / scale.idle / 1e3
    event = (sizes[2] - sizes[1]) / scale.events / 1e3
    tried = [f"{each * scale.crowd_rate:,.0f}" for each in SHARES[: SHARES.index(share)]]
    not_carried = f" ({', '.join(tried)} were too many)" if tried else ""
    given = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in options.items())
    found = figure(
        scale,
        "crowd",
        f"{clients.rows / clients.took:,.0f} rows a second{not_carried} in batches of {BATCH} by {CLIENTS} clients, "
        f"{scale.idle:,} idle WebSockets ({idle:.0f} kB each), {scale.events:,} readers of events ({event:.0f} kB "
        f"each), {scale.odd} slow ones, {vanished:,} that vanished, {scale.odd} connections that never speak ("
        f"{reopened:,} were closed); the server took {100 * spent:.0f} % of a core; {stats['missed']:,} times a "
        f"reader had missed changes; the machine's load was {load:.1f} at the beginning and "
        f"{os.getloadavg()[0]:.1f} at the end, this part's own included; options: {given}",
        "ms",
        1e3,
    )
    worst = [max(each, default=0.0) for each in lags]
    for what, seconds in (
        ("push to acknowledgement", clients.answered),
        ("lag of all readers of events", [lag for each in lags for lag in each] or [0.0]),
        ("the longest lag of each of them", worst or [0.0]),
    ):
        found.add("", P50, what, value=float(np.percentile(seconds, 50)))
        found.add("", P99, what, value=float(np.percentile(seconds, 99)))
        found.add("", LONGEST, what, value=float(max(seconds)))
    return found


def _ask(server: Running, scale: Scale) -> None:
    pusher = Pusher(server.url, ARROW)
    pusher.push(as_arrow(table(10, 0)))
    for number, sql in enumerate(sqls(QUERIES, scale.window)):
        pusher.call("POST", "/api/queries", {"name": f"q{number}", "sql": sql})
    for name, where in (("leader", ""), ("idle", "WHERE mark < 0 ")):
        sql = f"SELECT mark FROM s {where}ORDER BY mark DESC LIMIT 1 WINDOW {scale.window} ROWS"
        pusher.call("POST", "/api/queries", {"name": name, "sql": sql})
    for seed in range(1 + scale.window // 20_000):
        pusher.push(as_arrow(table(min(20_000, scale.window), seed)))


def _resident(server: Running) -> float:
    """The bytes of memory that the server has now; 0 where the system doesn't say."""
    try:
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{server.process.pid}/status").read_text())
    except OSError:
        return 0.0
    return 1024.0 * int(found[1]) if found else 0.0


class Clients:
    """Eight clients that push at a steady rate together, each with one push under way."""

    mark = 0  # of the last push of all of them, in all runs
    _lock = threading.Lock()

    def __init__(self, url: str, rate: float, seconds: float) -> None:
        self.url = url
        self.every = CLIENTS * BATCH / rate
        self.count = max(2, int(seconds / self.every))
        self.rows = CLIENTS * self.count * BATCH
        self.wished = self.count * self.every
        self.took = 0.0
        self.answered: list[float] = []  # seconds of each push
        self.acknowledged: dict[int, float] = {}  # when, by mark

    def run(self) -> None:
        began = time.perf_counter() + 0.1
        threads = [threading.Thread(target=self._push, args=(began, number)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.took = time.perf_counter() - began

    def carried(self) -> bool:
        return self.wished >= KEPT * self.took

    def _push(self, began: float, number: int) -> None:
        pusher = Pusher(self.url, ARROW)
        base = table(BATCH, number)
        for turn in range(self.count):
            with self._lock:
                Clients.mark += 1
                mark = Clients.mark
            marks = np.zeros(BATCH)
            marks[0] = mark
            body = as_arrow(base.set_column(COLUMNS, "mark", pa.array(marks)))
            wait = began + (turn + number / CLIENTS) * self.every - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            at = time.perf_counter()
            pusher.push(body)
            self.acknowledged[mark] = now = time.perf_counter()
            self.answered.append(now - at)


def _lags(pipe: Any, clients: Clients) -> tuple[list[list[float]], int, int]:
    """Wait until all readers are up to date; return the lags of each, how many vanished, and how many were closed."""
    pipe.send(Clients.mark)
    seen, vanished, reopened = pipe.recv()
    # the moment from which on each mark, or a later one, is known to the client that pushed it
    marks = np.array(sorted(clients.acknowledged))
    moments = np.array([clients.acknowledged[mark] for mark in marks.tolist()])
    lags = []
    for reader in seen:
        own = [(mark, at) for mark, at in reader if mark >= marks[0]]
        if own:
            places = np.searchsorted(marks, np.array([mark for mark, _ in own]), side="right") - 1
            lags.append([max(0.0, float(lag)) for lag in np.array([at for _, at in own]) - moments[places]])
    return lags, vanished, reopened


# -- the readers' process ------------------------------------------------------------------------------------


def _gather(url: str, scale: Scale, pipe: Any) -> None:
    room_for(scale.idle + scale.events + 3 * scale.odd + 100)
    with contextlib.suppress(KeyboardInterrupt, EOFError):
        asyncio.run(Crowd(url, scale, pipe).live())


class Crowd:
    """All readers of one server."""

    def __init__(self, url: str, scale: Scale, pipe: Any) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "", parts.port or 80
        self.scale = scale
        self.pipe = pipe
        self.events: list[Events] = []
        self.idle: list[Idle] = []
        self.slow: list[Events] = []
        self.vanished = self.reopened = 0
        self.ended = False

    async def live(self) -> None:
        loop = asyncio.get_running_loop()
        tasks: list[asyncio.Task[None]] = []
        while True:
            word = await loop.run_in_executor(None, self.pipe.recv)
            if word == "open" and not self.idle:
                self.idle = await self._open(self.scale.idle, Idle)
                self.pipe.send("opened")
            elif word == "open":
                self.events = await self._open(self.scale.events, Events)
                self.pipe.send("opened")
                self.slow = await self._open(self.scale.odd, Events)
                tasks = [asyncio.create_task(self._linger()), asyncio.create_task(self._vanish())]
                tasks += [asyncio.create_task(self._keep_silent()) for _ in range(self.scale.odd)]
            elif word == "measure":
                for reader in self.events:
                    reader.seen = []
            elif word == "end":
                break
            else:
                await self._reach(word)
        for task in tasks:
            task.cancel()

    async def _reach(self, mark: int) -> None:
        """Wait until every reader has this mark, and send what they saw."""
        until = time.perf_counter() + 60
        while any(reader.mark < mark for reader in self.events) and time.perf_counter() < until:
            await asyncio.sleep(0.05)
        self.pipe.send(([reader.seen for reader in self.events], self.vanished, self.reopened))

    async def _open(self, many: int, kind: Callable[[str], Any]) -> list[Any]:
        loop = asyncio.get_running_loop()
        readers = [kind(self.host) for _ in range(many)]
        for start in range(0, many, AT_ONCE):
            some = readers[start : start + AT_ONCE]
            await asyncio.gather(
                *(loop.create_connection(each.itself, self.host, self.port) for each in some)
            )
            await asyncio.gather(*(each.ready for each in some))
        return readers

    async def _linger(self) -> None:
        """Slow readers: they read for a moment now and then."""
        while True:
            for reader in self.slow:
                reader.transport.pause_reading()
            await asyncio.sleep(2.0)
            for reader in self.slow:
                if not reader.transport.is_closing():
                    reader.transport.resume_reading()
            await asyncio.sleep(0.05)

    async def _vanish(self) -> None:
        """Readers that come and break off, one after the other."""
        while True:
            for reader in await self._open(1, Events):
                await asyncio.sleep(0.1)
                reader.transport.abort()
                self.vanished += 1

    async def _keep_silent(self) -> None:
        """A connection that never speaks, opened again whenever it is closed."""
        while True:
            with contextlib.suppress(OSError):
                reading, writing = await asyncio.open_connection(self.host, self.port)
                await reading.read()
                writing.close()
                self.reopened += 1


class Reader(asyncio.Protocol):
    """A connection that asks once and then reads, as little of it as possible."""

    asks = b""
    transport: asyncio.Transport

    def __init__(self, host: str) -> None:
        self.host = host
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def itself(self) -> Reader:
        return self

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(self.asks.replace(b"HOST", self.host.encode()))

    def data_received(self, data: bytes) -> None:
        if not self.ready.done():
            self.ready.set_result(None)

    def connection_lost(self, error: BaseException | None) -> None:
        if not self.ready.done():
            self.ready.set_exception(error or ConnectionResetError("the server has closed the connection"))


class Idle(Reader):
    """A WebSocket of a query that never changes; it answers pings."""

    asks = (
        b"GET /api/changes?query=idle HTTP/1.1\r\nHost: HOST\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: c2t5YmFuZCByZWFkZXIgNw==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        at = data.rfind(b"\x89\x04")  # a ping of four bytes; a client's frame is masked, here with zeros
        if at >= 0 and len(data) >= at + 6:
            self.transport.write(b"\x8a\x84\x00\x00\x00\x00" + data[at + 2 : at + 6])


class Events(Reader):
    """Server-sent events of the query that each push changes."""

    asks = b"GET /api/changes?query=leader HTTP/1.1\r\nHost: HOST\r\nAccept: text/event-stream\r\n\r\n"
    _MARK = re.compile(rb'"enter","rank":1,"score":(\d+)')

    def __init__(self, host: str) -> None:
        super().__init__(host)
        self.mark = 0
        self.seen: list[tuple[int, float]] = []

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        found = self._MARK.findall(data[data.rfind(b"\ndata:") :])
        if found:
            self.mark = max(self.mark, int(found[-1]))
            self.seen.append((self.mark, time.perf_counter()))
