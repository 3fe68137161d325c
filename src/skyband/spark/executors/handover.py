"""State that changes hands: another number of units at a start, or a kind of query that was not asked before.

Between two batches the driver reads the units' state from Spark's checkpoint, cuts it up, and leaves a file for each
unit that has no state of its own yet. A query's state is never changed by that: a monitor is read, the queries that
belong elsewhere are dropped from it, and it is written again. A unit to which no state is left still gets a
monitor without queries, since rows have to be counted from the beginning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.core.blob import FORMAT
from skyband.core.errors import InputError
from skyband.spark.driver.checkpoint import Checkpoint
from skyband.spark.jvm.files import frame, write_atomic
from skyband.spark.jvm.paths import uri_of

from .merging import state_bytes, unpacked
from .routing import owns
from .shards import ROWS, Unit, part_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def hand_over(
    session: SparkSession,
    checkpoint: Checkpoint,
    batch: int,
    before: tuple[Unit, ...],
    after: tuple[Unit, ...],
) -> None:
    """Leave files for the units of `batch` that have no state yet."""
    there = {unit.key for unit in before}
    fresh = [unit for unit in after if unit.key not in there]
    try:
        states = read_states(session, checkpoint, batch - 1) if fresh else {}
    except Exception as problem:
        raise checkpoint.unreadable(problem) or problem from problem
    missing = [unit for unit in before if unit.key not in states] if fresh else []
    if missing:
        raise InputError(
            f"The checkpoint {checkpoint.folder} has no state of {len(missing)} of {len(before)} units before batch "
            f"{batch}: it is damaged; start again with an empty checkpoint and output folder."
        )
    for unit in fresh:
        old = [states[u.key] for u in before if u.kind == ROWS]
        state = _cut(old or [states[before[0].key]], unit)
        write_atomic(
            checkpoint.own / "handover" / f"{unit.key}.state",
            frame({"format": FORMAT, "batch": batch}, state),
        )


def _cut(states: list[bytes], unit: Unit) -> bytes:
    """Of some units' state what belongs to another one: a monitor of each that has any, or one without queries."""
    kept: list[Any] = []
    spare = None
    for state in states:
        for monitor in unpacked(state).monitors:
            for name, watch in list(monitor.watches.items()):
                # Queries that are no longer asked go along: the unit that drops them reports it.
                if unit.kind != ROWS or part_of(watch.query, unit.of) != unit.part:
                    monitor.drop(name)
            if monitor.watches:
                kept.append(monitor)
            elif spare is None:
                spare = monitor
    if not kept:
        assert spare is not None
        kept = [spare]
    for monitor in kept:
        monitor.share = unit.share
        for stream in monitor.streams.values() if unit.ids else ():
            waiting, table = stream.waiting, stream.waiting.table
            if table is not None:
                mine = stream.name in unit.streams
                own = owns(unit, table) if mine else np.zeros(table.num_rows, dtype=bool)
                waiting.keep(own, np.ones(len(waiting), dtype=bool))
    return frame({"format": FORMAT, "queries": ""}, *(monitor.to_bytes() for monitor in kept))


def read_states(session: SparkSession, checkpoint: Checkpoint, batch: int) -> dict[int, bytes]:
    """All units' state after a batch, by key, from Spark's own store."""
    table = (
        session.read.format("statestore")
        .option("batchId", batch)
        .load(uri_of(checkpoint.folder))
        .selectExpr("key.*", "value.*")
        .toArrow()
    )
    found = {}
    for row in table.to_pylist():
        state = row.get("groupState") or row
        found[int(row["unit"])] = state_bytes(state["state"])
    return found
