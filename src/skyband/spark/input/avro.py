"""Avro values: records of a schema that a registry knows, read and written.

A column is a field of the outermost record. Times, dates and decimals are read as what their logical types say; the
numbers below them are taken as they are, since Python's own times end at microseconds and at the year 9999.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from .registry import (
    Kind,
    NoSchema,
    Schema,
    rows_of,
)

_PLAIN = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_TIMES = {
    f"{before}timestamp-{name}": pa.timestamp(unit, zone)
    for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    for before, zone in (("", "UTC"), ("local-", None))
}
_LOGICAL = {**_TIMES, "date": pa.date32()}


class AvroReader:
    """Reads values of one schema."""

    def __init__(self, schema: Schema) -> None:
        import fastavro

        named: dict[str, Any] = {}
        try:
            for _, text in schema.needed:
                fastavro.parse_schema(_bare(json.loads(text)), named_schemas=named)
            top = json.loads(schema.text)
            self._schema = fastavro.parse_schema(_bare(top), named_schemas=named)
        except Exception as problem:  # of many kinds, and none is ours
            raise NoSchema(f"its schema can't be read: {problem}") from None
        if not isinstance(top, dict) or top.get("type") != "record":
            raise NoSchema("its schema is no record")
        self._read = fastavro.schemaless_reader
        self._kind = Kind({field["name"]: _type(field["type"]) for field in top["fields"]}, self._row)

    def kind_of(self, value: bytes) -> tuple[Kind, bytes]:
        """Return what a value is one of, and its bytes; there is one kind."""
        return self._kind, value

    def _row(self, value: bytes, names: Sequence[str]) -> list[Any]:
        source = io.BytesIO(value)
        row: Any = self._read(source, self._schema, None)
        if source.tell() != len(value):
            raise ValueError("it is longer than its schema says")
        return [row[name] for name in names]


def avro_text(name: str, schema: pa.Schema) -> str:
    """Return the schema of records of a writable table; every field may be null."""
    fields = [{"name": f.name, "type": ["null", _avro_type(f.type)], "default": None} for f in schema]
    return json.dumps({"type": "record", "name": name, "namespace": "skyband", "fields": fields})


def avro_values(name: str, table: pa.Table) -> Iterator[bytes]:
    """Yield each row of a writable table as a value of `avro_text`."""
    import fastavro

    schema = fastavro.parse_schema(json.loads(avro_text(name, table.schema)))
    for row in rows_of(table):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, row)
        yield out.getvalue()


def _avro_type(kind: pa.DataType) -> Any:
    if not pa.types.is_timestamp(kind):
        return {"int64": "long", "bool": "boolean"}.get(str(kind), str(kind))
    before = "" if kind.tz else "local-"
    return {"type": "long", "logicalType": f"{before}timestamp-{'nanos' if kind.unit == 'ns' else 'micros'}"}


def _bare(schema: Any) -> Any:
    """Return a schema without logical types but decimals."""
    if isinstance(schema, list):
        return [_bare(one) for one in schema]
    if isinstance(schema, dict):
        decimal = schema.get("logicalType") == "decimal"
        kept = {key: value for key, value in schema.items() if decimal or key != "logicalType"}
        return {key: _bare(value) if key in _DEEPER else value for key, value in kept.items()}
    return schema


_DEEPER = {"type", "fields", "items", "values"}


def _type(schema: Any) -> pa.DataType | None:
    """Return the Arrow type of a field; None if its values may be of several, or are nested."""
    if isinstance(schema, list):
        rest = [one for one in schema if one != "null"]
        return _type(rest[0]) if len(rest) == 1 else None
    if not isinstance(schema, dict):
        return _PLAIN.get(schema)
    logical = schema.get("logicalType")
    if logical == "decimal":
        digits, scale = schema.get("precision", 0), schema.get("scale", 0)
        if not 0 < digits <= 76:
            return None
        return pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)
    return _LOGICAL.get(str(logical)) or _type(schema["type"])
