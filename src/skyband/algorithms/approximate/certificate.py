"""What is known of dropped rows: enough to decide at each moment whether an answer is certainly exact.

An approximate algorithm returns the k best of the rows it kept. That is the true answer exactly if no row that it
dropped is still in the window and better than the last of them. So each slot keeps the *stairs* of its dropped
rows: by recency, each step lower than the one before, since a dropped row that is older and no better than another
one adds no information. The best dropped row of any window is the first step inside it. In random order there are
about ln n steps; falling scores would make one of every row, so there are fewer than `STEPS`, and beyond that the
two neighbours that cover least are merged, with the score of the higher and the recency of the newer: then a
certificate may be refused that could have been given, never the other way round. The same holds for rows dropped
together (a batch): they may be recorded as one, with the best score and the newest recency among them.
"""

from typing import Any

import numpy as np

from skyband.compiling.jit import inlined, kernel
from skyband.core.order import before
from skyband.core.types import Floats, Ints, Recency

STEPS = 32


class Certificates:
    """The stairs of dropped rows, slot by slot."""

    def __init__(self) -> None:
        self.good = np.empty((0, STEPS), dtype=np.float64)
        self.time = np.empty((0, STEPS), dtype=np.int64)
        self.seq = np.empty((0, STEPS), dtype=np.int64)
        self.count = np.empty(0, dtype=np.int64)

    def add(self) -> None:
        """Add a slot."""
        for name in ("good", "time", "seq"):
            old = getattr(self, name)
            setattr(self, name, np.vstack([old, np.zeros((1, STEPS), dtype=old.dtype)]))
        self.count = np.append(self.count, 0)

    def clear(self, slot: int) -> None:
        self.count[slot] = 0

    def copy(self, slot: int, to: int) -> None:
        for array in self.arrays():
            array[to] = array[slot]

    def arrays(self) -> tuple[Any, ...]:
        return self.good, self.time, self.seq, self.count

    def expire(self, horizon_time: Ints, horizon_seq: Ints) -> None:
        """Remove the steps that no window of a slot can reach any more."""
        expire(horizon_time, horizon_seq, *self.arrays())

    def certain(self, slot: int, k: int, horizon: Recency, answer: tuple[Floats, Ints, Ints]) -> bool:
        """Whether these rows (best first) are certainly the top k from the horizon on."""
        good, time, seq = answer
        last = len(seq) - 1
        found: bool = certain(
            slot, len(seq) >= k, good[last] if len(seq) else 0.0,
            int(time[last]) if len(seq) else 0, int(seq[last]) if len(seq) else 0,
            horizon.time, horizon.seq, *self.arrays(),
        )  # fmt: skip
        return bool(found)

    def bytes(self) -> int:
        """Return the bytes of one slot."""
        return STEPS * 24 + 8

    def dump(self) -> dict[str, Any]:
        used = np.arange(STEPS)[None, :] < self.count[:, None]
        return {
            **{name: getattr(self, name)[used] for name in ("good", "time", "seq")},
            "count": self.count.copy(),
        }

    def load(self, blob: dict[str, Any]) -> None:
        self.count = blob["count"].copy()
        used = np.arange(STEPS)[None, :] < self.count[:, None]
        for name in ("good", "time", "seq"):
            array = np.zeros(used.shape, dtype=blob[name].dtype)
            array[used] = blob[name]
            setattr(self, name, array)

    def _check(self) -> None:
        for slot, count in enumerate(self.count.tolist()):
            good, time, seq = (array[slot, :count] for array in (self.good, self.time, self.seq))
            assert 0 <= count < STEPS
            # newer steps are strictly lower
            assert np.all(good[1:] < good[:-1])
            assert np.all((time[1:] > time[:-1]) | ((time[1:] == time[:-1]) & (seq[1:] > seq[:-1])))


@inlined
def older(time: int, seq: int, other_time: int, other_seq: int) -> bool:
    return time < other_time or (time == other_time and seq < other_seq)


