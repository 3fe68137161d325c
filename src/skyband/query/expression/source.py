"""Where an expression reads its columns: one batch of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa

Floats = npt.NDArray[np.float64]


class Source(Protocol):
    """A batch of rows, by column. A column of pairs or joined streams has a side before its name: `a.x`."""

    def __len__(self) -> int: ...

    def number(self, name: str) -> Floats:
        """Return the column as contiguous float64; times as seconds."""
        ...

    def array(self, name: str) -> pa.Array:
        """Return the column with its own type."""
        ...


def decoded(array: pa.Array) -> pa.Array:
    """Return the array without dictionary encoding."""
    from pyarrow import types

    return array.dictionary_decode() if types.is_dictionary(array.type) else array
