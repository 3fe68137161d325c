"""How long reading records of JSON takes: by Spark's own code, and by our tasks.

Both ways begin with the same values in memory of the JVM and end in the no-op sink: Spark's `from_json` with a filter
behind it that lets next to nothing pass, and a task that gets the values by way of Arrow and reads them as the pipeline
does.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skyband.spark.input.values import json_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WAYS = ("Spark's from_json", "a task")
_COLUMNS = tuple(f"x{number}" for number in range(4))
_DIFFERENT = 100_000  # records that differ


def values_rates(session: SparkSession, home: Path, records: int, turns: int) -> dict[str, float]:
    """Return records a second each way."""
    values = _values(session, home / "values", records)
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(turns + 1):
        for way, read in zip(WAYS, (_by_spark, _by_task), strict=True):
            began = time.perf_counter()
            read(values).write.format("noop").mode("overwrite").save()
            seconds[way].append(time.perf_counter() - began)
    values.unpersist()
    return {way: records / statistics.median(every[1:]) for way, every in seconds.items()}


def _values(session: SparkSession, folder: Path, records: int) -> DataFrame:
    """So many values, kept in the JVM: the same again and again under other names."""
    import pyarrow.parquet as pq

    chance = np.random.default_rng(5)
    rows = zip(*(chance.random(_DIFFERENT).tolist() for _ in _COLUMNS), strict=True)
    texts = [
        "{" + ", ".join(f'"{n}": {x!r}' for n, x in zip(_COLUMNS, row, strict=True)) + "}" for row in rows
    ]
    folder.mkdir()
    table = pa.table({"value": pa.array([text.encode() for text in texts], pa.binary())})
    for number in range(max(1, records // _DIFFERENT)):
        pq.write_table(table.slice(0, records), folder / f"{number}.parquet")
    values = session.read.parquet(str(folder)).coalesce(2).cache()
    values.count()
    return values


def _by_spark(values: DataFrame) -> DataFrame:
    columns = ", ".join(f"{name} double" for name in _COLUMNS)
    read = values.selectExpr(f"from_json(CAST(value AS string), '{columns}') AS row").selectExpr("row.*")
    return read.where(f"{' + '.join(_COLUMNS)} > {len(_COLUMNS)}")


def _by_task(values: DataFrame) -> DataFrame:
    return values.mapInArrow(_counter(), "rows long")


def _counter() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    schema = pa.schema([(name, pa.float64()) for name in _COLUMNS])

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = json_values(batch.column("value").cast(pa.binary()), schema).table.num_rows
            yield pa.record_batch([pa.array([rows], pa.int64())], names=["rows"])

    return count
