"""Algorithms driven by hand, as the papers measure them: the kernels alone, all on the same rows, in turns.

The papers fill the window first and register the queries on it. What they time is the algorithm: rows arrive and
expire, and answers are brought up to date. So here the algorithm objects are called directly, without a monitor, Arrow
or a change table. The columns are float64 arrays, as the monitor would pass them. What the monitor adds is measured
apart (`Pushed`), through Monitor.push with an Arrow table in and the change table out.

In a `race` all competitors get the same batch, one after the other in changing order. Only the CPU seconds of the
process count: other work on the machine slows all of them alike. A competitor that has used up its time is stopped, and
the figures say so.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from benchmarks.harness.figures import statistics
from benchmarks.streams.generators import FUNCTIONS, Drift, independent, weights
from skyband.algorithms import REGISTRY, Arrivals, ListAlgorithm, WindowAlgorithm
from skyband.core.errors import SkybandError
from skyband.core.types import Floats, Ints, Recency
from skyband.engine.monitor import Monitor
from skyband.query.expression import Expression, columns_of, lift, render
from skyband.query.expression.score_space import Space
from skyband.query.sql.parser import parse

LEAST = 3  # cycles of each competitor, however slow
NONE = np.empty(0, dtype=np.int64)


class Rows:
    """A stream made in advance: by rows, as a copy would take them, and by columns."""

    def __init__(self, points: Floats) -> None:
        self.points = np.ascontiguousarray(points)
        self.columns = np.ascontiguousarray(points.T)
        self.columns.flags.writeable = False

    def __len__(self) -> int:
        return len(self.points)

    def cut(self, first: int, last: int) -> tuple[Floats, ...]:
        return tuple(column[first:last] for column in self.columns)

    def table(self, first: int, last: int) -> pa.Table:
        return pa.table({f"x{j}": column for j, column in enumerate(self.cut(first, last))})


@dataclass(frozen=True)
class Queries:
    """Q queries of one shape: the shape, and each query's constants."""

    function: str
    shape: Expression
    constants: Floats
    k: int

    @staticmethod
    def of(function: str, count: int, columns: int, k: int, seed: int = 7) -> Queries:
        drawn = weights(count, columns, seed)
        shape, first = lift(parse(sql(function, drawn[0], k, 1)).score)
        constants = np.tile(np.array(first), (count, 1))
        for j, value in enumerate(drawn[0].tolist()):
            constants[:, first.index(value)] = drawn[:, j]
        return Queries(function, shape, constants, k)

    def __len__(self) -> int:
        return len(self.constants)

    @property
    def columns(self) -> tuple[str, ...]:
        return columns_of(self.shape)


def sql(function: str, weight: Floats, k: int, n: int, extra: str = "", options: str = "") -> str:
    """Return a query as a user would write it."""
    return f"SELECT x0 FROM s {extra}ORDER BY {FUNCTIONS[function](weight)} DESC LIMIT {k} WINDOW {n} ROWS{options}"


class Competitor(Protocol):
    """What runs in a race."""

    name: str

    def step(self, rows: Rows, first: int, last: int) -> float:
        """Take the next rows, from `first` to `last`; return the CPU seconds that it took."""


@dataclass(frozen=True)
class Contestant:
    """An algorithm of the registry with options, and its name in the tables."""

    name: str
    algorithm: str
    options: tuple[tuple[str, float], ...] = ()


# The paper's sma looks for queries in the cell of every arrival, and its lists begin with exactly k rows. The tuned one
# has a flag for cells without queries, and heightmap's slack: lists begin with three times k rows.
PAPER_SMA = Contestant("sma", "sma", (("flag", 0.0), ("slack", 0.0)))
TUNED_SMA = Contestant("sma, tuned", "sma", (("flag", 1.0), ("slack", 2.0)))


def prepare(name: str, options: Mapping[str, float], queries: Queries, n: int, label: str = "") -> Engine:
    """Return an algorithm of the registry, compiled and ready to be filled."""
    rehearse(name, queries.function, len(queries.columns))
    return _made(name, options, queries, n, label)


