"""The two instructions about memory: compiled and plain they do the same."""

import numpy as np

from skyband.jit import kernel
from skyband.structures.memory import copy, fetch


@kernel
def moved(pool: object, source: object, at: int, rows: int) -> None:
    fetch(source, at)  # whatever lies there, nothing is read
    for axis in range(pool.shape[0]):  # type: ignore[attr-defined]
        copy(pool[axis, at : at + rows], source[axis][1 : 1 + rows])  # type: ignore[index]


def test_a_stretch_is_copied_and_nothing_beside_it() -> None:
    source = np.arange(40.0).reshape(2, 20)
    for length in (0, 1, 7, 12):
        compiled, plain = np.full((2, 16), -1.0), np.full((2, 16), -1.0)
        moved(compiled, source, 3, length)
        moved.function(plain, source, 3, length)
        assert np.array_equal(compiled, plain)
        assert np.array_equal(plain[:, 3 : 3 + length], source[:, 1 : 1 + length])
        assert np.count_nonzero(plain == -1.0) == 2 * (16 - length)
