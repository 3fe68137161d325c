"""The recent buffer: the newest rows of a stream, in recency order, once for all queries that delay rows.

Rows come at the end and leave at the front; a late row goes where its recency belongs. Columns lie side by side, so
that any stretch can be scored. What leaves in a step stays readable until the next one: [left, head) is what has just
left, [head, end) what is there, and the rows of the step itself are those from `came` on (all later ones, where some
came late; `fresh` tells them apart).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from skyband.compiling.jit import kernel
from skyband.core.order import first_inside
from skyband.core.types import LOWEST, Floats, Ints, Recency
from skyband.query.window import Rows, Window

STAGE = 64  # rows of a stage at least
STAGES = 4  # or this part of the buffer


class Recent:
    """Rows of some columns, oldest first; `edge` is the recency at which the buffer begins."""

    def __init__(self, width: int) -> None:
        self.columns: list[Floats] = [np.empty(0) for _ in range(width)]
        self.time = np.empty(0, dtype=np.int64)
        self.seq = np.empty(0, dtype=np.int64)
        self.left = self.head = self.came = self.end = 0
        self._late: Any = (
            None  # of the rows from `came` on, which came in this step, where others are among them
        )
        self.edge = LOWEST
        self.passed = (
            0  # by how much in all they have moved down: their place and this is a number that stays
        )
        # for each step with rows in the buffer: the newest of its rows, and where the buffer began when they came
        self.steps: deque[tuple[Recency, Recency]] = deque()

    def __len__(self) -> int:
        return self.end - self.head

    @property
    def relied(self) -> Recency:
        """No row here was refused because of a row from before this."""
        return self.steps[0][1] if self.steps else self.edge

    def move(self, columns: tuple[Floats, ...], time: Ints, seq: Ints, edge: Recency) -> Iterator[None]:
        """A step: rows come (oldest first), and what is older than the edge leaves. A large batch does so in stages, so
        that no more than a part of the buffer is replaced at once; after each one the caller looks at what it did."""
        self._reserve(len(time))
        begin, end = self.end, self.end + len(time)
        for mine, theirs in zip(self.columns, columns, strict=True):
            mine[begin:end] = theirs
        self.time[begin:end], self.seq[begin:end] = time, seq
        edge = max(self.edge, edge)
        late = bool(len(time)) and begin > self.head and self._recency(begin) < self._recency(begin - 1)
        keep = end - int(first_inside(self.time, self.seq, self.head, end, *edge))
        stage = max(STAGE, keep // STAGES)
        if not late:
            while end - begin > stage:
                begin += stage
                head = min(max(begin - keep, self.head), begin - 1)
                yield from self._stage(begin, max(self.edge, min(edge, self._recency(head))))
        yield from self._stage(end, edge, late)

    def reopen(self) -> None:
        """Rows from before the edge may come after all; who made whom wait is not known any more."""
        newest = max((newest for newest, _ in self.steps), default=None)
        self.edge = LOWEST
        self.steps.clear()
        if newest is not None:
            self.steps.append((newest, LOWEST))

    def _stage(self, end: int, edge: Recency, late: bool = False) -> Iterator[None]:
        self.left, self.came, self.end, self.edge = self.head, self.end, end, edge
        if late:
            self._sort()
        newest = self._recency(end - 1) if end > self.came else LOWEST
        self.head = int(first_inside(self.time, self.seq, self.left, end, *edge))
        if end > self.came:
            self.steps.append((newest, edge))
        while self.steps and self.steps[0][0] < edge:
            self.steps.popleft()
        yield

    def _recency(self, place: int) -> Recency:
        return Recency(self.time.item(place), self.seq.item(place))

    def _sort(self) -> None:
        """Put late rows into their places; `came` is the first of them."""
        first = int(first_inside(self.time, self.seq, self.left, self.came, *self._recency(self.came)))
        part = slice(first, self.end)
        order = np.lexsort((self.seq[part], self.time[part]))
        for array in (*self.columns, self.time, self.seq):
            array[part] = array[part][order]
        self._late = order >= self.came - first
        self.came = first

    def fresh(self) -> Any:
        """Of the rows from `came` on, which came in this step; None: all of them."""
        return self._late

    def _reserve(self, more: int) -> None:
        """Room for more rows: what has left goes, and arrays grow if that is not enough."""
        self._late = None
        if self.end + more <= len(self.time):
            return
        self.passed += self.head
        size = len(self)
        if 2 * (size + more) <= len(self.time):  # no new pages: the rows move down in the arrays they are in
            for array in (*self.columns, self.time, self.seq):
                array[:size] = array[self.head : self.end]
            self.left, self.head, self.came, self.end = 0, 0, size, size
            return
        room = max(256, 2 * (size + more) + more)
        for place, column in enumerate(self.columns):
            self.columns[place] = _moved(column, self.head, self.end, room)
        self.time = _moved(self.time, self.head, self.end, room)
        self.seq = _moved(self.seq, self.head, self.end, room)
        self.left, self.head, self.came, self.end = 0, 0, size, size

    def since(self, horizon: Recency) -> int:
        """The first row at or after a horizon."""
        return int(first_inside(self.time, self.seq, self.head, self.end, *horizon))

    def part(self, begin: int, end: int) -> tuple[Floats, ...]:
        return tuple(column[begin:end] for column in self.columns)

    def bytes(self) -> int:
        return int(sum(array.nbytes for array in (*self.columns, self.time, self.seq)))

    def dump(self) -> dict[str, Any]:
        part = slice(self.head, self.end)
        steps = np.array([[*newest, *edge] for newest, edge in self.steps], dtype=np.int64).reshape(-1, 4)
        blob: dict[str, Any] = {f"column_{i}": column[part].copy() for i, column in enumerate(self.columns)}
        return {
            **blob,
            "time": self.time[part].copy(),
            "seq": self.seq[part].copy(),
            "steps": steps,
            "edge": np.array(self.edge, dtype=np.int64),
        }

    def load(self, blob: dict[str, Any]) -> None:
        self.columns = [blob[f"column_{i}"].copy() for i in range(len(self.columns))]
        self.time, self.seq = blob["time"].copy(), blob["seq"].copy()
        self.left, self.head, self.came, self.end = 0, 0, len(self.time), len(self.time)
        self.steps = deque((Recency(a, b), Recency(c, d)) for a, b, c, d in blob["steps"].tolist())
        self.edge = Recency(*blob["edge"].tolist())

    def _check(self) -> None:
        # in place, and in recency order, strictly
        assert 0 <= self.left <= self.head <= self.end <= len(self.time)
        time, seq = self.time[self.head : self.end], self.seq[self.head : self.end]
        assert bool(np.all((time[1:] > time[:-1]) | ((time[1:] == time[:-1]) & (seq[1:] > seq[:-1]))))
        # nothing is older than the edge, and some step accounts for every row
        assert not len(self) or Recency(int(time[0]), int(seq[0])) >= self.edge
        assert not len(self) or max(newest for newest, _ in self.steps) >= Recency(
            int(time[-1]), int(seq[-1])
        )
        # edges only move on
        edges = [edge for _, edge in self.steps]
        assert edges == sorted(edges) and all(edge <= self.edge for edge in edges)


@kernel
def begins_after(
    slots: Ints, time: Ints, seq: Ints, relied_time: int, relied_seq: int, floor_time: Ints, floor_seq: Ints, after: Any
) -> int:  # fmt: skip
    """Which windows, given by slot and beginning, begin after what was relied on and after their slots' floors; how
    many."""
    count = 0
    for w in range(slots.shape[0]):
        late = time[w] > relied_time or (time[w] == relied_time and seq[w] > relied_seq)
        if late:
            slot = slots[w]
            late = time[w] > floor_time[slot] or (time[w] == floor_time[slot] and seq[w] > floor_seq[slot])
        after[w] = late
        count += late
    return count


def _moved(array: Any, begin: int, end: int, room: int) -> Any:
    new = np.empty(room, dtype=array.dtype)
    new[: end - begin] = array[begin:end]
    return new


def buffer_rows(buffer: float, n: int) -> int:
    """How many rows the buffer of a window of n rows has: at most half of them, and one where n is odd."""
    length = int(buffer * n) if buffer < 1 else int(buffer)
    return max(1, min(length, (n + 1) // 2))


def buffer_time(buffer: float, nanoseconds: int) -> int:
    """How long the buffer of a time window is: at most half as long."""
    length = int(buffer * nanoseconds) if buffer < 1 else int(buffer * 1e9)
    return max(1, min(length, nanoseconds // 2))


def too_long(buffer: float, window: Window) -> str | None:
    """Why a buffer doesn't fit a window, or None."""
    if buffer <= 0:
        return "its buffer needs at least one row, or a part of the window such as buffer = 0.05"
    if buffer < 1:
        return None if buffer <= 0.5 else f"a buffer of {buffer} of the window is more than half of it"
    if isinstance(window, Rows):
        most = (window.n + 1) // 2
        return (
            None
            if buffer <= most
            else f"a buffer of {buffer:,.0f} rows is more than half of the window: at most {most:,}"
        )
    most_seconds = window.nanoseconds / 2e9
    return (
        None
        if buffer <= most_seconds
        else (f"a buffer of {buffer:g} seconds is more than half of the window: at most {most_seconds:g}")
    )
