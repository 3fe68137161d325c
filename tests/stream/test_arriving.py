"""What may be pushed: every form of batch, every type of column, and columns that come and go."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb

ROWS = [
    {"t": 1.0, "x": 3.0, "n": 1, "c": "a", "b": True},
    {"t": 2.0, "x": 5.0, "n": 2, "c": "b", "b": False},
    {"t": 3.0, "x": 4.0, "n": None, "c": None, "b": None},
    {"t": 4.0, "x": None, "n": 4, "c": "a", "b": True},
]
SCHEMA = pa.schema(
    [("t", pa.float64()), ("x", pa.float64()), ("n", pa.int64()), ("c", pa.string()), ("b", pa.bool_())]
)
TABLE = pa.Table.from_pylist(ROWS, schema=SCHEMA)


def pandas_frame() -> Any:
    pytest.importorskip("pandas")
    return TABLE.to_pandas()


def polars_frame() -> Any:
    return pytest.importorskip("polars").from_arrow(TABLE)


FORMS = {
    "table": lambda: TABLE,
    "chunked table": lambda: pa.concat_tables([TABLE[:1], TABLE[1:1], TABLE[1:]]),
    "record batch": lambda: TABLE.to_batches()[0],
    "pandas": pandas_frame,
    "pandas with its own nulls": lambda: pandas_frame().convert_dtypes(),
    "pandas with another index": lambda: pandas_frame().set_index([[9, 8, 7, 6]]),
    "polars": polars_frame,
    "dict of lists": lambda: TABLE.to_pydict(),
    "dict of arrow arrays": lambda: {n: TABLE[n] for n in TABLE.column_names},
    "dict with numpy": lambda: {**TABLE.to_pydict(), "t": np.array([1.0, 2.0, 3.0, 4.0])},
    "list of dicts": lambda: ROWS,
    "list of dicts without nulls": lambda: [{k: v for k, v in row.items() if v is not None} for row in ROWS],
}  # fmt: skip


@pytest.mark.parametrize("form", sorted(FORMS))
@pytest.mark.parametrize("given_schema", [True, False])
def test_every_form_of_batch(form: str, given_schema: bool) -> None:
    m = sb.Monitor(time="t", schema=SCHEMA if given_schema else None)
    w = m.watch("SELECT x, n, c, b FROM s ORDER BY x DESC LIMIT 5 WINDOW 10 ROWS")
    m.push(FORMS[form]())
    m.push(FORMS[form]())
    top = w.top()
    assert top.column_names == ["rank", "score", "seq", "x", "n", "c", "b"]
    assert top["seq"].to_pylist() == [5, 1, 6, 2, 4]
    assert top["score"].to_pylist() == [5, 5, 4, 4, 3]
    assert top["n"].to_pylist() == [2, 2, None, None, 1]
    assert top["c"].to_pylist() == ["b", "b", None, None, "a"]
    assert top["b"].to_pylist() == [False, False, None, None, True]
    assert m.rejects().num_rows == 0


class Foreign:
    """A frame of a library that nobody here knows, with Arrow's C interface alone."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return TABLE.__arrow_c_stream__(requested_schema)


def test_other_arrow_forms() -> None:
    for batch in (TABLE.to_reader(), Foreign()):
        m = sb.Monitor(time="t")
        w = m.watch("SELECT c FROM s ORDER BY x DESC LIMIT 2 WINDOW 10 ROWS")
        m.push(batch)
        assert w.top()["c"].to_pylist() == ["b", None]


def test_a_pandas_column_of_several_types() -> None:
    pandas = pytest.importorskip("pandas")
    m = sb.Monitor()
    w = m.watch("SELECT v FROM s ORDER BY v DESC LIMIT 9 WINDOW 9 ROWS")
    m.push(pandas.DataFrame({"v": [1, "two", 3.5]}))
    assert w.top()["v"].to_pylist() == [3.5, 1]
    assert m.reject_counts["type"] == 1

    class Derived(pandas.DataFrame):  # type: ignore[misc]
        """As other libraries make them, in a module of another name."""

    m.push(Derived({"v": [7, "eight"]}))
    assert w.top()["v"].to_pylist() == [7, 3.5, 1]
    assert m.reject_counts["type"] == 2


