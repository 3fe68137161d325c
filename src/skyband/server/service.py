"""What the server answers, over an embedded engine.

Every method is called in a worker thread, never in the event loop. Reads take place between two steps; what changes
something is a step of the engine, which answers when it is on disk. A pipeline's answers are served by a class with
the same methods (skyband.server.pipeline), so routes and the dashboard know nothing of where answers come from.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.core.errors import InputError, JournalError, QueryError
from skyband.durable import Engine
from skyband.durable import Settings as Bounds
from skyband.engine.monitor import Monitor
from skyband.engine.planner import choose
from skyband.engine.stream_settings import copy_to, settings_of
from skyband.query.expression import columns_of
from skyband.query.model import Joined, Query
from skyband.query.text import to_sql
from skyband.query.window import duration, last
from skyband.server import allowed
from skyband.server.bodies import Body, Known, read_body
from skyband.server.guard import Names
from skyband.server.hub import Entry, Hub
from skyband.server.lately import Lately, seconds_behind, warning_of
from skyband.server.numbers import Numbers, state_of
from skyband.server.problems import Problem, limit, no_query
from skyband.server.settings import Settings
from skyband.stream.arrow import json_rows, json_value

if TYPE_CHECKING:
    from skyband.durable import Receipt, Step
    from skyband.engine.stream_runtime import Stream
    from skyband.engine.watch import Watch

log = logging.getLogger("skyband")

AHEAD = last("1 day")  # further ahead of the latest time a row waits, if nothing else is said
EVENTS = {"watch": "added", "change": "changed", "drop": "dropped"}


class Service:
    """An embedded engine, asked and answered in plain data."""

    readonly = False

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.numbers = Numbers()
        monitor = Monitor(
            time=settings.time,
            time_unit=settings.time_unit,
            key=settings.key,
            op=settings.op,
            retain=settings.retain,
        )
        off = settings.max_ahead == "off"
        if settings.max_ahead is not None and not off:
            monitor.max_ahead = duration("max_ahead", settings.max_ahead)

        def fresh(monitor: Monitor) -> None:
            if settings.max_ahead is None:
                monitor.max_ahead = AHEAD

        bounds = Bounds(history_changes=settings.max_changes)
        folder = None if settings.in_memory else settings.data
        try:
            self.engine = Engine(monitor, folder, bounds, fresh=fresh)
            if off and monitor.max_ahead is not None:
                self.engine.leave()
                raise InputError(
                    f"max_ahead= is not that which the journal {folder} began with: leave it out, or choose another "
                    "folder."
                )
        except InputError as error:
            raise _by_option(error) from None
        self.monitor = self.engine.monitor
        self.hub = Hub(settings.max_changes, self.tops)
        self.on_step: Callable[[set[str] | None], None] = lambda names: None  # the dashboard's
        self.sampler: Any = None
        self._sampling = ThreadPoolExecutor(1, thread_name_prefix="skyband-sampling")
        self._queries: tuple[float, list[dict[str, Any]]] | None = None
        self._state: tuple[float, float, dict[str, Any]] | None = None
        self._lock = threading.Lock()
        self._unready: tuple[float, str | None] | None = None
        self._lately = Lately()
        with self.engine.reading():
            self._lately.begin(self.monitor)
            first = self.engine.oldest
            entries = [_entry(step) for step in self.engine.changes_since(first)]
            self.hub.begin(self.engine.offset, first, [entry for entry in entries if entry is not None])
            self.engine.subscribe(self._stepped)

    def close(self) -> None:
        self.engine.close()
        self._sampling.shutdown(wait=False, cancel_futures=True)

    def failure(self) -> BaseException | None:
        """Return what ended it, if not a signal."""
        return None

    def unready(self) -> str | None:
        """Why no rows can be pushed now, if they can't; the disk is asked once a second."""
        with self._lock:
            if self._unready is None or time.monotonic() - self._unready[0] >= 1.0:
                self._unready = time.monotonic(), self.engine.unready()
            return self._unready[1]

    def _ready_no_more(self, done: Future[Receipt]) -> None:
        """A push has failed at the disk: what was known of it from before says nothing now."""
        if not done.cancelled() and isinstance(done.exception(), JournalError):
            self._unready = None

    def notes(self) -> list[str]:
        """Return what was found when the folder was opened."""
        kept = (
            "nothing is kept on disk"
            if self.settings.in_memory
            else f"journal and snapshots in {self.engine.folder} (--data for another folder)"
        )
        return [kept, *self.engine.report]

    def _stepped(self, step: Step) -> None:
        """After each step, in the engine's thread."""
        entry = _entry(step)
        self.hub.add(step.offset, entry)
        self.numbers.step(step.rows, step.changes.num_rows)
        self._lately.step(self.monitor)
        if step.kind == "restart" and self.sampler is not None:
            self.sampler.clear()
        if step.name is not None or step.kind == "restart":
            self._queries = None
            self.on_step(None)
        elif entry is not None:
            self.on_step(entry.names)

    @property
    def offset(self) -> int:
        return self.engine.offset

    @property
    def time(self) -> str | None:
        """The column of event times, where all streams have the same."""
        times = {stream.time for stream in self.monitor.streams.copy().values()} or {self.monitor.time}
        return found if len(times) == 1 and isinstance(found := times.pop(), str) else None

    # -- streams -------------------------------------------------------------------------------------------

    def streams(self) -> list[dict[str, Any]]:
        with self.engine.reading() as monitor:
            return [self._about(stream) for stream in monitor.streams.values()]

    def set_stream(self, name: str, settings: dict[str, Any]) -> dict[str, Any]:
        """Set a stream's own settings; what it is now."""
        self._room_for(name)
        columns = len(settings.get("schema") or ())
        if columns > self.settings.max_columns:
            raise limit("The number of columns", f"{columns:,}", "--max-columns", self.settings.max_columns)
        self.engine.set_stream(name, settings)
        with self.engine.reading() as monitor:
            return self._about(monitor.streams[name])

    def _about(self, stream: Stream) -> dict[str, Any]:
        """Return a stream: its columns and settings, where it stands in time, and its last minute."""
        lately = self._lately.of(stream.name)
        return {
            "name": stream.name,
            "columns": [{"name": f.name, "type": str(f.type)} for f in stream.schema or ()],
            **settings_of(stream),
            "strict": self.monitor.is_strict(stream.name),
            "rows": stream.accepted,
            "waiting": len(stream.waiting),
            "now": json_value(stream.monitor.now) if stream.time is not None else None,
            "latest": json_value(stream.latest_time()),
            "behind": seconds_behind(stream.latest_seconds()),
            "last_minute": lately,
            "notices": self._lately.notices(stream.name, self.monitor.all_notices()),
            "warning": warning_of(lately),
        }

    def _room_for(self, stream: str) -> None:
        """Whether there may be a stream of this name."""
        count = len(self.monitor.streams)
        if stream not in self.monitor.streams and count >= self.settings.max_streams:
            raise limit("The number of streams", count + 1, "--max-streams", self.settings.max_streams)

    def submit(
        self, stream: str, data: bytes, content_type: str | None, key: str | None, strict: bool | None = None
    ) -> Future[Receipt]:
        """Rows come. The future's receipt is there when they are on disk and taken."""
        body = read_body(data, content_type, self._known(stream), self.settings)
        self._room_for(stream)
        future = self.engine.submit(body.packed or body.batch, stream, key, body.unread, strict)
        future.add_done_callback(self._ready_no_more)
        if self.sampler is not None:
            # beside the engine's thread, before it answers that the rows are taken
            future.add_done_callback(lambda done: self._sampling.submit(self._sample, stream, body, done))
        return future

    def _known(self, name: str) -> Known:
        stream = self.monitor.streams.get(name)
        if stream is not None and stream.schema is not None:
            return Known(stream.schema)
        with self.engine.reading() as monitor:
            scores = {
                column for watch in monitor.watches.values() for column in columns_of(watch.query.score)
            }
            kinds = dict.fromkeys(scores, "number")
            time = monitor.columns_of(name)[0] if stream is None else stream.time
            return Known(None, kinds if time is None else kinds | {time: "time"})

    def _sample(self, stream: str, body: Body, done: Future[Receipt]) -> None:
        if done.exception() is not None or done.result().repeated or not body.rows:
            return
        target = self.monitor.streams.get(stream)
        try:
            if target is not None and self.sampler.pushed(
                target, body.batch, done.result().first_seq, body.rows
            ):
                with self.engine.reading():
                    self.sampler.settle(target)
        except Exception:
            log.exception("a picture's sample failed")

    def advance(self, time: Any, force: bool = False) -> Receipt:
        return self.engine.advance(time, force)

    def restarted_with(self, name: str) -> list[str]:
        """Return the streams that may begin again when this one does: all that have times, if it has."""
        streams = self.monitor.streams.copy()
        if name not in streams:
            raise Problem("not_found", f'There is no stream "{name}": GET /api/streams lists them.')
        timed = [other for other, stream in streams.items() if stream.time is not None]
        return timed if name in timed else [name]

    def restart(self, name: str) -> Receipt:
        """Let a stream begin again."""
        return self.engine.restart(name)

    def rejects(self, most: int, streams: Names = None) -> dict[str, Any]:
        """Return the last rejected rows of these streams, and how many of all streams there were by reason."""
        with self.engine.reading() as monitor:
            table = monitor.rejects()
            counts = monitor.reject_counts
        if streams is not None:
            table = table.filter(pc.is_in(table.column("stream"), pa.array(sorted(streams), pa.string())))
        most = min(most, table.num_rows)
        return {"rejects": json_rows(table.slice(table.num_rows - most)), "counts": counts}

    # -- queries -------------------------------------------------------------------------------------------

    def queries(self) -> list[dict[str, Any]]:
        kept = self._queries
        if kept is not None and time.monotonic() - kept[0] < 1.0:
            return kept[1]
        with self.engine.reading() as monitor:
            found = [about_query(watch) for watch in monitor.watches.values()]
            self._queries = time.monotonic(), found
        return found

    def query(self, name: str) -> dict[str, Any]:
        with self.engine.reading():
            return about_query(self._watch(name))

    def _watch(self, name: str) -> Watch:
        watch = self.monitor.watches.get(name)
        if watch is None:
            raise no_query(name)
        return watch

    def watch(self, sql: str, name: str | None) -> dict[str, Any]:
        query = allowed.read_query(sql, self.settings)
        if name is not None:
            allowed.check_name(name)
        monitor = self.monitor
        if name in monitor.watches:
            raise Problem(
                "exists", f'There is a query "{name}" already: drop it first, or choose another name.'
            )
        if len(monitor.watches) >= self.settings.max_queries:
            raise limit(
                "The number of queries", len(monitor.watches) + 1, "--max-queries", self.settings.max_queries
            )
        watch = self.engine.watch(query, name)
        with self.engine.reading():
            return about_query(watch)

    def drop(self, name: str) -> dict[str, Any]:
        self.query(name)
        self.engine.drop(name)
        return {"dropped": name, "offset": self.engine.offset}

    def change(self, name: str, k: int | None, wanted: str | None) -> dict[str, Any]:
        self.query(name)
        allowed.check_k_and_window(k, wanted, self.settings)
        self.engine.change(name, k, wanted)
        return self.query(name)

    def streams_of(self, sql: str) -> list[str]:
        """Return the streams that a query is about; an error if one of them has had no rows, for its name may be
        another's."""
        query = allowed.read_query(sql, self.settings)
        with self.engine.reading() as monitor:
            if isinstance(query, Joined):
                return list(query.streams)
            stream = _stream_of(monitor, query.stream)
            if stream is None or not stream.named:
                raise Problem(
                    "forbidden", f'There is no stream "{query.stream or ""}" yet: push its rows first.'
                )
            return [stream.name]

    def check(self, sql: str) -> dict[str, Any]:
        """Whether a query could be asked, and how it would be answered."""
        query = allowed.read_query(sql, self.settings)
        choose(query)
        with self.engine.reading() as monitor:
            scratch = _like(monitor, query)
            watch = scratch.watch(query, "this")
            plan = watch.explain()
            # what is known of the real stream's rows may lead to another choice
            stream = None if isinstance(query, Joined) else _stream_of(monitor, query.stream)
            if stream is not None and stream.pushed:
                choice = choose(query, stream.facts(query))
                if choice.algorithm != plan.algorithm:
                    plan = allowed.other_plan(plan, choice)
            columns = [output.name for output in watch.outputs()]
        about = about_query(watch) | {"algorithm": plan.algorithm, "columns": columns}
        del about["name"]
        return {"ok": True, "query": about, "explain": str(plan)}

    # -- answers -------------------------------------------------------------------------------------------

    def top(self, name: str, most: int) -> dict[str, Any]:
        """For the dashboard, which shows so many rows at most: an answer may have a hundred thousand."""
        offset, table = self.top_table(name)
        return top_of(name, offset, table.slice(0, most)) | {"total": table.num_rows}

    def top_table(self, name: str, k: int | None = None, wanted: str | None = None) -> tuple[int, pa.Table]:
        allowed.check_k_and_window(k, wanted, self.settings)
        with self.engine.reading():
            return self.engine.offset, self._watch(name).top(k, wanted)

    def tops(self, wanted: Names) -> tuple[int, dict[str, Any]]:
        """These answers at one moment, or all; none of a query that isn't there any more."""
        with self.engine.reading() as monitor:
            offset = self.engine.offset
            tables = {
                name: watch.top()
                for name, watch in monitor.watches.items()
                if wanted is None or name in wanted
            }
        return offset, {each: json_rows(table) for each, table in tables.items()}

    def explain(self, name: str) -> dict[str, Any]:
        with self.engine.reading():
            plan = self._watch(name).explain()
        return {"text": str(plan), "plan": plan.to_dict()}

    def picture(self, name: str) -> dict[str, Any]:
        from skyband.server.picture import picture

        with self.engine.reading():
            return picture(self._watch(name), self.sampler)

    # -- how things stand ----------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        with self.engine.reading() as monitor:
            rows, rejects, now = monitor.rows_seen, monitor.reject_counts, json_value(monitor.now)
            queries, state = len(monitor.watches), self._state_now(monitor)
        return {
            "rows": rows,
            "now": now,
            "offset": self.engine.offset,
            "rejects": rejects,
            "rejected": sum(rejects.values()),
            "queries": queries,
            "waiting": self.engine.waiting,
            **state,
            **self.numbers.summary(),
            "subscribers": self.hub.readers,
            "missed": self.hub.missed,
        }

    def _state_now(self, monitor: Monitor) -> dict[str, Any]:
        """Return how much is kept. Looking at every query takes a while, so it is done seldom."""
        now = time.monotonic()
        if self._state is None or now > self._state[1]:
            found = state_of(monitor)
            took = time.monotonic() - now
            self._state = now, now + max(1.0, 50 * took), found
        return self._state[2]


