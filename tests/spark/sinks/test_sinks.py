"""Where output goes, to the letter."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.core.errors import InputError
from skyband.spark.config import SinkSpec
from skyband.spark.driver.shown import answers_of
from skyband.spark.session.progress import BatchInfo, print_batch
from skyband.spark.sinks import (
    TOP_SCHEMA,
    ConsoleSink,
    FileSink,
    NobodyReads,
    batch_column,
    json_bytes,
    json_text,
    make_sink,
    top_rows,
)
from skyband.spark.sinks import plain as sinks

CHANGES = batch_column(
    pa.table(
        {
            "query": pa.array(["q", "q"]).dictionary_encode(),
            "change": ["leave", "enter"],
            "rank": pa.array([None, 1], pa.int32()),
            "score": [0.5, float("inf")],
            "seq": [3, 4],
            "seq_b": pa.nulls(2, pa.int64()),
            "id": pa.nulls(2, pa.string()),
            "time": pa.array([datetime(2020, 1, 1), datetime(2020, 1, 2)]),
        }
    ),
    7,
)
REJECTS = batch_column(
    pa.table({"seq": [5], "stream": ["s"], "reason": ["type"], "detail": ["d"], "raw": ["abc"]}), 7
)
TOP = pa.table([[1], [0.5], [4], [0.25], ["é"]], names=["rank", "score", "seq", "x", "g"])


def test_files_of_a_folder_have_one_schema(tmp_path: Path) -> None:
    """However a batch's changes were made: with codes, without, or with none at all."""
    sink = FileSink(tmp_path, "parquet")
    plain = CHANGES.set_column(1, "query", CHANGES.column("query").cast(pa.string()))
    coded = CHANGES.set_column(2, "change", CHANGES.column("change").dictionary_encode())
    for batch, changes in enumerate((CHANGES, plain, coded, plain.slice(0, 0))):
        sink.put(batch, changes, REJECTS.slice(0, 0), TOP_SCHEMA.empty_table())
    tables = [pq.read_table(path) for path in sorted((tmp_path / "changes").iterdir())]
    assert [table.schema.equals(tables[0].schema) for table in tables] == [True] * 4
    assert pa.concat_tables(tables).num_rows == 6


@pytest.mark.parametrize(("form", "many"), [("parquet", 5), ("json", 5), ("parquet", 1)])
def test_files(tmp_path: Path, form: str, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "_MANY", many)  # changes from which on files are encoded in two threads
    sink = FileSink(tmp_path / "out", form)
    sink.prepare(True)
    tops = top_rows("q", TOP, TOP.select(["x", "g"]))
    for _ in range(2):  # a replay leaves one copy
        sink.put(7, CHANGES, REJECTS, tops)
        sink.put(8, CHANGES, REJECTS.slice(0, 0), tops)
    found = sorted(str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*") if p.is_file())
    assert found == [
        f"changes/batch-7.{form}",
        f"changes/batch-8.{form}",
        f"rejects/batch-7.{form}",
        f"top/top.{form}",
    ]
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["changes", "rejects", "top"]
    if form == "parquet":
        changes = pq.read_table(tmp_path / "out" / "changes" / "batch-7.parquet")
        assert changes.column_names == CHANGES.column_names
        assert changes.column("batch").to_pylist() == [7, 7]
        top = pq.read_table(tmp_path / "out" / "top" / "top.parquet").to_pylist()
    else:
        lines = (tmp_path / "out" / "changes" / "batch-7.json").read_text().splitlines()
        assert json.loads(lines[1]) == {
            "batch": 7, "query": "q", "change": "enter", "rank": 1, "score": "Infinity", "seq": 4,
            "seq_b": None, "id": None, "time": "2020-01-02T00:00:00",
        }  # fmt: skip
        top = [json.loads(line) for line in (tmp_path / "out" / "top" / "top.json").read_text().splitlines()]
    assert top == [{"query": "q", "rank": 1, "score": 0.5, "row": '{"x": 0.25, "g": "é"}'}]


def test_leftovers_of_a_killed_run_go(tmp_path: Path) -> None:
    (tmp_path / "out" / ".tmp").mkdir(parents=True)
    (tmp_path / "out" / ".tmp" / "half").touch()
    FileSink(tmp_path / "out", "parquet").prepare(True)
    assert not (tmp_path / "out" / ".tmp").exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"The output folder .* cannot be made"):
        FileSink(tmp_path / "file", "parquet").prepare(True)


