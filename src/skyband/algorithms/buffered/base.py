"""Shared by the six buffered algorithms: a recent buffer, a filter for each query, two attempts for each row.

**Problem.** Every row is undominated when it arrives, being the newest, so `sa` and `ra` insert every row, and remove
most of them again soon.

**Idea** (Böhm et al. 2007; Pripužić, Podnar Žarko and Aberer 2015, section 5). The newest rows stay in a *recent
buffer*, one for all queries. Of these, each query has a small *filter* (filters.py). On arrival a row is handed to the
query's skyband if it is among the k best of the filter: the *first attempt*. Otherwise it stays in the buffer only.
When it leaves the buffer it is handed on unless k rows of the filter are at least as good: those are newer, so it is
dominated for ever. This is the *second attempt*. Most rows are compared twice and never handed on.

**Why that is exact.** A row that stays in the buffer only is dominated by k rows of the buffer at the time of its
arrival. While they are in the window it can't be in an answer, and they are, at least until it leaves the buffer, if
two
buffers are no longer than the window (and one row). So the buffer is a window itself, of at most half the length:
Rows(b) or Last(B), and the stream computes where it begins as for any window. It is a range of the recency order, not
of arrival, so late rows need no special treatment: a row that leaves it is older than everything in it, and a row that
arrives too late for it has its second attempt at once.

This argument holds for one window that is full. Watches of one slot may have other windows and beginnings; predicates
and late rows let row windows advance by more than the buffer did. So it is checked at every step: `Recent.relied`
is the recency from which on rows may have kept others in the buffer. If a watch's window begins after that, the slot is
*mended*: the rows of the buffer that are not dominated there are handed on, and the filter forgets the rows before the
watch's window. With 2b <= n + 1 and one full window this never happens.

**A step** is a batch. First, filters lose the rows that left the buffer. Then they receive the new rows. Then all rows
that left have their second attempt against the filter, new rows included. Rows that are too old for the buffer when
their batch is over have the second attempt only. With batches of one row that is the paper's order, but for the second
attempt, which there precedes the new row.

**Query index** (query_index/index.py). A filter needs only a bar: rows below it change neither filter nor skyband. With
enough queries of a score that compiles, rows are looked up in an index of these bars, when they arrive and when they
leave the buffer. A region that has grown is entered again before that, one that has shrunk only when it has shrunk
much. The region of a probable filter changes all the time, so it is entered four times as large as it is, and in larger
cells: scoring a row for a few queries more costs less than entering a region. A filter with fewer than k rows receives
every row.

**What is kept.** The rows of the buffer, once; for each query its skyband without most of the rows in the buffer,
about k(1 + ln(n/b)), and its filter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from skyband.algorithms.arrivals import Arrivals
from skyband.algorithms.base import ListAlgorithm
from skyband.algorithms.buffered.filters import PROBABLE, STRICT, refill, regions, shed
from skyband.algorithms.buffered.probabilistic_filter import WAIT, Filters
from skyband.algorithms.buffered.transfer import serving
from skyband.algorithms.contract import FUSE_MEMBERS, FUSE_SCORES
from skyband.algorithms.kernels.batch_skyband import Picks
from skyband.algorithms.kernels.capacity import limit_for
from skyband.algorithms.kernels.list_answers import ListAnswers
from skyband.algorithms.kernels.recent_buffer import Recent, begins_after, buffer_rows, buffer_time, too_long
from skyband.algorithms.query_index.index import COARSE, INSIDE, QueryIndex
from skyband.algorithms.query_index.loops import Kernels, indexable, kernels
from skyband.algorithms.skyband import ra, sa
from skyband.core.exchange import Present
from skyband.core.types import LOWEST, Floats, Ints, Recency
from skyband.query.expression.score_space import Space
from skyband.query.window import Last, Rows, Window

SHARE = 0.05  # the buffer's share of the window: the paper's 2,000 of 40,000 rows
FEW = 16  # no index for fewer queries
NAMED = 128  # slots in a cell's short list
LEARN = 256  # rows from which an index can learn
GROWTH = 2.0  # a region is entered so many times as large as it is now
# the same for probable filters, whose regions change with every row that they lose
LIKELY_GROWTH, LIKELY_LOOSE = 4.0, 16.0
FEWER = 16  # filters for each one that ran short: if more run short at once, they would again soon
TOGETHER = 64  # slots whose scores of a step are computed at once
FILTER_ERROR = 0.1  # rows that a probable filter may lack in a buffer's worth of rows
LOOSE = 5.0  # and again when the entered one is so many times as large


def first_limit(k: int) -> int:
    """Return the number of a relaxed list's candidates before its first sweep."""
    return 4 * k


