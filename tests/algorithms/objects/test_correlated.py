"""The approximation by shares: exact where all are 1, few instances at good precision, sketches within bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from benchmarks.streams.incomplete import incomplete
from skyband.algorithms.objects import pruned_instances as kept
from skyband.algorithms.objects.sketches import (
    Distinct,
    Repeats,
    estimate,
    hashes_of,
    in_common,
    standard_error,
)
from skyband.core.types import Recency


def recency(n: int, begin: int = 0) -> tuple[Any, Any]:
    return np.zeros(n, dtype=np.int64), np.arange(begin, begin + n)


@pytest.mark.parametrize("count", [10, 300, 20_000])
def test_a_sketch_counts_the_window(count: int) -> None:
    """Within four standard errors, for the rows in the window alone, however often they are repeated."""
    sketch = Distinct()
    for begin, low in ((0, 0), (2 * count, 10**6)):  # the first half leaves
        keys = low + np.tile(np.arange(count), 2)
        sketch.add(hashes_of(pa.array(keys)), *recency(2 * count, begin))
    found = estimate(sketch.levels(Recency(0, 2 * count)))
    assert abs(found - count) <= 4 * standard_error(256) * count + 2
    both = estimate(sketch.levels(Recency(0, 0)))
    assert abs(both - 2 * count) <= 8 * standard_error(256) * count + 2


def test_late_rows_and_texts() -> None:
    sketch, late = Distinct(), Distinct()
    keys = hashes_of(pa.array([f"k{i}" for i in range(500)]))
    time, seq = recency(500)
    sketch.add(keys, time, seq)
    order = np.random.default_rng(2).permutation(500)
    late.add(keys[order], time[order], seq[order])
    assert np.array_equal(sketch.levels(Recency(0, 100)), late.levels(Recency(0, 100)))


def test_what_streams_have_in_common() -> None:
    """Off by a share of the union, as stated; never more than any of them has."""
    sets = [np.arange(0, 1000), np.arange(400, 1400), np.arange(700, 1700)]
    sketches = [Distinct() for _ in sets]
    for sketch, keys in zip(sketches, sets, strict=True):
        sketch.add(hashes_of(pa.array(keys)), *recency(1000))
    found = in_common([sketch.levels(Recency(0, 0)) for sketch in sketches])
    for mask in range(1, 8):
        own = [set(sets[i].tolist()) for i in range(3) if mask >> i & 1]
        union, truth = len(set.union(*own)), len(set.intersection(*own))
        assert abs(found[mask] - truth) <= 4 * standard_error(256) * union * len(own)
        assert found[mask] <= min(found[1 << i] for i in range(3) if mask >> i & 1)


def test_how_often_keys_repeat() -> None:
    for times in (1, 4):
        repeats = Repeats()
        for begin in range(0, 4000, 100):
            keys = np.repeat(np.arange(begin, begin + 100), times)
            repeats.add(hashes_of(pa.array(keys)), *recency(len(keys), begin * times), 2000)
            repeats.expire(Recency(0, max(0, (begin - 1000) * times)))
        assert abs(repeats.occurrences() - times) <= 0.6 * times


def run(
    d: int, k: int, rows: list[Any], options: str, steps: int = 10
) -> tuple[sb.Monitor, list[float], list[float]]:
    """Push streams side by side; the precision of each answer, and instances of eaa and correlated after each."""
    monitor = sb.Monitor(schema={f"r{i}": {"id": "int64", "x": "double"} for i in range(d)})
    score = " + ".join(f"r{i}.x" for i in range(d))
    joins = "r0" + "".join(f" FULL JOIN r{i} USING (id)" for i in range(1, d))
    sql = f"SELECT id FROM {joins} ORDER BY {score} DESC LIMIT {k} WINDOW 500 ROWS "
    sql += "WITH (range = '0..1', appears = 'once'"
    for name in ("sums", "eaa", "correlated"):
        more = options if name == "correlated" else ""
        monitor.watch(f"{sql}, algorithm = '{name}'{more})", name=name)
    precision, sizes = [], []
    for begin in range(0, len(rows), steps * d):
        part = rows[begin : begin + steps * d]
        for stream in range(d):
            own = [(i, x) for i, s, x in part if s == stream]
            ids, values = zip(*own, strict=True)
            monitor.push({"id": np.array(ids), "x": np.array(values)}, stream=f"r{stream}")
        right, found = (
            set(monitor.watches[n].top().column("id").to_pylist()) for n in ("sums", "correlated")
        )
        if begin >= 1000:
            precision.append(len(right & found) / max(1, len(right)))
            size = [monitor.watches[n].explain().counters["instances"] for n in ("eaa", "correlated")]
            sizes.append(size[1] / size[0])
    return monitor, precision, sizes


@pytest.mark.parametrize("counts", ["exact", "sketch"])
@pytest.mark.parametrize("d", [4, 6])
def test_few_instances_at_good_precision(d: int, counts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """k = 10, W = 500, C = 167: at most 0.6 of eaa's instances at a precision of at least 0.8."""
    monkeypatch.setattr(kept, "PATIENCE", 0)
    rows = incomplete(3000, d, 167, 0.5, np.random.default_rng(5))
    monitor, precision, sizes = run(d, 10, rows, f", counts = '{counts}', sample = 0.5")
    assert np.mean(precision) >= 0.8
    assert np.mean(sizes) <= 0.6
    plan = monitor.watches["correlated"].explain()
    assert not plan.exact and not monitor.watches["correlated"].certified
    assert any("measured against an exact run" in note for note in plan.notes)


def test_exact_where_all_shares_are_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every object comes in every stream: the same instances as eaa, the same answers."""
    monkeypatch.setattr(kept, "PATIENCE", 0)
    rng = np.random.default_rng(8)
    rows = [(i, s, float(rng.integers(0, 9) / 8)) for i in range(400) for s in range(3)]
    _, precision, sizes = run(3, 5, rows, ", counts = 'exact'", steps=20)
    assert set(precision) == {1.0} and set(sizes) == {1.0}


@pytest.mark.parametrize("counts", ["sketch", "exact"])
def test_saved_and_loaded(counts: str) -> None:
    rows = incomplete(900, 3, 50, 0.5, np.random.default_rng(1))
    monitor, _, _ = run(3, 4, rows, f", sample = 1, counts = '{counts}'")
    again = sb.Monitor.from_bytes(monitor.to_bytes())
    assert again.to_bytes() == monitor.to_bytes()
    assert again.watches["correlated"].top().equals(monitor.watches["correlated"].top())
    assert again.watches["correlated"].explain().notes == monitor.watches["correlated"].explain().notes
    again._check()
