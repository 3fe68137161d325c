"""Which algorithm answers which query.

Every algorithm's card says what it can answer and what a batch is expected to cost it, given how many queries share
the shape of their score, how many rows the window holds and how many come at a time. Of those that fit, the cheapest
is taken, with one reservation: memory has a price too. An algorithm that keeps the window's rows (or, in a buffer, the
newest of them) must promise to be half as fast again as the best that doesn't, four times as fast where the rows are
many megabytes, and its rows must fit in `MOST_BYTES`. A few queries don't pay for a window either unless it makes them
four times as fast: about twice is what there is to gain, and what is given up is a state of k ln n rows however long
the window is, in memory, in every save, snapshot and checkpoint, and some seconds less of compiling the first time.
`explain` says so. What can't be known at first is asked again when the first rows come: how many queries there are in
all, the types of the columns, how many rows a batch has. What only the running stream shows, such as how many rows a
time window holds, is assumed at first, and the plan is looked at again (replanning.py).

`WITH (algorithm = '…')` takes the named one, or says why it doesn't fit. `WITH (error = …)` takes `pa`, with an exact
one that takes over where the error can't be kept (approximate_group.py); where `pa` doesn't fit, the answer is exact
all the same.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field, replace
from typing import Any

from skyband.algorithms import CARDS, OBJECTS, PAIRS, REGISTRY, Card, Workload
from skyband.algorithms.objects.estimated_instances import MOST_STREAMS
from skyband.algorithms.pairs.kd import KD
from skyband.core.errors import QueryError
from skyband.query.assumptions import cannot_bound, cannot_walk, is_whole, unknown_range
from skyband.query.expression import columns_of, lift, render
from skyband.query.expression.score_space import Space, split_box
from skyband.query.model import Grouped, Joined, Pairs, Query, Rows, Threshold, TopK

_PLAIN = {"topk": "ra", "threshold": "threshold"}  # answer everything, without the window's rows
_WORDS = {
    "topk": "top-k",
    "threshold": "threshold",
    "grouped": "grouped",
    "joined": "joined",
    "pairs": "pairs",
}
STAND_IN = "scan"  # until compiled code is there (stand_in.py)
APPROXIMATE = "pa"  # where an error is allowed
ASSUMED_BATCH = 1_000.0  # rows a step, until the first rows come
ASSUMED_WINDOW = 100_000.0  # rows of a time window, until rows have shown how many they are
HALVED = 2.0  # so many times cheaper must another algorithm promise to be to replace one that runs
STEP = 120e-6  # seconds that a step costs whatever the algorithm: accepting rows, horizons, the change table
STEP_KEPT = 50e-6  # and where the algorithm itself keeps the rows
FAMILY = 150e-6  # and for each further family: queries whose predicates differ can't always be one
_LISTS_PAY = 50_000  # rows of a window from which sorted lists for pairs are quicker than scoring them all
_TREE_PAYS = 5_000  # and a tree
MOST_BYTES = 1 << 30
FEW_BYTES = 1 << 26
SEVERAL = 8  # queries that share a window's rows: they are worth their memory sooner
REPEATS = ("sum", "max", "last")  # of several rows of one object in one stream
PROMISES = ("range", "appears")  # about rows yet to come; an algorithm that can't use them ignores them


@dataclass(frozen=True)
class Facts:
    """What is known of a query's stream and of its fellow queries."""

    queries: int = 1  # whose score has this shape, this one included
    predicates: int = 1  # that are different among them
    scores: int = 0  # that are different among them; 0: each has its own
    k: int = 1  # the greatest of theirs
    window: float | None = None  # rows; None: of a duration that no row has shown so far
    batch: float | None = None  # rows a step; None: not known yet
    updates: bool = False  # rows are replaced and deleted
    lists_only: bool = False  # rows are pruned before they get here


@dataclass(frozen=True)
class Choice:
    algorithm: str
    options: dict[str, float]
    why: str
    alternatives: dict[str, str] = field(default_factory=dict)


