"""The brute force that `skyband verify` compares with: keep the window, sort it.

It shares the parser of queries, the evaluation of expressions and the rule of the rows that wait with the engine, and
none of what makes the engine quick: no skybands, no shared state, no pruning. Rows that lie outside every window are
forgotten, so that a long history fits into memory. What an answer is, kind by kind, is in `brute_answers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.core.types import MINIMUM
from skyband.files.rows import Chunk
from skyband.query.model import Joined, Last, Query
from skyband.stream import clock
from skyband.stream.batches import flat
from skyband.stream.rejects import raw_text
from skyband.stream.schema import fit
from skyband.stream.updates import DATA, DELETE, UNREAD, Updates, keyless, operations
from skyband.stream.validation import Accepted
from skyband.stream.waiting import Waiting, judge

from .brute_answers import Part, Ranked, answer

__all__ = ["Brute", "Ranked", "Unfit"]

Ints = npt.NDArray[np.int64]
_BEFORE = (-(2**63), -1)  # older than any row


class Unfit(NamedTuple):
    """A row that doesn't fit by itself, as `rejects` has it."""

    reason: str
    stream: str
    raw: str


@dataclass
class _Stream:
    """The rows of a stream that some window may still see."""

    name: str
    schema: pa.Schema
    time: str | None
    kind: clock.Kind | None
    table: pa.Table
    seq: Ints
    times: Ints
    updates: Updates | None = None
    max_ahead: Last | None = None
    waiting: Waiting = field(default_factory=Waiting)  # rows that are stamped far ahead
    latest: int | None = None  # the latest time taken
    newest: tuple[int, int] = _BEFORE
    live: dict[Any, int] = field(default_factory=dict)  # of an update stream: the seq of each key's live row
    gone: set[int] = field(default_factory=set)  # rows that were replaced or deleted


@dataclass(frozen=True)
class _Watch:
    query: Query
    streams: tuple[str, ...]
    beginning: tuple[int, int]


