"""`answers`: the current answers, in a `foreachBatch` over changes.

Changes name the rank of what enters; what stays keeps its order. So the answers before a micro-batch and its changes
give the answers after it, each at its rank. The answers before are those that the last call in this process returned,
or else they are read from the state that Spark's checkpoint has of the micro-batch before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from skyband.core.errors import InputError
from skyband.spark.driver.engine import drop
from skyband.spark.executors.partial import answer_of, changes_of, merged
from skyband.spark.executors.shards import ROWS, kind_of
from skyband.spark.jvm.files import unframe
from skyband.spark.jvm.private import checkpoint_of
from skyband.spark.sinks import without_codes

from .units import NAME, restored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NEEDED = {"query", "change", "rank", "score", "seq", "seq_b", "id", "time"}


class Entry(NamedTuple):
    """What an answer has at one rank."""

    seq: int | None
    seq_b: int | None
    id: str | None
    score: float
    time: Any

    @property
    def key(self) -> tuple[Any, ...]:
        return self.seq, self.seq_b, self.id

    @property
    def name(self) -> str:
        """Its id; of a row its seq, of a pair both."""
        known = self.id if self.id is not None else str(self.seq)
        return known if self.seq_b is None else f"{known},{self.seq_b}"


Answers = dict[str, list[Entry]]
_KNOWN: dict[str, tuple[int, Answers, Answers]] = {}  # by query: the last micro-batch, before it and after it


def answers(changes: DataFrame) -> DataFrame:
    """Return the current answers of all queries after a micro-batch of changes, in a `foreachBatch`.

    The columns are query, id, rank, score, seq, seq_b and time. The first three are a key: `id` is a group's or an
    object's, of a row its seq as a text, of a pair both. A call runs the micro-batch: `changes.persist()` before it if
    the changes are used otherwise too.
    """
    missing = _NEEDED - {*changes.columns}
    if missing:
        raise InputError(
            f"answers needs changes as watch gives them, with all columns; there is no {sorted(missing)[0]}."
        )
    session = changes.sparkSession
    query, number = _place(session)
    table = changes.toArrow()
    last, before, after = _KNOWN.get(query, (-1, {}, {}))
    if number == last + 1:
        before = after
    elif number != last:
        before = _stored(session, query, number - 1)
    after = fold(before, table.to_pylist())
    _KNOWN[query] = number, before, after
    return _frame(session, after, changes, table.schema.field("time").type)


def _place(session: SparkSession) -> tuple[str, int]:
    """Return the streaming query's id and the micro-batch that this thread works on."""
    context = session.sparkContext
    query, batch = (context.getLocalProperty(n) for n in ("sql.streaming.queryId", "streaming.sql.batchId"))
    if query is None or batch is None:
        raise InputError("answers is for the function of writeStream.foreachBatch: call it there.")
    return query, int(batch)


def fold(before: Answers, changes: Iterable[dict[str, Any]]) -> Answers:
    """Return the answers after changes: what leaves goes, what enters takes its rank, the rest keeps its order."""
    found = dict(before)
    rows = list(changes)
    left: dict[str, set[tuple[Any, ...]]] = {}
    for row in rows:
        if row["change"] == "leave":
            left.setdefault(row["query"], set()).add((row["seq"], row["seq_b"], row["id"]))
    for name, keys in left.items():
        found[name] = [entry for entry in found.get(name, []) if entry.key not in keys]
    entering = [row for row in rows if row["change"] == "enter"]
    for row in sorted(entering, key=lambda row: row["rank"]):
        if row["query"] not in left:
            found[row["query"]] = [*found.get(row["query"], [])]
            left[row["query"]] = set()
        entry = Entry(*(row[name] for name in Entry._fields))
        found[row["query"]].insert(row["rank"] - 1, entry)
    return {name: entries for name, entries in found.items() if entries}


def _stored(session: SparkSession, query: str, batch: int) -> Answers:
    """Return the answers after a micro-batch, from Spark's checkpoint."""
    if batch < 0:
        return {}
    table = (
        session.read.format("statestore")
        .option("batchId", batch)
        .load(checkpoint_of(session, query))
        .selectExpr("key.*", "value.*")
        .toArrow()
    )
    states = []
    for row in table.to_pylist():
        state = row.get("groupState") or row
        states.append(bytes(state["monitor"] if "monitor" in state else state["state"]))
    return fold({}, [{**row, "change": "enter"} for row in _rows(states)])


def _rows(states: list[bytes]) -> list[dict[str, Any]]:
    """Return the entries of the answers in units' states, with their ranks."""
    tables = []
    parts: dict[str, list[Any]] = {}
    for state in states:
        found = unframe(state) if len(states) > 1 else None
        if len(states) > 1 and found is None:
            raise InputError(f"{NAME} is damaged: start again with an empty checkpoint.")
        blobs = (
            [state] if found is None else [blob for n, blob in enumerate(found[1]) if n != 1]
        )  # without the clock
        for monitor in map(restored, blobs):
            for name, watch in list(monitor.watches.items()):
                if len(states) > 1 and kind_of(watch.query) != ROWS:
                    parts.setdefault(name, []).append((watch, answer_of(watch), monitor._time_type()))
                else:
                    tables.append(drop(monitor, name))
    for name, own in parts.items():
        watch, _, time = own[0]
        answer, _ = merged([answer for _, answer, _ in own], getattr(watch.query, "k", None))
        sign = 1.0 if watch.query.descending else -1.0
        pairs = kind_of(watch.query)[:1] != "{"
        tables.append(changes_of(name, answer, answer.slice(0, 0), sign, time, pairs))
    rows = []
    for table in map(without_codes, tables):
        rows += [{**row, "rank": rank} for rank, row in enumerate(table.to_pylist(), 1)]
    return rows


def _frame(session: SparkSession, found: Answers, changes: DataFrame, time: pa.DataType) -> DataFrame:
    from pyspark.sql.types import StructField, StructType

    every = [(name, rank, entry) for name, own in found.items() for rank, entry in enumerate(own, 1)]
    columns = {
        "query": pa.array([name for name, _, _ in every], pa.string()),
        "id": pa.array([entry.name for _, _, entry in every], pa.string()),
        "rank": pa.array([rank for _, rank, _ in every], pa.int32()),
        "score": pa.array([entry.score for _, _, entry in every], pa.float64()),
        "seq": pa.array([entry.seq for _, _, entry in every], pa.int64()),
        "seq_b": pa.array([entry.seq_b for _, _, entry in every], pa.int64()),
        "time": pa.array([entry.time for _, _, entry in every], time),
    }
    schema = StructType([StructField(name, changes.schema[name].dataType) for name in columns])
    return session.createDataFrame(pa.table(columns), schema)
