"""A Declarative Pipeline with `watch` in a flow: the example of docs/spark.md."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest
from tests.project.blocks import blocks
from tests.spark.environments import CONNECT, environment, surroundings

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(900)]
PAGE = Path(__file__).resolve().parents[3] / "docs" / "spark.md"


def test_the_example_of_the_page(tmp_path: Path) -> None:
    found = {block.language: block.text for block in blocks(PAGE) if "transformations" in block.text}
    (tmp_path / "spark-pipeline.yml").write_text(
        found["yaml"].replace("/tmp/tops", str(tmp_path / "storage"))
    )
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "tops.py").write_text(found["py"].replace('"data"', f'"{tmp_path}/data"'))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "1.csv").write_text("ts,car,speed,load\n1,ann,88,0.4\n2,ben,121,0.1\n3,cat,97,0.9\n")
    home, python = Path(pyspark.__file__).parent, environment(*CONNECT)
    done = subprocess.run(
        [str(home / "bin" / "spark-pipelines"), "run", "--spec", "spark-pipeline.yml"],
        cwd=tmp_path,
        env={**surroundings(python), "SPARK_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    files = (tmp_path / "spark-warehouse" / "changes").glob("*.parquet")
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    assert sorted((row["change"], row["rank"], row["score"]) for row in rows) == [
        ("enter", 1, 121.0),
        ("enter", 2, 97.0),
    ]
