"""What Mouratidis, Bakiras and Papadias saw, and whether it is seen here: the page of `skyband bench mouratidis`.

The paper's text gives shapes (who is faster, what grows with what) and one table of numbers, the sizes of views and
skybands; its charts have no numbers to take over. Each shape is a `Claim` here: a sentence about the paper and a test
of the figures measured, with the ratios that it was judged by. A shape that doesn't hold is shown as such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from skyband.bench.figures import STARRED, Figure, aligned, markdown, number, place

# Table 2: rows of a view (tsl) and of a skyband (sma) for k; (IND, ANT) of each
TABLE_2 = {
    1: {"tsl": (3.3, 3.1), "sma": (1.1, 1.1)},
    5: {"tsl": (8.6, 8.4), "sma": (5.9, 5.9)},
    10: {"tsl": (17.1, 17.2), "sma": (11.2, 11.5)},
    20: {"tsl": (26.7, 26.9), "sma": (21.6, 22.4)},
    50: {"tsl": (63.0, 64.4), "sma": (53.3, 54.4)},
    100: {"tsl": (113.2, 113.6), "sma": (104.6, 106.5)},
}
# The same from a simulation of ranks alone (r/N = 1 %, 100 cycles): the sizes depend on no distribution
EXPECTED = {
    1: {"tsl": 3.07, "sma": 1.13},
    5: {"tsl": 8.47, "sma": 6.01},
    10: {"tsl": 17.30, "sma": 11.56},
    20: {"tsl": 27.04, "sma": 22.55},
    50: {"tsl": 64.66, "sma": 54.36},
    100: {"tsl": 113.74, "sma": 106.65},
}


def band(k: int) -> float:
    """How far one stream's mean may be from the expectation: its queries share rows, so they err together."""
    return 1.0 if k <= 20 else 2.5


@dataclass(frozen=True)
class Claim:
    """What the paper saw, and how it is judged here: None where it wasn't measured."""

    saw: str
    judge: Callable[[Figure], tuple[bool, str] | None]


def ratios(figure: Figure, upper: str, lower: str, panel: str | None = None) -> list[float]:
    """How many times as dear one is as the other, at each place."""
    found = []
    for each in figure.panels() if panel is None else [panel]:
        for x in figure.places(each):
            above, below = figure.value(each, upper, x), figure.value(each, lower, x)
            if above is not None and below:
                found.append(above / below)
    return found


def span(values: list[float]) -> str:
    low, high = number(min(values)), number(max(values))
    return f"{low} times" if low == high else f"{low} to {high} times"


def dearer(
    upper: str, lower: str, panel: str | None = None, least: float = 1.0
) -> Callable[[Figure], tuple[bool, str] | None]:
    """That one costs more than the other everywhere."""

    def judge(figure: Figure) -> tuple[bool, str] | None:
        found = ratios(figure, upper, lower, panel)
        return (min(found) > least, f"{upper} / {lower}: {span(found)}") if found else None

    return judge


def grows(*series: str) -> Callable[[Figure], tuple[bool, str] | None]:
    """That the last place costs more than the first."""

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


def mostly_tenfold(figure: Figure) -> tuple[bool, str] | None:
    found = ratios(figure, "tsl", "tma") + ratios(figure, "tsl", "sma")
    if not found:
        return None
    many = sum(ratio > 10 for ratio in found)
    return 2 * many > len(found), f"more than 10 times in {many} of {len(found)} cases ({span(found)})"


def anticorrelated_dearer(figure: Figure) -> tuple[bool, str] | None:
    found: dict[str, list[float]] = {}
    for name in ("tsl", "tma", "sma"):
        for x in figure.places():
            plain, anti = figure.value("IND", name, x), figure.value("ANT", name, x)
            if plain and anti:
                found.setdefault(name, []).append(anti / plain)
    if not found:
        return None
    held = all(ratio > 1 for each in found.values() for ratio in each)
    return held, "ANT / IND: " + ", ".join(f"{name} {span(each)}" for name, each in found.items())


def linear(figure: Figure) -> tuple[bool, str] | None:
    """That the cost grows about as fast as the axis: the slope between its ends, on logarithms."""
    import math

    found: dict[str, list[float]] = {}
    for name in ("tsl", "tma", "sma"):
        for panel in figure.panels():
            xs, ys = figure.line(panel, name)
            if len(xs) > 1 and ys[0] > 0:
                run = math.log(float(xs[-1]) / float(xs[0]))
                found.setdefault(name, []).append(math.log(ys[-1] / ys[0]) / run)
    if not found:
        return None
    held = all(0.7 <= slope <= 1.3 for each in found.values() for slope in each)
    words = (f"{name} {', '.join(f'{slope:.2f}' for slope in each)}" for name, each in found.items())
    return held, "exponent of Q (1 is linear; IND, ANT): " + "; ".join(words)


