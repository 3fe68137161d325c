"""`watch(df, queries, shards=n)`: a DataFrame's rows for queries that are dealt out to several units.

    rows -> check, hash, prune (tasks) -> number (one task) -> one stateful operator, a key for each unit -> changes

A micro-batch of a DataFrame has no order of its own: its rows are ordered by time and a hash, over all partitions. So
every task sends, beside the rows that units need, two numbers for each of its rows; one task sorts those, and every
row gets its place. Only then a unit can take its rows.

There is no driver to tell the tasks what is late, so the units judge that, each for itself and all alike: every unit
has a *clock*, a monitor that sees no row but counts all, with the windows of all queries. Rows that are pruned though
they are late do no harm: they only ever stand in the way of rows that are older still. Whoever wants all rejected rows
with their text gets them from the first unit, which then has to be sent every row.

Pairs are split by row, as in a pipeline: every unit is sent all rows and keeps its own part of the window, and a pair
belongs to the unit of the row that came first. Grouped queries are split by id: of those with one key each unit has the
ids whose hash falls to it, in a monitor of their own, which is sent their rows and counts all. Each unit tells its best
k of pairs and groups before the micro-batch and after it, and one more task, which keeps nothing, makes changes of them
(`told`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.core import blob
from skyband.core.blob import FORMAT, check_format
from skyband.core.errors import InputError
from skyband.engine.pair_group import PairWatch
from skyband.engine.pruning import Sifted
from skyband.query.expression.nodes import Column
from skyband.query.model import Pairs, TopK
from skyband.stream.arrow import numbers_array
from skyband.stream.batches import read
from skyband.stream.rejects import Reject, raw_text
from skyband.stream.validation import Accepted, accept

from .columns import numbered_columns
from .files import frame, unframe
from .gather import plain
from .hashing import in_order, stable_hash, time_numbers
from .jobs import Packed
from .merging import table_bytes, table_of
from .rejected import RejectFolder
from .routing import Era, Job, routes
from .shards import COUPLES, ROWS, Streams, Unit, kind_of, part_of
from .told import answer_of, changes_of, merged

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.state import GroupState

    from skyband.engine.monitor import Monitor
    from skyband.query.model import Query

_CHUNK_ROWS = 1_000_000
_KEYS = -1  # the line with the two numbers of each row
_CHUNK_COLUMNS = "chunk string, unit bigint, blob binary"
_PART_COLUMNS = (
    "unit bigint, number bigint, blob binary"  # of a unit's parts, which one; a part has a number, too
)
_TOLD_COLUMNS = "unit bigint, number bigint, kind string, query string, blob binary"
_STATE = "state binary"
_NAME = "The state of this query in Spark's checkpoint"


@dataclass(frozen=True)
class Deal:
    """What every task knows."""

    job: Packed
    stream: str
    time: str | None
    folder: RejectFolder | None


def dealt_changes(
    df: DataFrame,
    queries: Mapping[str, Query],
    schema: pa.Schema,
    time: str | None,
    folder: RejectFolder | None,
    shards: int,
    columns: str,
) -> DataFrame:
    """The changes, as `watch` gives them."""
    told, deal = dealt_parts(df, queries, schema, time, folder, shards)
    # Though there are no pairs or groups, too: there may have been some at the last start, and what leaves of them is
    # merged. What comes from a stateful operator in Python can't be shuffled as it is (Spark casts it to rows of
    # another kind and fails): a computed column makes them of that kind.
    told = told.selectExpr("unit", "coalesce(number, 0L) AS number", "kind", "query", "blob")
    return told.repartition(1).mapInArrow(_merge(deal), columns)


def dealt_parts(
    df: DataFrame,
    queries: Mapping[str, Query],
    schema: pa.Schema,
    time: str | None,
    folder: RejectFolder | None,
    shards: int,
) -> tuple[DataFrame, Deal]:
    """What the units tell, each by itself."""
    stream = "s"
    asked = [(name, replace(query, stream=stream)) for name, query in queries.items()]  # type: ignore[arg-type]
    units = []
    for part in range(shards):
        own = [(name, query) for name, query in asked if _has(part, query, shards)]
        units.append(Unit.make(part, ROWS, part, shards, 0, tuple(own), teller=part == 0))
    for kind in dict.fromkeys(kind_of(query) for _, query in asked):
        if kind not in (ROWS, COUPLES):
            same = tuple((name, query) for name, query in asked if kind_of(query) == kind)
            first = len(units)
            units += [Unit.make(first + part, kind, part, shards, 0, same) for part in range(shards)]
    streams = Streams({stream: time} if time is not None else {}, {}, {}, {stream: schema})
    deal = Deal(Packed.of(Job(streams, (Era(0, tuple(units)),), "", 0)), stream, time, folder)
    chunks = numbered_columns(df, schema.names).mapInArrow(_deal_out(deal), _CHUNK_COLUMNS)
    parts = chunks.repartition(1).mapInArrow(_number(shards), _PART_COLUMNS)
    told = parts.groupBy("unit").applyInPandasWithState(
        _stepper(deal), _TOLD_COLUMNS, _STATE, "append", "NoTimeout"
    )
    return told, deal


def _has(part: int, query: Query, shards: int) -> bool:
    """Whether a unit is asked a query about single rows or pairs."""
    kind = kind_of(query)
    return kind == COUPLES or (kind == ROWS and part_of(query, shards) == part)


# -- tasks


def _deal_out(deal: Deal) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def deal_out(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        name = "0" if context is None else str(context.partitionId())
        names = deal.job.get().streams.schemas[deal.stream].names
        for number, rows in enumerate(_chunks(batches)):
            yield lines_of(deal, rows.rename_columns(names), f"{name}.{number}")

    return deal_out


def _chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """A partition's rows, a million at a time."""
    some: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        some.append(batch)
        rows += batch.num_rows
        if rows >= _CHUNK_ROWS:
            yield pa.Table.from_batches(some)
            some, rows = [], 0
    if rows:
        yield pa.Table.from_batches(some)


