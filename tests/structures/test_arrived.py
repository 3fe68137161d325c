"""The value at a rank is the one that sorting finds, whatever is equal to whatever."""

import numpy as np

from skyband.structures.arrived import select


def test_the_value_at_a_rank() -> None:
    rng = np.random.default_rng(5)
    for n in (1, 2, 8, 9, 10, 40, 200):
        for values in (
            rng.random(n),
            np.sort(rng.random(n)),
            np.sort(rng.random(n))[::-1].copy(),
            rng.integers(0, 3, n).astype(np.float64),
            np.where(rng.random(n) < 0.3, -np.inf, rng.random(n)),
        ):
            before, ranked = values.copy(), np.sort(values)
            for rank in {0, n // 3, n // 2, n - 1}:
                assert select(values, rank) == ranked[rank]
                if n <= 40:
                    assert select.function(values, rank) == ranked[rank]
            assert np.array_equal(values, before)
