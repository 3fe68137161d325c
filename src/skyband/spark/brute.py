"""The brute force that `skyband verify` compares with: keep the window, sort it.

It shares the parser of queries and the evaluation of expressions with the engine, and none of what makes the
engine quick: no skybands, no shared state, no pruning. Rows that lie outside every window are forgotten, so that
a long history fits into memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..files.rows import Chunk
from ..query.expression import columns_of, evaluate
from ..query.model import Last, Threshold, TopK
from ..stream import clock
from ..stream.arrow import python_rows, python_value
from ..stream.batches import numbers
from ..stream.schema import fit

Ints = npt.NDArray[np.int64]
_BEFORE = (-(2**63), -1)  # older than any row


class _Columns:
    """A table as `evaluate` wants it."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def number(self, name: str) -> npt.NDArray[np.float64]:
        return np.ascontiguousarray(numbers(self._table.column(name)))

    def array(self, name: str) -> pa.Array:
        column = self._table.column(name)
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


@dataclass
class _Stream:
    """The rows of a stream that some window may still see."""

    schema: pa.Schema
    time: str | None
    kind: clock.Kind | None
    table: pa.Table
    seq: Ints
    times: Ints
    newest: tuple[int, int] = _BEFORE


@dataclass(frozen=True)
class _Watch:
    query: TopK | Threshold
    stream: str
    beginning: tuple[int, int]


@dataclass(frozen=True)
class Ranked:
    """One place of an answer."""

    seq: int
    score: float
    row: dict[str, Any] | None


