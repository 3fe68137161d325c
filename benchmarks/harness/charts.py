"""The charts of the experiments: one SVG for each figure, a panel for IND and one for ANT.

The same figures give the same file to the byte: no date, fixed ids, and text as text (so that a chart can be searched
and stays small). A colour and a mark belong to an algorithm on every chart. matplotlib draws; it is among the
requirements for development and is imported here only.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.figures import Figure, number, place
from skyband.core.errors import InputError

RING = "ring"  # drawn around another mark
# Okabe and Ito's colours, which colour-blind readers can distinguish; on paper the marks do.
LOOKS: dict[str, tuple[str, str]] = {
    "tsl": ("#E69F00", "s"),
    "tma": ("#56B4E9", "^"),
    "sma": ("#0072B2", "o"),
    "sma, tuned": ("#009E73", "v"),
    "heightmap": ("#D55E00", "D"),
    "heightmap, push": ("#CC79A7", "P"),
    "ra": ("#666666", "x"),
    "sa": ("#AAAAAA", "+"),
    "pa": ("#D55E00", "D"),
    "snn": ("#000000", "*"),
    "cpm": ("#117733", "p"),
    "sasf": ("#882255", "o"),
    "sarf": ("#56B4E9", "^"),
    "sapf": ("#332288", "s"),
    "rasf": ("#E69F00", "o"),
    "rarf": ("#CC79A7", "^"),
    "rapf": ("#009E73", "s"),
    "rapf2": ("#44AA99", "v"),
    "memcpy": ("#000000", "|"),
    "auto": ("#000000", RING),
}
SPARE = ("#332288", "#117733", "#882255", "#44AA99", "#999933", "#AA4499")
INK, PALE = "#222222", "#DDDDDD"


def look(series: str, index: int) -> tuple[str, str]:
    return LOOKS.get(series, (SPARE[index % len(SPARE)], "."))


def draw(figure: Figure, folder: Path) -> Path:
    """Write the figure's chart and return its path."""
    # On a slow machine its first use warns that it looks for fonts.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        import matplotlib
    except ImportError:
        raise InputError(
            "Charts need matplotlib, which isn't installed: pip install matplotlib (or ask for --no-charts)."
        ) from None
    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    path = folder / f"{figure.name}.svg"
    folder.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(_style(figure.name)):
        panels = figure.panels()
        sheet, axes = plt.subplots(
            1, len(panels), figsize=_size(figure), sharey=True, squeeze=False, layout="constrained"
        )
        for axis, panel in zip(axes[0], panels, strict=True):
            FORMS[figure.form](axis, figure, panel)
            axis.set_title(panel, loc="left", fontsize=9, color=INK)
        if figure.form == "line":
            axes[0][0].set_ylabel(figure.unit)
        _legend(sheet, axes[0], figure)
        sheet.supxlabel(figure.scale, fontsize=6.5, color="#777777")
        sheet.savefig(path, format="svg", metadata={"Date": None, "Creator": "skyband benchmarks"})
        plt.close(sheet)
    return path


def _size(figure: Figure) -> tuple[float, float]:
    width = 1.0 + 3.6 * len(figure.panels())
    if figure.form == "line":
        return width, 3.5
    thick = 0.3 if figure.form == "dots" else 0.17 * (len(figure.series()) + 1)
    return max(7.0, width + 1.2), 1.4 + max(1.2, thick * len(figure.places()))


def _style(name: str) -> Any:
    return {
        "svg.hashsalt": f"skyband {name}",
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.size": 9,
        "text.color": INK,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "axes.linewidth": 0.7,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "axes.axisbelow": True,
        "grid.color": PALE,
        "grid.linewidth": 0.6,
        "xtick.color": INK,
        "ytick.color": INK,
        "legend.frameon": False,
        "figure.facecolor": "white",
    }


