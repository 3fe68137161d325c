"""The lane does what the ordinary way does: the same changes, the same answers, and it steps aside where it must."""

import copy
import pickle
import weakref
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.algorithms.heightmap.whole_step import LISTS

COLUMNS = ("x", "y", "z")


def rows(rng: np.random.Generator, count: int, grid: int = 0) -> pa.Table:
    points = rng.random((len(COLUMNS), count))
    if grid:  # ties
        points = np.floor(points * grid) / grid
    return pa.table({name: column for name, column in zip(COLUMNS, points, strict=True)})


def watched(algorithm: str, n: int = 300, ks: tuple[int, ...] = (1, 5, 5, 12)) -> sb.Monitor:
    monitor = sb.Monitor()
    for number, k in enumerate(ks):
        monitor.watch(
            f"SELECT x, y FROM s ORDER BY {number + 1} * x + {2.5 - number / 2} * y + 0.5 * z DESC LIMIT {k} "
            f"WINDOW {n} ROWS WITH (algorithm = '{algorithm}')",
            name=f"q{number}",
        )
    return monitor


def compare(one: sb.Monitor, other: sb.Monitor, batch: Any) -> None:
    other._lane = None
    assert one.push(batch).equals(other.push(batch))
    for name, watch in one.watches.items():
        assert watch.top().equals(other.watches[name].top())
    assert one.rows_seen == other.rows_seen


@pytest.mark.parametrize("algorithm", ["heightmap", "tma", "tsl"])
@pytest.mark.parametrize("grid", [0, 4])
def test_the_lane_is_as_good_as_the_ordinary_way(algorithm: str, grid: int) -> None:
    rng = np.random.default_rng(5)
    one, other = watched(algorithm), watched(algorithm)
    used = 0
    for step in range(60):
        used += one._lane is not None and one._lane.serves()
        compare(one, other, rows(rng, 1 + 17 * (step % 5), grid))
        one._check()
    assert used > 40


def test_a_batch_longer_than_the_window() -> None:
    rng = np.random.default_rng(6)
    one, other = watched("heightmap", 40), watched("heightmap", 40)
    for count in (50, 30, 200, 1, 90):
        compare(one, other, rows(rng, count))
        one._check()


def test_it_steps_aside() -> None:
    """Nulls, chunks, other orders of columns, other types, no rows, dicts, watches that come and go."""
    rng = np.random.default_rng(7)
    one, other = watched("heightmap"), watched("heightmap")
    for _ in range(12):
        compare(one, other, rows(rng, 40))
    assert one._lane is not None
    table = rows(rng, 10)
    missing = table.set_column(0, "x", pa.array([None, *table.column("x").to_pylist()[1:]], pa.float64()))
    batches = [
        missing,
        pa.concat_tables([table, table]),
        table.select(["z", "y", "x"]),
        table.set_column(2, "z", pa.array(range(10), pa.int64())),
        table.slice(0, 0),
        table.append_column("w", pa.array(range(10))),
        table.to_pydict(),
        table.slice(3, 4),
    ]
    for batch in batches:
        compare(one, other, batch)
        compare(one, other, rows(rng, 20))
    for monitor in (one, other):
        monitor.watch(
            "SELECT x, y FROM s ORDER BY 9 * x + 2 * y + 0.5 * z DESC LIMIT 3 WINDOW 300 ROWS "
            "WITH (algorithm = 'heightmap')",
            name="late",
        )
    for _ in range(10):
        compare(one, other, rows(rng, 60))
    for monitor in (one, other):
        monitor.drop("q1")
    for _ in range(10):
        compare(one, other, rows(rng, 60))
    for monitor in (one, other):
        monitor.watches["q2"].change(k=7)
    for _ in range(10):
        compare(one, other, rows(rng, 60))
    one._check()


def test_more_changes_than_usual() -> None:
    """More changes in one step than there is memory for at once, and than the table of changes has room for."""
    rng = np.random.default_rng(8)
    ks = (200,) * 40
    one, other = watched("heightmap", 500, ks), watched("heightmap", 500, ks)
    for _ in range(12):
        compare(one, other, rows(rng, 250))
    assert one._lane is not None


def test_a_pool_that_is_used_up_is_replaced_before_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step whose changes don't fit into the table of changes is done in halves, which takes twice as long."""
    rng = np.random.default_rng(12)
    monkeypatch.setattr("skyband.engine.report._ROWS", 1024)
    ks = (12,) * 40
    one, other = watched("heightmap", 2000, ks), watched("heightmap", 2000, ks)
    pools: set[Any] = set()
    calls: list[int] = []
    for step in range(80):
        algorithm: Any = one.streams["s"].groups[0].algorithm if step else None
        if step == 40:
            go = algorithm.go
            algorithm.go = lambda *given: calls.append(go(*given)) or calls[-1]  # noqa: B023
        compare(one, other, rows(rng, 100))
        pools.add(one._report._pool)
    assert len(pools) > 3 and len(calls) > 30
    # all was told at once but what lists had left to do
    assert sum(found < 0 for found in calls) < 5


def test_a_saved_monitor_goes_on() -> None:
    rng = np.random.default_rng(9)
    one, other = watched("heightmap"), watched("heightmap")
    for _ in range(12):
        compare(one, other, rows(rng, 40))
    one = sb.Monitor.from_bytes(one.to_bytes())
    for _ in range(12):
        compare(one, other, rows(rng, 40))
    one._check()


