"""Bodies that nobody would send on purpose. Whatever comes, it is rows and rejects, or a sentence."""

from __future__ import annotations

import contextlib
import gzip
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skyband.core.errors import InputError, JournalError, SkybandError
from skyband.durable import Engine
from skyband.engine.monitor import Monitor
from skyband.files.csvtext import unclosed_quote
from skyband.server.bodies import ARROW, CSV, JSON, LINES, TYPES, Body, Known, read_body
from skyband.server.encodings import unpacking
from skyband.server.problems import Problem
from skyband.server.settings import Settings

from .test_http import ipc

UNKNOWN = Known()
KNOWN = Known(pa.schema([("id", pa.string()), ("x", pa.float64()), ("ts", pa.timestamp("us"))]))
LIMITS = Settings(max_rows=100, max_columns=50)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["\ud800", ""])
)
VALUES = st.recursive(
    SCALARS,
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=3), v, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(["id", "x", "ts", "", "ä", "a.b", "seq", "\ud800"]) | st.text(max_size=3)
ROWS = st.lists(st.dictionaries(NAMES, VALUES, max_size=4) | VALUES, max_size=5)


def take(data: bytes, kind: str, known: Known = UNKNOWN) -> Body | None:
    """A body, given to a monitor as the server would; None if it was refused in a sentence."""
    try:
        body = read_body(data, kind, known, LIMITS)
    except SkybandError as error:
        assert str(error).endswith((".", "?")) and "\n" not in str(error)
        return None
    engine = Engine(Monitor(schema=known.schema))
    try:
        receipt = engine.push(body.packed or body.batch, "s", None, body.unread)
    except SkybandError as error:
        assert not isinstance(error, JournalError), error  # the engine has broken
        return None
    assert receipt.rows == body.rows
    assert receipt.rejected >= len(body.unread or ())
    assert engine.monitor.rejects().num_rows == receipt.rejected
    return body


@given(ROWS, st.sampled_from([Known(), KNOWN]))
@example([None], KNOWN)
@example([{"x": 1.0}, None, {"x": 2.0}], KNOWN)
@example([{"x": "\ud800"}], KNOWN)
@example([{"x": 10**400}], KNOWN)
@example([{"ts": 10**20}, {"ts": "9999-12-31"}], KNOWN)
@example([{"x": [1, "a"]}, {"x": {"": 2}}], Known())
def test_any_json(rows: list[Any], known: Known) -> None:
    whole = take(json.dumps(rows).encode(), JSON, known)
    lines = take("\n".join(map(json.dumps, rows)).encode(), LINES, known)
    if whole is not None and lines is not None:
        assert whole.rows == lines.rows == len(rows)


@given(
    st.dictionaries(NAMES, st.lists(VALUES, max_size=3) | VALUES, max_size=3),
    st.sampled_from([Known(), KNOWN]),
)
def test_any_columns(columns: dict[str, Any], known: Known) -> None:
    take(json.dumps(columns).encode(), JSON, known)


@given(
    st.lists(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), max_size=4), max_size=5),
    st.sampled_from(["\n", "\r\n", "\r", ",", ";", "\t", '"']),
    st.sampled_from([Known(), KNOWN]),
)
def test_any_csv(records: list[list[str]], end: str, known: Known) -> None:
    text = "".join(",".join(record) + end for record in records)
    take(text.encode(), CSV, known)
    take(("id,x,ts\n" + text).encode(), CSV, known)


@given(st.binary(max_size=60), st.sampled_from(TYPES), st.sampled_from([Known(), KNOWN]))
@example(b"\xef\xbb\xbfid,x\n1,2\n", CSV, KNOWN)
@example(b"id,x\r\n1,2\r\n", CSV, KNOWN)
@example(b'id,x\n"1,2\n', CSV, KNOWN)
@example(b'{"x": NaN}\n{"x": Infinity}', LINES, KNOWN)
def test_any_bytes(data: bytes, kind: str, known: Known) -> None:
    take(data, kind, known)