def lines_of(deal: Deal, rows: pa.Table, chunk: str) -> pa.RecordBatch:
    """What a task sends of some rows: their two numbers, and to each unit its own."""
    job = deal.job.get()
    rows = in_order(rows.combine_chunks(), deal.time)
    raw, count = read(rows)
    found = routes(job, job.eras[0])[deal.stream]
    door = job.streams.monitor().sifter(deal.stream).door
    part = accept(door, raw, count)
    lines = [(_KEYS, _pack_keys(rows, deal.time))]
    for route in found:
        if route.unit.ids:  # all rows are counted in the unit's other part
            own = replace(route.part_of(part, prune=False).accepted(), passed=None)
            lines.append((route.unit.key, Sifted(own).to_bytes()))
            continue
        route = replace(route, counts=True)
        whole = route.unit.teller and deal.folder is not None and deal.time is not None
        sifted = Sifted(part) if whole else route.part_of(part, count >= _many(route.unit))
        lines.append((route.unit.key, _counting(sifted, part).to_bytes()))
    return pa.RecordBatch.from_pydict(
        {
            "chunk": pa.array([chunk] * len(lines), pa.string()),
            "unit": pa.array([key for key, _ in lines], pa.int64()),
            "blob": pa.array([data for _, data in lines], pa.binary()),
        }
    )


def _many(unit: Unit) -> int:
    kept = sum(2 * (getattr(query, "k", 0) or 0) for _, query in unit.queries)
    return max(20_000, 8 * kept)


def _counting(sifted: Sifted, whole: Accepted) -> Sifted:
    """With the times of all rows: any of them may turn out to be late."""
    part = sifted.accepted()
    if part.passed is None:
        return sifted
    position = np.arange(whole.count) if whole.position is None else whole.position
    return Sifted(replace(part, passed=(position, whole.time)))


