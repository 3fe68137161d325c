"""What a batch of `watch(df, shards=…)` takes, and what of it the last task does.

With more than one unit two tasks more have their turn in each micro-batch: one that gives all rows their places, and
one that makes one answer of the units' parts of pairs and groups, whether there are any or not. So there are three
ways, in turn: one unit, two, and two whose parts go into the no-op sink as they are. The first of them sends all rows
to its unit, the others prune them where they are.
"""

from __future__ import annotations

import statistics
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.spark.measure import triggers, weighted, write_files
from skyband.spark.dealt import dealt_parts
from skyband.spark.executors import state_settings
from skyband.spark.stateful import _arrow_schema, watch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIZES = (200, 400_000)  # rows a batch
WAYS = ("one unit", "two", "two, not merged")
_QUERIES = 100


def watch_seconds(session: SparkSession, home: Path, batches: int, warm: int) -> dict[int, dict[str, float]]:
    """By rows of a batch, the seconds of a micro-batch each way."""
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
    from skyband.query.sql.parser import parse

    columns = ", ".join(f"x{number} double" for number in range(4))
    rows = session.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(str(data))
    queries = {f"q{number}": sql for number, sql in enumerate(weighted(_QUERIES))}
    shards = 1 if way == WAYS[0] else 2
    with state_settings(session, shards):
        if way == WAYS[2]:
            models = {name: parse(sql) for name, sql in queries.items()}
            told, _ = dealt_parts(rows, models, _arrow_schema(rows, None), None, None, shards)
        else:
            told = watch(rows, queries, shards=shards)
        writer = told.writeStream.format("noop").option("checkpointLocation", str(folder))
        writer.trigger(availableNow=True).start().awaitTermination()