def test_a_step_in_one_call() -> None:
    """From some steps on: slices, bitmaps without nulls, columns in another order, lists that run short, and tables
    that it can't take in between; what it took it holds no longer."""
    rng = np.random.default_rng(11)
    ks = (1, 5, 5, 12) * 10  # as many as compiled loops are made for
    one, other = watched("heightmap", 2000, ks), watched("heightmap", 2000, ks)
    calls: list[int] = []
    rest: list[int] = []
    for step in range(110):
        falling = 1.0 - 0.004 * step  # so that lists run short
        points = {name: falling * rng.random(150) for name in ("z", "x", "y")}
        table = pa.table(points)
        if step % 4 == 1:
            table = pa.table({name: np.append(column, 2.0) for name, column in points.items()}).slice(0, 150)
        if step % 4 == 2:
            table = pa.table({name: np.append(2.0, column) for name, column in points.items()}).slice(1)
        if step % 7 == 3:
            bits = pa.py_buffer(bytes([255] * 19))
            table = pa.table(
                {
                    n: pa.Array.from_buffers(pa.float64(), 150, [bits, pa.py_buffer(c)])
                    for n, c in points.items()
                }
            )
        if step % 9 == 8:
            table = table.set_column(
                0, "z", pa.array([None, *table.column("z").to_pylist()[1:]], pa.float64())
            )
        if step % 11 == 10:  # numbers that begin in the middle of a word
            odd = [pa.py_buffer(b"odd" + column.tobytes()).slice(3) for column in points.values()]
            made = [pa.Array.from_buffers(pa.float64(), 150, [None, buffer]) for buffer in odd]
            table = pa.table(dict(zip(points, made, strict=True)))
        if step == 50:
            table = pa.concat_tables([table, table])
        algorithm: Any = one.streams["s"].groups[0].algorithm
        if step == 60:
            go, finish = algorithm.go, algorithm.finish
            algorithm.go = lambda *given: calls.append(1) or go(*given)  # noqa: B023
            algorithm.finish = lambda *given: rest.append(given[0]) or finish(*given)  # noqa: B023
        compare(one, other, table)
        one._check()
    assert len(calls) > 30 and LISTS in rest
    column = np.ones(5)
    gone = weakref.ref(column)
    before = len(calls)
    one.push(
        pa.table(
            {name: pa.Array.from_buffers(pa.float64(), 5, [None, pa.py_buffer(column)]) for name in "zxy"}
        )
    )
    del column
    assert len(calls) == before + 1 and gone() is None


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda monitor: pickle.loads(pickle.dumps(monitor))])
def test_a_copied_monitor_goes_on_by_itself(copied: Any) -> None:
    """Arrays copied one by one would no longer share what they shared: answers were wrong without a word."""
    rng = np.random.default_rng(8)
    one = watched("heightmap")
    for _ in range(40):
        one.push(rows(rng, 30))
    other = copied(one)
    again = copied(one.watches["q1"])
    assert again.top().equals(one.watches["q1"].top()) and again._monitor is not one
    for count in (30, 7, 30):
        compare(one, other, rows(rng, count))
    one._check()
    other._check()


def _stream(kind: str, rng: np.random.Generator, step: int, count: int) -> pa.Table:
    """Rows that a step in one call can't take, of one kind or of several at once."""
    points = np.floor(rng.random((3, count)) * 50) / 50
    masks = rng.random((3, count)) < (0.1 if "nulls" in kind else 0.0)
    columns = [pa.array(values, mask=mask) for values, mask in zip(points, masks, strict=True)]
    if "integers" in kind:
        columns = [
            pa.array((values * 50).astype(np.int64), mask=mask)
            for values, mask in zip(points, masks, strict=True)
        ]
    table = pa.table(dict(zip(COLUMNS, columns, strict=True)))
    if "text" in kind:
        letters = np.array(["a", "b", "c"])[rng.integers(0, 3, count)]
        table = table.append_column("g", pa.array(letters, mask=rng.random(count) < 0.1))
    if "time" in kind:
        stamps = 100 * step + np.sort(rng.integers(0, 100, count))
        if "late" in kind:
            stamps -= rng.integers(0, 300, count)
        table = table.append_column("ts", pa.array(stamps, pa.timestamp("us")))
    return table


@pytest.mark.parametrize("algorithm", ["heightmap", "tma"])
@pytest.mark.parametrize(
    "kind", ["integers", "nulls", "text", "windows", "time", "time late", "time late text nulls windows"]
)
def test_other_streams_take_it_too(kind: str, algorithm: str) -> None:
    rng = np.random.default_rng(13)
    one, other = (sb.Monitor(time="ts" if "time" in kind else None) for _ in range(2))
    for monitor in (one, other):
        for i in range(12):
            n = [300, 150, 60][i % 3 if "windows" in kind else 0]
            window = f"{n * 10} MICROSECONDS" if "time" in kind and i % 2 else f"{n} ROWS"
            where = f"WHERE g = '{'abc'[i % 3]}' " if "text" in kind and algorithm == "heightmap" else ""
            monitor.watch(
                f"SELECT {'g, ' if 'text' in kind else ''}x FROM s {where}ORDER BY {i + 1} * x + {7 - i} * y + z "
                f"DESC LIMIT {1 + i % 5} WINDOW {window} WITH (algorithm = '{algorithm}')",
                name=f"q{i}",
            )
    used = 0
    for step in range(50):
        before = one._lane
        compare(one, other, _stream(kind, rng, step, 1 + 17 * (step % 5)))
        used += before is not None and one._lane is before
        if step == 20:
            late = _stream(kind, rng, 0, 5)  # too late for all windows, where there are times
            compare(one, other, late)
            assert one.reject_counts == other.reject_counts
        if step == 30:
            one = sb.Monitor.from_bytes(one.to_bytes())
        if step % 5 == 0:
            one._check()
    if not ("late" in kind and algorithm == "tma"):
        assert used > 30
