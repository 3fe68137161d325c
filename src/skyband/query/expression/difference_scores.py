"""Scores of pairs that are made of differences.

`abs(a.x - b.x) + abs(a.y - b.y)` depends on how far two rows are apart in each of some columns, and only rises (or only
falls) with each of these distances. The paper calls such scores *global*: sorted lists of the columns then tell which
partners can matter, those that are near to a row in a column or those that are far from it, and all others can be left
unread (pairs/ta.py). Which scores are of that kind is read off the tree: |a.x - b.x|, its square and `dist` are
distances, whatever expression of one row x is, and the rest must be proved monotone in them, rounding included.
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
    """A score as a function of distances: `r.x` is how far two rows are apart in leaf x."""

    score: Expression
    leaves: tuple[str, ...]
    far: tuple[bool, ...]  # for each leaf: whether the score (not turned by a sign) rises with the distance

    @cached_property
    def _hash(self) -> int:
        return hash((self.score, self.leaves, self.far))

    def __hash__(self) -> int:
        """Computed once: loops are looked up by it for every step."""
        return self._hash

    def text(self) -> str:
        """The score as source over r0, r1 … and p0, p1 …"""
        rendered = render(lift(self.score)[0], [f"r.{leaf}" for leaf in self.leaves]) or ""
        for i in range(len(self.leaves) - 1, -1, -1):
            rendered = rendered.replace(f"x{i}", f"r{i}")
        return rendered.replace("p[", "p").replace("]", "")

    def decided_by_one(self, sign: float) -> bool:
        """Whether a pair is as good as can be as soon as one of several distances is nothing, as of the closest by a
        product; `sign` is negative where less is better."""
        near = [i for i, far in enumerate(self.far) if far != (sign > 0)]

        def value(nothing: list[int]) -> float:
            at = {leaf: float(i not in nothing) for i, leaf in enumerate(self.leaves)}
            return constant_value(_placed(self.score, at))

        return len(near) > 1 and any(value([i]) == value(near) for i in near)


def _placed(e: Expression, at: dict[str, float]) -> Expression:
    """The tree with numbers in the place of distances."""
    if isinstance(e, Column):
        return Number(at[e.name])
    return nodes.rebuild(e, tuple(_placed(part, at) for part in nodes.children(e)))


def differences(score: Expression) -> Differences | None:
    """The score as a function of distances, or None if it is none; columns may be leaves."""
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
    """The tree with distances in the place of |a.x - b.x|."""
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
    """The distance of two rows in one leaf."""
    if not isinstance(one, Column) or not isinstance(other, Column):
        return None
    return Column(one.name, "r") if one.name == other.name and {one.side, other.side} == {"a", "b"} else None
