"""Spark's types in Arrow, and back: as PySpark itself has them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as t
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from skyband.spark.dataframe.columns import arrow_type, spark_type

PLAIN = [
    t.ByteType(), t.ShortType(), t.IntegerType(), t.LongType(), t.FloatType(), t.DoubleType(), t.DecimalType(10, 2),
    t.StringType(), t.StringType("UNICODE"), t.BinaryType(), t.BooleanType(), t.DateType(), t.TimestampType(),
    t.TimestampNTZType(), t.NullType(), t.DayTimeIntervalType(), t.DayTimeIntervalType(1, 2), t.TimeType(),
]  # fmt: skip


@pytest.mark.parametrize("kind", PLAIN, ids=str)
def test_types_there_and_back(kind: t.DataType) -> None:
    row = t.StructType([t.StructField("x", kind)])
    to = arrow_type(kind)
    assert to == to_arrow_schema(row, timezone="UTC").field("x").type
    assert t.StructType().add("x", spark_type(to)) == from_arrow_schema(
        pa.schema([("x", to)]), prefer_timestamp_ntz=True
    )


NESTED = [t.ArrayType(t.LongType()), t.MapType(t.StringType(), t.LongType()), t.StructType(), t.VariantType()]


@pytest.mark.parametrize("kind", NESTED, ids=str)
def test_columns_that_no_query_can_use(kind: t.DataType) -> None:
    assert arrow_type(kind) is None


@pytest.mark.parametrize(
    "kind",
    [
        pa.large_string(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.timestamp("ns"),
        pa.timestamp("s", "Asia/Tokyo"),
    ],
    ids=str,
)
def test_types_of_results(kind: pa.DataType) -> None:
    like = from_arrow_schema(pa.schema([("x", kind)]), prefer_timestamp_ntz=True)
    assert t.StructType().add("x", spark_type(kind)) == like
