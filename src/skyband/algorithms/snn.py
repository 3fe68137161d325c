"""SNN: nearest neighbours by a skyband for each query (Mouratidis and Papadias 2007; Pripužić et al. 2015, section 2).

**Problem.** Hundreds of points, each with its k nearest rows of a window, at millions of rows a second.

**Idea.** The same as `sma`'s, for points anywhere among the data: of the rows at or before a *bar*, the distance of
the worst row that the last search found, each query keeps the k-skyband. A row beyond is passed over, which the query
index does for all queries at once; one that leaves simply leaves. Only with fewer than k rows left a query is
searched for.

**What is kept.** All rows of the window in a ring, the index, and a list for each query of little more than k rows.
With `slack` s a search takes k + s·k rows and sets the bar that much further out: lists run short ever more rarely.

**Cost.** A row: a copy, a look-up, and O(k) for each query that it concerns. A search: the scores of the whole
window. See `ringed.py`.

**Wrong choice when** rows come sorted so that they move away from all points: each search is outdated soon. Rows must
leave in order of recency. For few queries `ra` does without the window.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from skyband.algorithms import sma
from skyband.algorithms.base import Card
from skyband.algorithms.ringed import Ringed
from skyband.jit import inlined, kernel
from skyband.order import Floats, Ints

SLACK = 2.0
arrive = inlined(sma.arrive.function)


@kernel
def come(
    at: int, first: int, slots: Ints, starts: Ints, rows: Ints, values: Floats, times: Ints, seqs: Ints,
    horizon_time: Ints, horizon_seq: Ints, bar: Floats, bar_time: Ints, bar_seq: Ints,
    good: Floats, time: Ints, seq: Ints, dominators: Ints, start: Ints, size: Ints, room: Ints, ks: Ints,
    oldest_time: Ints, oldest_seq: Ints, touched: Any, counts: Ints,
) -> tuple[int, int]:  # fmt: skip
    """Offer rows to lists, slot after slot; stops where a list has no room."""
    for t in range(at, slots.shape[0]):
        slot = slots[t]
        for i in range(first if t == at else starts[t], starts[t + 1]):
            when, number = times[rows[i]], seqs[rows[i]]
            if when < horizon_time[slot] or (when == horizon_time[slot] and number < horizon_seq[slot]):
                continue
            if arrive(
                slot, values[i], when, number, good, time, seq, dominators, start, size, room, ks, bar, bar_time,
                bar_seq, oldest_time, oldest_seq, touched, counts,
            ):  # fmt: skip
                return t, i
    return slots.shape[0], 0


class SNN(Ringed):
    """The skyband of the rows before a bar, for each query."""

    card = Card(
        name="snn",
        title="nearest neighbours by skybands behind a query index",
        source="Mouratidis, Papadias 2007; Pripužić, Podnar Žarko, Aberer 2015, sections 2 and 6.1",
        answers=frozenset({"topk"}),
        exact=True,
        keeps="every row of the window, an index of queries, and for each query the skyband of the rows before its bar",
        cost="an arrival: a look-up, and a score for each query that it concerns; a search when a list is short",
        wrong_when="scores fall, or rows are updated and deleted (take `tma`)",
        expected=lambda k, n: float(min(k * (1 + np.log(1 + SLACK)) + 2, n)),
        options={"cells": 0.0, "slack": SLACK},
        window=True,
        fifo=True,
    )
    counter_names: ClassVar[tuple[str, ...]] = (
        "rows searched",
        "searches",
        "rows scored",
        "admitted",
        "evicted",
    )
    candidate_bytes = 32
    counted = True
    come = come

    def keep(self) -> Ints:
        return self.ks + (self.ks * self.options["slack"]).astype(np.int64)

    def usual(self) -> Ints:
        ks = np.maximum(self.ks, 1)
        rows: Ints = np.ceil(ks * (1 + np.log(np.maximum(self.keep(), ks) / ks))).astype(np.int64)
        return rows

    def _lists(self) -> tuple[Any, ...]:
        ranked = self.ranked
        return ranked.good, ranked.time, ranked.seq, ranked.count, ranked.start, ranked.size

    def state(self) -> tuple[Any, ...]:
        return (
            *self._lists(), self.ranked.room, self.ks, self.oldest_time, self.oldest_seq, self.touched, self.counts,
        )  # fmt: skip

    def expire(self) -> None:
        sma.expire(
            self.ks, self.horizon_time, self.horizon_seq, *self._lists(), self.complete, self.oldest_time,
            self.oldest_seq, self.touched, self.lost,
        )  # fmt: skip

    def settled(self, slots: Ints) -> None:
        """Count the dominators among the rows found, and evict."""
        most = int(self.ranked.size[slots].max(initial=0)) + 1
        met = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
        sma.settle(
            slots, self.ks, self.complete, self.bar_time, self.bar_seq, self.counts, *self._lists(), *met
        )  # fmt: skip
