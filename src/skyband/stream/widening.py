"""Types widen: a column that no schema declares takes a wider type when a value needs it.

    null       to whatever comes (`schema.extend`)
    integer    to a longer integer, or to double
    date       to timestamp
    timestamp  to a finer unit
    decimal    to one with more digits

The stream is then as if it had had the wider type from its first row. So a column widens only if the wider type holds
every value that was accepted, which `Seen` remembers: an integer beyond 2^53 may be no double, a time outside 1677 to
2262 is no timestamp in nanoseconds. Else the type stays, and the row is rejected.

Values are judged in order of arrival: of 2^53 + 1 and 0.5 the one that comes first decides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.stream.arrow import numbers_array, values_of
from skyband.stream.schema import Raw, cast, castable, columns, has_inexact, inexact

_UNITS = ("s", "ms", "us", "ns")
_NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_DAY = 86_400_000_000_000
_LOW, _HIGH = -(2**63), 2**63 - 1
_ANY_TIME = _LOW, _HIGH


class Seen:
    """What is known of the accepted values in columns that may widen."""

    def __init__(self) -> None:
        self.inexact: set[str] = set()  # columns with an integer that no double holds
        self.span: dict[str, tuple[int, int]] = {}  # the earliest and the latest time, in the column's unit
        self._noted: tuple[pa.Schema | None, tuple[str, ...]] = (None, ())

    def noted(self, schema: pa.Schema, declared: Collection[str]) -> tuple[str, ...]:
        """Return the columns whose values decide how far they may widen."""
        if self._noted[0] is not schema:
            names = [f.name for f in schema if f.name not in declared and _is_noted(f.type)]
            self._noted = schema, tuple(names)
        return self._noted[1]

    def note(self, table: pa.Table, schema: pa.Schema, declared: Collection[str]) -> None:
        """Look at rows that were accepted, in a stream of this schema."""
        for name in self.noted(schema, declared):
            if name not in self.inexact:
                for chunk in table.column(name).chunks:
                    self._note(name, chunk)

    def _note(self, name: str, array: pa.Array) -> None:
        if array.null_count:
            array = array.drop_null()
        if not len(array):
            return
        if pa.types.is_integer(array.type):
            if has_inexact(values_of(array)):
                self.inexact.add(name)
            return
        low, high = _ends(array)
        known = self.span.get(name, (low, high))
        self.span[name] = min(low, known[0]), max(high, known[1])

    def suspect(self, schema: pa.Schema) -> None:
        """Rows were accepted that nothing is known of: any value may have been among them."""
        for field in schema:
            if pa.types.is_integer(field.type) and _is_noted(field.type):
                self.inexact.add(field.name)
            elif _is_noted(field.type):
                self.span[field.name] = _ANY_TIME

    def changed(self, name: str, old: pa.DataType, new: pa.DataType) -> None:
        """A column has another type now."""
        if name in self.span:
            if not _is_noted(new):
                del self.span[name]
            else:
                low, high = self.span[name]
                factor = nanoseconds_in(old) // nanoseconds_in(new)
                self.span[name] = low * factor, high * factor

    def dump(self) -> dict[str, Any]:
        return {
            "inexact": sorted(self.inexact),
            "span": {name: list(span) for name, span in self.span.items()},
        }

    def load(self, blob: dict[str, Any]) -> None:
        self.inexact = set(blob["inexact"])
        self.span = {name: (span[0], span[1]) for name, span in blob["span"].items()}


def widened(schema: pa.Schema, raw: Raw, fixed: Collection[str], seen: Seen) -> pa.Schema:
    """Return the schema with the types that a batch's values need; `fixed` columns keep theirs."""
    found = schema
    for name, column in columns(raw).items():
        place = schema.get_field_index(name)
        if place < 0 or name in fixed:
            continue
        own = schema.field(place).type
        if isinstance(column, pa.ChunkedArray) and column.type == own:
            continue
        new = _Column(own, name in seen.inexact, seen.span.get(name)).after(column)
        if new != own:
            found = found.set(place, pa.field(name, new))
    return found


