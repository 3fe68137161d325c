"""Where a batch's output goes.

- plain: the shapes of output as Parquet, JSON and text; the sinks of files and of the console.
- tables: databases, one transaction a batch.
- kafka: records; transactions: each batch of them exactly once.
"""

from __future__ import annotations

from skyband.spark.config import SinkSpec

from .plain import (
    TOP_SCHEMA,
    ConsoleSink,
    FileSink,
    NobodyReads,
    Sink,
    batch_column,
    json_bytes,
    json_text,
    parquet_bytes,
    plain_value,
    top_rows,
    without_codes,
)

__all__ = [
    "TOP_SCHEMA",
    "ConsoleSink",
    "FileSink",
    "NobodyReads",
    "Sink",
    "batch_column",
    "json_bytes",
    "json_text",
    "make_sink",
    "parquet_bytes",
    "plain_value",
    "top_rows",
    "without_codes",
]


def make_sink(spec: SinkSpec) -> Sink:
    """The sink that [sink] asks for."""
    if spec.format in ("postgres", "sqlite"):
        from .tables import table_sink

        return table_sink(spec)
    if spec.format == "kafka":
        from .kafka import KafkaSink

        return KafkaSink(spec)
    if spec.format == "console" or spec.path is None:
        return ConsoleSink()
    return FileSink(spec.path, spec.format)
