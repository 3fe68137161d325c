"""basic and naive: baselines that show what the staircase and the skyband save (Shen et al. 2012, section 7).

**basic** keeps the same K-skyband as `scase` without a staircase: for every new pair it goes through the skyband and
counts the pairs that dominate it, which for each pair costs time proportional to the skyband's length.

**naive** keeps no skyband: for every row of the window it keeps the row's K best pairs with older rows, K times the
window in all. It scores the row with the window when the row arrives, and again whenever some of these partners have
left. An answer is the best of all those lists.

Both are exact and for comparison only: tests and `python -m benchmarks shen` compare other algorithms with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from skyband.algorithms.pairs.pair_base import Late, Question
from skyband.algorithms.pairs.pair_scoring import Loops
from skyband.algorithms.pairs.pair_skyband import undominated
from skyband.algorithms.pairs.scase import SCase
from skyband.core.exchange import Entries
from skyband.core.types import Floats, Ints, Recency


class Basic(SCase):
    """The skyband without a staircase."""

    card = replace(
        SCase.card,
        name="basic",
        title="K-skyband of pairs without a staircase, for comparison",
        source="Shen, Cheema, Lin, Zhang, Wang 2012, section 7",
        cost="a row: a score and a pass through the skyband for every row of the window",
        wrong_when="it is for comparison only: scase answers the same in a fraction of the time",
        options={},
    )

    def _compiled(self, later: bool) -> Loops | None:
        return None

    def _above(self, good: Floats, partners: Ints, number: int, later: bool) -> Ints:
        begin, end = self._state[:2].tolist()
        listed, older, _ = self._list
        rows = np.full(len(partners), number) if later else partners
        picks = np.empty(len(good), dtype=np.int64)
        return picks[: undominated(good, rows, listed, older, begin, end, self.k, picks)]


class Naive(SCase):
    """Every row's K best pairs with older rows."""

    card = replace(
        SCase.card,
        name="naive",
        title="every row's K best pairs, for comparison",
        source="Shen, Cheema, Lin, Zhang, Wang 2012, section 7",
        keeps="the window's rows, and K pairs for each of them",
        cost="a row: its score with every row of the window, and again for each row that loses a partner",
        wrong_when="it is for comparison only: scase answers the same with a fraction of the state",
        expected=lambda k, n: min(k * n, n * (n - 1) / 2),
        options={},
    )

    merges_late = False

    def __init__(self, options: Mapping[str, float], question: Question) -> None:
        super().__init__(options, question)
        self.counts = {"rows": 0, "pairs scored": 0, "late rows": 0, "refilled": 0}
        # for each row: scores, older rows, whether these are all its pairs
        self.best_of: list[tuple[Floats, Ints, bool]] = []

    def expire(self, horizon: Recency) -> None:
        before = self.rows.first
        super().expire(horizon)
        first = self.rows.first
        del self.best_of[: first - before]
        for i, (good, older, complete) in enumerate(self.best_of):
            stay = older >= first
            if stay.all():
                continue
            if complete:
                self.best_of[i] = (good[stay], older[stay], True)
            else:
                self.counts["refilled"] += 1
                self.best_of[i] = self._scored(first + i, first)

    def _in_order(self, number: int, place: Ints) -> None:
        self.best_of += [self._scored(number + i, self.rows.first) for i in range(len(place))]

    def _late(self, row: Late) -> tuple[int, int]:
        found = self.rows.insert(row)
        self.counts["late rows"] += 1
        self.rebuild()
        return found

    def rebuild(self) -> None:
        rows = self.rows
        self.best_of = [self._scored(number, rows.first) for number in range(rows.first, rows.next)]

    def _scored(self, number: int, low: int) -> tuple[Floats, Ints, bool]:
        """Return the K best pairs of a row with older ones from `low` on: scores, partners, and whether these are
        all."""
        rows = self.rows
        run = int(rows.column("run")[number - rows.first])
        begin, end = int(rows.pool.head[run]), int(rows.pool.tail[run])
        numbers = rows.pool.number[begin:end]
        place = begin + int(np.searchsorted(numbers, number))
        begin += int(np.searchsorted(numbers, low))
        self.counts["pairs scored"] += max(0, place - begin)
        if begin >= place:
            return np.empty(0), np.empty(0, dtype=np.int64), True
        good, older = rows.good(place, begin, place, False), rows.pool.number[begin:place]
        there = np.flatnonzero(~np.isnan(good))
        complete = len(there) <= self.k
        if not complete:  # sort only the pairs that are at least as good as the K-th
            there = there[good[there] >= np.partition(good[there], -self.k)[-self.k]]
        order = there[np.lexsort((older[there], good[there]))[::-1]]
        return good[order[: self.k]], older[order[: self.k]], complete

    def best(self, k: int, horizon: Recency) -> Entries:
        rows = self.rows
        if not len(rows):
            return super().best(k, horizon)
        low = max(rows.first, rows.number_of(horizon))
        goods, olders, newers = [np.empty(0)], [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        for number in range(low, rows.next):
            good, older, complete = self.best_of[number - rows.first]
            stay = older >= low
            if not complete and np.count_nonzero(stay) < k:
                good, older, _ = self._scored(number, low)
                stay = np.ones(len(older), dtype=bool)
            goods.append(good[stay])
            olders.append(older[stay])
            newers.append(np.full(np.count_nonzero(stay), number))
        found, older, newer = np.concatenate(goods), np.concatenate(olders), np.concatenate(newers)
        order = np.lexsort((newer, older, found))[::-1][:k]
        return Entries(found[order], *rows.recency(older[order]), *rows.recency(newer[order]))

    def tops(self, asked: Sequence[tuple[int, Recency]]) -> list[Entries]:
        return [self.best(k, horizon) for k, horizon in asked]

    def size(self, slot: int) -> tuple[int, int]:
        pairs = sum(len(good) for good, _, _ in self.best_of)
        return pairs, 16 * pairs + self.rows.nbytes()

    def load(self, blob: dict[str, Any]) -> None:
        super().load(blob)
        self.rebuild()

    def _check(self) -> None:
        self.rows._check()
        assert len(self.best_of) == len(self.rows)
