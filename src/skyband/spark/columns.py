"""Our expressions in Spark's SQL, for a test that rows have to pass before they come to Python.

The test may err on one side only: what it lets pass is looked at again by the engine, what it rejects is gone. So
nothing is translated that Spark could compute otherwise than we do. Sums, products, quotients, roots and amounts of
float64 are the same to the last bit in the JVM, and a null in a column keeps a row out there as it does here. What is
not the same is left out or let pass:

- Spark's NaN is greater than all numbers and its `least` passes over nulls; here a score with a NaN in it is none, so
  neither matters.
- Spark divides by zero with an error, or a null; a row whose divisor is zero passes.
- `exp`, `ln` and powers other than squares may round differently: such a score can't be tested there at all.
- Of a predicate only the terms of its AND are taken that compare something with a number, or a text for equality, and
  with `>=` for `>`: rounding a long integer to float64 keeps the order, but not the difference.
- A comparison computes sums of integers exactly (query/expression/integer_arithmetic.py), Spark's test in float64,
which may lose all of a
  difference: a row passes if a number in such a sum is so large that float64 doesn't have every integer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from skyband.query.expression import nodes
from skyband.query.expression.nodes import Expression, as_float, conjuncts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Types = Mapping[str, pa.DataType]
AT = "__skyband_at"  # what our own columns beside the rows' begin with; by itself, a row's index or offset
_LOOSE = 1e-12  # of a bound: far more than any rounding, far less than matters
_WHOLE = 2.0**53  # float64 has every integer below this
_MOST_PARTS = 8  # of a sum of integers, each of which is tested
_BACK = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
_SPARK = {
    pa.float64(): "double", pa.float32(): "float", pa.int64(): "bigint", pa.int32(): "int", pa.int16(): "smallint",
    pa.int8(): "tinyint", pa.bool_(): "boolean", pa.string(): "string", pa.date32(): "date",
}  # fmt: skip


class Unfit(Exception):
    """Spark might not compute it as we do."""


def quoted(name: str) -> str:
    """A column by its name, whatever it has in it."""
    return "`" + name.replace("`", "``") + "`"


def numbered_columns(df: DataFrame, names: list[str]) -> DataFrame:
    """These columns under names that `mapInArrow` knows what to do with: it takes a dot or a backtick in one amiss."""
    return df.select(*map(quoted, names)).toDF(*(f"c{number}" for number in range(len(names))))


def float_text(value: float) -> str:
    """A float64, to the last bit."""
    if value in (float("inf"), float("-inf")):
        return f"double('{'-' if value < 0 else ''}Infinity')"
    return f"({float(value)!r}D)"


def spark_type(kind: pa.DataType) -> str | None:
    """The type in which Spark reads a column without a change; None if it may be another."""
    if pa.types.is_timestamp(kind) and kind.unit in ("ms", "us"):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    return _SPARK.get(kind)


def number_of(name: str, types: Types) -> str:
    """A column as float64, where Spark and we make the same of its values."""
    kind = types.get(name)
    if kind == pa.float64():
        return quoted(name)
    if kind not in (pa.float32(), pa.int64(), pa.int32(), pa.int16(), pa.int8()):
        raise Unfit(name)
    return f"CAST({quoted(name)} AS double)"


def reaches(
    shape: Expression,
    constants: Sequence[float],
    sign: float,
    bar: float,
    types: Types,
    write: Callable[[float], str] = float_text,
) -> str:
    """Whether a score, turned so that more is better, may reach a bar, which is written down by `write`."""
    score, doubts = _score(shape, constants, types)
    return _beyond(">=" if sign > 0 else "<=", score, sign * bar, doubts, write)


def may_hold(where: Expression | None, types: Types) -> str | None:
    """What of a predicate can be told of a row by Spark; None if nothing can."""
    found = []
    for term in conjuncts(where):
        try:
            told = _term(term, types)
        except Unfit:
            continue
        if told is not None:
            found.append(told)
    return f"({' AND '.join(found)})" if found else None


def _term(term: Expression, types: Types) -> str | None:
    if not isinstance(term, nodes.Compare):
        return None
    left, right, op = term.left, term.right, term.op
    if isinstance(left, nodes.Text) or nodes.literal(left) is not None:
        left, right, op = right, left, _BACK[op]
    if isinstance(right, nodes.Text):
        if not isinstance(left, nodes.Column) or types.get(left.key) != pa.string() or op != "=":
            return None
        return f"({quoted(left.key)} = decode(X'{right.value.encode().hex()}', 'UTF-8'))"
    bound = nodes.literal(right)
    if bound is None or op == "<>":
        return None
    score, doubts = _score(left, (), types)
    if sums_integers(left, types):
        large = _too_large(left, types)
        if large is None:
            return None
        doubts += large
    if op == "=":
        both = [_beyond(side, score, as_float(bound), doubts) for side in (">=", "<=")]
        return f"({' AND '.join(both)})"
    return _beyond(">=" if op in (">", ">=") else "<=", score, as_float(bound), doubts)


def sums_integers(e: Expression, types: Types) -> bool:
    """Whether a comparison computes it as a sum of integers, without rounding."""
    return _is_integer(e, types) and any(_is_sum(part) for part in nodes.walk(e))


def _is_sum(e: Expression) -> bool:
    return isinstance(e, nodes.Arithmetic) and e.op in ("+", "-")


def _is_integer(e: Expression, types: Types) -> bool:
    match e:
        case nodes.Column():
            return e.key in types and bool(pa.types.is_integer(types[e.key]))
        case nodes.Number(value):
            return isinstance(value, int)
        case nodes.Negate() | nodes.Arithmetic("+" | "-" | "*") | nodes.Call("abs" | "least" | "greatest"):
            return all(_is_integer(part, types) for part in nodes.children(e))
        case _:
            return False


def _too_large(e: Expression, types: Types) -> list[str] | None:
    """When float64 may round a sum of integers, or a part of it; None if that can't be told."""
    parts = dict.fromkeys(nodes.walk(e))
    if any(isinstance(part, nodes.Number) and abs(as_float(part.value)) >= _WHOLE for part in parts):
        return None
    told = [part for part in parts if isinstance(part, nodes.Column | nodes.Arithmetic)]
    if len(told) > _MOST_PARTS:
        return None
    return [f"abs({_score(part, (), types)[0]}) >= {float_text(_WHOLE)}" for part in told]


