"""The lane does what the ordinary way does: the same changes, the same answers, and it steps aside where it must."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb

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


def test_a_saved_monitor_goes_on() -> None:
    rng = np.random.default_rng(9)
    one, other = watched("heightmap"), watched("heightmap")
    for _ in range(12):
        compare(one, other, rows(rng, 40))
    one = sb.Monitor.from_bytes(one.to_bytes())
    for _ in range(12):
        compare(one, other, rows(rng, 40))
    one._check()
