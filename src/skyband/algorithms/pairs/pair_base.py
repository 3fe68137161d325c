"""The window's rows as partners: what every algorithm for pairs keeps, and how a row is scored with all of them.

Rows are numbered in order of recency, and lie in runs by colour (key_runs.py) with a column for each leaf of
the query (query/expression/pairing.py). A new row is scored with a range of its run by numpy, or, once enough pairs
have been scored for compiling to pay, by loops generated for the query. Both give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.algorithms.pairs.key_runs import Codes, Pool, shift
from skyband.algorithms.pairs.ranks import Ranks, array_of, renewed
from skyband.core.types import Floats, Ints, Recency
from skyband.query.expression import nodes
from skyband.query.expression.evaluate import evaluate
from skyband.query.expression.nodes import Column, Expression
from skyband.query.expression.pairing import RANKED, Leaf, Pairing, pairing, renders
from skyband.stream.arrow import numbers_array, values_of
from skyband.stream.batches import flat, numbers

# A generated loop takes seconds to compile and is thirty times as fast as numpy: it pays after so many pairs, and
# much sooner if it was compiled before.
COMPILE_AFTER = 50_000_000
COMPILE_KNOWN = 500_000

_KINDS = {"number": np.float64, "exact": np.int64, "flag": np.uint8, "code": np.int64}
_KINDS |= dict.fromkeys(RANKED, np.int64)


@dataclass(frozen=True)
class Question:
    """A score and a predicate of two rows; `sign` turns the score so that more is better."""

    score: Expression
    where: Expression | None
    same: tuple[str, ...]
    sign: float
    used: tuple[str, ...]


class Late(NamedTuple):
    """A late row: its leaves, its run, its recency, and the row itself where the columns are kept."""

    values: list[Any]
    run: int
    time: int
    seq: int
    table: pa.Table | None


class Couples:
    """Pairs as a source of columns `a.x` and `b.x`: places of rows for each side, or one place for all."""

    def __init__(
        self, table: pa.Table, numbered: dict[str, Floats], a: Ints | int, b: Ints | int, n: int
    ) -> None:
        self.table, self.numbered, self.places, self.n = table, numbered, {"a": a, "b": b}, n

    def __len__(self) -> int:
        return self.n

    def number(self, name: str) -> Floats:
        side, _, column = name.partition(".")
        values = self.numbered.get(column)
        if values is None:
            values = self.numbered[column] = numbers(self.table.column(column))
        place = self.places[side]
        return np.full(self.n, values[place]) if isinstance(place, int) else values[place]

    def array(self, name: str) -> pa.Array:
        side, _, column = name.partition(".")
        place = self.places[side]
        index = np.full(self.n, place, dtype=np.int64) if isinstance(place, int) else place
        return flat(self.table.column(column)).take(numbers_array(index))

    def computed(self, value: Expression) -> pa.Array:
        """Compute a selected expression: null where a column that it uses is null."""
        missing = np.zeros(self.n, dtype=bool)
        for node in nodes.walk(value):
            if isinstance(node, Column):
                missing |= values_of(pc.is_null(self.array(node.key), nan_is_null=True))
        return numbers_array(np.asarray(evaluate(value, self)), missing)


class Leaves:
    """One row with a range of partners as a source of columns `a.0`, `b.0` …"""

    def __init__(
        self, pool: Pool, kinds: tuple[Leaf, ...], row: int, low: int, high: int, older: str
    ) -> None:
        self.pool, self.kinds, self.row, self.low, self.high = pool, kinds, row, low, high
        self.partner = older  # whether the partners are side `a`

    def __len__(self) -> int:
        return self.high - self.low

    def number(self, name: str) -> Any:
        side, _, leaf = name.partition(".")
        column = self.pool.columns[int(leaf) + 1]
        if side == self.partner:
            return column[self.low : self.high]
        return np.full(len(self), column[self.row])

    def array(self, name: str) -> pa.Array:
        values = self.number(name)
        is_flag = self.kinds[int(name.partition(".")[2])].kind == "flag"
        return numbers_array(values.astype(bool) if is_flag else values)


class Rows:
    """A table of rows, oldest first, as a source of columns for leaves."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def number(self, name: str) -> Floats:
        return numbers(self.table.column(name))

    def array(self, name: str) -> pa.Array:
        return flat(self.table.column(name))


