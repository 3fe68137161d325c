"""Prove in which direction a score changes when one column grows.

The proof is over the tree: a sum of increasing terms increases, a product does if the signs of its factors are known, a
composition of monotone functions is monotone. Signs come from `bound`, so a box helps: over all numbers x * y is
monotone in no direction in x, over positive y it increases. A direction that can't be proved is "neither".

"increasing" means: of two rows that differ in this column alone, the one with the greater value has no smaller score,
unless a score is NaN. By default the claim is about the mathematical function. The library rounds exp, ln and powers,
and may put two neighbouring floats in the wrong order by one last bit. With `exact` the claim is about the computed
float64 values, and those functions are "neither". Code that drops rows because of a direction needs `exact`.

The claims of several columns hold together: if each column moves in its better direction, the score does not get worse,
unless it is NaN at one of the two ends. So the score at the best corner of a box bounds the scores inside. A corner
whose score is NaN (0 * inf, where a box is infinite) bounds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from skyband.query.expression import nodes
from skyband.query.expression.interval import Box, Interval, bound
from skyband.query.expression.nodes import Expression

Direction = Literal["increasing", "decreasing", "constant", "neither"]

_FLIPPED: dict[Direction, Direction] = {
    "increasing": "decreasing",
    "decreasing": "increasing",
    "constant": "constant",
    "neither": "neither",
}


def direction(
    e: Expression, column: str, box: Box | None = None, constants: Sequence[float] = (), exact: bool = False
) -> Direction:
    """Return whether the score is increasing, decreasing, constant or neither in a column, over a box.

    Without a box: over all numbers. See the module's text for `exact`.
    """
    with np.errstate(all="ignore"):
        return _Prover(column, box or {}, constants, exact).of(e)


def _flip(d: Direction) -> Direction:
    return _FLIPPED[d]


def _both(one: Direction, other: Direction) -> Direction:
    """Return the direction of a function that is increasing in two parts with these directions."""
    if one == "constant" or one == other:
        return other
    return one if other == "constant" else "neither"


class _Prover:
    def __init__(self, column: str, box: Box, constants: Sequence[float], exact: bool) -> None:
        self.column = column
        self.box = box
        self.constants = constants
        self.exact = exact

    def bound(self, e: Expression) -> Interval:
        return bound(e, self.box, self.constants)

    def of(self, e: Expression) -> Direction:
        match e:
            case nodes.Column():
                return "increasing" if e.key == self.column else "constant"
            case nodes.Number() | nodes.Parameter() | nodes.Truth() | nodes.Text():
                return "constant"
            case nodes.Negate(operand):
                return _flip(self.of(operand))
            case nodes.Arithmetic("+", left, right):
                return _both(self.of(left), self.of(right))
            case nodes.Arithmetic("-", left, right):
                return _both(self.of(left), _flip(self.of(right)))
            case nodes.Arithmetic("*", left, right):
                return _both(self._scaled(self.of(left), right), self._scaled(self.of(right), left))
            case nodes.Arithmetic("/", left, right):
                return self._quotient(left, right)
            case nodes.Arithmetic("^", base, exponent):
                return self._power(base, exponent)
            case nodes.Call(name, args):
                return self._call(name, args)
            case _:
                parts = [self.of(part) for part in nodes.children(e)]
                return "constant" if all(part == "constant" for part in parts) else "neither"

    def _scaled(self, own: Direction, factor: Expression) -> Direction:
        """Return the direction of e * factor in e, whose own direction is given, with the factor constant."""
        if own == "constant":
            return own
        low, high = self.bound(factor)
        if low == high == 0:
            return "constant"
        if low >= 0:
            return own
        return _flip(own) if high <= 0 else "neither"

    def _is_still(self, e: Expression) -> bool:
        """Whether e does not contain the column. A constant that does, 0 * x, may be 0.0 or -0.0."""
        return self.column not in nodes.columns_of(e)

    def _quotient(self, left: Expression, right: Expression) -> Direction:
        above, below = self.of(left), self.of(right)
        if above == "constant" and self._is_still(right):
            return "constant"
        low, high = self.bound(right)
        if low <= 0 <= high:  # the divisor may be 0.0 or -0.0: the quotient jumps between the infinities
            return "neither"
        upper = above if low > 0 else _flip(above)
        lower = _flip(self._scaled(below, left))
        return _both(upper, lower)

    def _call(self, name: str, args: tuple[Expression, ...]) -> Direction:
        if name == "dist":
            return self.of(_spelled_out(args))
        if name in ("least", "greatest"):
            result: Direction = "constant"
            for arg in args:
                result = _both(result, self.of(arg))
            return result
        if len(args) != 1 or name in nodes.AGGREGATES:
            columns = {column for arg in args for column in nodes.columns_of(arg)}
            return "neither" if self.column in columns else "constant"
        own = self.of(args[0])
        if name == "abs":
            low, high = self.bound(args[0])
            if own == "constant" or low >= 0:
                return own
            return _flip(own) if high <= 0 else "neither"
        return own if name in ("sign", "sqrt") else self._rounded(own)

    def _rounded(self, d: Direction) -> Direction:
        """Return the direction of a function whose rounding the library does not specify."""
        return "neither" if self.exact and d != "constant" else d

    def _power(self, base: Expression, exponent: Expression) -> Direction:
        of_base, of_exponent = self.of(base), self.of(exponent)
        if of_base == of_exponent == "constant" and (self._is_still(base) or self.bound(exponent)[0] >= 0):
            return "constant"
        written = nodes.literal(exponent)
        if written is not None:
            n = nodes.as_float(written)
            d = self._fixed_power(of_base, self.bound(base), n)
            return d if n == 2 else self._rounded(d)
        return self._rounded(self._free_power(of_base, self.bound(base), of_exponent, self.bound(exponent)))

    def _fixed_power(self, d: Direction, base: Interval, n: float) -> Direction:
        low, high = base
        if n == 0:
            return "constant"
        if math.isinf(n):
            return "neither"
        if math.fmod(n, 1.0) != 0:
            # NaN for negative numbers, but not for -inf
            if low == -math.inf or (n < 0 and low <= 0):
                return "neither"
            return d if n > 0 else _flip(d)
        if n < 0 and low <= 0 <= high:
            return "neither"
        odd = math.fmod(n, 2.0) != 0
        if not odd and low < 0 < high:
            return "neither"
        rising = (n > 0) if odd or low >= 0 else (n < 0)
        return d if rising else _flip(d)

    def _free_power(
        self, of_base: Direction, base: Interval, of_exponent: Direction, exponent: Interval
    ) -> Direction:
        """Return the direction of x^y: monotone in x if y keeps its sign, in y if x stays on one side of 1."""
        if base[0] < 0 or (base[0] == 0 and exponent[0] <= 0):
            return "neither"
        if of_base != "constant":
            if exponent[0] < 0 < exponent[1]:
                return "neither"
            of_base = of_base if exponent[0] >= 0 else _flip(of_base)
        if of_exponent != "constant":
            if base[0] < 1 < base[1]:
                return "neither"
            of_exponent = of_exponent if base[0] >= 1 else _flip(of_exponent)
        return _both(of_base, of_exponent)


def _spelled_out(args: tuple[Expression, ...]) -> Expression:
    """Return dist as the root of a sum of squares."""
    half = len(args) // 2
    two = nodes.Number(2)
    total: Expression | None = None
    for x, p in zip(args[:half], args[half:], strict=True):
        term = nodes.Arithmetic("^", nodes.Arithmetic("-", x, p), two)
        total = term if total is None else nodes.Arithmetic("+", total, term)
    assert total is not None
    return nodes.Call("sqrt", (total,))
