"""`heightmap` head to head: against one copy of the rows, against `sma`, on streams whose level moves.

The yardstick is a lower bound for every algorithm that keeps the window's rows: one memcpy of a batch as a row-major
block into a ring of the window's size. Beside it, in turns and on the same rows, run the kernels alone (as in drive.py)
and the whole way through Monitor.push, with an Arrow table in and the change table out. The goals are shown beside what
was reached; a goal is reached if every distribution reaches it in the mean over all seeds.

Means and 99th percentiles are over whole windows that pass after the first is full: five of them at the full scale.
Less is too short to see lists run empty, which is what makes such engines slow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.harness.claims import Book
from benchmarks.harness.drive import (
    PAPER_SMA,
    TUNED_SMA,
    Competitor,
    Copy,
    Engine,
    Own,
    Pushed,
    Queries,
    Rows,
    Spent,
    joined,
    prepare,
    race,
    sql,
)
from benchmarks.harness.figures import Figure, Scale, number
from benchmarks.harness.settings import Settings, parts_of
from benchmarks.harness.sizes import held
from benchmarks.streams.generators import DISTRIBUTIONS, DRIFTS, LEVEL, Drift, weights
from skyband.algorithms import REGISTRY
from skyband.core.errors import InputError

SCALES = {
    "tiny": Scale("tiny", 600, 60, 4, 3, 3, 6, (21,)),
    "quick": Scale("quick", 1_000_000, 10_000, 1_000, 20, 4, 100, (21,)),
    "full": Scale("full", 1_000_000, 10_000, 1_000, 20, 4, 500, (21, 22, 23)),
}
BUDGET = {"tiny": 1.0, "quick": 5.0, "full": 60.0}
WARM = 5  # cycles after the queries have come that aren't counted
WHO = "heightmap"
EVERYTHING = "all arrays, for a window row"
DATA = tuple(DISTRIBUTIONS)
PUSH = "heightmap, push"
EACH = "heightmap, a family each"


def engine(name: str, scale: Scale, rows: Rows, label: str = "", **options: float) -> Engine:
    """Return an algorithm with its queries on a full window."""
    queries = Queries.of("linear", scale.q, scale.d, scale.k)
    made = prepare(name, options, queries, scale.n, label)
    made.fill(rows, scale.r)
    return made


def pushed(scale: Scale, rows: Rows) -> Pushed:
    drawn = weights(scale.q, scale.d)
    asked = f" WITH (algorithm = '{WHO}')"
    made = Pushed(PUSH, [sql("linear", weight, scale.k, scale.n, options=asked) for weight in drawn])
    made.fill(rows, scale.r, scale.n)
    made.stopwatch()
    return made


def stream(scale: Scale, distribution: str, seed: int, drift: Drift = LEVEL) -> Rows:
    points = DISTRIBUTIONS[distribution](scale.n + (WARM + scale.cycles) * scale.r, scale.d, seed)
    return Rows(drift.apply(points, scale.n, still=scale.n))


def run(who: Sequence[Competitor], rows: Rows, scale: Scale, seed: int, turn: int = 1) -> dict[str, Spent]:
    """Run all cycles of the scale, after a few that aren't counted."""
    warm, cycles = WARM, scale.cycles + WARM
    return race(who, rows, scale.n, scale.r, cycles, BUDGET[scale.name], warm=warm, turn=turn, seed=seed)


def figure_of(name: str, title: str, x: str, scale: Scale, **changes: object) -> Figure:
    figure = Figure(name, title, x, "mean", "µs a cycle", f"{scale.name}: {scale}", times=1e6)
    for key, value in changes.items():
        setattr(figure, key, value)
    return figure


# -- the parts -------------------------------------------------------------------------------------------------------


def against_copy(scale: Scale, distributions: Sequence[str] = DATA) -> list[Figure]:
    """Measure kernels and push beside the copy, each pair apart: a third contestant in the caches would slow all."""
    figure = figure_of("copy", "One cycle beside one memcpy of its rows", "seed", scale, form="dots")
    for distribution in distributions:
        for seed in scale.seeds:
            rows = stream(scale, distribution, seed)
            for make in (lambda: engine(WHO, scale, rows), lambda: pushed(scale, rows)):  # noqa: B023
                copy, who = Copy(scale.n, scale.d), make()
                copy.fill(rows)
                spent = run([copy, who], rows, scale, seed)
                # the copy's median: other work on the machine must not lengthen the yardstick
                one = float(np.median(spent[copy.name].seconds))
                own = spent[who.name].values()
                own |= {"copies": own["mean"] / one, "copies, median": own["median"] / one}
                if who.name == WHO:
                    figure.add(distribution, copy.name, f"seed {seed}", **spent[copy.name].values())
                if isinstance(who, Pushed):
                    own["within"] = float(np.mean(who.kernel[WARM:]))
                figure.add(distribution, who.name, f"seed {seed}", **own)
    return [figure]


