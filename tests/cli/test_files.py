"""Reading files: what is good, what is bad, and that the bad keep their places."""

from __future__ import annotations

import bz2
import decimal
import gzip
import json
import os
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.core.errors import InputError
from skyband.files import BadRow, Chunk, cut, header_of, open_rows, parse_csv, parse_json_lines
from skyband.files import source as bytes_of


def read(path: Path, kinds: dict[str, str] | None = None, columns: list[str] | None = None) -> Chunk:
    """All rows of a file as one chunk."""
    rows, bad, before = [], [], 0
    reader = open_rows(path, kinds)
    for chunk in reader.chunks(columns):
        bad += [row._replace(position=row.position + before) for row in chunk.bad]
        before += chunk.count
        rows.append(chunk.table)
    return Chunk(pa.concat_tables(rows), bad)


def written(folder: Path, data: bytes | str, name: str = "file") -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def test_csv_types(tmp_path: Path) -> None:
    path = written(
        tmp_path, "a,b,c,d,e\n1,2.5,x,true,2024-01-01T00:00:00.5Z\n2,3,,false,2024-01-02T00:00:00Z\n"
    )
    table = read(path).table
    assert [str(kind) for kind in table.schema.types] == [
        "int64",
        "double",
        "string",
        "bool",
        "timestamp[ns, tz=UTC]",
    ]
    assert table["c"].to_pylist() == ["x", ""]


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_csv_dialects(tmp_path: Path, delimiter: str, end: str) -> None:
    text = end.join(["a,b", "1,2", "", '3,"4"', ""]).replace(",", delimiter)
    assert read(written(tmp_path, "\ufeff" + text)).table.to_pydict() == {"a": [1, 3], "b": [2, 4]}


def test_csv_bad_rows_keep_their_places_and_text(tmp_path: Path) -> None:
    data = b'n,v,s\n0,1,a\n1\n\n2,2,"x\ny",7\n3,zz,b\n4,3,\xff\n5,4,c\n'
    chunk = read(written(tmp_path, data), {"v": "number"})
    assert chunk.table["n"].to_pylist() == [0, 5]
    assert chunk.bad == [
        BadRow(1, "fields: 1, expected: 3", "1"),
        BadRow(2, "fields: 4, expected: 3", '2,2,"x\ny",7'),
        BadRow(3, "column v: 'zz' is not int64", "3,zz,b"),
        BadRow(4, "column s: not UTF-8", "4,3,�"),
    ]
    assert chunk.count == 6


@pytest.mark.parametrize("times", [["1", "zz", "3"], ["zz", "1.5", "2"], ["7", "zz", "zz", "zz"]])
def test_a_broken_value_among_times_that_are_numbers(tmp_path: Path, times: list[str]) -> None:
    path = written(tmp_path, "ts,x\n" + "".join(f"{time},1\n" for time in times))
    chunk = read(path, {"ts": "time", "x": "number"})
    assert chunk.table["ts"].to_pylist() == [float(time) for time in times if time != "zz"]
    assert [row.raw for row in chunk.bad] == [f"{time},1" for time in times if time == "zz"]


