"""Toy: the k-skyband, swept at every arrival. The example of CONTRIBUTING, "How to add an algorithm".

**Problem.** Keep what a top-k over a sliding window may still need.

**Idea.** A row with k newer rows that are at least as good can never be in an answer: those k outlive it. So each
batch's rows are appended to the list of candidates, and one pass from the newest row back removes all such rows.

**What is kept.** Exactly the k-skyband, in order of recency: expiry is a cut at the front.

**Cost.** The size of the list for every batch that brings a candidate.

**Wrong choice when** batches are small: `ra` sweeps only when its list has grown.
"""

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from skyband.algorithms.base import Card, ListAlgorithm
from skyband.algorithms.kernels.batch_skyband import expected_size
from skyband.algorithms.kernels.candidate_lists import append, close_up, prune
from skyband.compiling.jit import kernel
from skyband.core.types import Floats, Ints

ADMITTED, SWEPT = 0, 1  # columns of `counts`


@kernel
def absorb(
    slot: int, count: int, picks: Ints, values: Floats, time: Ints, seq: Ints, place: Ints,
    mark: npt.NDArray[np.uint8], k: int, heap: Floats,
    good: Floats, times: Ints, seqs: Ints, start: Ints, head: Ints, size: Ints, room: Ints,
    fresh: Floats, counts: Ints,
) -> int:  # fmt: skip
    """Take the picked rows into the slot's list and sweep it; return 1 if the list needs more room first."""
    if count == 0:
        return 0
    begin = start[slot]
    if head[slot] > 0:  # the places of expired rows are free
        size[slot] = close_up(good, times, seqs, begin, head[slot], size[slot])
        head[slot] = 0
    if size[slot] + count > room[slot]:
        return 1
    append(time, seq, picks, values, count, good, times, seqs, begin, begin + size[slot])
    for i in range(count):
        if place.shape[0] > 0:
            mark[place[picks[i]]] = 1  # the stream keeps the columns of marked rows
    fresh[slot] = np.inf  # the slot's answers may have changed
    all_rows = size[slot] + count
    size[slot] = prune(good, times, seqs, begin, begin + all_rows, begin, k, heap)
    counts[slot, ADMITTED] += count
    counts[slot, SWEPT] += all_rows - size[slot]
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

    def state(self) -> tuple[Any, ...]:
        lists = self.lists
        return (
            lists.good, lists.time, lists.seq, lists.start, lists.head, lists.size, lists.room,
            self.fresh, self.counts,
        )  # fmt: skip