def against_sma(scale: Scale, distributions: Sequence[str] = DATA) -> list[Figure]:
    figure = figure_of("sma", "heightmap against sma, in turns", "seed", scale, form="dots")
    for distribution in distributions:
        for seed in scale.seeds:
            rows = stream(scale, distribution, seed)
            who = [engine(WHO, scale, rows)]
            if "sma" in REGISTRY:
                who += [
                    engine(each.algorithm, scale, rows, each.name, **dict(each.options))
                    for each in (PAPER_SMA, TUNED_SMA)
                ]
            spent = run(who, rows, scale, seed)
            for each in who:
                values = spent[each.name].values()
                values["rows a second"] = scale.r / values["mean"]
                figure.add(distribution, each.name, f"seed {seed}", **values)
    return [figure]


def over_drift(scale: Scale, distributions: Sequence[str] = DATA) -> list[Figure]:
    """Measure each drifting stream in turns with the same rows without drift."""
    figure = figure_of("drift", "Cost of a drifting stream against a level one", "stream", scale, form="bars")
    figure.y, figure.times, figure.unit = "times level", 1.0, "times the cost without drift"
    sudden = figure_of(
        "drift-p99", "99th percentile of a cycle on drifting streams", "stream", scale, form="dots"
    )
    sudden.y = "p99"
    drifts = DRIFTS if scale.name != "tiny" else (LEVEL, DRIFTS[2], DRIFTS[7])
    for distribution in distributions:
        for drift in drifts[1:]:
            parts: dict[str, list[Spent]] = {LEVEL.name: [], drift.name: []}
            for seed in scale.seeds:
                streams = [stream(scale, distribution, seed, each) for each in (LEVEL, drift)]
                who = [
                    Own(each.name, engine(WHO, scale, rows), rows)
                    for each, rows in zip((LEVEL, drift), streams, strict=True)
                ]
                for name, spent in run(who, streams[0], scale, seed, turn=5).items():
                    parts[name].append(spent)
            level, moved = joined(parts[LEVEL.name]).values(), joined(parts[drift.name]).values()
            moved["times level"] = moved["mean"] / level["mean"]
            moved["times median"] = moved["median"] / level["median"]
            for each in (figure, sudden):
                each.add(distribution, WHO, drift.name, **moved)
    return [figure, sudden]


def over_queries(scale: Scale, distributions: Sequence[str] = DATA) -> list[Figure]:
    figure = figure_of("queries", "Cost of a cycle against the number of queries", "Q", scale)
    figure.scale = figure.scale.replace(f"Q = {scale.q:,}, ", "")
    places = (1, 4) if scale.name == "tiny" else (1, 10, 100, 1_000, 10_000)
    for distribution in distributions:
        parts: dict[int, list[Spent]] = {q: [] for q in places}
        for seed in scale.seeds:
            rows = stream(scale, distribution, seed)
            who = [engine(WHO, replace(scale, q=q), rows, f"Q = {q}") for q in places]
            for q, spent in zip(places, run(who, rows, scale, seed, turn=5).values(), strict=True):
                parts[q].append(spent)
        for q in places:
            figure.add(distribution, WHO, q, **joined(parts[q]).values())
    return [figure]


def over_bytes(scale: Scale, distributions: Sequence[str] = DATA) -> list[Figure]:
    """Measure bytes of a window row, of a query and of all arrays at the end of the run, level and under drift."""
    figure = figure_of("bytes", "Bytes of a window row and of a query", "of", scale, form="dots")
    figure.y, figure.unit, figure.times = "bytes", "bytes", 1.0
    for distribution in distributions:
        for drift in (LEVEL, DRIFTS[2], DRIFTS[3]):
            rows = stream(scale, distribution, scale.seeds[0], drift)
            who = engine(WHO, scale, rows)
            run([who], rows, scale, scale.seeds[0])
            stored = who.algorithm.window_size()[0]
            figure.add(distribution, drift.name, "a window row", bytes=who.window_bytes() / max(1, stored))
            figure.add(distribution, drift.name, "a query", bytes=who.list_bytes() / scale.q)
            figure.add(distribution, drift.name, EVERYTHING, bytes=held(who.algorithm) / scale.n)
    return [figure]


