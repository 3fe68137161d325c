"""The K best pairs in order after every row, while new pairs wait to be merged into the skyband.

The rule of section 4.2 of Shen, Cheema, Lin, Zhang and Wang: a new pair is among the K best if it is before the last of
them, and then the last one leaves. This comparison rejects nearly every pair that is above the staircase. Once a pair
among them has left the window, or anything but rows in order has happened, the K best are no longer known, and are
searched for again before the next rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.compiling.jit import kernel
from skyband.core.order import before
from skyband.core.types import Floats, Ints


class Foremost:
    """The best pairs of all: scores, numbers of older and of newer rows, best first; or nothing, where they are not
    kept."""

    def __init__(self) -> None:
        self._pairs: tuple[Any, Any, Any] = (
            np.empty(0),
            np.empty(0, dtype=np.int64),
            np.empty(0, dtype=np.int64),
        )
        self._held = np.array([-1], dtype=np.int64)  # the number of known pairs; -1: unknown

    @property
    def arrays(self) -> tuple[Any, ...]:
        """Return the arguments that `let_in` needs."""
        return (*self._pairs, self._held)

    @property
    def known(self) -> bool:
        return bool(self._held[0] >= 0)

    def best(self, k: int) -> tuple[Any, Any, Any]:
        good, older, newer = (column[: min(k, int(self._held[0]))] for column in self._pairs)
        return good, older, newer

    def know(self, k: int, found: tuple[Any, Any, Any]) -> None:
        """Set the K best, or all pairs if there are fewer."""
        count = len(found[0])
        self._pairs = (np.empty(k), np.empty(k, dtype=np.int64), np.empty(k, dtype=np.int64))
        for column, values in zip(self._pairs, found, strict=True):
            column[:count] = values
        self._held[0] = count

    def forget(self) -> None:
        self._held[0] = -1

    def expire(self, first: int) -> None:
        """Forget the K best if one of them has a row before this number."""
        if self.known and self.best(len(self._pairs[0]))[1].min(initial=first) < first:
            self.forget()


@kernel
def let_in(
    good: Floats, older: Ints, newer: Ints, begin: int, end: int, k: int, top_good: Floats, top_older: Ints,
    top_newer: Ints, held: Ints,
) -> None:  # fmt: skip
    """Insert new pairs, those of a row that is newer than all others, into the K best."""
    for i in range(begin, end):
        t = held[0]
        if t == k:
            t -= 1
            if before(top_good[t], top_older[t], top_newer[t], good[i], older[i], newer[i]):
                continue
        else:
            held[0] += 1
        while t > 0 and before(
            good[i], older[i], newer[i], top_good[t - 1], top_older[t - 1], top_newer[t - 1]
        ):
            top_good[t], top_older[t], top_newer[t] = top_good[t - 1], top_older[t - 1], top_newer[t - 1]
            t -= 1
        top_good[t], top_older[t], top_newer[t] = good[i], older[i], newer[i]
