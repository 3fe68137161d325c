"""Files and folders of Hadoop's file systems: `hdfs:`, `s3a:`, `abfs:`, `gs:` and whatever else has a connector.

`HadoopPath` has those methods of pathlib's that this room uses, so the same code works on a disk, where it is given a
`Path` and no JVM is needed. Beside them are two ways to write, both of the whole content from memory: `put` replaces a
file, `put_new` refuses one that exists. On a store one PUT does either: nothing is visible before its end. Elsewhere
the file is written under another name and renamed.

A JVM does the work. The driver has Spark's. Its planner process, and tasks that run on the driver's machine, connect to
that one: a file that only this user may read says how. A Python worker on a cluster cannot use its executor's JVM, so
it starts a small one of its own, once, with the executor's jars and the driver's settings of `hadoop.…`.
"""

from __future__ import annotations

import contextlib
import fnmatch
import io
import json
import os
import re
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from zlib import crc32

from skyband.core.errors import InputError
from skyband.spark.jvm import private as jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAY = "SKYBAND_HADOOP"  # in the environment of Python workers: how they reach a JVM
# Bytes that pass between Python and the JVM as they are: sent as text, which takes Python 40 ns a byte. What is
# larger goes by way of a temporary file, at 2 ns a byte for both.
_SMALL = 64 << 10
_BUFFER = 256 << 10
_CONDITIONAL = (
    "fs.option.create.conditional.overwrite"  # S3A: a PUT that the store refuses if there is an object
)
_ABORTABLE = "fs.capability.outputstream.abortable"  # a file is visible when it is closed, and not before
_WHOLE = {"gs"}  # the same, of connectors that don't say so
# What FileStatus prints of itself: one call for a whole folder, instead of several for each file.
_LISTED = re.compile(
    r"(?:^|[{,])\w+\{path=([^\n]*?); isDirectory=(true|false)(?:; length=(\d+); replication=-?\d+; blocksize=-?\d+)?"
    r"; modification_time=(-?\d+);"
)
_ETAG = re.compile(r'eTag="?([^",\s]+)')
_MISSING = {"FileNotFoundException", "NoSuchFileException"}
_EXISTS = {
    "FileAlreadyExistsException",
    "RemoteFileChangedException",
    "ConcurrentWriteOperationDetectedException",
}
_DENIED = {"AccessControlException", "AccessDeniedException"}
_UNKNOWN = {"UnsupportedFileSystemException", "ClassNotFoundException", "NoClassDefFoundError"}


class StoreError(InputError, OSError):
    """A store that does not answer, or does not do what it is asked."""


@dataclass(frozen=True)
class Status:
    """What a listing says of a file or folder, with the names that `os.stat` has for it."""

    name: str
    is_folder: bool
    st_size: int
    st_mtime_ns: int  # with the store's tag, where there is one: times may be whole seconds


