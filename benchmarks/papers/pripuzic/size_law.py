"""How many rows are kept: measured, and as the size law says.

The k-skyband of n rows in random order holds k(1 + H_n - H_k) rows on average, and RA, sweeping at (1 + gamma) times
what was left, (1 + gamma/2) n' - (gamma/2) k. (The paper prints n' = k ln(n/k), which leaves out the first k.)
"""

from __future__ import annotations

from functools import partial

import numpy as np

from skyband.algorithms import LISTS, Arrivals
from skyband.algorithms.kernels.batch_skyband import expected_size
from skyband.core.types import Floats, Recency

SETTINGS = ((1000, 10), (1000, 50), (10_000, 9), (40_000, 9))
GAMMAS = (0.2, 0.5, 1.0)


def mean_size(name: str, options: dict[str, float], n: int, k: int, seed: int = 5) -> float:
    """The mean number of candidates over two windows, one row a step."""
    algorithm = LISTS[name](options)
    slot = algorithm.add(k)
    scores = np.random.default_rng(seed).random(3 * n)
    mark, place = np.zeros(1, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    sizes = []
    for seq in range(3 * n):
        algorithm.expire(slot, Recency(0, seq - n + 1))
        algorithm.insert(
            Arrivals(
                time=place, seq=np.array([seq]), place=place, mark=mark,
                good=partial(_same, scores[seq : seq + 1]),
                constants=np.zeros((1, 0)), sign=1.0, rendered=None, columns=tuple,
            )
        )  # fmt: skip
        if seq >= n:
            sizes.append(algorithm.size(slot)[0])
    return float(np.mean(sizes))


def _same(good: Floats, slot: int) -> Floats:
    return good


def main() -> None:
    relaxed_heads = "   ".join(f"ra gamma={gamma}: measured  law" for gamma in GAMMAS)
    print(f"{'n':>7} {'k':>4}   {'sa measured':>11} {'law':>7}   {relaxed_heads}")
    for n, k in SETTINGS:
        law = expected_size(k, n)
        line = f"{n:>7} {k:>4}   {mean_size('sa', {}, n, k):>11.1f} {law:>7.1f}"
        for gamma in GAMMAS:
            relaxed = (1 + gamma / 2) * law - gamma / 2 * k
            line += f"   {mean_size('ra', {'gamma': gamma}, n, k):>22.1f} {relaxed:>7.1f}"
        print(line, flush=True)
    print("\nrows kept for k = 20 by the size of the window (law)")
    most = expected_size(20, 10**8)
    for power in range(3, 9):
        size = expected_size(20, 10**power)
        print(f"  10^{power} rows  {'█' * round(50 * size / most):50} {size:5.0f}")
