"""sums: exact totals of every object in the window.

**Problem.** The k objects with the best score, where several rows make an object: bytes by client, flows seen by
several routers. Scores rise when rows enter and fall when they leave. A row of little weight today may decide
tomorrow, so other rows never make it superfluous, unless bounds on the rows to come are promised.

**Idea.** Keep every row of the window, and for each object its running totals, exactly: sums that hold all bits
(aggregates.py), so that nothing drifts however long the stream runs. An answer reads only the objects above a
threshold (top_objects.py); a step computes scores only for the objects that its rows changed.

**What is kept.** The window's rows, 24 bytes and 8 for each argument, and about 50 bytes for each object.

**Cost.** A few memory accesses for a row that enters and for one that leaves, whatever the query; one pass over all
scores when fewer than k objects are above the threshold, which is seldom.

**Wrong choice when** the query is about single rows: then nearly all of them need not be kept at all (`ra`).

The fourth paper (Haghani, Michel, Aberer 2009) keeps less where bounds are known, and its baseline computes the same
with sorted lists. Measured, plain totals are faster than either, and they need no promises.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skyband.algorithms.contract import Card
from skyband.algorithms.objects.aggregates import Aggregate
from skyband.algorithms.objects.window_objects import Objects


def expected(k: int, n: float) -> float:
    return float(n)


@dataclass(frozen=True)
class Asked:
    """What a grouped or joined query needs of an algorithm, and what it promises (query/assumptions.py)."""

    aggregates: tuple[Aggregate, ...]
    width: int  # columns of a row
    several: bool  # whether there are several streams
    streams: int = 1
    most: tuple[float | None, ...] = ()  # for each aggregate the greatest value that is promised
    rows: int | None = None  # promised: the most rows of an object in a stream in any window
    ever: bool = False  # whether `rows` is 1 and holds for ever
    plain: tuple[int, ...] = ()  # the aggregates whose sum is the score, where it is plain
    sign: float = 1.0  # -1: lowest first
    everywhere: bool = False  # whether the score is monotone in every total, also below zero
    counting: bool = False  # whether the score depends on the number of rows
    options: Mapping[str, Any] = field(default_factory=dict)  # as they are in the query


class Sums:
    """Objects with exact totals, one slot for each window."""

    card = Card(
        name="sums",
        title="exact running totals of all objects",
        source="the baseline of Haghani, Michel, Aberer 2009, with a hash table instead of sorted lists",
        answers=frozenset({"grouped", "joined"}),
        exact=True,
        keeps="the window's rows, and the totals of every object in it",
        cost="a row: a few memory accesses when it comes and when it leaves",
        wrong_when="the query is about single rows",
        expected=expected,
        options={},
        window=True,
        fifo=False,
    )
    candidate_bytes = 80
    keeps_all = True  # every object of the window: any k is answered at once

    def __init__(self, options: Mapping[str, float], asked: Asked) -> None:
        self.asked = asked
        self.retained = False  # whether rows are retained for future watches
        self.slots: list[Any] = []

    def add(self, bar: float | None) -> int:
        """Open a slot for one more window. With a bar all objects beyond it are answers."""
        slot = next((i for i, objects in enumerate(self.slots) if objects is None), len(self.slots))
        self.put(slot, bar)
        return slot

    def put(self, slot: int, bar: float | None) -> None:
        self.slots += [None] * (slot + 1 - len(self.slots))
        self.slots[slot] = self.objects(bar)

    def objects(self, bar: float | None) -> Any:
        """Return the state of one more window."""
        asked = self.asked
        return Objects(asked.aggregates, asked.width, asked.several, bar, asked.plain, asked.sign)

    def remove(self, slot: int) -> None:
        self.slots[slot] = None

    def resize(self, slot: int, k: int) -> None:
        """Set the number of ranks of a slot."""

    def notes(self) -> list[str]:
        return ["totals rise and fall, so no row makes another superfluous: all rows of the window are kept"]

    def _of(self, slot: int) -> Any:
        objects = self.slots[slot]
        assert objects is not None
        return objects

    def expected(self, k: int, n: float) -> float:
        return self.card.expected(k, n)

    def size(self, slot: int) -> tuple[int, int]:
        """Return the number of objects, and the bytes of them and their rows."""
        objects = self._of(slot)
        return len(objects), objects.bytes()

    def counters(self, slot: int) -> dict[str, int]:
        objects = self._of(slot)
        return {
            "rows": len(objects.rows),
            "objects": len(objects),
            "above the bar": len(objects.leaders.codes),
            "thresholds reset": objects.leaders.rebuilds,
            "wide sums": objects.totals.wide_sums(),
        }

    def _check(self) -> None:
        for objects in self.slots:
            if objects is not None:
                objects._check()
                # the totals count the stored rows
                assert int(np.sum(objects.totals.counts)) == len(objects.rows)
