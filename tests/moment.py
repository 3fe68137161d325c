"""A monitor at one moment, to go back to as often as one likes.

`Moment(monitor)` copies whatever a step may change: it follows the monitor's attributes down to arrays, lists,
dicts and sets, knows nothing of what they mean, and so holds for algorithms yet to be written. `restore` puts the
contents back into the very same objects, so that whoever refers to them still does. What a step doesn't change is
left alone: watches and their names, queries, schemas, compiled code. Anything of a kind that isn't listed here is an
error, lest it be shared between moments unseen.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Collection
from functools import cache
from typing import Any

import numpy as np

from skyband.compiling.jit import Kernel
from skyband.engine.monitor import Monitor
from skyband.engine.report import Report
from skyband.engine.watch import Watch

FIXED = (
    int, float, str, bytes, frozenset, type(None), type, enum.Enum, np.generic, np.dtype, Kernel, Watch, Report
)  # fmt: skip
FIXED_MODULES = ("skyband.query.", "pyarrow.")


class Moment:
    """All that a monitor's steps may change, as it was."""

    def __init__(self, monitor: Monitor) -> None:
        self._seen: set[int] = set()
        self._arrays: list[tuple[Any, Any]] = []  # each object, and what was in it
        self._lists: list[tuple[Any, Any]] = []  # deques too
        self._others: list[tuple[Any, Any]] = []  # dicts and sets
        self._keep(monitor)

    def restore(self) -> None:
        for array, was in self._arrays:
            np.copyto(array, was)
        for values, was in self._lists:
            values.clear()
            values.extend(was)
        for other, was in self._others:
            other.clear()
            other.update(was)

    def _keep(self, x: Any) -> None:
        if _fixed(type(x)) or id(x) in self._seen:
            return
        if isinstance(x, tuple):
            return self._keep_all(x)  # it holds the same for ever, but what it holds may change
        self._seen.add(id(x))
        if isinstance(x, np.ndarray):
            assert not x.dtype.hasobject
            if x.flags.writeable:
                self._arrays.append((x, x.copy()))
        elif isinstance(x, list | deque | dict) and _of_watches(x):
            pass  # none comes or goes in a step
        elif isinstance(x, list | deque):
            self._lists.append((x, list(x)))
            self._keep_all(x)
        elif isinstance(x, dict):
            self._others.append((x, dict(x)))
            self._keep_all(x.values())
        elif isinstance(x, set):  # what it holds can be hashed, and doesn't change
            self._others.append((x, set(x)))
        elif type(x).__module__.startswith("skyband.") and hasattr(x, "__dict__"):
            self._keep(x.__dict__)
        elif not callable(x):
            raise TypeError(f"tests/moment.py must learn how to keep a {type(x)}.")

    def _keep_all(self, values: Collection[Any]) -> None:
        """Most are numbers or watches, by the thousand: a look at their types passes over those."""
        if not all(map(_fixed, set(map(type, values)))):
            for value in values:
                self._keep(value)


def _of_watches(values: Collection[Any]) -> bool:
    """Whoever holds a watch holds watches only."""
    return isinstance(next(iter(values.values() if isinstance(values, dict) else values), None), Watch)


@cache
def _fixed(kind: type) -> bool:
    """Whether no step changes an object of this type."""
    return issubclass(kind, FIXED) or kind.__module__.startswith(FIXED_MODULES)
