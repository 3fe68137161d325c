"""The simple version for objects: group the rows of the window, add them up with math.fsum, sort."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.oracle import Oracle, Row, Watch, Window

Values = list[Mapping[str, Any]]


class RankedObject(NamedTuple):
    rank: int
    score: float
    id: str
    time: float
    latest: int  # seq of its latest row


@dataclass
class ObjectWatch(Watch):
    key: tuple[str, ...] = ()
    used: tuple[str, ...] = ()  # columns in which a row must have a value
    having: Callable[[Values], bool] = lambda rows: True


def total(numbers: list[float]) -> float:
    """Their exact sum, rounded once; infinities as IEEE adds them."""
    infinite = {x for x in numbers if math.isinf(x)}
    if infinite:
        return math.nan if len(infinite) == 2 else infinite.pop()
    try:
        return math.fsum(numbers)
    except OverflowError:  # on the way: halves don't
        half = math.fsum(x / 2 for x in numbers)
        return 2 * half


class ObjectOracle(Oracle):
    """Also answers questions about objects."""

    def watch_objects(
        self,
        name: str,
        key: tuple[str, ...],
        score: Callable[[Values], float],
        k: int | None,
        window: Window,
        used: tuple[str, ...],
        descending: bool = True,
        where: Callable[[Mapping[str, Any]], bool | None] = lambda row: True,
        having: Callable[[Values], bool] = lambda rows: True,
        stream: str = "s",
    ) -> None:
        watch = ObjectWatch(score, k, window, descending, where, stream, self._begin(stream))  # type: ignore[arg-type]
        watch.key, watch.used, watch.having = key, used, having
        self.watches[name] = watch

    def top(self, name: str, k: int | None = None, window: Window | None = None) -> list[Any]:
        w = self.watches[name]
        if not isinstance(w, ObjectWatch):
            return list(super().top(name, k, window))
        start = self._start(w, window)
        objects: dict[str, list[Row]] = {}
        for row in self.rows.get(w.stream, []):
            told = [row.values.get(column) for column in w.used]
            there = all(value is not None and value == value for value in told)
            if row.recency > start and row.seq not in self.gone and there and w.where(row.values):
                keys = [row.values[column] for column in w.key]
                text = str(keys[0]) if len(keys) == 1 else json.dumps(keys)
                objects.setdefault(text, []).append(row)
        scored = []
        for text, rows in objects.items():
            values = [row.values for row in rows]
            score = w.score(values)  # type: ignore[arg-type]
            if score == score and w.having(values):
                scored.append((score, rows[-1], text))
        scored.sort(key=lambda item: (-item[0] if w.descending else item[0], -item[1].time, -item[1].seq))
        held_back = [old for known, old in w.waiting if start < known]
        limit = k or w.k
        if limit is not None:
            scored = scored[: min([limit, *held_back])]
        return [
            RankedObject(rank, score, text, row.time, row.seq)
            for rank, (score, row, text) in enumerate(scored, 1)
        ]

    def _changes(self) -> dict[str, Any]:
        """Of objects: leaves and enters as lists of (id, score), the latter by rank."""
        plain = {name: w for name, w in self.watches.items() if not isinstance(w, ObjectWatch)}
        objects = {name: w for name, w in self.watches.items() if isinstance(w, ObjectWatch)}
        every, self.watches = self.watches, plain
        changes: dict[str, Any] = super()._changes()
        self.watches = every
        for name, w in objects.items():
            top = self.top(name)
            old, new = (
                {(r.latest, r.score): r for r in w.told.values()},
                {(r.latest, r.score): r for r in top},
            )  # type: ignore[attr-defined]
            leaves = {(r.id, r.score) for key, r in old.items() if key not in new}
            changes[name] = (leaves, [(r.rank, r.id, r.score) for key, r in new.items() if key not in old])
            w.told = {r.latest: r for r in top}
        return changes
