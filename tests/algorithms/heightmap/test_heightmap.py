"""heightmap against the plain scoring of all rows: every step, every slot, to the last bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from skyband.algorithms.heightmap.family import HeightMap
from skyband.algorithms.heightmap.ingest import RISE
from skyband.core.types import LOWEST, Recency
from skyband.query.expression.nodes import Arithmetic, Call, Column, Parameter
from skyband.query.expression.score_space import Space

NONE = np.empty(0, dtype=np.int64)
FEW = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


def weighted(axes: int) -> Any:
    """p0 * x0 + p1 * x1 + …"""
    shape: Any = None
    for i in range(axes):
        term = Arithmetic("*", Parameter(i), Column(f"x{i}"))
        shape = term if shape is None else Arithmetic("+", shape, term)
    return shape


def product() -> Any:
    """(p0 + x0) * (p1 + x1): monotone where both factors keep their sign."""
    return Arithmetic(
        "*", Arithmetic("+", Parameter(0), Column("x0")), Arithmetic("+", Parameter(1), Column("x1"))
    )


def space(shape: Any, axes: int, sign: float = 1.0) -> Space:
    return Space(shape, tuple(f"x{i}" for i in range(axes)), sign)


class Stream:
    """An algorithm, all rows that ever came, and the plain answer."""

    def __init__(
        self, where: Space, rows: int | None = 200, span: int | None = None, **options: float
    ) -> None:
        self.space = where
        self.axes = len(where.columns)
        self.options = {"block": 64.0, "cells": 256.0, **options}
        self.algorithm = self.new()
        self.columns = np.empty((self.axes, 0))
        self.time, self.seq = NONE, NONE
        self.windows: dict[int, tuple[int | None, int | None, Recency]] = {}
        self.rows, self.span = rows, span
        self.next = 0
        self.told: dict[int, list[int]] = {}  # the tops at the last comparison

    def new(self) -> HeightMap:
        made = HeightMap(self.options, self.space)
        made._compiled = made.rendered is not None  # however few the queries are
        return made

    def add(
        self, k: int, constants: Sequence[float], rows: int | None = None, span: int | None = None
    ) -> int:
        window = (rows, span) if rows or span else (self.rows, self.span)
        slot = self.algorithm.add(k, constants, self.beginning())
        self.windows[slot] = (*window, self.beginning())
        return slot

    def beginning(self) -> Recency:
        """After everything that is there."""
        if self.next == 0:
            return LOWEST
        last = np.lexsort((self.seq, self.time))[-1]
        return Recency(int(self.time[last]), int(self.seq[last]) + 1)

    def horizon(self, slot: int) -> Recency:
        rows, span, beginning = self.windows[slot]
        order = np.lexsort((self.seq, self.time))
        edge = LOWEST
        if rows is not None and len(order) > rows:
            first = order[len(order) - rows]
            edge = Recency(int(self.time[first]), int(self.seq[first]))
        if span is not None and len(order):
            edge = Recency(int(self.time.max()) - span, -(2**62))
        return max(edge, beginning)

    def push(self, values: Any, time: Any = None) -> None:
        values = np.asarray(values, dtype=np.float64).reshape(-1, self.axes)
        n = len(values)
        time = np.zeros(n, dtype=np.int64) if time is None else np.asarray(time, dtype=np.int64)
        seq = np.arange(self.next, self.next + n)
        self.next += n
        self.columns = np.hstack([self.columns, values.T])
        self.time, self.seq = np.append(self.time, time), np.append(self.seq, seq)
        # as they came, now and then in order of recency: it takes both
        order = np.arange(n) if self.next % 3 else np.lexsort((seq, time))
        slots = len(self.algorithm.ks)
        horizons = [self.horizon(s) if s in self.windows else LOWEST for s in range(slots)]
        self.algorithm.step(
            tuple(np.ascontiguousarray(values[order, axis]) for axis in range(self.axes)),
            time[order], seq[order],
            np.array([h.time for h in horizons], dtype=np.int64),
            np.array([h.seq for h in horizons], dtype=np.int64),
            NONE, NONE,
        )  # fmt: skip

    def compare(self, thorough: bool = True) -> None:
        algorithm = self.algorithm
        for slot in self.windows:
            horizon = self.horizon(slot)
            inside = (self.time > horizon.time) | ((self.time == horizon.time) & (self.seq >= horizon.seq))
            good = self.space.good(tuple(self.columns[:, inside]), algorithm.constants[slot])
            fits = ~np.isnan(good)
            good, time, seq = good[fits], self.time[inside][fits], self.seq[inside][fits]
            best = np.lexsort((seq, time, good))[::-1][: int(algorithm.ks[slot])]
            found = algorithm.top(slot, int(algorithm.ks[slot]), horizon)
            assert found[0].tolist() == good[best].tolist()
            assert found[2].tolist() == seq[best].tolist()
            # whoever's top has changed says so: the monitor looks at no other
            assert algorithm.touched[slot] or self.told.get(slot, []) == found[2].tolist()
            self.told[slot] = found[2].tolist()
        if thorough:
            algorithm._check()
        algorithm.touched.fill(0)

    def count(self, name: str) -> int:
        return self.algorithm.counters(0)[name]


def drifting(rng: Any, n: int, axes: int, level: float, digits: int | None) -> Any:
    values = rng.random((n, axes)) * level
    return values if digits is None else np.round(values, digits)


@pytest.mark.parametrize("digits", [None, 1])
@pytest.mark.parametrize("drift", [1.0, 0.985, 1.015])
def test_weights_of_all_signs_under_drift(drift: float, digits: int | None) -> None:
    """The window turns over several times; scores rise, fall, or tie by the dozen."""
    rng = np.random.default_rng(5)
    stream = Stream(space(weighted(3), 3), rows=600)
    for i in range(24):
        weights = rng.normal(size=3) if i % 2 else rng.random(3)
        weights[rng.random(3) < 0.15] = 0.0
        stream.add(1 + i % 4, weights.tolist())
    for step in range(60):
        stream.push(drifting(rng, int(rng.integers(1, 100)), 3, drift**step, digits))
        stream.compare(thorough=step % 8 == 0)
    assert stream.count("maps made") > 0
    assert stream.count("rejected by the map") > 0


@FEW
@given(
    seed=st.integers(0, 2**20),
    size=st.sampled_from([1, 2, 7, 63, 64, 65, 200, 700]),
    rows=st.sampled_from([1, 5, 64, 150, 1000]),
    k=st.sampled_from([1, 2, 5, 300]),
    digits=st.sampled_from([None, 1, 0]),
)
def test_every_batch_size(seed: int, size: int, rows: int, k: int, digits: int | None) -> None:
    rng = np.random.default_rng(seed)
    stream = Stream(space(weighted(3), 3), rows=rows)
    for _ in range(3):
        stream.add(k, rng.normal(size=3).tolist())
    for step in range(min(40, 1 + 2500 // size)):
        stream.push(drifting(rng, size, 3, 0.97**step, digits))
        stream.compare(thorough=step % 5 == 0)


def test_rows_that_become_all_alike() -> None:
    """There is nothing left to draw a map of; the one that is there goes on to let pass what it must."""
    rng = np.random.default_rng(3)
    stream = Stream(space(weighted(3), 3), rows=1000)
    for _ in range(3):
        stream.add(2, rng.normal(size=3).tolist())
    for step in range(40):
        stream.push(np.round(rng.random((65, 3)) * 0.97**step))
        stream.compare()
    assert stream.count("maps made") > 0


ODD = [np.nan, np.inf, -np.inf, 1e300, -1e300, 0.0, -0.0, 5e-324]


@FEW
@given(seed=st.integers(0, 2**20), share=st.sampled_from([0.02, 0.3]))
def test_odd_values(seed: int, share: float) -> None:
    """NaN, infinities and far outliers, before and after the map's frame is made."""
    rng = np.random.default_rng(seed)
    stream = Stream(space(weighted(3), 3), rows=400)
    for _ in range(4):
        stream.add(3, rng.normal(size=3).tolist())
    for step in range(14):
        values = rng.random((90, 3))
        odd = rng.random((90, 3)) < share
        values[odd] = rng.choice(ODD, size=int(odd.sum()))
        stream.push(values)
        stream.compare(thorough=step % 4 == 0)


