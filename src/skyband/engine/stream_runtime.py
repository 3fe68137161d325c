"""One stream of a monitor: its schema, its windows, its families of watches and the rows kept for them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.compiling import background
from skyband.core.errors import InputError, QueryError
from skyband.core.exchange import Changes
from skyband.core.types import LOWEST, Ints, Recency
from skyband.engine import stand_in
from skyband.engine.families import check_query, kind_of
from skyband.engine.plan import Plan
from skyband.engine.planner import ASSUMED_WINDOW, STAND_IN, Choice, Facts, choose
from skyband.engine.protocol import NONE_DELETED, Deleted, Family, Host, Step
from skyband.engine.replanning import Review
from skyband.engine.row_group import Group
from skyband.engine.watch import Watch
from skyband.query.column_kinds import named_columns
from skyband.query.expression import conjuncts, lift, unknown_column
from skyband.query.expression.score_space import text_limit
from skyband.query.model import Last, Query, Rows, Threshold, TopK, Window
from skyband.query.suggestions import located
from skyband.stream import clock
from skyband.stream.arrow import numbers_array
from skyband.stream.batches import Batch, flat
from skyband.stream.history import Retained
from skyband.stream.payloads import Kept, copied, taken
from skyband.stream.row import Row
from skyband.stream.row_rate import Tally
from skyband.stream.schema import Raw, columns
from skyband.stream.text_numbers import TextNumbers
from skyband.stream.updates import DATA, Codes, Updates, must_be_key, must_be_op
from skyband.stream.validation import Door
from skyband.stream.waiting import Waiting
from skyband.stream.widening import Seen
from skyband.stream.windows import Horizons, Recencies, Runs, by_recency

Columns = tuple[str | None, pa.Schema | None, str | None, str | None, clock.Kind | None]
"""A stream's time column, schema, key, operation and unit of time."""
LEAST_PART = 64  # of a time window that rows must have come for before they show how many it holds


@dataclass
class Fellows:
    """Watches of one shape: how many, their greatest k so far, and how many have each predicate and score."""

    count: int = 0
    k: int = 0
    predicates: Counter[Any] = field(default_factory=Counter)
    scores: Counter[Any] = field(default_factory=Counter)