@kernel
def record(
    slot: int, good: float, time: int, seq: int, goods: Floats, times: Ints, seqs: Ints, count: Ints
) -> None:
    """Record that a row of this score and recency was dropped, or several no better and no newer."""
    n = count[slot]
    at = n  # the first step that is not older
    while at > 0 and not older(times[slot, at - 1], seqs[slot, at - 1], time, seq):
        at -= 1
    if at < n and goods[slot, at] >= good:
        return
    low = at  # older steps that are no better are removed
    while low > 0 and goods[slot, low - 1] <= good:
        low -= 1
    # a lower step of the same recency is removed as well
    if at < n and times[slot, at] == time and seqs[slot, at] == seq:
        at += 1
    shift = low + 1 - at
    if shift > 0:
        for i in range(n - 1, at - 1, -1):
            goods[slot, i + 1] = goods[slot, i]
            times[slot, i + 1] = times[slot, i]
            seqs[slot, i + 1] = seqs[slot, i]
    elif shift < 0:
        for i in range(at, n):
            goods[slot, i + shift] = goods[slot, i]
            times[slot, i + shift] = times[slot, i]
            seqs[slot, i + shift] = seqs[slot, i]
    goods[slot, low] = good
    times[slot, low] = time
    seqs[slot, low] = seq
    count[slot] = n + shift
    if n + shift == STEPS:  # make room for the next one
        merge(slot, goods, times, seqs, count)


@kernel
def merge(slot: int, goods: Floats, times: Ints, seqs: Ints, count: Ints) -> None:
    """Merge the two neighbours that together cover the fewest rows."""
    n = count[slot]
    best = 0
    least = 2 * abs(seqs[slot, 1] - seqs[slot, 0])
    for i in range(1, n - 1):
        width = abs(seqs[slot, i + 1] - seqs[slot, i - 1])
        if width < least:
            best = i
            least = width
    times[slot, best] = times[slot, best + 1]
    seqs[slot, best] = seqs[slot, best + 1]
    for i in range(best + 1, n - 1):
        goods[slot, i] = goods[slot, i + 1]
        times[slot, i] = times[slot, i + 1]
        seqs[slot, i] = seqs[slot, i + 1]
    count[slot] = n - 1


@kernel
def expire(
    horizon_time: Ints, horizon_seq: Ints, goods: Floats, times: Ints, seqs: Ints, count: Ints
) -> None:
    for slot in range(count.shape[0]):
        n = count[slot]
        gone = 0
        while gone < n and older(times[slot, gone], seqs[slot, gone], horizon_time[slot], horizon_seq[slot]):
            gone += 1
        if gone:
            for i in range(gone, n):
                goods[slot, i - gone] = goods[slot, i]
                times[slot, i - gone] = times[slot, i]
                seqs[slot, i - gone] = seqs[slot, i]
            count[slot] = n - gone


@kernel
def certain(
    slot: int, full: bool, good: float, time: int, seq: int, horizon_time: int, horizon_seq: int,
    goods: Floats, times: Ints, seqs: Ints, count: Ints,
) -> bool:  # fmt: skip
    """Whether an answer whose last row is this one is certainly exact; `full`: it has as many rows as were wanted."""
    for i in range(count[slot]):
        if not older(times[slot, i], seqs[slot, i], horizon_time, horizon_seq):
            # the best dropped row that may be inside: the answer's last row must be better
            return full and before(good, time, seq, goods[slot, i], times[slot, i], seqs[slot, i])
    return True


@kernel
def certify(
    slots: Ints, ks: Ints, horizon_time: Ints, horizon_seq: Ints, start: Ints, size: Ints,
    good: Floats, time: Ints, seq: Ints,
    goods: Floats, times: Ints, seqs: Ints, count: Ints, shares: Ints,
) -> int:  # fmt: skip
    """Count for each watch its answers on the board and the certain ones; return how many are uncertain now."""
    doubtful = 0
    for w in range(slots.shape[0]):
        last = start[w] + size[w] - 1
        sure = True
        if count[slots[w]] > 0:
            if size[w] > 0:
                sure = certain(
                    slots[w], size[w] >= ks[w], good[last], time[last], seq[last],
                    horizon_time[w], horizon_seq[w], goods, times, seqs, count,
                )  # fmt: skip
            else:
                sure = certain(
                    slots[w], False, 0.0, 0, 0, horizon_time[w], horizon_seq[w], goods, times, seqs, count
                )
        shares[w, 0] += sure
        shares[w, 1] += 1
        doubtful += not sure
    return doubtful
