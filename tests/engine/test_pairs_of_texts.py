"""Pairs whose predicate compares texts, decimals and numbers of different types, against all pairs."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from itertools import combinations
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.algorithms.pairs import pair_base, ranks

SCHEMA = pa.schema(
    [
        ("t", pa.int64()), ("p", pa.string()), ("q", pa.dictionary(pa.int32(), pa.string())), ("i", pa.int64()),
        ("j", pa.int32()), ("f", pa.float64()), ("d", pa.decimal128(20, 2)), ("e", pa.decimal128(24, 4)),
        ("x", pa.float64()),
    ]
)  # fmt: skip
TEXTS = ["", "a", "aa", "b", "é", "\uffff", "\U0001f600", None]
BIG = 2**53
Row = dict[str, Any]
FITS: dict[str, Callable[[Row, Row], bool]] = {
    "a.p < b.p": lambda a, b: a["p"] < b["p"],
    "a.p = b.q AND a.q = b.p": lambda a, b: a["p"] == b["q"] and a["q"] == b["p"],
    "a.p >= b.q OR a.p <> b.p AND a.q = 'a'": lambda a, b: (
        a["p"] >= b["q"] or (a["p"] != b["p"] and a["q"] == "a")
    ),
    "a.i < b.j": lambda a, b: a["i"] < b["j"],
    "a.i > b.f": lambda a, b: a["i"] > b["f"],
    "a.d <= b.e AND a.d <> b.i": lambda a, b: a["d"] <= b["e"] and a["d"] != b["i"],
    "a.q = b.q AND a.p < b.p": lambda a, b: a["q"] == b["q"] and a["p"] < b["p"],
    "a.i + 1 < b.i": lambda a, b: a["i"] + 1 < b["i"],
}


def row_of(drawn: random.Random, now: int) -> Row:
    return {
        "t": now - drawn.choice([0, 0, 0, 1, 4]),
        "p": drawn.choice(TEXTS) if drawn.random() < 0.7 else f"{drawn.random():.3f}",
        "q": drawn.choice(TEXTS),
        "i": drawn.choice([0, 1, 2, BIG, BIG + 1, None]),
        "j": drawn.choice([0, 1, 3]),
        "f": drawn.choice([0.0, -0.0, 1.5, 2.0, float(BIG), BIG + 2.0, float("inf")]),
        "d": drawn.choice([Decimal("0.00"), Decimal("1.50"), Decimal("2.00"), Decimal(BIG)]),
        "e": drawn.choice([Decimal("0.0000"), Decimal("1.5000"), Decimal("1.4999")]),
        "x": float(drawn.randrange(-4, 5)),
    }


def best(rows: list[tuple[int, int, Row]], where: str, k: int, last: int | None) -> list[tuple[Any, ...]]:
    """Score and seqs of the best pairs of the last rows, which are (time, seq, values)."""
    used = {"x", *(part[2] for part in where.split() if part[:2] in ("a.", "b."))}
    inside = sorted(rows, key=lambda row: row[:2])[-last:] if last else rows
    there = [row for row in inside if all(row[2][name] is not None for name in used)]
    found = []
    for one, other in combinations(sorted(there, key=lambda row: row[:2]), 2):
        for a, b in ((one[2], other[2]), (other[2], one[2])):
            if FITS[where](a, b):
                found.append((a["x"] - 2 * b["x"], one, other))
                break
    found.sort(key=lambda pair: (-pair[0], *(-n for row in pair[1:] for n in row[:2])))
    return [(score + 0.0, one[1], other[1]) for score, one, other in found[:k]]


def answer(watch: sb.Watch) -> list[tuple[Any, ...]]:
    top = watch.top()
    return [*zip(*(top.column(name).to_pylist() for name in ("score", "seq", "seq_b")), strict=True)]


@pytest.mark.parametrize("where", FITS)
@pytest.mark.parametrize("compiled", [False, True])
def test_equal_all_pairs(where: str, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With late rows, nulls, and a file in between; by numpy, and by the loops that are compiled later."""
    if compiled:
        if where not in ("a.p < b.p", "a.d <= b.e AND a.d <> b.i"):
            return  # each predicate has its own loops: two of them are enough
        monkeypatch.setattr(pair_base, "COMPILE_AFTER", 0)
        monkeypatch.setattr(pair_base, "COMPILE_KNOWN", 0)
    else:  # with little room between ranks, and none for values that no row has
        monkeypatch.setattr(ranks, "_APART", 2)
        monkeypatch.setattr(ranks, "_FEW", 0)
    drawn, rows = random.Random(where), []
    monitor = sb.Monitor(time="t", schema=SCHEMA)
    monitor.watch(
        f"SELECT * FROM s a, s b WHERE {where} ORDER BY a.x - 2 * b.x DESC LIMIT 5 WINDOW 25 ROWS", name="w"
    )
    seq = 0
    for step in range(50):
        batch = [row_of(drawn, step) for _ in range(drawn.randrange(1, 5))]
        monitor.push(pa.Table.from_pylist(batch, schema=SCHEMA))
        rejected = set(monitor.rejects().column("seq").to_pylist())
        rows += [(row["t"], seq + i, row) for i, row in enumerate(batch) if seq + i not in rejected]
        seq += len(batch)
        assert answer(monitor.watches["w"]) == best(rows, where, 5, 25)
        monitor._check()
        if step % 13 == 12:
            monitor = sb.Monitor.from_bytes(monitor.to_bytes())
    slow = [note for note in monitor.watches["w"].explain().notes if "numpy" in note]
    assert bool(slow) == (where == "a.i + 1 < b.i")


