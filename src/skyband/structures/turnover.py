"""Rows come and leave one by one: the loop of `snn` where a window goes on as windows mostly do.

A batch of rows is gone through in the order of its rows. For each, first the row leaves for which there is no longer
room in the window, then the new one is offered to the queries that its cell names, and whoever is short of rows then
is searched for before the next row is looked at: so every list is right after every single row, and it makes no
difference how the rows were cut into batches. (Of a time window, a batch's worth of old rows leaves evenly spread over
the batch's new ones: right after the last of them.)

**Who comes** is told by the query index, for a few hundred rows at once: a pass without branches notes the rows whose
cells name anybody; the others are done with.

**Who leaves** is told by a *calendar*: for each row of the window the queries of whose list it is the oldest row, as a
chain. Most rows have none, and to find that out is to read one number. A query is in one chain. It may be in that of a
row which is no longer in its list, as whom newer rows dominated: then nothing leaves, and the query is entered anew.

**Longer lists.** A list that has grown a quarter beyond what a search finds gets a higher bar at once.

All of it needs rows in order of recency, one horizon for all queries, a bar for each of them, and an index that knows
it; `snn` sees to that, and else goes the longer way (`ringed.py`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from skyband.jit import generated, inlined, kernel
from skyband.order import Floats, Ints, first_inside
from skyband.query.space import Space
from skyband.structures.indexing import FIND, SHORT, load_constants, scalars

CHUNK = 512  # rows looked up at once
LATEST = 9223372036854775807


class Calendar:
    """When queries lose their oldest rows: chains of slots, by the place of a row in the store."""

    def __init__(self) -> None:
        self.first = np.empty(0, dtype=np.int32)  # by place: a slot, or -1
        self.after = np.empty(0, dtype=np.int32)  # by slot: the next of its chain, or -1
        self.before = np.empty(0, dtype=np.int32)  # the one before it, or -1
        self.place = np.empty(0, dtype=np.int64)  # where its chain is, or -1

    def begin(self, places: int, slots: int) -> None:
        """Empty chains for so many places and slots."""
        self.first = np.full(places, -1, dtype=np.int32)
        self.after, self.before = np.full((2, slots), -1, dtype=np.int32)
        self.place = np.full(slots, -1, dtype=np.int64)

    def arrays(self) -> tuple[Any, ...]:
        return self.first, self.after, self.before, self.place


@inlined
def unchain(slot: int, first: Any, after: Any, before: Any, place: Ints) -> None:
    """Take a slot out of its chain."""
    if place[slot] >= 0:
        other, back = after[slot], before[slot]
        if back >= 0:
            after[back] = other
        else:
            first[place[slot]] = other
        if other >= 0:
            before[other] = back
        place[slot] = -1


@inlined
def chain(slot: int, at: int, first: Any, after: Any, before: Any, place: Ints) -> None:
    """Put a slot, which is in none, into the chain of a place."""
    head = first[at]
    after[slot] = head
    before[slot] = -1
    if head >= 0:
        before[head] = slot
    first[at] = slot
    place[slot] = at


@kernel
def enter_all(
    slots: Ints, begin: int, end: int, times: Ints, seqs: Ints, time: Ints, seq: Ints, start: Ints, size: Ints,
    first: Any, after: Any, before: Any, place: Ints,
) -> None:  # fmt: skip
    """Put slots into the chains of their oldest rows, which lie in [begin, end)."""
    for i in range(slots.shape[0]):
        slot = slots[i]
        unchain(slot, first, after, before, place)
        oldest, number = LATEST, LATEST
        for j in range(start[slot], start[slot] + size[slot]):
            if time[j] < oldest or (time[j] == oldest and seq[j] < number):
                oldest, number = time[j], seq[j]
        if size[slot] > 0:
            at = first_inside(times, seqs, begin, end, oldest, number)
            chain(slot, at, first, after, before, place)


@kernel
def lose(
    slot: int, leaving: int, row: int, times: Ints, seqs: Ints,
    good: Floats, time: Ints, seq: Ints, count: Ints, start: Ints, size: Ints, ks: Ints,
    oldest_time: Ints, oldest_seq: Ints, touched: Any,
    first: Any, after: Any, before: Any, place: Ints,
) -> bool:  # fmt: skip
    """A row leaves a slot's list, if it is there; the slot is entered under the oldest that stays. Whether it left."""
    begin, n = start[slot], size[slot]
    number = seqs[leaving]
    oldest, oldest_number = LATEST, LATEST
    found = -1
    for i in range(begin, begin + n):  # three loops that compile to vector instructions
        found = max(found, i if seq[i] == number else -1)
    for i in range(begin, begin + n):
        oldest = min(oldest, LATEST if seq[i] == number else time[i])
    for i in range(begin, begin + n):
        oldest_number = min(oldest_number, seq[i] if time[i] == oldest and seq[i] != number else LATEST)
    if found >= 0:
        if begin + n - found <= ks[slot]:
            touched[slot] = 1
        for i in range(found, begin + n - 1):
            good[i] = good[i + 1]
            time[i] = time[i + 1]
            seq[i] = seq[i + 1]
            count[i] = count[i + 1]
        n -= 1
        size[slot] = n
    oldest_time[slot], oldest_seq[slot] = oldest, oldest_number
    place[slot] = -1
    if n > 0:
        at = leaving + oldest_number - number  # where seqs have no gaps
        if at < leaving or at > row or seqs[at] != oldest_number:
            at = first_inside(times, seqs, leaving, row + 1, oldest, oldest_number)
        chain(slot, at, first, after, before, place)
    return found >= 0


