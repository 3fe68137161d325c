"""Filters: what leaves them, what a row must reach to matter, and which regions an index has to be told of anew."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skyband.algorithms.arrivals import Step
from skyband.algorithms.buffered.filters import (
    DROPPED,
    LATEST,
    PROBABLE,
    RELAXED,
    STRICT,
    UNLUCKY,
    refill,
    regions,
    shed,
)
from skyband.algorithms.buffered.probabilistic_filter import WAIT, Filters
from skyband.algorithms.kernels.batch_skyband import Picks
from skyband.algorithms.kernels.candidate_lists import Lists

KINDS = st.sampled_from([STRICT, RELAXED, PROBABLE])
FINITE = st.one_of(st.integers(-5, 5).map(float), st.floats(-100, 100))
SCORES = st.one_of(FINITE, st.sampled_from([-math.inf, math.inf]))


@dataclass
class Filter:
    """One query's filter: (score, recency) of its rows, best last; recencies are times, a row each."""

    k: int
    rows: list[tuple[float, int]]
    threshold: float
    entered: float


@st.composite
def filters(draw: st.DrawFn, score: st.SearchStrategy[float] = SCORES) -> list[Filter]:
    found = []
    for _ in range(draw(st.integers(1, 5))):
        scores = sorted(draw(st.lists(score, max_size=24)))
        times = draw(st.permutations(range(len(scores))))
        threshold = draw(st.one_of(st.just(-math.inf), st.just(scores[0] if scores else -math.inf)))
        entered = draw(st.one_of(st.just(math.inf), SCORES))
        found.append(
            Filter(draw(st.integers(0, 4)), list(zip(scores, times, strict=True)), threshold, entered)
        )
    return found


class Pool:
    """The filters as a state, with gaps between them."""

    def __init__(self, given: list[Filter]) -> None:
        sizes, slots = [len(f.rows) for f in given], len(given)
        start = np.cumsum([2, *(size + 3 for size in sizes[:-1])]).astype(np.int64)
        total = int(start[-1] + sizes[-1] + 3)
        self.filters, self.lists = Filters(counted=True), Lists(counters=5)
        self.filters.grow(slot=slots, place=total, timed_place=total, counted_place=total)
        self.filters.base = 2
        self.lists.grow(slot=slots)
        self.start[:], self.size[:], self.ks[:] = start, sizes, [f.k for f in given]
        self.good.fill(np.nan)
        self.time.fill(-7)
        self.count.fill(-7)
        for f, start in zip(given, self.start.tolist(), strict=True):
            for i, (score, time) in enumerate(f.rows):
                self.good[start + i], self.time[start + i], self.count[start + i] = score, time, 100 + time
        self.threshold[:] = [f.threshold for f in given]
        self.oldest_time[:] = [min((t for _, t in f.rows), default=LATEST) for f in given]
        self.oldest_seq[:] = np.where(self.oldest_time == LATEST, LATEST, 0)
        for array in (self.need, self.worth, self.lower):
            array.fill(np.nan)
        self.short = np.full(slots, -1, dtype=np.int64)

    def __getattr__(self, name: str) -> np.ndarray:
        return getattr(self.lists if name in ("ks", "counts") else self.filters, name)

    def rows(self, slot: int) -> list[tuple[float, int, int]]:
        part = slice(int(self.start[slot]), int(self.start[slot] + self.size[slot]))
        arrays = self.good[part], self.time[part], self.count[part]
        return list(zip(*(array.tolist() for array in arrays), strict=True))

    def shed(self, kind: int, edge: int) -> int:
        open_: int = shed(kind, edge, 0, self.filters, self.lists, self.short)
        return open_


def lowered(f: Filter, kept: list[tuple[float, int]]) -> float:
    """The threshold of a probable filter that keeps these rows, if they are enough."""
    gone = len(f.rows) - len(kept)
    if len(kept) < 2:
        return -math.inf
    with np.errstate(invalid="ignore"):
        worst, half = np.float64(kept[0][0]), len(kept) // 2
        gap = kept[1][0] - worst
        if gone > 1:
            gap = UNLUCKY * np.sqrt(gone) * (kept[half][0] - worst) / half
        lower = float(f.threshold - gap)
    return -math.inf if math.isnan(lower) else lower


