"""Which cells of space matter to any query: a filter for the queries of a family, whatever the form of their score.

**Problem.** Hundreds of queries (points and their nearest rows, say) each have a *region of interest*: the points whose
score reaches the query's bar. Most rows lie in no region, but finding that out takes a score for each query. Where
scores are monotone one look-up in a height map (maps.py) suffices; for a distance there is no height map.

**Idea.** Cut space into cells, some dozens to a region, and keep one bit for each: whether any query's region meets it.
A row reads its cell's bit. Unlike in the query index (query_index/index.py) the bit does not name queries. So there can
be millions of cells for any number of queries, and a filter that only rejects rows needs no more.

**Slabs follow the data.** Along each axis the edges are quantiles of a sample, moved to the edges of equal *buckets*: a
coordinate's bucket is one multiplication, and a table maps it to its slab. Where rows are dense there are more buckets,
and more cells. Coordinates below or above the slabs have a slab of their own, whose bits are set: such rows pass, and
so does a NaN.

**Safe.** `(x - origin) * scale`, each step rounded, keeps the order of numbers: a bucket is a range of them. Its ends
are computed by the inverse formula and moved outward by several roundings, so computation in float64 puts no number
into a slab that isn't inside the slab's ends. The range of a score in a box is computed by interval arithmetic
(query/expression/box_bounds.py), for every operation that it knows, logarithms and powers included.

**Regions are entered from above.** Space is halved along every axis, again and again; only boxes whose bounds reach the
bar are divided further, for all queries at once in numpy. A box that lies entirely in some query's region is finished
for all queries. If the boxes become too many, as with large regions, the cells stay larger.

**What is kept.** A bit for each cell (about 2 MB at most), and a table for each axis. **Cost.** A look-up: a
multiplication and a table an axis, then a word. Entering a thousand points: 20 ms on a plane, 0.4 s in three
dimensions, 0.9 s in four.

**Wrong when** rows are clustered in three or more dimensions: slabs cut all of space, also where no rows are, so
most rows lie in few cells. Or when the queries are so many that their regions cover most rows.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.compiling.jit import kernel
from skyband.core.types import Floats, Ints
from skyband.query.expression.box_bounds import bounds
from skyband.query.expression.score_space import Space

CELLS = 1 << 20, 1 << 24  # enough for one or two axes, unless rows are clustered; most
SLABS = 4096  # along an axis, at most
AXES = 6  # with more, cells are too large to reject rows
BUCKETS = 4096, 65536  # along an axis: at first, and at most
TRIMMED = 1 / 2048  # the share of the sample at either end that the slabs need not cover
BEYOND = 0.05  # the share of the remaining range by which slabs reach further
FAR = 1e290  # values beyond this are outside
PAIRS = 1 << 22  # most pairs of query and box at one level
_CHUNK = 1 << 16  # pairs tested at once
_OWN = 0.9  # rows are not clustered if this share of the sample has cells of their own
_EVEN = 2.0  # cells are replaced when rows are so many times less evenly spread over the slabs
_ROUNDED = 2.0**-49  # more than all roundings of a bucket's number and of its ends
_STRAYS = 1 / 128  # or when this share of a sample is outside

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Axis:
    """The slabs along an axis, the first and the last of which have no end."""

    origin: float
    scale: float
    last: int  # the bucket of values above all slabs; 0 is that of values below
    slab: npt.NDArray[np.int32]  # by bucket
    low: Floats  # ends of the slabs but the first and the last, moved outward
    high: Floats
    strays: float = 0.0  # the share of the sample that lies outside
    uneven: float = 1.0  # how unevenly the rest is spread; 1: evenly

    @classmethod
    def of(cls, values: Floats, slabs: int) -> Axis | None:
        """Return about so many slabs for these values; None if there are no values."""
        finite = np.sort(values[np.abs(values) < FAR])
        if not len(finite):
            return None
        off = int(TRIMMED * len(finite))
        low, high = float(finite[off]), float(finite[-1 - off])
        more = max(BEYOND * (high - low), 1e-9 * max(abs(low), abs(high)), 1e-280)
        low, high = low - more, high + more
        inner = np.unique(finite[np.arange(1, slabs) * len(finite) // slabs])
        count = BUCKETS[0]
        while True:
            scale = count / (high - low)
            origin = low - 1 / scale
            edges = np.unique(np.clip((inner - origin) * scale, 1, count + 1).astype(np.int64))
            edges = edges[(edges > 1) & (edges <= count)]
            if 8 * len(edges) >= 7 * (len(inner) - 1) or count >= BUCKETS[1]:
                break
            count *= 4
        ends = np.concatenate([[1], edges, [count + 1]])
        at = ends / scale
        off_by = _ROUNDED * (abs(origin) + at)
        slab = np.searchsorted(ends, np.arange(count + 2), side="right").astype(np.int32)
        low_ends, high_ends = (origin + at - off_by)[:-1], (origin + at + off_by)[1:]
        found = cls(origin, scale, count + 1, slab, low_ends, high_ends)
        strays, uneven = found.spread(values)
        return replace(found, strays=strays, uneven=uneven)

    def __len__(self) -> int:
        return len(self.low) + 2

    def places(self, values: Floats) -> npt.NDArray[np.int32]:
        """Return the slab of each number."""
        with np.errstate(all="ignore"):
            bucket = np.clip((values - self.origin) * self.scale, 0.0, float(self.last))
        return self.slab[np.where(np.isnan(bucket), self.last, bucket).astype(np.int64)]

    def spread(self, values: Floats) -> tuple[float, float]:
        """Return the share of these values that lies outside, and how unevenly the rest is spread over the slabs."""
        counts = np.bincount(self.places(values), minlength=len(self))
        inside = counts[1:-1] / max(len(values), 1)
        return float(1 - inside.sum()), float(len(inside) * np.sum(inside**2))


class Cells:
    """The bits of a family's cells, cut by a sample of rows."""

    def __init__(self, space: Space, axes: list[Axis]) -> None:
        self.space, self.axes = space, axes
        first = len(axes[0])
        self.width = (first + 31) // 32  # words of the bits along the first axis
        strides = np.cumprod([self.width, *(len(axis) for axis in axes[1:])])
        self.last = np.array([axis.last for axis in axes], dtype=np.float64)
        self.origin, self.scale = (np.array([getattr(a, name) for a in axes]) for name in ("origin", "scale"))
        # by bucket: its share of a word's index; and along the first axis, its bit in that word
        self.steps = np.zeros((len(axes), int(self.last.max()) + 1), dtype=np.int32)
        for number, axis in enumerate(axes):
            stride = 0 if number == 0 else int(strides[number - 1])
            self.steps[number, : axis.last + 1] = axis.slab * stride if number else axis.slab >> 5
        self.bit = np.left_shift(np.uint32(1), axes[0].slab.astype(np.uint32) & np.uint32(31))
        self.words = np.full(int(strides[-1]), 0xFFFFFFFF, dtype=np.uint32)

    @classmethod
    def learned(cls, space: Space, columns: tuple[Floats, ...]) -> Cells | None:
        """Return cells for rows like these; None where there can't be any."""
        if not 0 < len(columns) <= AXES:
            return None
        found = cls._cut(space, columns, CELLS[0]) if len(columns) < 3 else None
        return found if found is not None and found._apart(columns) else cls._cut(space, columns, CELLS[1])

    @classmethod
    def _cut(cls, space: Space, columns: tuple[Floats, ...], most: int) -> Cells | None:
        slabs = min(SLABS, round(most ** (1 / len(columns)))) - 2  # plus two that have no end
        axes = [Axis.of(column, slabs) for column in columns]
        known = [axis for axis in axes if axis is not None]
        return cls(space, known) if len(known) == len(axes) else None

    def _apart(self, columns: tuple[Floats, ...]) -> bool:
        """Whether nearly all rows of a sample lie in cells of their own."""
        at = [axis.places(column) for axis, column in zip(self.axes, columns, strict=True)]
        own = len(np.unique(np.ravel_multi_index(at, [len(axis) for axis in self.axes])))
        return own >= _OWN * len(columns[0])

    def fit(self, columns: tuple[Floats, ...]) -> bool:
        """Whether these rows are spread over the cells about as evenly as those that they were cut by."""
        spreads = [axis.spread(column) for axis, column in zip(self.axes, columns, strict=True)]
        return all(
            strays <= axis.strays + _STRAYS and uneven <= _EVEN * axis.uneven
            for axis, (strays, uneven) in zip(self.axes, spreads, strict=True)
        )

    def entered(self, slots: Ints, bars: Floats, constants: Floats) -> Cells:
        """Return the same cells with exactly the bits set where a row may be at least as good as the bar of one of
        these slots."""
        sizes = [len(axis) - 2 for axis in self.axes]
        level = max(size - 1 for size in sizes).bit_length()
        slot = np.asarray(slots, dtype=np.int64)
        at = np.zeros((len(sizes), len(slot)), dtype=np.int64)  # the box of each pair, in boxes of this level
        met = np.zeros(_counts(sizes, level), dtype=bool)
        while True:
            hit, sure = self._tested(slot, at, level, bars, constants)
            met.reshape(-1)[_flat(at[:, sure], met.shape)] = True
            slot, at = slot[hit], at[:, hit]
            if level == 0 or len(slot) << len(sizes) > PAIRS:
                met.reshape(-1)[_flat(at, met.shape)] = True
                break
            open_ = ~met.reshape(-1)[_flat(at, met.shape)]
            level -= 1
            met = _finer(met, _counts(sizes, level))
            slot, at = _halved(slot[open_], at[:, open_], sizes, level)
        for lower in range(level - 1, -1, -1):
            met = _finer(met, _counts(sizes, lower))
        found = copy(self)
        found.words = self._written(met)
        return found

    def _tested(
        self, slot: Ints, at: Ints, level: int, bars: Floats, constants: Floats
    ) -> tuple[Bools, Bools]:
        """Return for pairs of a slot and a box whether the slot's region may meet the box, and whether it contains
        it."""
        hit, sure = np.empty(len(slot), dtype=bool), np.empty(len(slot), dtype=bool)
        space = self.space
        for first in range(0, len(slot), _CHUNK):
            part = slice(first, first + _CHUNK)
            boxes = {}
            for number, (name, axis) in enumerate(zip(space.columns, self.axes, strict=True)):
                begin = at[number, part] << level
                end = np.minimum(begin + (1 << level), len(axis) - 2) - 1
                boxes[name] = axis.low[begin], axis.high[end]
            mine = slot[part]
            low, high = bounds(space.shape, boxes, [constants[mine, i] for i in range(constants.shape[1])])
            if space.sign < 0:
                low, high = np.negative(high), np.negative(low)
            hit[part], sure[part] = ~(high < bars[mine]), low >= bars[mine]
        return hit, sure & hit

    def _written(self, met: Bools) -> Any:
        """Return the bits of all cells; those of the outermost slabs are set."""
        shape = [len(axis) for axis in self.axes]
        # the first axis is the last of the array
        every = np.ones([*shape[:0:-1], 32 * self.width], dtype=bool)
        inner = tuple(slice(1, size - 1) for size in shape[::-1])
        every[inner] = met.transpose()
        return np.packbits(every, bitorder="little").view("<u4").astype(np.uint32)

    def passing(self, columns: tuple[Floats, ...]) -> Ints:
        """Return the places of rows whose cell matters to any query, or that lie outside."""
        out = np.empty(len(columns[0]), dtype=np.int64)
        return out[
            : look_up(columns, self.origin, self.scale, self.last, self.steps, self.bit, self.words, out)
        ]


