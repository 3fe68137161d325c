"""Candidate lists, one for each query, in one pool of arrays.

Each list holds candidates in recency order, oldest first, in its own stretch of the pool: `start` says
where, `head` how many have left the window at the front, `size` how many places are in use (the left ones
included), `room` how many there are. Recency order makes every window a suffix, found by binary search, so
one list answers every window and every k up to its own; arrivals in order are appended, and late ones merged.

A list that runs out of room moves to the end of the pool with twice as much; the pool is packed again when
a third of it lies waste. Nothing here is a pointer, so a dump is the arrays themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.algorithms.arrivals import Step
from skyband.algorithms.kernels.batch_skyband import Picks, push_heap, replace_root
from skyband.compiling.jit import inlined, kernel
from skyband.compiling.state import State, field, scalar
from skyband.core.order import first_inside
from skyband.core.types import LOWEST, Floats, Ints, Recency

FIRST_ROOM = 64
FEW = 16  # ranks that are kept in order rather than in a heap
SHORT = 96  # rows of a stretch whose dominators are counted one by one
LEAST = -float(np.finfo(np.float64).max)
U = np.uint64


class Lists(State):
    """A pool of candidate lists; a `slot` names one."""

    good: Floats = field("f8[place]")
    time: Ints = field("i8[place]")
    seq: Ints = field("i8[place]")
    count: Ints = field("i8[counted_place]")  # dominators met, if the lists are counted
    start: Ints = field("i8[slot]")
    head: Ints = field("i8[slot]")
    size: Ints = field("i8[slot]")
    room: Ints = field("i8[slot]")
    ks: Ints = field("i8[slot]")  # 0: the slot is free
    horizon_time: Ints = field("i8[slot]")
    horizon_seq: Ints = field("i8[slot]")
    limit: Ints = field("i8[slot]")  # candidates beyond the first k
    fresh: Floats = field("f8[slot]")  # the best score that the list took in the current step
    counts: Ints = field("i8[slot, counter]")
    used: int = scalar("i8")  # places of the pool handed out so far
    counted: int = scalar("i8")

    def __init__(self, counted: bool = False, counters: int = 0) -> None:
        super().__init__(counter=counters)
        self.counted = counted

    # -- slots ---------------------------------------------------------------------------------------------

    def add(self, k: int) -> int:
        """Return an empty list with room for some candidates: a free one, or a new one."""
        free = np.flatnonzero(self.ks == 0)
        slot = int(free[0]) if len(free) else len(self.ks)
        if not len(free):
            self.grow(slot=slot + 1)
            self.reserve(slot, FIRST_ROOM)
            self.fresh[slot] = -np.inf
        self.clear(slot)
        self.counts[slot] = 0
        self.ks[slot] = k
        self.horizon_time[slot], self.horizon_seq[slot] = LOWEST
        return slot

    def clear(self, slot: int) -> None:
        """Empty a list."""
        self.head[slot] = self.size[slot] = 0

    def reserve(self, slot: int, need: int = 0) -> None:
        """Make room for `need` candidates in a list, or for twice as many as it has room for."""
        need = need or 2 * int(self.room[slot])
        if need <= self.room[slot]:
            return
        if self.used > 4096 and 2 * self.used > 3 * int(self.room.sum()):
            self._pack()
        room = max(FIRST_ROOM, 1 << int(need - 1).bit_length())
        if self.used + room > len(self.good):
            self._widen(max(self.used + room, 2 * len(self.good)))
        old, size, used = int(self.start[slot]), int(self.size[slot]), self.used
        for array in self._rows():
            array[used : used + size] = array[old : old + size]
        self.start[slot], self.room[slot] = used, room
        self.used = used + room

    def _names(self) -> tuple[str, ...]:
        return ("good", "time", "seq", "count") if self.counted else ("good", "time", "seq")

    def _rows(self) -> list[npt.NDArray[Any]]:
        return [getattr(self, name) for name in self._names()]

    def _widen(self, places: int) -> None:
        self.grow(place=places, counted_place=places * bool(self.counted))

    def _pack(self) -> None:
        """Lay the lists side by side again, each with the room it has."""
        order = np.argsort(self.start, kind="stable")
        at = 0
        for slot in order:  # in order of place, so that nothing is overwritten before it has moved
            old, size, room = int(self.start[slot]), int(self.size[slot]), int(self.room[slot])
            for array in self._rows():
                array[at : at + size] = array[old : old + size].copy()
            self.start[slot] = at
            at += room
        self.used = at

    # -- one list ------------------------------------------------------------------------------------------

    def span(self, slot: int) -> slice:
        """Return where this list's live candidates lie in the pool."""
        start = int(self.start[slot])
        return slice(start + int(self.head[slot]), start + int(self.size[slot]))

    def live(self, slot: int) -> int:
        """Return the number of a list's live candidates."""
        return int(self.size[slot] - self.head[slot])

    def inside(self, slot: int, horizon: Recency) -> slice:
        """Return where the candidates of a list at or after a horizon lie in the pool."""
        span = self.span(slot)
        begin = first_inside(self.time, self.seq, span.start, span.stop, horizon.time, horizon.seq)
        return slice(int(begin), span.stop)

    def top(self, slot: int, k: int, horizon: Recency) -> tuple[Floats, Ints, Ints]:
        """Return the k best of a list at or after the horizon, best first: good, time, seq."""
        span = self.inside(slot, horizon)
        k = max(0, min(k, span.stop - span.start))
        scores, places = np.empty(k, dtype=np.float64), np.empty(k, dtype=np.int64)
        best(self.good, span.start, span.stop, k, scores, places)
        return scores, self.time[places], self.seq[places]

    def bytes(self, slot: int) -> int:
        """Return the bytes of the room that a list has."""
        return int(self.room[slot]) * 8 * len(self._names())

    # -- whole ---------------------------------------------------------------------------------------------

    def all_seqs(self) -> Ints:
        """Return the seqs of all live candidates of all lists, with repeats."""
        return self.seq[_places(self.start + self.head, self.size - self.head)]

    def dump(self) -> dict[str, Any]:
        """Return what is live, as plain arrays: the same whatever room the lists have."""
        size = self.size - self.head
        places = _places(self.start + self.head, size)
        rows = {f"list_{name}": getattr(self, name)[places] for name in self._names()}
        return {**{name: getattr(self, name).copy() for name in _KEPT}, **rows, "list_size": size}

    def load(self, content: Mapping[str, Any]) -> None:
        """Continue with what `dump` returned."""
        self.size = content["list_size"].copy()
        for name in _KEPT:
            setattr(self, name, content[name].copy())
        self.head, self.fresh = np.zeros_like(self.size), np.full(len(self.size), -np.inf)
        rooms = [max(FIRST_ROOM, 1 << max(n - 1, 0).bit_length()) for n in self.size.tolist()]
        self.room = np.array(rooms, dtype=np.int64)
        self.start = np.cumsum(self.room) - self.room
        self.used = int(self.room.sum())
        self._widen(self.used)
        places = _places(self.start, self.size)
        for name in self._names():
            getattr(self, name)[places] = content[f"list_{name}"]

    def _check(self) -> None:
        super()._check()
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