@given(given=filters(), kind=KINDS, edge=st.integers(0, 26))
def test_what_is_older_than_the_edge_leaves(given: list[Filter], kind: int, edge: int) -> None:
    pool = Pool(given)
    open_ = pool.shed(kind, edge)
    assert pool.short[:open_].tolist() == np.flatnonzero((pool.ks > 0) & (pool.need == -np.inf)).tolist()
    for slot, f in enumerate(given):
        if f.k == 0:  # nobody's: nothing matters to it, and nothing is touched
            assert pool.need[slot] == pool.worth[slot] == math.inf
            continue
        kept = [(score, time) for score, time in f.rows if time >= edge]
        # the others stay in their order; a strict filter's keep their counters
        assert [row[:2] for row in pool.rows(slot)] == kept
        if kind == STRICT:
            assert [row[2] for row in pool.rows(slot)] == [100 + time for _, time in kept]
        assert pool.oldest_time[slot] == min((time for _, time in kept), default=LATEST)
        # a row that leaves the buffer must be better than the k-th, one that comes at least reach it, or the threshold
        kth = kept[-f.k][0] if len(kept) >= f.k else -math.inf
        assert pool.worth[slot] == kth
        threshold = f.threshold
        if kind == PROBABLE and len(kept) < len(f.rows):
            assert pool.lower[slot] == lowered(f, kept)
            threshold = lowered(f, kept) if len(kept) >= f.k else -math.inf
        assert pool.threshold[slot] == threshold
        wanted = threshold if kind == PROBABLE and len(kept) >= f.k else kth
        assert pool.need[slot] == wanted
        assert pool.counts[slot, 2 + DROPPED] == (kind == PROBABLE and len(kept) < len(f.rows))


@dataclass
class Told:
    """What `regions` says of a slot."""

    come: float
    go: float
    bar: float | None = None  # as which its region is to be entered, if it is


def plainly(f: Filter, kind: int, need: float, bar: float, wider: float, loose: float) -> Told:
    if f.k == 0 or need == -math.inf:
        return Told(math.nan, math.nan)
    told = Told(need if kind == PROBABLE else -math.inf, bar)
    better = [score for score, _ in f.rows][-(2 * f.k + 8) :]
    with np.errstate(invalid="ignore"):
        spread = np.float64(better[-1]) - min(better[0], need)
        grown = need < f.entered
        if grown or f.entered < need - loose * spread:
            wide = float(need - wider * spread)
            told.bar = -math.inf if math.isnan(wide) else wide
    return told


def call(pool: Pool, kind: int, entered: np.ndarray, wider: float, loose: float) -> tuple[list[Told], int]:
    slots = len(pool.ks)
    come, go, bars = np.full(slots, 7.0), np.full(slots, 7.0), np.full(slots, np.nan)
    moved = np.full(slots, -1, dtype=np.int64)
    open_, count, unknown = regions(
        pool.ks, kind, pool.filters, entered, wider, loose, come, go, moved, bars
    )  # fmt: skip
    # those that nothing was entered for yet are counted
    assert unknown == np.count_nonzero(entered[moved[:count]] == np.inf)
    told = [Told(*both) for both in zip(come.tolist(), go.tolist(), strict=True)]
    for slot, bar in zip(moved[:count].tolist(), bars[:count].tolist(), strict=True):
        told[slot].bar = bar
    return told, int(open_)


def same(one: Told, other: Told) -> bool:
    pairs = (one.come, other.come), (one.go, other.go)
    return all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in pairs) and one.bar == other.bar


