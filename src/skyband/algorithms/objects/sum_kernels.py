"""Sums with their scores: the loops over rows where a score is only a sum of sums.

Each row that enters or leaves changes its object's sums and at once its score; an object that reaches the threshold is
noted at once, without a second pass. Three loops do the same: one for rows that are in a single sum, one for any number
of sums, and one for wide sums. The first two stop at a wide sum: a call in such a loop, even one that never runs, would
make it three times as slow.

An object without rows has NaN as its score; its sums are set to 0 when its next row comes.
"""

from __future__ import annotations

import numpy as np

from skyband.algorithms.kernels.row_slots import Places
from skyband.algorithms.objects.exact_sum import read_wide
from skyband.algorithms.objects.record_layout import (
    AHEAD,
    COUNT,
    FIRST,
    LATEST,
    NUMBER,
    Records,
    add,
    arrive,
    change_sum,
    empty_sum,
)
from skyband.compiling.jit import inlined, kernel
from skyband.core.types import Floats, Ints


@inlined
def read_ahead(begin: int, places: Places, s: Records) -> int:
    """Read the records of the next rows: independent reads overlap. Return how far that is."""
    record, cell = s.record, s.cell
    end: int = min(begin + AHEAD, places.shape[0])
    seen, far = 0, record.shape[1] - 1
    if far < 4:
        for i in range(begin, end):
            seen ^= record[cell[places[i]], 0]
    else:
        for i in range(begin, end):
            seen ^= record[cell[places[i]], 0] ^ record[cell[places[i]], far]
    s.warm = seen
    return end


@inlined
def is_wide(g: int, sums: int, values: Floats) -> bool:
    """Whether one of an object's sums is wide."""
    found = False
    for a in range(sums):
        found |= values[g, FIRST + 2 * a + 1] != values[g, FIRST + 2 * a + 1]
    return found


@inlined
def begin_sums(g: int, sums: int, values: Floats) -> None:
    """Set the sums of an object without rows to 0."""
    for i in range(2 * sums):
        values[g, FIRST + i] = 0.0


@inlined
def note(g: int, plain: Ints, sign: float, values: Floats, s: Records) -> None:
    """Add up the score of an object; note it where it reaches the threshold."""
    score = values[g, FIRST + 2 * plain[0]]
    for i in range(1, plain.shape[0]):
        score += values[g, FIRST + 2 * plain[i]]
    score = score + 0.0 if sign > 0 else 0.0 - score
    values[g, s.score] = score
    if score >= s.bar and not s.listed[g]:
        s.listed[g] = True
        s.touched[s.count] = g
        s.count += 1


@inlined
def note_gone(g: int, s: Records) -> None:
    """Note an object without rows."""
    s.values[g, s.score] = np.nan
    s.touched[s.count] = -1 - g
    s.count += 1


@kernel
def change(begin: int, way: int, places: Places, s: Records) -> int:
    """Add (way 1) or take away (-1) rows, where all aggregates are sums and the score is the sum of some of them.

    Stops at a row whose object has or needs a wide sum; returns where.
    """
    # kept in registers: stores to records might change the state itself, for all that the compiler knows
    halves, values, cell, x, kind, plan = s.halves, s.values, s.cell, s.x, s.kind, s.plan
    plain, sign = s.plain, s.sign
    ahead, sums = begin, s.plan.shape[0]
    end: int = places.shape[0]
    for p in range(begin, end):
        if p == ahead:
            ahead = read_ahead(p, places, s)
        place = places[p]
        g = cell[place]
        stream = kind[place] if kind.shape[0] > 0 else 0
        if way < 0 and halves[g, COUNT] == 1:
            if is_wide(g, sums, values):
                return p
            halves[g, COUNT] = 0
            note_gone(g, s)
            continue
        if halves[g, COUNT] == 0:
            begin_sums(g, sums, values)
        fits = True
        for a in range(sums):
            if plan[a, 2] == stream:
                at = FIRST + 2 * a
                high, low, rest = add(values[g, at], values[g, at + 1], way * x[place, plan[a, 1]])
                fits &= rest == 0.0 and high - high == 0.0
        if not fits:
            return p
        if way > 0:
            arrive(g, place, halves, s)
        halves[g, COUNT] += way
        for a in range(sums):
            if plan[a, 2] == stream:
                at = FIRST + 2 * a
                high, low, rest = add(values[g, at], values[g, at + 1], way * x[place, plan[a, 1]])
                values[g, at], values[g, at + 1] = high, low
        note(g, plain, sign, values, s)
    return end