def test_integers_beyond_int64() -> None:
    m = sb.Monitor()
    w = m.watch("SELECT id FROM s WHERE id > 9223372036854775807 ORDER BY x LIMIT 9 WINDOW 9 ROWS")
    m.push([{"x": 1.0, "id": 2**63 + 1}, {"x": 2.0, "id": 5}, {"x": 3.0, "id": None}])
    assert w.top()["id"].to_pylist() == [2**63 + 1]
    m.push([{"x": 0.0, "id": 2**64}])
    assert m.reject_counts["type"] == 1


@pytest.mark.parametrize("form", ["datetime", "zoned", "text", "numpy", "pandas", "date", "seconds"])
def test_the_moment_of_an_advance_in_every_form(form: str) -> None:
    m = sb.Monitor(time="t")
    w = m.watch("SELECT x FROM s ORDER BY x LIMIT 3 WINDOW 1 HOUR")
    start = dt.datetime(2024, 1, 1, 23, 30)
    m.push({"t": [start], "x": [1.0]})
    later: dict[str, Any] = {
        "datetime": dt.datetime(2024, 1, 2, 1),
        "zoned": dt.datetime(2024, 1, 2, 10, tzinfo=TOKYO),
        "text": "2024-01-02T01:00:00",
        "numpy": np.datetime64("2024-01-02T01:00:00"),
        "date": dt.date(2024, 1, 3),
        "seconds": dt.datetime(2024, 1, 2, 1, tzinfo=dt.UTC).timestamp(),
    }
    if form == "pandas":
        later["pandas"] = pytest.importorskip("pandas").Timestamp("2024-01-02 01:00")
    assert m.advance(later[form])["change"].to_pylist() == ["leave"]
    assert w.top().num_rows == 0


def test_times_of_several_types_in_one_monitor() -> None:
    m = sb.Monitor(time="t")
    m.push({"t": pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("s")), "x": [1.0]}, stream="a")
    m.push({"t": pa.array([dt.date(2024, 1, 1)], pa.date32()), "x": [1.0]}, stream="b")
    m.watch("SELECT x FROM a ORDER BY x LIMIT 3 WINDOW 2 DAYS", name="a")
    m.watch("SELECT x FROM b ORDER BY x LIMIT 3 WINDOW 2 DAYS", name="b")
    fine = pa.array([dt.datetime(2024, 1, 1, 0, 0, 1)], pa.timestamp("s"))
    changes = [m.push({"t": fine, "x": [2.0]}, stream="a")]
    changes.append(m.push({"t": pa.array([dt.date(2024, 1, 2)], pa.date32()), "x": [2.0]}, stream="b"))
    assert changes[0].schema == changes[1].schema
    assert [c["time"].to_pylist() for c in changes] == [
        [dt.datetime(2024, 1, 1, 0, 0, 1)],
        [dt.datetime(2024, 1, 2)],
    ]


def test_watches_without_a_name_get_free_ones() -> None:
    m = sb.Monitor()
    sql = "SELECT x FROM s ORDER BY x LIMIT 3 WINDOW 3 ROWS"
    m.watch(sql, name="query2")
    names = [m.watch(sql).name for _ in range(3)]
    assert len({*names, "query2"}) == 4


NUMBERS: dict[str, tuple[pa.DataType, list[Any]]] = {
    **{str(t): (t, [1, 3, 2, None]) for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{str(t): (t, [1, 3, 2, None]) for t in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    **{str(t): (t, [1.5, 3.5, 2.25, None]) for t in (pa.float32(), pa.float64())},
    "decimal128": (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("3.50"), Decimal("2.25"), None]),
    "date32": (pa.date32(), [dt.date(2024, 1, 1), dt.date(2024, 1, 3), dt.date(2024, 1, 2), None]),
    "dictionary of numbers": (pa.dictionary(pa.int8(), pa.float64()), [1.5, 3.5, 2.25, None]),
    "timestamp": (
        pa.timestamp("ms"),
        [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 3), dt.datetime(2024, 1, 2), None],
    ),
}


