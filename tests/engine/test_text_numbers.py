"""Queries that compare a column with texts are one family over numbers for these texts; answers stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.stream.text_numbers import LEAST, TextNumbers, find

LETTERS = np.array(["a", "b", "", "a longer text than eight bytes", "ä"])
SOME = [*LETTERS, "missing", "later"]


def rows(rng: np.random.Generator, count: int, start: int, late: int = 0) -> pa.Table:
    text = pa.array(LETTERS[rng.integers(0, len(LETTERS), count)], mask=rng.random(count) < 0.1)
    stamps = start + np.arange(count) - (rng.integers(0, late + 1, count) if late else 0)
    return pa.table(
        {"ts": stamps.astype(np.float64), "x": rng.random(count).round(2), "y": rng.random(count), "g": text}
    )


def query(text: str, weight: float, k: int, window: str, algorithm: str) -> str:
    return (
        f"SELECT g, x FROM s WHERE g = '{text}' ORDER BY {weight!r} * x + y DESC LIMIT {k} WINDOW {window} "
        f"WITH (algorithm = '{algorithm}')"
    )


class Two:
    """The same watches, with numbers for texts and without."""

    def __init__(self, algorithm: str, **options: Any) -> None:
        self.algorithm = algorithm
        self.one, self.other = (sb.Monitor(time="ts", **options) for _ in range(2))

    def watch(self, text: str, weight: float, k: int, window: str, name: str) -> None:
        self.one.watch(query(text, weight, k, window, self.algorithm), name=name)
        self.other.watch(query(text, weight, k, window, "ra"), name=name)

    def push(self, batch: pa.Table) -> None:
        changes = [m.push(batch).to_pylist() for m in (self.one, self.other)]
        assert [sorted(rows, key=lambda row: row["query"]) for rows in changes[:1]] == [
            sorted(rows, key=lambda row: row["query"]) for rows in changes[1:]
        ]
        for name, watch in self.one.watches.items():
            assert watch.top().equals(self.other.watches[name].top())
        self.one._check()

    def families(self) -> int:
        return len({id(watch.group) for watch in self.one.watches.values()})


@pytest.mark.parametrize("algorithm", ["heightmap", "scan"])
@pytest.mark.parametrize("retain", [None, sb.rows(300)])
@pytest.mark.parametrize("late", [0, 40])
def test_texts_in_one_family(algorithm: str, retain: Any, late: int) -> None:
    rng = np.random.default_rng(5)
    two = Two(algorithm, retain=retain)
    for i in range(20):
        window = ["200 ROWS", "150 SECONDS", "90 SECONDS"][i % 3]
        two.watch(SOME[i % 6], float(rng.normal()), 1 + i % 4, window, f"q{i}")
    for step in range(24):
        two.push(rows(rng, 60, 60 * step, late))
        if step == 8:  # texts that no query has named so far, among them one that is in the rows
            assert two.families() == 1
            for text in ("later", "ä"):
                two.watch(text, 1.5, 3, "150 SECONDS", f"new {text}")
        if step == 12:
            two.one.drop("q1")
            two.one = sb.Monitor.from_bytes(two.one.to_bytes())
            two.other.drop("q1")
    assert two.families() == (1 if retain is None else 2)


def test_rows_that_are_retained_have_no_number_for_a_text_that_is_named_later() -> None:
    rng = np.random.default_rng(6)
    two = Two("heightmap", retain=sb.rows(100))
    two.watch("a", 0.5, 3, "100 ROWS", "first")
    two.push(rows(rng, 100, 0))
    for number, text in enumerate(LETTERS.tolist()):  # each in an epoch of its own, but for the first
        two.watch(text, 0.5, 3, "100 ROWS", f"late {number}")
        assert two.one.watches[f"late {number}"].top().equals(two.other.watches[f"late {number}"].top())
        two.push(rows(rng, 10, 100 + 10 * number))
    assert two.families() == len(LETTERS)


def test_what_is_no_text_is_compared_as_ever() -> None:
    """A time with an ISO text, a text with another column, and texts in an order."""
    monitor = sb.Monitor(time="ts")
    for condition in ("ts = '2026-01-01'", "g = h", "g > 'a'", "g <> 'a'"):
        monitor.watch(
            f"SELECT x FROM s WHERE {condition} ORDER BY x DESC LIMIT 2 WINDOW 9 ROWS "
            "WITH (algorithm = 'heightmap')",
            name=condition,
        )
    times = np.array(["2026-01-01", "2026-01-02", "2026-01-03"], dtype="datetime64[us]")
    monitor.push({"ts": times, "x": [1.0, 2.0, 3.0], "g": ["a", "b", None], "h": ["a", "c", None]})
    found = {name: watch.top().column("x").to_pylist() for name, watch in monitor.watches.items()}
    assert found == {"ts = '2026-01-01'": [1.0], "g = h": [1.0], "g > 'a'": [2.0], "g <> 'a'": [2.0]}


def test_no_number_is_used_again() -> None:
    numbers = TextNumbers()
    for i in range(LEAST + 1):
        numbers.number("g", str(i))
    numbers.keep(lambda: {("g", "3"), ("g", "5")})
    assert numbers.known == {"g": {"3": (3, 0), "5": (5, 0)}}
    assert numbers.number("g", "4") == LEAST + 1
    again = TextNumbers()
    again.load(numbers.dump())
    found = again.numbers("g", pa.array(["5", None, "4", "6"], pa.large_string()))
    assert found.tolist()[:1] == [5.0] and found[2] == LEAST + 1 and np.isnan(found[[1, 3]]).all()
    assert again.number("h", "5") == LEAST + 2


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("named", [0, 1, 5, 300])
def test_the_loop_finds_what_arrow_finds(
    named: int, type_: pa.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts that share beginnings, lengths and hashes; nulls, slices, and a column without a text."""
    rng = np.random.default_rng(named)
    begin = "the same sixteen letters and more "
    some = ["", "a", "b", "ab", "ba", begin, *(begin + str(i) for i in range(200)), *map(str, range(200))]
    numbers = TextNumbers()
    for text in rng.permutation(some)[:named].tolist():
        numbers.number("g", text)
    for count in (0, 1, 500):
        texts = [some[i] if rng.random() < 0.9 else None for i in rng.integers(0, len(some), count)]
        for array in (pa.array(texts, type_), pa.array([None, *texts, "a"], type_).slice(1, count)):
            found = numbers.numbers("g", array)
            known = numbers.known.get("g", {})
            wanted = [known[text][0] if text in known else np.nan for text in array.to_pylist()]
            assert np.array_equal(found, wanted, equal_nan=True)
            with monkeypatch.context() as patched:
                patched.setattr(type(find), "is_available", lambda *_: False)
                assert np.array_equal(numbers.numbers("g", array), wanted, equal_nan=True)
