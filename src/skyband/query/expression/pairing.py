"""Split the score and the predicate of a pair into parts of one row and a small tree over both rows.

A part of one row alone, `ln(a.price)` or `b.size >= 10`, need not be computed for each pair. It is a *leaf*: `evaluate`
computes it once when the row arrives, and it is stored as a column of the window. The remaining tree over the leaves of
both rows has mostly operations that can be written as source for numba: sums, products, differences, roots. Then a
pair costs a nanosecond. Where the tree has others (a logarithm of both rows), numpy evaluates the same tree over the
same leaves. Where leaves are not enough (times of different units, arithmetic of integers), it reads the columns
themselves.

Leaves are a number (float64); an exact integer or time, for comparisons; a flag, the truth of a condition; a code,
equal where values of any type are equal; and a rank among all texts or bytes, or among all numbers, which is in order
where these are. A condition `a.c = b.c` is not part of the tree: rows are stored in runs by colour (the value of c),
and a pair of two colours is never formed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from skyband.query.expression import nodes
from skyband.query.expression.codegen import lift, render
from skyband.query.expression.nodes import Column, Compare, Expression

RANKED = ("bytes", "numbers")  # kinds of leaves that are ranks, and among which values
_OPERATORS = {"=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_EPSILON = 2.0**-24  # half a unit in the last place of a float32, relative
_LEAST = 2.0**-149  # and near zero
_LARGEST = 1e15  # numbers up to it can be multiplied without leaving float32


@dataclass(frozen=True)
class Leaf:
    """A stored column of the window's rows: an expression of one row."""

    kind: str  # "number", "exact", "flag", "code", or one of RANKED
    value: Expression


@dataclass(frozen=True)
class Pairing:
    """Score and predicate of pairs over leaves: `a.3` is the fourth leaf of row a."""

    leaves: tuple[Leaf, ...]
    score: Expression
    where: Expression | None
    same: tuple[str, ...]  # columns in which both rows must be equal; `where` does not contain this
    rendered: bool  # the score can be written as source

    @cached_property
    def _hash(self) -> int:
        return hash((self.leaves, self.score, self.where, self.same, self.rendered))

    def __hash__(self) -> int:
        """Return the hash, which is computed once: every step looks up its loop by it."""
        return self._hash

    @cached_property
    def constants(self) -> tuple[float, ...]:
        return lift(self.score)[1]

    @property
    def symmetric(self) -> bool:
        """Whether a pair has the same score with a and b exchanged, to the last bit."""
        return _settled(self.score) == _settled(turned(self.score))

    def score_text(self, a: str, b: str) -> str:
        """Return the score as source, in which leaf i of row a is `{a}{i}`."""
        return self._named(render(lift(self.score)[0], self._columns()) or "", a, b)

    def where_text(self, a: str, b: str) -> str | None:
        return None if self.where is None else self._named(_condition(self.where, self), a, b)

    def scored(self) -> list[int]:
        """Return the numbers of the leaves that the score uses."""
        return sorted({int(node.name) for node in nodes.walk(self.score) if isinstance(node, Column)})

    def other(self) -> int | None:
        """Return a leaf in which the rows of a pair must differ (`a.c <> b.c`), or None."""
        for term in nodes.conjuncts(self.where):
            match term:
                case Compare("<>", Column(left, one), Column(right, two)) if left == right and one != two:
                    return int(left)
        return None

    def slack(self, between: dict[int, tuple[float, float]]) -> float | None:
        """Return how far the score computed in float32 can be from the score, given the range of each leaf.

        It is a little more than that, since the score and the number that it is compared with are rounded too. None
        means that there is no bound.
        """
        found = _rounding(lift(self.score)[0], lift(self.score)[1], between)
        return None if found is None else 1.01 * found[0] + _LEAST

    def _columns(self) -> list[str]:
        return [f"{side}.{i}" for i in range(len(self.leaves)) for side in "ab"]

    def _named(self, text: str, a: str, b: str) -> str:
        def name(match: re.Match[str]) -> str:
            number = int(match[1])
            return f"{(a, b)[number % 2]}{number // 2}"

        return re.sub(r"\bp\[(\d+)\]", r"p\1", re.sub(r"\bx(\d+)\b", name, text))


def turned(e: Expression) -> Expression:
    """Return the same expression with a and b exchanged."""
    if isinstance(e, Column):
        return Column(e.name, "b" if e.side == "a" else "a", e.place)
    return nodes.rebuild(e, tuple(map(turned, nodes.children(e))))


class _Unfit(Exception):
    """A comparison that needs the columns themselves."""


