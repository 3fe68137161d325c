"""The form of records: what it takes our own reader takes, to the same values, in Spark's engine as in Python's."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from skyband.spark.columns import Unfit, quoted
from skyband.spark.recordform import _MOST_KEYS, READ, Form, values_read
from skyband.spark.values import json_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us")), ("x", pa.float64()), ("n", pa.int64()), ("i", pa.int32()), ("h", pa.int16()),
        ("b", pa.int8()), ("t", pa.bool_()), ("g", pa.string()), ("z", pa.timestamp("ms", "UTC")),
    ]
)  # fmt: skip
TYPES = {field.name: field.type for field in SCHEMA}
USUAL: dict[str, Any] = {
    "ts": '"2026-01-02T03:04:05.678901"', "x": "1.5", "n": "7", "i": "-3", "h": "12", "b": "1", "t": "true",
    "g": '"a, b: {c}"', "z": '"2026-01-02T03:04:05.678Z"', "other": '"key"',
}  # fmt: skip
ODD = [
    "0", "-0", "-0.0", "01", "1.", ".5", "+1", "1e5", "1E-7", "1e400", "1e99", "-1e-99", "0x10", "NaN", "Infinity",
    "null", "true", "12345678901234567890", "123456789012345678", "9999999999", "40000", "200", "99", "1.5",
    "0.1234567890123456789",
    '"1"', '"a"', '""', '"\\u0041"', '"tab\\t"', '"tab\t"', '"\u00e9\u4e2d"', '"\ud83d\ude00"', "[1]", '{"a": 1}', "",
    "1 2",
    '"2026-01-02 03:04:05"', '"2026-01-02T03:04:05Z"', '"2026-02-30T03:04:05"', '"2026-01-02T24:00:00"',
    '"2026-01-02T03:04:60"', '"2026-01-02"', '"1677-01-01T00:00:00"', '"2026-01-02T03:04:05.1234567"',
    '"2026-01-02T03:04:05.1+02:00"', '"2026-01-02T03:04:05.123456Z"', '"2026-13-02T03:04:05Z"', '"x\x01y"', "1\x01",
]  # fmt: skip
WHOLE: list[bytes | None] = [
    None, b"", b"  ", b"\x01", b"\x01\x01\x01\x01", b"null", b"[]", b"{}", b"5", b"\xff\xfe", b"\xef\xbb\xbf{}",
]  # fmt: skip


def written(values: dict[str, str], comma: str = ", ", colon: str = ": ") -> str:
    return "{" + comma.join(f'"{key}"{colon}{value}' for key, value in values.items()) + "}"


def records() -> list[bytes | None]:
    chance = random.Random(4)
    found: list[bytes | None] = [*WHOLE]
    for key in USUAL:
        for odd in ODD:
            found.append(written({**USUAL, key: odd}).encode("utf-8", "surrogatepass"))
    usual = written(USUAL)
    found += [
        text.encode()
        for text in (usual, f" {usual}\n", f"{usual}}}", f"{usual} {usual}", f"{usual},", usual[:-1])
    ]
    found += [usual.encode().replace(b"a, b", b"\xffa"), usual.replace('"x"', '"X"').encode()]
    found += [written(USUAL, ",", ":").encode(), written(USUAL, " ,\n  ", "\t:\r\n").encode()]
    found += [
        written({"x": "1", **USUAL}).encode(),
        written({k: v for k, v in USUAL.items() if k != "x"}).encode(),
    ]
    found += [f'{usual[:-1]}, "x": 2}}'.encode()]
    for _ in range(300):
        found.append(
            written({**USUAL, "x": repr(chance.uniform(-1, 1) * 10.0 ** chance.randint(-30, 17))}).encode()
        )
    return found


def truth(values: list[bytes | None]) -> list[dict[str, Any] | None]:
    """What our reader makes of each; None: it rejects it."""
    found = []
    for value in values:
        chunk = json_values(pa.array([value], pa.binary()), SCHEMA)
        found.append(None if chunk.bad else chunk.table.to_pylist()[0])
    return found


FORM = Form.of([written(USUAL).encode(), b"{", None], TYPES)


def test_what_a_form_takes_our_reader_takes() -> None:
    values = records()
    pattern = re.compile(FORM.pattern(()))
    taken = 0
    for value, row in zip(values, truth(values), strict=True):
        text = "" if value is None else value.decode("utf-8", "replace")
        times = re.findall(r'"(\d{4}-[^"]*)"', text)
        # days and hours that there aren't are found out by Spark, when it makes times of them
        there = not any(re.search(r"-02-30|T24|:60|-13-", time) for time in times)
        if pattern.fullmatch(text) and "\x01" not in text and there:
            taken += 1
            assert row is not None, value
    assert 350 < taken < len(values) - 200


@pytest.mark.spark
def test_spark_reads_the_same_values(spark: SparkSession) -> None:
    values = records()
    rows = truth(values)
    frame = spark.createDataFrame(
        pa.table({"at": pa.array(range(len(values))), "value": pa.array(values, pa.binary())})
    )
    for wanted in ([], ["x"], ["g", "n"], SCHEMA.names):
        found = values_read(frame, "value", FORM, wanted).withColumnRenamed(READ, "read").toArrow()
        taken = 0
        for answer in found.to_pylist():
            if answer["read"]:
                taken += 1
                row = rows[answer["at"]]
                assert row is not None, values[answer["at"]]
                for name in wanted:
                    is_null = row[name] is None and answer[name] in (None, "")
                    assert is_null or str(answer[name]).split("+")[0] == str(row[name]).split("+")[0], (
                        name,
                        answer,
                        row,
                    )
        assert taken > 350


@pytest.mark.spark
def test_as_many_keys_as_a_stack_holds(spark: SparkSession) -> None:
    """Java's expressions are recursive, and a JVM whose stack ends doesn't go on."""
    keys = [f"key {i}" for i in range(_MOST_KEYS)]
    text = json.dumps(dict.fromkeys(keys, -1.5e-10)).encode()
    form = Form.of([text], dict.fromkeys(keys, pa.float64()))
    frame = spark.createDataFrame(pa.table({"value": pa.array([text] * 3, pa.binary())})).localCheckpoint()
    found = values_read(frame, "value", form, keys).toArrow()
    assert found.column(READ).to_pylist() == [True] * 3
    assert found.column(keys[-1]).to_pylist() == [-1.5e-10] * 3
    with pytest.raises(Unfit):
        Form.of([json.dumps({**dict.fromkeys(keys, 1), "more": 2}).encode()], {})


def test_times_are_captured_though_nobody_wants_them() -> None:
    assert FORM.groups([]) == ["ts", "z"] and FORM.groups(["x", "no key"]) == ["ts", "x", "z"]


def test_forms_that_there_are() -> None:
    lines = [
        b'{"b": 1, "a": 2}',
        b'{"a": 1, "b": 2}',
        b'{"b": 3, "a": 4}',
        b'{"a": [1]}',
        b"[[1, 2]]",
        b'{"a": 1, "a": 2}',
    ]
    assert Form.of(lines, {}).keys == ("b", "a")
    for odd in ([b"[1]"], [], [b'{"a": {"b": 1}}'], [b"{}"], [b'{"a\\"": 1}'], [b'{"a": 1, "a": 2}']):
        with pytest.raises(Unfit):
            Form.of(odd, {})
    for kind in (pa.float32(), pa.decimal128(5, 2), pa.date32(), pa.timestamp("ns"), pa.uint8()):
        with pytest.raises(Unfit):
            Form(("a",), {"a": kind}).pattern(())
    strange = Form(("a.b*c (d)[e]^f$ü|\u00e9-+?#&~ ",), {"a.b*c (d)[e]^f$ü|\u00e9-+?#&~ ": pa.float64()})
    key = strange.keys[0]
    assert re.fullmatch(strange.pattern([key]), json.dumps({key: 2.5}, ensure_ascii=False))[1] == "2.5"  # type: ignore[index]
    assert quoted(key) in strange.columns([key], [key])[0]
