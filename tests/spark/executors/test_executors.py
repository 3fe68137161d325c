"""The executors placement equals the oracle on every batch, and the driver placement's files, whatever the shards."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.streams import (
    OTHER,
    QUERIES,
    Truth,
    as_answers,
    make_files,
    pipeline_text,
    rejected,
    shown_tops,
    write_file,
)

from skyband.core.errors import SkybandError
from skyband.spark import BatchInfo, run_pipeline, verify_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MORE = {
    "sums": "SELECT g, SUM(x) FROM s GROUP BY g ORDER BY SUM(x) DESC LIMIT 2 WINDOW 60 ROWS",
    "couples": "SELECT a.n, b.n FROM s a, s b WHERE a.n <> b.n ORDER BY abs(a.x - b.x) LIMIT 4 WINDOW 40 ROWS",
}


def run(path: Path, spark: SparkSession) -> list[BatchInfo]:
    infos: list[BatchInfo] = []
    run_pipeline(path, available_now=True, on_batch=infos.append, spark=spark)
    return infos


def text(queries: dict[str, str], placement: str, more: str = "") -> str:
    return pipeline_text(queries, spark=f'placement = "{placement}"\n{more}')


def outputs(out: Path, kind: str, query: str | None = None) -> list[list[dict[str, Any]]]:
    """The files of one kind, batch after batch, with a query's rows together."""
    found = []
    for path in sorted((out / kind).iterdir(), key=lambda p: (len(p.name), p.name)):
        rows = pq.read_table(path).to_pylist()
        found.append(sorted(rows, key=lambda row: row.get("query", "")))
    return found


def test_equals_the_oracle_and_the_driver(tmp_path: Path, spark: SparkSession) -> None:
    files = make_files(7, seed=21, rows=(40, 200))
    truth = Truth(QUERIES)
    asked = {**QUERIES, **MORE}
    for name in ("executors", "driver"):
        (tmp_path / name).mkdir()
    history: list[dict[str, dict[int, float]]] = []
    for first, last, shards in ((0, 3, 2), (3, 5, 3), (5, 7, 1)):
        # Three starts, with another number of shards each; the last with other queries, too.
        if last == 7:
            asked = {
                **{n: q for n, q in QUERIES.items() if n != "above"},
                "other": OTHER,
                "sums": MORE["sums"],
            }
            truth.change_queries({n: q for n, q in asked.items() if n not in MORE})
        for number in range(first, last):
            for name in ("executors", "driver"):
                write_file(tmp_path / name / "data" / f"{number}.parquet", files[number])
        path = tmp_path / "executors" / "pipeline.toml"
        path.write_text(text(asked, "executors", f"shards = {shards}\nprune_rows = {60 * (shards % 2)}\n"))
        infos = run(path, spark)
        assert [info.batch for info in infos] == list(range(first, last))
        for info in infos:
            truth.push(files[info.batch])
            right = truth.tops()
            shown = shown_tops({n: t for n, t in info.tops.items() if n not in MORE})
            assert shown == right
            history.append(as_answers(right))
            assert rejected(tmp_path / "executors" / "out", info.batch) == truth.take_rejects()
            assert info.tasks and all(process != os.getpid() for _, process in info.tasks)
        other = tmp_path / "driver" / "pipeline.toml"
        other.write_text(text(asked, "driver"))
        run(other, spark)
    told = folded_rows(tmp_path / "executors" / "out", 7)
    assert [{n: a for n, a in answers.items() if n not in MORE} for answers in told] == history
    for kind in ("changes", "rejects", "top"):
        assert outputs(tmp_path / "executors" / "out", kind) == outputs(tmp_path / "driver" / "out", kind)
        files_of = [*tmp_path.glob(f"*/out/{kind}/*.parquet")]
        one, *others = {pq.read_schema(file) for file in files_of}
        assert not others, (one, others)
        pa.concat_tables(pq.ParquetFile(file).read() for file in files_of)
    assert verify_pipeline(path).ok


def folded_rows(out: Path, batches: int) -> list[dict[str, dict[int, float]]]:
    """The answers after each batch, from the changes of queries about rows."""
    answers: dict[str, dict[int, float]] = {}
    history = []
    for batch in range(batches):
        for row in pq.read_table(out / "changes" / f"batch-{batch}.parquet").to_pylist():
            if row["query"] in MORE:
                continue
            if row["change"] == "leave":
                del answers[row["query"]][row["seq"]]
            else:
                answers.setdefault(row["query"], {})[row["seq"]] = row["score"]
        history.append({name: dict(answer) for name, answer in answers.items() if answer})
    return history


