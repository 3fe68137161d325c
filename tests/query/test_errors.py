"""What is said about a wrong query, to the letter: tests/query/golden holds each with its sentence."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from skyband.core.errors import InputError, QueryError, SkybandError
from skyband.query.expression import check, nodes, parse_expression
from skyband.query.sql.parser import parse

GOLDEN = Path(__file__).parent / "golden"
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "price": pa.float64(),
        "name": pa.string(),
        "ts": pa.timestamp("us"),
        "ok": pa.bool_(),
        "blob": pa.binary(),
        "day": pa.date32(),
        "tags": pa.list_(pa.string()),
    }
)


def golden(name: str) -> list[tuple[str, str]]:
    """Pairs of lines: the wrong text, and below it, indented, what is said about it."""
    lines = (GOLDEN / name).read_text("utf-8").splitlines()
    return [(text, said.strip()) for text, said in zip(lines[::2], lines[1::2], strict=True)]


@pytest.mark.parametrize(("sql", "said"), golden("sql.txt"))
def test_sql(sql: str, said: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(sql)
    assert str(caught.value) == said


@pytest.mark.parametrize(("text", "said"), golden("check.txt"))
def test_check(text: str, said: str) -> None:
    with pytest.raises(QueryError) as caught:
        check(parse_expression(text), SCHEMA)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("text", "kind"),
    [("-price", "number"), ("-(id + 1) ^ 2", "number"), ("NOT ok", "bool"), ("name", "text")],
)
def test_what_is_right_has_a_kind(text: str, kind: str) -> None:
    assert check(parse_expression(text), SCHEMA) == kind


@pytest.mark.parametrize(("sql", "said"), golden("sql.txt"))
def test_every_error_is_one_sentence_with_a_place(sql: str, said: str) -> None:
    assert said[0].isupper() or said.split()[0] in sql
    assert said.endswith((".", "?")) and "\n" not in said
    with pytest.raises(QueryError) as caught:
        parse(sql)
    if sql:
        assert "(line 1, column " in said
        assert caught.value.caret() is not None


def test_more_than_one_line() -> None:
    with pytest.raises(QueryError) as caught:
        parse("SELECT *\nFROM s\nORDER BY x +\nLIMIT 3 WINDOW 10 ROWS")
    error = caught.value
    assert str(error) == "Expected a column, a number or a function, but found LIMIT (line 4, column 1)."
    assert error.caret() == "LIMIT 3 WINDOW 10 ROWS\n^"


def test_what_never_ends_may_follow_a_comment() -> None:
    with pytest.raises(QueryError) as caught:
        parse("SELECT x -- it's the speed\nFROM s ORDER BY 'x")
    assert str(caught.value) == "A string that begins here has no end (line 2, column 17); close it with '."


def test_a_number_of_a_thousand_digits_and_more() -> None:
    with pytest.raises(QueryError) as caught:
        parse_expression("x > 1" + "0" * 1000)
    assert str(caught.value) == (
        "A number may have at most 1000 characters (line 1, column 5); write it as 1e300."
    )


def test_a_condition_that_ends_with_not() -> None:
    with pytest.raises(QueryError) as caught:
        parse_expression("x NOT")
    assert (
        str(caught.value) == "Expected BETWEEN or IN after NOT, but the expression ends (line 1, column 6)."
    )


def test_an_expression_read_where_the_stack_is_nearly_full() -> None:
    """The caller's own calls count too: whatever room they leave, Python's limit comes as a sentence or as itself."""

    def deeper(calls: int) -> str:
        if calls:
            return deeper(calls - 1)
        try:
            parse_expression("(" * 40 + "x" + ")" * 40)
        except QueryError as problem:
            return str(problem)
        return "read"

    said = set()
    for calls in range(0, sys.getrecursionlimit(), 20):
        try:
            said.add(deeper(calls))
        except RecursionError:
            break
    assert said == {"read", "The expression is nested too deep (line 1, column 1); simplify it."}


def test_without_a_place() -> None:
    """Expressions that a program has put together don't come from a text."""
    for e, said in [
        (
            nodes.Arithmetic("+", nodes.Column("name"), nodes.Number(1)),
            "+ expects a number, but name is a text.",
        ),
        (nodes.Not(nodes.Column("nmae")), "There is no column nmae; did you mean name?"),
    ]:
        with pytest.raises(QueryError) as caught:
            check(e, SCHEMA)
        assert (str(caught.value), caught.value.caret()) == (said, None)
    with pytest.raises(QueryError, match="There is no column x; the stream has no columns"):
        check(nodes.Column("x"), pa.schema([]))
    assert QueryError("Of another text.", (2, 1), "SELECT").caret() is None


def test_kinds_that_fit() -> None:
    for text, kind in [
        ("id + price * 2", "number"),
        ("ts", "time"),
        ("day", "time"),
        ("ts - day", "number"),
        ("name", "text"),
        ("ok", "bool"),
        ("ok = TRUE AND name > 'a'", "bool"),
        ("ts > '2024-01-31' AND day <= ts AND ts > 1700000000", "bool"),
        ("'2024-01-31' < day", "bool"),
        ("least(price, id) > sqrt(ts)", "bool"),
    ]:
        assert check(parse_expression(text), SCHEMA) == kind


def test_dictionaries_have_the_kind_of_their_values() -> None:
    schema = pa.schema(
        {"c": pa.dictionary(pa.int32(), pa.string()), "v": pa.string_view(), "d": pa.decimal128(9, 2)}
    )
    assert check(parse_expression("c = 'x' AND v = c AND d > 1.5"), schema) == "bool"


def test_errors_are_value_errors_and_travel() -> None:
    assert issubclass(QueryError, SkybandError) and issubclass(QueryError, ValueError)
    assert issubclass(InputError, SkybandError) and issubclass(InputError, ValueError)
    with pytest.raises(QueryError) as caught:
        parse("SELECT")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.place, again.caret()) == (
        str(caught.value),
        caught.value.place,
        caught.value.caret(),
    )
    assert QueryError("No place.").caret() is None


@pytest.mark.parametrize("text", [None, 5, b"SELECT"])
def test_a_query_is_a_string(text: object) -> None:
    with pytest.raises(QueryError, match="A query is a string"):
        parse(text)  # type: ignore[arg-type]


def test_half_characters() -> None:
    with pytest.raises(QueryError) as caught:
        parse("SELECT *\nFROM \udcff")
    assert str(caught.value) == "A character is not Unicode (line 2, column 6); write the text in UTF-8."
