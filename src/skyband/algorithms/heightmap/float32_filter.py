"""Reservoirs in float32: where lists are rebuilt by the hundred, a scan takes a third of the time.

A list that is rebuilt (refill.py) reads tens of thousands of rows and keeps a few hundred. While scores fall that is
most of the work. So the rows of reservoirs are stored once more, rounded to float32: half of the memory to read, and
twice as many rows at a time. The scan finds *candidates*: it skips a row only if its rounded score is below the bar by
more than all possible rounding (`Relief.blur`). Every other row is read in float64 and scored exactly. Those come from
far memory, so all rows of a block are prefetched before the first is scored.

Only for weighted sums, for which the rounding error is known, and for rows near the frame: a row far outside it is a
NaN here, which is below no bar. A query whose error is not known has an infinite blur: it reads every row.

A reservoir's float32 rows are written when a query scans it, and only those added since the last scan.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.algorithms.heightmap.ingest import BRIEF, RESERVED, STRETCH
from skyband.algorithms.heightmap.map_set import FARTHER
from skyband.compiling.jit import kernel
from skyband.core.types import Floats, Ints

# in `mapping`: scratch memory for sifted rows, used for the rows found
SPOTS, SETS = (13, 14)


@kernel
def abridge(b: int, pool: Floats, meta: Ints, low: Floats, high: Floats, brief: Any) -> None:
    """Append the rows of a reservoir that are not there yet as float32. The rounding error of rows far outside the
    frame is not known: they become NaN, so that no query skips them."""
    for axis in range(pool.shape[1]):
        far = FARTHER * max(abs(low[axis]), abs(high[axis]))
        for i in range(meta[b, BRIEF], meta[b, RESERVED]):
            x = pool[b, axis, i]
            brief[b, axis, i] = np.float32(x if abs(x) <= far else np.nan)
    meta[b, BRIEF] = meta[b, RESERVED]


TEXT = '''@kernel
def skim_brief(brief, b, chunks, bar0, bar1, bar2, bar3, weight, slot0, slot1, slot2, slot3, above):
    """As `skim_four`, for rows in float32 and weighted sums: no row above a bar is skipped, if the bar was lowered by
    the possible rounding."""
{brief_parameters}
    for c in range(chunks):
        w = np.uint64(32) * np.uint64(c)
        hit0, hit1, hit2, hit3 = False, False, False, False
        for i in range(32):
{brief_loads}
            hit0 |= not {brief0} <= bar0
            hit1 |= not {brief1} <= bar1
            hit2 |= not {brief2} <= bar2
            hit3 |= not {brief3} <= bar3
        above[c] = np.int64(hit0) | np.int64(hit1) << 1 | np.int64(hit2) << 2 | np.int64(hit3) << 3

@inlined
def spot(b, c, rows, bar, pool, brief, weight, slot):
    """Return the rows of a chunk that may be above the bar, by float32: a bit for each. They are prefetched then."""
{alone_parameters}
    w = np.uint64(32 * c)
    found = np.uint64(0)
    for i in range(32):
{alone_loads}
        found |= np.uint64(not {alone} <= bar) << np.uint64(31 - i)
    beyond = np.uint64(max(0, 32 * c + 32 - rows))
    found = (found >> beyond) << beyond
    left = found
    while left != np.uint64(0):
        at = 32 * c + 31 - first_bit(left)
        left &= left - np.uint64(1)
        for axis in range({axes}):
            fetch(pool, (b * {axes} + axis) * pool.shape[2] + at)
    return found

@inlined
def read(b, first, count, stack, constants, store, horizon_time, horizon_seq, members, marks, above, out_good, out_time,
         out_seq):
    """Let up to four members, those that members[first:count, SIDE] names, scan the reservoir of a block."""
    pool, times, seqs, meta, index = store
    rows, many = meta[b, 2], min(4, count - first)
    chunks = (rows + 31) // 32
    g0, g1 = members[first, {side}], members[first + 1, {side}]
    g2, g3 = members[first + min(2, many - 1), {side}], members[first + min(3, many - 1), {side}]
    # if they are fewer than four, no row is above the bars of the others
    skim_four(pool, b, chunks, marks[g0, {bar}], marks[g1, {bar}], marks[g2, {bar}] if many > 2 else np.inf,
              marks[g3, {bar}] if many > 3 else np.inf, constants, members[g0, {place}], members[g1, {place}],
              members[g2, {place}], members[g3, {place}], above)
    for back in range(chunks):
        c = chunks - 1 - back
        hits = np.uint64(above[c])
        while hits != np.uint64(0):
            g = members[first + first_bit(hits), {side}]
            hits &= hits - np.uint64(1)
            slot = members[g, {slot}]
            settle(b, c, False, rows, g, horizon_time[slot], horizon_seq[slot], stack, pool, times, seqs, meta, index,
                   members, marks, out_good, out_time, out_seq, constants, members[g, {place}])

@inlined
def blurred(g, members, marks, offset, blur):
    """Return a member's bar, lowered by the possible rounding to float32."""
    slot = members[g, {slot}]
    return np.float32(marks[g, {bar}] - offset[slot] - blur[slot])

