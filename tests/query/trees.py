"""Random expressions, and a source of columns to evaluate them on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st

from skyband.query.expression import (
    Arithmetic,
    Call,
    Column,
    Compare,
    Expression,
    Not,
    Number,
    Text,
    Truth,
    nodes,
)
from skyband.query.expression.nodes import all_of, any_of, negate
from skyband.query.expression.source import decoded

COLUMNS = ("x", "y", "z")
many = settings(max_examples=max(200, settings.default.max_examples))  # type: ignore[union-attr]


class Rows:
    """A Source over Arrow columns, as the monitor has one."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self.columns = {name: pa.array(values) if not isinstance(values, pa.Array) else values
                        for name, values in columns.items()}  # fmt: skip

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def array(self, name: str) -> pa.Array:
        return self.columns[name]

    def number(self, name: str) -> np.ndarray:
        array = decoded(self.columns[name])
        if pa.types.is_timestamp(array.type):
            unit = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[array.type.unit]
            return array.cast(pa.int64()).to_numpy(zero_copy_only=False) / unit
        if pa.types.is_date32(array.type):
            return array.cast(pa.int32()).to_numpy(zero_copy_only=False) * 86400.0
        return np.ascontiguousarray(array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, array.type) for name, array in self.columns.items()])


TRICKY = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, math.inf, -math.inf, 1e308, -1e308, 5e-324, 1e-200, 3.0, -2.5)
values = st.one_of(st.sampled_from(TRICKY), st.floats(allow_nan=False))
with_nan = st.one_of(values, st.just(math.nan))
literals = st.one_of(
    st.integers(-5, 5),
    st.floats(allow_nan=False, min_value=-10, max_value=10),
    st.sampled_from([10**30, 1e300, 1e-300, 9007199254740993, 0.1]),
)
numbers = literals.map(lambda v: Number(v) if v > 0 or v == 0 else negate(Number(-v)))
columns = st.sampled_from(COLUMNS).map(Column)


def arithmetic(inner: st.SearchStrategy[Expression], exact: bool = False) -> st.SearchStrategy[Expression]:
    """One more node over the inner ones; `exact` leaves out what libraries round as they like."""
    one = ("abs", "sign", "sqrt") if exact else ("abs", "sign", "sqrt", "exp", "ln")
    exponents = [Number(n) for n in (0, 1, 2, 3, 4, 0.5, 1.5, -1, -2, -0.5)]
    powers = st.just(Number(2)) if exact else st.one_of(st.sampled_from(exponents), inner)
    return st.one_of(
        st.builds(Arithmetic, st.sampled_from("+-*/"), inner, inner),
        st.builds(lambda base, n: Arithmetic("^", base, n), inner, powers),
        inner.map(negate),
        st.builds(lambda name, arg: Call(name, (arg,)), st.sampled_from(one), inner),
        st.builds(
            lambda name, args: Call(name, tuple(args)),
            st.sampled_from(("least", "greatest")),
            st.lists(inner, min_size=1, max_size=3),
        ),
        st.lists(inner, min_size=1, max_size=2).flatmap(
            lambda xs: st.lists(inner, min_size=len(xs), max_size=len(xs)).map(
                lambda ps: Call("dist", (*xs, *ps))
            )
        ),
    )


def scores(exact: bool = False, leaves: int = 8) -> st.SearchStrategy[Expression]:
    base: st.SearchStrategy[Expression] = st.one_of(columns, numbers)
    return st.recursive(base, lambda inner: arithmetic(inner, exact), max_leaves=leaves)


texts = st.one_of(
    st.sampled_from(["", "a", "it's", 'say "hi"', "-- no comment", "ORDER BY", "ü"]), st.text(max_size=5)
)
names = st.one_of(
    st.sampled_from(
        [
            "x",
            "window",
            "rows",
            "date",
            "order by",
            "SELECT",
            'a"b',
            "a.b",
            "größe",
            "1st",
            "limit",
            "n",
            "sum",
        ]
    ),
    st.text(min_size=1, max_size=6).filter(lambda s: "\0" not in s and s.isprintable()),
)


def any_expressions(leaves: int = 8) -> st.SearchStrategy[Expression]:
    """Anything the grammar can say, whether its kinds fit or not."""
    leaf = st.one_of(
        numbers, names.map(Column), texts.filter(str.isprintable).map(Text), st.booleans().map(Truth)
    )

    def more(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        terms = st.lists(inner, min_size=2, max_size=3)
        return st.one_of(
            arithmetic(inner),
            st.builds(Compare, st.sampled_from(["<", "<=", ">", ">=", "=", "<>"]), inner, inner),
            terms.map(all_of),
            terms.map(any_of),
            inner.map(Not),
        )

    return st.recursive(leaf, more, max_leaves=leaves)


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    """Equal to the last bit, the sign of zero included; one NaN is as good as another."""
    nan = np.isnan(left)
    if not np.array_equal(nan, np.isnan(right)):
        return False
    return bool(np.array_equal(left[~nan].view(np.int64), right[~nan].view(np.int64)))


assert nodes.MAX_DEPTH > 100, "the trees here are far from the limit"
