"""Compiled loops: one decorator, one cache, and a way to start before anything is compiled.

`@kernel` marks a function over arrays that numba compiles at its first call. Three things are added
to numba's own `njit`:

* numba is imported at that first call, not with the module, so that importing skyband stays quick and
  nothing is compiled that isn't used;
* compiled code is cached in a folder of skyband's own (`SKYBAND_CACHE`, or the user's cache folder).
  Its name holds a digest of the kernel's source and of all that it imports, because numba's index notices a
  changed function but not a changed function that it calls. Where no folder can be written, a temporary one
  serves, with a sentence on standard error. Processes take turns with it: numba finds a free name for a file and
  writes it later, so two that compile one kernel for different types at the same moment could each end up with the
  other's code, and with wrong answers for good;
* while another process compiles what a stream waits for (`beside`), the small kernels of the engine run as plain
  Python: nothing waits for the compiler in the middle of a stream;
* `start_interpreted` runs all kernels as plain Python (slow, but at once) until `compiled()` is called from
  the thread that warmed them: `skyband hello` shows its first frame before numba is even loaded.

No kernel uses fastmath: what decides an answer is the canonical float64 score, to the last bit.
"""

import contextlib
import gc
import hashlib
import importlib
import importlib.util
import os
import re
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

_lock = threading.RLock()
_interpreted = False  # True: kernels run as plain Python, but for the warming thread
_beside = False  # True: another process compiles, and small kernels that aren't loaded run as plain Python
_warming: int | None = None
_kernels: list["Kernel"] = []
_only = threading.local()  # `load`: code is taken from the cache or not at all; `patient`: see `patiently`
compilations: Counter[str] = Counter()  # of this process, by kernel; what the cache had isn't counted
# Kernels whose work is small run as plain Python meanwhile.
SMALL = (
    "skyband.core.",
    "skyband.engine.",
    "skyband.stream.",
    "skyband.algorithms.kernels.list_answers",
    "skyband.algorithms.kernels.ranked_lists",
)
_folder: Path | None = None
GENERATED = "skyband_generated_"  # begins the names of generated modules
PATIENCE = 60.0  # seconds that another process may take for a kernel which this one needs, too


class NotCompiledError(Exception):
    """The cache doesn't have the code of a kernel."""


