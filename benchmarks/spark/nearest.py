"""A thousand nearest-neighbour queries over large batches, whose rows tasks look up in cells (cell_filter.py).

The yardstick is Spark's own reading of the same two columns into its no-op sink; both run in one session, in turn.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.spark.runs import Plan, into_nothing, stream_of, triggers, write_files
from skyband.spark.pipeline import run_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = 1000
K = 10
_COLUMNS = ("x0", "x1")
_WINDOW = 1_000_000
TASKS = "tasks"
ALONE = "Spark alone"


def nearest_rates(session: SparkSession, home: Path, plan: Plan) -> dict[str, float]:
    """Return rows a second by the pipeline and by Spark alone."""
    data = home / "nearest"
    write_files(data, plan.batches, plan.batch_rows)
    runs: dict[str, Callable[[Path], None]] = {ALONE: lambda folder: _nothing(session, data, folder)}
    text = _text(data, plan.master)
    runs[TASKS] = lambda folder: _run(session, folder, text)
    seconds: dict[str, list[float]] = {way: [] for way in runs}
    for turn in range(plan.rounds):
        for number, (way, run) in enumerate(runs.items()):
            folder = home / f"nearest-{turn}-{number}"
            folder.mkdir()
            seconds[way] += list(triggers(session, lambda run=run, folder=folder: run(folder)))[plan.warm :]  # type: ignore[misc]
    return {way: plan.batch_rows / statistics.median(found) for way, found in seconds.items()}


def _run(session: SparkSession, folder: Path, text: str) -> None:
    (folder / "pipeline.toml").write_text(text)
    run_pipeline(folder / "pipeline.toml", available_now=True, on_batch=lambda info: None, spark=session)


def _nothing(session: SparkSession, data: Path, folder: Path) -> None:
    into_nothing(stream_of(session, data, _COLUMNS), folder / "checkpoint")


def _text(data: Path, master: str) -> str:
    """Return a pipeline that asks for the rows nearest to each point."""
    columns = ", ".join(_COLUMNS)
    asked = ""
    for number, point in enumerate(np.random.default_rng(3).random((QUERIES, len(_COLUMNS)))):
        at = ", ".join(f"{x:.4f}" for x in point)
        sql = f"SELECT x0 FROM s ORDER BY dist({columns}, {at}) LIMIT {K} WINDOW {_WINDOW} ROWS"
        asked += f'[[query]]\nname = "q{number}"\nsql = "{sql}"\n'
    return (
        f'[stream.s]\npath = "{data}"\nmax_files = 1\n{asked}[sink]\nformat = "parquet"\npath = "out"\n'
        f'[spark]\nmaster = "{master}"\nplacement = "driver"\n'
    )
