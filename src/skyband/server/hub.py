"""The changes of the last steps, for any number of readers.

**Problem.** A thousand readers follow one stream, some of them slow, some gone without a word. Whatever is kept for a
slow reader is memory, and whatever waits for it is a stream that stands still.

**Idea.** Nothing is kept for a reader but its place. The last steps lie in one ring that all share, each written out as
JSON once, when the first reader needs it. A reader takes what is after its place, as much as there is by then: one that
was slow gets many steps in one message, and one whose place the ring has passed receives which steps it missed and the
answers as they are now. The engine only ever appends.

**What it costs.** A reader is woken only if a query has changed that it follows: ten thousand readers of quiet queries
cost nothing but their memory. Waking one takes some tens of microseconds of the event loop. With many of them they are
woken less often, so that they never take more than about half of it, and get more at a time; and they are woken some
at a time, so that a request never waits for all of them. A message is made once for all readers at the same place, down
to the bytes of its WebSocket frame (`skyband.server.sockets`).
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from skyband.server.guard import Names
from skyband.server.sockets import frame_of
from skyband.stream.arrow import python_value

AT_ONCE = 5_000  # changes of one message
LONG = 1_000  # changes of one step that are written out beside the event loop
EACH = 40e-6  # seconds of the event loop that a reader's message takes, about
SOME = 32  # readers woken before the event loop looks for requests again
QUIET = 15.0  # seconds after which a reader receives the offset though nothing has changed


class Entry:
    """What one step did, written out when a reader asks for it."""

    def __init__(self, offset: int, changes: pa.Table, event: dict[str, Any] | None = None) -> None:
        self.offset = offset
        self.count = changes.num_rows
        self.names: set[str] = set(changes.column("query").unique().to_pylist())
        if event is not None:
            self.names.add(event["name"])
        self.event = event  # a query that came, changed or went
        self._changes: pa.Table | None = changes
        self._texts: list[tuple[str, str]] = []  # query, its change
        self._lock = threading.Lock()

    @property
    def written(self) -> bool:
        return self._changes is None

    def texts(self) -> list[tuple[str, str]]:
        with self._lock:
            if self._changes is not None:
                self._texts, self._changes = change_texts(self._changes), None
        return self._texts


def change_texts(changes: pa.Table) -> list[tuple[str, str]]:
    """Return each change as a JSON object, after the name of its query."""
    names = changes.column("query").to_pylist()
    quoted = {name: json.dumps(name, ensure_ascii=False) for name in set(names)}
    columns = [changes.column(name).to_pylist() for name in ("change", "rank", "score", "seq", "seq_b", "id")]
    found = []
    for name, time, change, rank, score, seq, seq_b, object_id in zip(
        names, _times(changes.column("time")), *columns, strict=True
    ):
        more = "" if seq_b is None else f',"seq_b":{seq_b}'
        more += "" if object_id is None else f',"id":{json.dumps(object_id, ensure_ascii=False)}'
        found.append(
            (
                name,
                f'{{"query":{quoted[name]},"change":"{change}","rank":{_whole(rank)},"score":{_number(score)},'
                f'"seq":{_whole(seq)}{more},"time":{time}}}',
            )
        )
    return found


def _whole(value: int | None) -> str:
    return "null" if value is None else str(value)


def _number(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "null"
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    return repr(value)


def _times(column: pa.ChunkedArray) -> list[str]:
    if column.null_count == len(column):
        return ["null"] * len(column)
    try:
        values = column.to_pylist()
    except (OverflowError, ValueError):
        values = [python_value(value) for value in column]
    return [_time(value) for value in values]


def _time(value: Any) -> str:
    if isinstance(value, dt.datetime | dt.date):
        return f'"{value.isoformat()}"'
    if isinstance(value, float):
        return _number(value)
    return "null" if value is None else json.dumps(str(value) if not isinstance(value, int) else value)


class Waiting:
    """Readers of the same queries that have had everything."""

    __slots__ = ("quiet", "readers")

    def __init__(self) -> None:
        self.readers: list[asyncio.Future[None]] = []
        self.quiet = 0  # the queries have not changed up to this offset since the readers began to wait


class Hub:
    """The ring, and the readers' places in it. `tops` makes the present answers, for readers that missed some."""

    def __init__(self, most: int, tops: Callable[[Names], tuple[int, dict[str, Any]]]) -> None:
        self.most = most
        self.readers = 0
        self.missed = 0  # how often a reader had missed steps
        self.sent = 0  # messages
        self.offset = 0
        self.first = 0  # everything after this offset is in the ring
        self._tops = tops
        self._ring: deque[Entry] = deque()
        self._held = 0
        self._lock = threading.Lock()  # over the ring: the engine appends, readers look
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[Names, Waiting] = {}
        self._changed: set[str] = set()  # queries, since the last wake-up
        self._cost = 0.0  # seconds of the event loop that the last wake-up took, about
        self._due = False  # a wake-up is on its way
        self._woken = 0  # the offset at the last one: readers before it get everything up to there, alike
        self._last_wake = 0.0
        self._messages: dict[tuple[int, int, Names], tuple[int, str | None]] = {}
        self._frames: dict[str, bytes] = {}  # of messages
        self._fresh: dict[Names, asyncio.Task[tuple[int, str]]] = {}
        self.closed = False

    # -- writing -------------------------------------------------------------------------------------------

    def begin(self, offset: int, first: int, entries: Iterable[Entry]) -> None:
        """Where the journal left off."""
        with self._lock:
            self.offset = self._woken = offset
            self.first = first
            for entry in entries:
                self._append(entry)

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Readers live in this loop."""
        self._loop = loop
        loop.call_later(QUIET, self._beat)

    def _beat(self) -> None:
        """Now and then all are woken without news: one timer for all of them."""
        assert self._loop is not None
        self._call_readers(list(self._waiting))
        if not self.closed:
            self._loop.call_later(QUIET, self._beat)

    def add(self, offset: int, entry: Entry | None) -> None:
        """A step was taken; None: it changed nothing. Called in the engine's thread."""
        with self._lock:
            self.offset = offset
            if entry is not None:
                self._append(entry)
                self._changed |= entry.names
        if entry is not None and self._loop is not None and self.readers and not self._due:
            self._due = True
            self._call(self._wake_soon)

    def _append(self, entry: Entry) -> None:
        self._ring.append(entry)
        self._held += entry.count + 1
        while self._held > self.most and len(self._ring) > 1:
            gone = self._ring.popleft()
            self._held -= gone.count + 1
            self.first = gone.offset

    def _call(self, function: Callable[[], None]) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(function)

    def _wake_soon(self) -> None:
        assert self._loop is not None
        wait = self._last_wake + self._cost * 2 - self._loop.time()
        if wait > 0.0005:
            self._loop.call_later(wait, self._wake)
        else:
            self._wake()

    def _wake(self) -> None:
        assert self._loop is not None
        with self._lock:
            self._due = False
            self._woken = self.offset
            changed, self._changed = self._changed, set()
        self._last_wake = self._loop.time()
        self._messages.clear()
        self._frames.clear()
        concerned = []
        for wanted, waiting in self._waiting.items():
            if self.closed or wanted is None or not changed.isdisjoint(wanted):
                concerned.append(wanted)
            else:
                waiting.quiet = self._woken
        self._cost = EACH * self._call_readers(concerned)

    def _call_readers(self, concerned: list[Names]) -> int:
        """Wake the readers of these queries; how many there are."""
        readers = [reader for wanted in concerned for reader in self._waiting.pop(wanted).readers]
        self._call_some(readers, 0)
        return len(readers)

    def _call_some(self, waiting: list[asyncio.Future[None]], start: int) -> None:
        """Wake some readers, and the others when the event loop has been round once more."""
        assert self._loop is not None
        for reader in waiting[start : start + SOME]:
            if not reader.done():
                reader.set_result(None)
        if start + SOME < len(waiting):
            self._loop.call_soon(self._call_some, waiting, start + SOME)

    def close(self) -> None:
        """No more: readers come to their end."""
        self.closed = True
        if self._loop is not None:
            self._call(self._wake)

    # -- reading -------------------------------------------------------------------------------------------

    def done(self, place: int) -> bool:
        """Whether a reader at this place has had everything, or will get what is new together with all others."""
        return place >= self.offset or (self._due and place >= self._woken)

    async def wait(self, place: int, wanted: Names) -> int:
        """Wait until these queries have changed, some seconds at most; the place up to which they have not."""
        if self.closed:
            return place
        assert self._loop is not None
        waiting = self._waiting.setdefault(wanted, Waiting())
        reader: asyncio.Future[None] = self._loop.create_future()
        waiting.readers.append(reader)
        await reader
        return max(place, waiting.quiet)

    async def next(self, place: int, wanted: Names) -> tuple[int, str | None]:
        """Return the message about these queries for a reader at this place, or None, and its new place."""
        if place < self.first or place > self.offset:
            offset, tops = await self._fresh_tops(wanted)
            self.missed += 1
            return offset, f'{{"missed":{{"from":{place},"to":{offset}}},"offset":{offset},"tops":{tops}}}'
        until = self._woken if place < self._woken else self.offset
        key = place, until, wanted
        found = self._messages.get(key)
        if found is None:
            if len(self._messages) > 1000:
                self._messages.clear()
            reached, entries = self._after(place, until)
            for entry in entries:
                if entry.count > LONG and not entry.written:
                    await asyncio.to_thread(entry.texts)
            found = self._messages[key] = self._message(reached, entries, wanted)
        return found

    def frame(self, text: str) -> bytes:
        """Return a message as a WebSocket's frame, the same for all readers of it."""
        found = self._frames.get(text)
        if found is None:
            if len(self._frames) > 1000:
                self._frames.clear()
            found = self._frames[text] = frame_of(text)
        return found

    def _after(self, place: int, until: int) -> tuple[int, list[Entry]]:
        """Return the offset reached, and what came after this place, oldest first, up to so many changes."""
        with self._lock:
            reached, entries = until, []
            for entry in reversed(self._ring):
                if entry.offset <= place:
                    break
                if entry.offset <= until:
                    entries.append(entry)
        entries.reverse()
        held = 0
        for number, entry in enumerate(entries):
            if held >= AT_ONCE:
                return entries[number - 1].offset, entries[:number]
            held += entry.count
        return reached, entries

    def _message(self, reached: int, entries: list[Entry], wanted: Names) -> tuple[int, str | None]:
        """Return the message of some steps."""
        texts: list[str] = []
        events: list[dict[str, Any]] = []
        for entry in entries:
            texts.extend(text for name, text in entry.texts() if wanted is None or name in wanted)
            if entry.event is not None and (wanted is None or entry.event["name"] in wanted):
                events.append(entry.event)
        if not texts and not events:
            return reached, None
        queries = f',"queries":{json.dumps(events, ensure_ascii=False)}' if events else ""
        return reached, f'{{"offset":{reached},"changes":[{",".join(texts)}]{queries}}}'

    async def _fresh_tops(self, wanted: Names) -> tuple[int, str]:
        """Return the answers as they are, made once for all readers that ask at the same time."""
        task = self._fresh.get(wanted)
        if task is None or (task.done() and (task.exception() or task.result()[0] < self.offset)):
            if len(self._fresh) > 1000:
                self._fresh.clear()
            task = self._fresh[wanted] = asyncio.ensure_future(asyncio.to_thread(self._written, wanted))
        return await asyncio.shield(task)

    def _written(self, wanted: Names) -> tuple[int, str]:
        offset, tops = self._tops(wanted)
        return offset, json.dumps(tops, ensure_ascii=False)
