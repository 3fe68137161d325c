"""The streams that people have: each is the plain one with one thing more, and its steps are compared with those.

A *plain* step is a batch of float64 columns without event times, for queries that differ in their weights only, with no
algorithm named. `STREAMS` adds event time, late rows, predicates, other types, nulls, different k and windows, and last
an *ordinary* stream with most of these at once. Every stream runs through `Monitor.push` twice: all of them in turns in
one process, where each finds the caches cold, and each by itself. Beside them stand the brute force (numpy) and DuckDB,
which is given the batch and asked again, for the plain and the ordinary stream.

Two further parts are small: rows one at a time beside a SortedList and a deque, and how long an answer takes to read.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.harness.claims import Beside, Book
from benchmarks.harness.clock import Clock
from benchmarks.harness.figures import Figure, number
from benchmarks.harness.settings import Settings, parts_of
from benchmarks.harness.sizes import held
from benchmarks.peers.kinds import kinds
from benchmarks.peers.kinds import ratios as beside_plain
from benchmarks.streams.generators import weighted_sum, weights
from skyband.core.types import Floats
from skyband.engine.monitor import Monitor

K, AXES = 20, 4
MICROSECONDS = 100  # between two rows
LATE = 0.1  # windows by which rows of a late stream are late at most: two seconds of twenty
LETTERS = np.array(["a", "b", "c", "d"])
Step = Callable[[pa.Table], Any]


@dataclass(frozen=True)
class Size:
    """The size of a run."""

    queries: int
    n: int  # rows in the window
    r: int  # rows a batch
    warm: int  # batches after the window is full that aren't timed
    steps: int  # batches that are timed, in turns
    runs: int
    few: int  # batches that brute force and DuckDB are timed for

    def __str__(self) -> str:
        return (
            f"Q = {self.queries:,}, k = {K}, N = {self.n:,}, batches of {self.r:,}, {self.steps:,} batches after "
            f"{self.warm:,} that aren't timed, median of {self.runs} run{'s' if self.runs > 1 else ''}"
        )


SIZES = {
    "tiny": Size(3, 60, 10, 2, 3, 1, 1),
    "quick": Size(100, 200_000, 5_000, 45, 60, 1, 2),
    "full": Size(100, 200_000, 5_000, 85, 400, 5, 5),
}


@dataclass(frozen=True)
class Stream:
    """A stream and its queries: what they have beside the plain one."""

    name: str
    timed: bool = False
    lasting: bool = False  # a window of time
    late: bool = False
    where: str = ""  # "text", "number"
    integers: bool = False
    nulls: float = 0.0
    ranks: bool = False  # different k
    windows: bool = False
    text: bool = False  # selects a text

    def queries(self, size: Size) -> list[str]:
        return [
            f"SELECT {'g, ' if self.text else ''}x0 FROM s {self._where(i, size)}ORDER BY {weighted_sum(w)} DESC "
            f"LIMIT {self.k(i)} WINDOW {self._window(i, size)}"
            for i, w in enumerate(weights(size.queries, AXES))
        ]

    def k(self, i: int) -> int:
        return [5, 10, 20, 50][i % 4] if self.ranks else K

    def rows(self, i: int, size: Size) -> int:
        """Return about how many rows the window of query i holds."""
        return size.n // [4, 2, 1][i % 3] if self.windows else size.n

    def _window(self, i: int, size: Size) -> str:
        n = self.rows(i, size)
        return f"{n * MICROSECONDS} MICROSECONDS" if self.lasting else f"{n} ROWS"

    def _where(self, i: int, size: Size) -> str:
        condition = self.condition(i, size)
        return f"WHERE {condition} " if condition else ""

    def condition(self, i: int, size: Size) -> str:
        if self.where == "text":
            return f"g = '{LETTERS[i % len(LETTERS)]}'"
        return f"x3 > {i / 2 / size.queries}" if self.where == "number" else ""

    def table(self, step: int, size: Size, seed: int) -> pa.Table:
        rng = np.random.default_rng((seed, step))
        points = rng.random((AXES, size.r))
        columns: dict[str, Any] = {}
        for j, values in enumerate(points):
            null = rng.random(size.r) < self.nulls if self.nulls else None
            values = (values * 1e6).astype(np.int64) if self.integers else values
            columns[f"x{j}"] = pa.array(values, mask=null)
        if self.where == "text" or self.text:
            columns["g"] = pa.array(LETTERS[rng.integers(0, len(LETTERS), size.r)])
        if self.timed:
            stamps = (step * size.r + np.arange(size.r)) * MICROSECONDS + 10**15
            late = (rng.random(size.r) * LATE * size.n * MICROSECONDS).astype(np.int64) if self.late else 0
            columns["ts"] = pa.array(stamps - late).cast(pa.timestamp("us"))
        return pa.table(columns)


PLAIN = Stream("plain")
ORDINARY = Stream("ordinary", timed=True, lasting=True, late=True, where="text", nulls=0.01, text=True)
STREAMS = (
    PLAIN,
    Stream("event time, row window", timed=True),
    Stream("event time, row window, late rows", timed=True, late=True),
    Stream("time window", timed=True, lasting=True),
    Stream("time window, late rows", timed=True, lasting=True, late=True),
    Stream("WHERE on text", where="text"),
    Stream("WHERE on a number", where="number"),
    Stream("integers", integers=True),
    Stream("1 % nulls", nulls=0.01),
    Stream("different k", ranks=True),
    Stream("three windows", windows=True),
    Stream("selects a text", text=True),
    ORDINARY,
    replace(ORDINARY, name="ordinary, different k, three windows", ranks=True, windows=True),
)


def monitor(stream: Stream, size: Size) -> Monitor:
    watched = Monitor(time="ts" if stream.timed else None)
    for i, text in enumerate(stream.queries(size)):
        watched.watch(text, name=f"q{i}")
    return watched


# -- peers -----------------------------------------------------------------------------------------------------------


def brute_force(stream: Stream, size: Size) -> Step:
    """Keep the window's rows in numpy's arrays, and score all of them for every query."""
    kept: dict[str, Any] = {}

    def step(batch: pa.Table) -> list[Any]:
        for name in batch.column_names:
            values = batch.column(name).to_numpy()
            kept[name] = np.concatenate([kept[name], values])[-2 * size.n :] if name in kept else values
        scores = weights(size.queries, AXES) @ np.stack([kept[f"x{j}"] for j in range(AXES)])
        found = []
        for i, score in enumerate(scores):
            good = np.where(np.isnan(score), -np.inf, score)
            if stream.where == "text":
                good[kept["g"] != LETTERS[i % len(LETTERS)]] = -np.inf
            if stream.lasting:
                span = np.timedelta64(stream.rows(i, size) * MICROSECONDS, "us")
                good[kept["ts"] < kept["ts"].max() - span] = -np.inf
            else:
                good = good[-stream.rows(i, size) :]
            found.append(np.argpartition(-good, stream.k(i))[: stream.k(i)])
        return found

    return step


def duckdb_again(stream: Stream, size: Size) -> Step | None:
    """Keep the window as a table and run every query after each batch; None if DuckDB isn't installed."""
    try:
        import duckdb
    except ImportError:
        return None
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.register("arriving", stream.table(0, size, 1))
    connection.execute("CREATE SEQUENCE seqs")
    connection.execute("CREATE TABLE w AS SELECT 0::BIGINT AS seq, * FROM arriving LIMIT 0")

    def step(batch: pa.Table) -> list[Any]:
        connection.register("arriving", batch)
        connection.execute("INSERT INTO w SELECT nextval('seqs'), * FROM arriving")
        found = []
        for i, w in enumerate(weights(size.queries, AXES)):
            rows, source = stream.rows(i, size), "w"
            conditions = [f"x{j} IS NOT NULL" for j in range(AXES)] + [stream.condition(i, size)]
            if stream.lasting:
                since = f"(SELECT max(ts) FROM w) - INTERVAL {rows * MICROSECONDS} MICROSECONDS"
                conditions.append(f"ts >= {since}")
            elif stream.timed:
                source = f"(SELECT * FROM w ORDER BY ts DESC, seq DESC LIMIT {rows})"
            else:
                conditions.append(f"seq > (SELECT max(seq) FROM w) - {rows}")
            text = (
                f"SELECT seq FROM {source} WHERE {' AND '.join(filter(None, conditions))} "
                f"ORDER BY {weighted_sum(w)} DESC LIMIT {stream.k(i)}"
            )
            found.append(connection.execute(text).fetchall())
        return found

    return step


