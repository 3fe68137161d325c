"""sla: sorted lists of objects' totals, and the threshold algorithm.

**Problem.** As for `sums`: the k objects with the best score where several rows make an object.

**Idea.** Keep every row of the window and every object's totals, and for each total a list of all objects sorted by it.
A view of the best objects is kept up to date. When it runs short the lists are walked from their tops, side by side,
until no object that has not been met can be better (threshold_lists.py).

**What is kept.** What `sums` keeps, and 16 bytes an object for each total.

**Cost.** A step moves the entries of the objects that it touched, in every list; a refill walks as deep as it must.

**Wrong choice when** speed matters: it is the fourth paper's baseline, kept as the reference for comparisons.

Haghani, Michel and Aberer (2009), section 3.1. Their lists contain the value of each row, which ranks objects
correctly only if an object comes once in a stream; here an entry is an object's total.
"""

from __future__ import annotations

from typing import Any

from skyband.algorithms.contract import Card
from skyband.algorithms.objects.sums import Sums, expected
from skyband.algorithms.objects.threshold_lists import RankedObjects


class SLA(Sums):
    """Objects with sorted lists, one slot for each window."""

    card = Card(
        name="sla",
        title="sorted lists of totals and the threshold algorithm",
        source="Haghani, Michel, Aberer 2009, section 3.1",
        answers=frozenset({"grouped", "joined"}),
        exact=True,
        keeps="the window's rows, the totals of every object in it, and a sorted list of each total",
        cost="a step: one pass over each list; a refill: as far down the lists as it must",
        wrong_when="speed matters: it is the reference",
        expected=expected,
        options={},
        scores="monotone",
        window=True,
        fifo=False,
    )
    candidate_bytes = 160

    def objects(self, bar: float | None) -> Any:
        asked = self.asked
        return RankedObjects(asked.aggregates, asked.width, asked.several, asked.counting, asked.everywhere)

    def counters(self, slot: int) -> dict[str, int]:
        objects = self._of(slot)
        return {**super().counters(slot), "entries walked": objects.leaders.looked}
