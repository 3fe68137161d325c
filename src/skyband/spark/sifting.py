"""What a task does: read its splits, sift the rows, send what can matter.

The task gets lines that name splits and answers with one line for each run of them: rows checked, rejects found
and, if the batch is large, all rows dropped that k better and no earlier expiring rows of the same run keep out
of every answer. Whether it prunes or not changes what travels, never an answer.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.files.rows import Chunk

from .inputs import task_parts
from .reading import read_split
from .splits import Split

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SIFTED_COLUMNS = (
    "place int, number bigint, piece bigint, stream string, rows bigint, kept bigint, host string, process bigint, "
    "blob binary"
)
_SIFTED = pa.schema(
    [
        ("place", pa.int32()), ("number", pa.int64()), ("piece", pa.int64()), ("stream", pa.string()),
        ("rows", pa.int64()), ("kept", pa.int64()), ("host", pa.string()), ("process", pa.int64()),
        ("blob", pa.binary()),
    ]
)  # fmt: skip
_RUN_ROWS = 1_000_000  # small files are sifted together up to this many rows


@dataclass(frozen=True)
class SiftJob:
    """All that a task must know; travels to it with the function."""

    sifters: Mapping[str, Any]
    schemas: Mapping[str, pa.Schema]
    prune: bool


@dataclass
class _Run:
    """Consecutive rows of one stream."""

    split: Split
    chunks: list[Chunk]
    rows: int

    def takes(self, split: Split, chunk: Chunk) -> bool:
        """Whether the chunk may join: same stream, same columns, not too many rows."""
        alike = self.chunks[0].table.schema.equals(chunk.table.schema)
        return split.stream == self.split.stream and alike and self.rows + chunk.count <= _RUN_ROWS


def sift_batches(job: SiftJob) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for mapInArrow."""

    def sift(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place, number, piece, stream, chunk in task_parts(batches, job.schemas):
            yield _answer(job, (place, number, piece), stream, chunk)

    return sift


def read_runs(splits: Iterable[Split], schemas: Mapping[str, pa.Schema]) -> Iterator[_Run]:
    """Read splits; consecutive rows of a stream are put together while they are few."""
    run: _Run | None = None
    for split in splits:
        for chunk in read_split(split, schemas[split.stream]):
            if run is not None and run.takes(split, chunk):
                run.chunks.append(chunk)
                run.rows += chunk.count
                continue
            if run is not None:
                yield run
            run = _Run(split, [chunk], chunk.count)
    if run is not None:
        yield run


def _answer(job: SiftJob, order: tuple[int, int, int], stream: str, chunk: Chunk) -> pa.RecordBatch:
    table, texts = with_gaps(chunk)
    sifted = job.sifters[stream].sift(table, job.prune, texts)
    place, number, piece = order
    line = {
        "place": place,
        "number": number,
        "piece": piece,
        "stream": stream,
        "rows": sifted.count,
        "kept": sifted.kept,
        "host": socket.gethostname(),
        "process": os.getpid(),
        "blob": sifted.to_bytes(),
    }
    return pa.RecordBatch.from_pylist([line], _SIFTED)


def with_gaps(chunk: Chunk) -> tuple[pa.Table, dict[int, tuple[str, str]] | None]:
    """The rows with an empty one in the place of each bad line, and the bad lines' texts by place."""
    if not chunk.bad:
        return chunk.table, None
    texts = {row.position: (row.detail, row.raw) for row in chunk.bad}
    places = iter(range(chunk.table.num_rows))
    order = pa.array([None if place in texts else next(places) for place in range(chunk.count)], pa.int64())
    return chunk.table.take(order), texts


def collect_sifted(splits: DataFrame, job: SiftJob) -> list[dict[str, Any]]:
    """Run the tasks; their answers in arrival order."""
    answers = splits.mapInArrow(sift_batches(job), SIFTED_COLUMNS).toArrow()
    return sorted(answers.to_pylist(), key=lambda line: (line["place"], line["number"], line["piece"]))
