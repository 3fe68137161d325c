"""Batches: whatever rows come in, as Arrow columns; and one step's accepted rows as contiguous numbers.

`read` takes Arrow tables and record batches, pandas and polars frames, dicts of columns and lists of dicts; and one
row, as a dict of values or a Series.

A `Batch` holds the accepted rows of one stream in one step. Algorithms see them newest first, for that is the
direction in which dominance is decided; the columns are turned once and shared by all queries.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.core.errors import InputError
from skyband.core.types import Floats, Ints
from skyband.stream.arrow import numbers_array, values_of
from skyband.stream.schema import Raw
from skyband.stream.text_numbers import TextNumbers, is_text
from skyband.stream.windows import by_recency

Bools = npt.NDArray[np.bool_]
FLOAT64 = pa.float64().id


class IndexColumns(NamedTuple):
    """The columns of a stream that an index of pandas may be."""

    time: str | None = None
    key: str | None = None


NO_INDEX = IndexColumns()


def read(batch: Any, special: IndexColumns = NO_INDEX) -> tuple[Raw, int]:
    """Return a batch as columns by name, and its number of rows."""
    if isinstance(batch, pa.Table):
        return batch, batch.num_rows
    if isinstance(batch, pa.RecordBatch):
        return pa.Table.from_batches([batch]), batch.num_rows
    if isinstance(batch, Mapping):
        return _from_dict(batch)
    if isinstance(batch, list | tuple):
        return _from_dicts(batch)
    if isinstance(batch, pa.RecordBatchReader):
        table = batch.read_all()
        return table, table.num_rows
    if _of_pandas(batch) and hasattr(batch, "columns"):
        return _from_pandas(batch, special)
    if _of_pandas(batch) and hasattr(batch, "to_frame") and hasattr(batch, "index"):  # a Series: one row
        return _from_pandas(batch.to_frame().T.infer_objects(), special)
    table = batch.to_arrow() if hasattr(batch, "to_arrow") else _streamed(batch)
    if isinstance(table, pa.Table):
        return table, table.num_rows
    raise InputError(
        f"A batch can't be of type {type(batch).__name__}: give an Arrow table or record batch, a pandas or polars "
        "frame, a dict of columns or of the values of one row, or a list of dicts."
    )


def _from_pandas(frame: Any, special: IndexColumns) -> tuple[Raw, int]:
    """Return the columns of a data frame, and its index if that is the time or the key."""
    names = {str(name) for name in frame.columns}
    index = frame.index
    levels = [index.get_level_values(place) for place in range(index.nlevels)]
    found = {
        level.name: level for level in levels if level.name in {*special} - {None} and level.name not in names
    }
    if special.time is not None and special.time not in names | found.keys():
        times = [level for level in levels if level.dtype.kind == "M"]
        if len(times) == 1:
            found[special.time] = times[0]
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
        for name, level in found.items():
            table = table.append_column(name, pa.array(level, from_pandas=True))
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError):  # values that are no column together
        columns = {str(name): frame[name].tolist() for name in frame.columns}
        return _from_dict(columns | {name: level.tolist() for name, level in found.items()})
    return table.replace_schema_metadata(None), table.num_rows


def _streamed(batch: Any) -> pa.Table | None:
    """Return what the Arrow stream interface gives; None without one, or for a single column (a Series)."""
    if not hasattr(batch, "__arrow_c_stream__"):
        return None
    try:
        return pa.table(batch)
    except pa.ArrowInvalid as error:
        if "non-struct" in str(error):
            return None
        raise


def _of_pandas(value: Any) -> bool:
    """Whether it is pandas' own or derived from that: pandas 3 no longer says in which of its modules a class is."""
    return any(base.__module__.partition(".")[0] == "pandas" for base in type(value).__mro__)


NO_TIMES = np.zeros(16384, dtype=np.int64)
NO_TIMES.flags.writeable = False


