"""Answers that follow the rows: what a step brought and took away, put into each watch's answer.

The rule of section 4.2 of Shen, Cheema, Lin, Zhang and Wang for continuous queries, as it must be: what left the window
leaves the answer; a new row comes in if it is before the row that was the answer's last *before* that; only if fewer
than k are left then, the answer is searched for anew. In a step of many rows about as many leave as come in, so every
second answer would be short. So some ranks below the k-th are kept as well (`held` of them in all, of which the first
`size` are the answer), and the rule is about the last of those: a search is needed once they are used up.

What holds for a watch's list after a step: its rows are inside the window, in order, and every candidate inside the
window that is before the last of them is among them; if the list is `whole`, every candidate inside the window is. Cut
short at its end, a list is still one. A row that was swept from the candidates meanwhile does no harm where it stands:
k newer ones are before it, so it is in no answer.

Watches that do need a search are answered by one walk for all of them (kernels/batch_tops.py).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from skyband.algorithms.kernels.batch_tops import walk_all
from skyband.algorithms.kernels.candidate_lists import Lists, best
from skyband.algorithms.kernels.list_answers import ListAnswers
from skyband.compiling.jit import inlined, kernel
from skyband.core.exchange import Present
from skyband.core.order import before
from skyband.core.types import MINIMUM, Floats, Ints

SEARCH, LOOK = 1, 2  # what is left to do for a watch: search for its answer; look at it, or it was looked at


def ranks_held(ks: Ints) -> Ints:
    """So many ranks are kept for an answer of k."""
    return ks + ks // 2 + 8


class Following:
    """How far the answers reach below their last rank."""

    def __init__(self) -> None:
        self.held = np.empty(0, dtype=np.int64)  # by watch
        self.whole = np.empty(0, dtype=np.int64)  # by watch: 1 if nothing inside the window is missing
        # by slot: the greatest seq and the latest time that have been shown to its watches; a new row is beyond one of
        # them, for a late one has a greater seq, and one that had to wait is newer than all others
        self.seen = np.empty((2, 0), dtype=np.int64)
        self.searched = 0  # answers that were searched for
        self._answers: ListAnswers | None = None
        self._laid: Ints | None = None  # the layout that `held` is about
        self._ks: Ints | None = None
        self._rooms, self._most = self.held, 0
        self._left = np.zeros(1, dtype=np.int64)

    def begin(self, lists: Lists) -> None:
        """After a load: the answers are of these lists."""
        spans = [lists.span(slot) for slot in range(len(lists.start))]
        self.seen = np.array(
            [
                [int(values[span].max(initial=none)) for span in spans]
                for values, none in ((lists.seq, -1), (lists.time, MINIMUM))
            ],
            dtype=np.int64,
        ).reshape(2, -1)

    def _fit(self, answers: ListAnswers, lists: Lists, slots: Ints, ks: Ints) -> Ints:
        """Room for what is to be held at most, which is returned; where the answers were laid out again, they are all
        that is left of what was held."""
        if ks is not self._ks:
            self._rooms, self._ks = ranks_held(ks), ks
            self._most = int(self._rooms.max(initial=0))
        rooms = self._rooms
        if len(lists.size) > 1 or lists.live(0) < self._most:  # mostly one list, with enough in it
            rooms = np.minimum(rooms, (lists.size - lists.head)[slots])
        answers.make_room(rooms)
        if answers.start is not self._laid:
            self._laid = answers.start
            self.held, self.whole = answers.size.copy(), np.zeros(len(answers.size), dtype=np.int64)
            self._left = np.zeros(len(answers.size) + 1, dtype=np.int64)
        more = len(lists.start) - self.seen.shape[1]
        if more > 0:
            nothing = np.repeat(np.array([[-1], [MINIMUM]], dtype=np.int64), more, axis=1)
            self.seen = np.concatenate([self.seen, nothing], axis=1)
        return rooms

    def present(
        self,
        answers: ListAnswers,
        lists: Lists,
        fresh: Floats,
        slots: Ints,
        stale: Ints,
        ks: Ints,
        horizon_time: Ints,
        horizon_seq: Ints,
    ) -> Present:
        """Bring the answers up to date."""
        rooms = self._fit(answers, lists, slots, ks)
        self._answers = answers
        own = (
            answers.start, rooms, answers.size, answers.oldest_time, answers.oldest_seq, answers.good, answers.time,
            answers.seq, self.held, self.whole,
            lists.good, lists.time, lists.seq, lists.start, lists.head, lists.size,
        )  # fmt: skip
        follow(fresh, stale, slots, ks, horizon_time, horizon_seq, *own, self.seen, self._left)
        if self._left[-1]:
            order = np.flatnonzero(self._left[:-1] == SEARCH)
            if len(order) > 1:
                keys = horizon_seq[order], horizon_time[order], -slots[order]
                order = order[np.lexsort(keys)[::-1]]
            self.searched += len(order)
            walk_all(order, slots, ks, horizon_time, horizon_seq, *own)
        return answers.shown(np.flatnonzero(self._left[:-1]))

    def _check(self) -> None:
        answers = self._answers
        if answers is None or answers.start is not self._laid:
            return
        for w, (start, held, size) in enumerate(
            zip(answers.start.tolist(), self.held.tolist(), answers.size.tolist(), strict=True)
        ):
            # the answer is the beginning of what is held, which has room
            assert size <= held <= answers.room[w]
            span = slice(start, start + held)
            rows = [
                *zip(
                    *(array[span].tolist() for array in (answers.good, answers.time, answers.seq)),
                    strict=True,
                )
            ]
            # in order, no row twice
            assert all(a > b for a, b in pairwise(rows))
            # none is older than what is believed to be the oldest
            oldest = int(answers.oldest_time[w]), int(answers.oldest_seq[w])
            assert all((time, seq) >= oldest for _, time, seq in rows)


@inlined
def _inside(time: int, seq: int, horizon: int, edge: int) -> bool:
    """Whether a row is at or after a horizon."""
    return time > horizon or (time == horizon and seq >= edge)


@inlined
def _look(
    fresh: Floats, slots: Ints, ks: Ints, horizon_time: Ints, horizon_seq: Ints, start: Ints, size: Ints, stale: Ints,
    oldest_time: Ints, oldest_seq: Ints, good: Floats, held: Ints, whole: Ints, left: Ints, least: Floats,
) -> None:  # fmt: skip
    """Set LOOK in `left` for the watches to look at, and find how good a new row of each slot must be to matter."""
    for w in range(slots.shape[0]):
        m, slot = held[w], slots[w]
        left[w] = 0
        bar = -np.inf if whole[w] == 1 or m == 0 else good[start[w] + m - 1]
        settled = (
            stale[w] == 0
            and size[w] == min(ks[w], m)
            and (m >= ks[w] or whole[w] == 1)
            and (m == 0 or _inside(oldest_time[w], oldest_seq[w], horizon_time[w], horizon_seq[w]))
            and (fresh[slot] < bar or fresh[slot] == -np.inf)
        )
        if not settled:
            left[w] = LOOK
            least[slot] = min(least[slot], bar)


@kernel
def newcomers(
    begin: int, end: int, seen: int, latest: int, least: float, pool_good: Floats, pool_time: Ints, pool_seq: Ints,
    values: Floats, where: Ints, places: Ints, good: Floats, time: Ints, seq: Ints,
) -> int:  # fmt: skip
    """The candidates that are new and good enough, best first; how many."""
    count = 0
    for place in range(begin, end):
        if (pool_seq[place] > seen or pool_time[place] > latest) and pool_good[place] >= least:
            values[count], where[count] = pool_good[place], place
            count += 1
    best(values, 0, count, count, good, places)  # of equal ones the newer first: they are in order of recency
    for i in range(count):
        place = where[places[i]]
        time[i], seq[i] = pool_time[place], pool_seq[place]
    return count


@kernel
def follow(
    fresh: Floats, stale: Ints, slots: Ints, ks: Ints, horizon_time: Ints, horizon_seq: Ints, start: Ints, room: Ints,
    size: Ints, oldest_time: Ints, oldest_seq: Ints, good: Floats, time: Ints, seq: Ints, held: Ints, whole: Ints,
    pool_good: Floats, pool_time: Ints, pool_seq: Ints, list_start: Ints, list_head: Ints, list_size: Ints,
    seen: Ints, left: Ints,
) -> None:  # fmt: skip
    """Bring answers up to date. Those that must be searched for are SEARCH in `left`, whose last entry counts them; the
    others that may have changed are LOOK."""
    watches = slots.shape[0]
    left[watches] = 0
    least = np.full(list_start.shape[0], np.inf)
    _look(
        fresh, slots, ks, horizon_time, horizon_seq, start, size, stale, oldest_time, oldest_seq, good, held, whole,
        left, least,
    )  # fmt: skip
    longest = max(0, (list_size - list_head).max())
    values, new_good = np.empty(longest), np.empty(longest)
    where, places = np.empty(longest, dtype=np.int64), np.empty(longest, dtype=np.int64)
    new_time, new_seq = np.empty(longest, dtype=np.int64), np.empty(longest, dtype=np.int64)
    current, coming = -1, 0
    for w in range(watches):
        if left[w] == 0:
            continue
        slot, k, m, base = slots[w], ks[w], held[w], start[w]
        horizon, edge = horizon_time[w], horizon_seq[w]
        if slot != current:
            current = slot
            begin, end = list_start[slot] + list_head[slot], list_start[slot] + list_size[slot]
            timeless = begin < end and pool_time[begin] == 0 and pool_time[end - 1] == 0
            coming = newcomers(
                begin, end, seen[0, slot], seen[1, slot], least[slot], pool_good, pool_time, pool_seq,
                values, where, places, new_good, new_time, new_seq,
            )  # fmt: skip
        # without event times all are 0, and need not be looked at
        timed = not (timeless and horizon == 0 and oldest_time[w] == 0)
        gone = 0
        if m > 0 and not _inside(oldest_time[w], oldest_seq[w], horizon, edge):
            if timed:
                for i in range(base, base + m):
                    gone += (time[i] < horizon) | ((time[i] == horizon) & (seq[i] < edge))
            else:
                for i in range(base, base + m):
                    gone += seq[i] < edge
        entering, among = 0, 0  # so many of the first `among` newcomers
        last = base + m - 1
        while among < coming and (
            whole[w] == 1
            or (
                m > 0
                and before(
                    new_good[among], new_time[among], new_seq[among], good[last], time[last], seq[last]
                )
            )
        ):
            if _inside(new_time[among], new_seq[among], horizon, edge):
                places[entering] = among
                entering += 1
            among += 1
        total = m - gone + entering
        if stale[w] == 1 or size[w] > k or (total < k and whole[w] == 0):
            left[w] = SEARCH
            left[watches] += 1
            continue
        if total > room[w]:
            total, whole[w] = room[w], 0
        if gone > 0:
            _close_up(base, m, timed, horizon, edge, good, time, seq)
        _let_in(base, m - gone, entering, total, timed, places, good, time, seq, new_good, new_time, new_seq)
        held[w], size[w] = total, min(k, total)
        anew = gone > 0 or m == 0
        _date(w, base, total, anew, timed, among, oldest_time, oldest_seq, time, seq, new_time, new_seq)
    # a search shows all that is there, also what was retained and came back without a new row
    shown = fresh > -np.inf
    for w in range(watches):
        if left[w] == SEARCH:
            shown[slots[w]] = True
    for slot in range(list_start.shape[0]):
        if shown[slot]:
            for place in range(list_start[slot] + list_head[slot], list_start[slot] + list_size[slot]):
                seen[0, slot] = max(seen[0, slot], pool_seq[place])
                seen[1, slot] = max(seen[1, slot], pool_time[place])


@inlined
def _close_up(
    base: int, m: int, timed: bool, horizon: int, edge: int, good: Floats, time: Ints, seq: Ints
) -> None:
    """Take what has left the window out of what is held."""
    to = base
    while _inside(time[to] if timed else 0, seq[to], horizon, edge):
        to += 1
    for i in range(to, base + m):
        if _inside(time[i] if timed else 0, seq[i], horizon, edge):
            good[to], seq[to] = good[i], seq[i]
            if timed:
                time[to] = time[i]
            to += 1


@inlined
def _let_in(
    base: int, m: int, entering: int, total: int, timed: bool, which: Ints, good: Floats, time: Ints, seq: Ints,
    new_good: Floats, new_time: Ints, new_seq: Ints,
) -> None:  # fmt: skip
    """Put newcomers among the m that are held; `total` ranks are held then. The last newcomer goes first, so that each
    rank that is held moves once."""
    end = m
    for more in range(entering, 0, -1):
        n, place = which[more - 1], end
        while place > 0 and before(
            new_good[n],
            new_time[n],
            new_seq[n],
            good[base + place - 1],
            time[base + place - 1],
            seq[base + place - 1],
        ):
            place -= 1
        for i in range(base + min(end, total - more) - 1, base + place - 1, -1):
            good[i + more], seq[i + more] = good[i], seq[i]
            if timed:
                time[i + more] = time[i]
        rank = place + more - 1
        if rank < total:
            good[base + rank], seq[base + rank] = new_good[n], new_seq[n]
            if timed:
                time[base + rank] = new_time[n]
        end = place
    if not timed:
        for rank in range(m, total):
            time[base + rank] = 0


@inlined
def _date(
    w: int, base: int, total: int, anew: bool, timed: bool, among: int, oldest_time: Ints, oldest_seq: Ints,
    time: Ints, seq: Ints, new_time: Ints, new_seq: Ints,
) -> None:  # fmt: skip
    """The oldest row that is held, or an older one that was: looked for where some have left."""
    if anew and total > 0:
        oldest, its = time[base], seq[base]
        for i in range(base, base + total if not timed else base):
            its = min(its, seq[i])
        for i in range(base, base + total if timed else base):
            if time[i] < oldest or (time[i] == oldest and seq[i] < its):
                oldest, its = time[i], seq[i]
        oldest_time[w], oldest_seq[w] = oldest, its
    elif not anew:
        for j in range(among):  # newcomers may be late
            if not _inside(new_time[j], new_seq[j], oldest_time[w], oldest_seq[w]):
                oldest_time[w], oldest_seq[w] = new_time[j], new_seq[j]
