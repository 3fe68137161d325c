"""A family whose algorithm may be wrong now and then: it knows when it is, and an exact one may replace it.

Three things come on top of what every family does (row_group.py):

* **Slots of their own.** Watches share a list only if they have the same window and the same beginning, because the
  list is kept for one window: what is far behind in a long window may be in front in a short one.
* **Certificates.** After each step every watch's answer is held against what was dropped and may still be in its window
  (approximate/certificate.py): it is *certified*, or it is in doubt. The share of certified answers is kept.
* **Switching**, where the user named an error and no algorithm. The bound holds for rows in random order. So the newest
  rows are looked at (approximate/order_test.py): if they are not in random order, or if answers stay in doubt, an
  exact algorithm takes the lists over. What was dropped before may be missing until it has left the window, and the
  certificates say so all that time. When the order has been random for a while, `pa` takes them back. A switch for
  doubt makes the next return take twice as long, for drift too slow for the newest rows to show it.

The rows looked at are kept as columns, and scored for two of the family's queries at each test, in turn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.algorithms import LISTS, Arrivals
from skyband.algorithms.approximate.certificate import certify
from skyband.algorithms.approximate.order_test import BUFFER, SURE, order_of
from skyband.algorithms.approximate.pa import PA
from skyband.algorithms.kernels.capacity import misses
from skyband.core.exchange import ALL, Changes, Entries
from skyband.core.types import Floats, Recency
from skyband.engine.protocol import Comparing, Step, Watched
from skyband.engine.row_group import NO_STREAM, Group
from skyband.query.expression import evaluate
from skyband.query.model import Rows, Threshold, TopK

PARTNERS = ("rapf", "ra")  # exact algorithms that may take over: the first that there is
TEST_EVERY = BUFFER // 4  # new rows
TESTED = 2  # queries at each test
CALM, MOST_CALM = 8, 8192  # tests in random order before `pa` takes the lists back; after many times in doubt
DOUBT = 0.25  # of the answers of the last dozen steps or so


class Recent:
    """The newest rows' score columns, in order of arrival, as a source to evaluate scores on."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.columns = np.empty((len(names), 0), dtype=np.float64)
        self.untested = 0  # rows since the last test

    def __len__(self) -> int:
        return int(self.columns.shape[1])

    def add(self, columns: tuple[Floats, ...], rows: int) -> None:
        """Rows come, newest first."""
        self.untested += rows
        new = np.array([column[:BUFFER][::-1] for column in columns], dtype=np.float64)
        self.columns = np.concatenate([self.columns, new.reshape(len(self.names), -1)], axis=1)[:, -BUFFER:]

    def number(self, name: str) -> Floats:
        return np.asarray(self.columns[self.names.index(name)], dtype=np.float64)

    def array(self, name: str) -> Any:
        import pyarrow as pa

        return pa.array(self.number(name))


