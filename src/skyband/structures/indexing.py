"""The loops of the query index (structures/query_index.py), some of them generated for one shape of score.

A cell names slots by a bit each, and has the few that it names in a short list of its own as well, which is what rows
look at; cells that name more are *crowded*, and their bits are walked. What depends on the score is written as text
from the expression tree and compiled once a shape: rows to the slots that their cells name, regions into the cells
that they meet by the score's bounds over each cell, scores of rows, and the search of stored rows for short lists.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from skyband.jit import Kernel, generated, kernel
from skyband.order import Floats, Ints
from skyband.query.boxes import OPERATIONS, render_bounds
from skyband.query.space import Space
from skyband.structures.memory import first_bit

SHORT = 8  # slots in a cell's own list
NAMES = 1 << 16  # slots that sixteen bits name there; cells that later ones meet are crowded
CROWDED = 255  # instead of their number: the bits tell

Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]


@kernel
def enter(slot: int, cell: int, bits: Words, named: Bytes, short: Any) -> None:
    """A cell names a slot that it didn't name before."""
    bits[cell, slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)
    n = named[cell]
    if n < SHORT and slot < NAMES:
        short[cell, n] = slot
        named[cell] = n + 1
    else:
        named[cell] = CROWDED


@kernel
def leave(slot: int, cell: int, bits: Words, named: Bytes, short: Any) -> None:
    """And no longer names it."""
    bits[cell, slot >> 6] ^= np.uint64(1) << np.uint64(slot & 63)
    n = int(named[cell])
    if n != CROWDED:
        for i in range(n):
            if short[cell, i] == slot:
                short[cell, i] = short[cell, n - 1]
        named[cell] = n - 1
        return
    zero, one = np.uint64(0), np.uint64(1)
    n = 0
    for word in range(bits.shape[1]):
        b = bits[cell, word]
        while b != zero:
            low = b ^ (b & (b - one))
            b ^= low
            other = (word << 6) + first_bit(low)
            if n == SHORT or other >= NAMES:
                return  # crowded still
            short[cell, n] = other
            n += 1
    named[cell] = n


@kernel
def withdraw(
    slot: int, begin: Ints, end: Ints, at: Ints, strides: Ints, bits: Words, named: Bytes, short: Any, box: Any
) -> None:  # fmt: skip
    """Take a slot out of the cells of its box that the new one, from `begin` to `end`, doesn't have; which is its box
    from now on."""
    axes = begin.shape[0]
    some, inside = True, True
    c = 0
    for axis in range(axes):
        at[axis] = box[slot, axis, 0]
        c += at[axis] * strides[axis]
        some &= box[slot, axis, 0] < box[slot, axis, 1]
        inside &= begin[axis] <= box[slot, axis, 0] and box[slot, axis, 1] <= end[axis]
    word, bit = slot >> 6, np.uint64(1) << np.uint64(slot & 63)
    while some and not inside:
        if bits[c, word] & bit:
            stays = True
            for axis in range(axes):
                stays &= begin[axis] <= at[axis] < end[axis]
            if not stays:
                leave(slot, c, bits, named, short)
        axis = 0
        while axis < axes:
            at[axis] += 1
            c += strides[axis]
            if at[axis] < box[slot, axis, 1]:
                break
            c -= (box[slot, axis, 1] - box[slot, axis, 0]) * strides[axis]
            at[axis] = box[slot, axis, 0]
            axis += 1
        some = axis < axes
    for axis in range(axes):
        box[slot, axis, 0], box[slot, axis, 1] = begin[axis], end[axis]


@kernel
def clear(slots: Ints, bits: Words, used: Words, named: Bytes, short: Any) -> None:
    """Take slots out of every cell."""
    for i in range(slots.shape[0]):
        word = slots[i] >> 6
        bit = np.uint64(1) << np.uint64(slots[i] & 63)
        if used[word] & bit:
            used[word] ^= bit
            for cell in range(bits.shape[0]):
                if bits[cell, word] & bit:
                    leave(slots[i], cell, bits, named, short)


@kernel
def group(
    slot: Ints, rows: Ints, value: Floats, starts: Ints, out_slot: Ints, out_rows: Ints, out_value: Floats
) -> None:
    """Sort hits by slot, keeping the order of rows."""
    for s in range(starts.shape[0]):
        starts[s] = 0
    for i in range(slot.shape[0]):
        starts[slot[i] + 1] += 1
    for s in range(1, starts.shape[0]):
        starts[s] += starts[s - 1]
    for i in range(slot.shape[0]):
        at = starts[slot[i]]
        starts[slot[i]] = at + 1
        out_slot[at] = slot[i]
        out_rows[at] = rows[i]
        out_value[at] = value[i]
    for s in range(starts.shape[0] - 1, 0, -1):
        starts[s] = starts[s - 1]
    starts[0] = 0