# -- the matrix ------------------------------------------------------------------------------------------------------


def together(streams: Sequence[Stream], size: Size, seed: int) -> dict[str, dict[str, float]]:
    """Run streams step by step in turns; return the times of each and the memory of its monitor."""
    monitors = {stream.name: monitor(stream, size) for stream in streams}
    clocks = {stream.name: Clock() for stream in streams}
    untimed = size.n // size.r + size.warm
    order = np.random.default_rng(seed)
    gc.collect()
    for step in range(untimed + size.steps):
        for at in order.permutation(len(streams)).tolist():
            stream = streams[at]
            batch = stream.table(step, size, seed)
            if step < untimed:
                monitors[stream.name].push(batch)
            else:
                clocks[stream.name].step(monitors[stream.name].push, batch)
    return {name: {**clock.values(), "bytes": held(monitors[name])} for name, clock in clocks.items()}


def peers(size: Size, seed: int) -> Iterator[tuple[str, Stream, dict[str, float]]]:
    """Yield what brute force and DuckDB take for the plain and the ordinary stream, once the window is full."""
    for stream in (PLAIN, ORDINARY):
        for name, made in (("brute force", brute_force), ("DuckDB asked again", duckdb_again)):
            push, clock, full = made(stream, size), Clock(), size.n // size.r
            if push is None:
                continue
            push(pa.concat_tables([stream.table(step, size, seed) for step in range(full)]))
            for step in range(full, full + size.few):
                clock.step(push, stream.table(step, size, seed))
            yield name, stream, clock.values()


