"""Figures as text, as files and as charts; and the judgements that are read from them."""

from __future__ import annotations

import csv
import logging
from pathlib import Path

import pytest

from benchmarks.harness.charts import draw
from benchmarks.harness.figures import Figure, Scale, aligned, markdown, number, place
from benchmarks.papers.mouratidis import page as paper
from benchmarks.peers import heightmap
from skyband.core.errors import InputError


def made(name: str = "time-k", **costs: list[float]) -> Figure:
    """A figure with one value for each place 1, 5, 100 on both panels."""
    figure = Figure(name, "Cost", "k", "mean", "ms a cycle", "tiny: N = 9", times=1e3, machine={"cores": "2"})
    for panel in ("IND", "ANT"):
        for series, values in costs.items():
            for x, value in zip((1, 5, 100), values, strict=True):
                figure.add(panel, series, x, mean=value / 1e3, p99=value / 100)
    return figure


def test_a_part_measured_again_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    made(tsl=[10, 20, 300], old=[1, 1, 1]).write(tmp_path)
    again = Figure(
        "time-k", "Cost", "k", "mean", "ms a cycle", "tiny: N = 9", times=1e3, machine={"cores": "2"}
    )
    again.add("IND", "tsl", 5, mean=0.077)
    again.add("IND", "new", 5, mean=0.001)
    whole = again.joined(tmp_path)
    assert whole.value("IND", "tsl", 5) == 0.077 and whole.value("IND", "new", 5) == 0.001
    assert whole.value("IND", "old", 5) is None  # what wasn't measured again there is no longer beside it
    assert whole.value("ANT", "old", 5) == 0.001 and whole.places("IND") == [1, 5, 100]
    other = Figure("time-k", "Cost", "k", "mean", "ms a cycle", "full: N = 10", machine={"cores": "2"})
    assert other.joined(tmp_path).points == []  # of other sizes


def test_a_table_says_its_scale_and_what_is_missing() -> None:
    figure = made(tsl=[10, 20, 300])
    figure.add("IND", "tma", 5, mean=0.0012345, stopped=1)
    assert figure.text() == (
        "Cost (ms a cycle)\n"
        "  tiny: N = 9\n"
        "         k   tsl    tma\n"
        "  IND    1  10.0      –\n"
        "  IND    5  20.0  1.23*\n"
        "  IND  100   300      –\n"
        "  ANT    1  10.0      –\n"
        "  ANT    5  20.0      –\n"
        "  ANT  100   300      –\n"
        "  * stopped when its time was up: the mean of fewer cycles"
    )


def test_what_is_written_can_be_read_again(tmp_path: Path) -> None:
    figure = made(sma=[1, 2, 3])
    figure.write(tmp_path)
    assert Figure.read(tmp_path / "time-k.json") == figure
    with (tmp_path / "time-k.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows[0] == {"panel": "IND", "series": "sma", "k": "1", "mean": "0.001", "p99": "0.01"}
    assert len(rows) == 6


@pytest.mark.parametrize("text", ["", "[]", '{"name": "x"}', '{"points": [{"a": 1}]}'])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"is not a file of figures"):
        Figure.read(path)


@pytest.mark.parametrize("form", ["line", "bars"])
def test_the_same_figures_draw_the_same_chart(tmp_path: Path, form: str) -> None:
    figure = made(tsl=[10, 20, 30], heightmap=[0.1, 0.2, 0.3], other=[1, 2, 3])
    figure.form = form
    first = draw(figure, tmp_path / "a").read_bytes()
    assert draw(figure, tmp_path / "b").read_bytes() == first
    assert b"heightmap" in first and b"<dc:date>" not in first


def test_the_search_for_fonts_is_no_failure(tmp_path: Path) -> None:
    """matplotlib warns on standard error if its search takes more than five seconds, once on a machine."""
    logging.getLogger("matplotlib").setLevel(logging.NOTSET)
    draw(made(tsl=[10, 20, 300]), tmp_path)
    assert not logging.getLogger("matplotlib.font_manager").isEnabledFor(logging.WARNING)


