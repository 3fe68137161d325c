"""A monitor as plain data, and back: what `save` writes, what the journal's snapshots hold, what Spark keeps.

All state is a nested dict of numbers, text, arrays and tables (see `blob`). A monitor filled from it continues as if
nothing had happened.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from skyband.core.blob import WATCHES, Plain, Read, Written
from skyband.core.types import Recency
from skyband.engine.families import kind_of
from skyband.engine.joined_stream import Joint
from skyband.engine.planner import Choice
from skyband.engine.protocol import Host
from skyband.engine.report import Report
from skyband.engine.stream_runtime import Stream
from skyband.engine.watch import Watch
from skyband.query.model import Last, Query, Window, window
from skyband.query.serialise import from_dict
from skyband.stream.notices import Notices
from skyband.stream.rejects import Rejects
from skyband.stream.schema import declared


class Saved(Host, Protocol):
    """What is saved of a monitor."""

    op: Any
    streams: dict[str, Stream]
    joints: dict[str, Joint]
    watches: dict[str, Watch]
    _pending: Any
    _rejects: Rejects
    _notices: Notices
    _strict: dict[str | None, bool]
    _own_ahead: dict[str, Last | None]
    _known: dict[str, Watch]
    _report: Report


def make_watch(
    monitor: Saved,
    stream: Stream,
    name: str,
    query: Any,
    choice: Choice,
    beginning: Recency | None = None,
) -> Watch:
    kind = kind_of(query).watch
    made = kind(monitor, stream, name, query, choice, beginning)
    known = monitor._known.get(name)
    if type(known) is not kind:
        return made
    known.__dict__ = made.__dict__
    return known


def dump(monitor: Saved) -> dict[str, Any]:
    """Return all state."""
    pending = monitor._pending
    return {
        **options(monitor),
        "next_seq": monitor._next_seq,
        "now": monitor._now,
        "advanced": monitor._advanced,
        "kind": monitor._kind,
        "pending": pending if isinstance(pending, int | float | None) else str(pending),
        "rejects": monitor._rejects.dump(),
        "notices": monitor._notices.dump(),
        "strict": [[name, value] for name, value in monitor._strict.items()],
        "own_ahead": {name: _nanoseconds(limit) for name, limit in monitor._own_ahead.items()},
        "streams": [stream.dump() for stream in monitor.streams.values()],
        "joints": [{**joint.dump(), "members": list(joint.members)} for joint in monitor.joints.values()],
        WATCHES: _dump_watches(monitor),
    }


def options(monitor: Saved) -> dict[str, Any]:
    """Return what the monitor was made with."""
    return {
        "time": monitor.time,
        "key": monitor.key,
        "op": monitor.op,
        "schema": _dump_schema(monitor.schema),
        "retain": None if monitor.retain is None else str(monitor.retain),
        "max_ahead": _nanoseconds(monitor.max_ahead),
        **({} if monitor.time_unit is None else {"time_unit": monitor.time_unit}),
        **({} if monitor.share is None else {"share": list(monitor.share)}),
    }


def _nanoseconds(given: Last | dict[str, Last] | None) -> Any:
    """Return how far ahead rows may be, as plain data."""
    if isinstance(given, dict):
        return {name: limit.nanoseconds for name, limit in given.items()}
    return None if given is None else given.nanoseconds


def _limits(given: Any) -> Any:
    """Return the same, read."""
    if isinstance(given, dict):
        return {name: Last(int(limit)) for name, limit in given.items()}
    return None if given is None else Last(int(given))


def _dump_schema(given: Any) -> Any:
    """Return the schema that was given, as an empty table, or one for each stream."""
    if isinstance(given, Mapping) and all(isinstance(s, pa.Schema | Mapping) for s in given.values()):
        schemas = {name: declared(schema) for name, schema in given.items()}
        return {name: schema.empty_table() for name, schema in schemas.items() if schema is not None}
    schema = declared(given)
    return None if schema is None else schema.empty_table()


def _dump_watches(monitor: Saved) -> Written:
    """Of a thousand watches this is most of a dump: it has no arrays, and queries are written once."""
    every: list[Stream] = [*monitor.streams.values(), *monitor.joints.values()]
    groups = [(number, group) for stream in every for number, group in enumerate(stream.groups)]
    places = {
        watch.name: (number, place) for number, group in groups for place, watch in enumerate(group.watches)
    }
    return Written(_dump_watch(watch, *places[watch.name]) for watch in monitor.watches.values())


def _dump_watch(watch: Watch, group: int, place: int) -> tuple[Plain, str]:
    """Return a watch as plain data and as text; which family of its stream it is in, and at what place there. Written
    once, for as long as it stays as it is."""
    now = watch.choice, watch.k, watch.window, watch.beginning, (*watch.growing,), group, place, watch.slot
    if watch.written is not None and watch.written[0] == now:
        return watch.written[1]
    rest = {
        "name": watch.name,
        "why": watch.choice.why,
        "alternatives": watch.choice.alternatives,
        "stream": watch._stream.name,
        "k": watch.k,
        "window": str(watch.window),
        "beginning": [int(part) for part in watch.beginning],
        "growing": [[[int(part) for part in complete], k] for complete, k in watch.growing],
        "group": group,
        "place": place,
        "slot": watch.slot,
    }
    text = f'{{"query": {watch.text}, {json.dumps(rest, ensure_ascii=False)[1:]}'
    watch.written = now, (Plain({"query": watch.plain, **rest}), text)
    return watch.written[1]


def fill(monitor: Saved, content: dict[str, Any]) -> None:
    """Let a monitor continue from what `dump` gave."""
    monitor.time, monitor.key, monitor.op = (content[name] for name in ("time", "key", "op"))
    monitor.time_unit = content.get("time_unit")
    monitor.retain = None if content["retain"] is None else window(content["retain"])
    given = content["schema"]
    if isinstance(given, dict):
        monitor.schema = {name: table.schema for name, table in given.items()}
    else:
        monitor.schema = None if given is None else given.schema
    monitor.max_ahead = _limits(content["max_ahead"])
    monitor._own_ahead = {name: _limits(limit) for name, limit in content.get("own_ahead", {}).items()}
    monitor.share = (share[0], share[1]) if (share := content.get("share")) else None
    monitor._next_seq, monitor._now, monitor._kind = content["next_seq"], content["now"], content["kind"]
    monitor._pending = content["pending"]
    monitor._rejects = Rejects(updates=bool(monitor.key))
    monitor._rejects.load(content["rejects"])
    monitor._strict = monitor._strict or {name: value for name, value in content.get("strict", ())}
    monitor._notices = Notices()
    monitor._notices.load(content.get("notices", ()))
    monitor.streams, monitor.joints = {}, {}
    for part in content["streams"]:
        stream = Stream(
            monitor, part["name"], part["time"], None, part["key"], part["op"], part.get("time_unit")
        )
        monitor.streams[stream.name] = stream
        stream.load(part)
    for part in content["joints"]:
        joint = Joint(monitor, tuple(part["members"]), part["time"])
        monitor.joints[joint.name] = joint
        joint.load(part)
    latest = [stream.latest for stream in monitor.streams.values()]
    known = max((time for time in latest if time is not None), default=None)
    monitor._advanced = content.get("advanced", None if monitor._now == known else monitor._now)
    monitor.watches = {}
    _fill_watches(monitor, content[WATCHES])
    monitor._report.forget()


class _Kept(NamedTuple):
    """A query that was read, as it was written."""

    query: Query
    plain: Plain
    text: str


_QUERIES: dict[bytes, _Kept] = {}
_MOST_QUERIES = 20_000


def _kept(data: dict[str, Any]) -> _Kept:
    """Return the query that was dumped. A worker of Spark reads the same ones again and again."""
    key = marshal.dumps(data, 2)
    found = _QUERIES.get(key)
    if found is None:
        if len(_QUERIES) >= _MOST_QUERIES:
            _QUERIES.clear()
        found = _QUERIES[key] = _Kept(from_dict(data), Plain(data), json.dumps(data, ensure_ascii=False))
    return found


class _Entry(NamedTuple):
    """A watch that was read."""

    part: dict[str, Any]
    kept: _Kept
    choice: Choice
    window: Window
    beginning: Recency
    growing: tuple[tuple[Recency, int], ...]
    written: tuple[Any, tuple[Plain, str]] | None  # as in `_dump_watch`


def _entries(every: Mapping[str, Stream], parts: list[dict[str, Any]]) -> list[_Entry]:
    """Return the watches that were read; of those that are read again and again they are made once."""
    groups = {
        (name, number): (part["algorithm"], part["options"])
        for name, stream in every.items()
        for number, part in enumerate(stream._parts)
    }
    again = parts if isinstance(parts, Read) else None
    if again is not None and again.made is not None and again.made[0] == groups:
        return list(again.made[1])
    windows: dict[str, Window] = {}
    found = []
    for part in parts:
        kept, text = _kept(part["query"]), part["window"]
        algorithm, options = groups[part["stream"], part["group"]]
        choice = Choice(algorithm, options, part["why"], part.get("alternatives", {}))
        reach = windows.get(text) or windows.setdefault(text, window(text))
        beginning = Recency(*part["beginning"])
        growing = tuple((Recency(*complete), k) for complete, k in part["growing"])
        written = None
        if again is not None:
            now = choice, part["k"], reach, beginning, growing, part["group"], part["place"], part["slot"]
            rest = json.dumps({n: v for n, v in part.items() if n != "query"}, ensure_ascii=False)
            written = now, (Plain(part), f'{{"query": {kept.text}, {rest[1:]}')
        found.append(_Entry(part, kept, choice, reach, beginning, growing, written))
    if again is not None:
        again.made = groups, found
    return found


def _fill_watches(monitor: Saved, parts: list[dict[str, Any]]) -> None:
    every: dict[str, Stream] = {**monitor.streams, **monitor.joints}
    places: dict[tuple[str, int], list[tuple[int, Watch, int]]] = {}
    for part, kept, choice, reach, beginning, growing, written in _entries(every, parts):
        watch = make_watch(monitor, every[part["stream"]], part["name"], kept.query, choice, beginning)
        watch.plain, watch.text, watch.written = kept.plain, kept.text, written
        watch.k, watch.window, watch.growing = part["k"], reach, [*growing]
        monitor.watches[watch.name] = watch
        places.setdefault((part["stream"], part["group"]), []).append((part["place"], watch, part["slot"]))
    for (stream_name, number), found in sorted(places.items(), key=lambda item: item[0]):
        found.sort(key=lambda item: item[0])
        every[stream_name].load_group(number, [w for _, w, _ in found], [s for _, _, s in found])
