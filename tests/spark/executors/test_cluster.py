"""The executors placement killed: the whole driver, and one executor of a real cluster in the middle of a batch."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

import pytest
from tests import ledger
from tests.spark.cluster import Cluster
from tests.spark.kills import Pipeline
from tests.spark.streams import QUERIES, Row, make_files, pipeline_text, write_file
from tests.spark.test_kills import check

from skyband.core.errors import InputError
from skyband.spark.config import SparkSpec
from skyband.spark.jvm.paths import check_seen
from skyband.spark.session.start import start_session

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
SMALL = 'executor.memory = "600m"\nexecutor.extraJavaOptions = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"\n'


def prepare(folder: Path, count: int, seed: int, spark: str, shards: int = 2) -> list[list[Row]]:
    files = make_files(count, seed)
    for number, rows in enumerate(files):
        write_file(folder / "data" / f"{number:03}.parquet", rows)
    set_shards(folder, spark, shards)
    return files


def set_shards(folder: Path, spark: str, shards: int) -> None:
    more = f'placement = "executors"\nshards = {shards}\nprune_rows = 60\n{spark}'
    (folder / "pipeline.toml").write_text(pipeline_text(QUERIES, spark=more))


@pytest.mark.soak  # six processes of Java
def test_an_executor_dies_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster") as cluster:
        files = prepare(tmp_path, 6, 31, SMALL)
        text = (tmp_path / "pipeline.toml").read_text().replace('"local[2]"', f'"{cluster.url}"')
        (tmp_path / "pipeline.toml").write_text(text)
        pipeline = Pipeline(tmp_path)
        pipeline.start()
        assert pipeline.wait(lambda: pipeline.has_output(1), pause=0.01), pipeline.finish()
        before = cluster.executors()
        assert len(before) == 2
        assert pipeline.wait(lambda: pipeline.has_plan(2))
        killed = cluster.kill_executor()
        ledger.count()
        assert not pipeline.has_output(2), "too late: the batch was put out"
        code, said = pipeline.finish()
        assert code == 0, said
        assert killed not in cluster.executors()
    check(tmp_path, files)


@pytest.mark.soak
def test_the_driver_dies_and_the_shards_are_others(tmp_path: Path) -> None:
    files = prepare(tmp_path, 8, 41, "")
    pipeline = Pipeline(tmp_path)
    pipeline.start()
    assert pipeline.wait(lambda: pipeline.has_output(2))
    pipeline.kill()
    assert pipeline.kills_left_work(len(files))
    set_shards(tmp_path, "", 3)
    pipeline.start()
    code, said = pipeline.finish()
    assert code == 0, said
    assert "is dealt out to 3" in said
    check(tmp_path, files)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(2))
def test_kills_at_random_moments(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    print(f"seed {seed}")
    files = prepare(tmp_path, 40, 2000 + seed, "")
    pipeline = Pipeline(tmp_path)
    for _ in range(8):
        set_shards(tmp_path, "", chance.choice([1, 2, 3]))
        pipeline.start()
        batch = pipeline.next_batch()
        pipeline.wait(lambda batch=batch: pipeline.has_output(batch))  # type: ignore[misc]
        time.sleep(chance.random() * 3)
        pipeline.kill()
    pipeline.start()
    code, said = pipeline.finish()
    assert code == 0, said
    check(tmp_path, files)
    shutil.rmtree(tmp_path)


@pytest.mark.soak
def test_a_folder_that_executors_do_not_see(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", workers=1) as cluster:
        session = start_session(SparkSpec(tmp_path, cluster.url), tmp_path / "spark.log")
        try:
            check_seen(session, [tmp_path])
            with pytest.raises(
                InputError, match=f"^The machine .* does not see {tmp_path}/away: on a cluster"
            ):
                check_seen(session, [tmp_path, tmp_path / "away"])
        finally:
            session.stop()
