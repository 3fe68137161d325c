"""What an algorithm really holds: the bytes of every array that can be reached from it.

The sizes that algorithms report are those of their rows and lists. Room for the next step, spare places in lists and
counters of each query are memory, too. Here everything counts but Python's own objects.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def held(thing: Any) -> int:
    """Return the bytes of all arrays that `thing` refers to, each piece of memory once."""
    found: dict[int, int] = {}
    seen: set[int] = set()
    todo: list[Any] = [thing]
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray):
            whole = _whole(one)
            found[whole.__array_interface__["data"][0]] = whole.nbytes
        else:
            todo.extend(_below(one))
    return sum(found.values())


def _whole(array: Any) -> Any:
    """Return the array that a view is a part of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _below(one: Any) -> Iterable[Any]:
    if isinstance(one, dict):
        return one.values()
    if isinstance(one, list | tuple | set | frozenset):
        return one
    if isinstance(one, type) or not type(one).__module__.startswith("skyband"):
        return ()
    slots = (
        getattr(one, name, None) for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())
    )
    return [*slots, *getattr(one, "__dict__", {}).values()]
