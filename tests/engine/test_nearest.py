"""Nearest neighbours as users ask for them: `sb.nearest`, with weights, and `dist()` in SQL, against numpy.

Points to be near to lie among the data, on a row, at the origin and far outside.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.algorithms import REGISTRY

EXACT = [name for name, kind in REGISTRY.items() if "topk" in kind.card.answers and kind.card.exact]
WINDOW, BATCH, STEPS, K = 100, 50, 6, 5


def nearest(data: Any, point: Any, weights: Any, first: int) -> list[int]:
    distance = np.sqrt((weights * (data - point) ** 2).sum(axis=1))
    return (np.argsort(distance)[:K] + first).tolist()


@pytest.mark.parametrize(
    ("algorithm", "d"),
    [
        *(("ra", d) for d in range(1, 11)),
        pytest.param("tma", 2, marks=pytest.mark.soak),
        ("sma", 3),
        ("sa", 10),
    ],
)
def test_nearest_neighbours(algorithm: str, d: int) -> None:
    random = np.random.default_rng(d)
    names = [f"x{i}" for i in range(d)]
    data = random.normal(size=(BATCH * STEPS, d))
    points = {
        "inside": random.normal(size=d),
        "outside": np.full(d, 40.0),
        "zero": np.zeros(d),
        "row": data[120],
    }
    weights = random.random(d) + 0.1
    monitor = sb.Monitor(schema=pa.schema([(name, pa.float64()) for name in names]))
    for label, point in points.items():
        where = dict(zip(names, point.tolist(), strict=True))
        heavy = dict(zip(names, weights.tolist(), strict=True))
        monitor.watch(sb.nearest(where, K, sb.rows(WINDOW), algorithm=algorithm), name=f"plain {label}")
        asked = sb.nearest(where, K, sb.rows(WINDOW), weights=heavy, algorithm=algorithm)
        monitor.watch(asked, name=f"weighted {label}")
        arguments = ", ".join([*names, *(repr(value) for value in point.tolist())])
        monitor.watch(
            f"SELECT * FROM s ORDER BY dist({arguments}) LIMIT {K} WINDOW {WINDOW} ROWS "
            f"WITH (algorithm = '{algorithm}')",
            name=f"sql {label}",
        )
    for start in range(0, len(data), BATCH):
        end = start + BATCH
        monitor.push({name: data[start:end, axis] for axis, name in enumerate(names)})
        first = max(0, end - WINDOW)
        for label, point in points.items():
            for way, weight in (("plain", np.ones(d)), ("weighted", weights), ("sql", np.ones(d))):
                top = monitor.watches[f"{way} {label}"].top()
                assert top["seq"].to_pylist() == nearest(data[first:end], point, weight, first), (way, label)


@pytest.mark.soak
@pytest.mark.parametrize("d", range(1, 11))
def test_every_algorithm_takes_one_to_ten_dimensions(d: int) -> None:
    """Those that take a distance at all; the others say so."""
    random = np.random.default_rng(20 + d)
    names = [f"x{i}" for i in range(d)]
    data = random.normal(size=(4 * BATCH, d))
    points = {"inside": random.normal(size=d), "outside": np.full(d, 40.0)}
    monitor = sb.Monitor(schema=pa.schema([(name, pa.float64()) for name in names]))
    taken = set()
    for algorithm in EXACT:
        for label, point in points.items():
            query = sb.nearest(
                dict(zip(names, point.tolist(), strict=True)), K, sb.rows(WINDOW), algorithm=algorithm
            )
            try:
                monitor.watch(query, name=f"{algorithm} {label}")
            except sb.SkybandError:
                assert algorithm in ("tsl", "heightmap", "lazy")
            else:
                taken.add((algorithm, label))
    for start in range(0, len(data), BATCH):
        end = start + BATCH
        monitor.push({name: data[start:end, axis] for axis, name in enumerate(names)})
        first = max(0, end - WINDOW)
        for algorithm, label in taken:
            top = monitor.watches[f"{algorithm} {label}"].top()["seq"].to_pylist()
            assert top == nearest(data[first:end], points[label], np.ones(d), first), (algorithm, label)
