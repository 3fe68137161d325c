"""Rows with keys: maps each row's key to the code of its object (stream/keys.py), and drops rows before the horizon."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.algorithms.kernels.row_slots import Places, Rows
from skyband.algorithms.objects.record_layout import Kinds
from skyband.compiling.jit import kernel
from skyband.core.order import inside
from skyband.core.types import LOWEST, Floats, Ints
from skyband.stream.keys import Keys, keys_for

NO_KINDS: Kinds = np.zeros(0, dtype=np.uint16)


class Arrivals(NamedTuple):
    """Rows inside the window, oldest first; at least one row."""

    keys: pa.Array
    columns: tuple[Floats, ...]  # as many as are stored
    time: Ints
    seq: Ints
    stream: Any  # one number for all rows, or one for each


class Keyed:
    """A window's rows, and the table of their objects' keys."""

    def __init__(self, width: int, several: bool) -> None:
        self.width, self.several = width, several
        self.rows = Rows(max(1, width), linked=False)
        self.keys: Keys | None = None  # once the type of a key is known
        self.horizon = LOWEST

    def _inside(
        self, keys: pa.Array, columns: tuple[Floats, ...], time: Ints, seq: Ints, stream: Any
    ) -> Arrivals | None:
        """Return the rows at or after the horizon, oldest first; None if there are none."""
        if not len(seq):
            return None
        if (int(time[0]), int(seq[0])) < self.horizon:
            kept = np.flatnonzero(inside(time, seq, self.horizon))
            if not len(kept):
                return None
            keys = keys.take(pa.array(kept))
            columns = tuple(column[kept] for column in columns)
            time, seq = time[kept], seq[kept]
            stream = stream[kept] if isinstance(stream, np.ndarray) else stream
        if self.keys is None:
            self.keys = keys_for(keys.type)
        if not columns:
            columns = (np.zeros(len(seq)),)
        columns += (columns[0],) * (max(1, self.width) - len(columns))  # columns of other streams: never read
        return Arrivals(keys, columns, time, seq, stream)

    def _label(self, places: Places, codes: Ints, stream: Any, kind: Kinds) -> None:
        """Give stored rows the codes of their objects, and the numbers of their streams where there are several."""
        each = np.ascontiguousarray(stream, dtype=np.uint16) if isinstance(stream, np.ndarray) else NO_KINDS
        label(places, codes, each, 0 if len(each) else int(stream), self.rows.cell, kind)


@kernel
def label(places: Places, codes: Ints, each: Kinds, one: int, cell: Places, kind: Kinds) -> None:
    several, own = kind.shape[0] > 0, each.shape[0] > 0
    for i in range(places.shape[0]):
        place = places[i]
        cell[place] = codes[i]
        if several:
            kind[place] = each[i] if own else one
