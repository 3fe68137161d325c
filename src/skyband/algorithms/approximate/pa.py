"""PA: the probabilistic k-skyband (Pripužić, Podnar Žarko and Aberer, section 4.1).

**Problem.** A top-k over a sliding window in a list whose length is known in advance, with one comparison for most
rows, where a row that is missed once in a long while does no harm.

**Idea.** In a stream in random order a row that arrives far behind the top k hardly ever enters it: for that, better
rows would have to leave faster than new ones arrive. So keep the k + limit best, and drop what is worse. The limit
needed for at most `error` rows missed per n rows is computed in kernels/capacity.py, exactly, where the paper has a
bound that is two orders of magnitude too large.

**What is kept.** One list a query, in recency order, of at most k + limit + additional rows, and a *threshold*:
once the list is full, rows worse than its worst don't enter. When rows leave the window the threshold is lowered
by half the distance of the list's two worst; when fewer than k + limit are left there is none until the list is
full again. So a row is dropped only while k + limit better ones are in the window, which is all that the error
bound needs. Also the stairs of dropped rows (certificate.py), which show at each moment whether the answer is
certainly exact.

**Query index** (query_index/index.py). With enough queries of a score that compiles, rows of a large batch are
looked up, and offered only to the lists that they may concern. The lists are the same as without an index; the
certificates use a bound for rows that were not offered (indexed_admission.py). In small batches scoring costs less than
the lists' own work, which no index saves, so there every list is offered every row.

**Cost.** O(1) for a row that is dropped, O(list) for one that enters or leaves: two or three times
(k + limit)/n of them.

**Wrong choice when** scores fall with time: every row is the worst on arrival, is dropped, and is missed later.
Certificates show it at once; with `WITH (error = …)` and no algorithm named, an exact one takes over.

Watches share a list only if they have the same window and the same beginning: a row that is far behind in a long window
may be in front in a short one. Different k share, with the limit of the greatest.

Errata followed: expire, then lower the threshold, then insert; a row may be dropped only behind k + limit others, so
the threshold is removed when fewer are left; of equal scores the newer one is better.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from skyband.algorithms.approximate.capped_admission import CAPPED, Caps, admit, bar_of, cap, enough, least
from skyband.algorithms.approximate.certificate import Certificates, record
from skyband.algorithms.approximate.indexed_admission import Looked, floors, sift
from skyband.algorithms.arrivals import Arrivals, Step
from skyband.algorithms.base import ListAlgorithm
from skyband.algorithms.contract import Card, Workload
from skyband.algorithms.kernels.batch_skyband import Picks
from skyband.algorithms.kernels.candidate_lists import Lists, append, has_room, move, note
from skyband.algorithms.kernels.capacity import limit_for
from skyband.algorithms.kernels.score_select import fused
from skyband.algorithms.parallel_insert import Share
from skyband.algorithms.query_index.index import COARSE, QueryIndex
from skyband.algorithms.query_index.loops import indexable
from skyband.compiling.jit import kernel
from skyband.core.order import inside_of
from skyband.core.types import Floats, Ints, Recency
from skyband.query.expression.score_space import Space

FEW = 16  # no index for fewer queries
NAMED = 128  # slots in a cell's short list
# In smaller batches the lists' own work dominates, and entering regions costs what it saves.
LARGE = 4096
LEARN, SAMPLE = 256, 4096  # rows from which an index can learn; the most rows that it learns from
# A region is entered so many times as large as it is, and again when the entered one is as many times as large as the
# second number: rows that are skipped must be far below those that are kept, or certificates are lost
# (indexed_admission.py).
GROWTH, LOOSE = 4.0, 16.0
DEEPER = 1.5  # the same for an estimated floor, which is low by itself
ADMITTED, DROPPED, LIFTED = range(3)  # counters
ERROR = 0.001
ADDITIONAL = 1.0


def expected(k: int, n: float, error: float = ERROR, additional: float = ADDITIONAL) -> float:
    return min(float(n), k + limit_for(k, error) + additional)


def cost_of(work: Workload) -> float:
    """Return seconds for a batch: each query scores each row, or those that an index offers; hardly any row enters."""
    score = 2e-9 if work.rendered else 2e-8
    if work.rendered and work.axes and work.batch >= LARGE and work.lists >= FEW:
        score = 7e-10  # 1.4 to 2 times as fast in all (`python -m benchmarks pripuzic --only pa`)
    kept = expected(work.k, work.window)
    taken = min(work.batch, 2 * work.batch * kept / max(work.window, 1.0))
    return float(50e-6 + work.batch * (1e-8 + work.queries * score) + work.queries * taken * kept * 2e-9)


@kernel
def absorb(
    slot: int, count: int, picks: Picks, step: Step, lists: Lists, caps: Caps, dropped: Certificates
) -> int:
    """Insert the picked rows into the slot's list, drop the worst beyond its cap, set the threshold."""
    if not has_room(lists, slot, count):
        return 1
    if (
        caps.lost[slot] == caps.lost[slot]
    ):  # as one step: the best score and the newest recency of the rejected rows
        newest = caps.outside[slot]
        record(dropped, slot, caps.lost[slot], step.time[newest], step.seq[newest])
    if count == 0:
        return 0
    append(lists, slot, count, picks, step)
    note(lists, slot, count, picks, step)
    most = cap(slot, lists, caps)
    live = lists.size[slot] - lists.head[slot]
    if live > most:
        lists.counts[slot, DROPPED] += live - most
        drop(slot, most, picks.heap, lists, dropped)
        live = most
    if live == most:
        first, end = lists.start[slot] + lists.head[slot], lists.start[slot] + lists.size[slot]
        caps.threshold[slot] = least(lists.good, first, end)[0]
    caps.held[slot] = live
    return 0