def array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, kind)


@pytest.mark.parametrize("kind", sorted(NUMBERS))
def test_a_score_over_every_numeric_type(kind: str) -> None:
    of, values = NUMBERS[kind]
    m = sb.Monitor()
    w = m.watch("SELECT v FROM s ORDER BY v DESC LIMIT 2 WINDOW 3 ROWS")
    column = array(values, of)
    m.push(pa.table({"v": column}))
    assert w.top()["v"].to_pylist() == values[1:3]
    m.push(pa.table({"v": column[:1]}))
    assert w.top()["v"].to_pylist() == [values[2], values[0]]
    assert w.top()["v"].type == of or pa.types.is_dictionary(of)


PLAIN: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [True, None, False]),
    "string": (pa.string(), ["a", None, "ü"]),
    "large string": (pa.large_string(), ["a", None, "ü"]),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["a", None, "b"]),
    "date64": (pa.date64(), [dt.date(2024, 1, 1), None, dt.date(1969, 1, 3)]),
    "decimal": (pa.decimal128(38, 9), [Decimal("1.5"), None, Decimal("-2.25")]),
    "zoned": (pa.timestamp("ns", "Asia/Tokyo"), [None, None, None]),
    "binary": (pa.binary(), [b"a", None, b"\xff"]),
    "list": (pa.list_(pa.int64()), [[1], None, []]),
    "struct": (pa.struct([("a", pa.int64())]), [{"a": 1}, None, {"a": None}]),
}


@pytest.mark.parametrize("kind", sorted(PLAIN))
def test_a_selected_column_comes_back_as_it_went_in(kind: str) -> None:
    """A null in a column that is only selected keeps nothing out."""
    of, values = PLAIN[kind]
    m = sb.Monitor()
    w = m.watch("SELECT v FROM s ORDER BY x DESC LIMIT 9 WINDOW 9 ROWS")
    for _ in range(2):
        m.push(pa.table({"x": [3.0, 2.0, 1.0], "v": array(values, of)}))
    again = sb.Monitor.from_bytes(m.to_bytes())
    for watch in (w, next(iter(again.watches.values()))):
        assert watch.top()["v"].to_pylist() == [v for v in values for _ in range(2)]
        assert watch.top()["v"].type == (pa.string() if kind == "dictionary" else of)


TOKYO = ZoneInfo("Asia/Tokyo")
MOMENT = dt.datetime(2024, 2, 29, 23, 59, 58)


def naive(time: dt.datetime) -> dt.datetime:
    return time.astimezone(dt.UTC).replace(tzinfo=None) if time.tzinfo else time


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo", "America/New_York", "+05:30"])
def test_event_times_of_every_unit_and_zone(unit: str, zone: str | None) -> None:
    m = sb.Monitor(time="t")
    w = m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 3 WINDOW 2 SECONDS")
    utc = [MOMENT + dt.timedelta(seconds=i) for i in (0, 2, 5, 3)]
    column = pa.array(utc, pa.timestamp("us", "UTC")).cast(pa.timestamp(unit, zone or "UTC"))
    changes = m.push({"t": column if zone else column.cast(pa.timestamp(unit)), "x": [1.0, 2.0, 3.0, 4.0]})
    assert w.top()["x"].to_pylist() == [4, 3]
    times = [
        t.astimezone(dt.UTC).replace(tzinfo=None) if t.tzinfo else t for t in changes["time"].to_pylist()
    ]
    assert times == [utc[3], utc[2]]
    now = m.now.astimezone(dt.UTC).replace(tzinfo=None) if m.now.tzinfo else m.now
    assert now == utc[2]


def test_a_naive_time_is_utc() -> None:
    m = sb.Monitor(time="t")
    w = m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 3 WINDOW 10 SECONDS")
    m.push({"t": pa.array([MOMENT], pa.timestamp("us")), "x": [1.0]})
    m.advance(MOMENT.replace(tzinfo=dt.UTC) + dt.timedelta(seconds=10))
    assert w.top().num_rows == 1
    m.advance((MOMENT.replace(tzinfo=dt.UTC) + dt.timedelta(seconds=11)).astimezone(TOKYO))
    assert w.top().num_rows == 0
    m.advance(MOMENT)  # an earlier time: nothing
    assert w.top().num_rows == 0


