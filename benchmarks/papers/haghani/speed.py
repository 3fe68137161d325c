"""The speed of the engines for objects: our own addition to the fourth paper's experiments, with goals.

The engines alone on one core, in CPU time, each by itself on the same rows: joined streams under three promises, `eaa`
against the paper's sets of ids, and grouped sums over a million ids against DuckDB asked again at every slide. At the
end of the last every sum is compared with math.fsum of the group's rows.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import skyband as sb
from benchmarks.harness.figures import Figure
from benchmarks.papers.haghani.id_sets import IdSets
from skyband.algorithms import OBJECTS
from skyband.algorithms.objects.aggregates import SUM, Aggregate
from skyband.algorithms.objects.sums import Asked
from skyband.core.types import Floats, Ints, Recency

D, K = 4, 20
KINDS = ("once ever", "once per window", "some per window")
ENOUGH = 3  # windows that are measured, after two
ROUNDS = 3  # of which the median counts


def score_of(d: int) -> Callable[..., Any]:
    def score(objects: Any, codes: Any, values: Any, counts: Any) -> Any:
        total = values[0]
        for stream in range(1, d):
            total = total + values[stream]
        return total

    return score


def kept_by(
    name: str, d: int, k: int, counts: str = "sketch", rows: int | None = 1, ever: bool = True
) -> Any:
    """Return an algorithm's state for d streams of values from 0 to 1, each object `rows` times in each."""
    plan = tuple(Aggregate(SUM, 0, stream) for stream in range(d))
    asked = Asked(
        plan, 1, True, d, (1.0,) * d, rows, ever, tuple(range(d)), 1.0, True, options={"counts": counts}
    )
    algorithm = OBJECTS[name]({}, asked)
    algorithm.add(None)
    algorithm.resize(0, k)
    return algorithm.slots[0]


