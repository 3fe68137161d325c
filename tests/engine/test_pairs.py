"""Pairs against the simple version, after every step: all pairs of the window, sorted."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle import Oracle, Row

import skyband as sb

SCHEMA = pa.schema([("t", pa.float64()), ("id", pa.int64()), ("c", pa.string()), ("x", pa.float64())])
Values = dict[str, Any]


class Question(NamedTuple):
    score: str
    value: Callable[[Values, Values], float]
    where: str
    fits: Callable[[Values, Values], bool]
    used: tuple[str, ...]


def divide(a: float, b: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.float64(a) / np.float64(b))


QUESTIONS = [
    Question("abs(a.x - b.x)", lambda a, b: abs(a["x"] - b["x"]), "", lambda a, b: True, ("x",)),
    Question(
        "a.x - b.x", lambda a, b: a["x"] - b["x"], "WHERE a.id < b.id", lambda a, b: a["id"] < b["id"], ("x", "id"),
    ),
    Question(
        "a.x + b.x", lambda a, b: a["x"] + b["x"], "WHERE a.c = b.c AND a.id < b.id",
        lambda a, b: a["c"] == b["c"] and a["id"] < b["id"], ("c", "id", "x"),
    ),
    Question(
        "a.x / b.x", lambda a, b: divide(a["x"], b["x"]), "WHERE a.c <> b.c AND a.x >= 0",
        lambda a, b: a["c"] != b["c"] and a["x"] >= 0, ("c", "x"),
    ),
]  # fmt: skip


class Asked(NamedTuple):
    question: Question
    k: int
    window: tuple[str, float]
    descending: bool

    def sql(self) -> str:
        kind, size = self.window
        return (
            f"SELECT a.id, b.id, a.x FROM s a, s b {self.question.where} ORDER BY {self.question.score} "
            f"{'DESC' if self.descending else 'ASC'} LIMIT {self.k} WINDOW {int(size)} "
            f"{'ROWS' if kind == 'rows' else 'SECONDS'}"
        )


def best(rows: list[Row], asked: Asked, k: int) -> list[tuple[float, int, int, int]]:
    """Score, the older and the newer row's seq, and a's id, of the best pairs; rows are in order of recency."""
    question = asked.question
    scored = []
    there = [
        r for r in rows if all(r.values[c] is not None and r.values[c] == r.values[c] for c in question.used)
    ]
    for j, newer in enumerate(there):
        for older in there[:j]:
            a, b = older.values, newer.values
            if not question.fits(a, b):
                a, b = b, a
                if not question.fits(a, b):
                    continue
            score = question.value(a, b)
            if score == score:
                scored.append((score, older, newer, a["id"]))
    scored.sort(key=lambda p: (-p[0] if asked.descending else p[0], *(-x for r in p[1:3] for x in r.recency)))
    return [(s + 0.0, older.seq, newer.seq, a) for s, older, newer, a in scored[:k]]


@given(st.data())
def test_equals_the_simple_version(data: st.DataObject) -> None:
    timed, retain = data.draw(st.booleans()), data.draw(st.sampled_from([None, None, 4]))
    time = "t" if timed else None
    monitor = sb.Monitor(time=time, schema=SCHEMA, retain=None if retain is None else sb.rows(retain))
    oracle = Oracle(time, None if retain is None else ("rows", retain))
    asked: dict[str, Asked] = {}
    folded: dict[str, set[tuple[int, int]]] = {}
    for step in range(data.draw(st.integers(1, 8))):
        action = data.draw(
            st.sampled_from(["push", "push", "push", "watch", "drop", "change", "save", "advance"])
        )
        if action == "watch" or not asked:
            window = data.draw(
                st.sampled_from([("rows", 2), ("rows", 6), *([("seconds", 3)] if timed else [])])
            )
            one = Asked(
                data.draw(st.sampled_from(QUESTIONS)),
                data.draw(st.integers(1, 4)),
                window,
                data.draw(st.booleans()),
            )
            monitor.watch(one.sql(), name=f"w{step}")
            oracle.watch(f"w{step}", lambda row: 0.0, one.k, window)
            asked[f"w{step}"], folded[f"w{step}"] = one, set()
            continue
        name = data.draw(st.sampled_from([*asked]))
        if action == "drop":
            monitor.drop(name)
            oracle.drop(name)
            del asked[name]
        elif action == "save":
            monitor = sb.Monitor.from_bytes(monitor.to_bytes())
        elif action == "change":
            k, size = data.draw(st.integers(1, 4)), data.draw(st.sampled_from([1, 3, 7]))
            kind = asked[name].window[0]
            monitor.watches[name].change(k=k, window=f"{size} {kind}")
            oracle.change(name, k, (kind, size))
            asked[name] = asked[name]._replace(k=k, window=(kind, size))
        elif action == "advance":
            if timed:
                oracle.advance(step + 1.0)
                check(monitor, oracle, asked, folded, monitor.advance(step + 1.0))
        else:
            row = st.fixed_dictionaries(
                {
                    "t": st.integers(-3, 0),
                    "id": st.sampled_from([1, 2, 3, 2**53, 2**53 + 1, None]),
                    "c": st.sampled_from(["p", "q", None]),
                    "x": st.one_of(st.integers(-2, 2).map(float), st.sampled_from([0.1, math.inf, math.nan])),
                }
            )
            batch = [{**r, "t": float(step + r["t"])} for r in data.draw(st.lists(row, max_size=4))]
            changes = monitor.push(pa.Table.from_pylist(batch, schema=SCHEMA))
            oracle.push(batch)
            check(monitor, oracle, asked, folded, changes)


def check(
    monitor: sb.Monitor,
    oracle: Oracle,
    asked: dict[str, Asked],
    folded: dict[str, set[tuple[int, int]]],
    changes: pa.Table,
) -> None:
    monitor._check()
    told = changes.to_pylist()
    for name, one in asked.items():
        watch = oracle.watches[name]
        start = oracle._start(watch)
        rows = [row for row in oracle.rows.get("s", []) if row.recency > start]
        k = min([one.k, *(old for known, old in watch.waiting if start < known)])
        expected = best(rows, one, k)
        answer = monitor.watches[name].top()
        columns = ("score", "seq", "seq_b", "a.id")
        assert [*zip(*(answer.column(c).to_pylist() for c in columns), strict=True)] == expected
        own = [row for row in told if row["query"] == name]
        left = {(row["seq"], row["seq_b"]) for row in own if row["change"] == "leave"}
        came = [(row["seq"], row["seq_b"]) for row in own if row["change"] == "enter"]
        assert left <= folded[name] and not folded[name] & {*came}
        folded[name] = folded[name] - left | {*came}
        assert folded[name] == {(seq, seq_b) for _, seq, seq_b, _ in expected}
        assert all(row["id"] is None for row in own)


def test_a_skyband_refreshed_every_fourth_row_tells_the_same() -> None:
    """Rows one by one, answers compared after each."""
    sql = (
        "SELECT a.x FROM s a, s b ORDER BY abs(a.x - b.x) LIMIT 5 WINDOW 25 ROWS WITH (algorithm = 'scase'{})"
    )
    random, changes = np.random.default_rng(4), []
    monitors = [sb.Monitor(), sb.Monitor()]
    for monitor, option in zip(monitors, ("", ", refresh = 4"), strict=True):
        monitor.watch(sql.format(option), name="w")
    for x in random.integers(0, 40, 120).tolist():
        changes = [monitor.push({"x": [float(x)]}) for monitor in monitors]
        assert changes[0].equals(changes[1])
    tops = [monitor.watches["w"].top() for monitor in monitors]
    assert tops[0].equals(tops[1])
    sweeps = [monitor.watches["w"].explain().counters["sweeps"] for monitor in monitors]
    assert sweeps[1] < sweeps[0] / 2
    with pytest.raises(sb.QueryError, match=r"refresh = 2.5 can't be: it is a number of rows"):
        monitors[0].watch(sql.format(", refresh = 2.5"))
    with pytest.raises(sb.QueryError, match="The algorithm ta has no option refresh"):
        monitors[0].watch(sql.format(", refresh = 4").replace("scase", "ta"))


def test_most_pairs_are_never_kept() -> None:
    """Of two thousand rows' two million pairs, some hundreds; and few get over the staircase."""
    monitor = sb.Monitor()
    watch = monitor.watch("SELECT a.x FROM s a, s b ORDER BY abs(a.x - b.x) LIMIT 10 WINDOW 1000 ROWS")
    random = np.random.default_rng(1)
    for _ in range(20):
        monitor.push({"x": random.random(100)})
    plan = watch.explain()
    assert plan.candidates < 400 and plan.counters["pairs scored"] > 1_000_000
    assert plan.counters["above the staircase"] < plan.counters["pairs scored"] / 20


