"""The yardsticks of `pa`'s limit: the expected misses as exact fractions, and the rule of the paper.

`published_limit` follows Pripužić, Podnar Žarko and Aberer 2015 (theorem 4.4 and table V) to the letter, but for its
equation 9, which has a misprinted binomial; `safe_limit` sums the tail that its proof needs.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, comb, factorial, lgamma, sqrt

import numpy as np

from skyband.core.types import Floats, Ints


def misses_of(n: int, k: int, capacity: int) -> Fraction:
    """What `misses` is for a window of n rows, as an exact fraction. For small n: it tries all numbers of steps."""
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
