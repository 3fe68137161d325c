"""Rows that don't fit: which, why, and what is kept of them."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle import Oracle
from tests.twin import Question, Twin

import skyband as sb

SQL = "SELECT x FROM s ORDER BY x DESC LIMIT 3 WINDOW {}"


def reasons(m: Any) -> list[tuple[int, str]]:
    return [(r["seq"], r["reason"]) for r in m.rejects().to_pylist()]


def test_the_table_of_rejects() -> None:
    m = sb.Monitor(time="t", schema=pa.schema([("t", pa.int64()), ("x", pa.int64())]))
    assert m.rejects().num_rows == 0
    assert m.rejects().column_names == ["seq", "stream", "reason", "detail", "raw"]
    m.watch(SQL.format("5 SECONDS"))
    m.push([{"t": 10, "x": 1}, {"t": None, "x": 2}, {"t": 11, "x": "many"}])
    m.push([{"t": 4, "x": 3}, {"t": 5, "x": 4}])
    assert reasons(m) == [(1, "time"), (2, "type"), (3, "late")]
    assert m.reject_counts == {"time": 1, "type": 1, "late": 1} or {
        r: n for r, n in m.reject_counts.items() if n
    } == {"time": 1, "type": 1, "late": 1}
    rows = m.rejects().to_pylist()
    assert "many" in rows[1]["raw"] and "11" in rows[1]["raw"]
    assert all(row["detail"] for row in rows)


@pytest.mark.parametrize("frame", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_half_a_character_stops_nothing(frame: bool, known: bool) -> None:
    """A text that UTF-8 can't say is in no column, and the row is told by escapes."""
    import pandas as pd

    m = sb.Monitor(schema=pa.schema([("s", pa.string()), ("x", pa.float64())]) if known else None)
    w = m.watch("SELECT s FROM t ORDER BY x DESC LIMIT 3 WINDOW 10 ROWS")
    rows = [{"s": "\ud83d", "x": 1.0}, {"s": "\U0001f600", "x": 2.0}]
    m.push(pd.DataFrame(rows) if frame else rows)
    assert w.top()["s"].to_pylist() == ["\U0001f600"]
    assert [(r["seq"], r["raw"]) for r in m.rejects().to_pylist()] == [(0, r'{"s": "\ud83d", "x": 1.0}')]


def test_a_rejected_row_keeps_its_seq_and_counts_in_no_window() -> None:
    m = sb.Monitor(time="t")
    w = m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 3 WINDOW 2 ROWS")
    m.push({"t": [1.0, None, None, 2.0], "x": [1.0, 2.0, 3.0, 4.0]})
    assert w.top()["seq"].to_pylist() == [3, 0]
    assert m.rows_seen == 4


def test_counts_are_for_ever_and_the_last_ten_thousand_are_kept() -> None:
    m = sb.Monitor(time="t")
    m.push({"t": [1.0], "x": [1.0]})
    for _ in range(3):
        m.push({"t": pa.nulls(5_000, pa.float64()), "x": [float(i) for i in range(5_000)]})
    assert m.reject_counts["time"] == 15_000
    assert m.rejects().num_rows == 10_000
    assert m.rejects()["seq"].to_pylist() == list(range(5_001, 15_001))
    again = sb.Monitor.from_bytes(m.to_bytes())
    assert again.reject_counts == m.reject_counts
    assert again.rejects().equals(m.rejects())


def test_a_row_at_the_edge_of_a_time_window_is_inside() -> None:
    m = sb.Monitor(time="t")
    w = m.watch(SQL.format("5 SECONDS"))
    m.push({"t": [10.0], "x": [1.0]})
    m.push({"t": [5.0, 4.999], "x": [2.0, 3.0]})
    assert w.top()["x"].to_pylist() == [2, 1]
    assert reasons(m) == [(2, "late")]
    m.advance(15.0)
    assert w.top()["x"].to_pylist() == [1]


def test_lateness_is_judged_before_the_step() -> None:
    m = sb.Monitor(time="t")
    m.watch(SQL.format("5 SECONDS"))
    m.push({"t": [100.0, 1.0], "x": [1.0, 2.0]})  # in one step: accepted, though outside at its end
    assert reasons(m) == []
    m.push({"t": [1.0], "x": [2.0]})
    assert reasons(m) == [(2, "late")]


def test_late_for_one_window_is_not_late_for_all() -> None:
    m = sb.Monitor(time="t")
    short = m.watch(SQL.format("2 SECONDS"), name="short")
    wide = m.watch(SQL.format("4 ROWS"), name="wide")
    m.push({"t": [10.0, 20.0, 30.0], "x": [1.0, 2.0, 3.0]})
    m.push({"t": [5.0], "x": [9.0]})  # the row window has room for one more
    assert wide.top()["x"].to_pylist() == [9, 3, 2]
    assert short.top()["x"].to_pylist() == [3]
    m.push({"t": [4.0, 5.0], "x": [8.0, 7.0]})  # 4 is older than the four rows; 5 is newer by its seq
    assert reasons(m) == [(4, "late")]


def test_with_no_watch_nothing_is_late() -> None:
    m = sb.Monitor(time="t")
    m.push({"t": [100.0], "x": [1.0]})
    m.push({"t": [1.0], "x": [1.0]})
    assert reasons(m) == []


