"""Declared state: structures of arrays whose fields kernels read by name.

    class Lists(State):
        score: Floats = field("f8[place]")
        start: Ints = field("i8[slot]")
        used: int = scalar("i8")

A class of fields is the whole declaration. `Lists(place=64, slot=10)` allocates its arrays, zeroed and aligned;
`grow`, `dump`, `load` and `nbytes` follow from it. A kernel takes the state as one argument and reads
`lists.score[place]`. From Python that argument is the address of one record, with the address and the extents of each
array, so a call costs the same for three arrays as for forty.

Where an array is replaced by another one (`lists.score = other`, or by `grow`), the record is updated with it. A state
holds its arrays, so none that a record names is freed while the state lives. A kernel that gets an array from Python
may replace one, too, which is quicker where a state has other arrays at each step: it must not read the field itself,
and the caller holds the array.

Without numba (`NUMBA_DISABLE_JIT`), and while kernels run as plain Python, a kernel gets the state itself.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

LINE = 64  # bytes that memory comes in
AXES = 3  # of an array, at most
WORDS = 1 + AXES  # of an array in the record: its address and its extents
_RECORD = ("_record", "_floats", "address")  # attributes of every state
_DECLARATION = re.compile(r"(\w+)(?:\[([\w, ]+)\])?")


def aligned(shape: tuple[int, ...], kind: Any = np.float64) -> npt.NDArray[Any]:
    """Return an array of zeros that begins where a line of memory does.

    A load of eight numbers that lies across two lines takes twice as long, and numpy's own arrays nearly always begin
    in the middle of one.
    """
    size, each = int(np.prod(shape)), np.dtype(kind).itemsize
    room = np.zeros(size + LINE // each, dtype=kind)
    first = -room.ctypes.data % LINE // each
    return room[first : first + size].reshape(shape)


class Declared(NamedTuple):
    """A field: its type, its axes by name (none of a scalar), and where its words begin in the record."""

    name: str
    kind: np.dtype[Any]
    axes: tuple[str, ...]
    scratch: bool
    first: int


class _Scalar:
    """The attribute of a scalar, which lies in the record itself."""

    def __init__(self, declared: Declared) -> None:
        self.name, self.first = declared.name, declared.first
        self.is_float = declared.kind.kind == "f"

    def __get__(self, state: State | None, owner: type | None = None) -> Any:
        if state is None:
            return self
        return (state._floats if self.is_float else state._record)[self.first].item()

    def __set__(self, state: State, value: Any) -> None:
        (state._floats if self.is_float else state._record)[self.first] = value


class _Undeclared(NamedTuple):
    """What `field` and `scalar` return, until the class is complete."""

    text: str
    scratch: bool


def field(text: str, scratch: bool = False) -> Any:
    """Declare an array, as in `field("f8[slot, place]")`. A scratch array is neither dumped nor loaded."""
    return _Undeclared(text, scratch)


def scalar(kind: str, scratch: bool = False) -> Any:
    """Declare a number, "i8" or "f8". Kernels may assign to it."""
    return _Undeclared(kind, scratch)


class State:
    """The base of all declared states."""

    fields: ClassVar[tuple[Declared, ...]] = ()
    arrays: ClassVar[Mapping[str, Declared]] = {}
    tag: ClassVar[int]
    address: int  # of the record

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        fields, first = list(cls.fields), 1 + sum(WORDS if f.axes else 1 for f in cls.fields)
        for name, given in list(vars(cls).items()):
            if isinstance(given, _Undeclared):
                declared = _declared(cls.__name__, name, given, first)
                fields.append(declared)
                first += WORDS if declared.axes else 1
                if declared.axes:
                    delattr(cls, name)  # each state has its own
                else:
                    setattr(cls, name, _Scalar(declared))
        cls.fields = tuple(fields)
        cls.arrays = {f.name: f for f in fields if f.axes}
        cls.tag = zlib.crc32(repr((cls.__name__, *((f.name, f.kind.str, f.axes) for f in fields))).encode())

    def __init__(self, **extents: int) -> None:
        self._record = np.zeros(1 + sum(WORDS if f.axes else 1 for f in self.fields), dtype=np.int64)
        self._floats = self._record.view(np.float64)
        self._record[0] = self.tag
        self.address = self._record.ctypes.data
        for f in self.arrays.values():
            setattr(self, f.name, aligned(tuple(extents.get(axis, 0) for axis in f.axes), f.kind))

    def __setattr__(self, name: str, value: Any) -> None:
        """Let an array be another one, which the record names from now on; or set any other attribute."""
        declared = self.arrays.get(name)
        if declared is None:
            object.__setattr__(self, name, value)
            return
        _, kind, axes, _, first = declared
        if value.dtype != kind or value.ndim != len(axes) or not value.flags.c_contiguous:
            raise TypeError(
                f"{type(self).__name__}.{name} is {kind}[{', '.join(axes)}] in one piece, not {value.dtype} of "
                f"{value.ndim} axes."
            )
        vars(self)[name] = value
        self._record[first : first + 1 + value.ndim] = value.ctypes.data, *value.shape

    def lend(self, **arrays: npt.NDArray[Any]) -> None:
        """Let arrays be these, which mostly are the same as at the step before."""
        for name, array in arrays.items():
            if vars(self)[name] is not array:
                setattr(self, name, array)

    def extent(self, axis: str) -> int:
        """Return the extent of an axis."""
        for f in self.arrays.values():
            if axis in f.axes:
                return int(getattr(self, f.name).shape[f.axes.index(axis)])
        raise KeyError(axis)

    def grow(self, **extents: int) -> None:
        """Make room along the named axes. Contents keep their places; new places are zero."""
        for f in self.arrays.values():
            if not any(axis in extents for axis in f.axes):
                continue
            old = getattr(self, f.name)
            shape = tuple(max(extents.get(axis, n), n) for axis, n in zip(f.axes, old.shape, strict=True))
            if shape != old.shape:
                new = aligned(shape, f.kind)
                new[tuple(map(slice, old.shape))] = old
                setattr(self, f.name, new)

    def dump(self) -> dict[str, Any]:
        """Return copies of all that is not scratch, by name."""
        kept = [f for f in self.fields if not f.scratch]
        return {f.name: getattr(self, f.name).copy() if f.axes else getattr(self, f.name) for f in kept}

    def load(self, content: Mapping[str, Any]) -> None:
        """Continue with what `dump` returned."""
        for f in self.fields:
            if not f.scratch:
                given = content[f.name]
                setattr(self, f.name, np.array(given, dtype=f.kind, order="C") if f.axes else given)

    @property
    def nbytes(self) -> int:
        """The size of all arrays in bytes."""
        return sum(getattr(self, name).nbytes for name in self.arrays)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles have arrays of their own, and so addresses of their own."""
        arrays = {name: getattr(self, name) for name in self.arrays}
        scalars = {f.name: getattr(self, f.name) for f in self.fields if not f.axes}
        others = {
            name: value for name, value in vars(self).items() if name not in arrays and name not in _RECORD
        }
        return _copied, (type(self), arrays, scalars), others

    def _check(self) -> None:
        extents: dict[str, int] = {}
        for f in self.arrays.values():
            array = getattr(self, f.name)
            # the record names the array that the state holds
            words = self._record[f.first : f.first + 1 + array.ndim].tolist()
            assert words == [array.ctypes.data, *array.shape]
            for axis, extent in zip(f.axes, array.shape, strict=True):
                # arrays of one axis have one extent along it
                assert extents.setdefault(axis, extent) == extent, (f.name, axis)

    def __repr__(self) -> str:
        parts = [
            f"{f.name}: {f.kind}[{', '.join(map(str, getattr(self, f.name).shape))}]"
            if f.axes
            else f"{f.name}: {getattr(self, f.name)}"
            for f in self.fields
        ]
        return f"{type(self).__name__}({', '.join(parts)})"


def _copied(kind: type[State], arrays: Mapping[str, npt.NDArray[Any]], scalars: Mapping[str, Any]) -> State:
    made = kind.__new__(kind)
    State.__init__(made)
    for name, array in arrays.items():
        new = aligned(array.shape, array.dtype)
        new[...] = array
        setattr(made, name, new)
    for name, value in scalars.items():
        setattr(made, name, value)
    return made


def _declared(owner: str, name: str, given: _Undeclared, first: int) -> Declared:
    found = _DECLARATION.fullmatch(given.text)
    if found is None:
        raise TypeError(
            f'{owner}.{name} is declared as "{given.text}"; write a type and its axes, as in "f8[slot]".'
        )
    axes = tuple(axis.strip() for axis in found[2].split(",")) if found[2] else ()
    kind = np.dtype(found[1])
    if len(axes) > AXES:
        raise TypeError(f"{owner}.{name} has {len(axes)} axes; an array of a state has at most {AXES}.")
    if not axes and kind.str[1:] not in ("i8", "f8"):
        raise TypeError(f"{owner}.{name} is a scalar of {kind}; a scalar is i8 or f8.")
    return Declared(name, kind, axes, given.scratch, first)
