"""Declared states: arrays and numbers that kernels read by name."""

from __future__ import annotations

import copy
import os
import pickle

import numpy as np
import pytest

from skyband.compiling.jit import kernel
from skyband.compiling.state import State, field, scalar
from skyband.core.types import Floats, Ints


class Lists(State):
    good: Floats = field("f8[place]")
    start: Ints = field("i8[slot]")
    box: Floats = field("f8[slot, axis, side]")
    heap: Floats = field("f8[place]", scratch=True)
    used: int = scalar("i8")
    level: float = scalar("f8")


class Longer(Lists):
    extra: Ints = field("i8[slot]")


class Rows(State):
    good: Floats = field("f8[row]")


@kernel
def total(lists: Lists, count: int) -> float:
    found = 0.0
    for i in range(count):
        found += lists.good[i]
    return found


@kernel
def take(lists: Lists, rows: Rows) -> float:
    """Append rows, count them, and write along three axes."""
    for i in range(rows.good.shape[0]):
        lists.good[lists.used] = rows.good[i]
        lists.used += 1
    lists.level = 0.5 * lists.used
    lists.box[1, 2, 0] = 7.0
    return total(lists, lists.used)


@kernel
def with_an_array(lists: Lists, more: Floats) -> float:
    return lists.good[0] + more[0]


@kernel
def last_of(lists: Longer) -> int:
    return lists.extra[lists.extra.shape[0] - 1]


@kernel
def replace(lists: Lists, other: Floats) -> None:
    lists.good = other


@kernel
def replace_by_its_own(lists: Lists) -> None:
    lists.good = np.empty(3)


def made() -> Lists:
    lists = Lists(place=8, slot=3, axis=3, side=2)
    lists.good[:2] = 5.0, 6.0
    lists.used = 2
    return lists


def test_a_kernel_reads_and_writes_fields_by_name() -> None:
    lists, rows = made(), Rows(row=3)
    rows.good[:] = 1.0, 2.0, 3.0
    assert take(lists, rows) == 17.0
    assert (lists.used, lists.level, lists.box[1, 2, 0]) == (5, 2.5, 7.0)
    assert lists.good.tolist() == [5, 6, 1, 2, 3, 0, 0, 0]
    lists._check()


def test_states_go_with_arrays_and_into_subclasses() -> None:
    lists = Longer(place=4, slot=2)
    lists.extra[:] = 3, 4
    assert last_of(lists) == 4
    assert with_an_array(made(), np.ones(1)) == 6.0


def test_arrays_begin_on_a_line_of_memory() -> None:
    lists = made()
    assert all(array.ctypes.data % 64 == 0 for array in (lists.good, lists.start, lists.box))


def test_growing_keeps_contents_and_their_addresses_are_known_to_kernels() -> None:
    lists = made()
    lists.grow(place=100, slot=5)
    lists._check()
    assert (lists.extent("place"), lists.extent("slot"), lists.box.shape) == (100, 5, (5, 3, 2))
    assert total(lists, 100) == 11.0
    lists.grow(place=10)
    assert lists.extent("place") == 100


def test_a_replaced_array_is_the_one_that_kernels_read() -> None:
    lists = made()
    lists.good = np.full(8, 2.0)
    lists._check()
    assert total(lists, 8) == 16.0


def test_a_kernel_may_replace_an_array_by_one_of_its_callers() -> None:
    lists, other = made(), np.full(9, 3.0)
    vars(lists)["good"] = other  # the state holds it
    replace(lists, other)
    assert total(lists, 9) == 27.0
    if os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0"):
        with pytest.raises(Exception, match="makes arrays can't replace the array good"):
            replace_by_its_own(lists)


@pytest.mark.parametrize(
    "wrong",
    [np.zeros(8, dtype=np.float32), np.zeros((8, 1)), np.zeros(16)[::2]],
    ids=["type", "axes", "steps"],
)
def test_an_array_of_another_kind_is_refused(wrong: Floats) -> None:
    with pytest.raises(TypeError, match=r"Lists\.good is float64\[place\] in one piece, not float"):
        made().good = wrong


def test_what_is_dumped_is_loaded_and_scratch_is_not() -> None:
    lists = made()
    content = lists.dump()
    assert "heap" not in content
    again = Lists(place=8)
    again.load(content)
    assert again.good.tolist() == lists.good.tolist() and again.used == 2
    content["good"][0] = 99.0
    assert again.good[0] == lists.good[0] == 5.0


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_have_arrays_of_their_own(copied) -> None:  # type: ignore[no-untyped-def]
    lists = made()
    lists.name = "mine"
    other = copied(lists)
    other._check()
    other.good[0] = 0.0
    assert total(lists, 2) == 11.0 and total(other, 2) == 6.0 and (other.used, other.name) == (2, "mine")


def test_another_state_is_a_type_error() -> None:
    for wrong in (Rows(row=1), 3):
        with pytest.raises((TypeError, AttributeError)):
            total(wrong, 1)


@pytest.mark.parametrize("text", ["f8[a, b, c, d]", "f4", "f8[", "f8[]"])
def test_a_declaration_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(TypeError, match=r"Wrong\.x"):
        type("Wrong", (State,), {"x": field(text)})


def test_its_size_and_its_repr() -> None:
    lists = made()
    assert lists.nbytes == 8 * (8 + 3 + 18 + 8)
    assert "good: float64[8]" in repr(lists) and "used: 2" in repr(lists)
