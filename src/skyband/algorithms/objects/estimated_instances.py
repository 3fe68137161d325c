"""Instances whose best is what is likely to come, not what may come.

An object that one stream has told of is told of by another only sometimes. How often, is seen from the window: of the
objects that a set of streams has told of, the share that a further one has told of as well. An instance's best counts
what that stream may yet bring times this share. So it is lower, more is let go, and an object that turns out
otherwise is missed: an approximation, whose error depends on the data. Where every share is 1 it is what instances.py
does.

The counts come from sketches, one for each stream, of fixed size (sketches.py), or, asked for with counts = 'exact',
from a row for each row of the window. How often an object repeats in a stream, if nobody promised it, is estimated
too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from skyband.algorithms.kernels.row_slots import Places
from skyband.algorithms.objects.aggregates import MAX
from skyband.algorithms.objects.pruned_instances import Instances
from skyband.algorithms.objects.sketches import Distinct, Repeats, hashes_of, in_common
from skyband.algorithms.objects.suffix_totals import ULP, Counts, yet_to_come
from skyband.algorithms.objects.window_objects import Scores
from skyband.compiling.jit import kernel
from skyband.core.types import Floats, Ints, Recency

MOST_STREAMS = 8


class WindowKeys:
    """The keys of a window's rows with the streams that they came in: exact counts, a row for each row."""

    def __init__(self) -> None:
        self.hash = np.empty(0, dtype=np.uint64)
        self.time, self.seq = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        self.stream = np.empty(0, dtype=np.int64)

    def add(self, hashes: Any, time: Ints, seq: Ints, stream: Any) -> None:
        self.hash = np.concatenate([self.hash, hashes])
        self.time, self.seq = np.concatenate([self.time, time]), np.concatenate([self.seq, seq])
        self.stream = np.concatenate([self.stream, np.broadcast_to(stream, len(seq)).astype(np.int64)])

    def expire(self, horizon: Recency) -> None:
        inside = (self.time > horizon.time) | ((self.time == horizon.time) & (self.seq >= horizon.seq))
        for name in ("hash", "time", "seq", "stream"):
            setattr(self, name, getattr(self, name)[inside])

    def in_common(self, streams: int) -> Floats:
        """As of sketches.py."""
        keys, at = np.unique(self.hash, return_inverse=True)
        masks = np.zeros(len(keys), dtype=np.int64)
        np.bitwise_or.at(masks, at, 1 << self.stream)
        counts = np.bincount(masks, minlength=1 << streams).astype(np.float64)
        every = np.arange(1 << streams)
        return np.array([counts[(every & mask) == mask].sum() for mask in range(1 << streams)])

    def bytes(self) -> int:
        return 32 * len(self.hash)

    def dump(self) -> dict[str, Any]:
        return {"hash": self.hash.view(np.int64), "time": self.time, "seq": self.seq, "stream": self.stream}

    def load(self, blob: dict[str, Any]) -> None:
        self.hash = blob["hash"].copy().view(np.uint64)
        self.time, self.seq, self.stream = blob["time"].copy(), blob["seq"].copy(), blob["stream"].copy()


