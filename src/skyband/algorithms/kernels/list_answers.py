"""The present answers of watches whose candidates lie in lists in order of recency.

After a step each watch's answer is the k best of its list from its horizon on. Most watches are passed over at once:
the step brought nothing at least as good as their last entry, and their oldest row is still inside.
"""

from typing import Any

import numpy as np

from skyband.algorithms.kernels.candidate_lists import Lists, best
from skyband.compiling.array_version import Renewed
from skyband.compiling.jit import kernel
from skyband.core.exchange import Present
from skyband.core.order import first_inside
from skyband.core.types import Floats, Ints

_BY_WATCH = ("start", "room", "size", "oldest_time", "oldest_seq")


class ListAnswers(Renewed):
    """The answers of a family's watches, in one set of arrays, best first."""

    def __init__(self) -> None:
        self.start = np.empty(0, dtype=np.int64)
        self.room = np.empty(0, dtype=np.int64)
        self.size = np.empty(0, dtype=np.int64)
        self.oldest_time = np.empty(0, dtype=np.int64)
        self.oldest_seq = np.empty(0, dtype=np.int64)
        self.good = np.empty(0, dtype=np.float64)
        self.time = np.empty(0, dtype=np.int64)
        self.seq = np.empty(0, dtype=np.int64)
        self.which = np.empty(0, dtype=np.int64)  # scratch: the watches whose answers may have changed
        self._fitted: Ints | None = None  # there is room for so many
        self._scores, self._places = np.empty(0), np.empty(0, dtype=np.int64)

    def add(self) -> None:
        """One watch more."""
        self._fitted = None
        for name in (*_BY_WATCH, "which"):
            setattr(self, name, np.append(getattr(self, name), 0))

    def remove(self, index: int) -> None:
        """Later watches move up by one."""
        self._fitted = None
        for name in (*_BY_WATCH, "which"):
            setattr(self, name, np.delete(getattr(self, name), index))

    def make_room(self, ks: Ints) -> None:
        """Lay the answers out again where a watch has outgrown its stretch."""
        if ks is self._fitted:
            return
        self._fitted = ks
        lay_out(self, ks, ("good", "time", "seq"))

    def load(self, blob: dict[str, Any]) -> None:
        """The answers side by side, as they were reported last."""
        for name in ("size", "oldest_time", "oldest_seq", "good", "time", "seq"):
            setattr(self, name, blob[name].copy())
        self._fitted = None
        self.room, self.which = self.size.copy(), np.zeros_like(self.size)
        self.start = (np.cumsum(self.size) - self.size).astype(np.int64)

    def present(
        self,
        lists: Lists,
        fresh: Floats,
        slots: Ints,
        stale: Ints,
        ks: Ints,
        horizon_time: Ints,
        horizon_seq: Ints,
    ) -> Present:
        """Bring the answers up to date from lists in order of recency."""
        first = count = 0
        while True:
            most = int(self.room.max(initial=0))
            if len(self._scores) < most:
                self._scores, self._places = np.empty(most), np.empty(most, dtype=np.int64)
            first, count = bring_up_to_date(
                first, count, slots, stale, ks, horizon_time, horizon_seq, fresh,
                self.start, self.room, self.size, self.oldest_time, self.oldest_seq, self.good, self.time, self.seq,
                lists.good, lists.time, lists.seq, lists.start, lists.head, lists.size,
                self._scores, self._places, self.which,
            )  # fmt: skip
            if first == len(slots):
                return self.shown(self.which[:count])
            self.make_room(np.minimum(ks, (lists.size - lists.head)[slots]))  # a longer answer than ever

    def shown(self, which: Ints) -> Present:
        """The answers of these watches."""
        return Present(which, self.start, self.size, 1, self.good, self.time, self.seq)


def places_of(answers: Any) -> Ints:
    """Where the answers of all watches lie in their pool, one after the other."""
    before = np.cumsum(answers.size) - answers.size
    places: Ints = np.repeat(answers.start - before, answers.size)
    places += np.arange(len(places))
    return places


def lay_out(answers: Any, sizes: Ints, names: tuple[str, ...]) -> None:
    """Give each watch's answer room for so many entries, where some has less; the named arrays are its pool."""
    if np.all(sizes <= answers.room):
        return
    room = np.where(sizes <= answers.room, answers.room, sizes + sizes // 4)
    start = np.concatenate([[0], np.cumsum(room)[:-1]]).astype(np.int64)
    places = places_of(answers)
    moved = places + np.repeat(start - answers.start, answers.size)
    for name in names:
        old = getattr(answers, name)
        new = np.zeros(int(room.sum()), dtype=old.dtype)
        new[moved] = old[places]
        setattr(answers, name, new)
    answers.room, answers.start = room.astype(np.int64), start


@kernel
def bring_up_to_date(
    first: int, count: int, slots: Ints, stale: Ints, ks: Ints, horizon_time: Ints, horizon_seq: Ints, fresh: Floats,
    start: Ints, room: Ints, size: Ints, oldest_time: Ints, oldest_seq: Ints, good: Floats, time: Ints, seq: Ints,
    pool_good: Floats, pool_time: Ints, pool_seq: Ints, list_start: Ints, list_head: Ints, list_size: Ints,
    scores: Floats, places: Ints, which: Ints,
) -> tuple[int, int]:  # fmt: skip
    """Find answers from watch `first` on, and note in `which` whose may have changed; stop where one lacks room."""
    for w in range(first, slots.shape[0]):
        slot, old, base = slots[w], size[w], start[w]
        k = min(ks[w], list_size[slot] - list_head[slot])
        if old <= k and stale[w] == 0:
            inside = old == 0 or (
                oldest_time[w] > horizon_time[w]
                or (oldest_time[w] == horizon_time[w] and oldest_seq[w] >= horizon_seq[w])
            )
            # full, and nothing new is as good as its last: or nothing new at all (then a short answer is short still)
            settled = old == k and k > 0 and fresh[slot] < good[base + old - 1]
            if inside and (settled or k == 0):
                continue
        if k > room[w]:
            return w, count
        end = list_start[slot] + list_size[slot]
        begin = list_start[slot] + list_head[slot]
        begin = first_inside(pool_time, pool_seq, begin, end, horizon_time[w], horizon_seq[w])
        found = best(pool_good, begin, end, k, scores, places)
        size[w] = found
        for j in range(found):
            here, at = base + j, places[j]
            good[here], time[here], seq[here] = scores[j], pool_time[at], pool_seq[at]
            older = time[here] < oldest_time[w] or (
                time[here] == oldest_time[w] and seq[here] < oldest_seq[w]
            )
            if j == 0 or older:
                oldest_time[w], oldest_seq[w] = time[here], seq[here]
        which[count] = w
        count += 1
    return slots.shape[0], count