@kernel
def drop(slot: int, most: int, heap: Floats, lists: Lists, dropped: Certificates) -> None:
    """Reduce the list to the `most` best, among equals the newer; record the dropped rows."""
    begin, end = lists.start[slot] + lists.head[slot], lists.start[slot] + lists.size[slot]
    bar = bar_of(lists.good, begin, end, most, heap)
    equals = -most  # of the rows equal to the worst that stays, so many are dropped: the oldest
    for place in range(begin, end):
        equals += lists.good[place] >= bar
    write = begin
    for place in range(begin, end):
        value = lists.good[place]
        if value < bar or (value == bar and equals > 0):
            equals -= value == bar
            record(dropped, slot, value, lists.time[place], lists.seq[place])
            continue
        move(lists, write, place)
        write += 1
    lists.size[slot] -= end - write


@kernel
def serve(
    first: int, starts: Ints, rows: Ints, scores: Floats, looked: Looked, picks: Picks, step: Step, lists: Lists,
    caps: Caps, dropped: Certificates,
) -> int:  # fmt: skip
    """Insert the rows that an index found into the lists from `first` on.

    `looked.unmet` gets the k of lists for which it found too few. Returns which list needs more room first, or how many
    there are.
    """
    time, seq = step.time, step.seq
    for slot in range(first, lists.ks.shape[0]):
        low = looked.floor[slot]
        if low != low:
            continue
        inside = inside_of(time, seq, time.shape[0], lists.horizon_time[slot], lists.horizon_seq[slot])
        count = sift(slot, inside, starts[slot], starts[slot + 1], rows, scores, picks, lists, caps, looked)
        if not enough(slot, lists, caps, count, low):
            looked.unmet[slot] = lists.ks[slot]
        elif absorb(slot, count, picks, step, lists, caps, dropped) > 0:
            return slot
    return int(lists.ks.shape[0])


@kernel
def give_way(lists: Lists, caps: Caps) -> None:
    """Lower the thresholds of lists that lost rows by half the distance of the two worst, or remove them."""
    for slot in range(lists.ks.shape[0]):
        live, threshold = lists.size[slot] - lists.head[slot], caps.threshold[slot]
        if lists.ks[slot] == 0 or live >= caps.held[slot]:
            continue
        caps.held[slot] = live
        if threshold == -np.inf:
            continue
        first, end = lists.start[slot] + lists.head[slot], lists.start[slot] + lists.size[slot]
        worst, next_worst = least(lists.good, first, end)
        if live < lists.ks[slot] + lists.limit[slot] or (next_worst == np.inf and worst < np.inf):
            caps.threshold[slot] = -np.inf
            lists.counts[slot, LIFTED] += 1
        elif next_worst > worst:
            caps.threshold[slot] = min(threshold, worst) - 0.5 * (next_worst - worst)


