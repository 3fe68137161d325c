"""Files that are either whole or not there.

Everything the pipeline must find again after a crash is written the same way: to a temporary name, flushed to
the disk, renamed, and the folder flushed too. A file under its real name is therefore complete as far as the
file system keeps its promises; a frame with a checksum says when it did not, so that a torn file is recognised
and never trusted.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import socket
import zlib
from pathlib import Path
from typing import Any

from skyband.core.errors import InputError

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


def write_atomic(path: Path, data: bytes, temporary: Path | None = None) -> None:
    """Write `data` to `path` so that a reader sees the old content or the new, never a part.

    `temporary` is a folder on the same file system for the unfinished file; by default a hidden name beside
    the real one is used.
    """
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


def append_line(path: Path, *records: dict[str, Any]) -> None:
    """Add JSON lines to a log and flush them. A torn last line is cut off first (see `read_lines`)."""
    new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(map(_line, records))
    with open(path, "ab") as out:
        out.write(text.encode())
        out.flush()
        os.fsync(out.fileno())
    if new:
        sync_folder(path.parent)


def read_lines(path: Path, repair: bool = False) -> list[dict[str, Any]]:
    """The records of a log of JSON lines.

    A last line without its line feed was being written when the power went: nothing depends on it, so it
    is passed over, and cut off if `repair` is set (only the log's one writer may do that).
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    whole = data.rfind(b"\n") + 1
    if repair and whole < len(data):
        with open(path, "r+b") as out:
            out.truncate(whole)
            out.flush()
            os.fsync(out.fileno())
    return _records(path, data[:whole])


def _records(path: Path, data: bytes) -> list[dict[str, Any]]:
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


def write_json(path: Path, value: Any, indent: int | None = 1) -> None:
    """A document with its checksum."""
    text = json.dumps(value, indent=indent).encode()
    write_atomic(path, b'{"crc": %d, "value": %s}' % (zlib.crc32(text), text))


def read_json(path: Path) -> Any:
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


def damaged(path: Path) -> InputError:
    what = "is damaged" if path.exists() else "is missing"
    return InputError(
        f"{path} {what}: bring it back from a copy, or start again with an empty checkpoint and output folder."
    )


def read_from(path: Path, start: int) -> tuple[list[dict[str, Any]], int]:
    """The whole lines of a log after its first `start` bytes, and up to where they go."""
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


def read_frame(path: Path) -> tuple[dict[str, Any], list[bytes]] | None:
    """Like `unframe`; None also if there is no such file."""
    try:
        return unframe(path.read_bytes())
    except FileNotFoundError:
        return None
