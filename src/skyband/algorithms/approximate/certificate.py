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

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.compiling.jit import inlined, kernel
from skyband.compiling.state import State, field
from skyband.core.order import before
from skyband.core.types import Floats, Ints, Recency

STEPS = 32


class Certificates(State):
    """The stairs of dropped rows, slot by slot."""

    good: Floats = field("f8[slot, step]")
    time: Ints = field("i8[slot, step]")
    seq: Ints = field("i8[slot, step]")
    count: Ints = field("i8[slot]")

    def __init__(self) -> None:
        super().__init__(step=STEPS)

    def add(self) -> None:
        """Add a slot."""
        self.grow(slot=len(self.count) + 1)

    def clear(self, slot: int) -> None:
        """Forget the dropped rows of a slot."""
        self.count[slot] = 0

    def copy_slot(self, slot: int, to: int) -> None:
        """Let one slot have the dropped rows of another."""
        for array in (self.good, self.time, self.seq, self.count):
            array[to] = array[slot]

    def expire(self, horizon_time: Ints, horizon_seq: Ints) -> None:
        """Remove the steps that no window of a slot can reach any more."""
        expire(self, horizon_time, horizon_seq)

    def certain(self, slot: int, k: int, horizon: Recency, answer: tuple[Floats, Ints, Ints]) -> bool:
        """Whether these rows (best first) are certainly the top k from the horizon on."""
        last = tuple(column[-1].item() for column in answer) if len(answer[2]) else (0.0, 0, 0)
        return bool(certain(self, slot, len(answer[2]) >= k, *last, *horizon))

    def bytes(self) -> int:
        """Return the bytes of one slot."""
        return STEPS * 24 + 8

    def _used(self) -> npt.NDArray[np.bool_]:
        used: npt.NDArray[np.bool_] = np.arange(STEPS)[None, :] < self.count[:, None]
        return used

    def dump(self) -> dict[str, Any]:
        """Return the steps of all slots, one after the other, and how many each has."""
        used = self._used()
        steps = {name: getattr(self, name)[used] for name in ("good", "time", "seq")}
        return {**steps, "count": self.count.copy()}

    def load(self, content: Mapping[str, Any]) -> None:
        """Continue with what `dump` returned."""
        self.grow(slot=len(content["count"]))
        self.count = content["count"].copy()
        used = self._used()
        for name in ("good", "time", "seq"):
            getattr(self, name)[used] = content[name]

    def _check(self) -> None:
        super()._check()
        for slot, count in enumerate(self.count.tolist()):
            good, time, seq = (array[slot, :count] for array in (self.good, self.time, self.seq))
            assert 0 <= count < STEPS
            # newer steps are strictly lower
            assert np.all(good[1:] < good[:-1])
            assert np.all((time[1:] > time[:-1]) | ((time[1:] == time[:-1]) & (seq[1:] > seq[:-1])))


@inlined
def older(time: int, seq: int, other_time: int, other_seq: int) -> bool:
    """Whether a recency is older than another."""
    return time < other_time or (time == other_time and seq < other_seq)


@inlined
def move(stairs: Certificates, slot: int, to: int, step: int) -> None:
    """Copy a step to another place."""
    stairs.good[slot, to] = stairs.good[slot, step]
    stairs.time[slot, to] = stairs.time[slot, step]
    stairs.seq[slot, to] = stairs.seq[slot, step]


@kernel
def record(stairs: Certificates, slot: int, good: float, time: int, seq: int) -> None:
    """Record that a row of this score and recency was dropped, or several no better and no newer."""
    n = stairs.count[slot]
    at = n  # the first step that is not older
    while at > 0 and not older(stairs.time[slot, at - 1], stairs.seq[slot, at - 1], time, seq):
        at -= 1
    if at < n and stairs.good[slot, at] >= good:
        return
    low = at  # older steps that are no better are removed
    while low > 0 and stairs.good[slot, low - 1] <= good:
        low -= 1
    # a lower step of the same recency is removed as well
    if at < n and stairs.time[slot, at] == time and stairs.seq[slot, at] == seq:
        at += 1
    shift = low + 1 - at
    if shift > 0:
        for i in range(n - 1, at - 1, -1):
            move(stairs, slot, i + 1, i)
    elif shift < 0:
        for i in range(at, n):
            move(stairs, slot, i + shift, i)
    stairs.good[slot, low], stairs.time[slot, low], stairs.seq[slot, low] = good, time, seq
    stairs.count[slot] = n + shift
    if n + shift == STEPS:  # make room for the next one
        merge(stairs, slot)


@kernel
def merge(stairs: Certificates, slot: int) -> None:
    """Merge the two neighbours that together cover the fewest rows."""
    seqs, n = stairs.seq, stairs.count[slot]
    best = 0
    least = 2 * abs(seqs[slot, 1] - seqs[slot, 0])
    for i in range(1, n - 1):
        width = abs(seqs[slot, i + 1] - seqs[slot, i - 1])
        if width < least:
            best = i
            least = width
    stairs.time[slot, best], seqs[slot, best] = stairs.time[slot, best + 1], seqs[slot, best + 1]
    for i in range(best + 1, n - 1):
        move(stairs, slot, i, i + 1)
    stairs.count[slot] = n - 1


@kernel
def expire(stairs: Certificates, horizon_time: Ints, horizon_seq: Ints) -> None:
    """Remove the steps of each slot that are older than its horizon."""
    for slot in range(stairs.count.shape[0]):
        n, time, seq = stairs.count[slot], horizon_time[slot], horizon_seq[slot]
        gone = 0
        while gone < n and older(stairs.time[slot, gone], stairs.seq[slot, gone], time, seq):
            gone += 1
        if gone:
            for i in range(gone, n):
                move(stairs, slot, i - gone, i)
            stairs.count[slot] = n - gone


@kernel
def certain(
    stairs: Certificates, slot: int, full: bool, good: float, time: int, seq: int, horizon_time: int, horizon_seq: int
) -> bool:  # fmt: skip
    """Whether an answer whose last row is this one is certainly exact; `full`: it has as many rows as were wanted."""
    for i in range(stairs.count[slot]):
        when, number = stairs.time[slot, i], stairs.seq[slot, i]
        if not older(when, number, horizon_time, horizon_seq):
            # the best dropped row that may be inside: the answer's last row must be better
            return full and before(good, time, seq, stairs.good[slot, i], when, number)
    return True


@kernel
def certify(
    stairs: Certificates, shares: Ints, slots: Ints, ks: Ints, horizon_time: Ints, horizon_seq: Ints, start: Ints,
    size: Ints, good: Floats, time: Ints, seq: Ints,
) -> int:  # fmt: skip
    """Count for each watch its answers on the board and the certain ones; return how many are uncertain now."""
    doubtful = 0
    for w in range(slots.shape[0]):
        slot, last = slots[w], start[w] + size[w] - 1
        sure = True
        if stairs.count[slot] > 0:
            when, number = horizon_time[w], horizon_seq[w]
            if size[w] > 0:
                full = size[w] >= ks[w]
                sure = certain(stairs, slot, full, good[last], time[last], seq[last], when, number)
            else:
                sure = certain(stairs, slot, False, 0.0, 0, 0, when, number)
        shares[w, 0] += sure
        shares[w, 1] += 1
        doubtful += not sure
    return doubtful
