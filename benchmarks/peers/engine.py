"""The engine on one core: k = 20, a window of a million rows, batches of 10,000, four columns.

Each competitor gets the same batches, in turns. After the window has filled they are timed over one more window:

* `ra` and `sa` through Monitor.push, changes and all;
* the brute force: a ring of the window's rows; all of it is scored and partitioned after each batch, in numpy;
* DuckDB after each batch: the rows inserted, the old ones deleted, ORDER BY … LIMIT k;
* the machine's limit: copying the batch's columns once, and scoring it once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.streams.generators import independent, tables, weighted_sum, weights
from skyband.core.types import Floats
from skyband.engine.monitor import Monitor

N, BATCH, K, COLUMNS = 1_000_000, 10_000, 20, 4
Step = Callable[[pa.Table], Any]


def monitor(algorithm: str, queries: int, n: int) -> Step:
    watched = Monitor()
    for number, weight in enumerate(weights(queries, COLUMNS)):
        watched.watch(
            f"SELECT x0 FROM s ORDER BY {weighted_sum(weight)} DESC LIMIT {K} WINDOW {n} ROWS "
            f"WITH (algorithm = '{algorithm}')",
            name=f"q{number}",
        )
    return watched.push


def brute_force(n: int) -> Step:
    """Keep the window in a ring and score all of it after each batch."""
    ring = np.zeros((COLUMNS, n))
    weight = weights(1, COLUMNS)[0]
    at = 0

    def step(batch: pa.Table) -> Floats:
        nonlocal at
        for j, column in enumerate(batch.columns):
            ring[j, at : at + batch.num_rows] = column.to_numpy()
        at = (at + batch.num_rows) % n
        score = ring[0] * weight[0]
        for j in range(1, COLUMNS):
            score += ring[j] * weight[j]
        best = np.argpartition(score, n - K)[n - K :]
        return np.sort(score[best])[::-1]

    return step


def duckdb_again(n: int) -> Step | None:
    """Keep the window as a table and run the query after each batch; None if DuckDB isn't installed."""
    try:
        import duckdb
    except ImportError:
        return None
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.execute(f"CREATE TABLE w (seq BIGINT, {', '.join(f'x{j} DOUBLE' for j in range(COLUMNS))})")
    weight = weights(1, COLUMNS)[0]
    seq = 0

    def step(batch: pa.Table) -> Any:
        nonlocal seq
        rows = batch.add_column(0, "seq", pa.array(np.arange(seq, seq + batch.num_rows)))
        seq += batch.num_rows
        connection.register("arriving", rows)
        connection.execute("INSERT INTO w SELECT * FROM arriving")
        connection.execute(f"DELETE FROM w WHERE seq < {seq - n}")
        return connection.execute(
            f"SELECT seq FROM w ORDER BY {weighted_sum(weight)} DESC LIMIT {K}"
        ).fetchall()

    return step


def copy_only() -> Step:
    out = np.empty((COLUMNS, BATCH))

    def step(batch: pa.Table) -> None:
        for j, column in enumerate(batch.columns):
            out[j] = column.to_numpy()

    return step


def score_only() -> Step:
    weight = weights(1, COLUMNS)[0]

    def step(batch: pa.Table) -> Floats:
        score: Floats = batch.column(0).to_numpy() * weight[0]
        for j in range(1, COLUMNS):
            score += batch.column(j).to_numpy() * weight[j]
        return score

    return step


def measure(steps: dict[str, Step], batches: list[pa.Table], warm: int) -> dict[str, list[float]]:
    """Run the competitors in turns; return the CPU seconds of their batches after the first `warm`."""
    spent: dict[str, list[float]] = {name: [] for name in steps}
    order = np.random.default_rng(
        1
    )  # changes in each turn: a contestant that fills the caches precedes all others
    for number, batch in enumerate(batches):
        for name in order.permutation(list(steps)).tolist():
            start = time.process_time()
            steps[name](batch)
            if number >= warm:
                spent[name].append(time.process_time() - start)
    return spent


def show(title: str, spent: dict[str, list[float]], against: str) -> None:
    print(title)
    base = float(np.mean(spent[against]))
    for name, seconds in spent.items():
        mean, p99 = float(np.mean(seconds)), float(np.percentile(seconds, 99))
        print(
            f"  {name:28} {BATCH / mean / 1e6:9.2f} M rows/s   mean {mean * 1e6:10,.0f} us   p99 {p99 * 1e6:10,.0f} us"
            f"   {mean / base:8.2f} x {against}"
        )


def main() -> None:
    filled = N // BATCH
    batches = tables(independent(2 * N, COLUMNS, 3), BATCH)
    single: dict[str, Step] = {
        "ra": monitor("ra", 1, N),
        "sa": monitor("sa", 1, N),
        "brute force": brute_force(N),
        "copy the batch": copy_only(),
        "score the batch": score_only(),
    }
    again = duckdb_again(N)
    if again is not None:
        single["DuckDB asked again"] = again
    spent = measure(single, batches, filled)
    show(
        f"Q = 1, k = {K}, n = {N:,}, batches of {BATCH:,}, d = {COLUMNS} (one window after it filled)",
        spent,
        "ra",
    )
    # alone as well: competitors that read the whole window empty the caches for the next one
    alone = measure({"ra, alone": monitor("ra", 1, N)}, batches * 5, filled)
    show("Q = 1, nothing else in the caches (nine windows)", alone, "ra, alone")
    many: dict[str, Step] = {"ra": monitor("ra", 1000, N)}
    show("Q = 1,000 weighted sums, the same", measure(many, batches, filled), "ra")
