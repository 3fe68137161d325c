"""The engine: rows in, exact changes out.

A monitor holds streams and watches. A step (a pushed batch, an advance of time, a micro-batch of several
streams) goes one way: rows are accepted or rejected, numbered, and shown to each family of watches, which
expires, inserts and then compares its tops; what changed becomes one Arrow table. The answer after a step is a
pure function of the rows accepted so far: how they were cut into steps makes no difference.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.core import blob
from skyband.core.errors import InputError, QueryError, SkybandError
from skyband.core.types import MINIMUM
from skyband.engine import snapshot as saving
from skyband.engine.joined_stream import Joint, name_of
from skyband.engine.journalled import Journal
from skyband.engine.lane import Lane
from skyband.engine.planner import choose
from skyband.engine.protocol import NONE_DELETED, Arrived, Deleted
from skyband.engine.pruning import Sifted, Sifter
from skyband.engine.report import TIMELESS, Report
from skyband.engine.stream_runtime import Columns, Stream
from skyband.engine.watch import Watch
from skyband.query.coerce import asked
from skyband.query.model import Joined, Last, Query, Window
from skyband.stream import clock
from skyband.stream.batches import Batch, IndexColumns, names_of, no_times, read
from skyband.stream.notices import Notice, Notices, all_rejected, must_be_as_expected, surprises, widenings
from skyband.stream.rejects import KEPT, Reject, Rejects
from skyband.stream.rules import BOUNDED, RULES, WAITING, WIDENING
from skyband.stream.schema import LIKELY, Raw, agree, castable, declared, extend, infer, known_type
from skyband.stream.updates import COUNTED
from skyband.stream.validation import Accepted, accept
from skyband.stream.waiting import Judged, judge, reject_ahead
from skyband.stream.widening import widened

log = logging.getLogger("skyband")


class Monitor:
    """Watches over streams of rows.

    time: the event-time column (or one for each stream, by name); time_unit: "s", "ms", "us" or "ns" of a time column
    of numbers (or one for each stream, by name), seconds by default; schema: Arrow's, else from the first batch;
    retain: rows kept for watches yet to come (`sb.rows(n)` or `sb.last("1 hour")`); max_ahead: a row that is stamped
    further ahead of the latest time waits (or one for each stream, by name); key, op: an update stream's columns (or
    one for each stream, by name), whose rows replace and delete earlier rows of the same key; journal: a folder that
    keeps every step (see `durable`), to begin or to go on from; strict: take a batch only if its columns and rows are
    as expected (or by stream; see `push`).
    """

    def __init__(
        self,
        time: str | Mapping[str, str] | None = None,
        schema: Any = None,
        retain: str | Window | None = None,
        max_ahead: Any = None,
        key: str | Mapping[str, str] | None = None,
        op: str | Mapping[str, str] | None = None,
        journal: str | os.PathLike[str] | None = None,
        time_unit: str | Mapping[str, str] | None = None,
        strict: bool | Mapping[str, bool] | None = None,
    ) -> None:
        from skyband.query.window import duration, window

        self.time, self.key, self.op = _special_columns(time, key, op)
        self.time_unit = _units(time_unit)
        self.schema = schema
        self.retain: Window | None = None if retain is None else window(retain)
        self.max_ahead: Last | dict[str, Last] | None = _by_stream(
            max_ahead, lambda given: duration("max_ahead", given)
        )
        self._own_ahead: dict[str, Last | None] = {}  # of streams that were set by themselves
        self.streams: dict[str, Stream] = {}
        self.joints: dict[str, Joint] = {}  # several streams as one, by all their names
        self.watches: dict[str, Watch] = {}
        self._rejects = Rejects(updates=bool(self.key))
        self._notices = Notices()
        self._strict: dict[str | None, bool] = {}  # by stream; None: of those without their own
        if strict is not None:
            for name, value in strict.items() if isinstance(strict, Mapping) else ((None, strict),):
                self.set_strict(value, name)
        self._report = Report()
        self._next_seq = 0
        self._now: int | None = None  # time key
        self._kind = self.unit()
        self._times: tuple[Any, tuple[clock.Kind | None, pa.DataType]] = (
            None,
            TIMELESS,
        )  # of which streams' schemas
        self._advanced: int | None = None  # time key of the latest advance
        self._pending: Any = None  # an advance before the kind of time was known
        self.lists_only = (
            False  # rows may be pruned before they come here: the planner picks nothing that needs them all
        )
        # of questions about pairs it answers one of so many parts: which, and of how many (pairs/sharded_scase.py)
        self.share: tuple[int, int] | None = None
        self.journal: Journal | None = None  # steps go through it, if there is one
        self._lane: Lane | None = None  # the short way, where there is one
        self._known: dict[str, Watch] = {}  # while state is made anew: watches held
        if isinstance(self.retain, Last) and not self.time:
            raise InputError("retain=sb.last(…) needs a time column: give time=, or retain a number of rows.")
        if self.time_unit is not None and not self.time and journal is None:
            raise InputError("time_unit= needs a time column: give time= too.")
        if (
            self.max_ahead is not None and not self.time and journal is None
        ):  # a journal knows its time column
            raise InputError("max_ahead= needs a time column: give time= too.")
        if (
            isinstance(schema, Mapping)
            and schema
            and all(isinstance(s, pa.Schema | Mapping) for s in schema.values())
        ):
            for name in schema:
                self._stream(name)
        if journal is not None:
            from skyband.durable import Engine

            Engine(self, journal)

    # -- watching ------------------------------------------------------------------------------------------

    def watch(self, query: str | Query, name: str | None = None) -> Watch:
        """Ask once; from then on the answer is kept."""
        return self._watch(query, name) if self.journal is None else self.journal.watch(query, name)

    def _watch(self, query: str | Query, name: str | None) -> Watch:
        query = asked(query)
        choice = choose(query)  # refuses what can't be answered at all
        name = self._name(name)
        stream = self._stream_of(query)
        stream.check(query)
        stream.allow(query.window)
        # a stream without rows is planned when the first ones come, with all that is known then; but what an update
        # stream can't have is refused now
        if stream.pushed or stream.has_updates():
            choice = choose(query, stream.facts(query))
        watch = saving.make_watch(self, stream, name, query, choice)
        stream.attach(watch)
        self.watches[name] = watch
        self._report.forget()
        return watch

    def _name(self, name: str | None) -> str:
        if name is None:
            number = len(self.watches) + 1
            while f"query{number}" in self.watches:
                number += 1
            return f"query{number}"
        if not isinstance(name, str) or not name:
            raise InputError(f"A watch's name must be a text of at least one character, not {name!r}.")
        if name in self.watches:
            raise InputError(f'There is a watch "{name}" already: drop it first, or choose another name.')
        return name

    def drop(self, name: str) -> None:
        """Watch no longer."""
        return self._drop(name) if self.journal is None else self.journal.drop(name)

    def _change(self, name: str, k: int | None, window: str | Window | None) -> None:
        """A change of a watch as the journal knows it: by name."""
        if name not in self.watches:
            raise QueryError(f'"{name}" was dropped and has no answer any more: watch it again.')
        self.watches[name]._change(k, window)

    def _drop(self, name: str) -> None:
        if name not in self.watches:
            raise InputError(f'There is no watch "{name}"; there are {", ".join(self.watches) or "none"}.')
        watch = self.watches.pop(name)
        watch.dropped = True
        watch._stream.detach(watch)
        self._report.forget()

    # -- streams -------------------------------------------------------------------------------------------

    def _stream(self, name: str) -> Stream:
        """The stream of this name, made if it isn't there."""
        if name not in self.streams:
            stream = Stream(self, name, *self.columns_of(name))
            self.streams[name] = stream
            if stream.schema is not None:
                self._settle(stream)
        return self.streams[name]

    def columns_of(self, name: str) -> Columns:
        """The time column, schema, key, operation and unit of time that were given for a stream."""
        time, key, op = (_of(columns, name) for columns in (self.time, self.key, self.op))
        return time, self.declared(name), key, op, self.unit_of(name)

    def _known_stream(self, name: str | None) -> Stream | None:
        """The stream that a batch goes to, if it is there."""
        known = self.streams.get(name or "")
        return known if known is not None or len(self.streams) != 1 else next(iter(self.streams.values()))

    def index_columns(self, stream: str | None) -> IndexColumns:
        """The time and the key column of the stream that a batch goes to."""
        known = self._known_stream(stream)
        if known is not None:
            return IndexColumns(known.time, None if known.updates is None else known.updates.key)
        return IndexColumns(_of(self.time, stream or ""), _of(self.key, stream or ""))

    def is_strict(self, stream: str | None) -> bool:
        """Whether batches of a stream are taken only if all is as expected."""
        known = self._known_stream(stream) if stream is None else None
        name = stream if known is None else known.name
        return self._strict.get(name, self._strict.get(None, False))

    def max_ahead_of(self, stream: str) -> Last | None:
        """How far ahead of the latest time a stream's row may be stamped."""
        if stream in self._own_ahead:
            return self._own_ahead[stream]
        return self.max_ahead.get(stream) if isinstance(self.max_ahead, dict) else self.max_ahead

    def set_strict(self, strict: bool, stream: str | None = None) -> None:
        """Set it for one stream, or for all that have no setting of their own."""
        if not isinstance(strict, bool):
            raise InputError(
                f"strict= must be True or False, or one of them for each stream by name, not {strict!r}."
            )
        self._strict[stream] = strict

    def unit_of(self, name: str) -> clock.Kind | None:
        """The unit of time that was given for a stream."""
        return self.time_unit.get(name, "s") if isinstance(self.time_unit, dict) else self.time_unit

    def unit(self) -> clock.Kind | None:
        """The unit of `now` and `advance`: the finest one, where streams were given different ones."""
        return clock.finest(self.time_unit.values()) if isinstance(self.time_unit, dict) else self.time_unit

    def _set_stream(self, name: str, given: Mapping[str, Any]) -> None:
        """Set a stream's own settings; see `stream_settings`."""
        from skyband.engine.stream_settings import set_stream

        set_stream(self, name, given)
        self._report.forget()
        for known in self.streams.values():
            known.forget_plan()

    def declared(self, stream: str) -> pa.Schema | None:
        """The schema that was given for a stream."""
        schema = self.schema
        if isinstance(schema, Mapping) and any(isinstance(s, pa.Schema | Mapping) for s in schema.values()):
            schema = schema.get(stream)
        return declared(schema)

    def _stream_of(self, query: Query) -> Stream:
        """The stream that a query is about: names are free while there is one stream."""
        if isinstance(query, Joined):
            return self._joint(query)
        name = query.stream or ""
        if name in self.streams:
            return self.streams[name]
        if len(self.streams) == 1:
            (only,) = self.streams.values()
            if only.named:
                return only
        elif any(stream.named for stream in self.streams.values()):
            raise QueryError(
                f'There is no stream "{name}"; there are {", ".join(n for n in self.streams if n)}.'
            )
        return self._stream(name)

    def _joint(self, query: Joined) -> Joint:
        """The streams of a joined query as one."""
        name = name_of(query.streams)
        if name not in self.joints:
            times = {
                stream: self.streams[stream].time if stream in self.streams else _of(self.time, stream)
                for stream in query.streams
            }
            timeless = [stream for stream, time in times.items() if time is None]
            if timeless and len(timeless) < len(times):
                raise QueryError(
                    f"Stream {timeless[0]} has no time column and others of the join have one: name all of them "
                    "in time=."
                )
            if len(self.streams) == 1 and "" in self.streams:
                raise QueryError(
                    f"A joined query needs its streams by name: push to {' and '.join(query.streams)} with stream=."
                )
            for stream in query.streams:
                self._stream(stream)
            self.joints[name] = Joint(self, query.streams, times[query.streams[0]])
            for stream in query.streams:
                self.streams[stream].forget_plan()
        return self.joints[name]

    def _stream_for(self, name: str | None) -> Stream:
        """The stream that a batch is pushed to."""
        if name is not None and name in self.streams:
            return self.streams[name]
        waiting = self.nameless()
        if self.joints and name is not None:
            return self._stream(name)
        if name is None:
            if len(self.streams) == 1:
                return next(iter(self.streams.values()))
            if len(self.streams) > len(waiting):
                raise InputError(
                    f"There are several streams ({', '.join(n for n in self.streams if n)}): say which with stream=."
                )
        if waiting and len(waiting) == len(self.streams):
            # the first push, under a name that no query uses: names are free, all watches mean this stream
            return self._merge(waiting, name)
        return self._stream(name or "")

    def nameless(self) -> list[Stream]:
        """The streams that have neither rows nor settings: their names are those that queries chose."""
        return [stream for stream in self.streams.values() if not stream.named]

    def _merge(self, waiting: list[Stream], name: str | None) -> Stream:
        target = waiting[0]
        for other in waiting[1:]:
            for watch in list(other.watches):
                other.detach(watch)
                watch._stream = target
                target.attach(watch)
        target.name = name if name is not None else target.name
        target.unit = self.unit_of(target.name)
        self.streams = {target.name: target}
        return target

    def _settle(self, stream: Stream) -> None:
        """A stream's schema is known: settle its kind of time and check its watches' columns."""
        assert stream.schema is not None
        if stream.time is not None:
            if stream.time not in stream.schema.names:
                from skyband.query.expression import unknown_column

                raise InputError(str(unknown_column(stream.time, stream.schema.names)))
            if known_type(stream.schema, stream.time):
                self._settle_kind(stream, stream.schema.field(stream.time).type)
        stream.check_updates()
        stream.check_families()
        for watch in stream.watches:
            stream.check(watch.query)
        for joint in self.joints.values():
            for watch in joint.watches if stream.name in joint.members else ():
                joint.check(watch.query)

    def _settle_kind(self, stream: Stream, type_: pa.DataType) -> None:
        """The type of a stream's time column is known."""
        assert stream.time is not None
        kind = clock.kind_of(type_, stream.time, stream.unit)
        if self._kind in clock.UNITS and kind == "number":
            kind = stream.unit = "s"
        if self._kind is not None and kind != self._kind:
            kind = clock.common_kind(kind, self._kind, stream.time)
        self._kind = kind
        if self._pending is not None:
            self._now = self._advanced = clock.pending_key(self._pending, kind)
            self._pending = None

    # -- steps ---------------------------------------------------------------------------------------------

    def push(
        self, batch: Any, stream: str | None = None, key: str | None = None, strict: bool | None = None
    ) -> pa.Table:
        """Rows come; returns the changes of this step.

        With a journal `key` is the caller's own name for this batch: given again it is not taken twice. `strict`: a
        batch that lacks a column, has a new one, or has a row that would be rejected for more than being late is an
        error (StrictError), and nothing of it is taken; None: as the monitor's `strict`.
        """
        if self.journal is not None:
            return self.journal.push(batch, stream, key, strict=strict).changes
        if key is not None:
            raise InputError("key= needs a journal, which remembers it: make the monitor with journal=.")
        if type(batch) is dict:
            changes = self._push_row(batch, stream)
            if changes is not None:
                return changes
        strict = self.is_strict(stream) if strict is None else strict
        lane = self._lane
        if lane is not None and isinstance(batch, pa.Table) and stream in (None, lane.stream.name):
            told = lane.push(batch) if lane.serves() else None
            if told is not None:
                self.begin_step()
                lane.stream.review.look()
                return told
        return self._push(*read(batch, self.index_columns(stream)), stream, strict=strict)

    def _push_row(self, row: dict[Any, Any], stream: str | None) -> pa.Table | None:
        """Take one row as a dict of values, by its stream's plan; None for what has to be read as a batch."""
        target = self._known_stream(stream) if stream is None else self.streams.get(stream)
        if target is None or not target.pushed:
            return None
        found = target.prepared().row(row)
        if found is None:
            return None
        self.begin_step()
        return self._tell({target.name: (found, NONE_DELETED)})

    def _push(
        self,
        raw: Raw,
        rows: int,
        stream: str | None,
        unread: Mapping[int, tuple[str, str]] | None = None,
        rules: int = RULES,
        strict: bool = False,
    ) -> pa.Table:
        names = set(self.streams)
        target = self._stream_for(stream)
        self.begin_step()
        whole = target.prepared().batch(raw) if target.pushed and not unread and rules >= WAITING else None
        if whole is not None:
            told = self._tell({target.name: (whole, NONE_DELETED)})
            self._lane = Lane.of(self, self._report, target)
            return told
        if rows == 0 and target.schema is None:
            return self.no_changes()
        before = target.schema
        time = self._kind, self._now, self._advanced, self._pending, target.unit
        try:
            odd = self._read_types(target, raw, rules) if rows or names_of(raw) else []
            door = replace(target.door(), rules=rules) if rules != RULES else target.door()
            part = accept(door, raw, rows, unread, KEPT)
            if strict:
                far = self._judged([(target, [part])]).rejected()
                must_be_as_expected(odd, [*part.rejects, *far], target.name)
        except SkybandError:
            if strict:  # nothing of it is taken
                target.schema = before
                self._kind, self._now, self._advanced, self._pending, target.unit = time
                if len(self.streams) > len(names):
                    del self.streams[target.name]
            raise
        target.carry(before)
        if not target.pushed:
            target.plan(rows)
        target.pushed = target.named = True
        target.note(part.table)
        for kind, column, hint in odd:
            self.notice(kind, target, rows, hint, column)
        return self._step([(target, [part])], rules)

    def begin_step(self) -> None:
        """Forget what the step before was told of."""
        self._notices.of_step = []
        self._rejects.of_step = []

    def notice(self, kind: str, stream: Stream, rows: int, hint: str, column: str | None = None) -> None:
        """Count a notice of the next rows to be numbered."""
        first, last = (self._next_seq, self._next_seq + rows - 1) if rows else (None, None)
        self._notices.add(Notice(kind, stream.name, column, rows, first, last, hint))

    def _read_types(self, stream: Stream, raw: Raw, rules: int) -> list[tuple[str, str, str]]:
        """Bring a stream's schema up to what a batch needs; return what was hardly meant: kind, column and hint."""
        before = stream.schema
        if before is None:
            self._settle_types(stream, stream.readable(infer(raw), raw), {})
        if before is None or (isinstance(raw, pa.Table) and raw.schema.equals(before)):
            return []
        odd: list[tuple[str, str, str]] = []
        if stream.names.symmetric_difference(names_of(raw)):
            odd += surprises(names_of(raw), stream.names, stream.named_columns())
        self._extend(stream, raw, rules)
        return [*odd, *widenings(before, stream.schema)]

    def _extend(self, stream: Stream, raw: Raw, rules: int) -> None:
        """New columns, or types that were not known yet, or that have to be wider."""
        before = stream.schema
        assert before is not None
        schema = before
        if stream.unknown_types or not stream.names.issuperset(names_of(raw)):
            schema = stream.readable(extend(before, raw, rules), raw)
        known = {f.name for f in before if not pa.types.is_null(f.type)}
        unsure: dict[str, tuple[pa.DataType, ...]] = {
            f.name: (pa.null(),) if f.name == stream.time else LIKELY for f in schema if f.name not in known
        }
        if rules >= WIDENING:
            schema = widened(schema, raw, stream.fixed() | unsure.keys(), stream.seen)
            wide = [f for f in before if f.name not in unsure and schema.field(f.name).type != f.type]
            unsure |= {f.name: (f.type,) for f in wide}
        if schema is not before:
            self._settle_types(stream, schema, unsure)

    def _learn(self, stream: Stream, schema: pa.Schema, unsure: dict[str, tuple[pa.DataType, ...]]) -> None:
        """Settle a stream's columns, and give what is kept of them their types."""
        before = stream.schema
        self._settle_types(stream, schema, unsure)
        stream.carry(before)

    def _settle_types(
        self, stream: Stream, schema: pa.Schema, unsure: dict[str, tuple[pa.DataType, ...]]
    ) -> None:
        """A stream's columns are known, or more of them. A key is of the type that other streams of a join have."""
        before = stream.schema
        for joint in self.joints.values():
            for key in joint.keys() if stream.name in joint.members else ():
                if key in schema.names and not known_type(before, key):
                    own = schema.field(key).type
                    others = (type_ for type_ in joint.types_of(key) if castable(own, type_))
                    unsure[key] = (*others, *unsure.get(key, ()))

        def settle(tried: pa.Schema) -> None:
            stream.schema = tried
            self._settle(stream)

        try:
            agree(schema, unsure, settle)
        except (InputError, QueryError):
            stream.schema = before
            raise

    def advance(self, time: Any, force: bool = False) -> pa.Table:
        """Time passes without rows; to an earlier time: nothing.

        With max_ahead a time further ahead of now is an error, unless `force`.
        """
        if self.journal is not None:
            return self.journal.advance(time, force).changes
        return self._advance(time, force)

    def _advance(self, time: Any, force: bool = False, rules: int = RULES) -> pa.Table:
        self.begin_step()
        if not self.timed:
            raise InputError("advance needs event time: make the monitor with time=.")
        if rules >= BOUNDED and not force:
            self._check_advance(time)
        if self._kind is None:  # seconds may yet turn out to be a timestamp's
            time = time.item() if isinstance(time, np.number) else time
            seconds = clock.seconds(time)  # an error if it is no time
            if self._pending is None or seconds > clock.seconds(self._pending):
                self._pending = time
            return self.no_changes()
        key = clock.key(time, self._kind)
        if self._now is None or key > self._now:
            self._now = self._advanced = key
            return self._step([], rules)
        return self.no_changes()

    def _furthest(self) -> Last | None:
        """How far ahead of the latest time a row of some stream may be stamped; None: however far."""
        timed = [stream.max_ahead for stream in self.streams.values() if stream.time is not None]
        given = [*self.max_ahead.values()] if isinstance(self.max_ahead, dict) else [self.max_ahead]
        known = [limit for limit in timed or given if limit is not None]
        return max(known, key=lambda limit: limit.nanoseconds) if len(known) == len(timed or given) else None

    def _check_advance(self, time: Any) -> None:
        """An error if a time is further ahead of now than rows may be."""
        limit = self._furthest()
        if limit is None:
            return
        ahead = limit.nanoseconds
        if self._kind is not None:
            far = self._now is not None and clock.key(time, self._kind) > clock.plus(
                self._now, ahead, self._kind
            )
        else:
            far = (
                self._pending is not None and clock.seconds(time) > clock.seconds(self._pending) + ahead / 1e9
            )
        if far:
            raise InputError(
                f"{time} is more than {limit} ahead of {self.now}, the latest time (max_ahead): give "
                "force if it is right."
            )

    def restart(self, stream: str | None = None) -> pa.Table:
        """Let a stream begin again: its rows go, its watches and schema stay."""
        return self._restart(stream) if self.journal is None else self.journal.restart(stream).changes

    def _restart(self, name: str | None) -> pa.Table:
        from skyband.engine.restart import restart

        known = self.streams
        target = known.get(name or "")
        if target is None and len(known) == 1 and (name is None or not next(iter(known.values())).name):
            (target,) = known.values()  # names are free where there is one stream without a name
        if target is None:
            there = f"there are {', '.join(n for n in known if n)}" if known else "no rows have come"
            raise InputError(f'There is no stream "{name or ""}" to restart: {there}.')
        self.begin_step()
        left = restart(self, target)
        changes = self._report.table(left, self._time_type(), self.watches)
        self._report.forget()  # it knows families by where they are in memory, and these are gone
        self._lane = None
        return changes

    def no_changes(self) -> pa.Table:
        """The table of a step that changed nothing."""
        return self._report.table([], self._time_type())

    def sifter(self, stream: str | None = None) -> Sifter:
        """The door and the pruning of a stream at this moment, as plain data that can travel to executors."""
        target = self._stream_for(stream)
        if target.schema is None:
            raise InputError(f'The schema of stream "{target.name}" is not known yet: give it with schema=.')
        return Sifter.of(target)

    def push_sifted(self, parts: list[tuple[str | None, list[Sifted]]]) -> pa.Table:
        """One step of rows that were sifted elsewhere, in order of arrival."""
        if self.journal is not None:
            raise InputError("Sifted rows can't go to a journal: push the rows themselves.")
        self.begin_step()
        step: list[tuple[Stream, list[Accepted]]] = []
        seq = self._next_seq
        for name, sifted in parts:
            target = self._stream_for(name)
            target.pushed = target.named = True
            for part in sifted:
                last = seq + part.count - 1
                for kind, column, hint in part.odd:
                    self._notices.add(Notice(kind, target.name, column, part.count, seq, last, hint))
                seq = last + 1
            step.append((target, [part.accepted() for part in sifted]))
        return self._step(step)

    def _step(self, arriving: list[tuple[Stream, list[Accepted]]], rules: int = RULES) -> pa.Table:
        """Take a step's rows, and those that have waited long enough."""
        self._look_at_units(arriving)
        if rules < WAITING:
            arriving = [(s, reject_ahead(s, parts, self._now, self._kind)) for s, parts in arriving]
        else:
            judged = self._judged(arriving)
            for notice in judged.notices:
                self._notices.add(notice)
            arriving = judged.take()
            if judged.jumped is not None:
                self._now = judged.jumped if self._now is None else max(self._now, judged.jumped)
        return self._tell({stream.name: self._number(stream, parts) for stream, parts in arriving})

    def _look_at_units(self, arriving: list[tuple[Stream, list[Accepted]]]) -> None:
        """Notice first times that are no seconds."""
        for stream, parts in arriving if self._kind == "number" else ():
            times = [part.time for part in parts if len(part.time)]
            if stream.time is None or stream.latest is not None or not times:
                continue
            ordered = np.sort(_joined(times))
            found = clock.odd_unit(ordered, alone=stream.max_ahead is None)
            if found is not None:
                rows, hint = found
                self.notice("time unit", stream, rows or sum(part.count for part in parts), hint, stream.time)

    def _judged(self, arriving: list[tuple[Stream, list[Accepted]]]) -> Judged:
        """Decide which rows of a step are taken, and which wait."""
        return judge(arriving, self.streams.values(), self._now, self._kind, self._next_seq)

    def _tell(self, arrived: Arrived) -> pa.Table:
        """Show each stream's rows, and which of its earlier ones they end, to those who watch; what that changed."""
        pieces = []
        for stream in self.streams.values():
            batch, deleted = arrived.get(stream.name, (None, NONE_DELETED))
            pieces.extend(stream.step(batch, deleted))
        for joint in self.joints.values():
            pieces.extend(joint.step_all(arrived))
        return self._report.table(pieces, self._time_type(), self.watches)

    def _number(self, stream: Stream, parts: list[Accepted]) -> tuple[Batch | None, Deleted]:
        """Give a stream's rows their seqs; rejected rows keep theirs and go no further.

        What remains of them, and the recencies of the rows that they delete or replace.
        """
        if len(parts) == 1 and parts[0].plain and stream.time is None and stream.updates is None:
            return self._number_whole(stream, parts[0].table, parts[0].count), NONE_DELETED
        if rejects := all_rejected(parts):
            self.notice("all rejected", stream, sum(part.count for part in parts), rejects)
        seqs, times, tables, all_seqs, all_times = [], [], [], [], []
        for part in parts:
            base = self._next_seq
            self._next_seq += part.count
            if part.rejects:
                self._rejects.add(Reject(base + r.seq, *r[1:]) for r in part.rejects)
            at = part.position
            seqs.append(np.arange(base, base + part.count) if at is None else base + at)
            times.append(part.time)
            tables.append(part.table)
            passed = part.passed
            all_seqs.append(seqs[-1] if passed is None else _moved(passed[0], base))
            all_times.append(times[-1] if passed is None else passed[1])
        seq, time = _joined(seqs), _joined(times)
        if stream.time is None and any(isinstance(part, range) for part in all_seqs):
            for part, its_seqs, its_times in zip(parts, all_seqs, all_times, strict=True):
                stream.count(its_times, its_seqs, part.total)
            if not len(seq):
                return None, NONE_DELETED
            return Batch(_one_table(tables), seq, time, timed=False), NONE_DELETED
        every_seq, every_time = _joined(all_seqs), _joined(all_times)
        latest = MINIMUM if stream.time is None else int(every_time.max(initial=MINIMUM))
        if latest > MINIMUM:  # a delete may have no time
            self._now = latest if self._now is None else max(self._now, latest)
            stream.latest = latest if stream.latest is None else max(stream.latest, latest)
        if stream.updates is not None and len(seq):
            return stream.update(_one_table(tables), seq, time, _joined([part.codes for part in parts]))
        stream.count(every_time, every_seq, sum(part.total for part in parts))
        if not len(seq):
            return None, NONE_DELETED
        return Batch(_one_table(tables), seq, time, timed=stream.time is not None), NONE_DELETED

    def _number_whole(self, stream: Stream, table: pa.Table, rows: int) -> Batch | None:
        """The plain case: a batch that was accepted as a whole, without times."""
        base = self._next_seq
        self._next_seq += rows
        seq, time = np.arange(base, base + rows), no_times(rows)
        stream.count(time, seq, rows)
        return Batch(table, seq, time, timed=False) if rows else None

    # -- telling -------------------------------------------------------------------------------------------

    @property
    def now(self) -> Any:
        """The greatest event time accepted, or the latest advance: a datetime or a number of seconds."""
        if self._pending is not None:
            kind: clock.Kind = "number" if isinstance(self._pending, int | float | np.number) else "timestamp"
            return clock.value_of(clock.key(self._pending, kind), kind)
        return None if self._now is None or self._kind is None else clock.value_of(self._now, self._kind)

    @property
    def rows_seen(self) -> int:
        """How many rows were pushed, rejects included: the next row's seq."""
        return self._next_seq

    def rejects(self) -> pa.Table:
        """The last 10,000 rejected rows: seq, stream, reason, detail, raw."""
        return self._rejects.table()

    def last_rejects(self, most: int) -> list[Reject]:
        """The last so many rejected rows, the oldest first."""
        last = self._rejects.last
        return [last[place - most] for place in range(most)] if most <= len(last) else list(last)

    def notices(self) -> pa.Table:
        """What was no reject and yet hardly meant: notice, stream, column, rows, first_seq, last_seq, hint."""
        return self._notices.table()

    def all_notices(self) -> list[Notice]:
        """The same as a list."""
        return list(self._notices.by_what.values())

    @property
    def step_notices(self) -> list[Notice]:
        """The notices of the latest step."""
        return self._notices.of_step

    @property
    def step_rejects(self) -> list[Reject]:
        """The rows that the latest step rejected."""
        return self._rejects.of_step

    @property
    def reject_counts(self) -> dict[str, int]:
        """How many rows were rejected since the beginning, by reason."""
        return dict(self._rejects.counts)

    @property
    def update_counts(self) -> dict[str, int]:
        """How many rows of update streams had a new key, replaced a row, deleted one, or would have deleted one of a
        key that wasn't known."""
        counts = dict.fromkeys(COUNTED, 0)
        for stream in self.streams.values():
            if stream.updates is not None:
                for name, count in stream.updates.counted().items():
                    counts[name] += count
        return counts

    @property
    def timed(self) -> bool:
        """Whether some stream has event times."""
        return bool(self.time) or any(stream.time is not None for stream in self.streams.values())

    def _time_type(self) -> tuple[clock.Kind | None, pa.DataType]:
        """The kind and type of the time column in change tables: wide enough for every stream's."""
        streams = [(stream, stream.schema) for stream in self.streams.values()]
        if self._times[0] != streams:
            self._times = streams, self._common_time()
        return self._times[1]

    def _common_time(self) -> tuple[clock.Kind | None, pa.DataType]:
        if not self.timed:
            return TIMELESS
        timed = [(s.time, s.schema) for s in self.streams.values() if s.time is not None]
        types = [s.field(time).type for time, s in timed if s is not None and known_type(s, time)]
        if not types:
            return TIMELESS
        units = {stream.unit for stream in self.streams.values() if stream.time is not None}
        return self._kind, clock.common_type(types, several_units=len(units) > 1)

    # -- keeping -------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file."""
        blob.write(path, self.dump())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Monitor:
        """Continue from a file that `save` wrote, as if nothing had happened."""
        return cls._restore(blob.read(path))

    def to_bytes(self) -> bytes:
        return blob.to_bytes(self.dump())

    @classmethod
    def from_bytes(cls, data: bytes) -> Monitor:
        return cls._restore(blob.from_bytes(data))

    def __reduce__(self) -> tuple[Any, ...]:
        """`pickle` and `copy` go the way of `save`: what arrays share with one another wouldn't survive otherwise."""
        return type(self).from_bytes, (self.to_bytes(),)

    def dump(self) -> dict[str, Any]:
        """All state as plain data, arrays and tables."""
        return saving.dump(self)

    def options(self) -> dict[str, Any]:
        """What it was made with, as `dump` has it."""
        return saving.options(self)

    def _fill(self, content: dict[str, Any]) -> None:
        """Continue from what `dump` gave."""
        saving.fill(self, content)

    @classmethod
    def _restore(cls, content: dict[str, Any]) -> Monitor:
        monitor = cls()
        monitor._fill(content)
        return monitor

    def close(self) -> None:
        """Let go of the journal's folder; without a journal there is nothing to do."""
        if self.journal is not None:
            self.journal.close()

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        named = [f'"{name}"' for name in self.streams if name]
        of = f" of {', '.join(named)}" if named else ""
        return f"<monitor: {self.rows_seen:,} rows{of}; watches: {', '.join(self.watches) or 'none'}>"

    def _check(self) -> None:
        """Every invariant; tests call it after each step."""
        for stream in (*self.streams.values(), *self.joints.values()):
            stream._check()
        # names, watches and streams agree
        for name, watch in self.watches.items():
            assert watch.name == name and watch in watch._stream.watches


