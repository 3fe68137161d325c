"""The units' parts of answers become one table: of changes, or of answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.spark.executors.merging import table_of
from skyband.spark.executors.partial import changes_of, merged
from skyband.spark.executors.shards import Streams
from skyband.spark.sinks import without_codes

from .tasks import Deal, InArrow
from .units import Asked, PartOfAnswer, vacated


def merge(deal: Deal) -> InArrow:
    """Return the function of the last task: lines of all units in, changes or answers out."""

    def one(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [row for batch in batches for row in batch.to_pylist()]
        rows.sort(key=lambda row: (row["unit"], row["number"]))
        parts = _parts(rows)
        if deal.shown is not None:
            tables = [table_of(row["blob"]) for row in rows if row["kind"] == "answers"]
            whole = pa.concat_tables([deal.shown.empty_table(), *merged_answers(deal.shown, parts), *tables])
            order = pc.index_in(whole.column("query"), pa.array([*deal.queries], pa.string()))
            keys = pa.table({"query": order, "rank": whole.column("rank")})
            yield from whole.take(
                pc.sort_indices(keys, [("query", "ascending"), ("rank", "ascending")])
            ).to_batches()
            return
        streams = deal.job.get().streams
        changes = [without_codes(table_of(row["blob"])) for row in rows if row["kind"] == "changes"]
        time = time_type(streams)
        for table in leaves_first([*merged_changes(deal, parts), *changes]):
            if table.num_rows:
                at = table.schema.get_field_index("time")
                yield from table.set_column(at, "time", table.column(at).cast(time)).to_batches()

    return one


def time_type(streams: Streams) -> pa.DataType:
    """Return the type of the column `time` of changes."""
    types = {streams.schemas[stream].field(time).type for stream, time in streams.time.items()}
    if len(types) == 1:
        return types.pop()
    return streams.monitor()._time_type()[1] if types else pa.timestamp("us", "UTC")


def _parts(rows: list[dict[str, Any]]) -> list[PartOfAnswer]:
    found: list[PartOfAnswer] = []
    for row in rows:
        if row["kind"] == "shown":
            found[-1].shown = table_of(row["blob"])
        elif row["query"]:
            found.append(PartOfAnswer(row["kind"], Asked(*json.loads(row["query"])), table_of(row["blob"])))
    return found


def leaves_first(tables: list[pa.Table]) -> list[pa.Table]:
    """Return changes in an order in which they can be folded: a changed query may be in another unit now."""
    leave = [pc.equal(table.column("change"), "leave") for table in tables]
    left = [table.filter(own) for table, own in zip(tables, leave, strict=True)]
    return left + [table.filter(pc.invert(own)) for table, own in zip(tables, leave, strict=True)]


def merged_changes(deal: Deal, parts: list[PartOfAnswer]) -> list[pa.Table]:
    """Return the changes of pairs and groups, from all units' parts of their answers."""
    streams = deal.job.get().streams
    time: tuple[Any, pa.DataType] = streams.monitor()._time_type()
    if not streams.time:
        time = None, time[1]
    found = []
    for gone in (True, False):
        for asked in dict.fromkeys(part.asked for part in parts if (part.kind == "gone") is gone):
            old = _of(parts, asked, "gone" if gone else "before")
            new = [] if gone else _of(parts, asked, "after")
            answers = merged([p.answer for p in old], asked.k)[0], merged([p.answer for p in new], asked.k)[0]
            sign = 1.0 if asked.descending else -1.0
            found.append(changes_of(asked.name, *answers, sign, time, asked.pairs))
    return found


def merged_answers(shown: pa.Schema, parts: list[PartOfAnswer]) -> Iterator[pa.Table]:
    """Yield the answers to queries for pairs and groups that have changed."""
    for name in dict.fromkeys(part.asked.name for part in parts):
        own = [part for part in parts if part.asked.name == name]
        new = [part for part in own if part.kind == "after"]
        old = [part for part in own if part.kind != "after"]
        before = merged([part.answer for part in old], old[0].asked.k)[0]
        after, order = merged([part.answer for part in new], new[0].asked.k if new else None)
        if before.equals(after):
            continue
        whole = pa.concat_tables([shown.empty_table(), *(p.shown for p in new if p.shown is not None)])
        answer = whole.take(pa.array(order))
        yield answer.set_column(1, shown.field(1), pa.array(range(1, len(order) + 1), pa.int32()))
        yield vacated(name, len(order), before.num_rows - after.num_rows, shown)


def _of(parts: list[PartOfAnswer], asked: Asked, kind: str) -> list[PartOfAnswer]:
    return [part for part in parts if part.asked == asked and part.kind == kind]
