"""Instances: the objects of one window, without the rows that cannot matter any more.

Every row of an object begins an *instance*, the totals from that row on (suffix_totals.py). An instance has a present
score, which can only rise while it lives, and an upper bound, its score if every row to come is as great as allowed,
which can only fall. An instance is *dominated* if k other objects that live longer have present scores above its upper
bound: it is in no answer. Haghani, Michel and Aberer, who define this, keep a set of ids with each instance. Here one
pass from the newest row to the oldest decides for all: it keeps the k best present scores of different objects among
the newer rows, and the least of them is the threshold. Dominance lasts, so the pass runs only now and then: a late
pass only finds more.

Instances exist only during a pass. Between passes an object has only the total of all its stored rows, which is that
of its oldest instance, kept as in window_objects.py: a row changes one record when it enters and when it leaves,
however many instances its object has. A pass puts dominated instances *aside*. Their rows are removed as soon as no
older instance of the object needs them for its own total. So the stored rows of an object are those from its oldest
instance on, and their total is exact.

How far an object may rise is promised or learnt (query/assumptions.py). Where everything is promised, rows are removed
for good. Where something is learnt all rows stay, and a value or count that breaks a learnt bound cancels every
dominance until the next pass. While a negative value is in the window nothing is dominated: when it arrived it may have
lowered scores that dominated others.

Late rows: an instance that is older than a removed row of its object lacks that row's value, so its score is too low.
This is harmless: the removed instance's upper bound included the late row, so what dominates the removed instance
dominates this one too.

Cost: a row as in window_objects.py. A pass over all rows when the rows since the last pass are half as many as the
instances, and up to four times as seldom where the last pass found few.
Memory: as window_objects.py, and a byte for each row; for each object 8 bytes where it comes once for ever, else 4 for
each stream.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from skyband.algorithms.kernels.row_slots import Places
from skyband.algorithms.objects.aggregates import Aggregate
from skyband.algorithms.objects.suffix_totals import (
    TALLY,
    bounds_of_sums,
    came,
    columns_of,
    dominated,
    least_of,
    most_of,
    of_no_use,
    suffixes,
    went,
)
from skyband.algorithms.objects.window_objects import Objects, Scores
from skyband.core.types import LOWEST, Floats, Ints, Recency

PATIENCE = 1024  # rows until the next pass, beside half the number of instances
HEADROOM = 1.125  # a learnt greatest value is multiplied by this
LITTLE, MOST_STRETCH = 16, 4  # a pass that removes less than a sixteenth doubles the distance


class Instances(Objects):
    """The instances of one window of one query, for its best k."""

    def __init__(
        self, aggregates: tuple[Aggregate, ...], width: int, streams: int, several: bool, most: list[float | None],
        rows: int | None, ever: bool, final: bool, plain: tuple[int, ...] = (), sign: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__(aggregates, width, several, None, plain, sign)
        self.streams, self.ever, self.final = streams, ever, final
        self.plan = np.array(aggregates, dtype=np.int64).reshape(-1, 3)
        self.columns = columns_of(self.plan, self.totals.plain, streams)
        self.given = np.array([value is not None for value in most], dtype=bool)
        self.learns = not self.given.all()
        self.most = np.array([0.0 if value is None else value for value in most])
        self.counted = rows is not None  # promised
        self.crowd = np.full(streams, rows or 1, dtype=np.int64)
        self.k = 1
        self.patience = PATIENCE
        self.negative = LOWEST  # the latest row with a negative value
        self.fresh = 0  # rows since the last pass
        self.retained = 0  # instances after the last pass
        self.stretch = 1  # factor on the distance to the next pass, where the last one found few
        self.passes = self.dropped = self.resets = self.broken = 0
        self.aside = np.zeros(0, dtype=bool)  # by place: a dominated instance
        # by object: where it comes once for ever, the streams that it was seen in, as bits; else its rows in each
        self.seen, self.tally = np.zeros(0, dtype=np.int64), np.zeros((0, streams), dtype=np.int32)
        self.sees = ever
        self.noted = np.zeros(2, dtype=np.int64)

    # -- a step --------------------------------------------------------------------------------------------

    def _came(self, places: Places) -> None:
        self._room()
        self.fresh += len(places)
        self.aside[places] = False
        came(places, self.rows.cell, self.totals.kind, self.seen, self.tally, self.noted)
        learnt = self._learn(places) if self.learns else False
        if (self._count() or learnt) and self.retained_aside():
            self._reset()

    def _went(self, places: Places) -> None:
        if len(self.tally):
            went(places, self.rows.cell, self.totals.kind, self.tally)

    def _room(self) -> None:
        """Grow the arrays to the number of places and objects that rows and totals have."""
        if len(self.aside) < len(self.rows.order):
            self.aside = _longer(self.aside, len(self.rows.order))
        objects = len(self.totals)
        if self.sees and len(self.seen) < objects:
            self.seen = _longer(self.seen, objects)
        if not self.ever and len(self.tally) < objects:
            self.tally = _longer(self.tally, objects)

    def _learn(self, places: Places) -> bool:
        """Raise learnt bounds to the new values. Return whether one of them was broken."""
        broken = False
        for a, (_, column, own) in enumerate(self.plan.tolist()):
            if self.given[a]:
                continue
            own_places = places[self.totals.kind[places] == own] if self.several else places
            values = self.rows.x[own_places, column]
            if len(own_places) and float(values.max()) > self.most[a]:
                self.most[a] = HEADROOM * float(values.max())
                broken = True
            below = own_places[values < 0.0]
            if len(below):
                last = int(below[-1])
                self.negative = max(
                    self.negative, Recency(int(self.rows.time[last]), int(self.rows.seq[last]))
                )
                broken = True
        return broken

    def _count(self) -> bool:
        """Compare how often an object came in a stream with the bounds. Return whether a learnt bound was broken."""
        most, again = self.noted.tolist()
        self.noted[:] = 0
        if self.ever:
            self.broken += again
        elif most > self.crowd.max():
            if not self.counted:
                self.crowd[:] = most
                return True
            self.broken += 1
        return False

    def retained_aside(self) -> bool:
        """Whether rows are kept aside that a broken bound may bring back."""
        return not self.final and self.passes > 0

    def _reset(self) -> None:
        """Put no instance aside until the next pass."""
        self.resets += 1
        self.passes = 0
        self.aside[:] = False

    def delete(self, time: Ints, seq: Ints) -> None:
        raise NotImplementedError("rows of an update stream leave in any order")

    def settle(self, scores: Scores) -> None:
        """Compute the scores of touched objects; now and then run a pass."""
        super().settle(scores)
        if self.fresh >= self.patience + self.stretch * self.retained // 2:
            self.collect(scores)
            super().settle(scores)

    def _forget(self, dead: Ints) -> None:
        if self.sees:
            self.seen[dead] = 0
        super()._forget(dead)

    # -- rows that may matter ------------------------------------------------------------------------------

    def linked(self) -> Places:
        """Return the rows that begin an instance which is not dominated, oldest first."""
        living = self.rows.living()
        found: Places = living[~self.aside[living]]
        return found

    def bounds(self, places: Places, scores: Scores) -> tuple[Floats, Floats]:
        """Return the present scores and the upper bounds of the instances of all rows, oldest first."""
        plain = self.totals.plain
        if not len(plain) or self.sign < 0 or not np.isfinite(self.most[plain]).all():
            return self._bounds(places, scores)
        most = np.bincount(self.plan[plain, 2], self.most[plain], self.streams)
        total = np.zeros((len(self.totals), 1 if self.ever else (TALLY + self.streams + 1) // 2))
        least, best = np.empty(len(places)), np.empty(len(places))
        bounds_of_sums(
            places, self.rows.cell, self.rows.x, self.totals.kind, self.columns, most, self.crowd, self.seen,
            total, total.view(np.int32), least, best,
        )  # fmt: skip
        return least, best

    def _bounds(self, places: Places, scores: Scores) -> tuple[Floats, Floats]:
        """As `bounds`, for scores that are not plain."""
        codes, n, objects = self.rows.cell[places].astype(np.int64), len(places), len(self.totals)
        totals, there = np.empty((len(self.plan), n)), np.empty((n, self.streams), dtype=np.int32)
        suffixes(
            places, self.rows.cell, self.rows.x, self.totals.kind, self.plan,
            np.zeros((objects, len(self.plan))), np.zeros((objects, self.streams), dtype=np.int32), totals, there,
        )  # fmt: skip
        now = scores(self, codes, least_of(totals, there, self.plan), there.sum(axis=1, dtype=np.int64))
        return now, scores(self, codes, *self._most(totals, there, codes))

    def _most(self, totals: Floats, there: Any, codes: Ints) -> tuple[Floats, Any]:
        """Return upper bounds on totals of instances, and on their counts of rows."""
        out, counts = np.empty_like(totals), np.empty(len(codes), dtype=np.int64)
        most_of(totals, there, codes, self.plan, self.seen, self.most, self.crowd, self.ever, out, counts)
        return out, counts

    def collect(self, scores: Scores) -> None:
        """Remove the instances that k other objects beat as long as they live. Scores are settled before."""
        self.fresh = 0
        places = self.rows.living()
        self.retained = len(places) - int(np.count_nonzero(self.aside[places]))
        if self.negative >= self.horizon or not len(places):
            return
        least, best = self.bounds(places, scores)
        room = np.zeros(self.k), np.zeros(self.k, dtype=np.int64)
        found = int(dominated(places, self.rows.cell, least, best, self.k, *room, self.aside))
        self.passes += 1
        self.dropped += found
        self.stretch = min(2 * self.stretch, MOST_STRETCH) if LITTLE * found < self.retained else 1
        self.retained -= found
        if self.final and self.retained < len(places):
            out = np.empty(len(places) - self.retained + 1, dtype=np.int32)
            held = np.zeros(len(self.totals), dtype=bool)
            gone = out[: of_no_use(places, self.rows.cell, self.aside, held, out)]
            self._leave(gone)
            self.rows.remove(gone)
            if self.rows.dead:
                self.rows._squeeze()

    def resize(self, k: int) -> None:
        """Set the number of ranks; where it grows, instances kept aside come back."""
        if k > self.k and self.retained_aside():
            self._reset()
        self.k = k

    def within(self, horizon: Recency, scores: Scores) -> Instances:
        """Return the instances of a shorter window, made from this one's rows."""
        other = copy.deepcopy(self)
        other.totals.share()
        other._share()
        other.expire(horizon)
        other.settle(scores)
        return other

    # -- keeping -------------------------------------------------------------------------------------------

    def bytes(self) -> int:
        return super().bytes() + self.aside.nbytes + self.seen.nbytes + self.tally.nbytes

    def dump(self) -> dict[str, Any]:
        """Return rows with their keys, which of them are aside, and what is known of their objects."""
        places = self.rows.living()
        blob = {
            **super().dump(),
            "negative": list(self.negative),
            "most": self.most,
            "crowd": self.crowd,
            "k": self.k,
            "aside": self.aside[places],
        }
        if self.sees:
            blob["seen"] = self.seen[self.rows.cell[places]]
        did = (self.fresh, self.retained, self.passes, self.dropped, self.resets, self.broken)
        return {**blob, "did": list(did), "stretch": self.stretch}

    def load(self, blob: dict[str, Any], scores: Scores) -> None:
        self._fill(blob)
        places = self.rows.living()
        self.aside[places] = blob["aside"]
        if self.sees:
            self.seen[self.rows.cell[places]] = blob["seen"]
        self.negative, self.k = Recency(*blob["negative"]), blob["k"]
        self.most, self.crowd = blob["most"].copy(), blob["crowd"].copy()
        self.fresh, self.retained, self.passes, self.dropped, self.resets, self.broken = blob["did"]
        self.stretch = blob["stretch"]
        self.settle(scores)

    def _check(self) -> None:
        super()._check()
        living, codes = self.rows.living(), self.rows.cell[self.rows.living()]
        kind = self.totals.kind[living] if self.several else np.zeros(len(living), dtype=np.int64)
        # where rows are counted, each object's counts by stream are those of its stored rows
        for stream in range(self.streams if len(self.tally) else 0):
            part = codes[kind == stream]
            assert np.array_equal(np.bincount(part, minlength=len(self.tally)), self.tally[:, stream])
        # an object is marked as seen in each stream that it has a row of, and only objects with rows are marked
        if self.sees:
            assert bool((self.seen[codes] >> kind.astype(np.int64) & 1).all())
            assert not np.delete(self.seen, codes).any()


def _longer(array: Any, length: int) -> Any:
    new = np.zeros((length, *array.shape[1:]), dtype=array.dtype)
    new[: len(array)] = array
    return new
