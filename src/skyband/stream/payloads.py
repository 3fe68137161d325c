"""Kept rows: the values of candidates, looked up by seq when they are reported.

Where the window isn't kept, what a candidate's selected columns hold must be put aside when it comes in. Each step
adds the rows that became candidates, in order of arrival, so seqs ascend and a look-up is a binary search. Rows that
had to wait (waiting.py) have lower seqs than others: the chunks with later rows are then put in order with them. Rows
that are candidates no more are removed when they have become three times as many as the others. Where an index keeps
the whole window, its rows' columns are here in chunks that go as a whole when the window has passed them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.core.types import LOWEST, Ints, Recency
from skyband.stream.arrow import numbers_array, values_of

SLACK = 4096
SINGLE = 256  # rows that came one by one, of which a chunk is made
SMALL = 4096  # chunks below this many rows are joined with those before them
JOINED = 8  # so many at once
WHOLE = 1 << 15  # rows in several chunks, up to which they are put together before some are looked up
WIDE = 1 << 22  # seqs from the first to the last, up to which a table of them is quicker than sorting


class Plain:
    """Columns of numbers without nulls as numpy has them: an Arrow table takes longer to make, to join and to pick from
    than some hundred rows take to copy."""

    def __init__(self, schema: pa.Schema, columns: list[npt.NDArray[Any]]) -> None:
        self.schema = schema
        self.columns = columns

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self.columns)

    def pick(self, rows: npt.NDArray[Any]) -> Plain:
        return Plain(self.schema, [column[rows] for column in self.columns])

    def table(self) -> pa.Table:
        return pa.Table.from_arrays([numbers_array(column) for column in self.columns], schema=self.schema)


def _joined(tables: Sequence[pa.Table | Plain]) -> pa.Table | Plain:
    """Rows one after another."""
    schema = tables[0].schema
    if all(
        isinstance(table, Plain) and (table.schema is schema or table.schema.equals(schema))
        for table in tables
    ):
        columns = zip(*(table.columns for table in tables), strict=True)
        return Plain(schema, [np.concatenate(column) for column in columns])
    return pa.concat_tables([_arrow(table) for table in tables], promote_options="default").combine_chunks()


def _arrow(table: pa.Table | Plain) -> pa.Table:
    return table.table() if isinstance(table, Plain) else table


class Kept:
    """Rows by seq, in chunks: seqs, columns, and the newest recency among them (where rows go by the window)."""

    def __init__(self) -> None:
        self._chunks: list[tuple[Ints, pa.Table | Plain, Recency]] = []
        # single rows that came last, as values by seq, until their chunk is made; their columns and newest recency
        self._single: dict[int, tuple[Any, ...]] = {}
        self._of_single: tuple[pa.Schema, Recency] | None = None
        self.rows = 0
        self.limit = SLACK
        self._schemas: tuple[pa.Schema, list[str], pa.Schema] | None = None
        self._last: tuple[Ints, pa.Table | Plain, Recency] | None = None  # the single rows as a chunk
        self._whole: tuple[Ints, pa.Table | Plain] | None = None  # `_chunks` as one, until one changes

    @property
    def chunks(self) -> list[tuple[Ints, pa.Table | Plain, Recency]]:
        """All rows; those that came singly are the last chunk. They stay single rows, so reading changes no chunk."""
        if not self._single:
            return self._chunks
        if self._last is None or len(self._last[0]) != len(self._single):
            self._last = self._chunk_of_single()
        return [*self._chunks, self._last]

    def add_row(self, seq: int, time: int, values: tuple[Any, ...], schema: pa.Schema) -> None:
        """Keep the values of one row, which is the latest arrival."""
        newest = Recency(time, seq)
        known = self._of_single
        if known is not None and known[0] is not schema and not known[0].equals(schema):
            self._put_together()
        if self._of_single is not None and newest < self._of_single[1]:
            newest = self._of_single[1]
        self._of_single = schema, newest
        self._single[seq] = values
        self.rows += 1
        if len(self._single) >= SINGLE:
            self._put_together()

    def _put_together(self) -> None:
        """Make a chunk of the rows that came singly."""
        if not self._single:
            return
        seqs, table, newest = self.chunks[-1]
        self.rows -= len(seqs)
        self._single, self._of_single, self._last = {}, None, None
        self.add(seqs, table, newest)

    def _chunk_of_single(self) -> tuple[Ints, pa.Table | Plain, Recency]:
        assert self._of_single is not None
        schema, newest = self._of_single
        columns = [
            pa.array(column, f.type)
            for f, column in zip(schema, zip(*self._single.values(), strict=True), strict=True)
        ]
        table = pa.Table.from_arrays(columns, schema=schema)
        plain = all(map(_plain, table.columns))
        return np.array([*self._single], dtype=np.int64), copied(table, schema) if plain else table, newest

    def schema(self, table: pa.Table, names: list[str]) -> pa.Schema:
        """Return the schema of some columns of a table: the same object from step to step."""
        known = self._schemas
        if known is None or known[1] != names or not known[0].equals(table.schema):
            known = table.schema, names, pa.schema([table.schema.field(name) for name in names])
            self._schemas = known
        return known[2]

    def add(self, seq: Ints, table: pa.Table | Plain, newest: Recency = LOWEST) -> None:
        if not len(seq):
            return
        self._put_together()
        self.rows += len(seq)
        if self._chunks and int(seq[0]) < int(self._chunks[-1][0][-1]):
            seq, table, newest = self._between(seq, table, newest)
        self._whole = None
        self._chunks.append((seq, table, newest))
        while len(seq) < SMALL:
            # like the digits of a counter: each row is moved a few times, whatever the batches' sizes
            few = 1
            while few < len(self._chunks) and len(self._chunks[-1 - few][0]) <= 2 * len(seq):
                few += 1
            if few < JOINED:
                break
            seqs, tables, newests = zip(*self._chunks[-few:], strict=True)
            seq, table = np.concatenate(seqs), _joined(tables)
            self._chunks[-few:] = [(seq, table, max(newests))]

    def _between(
        self, seq: Ints, table: pa.Table | Plain, newest: Recency
    ) -> tuple[Ints, pa.Table | Plain, Recency]:
        """Take out the chunks with later rows; return one chunk of these and of rows that had to wait."""
        first = next(place for place, chunk in enumerate(self._chunks) if int(chunk[0][-1]) > int(seq[0]))
        seqs, tables, newests = zip(*self._chunks[first:], (seq, table, newest), strict=True)
        del self._chunks[first:]
        every = np.concatenate(seqs)
        order = np.argsort(every, kind="stable")
        whole = _joined(tables)
        whole = whole.pick(order) if isinstance(whole, Plain) else whole.take(numbers_array(order))
        return every[order], whole, max(newests)

    @property
    def full(self) -> bool:
        """Whether it is time to `clear` rows that are candidates no more."""
        return self.rows > self.limit

    def clear(self, live: Ints) -> None:
        """Forget all rows but these."""
        self._put_together()
        if not self._chunks:
            return
        seqs, table = self._seqs(), _joined([table for _, table, _ in self.chunks])
        if len(live) < len(seqs) // 2:  # few: each is looked for
            at = np.minimum(np.searchsorted(seqs, live), len(seqs) - 1)
            keep = np.zeros(len(seqs), dtype=bool)
            keep[at[seqs[at] == live]] = True
        else:
            wide = int(seqs[-1]) - int(seqs[0]) >= WIDE
            keep = np.isin(seqs, live[live >= seqs[0]], kind=None if wide else "table")
        if isinstance(table, Plain):
            table = table.pick(keep)
        else:
            table = table.filter(numbers_array(keep)).combine_chunks()
        seqs = seqs[keep]
        newest = max(newest for _, _, newest in self.chunks)
        self._whole = None
        self._chunks = [(seqs, table, newest)] if len(seqs) else []
        self.rows = len(seqs)
        self.limit = 4 * self.rows + SLACK

    def expire(self, horizon: Recency) -> None:
        """Forget the chunks whose rows are all older than this."""
        gone, chunks = 0, self._chunks  # rows that came singly are the newest
        while gone < len(chunks) and chunks[gone][2] < horizon:
            self.rows -= len(chunks[gone][0])
            gone += 1
        if gone:
            del chunks[:gone]
            self._whole = None

    def _seqs(self) -> Ints:
        parts = [seq for seq, _, _ in self.chunks]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def _table(self) -> pa.Table:
        return pa.concat_tables([_arrow(table) for _, table, _ in self.chunks], promote_options="default")

    def take(self, seqs: Ints, schema: pa.Schema) -> pa.Table:
        """These rows in this order, with these columns; a column that was not put aside is null."""
        if not len(seqs) or not self.rows:
            return schema.empty_table()
        rows = self._rows(seqs) if len(self.chunks) > 1 and self.rows > WHOLE else self._of_all(seqs)
        if rows.schema is schema or rows.schema.equals(schema):
            return rows
        there = set(rows.column_names)
        columns = [
            rows.column(f.name).cast(f.type) if f.name in there else pa.nulls(len(seqs), f.type)
            for f in schema
        ]
        return pa.Table.from_arrays(columns, schema=schema)

    def values(self, seqs: list[int], names: Sequence[str]) -> list[list[Any]] | None:
        """Return some columns of these rows as Python values; None where Arrow has to make them.

        Rows that came singly are not put together for it.
        """
        places, found = None, [self._single.get(seq) for seq in seqs]
        if self._of_single is not None:
            known = self._of_single[0].names
            places = [known.index(name) if name in known else -1 for name in names]
            if -1 in places:
                return None
        old = [at for at, row in enumerate(found) if row is None]
        columns = [[None if row is None else row[place] for row in found] for place in places or ()]
        if not old:
            return columns
        if self._whole is None and len(self._chunks) > 1 and self.rows > WHOLE:
            return None
        if self._whole is None:
            every = [seq for seq, _, _ in self._chunks]
            self._whole = np.concatenate(every), _joined([table for _, table, _ in self._chunks])
        every_seq, table = self._whole
        if not isinstance(table, Plain) or not set(names) <= {*table.schema.names}:
            return None
        wanted = np.array([seqs[at] for at in old], dtype=np.int64)
        rows = every_seq.searchsorted(wanted)
        assert np.array_equal(every_seq.take(rows, mode="clip"), wanted), "rows that were not put aside"
        columns = columns or [[None] * len(seqs) for _ in names]
        for column, name in zip(columns, names, strict=True):
            kept = table.columns[table.schema.get_field_index(name)][rows].tolist()
            for at, value in zip(old, kept, strict=True):
                column[at] = value
        return columns

    def _of_all(self, seqs: Ints) -> pa.Table:
        """Look these rows up among all."""
        if self._single:
            every, table = self._seqs(), _joined([table for _, table, _ in self.chunks])
        else:
            if self._whole is None:
                self._whole = self._seqs(), _joined([table for _, table, _ in self._chunks])
            every, table = self._whole
        at = every.searchsorted(seqs)
        assert np.array_equal(every.take(at, mode="clip"), seqs), "rows that were not put aside"
        return table.pick(at).table() if isinstance(table, Plain) else table.take(numbers_array(at))

    def _rows(self, seqs: Ints) -> pa.Table:
        """Look these rows up chunk by chunk."""
        firsts = [int(seq[0]) for seq, _, _ in self.chunks]
        where = np.array([max(0, bisect_right(firsts, seq) - 1) for seq in seqs.tolist()])
        found, order = [], []
        for number in np.unique(where).tolist():
            mine = np.flatnonzero(where == number)
            chunk, table, _ = self.chunks[number]
            rows_at = np.searchsorted(chunk, seqs[mine])
            assert np.array_equal(chunk.take(rows_at, mode="clip"), seqs[mine]), (
                "rows that were not put aside"
            )
            found.append(_arrow(table).take(numbers_array(rows_at)))
            order.append(mine)
        rows = pa.concat_tables(found, promote_options="default")
        return rows.take(numbers_array(np.argsort(np.concatenate(order)))) if len(found) > 1 else rows

    def replace(self, seq: Ints, table: pa.Table, newest: Recency = LOWEST) -> None:
        """Add rows some of which may be here already (with fewer columns): the new ones take their place."""
        self._put_together()
        pieces = []
        if self.chunks:
            seqs = self._seqs()
            keep = ~np.isin(seqs, seq)
            pieces.append((seqs[keep], self._table().filter(numbers_array(keep))))
            newest = max(newest, *(newest for _, _, newest in self.chunks))
        pieces.append((seq, table))
        merged = np.concatenate([s for s, _ in pieces])
        order = np.argsort(merged, kind="stable")
        whole = pa.concat_tables([t for _, t in pieces], promote_options="default")
        whole = whole.take(numbers_array(order)).combine_chunks()
        self._whole = None
        self._chunks = [(merged[order], whole, newest)] if len(merged) else []  # no chunk is empty
        self.rows = len(merged)

    def cast(self, types: Mapping[str, pa.DataType]) -> None:
        """Columns have other types now."""
        self._put_together()
        self._schemas = self._whole = None
        self._chunks = [(seq, recast(_arrow(table), types), newest) for seq, table, newest in self._chunks]

    def bytes(self) -> int:
        return sum(seq.nbytes + int(table.nbytes) for seq, table, _ in self.chunks)

    def dump(self) -> dict[str, Any]:
        if not self.chunks:
            return {"limit": self.limit}
        return {
            "limit": self.limit,
            "seq": self._seqs(),
            "table": self._table(),
            "sizes": np.array([len(seq) for seq, _, _ in self.chunks], dtype=np.int64),
            "newest": np.array([newest for _, _, newest in self.chunks], dtype=np.int64).reshape(-1, 2),
            "single": len(self._single),
        }

    def load(self, blob: dict[str, Any]) -> None:
        self.limit = int(blob["limit"])
        self._whole = None
        if "table" not in blob or not blob["table"].num_columns:  # an older file may have rows without any
            return
        if "sizes" not in blob:  # of an older file: until the next clearing, nothing goes by the window
            self._chunks = [(blob["seq"], blob["table"], Recency(2**63 - 1, 2**63 - 1))]
            self.rows = len(blob["seq"])
            return
        at = 0
        for size, newest in zip(blob["sizes"].tolist(), blob["newest"].tolist(), strict=True):
            part = blob["table"].slice(at, size).combine_chunks()
            self._chunks.append((blob["seq"][at : at + size].copy(), part, Recency(*newest)))
            at += size
        self.rows = at
        if blob.get("single"):  # older files have none
            seqs, part, latest = self._chunks.pop()
            rows = zip(*(column.to_pylist() for column in _arrow(part).columns), strict=True)
            self._single, self._of_single = dict(zip(seqs.tolist(), rows, strict=True)), (part.schema, latest)


def recast(table: pa.Table, types: Mapping[str, pa.DataType]) -> pa.Table:
    """Return a table with some of its columns in other types, which hold their values."""
    for place, name in enumerate(table.column_names):
        if name in types and table.schema.field(place).type != types[name]:
            table = table.set_column(place, name, pc.cast(table.column(place), types[name], safe=False))
    return table


def taken(table: pa.Table, schema: pa.Schema, rows: Ints) -> pa.Table | Plain:
    """These rows of some columns of a table, in memory of their own."""
    columns = [table.column(name) for name in schema.names]
    if all(map(_plain, columns)):
        return Plain(schema, [values_of(column.chunk(0))[rows] for column in columns])
    return pa.Table.from_arrays([column.take(numbers_array(rows)) for column in columns], schema=schema)


def _plain(column: pa.ChunkedArray) -> bool:
    """Numbers without nulls, in one piece."""
    type_ = column.type
    return (
        column.num_chunks == 1
        and (pa.types.is_float64(type_) or pa.types.is_int64(type_))
        and not column.null_count
    )


def copied(table: pa.Table, schema: pa.Schema) -> pa.Table | Plain:
    """Return some columns of a table in memory of their own: its caller may use its memory again."""
    columns = [table.column(name) for name in schema.names]
    if all(map(_plain, columns)):
        return Plain(schema, [values_of(column.chunk(0)).copy() for column in columns])
    return pa.Table.from_arrays([_copied(column) for column in columns], schema=schema)


def _copied(column: pa.ChunkedArray) -> pa.Array:
    # one array alone would stay as it is
    return pa.concat_arrays([*column.chunks, column.chunk(0).slice(0, 0)])