def _counts(sizes: list[int], level: int) -> tuple[int, ...]:
    """Return the number of boxes of a level along each axis."""
    return tuple(-(-size >> level) for size in sizes)


def _flat(at: Ints, shape: tuple[int, ...]) -> Any:
    return np.ravel_multi_index(tuple(at), shape)


def _finer(met: Bools, shape: tuple[int, ...]) -> Bools:
    """Return the same bits for boxes of half the size along every axis."""
    for axis, size in enumerate(shape):
        met = np.repeat(met, 2, axis=axis)[(slice(None),) * axis + (slice(size),)]
    return np.ascontiguousarray(met)


def _halved(slot: Ints, at: Ints, sizes: list[int], level: int) -> tuple[Ints, Ints]:
    """Return each box's halves along every axis, where there are two."""
    slots, places = [], []
    counts = _counts(sizes, level)
    for upper in product((0, 1), repeat=len(sizes)):
        half = 2 * at + np.array(upper)[:, None]
        there = np.logical_and.reduce([row < count for row, count in zip(half, counts, strict=True)])
        slots.append(slot[there])
        places.append(half[:, there])
    return np.concatenate(slots), np.concatenate(places, axis=1)


@kernel
def look_up(
    columns: tuple[Floats, ...], origin: Floats, scale: Floats, last: Floats, steps: Any, bit: Any, words: Any,
    out: Ints,
) -> int:  # fmt: skip
    """Write the places of the rows whose cells have their bits set; return how many."""
    found = 0
    for i in range(out.shape[0]):
        at = np.int64(0)
        mine = np.int64(0)
        for axis in range(origin.shape[0]):
            u = (columns[axis][i] - origin[axis]) * scale[axis]
            u = u if u < last[axis] else last[axis]  # a NaN counts as beyond
            u = u if u > 0.0 else 0.0
            bucket = np.int64(u)
            mine = bucket if axis == 0 else mine
            at += steps[axis, bucket]
        if words[at] & bit[mine]:
            out[found] = i
            found += 1
    return found
