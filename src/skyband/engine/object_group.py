"""Families of questions about objects: several rows make one, and its score rises and falls.

What a Group is for rows, an `ObjectGroup` is for the objects of a grouped or joined query: it has a step's rows read
(reading.py), shows them to the algorithm, and finds out how each watch's answer has changed. Watches of one query
share it; each window and beginning has its own slot, since other rows make other totals. An object whose score or
latest row has changed leaves and enters again, so that what the changes add up to is always the answer as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.algorithms import OBJECTS
from skyband.algorithms.objects.window_objects import Objects
from skyband.core.exchange import OBJECT, Changes, Entries, Present
from skyband.core.types import Ints, Recency
from skyband.engine.aggregate_inputs import reading_of
from skyband.engine.answers import Answers
from skyband.engine.protocol import Family, Step, Watched
from skyband.engine.watch import Watch
from skyband.query.model import Grouped, Joined, Rows, Window
from skyband.stream.arrow import numbers_array
from skyband.stream.batches import Batch
from skyband.stream.key_text import text_ids


class ObjectGroup(Family):
    """The watches of one grouped or joined query."""

    windowed = False  # no columns of rows are put aside for answers
    oldest = Recency(2**63 - 1, 2**63 - 1)

    def __init__(self, query: Grouped | Joined, algorithm: str, options: dict[str, float]) -> None:
        self.key = object_family(query, algorithm, options)
        self.reading = reading_of(query)
        self.sign, self.used = self.reading.sign, self.reading.used
        self.algorithm_name, self.options = algorithm, options
        self.algorithm: Any = OBJECTS[algorithm](options, self.reading.asked())
        self.slots: dict[tuple[Window, Recency], int] = {}
        self.watches: list[Watch] = []
        self.answers = Answers(OBJECT)

    # -- watches -------------------------------------------------------------------------------------------

    def attach(self, watch: Watch) -> None:
        self.algorithm.retained = watch._monitor.retain is not None
        watch.group, watch.slot = self, self._open(watch)
        self.watches.append(watch)
        self.answers.add(0)
        self._resize(watch.slot)

    def detach(self, watch: Watch) -> None:
        index = self.watches.index(watch)
        del self.watches[index]
        self.answers.remove(index)
        self._leave(watch.slot)

    def update(self, watch: Watch) -> None:
        """The watch has another k or window: what it knew is in the slot that it comes from."""
        old = watch.slot
        watch.slot = self._open(watch, self.algorithm.slots[old])
        if watch.slot != old:
            self._leave(old)
        self._resize(watch.slot)

    def _resize(self, slot: int) -> None:
        """As many ranks as the watches of a slot ask for."""
        self.algorithm.resize(slot, max(watch.capacity for watch in self.watches if watch.slot == slot))
        self.algorithm.slots[slot].settle(self.reading.good)

    def _open(self, watch: Watch, source: Objects | None = None) -> int:
        key = (watch.window, watch.beginning)
        slot = self.slots.get(key)
        if slot is None:
            slot = self.slots[key] = self.algorithm.add(None if watch.k is not None else -np.inf)
            if source is not None:
                self.algorithm.slots[slot] = source.within(watch.horizon(), self.reading.good)
        return slot

    def _leave(self, slot: int) -> None:
        if not any(watch.slot == slot for watch in self.watches):
            self.algorithm.remove(slot)
            self.slots = {key: other for key, other in self.slots.items() if other != slot}

    def notes(self) -> list[str]:
        outside = self.reading.outside
        left = (
            [f"{outside:,} rows with a value outside its range stayed out of this query"] if outside else []
        )
        return [*self.algorithm.notes(), *left]

    # -- a step --------------------------------------------------------------------------------------------

    def step(self, step: Step) -> Changes | None:
        read = [(self.reading.rows_of(batch, stream), stream) for stream, batch in step.batches]
        for (window, beginning), slot in self.slots.items():
            objects = self.algorithm.slots[slot]
            objects.expire(max(step.horizons[window], beginning))
            if len(step.deleted[1]):
                objects.delete(*step.deleted)
            for rows, stream in read:
                objects.add(*rows, stream)
            objects.settle(self.reading.good)
        return self._compare()

    def _compare(self) -> Changes | None:
        """Return what has changed: texts are made of the ids of those answers alone that are not as they were."""
        answers, watches = self.answers, len(self.watches)
        start, size, which = np.zeros(watches, dtype=np.int64), np.zeros(watches, dtype=np.int64), []
        ids: list[Sequence[str]] = list(answers.ids)
        parts = [(np.empty(0), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))]
        for number, watch in enumerate(self.watches):
            objects = self.algorithm.slots[watch.slot]
            codes, good, time, seq = objects.best(watch.ranks(watch.horizon()))
            before = answers.of(number)
            if np.array_equal(seq, before.seq) and np.array_equal(good, before.good):
                continue
            which.append(number)
            start[number], size[number] = sum(len(part[0]) for part in parts), len(seq)
            ids[number] = _ids(objects, codes)
            parts.append((good, time, seq))
        if not which:
            return None
        good, time, seq = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return answers.compare(Present(np.array(which), start, size, 1, good, time, seq, ids=ids))

    def refill(self, slot: int, batch: Batch, stream: int = 0) -> Ints:
        """Add retained rows that a slot hasn't."""
        keys, columns, time, seq = self.reading.rows_of(batch, stream)
        objects = self.algorithm.slots[slot]
        fresh = np.flatnonzero(~np.isin(seq, objects.rows.seq[objects.rows.living()]))
        objects.horizon = min(watch.horizon() for watch in self.watches if watch.slot == slot)
        part = tuple(column[fresh] for column in columns)
        objects.add(keys.take(numbers_array(fresh)), part, time[fresh], seq[fresh], stream)
        objects.settle(self.reading.good)
        return np.empty(0, dtype=np.int64)

    # -- answers -------------------------------------------------------------------------------------------

    def within(self, slot: int, horizon: Recency) -> Objects:
        """Return the objects of a slot's window from a horizon on."""
        objects: Objects = self.algorithm.slots[slot]
        return objects.within(horizon, self.reading.good) if horizon > objects.horizon else objects

    def top(self, slot: int, k: int | None, horizon: Recency) -> Entries:
        objects = self.within(slot, horizon)
        codes, good, time, seq = objects.best(k)
        return Entries(good, time, seq, id=_ids(objects, codes))

    # -- keeping -------------------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        reported = [self.answers.of(index) for index in range(len(self.watches))]
        return {
            "slots": {str(slot): self.algorithm.slots[slot].dump() for slot in self.slots.values()},
            "outside": self.reading.outside,
            "told": [[found.good, found.time, found.seq, list(found.id or ())] for found in reported],
            "types": {
                name: pa.schema([(name, type_)]).empty_table() for name, type_ in self.reading.types.items()
            },
        }

    def load(self, blob: dict[str, Any], watches: list[Any], slots: list[int]) -> None:
        self.reading.types = {name: table.schema.field(0).type for name, table in blob["types"].items()}
        self.watches = watches
        self.algorithm.retained = watches[0]._monitor.retain is not None
        self.reading.outside = blob.get("outside", 0)
        self.answers.put([Entries(good, time, seq, id=ids) for good, time, seq, ids in blob["told"]])
        for watch, slot in zip(watches, slots, strict=True):
            watch.group, watch.slot = self, slot
            if (watch.window, watch.beginning) not in self.slots:
                self.slots[watch.window, watch.beginning] = slot
                self.algorithm.put(slot, None if watch.k is not None else -np.inf)
                self.algorithm.slots[slot].load(blob["slots"][str(slot)], self.reading.good)

    def _check(self) -> None:
        self.algorithm._check()
        # every watch has an answer, and a slot of its window
        assert len(self.answers.size) == len(self.watches)
        self.answers._check()
        for watch in self.watches:
            assert self.slots[watch.window, watch.beginning] == watch.slot


