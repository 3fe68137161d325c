"""What an answer is, kind by kind, by doing what the words say and sorting.

Rows: evaluate, choose, sort. Pairs: all of them, both ways round. Objects of a grouped query: gather a key's rows, add
them up with math.fsum; of a joined one the same for each stream, and 0 where a stream has no row of it. Nothing is kept
from one answer to the next, so this costs the window (its square for pairs) at every batch, and can't drift.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.query.aggregates import COUNTED, row_columns, split
from skyband.query.expression import columns_of, evaluate
from skyband.query.expression.nodes import Column, Expression, walk
from skyband.query.model import Grouped, Joined, Output, Pairs, Query, Threshold, TopK
from skyband.stream.arrow import python_value
from skyband.stream.batches import flat, numbers
from skyband.stream.key_text import array_ids, text_ids

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_PAIRS = 1 << 18  # so many pairs are looked at at once


@dataclass(frozen=True)
class Part:
    """The live rows of one stream in a window, oldest first."""

    stream: str
    table: pa.Table
    times: Ints
    seq: Ints

    def take(self, places: Ints) -> Part:
        return Part(self.stream, self.table.take(pa.array(places)), self.times[places], self.seq[places])


@dataclass(frozen=True)
class Ranked:
    """One place of an answer: a row, a pair (seq is its older row's) or an object."""

    seq: int | None
    score: float
    row: dict[str, Any] | None
    seq_b: int | None = None
    id: str | None = None
    time: int | None = (
        None  # its key: of a row, of a pair's older row, of an object's latest; None if there is none
    )
    latest: int | None = None  # of an object, the seq of its latest row

    @property
    def entry(self) -> tuple[int | None, int | None, int | None, float]:
        """What distinguishes entries: an object whose score or latest row has changed leaves and enters."""
        return (self.seq, self.seq_b, self.latest, self.score)

    @property
    def who(self) -> tuple[int | None, int | None, str | None]:
        return (self.seq, self.seq_b, self.id)


class _Source:
    """Columns of numbers and arrays by name, as `evaluate` wants them."""

    def __init__(self, n: int, arrays: Mapping[str, Any]) -> None:
        self._n, self._arrays = n, arrays

    def __len__(self) -> int:
        return self._n

    def number(self, name: str) -> Floats:
        return np.ascontiguousarray(numbers(self._arrays[name]))

    def array(self, name: str) -> pa.Array:
        column = self._arrays[name]
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

    def selected(self, outputs: Sequence[tuple[str, Expression]]) -> list[dict[str, Any]]:
        """The selected columns of all rows; null where an operand of an expression has no value."""
        values: list[list[Any]] = []
        for _, value in outputs:
            if isinstance(value, Column):
                values.append([python_value(v) for v in self._arrays[value.key]])
            else:
                known = usable(self._n, [self._arrays[name] for name in columns_of(value)]).tolist()
                found = np.asarray(evaluate(value, self)).tolist()
                values.append([v if there else None for v, there in zip(found, known, strict=True)])
        names = [name for name, _ in outputs]
        return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)] or [{}] * self._n


def usable(n: int, columns: Sequence[Any]) -> npt.NDArray[np.bool_]:
    """Which rows have a value in all of some columns."""
    found = np.ones(n, bool)
    for column in columns:
        found &= np.asarray(column.is_valid())
        if pa.types.is_floating(column.type):
            found &= ~np.isnan(numbers(column))
    return found


def answer(query: Query, parts: list[Part], with_rows: bool) -> list[Ranked]:
    """A query's answer over the rows of its window."""
    if isinstance(query, Joined):
        return _joined(query, parts, with_rows)
    if isinstance(query, Grouped):
        return _grouped(query, parts[0], with_rows)
    if isinstance(query, Pairs):
        return _pairs(query, parts[0], with_rows)
    return _rows(query, parts[0], with_rows)


