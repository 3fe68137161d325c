"""Cells: what they let pass has everybody whom they were entered for, and mostly nobody else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.algorithms.heightmap import cell_filter as cells
from skyband.algorithms.heightmap.cell_filter import Cells
from skyband.query.expression import columns_of, lift
from skyband.query.expression.score_space import Space
from skyband.query.sql.parser import parse

SCORES = [
    "dist(x, y, 0.5, 0.25)", "sqrt(2 * (x - 0.5) ^ 2 + 0.5 * (y - 0.25) ^ 2)", "abs(x * y - 0.5)", "x * y",
    "x / (y - 0.5)", "abs(x - 0.3)", "least(x, 1 - x)", "exp(x * 2) - y", "ln(x + 0.1) * y", "x ^ 3 - 2 * x",
    "greatest(x, -y) * 0.5",
]  # fmt: skip
ODD = [0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324, -5e-324, 1e308, -1e308, 1.0, 0.5]


def space_of(text: str, descending: bool) -> tuple[Space, list[float]]:
    query: Any = parse(
        f"SELECT x FROM s ORDER BY {text} {'DESC' if descending else ''} LIMIT 1 WINDOW 9 ROWS"
    )
    shape, constants = lift(query.score)
    return Space(shape, columns_of(shape), 1.0 if descending else -1.0), list(constants)


def values_of(chance: np.random.Generator, kind: str, count: int) -> np.ndarray:
    if kind == "crowded":
        return chance.choice([0.2, 0.5, 7.0], count) + 0.005 * chance.standard_normal(count)
    if kind == "whole":
        return chance.integers(0, 6, count).astype(np.float64)
    if kind == "far":
        return 1e15 + chance.random(count)
    if kind == "long":
        return np.exp(8 * chance.standard_normal(count))
    if kind == "odd":
        return chance.choice([*ODD, *chance.random(20)], count)
    return chance.random(count)


@settings(deadline=None, max_examples=120)
@given(
    seed=st.integers(0, 10**6),
    text=st.sampled_from(SCORES),
    descending=st.booleans(),
    kinds=st.tuples(*[st.sampled_from(["even", "crowded", "whole", "far", "long", "odd"])] * 2),
    pairs=st.sampled_from([8, 500, 1 << 22]),
)
def test_nobody_is_missed(seed: int, text: str, descending: bool, kinds: tuple[str, ...], pairs: int) -> None:
    chance = np.random.default_rng(seed)
    space, constants = space_of(text, descending)
    kinds = kinds[: len(space.columns)]
    sample = tuple(values_of(chance, kind, 300) for kind in kinds)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "PAIRS", pairs)
        patch.setattr(cells, "CELLS", (256, 4096))
        cut = Cells.learned(space, sample)
        if cut is None:
            return
        every = np.array(constants) * chance.uniform(0.5, 1.5, (7, len(constants)))
        rows = edge_rows(cut, chance, kinds)
        scores = np.array([space.good(rows, own) for own in every])
        ranked = np.sort(np.where(np.isnan(scores), -np.inf, scores), axis=1)
        bars = ranked[:, -int(chance.integers(1, 40))]  # some row has this very score
        slots = np.arange(0, 7, 2)
        made = cut.entered(slots, bars, every)
    passing = np.zeros(len(rows[0]), dtype=bool)
    passing[made.passing(rows)] = True
    assert np.all(passing | ~(scores[slots] >= bars[slots, None]).any(axis=0))
    assert np.array_equal(passing, told_apart(made, rows))
    for axis, column in zip(made.axes, rows, strict=True):  # a slab's ends have all its numbers between them
        place = axis.places(column)
        inside = (place > 0) & (place < len(axis) - 1)
        assert np.all(axis.low[place[inside] - 1] <= column[inside])
        assert np.all(axis.high[place[inside] - 1] >= column[inside])
        assert inside.any() and not inside[np.isnan(column)].any()


def edge_rows(cut: Cells, chance: np.random.Generator, kinds: tuple[str, ...]) -> tuple[np.ndarray, ...]:
    """Rows like the sample's, odd ones, and some to either side of the slabs' edges."""
    found = []
    for axis, kind in zip(cut.axes, kinds, strict=True):
        edges = axis.origin + np.flatnonzero(np.diff(axis.slab)) / axis.scale
        near = np.concatenate([edges, axis.low, axis.high, axis.origin + (np.arange(9) - 4) / axis.scale])
        near = np.concatenate([near, np.nextafter(near, np.inf), np.nextafter(near, -np.inf)])
        values = np.concatenate([values_of(chance, kind, 300), ODD, chance.choice(near, 300)])
        column = chance.permutation(values)
        column.flags.writeable = False
        found.append(column)
    return tuple(found)


def told_apart(made: Cells, rows: tuple[np.ndarray, ...]) -> np.ndarray:
    """The bits of rows' cells, looked up the long way."""
    shape = [len(axis) for axis in made.axes]
    bits = np.unpackbits(made.words.view(np.uint8), bitorder="little").reshape([*shape[:0:-1], -1])
    at = [axis.places(column) for axis, column in zip(made.axes, rows, strict=True)]
    return bits[tuple(at[::-1])].astype(bool)


