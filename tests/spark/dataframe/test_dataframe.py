"""watch and answers: batch DataFrames, several streams, tops in update mode, current answers, Columns."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.dataframe.test_watch import SPARK_SCHEMA, in_watch_order
from tests.spark.kinds import QUERIES, Folded, Truth, make_steps, write_step
from tests.spark.streams import Row

import skyband as sb
from skyband.core.errors import SkybandError
from skyband.spark import answers, watch
from skyband.spark.dataframe import current
from skyband.spark.dataframe.watching import _streams

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ASKED = {name: sql for name, sql in QUERIES.items() if "FROM up" not in sql}
Step = Mapping[str, list[Row]]


def ordered(step: Step) -> dict[str, list[Row]]:
    """A micro-batch's rows as `watch` numbers them."""
    return {name: in_watch_order(step[name]) if name != "up" else [] for name in ("one", "two", "up")}


def in_time(step: Step) -> dict[str, list[Row]]:
    return {name: in_watch_order(step[name]) for name in ("one", "two")}


def write(folder: Path, number: int, step: Step) -> None:
    """One file of each stream; Spark takes files by the time of their change."""
    write_step(folder, number, {name: step[name] for name in ("one", "two")})
    for name in ("one", "two"):
        os.utime(folder / name / f"{number:03}.parquet", (1_700_000_000 + number,) * 2)


def streamed(spark: SparkSession, folder: Path) -> dict[str, DataFrame]:
    files = spark.readStream.schema(SPARK_SCHEMA).option("maxFilesPerTrigger", 1)
    return {name: files.parquet(str(folder / name)).repartition(2) for name in ("one", "two")}


def run(changes: DataFrame, checkpoint: Path, each: Any, mode: str = "append") -> None:
    writer = changes.writeStream.foreachBatch(each).option("checkpointLocation", str(checkpoint))
    query = writer.outputMode(mode).trigger(availableNow=True).start()
    query.awaitTermination()
    assert query.exception() is None


def by_rank(truth: Truth) -> dict[str, list[tuple[int, float, str]]]:
    """The oracle's answers as `answers` shows them."""
    found = {}
    for name, top in truth.tops().items():
        ids = [id_ if id_ is not None else str(a) if b is None else f"{a},{b}" for _, (a, b, id_) in top]
        found[name] = [
            (rank, score, id_) for rank, ((score, _), id_) in enumerate(zip(top, ids, strict=True), 1)
        ]
    return {name: top for name, top in found.items() if top}


@pytest.mark.spark
@pytest.mark.parametrize("shards", [None, pytest.param(1, marks=pytest.mark.soak)])
def test_every_kind_over_two_streams(tmp_path: Path, spark: SparkSession, shards: int | None) -> None:
    """Changes fold to the oracle's answers, and `answers` has them at their ranks: also after the memory is lost."""
    steps = make_steps(4, seed=81)
    for number, step in enumerate(steps):
        write(tmp_path, number, step)
    truth, folded, seen = Truth(ASKED), Folded(), list[int]()
    answered: set[str] = set()

    def each(changes: DataFrame, batch: int) -> None:
        changes.persist()
        truth.push(ordered(steps[batch]))
        rows = [row.asDict() for row in changes.collect()]
        folded.take(sorted(rows, key=lambda row: row["change"] == "enter"))
        assert folded.equals(truth.tops())
        for lost in (False, batch == 2):
            if lost:
                current._KNOWN.clear()
            found: dict[str, list[tuple[int, float, str]]] = {}
            for row in answers(changes).orderBy("query", "rank").collect():
                found.setdefault(row["query"], []).append((row["rank"], row["score"], row["id"]))
            assert found == by_rank(truth)
        answered.update(by_rank(truth))
        seen.append(batch)

    changes = watch(streamed(spark, tmp_path), ASKED, time="ts", shards=shards)
    assert changes.columns == ["query", "change", "rank", "score", "seq", "seq_b", "id", "time"]
    run(changes, tmp_path / "checkpoint", each)
    assert seen == [0, 1, 2, 3]
    assert {*ASKED} - answered <= {"close"}  # whose window is short


@pytest.mark.spark
@pytest.mark.parametrize("shards", [None, pytest.param(1, marks=pytest.mark.soak)])
def test_tops_in_update_mode(tmp_path: Path, spark: SparkSession, shards: int | None) -> None:
    """What is upserted by query and rank, and deleted where the score is null, is the oracle's answer."""
    steps = make_steps(3, seed=82)
    for number, step in enumerate(steps):
        write(tmp_path, number, step)
    truth, table = Truth(ASKED), dict[tuple[str, int], float]()

    def each(tops: DataFrame, batch: int) -> None:
        rows = tops.collect()
        assert len(rows) == len({(row["query"], row["rank"]) for row in rows})
        for row in rows:
            if row["score"] is None:
                del table[row["query"], row["rank"]]
            else:
                table[row["query"], row["rank"]] = row["score"]
        truth.push(ordered(steps[batch]))
        expected = {(name, rank): score for name, top in by_rank(truth).items() for rank, score, _ in top}
        assert table == expected

    tops = watch(streamed(spark, tmp_path), ASKED, time="ts", shards=shards, output="tops")
    assert tops.columns[:3] == ["query", "rank", "score"]
    assert {"g", "x", "a.n", "n"} <= {*tops.columns}
    run(tops, tmp_path / "checkpoint", each, "update")
    assert len(truth.tops()["rows"]) == 5


