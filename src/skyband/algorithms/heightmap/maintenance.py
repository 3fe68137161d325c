"""Maintenance of a family with height maps (state.py): when to rebuild maps and reservoirs.

All of this only steers the cost of answers, never the answers. A map is made when there are rows to make a frame from.
It is rebuilt when the window has doubled, and when rows that it let pass in vain have cost more than rebuilding does.
Reservoirs are kept from a few blocks on; their floors are set again when a block is full and its reservoir is too small
or too large.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from skyband.algorithms.heightmap.ingest import (
    BRIEF,
    CLOSED,
    COUNT,
    EPOCH,
    RESERVED,
    RISE,
    TRIED,
    TRIED_RISE,
    WANTED,
    front,
    sift_faces,
    stock,
    straighten,
    take_in,
)
from skyband.algorithms.heightmap.map_set import LOOSE, SAMPLE
from skyband.algorithms.heightmap.row_blocks import Blocks
from skyband.algorithms.heightmap.score_blocks import WIDTH, Stands
from skyband.algorithms.heightmap.slack_lists import (
    CALIBRATED,
    CATCH_UPS,
    MAPS,
    RAISED,
    SEARCHED,
    SEEN,
    STRANGERS,
    SURVIVED,
)
from skyband.algorithms.heightmap.state import WAY, MappedState
from skyband.compiling.memory import arrays_of, whole_bytes
from skyband.core.types import LOWEST, Floats, Ints, Recency

SETTLED = 32  # a query whose threshold more of 1024 rows reach is offered every row
LEAST_BLOCKS = 8  # blocks, before reservoirs are kept
DEEPER = 16  # blocks whose reservoirs are deepened when floors are set again because scores fall
SEARCHES = 400  # searching so many whole blocks takes as long as setting floors again
RANK = 20  # rank of the floors in a block while scores fall: lists search that deep
RANKED = 48  # most rows that one query brings into a block's reservoir


class Mapped(MappedState):
    """Rows, queries and maps, and their maintenance."""

    # -- maps and reservoirs -------------------------------------------------------------------------------

    def _keep_up(self) -> None:
        """Update maps for thresholds that may have risen, and rebuild them where that pays."""
        closed = int(self.blocks.state[CLOSED])
        if closed >= 0 and self._compiled:
            self.blocks.state[CLOSED] = -1
            self._closed_block(closed)
        seen = int(self.totals[SEEN])
        if seen < self._next_look or not self.compiled:
            return
        self._next_look = seen + self._pause()
        if self.relief.frame is None:
            if seen >= self._next_check and len(self.blocks) >= self._least:
                self._next_check = 2 * seen
                self._make_map()
            return
        since = (self.totals - self._made_at).tolist()
        costs = self._map_costs()
        stale = since[RAISED] > self.members // 4 or 50 * since[STRANGERS] > since[SEEN]
        if stale and len(self.blocks) > 2 * self._made_of:
            self._make_map()  # the window has doubled
        elif stale and since[SURVIVED] > self._patience * costs:
            rate = since[SURVIVED] / since[SEEN]
            # a map that did not become sharper than the last one is rebuilt less often
            self._patience = max(1.0, self._patience / 2) if rate < 0.7 * self._rate else 2 * self._patience
            self._rate = rate
            self._make_map()
        elif seen >= self._next_check and self.stands.count[LOOSE]:
            self._next_check = seen + max(self._least, since[SEEN] // 2)
            if self._settled().any():
                self._make_map()

    def _pause(self) -> int:
        """Return the rows until the map is checked again."""
        return max(min(self._least, int(self.totals[SEEN]) // 16), len(self.blocks) // 16)

    def _map_costs(self) -> float:
        """Return how many passing rows cost as much as a new map does: a new one would reject about a quarter of those
        that an old one lets pass."""
        costs = 1e-3 + self.members * (6e-6 if self.relief.weighted else 4e-4)
        return costs / (0.25 * max(1, len(self.stands.face)) * 2e-8)

    def _settled(self) -> Any:
        """Return by slot whether a map could serve it, and few of the newest rows reach its threshold."""
        blocks = self.blocks
        settled = np.zeros(len(self.ks), dtype=bool)
        if blocks.next == blocks.first:
            return settled
        b = blocks.place(blocks.next - 1)
        count = int(blocks.meta[b, COUNT])
        if count < 1024 and blocks.next - 1 > blocks.first:
            b = blocks.place(blocks.next - 2)
            count = blocks.block
        count -= count % 64
        begin = max(0, count - 1024)
        reached = np.zeros(len(self.stands.member), dtype=np.int64)
        with blocks.straight(b):
            self._kernels().reach(
                b, begin, count, self.stands.member, self.stands.constants, self.stands.bar,
                blocks.pool, reached,
            )  # fmt: skip
        here = self.stands.member >= 0
        few = reached <= max(0, SETTLED * (count - begin) // 1024)
        settled[self.stands.member[here]] = (few & (count > begin))[here]
        return settled & self.relief.usable

    def _make_map(self) -> None:
        """Make a new frame, arrange queries in new blocks by face, and make both maps."""
        slots = np.flatnonzero(self.ks)
        self._made_at[:] = self.totals
        self._made_of = len(self.blocks)
        slope = self.relief.slope.copy()
        if not self.relief.survey(self.blocks.latest(SAMPLE), slots, self.constants):
            return
        self.totals[MAPS] += 1
        self.blocks.meta[:, BRIEF] = 0  # other rows are outside the frame now
        self._convert_rises(slope[slots], self.relief.slope[slots])
        settled = self._settled()
        faces = np.array(
            [self.relief.face(s) if settled[s] else LOOSE for s in slots.tolist()], dtype=np.int64
        )
        if len(self._eager) != len(self.relief.outer):
            self._scratch_picks()
        self.stands.arrange(slots, faces, self.relief.traits(slots, self.constants[slots]))
        if not self.stands.count[LOOSE] and self._points.shape[2] > WAY:
            self._scratch_points(WAY, 1)  # until now every row was offered to every query
        if not self._falling:
            self.ranked.tighten()
        self.relief.lower(slots, faces, self._bars()[slots], self.constants, outer_too=False)
        if self.relief.weighted and not self.space.boxed and self.relief.frame is not None:
            self.outlines.draw(self.relief.frame, len(self.stands.face))
            self._lower_outlines(slots)
        np.copyto(self.relief.outer, self.relief.inner)
        if self.relief.now >= 0:
            floors = self.relief.floors[self.relief.now]
            floors[slots[faces == LOOSE]] = np.inf
            self.relief.carve(self.relief.outer, slots, faces, floors.astype(np.float64), self.constants)

    def _lower_outlines(self, slots: Ints) -> None:
        """Lower the outlines after the inner map, whose thresholds these queries have."""
        relief, stands = self.relief, self.stands
        self.outlines.lower(
            slots, stands.place, stands.face, relief.mapped, relief.offset, relief.weight, relief.slip
        )

    def _convert_rises(self, before: Floats, after: Floats) -> None:
        """Convert promised rises to steps of a new frame, rounded up."""
        meta = self.blocks.meta
        meta[:, TRIED] = -1
        raised = meta[:, RISE] > 0
        if not raised.any():
            return
        with np.errstate(all="ignore"):
            times = float(np.max(before / after, initial=0.0, where=before > 0.0)) * (1.0 + 1e-9)
        if times < 2.0:
            meta[raised, RISE] = np.ceil(meta[raised, RISE] * times).astype(np.int64)
        else:
            meta[raised, EPOCH] = -1

    def _note_pace(self) -> None:
        """Decide whether so many lists run short in a window that scores must be falling."""
        seen, made = int(self.totals[SEEN]), int(self.totals[CATCH_UPS])
        if seen - self._paced_at[0] > len(self.blocks):
            self._paced_at = seen, made
        self._busy = self._falling or 32 * (made - self._paced_at[1]) > self.members

    def _closed_block(self, number: int) -> None:
        """Check the size of a full block's reservoir."""
        blocks = self.blocks
        b = blocks.place(number)
        self._stock_lacking()
        held, epoch = int(blocks.meta[b, RESERVED]), int(blocks.meta[b, EPOCH])
        least, most = self._bounds()
        fits = epoch >= 0 and least <= held <= most
        if fits and not (self._newcomers and number >= self._calibrated_at + 2 * LEAST_BLOCKS):
            return
        if self.relief.frame is None or blocks.next - blocks.first < LEAST_BLOCKS or number < blocks.first:
            return
        before, self._closed_at = self._closed_at, (int(self.totals[SURVIVED]), int(self.totals[SEEN]))
        survived, seen = (now - then for now, then in zip(self._closed_at, before, strict=True))
        if 10 * survived * blocks.block > blocks.reserved * max(1, seen):
            return  # thresholds are still so low that a reservoir would hold only the rows that they let pass
        # falling scores: lists will be rebuilt, and search deep
        self._falling = epoch >= 0 and held < least
        self.ranked.tight = not self._falling
        if self._falling:
            blocks.make_room(blocks.room)
        self._newcomers, self._calibrated_at, self._searched = 0, number, int(self.totals[SEARCHED])
        if self.relief.misfits(blocks.pool[b]):
            self._make_map()
        self._calibrate(b, self._target())

    def _bounds(self) -> tuple[float, float]:
        """Return the least and the most rows of a block's reservoir for which floors need not be set again."""
        # While scores fall the last floors' size counts. Setting floors again takes as long as a hundred lists do, and
        # a reservoir that is small is deepened if necessary: where scores fall fast it is postponed.
        fast = self.blocks.next < self._calibrated_at + 4 * LEAST_BLOCKS
        least = (0.27 if fast else 0.5) * self._stocked if self._falling else 0.5 * self._target()
        if int(self.totals[SEARCHED]) - self._searched > SEARCHES and not self.space.boxed:
            # floors don't fit some queries any more, as when one attribute falls: no size fits
            least = float(self.blocks.block)
        if not self._falling:
            return least, 0.9 * self.blocks.reserved
        return least, max(1.4 * self.blocks.reserved, 1.5 * self._stocked)

    def _target(self) -> int:
        """Return the rows that a reservoir should have: more while scores fall, and no more than so few queries can
        rank."""
        reserved = self.blocks.reserved
        return min(13 * reserved // 16 if self._falling else reserved // 5, RANKED * max(1, self.members))

    def _calibrate(self, b: int, target: int) -> None:
        """Set floors of a rank that brings about `target` rows of a block into its reservoir; while scores fall, of
        the rank that lists will search down to."""
        relief = self.relief
        slots = np.flatnonzero(self.ks)
        faces, places = self._faces(slots), self.stands.place[slots]
        if relief.target:
            relief.wanted = int(np.clip(round(relief.wanted * target / relief.target), 1, 64))
        relief.target = target
        if self._falling:
            relief.wanted = RANK
        floors, depths = np.full(len(self.ks), np.inf), self._depths(slots)
        for _ in range(3):
            with self.blocks.straight(b):
                floors[slots] = np.minimum(self._ranked(b, relief.wanted)[places], depths)
                floors[slots[faces == LOOSE]] = np.inf
                relief.outer = relief.inner.copy()
                relief.carve(relief.outer, slots, faces, floors, self.constants)
                found = self._sift(b)
            # the rank for the next time, or again now if it was far off
            if self._falling and found < 3 * self.blocks.reserved:
                break
            before = relief.wanted
            relief.wanted = int(np.clip(round(before * target / max(found, 1)), max(1, before // 4), 64))
            if 0.6 * target < found < 1.6 * target or relief.wanted == before:
                break
        self.totals[CALIBRATED] += 1
        self._stocked = found
        relief.begin_epoch(floors)
        self._restock_blocks(b, found if self._falling else target)

    def _ranked(self, b: int, rank: int) -> Floats:
        """Return for each place's member about the score of this rank in a block, estimated from some of its rows."""
        count = int(self.blocks.meta[b, COUNT])
        part = 4 if rank >= RANK else 2
        return self._rank(
            b, count - count // part, count, max(1, rank // part), self._guess(), self.stands.member
        )

    def _restock_blocks(self, b: int, target: int) -> None:
        """Set new floors for the reservoirs of blocks that have none, of this block and the newest, and where scores
        fall of earlier ones that are small, since lists will search below their floors."""
        blocks, relief, meta = self.blocks, self.relief, self.blocks.meta
        reused = meta[:, EPOCH] == relief.now
        meta[reused, EPOCH] = meta[reused, TRIED] = -1
        meta[meta[:, TRIED] == relief.now, TRIED] = -1
        places = np.arange(blocks.first, blocks.next) % max(1, len(blocks.pool))
        missing = (meta[places, EPOCH] < 0) & (meta[places, TRIED] < 0)
        deeper = np.zeros(len(places), dtype=bool)
        if self._falling:
            deeper[-DEEPER:] = meta[places[-DEEPER:], RESERVED] < 0.75 * target
        chosen = missing | deeper | (places == b)
        chosen[-1] = True  # it may have rows now
        for place, had in zip(places[chosen].tolist(), ~missing[chosen], strict=True):
            straighten(blocks.pool, place, meta[place, RESERVED], blocks.index)
            found = self._sift(place)
            if found > blocks.room and had and place != places[-1]:
                # too many rows: it keeps its reservoir; but the newest block still gets rows, by the new floors
                front(blocks.pool, place, meta[place, RESERVED], blocks.index)
                continue
            self._restock(place, found)
            if meta[place, EPOCH] < 0:
                meta[place, [TRIED, TRIED_RISE]] = relief.now, 0

    def _stock_lacking(self) -> None:
        """Make the reservoirs that were refused because there was too little room."""
        relief, meta = self.relief, self.blocks.meta
        for place in self.blocks.lacking().tolist():
            if meta[place, EPOCH] < 0 and relief.frame is not None and relief.now >= 0:
                self._restock(place, self._sift(place))

    def _restock(self, place: int, found: int) -> None:
        """Make the reservoir of a block in order, as sifted by the present floors."""
        blocks, meta = self.blocks, self.blocks.meta
        meta[place, [RESERVED, EPOCH, RISE, BRIEF]] = 0, self.relief.now, 0, 0
        blocks.make_room(found)
        stock(blocks.pool, place, 0, self._picks[-1], found, blocks.index, meta)
        meta[place, WANTED] = 0

    def _depths(self, slots: Ints) -> Floats:
        """Return scores that lists may search down to when they are rebuilt: below the threshold by half of the
        distance between the best quarter of the top and its last. A floor is the score of few rows; if it were higher
        by chance the query's next list would be made from the whole window."""
        ranked, ks = self.ranked, self.ks[slots]
        bars = self.stands.bar[self.stands.place[slots]]
        full = np.flatnonzero((ranked.size[slots] >= ks) & np.isfinite(bars))
        depths = np.full(len(slots), np.inf)
        ends = (ranked.start[slots] + ranked.size[slots])[full]
        with np.errstate(over="ignore", invalid="ignore"):
            steep = ranked.good[ends - np.maximum(1, ks[full] // 4)] - ranked.good[ends - ks[full]]
            lower = bars[full] - 1.5 * steep
        depths[full] = np.where(np.isfinite(lower), lower, np.inf)
        return depths

    def _guess(self) -> Floats:
        """Return by place a score that is likely to be somewhat below a new floor."""
        guess = np.full(len(self.stands.member), -np.inf)
        here = self.stands.member >= 0
        if self.relief.now >= 0:
            floors, bars = (
                self.relief.floors[self.relief.now, self.stands.member[here]],
                self.stands.bar[here],
            )
            with np.errstate(invalid="ignore"):
                lower = floors - 0.45 * np.maximum(bars - floors, 0.0)
            guess[here] = np.where(np.isfinite(lower), lower, -np.inf)
        return guess

    def _sift(self, b: int) -> int:
        """Count the rows of a block in order that pass the outer maps; `_picks` gets them."""
        blocks = self.blocks
        return int(
            sift_faces(
                blocks.pool, b, 0, int(blocks.meta[b, COUNT]), self.stands.count, *self.relief.mapping()[:-1],
                self._picks, 0, *self._sifting,
            )
        )  # fmt: skip

    # -- rows ----------------------------------------------------------------------------------------------

    def fill(self, columns: tuple[Floats, ...], time: Ints, seq: Ints) -> None:
        # a block may still contain rows that no window reaches
        old_columns, old_time, old_seq = self.blocks.rows(LOWEST)
        fresh = ~np.isin(seq, old_seq)
        if not fresh.any():
            return
        times, seqs = np.concatenate([old_time, time[fresh]]), np.concatenate([old_seq, seq[fresh]])
        order = np.lexsort((seqs, times))
        joined = tuple(
            np.concatenate([old, new[fresh]])[order] for old, new in zip(old_columns, columns, strict=True)
        )
        self._store_again(joined, times[order], seqs[order])

    def _store_again(self, columns: tuple[Floats, ...], time: Ints, seq: Ints) -> None:
        """Store these rows and no others; reservoirs are made when they are needed."""
        timed = self.blocks.timed or self.ranked.timed
        self.blocks = Blocks(self.axes, self.blocks.block)
        blocks = self.blocks
        if timed:
            blocks.keep_times()
        blocks.widen(-(-len(seq) // blocks.block) + 1)
        none, uncounted = np.zeros(3, dtype=np.int64), np.zeros(16, dtype=np.int64)
        columns, time, seq = tuple(read_only(c) for c in columns), read_only(time), read_only(seq)
        at = 0
        while at < len(seq):
            at = take_in(
                at, len(seq), -1, False, blocks.state, self.clock, columns, time, seq,
                blocks.pool, blocks.times, blocks.seqs, blocks.meta, blocks.index,
                none, *self.relief.mapping(), self._picks, self._eager,
                self._points, self._when, self._number, none, uncounted, *self._sifting,
            )  # fmt: skip
            blocks.supply()
        self._keep_times()

    def _keep_times(self) -> None:
        """Give lists times where rows have times."""
        if self.blocks.timed and not self.ranked.timed:
            self.ranked.keep_times()
        if self.blocks.timed and not self._when.shape[1]:
            faces, _, rows = self._points.shape
            self._scratch_points(rows, faces)

    def rows(self, horizon: Recency) -> tuple[tuple[Floats, ...], Ints, Ints]:
        return self.blocks.rows(max(horizon, self.oldest_horizon()))

    def values(self, seq: Ints) -> tuple[Floats, ...]:
        return self.blocks.by_seq(seq) or super().values(seq)

    def seqs(self) -> Ints:
        return self.rows(LOWEST)[2]

    def window_size(self) -> tuple[int, int]:
        """Return the rows stored, and the bytes of everything but the queries' lists, scratch and spare room
        included."""
        listed = int(self.ranked.room[self.ks > 0].sum()) * self.ranked.row_bytes
        return len(self.blocks), whole_bytes(*arrays_of(*self._holders())) - listed

    def _holders(self) -> tuple[Any, ...]:
        """Return the objects that own arrays."""
        return self, self.blocks, self.relief, self.outlines, self.stands, self.ranked

    def counters(self, slot: int) -> dict[str, int]:
        """Return counters of the whole family, because the maps serve all queries."""
        return dict(zip(self.counter_names, self.totals[: len(self.counter_names)].tolist(), strict=True))

    # -- keeping -------------------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        return {**super().dump(), "bars": self._bars(), "totals": self.totals.copy()}

    def load(self, blob: Mapping[str, Any]) -> None:
        super().load(blob)
        self.totals[:] = blob["totals"]
        columns = tuple(blob[f"column_{axis}"] for axis in range(self.axes))
        self._store_again(columns, blob["row_time"], blob["row_seq"])
        self._next_check = self._next_look = int(self.totals[SEEN]) + 1
        slots = len(self.ks)
        self.counts = np.zeros((slots, 0), dtype=np.int64)
        self.members = int(np.count_nonzero(self.ks))
        self.stands = Stands(self.terms)
        for name in ("wish", "old_time", "old_seq", "brim", "todo"):
            setattr(self, name, np.zeros(slots, dtype=getattr(self, name).dtype))
        self.back = np.zeros(slots + 1, dtype=self.back.dtype)
        self.seen_time, self.seen_seq = self.horizon_time.copy(), self.horizon_seq.copy()
        self.old_time.fill(-(2**63))
        self.brim[:] = self.ranked.room
        for slot in range(slots):
            self._know(slot)
            if self.ks[slot]:
                self.stands.enter(slot, LOOSE, self._asked(slot), float(blob["bars"][slot]))

    def _check(self) -> None:
        super()._check()
        self.blocks._check()
        self.stands._check()
        relief = self.relief
        bars = self._bars()
        for slot in np.flatnonzero(self.ks).tolist():
            horizon = Recency(int(self.horizon_time[slot]), int(self.horizon_seq[slot]))
            good, time, seq = self.scored(slot, horizon)
            listed = np.isin(seq, self.ranked.seq[self.ranked.span(slot)])
            # each row above the threshold is in the list or has k newer rows there that are at least as good
            for i in np.flatnonzero((good >= bars[slot]) & ~listed).tolist():
                newer = (time > time[i]) | ((time == time[i]) & (seq > seq[i]))
                assert np.count_nonzero(listed & newer & (good >= good[i])) >= self.ks[slot]
            # no row below the threshold is in the list
            span = self.ranked.span(slot)
            assert not (self.ranked.good[span] < bars[slot]).any()
            # the map's threshold is no higher than the query's own
            if relief.frame is not None and self._faces(np.array([slot]))[0] != LOOSE:
                assert relief.mapped[slot] <= bars[slot]
                # each row that reaches the threshold passes the outline of the query's block
                if len(self.outlines.heights):
                    columns, block = self.rows(horizon)[0], int(self.stands.place[slot]) // WIDTH
                    reached = self._good(columns, slot) >= bars[slot]
                    rows = tuple(column[reached] for column in columns)
                    assert self.outlines.pass_(block, self.stands.face, rows).all()
        if relief.frame is not None:
            # each row that fails the outer map fails the inner one
            assert bool(np.all(relief.outer <= relief.inner))
        self._check_reservoirs()

    def _check_reservoirs(self) -> None:
        blocks = self.blocks
        for number in range(blocks.first, blocks.next):
            b = blocks.place(number)
            epoch = int(blocks.meta[b, EPOCH])
            held = blocks.index[b, : int(blocks.meta[b, RESERVED])]
            promised = np.flatnonzero((self.ks > 0) & (self.relief.floors[epoch] < np.inf))
            raised = self.relief.slope * blocks.meta[b, RISE]
            for slot in promised.tolist() if epoch >= 0 else ():
                good = self._good(tuple(blocks.columns(b)), slot)
                # a reservoir contains every row of its block that reaches the floor
                reached = np.flatnonzero(good >= self.relief.floors[epoch, slot] + raised[slot])
                assert np.isin(reached, held).all()


def read_only(values: Any) -> Any:
    """Return read-only views: numba compiles once more for writable arrays."""
    if values.flags.writeable:
        values = values.view()
        values.flags.writeable = False
    return values
