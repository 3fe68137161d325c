"""Rejecting rows for all queries of a family at once, while a part of a batch is sifted.

**Problem.** A part's k-skyband for each of a thousand queries takes a thousand scores for each of its rows, and nearly
all rows are in none of them.

**Idea.** Look at the newest rows first. Their k-th best score of a query is a bar: an older row that does not reach it
has k better, newer rows in its own part. A height map (structures/heightmap.py) of all queries' bars rejects an older
row for all of them with one look-up. What passes is few; with it the bars rise, and the next, far longer stretch
of older rows meets a higher map. In the end the queries meet only the rows that passed, newest first, as they
would have met all of them.

**Exact.** A map errs by letting rows pass, never the other way, and a rejected row is in nobody's k-skyband: the
rows that are kept are the same, to the last one.

**Wrong when** the queries are few, the score is not monotone on every axis, or a predicate leaves fewer than k of the
newest rows: then there is no map, and every row meets every query.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skyband.algorithms import Arrivals
from skyband.group import Group
from skyband.order import Floats, Ints
from skyband.query.space import Space
from skyband.stream.batches import Batch
from skyband.structures.heightmap import blank
from skyband.structures.lists import kth_best
from skyband.structures.passing import passing
from skyband.structures.relief import HIGH, LOOSE, LOW, Relief

FEWEST_QUERIES = 32
HEAD = 8192  # rows at most that are scored for every query before there is a map
FEWEST_HEAD = 1024
_GROWTH = 8
_CELLS = 32768


@dataclass(frozen=True)
class Gate:
    """What rows must reach to be in somebody's k-skyband, given some rows that are newer than all of them."""

    group: Group
    slots: Ints
    bars: Floats  # by slot
    relief: Relief | None  # a map of these bars, where the queries are many
    faces: Ints | None = None  # of the map, one for each slot

    def passing(self, rows: Arrivals) -> Ints:
        """Places of the rows that it lets pass."""
        if self.relief is not None and self.faces is not None:
            return _looked_up(self.relief, self.faces, rows.columns(), 0, len(rows))
        reached = np.zeros(len(rows), dtype=bool)
        for slot in self.slots.tolist():
            reached |= rows.good(slot) >= self.bars[slot]
        return np.flatnonzero(reached)


class Family:
    """Queries of one shape without any state: what they take of some rows is their k-skyband."""

    def __init__(self, group: Group) -> None:
        self.group = self._group = group
        self._idle: list[Relief] = []  # maps that no thread works with
        self._spare: list[Group] = []  # nor with these, which are empty again
        self._gate: Relief | None = None  # the gate's own, whose frame stays as long as it fits
        self._served = _serves(group)
        self._head = min(HEAD, max(FEWEST_HEAD, 16 * int(group.algorithm.ks.max(initial=0))))
        for slot in _slots(group).tolist() if self._served else ():
            k = int(group.algorithm.ks[slot])  # as many as a million rows will need: growing stops the loop
            group.algorithm.lists.grow(slot, int(group.algorithm.card.expected(k, 1e6)))

    @contextmanager
    def fresh(self) -> Iterator[Group]:
        """The queries with an empty state of their own; what is never written to is shared."""
        group = self._spare.pop() if self._spare else self._copy()
        yield group
        if self._served:  # ten thousand lists have room for millions of candidates: that is no small copy
            algorithm = group.algorithm
            algorithm.lists.size.fill(0)
            algorithm.lists.head.fill(0)
            algorithm.counts.fill(0)
            algorithm.limit[:] = self._group.algorithm.limit
            self._spare.append(group)

    def _copy(self) -> Group:
        copy = object.__new__(type(self._group))
        copy.__dict__.update(self._group.__dict__)
        copy.algorithm = deepcopy(self._group.algorithm)
        return copy

    def insert(self, batch: Batch, mark: Any) -> None:
        """Mark the rows of a batch that a fresh family takes."""
        with self.fresh() as group:
            rows = group.arrivals(batch, mark)
            if self._served and rows.rendered is not None and len(rows) >= 2 * self._head:
                rows = _some(rows, self._found(rows))
            group.algorithm.insert(rows)

    def bars(self, newer: Batch, sample: Batch) -> Gate | None:
        """A gate of whichever kind there is; None for a threshold query, or if somebody has fewer than k of the newer
        rows."""
        if "threshold" in self.group.algorithm.card.answers:
            return None
        found = self.gate(newer, sample, FEWEST_QUERIES - 1)
        return found if found is not None else self.gate(newer, sample, len(self.group.algorithm.ks))

    def gate(self, newer: Batch, sample: Batch, most: int) -> Gate | None:
        """The gate before rows that are older than all of `newer`; `sample` shows what rows are like. None if somebody
        has fewer than k of the newer rows, or if there are more than `most` queries and no map serves them."""
        group, slots = self._group, _slots(self._group)
        rows = group.arrivals(newer, np.zeros(len(newer), dtype=np.uint8))
        bars = self._bars(rows, np.arange(len(rows))) if len(rows) else None
        if bars is None:
            return None
        if len(slots) <= most:
            return Gate(group, slots, bars, None)
        if not self._served or rows.rendered is None:
            return None
        if self._gate is None:
            self._gate = _relief(group)
        relief = self._gate
        seen = group.arrivals(sample, np.zeros(len(sample), dtype=np.uint8)).columns()
        if relief is None or not _framed(relief, seen, slots, group.constants):
            return None
        faces = _faces(relief, slots)
        if (faces == LOOSE).any():
            return None
        relief.carve(relief.inner, slots, faces, bars, group.constants)
        return Gate(group, slots, bars, relief, faces)

    def _found(self, rows: Arrivals) -> Ints:
        """The rows that may be in somebody's k-skyband, newest first."""
        group, columns = self._group, rows.columns()
        relief = self._idle.pop() if self._idle else _relief(group)
        found, done = np.arange(self._head), self._head
        while done < len(rows) and relief is not None:
            bars = self._bars(rows, found)
            seen = [column[:done] for column in columns]
            if bars is None or not relief.survey(seen, _slots(group), group.constants):
                break  # nothing to be rejected by
            stop = min(len(rows), _GROWTH * done)
            found = np.concatenate([found, _passed(relief, group, bars, columns, done, stop)])
            done = stop
        if relief is not None:
            self._idle.append(relief)
        return np.concatenate([found, np.arange(done, len(rows))])

    def _bars(self, rows: Arrivals, found: Ints) -> Floats | None:
        """Each query's k-th best score of the rows found so far; None if somebody has fewer than k."""
        with self.fresh() as group:
            algorithm, slots = group.algorithm, _slots(group)
            algorithm.insert(replace(_some(rows, found), mark=np.zeros_like(rows.mark)))
            bars = np.full(len(algorithm.ks), np.inf)
            lists, heap = algorithm.lists, np.empty(int(algorithm.ks.max()))
            enough = kth_best(
                lists.good, lists.start, lists.head, lists.size, slots, algorithm.ks, heap, bars
            )
        return bars if enough and np.isfinite(bars[slots]).all() else None


