"""What the paper on top-k pairs saw, and whether it is seen here: the page."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.harness.claims import Beside, Book, Claim, dearer, grows, ratios, span
from benchmarks.harness.figures import Figure, number, place
from benchmarks.papers.shen.goals import beside, missed

# Tables 2 and 3: mean sizes of the skyband
PUBLISHED = {
    "sizes-k": {1: 17.4, 5: 82.3, 10: 159.9, 20: 308.5, 50: 730.6, 100: 1398.0},
    "sizes-n": {1000: 216.5, 5000: 280.8, 10_000: 308.5, 50_000: 372.9, 100_000: 399.8},
}


def within(most: float) -> Callable[[Figure], tuple[bool, str] | None]:
    """Judge that scase is at most so many times the bound."""

    def judge(figure: Figure) -> tuple[bool, str] | None:
        found = ratios(figure, "scase", "supreme")
        return (max(found) <= most, f"scase / supreme: {span(found)}") if found else None

    return judge


def near_expectation(figure: Figure) -> tuple[bool, str] | None:
    found = ratios(figure, "measured", "expected")
    if not found:
        return None
    worst = max(abs(ratio - 1) for ratio in found)
    return worst <= 0.02, f"at most {100 * worst:.1f} % off"


def beside_published(figure: Figure) -> list[list[str]]:
    rows = [["", figure.x, "here", "expected", "paper"]]
    for x in figure.places():
        paper = PUBLISHED[figure.name].get(int(x))
        here, law = (figure.value("uniform", series, x) or 0.0 for series in ("measured", "expected"))
        rows.append(
            ["", f"{int(x):,}", f"{here:.1f}", f"{law:.1f}", "–" if paper is None else f"{paper:.1f}"]
        )
    return rows


def below_a_twentieth(figure: Figure) -> tuple[bool, str] | None:
    places = [x for x in figure.places() if float(x) >= 500_000]
    found = [figure.value(panel, "ta", x) or 0.0 for panel in ("s1", "s2") for x in places]
    return (max(found) < 0.05, f"at most {100 * max(found):.2f} %") if found else None


def faster_in_long_windows(figure: Figure) -> tuple[bool, str] | None:
    last = max((float(x) for x in figure.places()), default=0.0)
    found = []
    for panel in ("s1", "s2"):
        lists, all_of = figure.value(panel, "ta", last), figure.value(panel, "scase", last)
        if lists and all_of:
            found.append(all_of / lists)
    return (min(found) > 1, f"scase / ta at N = {last:,.0f}: {span(found)}") if found else None


def tree_wins(figure: Figure) -> tuple[bool, str] | None:
    found = [ratio for panel in ("s1", "s2", "metric") for ratio in ratios(figure, "ta", "kd", panel)]
    return (min(found) >= 1, f"ta / kd: {span(found)}") if found else None


def together_wins(figure: Figure) -> tuple[bool, str] | None:
    last = figure.places()[-1]
    alone, walk, scan = (
        figure.value("any k and window", name, last) for name in ("walk each", "one walk", "Algorithm 7")
    )
    if not (alone and walk and scan):
        return None
    return alone > max(
        walk, scan
    ), f"one walk {alone / walk:.1f} times as fast, Algorithm 7 {alone / scan:.1f} times"


def quickest(figure: Figure) -> list[list[str]]:
    """Return Algorithm 7 beside one walk, by the number of answers."""
    rows = [["answers", "one walk / Algorithm 7", "one walk / Algorithm 7, sorting first"]]
    for x in figure.places():
        walk, scan, sorting = (
            figure.value("any k and window", name, x) or 1.0
            for name in ("one walk", "Algorithm 7", "Algorithm 7, sorting first")
        )
        rows.append([place(x), number(walk / scan), number(walk / sorting)])
    return rows


def falls(figure: Figure) -> tuple[bool, str] | None:
    _, values = figure.line("s1", "scase")
    if len(values) < 2 or not values[0]:
        return None
    return values[-1] < values[0], f"from {values[0]:.1f} to {values[-1]:.1f} pairs a row"


def fewer_with_colours(figure: Figure) -> tuple[bool, str] | None:
    _, values = figure.line("scase", "a.c = b.c")
    if len(values) < 2 or not values[-1]:
        return None
    return values[-1] < values[
        0
    ], f"{values[0] / values[-1]:.1f} times as fast with the most colours as with one"


def by_age(figure: Figure) -> list[list[str]]:
    """Return the cost of rows of each age beside that of a row in order."""
    rows = [["age in rows", *(f"times a row in order, {words}" for words in figure.series())]]
    for age in figure.places():
        taken = [(figure.value("s1", words, age), figure.value("s1", words, 0)) for words in figure.series()]
        if age:
            rows.append([place(age), *(number(late / own) for late, own in taken if late and own)])
    return rows


CLAIMS: dict[str, tuple[Claim, ...]] = {
    "goals": (Claim("(goal) every figure is reached", missed),),
    "time-k": (
        Claim("naive costs much more than scase", dearer("naive", "scase")),
        Claim("scase stays near the bound", within(4.0)),
    ),
    "time-n": (
        Claim("cost grows with N", grows("scase", "supreme")),
        Claim("scase stays near the bound", within(4.0)),
    ),
    "time-scores": (Claim("(goal) scase is at most 2.5 times the bound", within(2.5)),),
    "time-d": (Claim("basic costs more than scase", dearer("basic", "scase")),),
    "time-lists": (
        Claim("sorted lists win in long windows", faster_in_long_windows),
        Claim("(beyond the paper) a tree beats sorted lists, but for the closest by a product", tree_wins),
    ),
    "accessed": (Claim("(goal) below 5 % of the window from 500,000 rows on", below_a_twentieth),),
    "batch": (Claim("many answers at once are cheaper than each alone", together_wins),),
    "sizes-k": (Claim("sizes are as expected, within 2 %", near_expectation),),
    "sizes-n": (Claim("sizes are as expected, within 2 %", near_expectation),),
    "late-pairs": (Claim("the later a row, the fewer of its pairs matter", falls),),
    "time-asked-k": (Claim("naive costs much more than scase", dearer("naive", "scase")),),
    "time-asked-n": (Claim("naive costs much more than scase", dearer("naive", "scase")),),
    "colours": (Claim("a homochromatic query gets cheaper with more colours", fewer_with_colours),),
}

SECTIONS = (
    ("goals", "Figures to reach"),
    ("time-k", "Keeping the skyband: K and N"),
    ("time-n", ""),
    ("time-scores", "The four scores"),
    ("time-asked-k", "One continuous question: its k and its window"),
    ("time-asked-n", ""),
    ("snapshots", "Snapshots of any k and window"),
    ("batch", "Many answers at once"),
    ("continuous", "Many watches"),
    ("objects", "Objects by the same framework"),
    ("spare", "Answers that follow the rows"),
    ("searched", ""),
    ("time-lists", "Scores made of differences"),
    ("accessed", ""),
    ("time-d", ""),
    ("time-lists-k", ""),
    ("sizes-k", "Tables 2 and 3: the size of the skyband"),
    ("sizes-n", ""),
    ("memory", ""),
    ("late", "Rows that come late"),
    ("late-pairs", ""),
    ("late-shortcut", ""),
    ("late-cost", ""),
    ("colours", "Colours"),
)

HEAD = """# shen: the experiments on top-k pairs, measured again