def no_times(rows: int) -> Ints:
    """Return the times of rows that have none, not to be written to: the same memory for all."""
    return NO_TIMES[:rows] if rows <= len(NO_TIMES) else np.zeros(rows, dtype=np.int64)


def names_of(raw: Raw) -> list[str]:
    return list(raw.column_names) if isinstance(raw, pa.Table) else list(raw)


def _from_dict(batch: Mapping[Any, Any]) -> tuple[Raw, int]:
    """Return the columns of a dict; a dict of single values is one row."""
    single = [str(name) for name, value in batch.items() if _is_single(value)]
    if single and len(single) == len(batch):
        return {str(name): _column(str(name), [_plain(value)]) for name, value in batch.items()}, 1
    if single:
        whole = next(str(name) for name, value in batch.items() if not _is_single(value))
        raise InputError(
            f'The dict has a single value for "{single[0]}" and a whole column for "{whole}": give a value for each '
            "column (one row), or a list for each."
        )
    raw: dict[str, Any] = {}
    rows = None
    for name, values in batch.items():
        column = _column(str(name), values)
        if rows is not None and len(column) != rows:
            raise InputError(
                f'Columns differ in length: "{name}" has {len(column)} values, the ones before it {rows}.'
            )
        rows = len(column)
        raw[str(name)] = column
    return raw, rows or 0


def _is_single(value: Any) -> bool:
    """Whether it is one value and no column."""
    if isinstance(value, str | bytes | Mapping | pa.Scalar) or not isinstance(value, Iterable):
        return True
    return isinstance(value, np.ndarray) and value.ndim == 0


def _plain(value: Any) -> Any:
    """A single value as Arrow takes it in a list; what pandas has for a missing one is None."""
    if isinstance(value, pa.Scalar):
        return value.as_py()
    if isinstance(value, np.ndarray):
        return value.item() if value.dtype.kind != "M" else value[()]
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    return value


def _column(name: str, values: Any) -> Any:
    if isinstance(values, pa.ChunkedArray):
        return values
    if isinstance(values, pa.Array):
        return pa.chunked_array([values])
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype in (np.float64, np.int64):
        return pa.chunked_array([numbers_array(values)])
    try:
        array = pa.array(values, from_pandas=_of_pandas(values))
        if pa.types.is_date(array.type) and not isinstance(values, np.ndarray):
            array = pa.array(_moments(values))
        return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
        values = list(values)
        if all(value is None or type(value) is int for value in values):
            try:
                return pa.chunked_array([pa.array(values, pa.uint64())])  # beyond int64
            except (pa.ArrowInvalid, OverflowError):
                pass
        return values  # values of several types: each will be fitted alone


def _moments(values: Iterable[Any]) -> list[Any]:
    """Dates; with a time among them all as times, for Arrow would cut it off. A date is its first moment."""
    values = list(values)
    if not any(isinstance(value, dt.datetime) for value in values):
        return values
    return [dt.datetime.combine(value, dt.time()) if type(value) is dt.date else value for value in values]


def _from_dicts(rows: list[Any] | tuple[Any, ...]) -> tuple[Raw, int]:
    names: dict[str, None] = {}
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InputError(
                f"Row {number} of the list is of type {type(row).__name__}; each must be a dict of columns."
            )
        names.update(dict.fromkeys(map(str, row)))
    return {name: _column(name, [row.get(name) for row in rows]) for name in names}, len(rows)