def boxed(scale: Scale, n: int, q: int, side: float, who: str) -> Pushed:
    """Return queries with a box each, of this side along every axis, at random places of the unit cube."""
    random = np.random.default_rng(5)
    texts = []
    for place, weight in enumerate(weights(q, scale.d)):
        low = random.random(scale.d) * (1 - side)
        ends = (f"x{j} BETWEEN {value:.6f} AND {value + side:.6f}" for j, value in enumerate(low.tolist()))
        name, options = (
            (WHO, f", cells = {32768 - place}") if who == EACH else (who, "")
        )  # options divide families
        asked = f" WITH (algorithm = '{name}'{options})"
        texts.append(sql("linear", weight, scale.k, n, f"WHERE {' AND '.join(ends)} ", asked))
    return Pushed(who, texts)


def over_boxes(scale: Scale, distributions: Sequence[str] = DATA) -> list[Figure]:
    """Measure constrained queries through Monitor.push: one family with a map, sma, and a family for each query if so
    many windows fit into memory."""
    figure = figure_of("boxes", "Queries with a box each", "", scale, form="dots")
    figure.scale = (
        f"{scale.name}: k = {scale.k}, d = {scale.d}, batches of a hundredth of the window, 60 of them"
    )
    tiny = scale.name == "tiny"
    sizes = ((600, 4),) if tiny else ((100_000, 100), (100_000, 1_000), (1_000_000, 100), (1_000_000, 1_000))
    for distribution in distributions:
        for n, q in sizes:
            r, cycles = n // 100, 6 if tiny else 60
            rows = Rows(DISTRIBUTIONS[distribution](n + (WARM + cycles) * r, scale.d, scale.seeds[0]))
            for side in (0.1, 0.3, 0.6):
                who = [boxed(scale, n, q, side, WHO), boxed(scale, n, q, side, "sma")]
                if n * q <= 10_000_000:
                    who.append(boxed(scale, n, q, side, EACH))
                for each in who:
                    each.fill(rows, n // 20, n)
                    each.stopwatch()
                spent = race(who, rows, n, r, WARM + cycles, 2 * BUDGET[scale.name], warm=WARM)
                for each in who:
                    values = spent[each.name].values() | {"within": float(np.mean(each.kernel[WARM:]))}
                    label = f"N = {n:,}, Q = {q:,}, side {side:.0%}".replace("%", " %")
                    figure.add(distribution, each.name, label, **values)
    return [figure]


PARTS: Mapping[str, Callable[..., list[Figure]]] = {
    "copy": against_copy,
    "sma": against_sma,
    "drift": over_drift,
    "queries": over_queries,
    "bytes": over_bytes,
    "boxes": over_boxes,
}


SEEDED = ("copy", "sma")  # parts with a figure for each seed


# -- goals -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Goal:
    """A value to reach: the figure it is read from, its bound, and whether it may be at most or at least that."""

    words: str
    figure: str
    bound: float
    reached: Callable[[Figure, str], float | None]  # of a distribution; the mean over seeds
    at_most: bool = True
    only: str | None = None  # a distribution


def mean_of(figure: Figure, panel: str, series: str, name: str) -> float | None:
    found = [figure.value(panel, series, x, name) for x in figure.places(panel)]
    values = [value for value in found if value is not None]
    return float(np.mean(values)) if values else None


def of(series: str, name: str) -> Callable[[Figure, str], float | None]:
    return lambda figure, panel: mean_of(figure, panel, series, name)


def quotient(
    upper: str, lower: str, over: str = "mean", under: str = "mean"
) -> Callable[[Figure, str], float | None]:
    def reached(figure: Figure, panel: str) -> float | None:
        above, below = mean_of(figure, panel, upper, over), mean_of(figure, panel, lower, under)
        return None if above is None or below is None else above / below

    return reached


def at(place: str, name: str, series: str = WHO) -> Callable[[Figure, str], float | None]:
    return lambda figure, panel: figure.value(panel, series, place, name)


def growth(figure: Figure, panel: str) -> float | None:
    """Return the exponent of Q between 100 and 10,000."""
    few, many = figure.value(panel, WHO, 100), figure.value(panel, WHO, 10_000)
    return None if few is None or many is None else math.log(many / few) / math.log(100)


def rate(figure: Figure, panel: str) -> float | None:
    found = mean_of(figure, panel, "sma", "rows a second")
    return None if found is None else found / 1e6


GOALS = (
    Goal("kernels, in copies of the rows", "copy", 6, of(WHO, "copies")),
    Goal("the same, as the aim has it", "copy", 3, of(WHO, "copies")),
    Goal("Monitor.push, in copies of the rows", "copy", 10, of(PUSH, "copies")),
    Goal("kernels, a median cycle in copies", "copy", 6, of(WHO, "copies, median")),
    Goal("push, a median cycle in copies", "copy", 10, of(PUSH, "copies, median")),
    Goal("kernels: p99 of a cycle, in medians", "copy", 3, quotient(WHO, WHO, "p99", "median")),
    Goal("push: p99 of a cycle, in medians", "copy", 3, quotient(PUSH, PUSH, "p99", "median")),
    Goal("times as fast as sma, tuned", "sma", 3, quotient(TUNED_SMA.name, WHO), at_most=False),
    Goal("times as fast as sma", "sma", 6, quotient(PAPER_SMA.name, WHO), at_most=False, only="IND"),
    Goal("sma itself, million rows a second", "sma", 7, rate, at_most=False, only="IND"),
    *(
        Goal(f"cost of a stream that {drift.name}, against level", "drift", bound, at(drift.name, "times level"))
        for drift, bound in zip(
            [d for d in DRIFTS if d is not LEVEL and not d.name.startswith("rises")],
            (3, 10, 10, 10, 10, 10, 10),
            strict=True,
        )
    ),
    Goal("cost against Q from 100 to 10,000: exponent", "queries", 1, growth),
    Goal("bytes of a window row", "bytes", 32, at("a window row", "bytes", LEVEL.name)),
    Goal("bytes of a query", "bytes", 2048, at("a query", "bytes", LEVEL.name)),
    # Of a thousand queries over a million rows: 32 for each row, and 2 KB for each query.
    Goal("bytes of all arrays together, for a window row", "bytes", 34.05, at(EVERYTHING, "bytes", LEVEL.name)),
)  # fmt: skip


def goals(figures: Mapping[str, Figure]) -> list[list[str]]:
    """Return a table of targets beside what was reached; a goal is missed if a distribution misses it."""
    rows = [["goal", "target", *DISTRIBUTIONS, ""]]
    for goal in GOALS:
        figure = figures.get(goal.figure)
        cells, verdicts = [], []
        for panel in DISTRIBUTIONS:
            value = None
            if figure is not None and goal.only in (None, panel):
                value = goal.reached(figure, panel)
            cells.append("–" if value is None else number(value))
            if value is not None:
                verdicts.append(value <= goal.bound if goal.at_most else value >= goal.bound)
        word = "not measured" if not verdicts else "reached" if all(verdicts) else "**missed**"
        rows.append([goal.words, f"{'≤' if goal.at_most else '≥'} {goal.bound:,}", *cells, word])
    return rows


# -- the page --------------------------------------------------------------------------------------------------------

HEAD = """# heightmap: head to head

Written by `python -m benchmarks heightmap` from its own figures ([options](../benchmarks.md#options)).

A *copy* is one memcpy of a batch's rows as a row-major block into a ring of the window's size. It runs in turns with
the algorithm; the median copy counts, so that other work on the machine doesn't lengthen the yardstick. *Kernels* are
the algorithm alone, *push* is the whole way through `Monitor.push` with an Arrow table in and the change table out.
Times are CPU time; a figure is the mean over all cycles and seeds. The first five cycles after the queries came aren't
counted: part of the work for new queries is done there.

Drifting streams drift in all cycles that count. At the full scale these are five windows, in which every list is
rebuilt several times; one window (`quick`) shows little of that and costs less. Most cycles are cheap there, and some
take many milliseconds, because many lists run short at the same time.
"""


BOOK = Book(
    "heightmap",
    HEAD,
    (
        ("copy", "Against one copy of the rows"),
        ("sma", "Against sma"),
        ("drift", "Drifting streams"),
        ("drift-p99", ""),
        ("queries", "The number of queries"),
        ("bytes", "Memory"),
        ("boxes", "Queries with a box each"),
    ),
    goals=goals,
)


def main(settings: Settings) -> None:
    if WHO not in REGISTRY:
        raise InputError(f"This version has no algorithm {WHO}: there is nothing to measure.")
    scale = SCALES[settings.scale]
    # each part can be measured by halves, and those with a figure for each seed by seeds
    halves = [f"{part}-{panel}" for part in PARTS for panel in DATA]
    pieces = [f"{half}-{seed}" for half in halves if half.split("-")[0] in SEEDED for seed in scale.seeds]
    parts = parts_of(settings, (*PARTS, *halves, *pieces)) if settings.only else tuple(PARTS)
    BOOK.publish(measured(parts, scale, settings.output / "heightmap"), settings)


def measured(parts: Sequence[str], scale: Scale, folder: Path) -> Iterator[Figure]:
    """Yield the figures of the parts, joined with those of the folder."""
    for name in parts:
        part, panel, seed = (*name.split("-"), "", "")[:3]
        of_part = replace(scale, seeds=(int(seed),)) if seed else scale
        for figure in PARTS[part](of_part, (panel,) if panel else DATA):
            figure.scale = f"{scale.name}: {scale}" if seed else figure.scale
            yield figure.joined(folder)
