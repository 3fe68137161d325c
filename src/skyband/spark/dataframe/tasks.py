"""What tasks do with a DataFrame's rows before a unit takes them.

A micro-batch of a DataFrame has no order of its own: the rows of each stream are ordered by time and a hash, over all
partitions. So every task sends, beside the rows that units need, two numbers for each of its rows. One place sorts
those, and every row gets its position in the micro-batch: a task of its own, or the unit itself where there is one.

Tasks do not know which rows are late: the units judge that. Rows that are pruned though they are late do no harm, since
every row that dominates them expires later than they do. The first unit is sent every row where rejected rows are
kept with their text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.core import blob
from skyband.engine.pruning import Sifted
from skyband.query.model import Query
from skyband.spark.executors.hashing import in_order, stable_hash, time_numbers
from skyband.spark.executors.routing import routes
from skyband.spark.executors.shards import Unit
from skyband.spark.input.jobs import Packed
from skyband.stream.arrow import numbers_array
from skyband.stream.batches import read
from skyband.stream.rejects import Reject, raw_text
from skyband.stream.validation import Accepted, accept

from .rejected import RejectFolder

CHUNK_COLUMNS = "chunk string, stream string, unit bigint, blob binary"
PART_COLUMNS = "unit bigint, number bigint, stream string, blob binary"
_CHUNK_ROWS = 1_000_000
_KEYS = -1  # the line with the two numbers of each row

InArrow = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Deal:
    """What every task knows."""

    job: Packed
    queries: Mapping[str, Query]
    shards: int
    free: bool  # there is one stream, which queries may name as they like
    folder: RejectFolder | None = None
    shown: pa.Schema | None = None  # of answers, where those are wanted and not changes
    keep_all: bool = False  # do not prune: the answers in between are wanted too


class Part(NamedTuple):
    """A unit's rows of one stream in a micro-batch."""

    number: int
    stream: str
    rows: Accepted


def deal_out(deal: Deal, stream: str) -> InArrow:
    """Return the function for `mapInArrow` that sends each unit its part of a stream's rows."""

    def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        name = "0" if context is None else str(context.partitionId())
        names = deal.job.get().streams.schemas[stream].names
        for number, rows in enumerate(_chunks(batches)):
            yield lines_of(deal, stream, rows.rename_columns(names), f"{name}.{number}")

    return send


def _chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield a partition's rows, a million at a time."""
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


def lines_of(deal: Deal, stream: str, rows: pa.Table, chunk: str) -> pa.RecordBatch:
    """Return what a task sends of some rows: their two numbers, and to each unit its own rows."""
    job = deal.job.get()
    time = job.streams.time.get(stream)
    rows = in_order(rows.combine_chunks(), time)
    raw, count = read(rows)
    found = routes(job, job.eras[0])[stream]
    part = accept(job.streams.monitor().sifter(stream).door, raw, count)
    lines = [(_KEYS, _pack_keys(rows, time))]
    for route in found:
        if route.unit.ids:  # all rows are counted in the unit's other part
            own = replace(route.part_of(part, prune=False).accepted(), passed=None)
            lines.append((route.unit.key, Sifted(own).to_bytes()))
            continue
        route = replace(route, counts=True)
        whole = route.unit.reporter and deal.folder is not None and time is not None
        prune = count >= _many(route.unit)
        sifted = Sifted(part) if whole or deal.keep_all else route.part_of(part, prune)
        lines.append((route.unit.key, _counting(sifted, part).to_bytes()))
    return pa.RecordBatch.from_pydict(
        {
            "chunk": pa.array([chunk] * len(lines), pa.string()),
            "stream": pa.array([stream] * len(lines), pa.string()),
            "unit": pa.array([key for key, _ in lines], pa.int64()),
            "blob": pa.array([data for _, data in lines], pa.binary()),
        }
    )


def _many(unit: Unit) -> int:
    kept = sum(2 * (getattr(query, "k", 0) or 0) for _, query in unit.queries)
    return max(20_000, 8 * kept)


def _counting(sifted: Sifted, whole: Accepted) -> Sifted:
    """Return the part with the times of all rows: any of them may turn out to be late."""
    part = sifted.accepted()
    if part.passed is None:
        return sifted
    position = np.arange(whole.count) if whole.position is None else whole.position
    return Sifted(replace(part, passed=(position, whole.time)))


def _pack_keys(rows: pa.Table, time: str | None) -> bytes:
    """Return what decides the order of rows: time (rows without one come last), then the hash."""
    keys: dict[str, Any] = {"hash": stable_hash(rows).view(np.int64)}
    if time is not None:
        column = time_numbers(rows.column(time)).combine_chunks()
        keys["none"] = np.asarray(column.is_null()).astype(np.uint8)
        keys["time"] = np.asarray(pc.fill_null(column, 0))
    return blob.to_bytes(keys)


# -- positions


def number(deal: Deal) -> InArrow:
    """Return the function of the one task that gives all rows of a micro-batch their positions."""

    def give(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = numbered([row for batch in batches for row in batch.to_pylist()])
        if parts:
            yield pa.RecordBatch.from_pydict(
                {
                    "unit": pa.array([part.number % deal.shards for part in parts], pa.int64()),
                    "number": pa.array([part.number for part in parts], pa.int64()),
                    "stream": pa.array([part.stream for part in parts], pa.string()),
                    "blob": pa.array([Sifted(part.rows).to_bytes() for part in parts], pa.binary()),
                }
            )

    return give


def numbered(lines: list[dict[str, Any]]) -> list[Part]:
    """Return the parts of each unit, whose rows have their positions among all rows of their stream."""
    parts = []
    for stream in dict.fromkeys(line["stream"] for line in lines):
        own = sorted(
            (line for line in lines if line["stream"] == stream),
            key=lambda line: (line["chunk"], line["unit"]),
        )
        parts += _numbered(stream, own)
    return parts


def _numbered(stream: str, lines: list[dict[str, Any]]) -> list[Part]:
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
    for unit in sorted({line["unit"] for line in lines} - {_KEYS}):
        own = [Sifted.from_bytes(line["blob"]).accepted() for line in lines if line["unit"] == unit]
        moved = [_moved(part, place[a : a + part.count]) for part, a in zip(own, starts, strict=False)]
        parts.append(Part(unit, stream, _joined(moved)))
    return parts


def _moved(part: Accepted, place: npt.NDArray[np.int64]) -> Accepted:
    """Return a chunk's rows with their positions in the whole."""
    position = place if part.position is None else place[part.position]
    passed = (position, part.time) if part.passed is None else (place[part.passed[0]], part.passed[1])
    rejects = [reject._replace(seq=int(place[reject.seq])) for reject in part.rejects]
    return replace(part, position=position, passed=passed, rejects=rejects)


def _joined(parts: list[Accepted]) -> Accepted:
    """Return chunks as one part, in order."""
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
    """Return a part without the rows that are late; those become rejects, with their text where it is known."""
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
