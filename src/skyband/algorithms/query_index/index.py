"""The query index: for each cell of space the queries that a row in it may concern (Pripužić et al., section 6.1).

**Problem.** Hundreds of queries of one shape each need rows from a small part of space only, and each row matters to
few queries.

**Idea.** A query with a *bar* has a region of interest, the points whose `good` is at least the bar. Space is cut
into cells, and a cell names the queries whose region meets it. A row looks up its cell and is scored for the named
queries alone. Interval arithmetic over each cell decides which cells a region meets: so a distance, a weighted
distance, a weighted sum and any other score that `query/expression/box_bounds.py` bounds are indexed by the same few
lines.

**Cells follow the data.** The paper's grid is regular and loses its gain where data is clustered: most rows then lie
in a few cells that name most queries. Here the edges along each axis are quantiles of a sample, so all slabs hold
about the same number of rows. A coordinate finds its slab through a table of equal buckets, mostly at once: buckets and
edges are numbered by the same arithmetic, which keeps order, so only the edges of a coordinate's own bucket have to be
compared. Where buckets are narrow compared to slabs, each edge is moved to the first number of a bucket: then the
index is *sharp*, and the table alone decides.

**Fine cells.** With smaller cells fewer queries are named in vain and more rows are rejected for all queries by one
byte test, but entering a region costs more. So the caller gives the share of the rows that a region has, and the number
of cells is such that a region has a dozen or two; or fewer, if regions are entered all the time. A cell has the few
slots that it names in a short list; its bits are the complete set, for cells that name more. To enter a region, the
slabs that it lies between are found first, axis by axis; only the cells of that box are tested.

**Bars.** A region that grows (its bar falls) must be registered again before rows are looked up, or rows would be
missed. A region that shrinks need not be: a registration that is too wide costs a comparison a row, never an answer.
`bar` contains what is registered. A caller that needs a lower bar must call `register`, with `margin` below the present
need, so that calls are rare.

**Cover.** Border cells reach a little further than the sample did. A row beyond (a *stray*) is scored for every
query; when strays or scores per row become many, `due` returns True, and the index should be learnt again.

**What is kept.** A bit for each cell and query, short lists, and the edges. **Cost.** A look-up: a few operations an
axis, then a score for each query named. A registration: the range of the score over some slabs of each axis and over
the cells of the region's box.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skyband.algorithms.kernels.cell_shape import shape_for
from skyband.algorithms.query_index.loops import CROWDED, clear, kernels
from skyband.algorithms.query_index.probe import SHORT, Hits, gathering, sort_hits
from skyband.core.types import Floats, Ints
from skyband.query.expression.score_space import Space

LEAST, MOST = 64, 65536  # least and greatest number of cells
INSIDE = 16  # cells that a region should have
COARSE = 4  # the same for regions that are entered all the time
WIDE = 4096  # cells of many axes: there a region meets most of space, and entering it costs every cell
AXES = 6  # with more axes than this there are WIDE cells
MOST_BYTES = 1 << 25  # of the bits: many slots have larger cells
SAMPLE = 4096  # rows that the edges are learned from
BEYOND = 0.1  # border cells reach further than the sample by this part of half its range
FAR = 8e307  # and no further than this, so that the difference of two ends is finite
BUCKETS = 256, 4096  # of the table that leads a coordinate to its slab, at least and at most
NARROW = 6  # so many buckets to a slab, if MOST allows
WASTE = 2.0  # an index is replaced when it causes so many times its first scores per row


class QueryIndex:
    """An index of slots by cells. `per_axis` fixes the number of cells along each axis (0: chosen by the share of all
    rows that a region has, so that it has about `inside` cells)."""

    def __init__(
        self,
        space: Space,
        constants: int,
        per_axis: int = 0,
        share: float = 0.01,
        inside: int = INSIDE,
        names: int = SHORT,
    ) -> None:
        self.axes = len(space.columns)
        self.sign = space.sign
        self.per_axis = per_axis
        self.share = share
        self.inside = inside
        self.names = names
        self.kernels = kernels(space, constants)
        self._gather, self._gather_both = gathering(space, constants)
        self._room = Hits()
        self.bar = np.empty(0, dtype=np.float64)  # the registered bar; inf: none is registered
        self.used = np.zeros(1, dtype=np.uint64)
        self._pool = np.empty(0, dtype=np.uint64)
        self._lay()
        self.ready = False
        self.learned = 0  # rows that it learnt from
        self.tally = np.zeros(3, dtype=np.int64)  # rows looked up, strays and scores since it was learnt
        self.first_rate = np.inf
        self.entered = 0  # regions entered since it was learnt
        self._hits = 0

    # -- space ---------------------------------------------------------------------------------------------

    def _lay(self) -> None:
        """Allocate the cells; none of them names a slot."""
        words = len(self.used)
        if self.per_axis:
            cells = [self.per_axis] * self.axes
        else:
            wanted = min(
                max(LEAST * self.inside, int(self.inside / self.share)), MOST if self.axes <= AXES else WIDE
            )
            cells = shape_for(self.axes, max(2**self.axes, min(wanted, MOST_BYTES // (8 * words))))
        self.cells = np.array(cells, dtype=np.int64)
        self.strides = np.concatenate([[1], np.cumprod(self.cells)[:-1]]).astype(np.int64)
        self.total = int(np.prod(self.cells))
        if (
            words * self.total > self._pool.size
        ):  # kept from one index to the next, because fresh memory is slow
            self._pool = np.empty(words * self.total, dtype=np.uint64)
        self.bits = self._pool[: words * self.total].reshape(self.total, words)
        self.bits[:] = 0
        # the number of slots that a cell names, or CROWDED; one more for all that lies outside
        self.named_ = np.zeros(self.total + 1, dtype=np.uint8)
        self.short = np.zeros((self.total + 1, self.names), dtype=np.uint16)
        self.buckets = min(
            max(BUCKETS[0], 1 << (NARROW * int(self.cells.max()) - 1).bit_length()), BUCKETS[1]
        )
        # from which slab to which a slot is named
        self.box = np.zeros((len(self.bar), self.axes, 2), dtype=np.int64)

    def learn(self, columns: tuple[Floats, ...]) -> None:
        """Cut space by the quantiles of these rows. Afterwards no slot is registered."""
        self._lay()
        edges = []
        low, high = np.empty(self.axes), np.empty(self.axes)
        for axis, column in enumerate(columns):
            finite = np.isfinite(column)
            values = column if finite.all() else column[finite]
            sample = values[:: max(1, len(values) // SAMPLE)]
            wanted = np.arange(1, self.cells[axis]) / self.cells[axis]
            edges.append(np.quantile(sample, wanted) if len(sample) else np.zeros(len(wanted)))
            low[axis], high[axis] = np.min(values, initial=FAR), np.max(values, initial=-FAR)
        more = BEYOND * (high / 2 - low / 2)
        low, high = np.clip(low - more, -FAR, FAR), np.clip(high + more, -FAR, FAR)
        edges = [self._snapped(inner, low[axis], high[axis]) for axis, inner in enumerate(edges)]
        self.cut(edges, low.tolist(), high.tolist())
        self.learned = len(columns[0])

    def _scale(self, low: float, high: float) -> tuple[float, float]:
        """Return the offset and the factor by which a coordinate's bucket is numbered."""
        width = high / 2 - low / 2
        return (low, self.buckets / 2 / width) if 1e-290 < width < 1e300 else (0.0, 0.0)

    def _snapped(self, inner: Floats, low: float, high: float) -> Floats:
        """Return edges moved to the first numbers of buckets, unless many would coincide."""
        origin, scale = self._scale(float(low), float(high))
        if scale == 0.0 or not len(inner):
            return inner
        bucket = np.clip(np.rint((inner - origin) * scale), 1, self.buckets - 1)
        if np.count_nonzero(np.diff(bucket) == 0) * 8 > len(bucket):
            return inner
        first: Floats = origin + bucket / scale
        for _ in range(8):  # rounding may need more than one
            first = np.where((first - origin) * scale < bucket, np.nextafter(first, np.inf), first)
            before = np.nextafter(first, -np.inf)
            first = np.where((before - origin) * scale >= bucket, before, first)
        return first

    def cut(self, edges: list[Floats], low: list[float], high: list[float]) -> None:
        """Make cells between the given inner edges, from the lowest to the highest coordinate."""
        most = int(self.cells.max())
        self.edges = np.full((self.axes, most), np.inf)  # the lower end of each slab but the first
        self.low, self.high = np.zeros((self.axes, most)), np.zeros((self.axes, most))
        self.cover_low, self.cover_high = np.array(low, dtype=np.float64), np.array(high, dtype=np.float64)
        self.origin, self.scale = np.zeros(self.axes), np.zeros(self.axes)
        # by bucket: the edges in earlier buckets; a coordinate's slab is between that and the next entry
        self.table = np.zeros((self.axes, self.buckets + 1), dtype=np.int32)
        # what a bucket adds to a cell's number
        self.steps = np.zeros((self.axes, self.buckets), dtype=np.int32)
        self.sharp = True
        for axis in range(self.axes):
            inner = np.asarray(edges[axis], dtype=np.float64)
            count = int(self.cells[axis])
            self.edges[axis, : count - 1] = inner
            self.low[axis, :count] = np.concatenate([[low[axis]], inner])
            self.high[axis, :count] = np.concatenate([inner, [high[axis]]])
            self.origin[axis], self.scale[axis] = self._scale(low[axis], high[axis])
            bucket, before = self._bucket(inner, axis), self._bucket(np.nextafter(inner, -np.inf), axis)
            self.table[axis] = np.searchsorted(bucket, np.arange(self.buckets + 1), side="left")
            self.steps[axis] = self.table[axis, 1:] * self.strides[axis]
            self.sharp &= bool(self.scale[axis] > 0 and np.all(before < bucket))
        self.bits[:] = 0
        self.named_[:] = 0
        self.named_[-1] = CROWDED
        self.box[:] = 0
        self.used[:] = 0
        self.bar[:] = np.inf
        self.tally[:] = 0
        self.first_rate = np.inf
        self.ready = True

    def _bucket(self, values: Floats, axis: int) -> Ints:
        """Number a coordinate's bucket exactly as the kernels do."""
        with np.errstate(over="ignore"):
            bucket: Floats = np.clip((values - self.origin[axis]) * self.scale[axis], 0, self.buckets - 1)
        found: Ints = bucket.astype(np.int64)
        return found

    def due(self, there: int, share: Callable[[], float] | None = None) -> bool:
        """Whether space should be cut again, for so many rows; `share` returns the present share of rows that a region
        has:
                scores that larger regions cause are not the cells' fault."""
        rows, strays, scored = self.tally.tolist()
        if self.learned and there >= 4 * self.learned:
            return True
        if self.bits.nbytes > 2 * MOST_BYTES and self.total > 2**self.axes and not self.per_axis:
            return True
        if rows < 4 * SAMPLE:  # too few to decide, unless most were strays
            return bool(rows >= 256 and 4 * strays > rows)
        rate = scored / rows
        if self.first_rate == np.inf:
            self.first_rate = max(rate, 1.0)
        self.tally[:] = 0
        if strays * 16 > rows or rate <= WASTE * self.first_rate:
            return bool(strays * 16 > rows)
        return share is None or bool(rate > WASTE * self.first_rate * max(1.0, share() / self.share))

    # -- queries -------------------------------------------------------------------------------------------

    def provide(self, slots: int) -> None:
        """Make room for so many slots."""
        if slots > len(self.bar):
            more = slots - len(self.bar)
            self.bar = np.concatenate([self.bar, np.full(more, np.inf)])
            self.box = np.concatenate([self.box, np.zeros((more, self.axes, 2), dtype=np.int64)])
        words = (max(slots, 1) + 63) // 64
        if words > self.bits.shape[1]:
            wider = np.zeros((self.total, words), dtype=np.uint64)
            wider[:, : self.bits.shape[1]] = self.bits
            self.bits, self._pool = wider, wider.reshape(-1)
            self.used = np.concatenate([self.used, np.zeros(words - len(self.used), dtype=np.uint64)])

    def register(self, slots: Ints, bars: Floats, constants: Floats, known: bool = False) -> None:
        """Name these slots in exactly the cells where a row may be at least as good as their bars.

        known: all of them are registered already, and have bars that a row may reach.
        """
        if not known:
            self.provide(int(slots.max(initial=-1)) + 1)
            known = bool(np.all((self.bar[slots] < np.inf) & (bars < np.inf)))
        self.bar[slots] = bars
        self.entered += len(slots)
        self.kernels.reach(
            slots, self.bar, constants, self.sign, self.low, self.high, self.cells, self.strides,
            self.bits, self.named_, self.short, self.box,
        )  # fmt: skip
        if known:
            return
        there = np.zeros(64 * len(self.used), dtype=bool)
        there[: len(self.bar)] = self.bar < np.inf
        self.used = np.packbits(there, bitorder="little").view(np.uint64)

    def forget(self, slots: Ints) -> None:
        """Remove these slots from all cells; a slot that still needs rows must then be offered every row."""
        if len(slots):
            self.provide(int(slots.max()) + 1)
            clear(slots, self.bits, self.used, self.named_, self.short)
            self.box[slots] = 0
            self.bar[slots] = np.inf

    def named(self, columns: tuple[Floats, ...]) -> Ints:
        """Return how many slots each row's cell names; -1 for a stray. (For tests.)"""
        cell = np.zeros(len(columns[0]), dtype=np.int64)
        stray = np.zeros(len(columns[0]), dtype=bool)
        for axis, column in enumerate(columns):
            inner = self.edges[axis, : self.cells[axis] - 1]
            cell += np.searchsorted(inner, column, side="right") * self.strides[axis]
            stray |= ~((column >= self.cover_low[axis]) & (column <= self.cover_high[axis]))
        return np.where(stray, -1, np.bitwise_count(self.bits[cell]).sum(axis=1).astype(np.int64))

    # -- rows ----------------------------------------------------------------------------------------------

    def look_up(
        self, columns: tuple[Floats, ...], begin: int, end: int, constants: Floats, least: Floats
    ) -> tuple[Ints, Ints, Floats]:
        """Look up rows [begin, end): find the slots for which a row's score is at least `least[slot]`.

        Returns, grouped by slot and in order of rows: where each slot's stretch begins (one more than slots), then
        rows and scores of all.
        """
        room = max(1024, self._hits * 2) + 128 * len(self.used) + self.names
        parts: list[Any] = []
        progress = np.array([begin])
        while progress[0] < end:
            scratch = self._room.provide(len(least), room)
            count = self._gather(
                progress, end, *columns, *self.arrays(), constants, least, self.sign, *scratch
            )  # fmt: skip
            found = [array[:count] for array in scratch[2:]]
            parts.append(found if progress[0] == end else [array.copy() for array in found])
            room *= 2
        if len(parts) == 1:
            row, slot, value = parts[0]
        elif parts:
            row, slot, value = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        else:
            row, slot, value = np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float64)
        self._hits = len(slot)
        starts = np.empty(len(least) + 1, dtype=np.int64)
        rows, values = np.empty(len(slot), np.int64), np.empty(len(slot))
        sort_hits(len(slot), row, slot, value, least, starts, rows, values)
        return starts, rows[: starts[-1]], values[: starts[-1]]

    def look_up_both(
        self, columns: tuple[Floats, ...], constants: Floats,
        one: tuple[int, int, Floats], other: tuple[int, int, Floats],
    ) -> tuple[Any, ...]:  # fmt: skip
        """Do `look_up` for two stretches of rows by one call, each with its own `least`; return both results.

        The arrays are reused by the next call, and those of rows and scores may be longer than the result.
        """
        (begin, end, least), (begun, stop, little) = one, other
        room = max(1024, self._hits * 2) + 128 * len(self.used) + self.names
        scratch, ready = self._room.provide(len(least), room), self._room.sorted(len(least))
        progress = np.array([begin, end, begun, stop])
        found = self._gather_both(
            progress,
            *columns,
            *self.arrays(),
            constants,
            self.sign,
            *scratch,
            least,
            *ready[:3],
            little,
            *ready[3:],
        )
        if progress[0] < end or progress[2] < stop:  # there was not enough room: again with more
            return *self.look_up(columns, begin, end, constants, least), *self.look_up(
                columns, begun, stop, constants, little
            )
        self._hits = max(found)
        return ready

    def arrays(self) -> tuple[Any, ...]:
        """Return the arrays that a look-up reads, for kernels of other modules that look rows up."""
        return (
            self.origin, self.scale, self.table, self.edges, self.strides, self.cover_low, self.cover_high,
            self.sharp, self.steps, self.bits, self.named_, self.short, self.used, self.tally,
        )  # fmt: skip

    def bytes(self) -> int:
        bits = self._pool.nbytes + self.short.nbytes + self.named_.nbytes + self.box.nbytes
        return int(bits + self.edges.nbytes * 3 + 2 * self.table.nbytes)

    def _check(self, columns: tuple[Floats, ...], good: Any) -> None:
        """Check that every row which is no stray and reaches a slot's registered bar lies in a cell that names the
        slot."""
        cell = np.zeros(len(columns[0]), dtype=np.int64)
        inside = np.ones(len(columns[0]), dtype=bool)
        for axis, column in enumerate(columns):
            inner = self.edges[axis, : self.cells[axis] - 1]
            cell += np.searchsorted(inner, column, side="right") * self.strides[axis]
            inside &= (column >= self.cover_low[axis]) & (column <= self.cover_high[axis])
        # a cell's short list contains the slots of its bits
        count = np.bitwise_count(self.bits).sum(axis=1)
        assert (
            np.all((self.named_[:-1] == count) | (self.named_[:-1] == CROWDED)) and self.named_[-1] == CROWDED
        )
        if self.sharp:  # the table alone decides the cell
            buckets = [self._bucket(column[inside], axis) for axis, column in enumerate(columns)]
            alone = sum(self.steps[axis, bucket].astype(np.int64) for axis, bucket in enumerate(buckets))
            assert np.array_equal(alone, cell[inside])
        for c in np.unique(cell).tolist():
            if self.named_[c] != CROWDED:
                bits = np.flatnonzero(np.unpackbits(self.bits[c].view(np.uint8), bitorder="little"))
                assert sorted(self.short[c, : self.named_[c]].tolist()) == bits.tolist()
        for slot in np.flatnonzero(self.bar < np.inf).tolist():
            bit = np.uint64(1) << np.uint64(slot & 63)
            named = (self.bits[cell, slot >> 6] & bit) != 0
            assert np.all(named | ~inside | ~(good(slot) >= self.bar[slot]))
