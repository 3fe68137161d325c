"""scase: the K-skyband of pairs with its staircase (Shen, Cheema, Lin, Zhang, Wang 2012).

**Problem.** The k best pairs of two rows of the window, by any score of the two. There are n²/2 of them, and each new
row makes n new ones.

**Idea.** A pair lives as long as its older row. So nearly all pairs have K better ones that live longer, and can be
forgotten at once: what remains, the K-skyband, has about 2K ln n pairs. A new row is scored with every row of the
window, and the *staircase* (pair_skyband.py) gives for each of those the score that a pair must exceed to matter; about
2 sqrt(2K) do. Those are merged into the skyband from its newest end, and the merge stops where nothing changes.

**What is kept.** The window's rows, as partners for new rows, and the skyband.

**Cost.** A score for every row of the window, for each new row: one pass of generated vector code, which tests
the scores on the way (pair_scoring.py). With `a.c = b.c` only rows of the same colour are scored.

**Wrong choice when** the window is so long that scoring all of it for each row takes too long. No algorithm for
arbitrary scores does better; for differences of columns there is `ta`.

With `refresh = r` the skyband is refreshed every r rows, whatever the steps, and the K best pairs are kept in order
after every row (pair_topk.py). Answers for shorter windows also search the pairs that are not merged yet, so answers
are exact after every step.

One state answers any k up to K and any window up to the longest: the pairs whose older row is inside a shorter window
are its skyband. A late row takes its place in the order of recency; if none of its pairs is above the staircase the
skyband stays as it is. The older the row, the fewer of its pairs are above.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from skyband.algorithms.contract import Card
from skyband.algorithms.kernels.batch_tops import places_of
from skyband.algorithms.pairs import pair_base as limits
from skyband.algorithms.pairs.key_runs import move_up
from skyband.algorithms.pairs.pair_base import Late, Partners, Question
from skyband.algorithms.pairs.pair_scoring import Loops, loops
from skyband.algorithms.pairs.pair_skyband import better, climb, places, settling
from skyband.algorithms.pairs.pair_topk import Foremost
from skyband.core.exchange import Entries
from skyband.core.types import Floats, Ints, Recency

_MANY_LATE = 64  # late rows of a step, from which sorting all rows again may be faster
_LATE_ROWS = 128  # a step with more late rows than one in so many rows stores them together
_WAITING = 4096  # room for new pairs before they are merged
EVERY = 4  # rows of a step before the skyband is refreshed; an old staircase is only less strict
_TOGETHER = 4  # number of answers from which one walk for all pays
_USELESS = 4  # chunks scored in vain for a row, beyond a quarter of all, before the exact test is used


def expected(k: int, n: float) -> float:
    """Return the expected pairs in the skyband of n rows, if scores do not depend on age:
    the sum of (x - 1) min(1, 2K / (x(x - 1)))."""
    if n < 2:
        return 0.0
    full = min(n, np.floor((1.0 + np.sqrt(1.0 + 8.0 * k)) / 2.0))  # rows whose pairs are all among the K
    return float(full * (full - 1) / 2 + 2 * k * (_harmonic(n) - _harmonic(full)))


def _harmonic(n: float) -> float:
    if n < 100:
        return sum(1.0 / i for i in range(1, int(n) + 1))
    return float(np.log(n) + 0.57721566490153286 + 1.0 / (2 * n) - 1.0 / (12 * n * n))


def _columns(room: int) -> tuple[Any, Any, Any]:
    """Return arrays for scores, numbers of older rows, and numbers of newer rows."""
    return np.empty(room), np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)


class SCase:
    """Rows in order of recency, and the K-skyband of their pairs."""

    card = Card(
        name="scase",
        title="K-skyband of pairs with a staircase",
        source="Shen, Cheema, Lin, Zhang, Wang 2012, sections 3 and 4",
        answers=frozenset({"pairs"}),
        exact=True,
        keeps="the window's rows, and about 2K ln n pairs of them",
        cost="a row: its score with every row of the window",
        wrong_when="the window is so long that scoring all of it for each row takes too long",
        expected=expected,
        options={"refresh": 0.0},
        window=True,
        fifo=True,
    )
    candidate_bytes = 24
    every: ClassVar[int] = 0  # rows between two refreshes of the skyband; 0: chosen by the algorithm
    merges_late: ClassVar[bool] = True  # whether many late rows of a step are stored together

    def __init__(self, options: Mapping[str, float], question: Question) -> None:
        self.question = question
        # rows between two refreshes, whatever the steps; 0: one at the end of each step
        self.refresh = int(options.get("refresh", 0))
        self.rows = Partners(question)
        self.k = 1
        self.counts = {
            "rows": 0,
            "pairs scored": 0,
            "above the staircase": 0,
            "sweeps": 0,
            "pairs swept": 0,
            "late rows": 0,
            "late rows without a sweep": 0,
            "above the staircase of late rows": 0,
        }
        self.foremost = Foremost()  # the K best, where the skyband may lag
        self._no_pairs()
        # chunks hit, chunks hit in vain, pairs above the staircase, sweeps
        self._kernel_counts = np.zeros(4, dtype=np.int64)
        self._exact_test = False  # whether the quick test of chunks proved useless
        # the slack for leaves in these ranges
        self._slack_for: tuple[tuple[Any, ...], float | None] = ((), None)
        self._new = _columns(_WAITING)

    _list: tuple[Any, Any, Any]  # the skyband: scores, numbers of older rows, of newer rows
    _swept: tuple[Any, Any, Any]
    _new: tuple[Any, Any, Any]

    def _no_pairs(self, room: int = 1024) -> None:
        # begin and end of the list, pairs not merged yet, pairs swept, where a row was interrupted (-1: nowhere), rows
        # since the skyband was refreshed
        self._state = np.array([0, 0, 0, 0, -1, 0], dtype=np.int64)
        self._list = _columns(room)
        self._swept = _columns(room)
        self.foremost.forget()

    @property
    def seq(self) -> Ints:
        """The seqs of the rows, oldest first."""
        return np.asarray(self.rows.column("seq"))

    @property
    def pairs(self) -> tuple[Any, Any, Any]:
        """The skyband: scores, and numbers of the older and the newer rows."""
        begin, end = self._state[:2].tolist()
        good, older, newer = (column[begin:end] for column in self._list)
        return good, older, newer

    # -- a step --------------------------------------------------------------------------------------------

    def expire(self, horizon: Recency) -> None:
        """Remove rows before the horizon, and the pairs whose older row they are."""
        if not len(self.rows):
            return
        self.rows.expire(self.rows.number_of(horizon))
        self._state[0] += np.searchsorted(self.pairs[1], self.rows.first)
        self.foremost.expire(self.rows.first)

    def add(self, table: pa.Table, time: Ints, seq: Ints) -> None:
        """Add rows, oldest first; pair each with all that are there."""
        n = len(seq)
        if not n:
            return
        rows = self.rows
        if rows.schema is None:
            rows.begin(table.schema)
        self.counts["rows"] += n
        late = 0
        if len(rows):
            newest = (rows.column("time")[-1], rows.column("seq")[-1])
            late = int(np.searchsorted(time, newest[0], side="left"))
            while late < n and (time[late], seq[late]) < newest:
                late += 1
        # many retained rows at once: faster from the beginning
        if self._put_in_order(late):
            self.counts["late rows"] += late
            rows.merge(table, time, seq)
            self.rebuild()
            return
        if self.merges_late and _LATE_ROWS * late > len(rows):
            self._late_rows(table.slice(0, late), time[:late], seq[:late])
        elif late:
            for row in rows.late(table.slice(0, late), time[:late], seq[:late]):
                self._late(row)
        if late < n:
            number = rows.next
            self._in_order(number, rows.append(table.slice(late), time[late:], seq[late:]))

    def _put_in_order(self, late: int) -> bool:
        """Whether with so many late rows sorting all rows and recomputing all pairs is expected to be faster."""
        return late > _MANY_LATE and 8 * late > len(self.rows)

    def rebuild(self) -> None:
        """Compute all pairs of all rows again."""
        self._no_pairs()
        rows = self.rows
        rows.bar[:] = np.nan
        if len(rows):
            self._in_order(rows.first, rows.pool.places())

    # -- rows that are newer than all others ---------------------------------------------------------------

    def _in_order(self, number: int, place: Ints) -> None:
        """Pair rows that are stored already, numbered from `number` on, each with all older ones."""
        rows = self.rows
        lows = rows.pool.head[rows.column("run")[number - rows.first :]]
        self._paired(number, place, lows, np.maximum(rows.same_since(place), lows))

    def _paired(self, number: int, place: Ints, lows: Ints, highs: Ints) -> None:
        """Pair each of the rows at these places with a range of partners."""
        self.counts["pairs scored"] += int((highs - lows).sum())
        done = 0
        while done < len(place):
            ready = self._compiled(False)
            if ready is None:
                self._by_numpy(number + done, int(place[done]), int(lows[done]), int(highs[done]))
                done += 1
            else:
                done = self._by_loops(ready, done, place, lows, highs)

    def _by_numpy(self, number: int, place: int, low: int, high: int) -> None:
        self.foremost.forget()
        self._scan_by_numpy(number, place, low, high, False)
        self._state[5] += 1
        if self._state[5] >= self.refresh or self._state[2] > max(64, 2 * self.k):
            self._settle(number)

    def _by_loops(self, ready: Loops, done: int, place: Ints, lows: Ints, highs: Ints) -> int:
        rows = self.rows
        if self.refresh and not self.foremost.known:
            self.foremost.know(self.k, self._search(self.k, rows.first))
        while done < len(place):
            done = ready.many(
                done, len(place), self._every(), place, lows, highs, rows.pool.number, rows.bar, rows.base, rows.first,
                *self._parameters(), self.k, self._best(), self._state, *self._list, *self._new, *self._swept,
                self._kernel_counts, *self.foremost.arrays,
            )  # fmt: skip
            if done < len(place):
                self._grow()
        self._counted(len(place))
        return done

    def _every(self) -> int:
        """The rows between sweeps. With many ranks a sweep takes long, so more pairs may wait for it. Negative: also
        after a step."""
        if self.refresh:
            return -self.refresh
        return self.every or (EVERY if self.k <= 32 else 2 * EVERY)

    def _best(self) -> Any:
        return np.empty(places(self.k))

    # -- late rows -----------------------------------------------------------------------------------------

    def _late(self, row: Late) -> tuple[int, int]:
        """Insert a late row and pair it with the rows before and after it; return its number and place."""
        rows = self.rows
        self.foremost.forget()
        self._settle(rows.next - 1)
        number, place = rows.insert(row)
        for numbers in self.pairs[1:]:
            move_up(numbers, number)
        if number > rows.first:  # it has no pairs yet, so its bar is that of the row before it
            rows.bar[number - rows.base] = rows.bar[number - 1 - rows.base]
        else:
            self._climb()
        if self._both_ways(number, place, self._ways()):
            self._settle(rows.next - 1)
        self._counted(2)
        return number, place

    def _late_rows(self, table: pa.Table, time: Ints, seq: Ints) -> None:
        """Insert late rows together, in one pass over all rows; then pair each with the rows before and after it.

        A pair of two of them is found twice, and merged into the skyband once.
        """
        rows = self.rows
        self.foremost.forget()
        self._settle(rows.next - 1)
        first, known = rows.first, len(rows)
        number, place = rows.merge(table, time, seq)
        for numbers in self.pairs[1:]:
            numbers[:] = number[numbers - first]
        self._climb()
        ways = self._ways()
        for own in number[known:].tolist():
            self._both_ways(own, int(place[own]), ways)
            if self._state[2] > max(64, 2 * self.k):
                self._settle(rows.next - 1)
        self._settle(rows.next - 1)
        self._counted(2 * len(seq))

    def _ways(self) -> list[tuple[bool, Any, tuple[Any, ...]]]:
        """Return how to pair a row with older and with newer rows: the loop, or None, and its arguments."""
        ready = [(later, self._compiled(later)) for later in (False, True)]
        rows = self.rows
        return [
            (later, None, ())
            if loops is None
            else (later, loops.scan, (rows.pool.number, rows.bar, rows.base, *self._parameters(), *self._new))
            for later, loops in ready
        ]

    def _both_ways(self, number: int, place: int, ways: list[tuple[bool, Any, tuple[Any, ...]]]) -> int:
        """Pair a late row with the rows before and after it; return how many pairs are above the staircase."""
        rows = self.rows
        before = self.counts["above the staircase"] + int(self._kernel_counts[2])
        for later, scan, arguments in ways:
            low, high = rows.range_of(place, number, later)
            self.counts["pairs scored"] += high - low
            if scan is None:
                self._scan_by_numpy(number, place, low, high, later)
            else:
                self._scan(place, low, high, scan, arguments)
        found = self.counts["above the staircase"] + int(self._kernel_counts[2]) - before
        self.counts["late rows"] += 1
        self.counts["above the staircase of late rows"] += found
        self.counts["late rows without a sweep"] += not found
        return found

    def _climb(self) -> None:
        rows = self.rows
        good, older, _ = self._list
        begin, end = self._state[:2].tolist()
        climb(good, older, begin, end, self.k, np.empty(self.k), rows.bar, rows.first, rows.next, rows.base)

    def _scan(self, place: int, low: int, high: int, scan: Any, arguments: tuple[Any, ...]) -> None:
        """Pair a row with a range of partners; collect pairs above the staircase, and merge them when there is no
        room."""
        while low < high:
            self._state[2], high = scan(place, low, high, *arguments, self._state[2], self._kernel_counts)
            if low < high:
                self._settle(self.rows.next - 1)

    def _scan_by_numpy(self, number: int, place: int, low: int, high: int, later: bool) -> None:
        rows = self.rows
        if low >= high:
            return
        good = rows.good(place, low, high, later)
        partners = rows.pool.number[low:high]
        found = self._above(good, partners, number, later)[::-1]
        self.counts["above the staircase"] += len(found)
        for begin in range(0, len(found), _WAITING // 2):
            some = found[begin : begin + _WAITING // 2]
            if self._state[2] + len(some) > _WAITING:
                self._settle(rows.next - 1 if later else number)
            waiting = int(self._state[2])
            span = slice(waiting, waiting + len(some))
            self._new[0][span] = good[some]
            self._new[1][span] = number if later else partners[some]
            self._new[2][span] = partners[some] if later else number
            self._state[2] += len(some)

    def _above(self, good: Floats, partners: Ints, number: int, later: bool) -> Ints:
        """Return which of a row's pairs are above the staircase."""
        rows = self.rows
        bar = rows.bar[number - rows.base] if later else rows.bar[partners - rows.base]
        return np.flatnonzero((good > bar) | (np.isnan(bar) & ~np.isnan(good)))

    # -- the skyband ---------------------------------------------------------------------------------------

    def _settle(self, newest: int) -> None:
        """Merge the collected pairs into the skyband; `newest` is the newest row whose pairs are known."""
        self._state[5] = 0
        if not self._state[2]:
            return
        self._grow()
        rows = self.rows
        settling(self.k).settle(
            self._state, *self._list, *self._new, self.k, self._best(), rows.bar, rows.base, rows.first, newest,
            *self._swept,
        )  # fmt: skip
        self.counts["sweeps"] += 1
        self._count_swept()

    def _grow(self, more: int = 0) -> None:
        """Make room in the list for the collected pairs, and `more`."""
        begin, end, waiting = self._state[:3].tolist()
        waiting += more
        room = len(self._list[0])
        if end + waiting + 1 <= room:
            return
        live = end - begin
        if 2 * (live + waiting + 1) > room:
            room = 2 * (live + waiting + 1)
        moved = _columns(room)
        for old, new in zip(self._list, moved, strict=True):
            new[:live] = old[begin:end]
        self._list = moved
        if len(self._swept[0]) < room:
            self._swept = _columns(room)
        self._state[0], self._state[1] = 0, live

    def _count_swept(self) -> None:
        self.counts["pairs swept"] += int(self._state[3])
        self._state[3] = 0

    def _counted(self, rows: int) -> None:
        """Add the loops' counters; decide whether their quick test is useful."""
        _, vain, found, sweeps = self._kernel_counts[:4].tolist()
        self.counts["above the staircase"] += found
        self.counts["sweeps"] += sweeps
        self._count_swept()
        self._kernel_counts[:] = 0
        chunks = 1 + len(self.rows) // 256
        if vain > rows * (_USELESS + chunks / 4):
            self._exact_test = True

    # -- generated loops -----------------------------------------------------------------------------------

    def _slack(self) -> float | None:
        """Return the error of the float32 test of chunks; None: the test is in float64."""
        rows = self.rows
        if self._exact_test or not rows.copied or rows.pairing is None:
            return None
        between = tuple(rows.between.values())
        if self._slack_for[0] != between:
            self._slack_for = between, rows.pairing.slack(rows.between)
        return self._slack_for[1]

    def _compiled(self, later: bool) -> Loops | None:
        """Return the loops, once compiling them pays."""
        rows = self.rows
        if not rows.rendered or rows.pairing is None or self.counts["pairs scored"] < limits.COMPILE_KNOWN:
            return None
        light = not self._exact_test and bool(rows.copied)
        known = self.counts["pairs scored"] < limits.COMPILE_AFTER
        return loops(rows.pairing, settling(self.k).__name__, self._slack() is not None, light, later, known)

    def _parameters(self) -> tuple[Any, ...]:
        """Return the arguments of every loop: sign, constants, slack, leaves and their copies."""
        rows = self.rows
        pairing, columns = rows.pairing, rows.pool.columns
        assert pairing is not None
        slack = self._slack()
        leaves = columns[1 : 1 + len(pairing.leaves)]
        copies: list[Any] = [0] if slack is None else columns[1 + len(pairing.leaves) :]
        constants = np.array(pairing.constants, dtype=np.float64)
        return self.question.sign, constants, slack or 0.0, *leaves, *copies

    # -- answers -------------------------------------------------------------------------------------------

    def best(self, k: int, horizon: Recency) -> Entries:
        """Return the best k pairs of a window that begins at the horizon, best first."""
        low = self.rows.number_of(horizon)
        if self.foremost.known and low <= self.rows.first and k <= self.k:
            return self._found(*self.foremost.best(k))
        return self._found(*self._search(k, low))

    def _search(self, k: int, low: int) -> tuple[Any, Any, Any]:
        """Return the best k pairs from the row numbered `low` on, merged into the skyband or not."""
        begin, end, waiting = self._state[:3].tolist()
        listed = min(k, end - begin)
        picks = np.empty(listed, dtype=np.int64)
        if listed:
            picks = picks[: better(*self._list, begin, end, low, listed, picks)]
        good, older, newer = (column[picks] for column in self._list)
        if not waiting:
            return good, older, newer
        inside = np.flatnonzero(self._new[1][:waiting] >= low)
        good, older, newer = (
            np.concatenate([found, new[inside]])
            for found, new in zip((good, older, newer), self._new, strict=True)
        )
        order = np.lexsort((newer, older, good))[::-1][:k]
        return good[order], older[order], newer[order]

    def _found(self, good: Floats, older: Ints, newer: Ints) -> Entries:
        return Entries(good, *self.rows.recency(older), *self.rows.recency(newer))

    def tops(self, asked: Sequence[tuple[int, Recency]]) -> list[Entries]:
        """Return `best` for many k and horizons at once, by one walk of the skyband."""
        if len(asked) < _TOGETHER or self._state[2]:
            return [self.best(k, horizon) for k, horizon in asked]
        good, older, _ = self._list
        ks = np.array([k for k, _ in asked], dtype=np.int64)
        lows = {horizon: self.rows.number_of(horizon) for _, horizon in asked}
        edges = np.array([(lows[horizon], 0) for _, horizon in asked], dtype=np.int64)
        # in the order of answers: of equal scores first the newer older row, then the newer newer row
        span = slice(*self._state[:2].tolist())
        found = places_of(good, older, older, span, ks, edges)
        return [self._found(*(column[picks] for column in self._list)) for picks in found]

    def notes(self) -> list[str]:
        """Return sentences for `explain`: what is slow, and what late rows cost, compared to rows in order."""
        return self._slow() + self._late_notes()

    def _slow(self) -> list[str]:
        rows = self.rows
        if rows.schema is None or rows.rendered:
            return []
        if rows.pairing is None:
            why = "it compares times of different units, or arithmetic of integers or texts"
        else:
            why = "it has a function of both rows that loops don't have"
        return [f"each row is paired by numpy, about ten times as slowly as by compiled loops: {why}"]

    def _late_notes(self) -> list[str]:
        late, ordered = self.counts.get("late rows", 0), self.counts["rows"] - self.counts.get("late rows", 0)
        if not late or "above the staircase" not in self.counts:
            return []
        found = self.counts["above the staircase of late rows"]
        others = (self.counts["above the staircase"] - found) / max(1, ordered)
        return [
            f"{self.counts['late rows without a sweep']:,} of {late:,} late rows changed nothing; {found / late:.1f} "
            f"pairs of a late row mattered, {others:.1f} of a row in order"
        ]

    @classmethod
    def unfit_score(cls, score: Any) -> str | None:
        """Return why it cannot take a score of pairs, or None if it can."""
        return None

    def expected(self, k: int, n: float) -> float:
        return self.card.expected(k, n)

    def size(self, slot: int) -> tuple[int, int]:
        pairs = len(self.pairs[0])
        return pairs, self.candidate_bytes * pairs + self.rows.nbytes()

    def counters(self, slot: int) -> dict[str, int]:
        return dict(self.counts)

    # -- keeping -------------------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        self._settle(self.rows.next - 1)
        good, older, newer = self.pairs
        first = self.rows.first
        return {
            "rows": self.rows.dump(), "good": good.copy(), "older": older - first, "newer": newer - first,
            "k": self.k, "counts": dict(self.counts),
        }  # fmt: skip

    def load(self, blob: dict[str, Any]) -> None:
        self.rows.load(blob["rows"])
        self.k, self.counts = int(blob["k"]), dict(blob["counts"])
        n = len(blob["good"])
        self._no_pairs(max(1024, 2 * n))
        for column, name in zip(self._list, ("good", "older", "newer"), strict=True):
            column[:n] = blob[name]
        self._state[1] = n
        self._climb()

    def _check(self) -> None:
        rows = self.rows
        rows._check()
        good, older, newer = self.pairs
        # pairs consist of stored rows, the older one first, in order
        assert np.all(older >= rows.first) and np.all(newer < rows.next) and np.all(older < newer)
        order = np.lexsort((newer, good, older))
        assert np.array_equal(order, np.arange(len(good))) and (self.refresh or not self._state[2])
        # the staircase is that of these pairs, and each pair is above it
        bar = rows.bar[rows.first - rows.base : rows.next - rows.base].copy()
        self._climb()
        now = rows.bar[rows.first - rows.base : rows.next - rows.base]
        assert np.array_equal(bar, now, equal_nan=True)
        if self.foremost.known:  # the K best are those that a search finds
            found = self._search(self.k, rows.first)
            assert all(map(np.array_equal, self.foremost.best(self.k), found))
        own = now[older - rows.first]
        assert np.all((good > own) | np.isnan(own))
        assert not len(older) or np.bincount(older - rows.first).max() <= self.k
