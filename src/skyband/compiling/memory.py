"""Arrays and the memory that they lie in."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Shape = tuple[Any, tuple[int, ...]]  # of an array: its kind, of eight bytes or four each, and its extents


def words_of(shapes: tuple[Shape, ...]) -> int:
    """So many numbers of eight bytes have room for these arrays."""
    return sum(-(-int(np.prod(extents)) * np.dtype(kind).itemsize // 8) for kind, extents in shapes)


def cut(memory: npt.NDArray[np.float64], shapes: tuple[Shape, ...]) -> list[npt.NDArray[Any]]:
    """Arrays one after the other in the same memory."""
    made, at = [], 0
    for kind, extents in shapes:
        end = at + words_of(((kind, extents),))
        made.append(memory[at:end].view(kind)[: int(np.prod(extents))].reshape(extents))
        at = end
    return made


def whole_bytes(*arrays: npt.NDArray[Any]) -> int:
    """What arrays take, with what lies beside them in the memory that they are a part of; nothing twice."""
    found: dict[int, int] = {}
    for array in arrays:
        while isinstance(array.base, np.ndarray):
            array = array.base
        found[array.ctypes.data] = array.nbytes
    return sum(found.values())


def arrays_of(*holders: Any) -> list[npt.NDArray[Any]]:
    """The arrays that objects have, those in their tuples and lists included."""
    found = []
    for holder in holders:
        for value in vars(holder).values():
            several = value if isinstance(value, list | tuple) else (value,)
            found += [each for each in several if isinstance(each, np.ndarray)]
    return found
