"""The answers of many watches of one list at once.

Watches of one score differ in k and window, and every window is a suffix of the list in order of recency. So one walk
from the newest candidate back serves them all: the K best so far are kept sorted, and wherever a window begins, its k
best are the first k of them. What is left when the list ends are the windows that hold all of it: they are answered
last. A walk costs an insertion for each candidate that is in the skyband, a comparison for any other, and k for each
answer, however many watches there are.

As on the board, a watch whose last rank nothing new has reached and whose oldest row is still inside is passed over.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.jit import inlined, kernel
from skyband.order import Floats, Ints
from skyband.structures.board import Board, Changes, before
from skyband.structures.lists import Lists


def refresh_together(
    board: Board, lists: Lists, fresh: Floats, ks: Ints, horizon_time: Ints, horizon_seq: Ints, order: Ints
) -> tuple[Changes | None, Ints]:
    """As `Board.refresh`, with one walk for all watches of a slot. `order` is that of the last time, the watches by
    slot and in each the shortest window first; it is returned as it is now."""
    board._make_room(ks)
    most = int(ks.max(initial=0))
    scores, places = np.empty(most + 1), np.empty(most + 1, dtype=np.int64)
    if not is_order(order, board.slot, horizon_time, horizon_seq):
        order = np.lexsort((horizon_seq, horizon_time, -board.slot))[::-1].copy()
    settled = settle_all(
        order, board.slot, ks, horizon_time, horizon_seq, fresh, board.start, board.size, board.stale,
        board.oldest_time, board.oldest_seq, board.good,
    )  # fmt: skip

    def round_(first: int, out: Changes) -> tuple[int, int]:
        found: tuple[int, int] = walk_all(
            first, order, settled, board.slot, ks, horizon_time, horizon_seq,
            board.start, board.size, board.stale, board.oldest_time, board.oldest_seq, board.good, board.time,
            board.seq,
            lists.good, lists.time, lists.seq, lists.start, lists.head, lists.size, scores, places, *out,
        )  # fmt: skip
        return found

    found = board._collect(2 * most, round_)
    if found is None:
        return None, order
    by_watch = np.argsort(found.watch, kind="stable")
    columns: list[Any] = [array[by_watch] for array in found]
    return Changes(*columns), order


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
    order: Ints, slots: Ints, ks: Ints, horizon_time: Ints, horizon_seq: Ints, fresh: Floats,
    start: Ints, size: Ints, stale: Ints, oldest_time: Ints, oldest_seq: Ints, good: Floats,
) -> Ints:  # fmt: skip
    """Which watches, in this order, need not be looked at."""
    settled = np.zeros(order.shape[0], dtype=np.int64)
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
    return settled


@inlined
def _insert(scores: Floats, places: Ints, count: int, most: int, value: float, place: int) -> int:
    """A candidate that is older than all so far: behind those that are as good."""
    if count == most:
        if most == 0 or value <= scores[most - 1]:
            return count
        t = most - 1
    else:
        t = count
        count += 1
    low, high = 0, t
    while low < high:
        middle = (low + high) // 2
        if scores[middle] >= value:
            low = middle + 1
        else:
            high = middle
    for i in range(t - low):
        to = np.uint64(t - i)  # unsigned: no test for a negative index, and vector instructions
        scores[to] = scores[to - np.uint64(1)]
    for i in range(t - low):
        to = np.uint64(t - i)
        places[to] = places[to - np.uint64(1)]
    scores[low] = value
    places[low] = place
    return count


@kernel
def walk_all(
    first: int, order: Ints, settled: Ints, slots: Ints, ks: Ints, horizon_time: Ints, horizon_seq: Ints,
    start: Ints, size: Ints, stale: Ints, oldest_time: Ints, oldest_seq: Ints, good: Floats, time: Ints, seq: Ints,
    pool_good: Floats, pool_time: Ints, pool_seq: Ints, list_start: Ints, list_head: Ints, list_size: Ints,
    scores: Floats, places: Ints, out_watch: Ints, out_rank: Ints, out_good: Floats, out_time: Ints, out_seq: Ints,
) -> tuple[int, int]:  # fmt: skip
    """Answer watches from the `first` of this order on; stops early where the output might not suffice."""
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
        at = list_start[slot] + list_size[slot] - 1
        known = 0
        while i <= last:
            if settled[i] == 1:
                i += 1
                continue
            w = order[i]
            horizon, edge = horizon_time[w], horizon_seq[w]
            while at >= begin and (
                pool_time[at] > horizon or (pool_time[at] == horizon and pool_seq[at] >= edge)
            ):
                known = _insert(scores, places, known, most, pool_good[at], at)
                at -= 1
            if count + size[w] + ks[w] > out_watch.shape[0]:
                return i, count
            count = compare(
                w, min(ks[w], known), start, size, oldest_time, oldest_seq, good, time, seq, pool_time, pool_seq,
                scores, places, count, out_watch, out_rank, out_good, out_time, out_seq,
            )  # fmt: skip
            stale[w] = 0
            settled[i] = 1
            i += 1
        i = stop
    return order.shape[0], count


@kernel
def compare(
    w: int, found: int, start: Ints, size: Ints, oldest_time: Ints, oldest_seq: Ints, good: Floats, time: Ints,
    seq: Ints, pool_time: Ints, pool_seq: Ints, scores: Floats, places: Ints, count: int, out_watch: Ints,
    out_rank: Ints, out_good: Floats, out_time: Ints, out_seq: Ints,
) -> int:  # fmt: skip
    """Put an answer on the board, and what left and entered into the output."""
    base, old = start[w], size[w]
    same = 0
    while same < old and same < found and seq[base + same] == pool_seq[places[same]]:
        same += 1
    j = same
    for i in range(same, old):
        here = base + i
        while j < found and before(
            scores[j], pool_time[places[j]], pool_seq[places[j]], good[here], time[here], seq[here]
        ):
            j += 1
        if j < found and pool_seq[places[j]] == seq[here]:
            continue
        out_watch[count], out_rank[count] = w, 0
        out_good[count], out_time[count], out_seq[count] = good[here], time[here], seq[here]
        count += 1
    i = same
    for j in range(same, found):
        at = places[j]
        while i < old and before(
            good[base + i], time[base + i], seq[base + i], scores[j], pool_time[at], pool_seq[at]
        ):
            i += 1
        if i < old and seq[base + i] == pool_seq[at]:
            continue
        out_watch[count], out_rank[count] = w, j + 1
        out_good[count], out_time[count], out_seq[count] = scores[j], pool_time[at], pool_seq[at]
        count += 1
    size[w] = found
    for j in range(same, found):
        at = places[j]
        good[base + j], time[base + j], seq[base + j] = scores[j], pool_time[at], pool_seq[at]
    for j in range(found):
        here = base + j
        if (
            j == 0
            or time[here] < oldest_time[w]
            or (time[here] == oldest_time[w] and seq[here] < oldest_seq[w])
        ):
            oldest_time[w], oldest_seq[w] = time[here], seq[here]
    return count
