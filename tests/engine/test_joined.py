"""Joined streams against the simple version, after every step."""

from __future__ import annotations

import math
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.object_oracle import ObjectOracle, total

import skyband as sb

SCHEMA = pa.schema([("t", pa.float64()), ("id", pa.int64()), ("x", pa.float64()), ("y", pa.float64())])
numbers = st.one_of(
    st.integers(-2, 3).map(float), st.sampled_from([0.1, 0.7, 1e16, math.inf, -math.inf, math.nan]), st.none()
)
TOGETHER = {
    "sum": total,
    "max": lambda told: max(told) if told else 0.0,
    "last": lambda told: told[-1] if told else 0.0,
}


def pair(timed: bool, retain: int | None) -> tuple[sb.Monitor, ObjectOracle]:
    kept = None if retain is None else sb.rows(retain)
    monitor = sb.Monitor(time="t" if timed else None, schema={"r1": SCHEMA, "r2": SCHEMA}, retain=kept)
    return monitor, ObjectOracle("t" if timed else None, None if retain is None else ("rows", retain))


@st.composite
def questions(draw: st.DrawFn, timed: bool) -> tuple[str, Any]:
    """A joined query in SQL, and what the simple version needs for it."""
    repeat = draw(st.sampled_from([*TOGETHER]))
    k = draw(st.integers(1, 3))
    down = draw(st.booleans())
    window = draw(st.sampled_from([("rows", 3), ("rows", 7), *([("seconds", 3)] if timed else [])]))
    together = TOGETHER[repeat]

    def column(rows: Any, stream: str, name: str) -> float:
        return float(together([row[name] for row in rows[stream]]))

    forms = [
        (
            "r1.x + r2.x",
            {"r1": ("x",), "r2": ("x",)},
            lambda rows: column(rows, "r1", "x") + column(rows, "r2", "x"),
        ),
        (
            "2 * r1.x - r2.y",
            {"r1": ("x",), "r2": ("y",)},
            lambda rows: 2.0 * column(rows, "r1", "x") - column(rows, "r2", "y"),
        ),
        ("r2.x", {"r1": (), "r2": ("x",)}, lambda rows: column(rows, "r2", "x")),
    ]
    text, used, score = draw(st.sampled_from(forms))
    where, holds = "", lambda rows: True
    if draw(st.booleans()) and used["r1"]:
        where, holds = "WHERE r1.x >= 1", lambda rows: column(rows, "r1", "x") >= 1
    unit = "ROWS" if window[0] == "rows" else "SECONDS"
    sql = (
        f"SELECT id, {text} AS s FROM r1 FULL JOIN r2 USING (id) {where} ORDER BY {text} {'DESC' if down else 'ASC'} "
        f"LIMIT {k} WINDOW {window[1]} {unit} WITH (repeat = '{repeat}')"
    )
    return sql, (score, k, window, used, down, holds)


@given(st.data())
def test_equals_the_simple_version(data: st.DataObject) -> None:
    timed = data.draw(st.booleans())
    monitor, oracle = pair(timed, data.draw(st.sampled_from([None, None, 5])))
    folded: dict[str, dict[str, float]] = {}
    for step in range(data.draw(st.integers(1, 10))):
        action = data.draw(
            st.sampled_from(["push", "push", "push", "watch", "save", "advance", "drop", "change"])
        )
        if action == "watch" or not oracle.watches:
            name = f"w{step}"
            sql, (score, k, window, used, down, holds) = data.draw(questions(timed))
            monitor.watch(sql, name=name)
            oracle.watch_joined(name, "id", score, k, window, used, down, holds)
            folded[name] = {}
            continue
        if action == "save":
            monitor = sb.Monitor.from_bytes(monitor.to_bytes())
            continue
        if action == "drop":
            name = data.draw(st.sampled_from([*oracle.watches]))
            monitor.drop(name)
            oracle.drop(name)
            continue
        if action == "change":
            name, k = data.draw(st.sampled_from([*oracle.watches])), data.draw(st.integers(1, 3))
            monitor.watches[name].change(k=k)
            oracle.change(name, k)
            continue
        if action == "advance":
            if timed:
                fold(folded, monitor.advance(step + 1.0), oracle.advance(step + 1.0))
            continue
        stream = data.draw(st.sampled_from(["r1", "r2"]))
        row = st.fixed_dictionaries(
            {"t": st.integers(-4, 0), "id": st.sampled_from([1, 2, 3, None]), "x": numbers, "y": numbers}
        )
        batch = [{**r, "t": float(step + r["t"])} for r in data.draw(st.lists(row, max_size=5))]
        changes = monitor.push(pa.Table.from_pylist(batch, schema=SCHEMA), stream=stream)
        fold(folded, changes, oracle.push(batch, stream))
        monitor._check()
        for name in oracle.watches:
            top, answer = oracle.top(name), monitor.watches[name].top()
            assert answer.column("score").to_pylist() == [r.score for r in top]
            assert [str(x) for x in answer.column("id").to_pylist()] == [r.id for r in top]
            assert folded[name] == {r.id: r.score for r in top}


def fold(folded: dict[str, dict[str, float]], changes: pa.Table, expected: dict[str, Any]) -> None:
    rows = changes.to_pylist()
    for name, (leaves, enters) in expected.items():
        own = [row for row in rows if row["query"] == name]
        assert {(row["id"], row["score"]) for row in own if row["change"] == "leave"} == leaves
        assert [(row["rank"], row["id"], row["score"]) for row in own if row["change"] == "enter"] == enters
        for key, _ in leaves:
            del folded[name][key]
        folded[name] |= {key: score for _, key, score in enters}


@pytest.mark.parametrize("streams", [60, 300])
def test_many_streams(streams: int) -> None:
    """More sums than have flags, more streams than a byte counts; values that two doubles don't hold the sum of."""
    names = [f"r{i}" for i in range(streams)]
    monitor = sb.Monitor(schema={name: {"id": "int64", "x": "double"} for name in names})
    asked = names if streams < 100 else [names[i] for i in (0, 3, -4, -1)]
    joins = " ".join(f"FULL JOIN {name} USING (id)" for name in names[1:])
    text = f"SELECT id FROM r0 {joins} ORDER BY {' + '.join(f'{name}.x' for name in asked)} DESC LIMIT 3 WINDOW 12 ROWS"
    watch = monitor.watch(text)
    random = np.random.default_rng(1)
    told: list[tuple[int, int, float]] = []
    for _ in range(15):
        stream = int(random.choice([0, 3, streams - 4, streams - 1]))
        rows = [
            (int(random.integers(0, 3)), float(random.choice([1e16, 1.0, 1e-16, -1e16]))) for _ in range(3)
        ]
        monitor.push({"id": [i for i, _ in rows], "x": [x for _, x in rows]}, stream=names[stream])
        told += [(id_, stream, x) for id_, x in rows]
        scores = []
        for id_ in {row[0] for row in told[-12:]}:
            own = [[x for i, s, x in told[-12:] if (i, s) == (id_, stream)] for stream in range(streams)]
            scores.append(reduce(add, map(math.fsum, own)))  # since Python 3.12 sum() makes up for rounding
        assert watch.top().column("score").to_pylist() == sorted(scores, reverse=True)
        monitor._check()
    with pytest.raises(sb.QueryError, match="up to 48 streams"):
        monitor.watch(f"{text} WITH (algorithm = 'eaa')")
