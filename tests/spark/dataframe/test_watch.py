"""watch(df): a streaming DataFrame of changes equals the oracle on every micro-batch."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from tests.object_oracle import ObjectOracle, total
from tests.oracle import Oracle
from tests.spark.streams import (
    OTHER,
    QUERIES,
    SCHEMA,
    Row,
    Truth,
    as_answers,
    make_files,
    moment,
    number,
    write_file,
)

from skyband import Monitor
from skyband.core import blob
from skyband.core.errors import SkybandError
from skyband.spark import watch
from skyband.spark.dataframe.tasks import _pack_keys
from skyband.spark.dataframe.units import restored
from skyband.spark.executors.hashing import in_order, stable_hash

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ASKED = {name: QUERIES[name] for name in ("rows", "seconds", "above", "ties")}
CLOSE = "SELECT a.x, b.x FROM s a, s b ORDER BY abs(a.y - b.y) LIMIT 5 WINDOW 30 SECONDS"
SUMS = "SELECT g, n, SUM(x) FROM s GROUP BY g, n ORDER BY SUM(x) DESC LIMIT 6 WINDOW 70 ROWS"
SPARK_SCHEMA = "ts timestamp_ntz, x double, y double, n bigint, g string"


def arrow(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([{**row, "ts": moment(row["ts"])} for row in rows], schema=SCHEMA)


def in_watch_order(rows: list[Row]) -> list[Row]:
    """Rows of a micro-batch as `watch` numbers them."""
    hashed = stable_hash(arrow(rows))
    order = sorted(
        range(len(rows)), key=lambda i: (rows[i]["ts"] is None, rows[i]["ts"] or 0.0, int(hashed[i]))
    )
    assert in_order(arrow(rows), "ts").equals(arrow([rows[i] for i in order]))
    return [rows[i] for i in order]


@pytest.mark.spark
@pytest.mark.parametrize("shards", [pytest.param(1, marks=pytest.mark.soak), 2])
def test_equals_the_oracle(tmp_path: Path, spark: SparkSession, shards: int) -> None:
    files = make_files(3, seed=50)
    truth = Truth({})
    truth.oracle = oracle = ObjectOracle(time="ts")
    truth.set_queries(ASKED)
    answers: dict[str, dict[int, float]] = {}
    out = tmp_path / "out"

    def start(queries: dict[str, str]) -> list[Row]:
        df = (
            spark.readStream.schema(SPARK_SCHEMA)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(tmp_path / "data"))
        )
        changes = watch(df.repartition(2), queries, time="ts", shards=shards)
        query = (
            changes.writeStream.format("parquet")
            .option("path", str(out))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert query.exception() is None
        return [row.asDict() for row in spark.read.parquet(str(out)).collect()]

    # One file a run, so that what each micro-batch changed can be told apart; the last runs with other queries.
    seen = 0
    queries = {**ASKED, "close": CLOSE, "sums": SUMS}
    oracle.watch("close", lambda row: 0.0, 1, ("seconds", 30))
    oracle.watch_objects(
        "sums", ("g", "n"), lambda rows: total([row["x"] for row in rows]), 6, ("rows", 70), ("g", "n", "x")
    )
    for place, rows in enumerate(files):
        write_file(tmp_path / "data" / f"{place}.parquet", rows)
        if place == 2:
            queries = {"ties": ASKED["ties"], "other": OTHER, "sums": SUMS}
            truth.change_queries({name: sql for name, sql in queries.items() if name != "sums"})
            oracle.drop("close")
        told = start(queries)
        truth.push(in_watch_order(rows))
        new = sorted(told, key=lambda row: row["change"] == "enter")
        answers = fold([row for row in new if row["query"] not in ("close", "sums")])
        names = [name for name in oracle.watches if name not in ("close", "sums")]
        tops = {name: [(r.rank, r.score, r.seq) for r in oracle.top(name)] for name in names}
        assert answers == as_answers(tops)
        assert folded_groups(new) == {(ranked.id, ranked.score) for ranked in oracle.top("sums")}
        assert folded_pairs(new) == (closest(truth.oracle) if place < 2 else {})
        assert len(told) > seen
        seen = len(told)
    assert {type(row["seq"]) for row in told if row["query"] != "sums"} == {int}
    assert all(row["rank"] is None for row in told if row["change"] == "leave")
    assert all(row["time"] is not None for row in told)


def closest(oracle: Oracle) -> dict[tuple[int, int], float]:
    """The answer to CLOSE, from all pairs of the window."""
    start = oracle._start(oracle.watches["close"])
    rows = [row for row in oracle.rows["s"] if row.recency > start and number(row.values["y"])]
    scored = [(abs(a.values["y"] - b.values["y"]), a, b) for at, b in enumerate(rows) for a in rows[:at]]
    scored.sort(key=lambda pair: (pair[0], *(-part for row in pair[1:] for part in row.recency)))
    assert len(scored) > 5
    return {(a.seq, b.seq): score for score, a, b in scored[:5]}


def folded_pairs(rows: list[Row]) -> dict[tuple[int, int], float]:
    """What the changes of CLOSE add up to; a pair enters and leaves at most once."""
    answer: dict[tuple[int, int], float] = {}
    for row in rows:  # those that enter come last
        if row["query"] == "close" and row["change"] == "enter":
            assert (row["seq"], row["seq_b"]) not in answer
            answer[row["seq"], row["seq_b"]] = row["score"]
    for row in rows:
        if row["query"] == "close" and row["change"] == "leave":
            assert answer.pop((row["seq"], row["seq_b"])) == row["score"]
    return answer


def folded_groups(rows: list[Row]) -> set[tuple[str, float]]:
    """What the changes of SUMS add up to: a group whose sum changes leaves and enters."""
    balance = Counter[tuple[str, float]]()
    for row in rows:
        if row["query"] == "sums":
            assert row["seq"] is None and row["seq_b"] is None
            balance[row["id"], row["score"]] += 1 if row["change"] == "enter" else -1
    assert {*balance.values()} <= {0, 1}
    return {group for group, count in balance.items() if count}


def fold(rows: list[Row]) -> dict[str, dict[int, float]]:
    """All changes so far, in whatever order the files gave them: a row enters and leaves at most once here."""
    answers: dict[str, dict[int, float]] = {}
    balance: dict[tuple[str, int], int] = {}
    scores: dict[tuple[str, int], float] = {}
    for row in rows:
        key = (row["query"], row["seq"])
        balance[key] = balance.get(key, 0) + (1 if row["change"] == "enter" else -1)
        scores[key] = row["score"]
    for (query, seq), count in balance.items():
        assert count in (0, 1)
        if count:
            answers.setdefault(query, {})[seq] = scores[query, seq]
    return answers


@pytest.mark.spark
def test_mistakes_are_found_where_they_are_made(spark: SparkSession) -> None:
    df: DataFrame = spark.readStream.format("rate").load()
    with pytest.raises(SkybandError, match="no column 'ts'"):
        watch(df, ["SELECT value FROM s ORDER BY value LIMIT 1 WINDOW 5 ROWS"], time="ts")
    with pytest.raises(SkybandError, match="valu"):
        watch(df, ["SELECT value FROM s ORDER BY valu LIMIT 1 WINDOW 5 ROWS"])
    with pytest.raises(SkybandError, match="at least one query"):
        watch(df, [])
    with pytest.raises(SkybandError, match="shards= must be a whole number of at least 1, not 0"):
        watch(df, ["SELECT value FROM s ORDER BY value LIMIT 1 WINDOW 5 ROWS"], shards=0)
    with pytest.raises(SkybandError, match="needs a DataFrame, or several by their streams' names, not int"):
        watch(3, ["SELECT id FROM s ORDER BY id LIMIT 1 WINDOW 5 ROWS"])  # type: ignore[call-overload]
    with pytest.raises(SkybandError, match='output= is "changes" or "tops", not \'all\''):
        watch(df, ["SELECT value FROM s ORDER BY value LIMIT 1 WINDOW 5 ROWS"], output="all")
    joined = "SELECT id FROM r FULL JOIN q USING (id) ORDER BY x + y LIMIT 3 WINDOW 9 ROWS"
    with pytest.raises(SkybandError, match="joins several streams, and watch has one DataFrame"):
        watch(df, [joined])
    changes = watch(df, "SELECT value FROM s ORDER BY value LIMIT 1 WINDOW 5 ROWS", time="timestamp")
    assert changes.columns == ["query", "change", "rank", "score", "seq", "seq_b", "id", "time"]


def test_the_state_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    state = Monitor().to_bytes()
    assert restored(state).rows_seen == 0
    monkeypatch.setattr("skyband.core.blob.FORMAT", 99)
    with pytest.raises(
        SkybandError, match=r"^The state of this query in Spark's checkpoint is in format .* empty"
    ):
        restored(state)


def test_the_hash_is_the_rows_own() -> None:
    rows = make_files(1, seed=60, rows=(300, 301))[0]
    table = arrow(rows)
    once = stable_hash(table)
    order = list(range(len(rows)))
    random.Random(2).shuffle(order)
    assert (stable_hash(table.take(pa.array(order))) == once[order]).all()
    assert (stable_hash(table.select(["g", "n", "ts", "y", "x"])) == once).all()
    assert len(np.unique(once)) == len({tuple(row.items()) for row in rows})
    # Written down: another process, another day, another machine must find the same.
    small = pa.table({"a": [1, None], "b": ["x", "y"], "c": [0.5, None]})
    assert [int(h) for h in stable_hash(small)] == HASHES


HASHES = [17486069385327594895, 5928151707100457312]


@pytest.mark.spark
@pytest.mark.parametrize("shards, kind", [(1, "decimal(20, 3)"), (2, "date")])
def test_names_and_times_of_every_kind(tmp_path: Path, spark: SparkSession, shards: int, kind: str) -> None:
    """A name may have dots and quotes in it, and a time may be a date or a decimal, however many units there are."""
    days = spark.range(6).selectExpr(
        "CAST(CAST(id AS string) AS decimal(20, 3)) AS `a.b`", "id % 3 AS `a``b`", "id * 86400 AS seconds"
    )
    when = "date_add(date'1970-01-01', CAST(seconds / 86400 AS int))" if kind == "date" else "seconds"
    rows = days.selectExpr("`a.b`", "`a``b`", f"CAST({when} AS {kind}) AS `the time`")
    rows.repartition(2).write.parquet(str(tmp_path / "data"))
    df = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "data"))
    sql = 'SELECT "a`b" FROM s ORDER BY "a.b" + "a`b" DESC LIMIT 3 WINDOW 2 DAYS'
    changes = watch(df, {"q": sql}, time="the time", shards=shards)
    name = f"kinds_{shards}_{kind[:4]}"
    query = changes.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    query.awaitTermination()
    told = spark.table(name).orderBy("rank").select("rank", "score", "seq", "time").collect()
    assert [tuple(row)[:3] for row in told] == [(1, 7.0, 5), (2, 5.0, 4), (3, 3.0, 3)]
    assert changes.schema["time"].dataType == rows.schema["the time"].dataType
    assert [row["time"] for row in told] == [
        row[0] for row in rows.orderBy("`the time`", ascending=False).select("`the time`").limit(3).collect()
    ]


@pytest.mark.parametrize(
    "kind", [pa.date32(), pa.decimal128(20, 3), pa.timestamp("us"), pa.float64(), pa.int16()]
)
def test_times_have_one_order_in_arrow_and_numpy(kind: pa.DataType) -> None:
    times = pa.chunked_array([pa.array([3, 1, None, 2, -5], kind)])
    rows = pa.table({"ts": times, "n": [0, 1, 2, 3, 4]})
    assert in_order(rows, "ts")["n"].to_pylist() == [4, 1, 3, 0, 2]
    keys = blob.from_bytes(_pack_keys(rows, "ts"))
    assert np.lexsort([keys[name] for name in ("hash", "time", "none")]).tolist() == [4, 1, 3, 0, 2]
