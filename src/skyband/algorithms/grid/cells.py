"""A grid over a window's rows, and for each cell the queries that a row in it may concern.

**Cells.** Space is cut into about TOTAL cells whatever the number of axes (fewer while the window is small), equal in
width along an axis. Each cell has its rows in a chain: `first` and `last` by cell, `next` and `prev` by place. A new
row is appended; a row that leaves in the order of arrival is the first of its chain, so nothing else changes.

**Attribute ranges are not known in advance.** The box is learnt from the present rows. A row outside falls into a
border cell, and the border cells reach as far as the rows do: `low` and `high` hold, by axis and by index on it, the
least and greatest coordinate that a row there can have. One float64 expression decides which cell a coordinate belongs
to, and the edges in those tables are the exact floats at which its value changes, so that a cell's bounds are never
wrong by a rounding. The grid is rebuilt when its rows are many more or fewer than it was made for, when many fall
outside, or when they fill a small part of it only; `due` decides, at a cost in proportion to new rows.

**Influence lists.** `bits[cell]` is a set of slots (64 to a word), `count[cell]` their number. A new row is scored
for those slots only, and most cells have none. The invariant, for each slot: every cell in which a row at least as good
as the slot's `bar` could lie has its bit. It holds for rows inside the *cover*, the box that the border cells
reached when the grid was made. A row beyond it (a *stray*) is offered to all slots, which is cheap because it is
rare, and extends the tables for later searches; so no list has to change when a row exceeds an extreme.

How to search a grid, and how to write an algorithm on it, is in search.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.algorithms.kernels.cell_shape import shape_for
from skyband.algorithms.kernels.row_slots import Places, Rows
from skyband.compiling.intrinsics import fetch
from skyband.compiling.jit import kernel
from skyband.compiling.state import State, field, scalar
from skyband.core.types import Floats, Ints

TOTAL = 20_736  # 12^4, the best of the paper's grids
ROWS_A_CELL = 4  # rows per cell in a small window
MOST_CELLS = 1 << 22
OUTSIDE = 1 << 40  # beyond the number of any cell
STRETCH = 64  # rows whose cells are found before they are linked
FAR = 8e307  # no grid reaches further, so that the difference of two edges is finite

Words = npt.NDArray[np.uint64]


class Grid(State):
    """Cells over stored rows; `per_axis` fixes the number of cells along each axis (0: chosen by the window)."""

    cells: Ints = field("i8[axis]")  # along each axis
    strides: Ints = field("i8[axis]")
    origin: Floats = field("f8[axis]")
    scale: Floats = field("f8[axis]")
    low: Floats = field("f8[axis, slab]")  # the edges of cells along each axis
    high: Floats = field("f8[axis, slab]")
    cover_low: Floats = field("f8[axis]")
    cover_high: Floats = field("f8[axis]")
    tally: Ints = field(
        "i8[tallied]"
    )  # rows since the last rebuild, those outside the box, those beyond the cover
    first: Places = field("i4[cell]")  # the ends of each cell's chain of rows
    last: Places = field("i4[cell]")
    bits: Words = field("u8[cell, word]")  # the slots that a cell names,
    count: Places = field("i4[cell]")  # how many they are,
    mine: Words = field("u8[own, own_word]")  # and by slot the cells that name it, see `own_sets`
    used: Words = field("u8[used_word]")  # the slots in use
    stamp: Places = field("i4[cell]")  # the search that has met a cell
    heap_key: Floats = field("f8[heap]")
    heap_cell: Places = field("i4[heap]")
    nodes: Places = field("i4[node, end]")
    age: int = scalar("i8")  # the latest search

    def __init__(self, rows: Rows, per_axis: int = 0) -> None:
        super().__init__(used_word=1)
        self.rows = rows
        self.per_axis = per_axis
        self.bits = np.zeros((1, 1), dtype=np.uint64)
        self.generation = 0  # how often it was rebuilt
        self.rebuild()

    @property
    def axes(self) -> int:
        return self.rows.width

    # -- the cells -----------------------------------------------------------------------------------------

    def due(self) -> bool:
        """Whether the grid should be rebuilt for the present rows."""
        rows, (arrived, outside, strays) = len(self.rows), self.tally.tolist()
        if not rows:
            return False
        if not self.learned or strays > 64 + rows // 64:
            return True
        if not self.per_axis:
            wanted = self._wanted()
            if self.total * 2 <= wanted or self.total >= wanted * 8:
                return True
        if arrived > 64 + rows // 2 and 2 * outside > arrived:
            return True
        if arrived > 64 + 2 * rows:
            self.tally[:2] = 0
            low, high = self._learn()
            return bool(np.any(2 * (high - low) < self.cells / self.scale))
        return False

    def _wanted(self) -> int:
        return min(TOTAL, max(1, len(self.rows) // ROWS_A_CELL))

    def rebuild(self) -> None:
        """Learn the box, cut it, and put every row into its cell. Afterwards all influence lists are empty."""
        self.generation += 1
        self.learned = len(self.rows) > 0
        axes = self.axes
        cells = [self.per_axis] * axes if self.per_axis else shape_for(axes, self._wanted())
        if not self.learned:
            cells = [1] * axes
        self.cells = np.array(cells, dtype=np.int64)
        self.strides = np.concatenate([[1], np.cumprod(self.cells)[:-1]]).astype(np.int64)
        self.total = int(np.prod(self.cells))
        self.age = 0
        self.low = np.full((axes, max(cells)), np.inf)
        self.high = np.full((axes, max(cells)), -np.inf)
        self.origin, self.scale = np.zeros(axes), np.zeros(axes)
        self.tally = np.zeros(3, dtype=np.int64)
        self.first = np.full(self.total, -1, dtype=np.int32)
        self.last = np.full(self.total, -1, dtype=np.int32)
        self.count = np.zeros(self.total, dtype=np.int32)
        self.bits = np.zeros((self.total, self.bits.shape[1]), dtype=np.uint64)
        self.mine = np.zeros((0, 0), dtype=np.uint64)
        self.stamp = np.zeros(self.total, dtype=np.int32)
        self.heap_key = np.empty(self.total + 1, dtype=np.float64)
        self.heap_cell = np.empty(self.total + 1, dtype=np.int32)
        self.nodes = np.empty((0, 2 * axes), dtype=np.int32)
        if self.learned:
            self._cut()
        self.cover_low, self.cover_high = self.low[:, 0].copy(), self.high[range(axes), self.cells - 1]
        if self.learned:
            self.link(self.rows.living())
            self.tally[:] = 0

    def _learn(self) -> tuple[Floats, Floats]:
        """Return the box of the rows: their extremes, unless these are far from where most rows are."""
        places = self.rows.living()
        sample = self.rows.x[places[:: max(1, len(places) // 4096)]]
        lows, highs = np.empty(self.axes), np.empty(self.axes)
        for axis in range(self.axes):
            values = sample[:, axis][np.isfinite(sample[:, axis])]
            if not len(values):
                lows[axis], highs[axis] = 0.0, 1.0
                continue
            # of halves, so that no difference overflows
            low, left, right, high = np.quantile(values / 2, [0.0, 0.01, 0.99, 1.0]).tolist()
            if high - low > 8 * (right - left) > 0:
                low, high = max(low, 2 * left - right), min(high, 2 * right - left)
            lows[axis], highs[axis] = (min(max(2 * end, -FAR), FAR) for end in (low, high))
        return lows, highs

    def _cut(self) -> None:
        """Set origin and scale of each axis, and the exact edges of its cells."""
        seen_low, seen_high = extremes(self.rows.x, self.rows.living())
        lows, highs = self._learn()
        for axis in range(self.axes):
            low, high, count = float(lows[axis]), float(highs[axis]), int(self.cells[axis])
            # a cell must be many floats wide, or its edges would coincide
            width = max(high - low, 64 * count * float(np.spacing(max(abs(low), abs(high)))), 1e-290)
            self.origin[axis], self.scale[axis] = low, count / width
            edges = np.empty(count + 1)
            find_edges(low, count / width, low + width, count, edges)
            self.low[axis, :count] = edges[:-1]
            self.high[axis, :count] = np.nextafter(edges[1:], -np.inf)
            self.low[axis, 0] = min(low, seen_low[axis])
            self.high[axis, count - 1] = max(self.high[axis, count - 1], seen_high[axis])

    def link(self, places: Places) -> Ints:
        """Put rows into their cells; return the places, those of strays as their complement (~place)."""
        out = np.empty(len(places), dtype=np.int64)
        link(places, self.rows, self, out)
        return out

    def unlink(self, places: Places) -> None:
        """Remove rows from their cells."""
        unlink(places, self.rows, self)

    def covered(self, places: Places | int) -> Any:
        """Whether the rows at these places are inside the cover."""
        x = self.rows.x[places]
        return np.all((x >= self.cover_low) & (x <= self.cover_high), axis=-1)

    @property
    def reach(self) -> tuple[Floats, Floats]:
        """Return the box that the cells reach, which contains all rows so far."""
        return self.low[:, 0].copy(), self.high[range(self.axes), self.cells - 1]

    # -- influence lists -----------------------------------------------------------------------------------

    def provide(self, slots: int) -> None:
        """Make room for so many slots."""
        words = (max(slots, 1) + 63) // 64
        if words > self.bits.shape[1]:
            wider = np.zeros((self.total, max(words, self.bits.shape[1] * 3 // 2)), dtype=np.uint64)
            wider[:, : self.bits.shape[1]] = self.bits
            self.bits = wider

    def own_sets(self, slots: int) -> None:
        """Make room for the cells that have a slot's bit: kept for the slots that are searched by boxes of cells."""
        words = (self.total + 63) // 64
        if len(self.mine) < slots:
            wider = np.zeros((max(slots, self.mine.shape[0] * 3 // 2), words), dtype=np.uint64)
            if len(self.mine):
                wider[: len(self.mine)] = self.mine
            self.mine = wider

    def make_node_room(self) -> None:
        """Make room for the boxes of cells of one search."""
        if len(self.nodes) < 2 * self.total:
            self.nodes = np.empty((2 * self.total, 2 * self.axes), dtype=np.int32)

    def forget(self, slot: int) -> None:
        """Remove a slot from all cells."""
        clear_slot(slot, self)
        if slot < len(self.mine):
            self.mine[slot] = 0

    def everywhere(self, slot: int, begin: Ints, end: Ints) -> None:
        """Name the slot in exactly the cells of a box, given by the first and last index along each axis."""
        self.forget(slot)
        mark_box(slot, begin, end, self)
        if slot < len(self.mine):
            self.mine[slot] = self.as_set(self.cells_of(slot))

    def as_set(self, cells: Ints) -> Words:
        """Return cells as a set, 64 to a word."""
        there = np.zeros((self.total + 63) // 64 * 64, dtype=bool)
        there[cells] = True
        return np.packbits(there, bitorder="little").view(np.uint64)

    def adopt(self, slot: int, cells: Ints, slots: int) -> None:
        """Name the slot in exactly these cells, for slots that are searched by boxes of cells."""
        self.own_sets(slots)
        adopt(slot, self.as_set(cells), self)

    def index_of(self, axis: int, value: float) -> int:
        """Return the index along an axis of the cells that a coordinate falls into."""
        return int(index_on(value, self.origin[axis], self.scale[axis], self.cells[axis]))

    def cells_of(self, slot: int) -> Ints:
        """Return the cells that name the slot."""
        word, bit = slot >> 6, np.uint64(1) << np.uint64(slot & 63)
        return np.flatnonzero(self.bits[:, word] & bit)

    def corners(self) -> tuple[list[Floats], list[Floats]]:
        """Return the box of each cell: the low and the high ends by axis."""
        at = [(np.arange(self.total) // self.strides[j]) % self.cells[j] for j in range(self.axes)]
        lows = [self.low[axis][index] for axis, index in enumerate(at)]
        return lows, [self.high[axis][index] for axis, index in enumerate(at)]

    def _check(self) -> None:
        super()._check()
        rows, places = self.rows, self.rows.living()
        chained = np.zeros(len(rows.order), dtype=bool)
        for cell in np.flatnonzero(self.first >= 0).tolist():
            place, previous = int(self.first[cell]), -1
            while place >= 0:
                # each row is in one chain, that of its cell, and linked to its neighbours there
                assert not chained[place] and rows.cell[place] == cell
                assert previous < 0 or rows.prev[place] == previous
                chained[place] = True
                previous, place = place, int(rows.next[place])
            assert self.last[cell] == previous
        assert np.all(self.last[self.first < 0] == -1)
        # exactly the live rows are in cells
        assert np.array_equal(np.sort(places), np.flatnonzero(chained))
        # each row lies within the bounds of its cell
        lows, highs = self.corners()
        at = rows.cell[places]
        for axis in range(self.axes):
            x = rows.x[places, axis]
            assert np.all((x >= lows[axis][at]) & (x <= highs[axis][at]))
        # the sets by slot, where they exist, equal those of the cells; the counts are those of the bits
        for slot in np.flatnonzero(self.mine.any(axis=1)).tolist():
            assert np.array_equal(self.mine[slot], self.as_set(self.cells_of(slot)))
        assert np.array_equal(self.count, np.bitwise_count(self.bits).sum(axis=1))
        assert np.all(self.cover_low >= self.low[:, 0])


# -- kernels -------------------------------------------------------------------------------------------------


@kernel
def index_on(value: float, origin: float, scale: float, cells: int) -> int:
    """Return the index of a coordinate along an axis; monotone in the value, border cells include what lies outside."""
    at = (value - origin) * scale
    if at >= cells:
        return cells - 1
    return int(at) if at > 0.0 else 0


@kernel
def find_edges(origin: float, scale: float, end: float, cells: int, edges: Floats) -> None:
    """Write the least floats whose index is 0, 1, … and the first beyond them, by bisection: a formula would be wrong
    in the last bit."""
    edges[0] = origin
    step = 1.0 / scale / 16.0
    for i in range(1, cells + 1):
        low, high = origin, end + step
        guess = origin + i / scale
        if guess - step > low and (guess - step - origin) * scale < i:
            low = guess - step
        if guess + step < high and (guess + step - origin) * scale >= i:
            high = guess + step
        while True:
            middle = low + (high - low) / 2.0
            if middle <= low or middle >= high:
                break
            if (middle - origin) * scale >= i:
                high = middle
            else:
                low = middle
        edges[i] = high


@kernel
def extremes(x: Floats, places: Places) -> tuple[Floats, Floats]:
    """Return the least and greatest coordinates of rows, by axis."""
    axes = x.shape[1]
    low, high = np.full(axes, np.inf), np.full(axes, -np.inf)
    for i in range(places.shape[0]):
        for axis in range(axes):
            value = x[places[i], axis]
            if value < low[axis]:
                low[axis] = value
            if value > high[axis]:
                high[axis] = value
    return low, high


@kernel
def link(places: Places, rows: Rows, grid: Grid, out: Ints) -> None:
    """Append rows to the chains of their cells; see `Grid.link`. The ends of the chains are scattered in memory: they
    are prefetched while the cells of the next rows are found."""
    x, cell, following, previous, first, last = rows.x, rows.cell, rows.next, rows.prev, grid.first, grid.last
    origin, scale, cells, strides = grid.origin, grid.scale, grid.cells, grid.strides
    low, high, cover_low, cover_high = grid.low, grid.high, grid.cover_low, grid.cover_high
    axes = x.shape[1]
    outside = 0
    strays = 0
    for begin in range(0, places.shape[0], STRETCH):
        end = min(begin + STRETCH, places.shape[0])
        for i in range(begin, end):
            out[i] = 0
        for axis in range(
            axes
        ):  # one axis at a time, without a branch: rows outside are marked, and handled below
            base, steps, stride = origin[axis], scale[axis], strides[axis]
            edge, most = float(cells[axis]), cells[axis] - 0.5
            for i in range(begin, end):
                at = (x[places[i], axis] - base) * steps
                within = at if at > 0.0 else 0.0
                out[i] += int(within if within < most else most) * stride
                out[i] |= 0 if (at > 0.0) & (at < edge) else OUTSIDE
        for i in range(begin, end):
            place = places[i]
            c = out[i] & (OUTSIDE - 1)
            if out[i] >= OUTSIDE:  # or on the very edge
                beyond = False
                stray = False
                for axis in range(axes):
                    value = x[place, axis]
                    beyond |= value < origin[axis] or (value - origin[axis]) * scale[axis] >= cells[axis]
                    stray |= value < cover_low[axis] or value > cover_high[axis]
                    if value < low[axis, 0]:
                        low[axis, 0] = value
                    if value > high[axis, cells[axis] - 1]:
                        high[axis, cells[axis] - 1] = value
                outside += beyond
                strays += stray
                out[i] = ~place if stray else place
            else:
                out[i] = place
            cell[place] = c
            fetch(following, last[c])  # written below
        for i in range(begin, end):
            place = places[i]
            c = cell[place]
            following[place] = -1
            previous[place] = last[c]
            if first[c] < 0:
                first[c] = place
            else:
                following[last[c]] = place
            last[c] = place
    grid.tally[0] += places.shape[0]
    grid.tally[1] += outside
    grid.tally[2] += strays


@kernel
def unlink(places: Places, rows: Rows, grid: Grid) -> None:
    """Remove rows from their chains. `prev` of the first row of a chain may hold anything; it is never read."""
    cell, following, previous, first, last = rows.cell, rows.next, rows.prev, grid.first, grid.last
    for i in range(places.shape[0]):
        place = places[i]
        c = cell[place]
        after = following[place]
        if first[c] == place:
            first[c] = after
            if after < 0:
                last[c] = -1
        else:
            before = previous[place]
            following[before] = after
            if after < 0:
                last[c] = before
            else:
                previous[after] = before
        cell[place] = -1


@kernel
def clear_slot(slot: int, grid: Grid) -> None:
    """Remove a slot from all influence lists."""
    bits = grid.bits
    word = slot >> 6
    bit = np.uint64(1) << np.uint64(slot & 63)
    for c in range(bits.shape[0]):
        if bits[c, word] & bit:
            bits[c, word] ^= bit
            grid.count[c] -= 1


@kernel
def mark_box(slot: int, begin: Ints, end: Ints, grid: Grid) -> None:
    """Add a slot, which is in no list, to those of a box of cells."""
    strides, bits, count = grid.strides, grid.bits, grid.count
    axes = begin.shape[0]
    word = slot >> 6
    bit = np.uint64(1) << np.uint64(slot & 63)
    at = begin.copy()
    c = 0
    for axis in range(axes):
        if begin[axis] > end[axis]:
            return
        c += begin[axis] * strides[axis]
    while True:
        bits[c, word] |= bit
        count[c] += 1
        axis = 0
        while axis < axes and at[axis] == end[axis]:
            c -= (at[axis] - begin[axis]) * strides[axis]
            at[axis] = begin[axis]
            axis += 1
        if axis == axes:
            return
        at[axis] += 1
        c += strides[axis]


@kernel
def adopt(slot: int, cells: Words, grid: Grid) -> None:
    """Make these cells (a set, 64 to a word) the slot's cells: add and remove it where they differ from the previous
    ones."""
    mine, bits, count = grid.mine, grid.bits, grid.count
    word = slot >> 6
    bit = np.uint64(1) << np.uint64(slot & 63)
    one, zero = np.uint64(1), np.uint64(0)
    for w in range(cells.shape[0]):
        changed = mine[slot, w] ^ cells[w]
        if changed == zero:
            continue
        for i in range(64):
            if changed & (one << np.uint64(i)):
                c = (w << 6) + i
                if bits[c, word] & bit:
                    count[c] -= 1
                else:
                    count[c] += 1
                bits[c, word] ^= bit
        mine[slot, w] = cells[w]
