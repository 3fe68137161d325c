"""The simple version, kept for ever as the truth that every algorithm is compared with.

It keeps every row it ever accepted in a plain list, and answers by sorting the whole window. It knows
nothing of the package: a score and a predicate are Python functions of a row (a dict), a window is ("rows",
n) or ("seconds", w), an event time is a number. A recency is the pair (time, seq), with time 0 where the
stream has no time column, and a beginning is a recency that a row has to be newer than.

Of an update stream it keeps every row too. What is no longer live (`gone`) is only left out of the answers, so it keeps
its place in row windows; a delete is no row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Recency = tuple[float, int]
Window = tuple[str, float]
OPERATIONS = ("insert", "update", "delete", "c", "r", "u", "d")
BEFORE_EVERYTHING: Recency = (-math.inf, -1)


class Row(NamedTuple):
    time: float
    seq: int
    values: Mapping[str, Any]

    @property
    def recency(self) -> Recency:
        return (self.time, self.seq)


class Ranked(NamedTuple):
    rank: int
    score: float
    seq: int
    time: float


@dataclass
class Watch:
    score: Callable[[Mapping[str, Any]], float | None]  # None or NaN keeps the row out
    k: int | None  # None: a threshold query, whose answer is every chosen row
    window: Window
    descending: bool
    where: Callable[[Mapping[str, Any]], bool | None]
    stream: str
    beginning: Recency
    waiting: list[tuple[Recency, int]] = field(default_factory=list)  # (complete after this, k until then)
    told: dict[int, Ranked] = field(default_factory=dict)  # what the changes so far add up to


class Oracle:
    def __init__(
        self,
        time: str | None = None,
        retain: Window | None = None,
        max_ahead: float | None = None,
        fits: Callable[[Mapping[str, Any]], bool] = lambda row: True,
        key: str | None = None,
        op: str | None = None,
    ) -> None:
        self.time, self.retain, self.max_ahead, self.fits = time, retain, max_ahead, fits
        self.key, self.op = key, op
        self.live: dict[tuple[str, Any], int] = {}  # the seq of the live row of a stream and key
        self.gone: set[int] = set()
        self.now: float | None = None
        self.seq = 0
        self.rows: dict[str, list[Row]] = {}  # accepted, by recency
        self.rejects: list[tuple[int, str]] = []
        self.watches: dict[str, Watch] = {}
        self._steps_ahead = 0

    # ---- what arrives

    def push(self, rows: Iterable[Mapping[str, Any]], stream: str = "s") -> dict[str, tuple[set, list]]:
        numbered = list(enumerate(rows, self.seq))
        ahead = self._ahead(numbered)
        accepted = []
        for seq, values in numbered:
            reason = self._reason(values, stream) or ("ahead" if seq in ahead else None)
            if reason:
                self.rejects.append((seq, reason))
            else:
                accepted.append(Row(self._time(values), seq, values))
            if self.key is not None and reason in (
                None,
                "late",
            ):  # a late row is rejected, but ends the one before it
                self.gone.add(self.live.pop((stream, values[self.key]), -1))
                if reason is None and not self._deletes(values):
                    self.live[stream, values[self.key]] = seq
        self.seq += len(numbered)
        times = [r.time for r in accepted if r.time is not None]  # a delete may have none
        if self.time is not None and times:
            self.now = max(times + ([] if self.now is None else [self.now]))
        accepted = [r for r in accepted if not self._deletes(r.values)]
        self.rows[stream] = sorted(self.rows.get(stream, []) + accepted, key=lambda r: r.recency)
        return self._changes()

    def _deletes(self, values: Mapping[str, Any]) -> bool:
        return self.op is not None and values[self.op].lower() in ("delete", "d")

    def advance(self, time: float) -> dict[str, tuple[set, list]]:
        if self.now is not None and time <= self.now:
            return {}
        self.now = time
        return self._changes()

    def _time(self, values: Mapping[str, Any]) -> float:
        return 0 if self.time is None else values.get(self.time)

    def _reason(self, values: Mapping[str, Any], stream: str) -> str | None:
        if not self.fits(values):
            return "type"
        if self.op is not None and str(values.get(self.op)).lower() not in OPERATIONS:
            return "op"
        if self.key is not None and (values.get(self.key) is None or values[self.key] != values[self.key]):
            return "key"
        if self._deletes(values):
            return None
        time = self._time(values)
        if time is None or time != time:
            return "time"
        return "late" if self._late(time, stream) else None

    def _late(self, time: float, stream: str) -> bool:
        """Older than every window, a row window being that of the rows since its watch's beginning."""
        windows = [(w.window, w.beginning) for w in self.watches.values() if w.stream == stream]
        if self.time is None or self.now is None or not windows:
            return False
        held = self.rows.get(stream, [])
        return all(
            time < self.now - size
            if kind == "seconds"
            else sum(r.time > time and r.recency > beginning for r in held) >= size
            for (kind, size), beginning in windows
            + ([(self.retain, BEFORE_EVERYTHING)] if self.retain else [])
        )

    def _ahead(self, numbered: list[tuple[int, Mapping[str, Any]]]) -> set[int]:
        if self.max_ahead is None or self.now is None:
            return set()
        wrong = ("type", "op", "key", "time")
        told = [(s, v) for s, v in numbered if self._reason(v, "") not in wrong and self._time(v) is not None]
        times = [(self._time(v), s) for s, v in told]
        if self._steps_ahead == 3:  # the stream has jumped, and is followed until it is where it jumped to
            self._steps_ahead = 0 if any(time > self.now + self.max_ahead for time, _ in times) else 3
            return set()
        ahead, reach = set(), self.now
        for time, seq in sorted(times):
            if time > reach + self.max_ahead:
                ahead.add(seq)
            reach = reach if seq in ahead else max(reach, time)
        self._steps_ahead = self._steps_ahead + 1 if ahead and len(ahead) == len(numbered) else 0
        return ahead

    # ---- what is asked

    def watch(
        self,
        name: str,
        score: Callable[[Mapping[str, Any]], float | None],
        k: int | None,
        window: Window,
        descending: bool = True,
        where: Callable[[Mapping[str, Any]], bool | None] = lambda row: True,
        stream: str = "s",
    ) -> None:
        self.watches[name] = Watch(score, k, window, descending, where, stream, self._begin(stream))

    def drop(self, name: str) -> None:
        del self.watches[name]

    def change(self, name: str, k: int | None = None, window: Window | None = None) -> None:
        w = self.watches[name]
        old_start, old_k = self._start(w), w.k
        w.k, w.window = k or w.k, window or w.window
        known = self._known(w.stream)
        w.beginning = max(w.beginning, min(old_start, known))
        if k is not None and k > old_k:
            w.waiting.append((known, old_k))

    def _newest(self, stream: str) -> Recency:
        return self.rows[stream][-1].recency if self.rows.get(stream) else BEFORE_EVERYTHING

    def _begin(self, stream: str) -> Recency:
        retained = self._suffix(self.rows.get(stream, []), self.retain) if self.retain else []
        return _just_before(retained[0]) if retained else self._newest(stream)

    def _known(self, stream: str) -> Recency:
        """All rows newer than this are retained."""
        return self._edge(self.rows.get(stream, []), self.retain) if self.retain else self._newest(stream)

    def _start(self, w: Watch, window: Window | None = None) -> Recency:
        """What a row has to be newer than to be in the window of a watch."""
        return max(w.beginning, self._edge(self.rows.get(w.stream, []), window or w.window))

    def _edge(self, rows: list[Row], window: Window) -> Recency:
        kind, size = window
        if kind == "seconds":
            return BEFORE_EVERYTHING if self.now is None else (self.now - size, -1)
        return _just_before(rows[-int(size)]) if len(rows) >= size else BEFORE_EVERYTHING

    def _suffix(self, rows: list[Row], window: Window) -> list[Row]:
        return [r for r in rows if r.recency > self._edge(rows, window)]

    # ---- what is answered

    def top(self, name: str, k: int | None = None, window: Window | None = None) -> list[Ranked]:
        w = self.watches[name]
        start = self._start(w, window)
        rows = [r for r in self.rows.get(w.stream, []) if r.recency > start and r.seq not in self.gone]
        held_back = [old for known, old in w.waiting if start < known]
        scored = [(w.score(r.values), r) for r in rows if w.where(r.values)]
        scored = [(s, r) for s, r in scored if s is not None and s == s]
        scored.sort(key=lambda item: (-item[0] if w.descending else item[0], -item[1].time, -item[1].seq))
        limit = k or w.k
        if limit is not None:
            scored = scored[: min([limit, *held_back])]
        return [Ranked(i, s, r.seq, r.time) for i, (s, r) in enumerate(scored, 1)]

    def _changes(self) -> dict[str, tuple[set, list]]:
        """For each watch, what leaves (a set of seqs) and what enters (by rank)."""
        changes = {}
        for name, w in self.watches.items():
            top = {r.seq: r for r in self.top(name)}
            changes[name] = (w.told.keys() - top.keys(), [r for s, r in top.items() if s not in w.told])
            w.told = top
        return changes


def _just_before(row: Row) -> Recency:
    return (row.time, row.seq - 1)
