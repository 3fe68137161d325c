"""Who keeps what, where the work is done by the executors.

A *unit* is a part of the work that has its own state, kept by Spark under one key. Queries about single rows (top-k,
threshold) are dealt out whole: each belongs to one of its kind's units, by a hash of what it asks. Grouped and joined
objects are split: each unit has those ids whose hash falls to it and all queries of its kind, and the driver merges
their answers. Pairs are split, too: every unit sees all rows and keeps its own part of the window, by seq, and a pair
belongs to the unit of the row that came first (pairs/sharded_scase.py). An update stream may end any row, so everything
about it is one unit. (Pairs were once dealt out by query; a checkpoint that was begun so goes on so.)

How many units there are is written down with the checkpoint. The number for single rows may change at a start: units
of a new *epoch*, with new keys, take over the state of the old ones (`handover`). A key is chosen so that Spark's own
hash puts it where we want it: units go round the state's partitions, and none of those does the work of two while
another is idle.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.spark.config import Pipeline, QuerySpec
from skyband.spark.jvm.files import read_json, write_json
from skyband.spark.jvm.paths import Place

if TYPE_CHECKING:
    from skyband.engine.monitor import Monitor
    from skyband.query.model import Query

ROWS, PAIRS, COUPLES, UPDATES = "rows", "pairs", "pairs by row", "updates"
_QUERIES = 250  # so many queries are worth a unit of their own
_PARTS = 1 << 12  # more of one kind there are not
_EPOCHS = 1 << 10
_TRIES = 1 << 16


@dataclass(frozen=True)
class Unit:
    """A part of the work with a state of its own."""

    key: int  # what Spark knows it by
    kind: str
    part: int
    of: int
    epoch: int
    queries: tuple[tuple[str, Query], ...]
    reporter: bool = False  # the one that reports what all units know: rejects, row counts
    digest: str = ""  # says whether two units have the same queries

    @property
    def whole(self) -> bool:
        """Whether its answers need no merging."""
        return self.kind in (ROWS, PAIRS, UPDATES)

    @property
    def ids(self) -> tuple[str, ...]:
        """The columns whose values say which unit has a row; none: it isn't said by values."""
        return tuple(json.loads(self.kind)["key"]) if self.kind.startswith("{") else ()

    @property
    def share(self) -> tuple[int, int] | None:
        """Of pairs, which part it has, and of how many."""
        return (self.part, self.of) if self.kind == COUPLES else None

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams whose objects these are."""
        return tuple(json.loads(self.kind)["streams"]) if self.kind.startswith("{") else ()

    @classmethod
    def make(
        cls,
        key: int,
        kind: str,
        part: int,
        of: int,
        epoch: int,
        queries: tuple[tuple[str, Query], ...],
        reporter: bool = False,
    ) -> Unit:
        return cls(key, kind, part, of, epoch, queries, reporter, _digest(repr(queries)))


@dataclass(frozen=True)
class Layout:
    """How many units there are of each kind, and in which epoch they were made."""

    partitions: int
    kinds: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # how many, epoch

    def to_json(self) -> dict[str, Any]:
        kinds = {kind: list(pair) for kind, pair in self.kinds.items()}
        return {"partitions": self.partitions, "kinds": kinds}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Layout:
        return cls(record["partitions"], {kind: (pair[0], pair[1]) for kind, pair in record["kinds"].items()})

    @property
    def epoch(self) -> int:
        """The last one."""
        return max(epoch for _, epoch in self.kinds.values())

    def units(self, queries: Iterable[tuple[str, Query]]) -> tuple[Unit, ...]:
        """The units, each with its queries. They are there whether or not they have any: they count rows."""
        asked = list(queries)
        found: list[Unit] = []
        for kind, (of, epoch) in sorted(self.kinds.items(), key=_rows_first):
            own = [(name, query) for name, query in asked if self.kind_of(query) == kind]
            for part in range(of):
                mine = [(n, q) for n, q in own if kind not in (ROWS, PAIRS) or part_of(q, of) == part]
                key = key_of(kind, epoch, part, self.partitions)
                found.append(Unit.make(key, kind, part, of, epoch, tuple(mine), reporter=not found))
        return tuple(found)

    def kind_of(self, query: Query) -> str:
        if UPDATES in self.kinds:
            return UPDATES
        kind = kind_of(query)
        return PAIRS if kind == COUPLES and PAIRS in self.kinds else kind


def kind_of(query: Query) -> str:
    """How the work of a query is split."""
    from skyband.query.model import Grouped, Joined, Pairs

    if isinstance(query, Pairs):
        return COUPLES
    if isinstance(query, Grouped | Joined):
        streams = query.streams if isinstance(query, Joined) else (query.stream,)
        key = query.key if isinstance(query, Grouped) else (query.key,)
        return json.dumps({"streams": list(streams), "key": list(key)})
    return ROWS


def plan_layout(
    pipeline: Pipeline, queries: Iterable[tuple[str, Query]], cores: int, before: Layout | None
) -> Layout:
    """The layout for these queries; `before` is what the checkpoint has, and stays as far as it can."""
    asked = [query for _, query in queries]
    if any(stream.key is not None for stream in pipeline.streams):
        return before or Layout(1, {UPDATES: (1, 0)})
    single = sum(kind_of(query) == ROWS for query in asked)
    wanted = pipeline.spark.shards
    rows = wanted or max(1, min(cores, -(-single // _QUERIES)))
    parts = wanted or max(1, cores)
    kind = kind_of if before is None else before.kind_of
    kinds = list(dict.fromkeys([ROWS, *(kind(query) for query in asked)]))
    count = {kind: rows if kind == ROWS else parts for kind in kinds}
    if before is None:
        partitions = max(1, min(sum(count.values()), cores))
        return Layout(partitions, {kind: (n, 0) for kind, n in count.items()})
    epoch = 1 + before.epoch
    if wanted is None:
        rows = max(rows, before.kinds[ROWS][0])  # fewer are not asked for
    now = {kind: before.kinds.get(kind, (count[kind], epoch)) for kind in kinds}
    if rows != before.kinds[ROWS][0]:
        now[ROWS] = (rows, epoch)
    return Layout(before.partitions, now)


class LayoutLog:
    """Which layout holds from which batch on, in the checkpoint."""

    def __init__(self, own: Place) -> None:
        self._path = own / "shards.json"

    def at(self, batch: int) -> Layout | None:
        """The layout in force at a batch."""
        found = None
        for record in self._records():
            if record["from"] <= batch:
                found = Layout.from_json(record)
        return found

    def set(self, first: int, layout: Layout) -> None:
        """Let a layout hold from batch `first` on."""
        records = [record for record in self._records() if record["from"] < first]
        if not records or Layout.from_json(records[-1]) != layout:
            records.append({"from": first, **layout.to_json()})
        write_json(self._path, records)

    def _records(self) -> list[dict[str, Any]]:
        return read_json(self._path) or []


@dataclass(frozen=True)
class Streams:
    """What a unit's monitor must know of the streams."""

    time: Mapping[str, str]
    key: Mapping[str, str]
    op: Mapping[str, str]
    schemas: Mapping[str, pa.Schema]
    time_unit: Mapping[str, str] | None = None
    max_ahead: Mapping[str, str] | None = None

    @classmethod
    def of(cls, pipeline: Pipeline, schemas: Mapping[str, pa.Schema]) -> Streams:
        given = pipeline.monitor_options()
        time, key, op = (given[name] or {} for name in ("time", "key", "op"))
        return cls(time, key, op, dict(schemas), given["time_unit"], given["max_ahead"])

    def monitor(self) -> Monitor:
        from skyband.engine.monitor import Monitor

        monitor = Monitor(
            time=self.time or None,
            schema=dict(self.schemas),
            key=self.key or None,
            op=self.op or None,
            time_unit=self.time_unit,
            max_ahead=self.max_ahead,
        )
        monitor.lists_only = True
        return monitor


