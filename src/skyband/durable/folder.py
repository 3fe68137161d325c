"""The folder of a journal: snapshots, segments, and a lock.

    lock                     held by the one process that has the folder open
    00…017.snapshot          the monitor after step 17, as `Monitor.save` writes it (and `Monitor.load` reads it), with
                             the journal's own part beside it: recent changes and idempotency keys
    00…003.journal           a segment of steps

A snapshot is written under another name, flushed, renamed, and the folder flushed; only then go the snapshots and
segments that nothing needs any more. Two snapshots are kept, and the steps since the older one: should the newer
turn out damaged, the state comes from the other, and that is reported.
"""

from __future__ import annotations

import io
import logging
from pathlib import Path
from typing import Any

from skyband.core import blob
from skyband.core.errors import InputError, JournalError
from skyband.durable.files import Files
from skyband.durable.journal import SUFFIX, UNFINISHED, Journal

log = logging.getLogger("skyband")
SNAPSHOT = ".snapshot"
KEPT = 2
LOCK = "lock"


class Folder:
    """A folder that this process alone has open."""

    def __init__(self, path: Path, files: Files, segment_bytes: int) -> None:
        self.path = path
        self._files = files
        try:
            files.make_folder(path)
            lock = files.lock(path / LOCK)
        except OSError as error:
            raise JournalError(
                f"The journal folder {path} can't be used ({error.strerror}): choose another."
            ) from None
        if lock is None:
            raise JournalError(
                f"The journal {path} is open already, here or in another process: close it first, or choose another "
                "folder."
            )
        self._lock: io.FileIO = lock
        self.journal = Journal(path, files, segment_bytes)
        self.snapshots: list[int] = []  # offsets, ascending
        self._damaged: list[int] = []  # of those, which could not be read

    def names(self) -> list[str]:
        """Return what is in the folder; unfinished files are removed."""
        names = []
        for name in self._files.names(self.path):
            if name.endswith(UNFINISHED):
                self._files.remove(self.path / name)
            else:
                names.append(name)
        self.snapshots = sorted(
            int(n[: -len(SNAPSHOT)]) for n in names if n.endswith(SNAPSHOT) and n[: -len(SNAPSHOT)].isdigit()
        )
        strange = [name for name in names if name != LOCK]
        if not self.snapshots and strange:
            raise JournalError(
                f"The folder {self.path} holds {strange[0]} and no snapshot of a journal: choose an empty folder, or "
                "bring this one back from a copy."
            )
        if self.snapshots:
            try:
                if self._files.keep_private(self.path):
                    log.warning("the journal %s could be read by others: now its owner alone can", self.path)
            except OSError as error:
                log.warning("others may read the journal %s: %s", self.path, error)
        return names

    def newest(self) -> tuple[dict[str, Any], list[str]] | None:
        """Return the content of the newest whole snapshot, and what there is to report; None in a new folder."""
        report: list[str] = []
        self._damaged = []
        for offset in reversed(self.snapshots):
            path = self._snapshot(offset)
            try:
                content = blob.from_bytes(self._files.read(path), str(path))
                if content["journal"]["offset"] == offset:
                    return content, report
                problem = f"{path} is not a snapshot of step {offset}."
            except blob.OtherFormat:
                raise
            except (OSError, InputError, KeyError, TypeError) as error:
                problem = str(error)
            self._damaged.append(offset)
            report.append(f"{problem} The snapshot before it was taken instead.")
        if report:
            raise JournalError(
                f"No snapshot in the journal {self.path} is whole, {self._snapshot(self.snapshots[-1]).name} the "
                "newest: bring the folder back from a copy."
            )
        return None

    def _snapshot(self, offset: int) -> Path:
        return self.path / f"{offset:020d}{SNAPSHOT}"

    def write_snapshot(self, offset: int, data: bytes) -> None:
        """Keep the state after this step; then what is older than the snapshot before goes."""
        target = self._snapshot(offset)
        unfinished = target.with_suffix(UNFINISHED)
        file = None
        try:
            self._files.remove(unfinished)
            file = self._files.create(unfinished)
            self._files.write(file, [data])
            self._files.sync(file)
            file.close()
            self._files.rename(unfinished, target)
            self._files.sync_folder(self.path)
        except OSError as error:
            if file is not None:
                file.close()
            raise JournalError(
                f"The snapshot {target} can't be written ({error.strerror or error}): see to the disk."
            ) from None
        self.snapshots = sorted({*self.snapshots, offset})
        self._tidy()

    def _tidy(self) -> None:
        """Remove what nothing needs; whatever stays behind is tried again with the next snapshot."""
        try:
            while len(self.snapshots) > KEPT:
                self._files.remove(self._snapshot(self.snapshots[0]))
                self.snapshots.pop(0)
            if len(self.snapshots) == KEPT:
                self.journal.forget(self.snapshots[0])
        except OSError as error:
            log.warning("the journal %s keeps more than it needs: %s", self.path, error)

    def sync_parent(self) -> None:
        """The folder itself has to be in the folder above it."""
        try:
            self._files.sync_folder(self.path.resolve().parent)
        except OSError as error:
            raise JournalError(f"The folder of {self.path} can't be flushed ({error.strerror}).") from None

    def drop_damaged(self) -> None:
        """Remove the snapshots that were passed over: the state is there without them, and they prove nothing."""
        for offset in self._damaged:
            self._files.remove(self._snapshot(offset))
        self.snapshots = [offset for offset in self.snapshots if offset not in self._damaged]
        self._damaged = []

    def size(self) -> int:
        """Bytes on disk."""
        return sum(
            (self.path / name).stat().st_size
            for name in self._files.names(self.path)
            if name.endswith((SNAPSHOT, SUFFIX))
        )

    def close(self) -> None:
        self.journal.close()
        self._lock.close()
