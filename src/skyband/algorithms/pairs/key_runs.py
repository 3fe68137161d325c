"""Rows in runs by colour.

Where two rows make a pair only if they agree in a column (`a.c = b.c`), a new row has no pairs with rows of other
colours, and its loop should not step over them. So each colour's rows lie one after the other, in order of recency, in
a stretch of a common pool with some room behind them: partners are one contiguous range, which suits vector
instructions and the cache. A stretch that is full moves down over its expired rows, or to the pool's end with twice the
room; a pool that is full is packed again. Both cost a constant per row in the long run. Without a colour there is one
run.

Rows are numbered in order of recency. A late row takes the number of the first newer row, and all newer rows
move up by one: that is one pass over the numbers, no more than the pairs of a row cost anyway.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from skyband.compiling.jit import kernel
from skyband.core.types import Ints

_SMALL = 4  # room for rows of a new colour


@kernel
def shift(column: Any, at: int, end: int) -> None:
    """Move the values in [at, end) up by one place."""
    for i in range(end - at):
        to = np.uint64(end - i)
        column[to] = column[to - np.uint64(1)]


@kernel
def move_up(numbers: Ints, number: int) -> None:
    """Increase all numbers from this one on by one."""
    for i in range(numbers.shape[0]):
        numbers[i] += numbers[i] >= number


class Pool:
    """Runs of rows with their columns: `number` and those that `kinds` names."""

    def __init__(self, kinds: list[Any]) -> None:
        self.columns: list[Any] = [np.empty(0, dtype=kind) for kind in (np.int64, *kinds)]
        self.end = 0  # the end of the part that is in use
        self.start = np.empty(0, dtype=np.int64)  # of each run's stretch
        self.room = np.empty(0, dtype=np.int64)
        self.head = np.empty(0, dtype=np.int64)  # its first live row
        self.tail = np.empty(0, dtype=np.int64)

    @property
    def number(self) -> Ints:
        return np.asarray(self.columns[0])

    def reach(self, runs: int) -> None:
        """Grow to at least so many runs."""
        more = runs - len(self.start)
        if more > 0:
            for name, value in (("start", self.end), ("head", self.end), ("tail", self.end), ("room", 0)):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.full(more, value, dtype=np.int64)]))

    def append(self, run: Ints, values: list[Any]) -> Ints:
        """Append rows, oldest first, each at the end of its run. `values` are the columns, numbers first. Return
        places."""
        counts = np.bincount(run, minlength=len(self.start))
        self._make_room(counts)
        places = self.tail[run] + _ranks(run)
        for column, new in zip(self.columns, values, strict=True):
            column[places] = new
        self.tail += counts
        return places

    def oldest(self, run: Ints) -> Ints:
        """Return the places of the oldest rows, given their runs, oldest first."""
        return np.asarray(self.head[run] + _ranks(run))

    def expire(self, run: Ints) -> None:
        """Remove the oldest rows, given their runs."""
        self.head += np.bincount(run, minlength=len(self.start))

    def insert(self, run: int, number: int, values: list[Any]) -> int:
        """Insert a late row under this number into its run; newer rows move up. Return its place."""
        move_up(self.columns[0], number)  # also numbers of expired rows, which are never read
        counts = np.zeros(len(self.start), dtype=np.int64)
        counts[run] = 1
        self._make_room(counts)
        head, tail = int(self.head[run]), int(self.tail[run])
        at = head + int(np.searchsorted(self.columns[0][head:tail], number))
        for column, new in zip(self.columns, values, strict=True):
            shift(column, at, tail)
            column[at] = new
        self.tail[run] += 1
        return at

    def _make_room(self, counts: Ints) -> None:
        for run in np.flatnonzero(self.tail + counts > self.start + self.room).tolist():
            head, live = int(self.head[run]), int(self.tail[run] - self.head[run])
            want = live + int(counts[run])
            start, room = int(self.start[run]), int(self.room[run])
            if want <= room and head - start >= live:
                self._move(run, start, room)
                continue
            room = max(_SMALL, 2 * want)
            if self.end + room > len(self.columns[0]):
                self._pack(counts)
                return
            self._move(run, self.end, room)
            self.end += room

    def _move(self, run: int, to: int, room: int) -> None:
        head, tail = int(self.head[run]), int(self.tail[run])
        for column in self.columns:
            column[to : to + tail - head] = column[head:tail]
        self.start[run] = self.head[run] = to
        self.tail[run], self.room[run] = to + tail - head, room

    def _pack(self, counts: Ints) -> None:
        """Copy all runs into new memory, with room for the new rows and as much again."""
        live = self.tail - self.head
        used = live + counts > 0
        rooms = np.where(used, np.maximum(_SMALL, 2 * (live + counts)), 0)
        starts = np.concatenate([[0], np.cumsum(rooms)[:-1]])
        total = int(rooms.sum())
        size = total if len(rooms) == 1 else total + total // 2 + 64
        source = np.repeat(self.head - np.concatenate([[0], np.cumsum(live)[:-1]]), live) + np.arange(
            live.sum()
        )
        target = np.repeat(starts - np.concatenate([[0], np.cumsum(live)[:-1]]), live) + np.arange(live.sum())
        for i, column in enumerate(self.columns):
            packed = np.zeros(size, dtype=column.dtype)
            packed[target] = column[source]
            self.columns[i] = packed
        self.start, self.head, self.tail, self.room = starts, starts.copy(), starts + live, rooms
        self.end = total

    def places(self) -> Ints:
        """Return the places of all live rows, oldest first."""
        live = self.tail - self.head
        found = np.repeat(self.head - np.concatenate([[0], np.cumsum(live)[:-1]]), live) + np.arange(
            live.sum()
        )
        return np.asarray(found[np.argsort(self.columns[0][found], kind="stable")])

    def nbytes(self) -> int:
        return sum(int(column.nbytes) for column in self.columns)

    def _check(self) -> None:
        for run in range(len(self.start)):
            # each run is inside its stretch, and its rows are in order of recency
            assert self.start[run] <= self.head[run] <= self.tail[run] <= self.start[run] + self.room[run]
            assert np.all(np.diff(self.columns[0][self.head[run] : self.tail[run]]) > 0)


def _ranks(run: Ints) -> Ints:
    """Return each row's rank within its run."""
    if not len(run) or (run[0] == run[-1] and not np.any(run != run[0])):
        return np.arange(len(run))
    order = np.argsort(run, kind="stable")
    sorted_runs = run[order]
    begins = np.flatnonzero(np.concatenate([[True], sorted_runs[1:] != sorted_runs[:-1]]))
    lengths = np.diff(np.concatenate([begins, [len(run)]]))
    ranks = np.empty(len(run), dtype=np.int64)
    ranks[order] = np.arange(len(run)) - np.repeat(begins, lengths)
    return ranks


