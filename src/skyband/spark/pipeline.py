"""`skyband run`: a pipeline file as a Structured Streaming query.

A start finds out what is to be read and asked, whether that fits what the checkpoint began with, and where the state
is (`placement`); then it hands over to a `Run` (`driver`, `executors`).
"""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from skyband.core.errors import InputError
from skyband.spark.driver.asking import Asked
from skyband.spark.driver.checkpoint import Checkpoint, open_checkpoint
from skyband.spark.driver.run import (
    Run,
    check_queries,
    say,
    say_queries,
)
from skyband.spark.input.filelog import file_path, list_files
from skyband.spark.input.inputs import RATE_SCHEMA, stream_files
from skyband.spark.input.reading import declared_schema, infer_schema
from skyband.spark.session.metrics import reporting
from skyband.spark.session.progress import OnBatch, Summary, print_batch
from skyband.spark.session.signals import Signals
from skyband.spark.session.start import check_version, reach

from .config import Pipeline, StreamSpec, load_pipeline
from .sinks import make_sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_STOP_SECONDS = 20.0  # how long a batch under way may take to finish after Ctrl-C


def run_pipeline(
    path: str | Path,
    available_now: bool = False,
    on_batch: OnBatch | None = None,
    spark: SparkSession | None = None,
    stopping: threading.Event | None = None,
) -> Summary:
    """Run a pipeline until there is nothing more to read (`available_now`), or a signal or the event stops it.

    With a session of the caller's (`spark`), as spark-submit has one, its master and its settings hold instead of those
    in [spark], and it is not stopped at the end."""
    check_version()
    pipeline = load_pipeline(path)
    if spark is not None:
        pipeline = replace(pipeline, spark=replace(pipeline.spark, master=str(spark.sparkContext.master)))
    available_now = available_now or pipeline.spark.trigger == "available-now"
    reach(pipeline)
    checkpoint = open_checkpoint(pipeline)
    written = pipeline.queries
    pipeline = replace(pipeline, queries=Asked(checkpoint).applied(written))
    with checkpoint.locked(), Signals(stopping) as stop:
        checkpoint.check_format()
        checkpoint.repair()
        checkpoint.check_offsets()
        checkpoint.check_whole(pipeline.streams)
        checkpoint.read_again(stream_files(pipeline))
        first = checkpoint.first_new()
        schemas = checkpoint.schemas(pipeline.streams) if first else None
        if schemas is None:
            schemas = find_schemas(pipeline, wait=not available_now, stop=stop)
        if schemas is None:
            return Summary(0, 0, 0, 0, 0.0, stopped=True)
        checked = None
        if first == 0 or checkpoint.queries(first - 1) != pipeline.queries:
            checked = check_queries(pipeline, schemas)  # those that have run need no second look
        sink = make_sink(pipeline.sink)
        sink.prepare(first == 0)
        if first == 0:
            checkpoint.fix_schemas(pipeline.streams, schemas)
        say_queries(pipeline, checkpoint, first)
        checkpoint.set_queries(first, pipeline.queries)
        kind = run_kind(pipeline, checkpoint, first)
        with reporting(pipeline.metrics, on_batch or print_batch) as report:
            made = kind(pipeline, checkpoint, schemas, sink, report, stop)
            made.written = written
            made.begin_with(first, checked)
            del checked
            return made.run(spark, available_now)


def run_kind(pipeline: Pipeline, checkpoint: Checkpoint, first: int) -> type[Run]:
    """The run that the placement asks for."""
    from skyband.spark.driver.placement import choose_placement
    from skyband.spark.executors.run import ExecutorsRun

    chosen, why = choose_placement(pipeline, checkpoint, first)
    say(f"placement {chosen}: {why}")
    return ExecutorsRun if chosen == "executors" else Run


def find_schemas(pipeline: Pipeline, wait: bool, stop: Signals) -> dict[str, pa.Schema] | None:
    """The streams' schemas from their first files. None if stopped while waiting for one."""
    schemas = {}
    for spec in pipeline.streams:
        kinds = _kinds(pipeline, spec)
        has_said = False
        while (schema := _first_schema(spec, kinds)) is None:
            if not wait:
                raise InputError(
                    f"Stream '{spec.name}' has no file yet in {spec.path}: add one, or declare its columns in "
                    f'pipeline.toml: schema = {{column = "double", ...}}.'
                )
            if not has_said:
                say(f"waiting for the first file of stream '{spec.name}' in {spec.path}")
                has_said = True
            if stop.wait(0.5):
                return None
        for what in ("time", "key", "op"):
            column = getattr(spec, what)
            if column is not None and column not in schema.names:
                raise InputError(
                    f"Stream '{spec.name}' has no column '{column}' for its {what}; it has "
                    f"{', '.join(schema.names)}."
                )
        schemas[spec.name] = schema
    return schemas


def _kinds(pipeline: Pipeline, spec: StreamSpec) -> dict[str, str]:
    """What the queries take a stream's columns for; one broken value must not make them text."""
    from skyband.query.column_kinds import numeric_columns
    from skyband.query.model import Joined
    from skyband.query.sql.parser import parse

    kinds: dict[str, str] = {}
    for query in pipeline.queries:
        model = parse(query.sql)
        if isinstance(model, Joined):
            mine, sides = spec.name in model.streams, {None, spec.name}
        else:
            mine, sides = len(pipeline.streams) == 1 or model.stream == spec.name, {None, "a", "b"}
        if mine:
            columns = [column for column in numeric_columns(model) if column.side in sides]
            kinds.update({c.name: "number" for c in columns if c.name != getattr(model, "key", None)})
    if spec.time is not None:
        kinds[spec.time] = "time"
    return kinds


def _first_schema(spec: StreamSpec, kinds: dict[str, str]) -> pa.Schema | None:
    """The schema by the first file that can be read; one that is still being copied may stand before it."""
    if spec.schema is not None:
        return declared_schema(spec.schema)
    if spec.format == "rate":
        return RATE_SCHEMA
    problem: InputError | None = None
    for name, size, _ in sorted(list_files(spec.path)):
        if size:
            try:
                return infer_schema(spec, file_path(str(spec.path), name), kinds)
            except InputError as found:
                problem = problem or found
    if problem is not None:
        raise problem
    return None