def choose(query: Query, facts: Facts | None = None) -> Choice:
    """Return the algorithm for a query, its options, why, and what else could have been taken."""
    facts = facts or Facts()
    if isinstance(query, Grouped | Joined):
        return _for_objects(query, facts)
    if isinstance(query, Pairs):
        return _for_pairs(query, facts)
    assert isinstance(query, TopK | Threshold)
    options: dict[str, Any] = dict(query.options)
    name = options.pop("algorithm", None)
    error = _error(options)
    if options.pop("repeat", None) is not None:
        raise QueryError("repeat = … is for joined streams; leave it out here.")
    alternatives: dict[str, str] = {}
    if name is None and error is not None and unfit(APPROXIMATE, query, facts) is None:
        chosen, why = APPROXIMATE, _reason(APPROXIMATE)
        options["auto"] = 1
    elif name is None:
        chosen, why, alternatives = _cheapest(query, facts)
    else:
        chosen, why = _named(str(name), query, facts), "asked for with WITH (algorithm = …)"
    card = REGISTRY[chosen].card
    if error is not None:
        if card.exact:
            why += "; exact although an error is allowed"
        else:
            options["error"] = error
    for option in options:
        if option not in card.options and option != "auto":
            known = ", ".join(card.options) or "none"
            raise QueryError(f"The algorithm {chosen} has no option {option}; it has {known}.")
    reason = REGISTRY[chosen].unfit({**card.options, **options}, query.window)
    if reason is not None:
        raise QueryError(f"The algorithm {chosen} doesn't fit this window: {reason}.")
    return Choice(chosen, {name: float(value) for name, value in options.items()}, why, alternatives)


def _error(options: dict[str, Any]) -> float | None:
    """Return the error that is allowed, taken out of the options."""
    error = options.pop("error", None)
    if error is None:
        return None
    if not 0 < error < 1:
        raise QueryError(
            f"error = {error:g} can't be: it is how many rows may be missed per window's worth of rows, more than 0 "
            "and less than 1, such as error = 0.001; leave it out for exact answers."
        )
    return float(error)


def _for_pairs(query: Pairs, facts: Facts) -> Choice:
    """Pairs of rows: every row of the window is scored with a new one, unless the window is large and the score made
    of differences, so that a tree or sorted lists find the rows that can matter."""
    options: dict[str, Any] = dict(query.options)
    name = options.pop("algorithm", None)
    if name is not None:
        chosen = _named_pairs(str(name), query)
        return Choice(chosen, _pair_options(chosen, options), "asked for with WITH (algorithm = …)")
    if options:
        first = next(iter(options))
        raise QueryError(f"A pairs query has no option {first}; leave it out.")
    unfit_ta = PAIRS["ta"].unfit_score(query.score)
    if unfit_ta is not None:
        return Choice("scase", {}, _reason("scase"), {"ta": unfit_ta, "kd": unfit_ta})
    if query.same:
        return Choice(
            "scase",
            {},
            _reason("scase"),
            {"kd": "its tree is of all rows, and here colours are kept apart"},
        )
    rows = query.window.n if isinstance(query.window, Rows) else facts.window or 0
    all_of = {"scase": "it would score each row with the whole window"}
    if KD.decided_by_one(query.score, query.descending):
        alone = {
            "kd": "one difference alone can make a pair as good as can be, and leaves nearly all of its tree"
        }
        if rows < _LISTS_PAY:
            few = f"it pays from about {_LISTS_PAY:,} rows in the window"
            return Choice("scase", {}, _reason("scase"), {"ta": few, **alone})
        return Choice("ta", {}, _reason("ta"), all_of | alone)
    if rows < _TREE_PAYS:
        few = f"it pays from about {_TREE_PAYS:,} rows in the window"
        return Choice("scase", {}, _reason("scase"), {"kd": few})
    return Choice(
        "kd", {}, _reason("kd"), all_of | {"ta": "a tree sees all columns at once, its lists one each"}
    )