def _beyond(
    op: str, score: str, bound: float, doubts: list[str], write: Callable[[float], str] = float_text
) -> str:
    return f"({' OR '.join([f'{score} {op} {write(loosened(op, bound))}', *doubts])})"


def loosened(op: str, bound: float) -> float:
    """A bound moved by far more than any rounding, so that it lets more pass."""
    loose = _LOOSE * abs(bound) if abs(bound) < float("inf") else 0.0
    return bound - loose if op == ">=" else bound + loose


def _score(e: Expression, constants: Sequence[float], types: Types) -> tuple[str, list[str]]:
    """A number of each row, and when it can't be told."""
    doubts: list[str] = []
    return _number(e, constants, types, doubts), doubts


def _number(e: Expression, constants: Sequence[float], types: Types, doubts: list[str]) -> str:
    def number(part: Expression) -> str:
        return _number(part, constants, types, doubts)

    match e:
        case nodes.Column():
            return number_of(e.key, types)
        case nodes.Number(value):
            return float_text(as_float(value))
        case nodes.Parameter(index):
            return float_text(float(constants[index]))
        case nodes.Negate(operand):
            return f"(- {number(operand)})"
        case nodes.Arithmetic("^", base, exponent) if nodes.literal(exponent) == 2:
            return f"({number(base)} * {number(base)})"
        case nodes.Arithmetic(("+" | "-" | "*") as op, left, right):
            return f"({number(left)} {op} {number(right)})"
        case nodes.Arithmetic("/", left, right):
            divisor = number(right)
            doubts.append(f"{divisor} = 0.0D")
            return f"try_divide({number(left)}, {divisor})"
        case nodes.Call(("least" | "greatest") as name, args) if len(args) > 1:
            return f"{name}({', '.join(number(arg) for arg in args)})"
        case nodes.Call(("abs" | "sqrt") as name, (arg,)):
            return f"{name}({number(arg)})"
        case nodes.Call("dist", args):
            half = len(args) // 2
            gaps = [f"({number(x)} - {number(p)})" for x, p in zip(args[:half], args[half:], strict=True)]
            return f"sqrt({' + '.join(f'{gap} * {gap}' for gap in gaps)})"
        case _:
            raise Unfit(type(e).__name__)
