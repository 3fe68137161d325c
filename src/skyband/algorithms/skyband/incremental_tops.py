"""Answers that follow the rows: what a step brought and took away, put into each watch's answer.

The rule of section 4.2 of Shen, Cheema, Lin, Zhang and Wang for continuous queries, as it must be: what left the window
leaves the answer; a new row comes in if it is before the row that was the answer's last *before* that; only if fewer
than k are left then, the answer is searched for again. In a step of many rows about as many leave as come in, so every
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

from skyband.algorithms.kernels.batch_tops import WAIT, reach_back
from skyband.algorithms.kernels.candidate_lists import Lists, best
from skyband.algorithms.kernels.list_answers import ListAnswers
from skyband.compiling.jit import inlined, kernel
from skyband.compiling.state import State, field, scalar
from skyband.core.exchange import Present
from skyband.core.order import before, first_inside
from skyband.core.types import MINIMUM, Floats, Ints

SEARCH, LOOK = 1, 2  # what is left to do for a watch: search for its answer; look at it, or it was looked at


def ranks_held(ks: Ints) -> Ints:
    """So many ranks are kept for an answer of k."""
    return ks + ks // 2 + 8


class Held(State):
    """How far answers reach below their last rank, by watch; and what watches have seen, by slot."""

    held: Ints = field("i8[watch]")
    whole: Ints = field("i8[watch]")  # 1 if nothing inside the window is missing
    room: Ints = field("i8[watch]")  # ranks that may be held
    left: Ints = field("i8[watch]")  # what is left to do
    # the greatest seq and the latest time that a slot's watches have seen; a new row is beyond one of them, for a late
    # one has a greater seq, and one that had to wait is newer than all others
    seen: Ints = field("i8[slot]")
    latest: Ints = field("i8[slot]")
    searches: int = scalar("i8")  # watches that must be searched for


class Following:
    """Answers that follow the rows of each step."""

    def __init__(self) -> None:
        self.held = Held()
        self.searched = 0  # answers that were searched for
        self._answers: ListAnswers | None = None
        self._laid: Ints | None = None  # the layout that `held` is about
        self._ks: Ints | None = None
        self._rooms, self._most = np.empty(0, dtype=np.int64), 0

    def begin(self, lists: Lists) -> None:
        """Note after a load that the answers are of these lists."""
        self._see(len(lists.start))
        for slot in range(len(lists.start)):
            span = lists.span(slot)
            self.held.seen[slot] = lists.seq[span].max(initial=-1)
            self.held.latest[slot] = lists.time[span].max(initial=MINIMUM)

    def _see(self, slots: int) -> None:
        """Have so many slots, of which new ones have seen nothing."""
        before = len(self.held.seen)
        self.held.grow(slot=slots)
        self.held.seen[before:], self.held.latest[before:] = -1, MINIMUM

    def _fit(self, answers: ListAnswers, lists: Lists, slots: Ints, ks: Ints) -> None:
        """Make room for what is to be held at most. Where the answers were laid out again, only they are held."""
        held = self.held
        if ks is not self._ks:
            self._rooms, self._ks = ranks_held(ks), ks
            self._most = int(self._rooms.max(initial=0))
        rooms = self._rooms
        if len(lists.size) > 1 or lists.live(0) < self._most:  # mostly one list, with enough in it
            rooms = np.minimum(rooms, (lists.size - lists.head)[slots])
        answers.make_room(rooms)
        if answers.start is not self._laid:
            self._laid = answers.start
            held.held, held.whole = answers.size.copy(), np.zeros_like(answers.size)
            held.left = np.zeros_like(answers.size)
        if rooms is not held.room:
            held.room = rooms
        if len(held.seen) < len(lists.start):
            self._see(len(lists.start))

    def present(
        self,
        answers: ListAnswers,
        lists: Lists,
        slots: Ints,
        stale: Ints,
        ks: Ints,
        horizon_time: Ints,
        horizon_seq: Ints,
    ) -> Present:
        """Bring the answers up to date."""
        self._fit(answers, lists, slots, ks)
        self._answers = answers
        answers.lend(slot=slots, stale=stale, k=ks, horizon_time=horizon_time, horizon_seq=horizon_seq)
        follow(self.held, answers, lists)
        left = self.held.left
        if self.held.searches:
            order = np.flatnonzero(left == SEARCH)
            if len(order) > 1:
                keys = horizon_seq[order], horizon_time[order], -slots[order]
                order = order[np.lexsort(keys)[::-1]]
            self.searched += len(order)
            walk_all(order, self.held, answers, lists)
        return answers.shown(np.flatnonzero(left))

    def _check(self) -> None:
        answers = self._answers
        if answers is None or answers.start is not self._laid:
            return
        for w, (start, held, size) in enumerate(
            zip(answers.start.tolist(), self.held.held.tolist(), answers.size.tolist(), strict=True)
        ):
            # the answer is the beginning of what is held, which has room
            assert size <= held <= answers.room[w]
            span = slice(start, start + held)
            columns = [array[span].tolist() for array in (answers.good, answers.time, answers.seq)]
            rows = list(zip(*columns, strict=True))
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
def _look(state: Held, answers: ListAnswers, lists: Lists, least: Floats) -> None:
    """Set LOOK in `left` for the watches to look at, and find how good a new row of each slot must be to matter."""
    good, fresh, left = answers.good, lists.fresh, state.left
    for w in range(answers.slot.shape[0]):
        m, slot, k, whole = state.held[w], answers.slot[w], answers.k[w], state.whole[w] == 1
        bar = -np.inf if whole or m == 0 else good[answers.start[w] + m - 1]
        settled = (
            answers.stale[w] == 0
            and answers.size[w] == min(k, m)
            and (m >= k or whole)
            and (
                m == 0
                or _inside(
                    answers.oldest_time[w],
                    answers.oldest_seq[w],
                    answers.horizon_time[w],
                    answers.horizon_seq[w],
                )
            )
            and (fresh[slot] < bar or fresh[slot] == -np.inf)
        )
        left[w] = 0 if settled else LOOK
        if not settled:
            least[slot] = min(least[slot], bar)


@kernel
def newcomers(
    state: Held, lists: Lists, slot: int, least: float, values: Floats, where: Ints, places: Ints, good: Floats,
    time: Ints, seq: Ints,
) -> int:  # fmt: skip
    """Find the candidates that are new and good enough, best first; return how many."""
    seen, latest = state.seen[slot], state.latest[slot]
    count = 0
    for place in range(lists.start[slot] + lists.head[slot], lists.start[slot] + lists.size[slot]):
        if (lists.seq[place] > seen or lists.time[place] > latest) and lists.good[place] >= least:
            values[count], where[count] = lists.good[place], place
            count += 1
    best(values, 0, count, count, good, places)  # of equal ones the newer first: they are in order of recency
    for i in range(count):
        place = where[places[i]]
        time[i], seq[i] = lists.time[place], lists.seq[place]
    return count


@kernel
def follow(state: Held, answers: ListAnswers, lists: Lists) -> None:
    """Bring answers up to date. Those that must be searched for are SEARCH in `left`, and `searches` counts them; the
    others that may have changed are LOOK."""
    left, whole, held = state.left, state.whole, state.held
    good, time, seq = answers.good, answers.time, answers.seq
    oldest_time, oldest_seq = answers.oldest_time, answers.oldest_seq
    slots, watches = answers.slot, answers.slot.shape[0]
    state.searches = 0
    least = np.full(lists.start.shape[0], np.inf)
    _look(state, answers, lists, least)
    longest = 0
    for slot in range(lists.start.shape[0]):
        longest = max(longest, lists.size[slot] - lists.head[slot])
    values, new_good = np.empty(longest), np.empty(longest)
    where, places = np.empty(longest, dtype=np.int64), np.empty(longest, dtype=np.int64)
    new_time, new_seq = np.empty(longest, dtype=np.int64), np.empty(longest, dtype=np.int64)
    current, coming = -1, 0
    for w in range(watches):
        if left[w] == 0:
            continue
        slot, k, m, base = slots[w], answers.k[w], held[w], answers.start[w]
        horizon, edge = answers.horizon_time[w], answers.horizon_seq[w]
        if slot != current:
            current = slot
            begin, end = lists.start[slot] + lists.head[slot], lists.start[slot] + lists.size[slot]
            timeless = begin < end and lists.time[begin] == 0 and lists.time[end - 1] == 0
            coming = newcomers(
                state, lists, slot, least[slot], values, where, places, new_good, new_time, new_seq
            )
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
        if answers.stale[w] == 1 or answers.size[w] > k or (total < k and whole[w] == 0):
            left[w] = SEARCH
            state.searches += 1
            continue
        if total > state.room[w]:
            total, whole[w] = state.room[w], 0
        if gone > 0:
            _close_up(answers, base, m, timed, horizon, edge)
        _let_in(answers, base, m - gone, entering, total, timed, places, new_good, new_time, new_seq)
        held[w], answers.size[w] = total, min(k, total)
        again = gone > 0 or m == 0
        _date(answers, w, total, again, timed, among, new_time, new_seq)
    # a search finds all that is there, also what was retained and came back without a new row
    shown = lists.fresh > -np.inf
    for w in range(watches):
        if left[w] == SEARCH:
            shown[slots[w]] = True
    for slot in range(lists.start.shape[0]):
        if shown[slot]:
            for place in range(lists.start[slot] + lists.head[slot], lists.start[slot] + lists.size[slot]):
                state.seen[slot] = max(state.seen[slot], lists.seq[place])
                state.latest[slot] = max(state.latest[slot], lists.time[place])


@inlined
def _close_up(answers: ListAnswers, base: int, m: int, timed: bool, horizon: int, edge: int) -> None:
    """Take what has left the window out of what is held."""
    good, time, seq = answers.good, answers.time, answers.seq
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
    answers: ListAnswers, base: int, m: int, entering: int, total: int, timed: bool, which: Ints, new_good: Floats,
    new_time: Ints, new_seq: Ints,
) -> None:  # fmt: skip
    """Put newcomers among the m that are held; `total` ranks are held then. The last newcomer goes first, so that each
    rank that is held moves once."""
    good, time, seq = answers.good, answers.time, answers.seq
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
    answers: ListAnswers, w: int, total: int, again: bool, timed: bool, among: int, new_time: Ints, new_seq: Ints
) -> None:  # fmt: skip
    """Note the oldest row that is held, or an older one that was: it is looked for where some have left."""
    base, time, seq = answers.start[w], answers.time, answers.seq
    oldest_time, oldest_seq = answers.oldest_time, answers.oldest_seq
    if again and total > 0:
        oldest, its = time[base], seq[base]
        for i in range(base, base + total if not timed else base):
            its = min(its, seq[i])
        for i in range(base, base + total if timed else base):
            if time[i] < oldest or (time[i] == oldest and seq[i] < its):
                oldest, its = time[i], seq[i]
        oldest_time[w], oldest_seq[w] = oldest, its
    elif not again:
        for j in range(among):  # newcomers may be late
            if not _inside(new_time[j], new_seq[j], oldest_time[w], oldest_seq[w]):
                oldest_time[w], oldest_seq[w] = new_time[j], new_seq[j]


@kernel
def walk_all(order: Ints, state: Held, answers: ListAnswers, lists: Lists) -> None:
    """Search for the answers of watches in this order: by slot, in each the newest horizon first. As many ranks below
    each answer are held as there is room for."""
    room = state.room
    most = 0
    for w in order:
        most = max(most, room[w])
    scores, places = np.empty(most + 1), np.empty(most + 1, dtype=np.int64)
    new_scores, new_places = np.empty(WAIT), np.empty(WAIT, dtype=np.int64)
    at, known, slot = 0, 0, -1
    for w in order:
        horizon, edge = answers.horizon_time[w], answers.horizon_seq[w]
        if slot != answers.slot[w]:
            slot = answers.slot[w]
            begin, end = lists.start[slot] + lists.head[slot], lists.start[slot] + lists.size[slot]
            inside = first_inside(lists.time, lists.seq, begin, end, horizon, edge)
            known = best(lists.good, inside, end, most, scores, places)
        else:
            inside = first_inside(lists.time, lists.seq, begin, at + 1, horizon, edge)
            known = reach_back(lists.good, at, inside, scores, places, known, most, new_scores, new_places)
        at = inside - 1
        more, base = min(room[w], known), answers.start[w]
        for j in range(more):
            place = places[j]
            answers.good[base + j] = scores[j]
            answers.time[base + j], answers.seq[base + j] = lists.time[place], lists.seq[place]
        if more > 0:  # the list is in order of recency
            least = places[0]
            for j in range(1, more):
                least = min(least, places[j])
            answers.oldest_time[w], answers.oldest_seq[w] = lists.time[least], lists.seq[least]
        answers.size[w], state.held[w] = min(answers.k[w], known), more
        state.whole[w] = known <= room[w] and known < most