def test_nanoseconds_are_not_lost() -> None:
    m = sb.Monitor(time="t")
    w = m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 3 WINDOW 1 SECOND")
    base = 1_700_000_000_000_000_000
    m.push({"t": pa.array([base, base + 10**9, base + 1], pa.timestamp("ns")), "x": [3.0, 2.0, 1.0]})
    assert w.top()["x"].to_pylist() == [3, 2, 1]
    m.push({"t": pa.array([base + 10**9 + 1], pa.timestamp("ns")), "x": [0.0]})
    assert w.top()["x"].to_pylist() == [2, 1, 0]


def test_dates_as_event_times() -> None:
    m = sb.Monitor(time="day")
    w = m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 3 WINDOW 7 DAYS")
    m.push({"day": [dt.date(2024, 1, 1), dt.date(2024, 1, 8), dt.date(2024, 1, 9)], "x": [3.0, 2.0, 1.0]})
    assert w.top()["x"].to_pylist() == [2, 1]


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.float32(), pa.float64()], ids=str)
def test_numbers_as_event_times_are_seconds(kind: pa.DataType) -> None:
    m = sb.Monitor(time="t")
    w = m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 3 WINDOW 1 MINUTE")
    m.push(pa.table({"t": pa.array([0, 40, 100], kind), "x": [3.0, 2.0, 1.0]}))
    assert w.top()["x"].to_pylist() == [2, 1]
    assert m.now == 100


def test_a_column_may_move_be_missing_or_come_in_a_narrower_type() -> None:
    m = sb.Monitor()
    w = m.watch("SELECT x, n, c FROM s ORDER BY x DESC LIMIT 9 WINDOW 9 ROWS")
    m.push(pa.table({"x": [1.0], "n": pa.array([1], pa.int64()), "c": ["a"]}))
    m.push(pa.table({"c": ["b"], "n": pa.array([2], pa.int8()), "x": pa.array([2], pa.int32())}))
    m.push(pa.table({"x": pa.array([3.0], pa.float32())}))
    m.push(pa.table({"c": ["d"]}))  # no score: it counts in the window alone
    top = w.top()
    assert top["x"].to_pylist() == [3, 2, 1]
    assert top["n"].to_pylist() == [None, 2, 1]
    assert top["c"].to_pylist() == [None, "b", "a"]
    assert (top["x"].type, top["n"].type) == (pa.float64(), pa.int64())
    assert m.rejects().num_rows == 0
    assert m.rows_seen == 4


def test_a_missing_column_keeps_a_row_out_of_the_queries_that_use_it_alone() -> None:
    m = sb.Monitor()
    by_x = m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 9 WINDOW 2 ROWS", name="x")
    by_y = m.watch("SELECT x FROM s ORDER BY y DESC LIMIT 9 WINDOW 2 ROWS", name="y")
    chosen = m.watch("SELECT x FROM s WHERE y > 0 ORDER BY x DESC LIMIT 9 WINDOW 2 ROWS", name="c")
    m.push({"x": [1.0, 2.0], "y": [1.0, 2.0]})
    m.push({"x": [3.0]})
    assert by_x.top()["x"].to_pylist() == [3, 2]
    assert by_y.top()["x"].to_pylist() == [2]
    assert chosen.top()["x"].to_pylist() == [2]


LOSSY: dict[str, tuple[pa.DataType, Any, Any]] = {
    "a fraction for an integer": (pa.int64(), 1.5, 7),
    "an integer too large for its column": (pa.int8(), 300, 7),
    "an integer that a double can't hold": (pa.float64(), 2**53 + 1, 7.0),
    "a fraction for a decimal": (pa.decimal128(5, 2), 0.125, Decimal("7.00")),
    "a moment for a date": (pa.date32(), dt.datetime(2024, 1, 1, 12), dt.date(2024, 1, 1)),
    "a text for a number": (pa.float64(), "seven", 7.0),
    "a number for a time": (pa.timestamp("us"), "yesterday-ish", dt.datetime(2024, 1, 1)),
}


