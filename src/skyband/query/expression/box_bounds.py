"""The range of a score over many boxes at once.

`bounds` has the same guarantee as `interval.bound`, for a thousand boxes in the time of ten: for every point of a box
the value that `evaluate` computes is inside the range, or is NaN. An index calls it for its cells and for boxes of
cells.

Rounding is monotone, so for + - * / and roots the ends of the intervals, computed with the same float64 operations as
in `evaluate`, are right. `interval` moves them by one float all the same; here they are not moved, because a cell
whose bound equals the k-th best score must not seem better than it is. The ends of exp, ln and powers, which no library
rounds perfectly, are moved outward by eight floats. A constant may be an array with one value for each box; then one
call serves all queries of a shape.

`sound` finds the boxes over which no part of the expression can be NaN or infinite. There a proof of direction
(`monotonicity`) holds from point to point, and the value at a cell's best corner is the cell's bound.

`render_bounds` writes the same arithmetic as source for numba, where `codegen.render` can write the score.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.query.expression import nodes
from skyband.query.expression.codegen import render
from skyband.query.expression.nodes import Expression

Floats = npt.NDArray[np.float64]
Span = tuple[Any, Any]
"""The low and the high ends: an array each, or one number for all boxes."""
Boxes = Mapping[str, tuple[Floats, Floats]]
_EVERYTHING: Span = (-math.inf, math.inf)
_INEXACT = 8


def bounds(e: Expression, boxes: Boxes, constants: Sequence[float | Floats] = ()) -> tuple[Floats, Floats]:
    """Return (lows, highs), the range of the expression over each box. Columns not in `boxes` may have any value."""
    with np.errstate(all="ignore"):
        low, high = _Bounder(boxes, constants).of(e)
    count = _length(boxes, constants)
    return _column(low, count), _column(high, count)


def sound(e: Expression, boxes: Boxes, constants: Sequence[float | Floats] = ()) -> npt.NDArray[np.bool_]:
    """Return for each box whether every part of the expression is a finite number at every point."""
    bounder = _Bounder(boxes, constants)
    with np.errstate(all="ignore"):
        bounder.of(e)
    return np.array(np.broadcast_to(bounder.sound, _length(boxes, constants)))


def _length(boxes: Boxes, constants: Sequence[float | Floats]) -> int:
    arrays = [*(low for low, _ in boxes.values()), *constants]
    return max((len(array) for array in arrays if isinstance(array, np.ndarray) and array.ndim), default=1)


def _column(value: Any, count: int) -> Floats:
    return np.array(np.broadcast_to(np.asarray(value, dtype=np.float64), count))


class _Bounder:
    """Walks the tree once; `sound` is True for the boxes where every part so far is a finite number."""

    def __init__(self, boxes: Boxes, constants: Sequence[float | Floats]) -> None:
        self.boxes = boxes
        self.constants = constants
        self.sound: Any = np.bool_(True)

    def of(self, e: Expression) -> Span:
        low, high = self._of(e)
        self.sound = self.sound & np.isfinite(low) & np.isfinite(high)
        return low, high

    def _of(self, e: Expression) -> Span:
        match e:
            case nodes.Number(value):
                near = np.float64(nodes.as_float(value))
                return near, near
            case nodes.Parameter(index):
                if index >= len(self.constants):
                    return _EVERYTHING
                constant = np.asarray(self.constants[index], dtype=np.float64)
                return constant, constant
            case nodes.Column():
                low, high = self.boxes.get(e.key, _EVERYTHING)
                real = np.less_equal(low, high)
                return np.where(real, low, -np.inf), np.where(real, high, np.inf)
            case nodes.Negate(operand):
                low, high = self.of(operand)
                return np.negative(high), np.negative(low)
            case nodes.Arithmetic("^", base, exponent):
                return self._power(base, exponent)
            case nodes.Arithmetic(op, left, right):
                x = self.of(left)
                return self._of_equal(op, x) if left == right else _BINARY[op](x, self.of(right))
            case nodes.Call(name, args):
                return self._call(name, [self.of(arg) for arg in args])
            case _:
                return np.float64(0.0), np.float64(1.0)

    def _call(self, name: str, args: list[Span]) -> Span:
        match name:
            case "dist":
                half = len(args) // 2
                total = square(subtract(args[0], args[half]))
                for x, p in zip(args[1:half], args[half + 1 :], strict=True):
                    total = add(total, square(subtract(x, p)))
                return root(total)
            case "least" | "greatest":
                choose = np.minimum if name == "least" else np.maximum
                low, high = args[0]
                for other in args[1:]:
                    low, high = choose(low, other[0]), choose(high, other[1])
                return low, high
            case "sqrt":
                self.sound = self.sound & (np.asarray(args[0][0]) >= 0)
                return root(args[0])
            case "abs":
                return absolute(args[0])
            case "sign":
                return np.sign(args[0][0]), np.sign(args[0][1])
            case "exp":
                low, high = _outward(np.exp(args[0][0]), np.exp(args[0][1]))
                return np.maximum(low, 0.0), high
            case "ln":
                low, high = args[0]
                self.sound = self.sound & (np.asarray(low) > 0)
                moved = _outward(np.log(np.maximum(low, 0.0)), np.log(high))
                return _unless(np.less(high, 0), moved)
            case _:
                return _EVERYTHING

    def _of_equal(self, op: str, x: Span) -> Span:
        """Return the range of x op x, where both sides are the same expression."""
        if op == "+":
            return add(x, x)
        if op == "*":
            return square(x)
        if op == "/":
            self.sound = self.sound & ~_holds_zero(x)
        same = np.float64(0.0 if op == "-" else 1.0)
        return same, same

    def _power(self, base: Expression, exponent: Expression) -> Span:
        x = self.of(base)
        if nodes.literal(exponent) == 2:
            return square(x)
        n, end = y = self.of(exponent)
        # the exponent is a number, maybe a different one for each box
        one = np.equal(n, end) & np.isfinite(n)
        whole = np.equal(np.fmod(n, 1.0), 0)
        self.sound = self.sound & np.where(one, whole | np.greater_equal(x[0], 0), np.greater(x[0], 0))
        if np.all(one):
            return _fixed_power(x, n)
        free = _free_power(x, y)
        if not np.any(one):
            return free
        fixed = _fixed_power(x, np.where(one, n, 1.0))
        return np.where(one, fixed[0], free[0]), np.where(one, fixed[1], free[1])


# -- the operations; `algorithms/kernels/scalar_intervals.py` has the same ones for one box


def add(x: Span, y: Span) -> Span:
    low, high = x[0] + y[0], x[1] + y[1]
    # inf - inf at an end: the other sums may be anything on that side
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


def subtract(x: Span, y: Span) -> Span:
    return add(x, (np.negative(y[1]), np.negative(y[0])))


def multiply(x: Span, y: Span) -> Span:
    # 0 * inf is NaN, but 0 times any finite number is 0
    products = [np.where(np.isnan(p), 0.0, p) for p in (x[0] * y[0], x[0] * y[1], x[1] * y[0], x[1] * y[1])]
    return _least(products), _greatest(products)


def divide(x: Span, y: Span) -> Span:
    lows, highs = [], []
    for a in x:
        for b in y:
            quotient = np.divide(a, b)
            # inf / inf is NaN; the quotients near it go from 0 to an infinity
            limit = np.copysign(np.inf, a) * np.copysign(1.0, b)
            unknown = np.isnan(quotient)
            lows.append(np.where(unknown, np.minimum(limit, 0.0), quotient))
            highs.append(np.where(unknown, np.maximum(limit, 0.0), quotient))
    return _unless(_holds_zero(y), (_least(lows), _greatest(highs)))


def square(x: Span) -> Span:
    low, high = x[0] * x[0], x[1] * x[1]
    return np.where(_holds_zero(x), 0.0, np.minimum(low, high)), np.maximum(low, high)


def root(x: Span) -> Span:
    low, high = np.sqrt(np.maximum(x[0], 0.0)), np.sqrt(np.maximum(x[1], 0.0))
    return _unless(np.less(x[1], 0), (low, high))  # NaN throughout


def absolute(x: Span) -> Span:
    low, high = np.abs(x[0]), np.abs(x[1])
    return np.where(_holds_zero(x), 0.0, np.minimum(low, high)), np.maximum(low, high)


def _free_power(x: Span, y: Span) -> Span:
    """Return the range of x^y. For positive x it is monotone in x and in y, so its extremes are at the corners."""
    # for negative x the sign alternates with the exponent; -0.0 ^ -1 is -inf
    wild = np.less(x[0], 0) | (np.equal(x[0], 0) & np.less(y[0], 0))
    low, high = _corners(x, y)
    return _unless(wild, (np.maximum(low, 0.0), high))


def _corners(x: Span, y: Span) -> Span:
    values = [np.power(a, b) for a in x for b in y]
    return _outward(_least(values), _greatest(values))


def _fixed_power(x: Span, n: Any) -> Span:
    """Return the range of x^n, where n is a number or one number for each box."""
    even, whole = (np.equal(np.fmod(n, m), 0) for m in (2.0, 1.0))
    odd = whole & ~even
    # for other n it is NaN for negative numbers, and for -inf the same as for inf
    endless = np.isinf(x[0])
    ends = np.maximum(x[0], 0.0), np.where(endless, np.inf, np.maximum(x[1], 0.0))
    size = absolute(x)
    values = [
        np.power(np.where(odd, x[i], np.where(even, size[i], choose(*ends))), n)
        for i, choose in enumerate((np.minimum, np.maximum))
    ]
    low, high = _outward(_least(values), _greatest(values))
    low = np.where(odd, low, np.maximum(low, 0.0))
    empty = ~whole & np.less(x[1], 0) & ~endless
    low, high = _unless(empty | (odd & np.less(n, 0) & _holds_zero(x)), (low, high))
    none = np.equal(n, 0)
    return np.where(none, 1.0, low), np.where(none, 1.0, high)


def _holds_zero(x: Span) -> Any:
    return np.less_equal(x[0], 0) & np.greater_equal(x[1], 0)


def _unless(unknown: Any, span: Span) -> Span:
    """Return the span, with everything where the range is unknown."""
    low, high = span
    unknown = unknown | np.isnan(low) | np.isnan(high)
    return np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)


def _least(values: list[Any]) -> Any:
    result = values[0]
    for value in values[1:]:
        result = np.minimum(result, value)
    return result


def _greatest(values: list[Any]) -> Any:
    result = values[0]
    for value in values[1:]:
        result = np.maximum(result, value)
    return result


def _outward(low: Any, high: Any) -> Span:
    """Return the span wider by a few floats, never across zero, with everything where an end is NaN."""
    wide_low, wide_high = low, high
    for _ in range(_INEXACT):
        wide_low, wide_high = np.nextafter(wide_low, -np.inf), np.nextafter(wide_high, np.inf)
    wide_low = np.where((np.asarray(low) >= 0) & (wide_low < 0), 0.0, wide_low)
    wide_high = np.where((np.asarray(high) <= 0) & (wide_high > 0), 0.0, wide_high)
    return _unless(np.bool_(False), (wide_low, wide_high))


_BINARY = {"+": add, "-": subtract, "*": multiply, "/": divide}


# -- as source for numba

OPERATIONS = (
    "span_add", "span_subtract", "span_multiply", "span_divide", "span_square", "span_root", "span_absolute",
)  # fmt: skip
"""The functions that the source calls; see algorithms/kernels/scalar_intervals.py."""

_NAMES = {"+": "span_add", "-": "span_subtract", "*": "span_multiply", "/": "span_divide"}


def render_bounds(shape: Expression, columns: Sequence[str]) -> tuple[list[str], str, str] | None:
    """Return statements that compute the range of a shape, and the names of its ends.

    They read l0, h0, l1, h1 … (the box, in the order of `columns`) and p[0], p[1] …; None where `render` returns None.
    """
    if render(shape, columns) is None:
        return None
    writer = _Writer({name: axis for axis, name in enumerate(columns)})
    low, high = writer.write(shape)
    return writer.lines, low, high


class _Writer:
    def __init__(self, axes: dict[str, int]) -> None:
        self.axes = axes
        self.lines: list[str] = []

    def write(self, e: Expression) -> tuple[str, str]:
        match e:
            case nodes.Column():
                axis = self.axes[e.key]
                return f"l{axis}", f"h{axis}"
            case nodes.Parameter(i):
                return f"p[{i}]", f"p[{i}]"
            case nodes.Number():
                text = render(e, ()) or ""
                return text, text
            case nodes.Negate(operand):
                low, high = self.write(operand)
                return self._pair(f"-{high}, -{low}")
            case nodes.Arithmetic("^", base, _):
                return self._apply("span_square", self.write(base))
            case nodes.Arithmetic(op, left, right) if left == right:
                return self._of_equal(op, self.write(left))
            case nodes.Arithmetic(op, left, right):
                return self._apply(_NAMES[op], self.write(left), self.write(right))
            case nodes.Call(name, args):
                return self._call(name, [self.write(arg) for arg in args])
            case _:
                raise TypeError(f"{type(e).__name__} is not a number")

    def _of_equal(self, op: str, x: tuple[str, str]) -> tuple[str, str]:
        if op == "+":
            return self._apply("span_add", x, x)
        if op == "*":
            return self._apply("span_square", x)
        return ("0.0", "0.0") if op == "-" else ("1.0", "1.0")

    def _call(self, name: str, args: list[tuple[str, str]]) -> tuple[str, str]:
        if name in ("least", "greatest"):
            function = "min" if name == "least" else "max"
            low, high = args[0]
            for other in args[1:]:
                low, high = self._pair(f"{function}({low}, {other[0]}), {function}({high}, {other[1]})")
            return low, high
        if name == "dist":
            half = len(args) // 2
            pairs = zip(args[:half], args[half:], strict=True)
            squares = [self._apply("span_square", self._apply("span_subtract", x, p)) for x, p in pairs]
            total = squares[0]
            for other in squares[1:]:
                total = self._apply("span_add", total, other)
            return self._apply("span_root", total)
        if name == "sign":
            return self._pair(f"np.sign({args[0][0]}) + 0.0, np.sign({args[0][1]}) + 0.0")
        return self._apply("span_root" if name == "sqrt" else "span_absolute", args[0])

    def _apply(self, function: str, *spans: tuple[str, str]) -> tuple[str, str]:
        return self._pair(f"{function}({', '.join(end for span in spans for end in span)})")

    def _pair(self, text: str) -> tuple[str, str]:
        n = len(self.lines)
        self.lines.append(f"u{n}, v{n} = {text}")
        return f"u{n}", f"v{n}"
