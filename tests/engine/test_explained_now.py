"""`explain` and snapshots tell of the present: the k and window that a watch has now, and the rows inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import skyband as sb

TOP = "SELECT x FROM s ORDER BY x DESC LIMIT 3 WINDOW 1 MINUTE"
SUMS = "SELECT g, SUM(x) FROM s GROUP BY g ORDER BY SUM(x) DESC LIMIT 3 WINDOW 1000 ROWS"
JOINED = "SELECT id FROM a FULL JOIN b USING (id) ORDER BY a.x + b.x DESC LIMIT 3 WINDOW 1000 ROWS"


def counted(watch: Any) -> int | None:
    found: int | None = watch.explain().to_dict()["rows_in_window"]
    return found


@pytest.mark.parametrize("batch", [1440, 100, 1])
def test_the_rows_of_a_time_window_are_counted(batch: int) -> None:
    m = sb.Monitor(time="t")
    w = m.watch(TOP)
    for first in range(0, 1440, batch):
        times = np.arange(first, min(first + batch, 1440), dtype=float)
        m.push({"t": times[::-1], "x": times})
    assert counted(w) == 61
    assert "61 rows in the window" in str(w.explain())
    m.advance(1439.0 + 30)
    assert counted(w) == 31
    assert counted(sb.Monitor.from_bytes(m.to_bytes()).watches["query1"]) == 31


def test_the_rows_of_a_long_time_window_are_counted_nearly() -> None:
    m = sb.Monitor(time="t")
    w = m.watch(TOP.replace("MINUTE", "HOUR"))
    for first in range(0, 400_000, 50_000):
        m.push({"t": np.arange(first, first + 50_000) / 20, "x": np.zeros(50_000)})
    assert counted(w) == pytest.approx(72_001, rel=0.01)


@pytest.mark.parametrize("time", [None, "t"])
def test_the_rows_of_a_row_window_are_counted_since_its_beginning(time: str | None) -> None:
    m = sb.Monitor(time=time)
    first = m.watch("SELECT x FROM s ORDER BY x LIMIT 2 WINDOW 100 ROWS")
    m.push({"t": np.arange(30.0), "x": np.arange(30.0)})
    second = m.watch("SELECT x FROM s ORDER BY x LIMIT 2 WINDOW 100 ROWS")
    assert (counted(first), counted(second)) == (30, 0)
    m.push([{"t": 30.0, "x": 1.0}, {"t": 31.0, "x": "?"}, {"t": 32.0, "x": 1.0}])
    assert (counted(first), counted(second)) == (32, 2)
    m.push({"t": np.arange(40.0, 140.0), "x": np.arange(100.0)})
    assert (counted(first), counted(second)) == (100, 100)


def test_the_k_and_the_window_of_now() -> None:
    m = sb.Monitor(time="t")
    w = m.watch(TOP, name="q")
    w.change(k=8, window="2 minutes")
    assert "LIMIT 8 WINDOW 2 MINUTES" in str(w.explain())
    assert "LIMIT 8 WINDOW 2 MINUTES" in repr(w)
    assert w.explain().to_dict()["sql"].endswith("LIMIT 8 WINDOW 2 MINUTES")


@pytest.mark.parametrize("algorithm", ["sums", "sla"])
@pytest.mark.parametrize("joined", [False, True])
def test_objects_answer_a_larger_k_at_once(algorithm: str, joined: bool) -> None:
    m = sb.Monitor()
    w = m.watch(f"{JOINED if joined else SUMS} WITH (algorithm = '{algorithm}')", name="q")
    rows = {"x": np.arange(500.0)}
    if joined:
        for stream in ("a", "b"):
            m.push({"id": np.arange(500) % 30, **rows}, stream=stream)
    else:
        m.push({"g": [f"g{i % 30}" for i in range(500)], **rows})
    sums = sorted((sum(range(i, 500, 30)) * (1 + joined) for i in range(30)), reverse=True)
    assert w.top(k=20)["score"].to_pylist() == sums[:20]
    assert [len(top) for top in w.tops([(25, None), (30, "100 rows")])] == [25, 30]
    w.change(k=8)
    assert w.top()["score"].to_pylist() == sums[:8]
    assert "k was raised" not in str(w.explain())
    where = {"stream": "a"} if joined else {}
    changes = m.push({"id" if joined else "g": [0 if joined else "g0"], "x": [0.0]}, **where)
    assert sum(c == "enter" for c in changes["change"].to_pylist()) >= 5
    again = sb.Monitor.from_bytes(m.to_bytes()).watches["q"]
    assert again.top(k=20).equals(w.top(k=20))
