"""One row as a dict of plain values: read without Arrow, by what was prepared from the stream's schema.

`Reader` knows for each column which Python types its values have. It takes a row only if every value fits its column
as it is, and if the row has exactly the stream's columns; for any other row it returns None, and the batch is read,
fitted and judged as every batch is (batches.py, schema.py, validation.py). So there is one set of rules.

`Row` is the batch of such a row. Its Arrow table is made when a column is asked for that Python values don't serve.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.core.types import Floats, Ints
from skyband.stream import clock
from skyband.stream.batches import Batch, Bools

_EXACT = 2**53  # integers up to it are doubles
_FAR = 2**62  # times of a unit up to it fit into nanoseconds
_NAN: Floats = np.array((math.nan,))
_NAN.flags.writeable = False
_MICROSECOND = dt.timedelta(microseconds=1)
_EPOCH = dt.datetime(1970, 1, 1)
_EPOCHS = {None: _EPOCH, dt.UTC: _EPOCH.replace(tzinfo=dt.UTC)}


class UnfitError(Exception):
    """A value that isn't simply one of its column."""


def _as_it_is(value: Any) -> Any:
    return value


def _integer(value: int) -> int:
    if -_EXACT <= value <= _EXACT:
        return value
    raise UnfitError


def _text(value: str) -> str:
    if not value.isascii():
        value.encode()  # a lone surrogate is no text: a ValueError
    return value


def _takers(type_: pa.DataType) -> dict[type, Callable[[Any], Any]] | None:
    """Return what makes a column's value of a value of each Python type; None for a type that Arrow has to read."""
    takers: dict[type, Callable[[Any], Any]]
    if pa.types.is_float64(type_):
        takers = {float: _as_it_is, int: lambda value: float(_integer(value))}
    elif pa.types.is_int64(type_):
        takers = {int: _integer}
    elif pa.types.is_string(type_) or pa.types.is_large_string(type_):
        takers = {str: _text}
    elif pa.types.is_boolean(type_):
        takers = {bool: _as_it_is}
    elif type_ in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        zone = None if type_.tz is None else dt.UTC

        def moment(value: dt.datetime) -> dt.datetime:
            if value.tzinfo is not zone:
                raise UnfitError
            return value

        takers = {dt.datetime: moment}
    else:
        return None
    return takers | {type(None): _as_it_is}


class Reader:
    """What is prepared for rows of one schema."""

    def __init__(self, schema: pa.Schema, takers: list[dict[type, Callable[[Any], Any]]]) -> None:
        self.schema = schema
        self.names: tuple[str, ...] = tuple(schema.names)
        self.places = {name: place for place, name in enumerate(self.names)}
        self._get: Any = itemgetter(*self.names) if len(self.names) > 1 else self._only
        self._takers = takers
        # what nearly all rows have, and whether such a value needs a look
        self._types = tuple(next(iter(each)) for each in takers)
        first = [next(iter(each.values())) for each in takers]
        self._tests = tuple((place, take) for place, take in enumerate(first) if take is not _as_it_is)
        self.kinds: dict[str, tuple[int, type]] = {
            name: (place, kind)
            for place, (name, kind) in enumerate(zip(self.names, self._types, strict=True))
        }

    @classmethod
    def of(cls, schema: pa.Schema) -> Reader | None:
        """Return the reader of a schema's rows; None if it has a type that Arrow has to read."""
        takers = [_takers(f.type) for f in schema]
        if not takers or None in takers or len(set(schema.names)) < len(takers):
            return None
        return cls(schema, [each for each in takers if each is not None])

    def _only(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        return (row[self.names[0]],)

    def read(self, row: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Return the values of a row in the order of the columns; None for a row that has to be read as a batch."""
        if len(row) != len(self.names):
            return None
        try:
            return self._fit(self._get(row))
        except (KeyError, ValueError, UnfitError):
            return None

    def read_table(self, table: pa.Table) -> tuple[Any, ...] | None:
        """Return the values of a table of this schema that has one row."""
        try:
            return self._fit(tuple([column[0].as_py() for column in table.itercolumns()]))
        except (KeyError, ValueError, UnfitError):
            return None

    def _fit(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return values as their columns have them."""
        if tuple(map(type, values)) == self._types:
            for place, test in self._tests:
                test(values[place])
            return values
        return tuple([take[type(value)](value) for take, value in zip(self._takers, values, strict=True)])


def key_of(kind: clock.Kind) -> Callable[[Any], int | None]:
    """Return a function from a time's value to its key; it returns None where the key needs a closer look."""
    if kind == "number":
        return lambda value: (
            None if value is None or not math.isfinite(value) else clock.number_key(float(value))
        )
    if kind == "timestamp":
        return lambda value: None if type(value) is not dt.datetime else 1000 * microseconds(value)
    unit = clock.UNITS[kind]

    def whole(value: Any) -> int | None:
        return value * unit if type(value) is int and -_FAR < value * unit < _FAR else None

    return whole


def microseconds(value: dt.datetime) -> int:
    """Return a time as microseconds since 1970."""
    return (value - _EPOCHS[value.tzinfo]) // _MICROSECOND  # type: ignore[index]


class Row(Batch):
    """The batch of one row, with its values as a reader returned them."""

    in_order = True
    order = None

    def __init__(self, reader: Reader, values: tuple[Any, ...], seq: int, time: int, timed: bool) -> None:
        self.reader, self.values = reader, values
        self.seq_arrived: Ints = np.array((seq,))
        self.time_arrived: Ints = np.array((time,))
        self._timed = timed
        self._numbers: dict[str, Floats] = {}
        self._columns: dict[str, pa.Array] = {}
        self._flat: dict[str, pa.Array] = {}
        self._usable: dict[str, Bools | None] = {}

    def __len__(self) -> int:
        return 1

    @cached_property
    def table(self) -> pa.Table:
        """The row as Arrow has it."""
        return self.table_of(self.reader.schema, [self.values])

    @staticmethod
    def table_of(schema: pa.Schema, rows: Collection[tuple[Any, ...]]) -> pa.Table:
        """Return the table of rows of values."""
        columns = zip(*rows, strict=True)
        arrays = [pa.array(column, f.type) for f, column in zip(schema, columns, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)

    def turn(self, values: npt.NDArray[Any]) -> Any:
        return values

    def number(self, name: str) -> Floats:
        place, kind = self.reader.kinds[name]
        value = self.values[place]
        if kind is not float:
            return super().number(name)
        found: Floats = np.array((math.nan if value is None else value,))
        found.flags.writeable = False
        return found

    def arrived_numbers(self, names: tuple[str, ...]) -> tuple[Floats, ...]:
        kinds, values = self.reader.kinds, self.values
        return tuple([_NAN if values[kinds[name][0]] is None else self.number(name) for name in names])

    def has_nulls(self, names: Iterable[str]) -> bool:
        return not self.is_present(names)

    def present(self, name: str) -> Bools | None:
        return None if self.is_present((name,)) else np.zeros(1, dtype=bool)

    def usable(self, name: str) -> Bools | None:
        return None if self.is_usable((name,)) else np.zeros(1, dtype=bool)

    def is_usable(self, names: tuple[str, ...]) -> bool:
        """Whether it has a value in each of these columns, neither null nor NaN."""
        places, values = self.reader.places, self.values
        for name in names:
            value = values[places[name]]
            if value is None or value != value:
                return False
        return True

    def is_present(self, names: Iterable[str]) -> bool:
        """Whether it is not null in these columns."""
        places, values = self.reader.places, self.values
        return all([values[places[name]] is not None for name in names])
