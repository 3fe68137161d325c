"""Changes as the columns of a table: one loop from the board's arrays to the memory that a table is a view of."""

import numpy as np
import numpy.typing as npt

from skyband.jit import kernel
from skyband.order import Floats, Ints

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
