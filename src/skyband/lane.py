"""The lane: the shortest way of the commonest step.

One stream without event times, one family of watches with one window over an index that keeps the rows itself, and a
table in the stream's own types, without nulls: nothing has to be accepted, sorted, turned or put aside. The ordinary
way (monitor.py, stream_state.py, group.py) finds that out step by step, and what Python does between two kernels costs
the more the further they have driven it out of the caches: for ten thousand rows a third of the whole step. Here it is
found out once. A lane does the same as the ordinary way with such a table, in the same order, and nothing else; it
serves until anything about the stream or its watches changes, which it sees by the objects that are made anew then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.algorithms import WindowAlgorithm
from skyband.group import NOTHING, Group
from skyband.order import Recency
from skyband.query.model import Rows
from skyband.report import TIMELESS, Pool
from skyband.stream.batches import FLOAT64, no_times
from skyband.stream.window import Runs
from skyband.structures.board import Changes
from skyband.structures.emit import tell

if TYPE_CHECKING:
    from skyband.monitor import Monitor
    from skyband.stream_state import Stream

MOST = 16384  # rows of a step that the lane takes
FLOATS = np.dtype(np.float64)
_numbers = np.arange(MOST)


class Lane:
    """What a stream's commonest step needs, looked up once."""

    def __init__(self, monitor: Monitor, stream: Stream, group: Group) -> None:
        self.monitor, self.stream, self.group = monitor, stream, group
        self.arrays = group._arrays  # made anew when a watch comes, goes or changes
        schema: Any = stream.schema
        self.schema = schema
        self.places = [schema.get_field_index(name) for name in group.space.columns]
        self.rows = group._windows[0].n  # type: ignore[union-attr]
        # if it takes all of the columns it looks at each one's type itself, which is quicker than to compare schemas
        whole = sorted(self.places) == list(range(len(schema)))
        self.names = list(schema.names) if whole else None
        self.counts = getattr(group.algorithm, "counts_seqs", False)
        self.seq = np.empty(MOST, dtype=np.int64)
        self.seqs = self.seq.view()
        self.seqs.flags.writeable = False
        self.latest: Any = None
        self.pool: Pool | None = None
        self.told: tuple[Any, ...] = ()

    @staticmethod
    def of(monitor: Monitor, stream: Stream) -> Lane | None:
        """The lane of a stream that has just made a step the ordinary way; None where there is none."""
        if (
            len(monitor.streams) > 1
            or monitor.joints
            or monitor.retain is not None
            or monitor.max_ahead is not None
        ):
            return None
        if (
            stream.time is not None
            or stream.updates is not None
            or stream.unknown_types
            or len(stream.groups) != 1
        ):
            return None
        group, schema = stream.groups[0], stream.schema
        if type(group) is not Group or not group.windowed or group.where is not None or group.looked_at:
            return None
        arrays = group._arrays
        # "all from": all watches have one window, which has passed all their beginnings
        if "all from" not in arrays or len(arrays["growing"]) or not isinstance(group._windows[0], Rows):
            return None
        if type(group.algorithm).report is not WindowAlgorithm.report:
            return None
        count = len(group.algorithm.ks)
        if not count == len(group.watches) == len(group.slots) or not group._in_place():
            return None
        # "wanted": columns that have to be put aside for the answers
        if schema is None or stream.kept.chunks or stream._wanted is None or stream._wanted:
            return None
        known = all(
            schema.get_all_field_indices(n) == [schema.get_field_index(n)] for n in group.space.columns
        )
        types = {schema.field(name).type.id for name in group.space.columns} if known else set()
        return Lane(monitor, stream, group) if types == {FLOAT64} else None

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
            and not stream.kept.chunks
        )

    def push(self, table: pa.Table) -> pa.Table | None:
        """A step with these rows; None, and nothing done, where they have to go the ordinary way."""
        rows, runs = table.num_rows, self.stream.recencies
        assert isinstance(runs, Runs)
        columns = self._columns(table) if 0 < rows <= MOST else None
        monitor, stream, group, arrays = self.monitor, self.stream, self.group, self.arrays
        base, (before, begin) = monitor._next_seq, runs._latest
        # the rows go on with the last run of seqs, and the window begins in it
        if columns is None or begin + runs.total - before != base or runs.total + rows - self.rows < before:
            return None
        monitor._next_seq = base + rows
        stream.accepted += rows
        stream.tally.add(0, rows)
        runs.total += rows
        edge = base + rows - self.rows
        group.oldest = Recency(0, edge)
        times, seqs = arrays["all at"], arrays["all from"]
        seqs.fill(edge)
        if times[0]:  # the window was not full so far
            times.fill(0)
        group.algorithm.step(columns, no_times(rows), self._seqs(base, rows), times, seqs, NOTHING, NOTHING)
        return self._tell()

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
        board, ranked, report = self.group.board, self.group.algorithm.ranked, self.monitor._report
        pool = report.pool(self.monitor.watches)
        latest = (board.renewed, ranked.renewed, board._width)
        if latest != self.latest or pool is not self.pool:
            self.latest, self.pool, self.told = latest, pool, self._told(pool)
        first, count = tell(pool.used, *self.told)
        if first == len(board.slot):
            if not count:
                return report.table([], TIMELESS)
            if pool.used + count <= pool.rows:
                return pool.cut(count)
            changes: Changes | None = board.found().part(count)
        else:  # a longer answer than ever, or more changes than usual
            algorithm = self.group.algorithm
            changes = board.refresh_ranked(
                ranked, algorithm.touched, self.arrays["k"], algorithm.timed, (first, count)
            )
            algorithm.touched.fill(0)
        return report.table(
            [] if changes is None else [(self.group, changes)], TIMELESS, self.monitor.watches
        )

    def _told(self, pool: Pool) -> tuple[Any, ...]:
        """The arrays of the comparison, which nearly always are the same as at the step before."""
        group, board, ranked = self.group, self.group.board, self.group.algorithm.ranked
        return (
            group.sign, group.algorithm.timed, self.arrays["k"], group.algorithm.touched,
            board.slot, board.start, board.room, board.size, board.stale, board.good, board.time, board.seq,
            ranked.good, ranked.time, ranked.seq, ranked.start, ranked.size, *board.found(),
            self.monitor._report._numbers_of(group),
            pool.query, pool.change, pool.rank, pool.valid, pool.score, pool.seq,
        )  # fmt: skip

    def _columns(self, table: pa.Table) -> tuple[Any, ...] | None:
        """The rows as an index takes them, over the table's own memory; None where that can't be."""
        if self.names is None:
            if not table.schema.equals(self.schema):
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
