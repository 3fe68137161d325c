"""Sketches over a sliding window: how many different keys there are, and how often they repeat, in fixed space.

**Distinct keys** (`Distinct`). A key's hash chooses one of m registers and a level, level r with probability 2^-r,
and stores its recency there if that is the newest so far. A level counts while its recency is in the window, so
nothing has to be subtracted when rows leave: the highest level that counts in each register is what HyperLogLog would
hold for the window alone. Its estimate has a standard error of 1.04 / sqrt(m) of the count; where many registers
are empty they are counted instead (linear counting), which is closer. Sketches of several streams with the same m
merge into one by the higher level of each register: an estimate of the union, and by inclusion and exclusion of the
intersection, with an error that is a share of the union, not of the intersection.

**Repeats** (`Repeats`). Alon, Matias and Szegedy: the sum over rows of a random sign of their key, squared, is on
average the sum of the squares of the keys' counts, the size of the stream joined with itself. To slide, sums
are kept for panes of rows, and the panes that reach into the window are added up: up to one pane too many. The median
of four means of sixteen such squares has a standard error of about a fifth. The fourth paper estimates the greatest
number of occurrences from it and doesn't say how. Divided by the number of rows it is how often the key of a row comes,
on average over rows: never more than the greatest number, and equal to it where keys come equally often. (Its root is
never less; but where nothing repeats that is the root of the number of rows, and no instance would ever be removed.)

Flajolet's and Martin's lowest unset bit, which the fourth paper names, needs more space for the same error.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.core.order import inside
from skyband.core.types import LOWEST, Floats, Ints, Recency
from skyband.stream.arrow import values_of
from skyband.stream.keys import _bits as bits_of
from skyband.stream.keys import is_plain

LEVELS = 48
REGISTERS = 256
SIGNS = 64
PANES = 8
Hashes = npt.NDArray[np.uint64]


def hashes_of(keys: pa.Array) -> Hashes:
    """Return 64 bits for each key, the same in every process."""
    if is_plain(keys.type):
        return stirred(bits_of(keys).view(np.uint64).copy())
    encoded = keys.dictionary_encode()
    each = [
        hashlib.blake2b(str(value).encode(), digest_size=8).digest()
        for value in encoded.dictionary.to_pylist()
    ]
    known = np.frombuffer(b"".join(each), dtype=np.uint64)
    found: Hashes = known[values_of(encoded.indices)]
    return found


def stirred(x: Hashes) -> Hashes:
    """Mix the bits (splitmix64): every bit of the result depends on every bit."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    found: Hashes = x ^ (x >> np.uint64(31))
    return found


class Distinct:
    """Estimates the number of distinct keys in a sliding window of one stream."""

    def __init__(self, registers: int = REGISTERS) -> None:
        self.registers = registers
        self.time = np.full((registers, LEVELS), LOWEST.time, dtype=np.int64)
        self.seq = np.full((registers, LEVELS), LOWEST.seq, dtype=np.int64)

    def add(self, hashes: Hashes, time: Ints, seq: Ints) -> None:
        """Add rows, in any order."""
        register = (hashes % np.uint64(self.registers)).astype(np.int64)
        rest = hashes // np.uint64(self.registers)
        low = rest & (~rest + np.uint64(1))  # the lowest bit that is set
        level = np.where(
            rest == 0, LEVELS - 1, np.minimum(np.log2(np.maximum(low, 1).astype(np.float64)), LEVELS - 1)
        )
        order = np.lexsort((seq, time))  # so that the newest is written last
        at = register[order], level.astype(np.int64)[order]
        newer = (time[order] > self.time[at]) | ((time[order] == self.time[at]) & (seq[order] > self.seq[at]))
        at = at[0][newer], at[1][newer]
        self.time[at], self.seq[at] = time[order][newer], seq[order][newer]

    def levels(self, horizon: Recency) -> Ints:
        """Return one more than the highest level in the window for each register; 0 for none."""
        counts = inside(self.time, self.seq, horizon)
        found: Ints = (LEVELS - np.argmax(counts[:, ::-1], axis=1)) * counts.any(axis=1)
        return found

    def bytes(self) -> int:
        return self.time.nbytes + self.seq.nbytes

    def dump(self) -> dict[str, Any]:
        return {"time": self.time, "seq": self.seq}

    def load(self, blob: dict[str, Any]) -> None:
        self.time, self.seq = blob["time"].copy(), blob["seq"].copy()
        self.registers = len(self.time)


