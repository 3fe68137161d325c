"""Bytes that are no text in Parquet files: rejected by tasks and behind the JVM's gate alike."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.streams import make_files, pipeline_text, write_file
from tests.spark.test_admission import outputs, run, small

from skyband.spark import verify_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

assert small  # a fixture

QUERIES = {
    "best": "SELECT x FROM s ORDER BY x * y DESC LIMIT 5 WINDOW {}",
    "least": "SELECT n FROM s WHERE y > 0.25 ORDER BY x LIMIT 3 WINDOW {}",
}


def broken(path: Path, every: int) -> None:
    """Each so many rows with a name that is no text."""
    table = pq.read_table(path)
    names = [(name or "").encode() for name in table["g"].to_pylist()]
    names[every // 2 :: every] = [b"\xff" + name for name in names[every // 2 :: every]]
    place = table.schema.get_field_index("g")
    pq.write_table(table.set_column(place, "g", pa.array(names, pa.binary()).view(pa.string())), path)


@pytest.mark.spark
@pytest.mark.parametrize("timed", [False, True])
def test_rows_with_bytes_that_are_no_text(
    tmp_path: Path, spark: SparkSession, small: None, timed: bool
) -> None:
    window = "900 SECONDS" if timed else "900 ROWS"
    queries = {name: text.format(window) for name, text in QUERIES.items()}
    for way, rows in (("jvm", 0), ("tasks", 10**9)):
        for number, some in enumerate(make_files(3, 8, rows=(300, 500))):
            path = tmp_path / way / "data" / f"{number}.parquet"
            write_file(path, some)
            if number == 1:
                broken(path, 40)
        text = pipeline_text(queries, spark=f"jvm_rows = {rows}\n")
        (tmp_path / way / "pipeline.toml").write_text(text if timed else text.replace('time = "ts"\n', ""))
    infos = {way: run(tmp_path / way, spark) for way in ("jvm", "tasks")}
    assert not any(info.in_jvm for info in infos["tasks"])
    assert infos["jvm"][0].in_jvm and bool(infos["jvm"][1].in_jvm) == timed
    assert outputs(tmp_path / "jvm") == outputs(tmp_path / "tasks")
    rejects = pq.read_table(tmp_path / "jvm" / "out" / "rejects").to_pylist()
    told = [reject for reject in rejects if reject["detail"] == 'column "g": not UTF-8']
    assert len(told) > 6 and all("\ufffd" in reject["raw"] and '"x"' in reject["raw"] for reject in told)
    assert verify_pipeline(tmp_path / "jvm" / "pipeline.toml").ok
