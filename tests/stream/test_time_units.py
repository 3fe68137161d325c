"""Times that are numbers of a unit: whole numbers stay exact, windows have their length, outputs use the unit."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from skyband.stream import clock

NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
START = 1_700_000_000  # seconds
SQL = "SELECT ts, x FROM s ORDER BY x DESC LIMIT 3 WINDOW 1 MINUTE"
units = pytest.mark.parametrize("unit", NANOSECONDS)


@units
def test_the_unit_is_that_of_windows_and_outputs(unit: str) -> None:
    """`WINDOW 1 HOUR` over milliseconds was 3.6 seconds."""
    second = 10**9 // NANOSECONDS[unit]
    start = START * second
    m = sb.Monitor(time="ts", time_unit=unit)
    w = m.watch(SQL)
    changes = m.push({"ts": [start, start + 59 * second, start + 60 * second], "x": [3.0, 2.0, 1.0]})
    assert changes["time"].to_pylist() == [start, start + 59 * second, start + 60 * second]
    assert changes.schema.field("time").type == pa.int64()
    assert m.now == start + 60 * second and isinstance(m.now, int)
    assert m.advance(start + 61 * second)["seq"].to_pylist() == [0]
    assert w.top()["ts"].to_pylist() == [start + 59 * second, start + 60 * second]
    m.push({"ts": [start + 61 * second - 1], "x": [9.0]})
    assert w.top()["x"].to_pylist() == [9.0, 2.0, 1.0]
    m.push({"ts": [start + 60 * second + 60 * second], "x": [0.0]})
    assert w.top()["x"].to_pylist() == [9.0, 1.0, 0.0], "the edge belongs to the window"


def test_whole_numbers_are_exact() -> None:
    """As doubles these are one number."""
    base = 2**60
    m = sb.Monitor(time="ts", time_unit="ns")
    w = m.watch("SELECT ts FROM s ORDER BY x LIMIT 5 WINDOW 2 ROWS")
    m.push({"ts": [base + 2, base, base + 1], "x": [1.0, 1.0, 1.0]})
    assert w.top()["ts"].to_pylist() == [base + 2, base + 1]
    assert m.now == base + 2
    assert m.advance(base + 3).num_rows == 0 and m.now == base + 3
    w = m.watch("SELECT ts FROM s ORDER BY x LIMIT 5 WINDOW 1 SECOND")
    m.push({"ts": [base + 10**9 + 3, base + 3], "x": [1.0, 2.0]})
    assert w.top()["ts"].to_pylist() == [base + 10**9 + 3, base + 3]
    assert m.advance(base + 10**9 + 4)["seq"].to_pylist() == [4]


def test_expressions_see_the_column_as_it_is() -> None:
    m = sb.Monitor(time="ts", time_unit="ms")
    w = m.watch("SELECT ts FROM s WHERE ts >= 2000 ORDER BY ts - 1 LIMIT 2 WINDOW 1 MINUTE")
    m.push({"ts": [1999, 2000, 3000]})
    assert w.top()["score"].to_pylist() == [1999.0, 2999.0]


@units
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_as_timestamps(unit: str, data: st.DataObject) -> None:
    """The same rows with their times as timestamps have the same answers and changes."""
    per = NANOSECONDS[unit]
    base = START * 10**9 // per
    spread = st.integers(-(10**10) // per, 10**10 // per)
    steps = data.draw(st.lists(st.lists(st.tuples(spread, st.integers(0, 9)), max_size=6), max_size=5))
    ours = sb.Monitor(time="ts", time_unit=unit)
    theirs = sb.Monitor(time="ts", schema={"ts": "timestamp[ns]", "x": "double"})
    for window in ("5 SECONDS", "4 ROWS"):
        for m in (ours, theirs):
            m.watch(f"SELECT x FROM s ORDER BY x LIMIT 2 WINDOW {window}")
    for rows in steps:
        times = [base + t for t, _ in rows]
        scores = pa.array([float(x) for _, x in rows])
        own = ours.push({"ts": pa.array(times, pa.int64()), "x": scores})
        stamps = pa.array([t * per for t in times], pa.int64()).cast(pa.timestamp("ns"))
        other = theirs.push({"ts": stamps, "x": scores})
        assert own.drop(["time"]).equals(other.drop(["time"]))
        assert [t * per for t in own["time"].to_pylist()] == other["time"].cast(pa.int64()).to_pylist()
        assert ours.reject_counts == theirs.reject_counts
        ours = sb.Monitor.from_bytes(ours.to_bytes())


@units
@given(value=st.floats(allow_nan=True, allow_infinity=True) | st.floats(-3e9, 3e9))
def test_fractions_are_rounded_to_a_nanosecond(unit: str, value: float) -> None:
    (key,), (missing,) = clock.keys_of(pa.array([value]), unit)  # type: ignore[arg-type]
    exact = Fraction(value) * NANOSECONDS[unit] if np.isfinite(value) else None
    if exact is None or abs(exact) > 2**63 - 2 * 10**9:
        assert missing or abs(exact or 2**63) < 2**63
        return
    assert not missing and abs(key - exact) <= Fraction(1, 2)
    assert key == clock.key(value, unit)  # type: ignore[arg-type]


@units
def test_a_column_of_fractions_keeps_its_numbers(unit: str) -> None:
    times = [1_700_000_000.5, 1_700_000_000.25, 1_700_000_001.0, 0.125, -7.5]
    if unit == "ns":
        times = [float(round(t)) for t in times]
    m = sb.Monitor(time="ts", time_unit=unit)
    m.watch("SELECT x FROM s ORDER BY x LIMIT 9 WINDOW 9 ROWS")
    changes = m.push({"ts": times, "x": [1.0, 2.0, 3.0, 4.0, 5.0]})
    assert changes["time"].to_pylist() == times
    assert m.now == 1_700_000_001


@pytest.mark.parametrize(
    "times",
    [
        pa.array([1.5, 1e300, None, float("inf"), float("nan"), -1e300]),
        pa.array([1, 2**62, None, 2**63 - 1, -(2**63), 2**55]),
        pa.array([1, 2**62, None, 2**63, 2**64 - 1, 2**55], pa.uint64()),
        pa.array(
            [
                Decimal("1.5"),
                Decimal(10) ** 30,
                None,
                Decimal(10) ** 25,
                -(Decimal(10) ** 30),
                Decimal(10) ** 29,
            ]
        ),
    ],
    ids=["doubles", "integers", "unsigned", "decimals"],
)
def test_times_beyond_are_rejected(times: Any) -> None:
    m = sb.Monitor(time="ts", time_unit="ms")
    w = m.watch("SELECT ts FROM s ORDER BY x LIMIT 9 WINDOW 9 ROWS")
    m.push({"ts": times, "x": pa.array([0.0] * 6)})
    assert m.reject_counts["time"] == 5
    assert w.top()["ts"].to_pylist() == times[:1].to_pylist()


def test_streams_of_different_units() -> None:
    """`now`, `advance` and the changes use the finest one."""
    m = sb.Monitor(time="ts", time_unit={"a": "s", "b": "ms"})
    w = m.watch("SELECT id FROM a FULL JOIN b USING (id) ORDER BY a.x + b.y DESC LIMIT 5 WINDOW 1 MINUTE")
    changes = m.push({"ts": [100, 160], "id": [1, 2], "x": [1.0, 2.0]}, stream="a")
    assert changes["time"].to_pylist() == [160_000, 100_000] and m.now == 160_000
    m.push({"ts": [160_001], "id": [2], "y": [1.0]}, stream="b")
    assert w.top()["score"].to_pylist() == [3.0], "the first row is a minute and a millisecond old"
    m = sb.Monitor.from_bytes(m.to_bytes())
    assert m.now == 160_001 and m.advance(220_001).num_rows == 2
    m.push({"ts": [221], "id": [1], "x": [4.0]}, stream="a")
    assert m.watches["query1"].top()["score"].to_pylist() == [4.0]


def test_a_time_that_is_given_may_be_a_datetime() -> None:
    m = sb.Monitor(time="ts", time_unit="ms")
    m.watch(SQL)
    m.advance(dt.datetime(2024, 5, 1, tzinfo=dt.UTC))
    assert m.now == 1_714_521_600_000
    m.advance(1_714_521_600_000.5)
    assert m.now == 1_714_521_600_000.5


def test_the_column_may_widen() -> None:
    m = sb.Monitor(time="ts", time_unit="ms")
    w = m.watch("SELECT ts FROM s ORDER BY x LIMIT 5 WINDOW 1 SECOND")
    m.push([{"ts": 1000, "x": 1.0}])
    m.push([{"ts": 2000.5, "x": 1.0}])
    assert w.top()["ts"].to_pylist() == [2000.5]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"time": "ts", "time_unit": "minutes"}, "time_unit= must be s, ms, us or ns.*'minutes'"),
        ({"time": "ts", "time_unit": {"s": 3}}, "time_unit= must be s, ms, us or ns.*3"),
        ({"time_unit": "ms"}, "time_unit= needs a time column"),
    ],
)
def test_errors(options: dict[str, Any], said: str) -> None:
    with pytest.raises(sb.SkybandError, match=said):
        sb.Monitor(**options)


def test_a_unit_of_what_is_no_number() -> None:
    m = sb.Monitor(time="ts", time_unit="ms")
    with pytest.raises(
        sb.SkybandError, match=r'time_unit= is for a column of numbers, and .* "ts" is timestamp'
    ):
        m.push({"ts": [dt.datetime(2024, 5, 1)], "x": [1.0]})
    with pytest.raises(sb.SkybandError, match="nan is not a time; give a finite number of ms"):
        m.advance(float("nan"))
    with pytest.raises(sb.SkybandError, match="outside the years 1677 to 2262"):
        m.advance(2**62)


def test_a_journal_keeps_the_unit(tmp_path: Any) -> None:
    with sb.Monitor(time="ts", time_unit="ms", journal=tmp_path / "j") as m:
        m.watch(SQL)
        m.push({"ts": [1000, 62_000], "x": [1.0, 2.0]})
        m.advance(63_000)
    with sb.Monitor(journal=tmp_path / "j") as m:
        assert m.time_unit == "ms" and m.now == 63_000
        assert m.watches["query1"].top()["x"].to_pylist() == [2.0]
    with pytest.raises(sb.SkybandError, match=r"time_unit= is not that which the journal .* began with"):
        sb.Monitor(time="ts", time_unit="s", journal=tmp_path / "j")