def medians(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.median([run[name] for run in runs])) for name in runs[0]}


def matrix(scale: str) -> Iterator[Figure]:
    size = SIZES[scale]
    figure = Figure(
        "matrix", "A step by stream", "stream", "mean", "µs of wall clock a step", f"{scale}: {size}", times=1e6,
        form="bars",
    )  # fmt: skip
    seeds = range(31, 31 + size.runs)
    runs = [together(STREAMS, size, seed) for seed in seeds]
    for stream in STREAMS:
        figure.add("in turns", "skyband", stream.name, **medians([run[stream.name] for run in runs]))
    for stream in STREAMS:
        alone = [together([stream], size, seed)[stream.name] for seed in seeds]
        figure.add("by itself", "skyband", stream.name, **medians(alone))
    for name, stream, values in peers(size, 31):
        figure.add("by itself", name, stream.name, **values)
    yield figure


def ratios(figure: Figure) -> list[list[str]]:
    """Return a row for each stream: its speed as a part of the plain one's, and its steps."""
    rows = [[
        "", "stream", "of plain, wall", "of plain, CPU", "median of plain, wall", "M rows/s", "p99 µs", "longest µs",
        "MB",
    ]]  # fmt: skip
    batch = SIZES[figure.scale.partition(":")[0]].r
    for panel in figure.panels():
        found = {p.x: p.values for p in figure.points if (p.panel, p.series) == (panel, "skyband")}
        plain = found[PLAIN.name]
        for x, values in found.items():
            part = [number(plain[name] / values[name]) for name in ("mean", "cpu", "median")]
            steps = [number(values[name] * 1e6) for name in ("p99", "longest")]
            speed, size = number(batch / values["mean"] / 1e6), number(values["bytes"] / 1e6)
            rows.append([panel, str(x), *part, speed, *steps, size])
    return rows


# -- small steps and answers -----------------------------------------------------------------------------------------


def single(scale: str) -> Iterator[Figure]:
    """Rows one at a time, as dicts of values, and by thousands, over a window of 10,000 rows."""
    from sortedcontainers import SortedList

    n, rows, rounds = (10_000, 500, 9) if scale != "tiny" else (50, 5, 2)
    figure = Figure(
        "single", "One row a push", "rows a push", "median", "µs of wall clock a push",
        f"{scale}: k = {K}, a window of {n:,} rows, rounds of {rows:,} rows in turns", times=1e6, form="bars",
    )  # fmt: skip
    points = np.random.default_rng(3).random((2, n + rows * rounds))
    x, y = points.tolist()
    kept, order = SortedList(), deque[Any]()

    def peer(i: int) -> Any:
        entry = (-(2 * x[i] + y[i]), -i)
        kept.add(entry)
        order.append(entry)
        if len(order) > n:
            kept.remove(order.popleft())
        return kept[:K]

    def columns(first: int, last: int) -> dict[str, Any]:
        stamps = np.arange(first, last, dtype=np.float64)
        return {"ts": stamps, "x0": points[0, first:last], "x1": points[1, first:last]}

    def pushing(queries: int, window: str) -> Callable[[int], Any]:
        timed = "SECONDS" in window
        watched = Monitor(time="ts" if timed else None)
        for weight in [np.array([2.0, 1.0]), *weights(queries - 1, 2)]:
            watched.watch(f"SELECT x0 FROM s ORDER BY {weighted_sum(weight)} DESC LIMIT {K} WINDOW {window}")
        for first in range(0, n, 1000):
            watched.push(pa.table(columns(first, min(n, first + 1000))))
        return lambda i: watched.push({"ts": float(i), "x0": x[i], "x1": y[i]})

    pushes: dict[str, Callable[[int], Any]] = {"SortedList and deque": peer}
    for i in range(n):
        peer(i)
    for queries in (1, 1_000) if scale != "tiny" else (1, 3):
        for window in (f"{n} ROWS", f"{n} SECONDS"):
            kind = "row window" if "ROWS" in window else "time window"
            pushes[f"{queries:,} quer{'y' if queries == 1 else 'ies'}, {kind}"] = pushing(queries, window)
    thousand = Monitor()
    thousand.watch(f"SELECT x0 FROM s ORDER BY 2 * x0 + x1 DESC LIMIT {K} WINDOW {n} ROWS")
    spent: dict[str, list[float]] = {}
    for turn in range(rounds):
        first = n + turn * rows
        for name, push in pushes.items():
            start = time.perf_counter()
            for i in range(first, first + rows):
                push(i)
            spent.setdefault(name, []).append((time.perf_counter() - start) / rows)
        batches = [pa.table({"x0": random[0], "x1": random[1]}) for random in _thousands(30, turn)]
        start = time.perf_counter()
        for batch in batches:
            thousand.push(batch)
        spent.setdefault("1,000 rows a push, 1 query", []).append(
            (time.perf_counter() - start) / len(batches)
        )
    for name, seconds in spent.items():
        values = {"median": float(np.median(seconds)), "least": min(seconds)}
        times = np.median(np.array(seconds) / np.array(spent["SortedList and deque"]))
        figure.add("", "µs", name, **values, times=float(times))
    yield figure


