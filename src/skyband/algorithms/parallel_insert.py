"""The work of one step divided among threads, query by query.

Candidate lists share nothing, and kernels run without the interpreter's lock. So the queries of a family can be divided
into shares. A share has slots of its own, rows of its own (all of the step's, or those that can matter to its queries)
and its own scratch memory. A list that is full stops its share; the caller grows the list when all shares have stopped,
because the pool of all lists may move then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.algorithms.arrivals import Arrivals
from skyband.algorithms.kernels.score_select import fused
from skyband.compiling.jit import kernel
from skyband.core.types import Floats, Ints


class Share:
    """Some rows for some queries; `slot` is where the kernel goes on."""

    def __init__(self, rows: Arrivals, ks: Ints, slots: Ints, heap: int) -> None:
        self.rows = rows
        self.ks = np.zeros_like(ks)  # 0 for the queries of other shares
        self.ks[slots] = ks[slots]
        self.slot = int(slots[0])
        self.picks: Ints = np.empty(len(rows), dtype=np.int64)
        self.values: Floats = np.empty(len(rows), dtype=np.float64)
        self.heap: Floats = np.empty(heap, dtype=np.float64)

    def run(self, many: Any, horizon_time: Ints, horizon_seq: Ints, state: tuple[Any, ...]) -> None:
        """Score the rows for each slot from `slot` on, and stop where a list is full or after the last slot."""
        rows = self.rows
        self.slot = many(
            self.slot, rows.constants, rows.sign, *rows.columns(), rows.time, rows.seq, rows.place, rows.mark,
            horizon_time, horizon_seq, self.ks, self.heap, self.picks, self.values, state,
        )  # fmt: skip


def run_all(
    shares: Sequence[Share],
    threads: int,
    many: Any,
    horizon_time: Ints,
    horizon_seq: Ints,
    state: Callable[[], tuple[Any, ...]],
    grow: Callable[[int], None],
) -> None:
    """Run all shares to their end, on up to `threads` threads.

    `state` returns the arrays that the kernel works on. `grow` makes the list of a slot larger.
    """

    def run(share: Share) -> None:
        share.run(many, horizon_time, horizon_seq, arrays)

    with ThreadPoolExecutor(threads, "skyband-queries") as pool:  # a pool that is not used starts no thread
        while shares:
            arrays = state()
            list(map(run, shares) if threads == 1 or len(shares) == 1 else pool.map(run, shares))
            shares = [share for share in shares if share.slot < len(share.ks)]
            for share in shares:
                grow(share.slot)


def bars_of(
    shares: Sequence[Share], slots: int, threads: int, horizon_time: Ints, horizon_seq: Ints
) -> Floats:
    """Return each slot's k-th best score among its share's rows, -inf where there are fewer. No row is kept."""
    bars = np.full(slots, -np.inf)
    if shares:
        rows = shares[0].rows
        many = fused(rows.rendered or "", len(rows.columns()), rows.constants.shape[1], __name__)
        run_all(shares, threads, many, horizon_time, horizon_seq, lambda: (bars,), lambda slot: None)
    return bars


@kernel
def absorb(
    slot: int, count: int, picks: Ints, values: Floats, time: Ints, seq: Ints, place: Ints,
    mark: npt.NDArray[np.uint8], k: int, heap: Floats, bars: Floats,
) -> int:  # fmt: skip
    """Write the least of the k best scores to `bars`; it has the place of an algorithm's `absorb`, and keeps no row."""
    if count >= k:
        bars[slot] = heap[0]
    return 0
