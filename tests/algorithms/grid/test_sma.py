"""SMA: its list is the skyband of the rows before the bar, counters and all, after every step (`_check` compares)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.algorithms.field import EVERYTHING, Field, linear, product, squares, wave

from skyband.algorithms.grid import sma
from skyband.algorithms.grid.sma import SMA

COORDINATE = st.one_of(
    st.integers(-2, 3).map(float), st.sampled_from([0.0, -0.0, np.inf, -np.inf, np.nan]), st.floats(-2, 2)
)
WEIGHT = st.sampled_from([1.0, 2.0, -1.0, 0.0, 0.5])
OPTIONS = st.sampled_from([{}, {"slack": 2.0}, {"slack": 0.5, "flag": 0.0}, {"cells": 3.0}, {"flag": 0.0}])


@given(data=st.data())
def test_it_equals_the_brute_force(data: st.DataObject) -> None:
    """Queries come on a full or an empty window, rows come late; ties, infinities and NaN."""
    sign, boxed = data.draw(st.sampled_from([(1.0, ()), (-1.0, (1,))]))  # each of them is compiled
    field = Field(SMA, linear(2, sign, boxed), **data.draw(OPTIONS))
    for _ in range(data.draw(st.integers(1, 7))):
        points = data.draw(st.lists(st.tuples(COORDINATE, COORDINATE), max_size=7))
        late = data.draw(st.lists(st.integers(0, 4), min_size=len(points), max_size=len(points)))
        field.step(points, late)
        if len(field.asked) < 3 and data.draw(st.booleans()):
            box = data.draw(st.sampled_from([((-1.0, 1.0),), ((2.0, 1.0),), (EVERYTHING,)])) if boxed else ()
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


@pytest.mark.parametrize("late", [0, 6])
@pytest.mark.parametrize("slack", [0.0, 2.0])
@pytest.mark.parametrize("levels", [2, 5, 1000])
@pytest.mark.parametrize("batch", [1, 6, 40])
def test_on_a_full_window(batch: int, levels: int, slack: float, late: int) -> None:
    """Queries that were asked of a full window: their lists fall short, several of their rows leave in one step."""
    random = np.random.default_rng(levels * batch + late)
    field = Field(SMA, linear(3), slack=slack)
    field.step(random.integers(levels, size=(60, 3)))
    field.ask(3, (1.0, 2.0, 0.5), 60)
    field.ask(1, (1.0, -1.0, 0.0), 60)
    field.ask(7, (0.0, 0.0, -1.0), 25)
    field.ask(70, (1.0, 1.0, 1.0), 60)  # more than there are
    steps = 150 if batch < 40 else 20
    for turn in range(steps):
        fall = (
            max(0, turn - steps // 2) * levels // 4
        )  # in the end rows grow worse, and each list falls short
        field.step(random.integers(levels, size=(batch, 3)) - fall, random.integers(late + 1, size=batch))
    counters = field.algorithm.counters(0)
    assert counters["recomputations"] > 1 and counters["admitted"] > 0 and counters["evicted"] > 0


def test_a_row_that_leaves_with_one_above_it_is_taken_out_too() -> None:
    """The paper looks for it in the top k of before the step, where it wasn't yet (erratum 1)."""
    field = Field(SMA, linear(1))
    field.step([[9.0], [5.0], [6.0], [1.0], [1.0], [1.0]])
    asked = field.ask(2, (1.0,), 6)  # the list: 9 and 6; the bar is 6
    field.step([[7.0]])  # 9 leaves
    field.step([[8.0]])  # 8, 7; 6 has two dominators
    assert field.algorithm.ranked.top(asked.slot, 9)[0].tolist() == [8.0, 7.0]
    field.step([[6.5], [6.25]])
    assert field.algorithm.ranked.top(asked.slot, 9)[0].tolist() == [8.0, 7.0, 6.5, 6.25]
    field.step([[0.0]] * 2)
    assert field.algorithm.counters(asked.slot)["recomputations"] == 1
    field.step([[0.0]] * 3)  # 7, 8 and 6.5 leave together
    assert field.algorithm.ranked.top(asked.slot, 9)[0].tolist() == [6.25, 0.0]
    assert field.algorithm.counters(asked.slot)["recomputations"] == 2


