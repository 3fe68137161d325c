"""The goals for pairs and for many watches of one score, each beside what was reached.

Everything runs on one core, in CPU time; ratios are of runs in turns over the same rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import skyband as sb
from benchmarks.harness.figures import Figure, number
from benchmarks.papers.shen.pairing import SCORES, Run, measure, question, table
from skyband.algorithms.arrivals import Arrivals
from skyband.algorithms.contract import FUSE_SCORES
from skyband.algorithms.pairs.pair_skyband import better
from skyband.algorithms.pairs.scase import expected
from skyband.algorithms.skyband.lazy import Lazy

RATE = 1e6  # rows a second are shown in millions
ROUNDS = 5


@dataclass(frozen=True)
class Sizes:
    n: int  # rows of a window
    k: int
    step: int
    steps: int
    large: int  # a long window
    lists: int  # one for sorted lists
    most: int  # the greatest k in a long window
    watches: int
    ks: tuple[int, int]  # of the watches
    windows: tuple[int, int]  # of the watches, as powers of two
    batch: int
    budget: float


SIZES = {
    "tiny": Sizes(60, 3, 2, 2, 120, 60, 5, 4, (2, 3), (3, 5), 8, 0.2),
    "quick": Sizes(10_000, 20, 500, 20, 1_000_000, 500_000, 100, 100, (50, 100), (13, 20), 1024, 1.0),
    "full": Sizes(10_000, 20, 500, 60, 1_000_000, 500_000, 100, 100, (50, 100), (13, 20), 1024, 5.0),
}


class Goals:
    """A figure whose points are goals, each with what was seen."""

    def __init__(self, scale: str) -> None:
        self.figure = Figure(
            "goals", "What was seen, as a share of what is allowed", "figure", "share",
            "of what is allowed", scale, form="bars", logarithmic=False,
        )  # fmt: skip

    def at_most(self, words: str, goal: float, seen: float) -> None:
        self.figure.add("one core", "seen", words, share=seen / goal, goal=goal, seen=seen, least=0.0)

    def at_least(self, words: str, goal: float, seen: float) -> None:
        self.figure.add("one core", "seen", words, share=goal / seen, goal=goal, seen=seen, least=1.0)


def beside(figure: Figure) -> list[list[str]]:
    """Return each goal, what was seen, and whether the goal is reached."""
    rows = [["figure to reach", "goal", "seen", "reached"]]
    for point in figure.points:
        word = "at least" if point.values["least"] else "at most"
        reached = "yes" if point.values["share"] <= 1 else "**no**"
        rows.append(
            [str(point.x), f"{word} {number(point.values['goal'])}", number(point.values["seen"]), reached]
        )
    return rows


def missed(figure: Figure) -> tuple[bool, str] | None:
    if not figure.points:
        return None
    short = [point for point in figure.points if point.values["share"] > 1]
    return not short, f"{len(figure.points) - len(short)} of {len(figure.points)}"


def goals(scale: str) -> list[Figure]:
    sizes = SIZES[scale]
    found = Goals(
        f"{scale}: N = {sizes.n:,}, K = {sizes.k}, d = 2 unless a line says otherwise, {sizes.steps} steps of "
        f"{sizes.step} rows; watches have k from {sizes.ks[0]} to {sizes.ks[1]} and windows from "
        f"2^{sizes.windows[0]} to 2^{sizes.windows[1]} rows, {sizes.batch:,} rows a step"
    )
    for part in (_scoring, _long_windows, _sorted_lists, _sizes, _watches):
        part(sizes, found)
    return [found.figure]


def _scoring(sizes: Sizes, found: Goals) -> None:
    """Compare the skyband with only scoring, the loops alone: after every row, without float32, and with `refresh = 4`,
    which keeps the K best in order after every row."""
    rows = table("uniform", sizes.n + (sizes.steps + 1) * sizes.step, 2)
    kinds = {
        "every row": (2.5, "the skyband after every row"),
        "every row, float64": (3.0, "the same in float64"),
        "refreshed": (2.0, "the K best after every row"),
    }
    amount = sizes.step, sizes.steps, sizes.budget
    for score in SCORES:
        times = measure((*kinds, "supreme"), question(score, 2), sizes.k, sizes.n, rows, amount)
        for kind, (goal, words) in kinds.items():
            ratio = times[kind]["kernels"] / times["supreme"]["kernels"]
            found.at_most(f"{score}: {words} / only scoring", goal, ratio)


def _long_windows(sizes: Sizes, found: Goals) -> None:
    """Measure a long window, which `ta` fills and scase continues, and snapshots of it."""
    asked, n = question("s2", 2), sizes.large
    spent = {}
    for rows_in in (n // 10, n):
        rows = table("uniform", rows_in + 4 * sizes.step, 2)
        first = Run("ta", asked, sizes.most, rows_in, rows)
        first.fill(step=max(2000, n // 20))
        run = Run("scase", asked, sizes.most, rows_in, rows)
        run.begin(first.algorithm.dump(), rows_in)
        run.push(sizes.step // 2)
        spent[rows_in] = min(run.push(sizes.step // 2) for _ in range(3))
    found.at_most(f"cost of a row at N = {n:,} / at a tenth of it", 12.5, spent[n] / spent[n // 10])
    good, older, newer = (np.array(column) for column in run.algorithm.pairs)
    slowest = 0.0
    for k in {1, max(1, sizes.most // 5), sizes.most}:
        for share in (1, 10, 1000):
            low, picks = run.algorithm.rows.next - n // share, np.empty(k, dtype=np.int64)
            asking = partial(better, good, older, newer, 0, len(good), low, k, picks)
            slowest = max(slowest, repeated(asking, 1000))
    words = f"slowest snapshot, K = {sizes.most}, N = {n:,}, µs"
    found.at_most(words, 20.0, 1e6 * slowest)


def repeated(call: Callable[[], Any], times: int) -> float:
    """Return the CPU seconds of a call, the median of several rounds."""
    call()
    rounds = []
    for _ in range(5):
        started = time.process_time()
        for _ in range(times):
            call()
        rounds.append((time.process_time() - started) / times)
    return float(np.median(rounds))


def _sorted_lists(sizes: Sizes, found: Goals) -> None:
    """Compare ta with scase in a window for which ta is made; measure how much of the window it reads."""
    n = sizes.lists
    for score in ("s1", "s2"):
        rows = table("uniform", n + 6 * sizes.step, 2)
        lists = Run("ta", question(score, 2), sizes.k, n, rows)
        lists.fill(step=max(2000, n // 20))
        scored = Run("scase", question(score, 2), sizes.k, n, rows)
        scored.begin(lists.algorithm.dump(), n)
        for run in (lists, scored):
            run.push(sizes.step // 2)
        before = lists.algorithm.counts["pairs accessed"]
        spent = [(lists.push(sizes.step // 2), scored.push(sizes.step // 2)) for _ in range(4)]
        met = lists.algorithm.counts["pairs accessed"] - before
        ours, theirs = np.median(spent, axis=0)
        found.at_least(f"{score}: scase / ta at N = {n:,}", 1.0, float(theirs / ours))
        if score == "s1":
            share = 100 * met / (4 * (sizes.step // 2) * n)
            found.at_most(f"{score}: pairs that ta looks at, % of N = {n:,}", 5.0, share)


def _sizes(sizes: Sizes, found: Goals) -> None:
    """Measure the mean size of the skyband along a stream."""
    run = Run("scase", question("s1", 2), sizes.k, sizes.n, table("uniform", 8 * sizes.n, 2))
    run.fill()
    kept = []
    for _ in range(60):
        run.push(max(1, 7 * sizes.n // 60 - 1))
        kept.append(run.algorithm.size(0)[0])
    off = 100 * abs(np.mean(kept) / expected(sizes.k, sizes.n) - 1)
    found.at_most("mean size of the skyband, % off its expectation", 2.0, float(off))


def _watches(sizes: Sizes, found: Goals) -> None:
    """Measure many watches of one score, each with a k and a window of its own, answered after every batch."""
    seen = watching("lazy", sizes)
    words = f"{sizes.watches} watches of one score, M rows/s"
    found.at_least(f"{words}: kernels", 5.0, seen.kernels)
    found.at_least(f"{words}: through Monitor.push", 2.0, seen.whole)


class Watching(NamedTuple):
    """Millions of rows a second: of the algorithm alone, and through Monitor.push; answers searched in a step."""

    kernels: float
    whole: float
    searched: float


def watching(algorithm: str, sizes: Sizes, repeats: int = 400) -> Watching:
    random = np.random.default_rng(4)
    monitor, spent = sb.Monitor(), [0.0]
    ks = np.linspace(*sizes.ks, sizes.watches).astype(int)
    windows = (2 ** np.linspace(*sizes.windows, sizes.watches)).astype(int)
    for i, (k, n) in enumerate(zip(random.permutation(ks).tolist(), windows.tolist(), strict=True)):
        using = "" if algorithm == "auto" else f"WITH (algorithm = '{algorithm}')"
        monitor.watch(f"SELECT x FROM s ORDER BY x + y DESC LIMIT {k} WINDOW {n} ROWS {using}", name=f"w{i}")

    def batch(size: int) -> dict[str, Any]:
        return {"x": random.random(size), "y": random.random(size)}

    for _ in range(0, 2 ** sizes.windows[1] + 1, 2**16):  # a full window, and what is compiled on the way
        monitor.push(batch(min(2**16, 2 ** sizes.windows[1])))
    for _ in range(10):
        monitor.push(batch(sizes.batch))
    (group,) = next(iter(monitor.streams.values())).groups
    group.algorithm.scored = FUSE_SCORES  # as later in a stream: generated code computes the scores
    monitor.push(batch(sizes.batch))
    batches = [batch(sizes.batch) for _ in range(min(repeats, 4 * sizes.steps * 5))]
    rounds = [batches[i::ROUNDS] for i in range(ROUNDS)]  # the median of several, since timings vary
    whole, kernels = [], []
    before = _searched(group.algorithm)
    for some in rounds:
        started = time.process_time()
        for rows in some:
            monitor.push(rows)
        whole.append((time.process_time() - started) / len(some))
    _timed(group.algorithm, spent)
    for some in rounds:
        spent[0] = 0.0
        for rows in some:
            monitor.push(rows)
        kernels.append(spent[0] / len(some))
    rows_in = sizes.batch / RATE
    searched = (_searched(group.algorithm) - before) / (2 * len(batches))
    return Watching(rows_in / float(np.median(kernels)), rows_in / float(np.median(whole)), searched)


def _searched(algorithm: Any) -> int:
    return algorithm.following.searched if isinstance(algorithm, Lazy) else 0


def _timed(algorithm: Any, spent: list[float]) -> None:
    """Add the time of the algorithm's own calls to `spent`."""
    for name in ("step", "report"):
        own = getattr(algorithm, name)

        def call(*args: Any, own: Any = own) -> Any:
            if isinstance(args[0], Arrivals):
                args[0].columns()  # the engine's work, not the algorithm's
            started = time.perf_counter()  # asking for the CPU time takes longer than a few rows do
            found = own(*args)
            spent[0] += time.perf_counter() - started
            return found

        setattr(algorithm, name, call)
