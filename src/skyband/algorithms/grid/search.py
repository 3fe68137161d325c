"""Searches of a grid: the loops that depend on the score, generated for each shape of it.

Three kernels, generated from the expression tree and compiled when they are first called:

    offer     offers new rows to the slots that their cells' influence lists name
    walk      best-first from cell to cell, for scores that are monotone on each axis
    descend   best-first through boxes of cells, for any score that interval arithmetic can bound

**walk** begins at the cell of the best corner. A cell's key is the score at its own best corner, which no row in it can
exceed. Its neighbours, one step away from the best along each axis, have keys no better, so a heap yields cells in
order and the search ends at the first key below the worst row held. Cells with an equal key are still visited: an
equal row that is newer is better. What is left in the heap is the frontier; from there a second walk removes the slot
from influence lists that it no longer needs.

**descend** needs no corner. It begins with all cells as one box, bounds boxes by interval arithmetic, takes the best
one and splits it along the axis with most cells, until a box is a cell. Cells that the slot had before and that were
not reached lose its entry.

A cell's rows are copied side by side before they are scored, and stay there for the other slots of the same call: most
of these visit the same cells, and following a chain of rows takes longer than scoring them.

Both visit exactly the cells whose bound is at least the worst row held, and leave the slot in exactly those influence
lists. With `scan` 0 they read no row and only set the influence lists for the slot's present bar.

**To write an algorithm on it**, see base.py: bring a kernel `arrive(slot, good, time, seq, *state)` that inserts a row
at least as good as `bar[slot]` into the slot's list and returns 0, or 1 for "no room: make some and offer it again".
The generated `offer` calls it. A search writes the `keep[slot]` best rows into the slot's ranked list, best last, sets
`bar[slot]` to the worst of them and `complete[slot]` to 0. Where there are fewer rows, it sets `bar` to -inf and
`complete` to 1: the list then holds every row that there is, and the slot is in every cell.

The text is generated from the tree by `render` and `render_bounds`, never from user input.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from skyband.algorithms.grid.cells import Words
from skyband.algorithms.kernels.row_slots import Places
from skyband.compiling.jit import generated, inlined, kernel
from skyband.core.types import Floats, Ints
from skyband.query.expression.box_bounds import OPERATIONS, render_bounds
from skyband.query.expression.score_space import Space

VISITED, RECOMPUTED, SCORED, ADMITTED = range(4)
COUNTERS = ("cells visited", "recomputations", "rows scored", "admitted")
"""The counters of every algorithm on a grid, in the order of their columns; an algorithm's own ones follow."""
FEW = 128  # rows of a list that a search keeps in order


# -- what needs no score, compiled once for all shapes -------------------------------------------------------


@kernel
def push_cell(keys: Floats, cells: Places, size: int, key: float, cell: int) -> None:
    """Push a cell to a heap, best key first."""
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if keys[parent] >= key:
            break
        keys[at] = keys[parent]
        cells[at] = cells[parent]
        at = parent
    keys[at] = key
    cells[at] = cell


@kernel
def pop_cell(keys: Floats, cells: Places, size: int) -> None:
    """Remove the root of a heap of cells; the heap has one less afterwards."""
    last = size - 1
    key, cell = keys[last], cells[last]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= last:
            break
        if child + 1 < last and keys[child + 1] > keys[child]:
            child += 1
        if keys[child] <= key:
            break
        keys[at] = keys[child]
        cells[at] = cells[child]
        at = child
    keys[at] = key
    cells[at] = cell


@inlined
def worse(good: float, place: int, other_good: float, other: int, time: Ints, seq: Ints) -> bool:
    """Whether a row comes after another in the one total order."""
    if good != other_good:
        return good < other_good
    if time[place] != time[other]:
        return bool(time[place] < time[other])
    return bool(seq[place] < seq[other])


