"""Which cells of space concern anybody: a gate for the queries of a family, whatever the form of their score.

**Problem.** Hundreds of queries (points and their nearest rows, say) each have a *region of interest*: the points whose
score reaches the query's bar. Most rows lie in no region, and to find that out takes a score for each query. Where
scores are monotone a height map (maps.py) tells it with one look-up; a distance has none.

**Idea.** Cut space into cells, of which a region has some dozens, and keep one bit for each: whether somebody's region
meets it. A row looks its bit up. Unlike the query index (query_index/index.py) the bit doesn't say whose region it
is: so there can be millions of cells however many the queries are, and whoever only rejects rows needs no more.

**Slabs follow the data.** Along each axis the edges are quantiles of a sample, moved to the edges of equal *buckets*: a
coordinate's bucket is one multiplication, and a table leads from there to its slab. Where rows crowd together there
are more buckets, and more cells. All that lies below or above the slabs has a slab of its own, whose bits are set:
such rows pass, and so does a NaN.

**Safe.** `(x - origin) * scale`, each step rounded, keeps the order of numbers: a bucket is a stretch of them. Its ends
are told by the same formula turned round and moved outward by several roundings, so whoever computes in float64
puts no number into a slab that isn't inside the slab's ends. What a score may be in a box is told by interval
arithmetic (query/expression/box_bounds.py), for everything that it knows, logarithms and powers included.

**Regions are entered from above.** All of space is halved along every axis, again and again; only boxes are gone on
with whose bounds reach the bar, for all queries at once in numpy. Boxes that lie in somebody's region altogether are
settled for everybody. If the boxes become too many, as with large regions, the cells stay larger.

**What is kept.** A bit for each cell (about 2 MB at most), and a table for each axis. **Cost.** A look-up: a
multiplication and a table an axis, then a word. To enter a thousand points: 20 ms on a plane, 0.4 s in three
dimensions, 0.9 s in four.

**Wrong when** rows crowd together in three or more dimensions: slabs cut all of space, also where no rows are, so
that most rows lie in few cells. Or when the queries are so many that their regions cover most rows.
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

CELLS = 1 << 20, 1 << 24  # as many as do for one or two axes, unless rows crowd together; at most
SLABS = 4096  # along an axis, at most
AXES = 6  # beyond so many, cells are too large to tell anything
BUCKETS = 4096, 65536  # along an axis: at first, and at most
TRIMMED = 1 / 2048  # of the sample at either end, which doesn't decide how far the slabs go
BEYOND = 0.05  # of the range of the rest, by which they go further
FAR = 1e290  # values beyond this are outside
PAIRS = 1 << 22  # of queries and boxes, at one level
_CHUNK = 1 << 16  # of them at once
_OWN = 0.9  # of the sample's rows in cells of their own: they don't crowd
_EVEN = 2.0  # so many times less evenly spread over the slabs, and they are cut anew
_ROUNDED = 2.0**-49  # more than what all roundings of a bucket's number and of its ends come to
_STRAYS = 1 / 128  # of a sample outside, and they are cut anew

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Axis:
    """The slabs along an axis, the first and the last of which have no end."""

    origin: float
    scale: float
    last: int  # bucket, of those above all slabs; 0 are those below
    slab: npt.NDArray[np.int32]  # by bucket
    low: Floats  # ends of the slabs but the first and the last, moved outward
    high: Floats
    strays: float = 0.0  # what part of the sample lies outside
    uneven: float = 1.0  # and how unevenly the rest is spread; 1: not at all

    @classmethod
    def of(cls, values: Floats, slabs: int) -> Axis | None:
        """About so many slabs for these values; None if there are none."""
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
        """The slab of each number."""
        with np.errstate(all="ignore"):
            bucket = np.clip((values - self.origin) * self.scale, 0.0, float(self.last))
        return self.slab[np.where(np.isnan(bucket), self.last, bucket).astype(np.int64)]

    def spread(self, values: Floats) -> tuple[float, float]:
        """What part of these values lies outside, and how unevenly they are spread over the slabs."""
        counts = np.bincount(self.places(values), minlength=len(self))
        inside = counts[1:-1] / max(len(values), 1)
        return float(1 - inside.sum()), float(len(inside) * np.sum(inside**2))


class Cells:
    """The bits of a family's cells, cut by a sample of rows."""

    def __init__(self, space: Space, axes: list[Axis]) -> None:
        self.space, self.axes = space, axes
        first = len(axes[0])
        self.width = (first + 31) // 32  # words in which the bits along the first axis are
        strides = np.cumprod([self.width, *(len(axis) for axis in axes[1:])])
        self.last = np.array([axis.last for axis in axes], dtype=np.float64)
        self.origin, self.scale = (np.array([getattr(a, name) for a in axes]) for name in ("origin", "scale"))
        # by bucket: what it adds to a word's place; and along the first axis, which bit it is of that word
        self.steps = np.zeros((len(axes), int(self.last.max()) + 1), dtype=np.int32)
        for number, axis in enumerate(axes):
            stride = 0 if number == 0 else int(strides[number - 1])
            self.steps[number, : axis.last + 1] = axis.slab * stride if number else axis.slab >> 5
        self.bit = np.left_shift(np.uint32(1), axes[0].slab.astype(np.uint32) & np.uint32(31))
        self.words = np.full(int(strides[-1]), 0xFFFFFFFF, dtype=np.uint32)

    @classmethod
    def learned(cls, space: Space, columns: tuple[Floats, ...]) -> Cells | None:
        """Cells for rows like these; None where there can't be any."""
        if not 0 < len(columns) <= AXES:
            return None
        found = cls._cut(space, columns, CELLS[0]) if len(columns) < 3 else None
        return found if found is not None and found._apart(columns) else cls._cut(space, columns, CELLS[1])

    @classmethod
    def _cut(cls, space: Space, columns: tuple[Floats, ...], most: int) -> Cells | None:
        slabs = min(SLABS, round(most ** (1 / len(columns)))) - 2  # and two that have no end
        axes = [Axis.of(column, slabs) for column in columns]
        known = [axis for axis in axes if axis is not None]
        return cls(space, known) if len(known) == len(axes) else None

    def _apart(self, columns: tuple[Floats, ...]) -> bool:
        """Whether nearly all rows of a sample lie in cells of their own."""
        at = [axis.places(column) for axis, column in zip(self.axes, columns, strict=True)]
        own = len(np.unique(np.ravel_multi_index(at, [len(axis) for axis in self.axes])))
        return own >= _OWN * len(columns[0])

    def fit(self, columns: tuple[Floats, ...]) -> bool:
        """Whether rows like these are spread over the cells about as well as those that they were cut by."""
        spreads = [axis.spread(column) for axis, column in zip(self.axes, columns, strict=True)]
        return all(
            strays <= axis.strays + _STRAYS and uneven <= _EVEN * axis.uneven
            for axis, (strays, uneven) in zip(self.axes, spreads, strict=True)
        )

    def entered(self, slots: Ints, bars: Floats, constants: Floats) -> Cells:
        """The same cells, with the bits of those set in which a row may be at least as good as the bar of one of these
        slots, and of no others."""
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
        """Of pairs of a slot and a box: whether the slot's region may meet the box, and whether it has all of it."""
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
        """The bits of all cells: those of the outermost slabs are set."""
        shape = [len(axis) for axis in self.axes]
        # the first axis is the last of the array
        every = np.ones([*shape[:0:-1], 32 * self.width], dtype=bool)
        inner = tuple(slice(1, size - 1) for size in shape[::-1])
        every[inner] = met.transpose()
        return np.packbits(every, bitorder="little").view("<u4").astype(np.uint32)

    def passing(self, columns: tuple[Floats, ...]) -> Ints:
        """Places of the rows that concern somebody, or lie outside."""
        out = np.empty(len(columns[0]), dtype=np.int64)
        return out[
            : look_up(columns, self.origin, self.scale, self.last, self.steps, self.bit, self.words, out)
        ]


