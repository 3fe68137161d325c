"""SQL into queries and back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.query.trees import any_expressions, many, names, scores

from skyband.core.errors import QueryError
from skyband.query.expression import Column, Text, lift, parse_expression
from skyband.query.expression import expression_text as to_text
from skyband.query.expression.nodes import all_of, columns_of, rebuild
from skyband.query.expression.threshold import split
from skyband.query.model import Grouped, Joined, Last, Output, Pairs, Query, Rows, Threshold, TopK
from skyband.query.serialise import expression_from_data, expression_to_data, from_dict, to_dict
from skyband.query.sql.parser import parse
from skyband.query.text import to_sql

e = parse_expression


def test_topk() -> None:
    assert parse("SELECT * FROM s ORDER BY x LIMIT 3 WINDOW 100000 ROWS") == TopK(
        "s", None, Column("x"), False, 3, Rows(100000)
    )
    assert parse(
        "select id, t.x*y as area from flows as t where t.y > 0 and name <> 'WINDOW 5 ROWS' "
        "order by area desc limit 10 window [1.5 Hours] with (algorithm = SMA, error = 1e-3);"
    ) == TopK(
        "flows",
        (Output("id", Column("id")), Output("area", e("x * y"))),
        e("x * y"),
        True,
        10,
        Last(5400 * 10**9),
        e("y > 0 AND name <> 'WINDOW 5 ROWS'"),
        (("algorithm", "sma"), ("error", 0.001)),
    )


def test_order_is_ascending_unless_it_says_desc() -> None:
    for text, descending in [("x", False), ("x ASC", False), ("x asc", False), ("x DESC", True)]:
        query = parse(f"SELECT * FROM s ORDER BY {text} LIMIT 1 WINDOW 1 ROW")
        assert isinstance(query, TopK) and query.descending is descending


def test_clauses_may_be_columns_and_quoted() -> None:
    query = parse('SELECT window, "from", rows FROM "my stream" ORDER BY window DESC LIMIT 5 WINDOW 10 ROWS')
    assert query == TopK(
        "my stream",
        (Output("window", Column("window")), Output("from", Column("from")), Output("rows", Column("rows"))),
        Column("window"),
        True,
        5,
        Rows(10),
    )
    commented = "SELECT * -- WINDOW 3 ROWS\nFROM s /* LIMIT 2 */ ORDER BY x LIMIT 5 WINDOW 10 ROWS -- the end"
    assert parse(commented) == parse("SELECT * FROM s ORDER BY x LIMIT 5 WINDOW 10 ROWS")


def test_unnamed_expressions_are_called_by_their_text() -> None:
    query = parse("SELECT x+1, s.y, -x^2 sq FROM s ORDER BY x LIMIT 5 WINDOW 10 ROWS")
    assert query.select is not None
    assert [output.name for output in query.select] == ["x + 1", "y", "sq"]


def test_options() -> None:
    query = parse(
        'SELECT * FROM s ORDER BY x LIMIT 5 WITH (limit = 3, "gamma" = .5, Buffer = 2) WINDOW 10 ROWS'
    )
    assert query.options == (("buffer", 2), ("gamma", 0.5), ("limit", 3))
    assert parse(to_sql(query)) == query


def test_a_column_n_is_called_so() -> None:
    """Only N'…' is something else in SQL, and no text of ours has a quote right after a name."""
    text = "SELECT n, SUM(n), -n FROM n WHERE n = 'a' GROUP BY n ORDER BY SUM(n) LIMIT 1 WINDOW 5 ROWS"
    query = parse(text)
    assert query.select is not None
    assert [output.name for output in query.select] == ["n", "SUM(n)", "-n"]
    assert to_sql(query) == text and parse(to_sql(query)) == query


def test_an_alias_may_be_ordered_by_and_hides_the_column() -> None:
    query = parse("SELECT -x AS x FROM s ORDER BY x LIMIT 5 WINDOW 10 ROWS")
    assert query.score == e("-x")
    assert parse("SELECT -x AS x FROM s ORDER BY s.x LIMIT 5 WINDOW 10 ROWS").score == Column("x")


WINDOWS = [
    ("1 ROW", Rows(1)),
    ("100000 rows", Rows(100_000)),
    ("1e5 ROWS", Rows(100_000)),
    ("5 MINUTES", Last(300 * 10**9)),
    ("[7 DAYS]", Last(7 * 86400 * 10**9)),
    ("1 second", Last(10**9)),
    ("1.5 hours", Last(5400 * 10**9)),
    (".5 SECONDS", Last(5 * 10**8)),
    ("250 milliseconds", Last(250 * 10**6)),
    ("2 weeks", Last(14 * 86400 * 10**9)),
    ("10 microseconds", Last(10_000)),
    ("5min", Last(300 * 10**9)),
    ("INTERVAL '5' MINUTE", Last(300 * 10**9)),
    ("[interval 1.5 hours]", Last(5400 * 10**9)),
]


@pytest.mark.parametrize(("text", "expected"), WINDOWS)
def test_windows(text: str, expected: Rows | Last) -> None:
    query = parse(f"SELECT * FROM s ORDER BY x LIMIT 5 WINDOW {text}")
    assert query.window == expected
    assert parse(to_sql(query)) == query


@pytest.mark.parametrize(
    ("where", "score", "op", "bound"),
    [
        ("x > 5", "x", ">", 5),
        ("x >= 5 AND y > 7", "x", ">=", 5),
        ("name = 'a' AND y < 7", "y", "<", 7),
        ("5 < x", "x", ">", 5),
        ("5 >= x + y", "x + y", "<=", 5),
        ("x > -2 ^ 2", "x", ">", -4.0),
        ("x > 1 / 0", "x", ">", float("inf")),
        ("x > 9007199254740993", "x", ">", 9007199254740993),
        ("x > y AND x > 1", "x", ">", 1),
        ("t AND x > 1", "x", ">", 1),
        ("ts > '2024-01-01' AND x < 1.5", "x", "<", 1.5),
        ("1 > 0 AND x > 3", "x", ">", 3),
        ("x BETWEEN 3 AND 4", "x", ">=", 3),
    ],
)
def test_threshold(where: str, score: str, op: str, bound: float) -> None:
    query = parse(f"SELECT * FROM s WHERE {where} WINDOW 5 MINUTES")
    assert query == Threshold("s", None, e(score), op[0] == ">", bound, op, Last(300 * 10**9), e(where))
    assert isinstance(query, Threshold) and type(query.bound) is type(bound)
    assert parse(to_sql(query)) == query


def test_pairs() -> None:
    query = parse(
        "SELECT p.x, q.x FROM s p, s AS q WHERE p.id < q.id AND p.c <> q.c AND q.k = p.k AND p.y <> p.y "
        "ORDER BY abs(p.x - q.x) LIMIT 3 WINDOW 1 DAY"
    )
    assert query == Pairs(
        "s",
        (Output("a.x", Column("x", "a")), Output("b.x", Column("x", "b"))),
        e("abs(a.x - b.x)"),
        False,
        3,
        Last(86400 * 10**9),
        e("a.id < b.id AND a.c <> b.c AND b.k = a.k AND a.y <> a.y"),
    )
    assert isinstance(query, Pairs)
    assert (query.same, query.different) == (("k",), ("c",))
    both = parse("SELECT a.*, b.* FROM s a, s b ORDER BY a.x - b.x LIMIT 3 WINDOW 1 DAY")
    assert both.select is None


def test_joined() -> None:
    query = parse(
        "SELECT id, r1.x FROM r1 FULL JOIN r2 USING (id) FULL OUTER JOIN r3 AS t USING (id) "
        "ORDER BY r1.x + t.y - r2.id LIMIT 3 WINDOW 10 ROWS WITH (repeat = 'max')"
    )
    assert query == Joined(
        ("r1", "r2", "r3"),
        "id",
        (Output("id", Column("id")), Output("r1.x", Column("x", "r1"))),
        e("r1.x + r3.y - id"),
        False,
        3,
        Rows(10),
        None,
        (("repeat", "max"),),
    )
    assert isinstance(query, Joined) and query.repeat == "max"


def test_grouped() -> None:
    query = parse(
        "SELECT id, SUM(x) FROM s WHERE y > 0 GROUP BY id ORDER BY SUM(x) DESC LIMIT 4 WINDOW 7 DAYS"
    )
    total = parse_expression("SUM(x)", aggregates=True)
    assert query == Grouped(
        "s",
        ("id",),
        (Output("id", Column("id")), Output("SUM(x)", total)),
        total,
        True,
        4,
        Last(7 * 86400 * 10**9),
        e("y > 0"),
    )
    threshold = parse(
        "SELECT a, b, COUNT(*) n FROM s GROUP BY a, b HAVING COUNT(*) >= 3 AND MAX(x) > 0 WINDOW 9 ROWS"
    )
    assert isinstance(threshold, Grouped)
    assert (threshold.key, threshold.k, threshold.op, threshold.bound) == (("a", "b"), None, ">=", 3)
    by_name = parse("SELECT id, MAX(x) - COUNT(y) m FROM s GROUP BY id ORDER BY m LIMIT 4 WINDOW 7 DAYS")
    assert by_name.score == parse_expression("MAX(x) - COUNT(y)", aggregates=True)


# -- there and back


selected = any_expressions(3).filter(lambda value: not isinstance(value, Text))
outputs = st.lists(st.tuples(names, selected), min_size=1, max_size=3, unique_by=lambda pair: pair[0]).map(
    lambda pairs: tuple(Output(name, value) for name, value in pairs)
)
windows = st.one_of(st.integers(1, 2**63 - 1).map(Rows), st.integers(1, 2**63 - 1).map(Last))
options = st.dictionaries(st.sampled_from(["error", "gamma"]), st.floats(0, 0.99)).map(
    lambda d: tuple(sorted(d.items()))
)
scored = scores().filter(lambda score: bool(columns_of(score)))
streams = names


@st.composite
def topks(draw: st.DrawFn) -> TopK:
    select = draw(st.one_of(st.none(), outputs))
    score = draw(scored)
    while isinstance(score, Column) and select and any(output.name == score.name for output in select):
        score = parse_expression(f"-{score.name}")  # a bare name would mean the output
    where = draw(st.one_of(st.none(), any_expressions(5)))
    k = draw(st.integers(1, 2**31 - 1))
    return TopK(draw(streams), select, score, draw(st.booleans()), k, draw(windows), where, draw(options))


@st.composite
def thresholds(draw: st.DrawFn) -> Threshold:
    rest = draw(any_expressions(5))
    comparison = parse_expression(
        f"{draw(st.sampled_from(['x', 'x + y', '-x']))} {draw(st.sampled_from(['<', '>=']))} 1.5"
    )
    where = all_of([comparison, rest])
    found = split(where)
    assert where is not None and found is not None
    score, op, bound = found
    return Threshold(draw(streams), None, score, op[0] == ">", bound, op, draw(windows), where, draw(options))


@many
@given(st.one_of(topks(), thresholds()))
def test_round_trips(query: Query) -> None:
    plain = json.loads(json.dumps(to_dict(query), allow_nan=False))
    assert from_dict(plain) == query
    assert hash(from_dict(plain)) == hash(query)
    sql = to_sql(query)
    assert parse(sql) == query
    assert to_sql(parse(sql)) == sql


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.x, b.x FROM s a, s b WHERE a.id < b.id ORDER BY abs(a.x - b.x) DESC LIMIT 3 WINDOW 1 DAY",
        "SELECT * FROM r1 FULL JOIN r2 USING (id) ORDER BY r1.x + r2.y LIMIT 3 WINDOW 10 ROWS WITH (repeat = 'last')",
        "SELECT id, SUM(x) FROM s GROUP BY id ORDER BY SUM(x) DESC LIMIT 4 WINDOW 7 DAYS",
        "SELECT id, COUNT(*) AS c FROM s WHERE x > 0 GROUP BY id, k HAVING COUNT(*) > 3 WINDOW 7 DAYS",
        "SELECT id FROM s GROUP BY id HAVING MAX(x) > 3 ORDER BY -SUM(x * y)^2 LIMIT 4 WINDOW 90 SECONDS",
        "SELECT * FROM s WHERE x > 9007199254740992.5 ORDER BY x LIMIT 1 WINDOW 1 ROWS",
        "SELECT * FROM s WHERE x < 1e999 AND x > -1e999 WINDOW 1500 MILLISECONDS",
    ],
)
def test_canonical_text(sql: str) -> None:
    query = parse(sql)
    assert to_sql(query) == sql
    assert from_dict(json.loads(json.dumps(to_dict(query), allow_nan=False))) == query


def test_a_shape_is_an_expression_too() -> None:
    shape, constants = lift(parse_expression("0.3 * x + 0.7 * y"))
    assert constants == (0.3, 0.7) and to_text(shape) == "$0 * x + $1 * y"
    assert expression_from_data(json.loads(json.dumps(expression_to_data(shape)))) == shape


def test_data_that_to_dict_never_wrote() -> None:
    data = to_dict(parse("SELECT * FROM s ORDER BY x LIMIT 1 WINDOW 1 ROWS"))
    with pytest.raises(
        QueryError, match="There is no kind of query 'dream'; the data was not written by to_dict"
    ):
        from_dict({**data, "kind": "dream"})
    with pytest.raises(
        QueryError, match="There is no expression of the kind 'dream'; the data was not written"
    ):
        from_dict({**data, "score": ["dream", "x"]})


def test_of_nothing() -> None:
    assert columns_of(None) == () and all_of([]) is None
    assert rebuild(Column("x"), ()) == Column("x")


def test_exact_numbers_survive_plain_data() -> None:
    query = parse("SELECT * FROM s WHERE x > 9007199254740992.5 ORDER BY x * 1e999 LIMIT 1 WINDOW 1 ROWS")
    again = from_dict(json.loads(json.dumps(to_dict(query))))
    assert again == query and isinstance(again, TopK)
    assert str(again.where) == str(query.where)
    assert again.score == parse_expression("x * 1e999")