class Batch:
    """The accepted rows of one stream in one step, and their columns newest first."""

    texts: TextNumbers | None = None  # numbers for the texts of some columns

    def __init__(
        self, table: pa.Table, seq: Ints, time: Ints, timed: bool = True, in_order: bool | None = None
    ) -> None:
        """in_order: whether the times are, if that is known."""
        self.table = table  # in order of arrival, as are these two
        self.seq_arrived = seq
        self.time_arrived = time
        n = len(seq)
        if in_order is None:
            in_order = n < 2 or not timed or bool(np.all(time[1:] >= time[:-1]))
        self.in_order = in_order
        self._timed = timed
        self._numbers: dict[str, Floats] = {}
        self._columns: dict[str, pa.Array] = {}
        self._flat: dict[str, pa.Array] = {}
        self._usable: dict[str, Bools | None] = {}

    def __len__(self) -> int:
        return len(self.seq_arrived)

    @cached_property
    def order(self) -> Ints | None:
        """The position in order of arrival of each row, newest first; None: simply backwards."""
        if self.in_order:
            return None
        return by_recency(self.time_arrived, self.seq_arrived)[::-1]

    @cached_property
    def time(self) -> Ints:
        """Event times, newest first."""
        turned: Ints = self.turn(self.time_arrived) if self._timed else self.time_arrived
        return turned

    @cached_property
    def seq(self) -> Ints:
        """Seqs, newest first."""
        turned: Ints = self.turn(self.seq_arrived)
        return turned

    def turn(self, values: npt.NDArray[Any]) -> Any:
        """Values in order of arrival as values newest first."""
        return np.ascontiguousarray(values[::-1]) if self.order is None else values[self.order]

    def column(self, name: str) -> pa.Array:
        """Return a column in order of arrival, as one array."""
        found = self._flat.get(name)
        if found is None:
            found = self._flat[name] = flat(self.table.column(name))
        return found

    def arrived(self, mark: npt.NDArray[Any]) -> Ints:
        """Positions in order of arrival of the rows marked (newest first), ascending."""
        marked = np.flatnonzero(mark)
        if self.order is None:
            return len(self) - 1 - marked[::-1]
        return np.sort(self.order[marked])

    def number(self, name: str) -> Floats:
        """Return a column as float64, newest first; a null is any number (callers leave its row out).

        Of a column of texts it is the number of each text that a query compares the column with; any other is NaN."""
        found = self._numbers.get(name)
        if found is None:
            found = self.turn(self.arrived_number(name))
            found.flags.writeable = False
            self._numbers[name] = found
        return found

    def arrived_number(self, name: str) -> Floats:
        """Return a column as float64 in order of arrival; without a copy where it is float64 already."""
        column = self.column(name)
        if self.texts is not None and is_text(column.type):
            return self.texts.numbers(name, column)
        return numbers(column)

    def arrived_numbers(self, names: tuple[str, ...]) -> tuple[Floats, ...]:
        """Columns as float64 in order of arrival, not to be written to; a null is NaN."""
        found = []
        for name in names:
            column = self.table.column(name)
            # by the shortest way: this is done for every column of every step
            plain = column.type.id == FLOAT64 and column.num_chunks == 1
            values = column.to_numpy() if plain else self.arrived_number(name)
            if column.null_count and not plain:
                values = np.where(values_of(flat(column).is_null()), np.nan, values)
            values.flags.writeable = False
            found.append(values)
        return tuple(found)

    def has_nulls(self, names: Iterable[str]) -> bool:
        return any(self.table.column(name).null_count for name in names)

    def array(self, name: str) -> pa.Array:
        """A column as it is, newest first."""
        found = self._columns.get(name)
        if found is None:
            order = np.arange(len(self) - 1, -1, -1) if self.order is None else self.order
            found = self._columns[name] = self.column(name).take(numbers_array(order))
        return found

    def present(self, name: str) -> Bools | None:
        """Return which rows (newest first) are not null in this column; None: all."""
        column = self.column(name)
        return self.turn(values_of(column.is_valid())) if column.null_count else None

    def usable(self, name: str) -> Bools | None:
        """Return which rows (newest first) have a value in this column, neither null nor NaN; None: all."""
        if name not in self._usable:
            mask = self.present(name)
            if pa.types.is_floating(self.column(name).type):
                nan = np.isnan(self.number(name))
                if nan.any():
                    mask = ~nan if mask is None else mask & ~nan
            self._usable[name] = mask
        return self._usable[name]


