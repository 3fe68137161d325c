"""A monitor and the oracle side by side: every step is done to both, and everything is compared after it.

What is compared: the changes (net, leaves before enters, enters by rank, with score and time), the tops
(rank, score, seq, time), the tops against the fold of all changes, the rejects, now and the number of rows
seen, and the monitor's own invariants (`_check`).
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from tests.oracle import Oracle, Ranked, Window

import skyband as sb

EPOCH = dt.datetime(2024, 2, 29, 23, 59, 50)
SCHEMA = [("x", pa.float64()), ("y", pa.float64()), ("c", pa.string())]
TIMES = {"none": None, "number": pa.float64(), "whole": pa.int64(), "timestamp": pa.timestamp("us")}


def divided(a: float, b: float) -> float:
    """IEEE division, which Python refuses by zero."""
    if b != 0:
        return a / b
    return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1, b)


def _over(function: Callable[..., Any], *names: str) -> Callable[[Mapping[str, Any]], Any]:
    """The null rule: no value where a column that is used is null or NaN."""

    def value(row: Mapping[str, Any]) -> Any:
        values = [row.get(name) for name in names]
        return None if any(v is None or v != v for v in values) else function(*values)

    return value


SCORES = {
    "x": _over(lambda x: x, "x"),
    "x + y": _over(lambda x, y: x + y, "x", "y"),
    "2 * x - y": _over(lambda x, y: 2 * x - y, "x", "y"),
    "x / y": _over(divided, "x", "y"),
    "abs(x - 1)": _over(lambda x: abs(x - 1), "x"),
    "least(x, y) ^ 2": _over(lambda x, y: min(x, y) * min(x, y), "x", "y"),
}
WHERES = {
    "": lambda row: True,
    "y > 1": _over(lambda y: y > 1, "y"),
    "c = 'a'": _over(lambda c: c == "a", "c"),
    "NOT (x < 1 OR c <> 'a')": _over(lambda x, c: not (x < 1 or c != "a"), "x", "c"),
}


@dataclass(frozen=True)
class Question:
    """A query as SQL text and, for the oracle, as Python functions."""

    score: str = "x"
    k: int | None = 2  # None: a threshold query, score beyond `bound`
    window: Window = ("rows", 4)
    descending: bool = True
    where: str = ""
    bound: float = 0
    algorithm: str | None = None
    stream: str = "s"

    def sql(self) -> str:
        n, unit = self.window[1], self.window[0].upper()
        using = f" WITH (algorithm = '{self.algorithm}')" if self.algorithm else ""
        if self.k is None:
            also = f" AND {self.where}" if self.where else ""
            beyond = f"{self.score} {'>' if self.descending else '<'} {self.bound}"
            return f"SELECT * FROM {self.stream} WHERE {beyond}{also} WINDOW {n} {unit}{using}"
        where = f" WHERE {self.where}" if self.where else ""
        order = f"ORDER BY {self.score} {'DESC' if self.descending else 'ASC'} LIMIT {self.k}"
        return f"SELECT * FROM {self.stream}{where} {order} WINDOW {n} {unit}{using}"

    def functions(self) -> dict[str, Any]:
        score, where = SCORES[self.score], WHERES[self.where]
        if self.k is None:
            sign = 1 if self.descending else -1

            def beyond(row: Mapping[str, Any]) -> bool:
                s = score(row)
                return bool(where(row)) and s is not None and s * sign > self.bound * sign

            return {"score": score, "where": beyond}
        return {"score": score, "where": where}


class Twin:
    def __init__(
        self,
        time: str = "none",
        retain: Window | None = None,
        max_ahead: float | None = None,
        streams: Iterable[str] = ("s",),
        step_check: bool = True,
        key: pa.DataType | None = None,
        op: bool = False,
    ) -> None:
        self.kind, self.step_check = time, step_check
        fields = [*SCHEMA, *([("t", TIMES[time])] if TIMES[time] else [])]
        fields += [("id", key)] * (key is not None) + [("op", pa.string())] * op
        self.schema = pa.schema(fields)
        self.streams = tuple(streams)
        self.monitor = sb.Monitor(
            time="t" if TIMES[time] else None,
            schema=self.schema if len(self.streams) == 1 else {s: self.schema for s in self.streams},
            retain=None if retain is None else as_window(retain),
            max_ahead=None if max_ahead is None else f"{max_ahead} seconds",
            key=None if key is None else "id",
            op="op" if op else None,
        )
        self.oracle = Oracle(
            "t" if TIMES[time] else None, retain, max_ahead,
            key=None if key is None else "id", op="op" if op else None,
        )  # fmt: skip
        self.told: dict[str, dict[int, tuple[float, float]]] = {}
        self.questions: dict[str, Question] = {}

    # ---- the steps

    def watch(self, name: str, question: Question) -> None:
        self.monitor.watch(question.sql(), name=name)
        self.oracle.watch(
            name, k=question.k, window=question.window, descending=question.descending,
            stream=question.stream, **question.functions(),
        )  # fmt: skip
        self.questions[name], self.told[name] = question, {}

    def drop(self, name: str) -> None:
        self.monitor.drop(name)
        self.oracle.drop(name)
        del self.told[name], self.questions[name]

    def change(self, name: str, k: int | None = None, window: Window | None = None) -> None:
        wanted = {"k": k, "window": None if window is None else as_window(window)}
        self.monitor.watches[name].change(**{key: v for key, v in wanted.items() if v is not None})
        self.oracle.change(name, k, window)
        q = self.questions[name]
        self.questions[name] = replace(q, k=k or q.k, window=window or q.window)
        self.check_tops()

    def push(self, rows: list[dict[str, Any]], stream: str | None = None) -> pa.Table:
        table = pa.Table.from_pylist([self._typed(row) for row in rows], schema=self.schema)
        changes = self.monitor.push(table, **({} if stream is None else {"stream": stream}))
        self._compare(changes, self.oracle.push(rows, stream or self.streams[0]))
        return changes

    def advance(self, time: float) -> pa.Table:
        changes = self.monitor.advance(self._moment(time))
        self._compare(changes, self.oracle.advance(time))
        return changes

    def reload(self) -> None:
        self.monitor = sb.Monitor.from_bytes(self.monitor.to_bytes())
        self.check_tops()

    # ---- the comparison

    def _compare(self, changes: pa.Table, expected: dict[str, tuple[set, list[Ranked]]]) -> None:
        got = self._changes(changes)
        for name, (leaves, enters) in expected.items():
            left, entered = got.get(name, ([], []))
            told = self.told[name]
            assert [told[seq] for seq, *_ in left] == [(score, time) for _, score, time in left], name
            assert len(left) == len(leaves) and {seq for seq, *_ in left} == leaves, (name, left, leaves)
            assert entered == enters, (name, entered, enters)
            for seq in leaves:
                del told[seq]
            told.update({r.seq: (r.score, r.time) for r in enters})
        assert got.keys() <= expected.keys()
        self.check_tops()
        for name in expected:  # fold(changes) == top
            told = self.told[name]
            assert {r.seq: (r.score, r.time) for r in self.top(name)} == told, name

    def check_tops(self) -> None:
        if self.step_check:
            self.monitor._check()
        for name in self.questions:
            assert self.top(name) == self.oracle.top(name), (name, self.top(name), self.oracle.top(name))
        assert self.monitor.rows_seen == self.oracle.seq
        now = self.monitor.now
        assert self.oracle.now == (None if now is None else self._seconds(now))
        rejects = self.monitor.rejects()
        assert (
            list(zip(*[rejects[c].to_pylist() for c in ("seq", "reason")], strict=True))
            == self.oracle.rejects
        )

    def top(self, name: str, k: int | None = None, window: Window | None = None) -> list[Ranked]:
        """The monitor's answer, in the oracle's words."""
        asked = {"k": k, "window": None if window is None else as_window(window)}
        table = self.monitor.watches[name].top(**{key: v for key, v in asked.items() if v is not None})
        times = table["t"].to_pylist() if "t" in table.column_names else [None] * len(table)
        columns = (table["rank"].to_pylist(), table["score"].to_pylist(), table["seq"].to_pylist(), times)
        return [Ranked(r, s, q, self._seconds(t)) for r, s, q, t in zip(*columns, strict=True)]

    def _changes(self, table: pa.Table) -> dict[str, tuple[list[tuple], list[Ranked]]]:
        assert table.column_names == ["query", "change", "rank", "score", "seq", "seq_b", "id", "time"]
        by_query: dict[str, tuple[list, list]] = {}
        for row in table.to_pylist():
            leaves, enters = by_query.setdefault(row["query"], ([], []))
            time = self._seconds(row["time"])
            assert row["seq_b"] is None and row["id"] is None
            if row["change"] == "leave":
                assert not enters, "leaves come first"
                assert row["rank"] is None
                leaves.append((row["seq"], row["score"], time))
            else:
                assert row["change"] == "enter"
                enters.append(Ranked(row["rank"], row["score"], row["seq"], time))
        return by_query

    def _typed(self, row: Mapping[str, Any]) -> dict[str, Any]:
        if self.kind != "timestamp":
            return dict(row)
        return {**row, "t": None if row["t"] is None else self._moment(row["t"])}

    def _moment(self, time: float) -> Any:
        return EPOCH + dt.timedelta(seconds=time) if self.kind == "timestamp" else time

    def _seconds(self, time: Any) -> float:
        if time is None:
            return 0
        return (time.replace(tzinfo=None) - EPOCH).total_seconds() if self.kind == "timestamp" else time


def as_window(window: Window) -> str:
    return f"{window[1]} {window[0]}"
