"""What a task of the executors placement does with the rows it has read: which unit gets which of them.

Rows are accepted or rejected once, by the one door of their stream. Then every unit gets its own part of them: queries
about single rows the k-skyband of the task's rows for just those queries (all rows, if there are few), objects the
rows of their ids, pairs all of them. What does not travel is reported all the same: how many rows there were, the
newest of them, and all their times where a row window needs them, so that each unit counts rows and expires its own as
if it had seen everything. A unit that no row concerns gets this *control* alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.engine.pruning import Sifted, Sifter
from skyband.files.rows import Chunk
from skyband.query.model import Rows
from skyband.spark.driver.sifting import are_large, newest_first
from skyband.spark.input.expected import must_suit
from skyband.spark.input.inputs import file_parts, record_parts
from skyband.spark.input.jobs import (
    PART_COLUMNS,
    Order,
    line,
    line_of,
    lines_batch,
    task,
)
from skyband.spark.input.reading import odd_columns
from skyband.spark.input.residents import built
from skyband.spark.input.splits import Split
from skyband.spark.input.values import Form
from skyband.spark.jvm.paths import place_of
from skyband.stream.arrow import numbers_array
from skyband.stream.batches import read
from skyband.stream.rejects import Reject
from skyband.stream.validation import Accepted, Door, accept

from .frames import late_before
from .hashing import stable_hash
from .shards import (
    ROWS,
    UPDATES,
    Streams,
    Unit,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FEW_ROWS = 20_000
_FEW_UNITS = 4  # that rows which one of them needs are sent to all of


@dataclass(frozen=True)
class Era:
    """What holds from a batch on: the units with their queries, and those that end with the first batch."""

    first: int
    units: tuple[Unit, ...]
    retired: tuple[Unit, ...] = ()  # without queries; their state goes with this era's first batch
    moved: tuple[int, ...] = ()  # keys of those whose state others have taken over


@dataclass(frozen=True)
class Job:
    """What tasks must know."""

    streams: Streams
    eras: tuple[Era, ...]
    checkpoint: str  # our own folder in it, which every executor sees
    begins: int  # the first batch of this run: every answer is reported
    prune_rows: int | None = None
    forms: tuple[Form, ...] = ()  # what the values of each stream's records are
    declared: frozenset[str] = frozenset()  # streams whose columns the pipeline file declares
    strict: frozenset[str] = frozenset()  # streams that stop the pipeline where data is not as expected

    def era(self, batch: int) -> Era:
        return [era for era in self.eras if era.first <= batch][-1]

    def of_files(self, splits: Iterable[Split]) -> Iterator[pa.RecordBatch]:
        """From pieces of files to parts for units."""
        batch, partition = task()
        era = self.era(batch)
        if partition == 0:
            yield _controls(era, batch)
        for _, own in groupby(splits, key=lambda split: split.stream):
            yield from _of_files(self, era, batch, [*own])

    def of_records(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """From records to parts for units."""
        batch, _ = task()
        era = self.era(batch)
        for order, stream, chunk in record_parts(batches, self.streams.schemas, self.forms):
            yield _lines(self, era, batch, order, stream, chunk)


# Of the job that is held here, and no other: what is only known by its place in memory may be another one by now.
_ROUTES: dict[int, tuple[Job, dict[str, list[Route]]]] = {}
_DOORS: dict[int, tuple[Job, dict[str, Door]]] = {}


@dataclass(frozen=True)
class Route:
    """What one unit gets of one stream."""

    unit: Unit
    sifter: Sifter | None  # of a unit for single rows
    wanted: bool  # whether it gets rows at all
    counts: bool  # whether it must know the times of all rows
    named: frozenset[str]  # the columns that its queries name, and those of times, keys and operations

    @property
    def pruning(self) -> bool:
        """Whether its rows may be pruned where they are."""
        return self.sifter is not None and self.sifter.can_prune

    def part_of(self, part: Accepted, prune: bool) -> Sifted:
        """A unit's own part of what was accepted."""
        if not self.unit.reporter:
            rejects = [Reject(r.seq, r.stream, r.reason, "", "") for r in part.rejects]
            part = replace(part, rejects=rejects)
        if self.unit.kind == UPDATES:
            return Sifted(part)
        if not self.wanted:
            return Sifted(_only(part, np.empty(0, dtype=np.int64), self.counts))
        if self.unit.ids:
            return Sifted(_only(part, np.flatnonzero(owns(self.unit, part.table)), self.counts))
        if self.sifter is not None and self.pruning and prune:
            return self.sifter.pruned(part)
        if self.sifter is not None and self.sifter.can_prune and self.sifter.columns:
            wanted = set(self.sifter.columns)
            part = replace(part, table=part.table.select([c for c in part.table.column_names if c in wanted]))
        return Sifted(part)


