"""The window's rows in blocks, in order of recency, and a reservoir of each block's better rows.

Rows lie column by column in blocks of a fixed size, one after the other in order of arrival; the blocks make a ring
that grows with the window. A row costs its columns and nothing more: its seq is the block's first one plus its
place as long as seqs follow one another, and times are stored only if the stream has some.

Rows that come late (older than a row already stored) go to a pen of their own, so that blocks, and rows in blocks,
are always in order of recency; whoever searches the blocks looks through the pen as well.

**The reservoir.** Each block keeps copies of its better rows, those that passed the outer height map when they came:
a few in a hundred. `epoch` says under which thresholds that was: all rows of the block that score at least
floors[epoch, slot] for a query are among them. So a query that has run short reads one row in forty instead of all.
A block whose better rows were too many has none (epoch -1), and is searched as a whole.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skyband.jit import kernel
from skyband.order import Floats, Ints, Recency
from skyband.structures.heightmap import Heights, sift

COUNT, BASE, RESERVED, EPOCH, FIRST_TIME, FIRST_SEQ, LAST_TIME, LAST_SEQ = range(8)
CHUNK = 32  # rows of the reservoir that are tested at once

Places = npt.NDArray[np.int32]


@kernel
def seq_at(b: int, i: int, seqs: Ints, meta: Ints) -> int:
    """The seq of a stored row."""
    return int(meta[b, 1] + i if meta[b, 1] >= 0 else seqs[b, i])


@kernel
def time_at(b: int, i: int, times: Ints) -> int:
    """The time of a stored row: 0 where the stream has none."""
    return times[b, i] if times.shape[0] > 0 else 0


@kernel
def stock(
    pool: Floats, b: int, picks: Ints, count: int, reserve: Floats, index: Places, meta: Ints
) -> None:  # fmt: skip
    """Add rows of a block to its reservoir; if they are too many it has none from now on."""
    if meta[b, 3] < 0:
        return
    held = meta[b, 2]
    if held + count > index.shape[1]:
        meta[b, 2], meta[b, 3] = 0, -1
        return
    for p in range(count):
        i, at = picks[p], held + p
        index[b, at] = i
        for axis in range(pool.shape[1]):
            reserve[b, at // 32, axis, at % 32] = pool[b, axis, i]
    meta[b, 2] = held + count


@kernel
def unite(one: Ints, ones: int, other: Ints, others: int, both: Ints) -> int:
    """Two ascending lists as one."""
    i, j, count = 0, 0, 0
    while i < ones or j < others:
        if j >= others or (i < ones and one[i] <= other[j]):
            value = one[i]
        else:
            value = other[j]
        while i < ones and one[i] == value:
            i += 1
        while j < others and other[j] == value:
            j += 1
        both[count] = value
        count += 1
    return count


@kernel
def sift_faces(
    pool: Floats, b: int, begin: int, stop: int, faces: Ints, order: Ints, size: Ints, low: Floats, high: Floats,
    base: Floats, inverse: Floats, outer: Heights, inner: Heights, picks: Ints, eager: Ints, passed: Ints,
) -> int:  # fmt: skip
    """Rows of a block against the maps of all faces in use: picks[2] has those that pass an outer map, passed
    how many pass each face's both maps, and how many lay outside the frame."""
    found = np.zeros(2, np.int64)
    passed[2] = 0
    for face in range(2):
        passed[face] = 0
        if faces[face] > 0:
            sign = 1.0 if face == 0 else -1.0
            found[face], passed[face], passed[2] = sift(
                pool, b, begin, stop, order, size, low, high, base, inverse, sign, outer[face], inner[face],
                picks[face], eager[face],
            )  # fmt: skip
    return int(unite(picks[0], found[0], picks[1], found[1], picks[2]))


