"""eaa: instances of objects, without those that cannot matter any more.

**Problem.** The k objects with the best score where several rows make an object, as for `sums`, but with promises about
rows to come: each value lies in a known range, and an object has at most so many rows in each stream.

**Idea.** An object is as many *instances* as it has rows: the totals from each row on (pruned_instances.py). An
instance can only gain while it lives, and no more than the promises allow. If k other objects that expire later have
more by now than it can ever have, it is dominated. Its row is removed, unless an older instance of its object is not
dominated: that one needs the row for its own total.

**What is kept.** The instances that fewer than k other objects dominate, as the rows from the oldest of each object on:
linear in the window still, as the paper proves, because the interval between the present score and the upper bound does
not shrink with the window. Where a bound is learnt instead of promised, all rows stay, since it may be broken.

**Cost.** A row costs as with `sums`; now and then one pass over all rows computes the instances.

**Wrong choice when** objects may have many rows each, or nothing is promised: then no row is removed, and `sums` is
faster and needs no promise.

Haghani, Michel and Aberer (2009), sections 3.2 and 5. They change every instance of an object with each row, and keep
with each the set of ids that dominate it; here one pass, newest first, decides for all of them. They assume that an
object comes once in each stream. Here that is `appears = 'once'`, and never assumed without it: under "once per
window" an object may appear again in a stream where it was seen before, and to ignore that gives wrong answers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.algorithms.contract import Card
from skyband.algorithms.objects.pruned_instances import Instances
from skyband.algorithms.objects.sums import Sums


def expected(k: int, n: float) -> float:
    return float(n)


class EAA(Sums):
    """Pruned instances, one slot for each window."""

    card = Card(
        name="eaa",
        title="early aggregation: instances of objects, without the dominated ones",
        source="Haghani, Michel, Aberer 2009, section 3.2, with one pass instead of sets of ids",
        answers=frozenset({"grouped", "joined"}),
        exact=True,
        keeps="rows from each object's first instance that fewer than k others dominate; all if bounds are learnt",
        cost="a row: as sums; now and then a pass over all",
        wrong_when="objects may have many rows each, or nothing is promised about rows yet to come",
        expected=expected,
        options={},
        scores="bounded",
        window=True,
        fifo=True,
    )
    candidate_bytes = 140
    keeps_all = False

    @property
    def promised(self) -> bool:
        """Whether every bound on an object's rise is promised, none learnt."""
        return self.asked.rows is not None and None not in self.asked.most

    def objects(self, bar: float | None) -> Any:
        asked = self.asked
        return Instances(
            asked.aggregates, asked.width, asked.streams, asked.several, list(asked.most), asked.rows, asked.ever,
            self.promised and not self.retained, asked.plain, asked.sign,
        )  # fmt: skip

    def resize(self, slot: int, k: int) -> None:
        self._of(slot).resize(k)

    def size(self, slot: int) -> tuple[int, int]:
        """Return the number of instances, and the bytes of everything."""
        objects = self._of(slot)
        return len(objects.linked()), objects.bytes()

    def counters(self, slot: int) -> dict[str, int]:
        objects = self._of(slot)
        return {
            "rows": len(objects.rows),
            "objects": len(objects),
            "instances": len(objects.linked()),
            "instances removed": objects.dropped,
            "passes": objects.passes,
            "resets": objects.resets,
            "broken promises": objects.broken,
        }

    def notes(self) -> list[str]:
        found = []
        held = [objects for objects in self.slots if objects is not None]
        if not self.promised:
            found.append(
                "bounds are learnt, so removed rows are kept aside in case a bound is broken: promise "
                "range = … and appears = … to forget them"
            )
        elif self.retained:
            found.append("rows are retained for future watches, so removed rows are kept aside")
        if any(objects.negative >= objects.horizon and objects.negative.seq >= 0 for objects in held):
            found.append("a negative value is in the window: nothing can be removed until it has left")
        if any(objects.broken for objects in held):
            found.append(
                "an object came more often than was promised: answers since then may lack removed rows"
            )
        return found

    def _check(self) -> None:
        for objects in self.slots:
            if objects is not None:
                objects._check()
                if len(objects.rows):
                    assert np.isfinite(objects.most[objects.given]).all()