def _pair_options(chosen: str, options: dict[str, Any]) -> dict[str, float]:
    for option, value in options.items():
        if option not in CARDS[chosen].options:
            has = ", ".join(CARDS[chosen].options) or "none"
            raise QueryError(f"The algorithm {chosen} has no option {option} for pairs; it has {has}.")
        if not 0 <= value <= 1_000_000 or value != int(value):
            raise QueryError(f"{option} = {value} can't be: it is a number of rows, from 0 to 1,000,000.")
    return {option: float(value) for option, value in options.items()}


def _named_pairs(name: str, query: Pairs) -> str:
    if name not in CARDS:
        _named(name, query, Facts())
    reasons = {other: PAIRS[other].unfit_score(query.score) for other in PAIRS}
    fit = [other for other, reason in reasons.items() if reason is None]
    if name not in PAIRS:
        raise QueryError(_other_kind(name, "pairs", fit))
    if reasons[name] is not None:
        raise QueryError(
            f"The algorithm {name} ({CARDS[name].title}) can't answer this query: {reasons[name]}. Take scase, or "
            "leave the algorithm out."
        )
    return name


def _for_objects(query: Grouped | Joined, facts: Facts) -> Choice:
    """Choose for objects that several rows make. Exact totals of everything answer any question; with promises about
    how far an object may rise, rows that can't matter any more are dropped."""
    options: dict[str, Any] = dict(query.options)
    kind = "joined" if isinstance(query, Joined) else "grouped"
    if (repeat := options.pop("repeat", "sum")) not in REPEATS:
        raise QueryError(f"repeat = '{repeat}' is not known; it is 'sum', 'max' or 'last'.")
    stranger = unknown_range(query)
    if stranger is not None:
        raise QueryError(
            f'The range of "{stranger}" is of no column that this query totals; leave the name out for all.'
        )
    name = options.pop("algorithm", None)
    promised = is_whole(query)
    reasons = {other: unfit_objects(other, query, facts) for other in OBJECTS}
    alternatives = {other: reason for other, reason in reasons.items() if reason is not None}
    if name is not None:
        chosen, why = str(name), "asked for with WITH (algorithm = …)"
        if chosen not in CARDS:
            _named(chosen, query, facts)
        fit = [other for other, reason in reasons.items() if reason is None]
        if chosen not in OBJECTS:
            raise QueryError(_other_kind(chosen, kind, fit))
        if reasons[chosen] is not None:
            raise QueryError(
                f"The algorithm {chosen} ({CARDS[chosen].title}) can't answer this query: {reasons[chosen]}. "
                f"Take {', '.join(fit)}, or leave the algorithm out."
            )
    elif promised and reasons["eaa"] is None:
        chosen, why = (
            "eaa",
            "ranges and appearances are promised, so rows that can't matter any more are let go",
        )
    else:
        chosen, why = "sums", _reason("sums")
        if promised:
            why += f"; no row can be let go, since {reasons['eaa']}"
    for option in options:
        if option not in (*PROMISES, *CARDS[chosen].options):
            whose = f"A {kind} query" if name is None else f"The algorithm {chosen}"
            raise QueryError(f"{whose} has no option {option}; leave it out.")
    return Choice(chosen, {}, why, {key: text for key, text in alternatives.items() if key != chosen})


def unfit_objects(name: str, query: Grouped | Joined, facts: Facts) -> str | None:
    """Why an algorithm can't answer a query about objects, or None if it can."""
    card = OBJECTS[name].card
    if facts.updates and card.fifo:
        return "in an update stream (key=) any row may be replaced or deleted, and it lets rows go for others' sake"
    if not card.exact and isinstance(query, Joined) and len(query.streams) > MOST_STREAMS:
        return f"it takes up to {MOST_STREAMS} streams: every set of them has its own share"
    if card.scores == "bounded":
        return cannot_bound(query)
    return cannot_walk(query, lists=True) if card.scores == "monotone" else None


