"""A thousand readers of one server, in a process of their own, so that their Python doesn't slow the pushes."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.harness.figures import Figure
from benchmarks.serve.load import Load, Scale, add_durations, figure, prepared
from skyband.server.run import room_for


def readers(scale: Scale) -> Figure:
    """Measure pushes and changes with ten changes a second for each reader."""
    with tempfile.TemporaryDirectory() as folder:
        server = prepared(scale, Path(folder), scale.queries, leader=True)
        alone = Load(server.url, scale, scale.seconds / 2, every=0.1)
        alone.run()
        load = Load(server.url, scale, scale.seconds, every=0.1, begun=alone.last)
        here, there = multiprocessing.get_context("spawn").Pipe()
        child = multiprocessing.get_context("spawn").Process(
            target=_follow, args=(server.url, scale.readers, load.last, there)
        )
        child.start()
        there.close()
        assert here.recv() == "ready"
        spent = server.cpu()
        load.run()
        seen: list[tuple[float, float]] = here.recv()  # mark and moment of each message's last change
        spent = server.cpu() - spent
        child.join()
        server.stop()
    title = (
        f"{scale.readers:,} WebSockets, 10 changes a second, {1e6 * spent / max(1, len(seen)):.0f} µs of the "
    )
    found = figure(scale, "readers", title + "server's CPU for each message", "ms", 1e3)
    add_durations(
        found, f"push to change, {scale.readers:,} readers", [at - load.sent[mark] for mark, at in seen]
    )
    add_durations(found, "push to acknowledgement, no readers", alone.answered)
    add_durations(found, f"push to acknowledgement, {scale.readers:,} readers", load.answered)
    return found


def _follow(url: str, many: int, last: int, pipe: Any) -> None:
    """Run `many` readers until each has seen the last mark; send what they saw through the pipe."""
    room_for(many)
    pipe.send(asyncio.run(_all(url, many, last, pipe)))


async def _all(url: str, many: int, last: int, pipe: Any) -> list[tuple[float, float]]:
    loop, parts = asyncio.get_running_loop(), urlsplit(url)
    readers = [Reader(parts.netloc, last) for _ in range(many)]
    for start in range(0, many, 50):
        some = readers[start : start + 50]
        host, port = parts.hostname or "", parts.port or 80
        await asyncio.gather(*(loop.create_connection(each.itself, host, port) for each in some))
        await asyncio.gather(*(each.ready for each in some))
    pipe.send("ready")
    await asyncio.gather(*(each.done for each in readers))
    return [found for each in readers for found in each.seen]


class Reader(asyncio.Protocol):
    """A WebSocket that does as little as possible: a thousand whole clients would measure their own Python."""

    def __init__(self, host: str, last: int) -> None:
        loop = asyncio.get_running_loop()
        self.host, self.last = host, last
        self.ready: asyncio.Future[None] = loop.create_future()  # its first message has come
        self.done: asyncio.Future[None] = loop.create_future()  # it has seen the last mark
        self.seen: list[tuple[float, float]] = []
        self._data = b""
        self._open = False

    def itself(self) -> Reader:
        return self

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(
            f"GET /api/changes?query=leader HTTP/1.1\r\nHost: {self.host}\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Key: c2t5YmFuZCByZWFkZXIgNw==\r\n"
            "Sec-WebSocket-Version: 13\r\n\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        at = time.perf_counter()
        self._data += data
        if not self._open:
            head, end, rest = self._data.partition(b"\r\n\r\n")
            if not end:
                return
            assert head.startswith(b"HTTP/1.1 101"), head
            self._open, self._data = True, rest
        while (found := self._frame()) is not None:
            kind, content = found
            if kind == 1:
                self._hear(content, at)
            elif kind == 9:  # a ping; what a client sends is masked, here with zeros
                self.transport.write(bytes((0x8A, 0x80 | len(content), 0, 0, 0, 0)) + content)

    def _frame(self) -> tuple[int, bytes] | None:
        """The next whole frame: its kind and content. What a server sends isn't masked."""
        data = self._data
        if len(data) < 4:
            return None
        size, start = data[1], 2
        if size == 126:
            size, start = int.from_bytes(data[2:4], "big"), 4
        elif size == 127:
            size, start = int.from_bytes(data[2:10], "big"), 10
        if len(data) < start + size:
            return None
        self._data = data[start + size :]
        return data[0] & 15, data[start : start + size]

    def _hear(self, text: bytes, at: float) -> None:
        changes = json.loads(text)["changes"]
        if not self.ready.done():
            self.ready.set_result(None)
        if changes:
            mark = max(change["score"] for change in changes)
            self.seen.append((mark, at))
            if mark >= self.last and not self.done.done():
                self.done.set_result(None)
                self.transport.close()

    def connection_lost(self, error: BaseException | None) -> None:
        for waited in (self.ready, self.done):
            if not waited.done():
                waited.set_exception(error or ConnectionResetError("the server has closed the connection"))
