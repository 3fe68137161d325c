"""What is kept is the skyband, not the window."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb

MILLION = 1_000_000


def watched(timed: bool) -> tuple[sb.Monitor, sb.Watch]:
    m = sb.Monitor(time="t" if timed else None)
    window = "1 DAY" if timed else "10000000 ROWS"
    w = m.watch(f"SELECT x FROM s ORDER BY x DESC LIMIT 20 WINDOW {window} WITH (algorithm = 'ra')")
    m.push({"x": np.zeros(10), **({"t": np.zeros(10)} if timed else {})})
    return m, w


def pushed(m: sb.Monitor, timed: bool) -> list[float]:
    """Push ten million rows; the best of them, worst first."""
    random = np.random.default_rng(7)
    best = np.empty(0)
    for i in range(10):
        batch = {"x": random.random(MILLION)}
        best = np.sort(np.concatenate([best, batch["x"]]))[-20:]
        if timed:
            batch["t"] = i * 1000.0 + np.arange(MILLION) / 1000
        m.push(batch)
    return [float(x) for x in best]


@pytest.mark.parametrize("timed", [False, True])
def test_ra_does_not_keep_ten_million_rows(timed: bool) -> None:
    """Ten million rows are in the window; the state, the snapshot and the process's own books stay small."""
    # Kernels, and libraries that are loaded on the way, take tens of megabytes once in a process: they are there before
    # anything is counted, also where no other test has loaded them.
    pushed(watched(timed)[0], timed)
    m, w = watched(timed)
    gc.collect()
    arrow = pa.total_allocated_bytes()
    tracemalloc.start()
    best = pushed(m, timed)
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert w.top()["x"].to_pylist() == best[::-1]
    assert m.rows_seen == 10 * MILLION + 10
    assert len(m.to_bytes()) < 100_000
    assert pa.total_allocated_bytes() - arrow < 1_000_000
    # scratch for one batch may stay, the window (80 MB of scores) may not
    assert kept < 40_000_000
    state = str(w.explain())
    assert "ra" in state
