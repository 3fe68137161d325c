"""What numba makes of kernels: one dispatcher each, and where Python enters it.

Four things differ from numba's own `njit`, all of them for the time that compiling takes: references are counted only
where arrays are made, constants make no kernels of their own, types of calls are remembered, and one process compiles
what another one waits for. numba is imported with the first kernel that is compiled.

No kernel uses fastmath: what decides an answer is the canonical float64 score, to the last bit.
"""

import contextlib
import gc
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

from skyband.compiling.cache import folder_of, only_one, take_turns, text_of
from skyband.compiling.jit import Kernel, is_switched_off
from skyband.compiling.state import State

compilations: Counter[str] = Counter()  # of this process, by kernel; what the cache had isn't counted
_this_thread = threading.local()  # `loads`: code is taken from the cache or not at all


class NotCompiledError(Exception):
    """The cache doesn't have the code of a kernel."""


def entry(kernel: Kernel) -> Any:
    """Return what Python calls.

    A kernel that takes nothing but states and numbers is compiled for these at once, and Python enters at the
    compiled code: that takes a fifth of the time of numba's dispatcher, which looks at each argument's type.
    """
    dispatcher = kernel.compiled()
    kinds = None if is_switched_off() else _declared_types(kernel.function)
    if kinds is None:
        return dispatcher
    dispatcher.compile(kinds)
    return dispatcher.overloads[kinds].entry_point


def _declared_types(function: FunctionType) -> tuple[Any, ...] | None:
    """Return the types of the arguments of a kernel that takes states and numbers only; None for any other."""
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


def load(kernel: Kernel, kinds: tuple[Any, ...] | None) -> bool:
    """Load the code for these types (None: for its declared ones) from the cache; return whether it was there."""
    _this_thread.loads = True
    try:
        found = kernel.entry()
        if kinds is not None:
            found.compile(kinds)
    except NotCompiledError:
        return False
    finally:
        _this_thread.loads = False
    return True


def loaded(kernel: Kernel) -> list[tuple[Any, ...] | None]:
    """Return the types that Python has called a kernel with; None where the kernel declares them."""
    if kernel._entry is None or is_switched_off():
        return []
    return [None] if kernel._entry is not kernel._compiled else list(kernel._compiled.overloads)


def compiled(function: FunctionType, inline: bool) -> Any:
    """Return the dispatcher of a kernel."""
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
    numba.config.CACHE_DIR = str(folder_of(text_of(Path(function.__code__.co_filename))))
    try:
        dispatcher.enable_caching()
    finally:
        numba.config.CACHE_DIR = before
    typed_at_once(dispatcher)
    take_turns(dispatcher)
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
                if getattr(_this_thread, "loads", False)
                else only_one(f"{name} {signature}")
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
        if getattr(_this_thread, "loads", False):
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
