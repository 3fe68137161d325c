"""Drives an algorithm that keeps the window's rows: points of several coordinates, slots that come and go with
constants, boxes and windows of their own, late rows, deletions; and the brute force to compare with after each step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skyband.algorithms import WindowAlgorithm
from skyband.core.types import LOWEST, Recency
from skyband.query.expression import Expression, nodes
from skyband.query.expression.score_space import Space

AXES = ("x0", "x1", "x2", "x3", "x4", "x5")
EVERYTHING = (-np.inf, np.inf)


def linear(d: int, sign: float = 1.0, boxed: tuple[int, ...] = ()) -> Space:
    """p0 * x0 + p1 * x1 + …"""
    shape: Expression | None = None
    for i in range(d):
        term = nodes.Arithmetic("*", nodes.Parameter(i), nodes.Column(AXES[i]))
        shape = term if shape is None else nodes.Arithmetic("+", shape, term)
    assert shape is not None
    return Space(shape, AXES[:d], sign, boxed)


def product(d: int) -> Space:
    """(p0 + x0) * (p1 + x1) * …: monotone where all factors are positive."""
    shape: Expression | None = None
    for i in range(d):
        factor = nodes.Arithmetic("+", nodes.Parameter(i), nodes.Column(AXES[i]))
        shape = factor if shape is None else nodes.Arithmetic("*", shape, factor)
    assert shape is not None
    return Space(shape, AXES[:d], 1.0)


def squares(d: int) -> Space:
    """p0 * x0^2 + p1 * x1^2 + …: monotone for values that aren't negative."""
    shape: Expression | None = None
    for i in range(d):
        square = nodes.Arithmetic("^", nodes.Column(AXES[i]), nodes.Number(2))
        term = nodes.Arithmetic("*", nodes.Parameter(i), square)
        shape = term if shape is None else nodes.Arithmetic("+", shape, term)
    assert shape is not None
    return Space(shape, AXES[:d], 1.0)


def wave(d: int) -> Space:
    """abs(x0 - p0) + exp(…): neither monotone nor compiled."""
    shape: Expression = nodes.Call("abs", (nodes.Arithmetic("-", nodes.Column("x0"), nodes.Parameter(0)),))
    for i in range(1, d):
        inner = nodes.Call("exp", (nodes.Arithmetic("*", nodes.Parameter(i), nodes.Column(AXES[i])),))
        shape = nodes.Arithmetic("+", shape, inner)
    return Space(shape, AXES[:d], 1.0)


@dataclass
class Asked:
    """A slot as the test knows it."""

    slot: int
    k: int
    constants: tuple[float, ...]
    window: int  # rows
    box: tuple[tuple[float, float], ...]
    begin: Recency = LOWEST  # it sees no rows before


