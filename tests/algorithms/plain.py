"""The plain window algorithm: keeps all rows and sorts them after each step. It shows that what surrounds the indexed
algorithms (slots, boxes, bounds, snapshots, reports) is right, whatever they do inside."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from skyband.algorithms import Card, WindowAlgorithm
from skyband.core.types import Recency


class Plain(WindowAlgorithm):
    card = Card(
        name="plain", title="sorts all rows", source="none", answers=frozenset({"topk", "threshold"}), exact=True,
        keeps="the window", cost="a sort", wrong_when="always, but in tests",
        expected=lambda k, n: float(min(k, n)), options={}, window=True, fifo=False, boxes=True,
    )  # fmt: skip
    counter_names: ClassVar[tuple[str, ...]] = ("admitted", "sorts")

    def __init__(self, options: Any, space: Any) -> None:
        super().__init__(options, space)
        self.columns: list[Any] = [np.empty(0) for _ in space.columns]
        self.time = np.empty(0, dtype=np.int64)
        self.seq = np.empty(0, dtype=np.int64)

    def opened(self, slot: int) -> None:
        good, time, seq = self.scored(
            slot, Recency(int(self.horizon_time[slot]), int(self.horizon_seq[slot]))
        )
        k = len(good) if self.space.bounded else int(self.ks[slot])
        best = np.lexsort((seq, time, good))[::-1][:k]
        self.ranked.put(slot, good[best], time[best], seq[best])
        self.touched[slot] = 1
        self.counts[slot] += 1

    resized = opened

    def closed(self, slot: int) -> None:
        pass

    def fill(self, columns: Any, time: Any, seq: Any) -> None:
        new = ~np.isin(seq, self.seq)
        self.columns = [
            np.concatenate([mine, theirs[new]]) for mine, theirs in zip(self.columns, columns, strict=True)
        ]
        self.time, self.seq = np.concatenate([self.time, time[new]]), np.concatenate([self.seq, seq[new]])
        self._keep(np.lexsort((self.seq, self.time)))

    def _keep(self, places: Any) -> None:
        self.columns = [column[places] for column in self.columns]
        self.time, self.seq = self.time[places], self.seq[places]

    def window_step(self, columns: Any, time: Any, seq: Any, deleted_time: Any, deleted_seq: Any) -> None:
        self.fill(columns, time, seq)
        horizon = self.oldest_horizon()
        inside = (self.time > horizon.time) | ((self.time == horizon.time) & (self.seq >= horizon.seq))
        self._keep(np.flatnonzero(inside & ~np.isin(self.seq, deleted_seq)))
        for slot in np.flatnonzero(self.ks).tolist():
            self.opened(slot)

    def rows(self, horizon: Recency) -> Any:
        inside = (self.time > horizon.time) | ((self.time == horizon.time) & (self.seq >= horizon.seq))
        return tuple(column[inside] for column in self.columns), self.time[inside], self.seq[inside]

    def seqs(self) -> Any:
        return self.seq.copy()

    def window_size(self) -> tuple[int, int]:
        return len(self.seq), self.time.nbytes * (2 + len(self.columns))

    def load(self, blob: Any) -> None:
        super().load(blob)
        self.columns = [blob[f"column_{i}"].copy() for i in range(len(self.columns))]
        self.time, self.seq = blob["row_time"].copy(), blob["row_seq"].copy()
