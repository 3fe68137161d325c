"""The simple version, kept for ever as the truth that every algorithm is compared with.

It keeps every row it ever accepted in a plain list, and answers by sorting the whole window. It knows
nothing of the package: a score and a predicate are Python functions of a row (a dict), a window is ("rows",
n) or ("seconds", w), an event time is a number. A recency is the pair (time, seq), with time 0 where the
stream has no time column, and a beginning is a recency that a row has to be newer than.

With `max_ahead` rows that are stamped far ahead wait in a plain list, and every step goes through all of them and its
own rows in order of time.

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
ROOM = 100_000  # rows of a stream that wait
OPERATIONS = ("insert", "update", "delete", "c", "r", "u", "d")
BEFORE_EVERYTHING: Recency = (-math.inf, -1)


class Row(NamedTuple):
    time: float
    seq: int
    values: Mapping[str, Any]

    @property
    def recency(self) -> Recency:
        return (self.time, self.seq)


class Stamped(NamedTuple):
    """A row that may have to wait."""

    time: float  # -inf: none
    seq: int
    stream: str
    values: Mapping[str, Any]
    waited: bool = False
    late: bool = False  # it is rejected, but ends a row of its key


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
        self.waiting: list[Stamped] = []
        self.notices: list[tuple[str, int]] = []  # `waiting` and `jumped`, with the number of rows
        self._started: set[str] = set()  # streams that have had a time
        self._ahead: dict[
            str, list[list[float]]
        ] = {}  # times of the steps in a row that were ahead as a whole

    # ---- what arrives

    def push(self, rows: Iterable[Mapping[str, Any]], stream: str = "s") -> dict[str, tuple[set, list]]:
        numbered = list(enumerate(rows, self.seq))
        self.seq += len(numbered)
        new, rejects = [], []
        for seq, values in numbered:
            reason = self._reason(values, stream)
            if reason:
                rejects.append((seq, reason))
            if reason is None or (reason == "late" and self.key is not None):
                time = self._time(values)
                time = -math.inf if time is None or time != time else time
                new.append(Stamped(time, seq, stream, values, late=reason == "late"))
        late = sum(reason == "late" for _, reason in rejects)
        taken = self._judge(new, stream, late, rejects)
        self._accept(taken)
        return self._changes()

    def _accept(self, taken: list[Stamped]) -> None:
        for row in sorted(taken, key=lambda row: row.seq):
            deletes = self._deletes(row.values)
            if self.key is not None:  # a late row is rejected, but ends the one before it
                self.gone.add(self.live.pop((row.stream, row.values[self.key]), -1))
                if not row.late and not deletes:
                    self.live[row.stream, row.values[self.key]] = row.seq
            if row.late:
                continue
            if self.time is not None and row.time > -math.inf:
                self.now = row.time if self.now is None else max(self.now, row.time)
                self._started.add(row.stream)
            if not deletes:
                self.rows.setdefault(row.stream, []).append(Row(row.time, row.seq, row.values))
        for held in self.rows.values():
            held.sort(key=lambda row: row.recency)

    def _deletes(self, values: Mapping[str, Any]) -> bool:
        return self.op is not None and values[self.op].lower() in ("delete", "d")

    def advance(self, time: float) -> dict[str, tuple[set, list]]:
        if self.now is not None and time <= self.now:
            return {}
        self.now = time
        self._accept(self._judge([], "", 0, []))
        return self._changes()

    # ---- rows that are far ahead

    def _judge(
        self, new: list[Stamped], stream: str, late: int, rejects: list[tuple[int, str]]
    ) -> list[Stamped]:
        """Which rows are taken in this step, in order of time; the others wait, or are rejected."""
        if self.time is None or self.max_ahead is None:
            self.rejects += rejects
            return new
        times = sorted(row.time for row in new if row.time > -math.inf)
        reach = -math.inf if self.now is None else self.now
        if times and stream not in self._started:
            reach = self._first_time(times, len(times) + (late if self.key is None else 0), reach)
        left = self.waiting + new
        taken: list[Stamped] = []
        overtaken: list[Stamped] = []
        reach = self._walk(reach, left, taken, overtaken)
        steps = self._ahead.get(stream, [])
        if (times or late) and (late or any(row in taken for row in new if row.time > -math.inf)):
            self._ahead[stream] = []
        elif times:
            self._ahead[stream] = steps = [*steps, times]
            if len(steps) == 3:
                every = sorted(time for step in steps for time in step)
                start = every[(len(every) - 1) // 2]
                self._ahead[stream] = []
                self._started.add(stream)
                self.notices.append(("jumped", len(times)))
                reach = self._walk(max(reach, start), left, taken, overtaken)
                self.now = start if self.now is None else max(self.now, start)
        for row in left:  # a row that begins to wait may have been overtaken, too
            if any(self._overtakes(other, row) for other in taken):
                overtaken.append(row)
        left = [row for row in left if row not in overtaken]
        fresh = [row for row in left if not row.waited]
        room = ROOM - sum(row.waited and row.stream == stream for row in left)
        kept = sorted(fresh, key=lambda row: row.seq)[: max(room, 0)]
        self.waiting = sorted(
            [row for row in left if row.waited] + [row._replace(waited=True) for row in kept],
            key=lambda row: row.seq,
        )
        if kept:
            self.notices.append(("waiting", len(kept)))
        rejects += [(row.seq, "ahead") for row in fresh if row not in kept]
        rejects += [(row.seq, "overtaken") for row in overtaken if not row.waited]
        self.rejects += sorted((row.seq, "overtaken") for row in overtaken if row.waited)
        self.rejects += sorted(rejects)
        return taken

    def _first_time(self, times: list[float], rows: int, reach: float) -> float:
        """Where time starts with a stream's first rows: at the earliest, or where most of them are."""
        end = first = max(reach, times[0])
        for time in times:
            if time <= end + self.max_ahead:
                end = max(end, time)
        far = [time for time in times if time > end + self.max_ahead]
        return min(far) if 2 * len(far) > rows else first

    def _walk(
        self, reach: float, left: list[Stamped], taken: list[Stamped], overtaken: list[Stamped]
    ) -> float:
        """Move the rows that are near enough, in order of time; returns the latest time taken."""
        for row in sorted(left, key=lambda row: (row.time, row.seq)):
            if row.time > reach + self.max_ahead:
                continue
            left.remove(row)
            if row.waited and any(self._overtakes(other, row) for other in taken):
                overtaken.append(row)
            else:
                taken.append(row)
                reach = max(reach, row.time)
        return reach

    def _overtakes(self, other: Stamped, row: Stamped) -> bool:
        """Whether a row that was taken makes a waiting one obsolete: of its key, and it came later."""
        if self.key is None or other.stream != row.stream or other.seq <= row.seq:
            return False
        return other.time < row.time and other.values[self.key] == row.values[self.key]

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
