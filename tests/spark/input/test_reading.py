"""Splits as rows: nothing lost, nothing twice, bad lines in their place."""

from __future__ import annotations

import bz2
import gzip
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skyband.core.errors import InputError
from skyband.files.reader import open_rows
from skyband.files.rows import Chunk
from skyband.spark.config import StreamSpec
from skyband.spark.input.filelog import FileLog, StreamFiles
from skyband.spark.input.reading import (
    declared_schema,
    infer_schema,
    join_chunks,
    read_runs,
)
from skyband.spark.input.splits import Split, plan_splits
from skyband.stream.schema import fit

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.float64())])


def splits_of(path: Path, form: str, tasks: int = 1) -> list[Split]:
    source = StreamFiles("s", form, str(path), None)
    log = FileLog(path.parent / f"{path.name}.log", writer=True)
    log.look([source])
    log.take(source, 0)
    return [split for run in plan_splits(log, [source], {}, {"s": 1}, tasks) for split in run]


def rows_of(splits: list[Split], schema: pa.Schema = SCHEMA) -> Chunk:
    return join_chunks([join_chunks(run.chunks) for run in read_runs(splits, {"s": schema})])


@pytest.mark.parametrize("tasks", [1, 2, 3, 7])
def test_json_lines_cut_anywhere(tmp_path: Path, tasks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyband.spark.input.splits._SMALL", 1)
    lines = [f'{{"n": {i}, "x": {i * 0.5}}}' for i in range(50)]
    lines[7] = "no json"
    lines[20] = '{"n": "text", "x": 1}'
    lines.insert(30, "")
    path = tmp_path / "a.json"
    path.write_text("\n".join(lines))  # without a last line feed
    chunk = rows_of(splits_of(path, "json", tasks))
    assert chunk.table.column("n").to_pylist() == [i for i in range(50) if i not in (7, 20)]
    assert [(bad.position, bad.raw) for bad in chunk.bad] == [(7, "no json"), (20, '{"n": "text", "x": 1}')]


def test_csv_with_bad_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('x,other,n\n1.5,a,1\nbad\n2.5,b,\n\nabc,c,4\n3.5,"d\ne",5\n')
    chunk = rows_of(splits_of(path, "csv"))
    assert chunk.table.select(["n", "x"]).to_pylist() == [
        {"n": 1, "x": 1.5},
        {"n": None, "x": 2.5},
        {"n": 5, "x": 3.5},
    ]
    assert [bad.position for bad in chunk.bad] == [1, 3]
    assert chunk.bad[0].raw == "bad"
    assert chunk.bad[1].raw == "abc,c,4"


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_packed_text(
    tmp_path: Path, form: str, pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skyband.spark.input.splits._SMALL", 1)
    lines = ["n,x"] * (form == "csv") + [f"{i},0.5" if form == "csv" else f'{{"n": {i}}}' for i in range(500)]
    path = tmp_path / "a"
    path.write_bytes(pack("\n".join(lines).encode()))
    assert infer_schema(StreamSpec("s", form, path, ""), path, {}).field("n").type == pa.int64()
    splits = splits_of(path, form, tasks=3)
    assert len(splits) == 1  # it can only be unpacked from its beginning
    assert rows_of(splits).table.column("n").to_pylist() == [*range(500)]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_packed_file_that_is_torn_stops_nothing(tmp_path: Path, form: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(gzip.compress(b"n,x\n1,2\n" if form == "csv" else b'{"n": 1}\n')[:-9])
    chunk = rows_of(splits_of(path, form))
    assert chunk.table.num_rows == 0 and [bad.raw for bad in chunk.bad] == [str(path)]
    assert chunk.bad[0].detail.startswith("The file cannot be unpacked: ")


@pytest.mark.parametrize("header", ["1,2", "n,n", "a\r,b", "n\xe9"])
def test_a_csv_without_a_header_stops_nothing(tmp_path: Path, header: str) -> None:
    """It has its place, and may no longer be changed or removed: so its lines are rejects."""
    one, two, three = (tmp_path / f"{name}.csv" for name in "abc")
    for path in (one, three):
        path.write_text("n,x\n1,0.5\n")
    two.write_bytes(f"{header}\n3,4\n\n5,6\n".encode("latin-1"))
    chunk = rows_of([split for path in (one, two, three) for split in splits_of(path, "csv")])
    assert chunk.table.to_pylist() == [{"n": 1, "x": 0.5}] * 2
    assert [bad.position for bad in chunk.bad] == [1, 2, 3] and chunk.bad[1].raw == "3,4"
    assert chunk.bad[0].detail.startswith("The file ")


@pytest.mark.parametrize("rows", [1, 3])
def test_json_among_csv_files_is_rejected(tmp_path: Path, rows: int) -> None:
    """Its first line is no header: rows would be lost, and nobody be told."""
    path, line = tmp_path / "a.csv", '{"n": 1, "x": 2.5}'
    path.write_text(f"{line}\n" * rows)
    chunk = rows_of(splits_of(path, "csv"))
    assert chunk.table.num_rows == 0
    assert [(bad.position, bad.raw) for bad in chunk.bad] == [(row, line) for row in range(rows)]
    assert "seems to be JSON lines and no CSV" in chunk.bad[0].detail


def test_a_header_that_only_looks_like_json(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("{n},n,x\n1,2,3\n")
    assert rows_of(splits_of(path, "csv")).table.column("n").to_pylist() == [2]


@pytest.mark.parametrize("before", ["\n\n", "\r\n\n", "\ufeff\n", "\ufeff", "\n" * 300])
def test_blank_lines_before_a_header(tmp_path: Path, before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyband.spark.input.reading._BLOCK", 10)
    monkeypatch.setattr("skyband.files.source.BLOCK", 10)
    path = tmp_path / "a.csv"
    path.write_text(before + "n,x\n1,9\n\nbad\n2,5\n\n\nzz,5\n3,4\n", newline="")
    spec = StreamSpec("s", "csv", path, "")
    assert infer_schema(spec, path, {}).names == ["n", "x"]
    chunk = rows_of(splits_of(path, "csv"))
    assert chunk.table.column("n").to_pylist() == [1, 2, 3]
    bad = [(1, "bad"), (3, "zz,5")]
    assert [(row.position, row.raw) for row in chunk.bad] == bad
    of_top = join_chunks(list(open_rows(path, {"n": "number"}).chunks()))
    assert of_top.table.column("n").to_pylist() == [1, 2, 3]
    assert [(row.position, row.raw) for row in of_top.bad] == bad


def test_a_csv_of_blank_lines_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\n\r\n\n")
    assert rows_of(splits_of(path, "csv")).count == 0


def test_a_large_csv_is_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyband.spark.input.reading._BLOCK", 100)
    path = tmp_path / "a.csv"
    path.write_text("n,x\n" + "".join(f"{i},{i}\n" if i != 77 else "77\n" for i in range(300)))
    chunk = rows_of(splits_of(path, "csv"))
    assert chunk.table.column("n").to_pylist() == [i for i in range(300) if i != 77]
    assert [bad.position for bad in chunk.bad] == [77]


def test_a_record_longer_than_a_block_and_without_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skyband.spark.input.reading._BLOCK", 50)
    path = tmp_path / "a.csv"
    path.write_text("n,x,s\n1,1," + "a" * 200 + "\n2,2," + "b" * 200)
    assert rows_of(splits_of(path, "csv")).table.column("n").to_pylist() == [1, 2]


def test_a_line_longer_than_a_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyband.spark.input.splits._SMALL", 1)
    path = tmp_path / "a.json"
    path.write_text('{"n": 1}\n{"n": 2, "s": "' + "a" * 500 + '"}\n{"n": 3}\n')
    splits = splits_of(path, "json", 7)
    assert len(splits) == 7
    assert rows_of(splits).table.column("n").to_pylist() == [1, 2, 3]


def test_no_splits_no_rows() -> None:
    assert list(read_runs([], {"s": SCHEMA})) == []


def test_parquet_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyband.spark.input.splits._SMALL", 1)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"more": ["a"] * 100, "n": list(range(100))}), path, row_group_size=7)
    splits = splits_of(path, "parquet", 3)
    assert len(splits) > 1
    table = rows_of(splits).table
    assert table.column_names == ["n"]  # what it lacks counts as null, what it has too much is not read
    assert table.column("n").to_pylist() == list(range(100))


def test_a_file_that_changed_or_went_away(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"n": 1}\n')
    splits = splits_of(path, "json")
    path.write_text('{"n": 1}\n{"n": 2}\n')
    with pytest.raises(InputError, match="changed after it got its place"):
        rows_of(splits)
    path.unlink()
    with pytest.raises(InputError, match="was removed before it was read"):
        rows_of(splits)


def test_a_file_that_was_spoiled_behind_its_date(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": [1]}), path)
    splits = splits_of(path, "parquet")
    before = path.stat()
    path.write_bytes(bytes(before.st_size))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(InputError, match=r"The file .*a\.parquet of stream 's' cannot be read: "):
        rows_of(splits)


def test_schema_of_the_first_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "t,x,s,nothing\n2020-01-01 00:00:00,1,a,\n2020-01-01 00:00:00,2,a,\n2020-01-01 00:00:01,oops,b,\n"
    )
    spec = StreamSpec("s", "csv", path, "a.csv", time="t")
    assert infer_schema(spec, path, {"t": "time", "x": "number"}) == pa.schema(
        [("t", pa.timestamp("us")), ("x", pa.int64()), ("s", pa.string()), ("nothing", pa.string())]
    )
    assert declared_schema([("x", "double")]) == pa.schema([("x", pa.float64())])
    nested = tmp_path / "a.parquet"
    columns = {
        "a": [[1]],
        "b": pa.array(["x"]).dictionary_encode(),
        "c": pa.array([1], pa.timestamp("ms")),
        "d": pa.nulls(1),
    }
    pq.write_table(pa.table(columns), nested)
    assert infer_schema(StreamSpec("s", "parquet", nested, ""), nested, {}) == pa.schema(
        [("b", pa.string()), ("c", pa.timestamp("ms")), ("d", pa.string())]
    )
    with pytest.raises(
        InputError, match=r"No schema can be read from .*see to 'format' in pipeline\.toml, or declare"
    ):
        infer_schema(StreamSpec("s", "parquet", path, ""), path, {})


def test_a_first_file_with_a_broken_time(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("t,x\n1,5\nzz,6\n3,7\n")
    spec = StreamSpec("s", "csv", path, "", time="t")
    schema = infer_schema(spec, path, {"t": "time", "x": "number"})
    chunk = rows_of(splits_of(path, "csv"), schema)
    assert chunk.table.column("t").to_pylist() == [1, 3]
    assert [(bad.position, bad.raw) for bad in chunk.bad] == [(1, "zz,6")]


@pytest.mark.parametrize(
    "first", ["2024-05-01T10:00:00", "2024-05-01T10:00:00Z", "2024-05-01T12:00:00.5+02:00"]
)
def test_times_with_and_without_a_zone_in_several_files(tmp_path: Path, first: str) -> None:
    path, next_path = tmp_path / "a.csv", tmp_path / "b.csv"
    path.write_text(f"t,x\n{first},1\n")
    next_path.write_text("t,x\n2024-05-01T10:00:01.25Z,1\n2024-05-01T10:00:02,2\n2024-05-01T10:00:03Z,3\n")
    schema = infer_schema(StreamSpec("s", "csv", path, "", time="t"), path, {"t": "time", "x": "number"})
    assert rows_of(splits_of(path, "csv"), schema).bad == []
    chunk = rows_of(splits_of(next_path, "csv"), schema)
    assert chunk.bad == []
    times = chunk.table.column("t").cast(pa.timestamp("us", schema.field("t").type.tz)).cast(pa.int64())
    assert [time - 1714557600_000_000 for time in times.to_pylist()] == [1_250_000, 2_000_000, 3_000_000]


@pytest.mark.parametrize("form, broken", [("csv", 0), ("json", 0), ("json", 1), ("parquet", 0)])
def test_a_first_file_without_a_value(tmp_path: Path, form: str, broken: int) -> None:
    """What the next files have in that column counts."""
    path, next_path = tmp_path / "a", tmp_path / "b"
    if form == "csv":
        path.write_text("x,s,n\n,,\n,,\n")
        next_path.write_text("x,s,n\n5,a,1\n7,b,2\n")
    elif form == "json":
        path.write_text('{"x": null, "s": null, "n": null}\n' + "broken\n" * broken)
        next_path.write_text('{"x": 5, "s": "a", "n": 1}\n{"x": 7, "s": "b", "n": 2}\n')
    else:
        pq.write_table(pa.table({"x": pa.nulls(2), "s": pa.nulls(2), "n": pa.nulls(2)}), path)
        pq.write_table(pa.table({"x": [5, 7], "s": ["a", "b"], "n": [1, 2]}), next_path)
    schema = infer_schema(StreamSpec("s", form, path, ""), path, {"x": "number"})
    assert schema == pa.schema([("x", pa.float64()), ("s", pa.string()), ("n", pa.string())])
    kept = pa.ipc.read_schema(schema.serialize())  # as the checkpoint has it
    chunk = rows_of(splits_of(next_path, form), kept)
    table, misfits = fit(chunk.table, 2, kept)
    assert chunk.bad == [] and misfits == {}
    assert table.to_pydict() == {"x": [5, 7], "s": ["a", "b"], "n": ["1", "2"]}


def test_a_first_file_in_another_format(tmp_path: Path) -> None:
    path = tmp_path / "a"
    spec = StreamSpec("s", "json", path, "")
    path.write_text("t,x\n1,2\n")
    with pytest.raises(InputError, match="has no line that is a JSON object"):
        infer_schema(spec, path, {})
    path.write_text('broken\n{"x": 1}\n')
    assert infer_schema(spec, path, {}) == pa.schema([("x", pa.int64())])
    with pytest.raises(InputError, match="is Parquet and is to be read as csv: correct the format"):
        pq.write_table(pa.table({"x": [1]}), path)
        infer_schema(replace(spec, format="csv"), path, {})
    with pytest.raises(InputError, match="is JSON lines and is to be read as csv: correct the format"):
        path.write_text('{"x": 1}\n')
        infer_schema(replace(spec, format="csv"), path, {})


def test_a_damaged_row_group_is_rows_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"n": list(range(300)), "x": [0.5] * 300})
    pq.write_table(table, path, row_group_size=100, compression="snappy", use_dictionary=False)
    column = pq.ParquetFile(path).metadata.row_group(1).column(0)
    data = bytearray(path.read_bytes())
    data[column.data_page_offset : column.data_page_offset + column.total_compressed_size] = bytes(
        column.total_compressed_size
    )
    path.write_bytes(data)
    chunk = rows_of(splits_of(path, "parquet"))
    assert chunk.table.column("n").to_pylist() == [*range(100), *range(200, 300)]
    assert [bad.position for bad in chunk.bad] == list(range(100, 200))
    assert "damaged" in chunk.bad[0].detail


def test_a_column_that_is_there_twice(tmp_path: Path) -> None:
    """Nobody knows which of them is meant: the rows are rejects, and the stream goes on."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table([[1, 2, 3], [4, 5, 6], [0.5] * 3], names=["n", "n", "x"]), path, row_group_size=2)
    chunk = rows_of(splits_of(path, "parquet"))
    assert chunk.table.num_rows == 0
    assert [(bad.position, bad.detail) for bad in chunk.bad] == [
        (row, "the file has more than one column named 'n'") for row in range(3)
    ]
    assert chunk.bad[2].raw == f"row group 1 of {path}"
    with pytest.raises(InputError, match=r"No schema can be read from .*more than one column named 'n'"):
        infer_schema(StreamSpec("s", "parquet", path, ""), path, {})
    unneeded = rows_of(splits_of(path, "parquet"), pa.schema([("x", pa.float64())]))
    assert unneeded.table.to_pydict() == {"x": [0.5] * 3}


def test_a_field_of_a_struct_with_the_path_of_a_column(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": [{"x": 1}], "n.x": [2.5]}), path)
    chunk = rows_of(splits_of(path, "parquet"), pa.schema([("n.x", pa.float64())]))
    assert chunk.table.to_pydict() == {"n.x": [2.5]}


def test_a_name_that_is_no_utf_8(tmp_path: Path) -> None:
    """Splits are pickled on their way to the tasks; the name stands in rejects."""
    path = tmp_path / os.fsdecode(b"\xff\xc3\xa9.csv.gz")
    path.write_bytes(gzip.compress(b"n,x\n1,0.5\n" * 1000)[:-20])
    (split,) = splits_of(path, "csv")
    assert pickle.loads(pickle.dumps(split)) == split
    assert rows_of([split]).bad[-1].raw.endswith("/\N{REPLACEMENT CHARACTER}é.csv.gz")
