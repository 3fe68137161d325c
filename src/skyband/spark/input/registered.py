"""Values that are written with a schema registry: one row each.

A value names its schema by number, and the number's reader (`avro`, `protobuf`) makes it a row. Readers are kept for as
long as the process lives. Neighbours of one schema become one table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import pyarrow as pa

from skyband.core.errors import InputError
from skyband.files.rows import BadRow, Chunk, set_aside, text_of

from .registry import Kind, NoSchema, Registry


class Reader(Protocol):
    """Reads values of one schema."""

    def kind_of(self, value: bytes) -> tuple[Kind, bytes]:
        """Return what a value is one of, and what of it its `row` takes."""


_READERS: dict[tuple[str, str, int], Reader] = {}


def reader_of(registry: str, form: str, number: int) -> Reader | str:
    """Return the reader of a schema's values, or why there is none."""
    key = registry, form, number
    if key not in _READERS:
        try:
            schema = Registry(registry).schema(number, form)
            if form == "avro":
                from .avro import AvroReader

                _READERS[key] = AvroReader(schema)
            else:
                from .protobuf import ProtobufReader

                _READERS[key] = ProtobufReader(schema)
        except NoSchema as why:
            return f"schema {number}: {why}"
    return _READERS[key]


class _Run:
    """Neighbouring values of one kind, and bad ones among them."""

    def __init__(self, first: int, kind: Kind | None, schema: pa.Schema) -> None:
        self.first, self.kind, self._schema = first, kind, schema
        self.names = [] if kind is None else [name for name in schema.names if name in kind.columns]
        self.rows: list[list[Any]] = []
        self.places: list[int] = []
        self.bad: dict[int, BadRow] = {}

    def reject(self, place: int, detail: str, raw: str) -> None:
        self.bad.setdefault(place, BadRow(place, detail, raw))

    def chunk(self) -> Chunk:
        """Return the rows; those with a value that has no place in its column are bad."""
        columns = {}
        for number, name in enumerate(self.names):
            assert self.kind is not None
            to = self.kind.columns[name] or self._schema.field(name).type
            columns[name], misfits = _column([row[number] for row in self.rows], to)
            for misfit in misfits:
                self.reject(self.places[misfit], f"the value of '{name}' is no {to}", str(self.rows[misfit]))
        if not columns:  # a column that is missing is null
            field = self._schema.field(0)
            columns[field.name] = pa.nulls(len(self.rows), field.type)
        return set_aside(pa.table(columns), self.bad, self.places)


def registered_values(
    form: str, registry: str, values: pa.BinaryArray, schema: pa.Schema
) -> Iterator[tuple[int, Chunk]]:
    """A row for each value that is written with a registry; neighbours of one kind go together."""
    readers: dict[bytes, Reader | str] = {}  # by the schema's number, with which a value begins
    run = _Run(0, None, schema)
    for place, value in enumerate(values.to_pylist()):
        try:
            kind, rest = _kind_of(value, readers, registry, form)
            if kind is not run.kind:
                if run.rows:
                    yield run.first, run.chunk()
                    run = _Run(place, kind, schema)
                else:  # of those before it none could be read
                    before, run = run, _Run(run.first, kind, schema)
                    run.bad = before.bad
            row = kind.row(rest, run.names)
        except InputError:
            raise  # the registry's
        except Exception as problem:  # each library has its own, and odd bytes lead to more
            why = str(problem) if isinstance(problem, NoSchema) else f"not a value of its schema: {problem}"
            run.reject(place - run.first, why, text_of(value or b""))
            continue
        run.rows.append(row)
        run.places.append(place - run.first)
    if run.rows or run.bad:
        yield run.first, run.chunk()


def _kind_of(
    value: bytes | None, readers: dict[bytes, Reader | str], registry: str, form: str
) -> tuple[Kind, bytes]:
    """Return what a value is one of, and what of it is to be read."""
    if not value:
        raise NoSchema("the record has no value")
    if len(value) < 5 or value[0]:
        raise NoSchema("the value doesn't begin with the number of a schema")
    number = value[1:5]
    if number not in readers:
        readers[number] = reader_of(registry, form, int.from_bytes(number))
    reader = readers[number]
    if isinstance(reader, str):
        raise NoSchema(reader)
    return reader.kind_of(value[5:])


def _column(values: list[Any], to: pa.DataType) -> tuple[pa.Array[Any], list[int]]:
    """Values as a column, and the places of those that can't be in it, which come out null."""
    try:
        return pa.array(values, to), []
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        misfits = []
    for place, value in enumerate(values):
        try:
            pa.scalar(value, to)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            misfits.append(place)
    wrong = {*misfits}
    return pa.array([None if place in wrong else value for place, value in enumerate(values)], to), misfits
