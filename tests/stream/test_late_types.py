"""Types that become known late, or that are another library's for the same values: no row stops the stream."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import skyband as sb

JOINED = "SELECT id FROM r FULL JOIN q USING (id) ORDER BY r.x + q.x DESC LIMIT 9 WINDOW 9 ROWS"
LATE = {
    "where": ("SELECT x FROM s WHERE c = 'a' ORDER BY x LIMIT 9 WINDOW 9 ROWS", "c", 5, "a"),
    "a number": ("SELECT x FROM s WHERE y > 1 ORDER BY x LIMIT 9 WINDOW 9 ROWS", "y", "many", 2),
    "threshold": ("SELECT x FROM s WHERE x > 0 AND c < 'b' WINDOW 9 ROWS", "c", True, "a"),
    "condition": ("SELECT x FROM s WHERE flag ORDER BY x LIMIT 9 WINDOW 9 ROWS", "flag", "yes", True),
    "score": ("SELECT x FROM s ORDER BY x + y LIMIT 9 WINDOW 9 ROWS", "y", "much", 1.5),
    "pairs": ("SELECT a.x FROM s a, s b ORDER BY a.y - b.y LIMIT 9 WINDOW 9 ROWS", "y", "much", 1.5),
    "grouped": ("SELECT x, SUM(y) FROM s GROUP BY x ORDER BY SUM(y) LIMIT 9 WINDOW 9 ROWS", "y", "much", 1),
}


def rejected(m: sb.Monitor) -> list[tuple[int, str]]:
    return [(row["seq"], row["reason"]) for row in m.rejects().to_pylist()]


@pytest.mark.parametrize("case", LATE)
@pytest.mark.parametrize("lacking", [False, True])
def test_values_that_no_query_can_use_are_rejects(case: str, lacking: bool) -> None:
    """The column is null at first, or not there at all; then it has something that the query can't compare."""
    sql, name, wrong, right = LATE[case]
    m = sb.Monitor(schema={"x": "double"} if lacking else None)
    if lacking:  # a column that is not there is told of when the query is asked
        m.push([{"x": 0.5, name: None}])
    w = m.watch(sql)
    m.push([{"x": 1.0, name: None}])
    m.push([{"x": 2.0, name: wrong}, {"x": 3.0, name: None}])
    m.push([{"x": 4.0, name: right}, {"x": 5.0, name: right}])
    first = 2 if lacking else 1
    assert m.rows_seen == first + 4
    assert rejected(m) == [(first, "type")]
    assert w.top().num_rows == (1 if case == "pairs" else 2)


def test_a_column_of_a_join_that_turns_out_to_be_text() -> None:
    m = sb.Monitor()
    w = m.watch(JOINED)
    m.push({"id": ["a"], "x": [None]}, stream="r")
    m.push({"id": ["a"], "x": [1.0]}, stream="q")
    m.push({"id": ["a", "a"], "x": ["u", None]}, stream="r")
    m.push({"id": ["a"], "x": [4]}, stream="r")
    assert rejected(m) == [(2, "type")]
    assert w.top().column("score").to_pylist() == [5.0]


@pytest.mark.parametrize("type_", [pa.int32(), pa.uint8(), pa.float64(), pa.decimal128(25, 2)])
def test_keys_of_a_join_are_of_one_type(type_: pa.DataType) -> None:
    m = sb.Monitor()
    w = m.watch(JOINED)
    m.push({"id": [1, 2], "x": [1.0, 2.0]}, stream="r")
    m.push(pa.table({"id": pa.array([1, 3]).cast(type_), "x": [4.0, 8.0]}), stream="q")
    assert w.top().select(["score", "id"]).to_pylist() == [
        {"score": 8.0, "id": 3},
        {"score": 5.0, "id": 1},
        {"score": 2.0, "id": 2},
    ]
    assert not rejected(m)


def test_keys_of_a_join_that_nothing_makes_alike() -> None:
    m = sb.Monitor()
    m.watch(JOINED)
    m.push({"id": [1], "x": [1.0]}, stream="r")
    with pytest.raises(sb.QueryError, match='"id" is int64 in stream r and string in q: cast one of them'):
        m.push({"id": ["1"], "x": [1.0]}, stream="q")


