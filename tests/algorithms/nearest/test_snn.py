"""`snn` row by row: its lists are right after every row, and it makes no difference how rows are cut into batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import skyband as sb
from skyband.algorithms import WINDOWED
from skyband.algorithms.nearest.arrival_lists import END, FIRST, LIMIT, lasting
from skyband.algorithms.nearest.row_loop import turning
from skyband.algorithms.query_index import loops as indexing
from skyband.algorithms.query_index.index import QueryIndex
from skyband.algorithms.query_index.probe import compared
from skyband.compiling import jit
from skyband.core.types import Recency
from skyband.query.expression import lift
from skyband.query.expression.score_space import Space

NONE = np.empty(0, dtype=np.int64)
SLOTS = 20


def data(kind: str, rows: int, d: int, seed: int = 3) -> Any:
    random = np.random.default_rng(seed)
    points = random.random((rows, d))
    if kind == "wandering":
        points = np.cumsum(random.normal(0, 0.03, (rows, d)), axis=0)
    elif kind == "tied":
        points = np.round(points * 8) / 8
    elif kind == "away":  # from all points at once, so that lists run short
        points = points * 0.1 + np.linspace(0, 3, rows)[:, None]
    elif kind == "missing":
        points[random.random(rows) < 0.2] = np.nan
    return points


def made(points: Any, n: int, slack: float = 2.0) -> Any:
    """Twenty queries at points of the data, k from 1 to 5, on a window of n rows that is full."""
    d = points.shape[1]
    names = tuple(f"x{j}" for j in range(d))
    random = np.random.default_rng(1)
    algorithm: Any = None
    for slot in range(SLOTS):
        place = np.nan_to_num(points[random.integers(0, len(points))]).tolist()
        shape, constants = lift(sb.nearest(dict(zip(names, place, strict=True)), 1, "6 rows").score)
        if algorithm is None:
            algorithm = WINDOWED["snn"]({"slack": slack}, Space(shape, names, -1.0))
        algorithm.add(1 + slot % 5, constants, Recency(0, 0))
    step(algorithm, points, 0, n, n)
    return algorithm


def step(algorithm: Any, points: Any, first: int, last: int, n: int) -> None:
    columns = tuple(np.ascontiguousarray(points[first:last, j]) for j in range(points.shape[1]))
    edges = np.zeros(SLOTS, dtype=np.int64), np.full(SLOTS, max(0, last - n))
    algorithm.step(
        columns, np.zeros(last - first, dtype=np.int64), np.arange(first, last), *edges, NONE, NONE
    )


def plainly(algorithm: Any, points: Any, slot: int, last: int, n: int) -> None:
    """A slot's answer is that of all rows of the window, scored and sorted."""
    part = points[last - n : last]
    good = algorithm.space.good(tuple(part.T), algorithm.constants[slot])
    seq = np.arange(last - n, last)[~np.isnan(good)]
    good = good[~np.isnan(good)]
    best = np.lexsort((seq, good))[::-1][: int(algorithm.ks[slot])]
    found = algorithm.top(slot, int(algorithm.ks[slot]), Recency(0, last - n))
    assert (found[0].tolist(), found[2].tolist()) == (good[best].tolist(), seq[best].tolist()), (last, slot)


def turned(algorithm: Any) -> list[int]:
    """Counts the rows that go the short way from now on."""
    seen = [0]
    whole = algorithm._turn

    def counted(used: Any) -> None:
        seen[0] += algorithm.store.end - algorithm.store.came
        whole(used)

    algorithm._turn = counted
    return seen


@pytest.mark.parametrize(
    "d", [2, pytest.param(1, marks=pytest.mark.soak), pytest.param(4, marks=pytest.mark.soak)]
)
@pytest.mark.parametrize("kind", ["plain", "wandering", "tied", "away", "missing"])
def test_batches_are_gone_through_row_by_row(kind: str, d: int) -> None:
    """One row at a time or ninety: the same lists and bars; and after every single row the top is that of the rows."""
    n, rows = 400, 1600
    points = data(kind, rows, d)
    one, many = made(points, n), made(points, n)
    counted, singly = turned(many), turned(one)
    for first in range(n, rows, 90):
        last = min(first + 90, rows)
        for row in range(first, last):
            step(one, points, row, row + 1, n)
            plainly(one, points, row % SLOTS, row + 1, n)
        step(many, points, first, last, n)
        if first % 180 == 40:
            one._check()
            many._check()
        for slot in range(SLOTS):
            k, horizon = int(one.ks[slot]), Recency(0, last - n)
            tops = [[c.tolist() for c in each.top(slot, k, horizon)] for each in (one, many)]
            assert tops[0] == tops[1], (first, slot)
        if counted[0] == singly[0] == last - n and kind != "missing":
            assert np.array_equal(one.bars.bar, many.bars.bar)
            for slot in range(SLOTS):
                assert np.array_equal(
                    one.ranked.seq[one.ranked.span(slot)], many.ranked.seq[many.ranked.span(slot)]
                )
    assert counted[0] > (rows - n) / 2  # most rows went the short way
    one._check()
    many._check()


