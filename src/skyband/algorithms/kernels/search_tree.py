"""A priority search tree of candidates: the k best of any window without a look at the rest.

A heap by recency and a search tree by score in one (McCreight 1985): the root is the newest candidate, and the others
are split by the order of answers (score, then recency) into a better and a worse half, each a tree of its own. A window
is a suffix of the recency order, so whatever hangs below a candidate outside the window is outside, too. Going through
the better half first and stopping after k candidates gives the k best of the window, in about k + log n steps: a
candidate's place among its descendants is found by keeping it back until those that are better have been met.

Splitting by (score, recency) and not by score alone keeps the tree even where all scores are equal.

It pays to build one where many windows are asked about between two steps; a single answer comes from a walk of the
list.

Once a tree is there, the order of its candidates by score is known too, and many answers at once come from one scan of
that order (`batch`: Algorithm 7 of Shen, Cheema, Lin, Zhang and Wang). Each candidate is shown to the questions with
the longest windows first, up to the first window that it isn't in; a question that has its k takes no more. As printed,
a question is answered when it has its k, so one whose window holds fewer never is: here it is answered at the end.
"""

from __future__ import annotations

import numpy as np

from skyband.compiling.jit import kernel
from skyband.core.types import Floats, Ints

_NONE = np.empty(0, dtype=np.int64)


def best_first(good: Floats) -> Ints:
    """The places of candidates in order of recency, best first, of equal ones the newest."""
    return np.ascontiguousarray(np.argsort(good, kind="stable")[::-1], dtype=np.int64)


def tops_by_score(order: Ints, ks: Ints, firsts: Ints) -> list[Ints]:
    """The places of the k best candidates from a first place on, best first, for each of many k and first places, by
    one scan of them in this order."""
    ks = np.minimum(ks, len(order))
    longest = np.argsort(firsts, kind="stable")  # first
    out, sizes = np.empty((len(ks), int(ks.max(initial=0))), dtype=np.int64), np.zeros_like(ks)
    batch(order, firsts[longest], ks[longest], np.empty_like(ks), out, sizes)
    found: list[Ints] = [_NONE] * len(ks)
    for line, (asked, size) in enumerate(zip(longest.tolist(), sizes.tolist(), strict=True)):
        found[asked] = out[line, :size]  # those that are short, too
    return found


class SearchTree:
    """A tree over candidates in order of recency, oldest first; nodes are their places."""

    def __init__(self, good: Floats) -> None:
        n = len(good)
        self.good = good
        self.order = best_first(good)
        self.better = np.full(n, -1, dtype=np.int64)
        self.worse = np.full(n, -1, dtype=np.int64)
        self.root = int(
            build(self.order.copy(), self.better, self.worse, np.empty((n + 1, 4), dtype=np.int64))
        )
        self.rank = np.empty(n, dtype=np.int64)
        self.rank[self.order] = np.arange(n)

    def top(self, k: int, first: int) -> Ints:
        """The places of the k best candidates from the place `first` on, best first."""
        picks = np.empty(min(k, len(self.good)), dtype=np.int64)
        room = np.empty((2 * len(self.good) + 2, 2), dtype=np.int64)
        return picks[: find(self.root, self.better, self.worse, self.rank, first, picks, room)]

    def tops(self, ks: Ints, firsts: Ints) -> list[Ints]:
        """`top` for each of many k and first places, by one scan of all candidates."""
        return tops_by_score(self.order, ks, firsts)

    def depth(self) -> int:
        """The longest way from the root."""
        longest, waiting = 0, [(self.root, 1)] if self.root >= 0 else []
        while waiting:
            node, level = waiting.pop()
            longest = max(longest, level)
            waiting += [
                (child, level + 1) for child in (int(self.better[node]), int(self.worse[node])) if child >= 0
            ]
        return longest


@kernel
def build(order: Ints, better: Ints, worse: Ints, stack: Ints) -> int:
    """Links of a tree over places in this order, best first; returns its root. `order` is used up."""
    root = -1
    top = 0
    if order.shape[0] > 0:
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, order.shape[0], -1, 0
        top = 1
    while top > 0:
        top -= 1
        low, high, parent, side = stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3]
        newest = low
        for i in range(low + 1, high):
            if order[i] > order[newest]:
                newest = i
        node = order[newest]
        for i in range(newest, low, -1):  # the rest stays in order, behind it
            order[i] = order[i - 1]
        order[low] = node
        if parent < 0:
            root = node
        elif side == 0:
            better[parent] = node
        else:
            worse[parent] = node
        low += 1
        middle = (low + high + 1) // 2
        if low < middle:
            stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3] = low, middle, node, 0
            top += 1
        if middle < high:
            stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3] = middle, high, node, 1
            top += 1
    return root


@kernel
def find(root: int, better: Ints, worse: Ints, rank: Ints, first: int, picks: Ints, room: Ints) -> int:
    """The best nodes at or after `first`, best first, as many as `picks` has room for. `room` is a stack of visits in
    its first column, and of nodes kept back, the best on top, in its second."""
    k, count, kept, top = picks.shape[0], 0, 0, 0
    if root >= first:
        room[0, 0] = root
        top = 1
    while count < k:
        # a node that was kept back is next as soon as it is better than everything below the next visit
        if top == 0:
            if kept == 0:
                break
            kept -= 1
            picks[count] = room[kept, 1]
            count += 1
            continue
        node = room[top - 1, 0]
        if (
            node < 0
        ):  # all that is better in here was met: what is kept back and is not worse than the split, now
            top -= 1
            split = -2 - node
            while kept > 0 and rank[room[kept - 1, 1]] < split and count < k:
                kept -= 1
                picks[count] = room[kept, 1]
                count += 1
            continue
        top -= 1
        # keep it back, in order
        i = kept
        while i > 0 and rank[room[i - 1, 1]] < rank[node]:
            room[i, 1] = room[i - 1, 1]
            i -= 1
        room[i, 1] = node
        kept += 1
        other = worse[node]
        if other >= 0:
            if other >= first:
                room[top, 0] = other
                top += 1
            # everything in the worse half ranks behind its best
            room[top, 0] = -2 - _least(other, better, worse, rank)
            top += 1
        one = better[node]
        if one >= first:
            room[top, 0] = one
            top += 1
    return count


@kernel
def _least(node: int, better: Ints, worse: Ints, rank: Ints) -> int:
    """The best rank in a subtree: on the way down its better halves."""
    best: int = rank[node]
    while better[node] >= 0:
        node = better[node]
        best = min(best, rank[node])
    return best


@kernel
def batch(order: Ints, firsts: Ints, ks: Ints, after: Ints, out: Ints, sizes: Ints) -> None:
    """Algorithm 7: candidates in their order, best first, into the answers of questions, the longest window first; a
    line of `out` each, and how many there are. `after` links the questions that still want some."""
    head = -1
    for q in range(ks.shape[0] - 1, -1, -1):
        if ks[q] > 0:
            after[q] = head
            head = q
    for i in range(order.shape[0]):
        if head < 0:
            break
        place, previous, q = order[i], -1, head
        while q >= 0 and place >= firsts[q]:  # not in this window: in none that is shorter
            out[q, sizes[q]] = place
            sizes[q] += 1
            following = after[q]
            if sizes[q] < ks[q]:
                previous = q
            elif previous < 0:
                head = following
            else:
                after[previous] = following
            q = following
