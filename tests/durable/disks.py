"""Disks that fail: at the n-th thing that is done to them, once or for good, or with all that was not flushed lost."""

from __future__ import annotations

import errno
import io
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from skyband.durable import Files


class Killed(BaseException):
    """The process is gone from here on."""


class Quick(Files):
    """A disk that is never flushed: no test cuts the real power."""

    def sync(self, file: io.FileIO) -> None:
        pass

    def sync_folder(self, folder: Path) -> None:
        pass

    def cut(self, path: Path, size: int) -> None:
        os.truncate(path, size)


class Counting(Quick):
    """Counts what is done to the disk; derived disks fail at number `at`."""

    def __init__(self, at: int = -1) -> None:
        self.at = at
        self.done = 0
        self.log: list[str] = []

    def _fails(self, what: str) -> bool:
        self.done += 1
        self.log.append(what)
        return self.done == self.at

    def _fail(self) -> None:
        raise AssertionError("a disk that only counts doesn't fail")

    def create(self, path: Path) -> io.FileIO:
        if self._fails("create"):
            self._fail()
        return super().create(path)

    def write(self, file: io.FileIO, parts: Sequence[Any]) -> None:
        if self._fails("write"):
            data = b"".join(bytes(part) for part in parts)
            os.write(file.fileno(), data[: len(data) * (self.at % 4) // 3])  # nothing, some of it, all of it
            self._fail()
        super().write(file, parts)

    def sync(self, file: io.FileIO) -> None:
        if self._fails("sync"):
            self._fail()
        super().sync(file)

    def cut(self, path: Path, size: int) -> None:
        if self._fails("cut"):
            self._fail()
        super().cut(path, size)

    def rename(self, old: Path, new: Path) -> None:
        if self._fails("rename"):
            self._fail()
        super().rename(old, new)

    def sync_folder(self, folder: Path) -> None:
        if self._fails("sync_folder"):
            self._fail()
        super().sync_folder(folder)

    def remove(self, path: Path) -> None:
        if self._fails("remove"):
            self._fail()
        super().remove(path)


class Failing(Counting):
    """Fails so many times in a row from number `at` on, then works again."""

    def __init__(self, at: int, number: int = errno.EIO, times: int = 1) -> None:
        super().__init__(at)
        self.number, self.times = number, times

    def _fails(self, what: str) -> bool:
        return super()._fails(what) or 0 < self.at < self.done < self.at + self.times

    def _fail(self) -> None:
        raise OSError(self.number, os.strerror(self.number))


class Killing(Counting):
    """Ends the process at number `at`: nothing more happens to the disk."""

    def _fails(self, what: str) -> bool:
        return super()._fails(what) or 0 < self.at < self.done

    def _fail(self) -> None:
        raise Killed


class PowerCut(Killing):
    """Ends the process and loses what was not flushed: ends of files, new names, renames."""

    def __init__(self, at: int = -1, seed: int = 0) -> None:
        super().__init__(at)
        self.random = random.Random(seed)
        self.sizes: dict[Path, int] = {}  # how much of each new file is surely on the disk
        self.fresh: dict[
            Path, Path | None
        ] = {}  # new names since the folder was flushed, and what they were before

    def create(self, path: Path) -> io.FileIO:
        file = super().create(path)
        self.sizes[path] = 0
        self.fresh[path] = None
        return file

    def sync(self, file: io.FileIO) -> None:
        super().sync(file)
        path = Path(os.fsdecode(file.name))  # type: ignore[arg-type]
        self.sizes[path] = path.stat().st_size

    def cut(self, path: Path, size: int) -> None:
        super().cut(path, size)
        self.sizes[path] = min(size, self.sizes.get(path, size))

    def rename(self, old: Path, new: Path) -> None:
        super().rename(old, new)
        self.sizes[new] = self.sizes.pop(old)
        self.fresh.pop(old, None)
        self.fresh[new] = old

    def sync_folder(self, folder: Path) -> None:
        super().sync_folder(folder)
        self.fresh = {path: was for path, was in self.fresh.items() if path.parent != folder}

    def lose(self) -> None:
        """What the disk looks like when the power is back."""
        for path, was in self.fresh.items():
            if path.exists() and self.random.random() < 0.5:
                if was is None:
                    path.unlink()
                else:
                    path.rename(was)
        for path, sure in self.sizes.items():
            if path.exists() and path.stat().st_size > sure:
                data = bytearray(path.read_bytes())
                end = self.random.randint(sure, len(data))
                for _ in range(self.random.randint(0, 3)):  # blocks that were not written yet
                    start = self.random.randint(sure, end)
                    stop = min(end, start + self.random.choice([1, 64, 4096]))
                    data[start:stop] = bytes(stop - start)
                path.write_bytes(data[:end])
