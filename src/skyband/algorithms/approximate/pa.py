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

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from skyband.algorithms.approximate.capped_admission import admit, bar_of, capped, enough, least
from skyband.algorithms.approximate.certificate import Certificates, record
from skyband.algorithms.approximate.indexed_admission import floors, sift
from skyband.algorithms.arrivals import Arrivals
from skyband.algorithms.base import Card, ListAlgorithm, Workload
from skyband.algorithms.kernels.candidate_lists import append, close_up
from skyband.algorithms.kernels.capacity import limit_for
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
    slot: int, count: int, picks: Ints, values: Floats, time: Ints, seq: Ints, place: Ints,
    mark: npt.NDArray[np.uint8], k: int, heap: Floats,
    nearest: Floats, limit: Ints, additional: int, threshold: Floats, lost: Floats, outside: Ints,
    good: Floats, start: Ints, head: Ints, size: Ints, times: Ints, seqs: Ints, room: Ints, held: Ints,
    fresh: Floats, counts: Ints, step_good: Floats, step_time: Ints, step_seq: Ints, steps: Ints,
) -> int:  # fmt: skip
    """Insert the picked rows into the slot's list, drop the worst beyond its cap, set the threshold."""
    begin = start[slot]
    if size[slot] + count > room[slot]:
        if head[slot] == 0:
            return 1
        size[slot] = close_up(good, times, seqs, begin, head[slot], size[slot])
        head[slot] = 0
        if size[slot] + count > room[slot]:
            return 1
    if lost[slot] == lost[slot]:  # as one step: the best score and the newest recency of the rejected rows
        newest = outside[slot]
        record(slot, lost[slot], time[newest], seq[newest], step_good, step_time, step_seq, steps)
    if count == 0:
        return 0
    append(time, seq, picks, values, count, good, times, seqs, begin + head[slot], begin + size[slot])
    size[slot] += count
    counts[slot, 0] += count
    for i in range(count):
        mark[place[picks[i]]] = 1
        if values[i] > fresh[slot]:
            fresh[slot] = values[i]
    most = k + limit[slot] + additional
    live = size[slot] - head[slot]
    if live > most:
        counts[slot, 1] += live - most
        size[slot] -= drop(
            slot, good, times, seqs, begin + head[slot], begin + size[slot], most, heap,
            step_good, step_time, step_seq, steps,
        )  # fmt: skip
        live = most
    if live == most:
        threshold[slot] = least(good, begin + head[slot], begin + size[slot])[0]
    held[slot] = live
    return 0


@kernel
def drop(
    slot: int, good: Floats, times: Ints, seqs: Ints, begin: int, end: int, most: int, heap: Floats,
    step_good: Floats, step_time: Ints, step_seq: Ints, steps: Ints,
) -> int:  # fmt: skip
    """Reduce the list to the `most` best, among equals the newer; record the dropped rows. Return how many are left."""
    bar = bar_of(good, begin, end, most, heap)
    equals = -most  # of the rows equal to the worst that stays, so many are dropped: the oldest
    for place in range(begin, end):
        equals += good[place] >= bar
    write = begin
    for place in range(begin, end):
        value = good[place]
        if value < bar or (value == bar and equals > 0):
            equals -= value == bar
            record(slot, value, times[place], seqs[place], step_good, step_time, step_seq, steps)
            continue
        good[write] = value
        times[write] = times[place]
        seqs[write] = seqs[place]
        write += 1
    return end - write


@kernel
def serve(
    first: int, ks: Ints, unmet: Ints, starts: Ints, rows: Ints, scores: Floats, floor: Floats, under: Floats,
    time: Ints, seq: Ints, place: Ints, mark: npt.NDArray[np.uint8], horizon_time: Ints, horizon_seq: Ints,
    heap: Floats, picks: Ints, values: Floats, state: Any,
) -> int:  # fmt: skip
    """Insert the rows that an index found into the lists from `first` on.

    `unmet` gets the k of lists for which it found too few. Returns which list needs more room first, or how many there
    are.
    """
    nearest, limit, additional, threshold = state[0], state[1], state[2], state[3]
    lost, outside, good, start, head, size = state[4], state[5], state[6], state[7], state[8], state[9]
    for slot in range(first, ks.shape[0]):
        low = floor[slot]
        if low != low:
            continue
        inside = inside_of(time, seq, time.shape[0], horizon_time[slot], horizon_seq[slot])
        k = ks[slot]
        most = k + limit[slot] + additional
        places, worst = 0, np.inf
        if threshold[slot] == -np.inf:
            places = most - (size[slot] - head[slot])
            worst = least(good, start[slot] + head[slot], start[slot] + size[slot])[0]
        count = sift(
            slot, inside, starts[slot], starts[slot + 1], rows, scores, low, under[slot], most, places, worst,
            heap, nearest, picks, values, lost, outside,
        )  # fmt: skip
        if not enough(slot, k, limit, threshold, head, size, count, low):
            unmet[slot] = k
        elif absorb(slot, count, picks, values, time, seq, place, mark, k, heap, *state) > 0:
            return slot
    return int(ks.shape[0])


