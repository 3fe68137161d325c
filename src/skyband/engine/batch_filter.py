"""Rejecting rows for all queries of a family at once, while a part of a batch is sifted.

**Problem.** A part's k-skyband for each of a thousand queries takes a thousand scores for each of its rows, and nearly
all rows are in none of them.

**Idea.** Look at the newest rows first. Their k-th best score of a query is a bar: an older row that does not reach it
has k better, newer rows in its own part. A height map (heightmap/maps.py) of all queries' bars rejects an older
row for all of them with one look-up. What passes is few; with it the bars rise, and the next, far longer stretch
of older rows meets a higher map. In the end the queries meet only the rows that passed, newest first, as they
would have met all of them.

**Cells.** Where scores aren't monotone, as distances aren't, there are no maps. A gate, made once of many newer rows,
then has cells (heightmap/cell_filter.py), which tell whether a row can reach anybody's bar. They don't tell whose,
so they serve where bars are high enough that most rows matter to no query.

**Clusters.** Of ten thousand queries each is a neighbour of few. They are divided by the proportions of their weights,
and each cluster has a map of its own over the same cells; the map of all is the least of these. A row that passes that
one meets only the clusters whose own map it passes, too: an eighth of the scores. Threads share the clusters out.

**Exact.** A map errs by letting rows pass, never the other way, and a rejected row is in no query's k-skyband: the
rows that are kept are the same, to the last one.

**Wrong when** the queries are few, the score is neither monotone on every axis nor bounded over a cell, or a predicate
leaves fewer than k of the newest rows: then every row meets every query.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skyband.algorithms import Arrivals
from skyband.algorithms.heightmap.cell_filter import Cells
from skyband.algorithms.heightmap.map_filter import passing
from skyband.algorithms.heightmap.map_set import HIGH, LOOSE, LOW, Relief
from skyband.algorithms.heightmap.maps import blank
from skyband.algorithms.kernels.candidate_lists import kth_best
from skyband.core.types import Floats, Ints
from skyband.engine.row_group import Group
from skyband.query.expression.score_space import Space
from skyband.stream.batches import Batch

FEWEST_QUERIES = 32
HEAD = 8192  # rows at most that are scored for every query before there is a map
FEWEST_HEAD = 2048
_GROWTH = 16
_CELLS = 32768
_CLUSTER = 256  # queries at least
_MOST_CLUSTERS = 32
_NO_LIMIT = 1 << 62


@dataclass(frozen=True)
class Gate:
    """What rows must reach to be in some query's k-skyband, given some rows that are newer than all of them."""

    group: Group
    slots: Ints
    bars: Floats  # by slot
    relief: Relief | None = None  # a map of these bars, where the queries are many
    faces: Ints | None = None  # of the map, one for each slot
    cells: Cells | None = None  # or the cells that some query's region meets, where scores have no map

    def passing(self, rows: Arrivals) -> Ints:
        """Places of the rows that it lets pass."""
        if self.relief is not None and self.faces is not None:
            return _looked_up(self.relief, self.faces, rows.columns(), 0, len(rows))
        if self.cells is not None:
            return self.cells.passing(rows.columns())
        reached = np.zeros(len(rows), dtype=bool)
        for slot in self.slots.tolist():
            reached |= rows.good(slot) >= self.bars[slot]
        return np.flatnonzero(reached)