class Brute:
    """Streams and queries answered by sorting."""

    def __init__(self, schemas: Mapping[str, pa.Schema], times: Mapping[str, str | None]) -> None:
        self._streams: dict[str, _Stream] = {}
        for name, schema in schemas.items():
            time = times.get(name)
            kind = clock.kind_of(schema.field(time).type, time) if time is not None else None
            none = np.zeros(0, np.int64)
            self._streams[name] = _Stream(schema, time, kind, schema.empty_table(), none, none)
        self._watches: dict[str, _Watch] = {}
        self._now: int | None = None
        self._next = 0
        self.unfit: dict[
            int, str
        ] = {}  # seq and reason of the rows of the last step that have no type or no time

    def watch(self, name: str, query: TopK | Threshold) -> None:
        """Ask from now on."""
        stream = query.stream if query.stream in self._streams else next(iter(self._streams))
        assert stream is not None
        self._watches[name] = _Watch(query, stream, self._streams[stream].newest)

    def drop(self, name: str) -> None:
        """Ask no more."""
        del self._watches[name]

    def push(self, rows: list[tuple[str, Chunk]]) -> None:
        """Take the rows of one step."""
        self.unfit = {}
        latest = []
        for name, chunk in rows:
            stream = self._streams[name]
            seq, times, table = self._accept(stream, chunk)
            if len(seq):
                stream.table = pa.concat_tables([stream.table, table])
                stream.seq = np.concatenate([stream.seq, seq])
                stream.times = np.concatenate([stream.times, times])
                last = np.lexsort((seq, times))[-1]
                stream.newest = max(stream.newest, (int(times[last]), int(seq[last])))
                if stream.time is not None:
                    latest.append(int(times.max()))
        if latest:
            self._now = max(latest) if self._now is None else max(self._now, *latest)
        for name, stream in self._streams.items():
            self._forget(name, stream)

    def top(self, name: str, with_rows: bool = False) -> list[Ranked]:
        """An answer, best first."""
        watch = self._watches[name]
        query, stream = watch.query, self._streams[watch.stream]
        inside = self._window(watch, stream)
        used = set(columns_of(query.score)) | (
            set(columns_of(query.where)) if query.where is not None else set()
        )
        table = stream.table.take(pa.array(inside))
        inside = inside[self._usable(table, used)]
        table = stream.table.take(pa.array(inside))
        if query.where is not None and len(inside):
            holds = np.asarray(evaluate(query.where, _Columns(table)), dtype=bool)
            inside, table = inside[holds], table.filter(pa.array(holds))
        if not len(inside):
            return []
        scores = np.asarray(evaluate(query.score, _Columns(table)), dtype=np.float64)
        sign = -1.0 if query.descending else 1.0
        order = np.lexsort((-stream.seq[inside], -stream.times[inside], sign * scores))
        order = order[~np.isnan(scores[order])]
        if isinstance(query, TopK):
            order = order[: query.k]
        shown = self._select(query, table.take(pa.array(order))) if with_rows else [None] * len(order)
        return [
            Ranked(int(stream.seq[inside[at]]), float(scores[at]), row)
            for at, row in zip(order, shown, strict=True)
        ]

    def _accept(self, stream: _Stream, chunk: Chunk) -> tuple[Ints, Ints, pa.Table]:
        """Number the rows; leave out those without a type or a time. Late ones can do no harm and stay."""
        bad = {row.position for row in chunk.bad}
        places = np.array([p for p in range(chunk.count) if p not in bad], np.int64)
        seq = self._next + places
        self.unfit.update({self._next + place: "type" for place in bad})
        self._next += chunk.count
        table, misfits = fit(
            dict(zip(chunk.table.column_names, chunk.table.columns, strict=True)), len(seq), stream.schema
        )
        good = np.ones(len(seq), bool)
        for row in misfits:
            good[row] = False
            self.unfit[int(seq[row])] = "type"
        times = np.zeros(len(seq), np.int64)
        if stream.time is not None and stream.kind is not None and len(seq):
            column = table.column(stream.time)
            times, missing = clock.keys_of(pa.concat_arrays(column.chunks), stream.kind)
            self.unfit.update({int(s): "time" for s in seq[missing & good]})
            good &= ~missing
        return seq[good], times[good], table.filter(pa.array(good))

    def _window(self, watch: _Watch, stream: _Stream) -> Ints:
        """Positions of the rows in a watch's window."""
        time, seq = watch.beginning
        newer = (stream.times > time) | ((stream.times == time) & (stream.seq > seq))
        window = watch.query.window
        if isinstance(window, Last):
            if self._now is None or stream.kind is None:
                return np.zeros(0, np.int64)
            horizon = clock.minus(self._now, window.nanoseconds, stream.kind)
            return np.flatnonzero(newer & (stream.times >= horizon))
        places = np.flatnonzero(newer)
        order = np.lexsort((stream.seq[places], stream.times[places]))
        return np.sort(places[order[-window.n :]])

    def _forget(self, name: str, stream: _Stream) -> None:
        keep = np.zeros(len(stream.seq), bool)
        for watch in self._watches.values():
            if watch.stream == name:
                keep[self._window(watch, stream)] = True
        if keep.sum() <= len(keep) // 2:  # not at every step: copying costs more than looking
            stream.table = stream.table.filter(pa.array(keep)).combine_chunks()
            stream.seq, stream.times = stream.seq[keep], stream.times[keep]

    def _usable(self, table: pa.Table, names: set[str]) -> npt.NDArray[np.bool_]:
        usable = np.ones(table.num_rows, bool)
        for name in names:
            column = table.column(name)
            usable &= np.asarray(column.is_valid())
            if pa.types.is_floating(column.type):
                usable &= ~np.isnan(numbers(column))
        return usable

    def _select(self, query: TopK | Threshold, table: pa.Table) -> list[dict[str, Any]]:
        """The selected columns of an answer's rows."""
        from ..query.nodes import Column

        if query.select is None:
            return python_rows(table)
        values = []
        for output in query.select:
            if isinstance(output.value, Column):
                values.append([python_value(value) for value in table.column(output.value.name)])
            else:
                # Null where an operand has no value, as in every other answer.
                known = self._usable(table, set(columns_of(output.value))).tolist()
                found = np.asarray(evaluate(output.value, _Columns(table))).tolist()
                values.append([value if there else None for value, there in zip(found, known, strict=True)])
        names = [output.name for output in query.select]
        return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]
