"""Ranks: whole numbers in the order of the values that rows have, for comparisons in loops.

Texts, bytes, decimals and numbers of different types compare exactly only as objects of Python or Arrow, which takes
hundreds of times as long as comparing two whole numbers. So each distinct value gets a number, its *rank*, and ranks
compare as the values do: texts by code point (the order of their UTF-8 bytes), numbers by their exact value. All
columns that a predicate may compare with one another share one object.

A value that comes in mid-stream gets a rank between those of its neighbours. Ranks are far apart, so that there mostly
is one; where there is none, all ranks are spread again, and `renew` says how to change the stored ones. Values that no
row has any more are dropped when they are more than half.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.core.types import Ints
from skyband.query.expression.source import decoded
from skyband.stream.arrow import numbers_array, values_of

_APART = 1 << 40  # between two ranks, where there is room
_ALL = 1 << 62  # ranks are between minus this number and this number
_FEW = 1024  # values that may stay besides those that rows have

Renew = Callable[[Ints, Ints], None]
"""Takes ranks as they were, ascending, and what they are now."""


class Ranks:
    """The ranks of values, which are bytes, or numbers of any kind."""

    def __init__(self) -> None:
        self.values: list[Any] = []  # ascending
        self.ranks: Ints = np.empty(0, dtype=np.int64)  # of these values
        self.known: dict[Any, int] = {}

    def encode(self, columns: Sequence[pa.Array], renew: Renew) -> list[Ints]:
        """Return the rank of each row in each of some columns, without nulls. `renew` is called where ranks change."""
        parts = [distinct(column) for column in columns]
        fresh = {value for values, _ in parts for value in values if value not in self.known}
        if fresh:
            self._insert(sorted(fresh), renew)
        known = self.known
        return [np.array([known[v] for v in values], dtype=np.int64)[index] for values, index in parts]

    def _insert(self, fresh: list[Any], renew: Renew) -> None:
        """Give ranks to new values, ascending."""
        at = np.array([bisect_left(self.values, value) for value in fresh], dtype=np.int64)
        given = self._between(at)
        if given is None:
            old = self.ranks
            apart = min(_APART, _ALL // (len(old) + len(fresh) + 1))
            spread = (np.arange(len(old) + len(fresh)) - len(old) // 2) * apart
            own = at + np.arange(len(fresh))
            given, self.ranks = spread[own], np.delete(spread, own)
            self.known = dict(zip(self.values, self.ranks.tolist(), strict=True))
            renew(old, self.ranks)
        self.ranks = np.insert(self.ranks, at, given)
        self.known.update(zip(fresh, given.tolist(), strict=True))
        if len(fresh) == 1:
            self.values.insert(int(at[0]), fresh[0])
        else:
            self.values = sorted(self.values + fresh)  # two sorted runs: one merge

    def _between(self, at: Ints) -> Ints | None:
        """Return ranks for values that belong at these places, ascending; None where some place has no room."""
        begins = np.flatnonzero(np.concatenate([[True], at[1:] != at[:-1]]))
        counts = np.diff(np.concatenate([begins, [len(at)]]))
        number = np.arange(len(at)) - np.repeat(begins, counts) + 1  # among those of its place
        room = np.concatenate([[-_ALL], self.ranks, [_ALL]])
        place = at[begins]
        low, high = room[place], room[place + 1]
        if len(self.ranks):  # before the first and behind the last there is room for many more
            ends = (_APART * (counts + 1)).astype(np.int64)
            low = np.where(place == 0, np.maximum(low, high - ends), low)
            high = np.where(place == len(self.ranks), np.minimum(high, low + ends), high)
        apart = (
            high // (counts + 1) - low // (counts + 1) - 1
        )  # without an overflow; a little less than there is
        if (apart < 1).any():
            return None
        return np.asarray(np.repeat(low, counts) + number * np.repeat(apart, counts))

    def keep(self, ranks: Ints) -> None:
        """Drop all values but those with these ranks, ascending and distinct."""
        places = np.searchsorted(self.ranks, ranks)
        self.values = [self.values[place] for place in places.tolist()]
        self.ranks = self.ranks[places]
        self.known = dict(zip(self.values, self.ranks.tolist(), strict=True))

    def is_sparse(self, rows: int) -> bool:
        """Whether most values are those of rows that have left, if rows have so many values in all."""
        return len(self.values) > 2 * rows + _FEW

    def dump(self, ranks: Ints, type_: pa.DataType) -> pa.Table:
        """Return the values of a column of this type with their ranks, as `array_of` reads them."""
        some = np.unique(ranks)
        values = [self.values[place] for place in np.searchsorted(self.ranks, some).tolist()]
        return pa.table({"rank": some, "value": _array(values, type_)})

    def _check(self) -> None:
        # values ascend, and so do their ranks
        assert self.values == sorted(set(self.values)) and np.all(np.diff(self.ranks) > 0)
        assert self.known == dict(zip(self.values, self.ranks.tolist(), strict=True))


def array_of(table: pa.Table, ranks: Ints) -> pa.Array:
    """Return a column's values, given its ranks and what `dump` returned with them."""
    some = values_of(table.column("rank").combine_chunks())
    return table.column("value").combine_chunks().take(numbers_array(np.searchsorted(some, ranks)))


def renewed(column: Ints, old: Ints, new: Ints) -> None:
    """Change stored ranks in place. A rank that is none stays some number: it is that of no live row."""
    if len(old):
        column[:] = new[np.minimum(np.searchsorted(old, column), len(old) - 1)]


def distinct(column: pa.Array) -> tuple[list[Any], Ints]:
    """Return the distinct values of a column as Python compares them, and for each row the place of its own."""
    column = decoded(column)
    if pa.types.is_string(column.type):
        column = column.view(pa.binary())
    elif pa.types.is_large_string(column.type):
        column = column.view(pa.large_binary())
    found = column.dictionary_encode()
    return found.dictionary.to_pylist(), values_of(found.indices)


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    """Return values as a column of a type that has them."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if pa.types.is_string(type_):
        return pa.array(values, pa.binary()).view(type_)
    if pa.types.is_large_string(type_):
        return pa.array(values, pa.large_binary()).view(type_)
    kinds = ((pa.types.is_integer, int), (pa.types.is_floating, float), (pa.types.is_decimal, Decimal))
    for is_kind, made in kinds:  # an equal value of another type may have come first
        if is_kind(type_):
            values = list(map(made, values))
    return pa.array(values, type_)
