"""Every stream over three scores and three times, in every cut into batches, up to a length.

All streams of scores of one length run at once: row p of a stream has a one in column xp and zeros elsewhere,
so the query 2 * x0 + 0 * x1 + 1 * x2 gives the rows the scores 2, 0, 1, and one monitor watches all
3^length of them. What is left to enumerate are the times (3^length) and the cuts (2^(length-1)).

These form a tree, and the walk shares what they share. It goes through the beginnings of streams; for each
it holds the monitor as it was after every cut of the rows so far (`Moment`), goes back to each of them in turn
and pushes the rows from there on as one batch. So each batch of each cut of each stream is pushed once, after
the very steps that lead up to it; states that look alike are not taken to be alike. A walk to length 7 pushes
167,961 batches, where one stream and one cut after the other would take 559,872. Streams of lengths 1 to 6 are
the beginnings, and compared as well.

After every step the changes must be those from the sorted window before to the sorted window after: each row
that left and each that entered, once, with its rank, score, seq and time.

Walks to length 4 over lists start with a monitor that has seen no rows. All others start with one that has been used
and is full: it has had thousands of rows that have left again, and at time 0 a crowd of rows of score 0, of which the
newest four could still be in a top. They leave in a burst when the time comes to 2. Some options make an algorithm
do within seven rows what by default it does after dozens; it is walked with them and without.

For every exact algorithm `make test` walks to length 4; for those that keep lists to 5 with a window of time and, of
length 7, down some ways drawn at random. `make soak` walks to length 7: minutes to an hour for each of the SETS.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.algorithms.driver import EXACT as ALL_EXACT
from tests.moment import Moment

import skyband as sb
from skyband.algorithms import LISTS, WINDOWED
from skyband.algorithms.kernels import candidate_lists as lists

SETS = {
    "one of three rows": [(1, ("rows", 3))],
    "two of three rows": [(2, ("rows", 3))],
    "two of one second": [(2, ("seconds", 1))],
    "shared": [(1, ("seconds", 1)), (3, ("rows", 2)), (2, ("rows", 4))],
}
BUFFERED = [name for name in ALL_EXACT if name in LISTS and LISTS[name].spaced]
EXACT = [name for name in ALL_EXACT if name not in WINDOWED and name not in BUFFERED]
INDEXES = [name for name in ALL_EXACT if name in WINDOWED]
EAGER = {  # an option, and the counter of what it brings about
    "ra": ("limit = 1", "sweeps"),
    "tsl": ("kmax = 1", "refills"),
}
# With its option an algorithm does within seven rows what by default it does after dozens.
HOW, ON_AN_INDEX = (
    [*names, *(f"{name}, {option}" for name, (option, _) in EAGER.items() if name in names)]
    for names in (EXACT, INDEXES)
)
ROWS, SCORES = 2048, 4_000_000  # of the batches before the crowd: by then a shape's kernels are compiled
CROWD, SEEN = 64, 4

Times = tuple[int, ...]
Starts = tuple[int, ...]  # the rows at which batches start


@pytest.fixture(autouse=True)
def small_rooms(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lists of thousands of queries are copied at each step: room for sixteen rows each will do."""
    monkeypatch.setattr(lists, "FIRST_ROOM", 16)