class Partners:
    """The window's rows, oldest first, numbered `first`, `first` + 1 … before `next`."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.schema: pa.Schema | None = None
        self.pairing: Pairing | None = (
            None  # None: leaves do not suffice, and the columns themselves are kept
        )
        self.rendered = False
        self.copied: list[int] = []  # the leaves that have a float32 copy, for quick tests
        # for each of these, its range so far, rounded outwards so that it seldom changes
        self.between: dict[int, tuple[float, float]] = {}
        self.table: pa.Table | None = None
        self._numbered: tuple[pa.Table | None, dict[str, Floats]] = (None, {})
        self.colours = Codes()
        self.other: int | None = None  # the leaf in which the rows of a pair must differ
        self.codes: dict[int, Codes] = {}
        self.ranks: dict[str, Ranks] = {}  # by kind of leaf
        self.pool = Pool([])
        self.base = self.first = self.next = 0
        self._columns: dict[str, Any] = {
            "time": np.empty(0, dtype=np.int64),
            "seq": np.empty(0, dtype=np.int64),
            "run": np.empty(0, dtype=np.int64),
            "bar": np.empty(0),
        }

    def begin(self, schema: pa.Schema) -> None:
        """Prepare the pool, once the types are known."""
        question = self.question
        self.schema = schema
        self.pairing = pairing(question.score, question.where, question.same, schema)
        leaves = () if self.pairing is None else self.pairing.leaves
        self.rendered = self.pairing is not None and bool(leaves) and renders(self.pairing)
        self.codes = {i: Codes() for i, leaf in enumerate(leaves) if leaf.kind == "code"}
        self.ranks = {leaf.kind: Ranks() for leaf in leaves if leaf.kind in RANKED}
        self.other = None if self.pairing is None or question.same else self.pairing.other()
        if (
            self.rendered
            and self.pairing is not None
            and (self.pairing.where is None or self.pairing.symmetric)
        ):
            self.copied = self.pairing.scored()
            self.between = dict.fromkeys(self.copied, (0.0, 0.0))
        self.pool = Pool([*(_KINDS[leaf.kind] for leaf in leaves), *(np.float32 for _ in self.copied)])
        self.pool.reach(self._runs())

    def _colour(self, run: Ints) -> Ints:
        """Return the colours of some runs."""
        return run

    def _runs(self) -> int:
        """Return how many runs there may be."""
        return max(1, len(self.colours.values))

    # -- rows ----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.next - self.first

    def column(self, name: str) -> Any:
        """Return time, seq or run of all rows."""
        return self._columns[name][self.first - self.base : self.next - self.base]

    @property
    def bar(self) -> Floats:
        """The staircase, from the row numbered `base` on."""
        return np.asarray(self._columns["bar"])

    def number_of(self, horizon: Recency) -> int:
        """Return the number of the first row at or after a horizon."""
        time, seq = self.column("time"), self.column("seq")
        low = int(np.searchsorted(time, horizon.time, side="left"))
        high = int(np.searchsorted(time, horizon.time, side="right"))
        return self.first + low + int(np.searchsorted(seq[low:high], horizon.seq))

    def recency(self, number: Ints) -> tuple[Ints, Ints]:
        return self._columns["time"][number - self.base], self._columns["seq"][number - self.base]

    def expire(self, first: int) -> None:
        """Remove rows before this number."""
        count = first - self.first
        if count <= 0:
            return
        run = self.column("run")[:count]
        places = self.pool.oldest(run) if self.codes else None
        for leaf, codes in self.codes.items():
            codes.release(self.pool.columns[leaf + 1][places])
        self.pool.expire(run)
        if self.question.same:
            self.colours.release(self._colour(run))
        if self.table is not None:
            self.table = self.table.slice(count)
        self.first = first

    def append(self, table: pa.Table, time: Ints, seq: Ints) -> Ints:
        """Append rows that are newer than all others, oldest first; return their places in the pool."""
        n = len(seq)
        self._reach(n)
        values, run = self._taken(table)
        at = self.next - self.base
        for name, new in (("time", time), ("seq", seq), ("run", run), ("bar", np.nan)):
            self._columns[name][at : at + n] = new
        places = self.pool.append(run, [np.arange(self.next, self.next + n), *values])
        self.next += n
        if self.pairing is None:
            self.table = (
                table if self.table is None else pa.concat_tables([self.table, table]).combine_chunks()
            )
        return places

    def late(self, table: pa.Table, time: Ints, seq: Ints) -> Iterator[Late]:
        """Yield rows that are late, one by one; their leaves are computed together."""
        values, run = self._taken(table)
        for i in range(len(seq)):
            own = table.slice(i, 1) if self.pairing is None else None
            yield Late([value[i] for value in values], int(run[i]), int(time[i]), int(seq[i]), own)

    def insert(self, row: Late) -> tuple[int, int]:
        """Insert one late row; return its number and its place."""
        self._reach(1)
        number = self.number_of(Recency(row.time, row.seq))
        at, end = number - self.base, self.next - self.base
        for name, new in (("time", row.time), ("seq", row.seq), ("run", row.run), ("bar", np.nan)):
            column = self._columns[name]
            shift(column, at, end)
            column[at] = new
        place = self.pool.insert(row.run, number, [number, *row.values])
        self.next += 1
        if self.pairing is None and self.table is not None:
            at = number - self.first
            parts = [self.table.slice(0, at), row.table, self.table.slice(at)]
            self.table = pa.concat_tables(parts).combine_chunks()
        return number, place

    def merge(self, table: pa.Table, time: Ints, seq: Ints) -> tuple[Ints, Ints]:
        """Add many rows, late or not: sort all rows again, and number them from zero.

        Return the number of each row, those that were here first, and by number their places.
        """
        values, run = self._taken(table)
        places, kinds = self.pool.places(), [column.dtype for column in self.pool.columns[1:]]
        leaves = [
            np.concatenate([old[places], new]) for old, new in zip(self.pool.columns[1:], values, strict=True)
        ]
        columns = {
            name: np.concatenate([self.column(name), new])
            for name, new in (("time", time), ("seq", seq), ("run", run), ("bar", np.full(len(seq), np.nan)))
        }
        order = np.lexsort((columns["seq"], columns["time"]))
        self._columns = {name: column[order] for name, column in columns.items()}
        self.base, self.first, self.next = 0, 0, len(order)
        runs = len(self.pool.start)
        self.pool = Pool(kinds)
        self.pool.reach(runs)
        numbers = np.arange(len(order))
        at = self.pool.append(self._columns["run"], [numbers, *(leaf[order] for leaf in leaves)])
        if self.pairing is None and self.table is not None:
            whole = pa.concat_tables([self.table, table]).combine_chunks()
            self.table = whole.take(numbers_array(order)).combine_chunks()
        return np.argsort(order), at

    def _taken(self, table: pa.Table) -> tuple[list[Any], Ints]:
        """Return the rows' leaves and runs."""
        source = Rows(table)
        values: list[Any] = []
        ranked = self._ranked(lambda leaf: _column(source, self._leaf(leaf).value))
        for i, leaf in enumerate(self.pairing.leaves if self.pairing is not None else ()):
            if leaf.kind in RANKED:
                values.append(ranked[i])
            elif leaf.kind == "code":
                values.append(self.codes[i].encode([_column(source, leaf.value)]))
            elif leaf.kind == "exact":
                values.append(_whole(_column(source, leaf.value)))
            else:
                values.append(np.asarray(evaluate(leaf.value, source)))
        self._copy(values)
        if not self.question.same:
            return values, np.zeros(len(source), dtype=np.int64)
        run = self.colours.encode([source.array(name) for name in self.question.same])
        self.pool.reach(self._runs())
        return values, run

    def _ranked(self, column: Callable[[int], pa.Array]) -> dict[int, Ints]:
        """Return the ranks of new rows for each leaf that has them, given the values of each leaf."""
        found: dict[int, Ints] = {}
        for kind, ranks in self.ranks.items():
            own = [i for i in range(len(self._leaves())) if self._leaf(i).kind == kind]
            if ranks.is_sparse(len(own) * len(self)):
                places = self.pool.places()
                ranks.keep(np.unique(np.concatenate([self._leaves()[i][places] for i in own])))

            def renew(old: Ints, new: Ints, own: list[int] = own) -> None:
                for i in own:
                    renewed(self._leaves()[i], old, new)

            found.update(zip(own, ranks.encode([column(i) for i in own], renew), strict=True))
        return found

    def _copy(self, values: list[Any]) -> None:
        with np.errstate(over="ignore"):
            for i in self.copied:
                # a row with a NaN makes no pair, in float32 either
                low = float(np.fmin.reduce(values[i], initial=self.between[i][0]))
                high = float(np.fmax.reduce(values[i], initial=self.between[i][1]))
                if (low, high) != self.between[i]:
                    self.between[i] = _rounded(low, high)
                values.append(values[i].astype(np.float32))

    def _reach(self, more: int) -> None:
        """Make room for so many more rows."""
        size, live = len(self._columns["seq"]), len(self)
        if self.next - self.base + more <= size:
            return
        room = size if live + more <= size and self.first - self.base >= live else 2 * (live + more)
        for name, column in self._columns.items():
            moved = column if room == size else np.empty(room, dtype=column.dtype)
            moved[:live] = column[self.first - self.base : self.next - self.base]
            self._columns[name] = moved
        self.base = self.first

    # -- scores --------------------------------------------------------------------------------------------

    def range_of(self, place: int, number: int, later: bool) -> tuple[int, int]:
        """Return the range of a row's partners in the pool: older ones, or newer ones if `later`."""
        run = int(self._columns["run"][number - self.base])
        return (place + 1, int(self.pool.tail[run])) if later else (int(self.pool.head[run]), place)

    def same_since(self, place: Ints) -> Ints:
        """Return where the partners of each of some consecutive rows, the newest of all, end.

        With `a.c <> b.c` the rows just before a row that have its colour are no partners.
        """
        if self.other is None or not len(place):
            return place
        column = self.pool.columns[1 + self.other]
        first, head = int(place[0]), int(self.pool.head[0])
        own = column[first : first + len(place)]
        begin = first
        while begin > head:  # back from the first one, in growing stretches: mostly one suffices
            low = max(head, begin - max(1, 2 * (first - begin)))
            unlike = np.flatnonzero(column[low:begin] != own[0])
            if len(unlike):
                begin = low + int(unlike[-1]) + 1
                break
            begin = low
        starts = np.where(own[1:] != own[:-1], np.arange(first + 1, first + len(place)), begin)
        return np.maximum.accumulate(np.concatenate([[begin], starts]))

    def good(self, place: int, low: int, high: int, later: bool) -> Floats:
        """Return the scores of the pairs of a row with a range of partners, by numpy: NaN where a pair does not fit."""
        question, n = self.question, high - low
        source: Callable[[str], Any]
        if self.pairing is not None:
            score, where = self.pairing.score, self.pairing.where

            def source(side: str) -> Any:
                return Leaves(self.pool, self.pairing.leaves, place, low, high, side)  # type: ignore[union-attr]
        else:
            score, where = question.score, question.where
            source = self._columns_of(place, low, high)
        sides = ("b", "a") if later else ("a", "b")  # a is the older row where that fits
        good = self._turned(evaluate(score, source(sides[0])))
        if where is None:
            return good
        fits = np.asarray(evaluate(where, source(sides[0])), dtype=bool)
        if fits.all():
            return good
        other = np.asarray(evaluate(where, source(sides[1])), dtype=bool)
        turned_good = self._turned(evaluate(score, source(sides[1]))) if other.any() else np.full(n, np.nan)
        return np.where(fits, good, np.where(other, turned_good, np.nan))

    def _columns_of(self, place: int, low: int, high: int) -> Callable[[str], Any]:
        table = self.table
        assert table is not None
        if self._numbered[0] is not table:
            self._numbered = (table, {})
        partners = self.pool.number[low:high] - self.first
        row = int(self.pool.number[place]) - self.first

        def source(side: str) -> Couples:
            a, b = (partners, row) if side == "a" else (row, partners)
            return Couples(table, self._numbered[1], a, b, high - low)

        return source

    def _turned(self, score: Any) -> Floats:
        found = np.asarray(score, dtype=np.float64)
        return found + 0.0 if self.question.sign > 0 else 0.0 - found

    # -- keeping -------------------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        if self.schema is None:
            return {}
        places = self.pool.places()
        return {
            "schema": self.schema.empty_table(),
            **{name: self.column(name).copy() for name in ("time", "seq", "run")},
            "leaves": [column[places] for column in self._leaves()],
            "colours": self.colours.dump(self._types(self.question.same)),
            "codes": {str(i): codes.dump(self._types(self._named(i))) for i, codes in self.codes.items()},
            "ranks": {
                str(i): self.ranks[self._leaf(i).kind].dump(column[places], *self._types(self._named(i)))
                for i, column in enumerate(self._leaves())
                if self._leaf(i).kind in RANKED
            },
            "table": self.table,
        }

    def load(self, blob: dict[str, Any]) -> None:
        if not blob:
            return
        self.begin(blob["schema"].schema)
        table = None if blob["table"] is None else blob["table"].combine_chunks()
        if table is not None and self.pairing is not None:  # written when leaves were not enough for it
            self.append(table, blob["time"], blob["seq"])
            return
        n, run = len(blob["seq"]), blob["run"]
        self._reach(n)
        for name in ("time", "seq", "run"):
            self._columns[name][:n] = blob[name]
        if self.question.same:
            self.colours.load(blob["colours"], self._colour(run))
        for i, codes in self.codes.items():
            codes.load(blob["codes"][str(i)], blob["leaves"][i])
        self.pool.reach(self._runs())
        values = list(blob["leaves"])
        if self.ranks:
            kept = blob["ranks"]
            for i, ranks in self._ranked(lambda i: array_of(kept[str(i)], values[i])).items():
                values[i] = ranks
        self._copy(values)
        self.pool.append(run, [np.arange(n), *values])
        self.table = table
        self.next = n

    def _leaves(self) -> list[Any]:
        return self.pool.columns[1 : 1 + (0 if self.pairing is None else len(self.pairing.leaves))]

    def _leaf(self, leaf: int) -> Leaf:
        assert self.pairing is not None
        return self.pairing.leaves[leaf]

    def _named(self, leaf: int) -> tuple[str, ...]:
        value = self._leaf(leaf).value
        assert isinstance(value, Column)
        return (value.name,)

    def _types(self, names: tuple[str, ...]) -> list[pa.DataType]:
        assert self.schema is not None
        return [self.schema.field(name).type for name in names]

    def nbytes(self) -> int:
        own = sum(int(column.nbytes) for column in self._columns.values())
        return own + self.pool.nbytes() + (0 if self.table is None else int(self.table.nbytes))

    def _check(self) -> None:
        time, seq = self.column("time"), self.column("seq")
        newer = (time[1:] > time[:-1]) | ((time[1:] == time[:-1]) & (seq[1:] > seq[:-1]))
        assert bool(np.all(newer)) and (self.table is None or self.table.num_rows == len(self))
        if self.schema is None:
            return
        self.pool._check()
        places = self.pool.places()
        for i, column in enumerate(self._leaves()):
            if self._leaf(i).kind in RANKED:  # every row's value has its rank
                assert np.isin(column[places], self.ranks[self._leaf(i).kind].ranks).all()
        for ranks in self.ranks.values():
            ranks._check()
        # each row is in the pool once, in its run
        assert np.array_equal(self.pool.number[places], np.arange(self.first, self.next))
        runs = self.column("run")
        assert np.all(places >= self.pool.head[runs]) and np.all(places < self.pool.tail[runs])


def _rounded(low: float, high: float) -> tuple[float, float]:
    """Return a range that contains this one, by steps of an eighth of a power of two."""
    if np.isinf(low) or np.isinf(high) or np.isinf(high - low):
        return -np.inf, np.inf
    step = max(2.0 ** (np.ceil(np.log2(high - low)) - 3), 2.0**-1074)
    return float(np.floor(low / step) * step), float(np.ceil(high / step) * step)


def _column(source: Rows, e: Expression) -> pa.Array:
    return source.array(e.key)  # type: ignore[union-attr]


def _whole(array: pa.Array) -> Ints:
    """Return integers, times or booleans as int64."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    return np.asarray(array.cast(pa.int64()).to_numpy(zero_copy_only=False))
