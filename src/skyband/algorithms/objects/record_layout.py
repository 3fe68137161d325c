"""The records of objects, and the sum that loses nothing: what the loops over totals have in common.

A record is a row of numbers of 64 bits: how many rows an object has, the recency of the latest of them, flags, the
score where that is plain, its key, and from FIRST on two numbers for each aggregate. One sum fills a line of the cache.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from skyband.algorithms.objects.exact_sum import add_wide
from skyband.compiling.jit import inlined, kernel
from skyband.core.types import Floats, Ints

COUNT, TIME, SEQ, FLAGS, SCORE, KEY = range(6)
FIRST = 6  # of the aggregates: each has two numbers
TOUCHED = 1
WIDE = 256  # and twice that for the second sum, and so on
MOST_SUMS = 48  # that have a flag; further ones are wide from their first row on
LAST_WIDE = WIDE << (MOST_SUMS - 1)
SUM, MAX, LAST = range(3)
AHEAD = 256  # rows whose records are touched before they are needed

Kinds = npt.NDArray[np.uint16]  # streams by number


class Aggregate(NamedTuple):
    """What is computed of an object's rows: over one of the stored columns, of the rows of one stream."""

    kind: int
    column: int
    stream: int = 0


def lines(rows: int, width: int) -> Ints:
    """Records of zeros that begin where a line of the cache does."""
    room = np.zeros(rows * width + 8, dtype=np.int64)
    skip = (-room.ctypes.data % 64) // 8
    return room[skip : skip + rows * width].reshape(rows, width)


@inlined
def add(high: float, low: float, value: float) -> tuple[float, float, float]:
    """high + low + value as two doubles, and what did not fit into them (0 unless a bit falls off)."""
    s = high + value
    t = s - high
    e = (high - (s - t)) + (value - t)
    m = low + e
    u = m - low
    rest = (low - (m - u)) + (e - u)
    h = s + m
    w = h - s
    return h, (s - (h - w)) + (m - w), rest


@inlined
def next_bit(bit: int) -> int:
    """The flag of the sum after this one's; 0 where there are no more."""
    return bit << 1 if bit < LAST_WIDE else 0


@kernel
def widen(
    g: int, a: int, bit: int, value: float, sign: int, record: Ints, values: Floats, wide: Ints, idle: Ints
) -> None:
    """Add a value to a sum or take it away where two doubles don't do; there is a wide sum to be had."""
    at = FIRST + 2 * a
    if bit == 0:
        if record[g, at + 1] == 0:
            slot = idle[idle[0]]
            idle[0] -= 1
            for i in range(wide.shape[1]):
                wide[slot, i] = 0
            record[g, at + 1] = slot + 1
        add_wide(wide, record[g, at + 1] - 1, value, sign)
        return
    if not record[g, FLAGS] & bit:
        slot = idle[idle[0]]
        idle[0] -= 1
        for i in range(wide.shape[1]):
            wide[slot, i] = 0
        add_wide(wide, slot, values[g, at], 1)
        add_wide(wide, slot, values[g, at + 1], 1)
        record[g, at + 1] = slot
        record[g, FLAGS] |= bit
    add_wide(wide, record[g, at + 1], value, sign)


@inlined
def change_sum(
    g: int, a: int, bit: int, value: float, sign: int, record: Ints, values: Floats, wide: Ints, idle: Ints
) -> None:
    """Add a value to a sum or take it away; there is a wide sum to be had."""
    at = FIRST + 2 * a
    high, low, rest = add(values[g, at], values[g, at + 1], sign * value)
    if bit != 0 and rest == 0.0 and high - high == 0.0 and not record[g, FLAGS] & bit:
        values[g, at], values[g, at + 1] = high, low
    else:
        widen(g, a, bit, value, sign, record, values, wide, idle)


@inlined
def arrive(g: int, place: int, time: Ints, seq: Ints, record: Ints) -> None:
    """A row comes to an object: it may be its latest."""
    if (
        record[g, COUNT] == 0
        or time[place] > record[g, TIME]
        or (time[place] == record[g, TIME] and seq[place] > record[g, SEQ])
    ):
        record[g, TIME], record[g, SEQ] = time[place], seq[place]
