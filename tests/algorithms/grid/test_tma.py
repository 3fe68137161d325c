"""TMA: the exact top k after every step, and influence lists that hold exactly the cells they must."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.algorithms.field import EVERYTHING, Asked, Field, linear, product, wave

from skyband.algorithms.grid import base as gridded
from skyband.algorithms.grid import search
from skyband.algorithms.grid.base import DESCEND, PLAIN, WALK
from skyband.algorithms.grid.tma import TMA
from skyband.core.errors import QueryError
from skyband.query.expression import lift, parse_expression
from skyband.query.expression.nodes import columns_of
from skyband.query.expression.score_space import Space

COORDINATE = st.one_of(
    st.integers(-2, 3).map(float), st.sampled_from([0.0, -0.0, np.inf, -np.inf, np.nan]), st.floats(-2, 2)
)
WEIGHT = st.sampled_from([1.0, 2.0, -1.0, 0.0, 0.5])
OPTIONS = st.sampled_from([{}, {"cells": 3.0}, {"cells": 1.0}, {"cells": 7.0}])
MANY = 10**6


class Watched(TMA):
    """Looks at the influence lists whenever they have been set."""

    searches = 0

    def settled(self, slots: Any) -> None:
        super().settled(slots)
        self.searches += len(slots)
        self.exactly(slots)

    def _influence(self, slots: Any) -> None:
        super()._influence(slots)
        self.exactly(slots)

    def bounds_of(self, slot: int) -> Any:
        """Return the best `good` that a row can have in each cell, as the slot's search bounds it; NaN outside its
        box."""
        lows, highs = self.grid.corners()
        inside = np.ones(self.grid.total, dtype=bool)
        for i, axis in enumerate(self.space.boxed):
            lows[axis] = np.maximum(lows[axis], self.low[slot, i])
            highs[axis] = np.minimum(highs[axis], self.high[slot, i])
            inside &= lows[axis] <= highs[axis]
        if self.way[slot] == WALK:
            ups = self.up[slot] >= 0
            corner = [high if up else low for low, high, up in zip(lows, highs, ups, strict=True)]
            bound = self.space.good(corner, self.constants[slot])
        else:
            bound = self.space.bounds(lows, highs, self.constants[slot])[1]
        return np.where(inside, bound, np.nan)

    def exactly(self, slots: Any) -> None:
        for slot in slots.tolist() if self.grid.learned else ():
            needed = np.flatnonzero(self.bounds_of(slot) >= self.bars.bar[slot])
            assert self.grid.cells_of(slot).tolist() == needed.tolist()


def space(text: str, sign: float = 1.0, boxed: tuple[str, ...] = (), bounded: bool = False) -> Space:
    shape, _ = lift(parse_expression(text))
    columns = columns_of(shape)
    columns = (*columns, *(name for name in boxed if name not in columns))
    return Space(shape, columns, sign, tuple(columns.index(name) for name in boxed), bounded)


class Beyond(Field):
    """Threshold queries: k is nothing, the first constant is the bound and not the score's."""

    def beyond(self, edge: float, constants: tuple[float, ...], window: int) -> Asked:
        asked = Asked(0, MANY, constants, window, tuple(EVERYTHING for _ in self.space.boxed))
        self._retain(self.horizon(asked))
        ends = [-np.inf] * len(self.space.boxed), [np.inf] * len(self.space.boxed)
        asked.slot = self.algorithm.add(MANY, constants, self.horizon(asked), *ends, edge=edge)
        self.edges = {**getattr(self, "edges", {}), asked.slot: edge}
        self.asked.append(asked)
        return asked

    def candidates(self, asked: Asked) -> list[tuple[float, int, int]]:
        return [row for row in super().candidates(asked) if row[0] > self.edges[asked.slot]]


# -- against the brute force


@given(data=st.data())
def test_it_equals_the_brute_force(data: st.DataObject) -> None:
    """Queries come on a full or an empty window, change and go; rows are late, deleted, equal, infinite or NaN."""
    sign, boxed = data.draw(st.sampled_from([(1.0, ()), (-1.0, (1,))]))  # each of them is compiled
    field = Field(Watched, linear(2, sign, boxed), **data.draw(OPTIONS))
    for _ in range(data.draw(st.integers(1, 7))):
        points = data.draw(st.lists(st.tuples(COORDINATE, COORDINATE), max_size=7))
        late = data.draw(st.lists(st.integers(0, 4), min_size=len(points), max_size=len(points)))
        gone = data.draw(st.lists(st.integers(0, len(field.seq) + 3), max_size=3))
        field.step(points, late, gone)
        if len(field.asked) < 3 and data.draw(st.booleans()):
            boxes = [((-1.0, 1.0),), ((2.0, 1.0),), ((np.nan, 3.0),), ((0.0, 0.0),), (EVERYTHING,)]
            field.ask(
                data.draw(st.integers(1, 4)), data.draw(st.tuples(WEIGHT, WEIGHT)),
                data.draw(st.sampled_from([1, 4, 9, 50])), data.draw(st.sampled_from(boxes)) if boxed else (),
                data.draw(st.booleans()),
            )  # fmt: skip
        elif field.asked and data.draw(st.booleans()):
            field.resize(field.asked[0], data.draw(st.integers(1, 5)))
        elif field.asked and data.draw(st.booleans()):
            field.drop(field.asked[-1])
        field.check()
        if data.draw(st.booleans()):
            field.reload()
            field.check()


