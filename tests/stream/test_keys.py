"""Keys as numbers, and back again."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.stream import text_keys as texts
from skyband.stream.keys import _bits, _from_bits, keys_for
from skyband.stream.text_keys import TextKeys


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (pa.int16(), [-3, 0, 32767]),
        (pa.int64(), [-(2**63), 2**63 - 1]),
        (pa.uint64(), [0, 2**63, 2**64 - 1]),
        (pa.bool_(), [True, False, True]),
        (pa.float32(), [0.5, float("inf"), -1.25]),
        (pa.float64(), [0.1, -1e300]),
        (pa.date32(), [date(1969, 12, 31), date(2024, 2, 29)]),
        (pa.timestamp("us"), [datetime(1960, 1, 1), datetime(2024, 2, 29, 23, 59, 59, 999999)]),
    ],
    ids=str,
)
def test_a_number_says_which_key_it_was(type_: pa.DataType, values: list[Any]) -> None:
    array = pa.array(values, type_)
    bits = _bits(array)
    assert len(set(bits.tolist())) == len(set(values))
    back = _from_bits(bits, type_)
    assert back.type == type_ and back.to_pylist() == values


@given(st.data())
def test_texts_are_found_again(data: st.DataObject) -> None:
    """Against a dict: slots of texts that come, are dropped and come back, in records of their own or of another's."""
    type_ = data.draw(st.sampled_from([pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]))
    keys, lodged = keys_for(type_), data.draw(st.booleans())
    assert isinstance(keys, TextKeys)
    words = ["", "a", "b", "ab", "ba", "\0", "é", "a" * 40, "a" * 39 + "b"]
    kind: Any = str if "string" in str(type_) else str.encode
    known: dict[Any, int] = {}
    for _ in range(data.draw(st.integers(1, 6))):
        came = [
            kind(w)
            for w in data.draw(st.lists(st.one_of(st.sampled_from(words), st.text(max_size=3)), max_size=9))
        ]
        if lodged:
            records = np.zeros((keys.used + len(came) + 3, 4), dtype=np.int64)
            if keys.lodged:
                records[: len(keys.cells)] = keys.cells[: len(records)]
            keys.lodge(records, 2)
        part = pa.array([kind("x"), *came, kind("y")], type_).slice(1, len(came))
        slots = keys.find(part).tolist()
        for word, slot in zip(came, slots, strict=True):
            assert known.setdefault(word, slot) == slot
        assert len(set(known.values())) == len(known)
        gone = [w for w in known if data.draw(st.booleans())]
        keys.drop(np.array([known.pop(w) for w in gone], dtype=np.int64))
        keys._check(np.sort(np.array([*known.values()], dtype=np.int64)))
        assert keys.values(np.array([*known.values()], dtype=np.int64)).to_pylist() == [*known]
        again = keys_for(type_)
        again.load(keys.dump(np.array([*known.values()], dtype=np.int64)))
        assert again.values(np.arange(len(known))).to_pylist() == [*known]


def test_texts_with_one_hash_and_room_that_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def one(offsets: Any, data: Any, out: Any) -> None:
        out[:] = 5

    monkeypatch.setattr(texts, "hash_texts", one)
    keys = TextKeys(pa.string())
    for step in range(8):
        words = [f"{step}-{i}" * 20 for i in range(100)]
        slots = keys.find(pa.array(words))
        assert len(set(slots.tolist())) == 100 and keys.values(slots).to_pylist() == words
        keys._check(np.sort(slots))
        keys.drop(slots)
    assert keys.used == 100 and len(keys.store) < 60_000
