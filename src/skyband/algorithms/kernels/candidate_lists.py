"""Candidate lists, one for each query, in one pool of arrays.

Each list holds candidates in recency order, oldest first, in its own stretch of the pool: `start` says
where, `head` how many have left the window at the front, `size` how many places are in use (the left ones
included), `room` how many there are. Recency order makes every window a suffix, found by binary search, so
one list answers every window and every k up to its own; arrivals in order are appended, and late ones merged.

A list that runs out of room moves to the end of the pool with twice as much; the pool is packed again when
a third of it lies waste. Nothing here is a pointer, so a dump is the arrays themselves.
"""

from typing import Any

import numpy as np

from skyband.algorithms.kernels.batch_skyband import push_heap, replace_root
from skyband.compiling.jit import inlined, kernel
from skyband.core.order import first_inside
from skyband.core.types import Floats, Ints, Recency

FIRST_ROOM = 64
FEW = 16  # ranks that are kept in order rather than in a heap
SHORT = 96  # rows of a stretch whose dominators are counted one by one
U = np.uint64


class Lists:
    """A pool of candidate lists; a `slot` names one."""

    def __init__(self, counted: bool = False) -> None:
        self.good = np.empty(0, dtype=np.float64)
        self.time = np.empty(0, dtype=np.int64)
        self.seq = np.empty(0, dtype=np.int64)
        self.count = np.empty(0, dtype=np.int64)  # dominators met, where the algorithm counts them
        self.counted = counted
        self.start = np.empty(0, dtype=np.int64)
        self.head = np.empty(0, dtype=np.int64)
        self.size = np.empty(0, dtype=np.int64)
        self.room = np.empty(0, dtype=np.int64)
        self.used = 0  # places of the pool handed out so far

    # -- slots ---------------------------------------------------------------------------------------------

    def add(self) -> int:
        """A new empty list."""
        slot = len(self.start)
        for name in ("start", "head", "size", "room"):
            setattr(self, name, np.append(getattr(self, name), 0))
        self.grow(slot, FIRST_ROOM)
        return slot

    def clear(self, slot: int) -> None:
        self.head[slot] = self.size[slot] = 0

    def grow(self, slot: int, need: int) -> None:
        """Make room for `need` candidates in this list."""
        if need <= self.room[slot]:
            return
        if self.used > 4096 and 2 * self.used > 3 * int(self.room.sum()):
            self._pack()
        room = max(FIRST_ROOM, 1 << int(need - 1).bit_length())
        if self.used + room > len(self.good):
            self._resize(max(self.used + room, 2 * len(self.good)))
        old, size = int(self.start[slot]), int(self.size[slot])
        for array in self._arrays():
            array[self.used : self.used + size] = array[old : old + size]
        self.start[slot] = self.used
        self.room[slot] = room
        self.used += room

    def _arrays(self) -> tuple[Any, ...]:
        shared = (self.good, self.time, self.seq)
        return (*shared, self.count) if self.counted else shared

    def _resize(self, places: int) -> None:
        for name in ("good", "time", "seq", "count") if self.counted else ("good", "time", "seq"):
            old = getattr(self, name)
            new = np.zeros(places, dtype=old.dtype)
            new[: self.used] = old[: self.used]
            setattr(self, name, new)

    def _pack(self) -> None:
        """Lay the lists side by side again, each with the room it has."""
        order = np.argsort(self.start, kind="stable")
        at = 0
        for slot in order:  # in order of place, so that nothing is overwritten before it has moved
            old, size, room = int(self.start[slot]), int(self.size[slot]), int(self.room[slot])
            for array in self._arrays():
                array[at : at + size] = array[old : old + size].copy()
            self.start[slot] = at
            at += room
        self.used = at

    # -- one list ------------------------------------------------------------------------------------------

    def span(self, slot: int) -> slice:
        """Where this list's live candidates lie in the pool."""
        start = int(self.start[slot])
        return slice(start + int(self.head[slot]), start + int(self.size[slot]))

    def live(self, slot: int) -> int:
        return int(self.size[slot] - self.head[slot])

    def top(self, slot: int, k: int, horizon: Recency) -> tuple[Floats, Ints, Ints]:
        """The k best of this list at or after the horizon, best first: good, time, seq."""
        span = self.span(slot)
        k = max(0, min(k, span.stop - span.start))
        scores, places = np.empty(k, dtype=np.float64), np.empty(k, dtype=np.int64)
        begin = first_inside(self.time, self.seq, span.start, span.stop, horizon.time, horizon.seq)
        found = best(self.good, begin, span.stop, k, scores, places)
        places = places[:found]
        return scores[:found], self.time[places], self.seq[places]

    def bytes(self, slot: int) -> int:
        return int(self.room[slot]) * (32 if self.counted else 24)

    # -- whole ---------------------------------------------------------------------------------------------

    def all_seqs(self) -> Ints:
        """The seqs of all live candidates of all lists (with repeats)."""
        if len(self.start) == 0:
            return np.empty(0, dtype=np.int64)
        return np.concatenate([self.seq[self.span(slot)] for slot in range(len(self.start))])

    def dump(self) -> dict[str, Any]:
        """What is live, as plain arrays: the same whatever room the lists have."""
        names = ("good", "time", "seq", "count") if self.counted else ("good", "time", "seq")
        size = self.size - self.head
        places = _places(self.start + self.head, size)
        return {**{name: getattr(self, name)[places] for name in names}, "size": size}

    def load(self, blob: dict[str, Any]) -> None:
        self.size = blob["size"].copy()
        self.head = np.zeros_like(self.size)
        rooms = [max(FIRST_ROOM, 1 << max(n - 1, 0).bit_length()) for n in self.size.tolist()]
        self.room = np.array(rooms, dtype=np.int64)
        self.start = np.concatenate([[0], np.cumsum(self.room)[:-1]]).astype(np.int64)[: len(self.room)]
        self.used = 0
        self._resize(int(self.room.sum()))
        self.used = int(self.room.sum())
        places = _places(self.start, self.size)
        for name in ("good", "time", "seq", "count") if self.counted else ("good", "time", "seq"):
            getattr(self, name)[places] = blob[name]

    def _check(self) -> None:
        total = len(self.good)
        taken = np.zeros(total, dtype=bool)
        for slot in range(len(self.start)):
            start, head, size, room = (int(x[slot]) for x in (self.start, self.head, self.size, self.room))
            # a list keeps within its room, and what has left is part of what is there
            assert 0 <= head <= size <= room and start + room <= self.used <= total
            # no two lists share a place
            assert not taken[start : start + room].any()
            taken[start : start + room] = True
            # recency order, strictly: no row is there twice
            time, seq = self.time[start : start + size], self.seq[start : start + size]
            assert bool(np.all((time[1:] > time[:-1]) | ((time[1:] == time[:-1]) & (seq[1:] > seq[:-1]))))


