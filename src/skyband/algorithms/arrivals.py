"""The rows of one step, as a family receives them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from skyband.compiling.jit import kernel
from skyband.compiling.state import State, field
from skyband.core.types import Floats, Ints


class Step(State):
    """The recencies of rows, newest first, and marks for those that a list takes."""

    time: Ints = field("i8[row]")
    seq: Ints = field("i8[row]")
    place: Ints = field("i8[placed]")  # position of each among the step's rows; none: all are marked already
    mark: npt.NDArray[np.uint8] = field("u1[position]")

    def hold(self, time: Ints, seq: Ints, place: Ints, mark: npt.NDArray[np.uint8]) -> Self:
        """Let it be these arrays."""
        vars(self).update(time=time, seq=seq, place=place, mark=mark)
        _hold(self, time, seq, place, mark)
        return self


@kernel
def _hold(step: Step, time: Ints, seq: Ints, place: Ints, mark: npt.NDArray[np.uint8]) -> None:
    step.time, step.seq, step.place, step.mark = time, seq, place, mark


@dataclass
class Arrivals:
    """The rows of one step that a family may use, newest first."""

    time: Ints
    seq: Ints
    place: Ints  # position of each row among the step's rows
    mark: npt.NDArray[np.uint8]  # by that position: set where a list took the row
    good: Callable[[int], Floats]  # the scores of a slot's query, more is better
    constants: Floats  # one row a slot
    sign: float
    rendered: str | None  # the score as generated code, where that rounds like numpy
    columns: Callable[[], tuple[Floats, ...]]
    # the same, oldest first, if they are stored in that order, else None: for algorithms that keep rows in that order
    arrived: Callable[[], tuple[Floats, ...] | None] = lambda: None
    # of a single row: a slot's score as a number, more is better
    value: Callable[[int], float] | None = None

    def oldest_first(self) -> tuple[Floats, ...]:
        """The columns in order of recency, for reading."""
        return self.arrived() or tuple(column[::-1] for column in self.columns())

    def __len__(self) -> int:
        return len(self.time)
