"""What an object is called: the text of its key, or the JSON array of several keys.

An array is more than a name. It is the very key by which rows find their object, and the selected key columns are read
from it again, so equal values have equal texts, different values different ones, and every text leads back to its value
with the column's own type:

- whole numbers, truths and texts are JSON's own; so are other numbers, where -0.0 is 0.0, which it equals;
- infinities, which JSON doesn't have, are "Infinity" and "-Infinity", as everywhere else in skyband;
- dates and times are texts as Python writes them; those that Python or Arrow can't write or read again (years beyond
  9999, offsets with seconds) are the column's whole number, as durations are always;
- decimals are texts, with all their digits;
- bytes are the text that they are in UTF-8, with \\xff for a byte that belongs to none and \\x5c for the backslash.

A column's values are written once for each that is different in a batch; the arrays are put together by Arrow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.stream.arrow import json_value, numbers_array, texts_array, values_of

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d+)?([+-]\d\d:\d\d)?)?")
_TIME_OF_DAY = re.compile(r"\d\d:\d\d:\d\d(\.\d+)?")
_JSON = json.JSONEncoder(ensure_ascii=False).encode
_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")
_MICROSECONDS = len("1970-01-01 00:00:00.000000")


def text_ids(array: pa.Array) -> list[str]:
    """Return the text of each key."""
    if _is_bytes(array.type):
        return [_text_of_bytes(value) for value in array.to_pylist()]
    return [str(text) for text in pc.cast(array, pa.string()).to_pylist()]


def array_ids(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the JSON array of each row's keys, of which none is null."""
    inside = pc.binary_join_element_wise(*map(_texts_of, columns), ", ")
    return pc.binary_join_element_wise("[", inside, "]", "")


def values_in(arrays: pa.Array, at: int, type_: pa.DataType | None) -> pa.Array:
    """Return the values that stand at one place of JSON arrays; without a type the one that they seem to have."""
    words = [json.loads(text)[at] for text in arrays.to_pylist()]
    if type_ is not None and pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if type_ is None or pa.types.is_null(type_):
        return pa.array(words)
    if pa.types.is_floating(type_):
        return pa.array([float(word) for word in words], pa.float64()).cast(type_)
    if pa.types.is_decimal(type_):
        return pa.array(words, pa.string()).cast(type_)
    if pa.types.is_temporal(type_):
        return _moments_of(words, type_)
    if _is_bytes(type_):
        words = [_bytes_of_text(word) for word in words]
    return pa.array(words, type_)


def _texts_of(column: pa.Array) -> pa.Array:
    """Return the JSON text of each value."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        return pc.cast(column, pa.string())
    coded = column.dictionary_encode()
    return texts_array([_JSON(value) for value in _written(coded.dictionary)]).take(coded.indices)


def _written(values: pa.Array) -> list[Any]:
    """Values as JSON has them."""
    type_ = values.type
    if pa.types.is_floating(type_):
        return [json_value(value + 0.0) for value in values.to_pylist()]
    if pa.types.is_decimal(type_):
        return [str(value) for value in values.to_pylist()]
    if pa.types.is_temporal(type_):
        return _written_moments(values)
    if _is_bytes(type_):
        return [_text_of_bytes(value) for value in values.to_pylist()]
    return list(values.to_pylist())


# -- bytes -------------------------------------------------------------------------------------------------------


def _is_bytes(type_: pa.DataType) -> bool:
    kinds = (
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_fixed_size_binary,
        pa.types.is_binary_view,
    )
    return any(kind(type_) for kind in kinds)


def _text_of_bytes(value: bytes) -> str:
    return value.replace(b"\\", b"\\x5c").decode("utf-8", "backslashreplace")


def _bytes_of_text(text: str) -> bytes:
    return _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), text.encode())


# -- dates and times ---------------------------------------------------------------------------------------------


def _whole(type_: pa.DataType) -> pa.DataType:
    """Return what Arrow keeps a date or time as."""
    return pa.int32() if type_.bit_width == 32 else pa.int64()


def _written_moments(values: pa.Array) -> list[str | int]:
    type_ = values.type
    whole = values.view(_whole(type_)).to_pylist()
    if pa.types.is_duration(type_):
        return list(whole)
    if pa.types.is_time(type_):
        texts, form = pc.cast(values, pa.string()).to_pylist(), _TIME_OF_DAY
    elif pa.types.is_timestamp(type_) and type_.unit == "ns":
        texts, form = _nanoseconds(values), _MOMENT
    else:
        texts, form = [_text_of_moment(value) for value in values], _MOMENT
    return [text if form.fullmatch(text) else number for text, number in zip(texts, whole, strict=True)]


def _text_of_moment(value: pa.Scalar) -> str:
    try:
        return str(value.as_py())
    except (OverflowError, ValueError, KeyError):  # no such year, or no such time zone
        return ""


def _nanoseconds(values: pa.Array) -> list[str]:
    """Python's times have none (pandas would be loaded for them), so they are put behind the microseconds."""
    whole = values_of(values.view(pa.int64()))
    times = numbers_array(whole // 1000).view(pa.timestamp("us", values.type.tz))
    texts = []
    for time, rest in zip(times, (whole % 1000).tolist(), strict=True):
        text = _text_of_moment(time)
        if rest and text:
            text = time.as_py().isoformat(" ", "microseconds")
            text = f"{text[:_MICROSECONDS]}{rest:03d}{text[_MICROSECONDS:]}"
        texts.append(text)
    return texts


def _moments_of(words: list[str | int], type_: pa.DataType) -> pa.Array:
    """Return what `_written_moments` was given."""
    whole = pa.array([None if isinstance(word, str) else word for word in words], _whole(type_)).view(type_)
    texts = [word if isinstance(word, str) else None for word in words]
    if not any(texts):
        return whole
    if pa.types.is_time(type_):  # which Arrow doesn't read, but as part of a day
        days = pa.array([None if text is None else f"1970-01-01 {text}" for text in texts], pa.string())
        since = days.cast(pa.timestamp(type_.unit)).view(pa.int64())
        read = since.cast(_whole(type_)).view(type_)
    elif pa.types.is_timestamp(type_):  # Python writes six digits, of which Arrow takes no more than fit
        finest = pa.timestamp("ns" if type_.unit == "ns" else "us", type_.tz)
        read = pa.array(texts, pa.string()).cast(finest).cast(type_)
    else:
        read = pa.array(texts, pa.string()).cast(type_)
    return pc.coalesce(whole, read)
