"""scase: the K-skyband of pairs with its staircase (Shen, Cheema, Lin, Zhang, Wang 2012).

**Problem.** The k best pairs of two rows of the window, by any score of the two. There are n²/2 of them, and each row
that comes makes n new ones.

**Idea.** A pair lives as long as its older row, so nearly all pairs are outlived by K better ones and can be forgotten
at once: what remains, the K-skyband, has about K ln(n²/K) pairs. A row that comes is scored with every row of
the window, and the *staircase* (structures/stairs.py) says for each of those what a pair must reach to matter; hardly
any does. Those that do are merged into the skyband, which is swept once a step.

**What is kept.** The window's rows, for those that come to be paired with, and the skyband.

**Cost.** A score for every row of the window, for each row that comes; some microseconds for each step's sweep.

**Wrong choice when** the window is so long that scoring all of it for each row takes too long: nothing that answers
arbitrary scores does better.

Answers for any k up to K and any window up to the longest come from one state: the pairs whose older row is inside are
the skyband of the shorter window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.algorithms.base import Card
from skyband.order import Floats, Ints, Recency
from skyband.structures.stairs import climb, sweep

Scoring = Callable[[pa.Table, int, Ints], tuple[Ints, Floats]]
"""The rows, the place of a new one, and of its partners: those that pair with it, and how good the pairs are."""


def expected(k: int, n: float) -> float:
    """Pairs in the skyband of n rows: as of n(n - 1)/2 things in random order."""
    pairs = max(1.0, n * (n - 1) / 2)
    return float(min(pairs, k * (1.0 + np.log(max(1.0, pairs / k)))))


class SCase:
    """Rows in order of recency, and the K-skyband of their pairs."""

    card = Card(
        name="scase",
        title="K-skyband of pairs with a staircase",
        source="Shen, Cheema, Lin, Zhang, Wang 2012, sections 3 and 4",
        answers=frozenset({"pairs"}),
        exact=True,
        keeps="the window's rows, and about K(1 + 2 ln n) pairs of them",
        cost="a row: its score with every row of the window",
        wrong_when="the window is so long that scoring all of it for each row takes too long",
        expected=expected,
        options={},
        window=True,
        fifo=True,
    )
    candidate_bytes = 40

    def __init__(self, options: Mapping[str, float], scoring: Scoring) -> None:
        self.scoring = scoring
        self.k = 1
        self.table: pa.Table | None = None  # the columns that are used, oldest row first
        self.time = np.empty(0, dtype=np.int64)
        self.seq = np.empty(0, dtype=np.int64)
        self._no_pairs()
        self.counts = {"rows": 0, "pairs scored": 0, "above the staircase": 0, "sweeps": 0}

    def _no_pairs(self) -> None:
        self.good = np.empty(0)
        # of each pair: the recencies of the older row and of the newer one
        self.older_time, self.older_seq = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        self.newer_time, self.newer_seq = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)

    # -- a step --------------------------------------------------------------------------------------------

    def expire(self, horizon: Recency) -> None:
        """Rows before the horizon leave, and the pairs whose older row they are."""
        first = int(np.searchsorted(self.time, horizon.time, side="left"))
        while first < len(self.time) and (self.time[first], self.seq[first]) < horizon:
            first += 1
        if first and self.table is not None:
            self.table = self.table.slice(first)
            self.time, self.seq = self.time[first:], self.seq[first:]
        inside = (self.older_time > horizon.time) | (
            (self.older_time == horizon.time) & (self.older_seq >= horizon.seq)
        )
        self._choose(np.flatnonzero(inside))

    def add(self, table: pa.Table, time: Ints, seq: Ints) -> None:
        """Rows come, oldest first; each is paired with all that are there."""
        if not len(seq):
            return
        fresh = np.concatenate([np.zeros(len(self.seq), dtype=bool), np.ones(len(seq), dtype=bool)])
        times, seqs = np.concatenate([self.time, time]), np.concatenate([self.seq, seq])
        whole = table if self.table is None else pa.concat_tables([self.table, table])
        if len(self.time) and (time[0], seq[0]) < (self.time[-1], self.seq[-1]):  # late ones among them
            order = np.lexsort((seqs, times))
            fresh, times, seqs, whole = fresh[order], times[order], seqs[order], whole.take(pa.array(order))
        self.table, self.time, self.seq = whole.combine_chunks(), times, seqs
        self.counts["rows"] += len(seq)
        self._pair(np.flatnonzero(fresh), fresh)

    def rebuild(self) -> None:
        """All pairs of all rows anew."""
        self._no_pairs()
        self._pair(np.arange(len(self.seq)), np.ones(len(self.seq), dtype=bool))

    def _pair(self, places: Ints, fresh: Any) -> None:
        stair = self._stair()
        old = np.flatnonzero(~fresh)
        found: list[tuple[Floats, Ints, Ints]] = []
        waiting = 0
        for place in places.tolist():
            partners = np.concatenate([np.arange(place), old[np.searchsorted(old, place) :]])
            self.counts["pairs scored"] += len(partners)
            partners, good = self.scoring(self.table, place, partners)
            older = np.minimum(partners, place)
            able = np.flatnonzero(good >= stair[older])
            if len(able):
                found.append((good[able], older[able], np.maximum(partners[able], place)))
                waiting += len(able)
            if waiting > 8 * self.k + 256:  # the stairs have risen meanwhile
                self._take_in(found)
                stair, found, waiting = self._stair(), [], 0
        if found:
            self._take_in(found)

    def _take_in(self, found: list[tuple[Floats, Ints, Ints]]) -> None:
        """New pairs; what is no longer in the skyband goes."""
        good, older, newer = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        self.counts["above the staircase"] += len(good)
        self.counts["sweeps"] += 1
        self.good = np.concatenate([self.good, good])
        self.older_time = np.concatenate([self.older_time, self.time[older]])
        self.older_seq = np.concatenate([self.older_seq, self.seq[older]])
        self.newer_time = np.concatenate([self.newer_time, self.time[newer]])
        self.newer_seq = np.concatenate([self.newer_seq, self.seq[newer]])
        keep = np.zeros(len(self.good), dtype=np.uint8)
        sweep(self.good, self._order(), self.k, np.empty(self.k), keep)
        self._choose(np.flatnonzero(keep))

    def _order(self) -> Ints:
        """Pairs by their older row, newest first; of one row the better ones first."""
        keys = (self.newer_seq, self.newer_time, self.good, self.older_seq, self.older_time)
        return np.lexsort(keys)[::-1].astype(np.int64)

    def _stair(self) -> Floats:
        """What a pair must reach to matter, by the place of its older row."""
        stair = np.empty(len(self.seq))
        climb(self.good, self._places(self.older_seq), self._order(), self.k, np.empty(self.k), stair)
        return stair

    def _places(self, seq: Ints) -> Ints:
        order = np.argsort(self.seq)
        return order[np.searchsorted(self.seq, seq, sorter=order)]

    def _choose(self, pairs: Ints) -> None:
        if len(pairs) < len(self.good):
            for name in ("good", "older_time", "older_seq", "newer_time", "newer_seq"):
                setattr(self, name, getattr(self, name)[pairs])

    # -- answers -------------------------------------------------------------------------------------------

    def best(self, k: int, horizon: Recency) -> Ints:
        """The best k pairs of a window that begins at the horizon, best first."""
        inside = np.flatnonzero(
            (self.older_time > horizon.time)
            | ((self.older_time == horizon.time) & (self.older_seq >= horizon.seq))
        )
        keys = (self.newer_seq, self.newer_time, self.older_seq, self.older_time, self.good)
        return inside[np.lexsort(tuple(key[inside] for key in keys))[::-1][:k]]

    def expected(self, k: int, n: float) -> float:
        return self.card.expected(k, n)

    def size(self, slot: int) -> tuple[int, int]:
        rows = 0 if self.table is None else int(self.table.nbytes) + 16 * len(self.seq)
        return len(self.good), 40 * len(self.good) + rows

    def counters(self, slot: int) -> dict[str, int]:
        return dict(self.counts)

    # -- keeping -------------------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        names = ("time", "seq", "good", "older_time", "older_seq", "newer_time", "newer_seq")
        blob: dict[str, Any] = {name: np.array(getattr(self, name)) for name in names}
        if self.table is not None:
            blob["table"] = self.table
        return {**blob, "k": self.k, "counts": dict(self.counts)}

    def load(self, blob: dict[str, Any]) -> None:
        for name in ("time", "seq", "good", "older_time", "older_seq", "newer_time", "newer_seq"):
            setattr(self, name, blob[name].copy())
        self.table = blob["table"].combine_chunks() if "table" in blob else None
        self.k, self.counts = int(blob["k"]), dict(blob["counts"])

    def _check(self) -> None:
        newer = (self.time[1:] > self.time[:-1]) | (
            (self.time[1:] == self.time[:-1]) & (self.seq[1:] > self.seq[:-1])
        )
        # rows are in order, and pairs are of rows that are there, the older one first
        assert bool(np.all(newer)) and (self.table is None or self.table.num_rows == len(self.seq))
        assert np.isin(self.older_seq, self.seq).all() and np.isin(self.newer_seq, self.seq).all()
        assert (
            bool(np.all(self._places(self.older_seq) < self._places(self.newer_seq)))
            if len(self.good)
            else True
        )
        # nothing but the skyband
        keep = np.zeros(len(self.good), dtype=np.uint8)
        assert sweep(self.good, self._order(), self.k, np.empty(self.k), keep) == len(self.good)
