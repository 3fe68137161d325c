"""PA: a certified answer is the true one, always; a row is dropped only behind k + limit others; the error is kept."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.algorithms.driver import Driver, Row, live
from tests.algorithms.test_contract import histories

from skyband.algorithms import LISTS, Arrivals
from skyband.algorithms.kernels.capacity import limit_for, misses
from skyband.core.types import Recency

Steps = list[tuple[list[Row], Recency | None]]
SHAPES = {
    "falling": lambda i, noise: -float(i),
    "rising": lambda i, noise: float(i),
    "constant": lambda i, noise: 1.0,
    "sawtooth": lambda i, noise: float(-(i % 17)),
    "random": lambda i, noise: noise,
    "drifting": lambda i, noise: noise - i / 60,
}


def honest(driver: Driver, exactly: bool = False) -> tuple[int, int]:
    """Compare every slot, every k and every horizon that a window could have: (certified, in doubt)."""
    sure = doubtful = 0
    horizons = [driver.horizon, *[r.recency for r in driver.rows]]
    for slot, most in zip(driver.slots, driver.ks, strict=True):
        for k in range(1, most + 1) if most < 4 else (1, most):
            for horizon in horizons:
                right = driver.top(slot, k, horizon) == driver.expected(k, horizon)
                certain = driver.algorithm.certain(slot, k, horizon)
                assert right or not certain, (k, horizon)
                assert not exactly or certain or not right, (k, horizon)
                sure += certain
                doubtful += not certain
    return sure, doubtful


@given(steps=histories(), limit=st.integers(1, 3), additional=st.integers(0, 2))
def test_certificates_never_lie(steps: Steps, limit: int, additional: int) -> None:
    driver = Driver("pa", [1, 2, 4], limit=limit, additional=additional)
    for rows, horizon in steps:
        driver.step(rows, horizon)
        honest(driver)


@given(steps=histories(), limit=st.integers(1, 3), additional=st.integers(0, 2))
def test_row_by_row_in_doubt_means_wrong(steps: Steps, limit: int, additional: int) -> None:
    """With as few rows as that nothing is put on record together, so the certificate is exact both ways."""
    driver = Driver("pa", [1, 3], limit=limit, additional=additional)
    for rows, horizon in steps:
        driver.step([], horizon)
        for row in rows:
            driver.step([row])
            honest(driver, exactly=True)


@given(steps=histories())
def test_with_room_for_all_it_is_exact(steps: Steps) -> None:
    driver = Driver("pa", [1, 2, 4, 30], limit=60)
    for rows, horizon in steps:
        driver.step(rows, horizon)
        driver.compare()
        assert honest(driver)[1] == 0


@given(steps=histories())
def test_dump_and_load_change_nothing(steps: Steps) -> None:
    through, loaded = (Driver("pa", [1, 3], limit=1) for _ in range(2))
    for rows, horizon in steps:
        loaded.reload()
        for driver in (through, loaded):
            driver.step(rows, horizon)
        one, other = through.algorithm.dump(), loaded.algorithm.dump()
        assert one.keys() == other.keys()
        for key in one:
            assert np.array_equal(one[key], other[key], equal_nan=one[key].dtype.kind == "f"), key


@pytest.mark.parametrize("shape", sorted(SHAPES))
@pytest.mark.parametrize("batch", [1, 7, 150])
@pytest.mark.parametrize("late", [0, 5])
def test_shapes_at_length(shape: str, batch: int, late: int) -> None:
    """Longer streams, in which lists fill, drop and run short many times, and the stairs are made shorter."""
    random = np.random.default_rng(7)
    driver = Driver("pa", [1, 5], limit=4)
    doubtful = 0
    for start in range(0, 450, batch):
        rows = [
            Row(i - int(random.integers(0, late + 1)), i, SHAPES[shape](i, random.random()))
            for i in range(start, min(start + batch, 450))
        ]
        driver.step(rows, Recency(start + batch - 120, -1))
        for slot, k in zip(driver.slots, driver.ks, strict=True):
            certain = driver.algorithm.certain(slot, k, driver.horizon)
            assert driver.top(slot, k) == driver.expected(k) or not certain
            doubtful += not certain
            assert len(live(driver, slot)) <= driver.algorithm.most(slot) == k + 5
        if start % 50 == 0 or batch > 50:
            honest(driver)
    if shape in ("rising", "constant") and not late:
        assert doubtful == 0  # nothing that was dropped could come back
    if shape == "falling" and batch < 120:  # else every window is a batch of its own
        assert doubtful > 0


@given(steps=histories(), k=st.integers(1, 3), limit=st.integers(1, 2))
def test_a_row_is_dropped_only_behind_k_and_limit_others(steps: Steps, k: int, limit: int) -> None:
    """All that the error rests on: whoever had fewer better rows in the window after every step is there."""
    driver = Driver("pa", [k], limit=limit, additional=1)
    safe: dict[Row, bool] = {}
    for rows, horizon in steps:
        driver.step(rows, horizon)
        window = [r for r in driver.rows if r.good == r.good]
        for row in window:
            better = sum((r.good, r.time, r.seq) > (row.good, row.time, row.seq) for r in window)
            safe[row] = safe.get(row, True) and better < k + limit
        assert {row for row in window if safe[row]} <= set(live(driver, driver.slots[0]))


def test_slots_come_go_and_change() -> None:
    random = np.random.default_rng(2)
    driver = Driver("pa", [2, 5])
    for seq in range(0, 600, 3):
        rows = [Row(0, seq + i, random.random()) for i in range(3)]
        driver.step(rows, Recency(0, max(0, seq - 100)))
        honest(driver) if seq % 30 == 0 else None
        if seq == 150:
            extra = driver.add(3)
        if seq == 240:
            driver.algorithm.remove(extra)
            assert driver.add(1) == extra and driver.algorithm.size(extra)[0] == 0
            assert driver.algorithm.certain(extra, 1, driver.horizon)
        if seq in (300, 420):
            driver.ks[0] = 9 if seq == 300 else 1
            driver.algorithm.resize(driver.slots[0], driver.ks[0])
            assert driver.algorithm.lists.limit[driver.slots[0]] == limit_for(driver.ks[0], 0.001)


# -- many queries at once: each has scores of its own, in random order


class Many:
    """PA and an exact algorithm side by side, with independent scores for each of many slots."""

    def __init__(self, slots: int, k: int, **options: float) -> None:
        self.k = k
        self.pa, self.truth = LISTS["pa"](options), LISTS["ra"]({})
        for _ in range(slots):
            self.pa.add(k)
            self.truth.add(k)
        self.missed: set[tuple[int, int]] = set()
        self.answers = self.doubtful = self.wrong = 0
        self.next = 0

    def step(self, goods: np.ndarray, n: int) -> None:
        """One row of scores for each slot, the rows newest first."""
        slots, batch = goods.shape
        none = np.empty(0, dtype=np.int64)
        self.next += batch
        horizon = Recency(0, max(0, self.next - n))
        for algorithm in (self.pa, self.truth):
            rows = Arrivals(
                time=np.zeros(batch, dtype=np.int64), seq=np.arange(self.next - 1, self.next - 1 - batch, -1),
                place=np.arange(batch), mark=np.zeros(batch, dtype=np.uint8), good=lambda slot: goods[slot],
                constants=np.zeros((0, 0)), sign=1.0, rendered=None, columns=lambda: (),
            )  # fmt: skip
            algorithm.step(rows, np.zeros(slots, dtype=np.int64), np.full(slots, horizon.seq), none, none)
        for slot in range(slots):
            shown = self.pa.top(slot, self.k, horizon)[2]
            true = self.truth.top(slot, self.k, horizon)[2]
            right, certain = np.array_equal(shown, true), self.pa.certain(slot, self.k, horizon)
            assert right or not certain
            self.answers += 1
            self.wrong += not right
            self.doubtful += not certain
            self.missed |= {(slot, seq) for seq in set(true.tolist()) - set(shown.tolist())}


def missed_per_window(slots: int, n: int, k: int, error: float, windows: int, batch: int, seed: int) -> float:
    """Rows missed per window's worth of rows, after the first window."""
    random = np.random.default_rng(seed)
    many = Many(slots, k, error=error)
    for _ in range((windows + 1) * n // batch):
        many.step(random.random((slots, batch)), n)
    assert many.doubtful == many.wrong  # hardly anything was put on record together
    return len(many.missed) / (slots * windows)


@pytest.mark.parametrize(("n", "k", "batch", "seed"), [(1000, 3, 20, 1), (1000, 9, 20, 2)])
def test_the_error_is_kept_and_used(n: int, k: int, batch: int, seed: int) -> None:
    """Forty queries over twenty windows each, at an error large enough to see."""
    calibrated = misses(k, k + limit_for(k, 0.2))
    found = missed_per_window(40, n, k, 0.2, 20, batch, seed)
    assert 0.2 * calibrated < found < calibrated <= 0.2


@pytest.mark.soak
@pytest.mark.parametrize("error", [0.2, 0.05])
@pytest.mark.parametrize(("n", "k", "batch"), [(1000, 1, 10), (1000, 3, 5), (2000, 9, 20), (5000, 20, 50)])
def test_the_error_is_kept_and_used_at_length(n: int, k: int, batch: int, error: float) -> None:
    """Thousands of windows: between a fifth and the whole of the calibrated error."""
    calibrated = misses(k, k + limit_for(k, error))
    found = missed_per_window(100, n, k, error, 40, batch, 3)
    assert 0.2 * calibrated < found < calibrated <= error


def falling(random: np.random.Generator, batches: int, slots: int, batch: int) -> Iterator[np.ndarray]:
    for number in range(batches):
        drift = -0.2 * number
        yield random.random((slots, batch)) + drift


def test_a_stream_that_falls_is_in_doubt() -> None:
    many = Many(5, 3, error=0.01)
    for goods in falling(np.random.default_rng(5), 60, 5, 20):
        many.step(goods, 400)
    assert many.wrong > 0.5 * many.answers  # and not one of them was certified