def gap_grows(figure: Figure) -> tuple[bool, str] | None:
    words, held = [], True
    for panel in figure.panels():
        found = ratios(figure, "tma", "sma", panel)
        if len(found) < 2:
            return None
        held &= found[-1] > found[0]
        words.append(f"{panel} {number(found[0])} at the smallest k, {number(found[-1])} at the greatest")
    return held, "tma / sma: " + "; ".join(words)


def nearly_tsl(figure: Figure) -> tuple[bool, str] | None:
    found = ratios(figure, "tsl", "tma", "ANT")
    if not found:
        return None
    return 0.5 <= found[-1] <= 2, f"tsl / tma at the greatest k: {number(found[-1])} times"


def best_grid(figure: Figure) -> tuple[bool, str] | None:
    found = {}
    for name in figure.series():
        xs, ys = figure.line("IND", name)
        if xs:
            best = min(ys)
            found[name] = (xs[ys.index(best)], figure.value("IND", name, 12), best)
    if not found:
        return None
    words, held = [], True
    for name, (x, twelve, best) in found.items():
        beside = "" if twelve is None else f" (12: {number(twelve * figure.times / best)} times that)"
        held &= twelve is not None and twelve * figure.times / best < 1.1
        words.append(f"{name} is fastest with {place(x)}{beside}")
    return held, "; ".join(words)


CLAIMS: dict[str, tuple[Claim, ...]] = {
    "time-grid": (Claim("12 intervals on each of 4 axes are best for tma and sma", best_grid),),
    "space-grid": (Claim("a finer grid takes more room", grows("tma", "sma")),),
    "time-d": (
        Claim("every algorithm's cost grows with d", grows("tsl", "tma", "sma")),
        Claim("tma is well below tsl", dearer("tsl", "tma")),
        Claim("sma is below tma", dearer("tma", "sma")),
    ),
    "time-n": (
        Claim("cost grows with N", grows("tsl", "tma", "sma")),
        Claim("tma and sma are more than ten times as fast as tsl in most cases", mostly_tenfold),
        Claim("anti-correlated rows cost more", anticorrelated_dearer),
    ),
    "time-r": (
        Claim("the cost of tma and sma grows with r", grows("tma", "sma")),
        Claim("tma is below tsl at every r", dearer("tsl", "tma")),
        Claim("sma is below tsl at every r", dearer("tsl", "sma")),
        Claim("on ANT sma is well below tma", dearer("tma", "sma", "ANT")),
    ),
    "time-q": (
        Claim("cost grows linearly with Q", linear),
        Claim("the order stays: tma below tsl", dearer("tsl", "tma")),
        Claim("… and sma below tma", dearer("tma", "sma")),
    ),
    "time-k": (
        Claim("cost grows with k", grows("tsl", "tma", "sma")),
        Claim("tma and sma begin alike and part as k grows", gap_grows),
        Claim("k = 100 on ANT: tma costs nearly as much as tsl", nearly_tsl),
    ),
    "space-k": (
        Claim("space grows with k", grows("tsl", "tma", "sma")),
        Claim("tsl takes more than sma", dearer("tsl", "sma")),
        Claim("sma takes a little more than tma", dearer("sma", "tma")),
    ),
    "time-product": (
        Claim("the order is that of weighted sums: tma below tsl", dearer("tsl", "tma")),
        Claim("… and sma below tma", dearer("tma", "sma")),
    ),
    "time-squares": (
        Claim("the order is that of weighted sums: tma below tsl", dearer("tsl", "tma")),
        Claim("… and sma below tma", dearer("tma", "sma")),
    ),
}  # fmt: skip

SECTIONS = (
    ("time-grid", "Figure 14: the grid"),
    ("space-grid", ""),
    ("time-d", "Figure 15: dimensions"),
    ("time-n", "Figure 16: the window"),
    ("time-r", "Figure 17: arrival rate"),
    ("time-q", "Figure 18: queries"),
    ("time-k", "Figure 19: k"),
    ("space-k", "Figure 20: space"),
    ("sizes-k", "Table 2: rows in a view and in a skyband"),
    ("time-product", "Figure 21: functions that are not linear"),
    ("time-squares", ""),
)


