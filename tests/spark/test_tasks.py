"""Spark reads: what Spark's own UI and event log say of a default run."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.spark.kills import Pipeline
from tests.spark.streams import QUERIES, make_files, write_file

from skyband.spark.driver.checkpoint import Checkpoint

pytestmark = pytest.mark.spark


def events(folder: Path) -> list[dict[str, Any]]:
    files = sorted(path for path in folder.rglob("events_*") if path.is_file())
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def ask(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)


def test_tasks_read_the_rows_of_a_default_run(tmp_path: Path) -> None:
    """Files, `skyband run`, and nothing in [spark] but where the log goes: the UI is on, and shows the jobs."""
    files = make_files(3, seed=6, rows=(3000, 4000))
    for number, rows in enumerate(files):
        write_file(tmp_path / "data" / f"{number}.parquet", rows)
    log = tmp_path / "events"
    log.mkdir()
    asked = "".join(f'[[query]]\nname = "{name}"\nsql = "{sql}"\n' for name, sql in QUERIES.items())
    (tmp_path / "pipeline.toml").write_text(
        f'[stream.s]\npath = "data"\ntime = "ts"\nmax_files = 1\n{asked}[sink]\npath = "out"\n'
        f'[spark]\neventLog.enabled = true\neventLog.compress = false\neventLog.dir = "{log.as_uri()}"\n'
    )
    pipeline = Pipeline(tmp_path)
    pipeline.start(available_now=False)
    assert pipeline.process is not None and pipeline.process.stderr is not None
    driver, said = pipeline.process.pid, ""
    while (shown := re.search(r"^skyband: Spark's UI: (http://127\.0\.0\.1:\d+)$", said, re.M)) is None:
        line = pipeline.process.stderr.readline()
        assert line, said
        said += line
    assert pipeline.wait(lambda: pipeline.has_commit(len(files) - 1), pause=0.05)
    (app,) = ask(f"{shown[1]}/api/v1/applications")
    stages = ask(f"{shown[1]}/api/v1/applications/{app['id']}/stages")
    assert sum(stage["inputRecords"] for stage in stages) >= len(files)
    pipeline.interrupt()
    code, rest = pipeline.finish()
    assert code == 0, said + rest

    tasks = [event for event in events(log) if event["Event"] == "SparkListenerTaskEnd"]
    read = [task["Task Metrics"]["Input Metrics"]["Records Read"] for task in tasks]
    assert len(tasks) >= len(files) and sum(read) >= len(files)  # a task reads lines, each of many rows
    progress = [event["progress"] for event in events(log) if event["Event"].endswith("QueryProgressEvent")]
    rows = {one["batchId"]: one["observedMetrics"]["skyband"]["values"][1] for one in progress}
    assert rows == {batch: len(file) for batch, file in enumerate(files)}
    for batch in range(len(files)):
        step = Checkpoint(tmp_path / "checkpoint").step(batch)
        assert step is not None and step.tasks
        assert all(process != driver for _, process in step.tasks)
