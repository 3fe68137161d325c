"""`skyband serve pipeline.toml`: a pipeline's answers at the same addresses, and nothing to be pushed."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skyband.core.errors import InputError
from skyband.engine.monitor import Monitor
from skyband.server.pipeline import PipelineService
from skyband.server.settings import Settings
from skyband.spark.session.java import find_java
from skyband.spark.session.progress import BatchInfo, Resident, StreamNow
from skyband.spark.sinks import batch_column, top_rows
from skyband.stream.notices import Notice

from .conftest import start
from .test_following import Fold
from .test_http import problem, push

SQL = "SELECT id, x FROM s ORDER BY x DESC LIMIT 2 WINDOW 10 ROWS"
PIPELINE = f"""
[stream.s]
format = "parquet"
path = "data"
max_files = 1
[[query]]
name = "best"
sql = "{SQL}"
[sink]
format = "parquet"
path = "out"
[spark]
master = "local[1]"
checkpoint = "checkpoint"
"""


def write(folder: Path, number: int, *values: float) -> pa.Table:
    table = pa.table({"id": [f"r{v:g}" for v in values], "x": list(values)})
    (folder / "data").mkdir(exist_ok=True)
    unfinished = folder / f"{number}.tmp"
    pq.write_table(table, unfinished)
    unfinished.rename(folder / "data" / f"{number}.parquet")
    return table


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    return tmp_path


def service(folder: Path) -> PipelineService:
    pytest.importorskip("pyspark")
    return PipelineService(Settings(), str(folder / "pipeline.toml"), start=False)


class Batches:
    """What a pipeline would tell and write, made by a monitor."""

    def __init__(self, folder: Path) -> None:
        self.out = folder / "out"
        self.monitor = Monitor()
        self.watch = self.monitor.watch(SQL, name="best")
        self.number = -1
        self.busy = threading.Lock()

    def next(self, *values: float) -> BatchInfo:
        self.number += 1
        changes = self.monitor.push({"id": [f"r{v:g}" for v in values], "x": list(values)})
        top = self.watch.top()
        for name, table in (
            (f"changes/batch-{self.number}", batch_column(changes, self.number)),
            ("top/top", top_rows("best", top, self.watch.selected(top))),
        ):
            (self.out / name).parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, self.out / f"{name}.parquet")
        return BatchInfo(
            self.number, len(values), len(values), changes.num_rows, 0, 0.01, {"best": top},
            reject_counts={"type": 0}, changed=batch_column(changes, self.number),
            resident=Resident(lambda: self.monitor, self.busy),
        )  # fmt: skip


def test_batches_are_steps(folder: Path) -> None:
    served, batches = service(folder), Batches(folder)
    assert served.top("best", 9)["rows"] == [] and served.queries()[0]["sql"] == SQL and served.offset == 0
    told: list[set[str] | None] = []
    served.on_step = told.append
    for values in ([1.0, 3.0], [2.0], [0.5]):
        served.batch(batches.next(*values))
    assert served.offset == 3 and told == [{"best"}, {"best"}, set()]
    assert [row["id"] for row in served.top("best", 9)["rows"]] == ["r3", "r2"]
    assert served.top_table("best", k=1)[1].num_rows == 1
    assert served.stats()["rows"] == 4 and served.rejects(5)["counts"] == {"type": 0}
    assert "best" in served.explain("best")["text"]
    assert served.check(SQL)["query"]["kind"] == "topk"
    assert served.tops(None)[1]["best"] == served.tops(frozenset(["best"]))[1]["best"]


def test_where_its_streams_stand(folder: Path) -> None:
    served, batches = service(folder), Batches(folder)
    (stream,) = served.streams()
    assert stream["latest"] is None and stream["warning"] is None and not stream["strict"]
    rejected = pa.Table.from_pylist(
        [
            {"batch": 0, "seq": 3 + n, "stream": "s", "reason": "type", "detail": "x", "raw": "{}"}
            for n in range(4)
        ]
    )
    now = StreamNow(3, "2026-11-19T12:00:00Z", time.time() - 40)
    notice = Notice("missing column", "s", "x", 3, 0, 2, 'the batch has "X": rename it')
    more = {"streams": {"s": now}, "rejected": rejected, "notices": [notice], "waiting": {"s": 2}}
    served.batch(BatchInfo(**{**vars(batches.next(9.0, 1.0, 5.0)), **more}))
    (stream,) = served.streams()
    assert (
        stream["latest"] == "2026-11-19T12:00:00Z" and 39 < stream["behind"] < 60 and stream["waiting"] == 2
    )
    assert (stream["last_minute"]["accepted"], stream["last_minute"]["rejected"]) == (3, 4)
    assert stream["last_minute"]["rejects"][0] | {"rows": 4} == {
        "reason": "type", "rows": 4, "seq": 6, "detail": "x", "raw": "{}",
    }  # fmt: skip
    assert (
        stream["notices"][0]["hint"] == 'the batch has "X": rename it'
        and stream["notices"][0]["seconds"] < 60
    )
    assert stream["warning"].startswith("4 of 7 rows of the last minute were rejected, the reason is type")


def test_the_picture_is_the_drivers_between_two_batches(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, batches = service(folder), Batches(folder)
    served.batch(batches.next(9.0, 1.0, 5.0, 4.0, 2.0))
    picture = served.picture("best")
    assert [point[1] for point in picture["top"]] == [9.0, 5.0]
    assert {point[1] for point in picture["candidates"]} == {9.0, 5.0, 4.0, 2.0}, (
        "newer ones are better than 1"
    )
    assert picture["window_rows"] == 5 and picture["rows"] == [] and picture["next"][0]["leaves"] == 0
    stats = served.stats()
    assert (stats["window_rows"], stats["pruned"]) == (5, 0.0) and stats["state_rows"] >= 4
    monkeypatch.setattr("skyband.server.pipeline._PATIENCE", 0.01)
    with batches.busy, pytest.raises(Exception, match="middle of a batch"):
        served.picture("best")
    assert served.picture("best") == picture
    # in the executors' placement nothing can be looked into
    served.batch(BatchInfo(**{**vars(batches.next(7.0)), "resident": None}))
    with pytest.raises(Exception, match="executors"):
        served.picture("best")


def test_what_was_put_out_before_is_there_at_the_start(folder: Path) -> None:
    batches = Batches(folder)
    last = [batches.next(1.0, 3.0), batches.next(2.0)][-1]
    served = service(folder)
    assert served.offset == 2
    assert [(row["rank"], row["id"], row["x"]) for row in served.top("best", 9)["rows"]] == [
        (1, "r3", 3.0),
        (2, "r2", 2.0),
    ]
    entries = list(served.hub._ring)
    assert [entry.offset for entry in entries] == [1, 2]
    # Spark may do the last batch again: that is no new step
    served.batch(BatchInfo(**{**vars(last), "replayed": True}))
    assert served.offset == 2 and len(served.hub._ring) == 2
    served.batch(batches.next(9.0))
    assert served.offset == 3 and [row["id"] for row in served.top("best", 9)["rows"]] == ["r9", "r3"]


def test_what_a_pipeline_cant_do(folder: Path) -> None:
    served = service(folder)
    for refused in (
        lambda: served.submit("s", b"", None, None), lambda: served.advance(1), lambda: served.watch(SQL, None),
        lambda: served.drop("best"), lambda: served.change("best", 1, None), lambda: served.picture("best"),
        lambda: served.top_table("best", wanted="1 row"),
    ):  # fmt: skip
        with pytest.raises(Exception, match="pipeline") as error:
            refused()
        assert error.value.code == "read_only"  # type: ignore[attr-defined]
    with pytest.raises(Exception, match="no query"):
        served.top("none", 9)
    with pytest.raises(Exception, match="2 ranks"):
        served.top_table("best", k=3)


@pytest.mark.spark
@pytest.mark.soak
def test_a_pipeline_on_spark(folder: Path) -> None:
    try:
        find_java()
    except InputError as error:
        pytest.skip(str(error))
    write(folder, 0, 1.0, 5.0)
    server = start(pipeline=folder / "pipeline.toml")
    with httpx.Client(base_url=server.url, timeout=60) as http:

        def until(ids: list[str]) -> int:
            for _ in range(1200):
                answer = http.get("/api/queries/best/top").json()
                if [row["id"] for row in answer["rows"]] == ids:
                    return int(answer["offset"])
                time.sleep(0.1)
            raise AssertionError(server.said())

        assert until(["r5", "r1"]) == 1
        write(folder, 1, 7.0)
        last = until(["r7", "r5"])
        settings = http.get("/api/settings").json()
        assert settings["readonly"]
        assert "pipeline.toml" in problem(push(http, "s", [{"x": 1}]), 403, "read_only")
        fold = Fold()
        with http.stream("GET", "/api/changes?from=0") as events:
            for line in events.iter_lines():
                if line.startswith("data: "):
                    fold.take(json.loads(line.removeprefix("data: ")))
                if fold.offset >= last:
                    break
        assert {score for _, score in fold.tops["best"]} == {7.0, 5.0}
    assert server.stop(60) == 0, server.said()
    assert "Traceback" not in server.said()


@pytest.mark.spark
def test_a_pipeline_that_fails_ends_the_server(folder: Path) -> None:
    (folder / "pipeline.toml").write_text(PIPELINE.replace("ORDER BY x", "ORDER BY y"))
    write(folder, 0, 1.0)
    server = start(pipeline=folder / "pipeline.toml")
    assert server.process.wait(120) == 2
    assert "There is no column y" in server.said()
