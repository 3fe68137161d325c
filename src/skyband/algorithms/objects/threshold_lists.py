"""Objects with a sorted list of each of their totals, and a view of the best, refilled from the tops of the lists.

The threshold algorithm of Fagin, Lotem and Naor: walk down all lists side by side and look up the score of every
object met. An object that has not been met has no total above the present entries of the walk, so its score is at most
the score of an object with just those totals. Once enough objects are strictly above that, they are the best. The
score must be monotone increasing in every total.

The view is that of top_objects.py, all objects at or above a threshold; only the refill is different.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.algorithms.objects.aggregates import Aggregate
from skyband.algorithms.objects.top_objects import SOON, Leaders
from skyband.algorithms.objects.window_objects import Objects, Scores
from skyband.core.types import Floats, Ints

FIRST_STEP = 32  # entries of each list in the first round; each further round doubles


class View(Leaders):
    """The best objects, refilled from the tops of sorted lists."""

    def __init__(self, ranking: RankedObjects) -> None:
        super().__init__()
        self.ranking = ranking
        self.wanted = 0
        self.looked = 0  # entries of lists that walks have read

    def _lower(self, k: int) -> None:
        if not self.ranking.walkable():
            self.wanted = max(self.wanted, 2 * k)
            super()._lower(k)
            return
        self.wanted = max(2 * k, min(2 * self.wanted, 64 * k) if self.answers < SOON else 0)
        self.rebuilds += 1
        self.answers = 0
        codes, bar, looked = self.ranking.walk(self.wanted)
        self.looked += looked
        self.listed.fill(False)
        self.codes, self.bar = codes, bar
        self.listed[codes] = True


class RankedObjects(Objects):
    """The objects of one window, and for each total a list of all of them sorted by it."""

    def __init__(
        self, aggregates: tuple[Aggregate, ...], width: int, several: bool, counting: bool, everywhere: bool
    ) -> None:
        super().__init__(aggregates, width, several)
        self.leaders = View(self)
        self.counting, self.everywhere = counting, everywhere
        lists = len(aggregates) + counting
        self.value: list[Floats] = [np.empty(0) for _ in range(lists)]  # ascending
        self.code: list[Ints] = [np.empty(0, dtype=np.int64) for _ in range(lists)]
        self.scores: Scores | None = None

    def settle(self, scores: Scores) -> None:
        self.scores = scores
        super().settle(scores)

    def _settled(self, codes: Ints, values: Floats, counts: Ints, alive: Any) -> None:
        """Replace the entries of objects with new totals."""
        changed = np.zeros(len(self.totals), dtype=bool)
        changed[codes] = True
        own = codes[alive]
        for number in range(len(self.value)):
            column = values[number] if number < len(values) else counts.astype(np.float64)
            stay = ~changed[self.code[number]]
            value, code = self.value[number][stay], self.code[number][stay]
            new = column[alive]
            order = np.argsort(new, kind="stable")
            at = np.searchsorted(value, new[order])
            self.value[number] = np.insert(value, at, new[order])
            self.code[number] = np.insert(code, at, own[order])

    def walkable(self) -> bool:
        """Whether the score is known to be monotone over the present totals."""
        return self.everywhere or all(not len(value) or value[0] >= 0.0 for value in self.value)

    def walk(self, rank: int) -> tuple[Ints, float, int]:
        """Return all objects at or above a threshold, at least `rank` if there are as many; it; the entries read."""
        assert self.scores is not None
        longest = len(self.value[0]) if self.value else 0
        met = np.zeros(len(self.leaders.good), dtype=bool)
        depth, done = FIRST_STEP, 0
        while True:
            end = min(depth, longest)
            for code in self.code:
                met[code[longest - end : longest - done]] = True
            done = end
            found = np.flatnonzero(met & ~np.isnan(self.leaders.good))
            good = self.leaders.good[found]
            bar = (
                float(np.partition(good, len(good) - rank)[len(good) - rank])
                if rank <= len(good)
                else -np.inf
            )
            if done == longest:
                return found[good >= bar], bar, done * len(self.value)
            if bar > self._threshold(done):
                return found[good >= bar], bar, done * len(self.value)
            depth *= 2

    def _threshold(self, done: int) -> float:
        """Return the score of an object with the walk's present totals; no object that was not met is better."""
        assert self.scores is not None
        at = [value[len(value) - done] for value in self.value]
        totals = np.array(at[: len(self.aggregates)]).reshape(-1, 1)
        counts = np.array([at[-1] if self.counting else 1.0])
        good = float(self.scores(self, np.zeros(1, dtype=np.int64), totals, counts)[0])
        return np.inf if np.isnan(good) else good

    def _empty(self) -> Objects:
        return RankedObjects(self.aggregates, self.width, self.several, self.counting, self.everywhere)

    def bytes(self) -> int:
        return super().bytes() + sum(value.nbytes * 2 for value in self.value)

    def _check(self) -> None:
        super()._check()
        living = np.flatnonzero(self.totals.counts)
        for number, (value, code) in enumerate(zip(self.value, self.code, strict=True)):
            # each object is in each list once, sorted by its total
            assert np.array_equal(np.sort(code), living) and not (np.diff(value) < 0).any()
            if number < len(self.aggregates):
                assert np.array_equal(self.totals.values_of(code)[number], value, equal_nan=True)
