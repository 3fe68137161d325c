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
import numpy.typing as npt

from skyband.algorithms.arrivals import Arrivals
from skyband.algorithms.base import Card, ListAlgorithm
from skyband.algorithms.kernels.candidate_lists import append, close_up
from skyband.compiling.jit import kernel
from skyband.core.types import Floats, Ints


@kernel
def absorb(
    slot: int, count: int, picks: Ints, values: Floats, time: Ints, seq: Ints, place: Ints,
    mark: npt.NDArray[np.uint8], k: int, heap: Floats,
    good: Floats, times: Ints, seqs: Ints, start: Ints, head: Ints, size: Ints, room: Ints,
    fresh: Floats, counts: Ints,
) -> int:  # fmt: skip
    """Take all picked rows; what has left makes room first."""
    begin = start[slot]
    if size[slot] + count > room[slot] and head[slot] > 0:
        size[slot] = close_up(good, times, seqs, begin, head[slot], size[slot])
        head[slot] = 0
    if size[slot] + count > room[slot]:
        return 1
    append(time, seq, picks, values, count, good, times, seqs, begin + head[slot], begin + size[slot])
    size[slot] += count
    counts[slot, 0] += count
    for i in range(count):
        mark[place[picks[i]]] = 1
        fresh[slot] = np.inf
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

    def pick(self, good: Floats, inside: int, k: int) -> int:
        picks = np.flatnonzero(~np.isnan(good[:inside]))
        self._picks[: len(picks)] = picks
        self._values[: len(picks)] = good[picks]
        return len(picks)

    def _fusion_pays(self, rows: Arrivals, members: int) -> bool:
        return False  # nothing to select: the score column is all there is

    def state(self) -> tuple[Any, ...]:
        lists = self.lists
        return (
            lists.good, lists.time, lists.seq, lists.start, lists.head, lists.size, lists.room,
            self.fresh, self.counts,
        )  # fmt: skip
