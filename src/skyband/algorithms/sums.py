"""sums: exact totals of every object in the window.

**Problem.** The k objects with the best score, where an object is told by several rows: bytes by client, flows seen by
several routers. Scores rise when rows come and fall when they leave; a row that is of no account today may decide
tomorrow, so rows can't be pruned by what else is there, unless somebody promises bounds on what is yet to come.

**Idea.** Keep every row of the window, and for each object its running totals, exactly: sums that hold all bits
(structures/totals.py), so that nothing drifts however long the stream runs. Of all objects, only those above a bar are
looked at for an answer (structures/leaders.py); a step looks at the objects that its rows touched.

**What is kept.** The window's rows, 36 bytes and 8 for each argument, and about 100 bytes for each object.

**Cost.** A few memory accesses for a row that comes and for one that leaves, whatever the question; one pass over all
scores when the objects above the bar run out, which is seldom.

**Wrong choice when** the question is about single rows: then nearly all of them need not be kept at all (`ra`).

The fourth paper (Haghani, Michel, Aberer 2009) keeps less where bounds are known, and its baseline does what is done
here with sorted lists. Measured, plain totals are faster than either, and they need no promises.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from skyband.algorithms.base import Card
from skyband.structures.objects import Objects
from skyband.structures.totals import Aggregate


def expected(k: int, n: float) -> float:
    return float(n)


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

    def __init__(
        self,
        options: Mapping[str, float],
        aggregates: tuple[Aggregate, ...],
        width: int,
        several: bool = False,
    ) -> None:
        self.aggregates, self.width, self.several = aggregates, width, several
        self.slots: list[Objects | None] = []

    def add(self, bar: float | None) -> int:
        """A slot for one more window; with a bar all objects beyond it are answers."""
        slot = next((i for i, objects in enumerate(self.slots) if objects is None), len(self.slots))
        self.put(slot, bar)
        return slot

    def put(self, slot: int, bar: float | None) -> None:
        self.slots += [None] * (slot + 1 - len(self.slots))
        self.slots[slot] = Objects(self.aggregates, self.width, self.several, bar)

    def remove(self, slot: int) -> None:
        self.slots[slot] = None

    def _of(self, slot: int) -> Objects:
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