@dataclass(frozen=True, order=True)
class HadoopPath:
    """A file or folder."""

    base: str  # scheme and authority, as in s3a://bucket
    path: str  # from the root of the file system

    @classmethod
    def of(cls, text: str) -> HadoopPath:
        """The path that a URI names. Hadoop takes names as they are, without %xx."""
        scheme, _, rest = text.partition(":")
        authority, path = "", rest
        if rest.startswith("//"):
            authority, _, path = rest[2:].partition("/")
        names = [name for name in path.split("/") if name not in ("", ".")]
        return cls(f"{scheme.lower()}:{'//' if authority else ''}{authority}", "/" + "/".join(names))

    def __str__(self) -> str:
        return self.base + self.path

    def __truediv__(self, name: str) -> HadoopPath:
        return HadoopPath(self.base, f"{self.path.rstrip('/')}/{name}")

    @property
    def scheme(self) -> str:
        return self.base.partition(":")[0]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def stem(self) -> str:
        return Path(self.name).stem

    @property
    def suffix(self) -> str:
        return Path(self.name).suffix

    @property
    def parent(self) -> HadoopPath:
        return HadoopPath(self.base, self.path.rpartition("/")[0] or "/")

    def resolve(self) -> HadoopPath:
        return self

    # -- looking

    def stat(self) -> Status:
        with self._hadoop() as hadoop:
            return _status(hadoop.system.getFileStatus(hadoop.path))

    def exists(self) -> bool:
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        try:
            return self.stat().is_folder
        except FileNotFoundError:
            return False

    def list(self) -> list[Status]:
        """What a folder holds; nothing if it isn't there."""
        try:
            with self._hadoop() as hadoop:
                found = hadoop.system.listStatus(hadoop.path)
                listed = _statuses(hadoop.view.org.apache.commons.lang3.ArrayUtils.toString(found))
                if len(listed) != len(found) or any(one.name == "null" for one in listed):
                    listed = [_status(status) for status in found]  # one that prints something else
                return listed
        except FileNotFoundError:
            return []

    def iterdir(self) -> Iterator[HadoopPath]:
        return (self / status.name for status in self.list())

    def glob(self, pattern: str) -> Iterator[HadoopPath]:
        """The folder's own files and folders whose name fits a pattern."""
        return (self / one.name for one in self.list() if fnmatch.fnmatchcase(one.name, pattern))

    # -- reading

    def open(self, mode: str = "rb") -> BinaryIO:
        assert mode == "rb", "a store's objects are written whole"
        with self._hadoop() as hadoop:
            status = hadoop.system.getFileStatus(hadoop.path)
            size = int(status.getLen())
            # with what is known of the file, so that the connector doesn't ask again
            stream = hadoop.system.openFile(hadoop.path).withFileStatus(status).build().get()
            return io.BufferedReader(_Stream(self, hadoop, stream, size), _BUFFER)

    def read_bytes(self) -> bytes:
        with self.open() as file:
            return file.read()

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.read_bytes().decode(encoding)

    # -- writing

    @property
    def is_whole(self) -> bool:
        """Whether a file is visible at its end and not before, so that none is ever unfinished."""
        with self._hadoop() as hadoop:
            return hadoop.renaming() is None

    def put(self, data: bytes, temporary: HadoopPath | None = None) -> None:
        """Replace the file by these bytes; a reader sees all of the old content or all of the new.

        `temporary` is a folder for the unfinished file, where there has to be one."""
        self._write(data, temporary, new=False)

    def put_new(self, data: bytes, temporary: HadoopPath | None = None) -> None:
        """Write a file that must not be there yet: of several that try, one has no FileExistsError."""
        self._write(data, temporary, new=True)

    def _write(self, data: bytes, temporary: HadoopPath | None, new: bool) -> None:
        with self._hadoop() as hadoop:
            context = hadoop.renaming()
            if context is None:
                _send(hadoop, hadoop.create(self, new), data)
                return
            folder = self.parent if temporary is None else temporary
            unfinished = folder / f".{self.name}.{uuid.uuid4().hex}.tmp"
            source = hadoop.java_path(unfinished)
            try:
                _send(hadoop, hadoop.system.create(source, True), data)
                hadoop.system.mkdirs(hadoop.path.getParent())
                how = [] if new else [hadoop.overwrite()]
                context.rename(source, hadoop.path, hadoop.renames(how))
            except BaseException:
                with contextlib.suppress(Exception):
                    hadoop.system.delete(source, False)
                raise

    def unlink(self, missing_ok: bool = False) -> None:
        self.remove()

    def remove(self) -> None:
        """Delete the file, or the folder with all that is below it."""
        with self._hadoop() as hadoop:
            hadoop.system.delete(hadoop.path, True)

    def mkdir(self, parents: bool = False, exist_ok: bool = False) -> None:
        with self._hadoop() as hadoop:
            hadoop.system.mkdirs(hadoop.path)

    @contextlib.contextmanager
    def _hadoop(self) -> Iterator[_Hadoop]:
        """Hadoop's side of this path; what goes wrong there is an error as a disk would have it, or a sentence."""
        try:
            yield _Hadoop(_reached(), self)
        except Exception as problem:
            said = jvm.java_error(problem)
            if said is None:
                raise
            kinds, text = said
            if kinds & _MISSING:
                raise FileNotFoundError(f"{self} is not there") from None
            if kinds & _EXISTS:
                raise FileExistsError(f"{self} is there already") from None
            if kinds & _DENIED:
                raise PermissionError(f"{self}: {text}") from None
            if kinds & _UNKNOWN or "Wrong FS" in text:
                raise InputError(
                    f"{self} can't be reached ({text}): name the connector of '{self.scheme}' in [spark], such as "
                    f'jars.packages = "org.apache.hadoop:hadoop-aws:3.5.0" for s3a, and its settings as hadoop.fs.….'
                ) from None
            raise StoreError(
                f"{self} can't be used ({text}): see to the store, and to its address and rights in [spark]."
            ) from None


