"""From the values of records to rows: as lines where they are, one by one where they aren't, in runs of a partition."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.spark.config import StreamSpec
from skyband.spark.input import inputs, values
from skyband.spark.input.inputs import record_parts
from skyband.spark.input.values import Form

_VALUES = [b'{"x": 1}', b'{"x": 2, "g": "a"}', b'{"x": "no"}', b"{", b'{"x": 3}{"x": 4}', b'{"g": "\xff"}']
_ODD = [None, b"", b" ", b"\xff", b"null", b'\n{"x": 5}', b'{"x":\r\n6}', b"[1]"]


@given(
    common=st.lists(st.sampled_from(_VALUES), min_size=1, max_size=12),
    odd=st.lists(st.sampled_from([*_VALUES, *_ODD]), max_size=4),
    cut=st.tuples(st.integers(0, 3), st.integers(0, 3)),
)
def test_values_are_read_as_lines_or_one_by_one_and_are_the_same(
    common: list[bytes], odd: list[bytes | None], cut: tuple[int, int]
) -> None:
    schema = pa.schema([("x", pa.int64()), ("g", pa.string())])
    for texts in (common, [*common, *odd], [*odd, *common]):
        some = pa.array(texts, pa.binary())[cut[0] : len(texts) - cut[1]]
        slow, fast = values._one_by_one(some, schema), values.json_values(some, schema)
        assert slow.table.equals(fast.table) and slow.bad == fast.bad and slow.count == len(some)
    plain = pa.array([b'{"x": 1}', *common], pa.binary())
    assert values._as_lines(plain) == b"\n".join([b'{"x": 1}', *common])


def test_records_are_read_in_runs_of_one_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([("x", pa.int64())])
    places = [(0, 5), (0, 6), (1, 0), (1, 3), (1, 4), (0, 7), (0, 8), (0, 9)]

    def lines(rows: list[tuple[int, int]]) -> pa.RecordBatch:
        value = pa.array([b'{"x": %d}' % (10 * number + first) for number, first in rows], pa.binary())
        number = pa.array([(1 << 32) + number for number, _ in rows], pa.int64())  # of the second stream
        first = pa.array([first for _, first in rows], pa.int64())
        return pa.record_batch([number, first, value], names=["number", "first", "value"])

    def runs(*cuts: int) -> list[tuple[int, int, list[int]]]:
        batches = [lines(places[a:b]) for a, b in pairwise([0, *cuts, len(places)])]
        found = [*record_parts(iter(batches), {"other": schema, "cars": schema}, (Form(), Form()))]
        assert all((place, stream) == (1, "cars") for (place, _, _), stream, _ in found)
        return [
            (number, first, chunk.table.column("x").to_pylist()) for (_, number, first), _, chunk in found
        ]

    whole = [(0, 5, [5, 6]), (1, 0, [10, 13, 14]), (0, 7, [7, 8, 9])]
    assert runs() == runs(1) == runs(2, 3, 6) == whole
    assert runs(0) == runs(3, 3) == runs(len(places)) == whole  # some batches have nothing
    # a record has 8 bytes or 9, and pieces that are too large are halved
    monkeypatch.setattr(inputs, "_RUN_BYTES", 17)
    assert runs() == [(0, 5, [5, 6]), (1, 0, [10, 13]), (1, 4, [14]), (0, 7, [7, 8, 9])]
    monkeypatch.setattr(inputs, "_RUN_BYTES", 1)
    assert [(number, first) for number, first, _ in runs()] == places
    monkeypatch.setattr(inputs, "_RUN_RECORDS", 2)


def packed(table: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return bytes(out.getvalue())


def test_arrow_records_that_lead_out_of_their_data() -> None:
    """Nothing in them is followed before it was looked at: it would be the end of the process."""
    schema = pa.schema([("g", pa.string()), ("n", pa.decimal128(10, 2))])
    ends = pa.array([0, 1 << 28, 2], pa.int32()).buffers()[1]
    texts = pa.Array.from_buffers(pa.string(), 2, [None, ends, pa.py_buffer(b"ab")])
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 77], pa.int32()), pa.array(["a"]), safe=False)
    large = pa.Array.from_buffers(
        pa.decimal128(10, -16_777_214), 1, pa.array([Decimal(5)], pa.decimal128(10, 0)).buffers()
    )
    foreign = pa.array([b"a", b"\xff"]).view(pa.string())  # a matter of one row
    twice = pa.table([["a"], ["b"]], names=["g", "g"])
    wrong = [pa.table({"g": texts}), pa.table({"g": coded}), pa.table({"n": large}), twice]
    records = [packed(table) for table in (*wrong, pa.table({"g": foreign}), pa.table({"g": ["c"]}))]
    ((_, chunk),) = values.value_chunks(Form("arrow"), pa.array(records, pa.binary()), schema)
    assert [row.position for row in chunk.bad] == [0, 1, 2, 3]
    assert chunk.bad[3].detail == "the record has more than one column named 'g'"
    assert chunk.table.num_rows == 3


def test_values_of_records() -> None:
    schema = pa.schema([("x", pa.int64()), ("g", pa.string())])
    texts = [
        b'{"x": 1,\r\n "g": "a\\nb"}',
        None,
        b"",
        b"{",
        b'{"x": "no"}',
        b"\xff",
        b'{"x": 2, "other": [1]}',
    ]
    ((place, chunk),) = values.value_chunks(Form(), pa.array(texts, pa.binary()), schema)
    assert place == 0 and chunk.count == 7
    assert chunk.table.to_pylist() == [{"x": 1, "g": "a\nb"}, {"x": 2, "g": None}]
    assert [(row.position, row.raw) for row in chunk.bad] == [
        (1, ""),
        (2, ""),
        (3, "{"),
        (4, '{"x": "no"}'),
        (5, "ff"),
    ]

    one, other = pa.table({"x": [1, 2], "z": [0, 0]}), pa.table({"g": ["a"]})
    records = [packed(one), b"\xffno", packed(one.slice(0, 0)), packed(one), packed(other), None]
    found = [*values.value_chunks(Form("arrow"), pa.array(records, pa.binary()), schema)]
    assert [(at, chunk.table.to_pydict()) for at, chunk in found] == [
        (0, {"x": [1, 2, 1, 2]}),
        (4, {"g": ["a"]}),
    ]
    assert [[(row.position, row.raw) for row in chunk.bad] for _, chunk in found] == [
        [(2, "ff6e6f")],
        [(1, "")],
    ]
    assert next(values.value_chunks(Form("arrow"), pa.array([b""], pa.binary()), schema))[1].count == 1
    assert found[1][1].bad[0].detail == "the record has no value"


def test_records_between_offsets_whatever_a_stream_begins_with() -> None:
    class Reader:
        told: dict[str, str]

        def format(self, name: str) -> Reader:
            return self

        def options(self, **told: str) -> Reader:
            self.told = told
            return self

        def load(self) -> Reader:
            return self

        def selectExpr(self, *columns: str) -> Reader:
            return self

    begins = {"startingOffsets": "earliest", "startingTimestamp": "5", "STARTINGOFFSETSBYTIMESTAMP": "{}"}
    spec = StreamSpec("s", "kafka", Path(), "t", options=(("subscribe", "t"), *begins.items()))
    reader = Reader()
    inputs.record_lines(reader, spec, 0)
    assert reader.told == {"subscribe": "t", **begins}
    ends = {"startingOffsets": '{"t": {"0": 5, "1": -2}}', "endingOffsets": '{"t": {"0": 7, "1": 1}}'}
    inputs.record_lines(reader, spec, 0, **ends)
    assert reader.told == {"assign": '{"t": [0, 1]}', **ends}  # whatever partitions the topic has by now