class Walk:
    """One monitor that watches every stream of scores of a length, and the ways through it."""

    def __init__(self, how: str, length: int, asked: str, full: bool) -> None:
        self.length, self.asked = length, SETS[asked]
        self.descending = asked != "two of three rows"
        self.scores = np.array(list(product(range(3), repeat=length)), dtype=np.float64)
        self.before = SEEN if full else 0  # rows of the crowd: they have score and time 0
        self.all_scores = np.hstack([np.zeros((len(self.scores), self.before)), self.scores])
        self.scores_of_watches = np.repeat(self.all_scores, len(self.asked), axis=0).ravel()
        self.columns = [f"x{p}" for p in range(length)]
        self.steps = 0
        name, *options = how.split(", ")
        using = ", ".join([f"algorithm = '{name}'", *options])
        schema = pa.schema([("t", pa.int64()), *[(c, pa.float64()) for c in self.columns]])
        self.monitor = sb.Monitor(time="t", schema=schema)
        for i, scores in enumerate(self.scores):
            score = " + ".join(f"{s:.0f} * {c}" for s, c in zip(scores, self.columns, strict=True))
            for j, (k, (kind, size)) in enumerate(self.asked):
                self.monitor.watch(
                    f"SELECT t FROM s ORDER BY {score} {'DESC' if self.descending else 'ASC'} LIMIT {k} "
                    f"WINDOW {size} {kind.upper()} WITH ({using})",
                    name=str(i * len(self.asked) + j),
                )
        self.names = pa.array(list(self.monitor.watches))
        self.begin(full)
        self.first = self.monitor.rows_seen - self.before

    def begin(self, full: bool) -> None:
        if not full:  # rejected; but the plan, made when the first batch comes, is the same for all ways then
            self.monitor.push({"t": pa.nulls(1, pa.int64())})
            return
        some, crowd = (dict.fromkeys(self.columns, values) for values in (np.ones(ROWS), np.zeros(CROWD)))
        for ago in range(1 + SCORES // (ROWS * len(self.scores)), 0, -1):
            self.monitor.push({"t": np.full(ROWS, -100 * ago), **some})
        self.monitor.push({"t": np.zeros(CROWD, dtype=np.int64), **crowd})

    # -- ways ----------------------------------------------------------------------------------------------

    def everywhere(self) -> None:
        self.beyond((), [[((), Moment(self.monitor))]], [self.expected(())])

    def beyond(
        self, times: Times, moments: list[list[tuple[Starts, Moment]]], tops: list[np.ndarray]
    ) -> None:
        """All streams that begin with these times.

        `moments` has, for each number of rows that may have come, every cut of them and the monitor after it;
        `tops` what is expected there.
        """
        for time in range(3):
            stream = (*times, time)
            goes_on = len(stream) < self.length
            top = self.expected(stream)
            reached: list[tuple[Starts, Moment]] = []
            for start in range(len(stream)):
                batch = self.batch(stream, start)
                changed = (tops[start] > 0) != (top > 0)
                for cut, moment in moments[start]:
                    moment.restore()
                    self.step(batch, changed, top, stream, (*cut, start))
                    if goes_on:
                        reached.append(((*cut, start), Moment(self.monitor)))
            if goes_on:
                self.beyond(stream, [*moments, reached], [*tops, top])

    def one_way(self, times: Times, starts: Starts) -> None:
        """One stream in one cut."""
        before = self.expected(())
        for start, end in zip(starts, (*starts[1:], len(times)), strict=True):
            stream = times[:end]
            top = self.expected(stream)
            self.step(self.batch(stream, start), (before > 0) != (top > 0), top, stream, starts)
            before = top

    # -- a step --------------------------------------------------------------------------------------------

    def batch(self, times: Times, start: int) -> pa.Table:
        """The rows from `start` on."""
        rows = np.eye(self.length)[start : len(times)]
        return pa.table({"t": np.array(times[start:]), **{c: rows[:, p] for p, c in enumerate(self.columns)}})

    def step(
        self, batch: pa.Table, changed: np.ndarray, top: np.ndarray, times: Times, starts: Starts
    ) -> None:
        """Push rows; are the changes those that lead to `top`, the ranks of the rows that are in it?"""
        changes = self.monitor.push(batch)
        where = f"times {times}, batches from rows {starts}"
        self.steps += 1
        assert changes.num_rows == np.count_nonzero(changed), where
        if not changes.num_rows:
            return
        (record,) = changes.to_batches()
        query, change, rank, score, seq, _, _, time = record.columns
        assert query.dictionary.equals(self.names), where
        watch = np.asarray(query.indices)
        place = np.asarray(seq) - self.first
        stamps = np.array((0,) * self.before + times)
        assert place.min() >= 0 and place.max() < len(stamps), where
        flat = watch * changed.shape[1] + place
        found = np.zeros_like(changed)
        found.ravel()[flat] = True
        assert np.array_equal(found, changed), where  # and as many as there are: none of them twice
        ranks = np.asarray(pc.fill_null(rank, 0))
        assert np.array_equal(ranks, top.ravel()[flat]), where
        enters = np.array([word == "enter" for word in change.dictionary.to_pylist()])
        leaves = np.array([word == "leave" for word in change.dictionary.to_pylist()])
        assert np.array_equal(enters[np.asarray(change.indices)], ranks > 0), where
        assert np.array_equal(leaves[np.asarray(change.indices)], ranks == 0), where
        assert rank.null_count == np.count_nonzero(ranks == 0), where
        assert np.array_equal(np.asarray(score), self.scores_of_watches[flat]), where
        assert np.array_equal(np.asarray(time), stamps[place]), where

    def expected(self, times: Times) -> np.ndarray:
        """The rank of each row that is in the top, 0 of others, for each watch: by sorting the whole window."""
        times = (0,) * self.before + times
        order = sorted(range(len(times)), key=lambda p: (times[p], p))
        newness = np.argsort(order)
        sign = 1 if self.descending else -1
        ranks = np.zeros((len(self.scores), len(self.asked), self.before + self.length), dtype=np.int8)
        for j, (k, (kind, size)) in enumerate(self.asked):
            inside = order[-size:] if kind == "rows" else [p for p in order if times[p] >= max(times) - size]
            if inside:
                key = sign * self.all_scores[:, inside] * 100 + newness[inside]
                best = np.array(inside)[np.argsort(-key, axis=1)[:, :k]]
                np.put_along_axis(ranks[:, j], best, np.arange(1, best.shape[1] + 1)[None, :], axis=1)
        return ranks.reshape(-1, ranks.shape[2])


def all_cuts(length: int) -> Iterator[Starts]:
    for chosen in product((False, True), repeat=length - 1):
        yield (0, *(place for place, cut in enumerate(chosen, 1) if cut))


def walk(how: str, length: int, asked: str, full: bool) -> None:
    whole = Walk(how, length, asked, full)
    whole.everywhere()
    assert whole.steps == sum(3**m * 2 ** (m - 1) for m in range(1, length + 1))


@pytest.mark.parametrize(
    "asked",
    [pytest.param(name, marks=[pytest.mark.soak] * (name == "one of three rows")) for name in sorted(SETS)],
)
@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=[pytest.mark.soak] * (how == "ra, limit = 1")) for how in HOW]
)
def test_every_stream_of_four(how: str, asked: str) -> None:
    walk(how, 4, asked, full=False)


