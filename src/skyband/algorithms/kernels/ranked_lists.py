"""Ranked lists, one for each query, in one pool of arrays: the best rows that a query knows, best last.

Algorithms that keep the window's rows don't need every candidate in order of recency; what they report is the end of
a short list sorted by the one total order. Each list has its own stretch of the pool: `start` says where, `size` how
many places are in use, `room` how many there are. Best last, because what comes in is mostly among the worst of a
list, and moving those is cheap when they are at the front of nothing: an insertion shifts the better rows by one.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from skyband.compiling.array_version import Renewed
from skyband.compiling.jit import inlined, kernel
from skyband.compiling.state import State, field
from skyband.core.exchange import Present
from skyband.core.order import before
from skyband.core.types import Floats, Ints

FIRST_ROOM = 32
TIGHT = 64  # one place in so many may be nobody's


class Ends(Renewed):
    """Where the answers of a family's watches are: at the ends of lists."""

    def __init__(self) -> None:
        self.which = np.empty(0, dtype=np.int64)  # scratch: the watches whose answers may have changed
        self.start = np.empty(0, dtype=np.int64)  # by watch, the best entry's place
        self.size = np.empty(0, dtype=np.int64)

    def fit(self, watches: int) -> None:
        """Have room for so many watches."""
        if len(self.which) != watches:
            self.which, self.start, self.size = (np.zeros(watches, dtype=np.int64) for _ in range(3))


