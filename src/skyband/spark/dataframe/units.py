"""One unit's micro-batch: its state, its rows, what that did to its answers.

With one unit (`shards=1`) the state is a monitor with all queries, and its changes are the answer. With more, the
queries about single rows are dealt out to units; every unit has its own part of the pairs (those whose first row it
keeps, by seq); grouped and joined queries are split by id, with a monitor of its own for the queries of each key. Such
a unit reports its best k of pairs and groups before the micro-batch and after it, and `merge` makes changes of them.

There is no driver that knows which rows are late. So each of several units has a *clock*: a monitor that counts all
rows and keeps none, with the windows of all queries. All units judge alike.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.core.blob import FORMAT, OtherFormat, check_format
from skyband.core.errors import InputError
from skyband.engine.pair_group import PairWatch
from skyband.engine.pruning import Sifted
from skyband.query.expression.nodes import Call, Column, Expression
from skyband.query.model import Joined, Pairs, Query, TopK
from skyband.spark.driver.engine import drop
from skyband.spark.executors.merging import table_bytes
from skyband.spark.executors.partial import answer_of
from skyband.spark.executors.routing import Job
from skyband.spark.executors.shards import (
    COUPLES,
    ROWS,
    Streams,
    Unit,
    kind_of,
)
from skyband.spark.jvm.files import frame, unframe
from skyband.spark.sinks import without_codes
from skyband.stream.arrow import numbers_array
from skyband.stream.rejects import Reject, to_table
from skyband.stream.validation import Accepted

from .rejected import task_batch
from .tasks import (
    Deal,
    Part,
    numbered,
    without_late,
)

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.state import GroupState

    from skyband.engine.monitor import Monitor

LINE_COLUMNS = "unit bigint, number bigint, kind string, query string, blob binary"
STATE = "state binary"
STATE_ALONE = "monitor binary"
NAME = "The state of this query in Spark's checkpoint"
_AGAIN = ", or start again with an empty checkpoint"

log = logging.getLogger("skyband")


class Asked(NamedTuple):
    """What a merge of the parts of an answer must know of its query."""

    name: str
    k: int | None
    descending: bool
    pairs: bool


@dataclass
class PartOfAnswer:
    """A unit's part of the answer to a query for pairs or groups: of a query that was dropped ("gone"), or before the
    micro-batch, or after it; the last with the selected columns where those are wanted."""

    kind: str
    asked: Asked
    answer: pa.Table
    shown: pa.Table | None = None

    @classmethod
    def of(cls, kind: str, watch: Any, schema: pa.Schema | None = None) -> PartOfAnswer:
        query = watch.query
        asked = Asked(watch.name, getattr(query, "k", None), query.descending, isinstance(query, Pairs))
        shown = shown_answer(watch, schema) if schema is not None and kind == "after" else None
        return cls(kind, asked, answer_of(watch), shown)


@dataclass
class Step:
    """What a unit's micro-batch came to."""

    state: bytes = b""
    changes: list[pa.Table] = field(default_factory=list)
    answers: list[pa.Table] = field(default_factory=list)  # whole ones, where those are wanted
    parts: list[PartOfAnswer] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)

    def lines(self, key: int) -> list[tuple[int, int, str, str, bytes]]:
        """Return it as lines for `merge`."""
        found = [("changes", "", table_bytes(table)) for table in self.changes if table.num_rows]
        found += [("answers", "", table_bytes(table)) for table in self.answers if table.num_rows]
        for part in self.parts:
            found.append((part.kind, json.dumps(part.asked), table_bytes(part.answer)))
            if part.shown is not None:
                found.append(("shown", json.dumps(part.asked), table_bytes(part.shown)))
        return [(key, number, *line) for number, line in enumerate(found)]


def step_unit(deal: Deal, key: int, parts: Sequence[Part], before: bytes | None, batch: int) -> Step:
    """Take one unit's rows of a micro-batch."""
    return _step_alone(deal, parts, before) if deal.shards == 1 else _step(deal, key, parts, before, batch)


