"""Files that are either whole or not there.

Everything the pipeline must find again after a crash is written the same way: to a temporary name, flushed to
the disk, renamed, and the folder flushed too. A file under its real name is therefore complete as far as the
file system keeps its promises; a frame with a checksum says when it did not, so that a torn file is recognised
and never trusted.

In a store (`hadoop`) an object is written whole in one step. A log is a folder there: each addition is an object of its
own, named by the number of bytes before it, and of two processes that add in the same place one is refused. The objects
are put together once in a while, in the first one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import socket
import zlib
from pathlib import Path
from typing import Any

from skyband.core.errors import InputError

from .hadoop import HadoopPath
from .paths import Place

_PARTS = 64  # of a log in a store, before they are put together
_MAGIC = b"SKYBAND1"
_DIGEST = 32
_SUM = re.compile(rb'\{"crc": (\d+), "value": ')
_LINE_SUM = re.compile(rb',?"crc":(\d+)\}$')


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries, so that a rename in it survives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomic(path: Place, data: bytes, temporary: Place | None = None) -> None:
    """Write `data` to `path` so that a reader sees the old content or the new, never a part.

    `temporary` is a folder on the same file system for the unfinished file; by default a hidden name beside
    the real one is used.
    """
    if isinstance(path, HadoopPath):
        path.put(data, temporary if isinstance(temporary, HadoopPath) else None)
        return
    assert not isinstance(temporary, HadoopPath)
    folder = temporary if temporary is not None else path.parent
    folder.mkdir(parents=True, exist_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Two machines may write to the same folder, and in containers their processes have the same numbers.
    unfinished = folder / f".{path.name}.{socket.gethostname()}.{os.getpid()}.tmp"
    try:
        with open(unfinished, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        os.replace(unfinished, path)
    except OSError:
        with contextlib.suppress(OSError):
            unfinished.unlink()  # on a full disk, half a file is in the way of everything else
        raise
    sync_folder(path.parent)


def write_once(path: Place, data: bytes, temporary: Place | None = None) -> None:
    """Write what every attempt at a batch writes alike: in a store an object that is there already, with these bytes,
    stays. A driver that another one has replaced can't bring back what it wrote late."""
    if isinstance(path, HadoopPath):
        with contextlib.suppress(FileExistsError):
            path.put_new(data, temporary if isinstance(temporary, HadoopPath) else None)
            return
        if path.read_bytes() == data:
            return
    write_atomic(path, data, temporary)


def remove_tree(folder: Place) -> None:
    """Remove a folder with all that is in it, if it is there."""
    if isinstance(folder, HadoopPath):
        folder.remove()
    else:
        shutil.rmtree(folder, ignore_errors=True)


def append_line(path: Place, *records: dict[str, Any]) -> None:
    """Add JSON lines to a log and flush them. A torn last line is cut off first (see `read_lines`)."""
    text = "".join(map(_line, records))
    if isinstance(path, HadoopPath):
        _append(path, text.encode())
        return
    new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab") as out:
        out.write(text.encode())
        out.flush()
        os.fsync(out.fileno())
    if new:
        sync_folder(path.parent)


def _append(log: HadoopPath, data: bytes) -> None:
    """Add to a log in a store."""
    parts = _parts(log)
    end = max((first + size for first, size in parts), default=0)
    try:
        (log / f"{end:020}").put_new(data)
    except FileExistsError:
        raise InputError(
            f"Another process has written to {log}: two run a pipeline on one checkpoint; let one of them run."
        ) from None
    if len(parts) >= _PARTS:
        (log / f"{0:020}").put(_from(log, 0))
        for first, _ in parts:
            if first:
                (log / f"{first:020}").unlink()
        (log / f"{end:020}").unlink()


def _parts(log: HadoopPath) -> list[tuple[int, int]]:
    """The objects of a log: how many bytes are before each, and how many it has."""
    return sorted((int(one.name), one.st_size) for one in log.list() if one.name.isdigit())


def _from(log: HadoopPath, start: int) -> bytes:
    """The bytes of a log after its first `start` ones."""
    while True:
        found, at = [], start
        try:
            for first, size in _parts(log):
                if (
                    first <= at < first + size
                ):  # else it is known, or has been put together with the first one
                    found.append((log / f"{first:020}").read_bytes()[at - first :])
                    at += len(found[-1])
            return b"".join(found)
        except FileNotFoundError:
            continue  # put together just now


