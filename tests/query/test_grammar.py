"""What a text means: precedence, literals, names, and the forms that stand for others."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from tests.query.trees import Rows, any_expressions, many

from skyband.core.errors import QueryError
from skyband.query.expression import (
    And,
    Arithmetic,
    Column,
    Compare,
    Negate,
    Not,
    Number,
    Or,
    Text,
    Truth,
    columns_of,
    evaluate,
    expression_text,
    parse_expression,
)

ONE = Rows({"x": [3.0], "y": [4.0], "t": [True]})


def value(text: str) -> float:
    return float(evaluate(parse_expression(text), ONE)[0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-2^2", -4),
        ("(-2)^2", 4),
        ("2^3^2", 512),
        ("2^-1", 0.5),
        ("2^-2^2", 2.0**-4),
        ("-x^2", -9),
        ("2*x^2", 18),
        ("1 - 2 - 3", -4),
        ("8 / 4 / 2", 1),
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("- -3", 3),
        ("+3", 3),
        ("2 * -3", -6),
        (".5 + 5.", 5.5),
        ("1e-3 * 1E3", 1),
        ("pow(x, 2)", 9),
        ("POWER", None),
        ("dist(x, y, 0, 0)", 5),
        ("least(x, y, 1)", 1),
        ("Greatest(x, y)", 4),
        ("abs(-x) + sqrt(y) + exp(0) + ln(1)", 6),
        ("x -- a comment\n + 1", 4),
        ("x /* another */ + 1", 4),
    ],
)
def test_numbers(text: str, expected: float | None) -> None:
    if expected is None:
        assert parse_expression(text) == Column(text)
    else:
        assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("x BETWEEN 1 AND 2 AND y = 3", "(x >= 1 AND x <= 2) AND y = 3"),
        ("x NOT BETWEEN 1 AND 2", "NOT (x >= 1 AND x <= 2)"),
        ("x IN (1, 2)", "x = 1 OR x = 2"),
        ("x NOT IN (1)", "NOT x = 1"),
        ("x != 1", "x <> 1"),
        ("x == 1", "x = 1"),
        ("NOT x = 1 AND y = 2", "(NOT x = 1) AND y = 2"),
        ("x = 1 OR y = 2 AND x = 3", "x = 1 OR (y = 2 AND x = 3)"),
        ("x < y + 1", "x < (y + 1)"),
        ("TIMESTAMP '2024-01-01' < x", "'2024-01-01' < x"),
        ("DATE '2024-01-01' < date", "'2024-01-01' < \"date\""),
        ("`x` + 1", '"x" + 1'),
        ("pow(x, y)", "x ^ y"),
    ],
)
def test_stands_for(text: str, same: str) -> None:
    assert parse_expression(text) == parse_expression(same)


def test_nodes() -> None:
    assert parse_expression('a.x - "b c"."d""e"') == Arithmetic("-", Column("x", "a"), Column('d"e', "b c"))
    assert parse_expression("name = 'it''s'") == Compare("=", Column("name"), Text("it's"))
    assert parse_expression("TRUE OR NOT false") == Or((Truth(True), Not(Truth(False))))
    assert parse_expression("1 < x AND x < 2 AND t") == And(
        (Compare("<", Number(1), Column("x")), Compare("<", Column("x"), Number(2)), Column("t"))
    )
    assert columns_of(parse_expression("b + a.x * b - 'c'")) == ("a.x", "b")
    # -0 must stay apart from 0, since 1/x tells them apart
    assert parse_expression("-0") == Negate(Number(0))
    assert parse_expression("-5") == Number(-5)


@pytest.mark.parametrize(
    "name",
    [
        "window",
        "rows",
        "date",
        "time",
        "timestamp",
        "show",
        "left",
        "index",
        "format",
        "call",
        "array",
        "interval",
    ],
)
def test_words_of_other_clauses_are_columns(name: str) -> None:
    assert parse_expression(name) == Column(name)
    assert parse_expression(f"{name} * 2 + {name}") == parse_expression(f'"{name}" * 2 + "{name}"')


def test_literals_keep_what_was_written() -> None:
    assert parse_expression("9007199254740993") == Number(9007199254740993)
    assert parse_expression("9007199254740992.5") == Number(Decimal("9007199254740992.5"))
    assert isinstance(parse_expression("0.1"), Number)
    assert parse_expression("0.1").value == 0.1  # type: ignore[union-attr]
    assert type(parse_expression("5").value) is int  # type: ignore[union-attr]
    assert parse_expression("1e999") == Number(float("inf"))
    assert parse_expression("1e-999") == Number(0.0)
    assert value("1" + "0" * 400) == np.inf
    assert value("-1" + "0" * 400) == -np.inf


@many
@given(any_expressions(12))
def test_text_reads_back_as_the_same_tree(e: object) -> None:
    text = expression_text(e)  # type: ignore[arg-type]
    assert parse_expression(text) == e
    assert expression_text(parse_expression(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + "x" + ")" * 10_000,
        "- " * 10_000 + "x",
        "abs(" * 10_000,
        "+".join(["x"] * 10_000),
        "^".join(["x"] * 10_000),
    ],
)
def test_depth_is_an_error_and_not_a_crash(text: str) -> None:
    with pytest.raises(QueryError, match="simplify it"):
        parse_expression(text)


def test_wide_is_not_deep() -> None:
    e = parse_expression("x IN (" + ", ".join(str(n) for n in range(2000)) + ")")
    assert evaluate(e, ONE).tolist() == [True]
    e = parse_expression(" AND ".join(["x > 1"] * 2000))
    assert evaluate(e, ONE).tolist() == [True]
    assert value(" + ".join(["x"] * 150)) == 450


def test_places() -> None:
    with pytest.raises(QueryError) as caught:
        parse_expression("x +\n  y * * 2")
    error = caught.value
    assert error.place == (2, 5)
    assert error.caret() == "  y * * 2\n    ^"
