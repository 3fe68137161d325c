"""Killed at the worst moments, restarted: nothing lost, nothing doubled, every batch equal to the oracle."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.spark.kills import Pipeline
from tests.spark.streams import (
    QUERIES,
    Row,
    Truth,
    as_answers,
    folded,
    make_files,
    pipeline_text,
    rejected,
    write_file,
)

from skyband.spark import verify_pipeline

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def check(folder: Path, files: list[list[Row]]) -> None:
    """Every batch of the output equals the oracle."""
    history = folded(folder / "out", len(files))
    truth = Truth(QUERIES)
    for batch, rows in enumerate(files):
        truth.push(list(rows))
        assert history[batch] == as_answers(truth.tops()), f"batch {batch}"
        assert rejected(folder / "out", batch) == truth.take_rejects()
    for kind in ("changes", "rejects", "top"):
        assert not [p for p in (folder / "out" / kind).iterdir() if p.name.startswith(".")]
    report = verify_pipeline(folder / "pipeline.toml")
    assert report.ok, str(report)


def prepare(folder: Path, count: int, seed: int) -> list[list[Row]]:
    files = make_files(count, seed)
    for number, rows in enumerate(files):
        write_file(folder / "data" / f"{number:03}.parquet", rows)
    (folder / "pipeline.toml").write_text(pipeline_text(QUERIES, spark="prune_rows = 60\n"))
    return files


def start_and(pipeline: Pipeline, kill: Callable[[], bool]) -> bool:
    """Start, and kill at a moment; on a busy machine that may come a little late, and is tried again."""
    pipeline.start()
    return kill()


def test_three_kills_and_an_interrupt(tmp_path: Path) -> None:
    files = prepare(tmp_path, 16, seed=77)
    pipeline = Pipeline(tmp_path)

    pipeline.start()
    pipeline.kill_some_time(random.Random(1), span=0.5)
    assert pipeline.kills_left_work(len(files))

    assert any(start_and(pipeline, pipeline.kill_after_output) for _ in range(3)), (
        "too late: it was committed"
    )
    assert "continuing at batch" in pipeline.said
    assert any(start_and(pipeline, pipeline.kill_after_step) for _ in range(3)), "too late: it was put out"
    assert pipeline.kills_left_work(len(files))

    # Then it runs without end, until Ctrl-C: a clean exit, and a word on how to go on.
    pipeline.start(available_now=False)
    assert pipeline.wait(lambda: pipeline.has_output(len(files) - 1))
    pipeline.interrupt()
    code, said = pipeline.finish()
    assert code == 0, said
    assert "the next start continues from there" in said
    assert "Traceback" not in said
    check(tmp_path, files)


@pytest.mark.soak
@pytest.mark.timeout(3600)  # thirteen starts of Spark, perhaps on a busy machine
@pytest.mark.parametrize("seed", range(4))
def test_kills_by_the_dozen(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    files = prepare(tmp_path, 60, seed=1000 + seed)
    pipeline = Pipeline(tmp_path)
    for _ in range(12):
        pipeline.start()
        chance.choice(
            [lambda: pipeline.kill_some_time(chance), pipeline.kill_after_output, pipeline.kill_after_step]
        )()
    pipeline.start()
    code, said = pipeline.finish()
    assert code == 0, said
    check(tmp_path, files)
    shutil.rmtree(tmp_path)
