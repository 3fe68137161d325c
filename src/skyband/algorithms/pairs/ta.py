"""ta: sorted lists and a threshold for pairs (Shen, Cheema, Lin, Zhang, Wang 2012, after Fagin, Lotem, Naor 2001).

**Problem.** As `scase`, for scores made of differences: the closest and the farthest pairs, by sums, products or any
other function that only rises or only falls with each |a.x - b.x|. `scase` scores a new row with the whole window,
although nearly all of it is too far away (or too near) to matter.

**Idea.** Keep a sorted list of each column. The partners of a row that can matter are recent, for which nearly any
score suffices, or they are near it in some column (for the farthest pairs: at the ends of the list). So the search goes
back in time and along the lists from the row's place, in turns, until the best score that the rest could have is below
the staircase for the age that the rest has (ta_search.py).

**What is kept.** As for `scase`, and the lists, in blocks into which rows can be inserted without shifting all the rest
(blocked_sorted_list.py).

**Cost.** A row meets about N^(d/(d+1)) partners instead of N: more time than `scase` takes in small windows, where
scoring every row is faster than opening a list, and many times less in large ones.

**Wrong choice when** the window has fewer than some ten thousand rows, there are many columns in the score, or WHERE
lets few pairs through. Late rows are scored with the whole window, as by `scase`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from skyband.algorithms.pairs import pair_base as limits
from skyband.algorithms.pairs.blocked_sorted_list import Ordered, enter, leave_all
from skyband.algorithms.pairs.pair_base import Late, Question
from skyband.algorithms.pairs.pair_scoring import Loops
from skyband.algorithms.pairs.pair_skyband import settling
from skyband.algorithms.pairs.scase import SCase, expected
from skyband.algorithms.pairs.ta_search import walking
from skyband.core.types import Ints, Recency
from skyband.query.expression.difference_scores import Differences, differences
from skyband.query.expression.pairing import leaf_score

_MOST_LISTS = 6


class Searched(SCase):
    """scase with an index of all rows, which finds the partners that can matter."""

    index: Any = None  # None: not built yet
    merges_late = False  # each late row enters the index

    def __init__(self, options: Mapping[str, float], question: Question) -> None:
        # colours are a condition here: the index is of all rows
        super().__init__(options, replace(question, same=()))
        self.counts["pairs accessed"] = 0
        self._parts: Differences | None = None

    @classmethod
    def unfit_score(cls, score: Any) -> str | None:
        """Return why it cannot take a score of pairs, or None if it can."""
        parts = differences(leaf_score(score))
        if parts is None:
            return (
                "it needs a score that is made of differences such as abs(a.x - b.x) and only rises or only falls with "
                "each of them"
            )
        if len(parts.leaves) > _MOST_LISTS:
            return (
                f"it takes a score of at most {_MOST_LISTS} differences, and this one has {len(parts.leaves)}"
            )
        return None

    @property
    def parts(self) -> Differences:
        """The differences of the score."""
        if self._parts is None:
            assert self.rows.pairing is not None
            self._parts = differences(self.rows.pairing.score)
        assert self._parts is not None
        return self._parts

    def _values(self, leaf: str) -> Any:
        return self.rows.pool.columns[int(leaf) + 1]

    def _enter(self, number: int, values: list[float]) -> None:
        """Insert a late row into the index."""
        raise NotImplementedError

    def _late(self, row: Late) -> tuple[int, int]:
        before = self.counts["pairs scored"]
        number, place = super()._late(row)
        self.counts["pairs accessed"] += self.counts["pairs scored"] - before
        if self.index is not None:
            self._enter(number, [float(self._values(leaf)[place]) for leaf in self.parts.leaves])
        return number, place

    def _by_numpy(self, number: int, place: int, low: int, high: int) -> None:
        self.counts["pairs accessed"] += high - low
        super()._by_numpy(number, place, low, high)

    def _without_index(self, ready: Loops, done: int, place: Ints, lows: Ints, highs: Ints) -> int:
        """Pair rows with all others, as `scase` does."""
        self.index = None
        self.counts["pairs accessed"] += int((highs - lows)[done:].sum())
        return super()._by_loops(ready, done, place, lows, highs)

    def rebuild(self) -> None:
        self.index = None
        super().rebuild()

    def load(self, blob: dict[str, Any]) -> None:
        super().load(blob)
        self.index = None

    def notes(self) -> list[str]:
        there, met = self.counts["pairs scored"], self.counts["pairs accessed"]
        looked = [f"{100 * met / there:.2f} % of all pairs were looked at"] if there else []
        return looked + super().notes()

    def counters(self, slot: int) -> dict[str, int]:
        counted = dict(self.counts)
        return {"rows": counted.pop("rows"), "pairs there were": counted.pop("pairs scored"), **counted}

    def size(self, slot: int) -> tuple[int, int]:
        pairs, size = super().size(slot)
        return pairs, size + (0 if self.index is None else self.index.nbytes())


class TA(Searched):
    """scase with sorted lists."""

    card = replace(
        SCase.card,
        name="ta",
        title="K-skyband of pairs with sorted lists and a threshold",
        source="Shen, Cheema, Lin, Zhang, Wang 2012, section 5",
        keeps="the window's rows, a sorted list of each column in the score, and about 2K ln n pairs",
        cost="a row: its score with about N^(d/(d+1)) rows of the window",
        wrong_when="the window is short, or the score is of many columns",
        expected=expected,
        scores="differences",
        options={},
    )

    def __init__(self, options: Mapping[str, float], question: Question) -> None:
        super().__init__(options, question)
        self._kernel_counts = np.zeros(5, dtype=np.int64)
        self._begun = 0

    # -- lists ---------------------------------------------------------------------------------------------

    def _make_lists(self) -> None:
        count = len(self.parts.leaves)
        self.index = Ordered(count)
        self._far = np.array([far == (self.question.sign > 0) for far in self.parts.far])
        self._scratch = (
            np.zeros((count, 5), dtype=np.int64), np.empty(64, dtype=np.int64), np.empty(count), np.empty(count),
        )  # fmt: skip

    def _fill(self, before: int) -> None:
        """Build the lists of all rows numbered below `before`."""
        rows = self.rows
        places = rows.pool.places()[: before - rows.first]
        for number, leaf in enumerate(self.parts.leaves):
            self.index.fill(number, self._values(leaf)[places], rows.pool.number[places])

    def expire(self, horizon: Recency) -> None:
        rows = self.rows
        if self.index is not None and len(rows):
            first = rows.number_of(horizon)
            gone = min(first, rows.next) - rows.first
            head = int(rows.pool.head[0])
            numbers = np.array(rows.pool.number[head : head + gone])
            for number, leaf in enumerate(self.parts.leaves):
                leave_all(number, self._values(leaf)[head : head + gone], numbers, *self.index.arrays)
        super().expire(horizon)

    def _enter(self, number: int, values: list[float]) -> None:
        self.index.move_up(number)
        self._more_blocks()
        for one, value in enumerate(values):
            if value == value:
                enter(one, value, number, *self.index.arrays)

    def _more_blocks(self) -> None:
        while int(self.index.blocks.max()) + 2 >= self.index.order.shape[1]:
            self.index.grow()

    # -- rows ----------------------------------------------------------------------------------------------

    def _in_order(self, number: int, place: Ints) -> None:
        self._begun = number
        super()._in_order(number, place)

    def _by_loops(self, ready: Loops, done: int, place: Ints, lows: Ints, highs: Ints) -> int:
        rows = self.rows
        assert rows.pairing is not None
        if self.index is None:
            self._make_lists()
            self._fill(self._begun + done)
        known = self.counts["pairs scored"] < limits.COMPILE_AFTER
        scanning = ready.scan.function.__module__
        loop = walking(
            rows.pairing, self.parts, settling(self.k).__name__, scanning, self._slack() is not None, known
        )
        if loop is None:
            return self._without_index(ready, done, place, lows, highs)
        while done < len(place):
            done = loop(
                done, len(place), self._every(), place, lows, highs, rows.pool.number, rows.bar, rows.base, rows.first,
                *self._parameters(), self.k, self._best(), self._state, *self._list, *self._new, *self._swept,
                self._kernel_counts, self._far, *self._scratch, *self.index.arrays,
            )  # fmt: skip
            if done < len(place):
                self._grow(len(self._new[0]))
                self._more_blocks()
        self.counts["pairs accessed"] += int(self._kernel_counts[4])
        self._counted(len(place))
        return done

    def _check(self) -> None:
        super()._check()
        if self.index is not None:
            self.index._check()
            places = self.rows.pool.places()
            for number, leaf in enumerate(self.parts.leaves):
                assert self.index.count[number] == np.count_nonzero(~np.isnan(self._values(leaf)[places]))
