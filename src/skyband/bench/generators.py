"""Synthetic rows of the papers: independent and anti-correlated attributes in [0, 1]."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from skyband.order import Floats


def independent(rows: int, columns: int, seed: int) -> Floats:
    return np.random.default_rng(seed).random((rows, columns))


def weights(queries: int, columns: int, seed: int = 7) -> Floats:
    """Weighted sums, one a query."""
    return np.random.default_rng(seed).random((queries, columns))


def tables(points: Floats, size: int) -> list[pa.Table]:
    """Points as batches with columns x0, x1, …"""
    return [
        pa.table({f"x{j}": np.ascontiguousarray(points[i : i + size, j]) for j in range(points.shape[1])})
        for i in range(0, len(points), size)
    ]


def weighted_sum(weight: Floats) -> str:
    return " + ".join(f"{value!r} * x{j}" for j, value in enumerate(weight.tolist()))