@inlined
def read_brief(b, first, count, stack, constants, store, sketch, horizon_time, horizon_seq, members, marks, mapping,
               out_good, out_time, out_seq):
    """As `read`, by float32 rows, where there are some."""
    pool, times, seqs, meta, index = store
    brief, weight, offset, blur = sketch
    above, spots, sets = mapping[{above}], mapping[{spots}], mapping[{sets}]
    rows, many = meta[b, 2], min(4, count - first)
    chunks = (rows + 31) // 32
    g0, g1 = members[first, {side}], members[first + min(1, many - 1), {side}]
    g2, g3 = members[first + min(2, many - 1), {side}], members[first + min(3, many - 1), {side}]
    # if they are fewer than four, what the last one finds again is not read
    skim_brief(brief, b, chunks, blurred(g0, members, marks, offset, blur), blurred(g1, members, marks, offset, blur),
               blurred(g2, members, marks, offset, blur), blurred(g3, members, marks, offset, blur), weight,
               members[g0, {slot}], members[g1, {slot}], members[g2, {slot}], members[g3, {slot}], above)
    c = chunks
    while c > 0:
        n = 0
        while c > 0 and n + 4 <= {most}:  # prefetch the rows of many chunks before reading them
            c -= 1
            hits = np.uint64(above[c]) & np.uint64((1 << many) - 1)
            while hits != np.uint64(0):
                which = first_bit(hits)
                hits &= hits - np.uint64(1)
                g = members[first + which, {side}]
                found = spot(b, c, rows, blurred(g, members, marks, offset, blur), pool, brief, weight,
                             members[g, {slot}])
                sets[n], spots[n] = found, 4 * c + which
                n += np.int64(found != np.uint64(0))
        for i in range(n):
            g = members[first + spots[i] % 4, {side}]
            slot = members[g, {slot}]
            choose(sets[i], b, np.int64(spots[i]) // 4, False, rows, g, horizon_time[slot], horizon_seq[slot], stack,
                   pool, times, seqs, meta, index, members, marks, out_good, out_time, out_seq, constants,
                   members[g, {place}])
'''


def fields(axes: int) -> dict[str, Any]:
    """Return the values of the template's holes for so many axes."""

    def lines(indent: int, form: str) -> str:
        return "\n".join(" " * indent + form.format(i) for i in range(axes)) or " " * indent + "pass"

    def score(of: str = "") -> str:
        return f"({' + '.join(f'w{i}{of} * x{i}' for i in range(axes)) or '0.0'})"

    return {
        "axes": axes,
        "spots": SPOTS,
        "sets": SETS,
        "most": STRETCH // 8,
        "brief_parameters": "\n".join(
            lines(4, f"w{{0}}_{g} = np.float32(weight[slot{g}, {{0}}])") for g in range(4)
        ),
        "brief_loads": lines(12, "x{0} = brief[b, {0}, w + np.uint64(i)]"),
        **{f"brief{g}": score(f"_{g}") for g in range(4)},
        "alone_parameters": lines(4, "w{0} = np.float32(weight[slot, {0}])"),
        "alone_loads": lines(8, "x{0} = brief[b, {0}, w + np.uint64(i)]"),
        "alone": score(),
    }
