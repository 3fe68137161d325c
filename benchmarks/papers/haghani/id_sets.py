"""eaa as the paper has it, with a set of ids for each instance, to compare eaa with.

Haghani, Michel and Aberer (2009), section 3.2. Each instance keeps the ids of up to k objects that dominate it, and is
removed when it has k. A row changes the scores of its object's instances; every instance between an old score and the
new one must be visited. The paper finds these by two sorted lists. Here a loop over the instances in order of time
compares all of them, which is no slower where a tenth of the list is crossed. Scores are plain sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.compiling.jit import kernel
from skyband.core.types import Floats, Ints


class IdSets:
    """Rows of d streams with values from 0 to 1, of ids from 0 on, once in each stream for ever; a window of rows."""

    def __init__(self, window: int, d: int, k: int, ids: int) -> None:
        room = window + window // 2 + 64
        self.window, self.d, self.k = window, d, k
        self.seq, self.whose, self.older = (np.zeros(room, dtype=np.int64) for _ in range(3))
        self.score, self.best = np.zeros(room), np.zeros(room)
        self.alive = np.zeros(room, dtype=bool)
        self.count, self.sets = np.zeros(room, dtype=np.int64), np.zeros((room, k + 1), dtype=np.int64)
        self.newest, self.seen = np.full(ids, -1, dtype=np.int64), np.zeros(ids, dtype=np.int64)
        self.moved = np.zeros(room, dtype=np.int64)
        self.span = np.zeros(3, dtype=np.int64)  # first and end of the instances, rows so far

    def push(self, ids: Ints, streams: Any, values: Floats) -> None:
        push(
            ids, streams, values, self.window, self.d, self.k, self.seq, self.whose, self.older, self.score, self.best,
            self.alive, self.count, self.sets, self.newest, self.seen, self.moved, self.span,
        )  # fmt: skip

    def top(self) -> list[float]:
        """The best k scores of different objects."""
        best: dict[int, float] = {}
        first, end, rows = self.span.tolist()
        for p in range(first, end):
            if self.alive[p] and self.seq[p] >= rows - self.window:
                best.setdefault(int(self.whose[p]), float(self.score[p]))
        return sorted(best.values(), reverse=True)[: self.k]


@kernel
def note(p: int, who: int, k: int, alive: Any, count: Ints, sets: Ints) -> None:
    """One more object dominates an instance, unless it is known."""
    for t in range(count[p]):
        if sets[p, t] == who:
            return
    sets[p, count[p]] = who
    count[p] += 1
    if count[p] == k:
        alive[p] = False


@kernel
def beat(
    first: int, p: int, before: float, now: float, k: int, whose: Ints, best: Floats, alive: Any, count: Ints,
    sets: Ints,
) -> None:  # fmt: skip
    """An instance's score has risen: it dominates those older ones whose best it has passed."""
    for q in range(first, p):
        if before <= best[q] < now and alive[q] and whose[q] != whose[p]:
            note(q, whose[p], k, alive, count, sets)


@kernel
def push(
    ids: Ints, streams: Any, values: Floats, window: int, d: int, k: int, seq: Ints, whose: Ints, older: Ints,
    score: Floats, best: Floats, alive: Any, count: Ints, sets: Ints, newest: Ints, seen: Ints, moved: Ints, span: Ints,
) -> None:  # fmt: skip
    for i in range(ids.shape[0]):
        first, end, now = span[0], span[1], span[2]
        while first < end and (seq[first] <= now - window or not alive[first]):
            first += 1
        if end == seq.shape[0]:
            first, end = squeeze(
                first, end, seq, whose, older, score, best, alive, count, sets, newest, moved
            )
        who, value = ids[i], values[i]
        head = newest[who]
        while head >= first and not alive[head]:
            head = older[head]
        if head < first:
            head = -1
            seen[who] = 0
        p = head
        while p >= first:
            if alive[p]:
                had, could = score[p], best[p]
                score[p] = had + value
                best[p] = could - (1.0 - value)
                beat(first, p, had, score[p], k, whose, best, alive, count, sets)
                for q in range(p + 1, end):
                    if best[p] < score[q] <= could and whose[q] != who and alive[p]:
                        note(p, whose[q], k, alive, count, sets)
            p = older[p]
        seen[who] |= 1 << np.int64(streams[i])
        left = d
        for s in range(d):
            left -= (seen[who] >> s) & 1
        seq[end], whose[end], older[end], count[end] = now, who, head, 0
        score[end], best[end], alive[end], newest[who] = value, value + left, True, end
        beat(first, end, -np.inf, value, k, whose, best, alive, count, sets)
        span[0], span[1], span[2] = first, end + 1, now + 1


@kernel
def squeeze(
    first: int, end: int, seq: Ints, whose: Ints, older: Ints, score: Floats, best: Floats, alive: Any, count: Ints,
    sets: Ints, newest: Ints, moved: Ints,
) -> tuple[int, int]:  # fmt: skip
    """Move the living instances to the front."""
    write = 0
    for p in range(first, end):
        before = moved[older[p]] if older[p] >= first else -1
        if alive[p]:
            seq[write], whose[write], older[write] = seq[p], whose[p], before
            score[write], best[write], alive[write], count[write] = score[p], best[p], True, count[p]
            for t in range(count[p]):
                sets[write, t] = sets[p, t]
            moved[p] = newest[whose[p]] = write
            write += 1
        else:
            moved[p] = newest[whose[p]] = before
    return 0, write
