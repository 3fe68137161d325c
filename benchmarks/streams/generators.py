"""Rows and queries to measure with: what the papers use, and streams whose level moves.

Independent attributes are uniform in [0, 1]. Anti-correlated rows lie near the plane through the middle of the cube,
good on one axis and bad on another (Börzsönyi, Kossmann and Stocker): many of them are nearly best, and every algorithm
has more work. All is made in advance from a seed: the same seed gives the same rows everywhere.

A stream *drifts* where its level moves: all attributes (or one) shrink by some part in each window, or jump. Falling
scores are the hard case for every algorithm that keeps only what lies above a threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skyband.core.types import Floats

AVERAGED = 12  # uniform numbers whose mean is the place of an anti-correlated row along the diagonal


def independent(rows: int, columns: int, seed: int) -> Floats:
    return np.random.default_rng(seed).random((rows, columns))


def anticorrelated(rows: int, columns: int, seed: int) -> Floats:
    """Rows near the plane through the cube's middle: what one axis gains the next one loses."""
    random = np.random.default_rng(seed)
    points = np.empty((rows, columns))
    made = 0
    while made < rows:
        count = min(2 * (rows - made) + 1000, 500_000)  # in pieces: twelve numbers a row take room
        middle = 0.25 + 0.5 * random.random((count, AVERAGED)).mean(axis=1)
        reach = np.where(middle <= 0.5, middle, 1 - middle)
        some = np.repeat(middle[:, None], columns, axis=1)
        for axis in range(columns):
            moved = (2 * random.random(count) - 1) * reach
            some[:, axis] += moved
            some[:, (axis + 1) % columns] -= moved
        some = some[((some >= 0) & (some <= 1)).all(axis=1)][: rows - made]
        points[made : made + len(some)] = some
        made += len(some)
    return points


def clustered(rows: int, columns: int, seed: int) -> Floats:
    """Two clusters around random centres, of variance 0.1 on each axis; rows outside [0, 1] are drawn again."""
    random = np.random.default_rng(seed)
    centres = random.random((2, columns))
    points = centres[random.integers(0, 2, rows)] + random.normal(0, np.sqrt(0.1), (rows, columns))
    outside = (points < 0) | (points > 1)
    while outside.any():
        at = np.flatnonzero(outside.any(axis=1))
        fresh = centres[random.integers(0, 2, len(at))] + random.normal(0, np.sqrt(0.1), (len(at), columns))
        points[at] = fresh
        outside[at] = (fresh < 0) | (fresh > 1)
    return points


STATIONS = 23  # as many as the deployment that the paper reads


def sensors(rows: int, columns: int, seed: int) -> Floats:
    """Readings of some stations in order of time. A station follows the day and a slow random walk of its own, so that
    a reading is much like the station's last one. This order is the hard case; shuffled readings are not.
    """
    random = np.random.default_rng(seed)
    rounds = rows // STATIONS + 1
    day = np.sin(np.arange(rounds) * (2 * np.pi / 720))[:, None, None]  # a reading every two minutes
    level = random.random((1, STATIONS, columns))
    swing = 0.3 * random.random((1, STATIONS, columns))
    steps = random.normal(0, 0.02, (rounds, STATIONS, columns))
    wander = np.empty_like(steps)
    wander[0] = steps[0]
    for i in range(1, rounds):  # pulled back to its level, or it would leave the range
        wander[i] = 0.998 * wander[i - 1] + steps[i]
    readings = (level + swing * day + wander).reshape(-1, columns)[:rows]
    return scaled(readings)


def scaled(points: Floats) -> Floats:
    """Columns from 0 to 1; the outermost thousandth is clipped, as sensors have spikes."""
    low, high = np.quantile(points, [0.001, 0.999], axis=0)
    width = np.where(high > low, high - low, 1.0)
    return np.asarray(np.clip((points - low) / width, 0.0, 1.0), dtype=np.float64)


DISTRIBUTIONS: Mapping[str, Callable[[int, int, int], Floats]] = {"IND": independent, "ANT": anticorrelated}


@dataclass(frozen=True)
class Drift:
    """How a stream's level moves: by `fall` of itself in each window, and at once by `shift` halfway through.

    `column` moves one attribute alone; a negative fall rises.
    """

    name: str
    fall: float = 0.0
    shift: float = 0.0
    column: int | None = None

    def apply(self, points: Floats, window: int, still: int = 0) -> Floats:
        """The points, with their level moving (in place) after the first `still` rows."""
        moving = points[still:] if self.column is None else points[still:, self.column : self.column + 1]
        rows = len(moving)
        if self.fall:
            moving *= np.exp(np.log1p(-self.fall) * (np.arange(1, rows + 1) / window))[:, None]
        if self.shift:
            moving[rows // 2 :] *= 1 - self.shift
        return points


LEVEL = Drift("level")
DRIFTS = (
    LEVEL,
    Drift("falls 1 % a window", 0.01),
    Drift("falls 5 % a window", 0.05),
    Drift("falls 20 % a window", 0.20),
    Drift("rises 5 % a window", -0.05),
    Drift("one attribute falls 5 %", 0.05, column=0),
    Drift("one attribute falls 20 %", 0.20, column=0),
    Drift("falls 30 % at once", shift=0.30),
    Drift("rises 30 % at once", shift=-0.30),
    Drift("one attribute falls 30 % at once", shift=0.30, column=0),
)


# -- queries ---------------------------------------------------------------------------------------------------------


def weights(queries: int, columns: int, seed: int = 7) -> Floats:
    """Weighted sums, one a query."""
    return np.random.default_rng(seed).random((queries, columns))


def weighted_sum(weight: Sequence[float] | Floats) -> str:
    return " + ".join(f"{value!r} * x{j}" for j, value in enumerate(np.asarray(weight).tolist()))


def product(weight: Sequence[float] | Floats) -> str:
    """The product of (a + x) over the attributes."""
    return " * ".join(f"({value!r} + x{j})" for j, value in enumerate(np.asarray(weight).tolist()))


def squares(weight: Sequence[float] | Floats) -> str:
    """The sum of a·x² over the attributes."""
    return " + ".join(f"{value!r} * x{j} ^ 2" for j, value in enumerate(np.asarray(weight).tolist()))


def distance(centre: Sequence[float] | Floats) -> str:
    """Minus the squared distance from a point: monotone on no axis."""
    terms = " - ".join(f"(x{j} - {value!r}) ^ 2" for j, value in enumerate(np.asarray(centre).tolist()))
    return f"0 - {terms}"


FUNCTIONS: Mapping[str, Callable[[Floats], str]] = {
    "linear": weighted_sum,
    "product": product,
    "squares": squares,
    "distance": distance,
}


# -- batches ---------------------------------------------------------------------------------------------------------


def tables(points: Floats, size: int) -> list[pa.Table]:
    """Points as batches with columns x0, x1, …"""
    return [
        pa.table({f"x{j}": np.ascontiguousarray(points[i : i + size, j]) for j in range(points.shape[1])})
        for i in range(0, len(points), size)
    ]
