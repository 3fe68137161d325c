"""A watch: one standing question, its answer at any moment, and its plan.

A watch has a *beginning*, a horizon: its answer is that of a stream that holds only the rows from there on. A
changed window or k may know less than it wants for a while: a larger window starts where the old one did and
grows, a larger k gives the old number of ranks until the rows from before the change have left. `growing`
holds what is missing: pairs (complete from this recency on, ranks until then).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.algorithms import CARDS
from skyband.core.blob import Plain
from skyband.core.errors import QueryError
from skyband.core.exchange import ROW, Entries
from skyband.core.types import Ints, Recency
from skyband.engine.explain import Plan
from skyband.engine.planner import ASSUMED_WINDOW, STAND_IN, Choice
from skyband.engine.protocol import Family, Host, Streamed, Watched
from skyband.engine.stand_in import is_free, meanwhile
from skyband.query.expression import Column, columns_of, evaluate
from skyband.query.model import Last, Output, Rows, Threshold, TopK, Window, window
from skyband.query.serialise import to_dict
from skyband.query.text import to_sql
from skyband.stream.arrow import numbers_array, python_rows, values_of, with_plain_times
from skyband.stream.batches import Batch, View, flat


class Watch:
    """A standing query of a monitor. Made by `Monitor.watch`."""

    group: Family
    slot: int

    def __init__(
        self,
        monitor: Host,
        stream: Streamed,
        name: str,
        query: TopK | Threshold,
        choice: Choice,
        beginning: Recency | None = None,
    ) -> None:
        self._monitor = monitor
        self._stream = stream
        self.name = name
        self.query = query
        self.choice = choice
        self.k: int | None = getattr(query, "k", None)  # a threshold query has none
        self.window: Window = query.window
        self.beginning: Recency = stream.beginning() if beginning is None else beginning
        self.growing: list[tuple[Recency, int]] = []
        self.dropped = False
        self._last: tuple[Any, pa.Table] = (None, None)  # an answer, and what it was made of
        self._needs: tuple[Any, tuple[pa.Schema, pa.Schema]] = (None, ())  # type: ignore[assignment]
        self._simple: tuple[Any, tuple[dict[str, str], list[str], list[str]]] = (None, ({}, [], []))
        self.written: tuple[Any, tuple[Plain, str]] | None = None  # how it was dumped, and what it was then

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy is the watch of this name of a copied monitor."""
        self._must_be_watched()
        return _watch_of, (self._monitor, self.name)

    @cached_property
    def plain(self) -> Plain:
        """The query as plain data."""
        return Plain(to_dict(self.query))

    @cached_property
    def text(self) -> str:
        """The same as JSON."""
        return json.dumps(self.plain, ensure_ascii=False)

    @property
    def capacity(self) -> int:
        """How many ranks the state must keep; a threshold query keeps all rows, whatever this says."""
        return self.k or 1

    def horizon(self, wanted: Window | None = None) -> Recency:
        return max(self._stream.horizon(wanted or self.window), self.beginning)

    def _must_be_watched(self) -> None:
        if self.dropped:
            raise QueryError(f'"{self.name}" was dropped and has no answer any more: watch it again.')

    def ranks(self, horizon: Recency) -> int | None:
        """Return how many ranks are known exactly at this horizon; None: all rows."""
        self.growing = [(complete, k) for complete, k in self.growing if horizon < complete]
        return None if self.k is None else min([self.k, *(k for _, k in self.growing)])

    # -- answers -------------------------------------------------------------------------------------------

    def top(self, k: int | None = None, window: str | Window | None = None) -> pa.Table:
        """Return the answer now: rank, score, seq, then the selected columns.

        With `k` or `window` a snapshot: any that the watches of this score cover now, else an error.
        """
        self._must_be_watched()
        if k is None and window is None:
            horizon = self.horizon()
            ranks, slot = self.ranks(horizon), self.slot
        else:
            horizon, ranks, slot = self._covered(k, window)
        with meanwhile(self.group):
            return self._top(slot, ranks, horizon)

    def rows(self, k: int | None = None, window: str | Window | None = None) -> list[dict[str, Any]]:
        """Return what `top` returns as a list of dicts of plain Python values."""
        if k is None and window is None:
            plain = self._plain_rows()
            if plain is not None:
                return plain
        return python_rows(with_plain_times(self.top(k, window)))

    def _plain_rows(self) -> list[dict[str, Any]] | None:
        """Return the answer now without Arrow; None where a column needs it."""
        self._must_be_watched()
        names, aside, own = self._plain_names()
        if not names:
            return None
        horizon = self.horizon()
        with meanwhile(self.group):
            found = self.group.top(self.slot, self.ranks(horizon), horizon)
            seqs = found.seq.tolist()
            kept = self._stream.kept.values(seqs, aside) if aside and seqs else []
            if kept is None:
                return None
            index = (
                dict(zip(self.group.columns(), self.group.values(found.seq), strict=True))
                if own and seqs
                else {}
            )
        score = (found.good if self.group.sign > 0 else np.negative(found.good)) + 0.0
        by_name = dict(zip(aside, kept, strict=True)) if kept else {}
        by_name |= {name: index[name].tolist() for name in own if seqs}
        columns = [by_name[name] if seqs else [] for name in names.values()]
        rows = zip(range(1, len(seqs) + 1), score.tolist(), seqs, *columns, strict=True)
        keys = ("rank", "score", "seq", *names)
        return [dict(zip(keys, row, strict=True)) for row in rows]

    def _plain_names(self) -> tuple[dict[str, str], list[str], list[str]]:
        """Return the answer's columns after the first three with the stream's column of each, and of these those that
        were put aside and those that the index has; nothing where one isn't simply a column of numbers or texts."""
        schema = self._stream.schema
        known = schema, self.group
        if self._simple[0] is None or not all(map(_same, known, self._simple[0])):
            self._simple = known, self._find_plain_names(schema)
        return self._simple[1]

    def _find_plain_names(self, schema: pa.Schema | None) -> tuple[dict[str, str], list[str], list[str]]:
        outputs = [o for o in self.outputs() if o.name != "score" or o.value != self.query.score]
        columns = [o.value.name for o in outputs if isinstance(o.value, Column)]
        if schema is None or len(columns) < len(outputs) or self.group.answers.kind != ROW:
            return {}, [], []
        if not all(_is_simple(schema.field(name).type) for name in columns):
            return {}, [], []
        shown = self._table(np.arange(1, 1), Entries()).column_names[3:]
        provided = self.provided()
        aside = [name for name in dict.fromkeys(columns) if name not in provided]
        own = [name for name in dict.fromkeys(columns) if name in provided]
        return dict(zip(shown, columns, strict=True)), aside, own

    def tops(self, asked: Iterable[tuple[int | None, str | Window | None]]) -> list[pa.Table]:
        """Snapshots for many k and windows at once, each as `top(k, window)` gives it.

        With `lazy`, and of pairs, one pass over what is kept serves all of them.
        """
        self._must_be_watched()
        with meanwhile(self.group):
            return self._tops([self._covered(k, window) for k, window in asked])

    def _tops(self, covered: list[tuple[Recency, int | None, int]]) -> list[pa.Table]:
        """Make one table of all answers; return each one's part."""
        found = self.group.tops([(slot, ranks, horizon) for horizon, ranks, slot in covered])
        if not found:
            return []
        sizes = np.array([len(each.seq) for each in found])
        first = np.cumsum(sizes) - sizes
        rank = np.arange(1, int(sizes.sum()) + 1) - np.repeat(first, sizes)
        good, time, seq = (np.concatenate([part[i] for part in found]) for i in range(3))
        seq_b = None if found[0].seq_b is None else np.concatenate([part.seq_b for part in found])
        every = self._table(rank, Entries(good, time, seq, seq_b=seq_b))
        return [every.slice(*part) for part in zip(first.tolist(), sizes.tolist(), strict=True)]

    def _top(self, slot: int, ranks: int | None, horizon: Recency) -> pa.Table:
        found = self.group.top(slot, ranks, horizon)
        table = self._answer(found)
        about = self.group.metadata(self, ranks, horizon, found)
        return table if about is None else table.replace_schema_metadata(about)

    @property
    def certified(self) -> bool:
        """Whether the answer is certainly exact; that of an exact algorithm always is."""
        self._must_be_watched()
        return self.group.certain(self)

    def _shares(self, other: Watched) -> bool:
        """Whether another watch of the family knows all rows that this one could ask for."""
        return other.slot == self.slot

    def _known(self, other: Watched) -> int | None:
        """How many ranks another watch of the family knows; None: all rows."""
        return other.ranks(other.horizon())

    def _covered(self, k: int | None, wanted: str | Window | None) -> tuple[Recency, int | None, int]:
        """Return the horizon and the ranks of a snapshot, and the slot that knows them."""
        chosen = self.window if wanted is None else _window(wanted)
        self._stream.allow(chosen)
        if isinstance(chosen, Rows) and chosen != self.window:
            self._stream.must_know(chosen, self.beginning)
        horizon = self.horizon(chosen)
        ranks = self.ranks(self.horizon()) if k is None else _count(k)
        for other in self.group.watches:
            if self._shares(other) and other.horizon() <= horizon:
                known = self._known(other)
                if known is None or (ranks is not None and ranks <= known):
                    return horizon, ranks, other.slot
        raise QueryError(
            f"No watch of this score covers k = {'all rows' if ranks is None else ranks} over {chosen} now "
            f'("{self.name}" keeps {self.k or "all rows"} over {self.window}): watch it with a larger k or window.'
        )

    def _answer(self, found: Entries) -> pa.Table:
        """Return the answer as a table: the same one while neither its rows nor the columns change."""
        newer = b"" if found.seq_b is None else found.seq_b.tobytes()
        made_of = found.seq.tobytes(), newer, found.good.tobytes(), self._stream.schema, self.group
        if self._last[0] is None or not all(map(_same, made_of, self._last[0])):
            self._last = made_of, self._table(np.arange(1, len(found.seq) + 1), found)
        return self._last[1]

    def _table(self, rank: Ints, found: Entries) -> pa.Table:
        """Return a table of the ranks, scores and seqs of entries, and of their selected columns."""
        score = found.good if self.group.sign > 0 else np.negative(found.good)
        score = score + 0.0  # -0.0 equals 0.0, and is shown as 0.0
        columns = [numbers_array(values) for values in (rank.astype(np.int32), score, found.seq)]
        return self._named(columns, self._chosen_of(found))

    def _chosen_of(self, found: Entries) -> list[tuple[Output, Any]]:
        """Return the selected columns of entries."""
        return self._selected(found.seq)

    def _named(self, columns: list[Any], selected: list[tuple[Output, Any]]) -> pa.Table:
        """Return an answer: rank, score and seq, then the selected columns, each with a name of its own."""
        names = ["rank", "score", "seq"]
        for output, column in selected:
            if output.name == "score" and output.value == self.query.score:
                continue  # the very score that is there already
            name = output.name
            while name in names:
                name += "_1"
            names.append(name)
            columns.append(column)
        return pa.Table.from_arrays(columns, names)

    def selected(self, top: pa.Table) -> pa.Table:
        """Return the selected columns alone of an answer's rows, each under its own name."""
        chosen = self._selected(values_of(flat(top.column("seq"))))
        return pa.table([column for _, column in chosen], names=[output.name for output, _ in chosen])

    def outputs(self) -> tuple[Output, ...]:
        """Return the selected columns; all of the stream's for *."""
        if self.query.select is not None:
            return self.query.select
        schema = self._stream.schema
        return tuple(Output(name, Column(name)) for name in (schema.names if schema is not None else ()))

    def needs(self) -> set[str]:
        """Return the columns that must be put aside for the answer."""
        return {name for output in self.outputs() for name in columns_of(output.value)}

    def provided(self) -> set[str]:
        """Return the columns that the answer can take from the index."""
        return {name for name in self.group.columns() if self._stream.is_double(name)}

    def _selected(self, seq: Ints) -> list[tuple[Output, Any]]:
        schema = self._stream.schema
        if schema is None:
            return [(output, pa.nulls(0)) for output in self.outputs()]
        table = self._values(seq, *self._needed(schema))
        selected = []
        for output in self.outputs():
            if isinstance(output.value, Column):
                selected.append((output, table.column(output.value.name)))
            else:
                selected.append((output, _computed(output, table, len(seq))))
        return selected

    def _needed(self, schema: pa.Schema) -> tuple[pa.Schema, pa.Schema]:
        """Return the stream's columns that the answer needs; and of these, those that were put aside."""
        known = schema, self.group
        if self._needs[0] is None or not all(map(_same, known, self._needs[0])):
            names, provided = self.needs(), self.provided()
            needed = [field for field in schema if field.name in names]
            aside = [field for field in needed if field.name not in provided]
            self._needs = known, (pa.schema(needed), pa.schema(aside))
        return self._needs[1]

    def _values(self, seq: Ints, schema: pa.Schema, aside: pa.Schema) -> pa.Table:
        """Return the values of these rows: from the index what it has, the rest from what was put aside."""
        if not len(seq):
            return schema.empty_table()
        # what other watches of the stream put aside need not have these rows
        kept = self._stream.kept.take(seq, aside) if len(aside) else None
        if kept is not None and len(aside) == len(schema):
            return kept
        found = dict(zip(self.group.columns(), self.group.values(seq), strict=True)) if len(schema) else {}
        there = aside.names
        columns = [
            kept.column(f.name) if kept is not None and f.name in there else numbers_array(found[f.name])
            for f in schema
        ]
        return pa.Table.from_arrays(columns, schema=schema)

    # -- changes -------------------------------------------------------------------------------------------

    def change(self, k: int | None = None, window: str | Window | None = None) -> None:
        """Another k or window. A smaller one holds at once; a larger one is exact as far as rows are known."""
        self._must_be_watched()
        if self._monitor.journal is not None:
            self._monitor.journal.change(self.name, k, window)
        else:
            self._change(k, window)

    def _change(self, k: int | None, window: str | Window | None) -> None:
        if k is not None and self.k is None:
            raise QueryError(f'"{self.name}" reports every row beyond its bound and has no k to change.')
        chosen = self.window if window is None else _window(window)
        ranks = None if k is None else _count(k)
        self._stream.allow(chosen)
        if isinstance(chosen, Rows) and not isinstance(self.window, Rows):
            self._stream.must_know(chosen, self.horizon())
        old_horizon = self.horizon()
        old_k = self.k
        more = ranks is not None and self.k is not None and ranks > self.k
        self.window = chosen
        self.k = ranks if ranks is not None else self.k
        known = self._stream.known_from()  # retained rows are complete from here on
        self.beginning = max(self.beginning, min(old_horizon, known))
        if more and old_k is not None and self.horizon() < known:
            self.growing.append((known, old_k))
        self.group.update(self)
        self._stream.refill(self)
        self._stream.watch_windows()

    # -- explaining ----------------------------------------------------------------------------------------

    def explain(self) -> Plan:
        """Return the plan: algorithm, why, state predicted and actual, what was pruned."""
        self._must_be_watched()
        stands_in = self.group.algorithm_name == STAND_IN and is_free(self.query)
        card = CARDS[self.choice.algorithm] if stands_in else self.group.algorithm.card
        candidates, size = self.group.algorithm.size(self.slot)
        rows = self._stream.rows_in(self.window, self.beginning)
        foreseen = self._predicted(rows)
        assumed = int(ASSUMED_WINDOW) if isinstance(self.window, Last) and not self._stream.accepted else None
        full = self._predicted(self.window.n if isinstance(self.window, Rows) else assumed)
        notes = []
        horizon = self.horizon()
        if self.k is not None and (self.ranks(horizon) or 0) < self.k:
            complete = self.growing[-1][0]
            notes.append(
                f"k was raised: {self.ranks(horizon)} of {self.k} ranks until the window begins at "
                f"{self._stream.words(complete)}"
            )
        if self.beginning > self._stream.horizon(self.window):
            notes.append(f"the window still grows: it begins at {self._stream.words(self.beginning)}")
        notes += self.group.notes() + self._stream.review.notes(self)
        return Plan(
            watch=self.name,
            sql=to_sql(self.asked()),
            algorithm=card.name,
            title=card.title,
            source=card.source,
            why=self.choice.why,
            exact=self.group.exact(self.slot),
            k=self.k,
            window=str(self.window),
            rows_in_window=rows,
            predicted=foreseen,
            predicted_bytes=None if foreseen is None else foreseen * self.group.algorithm.candidate_bytes,
            predicted_full=full,
            predicted_full_bytes=None if full is None else full * self.group.algorithm.candidate_bytes,
            assumed_rows=assumed,
            candidates=candidates,
            bytes=size,
            shared_with=[w.name for w in self.group.watches if w.slot == self.slot and w is not self],
            counters=self.group.algorithm.counters(self.slot),
            rows_seen=self._stream.accepted,
            keeps_window=card.window or stands_in,
            also_kept=self._stream.also_kept() | self.group.also_kept(),
            alternatives=self.choice.alternatives,
            notes=notes,
            bound=self.group.bound(self),
            certified=self.group.certified(self),
            certain=self.certified,
            replans=self._stream.review.replans,
        )

    def asked(self) -> Any:
        """The query with the k and the window that it has now."""
        query: Any = replace(self.query, window=self.window)
        return query if self.k is None else replace(query, k=self.k)

    def _predicted(self, rows: int | None) -> float | None:
        """Return the state that is to be expected, in candidates."""
        if self.k is None or rows is None:
            return None
        return float(self.group.algorithm.expected(self.k, rows))

    def __repr__(self) -> str:
        return f"<watch {self.name}: {to_sql(self.asked())}>"


