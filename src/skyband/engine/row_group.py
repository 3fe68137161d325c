"""A family: the watches of one stream whose scores have one shape and whose predicates are equal.

Queries that differ in their constants only are one family with a slot each in one algorithm object; watches
whose constants are equal too share a slot, whatever their k, window and beginning: its state is kept for the
greatest k and expires at the oldest horizon that any of them needs. A watch is then answered by looking at
the rows inside its own horizon only, so it makes no difference to a watch what else its slot keeps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from skyband.algorithms import REGISTRY, Arrivals, WindowAlgorithm
from skyband.algorithms.contract import FUSE_MEMBERS
from skyband.algorithms.kernels.list_answers import ListAnswers
from skyband.core.exchange import ALL, NOTHING, ROW, Changes, Entries
from skyband.core.types import LOWEST, Floats, Ints, Recency
from skyband.engine.answers import Answers
from skyband.engine.protocol import Comparing, Family, Step, Watched
from skyband.query.expression import (
    And,
    Arithmetic,
    Column,
    Compare,
    Expression,
    Not,
    Number,
    Or,
    all_of,
    columns_of,
    conjuncts,
    evaluate,
    lift,
    render,
    scalar,
    walk,
)  # fmt: skip
from skyband.query.expression.score_space import Limits, Space, axes, split_box, text_limit
from skyband.query.expression.threshold import split
from skyband.query.model import Rows, Threshold, TopK, Window
from skyband.stream.batches import Batch, View
from skyband.stream.row import Reader, Row

_FIRST: Ints = np.zeros(1, dtype=np.int64)  # the place of a row that comes alone
FEW = 8  # windows, up to which each is looked up by itself


class _NoStream:
    """Nothing is known of the columns' types."""

    def fits(self, column: str, exact: bool) -> bool:
        return False

    def number_of(self, column: str, text: str) -> float | None:
        return None

    def epoch_of(self, column: str, text: str) -> int:
        return 0


NO_STREAM = _NoStream()