def judged(figure: Figure) -> list[list[str]]:
    """The paper's claims about a figure: what it saw, whether that holds here, by which ratios."""
    rows = []
    for claim in CLAIMS.get(figure.name, ()):
        found = claim.judge(figure)
        if found is not None:
            rows.append([claim.saw, "yes" if found[0] else "**no**", found[1]])
    return rows


def table_2(figure: Figure) -> list[list[str]]:
    """Sizes beside the paper's and beside the expectation, with the band that they should be in."""
    rows = [["", "k", "who", "here", "paper", "expected", "band", "inside"]]
    for panel in figure.panels():
        for x in figure.places(panel):
            k = int(x)
            for who in ("tsl", "sma"):
                here = figure.value(panel, who, x)
                if here is None or k not in TABLE_2:
                    continue
                paper, expected = TABLE_2[k][who][panel == "ANT"], EXPECTED[k][who]
                inside = "yes" if abs(here - expected) <= band(k) else "**no**"
                rows.append(
                    [
                        panel,
                        str(k),
                        who,
                        f"{here:.1f}",
                        f"{paper:.1f}",
                        f"{expected:.1f}",
                        f"± {band(k)}",
                        inside,
                    ]
                )
    return rows


def verdicts(figure: Figure) -> str:
    """The claims of a figure as text, for the terminal."""
    if figure.name == "sizes-k":
        rows = table_2(figure)
        return aligned(rows).replace("**", "") if len(rows) > 1 else ""
    rows = judged(figure)
    if not rows:
        return ""
    return "\n".join(
        f"  {'holds' if row[1] == 'yes' else 'DOES NOT HOLD'}: {row[0]} ({row[2]})" for row in rows
    )


# -- the page --------------------------------------------------------------------------------------------------------

HEAD = """# mouratidis: the first paper's experiments, measured again

Written by `skyband bench mouratidis` from its own figures; the [command](../cli.md#skyband-bench) has a `--scale`.

Kyriakos Mouratidis, Spiridon Bakiras and Dimitris Papadias, *Continuous Monitoring of Top-k Queries over Sliding
Windows* (SIGMOD 2006), section 8, on a 3.2 GHz Pentium with 1 GB. Their charts have no numbers in the text, so what is
set beside them is their shape: who is faster, what grows with what. Table 2 has numbers.

`tsl`, `tma` and `sma` are the paper's algorithms, `heightmap` and `ra` run beside them on the same rows. The window is
full before the queries come. A time is the CPU time of the algorithm alone for one cycle (r rows arrive, r expire, all
answers are up to date), the mean over all cycles; everybody gets the same batch, in turns. The first three cycles after
the queries came aren't counted: who puts off some of the work for new queries does it there. Ratios within a table are
of one run.
"""


def page(output: Path) -> Path:
    """Write the page from the figures that lie in the folder."""
    folder = output / "mouratidis"
    figures = {path.stem: Figure.read(path) for path in sorted(folder.glob("*.json"))}
    parts = [HEAD]
    machines = {" · ".join(f"{name} {value}" for name, value in f.machine.items()) for f in figures.values()}
    parts.append("Measured on: " + "; ".join(sorted(machines)) + ".\n")
    parts += [
        part
        for name, heading in SECTIONS
        if name in figures
        for part in section(figures[name], heading, folder)
    ]
    path = output / "mouratidis.md"
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def section(figure: Figure, heading: str, folder: Path) -> Iterator[str]:
    if heading:
        yield f"## {heading}\n"
    yield f"{figure.title} ({figure.unit}). Scale: {figure.scale}.\n"
    if (folder / f"{figure.name}.svg").exists():
        yield f"![{figure.title}]({folder.name}/{figure.name}.svg)\n"
    yield figure.markdown() + "\n"
    if figure.starred():
        yield STARRED.replace("* ", "\\* ") + ".\n"
    if figure.name == "sizes-k" and len(table_2(figure)) > 1:
        yield markdown(table_2(figure)) + "\n"
        yield (
            "Expected is the mean of a simulation of ranks alone: how many rows a list holds depends on no "
            "distribution, so IND and ANT have one expectation. The queries of one stream share their best rows "
            "and err together.\n"
        )
    rows = judged(figure)
    if rows:
        yield markdown([["the paper saw", "so here", "by"], *rows]) + "\n"
