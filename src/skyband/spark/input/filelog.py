"""Which files there are, and in which order their rows arrive.

Spark asks a source for offsets and later, perhaps in another process and after a crash, for what lies between
two of them. Listing a folder again would not give the same answer: a file may have come late, under a name
that sorts first. So the order is decided once and written down. The log has three kinds of lines:

    see     a file was noticed (all that one look at the folder finds, in order of name)
    take    a file got its place in the arrival order, with its size, its time of change and, for Parquet, its
            row groups; place n of a stream is its n-th `take`
    again   a file that was taken is another one now: nothing of its batch was taken, since its stream is strict

An offset is the number of files taken from each stream, and lines are flushed before an offset that covers
them is given to Spark. A taken file must stay as it was; one that no longer is raises an error, because its
rows have been counted.

A Parquet file without a readable footer is still being copied (or is none): it waits, and is taken when it can
be read. The same holds for empty files. Names that start with `_` or `.` and names of unfinished downloads are
not looked at.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from skyband.core.errors import InputError
from skyband.spark.jvm.files import append_line, read_from, read_lines
from skyband.spark.jvm.hadoop import HadoopPath
from skyband.spark.jvm.paths import Place, place_of

# What one micro-batch takes of a stream without max_files: enough to be worth a batch, little enough to fit.
_BATCH_BYTES = 256 << 20
_UNFINISHED = (".tmp", ".crdownload", ".part", ".partial", ".inprogress", "._copying_")


@dataclass(frozen=True)
class StreamFiles:
    """Where a stream's files are; plain data that travels to Spark's planner process."""

    name: str
    format: str
    root: str
    max_files: int | None


@dataclass(frozen=True)
class Taken:
    """A file with its place in the arrival order."""

    stream: str
    name: str  # relative to the stream's folder
    size: int
    changed: int  # time of last change, nanoseconds
    groups: tuple[tuple[int, int], ...] | None  # Parquet: rows and bytes of each row group


@dataclass
class _StreamLog:
    """What the log says of one stream."""

    seen: dict[str, None] = field(default_factory=dict)
    taken: list[Taken] = field(default_factory=list)
    by_name: dict[str, Taken] = field(default_factory=dict)

    @property
    def pending(self) -> list[str]:
        return [name for name in self.seen if name not in self.by_name]


class FileLog:
    """The log of one pipeline. Only Spark's planner process writes it (`writer=True`)."""

    def __init__(self, path: Place, writer: bool = False) -> None:
        self._path = path
        self._streams: dict[str, _StreamLog] = {}
        self._size = 0  # bytes that have been read
        if writer:
            read_lines(path, repair=True)
        self.refresh()

    def refresh(self) -> None:
        """Take in what another process has added."""
        records, self._size = read_from(self._path, self._size)
        for record in records:
            self._apply(record)

    def taken(self, stream: str) -> list[Taken]:
        """All files of a stream that have a place, in that order."""
        return self._stream(stream).taken

    def waiting(self, stream: str) -> list[str]:
        """Files that were noticed and have no place yet."""
        return self._stream(stream).pending

    def look(self, streams: list[StreamFiles]) -> None:
        """Notice new files; an error if a taken one is no longer what it was."""
        records = []
        for stream in streams:
            log = self._stream(stream.name)
            for name, size, changed in sorted(list_files(place_of(stream.root))):
                if name not in log.seen:
                    records.append({"see": stream.name, "name": name})
                elif name in log.by_name:
                    check_unchanged(stream, log.by_name[name], size, changed)
        self._add(records)

    def take(self, stream: StreamFiles, start: int) -> int:
        """Give the next files of a stream their places; the number of files taken up to and with this batch."""
        log = self._stream(stream.name)
        budget = stream.max_files if stream.max_files is not None else _BATCH_BYTES
        end = start
        # Files that got their place just before a crash come first: their numbers must stay.
        while end < len(log.taken) and budget > 0:
            budget -= 1 if stream.max_files is not None else log.taken[end].size
            end += 1
        records = []
        for name in log.pending if budget > 0 else ():
            if budget <= 0:
                break
            record = _describe(stream, name)
            if record is not None:
                records.append(record)
                budget -= 1 if stream.max_files is not None else record["size"]
        self._add(records)
        return end + len(records)

    def again(self, stream: StreamFiles, first: int, end: int) -> None:
        """Note the files at these places as they are now, where they have changed."""
        records = []
        for taken in self.taken(stream.name)[first:end]:
            record = _describe(stream, taken.name)
            if record is not None and (record["size"], record["changed"]) != (taken.size, taken.changed):
                records.append({"again": record.pop("take"), **record})
        self._add(records)

    def _add(self, records: list[dict[str, Any]]) -> None:
        if records:
            append_line(self._path, *records)
            self.refresh()

    def _apply(self, record: dict[str, Any]) -> None:
        if "see" in record:
            self._stream(record["see"]).seen[record["name"]] = None
            return
        groups = record.get("groups")
        taken = Taken(
            stream=record["take"] if "take" in record else record["again"],
            name=record["name"],
            size=record["size"],
            changed=record["changed"],
            groups=None if groups is None else tuple((rows, size) for rows, size in groups),
        )
        log = self._stream(taken.stream)
        if "again" in record:
            log.taken[log.taken.index(log.by_name[taken.name])] = taken
        else:
            log.taken.append(taken)
        log.by_name[taken.name] = taken

    def _stream(self, name: str) -> _StreamLog:
        return self._streams.setdefault(name, _StreamLog())