MIXED = ["2024-05-01T10:00:00Z", "2024-05-01T10:00:05", "2024-05-01 12:00:12+02:00", "2024-05-01T10:00:20"]


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (1, 3, 0), (3, 2, 1)])
@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
@pytest.mark.parametrize("block", [24, 4096])
def test_times_with_and_without_a_zone(
    tmp_path: Path, form: str, order: tuple[int, ...], block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those without are UTC's, whichever came first and whether they are in one block or not."""
    monkeypatch.setattr(bytes_of, "BLOCK", block)
    path = tmp_path / "file"
    if form == "parquet":
        pq.write_table(pa.table({"ts": [MIXED[i] for i in order]}), path)
    elif form == "csv":
        path.write_text("ts,x\n" + "".join(f"{MIXED[i]},1\n" for i in order))
    else:
        path.write_text("".join(f'{{"ts": "{MIXED[i]}"}}\n' for i in order))
    chunk = read(path, {"ts": "time"})
    assert chunk.bad == []
    seconds = chunk.table["ts"].cast(pa.timestamp("s", chunk.table["ts"].type.tz)).cast(pa.int64())
    assert seconds.to_pylist() == [1714557600 + (0, 5, 12, 20)[i] for i in order]


@pytest.mark.parametrize(
    "data",
    ["id,x,t\na,,\nb,,\n", "id,x,t\na,NA,NULL\nb, ,\n", '{"id": "a", "x": null, "t": null}\n' * 2, None],
)
def test_columns_without_a_value_are_what_they_are_used_for(tmp_path: Path, data: str | None) -> None:
    path = written(tmp_path, data or "")
    if data is None:
        pq.write_table(pa.table({"id": ["a", "b"], "x": pa.nulls(2), "t": pa.nulls(2)}), path)
    table = read(path, {"x": "number", "t": "time"}).table
    assert table.schema.types == [pa.string(), pa.float64(), pa.timestamp("us")]
    assert table["x"].null_count == table["t"].null_count == table.num_rows == 2


def test_what_csv_has_for_a_null_is_no_misfit(tmp_path: Path) -> None:
    """Where one broken value makes a column text, nulls don't outvote the numbers."""
    chunk = read(written(tmp_path, "id,x\na,NA\nb,NA\nc,1\nd,2\ne,oops\n"), {"x": "number"})
    assert chunk.table["x"].to_pylist() == [None, None, 1, 2]
    assert [row.raw for row in chunk.bad] == ["e,oops"]


def test_numbers_after_many_empty_values(tmp_path: Path) -> None:
    chunk = read(written(tmp_path, "id,x\n" + "a,\n" * 1500 + "b,oops\nc,1\nd,2\n"), {"x": "number"})
    assert chunk.table["x"].to_pylist() == [None] * 1500 + [1, 2]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_times_whose_fractions_come_later(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As through a slow pipe, where the first block is one row."""
    monkeypatch.setattr(bytes_of, "BLOCK", 30)
    times = ["2024-05-01T10:00:00Z", "2024-05-01T10:00:01.25Z", "2024-05-01T10:00:02Z"]
    lines = [f'{{"ts": "{time}"}}' for time in times] if form == "json" else ["ts", *times]
    chunk = read(written(tmp_path, "\n".join(lines)), {"ts": "time"})
    assert chunk.bad == [] and chunk.table["ts"].cast(pa.int64()).to_pylist() == [
        1714557600_000_000 + after for after in (0, 1_250_000, 2_000_000)
    ]


def test_csv_a_column_without_a_name_is_called_by_its_place(tmp_path: Path) -> None:
    """As a data frame that was written with its index has one."""
    assert read(written(tmp_path, ",a\n0,1\n")).table.to_pydict() == {"column_1": [0], "a": [1]}
    assert read(written(tmp_path, "a,,b\n0,1,2\n")).table.column_names == ["a", "column_2", "b"]


def test_csv_that_ends_inside_quotes(tmp_path: Path) -> None:
    for text, raw in {
        'n,s\n0,a\n1,"b\n2,c\n': '1,"b\n2,c\n',
        'n,s\n0,a\nx,"b\nc': 'x,"b\nc',
        'n,s\n0,a\n"1","b\nc': '"1","b\nc',
    }.items():
        chunk = read(written(tmp_path, text))
        assert chunk.table.to_pydict() == {"n": [0], "s": ["a"]}
        assert chunk.bad == [BadRow(1, 'a quote is never closed: "b', raw)]
    chunk = read(written(tmp_path, 'n,s\n"0\n","a\nb\n'))
    assert chunk.count == 1 and chunk.bad[0].raw == '"0\n","a\nb\n', "the record began a line before"
    chunk = read(written(tmp_path, 'n,s\n5" pipe,a\n0,"b\n1,c\n'))
    assert chunk.table["n"].to_pylist() == ['5" pipe'] and chunk.bad[0].raw == '0,"b\n1,c\n'
    assert read(written(tmp_path, 'n,s\n0,a\n1,"b\nc"')).table["s"].to_pylist() == ["a", "b\nc"]


def test_csv_only_the_columns_that_are_wanted_can_be_misfits(tmp_path: Path) -> None:
    path = written(tmp_path, "n,v\n0,1\n1,zz\n")
    assert read(path, {"v": "number"}, ["n"]).bad == []


def test_csv_types_are_those_of_the_first_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytes_of, "BLOCK", 64)
    lines = [f"{n},{n}" for n in range(100)]
    lines[90] = "90,later"
    chunk = read(written(tmp_path, "a,b\n" + "\n".join(lines)))
    assert chunk.bad == [BadRow(90, "column b: 'later' is not int64", "90,later")]
    assert chunk.table["a"].to_pylist() == [n for n in range(100) if n != 90]


def test_where_blocks_are_cut_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random_numbers = random.Random(5)
    lines = [f'{n},{random_numbers.random()},"name{chr(10) * (n % 7 == 0)}{n}"' for n in range(600)]
    lines[200], lines[300], lines[400] = "oops", "1,2,3,4", "400,zz,k"
    path = written(tmp_path, "n,v,s\n" + "\n".join(lines))
    seen = []
    for size in (50, 333, 4096):
        monkeypatch.setattr(bytes_of, "BLOCK", size)
        seen.append(read(path, {"v": "number"}))
    for chunk in seen:
        assert [row.position for row in chunk.bad] == [200, 300, 400]
        assert chunk.table.equals(seen[0].table) and chunk.bad == seen[0].bad


_FIELD = st.one_of(st.integers(-9, 9).map(str), st.sampled_from(["", "1.5", "x", "NA", " 7 "]))


@given(st.lists(st.lists(_FIELD, min_size=1, max_size=4), max_size=12))
def test_csv_good_rows_are_what_arrow_reads_alone(rows: list[list[str]]) -> None:
    """Every row is good exactly if Arrow would read it, alone, with the same types."""
    schema = pa.schema([("a", pa.int64()), ("b", pa.float64()), ("c", pa.string())])
    rows = [row for row in rows if any(row) or len(row) > 1]
    chunk = parse_csv("\n".join(",".join(row) for row in rows).encode(), schema)
    good, bad = [], []
    for place, row in enumerate(rows):
        line = ",".join(row)
        try:
            options = pacsv.ReadOptions(column_names=schema.names)
            convert = pacsv.ConvertOptions(column_types=schema)
            table = pacsv.read_csv(pa.py_buffer(line.encode()), options, convert_options=convert)
            good += table.to_pylist()
        except pa.ArrowInvalid:
            bad.append((place, line))
    assert chunk.table.to_pylist() == good
    assert [(row.position, row.raw) for row in chunk.bad] == bad


def test_json_lines(tmp_path: Path) -> None:
    lines = [
        '{"a": 1, "t": "2024-01-01T00:00:00Z", "deep": {"x": 1}}',
        "{broken",
        "",
        '{"a": 2.5}',
        "[1]",
        '{"a": "x"}',
        '{"t": "yesterday"}',
    ]
    chunk = read(written(tmp_path, "\n".join(lines)), {"t": "time"})
    assert chunk.table.schema.names == ["a", "t"]
    assert open_rows(tmp_path / "file").left_out == ["deep"]
    assert chunk.table["a"].to_pylist() == [1.0, 2.5]
    assert chunk.bad == [
        BadRow(1, "not JSON", "{broken"),
        BadRow(3, "not a JSON object", "[1]"),
        BadRow(4, 'column a: "x" is not double', '{"a": "x"}'),
        BadRow(5, "column t: 'yesterday' is not timestamp[us, tz=UTC]", '{"t": "yesterday"}'),
    ]


def test_json_types_are_those_of_the_first_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytes_of, "BLOCK", 64)
    lines = [json.dumps({"n": n}) for n in range(100)]
    lines[80], lines[81], lines[82] = '{"n": 1.5}', '{"n": true}', '{"n": 99999999999999999999}'
    chunk = read(written(tmp_path, "\n".join(lines)))
    assert [row.position for row in chunk.bad] == [80, 81, 82]


def test_a_line_that_is_null() -> None:
    """Arrow's own reader ends the process there."""
    schema = pa.schema([("a", pa.float64())])
    for data in (b"null\n", b"\xef\xbb\xbf null\n", b'{"a": 1}\n null\n{"a": 2}\n', b'{"a": 1}null\n'):
        chunk = parse_json_lines(data, schema)
        assert "null" in chunk.bad[0].raw


def test_a_record_with_too_many_fields_that_is_not_utf8(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Arrow's own reader gives the whole block up there, with a word on standard error."""
    schema = pa.schema([("a", pa.float64()), ("b", pa.string())])
    chunk = parse_csv("1,é\n".encode() + b"2,caf\xe9,3\n4,\xff\n5,x\n", schema)
    assert chunk.table.to_pylist() == [{"a": 1.0, "b": "é"}, {"a": 5.0, "b": "x"}]
    assert chunk.bad == [
        BadRow(1, "fields: 3, expected: 2", "2,caf\ufffd,3"),
        BadRow(2, "column b: not UTF-8", "4,\ufffd"),
    ]
    file = read(written(tmp_path, b"a,b\n1,x\n2,caf\xe9,3\n"))
    assert file.table.to_pylist() == [{"a": 1, "b": "x"}] and [row.position for row in file.bad] == [1]
    assert capfd.readouterr().err == ""


def test_a_header_with_a_bare_carriage_return() -> None:
    with pytest.raises(InputError, match="no header that can be read"):
        header_of(b"a\r,b\n", "f.csv")


def test_json_fields_may_be_missing_or_more() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    for extra in (b"", b"{bad\n"):  # the quick way and the slow one
        chunk = parse_json_lines(extra + b'{"b": "x", "z": 1}\n{"a": null}\n', schema)
        assert chunk.table.to_pylist() == [{"a": None, "b": "x"}, {"a": None, "b": None}]


VALUES = [
    "1", "-1", "0", "-0", "1.5", "-0.0", "1e3", "127", "128", "40000", "16777217", "2147483648", "9007199254740993",
    "1e400", "3.4e39",
    "12.34", "12.345", "0.1", "true", "null", "NaN", "-Infinity", '"a"', '""', '"1"', '"12.34"', '"12.345"',
    '"NaN"', '"2024-01-01"', '"2024-02-30"', '"2024-01-01T00:00:00Z"', '"2024-01-01T00:00"', '{"a":1}', "[1]",
    '"2024-01-01T00:00:00.123456"', '"2024-01-01T00:00:00.1234567"', '"2024-01-01T02:00:00.5+02:00"',
    '"2024-01-01T02+02"',
]  # fmt: skip
TYPES = [
    pa.float64(), pa.float32(), pa.int64(), pa.int32(), pa.int16(), pa.int8(), pa.bool_(), pa.string(), pa.date32(),
    pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns", "Europe/Berlin"), pa.decimal128(10, 2),
]  # fmt: skip


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_a_row_does_not_depend_on_its_neighbours(kind: pa.DataType) -> None:
    """A line is the same row, or the same misfit, whether another line of its block is broken or not."""
    schema, fitting = pa.schema([("v", kind)]), 0
    for value in VALUES:
        line = f'{{"v": {value}}}\n'.encode()
        alone, beside = parse_json_lines(line, schema), parse_json_lines(b"{broken\n" + line, schema)
        assert beside.table["v"].to_string() == alone.table["v"].to_string(), value
        assert [row._replace(position=0) for row in beside.bad[1:]] == alone.bad
        if not value.startswith(("{", "[")):
            record = f"a,{value}\n".encode()
            whole = pa.schema([("a", pa.string()), ("v", kind)])
            alone, beside = parse_csv(record, whole), parse_csv(b"a,b,c\n" + record, whole)
            assert beside.table["v"].to_string() == alone.table["v"].to_string(), value
        fitting += alone.table.num_rows
    assert fitting > 3


def test_json_whole_numbers_beyond_floats_among_fractions(tmp_path: Path) -> None:
    lines = ['{"n": 9007199254740993}', '{"n": 12.5}', '{"n": "x"}']
    chunk = read(written(tmp_path, "\n".join(lines)))
    assert chunk.table["n"].to_pylist() == [9007199254740992.0, 12.5]
    assert [row.position for row in chunk.bad] == [2]


def test_half_a_character_is_a_misfit(tmp_path: Path) -> None:
    """JSON can say it; no column can hold it."""
    half = r'{"s": "\ud83d", "\udc00": 1}'
    chunk = read(written(tmp_path, "\n".join(['{"s": "a"}', half, '{"s": "\U0001f600"}'])))
    assert chunk.table.to_pylist() == [{"s": "a"}, {"s": "\U0001f600"}]
    assert chunk.bad == [BadRow(1, r'column s: "\ud83d" is not string', half)]


def test_json_lines_that_only_look_like_rows(tmp_path: Path) -> None:
    lines = [b'{"a": 1.5}', b'{"a": 2}{"a": 3}', b'{"a": 1, "s": "\xff"}', b'{"a": 1' + b"0" * 400 + b"}"]
    lines.append(b'{"a": -1' + b"0" * 400 + b"}")
    chunk = read(written(tmp_path, b"\n".join(lines)))
    assert chunk.table["a"].to_pylist() == [1.5, float("inf"), float("-inf")]
    assert chunk.bad == [
        BadRow(1, "not JSON", '{"a": 2}{"a": 3}'),
        BadRow(2, "not UTF-8", '{"a": 1, "s": "\ufffd"}'),
    ]


@pytest.mark.parametrize("bad", [b'{"s": "\xff"}', b'{"s": "\xed\xa0\xbd"}', b'{"s": "a", "\xff": 1}'])
@pytest.mark.parametrize("place", [0, 1])
def test_json_that_is_not_utf8_needs_no_misfit_beside_it(tmp_path: Path, bad: bytes, place: int) -> None:
    """Arrow takes such bytes for text if nothing else is wrong with the block."""
    lines = [b'{"s": "b"}', b'{"s": "c"}']
    lines.insert(place, bad)
    chunk = read(written(tmp_path, b"\n".join(lines)))
    assert chunk.table.to_pylist() == [{"s": "b"}, {"s": "c"}]
    assert [(row.position, row.detail) for row in chunk.bad] == [(place, "not UTF-8")]


def test_json_columns_without_a_value_are_text(tmp_path: Path) -> None:
    chunk = read(written(tmp_path, '{"a": 1, "b": null}\n{"a": 2, "b": null}\n'))
    assert chunk.table.schema == pa.schema([("a", pa.int64()), ("b", pa.string())])


def test_json_columns_without_a_value_take_whatever_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bytes_of, "BLOCK", 24)
    lines = ['{"a": 1, "b": null}', '{"a": 2, "b": 1.50}', '{"a": 3, "b": "x"}', '{"a": 4, "b": [true]}']
    chunk = read(written(tmp_path, "\n".join(lines)))
    assert chunk.bad == [] and chunk.table["b"].to_pylist() == [None, "1.5", "x", "[true]"]


def test_json_empty_lines_are_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytes_of, "BLOCK", 16)
    assert read(written(tmp_path, '{"a": 1}\n' + "\n" * 40 + '{"a": 2}\n')).table["a"].to_pylist() == [1, 2]


def test_json_with_times_as_text(tmp_path: Path) -> None:
    lines = ['{"t": "soon"}', '{"t": "2024-01-01T00:00:00"}', '{"t": "2024-01-02T00:00:00"}']
    chunk = read(written(tmp_path, "\n".join(lines)), {"t": "time"})
    assert chunk.table["t"].type == pa.timestamp("us") and chunk.table.num_rows == 2
    assert chunk.bad == [BadRow(0, "column t: 'soon' is not timestamp[us]", '{"t": "soon"}')]


def test_parquet_reads_only_what_is_wanted(tmp_path: Path) -> None:
    path = tmp_path / "file"
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), path)
    reader = open_rows(path)
    assert (reader.rows, reader.schema.names) == (2, ["a", "b"])
    assert [chunk.table.column_names for chunk in reader.chunks(["b"])] == [["b"]]
    assert reader.fraction() == 1.0


