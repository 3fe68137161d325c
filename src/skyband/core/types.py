"""Recency and the types of arrays that all rooms share."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MINIMUM = -(2**63)


class Recency(NamedTuple):
    """A place in the recency order: of a row, or of a window's edge (rows at or after it are inside)."""

    time: int
    seq: int

    def after(self) -> "Recency":
        """The horizon that lets in only rows newer than this one."""
        return Recency(self.time, self.seq + 1)


LOWEST = Recency(MINIMUM, MINIMUM)
