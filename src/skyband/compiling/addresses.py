"""Arrays that a kernel finds by their addresses (`lent`, `shown`).

To hand over eighty of them from Python takes as long as to sift a thousand rows, and nearly always they are the same as
at the step before.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.compiling.jit import native


def _lent() -> Any:
    from numba.core import types
    from numba.extending import intrinsic

    @intrinsic(prefer_literal=True)
    def lent(typing: Any, words: Any, at: Any, dims: Any, kind: Any) -> Any:
        made = types.Array(kind.dtype, dims.literal_value, "C")

        def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            held = context.make_array(signature.args[0])(context, builder, arguments[0])
            first = builder.gep(held.data, [arguments[1]])
            read = [builder.load(builder.gep(first, [first_of(context, i)])) for i in range(1 + made.ndim)]
            return _array(context, builder, made, read[0], read[1:])

        def first_of(context: Any, i: int) -> Any:
            return context.get_constant(types.intp, i)

        return made(words, types.intp, dims, kind), write

    return lent


def _shown() -> Any:
    from numba.core import types
    from numba.extending import intrinsic

    @intrinsic
    def shown(typing: Any, address: Any, count: Any, kind: Any) -> Any:
        made = types.Array(kind.dtype, 1, "C", readonly=True)

        def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _array(context, builder, made, arguments[0], [arguments[1]])

        return made(types.intp, types.intp, kind), write

    return shown


def _array(context: Any, builder: Any, made: Any, address: Any, shape: list[Any]) -> Any:
    """An array of a type over memory that belongs to another object."""
    from numba.core import cgutils, types
    from numba.np.arrayobj import populate_array

    array = context.make_array(made)(context, builder)
    size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(made.dtype)))
    strides = [size]
    for extent in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], extent))
    populate_array(
        array,
        data=builder.inttoptr(address, array.data.type),
        shape=cgutils.pack_array(builder, shape),
        strides=cgutils.pack_array(builder, strides),
        itemsize=size,
        meminfo=None,
    )
    return array._getvalue()


@native(_lent)
def lent(words: npt.NDArray[Any], at: int, dims: int, kind: Any) -> Any:
    """An array whose address and extents are words[at], words[at + 1], …: who made the words holds it."""
    shape = tuple(int(extent) for extent in words[at + 1 : at + 1 + dims])
    return _over(int(words[at]), shape, kind)


@native(_shown)
def shown(address: int, count: int, kind: Any) -> Any:
    """So many numbers at an address, not to be written to."""
    array = _over(int(address), (int(count),), kind)
    array.flags.writeable = False
    return array


def _over(address: int, shape: tuple[int, ...], kind: Any) -> npt.NDArray[Any]:
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    if size == 0:
        return np.empty(shape, dtype=kind)
    return np.frombuffer((ctypes.c_byte * size).from_address(address), dtype=kind).reshape(shape)


WORDS = 4  # of an array: its address, and its extents


class Words:
    """Addresses and extents of arrays, for `lent`; it holds the arrays."""

    def __init__(self, kinds: tuple[tuple[int, str], ...]) -> None:
        self.kinds = kinds
        self.arrays: tuple[npt.NDArray[Any], ...] = ()
        self.words = np.zeros(WORDS * len(kinds), dtype=np.int64)

    def __deepcopy__(self, memo: Any) -> Words:
        raise TypeError("Words are of the arrays that they were made for: a copy would have the same ones.")

    def note(self, arrays: tuple[npt.NDArray[Any], ...]) -> None:
        """The arrays as they are now, in the order of their kinds."""
        before = self.arrays or (None,) * len(arrays)
        for i, (array, old, (dims, kind)) in enumerate(zip(arrays, before, self.kinds, strict=True)):
            if array is old:
                continue
            # a kernel takes them for what the kinds say
            assert array.ndim == dims and array.dtype == kind and array.flags.c_contiguous, (i, array.dtype)
            self.words[WORDS * i] = array.__array_interface__["data"][0]  # .ctypes.data takes twice as long
            self.words[WORDS * i + 1 : WORDS * i + 1 + dims] = array.shape
        self.arrays = arrays
