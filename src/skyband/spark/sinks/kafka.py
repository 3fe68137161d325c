"""Kafka as a sink: a record for each change, and one for each reject in a topic of its own.

A record's key is the JSON array [batch, number], its value the row as a JSON object; or, with `values = "arrow"`, all
rows of a batch are one record, an Arrow IPC stream under the key [batch, 0]. Kafka keeps what it has been
given, so a batch that is done again after a stop repeats its records; they are the same to the letter, in the same
order, and a reader can skip keys that it has seen. A topic that is compacted does so by itself.

Spark's own connector writes them, from one task, so that they come in the order of their numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.core.errors import InputError
from skyband.spark.config import SinkSpec
from skyband.stream.arrow import python_rows

from .plain import json_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema([("topic", pa.string()), ("key", pa.string()), ("value", pa.binary())])


class KafkaSink:
    """Changes and rejects as records; answers are what the changes add up to, and have no topic."""

    def __init__(self, spec: SinkSpec) -> None:
        own = ("topic", "rejects_topic", "values")
        self._topics = [spec.option(name) for name in own[:2]]
        self._arrow = spec.option("values") == "arrow"
        self._options = {key: value for key, value in spec.options if key not in own}
        self._session: SparkSession | None = None

    def prepare(self, first: bool) -> None:
        pass

    def start(self, session: Any) -> None:
        self._session = session

    def put(self, batch: int, changes: pa.Table, rejects: pa.Table, tops: pa.Table) -> None:
        assert self._session is not None
        table = self.records(batch, changes, rejects)
        if not table.num_rows:
            return
        frame = self._session.createDataFrame(table).coalesce(1)
        try:
            frame.write.format("kafka").options(**self._options).save()
        except Exception as problem:
            broker = self._options["kafka.bootstrap.servers"]
            raise InputError(
                f"Batch {batch} cannot be sent to Kafka at {broker} ({reason(problem)}): see to the broker; the next "
                f"start does the batch again."
            ) from problem

    def records(self, batch: int, changes: pa.Table, rejects: pa.Table) -> pa.Table:
        """The batch's records, in order."""
        rows: list[tuple[str, str, bytes]] = []
        for topic, table in zip(self._topics, (changes, rejects), strict=True):
            values = [packed(table)] if self._arrow and table.num_rows else []
            if not self._arrow:
                values = [json_text(row).encode() for row in python_rows(table)]
            rows += [(topic, f"[{batch}, {number}]", value) for number, value in enumerate(values)]
        columns = [*zip(*rows, strict=True)] or [(), (), ()]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        return pa.Table.from_arrays(arrays, schema=SCHEMA).combine_chunks()


def packed(table: pa.Table) -> bytes:
    """A table as an Arrow IPC stream; dictionaries, which need not be the same next time, become plain texts."""
    fields = [f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in table.schema]
    plain = table.cast(pa.schema(fields)).combine_chunks()
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