def test_queries_come_and_go_between_batches() -> None:
    n, rows = 300, 1500
    points = data("plain", rows, 2)
    algorithm = made(points, n)
    constants = algorithm.constants.copy()
    counted = turned(algorithm)
    for number, first in enumerate(range(n, rows, 60)):
        if number % 3 == 1:
            algorithm.remove(number % SLOTS)
            algorithm.add(4, constants[(number * 7) % SLOTS], Recency(0, first - n))
        if number % 3 == 2:
            algorithm.resize(number % SLOTS, 1 + number % 6)
        step(algorithm, points, first, min(first + 60, rows), n)
        algorithm._check()
    assert counted[0] > 300


def test_time_windows_and_late_rows() -> None:
    """A window of time goes the same way; a late row, the longer one; both are the plain answer."""
    points = data("plain", 1200, 2)
    random = np.random.default_rng(5)
    monitor = sb.Monitor(time="t")
    for i in range(SLOTS):
        x, y = points[random.integers(0, len(points))].tolist()
        for name in ("snn", "ra"):
            query = sb.nearest({"x": x, "y": y}, 3, sb.last("30 seconds"), algorithm=name)
            monitor.watch(query, name=f"{name} {i}")
    now, counted = 0.0, [0]
    for first in range(0, 1200, 40):
        times = now + np.sort(random.random(40)) * random.choice([1.0, 4.0, 9.0])
        now = float(times[-1])
        if first % 240 == 200:
            times[3] -= 20.0
        part = points[first : first + 40]
        monitor.push({"x": part[:, 0], "y": part[:, 1], "t": times})
        if first == 400:
            counted = turned(monitor.watches["snn 0"].group.algorithm)
        for i in range(SLOTS):
            assert monitor.watches[f"snn {i}"].top().equals(monitor.watches[f"ra {i}"].top()), (first, i)
    assert counted[0] > 100
    monitor._check()


def test_slots_that_short_lists_cannot_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen bits name a slot in a cell's own list: cells that meet the region of a later one go by their bits."""
    monkeypatch.setattr(jit, "_interpreted", True)  # so that kernels see the smaller number
    monkeypatch.setattr(indexing, "NAMES", 7)
    n, rows = 300, 500
    points = data("plain", rows, 2)
    algorithm = made(points, n)
    short_way = turned(algorithm)
    for first in range(n, rows, 50):
        step(algorithm, points, first, first + 50, n)
        for slot in range(SLOTS):
            plainly(algorithm, points, slot, first + 50, n)
    algorithm._check()
    named = algorithm.index.named_
    assert np.count_nonzero(named == indexing.CROWDED) > 10 < np.count_nonzero(named == 1)
    assert short_way[0] > 0


@pytest.mark.parametrize("names", [1, 8, 128])
def test_more_queries_than_sixteen_bits_tell_apart(names: int) -> None:
    """With lists of any length in a cell, slots on both sides of 65,536 are told which rows concern them."""
    random = np.random.default_rng(5)
    shape, _ = lift(sb.nearest({"x": 0.5, "y": 0.5}, 1, "6 rows").score)
    space = Space(shape, ("x", "y"), -1.0)
    slots = np.array([0, 3, 65535, 65536, 65539, 65600])
    constants = np.full((65601, 2), np.nan)
    constants[slots] = random.random((len(slots), 2))
    index = QueryIndex(space, 2, 16, names=names)
    columns = random.random(500), random.random(500)
    index.learn(columns)
    index.provide(len(constants))
    least = np.full(len(constants), np.nan)
    least[slots] = -0.3
    for bars in (least[slots], least[slots] + 0.1, least[slots]):  # smaller once, so that cells are left, too
        index.register(slots, bars, constants)
        least[slots] = bars
        starts, found, values = index.look_up(columns, 0, 500, constants, least)
        for slot in slots.tolist():
            near = np.flatnonzero(space.good(columns, constants[slot]) >= least[slot])
            mine = slice(starts[slot], starts[slot + 1])
            assert np.array_equal(found[mine], near)
            assert np.array_equal(values[mine], space.good(columns, constants[slot])[near])
        index._check(columns, lambda slot: space.good(columns, constants[slot]))


