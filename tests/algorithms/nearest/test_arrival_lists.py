"""Lists in order of arrival: the value at a rank is the one that sorting finds, and a sweep leaves the k-skyband."""

import numpy as np

from skyband.algorithms.kernels.barred_lists import Bars
from skyband.algorithms.nearest.arrival_lists import (
    END,
    FIRST,
    START,
    USUAL,
    Arrived,
    K,
    gathered,
    select,
    sweep,
)


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


def test_a_sweep_leaves_what_fewer_than_k_newer_rows_are_as_good_as() -> None:
    rng = np.random.default_rng(6)
    for n, k in ((1, 1), (5, 9), (40, 1), (60, 9), (200, 30)):
        for values in (
            rng.random(n),
            np.sort(rng.random(n)),
            np.sort(rng.random(n))[::-1].copy(),
            rng.integers(0, 3, n).astype(np.float64),
            np.where(rng.random(n) < 0.9, -np.inf, rng.random(n)),  # infinitely far is a score like others
        ):
            bars, lists = Bars(slot=1), Arrived(slot=1, number=8, place=5 + n)
            line, good, place = lists.line, lists.good, lists.place
            line[0, START], line[0, FIRST], line[0, END], line[0, K], line[0, USUAL] = 3, 5, 5 + n, k, n
            good[5:], place[:], bars.bar[0] = values, np.arange(5 + n), -np.inf
            kept = [i for i in range(n) if np.count_nonzero(values[i + 1 :] >= values[i]) < k]
            assert not sweep(0, bars, lists, np.empty(k + 1))
            begin, end = line[0, FIRST], line[0, END]
            assert (begin, bars.bar[0]) == (3, -np.inf)
            assert place[begin:end].tolist() == [5 + i for i in kept]
            assert good[begin:end].tolist() == values[kept].tolist()


def test_rows_that_came_together() -> None:
    line = np.zeros((4, 16), dtype=np.int64)
    ages = [
        np.arange(0, 800, 40),
        np.arange(300, 480, 9),
        np.arange(700, 800, 5),
        np.r_[0:100:10, 400:500:10],
    ]
    place = np.concatenate(ages) + 1000
    line[:, END] = np.cumsum([len(each) for each in ages])
    line[1:, FIRST] = line[:-1, END]
    slots = np.arange(4)
    assert gathered(slots, 1000, 1800, line, place).tolist() == [
        1,
        2,
    ]  # evenly, in the midst, of late, at two times
    assert gathered(slots[:2], 1000, 1800, line, place).tolist() == [1]
    assert gathered(slots[:0], 1000, 1800, line, place).tolist() == []
