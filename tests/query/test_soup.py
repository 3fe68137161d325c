"""Whatever is typed, the answer is a query or a QueryError, never another exception."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.query.trees import many

from skyband.core.errors import QueryError
from skyband.query.expression import expression_text, parse_expression
from skyband.query.sql.parser import parse
from skyband.query.text import to_sql

WORDS = [
    "SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "WINDOW", "WITH", "DISTINCT", "AS", "DESC",
    "FULL", "OUTER", "JOIN", "USING", "ON", "AND", "OR", "NOT", "IN", "BETWEEN", "IS", "NULL", "LIKE", "TRUE", "CASE",
    "x", "y", "s", "a", "b", "a.x", "b.y", "s.*", "id", '"q"', "`q`", "'t'", "N't'", "1", "2.5", ".5", "1e3", "0", "5x",
    "(", ")", "[", "]", "{", "}", ",", ";", ".", "+", "-", "*", "/", "^", "%", "<", "<=", "=", "==", "<>", "!=", "||",
    "::", "?", ":", "@", "#", "$1", "\\", "~", "&", "ROWS", "MINUTES", "SUM(", "COUNT(*)", "MAX(x)", "abs(", "dist(",
    "pow(x, 2)", "least(", "algorithm", "=", "error", "--", "/*", "*/", "'", '"', "\n", "INTERVAL", "DATE", "OVER",
]  # fmt: skip
soup = st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join)
clause = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
framed = st.builds(
    lambda *parts: "SELECT {} FROM {} WHERE {} ORDER BY {} LIMIT 3 WINDOW 5 {}".format(*parts),
    st.one_of(st.just("*"), clause),
    st.one_of(st.just("s"), clause),
    st.one_of(st.just("x > 1"), clause),
    st.one_of(st.just("x"), clause),
    st.one_of(st.just("ROWS"), clause),
)


@many
@given(st.one_of(soup, framed, st.text(max_size=30)))
def test_statements(text: str) -> None:
    try:
        query = parse(text)
    except QueryError as error:
        said = str(error)
        assert said.endswith((".", "?")) and "\n" not in said and len(said) < 400
        return
    assert parse(to_sql(query)) == query


@many
@given(st.one_of(soup, st.text(max_size=30)))
def test_expressions(text: str) -> None:
    try:
        e = parse_expression(text, aggregates=True)
    except QueryError:
        return
    assert parse_expression(expression_text(e), aggregates=True) == e