def test_a_distance_is_compared_without_its_root() -> None:
    """What is compared has no root; rows at the very bar are found, to the last bit, be distances tiny or vast."""
    random = np.random.default_rng(11)
    shape, constants = lift(sb.nearest({"x": 0.5, "y": 0.5}, 1, "6 rows").score)
    space = Space(shape, ("x", "y"), -1.0)
    parts = compared(str(space.rendered), len(constants), -1.0)
    assert "sqrt" not in parts["raw"] and "sqrt" in parts["value"]
    assert compared(str(space.rendered), len(constants), 1.0)["value"] == "raw"  # the farthest: as it is
    for scale in (1e-170, 1e-20, 1.0, 1e150):
        columns = random.random(300) * scale, random.random(300) * scale
        points = np.stack([column[:5] for column in columns], axis=1)
        index = QueryIndex(space, 2, 16)
        index.learn(columns)
        least = np.array([np.sort(space.good(columns, point))[-20] for point in points])
        index.register(np.arange(5), least, points)
        least[4] = np.inf  # who wants nothing is given nothing
        starts, found, values = index.look_up(columns, 0, 300, points, least)
        for slot in range(5):
            good = space.good(columns, points[slot])
            mine = slice(starts[slot], starts[slot + 1])
            assert np.array_equal(found[mine], np.flatnonzero(good >= least[slot]))
            assert np.array_equal(values[mine], good[found[mine]])


@pytest.mark.parametrize("kind", ["even", "crowded", "far from zero", "few numbers"])
def test_the_table_alone_tells_a_cell_where_edges_begin_buckets(kind: str) -> None:
    """Edges moved to the first numbers of buckets, to the last bit; where many would fall together they stay."""
    random = np.random.default_rng(9)
    columns = [random.random(3000), random.random(3000)]
    if kind == "crowded":
        columns = [np.exp(12 * column) for column in columns]
    elif kind == "far from zero":
        columns = [1e15 + 64 * column for column in columns]
    elif kind == "few numbers":
        columns = [np.floor(3 * column) for column in columns]
    shape, constants = lift(sb.nearest({"x": 0.5, "y": 0.5}, 1, "6 rows").score)
    space = Space(shape, ("x", "y"), -1.0)
    index = QueryIndex(space, 2, 40)
    index.learn(tuple(columns))
    assert index.sharp == (kind == "even") or kind == "far from zero"
    points = np.array(constants) * 0 + np.stack([column[:9] for column in columns], axis=1)
    reaches = np.array([np.ptp(column) for column in columns]).max() * 0.05 * np.arange(1, 10)
    for times in (1.0, 0.4, 3.0, 0.0):  # regions that shrink and grow leave and enter cells
        index.register(np.arange(9), -reaches * times, points)
        index._check(tuple(columns), lambda slot: space.good(tuple(columns), points[slot]))
    index.register(np.arange(9), np.full(9, np.inf), points)
    assert not index.bits.any() and not index.named_[:-1].any()


def test_queries_that_come_to_many_rows_are_searched_for() -> None:
    """They take every row at first, though the window has plenty that are older than they are."""
    random = np.random.default_rng(1)
    monitor = sb.Monitor()
    pushed: list[Any] = []

    def watch(name: str) -> tuple[str, list[float]]:
        place = random.random(2).tolist()
        monitor.watch(
            f"SELECT x FROM s ORDER BY dist(x, y, {place[0]!r}, {place[1]!r}) LIMIT 5 WINDOW 3000 ROWS "
            "WITH (algorithm = 'snn')",
            name=name,
        )
        return name, place

    def push(rows: int) -> None:
        pushed.append(random.random((rows, 2)))
        monitor.push({"x": pushed[-1][:, 0], "y": pushed[-1][:, 1]})

    watched = [(*watch(f"early {i}"), 0) for i in range(12)]
    for _ in range(30):
        push(50)
    watched += [(*watch(f"late {i}"), 1500) for i in range(12)]
    for step in range(60):
        push(10 if step < 30 else 90)
        points = np.concatenate(pushed)
        for name, place, begin in watched:
            first = max(begin, len(points) - 3000)
            away = np.sqrt((points[first:, 0] - place[0]) ** 2 + (points[first:, 1] - place[1]) ** 2)
            best = first + np.lexsort((-np.arange(len(away)), away))[:5]
            assert monitor.watches[name].top()["seq"].to_pylist() == best.tolist(), (step, name)


