"""What heightmap is made of: maps carved for four queries at once, floors in half the memory, packed lists."""

from collections.abc import Iterator

import numpy as np
import pytest

from benchmarks.harness.drive import Queries, Rows, _made
from benchmarks.streams.generators import DISTRIBUTIONS, Drift
from skyband.algorithms.heightmap.family import HeightMap
from skyband.algorithms.heightmap.ingest import EPOCH, RESERVED, RISE, sift_arrays, sift_faces, store
from skyband.algorithms.heightmap.map_set import HIGH, LOW, Relief
from skyband.algorithms.heightmap.maps import UNIT
from skyband.algorithms.kernels.ranked_lists import Ranked
from skyband.compiling.state import LINE
from skyband.core.types import LOWEST
from skyband.query.expression.score_space import Space


def surveyed(axes: int, count: int) -> tuple[Relief, np.ndarray]:
    """A relief over uniform rows, with so many queries of all signs."""
    rng = np.random.default_rng(axes)
    queries = Queries.of("linear", count, axes, 5)
    constants = queries.constants * rng.choice([-1.0, 1.0], queries.constants.shape)
    relief = Relief(Space(queries.shape, queries.columns, 1.0), 512)
    for slot in range(count):
        relief.know(slot, constants[slot])
    assert relief.survey(list(rng.random((axes, 300))), np.arange(count), constants)
    return relief, constants


@pytest.mark.parametrize("axes", [1, 2, 3, 4])
@pytest.mark.parametrize("count", [1, 3, 4, 9])
def test_queries_carved_together_make_the_map_that_they_make_one_by_one(axes: int, count: int) -> None:
    relief, constants = surveyed(axes, count)
    slots = np.arange(count)
    faces = np.array([relief.face(slot) for slot in slots])
    bars = 0.8 * np.abs(relief.weight).sum(axis=1)
    together, alone = relief.inner.copy(), relief.inner.copy()
    relief.carve(together, slots, faces, bars, constants)
    for slot in slots:
        relief.carve(alone, slots[slot : slot + 1], faces[slot : slot + 1], bars, constants)
    assert np.array_equal(together, alone)
    assert (together < relief.inner).any()  # something was carved


