"""Outlines: no row that reaches a query's threshold is kept from its block, and most others are."""

import numpy as np
import pytest

from benchmarks.harness.drive import Queries
from skyband.algorithms.heightmap.block_maps import Outlines, lower_all
from skyband.algorithms.heightmap.map_set import LOOSE, Relief
from skyband.algorithms.heightmap.score_blocks import WIDTH, Stands
from skyband.query.expression.score_space import Space


def drawn(axes: int, count: int, signs: tuple[float, ...]) -> tuple[Relief, Stands, Outlines, np.ndarray]:
    """Queries of these signs over uniform rows, in blocks, with thresholds that few rows reach."""
    rng = np.random.default_rng(axes)
    queries = Queries.of("linear", count, axes, 5)
    constants = queries.constants * rng.choice(signs, queries.constants.shape)
    relief, stands, outlines = (
        Relief(Space(queries.shape, queries.columns, 1.0), 512),
        Stands(axes),
        Outlines(),
    )
    slots = np.arange(count)
    for slot in slots:
        relief.know(slot, constants[slot])
        stands.enter(slot, LOOSE, constants[slot], -np.inf)
    rows = rng.random((axes, 4000))
    assert relief.survey(list(rows), slots, constants)
    faces = np.array([relief.face(slot) for slot in slots])
    stands.arrange(slots, faces, relief.traits(slots, constants))
    bars = np.sort(relief.weight @ rows, axis=1)[:, -5]
    relief.lower(slots, faces, bars, constants, outer_too=False)
    assert relief.frame is not None
    outlines.draw(relief.frame, len(stands.face))
    lower(outlines, relief, stands, slots)
    return relief, stands, outlines, bars


def lower(outlines: Outlines, relief: Relief, stands: Stands, slots: np.ndarray) -> None:
    outlines.lower(slots, stands.place, stands.face, relief.mapped, relief.offset, relief.weight, relief.slip)


