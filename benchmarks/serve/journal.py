"""What a journal costs: 100 queries, k = 10, a window of 100,000 rows, batches of 20,000 rows of four columns.

The same batches go to a monitor without a journal, to one with a journal that is called batch by batch, and to the
engine behind it with eight batches under way, as a server has them, as the bytes of an Arrow IPC stream. Then the
folder is opened again as a kill would have left it. Rows per second are by the wall clock, since a flush takes time and
no CPU; a raw flush of the same bytes shows what the disk can do.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from benchmarks.streams.generators import independent, weighted_sum, weights
from skyband.durable import Engine
from skyband.durable.codec import to_ipc
from skyband.engine.monitor import Monitor

QUERIES, K, WINDOW, BATCH, COLUMNS, BATCHES, WARM = 100, 10, 100_000, 20_000, 4, 100, 8
UNDER_WAY = 8


def watched(monitor: Monitor) -> Monitor:
    for number, weight in enumerate(weights(QUERIES, COLUMNS)):
        sql = f"SELECT x0 FROM s ORDER BY {weighted_sum(weight)} DESC LIMIT {K} WINDOW {WINDOW} ROWS"
        monitor.watch(sql, name=f"q{number}")
    return monitor


def batches() -> list[pa.Table]:
    names = [f"x{j}" for j in range(COLUMNS)]
    made = []
    for number in range(BATCHES + WARM):
        values = independent(BATCH, COLUMNS, number)
        made.append(pa.table({name: values[:, j].copy() for j, name in enumerate(names)}))
    return made


def measure(name: str, step: Callable[[list[pa.Table]], None], given: list[pa.Table]) -> None:
    step(given[:WARM])
    clock, cpu = time.perf_counter(), time.process_time()
    step(given[WARM:])
    clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
    rows = (len(given) - WARM) * BATCH / 1e6
    print(f"  {name:34s} {rows / clock:6.2f} M rows/s   {rows / cpu:6.2f} M rows per CPU second")


def one_by_one(monitor: Monitor, given: list[pa.Table]) -> None:
    for table in given:
        monitor.push(table)


def flushed(folder: Path, given: list[pa.Table]) -> None:
    """The same bytes to a file, with a flush for each batch."""
    with open(folder / "raw", "wb", buffering=0) as file:
        for table in given:
            file.write(memoryview(to_ipc(table)))
            os.fsync(file.fileno())


def under_way(engine: Engine, given: list[pa.Table]) -> None:
    """Several at a time: the next is sent when the first of them is acknowledged."""
    waiting = deque(engine.submit(to_ipc(table)) for table in given[:UNDER_WAY])
    for table in given[UNDER_WAY:]:
        waiting.popleft().result()
        waiting.append(engine.submit(to_ipc(table)))
    for future in waiting:
        future.result()


def main() -> None:
    given = batches()
    with tempfile.TemporaryDirectory(prefix="skyband-journal-") as name:
        folder = Path(name)
        plain = watched(Monitor())
        measure("without a journal", lambda tables: one_by_one(plain, tables), given)
        measure("its bytes to the disk, no monitor", lambda tables: flushed(folder, tables), given)
        kept = watched(Monitor(journal=folder / "one"))
        measure("journal, batch by batch", lambda tables: one_by_one(kept, tables), given)
        kept.close()
        engine = Engine(Monitor(), folder / "many")
        watched(engine.monitor)
        measure(f"journal, {UNDER_WAY} batches under way", lambda tables: under_way(engine, tables), given)
        engine.leave()
        clock = time.perf_counter()
        again = Engine(Monitor(), folder / "many")
        print(f"  opened again as after a kill        {time.perf_counter() - clock:6.2f} s")
        again.snapshot()
        stall, size = again.snapshot_stall * 1000, again.snapshot_bytes / 1e6
        print(f"  a snapshot of {size:.1f} MB holds up the stream for {stall:.0f} ms")
        again.close()
