"""The page of an experiment: its figures, and the claims that they are judged by.

The text of a paper gives shapes (which algorithm is faster, what grows with what) and few numbers; its charts have no
numbers to copy. Each shape is a `Claim`: a sentence about the paper and a test of the measured figures, with the ratios
that decide. A claim that doesn't hold is shown as such. A `Book` holds all that makes one page: its head, its sections
in order, its claims, and tables of its own for figures that the paper has numbers for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness.charts import draw
from benchmarks.harness.figures import STARRED, Figure, aligned, markdown, number
from benchmarks.harness.settings import Settings


@dataclass(frozen=True)
class Claim:
    """What the paper saw, and how it is judged here: None if it wasn't measured."""

    saw: str
    judge: Callable[[Figure], tuple[bool, str] | None]


def ratios(figure: Figure, upper: str, lower: str, panel: str | None = None) -> list[float]:
    """Return the cost of one series divided by that of the other, at each place."""
    found = []
    for each in figure.panels() if panel is None else [panel]:
        for x in figure.places(each):
            above, below = figure.value(each, upper, x), figure.value(each, lower, x)
            if above is not None and below:
                found.append(above / below)
    return found


def span(values: list[float]) -> str:
    """Return the smallest and the greatest ratio as text."""
    low, high = number(min(values)), number(max(values))
    return f"{low} times" if low == high else f"{low} to {high} times"


def dearer(
    upper: str, lower: str, panel: str | None = None, least: float = 1.0
) -> Callable[[Figure], tuple[bool, str] | None]:
    """Judge that one series costs more than the other everywhere."""

    def judge(figure: Figure) -> tuple[bool, str] | None:
        found = ratios(figure, upper, lower, panel)
        return (min(found) > least, f"{upper} / {lower}: {span(found)}") if found else None

    return judge


def grows(*series: str) -> Callable[[Figure], tuple[bool, str] | None]:
    """Judge that the last place costs more than the first."""

    def judge(figure: Figure) -> tuple[bool, str] | None:
        found: dict[str, list[float]] = {}
        for name in series:
            for panel in figure.panels():
                _, values = figure.line(panel, name)
                if len(values) > 1 and values[0] > 0:
                    found.setdefault(name, []).append(values[-1] / values[0])
        if not found:
            return None
        held = all(ratio > 1 for each in found.values() for ratio in each)
        return held, "last / first: " + ", ".join(f"{name} {span(each)}" for name, each in found.items())

    return judge


@dataclass(frozen=True)
class Beside:
    """A second table of a figure, such as its values beside the paper's, and a text below it."""

    table: Callable[[Figure], list[list[str]]]
    note: str | Callable[[Figure], str] = ""


@dataclass(frozen=True)
class Book:
    """One paper's page."""

    name: str  # of the experiment, its folder and its page
    head: str
    sections: Sequence[
        tuple[str, str]
    ]  # names of figures, each with its heading (none: that of the one before)
    claims: Mapping[str, tuple[Claim, ...]] = field(default_factory=dict)
    beside: Mapping[str, Beside] = field(default_factory=dict)
    said: str = "the paper saw"  # what heads the claims
    goals: Callable[[Mapping[str, Figure]], list[list[str]]] | None = (
        None  # a table over all figures, shown first
    )

    def judged(self, figure: Figure) -> list[list[str]]:
        """The paper's claims about a figure: what it saw, whether that holds here, by which ratios."""
        rows = []
        for claim in self.claims.get(figure.name, ()):
            found = claim.judge(figure)
            if found is not None:
                rows.append([claim.saw, "yes" if found[0] else "**no**", found[1]])
        return rows

    def verdicts(self, figure: Figure) -> str:
        """The claims of a figure as text, for the terminal."""
        lines = []
        if figure.name in self.beside:
            rows = self.beside[figure.name].table(figure)
            if len(rows) > 1:
                lines.append(aligned(rows).replace("**", ""))
            if callable(note := self.beside[figure.name].note):
                lines.append(note(figure))
        for saw, held, by in self.judged(figure):
            lines.append(f"  {'holds' if held == 'yes' else 'DOES NOT HOLD'}: {saw} ({by})")
        return "\n".join(lines)

    def publish(self, figures: Iterable[Figure], settings: Settings) -> None:
        """Print each figure with its verdicts as soon as it is measured, write its files, and then the page."""
        folder = settings.output / self.name
        for figure in figures:
            if not figure.points:
                continue
            print(f"{figure.text()}\n{self.verdicts(figure)}\n", flush=True)
            figure.write(folder)
            if settings.charts and figure.name in dict(self.sections):
                draw(figure, folder)
        if self.goals is not None:
            print(aligned(self.goals(self.read(folder))).replace("**", "") + "\n")
        print(f"Tables and charts are in {folder}, the page is {self.page(settings.output)}.")

    @staticmethod
    def read(folder: Path) -> dict[str, Figure]:
        """Return the figures of a folder, by name."""
        return {path.stem: Figure.read(path) for path in sorted(folder.glob("*.json"))}

    def page(self, output: Path) -> Path:
        """Write the page from the figures that lie in the folder."""
        folder = output / self.name
        figures = self.read(folder)
        machines = {
            " · ".join(f"{name} {value}" for name, value in f.machine.items()) for f in figures.values()
        }
        parts = [self.head, "Measured on: " + "; ".join(sorted(machines)) + ".\n"]
        if self.goals is not None:
            parts.append(markdown(self.goals(figures)) + "\n")
        for name, heading in self.sections:
            if name in figures:
                parts += self.section(figures[name], heading, folder)
        path = output / f"{self.name}.md"
        path.write_text("\n".join(parts), encoding="utf-8")
        return path

    def section(self, figure: Figure, heading: str, folder: Path) -> Iterator[str]:
        if heading:
            yield f"## {heading}\n"
        yield f"{figure.title} ({figure.unit}). Scale: {figure.scale}.\n"
        if (folder / f"{figure.name}.svg").exists():
            yield f"![{figure.title}]({folder.name}/{figure.name}.svg)\n"
        yield figure.markdown() + "\n"
        if figure.starred():
            yield STARRED.replace("* ", "\\* ") + ".\n"
        if figure.name in self.beside:
            beside = self.beside[figure.name]
            rows = beside.table(figure)
            if len(rows) > 1:
                yield markdown(rows) + "\n"
                if note := beside.note(figure) if callable(beside.note) else beside.note:
                    yield note + "\n"
        rows = self.judged(figure)
        if rows:
            yield markdown([[self.said, "so here", "by"], *rows]) + "\n"