def _made(name: str, options: Mapping[str, float], queries: Queries, n: int, label: str = "") -> Engine:
    kind = REGISTRY[name]
    make = WindowEngine if issubclass(kind, WindowAlgorithm) else ListEngine
    engine = make(label or name, kind, options, queries, n)
    at_once(engine.algorithm)
    return engine


@cache
def rehearse(name: str, function: str, columns: int) -> None:
    """Compile an algorithm's kernels for a shape, by a short run on falling scores that isn't timed."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return
    n, r, cycles = 2_000, 200, 30
    points = independent(n + cycles * r, columns, 1)
    rows = Rows(Drift("", fall=0.2).apply(points, n))
    # small blocks, or a window this short would never fill one
    options = {"block": 128.0} if "block" in REGISTRY[name].card.options else {}
    engine = _made(name, options, Queries.of(function, 40, columns, 5), n)
    engine.fill(rows, r)
    for first in range(n, len(rows), r):
        engine.step(rows, first, first + r)


def at_once(algorithm: Any) -> None:
    """Set an algorithm's counts of scores so high that it compiles a shape's kernels at once.

    Some algorithms compile them only after many scores, since few don't pay for the compiler. The time after that is
    what is measured here.
    """
    for name in ("scored", "scored_rows", "computed"):
        if isinstance(getattr(algorithm, name, None), int):
            setattr(algorithm, name, 10**12)


class Engine:
    """One algorithm object, its slots and its window of n rows."""

    def __init__(self, label: str, kind: Any, options: Mapping[str, float], queries: Queries, n: int) -> None:
        self.name, self.queries, self.n = label, queries, n
        self.slots: list[int] = []
        self.opening = 0.0  # CPU seconds until all queries had their first answer on the full window
        self.algorithm = self.make(kind, options)

    def make(self, kind: Any, options: Mapping[str, float]) -> Any:
        raise NotImplementedError

    def fill(self, rows: Rows, batch: int) -> None:
        """Take the first n rows, and then the queries."""
        raise NotImplementedError

    def step(self, rows: Rows, first: int, last: int) -> float:
        raise NotImplementedError

    def horizons(self, last: int) -> tuple[Ints, Ints]:
        """Return the horizon of each query: its window begins n rows before `last`."""
        count = len(self.algorithm.ks)
        return np.zeros(count, dtype=np.int64), np.full(count, last - self.n, dtype=np.int64)

    def kept(self) -> float:
        """Return the rows that a query's list holds, on average."""
        return float(np.mean([self.algorithm.size(slot)[0] for slot in self.slots]))

    def list_bytes(self) -> int:
        return int(sum(self.algorithm.size(slot)[1] for slot in self.slots))

    def window_bytes(self) -> int:
        """Return the bytes of rows and index, without the queries' lists."""
        return 0

    def top(self, query: int, last: int) -> list[tuple[float, int]]:
        """Return a query's answer after `last` rows: scores and seqs."""
        horizon = Recency(0, last - self.n)
        good, _, seq = self.algorithm.top(self.slots[query], self.queries.k, horizon)
        return list(zip(good.tolist(), seq.tolist(), strict=True))

    def counters(self) -> dict[str, int]:
        """Return the counters, summed over all queries; a count that all of them share was counted once for all."""
        found: dict[str, list[int]] = {}
        for slot in self.slots:
            for name, count in self.algorithm.counters(slot).items():
                found.setdefault(name, []).append(count)
        return {name: counts[0] if len(set(counts)) == 1 else sum(counts) for name, counts in found.items()}


