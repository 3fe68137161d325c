"""Random streams for the pipeline, and the oracle that says what must come out.

Times are multiples of an eighth of a second, so that the oracle's arithmetic with floats is exact.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.oracle import Oracle

START = 1_700_000_000.0
Row = dict[str, Any]

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us")),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("n", pa.int64()),
        ("g", pa.string()),
    ]
)
DECLARED = '{ts = "timestamp", x = "double", y = "double", n = "long", g = "string"}'

QUERIES = {
    "rows": "SELECT g, x FROM s ORDER BY x + 2 * y DESC LIMIT 5 WINDOW 50 ROWS",
    "seconds": "SELECT n, x FROM s WHERE g = 'a' ORDER BY x * y LIMIT 4 WINDOW 40 SECONDS",
    "above": "SELECT x FROM s WHERE x > 0.9 AND n < 8 WINDOW 30 SECONDS",
    "ties": "SELECT * FROM s ORDER BY n DESC LIMIT 7 WINDOW 1 MINUTE",
    "many": "SELECT x FROM s WHERE y > 0.25 ORDER BY x DESC LIMIT 6 WINDOW 200 ROWS",
}
OTHER = "SELECT x FROM s ORDER BY y LIMIT 3 WINDOW 20 SECONDS"

Score = Callable[[Mapping[str, Any]], float | None]


def number(value: Any) -> bool:
    return value is not None and value == value


def using(*names: str) -> Callable[[Score], Score]:
    """A score that is null where a column it uses has no value."""
    return lambda score: lambda row: score(row) if all(number(row[name]) for name in names) else None


def ask(oracle: Oracle, name: str, sql: str) -> None:
    """The queries above as Python."""
    same: Score = lambda row: row["x"]  # noqa: E731
    if sql == QUERIES["rows"]:
        oracle.watch(name, using("x", "y")(lambda r: r["x"] + 2 * r["y"]), 5, ("rows", 50))
    elif sql == QUERIES["seconds"]:
        score = using("x", "y", "g")(lambda r: r["x"] * r["y"])
        oracle.watch(name, score, 4, ("seconds", 40), False, lambda r: r["g"] == "a")
    elif sql == QUERIES["above"]:
        where = lambda r: number(r["x"]) and r["x"] > 0.9 and r["n"] < 8  # noqa: E731
        oracle.watch(name, using("x", "n")(same), None, ("seconds", 30), True, where)
    elif sql == QUERIES["ties"]:
        oracle.watch(name, using("n")(lambda r: float(r["n"])), 7, ("seconds", 60))
    elif sql == QUERIES["many"]:
        score = using("x", "y")(same)
        oracle.watch(name, score, 6, ("rows", 200), True, lambda r: number(r["y"]) and r["y"] > 0.25)
    elif sql == OTHER:
        oracle.watch(name, using("y")(lambda r: r["y"]), 3, ("seconds", 20), False)
    else:
        raise AssertionError(sql)


def make_rows(count: int, chance: random.Random, start: float) -> list[Row]:
    """Rows around a time that goes on, some out of order, some late, some without a time or a value."""
    rows = []
    for place in range(count):
        time: float | None = START + start + place / 8 + chance.choice([0, 0, 0, -2, -5, 1])
        kind = chance.random()
        if kind < 0.03:
            time = None
        elif kind < 0.08:
            time = START + chance.randrange(-400, 400) / 8
        value: float | None = round(chance.random(), 3)
        if chance.random() < 0.04:
            value = None
        rows.append(
            {
                "ts": time,
                "x": value,
                "y": round(chance.random(), 2) if chance.random() > 0.02 else None,
                "n": chance.randrange(10),
                "g": chance.choice(["a", "b", None]),
            }
        )
    return rows


def make_files(count: int, seed: int, rows: tuple[int, int] = (20, 160)) -> list[list[Row]]:
    chance = random.Random(seed)
    files, start = [], 0.0
    for _ in range(count):
        made = make_rows(chance.randrange(*rows), chance, start)
        start += len(made) / 8
        files.append(made)
    return files


BAD_LINES = ("this is no row", '{"ts": 12, "x": "y"}')


def write_file(path: Path, rows: Sequence[Row], bad: Mapping[int, str] | None = None) -> None:
    """Write rows in the format that the name says, whole or not at all. `bad` puts a line in a row's place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".tmp")
    if path.suffix == ".parquet":
        table = pa.Table.from_pylist([{**r, "ts": moment(r["ts"])} for r in rows], schema=SCHEMA)
        pq.write_table(table, unfinished, row_group_size=37)
    else:
        lines = [text_line(row, path.suffix) for row in rows]
        for place, line in (bad or {}).items():
            lines[place] = line
        header = ["ts,x,y,n,g"] if path.suffix == ".csv" else []
        unfinished.write_text("\n".join(header + lines) + "\n")
    unfinished.rename(path)