@FEW
@given(
    seed=st.integers(0, 2**20),
    lateness=st.sampled_from([0, 3, 60]),
    span=st.sampled_from([5, 40, 400]),
    now=st.sampled_from([0, -(2**62), 2**62 + 2**61]),  # times of doubles are numbers like the latter two
)
@example(seed=616612, lateness=60, span=40, now=2**62 + 2**61)  # more late rows than a list should have
@example(seed=6858, lateness=0, span=5, now=0)  # the only query by a face takes every row for a while
def test_time_windows_and_late_rows(seed: int, lateness: int, span: int, now: int) -> None:
    rng = np.random.default_rng(seed)
    stream = Stream(space(weighted(3), 3), rows=None, span=span)
    for i in range(5):
        stream.add(
            1 + i, rng.normal(size=3).tolist(), span=span if i % 2 else None, rows=None if i % 2 else 150
        )
    for step in range(30):
        n = int(rng.integers(0, 60)) if step % 10 else 400  # rows enough for a list to overflow in one step
        now += int(rng.integers(0, 12))
        stream.push(rng.random((n, 3)), now - rng.integers(0, lateness + 1, size=n) if n else [])
        stream.compare(thorough=step % 6 == 0)


@FEW
@given(seed=st.integers(0, 2**20))
def test_queries_come_change_and_go(seed: int) -> None:
    rng = np.random.default_rng(seed)
    stream = Stream(space(weighted(3), 3), rows=300)
    for step in range(40):
        action = rng.random()
        if action < 0.5 or not stream.windows:
            stream.add(int(rng.integers(1, 6)), rng.normal(size=3).tolist(), rows=int(rng.integers(1, 500)))
        elif action < 0.65:
            slot = int(rng.choice(list(stream.windows)))
            del stream.windows[slot]
            stream.algorithm.remove(slot)
        elif action < 0.85:
            slot = int(rng.choice(list(stream.windows)))
            stream.algorithm.resize(slot, int(rng.integers(1, 8)))
        stream.push(rng.random((int(rng.integers(0, 80)), 3)))
        stream.compare(thorough=step % 6 == 0)


