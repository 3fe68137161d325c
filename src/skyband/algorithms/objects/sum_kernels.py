"""Sums with their scores: the loops over rows where a score is only a sum of sums.

Each row that enters or leaves changes its object's sums and at once its score; an object that reaches the threshold is
noted at once, without a second pass. Three loops do the same: one for rows that are in a single sum, one for any number
of sums, and one for wide sums. The first two stop at a wide sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.algorithms.kernels.row_slots import Places
from skyband.algorithms.objects.exact_sum import read_wide
from skyband.algorithms.objects.record_layout import (
    AHEAD,
    COUNT,
    FIRST,
    FLAGS,
    SCORE,
    TOUCHED,
    WIDE,
    Kinds,
    add,
    arrive,
    change_sum,
)
from skyband.compiling.jit import kernel
from skyband.core.types import Floats, Ints


@kernel
def change(
    begin: int, way: int, places: Places, code: Places, x: Floats, time: Ints, seq: Ints, kind: Kinds, plan: Ints,
    plain: Ints, sign: float, bar: float, record: Ints, values: Floats, wide: Ints, idle: Ints, listed: Any,
    touched: Ints, warm: Ints, count: int,
) -> tuple[int, int]:  # fmt: skip
    """Add (way 1) or take away (-1) rows, where all aggregates are sums and the score is the sum of some of them.

    Notes the objects that reach the threshold and, as -1 - code, those without rows. Stops at a row whose object has or
    needs a wide sum: a call in this loop, even one that never runs, would make it three times as slow.
    """
    ahead = begin
    far = record.shape[1] - 1
    for p in range(begin, places.shape[0]):
        if p == ahead:
            ahead = min(p + AHEAD, places.shape[0])
            seen = 0
            for i in range(p, ahead):
                seen ^= record[code[places[i]], COUNT] ^ record[code[places[i]], far]
            warm[0] = seen
        place = places[p]
        g = code[place]
        stream = kind[place] if kind.shape[0] > 0 else 0
        alone = way < 0 and record[g, COUNT] == 1
        fits = record[g, FLAGS] == 0
        for a in range(plan.shape[0]):
            if plan[a, 2] == stream and not alone:
                at = FIRST + 2 * a
                high, low, rest = add(values[g, at], values[g, at + 1], way * x[place, plan[a, 1]])
                fits &= rest == 0.0 and high - high == 0.0
        if not fits:
            return p, count
        if way > 0:
            arrive(g, place, time, seq, record)
        record[g, COUNT] += way
        if alone:
            for a in range(plan.shape[0]):
                values[g, FIRST + 2 * a] = values[g, FIRST + 2 * a + 1] = 0.0
            values[g, SCORE] = np.nan
            touched[count] = -1 - g
            count += 1
            continue
        for a in range(plan.shape[0]):
            if plan[a, 2] == stream:
                at = FIRST + 2 * a
                high, low, rest = add(values[g, at], values[g, at + 1], way * x[place, plan[a, 1]])
                values[g, at], values[g, at + 1] = high, low
        score = values[g, FIRST + 2 * plain[0]]
        for i in range(1, plain.shape[0]):
            score += values[g, FIRST + 2 * plain[i]]
        score = score + 0.0 if sign > 0 else 0.0 - score
        values[g, SCORE] = score
        if score >= bar and not listed[g]:
            listed[g] = True
            touched[count] = g
            count += 1
    return places.shape[0], count


@kernel
def change_one(
    begin: int, way: int, places: Places, code: Places, x: Floats, time: Ints, seq: Ints, kind: Kinds, own: Ints,
    plain: Ints, sign: float, bar: float, record: Ints, values: Floats, listed: Any, touched: Ints, warm: Ints,
    count: int,
) -> tuple[int, int]:  # fmt: skip
    """As `change`, where a row is in one sum only: the most common query, without the inner loops.

    own: for each stream its sum and the column that it sums; -1 where it has none.
    """
    ahead = begin
    several, sums, far = kind.shape[0] > 0, plain.shape[0], record.shape[1] - 1
    stream, a, column = 0, own[0, 0], own[0, 1]
    for p in range(begin, places.shape[0]):
        if p == ahead:
            # independent reads overlap; their combination is stored, or the compiler would remove them
            ahead = min(p + AHEAD, places.shape[0])
            seen = 0
            if far < 8:
                for i in range(p, ahead):
                    seen ^= record[code[places[i]], COUNT]
            else:
                for i in range(p, ahead):
                    seen ^= record[code[places[i]], COUNT] ^ record[code[places[i]], far]
            warm[0] = seen
        place = places[p]
        g = code[place]
        if several:
            stream = kind[place]
            a = -1
            if stream < own.shape[0]:  # else a stream that no aggregate reads
                a, column = own[stream, 0], own[stream, 1]
        if record[g, FLAGS] != 0:
            return p, count
        if way < 0 and record[g, COUNT] == 1:
            record[g, COUNT] = 0
            for i in range(FIRST, record.shape[1]):
                record[g, i] = 0
            values[g, SCORE] = np.nan
            touched[count] = -1 - g
            count += 1
            continue
        if a >= 0:
            at = FIRST + 2 * a
            high, low, rest = add(values[g, at], values[g, at + 1], way * x[place, column])
            if rest != 0.0 or high - high != 0.0:
                return p, count
            values[g, at], values[g, at + 1] = high, low
        if way > 0:
            arrive(g, place, time, seq, record)
        record[g, COUNT] += way
        score = values[g, FIRST + 2 * plain[0]]
        for i in range(1, sums):
            score += values[g, FIRST + 2 * plain[i]]
        score = score + 0.0 if sign > 0 else 0.0 - score
        values[g, SCORE] = score
        if score >= bar and not listed[g]:
            listed[g] = True
            touched[count] = g
            count += 1
    return places.shape[0], count


@kernel
def change_wide(
    begin: int, end: int, way: int, places: Places, code: Places, x: Floats, time: Ints, seq: Ints, kind: Kinds,
    plan: Ints, plain: Ints, sign: float, bar: float, record: Ints, values: Floats, wide: Ints, idle: Ints, listed: Any,
    touched: Ints, warm: Ints, count: int,
) -> tuple[int, int]:  # fmt: skip
    """As `change` for rows before `end`, with sums of any kind; stops where wide sums may run out."""
    for p in range(begin, end):
        if idle[0] < plan.shape[0]:
            return p, count
        place = places[p]
        g = code[place]
        stream = kind[place] if kind.shape[0] > 0 else 0
        if way > 0:
            arrive(g, place, time, seq, record)
        record[g, COUNT] += way
        gone = record[g, COUNT] == 0
        bit = WIDE
        for a in range(plan.shape[0]):
            if gone:
                if record[g, FLAGS] & bit:
                    idle[0] += 1
                    idle[idle[0]] = record[g, FIRST + 2 * a + 1]
                values[g, FIRST + 2 * a] = values[g, FIRST + 2 * a + 1] = 0.0
            elif plan[a, 2] == stream:
                change_sum(g, a, bit, x[place, plan[a, 1]], way, record, values, wide, idle)
            bit <<= 1
        if gone:
            record[g, FLAGS] = 0
            values[g, SCORE] = np.nan
            touched[count] = -1 - g
            count += 1
            continue
        score = 0.0
        for i in range(plain.shape[0]):
            at = FIRST + 2 * plain[i]
            if record[g, FLAGS] & (WIDE << plain[i]):
                values[g, at] = read_wide(wide, record[g, at + 1])
            score = values[g, at] if i == 0 else score + values[g, at]
        score = score + 0.0 if sign > 0 else 0.0 - score
        values[g, SCORE] = score
        if score >= bar and not listed[g]:
            listed[g] = True
            touched[count] = g
            count += 1
    return end, count


@kernel
def parted(noted: Ints, record: Ints, came: Ints, dead: Ints) -> tuple[int, int]:
    """Split the notes into objects that reached the threshold and objects without rows, each once."""
    up, gone = 0, 0
    for i in range(noted.shape[0]):
        if noted[i] >= 0:
            came[up] = noted[i]
            up += 1
        else:
            g = -1 - noted[i]
            if record[g, COUNT] == 0 and record[g, FLAGS] == 0:
                record[g, FLAGS] = TOUCHED
                dead[gone] = g
                gone += 1
    for i in range(gone):
        record[dead[i], FLAGS] = 0
    return up, gone
