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

Memory: 40 bytes an object and 16 for each aggregate; 8 bytes a row for each greatest value.
Cost: some memory accesses a row. Those of different rows overlap, because a batch's records are read ahead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.algorithms.kernels.row_slots import Places, Rows
from skyband.algorithms.objects.exact_sum import WIDTH, read_wide
from skyband.algorithms.objects.record_layout import (
    AHEAD,
    COUNT,
    FIRST,
    FLAGS,
    KEY,
    LAST,
    MAX,
    MOST_SUMS,
    SCORE,
    SEQ,
    SUM,
    TIME,
    TOUCHED,
    WIDE,
    Aggregate,
    Kinds,
    change_sum,
    lines,
    next_bit,
)
from skyband.algorithms.objects.sum_kernels import change, change_one, change_wide, parted
from skyband.compiling.jit import kernel
from skyband.core.types import Floats, Ints

__all__ = ["COUNT", "KEY", "LAST", "MAX", "SCORE", "SEQ", "SUM", "TIME", "Aggregate", "Totals"]


class Totals:
    """Records of objects by code. The rows are stored elsewhere (`Rows`), with their object's code as their cell."""

    def __init__(
        self, aggregates: tuple[Aggregate, ...], rows: Rows, plain: tuple[int, ...] = (), sign: float = 1.0
    ) -> None:
        self.rows = rows
        self.plain, self.sign = np.array(plain, dtype=np.int64), sign
        self.bar, self.listed = -np.inf, np.zeros(0, dtype=bool)  # of the leaders, where the score is plain
        self.plan = np.array(aggregates, dtype=np.int64).reshape(-1, 3)
        self.own = _own(aggregates)  # for each stream its one sum and column, or None
        self.warm = np.zeros(1, dtype=np.int64)
        self.chained = [i for i, a in enumerate(aggregates) if a.kind == MAX]
        width = FIRST + 2 * len(aggregates)
        width += -width % 8 if width % 8 > 4 else 0  # whole cache lines, where the last one is nearly full
        self.record = np.zeros((0, width), dtype=np.int64)
        self.values = self.record.view(np.float64)
        self.wide = np.zeros((0, WIDTH), dtype=np.int64)
        self.idle = np.zeros(1, dtype=np.int64)  # the number of free wide sums, then their indices
        self.kind: Kinds = np.zeros(0, dtype=np.uint16)  # by place: a row's stream, where there are several
        self.older = np.zeros((len(self.chained), 0), dtype=np.int32)  # by place: neighbours in each chain
        self.newer = np.zeros((len(self.chained), 0), dtype=np.int32)
        self.touched = np.zeros(0, dtype=np.int64)
        self.count = 0  # objects touched since the last `settle`

    def reserve(self, codes: int, rows: int, several: bool) -> None:
        """Make room for `codes` objects, for `rows` more touched objects, and for as many places as `Rows` has."""
        if codes > len(self.record):
            wider = lines(codes + codes // 2, self.record.shape[1])
            known = len(self.record)
            wider[:known] = self.record
            self.record, self.values = wider, wider.view(np.float64)
            self.values[known:, SCORE] = np.nan
        if self.count + rows > len(self.touched):
            self.touched = np.resize(self.touched, 2 * (self.count + rows))
        places = len(self.rows.order)
        if several and len(self.kind) < places:
            self.kind = np.resize(self.kind, places)
        if self.chained and self.older.shape[1] < places:
            self.older, self.newer = (_wider(a, places) for a in (self.older, self.newer))

    def enter(self, places: Places) -> None:
        """Add the values of rows that have just been stored."""
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

    def _each(self, way: int, places: Places) -> None:
        """Add (way 1) or take away (-1) rows and update plain scores; make more wide sums where the kernels stop for
        them."""
        rows, done = self.rows, 0
        where = way, places, rows.cell, rows.x, rows.time, rows.seq, self.kind
        while done < len(places):
            if self.own is not None:
                done, self.count = change_one(
                    done, *where, self.own, self.plain, self.sign, self.bar, self.record, self.values, self.listed,
                    self.touched, self.warm, self.count,
                )  # fmt: skip
                if done == len(places):
                    return
            if self.idle[0] < len(self.plan):
                self._more_wide()
            common = (
                *where, self.plan, self.plain, self.sign, self.bar, self.record, self.values, self.wide, self.idle,
                self.listed, self.touched, self.warm,
            )  # fmt: skip
            if self.own is None:
                done, self.count = change(done, *common, self.count)
            if done < len(places):
                done, self.count = change_wide(done, min(done + AHEAD, len(places)), *common, self.count)

    def came_up(self) -> tuple[Ints, Ints]:
        """Return, for plain scores, the codes of objects that reached the threshold, and of those without rows."""
        came, dead = np.empty(self.count, dtype=np.int64), np.empty(self.count, dtype=np.int64)
        up, gone = parted(self.touched[: self.count], self.record, came, dead)
        self.count = 0
        return came[:up], dead[:gone]

    def _all(self, loop: Any, places: Places) -> None:
        rows, done = self.rows, 0
        while done < len(places):
            done, self.count = loop(
                done, places, rows.cell, rows.x, rows.time, rows.seq, self.kind, self.plan, self.record, self.values,
                self.wide, self.idle, self.older, self.newer, self.touched, self.warm, self.count,
            )  # fmt: skip
            if done < len(places):
                self._more_wide()

    def _more_wide(self) -> None:
        """Add free wide sums."""
        old = len(self.wide)
        wider = np.zeros((2 * old + 2 * len(self.plan), WIDTH), dtype=np.int64)
        wider[:old] = self.wide
        free = np.concatenate([self.idle[1 : 1 + self.idle[0]], np.arange(old, len(wider))])
        self.idle = np.zeros(1 + len(wider), dtype=np.int64)
        self.idle[0] = len(free)
        self.idle[1 : 1 + len(free)] = free
        self.wide = wider

    def settle(self) -> tuple[Ints, Floats]:
        """Return the codes of objects touched since the last call, and their values, a column for each aggregate."""
        codes = self.touched[: self.count].copy()
        self.count = 0
        return codes, self.values_of(codes)

    def values_of(self, codes: Ints) -> Floats:
        """Return the values of these objects, a column for each aggregate."""
        out = np.empty((len(self.plan), len(codes)))
        read(codes, self.rows.x, self.plan, self.record, self.values, self.wide, out)
        return out

    def touch(self, codes: Ints) -> None:
        """Mark these objects as touched."""
        fresh = codes[self.record[codes, FLAGS] & TOUCHED == 0]
        self.record[fresh, FLAGS] |= TOUCHED
        self.touched[self.count : self.count + len(fresh)] = fresh
        self.count += len(fresh)

    def note(self, codes: Ints) -> None:
        """Note, for plain scores, that these objects may have no rows any more."""
        self.values[codes, SCORE] = np.nan
        self.touched[self.count : self.count + len(codes)] = -1 - codes
        self.count += len(codes)

    def forget(self, code: int) -> None:
        """Empty an object's record and free its wide sums; its mark as touched stays."""
        record, flags = self.record[code], int(self.record[code, FLAGS])
        sums = [i for i, kind in enumerate(self.plan[:, 0].tolist()) if kind == SUM]
        for number, i in enumerate(sums):
            slot = int(record[FIRST + 2 * i + 1])
            if number < MOST_SUMS and not flags & (WIDE << number):
                continue
            if number < MOST_SUMS or slot:
                self.idle[0] += 1
                self.idle[self.idle[0]] = slot - (number >= MOST_SUMS)
        record[:KEY] = record[FIRST:] = 0
        record[FLAGS] = flags & TOUCHED

    def bytes(self) -> int:
        return sum(a.nbytes for a in (self.record, self.wide, self.kind, self.older, self.newer))

    def _check(self) -> None:
        counted = np.bincount(self.rows.cell[self.rows.living()], minlength=len(self.record))
        # each record counts the stored rows of its object
        assert np.array_equal(counted[: len(self.record)], self.record[:, COUNT])
        # the record of an object without rows is empty
        assert not self.values[self.record[:, COUNT] == 0, FIRST:][:, ::2].any() or self.chained
        # no object is marked as touched
        assert not (self.record[:, FLAGS] & TOUCHED).any() and self.count == 0


def _own(aggregates: tuple[Aggregate, ...]) -> Ints | None:
    """Return for each stream the sum that its rows are in, and its column; None where a stream has several sums."""
    streams = [a.stream for a in aggregates]
    if len(set(streams)) < len(streams) or not streams:
        return None
    own = np.full((max(streams) + 1, 2), -1, dtype=np.int64)
    for number, a in enumerate(aggregates):
        own[a.stream] = number, a.column
    return own


def _wider(array: npt.NDArray[Any], places: int) -> npt.NDArray[Any]:
    new = np.full((len(array), places), -1, dtype=array.dtype)
    new[:, : array.shape[1]] = array
    return new


@kernel
def chain(
    g: int, a: int, place: int, column: int, link: int, x: Floats, time: Ints, seq: Ints, record: Ints,
    older: Ints, newer: Ints,
) -> None:  # fmt: skip
    """Insert a row into the chain of its object's greatest values.

    The record holds the chain's first and last row, as their places plus 1.
    """
    at = FIRST + 2 * a
    value = x[place, column]
    after, before = -1, record[g, at + 1] - 1
    while before >= 0 and (
        time[before] > time[place] or (time[before] == time[place] and seq[before] > seq[place])
    ):
        if x[before, column] >= value:
            return  # a newer row is as great, so this one never matters
        after, before = before, older[link, before]
    while before >= 0 and x[before, column] <= value:
        before = older[link, before]
    older[link, place], newer[link, place] = before, after
    if before >= 0:
        newer[link, before] = place
    else:
        record[g, at] = place + 1
    if after >= 0:
        older[link, after] = place
    else:
        record[g, at + 1] = place + 1


@kernel
def enter(
    begin: int, places: Places, code: Places, x: Floats, time: Ints, seq: Ints, kind: Kinds, plan: Ints,
    record: Ints, values: Floats, wide: Ints, idle: Ints, older: Ints, newer: Ints, touched: Ints, warm: Ints,
    count: int,
) -> tuple[int, int]:  # fmt: skip
    """Add rows to their objects; stop where wide sums may run out. Return the next index and the touched count."""
    ahead = begin
    for p in range(begin, places.shape[0]):
        if p == ahead:  # independent reads overlap in the memory system
            ahead = min(p + AHEAD, places.shape[0])
            seen = 0
            for i in range(p, ahead):
                seen ^= record[code[places[i]], COUNT]
            warm[0] = seen
        if idle[0] < plan.shape[0]:
            return p, count
        place = places[p]
        g = code[place]
        stream = kind[place] if kind.shape[0] > 0 else 0
        if record[g, COUNT] == 0 or time[place] > record[g, TIME] or (
            time[place] == record[g, TIME] and seq[place] > record[g, SEQ]
        ):  # fmt: skip
            record[g, TIME], record[g, SEQ] = time[place], seq[place]
        record[g, COUNT] += 1
        if not record[g, FLAGS] & TOUCHED:
            record[g, FLAGS] |= TOUCHED
            touched[count] = g
            count += 1
        link, bit = 0, WIDE
        for a in range(plan.shape[0]):
            what, column, own = plan[a, 0], plan[a, 1], plan[a, 2] == stream
            if what == SUM:
                if own:
                    change_sum(g, a, bit, x[place, column], 1, record, values, wide, idle)
                bit = next_bit(bit)
            elif what == MAX:
                if own:
                    chain(g, a, place, column, link, x, time, seq, record, older, newer)
                link += 1
            elif own:
                last = record[g, FIRST + 2 * a] - 1
                if (
                    last < 0
                    or time[place] > time[last]
                    or (time[place] == time[last] and seq[place] > seq[last])
                ):
                    record[g, FIRST + 2 * a] = place + 1
    return places.shape[0], count


@kernel
def leave(
    begin: int, places: Places, code: Places, x: Floats, time: Ints, seq: Ints, kind: Kinds, plan: Ints,
    record: Ints, values: Floats, wide: Ints, idle: Ints, older: Ints, newer: Ints, touched: Ints, warm: Ints,
    count: int,
) -> tuple[int, int]:  # fmt: skip
    """Take rows from their objects, the oldest of each first; stop and return as `enter`."""
    ahead = begin
    for p in range(begin, places.shape[0]):
        if p == ahead:
            ahead = min(p + AHEAD, places.shape[0])
            seen = 0
            for i in range(p, ahead):
                seen ^= record[code[places[i]], COUNT]
            warm[0] = seen
        if idle[0] < plan.shape[0]:
            return p, count
        place = places[p]
        g = code[place]
        stream = kind[place] if kind.shape[0] > 0 else 0
        record[g, COUNT] -= 1
        if not record[g, FLAGS] & TOUCHED:
            record[g, FLAGS] |= TOUCHED
            touched[count] = g
            count += 1
        gone = record[g, COUNT] == 0
        link, bit = 0, WIDE
        for a in range(plan.shape[0]):
            at = FIRST + 2 * a
            what, column, own = plan[a, 0], plan[a, 1], plan[a, 2] == stream
            if what == SUM:
                if gone:
                    if record[g, FLAGS] & bit:
                        idle[0] += 1
                        idle[idle[0]] = record[g, at + 1]
                        record[g, FLAGS] &= ~bit
                    elif bit == 0 and record[g, at + 1] != 0:
                        idle[0] += 1
                        idle[idle[0]] = record[g, at + 1] - 1
                    values[g, at] = values[g, at + 1] = 0.0
                elif own:
                    change_sum(g, a, bit, x[place, column], -1, record, values, wide, idle)
                bit = next_bit(bit)
            elif what == MAX:
                if own and record[g, at] == place + 1:
                    after = newer[link, place]
                    record[g, at] = after + 1
                    if after >= 0:
                        older[link, after] = -1
                    else:
                        record[g, at + 1] = 0
                link += 1
            elif own and record[g, at] == place + 1:
                record[g, at] = 0
    return places.shape[0], count


@kernel
def read(codes: Ints, x: Floats, plan: Ints, record: Ints, values: Floats, wide: Ints, out: Floats) -> None:
    """Write the values of all aggregates for these objects into `out`; an aggregate without rows is 0."""
    for i in range(codes.shape[0]):
        g = codes[i]
        record[g, FLAGS] &= ~TOUCHED
        bit = WIDE
        for a in range(plan.shape[0]):
            at = FIRST + 2 * a
            if plan[a, 0] == SUM:
                if record[g, FLAGS] & bit:
                    values[g, at] = read_wide(wide, record[g, at + 1])
                elif bit == 0:
                    values[g, at] = read_wide(wide, record[g, at + 1] - 1) if record[g, at + 1] != 0 else 0.0
                out[a, i] = values[g, at] + 0.0
                bit = next_bit(bit)
            else:
                place = record[g, at] - 1
                out[a, i] = x[place, plan[a, 1]] if place >= 0 else 0.0
