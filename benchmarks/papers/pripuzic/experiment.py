"""The experiments of Pripužić, Podnar Žarko and Aberer (TODS 2015, section 8), measured again.

Nearest neighbours over a window of rows: u points, drawn from the data, ask for the k rows nearest to them. One
parameter varies, the others stay at Table IX's defaults. The data is uniform, clustered, sensor readings in random
order, or the same readings in order of time, where each is much like the one before: the hard case. The readings are
generated unless a file is named (`--data`): then they are columns of that file (harness/readings.py), in its order, as
with the SensorScope file that the paper reads. The parts with readings are then measured on these alone, as figures of
their own.

All algorithms get the same batches through Monitor.push, in turns. What is reported is the CPU time of the algorithms
alone, as in the paper. The paper's engine takes one row at a time, this one a batch; part `r` shows the difference.
(`snn` takes a batch row by row, and its lists are right after each row.) `rapf2` is `rapf` with the longest safe
buffer, half of the window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from benchmarks.harness.drive import LEAST, Contestant, Pushed, Rows, Spent, race
from benchmarks.harness.figures import Figure
from benchmarks.harness.settings import Settings, parts_of
from benchmarks.papers.pripuzic.errors import certified, errors
from benchmarks.papers.pripuzic.page import BOOK, OF_FILE
from benchmarks.papers.pripuzic.settings import (
    CLUSTERED,
    CORRELATED,
    READINGS,
    SCALES,
    SHUFFLED,
    UNIFORM,
    Table9,
    datasets,
    points_of,
    queries,
)
from benchmarks.streams.generators import sensors
from skyband.core.errors import SkybandError
from skyband.core.types import Floats

SIX = ("sasf", "sarf", "sapf", "rasf", "rarf", "rapf")
RAPF2 = Contestant("rapf2", "rapf", (("buffer", 0.5),))
UNINDEXED = (("cells", 1.0),)
# of filters: rows taken in, and regions entered in the index; and rows taken into the skyband
WORK = ("filtered", "entered", "admitted")
COUNTED = ("searches", *WORK)  # for each row that comes, and each query
WARM = 3
MOMENT, MOMENTS = 50, 20  # for what is kept: rows of a batch at most, and moments
SHORT_TURN = (
    5  # batches of a turn if two streams are compared: other work on the machine changes within seconds
)
TURN = (
    20  # batches of a turn for rows a second: in shorter ones every algorithm would begin with empty caches
)


# -- a race ------------------------------------------------------------------------------------------------------------


def engine(who: Contestant, size: Table9, points: Floats, rows: Rows, seed: int) -> Pushed:
    """Return an algorithm with its queries on a full window."""
    made = Pushed(who.name, queries(points, who, size, seed))
    made.fill(rows, max(size.r, 200), size.n)
    made.stopwatch()
    return made


@cache
def rehearse(algorithm: str, options: tuple[tuple[str, float], ...], d: int) -> None:
    """Load an algorithm's kernels, by a short run that isn't timed, on rows in time, so that lists run short."""
    size = Table9("", 1_000, 20, 3, d, 50, 100, 15)
    given = tuple((name, min(value, 50.0)) if name == "buffer" else (name, value) for name, value in options)
    rows = Rows(sensors(size.n + size.batches * size.r, d, 1))
    made = engine(Contestant(algorithm, algorithm, given), size, rows.points, rows, 1)
    for first in range(size.n, len(rows), size.r):
        made.step(rows, first, first + size.r)


def measure(
    size: Table9, dataset: str, who: Sequence[Contestant], seed: int = 11, turn: int = 1
) -> dict[str, dict[str, float]]:
    """Measure one setting: the CPU time of each algorithm for a row, and what it keeps; in turns of `turn` batches."""
    rows_needed = size.n + (WARM + size.batches) * size.r
    points = points_of(dataset, size, rows_needed, seed)
    rows = Rows(points)
    for each in who:
        rehearse(each.algorithm, each.options, size.d)
    engines = [engine(each, size, points, rows, seed) for each in who]
    before = [totals(each) for each in engines]
    spent = race(
        engines, rows, size.n, size.r, WARM + size.batches, size.budget, warm=WARM, turn=turn, seed=seed
    )
    exact = [e for e, each in zip(engines, who, strict=True) if each.algorithm != "pa"]
    alike([e for e in exact if not spent[e.name].stopped])
    return {
        each.name: values_of(each, spent[each.name], size, start)
        for each, start in zip(engines, before, strict=True)
    }


def totals(engine: Pushed) -> dict[str, int]:
    """Return what an algorithm has counted so far, over all queries."""
    (algorithm,) = engine.algorithms()
    found: dict[str, int] = {}
    for slot in np.flatnonzero(algorithm.ks).tolist():
        for name, count in algorithm.counters(slot).items():
            found[name] = found.get(name, 0) + count
    index = getattr(algorithm, "index", None)
    found["entered"] = 0 if index is None else index.entered
    return found


def values_of(engine: Pushed, spent: Spent, size: Table9, before: Mapping[str, int]) -> dict[str, float]:
    (algorithm,) = engine.algorithms()
    slots = np.flatnonzero(algorithm.ks).tolist()
    met = WARM + len(spent.seconds)
    values = {
        "mean": float(np.mean(engine.kernel[WARM:])) / size.r,
        "push": float(np.mean(spent.seconds)) / size.r,
        "references": float(np.mean([algorithm.size(slot)[0] for slot in slots])),
        "objects": len(np.unique(algorithm.seqs())) / size.u,
        "cycles": float(len(spent.seconds)),
    }
    for name, count in totals(engine).items():
        if name in COUNTED:
            values[name] = (count - before[name]) / (met * size.r) / len(slots)
    if spent.stopped:
        values["stopped"] = 1.0
    return values


def alike(engines: Sequence[Pushed]) -> None:
    """Check that the exact algorithms have the same answers: wrong answers have no figures."""
    for name in ("q0", "q1", "q2"):
        answers = {each.name: each.monitor.watches[name].top()["seq"].to_pylist() for each in engines}
        if len(set(map(tuple, answers.values()))) > 1:
            raise SkybandError(
                f"The algorithms have different answers to query {name} ({', '.join(answers)}): one of them is wrong, "
                "report it with this command."
            )


def named(*names: str) -> list[Contestant]:
    return [RAPF2 if name == "rapf2" else Contestant(name, name) for name in names]


def with_options(who: Sequence[Contestant], size: Table9, *more: tuple[str, float]) -> list[Contestant]:
    """Return the contestants with the buffer of the setting, and with those further options that they know."""
    from skyband.algorithms import REGISTRY

    found = []
    for each in who:
        known = REGISTRY[each.algorithm].card.options
        options = dict(each.options)
        if "buffer" in known:
            options.setdefault("buffer", float(size.b))
        options.update({name: value for name, value in more if name in known})
        found.append(replace(each, options=tuple(options.items())))
    return found


def sweep(
    figures: Sequence[Figure],
    dataset: str,
    places: Sequence[float],
    at: Callable[[float], tuple[Table9, Sequence[Contestant]]],
    panel: str = "",
) -> None:
    for x in places:
        size, who = at(x)
        for name, values in measure(size, dataset, who).items():
            for figure in figures:
                if figure.y in values:
                    figure.add(panel or dataset, name, x, **values)


def timed(name: str, title: str, x: str, scale: str) -> Figure:
    return Figure(name, title, x, "mean", "µs a row", scale, times=1e6)


# -- the parts ---------------------------------------------------------------------------------------------------------


def over_data(size: Table9) -> list[Figure]:
    """Figure 9: the cost against k for the four kinds of data."""
    figure = timed("data-k", "CPU time of a row against k, by data", "k", size.words("k"))
    for dataset in datasets(size, UNIFORM, CLUSTERED, SHUFFLED, CORRELATED):
        exact = named("rapf", "rapf2", "sasf", "cpm", "snn", "ra")
        who = exact if dataset == CORRELATED else [*named("pa"), *exact]
        sweep([figure], dataset, size.ks, lambda k, who=who: at_k(size, int(k), who))  # type: ignore[misc]
    return [figure]


def at_k(
    size: Table9, k: int, who: Sequence[Contestant], *more: tuple[str, float]
) -> tuple[Table9, list[Contestant]]:
    size = replace(size, k=k)
    return size, with_options(who, size, *more)


def over_index(dataset: str) -> Callable[[Table9], list[Figure]]:
    """Figure 10: all of them, with and without the index over the queries."""

    def measured(size: Table9) -> list[Figure]:
        size = size if size.name == "tiny" else replace(size, d=4, u=size.u // 2)
        name = dataset.split(",")[0]
        figure = timed(f"index-{name}", f"CPU time of a row against k: {dataset}", "k", size.words("k"))
        who, filters = named("pa", "sa", "ra", *SIX), named(*SIX, "snn")
        sweep([figure], dataset, size.ks, lambda k: at_k(size, int(k), who, *UNINDEXED), "no index")
        sweep([figure], dataset, size.ks, lambda k: at_k(size, int(k), filters), "index")
        return [figure]

    return measured


@dataclass(frozen=True)
class Parameter:
    """One parameter that varies: its letter, its name in the title, its places, and the setting at a place."""

    letter: str
    title: str
    places: Callable[[Table9], Sequence[float]]
    at: Callable[[Table9, float], tuple[Table9, Sequence[Contestant]]]

    def __call__(self, size: Table9) -> list[Figure]:
        """Uniform data, d = 4."""
        tiny = size.name == "tiny"
        size = size if tiny else replace(size, d=4)
        name = f"over-{'cells' if self.letter == 'intervals' else self.letter}"
        figure = timed(name, f"CPU time of a row against {self.title}", self.letter, size.words(self.letter))
        places = self.places(size)
        sweep([figure], UNIFORM, places[:2] if tiny else places, lambda x: self.at(size, x))
        return [figure]


def sized(size: Table9, **changed: int) -> tuple[Table9, Sequence[Contestant]]:
    other = replace(size, **changed)  # type: ignore[arg-type]
    return other, with_options(named(*COMMON), other)


COMMON = ("pa", "ra", "sasf", "rarf", "sapf", "rapf", "snn")
PARAMETERS = {  # Figure 11: one parameter after the other
    "d": Parameter("d", "the dimensions", lambda _: (2, 4, 6, 8, 10), lambda size, d: sized(size, d=int(d))),
    "cells": Parameter(
        "intervals", "the index's intervals on each axis", lambda _: (2, 4, 6, 8, 10, 12, 16),
        lambda size, c: (size, with_options(named("sasf", "rapf", "rarf", "sapf", "snn", "cpm"), size, ("cells", c))),
    ),
    "u": Parameter(
        "u", "the number of queries", lambda size: [size.u * m // 4 for m in (1, 2, 4, 8, 16)],
        lambda size, u: sized(size, u=int(u)),
    ),
    "b": Parameter(
        "b", "the buffer", lambda size: [size.n // m for m in (80, 40, 20, 8, 4, 2)],
        lambda size, b: (size, [replace(c, options=(("buffer", b),)) for c in named(*SIX)]),
    ),
    "gamma": Parameter(
        "gamma", "the pruning coefficient", lambda _: (0.0, 0.1, 0.2, 0.5, 1.0),
        lambda size, g: (size, with_options(named("ra", "rasf", "rarf", "rapf"), size, ("gamma", g))),
    ),
    "n": Parameter(
        "n", "the window", lambda size: [size.n * m // 4 for m in (1, 2, 4, 8)], lambda size, n: sized(size, n=int(n))
    ),
    "r": Parameter(
        "r", "the batch", lambda _: (10, 100, 1_000, 4_000, 16_000),
        lambda size, r: in_batches(size, int(r), named(*COMMON)),
    ),
}  # fmt: skip


def rates(size: Table9) -> list[Figure]:
    """Measure exact algorithms at Table IX's sizes, as rows a second; and why the filters differ."""
    tiny = size.name == "tiny"
    long = (
        size
        if tiny
        else replace(size, n=40_000, u=400, b=2_000, r=10_000, batches=max(40, size.batches), budget=3.0)
    )
    short = long if tiny else replace(long, r=1_000, budget=size.budget)
    scale = f"{long.words('d')}, {TURN} in turn; rapf, sasf and pa: of {short.r:,} rows"
    unit = "million rows a second"
    figure = Figure("rates", "Rows a second of the algorithms", "d", "rate", unit, scale, times=1e-6)
    pushed = Figure("rates-push", "Rows a second through Monitor.push", "d", "rate", unit, scale, times=1e-6)
    work = Figure(
        "work",
        "What rapf and sasf do: for a query and a thousand rows",
        "d",
        "count",
        "times",
        scale,
        times=1e3,
    )
    for dataset in datasets(size, UNIFORM, SHUFFLED, CORRELATED):
        for d in (2, 4) if not tiny else (2,):
            found: dict[str, dict[str, float]] = {}
            plain = Contestant("rapf, no index", "rapf", UNINDEXED)
            for sizes, who in ((long, named("snn", "sma", "ra")), (short, [*named("rapf", "sasf"), plain])):
                other = replace(sizes, d=d)
                found |= measure(other, dataset, with_options(who, other), turn=TURN)
            for name, values in found.items():
                figure.add(dataset, name, d, rate=1 / values["mean"], **values)
                pushed.add(dataset, name, d, rate=1 / values["push"], **values)
            for name in ("rapf", "sasf"):
                for counter in WORK:
                    work.add(dataset, f"{name}: {counter}", d, count=found[name][counter])
    other = replace(short, k=max(size.ks))
    many = {} if size.data else measure(other, UNIFORM, with_options(named("pa", "rapf"), other))
    for name, values in many.items():
        figure.add(f"uniform, k = {other.k}", name, other.d, rate=1 / values["mean"], **values)
    return [figure, in_order(long), pushed, work]