def moment(time: float | None) -> datetime | None:
    return None if time is None else datetime.fromtimestamp(time, UTC).replace(tzinfo=None)


def text_line(row: Row, suffix: str) -> str:
    time = moment(row["ts"])
    shown = {**row, "ts": None if time is None else time.isoformat(sep=" ")}
    if suffix == ".json":
        return json.dumps(shown)
    return ",".join("" if value is None else str(value) for value in shown.values())


Step = list[tuple[str, list[Row | None]]]  # (stream, rows); None is a line that could not be read


class Truth:
    """The oracle, fed by micro-batches."""

    def __init__(self, queries: Mapping[str, str]) -> None:
        self.oracle = Oracle(time="ts", fits=lambda row: "bad" not in row)
        self.set_queries(queries)

    def set_queries(self, queries: Mapping[str, str]) -> None:
        for name in [n for n in self.oracle.watches]:
            self.oracle.drop(name)
        self.queries = dict(queries)
        for name, sql in queries.items():
            ask(self.oracle, name, sql)

    def change_queries(self, queries: Mapping[str, str]) -> None:
        for name in list(self.queries):
            if queries.get(name) != self.queries[name]:
                self.oracle.drop(name)
        for name, sql in queries.items():
            if sql != self.queries.get(name):
                ask(self.oracle, name, sql)
        self.queries = dict(queries)

    def push(self, rows: Sequence[Row | None]) -> None:
        self.oracle.push([{"bad": True} if row is None else row for row in rows])

    def tops(self) -> dict[str, list[tuple[int, float, int]]]:
        return {
            name: [(r.rank, r.score, r.seq) for r in self.oracle.top(name)] for name in self.oracle.watches
        }

    def take_rejects(self) -> list[tuple[int, str]]:
        found, self.oracle.rejects = sorted(self.oracle.rejects), []
        return found


def shown_tops(tops: Mapping[str, pa.Table]) -> dict[str, list[tuple[int, float, int]]]:
    """What the live view gets, in the oracle's words."""
    return {
        name: list(zip(*(top.column(c).to_pylist() for c in ("rank", "score", "seq")), strict=True))
        for name, top in tops.items()
    }


def folded(out: Path, batches: int) -> list[dict[str, dict[int, float]]]:
    """The answers after each batch, from the changes alone; every file must be there, once, and no other."""
    names = sorted(p.name for p in (out / "changes").iterdir())
    assert names == sorted(f"batch-{b}.parquet" for b in range(batches))
    answers: dict[str, dict[int, float]] = {}
    history = []
    for batch in range(batches):
        rows = pq.read_table(out / "changes" / f"batch-{batch}.parquet").to_pylist()
        assert all(row["batch"] == batch for row in rows)
        for row in rows:
            if row["change"] == "leave":
                del answers[row["query"]][row["seq"]]
            else:
                answer = answers.setdefault(row["query"], {})
                assert row["seq"] not in answer
                answer[row["seq"]] = row["score"]
        history.append({name: dict(answer) for name, answer in answers.items() if answer})
    return history


def rejected(out: Path, batch: int) -> list[tuple[int, str]]:
    path = out / "rejects" / f"batch-{batch}.parquet"
    if not path.exists():
        return []
    return [(row["seq"], row["reason"]) for row in pq.read_table(path).to_pylist()]


def as_answers(tops: Mapping[str, list[tuple[int, float, int]]]) -> dict[str, dict[int, float]]:
    return {name: {seq: score for _, score, seq in top} for name, top in tops.items() if top}


def pipeline_text(
    queries: Mapping[str, str],
    form: str = "parquet",
    max_files: int | None = 1,
    spark: str = "",
    sink: str = '[sink]\nformat = "parquet"\npath = "out"\n',
) -> str:
    limit = "" if max_files is None else f"max_files = {max_files}\n"
    declared = "" if form == "parquet" else f"schema = {DECLARED}\n"
    asked = "".join(f'[[query]]\nname = "{name}"\nsql = "{sql}"\n' for name, sql in queries.items())
    return (
        f'[stream.s]\nformat = "{form}"\npath = "data"\ntime = "ts"\n{limit}{declared}{asked}{sink}'
        f'[spark]\nmaster = "local[2]"\ncheckpoint = "checkpoint"\nui = false\n{spark}'
    )