@kernel
def sink_row(good: Floats, places: Ints, size: int, value: float, place: int, time: Ints, seq: Ints) -> None:
    """Replace the root of a heap of rows, worst first."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and worse(
            good[child + 1], places[child + 1], good[child], places[child], time, seq
        ):
            child += 1
        if worse(value, place, good[child], places[child], time, seq):
            break
        good[at] = good[child]
        places[at] = places[child]
        at = child
    good[at] = value
    places[at] = place


@kernel
def hold(
    value: float, place: int, found: int, wanted: int, good: Floats, places: Ints, time: Ints, seq: Ints
) -> int:
    """Insert a row into the best found so far, worst first; return how many there are.

    They are a heap. Few of them are sorted, which is a heap as well: moving ten of them takes less time than the
    unpredictable branches of a heap."""
    if found == wanted:
        if worse(good[0], places[0], value, place, time, seq):
            if wanted > FEW:
                sink_row(good, places, wanted, value, place, time, seq)
            else:
                at = 0
                while at + 1 < found and worse(good[at + 1], places[at + 1], value, place, time, seq):
                    good[at] = good[at + 1]
                    places[at] = places[at + 1]
                    at += 1
                good[at] = value
                places[at] = place
    else:
        at = found
        while at > 0:
            parent = at - 1 if wanted <= FEW else (at - 1) >> 1
            if worse(good[parent], places[parent], value, place, time, seq):
                break
            good[at] = good[parent]
            places[at] = places[parent]
            at = parent
        good[at] = value
        places[at] = place
        found += 1
    return found


@kernel
def collect(
    c: int, place: int, first: Places, following: Places, x: Floats, near_x: Floats, near_place: Places,
    near_in: Ints, near_begin: Places, near_end: Places, turn: Ints,
) -> tuple[int, int, int]:  # fmt: skip
    """Copy rows of a cell's chain, from a place on, side by side; return where they begin and end, and the next place.

    A cell whose rows are all there is marked for the rest of the turn: queries that are searched for together visit the
    same cells, and a chain's rows are far apart in memory."""
    room = near_place.shape[0]
    whole = place == first[c]
    if 2 * turn[1] > room:  # there may be no room for a cell of usual size: start again
        turn[0] += 1
        turn[1] = 0
    begin = turn[1]
    at = begin
    while place >= 0 and at < room:
        near_place[at] = place
        for axis in range(x.shape[1]):
            near_x[axis, at] = x[place, axis]
        place = following[place]
        at += 1
    turn[1] = at
    if whole and place < 0:
        near_in[c] = turn[0]
        near_begin[c] = begin
        near_end[c] = at
    return begin, at, place


@kernel
def retreat(
    waiting: int, heap: Places, stamp: Places, age: int, slot: int, up: Any, begin: Ints, end: Ints,
    cells: Ints, strides: Ints, bits: Words, count: Places,
) -> None:  # fmt: skip
    """Remove the slot from influence lists beyond the frontier, which it no longer needs."""
    word = slot >> 6
    bit = np.uint64(1) << np.uint64(slot & 63)
    while waiting > 0:
        waiting -= 1
        c = heap[waiting]
        if bits[c, word] & bit == 0:
            continue
        bits[c, word] ^= bit
        count[c] -= 1
        rest = c
        for axis in range(cells.shape[0]):
            here = rest % cells[axis]
            rest //= cells[axis]
            step = -1 if up[slot, axis] >= 0 else 1
            if here != (begin[axis] if step < 0 else end[axis]):
                neighbour = c + step * strides[axis]
                if stamp[neighbour] != age:
                    stamp[neighbour] = age
                    heap[waiting] = neighbour
                    waiting += 1


@kernel
def finish(
    slot: int, found: int, wanted: int, floor: float, held_good: Floats, held_place: Ints, time: Ints, seq: Ints,
    good: Floats, times: Ints, seqs: Ints, start: Ints, size: Ints,
    bar: Floats, complete: Any, oldest_time: Ints, oldest_seq: Ints,
) -> None:  # fmt: skip
    """Write the rows found into the slot's list, best last."""
    latest = 9223372036854775807
    complete[slot] = 1 if found < wanted else 0
    bar[slot] = -np.inf if found < wanted else floor
    size[slot] = found
    oldest, oldest_number = latest, latest
    at = start[slot]
    for i in range(found):
        root = i if wanted <= FEW else 0
        place = held_place[root]
        good[at + i] = held_good[root]
        times[at + i] = time[place]
        seqs[at + i] = seq[place]
        if time[place] < oldest or (time[place] == oldest and seq[place] < oldest_number):
            oldest, oldest_number = time[place], seq[place]
        if wanted > FEW:
            last = found - 1 - i
            sink_row(held_good, held_place, last, held_good[last], held_place[last], time, seq)
    oldest_time[slot], oldest_seq[slot] = oldest, oldest_number


