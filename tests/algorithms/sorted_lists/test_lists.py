"""Sorted lists of attributes: whatever comes and leaves, every row that is there has its entries in order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.algorithms.sorted_lists import lists as sorted_lists
from skyband.algorithms.sorted_lists.lists import BLOCK, SortedLists

VALUE = st.one_of(
    st.integers(0, 3).map(float), st.sampled_from([0.0, -0.0, np.inf, -np.inf]), st.floats(-2, 2)
)


class Store:
    """Rows in places that are given out again, with their lists."""

    def __init__(self, axes: int, places: int) -> None:
        self.lists = SortedLists(axes)
        self.values = np.zeros((places, axes))
        self.free = list(range(places))[::-1]
        self.there: list[int] = []

    def add(self, points: list[list[float]]) -> None:
        places = [self.free.pop() for _ in points]
        self.there += places
        self.values[places] = np.array(points).reshape(len(points), -1)
        self.lists.insert(np.array(places, dtype=np.int32), self.values)
        self.lists.check(self.values)

    def leave(self, count: int) -> None:
        gone, self.there = self.there[:count], self.there[count:]
        self.free += gone
        self.lists.remove(np.array(gone, dtype=np.int32), self.values)
        self.lists.check(self.values)

    def walk(self, axis: int) -> list[float]:
        """The values of the rows that are there, as the list has them: each row where it is met first."""
        lists, out, met = self.lists, [], set()
        for number in lists.order[axis, : lists.used[axis]]:
            for i in range(lists.count[axis, number]):
                row, value = int(lists.place[axis, number, i]), float(lists.value[axis, number, i])
                if lists.live[row] and self.values[row, axis] == value and row not in met:
                    met.add(row)
                    out.append(value)
        return out


@given(
    steps=st.lists(st.tuples(st.lists(st.tuples(VALUE, VALUE), max_size=9), st.integers(0, 12)), max_size=8)
)
def test_small_ones(steps: list[tuple[list[tuple[float, float]], int]]) -> None:
    store = Store(2, 100)
    for points, leaving in steps:
        if points:
            store.add([list(p) for p in points])
        store.leave(leaving)
        for axis in range(2):
            assert store.walk(axis) == sorted(store.values[store.there, axis].tolist())


@pytest.mark.parametrize("levels", [1, 3, 1000, 10**9])
@pytest.mark.parametrize("batch", [1, 40, 1500])
def test_long_ones_split_and_sweep(levels: int, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a block, places given out again, and so many equal values that old entries can't be told by them."""
    monkeypatch.setattr(sorted_lists, "SLACK", 100)
    random = np.random.default_rng(levels + batch)
    store = Store(2, 5000)
    for turn in range(60 if batch < 1000 else 8):
        shift = turn * levels // 9  # the blocks behind it get no more rows: a sweep finds them
        store.add(
            [[float(random.integers(levels) - shift), float(random.integers(levels))] for _ in range(batch)]
        )
        store.leave(max(0, len(store.there) - 2 * batch - 30))
        for axis in range(2):
            assert store.walk(axis) == sorted(store.values[store.there, axis].tolist())
        assert store.lists.entries.max() <= 2 * store.lists.rows + 100 + batch
    if batch > 1:
        assert store.lists.sweeps > 0 or store.lists.used.max() > 1
    if batch == 1500:
        assert store.lists.used.max() > 2 * batch / BLOCK


def test_an_equal_row_in_a_place_given_out_again() -> None:
    """The old entry looks like the new row's own; a sweep leaves one of the two."""
    store = Store(1, 1)
    for _ in range(5):
        store.add([[7.0]])
        store.leave(1)
    store.add([[7.0]])
    assert store.lists.entries[0] == 6
    store.lists.sweep(store.values)
    assert store.lists.entries[0] == 1 and store.walk(0) == [7.0]


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinities_fill_several_blocks(value: float) -> None:
    """Their separators are equal, though their difference is no number."""
    store = Store(1, 4 * BLOCK)
    for _ in range(3):
        store.add([[value]] * BLOCK)
    assert store.lists.used[0] > 2
    store.leave(2 * BLOCK)
    assert store.walk(0) == [value] * BLOCK
