"""Large Parquet files, newest rows first: what comes out is what pushing the rows whole gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.executors.test_units import Local, One, compare

from skyband.algorithms import base
from skyband.engine import batch_filter as rejecting
from skyband.engine.monitor import Monitor
from skyband.engine.pruning import Sifted
from skyband.spark.driver import sifting
from skyband.spark.driver.sifting import SiftJob
from skyband.spark.executors import routing
from skyband.spark.executors.shards import Layout, Streams
from skyband.spark.input import jobs, splits
from skyband.spark.input.filelog import FileLog, StreamFiles
from skyband.spark.input.splits import Split, plan_splits

ROWS, BATCHES, GROUPS = 24_000, 3, 8


def table_of(chance: np.random.Generator, number: int) -> pa.Table:
    """Rows in order of time but for stragglers; some values and some times are missing."""
    time = number * ROWS + np.arange(ROWS, dtype=np.float64)
    late = chance.random(ROWS) < 0.02
    time[late] -= chance.integers(0, 3 * ROWS, late.sum())
    columns: dict[str, Any] = {"t": time, "x": chance.random(ROWS), "y": chance.random(ROWS)}
    arrays = {name: pa.array(values, mask=chance.random(ROWS) < 0.001) for name, values in columns.items()}
    return pa.table({**arrays, "g": pa.array(chance.choice(["a", "b"], ROWS))})


def questions(timed: bool) -> list[str]:
    window = f"{ROWS} SECONDS" if timed else f"{ROWS + 999} ROWS"
    many = [
        f"SELECT x FROM s ORDER BY {1 + i % 7} * x + {1 + i % 11}.5 * y DESC LIMIT 4 WINDOW {window}"
        for i in range(40)
    ]
    near = [  # which have no map, but cells
        f"SELECT x FROM s ORDER BY dist(x, y, 0.{50 + i}, 0.3) LIMIT 2 WINDOW {window} WITH (algorithm = 'ra')"
        for i in range(35)
    ]
    return [
        *many,
        *near,
        f"SELECT g FROM s WHERE g = 'a' AND y > 0.5 ORDER BY x LIMIT 5 WINDOW {window}",
        f"SELECT g FROM s WHERE y > 2 ORDER BY x LIMIT 5 WINDOW {window}",
        f"SELECT x FROM s WHERE x > 0.999 WINDOW {window}",
        "SELECT x FROM s ORDER BY y LIMIT 3 WINDOW 700 ROWS",
    ]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of rows are many; queries are divided into clusters."""
    monkeypatch.setattr(rejecting, "_CLUSTER", 8)
    monkeypatch.setattr(rejecting, "FEWEST_HEAD", 128)
    monkeypatch.setattr(sifting, "_HEAD_ROWS", 3000)
    monkeypatch.setattr(sifting, "PIECE_ROWS", ROWS // GROUPS)
    monkeypatch.setattr(sifting, "LARGE", ROWS // 4)


@pytest.mark.parametrize(("timed", "tasks"), [(False, 1), (False, 3), (True, 1), (True, 2)])
def test_large_batches_equal_a_push(
    tmp_path: Path, small: None, timed: bool, tasks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many tasks read them: seqs are the same, too."""
    monkeypatch.setattr(base, "SHARED_SCORES", 1)
    monkeypatch.setattr(splits, "_SMALL", 1)
    chance = np.random.default_rng(3)
    tables = [table_of(chance, number) for number in range(BATCHES)]
    (tmp_path / "data").mkdir()
    for number, table in enumerate(tables):
        pq.write_table(table, tmp_path / "data" / f"{number}.parquet", row_group_size=ROWS // GROUPS)
    stream = StreamFiles("s", "parquet", str(tmp_path / "data"), 1)
    log = FileLog(tmp_path / "files.jsonl", writer=True)
    log.look([stream])
    schema = tables[0].schema
    here, whole = (Monitor(time={"s": "t"} if timed else None, schema={"s": schema}) for _ in range(2))
    for number, sql in enumerate(questions(timed)):
        for monitor in (here, whole):
            monitor.watch(sql, name=f"q{number}")
    job = SiftJob({"s": schema}, ((0, {"s": here.sifter("s")}),))
    for batch, table in enumerate(tables):
        log.take(stream, batch)
        now = sifting.Batch({"s": here.streams["s"].door()}, prune=True)
        monkeypatch.setattr(sifting.Batch, "here", lambda now=now: now)
        monkeypatch.setattr(sifting, "task", lambda batch=batch: (batch, 0))
        runs = plan_splits(log, [stream], {"s": batch}, {"s": batch + 1}, tasks)
        assert len(runs) == tasks
        answers = [answer for run in runs for answer in job.of_files(run)]
        chance.shuffle(answers)  # type: ignore[arg-type]
        lines = jobs.in_order(pa.Table.from_batches(answers))
        assert sum(line["rows"] for line in lines) == ROWS
        assert len(lines) == tasks and sum(line["kept"] for line in lines) < ROWS / 3
        found = here.push_sifted([("s", [Sifted.from_bytes(line["blob"]) for line in lines])])
        assert found.equals(whole.push(table, stream="s"))
        assert here.rejects().equals(whole.rejects())
        for name, watch in whole.watches.items():
            assert here.watches[name].top().equals(watch.top()), name


@pytest.mark.parametrize(("timed", "units"), [(False, 2), (True, 6)])
def test_tasks_read_the_newest_rows_first(
    tmp_path: Path, small: None, timed: bool, units: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task of the executors placement does the same with its splits, once for all units."""
    chance = np.random.default_rng(4)
    tables = [table_of(chance, number) for number in range(BATCHES)]

    def by_files(job: Any, era: Any, batch: int, order: Any, stream: str, chunk: Any) -> pa.RecordBatch:
        path = tmp_path / f"{batch}.parquet"
        pq.write_table(chunk.table, path, row_group_size=ROWS // GROUPS)
        at = stream, "parquet", str(path), path.stat().st_size, path.stat().st_mtime_ns
        (sent,) = routing._of_files(
            job,
            era,
            batch,
            [Split(0, *at, 0, 3, 3 * ROWS // GROUPS), Split(1, *at, 3, 5, 5 * ROWS // GROUPS)],
        )
        assert set(sent.column("rows").to_pylist()) == {ROWS}
        assert max(sent.column("kept").to_pylist()) < ROWS / 4
        return sent

    monkeypatch.setattr(routing, "_lines", by_files)
    monkeypatch.setattr(Local, "_cut", lambda self, table: [table])
    streams = Streams({"s": "t"} if timed else {}, {}, {}, {"s": tables[0].schema})
    asked = {f"q{number}": sql for number, sql in enumerate(questions(timed)[:-1])}
    local, one = Local(tmp_path, streams), One(streams)
    local.start(asked, Layout(2, {"rows": (units, 0)}))
    one.start(asked)
    compare(local, one, [[("s", table)] for table in tables])
