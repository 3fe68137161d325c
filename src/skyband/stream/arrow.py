"""Arrow arrays from numpy's memory and from texts, without a copy and without a detour.

`pyarrow.array` looks at its argument with pandas where that is installed, and loads it for the purpose, which takes
most of a second. What the engine makes is plain: numbers without nulls, and names.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_TYPES: dict[np.dtype[Any], pa.DataType] = {
    np.dtype(np.int64): pa.int64(),
    np.dtype(np.float64): pa.float64(),
    np.dtype(np.int32): pa.int32(),
    np.dtype(np.bool_): pa.bool_(),
}

_BYTES = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}

_DTYPES = {type_: dtype for dtype, type_ in _TYPES.items()}


def numbers_array(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return an array over the same memory; `missing` marks nulls."""
    values = np.ascontiguousarray(values)
    if values.dtype == bool:
        data = pa.py_buffer(np.packbits(values, bitorder="little"))
    else:
        data = pa.py_buffer(values)
    valid = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(_TYPES[values.dtype], len(values), [valid, data])


def texts_array(texts: Sequence[str]) -> pa.Array:
    parts = [text.encode() for text in texts]
    offsets = np.zeros(len(parts) + 1, dtype=np.int32)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    return pa.Array.from_buffers(
        pa.string(), len(parts), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(parts))]
    )


def values_of(array: pa.Array) -> npt.NDArray[Any]:
    """Return the numbers or truth values of an array, over the same memory where it can be; nulls are whatever is
    there."""
    n, offset = len(array), array.offset
    data = array.buffers()[1]
    if pa.types.is_boolean(array.type):
        if n == 0 or data is None:
            return np.zeros(n, dtype=bool)
        bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8), bitorder="little")
        return bits[offset : offset + n].astype(bool)
    dtype = _DTYPES.get(array.type) or np.dtype(array.type.to_pandas_dtype())
    if n == 0 or data is None:
        return np.zeros(n, dtype=dtype)
    return np.frombuffer(data, dtype=dtype)[offset : offset + n]


def python_value(value: pa.Scalar) -> Any:
    """Return a value to show. Python knows no year beyond 9999 and without pandas no nanoseconds: such a time is its
    text. So is what has bytes that are no text."""
    try:
        return value.as_py()
    except (ArithmeticError, ValueError):
        pass
    if isinstance(value, pa.StructScalar):
        return {name: python_value(part) for name, part in value.items()}
    if isinstance(value, pa.ListScalar):  # of whatever kind, and maps
        return [python_value(part) for part in value.values]
    text = value.cast(pa.string()).as_buffer().to_pybytes().decode("utf-8", "replace")
    if not pa.types.is_timestamp(value.type) or text.startswith("<"):
        return text
    return text.replace(" ", "T", 1)


def unreadable(array: pa.Array) -> list[int]:
    """Return where an array has bytes that are not UTF-8: neither making arrays nor reading Parquet checks it."""
    if _readable(array):
        return []
    found, stretches = [], [(0, len(array))]
    while stretches:
        start, stop = stretches.pop()
        if _readable(array.take(numbers_array(np.arange(start, stop)))):
            continue
        if stop - start == 1:
            found.append(start)
        else:
            middle = (start + stop) // 2
            stretches += [(middle, stop), (start, middle)]
    return found


def has_text(type_: pa.DataType) -> bool:
    """Whether values of a type are texts, or have some."""
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return True
    return any(has_text(type_.field(place).type) for place in range(type_.num_fields))


def _readable(array: pa.Array) -> bool:
    try:
        if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
            wide = np.dtype(np.int64 if pa.types.is_large_string(array.type) else np.int32)
            _, offsets, data = array.buffers()
            if data is None or not len(array):
                return True
            # a buffer may be longer than what it is for, by any number of bytes
            ends = np.frombuffer(offsets, wide, array.offset + len(array) + 1)
            first, last = ends[[array.offset, -1]].tolist()
            if data.slice(first, last - first).to_pybytes().isascii():  # far quicker than to look at each
                return True
        array.validate(full=True)
    except pa.ArrowInvalid as problem:
        return "UTF8" not in str(problem)
    return True


def python_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a table, to show."""
    try:
        return table.to_pylist()  # type: ignore[no-any-return]
    except (ArithmeticError, ValueError):
        columns = [[python_value(value) for value in column] for column in table.columns]
        return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def with_plain_times(table: pa.Table) -> pa.Table:
    """Return a table whose times Python knows: nanoseconds as microseconds, or as texts where that would lose
    something."""
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            column = table.column(place)
            try:
                plain = column.cast(pa.timestamp("us", field.type.tz))
            except pa.ArrowInvalid:
                plain = pc.replace_substring(column.cast(pa.string()), " ", "T")
            table = table.set_column(place, field.name, plain)
    return table


def json_rows(top: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a table as objects that JSON can hold."""
    return [{name: json_value(value) for name, value in row.items()} for row in python_rows(top)]


def json_value(value: Any) -> Any:
    """A value as JSON can say it: infinities are texts, NaN is null, times are ISO 8601, bytes are hexadecimal."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dt.date | dt.datetime):
        return value.isoformat()
    if isinstance(value, bool | int | float | str) or value is None:
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | tuple):
        return [json_value(part) for part in value]
    if isinstance(value, dict):
        return {str(name): json_value(part) for name, part in value.items()}
    return str(value)


def check_sound(table: pa.Table) -> None:
    """An error if an offset or an index leads out of its buffers: code that follows it reads anything, or crashes.
    Bytes that are no text are the matter of their rows alone; in the name of a time zone they are an error."""
    for type_ in table.schema.types:
        _check_zones(type_)
    try:
        table.validate(full=True)
    except pa.ArrowInvalid as problem:
        if "UTF8" not in str(problem):
            raise
        for column in table.columns:
            for chunk in column.chunks:
                _as_bytes(chunk).validate(full=True)


def _check_zones(type_: pa.DataType) -> None:
    if pa.types.is_timestamp(type_):
        _ = type_.tz  # decoded here, an error if it is no text
    elif pa.types.is_dictionary(type_):
        _check_zones(type_.value_type)
    for place in range(type_.num_fields):
        _check_zones(type_.field(place).type)


def _as_bytes(array: pa.Array) -> pa.Array:
    """Return the same buffers with bytes where they have text, which may be any."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array.indices.validate(full=True)
        return pa.DictionaryArray.from_arrays(array.indices, _as_bytes(array.dictionary), safe=False)
    return array.view(_bytes_type(array.type))


def _bytes_type(kind: pa.DataType) -> pa.DataType:
    for text, plain in _BYTES.items():
        if kind == text:
            return plain
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_bytes_type(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_bytes_type(kind.value_type)))
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_bytes_type(kind.value_type)))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_bytes_type(kind.value_type)), kind.list_size)
    return kind