@inlined
def gain(
    slot: int, value: float, when: int, number: int, good: Floats, time: Ints, seq: Ints, count: Ints, start: Ints,
    size: Ints, ks: Ints, touched: Any, counts: Ints,
) -> None:  # fmt: skip
    """The newest row of all comes into a slot's list, which has room: who it dominates counts it, and goes at k."""
    begin, k = start[slot], ks[slot]
    end = begin + size[slot]
    at = begin
    for i in range(begin, end):
        at += good[i] <= value
    gone = 0
    for i in range(begin, at):
        count[i] += 1
        gone += count[i] >= k
    if end - at < k:
        touched[slot] = 1
    write = at
    if gone > 0:
        write = begin
        while count[write] < k:
            write += 1
        if gone == 1:  # mostly
            for i in range(write, at - 1):
                good[i] = good[i + 1]
                time[i] = time[i + 1]
                seq[i] = seq[i + 1]
                count[i] = count[i + 1]
            write = at - 1
        else:
            for i in range(write, at):
                if count[i] < k:
                    good[write] = good[i]
                    time[write] = time[i]
                    seq[write] = seq[i]
                    count[write] = count[i]
                    write += 1
    if gone == 0:  # the better ones move up
        for i in range(end, at, -1):
            good[i] = good[i - 1]
            time[i] = time[i - 1]
            seq[i] = seq[i - 1]
            count[i] = count[i - 1]
    elif gone > 1:  # or down
        for i in range(at, end):
            good[i - gone + 1] = good[i]
            time[i - gone + 1] = time[i]
            seq[i - gone + 1] = seq[i]
            count[i - gone + 1] = count[i]
    good[write] = value
    time[write] = when
    seq[write] = number
    count[write] = 0
    size[slot] = end - begin - gone + 1
    counts[slot, 3] += 1
    counts[slot, 4] += gone


@kernel
def raise_bar(
    slot: int, rank: int, good: Floats, time: Ints, seq: Ints, count: Ints, start: Ints, size: Ints,
    bar: Floats, bar_time: Ints, bar_seq: Ints,
) -> None:  # fmt: skip
    """The row at this rank of the list is the bar from now on."""
    begin, cut = start[slot], size[slot] - rank
    for i in range(begin, begin + rank):
        good[i] = good[i + cut]
        time[i] = time[i + cut]
        seq[i] = seq[i + cut]
        count[i] = count[i + cut]
    size[slot] = rank
    bar[slot] = good[begin]
    bar_time[slot] = time[begin]
    bar_seq[slot] = seq[begin]


