"""The change table: one step's changes of all watches as Arrow columns, with no Python per change.

Building an Arrow table of a few hundred rows costs more than finding out what has changed. So a table of many rows is
built once, over memory of our own: the *pool*. Each step writes its changes into the next free rows of that memory
and hands out a slice of the table. Rows handed out are never written again; when the pool is used up, a fresh one
is made, and the old one lives as long as a slice of it is held. Memory that is not held any more serves again:
to touch half a megabyte for the first time takes longer than to write a dozen steps' changes to it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.core.exchange import Changes
from skyband.core.types import Ints
from skyband.engine.change_writer import emit
from skyband.engine.protocol import Family
from skyband.stream import clock
from skyband.stream.arrow import numbers_array, texts_array

_WORDS = texts_array(["leave", "enter"])
_ROWS = 32_768  # of a pool: to make one takes as long as a step
TIMELESS: tuple[clock.Kind | None, pa.DataType] = (
    None,
    pa.timestamp("us", "UTC"),
)  # times of changes that have none
COLUMNS = ["query", "change", "rank", "score", "seq", "seq_b", "id", "time"]


@lru_cache(maxsize=8)
def _nulls(rows: int, kind: pa.DataType) -> pa.Array:
    """Return a column without values: every pool has the same."""
    return pa.nulls(rows, kind)


@lru_cache(maxsize=8)
def _schema(time: pa.DataType) -> pa.Schema:
    word = pa.dictionary(pa.int32(), pa.string())
    types = [word, word, pa.int32(), pa.float64(), pa.int64(), pa.int64(), pa.string(), time]
    return pa.schema(list(zip(COLUMNS, types, strict=True)))


def _memory(rows: int) -> tuple[Any, ...]:
    """Room for so many changes: query, change, rank, its bits, score, seq, time."""
    kinds = (np.int32, np.int32, np.int32, np.uint8, np.float64, np.int64, np.int64)
    return tuple(np.zeros((rows + 7) // 8 if kind is np.uint8 else rows, dtype=kind) for kind in kinds)


class Pool:
    """Memory for changes, and a table over all of it."""

    def __init__(
        self,
        rows: int,
        names: pa.Array,
        time: pa.DataType,
        stamped: bool = False,
        memory: tuple[Any, ...] | None = None,
    ) -> None:
        """stamped: changes have times, which are written to its memory, too."""
        self.rows = rows
        self.time, self.stamped = time, stamped
        self.used = 0
        self.memory = memory or _memory(rows)
        self.query, self.change, self.rank, self.valid, self.score, self.seq, self.stamp = self.memory
        self.valid.fill(0)
        # Arrow counts nulls once: of a slice of an array that is null throughout it never counts again
        self.valid[0] = 1
        # Arrow holds these and nothing else: where they are gone, no slice of the table is left
        shown = [array.view() for array in self.memory]
        self._shown = [weakref.ref(each) for each in shown]
        query, change, rank, valid, score, seq, stamp = shown
        none = pa.nulls if rows != _ROWS else _nulls
        if stamped:
            times = pa.Array.from_buffers(time, rows, [None, pa.py_buffer(stamp)])
        else:
            times = none(rows, time)
        arrays = [
            pa.DictionaryArray.from_arrays(numbers_array(query), names, safe=False),
            pa.DictionaryArray.from_arrays(numbers_array(change), _WORDS, safe=False),
            pa.Array.from_buffers(pa.int32(), rows, [pa.py_buffer(valid), pa.py_buffer(rank)]),
            numbers_array(score),
            numbers_array(seq),
            none(rows, pa.int64()),
            none(rows, pa.string()),
            times,
        ]
        self.table: Any = pa.Table.from_arrays(arrays, schema=_schema(time))

    def retire(self) -> None:
        """It is used up."""
        self.table = None

    def is_free(self) -> bool:
        """Whether no slice of the table, which has been given up here, is held."""
        return all(each() is None for each in self._shown)

    def write(self, pieces: list[tuple[Family, Changes]], ids: list[Any], stamps: Any = None) -> pa.Table:
        """Return the changes as the next rows of the pool, which has room for them."""
        first = self.used
        if stamps is not None:
            self.stamp[first : first + len(stamps)] = stamps.view(np.int64)
        for (group, changes), numbers in zip(pieces, ids, strict=True):
            emit(
                self.used, numbers, group.sign, changes.watch, changes.rank, changes.good, changes.seq,
                self.query, self.change, self.rank, self.valid, self.score, self.seq,
            )  # fmt: skip
            self.used += len(changes.seq)
        written, self.used = self.used - first, first
        return self.cut(written)

    def cut(self, count: int) -> pa.Table:
        """Return so many rows that were written behind what is used, as a table."""
        table = self.table.slice(self.used, count)
        self.used = (self.used + count + 7) & ~7  # no two steps share a byte of the bitmap
        return table


class Report:
    """Builds change tables; knows the watches' names."""

    def __init__(self) -> None:
        self._names: pa.Array | None = None  # the watches' names, until one comes or goes
        self._ids: dict[str, int] = {}
        self._numbers: dict[int, Any] = {}  # the numbers of each family's watches' names
        self._empty: pa.Table | None = None
        self._pool: Pool | None = None
        self._retired: list[Pool] = []  # used up, the last two

    def forget(self) -> None:
        """Watches came or went."""
        self._names = None

    def _name(self, names: Iterable[str]) -> None:
        self._names = texts_array(list(names))
        self._ids = {name: number for number, name in enumerate(names)}
        self._numbers = {}
        self._pool = None

    def table(
        self,
        pieces: list[tuple[Family, Changes]],
        time: tuple[clock.Kind | None, pa.DataType],
        names: Iterable[str] = (),
    ) -> pa.Table:
        kind, type_ = time
        if not pieces:
            return self._empty_table(type_)
        if self._names is None:
            self._name(names)
        n = sum([len(changes.rank) for _, changes in pieces])
        stamps = None if kind is None else self._stamps(pieces, kind, type_)
        pool = self._room(n, type_, stamps is not None)
        table = pool.write(pieces, [self._numbers_of(group) for group, _ in pieces], stamps)
        if kind is not None and stamps is None:
            table = table.set_column(7, "time", self._times(pieces, kind, type_))
        if all([changes.seq_b is None and changes.id is None for _, changes in pieces]):
            return table
        return self._named(table, pieces)

    def pool(
        self, names: Iterable[str], room: int = 0, type_: pa.DataType = TIMELESS[1], stamped: bool = False
    ) -> Pool:
        """Return the pool of changes, with room for so many if they are not very many."""
        if self._names is None:
            self._name(names)
        pool = self._pool
        if (
            pool is None
            or pool.used + min(room, _ROWS // 4) > pool.rows
            or (pool.time, pool.stamped)
            != (
                type_,
                stamped,
            )
        ):
            pool = self._pool = self._fresh(type_, stamped)
        return pool

    def _fresh(self, type_: pa.DataType, stamped: bool) -> Pool:
        """Return a pool that nothing was handed out of, in place of the one that there is."""
        if self._pool is not None:
            self._pool.retire()
            self._retired = [*self._retired[-1:], self._pool]
        free = next((pool for pool in reversed(self._retired) if pool.is_free()), None)
        if free is not None:
            self._retired.remove(free)
        return Pool(_ROWS, self._names, type_, stamped, None if free is None else free.memory)

    def _named(self, table: pa.Table, pieces: list[tuple[Family, Changes]]) -> pa.Table:
        """Return the same, where some are pairs, which have two seqs, or objects, which have an id instead."""
        seqs, seqs_b, ids = [], [], []
        for _, changes in pieces:
            n = len(changes.rank)
            object_ = changes.id is not None
            seqs.append(pa.nulls(n, pa.int64()) if object_ else numbers_array(changes.seq))
            seqs_b.append(pa.nulls(n, pa.int64()) if changes.seq_b is None else numbers_array(changes.seq_b))
            ids.append(pa.array(changes.id, pa.string()) if object_ else pa.nulls(n, pa.string()))
        for place, parts in ((4, seqs), (5, seqs_b), (6, ids)):
            table = table.set_column(place, COLUMNS[place], pa.chunked_array(parts))
        return table

    def _room(self, n: int, type_: pa.DataType, stamped: bool) -> Pool:
        """Return a pool with room for n changes; one of their own for very many."""
        if n > _ROWS // 4:
            return Pool(n + 8, self._names, type_, stamped)  # never handed out whole: see above
        pool = self._pool
        if pool is None or pool.used + n > pool.rows or pool.time != type_ or pool.stamped != stamped:
            pool = self._pool = self._fresh(type_, stamped)
        return pool

    @staticmethod
    def _stamps(pieces: list[tuple[Family, Changes]], kind: clock.Kind, type_: pa.DataType) -> Any:
        """Return event times as the memory of a pool has them; None where they need a column of their own."""
        if not all([group.timed for group, _ in pieces]):
            return None
        keys = (
            pieces[0][1].time if len(pieces) == 1 else np.concatenate([changes.time for _, changes in pieces])
        )
        return clock.stamps(keys, kind, type_)

    def _times(self, pieces: list[tuple[Family, Changes]], kind: clock.Kind, type_: pa.DataType) -> pa.Array:
        """Event times; rows of a stream without a time column have none."""
        stamp: Ints = (
            pieces[0][1].time if len(pieces) == 1 else np.concatenate([changes.time for _, changes in pieces])
        )
        column = clock.column(stamp, kind, type_)
        if all(group.timed for group, _ in pieces):
            return column
        timed = np.concatenate([np.full(len(changes.seq), group.timed) for group, changes in pieces])
        return pc.if_else(numbers_array(timed), column, pa.nulls(len(stamp), type_))

    def _empty_table(self, type_: pa.DataType) -> pa.Table:
        """Most steps change nothing."""
        if self._empty is None or self._empty.schema.field("time").type != type_:
            self._empty = _schema(type_).empty_table()
        return self._empty

    def _numbers_of(self, group: Any) -> Any:
        """Return the number of each of the family's watches among all watches' names."""
        ids = self._numbers.get(id(group))
        if ids is None or len(ids) != len(group.watches):
            ids = np.array([self._ids[watch.name] for watch in group.watches], dtype=np.int32)
            self._numbers[id(group)] = ids
        return ids
