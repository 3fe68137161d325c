"""The rows of a window, at places that don't move.

An index over a window (a grid, sorted lists) points at rows, so a row must stay where it was put until it leaves. A
*place* is that address: coordinates row by row in `x`, its `time` and `seq` beside it. Rows leave in recency order, so
there is also `order`, a ring that names places from the oldest row to the newest. One array serves both ends: it is
always a permutation of all places, the stretch [head, head + size) of it are the rows in use, and what lies beyond
are the free places. In a stream that comes in order an arrival takes the next entry as it stands and an expiry moves
`head` on by one: nothing else is written, and the places themselves are used round and round in sequence.

A late row is put where its recency belongs: the entries of newer rows move up by one, as far as they must. A row that
is deleted keeps its entry, so that the binary search still finds its way, and is marked GONE; the entries are squeezed
out when they are as many as the rows that live. A row with NaN for a coordinate is in no answer and is not stored.

Cost: O(1) an arrival and an expiry, O(log n) to find a row by its recency, O(s) for a late row with s newer ones.
Memory: 8d + 16 bytes a row for its values, 4 for its place in the order, 4 for the cell that an index puts it in and,
if the rows are linked, 8 for its neighbours there; room doubles as the window grows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.compiling.jit import kernel
from skyband.compiling.state import State, field
from skyband.core.types import Floats, Ints, Recency

Places = npt.NDArray[np.int32]
NOWHERE = -1  # in no cell
GONE = -2  # deleted, its entry in the order still there
FIRST_ROOM = 256


class Rows(State):
    """Stored rows of `width` coordinates each, with their recency order."""

    x: Floats = field("f8[place, axis]")
    time: Ints = field("i8[place]")
    seq: Ints = field("i8[place]")
    cell: Places = field("i4[place]")  # where an index has it: a cell, NOWHERE or GONE
    next: Places = field("i4[linked]")  # the neighbours in that cell, if linked: see grid/base.py
    prev: Places = field("i4[linked]")
    order: Places = field("i4[place]")

    def __init__(self, width: int, linked: bool = True) -> None:
        super().__init__(axis=width)
        self.width, self.linked = width, linked
        self.head = 0
        self.size = 0  # entries of the order in use, those of deleted rows included
        self.dead = 0  # of deleted rows

    def __len__(self) -> int:
        """The rows that live."""
        return self.size - self.dead

    # -- coming --------------------------------------------------------------------------------------------

    def add(self, columns: tuple[Floats, ...], time: Ints, seq: Ints) -> Places:
        """Store rows that come in recency order, oldest first; the places of those without a NaN, in that order."""
        self.reserve(len(time))
        places = np.empty(len(time), dtype=np.int32)
        count = append(
            tuple(_sealed(column) for column in columns), _sealed(time), _sealed(seq),
            self.x, self.time, self.seq, self.cell, self.order, self.head, self.size, places,
        )  # fmt: skip
        if count and self.size and self.recency(self.size - 1) > self._recency_at(int(places[0])):
            merge(self.time, self.seq, self.order, self.head, self.size, places[:count])
        self.size += int(count)
        return places[:count]

    def reserve(self, more: int) -> None:
        """Room for so many rows more; places stay, arrays may be new ones."""
        room = len(self.order)
        if self.size + more <= room:
            return
        wanted = max(FIRST_ROOM, 1 << (self.size + more - 1).bit_length())
        order = np.roll(self.order, -self.head)
        self.grow(place=wanted, linked=wanted * self.linked)
        self.cell[room:] = NOWHERE
        self.order[:room] = order
        self.order[room:] = np.arange(room, wanted, dtype=np.int32)
        self.head = 0

    # -- going ---------------------------------------------------------------------------------------------

    def expire(self, horizon: Recency) -> Places:
        """Forget the rows before the horizon; the places of those that lived, still readable until rows are added."""
        count = self.position(horizon)
        places = self.entries(0, count)
        if self.dead:
            lives = self.cell[places] != GONE
            self.dead -= int(count - np.count_nonzero(lives))
            places = places[lives]
        self.head = (self.head + count) & (len(self.order) - 1) if count else self.head
        self.size -= count
        return places

    def remove(self, places: Places) -> None:
        """Delete rows by place. Whoever has them in an index takes them out of it first."""
        self.cell[places] = GONE
        self.dead += len(places)
        if self.dead > 64 and 2 * self.dead > self.size:
            self._squeeze()

    def _squeeze(self) -> None:
        """Take the entries of deleted rows out of the order; their places are free from now on."""
        gone = np.empty(self.dead, dtype=np.int32)
        self.size = int(squeeze(self.order, self.head, self.size, self.cell, gone))
        self.dead = 0

    # -- asking --------------------------------------------------------------------------------------------

    def position(self, horizon: Recency) -> int:
        """How many entries of the order lie before the horizon."""
        return int(
            before(self.time, self.seq, self.order, self.head, self.size, horizon.time, horizon.seq)
        )  # fmt: skip

    def entries(self, begin: int, end: int) -> Places:
        """The places from one position of the order to another, as a copy."""
        first = self.head + begin
        last = self.head + end
        room = len(self.order)
        if last <= room:
            return self.order[first:last].copy()
        if first >= room:
            return self.order[first - room : last - room].copy()
        return np.concatenate([self.order[first:], self.order[: last - room]])

    def living(self, horizon: Recency | None = None) -> Places:
        """The places of the rows at or after a horizon (default: of all), oldest first."""
        places = self.entries(0 if horizon is None else self.position(horizon), self.size)
        return places[self.cell[places] != GONE] if self.dead else places

    def find(self, time: Ints, seq: Ints) -> Places:
        """The places of the rows with these recencies, those that are not stored left out."""
        places = np.empty(len(time), dtype=np.int32)
        count = locate(
            time, seq, self.time, self.seq, self.cell, self.order, self.head, self.size, places
        )  # fmt: skip
        return np.unique(places[:count])

    def by_seq(self, seq: Ints) -> Places | None:
        """The places of stored rows by seq alone: found at once where rows came in order; None where they did not."""
        mask = len(self.order) - 1
        low, high = np.zeros(len(seq), dtype=np.int64), np.full(len(seq), self.size)
        for _ in range(self.size.bit_length()):
            middle = (low + high) // 2
            older = (low < high) & (self.seq[self.order[(self.head + middle) & mask]] < seq)
            low, high = np.where(older, middle + 1, low), np.where(older | (low >= high), high, middle)
        places = (
            self.order[(self.head + np.minimum(low, self.size - 1)) & mask] if self.size else self.order[:0]
        )
        return places if np.array_equal(self.seq[places], seq) else None

    def recency(self, position: int) -> tuple[int, int]:
        """Of the row at a position of the order."""
        return self._recency_at(int(self.order[(self.head + position) & (len(self.order) - 1)]))

    def _recency_at(self, place: int) -> tuple[int, int]:
        return int(self.time[place]), int(self.seq[place])

    def values(self, places: Places) -> tuple[tuple[Floats, ...], Ints, Ints]:
        """The columns, times and seqs of rows."""
        x = self.x[places]
        columns = tuple(np.ascontiguousarray(x[:, axis]) for axis in range(self.width))
        return columns, self.time[places], self.seq[places]

    def bytes(self) -> int:
        return self.nbytes

    def _check(self) -> None:
        super()._check()
        room = len(self.order)
        # the order names each place once
        assert np.array_equal(np.sort(self.order), np.arange(room))
        assert 0 <= self.dead <= self.size <= room and (room == 0 or 0 <= self.head < room)
        places = self.entries(0, self.size)
        assert int(np.count_nonzero(self.cell[places] == GONE)) == self.dead
        # recency order, strictly
        time, seq = self.time[places], self.seq[places]
        assert bool(np.all((time[1:] > time[:-1]) | ((time[1:] == time[:-1]) & (seq[1:] > seq[:-1]))))
        assert not np.isnan(self.x[places]).any()


def _sealed(array: Any) -> Any:
    """A read-only view, so that kernels meet one type of array whoever calls."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


