"""Slack lists: every row above a query's admission threshold, so that the top k rarely has to be searched for.

A list of exactly k rows is short as soon as one of them leaves the window. These lists go on below the k-th: a query
has a threshold (`edge`), and every row of its window with a score at or above it is in its list, or has k newer rows
at least as good there, so that it can never be in an answer. As long as a list has k rows inside the window, its
best k are the exact top k.

* A new row is inserted if it reaches the edge.
* A row that leaves the window is removed only when it is among the best k: other expired rows stay until they move up
  or the list is full. `old` bounds the recency of the best k from below, so that one comparison skips most queries.
* A full list removes expired and dominated rows. If that is not enough, its edge rises to the k-th best among its
  *young* rows, those of the newest third of the window or so: these k outlive the rest, so the list lasts for two
  thirds of a window whatever arrives. But the edge leaves at least 2.6 times k rows: k rows are a small sample of a
  stream, and where the young ones were good by chance the list would soon run short. Where young rows are too few the
  list gets more room, up to a limit; then its worst quarter is removed, whole groups of equal scores together, since a
  cut through such a group would leave the edge undefined.

An edge falls only when a list is rebuilt from the stored rows (refill.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.compiling.intrinsics import fetch
from skyband.compiling.jit import inlined, kernel
from skyband.core.types import Floats, Ints

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int32]
Short = npt.NDArray[np.int32]  # slots, or lengths of lists

SHARE = 0.36  # the newest part of a window whose k-th best is a threshold: lists are about k / SHARE long
SHARE_AGAIN = 0.25  # where a list ran short: scores may be falling, and a longer one lasts longer

AHEAD = 8  # lists that are prefetched
FETCHED = 5  # times 8 rows of a list, its best ones

FAR = 2**63 - 1  # no time or seq is greater (and 2^62 is an ordinary time)

# indices of the kernels' totals: counters of a whole family
SEEN, REJECTED, SURVIVED, ADMITTED, OVERFLOWS, RAISED = range(6)
CATCH_UPS, SEARCHED, DEEPENED, STRANGERS, MAPS, CALIBRATED, WISHES = range(6, 13)


@kernel
def precedes(time: int, seq: int, other_time: int, other_seq: int) -> bool:
    """Whether a recency is older than another."""
    return time < other_time or (time == other_time and seq < other_seq)


@kernel
def youth(share: float, horizon_time: int, horizon_seq: int, clock: Ints) -> tuple[int, int]:
    """Return the recency from which on rows count as young: the newest share of the rows inside the horizon.

    clock: newest time and seq, oldest time and seq stored.
    """
    time, seq = horizon_time, horizon_seq
    if precedes(time, seq, clock[2], clock[3]):
        time, seq = clock[2], clock[3]
    if time >= clock[0]:
        return clock[0], seq + int((clock[1] - seq) * (1.0 - share))
    return time + int((clock[0] - time) * (1.0 - share)), -(1 << 62)


@inlined
def time_in(time: Ints, at: int) -> Any:
    """Return the time of a listed row: 0 where lists have none."""
    return time[at] if time.shape[0] > 0 else np.int64(0)


@inlined
def move(good: Floats, time: Ints, seq: Ints, source: int, target: int) -> None:
    """Move a listed row to another place."""
    good[target], seq[target] = good[source], seq[source]
    if time.shape[0] > 0:
        time[target] = time[source]


@inlined
def insort(
    value: float, when: int, number: int, start: int, size: int, timed: bool, good: Floats, time: Ints, seq: Ints
) -> Any:  # fmt: skip
    """Insert a row into the list at [start, start + size), which has room; return its place in the list.

    As `ranked_lists.enlist`, with unsigned indices: one that can't be negative saves half of the loop's time. Where
    rows have no times (not `timed`) lists have none, either.
    """
    one, low = np.uint64(1), np.uint64(start)
    at = np.uint64(start + size)
    while at > low and (
        good[at - one] > value
        or (
            good[at - one] == value
            and (
                (timed and time[at - one] > when)
                or ((not timed or time[at - one] == when) and seq[at - one] > number)
            )
        )
    ):
        good[at] = good[at - one]
        if timed:
            time[at] = time[at - one]
        seq[at] = seq[at - one]
        at = at - one
    good[at] = value
    if timed:
        time[at] = when
    seq[at] = number
    return np.int64(at - low)


@kernel
def prune(
    good: Floats, time: Ints, seq: Ints, start: int, size: int, k: int, horizon_time: int, horizon_seq: int,
    heap_time: Ints, heap_seq: Ints,
) -> int:  # fmt: skip
    """Keep of a list the rows inside the horizon with fewer than k newer ones at least as good; return how many."""
    count = 0
    write = start + size
    for back in range(size):
        at = start + size - 1 - back
        t, s = time_in(time, at), seq[at]
        if precedes(t, s, horizon_time, horizon_seq):
            continue
        if count < k:
            # up the heap, whose root is the oldest of the k newest so far
            i = count
            count += 1
            while i > 0:
                up = (i - 1) // 2
                if not precedes(t, s, heap_time[up], heap_seq[up]):
                    break
                heap_time[i], heap_seq[i] = heap_time[up], heap_seq[up]
                i = up
            heap_time[i], heap_seq[i] = t, s
        elif precedes(heap_time[0], heap_seq[0], t, s):
            i = 0
            while True:
                down = 2 * i + 1
                if down >= k:
                    break
                if down + 1 < k and precedes(
                    heap_time[down + 1], heap_seq[down + 1], heap_time[down], heap_seq[down]
                ):
                    down += 1
                if not precedes(heap_time[down], heap_seq[down], t, s):
                    break
                heap_time[i], heap_seq[i] = heap_time[down], heap_seq[down]
                i = down
            heap_time[i], heap_seq[i] = t, s
        else:
            continue
        write -= 1
        move(good, time, seq, at, write)
    kept = start + size - write
    for i in range(kept):
        move(good, time, seq, write + i, start + i)
    return kept


@kernel
def clear_out(
    good: Floats, time: Ints, seq: Ints, begin: int, n: int, k: int, horizon_time: int, horizon_seq: int
) -> tuple[int, bool]:
    """Remove the rows before the horizon from a list; return how many are left, and whether one was among the best
    k."""
    write, dead_at = begin, -1
    for at in range(begin, begin + n):
        if not precedes(time_in(time, at), seq[at], horizon_time, horizon_seq):
            move(good, time, seq, at, write)
            write += 1
        else:
            dead_at = at - begin
    return write - begin, dead_at >= 0 and dead_at >= n - k


@kernel
def overflow(
    slot: int, place: int, edge: Floats, good: Floats, time: Ints, seq: Ints, start: Ints, size: Ints, room: Ints,
    brim: Short, ks: Ints, horizon_time: Ints, horizon_seq: Ints, clock: Ints, wish: Short, touched: Bytes,
    raised: Ints, heap_time: Ints, heap_seq: Ints,
) -> None:  # fmt: skip
    """Shorten a full list, and raise its edge or its brim. Where the brim should be beyond the list's room, `wish` gets
    the room needed."""
    k, begin, n = min(ks[slot], 1 << 40), start[slot], size[slot]
    t, s = horizon_time[slot], horizon_seq[slot]
    n, topped = clear_out(good, time, seq, begin, n, k, t, s)
    if topped:
        touched[slot] = 1
    cut = 0
    if 5 * n > 14 * k:
        young_time, young_seq = youth(SHARE, t, s, clock)
        count = 0
        for back in range(n):
            at = begin + n - 1 - back
            if not precedes(time_in(time, at), seq[at], young_time, young_seq):
                count += 1
            if count >= k and 5 * (back + 1) >= 14 * k:
                if good[at] > edge[place]:
                    edge[place] = good[at]
                    raised[0] += 1
                    while cut < n and good[begin + cut] < edge[place]:
                        cut += 1
                break
        if n - cut > 3 * k:
            n = prune(good, time, seq, begin + cut, n - cut, k, t, s, heap_time, heap_seq) + cut
    most = max(32 * k, 64)
    if n - cut > most - 8:
        # remove the worst quarter, and all that equal its best
        cut = n - (3 * most) // 4
        edge[place] = np.nextafter(good[begin + cut - 1], np.inf)
        raised[0] += 1
        while cut < n and good[begin + cut] < edge[place]:
            cut += 1
    if cut > 0:
        for i in range(n - cut):
            move(good, time, seq, begin + cut + i, begin + i)
    n -= cut
    size[slot] = n
    want = min(brim_of(n, k), max(4 * n, 32))
    if want > room[slot] and 8 * (room[slot] - n) < n:  # else the present room suffices for a while
        wish[slot] = want
        raised[WISHES - RAISED] += 1
    brim[slot] = min(want, room[slot])


@kernel
def brim_of(n: int, k: int) -> int:
    """Return how long a list of n rows may grow before it is pruned again."""
    return min(max(17 * k // 5, n + max(n // 4, 16)), max(32 * k, 64))


@inlined
def bury(
    slot: int, k: int, horizon_t: int, horizon_s: int, good: Floats, time: Ints, seq: Ints, start: Ints, size: Ints,
    old_time: Ints, old_seq: Ints,
) -> bool:  # fmt: skip
    """Remove rows that left the window from the best k of a list; return whether there was one."""
    begin, n = start[slot], size[slot]
    live, first_dead = 0, n
    oldest_time: Any = np.int64(FAR)
    oldest_seq: Any = np.int64(FAR)
    at = n
    while at > 0 and live < k:
        at -= 1
        t, s = time_in(time, begin + at), seq[begin + at]
        if precedes(t, s, horizon_t, horizon_s):
            first_dead = at
        else:
            live += 1
            if precedes(t, s, oldest_time, oldest_seq):
                oldest_time, oldest_seq = t, s
    old_time[slot], old_seq[slot] = oldest_time, oldest_seq
    write = first_dead
    for i in range(first_dead + 1, n):
        if not precedes(time_in(time, begin + i), seq[begin + i], horizon_t, horizon_s):
            move(good, time, seq, begin + i, begin + write)
            write += 1
    size[slot] = write
    return bool(write < n)


@inlined
def bury_plainly(
    slot: int, k: int, horizon: int, good: Floats, seq: Ints, start: Ints, size: Ints, old_time: Ints, old_seq: Ints
) -> bool:  # fmt: skip
    """As `bury`, where rows have no times: with unsigned indices and few branches, in half the time."""
    one = np.uint64(1)
    begin: Any = np.uint64(start[slot])
    end: Any = np.uint64(start[slot] + size[slot])
    top = min(k, size[slot])
    at: Any = end - np.uint64(top)
    dead = np.int64(0)
    oldest: Any = np.int64(FAR)
    for i in range(top):
        s = seq[at + np.uint64(i)]
        gone = s < horizon
        dead += np.int64(gone)
        oldest = min(oldest, np.int64(FAR) if gone else s)
    missing = dead
    while at > begin and missing > 0:  # lower rows move up
        at = at - one
        s = seq[at]
        if s >= horizon:
            missing -= 1
            oldest = min(oldest, s)
    old_time[slot], old_seq[slot] = (0 if oldest < FAR else FAR), oldest
    if dead == 0:
        return False
    while seq[at] >= horizon:
        at = at + one
    write: Any = at
    for i in range(end - at - one):
        here = at + one + np.uint64(i)
        s = seq[here]
        good[write], seq[write] = good[here], s  # each is written, and kept if it stays
        write = write + np.uint64(s >= horizon)
    size[slot] = np.int64(write - begin)
    return True


@kernel
def deal(
    resume: Ints, block_face: Ints, when: Ints, number: Ints, hit_place: Places, hit_point: Places, hit_value: Floats,
    edge: Floats, member: Short, timed: bool, good: Floats, time: Ints, seq: Ints, start: Ints, size: Ints,
    room: Ints, brim: Short, ks: Ints, horizon_time: Ints, horizon_seq: Ints, old_time: Ints, old_seq: Ints,
    clock: Ints, wish: Short, touched: Bytes, totals: Ints, heap_time: Ints, heap_seq: Ints,
) -> int:  # fmt: skip
    """Insert the hits resume[2] to resume[3] into their lists; return -1, or the slot whose list needs room first."""
    short: Any = np.int64(-1)
    hits, admitted = resume[3], 0
    for h in range(resume[2], hits):
        if h + AHEAD < hits:
            ahead = max(member[hit_place[h + AHEAD]], 0)
            end = start[ahead] + size[ahead] - 1
            for line in range(FETCHED):
                fetch(good, end - 8 * line)
                fetch(seq, end - 8 * line)
        place, value = np.uint64(hit_place[h]), hit_value[h]
        if member[place] < 0 or value < edge[place]:
            continue
        slot = np.uint64(member[place])  # an index that can't be negative needs no check
        face, i = np.uint64(block_face[place >> np.uint64(6)]), np.uint64(hit_point[h])
        of = face if number.shape[0] > 1 else np.uint64(0)
        t, s = when[of, i] if when.shape[1] > 0 else np.int64(0), number[of, i]
        if precedes(t, s, horizon_time[slot], horizon_seq[slot]):
            continue
        if size[slot] >= brim[slot]:
            clock[0], clock[1] = t, s
            overflow(
                np.int64(slot), np.int64(place), edge, good, time, seq, start, size, room, brim, ks, horizon_time,
                horizon_seq, clock, wish, touched, totals[RAISED:], heap_time, heap_seq,
            )  # fmt: skip
            totals[OVERFLOWS] += 1
            if value < edge[place]:
                continue
            if size[slot] >= room[slot]:
                hits, short = h, np.int64(slot)
                break
        n = size[slot]
        at = insort(value, t, s, start[slot], n, timed, good, time, seq)
        size[slot] = n + 1
        admitted += 1
        if n + 1 - at <= ks[slot]:
            touched[slot] = 1
        if precedes(t, s, old_time[slot], old_seq[slot]):
            old_time[slot], old_seq[slot] = t, s
    resume[2] = hits
    totals[ADMITTED] += admitted
    return int(short)


@kernel
def offer(
    slot: int, place: int, first: int, values: Floats, when: Ints, number: Ints, edge: Floats, timed: bool,
    good: Floats, time: Ints, seq: Ints, start: Ints, size: Ints, room: Ints, brim: Short, ks: Ints,
    horizon_time: Ints, horizon_seq: Ints, old_time: Ints, old_seq: Ints, clock: Ints, wish: Short, touched: Bytes,
    totals: Ints, heap_time: Ints, heap_seq: Ints,
) -> int:  # fmt: skip
    """Offer rows with their scores to one query; return the row before which the list needs room, or their number."""
    for i in range(first, values.shape[0]):
        value, t, s = values[i], when[i], number[i]
        if not (value >= edge[place]) or precedes(t, s, horizon_time[slot], horizon_seq[slot]):
            continue
        if size[slot] >= brim[slot]:
            clock[0], clock[1] = t, s
            overflow(
                slot, place, edge, good, time, seq, start, size, room, brim, ks, horizon_time, horizon_seq, clock,
                wish, touched, totals[RAISED:], heap_time, heap_seq,
            )  # fmt: skip
            totals[OVERFLOWS] += 1
            if value < edge[place]:
                continue
            if size[slot] >= room[slot]:
                return i
        n = size[slot]
        at = insort(value, t, s, start[slot], n, timed, good, time, seq)
        size[slot] = n + 1
        totals[ADMITTED] += 1
        if n + 1 - at <= ks[slot]:
            touched[slot] = 1
        if precedes(t, s, old_time[slot], old_seq[slot]):
            old_time[slot], old_seq[slot] = t, s
    return len(values)


@kernel
def tidy(
    edge: Floats, member: Short, timed: bool, good: Floats, time: Ints, seq: Ints, start: Ints, size: Ints, ks: Ints,
    horizon_time: Ints, horizon_seq: Ints, old_time: Ints, old_seq: Ints, touched: Bytes, todo: Short,
) -> int:  # fmt: skip
    """Remove rows that have left the window from the tops; return how many queries are short then (`todo` lists them).

    Slots that may have lost a row, or are short, are noted first, without waiting for any list: all are written, few
    kept.
    """
    found = 0
    for place in range(member.shape[0]):
        if member[place] < 0:
            continue
        slot = np.uint64(member[place])
        t, s = horizon_time[slot], horizon_seq[slot]
        lost = (old_time[slot] < t) | ((old_time[slot] == t) & (old_seq[slot] < s))
        todo[found] = place
        found += int(lost | (size[slot] < ks[slot]))
    count = 0
    for i in range(found):
        if i + AHEAD < found:
            ahead = member[todo[i + AHEAD]]
            end = start[ahead] + size[ahead] - 1
            for line in range(FETCHED):
                fetch(good, end - 8 * line)
                fetch(seq, end - 8 * line)
        stand: Any = todo[i]
        slot = np.uint64(member[stand])
        t, s = horizon_time[slot], horizon_seq[slot]
        if precedes(old_time[slot], old_seq[slot], t, s):
            if timed or t != 0:
                lost = bury(slot, ks[slot], t, s, good, time, seq, start, size, old_time, old_seq)
            else:
                lost = bury_plainly(slot, ks[slot], s, good, seq, start, size, old_time, old_seq)
            if lost:
                touched[slot] = 1
        if size[slot] < ks[slot] and edge[stand] > -np.inf:
            todo[count] = np.int64(slot)
            count += 1
    return count