@kernel
def change_one(begin: int, way: int, places: Places, s: Records) -> int:
    """As `change`, where a row is in one sum only: the most common query, without the inner loops."""
    # kept in registers: stores to records might change the state itself, for all that the compiler knows
    halves, values, cell, x, kind, own = s.halves, s.values, s.cell, s.x, s.kind, s.own
    plain, sign = s.plain, s.sign
    ahead, sums = begin, s.plan.shape[0]
    end: int = places.shape[0]
    several, stream, a, column = kind.shape[0] > 0, 0, own[0, 0], own[0, 1]
    for p in range(begin, end):
        if p == ahead:
            ahead = read_ahead(p, places, s)
        place = places[p]
        g = cell[place]
        if several:
            stream = kind[place]
            a = -1
            if stream < own.shape[0]:  # else a stream that no aggregate reads
                a, column = own[stream, 0], own[stream, 1]
        if way < 0 and halves[g, COUNT] == 1:
            if is_wide(g, sums, values):
                return p
            halves[g, COUNT] = 0
            note_gone(g, s)
            continue
        if halves[g, COUNT] == 0:
            begin_sums(g, sums, values)
        if a >= 0:
            at = FIRST + 2 * a
            high, low, rest = add(values[g, at], values[g, at + 1], way * x[place, column])
            if rest != 0.0 or high - high != 0.0:
                return p
            values[g, at], values[g, at + 1] = high, low
        if way > 0:
            arrive(g, place, halves, s)
        halves[g, COUNT] += way
        note(g, plain, sign, values, s)
    return end


@kernel
def change_wide(begin: int, end: int, way: int, places: Places, s: Records) -> int:
    """As `change` for rows before `end`, with sums of any kind; stops where wide sums may run out."""
    sums = s.plan.shape[0]
    for p in range(begin, end):
        if s.idle[0] < sums:
            return p
        place = places[p]
        g = s.cell[place]
        stream = s.kind[place] if s.kind.shape[0] > 0 else 0
        if s.halves[g, COUNT] == 0:
            begin_sums(g, sums, s.values)
        if way > 0:
            arrive(g, place, s.halves, s)
        s.halves[g, COUNT] += way
        if s.halves[g, COUNT] == 0:
            for a in range(sums):
                empty_sum(g, FIRST + 2 * a, s)
            note_gone(g, s)
            continue
        for a in range(sums):
            at = FIRST + 2 * a
            if s.plan[a, 2] == stream:
                change_sum(g, at, s.x[place, s.plan[a, 1]], way, s)
            if s.values[g, at + 1] != s.values[g, at + 1]:
                s.values[g, at] = read_wide(s.wide, s.record[g, at + 1] & NUMBER)
        note(g, s.plain, s.sign, s.values, s)
    return end


@kernel
def parted(s: Records, came: Ints, dead: Ints) -> tuple[int, int]:
    """Split the notes into objects that reached the threshold and objects without rows, each once."""
    up, gone = 0, 0
    for i in range(s.count):
        if s.touched[i] >= 0:
            came[up] = s.touched[i]
            up += 1
        else:
            g = -1 - s.touched[i]
            if s.halves[g, COUNT] == 0 and s.halves[g, LATEST] >= 0:
                s.halves[g, LATEST] = -1
                dead[gone] = g
                gone += 1
    s.count = 0
    return up, gone
