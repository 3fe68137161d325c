"""Kept rows: what was put aside is found again by seq."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skyband.core.types import Recency
from skyband.stream.payloads import Kept, copied


def test_nothing_put_in_the_place_of_nothing_leaves_no_trace() -> None:
    """A watch that takes none of the retained rows, before any other row has come."""
    rows = pa.table({"a": [1.0, 2.0]})
    kept = Kept()
    kept.replace(np.empty(0, dtype=np.int64), rows.slice(0, 0), Recency(0, 0))
    kept.add(np.array([3, 4]), rows, Recency(0, 4))
    assert kept.take(np.array([4, 3]), rows.schema).to_pydict() == {"a": [2.0, 1.0]}
    assert kept.rows == 2


@pytest.mark.parametrize("values", [["a", None, "bcd"], [[1.0], [], None], [{"n": 1}, {"n": None}, None]])
def test_copied_columns_have_memory_of_their_own(values: list[Any]) -> None:
    """The caller may use its memory again. The column is one array, a part of one, or several."""
    array = pa.array(values)
    for chunks in ([array], [array.slice(1)], [array, array.slice(2)]):
        table = pa.table({"v": pa.chunked_array(chunks)})
        made = copied(table, table.schema)
        assert isinstance(made, pa.Table) and made.equals(table)
        there = {b.address for chunk in chunks for b in chunk.buffers() if b is not None and b.size}
        assert there.isdisjoint(
            b.address for b in made.column("v").chunk(0).buffers() if b is not None and b.size
        )
