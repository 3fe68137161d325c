"""Streams of the same objects, each at its own time: the generator of Haghani, Michel and Aberer (2009).

Each of d streams contains an object once. With the probability `recent` the next row is of an object among the last C
of the other streams, else of a new one. What the paper leaves open is chosen here: streams take turns, values are
uniform.
"""

from __future__ import annotations

from collections import deque

import numpy as np

Row = tuple[int, int, float]  # an object's id, the stream, the value


def incomplete(n: int, d: int, last: int, recent: float, rng: np.random.Generator) -> list[Row]:
    rows: list[Row] = []
    lately: list[deque[int]] = [deque(maxlen=last) for _ in range(d)]
    sent: list[set[int]] = [set() for _ in range(d)]
    fresh = 0
    for number in range(n):
        stream = number % d
        chosen = -1
        if rng.random() < recent:
            others = [i for s in range(d) if s != stream for i in lately[s] if i not in sent[stream]]
            if others:
                chosen = others[int(rng.integers(len(others)))]
        if chosen < 0:
            chosen, fresh = fresh, fresh + 1
        lately[stream].append(chosen)
        sent[stream].add(chosen)
        rows.append((chosen, stream, float(rng.random())))
    return rows