def _places(start: Ints, size: Ints) -> Ints:
    """The places of stretches of a pool, one after the other."""
    ends = np.cumsum(size)
    places: Ints = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(start - (ends - size), size)
    return places


@kernel
def best(good: Floats, begin: int, end: int, k: int, scores: Floats, places: Ints) -> int:
    """The k best of good[begin:end], a stretch in recency order, best first; ties: the newer first.

    Walks from the oldest row on, because in a skyband the old ones are the best: whoever has stayed in spite of
    so many newer rows beats most of them, and the worst held is soon high. Among equals the newer one is the better.
    Few are held in order, more in a heap. Returns how many were found.
    """
    if k <= FEW:
        found: int = _foremost(good, begin, end, k, scores, places)
        return found
    size = 0
    for place in range(begin, end):
        value = good[place]
        if size < k:
            at = size
            size += 1
            while at > 0:
                parent = (at - 1) >> 1
                if scores[parent] <= value:  # an equal is newer than those before it, and so the better
                    break
                scores[at] = scores[parent]
                places[at] = places[parent]
                at = parent
            scores[at] = value
            places[at] = place
        elif k > 0 and value >= scores[0]:
            _sink(scores, places, k, value, place)
    # heap sort in place: the worst goes last
    last = size - 1
    while last > 0:
        worst, where = scores[0], places[0]
        value, place = scores[last], places[last]
        _sink(scores, places, last, value, place)
        scores[last] = worst
        places[last] = where
        last -= 1
    return size


@inlined
def _foremost(good: Floats, begin: int, end: int, k: int, scores: Floats, places: Ints) -> int:
    """`best` of a small k: those found so far are in order, and who comes among them moves the worse ones on."""
    size = 0
    for place in range(begin, end):
        value = good[U(place)]
        if size == k:
            if k == 0 or value < scores[U(k - 1)]:
                continue
            size -= 1
        at = size
        # an equal is newer than those before it, and so the better
        while at > 0 and scores[U(at - 1)] <= value:
            scores[U(at)] = scores[U(at - 1)]
            places[U(at)] = places[U(at - 1)]
            at -= 1
        scores[U(at)] = value
        places[U(at)] = place
        size += 1
    return size


