"""How often `pa` is wrong, as the bench counts it: against answers asked for one by one, and what the page says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from benchmarks.harness.drive import Contestant, Pushed, Rows
from benchmarks.harness.figures import Figure
from benchmarks.papers.pripuzic.errors import SETTLING, Run, misses_of, run
from benchmarks.papers.pripuzic.page import BOOK, never_sure, runs, used
from benchmarks.papers.pripuzic.settings import UNIFORM, Table9, points_of, queries
from skyband.engine.approximate_group import Approximate

SMALL = Table9("tiny", n=60, u=6, k=3, r=10)
LARGE_ERROR = 0.9


def by_asking(size: Table9, windows: int, seed: int) -> tuple[float, float, int, int]:
    """Return rows missed, rows shown in error and wrong answers, each answer by top(); and the count of answers."""
    points = points_of(UNIFORM, size, (SETTLING + windows) * size.n, seed)
    rows = Rows(points)
    engines = [
        Pushed(who.name, queries(points, who, size, seed))
        for who in (Contestant("ra", "ra"), Contestant("pa", "pa", (("error", LARGE_ERROR),)))
    ]
    missed: dict[tuple[int, int], int] = {}
    shown: dict[tuple[int, int], int] = {}
    true: set[tuple[int, int]] = set()
    wrong = answers = 0
    for first in range(0, len(rows), size.r):
        for each in engines:
            each.monitor.push(rows.table(first, first + size.r))
        for query in range(size.u):
            right, said = (set(e.monitor.watches[f"q{query}"].top()["seq"].to_pylist()) for e in engines)
            answers += 1
            wrong += right != said
            true |= {(query, seq) for seq in right}
            for found, seqs in ((missed, right - said), (shown, said - right)):
                for seq in seqs:
                    found.setdefault((query, seq), first)
    begin = SETTLING * size.n
    late = sum(at >= begin for at in missed.values())
    false = sum(at >= begin and key not in true for key, at in shown.items())
    return late / size.u / windows, false / size.u / windows, wrong, answers


def test_a_run_counts_what_asking_for_every_answer_finds() -> None:
    found = run(SMALL, UNIFORM, LARGE_ERROR, 6, 5)
    assert (found.missed, found.false, found.wrong, found.answers) == by_asking(SMALL, 6, 5)
    assert found.missed > 0 and found.false > 0 and found.wrong > 0
    assert found.wrong_certified == 0
    assert found.answers - found.certified >= found.wrong


def test_the_same_seed_is_the_same_run_and_another_one_is_not() -> None:
    assert run(SMALL, UNIFORM, LARGE_ERROR, 6, 5) == run(SMALL, UNIFORM, LARGE_ERROR, 6, 5)
    assert run(SMALL, UNIFORM, LARGE_ERROR, 6, 5) != run(SMALL, UNIFORM, LARGE_ERROR, 6, 105)


def test_a_wrong_answer_that_is_certified_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a certificate that says yes to everything."""
    monkeypatch.setattr(Approximate, "certain", lambda self, watch: True)
    found = run(SMALL, UNIFORM, LARGE_ERROR, 6, 5)
    assert found.wrong_certified == found.wrong > 0


def test_a_wrong_answer_that_is_counted_as_certified_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Approximate.step

    def sure(self: Approximate, *arguments: object) -> object:
        found = step(self, *arguments)  # type: ignore[arg-type]
        self.shares[:, 0] = self.shares[:, 1]
        return found

    monkeypatch.setattr(Approximate, "step", sure)
    found = run(SMALL, UNIFORM, LARGE_ERROR, 6, 5)
    assert found.wrong_certified == found.wrong > 0


def figure_of(found: Sequence[Run]) -> Figure:
    figure = Figure("errors", "Misses", "k", "count", "rows", "tiny")
    figure.add(UNIFORM, "missed", 9, **misses_of(found, 0.5))
    return figure


def test_the_page_has_mean_lowest_and_highest_run() -> None:
    one = Run(0.1, 0.0, 1000, 990, 7, 0)
    figure = figure_of([one] * 18 + [replace(one, missed=0.0), replace(one, missed=0.7)])
    head, line = runs(figure)
    assert dict(zip(head, line, strict=True)) == {
        "data": "uniform", "k": "9", "runs": "20", "mean": "0.25", "± (standard error)": "0.0613", "lowest run": "0.00",
        "highest run": "1.40", "mean within 0.2 to 1": "yes", "wrong answers": "140", "of these certified": "0",
    }  # fmt: skip
    assert used(UNIFORM)(figure) == (
        True, "missed / calibrated, means: 0.25 at k = 9; single runs 0.00 to 1.40"
    )  # fmt: skip
    assert used("clustered")(figure) is None
    assert never_sure(figure) == (True, "0 certified of 140 wrong answers, 20,000 answers in all")


@pytest.mark.parametrize("missed", [0.09, 0.51])
def test_the_page_says_so_if_the_mean_is_outside(missed: float) -> None:
    figure = figure_of([Run(missed, 0.0, 1000, 990, 7, 1)] * 20)
    assert "**no**" in runs(figure)[1]
    verdict, sure = used(UNIFORM)(figure), never_sure(figure)
    assert verdict is not None and not verdict[0]
    assert sure == (False, "20 certified of 140 wrong answers, 20,000 answers in all")


def test_too_few_runs_and_figures_of_earlier_versions_have_no_verdict() -> None:
    assert used(UNIFORM)(figure_of([Run(0.1, 0.0, 1000, 990, 7, 0)] * 19)) is None
    before = Figure("errors", "Misses", "k", "count", "rows", "tiny")
    before.add(UNIFORM, "missed", 9, count=0.1, certified=0.99)
    assert used(UNIFORM)(before) is None and never_sure(before) is None and len(runs(before)) == 1
    assert "wanted here" not in BOOK.verdicts(before)
