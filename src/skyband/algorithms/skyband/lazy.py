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

from skyband.algorithms.arrivals import Arrivals, Step
from skyband.algorithms.contract import Workload
from skyband.algorithms.kernels.batch_skyband import Picks, expected_size, push_heap, replace_root
from skyband.algorithms.kernels.batch_tops import tops_together
from skyband.algorithms.kernels.candidate_lists import Lists
from skyband.algorithms.kernels.list_answers import ListAnswers
from skyband.algorithms.kernels.search_tree import SearchTree
from skyband.algorithms.skyband.incremental_tops import Following
from skyband.algorithms.skyband.ra import RA, SWEEPS, taking
from skyband.algorithms.skyband.ra import absorb as relaxed
from skyband.compiling.jit import kernel
from skyband.compiling.state import State, field
from skyband.core.exchange import Present
from skyband.core.types import Floats, Ints, Recency

STEPS = 32  # of a slot's staircase
BELOW = 3  # the counter of late rows below it
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


class Stairs(State):
    """The staircase of each slot, newest step first: the score that k rows newer than a recency reach."""

    stair_time: Ints = field("i8[slot, step]")
    stair_seq: Ints = field("i8[slot, step]")
    stair: Floats = field("f8[slot, step]")
    stairs: Ints = field("i8[slot]")  # how many steps; -1: to be made


@kernel
def absorb(slot: int, count: int, picks: Picks, step: Step, lists: Lists, stairs: Stairs) -> int:
    """Take the picked rows into the slot's list, but for late ones below the staircase; sweep it once it has grown."""
    if count == 0:
        return 0
    live, k = lists.size[slot] - lists.head[slot], lists.ks[slot]
    if live + count > lists.room[slot]:
        return 1
    if live > 0:
        last, oldest = lists.start[slot] + lists.size[slot] - 1, picks.row[count - 1]
        when = lists.time[last]
        if step.time[oldest] < when or (step.time[oldest] == when and step.seq[oldest] < lists.seq[last]):
            if stairs.stairs[slot] < 0:
                climb(slot, k, lists, stairs)
            kept = above(slot, count, picks, step, stairs)
            lists.counts[slot, BELOW] += count - kept
            if kept == 0:
                return 0
            if kept < count:  # the heap is of the k best that were picked
                count = kept
                for i in range(count):
                    if i < k:
                        push_heap(picks.heap, i, picks.good[i])
                    elif picks.good[i] > picks.heap[0]:
                        replace_root(picks.heap, k, picks.good[i])
    sweeps = lists.counts[slot, SWEEPS]
    log = np.log(k)
    growth_of = (log + np.sqrt(log * (4.0 + log))) / 2.0
    if step.time.shape[0] > k:  # a step of many rows is swept by itself, and passes over all that is kept
        growth_of = min(growth_of, 1.0)
    relaxed(slot, count, picks, step, lists, growth_of)
    if lists.counts[slot, SWEEPS] > sweeps:
        stairs.stairs[slot] = -1  # made again when a late row comes
    return 0


@kernel
def climb(slot: int, k: int, lists: Lists, stairs: Stairs) -> None:
    """Make a slot's staircase."""
    good, most = lists.good, stairs.stair.shape[1]
    begin, end = lists.start[slot] + lists.head[slot], lists.start[slot] + lists.size[slot]
    every = (end - begin) // most + 1
    made = 0
    heap = np.empty(k)
    for i in range(end - 1, begin - 1, -1):
        count = end - 1 - i
        if count >= k and count % every == 0 and made < most:
            stairs.stair_time[slot, made], stairs.stair_seq[slot, made] = lists.time[i], lists.seq[i]
            stairs.stair[slot, made] = heap[0]
            made += 1
        if count < k:
            push_heap(heap, count, good[i])
        elif good[i] > heap[0]:
            replace_root(heap, k, good[i])
    stairs.stairs[slot] = made


@kernel
def above(slot: int, count: int, picks: Picks, step: Step, stairs: Stairs) -> int:
    """Close the picks up to those that no step of the staircase dominates; return how many they are."""
    kept, last = 0, -1  # the last of the stairs that is not older than the row
    for i in range(count):
        row = picks.row[i]
        time, seq = step.time[row], step.seq[row]
        while last + 1 < stairs.stairs[slot] and (
            stairs.stair_time[slot, last + 1] > time
            or (stairs.stair_time[slot, last + 1] == time and stairs.stair_seq[slot, last + 1] >= seq)
        ):
            last += 1
        # what newer rows than that stair reach, newer ones than the row do
        if last < 0 or picks.good[i] > stairs.stair[slot, last]:
            picks.row[kept], picks.good[kept] = row, picks.good[i]
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
        self.staircase = Stairs(step=STEPS)
        self._trees: dict[int, SearchTree] = {}  # by slot
        self.following = Following()
        self._asked: dict[int, int] = {}  # by slot: how often since the last step

    @property
    def absorb(self) -> Any:
        return absorb

    def add(self, k: int) -> int:
        slot = super().add(k)
        self.staircase.grow(slot=len(self.ks))
        self.staircase.stairs[slot] = -1
        return slot

    def first_limit(self, k: int) -> int:
        return max(1, 4 * k)

    def resize(self, slot: int, k: int) -> None:
        super().resize(slot, k)
        self.staircase.stairs[slot] = -1

    def states(self) -> tuple[Any, ...]:
        return self.lists, self.staircase

    def _changed(self) -> None:
        self._trees.clear()
        self._asked.clear()

    def insert(self, rows: Arrivals) -> None:
        self._changed()
        super().insert(rows)

    def rebuild(self, slot: int, good: Floats, time: Ints, seq: Ints) -> None:
        self._changed()
        self.staircase.stairs[slot] = -1
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
        return self.following.present(answers, self.lists, slots, stale, ks, horizon_time, horizon_seq)

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
        lists, first = self.lists, self.lists.span(slot).start
        places = first + tree.top(k, lists.inside(slot, horizon).start - first)
        return lists.good[places], lists.time[places], lists.seq[places]

    def tops(self, asked: Sequence[tuple[int, int, Recency]]) -> list[tuple[Floats, Ints, Ints]]:
        """Many snapshots at once, given by slot, k and horizon."""
        for slot in {slot for slot, _, _ in asked}:
            self._tree(slot)
        return tops_together(self.lists, self._trees, asked)

    def dump(self) -> dict[str, Any]:
        return {**super().dump(), **self.staircase.dump()}

    def load(self, blob: Mapping[str, Any]) -> None:
        super().load(blob)
        self.staircase.load(blob)
        self.following.begin(self.lists)

    def _check(self) -> None:
        super()._check()
        self.following._check()
