"""The journal: segments on disk, one of them live, and a flush for each group of steps.

Steps are appended to the live segment. It is given up for a new one when it is long enough, when the folder is opened
again, and after any failure: what a failed write or flush has left behind is unknown, so the tail is cut off if that
is possible and never added to again. The new segment says which offset it begins with, and whatever the old one has
from there on doesn't count. A failed flush is tried again with a new segment at once; a full disk is reported, and
the next group tries again.
"""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from skyband.core.errors import DiskFull, JournalError
from skyband.durable import segment
from skyband.durable.files import Files
from skyband.durable.segment import Found
from skyband.durable.task import Written

log = logging.getLogger("skyband")
SUFFIX = ".journal"
UNFINISHED = ".unfinished"
TRIAL = "trial"  # the file that shows whether the disk takes anything
LEAST_TRIED, MOST_TRIED = 4096, 1 << 20  # its bytes
NOTHING_TAKEN = "nothing of this step was taken."
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Journal:
    """The segments of one folder. Only one thread at a time appends."""

    def __init__(self, folder: Path, files: Files, segment_bytes: int) -> None:
        self.folder = folder
        self.segment_bytes = segment_bytes
        self.next = 1  # the next step's offset
        self.written = 0  # bytes since it was opened
        self._files = files
        self._segments: list[tuple[int, int]] = []  # number and first offset, in order
        self._guard = threading.Lock()  # over the list: a snapshot's thread removes from it
        self._number = 0  # of the last segment ever
        self._live: io.FileIO | None = None
        self._salt = 0
        self._size = 0  # of the live segment, as far as it is on the disk
        self._trying = threading.Lock()
        self._refused = 0  # bytes of the last step that found no room

    def path(self, number: int) -> Path:
        return self.folder / f"{number:012d}{SUFFIX}"

    # -- writing -------------------------------------------------------------------------------------------

    def append(self, steps: list[Written]) -> None:
        """Bring steps to the disk together, the first as number `next`. Either all of them are there, or none."""
        for attempt in (1, 2):
            try:
                self._append(steps)
                return
            except OSError as error:
                self._give_up()
                if error.errno in FULL:
                    self._refused = min(sum(len(step.said) + len(step.body) for step in steps), MOST_TRIED)
                    raise DiskFull(f"{self._no_room(error)} and push again; {NOTHING_TAKEN}") from None
                if attempt == 2:
                    raise JournalError(f"{self._no_disk(error)} and push again; {NOTHING_TAKEN}") from None
                log.warning("the journal %s: %s; trying again with a new segment", self.folder, error)
            except BaseException:
                self._give_up()
                raise

    def _no_room(self, error: OSError) -> str:
        return f"There is no room left for the journal {self.folder} ({error.strerror}): make some"

    def _no_disk(self, error: OSError) -> str:
        return f"The journal {self.folder} can't be written ({error.strerror or error}): see to the disk"

    def refusal(self) -> str | None:
        """Why the disk would take no step now, in a sentence; None where it takes one. Writes a file to know it."""
        path = self.folder / f"{TRIAL}{UNFINISHED}"
        with self._trying:
            file = None
            try:
                self._files.remove(path)
                file = self._files.create(path)
                self._files.write(file, [bytes(max(self._refused, LEAST_TRIED))])
                self._files.sync(file)
                self._refused = 0
                return None
            except OSError as error:
                return f"{self._no_room(error) if error.errno in FULL else self._no_disk(error)}."
            finally:
                if file is not None:
                    file.close()
                with contextlib.suppress(OSError):
                    self._files.remove(path)

    def _append(self, steps: list[Written]) -> None:
        if self._live is None or self._size >= self.segment_bytes:
            self._begin()
        assert self._live is not None
        first = self.next
        parts: list[Any] = []
        for number, step in enumerate(steps):
            parts += segment.record(first + number, first, step, self._salt)
        self._files.write(self._live, parts)
        self._files.sync(self._live)
        size = sum(len(part) for part in parts)
        self._size += size
        self.written += size
        self.next += len(steps)  # last of all: interrupted before, the steps don't count

    def _begin(self) -> None:
        """A new live segment; its head is on the disk before any record is written."""
        self._close_live()
        self._number += 1
        with self._guard:
            self._segments.append((self._number, self.next))
        self._live = self._files.create(self.path(self._number))
        self._salt, self._size = segment.new_salt(), 0
        self._files.write(self._live, [segment.head(self.next, self._salt)])
        self._files.sync(self._live)
        self._files.sync_folder(self.folder)
        self._size = segment.HEAD

    def _give_up(self) -> None:
        """Never add to the live segment again; cut off what isn't surely there, if that can be done."""
        self._close_live()
        with self._guard:
            if not self._segments or self._segments[-1][0] != self._number:
                return
            number, first = self._segments[-1]
            empty = first == self.next
            if empty:
                self._segments.pop()
        try:
            if empty:
                self._files.remove(self.path(number))
            else:
                self._files.cut(self.path(number), self._size)
        except OSError as error:
            log.warning("the end of %s can't be cut off: %s", self.path(number), error)

    def _close_live(self) -> None:
        if self._live is not None:
            live, self._live = self._live, None
            try:
                live.close()
            except OSError as error:
                log.warning("%s: %s", live.name, error)

    def forget(self, offset: int) -> None:
        """Remove the segments that hold nothing but steps up to this one."""
        with self._guard:
            gone = [
                number
                for (number, _), (_, after) in zip(self._segments, self._segments[1:], strict=False)
                if after <= offset + 1
            ]
            self._segments = [(number, first) for number, first in self._segments if number not in gone]
        for number in gone:
            self._files.remove(self.path(number))

    def close(self) -> None:
        self._close_live()

    # -- reading -------------------------------------------------------------------------------------------

    def open(self, names: list[str], offset: int) -> tuple[list[tuple[int, list[Found]]], list[str]]:
        """Find the steps after `offset`: by segment, in order; and what there is to report.

        A torn tail is cut off; an error if steps are missing or damaged.
        """
        report: list[str] = []
        heads = self._heads(names, report)
        self._segments = [(number, first) for number, first, _ in heads]
        found: list[tuple[int, list[Found]]] = []
        reached = offset  # all steps up to this one are known
        for place, (number, first, salt) in enumerate(heads):
            last = place == len(heads) - 1
            stop = None if last else heads[place + 1][1]  # what the next segment has doesn't count here
            if stop is not None and stop <= offset + 1:
                continue
            name = str(self.path(number))
            if first > reached + 1:
                raise JournalError(
                    f"{name} begins with step {first}, and the steps from {reached + 1} on are nowhere to be found: "
                    "bring the folder back from a copy."
                )
            data = self._files.read(self.path(number))
            records, end = segment.read_records(data, first, salt, name)
            if stop is not None and first + len(records) < stop:
                raise segment.damaged(name, end)
            if last and end < len(data):
                self._files.cut(self.path(number), end)
                report.append(
                    f"{name} had a torn end: {len(data) - end} bytes that were never acknowledged were cut off at "
                    f"byte {end}."
                )
            wanted = [r for r in records if r.offset > offset and (stop is None or r.offset < stop)]
            reached = max(reached, first + len(records) - 1 if stop is None else stop - 1)
            found.append((number, wanted))
        self.next = reached + 1
        return found, report

    def _heads(self, names: list[str], report: list[str]) -> list[tuple[int, int, int]]:
        """Number, first offset and salt of every segment; one that was never finished is removed."""
        numbers = [
            int(n[: -len(SUFFIX)]) for n in names if n.endswith(SUFFIX) and n[: -len(SUFFIX)].isdigit()
        ]
        self._number = max(numbers, default=0)
        heads = []
        for number in sorted(numbers):
            path = self.path(number)
            found = segment.read_head(self._files.read(path, segment.HEAD + 1), str(path))
            if found is not None:
                heads.append((number, *found))
                continue
            report.append(f"{path} was only begun and holds no step: it was removed.")
            self._files.remove(path)
        return heads

    def bodies(self, found: list[tuple[int, list[Found]]]) -> Iterator[tuple[Found, memoryview]]:
        """The records with their bytes, one segment in memory at a time."""
        for number, records in found:
            data = memoryview(self._files.read(self.path(number))) if records else memoryview(b"")
            for record in records:
                yield record, data[slice(*record.body)]
