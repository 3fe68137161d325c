"""HAVING compares whole numbers exactly, also those that float64 doesn't tell apart."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.query.sql.parser import parse
from skyband.spark.verify.brute_answers import Part, answer

FAR = 2**53
OPERATORS = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "=": operator.eq, "<>": operator.ne,
}  # fmt: skip
ROWS = [
    {"x": x, "y": y}
    for x, y in enumerate([FAR - 1, FAR, FAR + 1, FAR + 2, -FAR, -FAR - 1, 0, 2**63 - 1, -(2**63)])
] + [{"x": 1, "y": 5}, {"x": 4, "y": -(2**62)}, {"x": 6, "y": FAR + 3}]


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("bound", [FAR, FAR + 1, -FAR, -FAR - 1, 2**63 - 1, 2**64, FAR - 1])
def test_max_is_compared_exactly(op: str, bound: int) -> None:
    flipped = {">": "<", ">=": "<=", "<": ">", "<=": ">="}.get(op, op)
    most: dict[int, int] = {}
    for row in ROWS:
        most[row["x"]] = max(row["y"], most.get(row["x"], row["y"]))
    expected = {x for x, y in most.items() if OPERATORS[op](y, bound)}
    for having in (
        f"MAX(y) {op} {bound}", f"{bound} {flipped} MAX(y)", f"NOT (NOT MAX(y) {op} {bound} OR COUNT(*) < 1)",
    ):  # fmt: skip
        query = f"SELECT x FROM s GROUP BY x HAVING {having} ORDER BY COUNT(*) LIMIT 99 WINDOW 99 ROWS"
        m = sb.Monitor()
        w = m.watch(query)
        m.push(ROWS)
        assert set(w.top()["x"].to_pylist()) == expected
        n = np.arange(len(ROWS))
        told = answer(parse(query), [Part("s", pa.Table.from_pylist(ROWS), n, n)], with_rows=True)
        assert {one.row["x"] for one in told if one.row} == expected


def test_a_threshold_while_rows_leave() -> None:
    m = sb.Monitor()
    w = m.watch(f"SELECT x, MAX(y) FROM s GROUP BY x HAVING MAX(y) > {FAR} WINDOW 3 ROWS")
    m.push({"x": [1.0, 2.0, 3.0], "y": [FAR, FAR + 1, FAR]})
    assert w.top()["x"].to_pylist() == [2.0]
    m.push({"x": [2.0, 3.0], "y": [FAR, FAR + 2]})  # the row that was beyond has left
    assert w.top()["x"].to_pylist() == [3.0]


def test_a_row_without_a_value_or_outside_its_range_stays_out() -> None:
    having = f"HAVING MAX(y) < {FAR}"
    m = sb.Monitor()
    w = m.watch(f"SELECT x, COUNT(*) FROM s GROUP BY x {having} ORDER BY COUNT(*) DESC LIMIT 9 WINDOW 9 ROWS")
    ranged = m.watch(
        f"SELECT x, COUNT(*) FROM s GROUP BY x {having} ORDER BY COUNT(*) DESC LIMIT 9 WINDOW 9 ROWS "
        "WITH (range = '2..9')"
    )
    values: list[Any] = [5.0, None, float("nan"), 1.0]
    m.push({"x": [1] * 4, "y": values})
    assert w.top()["score"].to_pylist() == [2.0] and ranged.top()["score"].to_pylist() == [1.0]