@pytest.mark.parametrize("where", ["a.p < b.p", "a.i > b.f"])
def test_what_was_kept_as_columns_goes_on_as_ranks(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier versions kept the columns themselves for these comparisons."""
    drawn = random.Random(5)
    batches = [[row_of(drawn, step) for _ in range(4)] for step in range(12)]
    sql = f"SELECT * FROM s a, s b WHERE {where} ORDER BY a.x - 2 * b.x DESC LIMIT 5 WINDOW 25 ROWS"
    with monkeypatch.context() as earlier:
        earlier.setattr(pair_base, "pairing", lambda *_: None)
        old = sb.Monitor(time="t", schema=SCHEMA)
        old.watch(sql, name="w")
        for batch in batches[:8]:
            old.push(pa.Table.from_pylist(batch, schema=SCHEMA))
        kept = old.to_bytes()
    new = sb.Monitor.from_bytes(kept)
    assert answer(new.watches["w"]) == answer(old.watches["w"])
    assert not [note for note in new.watches["w"].explain().notes if "numpy" in note]
    for batch in batches[8:]:
        table = pa.Table.from_pylist(batch, schema=SCHEMA)
        with monkeypatch.context() as earlier:
            earlier.setattr(pair_base, "pairing", lambda *_: None)
            changes = old.push(table)
        assert new.push(table).equals(changes)
        new._check()


def test_columns_that_widen() -> None:
    """Integers that become doubles: their ranks among the numbers become numbers, and the answers stay exact."""
    for whole, wider in (([1, 2, 3, 4], 2.5), ([BIG - 1, 5, 6, 7], 0.5)):
        monitor = sb.Monitor()
        sql = (
            "SELECT a.i, b.j FROM s a, s b WHERE a.i < b.j ORDER BY a.x - 2 * b.x DESC LIMIT 3 WINDOW 20 ROWS"
        )
        watch = monitor.watch(sql)
        rows: list[Row] = [{"i": i, "j": i % 3, "x": float(i % 5)} for i in whole]
        monitor.push(rows[:4])
        for more in (
            {"i": 2, "j": wider, "x": 0.25},
            {"i": wider, "j": 3, "x": 0.75},
            {"i": 0, "j": 1, "x": 0.0},
        ):
            rows.append(more)
            monitor.push([more])
            monitor._check()
            found = [(0, n, row) for n, row in enumerate(rows)]
            assert answer(watch) == best(found, "a.i < b.j", 3, 20)
