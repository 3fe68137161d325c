"""The limit of a list that may miss a row: the expectation is exact, and the bound that rests on it holds."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.algorithms.kernels.published_limits import misses_of, safe_limit

from benchmarks.papers.pripuzic.errors import misses_in
from skyband.algorithms.kernels.capacity import limit_for, misses


def missed(ranks: tuple[int, ...], n: int, k: int, capacity: int) -> bool:
    """Whether the middle one of 2n - 1 rows, a smaller number being better, is dropped and wanted later."""
    mine, dropped = ranks[n - 1], False
    for step in range(n):
        better = sum(rank < mine for rank in ranks[step : step + n])
        if better >= capacity:
            dropped = True
        elif dropped and better < k:
            return True
    return False


@pytest.mark.parametrize(
    ("n", "k", "capacity"),
    [(2, 1, 1), (3, 1, 1), (3, 1, 2), (3, 2, 2), (4, 1, 2), (4, 2, 2), (4, 2, 3), (4, 1, 3)],
)
def test_the_expectation_is_that_of_all_orders(n: int, k: int, capacity: int) -> None:
    """Every order of the 2n - 1 rows that a row ever shares a window with, counted one by one."""
    orders = list(permutations(range(2 * n - 1)))
    found = sum(missed(order, n, k, capacity) for order in orders)
    assert misses_of(n, k, capacity) == Fraction(n * found, len(orders))


@given(k=st.integers(1, 6), more=st.integers(0, 8), n=st.integers(2, 24))
def test_a_larger_window_misses_more_and_never_more_than_a_very_large_one(k: int, more: int, n: int) -> None:
    here, larger = misses_of(n, k, k + more), misses_of(n + 1, k, k + more)
    assert here <= larger <= misses(k, k + more) * (1 + 1e-12)


@given(k=st.integers(1, 6), more=st.integers(0, 8), n=st.integers(2, 24))
def test_floats_say_what_fractions_do(k: int, more: int, n: int) -> None:
    assert misses_in(n, k, k + more) == pytest.approx(float(misses_of(n, k, k + more)), rel=1e-9, abs=1e-300)


def test_a_window_of_which_k_is_a_large_part_misses_fewer() -> None:
    """The misses that the benchmark pripuzic expects: near the limit for k = 9 of 300 rows, far below it for k = 60."""
    assert misses_in(300, 9, 20) == pytest.approx(misses(9, 20), rel=0.2)
    assert misses_in(300, 60, 90) < 0.5 * misses(60, 90)


@pytest.mark.parametrize(("k", "capacity"), [(1, 2), (1, 5), (2, 4), (3, 8)])
def test_windows_without_end(k: int, capacity: int) -> None:
    """The finite expectation comes as near to the limit as the window is large: what is lacking goes down like 1/n."""
    lacking = [misses(k, capacity) - float(misses_of(n, k, capacity)) for n in (20, 40, 80)]
    assert lacking[0] > lacking[1] > lacking[2] > 0
    assert lacking[2] < 0.7 * lacking[1] < 0.5 * lacking[0] + 1e-9


def test_one_rank() -> None:
    """For k = 1 the sum is a power of two."""
    for capacity in range(1, 40):
        assert misses(1, capacity) == pytest.approx(2.0 ** (1 - capacity), rel=1e-12)


@pytest.mark.parametrize("error", [0.5, 0.1, 0.01, 0.001, 1e-6, 1e-12])
@pytest.mark.parametrize("k", [1, 2, 3, 9, 50, 81, 500])
def test_the_limit_is_the_least_that_keeps_the_error(k: int, error: float) -> None:
    limit = limit_for(k, error)
    assert misses(k, k + limit) <= error
    assert limit == 0 or misses(k, k + limit - 1) > error
    # whoever shares a list with a greater k gets at least the rows that he would have alone
    assert k + limit <= k + 1 + limit_for(k + 1, error)


@pytest.mark.parametrize("k", [1, 2, 5, 10, 20, 50, 100, 200, 500])
def test_it_is_shorter_than_the_published_one(k: int) -> None:
    assert limit_for(k, 0.001) < safe_limit(10_000, k, 0.001)


def test_no_k_is_too_large() -> None:
    k = 2**31 - 1
    limit = limit_for(k, 0.001)
    assert 0.0009 < misses(k, k + limit) <= 0.001
    with pytest.raises(ValueError):
        misses(5, 4)
