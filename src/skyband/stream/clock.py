"""Event time as one integer that sorts as time does.

A timestamp or a date is nanoseconds since 1970 UTC (a naive one is UTC), which holds the years 1677 to 2262; a
row outside that is rejected. So is a number whose unit is given: whole numbers stay exact, fractions are rounded to a
nanosecond. A number without a unit is seconds: a float64 whose bits are turned into an integer of the same order, so
that nothing is rounded. A monitor has one kind of time for all its streams; only the units of numbers may differ.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.core.errors import InputError
from skyband.core.types import MINIMUM, Ints
from skyband.stream.arrow import numbers_array, values_of

Kind = Literal["timestamp", "number", "s", "ms", "us", "ns"]
"""What times are: timestamps, numbers of seconds as float64, or numbers of a unit that was given."""
UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_DAY = 86_400_000_000_000
_LOW, _HIGH = -(2**63) + 2, 2**63 - 2
_DATES = 631_152_000, 4_102_444_800  # the seconds of 1990 and of 2100
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def kind_of(type_: pa.DataType, column: str, unit: Kind | None = None) -> Kind:
    """Return which kind of time a column has, if it is in this unit; an error if it has none."""
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        if unit is not None:
            raise InputError(
                f'time_unit= is for a column of numbers, and the time column "{column}" is {type_}: leave it out.'
            )
        return "timestamp"
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return unit or "number"
    raise InputError(
        f'The time column "{column}" is {type_}; it must be a timestamp, a date, or a number of seconds: '
        "cast it, or give the type with schema=."
    )


def unit_of(given: Any) -> Kind:
    """A unit of time as it was given."""
    if given not in tuple(UNITS):
        raise InputError(
            f"time_unit= must be s, ms, us or ns, or one of them for each stream by name, not {given!r}."
        )
    unit: Kind = given
    return unit


def finest(units: Iterable[Kind]) -> Kind:
    """Return the unit that holds whole numbers of all these."""
    return min(units, key=lambda unit: UNITS[unit])


def common_kind(kind: Kind, other: Kind, column: str) -> Kind:
    """Return the kind of a monitor's time, whose streams have two kinds; an error if they can't be compared."""
    if kind in UNITS and other in UNITS:
        return finest((kind, other))
    said = [f"in {known}" if known in UNITS else f"a {known}" for known in (kind, other)]
    advice = "give both a unit (time_unit=)" if "timestamp" not in (kind, other) else "cast one of them"
    raise InputError(f'The time column "{column}" is {said[0]} and another stream\'s is {said[1]}: {advice}.')


def keys_of(array: pa.Array, kind: Kind) -> tuple[Ints, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Time keys of a column and which of them are missing or out of range."""
    if pa.types.is_null(array.type):
        return np.zeros(len(array), dtype=np.int64), np.ones(len(array), dtype=bool)
    missing = values_of(array.is_null()) if array.null_count else np.zeros(len(array), dtype=bool)
    if kind == "number":
        values = values_of(pc.cast(array, pa.float64(), safe=False))
        return number_keys(values), missing | ~np.isfinite(values)
    if kind in UNITS:
        return _whole_keys(array, missing, UNITS[kind])
    if pa.types.is_date(array.type):
        array = pc.cast(array, pa.timestamp("ms"))
    unit = UNITS[array.type.unit]
    raw = values_of(array.view(pa.int64()))
    if unit == 1:
        return np.ascontiguousarray(raw), missing
    if raw.max(initial=0) > _HIGH // unit or raw.min(initial=0) < _LOW // unit:
        beyond = (raw > _HIGH // unit) | (raw < _LOW // unit)
        return np.where(beyond, 0, raw) * unit, missing | beyond
    return raw * unit, missing


class Keys(NamedTuple):
    """The time keys of rows that all have a time, whether they are in order, and the earliest and the latest."""

    time: Ints
    in_order: bool
    first: int
    last: int


def all_keys(array: pa.Array, kind: Kind) -> Keys | None:
    """Return the keys of a column of times, in as few passes as can be; None if one is missing or out of range."""
    if not len(array) or array.null_count:
        return None
    if kind == "number" and pa.types.is_float64(array.type):
        values = values_of(array)
        in_order = bool((values[1:] >= values[:-1]).all())  # never with a NaN among several
        low, high = (values[0], values[-1]) if in_order else (values.min(), values.max())
        if not (math.isfinite(low) and math.isfinite(high)):
            return None
        time = (values + 0.0).view(np.int64) if low >= 0 else number_keys(values)
        return Keys(time, in_order, number_key(float(low)), number_key(float(high)))
    time, missing = keys_of(array, kind)
    if missing.any():
        return None
    in_order = bool((time[1:] >= time[:-1]).all())
    first, last = (time[0], time[-1]) if in_order else (time.min(), time.max())
    return Keys(time, in_order, int(first), int(last))


def stamps(keys: Ints, kind: Kind, type_: pa.DataType) -> Any:
    """Return keys as the numbers that a column of this type has in its memory; None if they are not its whole value."""
    if kind == "number" and pa.types.is_float64(type_):
        return numbers_of(keys)
    if kind == "timestamp" and pa.types.is_timestamp(type_):
        return keys // UNITS[type_.unit]
    if kind in UNITS and pa.types.is_int64(type_):
        return keys // UNITS[kind]
    return None


def _whole_keys(
    array: pa.Array, missing: np.ndarray[Any, np.dtype[np.bool_]], unit: int
) -> tuple[Ints, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Numbers of a unit as nanoseconds; those that no int64 holds are out of range."""
    about = values_of(pc.cast(array, pa.float64(), safe=False))
    # as doubles the ends are powers of two; what lies within a double of them is looked at as integers below
    missing = missing | ~(np.abs(about) < 2.0**63 / unit)
    if missing.any():
        array = pc.if_else(numbers_array(missing), pa.scalar(0, array.type), array)
    if pa.types.is_integer(array.type):
        whole, rest = values_of(pc.cast(array, pa.int64())), None
    else:
        floor = pc.floor(array)
        whole = values_of(pc.cast(floor, pa.int64(), safe=False))
        parts = values_of(pc.cast(pc.subtract(array, floor), pa.float64(), safe=False))
        rest = np.rint(parts * unit).astype(np.int64)
    beyond = (whole > _HIGH // unit - 1) | (whole < _LOW // unit + 1)
    keys = np.where(beyond, 0, whole) * unit
    return keys if rest is None else keys + rest, missing | beyond


def number_keys(values: np.ndarray[Any, np.dtype[np.float64]]) -> Ints:
    """Integers in the order of these numbers; -0.0 and 0.0 are one."""
    bits = (values + 0.0).view(np.int64)
    return np.where(bits >= 0, bits, bits ^ np.int64(2**63 - 1))


def number_key(value: float) -> int:
    """`number_keys` of one number."""
    bits: int = struct.unpack("<q", struct.pack("<d", value + 0.0))[0]
    return bits if bits >= 0 else bits ^ (2**63 - 1)


def key(value: Any, kind: Kind) -> int:
    """Return the key of a Python value: datetime, date, numpy or pandas timestamp, ISO text, or seconds."""
    if kind == "number":
        seconds = (
            _nanoseconds(value) / 1e9 if not isinstance(value, int | float | np.number) else float(value)
        )
        if not math.isfinite(seconds):
            raise InputError(f"{value!r} is not a time; give a finite number of seconds.")
        return number_key(seconds)
    if kind in UNITS and isinstance(value, int | float | np.number) and not isinstance(value, bool):
        nanoseconds = _scaled(value, kind)
    else:
        nanoseconds = _nanoseconds(value)
    if not _LOW <= nanoseconds <= _HIGH:
        raise InputError(f"{value!r} lies outside the years 1677 to 2262 that event times can have.")
    return nanoseconds


def _scaled(value: Any, kind: Kind) -> int:
    """Return a number of a unit as nanoseconds."""
    if isinstance(value, int | np.integer):
        return int(value) * UNITS[kind]
    if not math.isfinite(value):
        raise InputError(f"{value!r} is not a time; give a finite number of {kind}.")
    whole = math.floor(value)
    return int(whole * UNITS[kind] + round((float(value) - whole) * UNITS[kind]))


def seconds(value: Any) -> float:
    """Any value that `key` takes, as seconds: to compare two before the kind of time is known."""
    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        return number_of(key(value, "number"))
    return key(value, "timestamp") / 1e9


def pending_key(value: Any, kind: Kind) -> int:
    """Return the key of a time that was taken before its kind was known; seconds that no timestamp can have are its
    last."""
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
    """Return a key as a person reads it."""
    if kind == "number":
        return number_of(time_key)
    if kind in UNITS:
        whole, rest = divmod(time_key, UNITS[kind])
        return whole + rest / UNITS[kind] if rest else whole
    return _EPOCH + dt.timedelta(microseconds=time_key // 1000)


def likely_unit(seconds: float) -> Kind | None:
    """The unit in which a number beyond 10^11 is a date of 1990 to 2100; None: seconds, or no unit."""
    if seconds <= 1e11:
        return None
    finer: tuple[Kind, ...] = ("ms", "us", "ns")
    dates = (unit for unit in finer if _DATES[0] <= seconds * UNITS[unit] / 1e9 < _DATES[1])
    return next(dates, None)


def odd_unit(ordered: Ints, alone: bool) -> tuple[int, str] | None:
    """Say of a first batch's times, numbers without a unit, in which one they are dates: how many, and a hint.

    0 stands for all of them: most are dates in another unit than seconds. If `alone`, some among others count too.
    """
    for place in (len(ordered) // 2, -1) if alone else (len(ordered) // 2,):
        seconds = number_of(int(ordered[place]))
        unit = likely_unit(seconds)
        if unit is None:
            continue
        date = value_of(int(seconds * UNITS[unit]), "timestamp")
        said = f"{seconds:.0f} in {unit} is {date:%Y-%m-%d}, and it is taken as seconds"
        if place >= 0:
            return 0, f'{said}: give time_unit="{unit}" (--time-unit {unit})'
        few = len(ordered) - int(np.searchsorted(ordered, number_key(1e11), side="right"))
        return (
            few,
            f"{said} as the other times are: mend it, or let such rows wait by max_ahead= (--max-ahead)",
        )
    return None


def between(earlier: int, later: int, kind: Kind) -> float:
    """Return the nanoseconds between two times."""
    return 1e9 * (number_of(later) - number_of(earlier)) if kind == "number" else float(later - earlier)


def minus(time_key: int, nanoseconds: int, kind: Kind) -> int:
    """Return the key of a time this much earlier."""
    if kind == "number":
        return number_key(number_of(time_key) - nanoseconds / 1e9)
    return max(time_key - nanoseconds, MINIMUM + 1)


def plus(time_key: int, nanoseconds: int, kind: Kind) -> int:
    if kind == "number":
        return number_key(number_of(time_key) + nanoseconds / 1e9)
    return min(time_key + nanoseconds, 2**63 - 1)


def common_type(types: list[pa.DataType], several_units: bool = False) -> pa.DataType:
    """Return a type that holds the times of all these columns."""
    if several_units:
        return pa.int64() if all(pa.types.is_integer(type_) for type_ in types) else pa.float64()
    if all(type_ == types[0] for type_ in types):
        return types[0]
    if not any(pa.types.is_timestamp(type_) or pa.types.is_date(type_) for type_ in types):
        return pa.float64()
    units = [type_.unit for type_ in types if pa.types.is_timestamp(type_)] or ["s"]
    zoned = any(pa.types.is_timestamp(type_) and type_.tz for type_ in types)
    return pa.timestamp(min(units, key=lambda unit: UNITS[unit]), "UTC" if zoned else None)


def column(keys: Ints, kind: Kind, type_: pa.DataType) -> pa.Array:
    """Keys as a column of the stream's own time type."""
    if kind == "number":
        return pc.cast(numbers_array(numbers_of(keys)), type_, safe=False)
    if kind in UNITS:
        whole, rest = np.divmod(keys, UNITS[kind])
        exact = pa.types.is_integer(type_)
        return pc.cast(numbers_array(whole if exact else whole + rest / UNITS[kind]), type_, safe=False)
    if pa.types.is_date(type_):
        return pc.cast(numbers_array(keys // _DAY).cast(pa.int32()), pa.date32()).cast(type_)
    return numbers_array(keys // UNITS[type_.unit]).view(type_)