def _lines(axis: Any, figure: Figure, panel: str) -> None:
    places = figure.places(panel)
    for index, series in enumerate(figure.series()):
        xs, ys = figure.line(panel, series)
        if not xs:
            continue
        colour, mark = look(series, index)
        at = [places.index(x) for x in xs]
        mark = "o" if mark == RING else mark
        axis.plot(at, ys, color=colour, marker=mark, markersize=5, linewidth=1.4, label=series, clip_on=False)
    # the papers' axes: the values that were measured, evenly spaced
    axis.set_xticks(range(len(places)), [place(x) for x in places])
    axis.set_xlim(-0.3, len(places) - 0.7)
    axis.set_xlabel(figure.x)
    _upright(axis, figure)


def _bars(axis: Any, figure: Figure, panel: str) -> None:
    """Draw a group of bars for each place, named on the side: for places with long names."""
    places, every = figure.places(panel), figure.series()
    height = 0.8 / max(1, len(every))
    for index, series in enumerate(every):
        xs, ys = figure.line(panel, series)
        at = [places.index(x) + (index - (len(every) - 1) / 2) * height for x in xs]
        colour = look(series, index)[0]
        axis.barh(at, ys, height=height * 0.9, color=colour, label=series)
        for y, value in zip(at, ys, strict=True):
            axis.annotate(
                number(value),
                (value, y),
                (3, 0),
                textcoords="offset points",
                va="center",
                fontsize=7,
                color=INK,
            )
    axis.set_xlim(0, 1.12 * max((p.values[figure.y] * figure.times for p in figure.points), default=1.0))
    _sideways(axis, figure, panel)


def _dots(axis: Any, figure: Figure, panel: str) -> None:
    """Draw a line of marks for each place: for values that are far apart."""
    places = figure.places(panel)
    axis.hlines(range(len(places)), *_span(figure), color=PALE, linewidth=0.6, zorder=0)
    for index, series in enumerate(figure.series()):
        xs, values = figure.line(panel, series)
        colour, mark = look(series, index)
        shape = (
            {"marker": "o", "markersize": 9, "markerfacecolor": "none"} if mark == RING else {"marker": mark}
        )
        axis.plot(
            values, [places.index(x) for x in xs], linestyle="none", color=colour, label=series, **shape
        )
    if figure.logarithmic:
        axis.set_xscale("log")
        _plain(axis.xaxis, *axis.get_xlim())
    axis.set_xlim(*_span(figure))
    _sideways(axis, figure, panel)


def _span(figure: Figure) -> tuple[float, float]:
    """Return the ends of the axis: a little below the least value and a little above the greatest."""
    values = [p.values[figure.y] * figure.times for p in figure.points if figure.y in p.values]
    low, high = min(values, default=1.0), max(values, default=1.0)
    return (0.8 * low, 1.25 * high) if figure.logarithmic else (0.0, 1.1 * high)


def _sideways(axis: Any, figure: Figure, panel: str) -> None:
    """Put the places at the side and the values at the bottom."""
    places = figure.places(panel)
    axis.set_yticks(range(len(places)), [place(x) for x in places])
    axis.set_ylim(len(places) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)
    axis.grid(axis="x", visible=True)
    axis.set_xlabel(figure.unit)


FORMS = {"line": _lines, "bars": _bars, "dots": _dots}


def _upright(axis: Any, figure: Figure) -> None:
    """Give a logarithmic axis plain numbers; let a linear one begin at 0."""
    if not figure.logarithmic:
        axis.set_ylim(bottom=0)
        return
    axis.set_yscale("log")
    _plain(axis.yaxis, *axis.get_ylim())


def _plain(axis: Any, low: float, high: float) -> None:
    """Put plain numbers on a logarithmic axis, more of them if it is short."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(base=10, subs=(1.0,) if high / low > 80 else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def _legend(sheet: Any, axes: Sequence[Any], figure: Figure) -> None:
    handles: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if len(handles) < 2:
        return
    ordered = [series for series in figure.series() if series in handles]
    sheet.legend(
        [handles[series] for series in ordered],
        ordered,
        loc="outside upper center",
        ncols=min(6, len(ordered)),
        handlelength=1.8,
        columnspacing=1.4,
    )
