"""Every row beyond a bound: the threshold query.

**Problem.** Report each row whose score lies beyond a constant as it arrives and as it leaves the window.

**Idea.** None is needed: no row can make another one superfluous, so each row beyond the bound is kept until
it leaves. The predicate has already chosen the rows when they get here.

**What is kept.** The rows beyond the bound, in recency order, and no others.

In an update stream a row that is deleted or replaced is taken out of the middle: no other was dropped because of it.

**Cost.** O(1) an arrival beyond the bound; a step that changes the answer sorts it, since ranks are reported. A deleted
row is found by binary search, and what is newer moves up.

**Wrong choice when** most rows are beyond the bound and only the best matter: ask for a top-k.
"""

from typing import Any, ClassVar

import numpy as np

from skyband.algorithms.arrivals import Step
from skyband.algorithms.base import ListAlgorithm
from skyband.algorithms.contract import Card
from skyband.algorithms.kernels.batch_skyband import Picks
from skyband.algorithms.kernels.candidate_lists import Lists, append, has_room, note
from skyband.algorithms.parallel_insert import Share
from skyband.compiling.jit import kernel
from skyband.core.types import Floats


@kernel
def absorb(slot: int, count: int, picks: Picks, step: Step, lists: Lists) -> int:
    """Take all picked rows; what has left makes room first."""
    if not has_room(lists, slot, count):
        return 1
    append(lists, slot, count, picks, step)
    note(lists, slot, count, picks, step)
    if count > 0:
        lists.fresh[slot] = np.inf
    return 0


class Threshold(ListAlgorithm):
    """Keeps every row beyond the bound."""

    card = Card(
        name="threshold",
        title="every row beyond the bound",
        source="Mouratidis, Bakiras, Papadias 2006, section 7",
        answers=frozenset({"threshold"}),
        exact=True,
        keeps="every row of the window beyond the bound",
        cost="constant for each row beyond the bound, and a sort of the answer when it changes",
        wrong_when="most rows are beyond the bound and only the best matter (ask for a top-k)",
        expected=lambda k, n: float(n),
        options={},
        fifo=False,
    )
    counter_names: ClassVar[tuple[str, ...]] = ("admitted",)

    @property
    def absorb(self) -> Any:
        return absorb

    def pick(self, slot: int, good: Floats, inside: int) -> int:
        rows = np.flatnonzero(~np.isnan(good[:inside]))
        self.picks.row[: len(rows)] = rows
        self.picks.good[: len(rows)] = good[rows]
        return len(rows)

    def _fusion_pays(self, share: Share) -> bool:
        return False  # nothing to select: the score column is all there is
