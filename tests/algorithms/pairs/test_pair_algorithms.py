"""Every algorithm for pairs against all pairs: the skyband, and the answers for all k and windows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from skyband.algorithms import PAIRS
from skyband.algorithms.pairs import pair_base as limits
from skyband.algorithms.pairs import scase
from skyband.algorithms.pairs.pair_base import Question
from skyband.algorithms.pairs.pair_skyband import arrange, settling
from skyband.algorithms.pairs.scase import expected
from skyband.core.types import Recency
from skyband.query.expression import parse_expression
from skyband.query.expression.nodes import Column, walk
from skyband.query.model import Pairs, Rows

SKYBANDS = ["scase"]
GLOBAL = ["scase", "ta", "kd"]


@contextmanager
def compiled(after: float) -> Iterator[None]:
    """Loops are generated after so many pairs."""
    before = limits.COMPILE_AFTER, limits.COMPILE_KNOWN
    limits.COMPILE_AFTER = limits.COMPILE_KNOWN = after  # type: ignore[assignment]
    try:
        yield
    finally:
        limits.COMPILE_AFTER, limits.COMPILE_KNOWN = before


class Case(NamedTuple):
    score: str
    where: str | None = None
    descending: bool = False


def question_of(case: Case) -> Question:
    score = parse_expression(case.score)
    where = None if case.where is None else parse_expression(case.where)
    query = Pairs(None, None, score, case.descending, 1, Rows(1), where)
    parts = [part for part in (score, where) if part is not None]
    used = tuple(sorted({n.name for part in parts for n in walk(part) if isinstance(n, Column)}))
    return Question(score, where, query.same, 1.0 if case.descending else -1.0, used)


class Brute:
    """All rows ever, and all pairs of a window with their scores by a function of two rows."""

    def __init__(self, case: Case) -> None:
        self.case, self.rows = case, []  # type: ignore[var-annotated]

    def add(self, table: pa.Table, time: Any, seq: Any) -> None:
        self.rows += [*zip(time.tolist(), seq.tolist(), table.to_pylist(), strict=True)]
        self.rows.sort(key=lambda row: row[:2])

    def order(self, horizon: Recency) -> tuple[Any, Any, Any, Any]:
        """Good, older and newer place of each pair that fits, in the contract's order; and the seqs of the places."""
        inside = [row for row in self.rows if (row[0], row[1]) >= horizon]
        x = {name: np.array([row[2][name] for row in inside]) for name in ("x", "y", "c", "id")}
        n = len(inside)
        older, newer = np.triu_indices(n, 1)
        ways = []
        with np.errstate(all="ignore"):
            for a, b in ((older, newer), (newer, older)):
                names = {
                    f"{side}_{name}": values[at]
                    for name, values in x.items()
                    for side, at in (("a", a), ("b", b))
                }
                ways.append((FITS[self.case.where](names), SCORES[self.case.score](names)))
        score = np.where(ways[0][0], ways[0][1], np.where(ways[1][0], ways[1][1], np.nan))
        good = score if self.case.descending else -score
        there = np.flatnonzero(~np.isnan(good))
        order = there[np.lexsort((-newer[there], -older[there], -good[there]))]
        seqs = np.array([row[1] for row in inside], dtype=np.int64)
        return good[order] + 0.0, older[order], newer[order], seqs

    def best(self, horizon: Recency, k: int) -> list[tuple[float, int, int]]:
        good, older, newer, seqs = self.order(horizon)
        columns = good[:k].tolist(), seqs[older[:k]].tolist(), seqs[newer[:k]].tolist()
        return [*zip(*columns, strict=True)]

    def skyband(self, horizon: Recency, k: int) -> set[tuple[float, int, int]]:
        """Better ones come first: a pair stays if fewer than k of them have an older row that is as new or newer."""
        good, older, newer, seqs = self.order(horizon)
        kept: list[int] = []
        newest = [-1] * k  # of the older rows so far, ascending
        for i, place in enumerate(older.tolist()):
            if place > newest[0]:
                kept.append(i)
                newest = sorted([*newest, place])[1:]
        return {
            *zip(good[kept].tolist(), seqs[older[kept]].tolist(), seqs[newer[kept]].tolist(), strict=True)
        }


