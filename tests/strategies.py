"""What Hypothesis draws from: rows, cuts into steps, and questions.

Ties are frequent on purpose, times go back as well as on, and whole streams rise, fall, stay or saw,
because random order is the one case in which a wrong skyband hardly shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from tests.twin import SCORES, WHERES, Question

SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, None]
SHAPES: dict[str, Callable[[int], float]] = {
    "rising": lambda i: i,
    "falling": lambda i: -i,
    "constant": lambda i: 1,
    "sawtooth": lambda i: i % 4,
    "zigzag": lambda i: i if i % 2 else -i,
}


def lengths(sizes: Sequence[tuple[int, int]], single: Sequence[str]) -> list[Any]:
    """Sizes of batches, lengths and shapes of long streams. Rows one by one take long: `make test` has those of some
    shapes, `make soak` of all."""
    return [
        pytest.param(batch, length, shape, marks=[pytest.mark.soak] * (batch == 1 and shape not in single))
        for batch, length in sizes
        for shape in sorted(SHAPES)
    ]


def values() -> st.SearchStrategy[float | None]:
    """A column's value: mostly from a handful, so that ties abound."""
    few = st.integers(0, 3).map(float)
    return st.one_of(few, few, few, st.sampled_from(SPECIAL), st.floats(-4, 4, width=16))


@st.composite
def rows(
    draw: st.DrawFn, timed: bool, size: int = 24, missing: bool = True, back: int = 4
) -> list[dict[str, Any]]:
    """Rows in order of arrival; where timed, the time mostly goes on and sometimes back."""
    shape = draw(st.sampled_from([None, None, *SHAPES]))
    steps = [0, 1, 1, 2, *range(-back, 0)] + [None] * missing
    one = st.tuples(
        values(),
        st.sampled_from(steps),
        st.sampled_from([0.0, 1.0, 2.0, 2.0, -1.0, None]),
        st.sampled_from("aab"),
    )
    made, clock = [], 0
    for i, (x, step, y, c) in enumerate(draw(st.lists(one, max_size=size))):
        row = {"x": SHAPES[shape](i) if shape else x, "y": y, "c": c}
        if timed:
            clock = max(clock, clock + (step or 0))
            row["t"] = None if step is None else clock + min(step, 0)
        made.append(row)
    return made


@st.composite
def cuts(draw: st.DrawFn, rows: Sequence[Any]) -> list[Sequence[Any]]:
    """The rows cut into batches; some are empty, some hold one row, some all."""
    places = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=8)))
    if draw(st.booleans()):
        places = list(range(len(rows)))
    return [rows[a:b] for a, b in zip([0, *places], [*places, len(rows)], strict=True)]


def windows(timed: bool) -> st.SearchStrategy[tuple[str, int]]:
    of_rows = st.tuples(st.just("rows"), st.integers(1, 12))
    return st.one_of(of_rows, st.tuples(st.just("seconds"), st.integers(1, 6))) if timed else of_rows


def questions(
    timed: bool, algorithms: Sequence[str | None] = (None, "sa", "ra"), threshold: bool = True
) -> st.SearchStrategy:
    return st.builds(
        Question,
        score=st.sampled_from(["x", *SCORES]),
        k=st.one_of(st.integers(1, 4), st.sampled_from([1, 7, 20, None] if threshold else [1, 7, 20])),
        window=windows(timed),
        descending=st.booleans(),
        where=st.sampled_from(["", "", *WHERES]),
        bound=st.sampled_from([0, 1]),
        algorithm=st.sampled_from(algorithms),
    ).map(lambda q: q if q.k is not None else replace(q, algorithm=None))  # sa and ra don't do thresholds


BOXED = {"x": ("y > 1",), "2 * x - y": tuple(WHERES), "abs(x - 1)": ("NOT (x < 1 OR c <> 'a')",),
         "least(x, y) ^ 2": ("y > 1",)}  # fmt: skip


COMPILED = ("x", "2 * x - y", "least(x, y) ^ 2")  # one axis, two of both directions, one that is not monotone


def on_an_index(made: st.SearchStrategy, name: str, scores: Sequence[str]) -> st.SearchStrategy:
    """The questions for an algorithm that compiles each score with each set of columns that a WHERE bounds.

    Seconds go into each, and into each direction of it, so `make test` draws some of these, `make soak` all.
    """
    every = name == "plain" or settings.default.max_examples > 100  # type: ignore[union-attr]
    if not every:
        scores = [score for score in scores if score in COMPILED]
    pairs = [
        (score, where)
        for score in scores
        for where in (WHERES if every else {"", "c = 'a'", *BOXED.get(score, ())})
    ]

    def of(question: Question, pair: tuple[str, str]) -> Question:
        score, where = pair
        descending = question.descending
        if not every and score != "x":  # one direction without a box, the other with one
            descending = (where in ("", "c = 'a'")) == (score == COMPILED[-1])
        return replace(question, score=score, where=where, descending=descending, algorithm=name)

    return st.builds(of, made, st.sampled_from(sorted(pairs)))
