"""Protobuf values: messages of a schema that a registry knows, read and written.

The registry gives the file of a message as a serialized descriptor; a value begins with the place of its message in
the file. A column is a field of the message: a field that knows whether it was set is null where it was not.
Timestamps and wrapped values are read as what they stand for, an enum as the name of its value.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import pyarrow as pa

from .registry import (
    Kind,
    NoSchema,
    Schema,
    rows_of,
)

_PLAIN = {
    "INT32 SINT32 SFIXED32": pa.int32(),
    "INT64 SINT64 SFIXED64": pa.int64(),
    "UINT32 FIXED32": pa.uint32(),
    "UINT64 FIXED64": pa.uint64(),
    "DOUBLE": pa.float64(),
    "FLOAT": pa.float32(),
    "BOOL": pa.bool_(),
    "STRING ENUM": pa.string(),
    "BYTES": pa.binary(),
}
_TIME = "google.protobuf.Timestamp"
_WRAPPED = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
_WRAPPERS = [f"google.protobuf.{name}Value" for name in _WRAPPED]


class ProtobufReader:
    """Reads values of one schema."""

    def __init__(self, schema: Schema) -> None:
        from google.protobuf import descriptor_pb2, descriptor_pool

        pool = descriptor_pool.DescriptorPool()
        try:
            for file in _well_known():
                pool.Add(file)
            for name, text in (*schema.needed, ("", schema.text)):
                file = descriptor_pb2.FileDescriptorProto()
                file.ParseFromString(base64.b64decode(text, validate=True))
                file.name = name or file.name or "main.proto"
                pool.Add(file)
            self._file = pool.FindFileByName(file.name)
        except Exception as problem:  # of many kinds, and none is ours
            raise NoSchema(f"its schema can't be read as a serialized descriptor: {problem}") from None
        self._kinds: dict[bytes, Kind] = {}

    def kind_of(self, value: bytes) -> tuple[Kind, bytes]:
        """Return the message that a value is one of, and its bytes."""
        path, size = _path(value)
        key = value[:size]
        if key not in self._kinds:
            self._kinds[key] = self._kind(path)
        return self._kinds[key], value[size:]

    def _kind(self, path: list[int]) -> Kind:
        from google.protobuf.message_factory import GetMessageClass

        found: Any = None
        messages = [*self._file.message_types_by_name.values()]
        for place in path:
            if not 0 <= place < len(messages):
                raise NoSchema(f"its schema has no message at {path}")
            found = messages[place]
            messages = [*found.nested_types]
        made = GetMessageClass(found)
        readers = {field.name: (_type(field), _reader(field)) for field in found.fields}

        def row(value: bytes, names: Sequence[str]) -> list[Any]:
            message = made.FromString(value)
            return [readers[name][1](message) for name in names]

        return Kind({name: kind for name, (kind, _) in readers.items()}, row)


def protobuf_text(name: str, schema: pa.Schema) -> str:
    """Return the file of one message for a writable table, serialized; every field knows whether it was set."""
    return base64.b64encode(_file(name, schema).SerializeToString()).decode()


def protobuf_values(name: str, table: pa.Table) -> Iterator[bytes]:
    """Yield each row of a writable table as a value of `protobuf_text`, behind the place of its message."""
    from google.protobuf import descriptor_pool
    from google.protobuf.message_factory import GetMessageClass

    pool = descriptor_pool.DescriptorPool()
    for file in (*_well_known(), _file(name, table.schema)):
        pool.Add(file)
    made: Any = GetMessageClass(pool.FindMessageTypeByName(f"skyband.{name}"))
    units = {
        f.name: 10**9 if f.type.unit == "ns" else 10**6 for f in table.schema if pa.types.is_timestamp(f.type)
    }
    for row in rows_of(table):
        message = made()
        for field, value in row.items():
            if value is not None and field in units:
                seconds, parts = divmod(value, units[field])
                time = getattr(message, field)
                time.seconds, time.nanos = seconds, parts * (10**9 // units[field])
            elif value is not None:
                setattr(message, field, value)
        yield b"\0" + message.SerializeToString()


def _file(name: str, schema: pa.Schema) -> Any:
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(
        name=f"skyband_{name}.proto",
        package="skyband",
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto"],
    )
    message = file.message_type.add(name=name)
    for number, field in enumerate(schema, 1):
        timed = pa.types.is_timestamp(field.type)
        kind = "MESSAGE" if timed else str(field.type).upper()
        made = message.field.add(
            name=field.name,
            number=number,
            label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
            type=getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{kind}"),
            type_name=f".{_TIME}" if timed else None,
        )
        if not timed:
            made.proto3_optional, made.oneof_index = True, len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")
    return file


def _well_known() -> list[Any]:
    """Return the files that may be imported without being in the registry."""
    from google.protobuf import (
        any_pb2,
        descriptor_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )

    modules: list[Any] = [
        any_pb2,
        descriptor_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
    ]
    found = []
    for module in (*modules, wrappers_pb2):
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        found.append(file)
    return found


def _path(value: bytes) -> tuple[list[int], int]:
    """Return the place of the value's message in its file, and the size of that: zigzag numbers, their count first."""
    numbers: list[int] = []
    place, wanted = 0, 1
    while len(numbers) < wanted:
        number = shift = 0
        while True:
            if place >= len(value) or shift > 28:
                raise ValueError("it ends before its message")
            byte = value[place]
            number |= (byte & 0x7F) << shift
            place, shift = place + 1, shift + 7
            if byte < 0x80:
                break
        numbers.append((number >> 1) ^ -(number & 1))
        wanted = 1 + max(0, min(numbers[0], 64))
    return numbers[1:] or [0], place


def _type(field: Any) -> pa.DataType | None:
    """Return the Arrow type of a field; None if it is nested or repeated."""
    if field.is_repeated:
        return None
    if field.message_type is not None:
        name = field.message_type.full_name
        if name == _TIME:
            return pa.timestamp("ns", "UTC")
        return _type(field.message_type.fields_by_name["value"]) if name in _WRAPPERS else None
    names = {getattr(field, f"TYPE_{name}"): kind for names, kind in _PLAIN.items() for name in names.split()}
    return names.get(field.type)


def _reader(field: Any) -> Callable[[Any], Any]:
    """Return a function from a message to the value of a field."""
    name = field.name
    if field.is_repeated:
        return lambda message: [*getattr(message, name)]
    message_type = field.message_type
    read: Callable[[Any], Any] = attrgetter(name)
    if message_type is not None and message_type.full_name == _TIME:
        seconds, nanos = attrgetter(f"{name}.seconds"), attrgetter(f"{name}.nanos")
        read = lambda message: seconds(message) * 10**9 + nanos(message)  # noqa: E731
    elif message_type is not None and message_type.full_name in _WRAPPERS:
        read = attrgetter(f"{name}.value")
    elif field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        number = attrgetter(name)
        read = lambda message: names.get(number(message), str(number(message)))  # noqa: E731
    if not field.has_presence:
        return read
    return lambda message: read(message) if message.HasField(name) else None
