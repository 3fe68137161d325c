"""PA: the probabilistic k-skyband (Pripužić, Podnar Žarko and Aberer, section 4.1).

**Problem.** A top-k over a sliding window in a list whose length is known beforehand, with one comparison for most
rows, where a missed row once in a long while does no harm.

**Idea.** In a stream in random order a row that comes in far behind the top k hardly ever gets there: for that,
better rows would have to leave faster than new ones come. So keep the k + limit best, and drop what is worse. How
large a limit is needed for at most `error` rows missed per n rows is worked out in structures/limits.py, exactly,
where the paper has a bound that is two orders of magnitude too large.

**What is kept.** One list a query, in recency order, of at most k + limit + additional rows, and a *threshold*:
once the list is full, rows worse than its worst don't come in. When rows leave the window the threshold gives way
by half the distance of the list's two worst; when fewer than k + limit are left there is none until the list is
full again. So a row is dropped only while k + limit better ones are in the window, which is all that the error
rests on. Also the stairs of what was dropped (structures/certificate.py): they tell at each moment whether the
answer is certainly exact.

**Cost.** O(1) for a row that is dropped, O(list) for one that comes in or leaves: two or three times
(k + limit)/n of them.

**Wrong choice when** scores fall with time: every row comes in last and is dropped, and is missed later.
Certificates say so at once; with `WITH (error = …)` and no algorithm named, an exact one takes over.

Watches share a list only if they have the same window and the same beginning: what is far behind in a long window
may be in front in a short one. Different k share, with the limit of the greatest.

Errata followed: expire, then give way, then insert; a row may be dropped only behind k + limit others, so the
threshold goes when fewer are left; equal scores: the newer one is the better.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from skyband.algorithms.base import Arrivals, Card, ListAlgorithm, Workload
from skyband.jit import kernel
from skyband.order import Floats, Ints, Recency, inside_of
from skyband.structures.capped import admit, bar_of, capped, least
from skyband.structures.certificate import Certificates, record
from skyband.structures.limits import limit_for
from skyband.structures.lists import append, close_up

ERROR = 0.001
ADDITIONAL = 1.0


def expected(k: int, n: float, error: float = ERROR, additional: float = ADDITIONAL) -> float:
    return min(float(n), k + limit_for(k, error) + additional)


def cost_of(work: Workload) -> float:
    """Seconds for a batch: each query scores each row; hardly any comes in."""
    score = 2e-9 if work.rendered else 2e-8
    kept = expected(work.k, work.window)
    taken = min(work.batch, 2 * work.batch * kept / max(work.window, 1.0))
    return float(50e-6 + work.batch * (1e-8 + work.queries * score) + work.queries * taken * kept * 2e-9)


@kernel
def absorb(
    slot: int, count: int, picks: Ints, values: Floats, time: Ints, seq: Ints, place: Ints,
    mark: npt.NDArray[np.uint8], k: int, heap: Floats,
    nearest: Floats, limit: Ints, additional: int, threshold: Floats, lost: Floats, outside: Ints,
    good: Floats, start: Ints, head: Ints, size: Ints, times: Ints, seqs: Ints, room: Ints, held: Ints,
    fresh: Floats, counts: Ints, step_good: Floats, step_time: Ints, step_seq: Ints, steps: Ints,
) -> int:  # fmt: skip
    """Take the picked rows into the slot's list, drop the worst beyond its cap, set the threshold."""
    begin = start[slot]
    if size[slot] + count > room[slot]:
        if head[slot] == 0:
            return 1
        size[slot] = close_up(good, times, seqs, begin, head[slot], size[slot])
        head[slot] = 0
        if size[slot] + count > room[slot]:
            return 1
    if lost[slot] == lost[slot]:  # as one step: the best score and the newest recency of those left outside
        newest = outside[slot]
        record(slot, lost[slot], time[newest], seq[newest], step_good, step_time, step_seq, steps)
    if count == 0:
        return 0
    append(time, seq, picks, values, count, good, times, seqs, begin + head[slot], begin + size[slot])
    size[slot] += count
    counts[slot, 0] += count
    for i in range(count):
        mark[place[picks[i]]] = 1
        if values[i] > fresh[slot]:
            fresh[slot] = values[i]
    most = k + limit[slot] + additional
    live = size[slot] - head[slot]
    if live > most:
        counts[slot, 1] += live - most
        size[slot] -= drop(
            slot, good, times, seqs, begin + head[slot], begin + size[slot], most, heap,
            step_good, step_time, step_seq, steps,
        )  # fmt: skip
        live = most
    if live == most:
        threshold[slot] = least(good, begin + head[slot], begin + size[slot])[0]
    held[slot] = live
    return 0


