"""Lists in order of arrival: what `snn` keeps for each query while rows enter and leave one by one (row_loop.py).

A query's list contains the rows before its bar in order of arrival: a new row is appended, the oldest one is the first
to leave, and neither moves another. Beside it are the k best of them in their order, the answer. A row better than
the k-th is inserted there; when one of the k leaves, the best of the rest is searched for. Dominated rows are removed
when a list has become long, as in `ra`; if it is still long then, its bar is raised.

All lists lie in two pools, good and place, the answers in two others; a slot's `line` contains the offsets. A row's
place is a number that does not change: its index in the window's arrays plus the distance by which these have moved
down since. Indices are unsigned in loops over lists: a signed one might count from the end, and the check for that
prevents vector instructions.
"""

from __future__ import annotations

import numpy as np

from skyband.algorithms.kernels.barred_lists import Bars
from skyband.algorithms.kernels.ranked_lists import Ranked
from skyband.compiling.intrinsics import fetch
from skyband.compiling.jit import inlined, kernel
from skyband.compiling.state import State, field
from skyband.core.order import first_inside
from skyband.core.types import MINIMUM, Floats, Ints

# columns of a slot's line: offsets in the pools, numbers of rows
START, FIRST, END, STOP, TOP, K, LIMIT, USUAL = range(8)
U = np.uint64
LINE = 8  # numbers that are prefetched together


class Arrived(State):
    """Lists in order of arrival, and the answers beside them."""

    line: Ints = field("i8[slot, number]")
    good: Floats = field("f8[place]")
    place: Ints = field("i8[place]")
    top_good: Floats = field("f8[top]")
    top_place: Ints = field("i8[top]")

    def begin(self, ks: Ints, keep: Ints, usual: Ints) -> None:
        """Make room for the lists of so many slots."""
        slots = len(ks)
        self.line = np.zeros((slots, 8), dtype=np.int64)
        self.line[:, TOP] = np.cumsum(ks) - ks
        self.line[:, K] = ks
        self.used = 0
        self.good, self.place = np.empty(0), np.empty(0, np.int64)
        self.top_good, self.top_place = np.empty(ks.sum()), np.empty(ks.sum(), np.int64)
        self.provide(np.flatnonzero(ks), keep, usual)

    def provide(self, slots: Ints, keep: Ints, usual: Ints) -> None:
        """Make room for as many rows as a search for these slots finds, and for more that arrive."""
        for slot in slots.tolist():
            measure(slot, keep[slot], usual[slot], self.line)
        self.make_room(slots)

    def make_room(self, slots: Ints) -> None:
        """Make room for lists as long as their limits allow; a list without enough room moves, and is then empty."""
        limit = self.line[slots, LIMIT]
        need = limit + limit // 2
        short = self.line[slots, STOP] - self.line[slots, START] < need
        if not short.any():
            return
        ends = self.used + np.cumsum(need[short])
        if ends[-1] > len(self.good):
            good, place = self.good[: self.used], self.place[: self.used]
            # most of it is written late or never, and memory that was never written takes no space
            self.good, self.place = np.empty(4 * ends[-1]), np.empty(4 * ends[-1], np.int64)
            self.good[: self.used], self.place[: self.used] = good, place
        self.line[slots[short], STOP] = ends
        self.line[slots[short], START] = ends - need[short]
        self.line[slots[short], FIRST] = self.line[slots[short], END] = ends - need[short]
        self.used = int(ends[-1])

    def sizes(self) -> Ints:
        found: Ints = self.line[:, END] - self.line[:, FIRST]
        return found

    def bytes(self, slot: int) -> int:
        return int(16 * (self.line[slot, STOP] - self.line[slot, START]) + 16 * self.line[slot, K])

    def check(self, shift: int, head: int, end: int, bar: Floats) -> None:
        for slot in np.flatnonzero(self.line[:, K]).tolist():
            first, last, k = self.line[slot, [FIRST, END, K]].tolist()
            good, place = self.good[first:last], self.place[first:last]
            # each list is in its room, in order of arrival, all before the bar and in the window
            assert self.line[slot, START] <= first and last < self.line[slot, STOP]
            assert np.all(place[1:] > place[:-1]) and np.all(good >= bar[slot])
            assert place[0] - shift >= head and place[-1] - shift < end
            # each answer is the k best of its list, of equal ones the newer first
            best = np.lexsort((place, good))[::-1][:k]
            top = slice(self.line[slot, TOP], self.line[slot, TOP] + k)
            assert np.array_equal(self.top_place[top], place[best]) and np.array_equal(
                self.top_good[top], good[best]
            )


