"""The settings of one stream: all of them before its first row, afterwards those that change no row's meaning.

A monitor is made with settings for all of its streams. A stream may have its own instead: a schema, a time column, the
key and the operation of an update stream, how far ahead a row may be stamped. Before its first row nothing depends on
them but its watches, so the stream is made again with them and its watches move to it. Afterwards rows have been read
by them: a column may still be added to the schema, what decides about rows yet to come may change, and whatever is set
again as it is changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa

from skyband.core.errors import InputError, QueryError, SkybandError
from skyband.engine.planner import choose
from skyband.engine.protocol import Host
from skyband.engine.stream_runtime import Columns, Stream
from skyband.query.model import Last
from skyband.query.window import duration
from skyband.stream.clock import Kind, unit_of
from skyband.stream.schema import declared, known_type, type_of

SETTINGS = ("schema", "time", "time_unit", "key", "op", "max_ahead", "strict")


class Settable(Host, Protocol):
    """A monitor whose streams can be set."""

    streams: dict[str, Stream]
    _pending: Any
    _rejects: Any
    _strict: dict[str | None, bool]
    _own_ahead: dict[str, Last | None]

    def nameless(self) -> list[Stream]: ...
    def columns_of(self, name: str) -> Columns: ...
    def unit(self) -> Kind | None: ...
    def _settle(self, stream: Stream) -> None: ...
    def _learn(
        self, stream: Stream, schema: pa.Schema, unsure: dict[str, tuple[pa.DataType, ...]]
    ) -> None: ...


class HasRows(InputError):
    """A setting that would give rows that have come another meaning."""


def settings_of(stream: Stream) -> dict[str, Any]:
    """Return the settings of a stream. The schema holds the columns whose types were given."""
    given = stream.declared
    known = [] if stream.schema is None else [field for field in stream.schema if field.name in given]
    return {
        "schema": {field.name: str(field.type) for field in known} or None,
        "time": stream.time,
        "time_unit": stream.unit,
        "key": None if stream.updates is None else stream.updates.key,
        "op": None if stream.updates is None else stream.updates.op,
        "max_ahead": None if stream.max_ahead is None or stream.time is None else str(stream.max_ahead),
    }


def copy_to(monitor: Settable, name: str, stream: Stream) -> None:
    """Make a stream without rows in another monitor, with the columns and settings of this one."""
    own = settings_of(stream)
    monitor.streams[name] = made = Stream(
        monitor, name, own["time"], stream.schema, own["key"], own["op"], stream.unit
    )
    if made.schema is not None:
        monitor._settle(made)


def set_stream(monitor: Settable, name: str, given: Mapping[str, Any]) -> None:
    """Set a stream's settings; those that are not given stay as they are. An error changes nothing."""
    _check(given)
    stream = monitor.streams.get(name)
    if stream is not None and stream.pushed:
        _set_later(monitor, stream, given)
    else:
        before = dict(monitor.streams), monitor._kind, monitor._now, monitor._advanced, monitor._pending
        try:
            _set_first(monitor, name, stream, given)
        except SkybandError:
            monitor.streams, monitor._kind, monitor._now, monitor._advanced, monitor._pending = before
            raise
    if "max_ahead" in given:
        limit = given["max_ahead"]
        monitor._own_ahead[name] = None if limit is None else duration("max_ahead", limit)
    if given.get("strict") is not None:
        monitor._strict[name] = given["strict"]
    elif "strict" in given:
        monitor._strict.pop(name, None)


