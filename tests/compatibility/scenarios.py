"""What was done to monitors when the fixtures were written: streams, and the acts on each of them.

Everything here is drawn from `random.Random.random`, whose numbers Python never changes. A scenario that has fixtures
must stay as it is: another draw is another stream. The name of a scenario is its seed.
"""

from __future__ import annotations

import datetime as dt
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

import skyband as sb

EPOCH = dt.datetime(2024, 2, 29, 23, 59, 50)
SPECIAL = (0.0, -0.0, math.inf, -math.inf, math.nan, None)
TIMES = {"none": None, "number": pa.float64(), "whole": pa.int64(), "timestamp": pa.timestamp("us")}
SIZES = (1, 5, 30, 1, 2, 60, 0, 13, 1, 24, 3, 45)


# -- acts ----------------------------------------------------------------------------------------------------


class Push(NamedTuple):
    batch: Any
    stream: str | None = None

    def do(self, monitor: sb.Monitor, key: str | None = None) -> pa.Table:
        return monitor.push(self.batch, stream=self.stream, key=key)


class Advance(NamedTuple):
    time: Any

    def do(self, monitor: sb.Monitor, key: str | None = None) -> pa.Table:
        return monitor.advance(self.time)


class Watch(NamedTuple):
    name: str
    query: Any

    def do(self, monitor: sb.Monitor, key: str | None = None) -> None:
        monitor.watch(self.query, name=self.name)


class Change(NamedTuple):
    name: str
    k: int | None = None
    window: str | None = None

    def do(self, monitor: sb.Monitor, key: str | None = None) -> None:
        wanted = {"k": self.k, "window": self.window}
        monitor.watches[self.name].change(**{part: v for part, v in wanted.items() if v is not None})


class Drop(NamedTuple):
    name: str

    def do(self, monitor: sb.Monitor, key: str | None = None) -> None:
        monitor.drop(self.name)


class Ask(NamedTuple):
    """A snapshot: another k and window than those watched."""

    name: str
    k: int | None = None
    window: str | None = None

    def do(self, monitor: sb.Monitor, key: str | None = None) -> pa.Table:
        wanted = {"k": self.k, "window": self.window}
        return monitor.watches[self.name].top(**{part: v for part, v in wanted.items() if v is not None})


Act = Push | Advance | Watch | Change | Drop | Ask


@dataclass(frozen=True)
class Scenario:
    name: str
    options: Mapping[str, Any]
    acts: Sequence[Act]
    refused: bool = False  # some acts are refused on purpose

    def monitor(self, **more: Any) -> sb.Monitor:
        return sb.Monitor(**self.options, **more)

    @property
    def middle(self) -> int:
        """The number of acts after which the monitor was saved."""
        return len(self.acts) * 3 // 5


# -- rows ----------------------------------------------------------------------------------------------------


