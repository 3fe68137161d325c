"""The query index: for each cell of space the queries that a row in it may concern (Pripužić et al., section 6.1).

**Problem.** Hundreds of queries of one shape each care for a small part of space only, and each row for a few
queries.

**Idea.** A query with a *bar* has a region of interest, the points whose `good` is at least the bar. Space is cut
into cells, and a cell names the queries whose region meets it. A row looks its cell up and is scored for those
queries alone. Which cells a region meets is told by the range of the score over each cell, by interval arithmetic: so
a distance, a weighted distance, a weighted sum and any other score that `query/boxes.py` bounds are indexed by the
same few lines.

**Cells follow the data.** The paper's grid is regular and loses its gain where data is clustered: most rows then lie
in a few cells that name most queries. Here the edges along each axis are quantiles of a sample, so each slab holds
about as many rows as any other. A coordinate finds its slab through a table of equal buckets, and a step or two from
there.

**Bars.** A region that grows (its bar falls) has to be registered anew before rows are looked up, or some would be
missed. One that shrinks need not be: what is registered too widely costs a comparison a row, and never an answer.
`bar` says what is registered; whoever needs less than that must say so with `register`, with `margin` below what is
needed now, so that it doesn't have to be said often.

**Cover.** Border cells reach a little further than the sample did. A row beyond (a *stray*) is looked at for every
query; when strays or scores a row become many, `due` asks for a new index.

**What is kept.** A bit for each cell and query, and the edges. **Cost.** A look-up: a few operations an axis, then a
score for each query named. A registration: the range of the score over every cell.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from skyband.jit import Kernel, generated, kernel
from skyband.order import Floats, Ints
from skyband.query.boxes import OPERATIONS, render_bounds
from skyband.query.space import Space
from skyband.structures.grid import shape_for

TOTAL = 4096  # cells
SAMPLE = 4096  # rows that the edges are learned from
BEYOND = 0.1  # border cells reach further than the sample by this part of half its range
FAR = 8e307  # and no further than this: the difference of two ends is a number
BUCKETS = 1024  # of the table that leads a coordinate to its slab
WASTE = 2.0  # so many times the scores a row that an index began with, and it is made anew

Words = npt.NDArray[np.uint64]


class QueryIndex:
    """Which slots a row concerns; `per_axis` fixes the number of cells along each axis (0: chosen)."""

    def __init__(self, space: Space, constants: int, per_axis: int = 0) -> None:
        self.axes = len(space.columns)
        self.sign = space.sign
        cells = [per_axis] * self.axes if per_axis else shape_for(self.axes, TOTAL if self.axes > 1 else 256)
        self.cells = np.array(cells, dtype=np.int64)
        self.strides = np.concatenate([[1], np.cumprod(self.cells)[:-1]]).astype(np.int64)
        self.total = int(np.prod(self.cells))
        self.kernels = kernels(space, constants)
        self.bar = np.empty(0, dtype=np.float64)  # what is registered; inf: nothing is
        self.bits = np.zeros((self.total, 1), dtype=np.uint64)
        self.used = np.zeros(1, dtype=np.uint64)
        self.some = np.zeros(self.total, dtype=np.uint8)  # whether a cell names anybody
        self.ready = False
        self.learned = 0  # rows that it learned from
        self.tally = np.zeros(3, dtype=np.int64)  # rows looked up, strays, scores, since it was made
        self.first_rate = np.inf
        self._hits = 0

    # -- space ---------------------------------------------------------------------------------------------

    def learn(self, columns: tuple[Floats, ...]) -> None:
        """Cut space by the quantiles of these rows. Nothing is registered afterwards."""
        edges = []
        for axis, column in enumerate(columns):
            values = column[np.isfinite(column)]
            sample = values[:: max(1, len(values) // SAMPLE)]
            wanted = np.arange(1, self.cells[axis]) / self.cells[axis]
            edges.append(np.quantile(sample, wanted) if len(sample) else np.zeros(len(wanted)))
        low = np.array([np.min(c, initial=FAR, where=np.isfinite(c)) for c in columns], dtype=np.float64)
        high = np.array([np.max(c, initial=-FAR, where=np.isfinite(c)) for c in columns], dtype=np.float64)
        more = BEYOND * (high / 2 - low / 2)
        self.cut(edges, np.clip(low - more, -FAR, FAR).tolist(), np.clip(high + more, -FAR, FAR).tolist())
        self.learned = len(columns[0])

    def cut(self, edges: list[Floats], low: list[float], high: list[float]) -> None:
        """Cells between the given inner edges, from the lowest to the highest coordinate."""
        most = int(self.cells.max())
        self.edges = np.full((self.axes, most), np.inf)  # the lower end of each slab but the first
        self.low, self.high = np.zeros((self.axes, most)), np.zeros((self.axes, most))
        self.cover_low, self.cover_high = np.array(low, dtype=np.float64), np.array(high, dtype=np.float64)
        self.origin, self.scale = np.zeros(self.axes), np.zeros(self.axes)
        self.table = np.zeros((self.axes, BUCKETS), dtype=np.int32)
        for axis in range(self.axes):
            inner = np.asarray(edges[axis], dtype=np.float64)
            count = int(self.cells[axis])
            self.edges[axis, : count - 1] = inner
            self.low[axis, :count] = np.concatenate([[low[axis]], inner])
            self.high[axis, :count] = np.concatenate([inner, [high[axis]]])
            width = high[axis] / 2 - low[axis] / 2
            if 1e-290 < width < 1e300:
                self.origin[axis], self.scale[axis] = low[axis], BUCKETS / 2 / width
                # a bucket's least slab: never beyond the slab of any coordinate in it, whatever the rounding
                begins = low[axis] + (np.arange(BUCKETS) - 1) / self.scale[axis]
                self.table[axis] = np.searchsorted(inner, begins, side="left")
        self.bits[:] = 0
        self.some[:] = 0
        self.used[:] = 0
        self.bar[:] = np.inf
        self.tally[:] = 0
        self.first_rate = np.inf
        self.ready = True

    def due(self, there: int) -> bool:
        """Whether space should be cut anew, if so many rows are there."""
        rows, strays, scored = self.tally.tolist()
        if self.learned and there >= 4 * self.learned:
            return True
        if rows < 4 * SAMPLE:  # too few to judge by, unless most were strays
            return bool(rows >= 256 and 4 * strays > rows)
        rate = scored / rows
        if self.first_rate == np.inf:
            self.first_rate = max(rate, 1.0)
        self.tally[:] = 0
        return bool(strays * 16 > rows or rate > WASTE * self.first_rate)

    # -- queries -------------------------------------------------------------------------------------------

    def provide(self, slots: int) -> None:
        """Room for so many slots."""
        if slots > len(self.bar):
            self.bar = np.concatenate([self.bar, np.full(slots - len(self.bar), np.inf)])
        words = (max(slots, 1) + 63) // 64
        if words > self.bits.shape[1]:
            wider = np.zeros((self.total, words), dtype=np.uint64)
            wider[:, : self.bits.shape[1]] = self.bits
            self.bits = wider
            self.used = np.concatenate([self.used, np.zeros(words - len(self.used), dtype=np.uint64)])

    def register(self, slots: Ints, bars: Floats, constants: Floats) -> None:
        """Name these slots in the cells where a row may be at least as good as their bars, and in no others."""
        self.provide(int(slots.max(initial=-1)) + 1)
        self.bar[slots] = bars
        self.kernels.reach(
            slots, self.bar, constants, self.sign, self.low, self.high, self.cells, self.bits
        )  # fmt: skip
        self.some[:] = self.bits.any(axis=1)
        there = np.zeros(64 * len(self.used), dtype=bool)
        there[: len(self.bar)] = self.bar < np.inf
        self.used = np.packbits(there, bitorder="little").view(np.uint64)

    def forget(self, slots: Ints) -> None:
        """No row concerns these slots any more: whoever still wants rows for them asks for all."""
        if len(slots):
            self.provide(int(slots.max()) + 1)
            clear(slots, self.bits, self.used)
            self.bar[slots] = np.inf

    def named(self, columns: tuple[Floats, ...]) -> Ints:
        """How many slots each row's cell names; -1 for a stray. (For tests.)"""
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
    ) -> tuple[Ints, Ints, Ints, Floats]:
        """Rows [begin, end) meet the index: who is concerned with a score of at least `least[slot]`.

        Returns, grouped by slot and in order of rows: where each slot's stretch begins (one more than slots), then
        slots, rows and scores of all.
        """
        room = max(1024, self._hits * 2, 128 * len(self.used))
        parts: list[Any] = []
        row = begin
        while row < end:
            out = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.float64)
            row, count = self.kernels.gather(
                row, end, *columns, self.origin, self.scale, self.table, self.edges, self.cells, self.strides,
                self.cover_low, self.cover_high, self.bits, self.some, self.used, constants, least, self.sign,
                self.tally, *out,
            )  # fmt: skip
            parts.append([array[:count] for array in out])
            room *= 2
        if len(parts) == 1:
            slot, rows, value = parts[0]
        elif parts:
            slot, rows, value = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        else:
            slot, rows, value = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64)
        self._hits = len(slot)
        starts = np.empty(len(self.bar) + 1, dtype=np.int64)
        grouped = np.empty(len(slot), np.int64), np.empty(len(slot), np.int64), np.empty(len(slot))
        group(slot, rows, value, starts, *grouped)
        return starts, *grouped

    def bytes(self) -> int:
        return int(self.bits.nbytes + self.edges.nbytes * 3 + self.table.nbytes)

    def _check(self, columns: tuple[Floats, ...], good: Any) -> None:
        """Every row that is no stray and at least as good as a slot's registered bar lies in a cell that names it."""
        cell = np.zeros(len(columns[0]), dtype=np.int64)
        inside = np.ones(len(columns[0]), dtype=bool)
        for axis, column in enumerate(columns):
            inner = self.edges[axis, : self.cells[axis] - 1]
            cell += np.searchsorted(inner, column, side="right") * self.strides[axis]
            inside &= (column >= self.cover_low[axis]) & (column <= self.cover_high[axis])
        for slot in np.flatnonzero(self.bar < np.inf).tolist():
            bit = np.uint64(1) << np.uint64(slot & 63)
            named = (self.bits[cell, slot >> 6] & bit) != 0
            assert np.all(named | ~inside | ~(good(slot) >= self.bar[slot]))


