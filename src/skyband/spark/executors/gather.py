"""The driver's part of a batch whose state is with the executors: many units' lines become one output.

Units of single rows report finished changes; of objects and pairs they report their parts of the answers, which are
merged here (`partial`). Answers that have not changed are not sent again: the driver remembers them for the `top`
output, and the first batch after a start has all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.query.model import Joined, Pairs
from skyband.spark.driver.shown import Slices
from skyband.spark.session.progress import StreamNow
from skyband.spark.sinks import TOP_SCHEMA, without_codes
from skyband.stream.arrow import numbers_array
from skyband.stream.notices import Notice

from .frames import make_frame
from .merging import table_of
from .partial import changes_of, merged
from .shards import Streams

if TYPE_CHECKING:
    from skyband.core.types import Ints
    from skyband.query.model import Query

Asked = tuple[tuple[str, "Query"], ...]


class Gather:
    """Puts together what units report, batch after batch."""

    def __init__(self, streams: Streams) -> None:
        monitor = streams.monitor()
        self._time = monitor._time_type()
        self._timed: set[str | None] = {*streams.time}
        self._empty = without_codes(monitor._report.table([], self._time))
        self.tops = Slices()
        self._shown = Slices()

    def changes(self, reports: Reports, before: Asked, now: Asked) -> pa.Table:
        """The changes of all units in one table, in the order of the queries; those no longer asked come first."""
        tables = [table_of(blob) for blob in reports.blobs("changes")]
        queries = {**dict(before), **dict(now)}
        for name in dict.fromkeys([*reports.names("gone"), *reports.names("before")]):
            tables += self._merged(name, reports, dict(before).get(name), dict(now).get(name))
        asked = [name for name, _ in now]
        names = dict.fromkeys([*_others(queries, asked), *asked])
        order = {name: place for place, name in enumerate(names)}
        whole = pa.concat_tables([self._empty, *map(without_codes, tables)])
        places = np.concatenate([np.zeros(0, dtype=np.int64), *(_places(table, order) for table in tables)])
        return whole.take(numbers_array(np.argsort(places, kind="stable")))

    def _merged(self, name: str, reports: Reports, before: Query | None, now: Query | None) -> list[pa.Table]:
        """The changes of a query that several units answer together; one that is another now is two, and who answered
        the old one may not be asked the new one."""
        gone, old, new = (
            [table_of(blob) for blob in reports.blobs(kind, name)] for kind in ("gone", "before", "after")
        )
        found = [] if before is None else [self._compared(name, before, gone, [])]
        return found if now is None else [*found, self._compared(name, now, old, new)]

    def _compared(self, name: str, query: Query, old: list[pa.Table], new: list[pa.Table]) -> pa.Table:
        k = getattr(query, "k", None)
        sign = 1.0 if query.descending else -1.0
        timed = isinstance(query, Joined) or query.stream in self._timed
        time = self._time if timed else (None, self._time[1])
        pairs = isinstance(query, Pairs)
        return changes_of(name, merged(old, k)[0], merged(new, k)[0], sign, time, pairs)

    def answers(self, reports: Reports, now: Asked) -> pa.Table:
        """The `top` output: answers that were sent replace older ones."""
        asked = dict(now)
        for name in reports.names("top"):
            tops, shown = ([table_of(b) for b in reports.blobs(kind, name)] for kind in ("top", "shown"))
            parts = [table_of(blob) for blob in reports.blobs("after", name)]
            _, order = merged(parts, getattr(asked[name], "k", None))
            for known, parts in ((self.tops, tops), (self._shown, shown)):
                whole = _ranked(parts, order)
                known.put([name], [whole.num_rows], whole)
        for (names, sizes, tops), (_, _, rows) in zip(
            reports.together("tops"), reports.together("rows shown"), strict=True
        ):
            self.tops.put(names, sizes, tops)
            self._shown.put(names, sizes, _shown(names, sizes, tops, rows))
        for known in (self.tops, self._shown):
            for name in [name for name in known if name not in asked]:
                known.forget(name)
        # Queries are dealt out by a hash: most pieces are an answer or two, too small to be written one by one.
        return pa.concat_tables([TOP_SCHEMA.empty_table(), *self._shown.joined(asked)]).combine_chunks()


def _places(changes: pa.Table, order: dict[str, int]) -> Ints:
    """Where changes belong among those of all queries. A query that is another now may have moved from one unit to
    another: its leaves still come first."""
    query, change = (_coded(changes.column(name)) for name in ("query", "change"))
    ranks = np.array([2 * order[name] for name in query.dictionary.to_pylist()], dtype=np.int64)
    enters = np.array([kind == "enter" for kind in change.dictionary.to_pylist()], dtype=np.int64)
    places: Ints = ranks[np.asarray(query.indices)] + enters[np.asarray(change.indices)]
    return places


def _coded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    whole = column.combine_chunks()
    return whole if pa.types.is_dictionary(column.type) else whole.dictionary_encode()


def _shown(names: list[str], sizes: list[int], tops: pa.Table, rows: pa.Table) -> pa.Table:
    """Answers in the columns of the `top` output, from the answers and the texts of their rows."""
    owners = pa.array(names, pa.string()).take(pa.array(np.repeat(np.arange(len(names)), sizes)))
    columns = [owners, *tops.columns[:2], rows.column("row")]
    return pa.table(columns, names=TOP_SCHEMA.names).cast(TOP_SCHEMA).combine_chunks()


def _others(queries: Iterable[str], asked: list[str]) -> list[str]:
    there = set(asked)
    return [name for name in queries if name not in there]


def _ranked(parts: list[pa.Table], order: Any) -> pa.Table:
    """The rows of several answers in their common order, with their ranks in it."""
    full = [part for part in parts if part.num_rows] or parts[:1]
    whole = pa.concat_tables(full, promote_options="permissive").take(pa.array(order, pa.int64()))
    at = whole.schema.get_field_index("rank")
    return whole.set_column(at, "rank", pa.array(range(1, whole.num_rows + 1), pa.int32()))


class Reports:
    """What all units have reported of a batch."""

    def __init__(self, lines: pa.Table) -> None:
        self._found: dict[tuple[str, str | None], list[bytes]] = {}
        for line in sorted(lines.to_pylist(), key=lambda line: (line["unit"], line["number"])):
            self._found.setdefault((line["kind"], line["query"]), []).append(line["blob"])
        self._frames = [json.loads(blob) for blob in self.blobs("frame")]

    def blobs(self, kind: str, name: str | None = None) -> list[bytes]:
        return self._found.get((kind, name), [])

    def names(self, kind: str) -> list[str]:
        return [name for found, name in self._found if found == kind and name is not None]

    def together(self, kind: str) -> Iterator[tuple[list[str], list[int], pa.Table]]:
        """Tables that travelled as one: the queries' names, how many rows each has, the rows."""
        for known in self.names(kind):
            for blob in self.blobs(kind, known):
                names, sizes = json.loads(known)
                yield names, sizes, table_of(blob).combine_chunks()

    def frame(self) -> dict[str, Any]:
        """How far back all queries reach, and what the reporting unit has counted."""
        reach = {name: value for frame in self._frames for name, value in frame["reach"].items()}
        reporter = next(frame for frame in self._frames if "tasks" in frame)
        return make_frame(reach, reporter["now"], reporter["kind"], reporter["rows"])

    def count(self, what: str) -> int:
        return sum(int(frame[what]) for frame in self._frames)

    def tasks(self) -> tuple[tuple[str, int], ...]:
        return tuple((host, pid) for frame in self._frames for host, pid in frame.get("tasks", ()))

    def notices(self) -> list[Notice]:
        """What was hardly meant in the batch."""
        return [Notice(*values) for frame in self._frames for values in frame.get("notices", ())]

    def streams(self) -> dict[str, StreamNow]:
        """Where each stream stands."""
        found = (one for frame in self._frames for one in frame.get("streams", {}).items())
        return {name: StreamNow(*values) for name, values in found}

    def waiting(self) -> dict[str, int]:
        """How many rows of each stream wait."""
        return {name: rows for frame in self._frames for name, rows in frame.get("waiting", {}).items()}

    def rejects(self) -> pa.Table:
        return table_of(self.blobs("rejects")[0])

    def reject_counts(self) -> dict[str, int]:
        return dict(json.loads(self.blobs("counts")[0]))