class PA(ListAlgorithm):
    """The probabilistic k-skyband: the k + limit best rows, and the stairs of the dropped ones."""

    card = Card(
        name="pa",
        title="probabilistic k-skyband",
        source="Pripužić, Podnar Žarko, Aberer 2015, section 4.1",
        answers=frozenset({"topk"}),
        exact=False,
        keeps="the k + limit best rows of the window and some more, and the best of those that were dropped",
        cost="a batch: its scores and a comparison each (in large batches only for queries that a row may concern); "
        "hardly any row enters",
        wrong_when="scores fall with time (its certificates say so), or every answer must be exact",
        expected=expected,
        options={"error": ERROR, "additional": ADDITIONAL, "limit": 0.0, "cells": 0.0},
        cost_of=cost_of,
    )
    takes_one = False
    counter_names: ClassVar[tuple[str, ...]] = ("admitted", "dropped again", "thresholds lifted")
    spaced: ClassVar[bool] = True

    def __init__(self, options: Mapping[str, float], space: Space | None = None) -> None:
        super().__init__(options)
        self.space = space
        self.index: QueryIndex | None = None
        # the newest rows, where batches are too small for an index to learn from
        self._seen: tuple[Floats, ...] = ()
        self._looked = Looked()
        self.caps = Caps()
        self.caps.additional = self.additional = int(self.options["additional"])
        self.dropped = Certificates()

    # -- slots ---------------------------------------------------------------------------------------------

    def add(self, k: int) -> int:
        slot = super().add(k)
        if slot == len(self.caps.held):
            self.caps.grow(slot=slot + 1)
            self.caps.lost[slot] = np.nan
            self.dropped.add()
        self.empty(slot)
        self.dropped.clear(slot)
        return slot

    def empty(self, slot: int) -> None:
        """Clear the list, but not the record of dropped rows."""
        self.lists.clear(slot)
        self.caps.threshold[slot] = -np.inf
        self.caps.held[slot] = 0

    def first_limit(self, k: int) -> int:
        return int(self.options["limit"]) or limit_for(k, float(self.options["error"]))

    def resize(self, slot: int, k: int) -> None:
        super().resize(slot, k)
        self.lists.limit[slot] = self.first_limit(k)
        if self.lists.live(slot) < k + self.lists.limit[slot]:
            self.caps.threshold[slot] = -np.inf

    def remove(self, slot: int) -> None:
        super().remove(slot)
        self.empty(slot)
        if self.index is not None:
            self.index.forget(np.array([slot]))
        self.dropped.clear(slot)

    def most(self, slot: int) -> int:
        """Return the cap of a slot's list."""
        return int(self.ks[slot] + self.lists.limit[slot]) + self.additional

    def expected(self, k: int, n: float) -> float:
        return min(float(n), k + self.first_limit(k) + self.additional)

    # -- the index -----------------------------------------------------------------------------------------

    def _indexed(self, rows: Arrivals) -> QueryIndex | None:
        """Return the index to look rows up in, made when there are enough queries and rows for it."""
        cells = int(self.options["cells"])
        large = len(rows) >= LARGE or cells > 1  # an option for cells asks for an index
        if cells == 1 or not large or self.space is None or not indexable(self.space):
            return None
        if np.count_nonzero(self.ks) < FEW:
            return None
        columns = self._newest(rows)
        there = len(columns[0])
        index = self.index
        if index is None:
            if there < LEARN:
                return None
            share = float(np.median((self.ks + self.lists.limit)[self.ks > 0])) / self._window(rows)
            index = QueryIndex(self.space, rows.constants.shape[1], cells, min(share, 1.0), COARSE, NAMED)
            self.index = index
        index.provide(len(self.ks))
        if not index.ready or index.due(there):
            index.learn(columns)
        return index

    def _newest(self, rows: Arrivals) -> tuple[Floats, ...]:
        """Return rows from which an index can learn: of this batch, and of earlier ones if it is small."""
        columns = rows.columns()
        if len(rows) >= LEARN:
            return tuple(column[:SAMPLE] for column in columns)
        if self._seen:
            columns = tuple(np.concatenate(both)[:SAMPLE] for both in zip(columns, self._seen, strict=True))
        self._seen = tuple(column.copy() for column in columns)
        return self._seen

    def _window(self, rows: Arrivals) -> int:
        """Return about how many rows a window has: those since the oldest one in a list."""
        newest = int(rows.seq[0])
        spans = [self.lists.span(slot) for slot in np.flatnonzero(self.ks).tolist()]
        return max(newest - min(int(self.lists.seq[span].min(initial=newest)) for span in spans), len(rows))

    def insert(self, rows: Arrivals) -> None:
        index = self._indexed(rows) if len(rows) else None
        if index is None:
            super().insert(rows)
            return
        self.lists.fresh.fill(-np.inf)
        self._scratch(len(rows))
        step = self.rows.hold(rows.time, rows.seq, rows.place, rows.mark)
        looked = self._enter(index, rows)
        hits = index.look_up(rows.columns(), 0, len(rows), rows.constants, looked.least)
        slot = 0
        while True:
            slot = serve(slot, *hits, looked, self.picks, step, *self.states())
            if slot >= len(self.ks):
                break
            self.lists.reserve(slot)
        if looked.unmet.any():  # lists that no index can serve this time
            self._insert_fused(Share(rows, np.flatnonzero(looked.unmet), self.picks, step))

    def _enter(self, index: QueryIndex, rows: Arrivals) -> Looked:
        """Enter regions where necessary; return each slot's floor, its look-up score, and the k of those without a
        floor."""
        looked = self._looked
        if len(looked.floor) != len(self.ks):
            looked.grow(slot=len(self.ks))
        count = floors(
            rows.time, rows.seq, index.bar, self._wider(GROWTH), self._wider(DEEPER), self._wider(LOOSE), self.lists,
            self.caps, looked,
        )  # fmt: skip
        if count:
            index.register(looked.moved[:count], looked.bars[:count], rows.constants)
        return looked

    def _wider(self, times: float) -> float:
        """Return by what part of its width a region grows that becomes so many times as large."""
        assert self.space is not None
        return float(times ** (1 / len(self.space.columns)) - 1)

    # -- rows ----------------------------------------------------------------------------------------------

    @property
    def absorb(self) -> Any:
        return absorb

    def states(self) -> tuple[Any, ...]:
        return self.lists, self.caps, self.dropped

    def _scratch(self, n: int) -> None:
        super()._scratch(n)
        most = int((self.ks + self.lists.limit).max(initial=0)) + self.additional
        most = min(most, n + int(self.lists.size.max(initial=0)))
        if len(self.picks.heap) < most or len(self.caps.nearest) < most:
            self.picks.grow(rank=most)
            self.caps.grow(rank=most)

    def _fused(self, rows: Arrivals, known: bool = False) -> Any:
        score, constants = rows.rendered or "", rows.constants.shape[1]
        return fused(score, len(rows.columns()), constants, absorb, known, CAPPED)

    def pick(self, slot: int, good: Floats, inside: int) -> int:
        return int(admit(slot, good, inside, self.picks, self.lists, self.caps))

    def rebuild(self, slot: int, good: Floats, time: Ints, seq: Ints) -> None:
        self.empty(slot)
        super().rebuild(slot, good, time, seq)

    def expire(self, slot: int, horizon: Recency) -> None:
        super().expire(slot, horizon)
        self._settle()

    def expire_all(self, horizon_time: Ints, horizon_seq: Ints) -> None:
        super().expire_all(horizon_time, horizon_seq)
        self._settle()

    def _settle(self) -> None:
        """Lower thresholds after rows may have left."""
        give_way(self.lists, self.caps)
        self.dropped.expire(self.lists.horizon_time, self.lists.horizon_seq)

    # -- answers -------------------------------------------------------------------------------------------

    def certain(self, slot: int, k: int, horizon: Recency) -> bool:
        """Whether the top k from the horizon on is certainly exact."""
        return self.dropped.certain(slot, k, horizon, self.top(slot, k, horizon))

    def size(self, slot: int) -> tuple[int, int]:
        candidates, size = super().size(slot)
        return candidates, size + self.dropped.bytes()

    def dump(self) -> dict[str, Any]:
        dropped = {f"dropped_{name}": array for name, array in self.dropped.dump().items()}
        return {**super().dump(), **self.caps.dump(), **dropped}

    def load(self, blob: Mapping[str, Any]) -> None:
        super().load(blob)
        self.caps.grow(slot=len(self.ks))
        self.caps.load(blob)
        self.caps.lost.fill(np.nan)
        self.index = None
        self.dropped.load({name: blob[f"dropped_{name}"] for name in ("good", "time", "seq", "count")})

    def _check(self) -> None:
        super()._check()
        self.dropped._check()
        for slot in np.flatnonzero(self.ks).tolist():
            good = self.lists.good[self.lists.span(slot)]
            threshold = self.caps.threshold[slot]
            if threshold > -np.inf:
                # a rejected row has k + limit better ones in the window, which are all in the list
                assert len(good) >= self.ks[slot] + self.lists.limit[slot]
                assert np.all(good >= threshold)
            assert self.caps.held[slot] == len(good)