def room_for(k: int) -> int:
    """Return the rows beyond the first k in a probable filter: `pa`'s limit, for a buffer as the window.

    If the filter lacks one of the buffer's k best rows, a row is handed on in vain, but no answer is wrong, so the
    error may be a hundred times what `pa` allows.
    """
    return limit_for(k, FILTER_ERROR)


class Buffered(ListAlgorithm):
    """A recent buffer and filters before the skyband of `sa` or `ra`; the subclass decides which."""

    spaced: ClassVar[bool] = True
    relaxed: ClassVar[bool]  # whether the skyband is that of `ra`
    kind: ClassVar[int]  # of the filter

    def __init__(self, options: Mapping[str, float], space: Space) -> None:
        super().__init__(options)
        self.space = space
        self.recent = Recent(len(space.columns))
        self.edge = LOWEST  # where the buffer begins, set before each step
        self.filters = Filters(counted=True)
        self.constants = np.zeros((0, 0))
        self.fresh_slot = np.empty(0, dtype=bool)
        self.index: QueryIndex | None = None
        self._kernels: Kernels | None = None
        self.base = 3 if self.relaxed else 2  # the filter's counters come after the skyband's
        self._place = np.empty(0, dtype=np.int64)  # empty: rows are marked when they arrive
        self._mark = np.zeros(1, dtype=np.uint8)
        self._picked = Picks()  # scratch: rows that a filter picked
        self._near, self._passed = Picks(), Picks()  # scratch: for filters that are filled from the buffer
        # for look-ups, by slot: the bars of rows that arrive and leave; which regions are entered, and how wide
        self._come = self._go = self._bars = np.empty(0, dtype=np.float64)
        self._every = self._moved = np.empty(0, dtype=np.int64)
        self._used: Ints | None = None  # slots in use; None: they have changed
        self._ready = 0  # rows that a stage may have, with the present scratch memory
        self._places = np.empty(0, dtype=np.int64)  # 0, 1, 2 …: those of the buffer
        self._after = np.empty(0, dtype=bool)  # by watch: its window begins after `relied`

    # -- slots ---------------------------------------------------------------------------------------------

    def recent_of(self, windows: Sequence[Window]) -> tuple[Window, ...]:
        """Return the buffer of watches with these windows, as a window: it begins where the shortest of these
        begins."""
        found: list[Window] = []
        for window in windows:
            if isinstance(window, Rows):
                found.append(Rows(buffer_rows(self.options["buffer"], window.n)))
            else:
                found.append(Last(buffer_time(self.options["buffer"], window.nanoseconds)))
        return tuple(dict.fromkeys(found))

    @classmethod
    def unfit(cls, options: Mapping[str, float], window: Window) -> str | None:
        return too_long(options["buffer"], window)

    def add(self, k: int) -> int:
        slot = super().add(k)
        if slot == len(self.fresh_slot):
            self.filters.add()
            self.fresh_slot = np.append(self.fresh_slot, False)
        self._clear_filter(slot)
        self.filters.floor_time[slot], self.filters.floor_seq[slot] = LOWEST
        self.fresh_slot[slot] = True
        return slot

    def _clear_filter(self, slot: int) -> None:
        k, filters = int(self.ks[slot]), self.filters
        self._used, self._ready = None, 0
        filters.clear(slot)
        filters.cap[slot] = int(self.options.get("limit", 0)) or room_for(k)
        filters.threshold[slot] = filters.need[slot] = -np.inf
        filters.limit[slot] = first_limit(k)
        filters.oldest_time[slot] = filters.oldest_seq[slot] = 2**63 - 1
        if self.kind == PROBABLE:
            filters.reserve(slot, k + int(filters.cap[slot]) + 1)
        if self.index is not None:
            self.index.forget(np.array([slot]))

    def first_limit(self, k: int) -> int:
        return first_limit(k) if self.relaxed else 0

    def resize(self, slot: int, k: int) -> None:
        """Set the slot's k. Counters and limits of a filter depend on k: it restarts, and the buffer's rows are
        considered again."""
        super().resize(slot, k)
        if self.relaxed:
            limit = self.lists.limit
            limit[slot] = max(int(limit[slot]), self.lists.live(slot) - k + 1)
        self._clear_filter(slot)

    def remove(self, slot: int) -> None:
        super().remove(slot)
        self._used, self._ready = None, 0
        self.filters.clear(slot)
        if self.index is not None:
            self.index.forget(np.array([slot]))

    # -- a step --------------------------------------------------------------------------------------------

    @property
    def absorb(self) -> Any:
        return ra.absorb if self.relaxed else sa.absorb

    def states(self) -> tuple[Any, ...]:
        return (self.lists, float(self.options["gamma"])) if self.relaxed else (self.lists,)

    def step(
        self,
        rows: Arrivals | None,
        horizon_time: Ints,
        horizon_seq: Ints,
        deleted_time: Ints,
        deleted_seq: Ints,
    ) -> None:
        self.expire_all(horizon_time, horizon_seq)
        self.insert(rows)

    def insert(self, rows: Arrivals | None) -> None:
        self.lists.fresh.fill(-np.inf)
        new = self.fresh_slot
        if new.any():
            self.filters.floor_time[new] = self.lists.horizon_time[new]
            self.filters.floor_seq[new] = self.lists.horizon_seq[new]
            self.fresh_slot = np.zeros(len(new), dtype=bool)
        if self._used is None:
            self._used = np.flatnonzero(self.ks)
        used = self._used
        if rows is None or len(rows) == 0:
            none = np.empty(0, dtype=np.int64)
            stages = self.recent.move(tuple(np.empty(0) for _ in self.space.columns), none, none, self.edge)
        else:
            stages = self.recent.move(rows.oldest_first(), rows.time[::-1], rows.seq[::-1], self.edge)
            if len(rows) == len(rows.mark):
                rows.mark.fill(1)
            else:
                rows.mark[rows.place] = 1
            self.constants = rows.constants
            self.scored += len(used) * len(rows)
        for _ in stages:
            if len(used):
                self._stage(used)

    def _stage(self, used: Ints) -> None:
        """Process rows that entered and rows that left the buffer."""
        recent = self.recent
        if len(self._come) != len(self.ks):
            self.filters.lower.fill(-np.inf)
            self._come, self._go, self._bars = (np.empty(len(self.ks)) for _ in range(3))
            self._every, self._moved = np.arange(len(self.ks)), np.empty(len(self.ks), dtype=np.int64)
        open_ = shed(self.kind, *recent.edge, self._filters(), self.lists, self._moved)
        if 0 < FEWER * open_ <= len(used) and self.kind == PROBABLE and self.index is not None:
            self._refill(self._moved[:open_])
        if recent.end - max(recent.came, recent.head) or recent.head - recent.left:
            self._meet(used)

    def _refill(self, slots: Ints) -> None:
        """Fill probable filters that lost too many rows at once with the best rows of the buffer."""
        recent = self.recent
        begin, end = recent.head, max(recent.came, recent.head)
        for scratch, room in (
            (self._near, end - begin + 1),
            (self._passed, end - begin + 1),
            (self.picks, WAIT),
        ):
            if len(scratch.row) < room:
                scratch.grow(row=2 * room)
        if len(self._places) < end:
            self._places = np.arange(2 * end)
        self.rows.hold(recent.time, recent.seq, self._place, self._mark)
        refill(
            slots, self._places[begin:end], self._matrix(slots, begin, end), self.rows, self._filters(), self.lists,
            self._near, self._passed, self.picks,
        )  # fmt: skip

    def _filters(self) -> Filters:
        """Return the filters, with the numbers that kernels read."""
        self.filters.base, self.filters.gamma = self.base, float(self.options.get("gamma", 0.0))
        return self.filters

    def _meet(self, used: Ints) -> None:
        """Offer new rows to the filters; make the second attempt for rows that leave."""
        recent = self.recent
        begin = max(recent.came, recent.head)
        most = recent.end - begin + recent.head - recent.left
        if most > self._ready:
            self._prepare(most)
        index = self._indexed(used)
        if index is None:
            self._meet_all(used)
            return
        waiting = self._enter(index)
        if waiting < len(used):
            self._look_up(index)
        if waiting:
            self._meet_all(used[np.isnan(self._come[used])])
            self._enter(index)

    def _prepare(self, most: int) -> None:
        """Make scratch memory for a stage of so many rows."""
        self._scratch(most)
        picks = self.picks
        if len(picks.row) < 2 * most + WAIT:
            picks.grow(row=2 * most + WAIT)
        held = len(picks.heap)
        if len(self._picked.row) < len(picks.row):
            self._picked.grow(row=len(picks.row))
        if len(self.filters.newest_time) < held:
            self.filters.grow(rank=held)
        # a heap that is shorter than a slot's k may have to grow as lists do
        self._ready = most if held >= self.ks.max() else 0

    def _enter(self, index: QueryIndex) -> int:
        """Enter the regions that have grown, and those that have shrunk much, somewhat wider than they are.

        Returns the number of open filters, which have fewer than k rows and take every row.
        """
        growth, loose = (LIKELY_GROWTH, LIKELY_LOOSE) if self.kind == PROBABLE else (GROWTH, LOOSE)
        open_, moved, unknown = regions(
            self.ks, self.kind, self.filters, index.bar, self._wider(growth), self._wider(loose), self._come, self._go,
            self._moved, self._bars,
        )  # fmt: skip
        if moved:
            index.register(self._moved[:moved], self._bars[:moved], self.constants, known=unknown == 0)
        return int(open_)

    def _meet_all(self, slots: Ints) -> None:
        """Offer every row to these slots."""
        recent = self.recent
        begin = max(recent.came, recent.head)
        fresh = recent.fresh()
        rows = np.arange(begin, recent.end, dtype=np.int64)
        if fresh is not None:
            rows = rows[fresh[begin - recent.came :]]
        gone = np.arange(recent.left, recent.head, dtype=np.int64)
        for first in range(0, len(slots), TOGETHER):
            part = slots[first : first + TOGETHER]
            come = self._matrix(part, begin, recent.end)
            if fresh is not None:
                come = come[:, rows - begin]
            leave = self._matrix(part, recent.left, recent.head)
            lines = np.arange(len(part) + 1)
            self._serve(
                part, lines * len(rows), np.tile(rows, len(part)), come.ravel(),
                lines * len(gone), np.tile(gone, len(part)), leave.ravel(),
            )  # fmt: skip

    def _serve(
        self, slots: Ints, come_start: Ints, come_rows: Ints, come: Floats, go_start: Ints, go_rows: Ints, go: Floats
    ) -> None:  # fmt: skip
        serve = serving(self.absorb, self.kind)
        recent = self.recent
        self.rows.hold(recent.time, recent.seq, self._place, self._mark)
        progress, filters = np.zeros(4, dtype=np.int64), self._filters()
        at = 0
        while True:
            at, short = serve(
                at, slots, come_start, come_rows, come, go_start, go_rows, go, progress, filters, self._picked,
                self.picks, self.rows, *self.states(),
            )  # fmt: skip
            if short == 0:
                return
            slot = int(slots[at])
            if short == 1:
                self.filters.reserve(slot, 2 * int(self.filters.room[slot]))
            else:
                self.lists.reserve(slot)

    def scores(self, slot: int, begin: int, end: int) -> Floats:
        """Return the slot's scores of some rows of the buffer."""
        found: Floats = self._matrix(np.array([slot]), begin, end)[0]
        return found

    def _matrix(self, slots: Ints, begin: int, end: int) -> Floats:
        """Return scores of some rows of the buffer, a line for each slot, and in the last line their greatest."""
        out = np.empty((len(slots), end - begin))
        if begin == end or (self.constants.shape[1] and slots[-1] >= len(self.constants)):
            out.fill(np.nan)
            return out
        if self._compiled is not None:
            self._compiled.matrix(
                slots, begin, end, *self.recent.columns, self.constants, self.space.sign, out
            )  # fmt: skip
            return out
        part = self.recent.part(begin, end)
        if not self.constants.shape[1]:  # all queries have the same score
            out[:] = self.space.good(part, ())
            return out
        for line, slot in enumerate(slots.tolist()):
            out[line] = self.space.good(part, self.constants[slot])
        return out

    @property
    def _compiled(self) -> Kernels | None:
        """Return compiled scoring, once it pays."""
        if self._kernels is not None:
            return self._kernels
        pays = self.scored >= FUSE_SCORES or np.count_nonzero(self.ks) >= FUSE_MEMBERS
        if pays and indexable(self.space):
            self._kernels = kernels(self.space, self.constants.shape[1])
        return self._kernels

    # -- the index -----------------------------------------------------------------------------------------

    def _indexed(self, used: Ints) -> QueryIndex | None:
        """Return the index of bars, made when there are enough queries and rows for it."""
        if len(used) < FEW:
            return None
        recent, index = self.recent, self.index
        if index is None:
            cells = int(self.options["cells"])
            if cells == 1 or len(recent) < LEARN or not indexable(self.space):
                return None
            share = float(np.median(self.ks[used] + self.filters.cap[used])) / len(recent)
            # a probable filter's region reaches to its worst row, and changes with every row that it loses
            inside = COARSE if self.kind == PROBABLE else INSIDE
            index = self.index = QueryIndex(
                self.space, self.constants.shape[1], cells, min(share, 1.0), inside, NAMED
            )
        if len(index.bar) < len(self.ks):
            index.provide(len(self.ks))
        if not index.ready or index.due(len(recent)):
            index.learn(recent.part(recent.head, recent.end))
        return index

    def _look_up(self, index: QueryIndex) -> None:
        """Offer rows to the slots that the index names."""
        recent = self.recent
        starts, rows, values, *gone = index.look_up_both(
            tuple(recent.columns), self.constants,
            (max(recent.came, recent.head), recent.end, self._come), (recent.left, recent.head, self._go),
        )  # fmt: skip
        fresh = recent.fresh()
        if fresh is not None:
            rows, values = rows[: starts[-1]], values[: starts[-1]]
            mine = fresh[rows - recent.came]
            counted = np.concatenate([[0], np.cumsum(mine)])
            starts, rows, values = counted[starts], rows[mine], values[mine]
        self._serve(self._every, starts, rows, values, *gone)

    def _wider(self, times: float) -> float:
        """Return by what part of its width a region grows that becomes so many times as large, if it is about equally
        wide along each axis."""
        return float(times ** (1 / len(self.space.columns)) - 1)

    # -- answers -------------------------------------------------------------------------------------------

    def present(
        self,
        answers: ListAnswers,
        slots: Ints,
        stale: Ints,
        ks: Ints,
        horizon_time: Ints,
        horizon_seq: Ints,
    ) -> Present:
        after = self._after
        if len(after) != len(horizon_time):
            after = self._after = np.empty(len(horizon_time), dtype=bool)
        if len(self.recent) and begins_after(
            slots,
            horizon_time,
            horizon_seq,
            *self.recent.relied,
            self.filters.floor_time,
            self.filters.floor_seq,
            after,
        ):
            for slot in dict.fromkeys(slots[after].tolist()):
                mine = after & (slots == slot)
                horizons = zip(horizon_time[mine].tolist(), horizon_seq[mine].tolist(), strict=True)
                self.mend(slot, Recency(*max(horizons)))
        return super().present(answers, slots, stale, ks, horizon_time, horizon_seq)

    def mend(self, slot: int, horizon: Recency) -> None:
        """Hand on the buffer's rows that are not dominated there; the filter forgets the rows before the horizon."""
        recent, lists = self.recent, self.lists
        begin = recent.since(self._horizon(slot))
        good = np.ascontiguousarray(self.scores(slot, begin, recent.end)[::-1])
        self._scratch(max(len(good), 1))
        picks, k = self.picks, int(self.ks[slot])
        count = picks.select(good, len(good), k)
        rows = recent.end - 1 - picks.row[:count]
        there = np.isin(recent.seq[rows], lists.seq[lists.span(slot)])
        rows, values = rows[~there], picks.good[:count][~there]
        if len(rows):
            picks.row[: len(rows)], picks.good[: len(rows)] = rows, values
            picks.heap[0] = -np.inf if len(values) < k else np.sort(values)[-k]
            self.rows.hold(recent.time, recent.seq, self._place, self._mark)
            self._take(slot, len(rows))
        self.filters.floor_time[slot], self.filters.floor_seq[slot] = horizon
        self._clear_filter(slot)

    def _horizon(self, slot: int) -> Recency:
        return Recency(int(self.lists.horizon_time[slot]), int(self.lists.horizon_seq[slot]))

    def top(self, slot: int, k: int, horizon: Recency) -> tuple[Floats, Ints, Ints]:
        recent = self.recent
        floor = Recency(int(self.filters.floor_time[slot]), int(self.filters.floor_seq[slot]))
        if k <= self.ks[slot] and (horizon <= recent.relied or horizon <= floor):
            return super().top(slot, k, horizon)
        good, time, seq = super().top(slot, self.lists.live(slot), horizon)
        begin = recent.since(max(horizon, self._horizon(slot)))
        more = self.scores(slot, begin, recent.end)
        other = ~np.isnan(more) & ~np.isin(recent.seq[begin : recent.end], seq)
        good = np.concatenate([good, more[other]])
        time = np.concatenate([time, recent.time[begin : recent.end][other]])
        seq = np.concatenate([seq, recent.seq[begin : recent.end][other]])
        best = np.lexsort((seq, time, good))[::-1][:k]
        return good[best], time[best], seq[best]

    def rebuild(self, slot: int, good: Floats, time: Ints, seq: Ints) -> None:
        """Restart the skyband; the filter is filled by rows that arrive later."""
        super().rebuild(slot, good, time, seq)
        self._clear_filter(slot)

    def seqs(self) -> Ints:
        return np.concatenate([super().seqs(), self.recent.seq[self.recent.head : self.recent.end]])

    def size(self, slot: int) -> tuple[int, int]:
        return self.lists.live(slot), self.lists.bytes(slot) + self.filters.bytes(slot)

    def buffer_size(self) -> tuple[int, int]:
        """Return rows and bytes that all queries share: the buffer and the index."""
        return len(self.recent), self.recent.bytes() + (0 if self.index is None else self.index.bytes())

    # -- keeping -------------------------------------------------------------------------------------------

    _SLOTS = ("cap", "oldest_time", "oldest_seq", "floor_time", "floor_seq", "threshold", "need")

    def dump(self) -> dict[str, Any]:
        return {
            **super().dump(),
            **{name: getattr(self.filters, name).copy() for name in self._SLOTS},
            "filter_limit": self.filters.limit.copy(),
            "fresh_slot": self.fresh_slot.copy(),
            **{f"filter_{name}": array for name, array in self.filters.dump().items()},
            **{f"recent_{name}": array for name, array in self.recent.dump().items()},
            "constants": self.constants.copy(),
        }

    def load(self, blob: Mapping[str, Any]) -> None:
        super().load(blob)
        for part, prefix in ((self.filters, "filter_"), (self.recent, "recent_")):
            found = {n.removeprefix(prefix): a for n, a in blob.items() if n.startswith(prefix)}
            part.load(found)
        for name in self._SLOTS:
            setattr(self.filters, name, blob[name].copy())
        self.filters.limit, self.fresh_slot = blob["filter_limit"].copy(), blob["fresh_slot"].copy()
        if self.kind == PROBABLE:  # room as `_clear_filter` makes it
            for slot in np.flatnonzero(self.ks).tolist():
                self.filters.reserve(slot, int(self.ks[slot] + self.filters.cap[slot]) + 1)
        self.constants = blob["constants"].copy()
        self.edge = self.recent.edge
        self.index = self._used = None
        self._come, self._ready = np.empty(0), 0

    def _check(self) -> None:
        super()._check()
        self.recent._check()
        self.filters._check()
        recent = self.recent
        here = set(recent.seq[recent.head : recent.end].tolist())
        for slot in np.flatnonzero(self.ks).tolist():
            span = self.filters.span(slot)
            time, seq = self.filters.time[span], self.filters.seq[span]
            # a filter is a part of the buffer, and of its slot's window
            assert set(seq.tolist()) <= here
            floor = int(self.filters.floor_time[slot]), int(self.filters.floor_seq[slot])
            assert all(r >= floor for r in zip(time.tolist(), seq.tolist(), strict=True))
            # a probable filter has no more rows than its room
            if self.kind == PROBABLE:
                assert len(seq) <= self.ks[slot] + self.filters.cap[slot] <= self.filters.room[slot]
                assert not len(seq) or self.filters.threshold[slot] <= self.filters.good[span][0]
            # a strict filter has the right counts of dominators
            if self.kind == STRICT:
                good, count = self.filters.good[span], self.filters.count[span]
                for i in range(len(seq)):
                    newer = (time > time[i]) | ((time == time[i]) & (seq > seq[i]))
                    assert np.count_nonzero(newer & (good >= good[i])) <= count[i] < self.ks[slot]
        if self.index is not None and self.index.ready and len(self.constants):
            self.index._check(
                recent.part(recent.head, recent.end), lambda slot: self.scores(slot, recent.head, recent.end)
            )