@inlined
def _sink(scores: Floats, places: Ints, size: int, value: float, place: int) -> None:
    """Replace the root of a heap of (score, place), worst first, by (value, place)."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        other = child + 1
        if other < size and (
            scores[other] < scores[child]
            or (scores[other] == scores[child] and places[other] < places[child])
        ):
            child = other
        if scores[child] > value or (scores[child] == value and places[child] > place):
            break
        scores[at] = scores[child]
        places[at] = places[child]
        at = child
    scores[at] = value
    places[at] = place


@kernel
def append(
    time: Ints, seq: Ints, picks: Ints, values: Floats, count: int,
    pool_good: Floats, pool_time: Ints, pool_seq: Ints, floor: int, end: int,
) -> None:  # fmt: skip
    """Add the picked rows (positions and scores, newest first) behind the list [floor, end), in recency order.

    In order, that is a copy to the end. Where a picked row is older than the list's newest, the two are merged
    from the back, in place: the tail of the list moves up as far as it must.
    """
    left = end - 1  # newest of the list
    write = end + count - 1
    for i in range(count):
        row = U(picks[U(i)])
        when, number = time[row], seq[row]
        while left >= floor and (
            pool_time[U(left)] > when or (pool_time[U(left)] == when and pool_seq[U(left)] > number)
        ):
            pool_good[U(write)] = pool_good[U(left)]
            pool_time[U(write)] = pool_time[U(left)]
            pool_seq[U(write)] = pool_seq[U(left)]
            left -= 1
            write -= 1
        pool_good[U(write)] = values[U(i)]
        pool_time[U(write)] = when
        pool_seq[U(write)] = number
        write -= 1


@kernel
def close_up(good: Floats, times: Ints, seqs: Ints, begin: int, head: int, size: int) -> int:
    """Move what is live to the front of the list's stretch; returns how many that are."""
    live = size - head
    for i in range(live):
        good[begin + i] = good[begin + head + i]
        times[begin + i] = times[begin + head + i]
        seqs[begin + i] = seqs[begin + head + i]
    return live


@kernel
def outdo(
    good: Floats, times: Ints, seqs: Ints, begin: int, head: int, size: int, bar: float, time: Ints, seq: Ints, row: int
) -> int:  # fmt: skip
    """Drop the candidates that are no better than `bar`, the k-th best of newer rows of which `row` is the oldest.

    Only if the whole list is older than that row: else some of those k might not be newer. What is left moves to
    the front of the list's stretch; returns how many that are.
    """
    last = begin + size - 1
    if size > head and (times[last] > time[row] or (times[last] == time[row] and seqs[last] > seq[row])):
        bar = -np.inf
        if head == 0:
            return size
    write = begin
    for place in range(begin + head, begin + size):
        if good[place] > bar or bar == -np.inf:
            good[write] = good[place]
            times[write] = times[place]
            seqs[write] = seqs[place]
            write += 1
    return write - begin


@kernel
def weed(good: Floats, time: Ints, seq: Ints, begin: int, end: int, target: int, k: int) -> int:
    """`prune` of a short stretch: of four rows at once it is counted how many newer ones are at least as good.

    That is more comparisons than a heap makes, but they are the same whatever the scores are: the machine makes four in
    one instruction and has nothing to guess, where nearly each survivor would be sunk into a heap. (A row that goes is
    counted, too: whoever it dominates is dominated by the k rows that it goes for.)
    """
    write, read = U(target), U(begin)
    newest, last = U(max(end - k, begin)), U(end)  # the k newest stay
    one, two, three, four = U(1), U(2), U(3), U(4)
    while read < newest and read + four <= last:
        a, b, c, d = good[read], good[read + one], good[read + two], good[read + three]
        over_a, over_b, over_c, over_d = int(b >= a), int(c >= b), int(d >= c), 0
        over_a += int(c >= a) + int(d >= a)
        over_b += int(d >= b)
        for i in range(read + four, last):
            value = good[i]
            over_a += value >= a
            over_b += value >= b
            over_c += value >= c
            over_d += value >= d
        write = keep(write, read, a, over_a < k, good, time, seq)
        write = keep(write, read + one, b, over_b < k, good, time, seq)
        write = keep(write, read + two, c, over_c < k, good, time, seq)
        write = keep(write, read + three, d, over_d < k, good, time, seq)
        read += four
    while read < last:
        value, over = good[read], 0
        if read < newest:
            for i in range(read + one, last):
                over += good[i] >= value
        write = keep(write, read, value, over < k, good, time, seq)
        read += one
    return int(write) - target


