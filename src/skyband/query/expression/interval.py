"""The range of a score over a box, by interval arithmetic.

`bound` guarantees the values that `evaluate` computes, with their rounding: for every point of the box the value is
inside the range, or is NaN. Rounding is monotone, so for + - * / and roots the ends of the intervals, computed in the
same float64, are right; they are moved outward by one float all the same. The ends of exp, ln and powers, which no
library rounds perfectly, are moved by eight floats. A moved end never crosses zero, so that a product of positive
factors stays positive.

NaN needs care: 0 * inf is NaN, but the other products of the box are not, and inf - inf is similar. A divisor that may
be zero may be -0.0, so the quotient may be any number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from skyband.query.expression import nodes
from skyband.query.expression.nodes import Expression

Interval = tuple[float, float]
Box = Mapping[str, Interval]
EVERYTHING: Interval = (-math.inf, math.inf)

_INEXACT = 8
"""The number of floats by which the ends of exp, ln and powers are moved; numpy guarantees an error below four."""


def bound(e: Expression, box: Box, constants: Sequence[float] = ()) -> Interval:
    """Return (low, high): for columns inside the box `evaluate` gives a value in this range, or NaN.

    Columns that the box does not name may have any value. For a predicate it is (0, 1).
    """
    with np.errstate(all="ignore"):
        return _bound(e, box, constants)


def _bound(e: Expression, box: Box, constants: Sequence[float]) -> Interval:
    match e:
        case nodes.Number(value):
            near = nodes.as_float(value)
            return near, near
        case nodes.Parameter(index):
            return (constants[index], constants[index]) if index < len(constants) else EVERYTHING
        case nodes.Column():
            low, high = box.get(e.key, EVERYTHING)
            return (low, high) if low <= high else EVERYTHING
        case nodes.Negate(operand):
            low, high = _bound(operand, box, constants)
            return -high, -low
        case nodes.Arithmetic("^", base, exponent):
            if nodes.literal(exponent) == 2:
                return square(_bound(base, box, constants))
            return power(_bound(base, box, constants), _bound(exponent, box, constants))
        case nodes.Arithmetic(op, left, right):
            x = _bound(left, box, constants)
            return _of_equal(op, x) if left == right else _BINARY[op](x, _bound(right, box, constants))
        case nodes.Call(name, args):
            return _call(name, [_bound(arg, box, constants) for arg in args])
        case _:
            return 0.0, 1.0


def _call(name: str, args: list[Interval]) -> Interval:
    if name == "dist":
        half = len(args) // 2
        total = square(subtract(args[0], args[half]))
        for x, p in zip(args[1:half], args[half + 1 :], strict=True):
            total = add(total, square(subtract(x, p)))
        return root(total)
    if name == "least":
        return min(low for low, _ in args), min(high for _, high in args)
    if name == "greatest":
        return max(low for low, _ in args), max(high for _, high in args)
    return _UNARY[name](args[0]) if name in _UNARY else EVERYTHING


# -- moving outward


def _down(x: float, steps: int) -> float:
    moved = _step(x, -math.inf, steps)
    return 0.0 if x >= 0 > moved else moved


def _up(x: float, steps: int) -> float:
    moved = _step(x, math.inf, steps)
    return 0.0 if x <= 0 < moved else moved


def _step(x: float, towards: float, steps: int) -> float:
    for _ in range(steps):
        x = math.nextafter(x, towards)
    return x


def outward(low: float, high: float, steps: int = 1) -> Interval:
    """Return the interval, wider by `steps` floats at each end; everything if an end is NaN."""
    if math.isnan(low) or math.isnan(high):
        return EVERYTHING
    return _down(low, steps), _up(high, steps)


# -- the operations


def add(x: Interval, y: Interval) -> Interval:
    low, high = x[0] + y[0], x[1] + y[1]
    # inf - inf at an end: the other sums may be anything on that side
    return outward(-math.inf if math.isnan(low) else low, math.inf if math.isnan(high) else high)


def subtract(x: Interval, y: Interval) -> Interval:
    return add(x, (-y[1], -y[0]))


def multiply(x: Interval, y: Interval) -> Interval:
    products = [a * b for a in x for b in y]
    # 0 * inf is NaN, but 0 times any finite number is 0
    sure = [0.0 if math.isnan(product) else product for product in products]
    return outward(min(sure), max(sure))


def divide(x: Interval, y: Interval) -> Interval:
    if y[0] <= 0 <= y[1]:
        return EVERYTHING
    quotients: list[float] = []
    for a in x:
        for b in y:
            if math.isinf(a) and math.isinf(b):
                quotients += [0.0, math.copysign(math.inf, a) * math.copysign(1.0, b)]
            else:
                quotients.append(float(np.float64(a) / np.float64(b)))
    return outward(min(quotients), max(quotients))


def square(x: Interval) -> Interval:
    ends = sorted((x[0] * x[0], x[1] * x[1]))
    low, high = outward(0.0 if x[0] <= 0 <= x[1] else ends[0], ends[1])
    return max(low, 0.0), high


def root(x: Interval) -> Interval:
    if x[1] < 0:
        return EVERYTHING  # NaN throughout
    low, high = outward(math.sqrt(max(x[0], 0.0)), math.sqrt(x[1]))
    return max(low, 0.0), high


def _absolute(x: Interval) -> Interval:
    low, high = sorted((abs(x[0]), abs(x[1])))
    return (0.0 if x[0] <= 0 <= x[1] else low), high


def _sign(x: Interval) -> Interval:
    return float(np.sign(x[0])), float(np.sign(x[1]))


def _exp(x: Interval) -> Interval:
    low, high = outward(float(np.exp(x[0])), float(np.exp(x[1])), _INEXACT)
    return max(low, 0.0), high


def _ln(x: Interval) -> Interval:
    if x[1] < 0:
        return EVERYTHING  # NaN throughout
    return outward(float(np.log(max(x[0], 0.0))), float(np.log(x[1])), _INEXACT)


def power(x: Interval, y: Interval) -> Interval:
    """Return the range of x^y. For positive x it is monotone in x and in y, so its extremes are at the corners."""
    if y[0] == y[1] and not math.isinf(y[0]):
        return _fixed_power(x, y[0])
    if x[0] < 0 or (x[0] == 0 and y[0] < 0):  # signs alternate with the exponent; -0.0 ^ -1 is -inf
        return EVERYTHING
    low, high = _corners(x, y)
    return max(low, 0.0), high


def _corners(x: Interval, y: Interval) -> Interval:
    values = [float(np.power(np.float64(a), np.float64(b))) for a in x for b in y]
    return outward(min(values), max(values), _INEXACT)


def _fixed_power(x: Interval, n: float) -> Interval:
    """Return the range of x^n for a number n."""
    if n == 0:
        return 1.0, 1.0
    size = _absolute(x)
    if math.fmod(n, 1.0) != 0:
        # NaN for negative numbers; for -inf the same as for inf
        if x[1] < 0 and not math.isinf(x[0]):
            return EVERYTHING
        base = (max(x[0], 0.0), math.inf if math.isinf(x[0]) else x[1])
        low, high = _corners((min(base), max(base)), (n, n))
        return max(low, 0.0), high
    if math.fmod(n, 2.0) == 0:
        low, high = _corners(size, (n, n))
        return max(low, 0.0), high
    if n < 0 and x[0] <= 0 <= x[1]:
        return EVERYTHING
    return _corners(x, (n, n))


def _of_equal(op: str, x: Interval) -> Interval:
    """Return the range of x op x, where both sides are the same expression."""
    if op == "+":
        return add(x, x)
    if op == "-":
        return 0.0, 0.0
    return square(x) if op == "*" else (1.0, 1.0)


_BINARY: dict[str, Callable[[Interval, Interval], Interval]] = {
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
}
_UNARY: dict[str, Callable[[Interval], Interval]] = {
    "sqrt": root, "abs": _absolute, "sign": _sign, "exp": _exp, "ln": _ln,
}  # fmt: skip
