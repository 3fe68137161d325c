"""Retained rows: the newest part of the stream, whole, for watches yet to come.

`sb.Monitor(retain=sb.rows(100_000))` or `sb.last("1 hour")` keeps that suffix of the recency order with all
its columns, so that a new watch, a larger window or a larger k is exact at once as far back as it reaches.

Rows of an update stream that were deleted or replaced never come back from here, but keep their places: a row window
counts them, and a new watch may begin with one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.core.types import Ints, Recency
from skyband.stream.arrow import numbers_array
from skyband.stream.batches import Batch
from skyband.stream.payloads import recast

LEAST_ROOM = 1024


class Retained:
    """Rows in order of arrival, in chunks; those before the horizon are let go of chunk by chunk."""

    def __init__(self) -> None:
        self.chunks: list[tuple[pa.Table, Ints, Ints]] = []
        self.ended: list[Ints] = []  # seqs of rows that were deleted or replaced
        self._count = 0
        self._most = LEAST_ROOM

    def end(self, seq: Ints) -> None:
        """These rows were deleted or replaced."""
        if len(seq):
            self.ended.append(seq)
            self._count += len(seq)
            if self._count > self._most:  # forget those that have left
                here = [seq for _, seq, _ in self.chunks]
                gone = self._gone()
                self._set_gone(gone[np.isin(gone, np.concatenate(here or [gone[:0]]))])

    def _gone(self) -> Ints:
        return np.concatenate(self.ended) if self.ended else np.empty(0, dtype=np.int64)

    def _set_gone(self, seq: Ints) -> None:
        self.ended = [seq]
        self._count = len(seq)
        self._most = 2 * len(seq) + LEAST_ROOM

    def add(self, table: pa.Table, seq: Ints, time: Ints) -> None:
        if len(seq):
            self.chunks.append((table, seq, time))

    def cast(self, types: Mapping[str, pa.DataType]) -> None:
        """Columns have other types now."""
        self.chunks = [(recast(table, types), seq, time) for table, seq, time in self.chunks]

    def expire(self, horizon: Recency) -> None:
        kept = []
        for table, seq, time in self.chunks:
            inside = (time > horizon.time) | ((time == horizon.time) & (seq >= horizon.seq))
            count = int(np.count_nonzero(inside))
            if count == len(seq):
                kept.append((table, seq, time))
            elif count > len(seq) // 2:
                kept.append((table, seq, time))  # cut only when most of it has gone
            elif count:
                rows = np.flatnonzero(inside)
                kept.append((table.take(numbers_array(rows)).combine_chunks(), seq[rows], time[rows]))
        self.chunks = kept

    def batch(self, horizon: Recency) -> Batch | None:
        """Return the retained rows at or after the horizon that are still there."""
        table, seq, time = self._from(horizon)
        if self._count:
            rows = np.flatnonzero(~np.isin(seq, self._gone()))
            table, seq, time = table.take(numbers_array(rows)), seq[rows], time[rows]
        return Batch(table.combine_chunks(), seq, time) if len(seq) else None

    def recencies(self, horizon: Recency) -> tuple[Ints, Ints]:
        """Time and seq of all rows at or after the horizon, oldest first, whether they are still there or not."""
        _, seq, time = self._from(horizon)
        order = np.lexsort((seq, time))
        return time[order], seq[order]

    def _from(self, horizon: Recency) -> tuple[pa.Table, Ints, Ints]:
        if not self.chunks:
            return pa.table({}), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        table = pa.concat_tables([table for table, _, _ in self.chunks], promote_options="default")
        seq = np.concatenate([seq for _, seq, _ in self.chunks])
        time = np.concatenate([time for _, _, time in self.chunks])
        inside = (time > horizon.time) | ((time == horizon.time) & (seq >= horizon.seq))
        rows = np.flatnonzero(inside)
        return table.take(numbers_array(rows)), seq[rows], time[rows]

    def start(self, horizon: Recency) -> Recency | None:
        """Return the oldest retained row at or after the horizon."""
        oldest = None
        for _, seq, time in self.chunks:
            inside = np.flatnonzero((time > horizon.time) | ((time == horizon.time) & (seq >= horizon.seq)))
            if len(inside):
                first = inside[np.lexsort((seq[inside], time[inside]))[0]]
                found = Recency(int(time[first]), int(seq[first]))
                oldest = found if oldest is None else min(oldest, found)
        return oldest

    def bytes(self) -> int:
        return sum(int(table.nbytes) + seq.nbytes + time.nbytes for table, seq, time in self.chunks)

    def dump(self, horizon: Recency) -> dict[str, Any]:
        table, seq, time = self._from(horizon)
        if not len(seq):
            return {}
        gone = self._gone()
        return {"table": table, "seq": seq, "time": time, "gone": gone[np.isin(gone, seq)]}

    def load(self, blob: dict[str, Any]) -> None:
        if "table" in blob:
            self.chunks = [(blob["table"], blob["seq"], blob["time"])]
            self._set_gone(blob["gone"].copy())
