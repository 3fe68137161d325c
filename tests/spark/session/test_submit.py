"""spark-submit on a standalone cluster whose machines have no skyband: the commands of docs/spark-cluster.md."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pyspark
import pytest
from tests.project.blocks import blocks
from tests.spark.cluster import Cluster
from tests.spark.environments import environment, packed, surroundings
from tests.spark.streams import QUERIES, make_files, pipeline_text, write_file
from tests.spark.test_kills import check

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(1800)]
PAGE = Path(__file__).resolve().parents[3] / "docs" / "spark-cluster.md"
SMALL = ["executor.memory=600m", "executor.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"]


@pytest.mark.parametrize("placement", ["driver", "executors"])
def test_a_pipeline_by_spark_submit(tmp_path: Path, placement: str) -> None:
    bare = environment()
    files = make_files(4, seed=93)
    for number, rows in enumerate(files):
        write_file(tmp_path / "data" / f"{number:03}.parquet", rows)
    text = pipeline_text(QUERIES, spark=f'placement = "{placement}"\ntrigger = "available-now"\n')
    (tmp_path / "pipeline.toml").write_text(text)
    script = next(block.text for block in blocks(PAGE) if block.text.startswith("# run.py"))
    (tmp_path / "run.py").write_text(script)
    archive = packed(bare, tmp_path)
    with tarfile.open(archive) as file:
        file.extractall(tmp_path / "environment", filter="data")
    home = Path(pyspark.__file__).parent
    with Cluster(tmp_path / "cluster", python=bare) as cluster:
        command = [str(home / "bin" / "spark-submit"), "--master", cluster.url]
        command += ["--archives", "environment.tar.gz#environment"]
        for setting in (*SMALL, "ui.enabled=false"):
            command += ["--conf", f"spark.{setting}"]
        done = subprocess.run(
            [*command, "run.py", "pipeline.toml"],
            cwd=tmp_path,
            env={
                **surroundings(Path(sys.executable)),
                "SPARK_HOME": str(home),
                "PYSPARK_PYTHON": "./environment/bin/python",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-4000:]
    check(tmp_path, files)
