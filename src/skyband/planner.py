"""Which algorithm answers which query, and the plan that `explain` prints.

Today's rule is short: a top-k goes to `ra`, a threshold query to `threshold`; `WITH (algorithm = '…')` overrides
it for any algorithm whose card says that it can answer the query. Pairs, joined and grouped queries parse and
are refused here until their algorithms exist.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import Any

from skyband.algorithms import REGISTRY
from skyband.errors import QueryError
from skyband.query.model import Grouped, Joined, Pairs, Query, Threshold, TopK

_FUTURE = {Pairs: "Top-k pairs", Joined: "Joined streams (FULL JOIN … USING)", Grouped: "GROUP BY queries"}


_DEFAULT = {
    "topk": ("ra", "for any score, in about k(1 + ln(n/k)) rows"),
    "threshold": ("threshold", "every row beyond the bound is an answer"),
}


def choose(query: Query) -> tuple[str, dict[str, float], str]:
    """The algorithm for a query, its options, and why."""
    for kind, words in _FUTURE.items():
        if isinstance(query, kind):
            raise QueryError(
                f"{words} are understood but not answered yet: this version answers top-k "
                "(ORDER BY … LIMIT k) and threshold queries (WHERE expr > c) over one stream."
            )
    options: dict[str, Any] = dict(query.options)
    wanted = "threshold" if isinstance(query, Threshold) else "topk"
    name = options.pop("algorithm", None)
    if options.pop("error", None) is not None:
        raise QueryError(
            "error = … asks for an approximate algorithm, and there is none yet: leave it out for exact answers."
        )
    if options.pop("repeat", None) is not None:
        raise QueryError("repeat = … is for joined streams; leave it out here.")
    if name is None:
        chosen, why = _DEFAULT[wanted]
    else:
        chosen, why = _named(str(name), wanted), "asked for with WITH (algorithm = …)"
    card = REGISTRY[chosen].card
    for option in options:
        if option not in card.options:
            known = ", ".join(card.options) or "none"
            raise QueryError(f"The algorithm {chosen} has no option {option}; it has {known}.")
    return chosen, {name: float(value) for name, value in options.items()}, why


def _named(name: str, wanted: str) -> str:
    if name not in REGISTRY:
        near = difflib.get_close_matches(name, REGISTRY, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(REGISTRY))}."
        raise QueryError(f"There is no algorithm '{name}'; {hint}")
    card = REGISTRY[name].card
    if wanted not in card.answers:
        words = {"topk": "top-k", "threshold": "threshold"}
        fit = ", ".join(sorted(n for n, kind in REGISTRY.items() if wanted in kind.card.answers))
        answered = " and ".join(words[answer] for answer in sorted(card.answers))
        raise QueryError(
            f"The algorithm {name} ({card.title}) answers {answered} queries, and this is a {words[wanted]} query: "
            f"take {fit}, or leave the algorithm out."
        )
    return name


@dataclass
class Plan:
    """How a watch is answered: the algorithm and why, state predicted and actual, what was pruned."""

    watch: str
    sql: str
    algorithm: str
    title: str
    source: str
    why: str
    exact: bool
    k: int | None
    window: str
    rows_in_window: int | None
    predicted: float | None
    predicted_bytes: float | None
    predicted_full: float | None
    candidates: int
    bytes: int
    shared_with: list[str]
    counters: dict[str, int]
    rows_seen: int
    also_kept: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def __str__(self) -> str:
        asked = "every row beyond the bound" if self.k is None else f"top {self.k}"
        lines = [
            f"{self.watch}: {asked}, window {self.window}",
            f"  query      {self.sql}",
            f"  algorithm  {self.algorithm} ({self.title}; {self.source})",
            f"  why        {self.why}; {'exact' if self.exact else 'approximate'}",
        ]
        of_window = "" if self.rows_in_window is None else f" of {self.rows_in_window:,} rows in the window"
        predicted = ""
        if self.predicted is not None:
            predicted = f", predicted {self.predicted:,.0f} ({self.predicted_bytes:,.0f} bytes)"
        lines.append(
            f"  state      {self.candidates:,} candidates{of_window}{predicted}; {self.bytes:,} bytes"
        )
        if self.predicted_full is not None and self.predicted_full != self.predicted:
            lines.append(f"  expected   about {self.predicted_full:,.0f} candidates when the window is full")
        if self.shared_with:
            lines.append(f"  shared     with {', '.join(self.shared_with)}")
        did = ", ".join(f"{count:,} {name}" for name, count in self.counters.items())
        admitted = self.counters.get("admitted", 0)
        lines.append(f"  did        {did}")
        if self.rows_seen:
            never = 100 * (1 - admitted / self.rows_seen)
            lines.append(f"  pruned     {never:.1f} % of {self.rows_seen:,} rows were never stored")
        for name, size in self.also_kept.items():
            lines.append(f"  also kept  {name}: {size:,} bytes")
        lines.extend(f"  note       {note}" for note in self.notes)
        return "\n".join(lines)


def predicted(
    query: TopK | Threshold, algorithm: str, k: int | None, rows_in_window: int | None
) -> float | None:
    """The state that the card expects, in candidates."""
    if k is None or rows_in_window is None:
        return None
    return REGISTRY[algorithm].card.expected(k, rows_in_window)
