"""Ranks compare as their values do, whatever comes in mid-stream."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skyband.algorithms.pairs import ranks as ranking
from skyband.algorithms.pairs.ranks import Ranks, array_of, renewed
from skyband.core.types import Ints

TEXTS = [
    "",
    "\0",
    "a",
    "aa",
    "b",
    "z",
    "\x7f",
    "é",
    "e\u0301",
    "\uffff",
    "\U00010000",
    "\U0010ffff",
    "ab",
    "aé",
]


class Stored:
    """Columns of values with their ranks, as pairs keep them."""

    def __init__(self) -> None:
        self.ranks, self.columns, self.renewals = Ranks(), [[], []], 0  # type: ignore[var-annotated]
        self.stored: list[Ints] = [np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)]

    def add(self, *arrays: pa.Array) -> None:
        def renew(old: Ints, new: Ints) -> None:
            self.renewals += 1
            for column in self.stored:
                renewed(column, old, new)

        fresh = self.ranks.encode(arrays, renew)
        for i, array in enumerate(arrays):
            self.stored[i] = np.concatenate([self.stored[i], fresh[i]])
            self.columns[i] += array.to_pylist()
        self.check()

    def check(self) -> None:
        self.ranks._check()
        values: list[Any] = self.columns[0] + self.columns[1]
        found = np.concatenate(self.stored)
        order = sorted(range(len(values)), key=values.__getitem__)
        for one, other in pairwise(order):
            assert (values[one] < values[other]) == (found[one] < found[other])


@pytest.mark.parametrize("apart", [1 << 40, 2])  # with a little room ranks are spread again and again
def test_texts_are_in_the_order_of_their_code_points(apart: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "_APART", apart)
    random, stored = np.random.default_rng(apart), Stored()
    for step in range(60):
        some = [
            ["".join(random.choice(TEXTS, random.integers(0, 3))) for _ in range(random.integers(1, 6))]
            for _ in range(2)
        ]
        kinds = [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
        stored.add(*(pa.array(texts, kinds[(step + i) % 3]) for i, texts in enumerate(some)))
    assert (stored.renewals > 5) == (apart == 2)


@pytest.mark.parametrize("rising", [True, False])
def test_values_at_an_end_and_between_two_others_find_room(rising: bool) -> None:
    stored = Stored()
    for i in range(200):
        value = pa.array([f"{i if rising else 999 - i:05d}"])
        stored.add(value, value)
    assert stored.renewals == 0
    for i in range(100):  # always between the same two
        value = pa.array(["00900" + "0" * (100 - i)])
        stored.add(value, value)
    assert 1 <= stored.renewals <= 5


def test_numbers_of_all_types_compare_exactly() -> None:
    stored = Stored()
    big = 2**53
    stored.add(
        pa.array([big, big + 1, -3, 0]), pa.array([float(big), big + 2.0, -np.inf, 0.5, -0.0, np.inf, 0.1])
    )
    stored.add(
        pa.array([2**64 - 1, big + 1, 7], pa.uint64()),
        pa.array([Decimal("0.10"), Decimal("0.50"), Decimal("9007199254740993.01")], pa.decimal128(20, 2)),
    )


def test_values_that_no_row_has_are_dropped_and_the_others_keep_their_ranks() -> None:
    stored = Stored()
    stored.add(pa.array([f"{i}" for i in range(100)]), pa.array(["x"]))
    kept = np.sort(stored.ranks.ranks[::3])
    values = [stored.ranks.values[i] for i in range(0, len(stored.ranks.values), 3)]
    assert not stored.ranks.is_sparse(100)
    stored.ranks.keep(kept)
    assert stored.ranks.values == values and np.array_equal(stored.ranks.ranks, kept)
    assert np.array_equal(stored.ranks.encode([pa.array(values, pa.binary())], lambda *_: None)[0], kept)


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["é", "", "a", "a"]),
        pa.array(["é", "", "a"], pa.large_string()),
        pa.array([b"\xff", b""]),
        pa.array([Decimal("1.50"), Decimal("-2.00")], pa.decimal128(9, 2)),
        pa.array([2**64 - 1, 0], pa.uint64()),
        pa.array([0.5, np.inf], pa.float32()),
        pa.array(["p", "q"]).dictionary_encode(),
    ],
    ids=lambda array: str(array.type),
)
def test_what_is_kept_gives_the_values_again(array: pa.Array) -> None:
    ranks = Ranks()
    (found,) = ranks.encode([array], lambda *_: None)
    again = array_of(ranks.dump(found, array.type), found)
    assert again.to_pylist() == array.to_pylist()
    assert again.type == (array.type.value_type if pa.types.is_dictionary(array.type) else array.type)


def test_equal_numbers_of_two_types_are_kept_as_each_columns_own() -> None:
    ranks = Ranks()
    arrays = [pa.array([1.0, 2.5]), pa.array([1, 3]), pa.array([Decimal("2.50")], pa.decimal128(5, 2))]
    for array, found in zip(arrays, ranks.encode(arrays, lambda *_: None), strict=True):
        assert array_of(ranks.dump(found, array.type), found).equals(array)