@kernel
def clear(slots: Ints, bits: Words, used: Words) -> None:
    """Take slots out of every cell."""
    for i in range(slots.shape[0]):
        word = slots[i] >> 6
        bit = np.uint64(1) << np.uint64(slots[i] & 63)
        if used[word] & bit:
            used[word] ^= bit
            for cell in range(bits.shape[0]):
                bits[cell, word] &= ~bit


@kernel
def group(
    slot: Ints, rows: Ints, value: Floats, starts: Ints, out_slot: Ints, out_rows: Ints, out_value: Floats
) -> None:
    """Sort hits by slot, keeping the order of rows."""
    for s in range(starts.shape[0]):
        starts[s] = 0
    for i in range(slot.shape[0]):
        starts[slot[i] + 1] += 1
    for s in range(1, starts.shape[0]):
        starts[s] += starts[s - 1]
    for i in range(slot.shape[0]):
        at = starts[slot[i]]
        starts[slot[i]] = at + 1
        out_slot[at] = slot[i]
        out_rows[at] = rows[i]
        out_value[at] = value[i]
    for s in range(starts.shape[0] - 1, 0, -1):
        starts[s] = starts[s - 1]
    starts[0] = 0


# -- the text: made from the expression tree, never from what a user typed ------------------------------------

_TEXT = '''"""Generated by skyband.structures.query_index: look-ups for one shape of score."""
from math import frexp, sqrt
import numpy as np
from skyband.jit import kernel
from skyband.order import first_inside
from skyband.structures.spans import {operations}
from skyband.structures.visit import finish, hold

@kernel
def gather(begin, end, {columns}, origin, scale, table, edges, cells, strides, cover_low, cover_high, bits, some,
           used, constants, least, sign, tally, out_slot, out_row, out_value):
    one, zero = np.uint64(1), np.uint64(0)
    words = bits.shape[1]
    room = out_slot.shape[0] - 64 * words
    buckets = table.shape[1]
    count, scored, strays = 0, 0, 0
    row = begin
    while row < end and count <= room:
        c = 0
        stray = False
{find}
        if some[c] == 0 and not stray:
            row += 1
            continue
        for w in range(words):
            b = used[w] if stray else bits[c, w]
            while b != zero:
                low = b ^ (b & (b - one))
                b ^= low
                slot = (w << 6) + frexp(float(low))[1] - 1
{constants}
                value = sign * ({score})
                scored += 1
                if value >= least[slot]:
                    out_slot[count] = slot
                    out_row[count] = row
                    out_value[count] = value
                    count += 1
        if stray:
            strays += 1
        row += 1
    tally[0] += row - begin
    tally[1] += strays
    tally[2] += scored
    return row, count

@kernel
def reach(slots, bar, constants, sign, low, high, cells, bits):
    axes = cells.shape[0]
    at = np.empty(axes, np.int64)
    for i in range(slots.shape[0]):
        slot = slots[i]
        word = slot >> 6
        bit = np.uint64(1) << np.uint64(slot & 63)
{constants8}
        for axis in range(axes):
            at[axis] = 0
        for c in range(bits.shape[0]):
{ends}
{bounds}
            bound = {high} if sign > 0 else -({low})
            if bound < bar[slot]:
                bits[c, word] &= ~bit
            else:
                bits[c, word] |= bit
            axis = 0
            while axis < axes:
                at[axis] += 1
                if at[axis] < cells[axis]:
                    break
                at[axis] = 0
                axis += 1

@kernel
def matrix(slots, begin, end, {columns}, constants, sign, out):
    for i in range(slots.shape[0]):
        slot = slots[i]
{constants8}
        for row in range(end - begin):
{loads}
            out[i, row] = sign * ({score})

@kernel
def search(todo, keep, begin, end, {columns}, constants, sign, times, seqs, horizon_time, horizon_seq,
           held_good, held_place, good, time, seq, start, size, bar, complete, oldest_time, oldest_seq, counts):
    block = np.empty(64, np.float64)
    for i in range(todo.shape[0]):
        slot = todo[i]
        wanted = keep[slot]
        first = first_inside(times, seqs, begin, end, horizon_time[slot], horizon_seq[slot])
        found = 0
        floor = -np.inf
{constants8}
        for b in range((end - first + 63) // 64):
            base = first + b * 64
            stop = min(end - base, 64)
            hit = False
            for j in range(stop):
                row = base + j
{loads_search}
                value = sign * ({score})
                block[j] = value
                hit |= value >= floor
            if not hit:
                continue
            for j in range(stop):
                if block[j] >= floor:
                    found = hold(block[j], base + j, found, wanted, held_good, held_place, times, seqs)
                    if found == wanted:
                        floor = held_good[0]
        counts[slot, 0] += end - first
        counts[slot, 1] += 1
        finish(slot, found, wanted, floor, held_good, held_place, times, seqs, good, time, seq, start, size,
               bar, complete, oldest_time, oldest_seq)
'''