@kernel
def admit(
    columns: tuple[Floats, ...], time: Ints, seq: Ints, source: int, rows: int, b: int, at: int, stored: bool,
    mapped: bool, pool: Floats, times: Ints, seqs: Ints, meta: Ints, reserve: Floats, index: Places,
    faces: Ints, order: Ints, size: Ints, low: Floats, high: Floats, base: Floats, inverse: Floats,
    outer: Heights, inner: Heights, picks: Ints, eager: Ints, points: Floats, when: Ints, number: Ints,
    counts: Ints, totals: Ints,
) -> None:  # fmt: skip
    """Store rows [source, source + rows) of a batch in a block at `at`, and gather those that some query may take.

    points[face] gets the rows that pass that face's map, face 2 (queries that no map serves) all of them. Rows of
    the pen (not `stored`) have no reservoir. Without a map every row passes.
    """
    for axis in range(pool.shape[1]):
        values, into = columns[axis][source : source + rows], pool[b, axis, at : at + rows]
        for i in range(rows):
            into[i] = values[i]
    if times.shape[0] > 0:
        for i in range(rows):
            times[b, at + i] = time[source + i]
    if meta[b, 1] < 0:
        for i in range(rows):
            seqs[b, at + i] = seq[source + i]
    passed = np.zeros(3, np.int64)
    found = rows
    if mapped:
        found = sift_faces(
            pool, b, at, at + rows, faces, order, size, low, high, base, inverse, outer, inner,
            picks, eager, passed,
        )  # fmt: skip
        if stored:
            stock(pool, b, picks[2], found, reserve, index, meta)
    totals[0] += rows
    totals[1] += rows - found
    totals[9] += passed[2]
    for face in range(3):
        if faces[face] == 0:
            continue
        whole = face == 2 or not mapped
        many = rows if whole else passed[face]
        base_at = counts[face]
        for p in range(many):
            i = at + p if whole else eager[face, p]
            for axis in range(pool.shape[1]):
                points[face, axis, base_at + p] = pool[b, axis, i]
            when[face, base_at + p] = time[source + i - at]
            number[face, base_at + p] = seq[source + i - at]
        counts[face] = base_at + many
        if face < 2:
            totals[2] += many


