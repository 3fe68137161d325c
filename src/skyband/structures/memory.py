"""Two instructions about memory that Python has no words for: copy a stretch, and fetch what will be needed.

A loop that copies numbers reads the place that it writes to before it writes. The machine's own copy doesn't, which
is a third less traffic where rows go to a window of many megabytes. And a list that lies in a far cache is there by
the time it is needed if somebody asks for it a few hundred instructions earlier.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from skyband.jit import native


def _copy() -> Any:
    from numba.core import cgutils, types
    from numba.extending import intrinsic

    @intrinsic
    def copy(typing: Any, into: Any, values: Any) -> Any:
        def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind, other = signature.args
            target = context.make_array(kind)(context, builder, arguments[0])
            source = context.make_array(other)(context, builder, arguments[1])
            count = builder.extract_value(source.shape, 0)
            size = context.get_abi_sizeof(context.get_data_type(other.dtype))
            cgutils.raw_memcpy(builder, target.data, source.data, count, size)
            return context.get_dummy_value()

        assert into.dtype == values.dtype and into.ndim == values.ndim == 1
        return types.void(into, values), write

    return copy


def _fetch() -> Any:
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.extending import intrinsic

    @intrinsic
    def fetch(typing: Any, array: Any, at: Any) -> Any:
        def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = signature.args[0]
            held = context.make_array(kind)(context, builder, arguments[0])
            address = builder.gep(held.data, [arguments[1]])
            byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
            module = builder.module
            name = "llvm.prefetch.p0" if _opaque() else "llvm.prefetch.p0i8"
            shape = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
            instruction = cgutils.get_or_insert_function(module, shape, name)
            # it will be written to, it shall come to the nearest cache, it is data
            flags = [ir.Constant(word, value) for value in (1, 3, 1)]
            builder.call(instruction, [builder.bitcast(address, byte), *flags])
            return context.get_dummy_value()

        return types.void(array, types.intp), write

    return fetch


def _opaque() -> bool:
    """Whether pointers have no type in this LLVM."""
    import llvmlite.binding

    return bool(llvmlite.binding.llvm_version_info[0] >= 15)


@native(_copy)
def copy(into: npt.NDArray[Any], values: npt.NDArray[Any]) -> None:
    """Numbers one after the other into a stretch of memory as long, both of one type and without gaps."""
    into[:] = values


@native(_fetch)
def fetch(array: npt.NDArray[Any], at: int) -> None:
    """Bring an element nearer; any index will do, nothing is read."""