class Ranked(Renewed, State):
    """A pool of lists in the one total order, best last; a `slot` names one."""

    good: Floats = field("f8[place]")
    time: Ints = field("i8[timed_place]")
    seq: Ints = field("i8[place]")
    count: Ints = field("i8[counted_place]")  # dominators of each row, where the algorithm counts them
    start: Ints = field("i8[slot]")
    size: Ints = field("i8[slot]")
    room: Ints = field("i8[slot]")

    def __init__(self, counted: bool = False, timed: bool = True, tight: bool = False) -> None:
        """timed: rows have times, else none are kept until `keep_times`; tight: hardly more memory than there are rows,
        and a new list has no room yet."""
        super().__init__()
        self._made = (counted, timed, tight)
        self.tight = tight
        self.names = ("good", *("time",) * timed, "seq", *("count",) * counted)
        self.used = 0  # places of the pool handed out so far
        self.ends = Ends()

    @property
    def timed(self) -> bool:
        return "time" in self.names

    def keep_times(self) -> None:
        """From now on rows have times; those that are there have 0."""
        self.time = np.zeros(len(self.good), dtype=np.int64)
        self.names = ("good", "time", *self.names[1:])

    def times(self, span: slice) -> Ints:
        """Of rows of a list."""
        return self.time[span] if self.timed else np.zeros(span.stop - span.start, dtype=np.int64)

    def add(self, room: int | None = None) -> int:
        """A new empty list."""
        room = (0 if self.tight else FIRST_ROOM) if room is None else room
        slot = len(self.start)
        self.grow(slot=slot + 1)
        self.reserve(slot, room)
        return slot

    def clear(self, slot: int) -> None:
        self.size[slot] = 0

    def reserve(self, slot: int, need: int) -> None:
        """Make room for `need` rows in this list; its stretch may move, and the pool's arrays may be new ones."""
        if need <= self.room[slot]:
            return
        room = max(FIRST_ROOM, need + need // 4)
        self.spare(room)
        old, size = int(self.start[slot]), int(self.size[slot])
        for array in self._arrays():
            array[self.used : self.used + size] = array[old : old + size]
        self.start[slot] = self.used
        self.room[slot] = room
        self.used += room

    def spare(self, places: int) -> None:
        """See that so many places are free at the end of the pool, from `used` on."""
        if self.used + places <= len(self.good):
            return
        lost = self.used - int(self.room.sum())
        if self.used > 4096 and lost >= (
            max(places, self.used // TIGHT) if self.tight else self.used // 3 + 1
        ):
            self._pack()
        if self.used + places > len(self.good):
            self._resize(self.used + max(places, self.used // (2 * TIGHT if self.tight else 2)))

    def tighten(self) -> None:
        """Lists side by side, and little room behind them, where that makes a difference."""
        if len(self.good) - int(self.room.sum()) > len(self.good) // TIGHT:
            self._pack()
            self._resize(self.used + self.used // (2 * TIGHT))

    def _arrays(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.names)

    def _resize(self, places: int) -> None:
        for name in self.names:
            old = getattr(self, name)
            new = np.zeros(places, dtype=old.dtype)
            new[: self.used] = old[: self.used]
            setattr(self, name, new)

    def _pack(self) -> None:
        """Lay the lists side by side again, each with the room it has."""
        begin = np.cumsum(self.room) - self.room
        within = np.arange(int(self.size.sum())) - np.repeat(np.cumsum(self.size) - self.size, self.size)
        source, target = np.repeat(self.start, self.size) + within, np.repeat(begin, self.size) + within
        for array in self._arrays():
            array[target] = array[source]
        self.start[:] = begin
        self.used = int(self.room.sum())

    def span(self, slot: int) -> slice:
        start = int(self.start[slot])
        return slice(start, start + int(self.size[slot]))

    def put(self, slot: int, good: Floats, time: Ints, seq: Ints) -> None:
        """The list is these rows, in any order. Whoever counts dominators counts them anew."""
        self.reserve(slot, len(good))
        order = np.lexsort((seq, time, good))
        start = int(self.start[slot])
        for name, values in (("good", good), ("time", time), ("seq", seq)):
            if name in self.names:
                getattr(self, name)[start : start + len(good)] = values[order]
        self.size[slot] = len(good)

    def top(self, slot: int, k: int) -> tuple[Floats, Ints, Ints]:
        """The k best of this list, best first: good, time, seq."""
        span = self.span(slot)
        part = slice(max(span.start, span.stop - k), span.stop)
        good, time, seq = self.good[part][::-1], self.times(part)[::-1], self.seq[part][::-1]
        return good.copy(), time.copy(), seq.copy()

    def present(self, touched: Any, slots: Ints, stale: Ints, ks: Ints) -> Present:
        """The answers of the watches whose slot was touched, or that are stale."""
        ends = self.ends
        ends.fit(len(slots))
        count = find_ends(slots, ks, touched, stale, self.start, self.size, ends.which, ends.start, ends.size)
        return Present(ends.which[:count], ends.start, ends.size, -1, self.good, self.time, self.seq)

    @property
    def row_bytes(self) -> int:
        return 8 * len(self.names)

    def bytes(self, slot: int) -> int:
        return int(self.room[slot]) * self.row_bytes

    def dump(self) -> dict[str, Any]:
        """The lists side by side, whatever room they have."""
        spans = [self.span(slot) for slot in range(len(self.start))]
        blob: dict[str, Any] = {
            name: np.concatenate([getattr(self, name)[span] for span in spans] or [getattr(self, name)[:0]])
            for name in self.names
        }
        if not self.timed:
            blob["time"] = np.zeros(int(self.size.sum()), dtype=np.int64)
        return {**blob, "size": self.size.copy()}

    def load(self, blob: Mapping[str, Any]) -> None:
        self.__init__(*self._made)  # type: ignore[misc]
        if blob["time"].any() and not self.timed:
            self.keep_times()
        at = 0
        for size in blob["size"].tolist():
            slot = self.add(max(size, FIRST_ROOM))
            part = slice(at, at + size)
            start = int(self.start[slot])
            for name in self.names:
                getattr(self, name)[start : start + size] = blob[name][part]
            self.size[slot] = size
            at += size

    def _check(self) -> None:
        super()._check()
        taken = np.zeros(len(self.good), dtype=bool)
        for slot in range(len(self.start)):
            start, size, room = (int(x[slot]) for x in (self.start, self.size, self.room))
            # a list keeps within its room, which no other list has a place of
            assert 0 <= size <= room and start + room <= self.used <= len(self.good)
            assert not taken[start : start + room].any()
            taken[start : start + room] = True
            span = self.span(slot)
            good, time, seq = self.good[span], self.times(span), self.seq[span]
            # the one total order, strictly: no row is there twice; a NaN is never there
            assert not np.isnan(good).any()
            newer = (time[1:] > time[:-1]) | ((time[1:] == time[:-1]) & (seq[1:] > seq[:-1]))
            assert bool(np.all((good[1:] > good[:-1]) | ((good[1:] == good[:-1]) & newer)))


@kernel
def find_ends(
    slots: Ints, ks: Ints, touched: Any, stale: Ints, list_start: Ints, list_size: Ints, which: Ints, start: Ints,
    size: Ints,
) -> int:  # fmt: skip
    """Note which watches' answers may have changed, and where each begins; return how many those are."""
    count = 0
    for w in range(slots.shape[0]):
        slot = slots[w]
        if touched[slot] == 0 and stale[w] == 0:
            continue
        which[count] = w
        count += 1
        start[w] = list_start[slot] + list_size[slot] - 1
        size[w] = min(ks[w], list_size[slot])
    return count


@inlined
def enlist(
    value: float, when: int, number: int, start: int, size: int, good: Floats, time: Ints, seq: Ints
) -> int:
    """Put a row into the list at [start, start + size), which has room; returns its place."""
    at = start + size
    while at > start and before(good[at - 1], time[at - 1], seq[at - 1], value, when, number):
        good[at], time[at], seq[at] = good[at - 1], time[at - 1], seq[at - 1]
        at -= 1
    good[at], time[at], seq[at] = value, when, number
    return at


@inlined
def insert(ranked: Ranked, slot: int, value: float, when: int, number: int) -> int:
    """Insert a row into a list that has room; return its place."""
    start, size = ranked.start[slot], ranked.size[slot]
    ranked.size[slot] = size + 1
    return int(enlist(value, when, number, start, size, ranked.good, ranked.time, ranked.seq))


@inlined
def replace_worst(ranked: Ranked, slot: int, value: float, when: int, number: int) -> int:
    """Insert a row that is before the worst of a list, which leaves; return its place."""
    good, time, seq = ranked.good, ranked.time, ranked.seq
    at, last = ranked.start[slot], ranked.start[slot] + ranked.size[slot] - 1
    while at < last and before(value, when, number, good[at + 1], time[at + 1], seq[at + 1]):
        good[at], time[at], seq[at] = good[at + 1], time[at + 1], seq[at + 1]
        at += 1
    good[at], time[at], seq[at] = value, when, number
    return int(at)


@inlined
def insert_counted(
    ranked: Ranked, slot: int, k: int, value: float, when: int, number: int
) -> tuple[int, int]:
    """Insert a row into a k-skyband, which has room; count it for each row that it dominates, and remove rows at k.

    Returns how many were removed, and how many rows are before it; -1, 0 if k of these are newer: then it is dominated.
    """
    good, time, seq, count = ranked.good, ranked.time, ranked.seq, ranked.count
    begin, end = ranked.start[slot], ranked.start[slot] + ranked.size[slot]
    at = end
    own = 0
    while own < k and at > begin and before(good[at - 1], time[at - 1], seq[at - 1], value, when, number):
        at -= 1
        if time[at] > when or (time[at] == when and seq[at] > number):
            own += 1
    if own >= k:
        return -1, 0
    write = begin
    for i in range(begin, at):
        if time[i] < when or (time[i] == when and seq[i] < number):
            count[i] += 1
            if count[i] >= k:
                continue
        if write != i:
            good[write], time[write], seq[write], count[write] = good[i], time[i], seq[i], count[i]
        write += 1
    gone = at - write
    if gone == 0:  # the better ones move up
        for i in range(end, at, -1):
            good[i], time[i], seq[i], count[i] = good[i - 1], time[i - 1], seq[i - 1], count[i - 1]
    elif gone > 1:  # or down
        for i in range(at, end):
            to = i - gone + 1
            good[to], time[to], seq[to], count[to] = good[i], time[i], seq[i], count[i]
    good[write], time[write], seq[write], count[write] = value, when, number, own
    ranked.size[slot] += 1 - gone
    return gone, end - at
