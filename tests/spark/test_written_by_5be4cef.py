"""Pipelines and streaming queries that commit 5be4cef began go on to the same end (see tests/compatibility)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.compatibility import pipelines
from tests.compatibility.recording import differences

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("placement", pipelines.PLACEMENTS)
def test_a_pipeline_continues(placement: str, tmp_path: Path, spark: SparkSession) -> None:
    """Also one that was killed after its last output, before Spark had written down that the batch was done."""
    about = pipelines.unpack(f"pipeline-{placement}", tmp_path)
    if placement != "executors":
        (tmp_path / "checkpoint" / "commits" / f"{pipelines.FIRST - 1}").unlink()
    pipelines.bring_the_rest(tmp_path)
    pipelines.go_on(tmp_path, spark)
    for difference in differences(about["expected"], pipelines.output(tmp_path), placement):
        raise AssertionError(difference)


@pytest.mark.parametrize("shards", pipelines.SHARDS)
def test_a_streaming_query_continues(shards: int, tmp_path: Path, spark: SparkSession) -> None:
    about = pipelines.unpack(f"watch-{shards}", tmp_path)
    pipelines.bring_the_rest(tmp_path)
    pipelines.moved(tmp_path, about["folder"])
    found = pipelines.changes_of(tmp_path, spark, shards)
    for difference in differences(about["expected"], found, f"{shards} shards, batch"):
        raise AssertionError(difference)