class Kernel:
    """A function over arrays, compiled at its first call."""

    def __init__(self, function: FunctionType, inline: bool = False) -> None:
        self.function = function
        self.inline = inline
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self._compiled: Any = None
        self._entry: Any = None  # what Python calls: the dispatcher, or its code for declared states itself
        _kernels.append(self)

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
        can_wait = getattr(_only, "patient", False) or self.function.__module__.startswith(SMALL)
        return not can_wait or self.is_loaded(arguments)

    def is_loaded(self, arguments: tuple[Any, ...]) -> bool:
        """Whether compiled code for arguments of these types is at hand."""
        if self._entry is None:
            return False
        return self._entry is not self._compiled or self.kinds_of(arguments) in self._compiled.overloads

    def kinds_of(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return numba's types of some arguments."""
        return tuple(map(self.compiled().typeof_pyval, arguments))

    def load(self, kinds: tuple[Any, ...] | None) -> bool:
        """Load the code for these types (None: for its declared ones) from the cache; return whether it was there."""
        _only.load = True
        try:
            entry = self.entry()
            if kinds is not None:
                entry.compile(kinds)
        except NotCompiledError:
            return False
        finally:
            _only.load = False
        return True

    def place(self) -> tuple[str, str, str | None]:
        """Return the kernel's module and name, and the module's text if it is generated."""
        module = self.function.__module__
        text = _text_of(Path(self.function.__code__.co_filename)) if module.startswith(GENERATED) else None
        return module, self.function.__qualname__, text

    def entry(self) -> Any:
        """Return what Python calls.

        A kernel that takes nothing but states and numbers is compiled for these at once, and Python enters at the
        compiled code: that takes a fifth of the time of numba's dispatcher, which looks at each argument's type.
        """
        if self._entry is None:
            with _lock:
                dispatcher = self.compiled()
                kinds = None if _switched_off() else _declared_types(self.function)
                if kinds is None:
                    self._entry = dispatcher
                else:
                    dispatcher.compile(kinds)
                    self._entry = dispatcher.overloads[kinds].entry_point
        return self._entry

    def compiled(self) -> Any:
        """The numba dispatcher (or the plain function where numba is switched off)."""
        if self._compiled is None:
            with _lock:
                self._compiled = _compile(self.function, self.inline)
        return self._compiled


def _declared_types(function: FunctionType) -> tuple[Any, ...] | None:
    """Return the types of the arguments of a kernel that takes states and numbers only; None for any other."""
    from skyband.compiling.state import State

    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    notes = [function.__annotations__.get(name) for name in names]
    named = [function.__globals__.get(note, note) if isinstance(note, str) else note for note in notes]
    if not any(isinstance(kind, type) and issubclass(kind, State) for kind in named):
        return None
    from numba.core import types

    from skyband.compiling.state_types import type_of

    numbers = {"int": types.int64, "float": types.float64, "bool": types.boolean}
    kinds = [
        type_of(kind)
        if isinstance(kind, type) and issubclass(kind, State)
        else numbers.get(getattr(kind, "__name__", str(kind)))
        for kind in named
    ]
    return None if None in kinds else tuple(kinds)


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
        self.make = make

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    def compiled(self) -> Any:
        if self._compiled is None:
            with _lock:
                self._compiled = self.function if _switched_off() else self.make()
        return self._compiled


def native(make: Callable[[], Any]) -> Callable[[Callable[..., Any]], Native]:
    """A plain function with another form for compiled callers: what `make` returns, an intrinsic of numba's."""

    def marked(function: Callable[..., Any]) -> Native:
        assert isinstance(function, FunctionType)
        return Native(function, make)

    return marked


def _switched_off() -> bool:
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def _compile(function: FunctionType, inline: bool = False) -> Any:
    if _switched_off():
        return function
    import numba

    from skyband.compiling.state_types import typed_at_once

    # numba resolves the names a kernel calls through its globals: hand it dispatchers, not our wrappers.
    names = {
        name: value.compiled() if isinstance(value, Kernel) else value
        for name, value in function.__globals__.items()
        if name in function.__code__.co_names or name.startswith("__")
    }
    plain = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
    plain.__module__ = function.__module__
    plain.__qualname__ = function.__qualname__
    owns = _makes_arrays(plain)
    if inline:
        dispatcher = numba.njit(inline="always", error_model="numpy", _nrt=owns)(plain)
        dispatcher.owns = owns
        return dispatcher
    # No kernel is called from C: without that entry there is less to compile.
    dispatcher = numba.njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True, _nrt=owns)(plain)
    dispatcher.owns = owns
    # The folder is set for this one function only: a user's own numba code keeps its settings.
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(_folder_of(_text_of(Path(function.__code__.co_filename))))
    try:
        dispatcher.enable_caching()
    finally:
        numba.config.CACHE_DIR = before
    typed_at_once(dispatcher)
    _take_turns(dispatcher)
    _forget_constants(dispatcher)
    name = f"{plain.__module__}.{plain.__qualname__}"
    _count(dispatcher, name)
    _compile_undisturbed(dispatcher, name)
    return dispatcher


_MAKERS = frozenset({"argsort", "copy", "empty", "full", "partition", "sort", "zeros"})


def _makes_arrays(function: FunctionType) -> bool:
    """Whether a kernel makes arrays, itself or by one that it calls: only then are references counted in it.

    All others borrow their arrays from the caller, who holds them until they return. To count would take atomic
    instructions at every call between kernels, and nearly half of the compiler's time. A maker that isn't in the list
    is no risk: numba refuses to compile it without counting."""
    if _MAKERS.intersection(function.__code__.co_names):
        return True
    return any(getattr(value, "owns", False) for value in function.__globals__.values())


def _refuse_lent(dispatcher: Any, name: str) -> None:
    """A kernel that doesn't count references must not return an array: the caller would give back what it never had."""
    from numba.core import types

    def lent(kind: Any) -> bool:
        return isinstance(kind, types.Buffer) or (isinstance(kind, types.BaseTuple) and any(map(lent, kind)))

    for made in dispatcher.overloads.values():
        if lent(made.signature.return_type):
            raise TypeError(
                f"The kernel {name} returns an array that it borrowed: let it write into one, or make one."
            )


def _compile_undisturbed(dispatcher: Any, name: str) -> None:
    """Compile once, and without pauses.

    What another process is compiling at this moment is waited for, and then found in the cache: workers of one job
    begin all at once, with the same kernels. And no garbage is looked for meanwhile: the compiler makes objects by the
    hundred thousand, all in use, and to go through them again and again took a quarter of its time."""
    compile_for = dispatcher.compile

    def undisturbed(signature: Any) -> Any:
        from numba.core.compiler_lock import global_compiler_lock

        collecting = gc.isenabled()
        gc.disable()
        try:
            alone = (
                contextlib.nullcontext()
                if getattr(_only, "load", False)
                else _nobody_else(f"{name} {signature}")
            )
            with global_compiler_lock, alone, _asked_again():
                compiled = compile_for(signature)
                if not getattr(dispatcher, "owns", True):
                    _refuse_lent(dispatcher, name)
                return compiled
        finally:
            if collecting:
                gc.enable()

    dispatcher.compile = undisturbed


