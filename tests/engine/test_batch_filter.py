"""Sifting with a height map keeps the same rows, to the last one, as sifting without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skyband import Monitor
from skyband.engine import batch_filter as rejecting
from skyband.engine import pruning as sift

SHAPES = {  # of the first two one map serves, whichever face it is
    "high": lambda w: f"{w[0]:.3f} * x + {w[1]:.3f} * y + {w[2]:.3f} * z",
    "low": lambda w: f"0 - {w[0]:.3f} * x - {w[1]:.3f} * y - {w[2]:.3f} * z",
    "weights": lambda w: f"{w[0]:.3f} * x + {w[1]:.3f} * y - {w[2]:.3f} * z",
    "mixed": lambda w: f"{w[0] - 0.5:.3f} * x + {w[1] - 0.5:.3f} * y + {w[2] - 0.5:.3f} * z",
    "power": lambda w: f"exp({w[0]:.3f} * x) + {w[1]:.3f} * y",
}


def sifted(sqls: list[str], table: pa.Table, time: str | None) -> Any:
    sift._FAMILIES.clear()
    monitor = Monitor(time=time, schema={"s": table.schema})
    monitor.lists_only = True
    for sql in sqls:
        monitor.watch(sql)
    part = monitor.sifter().sift(table, prune=True).accepted()
    return part.position.tolist(), part.table.to_pylist()


def rows_of(chance: np.random.Generator, n: int, kind: str) -> pa.Table:
    values = {name: chance.random(n) for name in "xyz"}
    if kind == "falling":
        values = {name: np.sort(column)[::-1] + 0.01 * chance.random(n) for name, column in values.items()}
    if kind == "ties":
        values = {name: np.floor(4 * column) for name, column in values.items()}
    if kind == "odd":
        for column in values.values():
            column[chance.integers(0, n, 30)] = np.nan
            column[chance.integers(0, n, 5)] = np.inf
            column[chance.integers(0, n, 5)] = -np.inf
            column[chance.integers(0, n, 5)] = 1e300
    late = np.arange(n) / 8 - chance.integers(0, 2, n) * chance.integers(0, 400, n) / 8
    return pa.table({"t": late, "g": chance.integers(0, 3, n), **values})


@pytest.mark.parametrize("kind", ["even", "falling", "ties", "odd"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_rows_are_kept(shape: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rejecting, "HEAD", 96)
    monkeypatch.setattr(rejecting, "FEWEST_QUERIES", 6)
    monkeypatch.setattr(rejecting, "_GROWTH", 3)
    # one map for all queries, or two clusters with a map each
    monkeypatch.setattr(rejecting, "_CLUSTER", 100 if kind == "ties" else 3)
    chance = np.random.default_rng(7)
    rejected = []
    looked_up = rejecting._looked_up

    def counted(relief: Any, faces: Any, columns: Any, first: int, stop: int, *own: Any) -> Any:
        found = looked_up(relief, faces, columns, first, stop, *own)
        rejected.append(0 if own else stop - first - len(found))
        return found

    monkeypatch.setattr(rejecting, "_looked_up", counted)
    table = rows_of(chance, 3000, kind)
    order = chance.choice(["", "DESC"])
    where = chance.choice(["", "WHERE g = 1 "])
    time = chance.choice([None, "t"])
    sqls = [
        f"SELECT x FROM s {where}ORDER BY {SHAPES[shape](chance.random(3))} {order} LIMIT {chance.integers(1, 6)} "
        "WINDOW 1000 ROWS"
        for _ in range(8)
    ]
    with_map = sifted(sqls, table, time)
    if kind == "even" and shape != "power":
        assert sum(rejected) > 400  # it was the map that did it
    monkeypatch.setattr(rejecting, "FEWEST_QUERIES", 10**9)
    assert with_map == sifted(sqls, table, time)
