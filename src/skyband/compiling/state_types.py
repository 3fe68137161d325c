"""What numba has to know of declared states (state.py): their type, how Python hands one over, how fields are read.

Imported with numba, when the first kernel is compiled.
"""

from __future__ import annotations

from typing import Any

import numba
from numba.core import cgutils, types
from numba.core.imputils import lower_setattr_generic
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.arrayobj import make_array, populate_array

from skyband.compiling.state import State


class StateType(types.Type):  # type: ignore[misc]
    """The type of a state in kernels. Equal declarations are equal types, so that compiled kernels can be cached."""

    def __init__(self, name: str, tag: int, fields: tuple[tuple[str, str, int, int], ...]) -> None:
        self.tag = tag
        self.declared = fields  # name, type, axes, first word
        super().__init__(f"{name}{fields}")

    def field(self, name: str) -> tuple[Any, int] | None:
        """Return the numba type of a field and its first word, or None if there is no such field."""
        for field, kind, axes, first in self.declared:
            if field == name:
                plain = numba.from_dtype(_dtype(kind))
                return (types.Array(plain, axes, "C") if axes else plain), first
        return None


def _dtype(text: str) -> Any:
    import numpy as np

    return np.dtype(text)


_known: dict[type[State], StateType] = {}


def type_of(kind: type[State]) -> StateType:
    """Return the numba type of a class of states."""
    found = _known.get(kind)
    if found is None:
        fields = tuple((f.name, f.kind.str, len(f.axes), f.first) for f in kind.fields)
        found = _known[kind] = StateType(kind.__name__, kind.tag, fields)
    return found


@typeof_impl.register(State)
def _typeof(value: State, _: Any) -> StateType:
    return type_of(type(value))


def typed_at_once(dispatcher: Any) -> None:
    """Let a dispatcher find the type of a state by its class: numba's own search takes several microseconds."""
    search = dispatcher.typeof_pyval

    def typeof(value: Any) -> Any:
        kind = type(value)
        return type_of(kind) if issubclass(kind, State) else search(value)

    dispatcher.typeof_pyval = typeof


register_model(StateType)(models.OpaqueModel)


@infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    key = StateType

    def generic_resolve(self, kind: StateType, name: str) -> Any:
        found = kind.field(name)
        return None if found is None else found[0]


def _word_of(context: Any, builder: Any, record: Any, place: int) -> Any:
    """Return where a word of a record is."""
    word = context.get_value_type(types.intp)
    return cgutils.gep_inbounds(builder, builder.bitcast(record, word.as_pointer()), place)


@lower_getattr_generic(StateType)
def _read(context: Any, builder: Any, kind: StateType, record: Any, name: str) -> Any:
    """Return the value of a scalar, or the array whose address and extents are in the record."""
    found = kind.field(name)
    assert found is not None
    shape, first = found
    if not isinstance(shape, types.Array):
        at = _word_of(context, builder, record, first)
        return builder.load(builder.bitcast(at, context.get_value_type(shape).as_pointer()))
    loads = [builder.load(_word_of(context, builder, record, first + i)) for i in range(1 + shape.ndim)]
    # no kernel reads an array that it replaces: loops need not read its address again, and vectorise
    for load in loads:
        load.set_metadata("invariant.load", builder.module.add_metadata([]))
    address, *extents = loads
    size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(shape.dtype)))
    strides = [size]
    for extent in reversed(extents[1:]):
        strides.insert(0, builder.mul(strides[0], extent))
    result = make_array(shape)(context, builder)
    populate_array(result, builder.inttoptr(address, result.data.type), extents, strides, size, None)
    return result._getvalue()


@lower_setattr_generic(StateType)
def _write(context: Any, builder: Any, signature: Any, arguments: Any, name: str) -> None:
    """Assign to a scalar, or let an array be another one, which must be the caller's."""
    kind, given = signature.args
    found = kind.field(name)
    assert found is not None
    shape, first = found
    if not isinstance(shape, types.Array):
        value = context.cast(builder, arguments[1], given, shape)
        at = _word_of(context, builder, arguments[0], first)
        builder.store(value, builder.bitcast(at, context.get_value_type(shape).as_pointer()))
        return
    if context.enable_nrt:
        raise NotImplementedError(f"A kernel that makes arrays can't replace the array {name} of a state.")
    held = make_array(shape)(context, builder, arguments[1])
    address = builder.ptrtoint(held.data, context.get_value_type(types.intp))
    for i, word in enumerate((address, *cgutils.unpack_tuple(builder, held.shape))):
        builder.store(word, _word_of(context, builder, arguments[0], first + i))


@unbox(StateType)
def _unbox(kind: StateType, given: Any, c: Any) -> Any:
    """Hand over the record of a state of this type; anything else is a TypeError."""
    record = cgutils.alloca_once_value(c.builder, c.context.get_constant_null(kind))
    wrong = cgutils.alloca_once_value(c.builder, cgutils.true_bit)
    address = c.pyapi.object_getattr_string(given, "address")
    with c.builder.if_then(cgutils.is_not_null(c.builder, address)):
        found = c.pyapi.long_as_voidptr(address)
        c.pyapi.decref(address)
        word = c.context.get_value_type(types.intp)
        tag = c.builder.load(c.builder.bitcast(found, word.as_pointer()))
        c.builder.store(found, record)
        wanted = c.context.get_constant(types.intp, kind.tag)
        c.builder.store(c.builder.icmp_unsigned("!=", tag, wanted), wrong)
    with c.builder.if_then(c.builder.load(wrong)):
        c.pyapi.err_clear()
        c.pyapi.err_set_string("PyExc_TypeError", f"This kernel takes {kind.name.split('(')[0]} here.")
    return NativeValue(c.builder.load(record), is_error=c.builder.load(wrong))
