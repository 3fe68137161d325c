"""The layout of an object's record, and the loss-free sum: shared by the loops over totals.

A record is a row of 64-bit numbers: the number of an object's rows, the recency of the latest of them, flags, the
score where that is plain, the object's key, and from FIRST on two numbers for each aggregate. With one sum a record
fills a cache line.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from skyband.algorithms.objects.exact_sum import add_wide
from skyband.compiling.jit import inlined, kernel
from skyband.core.types import Floats, Ints

COUNT, TIME, SEQ, FLAGS, SCORE, KEY = range(6)
FIRST = 6  # column of the first aggregate: each has two
TOUCHED = 1
WIDE = 256  # flag of the first sum that is wide; twice that for the second, and so on
MOST_SUMS = 48  # sums with a flag; further ones are wide from their first row on
LAST_WIDE = WIDE << (MOST_SUMS - 1)
SUM, MAX, LAST = range(3)
AHEAD = 256  # rows whose records are read ahead

Kinds = npt.NDArray[np.uint16]  # streams by number


class Aggregate(NamedTuple):
    """An aggregate of an object's rows: its kind, a stored column, and the stream whose rows it takes."""

    kind: int
    column: int
    stream: int = 0


def lines(rows: int, width: int) -> Ints:
    """Return records of zeros whose memory begins at a cache line."""
    room = np.zeros(rows * width + 8, dtype=np.int64)
    skip = (-room.ctypes.data % 64) // 8
    return room[skip : skip + rows * width].reshape(rows, width)


@inlined
def add(high: float, low: float, value: float) -> tuple[float, float, float]:
    """Return high + low + value as two doubles, and the rest that did not fit (0 unless a bit falls off)."""
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
    """Return the flag of the next sum; 0 where there are no more flags."""
    return bit << 1 if bit < LAST_WIDE else 0


@kernel
def widen(
    g: int, a: int, bit: int, value: float, sign: int, record: Ints, values: Floats, wide: Ints, idle: Ints
) -> None:
    """Add a value to a sum or take it away, in a wide sum, where two doubles don't suffice; one must be free."""
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
    """Add a value to a sum or take it away; one wide sum must be free."""
    at = FIRST + 2 * a
    high, low, rest = add(values[g, at], values[g, at + 1], sign * value)
    if bit != 0 and rest == 0.0 and high - high == 0.0 and not record[g, FLAGS] & bit:
        values[g, at], values[g, at + 1] = high, low
    else:
        widen(g, a, bit, value, sign, record, values, wide, idle)


@inlined
def arrive(g: int, place: int, time: Ints, seq: Ints, record: Ints) -> None:
    """Raise the recency of an object's latest row to that of a new row."""
    if (
        record[g, COUNT] == 0
        or time[place] > record[g, TIME]
        or (time[place] == record[g, TIME] and seq[place] > record[g, SEQ])
    ):
        record[g, TIME], record[g, SEQ] = time[place], seq[place]
