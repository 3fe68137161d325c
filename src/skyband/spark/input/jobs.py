"""Jobs: what the tasks of a pipeline must know, and the lines that they answer with.

A job is bytes that travel with every task; a worker unpacks them once and keeps what it has unpacked. Each placement
has its own job (`sifting`, `routing`), with the same two methods: read the pieces of files that a task was given, or
read the records that Spark's own source has given it. Both yield lines. A line carries a run of rows, its place in the
order of arrival, and the process that read it.
"""

from __future__ import annotations

import base64
import hashlib
import os
import pickle
import socket
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from .residents import begin_task, forgotten

if TYPE_CHECKING:
    from skyband.engine.pruning import Sifted

    from .splits import Split

PART_COLUMNS = (
    "unit bigint, place int, number bigint, piece bigint, stream string, rows bigint, kept bigint, host string, "
    "process bigint, blob binary"
)
_SCHEMA = pa.schema(
    [
        ("unit", pa.int64()),
        ("place", pa.int32()),
        ("number", pa.int64()),
        ("piece", pa.int64()),
        ("stream", pa.string()),
        ("rows", pa.int64()),
        ("kept", pa.int64()),
        ("host", pa.string()),
        ("process", pa.int64()),
        ("blob", pa.binary()),
    ]
)

Order = tuple[int, int, int]
"""Where a run of rows belongs in the order of arrival: the stream's place, the split or partition, the piece of it."""


class Readable(Protocol):
    """A job, as the source and `mapInArrow` see it."""

    def of_files(self, splits: Iterable[Split]) -> Iterator[pa.RecordBatch]:
        """The lines for a task's pieces of files."""

    def of_records(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The lines for a task's records."""


class Packed:
    """A job as bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._name = hashlib.blake2b(data, digest_size=16).hexdigest()

    @classmethod
    def of(cls, job: Readable) -> Packed:
        return cls(zlib.compress(pickle.dumps(job)))

    @classmethod
    def from_text(cls, text: str) -> Packed:
        return cls(base64.b64decode(text))

    @property
    def text(self) -> str:
        """For an option of a source, which is text."""
        return base64.b64encode(self._data).decode()

    def get(self) -> Any:
        found = _JOBS.get(self._name)
        if found is None:
            _JOBS.clear()  # one at a time: the next one is another run's
            forgotten()
            found = _JOBS[self._name] = pickle.loads(zlib.decompress(self._data))
        return found


_JOBS: dict[str, Readable] = {}


def read_files(packed: Packed, splits: Iterable[Split]) -> Iterator[pa.RecordBatch]:
    """What a task of the source does."""
    begin_task()
    yield from packed.get().of_files(splits)


def read_records(packed: Packed) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for mapInArrow behind one of Spark's own sources."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        yield from packed.get().of_records(batches)

    return read


def line(unit: int, order: Order = (0, 0, 0), stream: str | None = None) -> dict[str, Any]:
    """A line without rows."""
    place, number, piece = order
    return {
        "unit": unit, "place": place, "number": number, "piece": piece, "stream": stream, "rows": 0, "kept": 0,
        "host": socket.gethostname(), "process": os.getpid(), "blob": None,
    }  # fmt: skip


def line_of(unit: int, order: Order, stream: str, sifted: Sifted) -> dict[str, Any]:
    """The line of a run of rows."""
    rows = {"rows": sifted.count, "kept": sifted.kept, "blob": sifted.to_bytes()}
    return {**line(unit, order, stream), **rows}


def lines_batch(lines: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(lines, schema=_SCHEMA)


def in_order(lines: pa.Table) -> list[dict[str, Any]]:
    """Lines in the order of arrival of their rows."""
    return sorted(lines.to_pylist(), key=lambda one: (one["place"], one["number"], one["piece"]))


def task() -> tuple[int, int]:
    """The micro-batch and the number of this task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return int(property_of("streaming.sql.batchId")), context.partitionId()


def property_of(name: str) -> str:
    """A property that the driver's thread had when it started this task's job."""
    from pyspark import TaskContext

    context = TaskContext.get()
    found = None if context is None else context.getLocalProperty(name)
    assert found is not None, f"the job has no property {name}"
    return found
