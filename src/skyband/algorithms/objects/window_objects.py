"""The objects of one window: rows by key, totals by object, and the list of the best.

This is the state of one window of a grouped or joined query: the window's rows in order of recency (row_slots.py), each
with the code of its object; the objects' totals (aggregates.py); their scores, and the list of the best
(top_objects.py). A step lets rows leave and enter, reads the totals of the objects that changed, computes their new
scores, and has the best k at hand. An object without rows is removed, and its code is given to another object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.algorithms.kernels.row_slots import Places
from skyband.algorithms.objects.aggregates import KEY, Aggregate, Totals
from skyband.algorithms.objects.key_mapping import Keyed
from skyband.algorithms.objects.top_objects import Leaders
from skyband.core.types import Floats, Ints, Recency
from skyband.stream.slot_table import SlotTable

Scores = Callable[["Objects", Ints, Floats, Ints], Floats]
"""Takes objects' codes, a column of each aggregate, and counts of rows; returns scores, NaN for one in no answer."""


class Objects(Keyed):
    """The objects of one window of one query."""

    def __init__(
        self, aggregates: tuple[Aggregate, ...], width: int, several: bool = False, bar: float | None = None,
        plain: tuple[int, ...] = (), sign: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__(width, several)
        self.aggregates, self.bar = aggregates, bar
        self.plain, self.sign = plain, sign  # the sums whose sum is the score, where it is plain
        self.totals = Totals(aggregates, self.rows, plain, sign)
        self.leaders = Leaders(bar)

    def __len__(self) -> int:
        return int(np.count_nonzero(self.totals.counts))

    # -- a step --------------------------------------------------------------------------------------------

    def expire(self, horizon: Recency) -> None:
        """Remove rows before the horizon."""
        self.horizon = max(horizon, self.horizon)
        self._leave(self.rows.expire(self.horizon))

    def _leave(self, gone: Places) -> None:
        """Take rows from their objects, the oldest of each first."""
        if len(gone):
            self.totals.reserve(0, len(gone), self.several)
            self._share()
            self.totals.leave(gone)
            self._went(gone)

    def add(
        self, keys: pa.Array, columns: tuple[Floats, ...], time: Ints, seq: Ints, stream: Any = 0
    ) -> None:
        """Add rows, oldest first, all of one stream or each with its own; leave out those before the horizon.

        No row has a NaN or a null key.
        """
        found = self._inside(keys, columns, time, seq, stream)
        if found is None:
            return
        assert self.keys is not None
        first, stored = (int(found.time[0]), int(found.seq[0])), self.rows
        in_order = not stored.size or stored.recency(stored.size - 1) < first
        places = stored.add(found.columns, found.time, found.seq)
        self.totals.reserve(self.keys.used + len(places), len(places), self.several)
        if isinstance(self.keys, SlotTable):
            self.keys.lodge(self.totals.state.record, KEY)
        codes = self.keys.find(found.keys)
        if self.plain:
            self._share()
        else:
            self.leaders.reserve(self.keys.used)
        self._label(places, codes, found.stream, self.totals.kind)
        self.totals.enter(places, in_order)
        self._came(places)

    def _came(self, places: Places) -> None:
        """Called after rows were added."""

    def _went(self, places: Places) -> None:
        """Called when rows have left; they can still be read."""

    def _share(self) -> None:
        """Let a plain score's records be the leaders' scores, and give the totals the leaders' threshold."""
        if self.plain:
            self.leaders.share(self.totals.scores)
            self.totals.state.bar = self.leaders.bar
            self.totals.state.lend(listed=self.leaders.listed)

    def delete(self, time: Ints, seq: Ints) -> None:
        """Remove rows and compute their objects' totals again from the rows that remain."""
        places = self.rows.find(time, seq)
        if not len(places):
            return
        codes = np.unique(self.rows.cell[places]).astype(np.int64)
        self.rows.remove(places)
        self._renew(codes)

    def _renew(self, codes: Any) -> None:
        """Compute the totals of some objects again; deleted rows have been removed before."""
        totals, rows = self.totals, self.rows
        living = rows.living()
        own = living[np.isin(rows.cell[living], codes)]
        totals.forget(codes)
        totals.reserve(0, len(own) + len(codes), self.several)
        if self.plain:
            self._share()
            totals.note(codes)
        else:
            totals.touch(codes)
        totals.enter(own, True)

    def settle(self, scores: Scores) -> None:
        """Compute the new scores of touched objects; remove objects without rows."""
        if not self.totals.state.count:
            return
        if self.plain:
            came, dead = self.totals.came_up()
            if len(came):
                self.leaders.codes = np.concatenate([self.leaders.codes, came])
            self._forget(dead)
            return
        codes, values = self.totals.settle()
        counts = self.totals.counts[codes].astype(np.int64)
        alive = counts > 0
        good = np.full(len(codes), np.nan)
        good[alive] = scores(self, codes[alive], values[:, alive], counts[alive])
        self.leaders.update(codes, good)
        self._settled(codes, values, counts, alive)
        self._forget(codes[~alive])

    def _forget(self, dead: Ints) -> None:
        """Remove objects without rows."""
        if len(dead):
            assert self.keys is not None
            self.leaders.release(dead)
            self.keys.drop(dead)

    def _settled(self, codes: Ints, values: Floats, counts: Ints, alive: Any) -> None:
        """Called with the new totals of objects; those that are not alive are removed next."""

    def best(self, k: int | None) -> tuple[Ints, Floats, Ints, Ints]:
        """Return codes, scores, and times and seqs of the latest rows of the best k objects, best first."""
        rows, latest = self.rows, self.totals.latest
        codes = self.leaders.best(k, latest, rows.time, rows.seq)
        places = latest[codes]
        return codes, self.leaders.good[codes], rows.time[places], rows.seq[places]

    def values(self, codes: Ints) -> tuple[Floats, Ints]:
        """Return a column of each aggregate for these objects, and how many rows they have."""
        return self.totals.values_of(codes), self.totals.counts[codes].astype(np.int64)

    def within(self, horizon: Recency, scores: Scores) -> Objects:
        """Return the objects of a shorter window, made from this one's rows."""
        other = self._empty()
        other.horizon = horizon
        places = self.rows.living(horizon)
        if len(places) and self.keys is not None:
            keys = self.keys.values(self.rows.cell[places].astype(np.int64))
            columns, time, seq = self.rows.values(places)
            if not self.several:
                other.add(keys, columns, time, seq)
            for stream in np.unique(self.totals.kind[places]).tolist() if self.several else ():
                own = np.flatnonzero(self.totals.kind[places] == stream)
                part = tuple(column[own] for column in columns)
                other.add(keys.take(pa.array(own)), part, time[own], seq[own], stream)
        other.settle(scores)
        return other

    def _empty(self) -> Objects:
        return Objects(self.aggregates, self.width, self.several, self.bar, self.plain, self.sign)

    # -- keeping -------------------------------------------------------------------------------------------

    def bytes(self) -> int:
        keys = 0 if self.keys is None else self.keys.bytes()
        return self.rows.bytes() + self.totals.bytes() + self.leaders.bytes() + keys

    def dump(self) -> dict[str, Any]:
        """Return the window's rows with their keys; `load` rebuilds everything else from them."""
        places = self.rows.living()
        columns, time, seq = self.rows.values(places)
        blob: dict[str, Any] = {f"column_{i}": column for i, column in enumerate(columns)}
        if self.keys is not None:
            own = self.rows.cell[places].astype(np.int64)
            blob["keys"] = pa.table({"key": self.keys.values(own)})
        if self.several:
            blob["stream"] = self.totals.kind[places].copy()
        return {**blob, "time": time, "seq": seq, "horizon": list(self.horizon)}

    def load(self, blob: dict[str, Any], scores: Scores) -> None:
        self._fill(blob)
        self.settle(scores)

    def _fill(self, blob: dict[str, Any]) -> None:
        self.horizon = Recency(*blob["horizon"])
        time, seq = blob["time"], blob["seq"]
        columns = tuple(blob[f"column_{i}"] for i in range(max(1, self.width)))
        if "keys" in blob and len(seq):
            keys = blob["keys"].column("key").combine_chunks()
            for stream in np.unique(blob["stream"]).tolist() if self.several else (0,):
                own = np.flatnonzero(blob["stream"] == stream) if self.several else np.arange(len(seq))
                part = tuple(column[own] for column in columns)
                self.add(keys.take(pa.array(own)), part, time[own], seq[own], stream)

    def _check(self) -> None:
        self.rows._check()
        self.totals._check()
        self.leaders._check()
        if self.keys is not None:
            self.keys._check(np.flatnonzero(self.totals.counts[: self.keys.used]))
        # every listed object has rows
        assert not len(np.setdiff1d(self.leaders.codes, np.flatnonzero(self.totals.counts)))
