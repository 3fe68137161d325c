"""Steps out of the journal again, and whether they are this monitor's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from skyband.core.errors import InputError
from skyband.durable import codec
from skyband.durable.segment import Found
from skyband.durable.task import Task
from skyband.query.serialise import from_dict


def task_of(found: Found, body: memoryview) -> Task:
    """The step as it was when it was written."""
    meta = found.meta
    kind, name = meta["kind"], meta.get("name")
    given: tuple[Any, ...]
    rows = 0
    if kind == "push":
        raw, rows = codec.unpack(meta, body)
        unread = {row: (detail, text) for row, detail, text in meta.get("unread", [])} or None
        given = (raw, rows, meta.get("stream"), unread, meta.get("rules", 0), meta.get("strict", False))
    elif kind == "advance":
        given = (codec.hear(meta["time"]), meta.get("force", False), meta.get("rules", 0))
    elif kind == "restart":
        given = (meta["stream"],)
    elif kind == "watch":
        given = (from_dict(meta["query"]), name)
    elif kind == "drop":
        given = (name,)
    elif kind == "set_stream":
        return Task(kind, (name, meta["settings"]), offset=found.offset)
    else:
        given = (name, codec.hear(meta["k"]), meta["window"])
    return Task(kind, given, rows=rows, key=meta.get("key"), name=name, offset=found.offset)


def agree(given: dict[str, Any], content: dict[str, Any], folder: Path) -> None:
    """An error if a monitor was made with other options than the journal began with; what wasn't given is free."""
    for name, value in given.items():
        if value is not None and _plain(value) != _plain(content.get(name)):
            raise InputError(
                f"{name}= is not that which the journal {folder} began with: leave it out, or choose another folder."
            )


def _plain(option: Any) -> Any:
    if isinstance(option, pa.Table):
        return option.schema
    return {name: _plain(part) for name, part in option.items()} if isinstance(option, dict) else option
