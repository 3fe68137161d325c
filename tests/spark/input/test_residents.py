"""What stays in a worker, and what must not: a monitor that is taken apart needs no collector of garbage."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.executors.test_units import QUERIES, STREAMS, Local, arrow, layout, make_files

from skyband.spark.executors import merging
from skyband.spark.executors.merging import take
from skyband.spark.input.residents import let_go

KINDS = (
    "SELECT * FROM s ORDER BY a DESC LIMIT 3 WINDOW 50 ROWS",
    "SELECT * FROM s WHERE a > 1 WINDOW 50 ROWS",
    "SELECT * FROM s a, s b WHERE a.id < b.id ORDER BY abs(a.a - b.a) LIMIT 3 WINDOW 20 ROWS",
    "SELECT id, SUM(a) FROM s GROUP BY id ORDER BY SUM(a) DESC LIMIT 3 WINDOW 50 ROWS",
)


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("sql", KINDS)
def test_a_monitor_that_is_let_go_is_gone(sql: str, no_collector: None) -> None:
    import skyband as sb

    monitor = sb.Monitor()
    monitor.watch(sql, name="q")
    monitor.push({"id": [1, 2, 3], "a": [3.0, 1.0, 2.0]})
    monitor = sb.Monitor.from_bytes(monitor.to_bytes())
    monitor.push({"id": [4, 5], "a": [5.0, 0.5]})
    watch = monitor.watches["q"]
    watch.top()
    left = [weakref.ref(one) for one in (monitor, watch, watch.group, *monitor.streams.values())]
    let_go(monitor)
    del monitor, watch
    assert [one() for one in left] == [None] * len(left)


def test_a_state_of_another_worker_takes_the_place_of_an_older_one(
    tmp_path: Path, no_collector: None
) -> None:
    """A worker that has a unit's monitors of two batches ago reads the state, and nothing of theirs stays."""
    merging._HELD.clear()
    local = Local(tmp_path, STREAMS)
    queries = {"ties": QUERIES["ties"]}
    local.start(queries, layout(queries, 1, 1))
    for rows in make_files(2, seed=71):
        local.push([("s", arrow(rows))])
    ((key, held),) = merging._HELD.items()
    older = weakref.ref(held.monitors[0])
    del held
    state = local.states[key]
    merging._HELD[key].state = b"of an older batch"
    after, _ = take(local.job, local.batch, key, [], state)
    assert older() is None
    ((_, held),) = merging._HELD.items()
    assert held.state == after
