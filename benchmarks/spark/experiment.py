"""The pipeline on Spark against Spark alone; needs Java and pyspark.

Prints the figures of measure.py and writes them to a page, part by part: `--only` measures some parts again and leaves
the others as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from benchmarks.harness.claims import Book, Claim
from benchmarks.harness.figures import Figure
from benchmarks.harness.settings import Settings, parts_of

if TYPE_CHECKING:
    from benchmarks.spark.measure import Figures

HEAD = """# On Spark

Written by `python -m benchmarks spark` from its own figures ([options](../benchmarks.md#options)).

How much of Spark's own speed the pipeline keeps. Everything runs in one session, in turn, on two cores. Results are
ratios of medians against Spark's own Parquet source read into its no-op sink. The two placements are compared in a
session of their own, with a JVM as the executors placement starts it.

- Large batches are of weighted sums of four columns, k = 20, over the last million rows. Nearest-neighbour queries ask
  for the 10 nearest rows in two columns, and Spark alone reads these two. A small batch has 200 rows.
- The restart is one on an old checkpoint, from the start of the run to the end of its first batch.
- The cluster is Spark's standalone one on the same two cores, with a core for each worker. It runs a thousand queries
  with their state with the executors. Processor time is what the system reports for executors and driver, for each row,
  after two dozen batches in which their JVMs compile most of their code. The driver's work for a batch doesn't depend
  on the number of its rows, so its share falls as batches grow: it is shown for batches twice as large, too.
- The batches of the stateful operators only read and write a blob of state for each of two keys (with Pandas, in
  RocksDB). Those of `skyband.spark.watch` are of a hundred weighted sums on a DataFrame, into the no-op sink: with one
  unit, with two, and with two but without the task that makes one answer of their parts.
- JSON is read as Kafka's records have it, by Spark's own code and by our tasks, which do nothing else with the rows.

[Spark](../spark.md) says how it works.
"""


def main(settings: Settings) -> None:
    from benchmarks.spark.measure import PARTS, measure
    from benchmarks.spark.runs import FULL, QUICK

    found = measure(FULL if settings.scale == "full" else QUICK, parts_of(settings, PARTS))
    folder = settings.output / "spark"
    BOOK.publish((each.joined(folder, others=True) for each in figures(found, settings.scale)), settings)


def figures(found: Figures, scale: str) -> Iterator[Figure]:
    """Yield what was measured as figures of the page."""
    plan = found.plan

    def bars(
        name: str, title: str, x: str, y: str, unit: str, sizes: str, logarithmic: bool = False
    ) -> Figure:
        return Figure(name, title, x, y, unit, f"{scale}: {sizes}", form="bars", logarithmic=logarithmic)

    sizes = f"{plan.batch_rows:,} rows a batch, {plan.master}"
    rates = bars("throughput", "Rows a second", "queries", "ratio", "of Spark alone", sizes)
    alone = found.rates.get("nothing", 1.0)
    for name, rate in found.rates.items():
        if name != "nothing":
            placement, count = name.split()
            rates.add("", placement, int(count), ratio=rate / alone, rate=rate, alone=alone)
    yield rates
    sizes = f"1,000 queries, {plan.master}"
    placements = bars("placements", "Either placement", "rows a batch", "rate", "rows/s", sizes)
    for rows, of_each in found.placements.items():
        for name, rate in of_each.items():
            placements.add("", name.split()[0], rows, rate=rate)
    yield placements
    title, sizes = "A thousand nearest-neighbour queries", f"{plan.batch_rows:,} rows a batch, {plan.master}"
    nearest = bars("nearest", title, "rows rejected in", "ratio", "of Spark alone", sizes)
    alone = found.nearest.get("Spark alone", 1.0)
    for way, rate in found.nearest.items():
        if way != "Spark alone":
            nearest.add("", "rows a second", way, ratio=rate / alone, rate=rate, alone=alone)
    yield nearest
    sizes = f"{plan.small_batches} batches"
    small = bars("small", "A trigger of 200 rows", "placement", "ms", "ms", sizes, logarithmic=True)
    for name, seconds in found.triggers.items():
        small.add("", "trigger", name, ms=1000 * seconds)
    yield small
    sizes = f"{plan.restart:,} queries"
    first = bars(
        "restart", "The first answer after a restart", "placement", "s", "s", sizes, logarithmic=True
    )
    for name, seconds in found.first.items():
        first.add("", "first answer", name, s=seconds)
    yield first
    sizes = f"{plan.cluster_rows:,} rows a batch"
    used = bars(
        "cluster", "Processor time on a cluster", "workers", "ns", "ns a row", sizes, logarithmic=True
    )
    for workers, (executors, driver) in found.cluster.items():
        for name, seconds in (("executors", executors), ("driver", driver)):
            used.add("", name, workers, ns=1e9 * seconds / plan.cluster_counted)
    yield used
    title = "The driver's share of processor time"
    share = bars("share", title, "rows a batch", "percent", "% of all", "two workers")
    for rows, pair in ((plan.cluster_rows, found.cluster.get(2)), (plan.larger.cluster_rows, found.share)):
        if pair is not None:
            share.add("", "driver", rows, percent=100 * pair[1] / sum(pair))
    yield share
    title, sizes = "A batch that reads and writes state", f"two units, {4 * plan.batches} batches"
    state = bars("state", title, "bytes of a unit's blob", "ms", "ms", sizes)
    watches = bars(
        "watch", "A batch of watch", "rows a batch", "ms", "ms", f"100 queries, {2 * plan.batches} batches"
    )
    for figure, measured in ((state, found.blobs), (watches, found.watches)):
        for x, of_each in measured.items():
            for name, seconds in of_each.items():
                figure.add("", name, x, ms=1000 * seconds)
        yield figure
    sizes = f"{plan.batch_rows:,} records of four numbers, {plan.master}"
    records = bars("records", "Reading records of JSON", "by", "rate", "million a second", sizes)
    for way, rate in found.records.items():
        records.add("", "records", way, rate=rate / 1e6)
    yield records


def _at_least(placement: str, queries: int, goal: float) -> Claim:
    def judge(figure: Figure) -> tuple[bool, str] | None:
        ratio = figure.value("", placement, queries)
        return None if ratio is None else (ratio >= goal, f"{ratio:.2f}")

    return Claim(f"{placement}, {queries:,} queries: at least {goal:g} of Spark alone", judge)


def _executors(which: str, pick: Callable[[list[float]], float]) -> Claim:
    def judge(figure: Figure) -> tuple[bool, str] | None:
        sizes = [float(x) for x in figure.places()]
        if not sizes:
            return None
        one, other = (figure.value("", name, pick(sizes)) for name in ("executors", "driver"))
        return None if one is None or not other else (one / other >= 0.5, f"{one / other:.2f}")

    return Claim(f"executors, the {which} batches: at least 0.5 of the driver placement", judge)


def _small(figure: Figure) -> tuple[bool, str] | None:
    one, other = figure.value("", "trigger", "driver"), figure.value("", "trigger", "nothing")
    return None if one is None or not other else (one / other <= 1.3, f"{one / other:.2f} times")


def _restart(figure: Figure) -> tuple[bool, str] | None:
    one, other = (figure.value("", "first answer", name) for name in ("driver", "nothing"))
    return None if one is None or other is None else (one - other <= 2.0, f"{one - other:.1f} s later")


def _constant(figure: Figure) -> tuple[bool, str] | None:
    one, two = (figure.value("", "executors", workers) for workers in (1, 2))
    return None if not one or two is None else (abs(two / one - 1) <= 0.1, f"{100 * (two / one - 1):+.0f} %")


def _driver(figure: Figure) -> tuple[bool, str] | None:
    driver, executors = (figure.value("", name, 2) for name in ("driver", "executors"))
    if driver is None or executors is None:
        return None
    share = driver / (driver + executors)
    return share < 0.1, f"{100 * share:.1f} %"


def _larger(figure: Figure) -> tuple[bool, str] | None:
    sizes = [float(x) for x in figure.places()]
    found = figure.value("", "driver", max(sizes)) if len(sizes) > 1 else None
    return None if found is None else (found < 10, f"{found:.1f} %")


BOOK = Book(
    name="spark",
    head=HEAD,
    sections=(
        ("throughput", "Large batches"), ("placements", "The two placements"),
        ("nearest", "Many nearest-neighbour queries"), ("small", "Small batches"),
        ("restart", "Restart"), ("cluster", "Processor time on a cluster"),
        ("share", "The driver's share of it, by the size of batches"), ("state", "Two stateful operators"),
        ("watch", "A DataFrame's changes"), ("records", "Records of JSON"),
    ),
    claims={
        "throughput": (
            _at_least("driver", 1, 0.8),
            _at_least("driver", 1000, 0.6),
            _at_least("driver", 10_000, 0.4),
        ),
        "placements": (_executors("largest", max), _executors("smallest", min)),
        "small": (Claim("driver: at most 1.3 times a trigger of Spark alone", _small),),
        "restart": (Claim("driver: at most 2 s later than Spark alone", _restart),),
        "cluster": (
            Claim("executors: the same for a row within 10 % with one worker and with two", _constant),
            Claim("driver: less than 10 % of all, with two workers", _driver),
        ),
        "share": (Claim("driver, the largest batches: less than 10 % of all", _larger),),
    },
    said="wanted",
)  # fmt: skip
