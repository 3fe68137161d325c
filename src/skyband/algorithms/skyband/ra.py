"""RA: the relaxed k-skyband (Pripužić, Podnar Žarko and Aberer, section 4.2).

**Problem.** Keep what a top-k over a sliding window may still need, and nothing of the rest of the window.

**Idea.** A row with k newer rows that are at least as good can never be in an answer: those k outlive it.
What remains, the k-skyband, holds about k(1 + ln(n/k)) of n rows. The strict algorithm (`sa`) pays for each
arrival to keep exactly that set. RA takes new rows in without looking and throws the dominated ones out in
one sweep when the candidates beyond the first k (the paper's *candidate tree*) have grown to a limit; the
next limit is (1 + gamma) times what the sweep left.

**What is kept.** One list a query, in recency order. The paper has a tree of the top k, one of candidates and
one by time; here the order by recency alone serves: expiry is a cut at the front, every window is a suffix,
and the sweep (the paper's *dominator tree*) is one pass from the newest row back with a heap of k scores.
A batch is swept against itself before it comes in, so that most of its rows are never stored at all; and if
it has more than k rows, older candidates no better than its k-th best go with one comparison each, which makes
sweeps rare. (Row by row, as in the paper, neither happens.)

**Cost.** O(n) to score a batch, then amortised O(log k) for each row that its own batch doesn't dominate.
State: on average (1 + gamma/2)n' - (gamma/2)k with n' = k(1 + H_n - H_k) in random order.

**Wrong choice when** scores fall all the time: then every row is in the skyband of every algorithm, and the
window itself is the state. Also for thousands of queries over large batches: each scores every row.

Errata followed: the sweep starts at `>= limit`; the limit is rounded up and is at least one above what was
left, or tiny sets would be swept at each arrival.
"""

from typing import Any, ClassVar

import numpy as np

from skyband.algorithms.arrivals import Step
from skyband.algorithms.base import ListAlgorithm
from skyband.algorithms.contract import Card, Workload
from skyband.algorithms.kernels.batch_skyband import Picks, expected_size
from skyband.algorithms.kernels.candidate_lists import Lists, append, has_room, note, outdo, prune
from skyband.compiling.jit import inlined, kernel

GAMMA = 0.5
ADMITTED, SWEEPS, SWEPT = range(3)  # counters


def expected(k: int, n: float) -> float:
    strict = expected_size(k, n)
    return (1 + GAMMA / 2) * strict - (GAMMA / 2) * min(k, strict)


def cost_of(work: Workload) -> float:
    """Seconds for a batch: each score is computed for each row, and its list takes what the batch itself doesn't
    dominate; queries of one score share the list, and each is answered by a walk of its own."""
    more = work.queries - work.lists
    return taking(work) + more * (expected_size(work.k, work.window) * 5e-9 + work.k * 5e-8)


def taking(work: Workload) -> float:
    """Seconds to score a batch, and to take what matters."""
    score = 2e-9 if work.rendered else 2e-8
    taken = min(work.batch, work.k * (1.0 + np.log(max(1.0, work.batch / work.k))))
    each = 6e-7 + work.batch * score + taken * 8e-8
    return float(80e-6 + 15e-6 * min(1.0, work.batch / 100) + work.batch * 1e-8 + work.lists * each)


@inlined
def absorb_here(slot: int, count: int, picks: Picks, step: Step, lists: Lists, gamma: float) -> int:
    """`absorb`, written out where it is called: there it is done for many lists, one after the other."""
    if count == 0:
        return 0
    k = lists.ks[slot]
    if step.time.shape[0] > k and count >= k:
        # a batch of more than k rows, swept against itself: its k-th best outdoes older rows by a mere comparison
        oldest = picks.row[count - 1]
        lists.counts[slot, SWEPT] += outdo(lists, slot, picks.heap[0], step.time[oldest], step.seq[oldest])
    if not has_room(lists, slot, count):
        return 1
    append(lists, slot, count, picks, step)
    note(lists, slot, count, picks, step)
    if lists.size[slot] - lists.head[slot] - k >= lists.limit[slot]:
        lists.counts[slot, SWEEPS] += 1
        lists.counts[slot, SWEPT] += prune(lists, slot, k, picks.heap)
        left = max(lists.size[slot] - k, 0)
        lists.limit[slot] = max(int(np.ceil((1.0 + gamma) * left)), left + 1)
    return 0


@kernel
def absorb(slot: int, count: int, picks: Picks, step: Step, lists: Lists, gamma: float) -> int:
    """Take the picked rows into the slot's list; sweep it if its candidates have reached the limit."""
    done: int = absorb_here(slot, count, picks, step, lists, gamma)
    return done


class RA(ListAlgorithm):
    """The relaxed k-skyband: rows come in unchecked, dominated ones go in sweeps."""

    card = Card(
        name="ra",
        title="relaxed k-skyband",
        source="Pripužić, Podnar Žarko, Aberer 2015, section 4.2",
        answers=frozenset({"topk"}),
        exact=True,
        keeps="the rows with fewer than k newer rows at least as good, and some that a sweep will remove",
        cost="a batch: its scores, then about log k for each row that its own batch doesn't dominate",
        wrong_when="scores fall steadily (the skyband is then the window), or thousands of queries meet large batches",
        expected=expected,
        options={"gamma": GAMMA, "limit": 4.0},
        cost_of=cost_of,
    )
    counter_names: ClassVar[tuple[str, ...]] = ("admitted", "sweeps", "swept")

    @property
    def absorb(self) -> Any:
        return absorb

    def first_limit(self, k: int) -> int:
        return max(1, int(np.ceil(self.options["limit"] * k)))

    def resize(self, slot: int, k: int) -> None:
        super().resize(slot, k)
        lists = self.lists
        lists.limit[slot] = max(int(lists.limit[slot]), lists.live(slot) - k + 1)

    def states(self) -> tuple[Any, ...]:
        return self.lists, float(self.options["gamma"])

    def _check(self) -> None:
        super()._check()
        for slot in np.flatnonzero(self.ks).tolist():
            # the sweep keeps the candidates beyond the first k below the limit
            assert self.lists.live(slot) - int(self.ks[slot]) < max(1, int(self.lists.limit[slot]))
