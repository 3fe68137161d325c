"""Kafka as a sink: records of changes, of rejects and of the current answers.

A change is a record: its key the JSON array [batch, number], its value the row as a JSON object. With `key = "id"`,
or another column or several, that is the key, and batch and number are in the headers. With `values = "arrow"` all
rows of a batch are one record, an Arrow IPC stream; with "avro" or "protobuf" a schema registry has their schemas.
Rejects have a topic of their own.

`top_topic` is for a compacted topic of the current answers: the key is [query, rank], the value a row of the `top`
output. A rank that an answer no longer has gets a record without a value, a tombstone. What is sent is every rank of
each query that changed, so it follows from the batch alone, and a batch that is done again repeats it.

Kafka keeps what it has been given. With `delivery = "at-least-once"` Spark's own connector writes, from one task: a
batch that is done again after a stop repeats its records, the same to the letter and in the same order. With
"exactly-once" a batch is one transaction (`transactions`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.core.errors import InputError
from skyband.spark.config import SinkSpec
from skyband.spark.input.registry import Registry, writable
from skyband.stream.arrow import python_rows

from .plain import Sink, json_text, plain_value, without_codes
from .transactions import Record, Transactions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [("topic", pa.string()), ("key", pa.string()), ("value", pa.binary()), ("headers", _HEADERS)]
)


class KafkaSink(Sink):
    """Changes, rejects and the current answers as records."""

    def __init__(self, spec: SinkSpec) -> None:
        options = dict(spec.options)
        self._topics = options.pop("topic"), options.pop("rejects_topic")
        self._top_topic = options.pop("top_topic", None)
        self._form = options.pop("values")
        self._registry = Registry(options.pop("registry", ""))
        self._numbers: dict[tuple[str, str], int] = {}  # of schemas, by topic and text
        self._key = [name for name in options.pop("key", "").split(",") if name]
        self._transactions: Transactions | None = None
        progress = options.pop("progress_topic", None)
        if progress is not None:
            self._transactions = Transactions(options, progress)
        self._options = options
        self._session: SparkSession | None = None

    def start(self, session: Any) -> None:
        self._session = session

    def close(self) -> None:
        if self._transactions is not None:
            self._transactions.close()

    def put(self, batch: int, changes: pa.Table, rejects: pa.Table, tops: pa.Table) -> None:
        records = [*self.records(batch, changes, rejects, tops)]
        if not records:
            return
        assert self._session is not None
        try:
            if self._transactions is None:
                frame = self._session.createDataFrame(_table(records)).coalesce(1)
                frame.write.format("kafka").options(**self._options).save()
            else:
                # the id of the checkpoint's query, the same at every start
                name = self._session.sparkContext.getLocalProperty("sql.streaming.queryId")
                assert name is not None
                self._transactions.put(f"skyband-{name}", batch, records)
        except InputError:
            raise
        except Exception as problem:
            broker = self._options["kafka.bootstrap.servers"]
            raise InputError(
                f"Batch {batch} cannot be sent to Kafka at {broker} ({reason(problem)}): see to the broker; the next "
                f"start does the batch again."
            ) from problem

    def records(self, batch: int, changes: pa.Table, rejects: pa.Table, tops: pa.Table) -> Iterator[Record]:
        """Yield the batch's records, in order."""
        for topic, name, table in zip(self._topics, ("Change", "Reject"), (changes, rejects), strict=True):
            values = self._values(topic, name, table)
            if self._key and table is changes:
                for number, (row, value) in enumerate(zip(python_rows(table), values, strict=True)):
                    headers = [("batch", b"%d" % batch), ("number", b"%d" % number)]
                    yield Record(topic, key_of(row, self._key), value, headers)
            else:
                for number, value in enumerate(values):
                    yield Record(topic, f"[{batch}, {number}]", value, [])
        if self._top_topic is not None:
            now, gone = _answers(changes, tops)
            keys = zip(now["query"].to_pylist(), _places(now), strict=True)
            for key, value in zip(keys, self._values(self._top_topic, "Answer", now), strict=True):
                yield Record(self._top_topic, _json([*key]), value, [])
            for query, place in gone:
                yield Record(self._top_topic, _json([query, place]), None, [])

    def _values(self, topic: str, name: str, table: pa.Table) -> Iterator[bytes]:
        """Yield a record's value for each row; as Arrow one for all rows, of answers one for each."""
        if not table.num_rows:
            return
        if self._form == "arrow":
            pieces = [table.slice(n, 1) for n in range(table.num_rows)] if name == "Answer" else [table]
            yield from map(packed, pieces)
        elif self._form == "json":
            for row in python_rows(table):
                yield json_text(row).encode()
        else:
            from skyband.spark.input import avro, protobuf

            known = writable(table)
            write, values = {
                "avro": (avro.avro_text, avro.avro_values),
                "protobuf": (protobuf.protobuf_text, protobuf.protobuf_values),
            }[self._form]
            key = topic, write(name, known.schema)
            if key not in self._numbers:
                self._numbers[key] = self._registry.register(topic, self._form, key[1])
            start = b"\0" + self._numbers[key].to_bytes(4)
            for value in values(name, known):
                yield start + value


def key_of(row: dict[str, Any], columns: list[str]) -> str:
    """Return a change's key: the text of one column, or the JSON array of several.

    As `id` a row has its seq, and a pair both of its seqs: a change without a key would go to any partition."""
    if row["id"] is None:
        seqs = [row["seq"], row["seq_b"]]
        row = {**row, "id": ",".join(str(seq) for seq in seqs if seq is not None)}
    values = [plain_value(row[name]) for name in columns]
    return str(values[0]) if len(values) == 1 else _json(values)


def _answers(changes: pa.Table, tops: pa.Table) -> tuple[pa.Table, list[tuple[str, int]]]:
    """Return the current answers of the queries that changed, and the ranks that are gone."""
    fewer: dict[str, int] = {}  # how many ranks fewer each answer has than before
    for query, change in zip(changes["query"].to_pylist(), changes["change"].to_pylist(), strict=True):
        fewer[query] = fewer.get(query, 0) + (1 if change == "leave" else -1)
    now = tops.filter(pc.is_in(tops["query"], pa.array([*fewer], pa.string()))).combine_chunks()
    sizes = Counter(now["query"].to_pylist())
    gone = [(query, sizes[query] + n + 1) for query, less in fewer.items() for n in range(less)]
    return now, gone


def _places(answers: pa.Table) -> Iterator[int]:
    """Yield each row's place in its query's answer."""
    seen = Counter[str]()
    for query in answers["query"].to_pylist():
        seen[query] += 1
        yield seen[query]


def _json(values: list[Any]) -> str:
    return json.dumps(values, ensure_ascii=False)


def _table(records: list[Record]) -> pa.Table:
    """Return records as Spark's connector takes them."""
    columns = [*zip(*records, strict=True)]
    columns[3] = tuple([{"key": key, "value": value} for key, value in one] for one in columns[3])
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def packed(table: pa.Table) -> bytes:
    """A table as an Arrow IPC stream; dictionaries, which need not be the same next time, become plain texts."""
    plain = without_codes(table).combine_chunks()
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, plain.schema) as writer:
        writer.write_table(plain)
    return bytes(out.getvalue())


def reason(problem: Exception) -> str:
    """The bottom of a failure in the JVM, in one line."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    said = (causes or lines or [type(problem).__name__])[-1 if causes else 0]
    return said.removeprefix("org.apache.kafka.common.errors.").rstrip(".")[:300]
