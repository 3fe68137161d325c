"""TSL: views that are exact to their last rank, whatever comes, leaves and is deleted."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.algorithms.field import Field, linear, product, squares, wave

from skyband.algorithms.sorted_lists import tsl
from skyband.algorithms.sorted_lists.tsl import TSL, tuned

COORDINATE = st.one_of(
    st.integers(-2, 3).map(float), st.sampled_from([0.0, -0.0, np.inf, -np.inf, np.nan]), st.floats(-2, 2)
)
WEIGHT = st.sampled_from([1.0, 2.0, -1.0, 0.0, 0.5])


@pytest.fixture(params=[False, True], ids=["numpy", "compiled"])
def compiled(request: Any, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Both ways to score."""
    monkeypatch.setattr(tsl, "COMPILE_SCORES", 0 if request.param else 10**9)
    monkeypatch.setattr(tsl, "ROUND", 2)  # so that walks have more than one round
    return bool(request.param)


@pytest.mark.usefixtures("compiled")
@given(data=st.data())
def test_it_equals_the_brute_force(data: st.DataObject) -> None:
    """Slots come on a full or an empty window, rows come late, some are deleted; ties, infinities and NaN."""
    sign, boxed = data.draw(st.sampled_from([(1.0, ()), (-1.0, (1,))]))  # each of them is compiled
    field = Field(TSL, linear(2, sign, boxed), kmax=data.draw(st.sampled_from([0, 3])))
    for _ in range(data.draw(st.integers(1, 6))):
        points = data.draw(st.lists(st.tuples(COORDINATE, COORDINATE), max_size=7))
        late = data.draw(st.lists(st.integers(0, 4), min_size=len(points), max_size=len(points)))
        delete = data.draw(st.lists(st.integers(0, 30), max_size=2))
        field.step(points, late, delete)
        if len(field.asked) < 3 and data.draw(st.booleans()):
            box = (
                data.draw(st.sampled_from([((-1.0, 1.0),), ((2.0, 1.0),), ((-np.inf, np.inf),)]))
                if boxed
                else ()
            )
            field.ask(
                data.draw(st.integers(1, 4)), data.draw(st.tuples(WEIGHT, WEIGHT)),
                data.draw(st.sampled_from([1, 4, 9, 50])), box, data.draw(st.booleans()),
            )  # fmt: skip
        elif field.asked and data.draw(st.booleans()):
            field.resize(field.asked[0], data.draw(st.integers(1, 5)))
        elif field.asked and data.draw(st.booleans()):
            field.drop(field.asked[-1])
        field.check()
        if data.draw(st.booleans()):
            field.reload()
            field.check()


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("levels", [2, 5, 1000])
@pytest.mark.parametrize("batch", [1, 3, 40])
def test_bursts_that_leave_the_view_and_mediocre_rows_that_follow(levels: int, batch: int) -> None:
    """What room there is in a view is nobody's: a newcomer has to be better than its last."""
    random = np.random.default_rng(levels * batch)
    field = Field(TSL, linear(3))
    field.step(random.integers(levels, size=(60, 3)))
    field.ask(3, (1.0, 2.0, 0.5), 60)
    field.ask(1, (1.0, -1.0, 0.0), 60)
    field.ask(7, (0.0, 0.0, -1.0), 25)
    for turn in range(120 if batch < 40 else 30):
        good = turn % 10 == 0  # now and then the best of all, together: they leave together
        field.step(random.integers(levels, size=(batch, 3)) + (levels if good else 0) - turn * levels // 6)
    counters = field.algorithm.counters(0)
    assert counters["refills"] > 1 and counters["accesses"] > 0 and counters["admitted"] > 0


@pytest.mark.usefixtures("compiled")
def test_a_view_with_room_takes_nobody_who_is_not_better_than_its_last() -> None:
    """By hand: three of the best four leave; the fifth and sixth are in the window, but not in the view."""
    field = Field(TSL, linear(1), kmax=4)
    field.step([[9.0], [8.0], [7.0], [6.0], [5.0], [4.0]])
    asked = field.ask(1, (1.0,), 6)
    assert field.algorithm.ranked.top(asked.slot, 9)[0].tolist() == [9.0, 8.0, 7.0, 6.0]
    field.step([[1.0], [2.0], [3.0]])
    assert field.algorithm.ranked.top(asked.slot, 9)[0].tolist() == [6.0]
    field.step([[6.5]])
    assert field.algorithm.ranked.top(asked.slot, 9)[0].tolist() == [6.5]  # 6.0 left at the same step
    assert field.algorithm.counters(asked.slot)["refills"] == 1
    field.step([[6.25], [0.0], [0.0], [0.0], [0.0], [0.0]])
    assert field.algorithm.counters(asked.slot)["refills"] == 2


@pytest.mark.usefixtures("compiled")
def test_a_full_view_that_holds_the_window_stays_so_only_if_nobody_is_passed_over() -> None:
    """By hand: a window of two rows, and a view with room for three. In one step two rows come that are worse than
    all in the full view, one of them late. To pass one over is to know no more of the whole window: when the old rows
    have left, it is in the top."""
    field = Field(TSL, linear(1), kmax=1)
    asked = field.ask(3, (1.0,), 2)
    field.step([[1.0]], late=[0])
    field.step([[1.0]], late=[0])
    field.step([[1.0], [0.0], [0.0]], late=[0, 0, 3])
    assert field.expected(asked) == [(1.0, 2), (0.0, 3)]  # and so it was, or the step would have failed


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("make", [product, squares, wave])
def test_other_scores(make: Any) -> None:
    """Monotone as long as the values allow; then, and where it never was, by scoring all rows."""
    random = np.random.default_rng(5)
    field = Field(TSL, make(2))
    field.step(random.random((80, 2)))
    field.ask(4, (0.25, 0.5), 80)
    for turn in range(40):
        field.step(random.random((9, 2)) - (0 if turn < 20 else 0.6))
        if turn == 19:
            scans = field.algorithm.counters(0)["scans"]
            assert (scans > 0) == (make is wave)
    assert field.algorithm.counters(0)["scans"] > scans


@pytest.mark.usefixtures("compiled")
def test_boxes_begin_and_end_the_walk() -> None:
    random = np.random.default_rng(8)
    field = Field(TSL, linear(2, boxed=(0,)))
    field.step(random.random((2000, 2)), check=False)
    narrow = field.ask(3, (1.0, 1.0), 2000, ((0.40, 0.42),))
    field.check()
    assert 0 < field.algorithm.counters(narrow.slot)["accesses"] < 400
    field.ask(3, (-1.0, 1.0), 2000, ((0.9, 0.1),))
    field.check()
    for _ in range(30):
        field.step(random.random((50, 2)))


def test_a_walk_reads_less_than_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(3)
    field = Field(TSL, linear(2))
    field.step(random.random((20_000, 2)), check=False)
    asked = field.ask(5, (0.3, 0.7), 20_000)
    field.check()
    assert 0 < field.algorithm.counters(asked.slot)["accesses"] < 5000
    # another window is far smaller: its own rows are scored instead
    small = field.ask(5, (0.3, 0.7), 30)
    field.check()
    assert field.algorithm.counters(small.slot) == {"admitted": 0, "refills": 1, "scans": 1, "accesses": 0}


def test_k_max_is_the_papers() -> None:
    assert [tuned(k) for k in (1, 5, 10, 20, 50, 100)] == [4, 10, 20, 30, 70, 120]
    ks = np.arange(1, 2000)
    found = np.array([tuned(int(k)) for k in ks])
    assert (found > ks).all() and (np.diff(found) >= 0).all() and found[999] < 1100


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"), reason="too slow uncompiled")
def test_the_kernel_comes_when_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same answers before and after."""
    monkeypatch.setattr(tsl, "COMPILE_SCORES", 3000)
    random = np.random.default_rng(9)
    field = Field(TSL, linear(2, -1.0))
    field.step(random.random((300, 2)))
    field.ask(5, (1.0, 0.5), 300)
    for _ in range(60):
        field.step(random.random((90, 2)))
    assert field.algorithm._compiled() is not None