Written by `python -m benchmarks shen` from its own figures ([options](../benchmarks.md#options)).

Zhitao Shen, Muhammad Aamir Cheema, Xuemin Lin, Wenjie Zhang and Haixun Wang, *A Generic Framework for Top-k Pairs and
Top-k Objects Queries over Sliding Windows* (2012). The text has no numbers for the charts, so shapes are compared;
Tables 2 and 3 have numbers. `supreme` is the bound: it only computes the scores of a new row with the whole window. The
time of the paper's oracle is not counted; storing the rows of a step counts for all. `naive` and `basic` are its
baselines, by numpy and by counting. A time is the CPU time of the algorithm alone for one row, in turns over the same
rows; ratios within a table are of one run.
"""

NOTE = (
    "Expected is exact for scores that are independent of age. A single size varies by tens; these are means along a "
    "stream."
)
LATE = (
    "Fewer pairs of an older row matter, and mostly none. Then the skyband doesn't change (Lemma 3), and in steps of "
    "fifty rows an older row costs less. At the greatest age hardly any of that part is left. The time there is the "
    "part that doesn't fall: scoring the row with the whole window, moving newer rows in every column by one place, "
    "and above all the two dozen calls of compiled code and of numpy for one late row; with one row a step, the step "
    "itself."
)
BATCH = (
    "One walk reads the skyband by recency, as it is kept. Algorithm 7 reads its pairs by score. They are in that "
    "order if a priority search tree was made for snapshots (the time of which isn't counted), else they have to be "
    "sorted."
)
GOALS = (
    "Ratios to only scoring are of the loops alone, without storing rows. The K best after every row are kept in order "
    "by `WITH (algorithm = 'scase', refresh = 4)`, while the skyband behind them is refreshed every fourth row. At "
    "K = 100 scase takes several times the bound: see the first table below."
)
BOOK = Book(
    "shen",
    HEAD,
    SECTIONS,
    CLAIMS,
    {
        **{name: Beside(beside_published, NOTE) for name in PUBLISHED},
        "goals": Beside(beside, GOALS),
        "batch": Beside(quickest, BATCH),
        "late-cost": Beside(by_age, LATE),
    },
)
