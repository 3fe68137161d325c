"""Sifting: a stream's door and pruning as plain data, to run where the rows are.

A row with k better, no earlier expiring rows in its own part of a batch has them in the whole stream: it can be
dropped where it lies. So each part of a large batch is reduced to its k-skyband for every query, in Spark's
executors or anywhere, and only those rows travel. What windows must count travels with them: how many rows were
accepted, the newest of them, and all their times where row windows on a stream with a time column need them.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.algorithms import CARDS
from skyband.core import blob
from skyband.core.types import Floats, Ints
from skyband.engine.batch_filter import FEWEST_QUERIES, Family, Gate
from skyband.engine.row_group import Group, family
from skyband.query.model import Query, Rows
from skyband.query.serialise import from_dict, to_dict
from skyband.stream.arrow import numbers_array
from skyband.stream.batches import Batch, Forward, read
from skyband.stream.rejects import Reject
from skyband.stream.validation import Accepted, Door, accept

if TYPE_CHECKING:
    from skyband.engine.stream_runtime import Stream

Asked = tuple[tuple[str, int, str], ...]
"""Queries as JSON, each with its greatest k and its algorithm."""


@dataclass
class Sifted:
    """One part of a step's rows of one stream, validated and perhaps pruned."""

    part: Accepted
    odd: Sequence[tuple[str, str, str]] = ()  # notices of columns: kind, column and hint

    @property
    def count(self) -> int:
        """Rows in this part, rejects included."""
        return self.part.count

    @property
    def kept(self) -> int:
        """Rows that travel."""
        return int(self.part.table.num_rows)

    def accepted(self) -> Accepted:
        return self.part

    def to_bytes(self) -> bytes:
        """Return it as bytes, without what follows from the rest: that would be most of them."""
        part = self.part
        content: dict[str, Any] = {
            "count": part.count,
            "total": part.total,
            "table": part.table,
            "rejects": [list(reject) for reject in part.rejects],
        }
        if self.odd:
            content["odd"] = [list(each) for each in self.odd]
        if part.codes is not None:
            content["codes"] = part.codes
        if part.time.any():
            content["time"] = part.time
        if part.position is not None and (part.codes is not None or len(part.position) < part.total):
            content["position"] = part.position
        if part.passed is not None:
            position, time = part.passed
            content["passed"] = len(position)
            if isinstance(position, range):
                content["run"] = True
            elif len(position) < part.total:
                content["passed_position"] = position
            if time.any():
                content["passed_time"] = time
        return blob.to_bytes(content)

    @classmethod
    def from_bytes(cls, data: bytes) -> Sifted:
        content = blob.from_bytes(data)
        rejects = [Reject(*values) for values in content["rejects"]]
        run = "run" in content  # all rows in a row, and no times: millions of them need no arrays
        every = None
        if rejects or ("passed" in content and not run):  # all positions but the rejects'
            every = np.delete(np.arange(content["count"]), [reject.seq for reject in rejects])
        kept = content["table"].num_rows
        passed: tuple[Any, Any] | None = None
        if run:
            passed = range(content["passed"]), np.broadcast_to(np.int64(0), content["passed"])
        elif "passed" in content:
            time = content.get("passed_time", np.zeros(content["passed"], dtype=np.int64))
            assert every is not None
            passed = content.get("passed_position", every), time
        return cls(
            Accepted(
                count=content["count"],
                table=content["table"],
                position=content.get("position", every),
                time=content.get("time", np.zeros(kept, dtype=np.int64)),
                rejects=rejects,
                passed=passed,
                total=content["total"],
                codes=content.get("codes"),
            ),
            [(kind, column, hint) for kind, column, hint in content.get("odd", ())],
        )


@dataclass(frozen=True)
class Gates:
    """What the newest rows of a batch imply for its older ones: those must reach some query's bar."""

    each: tuple[
        tuple[Group, Gate | None], ...
    ]  # of each family; None: it takes every row that its predicate does
    edge: int | None  # with event times: only rows no newer than this are older than those behind the bars


