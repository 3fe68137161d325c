"""The plan of a watch: what `explain` prints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SHOWN = 2  # alternatives that are printed


@dataclass(repr=False)
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
    keeps_window: bool = False
    also_kept: dict[str, int] = field(default_factory=dict)
    alternatives: dict[str, str] = field(
        default_factory=dict
    )  # not taken, the best first: its cost, or why not
    notes: list[str] = field(default_factory=list)
    bound: str | None = None  # of an approximate algorithm: how many rows may be missed
    certified: tuple[int, int] | None = None  # how many of how many answers were certainly exact
    certain: bool = True  # whether the last one is
    predicted_full_bytes: float | None = None
    assumed_rows: int | None = (
        None  # of a window of time before the first row: how many a full one is assumed to hold
    )
    replans: int = 0  # how often another algorithm took over in the watch's stream

    def __repr__(self) -> str:
        return str(self)

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def __str__(self) -> str:
        return self.text()

    def text(self, all_of_it: bool = False) -> str:
        """Return the plan in lines; of the algorithms not taken the first few only, unless `all_of_it`."""
        asked = "every row beyond the bound" if self.k is None else f"top {self.k}"
        lines = [
            f"{self.watch}: {asked}, window {self.window}",
            f"  query      {self.sql}",
            f"  algorithm  {self.algorithm} ({self.title}; {self.source})",
            f"  why        {self.why}; {'exact' if self.exact else 'approximate'}",
        ]
        begun = self.rows_seen > 0
        of_window = (
            f" of {self.rows_in_window:,} rows in the window"
            if begun and self.rows_in_window is not None
            else ""
        )
        predicted = ""
        if begun and self.predicted is not None:
            predicted = f", predicted {self.predicted:,.0f} ({self.predicted_bytes:,.0f} bytes)"
        lines.append(
            f"  state      {self.candidates:,} candidates{of_window}{predicted}; {self.bytes:,} bytes"
        )
        if self.predicted_full is not None and self.predicted_full != self.predicted:
            size = f"({self.predicted_full_bytes:,.0f} bytes)"
            full = (
                "is full"
                if self.assumed_rows is None
                else f"holds {self.assumed_rows:,} rows, as assumed until they come"
            )
            lines.append(
                f"  expected   about {self.predicted_full:,.0f} candidates {size} when the window {full}"
            )
        if self.shared_with:
            lines.append(f"  shared     with {', '.join(self.shared_with)}")
        if self.bound is not None:
            lines.append(f"  error      {self.bound}")
        if self.certified is not None:
            sure, answers = self.certified
            share = f"{100 * sure / answers:.3f} % of {answers:,} answers" if answers else "no answers yet"
            lines.append(
                f"  certified  {share}; this one is {'certainly exact' if self.certain else 'in doubt'}"
            )
        did = ", ".join(f"{count:,} {name}" for name, count in self.counters.items())
        admitted = self.counters.get("admitted", 0)
        if begun:
            lines.append(f"  did        {did}")
        if begun and not self.keeps_window:
            never = 100 * (1 - admitted / self.rows_seen)
            lines.append(f"  pruned     {never:.1f} % of {self.rows_seen:,} rows were never stored")
        if self.replans:
            times = "once" if self.replans == 1 else f"{self.replans:,} times"
            lines.append(f"  replanned  {times}: another algorithm took over in this stream")
        shown = len(self.alternatives) if all_of_it else SHOWN
        lines += [f"  or         {name}: {words}" for name, words in [*self.alternatives.items()][:shown]]
        if len(self.alternatives) > shown:
            lines.append(f"  or         {len(self.alternatives) - shown} more: `skyband explain --all`")
        kept = self.also_kept.items() if begun else ()
        lines += [f"  also kept  {name}: {size:,} bytes" for name, size in kept]
        lines.extend(f"  note       {note}" for note in self.notes)
        return "\n".join(lines)