# -- one unit


def restored(state: bytes) -> Monitor:
    """Return the monitor of a single unit after the last micro-batch."""
    from skyband.engine.monitor import Monitor

    try:
        return Monitor.from_bytes(state)
    except OtherFormat as other:
        raise OtherFormat(other.found, NAME, _AGAIN) from None


def first_monitor(deal: Deal) -> Monitor:
    """Return the monitor of a single unit before the first micro-batch."""
    from skyband.engine.monitor import Monitor

    streams: Streams = deal.job.get().streams
    if not deal.free:
        return streams.monitor()
    ((name, schema),) = streams.schemas.items()
    return Monitor(time=streams.time.get(name), schema=schema)


def _step_alone(deal: Deal, parts: Sequence[Part], before: bytes | None) -> Step:
    monitor = first_monitor(deal) if before is None else restored(before)
    monitor.lists_only = not deal.keep_all  # tasks prune
    left = ask(monitor, deal.queries)
    step, first, rows = Step(), monitor.rows_seen, []
    for part in sorted(parts, key=lambda part: [*deal.job.get().streams.schemas].index(part.stream)):
        name = None if deal.free else part.stream
        door = monitor.sifter(name).door
        own = without_late(part.rows, door.late_before, door.stream)
        step.rejects += [r._replace(seq=first + r.seq, stream=door.stream) for r in own.rejects]
        first += own.count
        rows.append((name, [Sifted(own)]))
    changes = monitor.push_sifted(rows) if rows else monitor.no_changes()
    _report(step, monitor, [*left, changes], deal.shown)
    step.state = monitor.to_bytes()
    return step


def ask(monitor: Monitor, queries: Mapping[str, Query]) -> list[pa.Table]:
    """Make the monitor watch these queries and no others; return the leaves of those that it drops."""
    left: list[pa.Table] = []
    for name in list(monitor.watches):
        if name not in queries or monitor.watches[name].query != queries[name]:
            left.append(drop(monitor, name))
    for name, query in queries.items():
        if name not in monitor.watches:
            monitor.watch(query, name=name)
    return left


def _report(step: Step, monitor: Monitor, changes: list[pa.Table], shown: pa.Schema | None) -> None:
    """Add the changes of whole answers to a step, or the answers themselves where those are wanted."""
    if shown is None:
        step.changes += changes
        return
    enters: Counter[str] = Counter()
    leaves: Counter[str] = Counter()
    for table in changes:
        pairs = zip(table.column("query").to_pylist(), table.column("change").to_pylist(), strict=True)
        for name, change in pairs:
            (enters if change == "enter" else leaves)[name] += 1
    for name in dict.fromkeys([*leaves, *enters]):
        watch = monitor.watches.get(name)
        answer = shown.empty_table() if watch is None else shown_answer(watch, shown)
        step.answers += [answer, vacated(name, answer.num_rows, leaves[name] - enters[name], shown)]


def shown_answer(watch: Any, schema: pa.Schema) -> pa.Table:
    """Return a watch's answer in the columns of `schema`: query, rank, score, and those that queries select."""
    top = watch.top()
    known = dict(zip(_shown_names(watch), _shown_columns(watch, top), strict=True))
    known |= {"rank": top.column("rank"), "score": top.column("score")}
    known["query"] = pa.array([watch.name] * top.num_rows, pa.string())
    columns = [
        known[f.name].cast(f.type) if f.name in known else pa.nulls(top.num_rows, f.type) for f in schema
    ]
    return pa.table(columns, schema=schema)


