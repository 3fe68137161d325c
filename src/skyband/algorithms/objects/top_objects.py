"""Leaders: the best k of many objects whose scores rise and fall.

A row's score never changes; an object's score changes with each of its rows. Sorting all objects at each step would
cost time proportional to their number. So there is a threshold (`bar`) and a list of all objects at or above it. A step
looks at the objects that it touched and adds those that are above the threshold now; those that have fallen below are
removed at the next answer. As long as k objects are left the best of them are the answer. When fewer are left the
threshold is set again, at rank `wanted`, some multiples of k, with one pass over all scores; if that happens again too
soon the next threshold is set at a deeper rank.

A query for all objects beyond a bound is the same with a threshold that never changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.algorithms.kernels.row_slots import Places
from skyband.compiling.jit import kernel
from skyband.core.order import before
from skyband.core.types import Floats, Ints

LEAST = 256  # objects at or above a new threshold
MOST = 65_536
SOON = 30  # answers
FEW = 64  # up to so many ranks are found by insertion
_SAMPLE = 8_192


class Leaders:
    """Scores by code (NaN: none), and the codes at or above the bar."""

    def __init__(self, bar: float | None = None) -> None:
        self.fixed, self.shared = bar is not None, False
        self.bar = -np.inf if bar is None else bar
        self.good = np.full(0, np.nan)
        self.listed: npt.NDArray[np.bool_] = np.zeros(0, dtype=bool)
        self.codes = np.empty(0, dtype=np.int64)
        self.wanted = LEAST
        self.answers = 0  # since the threshold was set
        self.rebuilds = 0

    def reserve(self, codes: int) -> None:
        old = len(self.good)
        if codes > old:
            room = codes + codes // 2
            self.good = np.concatenate([self.good, np.full(room - old, np.nan)])
            self.listed = np.concatenate([self.listed, np.zeros(room - old, dtype=bool)])

    def share(self, good: Floats) -> None:
        """Use an array of scores that its owner keeps up to date; the owner reports which objects reach the bar."""
        old = len(self.listed)
        self.good, self.shared = good, True
        if len(good) > old:
            self.listed = np.concatenate([self.listed, np.zeros(len(good) - old, dtype=bool)])

    def update(self, codes: Ints, good: Floats) -> None:
        """Set the new scores of some objects, each named once."""
        self.good[codes] = good
        fresh = codes[(good >= self.bar) & ~self.listed[codes]]
        if len(fresh):
            self.listed[fresh] = True
            self.codes = np.concatenate([self.codes, fresh])

    def best(self, k: int | None, latest: Places, time: Ints, seq: Ints) -> Ints:
        """Return the codes of the best k (or of all beyond the bar), best first; equal scores: the newer first.

        `latest` is by code the place of an object's latest row, whose recency is in `time` and `seq`.
        """
        self.answers += 1
        if k is not None and 0 < k <= FEW:
            found, held = np.empty(k, dtype=np.int64), np.empty(k)
            left, count = leading(
                self.codes, self.good, self.listed, self.bar, latest, time, seq, found, held
            )
            self.codes = self.codes[:left]
            if self.fixed or not self._again(k):
                return found[:count]
        else:
            self.drop()
            if not self.fixed and k is not None:
                self._again(k)
        codes = self.codes
        good = self.good[codes]
        if k is not None and len(codes) > 2 * k:
            kth = np.partition(good, len(good) - k)[len(good) - k]
            codes = codes[good >= kth]
            good = self.good[codes]
        places = latest[codes]
        order = np.lexsort((seq[places], time[places], good))[::-1]
        return codes[order[:k]]

    def _again(self, k: int) -> bool:
        """Set the threshold again where fewer than k objects are above it, or far too many. Return whether it fell."""
        if len(self.codes) < k and self.bar > -np.inf:
            self._lower(k)
            return True
        if len(self.codes) > 8 * max(self.wanted, k):
            self._set(self.codes, max(self.wanted, k))
            self.drop()
        return False

    def drop(self) -> None:
        """Remove the objects that have fallen below the threshold."""
        stays = self.good[self.codes] >= self.bar
        if not stays.all():
            self.listed[self.codes[~stays]] = False
            self.codes = self.codes[stays]

    def release(self, codes: Ints) -> None:
        """Remove objects without a score from the list, because their codes will be given to other objects."""
        if self.listed[codes].any():
            self.drop()

    def _lower(self, k: int) -> None:
        if self.answers < SOON:
            self.wanted = min(2 * self.wanted, MOST)
        self.rebuilds += 1
        self.answers = 0
        wanted = max(self.wanted, 2 * k)
        scored = self.good
        sample = scored[:: max(1, len(scored) // _SAMPLE)]
        sample = sample[~np.isnan(sample)]
        rank = int(2 * wanted * len(sample) / max(1, len(scored))) + 8
        guess = -np.inf
        if rank < len(sample):
            guess = float(np.partition(sample, len(sample) - rank)[len(sample) - rank])
        codes = np.flatnonzero(scored >= guess)
        if len(codes) < wanted:
            codes = np.flatnonzero(~np.isnan(scored))
        self._set(codes, wanted)
        self.codes = np.flatnonzero(scored >= self.bar)
        self.listed.fill(False)
        self.listed[self.codes] = True

    def _set(self, codes: Ints, rank: int) -> None:
        """Set the threshold at this rank of these objects, which are all those above it."""
        good = self.good[codes]
        self.bar = (
            float(np.partition(good, len(good) - rank)[len(good) - rank]) if rank < len(good) else -np.inf
        )

    def bytes(self) -> int:
        own = 0 if self.shared else self.good.nbytes
        return own + self.listed.nbytes + self.codes.nbytes

    def _check(self) -> None:
        # every object at or above the threshold is listed, once
        above = np.flatnonzero(self.good >= self.bar)
        assert np.isin(above, self.codes).all()
        assert len(np.unique(self.codes)) == len(self.codes)
        assert np.array_equal(np.flatnonzero(self.listed), np.sort(self.codes))


@kernel
def leading(
    codes: Ints, good: Floats, listed: Any, bar: float, latest: Places, time: Ints, seq: Ints, found: Ints,
    held: Floats,
) -> tuple[int, int]:  # fmt: skip
    """Remove objects below the threshold from the list; write the best of the rest to `found`, best first.

    Returns how many are left in the list, and how many of them were written.
    """
    left, count, k = 0, 0, found.shape[0]
    for i in range(codes.shape[0]):
        g = codes[i]
        own = good[g]
        if not own >= bar:
            listed[g] = False
            continue
        codes[left] = g
        left += 1
        if count == k and own < held[k - 1]:
            continue
        place, at = latest[g], count
        while at > 0:
            other = latest[found[at - 1]]
            if before(held[at - 1], time[other], seq[other], own, time[place], seq[place]):
                break
            at -= 1
        if at == k:
            continue
        for i in range(min(count, k - 1), at, -1):
            held[i], found[i] = held[i - 1], found[i - 1]
        held[at], found[at] = own, g
        if count < k:
            count += 1
    return left, count
