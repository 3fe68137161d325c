"""What Spark reads: one streaming DataFrame for all streams of a pipeline.

All reading happens in Spark's tasks. Files are read by the tasks of our own source (`source`): Spark's sources of files
don't keep the order in which files were first seen and don't notice a file that has changed. Kafka's records and the
rows of `rate` come from Spark's own sources, and a task behind them reads their values. Either way a task answers with
lines (`jobs`), so that one query, with one offset log and one numbering of batches, has all streams: the files first,
then every other stream in the order of the pipeline file.

A record's line is three columns, since every one is copied for every record on its way to Python: a number that says
the stream's place and the partition, the offset, and the value.

Arrival order is (stream, piece of a file or Kafka partition, position or offset): all of it stands in the lines, so a
replay gives every row the same seq, whichever task reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.files.rows import Chunk
from skyband.spark.config import Pipeline, StreamSpec
from skyband.spark.jvm.paths import Place

from .filelog import StreamFiles
from .jobs import (
    PART_COLUMNS,
    Order,
    Packed,
    read_records,
)
from .reading import join_chunks, read_runs
from .splits import Split
from .values import Form, value_chunks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


RATE_SCHEMA = pa.schema([("timestamp", pa.timestamp("us", "UTC")), ("value", pa.int64())])
# options of Spark's that say what to read; by time they come before offsets, and capitals don't matter
_ENDS = {
    f"{end}{by}" for end in ("starting", "ending") for by in ("offsets", "offsetsbytimestamp", "timestamp")
}
_TOPICS = {"subscribe", "subscribepattern", "assign"}
_PARTITION = (1 << 32) - 1  # the bits of a record's number that are its partition
_TOPIC = 1 << 22  # in these bits, the partitions of a topic, where a stream has several
_PLACE = 32  # the first of those that are its stream's place
_RUN_RECORDS = 200_000  # records that are read together
_RUN_BYTES = 64 << 20


def stream_files(pipeline: Pipeline) -> list[StreamFiles]:
    """The streams of files as the source wants them."""
    return [
        StreamFiles(s.name, s.format, str(s.path.resolve()), s.max_files) for s in pipeline.streams if s.files
    ]


def forms_of(pipeline: Pipeline) -> tuple[Form, ...]:
    """What the values of each stream's records are."""
    return tuple(Form(spec.values, spec.registry) for spec in pipeline.streams)


def declared_of(pipeline: Pipeline) -> frozenset[str]:
    """The streams whose columns the pipeline file declares."""
    return frozenset(spec.name for spec in pipeline.streams if spec.schema is not None)


def part_frames(session: SparkSession, pipeline: Pipeline, log: Place, packed: Packed) -> list[DataFrame]:
    """The lines of all streams, as a job makes them of their rows: those of files, then those of records."""
    frames = []
    if any(spec.files for spec in pipeline.streams):
        frames.append(_file_frame(session, pipeline, log, packed))
    records = record_frames(session, pipeline)
    if records:
        frames.append(in_one(records).mapInArrow(read_records(packed), PART_COLUMNS))
    return frames


def record_frames(session: SparkSession, pipeline: Pipeline) -> list[DataFrame]:
    """The lines of each stream of records."""
    return [
        record_lines(session.readStream, spec, place)
        for place, spec in enumerate(pipeline.streams)
        if not spec.files
    ]


def _file_frame(session: SparkSession, pipeline: Pipeline, log: Place, packed: Packed) -> DataFrame:
    from .source import SplitSource, source_options

    session.dataSource.register(SplitSource)
    tasks = int(session.sparkContext.defaultParallelism)
    options = source_options(stream_files(pipeline), log, tasks, packed)
    return session.readStream.format(SplitSource.name()).options(**options).load()


def in_one(frames: list[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other), frames)


