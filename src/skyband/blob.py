"""A nested dict of numbers, text, arrays and tables as one file, and back.

A zip file without compression: `meta.json` for what JSON can say, a `.npy` for each array, an `.arrow` for
each table. No pickle: loading a file runs nothing. The same content gives the same bytes.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.errors import InputError

FORMAT = 1


def to_bytes(content: dict[str, Any]) -> bytes:
    parts: dict[str, bytes] = {}
    meta = _strip(content, "", parts)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        head = json.dumps({"skyband": FORMAT, "content": meta}, ensure_ascii=False).encode()
        for name, data in [("meta.json", head), *parts.items()]:
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)
    return out.getvalue()


def _strip(value: Any, path: str, parts: dict[str, bytes]) -> Any:
    """What JSON can say, with arrays and tables replaced by the names of their parts."""
    if isinstance(value, dict):
        return {
            name: _strip(part, f"{path}/{name}" if path else str(name), parts) for name, part in value.items()
        }
    if isinstance(value, list):
        return [_strip(part, f"{path}/{i}", parts) for i, part in enumerate(value)]
    if isinstance(value, np.ndarray):
        buffer = io.BytesIO()
        np.save(buffer, np.ascontiguousarray(value), allow_pickle=False)
        parts[f"{path}.npy"] = buffer.getvalue()
        return {"$array": f"{path}.npy"}
    if isinstance(value, pa.Table):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema) as writer:
            writer.write_table(value.combine_chunks())
        parts[f"{path}.arrow"] = sink.getvalue().to_pybytes()
        return {"$table": f"{path}.arrow"}
    if isinstance(value, np.integer):
        return int(value)
    return value


def from_bytes(data: bytes) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            head = json.loads(archive.read("meta.json"))
            if head.get("skyband") != FORMAT:
                raise InputError(
                    f"This file was written in format {head.get('skyband')}, this skyband reads format {FORMAT}: "
                    "use the version that wrote it."
                )
            content = _fill(head["content"], archive)
    except (zipfile.BadZipFile, KeyError, ValueError, OSError, pa.ArrowInvalid) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"This is not a whole file that Monitor.save wrote ({error}).") from None
    assert isinstance(content, dict)
    return content


def _fill(value: Any, archive: zipfile.ZipFile) -> Any:
    if isinstance(value, dict):
        if "$array" in value:
            return np.load(io.BytesIO(archive.read(value["$array"])), allow_pickle=False)
        if "$table" in value:
            return pa.ipc.open_stream(archive.read(value["$table"])).read_all()
        return {name: _fill(part, archive) for name, part in value.items()}
    if isinstance(value, list):
        return [_fill(part, archive) for part in value]
    return value


def write(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Write whole or not at all: a temporary file, synced, then renamed."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(to_bytes(content))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InputError(f"{target} can't be written: {error.strerror}.") from None


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}.") from None
    return from_bytes(data)
