"""What `skyband verify` says about output that is not what it should be: one run, spoiled in every way."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.streams import QUERIES, make_files, pipeline_text, write_file

from skyband.core.errors import InputError
from skyband.files.rows import BadRow, Chunk
from skyband.query.model import Threshold, TopK
from skyband.query.sql.parser import parse
from skyband.spark import run_pipeline, verify_pipeline
from skyband.spark.config import load_pipeline
from skyband.spark.sinks import TOP_SCHEMA, json_bytes, make_sink
from skyband.spark.verify.brute import Brute, Ranked, Unfit
from skyband.spark.verify.compare import Report, _may_miss, _Verification
from skyband.spark.verify.due import wrong_form
from skyband.spark.verify.outputs import output_of
from skyband.stream.rejects import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ASKED = {
    "rows": QUERIES["rows"],
    "half": "SELECT g, y / 2 AS half FROM s ORDER BY x DESC LIMIT 20 WINDOW 90 ROWS",
}
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A folder with a pipeline of three batches; `before` is its output before the last one."""
    folder = tmp_path_factory.mktemp("finished")
    path = folder / "pipeline.toml"
    path.write_text(pipeline_text(ASKED))
    for number, rows in enumerate(make_files(3, seed=41)):
        write_file(folder / "data" / f"{number}.parquet", rows)
        if number:
            run_pipeline(path, available_now=True, on_batch=lambda info: None, spark=spark)
        if number == 1:
            shutil.copytree(folder / "out", folder / "before")
    return folder


@pytest.fixture
def out(finished: Path) -> Path:
    """The output folder, as it should be; a test may spoil it."""
    fresh = finished / "fresh"
    if not fresh.exists():
        shutil.copytree(finished / "out", fresh)
    shutil.rmtree(finished / "out", ignore_errors=True)
    return Path(shutil.copytree(fresh, finished / "out"))


def spoil(path: Path, change: Callable[[Rows], Any]) -> None:
    table = pq.read_table(path)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)


def first(rows: Rows, change: str, query: str = "rows") -> dict[str, Any]:
    return next(row for row in rows if row["change"] == change and row["query"] == query)


def as_another(rows: Rows, change: str, **values: Any) -> None:
    rows.append({**first(rows, change), **values})


def swap(rows: Rows) -> None:
    one, other = first(rows, "enter"), first(rows[::-1], "enter")
    for column in ("seq", "score", "time"):
        one[column], other[column] = other[column], one[column]


CHANGES: dict[str, tuple[Callable[[Rows], Any], str]] = {
    "another batch's": (
        lambda rows: rows[0].update(batch=7),
        "the changes of batch 1 say that they are of batch 7.",
    ),
    "a stranger leaves": (
        lambda rows: as_another(rows, "leave", seq=10**6),
        "batch 1: row 1000000 leaves query 'rows' and never was in it.",
    ),
    "one enters twice": (lambda rows: as_another(rows, "enter"), "enters query 'rows' and is in it already."),
    "a stranger enters": (
        lambda rows: as_another(rows, "enter", seq=10**6),
        "batch 1, query 'rows': row 1000000 should not be there.",
    ),
    "another score": (lambda rows: first(rows, "enter").update(score=0.5), "has score 0.5 and should have "),
    "one does not enter": (lambda rows: rows.remove(first(rows, "enter")), " is missing."),
    "another rank": (
        lambda rows: first(rows[::-1], "enter").update(rank=9),
        " enters with rank 9 and should with ",
    ),
    "no rank": (
        lambda rows: first(rows, "enter").update(rank=None),
        " enters with rank None, which is none.",
    ),
    "another time": (
        lambda rows: first(rows, "enter").update(time=datetime(2001, 1, 1)),
        " enters with time 2001-01-01 00:00:00 and should with 2023-",
    ),
    "another time at leaving": (
        lambda rows: first(rows, "leave").update(time=None),
        " leaves with time None and should with 2023-",
    ),
    "another score at leaving": (
        lambda rows: first(rows, "leave").update(score=0.5),
        " leaves query 'rows' with another score than it entered with, 0.5.",
    ),
    "a rank at leaving": (
        lambda rows: first(rows, "leave").update(rank=1),
        " leaves with rank 1 and should ",
    ),
    "another change": (
        lambda rows: rows.append({**rows[0], "change": "stay"}),
        " is 'stay' and should be leave or enter.",
    ),
    "another order": (
        lambda rows: rows.sort(key=lambda row: str(row["change"])),
        "leaves after others have entered: leaves come first.",
    ),
    "another order of enters": (
        lambda rows: rows.sort(key=lambda row: row["change"] == "enter" and -row["rank"]),
        ": enters come by rank.",
    ),
    "another row at a rank": (swap, " enters out of order: enters come by rank."),
    "an unknown query": (
        lambda rows: as_another(rows, "enter", query="other"),
        "batch 1 has changes of 'other', which is not a query.",
    ),
}


