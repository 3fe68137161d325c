"""A nested dict of numbers, text, arrays and tables as one file, and back.

A zip file without compression: `meta.json` for what JSON can say, a `.npy` for each array, an `.arrow` for
each table. No pickle: loading a file runs nothing. The same content gives the same bytes.

Everything that outlives a process carries the number FORMAT: saved monitors, the state of Spark queries, the
steps and snapshots of a pipeline. What has another number is refused, never guessed at; what has none is of the
first format.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.core.errors import InputError

WATCHES = "watches"  # the entry of a monitor's content that is plain
FORMAT = 2  # one more whenever something that is kept gets other content


class Plain(dict[str, Any]):
    """A dict of nothing but what JSON can say: it has no arrays."""


class Written(list[Plain]):
    """Entries of nothing but what JSON can say, whose text is known: it is not made again for every dump."""

    def __init__(self, entries: Iterable[tuple[Plain, str]] = ()) -> None:
        found = list(entries)
        super().__init__(entry for entry, _ in found)
        self.text = f"[{', '.join(text for _, text in found)}]"


class Read(list[Any]):
    """Entries whose text has been read before: reading it again gives the same list, and what was `made` of it."""

    made: Any = None


_KEY = f', "{WATCHES}": '
_KEPT = 8  # texts at most whose entries are kept
_SEEN: dict[int, None] = {}  # hashes of texts that were read once
_READ: dict[str, Read] = {}  # entries of those that were read more than once


class OtherFormat(InputError):
    """Something was written by a skyband that keeps it in another way."""

    def __init__(self, found: Any, name: str, instead: str = "") -> None:
        age = "a newer" if isinstance(found, int) and found > FORMAT else "another"
        super().__init__(
            f"{name} is in format {found}, of {age} skyband, and this one reads format {FORMAT}: use the version that "
            f"wrote it{instead}."
        )
        self.found = found
        self._given = found, name, instead

    def __reduce__(self) -> tuple[type[OtherFormat], tuple[Any, ...]]:
        return type(self), self._given  # exceptions pickle by their text alone


def check_format(found: Any, name: str, instead: str = "") -> None:
    """Refuse what is not in today's format; `instead` says what else can be done about it."""
    if found != FORMAT:
        raise OtherFormat(found, name, instead)


def to_bytes(content: dict[str, Any]) -> bytes:
    return assemble(parts_of(content, copy=False))


Parts = tuple[Any, dict[str, Any]]
"""Content taken apart: what JSON can say, and its arrays and tables by name, tables as bytes already."""


def parts_of(content: dict[str, Any], copy: bool = True) -> Parts:
    """Content taken apart; with `copy` its owner may go on changing it while `assemble` makes a file of it."""
    parts: dict[str, Any] = {}
    return _strip(content, "", parts, copy), parts


def joined(parts: Parts, more: dict[str, Any]) -> Parts:
    """The same with more entries, which are not changed."""
    arrays = dict(parts[1])
    return {**parts[0], **_strip(more, "", arrays, False)}, arrays


def assemble(content: Parts) -> bytes:
    """The file."""
    meta, parts = content
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        head = f'{{"skyband": {json.dumps(FORMAT)}, "content": {_text(meta)}}}'.encode()
        for name, data in [("meta.json", head), *parts.items()]:
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            # more than there is: zip has another form for very long ones
            entry.file_size = memoryview(data).nbytes + 1024
            with archive.open(entry, "w") as part:
                if isinstance(data, np.ndarray):
                    np.lib.format.write_array(part, data, allow_pickle=False)
                else:
                    part.write(data)
    return out.getvalue()


def _text(meta: dict[str, Any]) -> str:
    """Content as JSON; what is written already goes last."""
    known = {name: value for name, value in meta.items() if isinstance(value, Written)}
    text = json.dumps({name: value for name, value in meta.items() if name not in known}, ensure_ascii=False)
    for name, value in known.items():
        text = f"{text[:-1]}{', ' if len(text) > 2 else ''}{json.dumps(name)}: {value.text}}}"
    return text


def _strip(value: Any, path: str, parts: dict[str, Any], copy: bool) -> Any:
    """What JSON can say, with arrays and tables replaced by the names of their parts."""
    if isinstance(value, Plain | Written):
        return value
    if isinstance(value, dict):
        return {
            name: _strip(part, f"{path}/{name}" if path else str(name), parts, copy)
            for name, part in value.items()
        }
    if isinstance(value, list):
        return [_strip(part, f"{path}/{i}", parts, copy) for i, part in enumerate(value)]
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value)
        parts[f"{path}.npy"] = array.copy() if copy and np.may_share_memory(array, value) else array
        return {"$array": f"{path}.npy"}
    if isinstance(value, pa.Table):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema) as writer:
            writer.write_table(value.combine_chunks())
        parts[f"{path}.arrow"] = sink.getvalue()
        return {"$table": f"{path}.arrow"}
    if isinstance(value, np.integer):
        return int(value)
    return value


def from_bytes(data: bytes, name: str = "This state") -> dict[str, Any]:
    """The content; `name` is what errors call it."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            head = _head(archive.read("meta.json").decode())
            check_format(head.get("skyband", 1), name)
            # of a thousand queries their watches are most of it, and have no arrays
            content = {n: v if n == WATCHES else _fill(v, archive) for n, v in head["content"].items()}
    except OtherFormat:
        raise
    except (zipfile.BadZipFile, KeyError, ValueError, AttributeError, OSError, pa.ArrowInvalid) as error:
        said = str(error).splitlines()[0][:100] if str(error) else type(error).__name__
        raise InputError(f"{name} is not whole, or not what Monitor.save wrote ({said}).") from None
    return content


def _head(text: str) -> dict[str, Any]:
    """What JSON says. Most of it are the watches, if they are many, and from one dump to the next they seldom change: a
    worker of Spark reads the same ones again and again."""
    begin = text.find(f"{_KEY}[")
    if begin >= 0:
        try:
            head: dict[str, Any] = json.loads(f"{text[:begin]}}}}}")
            head["content"][WATCHES] = _entries(text[begin + len(_KEY) : -2])
        except (ValueError, KeyError, TypeError):
            pass  # another entry of that name, or something is broken
        else:
            return head
    return dict(json.loads(text))


def _entries(text: str) -> list[Any]:
    """The entries of a text, which are not to be changed. Those of a text that comes again are kept."""
    known = _READ.get(text)
    if known is not None:
        return known
    entries = json.loads(text)
    if not isinstance(entries, list):
        raise ValueError
    if hash(text) not in _SEEN:
        if len(_SEEN) >= 64 * _KEPT:
            _SEEN.clear()
        _SEEN[hash(text)] = None
        return entries
    if len(_READ) >= _KEPT:
        _READ.clear()
    _READ[text] = found = Read(entries)
    return found


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
    return from_bytes(data, str(path))
