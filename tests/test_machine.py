"""A state machine of everything that can be done to a monitor, in any order, against the oracle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests import strategies as draws
from tests.twin import Question, Twin

import skyband as sb
from skyband.algorithms import REGISTRY

NAMES = [f"q{i}" for i in range(5)]
RETAIN = st.sampled_from([None, None, ("rows", 6), ("rows", 50), ("seconds", 3), ("seconds", 50)])


def fitting(question: Question, algorithm: str) -> Question:
    """The question, or one like it that this algorithm can answer."""
    card = REGISTRY[algorithm].card
    if question.k is None and "threshold" not in card.answers:
        question = replace(question, k=3)
    if card.scores != "any":
        question = replace(question, score="2 * x - y" if "y" in question.score else "x")
    return replace(question, algorithm=algorithm)


class Machine(RuleBasedStateMachine):
    algorithm: str | None = None  # of all questions, where it can answer them
    key: Any = None  # of an update stream, the key's type
    op = False

    @initialize(kind=st.sampled_from(["none", "number", "whole", "timestamp"]), retain=RETAIN)
    def start(self, kind: str, retain: Any) -> None:
        self.timed = kind != "none"
        if not self.timed and retain and retain[0] == "seconds":
            retain = None
        self.twin = Twin(kind, retain=retain, key=self.key, op=self.op)
        self.clock = 0

    @property
    def names(self) -> list[str]:
        return sorted(self.twin.questions)

    @rule(data=st.data())
    def watch(self, data: st.DataObject) -> None:
        free = [n for n in NAMES if n not in self.twin.questions]
        if free:
            question = data.draw(draws.questions(self.timed))
            if data.draw(st.booleans()):  # often one state shared by several
                question = Question("x", question.k or 3, question.window)
            if self.algorithm is not None:
                question = fitting(question, self.algorithm)
            self.twin.watch(free[0], question)

    @precondition(lambda self: self.twin.questions)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        self.twin.drop(data.draw(st.sampled_from(self.names)))

    @precondition(lambda self: self.twin.questions)
    @rule(data=st.data(), what=st.sampled_from(["k", "window", "both"]))
    def change(self, data: st.DataObject, what: str) -> None:
        name = data.draw(st.sampled_from(self.names))
        k = data.draw(st.integers(1, 8)) if what != "window" and self.twin.questions[name].k else None
        window = data.draw(draws.windows(self.timed)) if what != "k" else None
        if not (k or window):
            return
        try:
            self.twin.change(name, k, window)
        except sb.QueryError:  # which rows are the last n is not known before a row window has been watched
            assert window and window[0] == "rows" and self.twin.questions[name].window[0] == "seconds"
            self.twin.check_tops()

    def told(self, row: dict[str, Any], data: st.DataObject) -> dict[str, Any]:
        """The row as it is pushed."""
        return row

    @rule(
        rows=st.lists(st.tuples(draws.values(), st.sampled_from([0, 0, 1, 1, 2, -1, -3, -6])), max_size=6),
        data=st.data(),
    )
    def push(self, rows: list[tuple[float | None, int]], data: st.DataObject) -> None:
        batch = []
        for x, step in rows:
            self.clock += max(step, 0)
            row = {"x": x, "y": 1.0, "c": "a", **({"t": self.clock + min(step, 0)} if self.timed else {})}
            batch.append(self.told(row, data))
        self.twin.push(batch)

    @precondition(lambda self: self.timed)
    @rule(step=st.integers(-2, 5))
    def advance(self, step: int) -> None:
        self.clock += max(step, 0)
        self.twin.advance(self.clock + min(step, 0))

    @rule()
    def save_and_load(self) -> None:
        self.twin.reload()


TestMachine = Machine.TestCase
