"""Instances whose upper bound is an estimate of what is likely to come.

An object seen in one stream appears in another only sometimes. The window shows how often: of the objects that were
seen in a set of streams, the share that was seen in a further one as well. An instance's upper bound counts what that
stream may still add times this share. The bound is lower, so more instances are removed, and an object that turns out
better than estimated is missed: an approximation, whose error depends on the data. Where every share is 1 the result
is that of pruned_instances.py.

The counts come from sketches of fixed size, one for each stream (sketches.py), or, with counts = 'exact', from an
entry for each row of the window. How often an object repeats in a stream is estimated too, unless it is promised.
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
from skyband.core.order import inside
from skyband.core.types import Floats, Ints, Recency

MOST_STREAMS = 8


class WindowKeys:
    """The keys of a window's rows and their streams, one entry for each row: exact counts."""

    def __init__(self) -> None:
        self.hash = np.empty(0, dtype=np.uint64)
        self.time, self.seq = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        self.stream = np.empty(0, dtype=np.int64)

    def add(self, hashes: Any, time: Ints, seq: Ints, stream: Any) -> None:
        self.hash = np.concatenate([self.hash, hashes])
        self.time, self.seq = np.concatenate([self.time, time]), np.concatenate([self.seq, seq])
        self.stream = np.concatenate([self.stream, np.broadcast_to(stream, len(seq)).astype(np.int64)])

    def expire(self, horizon: Recency) -> None:
        stays = inside(self.time, self.seq, horizon)
        for name in ("hash", "time", "seq", "stream"):
            setattr(self, name, getattr(self, name)[stays])

    def in_common(self, streams: int) -> Floats:
        """Return the number of keys that all streams of a set share, for each set, as `sketches.in_common`."""
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
    """Instances with upper bounds by estimated shares."""

    def __init__(self, *given: Any, exact_counts: bool = False, registers: int = 256) -> None:
        super().__init__(*given)
        self.sees = True
        self.exact = WindowKeys() if exact_counts else None
        self.sketches = [Distinct(registers) for _ in range(self.streams)]
        self.repeats = [Repeats() for _ in range(self.streams)]
        # by the set of streams seen, and a further stream
        self.share = np.ones((1 << self.streams, self.streams))

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
        """Estimate how many rows an object has in a stream, where that is not promised."""
        if not self.counted:
            self.crowd[:] = [max(1, round(repeats.occurrences())) for repeats in self.repeats]
        self.noted[:] = 0
        return False

    def estimate(self) -> None:
        """Compute the shares of the present window."""
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
        """Return estimated upper bounds on the totals of instances, and on their counts of rows."""
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
        # the sketches as saved: they have counted these rows, and others that have left
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
    """Write an estimated upper bound on each aggregate of these instances, and on their number of rows."""
    for i in range(codes.shape[0]):
        seen_in = seen[codes[i]]
        count = 0.0
        for s in range(rows.shape[0]):
            yet = yet_to_come(seen_in, s, rows[s], np.int64(there[i, s]), ever)
            count += there[i, s] + yet * (1.0 if (seen_in >> s) & 1 else share[seen_in, s])
        counts[i] = count
        for a in range(plan.shape[0]):
            s = plan[a, 2]
            value = totals[a, i]
            yet = yet_to_come(seen_in, s, rows[s], np.int64(there[i, s]), ever)
            part = 0.0
            if yet > 0:
                part = most[a] if (seen_in >> s) & 1 else share[seen_in, s] * most[a]
            if plan[a, 0] == MAX:
                value = max(value, part)
            else:  # rounded up, so that a certain bound is never below a sum
                value = (value + (yet * part if yet > 0 else 0.0)) * (1.0 + ULP * (there[i, s] + yet + 1))
            out[a, i] = value + 0.0