@pytest.mark.parametrize("late", [0, 6])
@pytest.mark.parametrize("levels", [2, 5, 1000])
@pytest.mark.parametrize("batch", [1, 6, 40])
def test_on_a_full_window(batch: int, levels: int, late: int) -> None:
    """Queries that were asked of a full window; several of their rows leave in one step, and deletions besides."""
    random = np.random.default_rng(levels * batch + late)
    field = Field(Watched, linear(3))
    field.step(random.integers(levels, size=(60, 3)))
    first = field.ask(3, (1.0, 2.0, 0.5), 60)
    field.ask(1, (1.0, -1.0, 0.0), 60)
    field.ask(7, (0.0, 0.0, -1.0), 25)
    field.ask(4, (0.0, 0.0, 0.0), 60)  # flat: the newest rows
    field.ask(70, (1.0, 1.0, 1.0), 60)  # more than there are
    for turn in range(150 if batch < 40 else 20):
        tops = field.algorithm.ranked.top(first.slot, 1)[2].tolist() if turn % 5 == 0 else []
        gone = [*tops, *random.integers(len(field.seq), size=2).tolist()]
        points = random.integers(levels, size=(batch, 3))
        field.step(points, random.integers(late + 1, size=batch), gone)
    counters = [field.algorithm.counters(asked.slot) for asked in field.asked[:3]]
    assert all(counter["recomputations"] > 0 and counter["admitted"] > 0 for counter in counters)
    searches = sum(counter["recomputations"] for counter in counters)
    assert searches > 2 * (levels > 2) + 2
    if levels == 1000:  # a search looks at a part of the window only, on average
        assert 0 < sum(counter["cells visited"] for counter in counters) / searches < 16
        assert 0 < sum(counter["rows scored"] for counter in counters) / searches < 60 + 40 * batch


def test_several_losses_of_one_query_in_a_step_are_one_search() -> None:
    field = Field(Watched, linear(2))
    field.step([[float(i), 1.0] for i in (9, 8, 7, 6, 1, 2, 3, 4)])
    asked = field.ask(3, (1.0, 0.0), 8)
    before = field.algorithm.counters(asked.slot)["recomputations"]
    field.step([[0.0, 2.0]] * 4, delete=[6])
    counters = field.algorithm.counters(asked.slot)
    assert counters["recomputations"] == before + 1
    assert field.algorithm.ranked.top(asked.slot, 3)[0].tolist() == [4.0, 2.0, 1.0]


def test_ties_go_to_the_newest_also_in_cells_at_the_bound() -> None:
    """The k-th score is the bound of other cells: they are visited, and an equal row that arrives there counts."""
    field = Field(Watched, space("least(x, 2 * y)"), cells=4.0)
    lattice = [[x, y] for x in (0.0, 0.25, 0.5, 1.0) for y in (0.0, 0.25, 0.5, 1.0)]
    field.step(lattice * 3)
    asked = field.ask(2, (1.0,), 48)
    field.step([[0.5, 0.5], [1.0, 1.0], [1.0, 0.5], [0.5, 1.0]])
    for _ in range(12):
        field.step(lattice[::3])
    assert field.algorithm.counters(asked.slot)["recomputations"] > 0


# -- every kind of score


SCORES = [
    ("2 * x - 3 * y", WALK),
    ("least(x, 2 * y)", WALK),
    ("sqrt(x) - x * 0 + 1 / (y + 3)", WALK),
    ("abs(x - 0.3) * y", DESCEND),
    ("x * x - x", DESCEND),
    ("x / (y - 0.5)", DESCEND),
    ("exp(x) * y", PLAIN),
    ("ln(x) - ln(y)", PLAIN),
    ("x ^ 3 - 2 ^ y", PLAIN),
]