def test_a_late_row_is_counted_from_both_sides() -> None:
    field = Field(SMA, linear(1))
    field.step([[4.0], [3.0], [2.0]], [0, 0, 0])
    asked = field.ask(3, (1.0,), 50)
    field.step([[5.0], [1.0], [3.5]], [0, 0, 5])  # the last one is older than all but the first
    span = field.algorithm.ranked.span(asked.slot)
    counts = dict(
        zip(
            field.algorithm.ranked.seq[span].tolist(),
            field.algorithm.ranked.count[span].tolist(),
            strict=True,
        )
    )
    assert counts == {0: 1, 1: 1, 2: 1, 3: 0, 5: 1}
    # at the bar recency decides: 2.0 (seq 2) is the bar, and an equal row that is older stays behind it
    assert field.algorithm.bars.bar[asked.slot] == 2.0
    field.step([[2.0], [2.0]], [0, 6])
    assert field.algorithm.ranked.seq[field.algorithm.ranked.span(asked.slot)].tolist() == [2, 6, 1, 5, 0, 3]


@pytest.mark.parametrize("make", [product, squares, wave])
@pytest.mark.parametrize("slack", [0.0, 1.0])
def test_other_scores(make: Any, slack: float) -> None:
    """Monotone as long as the values allow, or not at all, or not even compiled."""
    random = np.random.default_rng(5)
    field = Field(SMA, make(2), slack=slack)
    field.step(random.random((80, 2)))
    field.ask(4, (0.25, 0.5), 80)
    field.ask(2, (1.0, 0.0), 40)
    for turn in range(40):
        field.step(random.random((9, 2)) - (0 if turn < 20 else 0.6))
    assert field.algorithm.counters(0)["recomputations"] > 1


def test_a_bar_that_is_too_low_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query on an empty window takes every row, until its list is long; so does one whose rows grow better."""
    monkeypatch.setattr(sma, "TIGHTEN", 100)
    random = np.random.default_rng(2)
    field = Field(SMA, linear(2))
    field.step([])
    early = field.ask(3, (1.0, 1.0), 400)
    for _ in range(300):
        field.step(random.random((2, 2)))
    counters = field.algorithm.counters(early.slot)
    assert counters["raised"] > 0 and not field.algorithm.bars.complete[early.slot]
    assert field.algorithm.ranked.size[early.slot] < 12
    raised = counters["raised"]
    for turn in range(300):
        field.step(random.random((2, 2)) + turn / 50)
    assert field.algorithm.counters(early.slot)["raised"] > raised


def test_a_flood_is_searched_not_taken_row_by_row() -> None:
    random = np.random.default_rng(4)
    field = Field(SMA, linear(2))
    field.step([])
    asked = field.ask(2, (1.0, 1.0), 1000)
    field.step(random.random((500, 2)))
    counters = field.algorithm.counters(asked.slot)
    assert counters["admitted"] == 0 and counters["recomputations"] == 1
    assert field.algorithm.ranked.size[asked.slot] == 2


def test_slack_makes_searches_rare() -> None:
    searches = []
    for slack in (0.0, 2.0):
        random = np.random.default_rng(6)
        field = Field(SMA, linear(2), slack=slack)
        field.step(random.random((2000, 2)), check=False)
        asked = [field.ask(20, tuple(random.random(2)), 2000) for _ in range(10)]
        for _ in range(100):
            field.step(random.random((20, 2)), check=False)
        field.check()
        searches.append(sum(field.algorithm.counters(a.slot)["recomputations"] for a in asked))
    assert searches[0] > 20 and searches[1] == 10  # those when they were asked


def test_the_flag_only_saves_work() -> None:
    """The same rows are scored with and without it."""
    scored = []
    for flag in (0.0, 1.0):
        random = np.random.default_rng(1)
        field = Field(SMA, linear(2), flag=flag)
        field.step(random.random((500, 2)))
        field.ask(4, (0.4, 0.6), 500)
        for _ in range(20):
            field.step(random.random((20, 2)))
        scored.append(field.algorithm.counters(0))
    assert scored[0] == scored[1]