_KEPT = ("ks", "horizon_time", "horizon_seq", "limit", "counts")


def _places(start: Ints, size: Ints) -> Ints:
    """Return the places of stretches of a pool, one after the other."""
    ends = np.cumsum(size)
    places: Ints = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(start - (ends - size), size)
    return places


@kernel
def best(good: Floats, begin: int, end: int, k: int, scores: Floats, places: Ints) -> int:
    """Find the k best of good[begin:end], a stretch in recency order, best first; ties: the newer first.

    Walks from the oldest row on, because in a skyband the old ones are the best: a row that has stayed in spite of
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
    """`best` of a small k: those found so far are in order, and one that comes among them moves the worse ones on."""
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


@inlined
def _newer(lists: Lists, place: int, time: int, seq: int) -> bool:
    """Whether a candidate is newer than a row."""
    when = lists.time[U(place)]
    return bool(when > time or (when == time and lists.seq[U(place)] > seq))


@inlined
def move(lists: Lists, to: int, place: int) -> None:
    """Copy a candidate to another place."""
    lists.good[U(to)] = lists.good[U(place)]
    lists.time[U(to)] = lists.time[U(place)]
    lists.seq[U(to)] = lists.seq[U(place)]


@kernel
def append(lists: Lists, slot: int, count: int, picks: Picks, step: Step) -> None:
    """Add the picked rows to a list, in recency order; the room is there.

    In order, that is a copy to the end. Where a picked row is older than the list's newest, the two are merged
    from the back, in place: the tail of the list moves up as far as it must. A new row's counter is -1.
    """
    first = lists.start[slot] + lists.head[slot]
    left = lists.start[slot] + lists.size[slot] - 1  # newest of the list
    write = left + count
    for i in range(count):
        row = U(picks.row[U(i)])
        when, number = step.time[row], step.seq[row]
        while left >= first and _newer(lists, left, when, number):
            move(lists, write, left)
            if lists.counted:
                lists.count[write] = lists.count[left]
            left -= 1
            write -= 1
        lists.good[U(write)] = picks.good[U(i)]
        lists.time[U(write)] = when
        lists.seq[U(write)] = number
        if lists.counted:
            lists.count[write] = -1
        write -= 1
    lists.size[slot] += count


@inlined
def note(lists: Lists, slot: int, count: int, picks: Picks, step: Step) -> None:
    """Count and mark rows that a list took, and note the best of them."""
    lists.counts[slot, 0] += count
    for i in range(count):
        if step.place.shape[0] > 0:  # else all are marked already
            step.mark[step.place[picks.row[i]]] = 1
        # a row of score -inf has come, too: it must not look as if none had
        lists.fresh[slot] = max(lists.fresh[slot], picks.good[i], LEAST)


@kernel
def close_up(lists: Lists, slot: int) -> None:
    """Move what is live to the front of the list's stretch."""
    begin, head, live = lists.start[slot], lists.head[slot], lists.size[slot] - lists.head[slot]
    for place in range(begin, begin + live):
        move(lists, place, place + head)
        if lists.counted:
            lists.count[place] = lists.count[place + head]
    lists.head[slot], lists.size[slot] = 0, live


