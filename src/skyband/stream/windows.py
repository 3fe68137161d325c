"""Recency, horizons, and where a row window begins.

Recency is (event time, seq), or seq alone where the stream has no time column; event time is kept as an
order-preserving integer (clock.py). Both kinds of window are suffixes of the recency order, so a window
at a moment is one *horizon*: the rows at or after it are inside. For a duration that is `now - w`; for n rows
it is the n-th newest accepted row, and finding that is this module's work.

Without a time column accepted seqs are runs of consecutive numbers (a rejected row or another stream's rows
end a run), so a row window of any length costs a few numbers. With one, late rows land in the middle, and the
recencies of the newest n rows are kept, 16 bytes each, once for a stream.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from skyband.compiling.jit import kernel
from skyband.core.types import LOWEST, Ints, Recency

_NONE: Ints = np.empty(0, dtype=np.int64)


class Runs:
    """Accepted seqs of a stream without a time column, as runs of consecutive numbers."""

    def __init__(self) -> None:
        self.first = np.empty(16, dtype=np.int64)  # first seq of each run
        self.ordinal = np.empty(16, dtype=np.int64)  # how many rows came before it
        self.count = 0  # runs in use
        self.total = 0  # rows in all
        self._latest = (0, 0)  # ordinal and first seq of the last run

    def add(self, time: Ints, seq: Ints | range) -> None:
        """Rows in order of seq."""
        if len(seq) == 0:
            return
        first, last = int(seq[0]), int(seq[-1])
        follows = self.count and first == self._end()
        if follows and last - first == len(seq) - 1:  # the common case
            self.total += len(seq)
            return
        starts = np.zeros(1, dtype=np.int64)
        if last - first != len(seq) - 1:  # not one run
            starts = np.concatenate([starts, np.flatnonzero(np.diff(seq) != 1) + 1])
        if follows:
            starts = starts[1:]  # goes on with the last run
        need = self.count + len(starts)
        if need > len(self.first):
            self.first = np.resize(self.first, 2 * need)
            self.ordinal = np.resize(self.ordinal, 2 * need)
        self.first[self.count : need] = seq[starts] if isinstance(seq, np.ndarray) else [seq[0]] * len(starts)
        self.ordinal[self.count : need] = self.total + starts
        self.count = need
        self.total += len(seq)
        self._latest = int(self.ordinal[need - 1]), int(self.first[need - 1])

    def add_one(self, time: int, seq: int, most: int) -> None:
        """One row more; no window needs more than the newest `most`."""
        before, first = self._latest
        if self.count and first + self.total - before == seq:
            self.total += 1
            return
        self.add(_NONE, range(seq, seq + 1))
        self.trim(most)

    def _end(self) -> int:
        last = self.count - 1
        return int(self.first[last]) + self.total - int(self.ordinal[last])

    def horizon(self, n: int) -> Recency:
        """Return the n-th newest row, or the lowest recency while there are fewer."""
        if self.total < n or n <= 0:
            return LOWEST if n > 0 else self.newest().after()
        wanted = self.total - n
        if self._latest[0] <= wanted:  # inside the last run, as nearly always
            return Recency(0, self._latest[1] + wanted - self._latest[0])
        run = self.count - 1
        if self.ordinal[run] > wanted:
            run = int(np.searchsorted(self.ordinal[:run], wanted, side="right")) - 1
        return Recency(0, int(self.first[run]) + wanted - int(self.ordinal[run]))

    def horizons(self, counts: Ints, longest: int) -> tuple[Ints, Ints]:
        """`horizon` of many row counts of at least one; `longest` is the place of the greatest."""
        ordinal, first = self._latest
        if self.total - int(counts[longest]) < ordinal:  # not all begin in the last run
            return _columns([self.horizon(n) for n in counts.tolist()])
        return np.zeros(len(counts), dtype=np.int64), (self.total - ordinal + first) - counts

    def since(self, start: Recency) -> int:
        """Return how many rows came at or after a recency."""
        run = int(np.searchsorted(self.first[: self.count], start.seq, side="right")) - 1
        if run < 0:
            return self.total - (int(self.ordinal[0]) if self.count else 0)
        end = int(self.ordinal[run + 1]) if run + 1 < self.count else self.total
        return self.total - min(int(self.ordinal[run]) + start.seq - int(self.first[run]), end)

    def newest(self) -> Recency:
        return Recency(0, self._end() - 1) if self.count else LOWEST

    def trim(self, n: int) -> None:
        """Forget runs that no window of n rows can begin in."""
        if self.count > 1024:
            keep = max(0, int(np.searchsorted(self.ordinal[: self.count], self.total - n, side="right")) - 1)
            if keep > self.count // 2:
                self.first = self.first[keep:].copy()
                self.ordinal = self.ordinal[keep:].copy()
                self.count -= keep

    def bytes(self) -> int:
        return self.first.nbytes + self.ordinal.nbytes

    def dump(self) -> dict[str, Any]:
        first, ordinal = self.first[: self.count].copy(), self.ordinal[: self.count].copy()
        return {"first": first, "ordinal": ordinal, "total": self.total}

    def load(self, blob: dict[str, Any]) -> None:
        self.first, self.ordinal = blob["first"].copy(), blob["ordinal"].copy()
        self.count, self.total = len(self.first), int(blob["total"])
        if self.count:
            self._latest = int(self.ordinal[-1]), int(self.first[-1])


class Recencies:
    """The recencies of the newest rows of a stream with a time column, in order."""

    def __init__(self) -> None:
        self.time = np.empty(0, dtype=np.int64)
        self.seq = np.empty(0, dtype=np.int64)
        self.begin = 0
        self.end = 0
        self.latest = LOWEST  # of all rows ever, kept or not
        self.complete_from = LOWEST  # every row from here on is here

    def __len__(self) -> int:
        return self.end - self.begin

    def add(self, time: Ints, seq: Ints, most: int = 2**62) -> None:
        """Rows in recency order; no window needs more than the newest `most` of them."""
        if len(time) == 0:
            return
        self.latest = max(self.latest, Recency(int(time[-1]), int(seq[-1])))
        n = min(len(time), most)
        if n < len(time):
            self.complete_from = Recency(int(time[-n]), int(seq[-n])) if n else self.latest.after()
        if n == 0:
            return
        time, seq = time[-n:], seq[-n:]
        self._make_room(n)
        times, seqs = self.time, self.seq
        first = Recency(int(time[0]), int(seq[0]))
        at = self.end
        if self.end > self.begin and first < (int(times[self.end - 1]), int(seqs[self.end - 1])):
            # late rows: the tail that they reach into is merged with them
            merging = times, seqs, self.begin, self.end, time.copy(), seq.copy()
            if merge.is_available(merging):
                merge(*merging)
                self.end += n
                return
            at = self.begin + int(np.searchsorted(times[self.begin : self.end], first.time, side="left"))
            time = np.concatenate([times[at : self.end], time])
            seq = np.concatenate([seqs[at : self.end], seq])
            order = np.lexsort((seq, time))
            time, seq = time[order], seq[order]
        times[at : self.end + n] = time
        seqs[at : self.end + n] = seq
        self.end += n

    def add_one(self, time: int, seq: int, most: int) -> None:
        """One row more; no window needs more than the newest `most`."""
        end = self.end
        if not most and end == self.begin:
            self.latest = max(self.latest, Recency(time, seq))
            self.complete_from = self.latest.after()
            return
        if most > 0 and self.latest < (time, seq) and end < len(self.time):
            self.time[end], self.seq[end] = time, seq
            self.latest = Recency(time, seq)
            self.end = end + 1
        else:
            self.add(np.array((time,)), np.array((seq,)), most)
        if self.end - self.begin > most:
            self.trim(most)

    def begin_with(self, time: Ints, seq: Ints) -> None:
        """Forget what is here: these are the newest rows, in recency order."""
        self.begin = self.end = 0
        self.add(time, seq)

    def _make_room(self, n: int) -> None:
        if self.end + n <= len(self.time):
            return
        live = self.end - self.begin
        if (
            live + n <= len(self.time) and live <= self.begin
        ):  # as in a full window: memory that was touched before
            for rows in (self.time, self.seq):
                rows[:live] = rows[self.begin : self.end]
            self.begin, self.end = 0, live
            return
        size = max(1024, 2 * (live + n)) if live + n < 1 << 20 else live + n + (live + n) // 4
        for name in ("time", "seq"):
            new = np.empty(size, dtype=np.int64)
            new[:live] = getattr(self, name)[self.begin : self.end]
            setattr(self, name, new)
        self.begin, self.end = 0, live

    def horizon(self, n: int) -> Recency:
        if n > self.end - self.begin:
            return LOWEST
        at = self.end - n
        return Recency(int(self.time[at]), int(self.seq[at])) if n > 0 else self.newest().after()

    def horizons(self, counts: Ints, longest: int) -> tuple[Ints, Ints]:
        """`horizon` of many row counts."""
        return _columns([self.horizon(n) for n in counts.tolist()])

    def since(self, start: Recency) -> int:
        """Return how many of the rows that are kept came at or after a recency."""
        time = self.time[self.begin : self.end]
        low = int(np.searchsorted(time, start.time, side="left"))
        high = int(np.searchsorted(time, start.time, side="right"))
        seq = self.seq[self.begin + low : self.begin + high]
        return len(time) - low - int(np.searchsorted(seq, start.seq))

    def newest(self) -> Recency:
        return self.latest

    def trim(self, n: int) -> None:
        if self.end - n > self.begin:
            self.begin = self.end - n
            at = self.begin
            self.complete_from = Recency(int(self.time[at]), int(self.seq[at])) if n else self.latest.after()

    def bytes(self) -> int:
        return self.time.nbytes + self.seq.nbytes

    def dump(self) -> dict[str, Any]:
        part = slice(self.begin, self.end)
        marks = np.array([self.latest, self.complete_from], dtype=np.int64)
        return {"time": self.time[part].copy(), "seq": self.seq[part].copy(), "marks": marks}

    def load(self, blob: dict[str, Any]) -> None:
        self.time, self.seq = blob["time"].copy(), blob["seq"].copy()
        self.begin, self.end = 0, len(self.time)
        self.latest, self.complete_from = (Recency(*mark) for mark in blob["marks"].tolist())


def by_recency(time: Ints, seq: Ints) -> Ints:
    """Return the order that sorts rows by recency, the oldest first."""
    order = np.argsort(time)  # several times as fast as a stable sort, and times mostly differ
    ordered = time[order]
    if (ordered[1:] == ordered[:-1]).any():
        order = np.lexsort((seq, time))
    return order


@kernel
def merge(times: Ints, seqs: Ints, begin: int, end: int, time: Ints, seq: Ints) -> None:
    """Merge rows into those at [begin, end), with room behind them; both are in order of recency."""
    i, at = end - 1, end + time.shape[0] - 1
    for back in range(time.shape[0]):
        t, s = time[time.shape[0] - 1 - back], seq[time.shape[0] - 1 - back]
        while i >= begin and (times[i] > t or (times[i] == t and seqs[i] > s)):
            times[at], seqs[at] = times[i], seqs[i]
            i -= 1
            at -= 1
        times[at], seqs[at] = t, s
        at -= 1


def _columns(recencies: list[Recency]) -> tuple[Ints, Ints]:
    """Times and seqs."""
    both = np.array(recencies, dtype=np.int64).reshape(-1, 2)
    return both[:, 0].copy(), both[:, 1].copy()


class Horizons(dict[Any, Recency]):
    """Where windows begin at one moment: each is found when it is asked for, those of many row windows at once."""

    def __init__(self, horizon: Callable[[Any], Recency], recencies: Runs | Recencies) -> None:
        super().__init__()
        self._horizon = horizon
        self.of_rows = recencies.horizons

    def __missing__(self, window: Any) -> Recency:
        found = self[window] = self._horizon(window)
        return found
