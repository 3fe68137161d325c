"""Pipelines and streaming DataFrames that 5be4cef ran in part: folders as files, and how they go on.

A fixture is `written/spark/NAME.tar.xz`: the folder of a pipeline (or of a streaming query) with its input, checkpoint
and output in the middle, `later/` with the rest of the input, and `about.json` with the output in the end. The times
of change of input files are whole seconds, because the pipeline remembers them.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from tests.compatibility.recording import COLUMNS, HERE, plain, rows_of
from tests.compatibility.scenarios import QUERIES

import skyband.spark
from skyband.spark import run_pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FOLDER = HERE / "spark"
PLACEMENTS = ("driver", "executors", "executors-plain")
SHARDS = (1, 2)
CHANGED = 1_700_000_000  # seconds: when input files were changed
FIRST, ALL = 4, 6  # files of each stream, in the middle and in all
ASKED = {name: sql for name, sql in QUERIES.items() if "FROM one" in sql and "JOIN" not in sql}
ASKED["above"] = "SELECT x FROM one WHERE x > 1 AND id < 6 WINDOW 5 SECONDS"
SCHEMA = "x double, y double, c string, id bigint, t timestamp_ntz"


# -- folders -------------------------------------------------------------------------------------------------


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.tar.xz"


def pack(folder: Path, path: Path) -> None:
    """A folder as a file: the same files give the same bytes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:xz", preset=9, format=tarfile.USTAR_FORMAT) as archive:
        for file in sorted(file for file in folder.rglob("*") if file.is_file() and file.name != "lock"):
            entry = tarfile.TarInfo(str(file.relative_to(folder)))
            entry.size, entry.mtime = file.stat().st_size, CHANGED
            with open(file, "rb") as content:
                archive.addfile(entry, content)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(out.getvalue())


def unpack(name: str, folder: Path) -> Any:
    """The folder as it was in the middle, and what is to be known of it."""
    with tarfile.open(path_of(name)) as archive:
        archive.extractall(folder, filter="data")
    return json.loads((folder / "about.json").read_text())


def bring_the_rest(folder: Path) -> None:
    """The rest of the input comes."""
    for file in sorted(file for file in (folder / "later").rglob("*") if file.is_file()):
        target = folder / file.relative_to(folder / "later")
        shutil.move(file, target)
        os.utime(target, (CHANGED, CHANGED))


def moved(folder: Path, before: str) -> None:
    """Spark's own log of files names them from the root: the folder is another now."""
    for file in (folder / "checkpoint").rglob("*"):
        if file.name.startswith(".") and file.suffix == ".crc":
            file.unlink()
        elif file.is_file() and before.encode() in (data := file.read_bytes()):
            file.write_bytes(data.replace(before.encode(), str(folder).encode()))


# -- pipelines -----------------------------------------------------------------------------------------------


def go_on(folder: Path, spark: SparkSession) -> None:
    run_pipeline(folder / "pipeline.toml", available_now=True, spark=spark)


def output(folder: Path) -> Any:
    """All that a pipeline has put out, file by file."""
    found: dict[str, Any] = {}
    for kind in ("changes", "top", "rejects"):
        for file in sorted((folder / "out" / kind).glob("*.parquet")):
            table = pq.read_table(file)
            if kind == "changes":
                rows = rows_of(table.select(COLUMNS))
            else:  # the detail of a reject is a sentence, which may change
                rows = table.drop_columns(["detail"] if kind == "rejects" else []).to_pylist()
            found[f"{kind}/{file.name}"] = rows
    return plain(found)


# -- streaming DataFrames ------------------------------------------------------------------------------------


def changes_of(folder: Path, spark: SparkSession, shards: int) -> Any:
    """Run the streaming query over the files that wait: the changes of each micro-batch."""
    found: dict[str, Any] = {}

    def take(changes: DataFrame, batch: int) -> None:
        found[str(batch)] = sorted(([*row] for row in changes.collect()), key=repr)

    df = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "one"))
    query = (
        skyband.spark.watch(df.repartition(2), ASKED, time="t", shards=shards)
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert query.exception() is None
    return plain(found)


def names() -> Iterator[str]:
    yield from (f"pipeline-{placement}" for placement in PLACEMENTS)
    yield from (f"watch-{shards}" for shards in SHARDS)
