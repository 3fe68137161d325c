"""Streams that tell of the same objects, each on its own time: the generator of Haghani, Michel and Aberer (2009).

Each of d streams tells of an object once. The next one is, with the probability `recent`, an object among the last C
that the other streams have told of, and else a new one. What they leave open is chosen as papers' readers would:
streams take turns, values are uniform.
"""

from __future__ import annotations

from collections import deque

import numpy as np

Told = tuple[int, int, float]
"""An object's id, the stream, the value."""


def incomplete(n: int, d: int, last: int, recent: float, rng: np.random.Generator) -> list[Told]:
    rows: list[Told] = []
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