class Forward(Batch):
    """Rows in order of arrival, for code that looks at each by itself and needs none turned."""

    def __init__(self, table: pa.Table, seq: Ints, time: Ints) -> None:
        super().__init__(table, seq, time, timed=False)

    def turn(self, values: npt.NDArray[Any]) -> Any:
        return values

    def array(self, name: str) -> pa.Array:
        return self.column(name)


class View:
    """Some rows of a batch, newest first: what one family's predicate lets through."""

    def __init__(self, batch: Batch, index: Ints | None = None) -> None:
        self.batch = batch
        self.index = index  # positions among the batch's rows newest first; None: all

    def __len__(self) -> int:
        return len(self.batch) if self.index is None else len(self.index)

    def number(self, name: str) -> Floats:
        values = self.batch.number(name)
        return values if self.index is None else values[self.index]

    def array(self, name: str) -> pa.Array:
        values = self.batch.array(name)
        return values if self.index is None else values.take(numbers_array(self.index))

    def where(
        self, names: Iterable[str], predicate: Callable[[View], Bools] | None, not_null: Iterable[str] = ()
    ) -> View:
        """Return the rows with a value in each of these columns for which the predicate holds.

        Columns in `not_null` may be NaN: the caller handles that.
        """
        mask: Bools | None = None
        for usable in (*map(self.batch.usable, names), *map(self.batch.present, not_null)):
            if usable is not None:
                mask = usable if mask is None else mask & usable
        view = self if mask is None else View(self.batch, np.flatnonzero(mask))
        if predicate is not None and len(view):
            holds = predicate(view)
            if not holds.all():
                kept = np.flatnonzero(holds)
                view = View(self.batch, kept if view.index is None else view.index[kept])
        return view


def flat(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column as one array; without a copy where it is one already."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def numbers(column: pa.ChunkedArray | pa.Array) -> Floats:
    """Return a column as float64 in order of arrival, timestamps as seconds; a null is any number."""
    array = flat(column)
    type_ = array.type
    if type_.id == FLOAT64:
        found: Floats = array.to_numpy(zero_copy_only=False)
        return found
    if pa.types.is_date(type_):
        array = pc.cast(array, pa.timestamp("ms"))
        type_ = array.type
    if pa.types.is_timestamp(type_):
        whole = values_of(pc.cast(array, pa.int64()))
        return _seconds(whole, {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[type_.unit])
    if pa.types.is_boolean(type_):
        return values_of(array).astype(np.float64)
    if pa.types.is_decimal(type_):
        return _decimals(array)
    if pa.types.is_integer(type_):
        return values_of(array).astype(np.float64)
    return values_of(pc.cast(array, pa.float64(), safe=False))


def _seconds(whole: Ints, per: int) -> Floats:
    """Times in whole numbers of a unit as the nearest seconds: the same ones in whichever unit a time is given."""
    found: Floats = whole.astype(np.float64) / per
    coarse = np.ones(len(whole), dtype=bool)
    while per > 1 and len(whole) and max(-int(whole.min()), int(whole.max())) > 2**53:
        coarse &= whole % 1_000 == 0  # then fewer digits say the same, and a double may hold them
        whole, per = whole // 1_000, per // 1_000
        found = np.where(coarse, whole / per, found)
    return found


def _decimals(array: pa.Array) -> Floats:
    """Decimals as the nearest float64, which Arrow's own cast, multiplying by a power of ten, doesn't always find."""
    type_ = array.type
    if pa.types.is_decimal128(type_) and type_.precision <= 15 and 0 <= type_.scale <= 22 and len(array):
        words = np.frombuffer(array.buffers()[1], dtype=np.int64)[2 * array.offset :]
        # whole numbers below 2^53 and a power of ten up to 10^22 are exact, so one division rounds once
        return words[: 2 * len(array) : 2].astype(np.float64) / float(10**type_.scale)
    return np.array([0.0 if value is None else float(value) for value in array.to_pylist()], dtype=np.float64)
