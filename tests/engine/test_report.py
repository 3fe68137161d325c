"""Change tables are slices of a pool: what was handed out stays as it was."""

from __future__ import annotations

import datetime as dt
import pickle

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb

SQL = "SELECT x FROM s ORDER BY x {} LIMIT 3 WINDOW 5 {}"


@pytest.mark.parametrize("timed", [pytest.param(False, marks=pytest.mark.soak), True])
def test_tables_handed_out_never_change(timed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through several pools, with watches coming and going (and so their names)."""
    monkeypatch.setattr("skyband.engine.report._ROWS", 16_384)
    monitor = sb.Monitor(time="t" if timed else None)
    monitor.watch(SQL.format("DESC", "ROWS"), name="a")
    monitor.watch(SQL.format("ASC", "SECONDS" if timed else "ROWS"), name="b")
    random = np.random.default_rng(0)
    tables: list[pa.Table] = []
    texts: list[str] = []
    for i in range(4000):
        if i == 2000:
            monitor.drop("a")
            monitor.watch(SQL.format("DESC", "ROWS"), name="c")
        batch = {"x": random.random(5)} | ({"t": np.arange(5 * i, 5 * i + 5)} if timed else {})
        changes = monitor.push(batch)
        if i % 20 == 0:
            tables.append(changes)
            texts.append(str(changes.to_pylist()))
    for table, text in zip(tables, texts, strict=True):
        assert str(table.to_pylist()) == text
        # Arrow's own count of nulls is right in every slice
        assert table["rank"].null_count == table["change"].to_pylist().count("leave")
        assert (table["time"].null_count == 0) == timed
        assert pickle.loads(pickle.dumps(table)).equals(table)
    assert {"a", "b", "c"} == {name for table in tables for name in table["query"].to_pylist()}


KINDS = {
    "rows": "SELECT x FROM s ORDER BY x DESC LIMIT 3 WINDOW 9 ROWS",
    "beyond": "SELECT x FROM s WHERE x > 0.5 WINDOW 9 ROWS",
    "pairs": "SELECT a.x, b.x FROM s a, s b WHERE a.id < b.id ORDER BY a.x - b.x LIMIT 3 WINDOW 9 ROWS",
    "groups": "SELECT g, SUM(x) FROM s GROUP BY g ORDER BY SUM(x) DESC LIMIT 3 WINDOW 9 ROWS",
}


@pytest.mark.parametrize("time", [None, "number", "date"])
@pytest.mark.parametrize("kinds", [["rows", "beyond"], ["pairs"], ["groups"], list(KINDS)])
def test_tables_of_every_kind_never_change(kinds: list[str], time: str | None) -> None:
    """Of rows, pairs and objects, each by itself and in one table, as single rows and as batches."""
    monitor = sb.Monitor(time=None if time is None else "t")
    for name in kinds:
        monitor.watch(KINDS[name], name=name)
    random = np.random.default_rng(1)
    tables: list[tuple[pa.Table, str]] = []
    for i in range(120):
        n = (1, 4)[i % 2]
        first = dt.date(2024, 1, 1) + dt.timedelta(days=i)
        batch = {"id": np.arange(4 * i, 4 * i + n), "g": random.integers(0, 5, n), "x": random.random(n)}
        if time is not None:
            batch["t"] = np.full(n, float(i)) if time == "number" else [first] * n
        changes = monitor.push(batch if n > 1 else {name: values[0] for name, values in batch.items()})
        tables.append((changes, str(changes.to_pylist())))
    assert all(str(table.to_pylist()) == text for table, text in tables)
    assert {name for table, _ in tables for name in table["query"].to_pylist()} == set(kinds)


def test_memory_that_nobody_holds_serves_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """But not while somebody holds any part of a table, in whatever form."""
    monkeypatch.setattr("skyband.engine.report._ROWS", 16_384)  # so that there are several
    monitor = sb.Monitor()
    monitor.watch(SQL.format("DESC", "ROWS"), name="a")
    random = np.random.default_rng(0)
    held: list[tuple[pa.Array, list[float]]] = []
    views: list[tuple[np.ndarray, list[int]]] = []
    found: list[int] = []
    for i in range(9000):
        changes = monitor.push({"x": random.random(5)})
        pool = monitor._report._pool
        assert pool is not None
        if pool.score.ctypes.data not in found[-1:]:
            found.append(pool.score.ctypes.data)
        if i % 2500 == 1000 and changes.num_rows:
            held.append((changes["score"].chunk(0), changes["score"].to_pylist()))
            views.append((changes["seq"].chunk(0).to_numpy(), changes["seq"].to_pylist()))
    assert len(held) >= 3 and len(found) >= 4
    for array, values in held:
        assert array.to_pylist() == values
    for view, numbers in views:
        assert view.tolist() == numbers
    # three pools are held in part: each has memory of its own
    assert len(set(found)) >= 3
    held.clear()
    views.clear()
    del array, view, changes
    before = len(found)
    for _ in range(9000):
        monitor.push({"x": random.random(5)})
        pool = monitor._report._pool
        assert pool is not None
        if pool.score.ctypes.data != found[-1]:
            found.append(pool.score.ctypes.data)
    # nobody holds anything: at most one pool more was needed
    assert len(found) <= before + 1


def test_a_step_with_very_many_changes_is_one_table() -> None:
    monitor = sb.Monitor()
    monitor.watch("SELECT x FROM s ORDER BY x LIMIT 20000 WINDOW 30000 ROWS", name="much")
    changes = monitor.push({"x": np.arange(25_000.0)})
    assert changes.num_rows == 20_000 and changes["rank"].null_count == 0
    assert changes["rank"].to_pylist() == list(range(1, 20_001))
    changes = monitor.push({"x": np.full(3, -1.0)})
    assert changes["change"].to_pylist() == ["leave"] * 3 + ["enter"] * 3
    assert changes["rank"].to_pylist() == [None] * 3 + [1, 2, 3]


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT x FROM s ORDER BY x DESC LIMIT 5",
        "SELECT a.x FROM s a, s b ORDER BY abs(a.x - b.x) LIMIT 5",
        "SELECT id, SUM(x) FROM s GROUP BY id ORDER BY SUM(x) DESC LIMIT 5",
        "SELECT x FROM s WHERE x > 0.5",
    ],
)
def test_tables_of_every_kind_of_query_never_change(query: str, size: int) -> None:
    """What a push returned is not touched by later ones."""
    random, monitor = np.random.default_rng(1), sb.Monitor()
    monitor.watch(f"{query} WINDOW 20 ROWS")
    tables = []
    for _ in range(20):
        changes = monitor.push({"x": random.random(size), "id": random.integers(0, 9, size)})
        tables.append((changes, changes.to_pylist()))
    assert all(changes.to_pylist() == rows for changes, rows in tables)