@inlined
def rise(value: float, number: int, top: int, last: int, top_good: Floats, top_place: Ints) -> int:
    """Insert the newest row of all into the best, at [top, last]; return the place of the worst, which leaves."""
    gone = top_place[U(last)]
    at = last
    while at > top and top_good[U(at - 1)] <= value:
        top_good[U(at)] = top_good[U(at - 1)]
        top_place[U(at)] = top_place[U(at - 1)]
        at -= 1
    top_good[U(at)] = value
    top_place[U(at)] = number
    return int(gone)


@inlined
def fall(
    number: int, first: int, end: int, top: int, last: int, good: Floats, place: Ints, top_good: Floats, top_place: Ints
) -> bool:  # fmt: skip
    """Remove one of the best; append the next best of the rows at [first, end). Return whether there was none."""
    worst, since = top_good[U(last)], top_place[U(last)]
    at = top
    while top_place[U(at)] != number:
        at += 1
    while at < last:
        top_good[U(at)] = top_good[U(at + 1)]
        top_place[U(at)] = top_place[U(at + 1)]
        at += 1
    # the best of those that are worse, in four independent strands
    b0 = b1 = b2 = b3 = -np.inf
    equal = 0
    stop = first + ((end - first) & -4)
    for i in range(first, stop, 4):
        v0, v1, v2, v3 = good[U(i)], good[U(i + 1)], good[U(i + 2)], good[U(i + 3)]
        equal += (v0 == worst) + (v1 == worst) + (v2 == worst) + (v3 == worst)
        b0 = v0 if (v0 < worst) & (v0 > b0) else b0
        b1 = v1 if (v1 < worst) & (v1 > b1) else b1
        b2 = v2 if (v2 < worst) & (v2 > b2) else b2
        b3 = v3 if (v3 < worst) & (v3 > b3) else b3
    for i in range(stop, end):
        v0 = good[U(i)]
        equal += v0 == worst
        b0 = v0 if (v0 < worst) & (v0 > b0) else b0
    best = max(max(b0, b1), max(b2, b3))
    found = end - 1
    if equal > 1 or best == -np.inf:  # several have the worst score, or no row is worse
        best, found = -np.inf, -1
        for i in range(first, end):
            v0 = good[U(i)]
            if v0 >= best and (v0 < worst or (v0 == worst and place[U(i)] < since)):
                best = v0
                found = i
        if found < 0:
            return True
    else:
        while good[U(found)] != best:
            found -= 1
    top_good[U(last)] = best
    top_place[U(last)] = place[U(found)]
    return False


@inlined
def eldest(top: int, last: int, top_place: Ints) -> int:
    """Return the oldest of the best."""
    found = top_place[U(top)]
    for at in range(top + 1, last + 1):
        found = min(found, top_place[U(at)])
    return int(found)


@inlined
def expel(
    due: int, oldest: int, first: int, end: int, top: int, last: int, good: Floats, place: Ints, top_good: Floats,
    top_place: Ints,
) -> tuple[int, int, bool]:  # fmt: skip
    """Remove those of the best that are older than `due`.

    Returns the first of the rows at [first, end) that stays, the oldest of the best, and whether there are too few; if
    so, the second is the row after whose removal there were too few.
    """
    short = False
    while oldest < due and not short:
        while first < end and place[U(first)] <= oldest:  # rows after it may have left later, but not before
            first += 1
        short = fall(oldest, first, end, top, last, good, place, top_good, top_place)
        if not short:
            oldest = eldest(top, last, top_place)
    return first, oldest, short


@inlined
def approach(slot: int, arrived: Arrived) -> None:
    """Prefetch the list of a slot that is needed next."""
    line, good, place = arrived.line, arrived.good, arrived.place
    top_good, top_place = arrived.top_good, arrived.top_place
    top = line[slot, TOP]
    for at in range(line[slot, FIRST], line[slot, END] + LINE, LINE):
        fetch(good, at)
        fetch(place, at)
    for at in range(top, top + line[slot, K] + LINE - 1, LINE):
        fetch(top_good, at)
        fetch(top_place, at)


@inlined
def move_down(to: int, first: int, end: int, good: Floats, place: Ints) -> int:
    """Move a list that has reached the end of its room to the beginning; return its new end."""
    for i in range(end - first):
        good[to + i] = good[first + i]
        place[to + i] = place[first + i]
    return end - first + to


