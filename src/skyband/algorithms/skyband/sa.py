"""SA: the strict k-skyband (Pripužić, Podnar Žarko and Aberer, section 4; after Mouratidis et al.).

**Problem.** Keep exactly the rows that may still enter a top-k of a sliding window: no more, at any moment.

**Idea.** Each candidate carries the number of rows that dominate it (newer and at least as good). An arrival
raises the counter of every older candidate that it matches or beats; a counter that reaches k evicts. A
dominator outlives what it dominates, so counters never go down and eviction is final.

**What is kept.** One list a query in recency order, with a counter each: the k-skyband and nothing else.
A late row is counted from both sides: its own dominators among the newer candidates (all of them are there
as long as they are fewer than k, by transitivity), and itself against the older ones. Rows that their own
batch dominates are left out at once; what they dominate has the same k dominators.

**Cost.** O(n') for each row taken in, with n' = k(1 + H_n - H_k) the skyband's size in random order.

**Wrong choice when** rows are many and memory isn't the last word: `ra` gives the same answers in a fraction
of the time with half as much again of state. SA is the yardstick that the others are measured against.
"""

from typing import Any, ClassVar

import numpy as np

from skyband.algorithms.arrivals import Step
from skyband.algorithms.base import ListAlgorithm
from skyband.algorithms.contract import Card
from skyband.algorithms.kernels.batch_skyband import Picks, expected_size
from skyband.algorithms.kernels.candidate_lists import Lists, append, close_up, has_room, move, note
from skyband.compiling.jit import inlined, kernel

ADMITTED, EVICTED = range(2)  # counters


@inlined
def absorb_here(slot: int, count: int, picks: Picks, step: Step, lists: Lists) -> int:
    """`absorb`, written out where it is called: there it is done for many lists, one after the other."""
    if count == 0:
        return 0
    if lists.head[slot] > 0:  # what has left the window goes first
        close_up(lists, slot)
    if not has_room(lists, slot, count):
        return 1
    append(lists, slot, count, picks, step)
    note(lists, slot, count, picks, step)
    lists.counts[slot, EVICTED] += count_and_evict(lists, slot)
    return 0


@kernel
def absorb(slot: int, count: int, picks: Picks, step: Step, lists: Lists) -> int:
    """Take the picked rows into the slot's list, count the rows that dominate each, evict at k."""
    done: int = absorb_here(slot, count, picks, step, lists)
    return done


@kernel
def count_and_evict(lists: Lists, slot: int) -> int:
    """Count each new row (marked -1) against all others, then close the ranks. Returns how many were evicted."""
    begin, end = lists.start[slot], lists.start[slot] + lists.size[slot]
    good, dominators = lists.good, lists.count
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
        if dominators[place] < lists.ks[slot]:
            move(lists, write, place)
            dominators[write] = dominators[place]
            write += 1
    lists.size[slot] = write - begin
    return int(end - write)


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

    def _check(self) -> None:
        super()._check()
        for slot in np.flatnonzero(self.ks).tolist():
            span = self.lists.span(slot)
            good, dominators = self.lists.good[span], self.lists.count[span]
            # strict: a row with k dominators is gone (a smaller k, just set, shows at the next arrival)
            # and no counter misses a dominator that is there
            for place in range(len(good)):
                assert dominators[place] >= np.count_nonzero(good[place + 1 :] >= good[place])
