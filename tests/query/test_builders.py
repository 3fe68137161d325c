"""Builders give the same objects as SQL, and say what is wrong with their arguments."""

from __future__ import annotations

import datetime
import doctest
from decimal import Decimal
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import skyband as sb
import skyband.query.window
from skyband.core.errors import QueryError
from skyband.query import builders
from skyband.query.expression import Column, Number, parse_expression
from skyband.query.model import Last, Output, Rows, Window, window
from skyband.query.sql.parser import parse


def test_the_same_objects_as_sql() -> None:
    cases = [
        (
            sb.topk(
                "0.3 * x + y",
                10,
                sb.rows(100_000),
                where="y > 0",
                stream="s",
                select=["id", "x + 1"],
                algorithm="SA",
            ),
            "SELECT id, x + 1 FROM s WHERE y > 0 ORDER BY 0.3 * x + y DESC LIMIT 10 WINDOW 100000 ROWS "
            "WITH (algorithm = 'sa')",
        ),
        (
            sb.topk("x", 1, "5 minutes", order="asc", stream="s", select={"double": "x * 2"}),
            "SELECT x * 2 AS double FROM s ORDER BY x LIMIT 1 WINDOW 5 MINUTES",
        ),
        (
            sb.nearest({"x": 0.3, "y": 4}, 5, sb.last("5 minutes"), stream="s"),
            "SELECT * FROM s ORDER BY dist(x, y, 0.3, 4) LIMIT 5 WINDOW 5 MINUTES",
        ),
        (
            sb.above("x / y", 0.5, sb.last(90), where="y > 0 AND z = 'a'", stream="s"),
            "SELECT * FROM s WHERE x / y > 0.5 AND y > 0 AND z = 'a' WINDOW 90 SECONDS",
        ),
        (sb.above("x", -1, "9 rows", op="<=", stream="s"), "SELECT * FROM s WHERE x <= -1 WINDOW 9 ROWS"),
        (
            sb.pairs("abs(a.x - b.x)", 3, "1 day", where="a.id < b.id", stream="s"),
            "SELECT * FROM s a, s b WHERE a.id < b.id ORDER BY abs(a.x - b.x) LIMIT 3 WINDOW 1 DAY",
        ),
        (
            sb.joined(["r1", "r2"], "id", "r1.x + r2.y", 3, "10 rows", repeat="max"),
            "SELECT * FROM r1 FULL JOIN r2 USING (id) ORDER BY r1.x + r2.y DESC LIMIT 3 WINDOW 10 ROWS "
            "WITH (repeat = 'max')",
        ),
        (
            sb.grouped("id", "SUM(x)", 3, "7 days", stream="s"),
            "SELECT id, SUM(x) FROM s GROUP BY id ORDER BY SUM(x) DESC LIMIT 3 WINDOW 7 DAYS",
        ),
        (
            sb.grouped(
                ["a", "b"], "COUNT(*)", 3, "7 days", having="MAX(x) > 1", select="a", stream="s", order="asc"
            ),
            "SELECT a FROM s GROUP BY a, b HAVING MAX(x) > 1 ORDER BY COUNT(*) LIMIT 3 WINDOW 7 DAYS",
        ),
    ]
    for built, sql in cases:
        assert built == parse(sql), sql


