"""One suite for everything in the registry, pairs and objects included: what a family promises to the engine.

Each algorithm answers the same small questions through a monitor, beside a few lines of Python that sort the window.
What an algorithm inside promises about its own state is in tests/algorithms/test_contract.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from skyband.algorithms import CARDS, OBJECTS, PAIRS

Rows = list[dict[str, Any]]  # of the window, oldest first, with `seq`
Name = tuple[Any, ...]  # what an entry is called in changes and answers
SCHEMA = pa.schema([("t", pa.float64()), ("g", pa.string()), ("x", pa.float64()), ("y", pa.float64())])
NOT_COMPARED = {
    "pa": "it may miss rows, and says so: tests/engine/test_approximate.py",
    "correlated": "it removes what is unlikely to matter: tests/engine/test_promises.py",
}


class Question(NamedTuple):
    """A question as SQL up to its window, and what its answer is called and worth: best first."""

    sql: str
    answer: Callable[[Rows], list[tuple[float, Name]]]
    options: str = ""
    k: int = 3


def rows_by(score: Callable[[dict[str, Any]], float], sign: int = 1) -> Callable[[Rows], Any]:
    def answer(rows: Rows) -> list[tuple[float, Name]]:
        found = [(score(row), row) for row in rows if row["x"] is not None and row["y"] is not None]
        found.sort(key=lambda each: (sign * each[0], each[1]["t"], each[1]["seq"]), reverse=True)
        return [(value, (row["seq"], None, None)) for value, row in found]

    return answer


def beyond(rows: Rows) -> list[tuple[float, Name]]:
    return [each for each in rows_by(lambda row: row["x"])([{**row, "y": 0} for row in rows]) if each[0] > 1]


def close_pairs(rows: Rows) -> list[tuple[float, Name]]:
    known = [row for row in rows if row["x"] is not None]
    found = [
        (abs(a["x"] - b["x"]), (a["t"], a["seq"], b["t"], b["seq"]))
        for at, a in enumerate(known)
        for b in known[at + 1 :]
    ]
    found.sort(key=lambda each: (-each[0], each[1]), reverse=True)
    return [(value, (older[1], older[3], None)) for value, older in found]


def totals(rows: Rows) -> list[tuple[float, Name]]:
    groups: dict[str, Rows] = {}
    for row in rows:
        if row["g"] is not None and row["x"] is not None:
            groups.setdefault(row["g"], []).append(row)
    found = [
        (math.fsum(row["x"] for row in own), (own[-1]["t"], own[-1]["seq"]), group)
        for group, own in groups.items()
    ]
    found.sort(reverse=True)
    return [(value, (None, None, group)) for value, _, group in found]


TOP = Question("SELECT x FROM s ORDER BY x + y DESC LIMIT 3", rows_by(lambda row: row["x"] + row["y"]))
NEAR = Question(
    "SELECT x FROM s ORDER BY dist(x, y, 1, 1) LIMIT 3",
    rows_by(lambda row: math.sqrt((row["x"] - 1) ** 2 + (row["y"] - 1) ** 2), -1),
)
BEYOND = Question("SELECT x FROM s WHERE x > 1", beyond, k=10**6)
CLOSE = Question("SELECT a.g FROM s a, s b ORDER BY abs(a.x - b.x) LIMIT 3", close_pairs)
SUMS = Question("SELECT g, SUM(x) FROM s GROUP BY g ORDER BY SUM(x) DESC LIMIT 3", totals)
PROMISED = ", range = '0..4', appears = '99 per window'"


def question_of(name: str) -> Question:
    """The question for an algorithm."""
    if name in PAIRS:
        return CLOSE
    if name in OBJECTS:
        more = PROMISED * (name in ("eaa", "correlated")) + ", counts = 'exact'" * (name == "correlated")
        return SUMS._replace(options=more)
    if name == "threshold":
        return BEYOND
    return NEAR if name == "snn" else TOP


def monitor_of(name: str, window: str) -> sb.Monitor:
    question = question_of(name)
    monitor = sb.Monitor(time="t", schema=SCHEMA)
    monitor.watch(f"{question.sql} WINDOW {window} WITH (algorithm = '{name}'{question.options})", name="q")
    return monitor


NUMBERS = st.sampled_from([0.0, 0.5, 1.0, 1.25, 2.0, 3.5, None])
ROW = st.tuples(st.integers(-2, 1), st.sampled_from(["a", "b", "c", None]), NUMBERS, NUMBERS)
STEPS = st.lists(st.lists(ROW, max_size=6), min_size=1, max_size=7)
WINDOWS = {"rows": "6 ROWS", "time": "3 SECONDS"}


class Stream:
    """Steps of rows, some of them late, and the plain answer to a question after each."""

    def __init__(
        self, steps: list[list[tuple[int, str | None, float | None, float | None]]], kind: str
    ) -> None:
        self.kind, self.now, self.rows = kind, 0.0, []
        self.batches: list[pa.Table] = []
        for step in steps:
            made = []
            for move, g, x, y in step:
                self.now += max(move, 0)
                made.append({"t": self.now + min(move, 0), "g": g, "x": x, "y": y})
            self.batches.append(pa.Table.from_pylist(made, schema=SCHEMA))

    def windows(self, monitor: sb.Monitor) -> Any:
        """Push batch by batch: the changes, and the window's rows after each."""
        accepted: Rows = []
        for batch in self.batches:
            seq = monitor.rows_seen
            changes = monitor.push(batch)
            rejected = set(monitor.rejects()["seq"].to_pylist())
            accepted += [{**row, "seq": seq + n} for n, row in enumerate(batch.to_pylist())]
            accepted = [row for row in accepted if row["seq"] not in rejected]
            accepted.sort(key=lambda row: (row["t"], row["seq"]))
            now = max((row["t"] for row in accepted), default=0.0)
            inside = (
                accepted[-6:] if self.kind == "rows" else [row for row in accepted if row["t"] >= now - 3]
            )
            yield changes, inside