def test_parquet_with_times_as_text(tmp_path: Path) -> None:
    path = tmp_path / "file"
    pq.write_table(pa.table({"t": ["2024-01-01 00:00:00", "late", None]}), path)
    chunk = read(path, {"t": "time"})
    assert chunk.table["t"].null_count == 1 and chunk.table.num_rows == 2
    assert chunk.bad == [BadRow(1, "column t: 'late' is not timestamp[us]", "late")]
    texts = pa.array(["2024-01-01 00:00:00", "late", "late"]).dictionary_encode()
    pq.write_table(pa.table({"t": texts, "n": [1, 2, 3]}), path)
    assert read(path, {"t": "time"}).table["n"].to_pylist() == [1]
    assert read(path, {"t": "time"}, ["n"]).table["n"].to_pylist() == [1, 2, 3]


def test_parquet_damaged_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "file"
    pq.write_table(pa.table({"a": random.Random(1).sample(range(10**6), 10_000)}), path)
    data = bytearray(path.read_bytes())
    data[1000:-2000] = bytes(len(data) - 3000)
    reader = open_rows(written(tmp_path, bytes(data)))
    with pytest.raises(InputError, match="is a damaged Parquet file: write it again"):
        list(reader.chunks())


def test_packed_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytes_of, "BLOCK", 1000)
    pq.write_table(pa.table({"a": list(range(5000))}), tmp_path / "plain")
    path = written(tmp_path, gzip.compress((tmp_path / "plain").read_bytes()))
    assert read(path).table["a"].to_pylist() == list(range(5000))


