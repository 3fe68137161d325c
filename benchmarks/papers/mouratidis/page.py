"""What Mouratidis, Bakiras and Papadias saw, and whether it is seen here: the page.

The paper's text gives shapes (which algorithm is faster, what grows with what) and one table of numbers, the sizes of
views and skybands.
"""

from __future__ import annotations

from benchmarks.harness.claims import Beside, Book, Claim, dearer, grows, ratios, span
from benchmarks.harness.figures import Figure, number, place

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
    """Return how far one stream's mean may be from the expectation: its queries share rows, so errors correlate."""
    return 1.0 if k <= 20 else 2.5


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
    """Judge that the cost grows about as fast as the axis: the slope between its ends, on logarithms."""
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


def table_2(figure: Figure) -> list[list[str]]:
    """Return sizes beside the paper's and beside the expectation, with the band that they should be in."""
    rows = [["", "k", "algorithm", "here", "paper", "expected", "band", "inside"]]
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


HEAD = """# mouratidis: the first paper's experiments, measured again

Written by `python -m benchmarks mouratidis` from its own figures ([options](../benchmarks.md#options)).

Kyriakos Mouratidis, Spiridon Bakiras and Dimitris Papadias, *Continuous Monitoring of Top-k Queries over Sliding
Windows* (SIGMOD 2006), section 8, on a 3.2 GHz Pentium with 1 GB. The text has no numbers for the charts, so shapes are
compared: which algorithm is faster, what grows with what. Table 2 has numbers.

`tsl`, `tma` and `sma` are the paper's algorithms, `heightmap` and `ra` run beside them on the same rows. The window is
full before the queries come. A time is the CPU time of the algorithm alone for one cycle (r rows arrive, r expire, all
answers are up to date), the mean over all cycles. All algorithms get the same batch, in turns. The first three cycles
after the queries came aren't counted: an algorithm that postpones work for new queries does it there. Ratios within a
table are of one run.
"""

BOOK = Book(
    "mouratidis",
    HEAD,
    SECTIONS,
    CLAIMS,
    {
        "sizes-k": Beside(
            table_2,
            "Expected is the mean of a simulation of ranks alone: how many rows a list holds depends on no "
            "distribution, so IND and ANT have one expectation. The queries of one stream share their best rows, so "
            "their errors are correlated.",
        )
    },
)