@pytest.mark.parametrize("case", sorted(LOSSY))
def test_what_can_not_be_cast_without_loss_is_rejected(case: str) -> None:
    of, bad, good = LOSSY[case]
    m = sb.Monitor(schema=pa.schema([("x", pa.float64()), ("v", of)]))
    w = m.watch("SELECT v FROM s ORDER BY x DESC LIMIT 9 WINDOW 9 ROWS")
    m.push([{"x": 1.0, "v": bad}, {"x": 2.0, "v": good}, {"x": 3.0, "v": None}])
    assert w.top()["v"].to_pylist() == [None, good]
    rejects = m.rejects().to_pylist()
    assert [(r["seq"], r["reason"]) for r in rejects] == [(0, "type")]
    assert str(bad) in rejects[0]["raw"]
    assert "v" in rejects[0]["detail"]


def test_what_can_be_cast_without_loss_is_cast() -> None:
    schema = pa.schema(
        [("x", pa.float64()), ("d", pa.decimal128(5, 2)), ("day", pa.date32()), ("n", pa.int64())]
    )
    m = sb.Monitor(schema=schema)
    w = m.watch("SELECT d, day, n FROM s ORDER BY x DESC LIMIT 9 WINDOW 9 ROWS")
    m.push({"x": [1], "d": [7], "day": [dt.datetime(2024, 1, 1)], "n": [3.0]})
    assert m.rejects().num_rows == 0
    assert w.top().to_pylist()[0] == {
        "rank": 1, "score": 1.0, "seq": 0, "d": Decimal("7.00"), "day": dt.date(2024, 1, 1), "n": 3,
    }  # fmt: skip


def test_lossy_arrow_columns_are_judged_row_by_row() -> None:
    m = sb.Monitor(schema=pa.schema([("x", pa.int64())]))
    w = m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 9 WINDOW 9 ROWS")
    m.push(pa.table({"x": [1.0, 1.5, 2.0, None]}))
    assert w.top()["x"].to_pylist() == [2, 1]
    m.push(pa.table({"x": ["a", "b"]}))
    assert m.reject_counts["type"] == 3
    m.push(pa.table({"x": pa.array([2**63 + 1, 5], pa.uint64())}))
    assert w.top()["x"].to_pylist() == [5, 2, 1]
    assert m.reject_counts["type"] == 4


@pytest.mark.parametrize("values", [[1, "a"], ["a", 1], [1.5, "a", 2], [dt.date(2024, 1, 1), 3], [[1], 2]])
def test_a_first_batch_of_mixed_types(values: list[Any]) -> None:
    """One type is taken for the column; what doesn't fit it is rejected, and nothing is raised."""
    m = sb.Monitor()
    w = m.watch("SELECT v FROM s ORDER BY x DESC LIMIT 9 WINDOW 9 ROWS")
    m.push([{"x": float(i), "v": v} for i, v in enumerate(values)])
    assert m.rows_seen == len(values)
    assert m.reject_counts["type"] == m.rejects().num_rows
    assert w.top().num_rows + m.rejects().num_rows == len(values)
    assert w.top().num_rows >= 1


def test_a_first_batch_of_integers_and_fractions_is_of_doubles() -> None:
    m = sb.Monitor()
    w = m.watch("SELECT v FROM s ORDER BY v DESC LIMIT 9 WINDOW 9 ROWS")
    m.push([{"v": 1}, {"v": 2.5}, {"v": None}])
    assert w.top()["v"].to_pylist() == [2.5, 1.0]
    assert m.rejects().num_rows == 0


def test_empty_batches() -> None:
    m = sb.Monitor(time="t")
    m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 9 WINDOW 9 ROWS")
    for empty in ([], {"t": [], "x": []}, TABLE[:0]):
        changes = m.push(empty)
        assert changes.num_rows == 0
        assert changes.column_names == ["query", "change", "rank", "score", "seq", "seq_b", "id", "time"]
    assert m.rows_seen == 0
    m.push({"t": [1.0], "x": [2.0]})
    assert m.rows_seen == 1


