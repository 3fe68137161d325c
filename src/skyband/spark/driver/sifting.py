"""What a task of the driver placement does: read its part of a batch, sift the rows, send what can matter.

The answer is one line for each run of rows: rows checked, rejects found and, if the batch is large, all rows dropped
that k better and no earlier expiring rows of the same run keep out of every answer. Whether a task prunes or not
changes what travels, never an answer.

A task reads large Parquet files newest rows first. What those leave as k-th best scores are bars (batch_filter.py) that
older rows have to reach: a row that doesn't has k better rows that are newer. The survivors, few, are then pruned
together, so what travels is the k-skyband of the task's rows, not one for each piece. Tasks of the executors placement
do the same.

Queries stay as they are for many batches, and travel with the source. What is another in every batch (which rows are
late, whether to prune) is a property of the Spark job that reads it.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa

from skyband.engine.pruning import Gates, Sifted, Sifter, joined
from skyband.files.rows import Chunk
from skyband.spark.input.inputs import file_parts, record_parts
from skyband.spark.input.jobs import (
    Order,
    line_of,
    lines_batch,
    property_of,
    task,
)
from skyband.spark.input.reading import join_chunks, odd_columns, read_runs
from skyband.spark.input.splits import Split, in_pieces
from skyband.spark.input.values import Form
from skyband.stream.batches import read
from skyband.stream.validation import Accepted, Door, accept

if TYPE_CHECKING:
    from pyspark import SparkContext

PIECE_ROWS = 262_144  # rows of a large Parquet file that are read at once, or a row group
LARGE = 4 * PIECE_ROWS  # from so many rows on a task reads the newest ones first
_HEAD_ROWS = 65_536  # rows at least behind the bars
_MANY = 65_536  # survivors of one piece that are pruned there and then
_BATCH = "skyband.batch"  # the property that carries a `Batch`


@dataclass(frozen=True)
class Batch:
    """What tasks must know of one batch."""

    doors: Mapping[str, Door]  # of each stream
    prune: bool

    def announce(self, context: SparkContext) -> None:
        """Give it to the tasks of the jobs that this thread starts."""
        context.setLocalProperty(_BATCH, base64.b64encode(pickle.dumps(self)).decode())

    @classmethod
    def here(cls) -> Batch:
        """In a task: that of the job."""
        found = pickle.loads(base64.b64decode(property_of(_BATCH)))
        assert isinstance(found, cls)
        return found


@dataclass(frozen=True)
class SiftJob:
    """What tasks must know for as long as the queries stay."""

    schemas: Mapping[str, pa.Schema]
    eras: tuple[tuple[int, Mapping[str, Sifter]], ...]  # from which batch on each stream's sifter holds
    forms: tuple[Form, ...] = ()  # what the values of each stream's records are
    declared: frozenset[str] = frozenset()  # streams whose columns the pipeline file declares

    def of_files(self, splits: Iterable[Split]) -> Iterator[pa.RecordBatch]:
        batch, sifters = self._now()
        for stream, group in groupby(splits, key=lambda split: split.stream):
            own, sifter = [*group], sifters[stream]
            if batch.prune and sifter.can_prune and are_large(own):
                place = [*self.schemas].index(stream)
                parts = newest_first(own, self.schemas[stream], sifter, stream in self.declared)
                for number, part in enumerate(parts):
                    yield lines_batch([line_of(0, (place, own[0].number, number), stream, part)])
            else:
                for parted in file_parts(own, self.schemas):
                    yield self._sifted(batch, sifter, *parted)

    def of_records(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        batch, sifters = self._now()
        for order, stream, chunk in record_parts(batches, self.schemas, self.forms):
            yield self._sifted(batch, sifters[stream], order, stream, chunk)

    def _now(self) -> tuple[Batch, dict[str, Sifter]]:
        """What holds in this task's batch."""
        batch, (number, _) = Batch.here(), task()
        sifters = [sifters for first, sifters in self.eras if first <= number][-1]
        return batch, {name: replace(one, door=batch.doors[name]) for name, one in sifters.items()}

    def _sifted(
        self, batch: Batch, sifter: Sifter, order: Order, stream: str, chunk: Chunk
    ) -> pa.RecordBatch:
        table, texts = chunk.with_gaps()
        sifted = sifter.sift(table, batch.prune, texts)
        sifted.odd = odd_columns(chunk, self.schemas[stream], sifter.named, stream in self.declared)
        return lines_batch([line_of(0, order, stream, sifted)])


def are_large(splits: Sequence[Split]) -> bool:
    """Whether these pieces had better be read newest rows first."""
    parquet = all(split.format == "parquet" for split in splits)
    return parquet and sum(split.rows for split in splits) >= LARGE


def newest_first(splits: Sequence[Split], schema: pa.Schema, sifter: Sifter, declared: bool) -> list[Sifted]:
    """The rows of consecutive pieces of a stream's files that can be in an answer, in order of arrival."""
    odd: dict[tuple[str, str], str] = {}

    def accepted(piece: Split) -> list[Accepted]:
        chunks = [join_chunks(run.chunks) for run in read_runs([piece], {piece.stream: schema})]
        for chunk in chunks:
            odd.update(
                {
                    (kind, name): hint
                    for kind, name, hint in odd_columns(chunk, schema, sifter.named, declared)
                }
            )
        return [accept(sifter.door, *read(table), texts) for table, texts in (c.with_gaps() for c in chunks)]

    found = _newest_first(splits, sifter, accepted)
    found[0].odd = [(*what, hint) for what, hint in odd.items()]
    return found


def _newest_first(
    splits: Sequence[Split], sifter: Sifter, accepted: Callable[[Split], list[Accepted]]
) -> list[Sifted]:

    older = [piece for split in splits for piece in in_pieces(split, PIECE_ROWS)]
    newest: list[Accepted] = []
    while older and sum(part.table.num_rows for part in newest) < _HEAD_ROWS:
        newest = [*accepted(older.pop()), *newest]
    if not older:
        return [sifter.pruned(part) for part in newest]
    last = max(newest, key=lambda part: part.table.num_rows)
    opened, gates = sifter.opened(last)
    kept = [opened if part is last else sifter.pruned(part).part for part in newest]
    thin = [_thinned(part, sifter, gates) for piece in older for part in accepted(piece)]
    whole = joined([*thin, *kept])
    # To prune a few thousand rows takes as long as to let the engine have them.
    return [Sifted(whole) if whole.table.num_rows < _MANY else sifter.pruned(whole)]


def _thinned(part: Accepted, sifter: Sifter, gates: Gates) -> Accepted:
    thin = sifter.thinned(part, gates)
    return thin if thin.table.num_rows < _MANY else sifter.pruned(thin).part
