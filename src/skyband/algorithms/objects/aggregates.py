"""Totals of objects: exact sums, greatest and last values of the rows that each object has in a window.

An object (a group, or one id whose attributes arrive in several streams) is a small number, its *code*, which is the
index of one record: the number of its rows, the recency of its latest row, and two numbers for each aggregate. Rows
enter and leave in batches. Each row changes the record of its object and marks the object as touched, so that a step
computes one score for each touched object, however many of its rows changed.

* **Sums** are two doubles, high and low part, that add up to the exact sum. Adding a row keeps them exact unless a bit
  would fall off the low part; then that sum becomes a wide one (exact_sum.py) until its object's last row has left.
  So the high part is always the correctly rounded sum of the rows in the window, however long the stream has run.
* **Greatest values** need those rows that no newer row of their object exceeds: a chain through the stored rows from
  the greatest and oldest to the newest. A new row cuts off the rows that it exceeds; the row that leaves is the first.
* **Last values** are those of the newest row, which leaves last.

Where the score is only a sum of sums (`plain`), the record holds it too, and every row updates it: the loop notes each
object whose score reaches the threshold at once, without a second pass.

Memory: 16 bytes an object and 16 for each aggregate, and 8 for a plain score that is more than one sum; 8 bytes a row
for each greatest value.
Cost: some memory accesses a row. Those of different rows overlap, because a batch's records are read ahead.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.algorithms.kernels.row_slots import Places, Rows
from skyband.algorithms.objects.exact_sum import read_wide
from skyband.algorithms.objects.record_layout import (
    AHEAD,
    COUNT,
    FIRST,
    KEY,
    LAST,
    LATEST,
    MAX,
    NUMBER,
    SUM,
    Aggregate,
    Kinds,
    Records,
    arrive,
    change_sum,
    empty_sum,
    is_newer,
)
from skyband.algorithms.objects.sum_kernels import change, change_one, change_wide, parted, read_ahead
from skyband.compiling.jit import inlined, kernel
from skyband.compiling.state import aligned
from skyband.core.types import Floats, Ints

__all__ = ["KEY", "LAST", "MAX", "SUM", "Aggregate", "Totals"]


class Totals:
    """Records of objects by code. The rows are stored elsewhere (`Rows`), with their object's code as their cell."""

    def __init__(
        self, aggregates: tuple[Aggregate, ...], rows: Rows, plain: tuple[int, ...] = (), sign: float = 1.0
    ) -> None:
        self.rows = rows
        self.chained = [i for i, a in enumerate(aggregates) if a.kind == MAX]
        state = self.state = Records()
        state.plan = np.array(aggregates, dtype=np.int64).reshape(-1, 3)
        state.plain, state.sign, state.bar = np.array(plain, dtype=np.int64), sign, -np.inf
        own = _own(aggregates)
        self.is_one = own is not None  # whether each row is in one sum at most
        state.own = np.full((1, 2), -1) if own is None else own
        # the score is a column of its own, unless it is the one sum as it stands
        width = FIRST + 2 * len(aggregates)
        state.score = width if len(plain) and (len(aggregates) > 1 or sign < 0) else FIRST
        width += state.score == width
        state.replace(aligned((0, width), np.int64))
        for name in ("older", "newer"):
            setattr(state, name, np.full((len(self.chained), 0), -1, dtype=np.int32))

    # -- objects -------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return for how many objects there is room."""
        return len(self.state.record)

    @property
    def plain(self) -> Ints:
        """The sums whose sum is the score, where it is plain."""
        return self.state.plain

    @property
    def kind(self) -> Kinds:
        """The streams of rows by place, where there are several."""
        return self.state.kind

    @property
    def counts(self) -> Any:
        """The number of rows of each object."""
        return self.state.halves[:, COUNT]

    @property
    def latest(self) -> Any:
        """The place of the latest row of each object that has rows."""
        return self.state.halves[:, LATEST]

    @property
    def scores(self) -> Any:
        """The plain score of each object; NaN for one without rows."""
        return self.state.values[:, self.state.score]

    def wide_sums(self) -> int:
        """Return how many sums are wide."""
        return int(len(self.state.wide) - self.state.idle[0])

    def reserve(self, codes: int, rows: int, several: bool) -> None:
        """Make room for `codes` objects, for `rows` more touched objects, and for as many places as `Rows` has."""
        state, known = self.state, len(self)
        if codes > known:
            wider = aligned((codes + codes // 4, state.record.shape[1]), np.int64)
            wider[:known] = state.record
            state.replace(wider)
            if len(state.plain):
                self.scores[known:] = np.nan
            else:
                state.grow(marked_code=len(wider))
        if state.count + rows > len(state.touched):
            state.grow(note=2 * (state.count + rows))
        places = len(self.rows.order)
        if several:
            state.grow(kind_place=places)
        old = state.older.shape[1]
        if self.chained and old < places:
            state.grow(chain_place=places)
            state.older[:, old:] = state.newer[:, old:] = -1

    def share(self) -> None:
        """Use the memory of a copied record, which was copied twice, again as one."""
        self.state.replace(self.state.record)

    # -- rows ----------------------------------------------------------------------------------------------

    def enter(self, places: Places, in_order: bool) -> None:
        """Add the values of rows that have just been stored; in order they are newer than all others."""
        self.state.in_order = int(in_order)
        if len(self.plain):
            self._each(1, places)
        else:
            self._all(enter, places)

    def leave(self, places: Places) -> None:
        """Take away the values of rows that leave, in order of recency, while they can still be read."""
        if len(self.plain):
            self._each(-1, places)
        else:
            self._all(leave, places)

    def _rows(self) -> Records:
        """Return the state with the arrays that the rows have now."""
        rows = self.rows
        self.state.lend(x=rows.x, cell=rows.cell, time=rows.time, seq=rows.seq)
        return self.state

    def _each(self, way: int, places: Places) -> None:
        """Add (way 1) or take away (-1) rows and update plain scores; make more wide sums where the kernels stop for
        them."""
        state, done = self._rows(), 0
        loop = change_one if self.is_one else change
        while done < len(places):
            done = loop(done, way, places, state)
            if done < len(places):
                self._more_wide()
                done = change_wide(done, min(done + AHEAD, len(places)), way, places, state)

    def came_up(self) -> tuple[Ints, Ints]:
        """Return, for plain scores, the codes of objects that reached the threshold, and of those without rows."""
        came, dead = np.empty((2, self.state.count), dtype=np.int64)
        up, gone = parted(self.state, came, dead)
        return came[:up], dead[:gone]

    def _all(self, loop: Any, places: Places) -> None:
        state, done = self._rows(), 0
        while done < len(places):
            done = loop(done, places, state)
            if done < len(places):
                self._more_wide()

    def _more_wide(self) -> None:
        """Add free wide sums, if there may be too few for a row."""
        state, old = self.state, len(self.state.wide)
        if state.idle[0] >= len(state.plan):
            return
        more = old + 2 * len(state.plan)
        state.grow(sum=old + more, free=1 + old + more)
        free = int(state.idle[0])
        state.idle[1 + free : 1 + free + more] = np.arange(old, old + more)
        state.idle[0] = free + more

    # -- reading -------------------------------------------------------------------------------------------

    def settle(self) -> tuple[Ints, Floats]:
        """Return the codes of objects touched since the last call, and their values, a column for each aggregate."""
        codes = self.state.touched[: self.state.count].copy()
        self.state.count = 0
        self.state.marked[codes] = False
        return codes, self.values_of(codes)

    def values_of(self, codes: Ints) -> Floats:
        """Return the values of these objects, a column for each aggregate."""
        out = np.empty((len(self.state.plan), len(codes)))
        read(codes, self._rows(), out)
        return out

    def touch(self, codes: Ints) -> None:
        """Mark these objects as touched."""
        state = self.state
        fresh = codes[~state.marked[codes]]
        state.marked[fresh] = True
        self._note(fresh)

    def note(self, codes: Ints) -> None:
        """Note, for plain scores, that these objects may have no rows any more."""
        self.scores[codes] = np.nan
        self._note(-1 - codes)

    def _note(self, notes: Ints) -> None:
        state = self.state
        state.touched[state.count : state.count + len(notes)] = notes
        state.count += len(notes)

    def forget(self, codes: Ints) -> None:
        """Empty the records of objects and free their wide sums; marks as touched stay."""
        forget(codes, self.state)

    def bytes(self) -> int:
        state = self.state
        own = (
            state.record,
            state.marked,
            state.touched,
            state.wide,
            state.idle,
            state.kind,
            state.older,
            state.newer,
        )
        return sum(array.nbytes for array in own)

    def _check(self) -> None:
        state = self.state
        state._check()
        counted = np.bincount(self.rows.cell[self.rows.living()], minlength=len(self))
        # each record counts the stored rows of its object
        assert np.array_equal(counted[: len(self)], self.counts)
        alive = self.counts > 0
        # an object without rows has no score; where scores are not plain, its record is empty
        if len(self.plain):
            assert np.isnan(self.scores[~alive]).all()
        else:
            assert self.chained or not state.values[~alive, FIRST::2].any()
        # the latest row of an object is one of its own, and none is newer
        places = self.rows.living()
        codes, own = self.rows.cell[places], self.latest[self.rows.cell[places]]
        assert np.array_equal(self.rows.cell[own], codes)
        time, seq = self.rows.time, self.rows.seq
        newer = (time[own] > time[places]) | ((time[own] == time[places]) & (seq[own] > seq[places]))
        assert np.all(newer | (own == places))
        # each wide sum is free, or that of one sum of an object with rows
        sums = FIRST + 1 + 2 * np.flatnonzero(state.plan[:, 0] == SUM)
        held = state.record[alive][:, sums][np.isnan(state.values[alive][:, sums])] & NUMBER
        free = state.idle[1 : 1 + state.idle[0]]
        assert np.array_equal(np.sort(np.concatenate([held, free])), np.arange(len(state.wide)))
        # no object is marked as touched
        assert not state.marked.any() and state.count == 0


def _own(aggregates: tuple[Aggregate, ...]) -> Ints | None:
    """Return for each stream the sum that its rows are in, and its column; None where a stream has several sums."""
    streams = [a.stream for a in aggregates]
    if len(set(streams)) < len(streams) or not streams:
        return None
    own = np.full((max(streams) + 1, 2), -1, dtype=np.int64)
    for number, a in enumerate(aggregates):
        own[a.stream] = number, a.column
    return own


@kernel
def chain(g: int, at: int, place: int, column: int, link: int, s: Records) -> None:
    """Insert a row into the chain of its object's greatest values.

    The record holds the chain's first and last row, as their places plus 1.
    """
    value = s.x[place, column]
    after, before = -1, s.record[g, at + 1] - 1
    while before >= 0 and is_newer(before, place, s):
        if s.x[before, column] >= value:
            return  # a newer row is as great, so this one never matters
        after, before = before, np.int64(s.older[link, before])
    while before >= 0 and s.x[before, column] <= value:
        before = np.int64(s.older[link, before])
    s.older[link, place], s.newer[link, place] = before, after
    if before >= 0:
        s.newer[link, before] = place
    else:
        s.record[g, at] = place + 1
    if after >= 0:
        s.older[link, after] = place
    else:
        s.record[g, at + 1] = place + 1


@kernel
def enter(begin: int, places: Places, s: Records) -> int:
    """Add rows to their objects; stop where wide sums may run out. Return the next index."""
    ahead = begin
    end: int = places.shape[0]
    for p in range(begin, end):
        if p == ahead:
            ahead = read_ahead(p, places, s)
        if s.idle[0] < s.plan.shape[0]:
            return p
        place = places[p]
        g = s.cell[place]
        stream = s.kind[place] if s.kind.shape[0] > 0 else 0
        arrive(g, place, s.halves, s)
        s.halves[g, COUNT] += 1
        mark(g, s)
        link = 0
        for a in range(s.plan.shape[0]):
            at, what, column = FIRST + 2 * a, s.plan[a, 0], s.plan[a, 1]
            if s.plan[a, 2] == stream:
                if what == SUM:
                    change_sum(g, at, s.x[place, column], 1, s)
                elif what == MAX:
                    chain(g, at, place, column, link, s)
                else:
                    last = s.record[g, at] - 1
                    if last < 0 or is_newer(place, last, s):
                        s.record[g, at] = place + 1
            link += what == MAX
    return end


@kernel
def leave(begin: int, places: Places, s: Records) -> int:
    """Take rows from their objects, the oldest of each first; stop and return as `enter`."""
    ahead = begin
    end: int = places.shape[0]
    for p in range(begin, end):
        if p == ahead:
            ahead = read_ahead(p, places, s)
        if s.idle[0] < s.plan.shape[0]:
            return p
        place = places[p]
        g = s.cell[place]
        stream = s.kind[place] if s.kind.shape[0] > 0 else 0
        s.halves[g, COUNT] -= 1
        mark(g, s)
        gone = s.halves[g, COUNT] == 0
        link = 0
        for a in range(s.plan.shape[0]):
            at, what, own = FIRST + 2 * a, s.plan[a, 0], s.plan[a, 2] == stream
            if what == SUM:
                if gone:
                    empty_sum(g, at, s)
                elif own:
                    change_sum(g, at, s.x[place, s.plan[a, 1]], -1, s)
            elif own and s.record[g, at] == place + 1:
                after = s.newer[link, place] if what == MAX else -1
                s.record[g, at] = after + 1
                if after >= 0:
                    s.older[link, after] = -1
                elif what == MAX:
                    s.record[g, at + 1] = 0
            link += what == MAX
    return end


@kernel
def forget(codes: Ints, s: Records) -> None:
    """Empty the records of objects, but for their keys."""
    for i in range(codes.shape[0]):
        g = codes[i]
        for a in range(s.plan.shape[0]):
            if s.plan[a, 0] == SUM:
                empty_sum(g, FIRST + 2 * a, s)
            s.record[g, FIRST + 2 * a] = s.record[g, FIRST + 2 * a + 1] = 0
        s.halves[g, COUNT] = s.halves[g, LATEST] = 0


@inlined
def mark(g: int, s: Records) -> None:
    """Note a touched object, once."""
    if not s.marked[g]:
        s.marked[g] = True
        s.touched[s.count] = g
        s.count += 1


@kernel
def read(codes: Ints, s: Records, out: Floats) -> None:
    """Write the values of all aggregates for these objects into `out`; an aggregate without rows is 0."""
    for i in range(codes.shape[0]):
        g = codes[i]
        for a in range(s.plan.shape[0]):
            at = FIRST + 2 * a
            if s.plan[a, 0] == SUM:
                if s.values[g, at + 1] != s.values[g, at + 1]:
                    s.values[g, at] = read_wide(s.wide, s.record[g, at + 1] & NUMBER)
                out[a, i] = s.values[g, at] + 0.0
            else:
                place = s.record[g, at] - 1
                out[a, i] = s.x[place, s.plan[a, 1]] if place >= 0 else 0.0