def list_files(root: Place) -> Iterator[tuple[str, int, int]]:
    """Name, size and time of change of every file of a stream; names are relative to its folder."""
    try:
        status = root.stat()
    except FileNotFoundError:
        return  # the folder may be made later
    if not root.is_dir():
        yield root.name, status.st_size, status.st_mtime_ns
    elif isinstance(root, HadoopPath):
        yield from _stored(root, "")
    else:
        yield from _below(str(root), "")


def _stored(folder: HadoopPath, prefix: str) -> Iterator[tuple[str, int, int]]:
    for one in folder.list():
        if _hidden(one.name):
            continue
        if one.is_folder:
            yield from _stored(folder / one.name, f"{prefix}{one.name}/")
        else:
            yield prefix + one.name, one.st_size, one.st_mtime_ns


def _below(folder: str, prefix: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if _hidden(entry.name):
                continue
            try:
                if entry.is_dir():
                    yield from _below(entry.path, f"{prefix}{entry.name}/")
                    continue
                status = entry.stat()
            except FileNotFoundError:
                continue  # removed while we looked
            yield prefix + entry.name, status.st_size, status.st_mtime_ns


def file_path(root: str, name: str) -> Place:
    """A file's path from its stream's path, which may be that very file."""
    path = place_of(root)
    return path / name if path.name != name or path.is_dir() else path


def check_unchanged(stream: StreamFiles, taken: Taken, size: int, changed: int) -> None:
    """Raise the error for a file that is not what it was when it got its place."""
    if (size, changed) != (taken.size, taken.changed):
        how = "was written again" if size == taken.size else f"had {taken.size} bytes then and has {size} now"
        raise InputError(
            f"The file {file_path(stream.root, taken.name)} of stream '{stream.name}' changed after it was read (it "
            f"{how}): put new rows into new files, or start again with an empty checkpoint and output folder."
        )


def _describe(stream: StreamFiles, name: str) -> dict[str, Any] | None:
    """The `take` line of a file; None if it isn't ready."""
    path = file_path(stream.root, name)
    try:
        status = path.stat()
        if status.st_size == 0:
            return None
        groups = _row_groups(path) if stream.format == "parquet" else None
    except (FileNotFoundError, ValueError):
        return None
    return {
        "take": stream.name,
        "name": name,
        "size": status.st_size,
        "changed": status.st_mtime_ns,
        "groups": groups,
    }


def _row_groups(path: Place) -> list[list[int]]:
    """Rows and bytes of each row group; ValueError (Arrow's invalid data) without a readable footer."""
    import pyarrow.parquet as pq

    with path.open("rb") as data, pq.ParquetFile(data) as file:
        metadata = file.metadata
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        return [[group.num_rows, group.total_byte_size] for group in groups]


def _hidden(name: str) -> bool:
    return name.startswith(("_", ".")) or name.lower().endswith(_UNFINISHED)
