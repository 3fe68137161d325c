"""Every stream over three scores and three times, in every cut into batches, up to a length.

All streams of scores of one length run at once: row p of a run has a one in column xp and zeros elsewhere,
so the query 2 * x0 + 0 * x1 + 1 * x2 gives the rows the scores 2, 0, 1, and one monitor watches all
3^length of them. What is left to enumerate are the times (3^length) and the cuts (2^(length-1)). Runs
follow each other in one monitor, far apart in time, with rows without scores between them to empty the row
windows. Each step's changes are folded, with their ranks and scores, and compared with the sorted window.

For every exact algorithm `make test` does all streams up to length 4 and, of length 7, all scores with some
times and cuts drawn at random. `make soak` does lengths 5 and 6 whole, and of length 7 as many times and cuts
as SKYBAND_SOAK says in hundreds (0: all of them, which takes hours).
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.algorithms.driver import EXACT

import skyband as sb

SETS = {
    "one of three rows": [(1, ("rows", 3))],
    "two of three rows": [(2, ("rows", 3))],
    "two of one second": [(2, ("seconds", 1))],
    "shared": [(1, ("seconds", 1)), (3, ("rows", 2)), (2, ("rows", 4))],
}
APART, FLUSH = 100, 4


class Run:
    """One monitor that watches every stream of scores of a length, and what its changes add up to."""

    def __init__(
        self, algorithm: str, length: int, asked: list[tuple[int, tuple[str, int]]], descending: bool
    ) -> None:
        self.length, self.asked, self.descending = length, asked, descending
        self.scores = np.array(list(product(range(3), repeat=length)))
        self.columns = [f"x{p}" for p in range(length)]
        schema = pa.schema([("t", pa.int64()), *[(c, pa.float64()) for c in self.columns]])
        self.monitor = sb.Monitor(time="t", schema=schema)
        for i, scores in enumerate(self.scores):
            score = " + ".join(f"{s} * {c}" for s, c in zip(scores, self.columns, strict=True))
            for j, (k, (kind, size)) in enumerate(asked):
                self.monitor.watch(
                    f"SELECT t FROM s ORDER BY {score} {'DESC' if descending else 'ASC'} LIMIT {k} "
                    f"WINDOW {size} {kind.upper()} WITH (algorithm = '{algorithm}')",
                    name=str(i * len(asked) + j),
                )
        self.members = np.zeros((len(self.scores) * len(asked), length), dtype=bool)
        self.base = 0
        self.units = np.eye(length)

    def every_cut(self, times: tuple[int, ...], cuts: Iterable[tuple[int, ...]]) -> None:
        expected = [self.expected(times[:m]) for m in range(1, self.length + 1)]
        for cut in cuts:
            self.flush()
            first = self.monitor.rows_seen
            for start, end in zip([0, *cut], [*cut, self.length], strict=True):
                batch = {c: self.units[start:end, p] for p, c in enumerate(self.columns)}
                batch["t"] = np.array(times[start:end]) + self.base
                self.fold(self.monitor.push(batch), first, expected[end - 1], (times, cut, end))

    def flush(self) -> None:
        """Time goes on, and rows without a score fill the row windows: nothing of the last run is left."""
        self.base += APART
        changes = self.monitor.push({"t": np.full(FLUSH, self.base - APART // 2)})
        assert pc.all(pc.equal(pc.cast(changes["change"], pa.string()), "leave")).as_py() in (True, None)
        assert changes.num_rows == self.members.sum()
        self.members[:] = False

    def fold(self, changes: pa.Table, first: int, expected: np.ndarray, where: object) -> None:
        queries = changes["query"].combine_chunks()
        query = np.asarray(pc.cast(queries.dictionary, pa.int64()))[np.asarray(queries.indices)]
        enter = np.asarray(pc.equal(pc.cast(changes["change"], pa.string()), "enter"))
        place = np.asarray(changes["seq"]) - first
        assert np.array_equal(np.asarray(changes["score"]), self.scores[query // len(self.asked), place]), (
            where
        )
        assert np.array_equal(self.members[query, place], ~enter), where
        self.members[query, place] = enter
        assert np.array_equal(self.members, expected > 0), where
        rank = np.asarray(pc.fill_null(changes["rank"], 0))
        assert np.array_equal(rank[enter], expected[query, place][enter]), where

    def expected(self, times: tuple[int, ...]) -> np.ndarray:
        """The rank of each row that is in the top, 0 of others, for each query: by sorting the whole window."""
        m = len(times)
        order = sorted(range(m), key=lambda p: (times[p], p))
        newness = np.argsort(order)
        sign = 1 if self.descending else -1
        ranks = np.zeros((len(self.scores), len(self.asked), self.length), dtype=np.int64)
        for j, (k, (kind, size)) in enumerate(self.asked):
            inside = order[-size:] if kind == "rows" else [p for p in order if times[p] >= max(times) - size]
            key = sign * self.scores[:, inside] * 100 + newness[inside]
            best = np.array(inside)[np.argsort(-key, axis=1)[:, :k]]
            np.put_along_axis(ranks[:, j], best, np.arange(1, best.shape[1] + 1)[None, :], axis=1)
        return ranks.reshape(-1, self.length)


def all_cuts(length: int) -> Iterator[tuple[int, ...]]:
    for chosen in product((False, True), repeat=length - 1):
        yield tuple(place for place, cut in enumerate(chosen, 1) if cut)


def check(algorithm: str, length: int, asked: str, descending: bool) -> None:
    run = Run(algorithm, length, SETS[asked], descending)
    for times in product(range(3), repeat=length):
        run.every_cut(times, all_cuts(length))


@pytest.mark.parametrize("asked", sorted(SETS))
@pytest.mark.parametrize("algorithm", EXACT)
@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_every_stream(algorithm: str, length: int, asked: str) -> None:
    check(algorithm, length, asked, descending=asked != "two of three rows")


@pytest.mark.parametrize("algorithm", EXACT)
def test_some_streams_of_seven(algorithm: str) -> None:
    some_of_seven(algorithm, "two of one second", 20)


@pytest.mark.soak
@pytest.mark.parametrize("asked", sorted(SETS))
@pytest.mark.parametrize("algorithm", EXACT)
@pytest.mark.parametrize("length", [5, 6])
def test_every_longer_stream(algorithm: str, length: int, asked: str) -> None:
    check(algorithm, length, asked, descending=True)


@pytest.mark.soak
@pytest.mark.parametrize("asked", sorted(SETS))
@pytest.mark.parametrize("algorithm", EXACT)
def test_streams_of_seven(algorithm: str, asked: str) -> None:
    some_of_seven(algorithm, asked, 100 * int(os.environ.get("SKYBAND_SOAK", "12")))


def some_of_seven(algorithm: str, asked: str, wanted: int) -> None:
    """All scores, for so many times and cuts drawn at random; 0: for all of them."""
    cases = list(product(product(range(3), repeat=7), all_cuts(7)))
    run = Run(algorithm, 7, SETS[asked], True)
    for times, cut in random.Random(asked).sample(cases, wanted) if wanted else cases:
        run.every_cut(times, [cut])
