"""Every kind of query over three streams, one of them an update stream, and the oracle that says what must come out."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.object_oracle import ObjectOracle, total
from tests.oracle import Oracle
from tests.spark.streams import SCHEMA, Row, make_files, moment, number

STREAMS = ("one", "two", "up")
QUERIES = {
    "rows": "SELECT g, x FROM one ORDER BY x + 2 * y DESC LIMIT 5 WINDOW 50 ROWS",
    "near": "SELECT n, y FROM two WHERE n < 8 ORDER BY dist(x, y, 0.25, 0.5) LIMIT 4 WINDOW 12 SECONDS",
    "groups": "SELECT g, n, SUM(x) AS s, COUNT(*) AS c FROM one GROUP BY g, n ORDER BY SUM(x) DESC LIMIT 5 "
    "WINDOW 20 SECONDS",
    "rich": "SELECT n, MAX(y) AS most FROM two GROUP BY n HAVING SUM(x) > 3 WINDOW 60 ROWS",
    "joined": "SELECT n, one.x + 2 * two.y AS s FROM one FULL JOIN two USING (n) ORDER BY one.x + 2 * two.y DESC "
    "LIMIT 4 WINDOW 60 ROWS",
    "last": "SELECT n FROM one FULL JOIN two USING (n) WHERE one.x >= 0.25 ORDER BY one.x - two.x LIMIT 3 "
    "WINDOW 15 SECONDS WITH (repeat = 'last')",
    "pairs": "SELECT a.n, b.n, a.x - b.y AS d FROM one a, one b WHERE a.g <> b.g AND a.n < b.n "
    "ORDER BY abs(a.x - b.x) LIMIT 6 WINDOW 30 ROWS",
    "close": "SELECT a.x, b.x FROM two a, two b ORDER BY abs(a.y - b.y) LIMIT 3 WINDOW 4 SECONDS",
    "live": "SELECT n, x FROM up ORDER BY x DESC LIMIT 4 WINDOW 30 ROWS",
    "lives": "SELECT n, x FROM up WHERE x > 0.5 WINDOW 10 SECONDS",
    "counted": "SELECT n, COUNT(*) FROM up GROUP BY n ORDER BY MAX(y) DESC LIMIT 3 WINDOW 10 SECONDS",
}
OTHERS = {  # some kept, some changed, some gone
    "rows": QUERIES["rows"],
    "near": QUERIES["near"],
    "pairs": QUERIES["close"],
    "close": QUERIES["pairs"],
    "joined": QUERIES["last"],
    "last": QUERIES["joined"],
    "rich": QUERIES["rich"],
    "counted": QUERIES["groups"],
    "lives": QUERIES["lives"],
}
Who = tuple[int | None, int | None, str | None]


def make_steps(count: int, seed: int, rows: tuple[int, int] = (5, 60)) -> list[dict[str, list[Row]]]:
    """Rows of the three streams, step by step."""
    chance = random.Random(seed)
    files = {name: make_files(count, seed * 10 + at, rows) for at, name in enumerate(STREAMS)}
    for file in files["up"]:
        for row in file:
            row["n"] = chance.choice([*range(8), None])
            row["g"] = chance.choice(["insert", "u", "c", "update", "D", "delete", "gone", None])
    return [{name: files[name][at] for name in STREAMS} for at in range(count)]


def arrow(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist([{**row, "ts": moment(row["ts"])} for row in rows], schema=SCHEMA)


def write_step(folder: Path, number: int, step: Mapping[str, list[Row]]) -> None:
    for name, rows in step.items():
        (folder / name).mkdir(exist_ok=True)
        pq.write_table(arrow(rows), folder / name / f"{number:03}.parquet", row_group_size=23)


def pipeline_text(queries: Mapping[str, str], spark: str = "", sink: str = "") -> str:
    streams = "".join(f'[stream.{n}]\npath = "{n}"\ntime = "ts"\nmax_files = 1\n' for n in STREAMS)
    asked = "".join(f'[[query]]\nname = "{name}"\nsql = "{sql}"\n' for name, sql in queries.items())
    sink = sink or '[sink]\nformat = "parquet"\npath = "out"\n'
    return f'{streams}key = "n"\nop = "g"\n{asked}{sink}[spark]\nmaster = "local[2]"\n{spark}'


class Truth:
    """Two oracles with one clock and one numbering: of the plain streams, and of the update stream."""

    def __init__(self, queries: Mapping[str, str]) -> None:
        self.plain = ObjectOracle("ts")
        self.updates = ObjectOracle("ts", key="n", op="g")
        self.queries: dict[str, str] = {}
        self.rejects: list[tuple[int, str]] = []  # of the last step
        self.change(queries)

    def change(self, queries: Mapping[str, str]) -> None:
        for name, sql in list(self.queries.items()):
            if queries.get(name) != sql:
                self._of(sql).drop(name)
        for name, sql in queries.items():
            if sql != self.queries.get(name):
                _ask(self._of(sql), name, sql)
        self.queries = dict(queries)

    def _of(self, sql: str) -> ObjectOracle:
        return self.updates if "FROM up" in sql else self.plain

    def push(self, step: Mapping[str, list[Row]]) -> None:
        before, times = self.plain.now, [self.plain.now]  # what is late is judged by the time before the step
        for name in STREAMS:
            oracle = self.updates if name == "up" else self.plain
            oracle.seq, oracle.now = max(self.plain.seq, self.updates.seq), before
            oracle.push(step.get(name, []), name)
            times.append(oracle.now)
        self.plain.now = self.updates.now = max(time for time in times if time is not None)
        self.rejects = sorted(self.plain.rejects + self.updates.rejects)
        self.plain.rejects, self.updates.rejects = [], []

    def tops(self) -> dict[str, list[tuple[float, Who]]]:
        return {name: self._top(name, sql) for name, sql in self.queries.items()}

    def _top(self, name: str, sql: str) -> list[tuple[float, Who]]:
        oracle = self._of(sql)
        if sql in (QUERIES["pairs"], QUERIES["close"]):
            return _pairs(oracle, name, sql)
        found = oracle.top(name)
        return [(r.score, (None, None, r.id) if hasattr(r, "id") else (r.seq, None, None)) for r in found]


def _ask(oracle: ObjectOracle, name: str, sql: str) -> None:
    """The queries above as Python."""

    def column(rows: Any, what: str) -> list[float]:
        return [row[what] for row in rows]

    def latest(rows: Any, stream: str, what: str) -> float:
        return rows[stream][-1][what] if rows[stream] else 0.0

    which = next(one for one, text in QUERIES.items() if text == sql)
    if which == "rows":
        score = lambda r: r["x"] + 2 * r["y"] if number(r["x"]) and number(r["y"]) else None  # noqa: E731
        oracle.watch(name, score, 5, ("rows", 50), stream="one")
    elif which == "near":
        low = lambda r: number(r["n"]) and r["n"] < 8  # noqa: E731
        gaps = lambda r: (r["x"] - 0.25) ** 2 + (r["y"] - 0.5) ** 2  # noqa: E731
        score = lambda r: math.sqrt(gaps(r)) if number(r["x"]) and number(r["y"]) else None  # noqa: E731
        oracle.watch(name, score, 4, ("seconds", 12), False, low, stream="two")
    elif which == "groups":
        summed = lambda rows: total(column(rows, "x"))  # noqa: E731
        oracle.watch_objects(name, ("g", "n"), summed, 5, ("seconds", 20), ("g", "n", "x"), stream="one")
    elif which == "rich":
        rich = lambda rows: total(column(rows, "x")) > 3  # noqa: E731
        score = lambda rows: total(column(rows, "x"))  # type: ignore[assignment] # noqa: E731
        used = ("n", "x", "y")
        oracle.watch_objects(name, ("n",), score, None, ("rows", 60), used, having=rich, stream="two")  # type: ignore[arg-type]
    elif which == "joined":
        both = lambda rows: total(column(rows["one"], "x")) + 2 * total(column(rows["two"], "y"))  # noqa: E731
        oracle.watch_joined(name, "n", both, 4, ("rows", 60), {"one": ("x",), "two": ("y",)})
    elif which == "last":
        less = lambda rows: latest(rows, "one", "x") - latest(rows, "two", "x")  # noqa: E731
        holds = lambda rows: latest(rows, "one", "x") >= 0.25  # noqa: E731
        told = {"one": ("x",), "two": ("x",)}
        oracle.watch_joined(name, "n", less, 3, ("seconds", 15), told, False, holds)
    elif which in ("pairs", "close"):
        window = ("rows", 30) if which == "pairs" else ("seconds", 4)
        stream = "one" if which == "pairs" else "two"
        oracle.watch(name, lambda row: 0.0, 1, window, stream=stream)
    elif which == "live":
        oracle.watch(name, lambda row: row["x"], 4, ("rows", 30), stream="up")
    elif which == "lives":
        above = lambda row: number(row["x"]) and row["x"] > 0.5  # noqa: E731
        oracle.watch(name, lambda row: row["x"], None, ("seconds", 10), where=above, stream="up")
    else:
        most = lambda rows: max(column(rows, "y"))  # noqa: E731
        oracle.watch_objects(name, ("n",), most, 3, ("seconds", 10), ("n", "y"), stream="up")


def _pairs(oracle: Oracle, name: str, sql: str) -> list[tuple[float, Who]]:
    watch = oracle.watches[name]
    start, chosen = oracle._start(watch), sql == QUERIES["pairs"]
    used = ("x", "g", "n") if chosen else ("y",)
    held = oracle.rows.get(watch.stream, [])
    rows = [r for r in held if r.recency > start and all(number(r.values[c]) for c in used)]
    scored = []
    for at, newer in enumerate(rows):
        for older in rows[:at]:
            a, b = older.values, newer.values
            if chosen and (a["g"] == b["g"] or a["n"] == b["n"]):
                continue
            score = abs(a["x"] - b["x"]) if chosen else abs(a["y"] - b["y"])
            if not math.isnan(score):
                scored.append((score, older, newer))
    scored.sort(key=lambda p: (p[0], *(-part for row in p[1:] for part in row.recency)))
    return [(s, (older.seq, newer.seq, None)) for s, older, newer in scored[: 6 if chosen else 3]]


class Folded:
    """What the change tables add up to."""

    def __init__(self) -> None:
        self.answers: dict[str, dict[Who, float]] = {}

    def take(self, rows: Sequence[Mapping[str, Any]]) -> None:
        for row in rows:
            who = (row["seq"], row["seq_b"], row["id"])
            answer = self.answers.setdefault(row["query"], {})
            if row["change"] == "leave":
                assert answer.pop(who) == row["score"]
            else:
                assert who not in answer
                answer[who] = row["score"]

    def equals(self, tops: Mapping[str, list[tuple[float, Who]]]) -> bool:
        told = {name: answer for name, answer in self.answers.items() if answer}
        assert told == {name: {who: score for score, who in top} for name, top in tops.items() if top}
        return True
