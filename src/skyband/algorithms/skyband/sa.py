"""SA: the strict k-skyband (Pripužić, Podnar Žarko and Aberer, section 4; after Mouratidis et al.).

**Problem.** Keep exactly the rows that may still enter a top-k of a sliding window: no more, at any moment.

**Idea.** Each candidate carries the number of rows that dominate it (newer and at least as good). An arrival
raises the counter of every older candidate that it matches or beats; a counter that reaches k evicts. A
dominator outlives what it dominates, so counters never go down and eviction is final.

**What is kept.** One list a query in recency order, with a counter each: the k-skyband and nothing else.
A late row is counted from both sides: its own dominators among the newer candidates (all of them are there
as long as they are fewer than k, by transitivity), and itself against the older ones. Rows that their own
batch dominates are left out at once; whoever they dominate has the same k dominators.

**Cost.** O(n') for each row taken in, with n' = k(1 + H_n - H_k) the skyband's size in random order.

**Wrong choice when** rows are many and memory isn't the last word: `ra` gives the same answers in a fraction
of the time with half as much again of state. SA is the yardstick that the others are measured against.
"""

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from skyband.algorithms.base import Card, ListAlgorithm
from skyband.algorithms.kernels.batch_skyband import expected_size
from skyband.compiling.jit import inlined, kernel
from skyband.core.types import Floats, Ints


@inlined
def absorb_here(
    slot: int, count: int, picks: Ints, values: Floats, time: Ints, seq: Ints, place: Ints,
    mark: npt.NDArray[np.uint8], k: int, heap: Floats,
    good: Floats, times: Ints, seqs: Ints, dominators: Ints, start: Ints, head: Ints, size: Ints, room: Ints,
    fresh: Floats, counts: Ints,
) -> int:  # fmt: skip
    """`absorb`, written out where it is called: there it is done for many lists, one after the other."""
    if count == 0:
        return 0
    begin = start[slot]
    if head[slot] > 0:  # what has left the window goes first
        for i in range(size[slot] - head[slot]):
            good[begin + i] = good[begin + head[slot] + i]
            times[begin + i] = times[begin + head[slot] + i]
            seqs[begin + i] = seqs[begin + head[slot] + i]
            dominators[begin + i] = dominators[begin + head[slot] + i]
        size[slot] -= head[slot]
        head[slot] = 0
    if size[slot] + count > room[slot]:
        return 1
    merge(time, seq, picks, values, count, good, times, seqs, dominators, begin, begin + size[slot])
    size[slot] += count
    counts[slot, 0] += count
    for i in range(count):
        if place.shape[0] > 0:  # else all are marked already
            mark[place[picks[i]]] = 1
        if values[i] > fresh[slot]:
            fresh[slot] = values[i]
    kept = count_and_evict(good, times, seqs, dominators, begin, begin + size[slot], k)
    counts[slot, 1] += size[slot] - kept
    size[slot] = kept
    return 0


@kernel
def absorb(
    slot: int, count: int, picks: Ints, values: Floats, time: Ints, seq: Ints, place: Ints,
    mark: npt.NDArray[np.uint8], k: int, heap: Floats,
    good: Floats, times: Ints, seqs: Ints, dominators: Ints, start: Ints, head: Ints, size: Ints, room: Ints,
    fresh: Floats, counts: Ints,
) -> int:  # fmt: skip
    """Take the picked rows into the slot's list, count who dominates whom, evict at k."""
    done: int = absorb_here(
        slot, count, picks, values, time, seq, place, mark, k, heap, good, times, seqs, dominators, start, head,
        size, room, fresh, counts,
    )  # fmt: skip
    return done


@kernel
def merge(
    time: Ints, seq: Ints, picks: Ints, values: Floats, count: int,
    good: Floats, times: Ints, seqs: Ints, dominators: Ints, begin: int, end: int,
) -> None:  # fmt: skip
    """Bring the picked rows into their places; a new row's counter is -1 until it is counted."""
    left = end - 1
    write = end + count - 1
    for i in range(count):
        row = picks[i]
        while left >= begin and (
            times[left] > time[row] or (times[left] == time[row] and seqs[left] > seq[row])
        ):
            good[write] = good[left]
            times[write] = times[left]
            seqs[write] = seqs[left]
            dominators[write] = dominators[left]
            left -= 1
            write -= 1
        good[write] = values[i]
        times[write] = time[row]
        seqs[write] = seq[row]
        dominators[write] = -1
        write -= 1


@kernel
def count_and_evict(
    good: Floats, times: Ints, seqs: Ints, dominators: Ints, begin: int, end: int, k: int
) -> int:
    """Count each new row (marked -1) against all others, then close the ranks. Returns how many stay."""
    for new in range(end - 1, begin - 1, -1):
        if dominators[new] >= 0:
            continue
        value = good[new]
        own = 0
        for newer in range(new + 1, end):
            own += good[newer] >= value
        for older in range(begin, new):
            # an older row that is new itself will count this one among its own
            if dominators[older] >= 0 and good[older] <= value:
                dominators[older] += 1
        dominators[new] = own
    write = begin
    for place in range(begin, end):
        if dominators[place] < k:
            good[write] = good[place]
            times[write] = times[place]
            seqs[write] = seqs[place]
            dominators[write] = dominators[place]
            write += 1
    return write - begin


class SA(ListAlgorithm):
    """The strict k-skyband with dominance counters."""

    card = Card(
        name="sa",
        title="strict k-skyband",
        source="Pripužić, Podnar Žarko, Aberer 2015, section 4; Mouratidis, Bakiras, Papadias 2006",
        answers=frozenset({"topk"}),
        exact=True,
        keeps="exactly the rows with fewer than k newer rows at least as good, and how many each has",
        cost="a batch: its scores, then the size of the skyband for each row that its own batch doesn't dominate",
        wrong_when="speed matters more than the last third of the memory (take `ra`)",
        expected=expected_size,
        options={},
    )
    counter_names: ClassVar[tuple[str, ...]] = ("admitted", "evicted")
    counted = True

    @property
    def absorb(self) -> Any:
        return absorb

    def state(self) -> tuple[Any, ...]:
        lists = self.lists
        return (
            lists.good, lists.time, lists.seq, lists.count, lists.start, lists.head, lists.size, lists.room,
            self.fresh, self.counts,
        )  # fmt: skip

    def _check(self) -> None:
        super()._check()
        for slot in np.flatnonzero(self.ks).tolist():
            span = self.lists.span(slot)
            good, dominators = self.lists.good[span], self.lists.count[span]
            # strict: whoever has k dominators is gone (a smaller k, just set, shows at the next arrival)
            # and no counter misses a dominator that is there
            for place in range(len(good)):
                assert dominators[place] >= np.count_nonzero(good[place + 1 :] >= good[place])
