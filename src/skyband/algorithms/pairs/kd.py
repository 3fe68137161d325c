"""kd: pairs by a k-d tree with the newest row of every part (beyond Shen, Cheema, Lin, Zhang, Wang 2012).

**Problem.** As `ta`: the closest and the farthest pairs, by any score that only rises or only falls with each
|a.x - b.x|. A sorted list orders rows by one column only: a row that is near in one column is mostly far in the other,
and is read in vain.

**Idea.** A tree of the window's rows by all these columns at once. A partner matters if its pair is above the staircase
(pair_skyband.py), which rises with age. So a part of the tree can be skipped if the best score that its box allows is
not above the staircase at its newest row. That is exact. The few hundred youngest rows, for which the staircase is
low, are kept out of the tree and scored as by `scase` (kd_tree.py).

**What is kept.** As for `scase`, and the tree: a number for each row, and a box for every twelve of them.

**Cost.** A row meets a few dozen nodes and rows, whatever the window's length, beside some hundred young rows; the
tree is rebuilt from time to time, which costs some hundred nanoseconds a row.

**Wrong choice when** the window has only some thousand rows, there are many columns in the score, WHERE lets few pairs
through, or one column decides alone (products of differences). Late rows are scored with the whole window, as by
`scase`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from skyband.algorithms.pairs import kd_tree as nested
from skyband.algorithms.pairs import pair_base as limits
from skyband.algorithms.pairs.kd_tree import Nested, nesting
from skyband.algorithms.pairs.pair_base import Question
from skyband.algorithms.pairs.pair_scoring import Loops
from skyband.algorithms.pairs.pair_skyband import settling
from skyband.algorithms.pairs.scase import SCase
from skyband.algorithms.pairs.ta import Searched
from skyband.core.types import Ints
from skyband.query.expression.difference_scores import differences
from skyband.query.expression.pairing import leaf_score

# Nanoseconds, about: a node, a partner in the tree, and a partner of scase. Where few pairs fit WHERE, or one column
# decides, the tree may cost more than no tree: then it is not used for at least so many rows.
_NODE, _PARTNER, _SCORE = 20.0, 12.0, 0.5
_REST = 4096


class KD(Searched):
    """scase with a k-d tree."""

    card = replace(
        SCase.card,
        name="kd",
        title="K-skyband of pairs with a k-d tree of the newest rows",
        source="beyond Shen, Cheema, Lin, Zhang, Wang 2012",
        keeps="the window's rows, a tree of them, and about 2K ln n pairs",
        cost="a row: its score with some hundred young rows, and some dozen nodes of a tree",
        wrong_when="the window is short, or the score is of many columns or a product",
        scores="differences",
        options={},
    )

    def __init__(self, options: Mapping[str, float], question: Question) -> None:
        super().__init__(options, question)
        self._kernel_counts = np.zeros(6, dtype=np.int64)  # the last two: pairs scored, nodes visited
        self._resting = 0  # rows for which scase is expected to be faster
        self._since = 0  # rows since the tree was built

    @classmethod
    def decided_by_one(cls, score: Any, descending: bool) -> bool:
        """Whether one column alone can make a pair as good as possible: then too much of the tree is near."""
        parts = differences(leaf_score(score))
        return parts is not None and parts.decided_by_one(1.0 if descending else -1.0)

    def _columns(self, before: int) -> list[Any]:
        """Return the columns of the rows numbered below `before`."""
        pool = self.rows.pool
        head = int(pool.head[0])
        span = slice(head, head + max(0, before - self.rows.first))
        return [self._values(leaf)[span] for leaf in self.parts.leaves]

    def _grown(self, number: int) -> int:
        """Build or extend the tree for the row of this number; return for how many more rows it serves."""
        rows = self.rows
        tree: Nested | None = self.index
        if tree is not None and number - 4 * nested.LAG > tree.entered[0]:
            tree = None  # many rows arrived that are not in it
        if tree is None or self._since >= max(2 * nested.LAG, tree.size // 2):
            before = max(rows.first, number - nested.LAG)
            tree = self.index = Nested(self._columns(before), rows.first)
            self._since = 0
        tree.reach(rows.first, rows.next)
        return max(2 * nested.LAG, tree.size // 2) - self._since

    def _enter(self, number: int, values: list[float]) -> None:
        self.index.insert(number, values, self.rows.first, self.rows.next)

    def _by_loops(self, ready: Loops, done: int, place: Ints, lows: Ints, highs: Ints) -> int:
        rows = self.rows
        assert rows.pairing is not None
        loop = nesting(
            rows.pairing, self.parts, tuple(far == (self.question.sign > 0) for far in self.parts.far),
            settling(self.k).__name__, ready.scan.function.__module__, self._slack() is not None,
            self.counts["pairs scored"] < limits.COMPILE_AFTER,
        )  # fmt: skip
        if loop is None or self._resting > 0:
            self._resting -= len(place) - done
            return self._without_index(ready, done, place, lows, highs)
        begun = done
        while done < len(place):
            last = min(len(place), done + self._grown(int(rows.pool.number[place[done]])))
            before = done
            done = loop(
                done, last, self._every(), place, lows, highs, rows.pool.number, rows.bar, rows.base, rows.first,
                *self._parameters(), self.k, self._best(), self._state, *self._list, *self._new, *self._swept,
                self._kernel_counts, *self.index.arrays,
            )  # fmt: skip
            self._since += done - before
            if done < last:
                self._grow(len(self._new[0]))
        met, nodes = self._kernel_counts[4:].tolist()
        self.counts["pairs accessed"] += met
        dear = _NODE * nodes + _PARTNER * max(0, met - nested.LAG * (done - begun))
        if dear > _SCORE * int((highs - lows)[begun:].sum()) and len(rows) > 4 * nested.LAG:
            self._resting = max(_REST, len(rows))
        self._counted(len(place))
        return done

    def _check(self) -> None:
        super()._check()
        if self.index is not None:
            self.index._check(self._columns(self.rows.next), self.rows.first)