@pytest.mark.spark
@pytest.mark.parametrize("shards", [None, 1])
def test_a_batch_has_final_answers(tmp_path: Path, spark: SparkSession, shards: int | None) -> None:
    steps = make_steps(2, seed=83)
    frames, rows = {}, {}
    for name in ("one", "two"):
        rows[name] = [row for step in steps for row in step[name]]
    write(tmp_path, 0, rows)
    frames = {name: spark.read.parquet(str(tmp_path / name)).repartition(3) for name in ("one", "two")}
    truth = Truth(ASKED)
    truth.push({**in_time(rows), "up": []})
    tops = watch(frames, ASKED, time="ts", shards=shards).collect()
    assert [row["query"] for row in tops] == [name for name in ASKED for _ in truth.tops()[name]]
    found: dict[str, list[tuple[int, float]]] = {name: [] for name in ASKED}
    for row in tops:
        found[row["query"]].append((row["rank"], row["score"]))
    assert found == {
        name: [(rank, score) for rank, (score, _) in enumerate(top, 1)] for name, top in truth.tops().items()
    }
    best = next(row for row in tops if row["query"] == "rows")
    seq = truth.tops()["rows"][0][1][0]
    first = next(row for row in truth.plain.rows["one"] if row.seq == seq).values
    assert (best["g"], best["x"]) == (first["g"], first["x"])
    assert best["b.n"] is None
    # one query by transform; the stream's name is free
    single = frames["one"].transform(watch(ASKED["rows"].replace("FROM one", "FROM cars"), time="ts"))
    assert single.columns == ["query", "rank", "score", "g", "x"]
    assert [(r["rank"], r["score"]) for r in single.collect()] == found["rows"]


@pytest.mark.spark
def test_a_batch_has_changes_along_time(tmp_path: Path, spark: SparkSession) -> None:
    rows = {name: [row for step in make_steps(2, seed=84) for row in step[name]] for name in ("one", "two")}
    write(tmp_path, 0, rows)
    frames = {name: spark.read.parquet(str(tmp_path / name)).repartition(2) for name in ("one", "two")}
    changes = watch(frames, ASKED, time="ts", output="changes")
    assert changes.columns[-2:] == ["time", "now"]
    found = [row.asDict() for row in changes.collect()]
    assert [row["now"] for row in found] == sorted(row["now"] for row in found)
    given = in_time(rows)
    times = sorted({row["ts"] for own in given.values() for row in own if row["ts"] is not None})
    truth, folded = Truth(ASKED), Folded()
    for time in times:
        step = {name: [row for row in own if row["ts"] == time] for name, own in given.items()}
        truth.push({**step, "up": []})
        mine = [row for row in found if row["now"] == _moment(time)]
        folded.take(sorted(mine, key=lambda row: row["change"] == "enter"))
        assert folded.equals(truth.tops())


def _moment(time: float) -> Any:
    from tests.spark.streams import moment

    return moment(time)


@pytest.mark.spark
def test_upserts_from_foreach_batch(tmp_path: Path, spark: SparkSession) -> None:
    """The example of the docs: a table of current answers in SQLite, and a batch that fails once in the middle."""
    steps = make_steps(3, seed=85)
    for number, step in enumerate(steps):
        write(tmp_path, number, step)
    path = tmp_path / "answers.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE tops (query TEXT, id TEXT, rank INT, score REAL, PRIMARY KEY (query, id))")
    failing = [1]

    def upsert(changes: DataFrame, batch: int) -> None:
        tops = [tuple(row) for row in answers(changes).select("query", "id", "rank", "score").collect()]
        if batch in failing:
            failing.remove(batch)
            raise RuntimeError("the database is away")
        with sqlite3.connect(path) as db:
            db.executemany(
                "INSERT INTO tops VALUES (?, ?, ?, ?) ON CONFLICT (query, id) "
                "DO UPDATE SET rank = excluded.rank, score = excluded.score",
                tops,
            )
            keys = [(query, id_) for query, id_, _, _ in tops]
            gone = {*db.execute("SELECT query, id FROM tops")} - {*keys}
            db.executemany("DELETE FROM tops WHERE query = ? AND id = ?", [*gone])

    asked = {name: ASKED[name] for name in ("rows", "groups", "pairs")}

    def start() -> None:
        run(watch(streamed(spark, tmp_path), asked, time="ts"), tmp_path / "checkpoint", upsert)

    with pytest.raises(Exception, match="the database is away"):
        start()
    start()
    truth = Truth(asked)
    for step in steps:
        truth.push(ordered(step))
    expected = {(name, id_, rank, score) for name, top in by_rank(truth).items() for rank, score, id_ in top}
    with sqlite3.connect(path) as db:
        assert {*db.execute("SELECT query, id, rank, score FROM tops")} == expected


