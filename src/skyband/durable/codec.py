"""What was given, as plain data and bytes, and back.

A batch goes to the journal as an Arrow IPC stream, with no Python per row. Columns of several types ("12" among
numbers, from JSON) are no Arrow columns: their values go beside it, each by itself, as JSON with a tag where JSON has
no word for it. The monitor is given what comes back from here, not what went in: so the live step and its repetition
after a restart see the very same thing.
"""

from __future__ import annotations

import base64
import datetime as dt
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.core.errors import InputError
from skyband.stream import clock
from skyband.stream.batches import NO_INDEX, IndexColumns, read
from skyband.stream.schema import Raw


class Odd:
    """A value of no type that Arrow knows: no column can take it, and its row is rejected by this text."""

    def __init__(self, shown: str, text: str) -> None:
        self._shown, self._text = shown, text

    def __repr__(self) -> str:
        return self._shown

    def __str__(self) -> str:
        return self._text


@dataclass(frozen=True)
class Packed:
    """A table and the Arrow IPC stream that it was read from, which was validated already."""

    table: pa.Table
    data: Any  # bytes that are not changed


def pack(batch: Any, special: IndexColumns = NO_INDEX) -> tuple[Raw, int, dict[str, Any], Any]:
    """A batch as the monitor takes it, its number of rows, and the same as plain data and bytes."""
    if isinstance(batch, Packed):
        return batch.table, batch.table.num_rows, {}, batch.data
    if isinstance(batch, bytes | bytearray | memoryview | pa.Buffer):
        data = batch if isinstance(batch, bytes | pa.Buffer) else bytes(batch)  # what can change is copied
        table = from_ipc(data, trusted=False)
        return table, table.num_rows, {}, data
    raw, rows = read(batch, special)
    odd: dict[str, Any] = {}
    if not isinstance(raw, pa.Table):
        odd = {name: column for name, column in raw.items() if not isinstance(column, pa.ChunkedArray)}
        table = pa.table({name: column for name, column in raw.items() if name not in odd})
        if not odd:
            raw = table
    else:
        table = raw
    meta: dict[str, Any] = {}
    if odd:
        meta = {"rows": rows, "order": list(raw), "odd": {name: list(map(say, odd[name])) for name in odd}}
        raw = _mixed(meta, table)
    return raw, rows, meta, to_ipc(table)


def unpack(meta: dict[str, Any], body: Any) -> tuple[Raw, int]:
    """Return what `pack` was given."""
    table = from_ipc(body)
    return (_mixed(meta, table), meta["rows"]) if "odd" in meta else (table, table.num_rows)


def _mixed(meta: dict[str, Any], table: pa.Table) -> Raw:
    odd = {name: list(map(hear, values)) for name, values in meta["odd"].items()}
    return {name: odd[name] if name in odd else table.column(name) for name in meta["order"]}


def to_ipc(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def from_ipc(data: Any, trusted: bool = True) -> pa.Table:
    """Return an Arrow IPC stream as a table over the same memory. Untrusted data is validated first."""
    try:
        table = pa.ipc.open_stream(pa.py_buffer(data)).read_all()
        if not trusted:
            table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        said = str(error).split("\n")[0].rstrip(".")[:200]
        raise InputError(
            f"The batch is not a whole Arrow IPC stream ({said}): send one, with its schema."
        ) from None
    return table


def say(value: Any) -> Any:
    """A single value as JSON can say it."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.datetime64):
        return {"time": [value.dtype.str, int(value.astype(np.int64))]}
    if isinstance(value, np.bool_ | np.integer | np.floating):
        return {"number": [value.dtype.str, value.item()]}
    if type(value) is dt.datetime:
        return {"datetime": value.isoformat()} if _plain_zone(value) else _as_arrow(value)
    if type(value) is dt.date:
        return {"date": value.isoformat()}
    return _as_arrow(value)


def _plain_zone(value: dt.datetime) -> bool:
    return value.tzinfo is None or value.tzinfo is dt.UTC


def _as_arrow(value: Any) -> Any:
    try:
        column = pa.table({"value": pa.array([value])})
        return {"arrow": base64.b64encode(to_ipc(column)).decode()}
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return {"odd": [repr(value), str(value)]}


def hear(said: Any) -> Any:
    """Return what `say` was given, or as near as Arrow has it."""
    if not isinstance(said, dict):
        return said
    ((kind, value),) = said.items()
    if kind == "time":
        return np.array(value[1], dtype=np.int64).astype(value[0])[()]
    if kind == "number":
        return np.dtype(value[0]).type(value[1])
    if kind == "datetime":
        return dt.datetime.fromisoformat(value)
    if kind == "date":
        return dt.date.fromisoformat(value)
    if kind == "arrow":
        return from_ipc(base64.b64decode(value)).column(0)[0].as_py()
    return Odd(*value)


def say_time(time: Any) -> Any:
    """Return a time for `advance`, once it is sure that it is one."""
    clock.seconds(time)
    if hasattr(time, "value") and hasattr(time, "nanosecond"):  # pandas.Timestamp
        return {"time": ["<M8[ns]", int(time.as_unit("ns").value)]}
    if isinstance(time, dt.datetime) and not _plain_zone(time):
        time = time.astimezone(dt.UTC)
    return say(time)
