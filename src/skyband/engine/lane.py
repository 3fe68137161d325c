"""The lane: the shortest way of the commonest step.

One stream, one family of watches over an index that keeps the rows itself, and a table in the stream's own types: rows
are accepted or rejected by their times alone, and none has to be sorted or turned. The ordinary way (monitor.py,
stream_state.py, group.py) finds that out step by step, and what Python does between two kernels costs the more the
further they have driven it out of the caches: for ten thousand rows a third of the whole step. Here it is found out
once. A lane does the same as the ordinary way with such a table, in the same order, and nothing else; it serves until
anything about the stream or its watches changes, which it sees by the objects that are made anew then. Where no row
has a time or a null, all columns of the score are doubles, and there is one window, a step is one call.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.algorithms import WindowAlgorithm
from skyband.algorithms.heightmap.whole_step import (
    COUNT,
    DONE,
    EXTENT,
    GONE,
    LEFT,
    LISTS,
    REFUSED,
    RELEASE,
    SEQ,
    SEQ_AT,
    TELL_SIGN,
)
from skyband.algorithms.heightmap.whole_step import (
    NOTHING as NOTHING_LEFT,
)
from skyband.compiling.addresses import Words
from skyband.compiling.array_version import LATEST
from skyband.core.exchange import NOTHING, Changes
from skyband.core.types import Recency
from skyband.engine.change_writer import write_changes
from skyband.engine.protocol import Host
from skyband.engine.report import TIMELESS, Pool, Report
from skyband.engine.row_group import Group
from skyband.engine.stream_runtime import Stream
from skyband.stream.batches import FLOAT64, NO_TIMES, no_times
from skyband.stream.clock import column as column_of
from skyband.stream.clock import stamps
from skyband.stream.schema import readable
from skyband.stream.windows import Horizons, Runs

MOST = 16384  # rows of a step in one call
PARTS = 63  # steps at most that are not tried in one call after some that could not be
FLOATS = np.dtype(np.float64)
_numbers = np.arange(MOST)


class Lane:
    """What a stream's commonest step needs, looked up once."""

    def __init__(self, monitor: Host, report: Report, stream: Stream, group: Group) -> None:
        self.monitor, self.changes, self.stream, self.group = monitor, report, stream, group
        self.arrays = group._arrays  # made anew when a watch comes, goes or changes
        schema: Any = stream.schema
        self.schema = schema
        self.places = [schema.get_field_index(name) for name in group.space.columns]
        self.wanted = stream._wanted
        self.time_type = TIMELESS if stream.time is None else monitor._time_type()
        # "all from": all watches have one window, which has passed all their beginnings
        doubles = {schema.field(name).type.id for name in group.space.columns} == {FLOAT64}
        self.simple = (
            stream.time is None
            and doubles
            and not self.wanted
            and not stream.kept.rows
            and "all from" in self.arrays
        )
        self.in_parts = int(not self.simple)  # so many steps to come are not tried in one call
        self.missed = 0  # so many were not after the last try
        self.rows = group._windows[0].n if self.simple else 0  # type: ignore[union-attr]
        # if it takes all of the columns it looks at each one's type itself, which is quicker than to compare schemas
        whole = self.simple and sorted(self.places) == list(range(len(schema)))
        self.names = list(schema.names) if whole else None
        self.notes_values = bool(stream.seen.noted(schema, stream.declared))
        self.counts = getattr(group.algorithm, "counts_seqs", False)
        self.seq = np.empty(MOST, dtype=np.int64)
        self.seqs = self.seq.view()
        self.seqs.flags.writeable = False
        self.latest: Any = None
        self.pool: Pool | None = None
        self.told: tuple[Any, ...] = ()
        self.before = 0  # changes of the step before
        self.at_hand = getattr(group.algorithm, "at_hand", None) if whole else None
        if self.at_hand is not None:
            self._make_notes()

    def _make_notes(self) -> None:
        """What a step in one call needs."""
        self.alike = self.schema  # of the tables that come
        self.exported = (ctypes.c_int64 * EXTENT)()  # a table as Arrow tells it to C
        self.exported_at = ctypes.addressof(self.exported)
        self.release: Any = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
        self.releases: dict[int, Any] = {}
        self.report = np.zeros(SEQ_AT + 1, dtype=np.int64)
        self.report[TELL_SIGN] = self.group.sign
        self.report[SEQ_AT] = self.report.ctypes.data + 8 * SEQ
        self.columns_at = np.array(self.places, dtype=np.int64)
        self.notes = Words(tuple(GONE.values()))
        self.noted: tuple[Any, ...] = ()
        self.times_at = NO_TIMES.ctypes.data

    @staticmethod
    def of(monitor: Host, report: Report, stream: Stream) -> Lane | None:
        """The lane of a stream that has just made a step the ordinary way; None where there is none."""
        if len(monitor.streams) > 1 or monitor.joints or monitor.retain is not None:
            return None
        if stream.updates is not None or stream.unknown_types or len(stream.groups) != 1:
            return None
        group, schema = stream.groups[0], stream.schema
        if type(group) is not Group or not group.windowed or group.where is not None or group.looked_at:
            return None
        arrays = group._arrays
        if not arrays or len(arrays["growing"]):
            return None
        if type(group.algorithm).present is not WindowAlgorithm.present:
            return None
        count = len(group.algorithm.ks)
        if not count == len(group.watches) == len(group.slots) or not group._in_place():
            return None
        # "wanted": columns that have to be put aside for the answers
        if schema is None or stream._wanted is None or (stream.kept.rows and not stream._wanted):
            return None
        known = all(schema.get_all_field_indices(n) == [schema.get_field_index(n)] for n in schema.names)
        return Lane(monitor, report, stream, group) if known else None

    def serves(self) -> bool:
        """Whether everything is as it was."""
        monitor, stream, group = self.monitor, self.stream, self.group
        return (
            group._arrays is self.arrays
            and stream._schema is self.schema
            and len(stream.groups) == 1
            and stream.groups[0] is group
            and len(monitor.streams) == 1
            and monitor.streams.get(stream.name) is stream
            and not monitor.joints
            and stream._wanted is self.wanted
            and (bool(self.wanted) or not stream.kept.rows)
        )

    def push(self, table: pa.Table) -> pa.Table | None:
        """A step with these rows; None, and nothing done, where they have to go the ordinary way."""
        rows, monitor, runs = table.num_rows, self.monitor, self.stream.recencies
        if self.in_parts:
            self.in_parts -= self.simple
            return self._in_parts(table)
        assert isinstance(runs, Runs)
        base, (before, begin) = monitor._next_seq, runs._latest
        # the rows go on with the last run of seqs, and the window begins in it
        if (
            not 0 < rows <= MOST
            or begin + runs.total - before != base
            or runs.total + rows - self.rows < before
        ):
            return None
        # the first step of a lane goes by itself: all that a step in one call may fall back to is loaded then
        if self.told and self.at_hand is not None and self._is_alike(table) and self.at_hand():
            batches = table.to_batches()
            found = self._go(batches[0], rows, base) if len(batches) == 1 else REFUSED
            if found != REFUSED:
                self.missed = 0
                self._count(rows, base)
                return self._told_of(found, table, base)
        columns = self._columns(table)
        if columns is None:
            self.in_parts = self.missed = min(2 * self.missed + 1, PARTS)
            return self._in_parts(table)
        self.missed = 0
        if self.notes_values:
            self.stream.note(table)
        self._count(rows, base)
        times, seqs = self.arrays["all at"], self.arrays["all from"]
        seqs.fill(base + rows - self.rows)
        if times[0]:  # the window was not full so far
            times.fill(0)
        self.group.algorithm.step(
            columns, no_times(rows), self._seqs(base, rows), times, seqs, NOTHING, NOTHING
        )
        return self._tell()

    def _in_parts(self, table: pa.Table) -> pa.Table | None:
        """The same with nulls, other types, event times, other windows, or columns to be put aside."""
        stream, group = self.stream, self.group
        batch = stream.prepared().batch(table)
        if batch is None:
            return None
        batch.texts = stream.texts
        mark = np.zeros(len(batch), dtype=np.uint8)
        columns, time, seq = group.rows_of(batch, mark)
        _, horizon_time, horizon_seq = group._horizons(Horizons(stream.horizon, stream.recencies))
        group.algorithm.step(columns, time, seq, horizon_time, horizon_seq, NOTHING, NOTHING)
        if self.wanted:
            stream._keep(batch, mark)
            stream.kept.expire(group.oldest)
        return self._tell()

    def _count(self, rows: int, base: int) -> None:
        """So many rows are in."""
        monitor, stream = self.monitor, self.stream
        monitor._next_seq = base + rows
        stream.accepted += rows
        stream.tally.add(0, rows)
        stream.recencies.total += rows  # type: ignore[union-attr]
        self.group.oldest = Recency(0, base + rows - self.rows)

    def _is_alike(self, table: pa.Table) -> bool:
        """Whether a table has the columns and types that the lane is made for; what has passed `_columns` once has."""
        schema = table.schema
        if not schema.equals(self.alike):
            if self._columns(table) is None:
                return False
            self.alike = schema
        return True

    def _go(self, batch: pa.RecordBatch, rows: int, base: int) -> int:
        """The step in one call."""
        algorithm = self.group.algorithm
        # with room for twice the changes of the step before: a step that finds too little is done in halves
        pool = self.changes.pool(self.monitor.watches, 2 * self.before)
        latest = (LATEST[0], self.group.answers._width)
        if (
            latest != self.noted
            or pool is not self.pool
            or algorithm.horizon_seq is not self.arrays["all from"]
        ):
            self._note(pool)
            self.noted, self.pool = (LATEST[0], self.group.answers._width), pool
        batch._export_to_c(self.exported_at)
        try:
            return int(
                algorithm.go(
                    self.notes.words, rows, base, base + rows - self.rows, pool.used, self.exported_at, self.times_at
                )
            )  # fmt: skip
        finally:
            where = self.exported[RELEASE]
            release = self.releases.get(where)
            if release is None:
                release = self.releases[where] = self.release(where)
            release(self.exported_at)

    def _note(self, pool: Pool) -> None:
        algorithm, times, seqs = self.group.algorithm, self.arrays["all at"], self.arrays["all from"]
        algorithm.horizon_time, algorithm.horizon_seq = times, seqs
        self.latest = None
        self.notes.note((*self._told(pool)[2:], times, seqs, self.columns_at, self.report))

    def _told_of(self, found: int, table: pa.Table, base: int) -> pa.Table:
        """What has changed after a step in one call, which may have left something to do."""
        pool = self.pool
        assert pool is not None
        if found > 0:
            self.before = found
            return pool.cut(found)
        if found == 0:
            return self.changes.table([], self.time_type)
        left, algorithm = int(self.report[LEFT]), self.group.algorithm
        done, count = bool(self.report[DONE]), int(self.report[COUNT])
        if left != NOTHING_LEFT:
            rows = table.num_rows
            algorithm.finish(left, lambda: (self._columns(table), no_times(rows), self._seqs(base, rows)))
        return self._tell() if left == LISTS else self._as_table(pool, done, count)

    def _seqs(self, base: int, rows: int) -> Any:
        """The rows' seqs; only the first where the algorithm can count."""
        if self.counts:
            seq = np.array([base])
            seq.flags.writeable = False
            return seq
        np.add(_numbers[:rows], base, out=self.seq[:rows])
        return self.seqs[:rows]

    def _tell(self) -> pa.Table:
        """What has changed, as a table."""
        answers, ranked = self.group.answers, self.group.algorithm.ranked
        pool = self.changes.pool(self.monitor.watches, 0, self.time_type[1], self.stream.time is not None)
        latest = (answers.renewed, ranked.renewed, answers._width)
        if latest != self.latest or pool is not self.pool:
            self.latest, self.pool, self.told = latest, pool, self._told(pool)
            self.noted = ()
        return self._as_table(pool, *write_changes(pool.used, *self.told))

    def _as_table(self, pool: Pool, done: bool, count: int) -> pa.Table:
        """What `write_changes` has found, which may have stopped before a watch."""
        answers, ranked, report = self.group.answers, self.group.algorithm.ranked, self.changes
        if done:
            if not count:
                return report.table([], self.time_type)
            if pool.used + count <= pool.rows:
                kind, type_ = self.time_type
                if self.stream.time is None or kind is None:
                    return pool.cut(count)
                keys = answers.found()[3][:count]
                times = stamps(keys, kind, type_)
                if times is not None:
                    pool.stamp[pool.used : pool.used + count] = times.view(np.int64)
                    return pool.cut(count)
                return pool.cut(count).set_column(7, "time", column_of(keys, kind, type_))
            changes: Changes | None = _rows_of(answers.found(), count)
        else:  # a longer answer than ever, or more changes than usual
            algorithm = self.group.algorithm
            found = [_rows_of(answers.found(), count)] if count else []
            present = ranked.present(algorithm.touched, answers.slot, answers.stale, self.arrays["k"])
            changes = answers.compare(present, algorithm.timed, found)
            algorithm.touched.fill(0)
        return report.table(
            [] if changes is None else [(self.group, changes)], self.time_type, self.monitor.watches
        )

    def _told(self, pool: Pool) -> tuple[Any, ...]:
        """The arrays of the comparison, which nearly always are the same as at the step before."""
        group, answers, ranked = self.group, self.group.answers, self.group.algorithm.ranked
        ranked.ends.fit(len(answers.slot))
        return (
            group.sign, group.algorithm.timed, self.arrays["k"], group.algorithm.touched,
            answers.slot, answers.start, answers.room, answers.size, answers.stale, answers.good, answers.time,
            answers.seq, ranked.good, ranked.time, ranked.seq, ranked.start, ranked.size,
            ranked.ends.which, ranked.ends.start, ranked.ends.size, *answers.found()[:5],
            self.changes._numbers_of(group),
            pool.query, pool.change, pool.rank, pool.valid, pool.score, pool.seq,
        )  # fmt: skip

    def _columns(self, table: pa.Table) -> tuple[Any, ...] | None:
        """The rows as an index takes them, over the table's own memory; None where that can't be."""
        if self.names is None:
            if not table.schema.equals(self.schema) or not readable(table, self.schema):
                return None
        elif table.column_names != self.names:
            return None
        found = []
        for place in self.places:
            column = table.column(place)
            if column.num_chunks != 1 or column.null_count:
                return None
            values = column.to_numpy()
            if values.dtype is not FLOATS:
                return None
            found.append(values)
        return tuple(found)


def _rows_of(found: Any, count: int) -> Changes:
    """The first changes of a buffer."""
    return Changes(*(column[:count] for column in found[:5]))
