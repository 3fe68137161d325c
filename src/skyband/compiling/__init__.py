"""Compiles kernels with numba; no other room calls it.

What algorithms use: `jit` (the decorator), `state` (declared state), `intrinsics` (instructions that Python has no
words for), `addresses` (arrays by address). How it is done: `dispatcher` (what numba makes of a kernel), `state_types`
(what numba has to know of states), `cache` (where code is kept), `background` (compiling in a process beside a stream).
"""

from skyband.compiling import background, cache, dispatcher, jit

jit.compiler = jit.Compiler(dispatcher.compiled, dispatcher.entry, background.is_available, cache.folder_of)
