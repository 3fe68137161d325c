"""sums: exact totals of every object in the window.

**Problem.** The k objects with the best score, where an object is told by several rows: bytes by client, flows seen by
several routers. Scores rise when rows come and fall when they leave; a row that is of no account today may decide
tomorrow, so rows can't be pruned by what else is there, unless somebody promises bounds on what is yet to come.

**Idea.** Keep every row of the window, and for each object its running totals, exactly: sums that hold all bits
(aggregates.py), so that nothing drifts however long the stream runs. Of all objects, only those above a bar are
looked at for an answer (top_objects.py); a step looks at the objects that its rows touched.

**What is kept.** The window's rows, 36 bytes and 8 for each argument, and about 100 bytes for each object.

**Cost.** A few memory accesses for a row that comes and for one that leaves, whatever the question; one pass over all
scores when the objects above the bar run out, which is seldom.

**Wrong choice when** the question is about single rows: then nearly all of them need not be kept at all (`ra`).

The fourth paper (Haghani, Michel, Aberer 2009) keeps less where bounds are known, and its baseline does what is done
here with sorted lists. Measured, plain totals are faster than either, and they need no promises.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skyband.algorithms.base import Card
from skyband.algorithms.objects.aggregates import Aggregate
from skyband.algorithms.objects.window_objects import Objects


def expected(k: int, n: float) -> float:
    return float(n)


@dataclass(frozen=True)
class Asked:
    """What a question about objects needs of an algorithm, and what it promises (query/assumptions.py)."""

    aggregates: tuple[Aggregate, ...]
    width: int  # columns of rows
    several: bool  # streams
    streams: int = 1
    most: tuple[float | None, ...] = ()  # of each aggregate the greatest value that is promised
    rows: int | None = None  # of an object in a stream in any window
    ever: bool = False  # that one for ever
    plain: tuple[
        int, ...
    ] = ()  # the aggregates that make the score by being added up, where nothing else does
    sign: float = 1.0  # -1: the lowest first
    everywhere: bool = False  # the score is monotone in every total, also below zero
    counting: bool = False  # it depends on the number of rows
    options: Mapping[str, Any] = field(default_factory=dict)  # as they are in the query


class Sums:
    """Objects in slots, one for each window."""

    card = Card(
        name="sums",
        title="exact running totals of all objects",
        source="the baseline of Haghani, Michel, Aberer 2009, with a hash table instead of sorted lists",
        answers=frozenset({"grouped", "joined"}),
        exact=True,
        keeps="the window's rows, and the totals of every object in it",
        cost="a row: a few memory accesses when it comes and when it leaves",
        wrong_when="the question is about single rows",
        expected=expected,
        options={},
        window=True,
        fifo=False,
    )
    candidate_bytes = 100

    def __init__(self, options: Mapping[str, float], asked: Asked) -> None:
        self.asked = asked
        self.retained = False  # rows are retained for watches yet to come
        self.slots: list[Any] = []

    def add(self, bar: float | None) -> int:
        """A slot for one more window; with a bar all objects beyond it are answers."""
        slot = next((i for i, objects in enumerate(self.slots) if objects is None), len(self.slots))
        self.put(slot, bar)
        return slot

    def put(self, slot: int, bar: float | None) -> None:
        self.slots += [None] * (slot + 1 - len(self.slots))
        self.slots[slot] = self.objects(bar)

    def objects(self, bar: float | None) -> Any:
        """The objects of one more window."""
        asked = self.asked
        return Objects(asked.aggregates, asked.width, asked.several, bar, asked.plain, asked.sign)

    def remove(self, slot: int) -> None:
        self.slots[slot] = None

    def resize(self, slot: int, k: int) -> None:
        """So many ranks are asked of a slot."""

    def notes(self) -> list[str]:
        return ["totals rise and fall, so no row makes another superfluous: all rows of the window are kept"]

    def _of(self, slot: int) -> Any:
        objects = self.slots[slot]
        assert objects is not None
        return objects

    def expected(self, k: int, n: float) -> float:
        return self.card.expected(k, n)

    def size(self, slot: int) -> tuple[int, int]:
        """Objects, and bytes of them and their rows."""
        objects = self._of(slot)
        return len(objects), objects.bytes()

    def counters(self, slot: int) -> dict[str, int]:
        objects = self._of(slot)
        return {
            "rows": len(objects.rows),
            "objects": len(objects),
            "above the bar": len(objects.leaders.codes),
            "bars set anew": objects.leaders.rebuilds,
            "wide sums": int(len(objects.totals.wide) - objects.totals.idle[0]),
        }

    def _check(self) -> None:
        for objects in self.slots:
            if objects is not None:
                objects._check()
                # as many rows as there are in the totals
                assert int(np.sum(objects.totals.record[:, 0])) == len(objects.rows)
