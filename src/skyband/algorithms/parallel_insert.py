"""The work of one step divided among threads, query by query.

Candidate lists share nothing, and kernels run without the interpreter's lock. So the queries of a family can be divided
into shares. A share has slots of its own, rows of its own (all of the step's, or those that can matter to its queries)
and its own scratch memory. A list that is full stops its share; the caller grows the list when all shares have stopped,
because the pool of all lists may move then.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from skyband.algorithms.arrivals import Arrivals, Step
from skyband.algorithms.kernels.batch_skyband import Picks
from skyband.algorithms.kernels.candidate_lists import Lists
from skyband.algorithms.kernels.score_select import fused
from skyband.compiling.jit import kernel
from skyband.core.types import Floats, Ints


class Share:
    """Some rows for some slots of lists; the kernel goes on at `slots[at]`."""

    def __init__(self, rows: Arrivals, slots: Ints, picks: Picks, step: Step) -> None:
        self.rows = rows
        self.slots = slots
        self.picks = picks
        self.step = step.hold(rows.time, rows.seq, rows.place, rows.mark)
        self.at = 0

    def arguments(self, states: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return what the kernel takes."""
        rows = self.rows
        return self.at, self.slots, rows.constants, rows.sign, *rows.columns(), self.picks, self.step, *states

    def run(self, many: Any, states: tuple[Any, ...]) -> None:
        """Score the rows for each slot from `at` on, and stop where a list is full or after the last slot."""
        self.at = many(*self.arguments(states))


def run_all(shares: Sequence[Share], threads: int, many: Any, lists: Lists, *states: Any) -> None:
    """Run all shares to their end, on up to `threads` threads. Full lists grow meanwhile."""

    def run(share: Share) -> None:
        share.run(many, (lists, *states))

    while shares:
        if threads == 1 or len(shares) == 1:
            list(map(run, shares))
        else:
            with ThreadPoolExecutor(threads, "skyband-queries") as pool:
                list(pool.map(run, shares))
        shares = [share for share in shares if share.at < len(share.slots)]
        for share in shares:
            lists.reserve(int(share.slots[share.at]))


def bars_of(shares: Sequence[Share], threads: int, lists: Lists) -> Floats:
    """Return each slot's k-th best score among its share's rows, -inf where there are fewer. No row is kept."""
    bars = np.full(len(lists.ks), -np.inf)
    if shares:
        rows = shares[0].rows
        many = fused(rows.rendered or "", len(rows.columns()), rows.constants.shape[1], absorb)
        run_all(shares, threads, many, lists, bars)
    return bars


@kernel
def absorb(slot: int, count: int, picks: Picks, step: Step, lists: Lists, bars: Floats) -> int:
    """Write the least of the k best scores to `bars`; it has the place of an algorithm's `absorb`, and keeps no row."""
    if count >= lists.ks[slot]:
        bars[slot] = picks.heap[0]
    return 0
