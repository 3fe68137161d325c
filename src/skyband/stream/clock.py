"""Event time as one integer that sorts as time does.

A timestamp or a date is nanoseconds since 1970 UTC (a naive one is UTC), which holds the years 1677 to 2262; a
row outside that is rejected. A number of seconds is a float64 whose bits are turned into an integer of the
same order, so that nothing is rounded. A monitor has one kind of time for all its streams.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.core.errors import InputError
from skyband.core.types import MINIMUM, Ints
from skyband.stream.arrow import numbers_array, values_of

Kind = Literal["timestamp", "number"]
_UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_DAY = 86_400_000_000_000
_LOW, _HIGH = -(2**63) + 2, 2**63 - 2
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def kind_of(type_: pa.DataType, column: str) -> Kind:
    """Which kind of time a column has; an error if it has none."""
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        return "timestamp"
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return "number"
    raise InputError(
        f'The time column "{column}" is {type_}; it must be a timestamp, a date, or a number of seconds: '
        "cast it, or give the type with schema=."
    )


def keys_of(array: pa.Array, kind: Kind) -> tuple[Ints, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Time keys of a column and which of them are missing or can't be told."""
    missing = values_of(array.is_null()) if array.null_count else np.zeros(len(array), dtype=bool)
    if kind == "number":
        values = values_of(pc.cast(array, pa.float64(), safe=False))
        return number_keys(values), missing | ~np.isfinite(values)
    if pa.types.is_date(array.type):
        array = pc.cast(array, pa.timestamp("ms"))
    unit = _UNITS[array.type.unit]
    raw = values_of(pc.cast(array, pa.int64()))
    if unit == 1:
        return np.ascontiguousarray(raw, dtype=np.int64), missing
    beyond = (raw > _HIGH // unit) | (raw < _LOW // unit)
    if beyond.any():
        return np.where(beyond, 0, raw) * unit, missing | beyond
    return raw * unit, missing


def number_keys(values: np.ndarray[Any, np.dtype[np.float64]]) -> Ints:
    """Integers in the order of these numbers; -0.0 and 0.0 are one."""
    bits = (values + 0.0).view(np.int64)
    return np.where(bits >= 0, bits, bits ^ np.int64(2**63 - 1))


def key(value: Any, kind: Kind) -> int:
    """The key of a Python value: datetime, date, numpy or pandas timestamp, ISO text, or seconds."""
    if kind == "number":
        seconds = (
            _nanoseconds(value) / 1e9 if not isinstance(value, int | float | np.number) else float(value)
        )
        if not math.isfinite(seconds):
            raise InputError(f"{value!r} is not a time; give a finite number of seconds.")
        return int(number_keys(np.array([seconds]))[0])
    nanoseconds = _nanoseconds(value)
    if not _LOW <= nanoseconds <= _HIGH:
        raise InputError(f"{value!r} lies outside the years 1677 to 2262 that event times can have.")
    return nanoseconds


def seconds(value: Any) -> float:
    """Any value that `key` takes, as seconds: to compare two before the kind of time is known."""
    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        return number_of(key(value, "number"))
    return key(value, "timestamp") / 1e9


def pending_key(value: Any, kind: Kind) -> int:
    """The key of a time that was taken before its kind was known; seconds that no timestamp can have are its last."""
    if kind == "timestamp" and isinstance(value, int | float):
        value = max(_LOW / 1e9 + 1, min(value, _HIGH / 1e9 - 1))
    return key(value, kind)


def _nanoseconds(value: Any) -> int:
    try:
        if isinstance(value, np.datetime64):
            return int(value.astype("datetime64[ns]").astype(np.int64))
        if isinstance(value, str):
            value = dt.datetime.fromisoformat(value)
        if hasattr(value, "value") and hasattr(value, "nanosecond"):  # pandas.Timestamp
            return int(value.as_unit("ns").value)
        if isinstance(value, dt.datetime):
            aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
            return (aware - _EPOCH) // dt.timedelta(microseconds=1) * 1000
        if isinstance(value, dt.date):
            return (value - _EPOCH.date()).days * _DAY
        if isinstance(value, int | float | np.number) and not isinstance(value, bool):
            return (
                round(float(value) * 1e9)
                if isinstance(value, float | np.floating)
                else int(value) * 1_000_000_000
            )
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"{value!r} is not a time ({error}); give a datetime, ISO text or seconds."
        ) from None
    raise InputError(f"{value!r} is not a time; give a datetime, ISO text or a number of seconds.")


def numbers_of(keys: Ints) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Keys of numbers as the numbers they are."""
    return np.where(keys >= 0, keys, keys ^ np.int64(2**63 - 1)).view(np.float64)


def number_of(time_key: int) -> float:
    bits = time_key if time_key >= 0 else time_key ^ (2**63 - 1)
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])


def value_of(time_key: int, kind: Kind) -> dt.datetime | float:
    """A key as a person reads it."""
    if kind == "number":
        return number_of(time_key)
    return _EPOCH + dt.timedelta(microseconds=time_key // 1000)


def minus(time_key: int, nanoseconds: int, kind: Kind) -> int:
    """The key of a time this much earlier."""
    if kind == "number":
        return int(number_keys(np.array([number_of(time_key) - nanoseconds / 1e9]))[0])
    return max(time_key - nanoseconds, MINIMUM + 1)


def plus(time_key: int, nanoseconds: int, kind: Kind) -> int:
    if kind == "number":
        return int(number_keys(np.array([number_of(time_key) + nanoseconds / 1e9]))[0])
    return min(time_key + nanoseconds, 2**63 - 1)


def common_type(types: list[pa.DataType]) -> pa.DataType:
    """A type that holds the times of all these columns."""
    if all(type_ == types[0] for type_ in types):
        return types[0]
    if not any(pa.types.is_timestamp(type_) or pa.types.is_date(type_) for type_ in types):
        return pa.float64()
    units = [type_.unit for type_ in types if pa.types.is_timestamp(type_)] or ["s"]
    zoned = any(pa.types.is_timestamp(type_) and type_.tz for type_ in types)
    return pa.timestamp(min(units, key=lambda unit: _UNITS[unit]), "UTC" if zoned else None)


def column(keys: Ints, kind: Kind, type_: pa.DataType) -> pa.Array:
    """Keys as a column of the stream's own time type."""
    if kind == "number":
        return pc.cast(numbers_array(numbers_of(keys)), type_, safe=False)
    if pa.types.is_date(type_):
        return pc.cast(numbers_array(keys // _DAY).cast(pa.int32()), pa.date32()).cast(type_)
    return numbers_array(keys // _UNITS[type_.unit]).view(type_)
