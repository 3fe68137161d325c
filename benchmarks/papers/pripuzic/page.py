"""What Pripužić, Podnar Žarko and Aberer saw, and whether it is seen here: the page.

The text has no numbers for the charts; it gives ratios (up to one order of magnitude, 4 to 8 times) and groups of
algorithms. The sizes have laws: the k-skyband's k(1 + H_n - H_k), and what a relaxed one keeps on top.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.harness.claims import Beside, Book, Claim, grows, ratios, span
from benchmarks.harness.figures import Figure, number, place
from skyband.algorithms import REGISTRY
from skyband.algorithms.kernels.batch_skyband import expected_size
from skyband.algorithms.skyband.ra import GAMMA

Verdict = tuple[bool, str] | None
SIX = ("sasf", "sarf", "sapf", "rasf", "rarf", "rapf")
IN_TIME = "readings, in time"
BAND = 0.03  # how far a mean size may be from its law
RUNS, USED = 20, (0.2, 1.0)  # of pa's calibrated error so much is to be used, over so many runs or more
OF_FILE = "-file"  # ends the names of figures that are of a file's readings


def faster(
    quick: str, slow: str, panel: str | None = None, least: float = 1.0, at: str = "everywhere"
) -> Callable[[Figure], Verdict]:
    """Judge that one is faster than the other: everywhere, at the greatest place of the axis, or somewhere."""

    def judge(figure: Figure) -> Verdict:
        panels = figure.panels() if panel is None else [panel]
        found = []
        for each in panels:
            values = ratios(figure, slow, quick, each)
            found += values[-1:] if at == "at the greatest" else values
        if not found:
            return None
        held = (max(found) if at == "somewhere" else min(found)) >= least
        return held, f"{slow} / {quick} {at}: {span(found)}"

    return judge


def bounded(figure: Figure) -> Verdict:
    found = [
        (figure.value(p, "missed", x), figure.value(p, "stated error", x))
        for p in figure.panels()
        for x in figure.places(p)
    ]
    values = [(missed or 0.0) / error for missed, error in found if error]
    if not values:
        return None
    return max(values) <= 1, f"missed / stated: {number(min(values))} to {number(max(values))}"


def of_runs(figure: Figure) -> list[tuple[str, float | str, dict[str, float]]]:
    """Return the points that are means of runs: data, k and values."""
    return [(p.panel, p.x, p.values) for p in figure.points if p.series == "missed" and "runs" in p.values]


def used(data: str) -> Callable[[Figure], Verdict]:
    """Judge that at least a fifth of the allowed error is used, at each k with enough runs for a mean."""

    def judge(figure: Figure) -> Verdict:
        found = [
            (k, values) for panel, k, values in of_runs(figure) if panel == data and values["runs"] >= RUNS
        ]
        if not found:
            return None
        means = ", ".join(f"{number(values['ratio'])} at k = {place(k)}" for k, values in found)
        lowest, highest = min(v["lowest"] for _, v in found), max(v["highest"] for _, v in found)
        held = all(within(values["ratio"]) for _, values in found)
        return held, f"missed / calibrated, means: {means}; single runs {number(lowest)} to {number(highest)}"

    return judge


def within(ratio: float) -> bool:
    return USED[0] <= ratio <= USED[1]


def never_sure(figure: Figure) -> Verdict:
    """Judge that no answer was wrong and certified."""
    found = [values for _, _, values in of_runs(figure)]
    if not found:
        return None
    wrong, sure, answers = (
        int(sum(values[name] for values in found)) for name in ("wrong", "wrong and certified", "answers")
    )
    return sure == 0, f"{sure:,} certified of {wrong:,} wrong answers, {answers:,} answers in all"


def runs(figure: Figure) -> list[list[str]]:
    """Return what single runs missed, in parts of the calibrated error, and how many wrong answers were certified."""
    low, high = (f"{edge:g}" for edge in USED)
    rows = [
        ["data", "k", "runs", "mean", "± (standard error)", "lowest run", "highest run",
         f"mean within {low} to {high}", "wrong answers", "of these certified"]
    ]  # fmt: skip
    for data, k, values in of_runs(figure):
        shares = [number(values[name]) for name in ("ratio", "deviation", "lowest", "highest")]
        inside = "yes" if within(values["ratio"]) else "**no**"
        counts = [f"{values[name]:,.0f}" for name in ("wrong", "wrong and certified")]
        rows.append([data, place(k), f"{values['runs']:.0f}", *shares, inside, *counts])
    return rows


def fewer_false(figure: Figure) -> Verdict:
    missed = sum(figure.value(p, "missed", x) or 0.0 for p in figure.panels() for x in figure.places(p))
    false = sum(
        figure.value(p, "shown in error", x) or 0.0 for p in figure.panels() for x in figure.places(p)
    )
    if not missed and not false:
        return None
    return false < missed, f"in all {number(missed)} missed, {number(false)} shown in error"


def correlated_dearer(figure: Figure) -> Verdict:
    found: dict[str, list[float]] = {}
    for name in figure.series():
        for x in figure.places():
            random, ordered = (
                figure.value("readings, shuffled", name, x),
                figure.value("readings, in time", name, x),
            )
            if random and ordered:
                found.setdefault(name, []).append(ordered / random)
    if not found:
        return None
    held = all(ratio > 1 for each in found.values() for ratio in each)
    return held, "in time / shuffled: " + ", ".join(f"{name} {span(each)}" for name, each in found.items())


def grouped(first: tuple[str, ...], second: tuple[str, ...]) -> Callable[[Figure], Verdict]:
    """Judge that at the greatest k, without the index, all of the first group are slower than all of the second."""

    def judge(figure: Figure) -> Verdict:
        places = figure.places("no index")
        if not places:
            return None
        slow = [v for name in first if (v := figure.value("no index", name, places[-1])) is not None]
        quick = [v for name in second if (v := figure.value("no index", name, places[-1])) is not None]
        if not slow or not quick:
            return None
        return min(slow) > max(
            quick
        ), f"k = {place(places[-1])}: {', '.join(first)} take {span_of(slow, quick)}"

    return judge


def span_of(slow: list[float], quick: list[float]) -> str:
    return f"{number(min(slow) / max(quick))} to {number(max(slow) / min(quick))} times the others' time"


def index_gain(figure: Figure) -> Verdict:
    found: dict[str, list[float]] = {}
    for name in figure.series():
        for x in figure.places("index"):
            plain, indexed = figure.value("no index", name, x), figure.value("index", name, x)
            if plain and indexed:
                found.setdefault(name, []).append(plain / indexed)
    if not found:
        return None
    held = all(ratio > 1 for each in found.values() for ratio in each)
    return held, "no index / index: " + ", ".join(f"{name} {span(each)}" for name, each in found.items())


def gains(figure: Figure) -> Verdict:
    """Judge that the index saves time in every setting, and show from which batch on it does."""
    found = {
        r: [v for p in figure.panels() if (v := _gain(figure, p, r)) is not None] for r in figure.places()
    }
    words = ", ".join(f"r = {place(r)}: {span(values)}" for r, values in found.items() if values)
    held = all(value > 1 for values in found.values() for value in values)
    return (held, f"no index / index: {words}") if words else None


def _gain(figure: Figure, panel: str, x: float | str) -> float | None:
    plain, indexed = figure.value(panel, "no index", x), figure.value(panel, "index", x)
    return plain / indexed if plain and indexed else None


def certain_still(figure: Figure) -> Verdict:
    """Judge that an index costs no or few certificates: at most a tenth more answers in doubt."""
    found = [ratio for panel in figure.panels() for ratio in ratios(figure, "index", "no index", panel)]
    return (max(found) <= 1.1, f"in doubt, index / no index: {span(found)}") if found else None


def falls(*series: str) -> Callable[[Figure], Verdict]:
    """Judge that the last place costs less than the first."""
    turned = grows(*series)

    def judge(figure: Figure) -> Verdict:
        found = turned(figure)
        if found is None:
            return None
        values = [figure.line(p, name)[1] for p in figure.panels() for name in series]
        return all(each[-1] < each[0] for each in values if len(each) > 1), found[1]

    return judge


def six(figure: Figure, panel: str, x: float | str) -> dict[str, float]:
    return {n: v for n in SIX if (v := figure.value(panel, n, x)) is not None}


def same_first(figure: Figure) -> Verdict:
    """Judge that without an index a strict and a relaxed filter let the same rows through."""
    found = [
        values for x in figure.places("no index") if len(values := six(figure, "no index", x)) == len(SIX)
    ]
    if not found:
        return None
    apart = max(abs(v[a] / v[b] - 1) for v in found for a, b in (("sasf", "sarf"), ("rasf", "rarf")) if v[b])
    return apart < 1e-9, f"apart by {number(100 * apart)} % at most"


def six_differ(figure: Figure) -> Verdict:
    """Judge that the filters differ: a probable one takes in fewer rows, or lets more through."""
    words, apart = [], True
    for panel in figure.panels():
        for x in figure.places(panel):
            values = six(figure, panel, x)
            if not values:
                continue
            apart &= len({round(value, 12) for value in values.values()}) > 1
            low, high = min(values, key=lambda n: values[n]), max(values, key=lambda n: values[n])
            words.append(
                f"{panel}, k = {place(x)}: {low} {number(1e3 * values[low])}, {high} {number(1e3 * values[high])}"
            )
    return (apart, "; ".join(words)) if words else None


def at_least(series: str, d: float, million: float) -> Callable[[Figure], Verdict]:
    """Judge that so many million rows a second are reached on uniform data."""

    def judge(figure: Figure) -> Verdict:
        rate = figure.value("uniform", series, d)
        return None if rate is None else (rate >= 1e6 * million, f"{number(rate / 1e6)} million")

    return judge


def slowed(series: str, most: float) -> Callable[[Figure], Verdict]:
    def judge(figure: Figure) -> Verdict:
        found = []
        for d in figure.places():
            random, ordered = (
                figure.value(panel, series, d) for panel in ("readings, shuffled", "readings, in time")
            )
            if random and ordered:
                found.append(random / ordered)
        return (max(found) <= most, f"shuffled / in time: {span(found)}") if found else None

    return judge


def quicker(quick: str, slow: str, least: float, panel: str = "uniform") -> Callable[[Figure], Verdict]:
    """Judge that one has so many times the rows a second of the other, on uniform data."""

    def judge(figure: Figure) -> Verdict:
        found = ratios(figure, quick, slow, panel)
        return (min(found) >= least, f"{quick} / {slow}: {span(found)}") if found else None

    return judge


def smaller(first: str, second: str) -> Callable[[Figure], Verdict]:
    """Judge that one series lies below the other."""

    def judge(figure: Figure) -> Verdict:
        found = [ratio for panel in figure.panels() for ratio in ratios(figure, first, second, panel)]
        return (max(found) < 1, f"{first} / {second}: {span(found)}") if found else None

    return judge


def least_at(low: float, high: float, *series: str) -> Callable[[Figure], Verdict]:
    """Judge that all take least between two places of the axis."""

    def judge(figure: Figure) -> Verdict:
        found = {}
        for name in series:
            places, values = figure.line(figure.panels()[0], name)
            if values:
                found[name] = float(places[values.index(min(values))])
        words = ", ".join(f"{name} at {place(x)}" for name, x in found.items())
        return (all(low <= x <= high for x in found.values()), f"least: {words}") if found else None

    return judge


def laws(figure: Figure) -> list[list[str]]:
    """Return sizes beside their laws: n' = k(1 + H_n - H_k) for sa, (1 + gamma/2) n' - (gamma/2) k for ra, and for the
    six `expected` in algorithms/buffered/variants.py."""
    rows = [["k", "algorithm", "here", "law", "within 3 %", "with index"]]
    n = int(figure.scale.split("n = ")[1].split(", ")[0].replace(",", ""))
    for x in figure.places("uniform"):
        k = int(x)
        strict = expected_size(k, n)
        known = {"sa": strict, "ra": (1 + GAMMA / 2) * strict - GAMMA / 2 * k}
        known |= {name: REGISTRY[name].card.expected(k, n) for name in SIX}
        for name, law in known.items():
            indexed = figure.value("uniform", name, x)
            here = figure.value("uniform, no index", name, x) if name in SIX else indexed
            if here is not None:
                inside = "yes" if abs(here / law - 1) <= BAND else "**no**"
                beside = f"{indexed:.2f}" if name in SIX and indexed is not None else ""
                rows.append([str(k), name, f"{here:.2f}", f"{law:.2f}", inside, beside])
    return rows


_INDEX = (
    Claim(
        "without index: sa, sasf and rasf are the slowest group at large k",
        grouped(("sa", "sasf", "rasf"), ("ra", "sarf", "rarf")),
    ),
    Claim(
        "… ra, sarf and rarf are slower than pa, sapf and rapf",
        grouped(("ra", "sarf", "rarf"), ("pa", "sapf", "rapf")),
    ),
    Claim("the index pays (on clustered data only at small k, with the paper's regular grid)", index_gain),
)
CLAIMS: dict[str, tuple[Claim, ...]] = {
    "rates": (
        Claim("(wanted here) snn: 12 million rows a second at d = 2", at_least("snn", 2, 12)),
        Claim("(wanted here) snn: 9 million rows a second at d = 4", at_least("snn", 4, 9)),
        Claim("(wanted here) rapf: 3 times as fast as sasf", quicker("rapf", "sasf", 3)),
        Claim("(wanted here) pa: twice as fast as rapf at k = 81", quicker("pa", "rapf", 2, "uniform, k = 81")),
    ),
    "rates-order": (
        Claim("(wanted here) snn in order of time: at most 5 times slower than shuffled", slowed("snn", 5)),
    ),
    "rates-push": (
        Claim("(wanted here, as far as can be) snn: 12 million rows a second at d = 2", at_least("snn", 2, 12)),
        Claim("(wanted here, as far as can be) snn: 9 million rows a second at d = 4", at_least("snn", 4, 9)),
    ),
    "work": (
        Claim("a probable filter takes in fewer rows than a strict one", smaller("rapf: filtered", "sasf: filtered")),
        Claim("(not said there) its region has to be entered more often", smaller("sasf: entered", "rapf: entered")),
    ),
    "errors": (
        Claim("pa misses far fewer rows than its bound says", bounded),
        *(
            Claim(f"(wanted here) {data}: the mean run misses 0.2 to 1 times the calibrated error", used(data))
            for data in ("uniform", "clustered", "readings, shuffled")
        ),
        Claim("(wanted here) no wrong answer is certified", never_sure),
        Claim("rows shown in error are fewer than rows missed", fewer_false),
    ),
    "data-k": (
        Claim("pa is faster than rapf", faster("pa", "rapf")),
        Claim(
            "(wanted here) pa is twice as fast as rapf at k = 81",
            faster("pa", "rapf", "uniform", 2.0, "at the greatest"),
        ),
        Claim("… up to ten times as fast as snn and cpm", faster("pa", "snn", None, 5.0, "somewhere")),
        Claim(
            "rapf2 is 4 to 8 times as fast as snn on random order, at large k",
            faster("rapf2", "snn", "uniform", 4.0, "at the greatest"),
        ),
        Claim("sasf is the slowest: rapf is faster", faster("rapf", "sasf")),
        Claim("in order of time all are slower than on the same rows shuffled", correlated_dearer),
        Claim("… and rapf2 is faster than snn there", faster("rapf2", "snn", "readings, in time")),
    ),
    "index-uniform": _INDEX,
    "index-clustered": _INDEX,
    "index-readings": _INDEX,
    "pa-index": (Claim("(not measured there) an index saves pa time whatever the batch", gains),),
    "pa-doubt": (Claim("(not said there) an index costs pa hardly a certificate", certain_still),),
    "over-d": (Claim("cost grows with d", grows("pa", "ra", "sasf", "rapf")),),
    "over-cells": (
        Claim("on a regular grid all take least at 9 or 10 intervals", least_at(8, 10, "sasf", "rapf", "rarf")),
    ),
    "over-r": (Claim("(not said there) larger batches cost less", falls("pa", "ra", "sasf", "rapf", "snn")),),
    "held-objects": (
        Claim("sa, ra, sasf, sapf and rapf keep about as many rows", lambda f: _about(f, "rapf", "sa", 0.7, 1.6)),
        Claim("with k all come near what cpm and snn keep, all rows", lambda f: _last(f, "rapf", "cpm", 0.7)),
    ),
    "over-u": (Claim("cost grows with the number of queries", grows("pa", "ra", "sasf", "rapf")),),
    "over-b": (Claim("a larger buffer costs less", falls("rapf", "sapf", "sasf")),),
    "over-gamma": (Claim("a larger gamma costs less", falls("ra", "rapf")),),
    "over-n": (
        Claim("pa gets faster with the window", falls("pa")),
        Claim("the others get a little slower", grows("ra", "sasf", "rapf")),
    ),
    "held-references": (
        Claim("ra refers to about a tenth more rows than sa", lambda f: _about(f, "ra", "sa", 1.0, 1.15)),
        Claim("pa refers to a quarter of sa's rows at the greatest k", lambda f: _last(f, "sa", "pa", 2.5)),
    ),
    "admissions": (
        Claim("the six take in different numbers of rows", six_differ),
        Claim("(not said there) without an index strict and relaxed filters let the same rows through", same_first),
    ),
    "filtered": (Claim("the six filters take in different numbers of rows", six_differ),),
}  # fmt: skip
CLAIMS |= {
    "rates-file": (
        Claim("(wanted here) rapf: 3 times as fast as sasf", quicker("rapf", "sasf", 3, IN_TIME)),
    ),
    **{
        f"{name}{OF_FILE}": CLAIMS[name]
        for name in ("rates-order", "work", "errors", "data-k", "index-readings")
    },
}


def _about(figure: Figure, upper: str, lower: str, least: float, most: float) -> Verdict:
    found = ratios(figure, upper, lower)
    return (
        (least <= min(found) and max(found) <= most, f"{upper} / {lower}: {span(found)}") if found else None
    )


def _last(figure: Figure, upper: str, lower: str, least: float) -> Verdict:
    found = ratios(figure, upper, lower)
    return (
        (found[-1] >= least, f"{upper} / {lower} at the greatest k: {number(found[-1])} times")
        if found
        else None
    )


SECTIONS = (
    ("rates", "Rows a second"),
    ("rates-order", ""),
    ("rates-push", ""),
    ("work", "What rapf and sasf do, and how often"),
    ("errors", "Figure 8: errors of pa"),
    ("data-k", "Figure 9: four kinds of data"),
    ("index-uniform", "Figure 10: with and without the index over the queries"),
    ("index-clustered", ""),
    ("index-readings", ""),
    ("pa-index", "An index for pa"),
    ("pa-doubt", ""),
    ("over-u", "Figure 11: one parameter after the other"),
    ("over-d", ""),
    ("over-cells", ""),
    ("over-b", ""),
    ("over-gamma", ""),
    ("over-n", ""),
    ("over-r", "The batch, which the paper doesn't have"),
    ("held-objects", "Figure 12: what is kept"),
    ("held-references", ""),
    ("admissions", "How the six filters differ"),
    ("filtered", ""),
    ("rates-file", "Readings of a file: SensorScope's"),
    ("rates-order-file", ""),
    ("rates-push-file", ""),
    ("work-file", ""),
    ("data-k-file", ""),
    ("errors-file", ""),
    ("index-readings-file", ""),
)

HEAD = """# pripuzic: the third paper's experiments, measured again