class Stream:
    """What a monitor knows of one stream."""

    def __init__(
        self,
        monitor: Host,
        name: str,
        time: str | None,
        schema: pa.Schema | None,
        key: str | None = None,
        op: str | None = None,
        unit: clock.Kind | None = None,
    ) -> None:
        self.monitor = monitor
        self.name = name
        self.time = time
        self.unit = unit  # of a time column of numbers, if it was given
        self._schema: pa.Schema | None = None
        self.names: set[str] = set()
        self.unknown_types = False
        self.declared: frozenset[str] = frozenset() if schema is None else frozenset(schema.names)
        self.seen = Seen()  # decides which types may widen
        self.narrow: dict[
            str, pa.DataType
        ] = {}  # first types of columns that widened while they were watched
        self.schema = schema
        self.pushed = False
        self.named = False  # it has rows or settings: its name means no other stream
        self.groups: list[Family] = []
        self._families: dict[Any, Family] = {}  # the groups by their keys
        self.batch_rows: float | None = None  # of the first batch; later the mean of some
        self.review = Review(self)
        self.watches: list[Watch] = []
        self._windows: Counter[Window] = Counter()  # how many watches have each
        self._shapes: dict[Any, Fellows] = {}
        self._edges: tuple[Any, Any, dict[Window, Recency]] = (None, None, {})  # where time windows begin now
        self._latest: dict[Window, Recency] | None = None  # the latest beginning of each one's watches
        self.updates = None if key is None else Updates(key, op)
        self._forget_rows()
        self.row_limit = monitor.retain.n if isinstance(monitor.retain, Rows) else 0

    def _forget_rows(self) -> None:
        """As if no row had come."""
        self.kept = Kept()
        self.retained = Retained()
        self.recencies: Runs | Recencies = Runs() if self.time is None else Recencies()
        self.tally = Tally()
        if self.updates is not None:
            self.updates = Updates(self.updates.key, self.updates.op)
        self.accepted = 0
        self.latest: int | None = None  # the latest time of a row
        self.waiting = Waiting()
        self.ahead_steps = 0  # by rules before rows could wait
        # numbers for the texts that columns are compared with; None: its families were saved before there were any
        self.texts: TextNumbers | None = TextNumbers(self.monitor.retain is not None)

    def restart(self) -> None:
        """Begin again without rows, with the same schema and watches; what members of a join retain stays."""
        self._forget_rows()
        self.groups, self._families = [], {}
        for watch in self.watches:
            watch.beginning, watch.growing = self.beginning(), []
            self._join(watch)
        self._changed()
        for watch in self.watches:
            self.refill(watch)

    # -- schema --------------------------------------------------------------------------------------------

    @property
    def schema(self) -> pa.Schema | None:
        return self._schema

    @schema.setter
    def schema(self, schema: pa.Schema | None) -> None:
        self._schema = schema
        self._door: Door | None = None
        self.names = set(schema.names) if schema is not None else set()
        self._wanted: set[str] | None = None  # columns that some watch selects
        self._named_columns: frozenset[str] | None = None
        self.forget_plan()
        self.unknown_types = schema is not None and any(pa.types.is_null(field.type) for field in schema)

    def forget_plan(self) -> None:
        """Schema, watches or settings change: what was prepared for steps no longer serves."""
        self._plan: Plan | None = None

    def prepared(self) -> Plan:
        """Return what steps need that depends on schema and watches alone."""
        if self._plan is None:
            self._plan = Plan(self.monitor, self)
        return self._plan

    def readable(self, schema: pa.Schema, raw: Raw) -> pa.Schema:
        """An inferred schema, with a time column of ISO text read as timestamps; operations are always texts."""
        op = None if self.updates is None else self.updates.op
        if op in schema.names and pa.types.is_null(schema.field(op).type):
            schema = schema.set(schema.get_field_index(op), pa.field(op, pa.string()))
        if self.time is None or self.time not in schema.names:
            return schema
        if schema.field(self.time).type not in (pa.string(), pa.large_string()):
            return schema
        first = next((v for v in _values(columns(raw)[self.time]) if v is not None), None)
        for type_ in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
            try:
                pc.cast(pa.array([first], pa.string()), type_)
            except pa.ArrowInvalid:
                continue
            return schema.set(schema.get_field_index(self.time), pa.field(self.time, type_))
        return schema

    def fixed(self) -> set[str]:
        """The columns that keep their type: declared ones, and keys."""
        found = set(self.declared).union(*(joint.keys() for joint in self.joints()))
        if self.updates is not None:
            found |= {self.updates.key, *([] if self.updates.op is None else [self.updates.op])}
        return found.union(*(kind_of(watch.query).keys(watch.query) for watch in self.watches))

    def named_columns(self) -> frozenset[str]:
        """The columns that queries name, and those of times, keys and operations."""
        if self._named_columns is None:
            own = {self.time, *(() if self.updates is None else (self.updates.key, self.updates.op))}
            queries = [w.query for stream in (self, *self.joints()) for w in stream.watches]
            self._named_columns = frozenset(
                own.union(*(named_columns(query, self.name) for query in queries))
            ) - {None}
        return self._named_columns

    def note(self, table: pa.Table) -> None:
        """Rows were accepted: their values decide how far types may widen."""
        assert self._schema is not None
        self.seen.note(table, self._schema, self.declared)

    def check_families(self) -> None:
        """An error if what a family keeps can't be had in the schema's types."""
        for group in self.groups if self.schema is not None else ():
            group.cast_to(self.schema)

    def carry(self, before: pa.Schema | None) -> None:
        """Columns have other types than before: what is kept of them gets these, too."""
        schema = self.schema
        if before is None or schema is None:
            return
        known = [f for f in before if schema.field(f.name).type != f.type]
        if self.groups:
            self.narrow = {f.name: f.type for f in known} | self.narrow
        known = [f for f in known if not pa.types.is_null(f.type)]
        if not known:
            return
        types = {f.name: schema.field(f.name).type for f in known}
        self.kept.cast(types)
        self.retained.cast(types)
        self.waiting.cast(types)
        for group in self.groups:
            group.cast(schema)
        for f in known:
            self.seen.changed(f.name, f.type, types[f.name])

    def check_updates(self) -> None:
        """Whether the stream has the columns of an update stream, in types that fit."""
        if self.updates is None or self.schema is None:
            return
        for name, must_be in ((self.updates.key, must_be_key), (self.updates.op, must_be_op)):
            if name is not None:
                if name not in self.names:
                    raise InputError(str(unknown_column(name, self.schema.names)))
                must_be(name, self.schema.field(name).type)

    def check(self, query: Query) -> None:
        """Whether the stream has the query's columns, in types that fit; a type not known yet fits."""
        check_query(query, self.schema, self.updates is not None)
        then = query.then if isinstance(query, TopK) else None
        if then is not None and then.name != self.time:
            raise QueryError(
                located(
                    "The second column of ORDER BY can only be the time column, since recency decides between equal "
                    f"scores, and {then.name} is not; remove it",
                    then.place,
                )
            )

    def allow(self, window: Window) -> None:
        if self.time is None and not isinstance(window, Rows):
            raise QueryError(
                f"A window of {window} needs event times: name its column of times (time=), or watch a number of rows."
            )

    def must_know(self, window: Rows, beginning: Recency) -> None:
        """Which rows from `beginning` on are the last n must be known: with event times that takes their recencies."""
        log = self.recencies
        self._recall(window.n)
        if isinstance(log, Recencies) and len(log) < window.n and log.complete_from > beginning:
            raise QueryError(
                f"Which rows are the last {window.n} is known only where a watch of this stream has had a row window "
                f"at least as long: ask for a time window, or make a new watch over {window}."
            )

    def door(self) -> Door:
        """Without event times it is the same at every step."""
        if self.time is None and self._door is not None and self._door.stream == self.name:
            return self._door
        monitor = self.monitor
        self._door = Door(
            stream=self.name,
            schema=self.schema,
            time=self.time,
            kind=(self.unit or monitor._kind) if self.time is not None else None,
            late_before=self._late_before(),
            key=None if self.updates is None else self.updates.key,
            op=None if self.updates is None else self.updates.op,
        )
        return self._door

    def joints(self) -> list[Any]:
        """The joined streams with this one among them that somebody watches."""
        return [j for j in self.monitor.joints.values() if self.name in j.members and j.watches]

    def _late_before(self) -> int | None:
        """Rows stamped before this are older than every window and than what is retained."""
        joints = self.joints()
        if not (self.watches or joints) or self.time is None:
            return None
        if self._latest is None:
            self._latest = {}
            for watch in self.watches:
                before = self._latest.get(watch.window, LOWEST)
                self._latest[watch.window] = max(before, watch.beginning)
        needed = [self._full_from(window, begun) for window, begun in self._latest.items()]
        oldest = min([*needed, *(joint.oldest_needed() for joint in joints)])
        if self.monitor.retain is not None:
            oldest = min(oldest, self.horizon(self.monitor.retain))
        # a new row of the horizon's very time is newer than the row at the horizon: only the time decides
        return None if oldest == LOWEST else oldest.time

    def _full_from(self, window: Window, begun: Recency) -> Recency:
        """Where a window begins; a row window that isn't full since its watch's beginning takes any row."""
        horizon = self.horizon(window)
        return LOWEST if isinstance(window, Rows) and horizon < begun else horizon

    # -- windows -------------------------------------------------------------------------------------------

    def horizon(self, window: Window) -> Recency:
        """Where a window begins now."""
        if isinstance(window, Rows):
            return self.recencies.horizon(window.n)
        now, kind = self.monitor._now, self.monitor._kind
        if now is None or kind is None:
            return LOWEST
        if self._edges[:2] != (now, kind):
            self._edges = now, kind, {}
        found = self._edges[2].get(window)
        if found is None:
            edge = Recency(clock.minus(now, window.nanoseconds, kind), LOWEST.seq)
            found = self._edges[2][window] = edge
        return found

    def newest(self) -> Recency:
        return self.recencies.newest()

    @property
    def max_ahead(self) -> Last | None:
        """How far ahead of the latest time a row may be stamped."""
        return self.monitor.max_ahead_of(self.name)

    def latest_time(self) -> Any:
        """The latest time of a row, as its column has it; None without one."""
        kind = self.unit or self.monitor._kind
        return None if self.latest is None or kind is None else clock.value_of(self.latest, kind)

    def latest_seconds(self) -> float | None:
        """The same as seconds since 1970."""
        if self.latest is None or self.monitor._kind is None:
            return None
        return clock.number_of(self.latest) if self.monitor._kind == "number" else self.latest / 1e9

    def known_from(self) -> Recency:
        """All rows from here on are known: the retained ones, or only those yet to come."""
        if self.monitor.retain is not None:
            return self.horizon(self.monitor.retain)
        newest = self.newest()
        return LOWEST if newest == LOWEST else newest.after()

    def beginning(self) -> Recency:
        """Where a new watch begins: with the oldest retained row, or after the newest row."""
        if self.monitor.retain is not None:
            start = self.retained.start(self.horizon(self.monitor.retain))
            if start is not None:
                return start
        newest = self.newest()
        return LOWEST if newest == LOWEST else newest.after()

    def watch_windows(self) -> None:
        """A watch has another window: count them again."""
        self.review.cancel()
        self._windows = Counter(watch.window for watch in self.watches)
        self._changed()

    def _changed(self) -> None:
        """Watches came, went or changed: which columns they need, how many recencies the row windows need."""
        self._wanted = None
        self._named_columns = None
        self._latest = None
        self.forget_plan()
        windows = [*self._windows]
        if self.monitor.retain is not None:
            windows.append(self.monitor.retain)
        self.row_limit = max((window.n for window in windows if isinstance(window, Rows)), default=0)
        self._recall(self.row_limit)

    def _recall(self, rows: int) -> None:
        """Retained rows may know more of the past than the row windows have needed so far."""
        log, retain = self.recencies, self.monitor.retain
        if isinstance(log, Recencies) and len(log) < rows and retain:
            start = self.horizon(retain)
            time, seq = self.retained.recencies(start)
            if len(seq) > len(log):
                log.begin_with(time, seq)
            log.complete_from = min(log.complete_from, start)

    def count(self, time: Ints, seq: Ints, total: int, in_order: bool = False) -> None:
        """Rows were accepted (in order of arrival): windows move. in_order: it is known that their times are."""
        self.accepted += total
        for joint in self.monitor.joints.values():
            if self.name in joint.members:
                joint.collect(time, seq, total)
        if len(time) != total or self.time is None or total == 1:  # of pruned rows the newest is known
            self.tally.add(int(time.max()) if self.time is not None and len(time) else 0, total)
        if not len(seq):
            return
        if isinstance(self.recencies, Runs):
            self.recencies.add(time, seq)
        else:
            newest = None
            if not in_order and len(time) > 1 and np.any(time[1:] < time[:-1]):
                if self.row_limit:
                    order = by_recency(time, seq)
                    time, seq = time[order], seq[order]
                else:
                    newest = len(time) - 1 - int(np.argmax(time[::-1]))
            if len(seq) == total > 1:
                self.tally.add_all(time)
            if newest is not None:  # without row windows only the newest row counts
                time, seq = time[newest : newest + 1], seq[newest : newest + 1]
            self.recencies.add(time, seq, self.row_limit)
        self.recencies.trim(self.row_limit)

    def count_one(self, time: int, seq: int) -> None:
        """One row was accepted, in a stream that is in no join."""
        self.accepted += 1
        self.tally.add(time, 1)
        self.recencies.add_one(time, seq, self.row_limit)

    def update(
        self, table: pa.Table, seq: Ints, time: Ints, codes: Codes
    ) -> tuple[Batch | None, tuple[Ints, Ints]]:
        """Rows of an update stream, deletes among them, in order of arrival: those that are live after this step, and
        the recencies of earlier rows that are not any more."""
        assert self.updates is not None
        keys = flat(table.column(self.updates.key))
        live, gone_time, gone_seq = self.updates.apply(keys, codes, time, seq, self._floor())
        rows = np.flatnonzero(codes == DATA)
        if len(rows) < len(codes):
            table, seq, time = table.take(numbers_array(rows)), seq[rows], time[rows]
        self.count(time, seq, len(seq))
        self._retain(table, seq, time)
        if self.monitor.retain is not None:
            self.retained.end(gone_seq)
            self.retained.end(seq[:0] if live is None else seq[~live])
        if live is not None:
            rows = np.flatnonzero(live)
            table, seq, time = table.take(numbers_array(rows)), seq[rows], time[rows]
        batch = Batch(table, seq, time, timed=self.time is not None) if len(seq) else None
        return batch, (gone_time, gone_seq)

    def _floor(self) -> Recency:
        """No row before it is in a window or retained."""
        windows = [*self._windows]
        if self.monitor.retain is not None:
            windows.append(self.monitor.retain)
        newest = self.newest()
        nothing = LOWEST if newest == LOWEST else newest.after()
        needed = [self.horizon(window) for window in windows]
        return min([*needed, *(joint.oldest_needed() for joint in self.joints())], default=nothing)

    def _retain(self, table: pa.Table, seq: Ints, time: Ints) -> None:
        """Put a step's rows aside for watches yet to come; a copy, for the caller may use its memory again."""
        if self.monitor.retain is not None and len(seq):
            self.retained.add(table.take(numbers_array(np.arange(len(seq)))), seq, time)
            self.retained.expire(self.horizon(self.monitor.retain))

    def rows_in(self, window: Window, beginning: Recency) -> int | None:
        """How many rows a watch's window holds; of a long time window about how many."""
        start = max(self.horizon(window), beginning)
        return self.recencies.since(start) if isinstance(window, Rows) else self.tally.since(start.time)

    def words(self, recency: Recency) -> str:
        """A recency as a person reads it."""
        if self.time is None or self.monitor._kind is None or recency.time == LOWEST.time:
            return f"row {recency.seq}"
        return str(clock.value_of(recency.time, self.monitor._kind))

    def also_kept(self) -> dict[str, int]:
        found = {"selected columns of the candidates, for all watches of the stream": self.kept.bytes()}
        if self.row_limit and isinstance(self.recencies, Recencies):
            found["recencies of the newest rows, for all row windows of the stream"] = self.recencies.bytes()
        if self.updates is not None:
            found[f"the live row of each of {self.updates.known():,} keys"] = self.updates.bytes()
        if len(self.waiting):
            found[f"{len(self.waiting):,} rows that wait, stamped far ahead"] = self.waiting.bytes()
        if self.monitor.retain is not None:
            found[f"retained rows ({self.monitor.retain})"] = self.retained.bytes()
        return found

    # -- watches -------------------------------------------------------------------------------------------

    def attach(self, watch: Watch) -> None:
        self.review.cancel()
        self._join(watch)
        self.watches.append(watch)
        self._count_shape(watch, 1)
        self._windows[watch.window] += 1
        self._changed()
        self.refill(watch)

    def _join(self, watch: Watch) -> None:
        """Put a watch into the family of its query and algorithm."""
        choice = self._at_once(watch)
        key, is_there = self.family_of(watch.query, choice)
        if is_there:
            group = self._families[key]
        else:
            group = self.made(watch.query, choice.algorithm, choice.options)
            self.groups.append(group)
            self._families[key] = group
            group.patient = stand_in.is_patient(self, watch.query, choice)
        with stand_in.meanwhile(group):
            group.attach(watch)

    def _at_once(self, watch: Watch) -> Choice:
        """The watch's choice, or the algorithm that stands in until its compiled code is there."""
        instead = replace(watch.choice, algorithm=STAND_IN, options={})
        if not stand_in.can_wait(self, watch.query) or self.family_of(watch.query, watch.choice)[1]:
            return watch.choice
        if self.family_of(watch.query, instead)[1] or not background.is_ready(
            self.plan_of(watch.query, watch.choice)
        ):
            return instead
        return watch.choice

    def plan_of(self, query: Query, choice: Choice) -> str:
        """Return the key of the compiled code that a query needs."""
        return stand_in.plan_of(self, query, choice, self._shapes.get(_shape(query), Fellows()).count)

    def made(self, query: Query, algorithm: str, options: dict[str, float]) -> Family:
        """An empty family for queries of this shape."""
        group = kind_of(query).make(query, algorithm, options, self)
        group.timed = self.time is not None
        return group

    def replace(self, old: Family, new: list[Group]) -> None:
        """Families take the place of another one, or come beside it where that still has watches."""
        at = self.groups.index(old)
        self.groups[at : at + (not old.watches)] = new
        if not old.watches:
            self._forget_family(old)
        self._families |= {group.key: group for group in new}
        self.monitor._report.forget()
        self._changed()

    def _forget_family(self, group: Family) -> None:
        """No query joins a family any more. Another one of its key may have come from a stand-in."""
        if self._families.get(group.key) is group:
            del self._families[group.key]

    def family_of(self, query: Query, choice: Choice) -> tuple[Any, bool]:
        """The key of the family that a query with an algorithm belongs to, and whether there is one."""
        key = kind_of(query).key(query, choice.algorithm, choice.options, self)
        return key, key in self._families

    def plan(self, rows: int) -> None:
        """The first rows come: choose algorithms with all that is known now, and put the watches into families anew."""
        self._families = {}
        self.groups = []
        self.batch_rows = float(rows)
        for watch in self.watches:
            watch.choice = choose(watch.query, self.facts(watch.query, watched=True))
            self._join(watch)
        self.review.request()

    def facts(self, query: Query, watched: bool = False) -> Facts:
        """What the planner should know of a query, which may be one that is being watched."""
        fellows = self._shapes.get(_shape(query), Fellows())
        return Facts(
            queries=fellows.count + (not watched),
            predicates=len(fellows.predicates | {query.where: 1}),
            scores=len(fellows.scores | {lift(query.score)[1]: 1}),
            k=max(fellows.k, (None if isinstance(query, Threshold) else query.k) or 1),
            window=self.full_rows(query.window),
            batch=self.batch_rows,
            lists_only=self.monitor.lists_only,
            updates=self.has_updates(),
        )

    def full_rows(self, window: Window) -> float | None:
        """About how many rows a window holds once it is full; None where no row has shown it."""
        if isinstance(window, Rows):
            return window.n
        now, kind = self.monitor._now, self.monitor._kind
        if not len(self.tally) or now is None or kind is None:
            return None
        before = self.tally.before(self.horizon(window).time)
        first = int(self.tally.time[0]) if before is None else before
        seen = self.tally.since(first if before is None else before + 1)
        passed = clock.between(first, now, kind)
        if passed * LEAST_PART < window.nanoseconds:  # too little of it to tell
            return max(seen, ASSUMED_WINDOW)
        return seen * window.nanoseconds / passed

    def has_updates(self) -> bool:
        """Whether rows are replaced and deleted."""
        return self.updates is not None

    def _count_shape(self, watch: Watch, by: int, alike: Fellows | None = None) -> None:
        query = watch.query
        fellows = alike or self._shapes.setdefault(_shape(query), Fellows())
        fellows.count += by
        fellows.k = max(fellows.k, watch.capacity)
        for counted, one in ((fellows.predicates, query.where), (fellows.scores, lift(query.score)[1])):
            counted[one] += by
            if not counted[one]:
                del counted[one]
        if not fellows.count:
            del self._shapes[_shape(query)]

    def fits(self, column: str, exact: bool) -> bool:
        """Whether comparing this column with a number through float64 is exact; `exact`: the number is a float64.

        A column that widened is judged by its first type: families that were planned by it stay as they are.
        """
        if self.schema is None or column not in self.names:
            return False
        type_ = self.narrow.get(column) or self.schema.field(column).type
        if pa.types.is_floating(type_):
            return True
        return exact and pa.types.is_integer(type_) and type_.bit_width <= 32

    def number_of(self, column: str, text: str) -> float | None:
        """Return the number that stands for a text in this column; None where it has no texts."""
        if self.schema is None or column not in self.names or self.texts is None:
            return None
        type_ = self.narrow.get(column) or self.schema.field(column).type
        if not (pa.types.is_string(type_) or pa.types.is_large_string(type_)):
            return None
        return self.texts.number(column, text)

    def _named_texts(self) -> set[tuple[str, str]]:
        """The columns and texts that queries compare."""
        terms = (term for watch in self.watches for term in conjuncts(getattr(watch.query, "where", None)))
        return {text for term in terms if (text := text_limit(term)) is not None}

    def epoch_of(self, column: str, text: str) -> int:
        """Return since when the number stands for the text."""
        return 0 if self.texts is None else self.texts.epoch(column, text)

    def is_double(self, column: str) -> bool:
        return (
            self.schema is not None
            and column in self.names
            and pa.types.is_float64(self.schema.field(column).type)
        )

    def detach(self, watch: Watch) -> None:
        self.review.cancel()
        watch.group.detach(watch)
        self.watches.remove(watch)
        self._count_shape(watch, -1)
        self._windows[watch.window] -= 1
        if not self._windows[watch.window]:
            del self._windows[watch.window]
        if not watch.group.watches:
            self.groups.remove(watch.group)
            self._forget_family(watch.group)
        if self.texts is not None:
            self.texts.keep(self._named_texts)
        self._changed()

    def refill(self, watch: Watch) -> None:
        """Bring a watch's slot up to what the retained rows know."""
        retain = self.monitor.retain
        batch = None if retain is None else self.retained.batch(self.horizon(retain))
        if batch is None:
            return
        batch.texts = self.texts
        taken = watch.group.refill(watch.slot, batch)
        columns = self._columns(batch.table)
        if not columns:
            return  # nothing to put aside: rows without columns would be found again by nobody
        rows = np.flatnonzero(np.isin(batch.seq_arrived, taken))
        order = rows[np.argsort(batch.seq_arrived[rows])]
        table = batch.table.select(columns).take(numbers_array(order))
        self.kept.replace(batch.seq_arrived[order], table, self.newest())

    def _columns(self, table: pa.Table) -> list[str]:
        """The columns of a table that some watch selects and no index has."""
        wanted = self.wanted()
        return [name for name in table.column_names if name in wanted] if wanted else []

    def wanted(self) -> set[str]:
        """The columns that some watch selects and no index has."""
        if self._wanted is None:
            self._wanted = set().union(*(watch.needs() - watch.provided() for watch in self.watches))
        return self._wanted

    # -- a step --------------------------------------------------------------------------------------------

    def step(self, batch: Batch | None, deleted: Deleted = NONE_DELETED) -> list[tuple[Family, Changes]]:
        """Show a step's rows (and which rows it deletes) to each family; what changed, family by family."""
        if batch is not None:
            batch.texts = self.texts
        if batch is not None and self.updates is None and self.monitor.retain is not None:
            self._retain(batch.table, batch.seq_arrived, batch.time_arrived)
        if not self.watches:
            return []
        if batch is not None:
            self.review.look()
        mark = np.zeros(0 if batch is None else len(batch), dtype=np.uint8)
        arrived = () if batch is None else ((0, batch),)
        step = Step(arrived, mark, Horizons(self.horizon, self.recencies), deleted)
        found = self._run(step)
        self.review.step(step)
        if batch is not None:
            self._keep(batch, mark)
        if self.windowed and self.kept.rows:
            oldest = min(group.oldest for group in self.groups)
            self.kept.expire(oldest)
        return found

    def _run(self, step: Step) -> list[tuple[Family, Changes]]:
        """One step of every family: those whose answers changed, with what changed."""
        found = [(group, self._step_of(group, step)) for group in self.groups]
        return [(group, changes) for group, changes in found if changes is not None]

    @staticmethod
    def _step_of(group: Family, step: Step) -> Changes | None:
        if not group.patient:
            return group.step(step)
        with stand_in.meanwhile(group):
            return group.step(step)

    @property
    def windowed(self) -> bool:
        """Whether some family keeps the window's rows: then kept rows go by the window."""
        return self.review.windowed or any([group.windowed for group in self.groups])

    def _keep(self, batch: Batch, mark: Any) -> None:
        """Put the selected columns of the rows aside that somebody took; a copy, for the caller may use the batch's
        memory again."""
        if isinstance(batch, Row):
            self._keep_row(batch, mark)
            return
        columns = self._columns(batch.table)
        count = int(np.count_nonzero(mark)) if columns else 0
        if not count:
            return
        picked = self.kept.schema(batch.table, columns)
        newest = Recency(int(batch.time_arrived.max()) if self.time else 0, int(batch.seq_arrived[-1]))
        if count == len(mark):
            self.kept.add(batch.seq_arrived, copied(batch.table, picked), newest)
        else:
            rows = batch.arrived(mark)
            self.kept.add(batch.seq_arrived[rows], taken(batch.table, picked, rows), newest)
        self._clear_kept()

    def _clear_kept(self) -> None:
        """Forget rows that are candidates no more, if they have become many."""
        if self.kept.full and not self.windowed:
            groups = [*self.groups, *self.review.groups()]
            self.kept.clear(np.concatenate([group.live_seqs() for group in groups]))

    def _keep_row(self, row: Row, mark: Any) -> None:
        """Put the selected columns of a row aside."""
        schema, places = self.prepared().kept_columns()
        if places and mark[0]:
            values = tuple([row.values[place] for place in places])
            self.kept.add_row(int(row.seq_arrived[0]), int(row.time_arrived[0]), values, schema)
            self._clear_kept()

    # -- keeping -------------------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        retain = self.monitor.retain
        return {
            "name": self.name,
            "time": self.time,
            "time_unit": self.unit,
            "key": None if self.updates is None else self.updates.key,
            "op": None if self.updates is None else self.updates.op,
            "updates": None if self.updates is None else self.updates.dump(),
            "schema": None if self.schema is None else self.schema.empty_table(),
            "declared": sorted(self.declared),
            "seen": self.seen.dump(),
            "narrow": None if not self.narrow else pa.schema([*self.narrow.items()]).empty_table(),
            "pushed": self.pushed,
            "named": self.named,
            "accepted": self.accepted,
            "latest": self.latest,
            "ahead_steps": self.ahead_steps,
            "waiting": self.waiting.dump(),
            "row_limit": self.row_limit,
            "kept": self.kept.dump(),
            "retained": {} if retain is None else self.retained.dump(self.horizon(retain)),
            "recencies": self.recencies.dump(),
            "tally": self.tally.dump(),
            "review": self.review.dump(),
            "texts": None if self.texts is None else self.texts.dump(),
            "groups": [
                {"algorithm": group.algorithm_name, "options": dict(group.options), "state": group.dump()}
                for group in self.groups
            ],
        }

    def load(self, content: dict[str, Any]) -> None:
        self.schema = None if content["schema"] is None else content["schema"].schema
        self.pushed, self.accepted = content["pushed"], content["accepted"]
        self.named = content.get("named", self.pushed)
        self.ahead_steps, self.row_limit = content["ahead_steps"], content["row_limit"]
        for name in ("kept", "retained", "recencies", "tally"):
            getattr(self, name).load(content[name])
        newest = self.recencies.newest()
        self.waiting.load(content.get("waiting", {}))
        self.latest = content.get("latest", None if self.time is None or newest == LOWEST else newest.time)
        if self.updates is not None:
            self.updates.load(content["updates"])
        self.review.load(content.get("review", {}))
        if content.get("texts") is None:
            self.texts = None
        else:
            assert self.texts is not None
            self.texts.load(content["texts"])
        self._load_types(content)
        self._parts = content["groups"]

    def _load_types(self, content: dict[str, Any]) -> None:
        """What decides which types may widen. Older files don't say: any value may have been accepted."""
        narrow = content.get("narrow")
        self.narrow = {} if narrow is None else {f.name: f.type for f in narrow.schema}
        if "seen" in content:
            self.declared = frozenset(content["declared"])
            self.seen.load(content["seen"])
            return
        given = self.monitor.declared(self.name)
        self.declared = frozenset() if given is None else frozenset(given.names)
        if self.schema is not None and self.accepted:
            self.seen.suspect(self.schema)

    def load_group(self, number: int, watches: list[Watch], slots: list[int]) -> None:
        """Groups are loaded in their order, each with its watches."""
        part = self._parts[number]
        group = self.made(watches[0].query, part["algorithm"], part["options"])
        group.load(part["state"], watches, slots)
        self.groups.append(group)
        self._families[group.key] = group
        self.watches.extend(watches)
        alike = self._shapes.setdefault(_shape(watches[0].query), Fellows())  # a family is of one shape
        for watch in watches:
            self._count_shape(watch, 1, alike)
        self._windows.update(watch.window for watch in watches)
        self._changed()

    def _check(self) -> None:
        if self.updates is not None:
            self.updates._check()
        self.waiting._check()
        for group in self.groups:
            group._check()
            # no family without watches is kept
            assert group.watches
        self.review._check()
        # watches are counted by shape
        assert sum(fellows.count for fellows in self._shapes.values()) == len(self.watches)
        # each watch is in one family, and here
        assert sorted(w.name for g in self.groups for w in g.watches) == sorted(w.name for w in self.watches)


def _shape(query: Query) -> Any:
    """Queries of one shape could be one family."""
    return lift(query.score)[0], query.descending, isinstance(query, Threshold)


def _values(column: Any) -> Any:
    for value in column:
        yield value.as_py() if isinstance(value, pa.Scalar) else value
