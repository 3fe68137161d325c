"""Notices: what is no reject and yet hardly meant is counted, logged once, saved and journalled."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.stream.notices import MOST, Notice, Notices
from skyband.stream.schema import MOST_COLUMNS

TOP = "SELECT x FROM s ORDER BY x DESC LIMIT 2 WINDOW 9 ROWS"


def watching(sql: str = TOP, **options: Any) -> sb.Monitor:
    m = sb.Monitor(**options)
    m.watch(sql, name="q")
    return m


def noticed(m: sb.Monitor) -> list[tuple[Any, ...]]:
    """Each notice without its hint."""
    return [tuple(row.values())[:-1] for row in m.notices().to_pylist()]


def hints(m: sb.Monitor) -> dict[tuple[str, str | None], str]:
    return {(row["notice"], row["column"]): row["hint"] for row in m.notices().to_pylist()}


def test_a_misspelt_column() -> None:
    m = watching()
    m.push({"x": [1.0, 2.0]})
    assert m.notices().num_rows == 0
    assert m.notices().schema.names == [
        "notice", "stream", "column", "rows", "first_seq", "last_seq", "hint",
    ]  # fmt: skip
    m.push({"X": [3.0, 4.0]}, stream="s")
    m.push({"X": [5.0]})
    assert noticed(m) == [("missing column", "s", "x", 3, 2, 4), ("unknown column", "s", "X", 2, 2, 3)]
    assert '"X"' in hints(m)["missing column", "x"]
    assert '"x"' in hints(m)["unknown column", "X"]
    m.push({"x": [6.0], "X": [7.0]})
    m.push({"x": [6.0]})  # no query reads X
    assert len(noticed(m)) == 2


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT v FROM s WHERE w = 1 ORDER BY x DESC LIMIT 2 WINDOW 9 ROWS",
        "SELECT * FROM s WHERE x > 5 AND w > v WINDOW 9 ROWS",
        "SELECT a.v FROM s a, s b WHERE a.x < b.x AND a.w = b.w ORDER BY abs(a.x - b.x) LIMIT 2 WINDOW 9 ROWS",
        "SELECT v, SUM(x) FROM s GROUP BY v HAVING SUM(w) > 0 ORDER BY SUM(x) DESC LIMIT 2 WINDOW 9 ROWS",
    ],
)
def test_every_column_that_a_query_names_is_missed(sql: str) -> None:
    m = watching(sql, time="ts")
    m.push({"ts": [1.0], "v": [1], "w": [1], "x": [1.0], "free": [1]})
    m.push({"ts": [2.0]})
    m.push({"v": [1], "w": [1], "x": [1.0]})
    missed = {(row[2], row[4]) for row in noticed(m) if row[0] == "missing column"}
    assert missed == {("v", 1), ("w", 1), ("x", 1), ("ts", 2)}


def test_an_empty_batch_without_columns_lacks_none() -> None:
    m = sb.Monitor(schema={"s": pa.schema([("x", pa.float64())])}, strict=True)
    m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 1 WINDOW 2 ROWS")
    m.push([])
    m.push([{"x": 1.0}])
    m.push({})
    m.push([{}], strict=False)
    assert noticed(m) == [("missing column", "s", "x", 1, 1, 1)]


def test_the_streams_of_a_join() -> None:
    sql = "SELECT id FROM r FULL JOIN q USING (id) ORDER BY r.x + q.y DESC LIMIT 2 WINDOW 9 ROWS"
    m = watching(sql)
    m.push({"id": ["a"], "x": [1.0], "y": ["-"]}, stream="r")
    m.push({"id": ["a"], "y": [1.0]}, stream="q")
    m.push({"id": ["b"], "x": [1.0]}, stream="r")
    assert m.notices().num_rows == 0
    m.push({"id": ["b"]}, stream="r")
    assert noticed(m) == [("missing column", "r", "x", 1, 3, 3)]


def test_columns_of_a_declared_schema() -> None:
    m = watching(schema={"x": "double", "y": "double"})
    m.push({"X": [1.0]})
    assert noticed(m) == [("missing column", "s", "x", 1, 0, 0), ("unknown column", "s", "X", 1, 0, 0)]


def test_a_stream_has_so_many_columns() -> None:
    m = watching("SELECT * FROM s ORDER BY x DESC LIMIT 2 WINDOW 9 ROWS")
    m.push({"x": [1.0]})
    m.push({"x": [2.0], **{f"c{number}": [1] for number in range(MOST_COLUMNS + 9)}})
    assert m.watches["q"].top().num_columns == 3 + MOST_COLUMNS
    kept = m.notices()
    assert kept.num_rows == MOST
    m.push([{"x": 3.0, "more": 1}])
    assert m.watches["q"].top()["x"].to_pylist() == [3.0, 2.0] and m.rejects().num_rows == 0
    assert "left out" in m._notices.of_step[-1].hint


def test_widened_types() -> None:
    m = watching(schema={"x": "double"})
    m.push([{"x": 1, "n": None, "v": 1}])
    m.push([{"x": 2, "n": 2, "v": 2}, {"x": 3, "n": 3, "v": 0.5}])  # x is declared, n had no type
    assert [row for row in noticed(m) if row[0] == "widened"] == [("widened", "s", "v", 2, 1, 2)]
    assert hints(m)["widened", "v"].startswith("int64 is double")


def test_a_step_without_an_accepted_row() -> None:
    m = watching(time="ts")
    m.push([{"ts": 1.0, "x": 1.0}])
    m.push([{"ts": 2.0, "x": "a"}, {"ts": 3.0, "x": 1.0}])
    assert not noticed(m)
    m.push([{"ts": None, "x": 1.0}, {"ts": 5.0, "x": "b"}, {"ts": 6.0, "x": "c"}])
    assert noticed(m) == [("all rejected", "s", None, 3, 3, 5)]
    assert hints(m)["all rejected", None].startswith("2 type, 1 time, such as: ")


def test_each_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    m = watching()
    with caplog.at_level(logging.WARNING, logger="skyband"):
        for batch in ({"x": [1.0]}, {"X": [1.0]}, {"X": [2.0]}, {"X": [3.0]}):
            m.push(batch)
    assert [record.getMessage().split(" in ")[0] for record in caplog.records] == [
        'missing column "x"',
        'unknown column "X"',
    ]


def test_so_many_different_ones(caplog: pytest.LogCaptureFixture) -> None:
    notices = Notices()
    for number in range(2 * MOST):
        notices.add(Notice("unknown column", "s", f"c{number}", 1, number, number, "it is new"))
    assert notices.table().num_rows == MOST
    assert len(caplog.records) == MOST + 1


def test_they_are_saved(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    m = watching()
    m.push({"x": [1.0]})
    m.push({"X": [1.0]})
    m.save(tmp_path / "m")
    loaded = sb.Monitor.load(tmp_path / "m")
    assert loaded.notices().equals(m.notices())
    caplog.clear()
    loaded.push({"X": [1.0]})
    assert noticed(loaded)[0] == ("missing column", "s", "x", 2, 1, 2) and not caplog.records


@pytest.mark.parametrize("snapshot", [True, False])
def test_they_are_journalled(tmp_path: Path, caplog: pytest.LogCaptureFixture, snapshot: bool) -> None:
    m = sb.Monitor(journal=tmp_path / "j")
    m.watch(TOP, name="q")
    m.push(pa.table({"x": [1]}))
    m.push({"x": [0.5], "y": [1]})
    before = m.notices()
    assert before.num_rows == 2
    assert m.journal is not None
    if snapshot:
        m.close()
    else:
        m.journal.leave()
    caplog.clear()
    with sb.Monitor(journal=tmp_path / "j") as opened:
        assert opened.notices().equals(before) and not caplog.records
        opened.push({"y": [1]})
        assert [record.getMessage().split(" ")[0] for record in caplog.records] == ["missing"]


@pytest.mark.parametrize(
    ("first", "unit"),
    [(1_700_000_000_000, "ms"), (1_700_000_000_000_000, "us"), (1_700_000_000_000_000_000, "ns")],
)
def test_times_that_are_no_seconds(first: int, unit: Any) -> None:
    m = sb.Monitor(time="ts")
    m.push({"ts": [first, first + 1], "x": [1.0, 2.0]})
    (notice,) = m.notices().to_pylist()
    assert (notice["notice"], notice["column"], notice["rows"]) == ("time unit", "ts", 2)
    assert "2023-11-14" in notice["hint"] and f'time_unit="{unit}"' in notice["hint"]
    m.push({"ts": [first + 2], "x": [1.0]})
    assert m.notices()["rows"].to_pylist() == [2]  # only the first batch is looked at
    other = sb.Monitor(time="ts", time_unit=unit)
    other.push({"ts": [first], "x": [1.0]})
    assert other.notices().num_rows == 0


def test_one_time_in_another_unit_than_the_others() -> None:
    m = sb.Monitor(time="ts")
    m.push({"ts": [1.7e9, 1.7e9 + 1, 1.7e12, 1.7e9 + 2], "x": [1.0, 2.0, 3.0, 4.0]})
    (notice,) = m.notices().to_pylist()
    assert (notice["notice"], notice["column"], notice["rows"]) == ("time unit", "ts", 1)
    assert "1700000000000 in ms is 2023-11-14" in notice["hint"] and "max_ahead=" in notice["hint"]
    waits = sb.Monitor(time="ts", max_ahead="1 day")
    waits.push({"ts": [1.7e9, 1.7e9 + 1, 1.7e12], "x": [1.0, 2.0, 3.0]})
    assert waits.notices()["notice"].to_pylist() == ["waiting"]


@pytest.mark.parametrize("first", [1.7e9, 5.0, 9e10, 4e11, 1e300])
def test_times_that_may_be_seconds(first: float) -> None:
    """In no unit is it a date of 1990 to 2100, or it is one in seconds."""
    m = sb.Monitor(time="ts")
    m.push({"ts": [first], "x": [1.0]})
    assert m.notices().num_rows == 0
