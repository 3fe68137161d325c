"""Retained rows: the newest part of the stream, whole, for watches yet to come.

`sb.Monitor(retain=sb.rows(100_000))` or `sb.last("1 hour")` keeps that suffix of the recency order with all
its columns, so that a new watch, a larger window or a larger k is exact at once as far back as it reaches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from skyband.stream.arrow import numbers_array
from skyband.stream.batches import Batch
from skyband.stream.window import Ints, Recency


class Retained:
    """Rows in order of arrival, in chunks; those before the horizon are let go of chunk by chunk."""

    def __init__(self) -> None:
        self.chunks: list[tuple[pa.Table, Ints, Ints]] = []

    def add(self, table: pa.Table, seq: Ints, time: Ints) -> None:
        if len(seq):
            self.chunks.append((table, seq, time))

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
        """The retained rows at or after the horizon."""
        if not self.chunks:
            return None
        table = pa.concat_tables([table for table, _, _ in self.chunks], promote_options="default")
        seq = np.concatenate([seq for _, seq, _ in self.chunks])
        time = np.concatenate([time for _, _, time in self.chunks])
        inside = (time > horizon.time) | ((time == horizon.time) & (seq >= horizon.seq))
        rows = np.flatnonzero(inside)
        if len(rows) == 0:
            return None
        return Batch(table.take(numbers_array(rows)).combine_chunks(), seq[rows], time[rows])

    def start(self, horizon: Recency) -> Recency | None:
        """The oldest retained row at or after the horizon."""
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
        batch = self.batch(horizon)
        if batch is None:
            return {}
        return {"table": batch.table, "seq": batch.seq_arrived.copy(), "time": batch.time_arrived.copy()}

    def load(self, blob: dict[str, Any]) -> None:
        if "table" in blob:
            self.chunks = [(blob["table"], blob["seq"], blob["time"])]