class Field:
    """An algorithm, its slots, and all rows that ever came."""

    def __init__(self, kind: type[WindowAlgorithm], space: Space, **options: float) -> None:
        self.algorithm: Any = kind(options, space)
        self.space = space
        self.points = np.empty((0, len(space.columns)))
        self.time = np.empty(0, dtype=np.int64)
        self.seq = np.empty(0, dtype=np.int64)
        self.deleted: set[int] = set()
        self.asked: list[Asked] = []

    # -- slots ---------------------------------------------------------------------------------------------

    def ask(
        self,
        k: int,
        constants: tuple[float, ...],
        window: int,
        box: tuple[tuple[float, float], ...] = (),
        full: bool = True,
    ) -> Asked:
        """A query comes; with `full` it sees the window's rows at once, else only those that come from now on."""
        box = box or tuple(EVERYTHING for _ in self.space.boxed)
        asked = Asked(0, k, constants, window, box)
        if not full and len(self.seq):
            newest = np.lexsort((self.seq, self.time))[-1]
            asked.begin = Recency(int(self.time[newest]), int(self.seq[newest]) + 1)
        horizon = self.horizon(asked)
        if full:
            self._retain(horizon)
        asked.slot = self.algorithm.add(
            k, constants, horizon, [low for low, _ in box], [high for _, high in box]
        )
        self.asked.append(asked)
        return asked

    def _retain(self, horizon: Recency) -> None:
        """Rows from the past, as a monitor that retains rows hands them on."""
        order = np.lexsort((self.seq, self.time))
        inside = [
            i for i in order
            if (self.time[i], self.seq[i]) >= horizon and int(self.seq[i]) not in self.deleted
        ]  # fmt: skip
        self.algorithm.fill(*self._batch(inside))

    def resize(self, asked: Asked, k: int) -> None:
        asked.k = k
        self.algorithm.resize(asked.slot, k)

    def drop(self, asked: Asked) -> None:
        self.asked.remove(asked)
        self.algorithm.remove(asked.slot)

    def horizon(self, asked: Asked) -> Recency:
        """Of the last rows of its window, but not before it began."""
        order = np.lexsort((self.seq, self.time))
        if len(order) <= asked.window:
            return asked.begin
        first = order[-asked.window]
        return max(asked.begin, Recency(int(self.time[first]), int(self.seq[first])))

    # -- steps ---------------------------------------------------------------------------------------------

    def _batch(self, rows: Any) -> tuple[tuple[Any, ...], Any, Any]:
        columns = tuple(np.ascontiguousarray(self.points[rows, axis]) for axis in range(self.points.shape[1]))
        for column in columns:
            column.flags.writeable = False
        return columns, self.time[rows], self.seq[rows]

    def step(self, points: Any, late: Any = None, delete: Any = (), check: bool = True) -> None:
        """Points come, each so much late; then time goes on and the answers are compared."""
        points = np.asarray(points, dtype=np.float64).reshape(-1, len(self.space.columns))
        n, old = len(points), len(self.seq)
        seq = np.arange(old, old + n)
        time = np.zeros(n, dtype=np.int64) if late is None else seq - np.asarray(late, dtype=np.int64)
        self.points = np.vstack([self.points, points])
        self.time = np.concatenate([self.time, time])
        self.seq = np.concatenate([self.seq, seq])
        order = old + (np.arange(n) if self.algorithm.any_order else np.lexsort((seq, time)))
        known = {number for number in delete if number < len(self.seq)} - self.deleted
        gone = np.array(sorted(known), dtype=np.int64)
        self.deleted |= known
        horizons = np.full((2, len(self.algorithm.ks)), 2**62, dtype=np.int64)
        for asked in self.asked:
            horizons[:, asked.slot] = self.horizon(asked)
        self.algorithm.step(
            *self._batch(order), horizons[0], horizons[1], self.time[gone], self.seq[gone]
        )  # fmt: skip
        if check:
            self.check()

    def check(self) -> None:
        self.algorithm._check()
        for asked in self.asked:
            good, _, seq = self.algorithm.top(asked.slot, asked.k, self.horizon(asked))
            wanted = self.expected(asked)
            assert seq.tolist() == [number for _, number in wanted], asked
            assert good.tolist() == [value for value, _ in wanted], asked

    def candidates(self, asked: Asked) -> list[tuple[float, int, int]]:
        """All rows that the slot's query may answer with, best first: score, time, seq."""
        horizon = self.horizon(asked)
        columns = [self.points[:, axis] for axis in range(self.points.shape[1])]
        good = self.space.good(columns, asked.constants)
        inside = ~np.isnan(good) & ~np.isnan(self.points).any(axis=1)
        inside &= (self.time > horizon.time) | ((self.time == horizon.time) & (self.seq >= horizon.seq))
        for axis, (low, high) in zip(self.space.boxed, asked.box, strict=True):
            inside &= (columns[axis] >= low) & (columns[axis] <= high)
        inside &= ~np.isin(self.seq, list(self.deleted))
        rows = np.flatnonzero(inside)
        order = rows[np.lexsort((self.seq[rows], self.time[rows], good[rows]))[::-1]]
        return [(float(good[i]), int(self.time[i]), int(self.seq[i])) for i in order]

    def expected(self, asked: Asked) -> list[tuple[float, int]]:
        return [(value, seq) for value, _, seq in self.candidates(asked)[: asked.k]]

    def reload(self) -> None:
        blob = self.algorithm.dump()
        self.algorithm = type(self.algorithm)(self.algorithm.options, self.space)
        self.algorithm.load(blob)
