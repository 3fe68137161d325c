"""Bytes that are no text in Parquet files are rejected, row by row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.streams import make_files, pipeline_text, write_file

from skyband.spark import run_pipeline, verify_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
def test_rows_with_bytes_that_are_no_text(tmp_path: Path, spark: SparkSession, timed: bool) -> None:
    window = "900 SECONDS" if timed else "900 ROWS"
    queries = {name: text.format(window) for name, text in QUERIES.items()}
    for number, some in enumerate(make_files(3, 8, rows=(300, 500))):
        write_file(tmp_path / "data" / f"{number}.parquet", some)
    broken(tmp_path / "data" / "1.parquet", 40)
    text = pipeline_text(queries)
    (tmp_path / "pipeline.toml").write_text(text if timed else text.replace('time = "ts"\n', ""))
    run_pipeline(tmp_path / "pipeline.toml", available_now=True, on_batch=lambda _: None, spark=spark)
    rejects = pq.read_table(tmp_path / "out" / "rejects").to_pylist()
    told = [reject for reject in rejects if reject["detail"] == 'column "g": not UTF-8']
    assert len(told) > 6 and all("\ufffd" in reject["raw"] and '"x"' in reject["raw"] for reject in told)
    assert {reject["batch"] for reject in told} == {1}
    assert verify_pipeline(tmp_path / "pipeline.toml").ok