def test_advance_makes_rows_late() -> None:
    m = sb.Monitor(time="t")
    m.watch(SQL.format("5 SECONDS"))
    m.advance(100.0)
    m.push({"t": [94.0, 95.0], "x": [1.0, 2.0]})
    assert reasons(m) == [(0, "late")]


# ---- ahead: see test_waiting.py for the rows that wait


@given(
    st.lists(st.lists(st.sampled_from([1, 2, 3, 9, 30, 31, 60, 100]), min_size=1, max_size=4), max_size=12)
)
def test_ahead_and_late_equal_the_oracle(steps: list[list[int]]) -> None:
    twin = Twin("whole", max_ahead=8)
    twin.watch("q", Question("x", 2, ("seconds", 6)))
    for times in steps:
        twin.push([{"x": 1.0, "y": 1.0, "c": "a", "t": t} for t in times])


@given(
    st.lists(
        st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 20)), st.booleans()), max_size=5), max_size=8
    )
)  # fmt: skip
def test_rows_of_wrong_type_are_rejected_alone(steps: list[list[tuple[int | None, bool]]]) -> None:
    """Lists of dicts in which some rows hold a text where a number belongs; the rest of the batch goes on."""
    schema = pa.schema([("t", pa.int64()), ("x", pa.float64())])
    m = sb.Monitor(time="t", schema=schema)
    oracle = Oracle("t", fits=lambda row: not isinstance(row["x"], str))
    w = m.watch(SQL.format("4 SECONDS"), name="w")
    oracle.watch("w", lambda row: row["x"], 3, ("seconds", 4))
    for step in steps:
        batch = [{"t": t, "x": "?" if bad else float(i)} for i, (t, bad) in enumerate(step)]
        m.push(batch)
        oracle.push(batch)
        assert reasons(m) == oracle.rejects
        assert w.top()["seq"].to_pylist() == [r.seq for r in oracle.top("w")]


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_a_time_beyond_the_calendar(unit: str) -> None:
    """As one in the wrong unit soon is: no key can hold it, and Python has no such year to show."""
    m = sb.Monitor(time="t")
    w = m.watch(SQL.format("5 SECONDS"))
    m.push(pa.table({"t": pa.array([0, 2**62, -(2**62)], pa.timestamp(unit)), "x": [1.0, 2.0, 3.0]}))
    assert w.top()["seq"].to_pylist() == [0]
    assert reasons(m) == [(1, "time"), (2, "time")]
    assert '"x": 2.0' in m.rejects()["raw"][0].as_py()
    m.push(pa.table({"t": pa.array([1], pa.timestamp(unit)), "x": pa.array([2**61], pa.timestamp(unit))}))
    assert reasons(m)[2:] == [(3, "type")]


def test_a_step_of_nothing_does_not_count_as_a_jump() -> None:
    m = sb.Monitor(time="t", max_ahead="10 seconds")
    m.push({"t": [0.0], "x": [0.0]})
    for t in (100.0, 101.0):
        m.push({"t": [t], "x": [1.0]})
        m.push({"t": pa.array([], pa.float64()), "x": pa.array([], pa.float64())})
    assert m.now == 0.0
    m.push({"t": [102.0], "x": [1.0]})
    assert m.reject_counts["ahead"] == 0 and m.now == 102.0


def test_no_row_stops_the_stream() -> None:
    m = sb.Monitor(time="t", schema=pa.schema([("t", pa.timestamp("us")), ("x", pa.int32())]))
    w = m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 9 WINDOW 99 ROWS")
    good = dt.datetime(2024, 1, 1)
    odd: list[Any] = [2**40, -(2**31) - 1, 1.5, math.nan, math.inf, "x", b"x", [1], {"a": 1}, object(), 1j]
    m.push([{"t": good, "x": value} for value in odd] + [{"t": good, "x": 7}])
    assert w.top()["x"].to_pylist() == [7]
    m.push([{"t": value, "x": 8} for value in ["soon", [good], object()]] + [{"t": good, "x": 9}])
    assert w.top()["x"].to_pylist() == [9, 7]
    assert m.rows_seen == len(odd) + 1 + 4
    assert all(isinstance(row["raw"], str) for row in m.rejects().to_pylist())


@pytest.mark.parametrize("value", [math.nan, None])
def test_a_time_that_is_no_time(value: float | None) -> None:
    m = sb.Monitor(time="t", schema=pa.schema([("t", pa.float64()), ("x", pa.float64())]))
    m.push({"t": pa.array([1.0, value]), "x": [1.0, 2.0]})
    assert reasons(m) == [(1, "time")]
    assert m.now == 1.0


def test_decimals_too_far_apart() -> None:
    """Arrow takes a power of ten from beyond its table for them: any number comes out."""
    digits = pa.array([Decimal(150), None], pa.decimal128(10, 0)).buffers()
    m = sb.Monitor(schema=pa.schema([("x", pa.decimal128(38, 2)), ("n", pa.int64())]))
    for column in ("x", "n"):
        m.push(pa.table({column: pa.Array.from_buffers(pa.decimal128(10, -100), 2, digits)}))
    assert m.rejects()["reason"].to_pylist() == ["type", "type"]
    w = m.watch("SELECT x FROM s ORDER BY x LIMIT 2 WINDOW 9 ROWS")
    m.push(pa.table({"x": pa.Array.from_buffers(pa.decimal128(10, 1), 2, digits)}))
    assert w.top()["x"].to_pylist() == [Decimal(15)]
