"""Every kind of query in both placements, equal to the oracle on every batch, through restarts and with Spark."""

from __future__ import annotations

import json
import pickle
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from tests.spark.kinds import (
    OTHERS,
    QUERIES,
    STREAMS,
    Folded,
    Truth,
    arrow,
    make_steps,
    pipeline_text,
    write_step,
)
from tests.spark.streams import SCHEMA, Row, rejected

import skyband as sb
from skyband.core.errors import InputError, QueryError
from skyband.files.rows import Chunk
from skyband.spark import BatchInfo, run_pipeline, verify_pipeline
from skyband.spark.config import load_pipeline
from skyband.spark.driver.checkpoint import Checkpoint, Step
from skyband.spark.driver.engine import Engine, bound
from skyband.spark.verify.brute import Brute

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMAS = dict.fromkeys(STREAMS, SCHEMA)


def sift(engine: Engine, batch: int, step: dict[str, list[Row]], chance: random.Random) -> Step:
    """A step as the tasks make it: streams in order, each cut into parts that are sifted alone."""
    parts: list[tuple[str, bytes]] = []
    kept = 0
    doors = engine.doors()
    sifters = {name: replace(sifter, door=doors[name]) for name, sifter in engine.sifters().items()}
    sifters = pickle.loads(pickle.dumps(sifters))
    for name, rows in step.items():
        cuts = sorted(chance.randrange(len(rows) + 1) for _ in range(chance.randrange(3)))
        for a, b in pairwise([0, *cuts, len(rows)]):
            sifted = sifters[name].sift(arrow(rows[a:b]), prune=True)
            kept += sifted.kept
            parts.append((name, sifted.to_bytes()))
    return Step(batch, tuple(parts), sum(map(len, step.values())), kept)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_restarts_change_nothing(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyband.spark.driver.engine._SNAPSHOT_BATCHES", 3)
    chance = random.Random(seed)
    file = tmp_path / "pipeline.toml"
    file.write_text(pipeline_text(QUERIES))
    pipeline = load_pipeline(file)
    checkpoint = Checkpoint(tmp_path / "checkpoint")
    checkpoint.set_queries(0, pipeline.queries)
    truth, folded = Truth(QUERIES), Folded()
    brute = Brute(SCHEMAS, dict.fromkeys(STREAMS, "ts"), {"up": ("n", "g")})
    for query in pipeline.queries:
        brute.watch(query.name, bound(query, pipeline))
    engine = Engine(pipeline, SCHEMAS, checkpoint)
    for batch, step in enumerate(make_steps(10, seed + 40)):
        if batch == 6:
            file.write_text(pipeline_text(OTHERS))
            pipeline = load_pipeline(file)
            checkpoint.set_queries(batch, pipeline.queries)
            engine = Engine(pipeline, SCHEMAS, checkpoint)
            truth.change(OTHERS)
            for query in load_pipeline(file).queries:
                if QUERIES.get(query.name) != query.sql:
                    brute.drop(query.name)
                    brute.watch(query.name, bound(query, pipeline))
            brute.drop("groups")
            brute.drop("live")
        engine.reach(batch)
        made = sift(engine, batch, step, chance)
        checkpoint.write_step(made, {"one": batch + 1})
        if chance.random() < 0.4:  # killed before the output
            engine = Engine(pipeline, SCHEMAS, checkpoint)
            engine.reach(batch)
        output = engine.take(made)
        engine.save_if_due()
        if chance.random() < 0.3:  # killed after it: the batch is done again, and looks the same
            engine = Engine(pipeline, SCHEMAS, checkpoint)
            engine.reach(batch)
            again = engine.take(made)
            assert again.changes.equals(output.changes) and again.tops.equals(output.tops)
        truth.push(step)
        folded.take(output.changes.to_pylist())
        tops = truth.tops()
        assert folded.equals(tops)
        shown: dict[str, list[tuple[int, float]]] = {name: [] for name in tops}
        for row in output.tops.to_pylist():
            shown[row["query"]].append((row["rank"], row["score"]))
        assert shown == {name: [(at, s) for at, (s, _) in enumerate(top, 1)] for name, top in tops.items()}
        # The brute force of `skyband verify` is a third opinion, and knows the selected columns.
        brute.push([(name, Chunk(arrow(rows))) for name, rows in step.items()])
        for name, top in tops.items():
            ranked = brute.top(name, with_rows=True)
            assert [(one.score, one.who) for one in ranked] == top
            rows = [json.loads(r["row"]) for r in output.tops.to_pylist() if r["query"] == name]
            assert [{**(one.row or {}), "ts": None} for one in ranked] == [
                {**row, "ts": None} for row in rows
            ]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_rows_that_wait_in_every_kind(tmp_path: Path, seed: int) -> None:
    """Objects, pairs, joined and update streams: released rows have lower seqs than rows taken before them."""
    chance = random.Random(seed)
    file = tmp_path / "pipeline.toml"
    file.write_text(pipeline_text(QUERIES).replace('time = "ts"\n', 'time = "ts"\nmax_ahead = "5 seconds"\n'))
    pipeline = load_pipeline(file)
    checkpoint = Checkpoint(tmp_path / "checkpoint")
    checkpoint.set_queries(0, pipeline.queries)
    brute = Brute(
        SCHEMAS, dict.fromkeys(STREAMS, "ts"), {"up": ("n", "g")}, ahead=dict.fromkeys(STREAMS, sb.last(5))
    )
    for query in pipeline.queries:
        brute.watch(query.name, bound(query, pipeline))
    engine = Engine(pipeline, SCHEMAS, checkpoint)
    waited = jumped = 0
    for batch, step in enumerate(make_steps(12, seed + 60, (5, 30))):
        for row in (row for rows in step.values() for row in rows if row["ts"] is not None):
            row["ts"] += 9_000 * (batch >= 8) + chance.choice([0, 0, 0, 0, 6, 9, 30, 800])
        engine.reach(batch)
        made = sift(engine, batch, step, chance)
        checkpoint.write_step(made, {"one": batch + 1})
        if batch % 3 == 2:
            engine = Engine(pipeline, SCHEMAS, checkpoint)
            engine.reach(batch)
        output = engine.take(made)
        brute.push([(name, Chunk(arrow(rows))) for name, rows in step.items()])
        tops = output.tops.to_pylist()
        for query in pipeline.queries:
            ranked = brute.top(query.name, with_rows=True)
            found = [(row["score"], json.loads(row["row"])) for row in tops if row["query"] == query.name]
            assert [score for score, _ in found] == [one.score for one in ranked]
            assert [{**row, "ts": None} for _, row in found] == [
                {**(one.row or {}), "ts": None} for one in ranked
            ]
        rejected = {
            row["seq"]: row["reason"] for row in output.rejects.to_pylist() if row["reason"] != "late"
        }
        assert rejected == {seq: unfit.reason for seq, unfit in brute.unfit.items()}
        engine.monitor._check()
        waited += any(len(stream.waiting) for stream in engine.monitor.streams.values())
        jumped += any(notice.notice == "jumped" for notice in engine.monitor.step_notices)
    assert waited and jumped and "overtaken" in engine.monitor.reject_counts


@pytest.mark.spark
@pytest.mark.parametrize(
    ("placement", "streams"), [("driver", STREAMS), ("executors", STREAMS), ("executors", STREAMS[:2])]
)
def test_every_kind_on_spark(
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    placement: str,
    streams: tuple[str, ...],
) -> None:
    """Where one of the streams is an update stream, one unit has it all; else there are several of each kind."""
    monkeypatch.setattr("skyband.spark.driver.engine._SNAPSHOT_BATCHES", 2)
    steps = [{name: step[name] for name in streams} for step in make_steps(4, 7, (30, 90))]
    asked, others = (
        {name: sql for name, sql in queries.items() if "up" in streams or "FROM up" not in sql}
        for queries in (QUERIES, OTHERS)
    )
    file = tmp_path / "pipeline.toml"
    truth, folded, late = Truth(asked), Folded(), 0
    for start, queries in ((0, asked), (2, others)):
        text = pipeline_text(
            queries, f'prune_rows = 0\nplacement = "{placement}"\nshards = {2 + start // 2}\n'
        )
        if "up" not in streams:
            text = text[: text.index("[stream.up]")] + text[text.index("[[query]]") :]
        file.write_text(text)
        infos: list[BatchInfo] = []
        for number in (start, start + 1):
            write_step(tmp_path, number, steps[number])
        run_pipeline(file, available_now=True, on_batch=infos.append, spark=spark)
        truth.change(queries)
        for batch, info in enumerate(infos, start):
            truth.push(steps[batch])
            changes = pq.read_table(tmp_path / "out" / "changes" / f"batch-{batch}.parquet").to_pylist()
            folded.take(changes)
            assert folded.equals(truth.tops())
            assert info.rows == sum(map(len, steps[batch].values()))
            assert rejected(tmp_path / "out", batch) == truth.rejects
            late += sum(reason == "late" for _, reason in truth.rejects)
            assert info.tasks  # they read every row, in both placements
    assert late > 0
    top = pq.read_table(tmp_path / "out" / "top" / "top.parquet").to_pylist()
    right = [
        (name, rank, score) for name, top in truth.tops().items() for rank, (score, _) in enumerate(top, 1)
    ]
    assert sorted((row["query"], row["rank"], row["score"]) for row in top) == sorted(right)
    report = verify_pipeline(file)
    assert report.ok, str(report)
    assert report.answers == 2 * (len(asked) + len(others))


@pytest.mark.spark
@pytest.mark.parametrize("streams", [STREAMS, STREAMS[:2]])
def test_rows_that_wait_on_spark(
    tmp_path: Path, spark: SparkSession, streams: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """Both placements let the same rows wait, through restarts, and the brute force agrees."""
    chance = random.Random(5)
    steps = [{name: step[name] for name in streams} for step in make_steps(6, 11, (10, 40))]
    for number, step in enumerate(steps):
        for row in (row for rows in step.values() for row in rows if row["ts"] is not None):
            row["ts"] += 9_000 * (number >= 3) + chance.choice([0, 0, 0, 0, 6, 9, 30, 800])
    asked = {name: sql for name, sql in QUERIES.items() if "up" in streams or "FROM up" not in sql}
    changes: dict[str, list[object]] = {}
    for placement in ("driver", "executors"):
        folder = tmp_path / placement
        folder.mkdir()
        text = pipeline_text(asked, f'placement = "{placement}"\nshards = 2\n')
        text = text.replace('time = "ts"\n', 'time = "ts"\nmax_ahead = "5 seconds"\n')
        if "up" not in streams:
            text = text[: text.index("[stream.up]")] + text[text.index("[[query]]") :]
        (folder / "pipeline.toml").write_text(text)
        infos: list[BatchInfo] = []
        for start in (0, 3):
            for number in range(start, start + 3):
                write_step(folder, number, steps[number])
            run_pipeline(folder / "pipeline.toml", available_now=True, on_batch=infos.append, spark=spark)
        assert any(info.waiting[streams[0]] for info in infos)
        report = verify_pipeline(folder / "pipeline.toml")
        assert report.ok, str(report)
        changes[placement] = [
            sorted(
                pq.read_table(folder / "out" / what / f"batch-{batch}.parquet").to_pylist(),
                key=lambda row: row.get("query", ""),  # stable: the order of the queries is the placement's
            )
            for batch in range(len(steps))
            for what in ("changes", "rejects")
        ]
    for found, right in zip(changes["executors"], changes["driver"], strict=True):
        assert found == right
    assert "time starts again at" in caplog.text and "waiting" in caplog.text


def test_what_a_pipeline_file_may_not_ask(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text(
        pipeline_text({"j": "SELECT n FROM one FULL JOIN tow USING (n) ORDER BY one.x LIMIT 1 WINDOW 9 ROWS"})
    )
    with pytest.raises(QueryError, match=r"reads the stream 'tow', which does not exist; did you mean 'two'"):
        load_pipeline(file)
    file.write_text(pipeline_text(QUERIES).replace('key = "n"\n', ""))
    with pytest.raises(InputError, match=r"\[stream\.up\] has 'op' and needs 'key' too"):
        load_pipeline(file)
    write_step(tmp_path, 0, make_steps(1, 1)[0])
    file.write_text(pipeline_text(QUERIES).replace('key = "n"', 'key = "m"'))
    with pytest.raises(InputError, match="Stream 'up' has no column 'm' for its key; it has ts, x, y, n, g"):
        run_pipeline(file, available_now=True)