def _only(part: Accepted, rows: npt.NDArray[np.int64], counts: bool) -> Accepted:
    """Some rows of a part, and what windows must count of all of them."""
    position = np.arange(part.count) if part.position is None else part.position
    passed = position, part.time
    if not counts and len(position):
        newest = np.lexsort((position, part.time))[-1:]
        passed = position[newest], part.time[newest]
    table = part.table.take(numbers_array(rows)).combine_chunks()
    return replace(part, table=table, position=position[rows], time=part.time[rows], passed=passed)


def owns(unit: Unit, table: pa.Table) -> npt.NDArray[np.bool_]:
    """Which rows are of a unit's ids."""
    return np.asarray(id_hash(table, unit.ids) % np.uint64(unit.of) == unit.part)


def id_hash(table: pa.Table, columns: tuple[str, ...]) -> npt.NDArray[np.uint64]:
    """A hash of the columns that name an object: equal ids have equal hashes."""
    keys = {}
    for name in columns:
        column = table.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_floating(column.type):
            column = pc.add(column, 0.0)  # -0.0 equals 0.0
        keys[name] = column
    return stable_hash(pa.table(keys))


def routes(job: Job, era: Era) -> dict[str, list[Route]]:
    """Who gets what of each stream; made once in a worker."""
    known = _ROUTES.get(era.first)
    if known is not None and known[0] is job:
        return known[1]
    found: dict[str, list[Route]] = {name: [] for name in job.streams.schemas}
    for unit in era.units:
        monitor = job.streams.monitor()
        for name, query in unit.queries:
            monitor.watch(query, name=name)
        for stream in found:
            timed = stream in job.streams.time
            # which rows wait is decided by the times of all rows; a query yet to come may need those that wait
            waits = bool(job.streams.max_ahead)
            counts = not timed or waits or any(isinstance(query.window, Rows) for _, query in unit.queries)
            own = not unit.ids or stream in unit.streams
            wanted = own and (waits or _wants(unit, stream, monitor))
            sifter = monitor.sifter(stream) if unit.kind == ROWS and wanted else None
            named = monitor.streams[stream].named_columns()
            found[stream].append(Route(unit, sifter, wanted, counts, named))
    _ROUTES.clear()
    _ROUTES[era.first] = job, found
    built()
    return found


def _wants(unit: Unit, stream: str, monitor: Any) -> bool:
    if unit.ids:
        return bool(unit.queries)
    return bool(monitor.streams[stream].watches or monitor.streams[stream].joints())


def doors(job: Job, batch: int) -> dict[str, Door]:
    """The doors of the streams at a batch."""
    known = _DOORS.get(batch)
    if known is not None and known[0] is job:
        return known[1]
    late = late_before(place_of(job.checkpoint), batch)
    monitor = job.streams.monitor()
    found = {name: replace(monitor.sifter(name).door, late_before=late.get(name)) for name in monitor.streams}
    _DOORS.clear()
    _DOORS[batch] = job, found
    return found


def _of_files(job: Job, era: Era, batch: int, splits: list[Split]) -> Iterator[pa.RecordBatch]:
    """The lines for consecutive splits of a stream."""
    stream, found = splits[0].stream, routes(job, era)[splits[0].stream]
    door = doors(job, batch)[stream]
    sifter = _for_all(job, found, splits)
    if sifter is None:
        for order, _, chunk in file_parts(splits, job.streams.schemas):
            yield _lines(job, era, batch, order, stream, chunk)
        return
    # Large Parquet files for queries about single rows alone: the newest rows first, the others behind them.
    place = [*job.streams.schemas].index(stream)
    sifter = replace(sifter, door=door, named=_named(found))
    parts = newest_first(splits, job.streams.schemas[stream], sifter, stream in job.declared)
    for number, sifted in enumerate(parts):
        order = place, splits[0].number, number
        must_suit(batch, job.strict, ((stream, *each) for each in sifted.odd), sifted.part.rejects)
        again = len(found) > _FEW_UNITS
        shared = [(route.unit, route.part_of(sifted.part, again)) for route in found]
        for unit, part in shared:
            part.odd = sifted.odd if unit.reporter else ()
        yield lines_batch([line_of(unit.key, order, stream, part) for unit, part in shared])


