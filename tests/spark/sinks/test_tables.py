"""SQLite and a real PostgreSQL as sinks: one transaction a batch, once, whatever was killed."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.spark.database import Database, database
from tests.spark.sinks.test_sinks import CHANGES, REJECTS
from tests.spark.streams import QUERIES, Truth, as_answers, make_files, pipeline_text, write_file

from skyband.core.errors import InputError
from skyband.spark import run_pipeline, verify_pipeline
from skyband.spark.config import TABLES, SinkSpec
from skyband.spark.sinks import TOP_SCHEMA, make_sink
from skyband.spark.sinks.tables import TableSink, table_sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Ask = Callable[[str], list[Any]]


@pytest.fixture(scope="module")
def server() -> Iterator[Database]:
    with database() as made:
        yield made


def tops(*rows: tuple[str, int, float]) -> pa.Table:
    return pa.Table.from_pylist(
        [{"query": q, "rank": r, "score": s, "row": '{"x": 1}'} for q, r, s in rows], schema=TOP_SCHEMA
    )


def of(table: pa.Table, batch: int) -> pa.Table:
    return table.set_column(0, "batch", pa.array([batch] * table.num_rows, pa.int64()))


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[SinkSpec, Ask]:
    """A sink's settings, and how to look at what is there."""
    if request.param == "sqlite":
        path = tmp_path / "deep" / "out.db"

        def ask(sql: str) -> list[Any]:
            with sqlite3.connect(path) as connection:
                return connection.execute(sql).fetchall()

        return SinkSpec("sqlite", path, tuple(TABLES.items())), ask
    server: Database = request.getfixturevalue("server")
    names = {
        name: f"t_{tmp_path.name}_{name}".replace("-", "_").replace("[", "").replace("]", "")
        for name in TABLES
    }

    def look(sql: str) -> list[Any]:
        for name, table in TABLES.items():
            sql = sql.replace(table, f'"{names[name]}"')
        return server.ask(sql)

    return SinkSpec("postgres", None, (*names.items(), ("url", server.url))), look


def test_a_batch_is_there_once(place: tuple[SinkSpec, Ask]) -> None:
    spec, ask = place
    sink = make_sink(spec)
    assert isinstance(sink, TableSink)
    sink.prepare(True)
    for again in range(2):
        for batch in (7, 8):
            changes = of(CHANGES, batch)
            answer = tops(("q", 1, float(batch)), ("q", 2, 0.5), ("other", 1, float("inf")))
            sink.put(batch, changes, REJECTS if batch == 7 else REJECTS.slice(0, 0), answer)
        if not again:  # another process does the last batches again
            sink = table_sink(spec)
            sink.prepare(False)
    found = ask(
        "SELECT batch, number, query, change, rank, score, seq, seq_b, id FROM skyband_changes ORDER BY 1, 2"
    )
    lines = [(0, "q", "leave", None, 0.5, 3, None, None), (1, "q", "enter", 1, float("inf"), 4, None, None)]
    assert found == [(batch, *line) for batch in (7, 8) for line in lines]
    times = [row[0] for row in ask("SELECT time FROM skyband_changes ORDER BY batch, number")]
    whole = datetime(2020, 1, 1)
    assert times[0] in (whole, whole.isoformat())
    assert ask("SELECT * FROM skyband_rejects") == [(7, 0, 5, "s", "type", "d", "abc")]
    assert ask("SELECT query, rank, score FROM skyband_top ORDER BY 1, 2") == [
        ("other", 1, float("inf")), ("q", 1, 8.0), ("q", 2, 0.5),
    ]  # fmt: skip
    # an answer that shrinks, one that goes, one that comes
    sink.put(9, CHANGES.slice(0, 0), REJECTS.slice(0, 0), tops(("q", 1, 8.0), ("new", 1, 1.0)))
    assert ask("SELECT query, rank FROM skyband_top ORDER BY 1, 2") == [("new", 1), ("q", 1)]
    assert ask("SELECT * FROM skyband_batches ORDER BY 1") == [(7, 2, 1), (8, 2, 0), (9, 0, 0)]
    with pytest.raises(InputError, match="holds the output of another run, and the checkpoint is new"):
        table_sink(spec).prepare(True)


@pytest.mark.parametrize(
    "times", [pa.array([date(2020, 1, 1), None]), pa.array([Decimal("1.5"), None]), pa.array([1.5, None])]
)
def test_times_of_every_kind(place: tuple[SinkSpec, Ask], times: Any) -> None:
    """They are read back as `skyband verify` expects them."""
    sink = table_sink(place[0])
    at = CHANGES.schema.get_field_index("time")
    sink.put(7, CHANGES.set_column(at, "time", times), REJECTS, TOP_SCHEMA.empty_table())
    told = [row["time"] for row in sink.rows("changes", 7)]
    assert told == [sink.shown(times[0].as_py()), None]


