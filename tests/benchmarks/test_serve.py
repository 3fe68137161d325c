"""`python -m benchmarks serve` at the smallest scale: it prints and writes what it measures. Without timing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.harness.figures import Figure
from benchmarks.harness.settings import Settings
from benchmarks.serve import experiment as serve
from benchmarks.serve.page import BOOK, below, least

PARTS = ("arrow", "latency", "readers", "crowd")


@pytest.mark.parametrize("parts", [PARTS, pytest.param(tuple(serve.PARTS), marks=pytest.mark.soak)], ids=len)
def test_the_parts(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    parts: tuple[str, ...],
) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["src", os.environ.get("PYTHONPATH", "")]))
    serve.main(Settings("tiny", parts, tmp_path))
    printed, page = capsys.readouterr().out, (tmp_path / "serve.md").read_text()
    for part in parts:
        figure = Figure.read(tmp_path / "serve" / f"{part}.json")
        assert figure.points and all(point.values["value"] >= 0 for point in figure.points)
        assert len(BOOK.judged(figure)) == len(BOOK.claims[part]), "every goal is judged"
        assert figure.title in printed and f"## {dict(BOOK.sections)[part]}" in page


def test_goals_are_judged_by_their_own_figures() -> None:
    figure = Figure("f", "", "what", "value", "ms", "", times=1e3)
    for what, p99 in (("a", 0.010), ("b", 0.030)):
        figure.add("", "p99", what, value=p99)
    assert below("p99", 20.0, 0)(figure) == (True, "10.0 ms")
    assert below("p99", 20.0, 0, 1)(figure) == (False, "30.0 ms")
    assert least("p99", 30.0)(figure) == (False, "10.0 ms") and least("p99", 30.0, 1)(figure) == (
        True,
        "30.0 ms",
    )
    assert below("p50", 20.0, 0)(figure) is None


def test_without_a_browser_its_parts_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    def none(scale: serve.Scale) -> Figure:
        raise serve.NoBrowser("The parts page and smooth need Chromium.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(serve.PARTS, "page", none)
        assert list(serve.measured(serve.SCALES["tiny"], ("page",), asked=False)) == []
        assert "need Chromium" in capsys.readouterr().out
        with pytest.raises(serve.NoBrowser):
            list(serve.measured(serve.SCALES["tiny"], ("page",), asked=True))


def test_a_push_that_was_overtaken_came_with_the_one_after_it() -> None:
    assert sorted(serve.waits({1.0: 10.0, 2.0: 11.0, 3.0: 12.0}, {2.0: 11.5, 3.0: 12.25})) == [0.25, 0.5, 1.5]
