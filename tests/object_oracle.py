"""The simple version for objects: group the rows of the window, add them up with math.fsum, sort."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.oracle import Oracle, Recency, Row, Watch, Window

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


@dataclass
class JoinedWatch(ObjectWatch):
    members: tuple[str, ...] = ()
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # columns used, by stream


class ObjectOracle(Oracle):
    """Also answers questions about objects."""

    def watch_joined(
        self,
        name: str,
        key: str,
        score: Callable[[dict[str, list[Mapping[str, Any]]]], float],
        k: int,
        window: Window,
        attributes: Mapping[str, tuple[str, ...]],
        descending: bool = True,
        having: Callable[[Any], bool] = lambda rows: True,
    ) -> None:
        """The score is of an object's rows by stream."""
        members = tuple(attributes)
        stream = "+".join(members)  # their rows as those of one stream
        self._join(stream, members)
        watch = JoinedWatch(
            score, k, window, descending, lambda row: True, stream, self._begin_joined(members, stream)
        )  # type: ignore[arg-type]
        watch.key, watch.having, watch.members, watch.attributes = (key,), having, members, attributes
        self.watches[name] = watch

    def _begin_joined(self, members: tuple[str, ...], stream: str) -> Recency:
        if not self.retain:
            return self._newest(stream)
        known = max(Oracle._known(self, member) for member in members)
        retained = [row for row in self.rows[stream] if row.recency > known]
        return (retained[0].time, retained[0].seq - 1) if retained else self._newest(stream)

    def _known(self, stream: str) -> Recency:
        members = stream.split("+")
        return max(Oracle._known(self, member) for member in members)

    def _join(self, stream: str, members: tuple[str, ...]) -> None:
        rows = [row._replace(values={**row.values, "@": m}) for m in members for row in self.rows.get(m, [])]
        self.rows[stream] = sorted(rows, key=lambda row: row.recency)

    def _late(self, time: float, stream: str) -> bool:
        joined = [w for w in self.watches.values() if isinstance(w, JoinedWatch) and stream in w.members]
        own = [w for w in self.watches.values() if w.stream == stream]
        if not joined or self.time is None or self.now is None:
            return super()._late(time, stream)
        if own and not super()._late(time, stream):
            return False
        if self.retain and not own:
            held = self.rows.get(stream, [])
            if sum(r.time > time for r in held) < self.retain[1]:
                return False
        for w in joined:
            kind, size = w.window
            rows = self.rows[w.stream]
            if kind == "seconds" and time >= self.now - size:
                return False
            if kind == "rows" and sum(r.time > time and r.recency > w.beginning for r in rows) < size:
                return False
        return True

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
        if isinstance(w, JoinedWatch):
            return self._joined_top(w, k, window)
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
        return self._rank(w, scored, start, k)

    def _joined_top(self, w: JoinedWatch, k: int | None, window: Window | None) -> list[RankedObject]:
        start = self._start(w, window)
        objects: dict[str, list[Row]] = {}
        for row in self.rows[w.stream]:
            told = [row.values.get(column) for column in (*w.key, *w.attributes[row.values["@"]])]
            there = all(value is not None and value == value for value in told)
            if row.recency > start and row.seq not in self.gone and there:
                objects.setdefault(str(row.values[w.key[0]]), []).append(row)
        scored = []
        for text, rows in objects.items():
            values = {m: [row.values for row in rows if row.values["@"] == m] for m in w.members}
            score = w.score(values)  # type: ignore[arg-type]
            if score == score and w.having(values):  # type: ignore[arg-type]
                scored.append((score, rows[-1], text))
        return self._rank(w, scored, start, k)

    def _rank(self, w: Watch, scored: list[Any], start: Recency, k: int | None) -> list[RankedObject]:
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
        for w in self.watches.values():
            if isinstance(w, JoinedWatch):
                self._join(w.stream, w.members)
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
