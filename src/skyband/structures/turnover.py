"""Rows come and leave one by one: the loop of `snn` where a window goes on as windows mostly do.

A batch of rows is gone through in the order of its rows. For each, first the row leaves for which there is no longer
room in the window, then the new one is offered to the queries that its cell names, and whoever is short of rows then
is searched for before the next row is looked at: so every answer is right after every single row, and it makes no
difference how the rows were cut into batches. (Of a time window, a batch's worth of old rows leaves evenly spread over
the batch's new ones: right after the last of them.)

**What concerns nobody is passed over in bulk.** A few hundred rows are looked at together: a pass without branches
notes those whose cells name anybody, a second one scores them and notes the *hits*, and a third one notes which of the
rows about to leave are in some list. Hits and leaves, less than a row of two, are then gone through in their order. A
search changes what is named: after it the rest of the rows is looked at anew.

**Lists in order of arrival.** A query's list has the rows before its bar as they came: a new one is appended, the
oldest one is the first to leave, and neither moves another. Beside it lie the k best of them in their order, the
answer. Who comes better than the k-th is put there, and when one of them leaves, the best of the rest is looked for.
Dominated rows are swept out when a list has become long, as `ra` does it; and if it is long still, its bar is raised.

**Who holds a row** is noted beside the row, if it is one query: then to leave is to read one number. Where several
hold it, the index names them, as it did when it came.

All of it needs rows in order of recency, one horizon for all queries, a bar for each of them, and an index that knows
it; `snn` sees to that, and else goes the longer way (`ringed.py`). Indices are unsigned in loops over lists: a signed
one might count from the end, and looking after that keeps a loop from being compiled to vector instructions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from skyband.jit import generated, inlined, kernel
from skyband.order import MINIMUM, Floats, Ints, first_inside
from skyband.query.space import Space
from skyband.structures.indexing import FIND, SHORT, load_constants, scalars

CHUNK = 512  # rows looked up at once
NOBODY, SEVERAL = -1, -2  # instead of the slot that holds a row
START, FIRST, END, STOP, TOP, K, LIMIT, USUAL = range(
    8
)  # of a slot's line: places in the pools, numbers of rows
U = np.uint64


@inlined
def held(slot: int, at: int, holder: Any) -> None:
    """A slot's list holds the row at a place from now on."""
    holder[at] = slot if holder[at] == NOBODY or holder[at] == slot else SEVERAL


@inlined
def gain(
    slot: int, value: float, number: int, line: Ints, good: Floats, place: Ints, top_good: Floats, top_place: Ints,
    edge: Floats, touched: Any,
) -> bool:  # fmt: skip
    """The newest row of all comes into a slot's list, which has room. Whether the list is long then."""
    end = line[slot, END]
    good[end] = value
    place[end] = number
    line[slot, END] = end + 1
    if value >= edge[slot]:
        top = line[slot, TOP]
        at = top + line[slot, K] - 1
        while at > top and top_good[at - 1] <= value:
            top_good[at] = top_good[at - 1]
            top_place[at] = top_place[at - 1]
            at -= 1
        top_good[at] = value
        top_place[at] = number
        edge[slot] = top_good[top + line[slot, K] - 1]
        touched[slot] = 1
    return bool(end + 1 - line[slot, FIRST] >= line[slot, LIMIT])


@inlined
def lose(
    slot: int, number: int, line: Ints, good: Floats, place: Ints, top_good: Floats, top_place: Ints, edge: Floats,
    touched: Any,
) -> bool:  # fmt: skip
    """The oldest row of a slot's list leaves, if it is this one. Whether fewer than k rows are left."""
    first, end, k = line[slot, FIRST], line[slot, END], line[slot, K]
    if first == end or place[first] != number:
        return False
    line[slot, FIRST] = first + 1
    if end - first <= k:
        edge[slot] = np.inf  # until it is searched for
        return True
    if good[first] >= edge[slot]:
        top = line[slot, TOP]
        at = top
        last = top + k - 1
        while at <= last and top_place[at] != number:
            at += 1
        if at <= last:
            worst, since = top_good[last], top_place[last]
            while at < last:
                top_good[at] = top_good[at + 1]
                top_place[at] = top_place[at + 1]
                at += 1
            best = -np.inf
            found = first
            for i in range(end - first - 1):
                v = good[U(first + 1 + i)]
                fits = v < worst or (v == worst and place[U(first + 1 + i)] < since)
                if fits and v >= best:
                    best = v
                    found = first + 1 + i
            top_good[last] = good[found]
            top_place[last] = place[found]
            edge[slot] = good[found]
            touched[slot] = 1
    return False