@pytest.mark.spark
@pytest.mark.parametrize("case", CHANGES)
def test_changes_that_are_wrong(finished: Path, out: Path, case: str) -> None:
    change, sentence = CHANGES[case]
    spoil(out / "changes" / "batch-1.parquet", change)
    report = verify_pipeline(finished / "pipeline.toml")
    assert not report.ok and report.difference is not None
    assert sentence in report.difference
    assert f"then a difference: {report.difference}" in str(report)


REJECTS: dict[str, tuple[Callable[[Rows], Any], str]] = {
    "another batch's": (lambda rows: rows[0].update(batch=7), "say that they are of batch 7."),
    "one twice": (lambda rows: rows.append(rows[0]), " is rejected twice."),
    "no row": (lambda rows: rows[0].update(seq=None), "row None is rejected and is no row."),
    "another text": (
        lambda rows: untimed(rows).update(raw="{}"),
        " has raw '{}' and should have '{\"ts\": null",
    ),
    "another stream": (lambda rows: untimed(rows).update(stream="t"), " has stream 't' and should have 's'."),
}


def untimed(rows: Rows) -> dict[str, Any]:
    return next(row for row in rows if row["reason"] == "time")


@pytest.mark.spark
@pytest.mark.parametrize("case", REJECTS)
def test_rejects_that_are_wrong(finished: Path, out: Path, case: str) -> None:
    change, sentence = REJECTS[case]
    spoil(out / "rejects" / "batch-1.parquet", change)
    assert sentence in str(verify_pipeline(finished / "pipeline.toml").difference)


@pytest.mark.spark
@pytest.mark.parametrize(
    "name", ["changes/batch-3.parquet", "changes/x", "top/.x", "rejects/batch-3.parquet"]
)
def test_files_of_no_batch(finished: Path, out: Path, name: str) -> None:
    shutil.copy(out / "changes" / "batch-1.parquet", out / name)
    report = verify_pipeline(finished / "pipeline.toml")
    assert report.difference == f"{out / name} is the output of no batch."


def without(path: Path, column: str) -> None:
    pq.write_table(pq.read_table(path).drop_columns([column]), path)


def with_one_more(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.append_column("more", table.column(0)), path)


BROKEN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "garbage": (
        lambda path: path.write_bytes(b"garbage" * 9),
        " cannot be read (Parquet magic bytes not found",
    ),
    "empty": (lambda path: path.write_bytes(b""), " cannot be read (Parquet file size is 0 bytes"),
    "a column less": (
        lambda path: without(path, "score" if "seq" not in pq.read_schema(path).names else "seq"),
        " lacks the column 's",
    ),
    "a column more": (with_one_more, " has a column too many, 'more': bring it back from a copy, or run"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), " cannot be read ("),
}


@pytest.mark.spark
@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize("name", ["changes/batch-1.parquet", "rejects/batch-1.parquet", "top/top.parquet"])
def test_files_that_cannot_be_read(finished: Path, out: Path, case: str, name: str) -> None:
    spoil_file, sentence = BROKEN[case]
    spoil_file(out / name)
    with pytest.raises(InputError) as told:
        verify_pipeline(finished / "pipeline.toml")
    assert str(told.value).startswith(f"{out / name}{sentence}")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("garbage\n", "cannot be read (Expecting value"),
        ("[1]\n", "cannot be read (a line is no object)"),
        ('{"query": "q"}\n', "lacks the column 'rank'"),
        ('{"query": "q", "rank": [1], "score": 1, "row": "{}"}\n', "has lists or objects for values"),
        ("\xff", "cannot be read ('utf-8' codec"),
    ],
)
def test_lines_that_cannot_be_read(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text(
        pipeline_text(ASKED).replace('format = "parquet"\npath = "out"', 'format = "json"\npath = "out"')
    )
    output = output_of(load_pipeline(path))
    top = tmp_path / "out" / "top" / "top.json"
    top.parent.mkdir(parents=True)
    top.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError) as told:
        output.tops()
    assert str(told.value).startswith(f"{top} {sentence}")
    rows = [{"query": "q", "rank": 1, "score": 1.0, "row": "a\u2028b"}]
    top.write_bytes(json_bytes(pa.Table.from_pylist(rows)))
    assert output.tops() == rows


def test_a_checkpoint_that_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text(pipeline_text(ASKED))
    (tmp_path / "checkpoint").touch()
    with pytest.raises(
        InputError, match=r"The checkpoint .*/checkpoint is a file and no folder: name the right one"
    ):
        verify_pipeline(path)