@kernel
def append(
    columns: Any, time: Ints, seq: Ints, x: Floats, times: Ints, seqs: Ints, cell: Places,
    order: Places, head: int, size: int, places: Places,
) -> int:  # fmt: skip
    """Write rows to the next free places, as if none were late; returns how many had no NaN."""
    mask = order.shape[0] - 1
    width = x.shape[1]
    count = 0
    for row in range(time.shape[0]):
        place = order[(head + size + count) & mask]
        sound = True
        for axis in range(width):
            value = columns[axis][row]
            x[place, axis] = value
            sound &= value == value
        if not sound:
            continue
        times[place] = time[row]
        seqs[place] = seq[row]
        cell[place] = NOWHERE
        places[count] = place
        count += 1
    return count


@kernel
def merge(times: Ints, seqs: Ints, order: Places, head: int, size: int, places: Places) -> None:
    """Put the new places, which lie behind the `size` entries of the order, among them where they belong."""
    mask = order.shape[0] - 1
    left = size - 1
    write = size + places.shape[0] - 1
    for i in range(places.shape[0] - 1, -1, -1):
        place = places[i]
        while left >= 0:
            other = order[(head + left) & mask]
            if times[other] < times[place] or (times[other] == times[place] and seqs[other] < seqs[place]):
                break
            order[(head + write) & mask] = other
            left -= 1
            write -= 1
        order[(head + write) & mask] = place
        write -= 1


@kernel
def squeeze(order: Places, head: int, size: int, cell: Places, gone: Places) -> int:
    """Move the entries of deleted rows behind all others; how many those are."""
    mask = order.shape[0] - 1
    write, left = 0, 0
    for i in range(size):
        place = order[(head + i) & mask]
        if cell[place] == GONE:
            gone[left] = place
            left += 1
        else:
            order[(head + write) & mask] = place
            write += 1
    for i in range(left):
        order[(head + write + i) & mask] = gone[i]
    return write


@kernel
def before(
    times: Ints, seqs: Ints, order: Places, head: int, size: int, horizon_time: int, horizon_seq: int
) -> int:
    """How many entries of the order are older than the horizon."""
    mask = order.shape[0] - 1
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        place = order[(head + middle) & mask]
        if times[place] < horizon_time or (times[place] == horizon_time and seqs[place] < horizon_seq):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def locate(
    time: Ints, seq: Ints, times: Ints, seqs: Ints, cell: Places, order: Places, head: int, size: int, places: Places
) -> int:  # fmt: skip
    """The places of living rows with these recencies; returns how many there are."""
    mask = order.shape[0] - 1
    count = 0
    for i in range(time.shape[0]):
        at = before(times, seqs, order, head, size, time[i], seq[i])
        if at < size:
            place = order[(head + at) & mask]
            if times[place] == time[i] and seqs[place] == seq[i] and cell[place] != GONE:
                places[count] = place
                count += 1
    return count