@kernel
def sweep(
    slot: int, line: Ints, good: Floats, place: Ints, bar: Floats, bar_time: Ints, bar_seq: Ints, best: Floats
) -> bool:
    """Take what k newer rows are at least as good as out of a slot's list, and raise its bar if it is long still: then
    True. The list lies at the beginning of its stretch afterwards."""
    start, first, end, k = line[slot, START], line[slot, FIRST], line[slot, END], line[slot, K]
    found = 0
    write = end
    for j in range(end - 1, first - 1, -1):
        value = good[j]
        if found == k and value <= best[k - 1]:
            continue
        at = found if found < k else k - 1
        while at > 0 and best[at - 1] < value:
            best[at] = best[at - 1]
            at -= 1
        best[at] = value
        found = min(found + 1, k)
        write -= 1
        good[write] = value
        place[write] = place[j]
    usual = line[slot, USUAL]
    raised = bool(end - write > usual + (usual >> 3) + 1)
    if raised:
        ranked = np.sort(good[write:end])
        least = ranked[ranked.shape[0] - usual]
        if least > bar[slot]:
            bar[slot] = least
            bar_time[slot] = MINIMUM
            bar_seq[slot] = MINIMUM
    count = 0
    for j in range(write, end):
        if good[j] >= bar[slot]:
            good[start + count] = good[j]
            place[start + count] = place[j]
            count += 1
    line[slot, FIRST] = start
    line[slot, END] = start + count
    return raised


@kernel
def hold_all(line: Ints, place: Ints, shift: int, holder: Any) -> None:
    """Note who holds the rows of all lists."""
    for slot in range(line.shape[0]):
        for i in range(line[slot, FIRST], line[slot, END]):
            held(slot, place[i] - shift, holder)


@kernel
def take_over(
    slots: Ints, begin: int, end: int, shift: int, times: Ints, seqs: Ints,
    ranked_good: Floats, time: Ints, seq: Ints, start: Ints, size: Ints,
    line: Ints, good: Floats, place: Ints, top_good: Floats, top_place: Ints, edge: Floats, order: Ints,
) -> None:  # fmt: skip
    """Make lists in order of arrival from lists in order of scores, whose rows lie in [begin, end)."""
    for i in range(slots.shape[0]):
        slot = slots[i]
        first, n, k = start[slot], size[slot], line[slot, K]
        for j in range(n):
            at = begin + seq[first + j] - seqs[begin]  # where seqs have no gaps
            if at >= end or seqs[at] != seq[first + j]:
                at = first_inside(times, seqs, begin, end, time[first + j], seq[first + j])
            order[j] = at + shift
        for j in range(k):
            top_good[line[slot, TOP] + j] = ranked_good[first + n - 1 - j]
            top_place[line[slot, TOP] + j] = order[n - 1 - j]
        edge[slot] = ranked_good[first + n - k]
        to = line[slot, START]
        came = np.argsort(order[:n])
        for j in range(n):
            good[to + j] = ranked_good[first + came[j]]
            place[to + j] = order[came[j]]
        line[slot, FIRST] = to
        line[slot, END] = to + n


@kernel
def hand_back(
    slots: Ints, whole: bool, shift: int, times: Ints, seqs: Ints,
    ranked_good: Floats, time: Ints, seq: Ints, start: Ints, size: Ints,
    line: Ints, good: Floats, place: Ints, top_good: Floats, top_place: Ints,
) -> None:  # fmt: skip
    """Write the answers of slots, or all rows of their lists, to lists in order of scores, best last."""
    for i in range(slots.shape[0]):
        slot = slots[i]
        to, n = start[slot], line[slot, K]
        if not whole:
            for j in range(n):
                row = top_place[line[slot, TOP] + j] - shift
                ranked_good[to + n - 1 - j] = top_good[line[slot, TOP] + j]
                time[to + n - 1 - j] = times[row]
                seq[to + n - 1 - j] = seqs[row]
        else:
            first, n = line[slot, FIRST], line[slot, END] - line[slot, FIRST]
            ranks = np.argsort(
                good[first : first + n], kind="mergesort"
            )  # of equal ones, the newer is better
            for j in range(n):
                row = place[first + ranks[j]] - shift
                ranked_good[to + j] = good[first + ranks[j]]
                time[to + j] = times[row]
                seq[to + j] = seqs[row]
        size[slot] = n


