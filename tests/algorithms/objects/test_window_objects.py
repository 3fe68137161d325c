"""Objects against plain Python: every total to the last bit, whatever came and went."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.algorithms.objects.aggregates import LAST, MAX, SUM, Aggregate
from skyband.algorithms.objects.exact_sum import WIDTH, add_wide, read_wide
from skyband.algorithms.objects.top_objects import Leaders
from skyband.algorithms.objects.window_objects import Objects
from skyband.core.types import Recency

TRICKY = [0.1, 1e308, -1e308, 5e-324, 1.0, -1.0, 2.0**53, 1e-30, math.inf, -math.inf, 0.0, -0.0]
values = st.one_of(st.sampled_from(TRICKY), st.floats(allow_nan=False), st.integers(-3, 3).map(float))


def exact(numbers: list[float]) -> float:
    """The sum, rounded once; infinities as IEEE adds them."""
    infinite = {x for x in numbers if math.isinf(x)}
    if infinite:
        return math.nan if len(infinite) == 2 else infinite.pop()
    total = sum(map(Fraction, numbers), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def same(one: float, other: float) -> bool:
    return one == other or (one != one and other != other)


@given(st.lists(st.tuples(values, st.booleans()), max_size=12))
def test_wide_sums_lose_nothing(steps: list[tuple[float, bool]]) -> None:
    sums = np.zeros((1, WIDTH), dtype=np.int64)
    held: list[float] = []
    for value, takes in steps:
        if takes and held:
            add_wide(sums, 0, held.pop(0), -1)
        else:
            held.append(value)
            add_wide(sums, 0, value, 1)
        assert same(read_wide(sums, 0), exact(held))


@given(st.data())
def test_totals_are_those_of_the_rows_in_the_window(data: st.DataObject) -> None:
    """Sums, greatest and last values of two streams; rows late, deleted, infinite, saved and read again."""
    size = data.draw(st.integers(1, 12))
    k = data.draw(st.integers(1, 4))
    texts = data.draw(st.booleans())
    several = data.draw(st.booleans())
    plan = tuple(Aggregate(kind, 0, stream) for stream in range(1 + several) for kind in (SUM, MAX, LAST))

    def scores(objects: Any, codes: Any, totals: Any, counts: Any) -> Any:
        return totals[0] + 0.0

    objects = Objects(plan, 1, several)
    rows: list[tuple[int, int, str, float, int]] = []
    seq = 0
    for step in range(data.draw(st.integers(1, 8))):
        batch = data.draw(
            st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abcde"), values), max_size=6), label="rows"
        )
        stream = data.draw(st.integers(0, 1)) if several else 0
        came = [(3 * step - back, seq + i, key, value, stream) for i, (back, key, value) in enumerate(batch)]
        seq += len(came)
        rows = sorted(rows + came)
        horizon = rows[-size][:2] if len(rows) >= size else (-(2**63), -(2**63))
        objects.expire(Recency(*horizon))
        objects.horizon = Recency(*horizon)  # late rows may move a row window's edge back
        came.sort()
        if came:
            keys = [key if texts else ord(key) for _, _, key, _, _ in came]
            objects.add(
                pa.array(keys),
                (np.array([row[3] for row in came]),),
                np.array([row[0] for row in came]),
                np.array([row[1] for row in came]),
                stream,
            )
        rows = [row for row in rows if row[:2] >= horizon]
        if rows and data.draw(st.booleans()):
            gone = rows.pop(data.draw(st.integers(0, len(rows) - 1)))
            objects.delete(np.array([gone[0]]), np.array([gone[1]]))
        objects.settle(scores)
        objects._check()
        check(objects, rows, k, texts, several)
        if data.draw(st.booleans()):
            other = Objects(plan, 1, several)
            other.load(objects.dump(), scores)
            other._check()
            check(other, rows, k, texts, several)
            objects = other
        if rows:
            nearer = Recency(*rows[len(rows) // 2][:2])
            check(objects.within(nearer, scores), rows[len(rows) // 2 :], k, texts, several)


def check(
    objects: Objects, rows: list[tuple[int, int, str, float, int]], k: int, texts: bool, several: bool
) -> None:
    by: dict[Any, list[tuple[int, int, str, float, int]]] = {}
    for row in rows:
        by.setdefault(row[2] if texts else ord(row[2]), []).append(row)
    assert len(objects) == len(by)
    ranked = []
    for key, own in by.items():
        total = exact([row[3] for row in own if row[4] == 0])
        if total == total:
            ranked.append((total, *own[-1][:2], key))
    ranked.sort(reverse=True)
    codes, good, time, seq = objects.best(k)
    keys = objects.keys.values(codes).to_pylist() if objects.keys is not None else []
    assert [*zip(good.tolist(), time.tolist(), seq.tolist(), keys, strict=True)] == ranked[:k]
    totals, counts = objects.values(codes)
    for i, key in enumerate(keys):
        assert counts[i] == len(by[key])
        for stream in range(1 + several):
            told = [row[3] for row in by[key] if row[4] == stream]
            expected = [exact(told), max(told), told[-1]] if told else [0.0, 0.0, 0.0]
            assert all(map(same, totals[3 * stream : 3 * stream + 3, i].tolist(), expected))


@pytest.mark.parametrize("k", [5, 70])  # few ranks, and many
@pytest.mark.parametrize("falling", [False, True])
def test_the_bar_is_seldom_set_anew(falling: bool, k: int) -> None:
    """Of many objects only a few are looked at for an answer, and all scores seldom."""
    random = np.random.default_rng(3)
    leaders = Leaders()
    leaders.reserve(20_000)
    none, latest = np.zeros(30_000, dtype=np.int64), np.arange(30_000, dtype=np.int32)
    leaders.update(np.arange(20_000), random.random(20_000))
    for step in range(200):
        some = random.choice(20_000, 100, replace=False)
        leaders.update(some, random.random(100) * (0.99**step if falling else 1.0))
        best = leaders.best(k, latest, none, none)
        leaders._check()
        assert leaders.good[best].tolist() == sorted(leaders.good[:20_000], reverse=True)[:k]
    assert 0 <= leaders.rebuilds <= 8 and len(leaders.codes) < 5_000


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(
    ("aggregates", "plain"),
    [
        ((Aggregate(SUM, 0),), (0,)),
        ((Aggregate(SUM, 0), Aggregate(SUM, 1)), (1,)),
        ((Aggregate(SUM, 0), Aggregate(SUM, 1)), (1, 0)),
        ((Aggregate(SUM, 0, 0), Aggregate(SUM, 0, 1)), (0, 1)),
    ],
)
def test_plain_scores_are_those_of_the_rows_in_the_window(aggregates: Any, plain: Any, sign: float) -> None:
    """Sums that need every bit, infinities, objects that lose all rows and come back, late rows and deleted ones."""
    random, several = np.random.default_rng(len(plain)), aggregates[-1].stream > 0
    width = 1 + max(a.column for a in aggregates)
    objects = Objects(aggregates, width, several, None, plain, sign)
    rows: list[tuple[int, int, int, int, tuple[float, ...]]] = []  # time, seq, key, stream, values
    wild = [1.0, -1.0, 0.1, 1e300, -1e300, 1e-300, 5e-324, 3.0]
    seq = 0
    for step in range(120):
        horizon = Recency(step - 8, 0)
        objects.expire(horizon)
        rows = [row for row in rows if row[:2] >= horizon]
        some = [row for row in rows if random.random() < 0.1] if step % 4 == 0 else []
        objects.delete(*(np.array([row[i] for row in some], dtype=np.int64) for i in (0, 1)))
        rows = [row for row in rows if row not in some]
        for stream in range(1 + several):
            n = int(random.integers(0, 5))
            time = np.sort(step - random.integers(0, 3, n) * (step % 3 == 0))
            values = random.choice([*wild, np.inf, -np.inf] if 40 < step < 60 else wild, (width, n))
            keys, seqs = random.integers(0, 6, n), np.arange(seq, seq + n)
            seq += n
            objects.add(pa.array(keys), tuple(values), time, seqs, stream)
            columns = (time, seqs, keys, [stream] * n, values.T)
            rows += [
                (int(t), int(q), int(key), s, tuple(row)) for t, q, key, s, row in zip(*columns, strict=True)
            ]
        objects.settle(lambda *_: np.empty(0))
        objects._check()
        wanted = []
        for key in {row[2] for row in rows}:
            own = [row for row in rows if row[2] == key]
            total = math.nan
            for i, a in enumerate(plain):
                _, column, stream = aggregates[a]
                part = exact([row[4][column] for row in own if row[3] == stream])
                with np.errstate(invalid="ignore"):
                    total = part if i == 0 else total + part
            if total == total:
                wanted.append((sign * total + 0.0, max(row[:2] for row in own), key))
        codes, good, time, seqs = objects.best(4)
        found = [*zip(good.tolist(), zip(time.tolist(), seqs.tolist(), strict=True), strict=True)]
        assert found == [row[:2] for row in sorted(wanted, reverse=True)[:4]]
        if objects.keys is not None:
            assert objects.keys.values(codes).to_pylist() == [
                row[2] for row in sorted(wanted, reverse=True)[:4]
            ]