class Group(Family):
    """A family of rows: an algorithm, its slots, the watches on them and their last reported answers."""

    def __init__(
        self,
        query: TopK | Threshold,
        algorithm: str,
        options: dict[str, float],
        stream: Comparing = NO_STREAM,
    ) -> None:
        self.key = family(query, algorithm, options, stream)
        self.shape: Expression = self.key[0]
        self.where: Expression | None = self.key[1]
        self.sign = 1.0 if query.descending else -1.0
        self.comparing = stream
        kind = REGISTRY[algorithm]
        boxed: tuple[str, ...] = self.key[6]
        columns, limited = axes(self.shape, dict.fromkeys(boxed, (0.0, 0.0)))
        self.space = Space(self.shape, columns, self.sign, limited, isinstance(query, Threshold))
        self.score_columns = columns_of(self.shape)
        tested = columns_of(self.where) if self.where is not None else ()
        self.used = tuple(sorted({*columns, *tested}))
        # A NaN in such a column makes the score NaN, or is in no box; no algorithm takes that: no need to look for it.
        telling = _carries_nan(self.shape)
        self.score_only = tuple(
            name for name in columns if name not in tested and (telling or name not in self.score_columns)
        )
        self.looked_at = tuple(name for name in self.used if name not in self.score_only)
        self.rendered = render(self.shape, self.score_columns)
        self.algorithm_name = algorithm
        self.options = options
        self.windowed = kind.card.window
        self.keyed = self.windowed  # a slot is for one window and one beginning
        self.algorithm: Any = (
            kind(options, self.space)  # type: ignore[call-arg]
            if issubclass(kind, WindowAlgorithm) or kind.spaced
            else kind(options)
        )
        self.constants = np.empty((0, len(lift(query.score)[1])), dtype=np.float64)
        self.slots: dict[Any, int] = {}
        self.answers = Answers(ROW)
        self.listed = ListAnswers()  # the present answers, where the algorithm keeps lists
        self.watches: list[Watched] = []
        self._arrays: dict[str, Ints] = {}
        self._buffers: tuple[Window, ...] | None = None
        self._read_by: Reader | None = None

    # -- watches -------------------------------------------------------------------------------------------

    def open(self, query: TopK | Threshold, k: int) -> int:
        """The slot of a query's constants, made if it isn't there, with at least k ranks."""
        constants = lift(query.score)[1]
        slot = self.slots.get(constants)
        if slot is None:
            slot = self.algorithm.add(k)
            self._set_constants(slot, constants)
            self.slots[constants] = slot
        elif k > self.algorithm.ks[slot]:
            self.algorithm.resize(slot, k)
        return slot

    def _open_window(self, watch: Watched) -> int:
        """The slot of a watch on an index: its own, but for watches of the same constants, box and window."""
        key = self._slot_key(watch)
        slot = self.slots.get(key)
        if slot is None:
            constants, limits, edge = key[:3]
            low, high = [low for low, _ in limits], [high for _, high in limits]
            slot = self.algorithm.add(watch.capacity, constants, watch.horizon(), low, high, edge)
            self._set_constants(slot, constants)
            self.slots[key] = slot
        elif watch.capacity > self.algorithm.ks[slot]:
            self.algorithm.resize(slot, watch.capacity)
        return slot

    def _slot_key(self, watch: Watched) -> tuple[Any, ...]:
        query = watch.query
        limits, _, edge = constraints(query, self.algorithm_name, self.comparing)
        box = tuple(limits[self.space.columns[axis]] for axis in self.space.boxed)
        return lift(query.score)[1], box, edge, watch.window, watch.beginning

    def _set_constants(self, slot: int, constants: tuple[float, ...]) -> None:
        if slot == len(self.constants):
            self.constants = np.vstack([self.constants, np.zeros((1, self.constants.shape[1]))])
        self.constants[slot] = constants
        self._read_by = None  # what is prepared for rows has them, too

    def _slot_for(self, watch: Watched) -> int:
        return self._open_window(watch) if self.windowed else self.open(watch.query, watch.capacity)

    def attach(self, watch: Watched) -> None:
        slot = self._slot_for(watch)
        watch.group, watch.slot = self, slot
        self.watches.append(watch)
        self.answers.add(slot)
        self.listed.add()
        self.changed()

    def detach(self, watch: Watched) -> None:
        index = self.watches.index(watch)
        self.answers.remove(index)
        self.listed.remove(index)
        del self.watches[index]
        self.changed()
        self._leave(watch.slot)

    def _leave(self, slot: int) -> None:
        """A watch has left the slot, which goes with its last one."""
        if any(other.slot == slot for other in self.watches):
            self._resize(slot)
        else:
            self.algorithm.remove(slot)
            self.slots = {key: other for key, other in self.slots.items() if other != slot}

    def changed(self) -> None:
        """A watch came, went or changed: arrays made from the watches are made anew."""
        self._arrays = {}
        self._buffers = None

    @property
    def buffers(self) -> tuple[Window, ...]:
        """Windows, beside those of its watches, whose beginnings the algorithm must know."""
        if self._buffers is None:
            windows = [watch.window for watch in self.watches]
            self._buffers = () if self.windowed else self.algorithm.recent_of(windows)
        return self._buffers

    def _resize(self, slot: int) -> None:
        self.algorithm.resize(slot, max(watch.capacity for watch in self.watches if watch.slot == slot))

    def update(self, watch: Watched) -> None:
        """The watch has another k or window."""
        self.changed()
        index = self.watches.index(watch)
        if self.keyed:
            old = watch.slot
            slot = self._move(watch)
            watch.slot = self.answers.slot[index] = slot
            if old != slot:
                self._leave(old)
        self._resize(watch.slot)
        self.answers.stale[index] = 1

    def _move(self, watch: Watched) -> int:
        """The slot of a watch whose window or beginning has changed."""
        watch.slot = -1
        return self._open_window(watch)

    # -- a step --------------------------------------------------------------------------------------------

    def step(self, step: Step) -> Changes | None:
        """Expire, insert, then compare: what one step does to this family's answers."""
        batch, mark, deleted = step.batch, step.mark, step.deleted
        if self.buffers:
            self.algorithm.edge = max(step.horizons[window] for window in self.buffers)
        ks, horizon_time, horizon_seq = self._horizons(step.horizons)
        slot_time, slot_seq = self._slot_horizons(horizon_time, horizon_seq)
        if self.windowed:
            columns, time, seq = self.rows_of(batch, mark) if batch else self._no_rows()
            self.algorithm.step(columns, time, seq, slot_time, slot_seq, *deleted)
        else:
            self.algorithm.step(self.arrivals(batch, mark) if batch else None, slot_time, slot_seq, *deleted)
        return self._compare(ks, horizon_time, horizon_seq)

    def _compare(self, ks: Ints, horizon_time: Ints, horizon_seq: Ints) -> Changes | None:
        """What has changed since the last report."""
        answers, algorithm = self.answers, self.algorithm
        present = algorithm.present(self.listed, answers.slot, answers.stale, ks, horizon_time, horizon_seq)
        return answers.compare(present, not self.windowed or algorithm.timed) if len(present.which) else None

    def _no_rows(self) -> tuple[tuple[Floats, ...], Ints, Ints]:
        none = np.empty(0, dtype=np.float64)
        none.flags.writeable = False
        return (none,) * len(self.space.columns), NOTHING, NOTHING

    def _horizons(self, horizons: Any) -> tuple[Ints, Ints, Ints]:
        """For each watch its k at this moment and the horizon of its window, not before its beginning."""
        arrays = self._arrays
        if not arrays:
            windows = list(dict.fromkeys(watch.window for watch in self.watches))
            arrays = self._arrays = {
                "window": np.array([windows.index(watch.window) for watch in self.watches], dtype=np.int64),
                "time": np.array([watch.beginning.time for watch in self.watches], dtype=np.int64),
                "seq": np.array([watch.beginning.seq for watch in self.watches], dtype=np.int64),
                "k": np.array([watch.k or ALL for watch in self.watches], dtype=np.int64),
                "growing": np.flatnonzero([bool(watch.growing) for watch in self.watches]),
            }
            self._windows = windows
            self._begun = max(watch.beginning for watch in self.watches)
            counts = [watch.window.n for watch in self.watches if isinstance(watch.window, Rows)]
            if len(windows) > FEW and len(counts) == len(self.watches):
                arrays["rows"] = np.array(counts, dtype=np.int64)
                self._longest = counts.index(max(counts))
        if "rows" in arrays:
            time, seq = horizons.of_rows(arrays["rows"], self._longest)
            self.oldest = Recency(int(time[self._longest]), int(seq[self._longest]))
            if self.oldest < self._begun:
                time, seq = self._own_horizons(time, seq)
        else:
            edges = [horizons[window] for window in self._windows]
            if len(edges) == 1 and edges[0] >= self._begun:  # it has passed all beginnings: the common case
                self.oldest = edges[0]
                time, seq = self._one_horizon(*edges[0])
            elif edges and min(edges) >= self._begun:
                self.oldest = min(edges)
                time, seq = (
                    np.array(part, dtype=np.int64)[arrays["window"]] for part in zip(*edges, strict=True)
                )
            else:
                time, seq = self._own_horizons(*np.array(edges, dtype=np.int64)[arrays["window"]].T)
        ks = arrays["k"]
        if len(arrays["growing"]):
            ks = ks.copy()
            self.answers.stale[arrays["growing"]] = 1
            for index in arrays["growing"].tolist():
                ks[index] = self.watches[index].ranks(Recency(int(time[index]), int(seq[index]))) or ALL
        return ks, time, seq

    def _one_horizon(self, time: int, seq: int) -> tuple[Ints, Ints]:
        """The same for all watches, in the same arrays at every step."""
        arrays = self._arrays
        if "all from" not in arrays:
            arrays["all from"], arrays["all at"] = self._room_for(len(self.watches))
        times, seqs = arrays["all at"], arrays["all from"]
        times.fill(time)
        seqs.fill(seq)
        return times, seqs

    @staticmethod
    def _room_for(count: int) -> tuple[Ints, Ints]:
        return np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)

    def _own_horizons(self, time: Ints, seq: Ints) -> tuple[Ints, Ints]:
        """Each watch's own: its window's edge or its beginning, whichever is newer."""
        arrays = self._arrays
        begun = (arrays["time"] < time) | ((arrays["time"] == time) & (arrays["seq"] <= seq))
        time = np.where(begun, time, arrays["time"])
        seq = np.where(begun, seq, arrays["seq"])
        least = time.min()
        self.oldest = Recency(int(least), int(seq[time == least].min()))
        return time, seq

    def _slot_horizons(self, time: Ints, seq: Ints) -> tuple[Ints, Ints]:
        """Each slot expires at the oldest horizon of its watches."""
        count = len(self.algorithm.ks)
        slots = self.answers.slot
        if count == len(slots) == len(self.slots) and self._in_place():
            return time, seq  # a slot each, in order
        if count == 1 == len(self.slots):
            slot_time, slot_seq = self._arrays.get("slot at", NOTHING), self._arrays.get("slot from", NOTHING)
            if not len(slot_time):
                slot_time, slot_seq = self._arrays["slot at"], self._arrays["slot from"] = self._room_for(1)
            slot_time[0], slot_seq[0] = self.oldest
            return slot_time, slot_seq
        slot_time, slot_seq = np.full(count, LOWEST.time), np.full(count, LOWEST.seq)
        if len(self.slots) == 1:
            slot_time[slots[0]], slot_seq[slots[0]] = self.oldest
        elif len(slots) == len(self.slots):
            slot_time[slots], slot_seq[slots] = time, seq
        else:
            newest_first = np.lexsort((seq, time))[::-1]  # so that the oldest is written last
            slot_time[slots[newest_first]] = time[newest_first]
            slot_seq[slots[newest_first]] = seq[newest_first]
        return slot_time, slot_seq

    def _in_place(self) -> bool:
        """Whether watch i has slot i throughout."""
        if "in place" not in self._arrays:
            found = np.array_equal(self.answers.slot, np.arange(len(self.answers.slot)))
            self._arrays["in place"] = np.array([found], dtype=np.int64)
        return bool(self._arrays["in place"][0])

    def view(self, batch: Batch) -> View:
        """The rows that this family may use."""
        where = self.where
        predicate = None if where is None else (lambda view: np.asarray(evaluate(where, view), dtype=bool))
        return View(batch).where(self.looked_at, predicate, self.score_only)

    def good(self, view: View, slot: int) -> Floats:
        """The slot's scores, turned so that more is better."""
        if isinstance(self.shape, Column):
            score: Floats = view.number(self.shape.name)
        else:
            score = np.asarray(evaluate(self.shape, view, self.constants[slot].tolist()), dtype=np.float64)
        return score if self.sign > 0 else np.negative(score)

    def _prepare(self, reader: Reader) -> None:
        """Make of predicate and score what evaluates them for one row as a reader returns it."""
        kinds = reader.kinds
        self._read_by = reader
        self._value = scalar.number(self.shape, kinds)
        self._holds = None if self.where is None else scalar.condition(self.where, kinds)
        self._known: list[tuple[float, ...]] = []

    def _value_of(self, row: Row) -> Callable[[int], float] | None:
        """Return the function that gives a slot's score of a row, more is better; None where `evaluate` has to."""
        score = self._value
        if score is None:
            return None
        if len(self._known) != len(self.constants):
            self._known = [tuple(constants) for constants in self.constants.tolist()]
        values, known, sign = row.values, self._known, self.sign
        try:  # what is sure for one slot need not be for others
            found = [sign * score(values, constants) for constants in known]
        except scalar.UNSURE:
            return None
        return found.__getitem__

    def _row(self, row: Row, mark: Any) -> Arrivals | None:
        """One row as the algorithm gets it; None where it has to be looked at as a batch."""
        if row.reader is not self._read_by:
            self._prepare(row.reader)
        inside = row.is_usable(self.looked_at) and row.is_present(self.score_only)
        if inside and self.where is not None:
            if self._holds is None:
                return None
            try:
                inside = self._holds(row.values)
            except scalar.UNSURE:
                return None
        if not inside:
            return _no_arrivals(mark)
        value = None
        if len(self.constants) < FUSE_MEMBERS:  # of more the scores are computed together
            value = self._value_of(row)
            if value is None:
                return None
        return Arrivals(
            time=row.time_arrived,
            seq=row.seq_arrived,
            place=_FIRST,
            mark=mark,
            good=lambda slot: self.good(View(row), slot),
            constants=self.constants,
            sign=self.sign,
            rendered=self.rendered,
            columns=lambda: tuple(_read_only(row.number(name)) for name in self.score_columns),
            arrived=lambda: row.arrived_numbers(self.score_columns),
            value=value,
        )

    def arrivals(self, batch: Batch, mark: Any) -> Arrivals:
        if isinstance(batch, Row):
            found = self._row(batch, mark)
            if found is not None:
                return found
        view = self.view(batch)
        whole = view.index is None
        place = np.arange(len(batch)) if view.index is None else view.index
        read: list[tuple[Floats, ...]] = []  # by hand: functools.cache takes a while to set up

        def columns() -> tuple[Floats, ...]:
            if not read:
                read.append(tuple(_read_only(view.number(name)) for name in self.score_columns))
            return read[0]

        return Arrivals(
            time=batch.time if whole else batch.time[place],
            seq=batch.seq if whole else batch.seq[place],
            place=place,
            mark=mark,
            good=lambda slot: self.good(view, slot),
            constants=self.constants,
            sign=self.sign,
            rendered=self.rendered,
            columns=columns,
            arrived=lambda: (
                batch.arrived_numbers(self.score_columns)
                if whole and batch.in_order and not batch.has_nulls(self.score_columns)
                else None
            ),
        )

    def rows_of(self, batch: Batch, mark: Any) -> tuple[tuple[Floats, ...], Ints, Ints]:
        """The rows that an index takes, oldest first or as they came: all that the predicate lets through.

        A row without a value in a column that only scores and boxes read has a NaN there, and is in no answer."""
        names, any_order = self.space.columns, self.algorithm.any_order
        if self.where is None and not self.looked_at and (any_order or batch.in_order):  # the common case
            mark[:] = 1
            return batch.arrived_numbers(names), batch.time_arrived, batch.seq_arrived
        view = self.view(batch)
        if view.index is None:
            mark[:] = 1
            if any_order or batch.in_order:
                columns = tuple(_read_only(batch.arrived_number(name)) for name in names)
                return columns, batch.time_arrived, batch.seq_arrived
            place = np.arange(len(batch))[::-1]
        else:
            mark[view.index] = 1
            place = view.index[::-1]
        columns = tuple(_read_only(batch.number(name)[place]) for name in names)
        return columns, batch.time[place], batch.seq[place]

    def refill(self, slot: int, batch: Batch, stream: int = 0) -> Ints:
        """Begin a slot anew with retained rows and the older candidates it has; seqs of the rows it took."""
        if self.windowed:
            self.algorithm.fill(*self.rows_of(batch, np.zeros(len(batch), dtype=np.uint8)))
            self.algorithm.opened(slot)
            self.algorithm.touched[slot] = 1
            found: Ints = self.algorithm.seqs()
            return found
        view = self.view(batch)
        good = self.good(view, slot)
        place = np.arange(len(batch)) if view.index is None else view.index
        usable = ~np.isnan(good)
        good, time, seq = good[usable], batch.time[place][usable], batch.seq[place][usable]
        lists = self.algorithm.lists
        span = lists.span(slot)
        other = ~np.isin(lists.seq[span], seq)
        good = np.concatenate([good, lists.good[span][other]])
        time = np.concatenate([time, lists.time[span][other]])
        seq = np.concatenate([seq, lists.seq[span][other]])
        order = np.lexsort((seq, time))[::-1]
        self.algorithm.expire(slot, min(watch.horizon() for watch in self.watches if watch.slot == slot))
        self.algorithm.rebuild(slot, good[order], time[order], seq[order])
        self.answers.stale[np.flatnonzero(self.answers.slot == slot)] = 1
        return np.asarray(lists.seq[lists.span(slot)]).copy()

    # -- answers -------------------------------------------------------------------------------------------

    def top(self, slot: int, k: int | None, horizon: Recency) -> Entries:
        return Entries(*self.algorithm.top(slot, ALL if k is None else k, horizon))

    def tops(self, asked: Sequence[tuple[int, int | None, Recency]]) -> list[Entries]:
        together = getattr(self.algorithm, "tops", None)
        if together is None:
            return super().tops(asked)
        found = together([(slot, ALL if k is None else k, horizon) for slot, k, horizon in asked])
        return [Entries(*each) for each in found]

    def columns(self) -> tuple[str, ...]:
        return tuple(self.space.columns) if self.windowed else ()

    def values(self, seq: Ints) -> tuple[Floats, ...]:
        found: tuple[Floats, ...] = self.algorithm.values(seq)
        return found

    def also_kept(self) -> dict[str, int]:
        """What all watches of the family need together, in bytes."""
        if not self.windowed and not self.buffers:
            return {}
        if not self.windowed:
            rows, size = self.algorithm.buffer_size()
            return {f"the {rows:,} newest rows, for all watches of this score": size}
        rows, size = self.algorithm.window_size()
        return {f"{rows:,} rows of the window and their index, for all watches of this score": size}

    # -- keeping -------------------------------------------------------------------------------------------

    def live_seqs(self) -> Ints:
        seqs: Ints = self.algorithm.seqs()
        return seqs if self.algorithm.listed else np.concatenate([seqs, self.answers.seq])

    def dump(self) -> dict[str, Any]:
        return {
            "constants": self.constants.copy(),
            "board": {
                **self.answers.dump(),
                "oldest_time": self.listed.oldest_time.copy(),
                "oldest_seq": self.listed.oldest_seq.copy(),
            },
            "algorithm": self.algorithm.dump(),
        }

    def load(self, blob: dict[str, Any], watches: list[Any], slots: list[int]) -> None:
        self.constants = blob["constants"]
        self._read_by = None
        self.algorithm.load(blob["algorithm"])
        self.answers.load(blob["board"])
        self.listed.load(blob["board"])
        known = self.constants[slots].tolist()
        for watch, slot, constants in zip(watches, slots, known, strict=True):
            watch.group, watch.slot = self, slot
            self.slots[self._slot_key(watch) if self.keyed else tuple(constants)] = slot
        self.watches = watches

    def _check(self) -> None:
        self.algorithm._check()
        # every watch has an answer, in order, at its slot
        assert [watch.slot for watch in self.watches] == self.answers.slot.tolist()
        # a slot keeps as many ranks as the watch that wants most
        for slot in self.slots.values():
            assert self.algorithm.ks[slot] == max(w.capacity for w in self.watches if w.slot == slot)