def _slots(group: Group) -> Ints:
    return np.flatnonzero(group.algorithm.ks)


def _serves(group: Group) -> bool:
    """Whether a map is worth a try: many queries that keep lists, with few ranks each."""
    slots = _slots(group)
    most = int(group.algorithm.ks.max(initial=0))
    lists = group.algorithm.card.name in ("ra", "sa") and not group.windowed
    return len(slots) >= FEWEST_QUERIES and 4 * most <= HEAD and lists and bool(group.score_columns)


def _relief(group: Group) -> Relief | None:
    """The maps of a family; None if they can't serve one of its queries."""
    relief = Relief(Space(group.shape, group.score_columns, group.sign), _CELLS)
    for slot in _slots(group).tolist():
        relief.know(slot, group.constants[slot])
        if not relief.usable[slot]:
            return None
    return relief


def _framed(relief: Relief, columns: tuple[Floats, ...], slots: Ints, constants: Floats) -> bool:
    """Blank maps in the frame that there is, or in a new one if these rows don't fit into it, or fill little of it."""
    frame = relief.frame
    if frame is not None and not relief.misfits(np.array(columns)):
        outside = [
            (column < low) | (column > high)
            for column, low, high in zip(columns, frame.low, frame.high, strict=True)
        ]
        if np.count_nonzero(np.logical_or.reduce(outside)) * 512 <= len(columns[0]):
            relief.inner[:] = np.stack([blank(frame), blank(frame)])
            return True
    return relief.survey(list(columns), slots, constants)


def _faces(relief: Relief, slots: Ints) -> Ints:
    sense = (relief.weight if relief.weighted else relief.toward)[slots, relief.last]
    return np.where(relief.usable[slots], np.where(sense < 0, LOW, HIGH), LOOSE)


def _passed(
    relief: Relief, group: Group, bars: Floats, columns: tuple[Floats, ...], first: int, stop: int
) -> Ints:
    """Places of the rows [first, stop) that some query's map lets pass."""
    slots = _slots(group)
    faces = _faces(relief, slots)
    if (faces == LOOSE).any():
        return np.arange(first, stop)
    relief.carve(relief.inner, slots, faces, bars, group.constants)
    return _looked_up(relief, faces, columns, first, stop)


def _looked_up(relief: Relief, faces: Ints, columns: tuple[Floats, ...], first: int, stop: int) -> Ints:
    frame = relief.frame
    assert frame is not None
    out = np.empty(stop - first, dtype=np.int64)
    parts = len(columns) - 1
    count = passing(
        columns, first, stop, frame.order, frame.size[:parts], frame.low, frame.high, frame.base, frame.inverse,
        relief.inner, bool((faces == 0).any()), bool((faces == 1).any()), out,
    )  # fmt: skip
    return out[:count]


def _some(rows: Arrivals, found: Ints) -> Arrivals:
    """Some of the rows, in their order."""
    columns: Any = tuple(column[found] for column in rows.columns())
    for column in columns:
        column.flags.writeable = False
    return replace(
        rows,
        time=rows.time[found],
        seq=rows.seq[found],
        place=rows.place[found],
        good=lambda slot: rows.good(slot)[found],
        columns=lambda: columns,
    )