STREAM = ipc(
    pa.table(
        {
            "x": pa.array([1.0, None, 3.0]),
            "s": pa.array(["a", "bb", None]),
            "d": pa.array(["a", "b", "a"]).dictionary_encode(),
            "l": pa.array([[1, 2], None, []]),
            "t": pa.array([1, 2, 3], pa.timestamp("ns", "UTC")),
        }
    )
)


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.integers(0, len(STREAM) - 1), st.integers(0, 255)), max_size=4),
    st.integers(0, len(STREAM)),
)
def test_arrow_with_bytes_changed_and_cut(changes: list[tuple[int, int]], length: int) -> None:
    """Offsets that lead out of a buffer are what an attacker would send: nothing may be read there."""
    data = bytearray(STREAM)
    for at, value in changes:
        data[at] = value
    take(bytes(data), ARROW)
    take(bytes(data[:length]), ARROW)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, 2], pa.uint64()), pa.array([2**63, 1], pa.uint64()), pa.array([1.5, 2], pa.float16()),
        pa.array([b"a", None]), pa.array(["a", None], pa.large_string()), pa.array(["a", "b"], pa.string_view()),
        pa.array([1, 2], pa.time64("ns")), pa.array([1, 2], pa.duration("s")), pa.array([1, 2], pa.date64()),
        pa.nulls(2), pa.array([{"a": 1}, None]),
        pa.array([[1], None], pa.list_(pa.int64(), 1)), pa.array([[(1, 2)], None], pa.map_(pa.int8(), pa.int8())),
        pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array([7])),
        pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])]),
        pa.array([1, 2], pa.decimal128(5, 2)), pa.array([1, 2], pa.decimal256(50, 2)),
    ],
    ids=lambda column: str(column.type),
)  # fmt: skip
def test_every_type_of_arrow(column: pa.Array) -> None:
    take(ipc(pa.table({"c": column, "x": [1.0, 2.0]})), ARROW)
    if not pa.types.is_nested(column.type):
        take(ipc(pa.table({"x": column})), ARROW, KNOWN)


CALLED = pa.array([b"a", b"\xff\xfe", b"c", b"d\xc3 of more than twelve"])
TEXTS = CALLED.view(pa.string())


@pytest.mark.parametrize(
    "names",
    [
        TEXTS,
        CALLED.cast(pa.large_binary()).view(pa.large_string()),
        CALLED.cast(pa.binary_view()).view(pa.string_view()),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3], pa.int8()), TEXTS),
        pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), TEXTS),
        pa.StructArray.from_arrays([TEXTS], ["a"]),
    ],
    ids=lambda names: str(names.type)[:15],
)
def test_arrow_that_is_no_text_costs_its_row_alone(names: pa.Array) -> None:
    body = read_body(ipc(pa.table({"x": [1.0, 2.0, 3.0, 4.0], "name": names})), ARROW, Known(), LIMITS)
    monitor = Monitor()
    watch = monitor.watch("SELECT name FROM s ORDER BY x DESC LIMIT 3 WINDOW 4 ROWS")
    monitor.push(body.batch)
    assert watch.top()["seq"].to_pylist() == [2, 0]
    assert monitor.rejects()["detail"].to_pylist() == ['column "name": not UTF-8'] * 2


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: pa.array([x.to_pylist()], pa.list_(x.type))])
def test_a_time_zone_that_is_no_text_is_an_error(wrap: Any) -> None:
    stream = ipc(pa.table({"t": wrap(pa.array([1], pa.timestamp("us", "UTC")))}))
    with pytest.raises(InputError, match="no Arrow IPC stream"):
        read_body(stream.replace(b"UTC", b"\x80TC"), ARROW, Known(), LIMITS)


def test_arrow_that_is_no_text_hides_no_offset_that_leads_out() -> None:
    data = ipc(pa.table({"x": [1.0], "a": TEXTS.slice(1, 1), "b": pa.array(["x" * 70_001])}))
    offsets = (0).to_bytes(4, "little") + (70_001).to_bytes(4, "little")
    header, found, rest = data.rpartition(offsets)  # the header names the length, too
    assert found
    with pytest.raises(InputError, match="no Arrow IPC stream"):
        read_body(header + offsets[:4] + b"\xff\xff\xff\x00" + rest, ARROW, Known(), LIMITS)