@kernel
def halve(nodes: Places, node: int, made: int) -> int:
    """Split a box of cells along its widest axis; return 0 if it is one cell already."""
    axes = nodes.shape[1] // 2
    widest, most = 0, 0
    for axis in range(axes):
        if nodes[node, axes + axis] - nodes[node, axis] > most:
            widest = axis
            most = nodes[node, axes + axis] - nodes[node, axis]
    if most == 0:
        return 0
    middle = (nodes[node, widest] + nodes[node, axes + widest]) // 2
    for end in range(2 * axes):
        nodes[made, end] = nodes[node, end]
        nodes[made + 1, end] = nodes[node, end]
    nodes[made, axes + widest] = middle
    nodes[made + 1, widest] = middle + 1
    return 1


# -- the text ------------------------------------------------------------------------------------------------

_HEAD = """\"\"\"Generated by skyband.algorithms.grid.search: the loops of a grid for one shape of score.\"\"\"
import numpy as np
from skyband.compiling.jit import kernel
from skyband.algorithms.grid.cells import adopt, clear_slot, index_on
from skyband.compiling.intrinsics import fetch, first_bit
from skyband.algorithms.kernels.scalar_intervals import {operations}
from skyband.algorithms.grid.search import collect, finish, halve, hold, pop_cell, push_cell, retreat
"""

_OFFER = """
from {module} import {hook} as arrive

@kernel
def offer(first, first_slot, places, x, time, seq, cell, bits, count, used, bar, constants, horizon_time, horizon_seq,
          limit_low, limit_high, counts, state):
    one, zero = np.uint64(1), np.uint64(0)
    words = bits.shape[1]
    for i in range(first, places.shape[0]):
        if i + 12 < places.shape[0] and places[i + 12] >= 0:  # the words of a cell that is read soon
            c = cell[places[i + 12]]
            if count[c] != 0:
                for w in range(0, words, 8):
                    fetch(bits, c * words + w)
        place = places[i]
        stray = place < 0
        c = 0
        if stray:
            place = ~place
        else:
            c = cell[place]
            if count[c] == 0:
                continue
            some = zero
            for w in range(words):
                some |= bits[c, w]
            if some == zero:
                continue
{row:8}
        for w in range(words):
            b = used[w] if stray else bits[c, w]
            while b != zero:
                slot = (w << 6) + first_bit(b)
                b &= b - one
                if i == first and slot < first_slot:
                    continue
{constants:16}
                counts[slot, 2] += 1
                value = {good}
                if not value >= bar[slot]:
                    continue
{limits:16}
                when, number = time[place], seq[place]
                if when < horizon_time[slot] or (when == horizon_time[slot] and number < horizon_seq[slot]):
                    continue
                if arrive(slot, value, when, number, *state):
                    return i, slot
    return places.shape[0], 0
"""

_BEGIN = """
    x, time, seq, following, first = rows
    bits, count, cells, strides, origin, scale, low, high = grid
    constants, horizon_time, horizon_seq, limit_low, limit_high, counts, bar, complete, oldest_time, oldest_seq = slots
    good, times, seqs, start, size = lists
    held_good, held_place, at, begin, end, bottom, top = held
    near_x, near_good, near_place, near_in, near_begin, near_end, turn = near
    turn[0] += 1
    turn[1] = 0
    axes = cells.shape[0]
    one = np.uint64(1)
    for axis in range(axes):
        begin[axis] = 0
        end[axis] = cells[axis] - 1
        bottom[axis] = -np.inf
        top[axis] = np.inf
    for t in range(todo.shape[0]):
        slot = todo[t]
        wanted = keep[slot]
        since, since_seq = horizon_time[slot], horizon_seq[slot]
        floor = -np.inf if scan else bar[slot]
        found, visited, scored = 0, 0, 0
{constants:8}
        empty = False
{boxes:8}
"""