class WindowEngine(Engine):
    """An algorithm that keeps the window's rows: it is filled before the queries come."""

    def make(self, kind: Any, options: Mapping[str, float]) -> WindowAlgorithm:
        made: WindowAlgorithm = kind(options, Space(self.queries.shape, self.queries.columns, 1.0))
        return made

    def fill(self, rows: Rows, batch: int) -> None:
        seq = np.arange(self.n, dtype=np.int64)
        self.algorithm.fill(rows.cut(0, self.n), np.zeros(self.n, dtype=np.int64), seq)
        start = time.process_time()
        for constants in self.queries.constants:
            self.slots.append(self.algorithm.add(self.queries.k, tuple(constants.tolist()), Recency(0, 0)))
        self.opening = time.process_time() - start

    def step(self, rows: Rows, first: int, last: int) -> float:
        columns = rows.cut(first, last)
        at, seq = np.zeros(last - first, dtype=np.int64), np.arange(first, last, dtype=np.int64)
        edges = self.horizons(last)
        start = time.process_time()
        self.algorithm.step(columns, at, seq, *edges, NONE, NONE)
        return time.process_time() - start

    def window_bytes(self) -> int:
        return int(self.algorithm.window_size()[1])


class ListEngine(Engine):
    """An algorithm that keeps candidates only: its queries come first, then the window's rows."""

    def make(self, kind: Any, options: Mapping[str, float]) -> ListAlgorithm:
        made: ListAlgorithm = kind(options)
        return made

    def fill(self, rows: Rows, batch: int) -> None:
        start = time.process_time()
        self.slots = [self.algorithm.add(self.queries.k) for _ in range(len(self.queries))]
        for first in range(0, self.n, batch):
            self.step(rows, first, min(first + batch, self.n))
        self.opening = time.process_time() - start

    def step(self, rows: Rows, first: int, last: int) -> float:
        # newest first, as the monitor hands rows to lists
        columns = tuple(np.ascontiguousarray(column[::-1]) for column in rows.cut(first, last))
        for column in columns:
            column.flags.writeable = False
        count = last - first
        arrivals = Arrivals(
            time=np.zeros(count, dtype=np.int64),
            seq=np.arange(last - 1, first - 1, -1, dtype=np.int64),
            place=np.arange(count),
            mark=np.zeros(count, dtype=np.uint8),
            good=lambda slot: self._good(columns, slot),
            constants=self.queries.constants,
            sign=1.0,
            rendered=render(self.queries.shape, self.queries.columns),
            columns=lambda: columns,
        )
        edges = self.horizons(last)
        start = time.process_time()
        self.algorithm.step(arrivals, *edges, NONE, NONE)
        return time.process_time() - start

    def _good(self, columns: tuple[Floats, ...], slot: int) -> Floats:
        space = Space(self.queries.shape, self.queries.columns, 1.0)
        return space.good(columns, self.queries.constants[slot])


class Pushed:
    """The whole way through Monitor.push: an Arrow table in, the change table out."""

    def __init__(self, label: str, texts: Sequence[str], **monitor: Any) -> None:
        self.name = label
        self.monitor = Monitor(**monitor)
        self.kernel: list[float] = []  # CPU seconds of the algorithms themselves, one for each timed batch
        self._within = 0.0
        self.changes = 0
        for number, text in enumerate(texts):
            self.monitor.watch(text, name=f"q{number}")

    def algorithms(self) -> list[Any]:
        return [group.algorithm for stream in self.monitor.streams.values() for group in stream.groups]

    def chosen(self) -> str:
        """Return the algorithm that answers."""
        names = [g.algorithm_name for stream in self.monitor.streams.values() for g in stream.groups]
        return ", ".join(dict.fromkeys(names))

    def fill(self, rows: Rows, batch: int, n: int, begin: int = 0) -> None:
        """Push the first n rows; the first batch has `begin` rows, since the planner uses its size."""
        edges = [0, *range(begin or batch, n, batch), n]
        for first, last in pairwise(edges):
            self.monitor.push(rows.table(first, last))

    def stopwatch(self) -> None:
        """From now on, note the algorithms' part of each batch: the step, and the comparison of the tops (or both in
        one call, and what is left to do after it)."""
        for algorithm in self.algorithms():
            at_once(algorithm)
            for name in ("step", "report", "go", "finish"):
                if hasattr(algorithm, name):
                    setattr(algorithm, name, self._noted(getattr(algorithm, name)))

    def _noted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any) -> Any:
            start = time.process_time()
            try:
                return method(*arguments)
            finally:
                self._within += time.process_time() - start

        return noted

    def step(self, rows: Rows, first: int, last: int) -> float:
        table = rows.table(first, last)
        self._within = 0.0
        start = time.process_time()
        changes = self.monitor.push(table)
        spent = time.process_time() - start
        self.changes += changes.num_rows
        self.kernel.append(self._within)
        return spent


