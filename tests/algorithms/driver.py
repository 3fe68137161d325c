"""Drives an algorithm by hand: rows in, horizons on, and the plain list to compare with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from skyband.algorithms import LISTS, REGISTRY, WINDOWED, Arrivals
from skyband.core.types import LOWEST, Recency
from skyband.query.expression.nodes import Column
from skyband.query.expression.score_space import Space

EXACT = sorted(name for name, kind in REGISTRY.items() if kind.card.exact and "topk" in kind.card.answers)
EVERY = 10**6  # more than there are


class Row(NamedTuple):
    time: int
    seq: int
    good: float

    @property
    def recency(self) -> Recency:
        return Recency(self.time, self.seq)


class Driver:
    """One algorithm with some slots, and the rows that are inside each slot's horizon."""

    def __init__(self, name: str, ks: Iterable[int], **options: float) -> None:
        self.name, self.ks, self.options = name, list(ks), options
        self.takes_all = "topk" not in REGISTRY[name].card.answers  # a threshold query: every row counts
        self.windowed = name in WINDOWED
        self.algorithm: Any = self.new()
        self.rows: list[Row] = []
        self.horizon = LOWEST
        self.slots = [self.add(k) for k in self.ks]

    def new(self) -> Any:
        """The score is the one column x0, higher is better."""
        if self.windowed:
            return WINDOWED[self.name](self.options, Space(Column("x0"), ("x0",), 1.0))
        kind: Any = LISTS[self.name]
        return kind(self.options, Space(Column("x0"), ("x0",), 1.0)) if kind.spaced else kind(self.options)

    def add(self, k: int) -> int:
        return int(self.algorithm.add(k, (), self.horizon) if self.windowed else self.algorithm.add(k))

    def feed(self, arrivals: Arrivals) -> None:
        """Rows come, to horizons as they are."""
        if not self.windowed:
            self.algorithm.edge = self.edge(arrivals)
            self.algorithm.insert(arrivals)
            return
        column = arrivals.good(0)[::-1].copy()
        column.flags.writeable = False
        none = np.empty(0, dtype=np.int64)
        size = len(self.algorithm.ks)
        self.algorithm.step(
            (column,), arrivals.time[::-1].copy(), arrivals.seq[::-1].copy(),
            np.full(size, self.horizon.time), np.full(size, self.horizon.seq), none, none,
        )  # fmt: skip
        arrivals.mark[:] = 1  # a group marks all rows that it hands to an index

    def edge(self, arrivals: Arrivals) -> Recency:
        """Where a buffer begins, for those that have one: at about a twentieth of the rows, and at least three."""
        most = max(3, (len(self.rows) + len(arrivals)) // 20)
        if len(arrivals) > most:
            return Recency(int(arrivals.time[most]), int(arrivals.seq[most]))
        back = most - len(arrivals)
        return self.rows[-back].recency if 0 < back <= len(self.rows) else LOWEST

    def step(self, rows: Iterable[Row], horizon: Recency | None = None) -> Arrivals:
        """Expire, insert, as the monitor does; returns what was handed in."""
        if horizon is not None:
            self.horizon = max(horizon, self.horizon)
            for slot in self.slots if not self.windowed else ():
                self.algorithm.expire(slot, self.horizon)
        batch = sorted(rows, reverse=True)
        arrivals = arrivals_of(batch)
        self.feed(arrivals)
        self.rows = [r for r in self.rows + batch if r.recency >= self.horizon]
        self.algorithm._check()
        return arrivals

    def plain_step(self, row: Row, horizon: Recency) -> None:
        """One row without the comparison, for long runs that only measure."""
        self.horizon = horizon
        for slot in self.slots if not self.windowed else ():
            self.algorithm.expire(slot, horizon)
        self.feed(arrivals_of([row]))

    def expected(self, k: int, horizon: Recency = LOWEST) -> list[tuple[float, int, int]]:
        inside = [r for r in self.rows if r.recency >= horizon and r.good == r.good]
        inside.sort(key=lambda r: (-r.good, -r.time, -r.seq))
        return [(r.good, r.time, r.seq) for r in (inside if self.takes_all else inside[:k])]

    def top(self, slot: int, k: int, horizon: Recency | None = None) -> list[tuple[float, int, int]]:
        columns = self.algorithm.top(
            slot, EVERY if self.takes_all else k, max(horizon or LOWEST, self.horizon)
        )
        return list(zip(*(c.tolist() for c in columns), strict=True))

    def compare(self) -> None:
        """Every slot, every k up to its own, every horizon that a window could have."""
        horizons = [LOWEST, *[r.recency for r in self.rows], *[Recency(r.time, -1) for r in self.rows]]
        for slot, most in zip(self.slots, self.ks, strict=True):
            for k in range(1, most + 1) if most < 5 else (1, most):
                for horizon in horizons:
                    assert self.top(slot, k, horizon) == self.expected(k, horizon), (self.name, k, horizon)

    def compare_some(self) -> None:
        """As `compare`, at the slots' own k and horizon only."""
        for slot, k in zip(self.slots, self.ks, strict=True):
            assert self.top(slot, k) == self.expected(k), (self.name, k)

    def reload(self) -> None:
        blob = self.algorithm.dump()
        self.algorithm = self.new()
        self.algorithm.load(blob)


def arrivals_of(rows: list[Row]) -> Arrivals:
    """Rows, newest first, as an algorithm gets them; every slot has the same score."""
    good = np.array([r.good for r in rows], dtype=np.float64)
    return Arrivals(
        time=np.array([r.time for r in rows], dtype=np.int64),
        seq=np.array([r.seq for r in rows], dtype=np.int64),
        place=np.arange(len(rows), dtype=np.int64),
        mark=np.zeros(len(rows), dtype=np.uint8),
        good=lambda slot: good,
        constants=np.zeros((0, 0)),
        sign=1.0,
        rendered=None,
        columns=lambda: (good,),
    )


def skyband(rows: list[Row], k: int) -> list[Row]:
    """By definition: the rows with fewer than k newer ones that are at least as good."""
    rows = sorted(rows)
    return [r for i, r in enumerate(rows) if sum(other.good >= r.good for other in rows[i + 1 :]) < k]


def live(driver: Driver, slot: int) -> list[Row]:
    """All that a slot could still answer with, oldest first."""
    return sorted(Row(t, s, g) for g, t, s in zip(*_all(driver, slot), strict=True))


def _all(driver: Driver, slot: int) -> Any:
    return [c.tolist() for c in driver.algorithm.top(slot, EVERY, driver.horizon)]
