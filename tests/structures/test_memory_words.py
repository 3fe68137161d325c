"""Fetching memory ahead changes nothing, compiled or not."""

import numpy as np

from skyband.jit import kernel
from skyband.order import Floats
from skyband.structures.memory import fetch


@kernel
def total(values: Floats) -> float:
    found = 0.0
    for i in range(values.shape[0]):
        fetch(values, i + 64)  # also beyond the end: nothing is read
        fetch(values, i - 64)
        found += values[i]
    return found


def test_fetching_is_no_reading() -> None:
    for n in (0, 1, 1000):
        values = np.arange(float(n))
        assert total(values) == total.function(values) == n * (n - 1) / 2
