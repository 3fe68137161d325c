"""Sentences of the public face that no other test spells out, one example each."""

from __future__ import annotations

import datetime as dt
import logging
import math

import pyarrow as pa
import pytest

import skyband as sb

XS = {"x": [1.0, 5.0, 2.0, 5.0, 3.0, 2.0], "y": [1.0, 0.0, 3.0, 4.0, 0.0, 2.0], "c": list("aabbab")}

THRESHOLDS = {
    "x > 2": [3, 1, 4],
    "x >= 2": [3, 1, 4, 5, 2],
    "x < 3": [0, 5, 2],
    "x <= 2": [0, 5, 2],
    "2 < x": [3, 1, 4],
    "3 >= x": [0, 5, 2, 4],
    "x - y > 0": [1, 4, 3],
    "c = 'b' AND x >= 2": [3, 5, 2],
    "c = 'b' AND y > 2 AND x < 9": [3, 2],  # the first that compares a number: y
    "x < 9 AND y > 2": [2, 3],
    "y > x AND x <= 2": [2],  # y > x is no comparison with a constant
    "x > 1 AND NOT c = 'a'": [3, 5, 2],
}


@pytest.mark.parametrize("where", sorted(THRESHOLDS))
def test_thresholds(where: str) -> None:
    """Every row beyond, by its distance beyond the bound, newer first."""
    m = sb.Monitor()
    w = m.watch(f"SELECT x FROM s WHERE {where} WINDOW 6 ROWS")
    m.push(XS)
    assert w.top()["seq"].to_pylist() == THRESHOLDS[where]


def test_order_by_is_ascending_unless_it_says_desc() -> None:
    m = sb.Monitor()
    ways = {"": [0, 5, 2], "ASC": [0, 5, 2], "DESC": [3, 1, 4]}
    watches = {w: m.watch(f"SELECT x FROM s ORDER BY x {w} LIMIT 3 WINDOW 6 ROWS") for w in ways}
    m.push(XS)
    assert {w: watch.top()["seq"].to_pylist() for w, watch in watches.items()} == ways


def test_where_chooses_among_the_windows_rows() -> None:
    m = sb.Monitor()
    w = m.watch("SELECT x FROM s WHERE c = 'a' ORDER BY x DESC LIMIT 3 WINDOW 3 ROWS")
    m.push(XS)
    assert w.top()["seq"].to_pylist() == [4]


def test_a_row_out_of_one_query_still_counts_in_its_window() -> None:
    m = sb.Monitor()
    w = m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 3 WINDOW 2 ROWS")
    m.push({"x": [9.0, None, math.nan], "y": [1.0, 1.0, 1.0]})
    assert w.top().num_rows == 0
    quotient = m.watch("SELECT x FROM s ORDER BY x / y DESC LIMIT 3 WINDOW 9 ROWS")
    m.push({"x": [0.0, 1.0, -1.0, math.inf], "y": [0.0, 0.0, 0.0, math.inf]})
    assert quotient.top()["score"].to_pylist() == [math.inf, -math.inf]
    assert w.top()["score"].to_pylist() == [math.inf, -1]


def test_minus_zero_is_zero() -> None:
    m = sb.Monitor()
    w = m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 9 WINDOW 9 ROWS")
    m.push({"x": [0.0, -0.0, 0.0, -0.0]})
    assert w.top()["seq"].to_pylist() == [3, 2, 1, 0]
    assert [math.copysign(1, s) for s in w.top()["score"].to_pylist()] == [1, 1, 1, 1]


def test_timestamps_in_expressions_are_seconds() -> None:
    m = sb.Monitor(time="ts")
    w = m.watch("SELECT ts FROM s ORDER BY ts DESC LIMIT 1 WINDOW 9 ROWS")
    lag = m.watch("SELECT ts FROM s ORDER BY ts - sent LIMIT 1 WINDOW 9 ROWS")
    moment = dt.datetime(2024, 5, 1, 12, 0, 0, 250_000, tzinfo=dt.UTC)
    m.push(
        {"ts": [moment, moment], "sent": [moment - dt.timedelta(seconds=3), moment - dt.timedelta(seconds=2)]}
    )
    assert w.top()["score"].to_pylist() == [moment.timestamp()]
    assert lag.top()["score"].to_pylist() == [2.0]


def test_integers_are_compared_exactly() -> None:
    m = sb.Monitor()
    w = m.watch("SELECT id FROM s WHERE id = 9007199254740993 ORDER BY x LIMIT 9 WINDOW 9 ROWS")
    m.push({"id": pa.array([2**53, 2**53 + 1, 2**53 + 2], pa.int64()), "x": [1.0, 2.0, 3.0]})
    assert w.top()["id"].to_pylist() == [2**53 + 1]


def test_a_stream_may_have_its_own_time_column() -> None:
    m = sb.Monitor(time={"a": "t", "b": "when"})
    m.push({"t": [10.0], "x": [1.0]}, stream="a")
    m.push({"when": [8.0], "x": [1.0]}, stream="b")
    wa = m.watch("SELECT x FROM a ORDER BY x LIMIT 9 WINDOW 5 SECONDS")
    wb = m.watch("SELECT x FROM b ORDER BY x LIMIT 9 WINDOW 5 SECONDS")
    m.push({"t": [11.0], "x": [2.0]}, stream="a")
    m.push({"when": [12.0], "x": [3.0]}, stream="b")
    assert (wa.top()["x"].to_pylist(), wb.top()["x"].to_pylist(), m.now) == ([2], [3], 12)
    changes = m.push({"when": [17.0], "x": [4.0]}, stream="b")  # now moves for all streams
    assert sorted(zip(changes["change"].to_pylist(), changes["time"].to_pylist(), strict=True)) == [
        ("enter", 17.0),
        ("leave", 11.0),
    ]


def test_a_jump_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    m = sb.Monitor(time="t", max_ahead="10 seconds")
    m.push({"t": [0.0], "x": [1.0]})
    with caplog.at_level(logging.WARNING):
        for i in range(4):
            m.push({"t": [1000.0 + i], "x": [1.0]})
    assert m.now == 1003
    assert [record.getMessage().partition(" ")[0] for record in caplog.records] == ["waiting", "jumped"]


def test_what_enters_and_leaves_within_one_step_is_not_reported() -> None:
    m = sb.Monitor()
    m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 1 WINDOW 2 ROWS", name="w")
    changes = m.push({"x": [9.0, 8.0, 1.0, 2.0]})
    assert changes.select(["query", "change", "rank", "score", "seq"]).to_pylist() == [
        {"query": "w", "change": "enter", "rank": 1, "score": 2.0, "seq": 3}
    ]


def test_leaves_come_first_then_enters_by_rank() -> None:
    m = sb.Monitor()
    m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 2 WINDOW 9 ROWS", name="w")
    m.push({"x": [1.0, 2.0]})
    changes = m.push({"x": [3.0, 4.0]})
    assert changes["change"].to_pylist() == ["leave", "leave", "enter", "enter"]
    assert changes["rank"].to_pylist() == [None, None, 1, 2]
    assert changes["score"].to_pylist()[2:] == [4, 3]


def test_a_row_that_only_changes_its_rank_is_not_reported() -> None:
    m = sb.Monitor()
    m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 3 WINDOW 9 ROWS", name="w")
    m.push({"x": [1.0]})
    changes = m.push({"x": [2.0]})
    assert changes["rank"].to_pylist() == [1]
    assert changes["seq"].to_pylist() == [1]
