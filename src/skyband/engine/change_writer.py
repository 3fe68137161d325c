"""Changes as the columns of a table: one loop from the board's arrays to the memory that a table is a view of."""

import numpy as np
import numpy.typing as npt

from skyband.algorithms.kernels.answer_diff import refresh_ranked
from skyband.compiling.jit import kernel
from skyband.core.types import Floats, Ints

Numbers = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]


@kernel
def emit(
    first: int, ids: Numbers, sign: float, watch: Ints, rank: Ints, good: Floats, seq: Ints,
    out_query: Numbers, out_change: Numbers, out_rank: Numbers, out_valid: Bytes, out_score: Floats, out_seq: Ints,
) -> None:  # fmt: skip
    """Write changes from place `first` on; a rank is null (its bit 0) where a row leaves."""
    for i in range(watch.shape[0]):
        at = first + i
        out_query[at] = ids[watch[i]]
        entering = rank[i] > 0
        out_change[at] = 1 if entering else 0
        out_rank[at] = rank[i]
        if entering:
            out_valid[at >> 3] |= np.uint8(1 << (at & 7))
        else:
            out_valid[at >> 3] &= np.uint8(255 - (1 << (at & 7)))
        out_score[at] = sign * good[i] + 0.0  # -0.0 is shown as 0.0
        out_seq[at] = seq[i]


@kernel
def tell(
    used: int, sign: float, timed: bool, ks: Ints, touched: Bytes, slots: Ints, start: Ints, room: Ints, size: Ints,
    stale: Ints, good: Floats, time: Ints, seq: Ints,
    pool_good: Floats, pool_time: Ints, pool_seq: Ints, list_start: Ints, list_size: Ints,
    watch: Ints, rank: Ints, found_good: Floats, found_time: Ints, found_seq: Ints, ids: Numbers,
    out_query: Numbers, out_change: Numbers, out_rank: Numbers, out_valid: Bytes, out_score: Floats, out_seq: Ints,
) -> tuple[int, int]:  # fmt: skip
    """`refresh_ranked` of all watches and `emit` in one: where it stopped, and how many changes there are. They are
    written only if that was at the end and there is room for them."""
    first, count = refresh_ranked(
        0, slots, ks, touched, timed, start, room, size, stale, good, time, seq, pool_good, pool_time, pool_seq,
        list_start, list_size, watch, rank, found_good, found_time, found_seq,
    )  # fmt: skip
    if first == slots.shape[0]:
        for slot in range(touched.shape[0]):
            touched[slot] = 0
        if used + count <= out_query.shape[0]:
            emit(
                used, ids, sign, watch[:count], rank[:count], found_good[:count], found_seq[:count],
                out_query, out_change, out_rank, out_valid, out_score, out_seq,
            )  # fmt: skip
    return first, count