# How both searches process the rows of a cell `c`: by pieces, which lie side by side.
_SCAN = """
                low_end, high_end, rest = 0, 0, first[c]
                if near_in[c] == turn[0]:
                    low_end, high_end, rest = near_begin[c], near_end[c], -1
                while low_end < high_end or rest >= 0:
                    if low_end == high_end:
                        low_end, high_end, rest = collect(c, rest, first, following, x, near_x, near_place, near_in,
                                                          near_begin, near_end, turn)
                    for i in range(low_end, high_end):
{near:24}
                        near_good[i] = {good}
                    scored += high_end - low_end
                    for i in range(low_end, high_end):
                        value = near_good[i]
                        if value >= floor:
                            place = near_place[i]
                            fits = time[place] > since or (time[place] == since and seq[place] >= since_seq)
{fits:28}
                            if fits:
                                found = hold(value, place, found, wanted, held_good, held_place, time, seq)
                                if found == wanted:
                                    floor = held_good[0]
                    low_end = high_end
"""

_FINISH = """
        counts[slot, 0] += visited
        if scan:
            counts[slot, 1] += 1
            counts[slot, 2] += scored
            finish(slot, found, wanted, floor, held_good, held_place, time, seq, good, times, seqs, start, size,
                   bar, complete, oldest_time, oldest_seq)
"""

_WALK = (
    """
@kernel
def walk(todo, keep, scan, up, rows, near, grid, slots, lists, held, stamp, age, keys, heap):
"""
    + _BEGIN
    + """
        word = slot >> 6
        bit = one << np.uint64(slot & 63)
        age += 1
        waiting = 0
        c = 0
        for axis in range(axes):
            at[axis] = end[axis] if up[slot, axis] >= 0 else begin[axis]
            c += at[axis] * strides[axis]
        if empty:
            clear_slot(slot, bits, count)
        opening = not empty
        while opening or (waiting > 0 and not keys[0] < floor):
            if not opening:
                c = heap[0]
                pop_cell(keys, heap, waiting)
                waiting -= 1
                visited += 1
                if bits[c, word] & bit == 0:
                    bits[c, word] |= bit
                    count[c] += 1
                rest = c
                for axis in range(axes):
                    at[axis] = rest % cells[axis]
                    rest //= cells[axis]
            if scan and not opening:
"""
    + _SCAN
    + """
            for axis in range(axes):
                here = at[axis]
                neighbour = c
                if not opening:
                    step = -1 if up[slot, axis] >= 0 else 1
                    if here == (begin[axis] if step < 0 else end[axis]):
                        continue
                    neighbour = c + step * strides[axis]
                    at[axis] = here + step
                if stamp[neighbour] != age:
                    stamp[neighbour] = age
{corner:20}
                    push_cell(keys, heap, waiting, {good}, neighbour)
                    waiting += 1
                at[axis] = here
            opening = False
        retreat(waiting, heap, stamp, age, slot, up, begin, end, cells, strides, bits, count)
"""
    + _FINISH
    + """
    return age
"""
)

_DESCEND = (
    """
@kernel
def descend(todo, keep, scan, sign, rows, near, grid, slots, lists, held, mine, seen, nodes, keys, heap):
"""
    + _BEGIN
    + """
        for w in range(seen.shape[0]):
            seen[w] = 0
        waiting, made = 0, 0
        if not empty:
            for axis in range(axes):
                nodes[0, axis] = begin[axis]
                nodes[0, axes + axis] = end[axis]
            keys[0] = np.inf
            heap[0] = 0
            waiting, made = 1, 1
        while waiting > 0 and not keys[0] < floor:
            key, node = keys[0], heap[0]
            pop_cell(keys, heap, waiting)
            waiting -= 1
            if halve(nodes, node, made) == 0:
                c = 0
                for axis in range(axes):
                    c += nodes[node, axis] * strides[axis]
                visited += 1
                seen[c >> 6] |= one << np.uint64(c & 63)
                if scan == 0:
                    continue
"""
    + _SCAN
    + """
                continue
            for half in range(2):
{ends:16}
                {nothing}
                    bound = -np.inf
                else:
{bounds:20}
                    bound = {high} if sign > 0 else -({low})
                push_cell(keys, heap, waiting, min(key, bound), made)
                waiting += 1
                made += 1
        adopt(slot, seen, mine, bits, count)
"""
    + _FINISH
)