def pairing(
    score: Expression, where: Expression | None, same: tuple[str, ...], schema: pa.Schema
) -> Pairing | None:
    """Split score and predicate for rows of these types; return None where leaves are not enough."""
    builder = _Builder(schema)
    rest = nodes.all_of([term for term in nodes.conjuncts(where) if not _is_colour(term, same)])
    try:
        tree = builder.number(score)
        condition = None if rest is None else builder.condition(rest)
    except _Unfit:
        return None
    found = Pairing(tuple(builder.leaves), tree, condition, same, False)
    return replace(found, rendered=render(lift(tree)[0], found._columns()) is not None)


def leaf_score(score: Expression) -> Expression:
    """Return the score over leaves, for columns of any type."""
    return _Builder(pa.schema([])).number(score)


def _is_colour(term: Expression, same: tuple[str, ...]) -> bool:
    match term:
        case Compare("=", Column(left, one), Column(right, other)):
            return left == right and left in same and one != other
        case _:
            return False


def _sides(e: Expression) -> set[str | None]:
    return {node.side for node in nodes.walk(e) if isinstance(node, Column)}


def _stripped(e: Expression) -> Expression:
    """Return an expression of one row without its side."""
    if isinstance(e, Column):
        return Column(e.name, None, e.place)
    return nodes.rebuild(e, tuple(map(_stripped, nodes.children(e))))