class _Stream(io.RawIOBase):
    """An open file, whose bytes come through the JVM."""

    def __init__(self, place: HadoopPath, hadoop: _Hadoop, stream: Any, size: int) -> None:
        self._place, self._view, self._stream = place, hadoop.view, stream
        self._size, self._at = size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        wanted = max(0, min(len(buffer), self._size - self._at))
        if wanted:
            with self._place._hadoop():
                if self._stream.getPos() != self._at:
                    self._stream.seek(self._at)
                buffer[:wanted] = self._bytes(wanted)
            self._at += wanted
        return wanted

    def readall(self) -> bytes:
        found = bytearray(max(0, self._size - self._at))
        self.readinto(found)
        return bytes(found)

    def _bytes(self, wanted: int) -> bytes:
        commons = self._view.org.apache.commons.io.IOUtils
        if wanted <= _SMALL:
            return bytes(commons.toByteArray(self._stream, wanted))
        with tempfile.NamedTemporaryFile(prefix="skyband-") as between:
            out = self._view.java.io.FileOutputStream(between.name)
            try:
                commons.copyLarge(self._stream, out, 0, wanted)
            finally:
                out.close()
            data = between.read()
        if len(data) != wanted:
            raise StoreError(f"{self._place} has fewer bytes than it had: put new rows into new files.")
        return data

    def close(self) -> None:
        if not self.closed:
            super().close()
            with contextlib.suppress(Exception):
                self._stream.close()


def _send(hadoop: _Hadoop, out: Any, data: bytes) -> None:
    """Write bytes and close; if that fails nothing of them may become visible."""
    try:
        if len(data) <= _SMALL:
            out.write(data)
        else:
            with tempfile.NamedTemporaryFile(prefix="skyband-") as between:
                between.write(data)
                between.flush()
                source = hadoop.view.java.io.FileInputStream(between.name)
                try:
                    hadoop.view.org.apache.commons.io.IOUtils.copyLarge(source, out)
                finally:
                    source.close()
    except BaseException:
        with contextlib.suppress(Exception):
            out.abort()
        raise
    out.close()


def _status(status: Any) -> Status:
    """One file or folder, which takes several calls."""
    tag = _ETAG.search(status.toString())
    return _made(
        status.getPath().getName(),
        bool(status.isDirectory()),
        int(status.getLen()),
        int(status.getModificationTime()),
        tag and tag[1],
    )


def _made(name: str, folder: bool, size: int, changed: int, tag: str | None) -> Status:
    return Status(name, folder, size, changed * 1_000_000 + (crc32(tag.encode()) % 1_000_000 if tag else 0))


def _statuses(text: str) -> list[Status]:
    """What FileStatus and its kin print of themselves."""
    matches = [*_LISTED.finditer(text)]
    ends = [*(match.start() for match in matches[1:]), len(text)]
    found = []
    for match, end in zip(matches, ends, strict=False):
        path, folder, size, changed = match.groups()
        tag = _ETAG.search(text, match.end(), end)
        name = path.rstrip("/").rpartition("/")[2]
        found.append(_made(name, folder == "true", int(size or 0), int(changed), tag and tag[1]))
    return found


