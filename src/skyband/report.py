"""The change table: one step's changes of all watches as Arrow columns, with no Python per change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.group import Group
from skyband.order import Ints
from skyband.stream import clock
from skyband.stream.arrow import numbers_array, texts_array
from skyband.structures.board import Changes

_WORDS = texts_array(["leave", "enter"])
_BLANK = 16_384
COLUMNS = ["query", "change", "rank", "score", "seq", "seq_b", "id", "time"]


class Report:
    """Builds change tables; knows the watches' names."""

    def __init__(self) -> None:
        self._names: pa.Array | None = None  # the watches' names, until one comes or goes
        self._ids: dict[str, int] = {}
        self._numbers: dict[int, Any] = {}  # the numbers of each family's watches' names
        self._empty: pa.Table | None = None
        self._no_seq = pa.nulls(_BLANK, pa.int64())
        self._no_id = pa.nulls(_BLANK, pa.string())

    def forget(self) -> None:
        """Watches came or went."""
        self._names = None

    def _name(self, names: Iterable[str]) -> None:
        self._names = texts_array(list(names))
        self._ids = {name: number for number, name in enumerate(names)}
        self._numbers = {}

    def table(
        self,
        pieces: list[tuple[Group, Changes]],
        time: tuple[clock.Kind | None, pa.DataType],
        names: Iterable[str] = (),
    ) -> pa.Table:
        kind, type_ = time
        if not pieces:
            return self._empty_table(type_)
        if self._names is None:
            self._name(names)
        query, rank, score, stamp, seq = self._columns(pieces)
        n = len(seq)
        if n > len(self._no_seq):
            self._no_seq, self._no_id = pa.nulls(2 * n, pa.int64()), pa.nulls(2 * n, pa.string())
        entering = rank > 0
        arrays = [
            pa.DictionaryArray.from_arrays(numbers_array(query), self._names, safe=False),
            pa.DictionaryArray.from_arrays(numbers_array(entering.astype(np.int32)), _WORDS, safe=False),
            numbers_array(rank, ~entering),
            numbers_array(score),
            numbers_array(seq),
            self._no_seq.slice(0, n),
            self._no_id.slice(0, n),
            self._times(pieces, stamp, kind, type_),
        ]
        return pa.Table.from_arrays(arrays, names=COLUMNS)

    def _times(
        self, pieces: list[tuple[Group, Changes]], stamp: Ints, kind: clock.Kind | None, type_: pa.DataType
    ) -> pa.Array:
        """Event times; rows of a stream without a time column have none."""
        if kind is None:
            return pa.nulls(len(stamp), type_)
        column = clock.column(stamp, kind, type_)
        if all(group.timed for group, _ in pieces):
            return column
        timed = np.concatenate([np.full(len(changes.seq), group.timed) for group, changes in pieces])
        return pc.if_else(numbers_array(timed), column, pa.nulls(len(stamp), type_))

    def _empty_table(self, type_: pa.DataType) -> pa.Table:
        """Most steps change nothing."""
        if self._empty is None or self._empty.schema.field("time").type != type_:
            word = pa.dictionary(pa.int32(), pa.string())
            types = [word, word, pa.int32(), pa.float64(), pa.int64(), pa.int64(), pa.string(), type_]
            self._empty = pa.schema(list(zip(COLUMNS, types, strict=True))).empty_table()
        return self._empty

    def _columns(self, pieces: list[tuple[Group, Changes]]) -> tuple[Any, ...]:
        columns = []
        for group, changes in pieces:
            ids = self._numbers.get(id(group))
            if ids is None or len(ids) != len(group.watches):
                ids = np.array([self._ids[watch.name] for watch in group.watches], dtype=np.int32)
                self._numbers[id(group)] = ids
            score = changes.good if group.sign > 0 else np.negative(changes.good)
            columns.append(
                (ids[changes.watch], changes.rank.astype(np.int32), score + 0.0, changes.time, changes.seq)
            )
        if len(columns) == 1:
            return columns[0]
        return tuple(np.concatenate(parts) for parts in zip(*columns, strict=True))
