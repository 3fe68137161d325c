"""Columns of a DataFrame: by their names, whatever is in those, and their types in Arrow.

PySpark has such a table of types too, in a module that it doesn't document and that changes with its versions.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TYPES = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
_LIKE = {  # the beginning of a name with parameters
    "string ": pa.string(),
    "interval day": pa.duration("us"),
    "interval hour": pa.duration("us"),
    "interval minute": pa.duration("us"),
    "interval second": pa.duration("us"),
    "time(": pa.time64("ns"),
}


def arrow_type(kind: Any) -> pa.DataType | None:
    """Return the Arrow type of a type of Spark's; None if no query can use it."""
    name = kind.jsonValue()
    if not isinstance(name, str):  # nested
        return None
    digits = re.fullmatch(r"decimal\((\d+),(\d+)\)", name)
    if digits is not None:
        return pa.decimal128(int(digits[1]), int(digits[2]))
    return _TYPES.get(name) or next((to for begins, to in _LIKE.items() if name.startswith(begins)), None)


def spark_type(kind: pa.DataType) -> str:
    """Return the name of Spark's type for an Arrow type that a result has."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if pa.types.is_duration(kind):
        return "interval day to second"
    if pa.types.is_time(kind):
        return "time(6)"
    return next((name for name, to in _TYPES.items() if to == kind), "string")


def quoted(name: str) -> str:
    """A column by its name, whatever it has in it."""
    return "`" + name.replace("`", "``") + "`"


def numbered_columns(df: DataFrame, names: list[str]) -> DataFrame:
    """These columns under names that `mapInArrow` knows what to do with: it takes a dot or a backtick in one amiss."""
    return df.select(*map(quoted, names)).toDF(*(f"c{number}" for number in range(len(names))))