@kernel
def drop(
    slot: int, good: Floats, times: Ints, seqs: Ints, begin: int, end: int, most: int, heap: Floats,
    step_good: Floats, step_time: Ints, step_seq: Ints, steps: Ints,
) -> int:  # fmt: skip
    """Reduce the list to the `most` best, among equals the newer; put on record who goes. Returns how many."""
    bar = bar_of(good, begin, end, most, heap)
    equals = -most  # of those as good as the worst that stays, so many must go: the oldest
    for place in range(begin, end):
        equals += good[place] >= bar
    write = begin
    for place in range(begin, end):
        value = good[place]
        if value < bar or (value == bar and equals > 0):
            equals -= value == bar
            record(slot, value, times[place], seqs[place], step_good, step_time, step_seq, steps)
            continue
        good[write] = value
        times[write] = times[place]
        seqs[write] = seqs[place]
        write += 1
    return end - write


@kernel
def give_way(
    ks: Ints, limit: Ints, threshold: Floats, held: Ints, good: Floats, start: Ints, head: Ints, size: Ints,
    counts: Ints,
) -> None:  # fmt: skip
    """Rows have left: lower the thresholds of their lists by half the distance of the two worst, or lift them."""
    for slot in range(ks.shape[0]):
        live = size[slot] - head[slot]
        if ks[slot] == 0 or live >= held[slot]:
            continue
        held[slot] = live
        if threshold[slot] == -np.inf:
            continue
        worst, next_worst = least(good, start[slot] + head[slot], start[slot] + size[slot])
        if live < ks[slot] + limit[slot] or (next_worst == np.inf and worst < np.inf):
            threshold[slot] = -np.inf
            counts[slot, 2] += 1
        elif next_worst > worst:
            threshold[slot] = min(threshold[slot], worst) - 0.5 * (next_worst - worst)


