"""The answers of many watches of one list at once.

Watches of one score differ in k and window, and every window is a suffix of the list in order of recency. So one walk
from the newest candidate back serves them all: the K best so far are kept sorted, and wherever a window begins, its k
best are the first k of them. What is left when the list ends are the windows that hold all of it: they are answered
last (Algorithm 7 of Shen, Cheema, Lin, Zhang and Wang, with the flush that it needs at its end). The shortest window is
searched with a heap, since nothing is known of it; from there on a walk costs an insertion for each candidate that is
in the skyband, a comparison for any other, and k for each answer, however many watches there are.

As on the board, a watch whose last rank nothing new has reached and whose oldest row is still inside is passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skyband.jit import inlined, kernel
from skyband.order import Floats, Ints, Recency, first_inside
from skyband.structures.board import Board, Changes, before
from skyband.structures.lists import Lists, best

_NONE = np.empty(0, dtype=np.int64)
WAIT = 16  # candidates that are put among the best at once


def refresh_together(
    board: Board,
    lists: Lists,
    fresh: Floats,
    ks: Ints,
    most: int,
    horizon_time: Ints,
    horizon_seq: Ints,
    order: Ints,
) -> tuple[Changes | None, Ints]:
    """As `Board.refresh`, with one walk for all watches of a slot. None of the `ks` is above `most`. `order` is that of
    the last time, the watches by slot and in each the shortest window first; it is returned as it is now."""
    board._make_room(ks)
    scores, places = np.empty(most + 1), np.empty(most + 1, dtype=np.int64)
    if not is_order(order, board.slot, horizon_time, horizon_seq):
        order = np.lexsort((horizon_seq, horizon_time, -board.slot))[::-1].copy()
    settled = np.zeros(len(order), dtype=np.int64)

    def round_(first: int, out: Changes) -> tuple[int, int]:
        found: tuple[int, int] = walk_all(
            first, order, settled, fresh, board.slot, ks, horizon_time, horizon_seq,
            board.start, board.size, board.stale, board.oldest_time, board.oldest_seq, board.good, board.time,
            board.seq,
            lists.good, lists.time, lists.seq, lists.start, lists.head, lists.size, scores, places, *out,
        )  # fmt: skip
        return found

    found = board._collect(2 * most, round_)
    if found is None:
        return None, order
    columns: list[Any] = [np.empty_like(array) for array in found]
    by_watch(len(board.slot), *found, *columns)
    return Changes(*columns), order


def tops_together(lists: Lists, asked: Sequence[tuple[int, int, Recency]]) -> list[tuple[Floats, Ints, Ints]]:
    """Many snapshots, given by slot, k and horizon: each is what `Lists.top` gives, by one walk of each list."""
    found: list[tuple[Floats, Ints, Ints]] = [(np.empty(0), _NONE, _NONE)] * len(asked)
    for slot in {slot for slot, _, _ in asked}:
        own = [i for i, one in enumerate(asked) if one[0] == slot]
        ks = np.array([asked[i][1] for i in own], dtype=np.int64)
        edges = np.array([asked[i][2] for i in own], dtype=np.int64)
        arrays = lists.good, lists.time, lists.seq
        for i, places in zip(own, places_of(*arrays, lists.span(slot), ks, edges), strict=True):
            found[i] = (lists.good[places], lists.time[places], lists.seq[places])
    return found


def places_of(good: Floats, time: Ints, seq: Ints, span: slice, ks: Ints, edges: Ints) -> list[Ints]:
    """Where in a list in order of recency the k best of each of many windows are, best first; `edges` has a line for
    each window, the recency at which it begins."""
    ks = np.minimum(ks, span.stop - span.start)
    most = int(ks.max(initial=0))
    out, sizes = np.empty((len(ks), most), dtype=np.int64), np.zeros(len(ks), dtype=np.int64)
    times, seqs = np.ascontiguousarray(edges[:, 0]), np.ascontiguousarray(edges[:, 1])
    order = np.lexsort((seqs, times))[::-1].copy()
    tops(
        good, time, seq, span.start, span.stop, order, ks, times, seqs, np.empty(most + 1),
        np.empty(most + 1, dtype=np.int64), out, sizes,
    )  # fmt: skip
    return [out[line, :size] for line, size in enumerate(sizes.tolist())]


@kernel
def by_watch(
    watches: int, watch: Ints, rank: Ints, good: Floats, time: Ints, seq: Ints, to_watch: Ints, to_rank: Ints,
    to_good: Floats, to_time: Ints, to_seq: Ints,
) -> None:  # fmt: skip
    """Changes in the order of the watches; those of one watch stay in theirs."""
    at = np.zeros(watches + 1, dtype=np.int64)
    for i in range(watch.shape[0]):
        at[watch[i] + 1] += 1
    for w in range(watches):
        at[w + 1] += at[w]
    for i in range(watch.shape[0]):
        w = watch[i]
        to = at[w]
        at[w] += 1
        to_watch[to], to_rank[to], to_good[to], to_time[to], to_seq[to] = w, rank[i], good[i], time[i], seq[i]


@kernel
def is_order(order: Ints, slots: Ints, horizon_time: Ints, horizon_seq: Ints) -> bool:
    """Whether watches are by slot, and in each the newest horizon first."""
    if order.shape[0] != slots.shape[0]:
        return False
    for i in range(1, order.shape[0]):
        a, b = order[i - 1], order[i]
        if slots[a] != slots[b]:
            if slots[a] > slots[b]:
                return False
        elif horizon_time[a] < horizon_time[b] or (
            horizon_time[a] == horizon_time[b] and horizon_seq[a] < horizon_seq[b]
        ):
            return False
    return True


@kernel
def settle_all(
    order: Ints, settled: Ints, slots: Ints, ks: Ints, horizon_time: Ints, horizon_seq: Ints, fresh: Floats,
    start: Ints, size: Ints, stale: Ints, oldest_time: Ints, oldest_seq: Ints, good: Floats,
) -> None:  # fmt: skip
    """Which watches, in this order, need not be looked at: 1."""
    for i in range(order.shape[0]):
        w = order[i]
        k, old = ks[w], size[w]
        if old > k or stale[w] != 0:
            continue
        inside = old == 0 or (
            oldest_time[w] > horizon_time[w]
            or (oldest_time[w] == horizon_time[w] and oldest_seq[w] >= horizon_seq[w])
        )
        full = old == k and k > 0 and fresh[slots[w]] < good[start[w] + old - 1]
        if inside and (full or k == 0):
            settled[i] = 1


@inlined
def _wait(scores: Floats, places: Ints, waiting: int, value: float, place: int) -> int:
    """A candidate that is older than all so far joins those that wait: behind those that are as good."""
    t = waiting
    while t > 0 and scores[t - 1] < value:
        scores[t], places[t] = scores[t - 1], places[t - 1]
        t -= 1
    scores[t], places[t] = value, place
    return waiting + 1


@inlined
def _merge(
    scores: Floats, places: Ints, known: int, most: int, new_scores: Floats, new_places: Ints, waiting: int
) -> int:
    """Candidates that have waited, older than all so far, take their places among the best `most`; how many those are.
    From the back, so that each of the best is moved once for all of them."""
    i, b, to = known - 1, waiting - 1, known + waiting - 1
    while b >= 0:
        if i >= 0 and scores[i] < new_scores[b]:
            if to < most:
                scores[to], places[to] = scores[i], places[i]
            i -= 1
        else:
            if to < most:
                scores[to], places[to] = new_scores[b], new_places[b]
            b -= 1
        to -= 1
    return min(most, known + waiting)


@inlined
def reach_back(
    good: Floats, at: int, to: int, scores: Floats, places: Ints, known: int, most: int, new_scores: Floats,
    new_places: Ints,
) -> int:  # fmt: skip
    """The best `most` candidates so far, with those from the place `at` back to the place `to` among them."""
    waiting = 0
    for place in range(at, to - 1, -1):
        value = good[place]
        if most == 0 or (known == most and value <= scores[most - 1]):
            continue
        if waiting == new_scores.shape[0]:
            known = _merge(scores, places, known, most, new_scores, new_places, waiting)
            waiting = 0
        waiting = _wait(new_scores, new_places, waiting, value, place)
    known = _merge(scores, places, known, most, new_scores, new_places, waiting)
    return known


@kernel
def walk_all(
    first: int, order: Ints, settled: Ints, fresh: Floats, slots: Ints, ks: Ints, horizon_time: Ints, horizon_seq: Ints,
    start: Ints, size: Ints, stale: Ints, oldest_time: Ints, oldest_seq: Ints, good: Floats, time: Ints, seq: Ints,
    pool_good: Floats, pool_time: Ints, pool_seq: Ints, list_start: Ints, list_head: Ints, list_size: Ints,
    scores: Floats, places: Ints, out_watch: Ints, out_rank: Ints, out_good: Floats, out_time: Ints, out_seq: Ints,
) -> tuple[int, int]:  # fmt: skip
    """Answer watches from the `first` of this order on; stops early where the output might not suffice."""
    if first == 0:
        settle_all(
            order, settled, slots, ks, horizon_time, horizon_seq, fresh, start, size, stale, oldest_time, oldest_seq,
            good,
        )  # fmt: skip
    new_scores, new_places = np.empty(WAIT), np.empty(WAIT, dtype=np.int64)
    fresh_ranks = np.empty(scores.shape[0], dtype=np.int64)
    count = 0
    i = first
    while i < order.shape[0]:
        slot = slots[order[i]]
        last, most = i, 0  # of the slot's watches, the last one to be looked at
        stop = i
        while stop < order.shape[0] and slots[order[stop]] == slot:
            if settled[stop] == 0:
                last = stop
                most = max(most, ks[order[stop]])
            stop += 1
        begin = list_start[slot] + list_head[slot]
        end = list_start[slot] + list_size[slot]
        at, known, begun = end - 1, 0, False
        while i <= last:
            if settled[i] == 1:
                i += 1
                continue
            w = order[i]
            horizon, edge = horizon_time[w], horizon_seq[w]
            if begun:  # mostly a few candidates further
                inside = at + 1
                while inside > begin and (
                    pool_time[inside - 1] > horizon
                    or (pool_time[inside - 1] == horizon and pool_seq[inside - 1] >= edge)
                ):
                    inside -= 1
                known = reach_back(pool_good, at, inside, scores, places, known, most, new_scores, new_places)
            else:
                inside = first_inside(pool_time, pool_seq, begin, end, horizon, edge)
                known = best(pool_good, inside, end, most, scores, places)
            at, begun = inside - 1, True
            if count + size[w] + ks[w] > out_watch.shape[0]:
                return i, count
            count = compare(
                w, min(ks[w], known), start, size, oldest_time, oldest_seq, good, time, seq, pool_time, pool_seq,
                scores, places, fresh_ranks, count, out_watch, out_rank, out_good, out_time, out_seq,
            )  # fmt: skip
            stale[w] = 0
            settled[i] = 1
            i += 1
        i = stop
    return order.shape[0], count


@kernel
def tops(
    good: Floats, time: Ints, seq: Ints, begin: int, end: int, order: Ints, ks: Ints, horizon_time: Ints,
    horizon_seq: Ints, scores: Floats, places: Ints, out: Ints, sizes: Ints,
) -> None:  # fmt: skip
    """Snapshots from one list, in this order, the newest horizon first: the places of the k best of each, best first,
    a line of `out` each, and how many there are."""
    most = scores.shape[0] - 1
    new_scores, new_places = np.empty(WAIT), np.empty(WAIT, dtype=np.int64)
    at, known = end - 1, 0
    for n in range(order.shape[0]):
        w = order[n]
        inside = first_inside(time, seq, begin, at + 1, horizon_time[w], horizon_seq[w])
        if n == 0:
            known = best(good, inside, end, most, scores, places)
        else:
            known = reach_back(good, at, inside, scores, places, known, most, new_scores, new_places)
        at = inside - 1
        sizes[w] = min(known, ks[w])
        for i in range(sizes[w]):
            out[w, i] = places[i]


@inlined
def compare(
    w: int, found: int, start: Ints, size: Ints, oldest_time: Ints, oldest_seq: Ints, good: Floats, time: Ints,
    seq: Ints, pool_time: Ints, pool_seq: Ints, scores: Floats, places: Ints, fresh: Ints, count: int, out_watch: Ints,
    out_rank: Ints, out_good: Floats, out_time: Ints, out_seq: Ints,
) -> int:  # fmt: skip
    """Put an answer on the board, and what left and entered into the output; one pass over both, with the ranks of
    those that entered put aside in `fresh`, since they are told last."""
    base, old = start[w], size[w]
    same = 0
    while same < old and same < found and seq[base + same] == pool_seq[places[same]]:
        same += 1
    i, j, entered = same, same, 0
    while i < old or j < found:
        here = base + i
        if i < old and j < found:
            at = places[j]
            if seq[here] == pool_seq[at]:
                i += 1
                j += 1
                continue
            left = not before(scores[j], pool_time[at], pool_seq[at], good[here], time[here], seq[here])
        else:
            left = i < old
        if left:
            out_watch[count], out_rank[count] = w, 0
            out_good[count], out_time[count], out_seq[count] = good[here], time[here], seq[here]
            count += 1
            i += 1
        else:
            fresh[entered] = j
            entered += 1
            j += 1
    for e in range(entered):
        j = fresh[e]
        at = places[j]
        out_watch[count], out_rank[count] = w, j + 1
        out_good[count], out_time[count], out_seq[count] = scores[j], pool_time[at], pool_seq[at]
        count += 1
    size[w] = found
    for j in range(same, found):
        at = places[j]
        good[base + j], time[base + j], seq[base + j] = scores[j], pool_time[at], pool_seq[at]
    if found > 0:  # the list is in order of recency
        least = places[0]
        for j in range(1, found):
            least = min(least, places[j])
        oldest_time[w], oldest_seq[w] = pool_time[least], pool_seq[least]
    return count