@pytest.mark.parametrize("retain", [None, sb.rows(100)])
def test_what_is_pushed_is_not_touched_nor_looked_at_again(retain: Any) -> None:
    m = sb.Monitor(retain=retain)
    w = m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 2 WINDOW 9 ROWS")
    values = np.array([1.0, -0.0, 3.0])
    batch = {"x": values}
    m.push(batch)
    assert values.tolist() == [1.0, -0.0, 3.0] and np.signbit(values[1])
    values[:] = 99.0
    assert w.top()["x"].to_pylist() == [3, 1]
    m.push({"x": [2.0]})
    assert w.top()["x"].to_pylist() == [3, 2]
    if retain:
        assert m.watch("SELECT x FROM s ORDER BY x LIMIT 9 WINDOW 9 ROWS").top()["x"].to_pylist() == [
            0,
            1,
            2,
            3,
        ]


def test_the_types_of_the_change_table() -> None:
    m = sb.Monitor(time="t")
    m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 2 WINDOW 9 ROWS", name="w")
    changes = m.push({"t": [MOMENT], "x": [1.0]})
    types = {f.name: f.type for f in changes.schema}
    for name in ("query", "change"):
        of = types.pop(name)
        assert pa.types.is_string(of.value_type if pa.types.is_dictionary(of) else of)
    assert types.pop("time") in (pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns"))
    assert types == {
        "rank": pa.int32(), "score": pa.float64(), "seq": pa.int64(), "seq_b": pa.int64(), "id": pa.string(),
    }  # fmt: skip
    assert m.advance(MOMENT + dt.timedelta(1)).schema == changes.schema


def test_streams_by_name() -> None:
    m = sb.Monitor(schema={"a": pa.schema([("x", pa.float64())]), "b": pa.schema([("x", pa.float64())])})
    wa = m.watch("SELECT x FROM a ORDER BY x DESC LIMIT 2 WINDOW 2 ROWS", name="a")
    wb = m.watch("SELECT x FROM b ORDER BY x DESC LIMIT 2 WINDOW 2 ROWS", name="b")
    m.push({"x": [1.0, 2.0]}, stream="a")
    m.push({"x": [5.0, 4.0, 3.0]}, stream="b")
    m.push({"x": [0.0]}, stream="a")
    assert (wa.top()["seq"].to_pylist(), wb.top()["seq"].to_pylist()) == ([1, 5], [3, 4])


def test_a_streams_name_is_free_where_there_is_one_stream() -> None:
    m = sb.Monitor()
    one = m.watch("SELECT x FROM here ORDER BY x DESC LIMIT 2 WINDOW 2 ROWS")
    two = m.watch("SELECT x FROM there ORDER BY x LIMIT 2 WINDOW 2 ROWS")
    m.push({"x": [1.0, 2.0]})
    assert (one.top()["x"].to_pylist(), two.top()["x"].to_pylist()) == ([2, 1], [1, 2])


def test_a_column_that_turns_up_later_is_there_from_then_on() -> None:
    m = sb.Monitor()
    w = m.watch("SELECT * FROM s ORDER BY x DESC LIMIT 9 WINDOW 9 ROWS")
    m.push({"x": [1.0]})
    m.push({"x": [2.0], "z": ["new"]})
    assert w.top()["z"].to_pylist() == ["new", None]
    by_z = m.watch("SELECT x FROM s WHERE z = 'b' ORDER BY x DESC LIMIT 9 WINDOW 9 ROWS")
    m.push([{"x": 3.0, "z": "b"}, {"x": 4.0}])
    assert by_z.top()["x"].to_pylist() == [3]


def test_a_column_that_is_null_at_first_gets_its_type_later() -> None:
    m = sb.Monitor()
    w = m.watch("SELECT v FROM s ORDER BY x DESC LIMIT 9 WINDOW 9 ROWS")
    m.push([{"x": 1.0, "v": None}])
    m.push([{"x": 2.0, "v": "text"}])
    assert w.top()["v"].to_pylist() == ["text", None]
    again = sb.Monitor.from_bytes(m.to_bytes())
    again.push([{"x": 3.0, "v": "more"}])
    assert next(iter(again.watches.values())).top()["v"].to_pylist() == ["more", "text", None]


def test_a_score_over_a_column_that_is_null_at_first() -> None:
    m = sb.Monitor()
    w = m.watch("SELECT v FROM s ORDER BY v DESC LIMIT 9 WINDOW 9 ROWS")
    m.push([{"v": None}, {"v": None}])
    m.push([{"v": 2.0}, {"v": None}, {"v": 3.0}])
    assert w.top()["seq"].to_pylist() == [4, 2]


def test_a_schema_by_the_names_of_types() -> None:
    m = sb.Monitor(schema={"x": "double", "n": pa.int32()})
    w = m.watch("SELECT * FROM s ORDER BY x DESC LIMIT 2 WINDOW 5 ROWS")
    m.push({"x": [1, 2], "n": [3, "four"]})
    assert w.top().schema.field("n").type == pa.int32()
    assert w.top()["seq"].to_pylist() == [0] and m.reject_counts["type"] == 1


def test_views_of_strings() -> None:
    m = sb.Monitor()
    w = m.watch("SELECT s FROM s WHERE s = 'b' ORDER BY x DESC LIMIT 2 WINDOW 5 ROWS")
    m.push(pa.table({"s": pa.array(["a", "b"], pa.string_view()), "x": [1.0, 2.0]}))
    assert w.top()["s"].to_pylist() == ["b"]


def test_objects_that_arrow_does_not_know() -> None:
    m = sb.Monitor()
    w = m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 3 WINDOW 5 ROWS")
    m.push({"x": [1.0, 2.0, 3.0], "o": [object(), None, "a"]})
    m.push({"x": [4.0], "p": [object()]})
    assert w.top()["seq"].to_pylist() == [2, 1]  # the others are rejected
    assert m.reject_counts["type"] == 2


def test_a_score_over_decimals_of_any_width() -> None:
    m = sb.Monitor()
    w = m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 3 WINDOW 5 ROWS")
    values = [Decimal("12345678901234567.5"), None, Decimal("1.5")]
    m.push({"x": pa.array(values, pa.decimal128(38, 1))})
    assert w.top()["score"].to_pylist() == [12345678901234567.5, 1.5]
    assert w.top()["x"].to_pylist() == [values[0], values[2]]


def test_times_as_text() -> None:
    for first, zone in [("2024-01-01T00:00:00", None), ("2024-01-01T00:00:00Z", "UTC")]:
        m = sb.Monitor(time="t")
        w = m.watch("SELECT t FROM s ORDER BY x DESC LIMIT 2 WINDOW 5 SECONDS")
        m.push([{"t": first, "x": 1.0}, {"t": "soon", "x": 2.0}])
        assert w.top().schema.field("t").type == pa.timestamp("us", zone)
        assert m.now == dt.datetime(2024, 1, 1, tzinfo=dt.UTC) and m.reject_counts["type"] == 1


def test_a_score_that_turns_out_to_be_text_rejects_its_rows() -> None:
    """The stream can't stop for that."""
    m = sb.Monitor()
    w = m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 2 WINDOW 5 ROWS")
    m.push({"x": [None, None]})
    m.push({"x": ["a", "b"]})
    m.push({"x": [1.0]})
    assert w.top()["seq"].to_pylist() == [4] and m.reject_counts["type"] == 2


def test_conditions_over_bools_and_no_rows() -> None:
    m = sb.Monitor()
    w = m.watch("SELECT b FROM s WHERE b ORDER BY x DESC LIMIT 2 WINDOW 5 ROWS")
    m.push({"x": [1.0, 2.0], "b": [True, False]})
    m.push({"x": pa.array([], pa.float64()), "b": pa.array([], pa.bool_())})
    assert w.top()["seq"].to_pylist() == [0]