def test_a_transaction_that_fails_leaves_nothing(place: tuple[SinkSpec, Ask]) -> None:
    spec, ask = place
    sink = table_sink(spec)
    sink.prepare(True)
    sink.put(0, of(CHANGES, 0), of(REJECTS, 0), tops(("q", 1, 1.0)))
    twice = tops(
        ("q", 1, 2.0), ("q", 1, 2.0)
    )  # the second place breaks the key, after all else has been written
    with pytest.raises(
        InputError, match=r"Batch 1 cannot be put into \w+ \(.*\): see to the database; the next start"
    ):
        sink.put(1, of(CHANGES, 1), of(REJECTS, 1), twice)
    assert ask("SELECT batch FROM skyband_batches") == [(0,)]
    assert ask("SELECT score FROM skyband_top") == [(1.0,)]
    sink.put(1, of(CHANGES, 1), of(REJECTS, 1), tops(("q", 1, 2.0)))
    assert ask("SELECT batch FROM skyband_batches ORDER BY 1") == [(0,), (1,)]


def test_what_cannot_be_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"The folder of .* cannot be made"):
        table_sink(SinkSpec("sqlite", tmp_path / "file" / "out.db", tuple(TABLES.items()))).prepare(True)
    with pytest.raises(InputError, match="SQLite cannot be reached"):
        table_sink(SinkSpec("sqlite", tmp_path, tuple(TABLES.items()))).prepare(True)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    spec = SinkSpec("postgres", None, (*TABLES.items(), ("url", f"postgresql://x@/y?host={tmp_path}")))
    with pytest.raises(
        InputError, match=r"needs psycopg .*: install it with 'pip install skyband\[postgres\]'"
    ):
        table_sink(spec)


@pytest.mark.spark
def test_pipelines_into_databases(tmp_path: Path, spark: SparkSession, server: Database) -> None:
    """PostgreSQL is killed after the second batch, and another time while the pipeline runs: nothing lost or twice."""
    files = make_files(5, seed=12, rows=(20, 60))
    truth = Truth(QUERIES)
    for name, sink in (
        ("lite", '[sink]\nformat = "sqlite"\npath = "out.db"\n'),
        ("post", f'[sink]\nformat = "postgres"\nurl = "{server.url}"\n'),
    ):
        for number, rows in enumerate(files):
            write_file(tmp_path / name / "data" / f"{number}.parquet", rows)
        (tmp_path / name / "pipeline.toml").write_text(pipeline_text(QUERIES, sink=sink))
    lite, post = tmp_path / "lite" / "pipeline.toml", tmp_path / "post" / "pipeline.toml"
    run_pipeline(lite, available_now=True, on_batch=lambda info: None, spark=spark)

    def killed(info: Any) -> None:
        if info.batch == 1:
            server.kill()

    with pytest.raises(
        InputError, match=r"Batch 2 cannot be put into PostgreSQL \(.*\): see to the database"
    ):
        run_pipeline(post, available_now=True, on_batch=killed, spark=spark)
    with pytest.raises(InputError, match=r"PostgreSQL cannot be reached \("):
        run_pipeline(post, available_now=True, spark=spark)
    server.start()

    def restarted(info: Any) -> None:
        if info.batch == 3:  # gone and there again between two batches: the connection is made anew
            server.kill()
            server.start()

    run_pipeline(post, available_now=True, on_batch=restarted, spark=spark)
    connection = sqlite3.connect(tmp_path / "lite" / "out.db")
    statement = "SELECT batch, number, query, change, rank, score, seq FROM skyband_changes ORDER BY 1, 2"
    changes = connection.execute(statement).fetchall()
    assert server.ask(statement) == changes
    folded: dict[str, dict[int, float]] = {}
    for batch, rows in enumerate(files):
        truth.push(list(rows))
        for _, _, query, change, _, score, seq in (row for row in changes if row[0] == batch):
            answer = folded.setdefault(query, {})
            if change == "leave":
                del answer[seq]
            else:
                answer[seq] = score
        assert {name: answer for name, answer in folded.items() if answer} == as_answers(truth.tops())
    for path in (lite, post):
        report = verify_pipeline(path)
        assert report.ok, str(report)
        assert report.batches == 5
    server.ask("UPDATE skyband_top SET score = score + 1 WHERE query = 'rows' AND rank = 1 RETURNING 1")
    assert "query 'rows': the table skyband_top does not hold its answer" in str(verify_pipeline(post))
