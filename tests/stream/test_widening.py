"""Types that no schema declares widen when a value needs it, and the answer is that of the wider type throughout."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb

TOP = "SELECT v FROM s ORDER BY x DESC LIMIT 9 WINDOW 99 ROWS"
DAY = dt.date(2024, 2, 29)
NOON = dt.datetime(2024, 2, 29, 12)
BEYOND = 2**53 + 1  # no double is this number


def pushed(*batches: Any, sql: str = TOP, **options: Any) -> tuple[sb.Monitor, Any]:
    """A monitor that has got these values of v, batch by batch."""
    m = sb.Monitor(**options)
    w = m.watch(sql)
    for values in batches:
        m.push([{"x": -float(m.rows_seen + i), "v": v} for i, v in enumerate(values)])
    return m, w


def rejected(m: sb.Monitor) -> list[tuple[int, str]]:
    return [(row["seq"], row["reason"]) for row in m.rejects().to_pylist()]


def test_an_integer_that_a_fraction_follows() -> None:
    """JavaScript writes 88.0 as 88."""
    m = sb.Monitor()
    w = m.watch("SELECT car, speed FROM s ORDER BY speed DESC LIMIT 2 WINDOW 9 ROWS")
    m.push([{"ts": 1, "car": "a", "speed": 88}])
    m.push([{"ts": 2, "car": "b", "speed": 121.5}])
    assert [(row["car"], row["speed"]) for row in w.top().to_pylist()] == [("b", 121.5), ("a", 88.0)]
    assert m.rejects().num_rows == 0


WIDER: dict[str, tuple[list[Any], pa.DataType]] = {
    "nothing": ([None, 5], pa.int64()),
    "nothing, then a text": ([None, "a"], pa.string()),
    "an integer": ([88, 121.5], pa.float64()),
    "an integer, then no number": ([1, math.inf, 2], pa.float64()),
    "large integers that are doubles": ([2**53, 2**60, -(2**63), 0.5], pa.float64()),
    "an integer beyond 64 bits with sign": ([1, 2**63], pa.float64()),
    "a day": ([DAY, NOON], pa.timestamp("us")),
    "a decimal": ([Decimal("1.5"), Decimal("123.25")], pa.decimal128(5, 2)),
    "a decimal, then an integer": ([Decimal("1.5"), 12345], pa.decimal128(20, 1)),
}


@pytest.mark.parametrize("case", sorted(WIDER))
@pytest.mark.parametrize("together", [False, True])
def test_a_column_takes_the_wider_type(case: str, together: bool) -> None:
    values, type_ = WIDER[case]
    m, w = pushed(values[:1], values[1:]) if together else pushed(*([value] for value in values))
    first = dt.datetime(2024, 2, 29) if values[0] is DAY else values[0]
    assert w.top()["v"].to_pylist() == [first, *values[1:]]
    assert w.top().schema.field("v").type == type_
    assert m.rejects().num_rows == 0


def tables(*columns: pa.Array) -> list[pa.Table]:
    return [pa.table({"v": column, "x": pa.array([0.0] * len(column))}) for column in columns]


ARROW = {
    "bits": (pa.array([1], pa.int8()), pa.array([2**40, 1], pa.int64()), pa.int64()),
    "sign": (pa.array([1], pa.uint8()), pa.array([-1], pa.int8()), pa.int64()),
    "float": (pa.array([1], pa.int32()), pa.array([0.5], pa.float32()), pa.float64()),
    "unit": (pa.array([1], pa.timestamp("s")), pa.array([1_500], pa.timestamp("ms")), pa.timestamp("ms")),
    "nanoseconds": (pa.array([1], pa.timestamp("us")), pa.array([1], pa.timestamp("ns")), pa.timestamp("ns")),
    "zone": (
        pa.array([1], pa.timestamp("s", "UTC")),
        pa.array([1_500], pa.timestamp("ms", "Asia/Tokyo")),
        pa.timestamp("ms", "UTC"),
    ),
    "day": (pa.array([19_000], pa.date32()), pa.array([1], pa.timestamp("us", "UTC")), pa.timestamp("us", "UTC")),
    "digits": (
        pa.array([Decimal("1.5")], pa.decimal128(38, 1)),
        pa.array([Decimal("0.25")], pa.decimal128(3, 2)),
        pa.decimal256(39, 2),
    ),
    "dictionary": (pa.array([1, 2]), pa.array([0.5, 1.0]).dictionary_encode(), pa.float64()),
}  # fmt: skip


# polars has no decimals of more than 38 digits
@pytest.mark.parametrize(
    ("case", "form"),
    [
        (case, form)
        for case, (_, _, type_) in sorted(ARROW.items())
        for form in ("arrow", "pandas", "polars")
        if not (form == "polars" and pa.types.is_decimal(type_))
    ],
)
def test_frames_widen_too(case: str, form: str) -> None:
    first, second, type_ = ARROW[case]
    m = sb.Monitor()
    w = m.watch("SELECT v FROM s ORDER BY x DESC LIMIT 9 WINDOW 99 ROWS")
    batches: list[Any] = tables(first, second)
    if form == "pandas":
        pytest.importorskip("pandas")
        batches = [batch.to_pandas() for batch in batches]
    elif form == "polars":
        polars = pytest.importorskip("polars")
        batches = [polars.from_arrow(batch) for batch in batches]
    for batch in batches:
        m.push(batch)
    assert m.rejects().num_rows == 0
    values = w.top()["v"].to_pylist()
    found = (
        [value.as_py() for value in [*second.cast(type_), *first.cast(type_)]] if form == "arrow" else values
    )
    assert sorted(map(str, values)) == sorted(map(str, found)) and len(values) == len(first) + len(second)


def test_what_a_narrower_type_holds_needs_no_wider_one() -> None:
    m, w = pushed([88], [121.0], [None])
    assert w.top().schema.field("v").type == pa.int64() and w.top()["v"].to_pylist() == [88, 121, None]
    m = sb.Monitor()
    w = m.watch("SELECT v FROM s ORDER BY x DESC LIMIT 9 WINDOW 99 ROWS")
    for table in tables(pa.array([1], pa.timestamp("s")), pa.array([2_000_000], pa.timestamp("us"))):
        m.push(table)
    assert w.top().schema.field("v").type == pa.timestamp("s")


NARROW: dict[str, tuple[list[list[Any]], list[int]]] = {
    "an integer that is no double came before": ([[BEYOND], [0.5], [7]], [1]),
    "and in the same batch": ([[1], [BEYOND, 0.5]], [2]),
    "or after it": ([[1], [0.5, BEYOND]], [2]),
    "a text among numbers": ([[1], ["a", 2.5], ["b"]], [1, 3]),
    "a number among texts": ([["a"], [1]], [1]),
    "a truth among integers": ([[1], [True]], [1]),
    "a decimal among integers": ([[1], [Decimal("1.5")]], [1]),
    "a double among decimals": ([[Decimal("1.5")], [0.125]], [1]),
    "a day among integers": ([[1], [DAY]], [1]),
}


@pytest.mark.parametrize("case", sorted(NARROW))
def test_what_does_not_widen_is_rejected(case: str) -> None:
    batches, wrong = NARROW[case]
    m, w = pushed(*batches)
    assert rejected(m) == [(seq, "type") for seq in wrong]
    every = [value for batch in batches for value in batch]
    assert w.top()["v"].to_pylist() == [value for seq, value in enumerate(every) if seq not in wrong]


def test_a_rejected_integer_does_not_count() -> None:
    m = sb.Monitor(time="t")
    m.push([{"t": 1, "v": 1}, {"t": None, "v": BEYOND}])
    m.push([{"t": 1, "v": 0.5}])
    assert rejected(m) == [(1, "time")]


def test_nanoseconds_only_within_their_years() -> None:
    far = pa.array([2**60], pa.timestamp("ms"))
    m = sb.Monitor()
    w = m.watch(TOP)
    for table in tables(far, pa.array([1], pa.timestamp("ns")), pa.array([5], pa.timestamp("ms"))):
        m.push(table)
    assert rejected(m) == [(1, "type")] and w.top().num_rows == 2
    m = sb.Monitor()
    for table in tables(pa.array([5], pa.timestamp("ms")), pa.array([1], pa.timestamp("ns")), far):
        m.push(table)
    assert rejected(m) == [(2, "type")]


def test_a_declared_type_never_changes() -> None:
    m, w = pushed([1], [0.5], schema={"v": "int64", "x": "double"})
    m.push([{"y": 1, "v": 2}, {"y": 0.5, "v": 3}])
    m.push([{"y": 0.5, "v": 2}])  # of y nothing was said
    assert rejected(m) == [(1, "type")] and w.top().num_rows == 1


def test_keys_keep_their_type() -> None:
    rows = [[{"k": 1, "x": 1}], [{"k": 1.5, "x": 0.5}], [{"k": 2.0, "x": 0.5}]]
    grouped = sb.Monitor()
    grouped.watch("SELECT k, SUM(x) FROM s GROUP BY k ORDER BY SUM(x) LIMIT 3 WINDOW 9 ROWS")
    joined = sb.Monitor()
    joined.watch("SELECT k FROM s FULL JOIN r USING (k) ORDER BY s.x + r.x LIMIT 3 WINDOW 9 ROWS")
    for m in (grouped, joined, sb.Monitor(key="k")):
        for batch in rows:
            m.push(batch, stream="s")
        assert rejected(m) == [(1, "type")]


def test_a_time_column_widens() -> None:
    m = sb.Monitor(time="t")
    w = m.watch("SELECT t FROM s ORDER BY x DESC LIMIT 9 WINDOW 10 SECONDS")
    assert m.push([{"t": 1, "x": 2.0}]).schema.field("time").type == pa.int64()
    assert m.push([{"t": 11.5, "x": 1.0}])["time"].to_pylist() == [1.0, 11.5]
    assert w.top()["t"].to_pylist() == [11.5] and m.now == 11.5
    m = sb.Monitor(time="t")
    w = m.watch("SELECT t FROM s ORDER BY x DESC LIMIT 9 WINDOW 24 HOURS")
    m.push([{"t": DAY, "x": 2.0}])
    m.push([{"t": NOON, "x": 1.0}])
    assert w.top()["t"].to_pylist() == [dt.datetime(2024, 2, 29), NOON]


def test_a_time_column_that_is_null_at_first() -> None:
    m = sb.Monitor(time="t")
    w = m.watch("SELECT t FROM s ORDER BY x DESC LIMIT 9 WINDOW 10 SECONDS")
    m.push([{"t": None, "x": 1.0}])
    m.push([{"t": 5, "x": 1.0}])
    assert rejected(m) == [(0, "time")] and w.top()["t"].to_pylist() == [5]


def test_a_day_and_a_moment_in_one_column() -> None:
    """Arrow makes days of both, without a word."""
    _, w = pushed([DAY, NOON])
    assert w.top()["v"].to_pylist() == [dt.datetime(2024, 2, 29), NOON]


def test_the_score_of_a_time_is_the_same_in_every_unit() -> None:
    moments = [1_700_000_000_123_457 + 7_919 * i for i in range(100)]
    sql = "SELECT t FROM s ORDER BY t DESC LIMIT 200 WINDOW 999 ROWS"
    tops = []
    for units in (("us", "ns"), ("ns", "ns")):
        m = sb.Monitor()
        w = m.watch(sql)
        for unit in units:
            m.push(pa.table({"t": pa.array(moments, pa.timestamp("us")).cast(pa.timestamp(unit))}))
        m.push(pa.table({"t": pa.array([1_700_000_000_123_457_001], pa.timestamp("ns"))}))
        tops.append(w.top())
    assert tops[0].equals(tops[1])


# -- what is kept ------------------------------------------------------------------------------------------------


def test_retained_rows_are_carried_over() -> None:
    m = sb.Monitor(retain=sb.rows(99))
    m.push([{"x": 1, "v": 3}, {"x": 2, "v": 4}])
    m.push([{"x": 3, "v": 0.5}])
    w = m.watch("SELECT v FROM s ORDER BY v DESC LIMIT 9 WINDOW 99 ROWS")
    assert w.top()["v"].to_pylist() == [4.0, 3.0, 0.5]


def test_a_saved_monitor_goes_on_widening(tmp_path: Path) -> None:
    m, _ = pushed([BEYOND], [1])
    m.save(tmp_path / "m")
    m = sb.Monitor.load(tmp_path / "m")
    m.push([{"x": 1.0, "v": 0.5}])
    assert rejected(m) == [(2, "type")]
    m, _ = pushed([1], [0.5])
    for v in (2, 2.5):
        m = sb.Monitor.from_bytes(m.to_bytes())
        m.push([{"x": -float(m.rows_seen), "v": v}])
    assert m.watches["query1"].top()["v"].to_pylist() == [1.0, 0.5, 2.0, 2.5]
    m, _ = pushed([1], schema={"v": "int64", "x": "double"})
    m = sb.Monitor.from_bytes(m.to_bytes())
    m.push([{"x": -9.0, "v": 0.5}])
    assert rejected(m) == [(1, "type")]


def test_a_journal_is_repeated_under_the_rules_of_its_steps(tmp_path: Path) -> None:
    with sb.Monitor(journal=tmp_path / "j") as m:
        m.watch(TOP, name="w")
        m.push([{"x": 1.0, "v": 1}])
        m.push([{"x": 0.0, "v": 0.5}])
        expected = m.watches["w"].top()
        m.journal.leave()  # type: ignore[union-attr]
    with sb.Monitor(journal=tmp_path / "j") as m:
        assert m.watches["w"].top().equals(expected)


FAMILIES = {
    "ra": "SELECT * FROM s WHERE y >= 0 ORDER BY x - y DESC LIMIT 3 WINDOW 6 ROWS WITH (algorithm = 'ra')",
    "tma": "SELECT * FROM s WHERE y BETWEEN 0 AND 2 ORDER BY x DESC LIMIT 3 WINDOW 6 ROWS WITH (algorithm = 'tma')",
    "sma": "SELECT * FROM s WHERE x < 3 AND y > 0 ORDER BY x LIMIT 3 WINDOW 6 ROWS WITH (algorithm = 'sma')",
    "tsl": "SELECT y FROM s ORDER BY x + y LIMIT 3 WINDOW 6 ROWS WITH (algorithm = 'tsl')",
    "heightmap": "SELECT y FROM s ORDER BY x + y LIMIT 3 WINDOW 6 ROWS WITH (algorithm = 'heightmap')",
    "threshold": "SELECT * FROM s WHERE x > 0 AND y < 3 WINDOW 6 ROWS",
    "grouped": "SELECT c, SUM(x) AS n FROM s WHERE y > 0 GROUP BY c ORDER BY SUM(x) DESC LIMIT 3 WINDOW 6 ROWS",
    "pairs": "SELECT a.x, b.y FROM s a, s b WHERE a.y < b.y ORDER BY abs(a.x - b.x) LIMIT 3 WINDOW 6 ROWS",
    "colours": "SELECT a.x FROM s a, s b WHERE a.y = b.y ORDER BY a.x + b.x LIMIT 3 WINDOW 6 ROWS",
    "unlike": "SELECT a.x FROM s a, s b WHERE a.y <> b.y ORDER BY a.x - b.x LIMIT 3 WINDOW 6 ROWS",
}
VALUES = st.sampled_from([0, 1, 2, 3, -1, 2**60, None, 0.5, 1.5, -0.0, math.inf])


@pytest.mark.parametrize("family", sorted(FAMILIES))
@settings(max_examples=40)
@given(data=st.data())
def test_it_is_as_if_the_type_had_been_the_wider_one(family: str, data: st.DataObject) -> None:
    row = st.fixed_dictionaries({"x": VALUES, "y": VALUES, "c": st.sampled_from("ab")})
    given_ = sb.Monitor(schema={"x": "double", "y": "double", "c": "string"})
    found = sb.Monitor()
    wide, narrow = (m.watch(FAMILIES[family], name="w") for m in (given_, found))
    saved = data.draw(st.booleans())
    for batch in data.draw(st.lists(st.lists(row, min_size=1, max_size=4), max_size=6)):
        given_.push(batch)
        found.push(batch)
        if saved:
            found = sb.Monitor.from_bytes(found.to_bytes())
            narrow = found.watches["w"]
        found._check()
        assert narrow.top().to_pylist() == wide.top().to_pylist()
        if family in ("tma", "ra", "sma"):
            asked = FAMILIES[family].replace("LIMIT 3", "LIMIT 5")
            late = [m.watch(asked, name=f"late{m.rows_seen}") for m in (given_, found)]
            assert late[0].top().to_pylist() == late[1].top().to_pylist()
    assert found.rejects().num_rows == 0
