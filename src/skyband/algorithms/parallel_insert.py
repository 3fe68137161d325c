"""Rows for some queries, other rows for others: the work of one step, dealt out to threads.

Candidate lists have nothing in common, and kernels run outside the interpreter's lock. So the queries of a family can
be divided: each share has its own slots, its own rows (all of the step's, or those that can matter to just these
queries) and a scratch of its own. A list that needs more room gets it between two rounds, because the pool of all
lists may move then.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from skyband.algorithms.kernels.score_select import fused
from skyband.compiling.jit import kernel
from skyband.core.types import Floats, Ints

if TYPE_CHECKING:
    from skyband.algorithms.base import Arrivals, ListAlgorithm


class _Share:
    """Some rows for some queries, and how far they have been brought together."""

    def __init__(self, rows: Arrivals, ks: Ints, slots: Ints, heap: int) -> None:
        self.rows = rows
        self.ks = np.zeros_like(ks)  # none for the queries of others
        self.ks[slots] = ks[slots]
        self.slot = int(slots[0])  # where it stands
        self.picks: Ints = np.empty(len(rows), dtype=np.int64)
        self.values: Floats = np.empty(len(rows), dtype=np.float64)
        self.heap: Floats = np.empty(heap, dtype=np.float64)


def insert_shares(algorithm: ListAlgorithm, shares: Sequence[tuple[Arrivals, Ints]]) -> None:
    """Give each share's rows to its slots. No two shares have a slot in common; the score must be a rendered one."""
    algorithm.fresh.fill(-np.inf)
    work = _work(algorithm, shares)
    many = algorithm._fused(work[0].rows) if work else None
    lists = algorithm.lists
    with ThreadPoolExecutor(algorithm.threads, "skyband-queries") as pool:
        while work:
            _brought_together(pool, algorithm, many, work, algorithm.state())
            work = [share for share in work if share.slot < len(algorithm.ks)]
            for share in work:
                lists.grow(share.slot, 2 * int(lists.room[share.slot]))


def bars_of(algorithm: ListAlgorithm, shares: Sequence[tuple[Arrivals, Ints]]) -> Floats:
    """Each slot's k-th best score among its share's rows, which go nowhere; -inf where there are fewer."""
    bars = np.full(len(algorithm.ks), -np.inf)
    work = _work(algorithm, shares)
    if work:
        rows = work[0].rows
        many = fused(rows.rendered or "", len(rows.columns()), rows.constants.shape[1], __name__)
        with ThreadPoolExecutor(algorithm.threads, "skyband-queries") as pool:
            _brought_together(pool, algorithm, many, work, (bars,))
    return bars


@kernel
def absorb(
    slot: int, count: int, picks: Ints, values: Floats, time: Ints, seq: Ints, place: Ints,
    mark: npt.NDArray[np.uint8], k: int, heap: Floats, bars: Floats,
) -> int:  # fmt: skip
    """In the place of an algorithm's own: nothing is taken, but the least of the k best is noted."""
    if count >= k:
        bars[slot] = heap[0]
    return 0


def _work(algorithm: ListAlgorithm, shares: Sequence[tuple[Arrivals, Ints]]) -> list[_Share]:
    shares = [(rows, slots) for rows, slots in shares if len(rows) and len(slots)]
    algorithm._scratch(max((len(rows) for rows, _ in shares), default=0))
    return [_Share(rows, algorithm.ks, slots, len(algorithm._heap)) for rows, slots in shares]


def _brought_together(
    pool: ThreadPoolExecutor, algorithm: ListAlgorithm, many: Any, work: list[_Share], state: tuple[Any, ...]
) -> None:
    """Let a kernel go over all shares, each as far as there is room."""

    def take(share: _Share) -> None:
        rows = share.rows
        share.slot = many(
            share.slot, rows.constants, rows.sign, *rows.columns(), rows.time, rows.seq, rows.place, rows.mark,
            algorithm.horizon_time, algorithm.horizon_seq, share.ks, share.heap, share.picks, share.values, state,
        )  # fmt: skip

    if algorithm.threads == 1 or len(work) == 1:
        for share in work:
            take(share)
        return
    list(pool.map(take, work))
