"""A leaderboard that the eye can follow.

Ranks change in jumps; a person sees a jump only if it leaves a trace. The board remembers for a few seconds
what happened to a line: that it is new, or by how many places it rose or fell. The trace fades.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

TRACE = 3.0  # seconds that a move can be seen


@dataclass
class Line:
    """One line of the board: since when it is there, and where its latest move began."""

    rank: int
    entered: float
    moved: float
    before: int


@dataclass(frozen=True)
class Mark:
    """What to show of a line's past: "new", "up", "down" or "", over how many places, how fresh (1 to 0)."""

    kind: str
    places: int
    fresh: float


class Board:
    """Follows the ranks of lines through time. Times are seconds of any clock."""

    def __init__(self, trace: float = TRACE) -> None:
        self.trace = trace
        self._lines: dict[Hashable, Line] = {}
        self._started: float | None = None

    def update(self, keys: Sequence[Hashable], now: float) -> list[Mark]:
        """Return the lines from the first to the last rank, now; what to show of each."""
        if self._started is None and keys:
            self._started = now
        lines: dict[Hashable, Line] = {}
        for rank, key in enumerate(keys, 1):
            line = self._lines.get(key)
            if line is None:
                # The first board is simply there; calling all of it new would say nothing.
                entered = now if now != self._started else now - self.trace
                line = Line(rank, entered, now - self.trace, rank)
            elif line.rank != rank:
                if now - line.moved >= self.trace:
                    line.before = line.rank  # a new move, not the rest of the last one
                line.rank, line.moved = rank, now
            lines[key] = line
        self._lines = lines
        return [self._mark(line, now) for line in lines.values()]

    def _mark(self, line: Line, now: float) -> Mark:
        if now - line.entered < self.trace:
            return Mark("new", 0, 1 - (now - line.entered) / self.trace)
        places = line.before - line.rank
        if now - line.moved < self.trace and places:
            return Mark("up" if places > 0 else "down", abs(places), 1 - (now - line.moved) / self.trace)
        return Mark("", 0, 0.0)
