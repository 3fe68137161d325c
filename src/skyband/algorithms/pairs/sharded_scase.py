"""scase for a part of the pairs: several processes share one query about pairs.

**Problem.** A query about pairs is more than one process can score or hold: each new row meets the whole window.

**Idea.** Every process receives all rows, in the same order, and keeps its own ones (one in `of`, by seq). A pair
belongs to the process that owns that one of its two rows which arrived first. The other row meets it there on arrival,
as a *guest*, and is forgotten afterwards unless one of its pairs is kept. So each pair is scored once, by one
process, and the best of all are among the best of each.

**Which row arrived first** is the order in which rows are received, not recency: a late row may be older than rows of
other processes, which were guests here before it. It meets them in their processes, because they arrived first. The
rows of one step are received in order of recency, late ones first, by all processes alike.

**How.** Rows lie in runs (key_runs.py); here each colour has two, one for own rows and one for guests. A row is scored
with the own rows of its colour, whether it is itself own or a guest, by the loops of scase. When many guests have
no pairs, they are dropped and the rows are numbered again.

A higher number of ranks does not rebuild pairs, because guests are gone: the additional ranks begin with rows that
arrive later. A staircase of the kept pairs is less strict, never wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.algorithms.pairs.key_runs import Pool
from skyband.algorithms.pairs.pair_base import Late, Partners, Question
from skyband.algorithms.pairs.scase import SCase
from skyband.core.types import Ints
from skyband.stream.arrow import numbers_array

_FEW = 256  # guests without pairs that may stay, besides as many as there are own rows


class Hosts(Partners):
    """Own rows and guests, oldest first."""

    def __init__(self, question: Question, part: int, of: int) -> None:
        super().__init__(question)
        self.part, self.of = part, of
        self._guest = np.empty(0, dtype=np.int64)

    def append(self, table: pa.Table, time: Ints, seq: Ints) -> Ints:
        self._came(seq)
        return super().append(table, time, seq)

    def late(self, table: pa.Table, time: Ints, seq: Ints) -> Iterator[Late]:
        self._came(seq)
        return super().late(table, time, seq)

    def _came(self, seq: Ints) -> None:
        self._guest = (seq % self.of != self.part).astype(np.int64)

    def _taken(self, table: pa.Table) -> tuple[list[Any], Ints]:
        values, colour = super()._taken(table)
        return values, 2 * colour + self._guest

    def _colour(self, run: Ints) -> Ints:
        return run >> 1

    def _runs(self) -> int:
        return 2 * max(1, len(self.colours.values))

    def range_of(self, place: int, number: int, later: bool) -> tuple[int, int]:
        run = int(self._columns["run"][number - self.base])
        own = run & ~1
        head, tail = int(self.pool.head[own]), int(self.pool.tail[own])
        at = head + int(np.searchsorted(self.pool.number[head:tail], number))
        return (at + (run == own), tail) if later else (head, at)

    def ranges(self, number: int) -> tuple[Ints, Ints]:
        """Return where the partners of the rows numbered from `number` on, just appended, begin and end."""
        run = self.column("run")[number - self.first :]
        colour, own = run >> 1, (run & 1) == 0
        order = np.argsort(colour, kind="stable")
        counted = np.cumsum(own[order])
        ends = np.searchsorted(colour[order], colour[order], side="right") - 1
        after = np.empty(len(run), dtype=np.int64)  # own rows of its colour that arrived after it
        after[order] = counted[ends] - counted
        host = 2 * colour
        return self.pool.head[host], self.pool.tail[host] - after - own

    def keep(self, kept: Any) -> None:
        """Keep these rows only, and number them from zero."""
        places, gone = self.pool.places(), ~kept
        for leaf, codes in self.codes.items():
            codes.release(self.pool.columns[leaf + 1][places[gone]])
        if self.question.same:
            self.colours.release(self._colour(self.column("run")[gone]))
        leaves = [column[places[kept]] for column in self.pool.columns[1:]]
        self._columns = {name: self.column(name)[kept] for name in self._columns}
        runs, kinds = len(self.pool.start), [column.dtype for column in self.pool.columns[1:]]
        n = int(np.count_nonzero(kept))
        self.base, self.first, self.next = 0, 0, n
        self.pool = Pool(kinds)
        self.pool.reach(runs)
        self.pool.append(self._columns["run"], [np.arange(n), *leaves])
        if self.table is not None:
            self.table = self.table.take(numbers_array(np.flatnonzero(kept))).combine_chunks()


class Halves(SCase):
    """The K-skyband of the pairs that one of several processes owns."""

    merges_late = False  # each late row meets the rows that arrived before it

    def __init__(self, options: Mapping[str, float], question: Question, part: int, of: int) -> None:
        super().__init__({}, question)
        self.rows: Hosts = Hosts(question, part, of)

    def add(self, table: pa.Table, time: Ints, seq: Ints) -> None:
        super().add(table, time, seq)
        self._settle(self.rows.next - 1)
        rows = self.rows
        guests = (rows.column("run") & 1) == 1
        _, older, newer = self.pairs
        own = len(rows) - int(np.count_nonzero(guests))
        if len(rows) - own <= _FEW + own:
            return
        kept = ~guests
        kept[older - rows.first] = kept[newer - rows.first] = True
        numbers = np.cumsum(kept) - 1
        older[:], newer[:] = numbers[older - rows.first], numbers[newer - rows.first]
        self.foremost.forget()
        rows.keep(kept)

    def _in_order(self, number: int, place: Ints) -> None:
        lows, highs = self.rows.ranges(number)
        self._paired(number, place, lows, highs)

    def _put_in_order(self, late: int) -> bool:
        return False  # pairs can't be rebuilt

    def rebuild(self) -> None:
        if len(self.rows):
            self.foremost.forget()
            self._climb()