@pytest.mark.parametrize(
    "pack", [gzip.compress, bz2.compress, lambda data: pa.compress(data, "zstd", asbytes=True)]
)
def test_packed_files(tmp_path: Path, pack: object) -> None:
    data = b"a\n" + b"\n".join(b"%d" % n for n in range(5000))
    if "lambda" in repr(pack):
        packed = tmp_path / "file.zst"
        with pa.output_stream(packed, compression="zstd") as out:
            out.write(data)
    else:
        packed = written(tmp_path, pack(data))  # type: ignore[operator]
    assert read(packed).table["a"].to_pylist() == list(range(5000))


BAD_FILES = {
    "is empty: there are no rows to read.": b"",
    "has only empty lines: there are no rows to read.": b"\n\n",
    "seems to have no header: its first line is '1,2'; add a first line with the names of the columns.": b"1,2\n3,4\n",
    "has more than one column named 'a'; give each its own name.": b"a,a\n1,2\n",
    "isn't UTF-8 (its header can't be read): convert it, for instance with iconv -t UTF-8.": b"n\xe9\n1\n",
    "is one JSON array: make it JSON lines, for instance with jq -c '.[]'.": b'[{"a": 1}]',
    "has no line that is a JSON object; each line must be one.": b"{a\n{b\n",
    "is neither CSV nor JSON lines in UTF-8, nor Parquet: convert it to one of them.": "a,b\n1,2\n".encode(
        "utf-16"
    ),
    "is a damaged Parquet file: write it again.": b"PAR1 and nothing else",
    "is empty once it is unpacked: there are no rows to read.": gzip.compress(b""),
}


