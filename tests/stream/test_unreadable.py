"""Bytes that are no text: Arrow takes them into a column of text without a look, and no row of them stops a stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import skyband as sb
from skyband.cli import app
from skyband.stream.arrow import python_value, unreadable


def unlooked(values: list[bytes | None], type_: pa.DataType | None = None) -> pa.Array:
    """An array of text from any bytes."""
    wide = type_ == pa.large_string()
    return pa.array(values, pa.large_binary() if wide else pa.binary()).view(type_ or pa.string())


def texts(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


BYTES = st.one_of(
    st.none(), st.text(max_size=3).map(str.encode), st.binary(max_size=3), st.just(b"\xed\xa0\x80")
)


@given(st.lists(BYTES, max_size=20), st.integers(0, 5), st.sampled_from([pa.string(), pa.large_string()]))
def test_where_it_is(values: list[bytes | None], start: int, type_: pa.DataType) -> None:
    wrong = [i for i, value in enumerate(values[start:]) if value is not None and not texts(value)]
    array = unlooked(values, type_).slice(start)
    assert unreadable(array) == wrong
    pairs = pa.StructArray.from_arrays([array, array], ["a", "b"])
    assert unreadable(pairs) == wrong
    lists = pa.ListArray.from_arrays(pa.array(range(len(array) + 1), pa.int32()), array)
    if not array.null_count:
        assert unreadable(lists) == wrong
    for i in wrong:
        assert "\ufffd" in python_value(array[i]) and "\ufffd" in python_value(lists[i])[0]


SQL = "SELECT name FROM s ORDER BY x DESC LIMIT 3 WINDOW 4 ROWS"
NAMES = unlooked([b"a", b"\xff\xfe", b"c", b"d\xc3"])


def dictionary() -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3], pa.int8()), NAMES)


def nested() -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), NAMES)


@pytest.mark.parametrize("names", [NAMES, dictionary(), nested()], ids=["plain", "dictionary", "list"])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("chunked", [False, True])
def test_its_row_is_rejected(names: pa.Array, known: bool, chunked: bool) -> None:
    m = sb.Monitor()
    w = m.watch(SQL)
    table: Any = pa.table({"x": [1.0, 2.0, 3.0, 4.0], "name": names})
    first = names.slice(0, 1)
    m.push({"x": [0.0], "name": first if known else [None]})
    if chunked:
        table = pa.concat_tables([table.slice(0, 2), table.slice(2)])
    m.push(table)
    assert w.top()["seq"].to_pylist() == [3, 1, 0]
    rejects = m.rejects().to_pylist()
    assert [(r["seq"], r["reason"], r["detail"]) for r in rejects] == [
        (2, "type", 'column "name": not UTF-8'),
        (4, "type", 'column "name": not UTF-8'),
    ]
    assert rejects[0]["raw"].startswith('{"x": 2.0, "name":') and "\ufffd\ufffd" in rejects[0]["raw"]
    m._check()
    assert sb.Monitor.from_bytes(m.to_bytes()).rejects().equals(m.rejects())


def test_in_groups_conditions_keys_and_operations() -> None:
    m = sb.Monitor()
    grouped = m.watch("SELECT name, SUM(x) FROM s GROUP BY name ORDER BY SUM(x) DESC LIMIT 3 WINDOW 9 ROWS")
    chosen = m.watch("SELECT x FROM s WHERE name <> 'a' ORDER BY x DESC LIMIT 3 WINDOW 9 ROWS")
    m.push(pa.table({"x": [1.0, 2.0, 3.0, 4.0], "name": NAMES}))
    assert grouped.top()["name"].to_pylist() == ["c", "a"] and chosen.top()["seq"].to_pylist() == [2]
    changing = sb.Monitor(key="name", op="op")
    w = changing.watch("SELECT x FROM s ORDER BY x DESC LIMIT 3 WINDOW 9 ROWS")
    ops = unlooked([b"insert", b"insert", b"ins\xffrt", b"insert"])
    changing.push(pa.table({"x": [1.0, 2.0, 3.0, 4.0], "name": NAMES, "op": ops}))
    assert w.top()["seq"].to_pylist() == [0]
    assert changing.reject_counts["type"] == 3 and changing.reject_counts["op"] == 0


def test_times_that_are_no_text() -> None:
    m = sb.Monitor(time="t", schema={"t": pa.timestamp("us"), "x": "double"})
    m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 3 WINDOW 9 SECONDS")
    m.push(pa.table({"t": unlooked([b"2026-01-01T00:00:00", b"2026-01-01T00:00:\xff0"]), "x": [1.0, 2.0]}))
    assert [(r["seq"], r["reason"]) for r in m.rejects().to_pylist()] == [(1, "type")]


@pytest.mark.parametrize("time", [[], ["--time", "t"]])
def test_in_a_parquet_file(tmp_path: Path, time: list[str]) -> None:
    table = pa.table({"x": [1.0, 2.0, 3.0, 4.0], "name": NAMES, "t": unlooked([b"1", b"2", b"\xff", b"4"])})
    pq.write_table(table, tmp_path / "rows.parquet")
    asked = ["top", str(tmp_path / "rows.parquet"), "--sql", SQL, "--format", "csv", *time]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    rows = [line.rpartition(",")[2] for line in done.stdout.split()]
    assert rows == (["name", "a"] if time else ["name", "c", "a"])
    assert "rejected" in done.stderr


def test_where_nobody_looks_at_the_column() -> None:
    m = sb.Monitor()
    w = m.watch("SELECT x, y FROM s ORDER BY x + y DESC LIMIT 2 WINDOW 6 ROWS WITH (algorithm = 'heightmap')")
    numbers = {"x": [1.0, 2.0, 3.0, 4.0], "y": [0.0] * 4}
    for _ in range(4):
        m.push(pa.table({**numbers, "name": ["a", "b", "ü", "d"]}))
    assert m._lane is not None and m._lane.serves()
    m.push(pa.table({**numbers, "name": NAMES}))
    assert w.top()["seq"].to_pylist() == [15, 18] and m.reject_counts["type"] == 2
    m.push(pa.table({**numbers, "name": ["a", "b", "ü", "d"]}))
    assert w.top()["seq"].to_pylist() == [23, 22]
    m._check()
