"""Interval arithmetic on single numbers, for generated kernels: the operations of `query.boxes`, for one box.

What `query.boxes.render_bounds` writes calls these. They are the same operations with the same care for infinities,
and give the same bits; why they are right is said there.
"""

import numpy as np

from skyband.compiling.jit import kernel


@kernel
def span_add(a: float, b: float, c: float, d: float) -> tuple[float, float]:
    low, high = a + c, b + d
    if low != low:
        low = -np.inf
    if high != high:
        high = np.inf
    return low, high


@kernel
def span_subtract(a: float, b: float, c: float, d: float) -> tuple[float, float]:
    low, high = a - d, b - c
    if low != low:
        low = -np.inf
    if high != high:
        high = np.inf
    return low, high


@kernel
def span_multiply(a: float, b: float, c: float, d: float) -> tuple[float, float]:
    ac, ad, bc, bd = a * c, a * d, b * c, b * d
    ac = 0.0 if ac != ac else ac
    ad = 0.0 if ad != ad else ad
    bc = 0.0 if bc != bc else bc
    bd = 0.0 if bd != bd else bd
    return min(min(ac, ad), min(bc, bd)), max(max(ac, ad), max(bc, bd))


@kernel
def span_divide(a: float, b: float, c: float, d: float) -> tuple[float, float]:
    if c <= 0.0 <= d:
        return -np.inf, np.inf
    low, high = np.inf, -np.inf
    for x in (a, b):
        for y in (c, d):
            quotient = x / y
            if quotient != quotient:
                limit = np.inf if (x > 0.0) == (y > 0.0) else -np.inf
                low, high = min(low, min(limit, 0.0)), max(high, max(limit, 0.0))
            else:
                low, high = min(low, quotient), max(high, quotient)
    return low, high


@kernel
def span_square(a: float, b: float) -> tuple[float, float]:
    low, high = a * a, b * b
    if low > high:
        low, high = high, low
    if a <= 0.0 <= b:
        low = 0.0
    return low, high


@kernel
def span_root(a: float, b: float) -> tuple[float, float]:
    if b < 0.0:
        return -np.inf, np.inf
    return np.sqrt(max(a, 0.0)), np.sqrt(b)


@kernel
def span_absolute(a: float, b: float) -> tuple[float, float]:
    low, high = abs(a), abs(b)
    if low > high:
        low, high = high, low
    if a <= 0.0 <= b:
        low = 0.0
    return low, high
