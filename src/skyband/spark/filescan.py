"""A batch of Parquet files before the gate: Spark's own reader has most rows, the driver reads the newest and oldest.

A row's place is its file's place and its row index, both of which Spark tells. How many rows there are is in the files'
footers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skyband.stream.arrow import has_text, numbers_array

from .admission import Came, Texts
from .columns import AT, Unfit, quoted, spark_type
from .filelog import StreamFiles, Taken, check_unchanged, file_path
from .heights import Beside

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_FILES = 32
_PLAIN = re.compile(r"[\w/.=+@~-]+", re.ASCII)  # paths without anything that Spark might take for a pattern


class FileScan:
    """The files of a batch as Spark reads them, and their ends as the driver does."""

    runs = 1

    def __init__(
        self, files: StreamFiles, taken: Sequence[Taken], names: list[str], schema: pa.Schema
    ) -> None:
        import pyarrow.parquet as pq

        self._stream, self._taken, self._names, self._schema = files, taken, names, schema
        self.whole = {*names} >= {*schema.names}
        self._paths = [file_path(files.root, one.name) for one in taken]
        self.check()
        self._opened = [pq.ParquetFile(path) for path in self._paths]
        counts = [file.metadata.num_rows for file in self._opened]
        self._before = np.concatenate([[0], np.cumsum(counts)]).tolist()
        self.rows = int(self._before[-1])

    def _fits(self) -> bool:
        """Whether all columns are in the stream's types, and Spark is sure to read these very files."""
        if not all(_PLAIN.fullmatch(str(path)) for path in self._paths):
            return False
        for file in self._opened:
            found = {field.name: field.type for field in file.schema_arrow}
            # a column that nobody needs may still have values that reject their rows
            fit = all(found.get(field.name, field.type) == field.type for field in self._schema)
            if not fit or len(found) < len(file.schema_arrow.names) or not found.keys() >= set(self._names):
                return False
        return True

    def check(self) -> None:
        """An error if a file isn't the one any more that was numbered."""
        for one, path in zip(self._taken, self._paths, strict=True):
            status = path.stat()
            check_unchanged(self._stream, one, status.st_size, status.st_mtime_ns)

    def newest(self, rows: int) -> tuple[pa.Table, Texts]:
        """The last so many rows, in order of arrival; Unfit if Spark might read others than we do."""
        if not self._fits():
            raise Unfit("the files")
        tables: list[pa.Table] = []
        count = 0
        for file in reversed(self._opened):
            for group in reversed(range(file.num_row_groups)):
                if count >= rows:
                    break
                tables.insert(0, file.read_row_group(group, columns=self._names, use_threads=False))
                count += tables[0].num_rows
        table = pa.concat_tables(tables)
        return table.slice(max(0, table.num_rows - rows)), None

    def oldest(self, rows: int) -> pa.Table:
        """The first so many rows, or fewer if a row group ends before."""
        batches = self._opened[0].iter_batches(rows, row_groups=[0], columns=self._names, use_threads=False)
        first = next(iter(batches), None)
        empty = self._opened[0].schema_arrow.empty_table().select(self._names)
        return empty if first is None else pa.Table.from_batches([first])

    def passing(self, test: str, beside: Beside, lines: DataFrame, older: int) -> Came:
        """The rows that pass of the first so many, in order of arrival."""
        table = self.rows_that(test, beside, lines)
        places = np.asarray(table.column(AT))
        order = np.argsort(places)
        order = order[: int(np.searchsorted(places[order], older))]  # the head is here already
        rows = table.drop_columns([AT]).take(numbers_array(order))
        return Came(rows, places[order], None, table.num_rows)

    def rows_that(self, test: str, beside: Beside, lines: DataFrame) -> pa.Table:
        """The rows that pass, with their places among all rows of the batch."""
        from pyspark.sql import functions as f

        session = lines.sparkSession
        columns = (f"{quoted(name)} {spark_type(self._schema.field(name).type)}" for name in self._names)
        # a file that is damaged or gone must not pass for one without rows, whatever the session thinks of it
        strict = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
        reader = session.read.schema(", ".join(columns)).options(**strict)
        more = [f.expr(f"_metadata.row_index AS {AT}"), *beside.columns(session)]
        wanted = [*map(quoted, self._names), AT]
        # what is no text rejects its row
        texts = (quoted(name) for name in self._names if has_text(self._schema.field(name).type))
        test = " OR ".join([test, *(f"NOT is_valid_utf8({text})" for text in texts)])
        frames = []
        for number, path in enumerate(self._paths):
            frame = reader.parquet(path.as_uri()).select("*", *more).filter(test)
            frames.append(frame.selectExpr(*wanted, f"{number} AS {AT}_file"))
        table = reduce(lambda one, other: one.union(other), frames).toArrow()
        before = np.array(self._before)[np.asarray(table.column(f"{AT}_file"))]
        places = numbers_array(np.asarray(table.column(AT)) + before)
        fields = [self._schema.field(name) for name in self._names]
        return table.select(self._names).cast(pa.schema(fields)).append_column(AT, places)
