"""Shared by the algorithms on a grid: rows in cells, influence lists, and the search that refills a list.

One step: new rows are linked into their cells, and each is offered to the slots that its cell's influence list names.
Deleted and expired rows leave cells and lists. Then the grid is searched once for each slot whose list ran short.
Nothing is reported in between, so several losses of one slot in a step cost one search.

A subclass brings

    arrive     the kernel that inserts a row into a slot's list (see search.py)
    strike     the kernel that removes deleted rows from lists, if the algorithm supports deletion
    keep       how many rows a search finds for a slot (default: k)

`bars` (kernels/barred_lists.py) says what bounds each list. While a list is `complete` its bar is -inf, every cell of
its box names the slot, and a loss needs no search.

**Which search.** `walk` if every axis has a proven direction and no part of the score can be infinite or NaN on the
box that the grid covers; else `descend`; and if the score can't be compiled (exp, ln, powers), the same descent in
numpy, slower but exact. The proof is made over a somewhat larger box, so that it stays valid longer.

**Threshold families** have a fixed bar: influence lists are set once, each row beyond goes into the list, and no search
is ever needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from skyband.algorithms.grid.cells import MOST_CELLS, Grid
from skyband.algorithms.grid.merge_batch import Gathered, gather
from skyband.algorithms.grid.search import COUNTERS, SCORED, Search, Visits
from skyband.algorithms.grid.search_numpy import Descent
from skyband.algorithms.kernels.barred_lists import ADMITTED, LATEST, Bars, expire, horizon_of
from skyband.algorithms.kernels.row_slots import Places, Rows
from skyband.algorithms.window_base import WindowAlgorithm
from skyband.compiling.jit import Kernel
from skyband.core.errors import QueryError
from skyband.core.order import first_inside
from skyband.core.types import Floats, Ints, Recency
from skyband.query.expression.box_bounds import sound
from skyband.query.expression.score_space import Space

UNKNOWN, WALK, DESCEND, PLAIN = range(4)
BURST = 8  # a batch is large if it could fill a list so many times
_NO_CELLS = np.empty(0, dtype=np.int64)
# After so many rows were scored for a slot since its influence lists were set, they are set again.
TIGHTEN = 2048


class Gridded(WindowAlgorithm):
    """Rows in a grid; the subclass decides what a list holds, and how it shrinks."""

    counter_names: ClassVar[tuple[str, ...]] = COUNTERS
    arrive: ClassVar[Kernel]

    def __init__(self, options: Mapping[str, float], space: Space) -> None:
        super().__init__(options, space)
        axes = len(space.columns)
        per_axis = int(self.options["cells"])
        if per_axis < 0 or per_axis**axes > MOST_CELLS:
            raise QueryError(
                f"cells = {per_axis} along each of {axes} axes are more than {MOST_CELLS} cells; give fewer, or 0 to "
                "have them chosen."
            )
        self.store = Rows(axes)
        self.grid = Grid(self.store, per_axis)
        self.gathered = Gathered()
        self.bars = Bars()
        self.scratch = Search(axis=axes)
        self.way = np.empty(0, dtype=np.uint8)
        self.scored_before = np.empty(0, dtype=np.int64)
        self.up = np.empty((0, axes), dtype=np.int8)
        self.proved = np.full(axes, np.inf), np.full(axes, -np.inf)
        self._visits: Visits | None = None

    # -- what a subclass brings ----------------------------------------------------------------------------

    def keep(self) -> Ints:
        """Return by slot how many rows a search finds."""
        return self.ks

    def named(self) -> Places:
        """Return how many slots each cell names; arrivals in a cell with none are skipped."""
        return self.grid.count

    def settled(self, slots: Ints) -> None:
        """Called when a search has filled these slots' lists."""

    def strike(self, places: Ints) -> None:
        """Remove deleted rows from the lists; set `lost` and `touched`."""
        raise NotImplementedError

    # -- slots ---------------------------------------------------------------------------------------------

    def opened(self, slot: int) -> None:
        self._provide()
        self.way[slot] = UNKNOWN
        self.bars.lost[slot] = self.scored_before[slot] = 0
        self._mark_used()
        if self.space.bounded:
            self._open_threshold(slot)
        elif self.store.position(self._horizon(slot)) == self.store.size:
            self._complete(slot)
        else:
            self.search(np.array([slot], dtype=np.int64))

    def _complete(self, slot: int) -> None:
        """Mark the list as complete: it holds every row that there is, so far none."""
        self.bars.bar[slot], self.bars.complete[slot] = -np.inf, 1
        self.ranked.clear(slot)
        self.bars.oldest_time[slot] = self.bars.oldest_seq[slot] = LATEST
        self._influence(np.array([slot], dtype=np.int64))

    def _open_threshold(self, slot: int) -> None:
        """Set the bar of a threshold: good > edge is good >= the next float; nothing lies beyond infinity."""
        edge = float(self.edge[slot])
        self.bars.bar[slot] = np.nan if edge == np.inf else np.nextafter(edge, np.inf)
        self.bars.complete[slot] = 1
        good, time, seq = self.scored(slot, self._horizon(slot))
        self.ranked.put(slot, good, time, seq)
        self.bars.note_oldest(slot, self.ranked)
        self._influence(np.array([slot], dtype=np.int64))

    def resized(self, slot: int) -> None:
        if self.space.bounded:
            return
        self.search(np.array([slot], dtype=np.int64))

    def closed(self, slot: int) -> None:
        self.grid.forget(slot)
        self.ks[slot] = 0
        self.bars.complete[slot] = self.bars.lost[slot] = 0
        self._mark_used()

    def _horizon(self, slot: int) -> Recency:
        return Recency(int(self.horizon_time[slot]), int(self.horizon_seq[slot]))

    def _provide(self) -> None:
        """Grow the arrays to the number of slots."""
        slots = len(self.ks)
        self.bars.grow(slot=slots)
        for name in ("way", "scored_before", "up"):
            old = getattr(self, name)
            if len(old) < slots:
                new = np.zeros((slots, *old.shape[1:]), dtype=old.dtype)
                new[: len(old)] = old
                setattr(self, name, new)
        self.grid.provide(slots)

    def _mark_used(self) -> None:
        there = np.zeros(self.grid.bits.shape[1] * 64, dtype=bool)
        there[: len(self.ks)] = self.ks > 0
        self.grid.used = np.packbits(there, bitorder="little").view(np.uint64)

    # -- a step --------------------------------------------------------------------------------------------

    def window_step(
        self, columns: tuple[Floats, ...], time: Ints, seq: Ints, deleted_time: Ints, deleted_seq: Ints
    ) -> None:
        horizon = self.oldest_horizon()
        first = int(first_inside(time, seq, 0, len(time), horizon.time, horizon.seq))
        if first < len(time):
            self._insert(tuple(column[first:] for column in columns), time[first:], seq[first:])
        if len(deleted_seq):
            self._delete(deleted_time, deleted_seq)
        gone = self.store.expire(horizon)
        self.grid.unlink(gone)
        expire(self.bars.lent(self), self.ranked)
        short = np.flatnonzero(self.bars.lost)
        self.bars.lost[short] = 0
        if len(short):
            self.search(short)
        self._tighten()

    def _insert(self, columns: tuple[Floats, ...], time: Ints, seq: Ints) -> None:
        self._flooded(len(time))
        offered = self._store(columns, time, seq)
        if not len(offered):
            return
        if self._compiled is None:
            self._offer_plainly(offered)
        else:
            self._offer(offered)
        if self.space.bounded:
            slots, counts = self.gathered.pour(self.ranked)
            self.counts[slots, ADMITTED] += counts
            self.touched[slots] = 1
            for slot in slots.tolist():
                self.bars.note_oldest(slot, self.ranked)

    def _flooded(self, rows: int) -> None:
        """Search for queries that take every row when a large batch comes, instead of offering it row by row."""
        if self.space.bounded or not self.bars.complete.any():
            return
        slots = np.flatnonzero((self.bars.complete > 0) & (self.ks > 0) & (rows > BURST * self.keep()))
        for slot in slots.tolist():
            self.grid.forget(slot)
        self.bars.bar[slots] = np.nan  # no row is offered to them in this step
        self.bars.complete[slots] = 0
        self.bars.lost[slots] = 1

    def _store(self, columns: tuple[Floats, ...], time: Ints, seq: Ints) -> Ints:
        """Put rows into cells; return their places, those of strays as complements."""
        places = self.store.add(columns, time, seq)
        if self.grid.due():
            self._regrid()
            return places.astype(np.int64)
        offered = self.grid.link(places)
        if len(offered) and offered.min() < 0:
            self._stretched()
        return offered

    def _delete(self, time: Ints, seq: Ints) -> None:
        places = self.store.find(time, seq)
        wide = places.astype(np.int64)
        self.strike(np.where(self.grid.covered(places), wide, ~wide))
        self.grid.unlink(places)
        self.store.remove(places)

    def fill(self, columns: tuple[Floats, ...], time: Ints, seq: Ints) -> None:
        fresh = ~np.isin(seq, self.seqs())
        self._store(tuple(column[fresh] for column in columns), time[fresh], seq[fresh])

    def oldest_horizon(self) -> Recency:
        time, seq, _ = horizon_of(self.ks, self.horizon_time, self.horizon_seq)
        return Recency(time, seq)

    # -- the grid ------------------------------------------------------------------------------------------

    def _regrid(self) -> None:
        """Make another grid and set all influence lists again; no list changes."""
        self.grid.rebuild()
        self.way[:] = UNKNOWN
        self._influence(np.flatnonzero(self.ks))

    def _stretched(self) -> None:
        """Check the proofs of scores again after rows came from beyond the cover."""
        low, high = self.grid.reach
        if np.all(low >= self.proved[0]) and np.all(high <= self.proved[1]):
            return
        known = np.flatnonzero((self.ks > 0) & ((self.way == WALK) | (self.way == DESCEND)))
        if not len(known):
            return
        before = self.way[known], self.up[known]
        self._prove(known)
        changed = known[(before[0] != self.way[known]) | np.any(before[1] != self.up[known], axis=1)]
        for slot in changed.tolist():
            self.grid.forget(slot)
        self._influence(changed)

    def _prove(self, slots: Ints) -> None:
        """Choose the kind of search for each of these slots."""
        if self._compiled is None:
            self.way[slots] = PLAIN
            return
        low, high = self.grid.reach
        if np.any(low < self.proved[0]) or np.any(high > self.proved[1]) or not self.grid.learned:
            self.proved = _wider(low, -1.0), _wider(high, 1.0)
        box = dict(
            zip(self.space.columns, zip(*(ends.tolist() for ends in self.proved), strict=True), strict=True)
        )
        spans = {name: (np.array([ends[0]]), np.array([ends[1]])) for name, ends in box.items()}
        constants = [np.ascontiguousarray(self.constants[slots, i]) for i in range(self.constants.shape[1])]
        fine = np.broadcast_to(sound(self.space.shape, spans, constants), len(slots))
        self.way[slots] = DESCEND
        self.up[slots] = 0
        for slot in slots[fine].tolist():
            directions = [d for d in self.space.directions(self.constants[slot], box) if d is not None]
            if len(directions) == len(box):
                self.way[slot] = WALK
                self.up[slot, : len(directions)] = directions

    def _ready(self, slots: Ints) -> None:
        """Choose the search of slots that have none yet, and clear them from all cells, as a search expects."""
        unknown = slots[self.way[slots] == UNKNOWN]
        if len(unknown):
            for slot in unknown.tolist():
                self.grid.forget(slot)
            self._prove(unknown)

    def _influence(self, slots: Ints) -> None:
        """Set the influence lists of slots for their present bars."""
        low = slots[self.bars.bar[slots] == -np.inf]
        if np.any(self.way[low] >= DESCEND):
            self.grid.own_sets(len(self.ks))
        for slot in low.tolist():
            self.grid.everywhere(slot, *self._cells_of_box(slot))
        rest = slots[self.bars.bar[slots] > -np.inf]
        if len(rest):
            self._visit(rest, 0)
        self.scored_before[slots] = self.counts[slots, SCORED]

    def _cells_of_box(self, slot: int) -> tuple[Ints, Ints]:
        """Return the first and last index of the slot's box along each axis; the last before the first if it is
        empty."""
        begin, end = np.zeros(self.grid.axes, dtype=np.int64), self.grid.cells - 1
        low, high = self.grid.reach
        for i, axis in enumerate(self.space.boxed):
            bottom, top = float(self.low[slot, i]), float(self.high[slot, i])
            if not bottom <= top or top < low[axis] or bottom > high[axis]:
                return begin + 1, begin
            begin[axis], end[axis] = self.grid.index_of(axis, bottom), self.grid.index_of(axis, top)
        return begin, end

    def _tighten(self) -> None:
        """Set the influence lists of slots again whose bar has risen far since they were set."""
        if self.space.bounded:
            return
        waste = (
            (self.counts[:, SCORED] - self.scored_before > TIGHTEN)
            & (self.bars.complete == 0)
            & (self.ks > 0)
        )
        if waste.any():
            self._influence(np.flatnonzero(waste))

    # -- searching -----------------------------------------------------------------------------------------

    def search(self, slots: Ints) -> None:
        """Fill the lists of slots from the grid, one search each, and set their influence lists."""
        need = np.minimum(self.keep()[slots], len(self.store))
        for slot in slots[self.ranked.room[slots] < need].tolist():
            self.ranked.reserve(slot, int(min(self.keep()[slot], len(self.store))))
        self._visit(slots, 1)
        self.touched[slots] = 1
        self.scored_before[slots] = self.counts[slots, SCORED]
        self.settled(slots)

    def _visit(self, slots: Ints, scan: int) -> None:
        self._ready(slots)
        ways = self.way[slots]
        keep = self.keep()
        grid, store, ranked = self.grid, self.store, self.ranked
        self.scratch.provide(grid, int(min(keep[slots].max(), len(store) + 1)))
        states = store, grid, self.bars.lent(self), ranked, self.scratch
        walked, descended = slots[ways == WALK], slots[ways == DESCEND]
        compiled = self._compiled
        if len(walked):
            assert compiled is not None
            if grid.age > 2**30:
                grid.stamp[:] = 0
                grid.age = 0
            compiled.walk(walked, keep, scan, self.up, *states)
        if len(descended):
            assert compiled is not None
            grid.own_sets(len(self.ks))
            grid.make_node_room()
            compiled.descend(descended, keep, scan, self.space.sign, grid.as_set(_NO_CELLS), *states)
        for slot in slots[ways == PLAIN].tolist():
            self._visit_plainly(slot, scan)

    # -- offering ------------------------------------------------------------------------------------------

    @property
    def _compiled(self) -> Visits | None:
        """Return the generated kernels, or None where the score can't be compiled."""
        if self._visits is None and self.space.rendered is not None:
            self._visits = Visits(self.space, self.constants.shape[1], self._hook())
        return self._visits

    def _hook(self) -> Kernel:
        return gather if self.space.bounded else self.arrive

    def _hook_states(self) -> tuple[Any, ...]:
        return self.bars.lent(self), self.gathered if self.space.bounded else self.ranked

    def _make_room(self, slot: int) -> None:
        if self.space.bounded:
            self.gathered.grow(row=max(1024, 2 * len(self.gathered.slot)))
        else:
            self.ranked.reserve(slot, 2 * int(self.ranked.room[slot]))

    def _offer(self, offered: Ints) -> None:
        assert self._compiled is not None
        offer = self._compiled.offer
        row, slot = 0, 0
        while True:
            row, slot = offer(row, slot, offered, self.named(), self.store, self.grid, *self._hook_states())
            if row == len(offered):
                return
            self._make_room(slot)

    def _offer_plainly(self, offered: Ints) -> None:
        """Offer rows to slots in numpy, one slot at a time."""
        stray = offered < 0
        places = np.where(stray, ~offered, offered)
        columns, time, seq = self.store.values(places)
        cells = self.store.cell[places]
        hook = self._hook()
        for slot in np.flatnonzero(self.ks).tolist():
            bit = np.uint64(1) << np.uint64(slot & 63)
            asked = np.flatnonzero(stray | ((self.grid.bits[cells, slot >> 6] & bit) != 0))
            if not len(asked):
                continue
            self.counts[slot, SCORED] += len(asked)
            good = self.space.good([column[asked] for column in columns], self.constants[slot])
            fits = good >= self.bars.bar[slot]
            for i, axis in enumerate(self.space.boxed):
                x = columns[axis][asked]
                fits &= (x >= self.low[slot, i]) & (x <= self.high[slot, i])
            since, since_seq = self._horizon(slot)
            fits &= (time[asked] > since) | ((time[asked] == since) & (seq[asked] >= since_seq))
            for i in np.flatnonzero(fits).tolist():
                row = asked[i]
                while hook(slot, good[i], time[row], seq[row], *self._hook_states()):
                    self._make_room(slot)

    def _visit_plainly(self, slot: int, scan: int) -> None:
        """Search by the descent in numpy, for scores that can't be compiled."""
        wanted = int(self.keep()[slot]) if scan else 0
        begin, end = self._cells_of_box(slot)
        limits = [(-np.inf, np.inf)] * self.grid.axes
        for i, axis in enumerate(self.space.boxed):
            limits[axis] = float(self.low[slot, i]), float(self.high[slot, i])
        descent = Descent(self.grid, self.space, self.constants[slot], limits, self._horizon(slot))
        descent.run(begin, end, wanted, -np.inf if scan else float(self.bars.bar[slot]))
        self.grid.adopt(slot, descent.cells(), len(self.ks))
        self.counts[slot, 0] += descent.visited
        if not scan:
            return
        self.counts[slot, 1] += 1
        self.counts[slot, SCORED] += descent.scored
        good, time, seq = descent.rows()
        self.ranked.put(slot, good, time, seq)
        self.bars.complete[slot] = len(good) < wanted
        self.bars.bar[slot] = -np.inf if len(good) < wanted else good.min()
        self.bars.note_oldest(slot, self.ranked)

    # -- answers and keeping -------------------------------------------------------------------------------

    def rows(self, horizon: Recency) -> tuple[tuple[Floats, ...], Ints, Ints]:
        return self.store.values(self.store.living(horizon))

    def values(self, seq: Ints) -> tuple[Floats, ...]:
        places = self.store.by_seq(seq)
        return super().values(seq) if places is None else self.store.values(places)[0]

    def seqs(self) -> Ints:
        return self.store.seq[self.store.living()]

    def window_size(self) -> tuple[int, int]:
        return len(self.store), self.store.bytes() + self.grid.nbytes + self.scratch.nbytes

    def dump(self) -> dict[str, Any]:
        return {**super().dump(), "bar": self.bars.bar.copy(), "complete": self.bars.complete.copy()}

    def load(self, blob: Mapping[str, Any]) -> None:
        super().load(blob)
        self._provide()
        self.bars.bar, self.bars.complete = blob["bar"].copy(), blob["complete"].copy()
        columns = tuple(blob[f"column_{i}"] for i in range(len(self.space.columns)))
        if len(blob["row_seq"]):
            self.store.add(columns, blob["row_time"], blob["row_seq"])
        self._mark_used()
        for slot in range(len(self.ks)):
            self.bars.note_oldest(slot, self.ranked)
        self._regrid()

    def _check(self) -> None:
        super()._check()
        self.store._check()
        self.grid._check()
        for slot in np.flatnonzero(self.ks).tolist():
            there = np.zeros(self.grid.total, dtype=bool)
            there[self.grid.cells_of(slot)] = True
            # every row inside the cover that is at least as good as the bar lies in a cell that names the slot
            columns = self.rows(self._horizon(slot))[0]
            places = self.store.living(self._horizon(slot))
            x = self.store.x[places]
            asked = np.all((x >= self.grid.cover_low) & (x <= self.grid.cover_high), axis=1)
            good = self.space.good(columns, self.constants[slot])
            for i, axis in enumerate(self.space.boxed):
                asked &= (columns[axis] >= self.low[slot, i]) & (columns[axis] <= self.high[slot, i])
            asked &= good >= self.bars.bar[slot]
            assert np.all(there[self.store.cell[places[asked]]])
            # no listed row is older than the slot's oldest
            span = self.ranked.span(slot)
            oldest = int(self.bars.oldest_time[slot]), int(self.bars.oldest_seq[slot])
            listed = zip(self.ranked.time[span].tolist(), self.ranked.seq[span].tolist(), strict=True)
            assert all(recency >= oldest for recency in listed)


def _wider(ends: Floats, side: float) -> Floats:
    """Move the ends of a box outward, none across zero or to infinity."""
    moved = np.where(np.sign(ends) == side, ends * 16, ends / 16)
    return np.where(np.isfinite(moved), moved, ends)
