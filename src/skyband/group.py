"""A family: the watches of one stream whose scores have one shape and whose predicates are equal.

Queries that differ in their constants only are one family with a slot each in one algorithm object; watches
whose constants are equal too share a slot, whatever their k, window and beginning: its state is kept for the
greatest k and expires at the oldest horizon that any of them needs. A watch is then answered by looking at
the rows inside its own horizon only, so it makes no difference to a watch what else its slot keeps.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.algorithms import REGISTRY, Arrivals
from skyband.order import LOWEST, Floats, Ints, Recency
from skyband.query.expression import (
    And,
    Arithmetic,
    Column,
    Compare,
    Expression,
    Not,
    Number,
    Or,
    columns_of,
    evaluate,
    lift,
    render,
    walk,
)  # fmt: skip
from skyband.query.model import Threshold, TopK
from skyband.stream.batches import Batch, View
from skyband.structures.board import Board, Changes

if TYPE_CHECKING:
    from skyband.watch import Watch

ALL = 2**62  # the k of a query that wants every row


class Group:
    """One family: an algorithm, its slots, the watches on them and their last reported answers."""

    def __init__(self, query: TopK | Threshold, algorithm: str, options: dict[str, float]) -> None:
        self.key = family(query, algorithm, options)
        self.shape: Expression = self.key[0]
        self.where = query.where
        self.sign = 1.0 if query.descending else -1.0
        self.used = tuple(
            sorted({*columns_of(query.score), *(columns_of(query.where) if query.where else ())})
        )
        self.score_columns = columns_of(self.shape)
        # A NaN in such a column makes the score NaN, which no algorithm takes: no need to look for it.
        tested = columns_of(query.where) if query.where else ()
        telling = _carries_nan(self.shape)
        self.score_only = tuple(name for name in self.score_columns if telling and name not in tested)
        self.looked_at = tuple(name for name in self.used if name not in self.score_only)
        self.rendered = render(self.shape, self.score_columns)
        self.algorithm_name = algorithm
        self.options = options
        self.algorithm = REGISTRY[algorithm](options)
        self.constants = np.empty((0, len(lift(query.score)[1])), dtype=np.float64)
        self.slots: dict[tuple[float, ...], int] = {}
        self.timed = True  # whether the stream has event times
        self.board = Board()
        self.watches: list[Watch] = []
        self._arrays: dict[str, Ints] = {}

    # -- watches -------------------------------------------------------------------------------------------

    def open(self, query: TopK | Threshold, k: int) -> int:
        """The slot of a query's constants, made if it isn't there, with at least k ranks."""
        constants = lift(query.score)[1]
        slot = self.slots.get(constants)
        if slot is None:
            slot = self.algorithm.add(k)
            if slot == len(self.constants):
                self.constants = np.vstack([self.constants, np.zeros((1, self.constants.shape[1]))])
            self.constants[slot] = constants
            self.slots[constants] = slot
        elif k > self.algorithm.ks[slot]:
            self.algorithm.resize(slot, k)
        return slot

    def attach(self, watch: Watch) -> None:
        slot = self.open(watch.query, watch.capacity)
        watch.group, watch.slot = self, slot
        self.watches.append(watch)
        self.board.add(slot)
        self.changed()

    def detach(self, watch: Watch) -> None:
        index = self.watches.index(watch)
        self.board.remove(index)
        del self.watches[index]
        self.changed()
        if any(other.slot == watch.slot for other in self.watches):
            self._resize(watch.slot)
        else:
            self.algorithm.remove(watch.slot)
            self.slots = {constants: slot for constants, slot in self.slots.items() if slot != watch.slot}

    def changed(self) -> None:
        """A watch came, went or changed: arrays made from the watches are made anew."""
        self._arrays = {}

    def _resize(self, slot: int) -> None:
        self.algorithm.resize(slot, max(watch.capacity for watch in self.watches if watch.slot == slot))

    def update(self, watch: Watch) -> None:
        """The watch has another k or window."""
        self.changed()
        self._resize(watch.slot)
        self.board.stale[self.watches.index(watch)] = 1

    # -- a step --------------------------------------------------------------------------------------------

    def step(self, batch: Batch | None, mark: Any, horizons: dict[Any, Recency]) -> Changes | None:
        """Expire, insert, then compare: what one step does to this family's answers."""
        ks, horizon_time, horizon_seq = self._horizons(horizons)
        self._expire(horizon_time, horizon_seq)
        if batch is not None and len(batch):
            self.algorithm.insert(self.arrivals(batch, mark))
        algorithm = self.algorithm
        live = algorithm.lists.size - algorithm.lists.head
        ks = np.minimum(ks, live[self.board.slot])
        return self.board.refresh(algorithm.lists, algorithm.fresh, ks, horizon_time, horizon_seq)

    def _horizons(self, horizons: dict[Any, Recency]) -> tuple[Ints, Ints, Ints]:
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
        edges = np.array([horizons[window] for window in self._windows], dtype=np.int64).reshape(-1, 2)
        time, seq = edges[arrays["window"], 0], edges[arrays["window"], 1]
        begun = (arrays["time"] < time) | ((arrays["time"] == time) & (arrays["seq"] <= seq))
        time = np.where(begun, time, arrays["time"])
        seq = np.where(begun, seq, arrays["seq"])
        ks = arrays["k"]
        if len(arrays["growing"]):
            ks = ks.copy()
            for index in arrays["growing"].tolist():
                ks[index] = self.watches[index].ranks(Recency(int(time[index]), int(seq[index]))) or ALL
        return ks, time, seq

    def _expire(self, time: Ints, seq: Ints) -> None:
        """Each slot expires at the oldest horizon of its watches."""
        slot_time, slot_seq = (
            np.full(len(self.algorithm.ks), LOWEST.time),
            np.full(len(self.algorithm.ks), LOWEST.seq),
        )
        slots = self.board.slot
        if len(slots) == len(self.slots):
            slot_time[slots], slot_seq[slots] = time, seq
        else:
            newest_first = np.lexsort((seq, time))[::-1]  # so that the oldest is written last
            slot_time[slots[newest_first]] = time[newest_first]
            slot_seq[slots[newest_first]] = seq[newest_first]
        self.algorithm.expire_all(slot_time, slot_seq)

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

    def arrivals(self, batch: Batch, mark: Any) -> Arrivals:
        view = self.view(batch)
        whole = view.index is None
        place = np.arange(len(batch)) if view.index is None else view.index
        return Arrivals(
            time=batch.time if whole else batch.time[place],
            seq=batch.seq if whole else batch.seq[place],
            place=place,
            mark=mark,
            good=lambda slot: self.good(view, slot),
            constants=self.constants,
            sign=self.sign,
            rendered=self.rendered,
            columns=cache(lambda: tuple(_read_only(view.number(name)) for name in self.score_columns)),
        )

    def refill(self, slot: int, batch: Batch) -> Ints:
        """Begin a slot anew with retained rows and the older candidates it has; seqs of the rows it took."""
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
        self.board.stale[np.flatnonzero(self.board.slot == slot)] = 1
        return np.asarray(lists.seq[lists.span(slot)]).copy()

    # -- keeping -------------------------------------------------------------------------------------------

    def live_seqs(self) -> Ints:
        return np.concatenate([self.algorithm.lists.all_seqs(), self.board.seq])

    def dump(self) -> dict[str, Any]:
        return {
            "constants": self.constants.copy(),
            "board": self.board.dump(),
            "algorithm": self.algorithm.dump(),
        }

    def load(self, blob: dict[str, Any], watches: list[Watch], slots: list[int]) -> None:
        self.constants = blob["constants"]
        self.algorithm.load(blob["algorithm"])
        self.board.load(blob["board"])
        for watch, slot in zip(watches, slots, strict=True):
            watch.group, watch.slot = self, slot
            self.slots[tuple(self.constants[slot].tolist())] = slot
        self.watches = watches

    def _check(self) -> None:
        self.algorithm._check()
        # every watch stands on the board, in order, at its slot
        assert [watch.slot for watch in self.watches] == self.board.slot.tolist()
        # a slot keeps as many ranks as the watch that wants most
        for slot in self.slots.values():
            assert self.algorithm.ks[slot] == max(w.capacity for w in self.watches if w.slot == slot)


def family(query: TopK | Threshold, algorithm: str, options: dict[str, float]) -> tuple[Any, ...]:
    """Queries with equal keys are one family."""
    kind = "threshold" if isinstance(query, Threshold) else "topk"
    return (
        lift(query.score)[0],
        query.where,
        query.descending,
        kind,
        algorithm,
        tuple(sorted(options.items())),
    )


def _carries_nan(e: Expression) -> bool:
    """Whether a NaN in any column is sure to make the whole expression NaN."""
    for node in walk(e):
        if isinstance(node, Compare | And | Or | Not):
            return False
        if isinstance(node, Arithmetic) and node.op == "^" and node.right != Number(2):
            return False  # NaN ^ 0 is 1
    return True


def _read_only(values: Floats) -> Floats:
    """numba compiles once more for writable arrays: all columns come read-only."""
    if values.flags.writeable:
        values = values.view()
        values.flags.writeable = False
    return values