@pytest.mark.parametrize("levels", [4, 0])
@pytest.mark.parametrize(("text", "way"), SCORES)
def test_scores(text: str, way: int, levels: int) -> None:
    random = np.random.default_rng(5)
    constants = lift(parse_expression(text))[1]
    field = Field(Watched, space(text))
    axes = len(field.space.columns)

    def points(n: int) -> Any:
        return np.round(random.random((n, axes)) * levels) / levels if levels else random.random((n, axes))

    field.step(points(300))
    field.ask(4, constants, 300)
    field.ask(9, tuple(c * 1.5 for c in constants), 100)
    field.ask(1, constants, 20, full=False)
    for _ in range(30):
        field.step(points(17), delete=random.integers(len(field.seq), size=1).tolist())
    assert set(field.algorithm.way[:2].tolist()) == {way}
    counters = field.algorithm.counters(0)
    assert counters["recomputations"] > 0
    # fewer rows scored than a scan for each search would have, and fewer cells visited than there are
    assert 0 < counters["rows scored"] < 300 * (counters["recomputations"] + 30)
    if not levels and text != "x / (y - 0.5)":  # whose bound is anything wherever y may be 0.5
        assert counters["recomputations"] > 1
        assert counters["cells visited"] < field.algorithm.grid.total * counters["recomputations"] / 2


def test_distance_to_a_point() -> None:
    random = np.random.default_rng(6)
    field = Field(Watched, space("dist(x, y, 1, 1)", sign=-1.0))
    field.step(random.random((400, 2)))
    for point in ((0.5, 0.5), (0.0, 1.0), (300.0, -200.0)):  # inside, in a corner, far outside
        field.ask(5, point, 400)
    for _ in range(30):
        field.step(random.random((25, 2)))
    # from a point far beyond all rows the distance is monotone over the rows there are
    assert field.algorithm.way.tolist() == [DESCEND, DESCEND, WALK]


@pytest.mark.parametrize("make", [product, wave])
def test_scores_that_stop_being_monotone(make: Any) -> None:
    """Monotone as long as no value is negative; then what was proved is proved anew, or searched the other way."""
    random = np.random.default_rng(5)
    field = Field(Watched, make(2))
    field.step(random.random((80, 2)))
    field.ask(4, (0.25, 0.5), 80)
    field.ask(2, (1.0, 0.0), 40)
    for turn in range(40):
        field.step(random.random((9, 2)) - (0 if turn < 20 else 0.6))
        if turn == 19 and make is not wave:
            assert field.algorithm.way.tolist() == [WALK, WALK]
    assert field.algorithm.counters(0)["recomputations"] > 1


# -- boxes


@pytest.mark.parametrize("text", ["2 * x + 3 * y", "abs(x - 0.5) + 1 * y", "exp(x) - 2 * y"])
def test_boxes_that_cut_cells_are_empty_or_lie_elsewhere(text: str) -> None:
    random = np.random.default_rng(8)
    field = Field(Watched, space(text, boxed=("y", "z")))
    constants = lift(parse_expression(text))[1]
    boxes = [
        ((0.33, 0.71), (0.0, 0.5)), ((0.5, 0.5), EVERYTHING), ((0.6, 0.4), EVERYTHING), ((7.0, 9.0), EVERYTHING),
        (EVERYTHING, (-np.inf, 0.25)), ((np.nan, np.inf), EVERYTHING), ((-3.0, -2.0), (2.0, 3.0)),
    ]  # fmt: skip

    def points(n: int) -> Any:
        return np.round(random.random((n, 3)) * 20) / 20

    field.step(points(200))
    for box in boxes:
        field.ask(3, constants, 200, box)
        field.ask(2, constants, 30, box, full=False)
    for turn in range(40):
        # in the end rows come where boxes were empty
        field.step(points(12) * (1 if turn < 25 else 9) - (0 if turn < 30 else 3))
    visited = [field.algorithm.counters(asked.slot)["cells visited"] for asked in field.asked]
    assert visited[0] > 0 and visited[8] > 0
    assert visited[4] == visited[5] == visited[10] == 0  # boxes without any point


# -- threshold queries


@pytest.mark.parametrize("text", ["2 * x + 3 * y", "abs(x - 0.5) + 1 * y", "exp(x) - 2 * y"])
def test_thresholds_keep_every_row_beyond(text: str) -> None:
    random = np.random.default_rng(9)
    field = Beyond(Watched, space(text, bounded=True))
    constants = lift(parse_expression(text))[1]

    def points(n: int) -> Any:
        return np.round(random.random((n, 2)) * 8) / 8

    field.step(points(90))
    for edge in (-np.inf, 0.5, 1.0, 2.0, 1e9, np.inf):
        field.beyond(edge, constants, 100)
    for turn in range(30):
        field.step(points(7 if turn != 20 else 1500), delete=random.integers(len(field.seq), size=3).tolist())
    counters = [field.algorithm.counters(asked.slot) for asked in field.asked]
    assert all(counter["recomputations"] == 0 for counter in counters)
    assert counters[0]["admitted"] > counters[2]["admitted"] > 0
    # nothing is scored for a bound that nothing reaches, but for rows beyond all others
    assert counters[4]["rows scored"] < counters[0]["rows scored"]
    field.reload()
    field.step(points(5))


