"""The board: each watch's last reported answer, and the loop that finds what changed.

After a step (rows expired, then inserted) each watch's new top is computed from its candidate list and
compared with the one on the board. Both are sorted by the same total order and a row's score never changes,
so one merge finds who left and who entered. Most watches are passed over at once: the step brought nothing
at least as good as their last rank, and their oldest row is still inside.

Changes of all watches of a family go into one set of arrays, watch by watch, leaves before enters: no Python
per change, and the change table is made of the arrays themselves.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.algorithms.kernels.candidate_lists import Lists, best
from skyband.algorithms.kernels.ranked_lists import Ranked
from skyband.compiling.array_version import Renewed
from skyband.compiling.intrinsics import fetch
from skyband.compiling.jit import inlined, kernel
from skyband.core.exchange import Changes
from skyband.core.order import first_inside
from skyband.core.types import Floats, Ints

Bytes = npt.NDArray[np.uint8]
U = np.uint64  # places that can't be negative spare the machine to look
AHEAD = 4  # watches for whose answers memory is asked in advance


def _buffer(room: int) -> Changes:
    return Changes(
        np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64), np.empty(room, dtype=np.float64),
        np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64),
    )  # fmt: skip


class Board(Renewed):
    """The reported answers of a family's watches, in one set of arrays."""

    def __init__(self) -> None:
        self.slot = np.empty(0, dtype=np.int64)
        self.start = np.empty(0, dtype=np.int64)
        self.room = np.empty(0, dtype=np.int64)
        self.size = np.empty(0, dtype=np.int64)
        self.stale = np.empty(0, dtype=np.int64)  # 1: look again, whatever the step brought
        self.oldest_time = np.empty(0, dtype=np.int64)
        self.oldest_seq = np.empty(0, dtype=np.int64)
        self.good = np.empty(0, dtype=np.float64)
        self.time = np.empty(0, dtype=np.int64)
        self.seq = np.empty(0, dtype=np.int64)
        self._width = 1024  # changes that a round may find
        self._found = _buffer(0)
        self._fitted: Ints | None = None  # there is room for so many
        self._most = 0  # room of the longest answer, and scratch for it
        self._scores, self._ranked = np.empty(0), np.empty(0, dtype=np.int64)

    def add(self, slot: int) -> int:
        index = len(self.slot)
        self._fitted = None
        self.slot = np.append(self.slot, slot)
        for name in ("start", "room", "size", "stale", "oldest_time", "oldest_seq"):
            setattr(self, name, np.append(getattr(self, name), 0))
        return index

    def remove(self, index: int) -> None:
        """Later watches move up by one."""
        self._fitted = None
        for name in ("slot", "start", "room", "size", "stale", "oldest_time", "oldest_seq"):
            setattr(self, name, np.delete(getattr(self, name), index))

    def _make_room(self, ks: Ints) -> None:
        """Lay the answers out anew where some watch has outgrown its stretch."""
        if ks is self._fitted:
            return
        self._fitted = ks
        if np.all(ks <= self.room):
            return
        room = np.where(ks <= self.room, self.room, ks + ks // 4)
        start = np.concatenate([[0], np.cumsum(room)[:-1]]).astype(np.int64)
        places = self._places()
        moved = places + np.repeat(start - self.start, self.size)
        for name in ("good", "time", "seq"):
            old = getattr(self, name)
            new = np.zeros(int(room.sum()), dtype=old.dtype)
            new[moved] = old[places]
            setattr(self, name, new)
        self.room, self.start = room.astype(np.int64), start
        self._most = int(room.max())

    def _places(self) -> Ints:
        """Where the answers of all watches lie, one after the other."""
        before = np.cumsum(self.size) - self.size
        places: Ints = np.repeat(self.start - before, self.size)
        places += np.arange(len(places))
        return places

    def dump(self) -> dict[str, Any]:
        """The answers side by side."""
        blob: dict[str, Any] = {
            name: getattr(self, name).copy()
            for name in ("slot", "size", "stale", "oldest_time", "oldest_seq")
        }
        places = self._places()
        blob.update({name: getattr(self, name)[places] for name in ("good", "time", "seq")})
        return blob

    def load(self, blob: dict[str, Any]) -> None:
        for name, array in blob.items():
            setattr(self, name, array.copy())
        self._fitted = None
        self.room = self.size.copy()
        self._most = int(self.room.max(initial=0))
        self.start = (np.cumsum(self.size) - self.size).astype(np.int64)

    def refresh(
        self, lists: Lists, fresh: Floats, ks: Ints, horizon_time: Ints, horizon_seq: Ints
    ) -> Changes | None:
        """Bring every answer up to date from lists in order of recency; what changed, or None."""

        def round_(first: int, out: Changes) -> tuple[int, int]:
            if len(self._scores) < self._most:
                self._scores, self._ranked = np.empty(self._most), np.empty(self._most, dtype=np.int64)
            found: tuple[int, int] = refresh(
                first, self.slot, ks, horizon_time, horizon_seq, fresh,
                self.start, self.room, self.size, self.stale, self.oldest_time, self.oldest_seq,
                self.good, self.time, self.seq,
                lists.good, lists.time, lists.seq, lists.start, lists.head, lists.size,
                self._scores, self._ranked, *out[:5],
            )  # fmt: skip
            if found[0] < len(self.slot):  # a longer answer than ever, or more changes than fit
                self._make_room(np.minimum(ks, (lists.size - lists.head)[self.slot]))
            return found

        return self._collect(0, round_)

    def refresh_ranked(
        self,
        ranked: Ranked,
        touched: Bytes,
        ks: Ints,
        timed: bool = True,
        begun: tuple[int, int] | None = None,
    ) -> Changes | None:
        """Bring the answers of touched slots up to date from lists that end with the answer; what changed, or None.

        begun: a watch, from which on it is to be done, and how many changes `found` has already."""

        def round_(first: int, out: Changes) -> tuple[int, int]:
            found: tuple[int, int] = refresh_ranked(
                first, self.slot, ks, touched, timed, self.start, self.room, self.size, self.stale,
                self.good, self.time, self.seq,
                ranked.good, ranked.time, ranked.seq, ranked.start, ranked.size, *out[:5],
            )  # fmt: skip
            if found[0] < len(self.slot):  # a longer answer than ever, or more changes than fit
                self._make_room(np.minimum(ks, ranked.size[self.slot]))
            return found

        if begun is None:
            return self._collect(0, round_)
        first, count = begun
        part = self.found().part(count)
        self._make_room(np.minimum(ks, ranked.size[self.slot]))
        return self._collect(4 * self._width, round_, first=first, out=[part] if count else [])

    def found(self) -> Changes:
        """Memory for a step's changes, for whoever tells them before the next step."""
        if len(self._found.watch) != self._width:
            self._found = _buffer(self._width)
        return self._found

    def _collect(
        self,
        least: int,
        round_: Callable[[int, Changes], tuple[int, int]],
        watches: int | None = None,
        first: int = 0,
        out: Sequence[Changes] = (),
    ) -> Changes | None:
        """All rounds of a refresh from a watch on, added to what was found before it; one that ends early because its
        output might not suffice is followed by a larger."""
        watches = len(self.slot) if watches is None else watches
        out = list(out)
        room = max(self._width, least)
        while first < watches:
            buffer = _buffer(room)
            first, count = round_(first, buffer)
            if count:
                out.append(buffer.part(count))
            room *= 4  # a busy step: fewer, larger rounds
        if len(out) > 1:
            self._width = min(4 * self._width, 65_536)
        if not out:
            return None
        if len(out) == 1:
            return out[0]
        columns: list[Any] = [
            np.concatenate(arrays) for arrays in zip(*(each[:5] for each in out), strict=True)
        ]
        return Changes(*columns)


@kernel
def refresh(
    first: int, slots: Ints, ks: Ints, horizon_time: Ints, horizon_seq: Ints, fresh: Floats,
    start: Ints, room: Ints, size: Ints, stale: Ints, oldest_time: Ints, oldest_seq: Ints,
    good: Floats, time: Ints, seq: Ints,
    pool_good: Floats, pool_time: Ints, pool_seq: Ints, list_start: Ints, list_head: Ints, list_size: Ints,
    scores: Floats, places: Ints, out_watch: Ints, out_rank: Ints, out_good: Floats, out_time: Ints, out_seq: Ints,
) -> tuple[int, int]:  # fmt: skip
    """Refresh answers from watch `first` on; stops early where the output might not suffice, or a watch's room."""
    count = 0
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
        if k > room[w] or count + old + k > out_watch.shape[0]:
            return w, count
        end = list_start[slot] + list_size[slot]
        begin = list_start[slot] + list_head[slot]
        begin = first_inside(pool_time, pool_seq, begin, end, horizon_time[w], horizon_seq[w])
        found = best(pool_good, begin, end, k, scores, places)
        # pass 1: who was there and is not any more
        j = 0
        for i in range(old):
            here = U(base + i)
            while j < found and before(
                scores[U(j)],
                pool_time[U(places[U(j)])],
                pool_seq[U(places[U(j)])],
                good[here],
                time[here],
                seq[here],
            ):
                j += 1
            if j < found and pool_seq[U(places[U(j)])] == seq[here]:
                continue
            to = U(count)
            out_watch[to] = w
            out_rank[to] = 0
            out_good[to] = good[here]
            out_time[to] = time[here]
            out_seq[to] = seq[here]
            count += 1
        # pass 2: who is there and was not
        i = 0
        for j in range(found):
            at = U(places[U(j)])
            while i < old and before(
                good[U(base + i)],
                time[U(base + i)],
                seq[U(base + i)],
                scores[U(j)],
                pool_time[at],
                pool_seq[at],
            ):
                i += 1
            if i < old and seq[U(base + i)] == pool_seq[at]:
                continue
            to = U(count)
            out_watch[to] = w
            out_rank[to] = j + 1
            out_good[to] = scores[U(j)]
            out_time[to] = pool_time[at]
            out_seq[to] = pool_seq[at]
            count += 1
        size[w] = found
        stale[w] = 0
        for j in range(found):
            here, at = U(base + j), U(places[U(j)])
            good[here] = scores[U(j)]
            time[here] = pool_time[at]
            seq[here] = pool_seq[at]
            older = pool_time[at] < oldest_time[w] or (
                pool_time[at] == oldest_time[w] and pool_seq[at] < oldest_seq[w]
            )
            if j == 0 or older:
                oldest_time[w] = pool_time[at]
                oldest_seq[w] = pool_seq[at]
    return slots.shape[0], count


@kernel
def refresh_ranked(
    first: int, slots: Ints, ks: Ints, touched: Bytes, timed: bool, start: Ints, room: Ints, size: Ints, stale: Ints,
    good: Floats, time: Ints, seq: Ints,
    pool_good: Floats, pool_time: Ints, pool_seq: Ints, list_start: Ints, list_size: Ints,
    out_watch: Ints, out_rank: Ints, out_good: Floats, out_time: Ints, out_seq: Ints,
) -> tuple[int, Any]:  # fmt: skip
    """As `refresh`, from lists sorted by the one total order, best last: their end is the answer.

    One merge finds both who left and who entered; the latter wait behind the output until the former are written. Not
    `timed`: all times are 0, and their memory isn't touched.
    """
    zero, one = np.uint64(0), np.uint64(1)  # places that can't be negative spare the machine to look
    count: Any = zero
    for w in range(first, slots.shape[0]):
        ahead = w + AHEAD
        if ahead < slots.shape[0] and touched[slots[ahead]]:
            fetch(seq, start[ahead])
            fetch(seq, start[ahead] + 8)
            fetch(seq, start[ahead] + 16)
            fetch(pool_seq, list_start[slots[ahead]] + list_size[slots[ahead]] - 1)
        slot, length = slots[w], min(ks[w], list_size[slots[w]])
        if touched[slot] == 0 and stale[w] == 0 and size[w] == length:
            continue
        if length > room[w] or np.int64(count) + size[w] + length > out_watch.shape[0]:
            return w, np.int64(count)
        old, found, base = np.uint64(size[w]), np.uint64(length), np.uint64(start[w])
        last = np.uint64(list_start[slot] + max(list_size[slot], 1) - 1)  # the best of the list
        # ranks that have not changed: both begin alike
        same = zero
        while same < old and same < found and seq[base + same] == pool_seq[last - same]:
            same += one
        i, j, changed = same, same, same
        waiting = count + old
        entered = zero
        while i < old or j < found:
            leaves: Any = j >= found
            if i < old and j < found:
                here, there = base + i, last - j
                if seq[here] == pool_seq[there]:
                    i += one
                    j += one
                    continue
                leaves = good[here] > pool_good[there]
                if good[here] == pool_good[there]:
                    leaves = not before(
                        0.0, pool_time[there] if timed else 0, pool_seq[there],
                        0.0, time[here] if timed else 0, seq[here],
                    )  # fmt: skip
            if leaves:
                out_watch[count] = w
                out_rank[count] = 0
                out_good[count] = good[base + i]
                out_time[count] = time[base + i] if timed else 0
                out_seq[count] = seq[base + i]
                count += one
                i += one
            else:
                out_rank[waiting + entered] = np.int64(j)
                entered += one
                j += one
            changed = j
        for e in range(entered):
            rank = np.uint64(out_rank[waiting + np.uint64(e)])
            at = last - rank
            out_watch[count] = w
            out_rank[count] = np.int64(rank) + 1
            out_good[count] = pool_good[at]
            out_time[count] = pool_time[at] if timed else 0
            out_seq[count] = pool_seq[at]
            count += one
        size[w] = length
        stale[w] = 0
        if old != found:
            changed = found  # else the ranks after the last change are what they were
        j = same
        while j < changed:
            good[base + j] = pool_good[last - j]
            seq[base + j] = pool_seq[last - j]
            if timed:
                time[base + j] = pool_time[last - j]
            j += one
    return slots.shape[0], np.int64(count)


@inlined
def before(good: float, time: int, seq: int, other_good: float, other_time: int, other_seq: int) -> bool:
    """Whether a row comes before another in the one total order."""
    if good != other_good:
        return good > other_good
    if time != other_time:
        return time > other_time
    return seq > other_seq