class Blocks:
    """A ring of blocks with their reservoirs, and the pen."""

    def __init__(self, axes: int, block: int) -> None:
        self.axes = axes
        self.block = block
        self.reserved = max(CHUNK, block // 16 // CHUNK * CHUNK)
        self.first = 0  # number of the oldest block
        self.next = 0  # number after the newest
        self.used = 0  # rows in the newest
        self.follow = -1
        self.pool = np.empty((0, axes, block), dtype=np.float64)
        self.times = np.empty((0, block), dtype=np.int64)
        self.seqs = np.empty((0, block), dtype=np.int64)
        self.meta = np.zeros((0, 8), dtype=np.int64)
        self.reserve = np.empty((0, self.reserved // CHUNK, axes, CHUNK), dtype=np.float64)
        self.index = np.empty((0, self.reserved), dtype=np.int32)
        self.newest: Recency | None = None
        self._end: Recency | None = None  # the last recency of the oldest block
        self.timed = False
        self.plain = True  # seqs have followed one another so far
        self._empty_pen()

    def _empty_pen(self) -> None:
        self.late = 0
        self.late_pool = np.empty((1, self.axes, 0), dtype=np.float64)
        self.late_time = np.empty((1, 0), dtype=np.int64)
        self.late_seq = np.empty((1, 0), dtype=np.int64)
        self.late_meta = np.full((1, 8), -1, dtype=np.int64)

    def place(self, number: int) -> int:
        return number % max(1, len(self.pool))

    # -- rows in -------------------------------------------------------------------------------------------

    def room(self, time: Ints, seq: Ints, source: int, stop: int, epoch: int) -> tuple[int, int, int]:
        """Where rows [source, stop) of a batch go: block, place in it, and how many fit there. They count as stored;
        `admit` writes them."""
        if self.used == self.block or self.next == self.first:
            self._open(epoch)
        b, at = (self.next - 1) % len(self.pool), self.used
        rows = min(stop - source, self.block - at)
        stop = source + rows
        first, last = (
            Recency(int(time[source]), int(seq[source])),
            Recency(int(time[stop - 1]), int(seq[stop - 1])),
        )
        if not self.timed and (first.time != 0 or last.time != 0):
            self.keep_times()
        follows = first.seq >= 0 and last.seq - first.seq == rows - 1
        if follows and self.timed and rows > 1:
            follows = bool(np.all(np.diff(seq[source:stop]) == 1))
        meta = self.meta[b]
        if at == 0:
            self.follow = first.seq if follows else -1  # the seq that the next row has if it follows
            meta[BASE] = self.follow
            meta[FIRST_TIME], meta[FIRST_SEQ] = first
        elif self.follow >= 0 and not (follows and first.seq == self.follow):
            self._spell_out(b)
        if self.follow < 0 and self.plain:
            self._keep_seqs()
        if self.follow >= 0:
            self.follow += rows
        self.used = at + rows
        meta[COUNT] = self.used
        meta[LAST_TIME], meta[LAST_SEQ] = last
        self.newest = last
        return b, at, rows

    def keep_times(self) -> None:
        """From now on rows have times; those that are there have 0."""
        self.timed = True
        self.times = np.zeros((len(self.pool), self.block), dtype=np.int64)

    def _keep_seqs(self) -> None:
        self.plain = False
        self.seqs = np.zeros((len(self.pool), self.block), dtype=np.int64)

    def _spell_out(self, b: int) -> None:
        if self.plain:
            self._keep_seqs()
        count = int(self.meta[b, COUNT])
        self.seqs[b, :count] = self.meta[b, BASE] + np.arange(count)
        self.meta[b, BASE] = self.follow = -1

    def _open(self, epoch: int) -> None:
        """Begin a new block."""
        if self.next - self.first == len(self.pool):
            self._widen(max(2, len(self.pool) // 16))
        b = self.place(self.next)
        self.meta[b] = 0
        self.meta[b, EPOCH] = epoch
        self.next += 1
        self.used = 0

    def _widen(self, more: int) -> None:
        """More blocks in the ring: each keeps its number and moves to its new place."""
        old, new = len(self.pool), len(self.pool) + more
        numbers = np.arange(self.first, self.next)
        source, target = numbers % max(1, old), numbers % new
        for name in ("pool", "times", "seqs", "meta", "reserve", "index"):
            array = getattr(self, name)
            if (name == "times" and not self.timed) or (name == "seqs" and self.plain):
                continue
            wider = np.zeros((new, *array.shape[1:]), dtype=array.dtype)
            wider[target] = array[source]
            setattr(self, name, wider)

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

    def drop(self, horizon: Recency) -> None:
        """Forget the blocks that lie before a horizon, and late rows if they are many."""
        while self.first < self.next:
            if self._end is None:
                meta = self.meta[self.place(self.first)]
                self._end = Recency(int(meta[LAST_TIME]), int(meta[LAST_SEQ]))
            if self._end >= horizon and self.first < self.next - 1:
                break
            if self.first == self.next - 1 and (self.newest is None or self.newest >= horizon):
                self._end = None  # the newest block goes on growing
                break
            self.first += 1
            self._end = None
        if self.late:
            stay = self._late_inside(horizon)
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

    def oldest(self) -> Recency:
        """The recency of the first row in the blocks."""
        if self.first == self.next:
            return self.newest or Recency(0, 0)
        b = self.place(self.first)
        return Recency(int(self.meta[b, FIRST_TIME]), int(self.meta[b, FIRST_SEQ]))

    def rows(self, horizon: Recency) -> tuple[tuple[Floats, ...], Ints, Ints]:
        """Columns, times and seqs of the rows at or after a horizon, oldest first."""
        late = self._late_inside(horizon)
        columns = [[self.late_pool[0, axis, late]] for axis in range(self.axes)]
        time, seq = [self.late_time[0, late]], [self.late_seq[0, late]]
        for number in range(self.first, self.next):
            b = self.place(number)
            count = int(self.meta[b, COUNT])
            for axis in range(self.axes):
                columns[axis].append(self.pool[b, axis, :count])
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
        return tuple(self.pool[places[number], axis, at] for axis in range(self.axes))

    def latest(self, rows: int) -> list[Floats]:
        """The columns of about so many of the newest rows, or of all."""
        parts: list[list[Floats]] = [[self.late_pool[0, axis, : self.late]] for axis in range(self.axes)]
        for number in range(self.next - 1, self.first - 1, -1):
            b = self.place(number)
            count = int(self.meta[b, COUNT])
            for axis in range(self.axes):
                parts[axis].append(self.pool[b, axis, :count])
            rows -= count
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
        arrays = (self.pool, self.times, self.seqs, self.meta, self.reserve, self.index)
        return sum(array.nbytes for array in (*arrays, self.late_pool, self.late_time, self.late_seq))

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
            # the reservoir holds copies of rows of its block, oldest first
            assert bool(np.all(held[1:] > held[:-1])) and bool(np.all(held < count))
            for axis in range(self.axes):
                copies = self.reserve[b, :, axis, :].reshape(-1)[:reserved]
                assert np.array_equal(copies, self.pool[b, axis, held], equal_nan=True)
