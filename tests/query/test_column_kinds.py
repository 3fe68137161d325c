"""What a query takes for numbers."""

from __future__ import annotations

import pytest

from skyband.query.column_kinds import numeric_columns
from skyband.query.sql.parser import parse


@pytest.mark.parametrize(
    "sql, names",
    [
        ("SELECT id FROM s ORDER BY 2 * x + abs(y) LIMIT 3 WINDOW 10 ROWS", {"x", "y"}),
        ("SELECT id FROM s WHERE c = 'a' AND d AND x > 3 WINDOW 10 ROWS", {"x"}),
        (
            "SELECT id FROM s WHERE (a = -1 OR NOT b + c < d) AND e < f ORDER BY x LIMIT 3 WINDOW 10 ROWS",
            {"a", "b", "c", "x"},
        ),
        ("SELECT a.id, b.id FROM s a, s b WHERE a.id < b.id ORDER BY abs(a.x - b.x) LIMIT 2 WINDOW 9 ROWS", {"x"}),
        ("SELECT id, COUNT(y) FROM s GROUP BY id ORDER BY COUNT(y) DESC LIMIT 2 WINDOW 9 ROWS", set()),
        ("SELECT id, SUM(y) FROM s GROUP BY id ORDER BY SUM(y) DESC LIMIT 2 WINDOW 9 ROWS", {"y"}),
    ],
)  # fmt: skip
def test_columns_that_must_be_numbers(sql: str, names: set[str]) -> None:
    assert {column.name for column in numeric_columns(parse(sql))} == names