Written by `python -m benchmarks pripuzic` from its own figures ([options](../benchmarks.md#options)).

Krešimir Pripužić, Ivana Podnar Žarko and Karl Aberer, *Time- and Space-Efficient Sliding Window Top-k Query
Processing* (TODS 2015), section 8, in Java on a 3.3 GHz i3. Nearest neighbours by Euclidean distance; sizes as in its
Table IX unless a table says otherwise. The text has no numbers for the charts, so shapes are compared. The readings are
generated (23 stations, a daily cycle and a slow wander); those of a file that is named with
`--data` have a section of their own at the end.

A time is the CPU time of the algorithm alone for one row; all answers are brought up to date with each batch. All
algorithms get the same batches, in turns. `rapf2` is `rapf` with a buffer of half the window. The index partitions
the space by the data's quantiles, where the paper has a regular grid. `ra` has no index: it scores every row for
every query, in vector instructions. So does `pa` in batches of fewer than 4,096 rows, and in every table here but its
own: there an index saves scores, which are cheap, but not the work on the lists, which is most of a small batch's,
and its regions move with every row that leaves. In larger batches it looks rows up. Its certificates need the best
score that was dropped, and an index doesn't score the rows that it skips. It registers a bound for that score, so low
that an answer in a thousand loses its certificate at k = 1 and none at larger k (part `pa` of this command). In every
table here that has both, `pa` without an index takes less time than the fastest filter behind one. The exceptions are
`rapf2` (Figure 9), whose buffer is half the window, and batches of ten rows, where both take the same.

**What the filters are for, here.** They keep rows away from the skybands, and so save memory. A gain in time on `ra`
is not seen, unlike in the paper. `rapf` is more than three times as fast as `sasf` at d = 4, and about three times at
d = 2 where generated rows come in random order (2.9 to 3.7 times in seven runs on two machines). Counted (second
section): behind an index both let about as many rows into their skybands. A probable filter takes in fewer rows than
a strict one (rows that better ones of the same batch replace at once are neither written nor counted), but only a few
times fewer, because rows that a strict filter rejects don't reach it either: the index skips cells that are worse than
its k-th row, while the paper's strict filter without an index meets every row. In exchange the region of a probable
filter is larger (it reaches to its worst row, not to its k-th) and moves with every row that the filter loses. So it
is entered in the index four times as large as it is, while a strict filter's is entered twice as large, and again
only when it has become sixteen times as large. Its cells are larger, too: some four to a region, while a strict
filter's has sixteen. So each row is scored for several times as many queries as it concerns, which costs less than
entering regions. Most of `rapf`'s time at d = 2 goes into the filters and the hand-over (rows into filters, out of the
buffer, into skybands and sweeps of these), and no part of that dominates; look-ups and answers cost `sasf` the same.
The finer cells are what makes `sasf` fast. `ra` scores every row for every query in vector instructions, and sweeps a
batch against itself before it inserts anything. Without an index a probable filter is
many times faster than a strict or relaxed one (Figure 10), though the paper's groups are not seen.

**The file** of the last section is SensorScope's LUCE, as in the paper: solar panel current, global current, primary
and secondary buffer voltage, in that order, but of 23 of the 97 stations (669,084 readings, November 2006 to May
2007). It states no licence and doesn't come with skyband. The paper names the archive (`sensorscope-monitor.zip`, a
text for each station); these 23 texts are in a public repository (github.com/antoniaelek/rovkp, its folder
`Homework04.Task01/src/main/resources`) and were put into one Parquet file in order of time. With `sort -n -k 8,8
sensorscope-monitor-[0-9]*.txt > luce.txt` the command is `python -m benchmarks pripuzic --only rates --data
'luce.txt#17:400,18:100,15:5.6,16:5'`: a few readings lie far beyond the others and count as 400 mA, 100 mA, 5.6 V and
5 V. Some readings are equal, and so are some queries, which are drawn from them; these share their lists. On these
readings, too, `snn` in order of time is some four times slower than on the same ones shuffled at d = 4, and one and a
half times at d = 2, the two currents, where searches are rare. The difference is made by searches for lists that ran
short, and by the many rows that longer lists take in and sweep out again: those of queries whose rows come and leave
together. `rates.json` beside the table has the rows that lists take in, and the searches. The ratio of the two orders
has a table of its own, for which both streams run in turns.