@dataclass
class Source:
    """Rows that go up and down, tie, lack values, and come late."""

    name: str
    time: str = "none"
    more: Mapping[str, Callable[[Source], Any]] = field(default_factory=dict)
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    late: float = 0.03
    special: float = 0.06
    clock: float = 0.0
    number: int = 0

    def __post_init__(self) -> None:
        self.random = Random(zlib.crc32(self.name.encode())).random

    def below(self, n: int) -> int:
        return int(self.random() * n)

    def of(self, values: Sequence[Any]) -> Any:
        return values[self.below(len(values))]

    @property
    def schema(self) -> pa.Schema:
        fields = [("x", pa.float64()), ("y", pa.float64()), ("c", pa.string()), *self.types.items()]
        return pa.schema([*fields, *([("t", TIMES[self.time])] if self.time != "none" else [])])

    def x(self) -> float | None:
        if self.random() < self.special:
            return self.of(SPECIAL)
        i = self.number
        shape = i // 60 % 5
        if shape == 0:
            return round(self.random() * 4 - 2, 3)
        if shape == 1:
            return float(self.below(4))
        if shape == 2:
            return 8 - (i % 60) / 8
        return float(i % 4) if shape == 3 else (i % 60) / 16

    def moment(self, time: float) -> Any:
        if self.time == "timestamp":
            return EPOCH + dt.timedelta(seconds=time)
        return int(time) if self.time == "whole" else time

    def row(self) -> dict[str, Any]:
        self.number += 1
        y = self.of((0.0, 1.0, 2.0, 2.0, -1.0, None)) if self.random() < 0.5 else round(self.random() * 3, 2)
        row = {"x": self.x(), "y": y, "c": self.of(("a", "a", "b", "", "ä€", None))}
        for name, draw in self.more.items():
            row[name] = draw(self)
        if self.time != "none":
            self.clock += self.of((0, 0, 0, 0.25, 0.25, 0.5))
            back = self.of((0, 0, 0, 0, 0.25, 1, 2))
            if self.random() < self.late:
                back = self.of((4, 12, 300))
            row["t"] = None if self.random() < self.late / 4 else self.moment(self.clock - back)
        return row

    def rows(self, count: int) -> list[dict[str, Any]]:
        return [self.row() for _ in range(count)]

    def batch(self, count: int, form: int = 0) -> Any:
        """So many rows: a table, in two chunks, as a record batch, as columns, or as a list of rows."""
        rows = self.rows(count)
        table = pa.Table.from_pylist(rows, schema=self.schema)
        if form == 1:
            return pa.concat_tables([table.slice(0, count // 2), table.slice(count // 2)])
        if form == 2:
            return pa.RecordBatch.from_pylist(rows, schema=self.schema)
        if form == 3:
            return {name: [row[name] for row in rows] for name in self.schema.names}
        return rows if form == 4 and rows else table


def steps(source: Source, count: int, stream: str | None = None, forms: int = 1) -> list[Act]:
    """Pushed batches of all sizes."""
    return [
        Push(source.batch(SIZES[at % len(SIZES)], at % forms if at % 3 == 2 else 0), stream)
        for at in range(count)
    ]


def between(acts: Sequence[Act], more: Mapping[int, Sequence[Act]]) -> list[Act]:
    """The acts with more of them before some."""
    return [each for at, act in enumerate(acts) for each in (*more.get(at, ()), act)]


def topk(score: str, k: int, window: str, order: str = "DESC", where: str = "", using: str = "") -> str:
    chosen = f" WHERE {where}" if where else ""
    options = f" WITH ({using})" if using else ""
    return f"SELECT * FROM s{chosen} ORDER BY {score} {order} LIMIT {k} WINDOW {window}{options}"


def above(score: str, window: str, beyond: str = "> 1", where: str = "", using: str = "") -> str:
    also, options = f" AND {where}" if where else "", f" WITH ({using})" if using else ""
    return f"SELECT x, c FROM s WHERE {score} {beyond}{also} WINDOW {window}{options}"


# -- rows: every algorithm -----------------------------------------------------------------------------------

MONOTONE = ("tsl", "heightmap")  # they take no other scores
OPTIONS = {
    "ra": "gamma = 0.2, limit = 2",
    "pa": "error = 0.2",
    "tma": "cells = 3",
    "sma": "cells = 4, slack = 1",
    "cpm": "cells = 3",
    "snn": "cells = 4, slack = 1.5",
    "tsl": "kmax = 8",
    "heightmap": "cells = 256, block = 64",
    "sasf": "buffer = 0.3",
    "sarf": "buffer = 0.3",
    "sapf": "buffer = 0.3, limit = 3",
    "rasf": "buffer = 0.3",
    "rarf": "buffer = 0.3",
    "rapf": "buffer = 0.3",
}
ROWS = (
    "sa", "ra", "lazy", "pa", "sasf", "sarf", "sapf", "rasf", "rarf", "rapf",
    "tsl", "tma", "sma", "heightmap", "cpm", "snn",
)  # fmt: skip


def title(name: str, time: str) -> str:
    return f"{name}-{'plain' if time == 'none' else 'timed'}"


def of_rows(name: str, time: str) -> Scenario:
    """One algorithm's top-k: shared scores, several k and windows, watches that come, change and go."""
    timed = time != "none"
    source = Source(title(name, time), time)
    named = f"algorithm = '{name}'"
    tuned = f"{named}, {OPTIONS[name]}" if name in OPTIONS else named
    short, long = ("3 SECONDS", "9 SECONDS") if timed else ("15 ROWS", "50 ROWS")
    third = "2 * x - y" if name in MONOTONE else "least(x, y) ^ 2"
    begin = [
        Watch("first", topk("x", 3, "20 ROWS", using=named)),
        Watch("wide", topk("x", 7, long, using=named)),
        Watch("plane", topk("2 * x - y", 4, short, "ASC", using=tuned)),
    ]
    acts = between(
        steps(source, 30, forms=5),
        {
            0: begin,
            4: [Watch("chosen", topk("2 * x - y", 2, "20 ROWS", "ASC", "c = 'a'", named))],
            7: [Watch("third", topk(third, 5, "30 ROWS", "ASC" if name in MONOTONE else "DESC", using=named))],
            10: [Change("first", k=5), Ask("wide", 2, short), Change("plane", k=2)],
            13: [
                Change("wide", window="2 SECONDS" if timed else "12 ROWS"),
                Watch("same", topk("x", 3, "20 ROWS", using=named)),
            ],
            16: [Drop("chosen"), Change("first", window="40 ROWS")],
            17: [Change("plane", k=6)],
            20: [
                Watch("chosen", topk("x", 3, short, where="y > 1", using=named)),
                Change("same", k=1, window="6 ROWS"),
            ],
            23: [Drop("wide"), Ask("first", 1)],
            26: [Advance(source.moment(source.clock + 2))] if timed else [],
        },
    )  # fmt: skip
    options: dict[str, Any] = {"schema": source.schema, "time": "t" if timed else None}
    return Scenario(source.name, options, acts)


def thresholds(name: str, time: str) -> Scenario:
    source, using = Source(title(f"beyond-{name}", time), time), f"algorithm = '{name}'"
    timed = time != "none"
    acts = between(
        steps(source, 30, forms=5),
        {
            0: [
                Watch("above", above("x", "20 ROWS", using=using)),
                Watch("below", above("2 * x - y", "4 SECONDS" if timed else "30 ROWS", "<= 0.5", using=using)),
            ],
            6: [
                Watch("chosen", above("x", "20 ROWS", "> 1", "c = 'a'", using)),
                Watch("higher", above("x", "40 ROWS", "> 1.5", "", using)),
            ],
            12: [Change("above", window="10 ROWS"), Drop("chosen")],
            15: [Watch("least", above("least(x, y) ^ 2", "20 ROWS", ">= 1", "", using))],
            18: [Change("above", window="30 ROWS"), Ask("below")],
            25: [Advance(source.moment(source.clock + 2))] if timed else [],
        },
    )  # fmt: skip
    options: dict[str, Any] = {"schema": source.schema, "time": "t" if timed else None}
    return Scenario(source.name, options, acts)


def default(time: str, retain: str | None, forms: int) -> Scenario:
    """What the planner takes, with retained rows and without."""
    source = Source(f"default-{time}{'-retained' if retain else ''}", time)
    timed = time != "none"
    short, long = ("3 SECONDS", "9 SECONDS") if timed else ("15 ROWS", "50 ROWS")
    acts = between(
        steps(source, 36, forms=forms),
        {
            3: [
                Watch("x", topk("x", 4, "20 ROWS")),
                Watch('of "seconds", ünïcode', topk("x / y", 5, short, "ASC")),
                Watch("beyond", above("x", long, "> 1", "c = 'a'")),
            ],
            8: [Watch("root", topk("abs(x - 1)", 3, "30 ROWS", "ASC", "NOT (x < 1 OR c <> 'a')"))],
            12: [Change("x", k=9), Change("beyond", window="8 ROWS" if not timed else "2 SECONDS")],
            15: [Ask("x", 2), Ask("root", 2, "10 ROWS")],
            18: [Watch("second", topk("2 * x - y", 6, long)), Watch("x too", topk("x", 2, "12 ROWS"))],
            20: [Drop("x"), Change("second", window="25 ROWS")],
            22: [Watch("x", topk("x + y", 3, "20 ROWS", "ASC"))],
            26: [Advance(source.moment(source.clock + 1)), Advance(source.moment(0.0))] if timed else [],
            28: [Change("x", k=5, window="60 ROWS")],
            32: [Advance(source.moment(source.clock + 100))] if timed else [],
        },
    )  # fmt: skip
    options = {"time": "t" if timed else None, "retain": retain, "schema": source.schema}
    return Scenario(source.name, options, acts)


def unfit_rows() -> Scenario:
    """Rows that don't fit: types, times, late ones, missing columns; and acts that are refused."""
    source = Source("unfit-rows", "number", late=0.15)
    odd = {"t": [1.0, "soon", None, 2.0], "x": [1.0, 2.0, 3.0, "much"], "y": [1.0] * 4, "c": ["a"] * 4}
    acts = between(
        steps(source, 24, forms=5),
        {
            1: [Push({"t": [0.5], "x": [3.0]})],
            2: [Watch("x", topk("x", 3, "4 SECONDS")), Watch("y", topk("y", 3, "15 ROWS", where="y > 1"))],
            5: [Push(odd), Push([{"t": None, "x": 1.0}, {"t": 4.0, "x": 9.0, "y": None, "c": "b"}])],
            9: [
                Watch("x", topk("x", 3, "4 SECONDS")),
                Watch("no", topk("c", 3, "4 SECONDS")),
                Watch("no", topk("z", 3, "4 SECONDS")),
                Change("x", k=0),
                Ask("x", 50, "1 HOUR"),
            ],
            12: [Push({"t": [9.0, 9.0], "x": [True, "a"], "y": [1, 2], "c": ["a", "b"]})],
            15: [Push({"t": ["x", "y"], "x": [1.0, 2.0]}), Drop("nothing")],
            20: [Advance(source.clock + 50)],
        },
    )
    options = {"time": "t", "schema": source.schema}
    return Scenario(source.name, options, acts, refused=True)


def many() -> Scenario:
    """Some dozens of queries of one shape, which share lists, scores and slots."""
    source = Source("many-queries", "number")
    begin: list[Act] = []
    for number in range(60):
        a, b, k, n = 1 + source.below(3), 1 + source.below(3), 1 + source.below(5), 10 + source.below(30)
        window = f"{n} ROWS" if number % 2 else f"{n // 5} SECONDS"
        begin.append(Watch(f"q{number}", topk(f"{a} * x - {b} * y", k, window, "ASC")))
    late = [
        Watch(f"more {number}", topk(f"{number + 1} * x - y", 2, "20 ROWS", "ASC")) for number in range(5)
    ]
    acts = between(
        steps(source, 20),
        {
            0: begin,
            5: [Drop(f"q{number}") for number in range(0, 20, 3)],
            9: late,
            12: [Change(f"q{number}", k=3) for number in range(1, 20, 3)],
        },
    )
    return Scenario(source.name, {"time": "t", "schema": source.schema}, acts)


def inferred() -> Scenario:
    """A stream without a declared schema: the first rows show it, later ones bring a column and lack others."""
    source = Source("inferred", "timestamp", special=0.0)
    first = {name: values for name, values in source.batch(30, 3).items()}
    source.special = 0.06
    acts = between(
        [Push(first), *steps(source, 24, forms=5)],
        {
            0: [Watch("x", topk("x", 3, "20 ROWS"))],
            5: [Push({"t": [source.moment(source.clock)] * 2, "x": [2.5, 9.5], "new": ["a", None]})],
            9: [Watch("new", topk("x", 2, "30 ROWS", where="c = 'a'")), Change("x", k=4)],
            12: [Push([{"t": source.moment(source.clock), "x": "text", "new": "b"}]), Push({"x": [1.0]})],
        },
    )
    return Scenario(source.name, {"time": "t", "retain": "15 rows"}, acts)


def allowed() -> Scenario:
    """An error is allowed: an exact algorithm takes over where rows don't come in random order."""
    source = Source("allowed-error", "number")
    acts = between(
        steps(source, 30),
        {
            0: [
                Watch("some", topk("x", 5, "60 ROWS", using="error = 0.2")),
                Watch("more", topk("x", 2, "9 SECONDS", "ASC", using="error = 0.05, additional = 1")),
            ],
            9: [Watch("late", topk("2 * x - y", 3, "30 ROWS", "ASC", using="error = 0.3"))],
            14: [Change("some", k=3), Change("more", window="4 SECONDS")],
        },
    )
    return Scenario(source.name, {"time": "t", "schema": source.schema}, acts)


LONG = ("ra", "lazy", "rarf", "rapf", "pa", "tsl", "tma", "sma", "heightmap", "cpm", "snn")


def long(name: str) -> Scenario:
    """Some thousand rows, so that lists run short, blocks fill, and indexes learn where the rows are."""
    source = Source(f"long-{name}", special=0.01)
    tuned = f"algorithm = '{name}'" + (", cells = 256, block = 64" if name == "heightmap" else "")
    begin: list[Act] = []
    for number in range(12):
        score, order = ("x", "DESC") if number % 4 == 0 else (f"{number} * x - y", "ASC")
        window, k = f"{200 + 50 * source.below(12)} ROWS", 1 + source.below(8)
        begin.append(Watch(f"q{number}", topk(score, k, window, order, using=tuned)))
    pushes = [Push(source.batch(90 + source.below(120))) for _ in range(22)]
    acts = between(pushes, {0: begin, 9: [Change("q0", k=2), Change("q1", k=12), Drop("q2")]})
    return Scenario(source.name, {"schema": source.schema}, acts)


def near(name: str) -> Scenario:
    """Points near to others, by the builder and by `dist`."""
    source = Source(f"near-{name}", special=0.02)
    using = f"algorithm = '{name}'"
    places = [(0.25, 0.5), (1.0, 1.0), (8.0, -3.0), (0.0, 0.0)]
    begin: list[Act] = [
        Watch(f"at {place}", sb.nearest({"x": x, "y": y}, 2 + place, "30 rows", algorithm=name))
        for place, (x, y) in enumerate(places)
    ]
    begin.append(Watch("sql", topk("dist(x, y, 0.3, 0.7)", 4, "20 ROWS", "ASC", using=using)))
    acts = between(
        steps(source, 26),
        {0: begin, 9: [Drop("at 1"), Change("at 2", k=2)], 14: [Change("sql", k=6, window="25 ROWS")]},
    )
    return Scenario(source.name, {"schema": source.schema}, acts)


def expressions() -> Scenario:
    """One query for each function and operator, by the algorithm that takes any score."""
    source = Source(
        "expressions",
        "timestamp",
        {"n": lambda s: s.of((1, 2, 3, -4, 2**53 + 1, 2**53, None))},
        {"n": pa.int64()},
    )
    scores = (
        "x + y", "x - y", "x * y", "x / y", "x ^ 2", "-x ^ 2", "x ^ y", "abs(x)", "sqrt(x)",
        "exp(x)", "ln(x)", "pow(x, 2)", "least(x, y, 1)", "greatest(x, y, 1)", "dist(x, y, 1, 2)", "n", "n * x",
        "t", "x + 0 * y",
    )  # fmt: skip
    wheres = (
        "x > y", "x >= 1 AND y < 2", "x = 1 OR y = 2", "NOT x <> 1", "x BETWEEN 0 AND 2", "c IN ('a', 'ä€')",
        "n = 9007199254740993", "c < 'b'", "c <> 'a' OR x > 1", "n NOT IN (1, 2)",
    )  # fmt: skip
    begin: list[Act] = []
    for place, score in enumerate(scores):
        using = "" if score in ("x", "x + y") else "algorithm = 'ra'"
        begin.append(Watch(score, topk(score, 3, "25 ROWS", ("DESC", "ASC")[place % 2], using=using)))
    for where in wheres:
        begin.append(Watch(where, topk("x", 3, "4 SECONDS", where=where)))
    for text in ("SELECT x + y AS s, x * 2, c FROM s ORDER BY y DESC LIMIT 4 WINDOW 20 ROWS",):
        begin.append(Watch("selected", text))
    return Scenario(source.name, {"time": "t", "schema": source.schema}, [*begin, *steps(source, 20)])


def types() -> Scenario:
    """Columns of every type, chosen by and shown."""
    more: dict[str, Callable[[Source], Any]] = {
        "i": lambda s: s.of((1, -2, 3, None)),
        "u": lambda s: s.below(200),
        "b": lambda s: s.of((True, False, None)),
        "d": lambda s: dt.date(2024, 2, 27) + dt.timedelta(days=s.below(5)),
        "e": lambda s: Decimal(s.below(1000)) / 4,
        "f": lambda s: round(s.random(), 1),
        "w": lambda s: EPOCH + dt.timedelta(seconds=s.below(60)),
        "l": lambda s: s.of(("long", "text", None)),
        "k": lambda s: s.of(("one", "two")),
    }
    kinds = {
        "i": pa.int32(), "u": pa.uint8(), "b": pa.bool_(), "d": pa.date32(), "e": pa.decimal128(9, 2),
        "f": pa.float32(), "w": pa.timestamp("ms", "UTC"), "l": pa.large_string(),
        "k": pa.dictionary(pa.int32(), pa.string()),
    }  # fmt: skip
    source = Source("types", "timestamp", more, kinds)
    using = "algorithm = 'ra'"
    begin = [
        Watch(text, topk(text, 3, "20 ROWS", "ASC", using=using))
        for text in ("i", "u", "e", "f", "w", "i + u + f")
    ]
    wheres = (
        "b",
        "d = '2024-02-28'",
        "e > 100.5",
        "l = 'long'",
        "k <> 'two'",
        "w < '2024-03-01 00:00:10'",
        "i = 3",
    )
    begin += [Watch(f"where {text}", topk("x", 3, "20 ROWS", where=text)) for text in wheres]
    return Scenario(source.name, {"time": "t", "schema": source.schema}, [*begin, *steps(source, 20)])


# -- update streams ------------------------------------------------------------------------------------------

WORDS = ("insert", "insert", "UPDATE", "u", "c", "r", "delete", "D", "d", "gone", None)


def updates(time: str, text: bool, op: bool) -> Scenario:
    keys = ("a", "b", "c", "", "ä", "f", "g", None) if text else (1, 2, 3, -4, 5, 6, 7, 8, None)
    more: dict[str, Callable[[Source], Any]] = {"id": lambda s: s.of(keys)}
    kinds = {"id": pa.string() if text else pa.int64()}
    if op:
        more["op"], kinds["op"] = lambda s: s.of(WORDS), pa.string()
    source = Source(f"updates-{time}-{'text' if text else 'int'}{'-op' if op else ''}", time, more, kinds)
    timed = time != "none"
    window = "4 SECONDS" if timed else "30 ROWS"
    groups = "SELECT id, COUNT(*) FROM s GROUP BY id ORDER BY MAX(y) DESC LIMIT 3 WINDOW"
    sums = "SELECT c, SUM(x) FROM s GROUP BY c ORDER BY SUM(x) LIMIT 2 WINDOW 25 ROWS"
    acts = between(
        steps(source, 30, forms=5),
        {
            0: [
                Watch("x", topk("x", 3, "20 ROWS")),
                Watch("plane", topk("2 * x - y", 3, window, "ASC")),
                Watch("beyond", above("x", window)),
                Watch("counted", f"{groups} {window}"),
            ],
            8: [Watch("sums", sums), Drop("beyond")],
            12: [Change("x", k=5), Change("plane", window="10 ROWS")],
            16: [Watch("tsl", topk("x", 4, "15 ROWS", "ASC", using="algorithm = 'tsl'"))],
            22: [Change("x", window="30 ROWS"), Ask("plane", 1)],
        },
    )  # fmt: skip
    options = {
        "time": "t" if timed else None,
        "schema": source.schema,
        "key": "id",
        "op": "op" if op else None,
        "retain": "10 rows" if text else None,
    }
    return Scenario(source.name, options, acts)


# -- pairs, objects ------------------------------------------------------------------------------------------


def pairs(name: str, time: str) -> Scenario:
    source = Source(
        title(f"pairs-{name}", time), time, {"id": lambda s: s.number}, {"id": pa.int64()}, special=0.03
    )
    timed, using = time != "none", f" WITH (algorithm = '{name}')"
    first, rest = "SELECT a.id, b.id, a.x - b.x AS d FROM s a, s b", f"{using}"
    window = "3 SECONDS" if timed else "20 ROWS"
    close, narrow = "abs(a.x - b.x) + abs(a.y - b.y)", "ORDER BY abs(a.x - b.x)"
    begin: list[Act] = [
        Watch("close", f"{first} WHERE a.id < b.id ORDER BY {close} LIMIT 4 WINDOW 20 ROWS{rest}"),
        Watch("closer", f"{first} WHERE a.id < b.id ORDER BY {close} LIMIT 2 WINDOW {window}{rest}"),
        Watch("other", f"{first} WHERE a.c <> b.c AND a.id < b.id {narrow} LIMIT 5 WINDOW {window}{rest}"),
    ]
    later = [Watch("same", f"{first} WHERE a.c = b.c {narrow} LIMIT 3 WINDOW 20 ROWS{rest}")]
    if name not in ("ta", "kd"):
        later.append(
            Watch("any", f"{first} WHERE a.x > 0 ORDER BY a.x - 2 * b.y DESC LIMIT 3 WINDOW 12 ROWS{rest}")
        )
    acts = between(
        steps(source, 22, forms=5),
        {
            0: begin,
            6: later,
            10: [Change("close", k=2), Change("closer", k=5)],
            13: [Drop("same"), Ask("close", 1)],
            15: [Change("other", window="2 SECONDS" if timed else "8 ROWS")],
            19: [Advance(source.moment(source.clock + 1))] if timed else [],
        },
    )
    options = {"time": "t" if timed else None, "schema": source.schema}
    return Scenario(source.name, options, acts)


PROMISED = "range = '0..3', appears = '4 per window'"


def grouped(name: str, time: str) -> Scenario:
    """Groups. The sums of groups must not drift, so there are values of all sizes."""
    timed = time != "none"
    big = (0.1, 0.2, 0.7, 1e16, -1e16, math.inf, -math.inf, math.nan, None)

    def value(s: Source) -> Any:
        if name in ("eaa", "correlated"):
            return s.of((None, 0.5, 1.0, 2.75, round(s.random() * 3, 2)))
        return s.of(big) if s.random() < 0.2 else round(s.random() * 3, 2)

    def key(s: Source) -> Any:
        return s.of((*"abcdefgh", "ü\"'", None)) if s.random() < 0.9 else f"id {s.below(100)}"

    source = Source(
        title(f"grouped-{name}", time), time,
        {"id": key, "n": lambda s: s.below(3), "v": value},
        {"id": pa.string(), "n": pa.int64(), "v": pa.float64()},
    )  # fmt: skip
    long = "6 SECONDS" if timed else "40 ROWS"
    using = f"algorithm = '{name}'"
    if name in ("eaa", "correlated"):
        using += f", {PROMISED}"
    if name == "correlated":
        using += ", counts = 'exact', sample = 0.5"
    options = f" WITH ({using})"

    def text(score: str, k: int, window: str, order: str = "DESC", key: str = "id", more: str = "") -> str:
        asked = f"SELECT {key}, {score} AS s FROM s {more} GROUP BY {key} ORDER BY {score} {order}"
        return f"{asked} LIMIT {k} WINDOW {window}{options}"

    begin = [Watch("sum", text("SUM(v)", 3, "30 ROWS")), Watch("long", text("SUM(v)", 5, long))]
    later: list[Act] = [Watch("late", text("SUM(v)", 2, "15 ROWS"))]
    if name == "sums":
        begin += [
            Watch("count", text("COUNT(*)", 3, long, key="id, n")),
            Watch("max", text("MAX(v) - COUNT(*)", 3, "20 ROWS", "ASC", key="n")),
            Watch(
                "rich",
                f"SELECT id, SUM(v) AS s FROM s WHERE n > 0 GROUP BY id HAVING SUM(v) > 2 WINDOW {long}",
            ),
        ]
        later.append(Watch("mean", text("SUM(v) / COUNT(*) + MAX(y)", 3, "25 ROWS", more="WHERE c <> 'a'")))
    acts = between(
        steps(source, 26, forms=5),
        {
            0: begin,
            7: later,
            11: [Change("sum", k=5), Change("long", k=2)],
            14: [Change("sum", window="10 ROWS"), Ask("sum", 2)],
            17: [Drop("late")],
            21: [Advance(source.moment(source.clock + 3))] if timed else [],
        },
    )
    return Scenario(source.name, {"time": "t" if timed else None, "schema": source.schema}, acts)


def joined(name: str, time: str) -> Scenario:
    timed = time != "none"
    promised = name in ("eaa", "correlated")
    names = ("r1", "r2", "r3")
    source = Source(
        title(f"joined-{name}", time), time,
        {
            "id": lambda s: s.number if promised and s.random() < 0.5 else s.of((1, 2, 3, 4, 5, 6, None)),
            "v": lambda s: s.of((0.0, 0.25, 1.0, None, round(s.random(), 2))),
        },
        {"id": pa.int64(), "v": pa.float64()},
    )  # fmt: skip
    long = "8 SECONDS" if timed else "60 ROWS"
    joins = "r1 FULL JOIN r2 USING (id) FULL JOIN r3 USING (id)"
    using = [f"algorithm = '{name}'"] + ["range = '0..1'"] * promised
    using += ["counts = 'exact'", "sample = 0.5"] * (name == "correlated")

    def text(score: str, k: int, window: str, order: str = "DESC", more: str = "", *options: str) -> str:
        asked = f"SELECT id, {score} AS s FROM {joins} {more} ORDER BY {score} {order} LIMIT {k}"
        return f"{asked} WINDOW {window} WITH ({', '.join([*using, *options])})"

    total = "r1.v + r2.v + r3.v"
    begin: list[Act] = [
        Watch("sum", text(total, 3, long)),
        Watch("max", text(total, 2, "40 ROWS", "DESC", "", "repeat = 'max'")),
    ]
    later: list[Act] = [Watch("again", text(total, 5, "30 ROWS"))]
    if name == "sums":
        begin.append(
            Watch("any", text("2 * r1.v - r2.y", 3, long, "ASC", "WHERE r1.v >= 0.25", "repeat = 'last'"))
        )
    pushes = [Push(source.batch(SIZES[at % 12] % 40, 0), names[source.below(3)]) for at in range(34)]
    acts = between(
        pushes,
        {
            0: begin,
            9: later,
            14: [Change("sum", k=1), Change("max", k=4)],
            17: [Change("again", window="10 ROWS")],
            20: [Drop("again"), Watch("again", text(total, 2, long))],
            28: [Advance(source.moment(source.clock + 2))] if timed else [],
        },
    )
    options = {"time": "t" if timed else None, "schema": dict.fromkeys(names, source.schema)}
    return Scenario(source.name, options, acts)


QUERIES = {
    "rows": "SELECT c, x FROM one ORDER BY 2 * x - y LIMIT 5 WINDOW 50 ROWS",
    "near": "SELECT id, y FROM two WHERE id < 6 ORDER BY dist(x, y, 0.25, 0.5) LIMIT 4 WINDOW 6 SECONDS "
    "WITH (algorithm = 'ra')",
    "groups": "SELECT c, id, SUM(x) AS s, COUNT(*) AS n FROM one GROUP BY c, id ORDER BY SUM(x) DESC LIMIT 5 "
    "WINDOW 8 SECONDS",
    "rich": "SELECT id, MAX(y) AS most FROM two GROUP BY id HAVING SUM(x) > 3 WINDOW 60 ROWS",
    "joined": "SELECT id, one.x + 2 * two.y AS s FROM one FULL JOIN two USING (id) "
    "ORDER BY one.x + 2 * two.y DESC LIMIT 4 WINDOW 60 ROWS",
    "last": "SELECT id FROM one FULL JOIN two USING (id) WHERE one.x >= 0.25 ORDER BY one.x - two.x LIMIT 3 "
    "WINDOW 15 SECONDS WITH (repeat = 'last')",
    "pairs": "SELECT a.id, b.id, a.x - b.y AS d FROM one a, one b WHERE a.c <> b.c AND a.id < b.id "
    "ORDER BY abs(a.x - b.x) LIMIT 6 WINDOW 30 ROWS",
    "live": "SELECT id, x FROM up ORDER BY x DESC LIMIT 4 WINDOW 30 ROWS",
    "lives": "SELECT id, x FROM up WHERE x > 0.5 WINDOW 10 SECONDS",
    "still": "SELECT x, c FROM still ORDER BY x DESC LIMIT 3 WINDOW 20 ROWS",
}


def sources_of(name: str) -> dict[str, Source]:
    """Several streams: two plain ones, one of updates, one without times."""
    number = {"id": pa.int64()}
    one = Source(f"{name}-one", "timestamp", {"id": lambda s: s.below(8)}, number)
    two = Source(f"{name}-two", "timestamp", {"id": lambda s: s.below(8)}, number)
    keyed = {"id": lambda s: s.of((1, 2, 3, 4, None)), "op": lambda s: s.of(WORDS)}
    up = Source(f"{name}-up", "timestamp", keyed, {**number, "op": pa.string()})
    still = Source(f"{name}-still")
    return {"one": one, "two": two, "up": up, "still": still}


def streams() -> Scenario:
    """Several streams with one clock and one numbering, some with times, one of updates; all kinds of query."""
    sources = sources_of("streams")
    acts: list[Act] = [Watch(name, text) for name, text in QUERIES.items() if name not in ("last", "lives")]
    for step in range(14):
        size = SIZES[step % len(SIZES)] % 25
        for name, source in sources.items():
            source.clock = max(s.clock for s in sources.values())
            acts.append(Push(source.batch(size), name))
        if step == 5:
            acts += [Watch(name, QUERIES[name]) for name in ("last", "lives")]
        if step == 8:
            acts += [Change("live", k=2), Change("joined", k=6), Drop("near"), Change("pairs", k=3)]
        if step == 11:
            acts += [Advance(sources["one"].moment(sources["one"].clock + 3))]
    options = {
        "time": {name: "t" for name in ("one", "two", "up")},
        "key": {"up": "id"},
        "op": {"up": "op"},
        "schema": {name: source.schema for name, source in sources.items()},
        "retain": "20 rows",
    }
    return Scenario("streams", options, acts)


def all_scenarios() -> Iterator[Scenario]:
    for number, name in enumerate(ROWS):
        yield of_rows(name, "none")
        yield of_rows(name, ("number", "timestamp", "whole")[number % 3])
    yield from (thresholds("threshold", time) for time in ("none", "timestamp"))
    yield from (thresholds("tma", time) for time in ("none", "number"))
    for time in TIMES:
        yield default(time, None, 1)
        yield default(time, "8 seconds" if time in ("number", "timestamp") else "40 rows", 5)
    yield inferred()
    yield unfit_rows()
    yield many()
    yield allowed()
    yield from map(long, LONG)
    yield from map(near, ("ra", "sma", "snn", "cpm"))
    yield expressions()
    yield types()
    yield updates("none", text=False, op=False)
    yield updates("none", text=True, op=True)
    yield updates("number", text=False, op=True)
    yield updates("timestamp", text=True, op=False)
    for name in ("scase", "ta", "kd", "basic", "naive"):
        yield from (pairs(name, time) for time in ("none", "number"))
    for name in ("sums", "eaa", "sla", "correlated"):
        yield from (grouped(name, time) for time in ("none", "timestamp"))
        yield from (joined(name, time) for time in ("none", "number"))
    yield streams()


def old_rules() -> Scenario:
    """Rows that later rules take in another way: types that could widen, rows that could wait."""
    source = Source("old-rules", "number", {"n": lambda s: s.below(9)}, {"n": pa.int64()}, late=0.0)

    first = dt.date(2024, 1, 1)

    def push(number: int, ahead: float = 0.0, **odd: Any) -> Push:
        columns = source.batch(number, 3)
        columns["t"] = [None if t is None else t + ahead for t in columns["t"]]
        if ahead:
            columns["t"][::2] = [None if t is None else t + ahead for t in columns["t"][::2]]
        return Push({**columns, **{name: values[:number] for name, values in odd.items()}})

    acts: list[Act] = [
        Watch("x", topk("x", 3, "20 ROWS")),
        Push({"t": [0.5, 1.0], "x": [1.0, 2.0], "y": [None, None], "c": ["a", None], "n": [1, 2], "d": [first, first]}),
        Watch("n", topk("n", 4, "6 SECONDS")),
        push(9),
        push(6, n=[1, 2.5, 3, "4", 5, None]),
        push(5, y=[1, 2, 3, 4, 5]),
        push(4, d=[dt.datetime(2024, 1, 1, 12), first, None, "2024-01-03"]),
        Watch("y", topk("y", 2, "15 ROWS", "ASC")),
        push(7, ahead=8.0),
        push(6),
        *(push(5, ahead=40.0) for _ in range(4)),
        push(8, c=[1, "a", None, True, "b", 2.0, "c", "d"]),
        Change("x", k=5),
        push(20),
    ]  # fmt: skip
    return Scenario(source.name, {"time": "t", "max_ahead": "10 seconds"}, acts)


SCENARIOS = {scenario.name: scenario for scenario in all_scenarios()}
OLD_RULES = old_rules()
"""What was written of it is loaded and repeated under the rules of its time. New rows would go another way."""


JOURNALS = (
    ("streams", "closed"),
    ("streams", "killed"),
    ("unfit-rows", "killed"),
    ("inferred", "snapshots"),
    ("default-timestamp-retained", "snapshots"),
    ("default-none", "unfinished"),
    ("updates-number-int-op", "snapshots"),
    ("pairs-scase-timed", "killed"),
    ("grouped-sums-timed", "unfinished"),
    ("joined-sums-plain", "snapshots"),
    ("allowed-error", "killed"),
    ("heightmap-timed", "left out"),
    ("old-rules", "killed"),
    ("old-rules", "snapshots"),
)
"""Folders of journals, and how the process that wrote each ended: by closing it, or by a kill: with one segment, or
with short segments and snapshots, or in the middle of a write, or after a step that ended in the middle."""
