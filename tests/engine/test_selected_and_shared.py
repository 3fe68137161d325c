"""What is selected, and what watches of one score share: in executors too, the greatest k decides what travels."""

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.engine.pruning import Sifted

KS = (1, 7, 3)


@pytest.mark.parametrize("algorithm", ["sa", "ra"])
def test_pruned_parts_serve_the_greatest_k(algorithm: str) -> None:
    whole, pruned = (sb.Monitor(schema=pa.schema([("x", pa.float64())])) for _ in range(2))
    for m in (whole, pruned):
        for number, k in enumerate(KS):
            m.watch(
                f"SELECT x FROM s ORDER BY x DESC LIMIT {k} WINDOW {50 + number} ROWS WITH (algorithm = '{algorithm}')",
                name=f"top{k}",
            )
    random = np.random.default_rng(3)
    for _ in range(20):
        parts = [pa.table({"x": random.random(30).round(1)}) for _ in range(2)]
        sifter = pruned.sifter("s")
        sifted = [Sifted.from_bytes(sifter.sift(part, prune=True).to_bytes()) for part in parts]
        assert sum(part.kept for part in sifted) < 60  # something was pruned
        assert pruned.push_sifted([("s", sifted)]).equals(whole.push(pa.concat_tables(parts)))
        for name in whole.watches:
            assert pruned.watches[name].top().equals(whole.watches[name].top())
        pruned._check()


def test_a_selected_constant() -> None:
    m = sb.Monitor()
    w = m.watch("SELECT 1 + 1 AS two FROM s ORDER BY x DESC LIMIT 2 WINDOW 9 ROWS")
    m.push({"x": [1.0, 2.0, 3.0]})
    assert w.top()["two"].to_pylist() == [2.0, 2.0]


def test_a_selected_score_is_there_once() -> None:
    """`score` names one column of the answer, though a query may select a column of that name."""
    m = sb.Monitor()
    w = m.watch("SELECT id, score FROM s ORDER BY score DESC LIMIT 2 WINDOW 9 ROWS")
    m.push({"id": ["a", "b", "c"], "score": [1, 3, 2]})
    top = w.top()
    assert top.column_names == ["rank", "score", "seq", "id"]
    assert top["score"].to_pylist() == [3.0, 2.0]
    assert w.selected(top).to_pylist() == [{"id": "b", "score": 3}, {"id": "c", "score": 2}]


def test_another_column_called_score_gets_a_name_of_its_own() -> None:
    m = sb.Monitor()
    w = m.watch("SELECT id, score FROM s ORDER BY -score DESC LIMIT 1 WINDOW 9 ROWS")
    m.push({"id": ["a", "b"], "score": [1, 3]})
    assert w.top().to_pylist() == [{"rank": 1, "score": -1.0, "seq": 0, "id": "a", "score_1": 1}]


def test_columns_from_an_index_need_nothing_that_others_put_aside() -> None:
    """One watch takes its column from the window that its family keeps. What another one had put aside, until it was
    dropped, ends in the middle of the window."""
    monitor = sb.Monitor()
    sums = monitor.watch(
        "SELECT x FROM s ORDER BY x + y DESC LIMIT 5 WINDOW 200 ROWS WITH (algorithm = 'sma')"
    )
    monitor.watch(
        "SELECT name FROM s ORDER BY y LIMIT 1 WINDOW 200 ROWS WITH (algorithm = 'ra')", name="named"
    )
    points = np.random.default_rng(3).random((400, 2))
    for first in range(0, 400, 50):
        x, y = points[first : first + 50].T
        monitor.push({"x": x, "y": y, "name": [f"row {seq}" for seq in range(first, first + 50)]})
        window = np.arange(max(0, first - 150), first + 50)
        if first < 200:
            nearest = window[np.argmin(points[window, 1])]
            assert monitor.watches["named"].top().column("name").to_pylist() == [f"row {nearest}"]
        elif first == 200:
            monitor.drop("named")
        wanted = window[np.argsort(-points[window].sum(axis=1))[:5]]
        assert sums.top().column("x").to_pylist() == points[wanted, 0].tolist()
