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

**The sum.** `misses_of(n, k, C)` adds that up over all scores that a row may have: the expected number of rows, per
n rows, that a list of the C best loses and should have shown. It grows with n towards `misses(k, C)`, where nothing
but tails of fair coins remains: with B(T) the number of heads in T throws,

    sum over q < k of P(B(C+q) <= q)  +  2 sum over 0 < q < k of P(B(C+q) < q)  +  sum over T >= C+k of P(B(T) < k).

So one limit does for every length of window, and for windows of time, whose number of rows nobody knows. Where k is a
large part of the window there are fewer misses than that: of 1,000 rows and k = 81, three fifths (`misses_in`).

**What it bounds.** A list that drops a row only while at least C rows of the window are better keeps every row that
the list of the C best keeps, and so misses no more, whatever else it keeps. `limit_for` is the least C - k whose
misses per n rows are within the error that is allowed.

The published rule (Pripužić, Podnar Žarko and Aberer 2015, theorem 4.4 and table V) bounds the same thing step by
step. That counts a row once for each step of its stay in the top k, comes out two orders of magnitude too large,
and makes limits grow with n. `published_limit` follows it to the letter (its equation 9 has a misprinted binomial),
`safe_limit` sums the tail that its proof needs. They stay as the yardstick: tests/papers/test_002.py.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil, comb, factorial, lgamma, log, sqrt

import numpy as np

from skyband.core.types import Floats, Ints

_TERMS = (
    200_000  # of a sum: for the greatest k that there is, many times the length over which its terms fade
)


# -- the exact expectation ---------------------------------------------------------------------------------------


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


def misses_of(n: int, k: int, capacity: int) -> Fraction:
    """The same for a window of n rows, as an exact fraction. For small n: it looks at all numbers of ups and downs."""
    c = capacity
    total = Fraction(0)
    for p in range(n):  # steps in which a better row leaves and none comes
        for q in range(n - p):  # in which one comes and none leaves
            for both in range(n - p - q):
                start, end = p + both, q + both
                twice = p + q + min(end, 2 * (k - 1) - end) - max(start, 2 * c - start)
                if twice >= 0:
                    better = start + end
                    ways = factorial(n - 1) * factorial(better) * factorial(2 * n - 2 - better)
                    of = factorial(p) * factorial(q) * factorial(both) * factorial(n - 1 - p - q - both)
                    paths = Fraction(comb(p + q, twice // 2), comb(p + q, p))
                    total += Fraction(ways, of * factorial(2 * n - 1)) * paths
    return n * total


def misses_in(n: int, k: int, capacity: int) -> float:
    """The same in floats, for windows of some thousand rows: where k is a large part of n, fewer than `misses` says."""
    c = capacity
    log = np.cumsum(np.log(np.maximum(np.arange(2 * n), 1.0)))  # of factorials
    reach = min(n, 4 * c + 200)  # with more ups or downs than that hardly a path ends among the first k
    total = 0.0
    for p in range(reach):
        q, both = np.ogrid[: min(n - p, reach), : min(n - p, reach)]
        start, end = p + both, q + both
        twice = p + q + np.minimum(end, 2 * (k - 1) - end) - np.maximum(start, 2 * c - start)
        q, both = np.nonzero((twice >= 0) & (p + q + both < n))
        half, better = twice[q, both] // 2, p + q + 2 * both
        ways = log[n - 1] + log[better] + log[2 * n - 2 - better] - log[both] - log[n - 1 - p - q - both]
        total += float(np.exp(ways - log[2 * n - 1] - log[half] - log[p + q - half]).sum())
    return n * total


# -- the published rule ------------------------------------------------------------------------------------------


def convex_from(n: int, k: int) -> float:
    """Lemma A.2: for ranks beyond this one the chance of being in the top k rises ever faster until a row leaves."""
    root = 3 * (-8 * k * k * n + 4 * k * k + 8 * k * n * n + 4 * k * n - 4 * k - 5 * n * n - 2 * n + 3)
    return (3 * n - 4 * k + 2 * k * n + 3 + sqrt(root)) / (2 * n + 2)


def published_bounds(n: int, k: int, first: int, count: int) -> Floats:
    """Equation 9 with its binomial set right, for `count` ranks from `first` on: n/2 times the chance that a row that
    comes in at that rank is in the top k when it leaves."""
    ranks = np.arange(first, min(first + count, n + 1))
    ends = np.arange(1, k + 1)
    both = np.arange(first - 1, first + len(ranks) + k - 2)  # rank + end - 2
    divisor = _log_comb(2 * n - 2, both)[(ranks - first)[:, None] + (ends - 1)[None, :]]
    logs = _log_comb(n - 1, ranks - 1)[:, None] + _log_comb(n - 1, ends - 1)[None, :] - divisor
    return np.asarray(n * n / (4 * n - 2) * np.exp(logs).sum(axis=1), dtype=np.float64)


def published_limit(n: int, k: int, sigma: float) -> int:
    """Table V: the ranks beyond k before the first one whose bound is below sigma / 2."""
    first = int(convex_from(n, k)) + 1
    bounds = published_bounds(n, k, first, _ranks(k))
    return first + int(np.flatnonzero(bounds < sigma / 2)[0]) - 1 - k


def safe_limit(n: int, k: int, sigma: float) -> int:
    """The least limit for which the bounds of all ranks beyond it add up to less than sigma."""
    first = ceil(convex_from(n, k))
    bounds = published_bounds(n, k, first, _ranks(k))
    beyond = np.cumsum(bounds[::-1])[::-1]  # of this rank and all worse ones
    return first + int(np.flatnonzero(beyond < sigma)[0]) - 1 - k


def _ranks(k: int) -> int:
    """So many ranks are enough: the bounds fade like a bell of width sqrt(k)."""
    return 200 + 20 * int(sqrt(k) + 1)


def _log_comb(n: int, r: Ints) -> Floats:
    found = [lgamma(n + 1) - lgamma(i + 1) - lgamma(n - i + 1) for i in r.tolist()]
    return np.array(found, dtype=np.float64)
