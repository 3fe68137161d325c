"""Random streams through the real pipeline equal the oracle on every batch."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from tests.spark.streams import (
    BAD_LINES,
    OTHER,
    QUERIES,
    Row,
    Truth,
    as_answers,
    folded,
    make_files,
    pipeline_text,
    rejected,
    shown_tops,
    write_file,
)

from skyband import Monitor
from skyband.core.errors import InputError, SkybandError
from skyband.spark import BatchInfo, run_pipeline, verify_pipeline
from skyband.spark.driver.checkpoint import Checkpoint, Step
from skyband.spark.driver.engine import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def run(path: Path, spark: SparkSession) -> list[BatchInfo]:
    infos: list[BatchInfo] = []
    run_pipeline(path, available_now=True, on_batch=infos.append, spark=spark)
    return infos


@pytest.mark.parametrize(
    ("form", "prune_rows", "max_files"),
    [("parquet", 0, 1), ("parquet", 10**9, 3), ("json", 0, 2), ("csv", 10**9, 1)],
)
def test_equals_the_oracle(
    tmp_path: Path, spark: SparkSession, form: str, prune_rows: int, max_files: int
) -> None:
    files = make_files(7, seed=prune_rows % 97 + max_files, rows=(40, 400))
    chance = random.Random(5)
    read: list[list[Row | None]] = []
    for number, rows in enumerate(files):
        bad = {}
        if form != "parquet":
            bad = {place: chance.choice(BAD_LINES) for place in chance.sample(range(len(rows)), 3)}
        write_file(tmp_path / "data" / f"{number}.{form}", rows, bad)
        read.append([None if place in bad else row for place, row in enumerate(rows)])
    path = tmp_path / "pipeline.toml"
    path.write_text(pipeline_text(QUERIES, form, max_files, f"prune_rows = {prune_rows}\n"))

    infos = run(path, spark)

    steps = [[*chain(*read[at : at + max_files])] for at in range(0, len(read), max_files)]
    assert [info.rows for info in infos] == [len(step) for step in steps]
    history = folded(tmp_path / "out", len(steps))
    truth = Truth(QUERIES)
    for batch, (info, step) in enumerate(zip(infos, steps, strict=True)):
        truth.push(step)
        right = truth.tops()
        assert shown_tops(info.tops) == right
        assert history[batch] == as_answers(right)
        rejects = truth.take_rejects()
        assert rejected(tmp_path / "out", batch) == rejects
        assert info.rejects == len(rejects)
        # The rows were read and sifted in other processes, and pruning is what it says.
        assert info.tasks and all(process != os.getpid() for _, process in info.tasks)
        if prune_rows:
            assert info.crossed == info.rows - info.rejects
        else:
            assert info.crossed < info.rows - info.rejects
    top = pq.read_table(tmp_path / "out" / "top" / "top.parquet").to_pylist()
    assert [(r["query"], r["rank"], r["score"]) for r in top] == [
        (name, rank, score) for name, answer in truth.tops().items() for rank, score, _ in answer
    ]
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["changes", "rejects", "top"]
    report = verify_pipeline(path)
    assert report.ok, str(report)
    assert report.batches == len(steps)
    assert report.rows == sum(len(step) for step in steps)


def test_a_large_batch_crosses_as_skybands(tmp_path: Path, spark: SparkSession) -> None:
    files = make_files(2, seed=3, rows=(30_000, 30_001))
    for number, rows in enumerate(files):
        write_file(tmp_path / "data" / f"{number}.parquet", rows)
    path = tmp_path / "pipeline.toml"
    queries = {name: QUERIES[name] for name in ("rows", "seconds", "ties")}
    path.write_text(pipeline_text(queries, max_files=None))
    (info,) = run(path, spark)
    assert info.rows == 60_000
    assert info.crossed < 600  # a few hundred of sixty thousand
    assert verify_pipeline(path).ok


def test_two_streams_and_json_lines_out(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = make_files(4, seed=8), make_files(4, seed=9)
    for number in range(4):
        write_file(tmp_path / "one" / f"{number}.parquet", one[number])
        write_file(tmp_path / "two" / f"{number}.json", two[number])
    path = tmp_path / "pipeline.toml"
    path.write_text(
        '[stream.one]\npath = "one"\ntime = "ts"\nmax_files = 1\n'
        '[stream.two]\nformat = "json"\npath = "two"\ntime = "ts"\nmax_files = 2\n'
        '[[query]]\nname = "a"\nsql = "SELECT x FROM one ORDER BY x DESC LIMIT 5 WINDOW 20 SECONDS"\n'
        '[[query]]\nname = "b"\nsql = "SELECT g FROM two ORDER BY y DESC LIMIT 5 WINDOW 40 ROWS"\n'
        '[sink]\nformat = "json"\npath = "out"\n[spark]\nmaster = "local[2]"\n'
    )
    asked: list[str | None] = []
    ask = Monitor.watch

    def watch(monitor: Monitor, query: Any, name: str | None = None) -> Any:
        asked.append(name)
        return ask(monitor, query, name)

    monkeypatch.setattr(Monitor, "watch", watch)
    infos = run(path, spark)
    assert asked == ["a", "b"]  # the monitor in which they were looked at is the engine's
    rows = [len(file) for file in one]
    more = [len(two[0]) + len(two[1]), len(two[2]) + len(two[3]), 0, 0]
    assert [info.rows for info in infos] == [a + b for a, b in zip(rows, more, strict=True)]
    assert {p.name for p in (tmp_path / "out" / "changes").iterdir()} == {f"batch-{b}.json" for b in range(4)}
    report = verify_pipeline(path)
    assert report.ok, str(report)
    assert report.answers == 8


def test_paths_as_uris(tmp_path: Path, spark: SparkSession) -> None:
    """Whatever Spark's default file system is, and with odd characters."""
    home = tmp_path / "a b%20#c"
    files = make_files(2, seed=12)
    for number, rows in enumerate(files):
        write_file(home / "data" / f"{number}.parquet", rows)
    path, text = home / "pipeline.toml", pipeline_text(QUERIES)
    for name in ("data", "out", "checkpoint"):
        text = text.replace(f'= "{name}"', f'= "{(home / name).as_uri()}"')
    path.write_text(text)
    name = "fs.defaultFS"
    before = spark.conf.get(name, None)
    spark.conf.set(name, "hdfs://127.0.0.1:1")
    try:
        infos = run(path, spark)
    finally:
        spark.conf.unset(name) if before is None else spark.conf.set(name, before)
    assert [info.rows for info in infos] == [len(rows) for rows in files]
    assert sorted(p.name for p in home.iterdir()) == ["checkpoint", "data", "out", "pipeline.toml"]
    assert (home / "checkpoint" / "commits" / "1").exists()
    assert verify_pipeline(path).ok


