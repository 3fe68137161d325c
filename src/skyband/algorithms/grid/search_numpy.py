"""The descent through boxes of cells in numpy, for scores that can't be compiled (exp, ln, powers).

Like `descend` in search.py, but a step processes the best few boxes at once: each is cut into up to sixteen, and all of
these are bounded in one call; the rows of several cells are scored together. That bounds and visits a few more than
strictly best-first would; in the end the cells whose bound is at least the worst row held are exactly the same.
"""

from __future__ import annotations

import numpy as np

from skyband.algorithms.grid.cells import Grid
from skyband.algorithms.kernels.row_slots import Places
from skyband.compiling.jit import kernel
from skyband.core.types import Floats, Ints, Recency
from skyband.query.expression.score_space import Space

TOGETHER = 64  # boxes that a step cuts
CUTS = 4  # how often each is halved
CELLS = 8  # cells that a step visits


class Descent:
    """One search of a grid for one query."""

    def __init__(
        self, grid: Grid, space: Space, constants: Floats, limits: list[tuple[float, float]], horizon: Recency
    ) -> None:
        self.grid, self.space, self.constants = grid, space, constants
        self.limits, self.horizon = limits, horizon
        self.visited = self.scored = 0
        self._good = np.empty(0, dtype=np.float64)
        self._places = np.empty(0, dtype=np.int64)
        self._cells: list[Ints] = []
        self._keys: list[Floats] = []
        self.floor = -np.inf

    def run(self, begin: Ints, end: Ints, wanted: int, floor: float) -> None:
        """Find the `wanted` best rows in a box of cells; with 0 only the cells whose bound is at least `floor`."""
        self.floor = floor
        lows, highs, keys = begin[None, :], end[None, :], np.array([np.inf])
        if np.any(begin > end):
            return
        while True:
            alive = ~(keys < self.floor)
            lows, highs, keys = lows[alive], highs[alive], keys[alive]
            if not len(keys):
                return
            best = np.argsort(-keys, kind="stable")
            lows, highs, keys = lows[best], highs[best], keys[best]
            single = np.all(lows == highs, axis=1)
            first = int(np.argmin(single)) if not single.all() else len(keys)
            if first:  # cells first: the best few of them
                first = min(first, CELLS if wanted else first)
                self._visit(lows[:first] @ self.grid.strides, keys[:first], wanted)
                lows, highs, keys = lows[first:], highs[first:], keys[first:]
                continue
            cut = np.flatnonzero(~single)[:TOGETHER]
            parts = self._cut(lows[cut], highs[cut], keys[cut])
            lows, highs, keys = (
                np.concatenate([np.delete(old, cut, axis=0), new])
                for old, new in zip((lows, highs, keys), parts, strict=True)
            )

    def _cut(self, lows: Ints, highs: Ints, keys: Floats) -> tuple[Ints, Ints, Floats]:
        """Split boxes along their widest axis, several times, and bound the parts."""
        if not len(keys):
            return lows, highs, keys
        for _ in range(CUTS):
            wide = np.argmax(highs - lows, axis=1)
            each = np.arange(len(keys))
            middle = (lows[each, wide] + highs[each, wide]) // 2
            upper = highs[each, wide] > middle  # a single cell has no upper half
            left, right = highs.copy(), lows[upper]
            left[each, wide] = middle
            right[np.arange(len(right)), wide[upper]] = middle[upper] + 1
            lows, highs = np.concatenate([lows, right]), np.concatenate([left, highs[upper]])
            keys = np.concatenate([keys, keys[upper]])
        return lows, highs, np.minimum(keys, self._bounds(lows, highs))

    def _bounds(self, lows: Ints, highs: Ints) -> Floats:
        ends_low, ends_high = [], []
        empty = np.zeros(len(lows), dtype=bool)
        for axis in range(len(self.space.columns)):
            low = np.maximum(self.grid.low[axis][lows[:, axis]], self.limits[axis][0])
            high = np.minimum(self.grid.high[axis][highs[:, axis]], self.limits[axis][1])
            empty |= low > high
            ends_low.append(low)
            ends_high.append(high)
        return np.where(empty, -np.inf, self.space.bounds(ends_low, ends_high, self.constants)[1])

    def _visit(self, cells: Ints, keys: Floats, wanted: int) -> None:
        self.visited += len(cells)
        self._cells.append(cells)
        self._keys.append(keys)
        if not wanted:
            return
        rows = self.grid.rows
        places = chained(cells, self.grid.first, rows.next, len(rows))
        self.scored += len(places)
        columns, time, seq = rows.values(places)
        good = (
            self.space.good(columns[: len(self.space.columns)], self.constants)
            if self.space.columns
            else None
        )
        if good is None:  # a score without columns
            good = np.full(len(places), self.space.good((), self.constants))
        fits = (good >= self.floor) & (
            (time > self.horizon.time) | ((time == self.horizon.time) & (seq >= self.horizon.seq))
        )
        for axis, (low, high) in enumerate(self.limits):
            fits &= (rows.x[places, axis] >= low) & (rows.x[places, axis] <= high)
        good = np.concatenate([self._good, good[fits]])
        places = np.concatenate([self._places, places[fits]])
        order = np.lexsort((rows.seq[places], rows.time[places], good))[::-1][:wanted]
        self._good, self._places = good[order], places[order]
        if len(order) == wanted:
            self.floor = float(self._good[-1])

    def cells(self) -> Ints:
        """Return the cells whose bound is at least the worst row held."""
        if not self._cells:
            return np.empty(0, dtype=np.int64)
        return np.concatenate(self._cells)[~(np.concatenate(self._keys) < self.floor)]

    def rows(self) -> tuple[Floats, Ints, Ints]:
        """Return the rows held: good, time, seq."""
        rows = self.grid.rows
        return self._good, rows.time[self._places], rows.seq[self._places]


@kernel
def chained(cells: Ints, first: Places, following: Places, most: int) -> Ints:
    """Return the places of all rows in some cells."""
    places = np.empty(most, np.int64)
    count = 0
    for i in range(cells.shape[0]):
        place = first[cells[i]]
        while place >= 0:
            places[count] = place
            count += 1
            place = following[place]
    return places[:count]
