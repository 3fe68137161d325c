"""One row as a dict of values goes the prepared way, and does what the same row does as a column of one."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.core.errors import SkybandError
from skyband.stream.arrow import python_rows, with_plain_times
from skyband.stream.row import Row

START = dt.datetime(2026, 1, 1)

QUERIES = {
    "few": "SELECT * FROM s ORDER BY 2 * x + y DESC LIMIT 3 WINDOW {w}",
    "same score": "SELECT g, n FROM s ORDER BY 2 * x + y DESC LIMIT 5 WINDOW {v}",
    "other weights": "SELECT x FROM s ORDER BY x - 3 * y LIMIT 4 WINDOW {w}",
    "text": "SELECT x, g FROM s WHERE g = 'a' OR g >= 'c' ORDER BY x DESC LIMIT 3 WINDOW {w}",
    "whole": "SELECT n FROM s WHERE n > 2 AND NOT b ORDER BY n DESC LIMIT 3 WINDOW {w}",
    "quotient": "SELECT x FROM s ORDER BY x / y DESC LIMIT 3 WINDOW {w}",
    "root": "SELECT x FROM s ORDER BY sqrt(x) + abs(y) DESC LIMIT 3 WINDOW {v}",
    "near": "SELECT x FROM s WHERE x * y > 0.1 ORDER BY dist(x, y, 0.5, 0.25) LIMIT 3 WINDOW {w}",
    "beyond": "SELECT x FROM s WHERE x + y > 1.2 WINDOW {w}",
    "index": "SELECT g FROM s ORDER BY 2 * x + y DESC LIMIT 3 WINDOW {w} WITH (algorithm = 'heightmap')",
    "strict": "SELECT x FROM s ORDER BY x + y DESC LIMIT 3 WINDOW {w} WITH (algorithm = 'sa')",
    "lazy": "SELECT g FROM s ORDER BY x + 2 * y DESC LIMIT 3 WINDOW {v} WITH (algorithm = 'lazy')",
    "buffer": "SELECT g FROM s ORDER BY x + 2 * y DESC LIMIT 3 WINDOW {w} WITH (algorithm = 'sasf')",
    "grouped": "SELECT g, SUM(x) FROM s GROUP BY g ORDER BY SUM(x) DESC LIMIT 2 WINDOW {w}",
    "pairs": "SELECT a.x, b.x FROM s a, s b WHERE a.g <> b.g ORDER BY abs(a.x - b.x) LIMIT 2 WINDOW {w}",
}
SOME = ["few", "same score", "text", "whole", "quotient", "index"]


def monitor(
    names: list[str], time: str | None, windows: tuple[str, str] = ("9 ROWS", "14 ROWS"), **options: Any
) -> sb.Monitor:
    made = sb.Monitor(time=time, **options)
    for name in names:
        query = QUERIES[name].format(w=windows[0], v=windows[1])
        made.watch(query, name=name)
    return made


def values(rng: random.Random, number: int, time: str | None, moment: str) -> dict[str, Any]:
    odd = rng.random()
    row: dict[str, Any] = {
        "x": rng.choice([rng.random(), round(rng.random(), 1), 0.0, -0.0, 1]),
        "y": rng.choice([rng.random(), 0.5, 0.0]),
        "n": rng.randrange(6),
        "g": rng.choice(["a", "b", "c", "ä"]),
        "b": rng.random() < 0.3,
    }
    if time is not None:
        at = number - (rng.random() * 14 if odd < 0.3 else 0.0)
        row[time] = {
            "seconds": at,
            "whole": int(at),
            "naive": START + dt.timedelta(seconds=at),
            "utc": (START + dt.timedelta(seconds=at)).replace(tzinfo=dt.UTC),
        }[moment]
    if odd > 0.97:
        row[rng.choice([*row])] = rng.choice(
            [None, float("nan"), float("inf"), "text", "\ud800", True, 2**60, 2.5]
        )
    elif odd > 0.95:
        row[rng.choice([*row])] = None
    elif odd > 0.94:
        row.pop(rng.choice([*row]))
    elif odd > 0.93:
        row["late column"] = 1.0
    elif odd > 0.92 and time is not None and moment == "seconds":
        row[time] = number + 1e6
    return row


def pushed(one: sb.Monitor, batch: Any) -> Any:
    try:
        return one.push(batch).to_pylist()
    except SkybandError as error:
        return str(error)


def state(one: sb.Monitor) -> list[Any]:
    rows = [watch.rows() for watch in one.watches.values()]
    tops = [watch.top() for watch in one.watches.values()]
    assert repr(rows) == repr([python_rows(with_plain_times(top)) for top in tops])
    kept = [top.to_pylist() for top in tops], [str(top.schema) for top in tops]
    about = one.rows_seen, str(one.now), one.reject_counts
    return [*kept, about, one.rejects().to_pylist(), one.notices().to_pylist(), str(one.streams["s"].schema)]


def compare(
    rng: random.Random, one: sb.Monitor, other: sb.Monitor, steps: int, time: str | None, moment: str
) -> int:
    prepared = 0
    for number in range(steps):
        row = values(rng, number, time, moment)
        before = one.streams["s"]._plan
        assert repr(pushed(one, row)) == repr(
            pushed(other, {name: [value] for name, value in row.items()})
        ), row
        prepared += before is not None and before.reader is not None
        if number % 3 == 0:
            assert repr(state(one)) == repr(state(other)), row
        one._check()
    return prepared


FIRST = {"x": 0.5, "y": 0.5, "n": 1, "g": "a", "b": False}


@pytest.mark.parametrize(
    ("time", "moment", "windows"),
    [
        (None, "", ("9 ROWS", "14 ROWS")),
        ("ts", "seconds", ("9 ROWS", "7 SECONDS")),
        ("ts", "whole", ("8 SECONDS", "12 SECONDS")),
        ("ts", "naive", ("8 SECONDS", "12 SECONDS")),
        ("ts", "utc", ("8 SECONDS", "12 ROWS")),
    ],
)
def test_rows_as_dicts_do_what_batches_of_one_do(
    time: str | None, moment: str, windows: tuple[str, str]
) -> None:
    rng = random.Random(f"{time} {moment}")
    names = [*QUERIES] if moment in ("", "seconds") else SOME
    one, other = monitor(names, time, windows), monitor(names, time, windows)
    at = {"seconds": 0.0, "whole": 0, "naive": START, "utc": START.replace(tzinfo=dt.UTC)}
    first = FIRST | ({} if time is None else {time: at[moment]})
    for each in (one, other):
        each.push({name: [value] for name, value in first.items()}, stream="s")
    assert compare(rng, one, other, 120, time, moment) > 60
    one, other = (sb.Monitor.from_bytes(each.to_bytes()) for each in (one, other))
    compare(rng, one, other, 40, time, moment)
    for each in (one, other):
        each.drop("text")
        each.watches["few"].change(k=2)
        each.watch("SELECT y FROM s WHERE b ORDER BY y LIMIT 2 WINDOW 5 ROWS", name="later")
    compare(rng, one, other, 60, time, moment)


@pytest.mark.parametrize(
    "options",
    [
        {"max_ahead": "5 seconds"},
        {"retain": "10 ROWS"},
        {"strict": True},
        {"schema": {"x": "double", "y": "double", "n": "int64", "g": "string", "b": "bool", "ts": "double"}},
        {"time_unit": "ms"},
    ],
)
def test_with_settings(options: dict[str, Any]) -> None:
    rng = random.Random(str(options))
    one, other = (monitor(SOME, "ts", ("9 ROWS", "7 SECONDS"), **options) for _ in range(2))
    for each in (one, other):
        each.push({name: [value] for name, value in (FIRST | {"ts": 0.0}).items()}, stream="s")
    compare(rng, one, other, 150, "ts", "seconds")


def test_a_row_is_not_made_into_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    one = monitor(["few", "same score", "text"], "ts", ("9 ROWS", "7 SECONDS"))
    rng = random.Random(4)

    def row(number: int) -> dict[str, Any]:
        return FIRST | {"x": rng.random(), "ts": float(number)}

    for number in range(5):
        one.push(row(number), stream="s")
    monkeypatch.setattr(Row, "table_of", lambda *_: pytest.fail("a table was made"))
    for number in range(5, 40):
        one.push(row(number))
    one.watches["few"].change(k=1)
    best = FIRST | {"x": 9.0, "ts": 41.0, "g": "a"}
    one.push(best)
    poor = [one.push(FIRST | {"x": -5.0, "ts": 41.0, "g": "b"}) for _ in range(5)]
    one.drop("same score")
    one.drop("text")
    poor = [one.push(FIRST | {"x": -5.0, "ts": 41.0, "g": "b"}) for _ in range(3)]
    assert poor[0] is poor[1] is poor[2]  # a step that changes nothing returns the same table
    assert not len(poor[0])


def test_tables_of_one_row_and_answers_without_arrow() -> None:
    """A table of one row goes the way of a dict; `rows` is `top` as dicts, however the rows came."""
    names = ["few", "same score", "text", "index", "strict"]
    one, other = monitor(names, None), monitor(names, None)
    rng = random.Random(6)
    for number in range(60):
        count = 1 if number % 7 else 6
        batch = {"x": [rng.random() for _ in range(count)], "y": [0.5] * count, "n": [number] * count}
        batch |= {"g": [rng.choice("abc") for _ in range(count)], "b": [True] * count}
        assert one.push(pa.table(batch), stream="s").equals(other.push(batch, stream="s"))
        rows = [watch.rows() for watch in one.watches.values()]
        assert repr(rows) == repr([watch.top().to_pylist() for watch in other.watches.values()])
    assert all(watch._plain_names()[0] for watch in one.watches.values())


def test_a_join_and_another_stream_in_between() -> None:
    """Rows of a joined stream are read as batches, before and after there is a join."""
    one, other = sb.Monitor(), sb.Monitor()
    for each in (one, other):
        each.watch("SELECT * FROM r ORDER BY v DESC LIMIT 2 WINDOW 4 ROWS", name="own")
    batches: list[tuple[dict[str, Any], str]] = [({"id": "a", "v": float(i % 5)}, "r") for i in range(8)]
    batches += [({"id": "a", "w": float(i % 3)}, "q") for i in range(4)] * 2
    batches += [({"id": "b", "v": float(i % 4)}, "r") for i in range(8)]
    for number, (row, name) in enumerate(batches):
        if number == 6:
            for each in (one, other):
                each.watch(
                    "SELECT id FROM r FULL JOIN q USING (id) ORDER BY v + w DESC LIMIT 2 WINDOW 5 ROWS",
                    name="join",
                )
        found = [
            one.push(row, stream=name),
            other.push(pa.table({k: [v] for k, v in row.items()}), stream=name),
        ]
        assert found[0].equals(found[1])
        one._check()


@pytest.mark.parametrize(
    ("moment", "options"),
    [
        ("seconds", {}),
        ("seconds", {"max_ahead": "5 seconds"}),
        ("seconds", {"retain": "4 SECONDS"}),
        ("negative", {}),
        ("whole", {"time_unit": "s"}),
        ("naive", {}),
        ("utc", {}),
    ],
)
def test_tables_as_they_are_do_what_their_columns_do(moment: str, options: dict[str, Any]) -> None:
    """A table in the stream's own types is accepted as a whole if all its rows are; a dict of its columns never is."""
    rng = random.Random(f"{moment} {options}")
    windows = ("30 ROWS", "7 SECONDS") if moment != "utc" else ("5 SECONDS", "7 SECONDS")
    one, other = (monitor(SOME, "ts", windows, **options) for _ in range(2))
    start, second = {
        "seconds": (0.0, 1.0),
        "negative": (-40.0, 1.0),
        "whole": (0, 1),
        "naive": (START, dt.timedelta(seconds=1)),
        "utc": (START.replace(tzinfo=dt.UTC), dt.timedelta(seconds=1)),
    }[moment]
    whole = 0
    schema = None
    for number in range(60):
        rows = [values(rng, 0, None, "") for _ in range(rng.randrange(1, 12))]
        rows = [{name: row.get(name) for name in FIRST} | {"x": rng.random()} for row in rows]
        for place, row in enumerate(rows):
            at = number + (place // 4 if rng.random() < 0.8 else -rng.randrange(6))
            row["ts"] = start + second * (at + (1000 if rng.random() < 0.004 else 0))  # type: ignore[operator]
            row["n"] = row["n"] if type(row["n"]) is int else 3
            row["g"] = row["g"] if row["g"] in ("a", "b", None) else "c"
            row["b"] = row["b"] if type(row["b"]) is bool else None
            row["y"] = row["y"] if type(row["y"]) is float else rng.choice([None, float("nan"), 0.25])
        if number % 9 == 8:
            rows[0]["ts"] = None
        if number == 0:
            rows = [FIRST | {"ts": start}]
        table = pa.Table.from_pylist(rows, schema=schema)
        schema = table.schema
        plan = one.streams["s"]._plan if number else None
        before = one.rows_seen
        assert one.push(table, stream="s").equals(
            other.push({n: table.column(n) for n in table.column_names}, stream="s")
        )
        assert one.rows_seen == before + len(table)
        whole += plan is not None and plan._takes_tables
        if number % 5 == 0:
            assert repr(state(one)) == repr(state(other))
        one._check()
    assert whole > 40
