"""CPM/w: nearest neighbours by the top k alone (Mouratidis and Papadias 2007; Pripužić et al. 2015, section 2).

**Problem.** As `snn`'s: hundreds of points, each with its k nearest rows of a window.

**Idea.** Keep the exact top k of each query and nothing else. A row that is better than the k-th takes its place;
when a listed row leaves the window, the query is searched for.

**What is kept.** All rows of the window in a ring, the query index, and k rows for each query.

**Cost.** A row: a copy, a look-up, and O(k) for each query that it concerns. A search, the scores of the whole
window, whenever an answer loses a row: see `ringed.py`. The paper's search goes through the cells of a grid around
the point instead (*conceptual partitioning*), which orders cells and gives the same answer; `tma` on a distance is
that.

**Wrong choice when** anything else is at hand: `snn` looks ahead and searches seldom. It is here as the yardstick.
"""

from __future__ import annotations

from typing import Any, ClassVar

from skyband.algorithms import tma
from skyband.algorithms.base import Card
from skyband.algorithms.ringed import ADMITTED, Ringed
from skyband.jit import kernel
from skyband.order import Floats, Ints
from skyband.structures.board import before
from skyband.structures.ranked import enlist


@kernel
def come(
    at: int, first: int, slots: Ints, starts: Ints, rows: Ints, values: Floats, times: Ints, seqs: Ints,
    horizon_time: Ints, horizon_seq: Ints, bar: Floats, bar_time: Ints, bar_seq: Ints,
    good: Floats, time: Ints, seq: Ints, start: Ints, size: Ints, room: Ints, ks: Ints, complete: Any,
    oldest_time: Ints, oldest_seq: Ints, touched: Any, counts: Ints,
) -> tuple[int, int]:  # fmt: skip
    """Offer rows to lists, slot after slot; stops where a list has no room."""
    for t in range(at, slots.shape[0]):
        slot = slots[t]
        begin = start[slot]
        for i in range(first if t == at else starts[t], starts[t + 1]):
            value, when, number = values[i], times[rows[i]], seqs[rows[i]]
            if when < horizon_time[slot] or (when == horizon_time[slot] and number < horizon_seq[slot]):
                continue
            n = size[slot]
            if n < ks[slot]:
                if n == room[slot]:
                    return t, i
                enlist(value, when, number, begin, n, good, time, seq)
                size[slot] = n + 1
            else:
                if complete[slot]:  # one of the two is outside the list from now on
                    complete[slot] = 0
                    bar[slot] = good[begin]
                if not before(value, when, number, good[begin], time[begin], seq[begin]):
                    continue
                place = begin
                while place + 1 < begin + n and before(
                    value, when, number, good[place + 1], time[place + 1], seq[place + 1]
                ):
                    good[place] = good[place + 1]
                    time[place] = time[place + 1]
                    seq[place] = seq[place + 1]
                    place += 1
                good[place] = value
                time[place] = when
                seq[place] = number
            if when < oldest_time[slot] or (when == oldest_time[slot] and number < oldest_seq[slot]):
                oldest_time[slot] = when
                oldest_seq[slot] = number
            touched[slot] = 1
            counts[slot, ADMITTED] += 1
    return slots.shape[0], 0


class CPM(Ringed):
    """The exact top k of each query, and a search when it loses a row."""

    card = Card(
        name="cpm",
        title="nearest neighbours by searching again behind a query index",
        source="Mouratidis, Papadias 2007; Pripužić, Podnar Žarko, Aberer 2015, sections 2 and 6.1",
        answers=frozenset({"topk"}),
        exact=True,
        keeps="every row of the window, an index of queries, and the top k of each query",
        cost="an arrival: a look-up, and a score for each query that it concerns; the window's scores when an answer "
        "loses a row",
        wrong_when="k is large or speed matters (take `snn`), or rows are updated and deleted (take `tma`)",
        expected=lambda k, n: float(min(k, n)),
        options={"cells": 0.0},
        window=True,
        fifo=True,
    )
    counter_names: ClassVar[tuple[str, ...]] = ("rows searched", "searches", "rows scored", "admitted")
    come = come

    def state(self) -> tuple[Any, ...]:
        ranked = self.ranked
        return (
            ranked.good, ranked.time, ranked.seq, ranked.start, ranked.size, ranked.room, self.ks, self.complete,
            self.oldest_time, self.oldest_seq, self.touched, self.counts,
        )  # fmt: skip

    def expire(self) -> None:
        ranked = self.ranked
        tma.expire(
            self.ks, self.horizon_time, self.horizon_seq, ranked.good, ranked.time, ranked.seq, ranked.start,
            ranked.size, self.complete, self.oldest_time, self.oldest_seq, self.touched, self.lost,
        )  # fmt: skip
