"""The one comparison: what each watch's answer was, what it is, and so what leaves and what enters.

Every family shows its present answers in one shape (`Present`). Here they are compared with those that were reported
last. Both are in the one total order, so one merge of them finds all changes of a watch. Changes of all watches of a
family go into one set of arrays, watch by watch, leaves before enters: there is no Python for each change, and the
change table is made of the arrays themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skyband.algorithms.kernels.list_answers import lay_out, places_of
from skyband.compiling.array_version import Renewed
from skyband.compiling.intrinsics import fetch
from skyband.compiling.jit import inlined, kernel
from skyband.core.exchange import OBJECT, PAIR, ROW, Changes, Entries, Present
from skyband.core.order import before
from skyband.core.types import Ints

U = np.uint64  # places that can't be negative spare the machine to look
AHEAD = 4  # watches for whose answers memory is asked in advance
_BY_WATCH = ("slot", "start", "room", "size", "stale")
_POOL = ("good", "time", "seq", "time_b", "seq_b")

Buffer = tuple[Any, ...]
"""Memory for changes: watch, rank, good, time, seq, seq_b, place in the answer."""


def _buffer(room: int, kind: int) -> Buffer:
    sizes = room, room, room, room, room, room * (kind == PAIR), room * (kind == OBJECT)
    return tuple(np.empty(n, dtype=np.float64 if i == 2 else np.int64) for i, n in enumerate(sizes))


class Answers(Renewed):
    """The answers of a family's watches as they were reported last, in one set of arrays."""

    def __init__(self, kind: int) -> None:
        self.kind = kind
        self.slot = np.empty(0, dtype=np.int64)
        self.start = np.empty(0, dtype=np.int64)
        self.room = np.empty(0, dtype=np.int64)
        self.size = np.empty(0, dtype=np.int64)
        self.stale = np.empty(0, dtype=np.int64)  # 1: look again, whatever the step brought
        self.good = np.empty(0, dtype=np.float64)
        self.time = np.empty(0, dtype=np.int64)
        self.seq = np.empty(0, dtype=np.int64)
        self.time_b = np.empty(0, dtype=np.int64)  # these two of pairs only
        self.seq_b = np.empty(0, dtype=np.int64)
        self.ids: list[Sequence[str]] = []  # of objects, by watch
        self.names = _POOL if kind == PAIR else _POOL[:3]
        self._held: tuple[int, tuple[Any, ...]] = (-1, ())  # the arrays, and when one was last replaced
        self._width = 1024  # changes that a round may find
        self._found = _buffer(0, kind)

    def add(self, slot: int) -> None:
        """One watch more, which nothing was reported to."""
        for name in _BY_WATCH:
            setattr(self, name, np.append(getattr(self, name), slot if name == "slot" else name == "stale"))
        self.ids.append(())

    def remove(self, index: int) -> None:
        """Later watches move up by one."""
        for name in _BY_WATCH:
            setattr(self, name, np.delete(getattr(self, name), index))
        del self.ids[index]

    def of(self, index: int) -> Entries:
        """One watch's answer."""
        span = slice(start := int(self.start[index]), start + int(self.size[index]))
        newer = (self.time_b[span], self.seq_b[span]) if self.kind == PAIR else (None, None)
        ids = self.ids[index] if self.kind == OBJECT else None
        return Entries(self.good[span], self.time[span], self.seq[span], newer[0], newer[1], ids)

    def all_of(self, which: Ints) -> tuple[Ints, Any, Ints]:
        """How long the answers of these watches are, and their scores and seqs, one after the other."""
        size = self.size[which]
        before = np.cumsum(size) - size
        places = np.arange(int(size.sum())) + np.repeat(self.start[which] - before, size)
        return size, self.good[places], self.seq[places]

    def dump(self) -> dict[str, Any]:
        """The answers side by side."""
        places = places_of(self)
        blob: dict[str, Any] = {name: getattr(self, name).copy() for name in ("slot", "size", "stale")}
        return blob | {name: getattr(self, name)[places] for name in self.names}

    def load(self, blob: dict[str, Any]) -> None:
        for name in ("slot", "size", "stale", *self.names):
            setattr(self, name, blob[name].copy())
        self.room = self.size.copy()
        self.start = (np.cumsum(self.size) - self.size).astype(np.int64)
        self.ids = [()] * len(self.size)

    def put(self, answers: Sequence[Entries]) -> None:
        """These are the answers of the watches, all of slot 0."""
        self.size = np.array([len(each.seq) for each in answers], dtype=np.int64)
        self.slot, self.stale = np.zeros_like(self.size), np.zeros_like(self.size)
        self.room, self.start = self.size.copy(), np.cumsum(self.size) - self.size
        for name in self.names:
            none = [getattr(self, name)[:0]]
            setattr(self, name, np.concatenate([getattr(each, name) for each in answers] or none))
        self.ids = [each.id or () for each in answers]

    def compare(self, present: Present, timed: bool = True, found: Sequence[Changes] = ()) -> Changes | None:
        """Report the present answers: what changed since the last report, after what was `found` already."""
        which = present.which
        out, first, room = list(found), 0, self._width
        while first < len(which):
            buffer = _buffer(room, self.kind)  # its own: an earlier one may not be written elsewhere yet
            first, count = compare(
                first, self.kind, timed, present.step, (which, present.start, present.size), present[4:9],
                self.arrays(), buffer,
            )  # fmt: skip
            if count:
                out.append(self._changes(buffer, count, present))
            if first < len(which):  # a longer answer than ever, or more changes than fit
                sizes = self.size.copy()
                sizes[which] = present.size[which]
                lay_out(self, sizes, self.names)
                room *= 4  # a busy step: fewer, larger rounds
        if self.kind == OBJECT:
            for w in which.tolist():
                self.ids[w] = present.ids[w]
        if len(out) > 1:
            self._width = min(4 * self._width, 65_536)
            return _joined(out)
        return out[0] if out else None

    def arrays(self) -> tuple[Any, ...]:
        """What the comparison reads and writes."""
        if self._held[0] != self.renewed:
            names = ("start", "room", "size", "stale", *_POOL)
            self._held = self.renewed, tuple([getattr(self, name) for name in names])
        return self._held[1]

    def found(self) -> Buffer:
        """Return memory for a step's changes, the same at every step."""
        if len(self._found[0]) != self._width:
            self._found = _buffer(self._width, self.kind)
        return self._found

    def _changes(self, buffer: Buffer, count: int, present: Present) -> Changes:
        if self.kind == ROW:
            return Changes(*[column[:count] for column in buffer[:5]])
        watch, rank, good, time, seq, seq_b, place = (column[:count] for column in buffer)
        if self.kind == PAIR:
            return Changes(watch, rank, good, time, seq, seq_b)
        sides = (present.ids, self.ids)
        ids = [
            sides[r == 0][w][p] for w, r, p in zip(watch.tolist(), rank.tolist(), place.tolist(), strict=True)
        ]
        return Changes(watch, rank, good, time, seq, None, ids)

    def _check(self) -> None:
        # answers keep within their room
        assert np.all(self.size <= self.room)
        # rooms lie side by side; a watch whose answers were all empty so far has none, and so no place
        placed = np.flatnonzero(self.room)
        order = placed[np.argsort(self.start[placed])]
        ends = (self.start + self.room)[order]
        assert np.all(ends[:-1] <= self.start[order][1:])


