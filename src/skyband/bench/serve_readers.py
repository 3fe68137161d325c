"""A thousand readers of one server, in a process of their own: the one who pushes must not wait for their Python."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skyband.bench.figures import Figure
from skyband.server.run import room_for

if TYPE_CHECKING:
    from skyband.bench.serve import Scale


def readers(scale: Scale) -> Figure:
    """Ten changes a second for each of them."""
    from skyband.bench.serve import Load, figure, prepared, told

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
    told(found, f"push to change, {scale.readers:,} readers", [at - load.sent[mark] for mark, at in seen])
    told(found, "push to acknowledgement, no readers", alone.answered)
    told(found, f"push to acknowledgement, {scale.readers:,} readers", load.answered)
    return found


def _follow(url: str, many: int, last: int, pipe: Any) -> None:
    """So many readers at once, until each has seen the last mark."""
    room_for(many)
    pipe.send(asyncio.run(_all(url, many, last, pipe)))


async def _all(url: str, many: int, last: int, pipe: Any) -> list[tuple[float, float]]:
    from websockets.asyncio.client import connect

    address = "ws" + url.removeprefix("http") + "/api/changes?query=leader"
    seen: list[tuple[float, float]] = []
    ready = asyncio.Semaphore(0)

    async def read() -> None:
        async with connect(address, compression=None, max_size=None, open_timeout=120) as socket:
            await socket.recv()
            ready.release()
            mark = 0.0
            while mark < last:
                text = await socket.recv()
                at = time.perf_counter()
                changes = json.loads(text)["changes"]
                if changes:
                    mark = max(change["score"] for change in changes)
                    seen.append((mark, at))

    async with asyncio.TaskGroup() as group:
        for _ in range(many):
            group.create_task(read())
        for _ in range(many):
            await ready.acquire()
        pipe.send("ready")
    return seen