def record_lines(reader: Any, spec: StreamSpec, place: int, **options: str) -> DataFrame:
    """The records of the stream at this place as lines; those between some offsets, if the options say so."""
    frame: DataFrame
    code = f"{place << _PLACE}L"
    if spec.format == "rate":
        # one partition, so that rows come in the order of their values
        frame = reader.format("rate").options(**dict(spec.options), numPartitions="1", **options).load()
        # as UTC, whatever zone the session is in
        shown = "map('timeZone', 'UTC', 'timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\")"
        row = f"to_json(struct(timestamp, value), {shown})"
        return frame.selectExpr(f"{code} AS number", "value AS first", f"encode({row}, 'UTF-8') AS value")
    own = dict(spec.options)
    if options:
        # where a stream begins is another matter than what is read of it again; and of the partitions there are only
        # those that it had then: Spark wants an offset for each that it finds
        own = {name: value for name, value in spec.options if name.lower() not in _ENDS | _TOPICS}
        named = json.loads(options["startingOffsets"])
        options["assign"] = json.dumps({topic: sorted(map(int, ends)) for topic, ends in named.items()})
    frame = reader.format("kafka").options(**own, **options).load()
    topics = [name.strip().replace("'", r"\'") for name in spec.text.split(",")]
    if len(topics) > 1:  # one after the other, since each has a partition 0
        listed = ", ".join(f"'{name}'" for name in topics)
        code += f" + (array_position(array({listed}), topic) - 1) * {_TOPIC}L"
    return frame.selectExpr(f"{code} + partition AS number", "offset AS first", "value")


# -- in a task ---------------------------------------------------------------------------------------------

Piece = tuple[Order, str, Chunk]  # the place in the order of arrival, the stream, the rows


def record_parts(
    lines: Iterator[pa.RecordBatch], schemas: Mapping[str, pa.Schema], forms: Sequence[Form]
) -> Iterator[Piece]:
    """The rows of records, run by run."""
    streams = [*schemas]
    kinds = [*zip(forms, schemas.values(), strict=True)]
    for number, offset, chunk in _record_runs(lines, kinds):
        place = number >> _PLACE
        yield (place, number & _PARTITION, offset), streams[place], chunk


def file_parts(splits: Iterable[Split], schemas: Mapping[str, pa.Schema]) -> Iterator[Piece]:
    """The rows of pieces of files, run by run."""
    places = {name: place for place, name in enumerate(schemas)}
    for piece, run in enumerate(read_runs(splits, schemas)):
        stream = run.split.stream
        yield (places[stream], run.split.number, piece), stream, join_chunks(run.chunks)


def _record_runs(
    lines: Iterator[pa.RecordBatch], kinds: Sequence[tuple[Form, pa.Schema]]
) -> Iterator[tuple[int, int, Chunk]]:
    """(number, offset of the first record, rows), run by run."""
    held: list[pa.RecordBatch] = []
    number: int | None = None
    count = size = 0
    for here, piece in chain.from_iterable(map(_pieces, lines)):
        if number != here or count >= _RUN_RECORDS or size >= _RUN_BYTES:
            yield from _run(number, held, kinds)
            held, number, count, size = [], here, 0, 0
        held.append(piece)
        count += piece.num_rows
        size += _bytes(piece)
    yield from _run(number, held, kinds)


def _pieces(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Neighbouring records of one partition, not too many bytes of them at once."""
    numbers = np.asarray(batch.column("number"))
    cuts = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
    for first, end in pairwise([0, *cuts.tolist(), batch.num_rows] if batch.num_rows else []):
        piece = batch.select(["first", "value"]).slice(first, end - first)
        yield from ((int(numbers[first]), part) for part in _parted(piece))


def _parted(piece: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if piece.num_rows > 1 and _bytes(piece) > _RUN_BYTES:
        half = piece.num_rows // 2
        yield from _parted(piece.slice(0, half))
        yield from _parted(piece.slice(half))
    elif piece.num_rows:
        yield piece


def _bytes(piece: pa.RecordBatch) -> int:
    return int(pc.sum(pc.binary_length(piece.column("value"))).as_py() or 0)


def _run(
    number: int | None, held: list[pa.RecordBatch], kinds: Sequence[tuple[Form, pa.Schema]]
) -> Iterator[tuple[int, int, Chunk]]:
    if number is None:
        return
    run = pa.Table.from_batches(held).combine_chunks()
    offsets, values = (run.column(name).combine_chunks() for name in ("first", "value"))
    form, schema = kinds[number >> _PLACE]
    for place, chunk in value_chunks(form, values.cast(pa.binary()), schema):
        yield number, offsets[place].as_py(), chunk