def _pack_keys(rows: pa.Table, time: str | None) -> bytes:
    """What decides the order: time (rows without one come last), then the hash."""
    keys: dict[str, Any] = {"hash": stable_hash(rows).view(np.int64)}
    if time is not None:
        column = time_numbers(rows.column(time)).combine_chunks()
        keys["none"] = np.asarray(column.is_null()).astype(np.uint8)
        keys["time"] = np.asarray(pc.fill_null(column, 0))
    return blob.to_bytes(keys)


# -- one task


def _number(shards: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def number(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = [row for batch in batches for row in batch.to_pylist()]
        if found:
            yield numbered(found, shards)

    return number


def numbered(lines: list[dict[str, Any]], shards: int) -> pa.RecordBatch:
    """The parts of each unit, whose rows know their places among all rows of the micro-batch."""
    lines = sorted(lines, key=lambda line: (line["chunk"], line["unit"]))
    keys = [blob.from_bytes(line["blob"]) for line in lines if line["unit"] == _KEYS]
    columns = [
        np.concatenate([k[name] for k in keys]) for name in ("hash", "time", "none") if name in keys[0]
    ]
    columns[0] = columns[0].view(np.uint64)
    order = np.lexsort(columns)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    starts = np.cumsum([0, *(len(k["hash"]) for k in keys)])
    parts = []
    numbers = sorted({line["unit"] for line in lines} - {_KEYS})
    for number in numbers:
        own = [Sifted.from_bytes(line["blob"]).accepted() for line in lines if line["unit"] == number]
        moved = [_moved(part, place[a : a + part.count]) for part, a in zip(own, starts, strict=False)]
        parts.append(Sifted(_joined(moved)).to_bytes())
    return pa.RecordBatch.from_pydict(
        {
            "unit": pa.array([number % shards for number in numbers], pa.int64()),
            "number": pa.array(numbers, pa.int64()),
            "blob": pa.array(parts, pa.binary()),
        }
    )


def _moved(part: Accepted, place: npt.NDArray[np.int64]) -> Accepted:
    """A chunk's rows with their places in the whole."""
    position = place if part.position is None else place[part.position]
    passed = (position, part.time) if part.passed is None else (place[part.passed[0]], part.passed[1])
    rejects = [reject._replace(seq=int(place[reject.seq])) for reject in part.rejects]
    return replace(part, position=position, passed=passed, rejects=rejects)


def _joined(parts: list[Accepted]) -> Accepted:
    """Chunks as one part, in order."""
    position = np.concatenate([part.position for part in parts])
    order = np.argsort(position)
    passed = [np.concatenate([p.passed[i] for p in parts if p.passed is not None]) for i in (0, 1)]
    counted = np.argsort(passed[0])
    table = pa.concat_tables([part.table for part in parts]).take(numbers_array(order))
    return Accepted(
        count=sum(part.count for part in parts),
        table=table.combine_chunks(),
        position=position[order],
        time=np.concatenate([part.time for part in parts])[order],
        rejects=sorted(reject for part in parts for reject in part.rejects),
        passed=(passed[0][counted], passed[1][counted]),
        total=sum(part.total for part in parts),
    )


def without_late(part: Accepted, late_before: int | None, stream: str) -> Accepted:
    """A part without the rows that are late; those become rejects, with their text where it is known."""
    if late_before is None or part.passed is None:
        return part
    position, time = part.passed
    late = time < late_before
    if not late.any():
        return part
    assert part.position is not None
    known = {int(p): row for row, p in enumerate(part.position.tolist())}
    why = "older than every window and than what is retained"
    rejects = []
    for at in position[late].tolist():
        raw = raw_text(part.table, known[at]) if at in known else ""
        rejects.append(Reject(at, stream, "late", why, raw))
    kept = np.flatnonzero(part.time >= late_before)
    return replace(
        part,
        table=part.table.take(numbers_array(kept)),
        position=part.position[kept],
        time=part.time[kept],
        passed=(position[~late], time[~late]),
        rejects=sorted([*part.rejects, *rejects]),
        total=part.total - int(np.count_nonzero(late)),
    )


# -- units


class Asked(NamedTuple):
    """What whoever merges the parts of an answer must know of its query."""

    name: str
    k: int | None
    descending: bool
    pairs: bool


@dataclass
class Told:
    """A unit's part of the answer to a query for pairs or groups: `gone` with a query that is asked no more, or before
    a micro-batch, or after it."""

    kind: str
    asked: Asked
    answer: pa.Table

    @classmethod
    def of(cls, kind: str, watch: Any) -> Told:
        query = watch.query
        asked = Asked(watch.name, getattr(query, "k", None), query.descending, isinstance(query, Pairs))
        return cls(kind, asked, answer_of(watch))


@dataclass
class _Held:
    """A unit's state: its monitor, the clock, which of the clock's windows each query is judged by, and a monitor for
    the groups of each key."""

    monitor: Monitor
    clock: Monitor
    windows: dict[str, str]
    objects: dict[str, Monitor]
    queries: str = ""

    def to_bytes(self, unit: Unit) -> bytes:
        header = {
            "format": FORMAT,
            "of": unit.of,
            "windows": self.windows,
            "objects": [*self.objects],
            "queries": self.queries,
        }
        monitors = [self.monitor, self.clock, *self.objects.values()]
        return frame(header, *(monitor.to_bytes() for monitor in monitors))

    def without_queries(self) -> Monitor:
        """A monitor that has counted what this unit has."""
        from skyband.engine.monitor import Monitor

        found = Monitor.from_bytes(self.monitor.to_bytes())
        for name in list(found.watches):
            found.drop(name)
        found.lists_only = True
        return found


def _held(job: Job, unit: Unit, before: bytes | None, batch: int) -> _Held:
    from skyband.engine.monitor import Monitor

    if before is None:
        if batch:
            raise InputError(f"{_NAME} knows no shard {unit.part}: shards= must stay as it began.")
        monitor = job.streams.monitor()
        monitor.share = unit.part, unit.of
        return _Held(monitor, job.streams.monitor(), {}, {})
    found = unframe(before)
    if found is None:
        raise InputError(f"{_NAME} is damaged: start again with an empty checkpoint.")
    header, blobs = found
    check_format(header.get("format", 1), _NAME, ", or start again with an empty checkpoint")
    if header["of"] != unit.of:
        raise InputError(
            f"{_NAME} was begun with shards={header['of']}: that must stay, or start again with an empty checkpoint."
        )
    monitor, clock, *others = (Monitor.from_bytes(data) for data in blobs)
    if any(kind_of(watch.query) not in (ROWS, COUPLES) for watch in monitor.watches.values()):
        raise InputError(f"{_NAME} has all groups in one shard: start again with an empty checkpoint.")
    if monitor.share is None:
        if any(isinstance(watch, PairWatch) for watch in monitor.watches.values()):
            raise InputError(f"{_NAME} has pairs dealt out by query: start again with an empty checkpoint.")
        monitor.share = unit.part, unit.of
    for one in (monitor, clock, *others):
        one.lists_only = True
    objects = dict(zip(header.get("objects", ()), others, strict=True))
    return _Held(monitor, clock, header["windows"], objects, header["queries"])


def step_unit(
    deal: Deal, key: int, parts: Mapping[int, bytes], before: bytes | None, batch: int
) -> tuple[bytes, list[pa.Table], list[Reject], list[Told]]:
    """One unit's micro-batch: its state afterwards, its changes, what was rejected, its part of pairs and groups."""
    from .stateful import ask

    job = deal.job.get()
    era = job.eras[0]
    unit = era.units[key]
    objects = {other.kind: other for other in era.units if other.ids and other.part == unit.part}
    held = _held(job, unit, before, batch)
    asked = {name: query for unit in era.units for name, query in unit.queries}
    digest = "".join(unit.digest for unit in era.units)
    left: list[pa.Table] = []
    told: list[Told] = []
    if held.queries != digest:
        told = _gone(held.monitor, dict(unit.queries))
        left = ask(held.monitor, dict(unit.queries))
        told += _set_objects(held, objects)
        _set_clock(held, asked, deal)
        held.queries = digest
    first = held.monitor.rows_seen
    rejects: list[Reject] = []
    changes = []
    if key in parts:
        late = held.clock.sifter(deal.stream).door.late_before
        part = without_late(Sifted.from_bytes(parts[key]).accepted(), late, deal.stream)
        none = np.empty(0, dtype=np.int64)
        silent = replace(part, table=part.table.slice(0, 0), position=none, time=none, rejects=[])
        held.clock.push_sifted([(deal.stream, [Sifted(silent)])])
        whole = _push(held.monitor, deal.stream, part, told)
        changes = [_others(whole, [watch.name for watch in held.monitor.watches.values() if _split(watch)])]
        for kind, monitor in held.objects.items():
            own = Sifted.from_bytes(parts[objects[kind].key]).accepted()
            _push(monitor, deal.stream, _beside(part, own, late), told)
        rejects = [reject._replace(seq=first + reject.seq) for reject in part.rejects]
    return held.to_bytes(unit), [*left, *changes], rejects, told


def _split(watch: Any) -> bool:
    """Whether a unit has a part of the answer only."""
    return kind_of(watch.query) != ROWS


def _push(monitor: Monitor, stream: str, part: Accepted, told: list[Told]) -> pa.Table:
    """Let a monitor have its rows; its parts of answers, before and after, are told."""
    watches = [watch for watch in monitor.watches.values() if _split(watch)]
    told += [Told.of("before", watch) for watch in watches]
    changes = monitor.push_sifted([(stream, [Sifted(part)])])
    told += [Told.of("after", watch) for watch in watches]
    monitor._rejects.last.clear()
    return changes


def _beside(whole: Accepted, own: Accepted, late_before: int | None) -> Accepted:
    """The rows of a unit's groups, among all that are counted."""
    kept = np.arange(len(own.time)) if late_before is None else np.flatnonzero(own.time >= late_before)
    assert own.position is not None
    table = own.table.take(numbers_array(kept))
    return replace(whole, table=table, position=own.position[kept], time=own.time[kept])


def _gone(monitor: Monitor, asked: Mapping[str, Query]) -> list[Told]:
    """Drop the pairs and groups that are asked no more, or otherwise."""
    found = []
    for name, watch in list(monitor.watches.items()):
        if _split(watch) and asked.get(name) != watch.query:
            found.append(Told.of("gone", watch))
            monitor.drop(name)
    return found


def _set_objects(held: _Held, units: Mapping[str, Unit]) -> list[Told]:
    """Let there be a monitor for the groups of each key that is asked for."""
    from .stateful import ask

    told = []
    for kind, monitor in list(held.objects.items()):
        told += _gone(monitor, dict(units[kind].queries) if kind in units else {})
        if kind not in units:
            del held.objects[kind]
    for kind, unit in units.items():
        if kind not in held.objects:
            held.objects[kind] = held.without_queries()
        ask(held.objects[kind], dict(unit.queries))
    return told


def _others(changes: pa.Table, names: list[str]) -> pa.Table:
    """The changes of all queries but these."""
    if not names or not changes.num_rows:
        return changes
    query = changes.column("query").cast(pa.string())
    return changes.filter(pc.invert(pc.is_in(query, pa.array(names, pa.string()))))


def _set_clock(held: _Held, asked: Mapping[str, Query], deal: Deal) -> None:
    """Let the clock have a window for every query: queries that are asked at the same time share one."""
    windows = {name: known for name, known in held.windows.items() if name in asked}
    new: dict[str, str] = {}
    if deal.time is not None:
        for name, query in asked.items():
            text = str(query.window)
            known = windows.get(name)
            if known is None or json.loads(known)[0] != text:
                windows[name] = new.setdefault(text, json.dumps([text, held.clock.rows_seen]))
    for name in list(held.clock.watches):
        if name not in windows.values():
            held.clock.drop(name)
    for name in dict.fromkeys(windows.values()):
        if name not in held.clock.watches:
            assert deal.time is not None
            window = next(asked[query].window for query, known in windows.items() if known == name)
            score = Column(deal.time)
            held.clock.watch(TopK(deal.stream, (), score, True, 1, window), name=name)
    held.windows = windows


def _stepper(deal: Deal) -> Callable[[Any, Iterator[pd.DataFrame], GroupState], Iterator[pd.DataFrame]]:
    def step(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        import pandas as pd

        from skyband.stream.rejects import to_table

        from .rejected import task_batch
        from .stateful import tell

        parts = {
            int(number): blob
            for rows in frames
            for number, blob in zip(rows["number"], rows["blob"], strict=True)
        }
        before = bytes(state.get[0]) if state.exists else None
        after, tables, rejects, told = step_unit(deal, int(key[0]), parts, before, task_batch()[0])
        if int(key[0]) == 0 and deal.folder is not None:
            deal.folder.put(to_table(rejects), first=before is None)
        elif int(key[0]) == 0:
            tell(rejects)
        state.update((after,))
        lines = [("changes", "", table_bytes(table)) for table in tables if table.num_rows]
        for one in told:
            lines.append((one.kind, json.dumps(one.asked), table_bytes(one.answer)))
        if lines:
            numbered_lines = [(int(key[0]), number, *line) for number, line in enumerate(lines)]
            yield pd.DataFrame(numbered_lines, columns=["unit", "number", "kind", "query", "blob"])

    return step


# -- one more task


def _merge(deal: Deal) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        lines = [row for batch in batches for row in batch.to_pylist()]
        tables, told = [], []
        for line in sorted(lines, key=lambda line: (line["unit"], line["number"])):
            table = table_of(line["blob"])
            if line["kind"] == "changes":
                tables.append(plain(table))
            else:
                told.append(Told(line["kind"], Asked(*json.loads(line["query"])), table))
        known = deal.job.get().streams.schemas[deal.stream]
        time = pa.timestamp("us", "UTC") if deal.time is None else known.field(deal.time).type
        for table in leaves_first([*merged_changes(deal, told), *tables]):
            if table.num_rows:
                at = table.schema.get_field_index("time")
                yield from table.set_column(at, "time", table.column(at).cast(time)).to_batches()

    return merge


def leaves_first(tables: list[pa.Table]) -> list[pa.Table]:
    """Changes in an order in which they can be folded: a query that is another now may have moved to another unit."""
    leave = [pc.equal(table.column("change"), "leave") for table in tables]
    left = [table.filter(own) for table, own in zip(tables, leave, strict=True)]
    return left + [table.filter(pc.invert(own)) for table, own in zip(tables, leave, strict=True)]


def merged_changes(deal: Deal, told: list[Told]) -> list[pa.Table]:
    """The changes of pairs and groups, from all units' parts of their answers."""
    time: tuple[Any, pa.DataType] = deal.job.get().streams.monitor()._time_type()
    if deal.time is None:
        time = None, time[1]
    found = []
    for gone in (True, False):
        for asked in dict.fromkeys(one.asked for one in told if (one.kind == "gone") is gone):
            parts: dict[str, list[pa.Table]] = {"gone": [], "before": [], "after": []}
            for one in told:
                if one.asked == asked:
                    parts[one.kind].append(one.answer)
            old, new = ("gone", []) if gone else ("before", parts["after"])
            answers = merged(parts[old], asked.k)[0], merged(new, asked.k)[0]
            sign = 1.0 if asked.descending else -1.0
            found.append(changes_of(asked.name, *answers, sign, time, asked.pairs))
    return found
