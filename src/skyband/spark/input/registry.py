"""A schema registry with Confluent's interface over HTTP: schemas by their number, and numbers for schemas.

A value that is written with a registry begins with a zero byte and the number of its schema, four bytes. A schema never
changes under its number, so what is known of it is kept for as long as the process lives.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import pyarrow as pa

from skyband.core.errors import InputError

_TYPE = "application/vnd.schemaregistry.v1+json"
_TRIES = 3
_SECONDS = 10.0
KINDS = {"avro": "AVRO", "protobuf": "PROTOBUF"}


class NoSchema(Exception):
    """A registry has no schema of this number, or one that the values of a stream can't have."""


class Schema(NamedTuple):
    """A schema and those that it refers to, by the names that it has for them, each after those that it needs."""

    text: str
    needed: tuple[tuple[str, str], ...] = ()


class Kind(NamedTuple):
    """What all values of one schema are, or of one message of it."""

    columns: Mapping[str, pa.DataType | None]  # None: of several types, or nested
    row: Callable[[bytes, Sequence[str]], list[Any]]  # the columns of these names of a value


class Registry:
    """A registry at a URL, which may have a name and a password."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._headers = {"Accept": _TYPE, "Content-Type": _TYPE}
        host = parts.netloc
        if parts.username is not None:
            host = host.rpartition("@")[2]
            secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(secret.encode()).decode()}"
        self.url = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))

    def schema(self, number: int, kind: str) -> Schema:
        """Return the schema of a number; raise NoSchema if there is none of this kind."""
        found = self._ask(f"/schemas/ids/{number}", kind)
        if found is None:
            raise NoSchema("the registry does not have it")
        there = str(found.get("schemaType", "AVRO"))
        if there != KINDS[kind]:
            raise NoSchema(f"it is {there}, not {KINDS[kind]}")
        return Schema(str(found["schema"]), tuple(self._needed(found, kind, {})))

    def register(self, topic: str, kind: str, text: str) -> int:
        """Return the number of a schema for the values of a topic, which the registry gets if it doesn't know it."""
        body = {"schema": text, "schemaType": KINDS[kind]}
        found = self._ask(f"/subjects/{quote(topic, safe='')}-value/versions", body=body)
        if found is None or not isinstance(found.get("id"), int):
            raise InputError(f"The schema registry at {self.url} does not take schemas: see to the registry.")
        return int(found["id"])

    def _needed(self, found: dict[str, Any], kind: str, known: dict[str, str]) -> Iterator[tuple[str, str]]:
        for one in found.get("references") or ():
            if one["name"] in known:
                continue
            subject = quote(one["subject"], safe="")
            other = self._ask(f"/subjects/{subject}/versions/{one['version']}", kind)
            if other is None:
                raise NoSchema(f"the registry has no version {one['version']} of '{one['subject']}'")
            known[one["name"]] = str(other["schema"])
            yield from self._needed(other, kind, known)
            yield one["name"], known[one["name"]]

    def _ask(
        self, path: str, kind: str | None = None, body: dict[str, Any] | None = None
    ) -> dict[str, Any] | None:
        """Return the registry's answer; None if it doesn't have what is asked for."""
        # a .proto file as a descriptor, or nothing here could read it
        url = self.url + path + ("?format=serialized" if kind == "protobuf" else "")
        data = None if body is None else json.dumps(body).encode()
        problem: Exception
        for pause in range(_TRIES):
            time.sleep(pause / 2)
            try:
                request = urllib.request.Request(url, data, self._headers)
                with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
                    found = json.loads(answer.read())
                if isinstance(found, dict):
                    return found
                problem = ValueError("its answer is no JSON object")
            except urllib.error.HTTPError as refused:
                if refused.code == 404:
                    return None
                problem = refused
                if refused.code < 500:
                    raise InputError(
                        f"The schema registry at {self.url} refuses {path} ({_said(refused)}): see to its rights and "
                        f"its rules for schemas."
                    ) from None
            except (OSError, ValueError) as failed:
                problem = failed
        raise InputError(
            f"The schema registry at {self.url} does not answer ({problem}): see to the registry, and to 'registry' in "
            f"the pipeline file; the next start goes on where this one stopped."
        ) from problem


def _said(refused: urllib.error.HTTPError) -> str:
    """Return what a registry says of a refusal, in a line."""
    try:
        said = str(json.loads(refused.read())["message"])
    except (OSError, ValueError, KeyError, TypeError):
        said = str(refused)
    return " ".join(said.split())[:300].rstrip(".")


def writable(table: pa.Table) -> pa.Table:
    """Return a table in the few types that records are written with; a time is UTC's."""
    fields = []
    for field in table.schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_timestamp(kind):
            kind = pa.timestamp("ns" if kind.unit == "ns" else "us", kind.tz)
        elif pa.types.is_integer(kind):
            kind = pa.int64()
        elif pa.types.is_floating(kind):
            kind = pa.float64()
        elif not pa.types.is_boolean(kind):
            kind = pa.string()
        fields.append(pa.field(field.name, kind))
    return table.cast(pa.schema(fields))


def rows_of(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the rows of a writable table; times are whole numbers of their unit."""
    columns = [
        (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
        for column in table.columns
    ]
    for row in zip(*columns, strict=True):
        yield dict(zip(table.column_names, row, strict=True))
