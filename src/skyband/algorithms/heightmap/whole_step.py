"""A whole step in one call: rows arrive, meet the queries, and what has changed is told.

The kernels of a step take some eighty arrays, and Python hands over each of them at every call, by half a dozen
indirections that the kernels before have driven out of the caches. Nearly always they are the same arrays as at the
step before. So their addresses and extents are noted once (`Words`), and a kernel gets the notes.

`take` is `arrive` and `meet`, and tells whether anything is left to do that Python does: lists that are short of rows
or of room, upkeep that is due. `renew` makes lists anew (catchup.py) where no rows are late. `go` takes rows from an
Arrow table as C sees it, moves the one horizon of the windows on, and goes on to `write_changes`
(engine/change_writer.py) where nothing is left to do
for the lists. What it can't do it leaves untouched, or says how far it has come: `lane.py` and `heightmap` go on from
there the ordinary way.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from skyband.algorithms.heightmap.refill import catching
from skyband.algorithms.heightmap.score_blocks import meeting
from skyband.compiling.addresses import WORDS
from skyband.compiling.jit import generated

INTS, PLANE, BOX = (1, "int64"), (2, "int64"), (3, "float64")
FLOATS, GRID, BYTES, SHORT = (1, "float64"), (2, "float64"), (1, "uint8"), (1, "int32")
EIGHTS, HEIGHTS, PLACES, SPOTS = (1, "uint64"), (2, "int16"), (2, "uint16"), (2, "int32")
ROUNDED, FLOORS, BRIEF = (1, "float32"), (2, "float32"), (3, "float32")

# the arrays of `arrive`, in order
ARRIVING = {
    "ks": INTS, "seen_time": INTS, "seen_seq": INTS, "back": SHORT, "state": INTS, "clock": INTS,
    "pool": BOX, "times": PLANE, "seqs": PLANE, "meta": PLANE, "index": PLACES, "faces": INTS,
    "order": INTS, "sides": INTS, "low": FLOATS, "high": FLOATS, "base": FLOATS, "inverse": FLOATS,
    "outer": HEIGHTS, "inner": HEIGHTS, "picks": PLACES, "eager": PLACES,
    "points": BOX, "when": PLANE, "number": PLANE, "counts": INTS, "totals": INTS,
    "passed": INTS, "cell": SHORT, "level": SHORT, "eights": EIGHTS, "marks8": BYTES,
}  # fmt: skip
# and those that `meet` takes beside them
MEETING = {
    "block_face": INTS, "constants": GRID, "edge": FLOATS, "member": SHORT,
    "good": FLOATS, "time": INTS, "seq": INTS, "start": INTS, "size": INTS, "room": INTS, "brim": SHORT,
    "old_time": INTS, "old_seq": INTS, "wish": SHORT, "touched": BYTES, "todo": SHORT, "heap_time": INTS,
    "heap_seq": INTS,
    "spots": SPOTS, "outline": HEIGHTS, "line_order": INTS, "line_sides": INTS, "line_low": FLOATS,
    "line_high": FLOATS, "line_base": FLOATS, "line_inverse": FLOATS,
    "hit_place": SHORT, "hit_point": SHORT, "hit_value": FLOATS, "values": FLOATS, "words8": EIGHTS, "above": BYTES,
    "kept": SHORT,
}  # fmt: skip
# and those of lists that are made anew
RENEWING = {
    "place": SHORT, "floors": FLOORS, "slope": FLOATS, "tilt": FLOATS, "moved": FLOATS, "walkers": PLANE, "marks": GRID,
    "sought": FLOATS, "out_good": GRID, "out_time": PLANE, "out_seq": PLANE, "result": INTS,
    "brief": BRIEF, "weight": GRID, "offset": FLOATS, "blur": ROUNDED,
    "known": FLOATS, "slip": ROUNDED, "corners": BOX, "line_corners": BOX,
}  # fmt: skip
TAKEN = {**ARRIVING, "resume": INTS, **MEETING, **RENEWING, "due": INTS}
# of `write_changes`, after sign and times
TOLD = {
    "ks": INTS, "touched": BYTES, "slots": INTS, "start": INTS, "room": INTS, "size": INTS, "stale": INTS,
    "good": FLOATS, "time": INTS, "seq": INTS,
    "pool_good": FLOATS, "pool_time": INTS, "pool_seq": INTS, "list_start": INTS, "list_size": INTS,
    "which": INTS, "begins": INTS, "sizes": INTS,
    "watch": INTS, "rank": INTS, "found_good": FLOATS, "found_time": INTS, "found_seq": INTS, "ids": SHORT,
    "out_query": SHORT, "out_change": SHORT, "out_rank": SHORT, "out_valid": BYTES, "out_score": FLOATS,
    "out_seq": INTS,
}  # fmt: skip
GONE = {**TOLD, "horizon_time": INTS, "horizon_seq": INTS, "places": INTS, "report": INTS}

# `due`: rows of a reservoir at least and at most, whether queries have come; rows seen at which
# the map is looked at, and rows until it is again; at which loose queries are; thresholds raised, rows outside, rows
# survived and stored from which on it may be made anew, and rows outside and seen when it was
LEAST, MOST, CAME, LOOK, AGAIN, CHECK, RAISE, ENOUGH, GROWN, OUTSIDE, SINCE, DUE = range(12)
# `report` of `go`: whether all watches were compared, changes found, what `take` said; sign of the scores, seq of
# the first row, and its address
DONE, COUNT, LEFT, TELL_SIGN, SEQ, SEQ_AT = range(6)
NOTHING, UPKEEP, LISTS = range(3)  # what is left to do
# what `renew` has done: lists; only those before one that needs room; the maps, too
LISTED, LACKING, LOWERED = range(3)
REFUSED, HALF = -1, -2  # instead of the changes' number: rows untouched; lists, or changes, not done with
# of an array as Arrow tells it to C, in words
NULLS, OFFSET, BUFFERS, CHILDREN, RELEASE, EXTENT = 1, 2, 5, 6, 8, 10

_TEXT = '''"""Generated by algorithms.heightmap.whole_step: a whole step in one call."""
import numpy as np
from skyband.compiling.jit import kernel
from skyband.engine.change_writer import write_changes
from skyband.algorithms.heightmap.ingest import CLOSED, EPOCH, FIRST, NEED, NEXT, RESERVED, TIMED, arrive
from skyband.compiling.addresses import lent, shown
from skyband.algorithms.heightmap.block_maps import lower_all
from skyband.algorithms.heightmap.slack_lists import RAISED, SEEN, STRANGERS, SURVIVED, WISHES
from {module} import meet
from {catching} import refill

@kernel
def take(words, most, epoch, mapped, horizon_time, horizon_seq, columns, row_time, row_seq):
{taken}
    for i in range(5):
        resume[i] = 0
    resume[6] = -2
    resume[5] = arrive(most, epoch, mapped, horizon_time, horizon_seq, columns, row_time, row_seq, {arriving})
    if resume[5] < 0 or state[NEED] != 0:
        return {lists}
    resume[6] = meet(state[TIMED] != 0, horizon_time, horizon_seq, points, when, number, counts, ks, clock, totals,
                     resume, {meeting})
    if resume[6] >= 0 or totals[WISHES] > 0 or resume[4] > 0 or back[0] > 0:
        return {lists}
    if state[CLOSED] >= 0:
        b = state[CLOSED] % meta.shape[0]
        held = meta[b, RESERVED]
        if due[{came}] or meta[b, EPOCH] < 0 or held < due[{least}] or held > due[{most}]:
            return {upkeep}
        state[CLOSED] = -1
    seen = totals[SEEN]
    if seen < due[{look}]:
        return {nothing}
    stale = totals[RAISED] > due[{raise}] or 50 * (totals[STRANGERS] - due[{outside}]) > seen - due[{since}]
    grown = (state[NEXT] - state[FIRST]) * pool.shape[2] > due[{grown}]
    if (stale and (grown or totals[SURVIVED] > due[{enough}])) or (seen >= due[{check}] and faces[2] > 0):
        return {upkeep}
    due[{look}] = seen + due[{again}]
    return {nothing}

@kernel
def renew(words, first, asked, count, ranks, stack, share, epoch, weighted, horizon_time, horizon_seq):
{taken}
    # there are no late rows, whatever arrays stand for theirs; the first and the next block begin the state
    again = refill(first, asked, count, place, ranks, stack, constants, edge, share, state,
                  (pool, times, seqs, meta, index), (brief, weight, offset, blur), (pool, times, seqs, 0), floors,
                  slope, epoch,
                  (faces, order, sides, low, high, base, inverse, outer, picks, tilt, moved, passed, cell, level,
                   eights, marks8),
                  (good, time, seq, start, size, room, brim), ks, horizon_time, horizon_seq, old_time, old_seq, walkers,
                  marks, sought, out_good, out_time, out_seq, result, totals)
    if again:
        return {lacking}
    if weighted and lower_all(asked, place, block_face, edge, known, floors, epoch, inner, outer, low, high, corners,
                              sides, order, offset, weight, slip,
                              (outline, line_low, line_high, line_corners, line_sides, line_order)):
        return {lowered}
    return {listed}

@kernel
def go(words, notes, most, epoch, mapped, rows, base, edge, used, exported, times):
{gone}
    children = shown(shown(exported, {extent}, np.int64)[{children}], {axes}, np.int64)
{children_text}
    report[{seq}] = base
    columns = ({columns})
    for slot in range(horizon_seq.shape[0]):
        horizon_time[slot], horizon_seq[slot] = 0, edge
    left = take(words, most, epoch, mapped, horizon_time, horizon_seq, columns, shown(times, rows, np.int64),
                shown(report[{seq_at}], 1, np.int64))
    report[{left}] = left
    if left == {lists}:
        return {half}
    state = lent(words, {state}, 1, np.int64)
    done, count = write_changes(used, np.float64(report[{tell_sign}]), state[TIMED] != 0, {told})
    report[{done}], report[{count}] = done, count
    return count if done and left == {nothing} and used + count <= out_query.shape[0] else {half}
'''


def _lent(source: str, fields: dict[str, tuple[int, str]]) -> str:
    return "\n".join(
        f"    {name} = lent({source}, {WORDS * i}, {dims}, np.{kind})"
        for i, (name, (dims, kind)) in enumerate(fields.items())
    )


@lru_cache(maxsize=64)
def whole(score: str, axes: int, constants: int, sign: float, boxed: tuple[int, ...] = ()) -> Any:
    """The kernels `take`, `renew` and `go`: they pay for their compilation where there are many steps."""
    child = f"""    C{{0}} = shown(children[{{1}}], {EXTENT}, np.int64)
    B{{0}} = shown(C{{0}}[{BUFFERS}], 2, np.int64)
    if (B{{0}}[0] != 0 and C{{0}}[{NULLS}] != 0) or B{{0}}[1] % 8 != 0:
        return {REFUSED}"""
    text = _TEXT.format(
        module=meeting(score, axes, constants, sign, boxed).function.__module__,
        catching=catching(score, axes, constants, sign).refill.function.__module__,
        taken=_lent("words", TAKEN),
        gone=_lent("notes", GONE),
        arriving=", ".join(ARRIVING),
        meeting=", ".join(MEETING),
        told=", ".join(TOLD),
        state=WORDS * list(TAKEN).index("state"),
        axes=axes,
        children_text="\n".join(child.format(i, f"places[{i}]") for i in range(axes)),
        columns="".join(f"shown(B{i}[1] + 8 * C{i}[{OFFSET}], rows, np.float64), " for i in range(axes)),
        came=CAME, least=LEAST, most=MOST, look=LOOK, again=AGAIN, check=CHECK, enough=ENOUGH, grown=GROWN,
        outside=OUTSIDE, since=SINCE, **{"raise": RAISE},
        done=DONE, count=COUNT, left=LEFT, tell_sign=TELL_SIGN, seq=SEQ, seq_at=SEQ_AT,
        nothing=NOTHING, upkeep=UPKEEP, lists=LISTS, half=HALF, extent=EXTENT, children=CHILDREN,
        listed=LISTED, lacking=LACKING, lowered=LOWERED,
    )  # fmt: skip
    return generated(text)