def _same(one: Any, other: Any) -> bool:
    """Whether two texts of bytes are equal, or two other things are one."""
    return one is other or (type(one) is bytes and bool(one == other))


def _is_simple(type_: pa.DataType) -> bool:
    """Whether values of a type are the same as Python's."""
    return bool(
        pa.types.is_float64(type_)
        or pa.types.is_int64(type_)
        or pa.types.is_string(type_)
        or pa.types.is_boolean(type_)
    )


def _computed(output: Output, table: pa.Table, n: int) -> Any:
    """Return a selected expression of n rows: null where a column that it uses is null."""
    batch = Batch(table, np.arange(n), np.zeros(n, dtype=np.int64))
    usable = np.ones(n, dtype=bool)
    for name in columns_of(output.value):
        known = batch.usable(name)
        if known is not None:
            usable &= known
    values = evaluate(output.value, View(batch))[::-1]  # a batch shows its rows newest first
    return numbers_array(values, ~usable[::-1])


def _window(wanted: str | Window) -> Window:
    return window(wanted)


def _count(k: Any) -> int:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise QueryError(f"k must be a whole number of at least 1, not {k!r}.")
    return int(k)


def _watch_of(monitor: Host, name: str) -> Watch:
    watch: Watch = monitor.watches[name]
    return watch
