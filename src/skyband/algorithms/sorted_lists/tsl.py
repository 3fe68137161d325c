"""TSL: threshold sorted lists (Mouratidis, Bakiras and Papadias 2006, section 3.2).

**Problem.** Keep the top k of a window for queries whose scores grow or fall with each attribute, from two known
parts: an algorithm that computes a top k, and a rule that maintains it.

**Idea.** The window's rows are sorted by each attribute. The threshold algorithm (TA; Fagin, Lotem and Naor) reads
these lists from their good ends. A row that it has not met cannot have a better score than a row with the values read
last in all lists; once enough rows met are better than that, it stops. Completing a top k that lost a row is
expensive, so a query keeps a *view* of up to k_max > k rows (Yi et al.): rows leave it until fewer than k are left,
and only then TA fills it again.

**What is kept.** The rows, an entry for each row and attribute in sorted lists, and the views. A view is the exact
top k' of the window, for some k' between k and k_max. Hence a new row may enter only if it is better than the
view's last: to insert it because there is room would give it a rank that was never verified. A view that holds every
row inside (`whole`) takes all.

**Cost.** Each row is scored for each query, and inserted into d lists; leaving costs nothing, see lists.py. A
refill reads about d N^(1-1/d) k_max^(1/d) entries. Lists are read in rounds that grow by half, not row by row: a
round's rows are scored together.

**Wrong choice** nearly always: it is the baseline that `tma` and `sma` are measured against. Scores that aren't
monotone over the values seen so far are answered by scoring all rows.

Errata followed: the view's rule as above; TA continues while the k_max-th is no better than the threshold, because
among equals the newest is first and may not have been met. k_max is the paper's own for its k, in between by
interpolation, beyond k + 2 sqrt(k). Limits on columns (a box) bound each walk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from skyband.algorithms.contract import Card, Workload
from skyband.algorithms.kernels.row_slots import Places, Rows
from skyband.algorithms.sorted_lists.lists import SortedLists, read, start
from skyband.algorithms.sorted_lists.views import Best, Views, compiled, leave, meet, take
from skyband.algorithms.window_base import WindowAlgorithm
from skyband.core.order import first_inside
from skyband.core.types import Floats, Ints, Recency
from skyband.query.expression.score_space import Space

TUNED = ((1, 5, 10, 20, 50, 100), (4, 10, 20, 30, 70, 120))  # the paper's k and its best k_max
ROUND = 64  # entries of each list in the first round
COMPILE_SCORES = 3_000_000  # after so many scores a kernel for the shape is compiled


def tuned(k: int) -> int:
    """Return the k_max for a k."""
    if k > TUNED[0][-1]:
        return int(k + 2 * np.sqrt(k))
    return int(np.interp(k, *TUNED))


def predicted(work: Workload) -> float:
    """Return CPU seconds for a batch; counts and times fitted to runs with 1,000 to 1,000,000 rows and 1 to 6 axes."""
    window, d = max(work.window, 1.0), work.axes
    entries = 0.65 * d * window ** (1 - 1 / d) * tuned(work.k) ** (1 / d)
    refills = work.queries * min(1.0, work.batch / window * 0.3 * work.k**0.2)
    scores = work.queries * d * (4e-10 if work.rendered else 1e-8)
    return float(1.8e-4 + work.batch * (scores + 2.5e-7 * d) + refills * (3e-4 + 4e-8 * entries))


class TSL(WindowAlgorithm):
    """Sorted lists of attributes, and a view of between k and k_max rows for each query."""

    card = Card(
        name="tsl",
        title="threshold sorted lists",
        source="Mouratidis, Bakiras, Papadias 2006, section 3.2",
        answers=frozenset({"topk"}),
        exact=True,
        keeps="the window's rows, sorted by each column, and the best k to k_max of them for each query",
        cost="a batch: a score for each row and query, d sorted insertions a row; now and then a walk down the lists",
        wrong_when="`tma` or `sma` can answer: it is the baseline that they are measured against",
        expected=lambda k, n: float(min((k + tuned(k)) / 2, n)),
        options={"kmax": 0.0},
        scores="monotone",
        window=True,
        fifo=False,
        boxes=True,
        cost_of=predicted,
    )
    counter_names: ClassVar[tuple[str, ...]] = ("admitted", "refills", "scans")

    def __init__(self, options: Mapping[str, float], space: Space) -> None:
        super().__init__(options, space)
        self.store = Rows(len(space.columns))
        self.lists = SortedLists(len(space.columns))
        self.views = Views()
        self.accesses = np.empty(0, dtype=np.int64)  # entries that refills read
        self.least = np.full(len(space.columns), np.inf)  # the range of the values seen so far,
        self.greatest = np.full(len(space.columns), -np.inf)
        self.proved: dict[int, tuple[int | None, ...]] = {}  # and the directions proved for them
        self.scored_rows = 0
        self._boxed = np.array(space.boxed, dtype=np.int64)

    # -- slots ---------------------------------------------------------------------------------------------

    def opened(self, slot: int) -> None:
        more = slot + 1 - len(self.accesses)
        if more > 0:
            self.views.grow(slot=slot + 1)
            self.accesses = np.append(self.accesses, np.zeros(more, dtype=np.int64))
        self.proved.pop(slot, None)
        self.accesses[slot] = 0
        self._set_most(slot)
        self._refill(slot)

    def _set_most(self, slot: int) -> None:
        k, given = int(self.ks[slot]), int(self.options["kmax"])
        self.views.most[slot] = max(k, given) if given > 0 else tuned(k)

    def resized(self, slot: int) -> None:
        self._set_most(slot)
        ranked, most = self.ranked, int(self.views.most[slot])
        if ranked.size[slot] > most:
            good, time, seq = ranked.top(slot, most)
            ranked.put(slot, good, time, seq)
            self.views.complete[slot] = 0
        elif ranked.size[slot] < self.ks[slot] and not self.views.complete[slot]:
            self._refill(slot)

    def closed(self, slot: int) -> None:
        self.proved.pop(slot, None)

    # -- rows ----------------------------------------------------------------------------------------------

    def fill(self, columns: tuple[Floats, ...], time: Ints, seq: Ints) -> None:
        known = np.isin(seq, self.store.seq[self.store.living()])
        if known.any():
            columns, time, seq = tuple(c[~known] for c in columns), time[~known], seq[~known]
        self._add(columns, time, seq)

    def _add(self, columns: tuple[Floats, ...], time: Ints, seq: Ints) -> None:
        places = self.store.add(columns, time, seq)
        if not len(places):
            return
        self.lists.insert(places, self.store.x)
        x = self.store.x[places]
        least, greatest = np.minimum(self.least, x.min(axis=0)), np.maximum(self.greatest, x.max(axis=0))
        if not (np.array_equal(least, self.least) and np.array_equal(greatest, self.greatest)):
            self.least, self.greatest = least, greatest
            self.proved.clear()

    def window_step(
        self, columns: tuple[Floats, ...], time: Ints, seq: Ints, deleted_time: Ints, deleted_seq: Ints
    ) -> None:
        if len(time):
            self._add(columns, time, seq)
            self._meet(columns, time, seq)
        if len(deleted_seq):
            places = self.store.find(deleted_time, deleted_seq)
            self.lists.remove(places, self.store.x)
            self.store.remove(places)
        self.lists.remove(self.store.expire(self.oldest_horizon()), self.store.x)
        short = np.empty(len(self.ks), dtype=np.int64)
        count = leave(np.sort(deleted_seq), short, self.views.lent(self), self.ranked)
        for slot in short[:count].tolist():
            self._refill(slot)

    def _meet(self, columns: tuple[Floats, ...], time: Ints, seq: Ints) -> None:
        """Offer the step's rows to every view."""
        used = np.flatnonzero(self.ks)
        if not len(used):
            return
        ranked, n = self.ranked, len(time)
        need = np.minimum(self.views.most, ranked.size + n)
        for slot in used[need[used] > ranked.room[used]].tolist():
            ranked.reserve(slot, int(min(self.views.most[slot], 2 * need[slot])))
        self.scored_rows += n * len(used)
        kernels = self._compiled()
        if kernels is not None:
            kernels.meet_all(self.space.sign, *columns, time, seq, self.views.lent(self), ranked)
            return
        for slot in used.tolist():
            begin = first_inside(time, seq, 0, n, self.horizon_time[slot], self.horizon_seq[slot])
            fits = np.ones(n, dtype=bool)
            for i, axis in enumerate(self.space.boxed):
                fits &= (columns[axis] >= self.low[slot, i]) & (columns[axis] <= self.high[slot, i])
            values = self.space.good(columns, self.constants[slot])
            meet(slot, begin, values, fits.view(np.uint8), time, seq, self.views.lent(self), ranked)

    def _compiled(self) -> Any:
        """Return the shape's kernels, once they pay."""
        if self.scored_rows < COMPILE_SCORES or self.space.rendered is None:
            return None
        return compiled(self.space, self.constants.shape[1])

    # -- refills -------------------------------------------------------------------------------------------

    def _refill(self, slot: int) -> None:
        horizon = Recency(int(self.horizon_time[slot]), int(self.horizon_seq[slot]))
        self.touched[slot] = 1
        inside = self.store.size - self.store.position(horizon)
        if inside == 0:
            self.ranked.clear(slot)
            self.views.complete[slot] = 1
            return
        self.counts[slot, 1] += 1
        toward = self._directions(slot)
        # a walk meets the rows of all windows; a much smaller window has fewer rows than a walk would meet
        if toward is None or 8 * inside < len(self.store):
            self._scan(slot, horizon)
        else:
            self._walk(slot, horizon, toward)

    def _directions(self, slot: int) -> tuple[int, ...] | None:
        """Return in which direction each axis is better, or None if that isn't proved for the values seen."""
        found = self.proved.get(slot)
        if found is None:
            box = {
                name: (float(low), float(high))
                for name, low, high in zip(self.space.columns, self.least, self.greatest, strict=True)
            }
            found = self.proved[slot] = self.space.directions(self.constants[slot], box)
        if None in found or not any(found):
            return None
        return tuple(toward or 0 for toward in found)

    def _scan(self, slot: int, horizon: Recency) -> None:
        """Fill the view by scoring every row inside."""
        self.counts[slot, 2] += 1
        good, time, seq = self.scored(slot, horizon)
        want = int(self.views.most[slot])
        self.views.complete[slot] = len(good) <= want
        if len(good) > want:
            near = good >= np.partition(good, len(good) - want)[len(good) - want]
            good, time, seq = good[near], time[near], seq[near]
            best = np.lexsort((seq, time, good))[-want:]
            good, time, seq = good[best], time[best], seq[best]
        self.ranked.put(slot, good, time, seq)

    def _walk(self, slot: int, horizon: Recency, toward: tuple[int, ...]) -> None:
        """Fill the view by the threshold algorithm."""
        lists, space = self.lists, self.space
        axes = [axis for axis in range(lists.axes) if toward[axis]]
        low, high = self.least.copy(), self.greatest.copy()  # a row beyond the limits can't count
        low[list(space.boxed)] = np.maximum(low[list(space.boxed)], self.low[slot])
        high[list(space.boxed)] = np.minimum(high[list(space.boxed)], self.high[slot])
        point = np.clip(0.0, low, high)  # of an axis that doesn't matter: any value
        cursors = {
            axis: start(
                axis, toward[axis], high[axis] if toward[axis] > 0 else low[axis], lists
            ) for axis in axes
        }  # fmt: skip
        want = int(min(self.views.most[slot], len(self.store)))
        best = Best(rank=want)
        size, depth, length, ended = 0, 0, ROUND, False
        while not ended:
            places, found = np.empty(length * len(axes), dtype=np.int32), 0
            for axis in axes:
                at, entry, found, point[axis], end = read(
                    axis, toward[axis], low[axis] if toward[axis] > 0 else high[axis], length, lists, *cursors[axis],
                    found, places,
                )  # fmt: skip
                cursors[axis] = at, entry
                ended |= bool(end)
            places = places[:found]
            self.accesses[slot] += found
            size = take(
                places, self._score(slot, places), self.store, *horizon, self._boxed, self.low[slot], self.high[slot],
                size, best,
            )  # fmt: skip
            if size == want:
                corner = [point[axis : axis + 1] for axis in range(lists.axes)]
                if best.good[0] > space.good(corner, self.constants[slot])[0]:  # strictly: see above
                    break
            depth += length
            length = max(ROUND, depth // 2)
        self.views.complete[slot] = size < self.views.most[slot]
        self.ranked.put(slot, best.good[:size], best.time[:size], best.seq[:size])

    def _score(self, slot: int, places: Places) -> Floats:
        kernels = self._compiled()
        if kernels is None:
            x = self.store.x[places]
            return self.space.good([x[:, axis] for axis in range(x.shape[1])], self.constants[slot])
        out = np.empty(len(places), dtype=np.float64)
        kernels.score_at(places, slot, self.constants, self.space.sign, self.store.x, out)
        return out

    # -- asking and keeping --------------------------------------------------------------------------------

    def rows(self, horizon: Recency) -> tuple[tuple[Floats, ...], Ints, Ints]:
        return self.store.values(self.store.living(horizon))

    def values(self, seq: Ints) -> tuple[Floats, ...]:
        places = self.store.by_seq(seq)
        return super().values(seq) if places is None else self.store.values(places)[0]

    def seqs(self) -> Ints:
        return np.asarray(self.store.seq[self.store.living()])

    def window_size(self) -> tuple[int, int]:
        return len(self.store), self.store.bytes() + self.lists.bytes

    def counters(self, slot: int) -> dict[str, int]:
        return {**super().counters(slot), "accesses": int(self.accesses[slot])}

    def dump(self) -> dict[str, Any]:
        return {**super().dump(), "whole": self.views.complete.copy()}

    def load(self, blob: Mapping[str, Any]) -> None:
        super().load(blob)
        self.views.grow(slot=len(self.ks))
        self.views.complete = blob["whole"].copy()
        self.accesses = np.zeros(len(self.ks), dtype=np.int64)
        for slot in np.flatnonzero(self.ks).tolist():
            self._set_most(slot)
        columns = tuple(blob[f"column_{i}"] for i in range(len(self.space.columns)))
        self._add(columns, blob["row_time"], blob["row_seq"])

    def _check(self) -> None:
        super()._check()
        self.store._check()
        self.lists.check(self.store.x)
        # the lists contain the live rows
        assert sorted(np.flatnonzero(self.lists.live).tolist()) == sorted(self.store.living().tolist())
        for slot in np.flatnonzero(self.ks).tolist():
            horizon = Recency(int(self.horizon_time[slot]), int(self.horizon_seq[slot]))
            good, time, seq = self.scored(slot, horizon)
            size = int(self.ranked.size[slot])
            # a view holds at least k rows, or all of its window, and k_max at most
            assert min(int(self.ks[slot]), len(good)) <= size <= self.views.most[slot]
            # every rank is correct, not only the first k
            best = np.lexsort((seq, time, good))[::-1][:size]
            assert np.array_equal(self.ranked.top(slot, size)[2], seq[best])
            # a whole view contains every row inside
            assert not self.views.complete[slot] or size == len(good)