def test_quick_and_slow_lines_agree() -> None:
    rows = [
        {"id": "a", "x": 1, "ts": "2024-05-01T10:00:00"},
        {"x": 2.5, "id": None},
        {"id": "ä\n", "x": -0.0},
    ]
    text = "\n".join(json.dumps(row) for row in rows)
    quick = read_body(text.encode(), LINES, KNOWN, LIMITS)
    slow = read_body(
        (text + "\n\n").encode(), LINES, KNOWN, LIMITS
    )  # a blank line is none, and not for the quick one
    assert isinstance(quick.batch, pa.Table) and not isinstance(slow.batch, pa.Table)
    answers = []
    for body in (quick, slow):
        monitor = Monitor(schema=KNOWN.schema)
        watch = monitor.watch("SELECT id, ts FROM s ORDER BY x LIMIT 9 WINDOW 9 ROWS")
        monitor.push(body.batch)
        answers.append(watch.top().to_pylist())
        assert not sum(monitor.reject_counts.values())
    assert answers[0] == answers[1]


def open_quote(data: bytes) -> int | None:
    """The quote that is never closed, character by character."""
    at, opened, begins = 0, None, True
    while at < len(data):
        char = data[at : at + 1]
        if opened is not None and data[at : at + 2] == b'""':
            at += 1
        elif opened is not None and char == b'"':
            opened, begins = None, False
        elif opened is None and begins and char == b'"':
            opened = at
        elif opened is None:
            begins = char in b",\r\n"
        at += 1
    return opened


@given(st.lists(st.sampled_from('",\nab'), max_size=12))
@settings(max_examples=500)
def test_a_quote_that_is_never_closed_is_found(characters: list[str]) -> None:
    data = "".join(characters).encode()
    assert unclosed_quote(data, ",") == open_quote(data)


def test_a_quote_that_is_never_closed_is_an_error_that_says_where() -> None:
    for text, line in {
        'id,x\na,1\n"b,2\nc,3\n': 3,
        'id,x\n"a\nb",1\nc,"2': 4,
        'id,x\na,1\nb,"': 3,
        '"id,x\na,1\n': 1,
    }.items():
        with pytest.raises(
            InputError, match=rf"quote in line {line} of the body is never closed \(.*\): close it"
        ):
            read_body(text.encode(), CSV, UNKNOWN, LIMITS)
    body = read_body(b'id,x\n5" pipe,1\n"a ""b"" c",2\n"d\ne",3\n', CSV, UNKNOWN, LIMITS)
    assert body.batch["id"].to_pylist() == ['5" pipe', 'a "b" c', "d\ne"]


# -- packed bodies -------------------------------------------------------------------------------------------


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue())


PACKERS = {"gzip": gzip.compress, "zstd": zstd}


def unpacked(name: str, data: bytes, part: int = 100, most: int = 1 << 30) -> bytes:
    packed = unpacking(name)
    assert packed is not None
    found = b"".join(packed.more(data[at : at + part], most) for at in range(0, len(data), part))
    return found if len(found) > most else found + packed.end(most)


@pytest.mark.parametrize("name", PACKERS)
def test_packed_bodies(name: str) -> None:
    data = json.dumps([{"x": number} for number in range(1000)]).encode()
    pack = PACKERS[name]
    assert unpacked(name.upper(), pack(data)) == data == unpacked(name, pack(data), part=1)
    assert unpacked(name, pack(data) + pack(data)) == 2 * data, "several parts, one after the other"
    assert unpacked(name, pack(b"")) == b""
    for wrong in (pack(data)[:-3], b"", b"no such thing", pack(data) + b"junk"):
        with pytest.raises(InputError, match=f"can't be unpacked as {name}"):
            unpacked(name, wrong)
    bomb = pack(bytes(50_000_000))
    assert len(bomb) < 100_000 and len(unpacked(name, bomb, len(bomb), most=1000)) == 1001


@given(st.binary(max_size=40), st.sampled_from(["gzip", "zstd"]), st.integers(1, 40))
def test_any_bytes_as_packed(data: bytes, name: str, part: int) -> None:
    for each in (data, PACKERS[name](b"[]")[:10] + data):
        with contextlib.suppress(InputError):
            unpacked(name, each, part)


def test_other_encodings_are_refused() -> None:
    assert unpacking(None) is None and unpacking("identity") is None
    for name in ("br", "deflate", "gzip, gzip", "x"):
        with pytest.raises(Problem, match="send it as it is, or as gzip or zstd") as refused:
            unpacking(name)
        assert refused.value.status == 415
