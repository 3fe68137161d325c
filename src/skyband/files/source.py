"""Where the bytes come from: a file, a pipe, standard input, plain or compressed.

The kind of a file is recognised by its first bytes, never by its name: a Parquet file called data.bin is read
as Parquet, and standard input, which has no name, is treated like everything else.
"""

from __future__ import annotations

import io
import os
import select
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import pyarrow as pa

from skyband.core.errors import InputError

BLOCK = 4 << 20
_BLINK = 0.5  # seconds
_LONGEST_RECORD = 256 << 20
_PACKED: dict[bytes, Any] = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bz2",
    b"\x04\x22\x4d\x18": "lz4",
}


class Openable(Protocol):
    """A file that isn't on this machine's disk; a `Path` has the same methods."""

    def open(self, mode: str) -> Any: ...

    def stat(self) -> Any: ...


def packing(path: Path | Openable) -> str | None:
    """Return how a file is packed, by its first bytes; None if it isn't."""
    with path.open("rb") as file:
        head = file.read(max(map(len, _PACKED)))
    return next((kind for magic, kind in _PACKED.items() if head.startswith(magic)), None)


def open_plain(path: Path | Openable) -> BinaryIO:
    """Return a file's bytes, unpacked if they are packed."""
    kind: Any = packing(path)
    file: BinaryIO = path.open("rb")
    if kind is None:
        return file
    # Arrow itself would not take a name that is no UTF-8
    return io.BufferedReader(pa.input_stream(file, compression=kind))


class Source:
    """Bytes to be read once, from the beginning, with a first look at them."""

    def __init__(self, path: str | Path | Openable) -> None:
        self.path: Path | None = None  # where there is one on the disk
        self.size: int | None
        if isinstance(path, str | Path):
            self.path = None if str(path) == "-" else Path(path)
            self.name = "standard input" if self.path is None else str(path)
            self._file = _open(self.path, self.name)
            self.size = _size(self._file)
        else:
            self.name, self._file, self.size = str(path), path.open("rb"), int(path.stat().st_size)
        self.taken = 0  # bytes of the file itself, before they were unpacked
        self._ahead = self._read_file(BLOCK, patience=0.25)
        if not self._ahead:
            raise InputError(f"{self.sentence_name} is empty: there are no rows to read.")
        self._unpacked: Any = None
        for magic, kind in _PACKED.items():
            if self._ahead.startswith(magic):
                self._unpack(kind)
                break
        self.head = self._ahead

    @property
    def sentence_name(self) -> str:
        return "Standard input" if self.name == "standard input" else self.name

    def _unpack(self, kind: Any) -> None:
        packed = pa.PythonFile(_Rest(self._ahead, self._read_file), mode="r")
        self._unpacked = pa.CompressedInputStream(packed, kind)
        self._ahead = self.read(BLOCK)
        if not self._ahead:
            raise InputError(f"{self.sentence_name} is empty once it is unpacked: there are no rows to read.")

    def _read_file(self, size: int, patience: float = 0.02) -> bytes:
        """Return the next bytes of the file. Of a pipe: what is there, and what follows within `patience` seconds.

        So a slow stream is answered as it comes, and a fast one is read in large blocks.
        """
        if self.size is not None:
            data = self._file.read(size)
        else:
            data = b""
            descriptor = self._file.fileno()
            while len(data) < size and _more(descriptor, patience if data else None):
                more = os.read(descriptor, size - len(data))
                if not more:
                    break
                data += more
        self.taken += len(data)
        return data

    def read(self, size: int) -> bytes:
        """Return the next bytes, unpacked; none at the end."""
        try:
            return bytes(self._unpacked.read(size)) if self._unpacked else self._read_file(size)
        except (OSError, pa.ArrowException) as problem:
            reason = _reason(problem)
            raise InputError(f"{self.sentence_name} can't be read to its end: {reason}.") from problem

    def blocks(self, whole: Callable[[bytes], int]) -> Iterator[bytes]:
        """The bytes from the beginning, cut where `whole` says that a block's whole records end."""
        rest, more = b"", self._ahead
        while True:
            if not more:
                if rest:
                    yield rest
                return
            rest += more
            end = whole(rest)
            if end:
                yield rest[:end]
                rest = rest[end:]
            elif len(rest) > _LONGEST_RECORD:
                raise InputError(
                    f"{self.sentence_name} has a line of more than {_LONGEST_RECORD >> 20} MB: "
                    "it is probably neither CSV nor JSON lines."
                )
            more = self.read(BLOCK)

    def everything(self) -> pa.Buffer:
        """Return all bytes at once, for formats that are read from their end."""
        parts = [self._ahead]
        while more := self.read(BLOCK):
            parts.append(more)
        return pa.py_buffer(b"".join(parts))

    @property
    def seekable(self) -> bool:
        return self.path is not None and self.size is not None and self._unpacked is None

    def fraction(self) -> float | None:
        """Return how much of the file has been read, where its size is known."""
        return min(1.0, self.taken / self.size) if self.size else None

    def close(self) -> None:
        if self._file is not getattr(sys.stdin, "buffer", None):
            self._file.close()


class _Rest(io.RawIOBase):
    """A file whose first bytes have been looked at already, as Arrow wants files."""

    def __init__(self, ahead: bytes, read: Callable[[int], bytes]) -> None:
        self._ahead = ahead
        self._read = read

    def read(self, size: int = BLOCK) -> bytes:
        if self._ahead:
            part, self._ahead = self._ahead[:size], self._ahead[size:]
            return part
        return self._read(size)

    def readable(self) -> bool:
        return True


def _more(descriptor: int, patience: float | None) -> bool:
    """Whether there is something to read within `patience` seconds, or for as long as it takes.

    Waiting wakes up now and then: a Ctrl-C that comes between Python's last look at signals and the system's call
    doesn't end that call, and would be answered only after the next row.
    """
    while not select.select([descriptor], [], [], _BLINK if patience is None else patience)[0]:
        if patience is not None:
            return False
    return True


def _open(path: Path | None, name: str) -> BinaryIO:
    if path is None:
        if sys.stdin is None:
            raise InputError("Standard input is closed: pipe rows into it, or name a file.")
        return sys.stdin.buffer
    try:
        if path.is_dir():
            raise InputError(f"{name} is a folder: name one file in it (skyband run reads whole folders).")
        return path.open("rb")
    except FileNotFoundError:
        raise InputError(f"There is no file {name}: check the path.") from None
    except PermissionError:
        raise InputError(f"{name} may not be read: change its permissions.") from None
    except OSError as problem:
        raise InputError(f"{name} can't be opened: {_reason(problem)}.") from problem


def _size(file: BinaryIO) -> int | None:
    """Return the size of a real file; a pipe has none."""
    status = os.fstat(file.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _reason(problem: Exception) -> str:
    text = getattr(problem, "strerror", None) or str(problem).splitlines()[0]
    return text.rstrip(".")
