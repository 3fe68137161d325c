"""Changes as the columns of a table: one loop from the comparison's arrays to the memory that a table is a view of."""

import numpy as np
import numpy.typing as npt

from skyband.algorithms.kernels.ranked_lists import find_ends
from skyband.compiling.jit import kernel
from skyband.core.exchange import ROW
from skyband.core.types import Floats, Ints
from skyband.engine.answers import compare

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
def write_changes(
    used: int, sign: float, timed: bool, ks: Ints, touched: Bytes, slots: Ints, start: Ints, room: Ints, size: Ints,
    stale: Ints, good: Floats, time: Ints, seq: Ints,
    pool_good: Floats, pool_time: Ints, pool_seq: Ints, list_start: Ints, list_size: Ints,
    which: Ints, begins: Ints, sizes: Ints,
    watch: Ints, rank: Ints, found_good: Floats, found_time: Ints, found_seq: Ints, ids: Numbers,
    out_query: Numbers, out_change: Numbers, out_rank: Numbers, out_valid: Bytes, out_score: Floats, out_seq: Ints,
) -> tuple[bool, int]:  # fmt: skip
    """Compare the answers of all watches of ranked lists and write the changes, in one. Return whether all watches were
    compared, and how many changes there are. They are written only if all were and there is room for them."""
    count = find_ends(slots, ks, touched, stale, list_start, list_size, which, begins, sizes)
    first, changes = compare(
        0, ROW, timed, -1, (which[:count], begins, sizes),
        (pool_good, pool_time, pool_seq, pool_seq, pool_seq), (start, room, size, stale, good, time, seq, seq, seq),
        (watch, rank, found_good, found_time, found_seq, found_seq, found_seq),
    )  # fmt: skip
    if first < count:
        return False, changes
    for slot in range(touched.shape[0]):
        touched[slot] = 0
    if used + changes <= out_query.shape[0]:
        emit(
            used, ids, sign, watch[:changes], rank[:changes], found_good[:changes], found_seq[:changes],
            out_query, out_change, out_rank, out_valid, out_score, out_seq,
        )  # fmt: skip
    return True, changes
