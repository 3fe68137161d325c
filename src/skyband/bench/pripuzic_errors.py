"""How often `pa` is wrong (Figure 8), and how often it says that it may be."""

from __future__ import annotations

from dataclasses import replace

from skyband.approximate import Approximate
from skyband.bench.drive import Contestant, Pushed, Rows
from skyband.bench.figures import Figure
from skyband.bench.pripuzic_sizes import CLUSTERED, SHUFFLED, UNIFORM, Table9, datasets, points_of, queries
from skyband.structures.limits import limit_for, misses_in


def errors(size: Table9) -> list[Figure]:
    """Figure 8, at an error large enough to see: rows that pa missed and rows it told in error, against `ra`."""
    error, windows = 0.1, {"tiny": 5, "quick": 24, "full": 200}[size.name]
    size = replace(size, n=min(size.n, 1_000), u=min(size.u, 100), r=20)
    figure = Figure(
        "errors", f"Misses of pa at error = {error}, in n rows", "k", "count", "a query and n rows",
        f"{size.name}: n = {size.n:,}, {size.u} queries, batches of {size.r} rows, {windows} windows",
        logarithmic=False,
    )  # fmt: skip
    for dataset in datasets(size, UNIFORM, CLUSTERED, SHUFFLED):
        for k in [k for k in size.ks if k in (1, 3, 9, 81)]:
            missed, false, certified = misses(replace(size, k=k), dataset, error, windows)
            figure.add(dataset, "missed", k, count=missed, certified=certified)
            figure.add(dataset, "told in error", k, count=false, certified=certified)
            figure.add(dataset, "stated error", k, count=error)
            figure.add(dataset, "calibrated error", k, count=misses_in(size.n, k, k + limit_for(k, error)))
    return [figure]


def misses(
    size: Table9, dataset: str, error: float, windows: int, seed: int = 11
) -> tuple[float, float, float]:
    """Rows that reached the exact tops and never pa's, and the other way round, and the share of certified answers."""
    points = points_of(dataset, size, (1 + windows) * size.n, seed)
    rows = Rows(points)
    exact = Pushed("ra", queries(points, Contestant("ra", "ra"), size, seed))
    loose = Pushed("pa", queries(points, Contestant("pa", "pa", (("error", error),)), size, seed))
    entered: list[set[tuple[str, int]]] = [set(), set()]
    for first in range(0, len(rows), size.r):
        table = rows.table(first, min(first + size.r, len(rows)))
        for seen, each in zip(entered, (exact, loose), strict=True):
            changes = each.monitor.push(table).to_pydict()
            if first >= size.n:
                told = zip(changes["query"], changes["seq"], changes["change"], strict=True)
                seen.update((query, seq) for query, seq, change in told if change == "enter")
    shares = [group.shares.sum(axis=0) for group in families(loose)]
    share = float(shares[0][0] / shares[0][1])
    return (
        len(entered[0] - entered[1]) / size.u / windows,
        len(entered[1] - entered[0]) / size.u / windows,
        share,
    )


def families(engine: Pushed) -> list[Approximate]:
    groups = [group for stream in engine.monitor.streams.values() for group in stream.groups]
    return [group for group in groups if isinstance(group, Approximate)]


def certified(
    size: Table9, dataset: str, error: float, windows: int, option: tuple[str, float], seed: int = 11
) -> float:
    """The share of certified answers."""
    points = points_of(dataset, size, (1 + windows) * size.n, seed)
    rows = Rows(points)
    loose = Pushed("pa", queries(points, Contestant("pa", "pa", (("error", error), option)), size, seed))
    for first in range(0, len(rows), size.r):
        loose.monitor.push(rows.table(first, min(first + size.r, len(rows))))
    (group,) = families(loose)
    sure, answers = group.shares.sum(axis=0).tolist()
    return float(sure / answers)
