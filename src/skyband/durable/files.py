"""The only place that touches the disk.

Everything the journal does to files goes through one small object, so that a test can put another in its place that
fails at the n-th write, flush or rename. A handle is a raw file: what `write` returns from has reached the system, what
`sync` returns from has reached the disk.
"""

from __future__ import annotations

import fcntl
import io
import os
import stat
from collections import deque
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

_MOST = 512  # buffers in one call to the system


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class Files:
    """Files as the system has them."""

    def make_folder(self, path: Path) -> None:
        """A folder that only its owner can open, if it isn't there."""
        path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def keep_private(self, path: Path) -> bool:
        """Take a folder, and the files in it, from all but the owner; whether that changed anything."""
        changed = False
        for each in (path, *path.iterdir()):
            mode = each.stat().st_mode
            if mode & 0o077:
                each.chmod(stat.S_IMODE(mode) & 0o700)
                changed = True
        return changed

    def names(self, folder: Path) -> list[str]:
        return sorted(os.listdir(folder))

    def create(self, path: Path) -> io.FileIO:
        """Return a new file, to be appended to; an error if it is there."""
        return io.FileIO(path, "x", opener=_private)

    def read(self, path: Path, most: int = -1) -> bytes:
        """Return a file's bytes, or its first so many."""
        with open(path, "rb") as file:
            return file.read(most)

    def write(self, file: io.FileIO, parts: Sequence[Any]) -> None:
        """All of these bytes, one after the other."""
        waiting = deque(view for view in (memoryview(part).cast("B") for part in parts) if len(view))
        while waiting:
            written = os.writev(file.fileno(), list(islice(waiting, _MOST)))
            while waiting and written >= len(waiting[0]):
                written -= len(waiting.popleft())
            if written:
                waiting[0] = waiting[0][written:]

    def sync(self, file: io.FileIO) -> None:
        os.fsync(file.fileno())

    def cut(self, path: Path, size: int) -> None:
        """Shorten a file, on disk too."""
        with open(path, "r+b") as file:
            file.truncate(size)
            os.fsync(file.fileno())

    def rename(self, old: Path, new: Path) -> None:
        os.replace(old, new)

    def sync_folder(self, folder: Path) -> None:
        """Flush a folder's entries, so that a new name or a rename in it survives a power cut."""
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def lock(self, path: Path) -> io.FileIO | None:
        """Return a handle that holds the lock until it is closed; None if another has it."""
        file = io.FileIO(path, "w", opener=_private)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        return file