class Likely(Instances):
    """Instances, their best by estimated shares."""

    def __init__(self, *given: Any, exact_counts: bool = False, registers: int = 256) -> None:
        super().__init__(*given)
        self.sees = True
        self.exact = WindowKeys() if exact_counts else None
        self.sketches = [Distinct(registers) for _ in range(self.streams)]
        self.repeats = [Repeats() for _ in range(self.streams)]
        self.share = np.ones((1 << self.streams, self.streams))  # by the streams seen, and a further one

    def expire(self, horizon: Recency) -> None:
        super().expire(horizon)
        if self.exact is not None:
            self.exact.expire(self.horizon)
        for repeats in self.repeats:
            repeats.expire(self.horizon)

    def add(
        self, keys: pa.Array, columns: tuple[Floats, ...], time: Ints, seq: Ints, stream: Any = 0
    ) -> None:
        if len(seq):
            hashes = hashes_of(keys)
            if self.exact is not None:
                self.exact.add(hashes, time, seq, stream)
            for number in range(self.streams):
                own = np.flatnonzero(np.broadcast_to(stream == number, len(seq)))
                if len(own):
                    self.sketches[number].add(hashes[own], time[own], seq[own])
                    rows = sum(pane[1] for pane in self.repeats[number].panes)
                    self.repeats[number].add(hashes[own], time[own], seq[own], rows)
        super().add(keys, columns, time, seq, stream)

    def _count(self) -> bool:
        """What an object's rows in a stream come to is estimated, where it isn't promised."""
        if not self.counted:
            self.crowd[:] = [max(1, round(repeats.occurrences())) for repeats in self.repeats]
        self.noted[:] = 0
        return False

    def estimate(self) -> None:
        """The shares as the window has them now."""
        if self.exact is not None:
            common = self.exact.in_common(self.streams)
        else:
            common = in_common([sketch.levels(self.horizon) for sketch in self.sketches])
        for mask in range(1 << self.streams):
            for further in range(self.streams):
                both = common[mask | 1 << further]
                self.share[mask, further] = min(1.0, both / common[mask]) if common[mask] > 0 else 1.0

    def bounds(self, places: Places, scores: Scores) -> tuple[Floats, Floats]:
        self.estimate()
        return self._bounds(places, scores)

    def _most(self, totals: Floats, there: Counts, codes: Ints) -> tuple[Floats, Any]:
        """What totals and counts of instances are likely to come to."""
        out, counts = np.empty_like(totals), np.empty(len(codes))
        likely(
            totals, there, codes, self.plan, self.seen, self.most, self.crowd, self.ever, self.share, out, counts
        )  # fmt: skip
        return out, counts

    def bytes(self) -> int:
        own: list[Any] = [*self.sketches, *self.repeats, *([self.exact] if self.exact is not None else [])]
        return super().bytes() + sum(int(part.bytes()) for part in own)

    def dump(self) -> dict[str, Any]:
        return {
            **super().dump(),
            "sketches": [sketch.dump() for sketch in self.sketches],
            "repeats": [repeats.dump() for repeats in self.repeats],
            "exact": None if self.exact is None else self.exact.dump(),
        }

    def _fill(self, blob: dict[str, Any]) -> None:
        super()._fill(blob)
        # as they were written down: these rows have been counted already, and others that are gone
        for sketch, part in zip(self.sketches, blob["sketches"], strict=True):
            sketch.load(part)
        for repeats, panes in zip(self.repeats, blob["repeats"], strict=True):
            repeats.load(panes)
        if self.exact is not None:
            self.exact.load(blob["exact"])


@kernel
def likely(
    totals: Floats, there: Counts, codes: Ints, plan: Ints, seen: Ints, most: Floats, rows: Ints, ever: bool,
    share: Floats, out: Floats, counts: Floats,
) -> None:  # fmt: skip
    """What each aggregate of these instances is likely to come to at most, and their rows."""
    for i in range(codes.shape[0]):
        told = seen[codes[i]]
        count = 0.0
        for s in range(rows.shape[0]):
            yet = yet_to_come(told, s, rows[s], np.int64(there[i, s]), ever)
            count += there[i, s] + yet * (1.0 if (told >> s) & 1 else share[told, s])
        counts[i] = count
        for a in range(plan.shape[0]):
            s = plan[a, 2]
            value = totals[a, i]
            yet = yet_to_come(told, s, rows[s], np.int64(there[i, s]), ever)
            part = 0.0
            if yet > 0:
                part = most[a] if (told >> s) & 1 else share[told, s] * most[a]
            if plan[a, 0] == MAX:
                value = max(value, part)
            else:  # where it is certain: no less than any sum that may come of it
                value = (value + (yet * part if yet > 0 else 0.0)) * (1.0 + ULP * (there[i, s] + yet + 1))
            out[a, i] = value + 0.0