_TEXT = '''"""Generated by skyband.structures.turnover: rows come and leave one by one, for one shape of score."""
from math import frexp, sqrt
import numpy as np
from skyband.jit import kernel
from skyband.structures.turnover import gain, held, least, lose, prune, settle, sweep

@kernel
def turn(progress, came, end, left, head, shift, {columns}, seqs,
         origin, scale, table, edges, cells, strides, cover_low, cover_high, bits, named, short, used, tally,
         constants, sign, bar, bar_time, bar_seq, touched, counts,
         line, good, place, top_good, top_place, edge, holder, best, todo, met, where, hit_row, hit_slot, hit_value,
         going):
    one, zero = np.uint64(1), np.uint64(0)
    words = bits.shape[1]
    last = table.shape[1] - 2
    begun, leaving = progress[0], progress[1]
    rows, quota = end - came, head - left
    lost, scored, strays, raised = 0, 0, 0, 0
    looked = begun
    most = hit_row.shape[0] - 64 * words
    while begun < end and lost == 0:
        stop = min(begun + {chunk}, end)
        # cells, and who is named in them
        concerned = 0
        for row in range(begun, stop):
            c = 0
            stray = False
{find}
            holder[row] = -1
            met[concerned] = row
            where[concerned] = -1 if stray else c
            concerned += 1 if stray or named[c] != 0 else 0
        # hits: rows that are good enough for somebody's list
        hits = 0
        for m in range(concerned):
            row, c = met[m], where[m]
{loads}
            if c >= 0 and named[c] <= {short}:
                few = np.int64(named[c])
                scored += few
                for i in range(few):
                    slot = np.int64(short[c, i])
{constants}
                    value = sign * ({score})
                    counts[slot, 2] += 1
                    hit_row[hits] = row
                    hit_slot[hits] = slot
                    hit_value[hits] = value
                    hits += value >= bar[slot]
            else:
                for w in range(words):
                    b = used[w] if c < 0 else bits[c, w]
                    while b != zero:
                        low = b ^ (b & (b - one))
                        b ^= low
                        slot = (w << 6) + frexp(float(low))[1] - 1
{constants24}
                        value = sign * ({score})
                        counts[slot, 2] += 1
                        scored += 1
                        hit_row[hits] = row
                        hit_slot[hits] = slot
                        hit_value[hits] = value
                        hits += value >= bar[slot]
                strays += c < 0
            if hits > most:
                stop = row + 1
                break
        # leaves: rows that go and are in somebody's list
        leaves = 0
        for at in range(leaving, left + (stop - came) * quota // rows):
            going[leaves] = at
            leaves += holder[at] != -1
        # all of these in their order: before a row comes, there is room for it
        h, g, now = 0, 0, begun
        while True:
            row = hit_row[h] if h < hits else stop
            out = stop
            if g < leaves:
                gone = going[g]
                out = came + gone - left
                if quota != rows:
                    out = came + ((gone - left + 1) * rows + quota - 1) // quota - 1
            if lost > 0 and min(row, out) > now:
                stop = now + 1
                break
            if out <= row:
                if out >= stop:
                    break
                now = out
                g += 1
                slot = np.int64(holder[gone])
                if slot >= 0:
                    if lose(slot, gone + shift, line, good, place, top_good, top_place, edge, touched):
                        todo[lost] = slot
                        lost += 1
                else:
{again}
                    for w in range(words):
                        b = used[w] if stray else bits[c, w]
                        while b != zero:
                            low = b ^ (b & (b - one))
                            b ^= low
                            slot = (w << 6) + frexp(float(low))[1] - 1
                            if lose(slot, gone + shift, line, good, place, top_good, top_place, edge, touched):
                                todo[lost] = slot
                                lost += 1
            else:
                now = row
                slot, value = hit_slot[h], hit_value[h]
                h += 1
                if value >= bar[slot]:  # still
                    counts[slot, 3] += 1
                    held(slot, row, holder)
                    if gain(slot, value, row + shift, line, good, place, top_good, top_place, edge, touched):
                        before = line[slot, 2] - line[slot, 1]
                        raised += sweep(slot, line, good, place, bar, bar_time, bar_seq, best)
                        counts[slot, 4] += before - line[slot, 2] + line[slot, 1]
                    elif line[slot, 2] == line[slot, 3]:  # at the end of its room: back to the beginning
                        to, first = line[slot, 0], line[slot, 1]
                        for i in range(line[slot, 2] - first):
                            good[to + i] = good[first + i]
                            place[to + i] = place[first + i]
                        line[slot, 2] -= first - to
                        line[slot, 1] = to
        begun = stop
        leaving = left + (stop - came) * quota // rows
    tally[0] += begun - looked
    tally[1] += strays
    tally[2] += scored
    progress[0], progress[1] = begun, leaving
    progress[2] += raised
    return lost

@kernel
def refill(todo, keep, begin, end, shift, {columns}, constants, sign, times, seqs, bar, bar_time, bar_seq, touched,
           counts, line, good, place, top_good, top_place, edge, holder, held_good, held_row):
    room = held_good.shape[0]
    for t in range(todo.shape[0]):
        slot = todo[t]
        wanted = keep[slot]
        found = 0
        floor = -np.inf
        limit = np.inf
{constants8}
        blocks = (end - begin) // 64 + 1
        for b in range(blocks):
            base = begin + 64 * b
            if b < blocks - 1:
                hit = False
                for j in range(64):
{loads_fast}
                    hit |= {test}
                if not hit:
                    continue
            for row in range(base, min(base + 64, end)):
{loads_row}
                if not {test}:
                    continue
                value = sign * ({score})
                if value >= floor:
                    held_good[found] = value
                    held_row[found] = row
                    found += 1
                    if found == room or (floor == -np.inf and found == 2 * wanted):
                        found = prune(held_good, held_row, found, wanted)
                        floor = least(held_good, found)
                        limit = {limit}
        counts[slot, 0] += end - begin
        counts[slot, 1] += 1
        if found >= wanted:
            found = prune(held_good, held_row, found, wanted)
            settle(slot, found, shift, times, seqs, bar, bar_time, bar_seq, line, good, place, top_good, top_place,
                   edge, holder, held_good, held_row)
            touched[slot] = 1
        else:
            return False
    return True
'''