def passed(outlines: Outlines, stands: Stands, rows: np.ndarray, slot: int) -> np.ndarray:
    return outlines.pass_(int(stands.place[slot]) // WIDTH, stands.face, tuple(rows))


@pytest.mark.parametrize("axes", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("signs", [(1.0,), (-1.0,), (-1.0, 1.0), (0.0, 1.0)])
def test_rows_that_reach_a_threshold_pass_the_outline_of_its_block(
    axes: int, signs: tuple[float, ...]
) -> None:
    relief, stands, outlines, bars = drawn(axes, 100, signs)
    rng = np.random.default_rng(9)
    rows = np.round(
        rng.random((axes, 3000)) * 1.02 - 0.01, 3
    )  # some lie outside the frame, some on its edges
    rows[0, 5:8] = np.nan, np.inf, -np.inf
    for slot in np.flatnonzero(relief.usable):
        with np.errstate(invalid="ignore"):
            reached = (relief.weight[slot][:, np.newaxis] * rows).sum(axis=0) >= bars[slot]
        assert passed(outlines, stands, rows[:, reached], slot).all()
        # rows outside are for the queries to judge
        assert passed(outlines, stands, rows[:, 5:8], slot).all()


def test_most_rows_are_kept_from_most_blocks() -> None:
    relief, stands, outlines, bars = drawn(4, 1000, (1.0,))
    rows = np.random.default_rng(9).random((4, 4000))
    some = np.zeros(4000, dtype=bool)
    blocks = np.array([outlines.pass_(b, stands.face, tuple(rows)) for b in range(len(stands.face))])
    for slot in range(1000):
        some |= relief.weight[slot] @ rows >= bars[slot]
    assert some.any()
    # of those that reach a threshold, too: they are few blocks' concern
    assert blocks[:, some].mean() < 0.5
    assert blocks.mean() < 0.05


def test_a_threshold_that_falls_lowers_the_outline_of_its_block_alone() -> None:
    relief, stands, outlines, bars = drawn(3, 200, (1.0,))
    before = outlines.heights.copy()
    slots = np.array([17])
    relief.lower(slots, np.array([relief.face(17)]), 0.5 * bars[slots], relief.weight)
    lower(outlines, relief, stands, slots)
    changed = (outlines.heights != before).any(axis=1)
    assert changed.nonzero()[0].tolist() == [stands.place[17] // WIDTH]
    assert (outlines.heights <= before).all()


def test_before_there_is_a_map_there_are_no_outlines() -> None:
    outlines = Outlines()
    none = np.zeros(1, dtype=np.int64)
    outlines.lower(none, none, none, np.zeros(1), np.zeros(1), np.zeros((1, 1)), np.zeros(1))
    assert len(outlines.heights) == 0


def lower_at_once(outlines: Outlines, relief: Relief, stands: Stands, slots: np.ndarray) -> bool:
    frame = relief.frame
    assert frame is not None
    line = (outlines.heights, outlines.low, outlines.high, outlines.corners, outlines.size, outlines.order)
    return bool(
        lower_all(
            slots, stands.place, stands.face, stands.bar, relief.mapped, relief.floors, relief.now, relief.inner,
            relief.outer, frame.low, frame.high, relief.corners, frame.size, frame.order, relief.offset,
            relief.weight, relief.slip, line,
        )
    )  # fmt: skip


@pytest.mark.parametrize("axes", [1, 2, 3, 4])
@pytest.mark.parametrize("signs", [(1.0,), (-1.0, 1.0)])
@pytest.mark.parametrize("epoch", [False, True])
def test_maps_and_outlines_lowered_at_once_are_those_lowered_one_after_the_other(
    axes: int, signs: tuple[float, ...], epoch: bool
) -> None:
    made = [drawn(axes, 100, signs) for _ in range(2)]
    slots = np.random.default_rng(3).permutation(100)[:23]
    before = made[0][0].inner.copy(), made[0][0].outer.copy(), made[0][2].heights.copy()
    for i, (relief, stands, outlines, bars) in enumerate(made):
        if epoch:  # every other floor is below all thresholds
            relief.begin_epoch(np.where(np.arange(100) % 2, -9.0, 9.0))
        # some fall, some rise: those the maps know already
        stands.bar[stands.place[slots]] = bars[slots] - np.linspace(0.3, -0.1, len(slots))
        if i:
            assert lower_at_once(outlines, relief, stands, slots)
            continue
        own = slots[stands.bar[stands.place[slots]] < relief.mapped[slots]]
        assert 5 < len(own) < len(slots)
        faces = stands.face[stands.place[own] // WIDTH]
        relief.lower(own, faces, stands.bar[stands.place[own]], relief.weight)
        lower(outlines, relief, stands, own)
    (one, _, outline, _), (other, _, at_once, _) = made
    assert np.array_equal(one.mapped, other.mapped)
    for lowered, alike, was in zip(
        (one.inner, one.outer, outline.heights),
        (other.inner, other.outer, at_once.heights),
        before,
        strict=True,
    ):
        assert np.array_equal(lowered, alike) and (lowered < was).any()


def test_a_query_that_admits_every_row_is_not_let_into_the_maps() -> None:
    relief, stands, outlines, bars = drawn(3, 100, (1.0,))
    slots = np.arange(10, 20)
    before, known = relief.inner.copy(), relief.mapped.copy()
    stands.bar[stands.place[slots]] = bars[slots] - 0.1
    stands.bar[stands.place[15]] = -np.inf
    assert not lower_at_once(outlines, relief, stands, slots)
    assert np.array_equal(relief.inner, before) and np.array_equal(relief.mapped, known)


def test_a_threshold_just_below_its_floor_comes_into_both_maps() -> None:
    """A floor has four bytes. Compared with a threshold that is rounded to four as well, it wasn't above it, and rows
    in between passed the inner map alone."""
    relief, stands, outlines, bars = drawn(3, 9, (1.0,))
    np.copyto(relief.outer, relief.inner)
    relief.begin_epoch(0.9 * bars)
    stands.bar[stands.place[4]] = float(relief.floors[relief.now, 4]) * (1.0 - 1e-9)
    before = relief.inner.copy()
    assert lower_at_once(outlines, relief, stands, np.array([4]))
    assert np.all(relief.outer <= relief.inner) and (relief.inner < before).any()
