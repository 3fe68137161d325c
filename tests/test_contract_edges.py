"""Corners of the contract that somebody who only read it tripped over."""

from datetime import date, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import skyband as sb

TOP = "SELECT x FROM {} ORDER BY x DESC LIMIT {} WINDOW {}"


def test_a_row_window_that_is_not_known_is_never_guessed() -> None:
    m = sb.Monitor(time="ts")
    m.push([{"ts": 0, "x": 100}])
    w = m.watch(TOP.format("s", 4, "10 SECONDS"))
    m.push([{"ts": i, "x": 10 - i} for i in range(1, 5)])
    with pytest.raises(sb.QueryError, match="last 1 is known only"):
        w.top(k=2, window="1 rows")


def test_times_of_several_streams_share_a_type_that_holds_them_all() -> None:
    m = sb.Monitor(time="ts")
    for name in ("a", "b"):
        m.watch(TOP.format(name, 2, "5 SECONDS"), name=name)
    m.push([{"ts": 1, "x": 1}], stream="a")
    assert m.push([{"ts": 2.5, "x": 1}], stream="b")["time"].to_pylist() == [2.5]


def test_dates_and_timestamps_of_two_streams() -> None:
    m = sb.Monitor(time="ts")
    for name in ("a", "b"):
        m.watch(TOP.format(name, 2, "9 DAYS"), name=name)
    m.push([{"ts": date(2020, 1, 2), "x": 1}], stream="a")
    changes = m.push([{"ts": datetime(2020, 1, 2, 13), "x": 1}], stream="b")
    assert changes["time"].to_pylist() == [datetime(2020, 1, 2, 13)]


def test_a_stream_without_times_has_none_in_its_changes() -> None:
    m = sb.Monitor(time={"a": "t"})
    m.watch(TOP.format("a", 1, "5 ROWS"), name="a")
    m.watch(TOP.format("b", 1, "5 ROWS"), name="b")
    assert m.push([{"t": 1, "x": 1}], stream="a")["time"].to_pylist() == [1]
    assert m.push([{"x": 1}], stream="b")["time"].to_pylist() == [None]


def test_a_given_schema_is_saved_before_the_first_row(tmp_path: Path) -> None:
    m = sb.Monitor(schema=pa.schema([("x", pa.int64())]))
    m.save(tmp_path / "m")
    again = sb.Monitor.load(tmp_path / "m")
    again.push([{"x": 1.5}])
    assert again.reject_counts["type"] == 1


def test_advance_before_the_first_row(tmp_path: Path) -> None:
    m = sb.Monitor(time="ts")
    with pytest.raises(sb.InputError, match="not a time"):
        m.advance("junk")
    m.advance(np.int64(5))
    m.save(tmp_path / "m")
    again = sb.Monitor.load(tmp_path / "m")
    again.push([{"ts": 4, "x": 1}])
    assert again.now == 5.0


def test_a_column_alone_is_no_batch() -> None:
    with pytest.raises(sb.InputError, match="can't be of type Series"):
        sb.Monitor().push(pytest.importorskip("polars").Series("x", [1, 2]))
    with pytest.raises(sb.InputError, match="can't be of type ChunkedArray"):
        sb.Monitor().push(pa.chunked_array([[1, 2]]))


def test_explain_foresees_rows_and_bytes() -> None:
    m = sb.Monitor()
    w = m.watch(TOP.format("s", 5, "1000 ROWS"))
    m.push({"x": np.random.default_rng(1).random(3000)})
    plan = w.explain()
    assert plan.predicted is not None and plan.predicted_bytes == 24 * plan.predicted
    assert "predicted" in str(plan) and "bytes)" in str(plan)


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("1000 ROWS", "(900 bytes) when the window is full"),
        ("1 HOUR", "when the window holds 100,000 rows, as assumed until they come"),
    ],
)
def test_explain_before_any_row_says_what_will_be_kept(window: str, expected: str) -> None:
    w = sb.Monitor(time="ts").watch(TOP.format("s", 5, window))
    text = str(w.explain())
    assert expected in text and "expected   about" in text
    assert "of 0 rows" not in text and "  did  " not in text and "also kept" not in text
    assert sb.Monitor().watch(TOP.format("s", 5, "9 ROWS")).explain().assumed_rows is None


def test_what_is_there() -> None:
    assert set(dir(sb)) == set(sb.__all__)
    watch = sb.Monitor().watch(TOP.format("s", 2, "3 ROWS"), name="fast")
    assert repr(watch) == "<watch fast: SELECT x FROM s ORDER BY x DESC LIMIT 2 WINDOW 3 ROWS>"


