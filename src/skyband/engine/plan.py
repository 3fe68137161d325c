"""A stream's plan: what its steps need that depends on its schema and watches alone.

It is made when a step needs it, and dropped when the schema, a watch, a setting or a family changes
(`Stream.forget_plan`). One row as a dict of values is the case that shows what a step costs by itself: the plan reads
it by the prepared decoders of `stream/row.py`, judges its time as `stream/validation.py` and `stream/waiting.py` do,
and gives it its seq. A row that is not accepted as it is, or that needs a notice, is read as a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from skyband.core.types import Ints
from skyband.engine.protocol import Host, Streamed
from skyband.query.model import Last
from skyband.stream import clock
from skyband.stream.batches import Batch, flat, no_times
from skyband.stream.row import Reader, Row, key_of, microseconds
from skyband.stream.schema import Raw, readable
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
    def note(self, table: pa.Table) -> None: ...
    def count(self, time: Ints, seq: Ints, total: int, in_order: bool = False) -> None: ...
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
        self._takes_tables = stream.pushed and stream.updates is None and not stream.unknown_types
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
        reader = self.reader
        return None if reader is None else self._row(reader, reader.read(given))

    def _row(self, reader: Reader, values: tuple[Any, ...] | None) -> Row | None:
        """Accept and number a row with these values."""
        stream, monitor = self.stream, self.monitor
        if values is None or self._some_wait():
            return None
        time = 0
        if stream.time is not None:
            key = self._key(values[self._place]) if self._key is not None else None  # type: ignore[index]
            if key is None or not self._is_plain(key, key):
                return None
            time = key
        if self._noted:
            self._note(values)
        seq = monitor._next_seq
        monitor._next_seq = seq + 1
        stream.count_one(time, seq)
        return Row(reader, values, seq, time, stream.time is not None)

    def batch(self, table: Raw) -> Batch | None:
        """Accept and number a table as a whole; None, and nothing done, for one some of whose rows need a look."""
        stream, monitor = self.stream, self.monitor
        schema = stream.schema
        if not (self._takes_tables and isinstance(table, pa.Table) and table.num_rows and schema is not None):
            return None
        if not table.schema.equals(schema) or not readable(table, schema) or self._some_wait():
            return None
        rows = table.num_rows
        if rows == 1 and self.reader is not None:
            row = self._row(self.reader, self.reader.read_table(table))
            if row is not None:
                return row
        keys = None
        if stream.time is not None:
            keys = None if self.kind is None else clock.all_keys(flat(table.column(stream.time)), self.kind)
            if keys is None or not self._is_plain(keys.first, keys.last):
                return None
        stream.note(table)
        base = monitor._next_seq
        monitor._next_seq = base + rows
        seq, time = np.arange(base, base + rows), no_times(rows) if keys is None else keys.time
        in_order = keys is None or keys.in_order
        stream.count(time, seq, rows, in_order)
        return Batch(table, seq, time, timed=keys is not None, in_order=in_order)

    def _some_wait(self) -> bool:
        """Whether rows of some stream wait, stamped far ahead."""
        return any([stream.waiting.all_seq.size for stream in self.monitor.streams.values()])

    def _is_plain(self, first: int, last: int) -> bool:
        """Whether rows with times between these two are all accepted; then now moves."""
        stream, monitor = self.stream, self.monitor
        now, latest, kind = monitor._now, stream.latest, self.kind
        if now is None or latest is None or kind is None or kind != (stream.unit or monitor._kind):
            return False
        if first < now:
            limit = stream._late_before()
            if limit is not None and first < limit:
                return False
        if self._ahead is not None:
            if last > clock.plus(now, self._ahead, kind):
                return False
            stream.waiting.steps = []
        if last > now:
            monitor._now = last
        if last > latest:
            stream.latest = last
        return True

    def _note(self, values: tuple[Any, ...]) -> None:
        """Times were accepted: they decide how far their columns may widen."""
        span = self.stream.seen.span
        for name, place in self._noted:
            if values[place] is not None:
                time = microseconds(values[place])
                low, high = span.get(name, (time, time))
                span[name] = min(low, time), max(high, time)