def test_the_sink_that_was_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(make_sink(SinkSpec("json", tmp_path)), FileSink)
    console = make_sink(SinkSpec())
    console.prepare(True)
    console.put(7, CHANGES.slice(0, 1), REJECTS.slice(0, 0), TOP_SCHEMA.empty_table())
    assert capsys.readouterr().out == "batch 7  q  leave  score 0.5  row 3\n"


def test_a_console_that_nobody_reads() -> None:
    class Closed(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError(32, "Broken pipe")

    with pytest.raises(NobodyReads, match="Broken pipe"):
        ConsoleSink(Closed()).put(7, CHANGES, REJECTS, TOP_SCHEMA.empty_table())


def test_console() -> None:
    out = io.StringIO()
    ConsoleSink(out).put(7, CHANGES, REJECTS, TOP_SCHEMA.empty_table())
    assert out.getvalue().splitlines() == [
        "batch 7  q  leave  score 0.5  row 3",
        "batch 7  q  enter rank 1  score inf  row 4",
        "batch 7  reject 5  type: abc",
    ]


def test_console_of_pairs_and_objects() -> None:
    out = io.StringIO()
    rows = [{**row, "rank": None, "score": 0.5} for row in CHANGES.to_pylist()]
    rows = [{**rows[0], "seq_b": 9}, {**rows[1], "seq": None, "id": "x"}]
    ConsoleSink(out).put(7, pa.Table.from_pylist(rows), REJECTS.slice(0, 0), TOP_SCHEMA.empty_table())
    assert [line.rpartition("  ")[2] for line in out.getvalue().splitlines()] == ["rows 3 and 9", "object x"]


def test_what_json_cannot_say() -> None:
    row = {
        "a": float("nan"),
        "b": float("-inf"),
        "c": datetime(2020, 1, 1, tzinfo=UTC),
        "d": date(2020, 1, 1),
        "e": Decimal("1.50"),
        "f": b"\x01",
        "g": None,
    }
    assert json.loads(json_text(row)) == {
        "a": "NaN",
        "b": "-Infinity",
        "c": "2020-01-01T00:00:00+00:00",
        "d": "2020-01-01",
        "e": "1.50",
        "f": "01",
        "g": None,
    }


def test_years_that_python_has_not() -> None:
    far = pa.table({"at": pa.array([2**38], pa.timestamp("s")), "x": [1]})
    assert json_bytes(far) == b'{"at": "10680-07-14T06:09:04", "x": 1}\n'
    assert top_rows("q", TOP, far).column("row").to_pylist() == ['{"at": "10680-07-14T06:09:04", "x": 1}']
    assert top_rows("q", TOP, TOP.select([])).column("row").to_pylist() == ["{}"]


def test_the_plain_view() -> None:
    out = io.StringIO()
    print_batch(BatchInfo(3, 1000, 20, 5, 1, 0.5, {}), out)
    print_batch(BatchInfo(4, 1000, 20, 5, 0, 0.0, {}, replayed=True), out)
    assert out.getvalue().splitlines() == [
        "batch 3: 1,000 rows in 0.50 s (2,000 rows/s), 20 to the driver, 5 changes, 1 rejected",
        "batch 4 (again): 1,000 rows in 0.00 s (0 rows/s), 20 to the driver, 5 changes",
    ]


def test_answers_of_one_family_that_show_other_columns() -> None:
    monitor = sb.Monitor()
    for name, shown in [("a", "x"), ("b", "y"), ("c", "x")]:
        monitor.watch(f"SELECT {shown} FROM s ORDER BY x ASC LIMIT 2 WINDOW 5 ROWS", name=name)
    monitor.push({"x": [3.0, 1.0, 2.0], "y": [7.0, 8.0, 9.0]})
    watches = monitor.watches
    found = {
        name: answers.tops.slice(sum(answers.sizes[:i]), answers.sizes[i]).to_pylist()
        for answers in answers_of(watches.values())
        for i, name in enumerate(answers.names)
    }
    assert found == {name: watch.top().to_pylist() for name, watch in watches.items()}
    assert found["b"][0]["y"] == 8.0
