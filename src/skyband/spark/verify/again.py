"""Reading a batch's rows once more, for `skyband verify`, in their order of arrival.

Files are read again as the file log has them, Kafka's records by their offsets, for which Spark is started. The rows of
`rate` follow from the seconds that a batch covers and the moment that the source was made, which the checkpoint has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.core.errors import InputError
from skyband.files.rows import Chunk
from skyband.spark.config import Pipeline, StreamSpec
from skyband.spark.driver.checkpoint import Checkpoint
from skyband.spark.input.filelog import FileLog
from skyband.spark.input.inputs import (
    RATE_SCHEMA,
    forms_of,
    record_lines,
    record_parts,
    stream_files,
)
from skyband.spark.input.reading import join_chunks, read_runs
from skyband.spark.input.splits import plan_splits
from skyband.spark.session.connector import kafka_sentence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Offset = dict[str, Any]


class Again:
    """Rows between two offsets."""

    def __init__(self, pipeline: Pipeline, checkpoint: Checkpoint, schemas: dict[str, pa.Schema]) -> None:
        self._pipeline, self._checkpoint, self._schemas = pipeline, checkpoint, schemas
        self._log = FileLog(checkpoint.files)
        self._session: SparkSession | None = None
        self._own = False

    def rows(self, start: Offset, end: Offset) -> list[tuple[str, Chunk]]:
        """Rows of all streams, in the order of the pipeline file."""
        found: dict[str, list[Chunk]] = {spec.name: [] for spec in self._pipeline.streams}
        for name, chunk in self._files(start, end):
            found[name].append(chunk)
        for spec in self._pipeline.streams:
            if not spec.files and end.get(spec.name) is not None:
                before = start.get(spec.name)
                read = self._rate if spec.format == "rate" else self._kafka
                found[spec.name] += read(spec, before, end[spec.name])
        return [(name, chunk) for name, chunks in found.items() for chunk in chunks]

    def close(self) -> None:
        if self._session is not None and self._own:
            self._session.stop()

    def _files(self, start: Offset, end: Offset) -> Iterator[tuple[str, Chunk]]:
        for run in plan_splits(self._log, stream_files(self._pipeline), start, end, tasks=1):
            for part in read_runs(run, self._schemas):
                yield part.split.stream, join_chunks(part.chunks)

    def _rate(self, spec: StreamSpec, start: int | None, end: int) -> list[Chunk]:
        made, each = self._checkpoint.first(spec.name), int(dict(spec.options)["rowsPerSecond"])
        first, last = start or 0, end
        values = np.arange(first * each, last * each, dtype=np.int64)
        if not len(values):
            return []
        # as Spark does it: the batch's seconds in equal parts, to the nearest millisecond
        part = 1000.0 * (last - first) / len(values)
        times = np.floor((values - values[0]) * part + 0.5).astype(np.int64) + made + 1000 * first
        columns = [pa.array(times * 1000).cast(RATE_SCHEMA.field(0).type), pa.array(values)]
        return [Chunk(pa.Table.from_arrays(columns, schema=RATE_SCHEMA))]

    def _kafka(self, spec: StreamSpec, start: Any, end: Any) -> list[Chunk]:
        start = start if start is not None else self._checkpoint.first(spec.name)
        if start == end:
            return []
        begin = {t: {p: start.get(t, {}).get(p, -2) for p in ends} for t, ends in end.items()}
        reader = self._spark().read
        offsets = {"startingOffsets": json.dumps(begin), "endingOffsets": json.dumps(end)}
        try:
            lines = (
                record_lines(reader, spec, self._pipeline.streams.index(spec), **offsets)
                .toArrow()
                .sort_by([("number", "ascending"), ("first", "ascending")])
            )
        except Exception as problem:
            raise InputError(kafka_sentence(str(problem), self._pipeline) or str(problem)) from None
        parts = record_parts(iter(lines.to_batches()), self._schemas, forms_of(self._pipeline))
        return [chunk for *_, chunk in parts]

    def _spark(self) -> SparkSession:
        from skyband.spark.jvm.private import is_started
        from skyband.spark.session.start import log_of, start_session

        if self._session is None:
            self._own = not is_started()  # another one stays as it was
            log = log_of(self._pipeline, "verify.log")
            self._session = start_session(self._pipeline.spark, log, kafka=True)
        return self._session