@pytest.mark.spark
def test_rejects_and_tops_that_are_wrong(finished: Path, out: Path) -> None:
    def difference() -> str:
        return str(verify_pipeline(finished / "pipeline.toml").difference)

    path = finished / "pipeline.toml"
    assert verify_pipeline(path).ok, difference()
    rejects = next((out / "rejects").iterdir())
    spoil(rejects, lambda rows: rows.remove(next(row for row in rows if row["reason"] == "time")))
    assert "is rejected for None and should be for time." in difference()
    shutil.copy(finished / "fresh" / "rejects" / rejects.name, rejects)

    top = out / "top" / "top.parquet"
    spoil(top, lambda rows: rows[0].update(row="{}"))
    assert difference() == f"query 'rows': {top} does not hold its answer."
    shutil.copy(finished / "fresh" / "top" / "top.parquet", top)
    spoil(top, lambda rows: rows.append({**rows[0], "query": "other"}))
    assert difference() == f"{top} has rows of 'other', which is not a query."


@pytest.fixture
def uncommitted(finished: Path) -> Iterator[None]:
    """As if the last batch had been killed before Spark committed it."""
    commit = finished / "checkpoint" / "commits" / "2"
    text = commit.read_bytes()
    commit.unlink()
    yield
    commit.write_bytes(text)


@pytest.mark.spark
def test_a_last_batch_without_output_is_left_to_the_next_start(
    finished: Path, out: Path, uncommitted: None
) -> None:
    last = out / "changes" / "batch-2.parquet"
    assert verify_pipeline(finished / "pipeline.toml").batches == 3
    shutil.copy(
        finished / "before" / "top" / "top.parquet", out / "top"
    )  # killed between changes and answers
    report = verify_pipeline(finished / "pipeline.toml")
    assert report.ok and report.batches == 3
    last.unlink()  # killed before either
    report = verify_pipeline(finished / "pipeline.toml")
    assert report.ok and report.batches == 2


@pytest.mark.spark
def test_output_that_was_committed_and_is_gone(finished: Path, out: Path) -> None:
    for kind in ("changes", "rejects"):
        (out / kind / "batch-2.parquet").unlink()
    report = verify_pipeline(finished / "pipeline.toml")
    assert report.difference == "the output of batch 2 is missing." and report.batches == 2
    shutil.rmtree(out)
    report = verify_pipeline(finished / "pipeline.toml")
    assert report.difference == "the output of batch 0 is missing." and report.batches == 0


@pytest.mark.spark
def test_a_batch_that_the_checkpoint_does_not_know(finished: Path, out: Path) -> None:
    log = finished / "checkpoint" / "skyband" / "batches.jsonl"
    text = log.read_text()
    try:
        log.write_text("".join(line for line in text.splitlines(True) if json.loads(line)["batch"] != 1))
        report = verify_pipeline(finished / "pipeline.toml")
        assert report.difference == "batch 1 is missing from the checkpoint."
    finally:
        log.write_text(text)


