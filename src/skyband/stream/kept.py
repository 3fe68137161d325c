"""Kept rows: the values of candidates, looked up by seq when they are reported.

The window isn't kept, so what a candidate's selected columns hold must be put aside when it comes in. Each step
adds the rows that somebody took, in order of arrival, so seqs ascend and a look-up is a binary search. Rows that
nobody holds any more are cleared away when they have become three times as many as the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from skyband.stream.arrow import numbers_array
from skyband.stream.window import Ints

SLACK = 4096


class Kept:
    """Rows by seq, in chunks."""

    def __init__(self) -> None:
        self.chunks: list[tuple[Ints, pa.Table]] = []
        self.rows = 0
        self.limit = SLACK
        self._seqs: Ints | None = None

    def add(self, seq: Ints, table: pa.Table) -> None:
        if len(seq):
            self.chunks.append((seq, table))
            self.rows += len(seq)
            self._seqs = None

    @property
    def full(self) -> bool:
        """Whether it is time to `clear` what nobody holds."""
        return self.rows > self.limit

    def clear(self, live: Ints) -> None:
        """Forget all rows but these."""
        seqs = self._all()
        keep = np.isin(seqs, live)
        table = self._table().filter(numbers_array(keep)).combine_chunks()
        seqs = seqs[keep]
        self.chunks = [(seqs, table)] if len(seqs) else []
        self.rows = len(seqs)
        self.limit = 4 * self.rows + SLACK
        self._seqs = None

    def _all(self) -> Ints:
        if self._seqs is None:
            parts = [seq for seq, _ in self.chunks]
            self._seqs = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
        return self._seqs

    def _table(self) -> pa.Table:
        return pa.concat_tables([table for _, table in self.chunks], promote_options="default")

    def take(self, seqs: Ints, schema: pa.Schema) -> pa.Table:
        """These rows in this order, with these columns; a column that was not put aside is null."""
        if not len(seqs) or not self.chunks:
            return schema.empty_table()
        at = np.searchsorted(self._all(), seqs)
        found = self._table().take(numbers_array(at))
        there = set(found.column_names)
        columns = [
            found.column(f.name).cast(f.type) if f.name in there else pa.nulls(len(seqs), f.type)
            for f in schema
        ]
        return pa.Table.from_arrays(columns, schema=schema)

    def replace(self, seq: Ints, table: pa.Table) -> None:
        """Add rows some of which may be here already (with fewer columns): the new ones take their place."""
        seqs = self._all()
        keep = ~np.isin(seqs, seq)
        pieces = [(seqs[keep], self._table().filter(numbers_array(keep)))] if len(seqs) else []
        pieces.append((seq, table))
        merged = np.concatenate([s for s, _ in pieces])
        order = np.argsort(merged, kind="stable")
        whole = pa.concat_tables([t for _, t in pieces], promote_options="default")
        self.chunks = [(merged[order], whole.take(numbers_array(order)).combine_chunks())]
        self.rows = len(merged)
        self._seqs = None

    def bytes(self) -> int:
        return sum(seq.nbytes + int(table.nbytes) for seq, table in self.chunks)

    def dump(self) -> dict[str, Any]:
        if not self.chunks:
            return {"limit": self.limit}
        return {"limit": self.limit, "seq": self._all().copy(), "table": self._table()}

    def load(self, blob: dict[str, Any]) -> None:
        self.limit = int(blob["limit"])
        if "table" in blob:
            self.chunks = [(blob["seq"], blob["table"])]
            self.rows = len(blob["seq"])
