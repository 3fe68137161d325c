"""The grid: every row lies within the bounds of its cell, whatever the numbers; chains, influence lists, growth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from skyband.algorithms.grid.cells import TOTAL, Grid, shape_for
from skyband.algorithms.kernels.row_slots import Rows
from skyband.core.types import Recency

VALUES = st.one_of(
    st.floats(allow_nan=False), st.sampled_from([0.0, -0.0, 1.0, 5e-324, -1e308, 1e308]), st.floats(0, 1)
)


def push(rows: Rows, grid: Grid, points: np.ndarray) -> np.ndarray:
    seq = np.arange(len(points)) + (int(rows.seq[rows.living()].max()) + 1 if len(rows) else 0)
    columns = tuple(np.ascontiguousarray(points[:, axis]) for axis in range(points.shape[1]))
    places = rows.add(columns, np.zeros(len(points), dtype=np.int64), seq)
    if grid.due():
        grid.rebuild()
        return places.astype(np.int64)
    return grid.link(places)


@given(
    st.lists(arrays.arrays(np.float64, (5, 2), elements=VALUES), min_size=1, max_size=6),
    st.sampled_from([0, 1, 3, 12]),
)
def test_rows_lie_within_the_bounds_of_their_cells(batches: list[np.ndarray], per_axis: int) -> None:
    rows = Rows(2)
    grid = Grid(rows, per_axis)
    for turn, points in enumerate(batches):
        push(rows, grid, points)
        grid._check()
        grid.unlink(gone := rows.expire(Recency(0, 5 * (turn - 2))))
        assert np.all(rows.cell[gone] == -1)
        grid._check()


@given(st.floats(-1e300, 1e300), st.floats(1e-300, 1e300), st.integers(1, 200))
def test_edges_are_exact(origin: float, width: float, cells: int) -> None:
    """The float before an edge lies in the cell before it, whatever the scale."""
    rows = Rows(1)
    grid = Grid(rows, cells)
    push(rows, grid, np.array([[origin], [origin + width]]))
    for i in range(cells):
        assert grid.index_of(0, grid.low[0, i]) == i == grid.index_of(0, grid.high[0, i])
        if i:
            assert grid.high[0, i - 1] == np.nextafter(grid.low[0, i], -np.inf)


@pytest.mark.parametrize("axes", range(1, 19))
def test_the_number_of_cells_is_near_the_papers_best_whatever_the_axes(axes: int) -> None:
    cells = shape_for(axes, TOTAL)
    assert TOTAL / 2 < np.prod(cells) <= TOTAL
    assert max(cells) - min(cells) <= 1
    assert shape_for(4, TOTAL) == [12] * 4


def test_strays_are_told_and_stretch_the_border_cells() -> None:
    rows = Rows(2)
    grid = Grid(rows, 4)
    assert push(rows, grid, np.random.default_rng(0).random((100, 2))).min() >= 0
    told = push(rows, grid, np.array([[0.5, 0.5], [3.0, 0.5], [0.5, -np.inf], [2.0, 0.1]]))
    assert (told < 0).tolist() == [
        False,
        True,
        True,
        True,
    ]  # beyond the cover, though no longer beyond all rows
    assert grid.reach[0][1] == -np.inf and grid.reach[1][0] == 3.0
    assert not grid.covered(~int(told[1])) and grid.covered(int(told[0]))
    grid._check()


def test_it_is_made_anew_in_proportion_to_what_comes() -> None:
    rows = Rows(2)
    grid = Grid(rows)
    random = np.random.default_rng(1)
    for turn in range(300):
        push(rows, grid, random.random((50, 2)))
        grid.unlink(rows.expire(Recency(0, 50 * turn - 2000)))
    settled = grid.generation
    assert settled < 16 and grid.total > 250
    for turn in range(300, 900):  # drifting steadily
        push(rows, grid, random.random((50, 2)) + (turn - 300) / 50)
        grid.unlink(rows.expire(Recency(0, 50 * turn - 2000)))
    assert settled < grid.generation < settled + 200
    assert len(np.unique(rows.cell[rows.living()])) > 30
    grid._check()


def test_influence_lists() -> None:
    rows = Rows(2)
    grid = Grid(rows, 5)
    push(rows, grid, np.random.default_rng(2).random((50, 2)))
    grid.provide(200)
    grid.everywhere(70, np.array([1, 2]), np.array([3, 2]))
    assert grid.cells_of(70).tolist() == [11, 12, 13] and grid.count.sum() == 3
    grid.everywhere(70, np.array([2, 0]), np.array([1, 4]))  # an empty box
    assert not len(grid.cells_of(70))
    grid.adopt(3, np.array([0, 7, 24]), 200)
    grid.everywhere(199, np.array([0, 0]), np.array([4, 4]))
    assert grid.count.tolist() == [2 if cell in (0, 7, 24) else 1 for cell in range(25)]
    grid.adopt(3, np.array([7, 8]), 200)
    assert grid.cells_of(3).tolist() == [7, 8] and len(grid.cells_of(199)) == 25
    grid._check()
    grid.forget(199)
    grid.forget(3)
    assert not grid.count.any() and not grid.bits.any() and not grid.mine.any()
