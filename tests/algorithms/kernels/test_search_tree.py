"""The priority search tree against sorting, and the paper's example; many answers at once, of one watch and of many."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oracle import Oracle

import skyband as sb
from skyband.algorithms.kernels.batch_tops import places_of
from skyband.algorithms.kernels.search_tree import SearchTree


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


@pytest.mark.parametrize("kinds", [1, 3, 1000])
def test_many_at_once(kinds: int) -> None:
    """By a scan by score and by a walk by recency, as each alone: equal and empty windows, a k too large, and none."""
    random = np.random.default_rng(kinds)
    for n in (0, 1, 2, 7, 60):
        good = random.integers(0, kinds, n).astype(float)
        tree, recency = SearchTree(good), np.arange(n)
        for count in (0, 1, 2, 50):
            ks, firsts = random.integers(0, n + 4, count), random.integers(0, n + 1, count)
            firsts[::3] = firsts[: len(firsts[::3])]
            alone = [
                sorted_top(good, k, first) for k, first in zip(ks.tolist(), firsts.tolist(), strict=True)
            ]
            assert [places.tolist() for places in tree.tops(ks, firsts)] == alone
            edges = np.stack([np.zeros(count, dtype=np.int64), firsts], axis=1)
            walked = places_of(good, np.zeros(n, dtype=np.int64), recency, slice(0, n), ks, edges)
            assert [places.tolist() for places in walked] == alone


@pytest.mark.parametrize("kind", ["rows", "seconds"])
def test_many_snapshots_are_the_oracles(kind: str) -> None:
    """With ties, late rows, and more ranks than a window has rows; before there is a tree, and once there is one."""
    random = np.random.default_rng(len(kind))
    monitor, oracle = sb.Monitor(time="t"), Oracle("t")
    sql = f"SELECT x FROM s ORDER BY x DESC LIMIT 9 WINDOW 30 {kind} WITH (algorithm = 'lazy')"
    watch = monitor.watch(sql, name="w")
    oracle.watch("w", lambda row: row["x"], 9, (kind, 30.0))
    asked = [(k, n) for k in (1, 4, 9) for n in (1, 2, 3, 5, 8, 13, 21, 30)] + [(9, 3), (2, 3)]
    for step in range(8):
        size = int(random.integers(1, 20))
        time = 10.0 * step + random.integers(0, 10, size) - 25.0 * (random.random(size) < 0.2)
        batch = {"t": time, "x": random.integers(0, 6, size).astype(float)}
        monitor.push(batch)
        oracle.push([{"t": t, "x": x} for t, x in zip(time.tolist(), batch["x"].tolist(), strict=True)])
        right = [[(r.rank, r.score, r.seq) for r in oracle.top("w", k, (kind, float(n)))] for k, n in asked]
        algorithm = watch.group.algorithm
        for round in range(10):
            some = slice(round % 3, 5 if round == 8 else None)  # a few at once, too
            tables = watch.tops([(k, f"{n} {kind}") for k, n in asked[some]])
            found = [
                [*zip(*(table[c].to_pylist() for c in ("rank", "score", "seq")), strict=True)]
                for table in tables
            ]
            assert found == right[some]
            assert bool(algorithm._trees) == (round >= 7)


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
