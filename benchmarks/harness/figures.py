"""What an experiment measured: as a table on standard output, as CSV and JSON in a folder, as a chart.

A `Figure` is a list of measured points. Each has its panel (IND or ANT), its series (an algorithm), its place on the
axis that varies, and values by name. A figure also holds the sizes that it was measured at, which are always shown.
Pages are made from the JSON, so that one experiment can be measured again without the others.
"""

from __future__ import annotations

import csv
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from skyband.core.errors import InputError

STARRED = "* stopped when its time was up: the mean of fewer cycles"


@dataclass(frozen=True)
class Scale:
    """The sizes of a run, by the letters of the papers."""

    name: str  # tiny, quick, full
    n: int  # rows in the window
    r: int  # rows a cycle
    q: int  # queries
    k: int
    d: int
    cycles: int
    seeds: tuple[int, ...]

    def __str__(self) -> str:
        seeds = f"{len(self.seeds)} seed" + ("s" if len(self.seeds) > 1 else "")
        return (
            f"N = {self.n:,}, r = {self.r:,}, Q = {self.q:,}, k = {self.k}, d = {self.d}, "
            f"{self.cycles:,} cycles after the window is full, {seeds}"
        )


@dataclass(frozen=True)
class Point:
    panel: str
    series: str
    x: float | str
    values: dict[str, float]


@dataclass
class Figure:
    """One experiment's figures."""

    name: str  # of its files
    title: str
    x: str  # what varies
    y: str  # which value of the points is the figure's own
    unit: str  # of that value, once it was multiplied by `times`
    scale: str  # the sizes it was measured at, in words
    times: float = 1.0
    form: str = "line"  # of its chart: line, bars or dots
    logarithmic: bool = True
    machine: dict[str, str] = field(default_factory=lambda: machine())
    points: list[Point] = field(default_factory=list)

    def add(self, panel: str, series: str, x: float | str, **values: float) -> None:
        self.points.append(Point(panel, series, x, values))

    def panels(self) -> list[str]:
        return list(dict.fromkeys(point.panel for point in self.points))

    def series(self) -> list[str]:
        return list(dict.fromkeys(point.series for point in self.points))

    def places(self, panel: str | None = None) -> list[float | str]:
        return list(dict.fromkeys(p.x for p in self.points if panel is None or p.panel == panel))

    def value(self, panel: str, series: str, x: float | str, name: str | None = None) -> float | None:
        """Return one value of one point (the figure's own unless named), or None if it wasn't measured."""
        for point in self.points:
            if (point.panel, point.series, point.x) == (panel, series, x):
                return point.values.get(name or self.y)
        return None

    def line(self, panel: str, series: str) -> tuple[list[float | str], list[float]]:
        """Return a series along the axis in the figure's unit, without the places where it wasn't measured."""
        places = [x for x in self.places(panel) if self.value(panel, series, x) is not None]
        return places, [(self.value(panel, series, x) or 0.0) * self.times for x in places]

    # -- forms ---------------------------------------------------------------------------------------------

    def table(self) -> list[list[str]]:
        """Return rows of text: a heading, then one row for each place of a panel; a dash for what wasn't measured."""
        rows = [["", self.x, *self.series()]]
        for panel in self.panels():
            for x in self.places(panel):
                rows.append([panel, place(x), *(self.cell(panel, series, x) for series in self.series())])
        return rows

    def cell(self, panel: str, series: str, x: float | str) -> str:
        """Return a value as text, with a star if it is of fewer cycles than were asked for."""
        value = self.value(panel, series, x)
        if value is None:
            return "–"
        return number(value * self.times) + ("*" if self.value(panel, series, x, "stopped") else "")

    def starred(self) -> bool:
        return any(point.values.get("stopped") for point in self.points)

    def text(self) -> str:
        head = f"{self.title} ({self.unit})\n  {self.scale}"
        foot = f"\n  {STARRED}" if self.starred() else ""
        return f"{head}\n{aligned(self.table())}{foot}"

    def markdown(self) -> str:
        return markdown(self.table())

    def write(self, folder: Path) -> None:
        """Write the figure as JSON and CSV."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}.json").write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        names = list(dict.fromkeys(name for point in self.points for name in point.values))
        with (folder / f"{self.name}.csv").open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file, lineterminator="\n")
            lines.writerow(["panel", "series", self.x, *names])
            for p in self.points:
                lines.writerow([p.panel, p.series, p.x, *(p.values.get(name, "") for name in names)])

    def joined(self, folder: Path, others: bool = False) -> Figure:
        """Add the points of an earlier run at the same sizes that this one didn't measure again, in their order; with
        `others` also those of other series at a place where this run has measured some."""
        path = folder / f"{self.name}.json"
        if not path.exists():
            return self
        before = Figure.read(path)
        if before.scale != self.scale:
            return self
        own = {(point.panel, point.series, point.x): point for point in self.points}
        again = {(point.panel, point.x) for point in self.points}
        kept = [
            own.pop((point.panel, point.series, point.x), point)
            for point in before.points
            if others or (point.panel, point.x) not in again or (point.panel, point.series, point.x) in own
        ]
        self.points = [*kept, *own.values()]
        return self

    @staticmethod
    def read(path: Path) -> Figure:
        """Return a figure that an earlier run wrote."""
        try:
            blob: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            points = [Point(**point) for point in blob.pop("points")]
            return Figure(**blob, points=points)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(
                f"{path} is not a file of figures that python -m benchmarks wrote: delete it and measure again."
            ) from error


def statistics(seconds: Sequence[float]) -> dict[str, float]:
    """Return mean, median, 99th percentile and maximum of the cycles."""
    if not len(seconds):
        return {}
    return {
        "mean": float(np.mean(seconds)),
        "median": float(np.median(seconds)),
        "p99": float(np.percentile(seconds, 99)),
        "max": float(np.max(seconds)),
    }


def machine() -> dict[str, str]:
    """Return what the figures were measured on, without the name of the host."""
    from importlib.metadata import PackageNotFoundError, version

    def of(package: str) -> str:
        try:
            return version(package)
        except PackageNotFoundError:
            return "unknown"

    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "numba": of("numba"),
        "numpy": of("numpy"),
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


# -- text ------------------------------------------------------------------------------------------------------------


def number(value: float) -> str:
    """Return a number with three significant digits."""
    if value != value:
        return "–"
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    if size >= 1 or value == 0:
        return f"{value:.2f}"
    return f"{value:.3g}"


def place(x: float | str) -> str:
    """Return a place on an axis as text: whole numbers with separators."""
    if isinstance(x, str):
        return x
    return f"{int(x):,}" if x == int(x) else f"{x:g}"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return a table as text: words to the left, numbers to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    words = [all(not _numeric(row[i]) for row in rows[1:]) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = (
            cell.ljust(width) if word else cell.rjust(width)
            for cell, width, word in zip(row, widths, words, strict=True)
        )
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)


def _numeric(cell: str) -> bool:
    return cell[:1].isdigit() or cell[:1] in ("-", "–")


def markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(row)} |" for row in body]
    return "\n".join(lines)