@FEW
@given(seed=st.integers(0, 2**20))
def test_save_and_load_and_retained_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    stream = Stream(space(weighted(3), 3), rows=350)
    for _ in range(4):
        stream.add(3, rng.normal(size=3).tolist())
    for step in range(24):
        stream.push(rng.random((45, 3)))
        if step % 6 == 5:
            blob = stream.algorithm.dump()
            stream.algorithm = stream.new()
            stream.algorithm.load(blob)
            stream.algorithm.touched.fill(1)
        if step == 12:
            # rows from before come back for a query whose window reaches further than any before
            slot = stream.add(4, [1.0, -1.0, 0.5], rows=600)
            stream.windows[slot] = (600, None, LOWEST)
            older = np.argsort(stream.seq)[-600:]
            stream.algorithm.horizon_time[slot], stream.algorithm.horizon_seq[slot] = stream.horizon(slot)
            stream.algorithm.fill(tuple(stream.columns[:, older]), stream.time[older], stream.seq[older])
            stream.algorithm.opened(slot)  # once more: it must not stand twice, or take rows twice
        stream.compare(thorough=step % 5 == 0)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("box", [(0.0, 1.0), (-1.0, 1.0)])
def test_a_product_is_mapped_where_it_is_monotone(sign: float, box: tuple[float, float]) -> None:
    """Heights by bisection; where the sign of a factor isn't sure the query meets every row."""
    rng = np.random.default_rng(3)
    stream = Stream(space(product(), 2, sign), rows=500)
    for _ in range(6):
        stream.add(3, rng.random(2).tolist())
    for step in range(30):
        stream.push(rng.uniform(*box, size=(60, 2)) * 0.99**step)
        stream.compare(thorough=step % 6 == 0)
    if box[0] == 0.0:
        assert stream.algorithm.stands.count[:2].sum() > 0
        assert stream.count("rejected by the map") > 0


def test_scores_that_no_map_serves() -> None:
    """A distance is not monotone; exp doesn't compile. Exact all the same."""
    distance = Call("dist", (Column("x0"), Column("x1"), Parameter(0), Parameter(1)))
    growth = Arithmetic("*", Parameter(0), Call("exp", (Column("x0"),)))
    for shape, axes, constants in ((distance, 2, 2), (growth, 1, 1)):
        rng = np.random.default_rng(4)
        stream = Stream(space(shape, axes, -1.0), rows=300)
        for _ in range(3):
            stream.add(4, rng.random(constants).tolist())
        for step in range(25):
            stream.push(np.round(rng.random((40, axes)), 2))
            stream.compare(thorough=step % 6 == 0)


