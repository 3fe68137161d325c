"""How long a list must be if it may miss a row now and then: the mathematics behind `pa`.

`pa` drops a row as soon as enough rows of the window are better. It is wrong where such a row would have come back:
where the better ones, being older, leave and not as many new ones come. How often that happens in a stream in
random order can be said exactly.

**The walk.** Look at one row while n - 1 rows come after it. In each step one row enters the window and one leaves;
both may be better than ours or not. Let N be how many rows of the window are better: it goes up, down or stays. Of
2n - 2 neighbours in random order, those that are better stand anywhere with equal probability, so ups and downs
come in any order with equal probability. A list of the C best drops our row when N reaches C, and misses it if N
later falls to k - 1. How many orders of p downs and q ups do that is found by reflecting the path at C and at k -
1, as in the ballot problem: from start h to end e, binomial(p + q, (p + q + min(e, 2(k - 1) - e) - max(h, 2C - h))
/ 2) of them.

**The sum.** Added up over all scores that a row may have, this is the expected number of rows, per n rows, that a list
of the C best loses and should have shown (tests/algorithms/kernels/published_limits.py has it as exact fractions). It
grows with n towards `misses(k, C)`, where nothing but tails of fair coins remains: with B(T) the number of heads in T
throws,

    sum over q < k of P(B(C+q) <= q)  +  2 sum over 0 < q < k of P(B(C+q) < q)  +  sum over T >= C+k of P(B(T) < k).

So one limit does for every length of window, and for windows of time, whose number of rows is not known in advance.
Where k is a large part of the window there are fewer misses than that: of 1,000 rows and k = 81, three fifths.

**What it bounds.** A list that drops a row only while at least C rows of the window are better keeps every row that
the list of the C best keeps, and so misses no more, whatever else it keeps. `limit_for` is the least C - k whose
misses per n rows are within the error that is allowed.

The published rule (Pripužić, Podnar Žarko and Aberer 2015, theorem 4.4 and table V) bounds the same thing step by
step. That counts a row once for each step of its stay in the top k, comes out two orders of magnitude too large,
and makes limits grow with n: tests/papers/test_002.py compares.
"""

from __future__ import annotations

from functools import lru_cache
from math import lgamma, log

import numpy as np

_TERMS = (
    200_000  # of a sum: for the greatest k that there is, many times the length over which its terms fade
)


def misses(k: int, capacity: int) -> float:
    """Expected rows, per window's worth of rows in random order, that the list of the `capacity` best of a large window
    loses and a top k should have shown."""
    c = capacity
    if c < k:
        raise ValueError("a list for the top k has at least k rows")
    # exact[q] is the chance of q heads in c + q throws, from the last one down by the ratio of neighbours
    q = np.arange(max(0, k - _TERMS), k - 1, dtype=np.float64)
    down = np.concatenate([np.cumsum(np.log(0.5 * (c + q + 1) / (q + 1))[::-1])[::-1], [0.0]])
    throws = c + k - 1
    last = lgamma(throws + 1) - lgamma(k) - lgamma(c + 1) - throws * log(2)
    exact = np.exp(last - down)
    fewer = 0.5 * (np.cumsum(exact) - exact)  # the chance of fewer than q heads in them
    # the third sum is that over T of (T + 1 - c - k) times the chance that the k-th head comes with throw T + 1
    t = np.arange(c + k, c + k + min(_TERMS, 3 * (c + k) + 2000), dtype=np.float64)
    rise = np.concatenate([[log(0.5 * (c + k) / (c + 1))], np.log(0.5 * (t[:-1] + 1) / (t[:-1] + 2 - k))])
    late = 0.5 * np.exp(last + np.cumsum(rise)) * (t + 1 - c - k)
    return float(exact.sum() + 3.0 * fewer.sum() + late.sum())


@lru_cache(maxsize=4096)
def limit_for(k: int, error: float) -> int:
    """How many rows beyond k a list must hold so that it misses at most `error` rows per window's worth of rows."""
    low, high = 0, 1
    while misses(k, k + high) > error:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        if misses(k, k + middle) > error:
            low = middle + 1
        else:
            high = middle
    return low