class _Builder:
    """Collects the leaves of a tree."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.leaves: list[Leaf] = []

    def leaf(self, kind: str, e: Expression) -> Column:
        (side,) = _sides(e)
        leaf = Leaf(kind, _stripped(e))
        if leaf not in self.leaves:
            self.leaves.append(leaf)
        return Column(str(self.leaves.index(leaf)), side)

    def number(self, e: Expression) -> Expression:
        sides = _sides(e)
        if len(sides) == 1:
            return self.leaf("number", e)
        if not sides:
            return e
        return nodes.rebuild(e, tuple(map(self.number, nodes.children(e))))

    def condition(self, e: Expression) -> Expression:
        if len(_sides(e)) == 1:
            return self.leaf("flag", e)
        if isinstance(e, Compare):
            return self._compare(e)
        return nodes.rebuild(e, tuple(map(self.condition, nodes.children(e))))

    def _compare(self, e: Compare) -> Expression:
        kinds = {self._kind(e.left), self._kind(e.right)}
        if kinds <= {"float", "constant"} and all(map(_plain_literal, (e.left, e.right))):
            return Compare(e.op, self.number(e.left), self.number(e.right))
        if len(kinds) == 1 and isinstance(e.left, Column) and isinstance(e.right, Column):
            (kind,) = kinds
            if kind == "whole" or kind.startswith("time "):
                return Compare(e.op, self.leaf("exact", e.left), self.leaf("exact", e.right))
            if e.op in ("=", "<>") and e.left.name == e.right.name:
                return Compare(e.op, self.leaf("code", e.left), self.leaf("code", e.right))
        if isinstance(e.left, Column) and isinstance(e.right, Column):
            ranked = _ranked(self._type(e.left))
            if ranked is not None and ranked == _ranked(self._type(e.right)):
                return Compare(e.op, self.leaf(ranked, e.left), self.leaf(ranked, e.right))
        raise _Unfit

    def _kind(self, e: Expression) -> str:
        """Return the kind of value that a side of a comparison is compared as."""
        if nodes.literal(e) is not None:
            return "constant"
        types = {node.name: self._type(node) for node in nodes.walk(e) if isinstance(node, Column)}
        if isinstance(e, Column):
            (type_,) = types.values()
            if pa.types.is_floating(type_):
                return "float"
            if (pa.types.is_integer(type_) and type_ != pa.uint64()) or pa.types.is_boolean(type_):
                return "whole"
            timed = pa.types.is_timestamp(type_) or pa.types.is_date(type_)
            return f"time {type_}" if timed else "other"
        # an expression of integers alone is compared exactly, see integer_arithmetic
        return "float" if any(not pa.types.is_integer(type_) for type_ in types.values()) else "other"

    def _type(self, column: Column) -> pa.DataType:
        type_ = self.schema.field(column.name).type
        return type_.value_type if pa.types.is_dictionary(type_) else type_


def _ranked(type_: pa.DataType) -> str | None:
    """Return among which values those of a column of this type have a rank, or None."""
    kinds = pa.types
    if any(is_kind(type_) for is_kind in (kinds.is_integer, kinds.is_floating, kinds.is_decimal)):
        return "numbers"
    texts = (kinds.is_string, kinds.is_large_string, kinds.is_binary, kinds.is_large_binary)
    return "bytes" if any(is_kind(type_) for is_kind in texts) else None


def _plain_literal(e: Expression) -> bool:
    """Whether the literal can be compared with a float64 as its nearest float64."""
    value = nodes.literal(e)
    if not isinstance(value, int):
        return True
    near = nodes.as_float(value)
    return near not in (float("inf"), float("-inf")) and int(near) == value


def _condition(e: Expression, pairing: Pairing) -> str:
    """Return a condition over leaves as source without branches."""
    columns = pairing._columns()
    match e:
        case nodes.Truth(value):
            return str(value)
        case nodes.Not(operand):
            return f"(not {_condition(operand, pairing)})"
        case nodes.And(args):
            return "(" + " & ".join(_condition(arg, pairing) for arg in args) + ")"
        case nodes.Or(args):
            return "(" + " | ".join(_condition(arg, pairing) for arg in args) + ")"
        case nodes.Column():
            return f"({render(e, columns)} != 0)"
        case nodes.Compare(op, left, right):
            return f"({render(left, columns)} {_OPERATORS[op]} {render(right, columns)})"
        case _:
            raise TypeError(f"{type(e).__name__} is not a condition")


def renders(pairing: Pairing) -> bool:
    """Whether score and condition can be written as source."""
    if not pairing.rendered:
        return False
    parts = [node for node in nodes.walk(pairing.where) if isinstance(node, Compare)] if pairing.where else []
    columns = pairing._columns()
    return all(render(side, columns) is not None for part in parts for side in (part.left, part.right))


def _settled(e: Expression) -> Expression:
    """Return the tree with a fixed order of the operands that can be exchanged without changing a bit."""
    parts = tuple(map(_settled, nodes.children(e)))
    match e:
        case nodes.Arithmetic("+" | "*"):
            parts = tuple(sorted(parts, key=repr))
        case nodes.Call("abs") if isinstance(parts[0], nodes.Arithmetic) and parts[0].op == "-":
            parts = (_difference(parts[0]),)
        case nodes.Arithmetic("^") if nodes.literal(parts[1]) == 2:
            inner = parts[0]
            if isinstance(inner, nodes.Arithmetic) and inner.op == "-":
                parts = (_difference(inner), parts[1])
        case nodes.Call("dist"):
            half = len(parts) // 2
            ends = [sorted(both, key=repr) for both in zip(parts[:half], parts[half:], strict=True)]
            parts = (*(one for one, _ in ends), *(other for _, other in ends))
    return nodes.rebuild(e, parts)


def _difference(e: nodes.Arithmetic) -> Expression:
    """Return x - y or y - x, the first in order: their absolute values are equal."""
    left, right = sorted((e.left, e.right), key=repr)
    return nodes.Arithmetic("-", left, right)


def _rounding(
    e: Expression, constants: tuple[float, ...], between: dict[int, tuple[float, float]]
) -> tuple[float, float] | None:
    """Return (error, size): how far an expression in float32 can be from its value, and how large this is; or None."""

    def rounded(error: float, size: float) -> tuple[float, float] | None:
        return (error + (size + error) * _EPSILON + _LEAST, size) if size <= _LARGEST else None

    parts = [_rounding(part, constants, between) for part in nodes.children(e)]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    match e:
        case Column():
            return rounded(0.0, max(map(abs, between[int(e.name)])))
        case nodes.Parameter(i):
            return rounded(0.0, abs(constants[i]))
        case nodes.Number():  # an exponent
            return 0.0, 0.0
        case nodes.Negate() | nodes.Call("abs"):
            return known[0]
        case nodes.Arithmetic("-", Column(one), Column(other)) if one == other:  # at most the leaf's range
            low, high = between[int(one)]
            return rounded(known[0][0] + known[1][0], high - low)
        case nodes.Arithmetic("+" | "-"):
            return rounded(known[0][0] + known[1][0], known[0][1] + known[1][1])
        case nodes.Arithmetic("*"):
            return _product(known[0], known[1], rounded)
        case nodes.Arithmetic("^") if nodes.literal(e.right) == 2 and known:
            return _product(known[0], known[0], rounded)
        case nodes.Call("least" | "greatest"):
            return max(error for error, _ in known), max(size for _, size in known)
        case _:
            return None


def _product(x: tuple[float, float], y: tuple[float, float], rounded: object) -> tuple[float, float] | None:
    error = x[1] * y[0] + y[1] * x[0] + x[0] * y[0]
    return rounded(error, x[1] * y[1])  # type: ignore[operator, no-any-return]