@kernel
def least(values: Floats, n: int) -> float:
    floor = np.inf
    for i in range(n):
        floor = min(floor, values[i])
    return floor


@kernel
def prune(values: Floats, rows: Ints, n: int, wanted: int) -> int:
    """Keep the best of these rows, which lie in the order of their coming; of equal ones, the newer."""
    floor = np.partition(values[:n], n - wanted)[n - wanted]
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
def settle(
    slot: int, found: int, shift: int, times: Ints, seqs: Ints, bar: Floats, bar_time: Ints, bar_seq: Ints,
    line: Ints, good: Floats, place: Ints, top_good: Floats, top_place: Ints, edge: Floats, holder: Any,
    values: Floats, rows: Ints,
) -> None:  # fmt: skip
    """What a search found is a slot's list from now on: rows in the order of their coming."""
    start, k, top = line[slot, START], line[slot, K], line[slot, TOP]
    kept = 0
    worst = 0
    for i in range(found):
        held(slot, rows[i], holder)
        good[start + i] = values[i]
        place[start + i] = rows[i] + shift
        if values[i] < values[worst]:
            worst = i
        if kept < k or values[i] >= top_good[top + k - 1]:
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
    edge[slot] = top_good[top + k - 1]
    bar[slot] = values[worst]
    bar_time[slot] = times[rows[worst]]
    bar_seq[slot] = seqs[rows[worst]]


AGAIN = "                    c = 0\n                    stray = False\n"


def _indented(text: str, more: int, row: str = "row") -> str:
    return "".join(f"{' ' * more}{line}\n" for line in text.replace("[row]", f"[{row}]").splitlines())


def _loads(columns: int, indent: int, row: str) -> str:
    return "\n".join(f"{' ' * indent}x{j} = X{j}[{row}]" for j in range(columns))


@lru_cache(maxsize=256)
def _turn(columns: int, score: str, constants: int, sign: float) -> Any:
    axes = range(columns)
    find = "".join(FIND.format(j=j) for j in axes)
    score = scalars(score, constants)
    test, limit = f"sign * ({score}) >= floor", "0.0"
    if score.startswith("sqrt(") and _closes(score) and sign < 0:
        # without the root, and a little too wide: what passes is looked at again
        test, limit = f"{score[4:]} <= limit", "floor * floor * 1.000000000001 + 1e-300"
    return generated(
        _TEXT.format(
            columns=", ".join(f"X{j}" for j in axes),
            chunk=CHUNK,
            short=SHORT,
            find=_indented(find, 4),
            again=AGAIN + _indented(find, 12, "gone"),
            loads=_loads(columns, 12, "row"),
            loads_fast=_loads(columns, 20, "np.uint64(base + j)"),
            loads_row=_loads(columns, 16, "row"),
            constants=load_constants(constants, 20),
            constants24=load_constants(constants, 24),
            constants8=load_constants(constants, 8),
            score=score,
            test=test,
            limit=limit,
        )
    )


