"""The experiments of Mouratidis, Bakiras and Papadias (SIGMOD 2006, section 8), measured again.

One parameter varies, the others stay at their defaults: the dimensions, the window (with a hundredth of it arriving in
each cycle), the arrival rate, the number of queries, k, the grid, and two functions that are not linear. The window
is full before the queries come, as in the paper: an algorithm that begins with an empty window never has to recompute.
`tsl`, `tma` and `sma` are the paper's; `heightmap` and `ra` run beside them on the same rows.

What is timed is the algorithms alone (see drive.py), in turns, for as many cycles as the paper has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.harness.drive import (
    PAPER_SMA,
    TUNED_SMA,
    Competitor,
    Contestant,
    Engine,
    Queries,
    Rows,
    Spent,
    agree,
    joined,
    prepare,
    race,
)
from benchmarks.harness.figures import Figure, Scale
from benchmarks.harness.settings import Settings, parts_of
from benchmarks.papers.mouratidis.page import BOOK
from benchmarks.streams.generators import DISTRIBUTIONS
from skyband.algorithms import REGISTRY

SCALES = {
    "tiny": Scale("tiny", 400, 40, 4, 3, 2, 4, (3,)),
    "quick": Scale("quick", 100_000, 1_000, 100, 20, 4, 100, (3,)),
    "full": Scale("full", 1_000_000, 10_000, 1_000, 20, 4, 100, (3,)),
}
BUDGET = {"tiny": 1.0, "quick": 2.0, "full": 12.0}  # CPU seconds for one algorithm in one setting


CONTESTANTS = (
    Contestant("tsl", "tsl"),
    Contestant("tma", "tma"),
    PAPER_SMA,
    TUNED_SMA,
    Contestant("heightmap", "heightmap"),
    Contestant("ra", "ra"),
)
WARM = 3  # first cycles that count as part of the opening
KS = {"tiny": (1, 3), "quick": (1, 5, 10, 20, 50, 100), "full": (1, 5, 10, 20, 50, 100)}
GRIDDED = ("tma", "sma")  # the paper's


def contestants(function: str = "linear", names: Sequence[str] = ()) -> list[Contestant]:
    """Return the contestants that exist and can answer such a function."""
    wanted = ("any",) if function == "distance" else ("any", "monotone")
    return [
        who
        for who in CONTESTANTS
        if (not names or who.name in names)
        and who.algorithm in REGISTRY
        and REGISTRY[who.algorithm].card.scores in wanted
    ]


def measure(
    scale: Scale, distribution: str, who: Sequence[Contestant], function: str = "linear"
) -> dict[str, dict[str, float]]:
    """Measure one setting: each contestant's cycles, sizes and bytes, over all seeds."""
    spent: dict[str, list[Spent]] = {each.name: [] for each in who}
    beside: dict[str, list[dict[str, float]]] = {each.name: [] for each in who}
    for seed in scale.seeds:
        rows = Rows(DISTRIBUTIONS[distribution](scale.n + (WARM + scale.cycles) * scale.r, scale.d, seed))
        queries = Queries.of(function, scale.q, scale.d, scale.k, seed + 4)
        engines = [prepare(each.algorithm, dict(each.options), queries, scale.n, each.name) for each in who]
        for engine in engines:
            engine.fill(rows, max(scale.r, 1_000))
        began = {engine.name: engine.counters() for engine in engines}
        cycles = race(
            engines,
            rows,
            scale.n,
            scale.r,
            WARM + scale.cycles,
            BUDGET[scale.name] / len(scale.seeds),
            kept,
            warm=WARM,
            seed=seed,
        )
        agree([e for e in engines if not cycles[e.name].stopped], scale.n + (WARM + scale.cycles) * scale.r)
        for engine in engines:
            spent[engine.name].append(cycles[engine.name])
            beside[engine.name].append(aside(engine, began[engine.name], cycles[engine.name]))
    found = {}
    for name, parts in spent.items():
        values = joined(parts).values()
        for key in beside[name][0]:
            values[key] = float(np.mean([part[key] for part in beside[name]]))
        found[name] = values
    return found


def kept(engine: Competitor) -> float:
    assert isinstance(engine, Engine)
    return engine.kept()


def aside(engine: Engine, began: Mapping[str, int], spent: Spent) -> dict[str, float]:
    """Return what is reported of an algorithm beside its times: sizes, bytes, and its counters for each cycle."""
    values = {
        "kept": float(np.mean(spent.looked)),
        "list bytes": float(engine.list_bytes()),
        "window bytes": float(engine.window_bytes()),
        "opening": engine.opening + spent.settling,
    }
    values["bytes"] = values["list bytes"] + values["window bytes"]
    for name, count in engine.counters().items():
        values[f"{name} a cycle"] = (count - began.get(name, 0)) / max(1, len(spent.looked))
    return values


def sweep(
    figures: Sequence[Figure],
    places: Sequence[int],
    at: Callable[[int], Scale],
    function: str = "linear",
    distributions: Sequence[str] = ("IND", "ANT"),
    who: Callable[[int], Sequence[Contestant]] | None = None,
) -> None:
    """Measure along an axis; all figures get all values, and each shows one of them."""
    for distribution in distributions:
        for x in places:
            here = contestants(function) if who is None else who(x)
            for name, values in measure(at(x), distribution, here, function).items():
                for figure in figures:
                    figure.add(distribution, name, x, **values)


