"""Instructions that Python has no word for: fetch what will be needed, find the first bit of a word, count them.

A list that lies in a far cache is near by the time it is needed if it is requested a few hundred instructions
earlier. Queries' lists are many and short, so no machine foresees which comes next; the loops that use them know it.

Sets of queries are words of 64 bits. A loop over a set goes from one bit to the next with one instruction each.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from skyband.compiling.jit import native


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


@native(_fetch)
def fetch(array: npt.NDArray[Any], at: int) -> None:
    """Bring an element nearer; any index will do, nothing is read."""


def _first_bit() -> Any:
    from llvmlite import ir
    from numba.core import types
    from numba.extending import intrinsic

    @intrinsic
    def first_bit(typing: Any, word: Any) -> Any:
        def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

        return types.int64(types.uint64), write

    return first_bit


@native(_first_bit)
def first_bit(word: int) -> int:
    """The place of the lowest bit that is set; of no meaning for 0."""
    value = int(word)
    return (value & -value).bit_length() - 1


def _bits_in() -> Any:
    from numba.core import types
    from numba.extending import intrinsic

    @intrinsic
    def bits_in(typing: Any, word: Any) -> Any:
        def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.ctpop(arguments[0])

        return types.int64(types.uint64), write

    return bits_in


@native(_bits_in)
def bits_in(word: int) -> int:
    """How many bits of a word are set."""
    return int(word).bit_count()
