"""Fetching ahead changes nothing; the bits of a word, and arrays by address, are the same compiled or not."""

from typing import Any

import numpy as np
import pytest

from skyband.compiling.addresses import Words, lent, shown
from skyband.compiling.intrinsics import bits_in, fetch, first_bit
from skyband.compiling.jit import kernel
from skyband.compiling.state import aligned
from skyband.core.types import Floats


@kernel
def total(values: Floats) -> float:
    found = 0.0
    for i in range(values.shape[0]):
        fetch(values, i + 64)  # also beyond the end: nothing is read
        fetch(values, i - 64)
        found += values[i]
    return found


def test_fetching_is_no_reading() -> None:
    for n in (0, 1, 1000):
        values = np.arange(float(n))
        assert total(values) == total.function(values) == n * (n - 1) / 2


@kernel
def places(word: int) -> int:
    """The sum of (place + 1)² over all bits of a word."""
    found = 0
    while word != np.uint64(0):
        found += (first_bit(word) + 1) ** 2
        word &= word - np.uint64(1)
    return found


@kernel
def counted(word: int) -> int:
    return bits_in(word)


def test_the_first_bit() -> None:
    rng = np.random.default_rng(3)
    some = [np.uint64(1) << np.uint64(i) for i in range(64)]
    for word in [*some, np.uint64(0), np.uint64(2**64 - 1), *rng.integers(0, 2**64 - 1, 50, dtype=np.uint64)]:
        bits = [i for i in range(64) if int(word) >> i & 1]
        assert places(word) == places.function(word) == sum((i + 1) ** 2 for i in bits)
        assert counted(word) == counted.function(word) == len(bits)


def test_an_aligned_array_begins_with_a_line() -> None:
    for shape, kind in (((3, 64), np.float64), ((7,), np.int32), ((9,), np.uint64)):
        made = aligned(shape, kind)
        assert made.shape == shape and made.dtype == kind and not made.any()
        assert made.ctypes.data % 64 == 0 and made.flags.c_contiguous


@kernel
def by_address(words: Any, address: int, count: int) -> tuple[float, int, int]:
    box, marks = lent(words, 0, 3, np.float64), lent(words, 4, 1, np.uint8)
    numbers = shown(address, count, np.int64)
    marks[1] += 7
    return box[1, 2, 3], box.shape[2], numbers[count - 1]


def test_arrays_by_address() -> None:
    box, marks, numbers = np.arange(60.0).reshape(3, 4, 5), np.zeros(3, np.uint8), np.arange(9)
    words = Words(((3, "float64"), (1, "uint8")))
    words.note((box, marks))
    for run in (by_address, by_address.function):
        marks[:] = 0
        assert run(words.words, numbers.ctypes.data, 6) == (box[1, 2, 3], 5, 5)
        assert marks.tolist() == [0, 7, 0]
    other = np.ones(3, np.uint8)
    words.note((box, other))  # one was replaced
    by_address(words.words, numbers.ctypes.data, 6)
    assert other.tolist() == [1, 8, 1] and marks.tolist() == [0, 7, 0]
    for wrong in (np.zeros(3, np.int64), np.zeros((3, 1), np.uint8), np.zeros(6, np.uint8)[::2]):
        with pytest.raises(AssertionError):
            words.note((box, wrong))
