"""The algorithms that keep the window's rows, behind the monitor: against the oracle after every step.

`plain` (tests/algorithms/plain.py) sorts all rows: it shows that what surrounds the indexes is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test
from tests import strategies as draws
from tests.algorithms.plain import Plain
from tests.test_machine import Machine
from tests.twin import SCORES, TIMES, Question, Twin

import skyband as sb
from skyband.algorithms import CARDS, REGISTRY, WINDOWED

NAMES = ["plain", *WINDOWED]
MONOTONE = ["x", "x + y", "2 * x - y"]
# each of these runs for every algorithm, and compiles
HALF = settings(max_examples=settings.default.max_examples // 2)


@pytest.fixture(autouse=True, scope="module")
def _plain() -> Iterator[None]:
    REGISTRY["plain"], CARDS["plain"] = Plain, Plain.card
    yield
    del REGISTRY["plain"], CARDS["plain"]


def questions(name: str, timed: bool, threshold: bool = True) -> st.SearchStrategy[Question]:
    card = REGISTRY[name].card if name != "plain" else Plain.card
    scores = sorted(SCORES) if card.scores == "any" else MONOTONE
    made = draws.questions(timed, [name], threshold=threshold and "threshold" in card.answers)
    return draws.on_an_index(made, name, scores)


@HALF
@given(data=st.data())
@pytest.mark.parametrize(
    ("name", "kind"),
    # what a time column's type changes is the same for all: `plain` sees every one
    [
        *product(["plain"], sorted(TIMES)),
        *(
            pytest.param(name, "whole", marks=[pytest.mark.soak] * (name in ("cpm", "heightmap")))
            for name in WINDOWED
        ),
        ("tsl", "none"),
    ],
)
def test_questions_that_come_and_go(name: str, kind: str, data: st.DataObject) -> None:
    timed = kind != "none"
    retain = data.draw(st.sampled_from([None, ("rows", 9), ("rows", 99)]))
    twin = Twin(kind, retain=retain)
    twin.watch("first", data.draw(questions(name, timed)))
    for number, batch in enumerate(data.draw(draws.rows(timed).flatmap(draws.cuts))):
        if data.draw(st.booleans()) and len(twin.questions) < 5:
            twin.watch(f"q{number}", data.draw(questions(name, timed)))
        elif data.draw(st.booleans()) and len(twin.questions) > 1:
            twin.drop(sorted(twin.questions)[0])
        twin.push(batch)
        if data.draw(st.booleans()):
            twin.reload()


@HALF
@given(data=st.data())
@pytest.mark.parametrize("name", NAMES)
def test_snapshots_of_any_covered_k_and_window(name: str, data: st.DataObject) -> None:
    timed = data.draw(st.booleans())
    twin = Twin("number" if timed else "none")
    question = data.draw(questions(name, timed, threshold=False))
    twin.watch("q", question)
    kind, size = question.window
    for batch in data.draw(draws.rows(timed).flatmap(draws.cuts)):
        twin.push(batch)
        for n in range(1, int(size) + 1):
            for k in {1, 2, question.k} - set(range(question.k + 1, 99)):  # type: ignore[operator]
                assert twin.top("q", k, (kind, n)) == twin.oracle.top("q", k, (kind, n))


@pytest.mark.parametrize("name", NAMES)
def test_machine(name: str) -> None:
    """Watch, drop, change, push, advance, save and load in any order, all watches by this algorithm."""

    class Named(Machine):
        algorithm = name

    run_state_machine_as_test(Named, settings=HALF)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("batch", "length", "shape"),
    draws.lengths([(1, 100), (7, 300), (300, 900)], single=("falling", "zigzag")),
)
def test_shapes_at_length(name: str, shape: str, batch: int, length: int) -> None:
    twin = Twin("whole")
    for label, k, window, descending in [
        ("rows", 3, ("rows", 40), True),
        ("deep", 60, ("rows", 40), True),
        ("time", 3, ("seconds", 25), False),
        ("much", 9, ("seconds", 99), False),
    ]:
        twin.watch(label, Question("x", k, window, descending, algorithm=name))  # type: ignore[arg-type]
    rows: list[dict[str, Any]] = [
        {"x": float(draws.SHAPES[shape](i)), "y": 0.0, "c": "a", "t": i - (i % 5 == 4) * 9}
        for i in range(length)
    ]
    for start in range(0, length, batch):
        twin.push(rows[start : start + batch])


@pytest.mark.parametrize("name", NAMES)
def test_boxes_of_one_shape_are_one_family(name: str) -> None:
    import pyarrow as pa

    schema = pa.schema([("x", pa.float64()), ("y", pa.float64())])
    monitor = sb.Monitor(schema=schema)
    for i in range(5):
        monitor.watch(
            f"SELECT x FROM s WHERE y > {i}.5 AND y <= {i + 2} ORDER BY {i + 1} * x DESC LIMIT 2 WINDOW 50 ROWS "
            f"WITH (algorithm = '{name}')"
        )
    families = {id(watch.group) for watch in monitor.watches.values()}
    assert len(families) == (1 if REGISTRY[name].card.boxes else 5)
    monitor.push({"x": [float(i % 17) for i in range(40)], "y": [float(i % 7) for i in range(40)]})
    for i, watch in enumerate(monitor.watches.values()):
        inside = [(float((i + 1) * (s % 17)), s) for s in range(40) if i + 0.5 < s % 7 <= i + 2]
        expected = sorted(inside, reverse=True)[:2]
        top = watch.top()
        assert list(zip(top["score"].to_pylist(), top["seq"].to_pylist(), strict=True)) == expected