def test_a_checkpoint_stays_where_it_began(tmp_path: Path, spark: SparkSession) -> None:
    write_file(tmp_path / "data" / "0.parquet", make_files(1, seed=22)[0])
    path = tmp_path / "pipeline.toml"
    queries = {"ties": QUERIES["ties"]}
    path.write_text(text(queries, "auto"))
    run(path, spark)  # the driver, on one machine
    path.write_text(text(queries, "executors"))
    with pytest.raises(SkybandError, match=r'begun with the state in the driver.*placement = "executors"'):
        run(path, spark)


def test_offsets_that_have_become_others(tmp_path: Path, spark: SparkSession) -> None:
    write_file(tmp_path / "data" / "0.parquet", make_files(1, seed=24)[0])
    path, offsets = tmp_path / "pipeline.toml", tmp_path / "checkpoint" / "offsets" / "0"
    path.write_text(text({"ties": QUERIES["ties"]}, "executors", "shards = 1\n"))
    run(path, spark)
    before = offsets.read_text()
    offsets.write_text(re.sub(r"(\D)1}$", r"\g<1>2}", before))
    assert offsets.read_text() != before
    with pytest.raises(SkybandError, match="offsets/0 is damaged"):
        run(path, spark)


def observed(path: Path, spark: SparkSession) -> dict[int, int]:
    """Run it; the rows of each batch that a listener of the session was told of."""
    from pyspark.sql.streaming import StreamingQueryListener

    found: dict[int, int] = {}
    told = threading.Event()

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:
            pass

        def onQueryProgress(self, event: Any) -> None:
            row = event.progress.observedMetrics.get("skyband")
            if row is not None:
                found[event.progress.batchId] = row["rows"]
                told.set()

        def onQueryTerminated(self, event: Any) -> None:
            pass

    listener = Listener()
    spark.streams.addListener(listener)
    try:
        run(path, spark)
        assert told.wait(120)
    finally:
        spark.streams.removeListener(listener)
    return found


