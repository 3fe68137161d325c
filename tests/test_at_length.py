"""Long runs, for what only time brings out: rows cleared away, runs forgotten, lists that outgrow their room."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb


@pytest.mark.parametrize("algorithm", ["sa", "ra"])
def test_columns_of_candidates_outlive_the_clearing_of_others(algorithm: str) -> None:
    """Scores fall and jump, so that thousands of rows are candidates for a while; their columns must be theirs."""
    m = sb.Monitor()
    using = f"WITH (algorithm = '{algorithm}')"
    w = m.watch(f"SELECT label, x * 2 AS twice FROM s ORDER BY x DESC LIMIT 5 WINDOW 2000 ROWS {using}")
    random = np.random.default_rng(6)
    xs = np.empty(0)
    for step in range(60):
        x = 1000.0 * (step // 10) - np.arange(500.0) + random.integers(0, 3, 500)
        m.push({"x": x, "label": [f"row {len(xs) + i}" for i in range(500)]})
        xs = np.concatenate([xs, x])
        window = np.arange(max(0, len(xs) - 2000), len(xs))[::-1]
        best = window[np.argsort(-xs[window], kind="stable")[:5]]
        top = w.top()
        assert top["seq"].to_pylist() == best.tolist()
        assert top["label"].to_pylist() == [f"row {i}" for i in best]
        assert top["twice"].to_pylist() == (xs[best] * 2).tolist()
    m._check()
    if algorithm == "sa":
        again = sb.Monitor.from_bytes(m.to_bytes())
        assert next(iter(again.watches.values())).top().equals(w.top())


def test_a_row_window_through_thousands_of_rejects() -> None:
    """Each reject ends a run of accepted rows; a window of 50 rows counts over the gaps."""
    m = sb.Monitor(schema=pa.schema([("x", pa.float64())]))
    w = m.watch("SELECT x FROM s ORDER BY x LIMIT 50 WINDOW 50 ROWS")
    accepted: list[int] = []
    for step in range(30):
        rows = [{"x": "bad" if (step + i) % 3 == 0 else -float(step * 100 + i)} for i in range(100)]
        m.push(rows)
        accepted += [step * 100 + i for i in range(100) if (step + i) % 3]
        assert w.top()["seq"].to_pylist() == accepted[-50:][::-1]
    assert m.reject_counts["type"] == 3000 - len(accepted)
    m = sb.Monitor.from_bytes(m.to_bytes())
    m.push({"x": [-5000.0]})
    assert next(iter(m.watches.values())).top()["seq"].to_pylist() == [3000, *accepted[-49:][::-1]]


def test_other_streams_make_gaps_too() -> None:
    m = sb.Monitor(schema={"a": pa.schema([("x", pa.float64())]), "b": pa.schema([("x", pa.float64())])})
    w = m.watch("SELECT x FROM a ORDER BY x DESC LIMIT 3 WINDOW 3 ROWS")
    for i in range(1500):
        m.push({"x": [float(i)]}, stream="a")
        m.push({"x": [float(i)]}, stream="b")
    assert w.top()["seq"].to_pylist() == [2998, 2996, 2994]


def test_explain_counts_the_rows_of_a_time_window_over_many_steps() -> None:
    m = sb.Monitor(time="t")
    w = m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 3 WINDOW 1000 SECONDS")
    for i in range(2500):
        m.push({"t": [float(i)], "x": [0.0]})
    assert w.explain().to_dict()["rows_in_window"] == pytest.approx(1001, abs=10)
    assert sb.Monitor.from_bytes(m.to_bytes()).watches["query1"].explain().to_dict()["rows_seen"] == 2500


def test_lists_that_outgrow_their_room() -> None:
    """Falling scores keep whole windows, of different lengths, in lists that grow side by side."""
    m = sb.Monitor()
    sizes = [10, 100, 1000, 3000]
    for size in sizes:
        m.watch(f"SELECT x FROM s ORDER BY {size} * x DESC LIMIT 1 WINDOW {size} ROWS", name=str(size))
        m.watch(f"SELECT x FROM s ORDER BY {size} + x LIMIT 4 WINDOW {size} ROWS WITH (algorithm = 'sa')")
    for start in range(0, 6000, 200):
        m.push({"x": -np.arange(float(start), start + 200)})
        m._check()
        for size in sizes:
            assert m.watches[str(size)].top()["seq"].to_pylist() == [max(0, start + 200 - size)]
    m.drop("3000")
    m.watch("SELECT x FROM s ORDER BY 7 * x DESC LIMIT 1 WINDOW 5 ROWS", name="new")
    m.push({"x": [1.0, 0.0]})
    assert m.watches["new"].top()["seq"].to_pylist() == [6000]
    m._check()


def test_k_far_beyond_the_window() -> None:
    m = sb.Monitor()
    w = m.watch("SELECT x FROM s ORDER BY x LIMIT 2000000000 WINDOW 5 ROWS")
    for _ in range(3):
        m.push({"x": [1.0, 2.0, 3.0]})
    assert w.top()["x"].to_pylist() == [1, 2, 2, 3, 3]
    w.change(k=2)
    assert w.top()["x"].to_pylist() == [1, 2]


def test_builders_ask_what_sql_asks() -> None:
    m = sb.Monitor(time="t")
    pairs = [
        (sb.topk("x + y", 3, sb.rows(5)), "SELECT * FROM s ORDER BY x + y DESC LIMIT 3 WINDOW 5 ROWS"),
        (sb.topk("x", 3, "9 seconds", where="y > 1", order="asc"),
         "SELECT * FROM s WHERE y > 1 ORDER BY x LIMIT 3 WINDOW 9 SECONDS"),
        (sb.nearest({"x": 0.5, "y": 2}, 2, sb.last("9 seconds")),
         "SELECT * FROM s ORDER BY dist(x, y, 0.5, 2) LIMIT 2 WINDOW 9 SECONDS"),
        (sb.above("x * y", 1, sb.rows(6)), "SELECT * FROM s WHERE x * y > 1 WINDOW 6 ROWS"),
    ]  # fmt: skip
    watches = [(m.watch(built), m.watch(sql)) for built, sql in pairs]
    random = np.random.default_rng(1)
    for i in range(20):
        m.push(
            {
                "t": [i + 0.5, i + 1.0],
                "x": random.integers(0, 4, 2) * 1.0,
                "y": random.integers(0, 4, 2) * 1.0,
            }
        )
        for built, asked in watches:
            assert built.top().equals(asked.top())
            assert built.top().num_rows > 0 or i < 5
