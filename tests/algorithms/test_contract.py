"""One suite for every registered algorithm: whatever it does inside, this is what it promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.algorithms.driver import EXACT, Driver, Row, arrivals_of, live, skyband

from skyband.algorithms import REGISTRY, WINDOWED
from skyband.core.types import Recency

ALL = sorted(name for name, kind in REGISTRY.items() if kind.card.exact)
GOOD = st.one_of(
    st.integers(0, 3).map(float), st.sampled_from([0.0, -0.0, np.inf, -np.inf, np.nan]), st.floats(-2, 2)
)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[list[Row], Recency | None]]:
    """Steps of rows, some of them late, and a horizon that moves on now and then.

    Some rows had to wait: they come newer than all earlier ones, with a lower seq.
    """
    steps, seq, now, waiting = [], 0, 0, draw(st.sampled_from([0, 0, 1, 4]))
    held = [*range(waiting)]
    seq = waiting
    for batch in draw(st.lists(st.lists(st.tuples(st.integers(-3, 2), GOOD), max_size=7), max_size=7)):
        rows = []
        if held and batch and draw(st.booleans()):
            now += 1
            rows.append(Row(now, held.pop(0), draw(GOOD)))
        for step, good in batch:
            now += max(step, 0)
            rows.append(Row(now + min(step, 0), seq, good))
            seq += 1
            if draw(st.integers(0, 9)) == 0:
                held.append(seq)
                seq += 1
        back = draw(st.sampled_from([None, 0, 1, 3]))
        steps.append(
            (rows, None if back is None else Recency(now - back, draw(st.sampled_from([-1, seq - 2]))))
        )
    return steps


@given(steps=histories())
@pytest.mark.parametrize("name", ALL)
def test_it_equals_the_sorted_window(name: str, steps: list[tuple[list[Row], Recency | None]]) -> None:
    driver = Driver(name, [1, 2, 4, 30])
    for rows, horizon in steps:
        driver.step(rows, horizon)
        driver.compare()


@given(steps=histories())
@pytest.mark.parametrize("name", ALL)
def test_a_batch_is_its_rows_one_by_one(name: str, steps: list[tuple[list[Row], Recency | None]]) -> None:
    whole, single = Driver(name, [2]), Driver(name, [2])
    for rows, horizon in steps:
        whole.step(rows, horizon)
        single.step([], horizon)
        for row in rows:
            single.step([row])
        assert whole.top(whole.slots[0], 2) == single.top(single.slots[0], 2)


@given(steps=histories())
@pytest.mark.parametrize("name", ALL)
def test_dump_and_load_change_nothing(name: str, steps: list[tuple[list[Row], Recency | None]]) -> None:
    through, loaded = Driver(name, [1, 3]), Driver(name, [1, 3])
    for rows, horizon in steps:
        loaded.reload()
        through.step(rows, horizon)
        loaded.step(rows, horizon)
        loaded.compare()
        if through.windowed:  # an index is made anew from its rows, and may have other slack
            continue
        one, other = through.algorithm.dump(), loaded.algorithm.dump()
        assert one.keys() == other.keys()
        for key in one:
            assert np.array_equal(one[key], other[key], equal_nan=one[key].dtype.kind == "f"), key


@pytest.mark.parametrize("name", ALL)
def test_the_dump_is_not_the_state_itself(name: str) -> None:
    driver = Driver(name, [2])
    driver.step([Row(0, i, float(i % 5)) for i in range(20)])
    blob = driver.algorithm.dump()
    before = {key: array.copy() for key, array in blob.items()}
    driver.step([Row(1, 100 + i, float(i)) for i in range(20)], Recency(1, 0))
    assert all(np.array_equal(blob[key], before[key]) for key in blob)


@given(rows=st.lists(st.tuples(st.integers(0, 3), GOOD), max_size=9))
@pytest.mark.parametrize("name", ALL)
def test_inputs_are_not_touched(name: str, rows: list[tuple[int, float]]) -> None:
    driver = Driver(name, [2])
    batch = sorted((Row(t, i, g) for i, (t, g) in enumerate(rows)), reverse=True)
    arrivals, copy = arrivals_of(batch), arrivals_of(batch)
    for part in (arrivals.time, arrivals.seq, arrivals.place, arrivals.good(0)):
        part.flags.writeable = False
    driver.feed(arrivals)
    for part in ("time", "seq", "place"):
        assert np.array_equal(getattr(arrivals, part), getattr(copy, part))
    assert np.array_equal(arrivals.good(0), copy.good(0), equal_nan=True)
    # what is kept is marked, so that the monitor keeps its columns too
    marked = {int(arrivals.seq[p]) for p in np.flatnonzero(arrivals.mark)}
    assert {r.seq for r in live(driver, driver.slots[0])} <= marked


@pytest.mark.parametrize("name", ALL)
def test_an_empty_window_and_k_beyond_it(name: str) -> None:
    driver = Driver(name, [3, 500])
    driver.compare()
    driver.step([])
    driver.step([Row(5, 0, 1.0), Row(5, 1, 1.0)])
    driver.compare()
    driver.step([], Recency(6, 0))
    assert driver.top(driver.slots[0], 3) == driver.top(driver.slots[1], 500) == []
    assert driver.algorithm.size(driver.slots[0])[0] == 0
    driver.step([Row(4, 2, 9.0)])  # older than the horizon: it must not come in
    assert driver.top(driver.slots[0], 3) == []
    driver.step([Row(6, 3, 2.0)])
    driver.compare()


@pytest.mark.parametrize("name", ALL)
def test_slots_come_and_go(name: str) -> None:
    """A freed slot is used again, empty, and the others don't notice; lists move as they outgrow their room."""
    random = np.random.default_rng(3)
    driver = Driver(name, [2, 5])
    seq = 0
    for turn in range(40):
        rows = [Row(turn, seq + i, float(random.integers(0, 50)) - turn) for i in range(30)]
        seq += 30
        driver.step(rows, Recency(turn - 12, 0))
        driver.compare_some()
        if turn % 4 == 1:
            extra = driver.add(200)
        if turn % 4 == 3:
            driver.algorithm.remove(extra)
            fresh = driver.add(1)
            if driver.windowed:  # the rows of its horizon are there
                assert driver.top(fresh, 1) == driver.expected(1)
            else:
                assert driver.top(fresh, 1) == [] and driver.algorithm.size(fresh)[0] == 0
            driver.algorithm.remove(fresh)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize(("before", "after"), [(5, 2), (2, 5)])