def _closes(text: str) -> bool:
    """Whether the first bracket closes at the very end."""
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == ")" and depth == 0:
            return i == len(text) - 1
    return False


def turning(space: Space, constants: int) -> Any:
    """The kernels `turn` and `refill` of a space, which must be indexable."""
    assert space.rendered is not None
    return _turn(len(space.columns), space.rendered, constants, space.sign)


class Turnover:
    """Lists in order of arrival, the answers beside them, and who holds which row."""

    def __init__(self) -> None:
        self.holder = np.empty(0, dtype=np.int32)  # by place of a row: a slot, NOBODY or SEVERAL
        self.line = np.zeros((0, 8), dtype=np.int64)
        self.notes: tuple[Any, ...] = ()

    def begin(self, ks: Ints, keep: Ints, usual: Ints) -> None:
        """Room for lists of so many slots."""
        slots = len(ks)
        self.line = np.zeros((slots, 8), dtype=np.int64)
        self.line[:, TOP] = np.cumsum(ks) - ks
        self.line[:, K] = ks
        self.used = 0
        self.good, self.place = np.empty(0), np.empty(0, np.int64)
        self.top_good, self.top_place = np.empty(ks.sum()), np.empty(ks.sum(), np.int64)
        self.edge = np.full(slots, np.inf)
        self.provide(np.flatnonzero(ks), keep, usual)
        hits = 4 * CHUNK + 64 * (slots // 64 + 1)
        self.notes = (
            np.empty(int(ks.max(initial=1))), np.empty(slots + 64, np.int64), np.empty(CHUNK, np.int64),
            np.empty(CHUNK, np.int64), np.empty(hits, np.int64), np.empty(hits, np.int64), np.empty(hits),
        )  # fmt: skip

    def provide(self, slots: Ints, keep: Ints, usual: Ints) -> None:
        """Room for as many rows as a search for these slots finds, and for more that come; where there was not enough,
        the list lies elsewhere from now on, and is empty."""
        ks = self.line[slots, K]
        limit = keep[slots] + keep[slots] // 2 + ks + 16
        self.line[slots, LIMIT], self.line[slots, USUAL] = limit, usual[slots]
        need = 2 * limit
        short = self.line[slots, STOP] - self.line[slots, START] < need
        if not short.any():
            return
        ends = self.used + np.cumsum(need[short])
        if ends[-1] > len(self.good):
            more = int(2 * ends[-1]) - len(self.good)
            self.good = np.append(self.good, np.zeros(more))
            self.place = np.append(self.place, np.zeros(more, np.int64))
        self.line[slots[short], STOP] = ends
        self.line[slots[short], START] = ends - need[short]
        self.line[slots[short], FIRST] = self.line[slots[short], END] = ends - need[short]
        self.used = int(ends[-1])

    def hold(self, places: int, shift: int) -> None:
        """Note who holds which row, of so many places."""
        self.holder = np.full(places, NOBODY, dtype=np.int32)
        hold_all(self.line, self.place, shift, self.holder)

    def lists(self) -> tuple[Any, ...]:
        return self.line, self.good, self.place, self.top_good, self.top_place

    def sizes(self) -> Ints:
        found: Ints = self.line[:, END] - self.line[:, FIRST]
        return found

    def bytes(self, slot: int) -> int:
        return int(16 * (self.line[slot, STOP] - self.line[slot, START]) + 16 * self.line[slot, K])

    def _check(self, shift: int, head: int, end: int, bar: Floats) -> None:
        for slot in np.flatnonzero(self.line[:, K]).tolist():
            first, last, k = self.line[slot, [FIRST, END, K]].tolist()
            good, place = self.good[first:last], self.place[first:last]
            # within its room, in order of arrival, all before the bar and in the window
            assert self.line[slot, START] <= first and last < self.line[slot, STOP]
            assert np.all(place[1:] > place[:-1]) and np.all(good >= bar[slot])
            assert place[0] - shift >= head and place[-1] - shift < end
            # the answer is the k best of them, of equal ones the newer first
            best = np.lexsort((place, good))[::-1][:k]
            top = slice(self.line[slot, TOP], self.line[slot, TOP] + k)
            assert np.array_equal(self.top_place[top], place[best]) and np.array_equal(
                self.top_good[top], good[best]
            )
            assert self.edge[slot] == good[best[-1]]
            # and each is noted as held, by this slot or by several
            assert np.all(np.isin(self.holder[place - shift], (slot, SEVERAL)))
