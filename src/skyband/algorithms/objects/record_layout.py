"""The layout of an object's record, and the loss-free sum: shared by the loops over totals.

A record is a row of 64-bit numbers. The first one has two halves: the number of the object's rows, and the place of the
latest of them, whose recency is the object's. The second is the object's key. From FIRST on each aggregate has two;
last comes the score where that is plain. Where it is nothing but one sum, highest first, the sum is the score, and a
record has 32 bytes.

A sum is two doubles, high and low. Where these do not suffice it is *wide* (exact_sum.py): the low one is a NaN then,
whose lower bits are the number of the wide sum, and the high one the sum as it was last read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from skyband.algorithms.objects.exact_sum import WIDTH, add_wide
from skyband.compiling.jit import inlined, kernel
from skyband.compiling.state import State, field, scalar
from skyband.core.order import newer
from skyband.core.types import Floats, Ints

COUNT, LATEST = range(2)  # halves of the first number
KEY = 1
FIRST = 2  # column of the first aggregate: each has two
SUM, MAX, LAST = range(3)
AHEAD = 256  # rows whose records are read ahead
WIDE = 0x7FF8000000000000  # the bits of a NaN; added to the number of a wide sum
NUMBER = 0xFFFFFFFF  # masks that number

Kinds = npt.NDArray[np.uint16]  # streams by number
Halves = npt.NDArray[np.int32]


class Aggregate(NamedTuple):
    """An aggregate of an object's rows: its kind, a stored column, and the stream whose rows it takes."""

    kind: int
    column: int
    stream: int = 0


class Records(State):
    """Objects by code, with what the loops over their rows need of these."""

    record: Ints = field("i8[code, word]")
    values: Floats = field("f8[code, word]")  # the same memory
    halves: Halves = field("i4[code, half]")  # the same memory
    marked: npt.NDArray[np.bool_] = field("b1[marked_code]")  # touched since the last `settle`; none if plain
    touched: Ints = field("i8[note]")  # codes; of plain scores -1 - code for an object without rows
    wide: Ints = field("i8[sum, limb]")
    idle: Ints = field("i8[free]")  # the number of free wide sums, then their numbers
    kind: Kinds = field("u2[kind_place]")  # a row's stream, where there are several
    older: npt.NDArray[np.int32] = field(
        "i4[link, chain_place]"
    )  # neighbours in each chain of greatest values
    newer: npt.NDArray[np.int32] = field("i4[link, chain_place]")
    plan: Ints = field("i8[aggregate, part]")  # kind, column and stream of each aggregate
    plain: Ints = field("i8[term]")  # the sums whose sum is the score, where it is plain
    own: Ints = field("i8[stream, pair]")  # of each stream its one sum and column; -1: none
    # of the stored rows, by place
    x: Floats = field("f8[place, column]")
    cell: npt.NDArray[np.int32] = field("i4[place]")
    time: Ints = field("i8[place]")
    seq: Ints = field("i8[place]")
    # of the leaders, where the score is plain
    listed: npt.NDArray[np.bool_] = field("b1[listed_code]")
    bar: float = scalar("f8")
    sign: float = scalar("f8")
    score: int = scalar("i8")  # the column of a plain score
    count: int = scalar("i8")  # of `touched` in use
    in_order: int = scalar("i8")  # 1: rows that enter are newer than all others
    warm: int = scalar("i8")  # of no meaning: reads that go nowhere would be removed by the compiler

    def __init__(self) -> None:
        super().__init__(limb=WIDTH, free=1)

    def replace(self, record: Ints) -> None:
        """Use these records from now on."""
        self.record, self.values, self.halves = record, record.view(np.float64), record.view(np.int32)


@inlined
def add(high: float, low: float, value: float) -> tuple[float, float, float]:
    """Return high + low + value as two doubles, and the rest that did not fit (0 unless a bit falls off).

    The rest of a wide sum is NaN.
    """
    s = high + value
    t = s - high
    e = (high - (s - t)) + (value - t)
    m = low + e
    u = m - low
    rest = (low - (m - u)) + (e - u)
    h = s + m
    w = h - s
    return h, (s - (h - w)) + (m - w), rest


@kernel
def widen(g: int, at: int, value: float, sign: int, s: Records) -> None:
    """Add a value to a sum or take it away, in a wide sum, where two doubles don't suffice; one must be free."""
    if s.values[g, at + 1] == s.values[g, at + 1]:
        number = s.idle[s.idle[0]]
        s.idle[0] -= 1
        for i in range(s.wide.shape[1]):
            s.wide[number, i] = 0
        add_wide(s.wide, number, s.values[g, at], 1)
        add_wide(s.wide, number, s.values[g, at + 1], 1)
        s.record[g, at + 1] = WIDE | number
    add_wide(s.wide, s.record[g, at + 1] & NUMBER, value, sign)


@inlined
def change_sum(g: int, at: int, value: float, sign: int, s: Records) -> None:
    """Add a value to a sum or take it away; one wide sum must be free."""
    high, low, rest = add(s.values[g, at], s.values[g, at + 1], sign * value)
    if rest == 0.0 and high - high == 0.0:
        s.values[g, at], s.values[g, at + 1] = high, low
    else:
        widen(g, at, value, sign, s)


@inlined
def empty_sum(g: int, at: int, s: Records) -> None:
    """Set a sum to 0; a wide one is free again."""
    if s.values[g, at + 1] != s.values[g, at + 1]:
        s.idle[0] += 1
        s.idle[s.idle[0]] = s.record[g, at + 1] & NUMBER
    s.values[g, at] = s.values[g, at + 1] = 0.0


@inlined
def arrive(g: int, place: int, halves: Halves, s: Records) -> None:
    """Let a new row be its object's latest one, if it is."""
    if s.in_order == 0 and halves[g, COUNT] > 0 and is_newer(halves[g, LATEST], place, s):
        return
    halves[g, LATEST] = place


@inlined
def is_newer(place: int, other: int, s: Records) -> bool:
    """Whether the row at a place is newer than the one at another."""
    found: bool = newer(s.time[place], s.seq[place], s.time[other], s.seq[other])
    return found
