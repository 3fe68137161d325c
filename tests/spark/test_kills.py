"""Killed at the worst moments, restarted: nothing lost, nothing doubled, every batch equal to the oracle."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests import ledger
from tests.spark import kinds
from tests.spark.broker import CONNECTOR, broker, need
from tests.spark.database import database
from tests.spark.kills import Pipeline
from tests.spark.streams import (
    DECLARED,
    QUERIES,
    Row,
    Truth,
    as_answers,
    folded,
    make_files,
    pipeline_text,
    rejected,
    text_line,
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
    write_pipeline(folder, cores=2)
    return files


def write_pipeline(folder: Path, cores: int) -> None:
    text = pipeline_text(QUERIES, spark="prune_rows = 60\n")
    (folder / "pipeline.toml").write_text(text.replace("local[2]", f"local[{cores}]"))


def test_three_kills_and_an_interrupt(tmp_path: Path) -> None:
    """Before a batch, in it, and after its output and before Spark's commit."""
    files = prepare(tmp_path, 16, seed=77)
    further = make_files(200, seed=77)
    assert further[:16] == files
    pipeline = Pipeline(tmp_path)

    def killed(kill: Callable[[], bool]) -> bool:
        """Start, and kill at a moment; on a busy machine that may come a little late, and is tried again."""
        for _ in range(8):
            pipeline.start()
            if kill():
                return True
            while len(files) < pipeline.next_batch() + 12:  # what was done too soon is made up for
                files.append(further[len(files)])
                write_file(tmp_path / "data" / f"{len(files) - 1:03}.parquet", files[-1])
        return False

    assert killed(pipeline.kill_after_output), "too late: it was committed"

    # On another number of cores rows get the numbers that they would have got.
    write_pipeline(tmp_path, cores=3)
    assert killed(pipeline.kill_after_plan), "too late: it was read"
    assert "continuing at batch" in pipeline.said
    write_pipeline(tmp_path, cores=1)
    assert killed(pipeline.kill_after_step), "too late: it was put out"
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


Capture = pytest.CaptureFixture[str]
SEED = int(os.environ.get("SKYBAND_SEED") or random.SystemRandom().randrange(10**6))
KILLS = int(os.environ.get("SKYBAND_KILLS", "40"))


def kill_often(
    pipeline: Pipeline, batches: int, kills: int, name: str, capsys: Capture, steps: bool = True
) -> None:
    """Start and kill at random moments, then let it come to its end. SKYBAND_SEED repeats the choice of moments."""
    with capsys.disabled():  # also when all goes well
        print(f"\n{name}: SKYBAND_SEED={SEED} SKYBAND_KILLS={KILLS}, {kills} kills in {pipeline.folder}")
    chance = random.Random(f"{SEED} {name}")
    moments = [
        lambda: pipeline.kill_some_time(chance),
        pipeline.kill_after_output,
        pipeline.kill_after_plan,
    ]
    if steps:  # where Spark keeps the state, there are none in our log
        moments.append(pipeline.kill_after_step)
    done = 0
    while done < kills and pipeline.kills_left_work(batches):
        pipeline.start()
        chance.choice(moments)()
        done += 1
    pipeline.start()
    code, said = pipeline.finish()
    assert code == 0, said
    assert done == kills, "there were too few batches for so many kills"


@pytest.mark.soak
@pytest.mark.timeout(7200)  # many starts of Spark, perhaps on a busy machine
def test_forty_kills_of_files(tmp_path: Path, capsys: Capture) -> None:
    kills = KILLS * 2 // 5
    # a batch takes a few dozen milliseconds, and a kill comes within seconds
    files = prepare(tmp_path, 20 * kills + 5, seed=SEED)
    kill_often(Pipeline(tmp_path), len(files), kills, "files", capsys)
    check(tmp_path, files)