def family(
    query: TopK | Threshold, algorithm: str, options: dict[str, float], stream: Comparing = NO_STREAM
) -> tuple[Any, ...]:
    """Queries with equal keys are one family."""
    kind = "threshold" if isinstance(query, Threshold) else "topk"
    limits, where, _ = constraints(query, algorithm, stream)
    texts = (text_limit(term) for term in conjuncts(query.where))
    epochs = [stream.epoch_of(*text) for text in texts if text is not None and text[0] in limits]
    return (
        lift(query.score)[0],
        where,
        query.descending,
        kind,
        algorithm,
        tuple(sorted(options.items())),
        tuple(sorted(limits)),
        max(epochs, default=0),
    )


def constraints(
    query: TopK | Threshold, algorithm: str, stream: Comparing
) -> tuple[Limits, Expression | None, float]:
    """What an index can do itself of a query's WHERE: the limits of its box and the bound of a threshold query;
    and what is left for the predicate, which chooses rows before they get to the index."""
    card = REGISTRY[algorithm].card
    where: Expression | None = query.where
    edge = -math.inf
    if (
        isinstance(query, Threshold)
        and card.window
        and all(stream.fits(c, False) for c in columns_of(query.score))
    ):
        where = _without_bound(query)
        bound = float(query.bound) if query.descending else -float(query.bound)
        edge = bound if query.op in ("<", ">") else math.nextafter(bound, -math.inf)
    limits: Limits = {}
    if card.boxes:
        limits, where = split_box(where, stream.fits, stream.number_of if card.texts else None)
    return limits, where, edge


def _without_bound(query: Threshold) -> Expression | None:
    """The WHERE of a threshold query without the comparison that makes it one."""
    terms = list(conjuncts(query.where))
    for number, term in enumerate(terms):
        if split(term) is not None:
            return all_of(terms[:number] + terms[number + 1 :])
    return query.where


def _carries_nan(e: Expression) -> bool:
    """Whether a NaN in any column is sure to make the whole expression NaN."""
    for node in walk(e):
        if isinstance(node, Compare | And | Or | Not):
            return False
        if isinstance(node, Arithmetic) and node.op == "^" and node.right != Number(2):
            return False  # NaN ^ 0 is 1
    return True


def _no_arrivals(mark: Any) -> Arrivals:
    """No row at all."""
    return Arrivals(
        time=NOTHING,
        seq=NOTHING,
        place=NOTHING,
        mark=mark,
        good=lambda _: np.empty(0),
        constants=np.empty((0, 0)),
        sign=1.0,
        rendered=None,
        columns=tuple,
    )


def _read_only(values: Floats) -> Floats:
    """numba compiles once more for writable arrays: all columns come read-only."""
    if values.flags.writeable:
        values = values.view()
        values.flags.writeable = False
    return values