def test_changed_queries_apply_from_now_on(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    files = make_files(6, seed=21)
    path = tmp_path / "pipeline.toml"
    first = {name: QUERIES[name] for name in ("rows", "seconds", "ties")}
    second = {"ties": QUERIES["ties"], "seconds": OTHER, "above": QUERIES["above"]}
    truth = Truth(first)
    infos = []
    for part, queries in enumerate((first, second)):
        for number in range(3 * part, 3 * part + 3):
            write_file(tmp_path / "data" / f"{number}.parquet", files[number])
        # Only the spelling of a kept query differs: it stays the same query.
        path.write_text(
            pipeline_text(queries).replace(
                "ORDER BY n DESC", "order by n desc" if part else "ORDER BY n DESC"
            )
        )
        infos += run(path, spark)
    said = capsys.readouterr().err
    assert "query 'ties': kept" in said
    assert "query 'rows': dropped" in said
    assert "query 'seconds': changed: the old one is dropped" in said
    assert "query 'seconds': added, from batch 3 on" in said
    assert "query 'above': added, from batch 3 on" in said
    history = folded(tmp_path / "out", 6)
    for batch, rows in enumerate(files):
        if batch == 3:
            truth.change_queries(second)
        truth.push(list(rows))
        assert shown_tops(infos[batch].tops) == truth.tops()
        assert history[batch] == as_answers(truth.tops())
    report = verify_pipeline(path)
    assert report.ok, str(report)


@pytest.mark.parametrize("moment", ["read", "written down", "put out"])
def test_an_attempted_batch_keeps_its_queries(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Batch 2 fails at some moment and the next start brings other queries: they hold from batch 3 on."""
    files = make_files(5, seed=24)
    for number, rows in enumerate(files):
        write_file(tmp_path / "data" / f"{number}.parquet", rows)
    first = {name: QUERIES[name] for name in ("rows", "seconds", "ties")}
    second = {"ties": QUERIES["ties"], "seconds": OTHER, "above": QUERIES["above"]}
    path = tmp_path / "pipeline.toml"
    path.write_text(pipeline_text(first))

    seen: list[BatchInfo] = []

    def tell(info: BatchInfo) -> None:
        seen.append(info)
        if moment == "put out":
            fail(info)

    def fail(at: Step | BatchInfo) -> None:
        if at.batch == 2:
            raise RuntimeError("the power went")

    def failing(right: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, step, *more: fail(step) or right(self, step, *more)

    with monkeypatch.context() as patch:
        if moment == "read":
            patch.setattr(Checkpoint, "write_step", failing(Checkpoint.write_step))
        elif moment == "written down":
            patch.setattr(Engine, "take", failing(Engine.take))
        with pytest.raises(Exception, match="the power went"):
            run_pipeline(path, available_now=True, on_batch=tell, spark=spark)
    assert (tmp_path / "checkpoint" / "offsets" / "2").exists()
    assert not (tmp_path / "checkpoint" / "commits" / "2").exists()
    assert (tmp_path / "checkpoint" / "skyband" / "steps" / "2.step").exists() == (moment != "read")
    assert (tmp_path / "out" / "changes" / "batch-2.parquet").exists() == (moment == "put out")

    path.write_text(pipeline_text(second))
    infos = {info.batch: info for info in seen}
    infos |= {info.batch: info for info in run(path, spark)}
    assert infos[2].replayed == (moment != "read")
    history = folded(tmp_path / "out", 5)
    truth = Truth(first)
    for batch, rows in enumerate(files):
        if batch == 3:
            truth.change_queries(second)
        truth.push(list(rows))
        assert shown_tops(infos[batch].tops) == truth.tops()
        assert history[batch] == as_answers(truth.tops())
    report = verify_pipeline(path)
    assert report.ok, str(report)


def test_late_names_changed_files_and_torn_state(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skyband.spark.driver.engine._SNAPSHOT_BATCHES", 2)
    files = make_files(9, seed=33)
    path = tmp_path / "pipeline.toml"
    path.write_text(pipeline_text(QUERIES))
    truth = Truth(QUERIES)

    def check(infos: list[BatchInfo], rows: list[list[Row]]) -> None:
        for info, file in zip(infos, rows, strict=True):
            truth.push(list(file))
            assert shown_tops(info.tops) == truth.tops()

    for number in range(5):
        write_file(tmp_path / "data" / f"m{number}.parquet", files[number])
    check(run(path, spark), files[:5])

    # A file whose name sorts before all others and whose time is older than theirs is read, after them.
    write_file(tmp_path / "data" / "a.parquet", files[5])
    os.utime(tmp_path / "data" / "a.parquet", (1_000_000_000,) * 2)
    check(run(path, spark), files[5:6])

    # A file without rows is a batch without rows.
    write_file(tmp_path / "data" / "aa.parquet", [])
    check(run(path, spark), [[]])

    # The newest snapshot and one step are torn: the older ones serve.
    newest = max((tmp_path / "checkpoint/skyband/snapshots").iterdir(), key=lambda p: int(p.stem))
    newest.write_bytes(newest.read_bytes()[:-7])
    write_file(tmp_path / "data" / "b.parquet", files[6])
    check(run(path, spark), files[6:7])

    # A sink that cannot be written stops the pipeline; the next start does the batch again.
    (tmp_path / "out" / "changes").rename(tmp_path / "out" / "aside")
    (tmp_path / "out" / "changes").touch()
    write_file(tmp_path / "data" / "c.parquet", files[8])
    with pytest.raises(InputError, match="cannot be made"):
        run(path, spark)
    (tmp_path / "out" / "changes").unlink()
    (tmp_path / "out" / "aside").rename(tmp_path / "out" / "changes")
    check(run(path, spark), files[8:9])

    # A file that changed after it was read stops the pipeline with a sentence.
    write_file(tmp_path / "data" / "m1.parquet", files[7])
    with pytest.raises(InputError, match=r"m1\.parquet of stream 's' changed after it was read"):
        run(path, spark)
    folded(tmp_path / "out", 9)


def test_a_wrong_column_is_found_before_spark_starts(tmp_path: Path) -> None:
    write_file(tmp_path / "data" / "0.parquet", make_files(1, seed=1)[0])
    path = tmp_path / "pipeline.toml"
    path.write_text(pipeline_text({"q": "SELECT x FROM s ORDER BY z DESC LIMIT 5 WINDOW 50 ROWS"}))
    with pytest.raises(SkybandError, match=r"pipeline\.toml: query 'q': .*z"):
        run_pipeline(path, available_now=True)
    # Nothing is fixed yet: the file may still become quite another.
    path.write_text(pipeline_text({"q": QUERIES["rows"]}).replace('time = "ts"', 'time = "when"'))
    with pytest.raises(SkybandError, match="Stream 's' has no column 'when' for its time; it has ts, x"):
        run_pipeline(path, available_now=True)
    assert not (tmp_path / "checkpoint" / "skyband" / "streams.json").exists()


def test_output_of_another_run_is_not_mixed_up(tmp_path: Path) -> None:
    write_file(tmp_path / "data" / "0.parquet", make_files(1, seed=1)[0])
    (tmp_path / "out" / "changes").mkdir(parents=True)
    (tmp_path / "out" / "changes" / "batch-7.parquet").touch()
    path = tmp_path / "pipeline.toml"
    path.write_text(pipeline_text(QUERIES))
    with pytest.raises(InputError, match="holds the output of another run"):
        run_pipeline(path, available_now=True)


def test_no_file_yet(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text(pipeline_text(QUERIES))
    with pytest.raises(InputError, match="Stream 's' has no file yet in"):
        run_pipeline(path, available_now=True)
    with pytest.raises(InputError, match="has not run yet"):
        verify_pipeline(path)


def test_verify_finds_a_difference(tmp_path: Path, spark: SparkSession) -> None:
    for number, rows in enumerate(make_files(3, seed=4)):
        write_file(tmp_path / "data" / f"{number}.parquet", rows)
    path = tmp_path / "pipeline.toml"
    path.write_text(pipeline_text({"rows": QUERIES["rows"]}))
    run(path, spark)
    assert verify_pipeline(path).ok
    file = tmp_path / "out" / "changes" / "batch-1.parquet"
    changes = pq.read_table(file)
    entering = changes.column("change").to_pylist().index("enter")
    pq.write_table(changes.slice(0, entering), file)
    report = verify_pipeline(path)
    assert not report.ok
    assert "batch 1, query 'rows': row" in str(report)
    os.remove(file)
    assert "the output of batch 1 is missing" in str(verify_pipeline(path))
