"""watch(df, rejects=folder): every rejected row is in a file of its micro-batch, once, whatever was done again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from tests.spark.dataframe.test_watch import SPARK_SCHEMA, in_watch_order
from tests.spark.streams import OTHER, QUERIES, Row, Truth, make_files, rejected, write_file

from skyband.core.errors import InputError
from skyband.spark import watch
from skyband.stream.rejects import KEPT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ASKED = {name: QUERIES[name] for name in ("seconds", "above", "ties")}
pytestmark = pytest.mark.spark


def rows_of(spark: SparkSession, folder: Path) -> DataFrame:
    files = spark.readStream.schema(SPARK_SCHEMA).option("maxFilesPerTrigger", 1)
    return files.parquet(str(folder / "data"))


def run(
    changes: DataFrame, checkpoint: Path, then: Callable[[int], None] = lambda batch: None
) -> Exception | None:
    """Run all micro-batches that are due. `then` is called when one is done, before Spark commits it."""

    def each(frame: DataFrame, batch: int) -> None:
        frame.collect()
        then(batch)

    writer = changes.writeStream.foreachBatch(each).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    except Exception as problem:
        return problem
    return None


class Fuse:
    """Fails once, at a micro-batch."""

    def __init__(self, batch: int) -> None:
        self.batch: int | None = batch

    def __call__(self, batch: int) -> None:
        if batch == self.batch:
            self.batch = None
            raise RuntimeError("the power went")


def test_all_of_them_once(tmp_path: Path, spark: SparkSession) -> None:
    files = make_files(5, seed=70)
    # More than a monitor keeps, all in one micro-batch.
    files[2] += [{**files[2][0], "ts": None, "n": number} for number in range(KEPT + 500)]
    truth, expected = Truth(ASKED), []
    for rows in files:
        truth.push(in_watch_order(rows))
        expected.append(truth.take_rejects())
    assert [bool(rejects) for rejects in expected] == [False, True, True, True, True]
    assert {reason for rejects in expected for _, reason in rejects} == {"time", "late"}
    for number, rows in enumerate(files[:4]):
        write_file(tmp_path / "data" / f"{number}.parquet", rows)
        os.utime(tmp_path / "data" / f"{number}.parquet", (1_700_000_000 + number,) * 2)
    out = tmp_path / "out"

    def changes() -> DataFrame:
        return watch(rows_of(spark, tmp_path), ASKED, time="ts", rejects=out / "rejects")

    # The task of batch 3 has done its work when the power goes: its file is there, its state isn't committed.
    assert "the power went" in str(run(changes(), tmp_path / "checkpoint", Fuse(3)))
    file = out / "rejects" / "batch-3.parquet"
    before, attempt = file.stat().st_ino, pq.read_table(file)
    torn = out / "rejects" / ".batch-3.parquet.there.99.tmp"
    torn.touch()  # as a killed task leaves it
    assert run(changes(), tmp_path / "checkpoint") is None
    assert file.stat().st_ino != before  # written anew
    assert pq.read_table(file).equals(attempt)
    assert torn.exists()  # it might be of another attempt that is under way
    write_file(tmp_path / "data" / "4.parquet", files[4])
    assert run(changes(), tmp_path / "checkpoint") is None

    assert [rejected(out, batch) for batch in range(5)] == expected
    assert sorted(p.name for p in (out / "rejects").iterdir()) == [f"batch-{b}.parquet" for b in range(1, 5)]
    table = pq.read_table(out / "rejects")
    assert table.column_names == ["batch", "seq", "stream", "reason", "detail", "raw"]
    assert table.num_rows == len(set(table.column("seq").to_pylist())) == sum(map(len, expected))
    told = [row for row in table.to_pylist() if row["batch"] == 2 and row["reason"] == "time"]
    assert len(told) > KEPT and all(
        '"ts": null' in row["raw"] for row in told
    )  # the first ones have texts, too
    assert spark.read.parquet(str(out / "rejects")).count() == table.num_rows


@pytest.mark.soak
def test_another_attempt_with_other_queries(tmp_path: Path, spark: SparkSession) -> None:
    def late(seconds: float) -> Row:
        return {"ts": 1_700_000_000.0 + seconds, "x": 0.5, "y": 0.5, "n": 1, "g": "a"}

    write_file(tmp_path / "data" / "0.parquet", [late(0)])
    write_file(tmp_path / "data" / "1.parquet", [late(-30)])
    os.utime(tmp_path / "data" / "0.parquet", (1_700_000_000,) * 2)
    folder, checkpoint = tmp_path / "rejects", tmp_path / "checkpoint"

    def start(sql: str, **more: Any) -> Exception | None:
        return run(watch(rows_of(spark, tmp_path), [sql], time="ts", rejects=folder), checkpoint, **more)

    assert "the power went" in str(start(OTHER, then=Fuse(1)))  # 20 seconds
    assert [p.name for p in folder.iterdir()] == ["batch-1.parquet"]
    assert start(OTHER.replace("20 SECONDS", "40 SECONDS")) is None
    # Now the row isn't late, and the reject of the attempt that nobody saw the changes of is gone.
    assert [p.name for p in folder.iterdir()] == []


@pytest.mark.soak
def test_folders_of_others_are_refused(tmp_path: Path, spark: SparkSession) -> None:
    write_file(tmp_path / "data" / "0.parquet", [{**make_files(1, seed=1)[0][0], "ts": None}])
    folder = tmp_path / "rejects"

    def changes() -> DataFrame:
        return watch(rows_of(spark, tmp_path), [OTHER], time="ts", rejects=folder)

    assert run(changes(), tmp_path / "checkpoint") is None
    problem = run(changes(), tmp_path / "checkpoint2")
    assert "is of another streaming query, or of another checkpoint: remove the folder" in str(problem)
    # Nor is a file overwritten that no query of ours wrote.
    (folder / "batch-0.parquet").write_text("mine")
    assert "is of another streaming query" in str(run(changes(), tmp_path / "checkpoint3"))
    assert (folder / "batch-0.parquet").read_text() == "mine"


def test_mistakes_are_found_where_they_are_made(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "file").touch()
    df = rows_of(spark, tmp_path)
    with pytest.raises(InputError, match="file for rejects= cannot be made: File exists"):
        watch(df, [OTHER], time="ts", rejects=tmp_path / "file")
    with pytest.raises(InputError, match=r"s3://bucket/rejects can't be reached \(.*\): name the connector"):
        watch(df, [OTHER], time="ts", rejects="s3://bucket/rejects")
    table = spark.createDataFrame([], SPARK_SCHEMA)
    with pytest.raises(InputError, match="rejects= needs a streaming DataFrame"):
        watch(table, [OTHER], time="ts", rejects=tmp_path / "rejects")


def test_a_full_disk_has_a_sentence(tmp_path: Path, spark: SparkSession) -> None:
    write_file(tmp_path / "data" / "0.parquet", [{**make_files(1, seed=1)[0][0], "ts": None}])
    changes = watch(rows_of(spark, tmp_path), [OTHER], time="ts", rejects=tmp_path / "rejects")
    (tmp_path / "rejects").rmdir()
    (tmp_path / "rejects").touch()
    problem = run(changes, tmp_path / "checkpoint")
    assert "The rejects of micro-batch 0 cannot be written to" in str(problem)
    (tmp_path / "rejects").unlink()
    assert run(changes, tmp_path / "checkpoint") is None
    assert rejected(tmp_path, 0) == [(0, "time")]