@inlined
def has_room(lists: Lists, slot: int, count: int) -> bool:
    """Whether a list has room for more rows behind it, if need be after it is closed up."""
    if lists.size[slot] + count > lists.room[slot] and lists.head[slot] > 0:
        close_up(lists, slot)
    return bool(lists.size[slot] + count <= lists.room[slot])


@kernel
def outdo(lists: Lists, slot: int, bar: float, time: int, seq: int) -> int:
    """Drop the candidates that are no better than `bar`, the k-th best of newer rows; the oldest of these has this
    recency.

    Only if the whole list is older than that row: else some of those k might not be newer. What is left moves to
    the front of the list's stretch; returns how many were dropped.
    """
    begin, end = lists.start[slot], lists.start[slot] + lists.size[slot]
    first = begin + lists.head[slot]
    if bar == -np.inf or (end > first and _newer(lists, end - 1, time, seq)):
        return 0
    write = begin
    for place in range(first, end):
        if lists.good[place] > bar:
            move(lists, write, place)
            write += 1
    lists.head[slot], lists.size[slot] = 0, write - begin
    return int(end - first - (write - begin))


@kernel
def weed(lists: Lists, begin: int, end: int, target: int, k: int) -> int:
    """`prune` of a short stretch: of four rows at once it is counted how many newer ones are at least as good.

    That is more comparisons than a heap makes, but they are the same whatever the scores are: the machine makes four in
    one instruction and has nothing to guess, where nearly each survivor would be sunk into a heap. (A row that goes is
    counted, too: every row that it dominates is dominated by the k rows that it goes for.)
    """
    good = lists.good
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
        write = keep(lists, write, read, a, over_a < k)
        write = keep(lists, write, read + one, b, over_b < k)
        write = keep(lists, write, read + two, c, over_c < k)
        write = keep(lists, write, read + three, d, over_d < k)
        read += four
    while read < last:
        value, over = good[read], 0
        if read < newest:
            for i in range(read + one, last):
                over += good[i] >= value
        write = keep(lists, write, read, value, over < k)
        read += one
    return int(write) - target


