"""Whether rows come in random order."""

from __future__ import annotations

import numpy as np
import pytest

from skyband.algorithms.approximate.order_test import BUFFER, FEWEST, SURE, mean_ranks, order_of

PLACE = np.arange(BUFFER, dtype=np.float64)
NOISE = np.random.default_rng(4).random(BUFFER)


@pytest.mark.parametrize(
    "scores",
    [
        -PLACE,
        PLACE,
        np.sin(PLACE / 40),
        np.where(PLACE < BUFFER // 2, NOISE, -PLACE),  # random, then falling
        np.round(PLACE / 100),
        np.sin(PLACE / 40) + 0.3 * NOISE,
        np.where(PLACE % 2 == 0, PLACE, -PLACE),
        np.where(PLACE < BUFFER // 2, np.inf, -np.inf),
    ],
    ids=["falling", "rising", "up and down", "half", "stairs", "with noise", "zigzag", "infinite"],
)
def test_order_is_found(scores: np.ndarray) -> None:
    assert max(map(abs, order_of(scores))) > SURE


def test_random_order_is_not_taken_for_order() -> None:
    """Two sums of 2,000 buffers: about normal with variance 1, and never beyond what makes a family switch."""
    random = np.random.default_rng(1)
    found = np.array([order_of(random.normal(size=BUFFER)) for _ in range(2000)])
    assert abs(found).max() < SURE - 1
    assert np.allclose(found.mean(axis=0), 0, atol=0.1) and np.allclose(found.std(axis=0), 1, atol=0.1)


@pytest.mark.parametrize("values", [2, 5, 50])
def test_ties_are_not_taken_for_order(values: int) -> None:
    random = np.random.default_rng(values)
    found = np.array([order_of(random.integers(0, values, BUFFER).astype(float)) for _ in range(500)])
    assert abs(found).max() < SURE - 1


def test_too_few_and_all_equal_say_nothing() -> None:
    assert (
        order_of(PLACE[: FEWEST - 1]) == order_of(np.full(BUFFER, 3.0)) == order_of(PLACE[:0]) == (0.0, 0.0)
    )
    assert max(map(abs, order_of(PLACE[: 2 * FEWEST]))) > SURE


def test_equal_scores_share_their_mean_rank() -> None:
    assert mean_ranks(np.array([5.0, 1.0, 5.0, -0.0, 0.0])).tolist() == [3.5, 2.0, 3.5, 0.5, 0.5]
