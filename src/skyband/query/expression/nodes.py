"""The expression tree.

A score or a predicate is a small tree of frozen nodes. Two trees that are equal mean the same computation, to
the last bit, so they can be keys of a dictionary: watches whose score and predicate are equal share their
state. The trees are built by the grammar (from text) or by hand, and everything else (evaluate, check, bound,
direction, lift, render) is a function over them in a module of its own.

A Number keeps what the user wrote: an int of any size, a float, or, where a float would not say it exactly, a
Decimal. Comparisons with integer and decimal columns use the exact value, arithmetic its nearest float64.
Pow is the operator `^`, so `pow(x, 2)` and `x ^ 2` are one node. And and Or hold any number of terms, so that
a long IN list is wide and not deep.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal

from skyband.core.errors import QueryError

Place = tuple[int, int]
"""Line and column in the text that an expression came from, both counted from 1."""

MAX_DEPTH = 200
"""Trees deeper than this are refused, so that no recursive function over them can run out of stack."""

AGGREGATES = ("sum", "count", "max")
MIRROR = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
"""`a op b` is `b MIRROR[op] a`."""

FUNCTIONS = ("abs", "sqrt", "exp", "ln", "least", "greatest", "dist")


@dataclass(frozen=True, slots=True)
class Number:
    """A numeric literal."""

    value: int | float | Decimal

    def __post_init__(self) -> None:
        if self.value != self.value:
            raise QueryError("NaN is not a number that a query can use; give a number or an infinity.")
        if isinstance(self.value, float) and self.value == 0.0 and math.copysign(1.0, self.value) < 0:
            # -0.0 == 0.0 would make two trees equal that 1/x tells apart; Negate(Number(0)) says it instead.
            object.__setattr__(self, "value", 0.0)


@dataclass(frozen=True, slots=True)
class Truth:
    """TRUE or FALSE."""

    value: bool


@dataclass(frozen=True, slots=True)
class Text:
    """A string literal."""

    value: str
    place: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the stream; `side` is "a" or "b" in pairs, the stream's name in joined queries."""

    name: str
    side: str | None = None
    place: Place | None = field(default=None, compare=False, repr=False)

    @property
    def key(self) -> str:
        """The name a source is asked for: `x`, or `a.x` with a side."""
        return self.name if self.side is None else f"{self.side}.{self.name}"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number that was lifted out of the tree; its value comes with the evaluation."""

    index: int


@dataclass(frozen=True, slots=True)
class Negate:
    operand: Expression


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`op` is one of + - * / ^."""

    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Compare:
    """`op` is one of < <= > >= = <>."""

    op: str
    left: Expression
    right: Expression
    place: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class And:
    args: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    args: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Not:
    operand: Expression


@dataclass(frozen=True, slots=True)
class Call:
    """A function of FUNCTIONS, or in grouped queries one of AGGREGATES (COUNT(*) has no arguments)."""

    name: str
    args: tuple[Expression, ...]
    place: Place | None = field(default=None, compare=False, repr=False)


Expression = (
    Number | Truth | Text | Column | Parameter | Negate | Arithmetic | Compare | And | Or | Not | Call
)


def children(e: Expression) -> tuple[Expression, ...]:
    """The node's operands, from left to right."""
    match e:
        case Negate(operand) | Not(operand):
            return (operand,)
        case Arithmetic(_, left, right) | Compare(_, left, right):
            return (left, right)
        case And(args) | Or(args) | Call(_, args):
            return args
        case _:
            return ()


def rebuild(e: Expression, parts: tuple[Expression, ...]) -> Expression:
    """The same node over other operands."""
    match e:
        case Negate():
            return Negate(parts[0])
        case Not():
            return Not(parts[0])
        case Arithmetic(op):
            return Arithmetic(op, parts[0], parts[1])
        case Compare(op):
            return Compare(op, parts[0], parts[1], e.place)
        case And():
            return And(parts)
        case Or():
            return Or(parts)
        case Call(name):
            return Call(name, parts, e.place)
        case _:
            return e


def walk(e: Expression) -> Iterator[Expression]:
    """Every node of the tree, a node before its operands, from left to right; without recursion."""
    stack = [e]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def depth(e: Expression) -> int:
    """The number of nodes on the longest way from the root to a leaf; without recursion."""
    deepest = 0
    stack = [(e, 1)]
    while stack:
        node, level = stack.pop()
        deepest = max(deepest, level)
        stack.extend((child, level + 1) for child in children(node))
    return deepest


def columns_of(e: Expression | None) -> tuple[str, ...]:
    """The names of the columns that an expression uses, sorted and distinct (with a side: `a.x`)."""
    if e is None:
        return ()
    return tuple(sorted({node.key for node in walk(e) if isinstance(node, Column)}))


def negate(e: Expression) -> Expression:
    """-e, as a number where it is one. A zero stays a Negate: -0.0 is not 0.0 to a division."""
    if isinstance(e, Number) and e.value != 0:
        return Number(-e.value)
    return Negate(e)


def conjuncts(e: Expression | None) -> tuple[Expression, ...]:
    """The terms of the top-level AND; of any other expression itself; of none nothing."""
    if e is None:
        return ()
    return e.args if isinstance(e, And) else (e,)


def all_of(terms: tuple[Expression, ...] | list[Expression]) -> Expression | None:
    """The AND of the terms, flat; None of none."""
    flat = [part for term in terms for part in conjuncts(term)]
    if not flat:
        return None
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def any_of(terms: list[Expression]) -> Expression:
    """The OR of at least one term, flat."""
    flat = [part for term in terms for part in (term.args if isinstance(term, Or) else (term,))]
    return flat[0] if len(flat) == 1 else Or(tuple(flat))


def as_float(value: int | float | Decimal) -> float:
    """The nearest float64 of a literal; beyond the range an infinity, as IEEE has it."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def literal(e: Expression) -> int | float | Decimal | None:
    """The exact value of a number as written, also with a sign before it; None for anything else."""
    if isinstance(e, Number):
        return e.value
    if isinstance(e, Negate) and isinstance(e.operand, Number):
        return -e.operand.value
    return None
