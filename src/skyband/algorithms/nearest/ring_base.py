"""The base of `snn`: the window's rows in a ring, a query index before them, and a short list for each query.

It is made for nearest neighbours (Mouratidis and Papadias 2007): each query has a point and needs only rows within
a circle around it, the *bar* in terms of scores. It keeps all rows of the window, so that a list that has run short
can be filled again. The score need not be a distance: any score that compiles is indexed, and any other one is computed
for every row.

**A step.** New rows are written to the ring and looked up in the query index (query_index/index.py). Each row is
offered to the queries that the index names, usually none. Then lists lose the rows that have left the window, and
the queries whose lists ran short are searched for: all rows of the window are scored, in blocks, and blocks without a
row better than the worst one held are skipped in vector instructions. That costs more than reading a few cells of a
grid would, but rows need not be kept in cells, which costs every row; with some slack in the lists searches are rare.

**The bar** is set by a search, or when a list that had everything first has as many rows as a search looks for, and
then stays. While it stays the index needs no update. A bar that lets far too many rows in is raised to the list's own.

Lists are those of kernels/barred_lists.py. A subclass says how many rows a search finds (`keep`), and how many of them
go into a list (`usual`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from skyband.algorithms.contract import FUSE_SCORES_CACHED
from skyband.algorithms.kernels.barred_lists import Bars, arrive, expire, horizon_of, settle_all
from skyband.algorithms.kernels.best_rows import Found
from skyband.algorithms.kernels.ranked_lists import Ranked
from skyband.algorithms.kernels.recent_buffer import Recent
from skyband.algorithms.query_index.index import QueryIndex
from skyband.algorithms.query_index.loops import Kernels, indexable, kernels
from skyband.algorithms.window_base import WindowAlgorithm
from skyband.compiling.jit import inlined, kernel
from skyband.core.types import LOWEST, MINIMUM, Floats, Ints, Recency
from skyband.query.expression.score_space import Space

SEARCHED, SEARCHES, SCORED, ADMITTED = range(4)
FEW = 16  # no index for fewer queries
LEARN = 256  # rows from which an index can learn
TOGETHER = 64  # queries whose scores of a step are computed at once
BURST = 8  # a query that takes every row is searched for when a batch is so many times its list
PLENTY = 16  # a list may have so many times the rows that a search finds
LOOSE = 0.2  # a region is entered again when it has shrunk by this part
LONG_AGO = -(2**62)
MOST_AHEAD = 16  # times the usual slack, for a query that is searched for again and again
AGAIN = 2  # a query that runs short within so many windows of its last search looks further ahead
LASTED = 8  # and after so many windows less far
_BARS, _SLOTS = ("bar", "bar_time", "bar_seq", "complete"), ("ahead", "searched")


inlined_arrive = inlined(arrive.function)


@kernel
def come(
    at: int, first: int, slots: Ints, starts: Ints, rows: Ints, values: Floats, times: Ints, seqs: Ints, bars: Bars,
    ranked: Ranked,
) -> tuple[int, int]:  # fmt: skip
    """Offer rows to lists, slot after slot; stop where a list has no room."""
    for t in range(at, slots.shape[0]):
        slot = slots[t]
        since, number = bars.horizon_time[slot], bars.horizon_seq[slot]
        for i in range(first if t == at else starts[t], starts[t + 1]):
            time, seq = times[rows[i]], seqs[rows[i]]
            if time < since or (time == since and seq < number):
                continue
            if inlined_arrive(slot, values[i], time, seq, bars, ranked):
                return t, i
    return slots.shape[0], 0


class Ringed(WindowAlgorithm):
    """Rows in a ring; the subclass decides what a list holds."""

    def __init__(self, options: Mapping[str, float], space: Space) -> None:
        super().__init__(options, space)
        self.ranked = Ranked(counted=True)
        self.store = Recent(len(space.columns))
        self.index: QueryIndex | None = None
        self._kernels: Kernels | None = None
        self.scored_rows = 0  # rows scored in numpy
        self.bars = Bars()
        self.found = Found()
        self.ahead = np.empty(0, dtype=np.int64)  # how many times the usual slack a search looks for
        self.searched = np.empty(0, dtype=np.int64)  # the newest seq when a slot was last searched for
        self._usual = np.empty(0, dtype=np.int64)  # `usual()`, until a query is added or changes
        self.moved = True  # some bar differs from the one in the index
        self.sure = False  # every slot has a bar, and the index has it
        self.tried = 0  # rows in the store when queries without a bar were last searched for

    # -- what a subclass brings ----------------------------------------------------------------------------

    def keep(self) -> Ints:
        return self.ks

    def usual(self) -> Ints:
        """Return how many of the rows that a search finds go into a list."""
        return self.keep()

    # -- slots ---------------------------------------------------------------------------------------------

    def opened(self, slot: int) -> None:
        slots = len(self.ks)
        self.bars.grow(slot=slots)
        for name in ("ahead", "searched"):
            old = getattr(self, name)
            if len(old) < slots:
                setattr(self, name, np.concatenate([old, np.zeros(slots - len(old), dtype=old.dtype)]))
        self.bars.lost[slot] = 0
        self.ahead[slot], self.searched[slot] = 1, LONG_AGO
        self.sure = False
        self._usual = np.empty(0, dtype=np.int64)
        if self.index is not None:
            self.index.forget(np.array([slot]))
        self.search(np.array([slot], dtype=np.int64))

    def resized(self, slot: int) -> None:
        self.sure = False
        self._usual = np.empty(0, dtype=np.int64)
        self.search(np.array([slot], dtype=np.int64))

    def closed(self, slot: int) -> None:
        self.bars.complete[slot] = self.bars.lost[slot] = 0
        self.sure = False
        if self.index is not None:
            self.index.forget(np.array([slot]))

    # -- a step --------------------------------------------------------------------------------------------

    def window_step(
        self, columns: tuple[Floats, ...], time: Ints, seq: Ints, deleted_time: Ints, deleted_seq: Ints
    ) -> None:
        self.sure = False
        self._flooded(len(time))
        used = np.flatnonzero(self.ks)
        horizon = self.oldest_horizon()
        if horizon < self.store.edge:
            self.store.reopen()
        for _ in self.store.move(columns, time, seq, horizon):
            if len(used) and self.store.end > max(self.store.came, self.store.head):
                self._meet(used)
        self._settle(used)

    def _settle(self, used: Ints) -> None:
        """Remove the rows that have left from the lists; search for those that are short."""
        expire(self.bars.lent(self), self.ranked)
        short = np.flatnonzero(self.bars.lost)
        if len(short):
            self.bars.lost[short] = 0
            self.search(short)
        self._bars(used)

    def oldest_horizon(self) -> Recency:
        time, seq, _ = horizon_of(self.ks, self.horizon_time, self.horizon_seq)
        return Recency(time, seq)

    def _flooded(self, rows: int) -> None:
        """Search for queries that take every row instead of offering them a large batch row by row."""
        if self.bars.complete.any():
            slots = np.flatnonzero((self.bars.complete > 0) & (self.ks > 0) & (rows > BURST * self.keep()))
            self.bars.bar[slots], self.bars.complete[slots], self.bars.lost[slots] = np.nan, 0, 1

    def _meet(self, used: Ints) -> None:
        """Offer new rows to the queries that the index names."""
        store, index = self.store, self._indexed(used)
        begin = max(store.came, store.head)
        fresh = store.fresh()
        every = used[~np.isnan(self.bars.bar[used])]
        if index is not None:
            known = index.bar[every] <= self.bars.bar[every]
            least = np.full(len(self.ks), np.nan)
            least[every[known]] = self.bars.bar[every[known]]
            starts, rows, values = index.look_up(
                tuple(store.columns), begin, store.end, self.constants, least
            )
            if fresh is not None:
                mine = fresh[rows - store.came]
                starts = np.concatenate([[0], np.cumsum(mine)])[starts]
                rows, values = rows[mine], values[mine]
            every = every[~known]
            if len(rows):
                met = np.diff(starts)
                todo = np.flatnonzero(met)
                self.counts[todo, SCORED] += met[todo]
                self._come(todo, np.append(starts[todo], starts[-1]), rows, values)
        if len(every):
            self._meet_all(every, begin, fresh)

    def _meet_all(self, slots: Ints, begin: int, fresh: Any) -> None:
        """Offer every row to these queries."""
        store = self.store
        rows = np.arange(begin, store.end, dtype=np.int64)
        if fresh is not None:
            rows = rows[fresh[begin - store.came :]]
        for first in range(0, len(slots), TOGETHER):
            part = slots[first : first + TOGETHER]
            values = self._matrix(part, begin, store.end)
            if fresh is not None:
                values = values[:, rows - begin]
            self.counts[part, SCORED] += len(rows)
            hits = values >= self.bars.bar[part][:, None]
            starts = np.concatenate([[0], np.cumsum(np.count_nonzero(hits, axis=1))])
            line, column = np.nonzero(hits)
            self._come(part, starts, rows[column], values[line, column])

    def _come(self, slots: Ints, starts: Ints, rows: Ints, values: Floats) -> None:
        at, row = 0, int(starts[0]) if len(starts) else 0
        while at < len(slots):
            at, row = come(
                at,
                row,
                slots,
                starts,
                rows,
                values,
                self.store.time,
                self.store.seq,
                self.bars.lent(self),
                self.ranked,
            )
            if at < len(slots):
                slot = int(slots[at])
                self.ranked.reserve(slot, 2 * int(self.ranked.room[slot]))

    def _matrix(self, slots: Ints, begin: int, end: int) -> Floats:
        """Return the scores of some rows, a line for each slot."""
        out = np.full((len(slots), end - begin), np.nan)
        compiled = self._compiled
        if begin < end and compiled is not None:
            compiled.matrix(
                slots, begin, end, *self.store.columns, self.constants, self.space.sign, out
            )  # fmt: skip
        elif begin < end:
            self.scored_rows += len(slots) * (end - begin)
            part = self.store.part(begin, end)
            for line, slot in enumerate(slots.tolist()):
                out[line] = self.space.good(part, self.constants[slot])
        return out

    @property
    def _compiled(self) -> Kernels | None:
        """Return compiled loops, once they pay."""
        pays = self.scored_rows >= FUSE_SCORES_CACHED or np.count_nonzero(self.ks) >= FEW
        if self._kernels is None and pays and indexable(self.space):
            self._kernels = kernels(self.space, self.constants.shape[1])
        return self._kernels

    # -- searching -----------------------------------------------------------------------------------------

    def search(self, slots: Ints, between: tuple[int, int] | None = None) -> None:
        """Fill the lists of slots from the ring, or from a part of it."""
        store, ranked = self.store, self.ranked
        begin, end = between or (store.head, store.end)
        self._look_ahead(slots, begin, end)
        keep = self.keep()
        since = self.horizon_time, self.horizon_seq
        if between:
            since = (np.full(len(self.ks), store.time[begin]), np.full(len(self.ks), store.seq[begin]))
        need = np.minimum(keep[slots], len(store))
        for slot in slots[ranked.room[slots] < need].tolist():
            ranked.reserve(slot, int(min(keep[slot], len(store))))
        compiled = self._compiled
        if compiled is not None and len(store):
            self.found.grow(rank=int(min(keep[slots].max(), len(store) + 1)))
            compiled.search(
                slots, keep, begin, end, *store.columns, self.space.sign, store.time, store.seq, *since, self.found,
                self.bars.lent(self), ranked,
            )  # fmt: skip
        else:
            for slot in slots.tolist():
                self._search_plainly(slot, int(keep[slot]))
        self.moved = True
        self.touched[slots] = 1
        complete = self.bars.complete[slots] > 0
        first = ranked.start[slots]
        self.bars.bar_time[slots] = np.where(complete, MINIMUM, ranked.time[first])
        self.bars.bar_seq[slots] = np.where(complete, MINIMUM, ranked.seq[first])
        settle_all(slots, self.bars.lent(self), ranked)

    def _look_ahead(self, slots: Ints, begin: int, end: int) -> None:
        """Let searches find more rows for slots that ran short soon, and fewer for slots whose lists lasted: rows that
        are near one another in time leave together."""
        if begin == end:
            return
        now = int(self.store.seq[end - 1])
        since, window = now - self.searched[slots], now - int(self.store.seq[begin])
        ahead = self.ahead[slots]
        less = np.where(since >= LASTED * window, np.maximum(ahead // 2, 1), ahead)
        self.ahead[slots] = np.where(since < AGAIN * window, np.minimum(2 * ahead, MOST_AHEAD), less)
        self.searched[slots] = now
        self._usual = np.empty(0, dtype=np.int64)

    def _search_plainly(self, slot: int, keep: int) -> None:
        good, time, seq = self.scored(slot, self._horizon(slot))
        self.scored_rows += len(self.store)
        best = np.lexsort((seq, time, good))[::-1][:keep]
        self.ranked.put(slot, good[best], time[best], seq[best])
        self.counts[slot, SEARCHED] += len(good)
        self.counts[slot, SEARCHES] += 1
        self.bars.complete[slot] = len(best) < keep
        self.bars.bar[slot] = -np.inf if len(best) < keep else good[best].min()
        self.bars.note_oldest(slot, self.ranked)

    def _horizon(self, slot: int) -> Recency:
        return Recency(int(self.horizon_time[slot]), int(self.horizon_seq[slot]))

    # -- bars ----------------------------------------------------------------------------------------------

    def _bars(self, used: Ints) -> None:
        """Set a bar for lists that had everything and are long enough; raise far too low bars; enter all in the
        index."""
        self._search_open(used)
        if len(self._usual) != len(self.ks):  # after the search, which may have changed `ahead`
            self._usual = self.usual()
        usual, size = self._usual[used], self.ranked.size[used]
        due = np.where(self.bars.complete[used] > 0, size >= usual, size > usual + usual // 4 + 4)
        for slot in used[due].tolist():
            self._set_bar(slot, int(self._usual[slot]))
        if self.moved and self.index is not None and self.index.ready:
            self._enter(used)

    def _search_open(self, used: Ints) -> None:
        """Search for queries that take every row though there are enough rows for a bar (many equal ones, say)."""
        store = self.store
        self.tried = min(self.tried, len(store))
        if not self.bars.complete.any() or len(store) < 2 * self.tried or self._compiled is None:
            return
        open_ = used[(self.bars.complete[used] > 0) & (PLENTY * self.keep()[used] <= len(store))]
        if len(open_):
            self.tried = len(store)
            self.search(open_)

    def _enter(self, used: Ints) -> None:
        """Enter regions that have grown in the index at once; those that have shrunk, when that pays."""
        index = self.index
        assert index is not None
        slots = used[(self.bars.bar[used] > -np.inf) & (self.ranked.size[used] > 0)]
        best = self.ranked.good[self.ranked.start[slots] + self.ranked.size[slots] - 1]
        bar = self.bars.bar[slots]
        with np.errstate(invalid="ignore"):
            loose = index.bar[slots] < bar - LOOSE * (best - bar)
        entered = slots[(bar < index.bar[slots]) | loose]
        if len(entered):
            index.register(entered, self.bars.bar[entered], self.constants)
        self.moved = False

    def _set_bar(self, slot: int, rank: int) -> None:
        """Set the bar at this rank of the list."""
        ranked = self.ranked
        span = ranked.span(slot)
        cut = span.stop - min(rank, span.stop - span.start)
        for name in ranked.names:
            array = getattr(ranked, name)
            array[span.start : span.start + span.stop - cut] = array[cut : span.stop].copy()
        ranked.size[slot] = span.stop - cut
        first = span.start
        self.moved = True
        self.bars.bar[slot], self.bars.complete[slot] = ranked.good[first], 0
        self.bars.bar_time[slot], self.bars.bar_seq[slot] = ranked.time[first], ranked.seq[first]

    def _indexed(self, used: Ints) -> QueryIndex | None:
        cells = int(self.options["cells"])
        if cells == 1 or len(used) < FEW or not indexable(self.space):
            return None
        store = self.store
        if self.index is None:
            if len(store) < LEARN:
                return None
            share = float(np.median(self.keep()[used])) / len(store)
            self.index = QueryIndex(self.space, self.constants.shape[1], cells, share)
        self.index.provide(len(self.ks))
        if not self.index.ready or self.index.due(len(store)):
            self._learn(used)
            self.sure = False
            self._enter(used)
        return self.index

    def _learn(self, used: Ints) -> None:
        """Cut the index's space by the present rows; afterwards no region is entered."""
        store, index = self.store, self.index
        assert index is not None
        index.share = self._share()
        index.learn(store.part(store.head, store.end))

    def _share(self) -> float:
        """Return the approximate share of all rows that a query's region has."""
        return float(np.median(self.keep()[self.ks > 0])) / len(self.store)

    # -- rows and keeping ----------------------------------------------------------------------------------

    def fill(self, columns: tuple[Floats, ...], time: Ints, seq: Ints) -> None:
        store = self.store
        fresh = ~np.isin(seq, store.seq[store.head : store.end])
        store.reopen()
        for _ in store.move(tuple(column[fresh] for column in columns), time[fresh], seq[fresh], LOWEST):
            pass

    def rows(self, horizon: Recency) -> tuple[tuple[Floats, ...], Ints, Ints]:
        store = self.store
        begin = store.since(horizon)
        part = slice(begin, store.end)
        return tuple(c[part].copy() for c in store.columns), store.time[part].copy(), store.seq[part].copy()

    def seqs(self) -> Ints:
        return self.store.seq[self.store.head : self.store.end].copy()

    def window_size(self) -> tuple[int, int]:
        return len(self.store), self.store.bytes() + (0 if self.index is None else self.index.bytes())

    def dump(self) -> dict[str, Any]:
        slots = {name: getattr(self, name).copy() for name in _SLOTS}
        return {**super().dump(), **{name: getattr(self.bars, name).copy() for name in _BARS}, **slots}

    def load(self, blob: Mapping[str, Any]) -> None:
        super().load(blob)
        for name in _BARS:
            setattr(self.bars, name, blob[name].copy())
        for name in _SLOTS:
            if name in blob:
                setattr(self, name, blob[name].copy())
        if "ahead" not in blob:  # written by an earlier version
            self.ahead, self.searched = np.ones(len(self.ks), np.int64), np.full(len(self.ks), LONG_AGO)
        columns = tuple(blob[f"column_{i}"] for i in range(len(self.space.columns)))
        self.fill(columns, blob["row_time"], blob["row_seq"])
        slots = len(self.ks)
        self.sure = False
        self.bars.grow(slot=slots)
        self.bars.lost.fill(0)
        for slot in range(slots):
            self.bars.note_oldest(slot, self.ranked)

    def _check(self) -> None:
        super()._check()
        self.store._check()
        for slot in np.flatnonzero(self.ks).tolist():
            span = self.ranked.span(slot)
            since = int(self.bars.oldest_time[slot]), int(self.bars.oldest_seq[slot])
            listed = zip(self.ranked.time[span].tolist(), self.ranked.seq[span].tolist(), strict=True)
            # no listed row is older than the slot's oldest; a slot that takes every row has the lowest bar
            assert all(recency >= since for recency in listed)
            assert not self.bars.complete[slot] or self.bars.bar[slot] == -np.inf
        if self.index is not None and self.index.ready:
            store = self.store
            part = store.part(store.head, store.end)
            self.index._check(part, lambda slot: self.space.good(part, self.constants[slot]))
