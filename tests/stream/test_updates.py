"""The table of live rows against a plain dict, for every type of key."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from skyband.core.types import LOWEST, Recency
from skyband.stream.updates import (
    DATA,
    DELETE,
    LATE,
    UNREAD,
    Updates,
    keyless,
    must_be_key,
    must_be_op,
    operations,
)  # fmt: skip

KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int64": (pa.int64(), [0, 1, -1, 2**63 - 1, -(2**63), 7]),
    "int8": (pa.int8(), [0, 1, -1, 127, -128]),
    "uint64": (pa.uint64(), [0, 1, 2**64 - 1, 2**63]),
    "double": (pa.float64(), [0.0, 1.5, -1.5, float("inf"), 5e-324]),
    "float": (pa.float32(), [0.0, 1.5, -1.5]),
    "bool": (pa.bool_(), [True, False]),
    "text": (pa.string(), ["", "a", "b", "größe", "a "]),
    "large text": (pa.large_string(), ["", "a", "b"]),
    "bytes": (pa.binary(), [b"", b"a", b"\0"]),
    "date": (pa.date32(), [dt.date(1970, 1, 1), dt.date(2024, 2, 29)]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(2024, 2, 29, 1, tzinfo=dt.UTC), dt.datetime(1970, 1, 1)],
    ),
    "time": (pa.time32("s"), [dt.time(1), dt.time(2)]),
    "duration": (pa.duration("ns"), [dt.timedelta(1), dt.timedelta(0)]),
    "decimal": (pa.decimal128(30, 2), [Decimal("0.10"), Decimal("-1.00"), Decimal("9" * 20)]),
}


class Plain:
    """The same by a dict."""

    def __init__(self) -> None:
        self.live: dict[Any, tuple[int, int]] = {}
        self.floor: tuple[int, int] = LOWEST
        self.counts = dict.fromkeys(("new", "replaced", "deleted", "unknown"), 0)

    def apply(
        self, rows: list[tuple[Any, int, int, int]], floor: tuple[int, int]
    ) -> tuple[list[bool], list[tuple[int, int]]]:
        self.live = {key: row for key, row in self.live.items() if row >= self.floor}
        self.floor = floor
        gone = []
        for key, code, time, seq in rows:
            old = self.live.pop(key, None)
            known = old is not None and old >= floor
            if known:
                gone.append(old)
            if code == DATA:
                self.live[key] = (time, seq)
                self.counts["replaced" if known else "new"] += 1
            elif code == DELETE:
                self.counts["deleted" if known else "unknown"] += 1
            else:
                self.counts["replaced"] += known
        return [(time, seq) not in gone for _, code, time, seq in rows if code == DATA], gone


@given(data=st.data())
@pytest.mark.parametrize("kind", KEYS)
def test_as_a_dict_would(kind: str, data: st.DataObject) -> None:
    type_, values = KEYS[kind]
    updates, plain = Updates("id", "op"), Plain()
    one = st.tuples(st.sampled_from(values), st.sampled_from([DATA, DATA, DELETE, LATE]), st.integers(0, 5))
    seq = 0
    floor = LOWEST
    for batch in data.draw(st.lists(st.lists(one, max_size=8), max_size=6)):
        rows = [(key, code, time, seq + i) for i, (key, code, time) in enumerate(batch)]
        first, seq = seq, seq + len(rows)
        floor = data.draw(
            st.sampled_from([LOWEST, floor, floor, Recency(1, 0), Recency(3, 4), Recency(4, 2)])
        )
        outcome = updates.apply(
            pa.array([key for key, *_ in rows], type_),
            np.array([code for _, code, _, _ in rows], dtype=np.uint8),
            np.array([time for _, _, time, _ in rows], dtype=np.int64),
            np.array([number for *_, number in rows], dtype=np.int64),
            floor,
        )
        live, gone = plain.apply(rows, floor)
        assert ([True] * len(live) if outcome.live is None else outcome.live.tolist()) == live
        found = list(zip(outcome.time.tolist(), outcome.seq.tolist(), strict=True))
        assert found == [recency for recency in gone if recency[1] < first]
        updates._check()
        assert updates.known() == sum(recency >= floor for recency in plain.live.values())
        assert updates.counted() == plain.counts
        if data.draw(st.booleans()):  # and goes on where it was
            blob, updates = updates.dump(), Updates("id", "op")
            updates.load(blob)
            updates._check()


@pytest.mark.parametrize("type_", [pa.int64(), pa.string()])
def test_many_keys_and_few_that_are_remembered(type_: pa.DataType) -> None:
    """The table grows with the window and not with the stream."""
    updates = Updates("id", None)
    rng = np.random.default_rng(3)
    window, batch, most = 5_000, 700, 0
    live: dict[int, int] = {}
    for first in range(0, 150_000, batch):
        seq = np.arange(first, first + batch)
        keys = np.where(rng.random(batch) < 0.5, seq, rng.integers(0, 4_000, batch)) * 2**40
        floor = Recency(0, first - window)
        outcome = updates.apply(
            pa.array(keys).cast(type_), np.zeros(batch, dtype=np.uint8), np.zeros(batch, dtype=np.int64), seq, floor
        )  # fmt: skip
        gone = []
        for key, number in zip(keys.tolist(), seq.tolist(), strict=True):
            old = live.get(key, -1)
            if max(0, first - window) <= old < first:
                gone.append(old)
            live[key] = number
        assert outcome.seq.tolist() == gone
        most = max(most, updates.bytes())
    updates._check()
    assert updates.keys is not None and updates.keys.used < 1.6 * (window + batch)
    assert most < 400 * (window + batch)  # bytes; the whole stream would take five times as many


def test_keys_that_are_equal_are_one() -> None:
    updates = Updates("id", None)

    def arrive(keys: list[float], first: int) -> list[int]:
        n = len(keys)
        zeros = np.zeros(n, dtype=np.int64)
        array = pa.array(keys, pa.float64())
        return updates.apply(array, zeros.astype(np.uint8), zeros, first + np.arange(n), LOWEST).seq.tolist()

    assert arrive([0.0, 1.0], 0) == []
    assert arrive([-0.0, 2.0], 2) == [0]  # -0.0 equals 0.0


def test_operations_are_read_in_any_case() -> None:
    words = ["insert", "UPDATE", "Delete", "c", "U", "D", "r", "R", None, "", "drop", " insert", "insert"]
    expected = [DATA, DATA, DELETE, DATA, DATA, DELETE, DATA, DATA, *[UNREAD] * 4, DATA]
    assert operations(pa.array(words)).tolist() == expected
    assert operations(pa.array(words, pa.large_string()).slice(2, 3)).tolist() == expected[2:5]
    assert operations(pa.nulls(2)).tolist() == [UNREAD, UNREAD]
    assert operations(pa.array([], pa.string())).tolist() == []


def test_no_key() -> None:
    assert keyless(pa.array([1, None])).tolist() == [False, True]
    assert keyless(pa.array([1.0, float("nan"), None])).tolist() == [False, True, True]
    assert keyless(pa.array(["", None])).tolist() == [False, True]
    assert keyless(pa.nulls(1)).tolist() == [True]


def test_types_that_do() -> None:
    for type_, _ in KEYS.values():
        must_be_key("id", type_)
    must_be_key("id", pa.null())
    must_be_op("op", pa.string())
    must_be_op("op", pa.null())


@pytest.mark.parametrize("type_", [pa.list_(pa.int64()), pa.struct([("a", pa.int64())])])
def test_types_that_can_be_no_key(type_: pa.DataType) -> None:
    with pytest.raises(sb.InputError, match=r"The key column .id. is .*, which can.t be a key: take"):
        must_be_key("id", type_)


def test_operations_are_texts() -> None:
    with pytest.raises(sb.InputError, match='The op column "op" is int64; it must be a text'):
        must_be_op("op", pa.int64())