@given(given=filters(), kind=KINDS, edge=st.integers(0, 12), wider=st.floats(0, 2), more=st.floats(0.01, 3))
def test_regions_are_as_a_plain_version_has_them(
    given: list[Filter], kind: int, edge: int, wider: float, more: float
) -> None:
    pool = Pool(given)
    pool.shed(kind, edge)
    entered = np.array([f.entered for f in given])
    told, open_ = call(pool, kind, entered, wider, wider + more)
    for slot, f in enumerate(given):
        left = Filter(f.k, [row[:2] for row in pool.rows(slot)], float(pool.threshold[slot]), f.entered)
        need, bar = float(pool.need[slot]), float(pool.worth[slot])
        assert same(told[slot], plainly(left, kind, need, bar, wider, wider + more)), slot
    # open ones are counted: queries that meet every row, because their filters have fewer than k, or no threshold
    assert open_ == np.count_nonzero((pool.ks > 0) & (pool.need == -np.inf))


@given(
    given=filters(FINITE), kind=KINDS, edge=st.integers(0, 12), wider=st.floats(0, 2), more=st.floats(0.1, 3)
)
def test_what_is_entered_covers_what_is_needed_and_stays(
    given: list[Filter], kind: int, edge: int, wider: float, more: float
) -> None:
    pool = Pool(given)
    pool.shed(kind, edge)
    entered = np.array([f.entered for f in given])
    told, _ = call(pool, kind, entered, wider, wider + more)
    for slot, each in enumerate(told):
        if each.bar is not None:
            entered[slot] = each.bar
        if not math.isnan(each.go):
            # whoever is looked up from what is entered finds every row that matters to the filter
            assert entered[slot] <= pool.need[slot]
    again, _ = call(pool, kind, entered, wider, wider + more)
    # what has just been entered needn't be entered again, unless scores are so near that rounding eats the margin
    for slot, each in enumerate(again):
        part = [row[0] for row in pool.rows(slot)]
        assert each.bar is None or each.bar == entered[slot] or part[-1] - part[0] < 1e-9


@given(
    scores=st.lists(st.one_of(SCORES, st.just(math.nan)), min_size=1, max_size=200),
    k=st.integers(1, 4),
    cap=st.integers(1, 5),
    horizon=st.integers(0, 20),
    floor=st.integers(0, 20),
    guess=st.one_of(st.just(-math.inf), FINITE),
)
def test_a_filter_filled_from_the_buffer_has_its_best_rows(
    scores: list[float], k: int, cap: int, horizon: int, floor: int, guess: float
) -> None:
    """Whatever threshold was guessed: if too few rows reach it, all are looked at."""
    n, passed = len(scores), 3  # rows of the buffer have places, and recencies apart from these
    rows, times = np.arange(passed, passed + n), np.concatenate([np.full(passed, -1), np.arange(n)])
    pool = Pool([Filter(k, [(0.0, 0)] * (k + cap), 0.0, math.inf)])
    pool.filters.cap[0], pool.filters.floor_time[0], pool.filters.lower[0] = cap, floor, guess
    pool.lists.horizon_time[0] = horizon
    step = Step().hold(times, np.zeros(len(times), dtype=np.int64), rows[:0], np.zeros(1, dtype=np.uint8))
    near, picked, waiting = (Picks(row=size) for size in (n + 1, n + 1, WAIT))
    refill(
        np.array([0]), rows, np.array([scores]), step, pool.filters, pool.lists, near, picked, waiting
    )  # fmt: skip
    seen = sorted(
        (score, i) for i, score in enumerate(scores) if not math.isnan(score) and i >= max(horizon, floor)
    )
    reached = [row for row in seen if row[0] >= guess]
    low = guess if len(reached) >= k else -math.inf
    kept = (reached if len(reached) >= k else seen)[-(k + cap) :]
    assert [row[:2] for row in pool.rows(0)] == kept
    assert pool.oldest_time[0] == min((time for _, time in kept), default=LATEST)
    # full: its worst row; else what was looked for, and nothing that reaches it is missing
    assert pool.threshold[0] == (kept[0][0] if len(kept) == k + cap else low)
    assert pool.worth[0] == (kept[-k][0] if len(kept) >= k else -math.inf)
    assert pool.need[0] == (pool.threshold[0] if len(kept) >= k else -math.inf)
