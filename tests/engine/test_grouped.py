"""Grouped queries against the simple version, after every step: ids, scores to the last bit, changes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.object_oracle import ObjectOracle, Values, total

import skyband as sb

SCHEMA = pa.schema(
    [("t", pa.float64()), ("id", pa.string()), ("c", pa.int64()), ("x", pa.float64()), ("y", pa.float64())]
)


class Question(NamedTuple):
    """A score in SQL and in Python, the columns that it uses, and what is asked besides."""

    sql: str
    score: Callable[[Values], float]
    used: tuple[str, ...]
    where: str = ""
    chosen: Callable[[Any], bool | None] = lambda row: True
    having: str = ""
    holds: Callable[[Values], bool] = lambda rows: True


def column(rows: Values, name: str) -> list[float]:
    return [row[name] for row in rows]


QUESTIONS = [
    Question("SUM(x)", lambda rows: total(column(rows, "x")), ("x",)),
    Question("COUNT(*)", len, ()),
    Question("MAX(x) - COUNT(*)", lambda rows: max(column(rows, "x")) - len(rows), ("x",)),
    Question("SUM(x) / COUNT(*) + MAX(y)", lambda rows: total(column(rows, "x")) / len(rows) + max(column(rows, "y")),
             ("x", "y")),
    Question("SUM(x * y)", lambda rows: total([_times(row["x"], row["y"]) for row in rows]), ("x", "y"), "",
             lambda row: not math.isnan(_times(row["x"], row["y"]))),  # a row without a value stays out
    Question("SUM(x)", lambda rows: total(column(rows, "x")), ("x", "c"), "WHERE c > 0", lambda row: row["c"] > 0),
    Question("SUM(x)", lambda rows: total(column(rows, "x")), ("x", "y"), "", lambda row: True,
             "HAVING COUNT(*) > 1 AND MAX(y) < 3", lambda rows: len(rows) > 1 and max(column(rows, "y")) < 3),
]  # fmt: skip


def _times(x: float, y: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.float64(x) * np.float64(y))


numbers = st.one_of(
    st.integers(-3, 3).map(float),
    st.sampled_from([0.1, 0.2, 0.7, 1e16, -1e16, 1e308, -1e308, math.inf, -math.inf, math.nan]),
    st.none(),
)


def rows_of(timed: bool) -> st.SearchStrategy[list[dict[str, Any]]]:
    row = st.fixed_dictionaries(
        {"id": st.sampled_from(["a", "b", "c", None]), "c": st.integers(0, 1), "x": numbers, "y": numbers}
    )
    return st.lists(row, max_size=5)


@st.composite
def questions(draw: st.DrawFn) -> tuple[Question, int | None, tuple[str, float], bool, tuple[str, ...]]:
    window = draw(st.sampled_from([("rows", 1), ("rows", 4), ("rows", 9), ("seconds", 3)]))
    key = draw(st.sampled_from([("id",), ("id",), ("id", "c"), ("c",)]))
    return draw(st.sampled_from(QUESTIONS)), draw(st.integers(1, 3)), window, draw(st.booleans()), key


def text_of(
    question: Question, k: int | None, window: tuple[str, float], descending: bool, key: tuple[str, ...]
) -> str:
    kind, size = window
    return (
        f"SELECT {', '.join(key)}, {question.sql} AS s FROM s {question.where} GROUP BY {', '.join(key)} "
        f"{question.having} ORDER BY {question.sql} {'DESC' if descending else 'ASC'} LIMIT {k} "
        f"WINDOW {int(size)} {'ROWS' if kind == 'rows' else 'SECONDS'}"
    )


class Pair:
    """A monitor and the simple version, asked the same."""

    def __init__(self, timed: bool, retain: int | None, updates: bool) -> None:
        time = "t" if timed else None
        key = "key" if updates else None
        schema = (
            SCHEMA
            if not updates
            else SCHEMA.append(pa.field("key", pa.int64())).append(pa.field("op", pa.string()))
        )
        self.monitor = sb.Monitor(
            time=time, schema=schema, retain=None if retain is None else sb.rows(retain), key=key,
            op="op" if updates else None,
        )  # fmt: skip
        self.oracle = ObjectOracle(
            time, None if retain is None else ("rows", retain), key=key, op="op" if updates else None
        )
        self.folded: dict[str, dict[str, float]] = {}

    def watch(self, name: str, asked: Any) -> None:
        question, k, window, descending, key = asked
        self.monitor.watch(text_of(*asked), name=name)
        self.oracle.watch_objects(
            name,
            key,
            question.score,
            k,
            window,
            (*question.used, *key),
            descending,
            question.chosen,
            question.holds,
        )
        self.folded[name] = {}

    def told(self, changes: pa.Table, expected: dict[str, Any]) -> None:
        rows = changes.to_pylist()
        for name in self.oracle.watches:
            own = [row for row in rows if row["query"] == name]
            leaves = {(row["id"], row["score"]) for row in own if row["change"] == "leave"}
            enters = [(row["rank"], row["id"], row["score"]) for row in own if row["change"] == "enter"]
            assert [row["change"] for row in own] == ["leave"] * len(leaves) + ["enter"] * len(enters)
            assert all(row["seq"] is None and row["seq_b"] is None for row in own)
            if name in expected:
                assert (leaves, enters) == expected[name]
            for row in own:
                if row["change"] == "leave":
                    assert self.folded[name].pop(row["id"]) == row["score"]
            for row in own:
                if row["change"] == "enter":
                    assert row["id"] not in self.folded[name]
                    self.folded[name][row["id"]] = row["score"]

    def check(self) -> None:
        self.monitor._check()
        for name, watch in self.oracle.watches.items():
            top = self.oracle.top(name)
            answer = self.monitor.watches[name].top()
            assert answer.column("rank").to_pylist() == [r.rank for r in top]
            assert answer.column("score").to_pylist() == [r.score for r in top]
            keys = zip(*(answer.column(name).to_pylist() for name in watch.key), strict=True)  # type: ignore[attr-defined]
            if len(watch.key) == 1:  # type: ignore[attr-defined]
                assert [str(key) for (key,) in keys] == [r.id for r in top]
            assert self.folded[name] == {r.id: r.score for r in top}


@given(st.data())
def test_equals_the_simple_version(data: st.DataObject) -> None:
    timed = data.draw(st.booleans())
    retain = data.draw(st.sampled_from([None, None, 6]))
    updates = data.draw(st.sampled_from([False, False, True]))
    pair = Pair(timed, retain, updates)
    count = 0
    for step in range(data.draw(st.integers(1, 10))):
        names = list(pair.oracle.watches)
        action = data.draw(
            st.sampled_from(["push", "push", "push", "watch", "drop", "change", "save", "advance"])
        )
        if action == "watch" or not names:
            asked = data.draw(questions())
            if not timed and asked[2][0] == "seconds":
                continue
            pair.watch(f"w{count}", asked)
            count += 1
        elif action == "drop":
            name = data.draw(st.sampled_from(names))
            pair.monitor.drop(name)
            pair.oracle.drop(name)
        elif action == "save":
            pair.monitor = sb.Monitor.from_bytes(pair.monitor.to_bytes())
        elif action == "advance":
            if timed:
                pair.told(pair.monitor.advance(step + 1.0), pair.oracle.advance(step + 1.0))
        elif action == "change":
            name, k = data.draw(st.sampled_from(names)), data.draw(st.integers(1, 3))
            kind, _ = pair.oracle.watches[name].window
            window = (kind, data.draw(st.sampled_from([1, 3, 7])))
            pair.monitor.watches[name].change(k=k, window=f"{window[1]} {kind}")
            pair.oracle.change(name, k, window)
        else:
            batch = data.draw(rows_of(timed))
            for row in batch:
                row["t"] = float(step - data.draw(st.integers(0, 4)))
                if updates:
                    row["key"] = data.draw(st.integers(0, 3))
                    row["op"] = data.draw(st.sampled_from(["insert", "insert", "delete"]))
            table = (
                pa.Table.from_pylist(batch, schema=pair.monitor.streams["s"].schema if batch else None)
                if batch
                else []
            )
            pair.told(pair.monitor.push(table), pair.oracle.push(batch))
            pair.check()