# -- the text: made from the expression tree, never from what a user typed ------------------------------------

_TEXT = '''"""Generated by skyband.structures.indexing: look-ups for one shape of score."""
from math import sqrt
import numpy as np
from skyband.jit import kernel
from skyband.order import first_inside
from skyband.structures.indexing import enter, leave, withdraw
from skyband.structures.memory import first_bit
from skyband.structures.spans import {operations}
from skyband.structures.visit import finish, hold

@kernel
def gather(begin, end, {columns}, origin, scale, table, edges, cells, strides, cover_low, cover_high, bits, named,
           short, used, constants, least, sign, tally, out_slot, out_row, out_value):
    one, zero = np.uint64(1), np.uint64(0)
    words = bits.shape[1]
    room = out_slot.shape[0] - 64 * words
    last = table.shape[1] - 2
    count, scored, strays = 0, 0, 0
    row = begin
    while row < end and count <= room:
        c = 0
        stray = False
{find}
        few = named[c]
        if few == 0 and not stray:
            row += 1
            continue
        if few <= {SHORT} and not stray:
            for i in range(few):
                slot = np.int64(short[c, i])
{constants}
                value = sign * ({score})
                if value >= least[slot]:
                    out_slot[count] = slot
                    out_row[count] = row
                    out_value[count] = value
                    count += 1
            scored += few
            row += 1
            continue
        for w in range(words):
            b = used[w] if stray else bits[c, w]
            while b != zero:
                low = b ^ (b & (b - one))
                b ^= low
                slot = np.uint64((w << 6) + first_bit(low))
{constants}
                value = sign * ({score})
                scored += 1
                if value >= least[slot]:
                    out_slot[count] = slot
                    out_row[count] = row
                    out_value[count] = value
                    count += 1
        if stray:
            strays += 1
        row += 1
    tally[0] += row - begin
    tally[1] += strays
    tally[2] += scored
    return row, count

@kernel
def reach(slots, bar, constants, sign, low, high, cells, strides, bits, named, short, box):
    axes = cells.shape[0]
    begin = np.empty(axes, np.int64)
    end = np.empty(axes, np.int64)
    at = np.empty(axes, np.int64)
    for i in range(slots.shape[0]):
        slot = slots[i]
        word = slot >> 6
        bit = np.uint64(1) << np.uint64(slot & 63)
{constants8}
        # the slabs that the region lies between, axis by axis: from both sides in large steps, then in small ones
        for axis in range(axes):
            begin[axis] = 0
            end[axis] = cells[axis]
        empty = False
        for axis in range(axes):
            n = cells[axis]
            step = int(sqrt(float(n)))
            first = 0
            for side in range(2):
                p, size = 0, step
                while p < n:
                    begin[axis] = p if side == 0 else max(n - p - size, 0)
                    end[axis] = min(p + size, n) if side == 0 else n - p
{ends_box}
{bounds}
                    bound = {high} if sign > 0 else -({low})
                    if not bound < bar[slot]:
                        if size == 1:
                            break
                        size = 1
                    else:
                        p += size
                        if p % step == 0:
                            size = step
                if side == 0:
                    first = p
                else:
                    begin[axis] = first
                    end[axis] = n - p
            if first >= n:
                empty = True
                break
        if empty:
            for axis in range(axes):
                begin[axis] = end[axis] = 0
        withdraw(slot, begin, end, at, strides, bits, named, short, box)
        if empty:
            continue
        # cell by cell, those along the first axis in a loop of their own: what the other axes add is worked out once
        c = 0
        for axis in range(1, axes):
            at[axis] = begin[axis]
            c += at[axis] * strides[axis]
        while True:
{ends_line}
            for first in range(begin[0], end[0]):
                l0, h0 = low[0, first], high[0, first]
{bounds_cell}
                bound = {high} if sign > 0 else -({low})
                hit = not bound < bar[slot]
                if hit != ((bits[c + first, word] & bit) != 0):
                    if hit:
                        enter(slot, c + first, bits, named, short)
                    else:
                        leave(slot, c + first, bits, named, short)
            axis = 1
            while axis < axes:
                at[axis] += 1
                c += strides[axis]
                if at[axis] < end[axis]:
                    break
                c -= (end[axis] - begin[axis]) * strides[axis]
                at[axis] = begin[axis]
                axis += 1
            if axis >= axes:
                break

@kernel
def matrix(slots, begin, end, {columns}, constants, sign, out):
    for i in range(slots.shape[0]):
        slot = slots[i]
{constants8}
        for row in range(end - begin):
{loads}
            out[i, row] = sign * ({score})

@kernel
def search(todo, keep, begin, end, {columns}, constants, sign, times, seqs, horizon_time, horizon_seq,
           held_good, held_place, good, time, seq, start, size, bar, complete, oldest_time, oldest_seq, counts):
    block = np.empty(64, np.float64)
    for i in range(todo.shape[0]):
        slot = todo[i]
        wanted = keep[slot]
        first = first_inside(times, seqs, begin, end, horizon_time[slot], horizon_seq[slot])
        found = 0
        floor = -np.inf
{constants8}
        for b in range((end - first + 63) // 64):
            base = first + b * 64
            stop = min(end - base, 64)
            hit = False
            if stop == 64:  # a number that is known compiles to better vector instructions
                for j in range(64):
                    row = base + j
{loads_search}
                    value = sign * ({score})
                    block[j] = value
                    hit |= value >= floor
            else:
                for j in range(stop):
                    row = base + j
{loads_search}
                    value = sign * ({score})
                    block[j] = value
                    hit |= value >= floor
            if not hit:
                continue
            for j in range(stop):
                if block[j] >= floor:
                    found = hold(block[j], base + j, found, wanted, held_good, held_place, times, seqs)
                    if found == wanted:
                        floor = held_good[0]
        counts[slot, 0] += end - first
        counts[slot, 1] += 1
        finish(slot, found, wanted, floor, held_good, held_place, times, seqs, good, time, seq, start, size,
               bar, complete, oldest_time, oldest_seq)
'''

