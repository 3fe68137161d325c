"""Batches that change types, lose, gain and misspell columns, jump in time and come twice.

The reference states the rules of types and columns in plain Python; which rows are late or wait, and what the answer
is, the oracle says.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.oracle import Oracle

import skyband as sb

BIG = 2**53 + 1  # an integer that no double holds
Row = dict[str, Any]
NAMED = ("t", "x")  # what the query and the time column need


class Reference:
    """One stream, its types and columns, its notices, and the oracle behind them."""

    def __init__(self, max_ahead: float | None) -> None:
        self.oracle = Oracle("t", max_ahead=max_ahead, fits=lambda row: not row.get("misfit"))
        self.oracle.watch(
            "q", lambda row: None if row.get("x") is None else float(row["x"]), 3, ("seconds", 30)
        )
        self.kinds: dict[str, str] = {}  # int, double, text, or null while no value has shown it
        self.exact: Counter[str] = Counter()  # accepted integers that a double doesn't hold, by column
        self.notices: Counter[tuple[str, str | None]] = Counter()

    def push(self, rows: list[Row], columns: list[str]) -> None:
        """Take a batch with these columns."""
        begun = bool(self.kinds)
        if begun:
            for name in NAMED:
                self.notices["missing column", name] += len(rows) * (name not in columns)
            for name in columns:
                self.notices["unknown column", name] += len(rows) * (name not in self.kinds)
        for name in columns:
            self._widen(name, [row[name] for row in rows], len(rows))
        taken = [{**row, "misfit": any(not self._fits(n, row[n]) for n in columns)} for row in rows]
        before, waited, first = len(self.oracle.rejects), len(self.oracle.notices), self.oracle.seq
        self.oracle.push(taken)
        rejected = len(self.oracle.rejects) - before
        late = {seq - first for seq, reason in self.oracle.rejects[before:] if reason == "late"}
        for place, row in enumerate(taken):
            for name in (
                columns if not row["misfit"] and row.get("t") is not None and place not in late else ()
            ):
                self.exact[name] += row[name] == BIG
        self.notices["all rejected", None] += rejected * (rejected == len(rows))
        for kind, count in self.oracle.notices[waited:]:
            self.notices[kind, "t"] += count

    def _widen(self, name: str, values: list[Any], rows: int) -> None:
        known = [value for value in values if value is not None]
        kind = self.kinds.get(name, "null")
        fractions = any(isinstance(value, float) and not value.is_integer() for value in known)
        if kind == "null" and known:
            floats = any(isinstance(value, float) for value in known)
            kind = "text" if isinstance(known[0], str) else "double" if floats else "int"
        elif kind == "int" and fractions and not self.exact[name]:
            kind = "double"
            self.notices["widened", name] += rows
        self.kinds[name] = kind

    def _fits(self, name: str, value: Any) -> bool:
        kind = self.kinds[name]
        if value is None:
            return True
        if isinstance(value, str) or kind == "text":
            return isinstance(value, str) and kind == "text"
        return value != BIG if kind == "double" else float(value).is_integer()


@st.composite
def batches(draw: st.DrawFn) -> list[tuple[list[Row], list[str], bool]]:
    """Rows, the batch's columns, and whether it is sent twice."""
    found, moment = [], 0
    for number in range(draw(st.integers(1, 8))):
        columns = [name for name in ("t", "x", "c") if number == 0 or draw(st.integers(0, 7))]
        if number and draw(st.integers(0, 3)) == 0:
            columns.append(draw(st.sampled_from(["X", "xx", "extra"])))
        style = draw(st.sampled_from(["whole", "whole", "fractions", "big", "texts"]))
        jump = draw(st.sampled_from([0, 0, 0, 0, 50, 1000]))
        rows = []
        for _ in range(draw(st.integers(1, 5))):
            moment += draw(st.integers(0, 3))
            row: Row = {}
            for name in columns:
                if name == "t":
                    row["t"] = draw(st.sampled_from([moment, moment, moment + jump, moment - 8, None]))
                elif name == "c":
                    odd = number and style == "texts" and draw(st.booleans())
                    row["c"] = 7 if odd else draw(st.sampled_from(["a", "b", None]))
                else:
                    row[name] = draw(st.sampled_from(VALUES["whole" if number == 0 else style]))
            rows.append(row)
        if number == 0:  # the types of the first batch are known
            rows[0] |= {"t": 0, "x": 1, "c": "a"}
        found.append((rows, columns, draw(st.integers(0, 4)) == 0))
    return found


VALUES: dict[str, list[Any]] = {
    "whole": [1, 2, 3, 2.0, None],
    "fractions": [0.5, 1, 2.5, None],
    "big": [BIG, 1, 2],
    "texts": [1, 3, "one"],
}


@given(steps=batches(), ahead=st.sampled_from([None, 20]))
def test_it_is_as_the_rules_say(steps: list[tuple[list[Row], list[str], bool]], ahead: float | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        reference = Reference(ahead)
        with sb.Monitor(time="t", max_ahead=ahead, journal=f"{folder}/j") as m:
            m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 3 WINDOW 30 SECONDS", name="q")
            for number, (rows, columns, again) in enumerate(steps):
                if not columns:
                    continue
                batch = {name: [row[name] for row in rows] for name in columns}
                for _ in range(1 + again):
                    m.push(batch, key=str(number))
                reference.push(rows, columns)
                compare(m, reference)
        with sb.Monitor(journal=f"{folder}/j") as m:
            compare(m, reference)
            copy = sb.Monitor.from_bytes(m.to_bytes())
            compare(copy, reference)


def compare(m: Any, reference: Reference) -> None:
    oracle = reference.oracle
    top = m.watches["q"].top()
    assert list(zip(top["seq"].to_pylist(), top["score"].to_pylist(), strict=True)) == [
        (row.seq, row.score) for row in oracle.top("q")
    ]
    rejects = m.rejects()
    assert [*zip(*(rejects[name].to_pylist() for name in ("seq", "reason")), strict=True)] == oracle.rejects
    found = Counter({(n["notice"], n["column"]): n["rows"] for n in m.notices().to_pylist()})
    assert found == +reference.notices
    assert m.now == oracle.now and m.rows_seen == oracle.seq
    m._check()