def _joined(arrays: list[Any]) -> Any:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _moved(places: Any, base: int) -> Any:
    """Places among a part's rows as seqs; of millions of rows in a row without an array."""
    return range(base, base + len(places)) if isinstance(places, range) else base + places


def _one_table(tables: list[pa.Table]) -> pa.Table:
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)


def _of(columns: str | Mapping[str, str] | None, stream: str) -> str | None:
    """The column of one stream, where one name is every stream's."""
    return columns.get(stream) if isinstance(columns, Mapping) else columns


def _by_stream(given: Any, read: Callable[[Any], Any]) -> Any:
    """An option that may be given for each stream by name, read."""
    if isinstance(given, Mapping):
        return {name: read(value) for name, value in given.items()} or None
    return None if given is None else read(given)


def _units(given: Any) -> clock.Kind | dict[str, clock.Kind] | None:
    """time_unit= as it may be given."""
    found: clock.Kind | dict[str, clock.Kind] | None = _by_stream(given, clock.unit_of)
    return found


def _special_columns(time: Any, key: Any, op: Any) -> list[Any]:
    """time=, key= and op= as they may be given."""
    for name, value in (("time", time), ("key", key), ("op", op)):
        names = list(value.values()) if isinstance(value, Mapping) else [value]
        if not all(column is None or (isinstance(column, str) and column) for column in names):
            raise InputError(
                f"{name}= must be the name of a column, or one for each stream by name, not {value!r}."
            )
    keyless = [*(set(op) - set(key))] if isinstance(op, Mapping) and isinstance(key, Mapping) else []
    if keyless or (op is not None and key is None):
        of = f' of stream "{keyless[0]}"' if keyless else ""
        raise InputError(f"op={of} needs key= too: the column that tells which row is updated or deleted.")
    return [dict(value) if isinstance(value, Mapping) else value for value in (time, key, op)]
