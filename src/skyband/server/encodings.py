"""Bodies that come packed: gzip and zstd, by their Content-Encoding.

A few kilobytes can stand for gigabytes, so what is unpacked counts against the limit of a body, and unpacking stops
there. gzip is unpacked as it comes. zstd is unpacked when all of it is there, in steps, because Arrow's reader can't
wait for more in the middle.
"""

from __future__ import annotations

import zlib
from typing import Protocol

import pyarrow as pa

from skyband.core.errors import InputError
from skyband.server.problems import Problem

ENCODINGS = ("gzip", "zstd")
STEP = 1 << 20  # bytes unpacked at a time


class Unpacked(Protocol):
    """The unpacking of one body. `more` and `end` return at most so many bytes, and one more if there are more."""

    def more(self, part: bytes, most: int) -> bytes:
        """Return what another part of the body gives."""

    def end(self, most: int) -> bytes:
        """Return what is left when the body is complete; an error if it is cut off."""


def unpacking(encoding: str | None) -> Unpacked | None:
    """Return how a body is unpacked; None if it comes as it is, a Problem if its encoding isn't known."""
    name = (encoding or "identity").strip().lower()
    if name in ("identity", ""):
        return None
    if name in ("gzip", "x-gzip"):
        return _Gzip()
    if name == "zstd":
        return _Zstd()
    raise Problem(
        "unsupported_type",
        f"A body with Content-Encoding {name[:40]} can't be read: send it as it is, or as {' or '.join(ENCODINGS)}.",
    )


def _broken(name: str, why: object) -> InputError:
    return InputError(f"The body can't be unpacked as {name} ({why}): check what is sent.")


class _Gzip:
    """Members of gzip, one after the other."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=31)
        self._begun = False

    def more(self, part: bytes, most: int) -> bytes:
        found: list[bytes] = []
        size = 0
        try:
            while part and size <= most:
                if self._member.eof:
                    part = part.lstrip(b"\0")  # as gzip does with what fills a block of a tape
                    if not part:
                        break
                    self._member = zlib.decompressobj(wbits=31)
                self._begun = True
                found.append(self._member.decompress(part, most + 1 - size))
                size += len(found[-1])
                part = self._member.unused_data or self._member.unconsumed_tail
        except zlib.error as error:
            raise _broken("gzip", error) from None
        return b"".join(found)

    def end(self, most: int) -> bytes:
        if not self._begun or not self._member.eof:
            raise _broken("gzip", "its end is missing")
        return b""


class _Zstd:
    """Frames of zstd."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def more(self, part: bytes, most: int) -> bytes:
        self._parts.append(part)
        return b""

    def end(self, most: int) -> bytes:
        found: list[bytes] = []
        size = 0
        try:
            packed = pa.BufferReader(b"".join(self._parts))
            if not packed.size():
                raise _broken("zstd", "its end is missing")
            with pa.CompressedInputStream(packed, "zstd") as stream:
                while size <= most and (step := stream.read(min(STEP, most + 1 - size))):
                    found.append(step)
                    size += len(step)
        except (OSError, pa.ArrowException) as error:
            raise _broken("zstd", str(error).splitlines()[0]) from None
        return b"".join(found)