def test_keys_that_are_fractions_where_others_are_whole() -> None:
    m = sb.Monitor()
    w = m.watch(JOINED)
    m.push({"id": [1], "x": [1.0]}, stream="r")
    m.push({"id": [1.0, 1.5], "x": [4.0, 8.0]}, stream="q")
    assert rejected(m) == [(2, "type")]
    assert w.top().column("score").to_pylist() == [5.0]


@pytest.mark.parametrize("first", [pa.string(), pa.large_string()])
@pytest.mark.parametrize(
    "second", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.large_string())]
)
def test_texts_are_texts(first: Any, second: Any) -> None:
    """Polars and pandas have long texts, others short ones."""
    m = sb.Monitor(time="t")
    w = m.watch("SELECT id FROM r FULL JOIN q USING (id) ORDER BY r.x + q.x LIMIT 9 WINDOW 1 HOUR")
    at = "2024-01-01T00:00:00"
    for name, type_ in (("r", first), ("q", second)):
        texts = {"t": pa.array([at]).cast(type_), "id": pa.array(["a"]).cast(type_)}
        m.push(pa.table({**texts, "x": [1.0]}), stream=name)
    assert w.top().select(["score", "id"]).to_pylist() == [{"score": 2.0, "id": "a"}]


def test_a_struct_is_not_cut() -> None:
    m = sb.Monitor()
    w = m.watch("SELECT st FROM s ORDER BY x LIMIT 9 WINDOW 9 ROWS")
    m.push([{"x": 1.0, "st": {"a": 1, "l": [{"c": 1.5}]}}])
    m.push([{"x": 2.0, "st": {"zz": 9}}])
    m.push([{"x": 3.0, "st": {"a": 1, "b": 5}}, {"x": 4.0, "st": {"a": 2}}])
    m.push([{"x": 5.0, "st": {"l": [{"c": 2.5}, {"d": 1}]}}, {"x": 6.0, "st": {"l": [{"c": float("nan")}]}}])
    assert [seq for seq, _ in rejected(m)] == [1, 2, 4]
    shown = w.top().column("st").to_pylist()
    assert shown[:2] == [{"a": 1, "l": [{"c": 1.5}]}, {"a": 2, "l": None}]
    assert len(shown) == 3


def test_a_key_of_a_join_that_is_null_at_first() -> None:
    m = sb.Monitor()
    w = m.watch(JOINED)
    m.push({"id": [None], "x": [1.0]}, stream="r")
    m.push({"id": [7, None], "x": [2.0, 3.0]}, stream="q")
    assert w.top().column("score").to_pylist() == [2.0]
    m.push({"id": [7.0, 7.5], "x": [1.0, 1.0]}, stream="r")
    assert w.top().column("score").to_pylist() == [3.0]
    assert rejected(m) == [(4, "type")]


def test_several_columns_at_once() -> None:
    m = sb.Monitor()
    w = m.watch("SELECT x FROM s WHERE c = 'a' AND d < 'q' ORDER BY x + y LIMIT 9 WINDOW 9 ROWS")
    m.push([{"x": 1.0, "c": None, "d": None, "y": None}])
    m.push([{"x": 2.0, "c": 5, "d": 7, "y": "z"}, {"x": 3.0, "c": None, "d": None, "y": None}])
    m.push([{"x": 4.0, "c": "a", "d": "b", "y": 1}])
    assert rejected(m) == [(1, "type")]
    assert w.top().column("seq").to_pylist() == [3]


def test_a_column_that_is_known_is_checked_beside_one_that_is_not() -> None:
    m = sb.Monitor()
    m.push([{"x": None, "c": 5}])
    with pytest.raises(sb.QueryError, match="= can't compare c, a number, with 'a', a text"):
        m.watch("SELECT x FROM s WHERE c = 'a' ORDER BY x LIMIT 9 WINDOW 9 ROWS")
