"""Scores of pairs that are functions of differences.

`abs(a.x - b.x) + abs(a.y - b.y)` depends on the distances of two rows in some columns, and only rises (or only falls)
with each of these distances. The paper calls such scores *global*: from sorted lists of the columns an algorithm finds
the partners of a row that can matter, those near to the row in a column or those far from it, and does not read the
others (algorithms/pairs/ta.py). The tree shows whether a score is of that kind: |a.x - b.x|, its square and `dist` are
distances, for any expression x of one row, and the rest must be monotone in them, proved with rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from skyband.query.expression import nodes
from skyband.query.expression.codegen import lift, render
from skyband.query.expression.evaluate import constant_value
from skyband.query.expression.monotonicity import direction
from skyband.query.expression.nodes import Arithmetic, Call, Column, Expression, Number


@dataclass(frozen=True)
class Differences:
    """A score as a function of distances: `r.x` is the distance of two rows in leaf x."""

    score: Expression
    leaves: tuple[str, ...]
    # for each leaf: whether the score (not multiplied by a sign) rises with the distance
    far: tuple[bool, ...]

    @cached_property
    def _hash(self) -> int:
        return hash((self.score, self.leaves, self.far))

    def __hash__(self) -> int:
        """Return the hash, which is computed once: every step looks up its loop by it."""
        return self._hash

    def text(self) -> str:
        """Return the score as source over r0, r1 … and p0, p1 …"""
        rendered = render(lift(self.score)[0], [f"r.{leaf}" for leaf in self.leaves]) or ""
        for i in range(len(self.leaves) - 1, -1, -1):
            rendered = rendered.replace(f"x{i}", f"r{i}")
        return rendered.replace("p[", "p").replace("]", "")

    def decided_by_one(self, sign: float) -> bool:
        """Whether a pair has the best possible score as soon as one of several distances is 0, as with a product.

        `sign` is negative where a lower score is better.
        """
        near = [i for i, far in enumerate(self.far) if far != (sign > 0)]

        def value(nothing: list[int]) -> float:
            at = {leaf: float(i not in nothing) for i, leaf in enumerate(self.leaves)}
            return constant_value(_placed(self.score, at))

        return len(near) > 1 and any(value([i]) == value(near) for i in near)


def _placed(e: Expression, at: dict[str, float]) -> Expression:
    """Return the tree with numbers instead of distances."""
    if isinstance(e, Column):
        return Number(at[e.name])
    return nodes.rebuild(e, tuple(_placed(part, at) for part in nodes.children(e)))


def differences(score: Expression) -> Differences | None:
    """Return the score as a function of distances, or None if it is not one; columns may be leaves."""
    tree = _replaced(score)
    columns = [node for node in nodes.walk(tree) if isinstance(node, Column)]
    if not columns or any(column.side != "r" for column in columns):
        return None
    leaves = tuple(dict.fromkeys(column.name for column in columns))
    shape, constants = lift(tree)
    keys = [f"r.{leaf}" for leaf in leaves]
    if render(shape, keys) is None:
        return None
    box = dict.fromkeys(keys, (0.0, float("inf")))
    ways = [direction(shape, key, box, constants, exact=True) for key in keys]
    if any(way not in ("increasing", "decreasing") for way in ways):
        return None
    return Differences(tree, leaves, tuple(way == "increasing" for way in ways))


def _replaced(e: Expression) -> Expression:
    """Return the tree with distances instead of |a.x - b.x|."""
    match e:
        case Call("abs", (Arithmetic("-", left, right),)) if (leaf := _apart(left, right)) is not None:
            return leaf
        case Arithmetic("^", Arithmetic("-", left, right), exponent) if nodes.literal(exponent) == 2:
            leaf = _apart(left, right)
            return e if leaf is None else Arithmetic("^", leaf, Number(2))
        case Call("dist", args):
            half = len(args) // 2
            parts = [_apart(x, y) for x, y in zip(args[:half], args[half:], strict=True)]
            known = [Arithmetic("^", part, Number(2)) for part in parts if part is not None]
            if len(known) < half:
                return e
            total: Expression = known[0]
            for square in known[1:]:
                total = Arithmetic("+", total, square)
            return Call("sqrt", (total,))
        case _:
            return nodes.rebuild(e, tuple(map(_replaced, nodes.children(e))))


def _apart(one: Expression, other: Expression) -> Column | None:
    """Return the distance of two rows in one leaf, or None if the two columns are not the same leaf of a and of b."""
    if not isinstance(one, Column) or not isinstance(other, Column):
        return None
    return Column(one.name, "r") if one.name == other.name and {one.side, other.side} == {"a", "b"} else None