def test_a_top_before_any_row() -> None:
    top = sb.Monitor().watch("SELECT x, y + 1 AS z FROM s ORDER BY x DESC LIMIT 2 WINDOW 3 ROWS").top()
    assert top.num_rows == 0 and top.column_names == ["rank", "score", "seq", "x", "z"]


def test_a_selected_expression_is_null_where_an_operand_is() -> None:
    m = sb.Monitor()
    w = m.watch("SELECT y + 1 AS z FROM s ORDER BY x DESC LIMIT 3 WINDOW 5 ROWS")
    m.push({"x": [1.0, 2.0, 3.0], "y": [None, 1.0, float("nan")]})
    assert w.top()["z"].to_pylist() == [None, 2.0, None]


def test_scores_that_forgive_a_nan_do_not_get_one() -> None:
    """NaN ^ 0 is 1 by IEEE 754, and a row without a value in a column that the score uses is in no answer."""
    m = sb.Monitor()
    watches = [
        m.watch(f"SELECT x FROM s ORDER BY {score} DESC LIMIT 2 WINDOW 5 ROWS")
        for score in ("x ^ 0", "x ^ 2")
    ]
    m.push({"x": [float("nan"), 1.0]})
    assert [w.top()["seq"].to_pylist() for w in watches] == [[1], [1]]


def test_a_watch_among_retained_rows_counts_late_ones_too() -> None:
    m = sb.Monitor(time="t", retain=sb.rows(10))
    m.push({"t": [float(i) for i in range(8)], "x": [float(i) for i in range(8)]})
    w = m.watch("SELECT x FROM s ORDER BY x LIMIT 2 WINDOW 6 ROWS")
    m.push({"t": [3.5], "x": [0.0]})
    assert w.top()["seq"].to_pylist() == [8, 3]


def test_retained_rows_of_which_there_are_none() -> None:
    m = sb.Monitor(time="t", retain=sb.rows(10))
    w = m.watch(TOP.format("s", 2, "3 ROWS"))
    m.push({"t": pa.nulls(2, pa.float64()), "x": [1.0, 2.0]})  # both are rejected
    again = sb.Monitor.from_bytes(m.to_bytes())
    again.push({"t": [1.0], "x": [1.0]})
    assert again.watches[w.name].top()["seq"].to_pylist() == [2]


@pytest.mark.parametrize(
    "time",
    [float("nan"), float("inf"), True, np.datetime64("NaT"), np.float64("nan"), pd.NaT, datetime(1, 1, 1)],
)
def test_no_time_before_the_first_row_is_an_error_at_once(time: object) -> None:
    """It was taken, and every batch after it was refused."""
    m = sb.Monitor(time="ts")
    with pytest.raises(sb.InputError):
        m.advance(time)
    assert m.now is None
    w = m.watch(TOP.format("s", 4, "10 SECONDS"))
    m.push([{"ts": datetime(2024, 1, 1), "x": 1}])
    assert w.top()["x"].to_pylist() == [1]


def test_seconds_before_the_first_row_that_no_timestamp_has() -> None:
    """All time that timestamps have has passed: rows are late, and don't stop the stream."""
    m = sb.Monitor(time="ts")
    m.watch(TOP.format("s", 4, "10 SECONDS"))
    m.advance(1e30)
    for _ in range(2):
        m.push([{"ts": datetime(2024, 1, 1), "x": 1}])
    assert m.reject_counts["late"] == 2


@pytest.mark.parametrize("watch_first", [True, False])
def test_order_by_may_end_with_the_time_column_newest_first(watch_first: bool) -> None:
    m = sb.Monitor(time="ts")
    batch = {"ts": [1.0, 3.0, 2.0], "x": [5, 5, 5]}
    if not watch_first:
        m.push({"ts": [0.0], "x": [0]})
    text = "SELECT ts FROM s ORDER BY x DESC, {} DESC LIMIT 2 WINDOW 10 SECONDS"
    w = m.watch(text.format("s.ts"))
    with pytest.raises(
        sb.QueryError, match=r"can only be the time column, .* and x is not \(line 1, column 35\)"
    ):
        m.watch(text.format("x"))
    m.push(batch)
    assert w.top()["ts"].to_pylist() == [3.0, 2.0]
    again = sb.Monitor.from_bytes(m.to_bytes()).watches[w.name]
    assert again.top().equals(w.top()) and again.query == w.query
    with pytest.raises(sb.QueryError, match="can only be the time column"):
        sb.Monitor().watch(text.format("ts").replace("10 SECONDS", "10 ROWS"))