def shown_schema(watch: Any, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
    """Return the names and types of a watch's selected columns."""
    columns = _shown_columns(watch, watch.top())
    outputs = [output for output in _outputs(watch) if not _is_score(watch, output)]
    types = [column.type for column in columns]
    for number, output in enumerate(outputs):
        if pa.types.is_null(types[number]):  # of objects, while there are none
            types[number] = _type_of(output.value, watch.query.key, schemas)
    return pa.schema([*zip(_shown_names(watch), types, strict=True)])


def _type_of(value: Expression, key: str | tuple[str, ...], schemas: Mapping[str, pa.Schema]) -> pa.DataType:
    """Return the type of a column of objects: that of a key, of a count, or of what is calculated."""
    if isinstance(value, Column) and value.name in ((key,) if isinstance(key, str) else key):
        return next(s.field(value.name).type for s in schemas.values() if value.name in s.names)
    return (
        pa.int64() if isinstance(value, Call) and value.name == "count" and not value.args else pa.float64()
    )


def _shown_names(watch: Any) -> list[str]:
    """Return the names of a watch's selected columns, none of which is query, rank or score."""
    names: list[str] = []
    for name in (output.name for output in _outputs(watch) if not _is_score(watch, output)):
        while name in ("query", "rank", "score", *names):
            name += "_1"
        names.append(name)
    return names


def _shown_columns(watch: Any, top: pa.Table) -> list[Any]:
    own = [not _is_score(watch, output) for output in _outputs(watch)]
    return [column for column, keep in zip(watch.selected(top).columns, own, strict=True) if keep]


def _is_score(watch: Any, output: Any) -> bool:
    return bool(output.name == "score" and output.value == watch.query.score)


def _outputs(watch: Any) -> list[Any]:
    reading = getattr(watch.group, "reading", None)
    return [output for output, _ in reading.outputs] if reading is not None else [*watch.outputs()]


def vacated(query: str, size: int, fewer: int, schema: pa.Schema) -> pa.Table:
    """Return rows for the ranks that an answer has no longer: their score and columns are null."""
    ranks = range(size + 1, size + max(0, fewer) + 1)
    known = {"query": pa.array([query] * len(ranks), pa.string()), "rank": pa.array(ranks, pa.int32())}
    return pa.table([known.get(f.name, pa.nulls(len(ranks), f.type)) for f in schema], schema=schema)


# -- one of several units


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
        """Return a monitor that has counted the rows that this unit has."""
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
            raise InputError(f"{NAME} knows no shard {unit.part}: shards= must stay as it began.")
        monitor = job.streams.monitor()
        monitor.share = unit.part, unit.of
        return _Held(monitor, job.streams.monitor(), {}, {})
    found = unframe(before)
    if found is None:
        raise InputError(f"{NAME} is damaged: start again with an empty checkpoint.")
    header, blobs = found
    check_format(header.get("format", 1), NAME, _AGAIN)
    if header["of"] != unit.of:
        raise InputError(
            f"{NAME} was begun with shards={header['of']}: that must stay, or start again with an empty checkpoint."
        )
    monitor, clock, *others = (Monitor.from_bytes(data) for data in blobs)
    if any(kind_of(watch.query) not in (ROWS, COUPLES) for watch in monitor.watches.values()):
        raise InputError(f"{NAME} has all groups in one shard: start again with an empty checkpoint.")
    if monitor.share is None:
        if any(isinstance(watch, PairWatch) for watch in monitor.watches.values()):
            raise InputError(f"{NAME} has pairs dealt out by query: start again with an empty checkpoint.")
        monitor.share = unit.part, unit.of
    for one in (monitor, clock, *others):
        one.lists_only = True
    objects = dict(zip(header.get("objects", ()), others, strict=True))
    return _Held(monitor, clock, header["windows"], objects, header["queries"])


def _step(deal: Deal, key: int, parts: Sequence[Part], before: bytes | None, batch: int) -> Step:
    job = deal.job.get()
    era, streams = job.eras[0], [*job.streams.schemas]
    unit = era.units[key]
    objects = {other.kind: other for other in era.units if other.ids and other.part == unit.part}
    held = _held(job, unit, before, batch)
    asked = {name: query for unit in era.units for name, query in unit.queries}
    digest = "".join(unit.digest for unit in era.units)
    step = Step()
    left: list[pa.Table] = []
    if held.queries != digest:
        step.parts = _gone(held.monitor, dict(unit.queries))
        left = ask(held.monitor, dict(unit.queries))
        step.parts += _set_objects(held, objects)
        _set_clock(held, asked, deal)
        held.queries = digest
    first = held.monitor.rows_seen
    found = {(part.number, part.stream): part.rows for part in parts}
    here = [stream for stream in streams if (key, stream) in found]
    late = {stream: held.clock.sifter(stream).door.late_before for stream in here}
    rows = {stream: without_late(found[key, stream], late[stream], stream) for stream in here}
    changes = []
    if here:
        held.clock.push_sifted([(stream, [Sifted(_silent(part))]) for stream, part in rows.items()])
        whole = _push(held.monitor, rows, step, deal.shown)
        changes = [_others(whole, [watch.name for watch in held.monitor.watches.values() if _split(watch)])]
        for kind, monitor in held.objects.items():
            own = {
                stream: _beside(rows[stream], found[objects[kind].key, stream], late[stream])
                for stream in here
            }
            _push(monitor, own, step, deal.shown)
    for part in rows.values():
        step.rejects += [reject._replace(seq=first + reject.seq) for reject in part.rejects]
        first += part.count
    _report(step, held.monitor, [*left, *changes], deal.shown)
    step.state = held.to_bytes(unit)
    return step


def _silent(part: Accepted) -> Accepted:
    """Return a part that is counted, without its rows."""
    none = np.empty(0, dtype=np.int64)
    return replace(part, table=part.table.slice(0, 0), position=none, time=none, rejects=[])


def _split(watch: Any) -> bool:
    """Return whether a unit has only a part of the answer."""
    return kind_of(watch.query) != ROWS


def _push(monitor: Monitor, rows: Mapping[str, Accepted], step: Step, shown: pa.Schema | None) -> pa.Table:
    """Push rows; add the monitor's parts of answers, before and after, to the step."""
    watches = [watch for watch in monitor.watches.values() if _split(watch)]
    step.parts += [PartOfAnswer.of("before", watch) for watch in watches]
    changes = monitor.push_sifted([(stream, [Sifted(part)]) for stream, part in rows.items()])
    step.parts += [PartOfAnswer.of("after", watch, shown) for watch in watches]
    monitor._rejects.last.clear()
    return changes


def _beside(whole: Accepted, own: Accepted, late_before: int | None) -> Accepted:
    """Return the rows of a unit's groups, among all that are counted."""
    kept = np.arange(len(own.time)) if late_before is None else np.flatnonzero(own.time >= late_before)
    assert own.position is not None
    table = own.table.take(numbers_array(kept))
    return replace(whole, table=table, position=own.position[kept], time=own.time[kept])


def _gone(monitor: Monitor, asked: Mapping[str, Query]) -> list[PartOfAnswer]:
    """Drop the pairs and groups that are not asked any more, or otherwise; return what they leave."""
    found = []
    for name, watch in list(monitor.watches.items()):
        if _split(watch) and asked.get(name) != watch.query:
            found.append(PartOfAnswer.of("gone", watch))
            monitor.drop(name)
    return found


def _set_objects(held: _Held, units: Mapping[str, Unit]) -> list[PartOfAnswer]:
    """Keep a monitor for the groups of each key that is asked for; return what dropped queries leave."""
    found = []
    for kind, monitor in list(held.objects.items()):
        found += _gone(monitor, dict(units[kind].queries) if kind in units else {})
        if kind not in units:
            del held.objects[kind]
    for kind, unit in units.items():
        if kind not in held.objects:
            held.objects[kind] = held.without_queries()
        ask(held.objects[kind], dict(unit.queries))
    return found


def _others(changes: pa.Table, names: list[str]) -> pa.Table:
    """Return the changes of all queries but these."""
    if not names or not changes.num_rows:
        return changes
    query = changes.column("query").cast(pa.string())
    return changes.filter(pc.invert(pc.is_in(query, pa.array(names, pa.string()))))


def _set_clock(held: _Held, asked: Mapping[str, Query], deal: Deal) -> None:
    """Give the clock a window for every query: queries that begin together share one."""
    timed = deal.job.get().streams.time
    windows = {name: known for name, known in held.windows.items() if name in asked}
    for name, query in asked.items() if timed else ():
        text = str(query.window)
        about = [] if deal.free else [*query.streams] if isinstance(query, Joined) else [query.stream]
        known = json.loads(windows[name]) if name in windows else None
        if known is None or [known[0], *known[2:]] != [text, *about]:
            windows[name] = json.dumps([text, held.clock.rows_seen, *about])
    for name in list(held.clock.watches):
        if name not in windows.values():
            held.clock.drop(name)
    for known, name in {known: name for name, known in windows.items()}.items():
        if known not in held.clock.watches:
            query = asked[name]
            if not isinstance(query, Joined):  # of a joined one the window is over all of its streams
                assert query.stream is not None
                query = TopK(query.stream, (), Column(timed[query.stream]), True, 1, query.window)
            held.clock.watch(query, name=known)
    held.windows = windows


# -- in Spark


def stepper(deal: Deal) -> Callable[[Any, Iterator[pd.DataFrame], GroupState], Iterator[pd.DataFrame]]:
    """Return the stateful function: one call is one unit's micro-batch."""

    def step(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        rows = [row for frame in frames for row in frame.to_dict("records")]
        before = bytes(state.get[0]) if state.exists else None
        number = int(key[0])
        found = step_unit(deal, number, parts_of(deal, rows), before, task_batch()[0])
        if number == 0 and deal.folder is not None:
            deal.folder.put(to_table(found.rejects), first=before is None)
        elif number == 0:
            warn(found.rejects)
        state.update((found.state,))
        if deal.shards == 1 and deal.shown is None:
            yield from (pandas_of(table) for table in found.changes if table.num_rows)
        elif lines := found.lines(number):
            import pandas as pd

            yield pd.DataFrame(lines, columns=["unit", "number", "kind", "query", "blob"])

    return step


def step_all(deal: Deal) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for `mapInArrow` that takes all rows of a batch DataFrame as one step."""

    def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [row for batch in batches for row in batch.to_pylist()]
        keys = [0] if deal.shards == 1 else sorted({row["unit"] for row in rows})
        for key in keys if rows else ():
            own = rows if deal.shards == 1 else [row for row in rows if row["unit"] == key]
            found = step_unit(deal, key, parts_of(deal, own), None, 0)
            if key == 0:
                warn(found.rejects)
            lines = found.lines(key)
            names = [name.split()[0] for name in LINE_COLUMNS.split(", ")]
            columns = [pa.array(values) for values in zip(*lines, strict=True)]
            if columns:
                yield pa.RecordBatch.from_arrays([*columns[:4], columns[4].cast(pa.binary())], names=names)

    return step


def parts_of(deal: Deal, rows: list[dict[str, Any]]) -> list[Part]:
    """Return a unit's parts: of a single unit they still have to be numbered."""
    if deal.shards == 1:
        return numbered(rows)
    return [Part(int(r["number"]), r["stream"], Sifted.from_bytes(r["blob"]).accepted()) for r in rows]


def warn(rejects: Sequence[Reject]) -> None:
    """Log how many rows were rejected, and the last of them."""
    if rejects:
        counted = Counter(reject.reason for reject in rejects)
        log.warning(
            "%d rows rejected (%s), the last one: %s; watch(..., rejects=folder) keeps all of them",
            len(rejects),
            ", ".join(f"{n} {reason}" for reason, n in counted.items()),
            rejects[-1].raw,
        )


def pandas_of(changes: pa.Table) -> pd.DataFrame:
    """Return changes for Spark: integers that may be null must not become floats."""
    import pandas as pd

    kinds = {pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype()}
    return without_codes(changes).to_pandas(types_mapper=kinds.get)