def test_a_constant_score_returns_the_newest_rows() -> None:
    stream = Stream(space(weighted(3), 3), rows=300)
    stream.add(5, [0.0, 0.0, 0.0])
    stream.add(2, [1.0, 2.0, 0.0])
    rng = np.random.default_rng(1)
    for _ in range(20):
        stream.push(rng.random((50, 3)))
        stream.compare(thorough=False)
    assert stream.algorithm.stands.count[2] >= 1  # it meets every row, and spoils no map


def test_the_map_rejects_what_it_should() -> None:
    """A hundred queries over uniform rows: nine rows in ten end at the map, all but few meet no query, and hardly a
    list is made anew."""
    rng = np.random.default_rng(8)
    stream = Stream(space(weighted(3), 3), rows=20_000, block=1024, cells=32768)
    for _ in range(100):
        stream.add(10, rng.random(3).tolist())
    for _ in range(20):
        stream.push(rng.random((1000, 3)))
    before = stream.algorithm.counters(0)
    for _ in range(40):
        stream.push(rng.random((1000, 3)))
    stream.compare(thorough=False)
    after = stream.algorithm.counters(0)
    change = {name: after[name] - before[name] for name in after}
    assert change["rejected by the map"] > 0.9 * change["rows seen"]
    assert change["survivors"] < 0.03 * change["rows seen"]
    assert change["catch-ups"] < 20
    assert change["admitted"] < 100 * 2 * 6 * 10


def test_falling_scores_are_caught_up_from_reservoirs() -> None:
    """Scores fall by a fifth a window: lists are made anew, but few blocks are searched row by row."""
    rng = np.random.default_rng(9)
    stream = Stream(space(weighted(3), 3), rows=60_000, block=2048, cells=32768)
    for _ in range(50):
        stream.add(5, rng.random(3).tolist())
    for step in range(80):
        stream.push(rng.random((3000, 3)) * 0.8 ** (step / 20))
    stream.compare(thorough=False)
    blocks = 60_000 // 2048
    assert 0 < stream.count("catch-ups") < 50 * 80
    assert stream.count("epochs") > 0
    assert stream.count("blocks searched") < 0.5 * blocks * stream.count("catch-ups")


@FEW
@given(seed=st.integers(0, 2**20))
def test_numpy_serves_until_compiling_pays(seed: int) -> None:
    """The same lists, kept by numpy first and by the kernels from some row on."""
    rng = np.random.default_rng(seed)
    stream = Stream(space(weighted(3), 3), rows=300)
    stream.algorithm._compiled = False
    for _ in range(3):
        stream.add(3, rng.normal(size=3).tolist())
    for step in range(20):
        stream.push(np.round(rng.random((60, 3)), 2))
        assert stream.algorithm.compiled == (step > 9)
        if step == 9:
            stream.algorithm.computed = 10**12
        stream.compare(thorough=step % 4 == 0)


def test_one_row_at_a_time() -> None:
    rng = np.random.default_rng(2)
    stream = Stream(space(weighted(3), 3), rows=90)
    for k in (1, 3, 200):
        stream.add(k, rng.normal(size=3).tolist())
    for step in range(400):
        stream.push(np.round(rng.random((1, 3)), 1))
        stream.compare(thorough=step % 50 == 0)


@pytest.mark.parametrize("kind", ["one attribute", "at once", "back and forth"])
def test_drift_that_no_floor_foresaw(kind: str) -> None:
    """One attribute falls alone, all fall at once, or up and down again: reservoirs are deepened, frames left."""
    rng = np.random.default_rng(12)
    stream = Stream(space(weighted(3), 3), rows=4000, block=256, cells=4096)
    for i in range(12):
        stream.add(1 + i % 5, (rng.random(3) if i % 3 else rng.normal(size=3)).tolist())
    for step in range(50):
        values = rng.random((400, 3))
        if kind == "one attribute":
            values[:, 1] *= 0.95**step
        elif kind == "at once":
            values *= 0.6 if step > 20 else 1.0
        else:
            values *= 1.0 - 0.4 * abs(np.sin(step / 7))
        stream.push(values)
        stream.compare(thorough=step % 12 == 11)
    assert stream.count("epochs") > 0
    assert stream.count("catch-ups") < 50 * 12