# -- rows ----------------------------------------------------------------------------------------------------


def _source(part: Part) -> _Source:
    return _Source(part.table.num_rows, dict(zip(part.table.column_names, part.table.columns, strict=True)))


def _chosen(part: Part, used: set[str], where: Expression | None) -> Part:
    """The rows that have a value in every column that is used and that WHERE chooses."""
    part = part.take(
        np.flatnonzero(usable(len(part.seq), [part.table.column(name) for name in sorted(used)]))
    )
    if where is not None and len(part.seq):
        part = part.take(np.flatnonzero(np.asarray(evaluate(where, _source(part)), dtype=bool)))
    return part


def _rows(query: TopK | Threshold, part: Part, with_rows: bool) -> list[Ranked]:
    part = _chosen(part, {*columns_of(query.score), *_names(query.where)}, query.where)
    if not len(part.seq):
        return []
    scores = np.asarray(evaluate(query.score, _source(part)), dtype=np.float64)
    order = _order(query, scores, part.times, part.seq)
    best = part.take(order)
    shown: Sequence[Any] = [None] * len(order)
    if with_rows:
        outputs = [(name, Column(name)) for name in part.table.column_names]
        if query.select is not None:
            outputs = [(output.name, output.value) for output in query.select]  # type: ignore[misc]
        shown = _source(best).selected(outputs)
    found = zip(best.seq.tolist(), (scores[order] + 0.0).tolist(), shown, best.times.tolist(), strict=True)
    return [Ranked(seq, score, row, time=time) for seq, score, row, time in found]


def _names(where: Expression | None) -> tuple[str, ...]:
    return () if where is None else columns_of(where)


def _order(query: Any, scores: Floats, *recencies: Ints) -> Ints:
    """Places of the best: better first, then by recencies, newer first; the recency that decides comes first."""
    sign = -1.0 if query.descending else 1.0
    order = np.lexsort((*(-recency for recency in reversed(recencies)), sign * scores + 0.0))
    order = order[~np.isnan(scores[order])]
    k = getattr(query, "k", None)
    return order if k is None else order[:k]


# -- pairs ---------------------------------------------------------------------------------------------------


class _Both(_Source):
    """Pairs of rows: columns a.x and b.x."""

    def __init__(self, table: pa.Table, a: Ints, b: Ints) -> None:
        super().__init__(len(a), {})
        self._table, self._places = table, {"a": pa.array(a), "b": pa.array(b)}
        self._arrays = _Lazy(lambda name: self._column(name))

    def _column(self, name: str) -> pa.Array:
        side, _, column = name.partition(".")
        return self._table.column(column).take(self._places[side])


class _Lazy(dict[str, Any]):
    """Columns that are made when they are asked for."""

    def __init__(self, make: Callable[[str], Any]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, name: str) -> Any:
        found = self[name] = self._make(name)
        return found


def _pairs(query: Pairs, part: Part, with_rows: bool) -> list[Ranked]:
    parts = [e for e in (query.score, query.where) if e is not None]
    used = {node.name for e in parts for node in walk(e) if isinstance(node, Column)}
    part = _chosen(part, used, None)
    older, newer, score, turned = _best_pairs(query, part)
    shown: Sequence[Any] = [None] * len(score)
    if with_rows:
        a, b = np.where(turned, newer, older), np.where(turned, older, newer)
        names = part.table.column_names
        outputs: list[tuple[str, Expression]] = [(f"{s}.{n}", Column(n, s)) for s in "ab" for n in names]
        if query.select is not None:
            outputs = [(output.name, output.value) for output in query.select]
        shown = _Both(part.table, a, b).selected(outputs)
    return [
        Ranked(int(part.seq[i]), float(s) + 0.0, row, seq_b=int(part.seq[j]), time=int(part.times[i]))
        for i, j, s, row in zip(older, newer, score, shown, strict=True)
    ]