def in_order(size: Table9) -> Figure:
    """Measure `snn` on readings in order of time in turns with the same ones shuffled: other work slows both."""
    scale = f"{size.words('d')}, {SHORT_TURN} in turn"
    title = "snn on readings in order of time, in turns with the same ones shuffled"
    figure = Figure("rates-order", title, "d", "rate", "million rows a second", scale, times=1e-6)
    cycles = WARM + size.batches
    for at in (replace(size, d=d) for d in ((2, 4) if size.name != "tiny" else (2,))):
        (who,) = with_options(named("snn"), at)
        rehearse(who.algorithm, who.options, at.d)
        found = {kind: Rows(points_of(kind, at, at.n + cycles * at.r, 11)) for kind in READINGS}
        made = {kind: engine(who, at, rows.points, rows, 11) for kind, rows in found.items()}
        for begin in range(0, cycles, SHORT_TURN):
            for kind, rows in found.items():
                for first in range(at.n + begin * at.r, at.n + min(begin + SHORT_TURN, cycles) * at.r, at.r):
                    made[kind].step(rows, first, first + at.r)
        for kind, each in made.items():
            figure.add(kind, "snn", at.d, rate=at.r / float(np.mean(each.kernel[WARM:])))
    return figure


def with_and_without(size: Table9) -> list[Figure]:
    """Measure an index over the queries for `pa`: the cost by the batch, and the certificates that it loses."""
    tiny = size.name == "tiny"
    size = size if tiny else replace(size, n=40_000, u=400, budget=1.0)
    cells = ("cells", 48.0)  # given, so that small batches use the index, too
    who = [Contestant("index", "pa", (cells,)), Contestant("no index", "pa", UNINDEXED)]
    scale = f"{size.name}: n = {size.n:,}, {size.u} queries, d = {size.d}, {cells[1]:.0f} cells on each axis"
    figure = timed("pa-index", "CPU time of a row against the batch: pa", "r", scale)
    for dataset in datasets(size, UNIFORM, CLUSTERED):
        for k in (9, 81) if not tiny else (2,):
            for r in (100, 1_000, 4_000, 10_000) if not tiny else (40,):
                at, _ = in_batches(replace(size, k=k, r=1_000, batches=60 if not tiny else 4), r, ())
                for name, values in measure(replace(at, batches=max(at.batches, 16)), dataset, who).items():
                    figure.add(f"{dataset}, k = {k}", name, r, **values)
    error, windows = 0.1, {"tiny": 5, "quick": 20, "full": 200}[size.name]
    small = replace(size, n=min(size.n, 1_000), u=min(size.u, 100), r=20)
    doubt = Figure(
        "pa-doubt", f"Answers of pa in doubt at error = {error}, of a thousand", "k", "doubt", "answers",
        f"{size.name}: n = {small.n:,}, {small.u} queries, batches of {small.r} rows, {windows} windows",
        times=1e3, logarithmic=False,
    )  # fmt: skip
    for dataset in datasets(size, UNIFORM, CLUSTERED):
        for k in [k for k in size.ks if k in (1, 3, 9, 81)]:
            for name, option in (("index", ("cells", 16.0)), ("no index", *UNINDEXED)):
                share = certified(replace(small, k=k), dataset, error, windows, option)
                doubt.add(dataset, name, k, doubt=1 - share)
    return [figure, doubt]


