"""The height map: one look-up shows that a row matters to no query at all.

**Idea.** Lay a grid over all axes but one. For each cell, and each query with its admission threshold, compute how
great the last coordinate must be before any row of that cell could reach the threshold: the score at the cell's
best corner, solved for the last coordinate. The least of these heights over all queries is the cell's height. A row
below the height of its cell is below every threshold; with a thousand queries over uniform rows that is 199 of 200.

**What is kept.** A `Frame` defines the cells: it is learnt from rows, and rows outside it (infinite ones included) pass
unchecked; a row with a NaN has no score and never passes. Heights are computed in steps of 2^-17 of the last axis's
extent. A map is an array of them in sixteen bits, eight steps each and rounded down, and one more cell for the rows
outside. Queries that prefer the last axis high and those that prefer it low need a map each (the *faces*); the other
axes may go either way, since each query has its own best corner.

**Exactness.** The map only ever errs by letting rows pass: weights are solved with a margin that covers every
rounding; other monotone scores are bisected with the generated score itself, which is monotone as computed.
Lowering a threshold means taking the minimum once more; a raised one leaves the map lower than necessary, until it
is rebuilt.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from skyband.compiling.jit import generated, inlined, kernel
from skyband.core.types import Floats, Ints

Heights = npt.NDArray[np.int32]
Map = npt.NDArray[np.int16]
Places = npt.NDArray[np.uint16]  # index of a row in its block

UNIT = 131072.0  # steps of height on the last axis's extent
# a map drops so many bits of a height: it has room for one raised by all of the extent
COARSE = 3
PASS = np.iinfo(np.int32).min  # every row is above
NEVER = 1 << 30  # no row of the frame is above
LEVELS = 128  # steps of bisection
SEEN = 1024  # rows that show how many different numbers a column has
FEW = 16  # and so many at most have a cell each
OPEN = np.int32(PASS)
BITS = np.int32(COARSE)
LEAST, MOST = np.int32(np.iinfo(np.int16).min), np.int32(np.iinfo(np.int16).max)


class Frame(NamedTuple):
    """Where the cells lie. `order` lists the axes: those with cells, then the last one."""

    order: Ints
    size: Ints  # cells along order[0], order[1], …
    low: Floats  # by axis: rows outside [low, high] are outside the frame
    high: Floats
    base: (
        Floats  # by axis: the start of cell 0, and cells per unit; of the last axis: low, and steps per unit
    )
    inverse: Floats

    @property
    def cells(self) -> int:
        return int(self.size.prod())

    def corners(self, i: int) -> tuple[Floats, Floats]:
        """Return the lower and the upper end of each cell along order[i], widened by more than any rounding."""
        axis, size = int(self.order[i]), int(self.size[i])
        low, high = float(self.low[axis]), float(self.high[axis])
        if self.inverse[axis] == 0.0:
            return np.array([low]), np.array([high])
        edges = np.arange(size + 1)
        lower = self.base[axis] + (edges[:-1] - 1e-9 * size) / self.inverse[axis]
        upper = self.base[axis] + (edges[1:] + 1e-9 * size) / self.inverse[axis]
        lower[0], upper[-1] = low, high
        return np.maximum(lower, low), np.minimum(upper, high)


def frame_of(columns: list[Floats], last: int, cells: int) -> Frame | None:
    """Make a frame around the finite values of some rows; return None where there is nothing to divide."""
    axes = len(columns)
    low, high, base, inverse = (np.zeros(axes) for _ in range(4))
    order = np.array([axis for axis in range(axes) if axis != last] + [last], dtype=np.int64)
    size = np.array(divide(cells, [_distinct(columns[axis]) for axis in order[:-1]]), dtype=np.int64)
    for axis, column in enumerate(columns):
        values = column[np.isfinite(column)]
        if len(values) == 0:
            return None
        least, most = float(values.min()), float(values.max())
        few = len(values) // 1000
        values.partition((few, len(values) - 1 - few))  # half the time of sorting
        inner = float(values[few]), float(values[-1 - few])
        # a little wider than these rows, as later ones are
        margin = (inner[1] - inner[0]) / 512.0
        begin, end = least - margin, most + margin
        if not np.isfinite(margin) or not np.isfinite(begin) or not np.isfinite(end):
            begin, end = least, most
        low[axis], high[axis] = begin, end
        if end - begin > 2.0 * (inner[1] - inner[0]) > 0.0:
            begin, end = float(inner[0]), float(inner[1])  # far outliers share the outermost cells
        if axis == last:
            begin, end, steps = float(low[axis]), float(high[axis]), UNIT
        else:
            steps = float(size[np.flatnonzero(order == axis)[0]])
        base[axis] = begin
        with np.errstate(over="ignore"):
            extent = end - begin
        if 0.0 < extent < np.inf and np.isfinite(steps / extent):
            inverse[axis] = steps / extent
        elif axis == last:
            return None
        else:
            size[np.flatnonzero(order == axis)[0]] = 1
    return Frame(order, size, low, high, base, inverse)


def divide(cells: int, most: Sequence[int]) -> list[int]:
    """Return how many cells along each axis, with at most so many in all, and `most` of them along each axis."""
    found = [1] * len(most)
    left = min(len(most), max(1, cells.bit_length() - 1))  # axes that are to have cells
    for axis in sorted(range(left), key=most.__getitem__):  # what one axis doesn't need others get
        side = min(4096, max(2, int(round(cells ** (1.0 / left), 6))))
        found[axis] = max(1, min(side, most[axis]))
        cells //= found[axis]
        left -= 1
    return found


def _distinct(values: Floats) -> int:
    """Return how many different numbers a column has, as some of its rows show it; many if they are more than a few."""
    found = len(np.unique(values[:SEEN][np.isfinite(values[:SEEN])]))
    return found if found <= FEW else 1 << 30


def blank(frame: Frame) -> Map:
    """Return a map that lets no row of the frame pass; rows outside always pass."""
    heights = np.full(frame.cells + 1, MOST, dtype=np.int16)
    heights[-1] = LEAST
    return heights


@inlined
def mapped(height: Any) -> Any:
    """Return a height as a map stores it: no higher."""
    return np.int16(max(min(np.int32(height >> BITS), MOST), LEAST))


@inlined
def reaches(level: Any, sign: Any, height: Any) -> Any:
    """Whether a row so many steps up the last axis passes a map of this height (all in 32 bits, which vector
    instructions process twice as fast as 64)."""
    return np.int32(np.int32(level * sign) >> BITS) >= np.int32(height)


@inlined
def locate(
    values: Floats, into: Floats, m: int, low: float, high: float, base: float, inverse: float, side: Any, end: Any,
    cell: Heights,
) -> Any:  # fmt: skip
    """Copy one axis of m rows and write its share of the cells' numbers; return whether a row is outside."""
    outside = False
    for i in range(m):
        x = values[i]
        into[i] = x
        u = (x - base) * inverse
        u = u if u > 0.0 else 0.0
        u = u if u < end else end
        outside |= not ((x >= low) & (x <= high))
        cell[i] = cell[i] * side + np.int32(u)
    return outside


