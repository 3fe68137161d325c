"""One row as a dict of values, pandas' indexes as columns, and answers as plain Python values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb

TOP = "SELECT ts, x FROM s ORDER BY x DESC LIMIT 3 WINDOW 10 SECONDS"
NOON = dt.datetime(2024, 2, 29, 12)


def watching(sql: str = TOP, **options: Any) -> tuple[sb.Monitor, sb.Watch]:
    m = sb.Monitor(**{"time": "ts", **options})
    return m, m.watch(sql)


@pytest.mark.parametrize("journal", [False, True])
def test_a_dict_of_values(journal: bool, tmp_path: Path) -> None:
    m, w = watching(journal=tmp_path / "j" if journal else None)
    changes = m.push({"ts": 7.0, "x": 1.5})
    assert changes["change"].to_pylist() == ["enter"] and changes["seq"].to_pylist() == [0]
    m.push({"ts": np.float64(8), "x": np.array(2)})
    m.push({"ts": pa.scalar(8.5), "x": None})
    m.push({"x": "a", "ts": 9})
    m.push({"ts": [9.0, 9.0], "x": [0.5, 7.0]})
    assert w.rows() == [
        {"rank": 1, "score": 7.0, "seq": 5, "ts": 9.0, "x": 7.0},
        {"rank": 2, "score": 2.0, "seq": 1, "ts": 8.0, "x": 2.0},
        {"rank": 3, "score": 1.5, "seq": 0, "ts": 7.0, "x": 1.5},
    ]
    assert [row["reason"] for row in m.rejects().to_pylist()] == ["type"]
    m.close()


def test_values_of_any_type() -> None:
    m, w = watching("SELECT * FROM s ORDER BY x DESC LIMIT 3 WINDOW 10 SECONDS")
    row = {
        "x": 1,
        "ts": NOON,
        "t": "text",
        "d": Decimal("1.5"),
        "b": b"\0",
        "z": True,
        "n": None,
        "s": {"a": 1},
    }
    m.push(row)
    assert w.rows() == [{"rank": 1, "score": 1.0, "seq": 0, **row}]
    assert all(type(value) is type(row[name]) for name, value in w.rows()[0].items() if name in row)


@pytest.mark.parametrize(
    "batch", [{"ts": 7.0, "x": [1.5]}, {"x": (1, 2), "ts": None}, {"x": np.ones(3), "ts": "a"}]
)
def test_values_and_columns_are_not_mixed(batch: Any) -> None:
    m, _ = watching()
    with pytest.raises(sb.InputError, match='single value for "ts" and a whole column for "x"'):
        m.push(batch)
    assert m.rows_seen == 0


def test_an_empty_dict_has_no_rows() -> None:
    m, _ = watching()
    assert m.push({}).num_rows == 0 and m.rows_seen == 0


def test_nanoseconds_are_texts() -> None:
    times = pa.array([1_700_000_000_000_000_000, 1_700_000_000_000_000_001], pa.timestamp("ns"))
    m, w = watching()
    m.push(pa.table({"ts": times[:1], "x": [1.0]}))
    assert (
        w.rows()[0]["ts"] == dt.datetime(2023, 11, 14, 22, 13, 20) and type(w.rows()[0]["ts"]) is dt.datetime
    )
    m.push(pa.table({"ts": times[1:], "x": [2.0]}))
    assert w.rows(k=1)[0]["ts"] == "2023-11-14T22:13:20.000000001"


# -- pandas --------------------------------------------------------------------------------------------------


def frame(**columns: Any) -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(columns)


@pytest.mark.parametrize("name", ["ts", "date", None])
@pytest.mark.parametrize("journal", [False, True])
def test_a_datetime_index_is_the_time(name: str | None, journal: bool, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    m, w = watching(journal=tmp_path / "j" if journal else None)
    df = frame(x=[1.0, 2.0])
    df.index = pandas.DatetimeIndex([NOON, NOON + dt.timedelta(seconds=1)], name=name)
    m.push(df)
    m.push(df.iloc[0])
    m.push(df.iloc[:1].tz_localize("UTC").tz_localize(None))
    assert m.rejects().num_rows == 0
    assert [(row["x"], row["seq"], row["ts"]) for row in w.rows()] == [
        (2.0, 1, NOON + dt.timedelta(seconds=1)),
        (1.0, 3, NOON),
        (1.0, 2, NOON),
    ]
    m.close()


def test_an_index_of_another_name_or_beside_the_time_is_none() -> None:
    pandas = pytest.importorskip("pandas")
    m, w = watching("SELECT * FROM s ORDER BY x DESC LIMIT 3 WINDOW 10 SECONDS")
    df = frame(ts=[7.0], x=[1.0])
    m.push(df.set_index(pandas.DatetimeIndex([NOON])))
    m.push(df.set_index(pandas.Index([1.0], name="ts")))  # the column of this name is the time
    m.push(df.set_index(pandas.Index(["a"], name="free")))
    assert w.top().column_names == ["rank", "score", "seq", "ts", "x"] and w.top().num_rows == 3


def test_an_index_with_the_name_of_the_time_or_the_key() -> None:
    m = sb.Monitor(time="ts", key="id")
    w = m.watch("SELECT id, ts, x FROM s ORDER BY x DESC LIMIT 3 WINDOW 10 SECONDS")
    df = frame(ts=[7.0, 8.0], id=["a", "b"], x=[1, 2])
    m.push(df.set_index("id"))
    m.push(df.set_index(["ts", "id"]))
    m.push(df.set_index("ts", append=True))
    assert [(row["id"], row["ts"], row["seq"]) for row in w.rows()] == [("b", 8.0, 5), ("a", 7.0, 4)]
    assert m.notices().num_rows == 0 and m.rejects().num_rows == 0


def test_a_series_is_one_row() -> None:
    pandas = pytest.importorskip("pandas")
    m, w = watching("SELECT ts, id, x FROM s ORDER BY x DESC LIMIT 9 WINDOW 10 SECONDS")
    df = frame(ts=[7.0, 8.0], id=["a", "b"], x=[1, 2])
    for batch in (df.iloc[0], df.iloc[1], pandas.Series({"ts": 9.0, "x": 7}), df.iloc[0].drop("id")):
        m.push(batch)
    assert [(row["ts"], row["id"], row["x"]) for row in w.rows()] == [
        (9.0, None, 7),
        (8.0, "b", 2),
        (7.0, None, 1),
        (7.0, "a", 1),
    ]
    fine = pandas.Timestamp(1_700_000_000_000_000_001, unit="ns")
    m, w = watching()
    m.push(pandas.Series({"ts": fine, "x": 1.0}))
    assert w.top()["ts"].cast(pa.int64()).to_pylist() == [fine.value]


def test_a_row_of_polars() -> None:
    polars = pytest.importorskip("polars")
    m, w = watching()
    m.push(polars.DataFrame({"ts": [7.0, 8.0], "x": [1, 2]}).row(1, named=True))
    assert [(row["ts"], row["x"]) for row in w.rows()] == [(8.0, 2)]


def test_reading_changes_nothing_in_what_is_saved() -> None:
    """Rows that come one by one are kept as values; answers, files and copies of them change no chunk."""
    sql = "SELECT c, x FROM s ORDER BY x DESC LIMIT 3 WINDOW 40 ROWS"
    read, quiet = sb.Monitor(), sb.Monitor()
    watch, _ = read.watch(sql, name="w"), quiet.watch(sql, name="w")
    for i in range(600):
        row = {"c": f"c{i % 7}", "x": float(i * 37 % 101)}
        batch = row if i % 50 else {name: [value, value] for name, value in row.items()}
        read.push(batch)
        quiet.push(batch)
        if i % 3 == 0:
            assert watch.top().num_rows == len(watch.rows())
        if i % 90 == 0:
            read = sb.Monitor.from_bytes(read.to_bytes())
            watch = read.watches["w"]
    assert read.to_bytes() == quiet.to_bytes()
