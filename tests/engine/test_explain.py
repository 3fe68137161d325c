"""What `explain` says is so: the algorithm that runs, its own counters, and the state, which is not the window."""

from __future__ import annotations

import numpy as np
import pytest

import skyband as sb

SQL = "SELECT x FROM s ORDER BY x DESC LIMIT {k} WINDOW {window}{using}"


def watched(algorithm: str | None, k: int = 10, n: int = 5000, batches: int = 40) -> sb.Watch:
    m = sb.Monitor()
    using = f" WITH (algorithm = '{algorithm}')" if algorithm else ""
    w = m.watch(SQL.format(k=k, window=f"{n} ROWS", using=using), name="w")
    random = np.random.default_rng(4)
    for _ in range(batches):
        m.push({"x": random.random(500)})
    return w


@pytest.mark.parametrize("algorithm", ["sa", "ra"])
def test_state_predicted_and_actual(algorithm: str) -> None:
    """Random order: about k(1 + H_n - H_k) candidates of the window's 5000 rows, and their bytes."""
    plan = watched(algorithm).explain().to_dict()
    harmonic = sum(1 / i for i in range(11, 5001))
    assert plan["algorithm"] == algorithm
    assert plan["rows_in_window"] == 5000
    strict = 10 * (1 + harmonic)
    if algorithm == "sa":
        assert plan["predicted"] == pytest.approx(strict, rel=0.01)
    assert strict * 0.6 < plan["candidates"] < plan["predicted"] * 1.8
    assert plan["bytes"] < 20_000
    assert plan["rows_seen"] == 20_000
    assert plan["counters"]["admitted"] < 8_000


@pytest.mark.parametrize(("algorithm", "own"), [("sa", {"evicted"}), ("ra", {"sweeps", "swept"})])
def test_an_algorithm_is_no_alias_of_another(algorithm: str, own: set[str]) -> None:
    counters = watched(algorithm).explain().to_dict()["counters"]
    assert own <= counters.keys()
    assert all(counters[name] > 0 for name in own)
    other = {"evicted", "sweeps", "swept"} - own
    assert not other & counters.keys()


def test_the_text_names_what_matters() -> None:
    text = str(watched("ra").explain())
    for words in ("ra (relaxed k-skyband", "5,000 rows in the window", "predicted", "bytes", "sweeps"):
        assert words in text
    assert "ra" in str(watched(None).explain())


def test_sharing_shows() -> None:
    m = sb.Monitor(time="t")
    one = m.watch(SQL.format(k=3, window="10 ROWS", using=""), name="one")
    two = m.watch(SQL.format(k=9, window="10 SECONDS", using=""), name="two")
    other = m.watch("SELECT x FROM s ORDER BY x LIMIT 3 WINDOW 10 ROWS", name="other")
    m.push({"t": np.arange(50.0), "x": np.arange(50.0)})
    assert one.explain().to_dict()["shared_with"] == ["two"]
    assert two.explain().to_dict()["shared_with"] == ["one"]
    assert other.explain().to_dict()["shared_with"] == []
    assert one.explain().to_dict()["candidates"] == two.explain().to_dict()["candidates"]


def test_explain_says_what_is_not_exact_yet_and_until_when() -> None:
    m = sb.Monitor()
    w = m.watch(SQL.format(k=1, window="3 ROWS", using=""))
    m.push({"x": [5.0, 4.0, 3.0]})
    assert w.explain().to_dict()["notes"] == []
    w.change(k=3)
    assert len(w.explain().to_dict()["notes"]) == 1
    assert "1 of 3 ranks" in str(w.explain())
    w.change(window="5 rows")
    assert any("grows" in note for note in w.explain().to_dict()["notes"])
    m.push({"x": [1.0] * 9})
    assert w.explain().to_dict()["notes"] == []
    assert w.top().num_rows == 3


def test_falling_scores_keep_the_window_and_say_so() -> None:
    m = sb.Monitor()
    w = m.watch(SQL.format(k=3, window="100 ROWS", using=""))
    m.push({"x": -np.arange(1000.0)})
    assert w.explain().to_dict()["candidates"] == 100


def test_a_threshold_query_keeps_what_is_beyond() -> None:
    m = sb.Monitor()
    w = m.watch("SELECT x FROM s WHERE x > 7 WINDOW 100 ROWS")
    m.push({"x": np.arange(1000.0) % 10})
    plan = w.explain().to_dict()
    assert plan["algorithm"] == "threshold"
    assert plan["candidates"] == 20
    assert plan["k"] is None


@pytest.mark.parametrize("k", [1, 5])
def test_late_rows_are_dominated_by_recency_not_by_arrival(k: int) -> None:
    """Rows arrive newest first: each is older than all before it, so the best k that came first stay."""
    m = sb.Monitor(time="t")
    w = m.watch(SQL.format(k=k, window="1000 SECONDS", using=" WITH (algorithm = 'sa')"))
    for i in range(200):
        m.push({"t": [1000.0 - i], "x": [1.0]})
    assert w.explain().to_dict()["candidates"] == k
    assert w.top()["seq"].to_pylist() == list(range(k))