def test_numbers_have_three_digits() -> None:
    assert [number(v) for v in (0, 0.01234, 1.234, 12.34, 1234.5, float("nan"))] == [
        "0.00", "0.0123", "1.23", "12.3", "1,234", "–",
    ]  # fmt: skip
    assert [place(x) for x in (1000000, 0.5, "level")] == ["1,000,000", "0.5", "level"]


def test_tables_line_up() -> None:
    rows = [["who", "n"], ["a", "1"], ["bbbb", "22"]]
    assert aligned(rows) == "  who    n\n  a      1\n  bbbb  22"
    assert markdown(rows) == "| who | n |\n|---|---|\n| a | 1 |\n| bbbb | 22 |"


def test_a_scale_in_words() -> None:
    scale = Scale("quick", 1_000_000, 10_000, 1_000, 20, 4, 100, (3, 4))
    assert str(scale) == (
        "N = 1,000,000, r = 10,000, Q = 1,000, k = 20, d = 4, 100 cycles after the window is full, 2 seeds"
    )


# -- judgements ------------------------------------------------------------------------------------------------------


def words(figure: Figure) -> dict[str, str]:
    return {row[0]: row[1] for row in paper.BOOK.judged(figure)}


def test_shapes_that_hold_and_shapes_that_do_not() -> None:
    good = words(made(tsl=[10, 20, 30], tma=[1, 4, 25], sma=[1, 2, 3]))
    assert set(good.values()) == {"yes"} and len(good) == 3
    bad = words(made(tsl=[10, 20, 30], tma=[3, 2, 1], sma=[1, 2, 3]))
    assert bad["cost grows with k"] == "**no**"
    assert bad["tma and sma begin alike and part as k grows"] == "**no**"


def test_nothing_is_judged_that_was_not_measured() -> None:
    assert paper.BOOK.judged(made(ra=[1, 2, 3])) == []
    assert "DOES NOT HOLD" in paper.BOOK.verdicts(made(tsl=[3, 2, 1]))


def test_linear_growth_is_told_by_its_exponent() -> None:
    assert words(made("time-q", tma=[1, 5, 100]))["cost grows linearly with Q"] == "yes"
    assert words(made("time-q", tma=[1, 2, 10]))["cost grows linearly with Q"] == "**no**"


def test_table_2_knows_its_bands() -> None:
    figure = Figure("sizes-k", "", "k", "kept", "rows", "", machine={})
    figure.add("ANT", "sma", 20, kept=22.9)
    figure.add("ANT", "tsl", 20, kept=29.0)
    figure.add("ANT", "sma", 7, kept=9.0)  # a k that the paper hasn't
    rows = paper.table_2(figure)[1:]
    assert [row[-1] for row in rows] == ["**no**", "yes"]
    assert rows[1][3:6] == ["22.9", "22.4", "22.6"]


def test_a_goal_that_one_distribution_misses_is_missed() -> None:
    figure = Figure("copy", "", "seed", "mean", "µs", "", machine={})
    for seed, copies in (("seed 1", 4.0), ("seed 2", 6.0)):
        figure.add("IND", "heightmap", seed, copies=copies, p99=2.0, median=1.0)
        figure.add("ANT", "heightmap", seed, copies=copies + 2, p99=2.0, median=1.0)
    rows = {row[0]: row[1:] for row in heightmap.goals({"copy": figure})}
    assert rows["kernels, in copies of the rows"] == ["≤ 6", "5.00", "7.00", "**missed**"]
    assert rows["kernels: p99 of a cycle, in medians"] == ["≤ 3", "2.00", "2.00", "reached"]
    assert rows["times as fast as sma"] == ["≥ 6", "–", "–", "not measured"]