def as_in_peace(folder: Path, batches: int) -> None:
    """Run the pipeline in `peace`, whose output must be that of the one in `killed`."""
    peace = Pipeline(folder / "peace")
    peace.start()
    code, said = peace.finish()
    assert code == 0, said
    both = [folder / name for name in ("killed", "peace")]
    one, other = ([pq.read_table(p) for p in sorted((home / "out").rglob("*.parquet"))] for home in both)
    assert len(one) == batches + 1 and one == other


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_kills_of_large_batches(tmp_path: Path, capsys: Capture) -> None:
    """The output is that of a run in peace."""
    kills = max(2, KILLS // 10)
    chance = np.random.default_rng(SEED)
    tables = [pa.table({n: chance.random(150_000) for n in ("x", "y")}) for _ in range(4 * kills)]
    scores = ["x + 2 * y", "3 * x + y", "x * y"]
    asked = [f"SELECT x FROM s ORDER BY {score} DESC LIMIT 5 WINDOW 400000 ROWS" for score in scores]
    for folder in (tmp_path / "killed", tmp_path / "peace"):
        (folder / "data").mkdir(parents=True)
        for number, table in enumerate(tables):
            pq.write_table(table, folder / "data" / f"{number:03}.parquet", row_group_size=20_000)
        text = pipeline_text({f"q{n}": sql for n, sql in enumerate(asked)})
        (folder / "pipeline.toml").write_text(text.replace('time = "ts"\n', ""))
    kill_often(Pipeline(tmp_path / "killed"), len(tables), kills, "large", capsys)
    as_in_peace(tmp_path, len(tables))


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_kills_of_large_batches_of_records(tmp_path: Path, capsys: Capture) -> None:
    """Kafka's records: the output is that of a run in peace."""
    kills, rows = max(2, KILLS // 10), 140_000
    jars = ",".join(map(str, need("connector", CONNECTOR, alone=True)))
    chance = np.random.default_rng(SEED)
    with broker(tmp_path / "broker") as kafka:
        kafka.topic("in", 2)
        pairs = chance.random((rows * 3 * kills, 2)).tolist()
        kafka.send("in", [(n % 2, b'{"x": %r, "y": %r}' % (x, y)) for n, (x, y) in enumerate(pairs)])
        for name in ("killed", "peace"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "pipeline.toml").write_text(
                f'[stream.s]\nformat = "kafka"\nbootstrap = "{kafka.bootstrap}"\ntopic = "in"\nmax_records = {rows}\n'
                f'schema = {{x = "double", y = "double"}}\n[[query]]\nname = "q"\n'
                f'sql = "SELECT x FROM s ORDER BY x + 2 * y DESC LIMIT 5 WINDOW 400000 ROWS"\n'
                f'[sink]\nformat = "parquet"\npath = "out"\n[spark]\nmaster = "local[2]"\njars = "{jars}"\n'
            )
        kill_often(Pipeline(tmp_path / "killed"), 3 * kills, kills, "records", capsys)
        as_in_peace(tmp_path, 3 * kills)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("placement", ["driver", "executors"])
def test_forty_kills_of_every_kind_into_sqlite(tmp_path: Path, capsys: Capture, placement: str) -> None:
    kills = KILLS * 2 // 5
    steps, queries = kinds.make_steps(5 * kills + 5, SEED), kinds.QUERIES
    if placement == "executors":  # with an update stream, one unit would do all
        steps = [{name: rows for name, rows in step.items() if name != "up"} for step in steps]
        queries = {name: sql for name, sql in queries.items() if "FROM up" not in sql}
    for number, step in enumerate(steps):
        kinds.write_step(tmp_path, number, step)
    sink = '[sink]\nformat = "sqlite"\npath = "out.db"\n'
    spark = f'placement = "{placement}"\nshards = 2\n'
    text = kinds.pipeline_text(queries, sink=sink, spark=spark)
    if placement == "executors":
        text = text[: text.index("[stream.up]")] + text[text.index("[[query]]") :]
    (tmp_path / "pipeline.toml").write_text(text)

    def ask(sql: str) -> list[tuple[Any, ...]]:
        if not (tmp_path / "out.db").exists():
            return []
        with contextlib.closing(sqlite3.connect(tmp_path / "out.db", timeout=30)) as connection:
            try:
                return connection.execute(sql).fetchall()
            except sqlite3.OperationalError:  # not there yet
                return []

    pipeline = TablePipeline(tmp_path, ask)
    kill_often(pipeline, len(steps), kills, f"kinds, {placement}", capsys, steps=placement == "driver")
    truth, answers = kinds.Truth(queries), kinds.Folded()
    names = ("query", "change", "score", "seq", "seq_b", "id")
    for batch, step in enumerate(steps):
        truth.push(step)
        rows = ask(f"SELECT {', '.join(names)} FROM skyband_changes WHERE batch = {batch} ORDER BY number")
        answers.take([dict(zip(names, row, strict=True)) for row in rows])
        assert answers.equals(truth.tops()), f"batch {batch}"
    assert ask("SELECT count(*), max(batch) FROM skyband_batches") == [(len(steps), len(steps) - 1)]
    report = verify_pipeline(tmp_path / "pipeline.toml")
    assert report.ok, str(report)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_forty_kills_from_kafka_into_postgres(tmp_path: Path, capsys: Capture) -> None:
    """Of the pipeline, of the broker and of the database, by turns."""
    kills = KILLS - 2 * (KILLS * 2 // 5)
    jars = ",".join(map(str, need("connector", CONNECTOR, alone=True)))
    files = make_files(5 * kills + 5, SEED, (30, 31))
    with broker(tmp_path / "broker") as kafka, database() as server:
        kafka.topic("in", 1)
        kafka.send("in", [(0, text_line(row, ".json").encode()) for rows in files for row in rows])
        asked = "".join(f'[[query]]\nname = "{name}"\nsql = "{sql}"\n' for name, sql in QUERIES.items())
        (tmp_path / "pipeline.toml").write_text(
            f'[stream.s]\nformat = "kafka"\nbootstrap = "{kafka.bootstrap}"\ntopic = "in"\ntime = "ts"\n'
            f"schema = {DECLARED}\nmax_records = 30\n{asked}"
            f'[sink]\nformat = "postgres"\nurl = "{server.url}"\n[spark]\nmaster = "local[2]"\njars = "{jars}"\n'
        )

        def ask(sql: str) -> list[tuple[Any, ...]]:
            import psycopg

            with contextlib.suppress(psycopg.Error):  # the table isn't there yet, or the server isn't
                return server.ask(sql)
            return []

        pipeline = TablePipeline(tmp_path, ask)
        for number, part in enumerate((kafka, server)):  # one of each for all kills of the pipeline but these
            pipeline.start()
            pipeline.wait(lambda batch=number + 1: pipeline.has_output(batch))  # type: ignore[misc]
            part.kill()
            ledger.count()
            time.sleep(2)
            pipeline.kill()
            part.start()
        kill_often(pipeline, len(files), max(1, kills - 2), "kafka", capsys)
        truth, answers = Truth(QUERIES), kinds.Folded()
        names = ("query", "change", "score", "seq", "seq_b", "id")
        for batch, rows in enumerate(files):
            truth.push(list(rows))
            found = ask(
                f"SELECT {', '.join(names)} FROM skyband_changes WHERE batch = {batch} ORDER BY number"
            )
            answers.take([dict(zip(names, row, strict=True)) for row in found])
            told = {n: {who[0]: s for who, s in a.items()} for n, a in answers.answers.items() if a}
            assert told == as_answers(truth.tops()), f"batch {batch}"


class TablePipeline(Pipeline):
    """A pipeline whose output is in a database."""

    def __init__(self, folder: Path, ask: Callable[[str], list[tuple[Any, ...]]]) -> None:
        super().__init__(folder)
        self._ask = ask

    def has_output(self, batch: int) -> bool:
        return bool(self._ask(f"SELECT 1 FROM skyband_batches WHERE batch = {batch}"))

    def wait(self, ready: Callable[[], bool], pause: float = 0.03) -> bool:
        return super().wait(ready, pause)  # a database is asked less often than a folder