@pytest.mark.parametrize("sentence", BAD_FILES)
def test_bad_files(tmp_path: Path, sentence: str) -> None:
    path = written(tmp_path, BAD_FILES[sentence])
    with pytest.raises(InputError) as problem:
        open_rows(path)
    assert str(problem.value) == f"{path} {sentence}"


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder: name one file in it"):
        open_rows(tmp_path)
    with pytest.raises(InputError, match=r"There is no file .*nowhere: check the path"):
        open_rows(tmp_path / "nowhere")
    torn = written(tmp_path, gzip.compress(random.Random(1).randbytes(20_000).hex().encode())[:9000])
    with pytest.raises(InputError, match="can't be read to its end"):
        list(open_rows(torn).chunks())
    with pytest.raises(InputError, match="can't be opened: File name too long"):
        open_rows(tmp_path / ("x" * 300))


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = written(tmp_path, "a\n1\n")
    path.chmod(0)
    root = os.geteuid() == 0
    if root:  # who may read anything, and so becomes nobody for a moment
        os.seteuid(65534)
    try:
        with pytest.raises(InputError, match="may not be read: change its permissions"):
            open_rows(path)
    finally:
        if root:
            os.seteuid(0)


def test_a_line_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytes_of, "BLOCK", 1 << 18)
    monkeypatch.setattr(bytes_of, "_LONGEST_RECORD", 1 << 20)
    path = written(tmp_path, "a" * (1 << 21))
    with pytest.raises(
        InputError, match="has a line of more than 1 MB: it is probably neither CSV nor JSON lines"
    ):
        open_rows(path)


