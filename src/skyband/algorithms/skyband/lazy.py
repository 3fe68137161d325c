"""lazy: one relaxed skyband for many watches of one score (Shen, Cheema, Lin, Zhang, Wang 2012, section 6.2).

**Problem.** A hundred watches of one score that differ in k and window, over rows that may come late.

**Idea.** The K-skyband of the longest window for the greatest k holds the answers of all. Rows join it without being
compared with it; when it has grown by x, one sweep throws the dominated ones out. The x with the least cost is
|SKB| (ln K + sqrt(ln K (4 + ln K))) / 2; here |SKB| is counted without its first K, as in `ra`. With steps of more than
K rows, which are swept by themselves before they join, and taken in at once since the answers are due at the step's
end, it is at most |SKB|. A row that comes late may be dominated from the beginning: a *staircase* by
recency, made at a sweep and never too strict afterwards, tells. And after a step the answers follow the rows that came
and went (incremental_tops.py); those that can't are found by one walk from the newest candidate back for all of
them (kernels/batch_tops.py).

**What is kept.** The skyband, and up to x rows more.

**Cost.** A score for each row, as `ra`; then what changes in each answer, instead of a walk for each.

**Wrong choice when** watches have scores of their own: then there is nothing to share, and `ra` keeps less.

Snapshots of any k and window come from the same list, by a walk, or from a priority search tree
(kernels/search_tree.py) where several are asked for between two steps; many at once by one walk for all, or, once
there is a tree, by one scan of its candidates by score (Algorithm 7).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from skyband.algorithms.arrivals import Arrivals
from skyband.algorithms.base import Workload
from skyband.algorithms.kernels.batch_skyband import expected_size, push_heap, replace_root
from skyband.algorithms.kernels.batch_tops import tops_together
from skyband.algorithms.kernels.list_answers import ListAnswers
from skyband.algorithms.kernels.search_tree import SearchTree
from skyband.algorithms.skyband.incremental_tops import Following
from skyband.algorithms.skyband.ra import RA, taking
from skyband.algorithms.skyband.ra import absorb as relaxed
from skyband.compiling.jit import kernel
from skyband.core.exchange import Present
from skyband.core.order import first_inside
from skyband.core.types import Floats, Ints, Recency

STEPS = 32  # of a slot's staircase
_OFTEN = 8  # snapshots between two steps from which a tree pays


def growth(k: int) -> float:
    """x as a multiple of the skyband, at its best."""
    log = float(np.log(k))
    return (log + float(np.sqrt(log * (4.0 + log)))) / 2.0


def expected(k: int, n: float) -> float:
    """Halfway between two sweeps."""
    strict = expected_size(k, n)
    return strict + growth(k) / 2.0 * (strict - min(k, strict))


def cost_of(work: Workload) -> float:
    """Seconds for a batch: as `ra`, but for the answers, which follow the rows that change them: those of windows of
    very different lengths, of which only the longest is known here."""
    changes = work.k * min(1.0, 20.0 * work.batch / max(1.0, work.window))
    return taking(work) + 5e-6 + work.queries * 4.5e-7 * float(np.sqrt(changes))


@kernel
def absorb(
    slot: int, count: int, picks: Ints, values: Floats, time: Ints, seq: Ints, place: Ints,
    mark: npt.NDArray[np.uint8], k: int, heap: Floats,
    good: Floats, times: Ints, seqs: Ints, start: Ints, head: Ints, size: Ints, room: Ints,
    fresh: Floats, counts: Ints, limit: Ints, stair_time: Ints, stair_seq: Ints, stair: Floats, stairs: Ints,
) -> int:  # fmt: skip
    """Take the picked rows into the slot's list, but for late ones below the staircase; sweep it once it has grown."""
    if count == 0:
        return 0
    live = size[slot] - head[slot]
    if live + count > room[slot]:
        return 1
    if live > 0:
        last = start[slot] + size[slot] - 1
        oldest = picks[count - 1]
        if time[oldest] < times[last] or (time[oldest] == times[last] and seq[oldest] < seqs[last]):
            if stairs[slot] < 0:
                climb(slot, good, times, seqs, start, head, size, k, stair_time, stair_seq, stair, stairs)
            kept = above(slot, count, picks, values, time, seq, stair_time, stair_seq, stair, stairs, counts)
            if kept == 0:
                return 0
            if kept < count:  # the heap is of the k best that were picked
                count = kept
                for i in range(count):
                    if i < k:
                        push_heap(heap, i, values[i])
                    elif values[i] > heap[0]:
                        replace_root(heap, k, values[i])
    sweeps = counts[slot, 1]
    log = np.log(k)
    growth_of = (log + np.sqrt(log * (4.0 + log))) / 2.0
    if time.shape[0] > k:  # a step of many rows is swept by itself, and passes over all that is kept
        growth_of = min(growth_of, 1.0)
    relaxed(
        slot, count, picks, values, time, seq, place, mark, k, heap, good, times, seqs, start, head, size, room, fresh,
        counts, limit, growth_of,
    )  # fmt: skip
    if counts[slot, 1] > sweeps:
        stairs[slot] = -1  # made anew when a late row comes
    return 0


