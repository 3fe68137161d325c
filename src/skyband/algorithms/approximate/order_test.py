"""Whether rows arrive in random order: a test of the newest scores.

The scores of the newest rows, in order of arrival, have ranks; in random order any order of the ranks is as likely as
any other. Two sums distinguish it from other orders, both over ranks alone, so they do not depend on the scores'
distribution: how the ranks change with time (a *trend*: rising or falling), and how near each is to its neighbour (a
*wander*: the rank version of von Neumann's ratio, after Bartels 1982), which also detects scores that go up and down
slowly. Both are divided by their standard deviation under random order: beyond `SURE` it is not random, except in one
test of hundreds of millions. Equal scores share their mean rank, so ties alone are not taken for order.
"""

import numpy as np

from skyband.core.types import Floats

BUFFER = 512  # rows tested
SURE = 6.0
FEWEST = 64  # fewer rows are not tested


def order_of(scores: Floats) -> tuple[float, float]:
    """Return trend and wander of scores in order of arrival, in standard deviations; (0, 0) for too few."""
    n = len(scores)
    if n < FEWEST:
        return 0.0, 0.0
    ranks = mean_ranks(scores)
    ranks -= ranks.mean()
    spread = float(ranks @ ranks)
    if spread == 0.0:  # all equal
        return 0.0, 0.0
    place = np.arange(n) - (n - 1) / 2
    trend = float(ranks @ place) / np.sqrt(spread * float(place @ place)) * np.sqrt(n - 1)
    ratio = float(np.square(np.diff(ranks)).sum()) / spread
    return float(trend), float((2.0 - ratio) * np.sqrt(n) / 2.0)


def mean_ranks(scores: Floats) -> Floats:
    """Return ranks from 0; equal scores share the mean of theirs."""
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    group = np.cumsum(first) - 1
    start = np.flatnonzero(first)
    end = np.append(start[1:], len(scores))
    ranks = np.empty(len(scores), dtype=np.float64)
    ranks[order] = ((start + end - 1) / 2)[group]
    return ranks