def _count(dispatcher: Any, name: str) -> None:
    """Count what is compiled, and compile nothing while code is only loaded."""
    compile_for = dispatcher._compiler.compile

    def counted(arguments: Any, returned: Any) -> Any:
        if getattr(_only, "load", False):
            raise NotCompiledError(name)
        compilations[name] += 1
        return compile_for(arguments, returned)

    dispatcher._compiler.compile = counted


def _forget_constants(dispatcher: Any) -> None:
    """One kernel for all values of an argument: where another kernel calls it with a constant, numba would compile it
    once more for that constant, and all that it calls with it."""
    template_for = dispatcher.get_call_template

    def for_any_value(arguments: Any, named: Any) -> Any:
        from numba.core import types

        return template_for(
            tuple(map(types.unliteral, arguments)),
            {name: types.unliteral(kind) for name, kind in named.items()},
        )

    dispatcher.get_call_template = for_any_value


SEARCHED_ALIKE = ("0.68.",)  # versions of numba whose search `_call_type` is known to equal
_answered: dict[Any, Any] = {}  # function and types of arguments: the template that knew the answer


def _call_type(self: Any, context: Any, arguments: Any, named: Any) -> Any:
    """What numba's own search finds: the first template, in its order, that has a signature for these types.

    For `a + b` it goes through a dozen of them, those for texts and lists and sets included, at every plus sign.
    The one that answered is kept, and asked alone next time; whatever it no longer knows is left to numba's search."""
    from numba.core import errors, types, utils
    from numba.core.target_extension import get_local_target

    kept = (self, tuple(arguments))
    if kept in _answered:
        tried = [_answered[kept]]
    elif named or any(isinstance(kind, types.Poison) for kind in arguments):
        tried = []
    else:
        order = utils.order_by_target_specificity(
            get_local_target(context), self.templates, fnkey=self.key[0]
        )
        tried = [(each, first is each.prefer_literal) for each in order for first in (True, False)]
    plain = tuple(map(types.unliteral, arguments))
    for template, literal in tried:
        asked = template(context)
        try:
            signature = asked.apply(tuple(arguments) if literal else plain, named)
        except errors.NumbaError:
            continue
        if signature is not None:
            self._impl_keys[signature.args] = asked.get_impl_key(signature)
            _answered[kept] = template, literal
            return signature
    return _searched(self, context, arguments, named)


_searched: Any = None  # numba's own


@contextlib.contextmanager
def _asked_again() -> Iterator[None]:
    """Types of calls are found by `_call_type` while a kernel of ours is compiled, and only then, with a numba that it
    was compared to."""
    global _searched
    import numba
    from numba.core.types.functions import BaseFunction

    if not numba.__version__.startswith(SEARCHED_ALIKE):
        yield
        return
    before = BaseFunction.get_call_type
    if before is not _call_type:
        _searched = before
    BaseFunction.get_call_type = _call_type
    try:
        yield
    finally:
        BaseFunction.get_call_type = before


_compiling: Any = None  # a file whose bytes stand for kernels: to lock one is to compile it


@contextlib.contextmanager
def _nobody_else(name: str) -> Iterator[None]:
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
    except (ImportError, OSError):  # as in `_turn`
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.lockf(_compiling, fcntl.LOCK_UN, 1, place)


def _take_turns(dispatcher: Any) -> None:
    """Let only one process at a time write a kernel's cache, and none read it meanwhile.

    What can't be written, on a disk that is full, is compiled all the same: it is only not kept."""
    files = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if files is None:  # a numba that keeps its cache in another way
        return
    load, save = files.load, files.save

    def locked_load(key: Any) -> Any:
        with _turn(alone=False):
            return load(key)

    def locked_save(key: Any, data: Any) -> None:
        with _turn(alone=True), contextlib.suppress(OSError):
            save(key, data)

    files.load, files.save = locked_load, locked_save


@contextlib.contextmanager
def _turn(alone: bool) -> Iterator[None]:
    """Hold the cache's lock, which the system frees when a process dies. Where there are none, go on as numba does."""
    with contextlib.ExitStack() as held:
        # No module: Windows. An OSError: some network file systems, or a folder that may only be read by now.
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            file = held.enter_context(open(cache_folder() / "lock", "ab"))
            fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            # Closing isn't enough: a process forked meanwhile has the file open, too.
            held.callback(fcntl.flock, file, fcntl.LOCK_UN)
        yield


def beside(busy: bool) -> None:
    """Another process begins or ends to compile what a stream waits for."""
    global _beside
    _beside = busy


