"""Compiling in a process beside, so that no stream waits for it.

A *plan* is what some queries need of compiled code. Its key names it. What it needs is known once a process has run it:
`python -m skyband warm --plan KEY` does so with made-up rows, which fills the cache on disk, and writes down every
kernel that was called, with its types. A plan is *ready* when that list exists and everything on it is loaded. Until
then the engine answers by an algorithm that needs no compiled code (engine/stand_in.py).

One process compiles at a time, with low priority. It ends with the process that started it: its standard input is
closed then. If it fails, a sentence is logged, and the plan counts as ready: its kernels are compiled at their first
call.

`SKYBAND_COMPILE=now` switches this off: every kernel is compiled at its first call. Tests and measurements do that.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import importlib
import json
import logging
import os
import pickle
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from skyband.compiling import dispatcher, jit
from skyband.compiling.cache import cache_folder, text_of, turn

log = logging.getLogger("skyband")

_lock = threading.Lock()
_ready: set[str] = set()
_queue: dict[str, str] = {}  # what the process is to do, by key
_thread: threading.Thread | None = None


def is_on() -> bool:
    """Whether kernels are compiled beside; else each is compiled at its first call."""
    return (
        os.environ.get("SKYBAND_COMPILE", "") != "now"
        and not jit.is_switched_off()
        and not jit.is_interpreted()
    )


def key_of(content: Any) -> str:
    """Return the key of a plan with this content, plain data."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]


def is_ready(key: str) -> bool:
    """Whether all compiled code of a plan is loaded; it is loaded now if the cache has it."""
    if key in _ready or not is_on():
        return True
    return key not in _queue and _load(key)


def is_available(kernel: jit.Kernel, arguments: tuple[Any, ...]) -> bool:
    """Whether a kernel's code for arguments of these types is loaded or in the cache; if not, it is compiled beside."""
    if not is_on() or kernel.is_loaded(arguments):
        return True
    kinds = kernel.kinds_of(arguments)
    key = key_of([*_place_of(kernel), str(kinds)])
    if key in _ready or (key not in _queue and dispatcher.load(kernel, kinds)):
        return True
    called = base64.b64encode(pickle.dumps([(*_place_of(kernel), kinds)])).decode()
    request(key, json.dumps({"kernels": called}))
    return False


def _place_of(kernel: jit.Kernel) -> tuple[str, str, str | None]:
    """Return a kernel's module and name, and the module's text if it is generated."""
    module = kernel.function.__module__
    file = Path(kernel.function.__code__.co_filename)
    return module, kernel.function.__qualname__, text_of(file) if module.startswith(jit.GENERATED) else None


def _kernel_of(module: str, name: str, text: str | None) -> jit.Kernel:
    """Return a kernel by what `_place_of` returned."""
    found = importlib.import_module(module) if text is None else jit.generated(text)
    for part in name.split("."):
        found = getattr(found, part)
    assert isinstance(found, jit.Kernel)
    return found


def called() -> list[tuple[str, str, str | None, tuple[Any, ...] | None]]:
    """Return which kernels Python has called: module, name, the text of a generated module, and types (None where the
    kernel declares them)."""
    return [(*_place_of(kernel), kinds) for kernel in jit.kernels for kinds in dispatcher.loaded(kernel)]


def request(key: str, content: str) -> None:
    """Have a plan compiled beside, unless it is ready or being compiled. The content is one line of JSON."""
    global _thread
    with _lock:
        if key in _ready or key in _queue:
            return
        _queue[key] = content
        jit.beside(True)
        if _thread is None:
            _thread = threading.Thread(target=_work, name="skyband-compiling", daemon=True)
            _thread.start()


def is_busy() -> bool:
    """Whether something is being compiled beside."""
    return bool(_queue)


def _work() -> None:
    global _thread
    while True:
        with _lock:
            if not _queue:
                _thread = None
                jit.beside(False)
                return
            key, content = next(iter(_queue.items()))
        try:
            problem = _run(key, content)
            if problem is None and not _load(key):
                problem = "the cache folder doesn't keep what is written to it"
        except Exception as error:
            problem = str(error) or type(error).__name__
        if problem is not None:
            log.warning(
                "Compiling in a process beside failed (%s); kernels are compiled at their first call instead.",
                problem,
            )
        with _lock:
            _ready.add(key)
            del _queue[key]


def _run(key: str, content: str) -> str | None:
    """Run the process; return what went wrong."""
    paths = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.Popen(
        [sys.executable, "-m", "skyband", "warm", "--plan", key],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "SKYBAND_COMPILE": "now",
            "SKYBAND_CACHE": str(cache_folder().parent),
        },
        cwd=cache_folder(),  # no module of the user's folder has a say in it
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None and process.stderr is not None
    with process, contextlib.suppress(OSError):
        process.stdin.write(content + "\n")
        process.stdin.flush()  # and it stays open: its end means that this process has ended
        last = process.stderr.read().strip().rpartition("\n")[2]
        code = process.wait()
    return None if code == 0 else last or f"it ended with {code}"


def attend() -> str:
    """As such a process: return what is asked, from standard input, and end when the process that asks has ended."""
    asked = sys.stdin.readline()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(AttributeError, OSError):
        os.nice(19)
    return asked


def compile_kernels(called: str) -> Any:
    """Compile kernels as `is_available` names them; return them."""
    kernels = pickle.loads(base64.b64decode(called))
    for *place, kinds in kernels:
        _kernel_of(*place).entry().compile(kinds)
    return kernels


def note(key: str, called: Any) -> None:
    """Write down what a plan calls."""
    folder = _folder()
    folder.mkdir(exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
    with os.fdopen(handle, "wb") as file:
        pickle.dump(called, file)
    os.replace(temporary, folder / key)


def _folder() -> Path:
    return cache_folder() / "plans"


def _load(key: str) -> bool:
    """Load everything that a plan calls; return whether the cache has it."""
    path = _folder() / key
    try:
        called = pickle.loads(path.read_bytes())
        if all(dispatcher.load(_kernel_of(*place), kinds) for *place, kinds in called):
            _ready.add(key)
            return True
    except FileNotFoundError:
        return False
    except Exception as error:  # written by other versions, or damaged: it is compiled again
        log.debug("The list of kernels %s can't be used: %s", path, error)
    path.unlink(missing_ok=True)
    return False


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


def one_at_a_time() -> contextlib.AbstractContextManager[None]:
    """Wait until no other process compiles for a stream of this user."""
    return turn("beside")


def _forked() -> None:
    """A forked process has no such thread: what its parent waits for it asks for itself."""
    global _thread, _lock
    _lock = threading.Lock()
    _thread = None
    _queue.clear()
    jit.beside(False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
