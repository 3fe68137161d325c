"""Several streams as one, for queries about objects whose attributes arrive in all of them.

A joined query is asked of no single stream: its rows are the rows of all, in one order of recency, and a window of n
rows is that of the n most recent among them. So there is a stream to which no rows are pushed. It counts what its
members accept, knows where windows over all of them begin, and after each step shows the members' rows to its families,
each with the number of its stream. A member that falls silent costs nothing: its rows leave with the window.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from skyband.core.exchange import Changes
from skyband.core.types import LOWEST, Ints, Recency
from skyband.engine.aggregate_inputs import reading_of
from skyband.engine.protocol import NONE_DELETED, Arrived, Family, Host, Step
from skyband.engine.stream_runtime import Stream
from skyband.query.model import Joined, Rows
from skyband.stream.schema import known_type
from skyband.stream.windows import Recencies, Runs


class Joint(Stream):
    """The rows of several streams in one order."""

    def __init__(self, monitor: Host, members: tuple[str, ...], time: str | None) -> None:
        super().__init__(monitor, name_of(members), time, None)
        self.members = members
        self._came: list[tuple[Ints, Ints, int]] = []  # times and seqs accepted in this step, and how many

    def streams(self) -> list[Stream]:
        return [self.monitor.streams[name] for name in self.members if name in self.monitor.streams]

    def check(self, query: Any) -> None:
        assert isinstance(query, Joined)
        known = [self.monitor.streams.get(name) for name in self.members]
        reading_of(query).check([None if stream is None else stream.schema for stream in known])

    def keys(self) -> set[str]:
        """Return the columns that identify the objects."""
        queries: list[Any] = [watch.query for watch in self.watches]
        return {query.key for query in queries}

    def types_of(self, name: str) -> set[pa.DataType]:
        """Return the types of a column in the members of which it is known."""
        schemas = (stream.schema for stream in self.streams())
        return {s.field(name).type for s in schemas if s is not None and known_type(s, name)}

    def has_updates(self) -> bool:
        return any(stream.has_updates() for stream in self.streams())

    # -- windows -------------------------------------------------------------------------------------------

    def collect(self, time: Ints, seq: Ints, total: int) -> None:
        """A member has accepted rows."""
        self._came.append((time, seq, total))

    def _count_all(self) -> None:
        """The rows of a step in one order of arrival."""
        time, seq = (
            np.concatenate(arrays) for arrays in zip(*(came[:2] for came in self._came), strict=True)
        )
        order = np.argsort(seq)
        self.count(time[order], seq[order], sum(total for _, _, total in self._came))
        self._came = []

    def newest(self) -> Recency:
        return max([self.recencies.newest(), *(stream.newest() for stream in self.streams())])

    def known_from(self) -> Recency:
        if self.monitor.retain is None:
            newest = self.newest()
            return LOWEST if newest == LOWEST else newest.after()
        return max((stream.known_from() for stream in self.streams()), default=LOWEST)

    def beginning(self) -> Recency:
        """With the oldest retained row of any member from which on all members' rows are, or after the newest row."""
        known = self.known_from()
        starts = [stream.retained.start(known) for stream in self.streams()]
        newest = self.newest()
        nothing = LOWEST if newest == LOWEST else newest.after()
        return min((start for start in starts if start is not None), default=nothing)

    def _changed(self) -> None:
        """All members retain their last n rows: together they may know more of them than one does."""
        super()._changed()
        for stream in self.streams():
            stream._named_columns = None
        retain = self.monitor.retain
        if isinstance(retain, Rows):
            self.row_limit = max(self.row_limit, retain.n * len(self.members))

    def _recall(self, rows: int) -> None:
        """Retained rows of the members may be older than this, or than its row windows."""
        log = self.recencies
        if self.monitor.retain is None or (log.total if isinstance(log, Runs) else len(log)) >= rows:
            return
        known = self.known_from()
        parts = [stream.retained.recencies(known) for stream in self.streams()]
        time, seq = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        order = np.lexsort((seq, time))
        if isinstance(log, Recencies):
            if len(seq) > len(log):
                log.begin_with(time[order], seq[order])
            log.complete_from = min(log.complete_from, known)
        elif len(seq) > log.total:  # made after rows had come
            self.recencies = Runs()
            self.recencies.add(time[order], seq[order])

    def oldest_needed(self) -> Recency:
        """No window over all members begins before it."""
        begun: dict[Any, Recency] = {}
        for watch in self.watches:
            begun[watch.window] = max(begun.get(watch.window, LOWEST), watch.beginning)
        return min(self._full_from(window, beginning) for window, beginning in begun.items())

    def refill(self, watch: Any) -> None:
        retain = self.monitor.retain
        if retain is None:
            return
        for number, stream in enumerate(self.streams()):
            batch = stream.retained.batch(stream.horizon(retain))
            if batch is not None:
                watch.group.refill(watch.slot, batch, number)

    # -- a step --------------------------------------------------------------------------------------------

    def step_all(self, arrived: Arrived) -> list[tuple[Family, Changes]]:
        """Show a step's rows to each family; what changed."""
        if self._came:
            self._count_all()
        if not self.watches:
            return []
        horizons = {window: self.horizon(window) for window in self._windows}
        parts = [arrived.get(name, (None, NONE_DELETED)) for name in self.members]
        batches = [(number, batch) for number, (batch, _) in enumerate(parts) if batch is not None]
        time, seq = (
            np.concatenate(arrays) for arrays in zip(*(deleted for _, deleted in parts), strict=True)
        )
        return self._run(Step(batches, None, horizons, (time, seq)))


def name_of(members: tuple[str, ...]) -> str:
    """Names of streams are free, so this one can't be any stream's."""
    return "\0".join(members)