class PA(ListAlgorithm):
    """The probabilistic k-skyband: the k + limit best rows, and what is known of the dropped ones."""

    card = Card(
        name="pa",
        title="probabilistic k-skyband",
        source="Pripužić, Podnar Žarko, Aberer 2015, section 4.1",
        answers=frozenset({"topk"}),
        exact=False,
        keeps="the k + limit best rows of the window and some more, and the best of those that were dropped",
        cost="a batch: its scores and a comparison each; hardly any row comes in",
        wrong_when="scores fall with time (its certificates say so), or every answer must be exact",
        expected=expected,
        options={"error": ERROR, "additional": ADDITIONAL, "limit": 0.0},
        cost_of=cost_of,
    )
    counter_names: ClassVar[tuple[str, ...]] = ("admitted", "dropped again", "thresholds lifted")

    def __init__(self, options: Mapping[str, float]) -> None:
        super().__init__(options)
        self.additional = int(self.options["additional"])
        self.threshold = np.empty(0, dtype=np.float64)  # rows below it stay outside; -inf: none
        self.held = np.empty(0, dtype=np.int64)  # rows in the list after the last insertion or expiry
        self.lost = np.empty(
            0, dtype=np.float64
        )  # scratch: the best row of a step that stayed outside, or NaN
        self.outside = np.empty(0, dtype=np.int64)  # scratch: the newest such row
        self.dropped = Certificates()
        self._nearest = np.empty(0, dtype=np.float64)

    # -- slots ---------------------------------------------------------------------------------------------

    def add(self, k: int) -> int:
        slot = super().add(k)
        if slot == len(self.threshold):
            self.threshold = np.append(self.threshold, -np.inf)
            self.held = np.append(self.held, 0)
            self.lost = np.append(self.lost, np.nan)
            self.outside = np.append(self.outside, 0)
            self.dropped.add()
        self.empty(slot)
        self.dropped.clear(slot)
        return slot

    def empty(self, slot: int) -> None:
        """Forget the list, but not what was dropped."""
        self.lists.clear(slot)
        self.threshold[slot] = -np.inf
        self.held[slot] = 0

    def first_limit(self, k: int) -> int:
        return int(self.options["limit"]) or limit_for(k, float(self.options["error"]))

    def resize(self, slot: int, k: int) -> None:
        super().resize(slot, k)
        self.limit[slot] = self.first_limit(k)
        if self.lists.live(slot) < k + self.limit[slot]:
            self.threshold[slot] = -np.inf

    def remove(self, slot: int) -> None:
        super().remove(slot)
        self.empty(slot)
        self.dropped.clear(slot)

    def most(self, slot: int) -> int:
        """The cap of a slot's list."""
        return int(self.ks[slot] + self.limit[slot]) + self.additional

    def expected(self, k: int, n: float) -> float:
        return min(float(n), k + self.first_limit(k) + self.additional)

    # -- rows ----------------------------------------------------------------------------------------------

    @property
    def absorb(self) -> Any:
        return absorb

    def state(self) -> tuple[Any, ...]:
        lists = self.lists
        return (
            self._nearest, self.limit, self.additional, self.threshold, self.lost, self.outside,
            lists.good, lists.start, lists.head, lists.size, lists.time, lists.seq, lists.room, self.held,
            self.fresh, self.counts, *self.dropped.arrays(),
        )  # fmt: skip

    def _scratch(self, n: int) -> None:
        super()._scratch(n)
        most = int((self.ks + self.limit).max(initial=0)) + self.additional
        most = min(most, n + int(self.lists.size.max(initial=0)))
        if len(self._heap) < most:
            self._heap = np.empty(most, dtype=np.float64)
        if len(self._nearest) < most:
            self._nearest = np.empty(most, dtype=np.float64)

    def _fused(self, rows: Arrivals, known: bool = False) -> Any:
        return capped(rows.rendered or "", len(rows.columns()), rows.constants.shape[1], __name__, known)

    def _insert_scored(
        self, slot: int, good: Floats, time: Ints, seq: Ints, place: Ints, mark: npt.NDArray[np.uint8]
    ) -> None:
        k = int(self.ks[slot])
        inside = inside_of(time, seq, len(time), self.horizon_time[slot], self.horizon_seq[slot])
        nearest, limit, additional, *rest = self.state()[:10]
        count = admit(
            slot, good, inside, k, self._heap, nearest, self._picks, self._values, limit, additional, *rest
        )
        while self.absorb(
            slot, count, self._picks, self._values, time, seq, place, mark, k, self._heap, *self.state()
        ):
            self.lists.grow(slot, 2 * int(self.lists.room[slot]))

    def rebuild(self, slot: int, good: Floats, time: Ints, seq: Ints) -> None:
        self.empty(slot)
        super().rebuild(slot, good, time, seq)

    def expire(self, slot: int, horizon: Recency) -> None:
        super().expire(slot, horizon)
        self._settle()

    def expire_all(self, horizon_time: Ints, horizon_seq: Ints) -> None:
        super().expire_all(horizon_time, horizon_seq)
        self._settle()

    def _settle(self) -> None:
        """Rows may have left."""
        lists = self.lists
        give_way(
            self.ks,
            self.limit,
            self.threshold,
            self.held,
            lists.good,
            lists.start,
            lists.head,
            lists.size,
            self.counts,
        )
        self.dropped.expire(self.horizon_time, self.horizon_seq)

    # -- answers -------------------------------------------------------------------------------------------

    def certain(self, slot: int, k: int, horizon: Recency) -> bool:
        """Whether the top k from the horizon on is certainly exact."""
        return self.dropped.certain(slot, k, horizon, self.top(slot, k, horizon))

    def size(self, slot: int) -> tuple[int, int]:
        candidates, size = super().size(slot)
        return candidates, size + self.dropped.bytes()

    def dump(self) -> dict[str, Any]:
        own = {"threshold": self.threshold.copy(), "held": self.held.copy()}
        dropped = {f"dropped_{name}": array for name, array in self.dropped.dump().items()}
        return {**super().dump(), **own, **dropped}

    def load(self, blob: Mapping[str, Any]) -> None:
        super().load(blob)
        self.threshold, self.held = blob["threshold"].copy(), blob["held"].copy()
        self.lost = np.full(len(self.ks), np.nan)
        self.outside = np.zeros(len(self.ks), dtype=np.int64)
        self.dropped.load(
            {
                name.removeprefix("dropped_"): array
                for name, array in blob.items()
                if name.startswith("dropped_")
            }
        )

    def _check(self) -> None:
        super()._check()
        self.dropped._check()
        for slot in np.flatnonzero(self.ks).tolist():
            good = self.lists.good[self.lists.span(slot)]
            if self.threshold[slot] > -np.inf:
                # whoever is turned away has k + limit better ones in the window, which are all here
                assert len(good) >= self.ks[slot] + self.limit[slot]
                assert np.all(good >= self.threshold[slot])
            assert self.held[slot] == len(good)