def test_explain_tells_of_late_rows_and_of_pairs_not_looked_at() -> None:
    monitor, random = sb.Monitor(time="t"), np.random.default_rng(2)
    watch = monitor.watch(
        "SELECT a.x FROM s a, s b ORDER BY abs(a.x - b.x) LIMIT 3 WINDOW 200 ROWS WITH (algorithm = 'ta')"
    )
    for step in range(8):
        late = 90.0 * (random.random(50) < 0.3)
        monitor.push({"t": 100.0 * step + 2 * np.arange(50.0) - late, "x": random.random(50)})
    plan = watch.explain()
    counts = plan.counters
    assert 0 < counts["late rows without a sweep"] < counts["late rows"]
    assert counts["pairs accessed"] == counts["pairs there were"]  # too few pairs for sorted lists to be made
    assert [note for note in plan.notes if "late rows changed nothing" in note]
    assert "100.00 % of all pairs were looked at" in plan.notes


def test_colours_of_several_columns() -> None:
    """Two columns are one colour, whatever their types; -0.0 is 0.0."""
    chance = random.Random(5)
    rows = [(chance.choice("ab"), chance.choice([-0.0, 0.0, 1.5]), chance.random()) for _ in range(60)]
    monitor = sb.Monitor()
    watch = monitor.watch(
        "SELECT * FROM s a, s b WHERE a.c = b.c AND a.d = b.d ORDER BY abs(a.x - b.x) LIMIT 3 WINDOW 20 ROWS"
    )
    for start in range(0, 60, 6):
        some = rows[start : start + 6]
        c = pa.array([row[0] for row in some]).dictionary_encode()
        monitor.push(pa.table({"c": c, "d": [row[1] for row in some], "x": [row[2] for row in some]}))
        inside = range(max(0, start + 6 - 20), start + 6)
        pairs = [
            (abs(rows[i][2] - rows[j][2]), i, j)
            for i, j in combinations(inside, 2)
            if rows[i][0] == rows[j][0] and rows[i][1] == rows[j][1]
        ]
        top = watch.top()
        columns = (top[name].to_pylist() for name in ("score", "seq", "seq_b"))
        assert {(score, *sorted(seqs)) for score, *seqs in zip(*columns, strict=True)} == set(
            sorted(pairs)[:3]
        )
