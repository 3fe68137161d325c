"""One contract for every algorithm, and what those that keep candidate lists share.

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

There are two sorts. `ListAlgorithm` (here) keeps one list of candidates a slot, in order of recency: any window is a
suffix of it, so watches that differ in k, window and beginning share a slot. `WindowAlgorithm` (window_base.py) keeps
the window's rows behind an index and one short ranked list a slot, for one window each.

A class says what it is in its `card`; the planner reads cards, `explain` prints them, and one test suite
runs over all registered classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from skyband.algorithms.arrivals import Arrivals
from skyband.algorithms.kernels.batch_skyband import select
from skyband.algorithms.kernels.candidate_lists import Lists, expire_all, remove
from skyband.algorithms.kernels.list_answers import ListAnswers
from skyband.algorithms.kernels.score_select import fused
from skyband.algorithms.parallel_insert import Share, bars_of, run_all
from skyband.compiling import background
from skyband.core.exchange import Present
from skyband.core.order import first_inside, inside_of
from skyband.core.types import LOWEST, Floats, Ints, Recency
from skyband.query.window import Window

# A generated kernel takes about half a second to compile and then scores ten times as fast as numpy: it
# pays from this many queries of one shape, or after this many scores; much sooner if it was compiled before.
FUSE_MEMBERS = 32
FUSE_SCORES = 50_000_000
FUSE_SCORES_CACHED = 1_000_000
SHARED_SCORES = 4_000_000  # a step of so many takes long enough to be divided among threads


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
        answers: ListAnswers,
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


class ListAlgorithm(Algorithm):
    """What algorithms with one candidate list a slot share; each brings its own `absorb` kernel.

    `absorb(slot, count, picks, values, time, seq, place, mark, k, heap, *state)` takes the picked rows into the
    slot's list and returns 0, or 1 if the list needs more room first.
    """

    counter_names: ClassVar[tuple[str, ...]]
    counted: ClassVar[bool] = False
    spaced: ClassVar[bool] = (
        False  # it scores rows itself: is made with its space, as those that keep the window are
    )
    threads: int = (
        1  # that much work is divided among, query by query; more where somebody has cores to spare
    )
    edge: Recency = (
        LOWEST  # where the newest of the windows that `recent_of` names begins, told before each step
    )

    def recent_of(self, windows: Sequence[Window]) -> tuple[Window, ...]:
        """Windows, beside those of its watches, whose beginnings it must know: of the rows that it keeps itself."""
        return ()

    def __init__(self, options: Mapping[str, float]) -> None:
        self.options = {**self.card.options, **options}
        self.lists = Lists(self.counted)
        self.ks = np.empty(0, dtype=np.int64)  # 0: the slot is free
        self.horizon_time = np.empty(0, dtype=np.int64)
        self.horizon_seq = np.empty(0, dtype=np.int64)
        self.fresh = np.empty(0, dtype=np.float64)  # best score taken in the current step
        self.counts = np.zeros((0, len(self.counter_names)), dtype=np.int64)
        self.limit = np.empty(0, dtype=np.int64)
        self.scored = 0
        self._picks = np.empty(0, dtype=np.int64)
        self._values = np.empty(0, dtype=np.float64)
        self._heap = np.empty(0, dtype=np.float64)
        self.candidate_bytes = 32 if self.counted else 24

    # -- slots ---------------------------------------------------------------------------------------------

    def add(self, k: int) -> int:
        free = np.flatnonzero(self.ks == 0)
        if len(free):
            slot = int(free[0])
            self.lists.clear(slot)
            self.counts[slot] = 0
        else:
            slot = self.lists.add()
            for name in ("ks", "horizon_time", "horizon_seq", "limit"):
                setattr(self, name, np.append(getattr(self, name), 0))
            self.fresh = np.append(self.fresh, -np.inf)
            self.counts = np.vstack([self.counts, np.zeros((1, len(self.counter_names)), dtype=np.int64)])
        self.ks[slot] = k
        self.horizon_time[slot], self.horizon_seq[slot] = LOWEST
        self.limit[slot] = self.first_limit(k)
        return slot

    def first_limit(self, k: int) -> int:
        return 0

    def resize(self, slot: int, k: int) -> None:
        self.ks[slot] = k

    def remove(self, slot: int) -> None:
        self.ks[slot] = 0
        self.lists.clear(slot)

    # -- rows ----------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def absorb(self) -> Any:
        """This algorithm's kernel that takes picked rows into a list."""

    @abstractmethod
    def state(self) -> tuple[Any, ...]:
        """The arrays that `absorb` works on; asked for anew after a list has grown."""

    def _scratch(self, n: int) -> None:
        if len(self._picks) < n:
            self._picks = np.empty(n, dtype=np.int64)
            self._values = np.empty(n, dtype=np.float64)
        most = max(self.ks.tolist(), default=1) if len(self.ks) < 9 else int(self.ks.max())
        if most > n:  # no heap ever holds more than a batch or a list has
            most = min(most, int(self.lists.size.max(initial=0)) + n)
        if len(self._heap) < most:
            self._heap = np.empty(most, dtype=np.float64)

    def insert(self, rows: Arrivals) -> None:
        self.fresh.fill(-np.inf)
        members = int(np.count_nonzero(self.ks))
        if len(rows) == 0 or members == 0:
            return
        self._scratch(len(rows))
        self.scored += members * len(rows)
        if rows.rendered is not None and self._fusion_pays(rows, members):
            self._insert_fused(rows)
            return
        for slot in np.flatnonzero(self.ks).tolist():
            self._insert_scored(slot, rows.good(slot), rows.time, rows.seq, rows.place, rows.mark)

    def _fusion_pays(self, rows: Arrivals, members: int) -> bool:
        if members >= FUSE_MEMBERS or self.scored >= FUSE_SCORES:
            return background.has_code(self._fused(rows), self._fused_arguments(rows, 0))
        return self.scored >= FUSE_SCORES_CACHED and self._fused(rows, known=True) is not None

    def _fused(self, rows: Arrivals, known: bool = False) -> Any:
        module = self.absorb.function.__module__
        return fused(rows.rendered or "", len(rows.columns()), rows.constants.shape[1], module, known)

    def _insert_fused(self, rows: Arrivals) -> None:
        if self.threads > 1 and len(self.ks) * len(rows) >= SHARED_SCORES:
            shared = np.array_split(np.flatnonzero(self.ks), self.threads)
            self.insert_shares([(rows, slots) for slots in shared])
            return
        many = self._fused(rows)
        slot = 0
        while True:
            slot = many(*self._fused_arguments(rows, slot))
            if slot >= len(self.ks):
                return
            self.lists.grow(slot, 2 * int(self.lists.room[slot]))

    def _fused_arguments(self, rows: Arrivals, slot: int) -> tuple[Any, ...]:
        return (
            slot, rows.constants, rows.sign, *rows.columns(), rows.time, rows.seq, rows.place, rows.mark,
            self.horizon_time, self.horizon_seq, self.ks, self._heap, self._picks, self._values, self.state(),
        )  # fmt: skip

    def insert_shares(self, divided: Sequence[tuple[Arrivals, Ints]]) -> None:
        """Insert each part's rows into its slots, on up to `threads` threads.

        No two parts have a slot in common. The score must be a rendered one.
        """
        self.fresh.fill(-np.inf)
        shares = self._shares(divided)
        many = self._fused(shares[0].rows) if shares else None

        def grow(slot: int) -> None:
            self.lists.grow(slot, 2 * int(self.lists.room[slot]))

        run_all(shares, self.threads, many, self.horizon_time, self.horizon_seq, self.state, grow)

    def bars_of(self, divided: Sequence[tuple[Arrivals, Ints]]) -> Floats:
        """Return each slot's k-th best score among its part's rows, -inf where there are fewer. No row is kept."""
        return bars_of(self._shares(divided), len(self.ks), self.threads, self.horizon_time, self.horizon_seq)

    def _shares(self, divided: Sequence[tuple[Arrivals, Ints]]) -> list[Share]:
        parts = [(rows, slots) for rows, slots in divided if len(rows) and len(slots)]
        self._scratch(max((len(rows) for rows, _ in parts), default=0))
        return [Share(rows, self.ks, slots, len(self._heap)) for rows, slots in parts]

    def _insert_scored(
        self, slot: int, good: Floats, time: Ints, seq: Ints, place: Ints, mark: npt.NDArray[np.uint8]
    ) -> None:
        k = int(self.ks[slot])
        inside = inside_of(time, seq, len(time), self.horizon_time[slot], self.horizon_seq[slot])
        count = self.pick(good, inside, k)
        while self.absorb(
            slot, count, self._picks, self._values, time, seq, place, mark, k, self._heap, *self.state()
        ):
            self.lists.grow(slot, 2 * int(self.lists.room[slot]))

    def pick(self, good: Floats, inside: int, k: int) -> int:
        """Fill the scratch with the rows worth taking: those that their own batch doesn't dominate."""
        return int(select(good, inside, k, self._heap, self._picks, self._values))

    def rebuild(self, slot: int, good: Floats, time: Ints, seq: Ints) -> None:
        """Begin the slot anew with these rows (newest first)."""
        self.lists.clear(slot)
        self.limit[slot] = self.first_limit(int(self.ks[slot]))
        self._scratch(len(good))
        place = np.zeros(len(good), dtype=np.int64)
        self._insert_scored(slot, good, time, seq, place, np.zeros(1, dtype=np.uint8))

    def expire(self, slot: int, horizon: Recency) -> None:
        lists = self.lists
        self.horizon_time[slot], self.horizon_seq[slot] = horizon
        span = lists.span(slot)
        begin = first_inside(lists.time, lists.seq, span.start, span.stop, horizon.time, horizon.seq)
        lists.head[slot] = begin - lists.start[slot]

    def step(
        self,
        rows: Arrivals | None,
        horizon_time: Ints,
        horizon_seq: Ints,
        deleted_time: Ints,
        deleted_seq: Ints,
    ) -> None:
        """Time goes on to a horizon for each slot; rows come; rows may be deleted, new ones too."""
        self.expire_all(horizon_time, horizon_seq)
        if rows is not None:
            self.insert(rows)
        if len(deleted_seq):
            self.delete(deleted_time, deleted_seq)

    def delete(self, time: Ints, seq: Ints) -> None:
        """Take rows out of every list that has them. Only where no candidate was dropped because of them."""
        assert not self.card.fifo and not self.counted
        order = np.lexsort((seq, time))
        time, seq = time[order], seq[order]
        lists = self.lists
        for slot in np.flatnonzero(self.ks).tolist():
            span = lists.span(slot)
            end = remove(lists.good, lists.time, lists.seq, span.start, span.stop, time, seq)
            if end < span.stop:
                lists.size[slot] = end - lists.start[slot]
                self.fresh[slot] = np.inf  # look at its answers again

    def expire_all(self, horizon_time: Ints, horizon_seq: Ints) -> None:
        """`expire` for all slots at once: a horizon each."""
        self.horizon_time, self.horizon_seq = horizon_time, horizon_seq
        self.fresh.fill(-np.inf)
        lists = self.lists
        expire_all(
            self.ks, horizon_time, horizon_seq, lists.time, lists.seq, lists.start, lists.head, lists.size
        )

    # -- answers -------------------------------------------------------------------------------------------

    def present(
        self,
        answers: ListAnswers,
        slots: Ints,
        stale: Ints,
        ks: Ints,
        horizon_time: Ints,
        horizon_seq: Ints,
    ) -> Present:
        return answers.present(self.lists, self.fresh, slots, stale, ks, horizon_time, horizon_seq)

    def top(self, slot: int, k: int, horizon: Recency) -> tuple[Floats, Ints, Ints]:
        return self.lists.top(slot, k, horizon)

    def seqs(self) -> Ints:
        return self.lists.all_seqs()

    def size(self, slot: int) -> tuple[int, int]:
        return self.lists.live(slot), self.lists.bytes(slot)

    def counters(self, slot: int) -> dict[str, int]:
        return dict(zip(self.counter_names, self.counts[slot].tolist(), strict=True))

    def dump(self) -> dict[str, Any]:
        own = {
            name: getattr(self, name).copy()
            for name in ("ks", "horizon_time", "horizon_seq", "limit", "counts")
        }
        return {**own, **{f"list_{name}": array for name, array in self.lists.dump().items()}}

    def load(self, blob: Mapping[str, Any]) -> None:
        for name in ("ks", "horizon_time", "horizon_seq", "limit", "counts"):
            setattr(self, name, blob[name].copy())
        self.fresh = np.full(len(self.ks), -np.inf)
        self.lists.load(
            {name.removeprefix("list_"): array for name, array in blob.items() if name.startswith("list_")}
        )

    def _check(self) -> None:
        self.lists._check()
        for slot in np.flatnonzero(self.ks).tolist():
            span = self.lists.span(slot)
            time, seq = self.lists.time[span], self.lists.seq[span]
            # nothing live lies before the horizon
            if len(time):
                assert (int(time[0]), int(seq[0])) >= (
                    int(self.horizon_time[slot]),
                    int(self.horizon_seq[slot]),
                )
            # a NaN is never a candidate
            assert not np.isnan(self.lists.good[span]).any()
