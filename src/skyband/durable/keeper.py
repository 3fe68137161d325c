"""Keeping an engine's steps: the folder seen from the engine.

It writes groups of steps, finds them again, and writes snapshots in a thread of its own. A snapshot's arrays are
copied between two steps, which is quick; putting them into a file, the write and the flush happen beside the stream.
One is due when the steps since the last are as many bytes as it has itself, and at least as many as the settings say:
so snapshots cost at most as much writing as the steps do, and what has to be repeated after a stop is bounded.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from skyband.core import blob
from skyband.core.errors import JournalError
from skyband.durable.files import Files
from skyband.durable.folder import Folder
from skyband.durable.segment import Found
from skyband.durable.settings import Settings
from skyband.durable.task import Task, written

log = logging.getLogger("skyband")

# what the monitor makes for each snapshot, so it needs no copy
LATER = ("rejects", "watches", "journal")


def put_together(journal: dict[str, Any]) -> dict[str, Any]:
    """Return the journal's own part of a snapshot, of which some is made only when it is written."""
    return {name: part() if callable(part) else part for name, part in journal.items()}


class Keeper:
    """The folder of one engine."""

    def __init__(self, path: Path, settings: Settings, files: Files) -> None:
        self.settings = settings
        self.folder = Folder(path, files, settings.segment_bytes)
        self.stall = 0.0  # seconds for which the last snapshot held up the steps
        self.took = 0.0  # and in all
        self.failed: str | None = None  # why the last snapshot could not be written
        self._thread: threading.Thread | None = None
        self.snapshot_size = 0
        self._from_bytes = 0  # of the journal, when the last snapshot was made
        self._from_offset = 0

    # -- steps ---------------------------------------------------------------------------------------------

    def append(self, group: list[Task]) -> None:
        """Bring steps to the disk, and number them."""
        for number, task in enumerate(group):
            task.offset = self.folder.journal.next + number
        self.folder.journal.append([task.form for task in group if task.form is not None])

    def leave_out(self, offsets: list[int]) -> None:
        """Say that these steps were written but never taken, and must not be."""
        self.folder.journal.append([written({"kind": "void", "of": offsets})])

    def load(self) -> tuple[dict[str, Any] | None, list[str]]:
        """Return the newest snapshot's content, and what there is to report; None in a new folder."""
        self.folder.journal.close()  # the next step begins a new segment
        self._names = self.folder.names()
        found = self.folder.newest()
        return (None, []) if found is None else found

    def begin(self, content: dict[str, Any]) -> None:
        """A new folder: write down what the monitor is before its first step."""
        self.folder.write_snapshot(0, blob.to_bytes(content))
        self.folder.sync_parent()

    def steps(self, offset: int, report: list[str]) -> Iterator[tuple[Found, memoryview]]:
        """The steps after this one, but for those that were left out."""
        found, said = self.folder.journal.open(self._names, offset)
        report += said
        void = {n for _, records in found for r in records if r.meta["kind"] == "void" for n in r.meta["of"]}
        wanted = [
            (number, [r for r in records if r.meta["kind"] != "void" and r.offset not in void])
            for number, records in found
        ]
        self._from_offset = offset
        self._from_bytes = self.folder.journal.written - sum(
            r.end - r.start for _, records in found for r in records
        )
        return self.folder.journal.bodies(wanted)

    @property
    def last(self) -> int:
        """The offset of the last step on disk."""
        return self.folder.journal.next - 1

    # -- snapshots -----------------------------------------------------------------------------------------

    def due(self) -> bool:
        """Whether it is time for a snapshot, and none is under way."""
        if self._thread is not None and self._thread.is_alive():
            return False
        grown = self.folder.journal.written - self._from_bytes
        return (
            grown >= max(self.settings.snapshot_bytes, self.snapshot_size)
            or self.last - self._from_offset >= self.settings.snapshot_steps
        )

    def snapshot(self, offset: int, copy: Callable[[], dict[str, Any]], wait: bool = False) -> None:
        """Write a snapshot of the state after this step. `copy` gives the state; nothing may be changed meanwhile."""
        self.wait()
        began = time.perf_counter()
        self._from_bytes, self._from_offset = self.folder.journal.written, offset
        state = copy()
        later = {name: state.pop(name) for name in LATER}
        parts = blob.parts_of(state)
        self.stall = time.perf_counter() - began

        def write() -> None:
            try:
                later["journal"] = put_together(later["journal"])
                data = blob.assemble(blob.joined(parts, later))
                self.folder.write_snapshot(offset, data)
                self.snapshot_size, self.failed = len(data), None
            except JournalError as error:
                self.failed = str(error)
                # soon again, but not at every step
                self._from_bytes -= self.settings.snapshot_bytes * 3 // 4
                log.warning("%s", error)
            finally:
                self.took = time.perf_counter() - began

        if wait or not self.settings.background:
            write()
            return
        self._thread = threading.Thread(target=write, name="skyband-snapshot", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Until no snapshot is being written."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    @property
    def fresh(self) -> bool:
        """Whether the newest snapshot holds every step."""
        return self.last in self.folder.snapshots

    def close(self) -> None:
        self.wait()
        self.folder.close()
