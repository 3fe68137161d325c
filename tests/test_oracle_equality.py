"""The monitor equals the oracle after every step, whatever arrives, is asked, and however it is cut."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import strategies as draws
from tests.twin import SCORES, TIMES, Question, Twin

KINDS = sorted(TIMES)


@given(data=st.data())
@pytest.mark.parametrize("kind", KINDS)
def test_one_question(kind: str, data: st.DataObject) -> None:
    timed = kind != "none"
    twin = Twin(kind)
    twin.watch("q", data.draw(draws.questions(timed)))
    for batch in data.draw(draws.rows(timed).flatmap(draws.cuts)):
        twin.push(batch)


@given(data=st.data())
@pytest.mark.parametrize("kind", KINDS)
def test_many_questions_that_begin_at_different_times(kind: str, data: st.DataObject) -> None:
    """Some share a score and a predicate, and so a state; each has its own k, window and beginning."""
    timed = kind != "none"
    twin = Twin(kind)
    first = data.draw(draws.questions(timed, threshold=False))
    others = st.builds(
        replace, st.just(first), k=st.integers(1, 9), window=draws.windows(timed), descending=st.booleans()
    )  # fmt: skip
    waiting = [
        first,
        *data.draw(st.lists(st.one_of(others, others, draws.questions(timed)), min_size=1, max_size=5)),
    ]
    for batch in data.draw(draws.rows(timed).flatmap(draws.cuts)):
        for _ in range(data.draw(st.integers(0, 2)) if waiting else 0):
            if waiting:
                twin.watch(f"q{len(waiting)}", waiting.pop(0))
        twin.push(batch)


@given(data=st.data())
def test_time_passes_without_rows(data: st.DataObject) -> None:
    twin = Twin(data.draw(st.sampled_from(["number", "timestamp"])))
    for i, question in enumerate(data.draw(st.lists(draws.questions(True), min_size=1, max_size=3))):
        twin.watch(f"q{i}", question)
    for batch in data.draw(draws.rows(True).flatmap(draws.cuts)):
        twin.push(batch)
        if data.draw(st.booleans()):
            twin.advance((twin.oracle.now or 0) + data.draw(st.integers(-2, 7)))


@given(data=st.data())
def test_streams_of_one_monitor_share_seq_and_now_but_not_windows(data: st.DataObject) -> None:
    twin = Twin("whole", streams=("r1", "r2"))
    for name in ("r1", "r2"):
        twin.watch(f"{name} x", replace(data.draw(draws.questions(True)), stream=name))
        twin.watch(f"{name} y", replace(data.draw(draws.questions(True)), stream=name))
    for batch in data.draw(draws.rows(True, back=2).flatmap(draws.cuts)):
        twin.push(batch, stream=data.draw(st.sampled_from(["r1", "r2"])))


@given(data=st.data())
def test_snapshots_of_any_covered_k_and_window(data: st.DataObject) -> None:
    timed = data.draw(st.booleans())
    twin = Twin("number" if timed else "none")
    question = data.draw(draws.questions(timed, threshold=False))
    twin.watch("q", question)
    kind, size = question.window
    for batch in data.draw(draws.rows(timed).flatmap(draws.cuts)):
        twin.push(batch)
        for n in range(1, size + 1):
            for k in {1, 2, question.k} - set(range(question.k + 1, 99)):
                assert twin.top("q", k, (kind, n)) == twin.oracle.top("q", k, (kind, n))


@given(data=st.data())
@pytest.mark.parametrize("algorithm", ["sa", "ra"])
def test_both_algorithms_and_the_default_give_the_same_changes(algorithm: str, data: st.DataObject) -> None:
    timed = data.draw(st.booleans())
    question = data.draw(draws.questions(timed, [None], threshold=False))
    twins = [Twin("whole" if timed else "none") for _ in range(2)]
    twins[0].watch("q", question)
    twins[1].watch("q", replace(question, algorithm=algorithm))
    for batch in data.draw(draws.rows(timed).flatmap(draws.cuts)):
        assert twins[0].push(batch).to_pylist() == twins[1].push(batch).to_pylist()


@pytest.mark.parametrize("shape", sorted(draws.SHAPES))
@pytest.mark.parametrize("algorithm", ["sa", "ra"])
@pytest.mark.parametrize(("batch", "length"), [(1, 100), (7, 300), (300, 900)])
def test_shapes_at_length(shape: str, algorithm: str | None, batch: int, length: int) -> None:
    """Longer streams than Hypothesis draws, in which lists fill, prune and run short many times."""
    twin = Twin("whole")
    for name, k, window, descending in [
        ("rows", 3, ("rows", 40), True),
        ("deep", 60, ("rows", 40), True),
        ("time", 3, ("seconds", 25), False),
        ("much", 9, ("seconds", 99), False),
    ]:
        twin.watch(name, Question("x", k, window, descending, algorithm=algorithm))
    rows = [
        {"x": draws.SHAPES[shape](i), "y": 0.0, "c": "a", "t": i - (i % 5 == 4) * 9} for i in range(length)
    ]
    for start in range(0, length, batch):
        twin.push(rows[start : start + batch])


@pytest.mark.parametrize("score", sorted(SCORES))
def test_every_score_on_special_values(score: str) -> None:
    special = draws.SPECIAL + [1.0, 2.0, -1.5]
    rows = [{"x": x, "y": y, "c": "a"} for x in special for y in special]
    for descending in (True, False):
        twin = Twin()
        twin.watch("q", Question(score, 5, ("rows", 20), descending))
        twin.watch("all", Question(score, 999, ("rows", 999), descending))
        for start in range(0, len(rows), 3):
            twin.push(rows[start : start + 3])