@pytest.mark.spark
def test_queries_with_columns(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    df = spark.range(40).selectExpr("id AS a", "id % 7 AS `b c`", "CAST(id % 3 AS string) AS g")
    tops = watch(df, {"q": sb.topk(F.col("a") * 2 + F.col("b c"), 2, "30 ROWS", where=F.col("g") == "1")})
    assert sorted(row["a"] for row in tops.collect())[-1] <= 39
    parsed = {
        "x": (F.col("a") * 2 + F.sqrt("b"), "a * 2 + sqrt(b)"),
        "quotes": (F.col("`a.b`") / -2.5, '"a.b" / (-2.5)'),
        "blank": (F.col("b c") ** 2, '"b c" ^ 2'),
        "expr": (F.expr("a + 2 * b"), "a + 2 * b"),
        "alias": ((F.col("a") - 1).alias("z"), "a - 1"),
        "both": (F.greatest("a", F.abs(F.col("b"))), "greatest(a, abs(b))"),
    }
    for column, text in parsed.values():
        assert sb.topk(column, 3, "1 hour") == sb.topk(text, 3, "1 hour")
    where = (F.col("g") == "it's, (") & ~F.col("n").isin(1, 2) | F.col("q").between(1, 3)
    text = "g = 'it''s, (' AND NOT n IN (1, 2) OR q >= 1 AND q <= 3"
    assert sb.topk("a", 3, "1 hour", where=where) == sb.topk("a", 3, "1 hour", where=text)
    close = F.abs(F.col("a.x") - F.col("b.x"))
    differ = F.col("a.g") != F.col("b.g")
    assert sb.pairs(close, 3, "1 hour", differ) == sb.pairs("abs(a.x - b.x)", 3, "1 hour", "a.g <> b.g")
    grouped = sb.grouped("g", F.sum("x") + F.count("*"), 3, "1 hour", having=F.max("y") > 1)
    assert grouped == sb.grouped("g", "SUM(x) + COUNT(*)", 3, "1 hour", having="MAX(y) > 1")
    with pytest.raises(SkybandError, match="CAST is not supported"):
        sb.topk(F.col("x").cast("double"), 3, "1 hour")


@pytest.mark.spark
def test_mistakes_of_frames(spark: SparkSession) -> None:
    df = spark.range(3)
    stream = spark.readStream.format("rate").load()
    one = "SELECT id FROM s ORDER BY id LIMIT 1 WINDOW 5 ROWS"
    with pytest.raises(SkybandError, match="must all be streaming, or none"):
        watch({"s": df, "t": stream}, one)
    with pytest.raises(SkybandError, match="reads the stream s, and the DataFrames are called r"):
        watch({"r": df}, one)
    with pytest.raises(SkybandError, match=r'output="changes" of a batch DataFrame needs time='):
        watch(df, one, output="changes")
    with pytest.raises(SkybandError, match="answers needs changes as watch gives them"):
        answers(df)
    both = {"a": one, "b": "SELECT 'x' || id AS id FROM s ORDER BY id LIMIT 1 WINDOW 5 ROWS"}
    with pytest.raises(SkybandError):
        watch(df, both)
    changes = watch(stream, "SELECT value FROM s ORDER BY value LIMIT 1 WINDOW 5 ROWS", time="timestamp")
    with pytest.raises(SkybandError, match="foreachBatch"):
        answers(spark.createDataFrame([], changes.schema))


@pytest.mark.spark
def test_the_time_column_is_the_watermarks(spark: SparkSession) -> None:
    rates = spark.readStream.format("rate").load()
    assert _streams({"s": rates.withWatermark("timestamp", "1 minute")}, None).time == {"s": "timestamp"}
    assert _streams({"s": rates}, None).time == {}


@pytest.mark.spark
def test_a_notebook_shows_the_tops(spark: SparkSession) -> None:
    """With eager evaluation a cell's last expression is a table, as of any batch DataFrame."""
    df = spark.range(9).selectExpr("id AS x")
    tops = watch(df, "SELECT x FROM s ORDER BY x DESC LIMIT 2 WINDOW 50 ROWS")
    spark.conf.set("spark.sql.repl.eagerEval.enabled", True)
    try:
        shown = tops._repr_html_()  # type: ignore[operator]
    finally:
        spark.conf.unset("spark.sql.repl.eagerEval.enabled")
    assert shown is not None and shown.count("<tr>") == 3 and "8.0" in shown