def test_a_console_leaves_nothing_to_verify(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text(pipeline_text(ASKED, sink=""))
    with pytest.raises(InputError, match=r"pipeline\.toml: a console sink leaves nothing to verify"):
        verify_pipeline(path)


def asked(sql: str) -> TopK | Threshold:
    query = parse(sql)
    assert isinstance(query, TopK | Threshold)
    return query


def test_the_brute_force_itself() -> None:
    """Rows that don't fit, rows without a time, a stream without times, and a window before there is any time."""
    schema = pa.schema([("t", pa.timestamp("us")), ("x", pa.float64())])
    brute = Brute({"s": schema, "r": pa.schema([("x", pa.float64())])}, {"s": "t", "r": None})
    brute.watch("timed", asked("SELECT x FROM s ORDER BY x DESC LIMIT 2 WINDOW 5 SECONDS"))
    brute.watch("plain", asked("SELECT x FROM r ORDER BY x DESC LIMIT 2 WINDOW 3 ROWS"))
    assert brute.top("timed") == []
    brute.push([("r", Chunk(pa.table({"x": ["1", "2"]}))), ("s", Chunk(schema.empty_table()))])
    assert brute.unfit == {place: Unfit("type", "r", f'{{"x": "{place + 1}"}}') for place in (0, 1)}
    assert brute.top("timed") == brute.top("plain") == []
    brute.push([("r", Chunk(pa.table({"x": [1.0, 2.0]}), [BadRow(1, "", "nothing")]))])
    assert brute.unfit == {3: Unfit("type", "r", "nothing")}
    assert [(row.seq, row.score) for row in brute.top("plain")] == [(4, 2.0), (2, 1.0)]
    when = datetime(2024, 1, 1)
    brute.push([("s", Chunk(pa.table({"t": [when, None], "x": [1.0, 2.0]}, schema=schema)))])
    assert brute.unfit == {6: Unfit("time", "s", '{"t": null, "x": 2.0}')}
    assert [(row.seq, row.time) for row in brute.top("timed")] == [(5, 1_704_067_200 * 10**9)]
    assert {row.time for row in brute.top("plain")} == {None}


def verification(told: dict[str, dict[Any, float]], loose: set[str]) -> Any:
    """One that has folded these changes, without a pipeline around it."""
    found: Any = object.__new__(_Verification)
    found._folded, found._loose, found._missed = told, loose, set()
    found._counts = dict.fromkeys(("answers", "places", "loose", "wrong"), 0)
    return found


def test_misses_of_queries_that_allow_an_error_are_counted() -> None:
    """They are no difference; a row with another score is, and so is a miss of any other query."""
    one, two, three = ((seq, None, None) for seq in (1, 2, 3))
    truth = [Ranked(1, 5.0, None), Ranked(2, 4.0, None)]
    check = verification({"near": {one: 5.0, three: 3.0}, "exact": {one: 5.0}}, {"near"})
    check._compare(0, "near", truth)
    check._compare(1, "near", truth)
    check._folded["near"] = {one: 5.0, two: 4.0}
    check._compare(2, "near", truth)
    assert check._missed == {("near", two)}
    assert check._counts == {"answers": 3, "places": 6, "loose": 3, "wrong": 2}
    with pytest.raises(Exception, match=r"query 'exact': row 2 with score 4\.0 is missing"):
        check._compare(3, "exact", truth)
    check._folded["near"][one] = 6.0
    with pytest.raises(Exception, match=r"row 1 has score 6\.0 and should have 5\.0"):
        check._compare(3, "near", truth)
    said = str(Report(3, 40, 3, 6, 0, loose=3, wrong=2, missed=1))
    assert said.endswith(
        "all equal but 2 of the 3 answers to queries that allow an error, which missed 1 rows."
    )


@pytest.mark.parametrize(
    ("options", "loose"),
    [
        ("", False),
        ("WITH (error = 0.01)", True),
        ("WITH (algorithm = 'pa')", True),
        ("WITH (algorithm = 'ra')", False),
    ],
)
def test_who_may_miss(options: str, loose: bool) -> None:
    assert _may_miss(asked(f"SELECT x FROM s ORDER BY x DESC LIMIT 2 WINDOW 5 ROWS {options}")) is loose


def test_tables_that_are_wrong(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text(pipeline_text(ASKED, sink='[sink]\nformat = "sqlite"\npath = "out.db"\n'))
    output = output_of(load_pipeline(path))
    with sqlite3.connect(tmp_path / "out.db") as connection:
        connection.execute("CREATE TABLE skyband_changes (batch INTEGER, number INTEGER)")
        connection.execute("INSERT INTO skyband_changes VALUES (2, 0)")
    assert output.strange(lambda: [0, 1, 2]) is None
    assert output.strange(lambda: [0, 1]) == "the table of changes has rows of batch 2, which there is not."
    with pytest.raises(
        InputError, match=r"The table skyband_changes in SQLite cannot be read \(no such column: "
    ):
        output.rows("changes", 2)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([("leave", None), ("enter", 2), ("enter", 5)], None),
        ([("leave", 3)], "row 0 leaves with rank 3 and should with None."),
        ([("enter", 1), ("leave", None)], "row 1 leaves after others have entered: leaves come first."),
        (
            [("enter", 2), ("enter", 2)],
            "row 1 enters with rank 2 after one with rank 2: enters come by rank.",
        ),
        ([("enter", 0)], "row 0 enters with rank 0, which is none."),
    ],
)
def test_what_holds_of_every_answer(rows: list[tuple[str, int | None]], sentence: str | None) -> None:
    """That is looked at where a query allows an error, too."""
    told = [
        {"change": c, "rank": r, "seq": seq, "seq_b": None, "id": None} for seq, (c, r) in enumerate(rows)
    ]
    assert wrong_form(told) == sentence


@pytest.mark.parametrize("form", ["sqlite", "json"])
def test_values_are_compared_as_they_are_read_back(tmp_path: Path, form: str) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text(pipeline_text(ASKED, sink=f'[sink]\nformat = "{form}"\npath = "out"\n'))
    times = pa.array([datetime(2024, 1, 1, 12, 30), None])
    columns = {
        name: pa.nulls(2, pa.string()) for name in ("query", "change", "rank", "score", "seq", "seq_b", "id")
    }
    pipeline = load_pipeline(path)
    sink = make_sink(pipeline.sink)
    sink.prepare(True)
    changes = pa.table({"batch": [0, 0], **columns, "time": times})
    sink.put(0, changes, pa.schema([("batch", pa.int64()), *SCHEMA]).empty_table(), TOP_SCHEMA.empty_table())
    output = output_of(pipeline)
    assert [row["time"] for row in output.rows("changes", 0)] == [
        output.shown(time.as_py()) for time in times
    ]
