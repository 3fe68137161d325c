"""Where the state will be, and why: said before anything runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.spark.standalone import Used, processor_times, seconds_between
from skyband.core.errors import SkybandError
from skyband.spark.config import load_pipeline
from skyband.spark.driver.checkpoint import Checkpoint
from skyband.spark.driver.placement import choose_placement, explain_pipeline
from skyband.spark.executors.shards import (
    ROWS,
    Layout,
    bound_queries,
    plan_layout,
)

FASTEST = "SELECT car FROM cars ORDER BY speed DESC LIMIT 2 WINDOW 60 SECONDS"
SUMS = "SELECT car, SUM(speed) FROM cars GROUP BY car ORDER BY SUM(speed) DESC LIMIT 2 WINDOW 60 SECONDS"


def write(folder: Path, queries: list[str], spark: str, stream: str = "") -> Path:
    asked = "".join(f'[[query]]\nname = "q{i}"\nsql = "{sql}"\n' for i, sql in enumerate(queries))
    path = folder / "pipeline.toml"
    path.write_text(f'[stream.cars]\npath = "data"\ntime = "ts"\n{stream}{asked}[spark]\n{spark}')
    return path


def test_auto_takes_the_driver_for_what_fits_it(tmp_path: Path) -> None:
    far = 'master = "spark://there:7077"\n'
    few = load_pipeline(write(tmp_path, [FASTEST, SUMS], far))
    assert choose_placement(few, None, 0) == (
        "driver",
        "2 queries will keep about 40 MB, which one process carries",
    )
    here = load_pipeline(write(tmp_path, [SUMS], 'master = "local[2]"\n'))
    chosen, why = choose_placement(here, None, 0)
    assert chosen == "driver" and why.endswith("the executors would be on this machine too")
    wide = "SELECT car, SUM(speed) FROM cars GROUP BY car ORDER BY SUM(speed) LIMIT 2 WINDOW 99000000 ROWS"
    large = load_pipeline(write(tmp_path, [wide], far))
    assert choose_placement(large, None, 0)[0] == "executors"
    asked = load_pipeline(write(tmp_path, [FASTEST], 'placement = "executors"\n'))
    assert choose_placement(asked, None, 0) == ("executors", "asked for in [spark]")


def test_a_checkpoint_stays_where_it_began(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "checkpoint")
    checkpoint.own.mkdir(parents=True)
    (checkpoint.own / "shards.json").write_text("[]")
    pipeline = load_pipeline(write(tmp_path, [FASTEST], ""))
    assert choose_placement(pipeline, checkpoint, 3) == ("executors", "as the checkpoint was begun")
    other = load_pipeline(write(tmp_path, [FASTEST], 'placement = "driver"\n'))
    with pytest.raises(SkybandError, match="was begun with the state in the executors"):
        choose_placement(other, checkpoint, 3)


def test_explain_says_it_with_the_plans(tmp_path: Path) -> None:
    told = explain_pipeline(write(tmp_path, [FASTEST, SUMS], ""))
    assert told.startswith("placement driver: 2 queries will keep about")
    assert "q0: top 2, window 1 MINUTE" in told and "q1: top 2, window 1 MINUTE" in told
    unfit = f"{FASTEST} WITH (algorithm = 'smaa')"
    with pytest.raises(
        SkybandError, match=r"pipeline\.toml: query 'q1': There is no algorithm 'smaa'; did you mean"
    ):
        explain_pipeline(write(tmp_path, [FASTEST, unfit], ""))
    assert explain_pipeline(write(tmp_path, [FASTEST], "")).startswith(
        "placement driver: 1 query will keep about"
    )


def test_units_by_queries_and_cores(tmp_path: Path) -> None:
    pipeline = load_pipeline(write(tmp_path, [FASTEST, SUMS], ""))
    asked = bound_queries(pipeline.queries, pipeline)
    first = plan_layout(pipeline, asked, 4, None)
    assert first.partitions == 4
    assert sorted(of for of, _ in first.kinds.values()) == [1, 4]
    # The same again; with a number that is asked for, the single rows' units are others, the objects' stay.
    assert plan_layout(pipeline, asked, 8, first) == first
    more = load_pipeline(write(tmp_path, [FASTEST, SUMS], "shards = 3\n"))
    second = plan_layout(more, asked, 4, first)
    assert second.kinds[ROWS] == (3, 1)
    assert {**second.kinds, ROWS: (1, 0)} == first.kinds
    updates = load_pipeline(write(tmp_path, [FASTEST, SUMS], "", stream='key = "car"\n'))
    assert plan_layout(updates, asked, 4, None) == Layout(1, {"updates": (1, 0)})


def test_processor_time_of_processes_that_end() -> None:
    """What ended between two looks takes nothing away from the others, and isn't counted twice."""
    before = {1: Used(5.0, 1.0, 0), 2: Used(3.0, 0.0, 1), 3: Used(2.0, 0.0, 2)}
    assert seconds_between(before, before) == 0.0
    # 3 had nothing to do and was ended by 2, which doesn't wait for it; 1 worked and waited for 4, which came and went
    after = {1: Used(6.0, 1.5, 0), 2: Used(3.25, 0.0, 1)}
    assert seconds_between(before, after) == 1.75
    # 2 and what it had waited for ended, too, and 1 has waited for it: of that a quarter of a second is new
    assert seconds_between(before, {1: Used(6.0, 4.25, 0)}) == 1.25
    assert processor_times(os.getpid())[os.getpid()].own > 0
