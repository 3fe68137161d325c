"""The window's rows in blocks, in order of recency, and a reservoir of each block's better rows.

Rows lie column by column in blocks of a fixed size, one after the other in order of arrival; the blocks make a ring
that grows with the window. A row costs its columns and nothing more: its seq is the block's first one plus its
place as long as seqs follow one another, and times are stored only if the stream has some.

Rows that come late (older than a row already stored) go to a pen of their own, so that blocks, and rows in blocks,
are always in order of recency; whoever searches the blocks looks through the pen as well.

**The reservoir.** Each block has its better rows, those that passed the outer height map when they came, in front: a
few in a hundred, in order, each of which has changed places with the row that was there. So no row is kept twice (but
in four bytes a column, where lists run short all the time: float32_filter.py), and `index` says in two bytes where
each of them belongs. Whoever needs a block's rows in order puts them there
(`straight`) and back again; where a row is meanwhile can be told from `index` alone (`find`). `epoch` says under
which thresholds the map was made: all rows of the block that score at least floors[epoch, slot] for a query are in
the reservoir. So a query that has run short reads one row in forty instead of all. A block whose better rows were too
many has no reservoir (epoch -1), and is searched as a whole; or it was stocked under the map raised by some steps
(`rise`), and holds what scores at least floors[epoch, slot] + rise * slope[slot].
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
    FOLLOW,
    META,
    NEED,
    NEXT,
    NOTHING,
    PLAIN,
    RESERVED,
    SEQS,
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
from skyband.compiling.intrinsics import aligned, arrays_of, whole_bytes
from skyband.compiling.jit import kernel
from skyband.core.types import Floats, Ints, Recency

CHUNK = 32  # a reservoir has room for so many rows, or a multiple
MOST = 1 << 16  # rows in a block, at most: two bytes name one


@kernel
def seq_at(b: int, i: int, seqs: Ints, meta: Ints) -> int:
    """The seq of a stored row."""
    return int(meta[b, 1] + i if meta[b, 1] >= 0 else seqs[b, i])


@kernel
def time_at(b: int, i: int, times: Ints) -> int:
    """The time of a stored row: 0 where the stream has none."""
    return times[b, i] if times.shape[0] > 0 else 0


@kernel
def find(b: Ints, at: Ints, index: Places, meta: Ints) -> None:
    """Where rows of blocks are that came at these places, which are replaced: in front, if the reservoir has them. Else
    where they came, or one has taken that place and they have got its own, or one has taken that in turn."""
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
    """The place at which a row of a block came that lies at this one now: what `find` undoes."""
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
        at = low  # a row of the reservoir came here, and this one has got its place


class Blocks(Renewed):
    """A ring of blocks with their reservoirs, and the pen."""

    def __init__(self, axes: int, block: int) -> None:
        self.axes = axes
        self.block = block
        self.reserved = max(CHUNK, block // 8 // CHUNK * CHUNK)
        self.room = 4 * self.reserved  # more than that where lists search deep
        self.state = np.zeros(16, dtype=np.int64)  # see intake.py
        self.state[PLAIN] = 1
        self.state[FOLLOW] = self.state[CLOSED] = -1
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
        """The number after the newest one's."""
        return int(self.state[NEXT])

    @property
    def timed(self) -> bool:
        return bool(self.state[TIMED])

    @property
    def plain(self) -> bool:
        """Whether all seqs have followed one another so far."""
        return bool(self.state[PLAIN])

    def place(self, number: int) -> int:
        return number % max(1, len(self.pool))

    # -- rows in -------------------------------------------------------------------------------------------

    def supply(self) -> bool:
        """What `take_in` asked for, so that it can go on; whether it asked for anything."""
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
        """From now on rows have times; those that are there have 0."""
        self.state[TIMED] = 1
        self.times = np.zeros((len(self.pool), self.block), dtype=np.int64)

    def widen(self, more: int) -> None:
        """More blocks in the ring: each keeps its number and moves to its new place."""
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
        self.keep_brief(False)  # it is made anew, as wide as the ring is then, by whoever wants it

    def make_room(self, rows: int) -> None:
        """Room for so many rows in every reservoir, and some more; but no more than one may ever have."""
        if self.index.shape[1] < min(rows, self.room):
            if rows > self.reserved // 2:  # not for long, then: who wants so much wants more soon
                rows = max(rows, 2 * self.index.shape[1])
            wanted = min(self.room, (rows + rows // 16) // CHUNK * CHUNK + CHUNK)
            self.index = np.pad(self.index, ((0, 0), (0, wanted - self.index.shape[1])))

    def keep_brief(self, wanted: bool) -> None:
        """Have room for reservoirs in numbers of four bytes, which are looked through in a third of the time: or none.
        A block's are written when somebody looks (float32_filter.py), so many of them as meta[b, BRIEF] says. One
        that has outgrown the room is read as it is, until the next time."""
        longest = int(self.meta[:, RESERVED].max(initial=0)) if wanted else 0
        ring, _, room = self.brief.shape
        if (ring == len(self.pool) and longest <= room <= 2 * longest + CHUNK) or room == longest == 0:
            return
        room = (longest + longest // 4) // CHUNK * CHUNK + CHUNK if wanted else 0
        self.brief = aligned((len(self.pool) if wanted else 0, self.axes, room), np.float32)
        self.meta[:, BRIEF] = 0

    def lacking(self) -> Ints:
        """Places of blocks whose reservoirs were refused the room that they wanted, where they may have it: from now on
        there is some."""
        wanted = self.meta[:, WANTED]
        if not wanted.any():  # mostly
            return np.empty(0, dtype=np.int64)
        found = np.flatnonzero((wanted > 0) & (wanted <= self.room))
        if len(found):
            self.make_room(int(wanted[found].max()))
            self.meta[found, TRIED] = -1
        wanted[:] = 0
        return found

    def pen(self, rows: int) -> int:
        """Make room for late rows; where they begin in the pen. They count as stored; `admit` writes them."""
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
        """Forget the late rows that every window has left behind, if they are many."""
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
        """The rows of a block in the order of their arrival, for a while."""
        held = int(self.meta[b, RESERVED])
        straighten(self.pool, b, held, self.index)
        try:
            yield
        finally:
            front(self.pool, b, held, self.index)

    def columns(self, b: int) -> list[Floats]:
        """The rows of a block in the order of their arrival."""
        with self.straight(b):
            return [self.pool[b, axis, : int(self.meta[b, COUNT])].copy() for axis in range(self.axes)]

    def rows(self, horizon: Recency) -> tuple[tuple[Floats, ...], Ints, Ints]:
        """Columns, times and seqs of the rows at or after a horizon, oldest first."""
        late = self._late_inside(horizon)
        columns = [[self.late_pool[0, axis, late]] for axis in range(self.axes)]
        time, seq = [self.late_time[0, late]], [self.late_seq[0, late]]
        for number in range(self.first, self.next):
            b = self.place(number)
            count = int(self.meta[b, COUNT])
            for axis, column in enumerate(self.columns(b)):
                columns[axis].append(column)
            time.append(self.times[b, :count] if self.timed else np.zeros(count, dtype=np.int64))
            base = int(self.meta[b, BASE])
            seq.append(self.seqs[b, :count] if base < 0 else base + np.arange(count))
        times, seqs = np.concatenate(time), np.concatenate(seq)
        inside = (times > horizon.time) | ((times == horizon.time) & (seqs >= horizon.seq))
        keep = np.flatnonzero(inside)
        if len(late):
            keep = keep[np.lexsort((seqs[keep], times[keep]))]
        return tuple(np.concatenate(column)[keep] for column in columns), times[keep], seqs[keep]

    def by_seq(self, seq: Ints) -> tuple[Floats, ...] | None:
        """The columns of stored rows by seq: found at once where seqs follow one another; None where they don't."""
        places = np.arange(self.first, self.next) % max(1, len(self.pool))
        base = self.meta[places, BASE]
        if not len(places) or not self.plain or self.late:
            return None
        number = np.searchsorted(base, seq, side="right") - 1
        at = seq - base[number]
        if (number < 0).any() or (at >= self.meta[places[number], COUNT]).any():
            return None
        find(places[number], at, self.index, self.meta)
        return tuple(self.pool[places[number], axis, at] for axis in range(self.axes))

    def latest(self, rows: int) -> list[Floats]:
        """The columns of about so many of the newest rows, or of all."""
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
        """Rows stored, those that are about to be forgotten included."""
        blocks = self.next - self.first
        if blocks == 0:
            return self.late
        return (blocks - 1) * self.block + int(self.meta[self.place(self.next - 1), COUNT]) + self.late

    def bytes(self) -> int:
        """Of all that is held: room that nobody needs yet included."""
        return whole_bytes(*arrays_of(self))

    def _check(self) -> None:
        _, time, seq = self.rows(Recency(-(2**63), -(2**63)))
        # no recency twice, and all in order
        assert bool(np.all((time[1:] > time[:-1]) | ((time[1:] == time[:-1]) & (seq[1:] > seq[:-1]))))
        for number in range(self.first, self.next):
            b = self.place(number)
            count, reserved = int(self.meta[b, COUNT]), int(self.meta[b, RESERVED])
            # every block but the newest is full
            assert count == self.block or number == self.next - 1
            held = self.index[b, :reserved]
            # the reservoir holds rows of its block, oldest first, in front
            assert bool(np.all(held[1:] > held[:-1])) and bool(np.all(held < count))
            # so many of its rows are there in four bytes, or none of them is a number
            some = min(int(self.meta[b, BRIEF]), reserved) if len(self.brief) else 0
            short, rows = self.brief[b, :, :some] if some else 0.0, self.pool[b, :, :some]
            assert not some or bool(np.all((short == rows.astype(np.float32)) | np.isnan(short)))
            where = np.arange(count)
            find(np.full(count, b), where, self.index, self.meta)
            for axis, column in enumerate(self.columns(b)):
                assert np.array_equal(self.pool[b, axis, :reserved], column[held], equal_nan=True)
                # every row is found where it is
                assert np.array_equal(self.pool[b, axis, where], column, equal_nan=True)
            # and known by where it lies
            assert all(came_at(b, at, reserved, self.index) == came for came, at in enumerate(where.tolist()))
