"""The engine after any number of restarts is the engine that never stopped. No Spark is needed for that."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from tests.spark.streams import (
    OTHER,
    QUERIES,
    SCHEMA,
    Row,
    Truth,
    make_files,
    moment,
    pipeline_text,
    shown_tops,
)

from skyband.core.errors import InputError
from skyband.spark.config import load_pipeline
from skyband.spark.driver.checkpoint import Checkpoint, Step
from skyband.spark.driver.engine import Engine


def arrow(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([{**row, "ts": moment(row["ts"])} for row in rows], schema=SCHEMA)


def sift(engine: Engine, batch: int, rows: list[Row], chance: random.Random) -> Step:
    """A step as the tasks make it: cut into parts, each sifted alone, in a process of its own."""
    sifter = pickle.loads(pickle.dumps(replace(engine.sifters()["s"], door=engine.doors()["s"])))
    cuts = sorted(chance.randrange(len(rows) + 1) for _ in range(chance.randrange(3)))
    edges = [0, *cuts, len(rows)]
    prune = chance.random() < 0.5
    parts = [sifter.sift(arrow(rows[a:b]), prune) for a, b in pairwise(edges) if a < b or not cuts]
    return Step(batch, tuple(("s", part.to_bytes()) for part in parts), len(rows), sum(p.kept for p in parts))


@pytest.mark.parametrize("seed", range(6))
def test_restarts_change_nothing(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyband.spark.driver.engine._SNAPSHOT_BATCHES", 3)
    chance = random.Random(seed)
    first = {name: sql for name, sql in QUERIES.items() if name != "many"}
    (tmp_path / "pipeline.toml").write_text(pipeline_text(first))
    pipeline = load_pipeline(tmp_path / "pipeline.toml")
    checkpoint = Checkpoint(tmp_path / "checkpoint")
    checkpoint.set_queries(0, pipeline.queries)
    truth = Truth(first)
    engine = Engine(pipeline, {"s": SCHEMA}, checkpoint)
    for batch, rows in enumerate(make_files(14, seed + 500)):
        if batch == 7:  # other queries from here on
            second = {"ties": QUERIES["ties"], "rows": OTHER, "many": QUERIES["many"]}
            (tmp_path / "pipeline.toml").write_text(pipeline_text(second))
            pipeline = load_pipeline(tmp_path / "pipeline.toml")
            checkpoint.set_queries(batch, pipeline.queries)
            engine = Engine(pipeline, {"s": SCHEMA}, checkpoint)
            truth.change_queries(second)
        engine.reach(batch)
        step = sift(engine, batch, rows, chance)
        checkpoint.write_step(step, {"s": batch + 1})
        if chance.random() < 0.4:  # killed before the output
            engine = Engine(pipeline, {"s": SCHEMA}, checkpoint)
            engine.reach(batch)
        output = engine.take(step)
        engine.save_if_due()
        if chance.random() < 0.4:  # killed after the output: the batch is done again, and looks the same
            engine = Engine(pipeline, {"s": SCHEMA}, checkpoint)
            engine.reach(batch)
            again = engine.take(step)
            assert again.changes.equals(output.changes)
            assert again.rejects.equals(output.rejects)
            assert again.tops.equals(output.tops)
        truth.push(list(rows))
        assert shown_tops(engine.tops) == truth.tops()
        assert list(zip(*(output.rejects.column(c).to_pylist() for c in ("seq", "reason")), strict=True)) == (
            truth.take_rejects()
        )


def test_a_batch_twice_and_out_of_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever order batches are asked for in, a batch's output is its own; one that would leave a gap is refused."""
    monkeypatch.setattr("skyband.spark.driver.engine._SNAPSHOT_BATCHES", 3)
    chance = random.Random(3)
    (tmp_path / "pipeline.toml").write_text(pipeline_text(QUERIES))
    pipeline = load_pipeline(tmp_path / "pipeline.toml")
    checkpoint = Checkpoint(tmp_path / "checkpoint")
    checkpoint.set_queries(0, pipeline.queries)
    engine = Engine(pipeline, {"s": SCHEMA}, checkpoint)
    outputs = []
    for batch, rows in enumerate(make_files(8, 900)):
        engine.reach(batch)
        step = sift(engine, batch, rows, chance)
        checkpoint.write_step(step, {"s": batch + 1})
        outputs.append(engine.take(step))
        engine.save_if_due()
    for batch in (7, 7, 6, 7, 4, 5, 7):
        engine.reach(batch)
        step = checkpoint.step(batch)  # type: ignore[assignment]
        again = engine.take(step)
        assert again.changes.equals(outputs[batch].changes)
        assert again.rejects.equals(outputs[batch].rejects)
        assert again.tops.equals(outputs[batch].tops)
    with pytest.raises(InputError, match="has no usable state before batch 9"):
        engine.reach(9)


def test_a_state_that_cannot_be_had_again(tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text(pipeline_text(QUERIES))
    pipeline = load_pipeline(tmp_path / "pipeline.toml")
    with pytest.raises(InputError, match="has no usable state before batch 3"):
        Engine(pipeline, {"s": SCHEMA}, Checkpoint(tmp_path / "checkpoint")).reach(3)
