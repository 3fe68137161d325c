"""How far the planner's pick is from the fastest algorithm, and what algorithms cost.

A dozen workloads, from one query and one row a batch to a thousand queries and ten thousand rows, are run with every
algorithm that has a cost on its card and once with none named, all through Monitor.push, in turns on the same rows. The
*regret* of a workload is the time of the planner's pick, divided by that of the fastest, less one.

The second part measures what a batch costs each algorithm over a grid of sizes: the step and the comparison of the
tops, without what every watch costs alike. The predictions on the algorithms' cards are fitted to this table, which
has the prediction beside the measured cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.harness.claims import Beside, Book
from benchmarks.harness.drive import Pushed, Rows, race, rehearse, sql
from benchmarks.harness.figures import Figure, number
from benchmarks.harness.settings import Settings, parts_of
from benchmarks.streams.generators import DISTRIBUTIONS, DRIFTS, weights
from skyband.algorithms import REGISTRY, Workload
from skyband.core.errors import QueryError

SECONDS = {"tiny": 0.2, "quick": 1.5, "full": 5.0}  # CPU seconds for one algorithm's measured batches
MOST_CYCLES = {"tiny": 5, "quick": 200, "full": 1000}
SHRINK = {"tiny": 1000, "quick": 10, "full": 1}  # large windows are divided by this


WARM = 5  # batches that aren't timed


@dataclass(frozen=True)
class Case:
    """A workload: its queries, its window and its batches."""

    name: str
    q: int
    n: int
    r: int
    k: int = 20
    d: int = 4
    function: str = "linear"
    distribution: str = "IND"
    boxed: bool = False
    drift: int = 0  # in DRIFTS

    def texts(self, algorithm: str | None) -> list[str]:
        drawn = weights(self.q, self.d)
        asked = "" if algorithm is None else f" WITH (algorithm = '{algorithm}')"
        return [
            sql(self.function, weight, self.k, self.n, self._box(number), asked)
            for number, weight in enumerate(drawn)
        ]

    def _box(self, number: int) -> str:
        if not self.boxed:
            return ""
        low = np.random.default_rng(number).random(2) * 0.6
        sides = (f"x{j} BETWEEN {value:.6f} AND {value + 0.4:.6f}" for j, value in enumerate(low.tolist()))
        return f"WHERE {' AND '.join(sides)} "

    def workload(self) -> Workload:
        return Workload(self.q, self.k, self.n, self.r, self.d)

    def shrunk(self, by: int) -> Case:
        """Windows beyond 100,000 rows, and their batches, divided; tiny ones much more."""
        if by == 1:
            return self
        if by >= 1000:
            return replace(
                self, q=min(self.q, 3), n=60, r=min(self.r, 10), k=min(self.k, 3), d=min(self.d, 2)
            )
        large = self.n > 100_000
        return replace(self, n=self.n // by, r=max(1, self.r // by)) if large else self


CASES = (
    Case("one query, row by row", 1, 10_000, 1),
    Case("one query, small batches", 1, 100_000, 100),
    Case("one query, large batches", 1, 1_000_000, 10_000),
    Case("ten queries", 10, 100_000, 1_000),
    Case("ten queries, two columns", 10, 1_000_000, 10_000, d=2),
    Case("a hundred queries, row by row", 100, 10_000, 1),
    Case("a hundred queries", 100, 100_000, 1_000),
    Case("a hundred queries, large k", 100, 100_000, 1_000, k=100),
    Case("a hundred queries, anti-correlated", 100, 100_000, 1_000, distribution="ANT"),
    Case("a hundred queries, products", 100, 100_000, 1_000, function="product"),
    Case("a hundred queries, not monotone", 100, 100_000, 1_000, function="distance", d=2),
    Case("a hundred queries, each in its box", 100, 100_000, 1_000, boxed=True),
    Case("a hundred queries, falling scores", 100, 100_000, 1_000, drift=2),
    Case("a thousand queries, small window", 1_000, 1_000, 100),
    Case("a thousand queries, small batches", 1_000, 100_000, 10),
    Case("a thousand queries", 1_000, 1_000_000, 10_000),
    Case("a thousand queries, anti-correlated", 1_000, 1_000_000, 10_000, distribution="ANT"),
)


@dataclass
class Measured:
    """CPU seconds of each algorithm for a batch of a workload: of the push, and of the algorithm in it."""

    pushed: dict[str, float]
    within: dict[str, float]
    pick: str
    cycles: int


AUTO = "auto"


def candidates() -> list[str]:
    """Return the algorithms among which the planner chooses, which have a cost on their card, and `sa`."""
    return [
        name
        for name, kind in REGISTRY.items()
        if kind.card.exact and (kind.card.cost_of is not None or name == "sa")
    ]


def measure(case: Case, scale: str) -> Measured:
    """Run every algorithm that fits, and the planner's own pick, in turns on the same rows."""
    cycles = min(MOST_CYCLES[scale], max(10, 2 * case.n // case.r))
    drift = DRIFTS[case.drift]
    points = DISTRIBUTIONS[case.distribution](case.n + (WARM + cycles) * case.r, case.d, 31)
    rows = Rows(drift.apply(points, case.n))
    who = []
    for name in (*candidates(), None):
        try:
            each = Pushed(name or AUTO, case.texts(name))
        except QueryError:
            continue  # it can't answer this
        if name is not None and not getattr(REGISTRY[name], "spaced", False):
            # others need a monitor around them: they compile as they go
            rehearse(name, case.function, case.d)
        each.fill(rows, max(case.r, case.n // 20), case.n, begin=case.r)
        each.stopwatch()
        for cycle in range(WARM):  # what compiles late compiles here
            each.step(rows, case.n + cycle * case.r, case.n + (cycle + 1) * case.r)
        each.kernel.clear()
        who.append(each)
    spent = race(who, rows, case.n + WARM * case.r, case.r, cycles, SECONDS[scale])
    return Measured(
        {each.name: float(np.mean(spent[each.name].seconds)) for each in who},
        {each.name: float(np.mean(each.kernel)) for each in who},
        next(each.chosen() for each in who if each.name == AUTO),
        cycles,
    )


def some(least: int, most: int) -> Callable[[str], list[Figure]]:
    return lambda scale: picks(scale, least, most)


def picks(scale: str, least: int = 0, most: int = 1_000) -> list[Figure]:
    """Measure the workloads that have from `least` to `most` queries."""
    figure = Figure(
        "regret", "What a batch costs by algorithm, and the planner's pick", "workload", "mean", "µs a batch",
        f"{scale}: the sizes are in the table of workloads", times=1e6, form="dots",
    )  # fmt: skip
    for case in CASES if scale != "tiny" else CASES[6:12:2]:
        if not least <= case.q <= most:
            continue
        small = case.shrunk(SHRINK[scale])
        found = measure(small, scale)
        best = min(seconds for name, seconds in found.pushed.items() if name != AUTO)
        taken = found.pushed.get(found.pick, found.pushed[AUTO])
        for name, seconds in found.pushed.items():
            values = {"mean": seconds, "within": found.within[name], "times best": seconds / best}
            values |= {
                "q": small.q,
                "n": small.n,
                "r": small.r,
                "k": small.k,
                "d": small.d,
                "cycles": found.cycles,
            }
            if name == found.pick:
                values["picked"] = 1.0
            if name == AUTO:
                values["regret"] = taken / best - 1
            figure.add("", name, case.name, **values)
        print(f"  {case.name}: {found.pick}, {number(100 * (taken / best - 1))} % above the best", flush=True)
    return [figure]


# -- costs -----------------------------------------------------------------------------------------------------------


def grid(scale: str) -> Iterator[Case]:
    """Yield the sizes that costs are fitted to: all pairs of Q and r over two windows, then k and d alone."""
    windows = (10_000, 100_000) if scale != "full" else (10_000, 100_000, 1_000_000)
    for n in windows:
        for q in (1, 10, 100, 1_000):
            for r in (1, 100, 1_000, 10_000):
                if r <= n // 10:
                    yield Case("", q, n, r)
    for k in (1, 100):
        yield Case("", 100, 100_000, 1_000, k=k)
    for d in (2, 3, 6):
        yield Case("", 100, 100_000, 1_000, d=d)
    yield Case("", 100, 100_000, 1_000, distribution="ANT")


def costs(scale: str) -> list[Figure]:
    figure = Figure(
        "costs", "What a batch costs an algorithm, and what its card predicts", "sizes", "within", "µs a batch",
        f"{scale}: step and comparison of the tops, without the rest of Monitor.push", times=1e6, form="bars",
    )  # fmt: skip
    cases = list(grid(scale)) if scale != "tiny" else [Case("", 2, 60, 6, 3, 2)]
    for case in cases:
        found = measure(case, scale)
        name = f"{case.distribution} Q {case.q:,} N {case.n:,} r {case.r:,} k {case.k} d {case.d}"
        for who, seconds in found.within.items():
            if who == AUTO:
                continue
            values = {"within": seconds, "push": found.pushed[who]}
            values |= {"q": case.q, "n": case.n, "r": case.r, "k": case.k, "d": case.d}
            predicted = REGISTRY[who].card.cost_of
            if predicted is not None:
                values["predicted"] = predicted(case.workload())
            figure.add("", who, name, **values)
    return [figure]


PARTS: dict[str, Callable[[str], list[Figure]]] = {"picks": picks, "costs": costs}
FEWER = {"few": some(0, 99), "hundred": some(100, 999), "thousand": some(1_000, 1_000)}  # picks in parts


# -- text ------------------------------------------------------------------------------------------------------------


def table(figure: Figure) -> list[list[str]]:
    """Return a row for each workload: its sizes, the pick, the fastest and the regret."""
    rows = [["workload", "Q", "N", "r", "k", "d", "pick", "fastest", "regret"]]
    for x in figure.places():
        of = {p.series: p.values for p in figure.points if p.x == x}
        sizes = of[AUTO]
        picked = next((name for name, values in of.items() if values.get("picked")), AUTO)
        fastest = min((name for name in of if name != AUTO), key=lambda name: of[name]["mean"])
        cells = [f"{int(sizes[size]):,}" for size in ("q", "n", "r", "k", "d")]
        rows.append([str(x), *cells, picked, fastest, f"{100 * sizes['regret']:.0f} %"])
    return rows


def summary(figure: Figure) -> str:
    found = [100 * p.values["regret"] for p in figure.points if p.series == AUTO]
    best = sum(regret < 5 for regret in found)
    mean = 100 * (math.exp(float(np.mean([math.log1p(regret / 100) for regret in found]))) - 1)
    return (
        f"The pick is within 5 % of the fastest in {best} of {len(found)} workloads; "
        f"the geometric mean of the regret is {mean:.0f} %, the worst {max(found):.0f} %."
    )


def errors(figure: Figure) -> list[list[str]]:
    """Return how far the cards' predictions are from what was measured, as factors."""
    rows = [["predicted against measured cost", "off by (median)", "off by (worst)"]]
    for who in figure.series():
        ratios = [
            p.values["predicted"] / p.values["within"]
            for p in figure.points
            if p.series == who and p.values.get("predicted") and p.values["within"] > 0
        ]
        if ratios:
            off = np.exp(np.abs(np.log(ratios)))
            rows.append([who, f"{np.median(off):.1f} times", f"{np.max(off):.1f} times"])
    return rows


HEAD = """# planner: how far the pick is from the best

Written by `python -m benchmarks planner` from its own figures ([options](../benchmarks.md#options)).

Every workload runs with `sa`, with each algorithm that the planner knows the cost of and once with none named, in turns
on the same rows, through `Monitor.push`. Regret is the time of the pick above that of the fastest. An algorithm that
keeps the window's rows is taken only if it promises to be clearly faster than one that doesn't, for fewer than eight
queries four times as fast: memory has a price, too, so the regret of one query alone is intended. What that buys: a
state of k ln n rows, however long the window is, in memory and in every save, snapshot and checkpoint, and some seconds
less of compiling the first time. `explain` shows both speeds; `WITH (algorithm = 'heightmap')` takes the other.
"""


BOOK = Book(
    "planner",
    HEAD,
    (("regret", "What a batch costs by algorithm, and the planner's pick"),),
    beside={"regret": Beside(table, summary), "costs": Beside(errors)},
)


def main(settings: Settings) -> None:
    known = PARTS | FEWER
    parts = parts_of(settings, tuple(known)) if settings.only else tuple(PARTS)
    BOOK.publish(measured(parts, settings), settings)


def measured(parts: Sequence[str], settings: Settings) -> Iterator[Figure]:
    """Yield the figures of the parts; those of some workloads are joined with the others of the folder."""
    for part in parts:
        for figure in (PARTS | FEWER)[part](settings.scale):
            yield figure.joined(settings.output / "planner") if part in FEWER else figure