@dataclass
class _Column:
    """A column while a batch's values are gone through."""

    type: pa.DataType
    inexact: bool
    span: tuple[int, int] | None

    def after(self, column: Any) -> pa.DataType:
        """The type once these values have come."""
        if isinstance(column, pa.ChunkedArray):
            for chunk in column.chunks:
                self._take(chunk)
        else:
            for value in column:
                if value is not None:
                    self._take_value(value)
        return self.type

    def _take_value(self, value: Any) -> None:
        """One of several types in a column: it may be anything."""
        try:
            array = pa.array([value])
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
            return
        self._take(array)
        if not _is_noted(self.type) or not _fits(array, self.type):
            return
        if pa.types.is_integer(self.type):
            self.inexact |= pa.types.is_integer(array.type) and has_inexact(values_of(array))
        else:
            low, high = _ends(cast(array, self.type))
            self.span = (
                (low, high) if self.span is None else (min(low, self.span[0]), max(high, self.span[1]))
            )

    def _take(self, array: pa.Array) -> None:
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        while any(wider(self.type, array.type)) and not _fits(array, self.type):
            if pa.types.is_integer(self.type) and pa.types.is_integer(array.type):
                outside = _beyond(array, self.type)
                self.inexact |= has_inexact(values_of(array)[: int(np.argmax(outside))])
                array = array.filter(numbers_array(outside))
            new = next((t for t in wider(self.type, array.type) if self._may_be(t, array)), None)
            if new is None:
                return
            if self.span is not None and _is_noted(new):
                factor = nanoseconds_in(self.type) // nanoseconds_in(new)
                self.span = self.span[0] * factor, self.span[1] * factor
            self.type = new

    def _may_be(self, new: pa.DataType, needing: pa.Array) -> bool:
        """Whether a type holds what was accepted, and one of the values that need it."""
        if pa.types.is_integer(needing.type) and pa.types.is_integer(self.type):
            if pa.types.is_integer(new):
                return not _beyond(needing, new).all()
            return not self.inexact and not inexact(values_of(needing)).all()
        if pa.types.is_floating(new):
            return not self.inexact
        if pa.types.is_timestamp(new) and self.span is not None:
            factor = nanoseconds_in(self.type) // nanoseconds_in(new)
            return self.span[0] * factor >= _LOW and self.span[1] * factor <= _HIGH
        return True


def wider(own: pa.DataType, given: pa.DataType) -> Iterator[pa.DataType]:
    """The types beyond a column's own that hold values of another type as well, the narrowest first."""
    if pa.types.is_integer(own):
        if pa.types.is_integer(given):
            if own not in (pa.int64(), pa.uint64()):
                yield pa.int64()
            yield pa.float64()
        elif pa.types.is_floating(given):
            yield pa.float64()
    elif pa.types.is_date(own) and pa.types.is_timestamp(given):
        yield given
    elif pa.types.is_timestamp(own) and pa.types.is_timestamp(given):
        if _UNITS.index(given.unit) > _UNITS.index(own.unit):
            yield pa.timestamp(given.unit, own.tz)
    elif pa.types.is_decimal(own) and (pa.types.is_decimal(given) or pa.types.is_integer(given)):
        if pa.types.is_decimal(given):
            digits, scale = given.precision - given.scale, given.scale
        else:
            digits, scale = len(str(np.iinfo(given.to_pandas_dtype()).max)), 0
        scale = max(scale, own.scale)
        precision = max(digits, own.precision - own.scale) + scale
        if precision <= 76:
            yield pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


def _fits(array: pa.Array, type_: pa.DataType) -> bool:
    """Whether all values are of a type."""
    if array.null_count == len(array) or array.type == type_:
        return True
    if not castable(array.type, type_):
        return False
    try:
        cast(array, type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def _beyond(array: pa.Array, type_: pa.DataType) -> Any:
    """Return which integers lie outside an integer type; a null does not."""
    values, inside = values_of(array), np.iinfo(type_.to_pandas_dtype())
    wide = np.iinfo(values.dtype)
    outside = np.zeros(len(values), dtype=bool)
    if inside.min > wide.min:
        outside |= values < inside.min
    if inside.max < wide.max:
        outside |= values > inside.max
    return outside & values_of(array.is_valid()) if array.null_count else outside


def _ends(array: pa.Array) -> tuple[int, int]:
    """Return the earliest and the latest of some times, as whole numbers of their unit."""
    whole = values_of(array.view(pa.int32() if array.type.bit_width == 32 else pa.int64()))
    return int(whole.min()), int(whole.max())


def nanoseconds_in(type_: pa.DataType) -> int:
    """Return how many nanoseconds one of a time type's units has."""
    if pa.types.is_timestamp(type_):
        return _NANOSECONDS[type_.unit]
    return _DAY if pa.types.is_date32(type_) else _NANOSECONDS["ms"]


def _is_time(type_: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type_) or pa.types.is_date(type_))


def _is_noted(type_: pa.DataType) -> bool:
    """Whether the values of a column decide how far it may widen."""
    if pa.types.is_integer(type_):
        return bool(type_.bit_width == 64)
    return _is_time(type_) and type_ != pa.timestamp("ns", getattr(type_, "tz", None))