@contextlib.contextmanager
def patiently() -> Iterator[None]:
    """Run this thread's kernels as plain Python as long as they aren't loaded and another process compiles."""
    _only.patient = True
    try:
        yield
    finally:
        _only.patient = False


def called() -> list[tuple[str, str, str | None, tuple[Any, ...] | None]]:
    """Return what Python has called of all kernels: module, name, the text of a generated module, and types (None where
    the kernel declares them)."""
    found: list[tuple[str, str, str | None, tuple[Any, ...] | None]] = []
    for kernel in _kernels:
        if kernel._entry is not None and not _switched_off():
            kinds = [None] if kernel._entry is not kernel._compiled else list(kernel._compiled.overloads)
            found += [(*kernel.place(), kind) for kind in kinds]
    return found


def kernel_of(module: str, name: str, text: str | None) -> Kernel:
    """Return a kernel by what `place` says."""
    found = importlib.import_module(module) if text is None else generated(text)
    for part in name.split("."):
        found = getattr(found, part)
    assert isinstance(found, Kernel)
    return found


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


def cache_folder() -> Path:
    """Where compiled code and generated kernels are kept; made on first use."""
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


COMPILED_ROOMS = ("compiling", "core", "algorithms")  # all of their files count, whatever they hold
MIXED_ROOMS = ("stream", "engine")  # of these, the files that have kernels
_PACKAGE = Path(__file__).parents[1]
_IMPORT = re.compile(r"^\s*from (skyband[\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)


def kernel_sources(package: Path) -> list[Path]:
    """Return every file whose text can change a compiled kernel, in any folder of the package.

    In the rooms of `COMPILED_ROOMS` that is every file, in those of `MIXED_ROOMS` each file that imports `compiling`.
    """
    sources = [path for room in COMPILED_ROOMS for path in sorted((package / room).rglob("*.py"))]
    mixed = [path for room in MIXED_ROOMS for path in sorted((package / room).rglob("*.py"))]
    return sources + [path for path in mixed if b"skyband.compiling" in path.read_bytes()]


def _digest() -> str:
    """A name that changes with what compiles: Python, numba's settings, and the room `compiling`."""
    # numba's own key leaves out how far the compiler optimises, and whether it checks that no index is beyond an array
    settings = [os.environ.get(name, "") for name in ("NUMBA_OPT", "NUMBA_BOUNDSCHECK")]
    digest = hashlib.sha256(f"{sys.version_info[:3]} {sys.platform} {settings}".encode())
    for source in sorted((_PACKAGE / "compiling").rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _folder_of(text: str) -> Path:
    """The folder for what is compiled of a source: its name changes with the source and with all that it imports.

    numba itself looks only at the file of the kernel that is called, not at the kernels and constants in other files.
    """
    digest = hashlib.sha256(text.encode())
    for path in sorted(_imported(text)):
        digest.update(_text_of(path).encode())
    folder = cache_folder() / digest.hexdigest()[:24]
    folder.mkdir(exist_ok=True)
    return folder


def _imported(text: str) -> set[Path]:
    """Return every kernel source that a source imports, directly or by another one."""
    found: set[Path] = set()
    todo = [text]
    while todo:
        for path in _imports_of(todo.pop()) - found:
            found.add(path)
            todo.append(_text_of(path))
    return found


@cache
def _imports_of(text: str) -> frozenset[Path]:
    found = set()
    for module, names in _IMPORT.findall(text):
        place = _PACKAGE.joinpath(*module.split(".")[1:])
        inner = [place / f"{name}.py" for name in re.findall(r"\w+", names)]
        found |= {path for path in (place.with_suffix(".py"), place / "__init__.py", *inner) if _counts(path)}
    return frozenset(found)


@cache
def _counts(path: Path) -> bool:
    """Whether a file exists and can change a kernel (see `kernel_sources`)."""
    if not path.is_file() or path.parent == _PACKAGE:
        return False
    room = path.relative_to(_PACKAGE).parts[0]
    return room in COMPILED_ROOMS or (room in MIXED_ROOMS and "skyband.compiling" in _text_of(path))


@cache
def _text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def generated(source: str, known: bool = False) -> Any:
    """Import a module generated by skyband itself (never from a user's text) so that numba can cache it.

    With `known` only if it was generated before, by this process or an earlier one; else None.

    numba caches only functions that live in a file: the source is written below the cache folder under the
    name of its own digest and imported from there.
    """
    name = GENERATED + hashlib.sha256(source.encode()).hexdigest()[:24]
    if name in sys.modules:
        return sys.modules[name]
    path = _folder_of(source) / f"{name}.py"
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
