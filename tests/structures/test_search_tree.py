"""The priority search tree against sorting, and the paper's example; the answers of many watches at once."""

from __future__ import annotations

import numpy as np
import pytest

import skyband as sb
from skyband.structures.search_tree import SearchTree


def sorted_top(good: np.ndarray, k: int, first: int) -> list[int]:
    places = np.arange(first, len(good))
    return places[np.lexsort((places, good[first:]))[::-1]][:k].tolist()


@pytest.mark.parametrize("kinds", [1, 3, 1000])
def test_every_k_and_window(kinds: int) -> None:
    random = np.random.default_rng(kinds)
    for n in (0, 1, 2, 3, 7, 8, 33, 90):
        good = random.integers(0, kinds, n).astype(float)
        tree = SearchTree(good)
        for first in range(0, n + 1, max(1, n // 9)):
            for k in (1, 2, 5, n, n + 3):
                assert tree.top(k, first).tolist() == sorted_top(good, k, first)
    tree = SearchTree(np.zeros(300))
    assert tree.depth() <= 10  # equal scores, too, are split


def test_the_example_of_the_paper() -> None:
    """Eight objects, the youngest first, with the least score best: of the seven youngest the best two are 7 and 5."""
    scores = [6.0, 8.0, 7.0, 5.0, 3.0, 4.0, 2.0, 1.0]  # of the objects 1 to 8, whose ages are their names
    tree = SearchTree(-np.array(scores[::-1]))  # oldest first, more is better
    name = [8, 7, 6, 5, 4, 3, 2, 1]
    assert name[tree.root] == 1
    assert [name[place] for place in tree.top(2, 1)] == [7, 5]
    assert [name[place] for place in tree.top(2, 0)] == [8, 7]


def test_a_hundred_watches_of_one_score_are_answered_as_each_alone() -> None:
    """With late rows, ties, and snapshots: as many as make a tree worth while."""
    random = np.random.default_rng(2)
    monitors = {name: sb.Monitor(time="t") for name in ("lazy", "sa")}
    watches = {}
    for number in range(30):
        k, n = int(random.integers(1, 12)), int(random.integers(1, 200))
        window = f"{n} ROWS" if number % 2 else f"{n} SECONDS"
        for name, monitor in monitors.items():
            sql = f"SELECT x FROM s ORDER BY x DESC LIMIT {k} WINDOW {window} WITH (algorithm = '{name}')"
            watches[name, number] = monitor.watch(sql, name=f"w{number}")
    for step in range(25):
        size = int(random.integers(1, 60))
        time = 20.0 * step + 20 * random.random(size) - 60 * (random.random(size) < 0.2)
        batch = {"t": time, "x": random.integers(0, 40, size).astype(float)}
        changes = [monitor.push(batch).to_pylist() for monitor in monitors.values()]
        assert changes[0] == changes[1]
        for number in range(0, 30, 7):
            assert watches["lazy", number].top().equals(watches["sa", number].top())
        for n in range(1, 12):
            asked = [watches[name, 28].top(k=1, window=f"{n} seconds") for name in monitors]
            assert asked[0].equals(asked[1])
        many = [
            (k, window) for k in (1, 2, 9, None) for window in ("1 second", "9 seconds", "30 seconds", None)
        ]
        for name in monitors:  # all at once, as each alone
            watch = watches[name, 28]
            known = [(k if k is None else min(k, watch.k or 1), window) for k, window in many]
            assert [table.to_pydict() for table in watch.tops(known)] == [
                watch.top(*one).to_pydict() for one in known
            ]
        for monitor in monitors.values():
            monitor._check()
    assert watches["lazy", 0].explain().counters["late rows below the staircase"] > 0