def read_lines(path: Place, repair: bool = False) -> list[dict[str, Any]]:
    """The records of a log of JSON lines.

    A last line without its line feed was being written when the power went: nothing depends on it, so it
    is passed over, and cut off if `repair` is set (only the log's one writer may do that).
    """
    try:
        data = _from(path, 0) if isinstance(path, HadoopPath) else path.read_bytes()
    except FileNotFoundError:
        return []
    whole = data.rfind(b"\n") + 1
    if repair and isinstance(path, Path) and whole < len(data):
        with open(path, "r+b") as out:
            out.truncate(whole)
            out.flush()
            os.fsync(out.fileno())
    return _records(path, data[:whole])


def _records(path: Place, data: bytes) -> list[dict[str, Any]]:
    """Whole lines; one in the middle that is no record was not torn by a crash, and nothing after it can be trusted."""
    try:
        return [_record(line) for line in data.splitlines()]
    except ValueError:
        raise damaged(path) from None


def _line(record: dict[str, Any]) -> str:
    """A record with its checksum at the end."""
    text = json.dumps(record, separators=(",", ":"))
    return f'{text[:-1]}{"," if record else ""}"crc":{zlib.crc32(text.encode())}}}\n'


def _record(line: bytes) -> dict[str, Any]:
    """The record of a line; ValueError if its checksum is another one. (Older versions wrote none.)"""
    found = _LINE_SUM.search(line)
    if found is not None:
        line = line[: found.start()] + b"}"
        if zlib.crc32(line) != int(found[1]):
            raise ValueError("another checksum")
    return dict(json.loads(line))


def write_json(path: Place, value: Any, indent: int | None = 1) -> None:
    """A document with its checksum."""
    text = json.dumps(value, indent=indent).encode()
    write_atomic(path, b'{"crc": %d, "value": %s}' % (zlib.crc32(text), text))


def read_json(path: Place) -> Any:
    """The document that `write_json` wrote, or an older version, without a checksum; None if there is none."""
    try:
        data = path.read_bytes()
        found = _SUM.match(data)
        if found is not None:
            text = data[found.end() : -1]
            value = json.loads(text)
            whole = zlib.crc32(text) == int(found[1])
        else:
            value = json.loads(data)
            whole = not isinstance(value, dict) or "value" not in value
    except FileNotFoundError:
        return None
    except ValueError:
        raise damaged(path) from None
    if not whole:
        raise damaged(path)
    return value


def damaged(path: Place) -> InputError:
    what = "is damaged" if path.exists() else "is missing"
    return InputError(
        f"{path} {what}: bring it back from a copy, or start again with an empty checkpoint and output folder."
    )


def read_from(path: Place, start: int) -> tuple[list[dict[str, Any]], int]:
    """The whole lines of a log after its first `start` bytes, and up to where they go."""
    if isinstance(path, HadoopPath):
        data = _from(path, start)
    elif not path.exists() or path.stat().st_size <= start:
        data = b""
    else:
        with open(path, "rb") as log:
            log.seek(start)
            data = log.read()
    whole = data.rfind(b"\n") + 1
    return _records(path, data[:whole]), start + whole


def frame(header: dict[str, Any], *blobs: bytes) -> bytes:
    """A checksummed block: a JSON header (which gets the blobs' lengths) and the blobs."""
    head = json.dumps({**header, "lengths": [len(blob) for blob in blobs]}).encode()
    body = b"".join([len(head).to_bytes(8, "little"), head, *blobs])
    return b"".join([_MAGIC, hashlib.blake2b(body, digest_size=_DIGEST).digest(), body])


def unframe(data: bytes) -> tuple[dict[str, Any], list[bytes]] | None:
    """The header and the blobs of a frame, or None if it is torn."""
    start = len(_MAGIC) + _DIGEST
    body = memoryview(data)[start:]
    digest = hashlib.blake2b(body, digest_size=_DIGEST).digest()
    if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : start] != digest:
        return None
    size = int.from_bytes(body[:8], "little")
    header = json.loads(bytes(body[8 : 8 + size]))
    blobs, at = [], 8 + size
    for length in header.pop("lengths"):
        blobs.append(bytes(body[at : at + length]))
        at += length
    return header, blobs


def read_frame(path: Place) -> tuple[dict[str, Any], list[bytes]] | None:
    """Like `unframe`; None also if there is no such file."""
    try:
        return unframe(path.read_bytes())
    except FileNotFoundError:
        return None
