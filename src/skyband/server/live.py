"""The dashboard's WebSocket: the latest state, not every step.

**Problem.** A thousand answers may change in a second, and a person sees ten. A page that is sent every change falls
behind as soon as its machine is busy or its network slow, and shows a past that it works through.

**Idea.** State instead of changes. Ten times a second at most a reader is sent how things stand, if anything has
changed, and once a second though nothing has (the rates fall). A reader that says `{"seen": offset}` is sent nothing
more until it has seen what it was sent: between two frames of a slow page any number of steps may pass, and the next
thing it gets is the newest state. Nothing ever waits in a queue. With `{"show": [names]}` a reader says whose answers
it wants to see.

**What it costs.** All readers share the texts: an answer is written again only if a step has changed it since and
a page shows it, what is said of all queries together at most ten times a second. No step ever waits for a reader.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocket, WebSocketDisconnect

from skyband.core.errors import SkybandError
from skyband.server.guard import ALL, Scope

EVERY = 0.1  # seconds between two states, at least
AT_LEAST = 1.0  # and at most
SHOWN = 12  # answers, if a reader does not say which
MOST_SHOWN = 24
MOST_HEADS = 100  # of different tokens
ROWS = 100  # of each: more no person reads
PATIENCE = 10.0  # seconds until a reader that says what it has seen is sent something all the same


class Source(Protocol):
    """Where the state comes from. May be called from any thread."""

    @property
    def offset(self) -> int:
        """The number of the latest step."""

    def stats(self) -> dict[str, Any]: ...
    def streams(self) -> list[dict[str, Any]]: ...
    def queries(self) -> list[dict[str, Any]]: ...
    def top(self, name: str, most: int) -> dict[str, Any]:
        """`columns`, `total` and the first `rows` of an answer, as JSON takes them; an error if there is none."""


class Live:
    """The latest state as text, for all readers."""

    def __init__(self, source: Source, clock: Callable[[], float] = time.monotonic) -> None:
        self.source = source
        self.clock = clock
        self.steps = 0
        self.readers = 0
        self._lock = threading.Lock()
        self._all = 0  # the step that may have changed every answer
        self._changed: dict[str, int] = {}  # the step that changed this answer last
        self._tops: dict[str, tuple[int, str]] = {}  # as of which step, and its text
        self._heads: dict[Scope, tuple[float, int, str, list[str]]] = {}

    def step(self, names: Iterable[str] | None = None) -> None:
        """A step has changed these answers; None: perhaps any, or the queries themselves."""
        with self._lock:
            self.steps += 1
            if names is None:
                self._all, self._heads = self.steps, {}
                self._changed, self._tops = {}, {}
            else:
                for name in names:
                    self._changed[name] = self.steps

    def text(self, show: list[str] | None = None, scope: Scope = ALL) -> tuple[int, str]:
        """Return the state now, as far as a token is for it: its offset, and the whole of it as JSON."""
        offset, head, names = self._head(scope)
        known = set(names)
        wanted = names[:SHOWN] if show is None else [name for name in show if name in known]
        tops = []
        for name in wanted[:MOST_SHOWN]:
            found = self._top(name)
            if found is not None:
                tops.append(f"{json.dumps(name)}:{found}")
        return offset, f'{head},"tops":{{{",".join(tops)}}}}}'

    def _head(self, scope: Scope) -> tuple[int, str, list[str]]:
        """Return what is said of all queries together, and their names."""
        now, kept = self.clock(), self._heads.get(scope)
        if kept is not None and now - kept[0] < EVERY:
            return kept[1:]
        offset, queries = self.source.offset, self.source.queries()
        queries = [query for query in queries if scope.has_query(query["name"])]
        names = [str(query["name"]) for query in queries]
        streams = [stream for stream in self.source.streams() if scope.has_stream(stream["name"])]
        about = {"offset": offset, "stats": self.source.stats(), "queries": queries, "streams": streams}
        head = _json(about)[:-1]
        if len(self._heads) >= MOST_HEADS:
            self._heads = {}
        self._heads[scope] = (now, offset, head, names)
        return offset, head, names

    def _top(self, name: str) -> str | None:
        with self._lock:
            step = max(self._changed.get(name, 0), self._all)
            kept = self._tops.get(name)
        if kept is not None and kept[0] == step:
            return kept[1]
        try:
            text = _json(_exact(self.source.top(name, ROWS)))
        except SkybandError:  # dropped meanwhile
            return None
        with self._lock:
            # a step that came meanwhile may be in the text or not: then it is written again next time
            self._tops[name] = (step, text)
        return text


def _exact(value: Any) -> Any:
    """With texts instead of whole numbers that a page would round: to JavaScript 2^53 + 1 is 2^53."""
    if isinstance(value, dict):
        return {name: _exact(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_exact(part) for part in value]
    return str(value) if isinstance(value, int) and abs(value) >= 1 << 53 else value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


class _Reader:
    """One open page: what it shows and what it has seen."""

    def __init__(self) -> None:
        self.show: list[str] | None = None
        self.confirms = False  # whether it says what it has seen
        self.owes = False  # whether it hasn't seen the last state yet

    def hear(self, text: str) -> None:
        try:
            said = json.loads(text)
        except ValueError:
            return
        if not isinstance(said, dict):
            return
        if "seen" in said:
            self.confirms, self.owes = True, False
        show = said.get("show")
        if isinstance(show, list) and all(isinstance(name, str) for name in show):
            self.show = show[:MOST_SHOWN]
            self.owes = False


async def live(
    websocket: WebSocket, state: Live, scope: Scope = ALL, stays: Callable[[], bool] = lambda: True
) -> None:
    """Send one reader the state until it goes, or may not stay. The connection has been accepted already."""
    reader = _Reader()
    state.readers += 1
    sending = asyncio.create_task(_send(websocket, state, reader, scope, stays))
    try:
        while not sending.done():
            receiving = asyncio.create_task(websocket.receive_text())
            await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
            if not receiving.done():
                receiving.cancel()
                break
            reader.hear(receiving.result())
    except (WebSocketDisconnect, KeyError, RuntimeError):
        pass  # it has gone, or sends what is no text
    finally:
        state.readers -= 1
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def _send(
    websocket: WebSocket, state: Live, reader: _Reader, scope: Scope, stays: Callable[[], bool]
) -> None:
    sent: tuple[int, list[str] | None] | None = None
    at = -AT_LEAST
    while stays():
        now = time.monotonic()
        steps = state.steps
        fresh = sent != (steps, reader.show)
        waits = reader.confirms and reader.owes and now - at < PATIENCE
        if not waits and (fresh or now - at >= AT_LEAST):
            show = reader.show
            _, text = await run_in_threadpool(state.text, show, scope)
            reader.owes = True
            at, sent = time.monotonic(), (steps, show)
            await websocket.send_text(text)
        await asyncio.sleep(EVERY)