# -- Hadoop's side ------------------------------------------------------------------------------------------------


class _Hadoop:
    """The Java objects of one path."""

    def __init__(self, reached: _Reached, place: HadoopPath) -> None:
        self._reached = reached
        self.view = reached.view
        self.place = place
        self.path = self.java_path(place)
        if place.base not in reached.systems:
            reached.systems[place.base] = self.path.getFileSystem(reached.conf)
        self.system = reached.systems[place.base]

    def java_path(self, place: HadoopPath) -> Any:
        authority = place.base.partition("://")[2] or None
        return self.view.org.apache.hadoop.fs.Path(place.scheme, authority, place.path)

    def renaming(self) -> Any | None:
        """What renames atomically; None for a store, where a file is visible when it is whole."""
        known = self._reached.renaming
        base = self.place.base
        if base not in known:
            whole = self.place.scheme in _WHOLE or self.system.hasPathCapability(self.path, _ABORTABLE)
            known[base] = None
            if not whole:
                uri = self.path.toUri()
                known[base] = self.view.org.apache.hadoop.fs.FileContext.getFileContext(
                    uri, self._reached.conf
                )
        return known[base]

    def overwrite(self) -> Any:
        return getattr(self.view.org.apache.hadoop.fs, "Options$Rename").OVERWRITE

    def renames(self, wanted: list[Any]) -> Any:
        """A Java array of options of a rename."""
        kind = self.view.java.lang.Class.forName("org.apache.hadoop.fs.Options$Rename")
        found = self.view.java.lang.reflect.Array.newInstance(kind, len(wanted))
        for number, one in enumerate(wanted):
            found[number] = one
        return found

    def create(self, place: HadoopPath, new: bool) -> Any:
        """A stream whose bytes become visible when it is closed."""
        builder = self.system.createFile(self.path).recursive().overwrite(not new)
        if new and self.system.hasPathCapability(self.path, _CONDITIONAL):
            builder = builder.must(_CONDITIONAL, "true").overwrite(True)
        return builder.build()


class _Reached:
    """A JVM with Hadoop's file systems, and its settings."""

    def __init__(self, view: Any, settings: Mapping[str, str]) -> None:
        self.view = view
        self.conf = jvm.hadoop_settings(view)
        for key, value in settings.items():  # not on the command line, where others see it
            self.conf.set(key.removeprefix("spark.hadoop."), value)
        self.systems: dict[str, Any] = {}
        self.renaming: dict[str, Any] = {}


_known: dict[int, _Reached] = {}  # by process: a forked one has to connect for itself


def _reached() -> _Reached:
    """The JVM that this process uses."""
    found = _known.get(os.getpid())
    mine = jvm.view()
    if found is None or (mine is not None and found.view is not mine):
        _known.clear()
        way = {} if mine is not None else json.loads(os.environ.get(WAY, "{}"))
        found = _known[os.getpid()] = _Reached(mine or _by(way), way.get("conf", {}))
    return found


def _by(way: Mapping[str, Any]) -> Any:
    """A JVM for a process of Spark's that has none: the driver's, or a small one."""
    from pyspark import TaskContext

    door = Path(way.get("door", ""))
    if (way.get("local") or TaskContext.get() is None) and door.is_file():
        port, secret = json.loads(door.read_text())
        return jvm.attach(port, secret)
    return jvm.helper()


def way_of(session: SparkSession, door: Path) -> str:
    """How Python workers reach Hadoop's file systems, for their environment; writes how the driver's JVM is reached."""
    conf = {
        key: value
        for key, value in session.sparkContext.getConf().getAll()
        if key.startswith("spark.hadoop.")
    }
    with open(os.open(door, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        json.dump(jvm.address(), out)
    local = str(session.sparkContext.master).startswith("local")
    return json.dumps({"door": str(door), "local": local, "conf": {} if local else conf})