class Codes:
    """Small numbers for values: equal for equal values, and free again when no row has the value any more."""

    def __init__(self) -> None:
        self.known: dict[Any, int] = {}
        self.values: list[Any] = []
        self.counts: list[int] = []
        self.free: list[int] = []

    def encode(self, columns: list[pa.Array]) -> Ints:
        """Return a code for each row of some columns together."""
        index, values = _distinct(columns)
        counts = np.bincount(index, minlength=len(values)).tolist()
        codes = [self._code(value, count) for value, count in zip(values, counts, strict=True)]
        return np.array(codes, dtype=np.int64)[index]

    def _code(self, value: Any, count: int) -> int:
        code = self.known.get(value)
        if code is None:
            if self.free:
                code = self.free.pop()
            else:
                code = len(self.values)
                self.values.append(None)
                self.counts.append(0)
            self.known[value], self.values[code] = code, value
        self.counts[code] += count
        return code

    def release(self, codes: Ints) -> None:
        """Count rows with these codes as removed."""
        found, counts = np.unique(codes, return_counts=True)
        for code, count in zip(found.tolist(), counts.tolist(), strict=True):
            self.counts[code] -= count
            if not self.counts[code]:
                del self.known[self.values[code]]
                self.values[code] = None
                self.free.append(code)

    def dump(self, types: list[pa.DataType]) -> pa.Table | None:
        """Return the values that rows have, with their codes."""
        if not types:
            return None
        codes = sorted(self.known.values())
        columns: list[list[Any]] = [[] for _ in types]
        for code in codes:
            value = self.values[code]
            for column in reversed(columns[1:]):
                value, last = value
                column.append(last)
            columns[0].append(value)
        arrays = [pa.array(values, _kept_type(type_)) for values, type_ in zip(columns, types, strict=True)]
        names = [str(i) for i in range(len(types))]
        return pa.table([pa.array(codes, pa.int64()), *arrays], names=["code", *names])

    def load(self, table: pa.Table, codes: Ints) -> None:
        """Restore what `dump` returned, given the codes of all rows."""
        columns = [column.to_pylist() for column in table.columns]
        size = max(columns[0], default=-1) + 1
        counts = np.bincount(codes, minlength=size)
        self.values, self.counts = [None] * size, [int(count) for count in counts]
        for code, *parts in zip(*columns, strict=True):
            value = parts[0]
            for part in parts[1:]:
                value = (value, part)
            self.known[value], self.values[code] = code, value
        self.free = [code for code in range(size) if self.values[code] is None]


def _kept_type(type_: pa.DataType) -> pa.DataType:
    """Return the type by which values of a type are compared."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    return pa.int64() if pa.types.is_timestamp(type_) or pa.types.is_date64(type_) else type_


def _distinct(columns: list[pa.Array]) -> tuple[Ints, list[Any]]:
    """Return for each row the index of its values among the distinct ones, and the distinct values."""
    index: Ints | None = None
    values: list[Any] = []
    for column in columns:
        one, own = _of_one(column)
        if index is None:
            index, values = one, own
            continue
        both, index = np.unique(index * len(own) + one, return_inverse=True)
        values = [(values[pair // len(own)], own[pair % len(own)]) for pair in both.tolist()]
    assert index is not None
    return index.astype(np.int64), values


def _of_one(column: pa.Array) -> tuple[Ints, list[Any]]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    column = column.cast(_kept_type(column.type))
    found = column.dictionary_encode()
    values = found.dictionary.to_pylist()
    if pa.types.is_floating(column.type):
        values = [value + 0.0 for value in values]  # -0.0 equals 0.0, as keys and as codes
    return np.asarray(found.indices.to_numpy(zero_copy_only=False), dtype=np.int64), values