SCORES = {
    "abs(a.x - b.x) + abs(a.y - b.y)": lambda v: abs(v["a_x"] - v["b_x"]) + abs(v["a_y"] - v["b_y"]),
    "abs(a.x - b.x) * abs(a.y - b.y)": lambda v: abs(v["a_x"] - v["b_x"]) * abs(v["a_y"] - v["b_y"]),
    "a.x - 2 * b.y": lambda v: v["a_x"] - 2 * v["b_y"],
    "abs(a.x - b.x) / abs(a.y - b.y)": lambda v: abs(v["a_x"] - v["b_x"]) / abs(v["a_y"] - v["b_y"]),
    "ln(a.x + 1) - ln(b.x + 1) + a.y * b.y": lambda v: (
        np.log(v["a_x"] + 1) - np.log(v["b_x"] + 1) + v["a_y"] * v["b_y"]
    ),
    "dist(a.x, a.y, b.x, b.y) - abs(a.id - b.id)": lambda v: (
        np.sqrt(np.square(v["a_x"] - v["b_x"]) + np.square(v["a_y"] - v["b_y"])) - abs(v["a_id"] - v["b_id"])
    ),
    "exp(a.x * b.x)": lambda v: np.exp(v["a_x"] * v["b_x"]),
}
FITS = {
    None: lambda v: np.ones(len(v["a_x"]), dtype=bool),
    "a.id < b.id": lambda v: v["a_id"] < v["b_id"],
    "a.c = b.c": lambda v: v["a_c"] == v["b_c"],
    "a.c <> b.c AND a.id < b.id": lambda v: (v["a_c"] != v["b_c"]) & (v["a_id"] < v["b_id"]),
    "a.c = b.c AND a.x >= 0.5 AND NOT b.y > 0.75": lambda v: (
        (v["a_c"] == v["b_c"]) & (v["a_x"] >= 0.5) & ~(v["b_y"] > 0.75)
    ),
    "a.c < b.c": lambda v: v["a_c"] < v["b_c"],
    "a.id + 1 < b.id": lambda v: v["a_id"] + 1 < v["b_id"],
    "abs(a.x - b.x) < 0.25 OR a.id < 3": lambda v: (abs(v["a_x"] - v["b_x"]) < 0.25) | (v["a_id"] < 3),
}


def rows(
    random: np.random.Generator, n: int, lattice: int, colours: int, special: tuple[float, ...] = ()
) -> pa.Table:
    """No colours: each row has its own; a negative number: in runs of so many rows."""
    x, y = random.random(n), random.random(n)
    for value in special:
        x[random.random(n) < 0.04], y[random.random(n) < 0.04] = value, value
    if lattice:
        x, y = np.floor(x * lattice) / lattice, np.floor(y * lattice) / lattice
    drawn = (
        random.integers(0, colours, n)
        if colours > 0
        else np.arange(n) // max(1, -colours) % (n if colours == 0 else 3)
    )
    colour = [f"c{i}" for i in drawn]
    return pa.table({"x": x, "y": y, "c": colour, "id": random.integers(0, 50, n)})