_FIND = """        x{j} = X{j}[row]
        if x{j} >= cover_low[{j}] and x{j} <= cover_high[{j}]:
            at = int((x{j} - origin[{j}]) * scale[{j}])
            at = table[{j}, at if at < buckets else buckets - 1]
            while x{j} >= edges[{j}, at] and at < cells[{j}] - 1:
                at += 1
            c += at * strides[{j}]
        else:
            stray = True
"""


class Kernels(NamedTuple):
    """What is generated for one shape of score."""

    gather: Kernel  # rows to the slots that their cells name
    reach: Kernel  # slots into the cells that their regions meet
    matrix: Kernel  # scores of rows, a line for each slot
    search: Kernel  # the best of stored rows into the slots' lists


@lru_cache(maxsize=256)
def _kernels(shape: Any, columns: tuple[str, ...], score: str, constants: int) -> Kernels:
    written = render_bounds(shape, columns)
    assert written is not None
    lines, low, high = written
    axes = range(len(columns))

    def scalars(text: str) -> str:
        for i in reversed(range(constants)):
            text = text.replace(f"p[{i}]", f"p{i}")
        return text

    def load(indent: int) -> str:
        return "\n".join(" " * indent + f"p{i} = constants[slot, {i}]" for i in range(constants))

    made = generated(
        _TEXT.format(
            operations=", ".join(OPERATIONS),
            columns=", ".join(f"X{j}" for j in axes),
            find="".join(_FIND.format(j=j) for j in axes),
            constants=load(16),
            constants8=load(8),
            score=scalars(score),
            ends="\n".join(f"{' ' * 12}l{j} = low[{j}, at[{j}]]\n{' ' * 12}h{j} = high[{j}, at[{j}]]" for j in axes),
            bounds="\n".join("            " + scalars(line) for line in lines),
            low=scalars(low),
            high=scalars(high),
            loads_search="\n".join(f"                x{j} = X{j}[row]" for j in axes),
            loads="\n".join(f"            x{j} = X{j}[begin + row]" for j in axes),
        )
    )  # fmt: skip
    return Kernels(made.gather, made.reach, made.matrix, made.search)


def kernels(space: Space, constants: int) -> Kernels:
    """The generated kernels of a space; `indexable` says whether there are any."""
    score = space.rendered
    assert score is not None
    return _kernels(space.shape, space.columns, score, constants)


def indexable(space: Space) -> bool:
    """Whether rows of this space can be looked up: a score over at least one column that compiles."""
    return bool(space.columns) and not space.boxed and space.rendered is not None
