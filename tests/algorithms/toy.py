"""Toy: the k-skyband, swept at every arrival. The example of CONTRIBUTING, "How to add an algorithm".

**Problem.** Keep what a top-k over a sliding window may still need.

**Idea.** A row with k newer rows that are at least as good can never be in an answer: those k outlive it. So each
batch's rows are appended to the list of candidates, and one pass from the newest row back removes all such rows.

**What is kept.** Exactly the k-skyband, in order of recency: expiry is a cut at the front.

**Cost.** The size of the list for every batch that brings a candidate.

**Wrong choice when** batches are small: `ra` sweeps only when its list has grown.
"""

from typing import Any, ClassVar

from skyband.algorithms.arrivals import Step
from skyband.algorithms.base import ListAlgorithm
from skyband.algorithms.contract import Card
from skyband.algorithms.kernels.batch_skyband import Picks, expected_size
from skyband.algorithms.kernels.candidate_lists import Lists, append, has_room, note, prune
from skyband.compiling.jit import kernel

SWEPT = 1  # column of `counts`; the first counts the rows that came in (`note`)


@kernel
def absorb(slot: int, count: int, picks: Picks, step: Step, lists: Lists) -> int:
    """Take the picked rows into the slot's list and sweep it; return 1 if the list needs more room first."""
    if count == 0:
        return 0
    if not has_room(lists, slot, count):
        return 1
    append(lists, slot, count, picks, step)
    note(lists, slot, count, picks, step)  # the stream keeps the columns of marked rows
    lists.counts[slot, SWEPT] += prune(lists, slot, lists.ks[slot], picks.heap)
    return 0


class Toy(ListAlgorithm):
    """The k-skyband, swept at every arrival."""

    card = Card(
        name="toy",
        title="k-skyband, swept at every arrival",
        source="CONTRIBUTING, how to add an algorithm",
        answers=frozenset({"topk"}),
        exact=True,
        keeps="exactly the rows with fewer than k newer rows at least as good",
        cost="a batch: its scores, then one pass over the list",
        wrong_when="batches are small (take `ra`)",
        expected=expected_size,
        options={},
    )
    counter_names: ClassVar[tuple[str, ...]] = ("admitted", "swept at once")

    @property
    def absorb(self) -> Any:
        return absorb
