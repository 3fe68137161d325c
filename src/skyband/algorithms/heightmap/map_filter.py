"""The look-up of maps.py for rows that are not stored: which of them a height map lets pass."""

from typing import Any

import numpy as np

from skyband.algorithms.heightmap.maps import UNIT, Map, reaches
from skyband.compiling.jit import kernel
from skyband.core.types import Floats, Ints


@kernel
def passing(
    columns: tuple[Floats, ...], first: int, stop: int, order: Ints, size: Ints, low: Floats, high: Floats,
    base: Floats, inverse: Floats, maps: Map, use_high: Any, use_low: Any, out: Ints,
) -> int:  # fmt: skip
    """Write the places of the rows [first, stop) that a map in use lets pass, rows outside the frame included.

    The first map is for queries that want the last axis high, the last for those that want it low. Returns how many.
    """
    parts, lowest = size.shape[0], maps.shape[0] - 1
    beyond = maps.shape[1] - 1
    found = 0
    for i in range(first, stop):
        cell = np.int64(0)
        inside = True
        for a in range(parts):
            axis = order[a]
            x = columns[axis][i]
            inside &= (x >= low[axis]) & (x <= high[axis])
            u = (x - base[axis]) * inverse[axis]
            u = u if u > 0.0 else 0.0
            end = np.float64(size[a] - 1)
            u = u if u < end else end
            cell = cell * size[a] + np.int64(u)
        axis = order[parts]
        x = columns[axis][i]
        inside &= (x >= low[axis]) & (x <= high[axis])
        u = (x - base[axis]) * inverse[axis]
        u = u if u > 0.0 else 0.0
        u = u if u < UNIT else UNIT
        level = np.int32(u)
        if not inside:
            cell = beyond
        high_enough = use_high and reaches(level, 1, maps[0, cell])
        if high_enough or (use_low and reaches(level, -1, maps[lowest, cell])):
            out[found] = i
            found += 1
    return found