class Family:
    """Queries of one shape without any state: what they take of some rows is their k-skyband."""

    def __init__(self, group: Group) -> None:
        self.group = self._group = group
        self.threads = 1  # among which many queries may be divided
        self._idle: list[Relief] = []  # maps that no thread works with
        self._spare: list[Group] = []  # nor with these, which are empty again
        self._gate: Relief | None = None  # the gate's own, whose frame stays as long as it fits
        self._mapless = False  # whether maps have been found not to serve
        self._cells: Cells | None = None  # the gate's other kind, whose slabs stay as long
        self._clusters = [_slots(group)]
        self._served = _serves(group)
        self._head = min(HEAD, max(FEWEST_HEAD, 16 * int(group.algorithm.ks.max(initial=0))))
        for slot in _slots(group).tolist() if self._served else ():
            k = int(group.algorithm.ks[slot])  # as many as a million rows will need: growing stops the loop
            group.algorithm.lists.reserve(slot, int(group.algorithm.card.expected(k, 1e6)))
        if self._served:  # what one batch brings has been swept against itself
            group.algorithm.lists.limit.fill(_NO_LIMIT)

    @contextmanager
    def fresh(self) -> Iterator[Group]:
        """The queries with an empty state of their own; what is never written to is shared."""
        group = self._spare.pop() if self._spare else self._copy()
        group.algorithm.threads = self.threads
        yield group
        if self._served:  # ten thousand lists have room for millions of candidates: that is no small copy
            lists = group.algorithm.lists
            lists.size.fill(0)
            lists.head.fill(0)
            lists.counts.fill(0)
            lists.limit[:] = self._group.algorithm.lists.limit
            self._spare.append(group)

    def _copy(self) -> Group:
        copy = object.__new__(type(self._group))
        copy.__dict__.update(self._group.__dict__)
        copy.algorithm = deepcopy(self._group.algorithm)
        return copy

    def insert(self, batch: Batch, mark: Any, tell: bool = False) -> Floats | None:
        """Mark the rows of a batch that a fresh family takes; if asked, return the bars that it leaves."""
        with self.fresh() as group:
            rows = group.arrivals(batch, mark)
            many = self._served and rows.rendered is not None and len(rows) >= 2 * self._head
            found = self._found(rows) if many else None
            if found is not None:
                group.algorithm.insert_shares(self._shares(rows, found))
            else:
                group.algorithm.insert(rows)
            return _kth_best(group) if tell and len(rows) and not self._bounded else None

    def bars(self, newer: Batch) -> Floats | None:
        """Return each query's k-th best score of these rows; None for a threshold query, or if a query has fewer than
        k."""
        if self._bounded or not len(newer):
            return None
        rows = self._group.arrivals(newer, np.zeros(len(newer), dtype=np.uint8))
        if not len(rows):
            return None
        with self.fresh() as group:
            group.algorithm.insert(rows)
            return _kth_best(group)

    @property
    def _bounded(self) -> bool:
        return "threshold" in self._group.algorithm.card.answers

    def gate(self, bars: Floats, sample: Batch, most: int) -> Gate | None:
        """Return the gate of these bars before rows that are older than those behind them; `sample` shows what rows are
        like. None if there are more than `most` queries and neither a map nor cells serve them."""
        group, slots = self._group, _slots(self._group)
        if len(slots) <= most:
            return Gate(group, slots, bars)
        seen = group.arrivals(sample, np.zeros(len(sample), dtype=np.uint8)).columns()
        return self._mapped(bars, seen) or self._celled(bars, seen)

    def _mapped(self, bars: Floats, seen: tuple[Floats, ...]) -> Gate | None:
        """Return a gate with a height map; None if there is none."""
        group, slots = self._group, _slots(self._group)
        if not self._served or group.rendered is None:
            return None
        if self._gate is None:
            self._gate = self._relief()
        relief = self._gate
        if relief is None or not _framed(relief, seen, slots, group.constants):
            return None
        faces = _faces(relief, slots)
        if (faces == LOOSE).any():
            return None
        self._carve(relief, bars)
        return Gate(group, slots, bars, relief, faces)

    def _celled(self, bars: Floats, seen: tuple[Floats, ...]) -> Gate | None:
        """Return a gate with cells, which stay as they are cut as long as rows are spread over them as they were."""
        group, slots = self._group, _slots(self._group)
        if self._cells is None or not self._cells.fit(seen):
            self._cells = Cells.learned(Space(group.shape, group.score_columns, group.sign), seen)
        if self._cells is None:
            return None
        return Gate(group, slots, bars, cells=self._cells.entered(slots, bars, group.constants))

    def _relief(self) -> Relief | None:
        """Maps for these queries, which are divided into clusters when the first are made; None if none serve them."""
        relief = None if self._mapless else _relief(self._group)
        self._mapless = relief is None
        slots = _slots(self._group)
        parts = min(_MOST_CLUSTERS, len(slots) // _CLUSTER)
        if relief is not None and len(self._clusters) == 1 and parts > 1:
            self._clusters = _divide(relief.traits(slots, self._group.constants[slots]), slots, parts)
        return relief

    def _found(self, rows: Arrivals) -> list[Ints] | None:
        """For each cluster the rows that may be in some query's k-skyband, newest first; None if there are no maps."""
        group, columns = self._group, rows.columns()
        relief = self._idle.pop() if self._idle else self._relief()
        if relief is None:
            return None
        found, done = [np.arange(self._head)] * len(self._clusters), self._head
        while done < len(rows):
            group.algorithm.threads = self.threads
            bars = group.algorithm.bars_of(self._shares(rows, found))
            seen = [column[:done] for column in columns]
            if not np.isfinite(bars[_slots(group)]).all():
                break  # a query has fewer than k
            if not relief.survey(seen, _slots(group), group.constants):
                break  # nothing to be rejected by
            faces = _faces(relief, _slots(group))
            if (faces == LOOSE).any():
                break
            maps, stop = self._carve(relief, bars), min(len(rows), _GROWTH * done)
            some = _looked_up(relief, faces, columns, done, stop)
            found = [
                np.concatenate([own, more])
                for own, more in zip(found, _shared(relief, maps, faces, columns, some), strict=True)
            ]
            done = stop
        self._idle.append(relief)
        rest = np.arange(done, len(rows))
        return [np.concatenate([own, rest]) for own in found]

    def _shares(self, rows: Arrivals, found: list[Ints]) -> list[tuple[Arrivals, Ints]]:
        """Return each cluster with the rows found for it."""
        return [(_some(rows, own), slots) for own, slots in zip(found, self._clusters, strict=True)]

    def _carve(self, relief: Relief, bars: Floats) -> list[Any]:
        """Return a map for each cluster; the relief's own becomes that of all."""
        constants = self._group.constants

        def carved(slots: Ints) -> Any:
            maps = relief.inner.copy()
            relief.carve(maps, slots, _faces(relief, slots), bars, constants)
            return maps

        if self.threads == 1 or len(self._clusters) == 1:
            maps = [carved(slots) for slots in self._clusters]
        else:
            with ThreadPoolExecutor(self.threads, "skyband-maps") as pool:
                maps = list(pool.map(carved, self._clusters))
        relief.inner[:] = np.minimum.reduce(maps)
        return maps


def _kth_best(group: Group) -> Floats | None:
    """Return each query's k-th best score, by slot; None if one has fewer than k, or its k-th is infinite."""
    algorithm, slots = group.algorithm, _slots(group)
    bars = np.full(len(algorithm.ks), np.inf)
    enough = kth_best(algorithm.lists, slots, np.empty(int(algorithm.ks.max())), bars)
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
    """Return the maps of a family; None if they can't serve one of its queries."""
    relief = Relief(Space(group.shape, group.score_columns, group.sign), _CELLS)
    for slot in _slots(group).tolist():
        relief.know(slot, group.constants[slot])
        if not relief.usable[slot]:
            return None
    return relief


def _framed(relief: Relief, columns: tuple[Floats, ...], slots: Ints, constants: Floats) -> bool:
    """Blank maps in the frame that there is, or in a new one if these rows don't fit into it, or fill little of it."""
    frame = relief.frame
    with np.errstate(over="ignore"):  # a value may be further out than numbers go
        fits = frame is not None and not relief.misfits(np.array(columns))
    if frame is not None and fits:
        outside = [
            (column < low) | (column > high)
            for column, low, high in zip(columns, frame.low, frame.high, strict=True)
        ]
        if np.count_nonzero(np.logical_or.reduce(outside)) * 512 <= len(columns[0]):
            relief.inner[:] = blank(frame)  # one map, or one for each face
            return True
    return relief.survey(list(columns), slots, constants)


def _faces(relief: Relief, slots: Ints) -> Ints:
    sense = (relief.weight if relief.weighted else relief.toward)[slots, relief.last]
    return np.where(relief.usable[slots], np.where(sense < 0, LOW, HIGH), LOOSE)


def _divide(traits: Floats, slots: Ints, parts: int) -> list[Ints]:
    """Queries divided into clusters of equal size, each time along the trait in which they differ most."""
    if parts < 2:
        return [np.sort(slots)]
    order = np.argsort(traits[:, int(np.argmax(np.ptp(traits, axis=0)))], kind="stable")
    some = parts // 2
    cut = len(order) * some // parts
    halves = ((order[:cut], some), (order[cut:], parts - some))
    return [one for own, count in halves for one in _divide(traits[own], slots[own], count)]


def _shared(
    relief: Relief, maps: list[Any], faces: Ints, columns: tuple[Floats, ...], some: Ints
) -> Iterator[Ints]:
    """Which of some rows, all of which pass the map of all, pass each cluster's own."""
    if len(maps) == 1:
        yield some
        return
    own = _at(columns, some)
    for each in maps:
        yield some[_looked_up(relief, faces, own, 0, len(some), each)]


def _looked_up(
    relief: Relief, faces: Ints, columns: tuple[Floats, ...], first: int, stop: int, maps: Any = None
) -> Ints:
    """Places of the rows [first, stop) that a map lets pass: the relief's own, or one over the same cells."""
    frame = relief.frame
    assert frame is not None
    out = np.empty(stop - first, dtype=np.int64)
    parts = len(columns) - 1
    count = passing(
        columns, first, stop, frame.order, frame.size[:parts], frame.low, frame.high, frame.base, frame.inverse,
        relief.inner if maps is None else maps, bool((faces == 0).any()), bool((faces == 1).any()), out,
    )  # fmt: skip
    return out[:count]


def _some(rows: Arrivals, found: Ints) -> Arrivals:
    """Return some of the rows, in their order."""
    columns = _at(rows.columns(), found)
    return replace(
        rows,
        time=rows.time[found],
        seq=rows.seq[found],
        place=rows.place[found],
        good=lambda slot: rows.good(slot)[found],
        columns=lambda: columns,
    )


def _at(columns: tuple[Floats, ...], found: Ints) -> tuple[Floats, ...]:
    some: Any = tuple(column[found] for column in columns)
    for column in some:
        column.flags.writeable = False  # kernels are compiled for such columns
    return some  # type: ignore[no-any-return]