@given(
    st.lists(st.booleans(), max_size=30), st.integers(1, 8), st.none() | st.integers(1, 8), st.integers(1, 7)
)
def test_cut_keeps_every_row_in_its_place(
    kinds: list[bool], size: int, every: int | None, block: int
) -> None:
    """True is a good row, False a bad one; each holds its own number."""

    def chunk(start: int, part: list[bool]) -> Chunk:
        bad = [BadRow(place, "", str(start + place)) for place, good in enumerate(part) if not good]
        return Chunk(
            pa.table({"n": pa.array([start + p for p, good in enumerate(part) if good], pa.int64())}), bad
        )

    blocks = (chunk(start, kinds[start : start + block]) for start in range(0, len(kinds), block))
    seen = 0
    for piece in cut(blocks, size, every):
        assert 0 < piece.count <= size
        bad = {row.position: int(row.raw) for row in piece.bad}
        good = iter(piece.table["n"].to_pylist())
        assert [bad[p] if p in bad else next(good) for p in range(piece.count)] == list(
            range(seen, seen + piece.count)
        )
        if every is not None:
            assert seen // every == (seen + piece.count - 1) // every  # never across a mark
        seen += piece.count
    assert seen == len(kinds)


WIDE = {
    "uint64": (["18446744073709551615", "18446744073709551614", "5"], pa.uint64()),
    "decimal": (["18446744073709551616", "-18446744073709551616", "5"], pa.decimal128(38, 0)),
    "double": (["18446744073709551616", "18446744073709551614", "0.5"], pa.float64()),
    "exponents": (["1e30", "1e20", "5"], pa.float64()),
    "longer": (["1" + "0" * 38, "2" + "0" * 38, "5"], pa.float64()),
    "narrow": (["9223372036854775807", "-9223372036854775808", "5"], pa.int64()),
}


@pytest.mark.parametrize("kind", WIDE)
@pytest.mark.parametrize("form", ["csv", "json", "broken json"])
def test_integers_beyond_64_bits_stay_apart(tmp_path: Path, kind: str, form: str) -> None:
    values, wanted = WIDE[kind]
    path = tmp_path / "rows"
    if form == "csv":
        path.write_text("n,x\n" + "".join(f" {value},{i}\n,7\n" for i, value in enumerate(values)))
    else:
        lines = [f'{{"n": {value}, "x": {i}}}\n{{"x": 7}}\n' for i, value in enumerate(values)]
        path.write_text("".join([*lines, "{\n" * (form == "broken json")]))
    reader = open_rows(path)
    assert reader.schema.field("n").type == wanted
    table = pa.concat_tables([chunk.table for chunk in reader.chunks()])
    exact = decimal.Context(prec=50).create_decimal
    told = [value for value in table["n"].to_pylist() if value is not None]
    assert told == [float(value) if pa.types.is_floating(wanted) else exact(value) for value in values]