@inlined
def locate_again(
    values: Floats,
    m: int,
    low: float,
    high: float,
    base: float,
    inverse: float,
    side: Any,
    end: Any,
    cell: Heights,
) -> Any:
    """As `locate`, without copying."""
    outside = False
    for i in range(m):
        x = values[i]
        u = (x - base) * inverse
        u = u if u > 0.0 else 0.0
        u = u if u < end else end
        outside |= not ((x >= low) & (x <= high))
        cell[i] = cell[i] * side + np.int32(u)
    return outside


@inlined
def locate_two(
    one: Floats, into: Floats, low: float, high: float, base: float, inverse: float, side: Any, end: Any,
    two: Floats, into2: Floats, low2: float, high2: float, base2: float, inverse2: float, side2: Any, end2: Any,
    m: int, cell: Heights,
) -> Any:  # fmt: skip
    """As `locate`, for two axes in one pass, so that more reads from memory overlap."""
    outside = False
    for i in range(m):
        x, y = one[i], two[i]
        into[i], into2[i] = x, y
        u = (x - base) * inverse
        u = u if u > 0.0 else 0.0
        u = u if u < end else end
        v = (y - base2) * inverse2
        v = v if v > 0.0 else 0.0
        v = v if v < end2 else end2
        outside |= not ((x >= low) & (x <= high) & (y >= low2) & (y <= high2))
        cell[i] = (cell[i] * side + np.int32(u)) * side2 + np.int32(v)
    return outside


@inlined
def locate_last(
    one: Floats, into: Floats, low: float, high: float, base: float, inverse: float, side: Any, end: Any,
    two: Floats, into2: Floats, low2: float, high2: float, base2: float, inverse2: float,
    m: int, cell: Heights, level: Heights,
) -> Any:  # fmt: skip
    """As `locate_two`, where the second axis is the last one, which has heights instead of cells."""
    outside = False
    for i in range(m):
        x, y = one[i], two[i]
        into[i], into2[i] = x, y
        u = (x - base) * inverse
        u = u if u > 0.0 else 0.0
        u = u if u < end else end
        v = (y - base2) * inverse2
        v = v if v > 0.0 else 0.0
        v = v if v < UNIT else UNIT
        outside |= not ((x >= low) & (x <= high) & (y >= low2) & (y <= high2))
        cell[i] = cell[i] * side + np.int32(u)
        level[i] = np.int32(v)
    return outside


