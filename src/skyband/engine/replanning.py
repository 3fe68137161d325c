"""Looking again at a stream's plan: what was assumed when algorithms were chosen is known once rows have come.

How many rows a time window holds, how large batches are and how many queries there are shows only while the stream
runs. So a plan is looked at again from time to time, and a family is replaced where another algorithm promises to halve
the cost, or where the rows that it keeps have become too many. There is at most one replacement a window, and each one
doubles the windows until the next: a stream that swings between two shapes is not replanned with each swing.

Answers and changes stay as they are:

- A family that keeps the window's rows hands them over at once, with the answers that it has reported.
- A family that stands in until compiled code is there (stand_in.py) does the same, whatever the cost.
- A family of candidate lists has no rows to hand over. Its *successor* starts empty and takes every row that comes.
  Both run until the window begins with the successor's first row; then the successor has the same answer and takes
  over. A watch that comes, goes or changes cancels it, and so does saving and loading: a later look starts another one.

Only top-k queries over rows with no algorithm named are replanned. Pairs, joined and grouped objects, thresholds,
update streams and streams whose rows are pruned on their way keep their plan. So does a family whose queries would have
to join one that runs already, since that one doesn't know their rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from skyband.compiling import background
from skyband.core.types import LOWEST, Recency
from skyband.engine import stand_in
from skyband.engine.planner import ASSUMED_WINDOW, STAND_IN, Choice, Facts, choose, halves, unfit
from skyband.engine.protocol import Family, Step, Streamed, Watched
from skyband.engine.row_group import Group
from skyband.engine.stand_in import is_free
from skyband.query.model import Query, TopK, Window
from skyband.stream.arrow import numbers_array
from skyband.stream.batches import Batch, View

FIRST_LOOK = 1_000  # rows accepted
ALIKE = 1.5  # facts that differ by less are not worth a look
MOST_DOUBLINGS = 16


class Planned(Streamed, Protocol):
    """What a stream is to the review of its plan."""

    batch_rows: float | None
    groups: list[Family]
    _windows: Counter[Window]

    def newest(self) -> Recency: ...
    def has_updates(self) -> bool: ...
    def full_rows(self, window: Window) -> float | None: ...
    def facts(self, query: Query, watched: bool = False) -> Facts: ...
    def family_of(self, query: Query, choice: Choice) -> tuple[Any, bool]: ...
    def plan_of(self, query: Query, choice: Choice) -> str: ...
    def made(self, query: Query, algorithm: str, options: dict[str, float]) -> Family: ...
    def replace(self, old: Family, new: list[Group]) -> None: ...


@dataclass
class Successor:
    """A family that will replace another one when the window has passed its first row."""

    old: Group
    new: Group
    choice: Choice
    start: Recency  # it knows every row from here on
    slots: list[int]  # of its watches, in their order


class Review:
    """When a stream's plan is looked at again, and what takes over."""

    def __init__(self, stream: Planned) -> None:
        self.stream = stream
        self.replans = 0
        self.look_at = FIRST_LOOK  # rows accepted
        self._wait_until = 0  # rows accepted before which nothing is replaced
        self._steps = 0
        self._rows = 0  # accepted at the last look
        self._seen: dict[Any, tuple[float, ...]] = {}  # the facts about each family then
        self.successors: list[Successor] = []

    # -- a step --------------------------------------------------------------------------------------------

    @property
    def windowed(self) -> bool:
        """Whether a successor keeps the window's rows."""
        return bool(self.successors) and any(group.windowed for group in self.groups())

    def step(self, step: Step) -> None:
        """Successors take the step's rows."""
        for successor in self.successors:
            new = successor.new
            # it marks the rows whose selected columns must be put aside for it
            aside = any(watch.needs() - self._provided(new) for watch in new.watches)
            new.step(step if aside else step._replace(mark=np.zeros_like(step.mark)))

    def look(self) -> None:
        """Between two steps with rows: successors that know the whole window take over, and the plan is looked at if it
        is time to."""
        if self.successors:
            for successor in [s for s in self.successors if s.new.oldest >= s.start]:
                self._take_over(successor)
        stream = self.stream
        self._take_back()
        self._steps += 1
        if stream.accepted < self.look_at:
            return
        if self._steps:
            stream.batch_rows = (stream.accepted - self._rows) / self._steps
        self._steps, self._rows = 0, stream.accepted
        self.look_at = stream.accepted + int(min(stream.accepted, max(ASSUMED_WINDOW, self._longest())))
        if stream.monitor.lists_only or stream.has_updates() or self.successors:
            return
        if stream.accepted >= self._wait_until:
            for group in [*stream.groups]:
                if type(group) is Group:
                    self._judge(group)

    def request(self) -> None:
        """Have the code compiled that the watches of stand-ins wait for."""
        for (key, _), watches in self._waiting().items():
            self._request(key, watches)

    def _request(self, key: str, watches: list[Watched]) -> None:
        queries = [replace(watch.query, window=watch.window) for watch in watches[: stand_in.MOST_QUERIES]]
        stand_in.request(self.stream, queries, watches[0].choice, key)

    def _waiting(self) -> dict[tuple[str, Any], list[Watched]]:
        """The watches that a stand-in answers, by the plan that they wait for and the family that they will be."""
        found: dict[tuple[str, Any], list[Watched]] = {}
        for group in self.stream.groups:
            if group.algorithm_name == STAND_IN:
                for watch in group.watches:
                    if is_free(watch.query):
                        if (
                            watch.choice.algorithm == STAND_IN
                        ):  # it was loaded, and what was planned isn't saved
                            watch.choice = choose(watch.query, self.stream.facts(watch.query, watched=True))
                        key, _ = self.stream.family_of(watch.query, watch.choice)
                        plan = self.stream.plan_of(watch.query, watch.choice)
                        found.setdefault((plan, key), []).append(watch)
        return found

    def _take_back(self) -> None:
        """Stand-ins hand over to the families whose compiled code is there; for the others it is asked for."""
        if STAND_IN not in [group.algorithm_name for group in self.stream.groups]:
            return
        for (key, _), watches in self._waiting().items():
            if not background.is_ready(key):
                self._request(key, watches)
                continue
            self.cancel()
            old = watches[0].group
            self.succeed(old, watches, watches[0].choice)
            self.hand_over(old)

    def _longest(self) -> float:
        """About how many rows the longest window holds once it is full."""
        return max((self.stream.full_rows(window) or 0.0 for window in self.stream._windows), default=0.0)

    def _judge(self, group: Group) -> None:
        """Replace a family's algorithm, or start to, if that has become worth it."""
        free = {watch.window: watch for watch in group.watches if _is_free(watch)}
        if not free or group.algorithm_name == STAND_IN:
            return
        longest = max(free.values(), key=lambda watch: self.stream.full_rows(watch.window) or 0)
        facts = self.stream.facts(longest.query, watched=True)
        known = float(facts.queries), facts.window or ASSUMED_WINDOW, facts.batch or 1.0
        before = self._seen.get(group.key)
        if before and all(a < ALIKE * b and b < ALIKE * a for a, b in zip(known, before, strict=True)):
            return
        self._seen[group.key] = known
        choice = choose(longest.query, facts)
        if choice.algorithm == group.algorithm_name:
            return
        if not halves(longest.query, facts, group.algorithm_name, choice.algorithm):
            return
        moving = [w for w in group.watches if _is_free(w) and unfit(choice.algorithm, w.query, facts) is None]
        families: dict[Any, list[Watched]] = {}
        for watch in moving:
            key, is_there = self.stream.family_of(watch.query, choice)
            if is_there:  # it doesn't know the rows from before it began
                return
            families.setdefault(key, []).append(watch)
        for watches in families.values():
            self.succeed(group, watches, choice)
        if group.windowed:
            self.hand_over(group)

    # -- replacing -----------------------------------------------------------------------------------------

    def succeed(self, old: Group, moving: list[Watched], choice: Choice) -> None:
        """Begin an empty family for some watches of another one, which still answers them."""
        new = self.stream.made(moving[0].query, choice.algorithm, choice.options)
        newest = self.stream.newest()
        start = LOWEST if newest == LOWEST else newest.after()
        slots = []
        for watch in moving:
            slot = watch.slot
            new.attach(watch)
            slots.append(watch.slot)
            watch.group, watch.slot = old, slot
        assert isinstance(new, Group)
        self.successors.append(Successor(old, new, choice, start, slots))

    def hand_over(self, old: Group) -> None:
        """A family gives its rows and the answers that it has reported to its successors, which take over at once."""
        columns, time, seq = old.algorithm.rows(LOWEST)
        table = pa.table([numbers_array(c) for c in columns], names=list(old.space.columns))
        rows, reported = Batch(table, seq, time), old.answers.dump()
        first = np.cumsum(reported["size"]) - reported["size"]
        for successor in [s for s in self.successors if s.old is old]:
            new = successor.new
            moving = np.array([old.watches.index(watch) for watch in new.watches])
            self._fill(successor, rows)
            sizes = reported["size"][moving]
            listed = np.repeat(first[moving] - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
            answers = {name: reported[name][listed] for name in ("good", "time", "seq")}
            by_watch = {"size": sizes, "slot": np.array(successor.slots), "stale": np.ones_like(moving)}
            new.answers.load(answers | by_watch)
        for successor in [s for s in self.successors if s.old is old]:
            self._put_aside(successor, rows)
            self._take_over(successor)

    def _fill(self, successor: Successor, rows: Batch) -> None:
        """The rows of the old family as those that the new one has taken so far."""
        old, new = successor.old, successor.new
        if new.windowed:
            at = np.flatnonzero(self._boxed(old, new.watches[0], rows) | bool(new.space.boxed))[::-1]
            columns = tuple(rows.number(name)[at] for name in new.space.columns)
            new.algorithm.fill(columns, rows.time[at], rows.seq[at])
        for slot in dict.fromkeys(successor.slots):
            if new.windowed:
                new.algorithm.opened(slot)
                continue
            watches = [w for w, own in zip(new.watches, successor.slots, strict=True) if own == slot]
            good = new.good(View(rows), slot)
            inside = self._boxed(old, watches[0], rows) & ~np.isnan(good)
            if old.space.bounded:
                inside &= good > old.algorithm.edge[watches[0].slot]
            at = np.flatnonzero(inside)
            new.algorithm.expire(slot, min(watch.horizon() for watch in watches))
            new.algorithm.rebuild(slot, good[at], rows.time[at], rows.seq[at])

    @staticmethod
    def _boxed(old: Group, watch: Watched, rows: Batch) -> Any:
        """Which rows are in the box of a watch of the old family."""
        inside = np.ones(len(rows), dtype=bool)
        for i, axis in enumerate(old.space.boxed):
            values = rows.number(old.space.columns[axis])
            inside &= values >= old.algorithm.low[watch.slot, i]
            inside &= values <= old.algorithm.high[watch.slot, i]
        return inside

    def _put_aside(self, successor: Successor, rows: Batch) -> None:
        """Selected columns that answers took from the old family's rows and can't take from the new one's."""
        new, kept = successor.new, self.stream.kept
        lost = sorted(
            self._provided(successor.old)
            & set().union(*(w.needs() for w in new.watches)) - self._provided(new)
        )
        seqs = np.unique(new.live_seqs())
        if not lost or not len(seqs):
            return
        order = np.argsort(rows.seq_arrived)
        at = order[np.searchsorted(rows.seq_arrived, seqs, sorter=order)]
        table = rows.table.select(lost).take(numbers_array(at))
        for field in kept.chunks[-1][1].schema if kept.chunks else ():
            if field.name not in lost:
                table = table.append_column(field, kept.take(seqs, pa.schema([field])).column(0))
        kept.replace(seqs, table, self.stream.newest())

    def _take_over(self, successor: Successor) -> None:
        """A successor answers its watches from now on."""
        stream, old, new = self.stream, successor.old, successor.new
        self.successors.remove(successor)
        choice = successor.choice
        if old.algorithm_name != STAND_IN:
            self.replans += 1
            wait = int(self._longest()) << min(self.replans, MOST_DOUBLINGS)
            self._wait_until = stream.accepted + wait
            why = f"{choice.why}; it replaced {old.algorithm_name} after {stream.accepted:,} rows"
            choice = replace(choice, why=why)
        stays = len(old.watches) > len(new.watches)
        for watch, slot in zip(new.watches, successor.slots, strict=True):
            if stays:
                old.detach(watch)
            else:  # its lists go with it
                old.watches.remove(watch)
            watch.group, watch.slot, watch.choice = new, slot, choice
        stream.replace(old, [new])

    def groups(self) -> list[Group]:
        return [successor.new for successor in self.successors]

    def _provided(self, group: Group) -> set[str]:
        """The selected columns that a family's own rows have."""
        return {name for name in group.columns() if self.stream.is_double(name)}

    def cancel(self) -> None:
        """Watches came, went or changed: successors know the earlier ones."""
        if self.successors:
            self.successors = []
            self._seen = {}

    # -- keeping -------------------------------------------------------------------------------------------

    def notes(self, watch: Watched) -> list[str]:
        return self._stands_in(watch) + [
            f"{successor.choice.algorithm} takes over when the window begins at "
            f"{self.stream.words(successor.start)}: it promises to halve the cost"
            for successor in self.successors
            if watch in successor.new.watches
        ]

    def _stands_in(self, watch: Watched) -> list[str]:
        """What to say of a watch that a stand-in answers."""
        group = watch.group
        if group.patient and background.is_busy():
            return [f"the kernels of {group.algorithm_name} run as plain Python until they are compiled"]
        if group.algorithm_name != STAND_IN or watch.choice.algorithm == STAND_IN:
            return []
        rows = self.stream.full_rows(watch.window) or ASSUMED_WINDOW
        note = f"{STAND_IN} answers until the compiled code of {watch.choice.algorithm} is there"
        if rows * len(group.watches) > stand_in.MOST:
            note += f"; steps are slower until then ({rows:,.0f} rows times {len(group.watches):,} queries)"
        return [note]

    def dump(self) -> dict[str, int]:
        return {"replans": self.replans, "wait_until": self._wait_until}

    def load(self, blob: Mapping[str, int]) -> None:
        self.replans, self._wait_until = int(blob.get("replans", 0)), int(blob.get("wait_until", 0))
        self._rows, self.look_at = self.stream.accepted, self.stream.accepted + FIRST_LOOK

    def _check(self) -> None:
        for successor in self.successors:
            # its watches are still those of the family that it will replace
            assert all(watch.group is successor.old for watch in successor.new.watches)
            successor.new.algorithm._check()


def _is_free(watch: Watched) -> bool:
    """Whether another algorithm may replace a watch's."""
    return is_free(watch.query) and isinstance(watch.query, TopK)
