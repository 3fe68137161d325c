"""heightmap: one look-up rejects a row for all queries.

**Problem.** Thousands of top-k queries of one shape over one large window. Whatever scores every row for every
query is bound by that; whatever keeps exactly k rows a query recomputes all the time.

**Idea.** A row can matter only if it reaches some query's admission threshold. A *height map* over the cells of all
axes but one says how great the last coordinate must be for that (maps.py): in the pass that
stores a row, one look-up rejects it for all queries, 199 times in 200. Survivors are scored for blocks of 64
queries at once (score_blocks.py), those of them that the block's outline lets pass (block_maps.py).
Each query has a *slack list* of everything above its threshold, about three times k, so that rows that leave don't
make it search (slack_lists.py). A list that runs short all the same is made anew from a *reservoir*, the few
better rows of each block, with a threshold that holds for most of a window whatever comes (row_blocks.py,
refill.py): falling scores don't bring it down.

**What is kept.** The window's rows (8 bytes a column, and 8 more for times if there are some), the reservoir in front
of each block, a slack list for each query, and two maps of 32,768 cells.

**Exact** always: maps, floors, shares and schedules only steer the cost. Any number of queries, coming and going; both
kinds of window, any mix of them; late rows. Weights of any sign, zero included. Scores that are monotone on each axis,
whatever they are made of, have a map found by bisection; queries that no map serves are met by every row. Queries with
a box each (WHERE) are one family: the map is lowered where a box is (box_maps.py).

**Wrong choice when** the window is small against k or the queries are few (the candidate lists of `ra` need no window
at all), for scores that aren't monotone, and for more than about eight axes, where cells are too coarse to reject.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, floor
from typing import Any, ClassVar

import numpy as np

from skyband.algorithms.contract import Card, Workload
from skyband.algorithms.heightmap.ingest import (
    BEGIN,
    EDGE_SEQ,
    EDGE_TIME,
    LATE,
    NEED,
    ORDERED,
    ROOM,
    STRETCH,
    admit,
    arrive,
    begin_of,
    pen_before,
    take_in,
)
from skyband.algorithms.heightmap.maintenance import Mapped, read_only
from skyband.algorithms.heightmap.map_set import LOOSE
from skyband.algorithms.heightmap.refill_cursor import GROUP, LOWEST, SCRATCH, SIDE, STACK, adopt, company
from skyband.algorithms.heightmap.score_blocks import WIDTH, Stands, hit_arrays, meeting
from skyband.algorithms.heightmap.slack_lists import (
    CATCH_UPS,
    DEEPENED,
    FAR,
    RAISED,
    REJECTED,
    SEEN,
    SHARE,
    SHARE_AGAIN,
    STRANGERS,
    SURVIVED,
    WISHES,
    brim_of,
    offer,
    prune,
    tidy,
)
from skyband.algorithms.heightmap.state import PIECE
from skyband.algorithms.heightmap.whole_step import DUE, LACKING, LISTS, LOWERED, TAKEN, whole
from skyband.algorithms.kernels.ranked_lists import TIGHT
from skyband.compiling.addresses import Words
from skyband.compiling.array_version import LATEST
from skyband.core.types import Floats, Ints, Recency
from skyband.query.expression.score_space import Space


def expected(k: int, n: float) -> float:
    return float(min(n, 3.2 * k))


def cost_of(work: Workload) -> float:
    """Seconds for a batch: rows through the map, survivors past the blocks, admissions into lists."""
    admitted = work.queries * min(work.batch, 3.0 * work.k * work.batch / max(1.0, work.window))
    survivors = min(work.batch, 12.0 + 0.02 * admitted**0.8 * 2.0 ** max(0, work.axes - 3))
    blocks = np.ceil(work.queries / WIDTH)
    met = survivors * blocks * 25e-9 + admitted * 3e-7 + work.queries * 2e-8
    if work.boxed:  # most rows pass the map somewhere, and then most blocks, whose boxes lie elsewhere
        met += work.batch * (2e-8 + 1.2e-8 * blocks)
    return float(40e-6 + 10e-6 * min(1.0, work.batch / 100) + 1.2e-8 * work.batch + met)


LONG = 24  # steps after which a kernel that spares a few microseconds of each is made


class HeightMap(Mapped):
    """Height map, slack lists, reservoirs."""

    card = Card(
        name="heightmap",
        title="height map with slack lists",
        source="skyband's own",
        answers=frozenset({"topk"}),
        exact=True,
        keeps="the window's rows, and about three times k rows a query",
        cost="a row: one look-up; a survivor: the queries in blocks of 64; an admitted row: its place in a short list",
        wrong_when="the window is small against k, the queries are few, or there are more than eight axes",
        expected=expected,
        options={"cells": 32768.0, "block": 8000.0},
        scores="monotone",
        window=True,
        fifo=True,
        boxes=True,
        texts=True,
        cost_of=cost_of,
    )
    counts_seqs = any_order = True
    counter_names: ClassVar[tuple[str, ...]] = (
        "rows seen", "rejected by the map", "survivors", "admitted", "overflows", "thresholds raised", "catch-ups",
        "blocks searched", "reservoirs deepened", "rows outside the frame", "maps made", "epochs",
    )  # fmt: skip

    def __init__(self, options: Mapping[str, float], space: Space) -> None:
        super().__init__(options, space)
        self._most = 1  # ranks that any query wants
        self._meeting: Any = None  # the kernel, when it is first needed
        # of it: block, row, hits dealt with, hits, short queries; rows that have arrived; what it returned
        self._resume = np.zeros(7, dtype=np.int64)
        self._whole: Any = None  # kernels for steps in one call
        self._words = Words(tuple(TAKEN.values()))
        self._due = np.zeros(DUE, dtype=np.int64)
        # of lists made anew: whose list needs room, where it lies and how long it is; how many of a group have theirs,
        # and how many they are; places of the pool that are taken
        self._result = np.zeros(6, dtype=np.int64)
        self._moved = np.empty(3 * self.axes)
        self._fits = False  # whether a step can go in one call
        self._steps = 0
        self._looked_up = 0  # when the arrays at hand were looked up: see `Renewed`
        self._latest = 0  # and when it was seen that they are the same
        self._hits = hit_arrays()
        self._scratch_heap(1)
        self._scratch_lists(1, 1)

    # -- scratch -------------------------------------------------------------------------------------------

    def _scratch_heap(self, ranks: int) -> None:
        self._heap_time, self._heap_seq = np.empty(ranks, dtype=np.int64), np.empty(ranks, dtype=np.int64)

    def _scratch_lists(self, ranks: int, group: int, late: int = 0) -> None:
        """For queries that walk together: as many as there is room for."""
        # twice what a list may have: where half of it goes enough is left for a list
        self._stack = max(min(STACK, 48 * ranks), 4 * ranks, 96)
        room = self._stack + ranks + late + late // 2
        self._together = group
        group = max(1, min(group, GROUP, GROUP * 4 * STACK // room))
        self._members = (
            np.zeros((group, SIDE + 1), dtype=np.int64),
            np.zeros((group, LOWEST + 1)),
            np.empty(SCRATCH),
        )
        self._ranks = ranks
        shape = group, room
        self._lists = (np.float64, shape), (np.int64, shape), (np.int64, shape)
        self._lay_out()

    def _has_ranks(self) -> bool:
        return bool(self._most <= min(len(self._heap_time), self._ranks))

    def _ready(self) -> None:
        """Scratch for the lists as they are: never more ranks than rows."""
        if not self.blocks.late and self._has_ranks():
            return
        self._looked_up = self._latest = -1
        most = self._most
        stored = len(self.blocks) + PIECE
        ranks = min(most, int(self.ranked.room.max(initial=1)))
        if len(self._heap_time) < ranks:
            self._scratch_heap(2 * ranks)
        if self._ranks < min(most, stored):
            self._scratch_lists(min(most, 2 * stored), self._together)
        if self._listing[0].shape[1] < self._stack + self._ranks + self.blocks.late:
            self._scratch_lists(self._ranks, self._together, self.blocks.late)

    def _holders(self) -> tuple[Any, ...]:
        return *super()._holders(), self._words

    # -- slots ---------------------------------------------------------------------------------------------

    def opened(self, slot: int) -> None:
        if len(self.stands.constants) != self.terms:
            self.stands = Stands(self.terms)
        while slot >= len(self.wish):
            for name in ("wish", "old_time", "old_seq", "seen_time", "seen_seq", "brim", "todo"):
                old = getattr(self, name)
                setattr(self, name, np.append(old, np.zeros(1, dtype=old.dtype)))
            self.back = np.append(self.back, np.zeros(1, dtype=self.back.dtype))
        self._most = int(self.ks.max())
        self.members = int(np.count_nonzero(self.ks))
        self._know(slot)
        self.stands.enter(slot, LOOSE, self._asked(slot), -np.inf)
        self.seen_time[slot], self.seen_seq[slot] = self.horizon_time[slot], self.horizon_seq[slot]
        self.old_time[slot] = self.old_seq[slot] = FAR
        self._next_check = min(self._next_check, int(self.totals[SEEN]) + self._least)
        self._next_look = 0
        self._newcomers += 1
        self._renew(np.array([slot]))

    def resized(self, slot: int) -> None:
        self._most = int(self.ks.max())
        self._looked_up = self._latest = -1
        self._renew(np.array([slot]))

    def closed(self, slot: int) -> None:
        self.members -= 1
        self.stands.leave(slot)
        self._know(slot)
        self.relief.usable[slot] = False

    def load(self, blob: Mapping[str, Any]) -> None:
        super().load(blob)
        self._most = int(self.ks.max(initial=1))

    # -- a step --------------------------------------------------------------------------------------------

    def _look_up(self) -> None:
        """Have the arrays at hand that the kernels take at every step."""
        blocks, relief, stands, ranked = self.blocks, self.relief, self.stands, self.ranked
        latest = max(
            self.renewed,
            blocks.renewed,
            relief.renewed,
            stands.renewed,
            ranked.renewed,
            self.outlines.renewed,
        )
        if latest == self._looked_up:
            return
        self._looked_up = latest
        self._arriving = (
            self.ks, self.seen_time, self.seen_seq, self.back, blocks.state, self.clock,
            blocks.pool, blocks.times, blocks.seqs, blocks.meta, blocks.index,
            stands.count, *relief.mapping(), self._picks, self._eager,
            self._points, self._when, self._number, self._counts, self.totals, *self._sifting,
        )  # fmt: skip
        self._met = (
            self._resume, stands.face, stands.constants, stands.bar, stands.member,
            ranked.good, ranked.time, ranked.seq, ranked.start, ranked.size, ranked.room, self.brim,
            self.old_time, self.old_seq, self.wish, self.touched, self.todo, self._heap_time, self._heap_seq,
            self._spots, *self.outlines.frame(), *self._hits,
        )  # fmt: skip
        self._fits = self._compiled and self._has_ranks()
        if self._whole is not None:
            self._words.note(
                (
                    *self._arriving, self._resume, *self._met[1:], stands.place, relief.floors, relief.slope,
                    relief.tilt, self._moved, *self._members, *self._listing, self._result, *self._sketch(),
                    relief.mapped, relief.slip, relief.corners, self.outlines.corners, self._due,
                )
            )  # fmt: skip
            self._note_due()

    def _note_due(self) -> None:
        """What `take` compares to tell whether upkeep is due: as `_keep_up` does, or sooner."""
        least, most = self._bounds()
        made = self._made_at.tolist()
        self._due[:] = (
            ceil(least), floor(most), self._newcomers > 0,
            self._next_look if self.relief.frame is not None else 0, self._pause(), self._next_check,
            made[RAISED] + self.members // 4, made[SURVIVED] + int(min(self._patience * self._map_costs(), 2.0**60)),
            2 * self._made_of, made[STRANGERS], made[SEEN],
        )  # fmt: skip

    def at_hand(self) -> bool:
        """Whether the next step can go in one call: from some steps on, with lists and scratch as they mostly are."""
        if self._whole is None:
            self._steps += 1
            if self._steps <= LONG or not self._compiled:
                return False
            self._whole = whole(*self._text)
            self._looked_up = self._latest = -1
        self._see_arrays()
        return self._fits and not self.blocks.late

    def _see_arrays(self) -> None:
        """Have the arrays at hand, if one may have been replaced."""
        if LATEST[0] != self._latest:
            self._look_up()
            self._latest = LATEST[0]

    def window_step(
        self, columns: tuple[Floats, ...], time: Ints, seq: Ints, deleted_time: Ints, deleted_seq: Ints
    ) -> None:
        assert not len(deleted_seq)
        time, seq = read_only(time), read_only(seq)
        columns = tuple([read_only(column) for column in columns])
        relief = self.relief
        mapped = relief.frame is not None
        if self.at_hand():
            left = self._whole.take(
                self._words.words, PIECE, relief.now, mapped, self.horizon_time, self.horizon_seq, columns, time,
                seq,
            )  # fmt: skip
            if left:
                self.finish(left, lambda: (columns, time, seq))
            return
        self._look_up()
        at = arrive(
            -1 if self.blocks.late else PIECE, relief.now, mapped, self.horizon_time, self.horizon_seq, columns,
            time, seq, *self._arriving,
        )  # fmt: skip
        self._lengthen(self._go_on(at, columns, time, seq))
        self._keep_up()

    def go(self, notes: Ints, rows: int, base: int, edge: int, used: int, exported: int, times: int) -> int:
        """A step of the lane in one call, where it is `at_hand`; see whole.py."""
        relief = self.relief
        found: int = self._whole.go(
            self._words.words, notes, PIECE, relief.now, relief.frame is not None, rows, base, edge, used,
            exported, times,
        )  # fmt: skip
        return found

    def finish(self, left: int, step: Callable[[], tuple[tuple[Floats, ...], Ints, Ints]]) -> None:
        """Do what a step in one call has left to do; `step` tells its rows."""
        if left == LISTS:
            slot = int(self._resume[6])
            if slot >= -1:
                self._grant()
                short = int(self._resume[4]) if slot < 0 else self._meet(True)
            else:
                short = self._go_on(int(self._resume[5]), *step())
            self._lengthen(short)
        self._keep_up()
        self._note_due()

    def _go_on(self, at: int, columns: tuple[Floats, ...], time: Ints, seq: Ints) -> int:
        """After `arrive`, which has put rows before `at` away; how many queries are short of rows then."""
        if at < 0:
            return self._by_pieces(columns, time, seq)
        if self._supply():
            self._store(columns, time, seq, at, len(time))
        return self._meet()

    def _supply(self) -> bool:
        """What `take_in` asked for, so that it can go on; whether it asked for anything."""
        if self.blocks.state[NEED] == ROOM:
            self._meet()
            self._make_way()
            return True
        asked = self.blocks.supply()
        self._keep_times()
        return asked

    def _lengthen(self, short: int) -> None:
        """Lists that are short of rows, or whose horizon went back, are made anew."""
        if short or self.back[0]:
            todo = self.todo[:short].astype(np.int64)
            if self.back[0]:
                todo = np.union1d(todo, self.back[1 : 1 + int(self.back[0])]).astype(np.int64)
            self._note_pace()
            if self._busy and len(todo) < GROUP < self.members:
                # a reservoir that is read for some is read for more of them at little cost
                todo = company(todo, self.ks, self.ranked.size)
            self._renew(todo, SHARE_AGAIN)

    def _by_pieces(self, columns: tuple[Floats, ...], time: Ints, seq: Ints) -> int:
        """Rows of a step that are very many, or of which some are too late or too old; how many queries are short
        then."""
        blocks, state = self.blocks, self.blocks.state
        if blocks.late:
            blocks.drop_late()
        begin, late = int(state[BEGIN]), int(state[LATE])
        if late < 0:
            order = np.lexsort((seq, time))
            time, seq = read_only(time[order]), read_only(seq[order])
            columns = tuple([read_only(column[order]) for column in columns])
            state[ORDERED] = 1
            begin = int(begin_of(time, seq, state[EDGE_TIME], state[EDGE_SEQ]))
            late = max(begin, int(begin_of(time, seq, *pen_before(state, blocks.meta))))
        if begin:
            self.totals[SEEN] += begin
            self.totals[REJECTED] += begin
        at, end = begin, len(time)
        while True:
            self._counts.fill(0)
            if at < late:
                stop = min(at + STRETCH, late)
                self._pen(columns, time, seq, at, stop)
            else:
                stop = min(at + PIECE, end)
                self._store(columns, time, seq, at, stop)
            short = self._meet()
            at = stop
            if at >= end:
                return short

    def _store(self, columns: tuple[Floats, ...], time: Ints, seq: Ints, at: int, stop: int) -> None:
        """Put rows away and gather those that the maps let pass."""
        blocks = self.blocks
        while True:
            at = take_in(
                at, stop, self.relief.now, self.relief.frame is not None, blocks.state, self.clock, columns, time, seq,
                blocks.pool, blocks.times, blocks.seqs, blocks.meta, blocks.index,
                self.stands.count, *self.relief.mapping(), self._picks, self._eager,
                self._points, self._when, self._number, self._counts, self.totals, *self._sifting,
            )  # fmt: skip
            if not self._supply():
                return

    def _pen(self, columns: tuple[Floats, ...], time: Ints, seq: Ints, at: int, stop: int) -> None:
        """Late rows go to a place of their own."""
        blocks = self.blocks
        if not blocks.timed and time[at:stop].any():
            blocks.keep_times()
            self._keep_times()
        while self._points.shape[2] < stop - at or np.count_nonzero(self.stands.count) > len(self._points):
            self._make_way()
        place = blocks.pen(stop - at)
        admit(
            columns, time, seq, at, stop - at, 0, place, False, self.relief.frame is not None,
            blocks.late_pool, blocks.late_time, blocks.late_seq, blocks.late_meta, blocks.index,
            self.stands.count, *self.relief.mapping(), self._picks, self._eager,
            self._points, self._when, self._number, self._counts, self.totals, *self._sifting,
        )  # fmt: skip

    def _meet(self, again: bool = False) -> int:
        """What passed meets the queries, or goes on to; returns how many of them are short of rows now."""
        self._ready()
        if not self._compiled and not self.compiled:
            return self._meet_plainly()
        meet, resume = self._meeting, self._resume
        if meet is None:
            meet = self._meeting = meeting(*self._text)
        if not again:
            resume.fill(0)
        while True:
            self._look_up()
            slot = meet(
                self.blocks.timed, self.horizon_time, self.horizon_seq, self._points, self._when, self._number,
                self._counts, self.ks, self.clock, self.totals, *self._met,
            )  # fmt: skip
            self._grant()
            if slot < 0:
                return int(resume[4])

    def _meet_plainly(self) -> int:
        """Scores that don't compile, or not yet: numpy scores every row for every query."""
        stands, ranked = self.stands, self.ranked
        count = int(self._counts[LOOSE])
        self.computed += count * self.members
        points = tuple(self._points[-1, axis, :count] for axis in range(self.axes))
        when = self._when[-1, :count] if self.timed else np.zeros(count, dtype=np.int64)
        number = self._number[-1, :count]
        for slot in np.flatnonzero(self.ks).tolist() if count else ():
            values = self._good(points, slot)
            first = 0
            while first < count:
                first = offer(
                    slot, int(stands.place[slot]), first, values, when, number, stands.bar, self.blocks.timed,
                    ranked.good, ranked.time, ranked.seq, ranked.start, ranked.size, ranked.room, self.brim,
                    self.ks, self.horizon_time, self.horizon_seq, self.old_time, self.old_seq,
                    self.clock, self.wish, self.touched, self.totals, self._heap_time, self._heap_seq,
                )  # fmt: skip
                self._grant()
        return int(
            tidy(
                stands.bar, stands.member, self.blocks.timed,
                ranked.good, ranked.time, ranked.seq, ranked.start, ranked.size, self.ks, self.horizon_time,
                self.horizon_seq, self.old_time, self.old_seq, self.touched, self.todo,
            )
        )  # fmt: skip

    def _grant(self) -> None:
        """Lists that asked for more room get it."""
        if not self.totals[WISHES]:
            return
        self.totals[WISHES] = 0
        for slot in np.flatnonzero(self.wish).tolist():
            self._roomier(slot, int(self.wish[slot]))
            self.wish[slot] = 0
        self._ready()

    def _roomier(self, slot: int, room: int) -> None:
        """A list with room for so many rows; ranked lists add a quarter to what they are asked for."""
        self.ranked.reserve(slot, max(int(self.ranked.room[slot]) + 1, room - room // 5))
        self.brim[slot] = min(room, int(self.ranked.room[slot]))

    # -- lists anew ----------------------------------------------------------------------------------------

    def _renew(self, slots: Ints, share: float = SHARE) -> None:
        """Make the lists of these slots anew from the stored rows, and the maps let pass what they admit.

        share: of the rows, the young ones, whose k-th best is the threshold."""
        self._ready()
        self.touched[slots] = 1
        if not self.compiled:
            for slot in slots.tolist():
                self._renew_plainly(slot)
        elif self._refill(slots, share):
            return  # the maps as well
        if self.relief.frame is None:
            return
        places = self.stands.place[slots]
        bars, faces = self.stands.bar[places], self.stands.face[places // WIDTH]
        low = (bars < self.relief.mapped[slots]) & (faces != LOOSE)
        opening = (bars == -np.inf) & (not self.space.boxed)
        for slot in slots[low & opening].tolist():
            # a query that takes every row would open the map for all others
            self.stands.enter(slot, LOOSE, self._asked(slot), -np.inf)
            self.relief.mapped[slot] = np.inf
            # and if it was the last one by its face, rows to come aren't sifted there: no reservoir promises them
            self.relief.floors[self.relief.now, slot] = np.inf
            self._next_check = min(self._next_check, int(self.totals[SEEN]) + self._least)
        low &= ~opening
        if low.any():
            self.relief.lower(slots[low], faces[low], bars[low], self.constants)
            self._lower_outlines(slots[low])

    def _refill(self, slots: Ints, share: float) -> bool:
        """The lists; whether the maps let pass what they admit."""
        blocks, ranked, result = self.blocks, self.ranked, self._result
        result.fill(0)
        if self._together < min(len(slots), GROUP):
            self._scratch_lists(self._ranks, len(slots), blocks.late)
        # as much as lists that grow will mostly want; while scores don't fall they hardly do
        places = 2 * int(ranked.room[slots].sum())
        ranked.spare(min(places, ranked.used // (2 * TIGHT)) if ranked.tight else places)
        deepened = int(self.totals[DEEPENED])
        blocks.keep_brief(self._busy and self.relief.weighted and not self.space.boxed)
        first = 0
        while True:
            result[5] = ranked.used
            done = self._make_lists(first, slots, share)
            first, begin, length, ready, _, ranked.used = result.tolist()
            if done != LACKING:
                break
            slot = int(slots[first - 1])
            ranked.size[slot] = 0
            self._roomier(slot, max(length, int(brim_of(length, int(self.ks[slot])))))
            adopt(
                slot, begin, length, *(each[ready - 1] for each in self._listing), self.ks[slot],
                ranked.good, ranked.time, ranked.seq, ranked.start, ranked.size, self.old_time, self.old_seq,
            )  # fmt: skip
        if self.totals[DEEPENED] != deepened:
            self._stock_lacking()
        return done == LOWERED

    def _make_lists(self, first: int, slots: Ints, share: float) -> int:
        """`refill`, mostly with the arrays at hand: to hand over eighty takes half as long as to make a list."""
        blocks, ranked, stands, relief = self.blocks, self.ranked, self.stands, self.relief
        mapped = relief.frame is not None
        epoch = relief.now if mapped else -1
        if self._whole is not None and not blocks.late:
            self._see_arrays()
            return int(
                self._whole.renew(
                    self._words.words, first, slots, len(slots), self._ranks, self._stack, share, epoch,
                    mapped and relief.weighted and not self.space.boxed, self.horizon_time, self.horizon_seq,
                )
            )  # fmt: skip
        return int(
            self._kernels().refill(
                first, slots, len(slots), stands.place, self._ranks, self._stack, stands.constants,
                stands.bar, share, blocks.state,
                (blocks.pool, blocks.times, blocks.seqs, blocks.meta, blocks.index), self._sketch(),
                (blocks.late_pool, blocks.late_time, blocks.late_seq, blocks.late),
                relief.floors, relief.slope, epoch, self._mapping(),
                (ranked.good, ranked.time, ranked.seq, ranked.start, ranked.size, ranked.room, self.brim),
                self.ks, self.horizon_time, self.horizon_seq, self.old_time, self.old_seq,
                *self._members, *self._listing, self._result, self.totals,
            )
        )  # fmt: skip

    def _sketch(self) -> tuple[Any, ...]:
        """Reservoirs in numbers of four bytes, and what makes scores of them."""
        return self.blocks.brief, self.relief.weight, self.relief.offset, self.relief.blur

    def _mapping(self) -> tuple[Any, ...]:
        mapping = self.relief.mapping()[:-1]
        return self.stands.count, *mapping, self._picks, self.relief.tilt, self._moved, *self._sifting

    def _renew_plainly(self, slot: int) -> None:
        horizon = Recency(int(self.horizon_time[slot]), int(self.horizon_seq[slot]))
        good, time, seq = self.scored(slot, horizon)
        k = int(self.ks[slot])
        bar = -np.inf
        if len(good) > 3 * k:
            bar = float(np.partition(good, len(good) - 3 * k)[len(good) - 3 * k])
        keep = np.flatnonzero(good >= bar)
        if len(keep) > 4 * k:  # many of one score: those with k newer equals go
            order = keep[np.lexsort((seq[keep], time[keep], good[keep]))]
            values, times, seqs = good[order], time[order], seq[order]
            heap = np.empty(k, dtype=np.int64), np.empty(k, dtype=np.int64)
            left = prune(values, times, seqs, 0, len(order), k, horizon.time, horizon.seq, *heap)
            self.ranked.put(slot, values[:left], times[:left], seqs[:left])
        else:
            self.ranked.put(slot, good[keep], time[keep], seq[keep])
        self.totals[CATCH_UPS] += 1
        self.ranked.reserve(slot, 1)
        self.brim[slot] = self.ranked.room[slot]
        self.stands.bar[self.stands.place[slot]] = bar
        _, times, seqs = self.ranked.top(slot, k)
        oldest = np.lexsort((seqs, times))[:1]
        self.old_time[slot], self.old_seq[slot] = (
            (int(times[oldest[0]]), int(seqs[oldest[0]])) if len(oldest) else (FAR, FAR)
        )