_BOX = """if not limit_low[slot, {i}] <= limit_high[slot, {i}]:
    empty = True
else:
    bottom[{axis}] = limit_low[slot, {i}]
    top[{axis}] = limit_high[slot, {i}]
    if top[{axis}] < low[{axis}, 0] or bottom[{axis}] > high[{axis}, cells[{axis}] - 1]:
        empty = True
    begin[{axis}] = index_on(bottom[{axis}], origin[{axis}], scale[{axis}], cells[{axis}])
    end[{axis}] = index_on(top[{axis}], origin[{axis}], scale[{axis}], cells[{axis}])"""


class _Lines(str):
    """Lines of code that a format string indents: {name:8}."""

    def __format__(self, spec: str) -> str:
        pad = " " * int(spec or 0)
        return "\n".join(pad + line for line in (self.splitlines() or ["pass"]))


class Visits:
    """The generated kernels of one space; `hook` names the algorithm's `arrive` as (module, function)."""

    def __init__(self, space: Space, constants: int, hook: tuple[str, str]) -> None:
        score = space.rendered
        if score is None:
            raise ValueError("This score can't be written as generated code; evaluate it.")
        words = _words(space, constants, score)
        head = _HEAD.format(operations=", ".join(OPERATIONS))
        self._offer = head + _OFFER.format(**words, module=hook[0], hook=hook[1])
        self._walk = head + _WALK.format(**words)
        self._descend = head + _DESCEND.format(**words)

    @property
    def offer(self) -> Any:
        return _made(self._offer).offer

    @property
    def walk(self) -> Any:
        return _made(self._walk).walk

    @property
    def descend(self) -> Any:
        return _made(self._descend).descend


@lru_cache(maxsize=256)
def _made(source: str) -> Any:
    return generated(source)


def _words(space: Space, constants: int, score: str) -> dict[str, Any]:
    """Return the values of the templates' holes."""
    axes = range(len(space.columns))
    written = render_bounds(space.shape, space.columns)
    assert written is not None
    lines, low, high = written

    def scalars(text: str) -> str:
        for i in reversed(range(constants)):
            text = text.replace(f"p[{i}]", f"p{i}")
        return text

    limits = [
        f"if not (x{axis} >= limit_low[slot, {i}] and x{axis} <= limit_high[slot, {i}]):\n    continue"
        for i, axis in enumerate(space.boxed)
    ]
    ends = [
        f"l{j} = max(low[{j}, nodes[made, {j}]], bottom[{j}])\nh{j} = min(high[{j}, nodes[made, axes + {j}]], top[{j}])"
        for j in axes
    ]
    boxed = space.boxed
    sign = "" if space.sign > 0 else "-"
    return {
        "good": f"{sign}({scalars(score)})",
        "row": _Lines("\n".join(f"x{j} = x[place, {j}]" for j in axes)),
        "near": _Lines("\n".join(f"x{j} = near_x[{j}, i]" for j in axes)),
        "constants": _Lines("\n".join(f"p{i} = constants[slot, {i}]" for i in range(constants))),
        "limits": _Lines("\n".join(limits)),
        "fits": _Lines(
            "\n".join(
                f"fits = fits and near_x[{axis}, i] >= bottom[{axis}] and near_x[{axis}, i] <= top[{axis}]"
                for axis in boxed
            )
        ),
        "boxes": _Lines("\n".join(_BOX.format(i=i, axis=axis) for i, axis in enumerate(boxed))),
        "corner": _Lines("\n".join(
            f"x{j} = min(high[{j}, at[{j}]], top[{j}]) if up[slot, {j}] >= 0 else max(low[{j}, at[{j}]], bottom[{j}])"
            for j in axes
        )),
        "ends": _Lines("\n".join(ends)),
        "nothing": f"if {' or '.join(f'l{axis} > h{axis}' for axis in boxed)}:" if boxed else "if False:",
        "bounds": _Lines(scalars("\n".join(lines))),
        "low": scalars(low),
        "high": scalars(high),
    }  # fmt: skip
