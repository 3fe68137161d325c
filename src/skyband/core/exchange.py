"""What families and the engine hand to each other, in one shape for rows, pairs and objects.

An entry of an answer is a row (`good`, `time`, `seq`), a pair (its older row, and `time_b` and `seq_b` of the newer) or
an object (its latest row, and its `id`). `good` is the score turned so that more is better.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from skyband.core.types import Floats, Ints

ALL = 2**62  # the k of a query that wants every row
NOTHING = np.empty(0, dtype=np.int64)
_NO_SCORES = np.empty(0)


class Entries(NamedTuple):
    """An answer, best first."""

    good: Floats = _NO_SCORES
    time: Ints = NOTHING
    seq: Ints = NOTHING
    time_b: Ints | None = None  # of pairs
    seq_b: Ints | None = None
    id: Sequence[str] | None = None  # of objects


ROW, PAIR, OBJECT = range(3)
"""What entries are. An entry stays the same while its row does, its two rows do, its latest row and score do."""


class Present(NamedTuple):
    """The present answers of those watches whose answers may have changed, in one pool."""

    which: Ints  # the watches, in order
    start: Ints  # by watch, where its best entry is
    size: Ints  # by watch
    step: int  # from an entry to the next: 1, or -1 where the best is last
    good: Floats
    time: Ints
    seq: Ints
    time_b: Ints = NOTHING
    seq_b: Ints = NOTHING
    ids: Sequence[Sequence[str]] = ()  # of objects, by watch


class Changes(NamedTuple):
    """What a step did to the answers of a family's watches: watch by watch, leaves before enters."""

    watch: Ints  # its place among the family's watches
    rank: Ints  # at entering; 0 at leaving
    good: Floats
    time: Ints
    seq: Ints
    seq_b: Ints | None = None
    id: Sequence[str] | None = None
