"""One contract for every algorithm.

An algorithm object serves all queries of one *family*: one stream, one shape of score, one predicate. Each
query (a set of constants) has a *slot*. The monitor calls, at each step and in this order, `expire` (the
oldest horizon that any watch of a slot still needs), `insert` (the step's rows), and then asks for the present
answers, which `engine/answers.py` compares with those before the step.

    add -> slot, resize(slot, k), remove(slot)         queries come, change and go
    step                                               time goes on and rows come: expire, then insert
    present(…) -> answers                              those that may have changed
    top(slot, k, horizon) -> good, time, seq           any k up to the slot's, any horizon not before its own
    size(slot) -> candidates, bytes
    counters(slot) -> what it did, by name
    dump() / load(blob)                                plain arrays and numbers
    _check()                                           every invariant, an assertion each

There are two sorts. `ListAlgorithm` (base.py) keeps one list of candidates a slot, in order of recency: any window is a
suffix of it, so watches that differ in k, window and beginning share a slot. `WindowAlgorithm` (window_base.py) keeps
the window's rows behind an index and one short ranked list a slot, for one window each.

A class says what it is in its `card`; the planner reads cards, `explain` prints them, and one test suite
runs over all registered classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from skyband.core.exchange import Present
from skyband.core.types import Floats, Ints, Recency
from skyband.query.window import Window

# A generated kernel takes about half a second to compile and then scores ten times as fast as numpy: it
# pays from this many queries of one shape, or after this many scores; much sooner if it was compiled before.
FUSE_MEMBERS = 32
FUSE_SCORES = 50_000_000
FUSE_SCORES_CACHED = 1_000_000


@dataclass(frozen=True)
class Card:
    """What an algorithm can answer, what it keeps and what it costs."""

    name: str
    title: str
    source: str  # paper and section
    answers: frozenset[str]  # "topk", "threshold", …
    exact: bool
    keeps: str
    cost: str
    wrong_when: str
    expected: Callable[[int, float], float]  # candidates for k and n rows in the window, random order
    options: Mapping[str, float]  # name and default
    # which it can answer: "any", "monotone" on each axis; of objects "bounded": monotone, and with no condition that
    # chooses among them
    scores: str = "any"
    window: bool = False  # keeps the window's rows
    fifo: bool = True  # rows must leave in order of recency: not for update streams
    boxes: bool = False  # takes limits on columns (WHERE x > 3) as a box of each query's own
    texts: bool = False  # and texts that columns equal (WHERE g = 'a'), which numbers stand for
    cost_of: Callable[[Workload], float] | None = None  # predicted CPU seconds for a batch


@dataclass(frozen=True)
class Workload:
    """What the planner knows of a family: the cards' predicted costs are about this."""

    queries: int  # of this shape
    k: int  # the greatest
    window: float  # rows
    batch: float  # rows a step
    axes: int
    rendered: bool = True  # whether the score compiles
    scores: int = 0  # different ones among the queries; 0: each has its own
    boxed: bool = False  # the queries have different boxes, and are one family all the same

    @property
    def lists(self) -> int:
        """Candidate lists: queries of one score share one."""
        return self.scores or self.queries


class Algorithm(ABC):
    """What the monitor asks of every algorithm; `ks` says how many ranks each slot keeps (0: the slot is free)."""

    card: ClassVar[Card]
    listed: ClassVar[bool] = False  # after a step every row of an answer is among its candidates
    ks: Ints
    candidate_bytes: int  # what one candidate takes

    def expected(self, k: int, n: float) -> float:
        """Candidates for k and n rows in the window, in random order, with the options it has."""
        return self.card.expected(k, n)

    @classmethod
    def unfit(cls, options: Mapping[str, float], window: Window) -> str | None:
        """Why these options don't fit a window, or None if they do."""
        return None

    @abstractmethod
    def remove(self, slot: int) -> None: ...
    @abstractmethod
    def resize(self, slot: int, k: int) -> None: ...
    @abstractmethod
    def present(
        self,
        answers: Any,
        slots: Ints,
        stale: Ints,
        ks: Ints,
        horizon_time: Ints,
        horizon_seq: Ints,
    ) -> Present:
        """Return the answers that the step may have changed, and the stale ones.

        All arrays are by watch. `answers` is where lists of candidates keep their watches' answers.
        """

    @abstractmethod
    def top(self, slot: int, k: int, horizon: Recency) -> tuple[Floats, Ints, Ints]: ...
    @abstractmethod
    def size(self, slot: int) -> tuple[int, int]: ...
    @abstractmethod
    def counters(self, slot: int) -> dict[str, int]: ...
    @abstractmethod
    def seqs(self) -> Ints:
        """The rows whose values must be at hand."""

    @abstractmethod
    def dump(self) -> dict[str, Any]: ...
    @abstractmethod
    def load(self, blob: Mapping[str, Any]) -> None: ...
    @abstractmethod
    def _check(self) -> None: ...
