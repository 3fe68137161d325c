"""The one total order and the one dominance rule.

A row is known here by three numbers: `good`, its score turned so that more is better (the score itself,
or its negation where the least is wanted); `time`, its event time as an order-preserving integer (0 where
the stream has no time column); and `seq`. Recency is (time, seq).

* **Order**: greater `good` first; equal: the newer row first. Since no two rows share a recency, the order
  is total, and every exact algorithm gives the same answer to the last bit. -0.0 equals 0.0 because
  comparison says so; NaN never gets here.
* **Dominance**: a dominates b if a comes before b in the order and leaves the window no earlier, that is:
  a is newer and its `good` is at least b's. A row with k dominators is in no top-k until it leaves, under
  any row or time window, because both kinds are suffixes of the recency order.

A *horizon* is a recency too: the rows at or after it are inside. `LOWEST` lies before every row.
"""

import numpy as np
import numpy.typing as npt

from skyband.compiling.jit import inlined, kernel
from skyband.core.types import LOWEST, MINIMUM, Floats, Ints, Recency

__all__ = [
    "LOWEST", "MINIMUM", "Floats", "Ints", "Recency", "before", "first_inside", "inside", "inside_of", "newer",
]  # fmt: skip


@inlined
def newer(time: int, seq: int, other_time: int, other_seq: int) -> bool:
    """Whether a row is newer than another."""
    if time != other_time:
        return time > other_time
    return seq > other_seq


@inlined
def before(good: float, time: int, seq: int, other_good: float, other_time: int, other_seq: int) -> bool:
    """Whether a row comes before another in the one total order."""
    if good != other_good:
        return good > other_good
    if time != other_time:
        return time > other_time
    return seq > other_seq


def inside(time: Ints, seq: Ints, horizon: Recency) -> npt.NDArray[np.bool_]:
    """Return for each row whether it is at or after a horizon."""
    found: npt.NDArray[np.bool_] = (time > horizon.time) | ((time == horizon.time) & (seq >= horizon.seq))
    return found


@kernel
def first_inside(time: Ints, seq: Ints, begin: int, end: int, horizon_time: int, horizon_seq: int) -> int:
    """The first place in [begin, end) of a list in recency order whose row is at or after the horizon."""
    low, high = begin, end
    while low < high:
        middle = (low + high) // 2
        if time[middle] < horizon_time or (time[middle] == horizon_time and seq[middle] < horizon_seq):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def inside_of(time: Ints, seq: Ints, n: int, horizon_time: int, horizon_seq: int) -> int:
    """How many of n rows, newest first, are at or after the horizon."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if time[middle] < horizon_time or (time[middle] == horizon_time and seq[middle] < horizon_seq):
            high = middle
        else:
            low = middle + 1
    return low