def _check(given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if name not in SETTINGS:
            raise InputError(f"A stream has no setting {name!r}: there are {', '.join(SETTINGS)}.")
        if name == "schema":
            _check_schema(value)
        elif name == "strict":
            if not isinstance(value, bool | None):
                raise InputError(f'"strict" must be true or false, not {value!r}.')
        elif name == "time_unit":
            if value is not None:
                unit_of(value)
        elif name == "max_ahead":
            try:
                _ = value is None or duration("max_ahead", value)
            except QueryError:
                raise InputError(
                    f'"max_ahead" must be a duration such as "5 minutes", or null, not {value!r}.'
                ) from None
        elif value is not None and (not isinstance(value, str) or not value):
            raise InputError(f'"{name}" must be the name of a column, not {value!r}.')


def _check_schema(given: Any) -> None:
    if given is None:
        return
    if not isinstance(given, Mapping) or not given or not all(given):
        raise InputError('"schema" must have the type of each column by its name, as {"x": "double"}.')
    for name, text in given.items():
        try:
            type_of(text)
        except (ValueError, TypeError):
            raise InputError(
                f"The type of \"{name}\" can't be {text!r}: give one by Arrow's name, as double, int64, string, bool, "
                "timestamp[us] or decimal128(10, 2)."
            ) from None


def _set_first(monitor: Settable, name: str, stream: Stream | None, given: Mapping[str, Any]) -> None:
    """The stream has no rows: make it with these settings."""
    nameless = [] if monitor.joints else monitor.nameless()
    if stream is not None:
        replaced = [stream]
    elif len(nameless) == len(monitor.streams):  # as with a first push: all watches mean this stream
        replaced = nameless
    else:
        replaced = []
    first = replaced[0] if replaced else Stream(monitor, name, *monitor.columns_of(name))
    wanted = {**settings_of(first), **given}
    if wanted["op"] is not None and wanted["key"] is None:
        raise InputError('"op" needs "key", too: the column that says which row is updated or deleted.')
    if given.get("time_unit") is not None and wanted["time"] is None:
        raise InputError('"time_unit" needs "time", too: the column of numbers that it is of.')
    if given.get("max_ahead") is not None and wanted["time"] is None:
        raise InputError('"max_ahead" needs "time", too: the column that says how far ahead a row is.')
    schema = declared(wanted["schema"])
    made = Stream(monitor, name, wanted["time"], schema, wanted["key"], wanted["op"], wanted["time_unit"])
    watches = [watch for old in replaced for watch in old.watches]
    choices = []
    for watch in watches:
        made.check(watch.query)
        made.allow(watch.window)
        choices.append(choose(watch.query, made.facts(watch.query)) if made.updates else watch.choice)
    for joint in monitor.joints.values():
        if name in joint.members and joint.watches and _shape(made) != _shape(first):
            raise InputError(
                f'The stream "{name}" is part of a joined query, which was made for its time and key: drop the query '
                f"{joint.watches[0].name}, or set the stream first."
            )
    others = [old for old in monitor.streams.values() if old not in replaced]
    if monitor._now is None and not any(known_type(old.schema, old.time or "") for old in others):
        monitor._kind = monitor.unit()  # it was this stream's alone
    monitor.streams = {old.name: old for old in others} | {name: made}
    if schema is not None:
        monitor._settle(made)
    for watch, choice in zip(watches, choices, strict=True):
        watch._stream.detach(watch)
        watch._stream, watch.choice = made, choice
        made.attach(watch)
    made.named = True
    if made.updates is not None:
        monitor._rejects.count_updates()


def _shape(stream: Stream) -> tuple[bool, bool]:
    """Return what a joined query was made for."""
    return stream.time is None, stream.updates is None


def _set_later(monitor: Settable, stream: Stream, given: Mapping[str, Any]) -> None:
    """The stream has rows: only add columns."""
    known = settings_of(stream)
    for name in ("time", "time_unit", "key", "op"):
        if given.get(name, known[name]) != known[name]:
            raise HasRows(
                f'The stream "{stream.name}" has rows, which were read with {_said(name, known[name])}: that can be '
                "set before the first row only. Push to another stream."
            )
    if given.get("max_ahead") is not None and stream.time is None:
        raise InputError('"max_ahead" needs "time", too, and the stream has none.')
    schema = declared(given.get("schema"))
    if schema is None:
        return
    assert stream.schema is not None
    for field in schema:
        if known_type(stream.schema, field.name) and stream.schema.field(field.name).type != field.type:
            raise HasRows(
                f'The stream "{stream.name}" has rows, in which "{field.name}" is '
                f"{stream.schema.field(field.name).type}: it can't become {field.type}. Push to another stream."
            )
    fields = {field.name: field.type for field in stream.schema} | {f.name: f.type for f in schema}
    wider = pa.schema(list(fields.items()))
    if not wider.equals(stream.schema):
        monitor._learn(stream, wider, {})
    stream.declared |= set(schema.names)


def _said(name: str, value: str | None) -> str:
    word = "time unit" if name == "time_unit" else f"{name} column"
    return f"no {word}" if value is None else f'the {word} "{value}"'
