"""What lists that run short are made anew by, and what keeps them from it."""

import os

import numpy as np
import pytest

from benchmarks.harness.drive import Queries
from skyband.algorithms.heightmap.map_set import Relief
from skyband.algorithms.heightmap.refill import catching
from skyband.algorithms.heightmap.refill_cursor import GROUP, NEXT, SOON, company
from skyband.algorithms.heightmap.row_blocks import came_at
from skyband.algorithms.heightmap.slack_lists import overflow
from skyband.query.expression.score_space import Space


def test_a_raised_map_moves_rows_along_the_axes_that_all_queries_want_alike() -> None:
    """A step asks the same of queries whatever the last axis means to them, and nothing along an axis in dispute."""
    rng = np.random.default_rng(5)
    rows = [rng.random(2000) for _ in range(3)]
    for weights, toward in (
        ([[1.0, 1.0, 1.0], [1.0, 1.0, 1e-6]], [1.0, 1.0, 0.0]),
        ([[1.0, -1.0, 1.0], [1.0, 0.0, -1.0]], [1.0, -1.0, 0.0]),
        ([[1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]], [0.0, -1.0, 0.0]),
    ):
        constants = np.array(weights)
        queries = Queries.of("linear", len(weights), 3, 5)
        relief = Relief(Space(queries.shape, queries.columns, 1.0), 512)
        for slot in range(len(weights)):
            relief.know(slot, constants[slot])
        assert relief.survey(rows, np.arange(len(weights)), constants)
        assert np.sign(relief.tilt).tolist() == toward
        least = np.abs(constants) @ np.abs(relief.tilt)
        assert np.all(relief.slope >= least)
        if toward[0] == toward[1] == 1.0:
            # heights alone would raise the second one's floors by a thousandth of the first one's
            assert relief.slope[1] > 0.5 * relief.slope[0]


def test_rows_of_a_block_are_known_by_where_they_lie() -> None:
    """After rows were brought to the front, each tells where it came: the search of a whole block relies on it."""
    rng = np.random.default_rng(6)
    for count, chosen in ((64, 0), (64, 1), (64, 20), (64, 63), (64, 64), (500, 300)):
        picks = np.sort(rng.choice(count, chosen, replace=False))
        pool, index = (
            np.arange(count, dtype=np.float64).reshape(1, 1, count),
            np.zeros((1, count), dtype=np.uint16),
        )
        for at, i in enumerate(picks.tolist()):
            index[0, at] = i
            pool[0, 0, [at, i]] = pool[0, 0, [i, at]]
        assert [came_at(0, at, chosen, index) for at in range(count)] == pool[0, 0].tolist()


def test_an_edge_leaves_a_list_rows_enough_where_the_young_ones_are_the_best() -> None:
    """The k best are all young: an edge at the last of them would leave a list of k rows."""
    k, n = 20, 80
    good, time, seq = np.arange(n, dtype=np.float64), np.zeros(n, dtype=np.int64), np.arange(n)
    edge, zeros = np.array([0.0]), np.zeros(1, dtype=np.int64)
    size, room, wish = np.array([n]), np.array([n]), zeros.copy()
    totals = np.zeros(16, dtype=np.int64)
    heap = np.empty(k, dtype=np.int64), np.empty(k, dtype=np.int64)
    overflow(
        0, 0, edge, good, time, seq, zeros.copy(), size, room, np.array([n]), np.array([k]), zeros, zeros,
        np.array([0, n, 0, 0]), wish, np.zeros(1, dtype=np.uint8), totals, *heap,
    )  # fmt: skip
    assert size[0] >= 2.6 * k
    assert edge[0] == good[0] > 0.0  # and it has risen


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"), reason="nothing is compiled")
def test_a_walk_counts_no_references() -> None:
    """A kernel below it that makes arrays would make it count, at every call and in every loop: half of its time."""
    made = catching("p[0] * x0 + p[1] * x1", 2, 2, 1.0)
    assert not any(
        each.compiled().owns for each in (made.refill, made.walk, made.finish, made.rank, made.reach)
    )


@pytest.mark.parametrize("seed", range(20))
def test_the_next_to_run_short_walk_in_company(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.choice([40, 300]))
    ks = rng.choice([0, 6, 20, 2000], count)
    size = np.maximum(0, ks + rng.integers(-3, int(rng.choice([4, 30])), count))
    # most lists with fewer than k rows have all there are; some are to be made anew, whatever they have
    todo = rng.permutation(np.flatnonzero(ks))[: int(rng.integers(1, GROUP))]
    found = company(todo, ks, size)
    assert found[: len(todo)].tolist() == todo.tolist()  # nobody comes before those who must
    assert len(set(found.tolist())) == len(found) <= GROUP
    spare = size - ks
    others = np.setdiff1d(
        np.flatnonzero((ks > 0) & (spare >= 0) & (spare <= np.minimum(ks // SOON, NEXT))), todo
    )
    chosen = found[len(todo) :]
    assert np.isin(chosen, others).all() and len(chosen) == min(len(others), GROUP - len(todo))
    left = np.setdiff1d(others, chosen)
    assert not len(left) or not len(chosen) or spare[chosen].max() <= spare[left].min()