class Brute:
    """Streams and queries answered by sorting."""

    def __init__(
        self,
        schemas: Mapping[str, pa.Schema],
        times: Mapping[str, str | None],
        updates: Mapping[str, tuple[str | None, str | None]] | None = None,
        units: Mapping[str, clock.Kind | None] | None = None,
        ahead: Mapping[str, Last | None] | None = None,
    ) -> None:
        self._streams: dict[str, _Stream] = {}
        for name, schema in schemas.items():
            time = times.get(name)
            unit = (units or {}).get(name)
            kind = clock.kind_of(schema.field(time).type, time, unit) if time is not None else None
            none = np.zeros(0, np.int64)
            key, op = (updates or {}).get(name, (None, None))
            special = None if key is None else Updates(key, op)
            limit = (ahead or {}).get(name)
            self._streams[name] = _Stream(
                name, schema, time, kind, schema.empty_table(), none, none, special, limit
            )
        self._watches: dict[str, _Watch] = {}
        self._now: int | None = None
        self._next = 0
        # the rows of the last step, by their seqs, that have no type, no time, no key or no operation
        self.unfit: dict[int, Unfit] = {}

    def watch(self, name: str, query: Query) -> None:
        """Ask from now on."""
        if isinstance(query, Joined):
            streams = query.streams
        else:
            only = next(iter(self._streams))
            streams = (query.stream if query.stream in self._streams else only,)
        beginning = max(self._streams[stream].newest for stream in streams)
        self._watches[name] = _Watch(query, streams, beginning)

    def drop(self, name: str) -> None:
        """Ask no more."""
        del self._watches[name]

    def push(self, rows: list[tuple[str, Chunk]]) -> None:
        """Take the rows of one step, and those that have waited long enough."""
        self.unfit = {}
        first = self._next
        arriving: list[tuple[_Stream, list[Accepted]]] = []
        for name, chunk in rows:
            stream = self._streams[name]
            if not arriving or arriving[-1][0] is not stream:
                arriving.append((stream, []))
            arriving[-1][1].append(self._read(stream, chunk))
        kind = next((stream.kind for stream in self._streams.values() if stream.kind is not None), None)
        judged = judge([*arriving], self._streams.values(), self._now, kind, first)
        base = first
        for stream, parts in judged.take():
            for part in parts:
                self._take(stream, part, base)
                base += part.count
        if judged.jumped is not None:
            self._now = judged.jumped if self._now is None else max(self._now, judged.jumped)
        for name, stream in self._streams.items():
            self._forget(name, stream)

    def _take(self, stream: _Stream, part: Accepted, base: int) -> None:
        """Keep the rows of a part; `base` is the seq of its first row."""
        for reject in part.rejects:
            self.unfit[base + reject.seq] = Unfit(reject.reason, stream.name, reject.raw)
        assert part.position is not None
        seq, times, table = base + part.position, part.time, part.table
        if stream.time is not None:
            latest = int(times.max(initial=MINIMUM))  # a delete may have a time, and moves now
            if latest > MINIMUM:
                self._now = latest if self._now is None else max(self._now, latest)
                stream.latest = latest if stream.latest is None else max(stream.latest, latest)
        if part.codes is not None:
            self._update(stream, table, seq, part.codes)
            kept = part.codes == DATA
            seq, times, table = seq[kept], times[kept], table.filter(pa.array(kept))
        if not len(seq):
            return
        stream.table = pa.concat_tables([stream.table, table])
        stream.seq = np.concatenate([stream.seq, seq])
        stream.times = np.concatenate([stream.times, times])
        last = np.lexsort((seq, times))[-1]
        stream.newest = max(stream.newest, (int(times[last]), int(seq[last])))

    def top(self, name: str, with_rows: bool = False) -> list[Ranked]:
        """An answer, best first."""
        watch = self._watches[name]
        parts = []
        for stream, inside in zip(watch.streams, self._window(watch), strict=True):
            held = self._streams[stream]
            if held.gone:  # it has kept its place in the window
                inside = inside[[int(seq) not in held.gone for seq in held.seq[inside]]]
            order = inside[np.lexsort((held.seq[inside], held.times[inside]))]
            parts.append(Part(stream, held.table.take(pa.array(order)), held.times[order], held.seq[order]))
        found = answer(watch.query, parts, with_rows)
        if isinstance(watch.query, Joined) or self._streams[watch.streams[0]].time is not None:
            return found
        return [replace(ranked, time=None) for ranked in found]

    def _read(self, stream: _Stream, chunk: Chunk) -> Accepted:
        """Number the rows; leave out those that don't fit. Late ones can do no harm and stay."""
        bad = {row.position: row.raw for row in chunk.bad}
        places = np.array([p for p in range(chunk.count) if p not in bad], np.int64)
        seq = self._next + places
        self.unfit.update({self._next + at: Unfit("type", stream.name, raw) for at, raw in bad.items()})
        self._next += chunk.count
        table, misfits = fit(
            dict(zip(chunk.table.column_names, chunk.table.columns, strict=True)), len(seq), stream.schema
        )
        good = np.ones(len(seq), bool)

        def reject(wrong: Any, reason: str) -> None:
            for at in np.flatnonzero(wrong & good).tolist():
                self.unfit[int(seq[at])] = Unfit(reason, stream.name, raw_text(chunk.table, at))
            good[wrong] = False

        reject(np.isin(np.arange(len(seq)), list(misfits)), "type")
        codes = None if stream.updates is None else np.full(len(seq), DATA, np.uint8)
        if stream.updates is not None and codes is not None and len(seq):
            if stream.updates.op is not None:
                codes = operations(flat(table.column(stream.updates.op)))
                reject(codes == UNREAD, "op")
            reject(keyless(flat(table.column(stream.updates.key))), "key")
        times = np.zeros(len(seq), np.int64)
        if stream.time is not None and stream.kind is not None and len(seq):
            times, missing = clock.keys_of(flat(table.column(stream.time)), stream.kind)
            reject(missing if codes is None else missing & (codes != DELETE), "time")
            times = np.where(missing, MINIMUM, times)
        return Accepted(
            count=chunk.count,
            table=table.filter(pa.array(good)),
            position=places[good],
            time=times[good],
            rejects=[],
            total=int(good.sum()),
            codes=None if codes is None else codes[good],
        )

    def _update(self, stream: _Stream, table: pa.Table, seq: Ints, codes: Any) -> None:
        """Row by row in order of arrival: the last one of a key lives, if it is no delete."""
        assert stream.updates is not None
        keys = table.column(stream.updates.key).to_pylist()
        for at in range(len(keys)):
            before = stream.live.pop(keys[at], None)
            if before is not None:
                stream.gone.add(before)
            if codes[at] != DELETE:
                stream.live[keys[at]] = int(seq[at])

    def _window(self, watch: _Watch) -> list[Ints]:
        """Positions of the rows in a watch's window, stream by stream; a row window counts those of all."""
        held = [self._streams[name] for name in watch.streams]
        time, seq = watch.beginning
        inside = [(s.times > time) | ((s.times == time) & (s.seq > seq)) for s in held]
        window = watch.query.window
        if isinstance(window, Last):
            if self._now is None or held[0].kind is None:
                return [np.zeros(0, np.int64) for _ in held]
            horizon = clock.minus(self._now, window.nanoseconds, held[0].kind)
            inside = [there & (s.times >= horizon) for there, s in zip(inside, held, strict=True)]
        else:
            times = np.concatenate([s.times[there] for there, s in zip(inside, held, strict=True)])
            seqs = np.concatenate([s.seq[there] for there, s in zip(inside, held, strict=True)])
            newest = seqs[np.lexsort((seqs, times))[-window.n :]]
            inside = [there & np.isin(s.seq, newest) for there, s in zip(inside, held, strict=True)]
        return [np.flatnonzero(there) for there in inside]

    def _forget(self, name: str, stream: _Stream) -> None:
        keep = np.zeros(len(stream.seq), bool)
        for watch in self._watches.values():
            if name in watch.streams:
                keep[self._window(watch)[watch.streams.index(name)]] = True
        if keep.sum() <= len(keep) // 2:  # not at every step: copying costs more than looking
            stream.table = stream.table.filter(pa.array(keep)).combine_chunks()
            stream.seq, stream.times = stream.seq[keep], stream.times[keep]
            stream.gone &= {*stream.seq.tolist()}
