"""Keys as numbers, and back again."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pytest

from skyband.stream.keys import _bits, _from_bits


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