def follow(
    names: list[str], case: Case, k: int, n: int, *, lattice: int = 0, late: int = 0, colours: int = 3, seed: int = 1,
    steps: int = 12, batch: int = 40, skyband: bool = True, special: tuple[float, ...] = (), refresh: float = 0,
    often: int = 3,
) -> list[Any]:  # fmt: skip
    """Run algorithms over a stream with a window of about n rows, and compare them with all pairs after each step."""
    random = np.random.default_rng(seed)
    question = question_of(case)
    made = [PAIRS[name]({"refresh": refresh} if refresh else {}, question) for name in names]
    brute, seq = Brute(case), 0
    for one in made:
        one.k = k
    for step in range(steps):
        size = int(random.integers(1, batch))
        table = rows(random, size, lattice, colours, special)
        seqs = np.arange(seq, seq + size)
        time = 10 * seqs - (random.integers(0, 10 * late, size) * (random.random(size) < 0.3) if late else 0)
        seq += size
        order = np.lexsort((seqs, time))
        brute.add(table, time, seqs)
        recencies = [row[:2] for row in brute.rows]
        horizon = Recency(*recencies[max(0, len(recencies) - n)])
        kept = np.array(
            [tuple(r) >= horizon for r in zip(time[order].tolist(), seqs[order].tolist(), strict=True)]
        )
        chosen = order[kept]
        for one in made:
            one.expire(horizon)
            one.add(table.select(question.used).take(pa.array(chosen)), time[chosen], seqs[chosen])
            one._check()
        if step % often == often - 1 or step == steps - 1:
            compare(made, brute, horizon, recencies, k, skyband)
    return made