def _named(routes: Iterable[Route]) -> frozenset[str]:
    """The columns that a stream can't do without."""
    return frozenset().union(*(route.named for route in routes))


def _for_all(job: Job, found: list[Route], splits: list[Split]) -> Sifter | None:
    """What sifts these splits for all units at once; None if a unit needs more than its k-skyband."""
    sifters = [route.sifter for route in found if route.sifter is not None and route.pruning]
    rows = sum(split.rows for split in splits)
    if len(sifters) < len(found) or len({sifter.counts_rows for sifter in sifters}) != 1:
        return None
    large = max(_large(job, route.unit) for route in found)
    return _common(sifters) if are_large(splits) and rows >= large else None


def control_frame(session: SparkSession, era: Era) -> DataFrame:
    """The same as a part of the query: a micro-batch of records may have no task that would send them, since Spark
    reads nothing where no offset has moved (the first one of `rate`, or of a topic from its latest records on). Units
    that end with the era's first batch are sent one in the others as well, and pass it over."""
    units = [*(unit.key for unit in era.units), *(unit.key for unit in era.retired), *era.moved]
    keys = ", ".join(f"{key}L" for key in units)
    columns = [column.split() for column in PART_COLUMNS.split(", ")][1:]
    nothing = {"stream": "NULL", "blob": "NULL", "host": "''"}
    rest = [f"CAST({nothing.get(name, '0')} AS {kind}) AS {name}" for name, kind in columns]
    return session.range(0, len(units), 1, 1).selectExpr(
        f"element_at(array({keys}), int(id) + 1) AS unit", *rest
    )


def _controls(era: Era, batch: int) -> pa.RecordBatch:
    """A line for each unit, so that Spark calls each in every batch."""
    units = [unit.key for unit in era.units]
    if batch == era.first:
        units += [unit.key for unit in era.retired] + [*era.moved]
    return lines_batch([line(key) for key in units])


def _lines(job: Job, era: Era, batch: int, order: Order, stream: str, chunk: Chunk) -> pa.RecordBatch:
    table, texts = chunk.with_gaps()
    raw, rows = read(table)
    part = accept(doors(job, batch)[stream], raw, rows, texts)
    lines = []
    found = routes(job, era)[stream]
    large = [rows >= _large(job, route.unit) for route in found]
    odd = odd_columns(chunk, job.streams.schemas[stream], _named(found), stream in job.declared)
    must_suit(batch, job.strict, ((stream, *each) for each in odd), part.rejects)
    pruned = _pruned_once(part, [route for route, prune in zip(found, large, strict=True) if prune])
    for route, prune in zip(found, large, strict=True):
        own = pruned.get(route.unit.key)
        sifted = route.part_of(
            part if own is None else own, prune and (own is None or len(pruned) > _FEW_UNITS)
        )
        sifted.odd = odd if route.unit.reporter else ()
        lines.append(line_of(route.unit.key, order, stream, sifted))
    return lines_batch(lines)


def _pruned_once(part: Accepted, wanted: list[Route]) -> dict[int, Accepted]:
    """By unit: the rows that are in the k-skyband of any unit's queries. Nearly all rows are in none, and are looked at
    once for all units; those that must know every row's time are by themselves."""
    found: dict[int, Accepted] = {}
    for counts in (False, True):
        alike = {
            route.unit.key: route.sifter
            for route in wanted
            if route.sifter is not None and route.pruning and route.sifter.counts_rows is counts
        }
        if len(alike) > 1:
            pruned = _common([*alike.values()]).pruned(part).part
            found.update(dict.fromkeys(alike, pruned))
    return found


def _common(sifters: list[Sifter]) -> Sifter:
    """A sifter that lets pass whatever one of these does."""
    queries: dict[str, tuple[int, str]] = {}
    for text, k, algorithm in (query for sifter in sifters for query in sifter.queries):
        queries[text] = max(k, queries.get(text, (0, ""))[0]), algorithm
    columns = sorted({name for sifter in sifters for name in sifter.columns or ()})
    every = tuple((text, k, algorithm) for text, (k, algorithm) in queries.items())
    return replace(sifters[0], queries=every, columns=tuple(columns))


def _large(job: Job, unit: Unit) -> int:
    """From so many rows on pruning is worth the work: small parts would grow by it."""
    if job.prune_rows is not None:
        return job.prune_rows
    kept = sum(2 * (getattr(query, "k", 0) or 0) for _, query in unit.queries)
    return max(_FEW_ROWS, 8 * kept)