@kernel
def climb(
    slot: int, good: Floats, times: Ints, seqs: Ints, start: Ints, head: Ints, size: Ints, k: int, stair_time: Ints,
    stair_seq: Ints, stair: Floats, stairs: Ints,
) -> None:  # fmt: skip
    """A slot's staircase, newest step first: the score that k rows newer than a recency reach."""
    begin, end = start[slot] + head[slot], start[slot] + size[slot]
    every = (end - begin) // stair.shape[1] + 1
    steps = 0
    heap = np.empty(k)
    for i in range(end - 1, begin - 1, -1):
        count = end - 1 - i
        if count >= k and count % every == 0 and steps < stair.shape[1]:
            stair_time[slot, steps], stair_seq[slot, steps] = times[i], seqs[i]
            stair[slot, steps] = heap[0]
            steps += 1
        if count < k:
            push_heap(heap, count, good[i])
        elif good[i] > heap[0]:
            replace_root(heap, k, good[i])
    stairs[slot] = steps


@kernel
def above(
    slot: int, count: int, picks: Ints, values: Floats, time: Ints, seq: Ints, stair_time: Ints, stair_seq: Ints,
    stair: Floats, stairs: Ints, counts: Ints,
) -> int:  # fmt: skip
    """Close the picks up to those that no step of the staircase dominates; how many they are."""
    kept, step = 0, 0
    for i in range(count):
        row = picks[i]
        # the last step that is not older than the row: what newer rows than that reach, newer ones than the row do
        while step < stairs[slot] and (
            stair_time[slot, step] > time[row]
            or (stair_time[slot, step] == time[row] and stair_seq[slot, step] >= seq[row])
        ):
            step += 1
        if step > 0 and values[i] <= stair[slot, step - 1]:
            counts[slot, 3] += 1
            continue
        picks[kept], values[kept] = row, values[i]
        kept += 1
    return kept


