"""Height maps of queries with a box each (WHERE x BETWEEN … AND …), all of them in one family.

A query's rows lie where its score reaches the threshold *and* in its box. So the map is lowered for it only in the
cells that the box meets; the best corner of a cell is that of its part inside the box; no height lies below the box's
own end of the last axis; and where even its other end is too low for the threshold the cell is not changed. Rows beyond
the box along the last axis pass, because a height has no upper end. So with a thousand boxes about a third to
three quarters of the rows pass; but the blocks of queries whose boxes are all elsewhere skip them (score_blocks.py),
and similar boxes share blocks (map_set.py).

The score of a row outside a query's box is NaN, for which no comparison is true. `confined` writes that into the text
of the score, so that every kernel generated from it is correct with and without boxes. A threshold of -inf, of a box
with fewer than k rows in it, opens the map in that box and nowhere else.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.algorithms.heightmap.maps import OPEN, Heights, Map, mapped
from skyband.compiling.jit import inlined, kernel
from skyband.core.types import Floats, Ints
from skyband.query.expression.nodes import Parameter, walk
from skyband.query.expression.score_space import Space


def confined(score: str | None, space: Space) -> str | None:
    """Return a rendered score that is NaN outside a query's box, whose limits follow the constants."""
    if score is None or not space.boxed:
        return score
    first = 1 + max((node.index for node in walk(space.shape) if isinstance(node, Parameter)), default=-1)
    inside = " & ".join(
        f"(x{axis} >= p[{first + i}]) & (x{axis} <= p[{first + len(space.boxed) + i}])"
        for i, axis in enumerate(space.boxed)
    )
    return f"(({score}) if {inside} else np.nan)"


@inlined
def span(near: Any, far: Any, base: Any, inverse: Any, sign: Any) -> Any:
    """Return a box's ends along the last axis as heights, the worse one first, widened by more than any rounding."""
    begin = np.floor(min(max((near - base) * inverse, -8.0), 131080.0)) - 2.0
    end = np.ceil(min(max((far - base) * inverse, -8.0), 131080.0)) + 2.0
    if sign < 0.0:
        begin, end = -end, -begin
    return np.int32(begin), np.int32(end)


@kernel
def begin_of(
    slot: int, sign: float, low: Floats, high: Floats, last: int, edge: Floats, offset: Floats, weight: Floats,
    slip: Floats, parts: int,
) -> tuple[float, float]:  # fmt: skip
    """Return what a weighted sum needs of the last axis where all others are at their lower ends, in steps of height,
    and how many steps one unit of score is: 0 if it needs nothing. As in `gains` (maps.py)."""
    need = edge[slot] - offset[slot] - slip[slot]
    total = 0.0
    for axis in range(low.shape[0]):
        w = weight[slot, axis]
        total += abs(w) * (high[axis] - low[axis])
        if axis != last:
            need -= w * low[axis]
    w = weight[slot, last]
    need -= w * (low[last] if sign > 0.0 else high[last])
    slope = max(abs(w) * (high[last] - low[last]), total / 1024.0)
    unit = 131072.0 / slope if slope > 0.0 else np.inf
    if not (need > -np.inf and 0.0 < unit < np.inf):
        return 0.0, 0.0
    start = np.floor(need * unit - 4.0 - parts - (0.0 if sign > 0.0 else 131072.0))
    return min(max(start, -536870912.0), 536870912.0), unit


@kernel
def meets(
    slot: int, unit: float, low: Floats, corners: Floats, size: Ints, order: Ints, weight: Floats, box: Floats,
    first: Ints, stop: Ints, grown: Heights,
) -> bool:  # fmt: skip
    """Find the cells that a box meets along each axis but the last, and the gain of the best point of each of them
    inside the box; return False if it meets none."""
    for a in range(size.shape[0]):
        axis = order[a]
        w = weight[slot, axis]
        first[a], stop[a] = size[a], 0
        for g in range(size[a]):
            lower, upper = (
                max(corners[a, 0, g], box[slot, 0, axis]),
                min(corners[a, 1, g], box[slot, 1, axis]),
            )
            if lower <= upper:
                first[a], stop[a] = min(first[a], g), g + 1
                grown[a, g] = np.int32(np.ceil(w * ((upper if w > 0.0 else lower) - low[axis]) * unit))
        if first[a] >= stop[a]:
            return False
    return True


@kernel
def carve_boxes(
    heights: Map, sign: float, low: Floats, high: Floats, corners: Floats, size: Ints, order: Ints,
    slots: Ints, edge: Floats, offset: Floats, weight: Floats, slip: Floats, box: Floats, base: Floats,
    inverse: Floats,
) -> None:  # fmt: skip
    """Lower the map for weighted sums, each only where its box is.

    corners[a, 0 or 1, cell]: lower and upper ends along order[a]; box[slot, 0 or 1, axis]: the query's own.
    """
    parts = size.shape[0]
    last = order[parts]
    inner, side = parts - 1, max(0, parts - 1)  # the axis whose cells are contiguous
    grown = np.zeros((max(1, parts), corners.shape[2]), np.int32)
    first, stop = np.zeros(max(1, parts), np.int64), np.ones(max(1, parts), np.int64)
    at = np.zeros(max(1, parts), np.int64)
    for slot in slots:
        near, far = box[slot, 0, last], box[slot, 1, last]
        start, unit = begin_of(slot, sign, low, high, last, edge, offset, weight, slip, parts)
        if not near <= far or not meets(
            slot, unit, low, corners, size, order, weight, box, first, stop, grown
        ):
            continue
        bottom, top = span(near, far, base[last], inverse[last], sign)
        at[:] = first
        while True:
            begin, height = np.int64(0), np.int32(start)
            for a in range(inner):
                begin = begin * size[a] + at[a]
                height -= grown[a, at[a]]
            begin *= size[inner] if parts > 0 else 1
            for g in range(first[side], stop[side]):
                own = max(np.int32(height - grown[side, g]) if unit > 0.0 else OPEN, bottom)
                if own <= top:
                    heights[begin + g] = min(heights[begin + g], mapped(own))
            a = inner - 1
            while a >= 0:
                at[a] += 1
                if at[a] < stop[a]:
                    break
                at[a] = first[a]
                a -= 1
            if a < 0:
                break