def test_listeners_are_told_and_a_state_in_other_columns_is_refused(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    (rows,) = make_files(1, seed=23)
    write_file(tmp_path / "data" / "0.parquet", rows)
    path = tmp_path / "pipeline.toml"
    path.write_text(text({"ties": QUERIES["ties"]}, "executors", "shards = 1\n"))
    assert observed(path, spark) == {0: len(rows)}
    write_file(tmp_path / "data" / "1.parquet", rows)
    with monkeypatch.context() as patch:  # lines are not counted for nobody
        patch.setattr("skyband.spark.executors.run.observed_parts", None)
        run(path, spark)
    write_file(tmp_path / "data" / "2.parquet", rows)
    monkeypatch.setattr("skyband.spark.executors.run.STATE", "state binary")
    with pytest.raises(SkybandError, match="of another skyband, which kept it in another way"):
        run(path, spark)


@pytest.mark.parametrize("placement", ["driver", "executors"])
def test_changes_of_a_stream_without_times_have_none(
    tmp_path: Path, spark: SparkSession, placement: str
) -> None:
    """Also of objects and pairs, and beside a stream that has times."""
    for stream in ("s", "plain"):
        write_file(tmp_path / stream / "0.parquet", make_files(1, seed=5, rows=(30, 40))[0])
    queries = {
        name: sql.replace("FROM s", "FROM plain").replace("s b", "plain b") for name, sql in MORE.items()
    }
    written = text({**queries, "timed": QUERIES["rows"]}, placement).replace('path = "data"', 'path = "s"')
    path = tmp_path / "pipeline.toml"
    path.write_text('[stream.plain]\nformat = "parquet"\npath = "plain"\n' + written)
    run(path, spark)
    (changes,) = outputs(tmp_path / "out", "changes")
    assert {(row["query"], row["time"] is None) for row in changes} == {
        ("sums", True),
        ("couples", True),
        ("timed", False),
    }
    report = verify_pipeline(path)
    assert report.ok, str(report)


def test_units_that_end_with_a_batch_that_is_done_again(tmp_path: Path, spark: SparkSession) -> None:
    """What a dropped query leaves behind is told by units that are there no more: also the second time."""
    path = tmp_path / "pipeline.toml"
    both = {"rows": QUERIES["rows"], "sums": MORE["sums"]}
    files = make_files(2, seed=31, rows=(20, 30))

    def start(queries: dict[str, str], failing: bool = False) -> None:
        def tell(info: BatchInfo) -> None:
            if failing:
                raise RuntimeError("the power went")

        path.write_text(text(queries, "executors", "shards = 1\n"))
        run_pipeline(path, available_now=True, on_batch=tell, spark=spark)

    write_file(tmp_path / "data" / "0.parquet", files[0])
    start(both)
    write_file(tmp_path / "data" / "1.parquet", files[1])
    with pytest.raises(Exception, match="the power went"):
        start({"rows": QUERIES["rows"]}, failing=True)
    changes = tmp_path / "out" / "changes" / "batch-1.parquet"
    told = changes.read_bytes()
    assert "sums" in pq.read_table(changes)["query"].to_pylist()
    start({"rows": QUERIES["rows"]})
    assert changes.read_bytes() == told
    report = verify_pipeline(path)
    assert report.ok, str(report)


def test_units_have_their_turn_in_a_batch_that_nothing_is_read_for(
    tmp_path: Path, spark: SparkSession
) -> None:
    """The first batch of `rate` has no rows and no task; then units that end have their turn once."""
    path = tmp_path / "pipeline.toml"
    best = (
        '[[query]]\nname = "best"\nsql = "SELECT value FROM s ORDER BY value DESC LIMIT 2 WINDOW 30 ROWS"\n'
    )
    sums = (
        '[[query]]\nname = "sums"\nsql = "SELECT value, COUNT(*) FROM s GROUP BY value ORDER BY COUNT(*) DESC '
        'LIMIT 2 WINDOW 2 SECONDS"\n'
    )
    for queries in (best + sums, best):
        path.write_text(
            f'[stream.s]\nformat = "rate"\nrows_per_second = 20\ntime = "timestamp"\n{queries}'
            f'[sink]\nformat = "parquet"\npath = "out"\n[spark]\nmaster = "local[2]"\nplacement = "executors"\n'
        )
        stop, infos = threading.Event(), list[BatchInfo]()

        def see(info: BatchInfo, stop: threading.Event = stop, infos: list[BatchInfo] = infos) -> None:
            infos.append(info)
            if sum(one.rows > 0 for one in infos) > 1:
                stop.set()

        run_pipeline(path, on_batch=see, spark=spark, stopping=stop)
        assert infos[-1].tops["best"].num_rows == 2
    report = verify_pipeline(path)
    assert report.ok, str(report)


@pytest.mark.parametrize("placement", ["driver", "executors"])
def test_a_time_column_of_milliseconds(tmp_path: Path, spark: SparkSession, placement: str) -> None:
    start = 1_700_000_000_000
    for number in range(3):
        times = [start + (number * 40 + second) * 1000 for second in range(40)]
        rows = {"ts": times, "x": [float(hash_of(time)) for time in times]}
        (tmp_path / "data").mkdir(exist_ok=True)
        pq.write_table(pa.table(rows), tmp_path / "data" / f"{number}.parquet")
    queries = {
        "best": "SELECT ts, x FROM s ORDER BY x DESC LIMIT 3 WINDOW 1 MINUTE",
        "sums": "SELECT x FROM s GROUP BY x HAVING COUNT(*) > 0 WINDOW 50 SECONDS",
    }
    written = text(queries, placement).replace('time = "ts"', 'time = "ts"\ntime_unit = "ms"')
    path = tmp_path / "pipeline.toml"
    path.write_text(written)
    run(path, spark)
    top = pq.read_table(tmp_path / "out" / "top" / "top.parquet").to_pylist()
    every = [start + second * 1000 for second in range(120)]
    best = sorted((float(hash_of(t)) for t in every if t >= every[-1] - 60_000), reverse=True)[:3]
    assert [row["score"] for row in top if row["query"] == "best"] == best
    changes = outputs(tmp_path / "out", "changes")
    assert {row["time"] for rows in changes for row in rows} <= set(every)
    report = verify_pipeline(path)
    assert report.ok, str(report)
    path.write_text(written.replace('"ms"', '"us"'))
    with pytest.raises(SkybandError, match="'time_unit' of stream 's' is not that"):
        run(path, spark)


def hash_of(time: int) -> int:
    return time // 1000 * 7919 % 1009
