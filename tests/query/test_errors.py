"""What is said about a wrong query, to the letter: tests/query/golden holds each with its sentence."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from skyband.errors import InputError, QueryError, SkybandError
from skyband.query.expression import check, parse_expression
from skyband.query.sql import parse

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