@pytest.mark.parametrize("axes", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("outside", [False, True])
def test_rows_are_sifted_alike_when_they_come_and_when_they_are_stored(axes: int, outside: bool) -> None:
    relief, constants = surveyed(axes, 9)
    slots = np.arange(9)
    faces = np.array([relief.face(slot) for slot in slots])
    relief.lower(slots, faces, 0.3 * np.abs(relief.weight).sum(axis=1), constants)
    rows = 1000
    points = np.random.default_rng(3).random((axes, rows)) * (1.3 if outside else 1.0)
    if outside:
        points[0, 5] = np.nan
    columns = tuple(points)
    in_use, pool = np.bincount(faces, minlength=3), np.zeros((1, axes, rows + 24))
    picks = [np.zeros((3, rows + 8), np.uint16) for _ in range(2)]
    eager = np.zeros((2, rows + 8), np.uint16)
    passed, *rest = sift_arrays()
    found = store(columns, 0, rows, 0, 8, pool, in_use, *relief.mapping(), picks[0], eager, passed, *rest)
    assert np.array_equal(pool[0, :, 8 : 8 + rows], points, equal_nan=True)
    # the map that was lowered is the inner one and the outer one: who passes one passes the other
    for face in np.flatnonzero(in_use[:2]).tolist():
        both = eager[face, : passed[face]]
        assert np.array_equal(both, picks[0][face, : len(both)])
    assert (
        sift_faces(pool, 0, 8, 8 + rows, in_use, *relief.mapping()[:-1], picks[1], 0, *sift_arrays()) == found
    )
    assert 0 < found < rows
    # counted from where the stretch began, and from where the block does
    assert np.array_equal(picks[0][2, :found] + 8, picks[1][2, :found])


def test_a_query_that_asks_nothing_opens_the_map_for_all() -> None:
    relief, constants = surveyed(3, 5)
    slots = np.flatnonzero([relief.face(slot) == HIGH for slot in range(5)])
    bars = np.full(5, 0.5)
    bars[slots[0]] = -np.inf
    relief.carve(relief.inner, slots, np.full(len(slots), HIGH), bars, constants)
    assert (relief.inner[HIGH] == np.iinfo(np.int16).min).all()


def test_floors_in_half_the_memory_promise_no_more_than_they_are() -> None:
    relief, _ = surveyed(2, 7)
    floors = np.array([0.1, 1 / 3, -1 / 3, 1e300, -1e300, np.inf, -np.inf])
    now = relief.begin_epoch(floors)
    kept = relief.floors[now].astype(np.float64)
    assert (kept >= floors).all()
    assert np.allclose(kept[:3], floors[:3], rtol=1e-6)


def test_packed_lists_are_what_they_were() -> None:
    rng = np.random.default_rng(3)
    lists = Ranked()
    wanted: dict[int, list[float]] = {}
    for slot in [lists.add(4) for _ in range(60)] * 6:  # each grows several times and leaves room behind
        values = np.sort(rng.random(len(wanted.get(slot, ())) + int(rng.integers(1, 90))))
        lists.put(slot, values, np.zeros(len(values), dtype=np.int64), np.arange(len(values)))
        wanted[slot] = values.tolist()
    before = lists.used
    lists._pack()
    assert lists.used == lists.room.sum() < before
    for slot, values in wanted.items():
        assert lists.good[lists.span(slot)].tolist() == values
        assert lists.seq[lists.span(slot)].tolist() == list(range(len(values)))


def falling(distribution: str, seed: int) -> tuple[HeightMap, Iterator[None]]:
    """A small heightmap with small blocks, and its steps on scores that fall."""
    n, r, cycles = 6_000, 200, 45
    points = DISTRIBUTIONS[distribution](n + cycles * r, 3, seed)
    rows = Rows(Drift("", fall=0.3).apply(points, n))
    engine = _made("heightmap", {"block": 256.0}, Queries.of("linear", 40, 3, 5), n)
    engine.fill(rows, r)

    def steps() -> Iterator[None]:
        for first in range(n, len(rows), r):
            engine.step(rows, first, first + r)
            yield

    return engine.algorithm, steps()


def test_a_new_frame_keeps_what_raised_reservoirs_promise() -> None:
    algorithm, steps = falling("ANT", 1)
    kept = 0
    for _ in steps:
        meta = algorithm.blocks.meta
        raised = np.flatnonzero((meta[:, RISE] > 0) & (meta[:, EPOCH] >= 0))
        if len(raised) and kept < 20:
            algorithm._make_map()
            kept += int((meta[raised, EPOCH] >= 0).sum())
            algorithm._check()
    assert kept > 0


def test_the_newest_block_goes_by_the_floors_that_its_rows_are_sifted_by() -> None:
    algorithm, steps = falling("IND", 1)
    for _, _ in zip(range(30), steps, strict=False):
        pass
    blocks = algorithm.blocks
    newest = blocks.place(blocks.next - 1)
    assert blocks.meta[newest, EPOCH] >= 0
    algorithm.relief.begin_epoch(algorithm.relief.floors[algorithm.relief.now].astype(np.float64))
    algorithm._sift = lambda place: blocks.room + 1  # type: ignore[method-assign]
    algorithm._restock_blocks(newest, 10)
    assert blocks.meta[newest, EPOCH] < 0  # too many rows: none promised, rather than those of other floors


def test_a_reservoir_is_no_second_copy_of_its_rows() -> None:
    """The better rows of a block lie in front of it: two bytes each, and every row is found by its seq all the same."""
    algorithm, steps = falling("IND", 1)
    for _, _ in zip(range(30), steps, strict=False):
        pass
    blocks = algorithm.blocks
    columns, _, seq = blocks.rows(LOWEST)
    held = blocks.meta[:, RESERVED]
    assert held.sum() > 0 and np.array_equal(seq, np.arange(seq[0], seq[-1] + 1))
    found = blocks.by_seq(seq)
    assert found is not None
    for column, other in zip(columns, found, strict=True):
        assert np.array_equal(column, other)
    # but while lists run short all the time, in four bytes a column
    assert 0 < blocks.brief.nbytes <= 12 * len(held) * (2 * held.max() + 64)
    others = blocks.bytes() - blocks.pool.nbytes - blocks.meta.nbytes - blocks.brief.nbytes - LINE
    assert others <= 2 * len(held) * (held.max() + 128)
    algorithm._busy = algorithm._falling = False
    algorithm._refill(np.array([0]), 0.25)
    assert not blocks.brief.nbytes


@pytest.mark.parametrize("face", [HIGH, LOW])
def test_rows_outside_pass_a_map_that_is_raised_by_all_of_its_extent(face: int) -> None:
    relief, constants = surveyed(3, 9)
    slots = np.flatnonzero([relief.face(slot) == face for slot in range(9)])
    bars = 0.8 * np.abs(relief.weight).sum(axis=1)
    relief.carve(relief.outer, slots, np.full(len(slots), face), bars, constants)
    pool = np.random.default_rng(5).random((1, 3, 100))
    pool[0, :, 7], pool[0, 1, 9], pool[0, 2, 11] = np.nan, 1e9, -np.inf
    picks, in_use = np.zeros((3, 108), np.uint16), np.bincount([face], minlength=3)
    found = sift_faces(pool, 0, 0, 100, in_use, *relief.mapping()[:-1], picks, int(UNIT), *sift_arrays())
    assert set(picks[2, :found].tolist()) >= {7, 9, 11} and found < 50