def name_of(row: dict[str, Any]) -> Name:
    return row["seq"], row["seq_b"], row["id"]


def fold(held: dict[Name, float], changes: pa.Table) -> None:
    """Changes put into an answer: leaves of what is there, then enters of what isn't, by rank."""
    ranks = []
    for row in changes.to_pylist():
        if row["change"] == "leave":
            assert not ranks and held.pop(name_of(row)) == row["score"]
        else:
            assert name_of(row) not in held
            held[name_of(row)] = row["score"]
            ranks.append(row["rank"])
    assert ranks == sorted(ranks)


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("name", sorted(CARDS.keys() - NOT_COMPARED))
@given(steps=STEPS)
def test_changes_add_up_to_the_sorted_window(name: str, kind: str, steps: Any) -> None:
    question, monitor, held = question_of(name), monitor_of(name, WINDOWS[kind]), {}
    for changes, window in Stream(steps, kind).windows(monitor):
        monitor._check()
        fold(held, changes)
        expected = question.answer(window)[: question.k]
        assert held == {entry: score for score, entry in expected}
        found = monitor.watches["q"].top()
        assert found["score"].to_pylist() == [score for score, _ in expected]
        if name not in OBJECTS:
            assert found["seq"].to_pylist() == [entry[0] for _, entry in expected]


@pytest.mark.parametrize("name", sorted(CARDS))
@given(steps=STEPS, at=st.integers(0, 6))
def test_a_saved_monitor_goes_on_with_the_same_changes(name: str, steps: Any, at: int) -> None:
    through, loaded = monitor_of(name, "6 ROWS"), monitor_of(name, "6 ROWS")
    for number, batch in enumerate(Stream(steps, "rows").batches):
        if number == at:
            loaded = sb.Monitor.from_bytes(loaded.to_bytes())
        assert loaded.push(batch).equals(through.push(batch))
    assert loaded.watches["q"].top().equals(through.watches["q"].top())


@pytest.mark.parametrize("name", sorted(CARDS.keys() - NOT_COMPARED))
@given(steps=STEPS)
def test_how_rows_are_cut_into_steps_makes_no_difference(name: str, steps: Any) -> None:
    whole, single = monitor_of(name, "6 ROWS"), monitor_of(name, "6 ROWS")
    batch = pa.concat_tables(Stream(steps, "rows").batches)
    whole.push(batch)
    for at in range(len(batch)):
        single.push(batch.slice(at, 1))
    if not len(whole.rejects()) and not len(single.rejects()):  # what is late depends on the cut
        assert whole.watches["q"].top().equals(single.watches["q"].top())


@pytest.mark.parametrize("name", sorted(CARDS))
def test_watches_come_change_and_go(name: str) -> None:
    """A smaller k holds at once; a watch that is dropped leaves the others as they are."""
    steps = [[(1, "abc"[i % 3], float(i * 7 % 5), float(i % 3)) for i in range(4)] for _ in range(12)]
    stream, monitor = Stream(steps, "rows"), monitor_of(name, "12 ROWS")
    question = question_of(name)
    for number, batch in enumerate(stream.batches):
        if number == 4:
            monitor.watch(
                f"{question.sql} WINDOW 12 ROWS WITH (algorithm = '{name}'{question.options})", name="r"
            )
        if number == 6 and question is not BEYOND:
            monitor.watches["q"].change(k=2)
        if number == 8:
            monitor.watches["r"].change(window="5 ROWS")
        if number == 10:
            monitor.drop("r")
        monitor.push(batch)
        monitor._check()
    found = monitor.watches["q"].top()
    assert found["rank"].to_pylist() == [*range(1, len(found) + 1)]
    assert len(found) == 2 or question is BEYOND
    plan = monitor.watches["q"].explain()
    assert plan.algorithm == name and plan.candidates >= 0 and plan.bytes > 0 and plan.counters


@pytest.mark.parametrize("name", sorted(CARDS))
def test_every_card_says_what_it_is(name: str) -> None:
    card = CARDS[name]
    assert card.name == name and card.exact == (name not in NOT_COMPARED)
    for text in (card.title, card.source, card.keeps, card.cost, card.wrong_when):
        assert len(text) > 5