@dataclass(frozen=True)
class Sifter:
    """What an executor needs to know to sift a stream's rows at one step."""

    door: Door
    queries: Asked
    columns: tuple[str, ...] | None  # those that must travel; None: all
    counts_rows: bool  # row windows on a stream with a time column need every time
    can_prune: bool
    named: frozenset[str] = (
        frozenset()
    )  # the columns that queries name, and those of times, keys and operations

    @classmethod
    def of(cls, stream: Stream) -> Sifter:
        wanted: dict[str, tuple[int, str]] = {}
        for watch in stream.watches:
            text = _text(watch.query)
            k, _ = wanted.get(text, (0, ""))
            # what an approximate algorithm drops must be on its record: only the dominated rows may stay behind
            exact = CARDS[watch.group.algorithm_name].exact
            wanted[text] = (max(k, watch.capacity), watch.group.algorithm_name if exact else "ra")
        used = {name for group in stream.groups for name in group.used}
        used |= {name for watch in stream.watches for name in watch.needs()}
        if stream.time is not None:
            used.add(stream.time)
        monitor = stream.monitor
        return cls(
            door=stream.door(),
            queries=tuple((text, k, algorithm) for text, (k, algorithm) in wanted.items()),
            columns=tuple(sorted(used)),
            named=stream.named_columns(),
            counts_rows=stream.time is not None and any(isinstance(w.window, Rows) for w in stream.watches),
            # an index keeps every row of the window, as pairs and objects do; in an update stream and in a joined
            # one no row makes another superfluous
            can_prune=monitor.retain is None
            and not stream.joints()
            and stream.updates is None
            and (stream.time is None or stream.max_ahead is None)
            and all(isinstance(group, Group) and not group.windowed for group in stream.groups),
        )

    def sift(
        self, table: Any, prune: bool = False, text: Mapping[int, tuple[str, str]] | None = None
    ) -> Sifted:
        """Validate rows in order of arrival, and drop those that can never be in an answer if `prune`.

        `text` has, by position, what is wrong with rows that could not be parsed, and their raw text.
        """
        raw, rows = read(table)
        part = accept(self.door, raw, rows, text)
        return self.pruned(part) if prune and self.can_prune else Sifted(part)

    def pruned(self, part: Accepted) -> Sifted:
        """Return what was accepted without the rows that can never be in an answer."""
        older = part.table.num_rows - _HEAD
        if older < 3 * _HEAD or part.position is not None or part.passed is not None:
            return Sifted(self._pruned(part)[0])
        # Most of a large part meets the gates of its newest rows, block by block: little is copied.
        kept, gates = self.opened(_cut(part, older, part.count))
        whole = joined([self.thinned(_cut(part, 0, older), gates), kept])
        return Sifted(whole if whole.table.num_rows < _FEW else self._pruned(whole)[0])

    def opened(self, part: Accepted, threads: int = 1) -> tuple[Accepted, Gates]:
        """Return the newest rows of a batch pruned, and the gates that they are before rows that came earlier."""
        known = families(self.queries)
        for one in known:
            one.threads = threads
        timed = self.door.time is not None
        kept, bars = self._pruned(part, tell=not timed)
        edge = edge_of(part) if timed else None
        if edge is not None:
            backing = np.flatnonzero(kept.time >= edge)
            assert kept.position is not None
            at = kept.position[backing], kept.time[backing]
            newer = Batch(kept.table.take(numbers_array(backing)), *at, timed)
            bars = [one.bars(newer) for one in known]
        some = max(0, part.table.num_rows - _SAMPLE)
        rows = np.arange(some, part.table.num_rows)
        sample = Batch(part.table.slice(some), rows, part.time[some:], timed)
        return kept, Gates(
            tuple((one.group, _gate(one, own, sample)) for one, own in zip(known, bars, strict=True)), edge
        )

    def thinned(self, part: Accepted, gates: Gates) -> Accepted:
        """Return what was accepted without the rows that no gate lets pass. It writes to nothing that others use."""
        n = part.table.num_rows
        found = [self._passing(part, gates, at, min(at + _BLOCK, n)) for at in range(0, n, _BLOCK)]
        position = np.arange(n) if part.position is None else part.position
        rows = np.concatenate(found) if found else np.empty(0, dtype=np.int64)
        return self._only(part, Batch(part.table, position, part.time, self.door.time is not None), rows)

    def _passing(self, part: Accepted, gates: Gates, first: int, stop: int) -> Ints:
        """Return which of some rows a gate lets pass."""
        time = part.time[first:stop]
        block = Forward(part.table.slice(first, stop - first), time, time)
        mark = np.zeros(len(time), dtype=np.uint8)
        for group, gate in gates.each:
            rows = group.arrivals(block, mark)
            mark[rows.place if gate is None else rows.place[gate.passing(rows)]] = 1
        if gates.edge is not None:
            mark[time > gates.edge] = 1
        return first + np.flatnonzero(mark)

    def _pruned(self, part: Accepted, tell: bool = False) -> tuple[Accepted, list[Floats | None]]:
        """Return a part pruned and, if asked, each family's bars that it leaves."""
        n = part.table.num_rows
        position = np.arange(n) if part.position is None else part.position
        batch = Batch(part.table, position, part.time)
        mark = np.zeros(n, dtype=np.uint8)
        bars = [one.insert(batch, mark, tell) if n else None for one in families(self.queries)]
        return self._only(part, batch, batch.arrived(mark)), bars

    def _only(self, part: Accepted, batch: Batch, rows: Any) -> Accepted:
        """Return some rows of a part, with what windows must know of the others."""
        wanted = set(self.columns or ())
        table = part.table.select([name for name in part.table.column_names if name in wanted])
        position, passed = batch.seq_arrived, part.passed
        if passed is None and self.door.time is None:  # all accepted positions follow from the rejects
            whole = part.position is None
            passed = (range(part.count), np.broadcast_to(np.int64(0), part.count)) if whole else None
        if passed is None:
            every = self.counts_rows or self.door.time is None
            passed = (position, part.time) if every else (batch.seq[:1], batch.time[:1])
        kept = table.take(numbers_array(rows)).combine_chunks()
        return replace(part, table=kept, position=position[rows], time=part.time[rows], passed=passed)


