"""The stairs of what was dropped: never lower than the best dropped row of any window."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skyband.algorithms.approximate.certificate import STEPS, Certificates, record
from skyband.core.types import Recency

GOOD = st.one_of(st.integers(0, 3).map(float), st.floats(-2, 2), st.sampled_from([np.inf, -np.inf]))


def made(rows: list[tuple[int, int, float]]) -> Certificates:
    stairs = Certificates()
    stairs.add()
    stairs.add()  # the second stays empty throughout
    for time, seq, good in rows:
        record(stairs, 0, good, time, seq)
        stairs._check()
    return stairs


def truth(
    rows: list[tuple[int, int, float]], answer: tuple[float, int, int] | None, horizon: Recency
) -> bool:
    """Whether no dropped row from the horizon on comes before the last of the answer (None: it is short)."""
    inside = [(good, time, seq) for time, seq, good in rows if (time, seq) >= horizon]
    return not inside or (answer is not None and answer > max(inside))


@given(
    rows=st.lists(st.tuples(st.integers(0, 5), GOOD), max_size=25),
    last=st.tuples(GOOD, st.integers(0, 5), st.integers(0, 30)),
    horizon=st.tuples(st.integers(0, 6), st.integers(-1, 30)),
)
def test_a_few_rows_are_told_exactly(
    rows: list[tuple[int, float]], last: tuple[float, int, int], horizon: tuple[int, int]
) -> None:
    dropped = [(time, 2 * seq, good) for seq, (time, good) in enumerate(rows)]
    stairs, edge = made(dropped), Recency(*horizon)
    good, time, seq = last[0], last[1], 2 * last[2] + 1  # no row of an answer is a dropped one
    answer = np.array([good]), np.array([time]), np.array([seq])
    assert stairs.certain(0, 1, edge, answer) == truth(dropped, (good, time, seq), edge)
    assert stairs.certain(0, 2, edge, answer) == truth(dropped, None, edge)
    assert stairs.certain(1, 2, edge, answer)


@given(data=st.data(), count=st.integers(40, 300), falling=st.booleans())
def test_many_rows_are_told_on_the_safe_side(data: st.DataObject, count: int, falling: bool) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    noise = random.random(count)
    goods = (-np.arange(count) + 5 * noise if falling else noise).tolist()
    late = random.integers(0, 9, count).tolist()
    dropped = [(i - late[i], i, good) for i, good in enumerate(goods)]
    stairs = made(dropped)
    assert stairs.count[0] < STEPS
    for _ in range(20):
        edge = Recency(data.draw(st.integers(-9, count)), -1)
        good = data.draw(st.sampled_from(goods)) + data.draw(st.sampled_from([-0.5, 0.5]))
        answer = np.array([good]), np.array([count]), np.array([count])
        if stairs.certain(0, 1, edge, answer):
            assert truth(dropped, (good, count, count), edge)
        # steps are forgotten only when no window reaches them
        edges = np.full(2, edge.time), np.full(2, edge.seq)
        shorter = Certificates()
        shorter.load(stairs.dump())
        shorter.expire(*edges)
        assert shorter.certain(0, 1, edge, answer) == stairs.certain(0, 1, edge, answer)


def test_steps_that_are_made_one_cover_about_as_much_each() -> None:
    """Falling scores for a thousand rows: no step covers a large part of them."""
    stairs = made([(0, i, -float(i)) for i in range(1000)])
    assert np.diff(stairs.seq[0, : stairs.count[0]]).max() < 1000 / 8
    stairs.clear(0)
    assert stairs.count[0] == 0


def test_dump_and_load() -> None:
    stairs = made([(0, i, float(-(i % 7))) for i in range(50)])
    again = Certificates()
    again.load(stairs.dump())
    assert all(
        np.array_equal(a, b) for a, b in zip(stairs.dump().values(), again.dump().values(), strict=True)
    )
    again.copy_slot(0, 1)
    assert again.count[1] == stairs.count[0] and np.array_equal(again.good[1], again.good[0])