def compare(
    made: list[Any], brute: Brute, horizon: Recency, recencies: list[Any], k: int, skyband: bool
) -> None:
    inside = [Recency(*recency) for recency in recencies if recency >= horizon]
    wanted = brute.skyband(horizon, k) if skyband else None
    for one in made:
        if wanted is not None:
            good, older, newer = one.pairs
            seqs = [one.rows.recency(numbers)[1].tolist() for numbers in (older, newer)]
            assert {*zip(good.tolist(), *seqs, strict=True)} == wanted
        for start in inside[:: max(1, len(inside) // 6)]:
            best = brute.best(start, k)
            for some in {1, max(1, k // 2), k}:
                found = one.best(some, start)
                assert [
                    *zip(found.good.tolist(), found.seq.tolist(), found.seq_b.tolist(), strict=True)
                ] == best[:some]


CASES = [
    Case("abs(a.x - b.x) + abs(a.y - b.y)"),
    Case("abs(a.x - b.x) * abs(a.y - b.y)", None, True),
    Case("a.x - 2 * b.y", "a.id < b.id", True),
    Case("abs(a.x - b.x) / abs(a.y - b.y)", "a.c <> b.c AND a.id < b.id", True),
    Case("abs(a.x - b.x) + abs(a.y - b.y)", "a.c = b.c"),
    Case("ln(a.x + 1) - ln(b.x + 1) + a.y * b.y", "a.c = b.c AND a.x >= 0.5 AND NOT b.y > 0.75"),
    Case("dist(a.x, a.y, b.x, b.y) - abs(a.id - b.id)", "abs(a.x - b.x) < 0.25 OR a.id < 3"),
    Case("exp(a.x * b.x)", "a.c < b.c", True),
    Case("a.x - 2 * b.y", "a.id + 1 < b.id", True),
]


@pytest.mark.parametrize("case", [CASES[i] for i in (0, 3, 5, 7, 8)], ids=str)  # all of them in the soak
def test_the_skyband_is_that_of_all_pairs(case: Case) -> None:
    for after, lattice, late in ((0, 0, 20), (0, 4, 0), (np.inf, 4, 30)):
        with compiled(after):
            follow(SKYBANDS, case, 6, 90, lattice=lattice, late=late)


@pytest.mark.parametrize("together", [0, 10**9])
def test_late_rows_are_stored_one_by_one_or_together(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scase, "_LATE_ROWS", together)
    for case, after in ((CASES[0], 0), (CASES[0], np.inf), (CASES[4], np.inf), (CASES[8], np.inf)):
        with compiled(after):
            for lattice, late in ((0, 200), (3, 20)):
                (one,) = follow(SKYBANDS, case, 6, 90, lattice=lattice, late=late)
                assert one.counts["late rows"] > 20
                follow(SKYBANDS, case, 6, 90, lattice=lattice, late=late, refresh=4, skyband=False)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("case", CASES, ids=str)
def test_at_length(case: Case, seed: int) -> None:
    for k, n, lattice, late, colours in (
        (1, 33, 0, 0, 3),
        (6, 700, 8, 0, 3),
        (20, 205, 2, 60, 1),
        (20, 130, 0, 400, 0),
    ):
        for after in (0, np.inf, 5000):
            with compiled(after):
                follow(
                    SKYBANDS,
                    case,
                    k,
                    n,
                    lattice=lattice,
                    late=late,
                    colours=colours,
                    seed=seed,
                    steps=25,
                    batch=150,
                )


def test_windows_longer_than_a_chunk() -> None:
    """Chunks of 256 and blocks of 32, with bars inside and between them."""
    with compiled(0):
        for case in (CASES[0], CASES[3]):
            follow(SKYBANDS, case, 6, 700, steps=12, batch=200)
            follow(SKYBANDS, case, 6, 700, lattice=8, late=300, steps=9, batch=200)


@pytest.mark.parametrize("after", [0, np.inf])
def test_answers_are_exact_after_every_row_while_pairs_wait(after: float) -> None:
    """One row a step, and the skyband refreshed every fourth: what waits is in the answers."""
    case = CASES[0]
    for late in (0, 20):
        with compiled(after):
            made = follow(
                ["scase"],
                case,
                5,
                30,
                lattice=6,
                late=late,
                steps=60,
                batch=2,
                skyband=False,
                refresh=4,
                often=1,
            )
            assert made[0].counts["sweeps"] < 40
            if not late:  # the best are kept in order, row after row
                assert made[0].foremost.known == (after == 0)
            copy = PAIRS["scase"]({"refresh": 4.0}, question_of(case))
            copy.load(made[0].dump())
            assert copy.best(5, Recency(0, 0))[0].tolist() == made[0].best(5, Recency(0, 0))[0].tolist()


@pytest.mark.parametrize("lattice", [0, 1, 3])  # of one value: all rows are alike, and all pairs equally good
def test_every_k_and_window_after_every_row(lattice: int) -> None:
    """Farthest pairs: every eighth row is far from all others, so that it is in all the best pairs until it leaves."""
    case, n, most = Case(next(iter(SCORES)), None, True), 12, 4
    random, question = np.random.default_rng(lattice), question_of(case)
    made = [PAIRS[name]({}, question) for name in ("scase", "basic", "naive", "ta", "kd")]
    brute = Brute(case)
    for one in made:
        one.k = most
    for seq in range(40):
        table = rows(random, 1, lattice, 1)
        if seq % 8 == 5:
            table = table.set_column(0, "x", pa.array([100.0 + (seq if lattice == 0 else 0)]))
        time, seqs = np.zeros(1, dtype=np.int64), np.array([seq])
        brute.add(table, time, seqs)
        low = max(0, seq + 1 - n)
        for one in made:
            one.expire(Recency(0, low))
            one.add(table.select(question.used), time, seqs)
            one._check()
        for start in range(low, seq + 1):
            best = brute.best(Recency(0, start), most)
            for one in made:
                asked = [(k, Recency(0, start)) for k in range(1, most + 1)]
                for found, (k, _) in zip(one.tops(asked), asked, strict=True):
                    given = zip(found.good.tolist(), found.seq.tolist(), found.seq_b.tolist(), strict=True)
                    assert [*given] == best[:k]


def test_the_yardsticks_find_the_same() -> None:
    for case in (CASES[0], CASES[3], CASES[4]):
        for lattice, late in ((0, 0), (4, 20)):
            follow(["scase", "basic"], case, 5, 50, lattice=lattice, late=late, steps=8, batch=20)
            follow(["naive"], case, 5, 50, lattice=lattice, late=late, steps=8, batch=20, skyband=False)


def test_rows_of_the_same_colour_just_before_a_row_are_not_looked_at() -> None:
    """Where colours must differ: of one colour nothing is, of runs of a colour what is before the run."""
    for after in (0, np.inf):
        with compiled(after):
            (one,) = follow(SKYBANDS, CASES[3], 6, 90, colours=1, late=20)
            assert one.counts["pairs scored"] == 0 or one.counts["late rows"]
            (one,) = follow(SKYBANDS, CASES[3], 6, 90, colours=1)
            assert one.counts["pairs scored"] == 0 and one.counts["rows"] > 90
            (some,) = follow(SKYBANDS, CASES[3], 6, 90, colours=-7, late=10)
            (all_of,) = follow(SKYBANDS, CASES[2], 6, 90, colours=-7, late=10)
            assert some.counts["pairs scored"] < 0.98 * all_of.counts["pairs scored"]


@pytest.mark.parametrize(
    "which",
    [((0, None),), pytest.param(((1, None), (0, "a.c = b.c"), (1, "a.id < b.id")), marks=pytest.mark.soak)],
)
@pytest.mark.parametrize("descending", [False, True])
def test_sorted_lists_and_a_tree_find_the_same_skyband(
    descending: bool, which: tuple[tuple[int, str | None], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stretches, lists and leaves are much shorter than the window here, so that each row takes several turns."""
    for name, length in (
        ("ta_search.STRETCH", 16),
        ("ta_search.ENTRIES", 3),
        ("kd_tree.LAG", 16),
        ("kd_tree.LEAF", 2),
    ):
        monkeypatch.setattr(f"skyband.algorithms.pairs.{name}", length)
    with compiled(0):
        for score, where in which:
            case = Case([*SCORES][score], where, descending)
            for lattice, late in ((0, 0), (5, 40)):
                made = follow(GLOBAL, case, 6, 300, lattice=lattice, late=late, steps=10, batch=120)
                for one in made[1:]:
                    counts = one.counters(0)
                    assert counts["pairs accessed"] < 2 * counts["pairs there were"]


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(12))
def test_a_tree_at_length(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Built anew many times, with late rows, rows without a number, infinities, and steps from one row to many."""
    monkeypatch.setattr("skyband.algorithms.pairs.kd_tree.LAG", (1, 16, 40)[seed % 3])
    monkeypatch.setattr("skyband.algorithms.pairs.kd_tree.LEAF", (1, 3)[seed % 2])
    special = () if seed % 2 else (np.inf, -np.inf, 1e300, np.nan, 0.0)
    with compiled(0):
        for descending in (False, True):
            case = Case([*SCORES][seed % 2], (None, "a.id < b.id")[seed // 2 % 2], descending)
            for n, batch in ((40, 4), (400, 150)):
                late = (0, 40, 400)[seed // 4]
                follow(["kd"], case, 5, n, lattice=(0, 4)[seed % 2], late=late, steps=30, batch=batch, seed=seed,
                       special=special)  # fmt: skip


def test_more_ranks_than_pairs_and_colours_of_one_row() -> None:
    for after in (0, np.inf):
        with compiled(after):
            follow(SKYBANDS, CASES[0], 8, 4, batch=3)
            follow(SKYBANDS, CASES[4], 6, 40, colours=0)
            follow(SKYBANDS, CASES[4], 6, 40, colours=1)


@pytest.mark.parametrize("after", [0, np.inf])
def test_infinities_huge_numbers_and_none(after: float) -> None:
    """Differences of infinities are no numbers; numbers that float32 can't hold are tested in float64."""
    with compiled(after):
        for case in (CASES[0], CASES[3]):
            follow(SKYBANDS, case, 6, 90, special=(np.inf, -np.inf, 1e300, 1e-300, 0.0), late=10)


def test_a_late_row_of_every_age() -> None:
    case, n = CASES[0], 24
    for age in range(n + 1):
        random = np.random.default_rng(age)
        made, brute = PAIRS["scase"]({}, question_of(case)), Brute(case)
        made.k = 5
        table, seqs = rows(random, n + 1, 3, 2), np.arange(n + 1)
        time = np.append(10 * np.arange(n), 10 * (n - age) - 5)
        brute.add(table, time, seqs)
        for begin, end in ((0, n), (n, n + 1)):
            made.add(table.select(["x", "y"]).slice(begin, end - begin), time[begin:end], seqs[begin:end])
            made._check()
        recencies = [row[:2] for row in brute.rows]
        compare([made], brute, Recency(-100, 0), recencies, 5, True)
        assert made.counts["late rows"] == (age > 0)


@pytest.mark.parametrize("name", ["scase", "ta", "kd", "basic", "naive"])
def test_many_late_rows_at_once(name: str) -> None:
    """As retained rows come, when a watch gets a longer window."""
    for case in (CASES[0], CASES[4], CASES[7]) if name == "scase" else (CASES[0],):
        random, question = np.random.default_rng(3), question_of(case)
        made, brute = PAIRS[name]({}, question), Brute(case)
        made.k = 5
        for begin, end in ((100, 150), (0, 100), (150, 160)):
            table, seqs = rows(random, end - begin, 4, 3), np.arange(begin, end)
            brute.add(table, 10 * seqs, seqs)
            made.add(table.select(question.used), 10 * seqs, seqs)
            made._check()
        recencies = [row[:2] for row in brute.rows]
        compare([made], brute, Recency(-100, 0), recencies, 5, name != "naive")
        assert made.counts["late rows"] == 100


def test_the_figures_of_the_paper() -> None:
    """Six pairs by age and score, the least score best, K = 2: one has two dominators, and the staircase has four
    points."""
    ages, scores = [3, 2, 5, 6, 9, 7], [8.0, 7.0, 4.0, 1.0, 2.0, 5.0]
    first, newest = 0, 11  # a row is numbered 11 less its age
    state = np.array([0, 0, 6, 0, -1])
    columns = [(np.empty(32), np.empty(32, dtype=np.int64), np.empty(32, dtype=np.int64)) for _ in range(3)]
    for i in range(6):
        columns[1][0][i], columns[1][1][i], columns[1][2][i] = -scores[i], 11 - ages[i], 11
    bar = np.full(12, np.nan)
    settling(2).settle(state, *columns[0], *columns[1], 2, np.empty(4), bar, 0, first, newest, *columns[2])
    kept = {(11 - int(columns[0][1][i]), -float(columns[0][0][i])) for i in range(state[1])}
    assert kept == {*zip(ages, scores, strict=True)} - {(7, 5.0)}
    by_age = {age: -float(bar[11 - age]) for age in range(12)}
    assert [by_age[age] for age in (4, 5, 6, 7, 8, 9, 10, 11)] == [8.0, 8.0, 7.0, 4.0, 4.0, 4.0, 2.0, 2.0]
    assert all(np.isnan(by_age[age]) for age in (0, 1, 2, 3))


def test_mean_sizes_along_a_stream() -> None:
    made, random = PAIRS["scase"]({}, question_of(CASES[0])), np.random.default_rng(9)
    made.k, sizes = 6, []
    with compiled(0):
        for begin in range(0, 100_000, 200):
            made.expire(Recency(0, begin - 800))
            table = pa.table({"x": random.random(200), "y": random.random(200)})
            made.add(table, np.zeros(200, dtype=np.int64), np.arange(begin, begin + 200))
            sizes.append(len(made.pairs[0]))
    assert abs(np.mean(sizes[5:]) / expected(6, 1000) - 1) < 0.02


def test_the_size_is_as_expected() -> None:
    """Mean sizes over a long stream, against the exact expectation for scores that are independent of age."""
    assert [round(expected(k, 10_000), 2) for k in (1, 5, 10, 20, 50, 100)] == [
        17.58, 82.54, 160.09, 308.50, 730.86, 1398.21,
    ]  # fmt: skip
    assert round(expected(20, 1_000_000), 2) == 492.71


def test_more_new_pairs_than_two_bytes_count() -> None:
    """A row that is paired with all of a long window, and then another one."""
    n = 70_000
    older = np.concatenate([np.arange(n)[::-1], [5, 4, 3]])
    newer = np.concatenate([np.full(n, n), np.full(3, n + 1)])
    good = np.random.default_rng(1).random(n + 3)
    order = np.lexsort((-newer, -good, -older))
    wanted = good[order], older[order], newer[order]
    assert arrange(good, older, newer, n + 3, 0) == n + 3
    for found, right in zip((good, older, newer), wanted, strict=True):
        assert np.array_equal(found, right)
