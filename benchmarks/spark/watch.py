"""How long a batch of `watch(df, shards=…)` takes, and how much of it the last task takes.

With more than one unit each micro-batch has two more tasks: one numbers all rows, and one makes one answer of the
units' parts of pairs and groups, whether there are any or not. So there are three ways, which run in turn: one unit,
two units, and two units whose parts go into the no-op sink as they are. The first way sends all rows to its unit, the
others prune them where they are.
"""

from __future__ import annotations

import statistics
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.spark.runs import into_nothing, stream_of, triggers, weighted, write_files
from skyband.spark.dataframe.watching import (
    _deal,
    _named,
    _streams,
    unit_lines,
    watch,
)
from skyband.spark.executors.run import state_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIZES = (200, 400_000)  # rows a batch
WAYS = ("one unit", "two", "two, not merged")
_QUERIES = 100


def watch_seconds(session: SparkSession, home: Path, batches: int, warm: int) -> dict[int, dict[str, float]]:
    """Return the seconds of a micro-batch each way, by rows of a batch."""
    found: dict[int, dict[str, float]] = {}
    for rows in SIZES:
        data = home / f"watched-{rows}"
        write_files(data, batches, rows)
        seconds: dict[str, list[float]] = {way: [] for way in WAYS}
        for turn in range(2):
            for way in WAYS:
                run = partial(_run, session, data, home / f"watch-{rows}-{way}-{turn}", way)
                seconds[way] += [*triggers(session, run)][warm:]
        found[rows] = {way: statistics.median(every) for way, every in seconds.items()}
    return found


def _run(session: SparkSession, data: Path, folder: Path, way: str) -> None:
    rows = stream_of(session, data)
    queries = {f"q{number}": sql for number, sql in enumerate(weighted(_QUERIES))}
    shards = 1 if way == WAYS[0] else 2
    with state_settings(session, shards):
        if way == WAYS[2]:
            frames = {"s": rows}
            found = unit_lines(frames, _deal(_named(queries), _streams(frames, None), True, shards))
        else:
            found = watch(rows, queries, shards=shards)
        into_nothing(found, folder)