class Lazy(RA):
    """The relaxed skyband with a staircase, and one walk for all answers."""

    card = replace(
        RA.card,
        name="lazy",
        title="lazily swept skyband for many watches of one score",
        source="Shen, Cheema, Lin, Zhang, Wang 2012, section 6.2",
        keeps="the rows with fewer than k newer rows at least as good, and up to x more",
        cost="a batch: its scores, then what changes in each watch's answer",
        wrong_when="watches have scores of their own, so that there is nothing to share",
        expected=expected,
        options={},
        cost_of=cost_of,
    )
    listed = True
    counter_names: ClassVar[tuple[str, ...]] = (
        "admitted",
        "sweeps",
        "swept",
        "late rows below the staircase",
    )

    def __init__(self, options: Mapping[str, float]) -> None:
        super().__init__(options)
        self._stairs()
        self._trees: dict[int, SearchTree] = {}  # by slot
        self.following = Following()
        self._asked: dict[int, int] = {}  # by slot: how often since the last step

    def _stairs(self) -> None:
        slots = len(self.ks)
        self.stair_time = np.zeros((slots, STEPS), dtype=np.int64)
        self.stair_seq = np.zeros((slots, STEPS), dtype=np.int64)
        self.stair = np.zeros((slots, STEPS))
        self.stairs = np.full(slots, -1, dtype=np.int64)  # how many steps; -1: to be made

    @property
    def absorb(self) -> Any:
        return absorb

    def add(self, k: int) -> int:
        slot = super().add(k)
        self._stairs()
        return slot

    def first_limit(self, k: int) -> int:
        return max(1, 4 * k)

    def resize(self, slot: int, k: int) -> None:
        super().resize(slot, k)
        self.stairs[slot] = -1

    def state(self) -> tuple[Any, ...]:
        lists = self.lists
        return (
            lists.good, lists.time, lists.seq, lists.start, lists.head, lists.size, lists.room,
            self.fresh, self.counts, self.limit, self.stair_time, self.stair_seq, self.stair, self.stairs,
        )  # fmt: skip

    def _changed(self) -> None:
        self._trees.clear()
        self._asked.clear()

    def insert(self, rows: Arrivals) -> None:
        self._changed()
        super().insert(rows)

    def rebuild(self, slot: int, good: Floats, time: Ints, seq: Ints) -> None:
        self._changed()
        self.stairs[slot] = -1
        super().rebuild(slot, good, time, seq)

    def expire(self, slot: int, horizon: Recency) -> None:
        self._changed()
        super().expire(slot, horizon)

    def expire_all(self, horizon_time: Ints, horizon_seq: Ints) -> None:
        self._changed()
        super().expire_all(horizon_time, horizon_seq)

    # -- answers -------------------------------------------------------------------------------------------

    def present(
        self,
        answers: ListAnswers,
        slots: Ints,
        stale: Ints,
        ks: Ints,
        horizon_time: Ints,
        horizon_seq: Ints,
    ) -> Present:
        return self.following.present(
            answers, self.lists, self.fresh, slots, stale, ks, horizon_time, horizon_seq
        )

    def _tree(self, slot: int) -> SearchTree | None:
        """A tree of the slot's list, once it was asked often enough since the last step."""
        asked = self._asked[slot] = self._asked.get(slot, 0) + 1
        if asked >= _OFTEN and slot not in self._trees:
            self._trees[slot] = SearchTree(np.array(self.lists.good[self.lists.span(slot)]))
        return self._trees.get(slot)

    def top(self, slot: int, k: int, horizon: Recency) -> tuple[Floats, Ints, Ints]:
        tree = self._tree(slot)
        if tree is None:
            return super().top(slot, k, horizon)
        lists, span = self.lists, self.lists.span(slot)
        begin = first_inside(lists.time, lists.seq, span.start, span.stop, horizon.time, horizon.seq)
        places = span.start + tree.top(k, int(begin) - span.start)
        return lists.good[places], lists.time[places], lists.seq[places]

    def tops(self, asked: Sequence[tuple[int, int, Recency]]) -> list[tuple[Floats, Ints, Ints]]:
        """Many snapshots at once, given by slot, k and horizon."""
        for slot in {slot for slot, _, _ in asked}:
            self._tree(slot)
        return tops_together(self.lists, self._trees, asked)

    def dump(self) -> dict[str, Any]:
        stairs = ("stair_time", "stair_seq", "stair", "stairs")
        return {**super().dump(), **{name: getattr(self, name).copy() for name in stairs}}

    def load(self, blob: Mapping[str, Any]) -> None:
        super().load(blob)
        for name in ("stair_time", "stair_seq", "stair", "stairs"):
            setattr(self, name, blob[name].copy())
        self.following.begin(self.lists)

    def _check(self) -> None:
        super()._check()
        self.following._check()
