"""The present answers of watches whose candidates lie in lists in order of recency.

After a step each watch's answer is the k best of its list from its horizon on. Most watches are passed over at once:
the step brought nothing at least as good as their last entry, and their oldest row is still inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from skyband.algorithms.kernels.candidate_lists import Lists, best
from skyband.compiling.jit import kernel
from skyband.compiling.state import State, field
from skyband.core.exchange import Present
from skyband.core.order import first_inside
from skyband.core.types import Floats, Ints


class ListAnswers(State):
    """The answers of a family's watches, in one pool, best first."""

    start: Ints = field("i8[watch]")
    room: Ints = field("i8[watch]")
    size: Ints = field("i8[watch]")
    oldest_time: Ints = field("i8[watch]")
    oldest_seq: Ints = field("i8[watch]")
    good: Floats = field("f8[place]")
    time: Ints = field("i8[place]")
    seq: Ints = field("i8[place]")
    slot: Ints = field("i8[asked]", scratch=True)  # these five as given at each step
    stale: Ints = field("i8[asked]", scratch=True)
    k: Ints = field("i8[asked]", scratch=True)
    horizon_time: Ints = field("i8[asked]", scratch=True)
    horizon_seq: Ints = field("i8[asked]", scratch=True)
    which: Ints = field("i8[watch]", scratch=True)  # the watches whose answers may have changed
    best_good: Floats = field("f8[rank]", scratch=True)
    best_place: Ints = field("i8[rank]", scratch=True)

    _fitted: Ints | None = None  # there is room for so many
    _measured: Ints | None = None  # the rooms for which there are ranks enough

    def add(self) -> None:
        """Add a watch."""
        self._fitted = None
        self.grow(watch=len(self.size) + 1)

    def remove(self, index: int) -> None:
        """Remove a watch: later ones move up by one."""
        self._fitted = None
        for f in self.fields:
            if f.axes == ("watch",):
                setattr(self, f.name, np.delete(getattr(self, f.name), index))

    def make_room(self, ks: Ints) -> None:
        """Lay the answers out again where a watch has outgrown its stretch."""
        if ks is self._fitted:
            return
        self._fitted = ks
        lay_out(self, ks, ("good", "time", "seq"))

    def load(self, content: Mapping[str, Any]) -> None:
        """Begin with the answers side by side, as they were reported last."""
        for name in ("size", "oldest_time", "oldest_seq", "good", "time", "seq"):
            setattr(self, name, content[name].copy())
        self._fitted = None
        self.room, self.which = self.size.copy(), np.zeros_like(self.size)
        self.start = np.cumsum(self.size) - self.size

    def present(
        self,
        lists: Lists,
        slots: Ints,
        stale: Ints,
        ks: Ints,
        horizon_time: Ints,
        horizon_seq: Ints,
    ) -> Present:
        """Bring the answers up to date from lists in order of recency."""
        self.lend(slot=slots, stale=stale, k=ks, horizon_time=horizon_time, horizon_seq=horizon_seq)
        first = count = 0
        while True:
            if self.room is not self._measured:
                self._measured = self.room
                most = int(self.room.max(initial=0))
                if len(self.best_good) < most:
                    self.grow(rank=most)
            first, count = bring_up_to_date(first, count, self, lists)
            if first == len(slots):
                return self.shown(self.which[:count])
            self.make_room(np.minimum(ks, (lists.size - lists.head)[slots]))  # a longer answer than ever

    def shown(self, which: Ints) -> Present:
        """Return the answers of these watches."""
        return Present(which, self.start, self.size, 1, self.good, self.time, self.seq)


def places_of(answers: Any) -> Ints:
    """Return where the answers of all watches lie in their pool, one after the other."""
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
def bring_up_to_date(first: int, count: int, answers: ListAnswers, lists: Lists) -> tuple[int, int]:
    """Find answers from watch `first` on, and note in `which` whose may have changed; stop where one lacks room."""
    oldest_time, oldest_seq = answers.oldest_time, answers.oldest_seq
    horizon_time, horizon_seq = answers.horizon_time, answers.horizon_seq
    scores, places = answers.best_good, answers.best_place
    for w in range(first, answers.slot.shape[0]):
        slot, old, base = answers.slot[w], answers.size[w], answers.start[w]
        k = min(answers.k[w], lists.size[slot] - lists.head[slot])
        if old <= k and answers.stale[w] == 0:
            inside = old == 0 or (
                oldest_time[w] > horizon_time[w]
                or (oldest_time[w] == horizon_time[w] and oldest_seq[w] >= horizon_seq[w])
            )
            # full, and nothing new is as good as its last: or nothing new at all (then a short answer is short still)
            settled = old == k and k > 0 and lists.fresh[slot] < answers.good[base + old - 1]
            if inside and (settled or k == 0):
                continue
        if k > answers.room[w]:
            return w, count
        begin, end = lists.start[slot] + lists.head[slot], lists.start[slot] + lists.size[slot]
        begin = first_inside(lists.time, lists.seq, begin, end, horizon_time[w], horizon_seq[w])
        found = best(lists.good, begin, end, k, scores, places)
        answers.size[w] = found
        for j in range(found):
            time, seq = lists.time[places[j]], lists.seq[places[j]]
            answers.good[base + j], answers.time[base + j], answers.seq[base + j] = scores[j], time, seq
            if j == 0 or time < oldest_time[w] or (time == oldest_time[w] and seq < oldest_seq[w]):
                oldest_time[w], oldest_seq[w] = time, seq
        answers.which[count] = w
        count += 1
    return answers.slot.shape[0], count