class ObjectWatch(Watch):
    """A standing question about objects. Made by `Monitor.watch`."""

    def _shares(self, other: Watched) -> bool:
        return True  # each slot has all rows of its window

    def ranks(self, horizon: Recency) -> int | None:
        """How many ranks are known: all of them where every row's object is kept."""
        return self.k if self.group.algorithm.keeps_all else super().ranks(horizon)

    def _known(self, other: Watched) -> int | None:
        return None if self.group.algorithm.keeps_all else super()._known(other)

    def _tops(self, covered: list[tuple[Recency, int | None, int]]) -> list[pa.Table]:
        return [self._top(slot, ranks, horizon) for horizon, ranks, slot in covered]

    def _top(self, slot: int, ranks: int | None, horizon: Recency) -> pa.Table:
        group: Any = self.group
        objects = group.within(slot, horizon)
        codes, good, _, _ = objects.best(ranks)
        score = (good if group.sign > 0 else np.negative(good)) + 0.0
        rank = np.arange(1, len(codes) + 1, dtype=np.int32)
        columns = [numbers_array(rank), numbers_array(score), pa.nulls(len(codes), pa.int64())]
        return self._named(columns, group.reading.selected(objects, codes))

    def needs(self) -> set[str]:
        return set()  # objects are answered from their totals

    def provided(self) -> set[str]:
        return set()

    def selected(self, top: pa.Table) -> pa.Table:
        group: Any = self.group
        outputs = [output for output, _ in group.reading.outputs]  # of SELECT * too
        names = [output.name for output in outputs]
        own = [i for i, o in enumerate(outputs) if o.name == "score" and o.value == self.query.score]
        columns = top.columns[3:]
        for i in own:
            columns.insert(i, top.column("score"))
        return pa.table(columns, names=names)


def _ids(objects: Objects, codes: Ints) -> list[str]:
    if objects.keys is None or not len(codes):
        return []
    return text_ids(objects.keys.values(codes))


def object_family(query: Grouped | Joined, algorithm: str, options: dict[str, float]) -> tuple[Any, ...]:
    """Queries with equal keys are one family: equal but for k and window."""
    same = replace(query, window=Rows(1))
    if query.k is not None:
        same = replace(same, k=1)
    return same, algorithm, tuple(sorted(options.items()))