# -- the grid's box


def test_ranges_that_grow_shift_and_shrink() -> None:
    random = np.random.default_rng(10)
    field = Field(Watched, linear(2))
    field.ask(3, (1.0, 2.0), 150)
    field.ask(3, (-1.0, 0.5), 150)
    scales = [1.0] * 10 + [1e3] * 10 + [1e-6] * 30 + [1e300] * 4 + [1.0] * 30
    for turn, scale in enumerate(scales):
        field.step((random.random((20, 2)) + turn / 10) * scale)
    assert field.algorithm.grid.generation > 4
    # after all that the grid fits the rows that there are
    assert len(np.unique(field.algorithm.store.cell[field.algorithm.store.living()])) > 10


def test_one_row_far_out_does_not_spoil_the_grid() -> None:
    random = np.random.default_rng(11)
    field = Field(Watched, linear(2))
    field.ask(3, (1.0, 2.0), 400)
    for turn in range(40):
        points = random.random((20, 2))
        if turn % 8 == 0:
            points[0] = 1e12
        field.step(points)
    assert len(np.unique(field.algorithm.store.cell[field.algorithm.store.living()])) > 20


def test_rows_on_the_border_and_all_alike() -> None:
    field = Field(Watched, linear(2), cells=5.0)
    field.ask(4, (1.0, 1.0), 30)
    for _ in range(5):
        field.step([[7.0, 7.0]] * 4)  # no extent at all
    for x in (0.0, 1.0, np.nextafter(1.0, 2.0), np.nextafter(1.0, 0.0), 7.0, 1e308, -1e308, 5e-324):
        field.step([[x, 1.0], [1.0, x], [x, x]])


def test_a_row_from_beyond_the_cover_is_deleted_from_lists_that_its_cell_does_not_name() -> None:
    random = np.random.default_rng(3)
    field = Field(Watched, linear(2), cells=6.0)
    field.step(random.random((200, 2)))
    asked = field.ask(2, (1.0, 1.0), 10_000)
    field.step([[9.0, -8.5], [-50.0, 52.0]])  # both into cells that were out of reach of the top
    assert sorted(field.algorithm.ranked.top(asked.slot, 2)[2].tolist()) != [200, 201]
    field.step([[-70.0, 80.0], [90.0, -60.0]])
    top = field.algorithm.ranked.top(asked.slot, 2)[2].tolist()
    assert top == [203, 202]
    field.step([], delete=[203])
    field.step([], delete=[202, 201])


def test_regions_that_have_shrunk_are_tightened(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query on an empty window is in every cell; once its bar has risen, it should not stay there."""
    monkeypatch.setattr(gridded, "TIGHTEN", 50)
    random = np.random.default_rng(12)
    field = Field(Watched, linear(2))
    asked = field.ask(3, (1.0, 1.0), 10_000)
    for _ in range(200):
        field.step(random.random((5, 2)), check=False)
    field.check()
    counters = field.algorithm.counters(asked.slot)
    assert counters["recomputations"] == 0 and counters["rows scored"] < 500
    assert len(field.algorithm.grid.cells_of(asked.slot)) < field.algorithm.grid.total / 8


def test_too_many_cells_are_refused() -> None:
    with pytest.raises(QueryError, match="cells = 3000 along each of 3 axes"):
        TMA({"cells": 3000.0}, linear(3))


def test_hundreds_of_queries_and_many_axes() -> None:
    """More slots than a word has bits, more axes than the grid can cut."""
    random = np.random.default_rng(13)
    field = Field(Watched, linear(6))
    field.step(random.random((200, 6)))
    for _ in range(150):
        field.ask(2, tuple(random.normal(size=6)), 200)
    for turn in range(6):
        field.step(random.random((20, 6)))
        for asked in field.asked[turn::7]:
            field.drop(asked)
    assert field.algorithm.grid.bits.shape[1] >= 3


@pytest.mark.parametrize("room", [7, 40])
def test_cells_with_more_rows_than_lie_side_by_side(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search goes through them in pieces, several searches at a time; long lists are heaps."""
    monkeypatch.setattr(search, "NEAR", room)
    random = np.random.default_rng(14)
    field = Field(Watched, linear(2), cells=3.0)
    field.step(random.integers(0, 12, (400, 2)))
    asked = [field.ask(k, tuple(random.normal(size=2)), 300) for k in (1, 5, 20, 150)]
    for _ in range(4):
        field.step(random.integers(0, 12, (150, 2)) * 0.9)
    everything = np.array([each.slot for each in asked])
    field.algorithm.search(everything)  # all of them in one call
    field.check()
    assert field.algorithm.searches > 12