@kernel
def strays(
    pool: Floats,
    b: int,
    first: int,
    m: int,
    low: Floats,
    high: Floats,
    beyond: int,
    cell: Heights,
    level: Heights,
) -> int:
    """Give rows outside the frame the number of the cell that lets everything pass; return how many there were.

    A row with a NaN has no score, so it matters to no query: it gets a height that is below all on either face.
    """
    found = 0
    for i in range(m):
        outside, missing = False, False
        for axis in range(pool.shape[1]):
            x = pool[b, axis, first + i]
            outside |= not (x >= low[axis] and x <= high[axis])
            missing |= x != x
        if missing:
            level[i] = OPEN
        elif outside:
            cell[i] = beyond
            found += 1
    return found


@inlined
def sift(
    first: int, m: int, sign: Any, cell: Heights, level: Heights, outer: Map, picks: Places, found: Any, above: Any,
    eights: Any,
) -> Any:  # fmt: skip
    """Compare m rows from `first` on with a map; append the places of those that pass; return the new number of places.

    First a byte is written for each row (`above`, with seven to spare), without dependencies between rows; then eight
    bytes are read at a time (the same memory as `eights`), most of which are all 0.
    """
    for i in range(m):
        above[i] = reaches(level[i], sign, outer[np.uint32(cell[i])])
    above[m : m + 7] = 0
    for w in range((m + 7) // 8):
        if eights[w] != 0:
            for i in range(8 * w, 8 * w + 8):  # each is written, and kept if it passes
                picks[found] = first + i
                found += np.int64(above[i])
    return found


@inlined
def sift_on(
    sign: Any, cell: Heights, level: Heights, inner: Map, picks: Places, found: Any, eager: Places
) -> Any:
    """Write those of the rows that passed the outer map, counted from the first of their stretch, that pass the inner
    one, too; return how many."""
    passed = np.int64(0)
    for p in range(found):
        i = picks[p]
        if reaches(level[i], sign, inner[np.uint32(cell[i])]):
            eager[passed] = i
            passed += 1
    return passed


@kernel
def gains(
    slot: int, at: int, sign: float, low: Floats, high: Floats, corners: Floats, size: Ints, order: Ints, edge: Floats,
    offset: Floats, weight: Floats, slip: Floats, fast: Heights, tops: Heights, grown: Heights,
) -> bool:  # fmt: skip
    """Write what a weighted sum needs of each cell: tops[at] by the cell along the first axis, less fast[at] by those
    along the others; return False if it needs nothing of them."""
    parts = size.shape[0]
    last = order[parts]
    need = edge[slot] - offset[slot] - slip[slot]
    total = 0.0
    for axis in range(low.shape[0]):
        w = weight[slot, axis]
        total += abs(w) * (high[axis] - low[axis])
        if axis != last:
            need -= w * low[axis]
    w = weight[slot, last]
    extent = abs(w) * (high[last] - low[last])
    need -= w * (low[last] if sign > 0.0 else high[last])
    # from here on the last axis counts 0 at its worse end and `slope` at its better one
    # (at least a little: an axis that hardly matters would make infinite heights)
    slope = max(extent, total / 1024.0)
    unit = 131072.0 / slope if slope > 0.0 else np.inf
    if not (need > -np.inf and 0.0 < unit < np.inf):
        return False
    start = need * unit - 4.0 - parts - (0.0 if sign > 0.0 else 131072.0)
    start = min(max(np.floor(start), -536870912.0), 536870912.0)
    # gains along each axis but the first (if there are several), one after the other
    n = 1
    fast[at, 0] = 0
    for a in range(1 if parts > 1 else 0, parts):
        axis = order[a]
        w = weight[slot, axis]
        m = size[a]
        for g in range(m):
            corner = corners[a, 1, g] if w > 0.0 else corners[a, 0, g]
            grown[g] = np.int32(np.ceil(w * (corner - low[axis]) * unit))
        for back in range(n):  # from the end, so that values are read before they are overwritten
            i = n - 1 - back
            before, begin = fast[at, i], np.uint64(i * m)
            for g in range(m):
                fast[at, begin + np.uint64(g)] = before + grown[g]
        n *= m
    for g in range(size[0] if parts > 1 else 1):
        gain = 0.0
        if parts > 1:
            w = weight[slot, order[0]]
            corner = corners[0, 1, g] if w > 0.0 else corners[0, 0, g]
            gain = np.ceil(w * (corner - low[order[0]]) * unit)
        tops[at, g] = np.int32(start - gain)
    return True


@kernel
def carve_weights(
    heights: Map, sign: float, low: Floats, high: Floats, corners: Floats, size: Ints, order: Ints,
    slots: Ints, edge: Floats, offset: Floats, weight: Floats, slip: Floats, fast: Heights, tops: Heights,
    grown: Heights,
) -> None:  # fmt: skip
    """Lower the map for weighted sums, four of them in one pass over it. corners[a, 0 or 1, cell]: lower and upper ends
    along order[a]."""
    parts = size.shape[0]
    rows = size[0] if parts > 1 else 1
    n = (heights.shape[0] - 1) // rows
    count = 0
    for turn in range(slots.shape[0]):
        if gains(
            slots[turn],
            count,
            sign,
            low,
            high,
            corners,
            size,
            order,
            edge,
            offset,
            weight,
            slip,
            fast,
            tops,
            grown,
        ):
            count += 1
        else:
            for i in range(heights.shape[0]):
                heights[i] = LEAST
        if count == 0 or (count < 4 and turn < slots.shape[0] - 1):
            continue
        # if they are fewer than four the first one counts several times
        one, two, three = (1 if count > 1 else 0), (2 if count > 2 else 0), (3 if count > 3 else 0)
        fast0, fast1, fast2, fast3 = fast[0], fast[one], fast[two], fast[three]
        for g in range(rows):
            top0, top1, top2, top3 = tops[0, g], tops[one, g], tops[two, g], tops[three, g]
            row = heights[g * n : g * n + n]
            for j in range(n):
                v = min(np.int32(top0 - fast0[j]), np.int32(top1 - fast1[j]))
                w = min(np.int32(top2 - fast2[j]), np.int32(top3 - fast3[j]))
                row[j] = min(row[j], mapped(min(v, w)))
        count = 0


_BISECT = '''"""Generated by algorithms.heightmap.maps: heights of a monotone score, by bisection."""
import numpy as np
from skyband.compiling.jit import kernel
from skyband.algorithms.heightmap.box_maps import span
from skyband.algorithms.heightmap.maps import NEVER, OPEN, mapped

@kernel
def carve(heights, side, low, high, corners, size, order, slots, edge, constants, toward, sign, box, base, inverse):
    parts = size.shape[0]
    last = order[parts]
    x = np.empty(max(1, low.shape[0]), np.float64)
    p = np.empty(max(1, constants.shape[1]), np.float64)
    extent = high[last] - low[last]
    for slot in slots:
        for i in range(constants.shape[1]):
            p[i] = constants[slot, i]
        bottom, top = span(box[slot, 0, last], box[slot, 1, last], base[last], inverse[last], side)
        empty = not box[slot, 0, last] <= box[slot, 1, last]
        for cell in range(heights.shape[0] - 1):
            rest, outside = cell, empty
            for back in range(parts):
                a = parts - 1 - back
                g = rest % size[a]
                rest //= size[a]
                lower = max(corners[a, 0, g], box[slot, 0, order[a]])
                upper = min(corners[a, 1, g], box[slot, 1, order[a]])
                x[order[a]] = upper if toward[slot, order[a]] > 0 else lower
                outside |= not lower <= upper
            if outside:
                continue
            # below: proved too low for the threshold; above: may reach it
            below, above = 0, {levels} + 1
            while above - below > 1:
                middle = (below + above) // 2
                part = extent * (middle / {levels}.0)
                x[last] = low[last] + part if side > 0.0 else high[last] - part
                if middle == {levels}:
                    x[last] = high[last] if side > 0.0 else low[last]
{loads}
                value = sign * ({score})
                if value < edge[slot]:
                    below = middle
                else:
                    above = middle
            height = np.int32(below * ({unit} // {levels}) - 2)
            if side < 0.0:
                height -= {unit}
            if below == 0:
                height = OPEN
            elif above > {levels}:
                height = np.int32(NEVER)
            height = max(height, bottom)
            if height <= top:
                heights[cell] = min(heights[cell], mapped(height))
'''


@lru_cache(maxsize=64)
def bisecting(score: str, axes: int) -> Any:
    """Return a kernel like `carve_weights` for a rendered score that is monotone along every axis."""
    loads = "\n".join(f"                x{i} = x[{i}]" for i in range(axes))
    source = _BISECT.format(score=score, loads=loads, levels=LEVELS, unit=int(UNIT))
    return generated(source).carve
