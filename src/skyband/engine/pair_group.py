"""Families of questions about pairs of rows.

A family is one score and predicate of two rows; its watches share one state, whatever their k, window and beginning:
what `scase` keeps for the greatest of each answers for all. Both orientations of a pair are tried against WHERE. If one
fits it is taken, if both do `a` is the older row; the score is that of the orientation. Columns that are selected are
put aside by the stream for as long as its longest window lasts, as for every algorithm that keeps the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.algorithms import PAIRS
from skyband.algorithms.pairs.pair_base import Couples, Partners, Question
from skyband.algorithms.pairs.ranks import array_of
from skyband.algorithms.pairs.sharded_scase import Halves
from skyband.core.errors import QueryError
from skyband.core.exchange import PAIR, Changes, Entries, Present
from skyband.core.order import inside
from skyband.core.types import Ints, Recency
from skyband.engine.answers import Answers
from skyband.engine.protocol import Family, Step
from skyband.engine.watch import Watch
from skyband.query.expression import Column, evaluate, nodes, unknown_column
from skyband.query.expression.check import check_condition, check_score
from skyband.query.expression.nodes import Expression
from skyband.query.expression.pairing import RANKED, Leaf, Pairing, pairing
from skyband.query.model import Output, Pairs, Rows
from skyband.stream.arrow import numbers_array, values_of
from skyband.stream.batches import Batch, View
from skyband.stream.payloads import recast
from skyband.stream.widening import nanoseconds_in

Share = tuple[int, int] | None  # of all pairs: which part, of how many


class PairGroup(Family):
    """The watches of one score and predicate of two rows."""

    def __init__(self, query: Pairs, algorithm: str, options: dict[str, float], share: Share = None) -> None:
        self.key = pair_family(query, algorithm, options)
        self.query = query
        self.sign = 1.0 if query.descending else -1.0
        self.algorithm_name, self.options = algorithm, options
        self.used = used_columns(query)
        question = Question(query.score, query.where, query.same, self.sign, self.used)
        self.algorithm: Any = (
            PAIRS[algorithm](options, question) if share is None else Halves({}, question, *share)
        )
        # Selected columns are put aside for as long as the window lasts; of a share, for the rows that are kept.
        self.windowed = share is None
        self.watches: list[Watch] = []
        self.answers = Answers(PAIR)

    # -- watches -------------------------------------------------------------------------------------------

    def cast_to(self, schema: pa.Schema) -> dict[str, Any] | None:
        """Return the algorithm's state with its rows in the types of a schema; None if it has them, or no rows.

        An error if what is kept of the rows is not enough to decide.
        """
        kept = self.algorithm.rows.schema
        types = None if kept is None else pa.schema([schema.field(name) for name in kept.names])
        if types is None or types == kept:
            return None
        blob: dict[str, Any] = self.algorithm.dump()
        return {**blob, "rows": _cast_rows(blob["rows"], self.algorithm.question, types)}

    def cast(self, schema: pa.Schema) -> None:
        """Columns have other types now."""
        blob = self.cast_to(schema)
        if blob is not None:
            self.algorithm = PAIRS[self.algorithm_name](self.options, self.algorithm.question)
            self.algorithm.load(blob)

    def attach(self, watch: Watch) -> None:
        watch.group, watch.slot = self, 0
        self.watches.append(watch)
        self.answers.add(0)
        self._fit()

    def detach(self, watch: Watch) -> None:
        index = self.watches.index(watch)
        del self.watches[index]
        self.answers.remove(index)

    def update(self, watch: Watch) -> None:
        self._fit()

    def _fit(self) -> None:
        """As many ranks as the watch that wants most."""
        most = max(watch.capacity for watch in self.watches)
        if most > self.algorithm.k:
            self.algorithm.k = most
            self.algorithm.rebuild()

    def notes(self) -> list[str]:
        return list(self.algorithm.notes())

    def live_seqs(self) -> Ints:
        return np.asarray(self.algorithm.seq)

    # -- a step --------------------------------------------------------------------------------------------

    def step(self, step: Step) -> Changes | None:
        edges = [max(step.horizons[watch.window], watch.beginning) for watch in self.watches]
        self.oldest = min(edges)
        self.algorithm.expire(self.oldest)
        if step.batch is not None:
            step.mark[:] = 1
            self._add(step.batch)
        return self._compare(edges)

    def _add(self, batch: Batch, unknown: Any = None) -> None:
        """Rows with a value in every column that is used, from the oldest horizon on."""
        view = View(batch).where(self.used, None)
        place = (np.arange(len(batch)) if view.index is None else view.index)[::-1]
        time, seq = batch.time[place], batch.seq[place]
        chosen = inside(time, seq, self.oldest)
        if unknown is not None:
            chosen &= unknown(seq)
        kept = np.flatnonzero(chosen)
        arrays = [batch.array(name).take(numbers_array(place[kept])) for name in self.used]
        self.algorithm.add(pa.Table.from_arrays(arrays, names=list(self.used)), time[kept], seq[kept])

    def refill(self, slot: int, batch: Batch, stream: int = 0) -> Ints:
        """Add retained rows that aren't there, with all their pairs."""
        known = self.algorithm.seq
        self.oldest = min(watch.horizon() for watch in self.watches)
        self._add(batch, lambda seq: ~np.isin(seq, known))
        return np.asarray(self.algorithm.seq).copy()

    def _compare(self, edges: list[Recency]) -> Changes | None:
        ranks_of = [watch.ranks(horizon) for watch, horizon in zip(self.watches, edges, strict=True)]
        found = self.tops([(0, *each) for each in zip(ranks_of, edges, strict=True)])
        columns: list[Any] = [
            np.concatenate(arrays) for arrays in zip(*(each[:5] for each in found), strict=True)
        ]
        sizes = np.array([len(each.seq) for each in found], dtype=np.int64)
        return self.answers.compare(
            Present(np.arange(len(sizes)), np.cumsum(sizes) - sizes, sizes, 1, *columns)
        )

    # -- answers -------------------------------------------------------------------------------------------

    def top(self, slot: int, k: int | None, horizon: Recency) -> Entries:
        found: Entries = self.algorithm.best(k or 0, horizon)
        return found

    def tops(self, asked: Sequence[tuple[int, int | None, Recency]]) -> list[Entries]:
        return list(self.algorithm.tops([(k or 0, edge) for _, k, edge in asked]))

    # -- keeping -------------------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        reported = [self.answers.of(index) for index in range(len(self.watches))]
        return {
            "algorithm": self.algorithm.dump(),
            "told": [[found.good, found.time, found.seq, found.seq_b] for found in reported],
        }

    def load(self, blob: dict[str, Any], watches: list[Any], slots: list[int]) -> None:
        self.algorithm.load(blob["algorithm"])
        self.watches = watches
        rows = self.algorithm.rows
        seqs, times = rows.column("seq"), rows.column("time")
        order = np.argsort(seqs)

        def time_of(seq: Ints) -> Ints:
            return times[order[np.searchsorted(seqs, seq, sorter=order)]] if len(seq) else seq

        self.answers.put([Entries(good, time, a, time_of(b), b) for good, time, a, b in blob["told"]])
        for watch in watches:
            watch.group, watch.slot = self, 0

    def _check(self) -> None:
        self.algorithm._check()
        assert len(self.answers.size) == len(self.watches)
        self.answers._check()
        assert self.algorithm.k >= max(watch.capacity for watch in self.watches)