def _best_pairs(query: Pairs, part: Part) -> tuple[Ints, Ints, Floats, Any]:
    """Places of the older and the newer row, scores, and whether `a` is the newer one; block by block."""
    none = np.zeros(0, np.int64)
    best: tuple[Any, ...] = (none, none, np.zeros(0), np.zeros(0, bool))
    n, first = len(part.seq), 1
    while first < n:
        last = min(n, first + max(1, _PAIRS // n))
        newer = np.repeat(np.arange(first, last), np.arange(first, last))
        older = np.concatenate([np.arange(j) for j in range(first, last)])
        found = _oriented(query, part, older, newer)
        both = [np.concatenate(arrays) for arrays in zip(best, found, strict=True)]
        i, j = both[0], both[1]
        order = _order(query, both[2], part.times[i], part.seq[i], part.times[j], part.seq[j])
        best = tuple(array[order] for array in both)
        first = last
    return best


def _oriented(query: Pairs, part: Part, older: Ints, newer: Ints) -> tuple[Ints, Ints, Floats, Any]:
    """Pairs that WHERE allows: `a` is the older row if that fits, else the newer one if that does."""
    turned = np.zeros(len(older), bool)
    if query.where is not None:
        straight = np.asarray(evaluate(query.where, _Both(part.table, older, newer)), dtype=bool)
        turned = ~straight & np.asarray(evaluate(query.where, _Both(part.table, newer, older)), dtype=bool)
        fits = np.flatnonzero(straight | turned)
        older, newer, turned = older[fits], newer[fits], turned[fits]
    a, b = np.where(turned, newer, older), np.where(turned, older, newer)
    score = np.asarray(evaluate(query.score, _Both(part.table, a, b)), dtype=np.float64)
    return older, newer, np.broadcast_to(score, len(older)), turned


# -- objects -------------------------------------------------------------------------------------------------


def total(values: Sequence[float]) -> float:
    """Their exact sum, rounded once; infinities as IEEE adds them."""
    infinite = {x for x in values if math.isinf(x)}
    if infinite:
        return math.nan if len(infinite) == 2 else infinite.pop()
    try:
        return math.fsum(values)
    except OverflowError:  # on the way: halves don't
        return 2 * math.fsum(x / 2 for x in values)


_TOGETHER: dict[str, Callable[[list[float]], float]] = {
    "sum": total,
    "max": max,
    "last": lambda values: values[-1],
}


@dataclass
class _Object:
    """Rows with one key: their places by stream, and the recency of the latest."""

    id: str
    key: list[pa.Scalar]
    rows: list[list[int]]
    latest: tuple[int, int]


def _gather(parts: list[Part], key: tuple[str, ...]) -> list[_Object]:
    found: dict[str, _Object] = {}
    for number, part in enumerate(parts):
        keys = [_key_column(part.table.column(name)) for name in key]
        texts = text_ids(keys[0]) if len(keys) == 1 else array_ids(keys).to_pylist()
        for at, recency in enumerate(zip(part.times.tolist(), part.seq.tolist(), strict=True)):
            text = texts[at]
            if text not in found:
                found[text] = _Object(text, [column[at] for column in keys], [[] for _ in parts], recency)
            found[text].rows[number].append(at)
            found[text].latest = max(found[text].latest, recency)
    return list(found.values())


def _key_column(column: pa.ChunkedArray) -> pa.Array:
    """A key's values, among which equal ones look the same: -0.0 equals 0.0."""
    array = flat(column)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_floating(array.type):
        array = pc.add(pc.cast(array, pa.float64()), 0.0).cast(array.type)
    return array


def _ranked(
    query: Grouped | Joined,
    objects: list[_Object],
    columns: Mapping[str, Any],
    score: Expression,
    condition: Expression | None,
    outputs: Sequence[tuple[str, Expression]] | None,
) -> list[Ranked]:
    """Objects with their totals in columns, in order."""
    if not objects:
        return []
    names = query.key if isinstance(query, Grouped) else (query.key,)
    arrays = dict(columns)
    for at, name in enumerate(names):
        arrays[name] = pa.array([o.key[at] for o in objects], objects[0].key[at].type)
    source = _Source(len(objects), arrays)
    scores = np.asarray(evaluate(score, source), dtype=np.float64) + np.zeros(len(objects))
    if condition is not None:
        scores[~np.asarray(evaluate(condition, source), dtype=bool)] = np.nan
    latest = np.array([o.latest for o in objects], np.int64).reshape(-1, 2)
    order = _order(query, scores, latest[:, 0], latest[:, 1])
    rows = None if outputs is None else source.selected(outputs)
    found = []
    for at in order.tolist():
        (time, seq), row = objects[at].latest, None if rows is None else rows[at]
        found.append(Ranked(None, float(scores[at]) + 0.0, row, id=objects[at].id, time=time, latest=seq))
    return found


def _grouped(query: Grouped, part: Part, with_rows: bool) -> list[Ranked]:
    halves = split(query)
    part = _chosen(part, set(row_columns(query)), query.where)
    if not len(part.seq):
        return []
    n = len(part.seq)
    values = [
        np.broadcast_to(np.asarray(evaluate(e, _source(part)), np.float64), n) for e in halves.arguments
    ]
    sound = np.flatnonzero(~np.any([np.isnan(v) for v in values], axis=0)) if values else np.arange(n)
    part, values = part.take(sound), [v[sound] for v in values]
    objects = _gather([part], query.key)
    columns = {COUNTED.key: pa.array([len(o.rows[0]) for o in objects], pa.int64())}
    for number, (kind, argument) in enumerate(halves.aggregates):
        combined = [_TOGETHER[kind](values[argument][o.rows[0]].tolist()) for o in objects]
        columns[f"{COUNTED.side}.{number}"] = pa.array(combined, pa.float64())
    outputs = [(output.name, output.value) for output in halves.outputs] if with_rows else None
    return _ranked(query, objects, columns, halves.score, halves.having, outputs)


def _joined(query: Joined, parts: list[Part], with_rows: bool) -> list[Ranked]:
    expressions = [query.score, *([query.where] if query.where is not None else [])]
    expressions += [output.value for output in query.select or ()]
    nodes = [node for e in expressions for node in walk(e) if isinstance(node, Column)]
    attributes = {(node.name, node.side): None for node in nodes if node.name != query.key}
    own: list[set[str]] = []  # the columns that each stream has
    for at, part in enumerate(parts):
        there = set(part.table.column_names)
        mine = {n for n, side in attributes if side == part.stream or (side is None and n in there)}
        own.append(mine)
        parts[at] = _chosen(part, {query.key, *mine}, None)
    objects = _gather(parts, (query.key,))
    columns: dict[str, Any] = {}
    for name, side in attributes:
        tellers = [at for at, p in enumerate(parts) if side in (None, p.stream) and name in own[at]]
        found = np.zeros(len(objects))
        for at in tellers:
            values = numbers(parts[at].table.column(name))
            for number, thing in enumerate(objects):
                if thing.rows[at]:
                    found[number] += _TOGETHER[query.repeat](values[thing.rows[at]].tolist())
        columns[Column(name, side).key] = pa.array(found)
    outputs: Any = None
    if with_rows:
        shown = query.select or (
            Output(query.key, Column(query.key)),
            *(Output(Column(*one).key, Column(*one)) for one in attributes),
        )
        outputs = [(o.name, _unsided(o.value, query.key)) for o in shown]
    return _ranked(query, objects, columns, query.score, query.where, outputs)


def _unsided(value: Expression, key: str) -> Expression:
    """The key belongs to the object, whichever stream it is written with."""
    return Column(key) if isinstance(value, Column) and value.name == key else value
