"""The server on this machine: `skyband serve` in a process of its own, journal on, asked over loopback.

* `arrow`, `lines`: rows a second that are acknowledged, at a hundred queries, by Arrow IPC and by JSON lines;
* `latency`: from the moment a push is sent to its change on a WebSocket, at 50,000 rows a second;
* `readers`: a thousand readers, and how they slow the pushes (readers.py);
* `crowd`: eleven thousand readers, most of them idle, while eight clients push (crowd.py);
* `start`: from the start of the process to its first answer, with a thousand queries and a window of a million rows;
* `page`, `smooth`: the dashboard in Chromium (browser.py).

All times are wall-clock times, since a client waits for these: they need a machine that does nothing else. The clients
use the same two cores as the server. The time that the disk takes for the same bytes is measured beside.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from benchmarks.harness.figures import Figure
from benchmarks.harness.settings import Settings, parts_of
from benchmarks.serve.browser import page, smooth
from benchmarks.serve.crowd import crowd
from benchmarks.serve.load import (
    ARROW,
    CLOCK,
    CPU,
    LINES,
    SCALES,
    Load,
    NoBrowser,
    Pusher,
    Scale,
    add_durations,
    as_arrow,
    as_lines,
    figure,
    on_disk,
    prepared,
    table,
)
from benchmarks.serve.page import BOOK
from benchmarks.serve.readers import readers
from skyband.server.testing import Running, running


def throughput(scale: Scale, part: str, kind: str, rows: int, pack: Callable[[pa.Table], bytes]) -> Figure:
    """Measure rows a second from two connections, each with one push under way."""
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


def waits(sent: dict[float, float], seen: dict[float, float]) -> list[float]:
    """Return the time from each push to its change; a skipped mark arrived with the next one that was seen."""
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
    add_durations(found, "push to change", waits(load.sent, seen))
    add_durations(found, "push to acknowledgement", load.answered)
    add_durations(found, "the disk alone", on_disk(load._bodies[0], 200))
    return found


def start(scale: Scale) -> Figure:
    """Measure a first start, a start after a stop, and one after a kill."""
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
    """Start a server; return the seconds until its first answer, and the server."""
    began = time.perf_counter()
    server = running(data=data, max_queries=100_000)
    pusher = Pusher(server.url, ARROW)
    if pusher.call("GET", "/api/queries")["queries"]:
        assert pusher.call("GET", "/api/queries/q0/top")["rows"]
    server.used = server.cpu()
    return time.perf_counter() - began, server


PARTS: dict[str, Callable[[Scale], Figure]] = {
    "arrow": lambda scale: throughput(scale, "arrow", ARROW, scale.arrow, as_arrow),
    "lines": lambda scale: throughput(scale, "lines", LINES, scale.lines, as_lines),
    "latency": latency,
    "readers": readers,
    "crowd": crowd,
    "start": start,
    "page": page,
    "smooth": smooth,
}


def measured(scale: Scale, parts: tuple[str, ...], asked: bool) -> Iterator[Figure]:
    """Yield the figures of the parts. Parts that need a missing browser are left out, unless `asked` for."""
    for part in parts:
        try:
            yield PARTS[part](scale)
        except NoBrowser as error:
            if asked:
                raise
            print(error)


def main(settings: Settings) -> None:
    scale = SCALES[settings.scale]
    parts = parts_of(settings, tuple(PARTS))
    load = os.getloadavg()[0]
    # one number each: a chart would say nothing
    BOOK.publish(measured(scale, parts, bool(settings.only)), replace(settings, charts=False))
    print(f"The machine's load was {load:.1f} at the beginning and {os.getloadavg()[0]:.1f} at the end.")