def rows_of(kind: str, n: int, w: int, d: int, rng: np.random.Generator) -> tuple[Ints, Any, int]:
    """Return ids and streams of n rows that keep a promise, and how often an object is in a stream of a window."""
    if kind == "once ever":  # within half a window
        at = (np.sort(rng.random(n // d + 1)) * n)[:, None] + rng.random((n // d + 1, d)) * 0.5 * w
        drawn = np.argsort(at.ravel(), kind="stable")[:n]
    elif (
        kind == "once per window"
    ):  # from a pool of two windows, in turns: a window lies between two rows of an id
        pool = 2 * w // d * d
        turn = rng.permutation(pool)
        parts: list[Any] = []
        while len(parts) * pool < n:
            parts.append(turn)
            half = pool // 2
            turn = np.concatenate([rng.permutation(turn[:half]), rng.permutation(turn[half:])])
        drawn = np.concatenate(parts)[:n]
    else:  # eight rows of an object in a window, in any stream
        drawn = rng.integers(0, w // 8, n) * d + rng.integers(0, d, n)
    most = 1
    if kind == "some per window":
        order = np.argsort(drawn, kind="stable")
        while ((drawn[order[most:]] == drawn[order[:-most]]) & (order[most:] - order[:-most] < w)).any():
            most += 1
    return drawn // d, (drawn % d).astype(np.uint8), most


def rate_of(objects: Any, rows: tuple[Ints, Any, Floats], w: int, step: int, begin: int) -> float:
    """Return rows a CPU second from row `begin` on, with an answer after each step."""
    ids, streams, values = rows
    score, started = score_of(D), 0.0
    n = len(ids) // step * step
    keys, times, seqs = pa.array(ids), np.zeros(step, dtype=np.int64), np.arange(n)
    for at in range(0, n, step):
        if at == begin:
            gc.collect()  # the compiler's garbage must not be collected in the engine's time
            started = time.process_time()
        here = slice(at, at + step)
        objects.expire(Recency(0, max(0, at + step - w)))
        objects.add(keys.slice(at, step), (values[here],), times, seqs[here], streams[here])
        objects.settle(score)
        objects.best(K)
    return (n - begin) / max(1e-9, time.process_time() - started)


def joined(name: str, w: int) -> Figure:
    """Four streams, k = 20, an answer every 1,000 rows."""
    step = min(1000, w // 10)
    figure = Figure(
        "joined", "Rows a second of the engines alone", "object in a stream", "rate", "million rows a CPU second",
        f"{name}: window {w:,} rows, {D} streams, k = {K}, an answer every {step:,} rows, median of {ROUNDS} rounds",
        times=1e-6, form="bars",
    )  # fmt: skip
    for kind in KINDS:
        rng = np.random.default_rng(2)
        n = (2 + ENOUGH) * w
        ids, streams, most = rows_of(kind, n, w, D, rng)
        rows = ids, streams, rng.random(n)
        for who in ("sums", "eaa"):
            rates = [
                rate_of(kept_by(who, D, K, rows=most, ever=kind == "once ever"), rows, w, step, 2 * w)
                for _ in range(ROUNDS)
            ]
            figure.add("four streams", who, kind, rate=float(np.median(rates)))
    return figure


def id_sets(name: str, w: int) -> Figure:
    """eaa against the paper's own structure."""
    step = max(1, w // 10)
    figure = Figure(
        "idsets", "eaa against a set of ids with each instance", "W", "rate", "thousand rows a CPU second",
        f"{name}: window {w:,} rows, {D} streams, k = {K}, an answer every {step:,} rows, an object once ever",
        times=1e-3, form="bars",
    )  # fmt: skip
    rng = np.random.default_rng(5)
    n = (2 + 10 * ENOUGH) * w
    ids, streams, _ = rows_of("once ever", n, w, D, rng)
    values = rng.random(n)
    objects = kept_by("eaa", D, K)
    figure.add("four streams", "eaa", w, rate=rate_of(objects, (ids, streams, values), w, step, 2 * w))
    sets = IdSets(w, D, K, int(ids.max()) + 1)
    short = 3 * w  # it is slow
    sets.push(ids[:1], streams[:1], values[:1])  # compiled
    for at in range(1, 2 * w, step):
        end = min(at + step, 2 * w)
        sets.push(ids[at:end], streams[at:end], values[at:end])
    started = time.process_time()
    for at in range(2 * w, short, step):
        sets.push(ids[at : at + step], streams[at : at + step], values[at : at + step])
        found = sets.top()
    figure.add("four streams", "sets of ids", w, rate=(short - 2 * w) / (time.process_time() - started))
    exact = kept_by("sums", D, K)
    rate_of(exact, (ids[:short], streams[:short], values[:short]), w, step, 0)
    if not np.allclose(found, exact.best(K)[1]):
        raise AssertionError("the sets of ids have a different answer")
    return figure


def ids_of(kind: str, n: int, w: int, rng: np.random.Generator) -> Ints:
    if kind == "uniform":
        return rng.integers(0, w, n)
    weights = np.cumsum(1.0 / np.arange(1, w + 1))
    drawn = np.minimum(np.searchsorted(weights, rng.random(n) * weights[-1]), w - 1)
    return np.asarray(rng.permutation(w)[drawn])


def grouped(name: str, w: int, slides: int) -> Figure:
    """SUM over as many ids as the window has rows: sums, and DuckDB asked again at every slide."""
    step = max(1, w // 100)
    figure = Figure(
        "grouped", "CPU time of a slide and its answer", "ids", "mean", "ms",
        f"{name}: {w:,} ids, window {w:,} rows, k = {K}, slides of {step:,} rows", times=1e3, form="bars",
    )  # fmt: skip
    for kind in ("uniform", "Zipf"):
        rng = np.random.default_rng(3)
        n = 2 * w + max(slides, 20) * step
        ids, values = ids_of(kind, n, w, rng), rng.random(n)
        algorithm = OBJECTS["sums"]({}, Asked((Aggregate(SUM, 0),), 1, False, 1, (None,), plain=(0,)))
        algorithm.add(None)
        objects, spent, again = algorithm.slots[0], [], []
        keys, times, seqs = pa.array(ids), np.zeros(step, dtype=np.int64), np.arange(n)
        for at in range(0, n - step + 1, step):
            here = slice(at, at + step)
            started = time.process_time()
            objects.expire(Recency(0, max(0, at + step - w)))
            objects.add(keys.slice(at, step), (values[here],), times, seqs[here])
            objects.settle(score_of(1))
            good = objects.best(K)[1]
            if at >= w:
                spent.append(time.process_time() - started)
        unequal = sums_unequal(objects, ids[-w:], values[-w:])
        mean = float(np.mean(spent))
        figure.add(kind, "sums", w, mean=mean, rate=step / mean, unequal=unequal)
        figure.add(kind, "sums, by Monitor.push", w, mean=pushed(ids, values, w, step))
        peer = duckdb_again(K)
        for end in range(n - slides * step, n + 1, step):
            if peer is None:
                break
            started = time.process_time()
            found = peer(ids[end - w : end], values[end - w : end])
            again.append(time.process_time() - started)
        if again:
            if not np.allclose(sorted(found), sorted(good.tolist())):
                raise AssertionError("DuckDB has a different answer")
            figure.add(kind, "DuckDB asked again", w, mean=float(np.mean(again)))
    return figure


def pushed(ids: Ints, values: Floats, w: int, step: int) -> float:
    """Return the mean time of a slide through Monitor.push, from a table of rows to a table of changes."""
    monitor = sb.Monitor(schema={"id": "int64", "x": "double"})
    monitor.watch(f"SELECT id FROM s GROUP BY id ORDER BY SUM(x) DESC LIMIT {K} WINDOW {w} ROWS")
    spent = []
    for at in range(0, len(ids) - step + 1, step):
        table = pa.table({"id": ids[at : at + step], "x": values[at : at + step]})
        started = time.process_time()
        monitor.push(table)
        if at >= w:
            spent.append(time.process_time() - started)
    return float(np.mean(spent))


def sums_unequal(objects: Any, ids: Ints, values: Floats) -> int:
    """Return how many of a window's groups differ from math.fsum of their rows in any bit."""
    order = np.argsort(ids, kind="stable")
    first = np.flatnonzero(np.diff(ids[order], prepend=ids[order[0]] - 1))
    held = np.flatnonzero(objects.totals.counts)
    names = np.asarray(objects.keys.values(held))
    sums = dict(zip(names.tolist(), objects.values(held)[0][0].tolist(), strict=True))
    in_order, ends = values[order].tolist(), [*first[1:].tolist(), len(order)]
    wrong = abs(len(sums) - len(first))
    for begin, end in zip(first.tolist(), ends, strict=True):
        wrong += sums.get(int(ids[order[begin]])) != math.fsum(in_order[begin:end])
    return wrong


def duckdb_again(k: int) -> Callable[[Any, Any], list[float]] | None:
    """Return a function that asks DuckDB, with one thread, over arrays; None if it isn't installed."""
    try:
        import duckdb
    except ImportError:
        return None
    connection = duckdb.connect()
    connection.execute("SET threads = 1")

    def ask(ids: Any, values: Any) -> list[float]:
        rows = {"id": ids, "x": values}
        connection.register("rows", pa.table(rows))
        sql = f"SELECT id, sum(x) AS s FROM rows GROUP BY id ORDER BY s DESC LIMIT {k}"
        return [float(row[1]) for row in connection.execute(sql).fetchall()]

    return ask
