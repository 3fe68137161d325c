"""Arrays that are replaced now and then: code that holds them sees that they were.

A kernel takes dozens of arrays, which lie in several objects. To look them all up at every step takes longer than a
small step itself, and nearly always they are the same as before. So each such object notes when one of its arrays
is replaced by another, with a number that is greater than all numbers before: the greatest of several objects tells
whether anything was replaced in one of them, even if it is one of the objects.
"""

from __future__ import annotations

from itertools import count
from typing import Any, ClassVar

import numpy as np

_numbers = count(1)
LATEST = [0]  # the greatest number so far: while it stays, nothing was replaced anywhere


class Renewed:
    """Knows when one of its arrays was last replaced."""

    renewed = 0
    # names that may not be held: they change at every step
    fleeting: ClassVar[frozenset[str]] = frozenset()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if isinstance(value, np.ndarray) and name not in self.fleeting:
            LATEST[0] = self.__dict__["renewed"] = next(_numbers)