def test_a_slot_may_change_its_k(name: str, before: int, after: int) -> None:
    """A smaller k holds at once; a larger one from when the rows from before have left."""
    random = np.random.default_rng(5)
    driver = Driver(name, [before])
    for seq in range(200):
        if seq == 100:
            driver.algorithm.resize(driver.slots[0], after)
            driver.ks = [after]
        driver.step([Row(0, seq, float(random.integers(0, 40)))], Recency(0, max(0, seq - 50)))
        k = min(before, after) if seq < 160 else after
        assert driver.top(driver.slots[0], k) == driver.expected(k)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.soak), 10, 400])
def test_memory_is_near_what_its_card_expects(name: str, batch: int) -> None:
    """Random order, n = 800, k = 10: the candidates and their bytes stay near the card's figure."""
    n, k = 800, 10
    random = np.random.default_rng(11)
    driver = Driver(name, [k])
    slot, sizes = driver.slots[0], []
    for seq in range(0, 4 * n, batch):
        rows = [Row(0, seq + i, random.random()) for i in range(batch)]
        driver.step(rows, Recency(0, max(0, seq + batch - n)))
        if seq >= n:
            sizes.append(driver.algorithm.size(slot)[0])
    expected = driver.algorithm.card.expected(k, n)
    assert np.mean(sizes) < 1.25 * expected
    assert max(sizes) < 3 * expected
    assert driver.algorithm.size(slot)[1] < 3 * 64 * expected
    if not driver.windowed:
        assert set(skyband(driver.rows, k)) <= set(live(driver, slot))


@given(steps=histories(), k=st.integers(1, 3))
def test_sa_keeps_exactly_the_skyband(steps: list[tuple[list[Row], Recency | None]], k: int) -> None:
    driver = Driver("sa", [k])
    for rows, horizon in steps:
        driver.step(rows, horizon)
        assert live(driver, driver.slots[0]) == skyband([r for r in driver.rows if r.good == r.good], k)


@given(steps=histories(), k=st.integers(1, 3), gamma=st.sampled_from([0.0, 0.2, 0.5, 9.0]))
def test_ra_keeps_the_skyband_and_what_a_sweep_will_remove(
    steps: list[tuple[list[Row], Recency | None]], k: int, gamma: float
) -> None:
    driver = Driver("ra", [k], gamma=gamma, limit=1.0)
    for rows, horizon in steps:
        driver.step(rows, horizon)
        kept, real = set(live(driver, driver.slots[0])), [r for r in driver.rows if r.good == r.good]
        assert set(skyband(real, k)) <= kept <= set(real)


@pytest.mark.parametrize("levels", [1, 3, 1000])
def test_a_sweep_of_ra_leaves_exactly_the_skyband(levels: int) -> None:
    random = np.random.default_rng(levels)
    driver, sweeps = Driver("ra", [3], limit=2.0), 0
    for seq in range(400):
        driver.step([Row(0, seq, float(random.integers(0, levels)))], Recency(0, max(0, seq - 150)))
        done = driver.algorithm.counters(driver.slots[0])["sweeps"]
        if done > sweeps:
            assert live(driver, driver.slots[0]) == skyband(driver.rows, 3)
        sweeps = done
    assert sweeps > 10


def test_each_algorithm_counts_its_own_work() -> None:
    """No name is an alias of another: the counters differ, and they count."""
    names = {name: kind.counter_names for name, kind in REGISTRY.items()}
    assert len(set(names.values())) == len(names)
    random = np.random.default_rng(1)
    for name in ALL:
        driver = Driver(name, [3])
        for seq in range(300):
            driver.step([Row(0, seq, random.random())])
        counters = driver.algorithm.counters(driver.slots[0])
        assert counters["admitted"] > 0
        if name == "ra":
            assert counters["sweeps"] > 0 and counters["swept"] > 0
        if name == "sa":
            assert counters["evicted"] > 0


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_card_is_filled_in(name: str) -> None:
    card = REGISTRY[name].card
    assert card.name == name
    for text in (card.title, card.source, card.keeps, card.cost, card.wrong_when):
        assert len(text) > 5
    assert card.expected(10, 5) <= 10 and card.expected(10, 10_000) >= 10
    assert card.window == (name in WINDOWED) and card.scores in ("any", "monotone", "linear")
