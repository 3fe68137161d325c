"""Instances: the objects of one window, without the rows that can't matter any more.

Every row of an object begins an *instance*, the totals from that row on (chains.py). It has a score now, which can only
rise while it lives, and a best score, what it comes to if every row that may yet come is as great as can be, which can
only fall. An instance that k other objects beat as long as it lives, with their scores of now against its best, is
in no answer: *dominated*, after Haghani, Michel and Aberer, who keep a set of ids with each instance. Here one pass
from the newest to the oldest decides for all: the k best scores of different objects among the newer ones are at hand,
and the last of them is the bar. The pass is made now and then, since dominance lasts: late, it only finds more.

How far an object may rise is promised or learnt (query/promises.py). Where all is promised a dominated row is forgotten
for good. Where something is learnt its row stays, out of its object's chain, and costs nothing until it leaves; when a
value or a count breaks what was learnt, all instances are made anew from the rows. While a negative value is in the
window nothing is dominated: it would lower scores that others were let go for.

Late rows: an instance that comes before a dominated one of its object doesn't know what that one had. It is told too
low a score then, and it doesn't matter: what dominates the newer instance dominates it, too.

Cost: a row touches every instance of its object; a pass over all instances when half as many rows came, and up to four
times as seldom where the last one found hardly anything.
Memory: an instance takes 28 bytes, 4 for each stream and 16 for each aggregate, beside its row's 36 and 8 for each
column; an object 48 and 4 for each stream.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.order import LOWEST, Floats, Ints, Recency
from skyband.stream.keys import keys_for
from skyband.stream.tables import SlotTable
from skyband.structures.chained import best_of_plain, enter_one, sole_of
from skyband.structures.chains import (
    HEAD,
    KEY,
    LINKED,
    MARKED,
    NEWER,
    OLDER,
    OLDEST,
    OWN_TALLY,
    ROWS,
    SEEN,
    SEQ,
    TIME,
    dominated,
    enter,
    enter_wide,
    first_of,
    most_of,
    settled,
    totals_of,
    unlink,
    widths,
)
from skyband.structures.keyed import Keyed
from skyband.structures.leaders import Leaders
from skyband.structures.records import Aggregate, lines
from skyband.structures.rows import Places
from skyband.structures.wide import WIDTH

Scores = Callable[[Any, Ints, Floats, Ints], Floats]
PATIENCE = 1024  # rows, beside half as many as there are instances, until the next pass
ONWARD = 256  # rows that are taken in with care after one that needed it
HEADROOM = 1.125  # of a greatest value that is learnt
LITTLE, MOST_STRETCH = 16, 4  # a pass that finds less than a sixteenth makes the next ones rarer


class Instances(Keyed):
    """The instances of one window of one question, for its best k."""

    def __init__(
        self, aggregates: tuple[Aggregate, ...], width: int, streams: int, several: bool, most: list[float | None],
        rows: int | None, ever: bool, final: bool, plain: tuple[int, ...] = (), sign: float = 1.0,
    ) -> None:  # fmt: skip
        self.plain, self.sign = np.array(plain, dtype=np.int64), sign  # as in totals.py
        super().__init__(width, several)
        self.streams, self.ever, self.final = streams, ever, final
        self.plan = np.array(aggregates, dtype=np.int64).reshape(-1, 3)
        self.first = first_of(streams)
        self.sole = sole_of(aggregates, streams, plain)
        self.given = np.array([value is not None for value in most], dtype=bool)
        self.learns = not self.given.all()
        self.most = np.array([0.0 if value is None else value for value in most])
        self.counted = rows is not None  # promised
        self.crowd = np.full(streams, rows or 1, dtype=np.int64)
        self.k = 1
        self.patience = PATIENCE
        self.leaders = Leaders()
        self.negative = LOWEST  # the latest row with a negative value
        self.fresh = 0  # rows since the last pass
        self.retained = 0  # instances after it
        self.stretch = 1  # of the time until the next pass, where the last one found hardly anything
        self.passes = self.dropped = self.anew = self.broken = 0
        self.wide = np.zeros((0, WIDTH), dtype=np.int64)
        self.idle = np.zeros(1, dtype=np.int64)
        self.kind = np.zeros(0, dtype=np.uint16)
        self.record = np.zeros((0, widths(streams, len(aggregates))[0]), dtype=np.int64)
        self.score, self.touched = np.zeros(0), np.zeros(0, dtype=np.int32)
        self._allot(0)
        self.who = np.zeros((0, widths(streams, 0)[1]), dtype=np.int64)
        self.own = self.who.view(np.int32)
        self.marked = np.zeros(0, dtype=np.int64)
        self.state = np.zeros(5, dtype=np.int64)

    def _allot(self, places: int) -> None:
        """Records for so many places; what is there stays."""
        old = self.record
        record, score = lines(places, old.shape[1]), np.zeros(places)
        touched = np.zeros(places, dtype=np.int32)
        record[: len(old)], score[: len(old)], touched[: len(old)] = old, self.score, self.touched
        self.record, self.score, self.touched = record, score, touched
        self.tally, self.values64 = record.view(np.int32), record.view(np.float64)
        if self.several:
            kind = np.zeros(places, dtype=np.uint16)
            kind[: len(self.kind)] = self.kind
            self.kind = kind

    def __len__(self) -> int:
        return int(np.count_nonzero(self.own[:, ROWS]))

    # -- a step --------------------------------------------------------------------------------------------

    def expire(self, horizon: Recency) -> None:
        """Rows before the horizon leave."""
        self.horizon = max(horizon, self.horizon)
        gone = self.rows.expire(self.horizon)
        if len(gone):
            self._unlink(gone, forget=True, gone=True)

    def add(
        self, keys: pa.Array, columns: tuple[Floats, ...], time: Ints, seq: Ints, stream: Any = 0
    ) -> None:
        """Rows come, oldest first, of one stream or each with its own; none has a NaN or a key that is null. Those
        before the horizon are left out."""
        found = self._inside(keys, columns, time, seq, stream)
        if found is None:
            return
        assert self.keys is not None
        anew = self._learn(*found[1:])
        places = self.rows.add(found.columns, found.time, found.seq)
        self._reserve(self.keys.used + len(places))
        if isinstance(self.keys, SlotTable):
            self.keys.lodge(self.who, KEY)
        codes = self.keys.find(found.keys)
        self._label(places, codes, found.stream, self.kind)
        self.fresh += len(places)
        if anew and self.retained_aside():
            self._make_anew()
        else:
            self._enter(places)
            self._count()

    def _learn(self, columns: tuple[Floats, ...], time: Ints, seq: Ints, stream: Any) -> bool:
        """Look at new values before they are taken in; whether something that was learnt is broken."""
        anew = False
        if not self.learns:
            return anew
        for a, (_, column, own) in enumerate(self.plan.tolist()):
            if self.given[a]:
                continue
            values = np.where(stream == own, columns[column], 0.0)
            if float(values.max()) > self.most[a]:
                self.most[a] = HEADROOM * float(values.max())
                anew = True
            below = np.flatnonzero(values < 0.0)
            if len(below):
                last = int(below[-1])
                self.negative = max(self.negative, Recency(int(time[last]), int(seq[last])))
                anew = True
        return anew

    def _count(self) -> None:
        """How often an object came in a stream: what was promised is broken, or what was learnt."""
        if self.ever:
            self.broken += int(self.state[3])
        elif self.state[2] > self.crowd.max():
            if self.counted:
                self.broken += 1
            else:
                self.crowd[:] = self.state[2]
                if self.retained_aside():
                    self._make_anew()
        self.state[2] = self.state[3] = 0

    def retained_aside(self) -> bool:
        """Whether rows lie aside that something broken may bring back."""
        return not self.final and self.passes > 0

    def _make_anew(self) -> None:
        """All instances from the rows, as if none had ever been dominated."""
        self.anew += 1
        living = self.rows.living()
        # a number that is handed out again still has what was known of its last object
        seen = np.where(self.own[:, ROWS] > 0, self.who[:, SEEN], 0)
        waiting = self.marked[: self.state[1]].copy()
        self.record[living] = 0
        self.own[:, HEAD] = self.own[:, OLDEST] = -1
        self.own[:, ROWS] = self.own[:, MARKED] = 0
        self.own[:, OWN_TALLY:] = 0
        self.idle[0] = len(self.wide)
        self.idle[1:] = np.arange(len(self.wide))
        self.state[:] = 0
        self.passes = 0
        self._enter(living)
        self.who[:, SEEN] |= seen
        waiting = waiting[self.own[waiting, MARKED] == 0]  # whose last row has left in this step
        self.own[waiting, MARKED] = 1
        self.marked[self.state[1] : self.state[1] + len(waiting)] = waiting
        self.state[1] += len(waiting)
        if not self.counted:
            self.crowd[:] = np.maximum(self.crowd, self.state[2])
        self.state[2] = self.state[3] = 0

    def _reserve(self, codes: int) -> None:
        if codes > len(self.who):
            more = lines(codes + codes // 2, self.who.shape[1])
            more[: len(self.who)] = self.who
            self.who, self.own = more, more.view(np.int32)
            marked = np.zeros(len(more), dtype=np.int64)
            marked[: len(self.marked)] = self.marked
            self.marked = marked
        self.leaders.reserve(codes)
        if len(self.rows.order) > len(self.record):
            self._allot(len(self.rows.order))

    def _enter(self, places: Places) -> None:
        done, at = 0, -1
        while done < len(places):
            if at < 0:
                if self.sole is not None:
                    done, at = self._enter_one(done, places, self.sole)
                else:
                    done, at = enter(done, *self._common(places))
            if done < len(places):
                if self.idle[0] < 2 * len(self.plan):
                    self._more_wide()
                done, at = enter_wide(done, min(done + ONWARD, len(places)), at, *self._common(places))

    def _enter_one(self, done: int, places: Places, sole: Ints) -> Any:
        rows = self.rows
        return enter_one(
            done, places, rows.cell, rows.x, rows.time, rows.seq, self.kind, sole, self.first, self.who, self.own,
            self.record, self.tally, self.values64, self.plain, self.sign, self.score,
            self.marked, self.state,
        )  # fmt: skip

    def _common(self, places: Places) -> tuple[Any, ...]:
        rows = self.rows
        return (
            places, rows.cell, rows.x, rows.time, rows.seq, self.kind, self.plan, self.first, self.who, self.own,
            self.record, self.tally, self.values64, self.wide, self.idle, self.plain, self.sign,
            self.score, self.touched, self.marked, self.state,
        )  # fmt: skip

    def _more_wide(self) -> None:
        old = len(self.wide)
        wider = np.zeros((2 * old + 4 * max(1, len(self.plan)), WIDTH), dtype=np.int64)
        wider[:old] = self.wide
        free = np.concatenate([self.idle[1 : 1 + self.idle[0]], np.arange(old, len(wider))])
        self.idle = np.zeros(1 + len(wider), dtype=np.int64)
        self.idle[0] = len(free)
        self.idle[1 : 1 + len(free)] = free
        self.wide = wider

    def _unlink(self, places: Places, forget: bool, gone: bool) -> None:
        unlink(
            places, forget, gone, self.rows.cell, self.kind, self.plan, self.first, self.own, self.record, self.tally,
            self.idle, self.marked, self.state,
        )  # fmt: skip

    def delete(self, time: Ints, seq: Ints) -> None:
        raise NotImplementedError("rows of an update stream leave in any order")

    def settle(self, scores: Scores) -> None:
        """Rows have come and gone: instances and objects have new scores; objects without rows are forgotten."""
        places = self.touched[: self.state[0]]
        if len(places):
            places = places[self.record[places, 0] & LINKED != 0]
            self.state[0] = 0
            self.score[places] = self._judge(scores, places, *self._totals(places))
        if self.fresh >= self.patience + self.stretch * self.retained // 2:
            self.collect(scores)
        marked, leaders = self.marked[: self.state[1]], self.leaders
        if not len(marked):
            return
        self.state[1] = 0
        risen, dead = np.empty(len(marked), dtype=np.int64), np.empty(len(marked), dtype=np.int64)
        up, gone = settled(
            marked, self.own, self.score, leaders.good, leaders.listed, leaders.bar, risen, dead
        )
        if up:
            leaders.codes = np.concatenate([leaders.codes, risen[:up]])
        if gone:
            assert self.keys is not None
            leaders.release(dead[:gone])
            self.keys.drop(dead[:gone])

    def _totals(self, places: Any) -> tuple[Floats, Ints]:
        out, counts = np.empty((len(self.plan), len(places))), np.empty(len(places), dtype=np.int64)
        totals_of(
            places, self.plan, self.first, self.record, self.tally, self.values64, self.wide, out, counts, self.streams
        )  # fmt: skip
        return out, counts

    def _judge(self, scores: Scores, places: Any, values: Floats, counts: Any) -> Floats:
        return scores(self, self.rows.cell[places].astype(np.int64), values, counts)

    # -- who may still matter ------------------------------------------------------------------------------

    def linked(self) -> Places:
        """The instances, oldest first."""
        living = self.rows.living()
        if self.final:  # a row without an instance is not stored
            return living
        found: Places = living[self.record[living, 0] & LINKED != 0]
        return found

    def best_of(self, places: Places, scores: Scores) -> Floats:
        """The best score that these instances can come to."""
        if len(self.plain):
            best = np.empty(len(places))
            best_of_plain(
                places, self.rows.cell, self.plan, self.first, self.who, self.record, self.tally, self.values64,
                self.most, self.crowd, self.ever, self.plain, self.sign, best,
            )  # fmt: skip
            return best
        out, counts = np.empty((len(self.plan), len(places))), np.empty(len(places), dtype=np.int64)
        most_of(
            places, self.rows.cell, self.plan, self.first, self.who, self.record, self.tally, self.values64,
            self.most, self.crowd, self.ever, out, counts,
        )  # fmt: skip
        return self._judge(scores, places, out, counts)

    def collect(self, scores: Scores) -> None:
        """Let go of instances that k other objects beat for life. Scores are settled."""
        self.fresh = 0
        places = self.linked()
        self.retained = len(places)
        if self.negative >= self.horizon or not len(places):
            return
        best = self.best_of(places, scores)
        out = np.empty(len(places), dtype=np.int32)
        found = dominated(
            places, self.rows.cell, self.score, best, self.k, np.zeros(self.k), np.zeros(self.k, dtype=np.int64), out
        )  # fmt: skip
        self.passes += 1
        self.dropped += found
        self.stretch = min(2 * self.stretch, MOST_STRETCH) if LITTLE * found < len(places) else 1
        self.retained -= found
        if found:
            self._unlink(out[:found], forget=self.final, gone=False)
            if self.final:
                self.rows.remove(out[:found])
                self.rows._squeeze()

    def resize(self, k: int) -> None:
        """As many ranks are asked for; more than before: what lies aside comes back."""
        if k > self.k and self.retained_aside():
            self._make_anew()
        self.k = k

    # -- answers -------------------------------------------------------------------------------------------

    def best(self, k: int | None) -> tuple[Ints, Floats, Ints, Ints]:
        """Codes, scores, and times and seqs of the latest rows of the best k objects, best first."""
        codes = self.leaders.best(k, self.who[:, TIME], self.who[:, SEQ])
        return codes, self.leaders.good[codes], self.who[codes, TIME], self.who[codes, SEQ]

    def values(self, codes: Ints) -> tuple[Floats, Ints]:
        """A column of each aggregate for these objects, and how many rows they have."""
        return self._totals(self.own[codes, OLDEST])

    def within(self, horizon: Recency, scores: Scores) -> Instances:
        """The instances of a shorter window."""
        other = copy.deepcopy(self)
        other.tally, other.values64 = other.record.view(np.int32), other.record.view(np.float64)
        other.own = other.who.view(np.int32)
        other.expire(horizon)
        other.settle(scores)
        return other

    # -- keeping -------------------------------------------------------------------------------------------

    def bytes(self) -> int:
        keys = 0 if self.keys is None else self.keys.bytes()
        own = (self.record, self.score, self.touched, self.who, self.marked, self.wide, self.kind)
        return sum(array.nbytes for array in own) + self.rows.bytes() + self.leaders.bytes() + keys

    def dump(self) -> dict[str, Any]:
        """Rows with their keys and instances; links are made anew from them."""
        places = self.rows.living()
        columns, time, seq = self.rows.values(places)
        codes = self.rows.cell[places].astype(np.int64)
        blob: dict[str, Any] = {f"column_{i}": column for i, column in enumerate(columns)}
        if self.keys is not None:
            blob["keys"] = pa.table({"key": self.keys.values(codes)})
        if self.several:
            blob["stream"] = self.kind[places].copy()
        blob |= {"time": time, "seq": seq, "horizon": list(self.horizon), "negative": list(self.negative)}
        blob |= {
            "most": self.most,
            "crowd": self.crowd,
            "k": self.k,
            "record": np.delete(self.record[places], 1, axis=1),
        }
        blob |= {"wide": self.wide, "idle": self.idle, "who": self.who[codes, SEEN : SEQ + 1]}
        did = (self.fresh, self.retained, self.passes, self.dropped, self.anew, self.broken)
        return {**blob, "did": list(did), "stretch": self.stretch}

    def load(self, blob: dict[str, Any], scores: Scores) -> None:
        self.horizon, self.negative = Recency(*blob["horizon"]), Recency(*blob["negative"])
        self.most, self.crowd, self.k = blob["most"].copy(), blob["crowd"].copy(), blob["k"]
        time, seq = blob["time"], blob["seq"]
        if "keys" in blob and len(seq):
            keys = blob["keys"].column("key").combine_chunks()
            self.keys = keys_for(keys.type)
            codes = self.keys.find(keys)
            places = self.rows.add(tuple(blob[f"column_{i}"] for i in range(max(1, self.width))), time, seq)
            self.rows.cell[places] = codes
            self._reserve(self.keys.used)
            if self.several:
                self.kind[places] = blob["stream"]
            self._enter(places)  # counts of rows; then the instances as they were
            self._unlink(places, forget=False, gone=False)
            self.state[0] = 0
            self.wide, self.idle = blob["wide"].copy(), blob["idle"].copy()
            self._relink(places, blob["record"], blob["who"])
        did, self.stretch = blob["did"], blob.get("stretch", 1)
        self.fresh, self.retained, self.passes, self.dropped, self.anew, self.broken = did
        self.state[2] = self.state[3] = 0
        self.settle(scores)

    def _relink(self, places: Places, record: Ints, who: Ints) -> None:
        """Records of instances that were written down, oldest first, and what was known of each one's object."""
        self.record[places] = np.insert(record, 1, 0, axis=1)  # the neighbours
        tally, own = self.tally, self.own
        for place, told in zip(places.tolist(), who, strict=True):
            code = int(self.rows.cell[place])
            self.who[code, SEEN : SEQ + 1] = told
            if not self.record[place, 0] & LINKED:
                continue
            before = int(own[code, HEAD])
            tally[place, OLDER], tally[place, NEWER] = before, -1
            if before >= 0:
                tally[before, NEWER] = place
            else:
                own[code, OLDEST] = place
            own[code, HEAD] = place
        linked = self.linked()
        self.touched[: len(linked)] = linked
        self.state[0] = len(linked)

    def _check(self) -> None:
        self.rows._check()
        self.leaders._check()
        living, own = self.rows.living(), self.own
        codes = self.rows.cell[living]
        # objects know how many rows they have, in all and of each stream
        assert np.array_equal(np.bincount(codes, minlength=len(own)), own[:, ROWS])
        for stream in range(self.streams):
            part = codes[self.kind[living] == stream] if self.several else codes
            assert np.array_equal(np.bincount(part, minlength=len(own)), own[:, OWN_TALLY + stream])
        if self.keys is not None:
            self.keys._check(np.flatnonzero(own[: self.keys.used, ROWS]))
        # every chain goes from the oldest instance to the newest and back, and has all that are linked
        linked, seen = self.linked(), 0
        recency = {int(place): at for at, place in enumerate(linked.tolist())}
        for code in np.unique(self.rows.cell[linked]).tolist():
            place, before = int(own[code, OLDEST]), -1
            while place >= 0:
                assert self.tally[place, OLDER] == before and self.rows.cell[place] == code
                assert before < 0 or recency[before] < recency[place]
                before, place, seen = place, int(self.tally[place, NEWER]), seen + 1
            assert own[code, HEAD] == before
        assert seen == len(linked) and self.state[0] == self.state[1] == 0
        assert bool((self.record[linked, 0] & LINKED).all())
        # nobody is touched or marked between steps
        assert not (self.record[living, 0] & 1).any() and not own[:, MARKED].any()
