"""Wide sums: any finite doubles, added and taken away again, without losing a bit.

A running sum in floating point drifts: adding a value and later taking it away does not restore the sum exactly. Two
doubles (high and low part, see aggregates.py) hold most sums exactly. Where a bit would fall off, the sum moves into a
*wide* one: a fixed-point number that spans every finite double, in limbs of 32 bits. Adding a double changes three
limbs; carries stay in the upper half of each limb until the sum is read. Infinities are counted separately, so an
infinity that leaves the window leaves nothing behind.

Reading rounds once, half to even, as math.fsum does for the same values. A wide sum takes 71 numbers, so only the sums
that need it are wide.
"""

from __future__ import annotations

import math

import numpy as np

from skyband.compiling.jit import kernel
from skyband.core.types import Ints

LIMBS = 69  # 2098 bits of finite doubles, and room for the carries of 2^40 of them
PLUS, MINUS = LIMBS, LIMBS + 1  # counts of infinities
WIDTH = LIMBS + 2
_LOWEST = 1074  # a limb 0 of 1 is 2^-1074, the least double


@kernel
def add_wide(sums: Ints, at: int, value: float, sign: int) -> None:
    """Add a value that is not NaN (sign 1), or take it away (sign -1)."""
    if math.isinf(value):
        sums[at, PLUS if value > 0 else MINUS] += sign
        return
    if value < 0.0:
        value, sign = -value, -sign
    fraction, exponent = math.frexp(value)
    whole = np.int64(fraction * 9007199254740992.0)  # 2^53: the fraction's bits as a whole number
    place = exponent - 53 + _LOWEST
    if place < 0:  # a number below the least normal one has fewer bits
        whole >>= -place
        place = 0
    limb, shift = place >> 5, place & 31
    low = (whole & 0xFFFFFFFF) << shift
    high = (whole >> 32) << shift
    sums[at, limb] += sign * (low & 0xFFFFFFFF)
    sums[at, limb + 1] += sign * ((low >> 32) + (high & 0xFFFFFFFF))
    sums[at, limb + 2] += sign * (high >> 32)


@kernel
def _carry(sums: Ints, at: int) -> None:
    """Bring every limb but the last into [0, 2^32)."""
    for i in range(LIMBS - 1):
        sums[at, i + 1] += sums[at, i] >> 32
        sums[at, i] &= 0xFFFFFFFF


@kernel
def read_wide(sums: Ints, at: int) -> float:
    """Return the sum, rounded once; an infinity if it contains some of one sign, NaN if of both."""
    if sums[at, PLUS] > 0 or sums[at, MINUS] > 0:
        return (
            np.nan
            if sums[at, PLUS] > 0 and sums[at, MINUS] > 0
            else np.inf
            if sums[at, PLUS] > 0
            else -np.inf
        )
    _carry(sums, at)
    negative = sums[at, LIMBS - 1] < 0
    if negative:  # negate, read the magnitude, negate back
        for i in range(LIMBS):
            sums[at, i] = -sums[at, i]
        _carry(sums, at)
    found: float = _magnitude(sums, at)
    if negative:
        for i in range(LIMBS):
            sums[at, i] = -sums[at, i]
        _carry(sums, at)
        return -found
    return found


@kernel
def _magnitude(sums: Ints, at: int) -> float:
    top = LIMBS - 1
    while top >= 0 and sums[at, top] == 0:
        top -= 1
    if top < 0:
        return 0.0
    length = 0
    while length < 62 and sums[at, top] >> length:
        length += 1
    length += 32 * top  # bits in all
    drop = max(0, length - 53)  # bits that don't fit
    whole = np.int64(0)
    for bit in range(length - 1, drop - 1, -1):
        whole = (whole << 1) | ((sums[at, min(bit >> 5, top)] >> (bit - 32 * min(bit >> 5, top))) & 1)
    if drop > 0:
        half = (sums[at, min((drop - 1) >> 5, top)] >> (drop - 1 - 32 * min((drop - 1) >> 5, top))) & 1
        rest = False
        for i in range(((drop - 1) >> 5) + 1):
            mask = 0xFFFFFFFF if 32 * (i + 1) <= drop - 1 else (1 << max(0, drop - 1 - 32 * i)) - 1
            rest |= sums[at, i] & mask != 0
        if half == 1 and (rest or whole & 1 == 1):
            whole += 1
    return math.ldexp(float(whole), drop - _LOWEST)
