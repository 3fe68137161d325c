"""The window's rows in order of recency, in plain arrays: appended at the end, forgotten at the front."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.core.types import Floats, Ints, Recency

FIRST_ROOM = 1024


def first_at(time: Ints, seq: Ints, horizon: Recency) -> int:
    """Return the first place in recency order at or after a horizon."""
    begin = int(np.searchsorted(time, horizon.time, "left"))
    end = int(np.searchsorted(time, horizon.time, "right"))
    return begin + int(np.searchsorted(seq[begin:end], horizon.seq, "left"))


class RowStore:
    """Rows by recency: the columns of a space, times and seqs."""

    def __init__(self, columns: int) -> None:
        self._arrays: list[Any] = [np.empty(0, dtype=np.float64) for _ in range(columns)]
        self._arrays += [np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)]
        self._begin = self._end = 0

    def __len__(self) -> int:
        return self._end - self._begin

    def live(self, first: int = 0) -> tuple[tuple[Floats, ...], Ints, Ints]:
        """Return the columns, times and seqs from the row at place `first` on."""
        *columns, time, seq = (array[self._begin + first : self._end] for array in self._arrays)
        return tuple(columns), time, seq

    def since(self, horizon: Recency) -> int:
        """Return the place of the first row at or after a horizon."""
        _, time, seq = self.live()
        return first_at(time, seq, horizon)

    def add(self, columns: tuple[Floats, ...], time: Ints, seq: Ints) -> None:
        """Take rows, oldest first. Late ones go where they belong."""
        if not len(seq):
            return
        at = self.since(Recency(int(time[0]), int(seq[0])))
        if at < len(self):
            old_columns, old_time, old_seq = self.live(at)
            time, seq = np.concatenate([old_time, time]), np.concatenate([old_seq, seq])
            order = np.lexsort((seq, time))
            columns = tuple(
                np.concatenate([old, new])[order] for old, new in zip(old_columns, columns, strict=True)
            )
            time, seq = time[order], seq[order]
            self._end = self._begin + at
        self._fit(len(seq))
        for array, values in zip(self._arrays, (*columns, time, seq), strict=True):
            array[self._end : self._end + len(seq)] = values
        self._end += len(seq)

    def _fit(self, more: int) -> None:
        """Have room for so many rows more."""
        if self._end + more <= len(self._arrays[-1]):
            return
        room = max(FIRST_ROOM, 2 * (len(self) + more))
        for number, array in enumerate(self._arrays):
            larger = np.empty(room, dtype=array.dtype)
            larger[: len(self)] = array[self._begin : self._end]
            self._arrays[number] = larger
        self._begin, self._end = 0, len(self)

    def forget(self, horizon: Recency) -> None:
        """Drop the rows before a horizon."""
        self._begin += self.since(horizon)

    def delete(self, seqs: Ints) -> None:
        """Drop these rows."""
        columns, time, seq = self.live()
        stay = ~np.isin(seq, seqs)
        kept = tuple(column[stay] for column in columns), time[stay], seq[stay]
        self._end = self._begin
        self.add(*kept)

    def bytes(self) -> int:
        return sum(array.nbytes for array in self._arrays)

    def _check(self) -> None:
        _, time, seq = self.live()
        # strictly in order of recency
        assert bool(np.all((time[1:] > time[:-1]) | ((time[1:] == time[:-1]) & (seq[1:] > seq[:-1]))))