**The errors of `pa`** (Figure 8) are those of many runs, each with a seed of its own for its rows and its queries. A
row is missed if after some batch it belongs in an answer and isn't there, and it counts once. Misses count from the
third window on: while the first window fills up, rows have fewer older rows to be dropped behind. The calibrated error
is the exact expectation for a list of the k + limit best of a window of n rows in random order. For 1,000 rows and
k = 81 it is three fifths of that of a very long window, from which the limit follows; against that one the ratios at
k = 81 would be three fifths of those shown. The table is of the scale `full`, fifty runs of twenty windows. Twenty
runs of eight windows, the scale `quick`, are few for k = 81: the standard error of the mean is a seventh to a fifth of
it, and the mean of shuffled readings was once 0.199.

`snn` takes a batch row by row, so that its answers are right after each row, unlike all others. Competitors run in
turns and empty one another's caches; for rows a second a turn is twenty batches, which makes that effect small. At the
scale `quick` most parts have a quarter of Table IX's sizes (n = 10,000, b = 500, 100 queries or fewer); rows a second
and the admissions of the six have its own. The published run was made on an otherwise idle machine. Parts that are
missing on this page (`python -m benchmarks pripuzic --only` names them) were not measured yet.
"""

_ERRORS = Beside(
    runs, "Misses as parts of the calibrated error. What is wanted, 0.2 to 1, is of the mean of the runs. A single run "
    "may lie outside: it has few misses, and at large k these come in bursts, several rows of several queries at "
    "once. Wrong answers are those of all queries after each batch, from the first row on. Certified is what the watch "
    "calls certainly exact, or counts as that."
)  # fmt: skip
BOOK = Book(
    "pripuzic", HEAD, SECTIONS, CLAIMS,
    {
        "errors": _ERRORS,
        f"errors{OF_FILE}": _ERRORS,
        "held-references": Beside(
            laws, "The laws are for rows in random order, one by one, and for filters that have seen the whole buffer, "
            "so the six are measured without their index here. Behind it a strict or relaxed filter meets only rows of "
            "its cells, takes a row for one of the buffer's k best more often, and hands on more rows (last column). "
            "All are means over all queries and twenty moments of two windows, with batches of k rows, at most fifty."
        ),
    },
)  # fmt: skip
