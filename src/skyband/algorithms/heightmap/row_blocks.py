"""The window's rows in blocks, in order of recency, and a reservoir of each block's better rows.

Rows lie column by column in blocks of a fixed size, one after the other in order of arrival; the blocks make a ring
that grows with the window. A row costs its columns and nothing more: its seq is the block's first one plus its
place as long as seqs are consecutive, and times are stored only if the stream has some.

A row that arrives late (older than a row already stored) goes to the present block like any other; the ring is *mixed*
then, until the window has left that block, and whoever needs rows in order of recency compares recencies. A block is
removed when its newest row has left all windows. So a row that is late by more than a quarter of the rows stored, or
comes after one that was far ahead, goes to a pen of its own; a search of the blocks also reads the pen.

**The reservoir.** Each block has its better rows, those that passed the outer height map on arrival, in front: a
few in a hundred, in order, each of which has changed places with the row that was there. So no row is kept twice
(except in float32, where lists run short all the time: float32_filter.py), and `index` contains in two bytes the place
of arrival of each. A reader that needs a block's rows in order puts them in order (`straight`) and back again; `find`
computes from `index` where a row is otherwise. `epoch` names the thresholds of the map: all rows of the block that
score at least floors[epoch, slot] for a query are in the reservoir. So a query that has run short reads one row in
forty instead of all. A block whose better rows were too many has no reservoir (epoch -1), and is searched as a whole.
Or its reservoir was made under the map raised by some steps (`rise`), and holds the rows that score at least
floors[epoch, slot] + rise * slope[slot].
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from skyband.algorithms.heightmap.ingest import (
    BASE,
    BRIEF,
    CLOSED,
    COUNT,
    EDGE_SEQ,
    EDGE_TIME,
    FIRST,
    FIRST_TIME,
    FOLLOW,
    LAST_TIME,
    META,
    MIXED,
    NEED,
    NEXT,
    NOTHING,
    ORDERED,
    PLAIN,
    RESERVED,
    SEQS,
    STATE,
    TIMED,
    TIMES,
    TRIED,
    WANTED,
    WIDER,
    front,
    straighten,
)  # fmt: skip
from skyband.algorithms.heightmap.maps import Places
from skyband.compiling.array_version import Renewed
from skyband.compiling.jit import kernel
from skyband.compiling.memory import arrays_of, whole_bytes
from skyband.compiling.state import aligned
from skyband.core.types import LOWEST, Floats, Ints, Recency

CHUNK = 32  # a reservoir has room for a multiple of so many rows
MOST = 1 << 16  # most rows in a block: an index has two bytes


@kernel
def seq_at(b: int, i: int, seqs: Ints, meta: Ints) -> int:
    """Return the seq of a stored row."""
    return int(meta[b, 1] + i if meta[b, 1] >= 0 else seqs[b, i])


@kernel
def time_at(b: int, i: int, times: Ints) -> int:
    """Return the time of a stored row: 0 where the stream has none."""
    return times[b, i] if times.shape[0] > 0 else 0


@kernel
def find(b: Ints, at: Ints, index: Places, meta: Ints) -> None:
    """Replace places of arrival by the places where the rows are now.

    A row of the reservoir is in front. Any other row is where it arrived, unless a row of the reservoir took that
    place: then it is at that one's place of arrival, or, if that was taken too, further along this chain.
    """
    for r in range(len(at)):
        low, high = 0, meta[b[r], RESERVED]
        while low < high:
            middle = (low + high) // 2
            if index[b[r], middle] < at[r]:
                low = middle + 1
            else:
                high = middle
        if low < meta[b[r], RESERVED] and index[b[r], low] == at[r]:
            at[r] = low
            continue
        while at[r] < meta[b[r], RESERVED]:
            at[r] = index[b[r], at[r]]


@kernel
def came_at(b: int, at: int, held: int, index: Places) -> int:
    """Return the place of arrival of the row that is at this place now; the inverse of `find`."""
    if at < held:
        return int(index[b, at])
    while True:
        low, high = 0, held
        while low < high:
            middle = (low + high) // 2
            if index[b, middle] < at:
                low = middle + 1
            else:
                high = middle
        if low == held or index[b, low] != at:
            return int(at)
        at = low  # a row of the reservoir arrived here, and this one has its place now


class Blocks(Renewed):
    """A ring of blocks with their reservoirs, and the pen."""

    def __init__(self, axes: int, block: int) -> None:
        self.axes = axes
        self.block = block
        self.reserved = max(CHUNK, block // 8 // CHUNK * CHUNK)
        self.room = 4 * self.reserved  # more than that where lists search deep
        self.state = np.zeros(STATE, dtype=np.int64)  # see ingest.py
        self.state[PLAIN] = self.state[ORDERED] = 1
        self.state[FOLLOW] = self.state[CLOSED] = self.state[MIXED] = -1
        self.pool = np.empty((0, axes, block), dtype=np.float64)
        self.times = np.empty((0, block), dtype=np.int64)
        self.seqs = np.empty((0, block), dtype=np.int64)
        self.meta = np.zeros((0, META), dtype=np.int64)
        # as wide as the largest reservoir needs: see `make_room`
        self.index = np.empty(
            (0, min(self.room, self.reserved // 4 // CHUNK * CHUNK + CHUNK)), dtype=np.uint16
        )
        self.brief = np.empty((0, axes, 0), dtype=np.float32)  # reservoirs again: see `keep_brief`
        self._empty_pen()

    def _empty_pen(self) -> None:
        self.late = 0
        self.late_pool = np.empty((1, self.axes, 0), dtype=np.float64)
        self.late_time = np.empty((1, 0), dtype=np.int64)
        self.late_seq = np.empty((1, 0), dtype=np.int64)
        self.late_meta = np.full((1, META), -1, dtype=np.int64)

    @property
    def first(self) -> int:
        """The number of the oldest block."""
        return int(self.state[FIRST])

    @property
    def next(self) -> int:
        """The number after the newest block's."""
        return int(self.state[NEXT])

    @property
    def timed(self) -> bool:
        return bool(self.state[TIMED])

    @property
    def plain(self) -> bool:
        """Whether all seqs have been consecutive so far."""
        return bool(self.state[PLAIN])

    @property
    def mixed(self) -> bool:
        """Whether some block has a row that is older than an earlier one."""
        return bool(self.state[MIXED] >= self.state[FIRST])

    def place(self, number: int) -> int:
        return number % max(1, len(self.pool))

    # -- rows in -------------------------------------------------------------------------------------------

    def supply(self) -> bool:
        """Provide what `take_in` needs to resume; return whether it needed anything."""
        need = self.state[NEED]
        if need == WIDER:
            self.widen(max(2, len(self.pool) // 16))
        elif need == TIMES:
            self.keep_times()
        elif need == SEQS:
            self.state[PLAIN] = 0
            self.seqs = np.zeros((len(self.pool), self.block), dtype=np.int64)
        return bool(need != NOTHING)

    def keep_times(self) -> None:
        """Store times from now on; the present rows get 0."""
        self.state[TIMED] = 1
        self.times = np.zeros((len(self.pool), self.block), dtype=np.int64)

    def widen(self, more: int) -> None:
        """Add blocks to the ring: each keeps its number and moves to its new place."""
        old, new = len(self.pool), len(self.pool) + more
        numbers = np.arange(self.first, self.next)
        source, target = numbers % max(1, old), numbers % new
        for name in ("pool", "times", "seqs", "meta", "index"):
            array = getattr(self, name)
            if (name == "times" and not self.timed) or (name == "seqs" and self.plain):
                continue
            wider = aligned((new, *array.shape[1:]), array.dtype)
            wider[target] = array[source]
            setattr(self, name, wider)
        self.keep_brief(False)  # it is made again, as wide as the ring, when it is needed

    def make_room(self, rows: int) -> None:
        """Make room for so many rows in every reservoir, and some more, up to the limit."""
        if self.index.shape[1] < min(rows, self.room):
            if rows > self.reserved // 2:  # a caller that needs so much will soon need more
                rows = max(rows, 2 * self.index.shape[1])
            wanted = min(self.room, (rows + rows // 16) // CHUNK * CHUNK + CHUNK)
            self.index = np.pad(self.index, ((0, 0), (0, wanted - self.index.shape[1])))

    def keep_brief(self, wanted: bool) -> None:
        """Make room for reservoirs in float32, which are scanned in a third of the time, or give it up.

        A scan writes a block's float32 rows (float32_filter.py); meta[b, BRIEF] is their number. A reservoir that has
        outgrown the room is read in float64, until the next call.
        """
        longest = int(self.meta[:, RESERVED].max(initial=0)) if wanted else 0
        ring, _, room = self.brief.shape
        if (ring == len(self.pool) and longest <= room <= 2 * longest + CHUNK) or room == longest == 0:
            return
        room = (longest + longest // 4) // CHUNK * CHUNK + CHUNK if wanted else 0
        self.brief = aligned((len(self.pool) if wanted else 0, self.axes, room), np.float32)
        self.meta[:, BRIEF] = 0

    def lacking(self) -> Ints:
        """Return the blocks whose reservoirs were refused room and may have it, and make that room."""
        wanted = self.meta[:, WANTED]
        if not wanted.any():  # usually
            return np.empty(0, dtype=np.int64)
        found = np.flatnonzero((wanted > 0) & (wanted <= self.room))
        if len(found):
            self.make_room(int(wanted[found].max()))
            self.meta[found, TRIED] = -1
        wanted[:] = 0
        return found

    def pen(self, rows: int) -> int:
        """Make room for late rows; return where they begin in the pen. They count as stored; `admit` writes them."""
        at = self.late
        if at + rows > self.late_pool.shape[2]:
            room = max(64, 2 * (at + rows))
            for name in ("late_pool", "late_time", "late_seq"):
                array = getattr(self, name)
                wider = np.zeros((*array.shape[:-1], room), dtype=array.dtype)
                wider[..., :at] = array[..., :at]
                setattr(self, name, wider)
        self.late = at + rows
        return at

    # -- rows out ------------------------------------------------------------------------------------------

    def drop_late(self) -> None:
        """Remove the late rows that every window has left, if they are many."""
        stay = self._late_inside(Recency(int(self.state[EDGE_TIME]), int(self.state[EDGE_SEQ])))
        if not len(stay):
            self._empty_pen()
        elif 2 * len(stay) < self.late:
            for array in (self.late_pool, self.late_time, self.late_seq):
                array[..., : len(stay)] = array[..., stay]
            self.late = len(stay)

    def _late_inside(self, horizon: Recency) -> Ints:
        time, seq = self.late_time[0, : self.late], self.late_seq[0, : self.late]
        return np.flatnonzero((time > horizon.time) | ((time == horizon.time) & (seq >= horizon.seq)))

    # -- rows seen -----------------------------------------------------------------------------------------

    @contextmanager
    def straight(self, b: int) -> Iterator[None]:
        """Put the rows of a block in the order of their arrival, for the duration of a with statement."""
        held = int(self.meta[b, RESERVED])
        straighten(self.pool, b, held, self.index)
        try:
            yield
        finally:
            front(self.pool, b, held, self.index)

    def columns(self, b: int) -> list[Floats]:
        """Return the rows of a block in the order of their arrival."""
        with self.straight(b):
            return [self.pool[b, axis, : int(self.meta[b, COUNT])].copy() for axis in range(self.axes)]

    def _recencies(self, b: int) -> tuple[Ints, Ints]:
        """Return times and seqs of the rows of a block in the order of their arrival."""
        count, base = int(self.meta[b, COUNT]), int(self.meta[b, BASE])
        time = self.times[b, :count] if self.timed else np.zeros(count, dtype=np.int64)
        return time, self.seqs[b, :count] if base < 0 else base + np.arange(count)

    def rows(self, horizon: Recency) -> tuple[tuple[Floats, ...], Ints, Ints]:
        """Return columns, times and seqs of the rows at or after a horizon, oldest first."""
        late = self._late_inside(horizon)
        columns = [[self.late_pool[0, axis, late]] for axis in range(self.axes)]
        time, seq = [self.late_time[0, late]], [self.late_seq[0, late]]
        for number in range(self.first, self.next):
            b = self.place(number)
            for axis, column in enumerate(self.columns(b)):
                columns[axis].append(column)
            its_time, its_seq = self._recencies(b)
            time.append(its_time)
            seq.append(its_seq)
        times, seqs = np.concatenate(time), np.concatenate(seq)
        inside = (times > horizon.time) | ((times == horizon.time) & (seqs >= horizon.seq))
        keep = np.flatnonzero(inside)
        if len(late) or self.mixed:
            keep = keep[np.lexsort((seqs[keep], times[keep]))]
        return tuple(np.concatenate(column)[keep] for column in columns), times[keep], seqs[keep]

    def by_seq(self, seq: Ints) -> tuple[Floats, ...] | None:
        """Return the columns of stored rows by seq, which takes no search where seqs are consecutive; else None."""
        places = np.arange(self.first, self.next) % max(1, len(self.pool))
        base = self.meta[places, BASE]
        if not len(places) or not self.plain or self.late or bool(np.any(base[1:] < base[:-1])):
            return None  # of rows that had to wait, seqs don't ascend from block to block
        number = np.searchsorted(base, seq, side="right") - 1
        at = seq - base[number]
        if (number < 0).any() or (at >= self.meta[places[number], COUNT]).any():
            return None
        find(places[number], at, self.index, self.meta)
        return tuple(self.pool[places[number], axis, at] for axis in range(self.axes))

    def latest(self, rows: int) -> list[Floats]:
        """Return the columns of about so many of the newest rows, or of all."""
        parts: list[list[Floats]] = [[self.late_pool[0, axis, : self.late]] for axis in range(self.axes)]
        for number in range(self.next - 1, self.first - 1, -1):
            b = self.place(number)
            for axis, column in enumerate(self.columns(b)):
                parts[axis].append(column)
            rows -= int(self.meta[b, COUNT])
            if rows <= 0:
                break
        return [np.concatenate(part) for part in parts]

    def __len__(self) -> int:
        """Return the number of rows stored, those that are about to be removed included."""
        blocks = self.next - self.first
        if blocks == 0:
            return self.late
        return (blocks - 1) * self.block + int(self.meta[self.place(self.next - 1), COUNT]) + self.late

    def bytes(self) -> int:
        """Return the bytes of all arrays, unused room included."""
        return whole_bytes(*arrays_of(self))

    def _check(self) -> None:
        _, time, seq = self.rows(Recency(-(2**63), -(2**63)))
        # recencies are different and in order
        assert bool(np.all((time[1:] > time[:-1]) | ((time[1:] == time[:-1]) & (seq[1:] > seq[:-1]))))
        before = LOWEST
        for number in range(self.first, self.next):
            b = self.place(number)
            time, seq = self._recencies(b)
            order = np.lexsort((seq, time))
            ends = [Recency(int(time[i]), int(seq[i])) for i in order[[0, -1]].tolist()]
            # the ends of a block are those of its rows
            assert ends == [Recency(*self.meta[b, [a, a + 1]].tolist()) for a in (FIRST_TIME, LAST_TIME)]
            # rows are in order of recency unless the ring is mixed
            assert self.mixed or (bool(np.all(order[1:] > order[:-1])) and before < ends[0])
            before = ends[1]
        for number in range(self.first, self.next):
            b = self.place(number)
            count, reserved = int(self.meta[b, COUNT]), int(self.meta[b, RESERVED])
            # every block but the newest is full
            assert count == self.block or number == self.next - 1
            held = self.index[b, :reserved]
            # the reservoir holds rows of its block, oldest first, in front
            assert bool(np.all(held[1:] > held[:-1])) and bool(np.all(held < count))
            # so many of its rows are there in float32, or are NaN
            some = min(int(self.meta[b, BRIEF]), reserved) if len(self.brief) else 0
            short, rows = self.brief[b, :, :some] if some else 0.0, self.pool[b, :, :some]
            assert not some or bool(np.all((short == rows.astype(np.float32)) | np.isnan(short)))
            where = np.arange(count)
            find(np.full(count, b), where, self.index, self.meta)
            for axis, column in enumerate(self.columns(b)):
                assert np.array_equal(self.pool[b, axis, :reserved], column[held], equal_nan=True)
                # `find` returns the place of every row
                assert np.array_equal(self.pool[b, axis, where], column, equal_nan=True)
            # and `came_at` is its inverse
            assert all(came_at(b, at, reserved, self.index) == came for came, at in enumerate(where.tolist()))