def _counts(sizes: list[int], level: int) -> tuple[int, ...]:
    """Boxes of a level along each axis."""
    return tuple(-(-size >> level) for size in sizes)


def _flat(at: Ints, shape: tuple[int, ...]) -> Any:
    return np.ravel_multi_index(tuple(at), shape)


def _finer(met: Bools, shape: tuple[int, ...]) -> Bools:
    """The same in boxes of half the size along every axis."""
    for axis, size in enumerate(shape):
        met = np.repeat(met, 2, axis=axis)[(slice(None),) * axis + (slice(size),)]
    return np.ascontiguousarray(met)


def _halved(slot: Ints, at: Ints, sizes: list[int], level: int) -> tuple[Ints, Ints]:
    """Each box's halves along every axis, where there are two."""
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
    """Places of the rows whose cells have their bits set; how many."""
    found = 0
    for i in range(out.shape[0]):
        at = np.int64(0)
        mine = np.int64(0)
        for axis in range(origin.shape[0]):
            u = (columns[axis][i] - origin[axis]) * scale[axis]
            u = u if u < last[axis] else last[axis]  # a NaN is beyond, too
            u = u if u > 0.0 else 0.0
            bucket = np.int64(u)
            mine = bucket if axis == 0 else mine
            at += steps[axis, bucket]
        if words[at] & bit[mine]:
            out[found] = i
            found += 1
    return found