class Own:
    """A competitor with a stream of its own, such as the same rows at another level."""

    def __init__(self, label: str, who: Competitor, rows: Rows) -> None:
        self.name, self.who, self.rows = label, who, rows

    def step(self, rows: Rows, first: int, last: int) -> float:
        return self.who.step(self.rows, first, last)


class Copy:
    """One memcpy of the batch's rows as a row-major block, into a ring of the window's size: the yardstick."""

    def __init__(self, n: int, columns: int, label: str = "memcpy") -> None:
        self.name, self.n = label, n
        self.ring = np.zeros((n, columns))

    def fill(self, rows: Rows) -> None:
        self.ring[:] = rows.points[: self.n]

    def step(self, rows: Rows, first: int, last: int) -> float:
        at = first % self.n
        block, place = rows.points[first:last], self.ring[at : at + last - first]
        if len(place) < len(block):  # at the ring's end: the same cost in one piece
            place = self.ring[: last - first]
        start = time.process_time()
        place[:] = block
        return time.process_time() - start


@dataclass
class Spent:
    """The CPU seconds of one competitor's cycles, and what `look` returned after each."""

    seconds: list[float] = field(default_factory=list)
    settling: float = 0.0  # what the first cycles took, which aren't counted
    stopped: bool = False
    looked: list[float] = field(default_factory=list)

    def values(self) -> dict[str, float]:
        found = statistics(self.seconds)
        found["cycles"] = float(len(self.seconds))
        if self.stopped:
            found["stopped"] = 1.0
        return found


def race(
    competitors: Sequence[Competitor],
    rows: Rows,
    first: int,
    batch: int,
    cycles: int,
    budget: float = np.inf,
    look: Callable[[Competitor], float] | None = None,
    warm: int = 0,
    turn: int = 1,
    seed: int = 1,
) -> dict[str, Spent]:
    """Give each competitor `cycles` batches from row `first` on, in turns of `turn` batches.

    The first `warm` cycles aren't counted: an algorithm that postpones work for new queries does it there. A competitor
    that has used more than `budget` CPU seconds is stopped. `look` is called after each cycle and isn't timed.
    """
    spent = {competitor.name: Spent() for competitor in competitors}
    order = np.random.default_rng(seed)  # changes in each turn: one that fills the caches precedes all others
    gc.collect()
    gc.disable()
    try:
        for begin in range(0, cycles, turn):
            for index in order.permutation(len(competitors)).tolist():
                competitor = competitors[index]
                own = spent[competitor.name]
                for cycle in range(begin, min(begin + turn, cycles)):
                    if own.stopped:
                        break
                    at = first + cycle * batch
                    taken = competitor.step(rows, at, at + batch)
                    if cycle < warm:
                        own.settling += taken
                    else:
                        own.seconds.append(taken)
                    if look is not None:
                        own.looked.append(look(competitor))
                    own.stopped = warm + LEAST <= cycle + 1 < cycles and sum(own.seconds) > budget
    finally:
        gc.enable()
    return spent


def agree(engines: Sequence[Engine], last: int, most: int = 20) -> None:
    """Check that all have the same answers to some queries, to the last bit: wrong answers have no figures."""
    if not engines:
        return
    count = len(engines[0].slots)
    for query in range(0, count, max(1, count // most)):
        first = engines[0].top(query, last)
        for other in engines[1:]:
            if other.top(query, last) != first:
                raise SkybandError(
                    f"{engines[0].name} and {other.name} have different answers to query {query} after {last:,} rows: "
                    "one of them is wrong, report it with this command."
                )


def joined(parts: Sequence[Spent]) -> Spent:
    """Return the cycles of several seeds as one."""
    whole = Spent()
    for part in parts:
        whole.seconds += part.seconds
        whole.looked += part.looked
        whole.settling += part.settling
        whole.stopped |= part.stopped
    return whole
