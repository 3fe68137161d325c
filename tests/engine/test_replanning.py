"""Another algorithm takes over in mid-stream: no answer and no change differs, and it happens where it pays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import strategies as draws
from tests.twin import Twin

import skyband as sb
from skyband.engine import replanning
from skyband.engine.planner import Choice, Facts, choose
from skyband.query.sql.parser import parse

NAMES = ("ra", "sa", "lazy", "tma", "sma", "heightmap")


@given(data=st.data())
@pytest.mark.parametrize("kind", ["none", "number", "timestamp"])
def test_no_answer_and_no_change_differs(kind: str, data: st.DataObject) -> None:
    """Algorithms are drawn, at any step, for queries that share states or boxes; saved and loaded in between."""
    timed, drawn = kind != "none", {"now": "ra"}

    def scripted(query: Any, facts: Facts) -> Choice:
        return Choice(drawn["now"], {}, "drawn")

    twin = Twin(kind)
    questions = data.draw(st.lists(draws.questions(timed, [None], threshold=False), min_size=1, max_size=4))
    more = data.draw(st.lists(draws.questions(timed, [None, "ra"]), max_size=1))
    for number, question in enumerate([*questions, *more]):
        twin.watch(f"q{number}", question)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replanning, "choose", scripted)
        patch.setattr(replanning, "halves", lambda *_: True)
        patch.setattr(replanning, "ALIKE", 0.0)
        patch.setattr(replanning.Review, "_longest", lambda self: 0.0)
        for batch in data.draw(draws.rows(timed).flatmap(draws.cuts)):
            drawn["now"] = data.draw(st.sampled_from(NAMES))
            for stream in twin.monitor.streams.values():
                stream.review.look_at = 0
            twin.push(batch)
            what = data.draw(st.sampled_from(["", "", "", "reload", "change", "drop"]))
            if what == "reload":
                twin.reload()
            elif what == "change" and twin.questions:
                name = data.draw(st.sampled_from(sorted(twin.questions)))
                if twin.questions[name].k is not None:
                    twin.change(name, k=data.draw(st.integers(1, 9)))
            elif what == "drop" and len(twin.questions) > 1:
                twin.drop(data.draw(st.sampled_from(sorted(twin.questions))))


def rows(count: int, first: int, apart: float, seed: int = 1) -> pa.Table:
    random = np.random.default_rng((seed, first))
    times = (first + np.arange(count)) * apart
    letters = np.array(["a", "b"])[random.integers(0, 2, count)]
    return pa.table({"ts": times, "x": random.random(count), "y": random.random(count), "g": letters})


def watched(queries: int, window: str, algorithm: str = "") -> sb.Monitor:
    monitor = sb.Monitor(time="ts")
    random = np.random.default_rng(7).random((queries, 2))
    for number, (a, b) in enumerate(random.tolist()):
        where = "" if number % 2 else "WHERE g = 'a' "
        monitor.watch(
            f"SELECT g, x FROM s {where}ORDER BY {a} * x + {b} * y DESC LIMIT 10 WINDOW {window}{algorithm}",
            name=f"q{number}",
        )
    return monitor


def of(monitor: sb.Monitor) -> set[str]:
    return {watch.explain().algorithm for watch in monitor.watches.values()}


def told(changes: pa.Table) -> list[dict[str, Any]]:
    """Changes query by query: the order of queries is not promised."""
    return sorted(changes.to_pylist(), key=lambda change: change["query"])


def test_of_a_time_window_nothing_is_known_at_first() -> None:
    query = parse("SELECT x FROM s ORDER BY 2 * x + y DESC LIMIT 20 WINDOW 5 MINUTES")
    assert choose(query, Facts(queries=100, k=20)).algorithm == "heightmap"
    assert choose(query, Facts(queries=100, k=20)).why == choose(query, Facts(100, k=20, window=1e5)).why
    assert choose(query, Facts(queries=1, k=20)).algorithm == "ra"


def test_a_window_that_turns_out_short_gets_lists_and_keeps_its_answers() -> None:
    """Assumed were 100,000 rows; it holds a hundred, and large batches pass it in one step."""
    monitor, plain = watched(40, "100 SECONDS"), watched(40, "100 SECONDS", " WITH (algorithm = 'ra')")
    monitor.push(rows(10, 0, 1.0))
    plain.push(rows(10, 0, 1.0))
    assert of(monitor) == {"heightmap"}
    first = 10
    for _ in range(12):
        batch = rows(1_000, first, 1.0)
        first += 1_000
        assert told(monitor.push(batch)) == told(plain.push(batch))
        for name, watch in monitor.watches.items():
            assert watch.top().equals(plain.watches[name].top())
    assert of(monitor) == {"ra"}
    plan = monitor.watches["q1"].explain()
    assert plan.replans == 2  # one family for each WHERE
    assert "it replaced heightmap after" in plan.why and "  replanned  2 times: " in str(plan)
    loaded = sb.Monitor.from_bytes(monitor.to_bytes())
    assert loaded.watches["q1"].explain().replans == 2


def test_lists_run_on_until_their_successor_knows_the_window() -> None:
    """Single rows at first, in a window of a hundred; then a hundred times as many."""
    monitor, plain = watched(120, "100 SECONDS"), watched(120, "100 SECONDS", " WITH (algorithm = 'ra')")
    now, seen = 0.0, set()
    for step in range(90):
        apart = 1.0 if step < 12 else 0.005
        count = 1_000
        batch = rows(count, 0, apart, step)
        batch = batch.set_column(0, "ts", pa.array(now + apart * np.arange(1, count + 1)))
        now += apart * count
        assert told(monitor.push(batch)) == told(plain.push(batch))
        notes = monitor.watches["q0"].explain().notes
        seen.add((monitor.watches["q0"].explain().algorithm, any("takes over when" in n for n in notes)))
        if step % 9 == 0:
            for name, watch in monitor.watches.items():
                assert watch.top().equals(plain.watches[name].top())
    assert seen == {("heightmap", False), ("ra", False), ("ra", True)}
    assert of(monitor) == {"heightmap"}


def test_a_stream_that_swings_is_not_replanned_with_each_swing() -> None:
    monitor = watched(40, "100 SECONDS")
    now = 0.0
    for step in range(200):
        apart = 1.0 if step // 10 % 2 else 0.01
        batch = rows(1_000, 0, apart, step)
        monitor.push(batch.set_column(0, "ts", pa.array(now + apart * np.arange(1, 1_001))))
        now += apart * 1_000
    assert monitor.watches["q0"].explain().replans <= 8


def test_rows_that_become_too_many_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyband.engine.planner.MOST_BYTES", 5_000 * 4 * 8)
    monitor = sb.Monitor(time="ts")
    for number in range(100):
        weight = number / 100
        monitor.watch(f"SELECT g, x FROM s ORDER BY {weight} * x + y DESC LIMIT 10 WINDOW 100000 SECONDS")
    for room in ("planner", "stream_runtime"):
        monkeypatch.setattr(f"skyband.engine.{room}.ASSUMED_WINDOW", 4_000)
    monitor.push(rows(1_000, 0, 1.0))
    assert of(monitor) == {"heightmap"}
    for step in range(1, 12):
        monitor.push(rows(1_000, 1_000 * step, 1.0))
    assert not any(group.windowed for group in monitor.streams["s"].groups)
    assert monitor.watches["query1"].explain().replans >= 1


def test_named_algorithms_stay() -> None:
    monitor = watched(40, "100 SECONDS", " WITH (algorithm = 'heightmap')")
    for step in range(12):
        monitor.push(rows(1_000, 1_000 * step, 1.0))
    assert of(monitor) == {"heightmap"} and monitor.watches["q0"].explain().replans == 0