def test_expressions_and_numpy_numbers_are_taken_too() -> None:
    score = parse_expression("x + 1")
    query = sb.topk(score, np.int64(3), datetime.timedelta(minutes=1), select={"y": Column("x")})  # type: ignore[arg-type]
    assert query.k == 3 and type(query.k) is int
    assert query.score is score
    assert query.select == (Output("y", Column("x")),)
    assert query.window == Last(60 * 10**9)
    point = sb.nearest({"x": np.float64(0.5), "y": np.int32(2), "z": Decimal("0.1")}, 1, "1 row").score
    assert point == parse_expression("dist(x, y, z, 0.5, 2, 0.1)")
    weighted = sb.nearest({"x": 0.5, "y": 2}, 1, "1 row", weights={"y": 3}).score
    assert weighted == parse_expression("sqrt(1 * (x - 0.5)^2 + 3 * (y - 2)^2)")
    assert Number(0.5) == Number(0.5) and query.stream is None


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: sb.topk("x", 0, "1 row"), "k must be a whole number of at least 1 and less than 2^31, not 0."),
        (lambda: sb.topk("x", 2.5, "1 row"), "k must be a whole number of at least 1, not 2.5."),
        (lambda: sb.topk("x +", 1, "1 row"), "Expected an expression, but the expression ends (line 1, column 4)."),
        (lambda: sb.topk("x y", 1, "1 row"), 
         "Expected an operator or the end of the expression, but found y (line 1, column 3)."),
        (lambda: sb.topk("2", 1, "1 row"), "A score needs a column, but 2 is a constant."),
        (lambda: sb.topk(3, 1, "1 row"), 'A score is a string such as "0.3 * x + 0.7 * y", not 3.'),
        (lambda: sb.topk("x", 1, 5), 'A window is rows(100_000), last("5 minutes") or their text, not 5.'),
        (lambda: sb.topk("x", 1, "five minutes"), 
         "The window 'five minutes' has no number or no unit; write one such as 100000 ROWS or 5 MINUTES."),
        (lambda: sb.topk("x", 1, "5 minuts"), "minuts is not a unit of a window; did you mean MINUTES?"),
        (lambda: sb.topk("x", 1, "1 row", order="up"), 
         'order is "desc" (highest first) or "asc" (lowest first), not \'up\'.'),
        (lambda: sb.topk("x", 1, "1 row", where=3), 'A condition is a string such as "x > 0", not 3.'),
        (lambda: sb.topk("x", 1, "1 row", algoritm="sa"), "There is no option algoritm; did you mean algorithm?"),
        (lambda: sb.topk("x", 1, "1 row", repeat="sum"), "The option repeat is for joined(); remove it."),
        (lambda: sb.topk("x", 1, "1 row", select=["x", "x"]), 
         'A column is selected twice; remove one or name it, as in {"name": "x + 1"}.'),
        (lambda: sb.topk("SUM(x)", 1, "1 row"), "SUM needs GROUP BY (line 1, column 1); add GROUP BY and a key."),
        (lambda: sb.nearest({}, 1, "1 row"), 'nearest() takes a point such as {"x": 0.3, "y": 0.4}.'),
        (lambda: sb.nearest({"x": "a"}, 1, "1 row"), "The coordinate x must be a number, not 'a'."),
        (lambda: sb.nearest({"x": 1}, 1, "1 row", weights=2), 
         'weights are given by column, such as {"x": 2, "y": 0.5}.'),
        (lambda: sb.nearest({"x": 1}, 1, "1 row", weights={"y": 2}), 
         "There is a weight for y, but the point has no such coordinate; add it to the point."),
        (lambda: sb.nearest({"x": 1}, 1, "1 row", weights={"x": -1}), 
         "The weight of x must be a finite number of at least 0, not -1."),
        (lambda: sb.above("x", float("nan"), "1 row"), "The bound must be a number, not NaN."),
        (lambda: sb.above("x", 1, "1 row", op="="), "above() takes op as one of <, <=, >, >=, not '='."),
        (lambda: sb.pairs("x", 1, "1 row"), "x may be of row a or of row b; write a.x or b.x."),
        (lambda: sb.joined(["r"], "id", "x", 1, "1 row"), 
         'joined() takes two or more different streams, such as ["r1", "r2"].'),
        (lambda: sb.joined(["r", "q"], "id", "t.x", 1, "1 row"), 
         "There is no stream t among r, q; write one of these."),
        (lambda: sb.grouped("id", "x", 1, "1 row"), 
         "The score of grouped() needs SUM, COUNT or MAX, such as SUM(x), not x."),
        (lambda: sb.rows(0), "A window needs at least one row and less than 2^63, not 0."),
        (lambda: sb.rows(1.5), "A window of rows needs a whole number, not 1.5."),
        (lambda: sb.last("10 rows"), "last() takes a duration such as \"5 minutes\", not '10 rows'; use rows(10)."),
        (lambda: sb.last(0), "A time window must be longer than nothing and shorter than 292 years."),
        (lambda: sb.last(float("inf")), "A time window needs a finite number of seconds, not inf."),
        (lambda: sb.topk("x", 1, "1 row", select=["'x'"]), 
         "A text can't be selected; name a column instead of 'x'."),
        (lambda: sb.topk("x", 1, "1.2.3 rows"), 
         "1.2.3 is not a number; write a window such as 100000 ROWS or 5 MINUTES."),
        (lambda: Number(float("nan")), "NaN is not a number that a query can use; give a number or an infinity."),
        (lambda: Rows(1.5), "A window of rows needs a whole number, not 1.5."),
        (lambda: Last(True), "A time window needs a whole number of nanoseconds, not True."),
        (lambda: sb.last([1]), 'last() takes a duration such as "5 minutes" or seconds, not [1].'),
    ],
)  # fmt: skip
def test_wrong_arguments(make: Any, said: str) -> None:
    with pytest.raises(QueryError) as caught:
        make()
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("100000 rows", Rows(100_000)),
        ("100_000 rows", Rows(100_000)),
        ("1e5 rows", Rows(100_000)),
        (" [ 7 DAYS ] ", Last(7 * 86400 * 10**9)),
        ("1.5h", Last(5400 * 10**9)),
        ("5min", Last(300 * 10**9)),
        ("100 ms", Last(10**8)),
        (datetime.timedelta(days=1), Last(86400 * 10**9)),
        (Rows(3), Rows(3)),
    ],
)
def test_windows(given: Any, expected: Window) -> None:
    assert window(given) == expected
    assert window(str(expected)) == expected


def test_seconds_are_the_decimal_that_is_seen() -> None:
    assert sb.last(0.1) == Last(100_000_000)
    assert sb.last(300) == sb.last("5 minutes") == sb.last(datetime.timedelta(minutes=5))
    assert sb.last(300).seconds == 300.0


def test_a_bound_of_more_digits_than_a_float_has() -> None:
    exact = Decimal("0.10000000000000000001")
    asked = sb.above("x", exact, sb.rows(5), stream="s", select=["x"])
    m = sb.Monitor()
    m.watch(f"SELECT x FROM s WHERE x > {exact} WINDOW 5 ROWS", name="sql")
    assert m.watches["sql"].query == asked


@pytest.mark.parametrize("module", [builders, skyband.query.window])
def test_examples_of_docstrings_are_right(module: ModuleType) -> None:
    assert doctest.testmod(module).attempted > 0
    assert doctest.testmod(module).failed == 0