def test_a_search_takes_rows_that_last() -> None:
    """The nearest rows came together and leave together: those that a search takes besides don't leave with them."""
    random = np.random.default_rng(5)
    n, k, ranks = 4000, 5, np.empty(300)
    good, rows = -random.random(300), np.sort(random.choice(n, 300, replace=False))
    for since in (0, 1000, 3000, 3990):
        taken = lasting(good, rows, 300, k, since, ranks)
        young = np.sort(good[rows >= since])[::-1]
        if len(young) < k:
            assert taken == 300  # all that there are
        else:
            assert taken == np.count_nonzero(good >= young[k - 1])
    # a whole search: who takes no more than usual has as many that came lately among them
    points = data("wandering", 2 * n, 2)
    algorithm = made(points, n)
    step(algorithm, points, n, 2 * n - 100, n)
    step(algorithm, points, 2 * n - 100, 2 * n, n)
    assert algorithm.turned
    slots, end = np.arange(SLOTS), algorithm.store.end
    algorithm._refill(turning(algorithm.space, 2), slots, np.full(SLOTS, end))
    line, keep = algorithm.arrived.line, algorithm.keep()
    more = 0
    for slot in slots.tolist():
        place = algorithm.arrived.place[line[slot, FIRST] : line[slot, END]] - algorithm.store.passed
        assert keep[slot] <= len(place) < line[slot, LIMIT]
        more += len(place) > keep[slot]
        if len(place) == keep[slot]:
            assert np.count_nonzero(place >= end - n // 4) >= algorithm.ks[slot]
    assert 0 < more < SLOTS
    algorithm._check()


def test_larger_regions_are_no_reason_to_cut_space_anew() -> None:
    shape, _ = lift(sb.nearest({"x0": 0.5, "x1": 0.5}, 1, "6 rows").score)
    index = QueryIndex(Space(shape, ("x0", "x1"), -1.0), 2, share=0.01)
    index.learn(tuple(np.random.default_rng(1).random((2, 1000))))
    for rate, share, due in ((3, 0.01, False), (7, 0.01, True), (7, 0.03, False), (19, 0.03, True)):
        index.first_rate = 3.0
        index.tally[:] = 20_000, 0, 20_000 * rate
        assert index.due(1000, lambda share=share: share) == due
    index.tally[:] = 20_000, 0, 140_000
    assert index.due(1000)
    index.tally[:] = 20_000, 2_000, 60_000  # many rows beyond all cells are one
    assert index.due(1000, lambda: 1.0)


def test_lists_of_rows_that_came_together_are_made_longer_before_they_run_short() -> None:
    points = data("wandering", 1200, 2)
    algorithm = made(points, 400)
    assert (algorithm.ahead == 1).all()
    searches = algorithm.counts[:, 1].copy()
    step(algorithm, points, 400, 401, 400)
    assert algorithm.turned
    together = algorithm.ahead == 2
    assert together.sum() > SLOTS // 2  # who has rows of one time is searched for at once
    assert np.array_equal(algorithm.counts[:, 1] - searches > 0, together)
    for last in range(402, 800):
        step(algorithm, points, last - 1, last, 400)
        for slot in range(SLOTS):
            plainly(algorithm, points, slot, last, 400)
    algorithm._check()
    shuffled = np.random.default_rng(5).permutation(points)
    algorithm = made(shuffled, 400)
    step(algorithm, shuffled, 400, 401, 400)
    assert algorithm.turned and (algorithm.ahead == 1).sum() > SLOTS // 2


def test_a_list_that_cannot_be_made_longer_stays() -> None:
    """A search that looks further ahead wants more rows than there are: what the list had counts."""
    points = np.full((500, 2), np.nan)
    points[200:221] = np.random.default_rng(4).random((21, 2))  # the nearest fifteen are enough for a bar
    points[400:450:5] = np.random.default_rng(5).random((10, 2))
    algorithm = made(points, 400)
    for last in range(401, 440):
        step(algorithm, points, last - 1, last, 400)
        assert algorithm.turned or last > 401
        for slot in range(SLOTS):
            plainly(algorithm, points, slot, last, 400)
    algorithm._check()
