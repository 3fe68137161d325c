"""Rows enter and leave one by one: the loops of `snn` for windows that advance steadily.

Every answer is brought up to date with every single row: first the row leaves for which there is no longer room in the
window, then the new one is offered to the queries that its cell names, and a query whose list is short then is
searched for before the next row counts. So the result does not depend on how rows were cut into batches. (In a time
window, the rows that leave during a batch are spread evenly over its new rows, each right after one of them.)

**Rows without queries are skipped in bulk.** A few hundred rows are processed together: a pass without branches finds
those whose cells name any query, a second one scores them and notes the *hits*, rows that are good enough for a query's
list. That is one row in three, and all further work is about hits.

**One query after the other.** Queries do not depend on one another. So the hits of a batch are sorted by query, and
each query goes through its own hits alone, row by row: first the rows that have left before this row arrived, then the
row. A list in order of arrival (arrival_lists.py) shows by itself what has left, so no row is looked up twice; and a
list stays in the nearest cache for all of its rows, while going from row to row over all lists would find it cold.

**A search** in the middle of a batch lowers one query's bar: the rest of the batch is searched for this query alone.
Queries that ran short are searched for together, when all others are done; the index gets their new bars before the
next batch. A search reads a sample first, so that it has to hold few rows that are not kept. Searches share the
sample, and eight of them read a stretch of rows before the next one is fetched; the result does not depend on which
searches run together, because the sample's rows are chosen by their numbers in the stream. Where similar rows arrive
together, the nearest ones may all be old, and would leave together soon: so a list then keeps more of the rows held, if
there are k among them that stay for three quarters of a window.

All of it needs rows in order of recency, one horizon for all queries, a bar for each of them, and an index that has
all bars. `snn` checks that, and otherwise uses ring_base.py. A distance is compared without its root, and a little too
widely; the rows that pass are compared again exactly.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.algorithms.kernels.barred_lists import Bars
from skyband.algorithms.kernels.recent_buffer import Recent
from skyband.algorithms.nearest.arrival_lists import (
    END,
    FIRST,
    LIMIT,
    START,
    STOP,
    TOP,
    Arrived,
    K,
    U,
    approach,
    eldest,
    expel,
    move_down,
    rise,
    sweep,
)
from skyband.algorithms.query_index.probe import (
    CHUNK,
    SHORT,
    compared,
    finding,
    indented,
    load_columns,
    load_constants,
)
from skyband.compiling.jit import generated, kernel
from skyband.compiling.state import State, field, scalar
from skyband.core.types import Floats, Ints
from skyband.query.expression.score_space import Space

Small = npt.NDArray[np.int32]
HITS = 1 << 16  # so many hits are processed together
LASTS = 4  # a search keeps k rows of the newest quarter of the window, if it can: so long a list lasts
GROUP = 8  # searches that read the same rows one after the other
STRETCH = 256  # so many rows, which fit the nearest cache
SAMPLE = 16  # a search first reads one row in so many: eight that lie together, a cache line


class Notes(State):
    """Where a stage's rows lie, and scratch memory of the kernels: for one batch, and for each slot."""

    came: int = scalar("i8")  # the rows [came, end) are new,
    end: int = scalar("i8")
    left: int = scalar("i8")  # and [left, head) leave
    head: int = scalar("i8")
    shift: int = scalar("i8")
    best: Floats = field("f8[rank]")
    todo: Ints = field("i8[slot]")  # the slots that ran short,
    since: Ints = field("i8[slot]")  # and from which rows they have to continue
    rows: Ints = field("i8[row]")  # hits by slot
    values: Floats = field("f8[row]")
    slots: Ints = field("i8[slot]")  # 0, 1, 2 …
    starts: Ints = field("i8[start]")
    reach: Floats = field("f8[slot]")
    seen: Ints = field("i8[slot]")
    cell: Small = field("i4[chunk]")
    pair: Small = field("i4[pair]")
    hit_row: Small = field("i4[hit]")
    hit_slot: Small = field("i4[hit]")
    hit_raw: Floats = field("f8[hit]")
    held_good: Floats = field("f8[group, held]")  # of searches
    held_row: Ints = field("i8[group, held]")
    floors: Floats = field("f8[group]")
    ranks: Floats = field("f8[held]")

    @classmethod
    def of(cls, notes: Notes | None, rows: int, ks: Ints) -> Notes:
        """Return notes with room for a batch of so many rows: these, if they have it."""
        slots, most = len(ks), int(ks.max(initial=1))
        room = HITS + 64 * (slots // 64 + 1) + SHORT * CHUNK
        if (
            notes is None
            or len(notes.todo) != slots
            or len(notes.best) <= most
            or len(notes.rows) < max(rows, room)
        ):
            notes = cls(
                rank=most + 1, slot=slots, start=slots + 1, row=max(2 * rows, room), chunk=CHUNK, pair=SHORT * CHUNK,
                hit=room, group=GROUP,
            )  # fmt: skip
            notes.slots[:] = np.arange(slots)
        return notes

    def begin(self, store: Recent) -> None:
        """Note where the rows of a stage lie."""
        self.came, self.end, self.left, self.head = store.came, store.end, store.left, store.head
        self.shift = store.passed

    def provide_held(self, most: int) -> None:
        """Make room for searches of so many rows."""
        room = 8 * most + 64
        if self.held_good.shape[1] < room:
            self.grow(held=2 * room)


@kernel
def play(
    which: Ints, starts: Ints, ends: Ints, stop: int, lost: int, bars: Bars, arrived: Arrived, notes: Notes
) -> tuple[int, int]:
    """Let slots go through the rows before `stop`, each through its own hits.

    Slots that run short are noted, with the row from which they have to continue. Returns how many have run short by
    now, and how many bars were raised.
    """
    line, good, place = arrived.line, arrived.good, arrived.place
    top_good, top_place = arrived.top_good, arrived.top_place
    rows, values, came, left, shift = notes.rows, notes.values, notes.came, notes.left, notes.shift
    many, quota = notes.end - came, notes.head - left
    raised = 0
    for w in range(which.shape[0]):
        if w + 1 < which.shape[0]:
            approach(which[w + 1], arrived)
        slot = which[w]
        if line[slot, K] == 0:
            continue
        top = line[slot, TOP]
        last = top + line[slot, K] - 1
        oldest = eldest(top, last, top_place)
        first, write = line[slot, FIRST], line[slot, END]
        h = starts[w]
        short = False
        while not short:
            # take as many hits as cannot make the list too long
            some = min(ends[w] - h, max(1, line[slot, LIMIT] - (write - first)))
            if write + some >= line[slot, STOP]:
                write = move_down(line[slot, START], first, write, good, place)
                first = line[slot, START]
            begun, floor = write, bars.bar[slot]
            for i in range(h, h + some):
                good[U(write)] = values[U(i)]
                place[U(write)] = rows[U(i)] + shift
                write += values[U(i)] >= floor
            h += some
            due = place[first]
            at = begun
            while at < write:
                row = place[U(at)] - shift
                due = shift + left + (row + 1 - came if quota == many else (row + 1 - came) * quota // many)
                if oldest < due:
                    bars.touched[slot] = 1
                    first, oldest, short = expel(
                        due, oldest, first, at, top, last, good, place, top_good, top_place
                    )  # fmt: skip
                    if short:
                        break
                if good[U(at)] >= top_good[U(last)]:
                    bars.touched[slot] = 1
                    if rise(good[U(at)], place[U(at)], top, last, top_good, top_place) == oldest:
                        oldest = eldest(top, last, top_place)
                at += 1
            bars.counts[slot, 3] += at - begun
            write = at
            while first < write and place[first] < due:
                first += 1
            if not short and write - first >= line[slot, LIMIT]:
                line[slot, FIRST], line[slot, END] = first, write
                raised += sweep(slot, bars, arrived, notes.best)
                bars.counts[slot, 4] += write - first - line[slot, END] + line[slot, FIRST]
                first, write = line[slot, FIRST], line[slot, END]
            if not short and h == ends[w]:
                due = shift + left + (stop - came) * quota // many
                if oldest < due:
                    bars.touched[slot] = 1
                    first, oldest, short = expel(
                        due, oldest, first, write, top, last, good, place, top_good, top_place
                    )  # fmt: skip
                while first < write and place[first] < due:
                    first += 1
                break
        line[slot, FIRST], line[slot, END] = first, write
        if short:
            notes.todo[lost] = slot
            notes.since[lost] = came + ((oldest - shift - left + 1) * many + quota - 1) // quota
            lost += 1
    return lost, raised


@kernel
def by_slot(
    hits: int, hit_row: Any, hit_slot: Any, hit_raw: Floats, starts: Ints, rows: Ints, raws: Floats
) -> None:
    """Sort hits by slot, keeping the order of rows; a slot's are [starts[slot], starts[slot + 1])."""
    starts[:] = 0
    for i in range(hits):
        starts[U(hit_slot[i] + 1)] += 1
    for slot in range(1, starts.shape[0]):
        starts[slot] += starts[slot - 1]
    for i in range(hits):
        mine = U(hit_slot[i])
        at = starts[mine]
        starts[mine] = at + 1
        rows[U(at)] = hit_row[i]
        raws[U(at)] = hit_raw[i]
    for slot in range(starts.shape[0] - 1, 0, -1):
        starts[slot] = starts[slot - 1]
    starts[0] = 0


_TEXT = '''"""Generated by algorithms.nearest.row_loop: rows come and leave one by one, for one shape of score."""
from math import sqrt
import numpy as np
from skyband.compiling.jit import kernel
from skyband.algorithms.nearest.arrival_lists import K, LIMIT, U, lasting, least, prune, settle
from skyband.compiling.intrinsics import first_bit
from skyband.algorithms.nearest.row_loop import by_slot, play

@kernel
def turn(progress, {columns}, origin, scale, table, edges, strides, cover_low, cover_high, sharp, steps, bits,
         named, short, used, tally, sign, bars, arrived, notes):
    constants, bar, end = bars.constants, bars.bar, notes.end
    cell, pair, slots, starts, reach, seen = notes.cell, notes.pair, notes.slots, notes.starts, notes.reach, notes.seen
    hit_row, hit_slot, hit_raw, rows, values = notes.hit_row, notes.hit_slot, notes.hit_raw, notes.rows, notes.values
    one, zero = U(1), U(0)
    words = bits.shape[1]
    last = table.shape[1] - 2
    outside = named.shape[0] - 1
    most = hit_row.shape[0] - 64 * words - {short} * {chunk}
    hits, scored, strays = 0, 0, 0
    for slot in range(bar.shape[0]):
        floor = bar[slot]
        reach[slot] = {reach}
        seen[slot] = 0
    begun = progress[0]
{scales}
    beyond = float(last + 1)
    ready = begun  # end of the rows whose cells are known
    base = begun
    while begun < end and hits <= most:
        if begun == ready:
            base = begun
            ready = min(begun + {chunk}, end)
            if sharp:
                for i in range(ready - base):
{buckets}
                    cell[U(i)] = {steps} if inside else outside
            else:
                for i in range(ready - base):
                    row = base + i
                    c = 0
                    stray = False
{find}
                    cell[U(i)] = outside if stray else c
        # pairs of row and named slot, until a cell names too many
        pairs = 0
        c = 0
        stop = ready
        for i in range(begun - base, ready - base):
            c = np.int64(cell[U(i)])
            few = np.int64(named[U(c)])
            if few > {short}:
                stop = base + i
                break
            both = i << 16  # short lists contain the first slots only: NAMES in query_index/loops.py
            for t in range(4):
                pair[U(pairs + t)] = both | np.int64(short[U(c), t])
            for t in range(4, few):
                pair[U(pairs + t)] = both | np.int64(short[U(c), t])
            pairs += few
        scored += pairs
        # hits: rows that are good enough for a slot's list
        for i in range(pairs):
            row = U(base) + U(pair[U(i)] >> 16)
            slot = U(pair[U(i)] & 65535)
{loads}
{constants12}
            raw = {raw}
            seen[slot] += 1
            hit_row[U(hits)] = row
            hit_slot[U(hits)] = slot
            hit_raw[U(hits)] = raw
            hits += raw >= reach[slot]
        begun = stop
        if stop == ready:
            continue
        row = U(begun)
{loads8}
        for w in range(words):
            b = used[U(w)] if c == outside else bits[U(c), U(w)]
            while b != zero:
                low = b ^ (b & (b - one))
                b ^= low
                slot = U((w << 6) + first_bit(low))
{constants16}
                raw = {raw}
                seen[slot] += 1
                scored += 1
                hit_row[U(hits)] = row
                hit_slot[U(hits)] = slot
                hit_raw[U(hits)] = raw
                hits += raw >= reach[slot]
        strays += c == outside
        begun += 1
    for slot in range(bar.shape[0]):
        bars.counts[slot, 2] += seen[slot]
    tally[0] += begun - progress[0]
    tally[1] += strays
    tally[2] += scored
    progress[0] = begun
    by_slot(hits, hit_row, hit_slot, hit_raw, starts, rows, values)
    for i in range(hits):
        raw = values[i]
        values[i] = {value}
    lost, raised = play(slots, starts, starts[1:], begun, 0, bars, arrived, notes)
    progress[1] += raised
    return lost

@kernel
def resume(progress, short, begin, {columns}, sign, bars, arrived, notes):
    constants, bar, rows, values = bars.constants, bars.bar, notes.rows, notes.values
    stop = progress[0]
    bounds = np.zeros(2, np.int64)
    block = np.empty(64, np.float64)
    lost = 0
    for t in range(short.shape[0]):
        slot = short[t]
        hits = 0
        floor = bar[slot]
        limit = {reach}
{constants8}
        for base in range(begin[t], stop, 64):
{block_to_stop}
            for part in range(0, 64, 8):
                hit = False
                for j in range(8):
                    hit |= block[U(part + j)] >= limit
                if hit:
                    for j in range(part, part + 8):
                        raw = block[U(j)]
                        rows[hits] = base + j
                        values[hits] = {value}
                        hits += raw >= limit
        bars.counts[slot, 2] += stop - begin[t]
        bounds[1] = hits
        lost, raised = play(short[t : t + 1], bounds, bounds[1:], stop, lost, bars, arrived, notes)
        progress[1] += raised
    return lost

@kernel
def refill(todo, keep, begins, ends, {columns}, times, seqs, sign, bars, arrived, notes, fails):
    constants, line, shift, ranks = bars.constants, arrived.line, notes.shift, notes.ranks
    held_good, held_row, floors = notes.held_good, notes.held_row, notes.floors
    lowest, highest = begins[0], ends[0]
    for t in range(todo.shape[0]):
        lowest, highest = min(lowest, begins[t]), max(highest, ends[t])
    lowest += -(lowest + shift) % {apart}  # the same rows in every search
    many = 8 * max((highest - lowest - 8) // {apart} + 1, 0)
{samples}
    found = np.empty({group}, np.int64)
    for first in range(0, todo.shape[0], {group}):
        part = slice(first, min(first + {group}, todo.shape[0]))
        some, begin, end = todo[part], begins[part], ends[part]
        outlook(some, keep, begin, end, lowest, {sampled}, constants, sign, floors, ranks)
        scan(some, keep, begin, end, {columns}, constants, sign, floors, found, held_good, held_row)
        for g in range(some.shape[0]):
            if found[g] < keep[some[g]] and floors[g] > -np.inf:
                floors[g] = -np.inf
                alone = slice(g, g + 1)
                scan(some[alone], keep, begin[alone], end[alone], {columns}, constants, sign, floors[alone],
                     found[alone], held_good[alone], held_row[alone])
        for g in range(some.shape[0]):
            slot, wanted, values, rows = some[g], keep[some[g]], held_good[g], held_row[g]
            bars.counts[slot, 0] += end[g] - begin[g]
            bars.counts[slot, 1] += 1
            fails[first + g] = found[g] < wanted
            if found[g] >= wanted:
                since = end[g] - (end[g] - begin[g]) // {lasts}
                lasts = lasting(values, rows, found[g], line[slot, K], since, ranks)
                kept = prune(values, rows, found[g], max(wanted, min(lasts, line[slot, LIMIT] - 1)))
                settle(slot, kept, shift, times, seqs, bars, arrived, values, rows)
                bars.touched[slot] = 1

@kernel
def outlook(some, keep, begins, ends, lowest, {sampled}, constants, sign, floors, ranks):
    # a floor that about `wanted` rows of the window reach, from a sample's rank
    block = np.empty(64, np.float64)
    for g in range(some.shape[0]):
        slot = some[g]
        share = keep[slot] / {sample}
        few = int(share + 3 * sqrt(share) + 2)
{constants8}
        for i in range(few):
            ranks[i] = -np.inf
        limit = -np.inf
        end = 8 * max((ends[g] - lowest - 8) // {apart} + 1, 0)
        for base in range(8 * ((begins[g] - lowest + {apart} - 1) // {apart}), end, 64):
{block_of_sample}
            for j in range(min(end - base, 64)):
                raw = block[U(j)]
                if raw > ranks[few - 1]:
                    i = few - 1
                    while i > 0 and ranks[i - 1] < raw:
                        ranks[i] = ranks[i - 1]
                        i -= 1
                    ranks[i] = raw
            limit = ranks[few - 1]
        raw = ranks[few - 1]
        floors[g] = {value}

@kernel
def scan(some, keep, begins, ends, {columns}, constants, sign, floors, found, held_good, held_row):
    # all searches read a stretch of rows before the next one is fetched into the nearest cache
    room = held_good.shape[1]
    block = np.empty(64, np.float64)
    lowest, highest = begins[0], ends[0]
    for g in range(some.shape[0]):
        lowest, highest = min(lowest, begins[g]), max(highest, ends[g])
        found[g] = 0
    for stretch in range(lowest, highest, {stretch}):
        for g in range(some.shape[0]):
            slot, n, floor, wanted = some[g], found[g], floors[g], keep[some[g]]
            limit = {reach}
{constants12}
            end = min(stretch + {stretch}, ends[g])
            for base in range(max(stretch, begins[g]), end, 64):
{block_to_end}
                for part in range(0, 64, 8):
                    hit = False
                    for j in range(8):
                        hit |= block[U(part + j)] >= limit
                    if not hit:
                        continue
                    for j in range(part, part + 8):
                        raw = block[U(j)]
                        if not raw >= limit:
                            continue
                        value = {value}
                        if value >= floor:
                            held_good[g, n] = value
                            held_row[g, n] = base + j
                            n += 1
                            if n == room or (floor == -np.inf and n == 2 * wanted):
                                n = prune(held_good[g], held_row[g], n, wanted)
                                floor = least(held_good[g], n)
                                limit = {reach}
            found[g], floors[g] = n, floor
'''

# The scores of up to 64 rows from `base` on, in vector instructions. Usually none reaches the limit; then they are not
# written.
_BLOCK = """if {end} - base >= 64:
    hit = False
    for j in range(64):
{loads}
        hit |= {raw} >= limit
    if not hit:
        continue
    for j in range(64):
{loads}
        block[U(j)] = {raw}
else:
    for j in range({end} - base):
{loads}
        block[U(j)] = {raw}
    for j in range({end} - base, 64):
        block[U(j)] = np.nan
"""

# A column of the sample, copied once for all searches, so that it is contiguous.
_SAMPLE = """\
    S{j} = np.empty(many)
    for i in range(many // 8):
        for j in range(8):
            S{j}[U(8 * i + j)] = X{j}[U(lowest + {apart} * i + j)]
"""


@lru_cache(maxsize=256)
def _turn(columns: int, score: str, constants: int, sign: float) -> Any:
    parts = compared(score, constants, sign)
    raw, block_loads = parts["raw"], load_columns(columns, 8, "U(base + j)")
    return generated(
        _TEXT.format(
            columns=", ".join(f"X{j}" for j in range(columns)),
            chunk=CHUNK,
            short=SHORT,
            sample=SAMPLE,
            lasts=LASTS,
            **finding(columns, 20),
            loads=load_columns(columns, 12, "row"),
            loads8=load_columns(columns, 8, "row"),
            apart=8 * SAMPLE,
            group=GROUP,
            stretch=STRETCH,
            samples="".join(_SAMPLE.format(j=j, apart=8 * SAMPLE) for j in range(columns)),
            sampled=", ".join(f"S{j}" for j in range(columns)),
            block_of_sample=indented(
                _BLOCK.format(end="end", raw=raw, loads=block_loads.replace("X", "S")), 12
            ),
            block_to_stop=indented(_BLOCK.format(end="stop", raw=raw, loads=block_loads), 12),
            block_to_end=indented(_BLOCK.format(end="end", raw=raw, loads=block_loads), 16),
            constants8=load_constants(constants, 8),
            constants12=load_constants(constants, 12),
            constants16=load_constants(constants, 16),
            **parts,
        )
    )


def turning(space: Space, constants: int) -> Any:
    """Return the kernels `turn`, `refill` and `resume` of a space, which must be indexable."""
    assert space.rendered is not None
    return _turn(len(space.columns), space.rendered, constants, space.sign)
