"""A stream's plan: what its steps need that depends on its schema and watches alone.

It is made when a step needs it, and dropped when the schema, a watch, a setting or a family changes
(`Stream.forget_plan`). One row as a dict of values is the case that shows what a step costs by itself: the plan reads
it by the prepared decoders of `stream/row.py`, judges its time as `stream/validation.py` and `stream/waiting.py` do,
and gives it its seq. A row that is not accepted as it is, or that needs a notice, is read as a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa

from skyband.engine.protocol import Host, Streamed
from skyband.query.model import Last
from skyband.stream import clock
from skyband.stream.row import Reader, Row, key_of, microseconds
from skyband.stream.waiting import Waiting
from skyband.stream.widening import Seen


class Planned(Streamed, Protocol):
    """What a stream is to its plan."""

    unit: clock.Kind | None
    declared: frozenset[str]
    seen: Seen
    pushed: bool
    updates: Any
    unknown_types: bool
    latest: int | None
    waiting: Waiting

    @property
    def max_ahead(self) -> Last | None: ...
    def wanted(self) -> set[str]: ...
    def count_one(self, time: int, seq: int) -> None: ...
    def _late_before(self) -> int | None: ...


class Plan:
    """What the steps of one stream need, prepared."""

    def __init__(self, monitor: Host, stream: Planned) -> None:
        self.monitor, self.stream = monitor, stream
        self.kind: clock.Kind | None = stream.unit or monitor._kind
        self.reader = self._reader()
        self._place, self._key = None, None
        if self.reader is not None and stream.time is not None and self.kind is not None:
            self._place, self._key = self.reader.places[stream.time], key_of(self.kind)
        self._kept: tuple[pa.Schema, tuple[int, ...]] | None = None
        ahead = stream.max_ahead if stream.time is not None else None
        self._ahead = None if ahead is None else ahead.nanoseconds
        schema: Any = stream.schema
        noted = stream.seen.noted(schema, stream.declared)
        # columns of times whose values decide how far they may widen; integers that the reader takes never do
        self._noted = tuple(
            (n, schema.get_field_index(n)) for n in noted if pa.types.is_timestamp(schema.field(n).type)
        )

    def _reader(self) -> Reader | None:
        """Return what reads rows; None where every row needs what only batches get."""
        stream = self.stream
        if stream.schema is None or not stream.pushed or stream.updates is not None or stream.unknown_types:
            return None
        if any(stream.name in joint.members for joint in self.monitor.joints.values()):
            return None
        return Reader.of(stream.schema)

    def kept_columns(self) -> tuple[pa.Schema, tuple[int, ...]]:
        """Return the columns that are put aside of rows that a family takes, and their places in the schema."""
        if self._kept is None:
            names, schema = self.stream.wanted(), self.stream.schema
            assert schema is not None
            kept = [f for f in schema if f.name in names]
            self._kept = pa.schema(kept), tuple(schema.get_field_index(f.name) for f in kept)
        return self._kept

    def row(self, given: Mapping[str, Any]) -> Row | None:
        """Accept and number a row; None, and nothing done, for one that has to be read as a batch."""
        reader, stream, monitor = self.reader, self.stream, self.monitor
        values = None if reader is None else reader.read(given)
        if values is None:
            return None
        for other in monitor.streams.values():
            if other.waiting.all_seq.size:
                return None
        if stream.time is None:
            time = 0
        else:
            found = self._time(values)
            if found is None:
                return None
            time = found
        if self._noted:
            self._note(values)
        seq = monitor._next_seq
        monitor._next_seq = seq + 1
        stream.count_one(time, seq)
        assert reader is not None
        return Row(reader, values, seq, time, stream.time is not None)

    def _time(self, values: tuple[Any, ...]) -> int | None:
        """Return a row's time, which may have moved now; None for one that is missing, late or ahead."""
        stream, monitor = self.stream, self.monitor
        now, latest, kind = monitor._now, stream.latest, self.kind
        if now is None or latest is None or self._key is None or kind != (stream.unit or monitor._kind):
            return None
        time: int | None = self._key(values[self._place])  # type: ignore[index]
        if time is None:
            return None
        if time < now:
            limit = stream._late_before()
            if limit is not None and time < limit:
                return None
        if self._ahead is not None:
            assert kind is not None
            if time > clock.plus(now, self._ahead, kind):
                return None
            stream.waiting.steps = []
        if time > now:
            monitor._now = time
        if time > latest:
            stream.latest = time
        return time

    def _note(self, values: tuple[Any, ...]) -> None:
        """Times were accepted: they decide how far their columns may widen."""
        span = self.stream.seen.span
        for name, place in self._noted:
            if values[place] is not None:
                time = microseconds(values[place])
                low, high = span.get(name, (time, time))
                span[name] = min(low, time), max(high, time)
