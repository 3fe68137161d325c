"""Where compiled code is kept, and how processes take turns with it.

Compiled code is cached in a folder of skyband's own: `SKYBAND_CACHE`, or the user's cache folder. Where that can't be
written, a temporary one serves, with a sentence on standard error.

numba's index notices a changed function, but not a changed function that it calls. So the name of a kernel's folder
has a digest of the kernel's source and of all that it imports (`folder_of`), below one of what compiles everything.

numba finds a free name for a file and writes it later. Two processes that compile one kernel for different types at
the same moment could each end up with the other's code, and with wrong answers from then on: hence the locks.
"""

import contextlib
import hashlib
import os
import re
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

COMPILED_ROOMS = ("compiling", "core", "algorithms")  # all of their files count, whatever they hold
MIXED_ROOMS = ("stream", "engine")  # of these, the files that have kernels
PATIENCE = 60.0  # seconds that another process may take for a kernel which this one needs, too
_PACKAGE = Path(__file__).parents[1]
_IMPORT = re.compile(r"^\s*from (skyband[\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)
_folder: Path | None = None
_compiling: Any = None  # a file whose bytes stand for kernels: to lock one is to compile it


def cache_folder() -> Path:
    """Return the folder of compiled code and generated kernels, which is made on first use."""
    global _folder
    if _folder is None:
        wanted = Path(os.environ.get("SKYBAND_CACHE") or _user_cache() / "skyband")
        folder = wanted / _digest()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            folder = Path(tempfile.mkdtemp(prefix="skyband-"))
            print(
                f"skyband: the cache folder {wanted} can't be written ({error.strerror}); compiled code goes to "
                f"{folder} for this run, set SKYBAND_CACHE to a writable folder to keep it.",
                file=sys.stderr,
            )
        _folder = folder
    return _folder


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


# -- digests -----------------------------------------------------------------------------------------------------------


def _digest() -> str:
    """Return a name that changes with what compiles: Python, numba's settings, and the room `compiling`."""
    # numba's own key leaves out how far the compiler optimises, and whether it checks that no index is beyond an array
    settings = [os.environ.get(name, "") for name in ("NUMBA_OPT", "NUMBA_BOUNDSCHECK")]
    digest = hashlib.sha256(f"{sys.version_info[:3]} {sys.platform} {settings}".encode())
    for source in sorted((_PACKAGE / "compiling").rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def folder_of(text: str) -> Path:
    """Return the folder for what is compiled of a source: its name changes with the source and all that it imports."""
    digest = hashlib.sha256(text.encode())
    for path in sorted(imported(text)):
        digest.update(text_of(path).encode())
    folder = cache_folder() / digest.hexdigest()[:24]
    folder.mkdir(exist_ok=True)
    return folder


def imported(text: str) -> set[Path]:
    """Return every kernel source that a source imports, directly or by another one."""
    found: set[Path] = set()
    todo = [text]
    while todo:
        for path in _imports_of(todo.pop()) - found:
            found.add(path)
            todo.append(text_of(path))
    return found


@cache
def _imports_of(text: str) -> frozenset[Path]:
    found = set()
    for module, names in _IMPORT.findall(text):
        place = _PACKAGE.joinpath(*module.split(".")[1:])
        inner = [place / f"{name}.py" for name in re.findall(r"\w+", names)]
        found |= {path for path in (place.with_suffix(".py"), place / "__init__.py", *inner) if counts(path)}
    return frozenset(found)


@cache
def counts(path: Path) -> bool:
    """Whether a file exists and can change a kernel: each in `COMPILED_ROOMS`, and in `MIXED_ROOMS` each that imports
    `compiling`."""
    if not path.is_file() or path.parent == _PACKAGE:
        return False
    room = path.relative_to(_PACKAGE).parts[0]
    return room in COMPILED_ROOMS or (room in MIXED_ROOMS and "skyband.compiling" in text_of(path))


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


# -- locks -------------------------------------------------------------------------------------------------------------


def take_turns(dispatcher: Any) -> None:
    """Let only one process at a time write a kernel's cache, and none read it meanwhile.

    What can't be written, on a disk that is full, is compiled all the same: it is only not kept."""
    files = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if files is None:  # a numba that keeps its cache in another way
        return
    load, save = files.load, files.save

    def locked_load(key: Any) -> Any:
        with turn("lock", alone=False):
            return load(key)

    def locked_save(key: Any, data: Any) -> None:
        with turn("lock"), contextlib.suppress(OSError):
            save(key, data)

    files.load, files.save = locked_load, locked_save


@contextlib.contextmanager
def turn(name: str, alone: bool = True) -> Iterator[None]:
    """Hold one of the cache's locks, which the system frees when a process dies. Where there are none, do without."""
    with contextlib.ExitStack() as held:
        # No module: Windows. An OSError: some network file systems, or a folder that may only be read by now.
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            file = held.enter_context(open(cache_folder() / name, "ab"))
            fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            # Closing isn't enough: a process forked meanwhile has the file open, too.
            held.callback(fcntl.flock, file, fcntl.LOCK_UN)
        yield


@contextlib.contextmanager
def only_one(name: str) -> Iterator[None]:
    """Wait while another process compiles what has this name; but not for ever, it may have been stopped."""
    global _compiling
    try:
        import fcntl

        if _compiling is None:
            _compiling = open(cache_folder() / "compiling", "ab")  # noqa: SIM115 (a lock ends with its file)
        place = zlib.crc32(name.encode())
        until = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.lockf(_compiling, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    break
                time.sleep(0.02)
    except (ImportError, OSError):  # as in `turn`
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.lockf(_compiling, fcntl.LOCK_UN, 1, place)
