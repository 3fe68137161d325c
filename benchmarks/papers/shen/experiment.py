"""The experiments of Shen, Cheema, Lin, Zhang and Wang on top-k pairs, measured again.

One parameter varies, the others stay: K = 20, two columns, the closest pairs by the sum of their differences, and the
window that the scale names. The algorithms alone are timed, in CPU time, in turns over the same rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import skyband as sb
from benchmarks.harness.figures import Figure
from benchmarks.harness.settings import Settings, parts_of
from benchmarks.papers.shen.goals import SIZES, goals, repeated, watching
from benchmarks.papers.shen.page import BOOK
from benchmarks.papers.shen.pairing import DATA, SCORES, YARDSTICKS, Run, at_once, measure, question, table
from skyband.algorithms.kernels.batch_tops import places_of
from skyband.algorithms.kernels.search_tree import SearchTree, best_first, tops_by_score
from skyband.algorithms.pairs.pair_skyband import better
from skyband.algorithms.pairs.scase import expected
from skyband.algorithms.skyband import incremental_tops as following
from skyband.core.types import Recency


@dataclass(frozen=True)
class Scale:
    name: str
    n: int
    k: int
    ks: tuple[int, ...]
    ns: tuple[int, ...]
    long: tuple[int, ...]  # windows for sorted lists
    step: int  # rows a step
    steps: int
    watches: tuple[int, ...]
    budget: float  # CPU seconds for one algorithm in one setting

    @property
    def sizes(self) -> tuple[int, int, float]:
        return self.step, self.steps, self.budget

    def __str__(self) -> str:
        return (
            f"{self.name}: N = {self.n:,}, K = {self.k}, d = 2, {self.steps} steps of {self.step} rows after the "
            "window is full"
        )


SCALES = {
    "tiny": Scale("tiny", 60, 3, (1, 3), (40, 60), (40, 60), 2, 2, (1, 3), 0.2),
    "quick": Scale(
        "quick", 10_000, 20, (1, 5, 10, 20, 50, 100), (1000, 5000, 10_000, 20_000), (10_000, 50_000, 200_000, 500_000),
        500, 8, (1, 10, 100), 1.0,
    ),
    "full": Scale(
        "full", 10_000, 20, (1, 5, 10, 20, 50, 100), (1000, 5000, 10_000, 50_000, 100_000),
        (10_000, 50_000, 100_000, 500_000, 1_000_000), 1000, 20, (1, 10, 100, 500), 10.0,
    ),
}  # fmt: skip

ALL = ("naive", "basic", "scase", "supreme")
LISTED = ("basic", "scase", "ta", "kd", "supreme")


def timed(name: str, title: str, x: str, scale: Scale, unit: str = "µs a row", **other: Any) -> Figure:
    return Figure(name, title, x, "mean", unit, str(scale), times=1e6, **other)


def _into(figure: Figure, panel: str, x: float | str, found: Mapping[str, Mapping[str, float]]) -> None:
    for name, values in found.items():
        figure.add(panel, name, x, **values)


def maintenance(scale: Scale) -> list[Figure]:
    by_k = timed("time-k", "CPU time of a row against K", "K", scale)
    by_n = timed("time-n", "CPU time of a row against the window", "N", scale)
    rows = table("uniform", max(scale.ns) + (scale.steps + 1) * scale.step, 2)
    for k in scale.ks:
        found = measure(ALL, question("s1", 2), k, scale.n, rows, scale.sizes)
        _into(by_k, "s1", k, found)
    for n in scale.ns:
        found = measure(ALL, question("s1", 2), scale.k, n, rows, scale.sizes)
        _into(by_n, "s1", n, found)
    return [by_k, by_n]


def scores(scale: Scale) -> list[Figure]:
    figure = timed(
        "time-scores", "CPU time of a row for the four scores", "score", scale, form="bars", logarithmic=False
    )
    rows = table("uniform", scale.n + (scale.steps + 1) * scale.step, 2)
    for score in SCORES:
        names = ("scase", "supreme")
        found = measure(names, question(score, 2), scale.k, scale.n, rows, scale.sizes)
        _into(figure, "d = 2", score, found)
    return [figure]


def lists(scale: Scale) -> Iterator[Figure]:
    """Measure sorted lists and a tree against scoring everything; `kd` fills the window, since it is the quickest."""
    by_n = timed(
        "time-lists", "CPU time of a row: sorted lists and a tree against scoring the window", "N", scale
    )
    met = Figure(
        "accessed", "Share of the window that is looked at", "N", "accessed", "%", str(scale), times=100.0
    )
    for n in scale.long:
        rows = table("uniform", n + 2 * (scale.steps + 1) * scale.step, 2)
        for score in ("s1", "s2", "s3", "metric"):
            found = _long(question(score, 2), n, rows, scale)
            _into(by_n, score, n, found)
            for name in ("ta", "kd"):
                met.add(score, name, n, accessed=found[name]["accessed"])
    yield by_n
    yield met
    by_d = timed("time-d", "CPU time of a row against the dimensions", "d", scale)
    for data in DATA:
        for d in (2, 3) if scale.name == "tiny" else (2, 3, 4):
            rows = table(data, scale.n + (scale.steps + 1) * scale.step, d)
            found = measure(LISTED, question("s1", d), scale.k, scale.n, rows, scale.sizes)
            _into(by_d, data, d, found)
    yield by_d
    by_k = timed("time-lists-k", "CPU time of a row against K", "K", scale)
    rows = table("uniform", scale.n + (scale.steps + 1) * scale.step, 2)
    for k in (scale.ks[0], scale.k, scale.ks[-1]):
        _into(by_k, "s1", k, measure(LISTED, question("s1", 2), k, scale.n, rows, scale.sizes))
    yield by_k


def _long(asked: Any, n: int, rows: Any, scale: Scale) -> dict[str, dict[str, float]]:
    """Fill the window by kd; the others continue from its state."""
    first = Run("kd", asked, scale.k, n, rows)
    first.fill(step=max(2000, n // 20))
    first.push(scale.step)
    state = first.algorithm.dump()
    found = {}
    for name in ("kd", "ta", "scase", "supreme"):
        run = first
        if name != "kd":
            run = Run(name, asked, scale.k, n, rows)
            run.begin(state, n + scale.step)
            run.push(scale.step)
        began = run.algorithm.counts.get("pairs accessed", 0)
        spent: list[float] = []
        while len(spent) < scale.steps and sum(spent) * scale.step < scale.budget:
            spent.append(run.push(scale.step) / scale.step)
        met = run.algorithm.counts.get("pairs accessed", 0) - began
        found[name] = {"mean": float(np.median(spent)), "accessed": met / (len(spent) * scale.step * n)}
    return found


def sizes(scale: Scale) -> list[Figure]:
    """Tables 2 and 3: measure the mean size of the skyband along a stream, beside the exact expectation."""
    by_k = Figure("sizes-k", "Pairs in the skyband", "K", "mean", "pairs", str(scale), logarithmic=True)
    by_n = Figure("sizes-n", "Pairs in the skyband", "N", "mean", "pairs", str(scale), logarithmic=False)
    memory = Figure(
        "memory", "Memory of the state", "N", "bytes", "MB", str(scale), times=2.0**-20, logarithmic=False
    )
    looks = 4 if scale.name == "tiny" else 60
    for figure, places in (
        (by_k, [(k, k, scale.n) for k in scale.ks]),
        (by_n, [(n, scale.k, n) for n in scale.ns]),
    ):
        for x, k, n in places:
            rows = table("uniform", 4 * n, 2)
            run = Run("scase", question("s1", 2), k, n, rows)
            run.fill()
            kept = []
            for _ in range(looks):
                run.push(max(1, 3 * n // looks - 1))
                kept.append(run.algorithm.size(0)[0])
            figure.add("uniform", "measured", x, mean=float(np.mean(kept)))
            figure.add("uniform", "expected", x, mean=expected(k, n))
            if figure is by_n:
                rows_alone = 8 * 6 * n  # six fields of eight bytes: the paper's lower bound
                memory.add("uniform", "scase", n, bytes=float(run.algorithm.size(0)[1]))
                memory.add("uniform", "the rows alone", n, bytes=float(rows_alone))
                memory.add("uniform", "naive", n, bytes=float(rows_alone + 16 * k * n))
    return [by_k, by_n, memory]


def snapshots(scale: Scale) -> list[Figure]:
    """Measure answers of any k and window: a priority search tree against a walk of the skyband."""
    figure = timed("snapshots", "CPU time of a snapshot against k", "k", scale, "µs an answer")
    most = max(scale.ks)
    run = Run("scase", question("s1", 2), most, scale.n, table("uniform", 2 * scale.n, 2))
    run.fill()
    good, older, newer = (np.array(column) for column in run.algorithm.pairs)
    tree = SearchTree(good)
    again = 3 if scale.name == "tiny" else 300
    for share, words in ((1, "the whole window"), (10, "a tenth of it")):
        low = run.algorithm.rows.next - scale.n // share
        first = int(np.searchsorted(older, low))
        for k in scale.ks:
            picks = np.empty(k, dtype=np.int64)
            tree.top(k, first)
            better(good, older, newer, 0, len(good), low, k, picks)
            started = time.process_time()
            for _ in range(again):
                tree.top(k, first)
            middle = time.process_time()
            for _ in range(again):
                better(good, older, newer, 0, len(good), low, k, picks)
            ended = time.process_time()
            assert np.array_equal(tree.top(k, first), picks[: len(tree.top(k, first))])
            figure.add(words, "tree", k, mean=(middle - started) / again)
            figure.add(words, "walk", k, mean=(ended - middle) / again)
    return [figure]


def batch(scale: Scale) -> list[Figure]:
    """Measure answers for many k and windows: all together by one walk by recency or one scan by score (Algorithm 7),
    or each alone by a walk or by a search tree."""
    figure = timed(
        "batch",
        "CPU time of an answer against how many are asked for at once",
        "answers",
        scale,
        "µs an answer",
    )
    most, n, random = max(scale.ks), scale.n, np.random.default_rng(3)
    run = Run("scase", question("s1", 2), most, n, table("uniform", 2 * n, 2))
    run.fill()
    good, older, newer = (np.array(column) for column in run.algorithm.pairs)
    whole, tree, end = slice(0, len(good)), SearchTree(good), run.algorithm.rows.next
    for count in (1, 4) if scale.name == "tiny" else (1, 10, 100, 1000):
        ks = random.integers(1, most + 1, count)
        edges = np.stack(
            [end - random.integers(n // 10, n + 1, count), np.zeros(count, dtype=np.int64)], axis=1
        )
        picks, firsts = np.empty(most, dtype=np.int64), np.searchsorted(older, edges[:, 0])
        asked = [*zip(ks.tolist(), edges[:, 0].tolist(), firsts.tolist(), strict=True)]
        ways: dict[str, Callable[[], Any]] = {
            "one walk": partial(places_of, good, older, older, whole, ks, edges),
            "Algorithm 7": partial(tree.tops, ks, firsts),
            "Algorithm 7, sorting first": lambda ks=ks, firsts=firsts: tops_by_score(  # type: ignore[misc]
                best_first(good), ks, firsts
            ),
            "walk each": lambda asked=asked, picks=picks: [  # type: ignore[misc]
                better(good, older, newer, 0, len(good), low, k, picks[:k]) for k, low, _ in asked
            ],
            "tree each": lambda asked=asked: [tree.top(k, first) for k, _, first in asked],  # type: ignore[misc]
        }
        right = [places.tolist() for places in ways["tree each"]()]
        for name in ("one walk", "Algorithm 7", "Algorithm 7, sorting first"):
            assert [places.tolist() for places in ways[name]()] == right
        for name, way in ways.items():
            figure.add("any k and window", name, count, mean=repeated(way, max(1, 300 // count)) / count)
    return [figure]


def asked_for(scale: Scale) -> list[Figure]:
    """Measure a row with one continuous query of a k and a window, from a state for the greatest K and N."""
    most, n = max(scale.ks), scale.n
    state_for = f"from a state for K = {most}"
    by_k = timed(
        "time-asked-k",
        f"CPU time of a row with an answer after each step, {state_for}, against its k",
        "k",
        scale,
    )
    by_n = timed(
        "time-asked-n",
        f"CPU time of a row with an answer after each step, {state_for}, against its window",
        "n",
        scale,
    )
    rows = table("uniform", scale.n + (scale.steps + 2) * scale.step, 2)
    places = [(by_k, k, k, n) for k in scale.ks]
    places += [(by_n, share * n // 10, scale.k, share * n // 10) for share in (1, 2, 5, 10)]
    first = Run("scase", question("s1", 2), most, n, rows)
    first.fill()
    state = first.algorithm.dump()
    for name in ("naive", "scase", "supreme"):
        step = max(1, scale.step // 100) if name in YARDSTICKS else scale.step
        run = Run(name, question("s1", 2), most, n, rows)
        run.begin(state, n)
        run.push(step)
        pushed, answered = [], []
        for _ in range(min(scale.steps, 3 if name in YARDSTICKS else 8)):
            pushed.append(run.push(step) / step)
            answered.append([_answered(run, k, window) for _, _, k, window in places])
        for (figure, x, _, _), answer in zip(places, np.median(answered, axis=0), strict=True):
            figure.add("s1", name, x, mean=float(np.median(pushed) + answer / scale.step))
    return [by_k, by_n]


def _answered(run: Run, k: int, window: int) -> float:
    """Return the CPU seconds of an answer."""
    started = time.process_time()
    run.algorithm.best(k, Recency(0, run.at - window))
    return time.process_time() - started


def continuous(scale: Scale) -> list[Figure]:
    """Measure many watches of one score: of pairs, and of rows by lazy, ra and sma, through the whole engine."""
    pairs = timed(
        "continuous",
        "CPU time of a row of pairs against the number of watches of one score",
        "watches",
        scale,
    )
    rows = timed(
        "objects", "CPU time of a row of objects against the number of watches of one score", "watches", scale
    )
    for count in scale.watches:
        taken = _engine(
            "SELECT a.x FROM s a, s b ORDER BY abs(a.x - b.x) + abs(a.y - b.y)", "scase", count, scale
        )
        pairs.add("through Monitor.push", "scase", count, mean=taken)
        for name in ("lazy", "ra", "sma"):
            taken = _engine(
                "SELECT x FROM s ORDER BY x + y DESC", name, count, scale, 1024 if scale.n > 100 else 8
            )
            rows.add("through Monitor.push", name, count, mean=taken)
    return [pairs, rows]


def _engine(select: str, algorithm: str, watches: int, scale: Scale, step: int | None = None) -> float:
    random = np.random.default_rng(8)
    monitor = sb.Monitor()
    step = step or scale.step
    for number in range(watches):
        k, n = int(random.integers(1, scale.k + 1)), int(random.integers(scale.n // 8, scale.n + 1))
        monitor.watch(
            f"{select} LIMIT {k} WINDOW {n} ROWS WITH (algorithm = '{algorithm}')", name=f"w{number}"
        )
    for _ in range(0, scale.n, max(step, scale.n // 4)):
        monitor.push(
            {"x": random.random(max(step, scale.n // 4)), "y": random.random(max(step, scale.n // 4))}
        )
    spent: list[float] = []
    while len(spent) < scale.steps + 2 and sum(spent[2:]) < scale.budget:
        batch = {"x": random.random(step), "y": random.random(step)}
        with at_once():
            started = time.process_time()
            monitor.push(batch)
            spent.append(time.process_time() - started)
    return float(np.mean(spent[2:])) / step  # the first two compile


def spare(scale: Scale) -> list[Figure]:
    """Measure answers that follow the rows: with k ranks alone, and with spare ranks."""
    sizes = SIZES[scale.name]
    words = (
        f"{scale.name}: {sizes.watches} watches of one score, k from {sizes.ks[0]} to {sizes.ks[1]}, windows from "
        f"2^{sizes.windows[0]} to 2^{sizes.windows[1]} rows, {sizes.batch:,} rows a step"
    )
    rates = Figure("spare", "Rows a second of many watches, by the ranks that are kept for each", "ranks kept", "rate",
                   "M rows/s", words, form="bars", logarithmic=False)  # fmt: skip
    searched = Figure("searched", "Answers that had to be searched for, by the ranks that are kept for each",
                      "ranks kept", "mean", "answers a step", words, form="bars", logarithmic=False)  # fmt: skip
    own = following.ranks_held
    for name, held in (("k", lambda ks: ks), ("k + k / 2 + 8", own)):
        following.ranks_held = held
        try:
            seen = watching("lazy", sizes)
        finally:
            following.ranks_held = own
        rates.add("kernels", "lazy", name, rate=seen.kernels)
        rates.add("through Monitor.push", "lazy", name, rate=seen.whole)
        searched.add("lazy", "lazy", name, mean=seen.searched)
    return [rates, searched]


def late(scale: Scale) -> list[Figure]:
    """Measure late rows: their cost, and how many of their pairs matter, by how late they are."""
    figure = timed("late", "CPU time of a row against the share of late rows", "late rows, %", scale)
    shortcut = Figure(
        "late-shortcut", "Late rows that leave the skyband as it is, by their age", "age in rows", "mean", "%",
        str(scale), times=100.0, logarithmic=False,
    )  # fmt: skip
    dear = timed("late-cost", "CPU time of a row, by its age", "age in rows", scale, "µs a row", form="bars")
    falling = Figure(
        "late-pairs",
        "Pairs of a late row that matter, by its age",
        "age in rows",
        "mean",
        "pairs a row",
        str(scale),
    )
    n = scale.n
    total = n + (scale.steps + 1) * scale.step
    rows, random = table("uniform", 2 * total + 2100, 2), np.random.default_rng(6)
    for share in (0, 10, 50):
        times = 10 * np.arange(2 * total) - (random.random(2 * total) < share / 100) * random.integers(
            0, 5 * n, 2 * total
        )
        run = Run("scase", question("s1", 2), scale.k, n, rows)
        run.fill(times, max(2, scale.step // 5) if share else 2000)
        spent = [run.push(scale.step, times) / scale.step for _ in range(scale.steps)]
        figure.add("s1", "scase", share, mean=float(np.mean(spent)))
    for age in (1, n // 100, n // 10, n // 2):
        # rows in order, but every tenth is `age` rows late
        times = 10 * np.arange(total)
        chosen = np.arange(n // 2, total, 10)
        times[chosen] -= 10 * age + 5
        run = Run("scase", question("s1", 2), scale.k, n, rows)
        while run.at < total:
            run.push(min(scale.step, total - run.at), times)
        counts = run.algorithm.counts
        mean = counts["above the staircase of late rows"] / max(1, counts["late rows"])
        falling.add("s1", "scase", max(1, age), mean=mean)
        unmoved = counts["late rows without a sweep"] / max(1, counts["late rows"])
        shortcut.add("s1", "scase", max(1, age), mean=unmoved)
        for late_by in (0, age) if age == 1 else (age,):  # for comparison rows in order
            for size, words in ((1, "one row a step"), (50 if n > 100 else 2, "fifty rows a step")):
                taken, times = _aged(run, times, late_by, size, 20 if n > 100 else 2)
                dear.add("s1", words, late_by, mean=taken)
    return [figure, falling, shortcut, dear]


def _aged(run: Run, times: Any, late_by: int, size: int, steps: int) -> tuple[float, Any]:
    """Return the CPU seconds of a row in steps of rows that are `late_by` rows late, and the times of all rows."""
    spent = []
    for _ in range(steps):
        now = times.max()
        own = np.full(size, now - 10 * late_by + 5) if late_by else now + 10 * np.arange(1, size + 1)
        times = np.append(times, own)
        spent.append(run.push(size, times) / size)
    return float(np.median(spent)), times


def colours(scale: Scale) -> list[Figure]:
    figure = timed("colours", "CPU time of a row against the number of colours", "colours", scale)
    for count in (1, 2) if scale.name == "tiny" else (1, 10, 100, 1000):
        rows = table("uniform", scale.n + (scale.steps + 1) * scale.step, 2, count)
        for words, where in (("any", None), ("a.c = b.c", "a.c = b.c"), ("a.c <> b.c", "a.c <> b.c")):
            asked = question("s1", 2, where)
            found = measure(("scase",), asked, scale.k, scale.n, rows, scale.sizes)
            figure.add("scase", words, count, **found["scase"])
    return [figure]


PARTS: Mapping[str, Callable[[Scale], Iterable[Figure]]] = {
    "goals": lambda scale: goals(scale.name),
    "maintenance": maintenance,
    "scores": scores,
    "asked": asked_for,
    "snapshots": snapshots,
    "batch": batch,
    "continuous": continuous,
    "spare": spare,
    "colours": colours,
    "sizes": sizes,
    "late": late,
    "lists": lists,
}


def main(settings: Settings) -> None:
    scale = SCALES[settings.scale]
    asked = parts_of(settings, tuple(PARTS))
    measured = (figure for part in PARTS if part in asked for figure in PARTS[part](scale))
    BOOK.publish(measured, settings)