class PairWatch(Watch):
    """A standing question about pairs. Made by `Monitor.watch`."""

    def _chosen_of(self, found: Entries) -> list[tuple[Output, Any]]:
        assert found.seq_b is not None
        newer: list[tuple[Output, Any]] = [(Output("seq_b", Column("seq_b")), numbers_array(found.seq_b))]
        return newer + self._chosen(found.seq, found.seq_b)

    def _chosen(self, seq: Ints, seq_b: Ints) -> list[tuple[Output, Any]]:
        """Return the selected columns of pairs, given by their older and newer rows."""
        schema = self._stream.schema
        if schema is None:
            return [(output, pa.nulls(0)) for output in self.outputs()]
        needed = self._needed(schema)
        rows = pa.concat_tables([self._values(part, *needed) for part in (seq, seq_b)]).combine_chunks()
        older, newer = np.arange(len(seq)), np.arange(len(seq), 2 * len(seq))
        fits = np.ones(len(seq), dtype=bool)
        if self.query.where is not None and len(seq):
            fits = np.asarray(
                evaluate(self.query.where, Couples(rows, {}, older, newer, len(seq))), dtype=bool
            )
        couples = Couples(rows, {}, np.where(fits, older, newer), np.where(fits, newer, older), len(seq))
        found: list[tuple[Output, Any]] = []
        for output in self.outputs():
            if isinstance(output.value, Column):
                found.append((output, couples.array(output.value.key)))
            else:
                found.append((output, couples.computed(output.value)))
        return found

    def outputs(self) -> tuple[Output, ...]:
        if self.query.select is not None:
            return self.query.select
        schema = self._stream.schema
        names = schema.names if schema is not None else ()
        return tuple(Output(f"{side}.{name}", Column(name, side)) for side in "ab" for name in names)

    def needs(self) -> set[str]:
        values = [output.value for output in self.outputs()]
        return {node.name for value in values for node in nodes.walk(value) if isinstance(node, Column)} | {
            *self._pair_columns()
        }

    def _pair_columns(self) -> tuple[str, ...]:
        """Return what is needed to decide which row is a."""
        if self.query.where is None:
            return ()
        return tuple(sorted({node.name for node in nodes.walk(self.query.where) if isinstance(node, Column)}))

    def provided(self) -> set[str]:
        return set()

    def selected(self, top: pa.Table) -> pa.Table:
        outputs = self.outputs()
        own = [i for i, o in enumerate(outputs) if o.name == "score" and o.value == self.query.score]
        columns = top.columns[4:]
        for i in own:
            columns.insert(i, top.column("score"))
        return pa.table(columns, names=[output.name for output in outputs])