# -- the parts -------------------------------------------------------------------------------------------------------


def over_d(scale: Scale) -> list[Figure]:
    figure = timed("time-d", "CPU time of a cycle against the dimensions", "d", scale)
    sweep([figure], (2, 3) if scale.name == "tiny" else (2, 3, 4, 5, 6), lambda d: replace(scale, d=d))
    return [figure]


def over_n(scale: Scale) -> list[Figure]:
    figure = timed("time-n", "CPU time of a cycle against the window, r = N / 100", "N", scale)
    figure.scale = figure.scale.replace(f"r = {scale.r:,}", "r = N / 100")
    places = [scale.n * times for times in ((1, 2) if scale.name == "tiny" else (1, 2, 3, 4, 5))]
    sweep([figure], places, lambda n: replace(scale, n=n, r=max(1, n // 100)))
    return [figure]


def over_r(scale: Scale) -> list[Figure]:
    figure = timed("time-r", "CPU time of a cycle against the arrival rate", "r", scale)
    parts = (10,) if scale.name == "tiny" else (1000, 200, 100, 20, 10)
    sweep([figure], [scale.n // part for part in parts], lambda r: replace(scale, r=r))
    return [figure]


def over_q(scale: Scale) -> list[Figure]:
    figure = timed("time-q", "CPU time of a cycle against the number of queries", "Q", scale)
    places = (2, 4) if scale.name == "tiny" else [scale.q * tenths // 10 for tenths in (1, 5, 10, 20, 50)]
    sweep([figure], places, lambda q: replace(scale, q=q))
    return [figure]


def over_k(scale: Scale) -> list[Figure]:
    """Measure time and space in one run."""
    time = timed("time-k", "CPU time of a cycle against k", "k", scale)
    space = Figure("space-k", "Space against k", "k", "bytes", "MB", time.scale, times=1e-6)
    sweep([time, space], KS[scale.name], lambda k: replace(scale, k=k))
    return [time, space]


def sizes(scale: Scale) -> list[Figure]:
    """Measure views and skybands over several streams, since the queries of one stream share their best rows."""
    scale = replace(scale, q=min(scale.q, 100), seeds=(3,) if scale.name == "tiny" else (3, 4, 5, 6, 7))
    words = timed("", "", "k", scale).scale
    figure = Figure(
        "sizes-k", "Rows in a query's list against k", "k", "kept", "rows", words, logarithmic=False
    )
    sweep(
        [figure],
        KS[scale.name],
        lambda k: replace(scale, k=k),
        who=lambda _: contestants(names=("tsl", "sma")),
    )
    return [figure]


def over_grid(scale: Scale) -> list[Figure]:
    time = timed("time-grid", "CPU time of a cycle against the grid", "intervals on each axis", scale)
    space = Figure(
        "space-grid", "Space against the grid", "intervals on each axis", "bytes", "MB", time.scale, times=1e-6,
        logarithmic=False,
    )  # fmt: skip
    places = (2, 4) if scale.name == "tiny" else range(5, 16)

    def gridded(intervals: int) -> list[Contestant]:
        return [
            replace(who, options=(*who.options, ("cells", float(intervals))))
            for who in contestants(names=GRIDDED)
            if "cells" in REGISTRY[who.algorithm].card.options
        ]

    sweep([time, space], places, lambda _: scale, distributions=("IND",), who=gridded)
    return [time, space]


def over_functions(scale: Scale) -> list[Figure]:
    figures = []
    for function, words in (("product", "the product of (a + x)"), ("squares", "the sum of a·x²")):
        figure = timed(f"time-{function}", f"CPU time of a cycle against the dimensions: {words}", "d", scale)
        places = (2,) if scale.name == "tiny" else (2, 3, 4, 5, 6)
        sweep([figure], places, lambda d: replace(scale, d=d), function)
        figures.append(figure)
    return figures


def timed(name: str, title: str, x: str, scale: Scale) -> Figure:
    words = str(scale)
    letter = {"intervals on each axis": "", "d": f"d = {scale.d}, "}.get(x)
    if letter is None:
        sizes = {"N": scale.n, "r": scale.r, "Q": scale.q, "k": scale.k}
        letter = f"{x} = {sizes[x]:,}, "
    words = words.replace(letter, "") if letter else words
    return Figure(name, title, x, "mean", "ms a cycle", f"{scale.name}: {words}", times=1e3)


PARTS: Mapping[str, Callable[[Scale], list[Figure]]] = {
    "grid": over_grid,
    "d": over_d,
    "n": over_n,
    "r": over_r,
    "q": over_q,
    "k": over_k,
    "sizes": sizes,
    "functions": over_functions,
}


def main(settings: Settings) -> None:
    scale = SCALES[settings.scale]
    measured = (figure for part in parts_of(settings, tuple(PARTS)) for figure in PARTS[part](scale))
    BOOK.publish(measured, settings)
