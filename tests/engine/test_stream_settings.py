"""A stream's own settings: as if the monitor had been made with them, and none that would change what rows mean."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.core.errors import SkybandError
from skyband.engine.stream_settings import HasRows

SQL = "SELECT id, x FROM s ORDER BY x DESC LIMIT 2 WINDOW 10 SECONDS"
BY_COUNT = "SELECT id, x FROM s ORDER BY x DESC LIMIT 2 WINDOW 3 ROWS"
SCHEMA = {"ts": "double", "id": "string", "x": "double"}
STEPS = [
    [{"ts": 1, "id": "a", "x": 5}, {"ts": 2, "id": "b", "x": 7}],
    [{"ts": 13, "id": "c", "x": 1.5}, {"ts": "no time", "id": "d", "x": 9}],
    [{"ts": 14, "id": "a", "x": 2}, {"ts": 1.0, "id": "late", "x": 99}],
]


def answers(monitor: sb.Monitor, stream: str | None) -> list[Any]:
    found = [monitor.push(step, stream=stream).to_pylist() for step in STEPS]
    monitor._check()
    tops = {name: watch.top().to_pylist() for name, watch in monitor.watches.items()}
    return [found, tops, monitor.rejects().to_pylist(), monitor.reject_counts, monitor.now]


@pytest.mark.parametrize("watch_first", [True, False])
@pytest.mark.parametrize("key", [None, "id"])
def test_as_if_the_monitor_had_been_made_with_them(watch_first: bool, key: str | None) -> None:
    made = sb.Monitor(time="ts", key=key, schema={"s": SCHEMA})
    made.watch(BY_COUNT, name="q")
    made.watch(SQL, name="p")
    expected = answers(made, "s")
    monitor = sb.Monitor()
    if watch_first:
        monitor.watch(BY_COUNT, name="q")
    monitor._set_stream("s", {"schema": SCHEMA, "time": "ts", "key": key})
    if not watch_first:
        monitor.watch(BY_COUNT, name="q")
    monitor.watch(SQL, name="p")
    again = sb.Monitor.from_bytes(monitor.to_bytes())
    assert answers(monitor, "s") == expected
    assert answers(again, "s") == expected


def test_a_name_that_was_set_means_no_other_stream() -> None:
    monitor = sb.Monitor()
    monitor.watch("SELECT x FROM anything ORDER BY x LIMIT 1 WINDOW 9 ROWS", name="q")
    monitor._set_stream("cars", {"schema": {"x": "double"}})  # as a first push would: the watch is about cars
    monitor._set_stream("trucks", {"schema": {"y": "int64"}, "time": None})
    assert list(monitor.streams) == ["cars", "trucks"]
    monitor.push({"x": [2.0]}, stream="boats")
    monitor.push({"x": [3.0]}, stream="cars")
    assert [row["score"] for row in monitor.watches["q"].top().to_pylist()] == [3.0]
    with pytest.raises(sb.InputError, match="several streams"):
        monitor.push({"x": [2.0]})
    again = sb.Monitor.from_bytes(monitor.to_bytes())
    again.push({"y": [1]}, stream="trucks")
    assert again.streams["trucks"].schema == pa.schema([("y", pa.int64())])


def test_streams_of_one_monitor_with_and_without_time() -> None:
    monitor = sb.Monitor()
    with pytest.raises(sb.InputError, match="advance needs event time"):
        monitor.advance(3)
    monitor._set_stream("timed", {"time": "t"})
    monitor._set_stream("plain", {})
    w = monitor.watch("SELECT x FROM timed ORDER BY x DESC LIMIT 1 WINDOW 5 SECONDS")
    monitor.push({"t": [1.0], "x": [1.0]}, stream="timed")
    changes = monitor.push({"x": [9.0]}, stream="plain")
    assert changes.num_rows == 0 and changes.schema.field("time").type == pa.float64()
    assert monitor.advance(7.0).column("change").to_pylist() == ["leave"] and w.top().to_pylist() == []


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"schema": {"x": "doubel"}}, "The type of \"x\" can't be 'doubel'"),
    ({"schema": {"x": "timestamp[us, tz=Nowhere]"}}, "The type of"),
    ({"schema": {"x": 3}}, "The type of"),
    ({"schema": {}}, '"schema" must have'),
    ({"schema": "double"}, '"schema" must have'),
    ({"time": ""}, '"time" must be the name of a column'),
    ({"colour": "red"}, "no setting 'colour'"),
    ({"op": "op"}, '"op" needs "key"'),
    ({"schema": {"y": "double"}}, "x"),  # the query reads x
    ({"schema": {"x": "string"}}, "x"),
    ({"schema": {"x": "double"}, "time": "ts"}, "ts"),
    ({"schema": {"x": "double", "ts": "bool"}, "time": "ts"}, "ts"),
    ({"schema": {"x": "double"}, "key": "k"}, "k"),
]


@pytest.mark.parametrize("given, words", WRONG)
def test_an_error_changes_nothing(given: dict[str, Any], words: str) -> None:
    monitor = sb.Monitor()
    monitor.watch("SELECT x FROM s ORDER BY x LIMIT 1 WINDOW 9 ROWS")
    before = monitor.to_bytes()
    with pytest.raises(SkybandError, match=words):
        monitor._set_stream("s", given)
    assert monitor.to_bytes() == before
    monitor._check()


def test_what_queries_need_is_kept() -> None:
    monitor = sb.Monitor(time="ts")
    monitor.watch(SQL)
    with pytest.raises(sb.QueryError, match="needs event times"):
        monitor._set_stream("s", {"time": None})
    monitor = sb.Monitor()
    monitor.watch(
        "SELECT id FROM a FULL JOIN b USING (id) ORDER BY a.x + b.x LIMIT 2 WINDOW 9 ROWS", name="j"
    )
    with pytest.raises(sb.InputError, match="part of a joined query"):
        monitor._set_stream("a", {"time": "ts"})
    monitor._set_stream("a", {"schema": {"id": "string", "x": "double"}})
    monitor.push([{"id": "i", "x": 1}], stream="a")
    assert monitor.watches["j"].top().to_pylist()[0]["score"] == 1.0


def test_pairs_refuse_a_key_that_comes_later() -> None:
    monitor = sb.Monitor()
    monitor.watch("SELECT a.x FROM s a, s b WHERE a.x < b.x ORDER BY a.x LIMIT 1 WINDOW 9 ROWS")
    with pytest.raises(sb.QueryError):
        monitor._set_stream("s", {"key": "x"})
    assert monitor.streams["s"].updates is None


def test_with_rows_only_what_changes_no_meaning() -> None:
    monitor = sb.Monitor()
    monitor._set_stream("s", {"schema": {"ts": "int64", "x": "double"}, "time": "ts"})
    monitor._set_stream(
        "s", {"schema": {"ts": "timestamp[us]", "x": "double"}}
    )  # before the first row: anything
    monitor.push([{"ts": "2024-05-01T10:00:00", "x": 1, "n": 3}])
    for given in (
        {"time": None}, {"key": "x"}, {"schema": {"x": "int64"}}, {"schema": {"n": "double"}},
    ):  # fmt: skip
        with pytest.raises(HasRows, match='The stream "s" has rows'):
            monitor._set_stream("s", given)
    monitor._set_stream(
        "s", {"time": "ts", "key": None, "schema": {"x": "double", "n": "int64", "z": "int64"}}
    )
    monitor.push([{"ts": "2024-05-01T10:00:01", "x": 2, "n": 3, "z": 1.5}])
    assert monitor.reject_counts["type"] == 1, "a declared type never changes"
    assert monitor.streams["s"].schema.field("z").type == pa.int64()


def test_units_of_time() -> None:
    """Each stream may have its own; the other's numbers are seconds then, and as exact."""
    monitor = sb.Monitor(time="ts")
    monitor._set_stream("a", {"time_unit": "ms"})
    assert monitor.push({"ts": [1500], "x": [1.0]}, stream="a").num_rows == 0
    assert monitor.now == 1500
    monitor.push({"ts": [2], "x": [1.0]}, stream="b")
    assert monitor.now == 2000
    monitor = sb.Monitor.from_bytes(monitor.to_bytes())
    assert [stream.unit for stream in monitor.streams.values()] == ["ms", "s"]
    with pytest.raises(HasRows, match=r'the time unit "ms".*before the first row'):
        monitor._set_stream("a", {"time_unit": "s"})
    for settings, said in (
        ({"time_unit": "minutes"}, "must be s, ms, us or ns"),
        ({"time_unit": "ms", "time": None}, '"time_unit" needs "time"'),
    ):
        with pytest.raises(SkybandError, match=said):
            monitor._set_stream("c", settings)
    timestamps = sb.Monitor(time="ts")
    timestamps.push({"ts": [1.0], "x": [1.0]}, stream="a")
    timestamps._set_stream("b", {"time_unit": "ms"})
    with pytest.raises(SkybandError, match="in ms and another stream's is a number: give both a unit"):
        timestamps.push({"ts": [1.0], "x": [1.0]}, stream="b")