def _joined(parts: Sequence[Changes]) -> Changes:
    """Changes one after the other."""
    first = parts[0]
    columns: list[Any] = [
        np.concatenate(arrays) for arrays in zip(*(part[:5] for part in parts), strict=True)
    ]
    newer = (
        None
        if first.seq_b is None
        else np.concatenate([part.seq_b for part in parts if part.seq_b is not None])
    )
    ids = None if first.id is None else [text for part in parts for text in part.id or ()]
    watch, rank, good, time, seq = columns
    return Changes(watch, rank, good, time, seq, newer, ids)


@kernel
def compare(
    first: int, kind: int, timed: bool, step: int, asked: tuple[Any, ...], present: tuple[Any, ...],
    reported: tuple[Any, ...], out: tuple[Any, ...],
) -> tuple[int, int]:  # fmt: skip
    """Compare answers from the `first` watch on; return where it stopped, for lack of room, and the number of changes.

    One merge finds both what leaves and what enters. What enters waits behind the output until the leaves are written.
    Not `timed`: all times are 0, and their memory isn't touched.
    """
    which, begins, sizes = asked
    new_good, new_time, new_seq, new_time_b, new_seq_b = present
    start, room, size, stale, good, time, seq, time_b, seq_b = reported
    out_watch, out_rank, out_good, out_time, out_seq, out_seq_b, out_place = out
    count = 0
    for n in range(first, which.shape[0]):
        if n + AHEAD < which.shape[0]:
            ahead = which[n + AHEAD]
            fetch(seq, start[ahead])
            fetch(seq, start[ahead] + 8)
            fetch(seq, start[ahead] + 16)
            fetch(new_seq, begins[ahead])
        w = which[n]
        old, found, base, begin = size[w], sizes[w], start[w], begins[w]
        if found > room[w] or count + old + found > out_watch.shape[0]:
            return n, count
        # ranks that have not changed: both begin alike
        same = 0
        while (
            same < old
            and same < found
            and _same(kind, good, seq, seq_b, base + same, new_good, new_seq, new_seq_b, begin + step * same)
        ):
            same += 1
        i, j, changed = same, same, same
        waiting, entered = count + old, 0
        while i < old or j < found:
            leaves = j >= found
            if i < old and j < found:
                here, there = base + i, begin + step * j
                if _same(kind, good, seq, seq_b, here, new_good, new_seq, new_seq_b, there):
                    i += 1
                    j += 1
                    continue
                if good[U(here)] != new_good[U(there)]:
                    leaves = good[U(here)] > new_good[U(there)]
                elif timed and time[U(here)] != new_time[U(there)]:
                    leaves = time[U(here)] > new_time[U(there)]
                elif seq[U(here)] != new_seq[U(there)]:
                    leaves = seq[U(here)] > new_seq[U(there)]
                elif kind == PAIR:
                    leaves = before(
                        0.0, time_b[U(here)], seq_b[U(here)], 0.0, new_time_b[U(there)], new_seq_b[U(there)]
                    )
            if leaves:
                at, here = U(count), U(base + i)
                out_watch[at], out_rank[at] = w, 0
                out_good[at], out_seq[at] = good[here], seq[here]
                out_time[at] = time[here] if timed else 0
                if kind == PAIR:
                    out_seq_b[at] = seq_b[here]
                elif kind == OBJECT:
                    out_place[at] = i
                count += 1
                i += 1
            else:
                out_rank[U(waiting + entered)] = j
                entered += 1
                j += 1
            changed = j
        for e in range(entered):
            j = out_rank[U(waiting + e)]
            at, there = U(count), U(begin + step * j)
            out_watch[at], out_rank[at] = w, j + 1
            out_good[at], out_seq[at] = new_good[there], new_seq[there]
            out_time[at] = new_time[there] if timed else 0
            if kind == PAIR:
                out_seq_b[at] = new_seq_b[there]
            elif kind == OBJECT:
                out_place[at] = j
            count += 1
        size[w], stale[w] = found, 0
        if old != found:
            changed = found  # else the ranks after the last change are what they were
        for j in range(same, changed):
            here, there = U(base + j), U(begin + step * j)
            good[here], seq[here] = new_good[there], new_seq[there]
            if timed:
                time[here] = new_time[there]
            if kind == PAIR:
                time_b[here], seq_b[here] = new_time_b[there], new_seq_b[there]
    return which.shape[0], count


@inlined
def _same(
    kind: int,
    good: Any,
    seq: Any,
    seq_b: Any,
    here: int,
    new_good: Any,
    new_seq: Any,
    new_seq_b: Any,
    there: int,
) -> bool:
    """Whether two entries are one and the same."""
    if seq[U(here)] != new_seq[U(there)]:
        return False
    if kind == PAIR:
        return bool(seq_b[U(here)] == new_seq_b[U(there)])
    return kind != OBJECT or bool(good[U(here)] == new_good[U(there)])
