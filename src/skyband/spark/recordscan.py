"""A batch of Kafka's records before the gate: Spark's own code reads their JSON, the driver the newest and oldest.

A record's place among the batch's is that of its partition, then its offset. Offsets may have gaps, where a topic is
compacted or written in transactions; then places don't follow from them. So each task numbers its records, in the JVM,
before it looks at them, and the last record of each partition always passes: if its number is what its offset says, and
those of all that passed are, there was no gap before them. If there was one, the batch goes the old way.

What a record's columns are is told by one regular expression (recordform.py). What passes comes as it was sent, and is
read by the reader that our tasks have.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.core.types import Ints
from skyband.stream.arrow import numbers_array

from .admission import Came, Texts
from .columns import AT, Unfit, quoted
from .config import StreamSpec
from .heights import Beside
from .inputs import record_lines
from .recordform import READ, Form, values_read
from .sifting import with_gaps
from .values import json_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("skyband")

_SHOWN = 64  # of the newest records: what most of them are is the form
_OTHERS = 0.1  # a topic that has so many records of other forms has none
_TASK = 33  # bits of a row's number within its task, in Spark's numbering of rows
_PARTITION, _RANK, _VALUE = (f"{AT}_{what}" for what in ("partition", "rank", "value"))


class RecordScan:
    """The records of a batch as Spark reads them, and their ends as the driver does."""

    whole = True

    def __init__(
        self,
        spec: StreamSpec,
        start: Mapping[str, Any],
        end: Mapping[str, Any],
        schema: pa.Schema,
        session: Any,
    ) -> None:
        self._spec, self._schema = spec, schema
        self._session: SparkSession = session
        self._types = {field.name: field.type for field in schema}
        if len(end) != 1:
            raise Unfit("several topics")
        ((self._topic, ends),) = end.items()
        starts = start.get(self._topic, {})
        if not {*ends} <= {*starts} or not all(0 <= starts[one] <= ends[one] for one in ends):
            raise Unfit("a partition that begins somewhere")
        self._ends = {int(one): int(ends[one]) for one in sorted(ends, key=int)}
        self._starts = {int(one): int(starts[one]) for one in sorted(ends, key=int)}
        counts = [self._ends[one] - self._starts[one] for one in self._ends]
        self._before = dict(zip(self._ends, np.cumsum([0, *counts]).tolist(), strict=False))
        self.rows = sum(counts)
        self.runs = max(1, sum(count > 0 for count in counts))
        self._form: Form | None = None

    def check(self) -> None:
        """Kafka never changes a record."""

    def newest(self, rows: int) -> tuple[pa.Table, Texts]:
        """The last so many records."""
        wanted = {}
        for one in reversed(self._ends):
            first = max(self._starts[one], self._ends[one] - rows)
            wanted[one] = first, self._ends[one]
            rows -= self._ends[one] - first
        values = self._values(wanted)
        self._form = Form.of(values.slice(max(0, len(values) - _SHOWN)).to_pylist(), self._types)
        return with_gaps(json_values(values, self._schema))

    def oldest(self, rows: int) -> pa.Table:
        """The first records of the first partition that has any."""
        assert self._form is not None
        one = next(one for one in self._ends if self._starts[one] < self._ends[one])
        first = self._starts[one]
        values = self._values({one: (first, min(self._ends[one], first + rows))})
        form = re.compile(self._form.pattern(()))
        others = sum(form.fullmatch(_text(value)) is None for value in values.to_pylist())
        if others > _OTHERS * len(values):
            raise Unfit("records of many forms")
        return with_gaps(json_values(values, self._schema))[0]

    def passing(self, test: str, beside: Beside, lines: DataFrame, older: int) -> Came:
        """The records that pass of the first so many, in order of arrival."""
        table = self.records_that(test, beside, lines)
        partition, offset, rank = (np.asarray(table.column(name)) for name in (_PARTITION, AT, _RANK))
        self._check_gaps(partition, offset, rank)
        before = np.array([self._before.get(one, 0) for one in range(max(self._ends) + 1)])
        places = before[partition] + rank
        order = np.argsort(places)
        order = order[: int(np.searchsorted(places[order], older))]  # the head is here already
        values = table.column(_VALUE).take(numbers_array(order)).combine_chunks().cast(pa.binary())
        found, texts = with_gaps(json_values(values, self._schema))
        return Came(found, places[order], texts, table.num_rows)

    def records_that(self, test: str, beside: Beside, lines: DataFrame) -> pa.Table:
        """The records that pass: partition, offset, how many came before it in its task, value."""
        from pyspark.sql import functions as f

        assert self._form is not None
        wanted = [name for name in self._schema.names if quoted(name) in test]
        last = beside.array([self._ends.get(one, 0) - 1 for one in range(max(self._ends) + 1)], "bigint")
        own = lines.select(
            f.expr(f"CAST(number AS int) AS {_PARTITION}"), f.col("first").alias(AT), f.col("value").alias(_VALUE),
            f.monotonically_increasing_id().alias(_RANK),
        )  # fmt: skip
        read = values_read(own, _VALUE, self._form, wanted).select("*", *beside.columns(self._session))
        passing = read.filter(f"NOT {READ} OR {AT} >= get({last}, {_PARTITION}) OR {test}")
        rank = f"{_RANK} & {(1 << _TASK) - 1} AS {_RANK}"
        return passing.selectExpr(_PARTITION, AT, rank, _VALUE).toArrow()

    def _check_gaps(self, partition: Ints, offset: Ints, rank: Ints) -> None:
        """Unfit unless every record's number in its task is that in its partition."""
        starts = np.array([self._starts.get(one, 0) for one in range(max(self._ends) + 1)])
        if not np.array_equal(offset - starts[partition], rank):
            raise Unfit("offsets with gaps, or partitions that several tasks read")
        for one, end in self._ends.items():
            if self._starts[one] < end and not np.any((partition == one) & (offset == end - 1)):
                raise Unfit("a last offset without a record")

    def _values(self, wanted: Mapping[int, tuple[int, int]]) -> pa.BinaryArray:
        """The values of some ranges of offsets, in order of arrival; Unfit if one has gaps."""
        ranges = {one: wanted.get(one, (end, end)) for one, end in self._ends.items()}
        first, end = (
            json.dumps({self._topic: {str(one): ends[side] for one, ends in ranges.items()}})
            for side in (0, 1)
        )
        try:
            lines = record_lines(self._session.read, self._spec, 0, startingOffsets=first, endingOffsets=end)
            found = lines.toArrow()
        except Exception as problem:  # the tasks will say what it is
            log.warning(
                "Records could not be read ahead, so that tasks read the batch: %s", str(problem)[:500]
            )
            raise Unfit("the reader") from problem
        if found.num_rows != sum(end - first for first, end in ranges.values()):
            raise Unfit("offsets with gaps")
        found = found.sort_by([("number", "ascending"), ("first", "ascending")])
        values: pa.BinaryArray = found.column("value").combine_chunks().cast(pa.binary())
        return values


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode("utf-8", "replace")