@kernel
def select(values: Floats, rank: int) -> float:
    """Return the value at a rank, 0 for the least; no value may be NaN.

    The result is np.partition's, in a quarter of the time: every value is written to both ends of the part that it may
    belong to, so there are no unpredictable branches.
    """
    n = values.shape[0]
    held = np.empty(2 * n)
    for i in range(n):
        held[i] = values[i]
    low, high = 0, n
    while high - low > 8:
        a, b, c = held[low], held[(low + high) >> 1], held[high - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        less, more = n + low, n + high - 1
        for i in range(low, high):
            value = held[U(i)]
            held[U(less)] = value
            held[U(more)] = value
            less += value < pivot
            more -= value > pivot
        if rank < less - n:
            high = less - n
        elif rank > more - n:
            low = more - n + 1
        else:
            return float(pivot)
        for i in range(low, high):
            held[U(i)] = held[U(n + i)]
    for i in range(low + 1, high):
        value = held[i]
        at = i
        while at > low and held[at - 1] > value:
            held[at] = held[at - 1]
            at -= 1
        held[at] = value
    return float(held[rank])


@kernel
def sweep(slot: int, bars: Bars, arrived: Arrived, best: Floats) -> bool:
    """Remove the rows of a slot's list that k newer rows equal or exceed; raise its bar if it is still long.

    Returns whether the bar was raised. Afterwards the list lies at the beginning of its room.
    """
    line, good, place = arrived.line, arrived.good, arrived.place
    start, first, end, k = line[slot, START], line[slot, FIRST], line[slot, END], line[slot, K]
    # best[1:] are the best k rows so far, best first; inserting one takes k comparisons
    best[0] = np.inf
    for i in range(1, k + 1):
        best[i] = -np.inf
    write = end
    for j in range(end - 1, first - 1, -1):
        value = good[U(j)]
        if value <= best[U(k)] and end - write >= k:  # k rows with the worst possible score count, too
            continue
        for i in range(k, 0, -1):
            other = min(best[i - 1], value)
            best[i] = max(best[i], other)
        write -= 1
        good[U(write)] = value
        place[U(write)] = place[U(j)]
    usual = line[slot, USUAL]
    raised = bool(end - write > usual + (usual >> 3) + 1)
    if raised:
        least = select(good[write:end], end - write - usual)
        if least > bars.bar[slot]:
            bars.bar[slot] = least
            bars.bar_time[slot] = MINIMUM
            bars.bar_seq[slot] = MINIMUM
    count = 0
    for j in range(write, end):
        if good[j] >= bars.bar[slot]:
            good[start + count] = good[j]
            place[start + count] = place[j]
            count += 1
    line[slot, FIRST] = start
    line[slot, END] = start + count
    return raised


@inlined
def measure(slot: int, keep: int, usual: int, line: Ints) -> bool:
    """Set the length at which a slot's list is swept, and above which its bar is raised after that.

    Returns whether there is too little room for it.
    """
    limit = max(keep + keep // 2 + line[slot, K] + 16, usual + usual // 2)
    line[slot, LIMIT], line[slot, USUAL] = limit, usual
    return bool(line[slot, STOP] - line[slot, START] < limit + limit // 2)


@kernel
def take_over(
    slots: Ints, begin: int, end: int, shift: int, times: Ints, seqs: Ints, ranked: Ranked, arrived: Arrived,
    order: Ints,
) -> None:  # fmt: skip
    """Make lists in order of arrival from lists in order of scores, whose rows lie in [begin, end)."""
    line, top_good, top_place = arrived.line, arrived.top_good, arrived.top_place
    for i in range(slots.shape[0]):
        slot = slots[i]
        first, n, k = ranked.start[slot], ranked.size[slot], line[slot, K]
        for j in range(n):
            at = begin + ranked.seq[first + j] - seqs[begin]  # where seqs have no gaps
            if at >= end or seqs[at] != ranked.seq[first + j]:
                at = first_inside(times, seqs, begin, end, ranked.time[first + j], ranked.seq[first + j])
            order[j] = at + shift
        for j in range(k):
            top_good[line[slot, TOP] + j] = ranked.good[first + n - 1 - j]
            top_place[line[slot, TOP] + j] = order[n - 1 - j]
        to = line[slot, START]
        came = np.argsort(order[:n])
        for j in range(n):
            arrived.good[to + j] = ranked.good[first + came[j]]
            arrived.place[to + j] = order[came[j]]
        line[slot, FIRST] = to
        line[slot, END] = to + n


@kernel
def gathered(slots: Ints, begin: int, end: int, line: Ints, place: Ints) -> Ints:
    """Return those of some slots for which five in six rows arrived within a quarter of the window, the places
    [begin, end): their rows will leave together, too. With rows in random order this hardly ever happens."""
    found = np.empty(slots.shape[0], np.int64)
    eighth = np.empty(8, np.int64)
    count = 0
    for slot in slots:
        first, n = line[slot, FIRST], line[slot, END] - line[slot, FIRST]
        for i in range(8):
            eighth[i] = 0
        for at in range(first, first + n):
            eighth[min(8 * (place[at] - begin) // (end - begin), 7)] += 1
        most = 0
        for i in range(7):
            most = max(most, eighth[i] + eighth[i + 1])
        found[count] = slot
        count += 6 * most >= 5 * n
    return found[:count]


@kernel
def hand_back(
    slots: Ints, whole: bool, begin: int, end: int, shift: int, times: Ints, seqs: Ints, ranked: Ranked,
    arrived: Arrived,
) -> None:  # fmt: skip
    """Write the answers of slots, or all rows of their lists, to lists in order of scores, best last; rows lie in
    [begin, end)."""
    line, good, time, seq = arrived.line, ranked.good, ranked.time, ranked.seq
    # seqs without gaps, all of one time: both follow from a row's place, without a read
    plain = times[begin] == times[end - 1] and seqs[end - 1] - seqs[begin] == end - 1 - begin
    for i in range(slots.shape[0]):
        slot = slots[i]
        to, n = ranked.start[slot], line[slot, K]
        if not whole:
            for j in range(n):
                row = arrived.top_place[line[slot, TOP] + j] - shift
                good[to + n - 1 - j] = arrived.top_good[line[slot, TOP] + j]
                time[to + n - 1 - j] = times[begin] if plain else times[row]
                seq[to + n - 1 - j] = seqs[begin] + row - begin if plain else seqs[row]
        else:
            first, n = line[slot, FIRST], line[slot, END] - line[slot, FIRST]
            # of equal scores the newer row is better
            ranks = np.argsort(arrived.good[first : first + n], kind="mergesort")
            for j in range(n):
                row = arrived.place[first + ranks[j]] - shift
                good[to + j] = arrived.good[first + ranks[j]]
                time[to + j] = times[row]
                seq[to + j] = seqs[row]
        ranked.size[slot] = n


@kernel
def least(values: Floats, n: int) -> float:
    floor = np.inf
    for i in range(n):
        floor = min(floor, values[i])
    return floor


@kernel
def prune(values: Floats, rows: Ints, n: int, wanted: int) -> int:
    """Keep the best of these rows, which are in order of arrival; of equal ones, the newer."""
    floor = select(values[:n], n - wanted)
    above = 0
    for i in range(n):
        above += values[i] > floor
    write = n
    for i in range(n - 1, -1, -1):
        if values[i] < floor or (values[i] == floor and above == wanted):
            continue
        above += values[i] == floor
        write -= 1
        values[write] = values[i]
        rows[write] = rows[i]
    for i in range(n - write):
        values[i] = values[write + i]
        rows[i] = rows[write + i]
    return n - write


@kernel
def lasting(values: Floats, rows: Ints, n: int, k: int, since: int, ranks: Floats) -> int:
    """Return how many of these rows are at least as good as k rows from `since` on; all, if there are fewer than k."""
    young = 0
    for i in range(n):
        ranks[young] = values[i]
        young += rows[i] >= since
    if young < k:
        return n
    floor = select(ranks[:young], young - k)
    count = 0
    for i in range(n):
        count += values[i] >= floor
    return count


@kernel
def settle(
    slot: int, found: int, shift: int, times: Ints, seqs: Ints, bars: Bars, arrived: Arrived, values: Floats, rows: Ints
) -> None:  # fmt: skip
    """Replace a slot's list by the rows that a search found, in order of arrival."""
    line, top_good, top_place = arrived.line, arrived.top_good, arrived.top_place
    start, k, top = line[slot, START], line[slot, K], line[slot, TOP]
    kept = 0
    worst = 0
    kth = select(values[:found], found - k)
    for i in range(found):
        arrived.good[start + i] = values[i]
        arrived.place[start + i] = rows[i] + shift
        if values[i] < values[worst]:
            worst = i
        if values[i] >= kth and (kept < k or values[i] >= top_good[top + k - 1]):
            at = top + min(kept, k - 1)
            while at > top and top_good[at - 1] <= values[i]:
                top_good[at] = top_good[at - 1]
                top_place[at] = top_place[at - 1]
                at -= 1
            top_good[at] = values[i]
            top_place[at] = rows[i] + shift
            kept = min(kept + 1, k)
    line[slot, FIRST] = start
    line[slot, END] = start + found
    bars.bar[slot] = values[worst]
    bars.bar_time[slot] = times[rows[worst]]
    bars.bar_seq[slot] = seqs[rows[worst]]