def used_columns(query: Pairs) -> tuple[str, ...]:
    """Return the columns of a row that the score and the predicate use, on either side."""
    parts = [part for part in (query.score, query.where) if part is not None]
    return tuple(
        sorted({node.name for part in parts for node in nodes.walk(part) if isinstance(node, Column)})
    )


def check_pairs(query: Pairs, schema: pa.Schema) -> None:
    """Whether a stream has the query's columns, in types that fit; a type not known yet fits."""
    outputs = [output.value for output in query.select or ()]
    for part in (query.score, query.where, *outputs):
        for node in nodes.walk(part) if part is not None else ():
            if isinstance(node, Column) and node.name not in schema.names:
                raise unknown_column(node.name, schema.names, node.place)
    both = pa.schema([(f"{side}.{field.name}", field.type) for side in "ab" for field in schema])
    check_score(_plainly(query.score), both, query.score)
    if query.where is not None:
        check_condition("WHERE", _plainly(query.where), both, query.where)


def _plainly(e: Expression) -> Expression:
    """Columns with their side as part of the name."""
    if isinstance(e, Column):
        return Column(e.key, None, e.place)
    return nodes.rebuild(e, tuple(_plainly(part) for part in nodes.children(e)))


def pair_family(query: Pairs, algorithm: str, options: dict[str, float]) -> tuple[Any, ...]:
    """Queries with equal keys are one family: equal but for k, window and what is selected."""
    return replace(query, k=1, window=Rows(1), select=None), algorithm, tuple(sorted(options.items()))


