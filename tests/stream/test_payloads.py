"""Kept rows: what was put aside is found again by seq."""

import numpy as np
import pyarrow as pa

from skyband.core.types import Recency
from skyband.stream.payloads import Kept


def test_nothing_put_in_the_place_of_nothing_leaves_no_trace() -> None:
    """A watch that takes none of the retained rows, before any other row has come."""
    rows = pa.table({"a": [1.0, 2.0]})
    kept = Kept()
    kept.replace(np.empty(0, dtype=np.int64), rows.slice(0, 0), Recency(0, 0))
    kept.add(np.array([3, 4]), rows, Recency(0, 4))
    assert kept.take(np.array([4, 3]), rows.schema).to_pydict() == {"a": [2.0, 1.0]}
    assert kept.rows == 2
