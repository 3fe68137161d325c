"""Outlines: a coarse height map for each block of 64 queries.

A row that passes the height map may matter to some query. It would then be scored for all blocks, one after the other,
though two in three are in vain: of anti-correlated rows that pass, one in four reaches any threshold at all, and each
of those the thresholds of two or three blocks in sixteen. An outline answers for one block what the map answers for all
queries, in 512 cells: how great the last coordinate of a row must be to matter to that block. The queries of a block
are similar, so cells of that size suffice.

Outlines are made with the inner map and lowered whenever it is: they use the same thresholds (`Relief.mapped`), never
higher ones than the queries' own. Only weighted sums have them; the blocks of loose queries don't.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.algorithms.heightmap.maps import (
    COARSE,
    LEAST,
    MOST,
    UNIT,
    Frame,
    Heights,
    Map,
    carve_weights,
    divide,
    gains,
    mapped,
)
from skyband.algorithms.heightmap.slack_lists import Short
from skyband.compiling.array_version import Renewed
from skyband.compiling.jit import inlined, kernel
from skyband.core.types import Floats, Ints

CELLS = 512  # most cells of an outline
STEPS = 20  # a spot's bits of the height, at most 2^17; the others are its cell (at most 2^9)


class Outlines(Renewed):
    """The outlines of all blocks, and the frame of their cells; empty where there is no map yet."""

    def __init__(self) -> None:
        # by block; the last cell is for rows outside the frame
        self.heights = np.empty((0, 1), dtype=np.int16)
        self.order, self.size = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self.low = self.high = self.base = self.inverse = np.zeros(1)
        self.corners = np.empty((0, 2, 1))

    def frame(self) -> tuple[Any, ...]:
        """Return the arrays that kernels need."""
        return self.heights, self.order, self.size, self.low, self.high, self.base, self.inverse

    def draw(self, frame: Frame, blocks: int) -> None:
        """Make outlines that let no row of the frame pass, for so many blocks."""
        parts = len(frame.order) - 1
        size = np.minimum(
            np.array(divide(CELLS, frame.size[:parts].tolist()), dtype=np.int64), frame.size[:parts]
        )
        inverse = frame.inverse.copy()
        inverse[frame.order[:parts]] *= size / frame.size[:parts]
        coarse = frame._replace(size=size, inverse=inverse)
        self.order, self.size, self.inverse = frame.order, size, inverse
        self.low, self.high, self.base = frame.low, frame.high, frame.base
        self.corners = np.zeros((parts, 2, int(size.max(initial=1))))
        for a in range(parts):
            lower, upper = coarse.corners(a)
            self.corners[a, 0, : len(lower)], self.corners[a, 1, : len(upper)] = lower, upper
        self.heights = np.full((blocks, coarse.cells + 1), MOST, dtype=np.int16)
        self.heights[:, -1] = LEAST

    def pass_(self, block: int, face: Ints, columns: tuple[Floats, ...]) -> Any:
        """Return which rows the outline of a block lets pass."""
        points = np.ascontiguousarray(np.stack(columns))[np.newaxis]
        spots = np.zeros((1, points.shape[2]), dtype=np.int32)
        locate_points(points, 0, points.shape[2], self.heights.shape[1] - 1, *self.frame()[1:], spots)
        height = self.heights[block, spots[0] >> STEPS]
        return (1 - 2 * face[block]) * (spots[0] & ((1 << STEPS) - 1)) >> COARSE >= height

    def lower(
        self,
        slots: Ints,
        place: Short,
        face: Ints,
        bars: Floats,
        offset: Floats,
        weight: Floats,
        slip: Any,
    ) -> None:
        """Let pass what these queries admit: their thresholds in the inner map, by slot, are `bars`."""
        if not len(self.heights):
            return
        rows = int(self.size[0]) if len(self.size) > 1 else 1
        cells = self.heights.shape[1] - 1
        scratch = (np.empty(shape, np.int32) for shape in ((1, cells // rows), (1, rows)))
        grown = np.empty(max(1, self.corners.shape[2]), np.int32)
        lower(
            self.heights, slots, place, face, self.low, self.high, self.corners, self.size, self.order, bars,
            offset, weight, slip, *scratch, grown,
        )  # fmt: skip


@kernel
def lower(
    heights: Map, slots: Ints, place: Short, face: Ints, low: Floats, high: Floats, corners: Floats, size: Ints,
    order: Ints, bars: Floats, offset: Floats, weight: Floats, slip: Floats, fast: Heights, tops: Heights,
    grown: Heights,
) -> None:  # fmt: skip
    """As `carve_weights`, each query in the outline of its block; loose queries have none."""
    n = fast.shape[1]
    for turn in range(slots.shape[0]):
        slot = slots[turn]
        b = place[slot] >> 6
        if face[b] > 1:
            continue
        row = heights[b]
        sign = 1.0 - 2.0 * face[b]
        if not gains(
            slot, 0, sign, low, high, corners, size, order, bars, offset, weight, slip, fast, tops, grown
        ):
            for i in range(row.shape[0]):
                row[i] = LEAST
            continue
        reach = fast[0]
        for g in range(tops.shape[1]):
            top, part = tops[0, g], row[g * n : g * n + n]
            for j in range(n):
                part[j] = min(part[j], mapped(np.int32(top - reach[j])))


@kernel
def lower_all(
    asked: Ints, place: Short, face: Ints, edge: Floats, known: Floats, floors: Any, now: int, inner: Any, outer: Any,
    low: Floats, high: Floats, corners: Floats, size: Ints, order: Ints, offset: Floats, weight: Floats, slip: Any,
    line: Any,
) -> bool:  # fmt: skip
    """Do `Relief.lower` and `Outlines.lower` one after the other, for weighted sums without boxes.

    The maps and the outlines then let pass what these queries admit. Returns False, and changes nothing, if one of them
    admits every row. known: the thresholds that the inner map has, by slot.
    """
    heights, line_low, line_high, line_corners, line_size, line_order = line
    for slot in asked:
        if edge[place[slot]] == -np.inf and known[slot] > -np.inf and face[place[slot] >> 6] <= 1:
            return False
    own = np.empty(asked.shape[0], np.int64)
    rows = size[0] if size.shape[0] > 1 else 1
    fast = np.empty((4, (inner.shape[1] - 1) // rows), np.int32)
    tops, grown = np.empty((4, rows), np.int32), np.empty(max(1, corners.shape[2]), np.int32)
    rows = line_size[0] if line_size.shape[0] > 1 else 1
    narrow = np.empty((1, max(1, heights.shape[1] - 1) // rows), np.int32), np.empty((1, rows), np.int32)
    for which in range(2):
        sign, at = 1.0 - 2.0 * which, min(which, inner.shape[0] - 1)
        count = 0
        for slot in asked:
            if face[place[slot] >> 6] == which and edge[place[slot]] < known[slot]:
                known[slot] = edge[place[slot]]
                own[count] = slot
                count += 1
        if count == 0:
            continue
        carve_weights(
            inner[at], sign, low, high, corners, size, order, own[:count], known, offset, weight, slip, fast, tops,
            grown,
        )  # fmt: skip
        if heights.shape[0] > 0:
            lower(
                heights, own[:count], place, face, line_low, line_high, line_corners, line_size, line_order, known,
                offset, weight, slip, narrow[0], narrow[1], grown,
            )  # fmt: skip
        above = 0
        for i in range(count):  # where the floor is lower the outer map lets these rows pass already
            own[above] = own[i]
            above += int(now < 0 or floors[max(now, 0), own[i]] > known[own[i]])
        carve_weights(
            outer[at], sign, low, high, corners, size, order, own[:above], known, offset, weight, slip, fast, tops,
            grown,
        )  # fmt: skip
    return True


@inlined
def locate_points(
    points: Floats, of: int, count: int, beyond: int, order: Ints, size: Ints, low: Floats, high: Floats, base: Floats,
    inverse: Floats, spots: Short,
) -> None:  # fmt: skip
    """Write the outline cell and the height of each row that passed the map."""
    parts = size.shape[0]
    for i in range(count):
        outside = False
        cell, level = np.int64(0), np.int64(0)
        for a in range(parts + 1):
            axis = order[a]
            x = points[of, axis, i]
            end = np.float64(size[a] - 1) if a < parts else UNIT
            u = (x - base[axis]) * inverse[axis]
            u = u if u > 0.0 else 0.0
            u = u if u < end else end
            outside |= not ((x >= low[axis]) & (x <= high[axis]))
            if a < parts:
                cell = cell * size[a] + np.int64(u)
            else:
                level = np.int64(u)
        spots[of, i] = ((beyond if outside else cell) << STEPS) | level