def _cast_rows(blob: dict[str, Any], question: Question, schema: pa.Schema) -> dict[str, Any]:
    """Dumped rows as they would be dumped if their columns had other types, which hold their values.

    Rows are kept as leaves (query/expression/pairing.py), of which other types may need other ones.
    """
    before = blob["schema"].schema
    if blob["table"] is not None:
        rows = Partners(question)
        rows.begin(schema)
        rows.append(recast(blob["table"], {f.name: f.type for f in schema}), blob["time"], blob["seq"])
        return rows.dump()
    old, new = (pairing(question.score, question.where, question.same, types) for types in (before, schema))
    leaves: list[Any] = []
    codes, ranks = {}, {}
    for leaf in () if new is None else new.leaves:
        ranked = _ranked_values(blob, old, leaf)
        if ranked is not None and leaf.kind in RANKED and isinstance(leaf.value, Column):
            number, table = ranked
            values = table.column("value").cast(schema.field(leaf.value.name).type)
            ranks[str(len(leaves))] = table.set_column(1, "value", values)
            leaves.append(number)
            continue
        if ranked is not None and leaf.kind == "number":
            number, table = ranked
            leaves.append(values_of(array_of(table, number).cast(pa.float64())))
            continue
        own = old.leaves.index(leaf) if old is not None and leaf in old.leaves else None
        exact = replace(leaf, kind="exact")
        if own is None and leaf.kind == "number" and old is not None and exact in old.leaves:
            leaves.append(blob["leaves"][old.leaves.index(exact)].astype(np.float64))
            continue
        if own is None:
            new = None
            break
        values = blob["leaves"][own]
        names = [leaf.value.name] if isinstance(leaf.value, Column) else []
        if leaf.kind == "exact":
            values = values * _factor(before.field(names[0]).type, schema.field(names[0]).type)
        elif leaf.kind == "code":
            codes[str(len(leaves))] = _cast_codes(blob["codes"][str(own)], names, before, schema)
        leaves.append(values)
    if new is None:
        raise QueryError("Pairs that compare this column keep no more of it than its type needs.")
    colours = _cast_codes(blob["colours"], list(question.same), before, schema)
    kept = {"leaves": leaves, "codes": codes, "ranks": ranks, "colours": colours}
    return {**blob, "schema": schema.empty_table(), **kept}


def _ranked_values(blob: dict[str, Any], old: Pairing | None, leaf: Leaf) -> tuple[Ints, pa.Table] | None:
    """Return a dumped leaf as ranks with their values, if it has the same values as this one."""
    for own, other in enumerate(() if old is None else old.leaves):
        if other.value == leaf.value and other.kind in RANKED:
            return blob["leaves"][own], blob["ranks"][str(own)]
    exact = replace(leaf, kind="exact")
    if leaf.kind == "numbers" and old is not None and exact in old.leaves:
        numbers = blob["leaves"][old.leaves.index(exact)]
        some = np.unique(numbers)
        return numbers, pa.table({"rank": some, "value": some})
    return None


def _cast_codes(table: pa.Table | None, names: list[str], old: pa.Schema, new: pa.Schema) -> pa.Table | None:
    """Dumped values with their codes, in other types; times are kept as whole numbers of their unit."""
    if table is None:
        return None
    for place, name in enumerate(names):
        was, type_ = old.field(name).type, new.field(name).type
        if was != type_:
            values = table.column(str(place)).cast(was)
            values = pc.cast(values, type_, safe=False)
            kept = values.cast(pa.int64()) if pa.types.is_timestamp(type_) else values
            table = table.set_column(1 + place, str(place), kept)
    return table


def _factor(old: pa.DataType, new: pa.DataType) -> int:
    """Return how many of the new type's units one of the old type's has."""
    return 1 if not pa.types.is_temporal(new) else nanoseconds_in(old) // nanoseconds_in(new)
