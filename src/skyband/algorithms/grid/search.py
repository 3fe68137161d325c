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

**To write an algorithm on it**, see base.py: bring a kernel `arrive(slot, good, time, seq, bars, ranked)` that inserts
a row at least as good as `bar[slot]` into the slot's list and returns 0, or 1 for "no room: make some, and offer it
again". The generated `offer` calls it. A search writes the `keep[slot]` best rows into the slot's ranked list, best
last, sets `bar[slot]` to the worst of them and `complete[slot]` to 0. Where there are fewer rows, it sets `bar` to -inf
and `complete` to 1: the list then holds every row that there is, and the slot is in every cell.

The text is generated from the tree by `render` and `render_bounds`, never from user input.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from skyband.algorithms.grid.cells import Grid
from skyband.algorithms.kernels.best_rows import Found
from skyband.algorithms.kernels.row_slots import Places, Rows
from skyband.compiling.jit import Kernel, generated, kernel
from skyband.compiling.state import field, scalar
from skyband.core.types import Floats, Ints
from skyband.query.expression.box_bounds import OPERATIONS, render_bounds
from skyband.query.expression.score_space import Space

VISITED, RECOMPUTED, SCORED, ADMITTED = range(4)
COUNTERS = ("cells visited", "recomputations", "rows scored", "admitted")
"""The counters of every algorithm on a grid, in the order of their columns; an algorithm's own ones follow."""
NEAR = 16_384  # the most rows that a search copies side by side
ROW = 4  # arguments of `arrive` that are the row's; states follow


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


class Search(Found):
    """Scratch memory of searches: the best rows found, and rows side by side."""

    at: Ints = field("i8[axis]")
    begin: Ints = field("i8[axis]")
    end: Ints = field("i8[axis]")
    bottom: Floats = field("f8[axis]")
    top: Floats = field("f8[axis]")
    near_x: Floats = field("f8[axis, near]")
    near_good: Floats = field("f8[near]")
    near_place: Places = field("i4[near]")
    near_in: Ints = field("i8[cell]")  # the turn in which a cell's rows were copied, and where they are
    near_begin: Places = field("i4[cell]")
    near_end: Places = field("i4[cell]")
    turn: int = scalar("i8")
    taken: int = scalar("i8")  # places of `near` that are taken

    def provide(self, grid: Grid, ranks: int) -> None:
        """Make room for a search of a grid that finds so many rows."""
        rows = len(grid.rows)
        near = min(NEAR, 2 * rows + 1) if len(self.near_place) < min(NEAR, rows) else 1
        self.grow(rank=ranks, cell=grid.total, near=near)


@kernel
def collect(c: int, place: int, rows: Rows, grid: Grid, search: Search) -> tuple[int, int, int]:
    """Copy rows of a cell's chain, from a place on, side by side; return where they begin and end, and the next place.

    A cell whose rows are all there is marked for the rest of the turn: queries that are searched for together visit the
    same cells, and a chain's rows are far apart in memory."""
    x, following, near_x, near_place = rows.x, rows.next, search.near_x, search.near_place
    room = near_place.shape[0]
    whole = place == grid.first[c]
    if 2 * search.taken > room:  # there may be no room for a cell of usual size: start again
        search.turn += 1
        search.taken = 0
    begin = search.taken
    at = begin
    while place >= 0 and at < room:
        near_place[at] = place
        for axis in range(x.shape[1]):
            near_x[axis, at] = x[place, axis]
        place = following[place]
        at += 1
    search.taken = at
    if whole and place < 0:
        search.near_in[c] = search.turn
        search.near_begin[c] = begin
        search.near_end[c] = at
    return begin, at, place


@kernel
def retreat(waiting: int, slot: int, up: Any, grid: Grid, search: Search) -> None:
    """Remove the slot from influence lists beyond the frontier, which it no longer needs."""
    heap, stamp, bits, count, age = grid.heap_cell, grid.stamp, grid.bits, grid.count, grid.age
    cells, strides, begin, end = grid.cells, grid.strides, search.begin, search.end
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
from skyband.algorithms.grid.search import collect, halve, pop_cell, push_cell, retreat
from skyband.algorithms.kernels.best_rows import finish, hold
"""

_OFFER = """
from {module} import {hook} as arrive

@kernel
def offer(first, first_slot, places, count, rows, grid, {states}):
    x, time, seq, cell, bits, used = rows.x, rows.time, rows.seq, rows.cell, grid.bits, grid.used
    bar, constants, counts, limit_low, limit_high = bars.bar, bars.constants, bars.counts, bars.low, bars.high
    horizon_time, horizon_seq = bars.horizon_time, bars.horizon_seq
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
                if arrive(slot, value, when, number, {states}):
                    return i, slot
    return places.shape[0], 0
"""

_BEGIN = """
    x, time, seq, first = rows.x, rows.time, rows.seq, grid.first
    bits, count, cells, strides = grid.bits, grid.count, grid.cells, grid.strides
    origin, scale, low, high, keys, heap = grid.origin, grid.scale, grid.low, grid.high, grid.heap_key, grid.heap_cell
    constants, counts, limit_low, limit_high = bars.constants, bars.counts, bars.low, bars.high
    held_good, held_place, at, begin, end = search.good, search.place, search.at, search.begin, search.end
    bottom, top = search.bottom, search.top
    near_x, near_good, near_place = search.near_x, search.near_good, search.near_place
    search.turn += 1
    search.taken = 0
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
        since, since_seq = bars.horizon_time[slot], bars.horizon_seq[slot]
        floor = -np.inf if scan else bars.bar[slot]
        found, visited, scored = 0, 0, 0
{constants:8}
        empty = False
{boxes:8}
"""

# How both searches process the rows of a cell `c`: by pieces, which lie side by side.
_SCAN = """
                low_end, high_end, rest = 0, 0, first[c]
                if search.near_in[c] == search.turn:
                    low_end, high_end, rest = search.near_begin[c], search.near_end[c], -1
                while low_end < high_end or rest >= 0:
                    if low_end == high_end:
                        low_end, high_end, rest = collect(c, rest, rows, grid, search)
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
            finish(slot, found, wanted, floor, search, time, seq, bars, ranked)
"""

_WALK = (
    """
@kernel
def walk(todo, keep, scan, up, rows, grid, bars, ranked, search):
    stamp = grid.stamp
"""
    + _BEGIN
    + """
        word = slot >> 6
        bit = one << np.uint64(slot & 63)
        grid.age += 1
        age = grid.age
        waiting = 0
        c = 0
        for axis in range(axes):
            at[axis] = end[axis] if up[slot, axis] >= 0 else begin[axis]
            c += at[axis] * strides[axis]
        if empty:
            clear_slot(slot, grid)
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
        retreat(waiting, slot, up, grid, search)
"""
    + _FINISH
)

_DESCEND = (
    """
@kernel
def descend(todo, keep, scan, sign, seen, rows, grid, bars, ranked, search):
    nodes = grid.nodes
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
        adopt(slot, seen, grid)
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
    """The generated kernels of one space; `arrive` is the algorithm's own."""

    def __init__(self, space: Space, constants: int, arrive: Kernel) -> None:
        score = space.rendered
        if score is None:
            raise ValueError("This score can't be written as generated code; evaluate it.")
        words = _words(space, constants, score)
        head = _HEAD.format(operations=", ".join(OPERATIONS))
        hook = arrive.function
        states = ", ".join(arrive.arguments[ROW:])
        self._offer = head + _OFFER.format(**words, module=hook.__module__, hook=hook.__name__, states=states)
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
