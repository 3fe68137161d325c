"""How often `pa` is wrong (Figure 8), over runs with seeds of their own, and how often it reports that it may be.

In a run the exact `ra` and `pa` get the same rows. After each batch their answers are compared, as the change tables
give them. A row is *missed* if it belongs in an answer and isn't there, because `pa` has dropped it; it counts once,
however long or often. The calibrated error is the expectation of these (algorithms/kernels/capacity.py). A row *shown
in error* is in the place of a missed row and never belonged in the answer.

Misses count from the third window on: while the first window fills up, rows have fewer older rows to be dropped behind,
and the last of these rows leaves at the end of the second window. Wrong answers, and whether one of them was certified,
count from the first row on: a certificate has to be right at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness.drive import Contestant, Pushed, Rows
from benchmarks.harness.figures import Figure
from benchmarks.papers.pripuzic.settings import (
    CLUSTERED,
    SHUFFLED,
    UNIFORM,
    Table9,
    datasets,
    points_of,
    queries,
)
from skyband.algorithms.kernels.capacity import limit_for
from skyband.core.types import Ints
from skyband.engine.approximate_group import Approximate

ERROR = 0.1  # large enough to see
SETTLING = 2  # windows of a run before misses count
RUNS = {"tiny": (2, 3), "quick": (20, 8), "full": (50, 20)}  # and windows of each after these
SEQ_BITS = 40  # of a key that has the query above them


@dataclass(frozen=True)
class Run:
    """The counts of one run."""

    missed: float  # rows, for a query and n rows
    false: float  # shown in error, likewise
    answers: int
    certified: int  # of these
    wrong: int
    wrong_certified: int


def errors(size: Table9) -> list[Figure]:
    """Figure 8: rows that pa missed and rows that it showed in error, against `ra`."""
    runs, windows = RUNS[size.name]
    size = replace(size, n=min(size.n, 1_000), u=min(size.u, 100), r=20)
    figure = Figure(
        "errors", f"Misses of pa at error = {ERROR}, in n rows", "k", "count", "a query and n rows",
        f"{size.name}: n = {size.n:,}, {size.u} queries, batches of {size.r} rows, means of {runs} runs "
        f"of {windows} windows after the first {SETTLING}, each run with a seed of its own",
        logarithmic=False,
    )  # fmt: skip
    ks = [k for k in size.ks if k in (1, 3, 9, 81)]
    calibrated = {k: misses_in(size.n, k, k + limit_for(k, ERROR)) for k in ks}
    for dataset in datasets(size, UNIFORM, CLUSTERED, SHUFFLED):
        for k in ks:
            # a run draws its queries with the seed after that of its rows: no two runs have one in common
            seeds = range(11, 11 + 100 * runs, 100)
            found = [run(replace(size, k=k), dataset, ERROR, windows, seed) for seed in seeds]
            figure.add(dataset, "missed", k, **misses_of(found, calibrated[k]))
            figure.add(dataset, "shown in error", k, count=float(np.mean([each.false for each in found])))
            figure.add(dataset, "stated error", k, count=ERROR)
            figure.add(dataset, "calibrated error", k, count=calibrated[k])
    return [figure]


def misses_in(n: int, k: int, capacity: int) -> float:
    """Return the expected misses of a list of the `capacity` best, for windows of some thousand rows.

    Where k is a large part of n, they are fewer than `capacity.misses` says.
    """
    c = capacity
    log = np.cumsum(np.log(np.maximum(np.arange(2 * n), 1.0)))  # of factorials
    reach = min(n, 4 * c + 200)  # with more ups or downs than that hardly a path ends among the first k
    total = 0.0
    for p in range(reach):
        q, both = np.ogrid[: min(n - p, reach), : min(n - p, reach)]
        start, end = p + both, q + both
        twice = p + q + np.minimum(end, 2 * (k - 1) - end) - np.maximum(start, 2 * c - start)
        q, both = np.nonzero((twice >= 0) & (p + q + both < n))
        half, better = twice[q, both] // 2, p + q + 2 * both
        ways = log[n - 1] + log[better] + log[2 * n - 2 - better] - log[both] - log[n - 1 - p - q - both]
        total += float(np.exp(ways - log[2 * n - 1] - log[half] - log[p + q - half]).sum())
    return n * total


def misses_of(runs: Sequence[Run], calibrated: float) -> dict[str, float]:
    """Return the misses of the runs, as rows and as parts of the calibrated error: their mean and its standard error,
    the lowest and the highest run; and the answers of all runs."""
    parts = np.array([each.missed for each in runs]) / calibrated
    return {
        "count": float(np.mean(parts)) * calibrated,
        "runs": float(len(runs)),
        "ratio": float(np.mean(parts)),
        "deviation": float(np.std(parts, ddof=1)) / len(runs) ** 0.5,
        "lowest": float(np.min(parts)),
        "highest": float(np.max(parts)),
        "answers": float(sum(each.answers for each in runs)),
        "certified": sum(each.certified for each in runs) / sum(each.answers for each in runs),
        "wrong": float(sum(each.wrong for each in runs)),
        "wrong and certified": float(sum(each.wrong_certified for each in runs)),
    }


def run(size: Table9, dataset: str, error: float, windows: int, seed: int) -> Run:
    """Run `ra` and `pa` over the same rows and compare their answers after each batch."""
    points = points_of(dataset, size, (SETTLING + windows) * size.n, seed)
    rows = Rows(points)
    exact = Pushed("ra", queries(points, Contestant("ra", "ra"), size, seed))
    loose = Pushed("pa", queries(points, Contestant("pa", "pa", (("error", error),)), size, seed))
    apart: dict[int, int] = {}  # query and row: 1 in the exact answer only, -1 in pa's only
    true: list[Ints] = []  # what entered the exact answers
    missed, shown = First(), First()
    sure = np.zeros(size.u, dtype=np.int64)
    wrong = wrong_certified = 0
    for first in range(0, len(rows), size.r):
        table = rows.table(first, min(first + size.r, len(rows)))
        ours, theirs = (Moves.of(each.monitor.push(table)) for each in (exact, loose))
        true.append(ours.keys[ours.signs > 0])
        for key, sign in ours.without(theirs):
            apart[key] = apart.get(key, 0) + sign
            if not apart[key]:
                del apart[key]
        missed.see(first, (key for key, sign in apart.items() if sign > 0))
        shown.see(first, (key for key, sign in apart.items() if sign < 0))
        (group,) = families(loose)
        before, sure = sure, group.shares[:, 0].copy()
        for query in {key >> SEQ_BITS for key in apart}:
            wrong += 1
            # certified by the count of certified answers, or by the watch
            wrong_certified += bool(
                sure[query] > before[query] or loose.monitor.watches[f"q{query}"].certified
            )
    certified, answers = group.shares.sum(axis=0).tolist()
    begin, times = SETTLING * size.n, size.u * windows
    false = np.setdiff1d(shown.since(begin), np.concatenate(true))
    return Run(
        len(missed.since(begin)) / times, len(false) / times, answers, certified, wrong, wrong_certified
    )


class First(dict[int, int]):
    """The row at which each key was seen first."""

    def see(self, at: int, keys: Iterable[int]) -> None:
        for key in keys:
            self.setdefault(key, at)

    def since(self, begin: int) -> list[int]:
        return [key for key, at in self.items() if at >= begin]


class Moves(NamedTuple):
    """A change table: query and row as one number, and 1 if it enters, -1 if it leaves."""

    keys: Ints
    signs: Ints

    @staticmethod
    def of(table: Any) -> Moves:
        query = decoded(table["query"], lambda name: int(name[1:]))
        signs = decoded(table["change"], lambda change: 1 if change == "enter" else -1)
        return Moves(query << SEQ_BITS | table["seq"].to_numpy(), signs)

    def without(self, other: Moves) -> Iterator[tuple[int, int]]:
        """Yield what differs: 1 is a row more than the other one has, -1 a row less. Most changes are the same in both,
        so these take no Python."""
        keys, place = np.unique(np.concatenate([self.keys, other.keys]), return_inverse=True)
        sums = np.bincount(place, weights=np.concatenate([self.signs, -other.signs]), minlength=len(keys))
        for at in np.flatnonzero(sums).tolist():
            yield int(keys[at]), int(sums[at])


def decoded(column: Any, value: Callable[[str], int]) -> Ints:
    """Return a dictionary column as numbers; `value` is called once for each word."""
    words = column.combine_chunks()
    numbers = np.array([value(word) for word in words.dictionary.to_pylist()], dtype=np.int64)
    found: Ints = numbers[words.indices.to_numpy()]
    return found


def families(engine: Pushed) -> list[Approximate]:
    groups = [group for stream in engine.monitor.streams.values() for group in stream.groups]
    return [group for group in groups if isinstance(group, Approximate)]


def certified(
    size: Table9, dataset: str, error: float, windows: int, option: tuple[str, float], seed: int = 11
) -> float:
    """Return the share of certified answers."""
    points = points_of(dataset, size, (1 + windows) * size.n, seed)
    rows = Rows(points)
    loose = Pushed("pa", queries(points, Contestant("pa", "pa", (("error", error), option)), size, seed))
    for first in range(0, len(rows), size.r):
        loose.monitor.push(rows.table(first, min(first + size.r, len(rows))))
    (group,) = families(loose)
    sure, answers = group.shares.sum(axis=0).tolist()
    return float(sure / answers)
