"""Objects named by several columns: whatever the columns' types, equal keys are one object, different keys are two, the
answer has the columns' own values, and the id is a JSON array."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from skyband.query.sql.parser import parse
from skyband.spark.verify.brute_answers import Part, answer
from skyband.stream.key_text import array_ids, text_ids, values_in

TWO = "SELECT k, c, COUNT(*) FROM s GROUP BY k, c ORDER BY COUNT(*) DESC LIMIT 99 WINDOW 999 ROWS"
INFINITY = float("inf")
FAR = 4_000_000  # days after 1970: Python's years end before

VALUES: dict[str, pa.Array] = {  # different ones
    "int64": pa.array([-(2**63), 0, 2**63 - 1]),
    "uint64": pa.array([0, 2**64 - 1], pa.uint64()),
    "int8": pa.array([-128, 127], pa.int8()),
    "bool": pa.array([True, False]),
    "double": pa.array([0.1, 1e300, 5e-324, 0.0, INFINITY, -INFINITY]),
    "float": pa.array([0.1, INFINITY, -INFINITY, 3e38], pa.float32()),
    "halffloat": pa.array([1.5, INFINITY], pa.float16()),
    "string": pa.array(["", "a", 'a"b', "a\\x62", "Infinity", "ä\n", "[1, 2]"]),
    "large_string": pa.array(["a", "b"], pa.large_string()),
    "binary": pa.array([b"", b"a", b"b'a'", b"\xff", b"\\xff", "ÿ".encode(), b"\x00", b"\\"]),
    "large_binary": pa.array([b"a", b"\xfe"], pa.large_binary()),
    "fixed_size_binary": pa.array([b"ab", b"\xff\\"], pa.binary(2)),
    "decimal128": pa.array([Decimal("-1.20"), Decimal("0.00"), Decimal("99999999.99")], pa.decimal128(10, 2)),
    "decimal of thousands": pa.array([Decimal("1E+3"), Decimal("12E+3")], pa.decimal128(10, -3)),
    "decimal256": pa.array([Decimal("1.25")], pa.decimal256(50, 2)),
    "date32": pa.array([0, -1, FAR, -FAR], pa.int32()).view(pa.date32()),
    "date64": pa.array([0, 86_400_000], pa.int64()).view(pa.date64()),
    "time32[s]": pa.array([0, 86_399], pa.int32()).view(pa.time32("s")),
    "time32[ms]": pa.array([0, 1, 86_399_999], pa.int32()).view(pa.time32("ms")),
    "time64[us]": pa.array([0, 1, 86_399_999_999]).view(pa.time64("us")),
    "time64[ns]": pa.array([0, 1, 86_399_999_999_999, 86_400_000_000_001]).view(pa.time64("ns")),
    "duration[s]": pa.array([-5, 0, 2**62]).view(pa.duration("s")),
    "duration[ns]": pa.array([-1, 1]).view(pa.duration("ns")),
    "timestamp[s]": pa.array([-1, 0, 2**62]).view(pa.timestamp("s")),
    "timestamp[ms]": pa.array([-1, 0, 1, 2**62]).view(pa.timestamp("ms")),
    "timestamp[us]": pa.array([-1, 0, 1, 1_000_000, -(2**62)]).view(pa.timestamp("us")),
    "timestamp[ns]": pa.array([-1, 0, 1, 1_000, 10**9, 2**63 - 1]).view(pa.timestamp("ns")),
    # the hour that comes twice, and a zone that once was 53 minutes and 28 seconds ahead
    "timestamp[us, Berlin]": pa.array([1_729_989_000_000_000, 1_729_992_600_000_000, -(2**52)]).view(
        pa.timestamp("us", "Europe/Berlin")
    ),
    "timestamp[ns, Berlin]": pa.array([1_729_989_000_000_000_001, 1_729_992_600_000_000_001]).view(
        pa.timestamp("ns", "Europe/Berlin")
    ),
    "dictionary": pa.array(["a", "b"]).dictionary_encode(),
    "dictionary of doubles": pa.array([1.5, INFINITY]).dictionary_encode(),
}


def plain(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def strict(text: str) -> Any:
    """JSON as everybody reads it."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("case", VALUES)
def test_keys_of_any_type(case: str, tmp_path: Path) -> None:
    values = VALUES[case]
    n = len(values)
    twice = pa.table({"k": pa.chunked_array([values, values]), "c": np.repeat([1, 2], [n, n])})
    m = sb.Monitor()
    w = m.watch(TWO, name="w")
    changes = m.push(twice.slice(0, n))
    m.push(twice)
    ids = changes["id"].to_pylist()
    assert len(set(ids)) == n and all(len(strict(text)) == 2 for text in ids)
    for watch in (w, reloaded(m, tmp_path)):
        top = watch.top()
        assert top["score"].to_pylist() == [2.0] * n + [1.0] * n
        assert top.schema.field("k").type == plain(values).type
        # the latest row first
        expected = pa.table({"k": plain(values)}).take(np.arange(n)[::-1])
        assert top.slice(0, n).select(["k"]).equals(expected)
        assert top.slice(n).select(["k"]).equals(expected)
    part = Part("s", pa.concat_tables([twice.slice(0, n), twice]), np.arange(3 * n), np.arange(3 * n))
    found = answer(parse(TWO), [part], with_rows=True)
    assert {one.id for one in found[:n]} == set(ids) and len(found) == 2 * n