def _by_option(error: InputError) -> InputError:
    """Return an error about one of the monitor's options, by its name on the command line."""
    name, found, rest = str(error).partition("= ")
    return InputError(f"--{name.replace('_', '-')} {rest}") if found and name.isidentifier() else error


def about_query(watch: Watch) -> dict[str, Any]:
    """Return what there is to say of a query."""
    query = watch.asked()
    return {
        "name": watch.name,
        "sql": to_sql(query),
        "k": watch.k,
        "window": str(watch.window),
        "algorithm": watch.group.algorithm_name
        if getattr(watch, "group", None) is not None
        else watch.choice.algorithm,
        "kind": type(query).__name__.lower(),
        "stream": watch._stream.name,
    }


def top_of(name: str, offset: int, table: pa.Table) -> dict[str, Any]:
    return {"query": name, "offset": offset, "columns": table.column_names, "rows": json_rows(table)}


def _entry(step: Step) -> Entry | None:
    """Return a step for the hub; None if it changed nothing."""
    event = None
    if step.name is not None and step.kind in EVENTS:
        event = {"name": step.name, "event": EVENTS[step.kind], "offset": step.offset}
    return Entry(step.offset, step.changes, event) if event is not None or step.changes.num_rows else None


def _stream_of(monitor: Monitor, name: str | None) -> Any:
    """Return the stream that a query would be about, where there is one."""
    if (name or "") in monitor.streams:
        return monitor.streams[name or ""]
    named = [stream for stream in monitor.streams.values() if stream.named]
    return named[0] if len(named) == 1 and len(monitor.streams) == 1 else None


def _like(monitor: Monitor, query: Query) -> Monitor:
    """Return an empty monitor with the same streams, to try a query on."""
    streams = monitor.streams
    if not isinstance(query, Joined):
        stream = _stream_of(monitor, query.stream)
        if stream is None and any(s.named for s in streams.values()):
            known = ", ".join(name for name in streams if name)
            raise QueryError(f'There is no stream "{query.stream}"; there are {known}.')
        streams = {} if stream is None else {query.stream or "": stream}
    made = Monitor(time=monitor.time, key=monitor.key, op=monitor.op, retain=monitor.retain)
    for name, stream in streams.items():
        copy_to(made, name, stream)
    return made