@pytest.mark.parametrize("kind", ["even", "crowded"])
def test_few_others_pass(kind: str) -> None:
    chance = np.random.default_rng(3)
    space, _ = space_of("dist(x, y, 0.5, 0.5)", descending=False)
    head, rows = (tuple(values_of(chance, kind, 20_000) for _ in "xy") for _ in range(2))
    points = np.array(head).T[:100].copy()
    bars = np.array([np.sort(space.good(head, point))[-3] for point in points])
    cut = Cells.learned(space, head)
    assert cut is not None
    made = cut.entered(np.arange(100), bars, points)
    exact = np.any([space.good(rows, point) >= bar for point, bar in zip(points, bars, strict=True)], axis=0)
    for column in rows:
        column.flags.writeable = False
    passing = made.passing(rows)
    assert 100 < np.count_nonzero(exact) <= len(passing) < 2.5 * np.count_nonzero(exact)
    # nobody is entered: only what lies outside passes
    nobody = cut.entered(np.arange(0), bars, points)
    assert len(nobody.passing(rows)) < 200


def test_cells_are_cut_anew_when_rows_have_moved() -> None:
    chance = np.random.default_rng(4)
    space, _ = space_of("dist(x, y, 0.5, 0.5)", descending=False)
    even = tuple(chance.random((2, 4000)))
    cut = Cells.learned(space, even)
    assert cut is not None and cut.fit(tuple(chance.random((2, 4000))))
    assert not cut.fit(tuple(chance.random((2, 4000)) + 0.2))  # beyond the slabs
    assert not cut.fit(tuple(0.4 + 0.1 * chance.random((2, 4000))))  # all of them in a few slabs
    holes = tuple(np.where(chance.random(4000) < 0.1, np.nan, column) for column in even)
    cut = Cells.learned(space, holes)  # what has always been outside is no reason
    assert cut is not None and cut.fit(holes) and cut.fit(even)


def test_what_has_no_cells() -> None:
    chance = np.random.default_rng(5)
    space, _ = space_of("dist(x, y, 0.5, 0.5)", descending=False)
    nothing = np.full(10, np.nan)
    assert Cells.learned(space, (nothing, chance.random(10))) is None
    assert Cells.learned(space, (chance.choice([-1e308, 1e308], 10), chance.random(10))) is None
    wide = Cells.learned(space, (chance.choice([-1e289, 1e289, np.inf], 10), chance.random(10)))
    assert wide is not None and np.isfinite(wide.scale).all()
    many, _ = space_of(" + ".join(f"abs({name} - 1)" for name in "abcdefg"), descending=False)
    assert Cells.learned(many, tuple(chance.random((7, 100)))) is None