def reloaded(m: sb.Monitor, folder: Path) -> Any:
    m.save(folder / "saved")
    return sb.Monitor.load(folder / "saved").watches["w"]


def test_many_columns_are_told_apart() -> None:
    columns = {
        f"c{i}": [*range(16), 1 if i == 0 else 0] for i in range(17)
    }  # 16^17 combinations are beyond int64
    names = ", ".join(columns)
    m = sb.Monitor()
    w = m.watch(f"SELECT {names} FROM t GROUP BY {names} ORDER BY COUNT(*) DESC LIMIT 2 WINDOW 99 ROWS")
    m.push(columns)
    assert w.top()["score"].to_pylist() == [1.0, 1.0]


@pytest.mark.parametrize("type_", [pa.float64(), pa.float32(), pa.float16()])
@pytest.mark.parametrize("keys", ["k", "k, c"])
def test_minus_zero_is_zero_and_nan_stays_out(type_: pa.DataType, keys: str) -> None:
    m = sb.Monitor()
    w = m.watch(f"SELECT k, COUNT(*) FROM s GROUP BY {keys} ORDER BY COUNT(*) DESC LIMIT 9 WINDOW 9 ROWS")
    for values in ([0.0], [-0.0, 0.0], [float("nan"), -0.0, None]):
        m.push(pa.table({"k": pa.array(values, type_), "c": [1] * len(values)}))
    assert w.top()["score"].to_pylist() == [4.0]
    assert [str(value) for value in w.top()["k"].to_pylist()] == ["0.0"]


def test_what_ids_look_like() -> None:
    """Texts that are documented, and those of earlier versions, which saved states have."""
    row: dict[str, Any] = {
        "a": 1, "b": True, "c": "ä", "d": 0.5, "e": -INFINITY, "f": b"a\\\xff", "g": Decimal("1.20"),
        "h": dt.date(2024, 5, 1), "i": dt.datetime(2024, 5, 1, 12), "j": dt.datetime(2024, 5, 1, 12, 0, 0, 5),
        "k": dt.datetime(2024, 5, 1, tzinfo=dt.UTC), "l": dt.time(1, 2, 3), "m": dt.timedelta(seconds=1),
    }  # fmt: skip
    names = ", ".join(row)
    m = sb.Monitor()
    w = m.watch(f"SELECT {names} FROM s GROUP BY {names} ORDER BY COUNT(*) LIMIT 9 WINDOW 9 ROWS")
    expected = [
        1, True, "ä", 0.5, "-Infinity", "a\\x5c\\xff", "1.20", "2024-05-01", "2024-05-01 12:00:00",
        "2024-05-01 12:00:00.000005", "2024-05-01 00:00:00+00:00", "01:02:03.000000", 1_000_000,
    ]  # fmt: skip
    assert m.push([row])["id"].to_pylist() == [json.dumps(expected, ensure_ascii=False)]
    shown = w.top().to_pylist()[0]
    assert {name: shown[name] for name in row} == row


def test_one_key_of_bytes_that_are_no_text() -> None:
    m = sb.Monitor()
    w = m.watch("SELECT k, COUNT(*) FROM s GROUP BY k ORDER BY COUNT(*) DESC LIMIT 9 WINDOW 9 ROWS")
    assert sorted(m.push({"k": [b"a", b"\xff", b"\\xff"]})["id"].to_pylist()) == ["\\x5cxff", "\\xff", "a"]
    assert sorted(w.top()["k"].to_pylist()) == [b"\\xff", b"a", b"\xff"]


def test_a_key_that_is_null_at_first() -> None:
    m = sb.Monitor()
    w = m.watch(TWO)
    m.push({"k": [None, None], "c": [1, 2]})
    m.push({"k": [dt.date(2024, 5, 1)], "c": [1]})
    assert w.top()["k"].to_pylist() == [dt.date(2024, 5, 1)]


@given(
    st.lists(st.tuples(st.binary(max_size=4), st.text(max_size=4), st.floats(allow_nan=False)), max_size=8)
)
def test_every_id_leads_back(rows: list[tuple[bytes, str, float]]) -> None:
    columns = [
        pa.array([row[i] for row in rows], type_)
        for i, type_ in enumerate((pa.binary(), pa.string(), pa.float64()))
    ]
    ids = array_ids(columns)
    assert len(set(ids.to_pylist())) == len(set(rows))  # of Python's floats too -0.0 equals 0.0
    assert len(set(text_ids(columns[0]))) == len({row[0] for row in rows})
    for at, column in enumerate(columns):
        assert values_in(ids, at, column.type).to_pylist() == column.to_pylist()
