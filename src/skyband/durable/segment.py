"""A segment: a file of steps, one record after the other, each with its length and checksum.

    head      "SKYBANDJ", format (see `blob`), salt, first offset, checksum of the head
    record    "STEP", length of what it says, offset, group, length of its bytes, checksum of both, checksum of this
              then what it says (JSON), then its bytes (an Arrow IPC stream, or none)

`group` is the offset of the first step that was flushed together with this one. It distinguishes a torn tail from
damage: the disk may write the pages of one flush in any order, so within the last group anything may be missing, and
nothing of it was acknowledged. But a group is begun only when the one before it is on the disk. So a bad record that is
followed by a good one of a later group was good once: that is damage, and no reason to go on as if it were not.

The checksum of a record's head begins with the segment's salt, a random number. Without it a batch could hold, as a
value, bytes that look like a record.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from dataclasses import dataclass
from typing import Any

from skyband.core.blob import FORMAT, check_format
from skyband.core.errors import JournalError
from skyband.durable.task import Written

MAGIC = b"SKYBANDJ"
MARK = b"STEP"
_HEAD = struct.Struct("<8sIIQ")
_CHECK = struct.Struct("<I")
HEAD = _HEAD.size + _CHECK.size
_RECORD = struct.Struct("<4sIQQQI")
RECORD = _RECORD.size + _CHECK.size


@dataclass(frozen=True)
class Found:
    """A record in a segment: where it is, and what it says."""

    offset: int
    group: int
    meta: dict[str, Any]
    start: int  # of the record
    body: tuple[int, int]  # of its bytes

    @property
    def end(self) -> int:
        return self.body[1]


def new_salt() -> int:
    return int.from_bytes(os.urandom(4), "little")


def head(first: int, salt: int) -> bytes:
    """Return the beginning of a segment."""
    data = _HEAD.pack(MAGIC, FORMAT, salt, first)
    return data + _CHECK.pack(zlib.crc32(data))


def read_head(data: bytes, name: str) -> tuple[int, int] | None:
    """Return a segment's first offset and salt; None if it was never finished, an error if it is damaged."""
    if len(data) >= HEAD and data[: len(MAGIC)] == MAGIC:
        _, number, salt, first = _HEAD.unpack_from(data)
        check_format(number, name)
        if zlib.crc32(data[: _HEAD.size]) == _CHECK.unpack_from(data, _HEAD.size)[0]:
            return first, salt
    if len(data) > HEAD:  # records are written only after the head is on the disk
        raise damaged(name, 0)
    return None


def record(offset: int, group: int, step: Written, salt: int) -> list[Any]:
    """Return a record as the parts to be written."""
    data = _RECORD.pack(MARK, len(step.said), offset, group, len(step.body), step.check)
    return [data + _CHECK.pack(zlib.crc32(data, salt)) + step.said, step.body]


def read_record(data: memoryview, start: int, salt: int) -> Found | None:
    """Return the record that begins here, if a whole one does."""
    if start + RECORD > len(data):
        return None
    mark, said, offset, group, size, check = _RECORD.unpack_from(data, start)
    fixed = data[start : start + _RECORD.size]
    if mark != MARK or zlib.crc32(fixed, salt) != _CHECK.unpack_from(data, start + _RECORD.size)[0]:
        return None
    at = start + RECORD
    end = at + said + size
    if end > len(data) or zlib.crc32(data[at:end]) != check:
        return None
    return Found(offset, group, json.loads(bytes(data[at : at + said])), start, (at + said, end))


def read_records(data: bytes, first: int, salt: int, name: str) -> tuple[list[Found], int]:
    """Return the records of a segment that are whole, and where the first one begins that isn't, or the end.

    An error if that one was whole once.
    """
    view = memoryview(data)
    found: list[Found] = []
    at = HEAD
    while at < len(view):
        one = read_record(view, at, salt)
        if one is None or one.offset != first + len(found):
            break
        found.append(one)
        at = one.end
    missing = first + len(found)
    later = at
    while later < len(view):
        later = data.find(MARK, later + 1)
        if later < 0:
            break
        one = read_record(view, later, salt)
        if one is not None and one.group > missing:
            raise damaged(name, at)
    return found, at


def damaged(name: str, at: int) -> JournalError:
    return JournalError(
        f"{name} is damaged at byte {at}, and good steps follow, so going on would lose some that were acknowledged: "
        "bring the folder back from a copy."
    )
