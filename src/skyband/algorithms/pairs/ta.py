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


class TA(SCase):
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
        # colours are a condition here: the lists are of all rows
        super().__init__(options, replace(question, same=()))
        self.counts["pairs accessed"] = 0
        self._kernel_counts = np.zeros(5, dtype=np.int64)
        self.parts: Differences | None = None
        self.lists: Ordered | None = None  # None: not built yet
        self._begun = 0

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

    # -- lists ---------------------------------------------------------------------------------------------

    def _values(self, leaf: str) -> Any:
        return self.rows.pool.columns[int(leaf) + 1]

    def _make_lists(self) -> None:
        rows = self.rows
        assert rows.pairing is not None
        self.parts = differences(rows.pairing.score)
        assert self.parts is not None
        self.lists = Ordered(len(self.parts.leaves))
        count = len(self.parts.leaves)
        self._far = np.array([far == (self.question.sign > 0) for far in self.parts.far])
        self._scratch = (
            np.zeros((count, 5), dtype=np.int64), np.empty(64, dtype=np.int64), np.empty(count), np.empty(count),
        )  # fmt: skip

    def _fill(self, before: int) -> None:
        """Build the lists of all rows numbered below `before`."""
        assert self.lists is not None and self.parts is not None
        rows = self.rows
        places = rows.pool.places()[: before - rows.first]
        for number, leaf in enumerate(self.parts.leaves):
            self.lists.fill(number, self._values(leaf)[places], rows.pool.number[places])

    def expire(self, horizon: Recency) -> None:
        rows = self.rows
        if self.lists is not None and self.parts is not None and len(rows):
            first = rows.number_of(horizon)
            gone = min(first, rows.next) - rows.first
            head = int(rows.pool.head[0])
            numbers = np.array(rows.pool.number[head : head + gone])
            for number, leaf in enumerate(self.parts.leaves):
                leave_all(number, self._values(leaf)[head : head + gone], numbers, *self.lists.arrays)
        super().expire(horizon)

    def _late(self, row: Late) -> tuple[int, int]:
        before = self.counts["pairs scored"]
        number, place = super()._late(row)
        self.counts["pairs accessed"] += self.counts["pairs scored"] - before
        if self.lists is not None and self.parts is not None:
            self.lists.move_up(number)
            self._more_blocks()
            for one, leaf in enumerate(self.parts.leaves):
                value = float(self._values(leaf)[place])
                if value == value:
                    enter(one, value, number, *self.lists.arrays)
        return number, place

    def _more_blocks(self) -> None:
        assert self.lists is not None
        while int(self.lists.blocks.max()) + 2 >= self.lists.order.shape[1]:
            self.lists.grow()

    def rebuild(self) -> None:
        self.lists = None
        super().rebuild()

    # -- rows ----------------------------------------------------------------------------------------------

    def _in_order(self, number: int, place: Ints) -> None:
        self._begun = number
        super()._in_order(number, place)

    def _by_numpy(self, number: int, place: int, low: int, high: int) -> None:
        self.counts["pairs accessed"] += high - low
        super()._by_numpy(number, place, low, high)

    def _by_loops(self, ready: Loops, done: int, place: Ints, lows: Ints, highs: Ints) -> int:
        rows = self.rows
        assert rows.pairing is not None
        if self.lists is None:
            self._make_lists()
            self._fill(self._begun + done)
        assert self.lists is not None and self.parts is not None
        known = self.counts["pairs scored"] < limits.COMPILE_AFTER
        scanning = ready.scan.function.__module__
        loop = walking(
            rows.pairing, self.parts, settling(self.k).__name__, scanning, self._slack() is not None, known
        )
        if loop is None:
            self.lists = None
            self.counts["pairs accessed"] += int((highs - lows)[done:].sum())
            return super()._by_loops(ready, done, place, lows, highs)
        while done < len(place):
            done = loop(
                done, len(place), self._every(), place, lows, highs, rows.pool.number, rows.bar, rows.base, rows.first,
                *self._parameters(), self.k, self._best(), self._state, *self._list, *self._new, *self._swept,
                self._kernel_counts, self._far, *self._scratch, *self.lists.arrays,
            )  # fmt: skip
            if done < len(place):
                self._grow(len(self._new[0]))
                self._more_blocks()
        self.counts["pairs accessed"] += int(self._kernel_counts[4])
        self._counted(len(place))
        return done

    def notes(self) -> list[str]:
        there, met = self.counts["pairs scored"], self.counts["pairs accessed"]
        looked = [f"{100 * met / there:.2f} % of all pairs were looked at"] if there else []
        return looked + super().notes()

    def counters(self, slot: int) -> dict[str, int]:
        counted = dict(self.counts)
        return {"rows": counted.pop("rows"), "pairs there were": counted.pop("pairs scored"), **counted}

    def size(self, slot: int) -> tuple[int, int]:
        pairs, size = super().size(slot)
        return pairs, size + (0 if self.lists is None else self.lists.nbytes())

    def load(self, blob: dict[str, Any]) -> None:
        super().load(blob)
        self.lists = None

    def _check(self) -> None:
        super()._check()
        if self.lists is not None and self.parts is not None:
            self.lists._check()
            places = self.rows.pool.places()
            for number, leaf in enumerate(self.parts.leaves):
                assert self.lists.count[number] == np.count_nonzero(~np.isnan(self._values(leaf)[places]))