class Approximate(Group):
    """A family on `pa`, or on the exact algorithm that has taken over from it."""

    def __init__(
        self,
        query: TopK | Threshold,
        algorithm: str,
        options: dict[str, float],
        stream: Comparing = NO_STREAM,
    ) -> None:
        super().__init__(query, algorithm, options, stream)
        assert isinstance(self.algorithm, PA)
        self.keyed = True
        self.pa: PA = (
            self.algorithm
        )  # keeps the slots and what was dropped, whichever algorithm has the lists
        self.auto = "auto" in options
        # for each watch how many of how many answers were certified
        self.shares = np.zeros((0, 2), dtype=np.int64)
        self.recent = Recent(self.score_columns)
        self.turn = 0  # which queries are tested next
        self.seen = (0.0, 0.0)  # trend and wander at the last test
        self.doubt = 0.0  # share of answers in doubt, fading
        self.calm = 0  # tests in random order in a row
        self.patience = CALM
        self.switches = 0

    @property
    def on_pa(self) -> bool:
        return self.algorithm is self.pa

    # -- watches -------------------------------------------------------------------------------------------

    def _slot_for(self, watch: Watched) -> int:
        key = self._slot_key(watch)
        slot = self.slots.get(key)
        if slot is None:
            slot = self._add(watch.capacity)
            self._set_constants(slot, key[0])
            self.slots[key] = slot
        elif watch.capacity > self.algorithm.ks[slot]:
            self._each_resize(slot, watch.capacity)
        return slot

    def _add(self, k: int) -> int:
        slot = int(self.algorithm.add(k))
        if not self.on_pa:
            same = self.pa.add(k)
            assert same == slot  # both have the same slots free
        return slot

    def _each_resize(self, slot: int, k: int) -> None:
        self.algorithm.resize(slot, k)
        if not self.on_pa:
            self.pa.resize(slot, k)

    def _resize(self, slot: int) -> None:
        self._each_resize(slot, max(watch.capacity for watch in self.watches if watch.slot == slot))

    def attach(self, watch: Watched) -> None:
        super().attach(watch)
        self.shares = np.vstack([self.shares, np.zeros((1, 2), dtype=np.int64)])

    def detach(self, watch: Watched) -> None:
        index = self.watches.index(watch)
        self.shares = np.delete(self.shares, index, axis=0)
        super().detach(watch)

    def _leave(self, slot: int) -> None:
        super()._leave(slot)
        if not self.on_pa and slot not in self.slots.values():
            self.pa.remove(slot)

    def _move(self, watch: Watched) -> int:
        """Return the slot of a watch whose window or beginning has changed: with what its old slot knows."""
        key, old = self._slot_key(watch), watch.slot
        slot = self.slots.get(key)
        if slot is not None:
            return slot
        if any(other.slot == old and other is not watch for other in self.watches):
            slot = self._copy(old)
        else:
            slot = old
            self.slots = {other: number for other, number in self.slots.items() if number != old}
        self.slots[key] = slot
        return slot

    def _copy(self, old: int) -> int:
        slot = self._add(int(self.algorithm.ks[old]))
        self._set_constants(slot, tuple(self.constants[old].tolist()))
        _hand_over(self.algorithm, old, self.algorithm, slot)
        self.pa.dropped.copy_slot(old, slot)
        return slot

    # -- a step --------------------------------------------------------------------------------------------

    def step(self, step: Step) -> Changes | None:
        batch, mark, deleted = step.batch, step.mark, step.deleted
        if self.buffers:
            self.algorithm.edge = max(step.horizons[window] for window in self.buffers)
        ks, horizon_time, horizon_seq = self._horizons(step.horizons)
        slot_time, slot_seq = self._slot_horizons(horizon_time, horizon_seq)
        rows = self.arrivals(batch, mark) if batch else None
        due = self.auto and rows is not None and len(rows) > 0 and self._look(rows)
        self.algorithm.step(rows, slot_time, slot_seq, *deleted)
        if not self.on_pa:
            self.pa.lists.lend(horizon_time=slot_time, horizon_seq=slot_seq)
            self.pa.dropped.expire(slot_time, slot_seq)
        found = self._compare(ks, horizon_time, horizon_seq)
        answers = self.answers
        doubtful = certify(
            self.pa.dropped, self.shares, answers.slot, ks, horizon_time, horizon_seq, answers.start, answers.size,
            answers.good, answers.time, answers.seq,
        )  # fmt: skip
        self.doubt += (doubtful / max(1, len(self.watches)) - self.doubt) / 16
        if self.auto and self.on_pa and self.doubt > DOUBT:
            self.patience = min(2 * self.patience, MOST_CALM)
            due = True
        if due:
            self._switch()
        return found

    # -- switching -----------------------------------------------------------------------------------------

    def _look(self, rows: Arrivals) -> bool:
        """Look at the newest rows: whether the other algorithm should have the lists from the next step on."""
        recent = self.recent
        recent.add(rows.columns(), len(rows))
        if recent.untested < TEST_EVERY:
            return False
        recent.untested = 0
        slots = np.flatnonzero(self.algorithm.ks).tolist()
        tested = {slots[(self.turn + i) % len(slots)] for i in range(TESTED)}
        self.turn += TESTED
        found = [order_of(self._scores(slot)) for slot in sorted(tested)]
        self.seen = max(found, key=lambda pair: max(abs(pair[0]), abs(pair[1])))
        if max(abs(self.seen[0]), abs(self.seen[1])) > SURE:
            self.calm = 0
            return self.on_pa
        self.calm += 1
        return not self.on_pa and self.calm >= self.patience

    def _scores(self, slot: int) -> Floats:
        scores = np.asarray(
            evaluate(self.shape, self.recent, self.constants[slot].tolist()), dtype=np.float64
        )
        return scores[~np.isnan(scores)]

    def _switch(self) -> None:
        """From `pa` to its exact partner, or back: the lists go over, and every answer is looked at again."""
        old = self.algorithm
        self.algorithm = self._partner() if self.on_pa else self.pa
        for slot in np.flatnonzero(old.ks).tolist():
            _hand_over(old, slot, self.algorithm, slot)
            if old is self.pa:
                self.pa.empty(slot)
        self.changed()
        self.answers.stale[:] = 1
        self.calm = 0
        self.doubt = 0.0
        self.switches += 1

    def _partner(self) -> Any:
        """Return an exact algorithm with the same slots."""
        exact = self._made(partner())
        for k in self.pa.ks.tolist():
            exact.add(max(k, 1))
        for slot in np.flatnonzero(self.pa.ks == 0).tolist():
            exact.remove(slot)
        return exact

    def _made(self, name: str) -> Any:
        kind: Any = LISTS[name]
        return kind({}, self.space) if kind.spaced else kind({})

    # -- telling -------------------------------------------------------------------------------------------

    def exact(self, slot: int) -> bool:
        """Nothing was dropped that matters now, and nothing is being dropped."""
        return not self.on_pa and self.pa.dropped.count[slot] == 0

    def error(self, watch: Watched) -> float:
        """Return the error that is allowed; where the limit itself was given, the one that follows from it."""
        if self.pa.options["limit"]:
            slot = watch.slot
            return misses(watch.capacity, int(self.pa.ks[slot] + self.pa.lists.limit[slot]))
        return float(self.pa.options["error"])

    def bound(self, watch: Watched) -> str:
        """Return how many rows may be missed."""
        error = f"{self.error(watch):.3g}"
        limit = (
            f"the {self.pa.most(watch.slot):,} best rows are kept"
            if self.on_pa
            else "nothing is dropped at present"
        )
        if isinstance(watch.window, Rows):
            return f"at most {error} rows missed per {watch.window.n:,} rows in random order ({limit})"
        steady = "in random order and at a steady rate"
        return f"at most {error} rows missed per {watch.window} of rows {steady} ({limit})"

    def certain(self, watch: Watched) -> bool:
        """Whether the watch's answer is certainly exact."""
        horizon = watch.horizon()
        k = watch.ranks(horizon) or 1
        answer = self.algorithm.top(watch.slot, k, horizon)
        return self.pa.dropped.certain(watch.slot, k, horizon, answer)

    def certified(self, watch: Watched) -> tuple[int, int]:
        """Return how many of how many answers were certified."""
        certified, answers = self.shares[self.watches.index(watch)].tolist()
        return certified, answers

    def metadata(
        self, watch: Watched, k: int | None, horizon: Recency, answer: Entries
    ) -> dict[str, str] | None:
        if k is None:
            return None
        certified, answers = self.certified(watch)
        return {
            "skyband.error": f"{self.error(watch):.3g}",
            "skyband.bound": self.bound(watch),
            "skyband.certified": str(self.pa.dropped.certain(watch.slot, k, horizon, answer[:3])).lower(),
            "skyband.certified_answers": str(certified),
            "skyband.answers": str(answers),
        }

    def notes(self) -> list[str]:
        if not self.auto:
            return []
        trend, wander = self.seen
        order = f"trend {trend:.1f}, wander {wander:.1f} standard deviations in the newest {len(self.recent):,} rows"
        times = f"{self.switches} switch{'' if self.switches == 1 else 'es'} so far"
        if self.on_pa:
            return [f"{partner()} takes over if rows don't come in random order: {order}; {times}"]
        return [f"pa takes over again when rows come in random order: {order}; {times}"]

    # -- keeping -------------------------------------------------------------------------------------------

    def also_kept(self) -> dict[str, int]:
        kept = super().also_kept()
        index = self.pa.index
        if index is not None and self.on_pa:
            kept["the index that rows are looked up in, for all watches of this score"] = index.bytes()
        return kept

    def dump(self) -> dict[str, Any]:
        return {
            **super().dump(),
            "approximate": {
                "algorithm": self.algorithm.card.name,
                "pa": {} if self.on_pa else self.pa.dump(),
                "shares": self.shares.copy(),
                "recent": self.recent.columns.copy(),
                "untested": self.recent.untested,
                "numbers": [self.turn, self.calm, self.patience, self.switches],
                "measures": [*self.seen, self.doubt],
            },
        }

    def load(self, blob: dict[str, Any], watches: list[Any], slots: list[int]) -> None:
        part = blob["approximate"]
        if part["algorithm"] != self.algorithm.card.name:
            self.pa.load(part["pa"])
            self.algorithm = self._made(part["algorithm"])
        super().load(blob, watches, slots)
        self.shares = part["shares"].copy()
        self.recent.columns, self.recent.untested = part["recent"].copy(), part["untested"]
        self.turn, self.calm, self.patience, self.switches = part["numbers"]
        trend, wander, self.doubt = part["measures"]
        self.seen = (trend, wander)

    def _check(self) -> None:
        super()._check()
        self.pa._check()
        # both have the same slots, and only one of them has the lists
        assert np.array_equal(self.pa.ks, self.algorithm.ks)
        assert self.on_pa or not (self.pa.lists.size - self.pa.lists.head).any()
        assert len(self.shares) == len(self.watches)


def partner() -> str:
    """Return the exact algorithm that takes over."""
    return next(name for name in PARTNERS if name in LISTS)


def _hand_over(old: Any, slot: int, new: Any, to: int) -> None:
    """Refill a slot with the rows that another one has."""
    horizon = Recency(int(old.lists.horizon_time[slot]), int(old.lists.horizon_seq[slot]))
    good, time, seq = old.top(slot, ALL, horizon)  # what waits in a buffer, too
    order = np.lexsort((seq, time))[::-1]
    new.expire(to, horizon)
    new.rebuild(to, good[order], time[order], seq[order])