def _other_kind(name: str, wanted: str, fit: list[str]) -> str:
    """Return the sentence for an algorithm that answers other queries; `fit` are those that answer this very one."""
    card = CARDS[name]
    answered = " and ".join(_WORDS[answer] for answer in sorted(card.answers))
    return (
        f"The algorithm {name} ({card.title}) answers {answered} queries, and this is a {_WORDS[wanted]} query: "
        f"take {', '.join(sorted(fit))}, or leave the algorithm out."
    )


def kind_of(query: TopK | Threshold) -> str:
    return "threshold" if isinstance(query, Threshold) else "topk"


def _named(name: str, query: Query, facts: Facts) -> str:
    if name not in CARDS:
        near = difflib.get_close_matches(name, CARDS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(CARDS))}."
        raise QueryError(f"There is no algorithm '{name}'; {hint}")
    assert isinstance(query, TopK | Threshold)
    wanted = kind_of(query)
    reason = unfit(name, query, facts)
    if reason is None:
        return name
    fit = sorted(other for other in REGISTRY if unfit(other, query, facts) is None)
    if wanted not in CARDS[name].answers:
        raise QueryError(_other_kind(name, wanted, fit))
    raise QueryError(
        f"The algorithm {name} ({CARDS[name].title}) can't answer this query: {reason}. "
        f"Take {', '.join(fit)}, or leave the algorithm out."
    )


def unfit(name: str, query: TopK | Threshold, facts: Facts) -> str | None:
    """Why an algorithm can't answer a query, or None if it can."""
    card = CARDS[name]
    if kind_of(query) not in card.answers:
        return f"it doesn't answer {_WORDS[kind_of(query)]} queries"
    if facts.updates and card.fifo:
        return (
            "it needs rows that leave in the order in which they came (first in, first out), and in an update stream "
            "(key=) any row may be replaced or deleted"
        )
    if card.scores == "monotone" and not _monotone(query):
        return "it needs a score that only rises or only falls with each column"
    if isinstance(query, Threshold) and card.window and query.bound in (float("inf"), float("-inf")):
        return "it needs a bound that is a finite number"
    return None


def _monotone(query: TopK | Threshold) -> bool:
    """Whether the score is monotone on each axis, over all numbers or at least over those from zero up."""
    shape, constants = lift(query.score)
    columns = columns_of(shape)
    space = Space(shape, columns, 1.0)
    positive = dict.fromkeys(columns, (0.0, float("inf")))
    return any(None not in space.directions(constants, box) for box in (None, positive))


def _cheapest(query: TopK | Threshold, facts: Facts) -> tuple[str, str, dict[str, str]]:
    plain = _PLAIN[kind_of(query)]
    if facts.updates:
        chosen = "threshold" if kind_of(query) == "threshold" else "tma"
        return chosen, "rows may be replaced and deleted, so no row makes another superfluous", {}
    costs: dict[str, float] = {}
    alternatives: dict[str, str] = {}  # those that fit, the best first, then the others
    unfitting: dict[str, str] = {}
    work = workload(query, facts)
    for name, kind in REGISTRY.items():
        if kind_of(query) not in kind.card.answers or kind.card.cost_of is None or not kind.card.exact:
            continue
        reason = unfit(name, query, facts) or _too_large(name, facts, work)
        if reason is not None:
            unfitting[name] = reason
        else:
            costs[name] = _cost(kind.card, query, facts, work)
    if plain not in costs:  # its card says nothing of cost: nothing to compare
        return plain, _reason(plain), unfitting
    lists = [name for name in costs if not _keeps_rows(name)]
    best = min(lists, key=lambda name: costs[name])
    for name in sorted(costs, key=lambda name: costs[name]):
        if _keeps_rows(name) and costs[name] * _gain(work) <= costs[best]:
            best = name
            break
    rate = work.batch / costs[best]
    for name, cost in sorted(costs.items(), key=lambda item: item[1]):
        if name != best:
            alternatives[name] = f"{_rate(work.batch / cost)} rows/s predicted"
            if cost < costs[best]:
                pays = f"which pays where it is {_gain(work):g} times as fast"
                size = _bytes(work)
                kept = (
                    (f"{size / 1e6:,.1f} MB of rows" if size >= 1e5 else f"{size:,.0f} bytes of rows")
                    if REGISTRY[name].card.window
                    else "rows in a buffer"
                )
                alternatives[name] += f", but it would keep {kept}, {pays}"
    many = f" for {work.queries:,} queries of this shape" if work.queries > 1 else ""
    return best, f"{_reason(best)}; {_rate(rate)} rows/s predicted{many}", alternatives | unfitting


