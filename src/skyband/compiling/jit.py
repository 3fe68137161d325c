"""Compiled loops: the decorator of kernels, and which of them run as plain Python meanwhile.

`@kernel` marks a function over arrays and states (state.py) that is compiled at its first call, so that importing
skyband stays quick and nothing is compiled that isn't used. Kernels call each other by name. Code is cached on disk.

* While another process compiles what a stream waits for (`beside`), the small kernels of the engine run as plain
  Python: nothing waits for the compiler in the middle of a stream.
* `start_interpreted` runs all kernels as plain Python (slow, but at once) until `compiled_ready` is called by the
  thread that compiles them: `skyband hello` shows its first frame before numba is even loaded.

What compiles is not named here: `compiling/__init__.py` puts it in place.
"""

import contextlib
import hashlib
import importlib.util
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

# Kernels whose work is small run as plain Python meanwhile.
SMALL = (
    "skyband.core.",
    "skyband.engine.",
    "skyband.stream.",
    "skyband.algorithms.kernels.list_answers",
    "skyband.algorithms.kernels.ranked_lists",
)
GENERATED = "skyband_generated_"  # begins the names of generated modules

_lock = threading.RLock()
_interpreted = False  # True: kernels run as plain Python, but for the warming thread
_beside = False  # True: another process compiles, and small kernels that aren't loaded run as plain Python
_warming: int | None = None
_own = threading.local()  # `patient`: see `patiently`
kernels: list["Kernel"] = []


class Compiler(NamedTuple):
    """Makes machine code of kernels; `compiling/__init__.py` puts it together."""

    compiled: Callable[[FunctionType, bool], Any]  # of a function, inlined or not: what other kernels call
    entry: Callable[["Kernel"], Any]  # what Python calls
    is_available: Callable[["Kernel", tuple[Any, ...]], bool]  # see `Kernel.is_available`
    folder: Callable[[str], Path]  # for what is compiled of a source


compiler: Compiler = None  # type: ignore[assignment]  # `compiling/__init__.py` puts it in place


class Kernel:
    """A function over arrays, compiled at its first call."""

    def __init__(self, function: FunctionType, inline: bool = False) -> None:
        self.function = function
        self.inline = inline
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self._compiled: Any = None
        self._entry: Any = None
        kernels.append(self)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of its arguments."""
        return self.function.__code__.co_varnames[: self.function.__code__.co_argcount]

    def __call__(self, *arguments: Any) -> Any:
        if (_interpreted or _beside) and not self._is_due(arguments):
            return self.function(*arguments)
        return (self._entry or self.entry())(*arguments)

    def _is_due(self, arguments: tuple[Any, ...]) -> bool:
        """Whether compiled code is to be called although something is being compiled: it is loaded, or nothing else is
        quick enough."""
        if _interpreted:
            return threading.get_ident() == _warming
        can_wait = getattr(_own, "patient", False) or self.function.__module__.startswith(SMALL)
        return not can_wait or self.is_loaded(arguments)

    def is_loaded(self, arguments: tuple[Any, ...]) -> bool:
        """Whether compiled code for arguments of these types is loaded."""
        if self._entry is None:
            return False
        return self._entry is not self._compiled or self.kinds_of(arguments) in self._compiled.overloads

    def is_available(self, arguments: tuple[Any, ...]) -> bool:
        """Whether compiled code for arguments of these types is loaded or cached; if not, it is compiled beside."""
        return compiler.is_available(self, arguments)

    def kinds_of(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return numba's types of some arguments."""
        return tuple(map(self.compiled().typeof_pyval, arguments))

    def entry(self) -> Any:
        """Return what Python calls."""
        if self._entry is None:
            with _lock:
                self._entry = compiler.entry(self)
        return self._entry

    def compiled(self) -> Any:
        """Return numba's dispatcher (or the plain function where numba is switched off)."""
        if self._compiled is None:
            with _lock:
                self._compiled = self.function if is_switched_off() else self._compile()
        return self._compiled

    def _compile(self) -> Any:
        return compiler.compiled(self.function, self.inline)


def kernel(function: Callable[..., Any]) -> Kernel:
    """A function over arrays that is compiled when it is first called."""
    assert isinstance(function, FunctionType)
    return Kernel(function)


def inlined(function: Callable[..., Any]) -> Kernel:
    """A small kernel that is written out where another one calls it.

    A call between compiled functions hands over each array in seven words: in an inner loop that costs more than the
    work.
    """
    assert isinstance(function, FunctionType)
    return Kernel(function, inline=True)


class Native(Kernel):
    """What no Python text compiles to: a kernel that others call, written as instructions for the compiler.

    Called from Python it is the plain function."""

    def __init__(self, function: FunctionType, make: Callable[[], Any]) -> None:
        super().__init__(function)
        self._compile = make  # type: ignore[method-assign]

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def native(make: Callable[[], Any]) -> Callable[[Callable[..., Any]], Native]:
    """A plain function with another form for compiled callers: what `make` returns, an intrinsic of numba's."""

    def marked(function: Callable[..., Any]) -> Native:
        assert isinstance(function, FunctionType)
        return Native(function, make)

    return marked


def generated(source: str, known: bool = False) -> Any:
    """Import a module generated by skyband itself (never from a user's text) so that numba can cache it.

    With `known` only if it was generated before, by this process or an earlier one; else None.

    numba caches only functions that live in a file: the source is written below the cache folder under the
    name of its own digest and imported from there.
    """
    name = GENERATED + hashlib.sha256(source.encode()).hexdigest()[:24]
    if name in sys.modules:
        return sys.modules[name]
    path = compiler.folder(source) / f"{name}.py"
    if known and not path.exists():
        return None
    if not path.exists() or path.read_text() != source:
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "w") as file:
            file.write(source)
        os.replace(temporary, path)  # two processes may write it at once: the same text, whole
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


# -- when kernels run as plain Python ----------------------------------------------------------------------------------


def is_switched_off() -> bool:
    """Whether nothing is compiled: numba is switched off."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def beside(busy: bool) -> None:
    """Another process begins or ends to compile what a stream waits for."""
    global _beside
    _beside = busy


@contextlib.contextmanager
def patiently() -> Iterator[None]:
    """Run this thread's kernels as plain Python as long as they aren't loaded and another process compiles."""
    _own.patient = True
    try:
        yield
    finally:
        _own.patient = False


def is_interpreted() -> bool:
    """Whether all kernels run as plain Python."""
    return _interpreted


def start_interpreted() -> None:
    """Run kernels as plain Python until `compiled_ready`; call `warming` in the thread that compiles."""
    global _interpreted
    _interpreted = True


def warming() -> None:
    """From here on this thread's kernel calls compile, whatever the others do."""
    global _warming
    _warming = threading.get_ident()


def compiled_ready() -> None:
    """Everything needed is compiled: all threads use it."""
    global _interpreted, _warming
    _interpreted = False
    _warming = None