def in_batches(size: Table9, r: int, who: Sequence[Contestant]) -> tuple[Table9, Sequence[Contestant]]:
    """Return the setting with about as many rows in batches of r."""
    batches = max(LEAST + 1, size.batches * size.r // r)
    other = replace(size, r=r, batches=min(batches, 20 * size.batches))
    return other, with_options(who, other)


def held(size: Table9) -> list[Figure]:
    """Figure 12: rows kept, and references to them: means over time, and over all queries."""
    who = named("pa", "sa", "ra", *SIX, "cpm", "snn")
    scale = size.words("k", "r").rpartition(", ")[0]
    scale += f", batches of k rows and at most {MOMENT}; {MOMENTS} moments of two windows after the first"
    objects = Figure("held-objects", "Rows kept for a query", "k", "objects", "rows", scale)
    references = Figure("held-references", "References for a query", "k", "references", "rows", scale)
    for k in size.ks:
        # laws are about rows that come one by one: a batch of more than k would be swept against itself
        at, exact = at_k(replace(size, r=min(k, MOMENT)), k, who)
        for name, values in kept(at, exact).items():
            objects.add(UNIFORM, name, k, **values)
            references.add(UNIFORM, name, k, **values)
        # and about filters that have seen the whole buffer, not only what lies in their cells
        for name, values in kept(at, with_options(named(*SIX), at, *UNINDEXED)).items():
            references.add(f"{UNIFORM}, no index", name, k, **values)
    return [objects, references]


def kept(size: Table9, who: Sequence[Contestant], seed: int = 11) -> dict[str, dict[str, float]]:
    """Return what each keeps: the mean of moments at equal distances in two windows."""
    points = points_of(UNIFORM, size, 3 * size.n, seed)
    rows = Rows(points)
    found = {}
    for each in who:
        made = engine(each, size, points, rows, seed)
        (algorithm,) = made.algorithms()
        slots = np.flatnonzero(algorithm.ks).tolist()
        moments = []
        for first in range(size.n, 3 * size.n, size.r):
            made.step(rows, first, min(first + size.r, 3 * size.n))
            if (first + size.r) * MOMENTS // (2 * size.n) > first * MOMENTS // (2 * size.n):
                references = float(np.mean([algorithm.size(slot)[0] for slot in slots]))
                moments.append((references, len(np.unique(algorithm.seqs())) / size.u))
        means = np.mean(moments, axis=0).tolist()
        found[each.name] = dict(zip(("references", "objects"), means, strict=True))
    return found


def admissions(size: Table9) -> list[Figure]:
    """How the six differ: how many rows their filters and their skybands take in, at Table IX's sizes."""
    tiny = size.name == "tiny"
    ks = (9,) if size.name == "quick" else size.ks
    size = size if tiny else replace(size, n=40_000, u=400, b=2_000, r=1_000, ks=ks, budget=20.0)
    few = size if tiny else replace(size, u=20)  # without an index queries are independent
    scale = f"{size.words('k')}; without an index {few.u} queries"
    admitted, filtered = (
        Figure(
            name,
            f"Rows that a query's {what} takes in, of a thousand",
            "k",
            counter,
            "rows",
            scale,
            times=1e3,
        )
        for name, what, counter in (("admissions", "skyband", "admitted"), ("filtered", "filter", "filtered"))
    )
    for panel, sizes, options in (("no index", few, UNINDEXED), ("index", size, ())):
        setting = lambda k, s=sizes, o=options: at_k(s, int(k), named(*SIX), *o)  # noqa: E731
        sweep([admitted, filtered], UNIFORM, size.ks, setting, panel)
    return [admitted, filtered]


PARTS: Mapping[str, Callable[[Table9], list[Figure]]] = {
    "rates": rates,
    "errors": errors,
    "data": over_data,
    "index-uniform": over_index(UNIFORM),
    "index-clustered": over_index(CLUSTERED),
    "index-readings": over_index(SHUFFLED),
    "pa": with_and_without,
    **PARAMETERS,
    "held": held,
    "admissions": admissions,
}


OF_FILES = "rates", "errors", "data", "index-readings"  # parts that read the user's file, if there is one


def main(settings: Settings) -> None:
    size = replace(SCALES[settings.scale], data=settings.data)
    parts = parts_of(settings, tuple(PARTS))
    if settings.data is not None and not settings.only:
        parts = OF_FILES
    BOOK.publish((figure for part in parts for figure in measured(part, size)), settings)


def measured(part: str, size: Table9) -> list[Figure]:
    """Measure a part; the figures of a file's readings have names of their own."""
    found = PARTS[part](size)
    if size.data is not None and part in OF_FILES:
        for figure in found:
            figure.name += OF_FILE
            figure.scale += f"; readings of {size.data.name}"
    return found