@pytest.mark.parametrize("want", ["high", "low", "either", "newcomers"])
def test_reservoirs_are_deepened(want: str) -> None:
    """Scores fall so fast that older blocks are sifted again, for thresholds some steps higher: what they promise they
    have, whichever way queries want each axis, and also to a query that comes later."""
    rng = np.random.default_rng(13)
    stream = Stream(space(weighted(3), 3), rows=8000, block=256, cells=4096)
    for _ in range(20):
        weights = rng.random(3)
        weights *= {"low": -1.0, "either": np.array([rng.choice([-1.0, 1.0]), 1.0, 1.0])}.get(want, 1.0)
        stream.add(30, weights.tolist())
    rises = 0
    for step in range(70):
        if want == "newcomers" and step % 16 == 15:
            stream.add(30, rng.normal(size=3).tolist())
        values = rng.random((400, 3)) * 0.985**step
        stream.push(1.0 - values if want == "low" else values)
        if want == "high" or step % 6 == 0:
            stream.compare(thorough=step in (42, 45, 66, 69))
        rises += int((stream.algorithm.blocks.meta[:, RISE] > 0).any())
    stream.algorithm._check()
    assert stream.count("reservoirs deepened") > 0 and rises > 0


def test_a_score_of_many_constants() -> None:
    """More than a call has arguments: from ten on the kernels didn't compile."""
    rng = np.random.default_rng(12)
    shape: Any = None
    for i in range(12):
        term = Arithmetic("*", Parameter(i), Column(f"x{i % 2}"))
        shape = term if shape is None else Arithmetic("+", shape, term)
    stream = Stream(space(shape, 2), rows=150)
    for _ in range(4):
        stream.add(3, rng.normal(size=12).tolist())
    for step in range(12):
        stream.push(rng.random((50, 2)) * 0.97**step)
        stream.compare()


def test_long_lists() -> None:
    """k up to 1000, and more ranks than the window has rows."""
    rng = np.random.default_rng(14)
    stream = Stream(space(weighted(3), 3), rows=5000, block=256, cells=4096)
    for k in (1, 100, 1000):
        stream.add(k, rng.normal(size=3).tolist())
    stream.add(1000, rng.random(3).tolist(), rows=700)
    for step in range(25):
        stream.push(np.round(rng.random((500, 3)) * 0.99**step, 3))
        stream.compare(thorough=step == 20)


def test_a_large_batch_goes_through_in_pieces() -> None:
    """More rows at once than one piece takes, with and without a map, over block and window ends."""
    rng = np.random.default_rng(15)
    stream = Stream(space(weighted(3), 3), rows=30_000, block=1024, cells=4096)
    for _ in range(6):
        stream.add(5, rng.normal(size=3).tolist())
    for size in (40_000, 7, 20_001, 50_000):
        stream.push(rng.random((size, 3)))
        stream.compare(thorough=False)


def test_one_query_alone_sets_its_floors_seldom() -> None:
    """It can't rank so many rows of a block as many queries do together: no reason to try again at every block."""
    rng = np.random.default_rng(16)
    stream = Stream(space(weighted(3), 3), rows=60_000, block=4096, cells=4096)
    stream.add(3, [1.0, 2.0, 3.0])
    for _ in range(15):
        stream.push(rng.random((10_000, 3)))
    stream.compare(thorough=False)
    blocks = 150_000 // 4096
    assert 0 < stream.count("epochs") < blocks / 4


def test_a_row_costs_its_columns() -> None:
    """Untimed rows with seqs that follow one another: 8 bytes a column, and the reservoir."""
    stream = Stream(space(weighted(3), 3), rows=60_000, block=4096, cells=4096)
    stream.add(3, [1.0, 2.0, 3.0])
    rng = np.random.default_rng(0)
    for _ in range(8):
        stream.push(rng.random((10_000, 3)))
    rows, size = stream.algorithm.window_size()
    assert not stream.algorithm.blocks.timed and stream.algorithm.blocks.plain
    assert stream.algorithm.blocks.pool.nbytes < 1.25 * 24 * rows
    assert size < 1.5 * 24 * rows