@kernel
def give_way(
    ks: Ints, limit: Ints, threshold: Floats, held: Ints, good: Floats, start: Ints, head: Ints, size: Ints,
    counts: Ints,
) -> None:  # fmt: skip
    """Lower the thresholds of lists that lost rows by half the distance of the two worst, or remove them."""
    for slot in range(ks.shape[0]):
        live = size[slot] - head[slot]
        if ks[slot] == 0 or live >= held[slot]:
            continue
        held[slot] = live
        if threshold[slot] == -np.inf:
            continue
        worst, next_worst = least(good, start[slot] + head[slot], start[slot] + size[slot])
        if live < ks[slot] + limit[slot] or (next_worst == np.inf and worst < np.inf):
            threshold[slot] = -np.inf
            counts[slot, 2] += 1
        elif next_worst > worst:
            threshold[slot] = min(threshold[slot], worst) - 0.5 * (next_worst - worst)


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
    counter_names: ClassVar[tuple[str, ...]] = ("admitted", "dropped again", "thresholds lifted")
    spaced: ClassVar[bool] = True

    def __init__(self, options: Mapping[str, float], space: Space | None = None) -> None:
        super().__init__(options)
        self.space = space
        self.index: QueryIndex | None = None
        # the newest rows, where batches are too small for an index to learn from
        self._seen: tuple[Floats, ...] = ()
        # scratch, by slot: floors, look-up scores, slots that need all rows; regions to enter, and their widths
        self._by_slot: tuple[Any, ...] = ()
        self.additional = int(self.options["additional"])
        self.threshold = np.empty(0, dtype=np.float64)  # rows below it are rejected; -inf: none
        self.held = np.empty(0, dtype=np.int64)  # rows in the list after the last insertion or expiry
        # scratch: the best rejected row of a step, or NaN
        self.lost = np.empty(0, dtype=np.float64)
        self.outside = np.empty(0, dtype=np.int64)  # scratch: the newest rejected row
        self.dropped = Certificates()
        self._nearest = np.empty(0, dtype=np.float64)

    # -- slots ---------------------------------------------------------------------------------------------

    def add(self, k: int) -> int:
        slot = super().add(k)
        if slot == len(self.threshold):
            self.threshold = np.append(self.threshold, -np.inf)
            self.held = np.append(self.held, 0)
            self.lost = np.append(self.lost, np.nan)
            self.outside = np.append(self.outside, 0)
            self.dropped.add()
        self.empty(slot)
        self.dropped.clear(slot)
        return slot

    def empty(self, slot: int) -> None:
        """Clear the list, but not the record of dropped rows."""
        self.lists.clear(slot)
        self.threshold[slot] = -np.inf
        self.held[slot] = 0

    def first_limit(self, k: int) -> int:
        return int(self.options["limit"]) or limit_for(k, float(self.options["error"]))

    def resize(self, slot: int, k: int) -> None:
        super().resize(slot, k)
        self.limit[slot] = self.first_limit(k)
        if self.lists.live(slot) < k + self.limit[slot]:
            self.threshold[slot] = -np.inf

    def remove(self, slot: int) -> None:
        super().remove(slot)
        self.empty(slot)
        if self.index is not None:
            self.index.forget(np.array([slot]))
        self.dropped.clear(slot)

    def most(self, slot: int) -> int:
        """Return the cap of a slot's list."""
        return int(self.ks[slot] + self.limit[slot]) + self.additional

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
            share = float(np.median((self.ks + self.limit)[self.ks > 0])) / self._window(rows)
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
        self.fresh.fill(-np.inf)
        self._scratch(len(rows))
        floor, least, unmet = self._enter(index, rows)
        hits = index.look_up(rows.columns(), 0, len(rows), rows.constants, least)
        slot = 0
        while True:
            slot = serve(
                slot, self.ks, unmet, *hits, floor, least, rows.time, rows.seq, rows.place, rows.mark,
                self.horizon_time, self.horizon_seq, self._heap, self._picks, self._values, self.state(),
            )  # fmt: skip
            if slot >= len(self.ks):
                break
            self.lists.grow(slot, 2 * int(self.lists.room[slot]))
        if unmet.any():
            self._insert_all(rows, unmet)

    def _enter(self, index: QueryIndex, rows: Arrivals) -> tuple[Floats, Floats, Ints]:
        """Enter regions where necessary; return each slot's floor, its look-up score, and the k of those without a
        floor."""
        if not self._by_slot or len(self._by_slot[0]) != len(self.ks):
            kinds = np.float64, np.float64, np.int64, np.int64, np.float64
            self._by_slot = tuple(np.zeros(len(self.ks), dtype=kind) for kind in kinds)
        floor, least, unmet, moved, bars = self._by_slot
        state = self.state()
        count = floors(
            self.ks, rows.time, rows.seq, self.horizon_time, self.horizon_seq, index.bar,
            self._wider(GROWTH), self._wider(DEEPER), self._wider(LOOSE), *state[1:4], *state[6:10], *self._by_slot,
        )  # fmt: skip
        if count:
            index.register(moved[:count], bars[:count], rows.constants)
        return floor, least, unmet

    def _insert_all(self, rows: Arrivals, ks: Ints) -> None:
        """Offer every row to lists that no index can serve this time: those with a k here."""
        many = self._fused(rows)
        slot = 0
        while True:
            slot = many(
                slot, rows.constants, rows.sign, *rows.columns(), rows.time, rows.seq, rows.place, rows.mark,
                self.horizon_time, self.horizon_seq, ks, self._heap, self._picks, self._values, self.state(),
            )  # fmt: skip
            if slot >= len(ks):
                return
            self.lists.grow(slot, 2 * int(self.lists.room[slot]))

    def _wider(self, times: float) -> float:
        """Return by what part of its width a region grows that becomes so many times as large."""
        assert self.space is not None
        return float(times ** (1 / len(self.space.columns)) - 1)

    # -- rows ----------------------------------------------------------------------------------------------

    @property
    def absorb(self) -> Any:
        return absorb

    def state(self) -> tuple[Any, ...]:
        lists = self.lists
        return (
            self._nearest, self.limit, self.additional, self.threshold, self.lost, self.outside,
            lists.good, lists.start, lists.head, lists.size, lists.time, lists.seq, lists.room, self.held,
            self.fresh, self.counts, *self.dropped.arrays(),
        )  # fmt: skip

    def _scratch(self, n: int) -> None:
        super()._scratch(n)
        most = int((self.ks + self.limit).max(initial=0)) + self.additional
        most = min(most, n + int(self.lists.size.max(initial=0)))
        if len(self._heap) < most:
            self._heap = np.empty(most, dtype=np.float64)
        if len(self._nearest) < most:
            self._nearest = np.empty(most, dtype=np.float64)

    def _fused(self, rows: Arrivals, known: bool = False) -> Any:
        return capped(rows.rendered or "", len(rows.columns()), rows.constants.shape[1], __name__, known)

    def _insert_scored(
        self, slot: int, good: Floats, time: Ints, seq: Ints, place: Ints, mark: npt.NDArray[np.uint8]
    ) -> None:
        k = int(self.ks[slot])
        inside = inside_of(time, seq, len(time), self.horizon_time[slot], self.horizon_seq[slot])
        nearest, limit, additional, *rest = self.state()[:10]
        count = admit(
            slot, good, inside, k, self._heap, nearest, self._picks, self._values, limit, additional, *rest
        )
        while self.absorb(
            slot, count, self._picks, self._values, time, seq, place, mark, k, self._heap, *self.state()
        ):
            self.lists.grow(slot, 2 * int(self.lists.room[slot]))

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
        lists = self.lists
        give_way(
            self.ks,
            self.limit,
            self.threshold,
            self.held,
            lists.good,
            lists.start,
            lists.head,
            lists.size,
            self.counts,
        )
        self.dropped.expire(self.horizon_time, self.horizon_seq)

    # -- answers -------------------------------------------------------------------------------------------

    def certain(self, slot: int, k: int, horizon: Recency) -> bool:
        """Whether the top k from the horizon on is certainly exact."""
        return self.dropped.certain(slot, k, horizon, self.top(slot, k, horizon))

    def size(self, slot: int) -> tuple[int, int]:
        candidates, size = super().size(slot)
        return candidates, size + self.dropped.bytes()

    def dump(self) -> dict[str, Any]:
        own = {"threshold": self.threshold.copy(), "held": self.held.copy()}
        dropped = {f"dropped_{name}": array for name, array in self.dropped.dump().items()}
        return {**super().dump(), **own, **dropped}

    def load(self, blob: Mapping[str, Any]) -> None:
        super().load(blob)
        self.threshold, self.held = blob["threshold"].copy(), blob["held"].copy()
        self.index = None
        self.lost = np.full(len(self.ks), np.nan)
        self.outside = np.zeros(len(self.ks), dtype=np.int64)
        self.dropped.load(
            {
                name.removeprefix("dropped_"): array
                for name, array in blob.items()
                if name.startswith("dropped_")
            }
        )

    def _check(self) -> None:
        super()._check()
        self.dropped._check()
        for slot in np.flatnonzero(self.ks).tolist():
            good = self.lists.good[self.lists.span(slot)]
            if self.threshold[slot] > -np.inf:
                # a rejected row has k + limit better ones in the window, which are all in the list
                assert len(good) >= self.ks[slot] + self.limit[slot]
                assert np.all(good >= self.threshold[slot])
            assert self.held[slot] == len(good)