def bound_queries(queries: Iterable[QuerySpec], pipeline: Pipeline) -> tuple[tuple[str, Query], ...]:
    """The queries by name, each about the stream that it means."""
    from skyband.spark.driver.engine import bound

    return tuple((query.name, bound(query, pipeline)) for query in queries)


def part_of(query: Query, of: int) -> int:
    """Which of so many units has a query about single rows. Queries of one score and predicate are together: they
    share their state."""
    where = getattr(query, "where", None)
    text = f"{query.score!r} {where!r} {query.descending!r}"
    return int(_digest(text)[:12], 16) * of >> 48


def key_of(kind: str, epoch: int, part: int, partitions: int) -> int:
    """A key for a unit; the parts of a kind go round Spark's partitions."""
    number = 0 if kind == ROWS else int(_digest(kind)[:6], 16)
    first = ((number * _PARTS + part) * _EPOCHS + epoch % _EPOCHS) * _TRIES
    wanted = (number + part) % partitions
    return next(key for key in range(first, first + _TRIES) if murmur(key) % partitions == wanted)


def _rows_first(item: tuple[str, Any]) -> tuple[bool, str]:
    return item[0] != ROWS, item[0]


def murmur(value: int) -> int:
    """Spark's hash of a bigint (32 bits of Murmur3, seed 42), as a number that may be negative."""
    h = 42
    for word in (value & 0xFFFFFFFF, (value >> 32) & 0xFFFFFFFF):
        k = word * 0xCC9E2D51 & 0xFFFFFFFF
        k = (k << 15 | k >> 17) & 0xFFFFFFFF
        h ^= k * 0x1B873593 & 0xFFFFFFFF
        h = (h << 13 | h >> 19) & 0xFFFFFFFF
        h = (h * 5 + 0xE6546B64) & 0xFFFFFFFF
    h ^= 8
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    h ^= h >> 16
    return h - (1 << 32) if h >= 1 << 31 else h


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