@inlined
def keep(write: Any, read: Any, value: float, stays: bool, good: Floats, time: Ints, seq: Ints) -> Any:
    """Write a row, which counts if it stays; returns the next place to write to."""
    good[write] = value
    time[write] = time[read]
    seq[write] = seq[read]
    return write + U(stays)


@kernel
def prune(
    pool_good: Floats,
    pool_time: Ints,
    pool_seq: Ints,
    begin: int,
    end: int,
    target: int,
    k: int,
    heap: Floats,
) -> int:
    """Reduce the stretch [begin, end) of a list to its k-skyband and move it to start at `target`.

    One pass from the newest back packs the survivors against the stretch's end, a second copies them down. In a short
    stretch dominators are counted instead. Returns how many are left.
    """
    if end - begin <= SHORT:
        left: int = weed(pool_good, pool_time, pool_seq, begin, end, target, k)
        return left
    size = 0
    write = end
    for place in range(end - 1, begin - 1, -1):
        value = pool_good[place]
        if size < k:
            push_heap(heap, size, value)
            size += 1
        elif value > heap[0]:
            replace_root(heap, k, value)
        else:
            continue  # k newer rows are at least as good
        write -= 1
        pool_good[write] = value
        pool_time[write] = pool_time[place]
        pool_seq[write] = pool_seq[place]
    kept = end - write
    for i in range(kept):
        pool_good[target + i] = pool_good[write + i]
        pool_time[target + i] = pool_time[write + i]
        pool_seq[target + i] = pool_seq[write + i]
    return kept


@kernel
def expire_all(
    ks: Ints,
    horizon_time: Ints,
    horizon_seq: Ints,
    times: Ints,
    seqs: Ints,
    start: Ints,
    head: Ints,
    size: Ints,
) -> None:
    """Cut every list in use at its horizon."""
    for slot in range(ks.shape[0]):
        if ks[slot] > 0:
            begin = start[slot] + head[slot]
            end = start[slot] + size[slot]
            when = horizon_time[slot]
            if begin < end and (
                times[begin] > when or (times[begin] == when and seqs[begin] >= horizon_seq[slot])
            ):
                continue  # mostly nobody has left
            inside = first_inside(times, seqs, begin, end, horizon_time[slot], horizon_seq[slot])
            head[slot] = inside - start[slot]


@kernel
def remove(
    good: Floats, times: Ints, seqs: Ints, begin: int, end: int, gone_time: Ints, gone_seq: Ints
) -> int:  # fmt: skip
    """Take rows out of the list [begin, end), given by their recencies, oldest first; returns its new end.

    Rows that are not there are passed over. Each one is found by binary search, and what lies behind the first moves up
    once.
    """
    write = end
    read = begin  # from here on nothing was looked for yet
    for i in range(gone_seq.shape[0]):
        at = first_inside(times, seqs, read, end, gone_time[i], gone_seq[i])
        if at < end and seqs[at] == gone_seq[i]:
            if write == end:
                write = at
            else:
                for place in range(read, at):
                    good[write] = good[place]
                    times[write] = times[place]
                    seqs[write] = seqs[place]
                    write += 1
            read = at + 1
        elif write == end:
            read = at
    if write == end:
        return end
    for place in range(read, end):
        good[write] = good[place]
        times[write] = times[place]
        seqs[write] = seqs[place]
        write += 1
    return write


@kernel
def kth_best(
    good: Floats, start: Ints, head: Ints, size: Ints, slots: Ints, ks: Ints, heap: Floats, out: Floats
) -> bool:
    """Each list's k-th best score, by slot; False if one of them has fewer than k candidates."""
    for slot in slots:
        k = ks[slot]
        held = 0
        for i in range(start[slot] + head[slot], start[slot] + size[slot]):
            if held < k:
                push_heap(heap, held, good[i])
                held += 1
            elif good[i] > heap[0]:
                replace_root(heap, k, good[i])
        if held < k:
            return False
        out[slot] = heap[0]
    return True