_HEAD = 262_144  # the newest rows of a large part
_FEW = 65_536  # to prune so many takes as long as to let the engine have them
_BLOCK = 16_384  # rows that are scored at once: their columns stay in the processor's caches
_SAMPLE = 16_384  # rows that show what rows are like
_STRAGGLERS = 0.1  # of the newest rows to come: those with earlier times than the others, which back no bar


def _gate(family: Family, bars: Floats | None, sample: Batch) -> Gate | None:
    """A gate of whichever kind there is."""
    if bars is None:
        return None
    found = family.gate(bars, sample, FEWEST_QUERIES - 1)
    return found if found is not None else family.gate(bars, sample, len(bars))


def edge_of(part: Accepted) -> int:
    """Return the time from which on rows of a part back a bar: but for stragglers, all of them."""
    if not len(part.time):
        return int(np.iinfo(np.int64).min)
    at = int(_STRAGGLERS * len(part.time))
    return int(np.partition(part.time, at)[at])


def _cut(part: Accepted, first: int, stop: int) -> Accepted:
    """Return some consecutive rows of a part that has all its rows."""
    return replace(
        part, count=stop - first, total=stop - first, table=part.table.slice(first, stop - first),
        time=part.time[first:stop],
    )  # fmt: skip


def joined(parts: Sequence[Accepted]) -> Accepted:
    """Consecutive parts, all of them without some rows, as one."""
    before = np.concatenate([[0], np.cumsum([part.count for part in parts])]).tolist()
    positions, rejects = [], []
    passed: list[tuple[Any, Any]] = []
    for part, start in zip(parts, before, strict=False):
        assert part.position is not None and part.passed is not None
        positions.append(part.position + start)
        rejects += [reject._replace(seq=start + reject.seq) for reject in part.rejects]
        passed.append((part.passed[0], part.passed[1]))
    count = before[-1]
    if all(isinstance(position, range) for position, _ in passed):
        counted: tuple[Any, Any] = range(count), np.broadcast_to(np.int64(0), count)
    else:
        counted = (
            np.concatenate(
                [np.asarray(position) + start for (position, _), start in zip(passed, before, strict=False)]
            ),
            np.concatenate([time for _, time in passed]),
        )
    return Accepted(
        count=count,
        table=pa.concat_tables([part.table for part in parts]),
        position=np.concatenate(positions),
        time=np.concatenate([part.time for part in parts]),
        rejects=rejects,
        passed=counted,
        total=sum(part.total for part in parts),
    )


_TEXTS: dict[int, tuple[Query, str]] = {}  # by the query's identity, which lasts as long as it is here


def _text(query: Query) -> str:
    """Return what of a query decides about rows, as JSON; a thousand of them are asked for at every step."""
    known = _TEXTS.get(id(query))
    if known is None or known[0] is not query:
        if len(_TEXTS) >= 65_536:
            _TEXTS.clear()
        known = query, json.dumps(to_dict(replace(query, options=(), select=())))
        _TEXTS[id(query)] = known
    return known[1]


_FAMILIES: OrderedDict[Asked, list[Family]] = OrderedDict()
_BUILDING = threading.Lock()


def families(queries: Asked) -> list[Family]:
    """Return the queries' families. Building a thousand queries takes longer than sifting a hundred thousand rows for
    them, so their builder keeps them."""
    with _BUILDING:
        return _families(queries)


def _families(queries: Asked) -> list[Family]:
    known = _FAMILIES.get(queries)
    if known is None:
        groups: dict[Any, Group] = {}
        for text, k, algorithm in queries:
            query: Query = from_dict(json.loads(text))
            key = family(query, algorithm, {})  # type: ignore[arg-type]
            if key not in groups:
                groups[key] = Group(query, algorithm, {})  # type: ignore[arg-type]
            groups[key].open(query, k)  # type: ignore[arg-type]
        known = _FAMILIES[queries] = [Family(group) for group in groups.values()]
        while len(_FAMILIES) > 64:
            _FAMILIES.popitem(last=False)
    return known
