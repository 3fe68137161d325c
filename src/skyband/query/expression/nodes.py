"""The expression tree.

A score or a predicate is a small tree of frozen nodes. Equal trees mean the same computation, to the last bit, so they
can be keys of a dictionary: watches whose scores and predicates are equal share their state. The grammar makes trees
from text, and programs make them from nodes; the other operations (evaluate, check, bound, direction, lift, render)
are functions over trees, each in its own module.

A Number keeps what the user wrote: an int of any size, a float, or a Decimal where no float is exact. Comparisons with
integer and decimal columns use the exact value, arithmetic uses the nearest float64. Pow is the operator `^`, so
`pow(x, 2)` and `x ^ 2` are the same node. And and Or have any number of terms, so that a long IN list is wide and not
deep.
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
"""The parser refuses deeper trees, so that no recursive function over a tree can exhaust the stack."""

AGGREGATES = ("sum", "count", "max")
MIRROR = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
"""`a op b` is `b MIRROR[op] a`."""

FUNCTIONS = ("abs", "sign", "sqrt", "exp", "ln", "least", "greatest", "dist")


@dataclass(frozen=True, slots=True)
class Number:
    """A numeric literal."""

    value: int | float | Decimal

    def __post_init__(self) -> None:
        if self.value != self.value:
            raise QueryError("NaN is not a number that a query can use; give a number or an infinity.")
        if isinstance(self.value, float) and self.value == 0.0 and math.copysign(1.0, self.value) < 0:
            # -0.0 == 0.0, so two equal trees would differ in 1/x; Negate(Number(0)) represents -0.0
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
        """The column's name in a source: `x`, or `a.x` with a side."""
        return self.name if self.side is None else f"{self.side}.{self.name}"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number that `lift` took out of the tree; the caller of `evaluate` gives its value."""

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
    """Return the node's operands, from left to right."""
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
    """Return the same node with other operands."""
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
    """Yield every node of the tree, a node before its operands, from left to right; without recursion."""
    stack = [e]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def depth(e: Expression) -> int:
    """Return the number of nodes on the longest path from the root to a leaf; without recursion."""
    deepest = 0
    stack = [(e, 1)]
    while stack:
        node, level = stack.pop()
        deepest = max(deepest, level)
        stack.extend((child, level + 1) for child in children(node))
    return deepest


def columns_of(e: Expression | None) -> tuple[str, ...]:
    """Return the distinct names of the columns that an expression uses, sorted (with a side: `a.x`)."""
    if e is None:
        return ()
    return tuple(sorted({node.key for node in walk(e) if isinstance(node, Column)}))


def negate(e: Expression) -> Expression:
    """Return -e, as a Number if e is one. A zero stays a Negate, since division distinguishes -0.0 from 0.0."""
    if isinstance(e, Number) and e.value != 0:
        return Number(-e.value)
    return Negate(e)


def conjuncts(e: Expression | None) -> tuple[Expression, ...]:
    """Return the terms of a top-level AND, any other expression as the only term, and () for None."""
    if e is None:
        return ()
    return e.args if isinstance(e, And) else (e,)


def all_of(terms: tuple[Expression, ...] | list[Expression]) -> Expression | None:
    """Return the AND of the terms, flat; None for no terms."""
    flat = [part for term in terms for part in conjuncts(term)]
    if not flat:
        return None
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def any_of(terms: list[Expression]) -> Expression:
    """Return the OR of at least one term, flat."""
    flat = [part for term in terms for part in (term.args if isinstance(term, Or) else (term,))]
    return flat[0] if len(flat) == 1 else Or(tuple(flat))


def as_float(value: int | float | Decimal) -> float:
    """Return the nearest float64 of a literal; beyond the range an infinity, as in IEEE 754."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def literal(e: Expression) -> int | float | Decimal | None:
    """Return the exact value of a number as written, with its sign; None for any other expression."""
    if isinstance(e, Number):
        return e.value
    if isinstance(e, Negate) and isinstance(e.operand, Number):
        return -e.operand.value
    return None