def standard_error(registers: int) -> float:
    """Return the standard error of an estimate, relative to the count."""
    return 1.04 / math.sqrt(registers)


def estimate(levels: Ints) -> float:
    """Estimate the number of distinct keys from the levels of all registers."""
    m = len(levels)
    empty = int(np.count_nonzero(levels == 0))
    alpha = 0.7213 / (1 + 1.079 / m)
    raw = alpha * m * m / float(np.sum(2.0 ** -levels.astype(np.float64)))
    return m * math.log(m / empty) if raw <= 2.5 * m and empty else raw


def in_common(levels: list[Ints]) -> Floats:
    """Estimate for each set of streams (bits of the index) the keys that all of them have; index 0: of any stream."""
    d = len(levels)
    union = np.zeros(1 << d)
    for mask in range(1, 1 << d):
        own = [levels[i] for i in range(d) if mask >> i & 1]
        union[mask] = estimate(np.maximum.reduce(own))
    found = np.zeros(1 << d)
    found[0] = union[-1]
    for mask in range(1, 1 << d):
        part, total = mask, 0.0
        while part:
            total += union[part] if bin(part).count("1") % 2 else -union[part]
            part = (part - 1) & mask
        below = [found[mask & ~(1 << i)] for i in range(d) if mask >> i & 1]
        found[mask] = min(max(total, 0.0), *below)
    return found


class Repeats:
    """Estimates how often keys repeat in a sliding window of one stream, by the sum of the squares of their counts."""

    def __init__(self) -> None:
        self.seeds = stirred(np.arange(SIGNS, dtype=np.uint64))
        self.panes: list[list[Any]] = []  # newest recency, rows, sums; oldest pane first

    def add(self, hashes: Hashes, time: Ints, seq: Ints, window: int) -> None:
        """Add rows to a window of `window` rows."""
        if not len(hashes):
            return
        newest = Recency(int(time[-1]), int(seq[-1]))
        signs = (stirred(hashes[:, None] ^ self.seeds[None, :]) & np.uint64(1)).astype(np.int64) * 2 - 1
        if not self.panes or self.panes[-1][1] >= max(64, window // PANES):
            self.panes.append([newest, 0, np.zeros(SIGNS, dtype=np.int64)])
        pane = self.panes[-1]
        pane[0], pane[1], pane[2] = max(pane[0], newest), pane[1] + len(hashes), pane[2] + signs.sum(axis=0)

    def expire(self, horizon: Recency) -> None:
        self.panes = [pane for pane in self.panes if pane[0] >= horizon]

    def occurrences(self) -> float:
        """Return how many rows the object of a row has, on average over rows: 1 where nothing repeats."""
        rows = sum(int(pane[1]) for pane in self.panes)
        if not rows:
            return 1.0
        sums = np.sum([pane[2] for pane in self.panes], axis=0).astype(np.float64)
        squares = float(np.median((sums * sums).reshape(4, -1).mean(axis=1)))
        return max(1.0, squares / rows)

    def bytes(self) -> int:
        return sum(int(pane[2].nbytes) for pane in self.panes)

    def dump(self) -> list[Any]:
        return [[list(newest), rows, sums] for newest, rows, sums in self.panes]

    def load(self, blob: list[Any]) -> None:
        self.panes = [[Recency(*newest), rows, sums.copy()] for newest, rows, sums in blob]