def halves(query: TopK | Threshold, facts: Facts, running: str, other: str) -> bool:
    """Whether another algorithm should replace the running one: it halves the cost, or the running one's rows have
    become too many."""
    work = workload(query, facts)
    if (unfit(running, query, facts) or _too_large(running, facts, work)) is not None:
        return True
    costs = [_cost(REGISTRY[name].card, query, facts, work) for name in (running, other)]
    return costs[0] >= HALVED * costs[1]


def _cost(card: Card, query: TopK | Threshold, facts: Facts, work: Workload) -> float:
    """Seconds for a batch: of one family, or of one for each predicate that is no box which the algorithm takes."""
    assert card.cost_of is not None
    apart, boxed = facts.predicates, False
    known = (lambda column, text: 0.0) if card.texts else None
    if card.boxes and split_box(query.where, lambda column, exact: True, known)[1] is None:
        apart, boxed = 1, apart > 1
    queries = max(1, round(work.queries / apart))
    each = replace(work, queries=queries, scores=min(work.scores, queries), boxed=boxed)
    return (STEP_KEPT if card.window else STEP) + apart * card.cost_of(each) + (apart - 1) * FAMILY


def _keeps_rows(name: str) -> bool:
    """Whether an algorithm keeps the window's rows, or at least the newest of them (in a buffer)."""
    card = REGISTRY[name].card
    return card.window or "buffer" in card.options


def _bytes(work: Workload) -> float:
    return work.window * (work.axes + 2) * 8


def _gain(work: Workload) -> float:
    """Return how many times faster an algorithm must be to be given the window's rows."""
    return 4.0 if _bytes(work) > FEW_BYTES or work.queries < SEVERAL else 1.5


def _too_large(name: str, facts: Facts, work: Workload) -> str | None:
    """Why an algorithm that keeps rows isn't given them."""
    if not _keeps_rows(name):
        return None
    if facts.lists_only:
        return "it needs all rows of the window, and here they are pruned on their way"
    if not REGISTRY[name].card.window:
        return None
    need = _bytes(work)
    return f"it would keep {need / 1e9:,.1f} GB of rows" if need > MOST_BYTES else None


def workload(query: TopK | Threshold, facts: Facts) -> Workload:
    shape = lift(query.score)[0]
    columns = columns_of(shape)
    batch = facts.batch or ASSUMED_BATCH
    return Workload(
        queries=facts.queries,
        scores=facts.scores,
        k=facts.k,
        window=float(facts.window if facts.window is not None else ASSUMED_WINDOW),
        batch=max(1.0, batch),
        axes=len(columns),
        rendered=render(shape, columns) is not None,
    )


def _reason(name: str) -> str:
    return {
        "scase": "for any score of two rows: each row is scored with the window, and nearly all pairs are forgotten",
        "ta": "the score is made of differences, and in a window this long sorted lists tell which rows can matter",
        "kd": "the score is made of differences, and a tree of the window's rows tells which of them can matter",
        "ra": "for any score, in about k(1 + ln(n/k)) rows",
        "lazy": "for any score, in about k(1 + ln(n/k)) rows, all watches of it answered by one walk",
        "threshold": "every row beyond the bound is an answer",
        APPROXIMATE: "an error is allowed, and a list of fixed length does as long as rows come in random order",
    }.get(name, CARDS[name].title)


def _rate(rows: float) -> str:
    return f"{rows / 1e6:,.1f} M" if rows >= 1e6 else f"{rows / 1e3:,.0f} K"
