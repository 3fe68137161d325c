"""What the third paper is measured on: the sizes of its Table IX, its four kinds of data, its queries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.harness.drive import Contestant
from benchmarks.harness.readings import from_file
from benchmarks.streams.generators import clustered, independent, sensors
from skyband.core.types import Floats

UNIFORM, CLUSTERED, SHUFFLED, CORRELATED = "uniform", "clustered", "readings, shuffled", "readings, in time"
READINGS = SHUFFLED, CORRELATED


@dataclass(frozen=True)
class Table9:
    """The sizes of a run, by the letters of the paper's Table IX; its values are the defaults."""

    name: str = "full"
    n: int = 40_000  # rows in the window
    u: int = 400  # queries
    k: int = 9
    d: int = 2
    b: int = 2_000  # rows in the buffer
    r: int = 1_000  # rows a batch
    batches: int = 100  # after the window is full
    data: Path | None = None
    ks: tuple[int, ...] = (1, 3, 9, 27, 81)
    budget: float = 8.0  # CPU seconds for one algorithm in one setting

    def words(self, *varied: str) -> str:
        sizes = {
            "n": f"n = {self.n:,}",
            "u": f"{self.u:,} queries",
            "k": f"k = {self.k}",
            "d": f"d = {self.d}",
            "b": f"b = {self.b:,}",
            "r": f"batches of {self.r:,} rows",
        }
        said = ", ".join(text for name, text in sizes.items() if name not in varied)
        return f"{self.name}: {said}, {self.batches:,} batches after the window is full"


SCALES = {
    "tiny": Table9("tiny", 160, 17, 2, 2, 20, 40, 4, ks=(1, 3), budget=1.0),
    # a quarter of Table IX's sizes, but for the parts that say otherwise
    "quick": Table9("quick", 10_000, 100, b=500, r=500, batches=16, ks=(1, 9, 81), budget=0.15),
    "full": Table9(batches=960),
}


# -- data --------------------------------------------------------------------------------------------------------------


@cache
def readings(rows: int, columns: int, data: Path | None, seed: int) -> Floats:
    """Sensor readings in order of time: generated, or from the user's file (over and over, if it is short)."""
    if data is None:
        return sensors(rows, columns, seed)
    points = from_file(data, columns)
    return np.ascontiguousarray(np.resize(points, (rows, columns)) if len(points) < rows else points[:rows])


def points_of(dataset: str, size: Table9, rows: int, seed: int) -> Floats:
    if dataset == UNIFORM:
        return independent(rows, size.d, seed)
    if dataset == CLUSTERED:
        return clustered(rows, size.d, seed)
    # a file is the same with every seed, and read once
    found = readings(rows, size.d, size.data, seed if size.data is None else 0)
    return found if dataset == CORRELATED else np.random.default_rng(seed).permutation(found)


def datasets(size: Table9, *kinds: str) -> tuple[str, ...]:
    """Of some kinds of data those that are to be measured: with a file its readings only."""
    return kinds if size.data is None else tuple(kind for kind in kinds if kind in READINGS)


def queries(points: Floats, who: Contestant, size: Table9, seed: int) -> list[str]:
    """Each asks for the rows nearest to a point of the data."""
    places = points[np.random.default_rng(seed + 1).integers(0, len(points), size.u)]
    columns = ", ".join(f"x{j}" for j in range(size.d))
    options = {"algorithm": f"'{who.algorithm}'", **{name: repr(value) for name, value in who.options}}
    tail = ", ".join(f"{name} = {value}" for name, value in options.items())
    return [
        f"SELECT x0 FROM s ORDER BY dist({columns}, {', '.join(map(repr, place))}) LIMIT {size.k} "
        f"WINDOW {size.n} ROWS WITH ({tail})"
        for place in places.tolist()
    ]
