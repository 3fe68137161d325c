"""The answers of many watches of one list at once.

Watches of one score differ in k and window, and every window is a suffix of the list in order of recency. So one walk
from the newest candidate back serves them all: the K best so far are kept sorted, and wherever a window begins, its k
best are the first k of them. The shortest window is searched with a heap, since nothing is known of it; from there on a
walk costs an insertion for each candidate that is in the skyband, a comparison for any other, and k for each answer,
however many watches there are.

Algorithm 7 of Shen, Cheema, Lin, Zhang and Wang scans the candidates by score instead (search_tree.py).
Lists are in order of recency, and to sort one takes longer than a walk of it; but where a tree of it was made for
snapshots the order by score is there, and the scan is quicker unless the answers are longer than the list by far.

Watches whose answers can follow the rows (skyband/incremental_tops.py) need no walk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from skyband.algorithms.kernels.candidate_lists import Lists, best
from skyband.algorithms.kernels.search_tree import SearchTree
from skyband.compiling.jit import inlined, kernel
from skyband.core.order import first_inside
from skyband.core.types import Floats, Ints, Recency

_NONE = np.empty(0, dtype=np.int64)
WAIT = 16  # candidates that are put among the best at once
_FEW = 4  # answers, which a tree gives one by one sooner than a scan gives all
_SCANNED = (
    5  # times the list: more ranks than that in all are copied by a walk sooner than a scan deals them out
)


def tops_together(
    lists: Lists, trees: Mapping[int, SearchTree], asked: Sequence[tuple[int, int, Recency]]
) -> list[tuple[Floats, Ints, Ints]]:
    """Many snapshots, given by slot, k and horizon: each is what `Lists.top` gives, by one scan of each list by score
    where there is a tree of it, else by one walk of it by recency."""
    found: list[tuple[Floats, Ints, Ints]] = [(np.empty(0), _NONE, _NONE)] * len(asked)
    for slot in {slot for slot, _, _ in asked}:
        own = [i for i, one in enumerate(asked) if one[0] == slot]
        ks = np.array([asked[i][1] for i in own], dtype=np.int64)
        edges = np.array([asked[i][2] for i in own], dtype=np.int64)
        several = _places_in(lists, lists.span(slot), trees.get(slot), ks, edges)
        for i, places in zip(own, several, strict=True):
            found[i] = (lists.good[places], lists.time[places], lists.seq[places])
    return found


def _places_in(lists: Lists, span: slice, tree: SearchTree | None, ks: Ints, edges: Ints) -> list[Ints]:
    """Where in the pool the answers from one list are."""
    if tree is None or np.minimum(ks, len(tree.good)).sum() > _SCANNED * len(tree.good):
        return places_of(lists.good, lists.time, lists.seq, span, ks, edges)
    firsts = np.empty_like(ks)
    begin_at(lists.time, lists.seq, span.start, span.stop, edges, firsts)
    if len(ks) < _FEW:
        asked = zip(ks.tolist(), firsts.tolist(), strict=True)
        return [span.start + tree.top(k, first) for k, first in asked]
    return [span.start + places for places in tree.tops(ks, firsts)]


@kernel
def begin_at(time: Ints, seq: Ints, begin: int, end: int, edges: Ints, firsts: Ints) -> None:
    """Where in a list each of many windows begins, counted from the list's beginning."""
    for w in range(firsts.shape[0]):
        firsts[w] = first_inside(time, seq, begin, end, edges[w, 0], edges[w, 1]) - begin


def places_of(good: Floats, time: Ints, seq: Ints, span: slice, ks: Ints, edges: Ints) -> list[Ints]:
    """Where in a list in order of recency the k best of each of many windows are, best first; `edges` has a line for
    each window, the recency at which it begins."""
    ks = np.minimum(ks, span.stop - span.start)
    most = int(ks.max(initial=0))
    out, sizes = np.empty((len(ks), most), dtype=np.int64), np.zeros(len(ks), dtype=np.int64)
    times, seqs = np.ascontiguousarray(edges[:, 0]), np.ascontiguousarray(edges[:, 1])
    order = np.lexsort((seqs, times))[::-1].copy()
    tops(good, time, seq, span.start, span.stop, order, ks, times, seqs, out, sizes)
    return [out[line, :size] for line, size in enumerate(sizes.tolist())]


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
def tops(
    good: Floats, time: Ints, seq: Ints, begin: int, end: int, order: Ints, ks: Ints, horizon_time: Ints,
    horizon_seq: Ints, out: Ints, sizes: Ints,
) -> None:  # fmt: skip
    """Find snapshots from one list, in this order, the newest horizon first: the places of the k best of each, best
    first, a line of `out` each, and how many there are."""
    most = out.shape[1]
    scores, places = np.empty(most + 1), np.empty(most + 1, dtype=np.int64)
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