def _thousands(count: int, seed: int) -> Floats:
    return np.random.default_rng(seed).random((count, 2, 1_000))


def answers(scale: str) -> Iterator[Figure]:
    """How long an answer takes to read, after a step that changed it."""
    size = replace(SIZES["tiny" if scale == "tiny" else "quick"], queries=1)
    figure = Figure(
        "answers", "Reading an answer", "what", "median", "µs of wall clock", f"{scale}: {size}", times=1e6,
        form="bars",
    )  # fmt: skip
    windows = [f"{size.n - size.n // 60 * i} ROWS" for i in range(50 if scale != "tiny" else 2)]
    asked = [(k, window) for window in windows for k in range(1, K + 1)]
    for algorithm in ("ra", "heightmap"):
        watched = Monitor()
        options = f" WITH (algorithm = '{algorithm}')"
        watch = watched.watch(PLAIN.queries(size)[0] + options)
        reads: dict[str, tuple[Callable[[], Any], int]] = {"top()": (watch.top, 1)}
        if algorithm == "ra":
            reads[f"tops() of {len(asked):,} k and windows, for each"] = (
                partial(watch.tops, asked),
                len(asked),
            )
        spent: dict[str, list[float]] = {name: [] for name in reads}
        for step in range(size.n // size.r + size.steps):
            watched.push(PLAIN.table(step, size, 31))
            if step >= size.n // size.r:
                for name, (read, count) in reads.items():
                    start = time.perf_counter()
                    read()
                    spent[name].append((time.perf_counter() - start) / count)
        for name, seconds in spent.items():
            figure.add("", "µs", f"{name}, {algorithm}", median=float(np.median(seconds)))
    yield figure


def beside_peer(figure: Figure) -> list[list[str]]:
    """Return each push's time as a multiple of the SortedList's."""
    rows = [["a push", "times the SortedList's"]]
    return rows + [[str(p.x), number(p.values["times"])] for p in figure.points]


PARTS: dict[str, Callable[[str], Iterator[Figure]]] = {
    "matrix": matrix,
    "single": single,
    "answers": answers,
    "kinds": kinds,
}

HEAD = """# streams: what each kind of stream costs

Written by `python -m benchmarks streams` from its own figures ([options](../benchmarks.md#options)).

A step is one `Monitor.push` of an Arrow table, changes included, with no algorithm named. The plain stream has float64
columns and no event times, and its queries differ in their weights only; each other stream has one thing more. *In
turns*: all streams step by step in one process, with cold caches. *By itself*: nothing else runs in the process. The
columns "of plain" are the speed of the stream divided by that of the plain one of the same kind of run. Memory is that
of all arrays that the monitor holds.
"""

BOOK = Book(
    "streams",
    HEAD,
    (
        ("matrix", "A step by stream"),
        ("single", "One row a push"),
        ("answers", "Reading an answer"),
        ("kinds", "Pairs, grouped and joined objects"),
    ),
    beside={"matrix": Beside(ratios), "single": Beside(beside_peer), "kinds": Beside(beside_plain)},
)


def main(settings: Settings) -> None:
    BOOK.publish(
        (figure for part in parts_of(settings, tuple(PARTS)) for figure in PARTS[part](settings.scale)),
        settings,
    )
