"""Pairs, grouped and joined objects on the streams that people have, each beside its own plain stream.

A *plain* step has integer keys and no event times. The other streams have one thing more: event time, late rows, nulls,
text keys; the *ordinary* one has all of these. Keys are what pairs compare (`a.key < b.key`), what rows are grouped by,
and what streams are joined by. All streams of one kind of query run in turns.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.harness.clock import Clock
from benchmarks.harness.figures import Figure, number
from benchmarks.harness.sizes import held
from skyband.engine.monitor import Monitor

K = 20
MICROSECONDS = 100  # between two rows
LATE = 0.1  # windows by which rows of a late stream are late at most


@dataclass(frozen=True)
class Stream:
    name: str
    timed: bool = False
    lasting: bool = False  # a window of time
    late: bool = False
    nulls: float = 0.0
    text: bool = False


PLAIN = Stream("plain")
STREAMS = (
    PLAIN,
    Stream("event time, row window", timed=True),
    Stream("event time, row window, late rows", timed=True, late=True),
    Stream("time window", timed=True, lasting=True),
    Stream("time window, late rows", timed=True, lasting=True, late=True),
    Stream("1 % nulls", nulls=0.01),
    Stream("text keys", text=True),
    Stream("ordinary", timed=True, lasting=True, late=True, nulls=0.01, text=True),
)


@dataclass(frozen=True)
class Kind:
    """A kind of query, with the size of its run."""

    name: str
    query: str
    n: int  # rows in the window
    r: int  # rows a step
    keys: int
    steps: int
    streams: tuple[str, ...] = ("s",)

    def sql(self, stream: Stream) -> str:
        window = f"{self.n * MICROSECONDS} MICROSECONDS" if stream.lasting else f"{self._rows()} ROWS"
        return f"{self.query} LIMIT {K} WINDOW {window}"

    def _rows(self) -> int:
        return self.n // len(self.streams)  # a window of rows is of each stream

    def tables(self, stream: Stream, step: int) -> list[tuple[str, pa.Table]]:
        """Return the rows of a step by stream."""
        rng = np.random.default_rng((31, step))
        key, x, late = rng.integers(0, self.keys, self.r), rng.random(self.r), rng.random(self.r)
        null = rng.random(self.r) < stream.nulls
        keys = pa.array(np.char.mod("key %08d", key)) if stream.text else pa.array(key)
        columns: dict[str, Any] = {"key": keys, "x": pa.array(x, mask=null if stream.nulls else None)}
        if stream.timed:
            stamps = (step * self.r + np.arange(self.r)) * MICROSECONDS + 10**15
            back = (late * LATE * self.n * MICROSECONDS).astype(np.int64) if stream.late else 0
            columns["ts"] = pa.array(stamps - back).cast(pa.timestamp("us"))
        table, part = pa.table(columns), self.r // len(self.streams)
        return [(name, table.slice(i * part, part)) for i, name in enumerate(self.streams)]


def _pairs(name: str, n: int, r: int, steps: int) -> Kind:
    query = "SELECT a.x, b.x FROM s a, s b WHERE a.key < b.key ORDER BY abs(a.x - b.x)"
    return Kind(name, query, n, r, 400, steps)


def _kinds(scale: str) -> tuple[Kind, ...]:
    n, r, steps, pairs = (200_000, 5_000, 40, (1_000, 20_000)) if scale != "tiny" else (60, 10, 3, (40, 60))
    grouped = "SELECT key, SUM(x) AS sums FROM s GROUP BY key ORDER BY SUM(x) DESC"
    joined = "SELECT key FROM a FULL JOIN b USING (key) ORDER BY a.x + b.x DESC"
    return (
        _pairs("pairs", pairs[0], 20 if scale != "tiny" else 5, steps),
        _pairs("pairs, long window", pairs[1], 250 if scale != "tiny" else 5, steps),
        Kind("grouped", grouped, n, r, n // 4, steps),
        Kind("joined", joined, n, r, n // 4, steps, ("a", "b")),
    )


def kinds(scale: str) -> Iterator[Figure]:
    every = _kinds(scale)
    sizes = "; ".join(f"{kind.name}: N = {kind.n:,}, {kind.r:,} rows a step" for kind in every)
    figure = Figure(
        "kinds", "Pairs, grouped and joined objects", "stream", "mean", "µs of wall clock a row",
        f"{scale}: one query, k = {K}; {sizes}; {every[0].steps} steps", times=1e6, form="bars",
    )  # fmt: skip
    for kind in every:
        monitors, clocks = {}, {stream.name: Clock() for stream in STREAMS}
        for stream in STREAMS:
            monitors[stream.name] = Monitor(time="ts" if stream.timed else None)
            monitors[stream.name].watch(kind.sql(stream))
        order, full = np.random.default_rng(31), 2 * kind.n // kind.r
        gc.collect()
        for step in range(full + kind.steps):
            for at in order.permutation(len(STREAMS)).tolist():
                stream = STREAMS[at]
                parts, monitor = kind.tables(stream, step), monitors[stream.name]

                def push(parts: list[tuple[str, pa.Table]], monitor: Monitor = monitor) -> None:
                    for name, table in parts:
                        monitor.push(table, stream=name)

                if step < full:
                    push(parts)
                else:
                    clocks[stream.name].step(push, parts)
        for name, clock in clocks.items():
            values = {what: seconds / kind.r for what, seconds in clock.values().items()}
            figure.add(kind.name, "skyband", name, **values, bytes=held(monitors[name]))
    yield figure


def ratios(figure: Figure) -> list[list[str]]:
    """Return a row for each kind and stream: its time as a multiple of the plain stream's of the same kind."""
    rows = [["kind", "stream", "plain ones, wall", "plain ones, CPU", "median, CPU", "µs a row", "MB"]]
    for panel in figure.panels():
        found = {p.x: p.values for p in figure.points if p.panel == panel}
        plain = found[PLAIN.name]
        for x, values in found.items():
            times = [number(values[name] / plain[name]) for name in ("mean", "cpu", "cpu median")]
            rows.append([panel, str(x), *times, number(values["mean"] * 1e6), number(values["bytes"] / 1e6)])
    return rows