# mostly a bucket has one edge at most: a comparison, and another one that mostly fails
FIND = """        x{j} = X{j}[row]
        if x{j} >= cover_low[{j}] and x{j} <= cover_high[{j}]:
            bucket = np.uint64(min(int((x{j} - origin[{j}]) * scale[{j}]), last))
            at = np.int64(table[{j}, bucket])
            if table[{j}, bucket + np.uint64(1)] - at > 4:
                high = np.int64(table[{j}, bucket + np.uint64(1)])
                while at < high:
                    middle = (at + high) >> 1
                    if x{j} >= edges[{j}, middle]:
                        at = middle + 1
                    else:
                        high = middle
            else:
                at += x{j} >= edges[{j}, np.uint64(at)]
                while x{j} >= edges[{j}, np.uint64(at)]:
                    at += 1
            c += at * strides[{j}]
        else:
            stray = True
"""


def scalars(text: str, constants: int) -> str:
    """A rendered expression with its constants as variables."""
    for i in reversed(range(constants)):
        text = text.replace(f"p[{i}]", f"p{i}")
    return text


def load_constants(constants: int, indent: int) -> str:
    """The lines that read a slot's constants."""
    return "\n".join(" " * indent + f"p{i} = constants[slot, {i}]" for i in range(constants))


class Kernels(NamedTuple):
    """What is generated for one shape of score."""

    gather: Kernel  # rows to the slots that their cells name
    reach: Kernel  # slots into the cells that their regions meet
    matrix: Kernel  # scores of rows, a line for each slot
    search: Kernel  # the best of stored rows into the slots' lists


@lru_cache(maxsize=256)
def _kernels(shape: Any, columns: tuple[str, ...], score: str, constants: int) -> Kernels:
    written = render_bounds(shape, columns)
    assert written is not None
    lines, low, high = written
    axes = range(len(columns))

    made = generated(
        _TEXT.format(
            operations=", ".join(OPERATIONS),
            columns=", ".join(f"X{j}" for j in axes),
            find="".join(FIND.format(j=j) for j in axes),
            constants=load_constants(constants, 16),
            constants8=load_constants(constants, 8),
            score=scalars(score, constants),
            ends_box="\n".join(
                f"{' ' * 20}l{j} = low[{j}, begin[{j}]]\n{' ' * 20}h{j} = high[{j}, end[{j}] - 1]" for j in axes
            ),
            ends_line="\n".join(f"{' ' * 12}l{j}, h{j} = low[{j}, at[{j}]], high[{j}, at[{j}]]" for j in axes[1:]),
            bounds="\n".join(" " * 20 + scalars(line, constants) for line in lines),
            bounds_cell="\n".join(" " * 16 + scalars(line, constants) for line in lines),
            SHORT=SHORT,
            low=scalars(low, constants),
            high=scalars(high, constants),
            loads_search="\n".join(f"                    x{j} = X{j}[row]" for j in axes),
            loads="\n".join(f"            x{j} = X{j}[begin + row]" for j in axes),
        )
    )  # fmt: skip
    return Kernels(made.gather, made.reach, made.matrix, made.search)


def kernels(space: Space, constants: int) -> Kernels:
    """The generated kernels of a space; `indexable` says whether there are any."""
    score = space.rendered
    assert score is not None
    return _kernels(space.shape, space.columns, score, constants)


def indexable(space: Space) -> bool:
    """Whether rows of this space can be looked up: a score over at least one column that compiles."""
    return bool(space.columns) and not space.boxed and space.rendered is not None