_TEXT = '''"""Generated by skyband.structures.turnover: rows come and leave one by one, for one shape of score."""
from math import frexp, sqrt
import numpy as np
from skyband.jit import kernel
from skyband.structures.turnover import chain, gain, lose, raise_bar

@kernel
def turn(progress, came, end, left, head, {columns}, times, seqs,
         origin, scale, table, edges, cells, strides, cover_low, cover_high, bits, named, short, used, tally,
         constants, sign, bar, bar_time, bar_seq, usual, good, time, seq, count, start, size, ks,
         oldest_time, oldest_seq, touched, counts, first, after, before, place, todo, who, met, where):
    one, zero = np.uint64(1), np.uint64(0)
    words = bits.shape[1]
    last = table.shape[1] - 2
    begun, leaving, owed = progress[0], progress[1], progress[2]
    rows, quota = end - came, head - left
    lost, scored, strays, raised = 0, 0, 0, 0
    looked = begun
    while begun < end:
        stop = min(begun + {chunk}, end)
        concerned = 0
        for row in range(begun, stop):
            c = 0
            stray = False
{find}
            met[concerned] = row
            where[concerned] = -1 if stray else c
            concerned += 1 if stray or named[c] != 0 else 0
        upcoming = 0
        for row in range(begun, stop):
            owed += quota
            while owed >= rows:
                owed -= rows
                slot = np.int64(first[leaving])
                if slot >= 0:
                    first[leaving] = -1
                    while slot >= 0:
                        other = np.int64(after[slot])
                        left_it = lose(
                            slot, leaving, row, times, seqs, good, time, seq, count, start, size, ks, oldest_time,
                            oldest_seq, touched, first, after, before, place)
                        if left_it and size[slot] == ks[slot] - 1:
                            todo[lost] = slot
                            lost += 1
                        slot = other
                leaving += 1
            if upcoming < concerned and met[upcoming] == row:
                c = where[upcoming]
                upcoming += 1
                few = 0
                if c >= 0 and named[c] <= {short}:
                    few = np.int64(named[c])
                    for i in range(few):
                        who[i] = short[c, i]
                else:
                    for w in range(words):
                        b = used[w] if c < 0 else bits[c, w]
                        while b != zero:
                            low = b ^ (b & (b - one))
                            b ^= low
                            who[few] = (w << 6) + frexp(float(low))[1] - 1
                            few += 1
                    strays += c < 0
                scored += few
{loads}
                for i in range(few):
                    slot = who[i]
{constants}
                    value = sign * ({score})
                    counts[slot, 2] += 1
                    if value >= bar[slot]:
                        if size[slot] == 0:  # nobody's oldest row until now
                            oldest_time[slot], oldest_seq[slot] = times[row], seqs[row]
                            chain(slot, row, first, after, before, place)
                        gain(slot, value, times[row], seqs[row], good, time, seq, count, start, size, ks, touched,
                             counts)
                        if size[slot] > usual[slot] + (usual[slot] >> 2) + 4:
                            raise_bar(slot, usual[slot], good, time, seq, count, start, size, bar, bar_time, bar_seq)
                            raised += 1
            if lost > 0:
                still = 0
                for i in range(lost):
                    if size[todo[i]] < ks[todo[i]]:
                        todo[still] = todo[i]
                        still += 1
                lost = still
                if lost > 0:
                    begun = row + 1
                    break
        else:
            begun = stop
        if lost > 0:
            break
    tally[0] += begun - looked
    tally[1] += strays
    tally[2] += scored
    progress[0], progress[1], progress[2] = begun, leaving, owed
    progress[3] += raised
    return lost
'''


@lru_cache(maxsize=256)
def _turn(columns: int, score: str, constants: int) -> Any:
    axes = range(columns)
    find = "".join(FIND.format(j=j) for j in axes)
    return generated(
        _TEXT.format(
            columns=", ".join(f"X{j}" for j in axes),
            chunk=CHUNK,
            short=SHORT,
            find="".join(f"    {line}\n" for line in find.splitlines()),
            loads="\n".join(" " * 16 + f"x{j} = X{j}[row]" for j in axes),
            constants=load_constants(constants, 20),
            score=scalars(score, constants),
        )
    ).turn


def turning(space: Space, constants: int) -> Any:
    """The kernel `turn` of a space, which must be indexable."""
    assert space.rendered is not None
    return _turn(len(space.columns), space.rendered, constants)