@inlined
def keep(lists: Lists, write: Any, read: Any, value: float, stays: bool) -> Any:
    """Write a row, which counts if it stays; returns the next place to write to."""
    lists.good[write] = value
    lists.time[write] = lists.time[read]
    lists.seq[write] = lists.seq[read]
    return write + U(stays)


@kernel
def prune(lists: Lists, slot: int, k: int, heap: Floats) -> int:
    """Reduce a list to its k-skyband, which moves to the front of its stretch. Returns how many rows were dropped.

    One pass from the newest back packs the survivors against the stretch's end, a second copies them down. In a short
    stretch dominators are counted instead.
    """
    good, begin = lists.good, lists.start[slot]
    first, end = begin + lists.head[slot], begin + lists.size[slot]
    if end - first <= SHORT:
        kept = weed(lists, first, end, begin, k)
    else:
        size = 0
        write = end
        for place in range(end - 1, first - 1, -1):
            value = good[place]
            if size < k:
                push_heap(heap, size, value)
                size += 1
            elif value > heap[0]:
                replace_root(heap, k, value)
            else:
                continue  # k newer rows are at least as good
            write -= 1
            move(lists, write, place)
        kept = end - write
        for i in range(kept):
            move(lists, begin + i, write + i)
    lists.head[slot], lists.size[slot] = 0, kept
    return int(end - first - kept)


@kernel
def expire_all(lists: Lists) -> None:
    """Cut every list in use at its horizon, and begin a step."""
    for slot in range(lists.ks.shape[0]):
        when, edge = lists.horizon_time[slot], lists.horizon_seq[slot]
        lists.fresh[slot] = -np.inf
        if lists.ks[slot] > 0:
            begin = lists.start[slot] + lists.head[slot]
            end = lists.start[slot] + lists.size[slot]
            # mostly none has left
            if begin < end and (
                lists.time[begin] < when or (lists.time[begin] == when and lists.seq[begin] < edge)
            ):
                inside = first_inside(lists.time, lists.seq, begin, end, when, edge)
                lists.head[slot] = inside - lists.start[slot]


@kernel
def remove(lists: Lists, slot: int, gone_time: Ints, gone_seq: Ints) -> bool:
    """Take rows out of a list, given by their recencies, oldest first; returns whether one of them was there.

    Rows that are not there are passed over. Each one is found by binary search, and what lies behind the first moves up
    once.
    """
    read = lists.start[slot] + lists.head[slot]  # from here on nothing was looked for yet
    write = end = lists.start[slot] + lists.size[slot]
    for i in range(gone_seq.shape[0]):
        at = first_inside(lists.time, lists.seq, read, end, gone_time[i], gone_seq[i])
        if at < end and lists.seq[at] == gone_seq[i]:
            if write == end:
                write = at
            else:
                for place in range(read, at):
                    move(lists, write, place)
                    write += 1
            read = at + 1
        elif write == end:
            read = at
    if write == end:
        return False
    for place in range(read, end):
        move(lists, write, place)
        write += 1
    lists.size[slot] = write - lists.start[slot]
    return True


@kernel
def kth_best(lists: Lists, slots: Ints, heap: Floats, out: Floats) -> bool:
    """Write each list's k-th best score, by slot; return False if one of them has fewer than k candidates."""
    good = lists.good
    for slot in slots:
        k = lists.ks[slot]
        held = 0
        for i in range(lists.start[slot] + lists.head[slot], lists.start[slot] + lists.size[slot]):
            if held < k:
                push_heap(heap, held, good[i])
                held += 1
            elif good[i] > heap[0]:
                replace_root(heap, k, good[i])
        if held < k:
            return False
        out[slot] = heap[0]
    return True
