"""Compiles kernels with numba: the decorator and the cache (`jit`), instructions that Python has no words for
(`intrinsics`), and arrays that are replaced now and then (`array_version`). No other room calls numba."""