@pytest.mark.parametrize("asked", [pytest.param("shared", marks=pytest.mark.soak), "two of three rows"])
@pytest.mark.parametrize(
    "how",  # the map takes a minute to walk through, most of it to fill again and again
    [
        pytest.param(how, marks=[pytest.mark.soak] * (how in ("heightmap", "tsl, kmax = 1")))
        for how in ON_AN_INDEX
    ],
)
def test_every_stream_of_four_on_an_index(how: str, asked: str) -> None:
    walk(how, 4, asked, full=True)


@pytest.mark.soak
@pytest.mark.parametrize("asked", sorted(SETS))
@pytest.mark.parametrize("how", ON_AN_INDEX)
@pytest.mark.parametrize("length", [5, 7])
def test_every_longer_stream_on_an_index(how: str, length: int, asked: str) -> None:
    walk(how, length, asked, full=True)


@pytest.mark.parametrize("asked", [pytest.param("shared", marks=pytest.mark.soak), "two of three rows"])
@pytest.mark.parametrize("how", BUFFERED)
def test_every_stream_of_three_with_a_buffer(how: str, asked: str) -> None:
    walk(f"{how}, buffer = 0.5", 3, asked, full=False)


@pytest.mark.soak
@pytest.mark.parametrize("asked", sorted(SETS))
@pytest.mark.parametrize("how", BUFFERED)
@pytest.mark.parametrize("length", [4, 5])
def test_every_longer_stream_with_a_buffer(how: str, length: int, asked: str) -> None:
    walk(f"{how}, buffer = 0.5", length, asked, full=False)


@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=[pytest.mark.soak] * (how in ("lazy", "ra, limit = 1"))) for how in HOW]
)
def test_every_stream_of_five(how: str) -> None:
    walk(how, 5, "two of one second", full=True)


@pytest.mark.soak
@pytest.mark.parametrize("asked", sorted(SETS))
@pytest.mark.parametrize("how", HOW)
def test_every_stream_of_seven(how: str, asked: str) -> None:
    walk(how, 7, asked, full=True)


@pytest.mark.parametrize("how", [pytest.param(how, marks=[pytest.mark.soak] * (how != "sa")) for how in HOW])
def test_some_streams_of_seven(how: str) -> None:
    some = Walk(how, 7, "two of one second", full=True)
    beginning, did = Moment(some.monitor), Counter[str]()
    watches = list(some.monitor.watches.values())[::100]
    for times, starts in random.Random(how).sample(
        list(product(product(range(3), repeat=7), all_cuts(7))), 20
    ):
        beginning.restore()
        for watch in watches:
            did.subtract(watch.explain().counters)
        some.one_way(times, starts)
        for watch in watches:
            did.update(watch.explain().counters)
    if how not in EXACT:
        assert did[EAGER[how.split(", ")[0]][1]] > 0, did


@pytest.mark.parametrize("how", HOW)
def test_going_back_leaves_no_trace(how: str) -> None:
    """A monitor that was led here and there and back is, byte for byte, one that went straight on."""
    led = Walk(how, 3, "shared", full=False)
    beginning = Moment(led.monitor)
    for times, starts in random.Random(how).sample(
        list(product(product(range(3), repeat=3), all_cuts(3))), 12
    ):
        beginning.restore()
        led.one_way(times, starts)
        there = Moment(led.monitor)
        for elsewhere, batches in [(times[::-1], starts), ((2, 2, 2), (0,)), ((2, 0, 1), (0, 1, 2))]:
            beginning.restore()
            led.one_way(elsewhere, batches)
        there.restore()
        straight = Walk(how, 3, "shared", full=False)
        straight.one_way(times, starts)
        assert led.monitor.to_bytes() == straight.monitor.to_bytes()
